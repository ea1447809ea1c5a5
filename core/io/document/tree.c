/* tree.c: a tree with positions from what a reader of text finds (yaml_tree.c, json_tree.c); double
 * keys are refused, nesting and the number of values limited (docs/formats.md#rules-for-all-files).
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/utf8.h"
#include "core/io/document/tree_internal.h"
#include "core/io/json_number.h"
#include "core/io/jsonw.h"

enum { DEPTH_MAX = 32, NODES_MAX = 8000000 };

/* ---- messages ---- */

static luo_status say(luo_doc *doc, luo_status st, const char *from, int line, int col,
                      const char *fmt, va_list ap)
{
    char text[LUO_ERR_TEXT];
    vsnprintf(text, sizeof text, fmt, ap);
    if (from)
        luo_diags_add(doc->diags, LUO_ERROR, st, NULL, 0, 0, "%s (given by --set %s)", text, from);
    else
        luo_diags_add(doc->diags, LUO_ERROR, st, doc->src->name, line, col, "%s", text);
    if (doc->st == LUO_OK) doc->st = st;
    return st;
}

luo_status luo_doc_error(luo_doc *doc, const luo_doc_node *node, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(doc, LUO_EINPUT, node ? node->from : NULL, node ? node->line : 1, node ? node->col : 1,
        fmt, ap);
    va_end(ap);
    return LUO_EINPUT;
}

luo_status luo_doc_error_key(luo_doc *doc, const luo_doc_node *node, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(doc, LUO_EINPUT, node->from, node->key ? node->key_line : node->line,
        node->key ? node->key_col : node->col, fmt, ap);
    va_end(ap);
    return LUO_EINPUT;
}

luo_status luo_tree_error(luo_tree *tree, int line, int col, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(tree->doc, LUO_EPARSE, tree->from, line, col, fmt, ap);
    va_end(ap);
    return LUO_EPARSE;
}

void luo_tree_break(luo_tree *tree, int line, int col, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(tree->doc, LUO_EPARSE, tree->from, line, col, fmt, ap);
    va_end(ap);
    tree->broken = true;
}

luo_status luo_doc_nomem(luo_doc *doc)
{
    luo_diags_add(doc->diags, LUO_ERROR, LUO_ENOMEM, NULL, 0, 0,
                  "this process is out of memory; free some or use less.");
    if (doc->st == LUO_OK) doc->st = LUO_ENOMEM;
    return LUO_ENOMEM;
}

void luo_tree_nomem(luo_tree *tree)
{
    luo_doc_nomem(tree->doc);
    tree->broken = true;
}

luo_status luo_doc_missing(luo_doc *doc, const luo_doc_node *map, const char *key)
{
    return luo_doc_error(doc, map, "key `%s` is missing.", key);
}

/* ---- values by their place ---- */

const luo_doc_node *luo_doc_get(const luo_doc_node *map, const char *key)
{
    if (!map || map->type != LUO_DOC_MAP) return NULL;
    for (const luo_doc_node *node = map->first; node; node = node->next)
        if (strcmp(node->key, key) == 0) return node;
    return NULL;
}

const luo_doc_node *luo_doc_nth(const luo_doc_node *list, int64_t i)
{
    if (!list || list->type != LUO_DOC_LIST) return NULL;
    const luo_doc_node *node = list->first;
    while (node && i-- > 0) node = node->next;
    return node;
}

const char *luo_doc_text(const luo_doc_node *map, const char *key)
{
    const luo_doc_node *node = luo_doc_get(map, key);
    return node && node->type == LUO_DOC_SCALAR && node->quoted ? node->text : NULL;
}

static bool is_plain(const luo_doc_node *node)
{
    return node && node->type == LUO_DOC_SCALAR && !node->quoted;
}

bool luo_doc_is(const luo_doc_node *node, const char *word)
{
    return is_plain(node) && strcmp(node->text, word) == 0;
}

bool luo_doc_int(const luo_doc_node *node, int64_t *out)
{
    return is_plain(node) && luo_json_number_whole(node->text, strlen(node->text), out);
}

bool luo_doc_real(const luo_doc_node *node, double *out)
{
    return is_plain(node) && luo_json_number_float(node->text, strlen(node->text), out);
}

/* ---- building ---- */

/* Keys by name, those of one name in the order of the file. */
static int by_key(const void *a, const void *b)
{
    const luo_doc_node *node = *(const luo_doc_node *const *)a,
                       *y = *(const luo_doc_node *const *)b;
    const int d = strcmp(node->key, y->key);
    if (d) return d;
    return node->key_line != y->key_line ? node->key_line - y->key_line
                                         : node->key_col - y->key_col;
}

