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

typedef void luo_yaml_check_fn(luo_yaml_doc *doc, const luo_yaml *map);

typedef enum luo_yaml_form {
    LUO_YAML_WHOLE, /* int32_t or int64_t */
    LUO_YAML_REAL,  /* double */
    LUO_YAML_FLAG,  /* bool */
    LUO_YAML_STRING, /* const char *, in the arena */
    LUO_YAML_WORD,  /* the number of one of some words: int32_t, int64_t or an enum */
    LUO_YAML_STRUCT, /* fields */
    LUO_YAML_LIST_OF, /* a pointer to entries, their number beside it */
    LUO_YAML_TWO_OF /* two entries in place */
} luo_yaml_form;

typedef struct luo_yaml_word {
    const char *text;
    int64_t value;
} luo_yaml_word;

/* What a value of the file is and how it stands in C. */
typedef struct luo_yaml_schema {
    luo_yaml_form form;
    size_t bytes;                       /* in C; of a list: of its pointer */
    const luo_yaml_word *words;         /* LUO_YAML_WORD */
    int nwords;
    const struct luo_yaml_field *fields; /* LUO_YAML_STRUCT; ended by a NULL key */
    const struct luo_yaml_schema *entry; /* LUO_YAML_LIST_OF, LUO_YAML_TWO_OF */
} luo_yaml_schema;

typedef struct luo_yaml_field {
    const char *key;
    bool required;
    size_t at, count_at; /* in the struct; count_at: the uint32_t number of entries of a list */
    luo_yaml_schema value;
} luo_yaml_field;

/* What a table of fields does not say of a key. key: "nics.count" (a key within a parent
 * or in a list of that name) wins over "count". say: what is expected, instead of the limit.
 * check (may be NULL): contradictions within a map, called for each map of that key (or in a list
 * of that key) that has no error of its own. */
typedef struct luo_yaml_rule {
    const char *key;
    luo_limit limit;
    const char *say;
    luo_yaml_check_fn *check;
} luo_yaml_rule;

/* A kind of file of ours: everything that is known of its keys. Readers check with it, and
 * docs/formats.md is held to it (tests/unit/check_docs.c). */
typedef struct luo_yaml_kind {
    const char *name; /* "cluster": `schema` is luoshu.cluster/1 */
    const luo_yaml_schema *schema; /* a LUO_YAML_STRUCT */
    const luo_yaml_rule *rules;
    int nrules;
} luo_yaml_kind;
extern const luo_yaml_kind luo_yaml_cluster, luo_yaml_profile, luo_yaml_stack, luo_yaml_model,
    luo_yaml_params, luo_yaml_scenario;
/* All of them. */
const luo_yaml_kind *const *luo_yaml_kinds(int *n);
/* The rule of `key` in a map, or a list of maps, that stands under `parent` ("": the root); NULL:
 * none. */
const luo_yaml_rule *luo_yaml_rule_of(const luo_yaml_kind *kind, const char *parent,
                                      const char *key);

/* Numbers that may be left out stand in structs as they are; luo_yaml_get tells whether one was
 * given. */
#define LUO_YAML_OPT false
#define LUO_YAML_REQ true
#define LUO_YAML_COUNT(table) (sizeof(table) / sizeof((table)[0]))
#define LUO_YAML_SIZE(type, member) sizeof(((type *)0)->member)
#define LUO_YAML_FIELD(key, flag, type, member, form, ...)                                         \
    {                                                                                              \
        key, flag, offsetof(type, member), 0,                                                      \
        {                                                                                          \
            form, LUO_YAML_SIZE(type, member), __VA_ARGS__                                         \
        }                                                                                          \
    }
#define LUO_YAML_INT(key, flag, type, member)                                                      \
    LUO_YAML_FIELD(key, flag, type, member, LUO_YAML_WHOLE, NULL, 0, NULL, NULL)
#define LUO_YAML_FLOAT(key, flag, type, member)                                                    \
    LUO_YAML_FIELD(key, flag, type, member, LUO_YAML_REAL, NULL, 0, NULL, NULL)
#define LUO_YAML_BOOL(key, flag, type, member)                                                     \
    LUO_YAML_FIELD(key, flag, type, member, LUO_YAML_FLAG, NULL, 0, NULL, NULL)
#define LUO_YAML_TEXT(key, flag, type, member)                                                     \
    LUO_YAML_FIELD(key, flag, type, member, LUO_YAML_STRING, NULL, 0, NULL, NULL)
#define LUO_YAML_ENUM(key, flag, type, member, table)                                              \
    LUO_YAML_FIELD(key, flag, type, member, LUO_YAML_WORD, table, (int)LUO_YAML_COUNT(table),      \
                   NULL, NULL)
#define LUO_YAML_MAPPING(key, flag, type, member, fields)                                          \
    LUO_YAML_FIELD(key, flag, type, member, LUO_YAML_STRUCT, NULL, 0, fields, NULL)
#define LUO_YAML_PAIR(key, flag, type, member, entry)                                              \
    LUO_YAML_FIELD(key, flag, type, member, LUO_YAML_TWO_OF, NULL, 0, NULL, &(entry))
#define LUO_YAML_SEQ(key, flag, type, member, entry)                                               \
    {                                                                                              \
        key, flag, offsetof(type, member), offsetof(type, member##_count),                         \
        {                                                                                          \
            LUO_YAML_LIST_OF, LUO_YAML_SIZE(type, member), NULL, 0, NULL, &(entry)                 \
        }                                                                                          \
    }
#define LUO_YAML_END                                                                               \
    {                                                                                              \
        NULL, false, 0, 0,                                                                         \
        {                                                                                          \
            LUO_YAML_STRUCT, 0, NULL, 0, NULL, NULL                                                \
        }                                                                                          \
    }
/* Of a list's entry, and of a whole file. */
#define LUO_YAML_SCALAR_OF(form, type)                                                             \
    {                                                                                              \
        form, sizeof(type), NULL, 0, NULL, NULL                                                    \
    }
#define LUO_YAML_STRUCT_OF(type, fields)                                                           \
    {                                                                                              \
        LUO_YAML_STRUCT, sizeof(type), NULL, 0, fields, NULL                                       \
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
