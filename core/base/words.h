/* words.h: a word that is none of a list of names: which one was meant, and how to say
 * it. */
#ifndef LUO_CORE_BASE_WORDS_H
#define LUO_CORE_BASE_WORDS_H
#include "core/base/str.h"

/* A noun whose values have words is one list, X(VALUE, "word"): its enum, an array of its words by
 * value and (core/io/document/doc_table.h) the words of a key are made of that by these. */
#define LUO_WORD_VALUE(value, word) value,
#define LUO_WORD_TEXT(value, word) [value] = word,
#define LUO_WORD_ONLY(value, word) word,

/* Damerau-Levenshtein distance (restricted), at most `limit` + 1. */
int luo_word_distance(const char *a, const char *b, int limit);
/* Which of names[0..n) is meant: what other tools call it; the nearest at distance <= 2 and less
 * than half of its length, the first on ties; one with another unit suffix; the only one with the
 * same beginning of 3 letters or more; else NULL. */
const char *luo_word_nearest(const char *word, const char *const *names, int n);
/* "`a`, `b` or `c`" */
void luo_words_choices(luo_str *text, const char *const *names, int n);
/* The second half of a sentence about a word that is none of names: "did you mean `slow`?", or
 * "`a`, `b` or `c` is expected." */
void luo_words_expected(luo_str *text, const char *word, const char *const *names, int n);
#endif