/* Children of a list in their order, of a map by name; NULL: out of memory. */
static const luo_doc_node **children(luo_arena *arena, const luo_doc_node *node)
{
    const luo_doc_node **at = luo_arena_alloc(arena, (size_t)node->n * sizeof *at);
    int32_t n = 0;
    for (const luo_doc_node *y = node->first; at && y; y = y->next) at[n++] = y;
    if (at && node->type == LUO_DOC_MAP) qsort((void *)at, (size_t)n, sizeof *at, by_key);
    return at;
}

static void twice(luo_tree *tree, const luo_doc_node *first, const luo_doc_node *again)
{
    luo_tree_error(tree, again->key_line, again->key_col,
                   "`%.80s` is given twice, first at line %d; each key is given once.", again->key,
                   first->key_line);
}

static void check_keys(luo_tree *tree, const luo_doc_node *map)
{
    const size_t mark = luo_arena_mark(tree->doc->arena);
    const luo_doc_node **keys = children(tree->doc->arena, map);
    bool good = true;
    if (!keys) {
        luo_tree_nomem(tree);
        return;
    }
    for (int32_t i = 1, first = 0; i < map->n; i++) {
        const bool same = strcmp(keys[i]->key, keys[first]->key) == 0;
        if (same)
            twice(tree, keys[first], keys[i]);
        else first = i;
        good = good && !same;
    }
    if (good) luo_arena_reset(tree->doc->arena, mark); /* else what was said lies behind it */
}

void luo_tree_key(luo_tree *tree, const char *text, int line, int col)
{
    tree->key = text;
    tree->key_line = line;
    tree->key_col = col;
}

void luo_doc_append(luo_doc_node *up, luo_doc_node *node)
{
    node->up = up;
    if (up->last)
        up->last->next = node;
    else
        up->first = node;
    up->last = node;
    up->n++;
}

static luo_doc_node *add_node(luo_tree *tree, luo_doc_type type, int line, int col)
{
    luo_doc_node *node = LUO_NEW(tree->doc->arena, luo_doc_node), *up = tree->open;
    if (!node) {
        luo_tree_nomem(tree);
        return NULL;
    }
    *node = (luo_doc_node){
        .type = type, .text = "", .from = tree->from, .line = line, .col = col, .up = up};
    if (++tree->nodes > NODES_MAX)
        luo_tree_break(tree, line, col, "more than %d values; split the file.", NODES_MAX);
    if (up && up->type == LUO_DOC_MAP) {
        node->key = tree->key;
        node->key_line = tree->key_line;
        node->key_col = tree->key_col;
        tree->key = NULL;
    }
    if (!up) {
        tree->root = node;
        return node;
    }
    luo_doc_append(up, node);
    return node;
}

void luo_tree_scalar(luo_tree *tree, const char *text, bool quoted, int line, int col)
{
    luo_doc_node *node = add_node(tree, LUO_DOC_SCALAR, line, col);
    if (!node) return;
    node->text = text;
    node->quoted = quoted;
}

void luo_tree_open(luo_tree *tree, luo_doc_type type, int line, int col)
{
    if (++tree->depth > DEPTH_MAX) {
        luo_tree_break(tree, line, col, "nested deeper than %d levels.", DEPTH_MAX);
        return;
    }
    luo_doc_node *node = add_node(tree, type, line, col);
    if (node) tree->open = node;
}

void luo_tree_close(luo_tree *tree)
{
    if (tree->open->type == LUO_DOC_MAP && tree->open->n > 1) check_keys(tree, tree->open);
    tree->depth--;
    tree->open = tree->open->up;
}

/* ---- a whole text ---- */

