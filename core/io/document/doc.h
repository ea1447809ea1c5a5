/* doc.h: files in YAML and JSON as trees (docs/formats.md#rules-for-all-files).
 *
 * A file is made into a tree, `--set` values are put into the tree, the tree is checked against
 * the table of fields of its kind, and then stored in C structs by the same table (doc_table.h).
 * The tree stays for messages about contradictions found later: every node knows its line and
 * column. */
#ifndef LUO_CORE_IO_DOCUMENT_DOC_H
#define LUO_CORE_IO_DOCUMENT_DOC_H
#include "core/io/io.h"
#include "core/io/say.h"

typedef enum luo_doc_type { LUO_DOC_SCALAR, LUO_DOC_MAP, LUO_DOC_LIST } luo_doc_type;

typedef struct luo_doc_node {
    luo_doc_type type;
    bool quoted;      /* a scalar in quotes or in block style */
    const char *key;  /* in a map; NULL elsewhere */
    const char *text; /* of a scalar; "" otherwise */
    const char *from; /* the `--set` argument it comes from; NULL: the file */
    int line, col, key_line, key_col;
    int32_t n; /* children of a map or list */
    struct luo_doc_node *up, *first, *last, *next;
} luo_doc_node;

typedef struct luo_doc {
    luo_arena *arena;
    const luo_source *src;
    luo_diags *diags;
    luo_doc_node *root; /* NULL: empty or not readable */
    bool json;          /* the text was JSON */
    luo_status st;      /* of the first error */
} luo_doc;

/* Makes the tree of a file in YAML or JSON. Errors go to diags; doc->root is set when the tree is
 * usable, which it may be with errors, too. Cost: O(n log n) for n keys of a map. */
luo_status luo_doc_parse(luo_doc *doc);
/* The same of a file that has to be JSON. */
luo_status luo_doc_parse_json(luo_doc *doc);
/* Of JSON text without a file, for who tells the first error in own words: LUO_EPARSE, its place
 * and its sentence in err. */
luo_status luo_doc_tree(luo_arena *arena, const char *text, size_t n, const luo_doc_node **root,
                        luo_err *err);
/* Puts PATH=VALUE into the tree: keys and [index] of PATH must lead into maps and lists of the
 * file; missing maps are made. `text` must outlive the document. */
luo_status luo_doc_set(luo_doc *doc, const char *text);
/* Override i of overrides, without the part of the path that it is to have; NULL: it has another.
 */
const char *luo_doc_override(const luo_overrides *overrides, int32_t i);
/* All of them (overrides NULL: none) into the tree. */
void luo_doc_override_all(luo_doc *doc, const luo_overrides *overrides);
/* node becomes the last of up, a map (then it has a key) or a list; it is in none yet. */
void luo_doc_append(luo_doc_node *up, luo_doc_node *node);
/* Child by key, or NULL (also for a NULL node). */
const luo_doc_node *luo_doc_get(const luo_doc_node *map, const char *key);
const luo_doc_node *luo_doc_nth(const luo_doc_node *list, int64_t i);
/* Child of that key that is a text in quotes; NULL: there is none. */
const char *luo_doc_text(const luo_doc_node *map, const char *key);
/* Is x (NULL: no) the plain word, such as true or null? */
bool luo_doc_is(const luo_doc_node *x, const char *word);
/* The number of a scalar; false: x (may be NULL) is none, and *out stays. */
bool luo_doc_int(const luo_doc_node *x, int64_t *out);
bool luo_doc_real(const luo_doc_node *x, double *out);
/* The value that an RFC 6901 pointer names; *found false: there is none, and it is the innermost
 * part that exists. root may be NULL. */
const luo_doc_node *luo_doc_find(const luo_doc_node *root, const char *pointer, bool *found);
/* Appends the value as JSON without blanks, keys sorted, numbers as they are written. */
void luo_doc_json(luo_arena *scratch, luo_str *out, const luo_doc_node *x);
/* An error at the value or at the key of a node; NULL node: the first character of the file.
 * Returns LUO_EINPUT. */
luo_status luo_doc_error(luo_doc *doc, const luo_doc_node *node, const char *fmt, ...)
    LUO_PRINTF(3, 4);
luo_status luo_doc_error_key(luo_doc *doc, const luo_doc_node *node, const char *fmt, ...)
    LUO_PRINTF(3, 4);
/* key is missing from map: at the map's first character. */
luo_status luo_doc_missing(luo_doc *doc, const luo_doc_node *map, const char *key);
luo_status luo_doc_nomem(luo_doc *doc);
#endif
