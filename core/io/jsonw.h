/* jsonw.h: writes JSON text with chosen number formats, so that equal values give equal
 * bytes; numbers that are not finite become null.
 *
 *   luo_jsonw w = luo_jsonw_start(&text);
 *   luo_jsonw_open(&w, NULL, '{'); luo_jsonw_int(&w, "steps", 3); luo_jsonw_close(&w);
 * `key` is NULL inside lists and for the whole. */
#ifndef LUO_CORE_IO_JSONW_H
#define LUO_CORE_IO_JSONW_H
#include <stdbool.h>

#include "core/base/str.h"

typedef struct luo_jsonw {
    luo_str *out;
    int depth;
    char kind[32];   /* '{' or '[' of each open level */
    bool filled[32]; /* something stands in it already */
} luo_jsonw;

luo_jsonw luo_jsonw_start(luo_str *out);
void luo_jsonw_open(luo_jsonw *json, const char *key, char kind); /* kind '{' or '[' */
void luo_jsonw_close(luo_jsonw *json);
void luo_jsonw_text(luo_jsonw *json, const char *key, const char *v); /* NULL: null */
void luo_jsonw_int(luo_jsonw *json, const char *key, int64_t v);
/* Above 2^63 - 1, which JSON readers do not keep, as decimal text. */
void luo_jsonw_seed(luo_jsonw *json, const char *key, uint64_t v);
void luo_jsonw_num(luo_jsonw *json, const char *key, double v, int decimals);
void luo_jsonw_hash(luo_jsonw *json, const char *key, uint64_t v);
/* A number, true, false or null as it is written. */
void luo_jsonw_word(luo_jsonw *json, const char *key, const char *v);
void luo_jsonw_bool(luo_jsonw *json, const char *key, bool v);
/* s as a JSON string with its quotes. */
void luo_jsonw_quote(luo_str *out, const char *s);
#endif
