/* json.h: strict reading of our own JSON files with jansson (docs/formats.md#rules-for-all-files).
 *
 * jansson keeps no positions: a luo_json_at is a chain on the C stack from the value up to the
 * root, from which the JSON pointer and then the line are made, only when there is an error. */
#ifndef LUO_CORE_IO_DOCUMENT_JSON_H
#define LUO_CORE_IO_DOCUMENT_JSON_H
#include <jansson.h>

#include "core/io/io.h"
#include "core/io/say.h"

typedef struct luo_json {
    luo_arena *arena;
    const luo_source *src;
    luo_diags *diags;
    luo_status st; /* of the first error */
} luo_json;

typedef struct luo_json_at {
    const struct luo_json_at *up; /* NULL: the root */
    const char *key;              /* in an object; NULL: in an array, at index */
    size_t index;
    json_t *v; /* NULL: not given */
} luo_json_at;

typedef struct luo_json_key {
    const char *name;
    bool required;
} luo_json_key;

/* Parses src. NULL: a syntax error or duplicate key, which is in j->diags; else to be given back
 * with json_decref. */
json_t *luo_json_load(luo_json *j);
/* Appends an error at the value (at_key: at its key); returns LUO_EINPUT. */
luo_status luo_json_error(luo_json *j, const luo_json_at *at, bool at_key, const char *fmt, ...)
    LUO_PRINTF(4, 5);
luo_status luo_json_nomem(luo_json *j);

/* The member `key` of an object, or the element of an array, as a place. */
luo_json_at luo_json_in(const luo_json_at *up, const char *key);
luo_json_at luo_json_nth(const luo_json_at *up, size_t index);

/* True if at is an object and only of these keys, the required ones present. */
bool luo_json_keys(luo_json *j, const luo_json_at *at, const luo_json_key *keys, int n);
/* True if key `schema` is `luoshu.KIND/1`. */
bool luo_json_schema(luo_json *j, const luo_json_at *root, const char *kind);

/* Value of a member, or `otherwise` when it is not there; a wrong value is an error. */
int64_t luo_json_int(luo_json *j, const luo_json_at *up, const char *key, double lo, double hi,
                     int64_t otherwise);
double luo_json_num(luo_json *j, const luo_json_at *up, const char *key, const luo_limit *limit,
                    double otherwise);
bool luo_json_bool(luo_json *j, const luo_json_at *up, const char *key, bool otherwise);
/* The string belongs to the arena. */
const char *luo_json_text(luo_json *j, const luo_json_at *up, const char *key,
                          const char *otherwise);
/* Index into words. */
int luo_json_word(luo_json *j, const luo_json_at *up, const char *key, const char *const *words,
                  int n, int otherwise);
/* The member as an array of at least `least` elements; NULL v and 0 elements when it is not there
 * or is no array. */
luo_json_at luo_json_list(luo_json *j, const luo_json_at *up, const char *key, size_t least,
                          size_t *n);
/* An array of whole numbers into the arena. */
int32_t *luo_json_ids(luo_json *j, const luo_json_at *list, double lo, double hi, int32_t *n);
/* One element of an array. */
int64_t luo_json_item_int(luo_json *j, const luo_json_at *at, double lo, double hi);
#endif