static size_t mark_bytes(const luo_source *src)
{
    return src->len >= 3 && memcmp(src->text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

static luo_status parse(luo_doc *doc, void (*read)(luo_tree *, const char *, size_t))
{
    const size_t skip = mark_bytes(doc->src);
    luo_tree tree = {.doc = doc};
    if (!luo_utf8_valid(doc->src->text + skip, doc->src->len - skip))
        return luo_tree_error(&tree, 1, 1,
                              memcmp(doc->src->text, "\x1f\x8b", 2) == 0
                                  ? "the file is compressed by gzip; unpack it first."
                                  : "the file is not UTF-8 text; save it as UTF-8.");
    read(&tree, doc->src->text + skip, doc->src->len - skip);
    if (tree.broken) return doc->st;
    doc->root = tree.root;
    if (!tree.root)
        luo_tree_error(&tree, 1, 1,
                       "the file is empty; `schema: luoshu.KIND/1` and its keys are "
                       "expected.");
    return doc->st;
}

luo_status luo_doc_parse_json(luo_doc *doc)
{
    doc->json = true;
    return parse(doc, luo_tree_json);
}

/* Text that begins like JSON and is none may still be YAML; its reader says what is wrong. */
static bool json_by_chance(luo_doc *doc)
{
    const size_t start = mark_bytes(doc->src) + strspn(doc->src->text + mark_bytes(doc->src),
                                                       " \t\r\n");
    luo_diags unsaid;
    luo_doc copy = {.arena = doc->arena, .src = doc->src, .diags = &unsaid};
    if (doc->src->text[start] != '{') return false;
    const size_t mark = luo_arena_mark(doc->arena);
    luo_diags_init(&unsaid, doc->arena);
    if (luo_doc_parse_json(&copy) != LUO_OK) {
        luo_arena_reset(doc->arena, mark);
        return false;
    }
    doc->root = copy.root;
    doc->json = true;
    return true;
}

luo_status luo_doc_parse(luo_doc *doc)
{
    return json_by_chance(doc) ? LUO_OK : parse(doc, luo_tree_yaml);
}

luo_status luo_doc_tree(luo_arena *arena, const char *text, size_t n, const luo_doc_node **root,
                        luo_err *err)
{
    luo_diags diags;
    const luo_source src = {"", text, n};
    luo_doc doc = {.arena = arena, .src = &src, .diags = &diags};
    luo_diags_init(&diags, arena);
    luo_doc_parse_json(&doc);
    if (doc.st != LUO_OK && err && diags.first) *err = diags.first->err;
    if (doc.st == LUO_OK) *root = doc.root;
    return doc.st;
}

/* ---- JSON pointers ---- */

/* A key against one token of a pointer, in which ~ stands as ~0 and / as ~1. */
static bool is_token(const char *key, const char *token, size_t n)
{
    size_t i = 0;
    for (; *key && i < n; key++, i++) {
        char c = token[i];
        if (c == '~' && i + 1 < n) c = token[++i] == '1' ? '/' : '~';
        if (c != *key) return false;
    }
    return !*key && i == n;
}

static const luo_doc_node *by_token(const luo_doc_node *in, const char *token, size_t n)
{
    const luo_doc_node *node = in->first;
    int64_t i;
    if (in->type == LUO_DOC_LIST)
        return luo_json_number_whole(token, n, &i) && i >= 0 ? luo_doc_nth(in, i) : NULL;
    while (node && !is_token(node->key, token, n)) node = node->next;
    return node;
}

const luo_doc_node *luo_doc_find(const luo_doc_node *root, const char *pointer, bool *found)
{
    const luo_doc_node *at = root;
    *found = at && (!*pointer || *pointer == '/');
    while (*found && *pointer == '/') {
        const char *token = pointer + 1;
        const size_t n = strcspn(token, "/");
        const luo_doc_node *node = by_token(at, token, n);
        *found = node != NULL;
        if (node) at = node;
        pointer = token + n;
    }
    return at;
}

/* ---- as JSON ---- */

/* Levels are limited, so that it may call itself. */
void luo_doc_json(luo_arena *scratch, luo_str *out, const luo_doc_node *node)
{
    const bool map = node->type == LUO_DOC_MAP;
    const size_t mark = luo_arena_mark(scratch);
    if (node->type == LUO_DOC_SCALAR && node->quoted) luo_jsonw_quote(out, node->text);
    if (node->type == LUO_DOC_SCALAR && !node->quoted) luo_str_add(out, node->text);
    if (node->type == LUO_DOC_SCALAR) return;
    const luo_doc_node **at = children(scratch, node);
    if (!at) out->failed = true;
    luo_str_addc(out, map ? '{' : '[');
    for (int32_t i = 0; at && i < node->n; i++) {
        if (i) luo_str_addc(out, ',');
        if (map) luo_jsonw_quote(out, at[i]->key);
        if (map) luo_str_addc(out, ':');
        luo_doc_json(scratch, out, at[i]);
    }
    luo_str_addc(out, map ? '}' : ']');
    luo_arena_reset(scratch, mark);
}

/* ---- --set PATH=VALUE ---- */

static luo_doc_node *child(luo_doc_node *map, const char *key, size_t n)
{
    for (luo_doc_node *node = map->first; node; node = node->next)
        if (node->key && strlen(node->key) == n && memcmp(node->key, key, n) == 0) return node;
    return NULL;
}

static luo_doc_node *append_map_child(luo_doc *doc, luo_doc_node *map, const char *key, size_t n,
                                      const char *from)
{
    luo_doc_node *node = LUO_NEW(doc->arena, luo_doc_node);
    const char *copy = luo_arena_strndup(doc->arena, key, n);
    if (!node || !copy) {
        luo_doc_nomem(doc);
        return NULL;
    }
    *node = (luo_doc_node){.type = LUO_DOC_MAP, .key = copy, .text = "", .from = from};
    luo_doc_append(map, node);
    return node;
}

static luo_status bad_path(luo_doc *doc, const char *from, const char *why)
{
    luo_diags_add(doc->diags, LUO_ERROR, LUO_EUSAGE, NULL, 0, 0,
                  "%s; PATH=VALUE such as `events[0].slowdown=3` is expected. (given by --set %s)",
                  why, from);
    if (doc->st == LUO_OK) doc->st = LUO_EUSAGE;
    return LUO_EUSAGE;
}

/* One `key`, then any number of `[i]`; *at is moved behind them. */
static luo_doc_node *step(luo_doc *doc, luo_doc_node *node, const char **at, const char *from)
{
    const size_t n = strcspn(*at, ".[=");
    if (n == 0 || node->type != LUO_DOC_MAP) {
        bad_path(doc, from, n ? "the path leads into a value that has no keys" : "a key is empty");
        return NULL;
    }
    luo_doc_node *y = child(node, *at, n);
    if (!y) y = append_map_child(doc, node, *at, n, from);
    for (*at += n; y && **at == '['; ) {
        int64_t i;
        const size_t k = strcspn(*at + 1, "]=");
        if ((*at)[1 + k] != ']' || !luo_json_number_whole(*at + 1, k, &i) || i < 0) {
            bad_path(doc, from, "an index is not of the form [0]");
            return NULL;
        }
        y = (luo_doc_node *)luo_doc_nth(y, i);
        if (!y) bad_path(doc, from, "the list has no such entry");
        *at += k + 2;
    }
    return y;
}

static luo_doc_node *walk(luo_doc *doc, const char **at, const char *from)
{
    luo_doc_node *node = doc->root;
    for (;;) {
        node = step(doc, node, at, from);
        if (!node || **at == '=') return node;
        if (**at != '.') {
            bad_path(doc, from, "there is no `=`");
            return NULL;
        }
        ++*at;
    }
}

/* The path begins behind `skip` bytes of the text, all of which messages show. */
static luo_status set_value(luo_doc *doc, const char *text, size_t skip)
{
    const char *at = text + skip;
    luo_tree tree = {.doc = doc, .from = text};
    if (!doc->root) return doc->st;
    luo_doc_node *node = walk(doc, &at, text);
    if (!node) return doc->st;
    if (!luo_utf8_valid(at + 1, strlen(at + 1))) return bad_path(doc, text, "not UTF-8");
    luo_tree_yaml(&tree, at + 1, strlen(at + 1));
    if (tree.broken) return doc->st;
    luo_doc_node none = {.type = LUO_DOC_SCALAR, .quoted = true, .text = ""};
    const luo_doc_node *v = tree.root ? tree.root : &none;
    node->type = v->type;
    node->quoted = v->quoted;
    node->text = v->text;
    node->n = v->n;
    node->first = v->first;
    node->last = v->last;
    node->from = text;
    for (luo_doc_node *y = node->first; y; y = y->next) y->up = node;
    return doc->st;
}

luo_status luo_doc_set(luo_doc *doc, const char *text)
{
    return set_value(doc, text, 0);
}

const char *luo_doc_override(const luo_overrides *overrides, int32_t i)
{
    const size_t n = overrides->part ? strlen(overrides->part) : 0;
    return n == 0 || strncmp(overrides->at[i], overrides->part, n) == 0 ? overrides->at[i] + n
                                                                        : NULL;
}

void luo_doc_override_all(luo_doc *doc, const luo_overrides *overrides)
{
    for (int32_t i = 0; overrides && i < overrides->n; i++) {
        const char *own = luo_doc_override(overrides, i);
        if (own) set_value(doc, overrides->at[i], (size_t)(own - overrides->at[i]));
    }
}
