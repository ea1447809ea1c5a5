/* yaml_strict.h: YAML of ours: a strict pass in front of libcyaml
 * (docs/formats.md#rules-for-all-files).
 *
 * libcyaml 1.3.1 stops numbers at the first bad character in silence, takes any word for `true`,
 * accepts anchors and gives no good positions. So the file is first made into a tree with
 * libyaml, `--set` values are put into the tree, the tree is checked against the very schema
 * table that libcyaml loads with, and libcyaml then loads the text of the checked tree. The tree
 * stays for messages about contradictions found later: every node knows its line and column. */
#ifndef LUO_CORE_IO_DOCUMENT_YAML_STRICT_H
#define LUO_CORE_IO_DOCUMENT_YAML_STRICT_H
#include <cyaml/cyaml.h>
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
    luo_status st;  /* of the first error */
} luo_yaml_doc;

typedef void luo_yaml_check_fn(luo_yaml_doc *doc, const luo_yaml *map);

/* What a schema table of libcyaml cannot say of a key. key: "nics.count" (a key within a parent
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
    const cyaml_schema_value_t *schema; /* a CYAML_MAPPING */
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
#define LUO_YAML_OPT CYAML_FLAG_OPTIONAL
#define LUO_YAML_REQ CYAML_FLAG_DEFAULT
#define LUO_YAML_INT(key, flag, type, member) CYAML_FIELD_INT(key, flag, type, member)
#define LUO_YAML_FLOAT(key, flag, type, member) CYAML_FIELD_FLOAT(key, flag, type, member)
#define LUO_YAML_BOOL(key, flag, type, member) CYAML_FIELD_BOOL(key, flag, type, member)
#define LUO_YAML_TEXT(key, flag, type, member) \
    CYAML_FIELD_STRING_PTR(key, flag, type, member, 0, CYAML_UNLIMITED)
#define LUO_YAML_ENUM(key, flag, type, member, table)                                   \
    CYAML_FIELD_ENUM(key, (flag) | CYAML_FLAG_STRICT, type, member, table, \
                     (uint32_t)CYAML_ARRAY_LEN(table))
#define LUO_YAML_MAPPING(key, flag, type, member, fields) \
    CYAML_FIELD_MAPPING(key, flag, type, member, fields)
#define LUO_YAML_SEQ(key, flag, type, member, entry)                                \
    CYAML_FIELD_SEQUENCE(key, (flag) | CYAML_FLAG_POINTER, type, member, &(entry), 0, \
                         CYAML_UNLIMITED)
#define LUO_YAML_PAIR(key, flag, type, member, entry) \
    CYAML_FIELD_SEQUENCE_FIXED(key, flag, type, member, &(entry), 2)

/* Makes the tree. Errors go to diags; doc->root is set when the tree is usable. */
luo_status luo_yaml_parse(luo_yaml_doc *doc);
/* Puts PATH=VALUE into the tree: keys and [index] of PATH must lead into maps and lists of the
 * file; missing maps are made. `text` must outlive the document. */
luo_status luo_yaml_set(luo_yaml_doc *doc, const char *text);
/* Checks the tree against schema and rules of its kind; key `schema` must be luoshu.KIND/1. */
luo_status luo_yaml_check(luo_yaml_doc *doc, const luo_yaml_kind *kind);
/* Loads the checked tree with libcyaml; the result is given back with luo_yaml_unload. */
luo_status luo_yaml_load(luo_yaml_doc *doc, const cyaml_schema_value_t *schema, void **out);
void luo_yaml_unload(const cyaml_schema_value_t *schema, void *data);

/* Child by key, or NULL (also for a NULL node). */
const luo_yaml *luo_yaml_get(const luo_yaml *map, const char *key);
const luo_yaml *luo_yaml_nth(const luo_yaml *list, int64_t i);
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
