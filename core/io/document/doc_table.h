/* doc_table.h: tables of fields: which keys a kind of file has, what is good, where it stands in C.
 */
#ifndef LUO_CORE_IO_DOCUMENT_DOC_TABLE_H
#define LUO_CORE_IO_DOCUMENT_DOC_TABLE_H
#include <math.h>

#include "core/base/words.h"
#include "core/io/document/doc.h"

/* Contradictions within a map, called for each map of its schema that has no error of its own. */
typedef void luo_doc_check_fn(luo_doc *doc, const luo_doc_node *map);

typedef enum luo_doc_form {
    LUO_DOC_WHOLE,   /* int32_t or int64_t */
    LUO_DOC_REAL,    /* double */
    LUO_DOC_SEED,    /* uint64_t: a whole number from 0, as text where it is above 2^63 - 1 */
    LUO_DOC_HASH,    /* uint64_t: 16 hexadecimal digits as text */
    LUO_DOC_FLAG,    /* bool */
    LUO_DOC_STRING,  /* const char *, in the arena; with words: one of them */
    LUO_DOC_WORD,    /* the number of one of some words: bool, int32_t, int64_t or an enum */
    LUO_DOC_STRUCT,  /* fields */
    LUO_DOC_LIST_OF, /* a pointer to entries, and their number */
    LUO_DOC_TWO_OF,  /* two entries in place */
    LUO_DOC_FREE     /* a map of any keys: const char *, as canonical JSON */
} luo_doc_form;

typedef struct luo_doc_word {
    const char *text;
    int64_t value;
} luo_doc_word;

/* What a value of the file is, which values are good, and how it stands in C. */
typedef struct luo_doc_schema {
    luo_doc_form form;
    size_t bytes;              /* of the value in C */
    luo_limit limit;           /* of a number; its unit 0: any */
    bool as_text;              /* the number is written as text */
    const char *say;           /* what is expected, instead of the limit; may be NULL */
    const char *otherwise;     /* of a scalar: its default as a file would say it; NULL: 0 */
    const luo_doc_word *words; /* LUO_DOC_WORD, LUO_DOC_STRING */
    int nwords;
    const struct luo_doc_field *fields; /* LUO_DOC_STRUCT; ended by a NULL key */
    luo_doc_check_fn *check;            /* LUO_DOC_STRUCT; may be NULL */
    bool or_null;                       /* LUO_DOC_STRUCT: `null` is as if it were not given */
    const struct luo_doc_schema *entry; /* LUO_DOC_LIST_OF, LUO_DOC_TWO_OF */
    size_t list_at, count_at;           /* LUO_DOC_LIST_OF: pointer and 32-bit number in the value;
                                         * LUO_DOC_UNCOUNTED: the number is not stored */
    int32_t least;                      /* LUO_DOC_LIST_OF: entries */
} luo_doc_schema;

typedef struct luo_doc_field {
    const char *key;
    /* Its meaning in a line, of help and JSON Schema: how its cell in docs/formats.md begins. Of a
     * key that may be left out and has no `otherwise` the cell before it too, what holds without
     * the key: "unlimited | disk of a node, reading". */
    const char *says;
    const char *required; /* NULL: it may be left out; "": it may not; else unless that key of the
                             same map is given */
    size_t at; /* in the struct */
    luo_doc_schema value;
} luo_doc_field;

/* Is it required whatever else is given? */
static inline bool luo_doc_field_is_required(const luo_doc_field *field)
{
    return field->required && !*field->required;
}

/* A kind of file of ours: everything that is known of its keys. Readers check with it, and
 * docs/formats.md is held to it (tests/unit/check_docs.c). */
typedef struct luo_doc_kind {
    const char *name;             /* "cluster": `schema` is luoshu.cluster/1 */
    const luo_doc_schema *schema; /* a LUO_DOC_STRUCT */
} luo_doc_kind;
extern const luo_doc_kind luo_doc_cluster, luo_doc_profile, luo_doc_stack, luo_doc_model,
    luo_doc_params, luo_doc_scenario, luo_doc_plan;
/* All of them. */
const luo_doc_kind *const *luo_doc_kinds(int *n);

/* Rows of a table of fields: the key, whether it is required, where it stands in C, what is good.
 * Of a number that may be left out and has no default, luo_doc_get tells whether it was given. */
