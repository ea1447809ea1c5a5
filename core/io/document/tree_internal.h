/* tree_internal.h: how the two readers of text (yaml_tree.c, json_tree.c) make a tree. */
#ifndef LUO_CORE_IO_DOCUMENT_TREE_INTERNAL_H
#define LUO_CORE_IO_DOCUMENT_TREE_INTERNAL_H
#include "core/io/document/doc.h"

typedef struct luo_tree {
    luo_doc *doc;
    const char *from; /* `--set` argument being read, NULL: a file */
    luo_doc_node *root, *open; /* the map or list being filled */
    int32_t depth, nodes;
    const char *key; /* read, its value not yet */
    int key_line, key_col;
    bool broken; /* nothing more can be read */
} luo_tree;

/* An error in the text; returns LUO_EPARSE. */
luo_status luo_tree_error(luo_tree *t, int line, int col, const char *fmt, ...) LUO_PRINTF(4, 5);
/* The same, and nothing more can be read. */
void luo_tree_break(luo_tree *t, int line, int col, const char *fmt, ...) LUO_PRINTF(4, 5);
void luo_tree_nomem(luo_tree *t);

/* A map is open and the next text is a key of it. */
static inline bool luo_tree_wants_key(const luo_tree *tree)
{
    return tree->open && tree->open->type == LUO_DOC_MAP && !tree->key;
}

/* text lives as long as the tree. */
void luo_tree_key(luo_tree *t, const char *text, int line, int col);
void luo_tree_scalar(luo_tree *t, const char *text, bool quoted, int line, int col);
void luo_tree_open(luo_tree *t, luo_doc_type type, int line, int col);
/* Keys that the map has twice are errors. Cost: O(n log n) for n keys. */
void luo_tree_close(luo_tree *t);

/* Fills t with what the text says in YAML, or in JSON. */
void luo_tree_yaml(luo_tree *t, const char *text, size_t len);
void luo_tree_json(luo_tree *t, const char *text, size_t len);
#endif
