/* data_internal.h: what the files of the corpus share; not for others.
 *
 * Notation: N tokens on the ring, position 0 <= at < N. An entry is what a file stores at an index:
 * in token files the end marks are entries but no tokens.
 */
#ifndef LUO_EXEC_DATA_DATA_INTERNAL_H
#define LUO_EXEC_DATA_DATA_INTERNAL_H
#include "core/base/rng.h"
#include "exec/data/data.h"

typedef enum luo_corpus_kind {
    LUO_CORPUS_SYNTHETIC,
    LUO_CORPUS_TEXT,
    LUO_CORPUS_TOKENS
} luo_corpus_kind;

enum { LUO_CORPUS_BLOCK = 1024, LUO_CORPUS_PHRASE = 12 };

struct luo_corpus {
    luo_arena *arena;
    const char *name;
    luo_corpus_kind kind;
    uint64_t seed;
    int64_t vocab, tokens;     /* tokens: N */
    const unsigned char *file; /* mapped */
    size_t bytes;
    int32_t width; /* bytes of an entry */
    int64_t entries;
    const int64_t *before; /* TOKENS: tokens before entry j * LUO_CORPUS_BLOCK */
    int64_t nbefore;
};

/* A place from which tokens are read on. */
typedef struct luo_corpus_at {
    const luo_corpus *c;
    int64_t at, entry;
    struct { /* SYNTHETIC: the document at hand */
        luo_rng rng;
        int64_t left;
        int32_t n, next, phrase[LUO_CORPUS_PHRASE];
    } drawn;
} luo_corpus_at;

/* Opens and scans a file. */
luo_status luo_corpus_map(luo_corpus *corpus, const char *path, luo_err *err);
void luo_corpus_unmap(luo_corpus *corpus);

/* Cost: O(LUO_CORPUS_BLOCK + log N). */
void luo_corpus_seek(luo_corpus_at *corpus_at, const luo_corpus *corpus, int64_t at);
/* The token here, then one further; *begins: a document begins with it. */
int32_t luo_corpus_next(luo_corpus_at *corpus_at, bool *begins);

/* The same for tokens that are drawn. */
void luo_synthetic_seek(luo_corpus_at *corpus_at);
int32_t luo_synthetic_next(luo_corpus_at *corpus_at, bool *begins);

/* Row at place `index` of the endless list: epochs of n rows each, shuffled by seed and epoch. */
int64_t luo_corpus_shuffled(uint64_t seed, int64_t n, int64_t index);
#endif
