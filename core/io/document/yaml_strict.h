/* yaml_strict.h: YAML of ours, strictly (docs/formats.md#rules-for-all-files).
 *
 * The file is made into a tree with libyaml, `--set` values are put into the tree, the tree is
 * checked against the table of fields of its kind, and then stored in C structs by the same table.
 * The tree stays for messages about contradictions found later: every node knows its line and
 * column. */
#ifndef LUO_CORE_IO_DOCUMENT_YAML_STRICT_H
#define LUO_CORE_IO_DOCUMENT_YAML_STRICT_H
#include <math.h>

#include "core/io/io.h"
#include "core/io/say.h"

typedef enum luo_yaml_type { LUO_YAML_SCALAR, LUO_YAML_MAP, LUO_YAML_LIST } luo_yaml_type;

typedef struct luo_yaml {
    luo_yaml_type type;
    bool quoted;      /* a scalar in quotes or in block style */
    const char *key;  /* in a map; NULL elsewhere */
    const char *text; /* of a scalar; "" otherwise */
    const char *from; /* the `--set` argument it comes from; NULL: the file */
    int line, col, key_line, key_col;
    int32_t n; /* children of a map or list */
    struct luo_yaml *up, *first, *last, *next;
} luo_yaml;

typedef struct luo_yaml_doc {
    luo_arena *arena;
    const luo_source *src;
    luo_diags *diags;
    luo_yaml *root; /* NULL: empty or not readable */
    bool json;      /* the text was JSON */
    luo_status st;  /* of the first error */
} luo_yaml_doc;

/* Contradictions within a map, called for each map of its schema that has no error of its own. */
typedef void luo_yaml_check_fn(luo_yaml_doc *doc, const luo_yaml *map);

typedef enum luo_yaml_form {
    LUO_YAML_WHOLE,   /* int32_t or int64_t */
    LUO_YAML_REAL,    /* double */
    LUO_YAML_SEED,    /* uint64_t: a whole number from 0, as text where it is above 2^63 - 1 */
    LUO_YAML_HASH,    /* uint64_t: 16 hexadecimal digits as text */
    LUO_YAML_FLAG,    /* bool */
    LUO_YAML_STRING,  /* const char *, in the arena; with words: one of them */
    LUO_YAML_WORD,    /* the number of one of some words: bool, int32_t, int64_t or an enum */
    LUO_YAML_STRUCT,  /* fields */
    LUO_YAML_LIST_OF, /* a pointer to entries, and their number */
    LUO_YAML_TWO_OF,  /* two entries in place */
    LUO_YAML_FREE     /* a map of any keys: const char *, as canonical JSON */
} luo_yaml_form;

typedef struct luo_yaml_word {
    const char *text;
    int64_t value;
} luo_yaml_word;

/* What a value of the file is, which values are good, and how it stands in C. */
typedef struct luo_yaml_schema {
    luo_yaml_form form;
    size_t bytes;               /* of the value in C */
    luo_limit limit;            /* of a number; its unit 0: any */
    bool as_text;               /* the number is written as text */
    const char *say;            /* what is expected, instead of the limit; may be NULL */
    const char *otherwise;      /* of a scalar: its default as a file would say it; NULL: 0 */
    const luo_yaml_word *words; /* LUO_YAML_WORD, LUO_YAML_STRING */
    int nwords;
    const struct luo_yaml_field *fields; /* LUO_YAML_STRUCT; ended by a NULL key */
    luo_yaml_check_fn *check;            /* LUO_YAML_STRUCT; may be NULL */
    bool or_null;                        /* LUO_YAML_STRUCT: `null` is as if it were not given */
    const struct luo_yaml_schema *entry; /* LUO_YAML_LIST_OF, LUO_YAML_TWO_OF */
    size_t list_at, count_at; /* LUO_YAML_LIST_OF: pointer and 32-bit number in the value;
                               * LUO_YAML_UNCOUNTED: the number is not stored */
    int32_t least;            /* LUO_YAML_LIST_OF: entries */
} luo_yaml_schema;

typedef struct luo_yaml_field {
    const char *key;
    bool required;
    size_t at; /* in the struct */
    luo_yaml_schema value;
} luo_yaml_field;

/* A kind of file of ours: everything that is known of its keys. Readers check with it, and
 * docs/formats.md is held to it (tests/unit/check_docs.c). */