#define LUO_DOC_OPT NULL
#define LUO_DOC_REQ ""
#define LUO_DOC_UNLESS(key) key /* required unless that key is given */
#define LUO_DOC_UNCOUNTED SIZE_MAX
#define LUO_DOC_COUNT(table) (sizeof(table) / sizeof((table)[0]))
/* A word of a list (core/base/words.h). */
#define LUO_DOC_WORD_ROW(value, word) {word, value},
#define LUO_DOC_WORDS(table) .words = table, .nwords = (int)LUO_DOC_COUNT(table)
#define LUO_DOC_ANY LUO_FROM(-INFINITY)
/* What has no macro of its own below: the rest are members of luo_doc_schema. */
#define LUO_DOC_FIELD(key_, flag, type, member, says_, ...)                                        \
    {                                                                                              \
        .key = key_, .says = says_, .required = flag, .at = offsetof(type, member), .value = {     \
            .bytes = sizeof(((type *)0)->member),                                                  \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define LUO_DOC_INT(key, flag, type, member, limit_, says_)                                        \
    LUO_DOC_FIELD(key, flag, type, member, says_, .form = LUO_DOC_WHOLE, .limit = limit_)
#define LUO_DOC_INT_OR(key, type, member, otherwise_, limit_, says_)                               \
    LUO_DOC_FIELD(key, LUO_DOC_OPT, type, member, says_, .form = LUO_DOC_WHOLE,                    \
                  .otherwise = otherwise_, .limit = limit_)
#define LUO_DOC_FLOAT(key, flag, type, member, limit_, says_)                                      \
    LUO_DOC_FIELD(key, flag, type, member, says_, .form = LUO_DOC_REAL, .limit = limit_)
#define LUO_DOC_FLOAT_OR(key, type, member, otherwise_, limit_, says_)                             \
    LUO_DOC_FIELD(key, LUO_DOC_OPT, type, member, says_, .form = LUO_DOC_REAL,                     \
                  .otherwise = otherwise_, .limit = limit_)
#define LUO_DOC_BOOL(key, flag, type, member, says_)                                               \
    LUO_DOC_FIELD(key, flag, type, member, says_, .form = LUO_DOC_FLAG)
#define LUO_DOC_BOOL_OR(key, type, member, otherwise_, says_)                                      \
    LUO_DOC_FIELD(key, LUO_DOC_OPT, type, member, says_, .form = LUO_DOC_FLAG,                     \
                  .otherwise = otherwise_)
#define LUO_DOC_TEXT(key, flag, type, member, says_)                                               \
    LUO_DOC_FIELD(key, flag, type, member, says_, .form = LUO_DOC_STRING)
#define LUO_DOC_TEXT_OR(key, type, member, otherwise_, says_)                                      \
    LUO_DOC_FIELD(key, LUO_DOC_OPT, type, member, says_, .form = LUO_DOC_STRING,                   \
                  .otherwise = otherwise_)
#define LUO_DOC_ENUM(key, flag, type, member, table, says_)                                        \
    LUO_DOC_FIELD(key, flag, type, member, says_, .form = LUO_DOC_WORD, LUO_DOC_WORDS(table))
#define LUO_DOC_ENUM_OR(key, type, member, otherwise_, table, says_)                               \
    LUO_DOC_FIELD(key, LUO_DOC_OPT, type, member, says_, .form = LUO_DOC_WORD,                     \
                  .otherwise = otherwise_, LUO_DOC_WORDS(table))
#define LUO_DOC_MAPPING(key, flag, type, member, fields_, check_, says_)                           \
    LUO_DOC_FIELD(key, flag, type, member, says_, .form = LUO_DOC_STRUCT, .fields = (fields_),     \
                  .check = check_)
#define LUO_DOC_PAIR(key, flag, type, member, entry_, says_)                                       \
    LUO_DOC_FIELD(key, flag, type, member, says_, .form = LUO_DOC_TWO_OF, .entry = &(entry_))
/* Entries are in `member`, their number in `count`. */
#define LUO_DOC_SEQ(key_, flag, type, member, count, entry_, least_, says_)                        \
    {                                                                                              \
        .key = key_, .says = says_, .required = flag, .value = {                                   \
            .form = LUO_DOC_LIST_OF,                                                               \
            .entry = &(entry_),                                                                    \
            .list_at = offsetof(type, member),                                                     \
            .count_at = offsetof(type, count),                                                     \
            .least = least_                                                                        \
        }                                                                                          \
    }
/* The same where C knows the number otherwise. */
#define LUO_DOC_ARRAY(key_, flag, type, member, entry_, least_, says_)                             \
    {                                                                                              \
        .key = key_, .says = says_, .required = flag, .value = {                                   \
            .form = LUO_DOC_LIST_OF,                                                               \
            .entry = &(entry_),                                                                    \
            .list_at = offsetof(type, member),                                                     \
            .count_at = LUO_DOC_UNCOUNTED,                                                         \
            .least = least_                                                                        \
        }                                                                                          \
    }
/* A map whose fields stand in the struct around it. */
#define LUO_DOC_INNER(key_, flag, fields_, says_)                                                  \
    {                                                                                              \
        .key = key_, .says = says_, .required = flag, .value = {                                   \
            .form = LUO_DOC_STRUCT,                                                                \
            .fields = fields_                                                                      \
        }                                                                                          \
    }
#define LUO_DOC_END                                                                                \
    {                                                                                              \
        .key = NULL                                                                                \
    }
/* Of a list's entry, and of a whole file. */
#define LUO_DOC_SCALAR_OF(form_, type, limit_)                                                     \
    {                                                                                              \
        .form = form_, .bytes = sizeof(type), .limit = limit_                                      \
    }
#define LUO_DOC_STRUCT_OF(type, fields_, check_)                                                   \
    {                                                                                              \
        .form = LUO_DOC_STRUCT, .bytes = sizeof(type), .fields = fields_, .check = check_          \
    }

/* Limits of a number; of a whole one cut by those of its C type. */
luo_limit luo_doc_limit(const luo_doc_schema *schema);
/* Checks the tree against the table of its kind; key `schema` must be luoshu.KIND/1. */
luo_status luo_doc_check(luo_doc *doc, const luo_doc_kind *kind);
/* Stores the checked tree in a new struct of the schema; what is not given has its default there,
 * or 0.
 * Owner: doc->arena. Errors: LUO_ENOMEM. */
luo_status luo_doc_load(luo_doc *doc, const luo_doc_schema *schema, void **out);
#endif
