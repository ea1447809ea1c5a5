/* yaml_tree.c: libyaml events into a tree with positions; no anchors, tags, merges, second
 * documents; nesting and numbers of values limited (docs/formats.md#rules-for-all-files). */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "core/base/utf8.h"
#include "core/io/document/yaml_strict.h"

enum { DEPTH_MAX = 32, KEYS_MAX = 64, NODES_MAX = 4000000 };

/* ---- messages ---- */

static luo_status say(luo_yaml_doc *doc, luo_status st, const char *from, int line, int col,
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

luo_status luo_yaml_error(luo_yaml_doc *doc, const luo_yaml *node, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(doc, LUO_EINPUT, node ? node->from : NULL, node ? node->line : 1, node ? node->col : 1,
        fmt, ap);
    va_end(ap);
    return LUO_EINPUT;
}

luo_status luo_yaml_error_key(luo_yaml_doc *doc, const luo_yaml *node, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(doc, LUO_EINPUT, node->from, node->key ? node->key_line : node->line,
        node->key ? node->key_col : node->col, fmt, ap);
    va_end(ap);
    return LUO_EINPUT;
}

static luo_status syntax(luo_yaml_doc *doc, const char *from, int line, int col, const char *fmt,
                         ...) LUO_PRINTF(5, 6);
static luo_status syntax(luo_yaml_doc *doc, const char *from, int line, int col, const char *fmt,
                         ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(doc, LUO_EPARSE, from, line, col, fmt, ap);
    va_end(ap);
    return LUO_EPARSE;
}

luo_status luo_yaml_nomem(luo_yaml_doc *doc)
{
    luo_diags_add(doc->diags, LUO_ERROR, LUO_ENOMEM, NULL, 0, 0,
                  "this process is out of memory; free some or use less.");
    if (doc->st == LUO_OK) doc->st = LUO_ENOMEM;
    return LUO_ENOMEM;
}

luo_status luo_yaml_missing(luo_yaml_doc *doc, const luo_yaml *map, const char *key)
{
    return luo_yaml_error(doc, map, "key `%s` is missing.", key);
}

/* ---- the tree ---- */

const luo_yaml *luo_yaml_get(const luo_yaml *map, const char *key)
{
    if (!map || map->type != LUO_YAML_MAP) return NULL;
    for (const luo_yaml *x = map->first; x; x = x->next)
        if (strcmp(x->key, key) == 0) return x;
    return NULL;
}

const luo_yaml *luo_yaml_nth(const luo_yaml *list, int64_t i)
{
    if (!list || list->type != LUO_YAML_LIST) return NULL;
    const luo_yaml *x = list->first;
    while (x && i-- > 0) x = x->next;
    return x;
}

typedef struct build {
    luo_yaml_doc *doc;
    const char *from; /* `--set` argument being read, NULL: a file */
    luo_yaml *root, *open; /* the map or list being filled */
    int32_t depth, nodes, documents;
    const char *key; /* read, its value not yet */
    int key_line, key_col;
    bool broken; /* nothing more can be read */
} build;

static int line_of(const yaml_event_t *e)
{
    return (int)e->start_mark.line + 1;
}

static int col_of(const yaml_event_t *e)
{
    return (int)e->start_mark.column + 1;
}

/* At most KEYS_MAX keys a map: more than any schema has, and it bounds the work for doubles. */
static void take_key(build *b, const char *text, const yaml_event_t *e)
{
    const luo_yaml *twice = luo_yaml_get(b->open, text);
    if (strcmp(text, "<<") == 0) {
        syntax(b->doc, b->from, line_of(e), col_of(e),
               "merge key `<<` stands here; merges are not allowed, write the keys out.");
        b->broken = true; /* what was to be merged would be missing */
    } else if (twice)
        syntax(b->doc, b->from, line_of(e), col_of(e),
               "`%s` is given twice, first at line %d; each key is given once.", text,
               twice->key_line);
    if (b->open->n >= KEYS_MAX) {
        syntax(b->doc, b->from, line_of(e), col_of(e),
               "a mapping has more than %d keys; none of ours has.", KEYS_MAX);
        b->broken = true;
    }
    b->key = text;
    b->key_line = line_of(e);
    b->key_col = col_of(e);
}

static luo_yaml *add_node(build *b, luo_yaml_type type, const yaml_event_t *e)
{
    luo_yaml *x = LUO_NEW(b->doc->arena, luo_yaml);
    if (!x) {
        luo_yaml_nomem(b->doc);
        b->broken = true;
        return NULL;
    }
    *x = (luo_yaml){.type = type, .text = "", .from = b->from, .line = line_of(e),
                    .col = col_of(e), .up = b->open};
    if (++b->nodes > NODES_MAX) {
        syntax(b->doc, b->from, x->line, x->col, "more than %d values; split the file.", NODES_MAX);
        b->broken = true;
    }
    if (b->open && b->open->type == LUO_YAML_MAP) {
        x->key = b->key;
        x->key_line = b->key_line;
        x->key_col = b->key_col;
        b->key = NULL;
    }
    if (!b->open) {
        b->root = x;
    } else {
        if (b->open->last) b->open->last->next = x;
        else b->open->first = x;
        b->open->last = x;
        b->open->n++;
    }
    return x;
}

static void refuse_marks(build *b, const yaml_event_t *e, const unsigned char *anchor,
                         const unsigned char *tag)
{
    if (anchor)
        syntax(b->doc, b->from, line_of(e), col_of(e),
               "anchor `&%s` stands here; anchors are not allowed, write the value out.",
               (const char *)anchor);
    if (tag)
        syntax(b->doc, b->from, line_of(e), col_of(e),
               "tag `%s` stands here; tags are not allowed.", (const char *)tag);
}

static void on_scalar(build *b, const yaml_event_t *e)
{
    const size_t n = e->data.scalar.length;
    const char *raw = (const char *)e->data.scalar.value;
    refuse_marks(b, e, e->data.scalar.anchor, e->data.scalar.tag);
    if (memchr(raw, 0, n))
        syntax(b->doc, b->from, line_of(e), col_of(e), "a text holds a 0 character.");
    const char *text = luo_arena_strndup(b->doc->arena, raw, n);
    if (!text) {
        luo_yaml_nomem(b->doc);
        b->broken = true;
        return;
    }
    if (b->open && b->open->type == LUO_YAML_MAP && !b->key) {
        take_key(b, text, e);
        return;
    }
    luo_yaml *x = add_node(b, LUO_YAML_SCALAR, e);
    if (!x) return;
    x->text = text;
    x->quoted = e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
}

static void on_open(build *b, luo_yaml_type type, const yaml_event_t *e)
{
    if (type == LUO_YAML_MAP) refuse_marks(b, e, e->data.mapping_start.anchor,
                                           e->data.mapping_start.tag);
    else refuse_marks(b, e, e->data.sequence_start.anchor, e->data.sequence_start.tag);
    if (b->open && b->open->type == LUO_YAML_MAP && !b->key) {
        syntax(b->doc, b->from, line_of(e), col_of(e), "a key is a map or a list; a word is "
                                                       "expected.");
        b->broken = true;
        return;
    }
    if (++b->depth > DEPTH_MAX) {
        syntax(b->doc, b->from, line_of(e), col_of(e), "nested deeper than %d levels.", DEPTH_MAX);
        b->broken = true;
        return;
    }
    luo_yaml *x = add_node(b, type, e);
    if (x) b->open = x;
}

static void on_event(build *b, const yaml_event_t *e)
{
    switch (e->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (++b->documents == 2) {
            syntax(b->doc, b->from, line_of(e), col_of(e),
                   "a second document begins here; one document a file is expected.");
            b->broken = true;
        }
        break;
    case YAML_ALIAS_EVENT:
        syntax(b->doc, b->from, line_of(e), col_of(e),
               "alias `*%s` stands here; aliases are not allowed, write the value out.",
               (const char *)e->data.alias.anchor);
        b->broken = true;
        break;
    case YAML_SCALAR_EVENT:
        on_scalar(b, e);
        break;
    case YAML_SEQUENCE_START_EVENT:
        on_open(b, LUO_YAML_LIST, e);
        break;
    case YAML_MAPPING_START_EVENT:
        on_open(b, LUO_YAML_MAP, e);
        break;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        b->depth--;
        b->open = b->open->up;
        break;
    default:
        break;
    }
}

static void parser_error(build *b, const yaml_parser_t *p)
{
    if (p->error == YAML_MEMORY_ERROR) {
        luo_yaml_nomem(b->doc);
        return;
    }
    syntax(b->doc, b->from, (int)p->problem_mark.line + 1, (int)p->problem_mark.column + 1,
           "%s%s%s; check indentation, quotes and brackets up to here.",
           p->problem ? p->problem : "not YAML", p->context ? " " : "",
           p->context ? p->context : "");
}

static void read_events(build *b, const char *text, size_t len)
{
    yaml_parser_t p;
    if (!yaml_parser_initialize(&p)) {
        luo_yaml_nomem(b->doc);
        return;
    }
    yaml_parser_set_encoding(&p, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&p, (const unsigned char *)text, len);
    for (bool more = true; more && !b->broken;) {
        yaml_event_t e;
        if (!yaml_parser_parse(&p, &e)) {
            parser_error(b, &p);
            b->broken = true;
            break;
        }
        on_event(b, &e);
        more = e.type != YAML_STREAM_END_EVENT;
        yaml_event_delete(&e);
    }
    yaml_parser_delete(&p);
}

luo_status luo_yaml_parse(luo_yaml_doc *doc)
{
    const luo_source *src = doc->src;
    const size_t bom = src->len >= 3 && memcmp(src->text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    build b = {.doc = doc};
    if (!luo_utf8_valid(src->text + bom, src->len - bom))
        return syntax(doc, NULL, 1, 1, "the file is not UTF-8 text; save it as UTF-8.");
    read_events(&b, src->text + bom, src->len - bom);
    if (b.broken) return doc->st;
    doc->root = b.root;
    if (!b.root) return syntax(doc, NULL, 1, 1, "the file is empty; `schema: luoshu.KIND/1` and "
                                                "its keys are expected.");
    return doc->st;
}

/* ---- --set PATH=VALUE ---- */

static luo_yaml *child(luo_yaml *map, const char *key, size_t n)
{
    for (luo_yaml *x = map->first; x; x = x->next)
        if (x->key && strlen(x->key) == n && memcmp(x->key, key, n) == 0) return x;
    return NULL;
}

static luo_yaml *append_map_child(luo_yaml_doc *doc, luo_yaml *map, const char *key, size_t n,
                                  const char *from)
{
    luo_yaml *x = LUO_NEW(doc->arena, luo_yaml);
    const char *copy = luo_arena_strndup(doc->arena, key, n);
    if (!x || !copy) {
        luo_yaml_nomem(doc);
        return NULL;
    }
    *x = (luo_yaml){.type = LUO_YAML_MAP, .key = copy, .text = "", .from = from, .up = map};
    if (map->last) map->last->next = x;
    else map->first = x;
    map->last = x;
    map->n++;
    return x;
}

static luo_status bad_path(luo_yaml_doc *doc, const char *from, const char *why)
{
    luo_diags_add(doc->diags, LUO_ERROR, LUO_EUSAGE, NULL, 0, 0,
                  "%s; PATH=VALUE such as `events[0].slowdown=3` is expected. (given by --set %s)",
                  why, from);
    if (doc->st == LUO_OK) doc->st = LUO_EUSAGE;
    return LUO_EUSAGE;
}

/* One `key`, then any number of `[i]`; *at is moved behind them. */
static luo_yaml *step(luo_yaml_doc *doc, luo_yaml *x, const char **at, const char *from)
{
    const size_t n = strcspn(*at, ".[=");
    if (n == 0 || x->type != LUO_YAML_MAP) {
        bad_path(doc, from, n ? "the path leads into a value that has no keys" : "a key is empty");
        return NULL;
    }
    luo_yaml *y = child(x, *at, n);
    if (!y) y = append_map_child(doc, x, *at, n, from);
    for (*at += n; y && **at == '['; ) {
        int64_t i;
        const size_t k = strcspn(*at + 1, "]=");
        if ((*at)[1 + k] != ']' || !luo_number_whole(*at + 1, k, &i) || i < 0) {
            bad_path(doc, from, "an index is not of the form [0]");
            return NULL;
        }
        y = (luo_yaml *)luo_yaml_nth(y, i);
        if (!y) bad_path(doc, from, "the list has no such entry");
        *at += k + 2;
    }
    return y;
}

static luo_yaml *walk(luo_yaml_doc *doc, const char **at, const char *from)
{
    luo_yaml *x = doc->root;
    for (;;) {
        x = step(doc, x, at, from);
        if (!x || **at == '=') return x;
        if (**at != '.') {
            bad_path(doc, from, "there is no `=`");
            return NULL;
        }
        ++*at;
    }
}

luo_status luo_yaml_set(luo_yaml_doc *doc, const char *text)
{
    const char *at = text;
    build b = {.doc = doc, .from = text};
    if (!doc->root) return doc->st;
    luo_yaml *x = walk(doc, &at, text);
    if (!x) return doc->st;
    if (!luo_utf8_valid(at + 1, strlen(at + 1))) return bad_path(doc, text, "not UTF-8");
    read_events(&b, at + 1, strlen(at + 1));
    if (b.broken) return doc->st;
    luo_yaml none = {.type = LUO_YAML_SCALAR, .quoted = true, .text = ""};
    const luo_yaml *v = b.root ? b.root : &none;
    x->type = v->type;
    x->quoted = v->quoted;
    x->text = v->text;
    x->n = v->n;
    x->first = v->first;
    x->last = v->last;
    x->from = text;
    for (luo_yaml *y = x->first; y; y = y->next) y->up = x;
    return doc->st;
}