typedef struct luo_yaml_kind {
    const char *name; /* "cluster": `schema` is luoshu.cluster/1 */
    const luo_yaml_schema *schema; /* a LUO_YAML_STRUCT */
} luo_yaml_kind;
extern const luo_yaml_kind luo_yaml_cluster, luo_yaml_profile, luo_yaml_stack, luo_yaml_model,
    luo_yaml_params, luo_yaml_scenario, luo_yaml_plan;
/* All of them. */
const luo_yaml_kind *const *luo_yaml_kinds(int *n);

/* Rows of a table of fields: the key, whether it is required, where it stands in C, what is good.
 * Of a number that may be left out and has no default, luo_yaml_get tells whether it was given. */
#define LUO_YAML_OPT false
#define LUO_YAML_REQ true
#define LUO_YAML_UNCOUNTED SIZE_MAX
#define LUO_YAML_COUNT(table) (sizeof(table) / sizeof((table)[0]))
#define LUO_YAML_WORDS(table) .words = table, .nwords = (int)LUO_YAML_COUNT(table)
#define LUO_YAML_ANY LUO_FROM(-INFINITY)
/* What has no macro of its own below: the rest are members of luo_yaml_schema. */
#define LUO_YAML_FIELD(key_, flag, type, member, ...)                                              \
    {                                                                                              \
        .key = key_, .required = flag, .at = offsetof(type, member), .value = {                    \
            .bytes = sizeof(((type *)0)->member),                                                  \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define LUO_YAML_INT(key, flag, type, member, limit_)                                              \
    LUO_YAML_FIELD(key, flag, type, member, .form = LUO_YAML_WHOLE, .limit = limit_)
#define LUO_YAML_INT_OR(key, type, member, otherwise_, limit_)                                     \
    LUO_YAML_FIELD(key, LUO_YAML_OPT, type, member, .form = LUO_YAML_WHOLE,                        \
                   .otherwise = otherwise_, .limit = limit_)
#define LUO_YAML_FLOAT(key, flag, type, member, limit_)                                            \
    LUO_YAML_FIELD(key, flag, type, member, .form = LUO_YAML_REAL, .limit = limit_)
#define LUO_YAML_FLOAT_OR(key, type, member, otherwise_, limit_)                                   \
    LUO_YAML_FIELD(key, LUO_YAML_OPT, type, member, .form = LUO_YAML_REAL,                         \
                   .otherwise = otherwise_, .limit = limit_)
#define LUO_YAML_BOOL(key, flag, type, member)                                                     \
    LUO_YAML_FIELD(key, flag, type, member, .form = LUO_YAML_FLAG)
#define LUO_YAML_BOOL_OR(key, type, member, otherwise_)                                            \
    LUO_YAML_FIELD(key, LUO_YAML_OPT, type, member, .form = LUO_YAML_FLAG, .otherwise = otherwise_)
#define LUO_YAML_TEXT(key, flag, type, member)                                                     \
    LUO_YAML_FIELD(key, flag, type, member, .form = LUO_YAML_STRING)
#define LUO_YAML_TEXT_OR(key, type, member, otherwise_)                                            \
    LUO_YAML_FIELD(key, LUO_YAML_OPT, type, member, .form = LUO_YAML_STRING,                       \
                   .otherwise = otherwise_)
#define LUO_YAML_ENUM(key, flag, type, member, table)                                              \
    LUO_YAML_FIELD(key, flag, type, member, .form = LUO_YAML_WORD, LUO_YAML_WORDS(table))
#define LUO_YAML_ENUM_OR(key, type, member, otherwise_, table)                                     \
    LUO_YAML_FIELD(key, LUO_YAML_OPT, type, member, .form = LUO_YAML_WORD,                         \
                   .otherwise = otherwise_, LUO_YAML_WORDS(table))
#define LUO_YAML_MAPPING(key, flag, type, member, fields_, check_)                                 \
    LUO_YAML_FIELD(key, flag, type, member, .form = LUO_YAML_STRUCT, .fields = (fields_),          \
                   .check = check_)
#define LUO_YAML_PAIR(key, flag, type, member, entry_)                                             \
    LUO_YAML_FIELD(key, flag, type, member, .form = LUO_YAML_TWO_OF, .entry = &(entry_))
/* Entries are in `member`, their number in `count`. */
#define LUO_YAML_SEQ(key_, flag, type, member, count, entry_, least_)                              \
    {                                                                                              \
        .key = key_, .required = flag, .value = {                                                  \
            .form = LUO_YAML_LIST_OF,                                                              \
            .entry = &(entry_),                                                                    \
            .list_at = offsetof(type, member),                                                     \
            .count_at = offsetof(type, count),                                                     \
            .least = least_                                                                        \
        }                                                                                          \
    }
/* The same where C knows the number otherwise. */
#define LUO_YAML_ARRAY(key_, flag, type, member, entry_, least_)                                   \
    {                                                                                              \
        .key = key_, .required = flag, .value = {                                                  \
            .form = LUO_YAML_LIST_OF,                                                              \
            .entry = &(entry_),                                                                    \
            .list_at = offsetof(type, member),                                                     \
            .count_at = LUO_YAML_UNCOUNTED,                                                        \
            .least = least_                                                                        \
        }                                                                                          \
    }
/* A map whose fields stand in the struct around it. */
#define LUO_YAML_INNER(key_, flag, fields_)                                                        \
    {                                                                                              \
        .key = key_, .required = flag, .value = {.form = LUO_YAML_STRUCT, .fields = fields_ }      \
    }
#define LUO_YAML_END                                                                               \
    {                                                                                              \
        .key = NULL                                                                                \
    }
/* Of a list's entry, and of a whole file. */
#define LUO_YAML_SCALAR_OF(form_, type, limit_)                                                    \
    {                                                                                              \
        .form = form_, .bytes = sizeof(type), .limit = limit_                                      \
    }
#define LUO_YAML_STRUCT_OF(type, fields_, check_)                                                  \
    {                                                                                              \
        .form = LUO_YAML_STRUCT, .bytes = sizeof(type), .fields = fields_, .check = check_         \
    }

/* Makes the tree of a file in YAML or JSON. Errors go to diags; doc->root is set when the tree is
 * usable, which it may be with errors, too. Cost: O(n log n) for n keys of a map. */
luo_status luo_yaml_parse(luo_yaml_doc *doc);
/* The same of a file that has to be JSON. */
luo_status luo_json_parse(luo_yaml_doc *doc);
/* Of JSON text without a file, for who tells the first error in own words: LUO_EPARSE, its place
 * and its sentence in err. */
luo_status luo_json_tree(luo_arena *arena, const char *text, size_t n, const luo_yaml **root,
                         luo_err *err);
/* Puts PATH=VALUE into the tree: keys and [index] of PATH must lead into maps and lists of the
 * file; missing maps are made. `text` must outlive the document. */
luo_status luo_yaml_set(luo_yaml_doc *doc, const char *text);
/* Checks the tree against schema and rules of its kind; key `schema` must be luoshu.KIND/1. */
luo_status luo_yaml_check(luo_yaml_doc *doc, const luo_yaml_kind *kind);
/* Stores the checked tree in a new struct of the schema; what is not given is 0 there.
 * Owner: doc->arena. Errors: LUO_ENOMEM. */
luo_status luo_yaml_load(luo_yaml_doc *doc, const luo_yaml_schema *schema, void **out);

/* Child by key, or NULL (also for a NULL node). */
const luo_yaml *luo_yaml_get(const luo_yaml *map, const char *key);
const luo_yaml *luo_yaml_nth(const luo_yaml *list, int64_t i);
/* Child of that key that is a text in quotes; NULL: there is none. */
const char *luo_yaml_text(const luo_yaml *map, const char *key);
/* Is x (NULL: no) the plain word, such as true or null? */
bool luo_yaml_is(const luo_yaml *x, const char *word);
/* The number of a scalar; false: x (may be NULL) is none, and *out stays. */
bool luo_yaml_int(const luo_yaml *x, int64_t *out);
bool luo_yaml_real(const luo_yaml *x, double *out);
/* The value that an RFC 6901 pointer names; *found false: there is none, and it is the innermost
 * part that exists. root may be NULL. */
const luo_yaml *luo_yaml_find(const luo_yaml *root, const char *pointer, bool *found);
/* Appends the value as JSON without blanks, keys sorted, numbers as they are written. */
void luo_yaml_json(luo_arena *scratch, luo_str *out, const luo_yaml *x);
/* An error at the value or at the key of a node; NULL node: the first character of the file.
 * Returns LUO_EINPUT. */
luo_status luo_yaml_error(luo_yaml_doc *doc, const luo_yaml *node, const char *fmt, ...)
    LUO_PRINTF(3, 4);
luo_status luo_yaml_error_key(luo_yaml_doc *doc, const luo_yaml *node, const char *fmt, ...)
    LUO_PRINTF(3, 4);
/* key is missing from map: at the map's first character. */
luo_status luo_yaml_missing(luo_yaml_doc *doc, const luo_yaml *map, const char *key);
luo_status luo_yaml_nomem(luo_yaml_doc *doc);
#endif
