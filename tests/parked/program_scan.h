/* program_scan.h: words and numbers of the program text, with their place. */
#ifndef LUO_TESTS_PARKED_PROGRAM_SCAN_H
#define LUO_TESTS_PARKED_PROGRAM_SCAN_H
#include "core/base/str.h"

typedef struct scanner {
    luo_arena *arena; /* of what is read */
    const char *at;   /* next byte of the line */
    const char *line; /* its start */
    const char *end;  /* of the text: bounds every count */
    int number;       /* of the line */
    luo_err *err;
} scanner;

/* LUO_EPARSE `expected WHAT` at the place. */
luo_status luo_scan_wrong(scanner *r, const char *what);
void luo_scan_skip_blanks(scanner *r);
bool luo_scan_at_end(scanner *r);
/* To the first word of the next line that has one; an error if this line has more. */
luo_status luo_scan_end_line(scanner *r);
size_t luo_scan_word_length(const scanner *r);
/* True, and past it, if the next word is `word`. */
bool luo_scan_accept(scanner *r, const char *word);
luo_status luo_scan_need(scanner *r, const char *word);
/* A number lo..hi right here; the others below skip blanks first. */
luo_status luo_scan_integer(scanner *r, int64_t lo, int64_t hi, int64_t *out);
luo_status luo_scan_number64(scanner *r, int64_t *out);
luo_status luo_scan_number32(scanner *r, int32_t lo, int32_t *out);
luo_status luo_scan_field32(scanner *r, const char *name, int32_t *out);
/* " NAME n" where each of n things takes a byte of text at least. */
luo_status luo_scan_count(scanner *r, const char *name, int32_t *out);
/* " NAME id" with exactly this id. */
luo_status luo_scan_identity(scanner *r, const char *name, int32_t id);
/* One of names[0..n). */
luo_status luo_scan_choice(scanner *r, const char *const *names, int32_t n, int32_t *out);
luo_status luo_scan_name(scanner *r, const char **out);
/* "1,2,3" */
luo_status luo_scan_list64(scanner *r, const int64_t **out, int32_t *n);
/* "5x3,4" for 5,5,5,4; at most `most` numbers. */
luo_status luo_scan_runs64(scanner *r, int32_t most, const int64_t **out, int32_t *n);
luo_status luo_scan_list32(scanner *r, const int32_t **out, int32_t *n);
#endif
