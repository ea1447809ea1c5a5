/* yaml_tree.c: YAML by the events of libyaml into a tree; no anchors, tags, merges and second
 * documents (docs/formats.md#rules-for-all-files). */
#include <string.h>
#include <yaml.h>

#include "core/io/document/tree_internal.h"

static int line_of(const yaml_event_t *e)
{
    return (int)e->start_mark.line + 1;
}

static int col_of(const yaml_event_t *e)
{
    return (int)e->start_mark.column + 1;
}

static void refuse_marks(luo_tree *t, const yaml_event_t *e, const unsigned char *anchor,
                         const unsigned char *tag)
{
    if (anchor)
        luo_tree_error(t, line_of(e), col_of(e),
                       "anchor `&%s` stands here; anchors are not allowed, write the value out.",
                       (const char *)anchor);
    if (tag)
        luo_tree_error(t, line_of(e), col_of(e), "tag `%s` stands here; tags are not allowed.",
                       (const char *)tag);
}

static void on_scalar(luo_tree *t, const yaml_event_t *e)
{
    const size_t n = e->data.scalar.length;
    const char *raw = (const char *)e->data.scalar.value;
    refuse_marks(t, e, e->data.scalar.anchor, e->data.scalar.tag);
    if (memchr(raw, 0, n))
        luo_tree_error(t, line_of(e), col_of(e), "a text holds a 0 character.");
    const char *text = luo_arena_strndup(t->doc->arena, raw, n);
    if (!text)
        luo_tree_nomem(t);
    else if (!luo_tree_wants_key(t))
        luo_tree_scalar(t, text, e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE, line_of(e),
                        col_of(e));
    else if (strcmp(text, "<<") == 0) /* what was to be merged would be missing */
        luo_tree_break(t, line_of(e), col_of(e),
                       "merge key `<<` stands here; merges are not allowed, write the keys out.");
    else
        luo_tree_key(t, text, line_of(e), col_of(e));
}

static void on_open(luo_tree *t, luo_doc_type type, const yaml_event_t *e)
{
    if (type == LUO_DOC_MAP)
        refuse_marks(t, e, e->data.mapping_start.anchor, e->data.mapping_start.tag);
    else
        refuse_marks(t, e, e->data.sequence_start.anchor, e->data.sequence_start.tag);
    if (luo_tree_wants_key(t))
        luo_tree_break(t, line_of(e), col_of(e), "a key is a map or a list; a word is expected.");
    else
        luo_tree_open(t, type, line_of(e), col_of(e));
}

static void on_event(luo_tree *t, const yaml_event_t *e)
{
    switch (e->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (t->root)
            luo_tree_break(t, line_of(e), col_of(e),
                           "a second document begins here; one document a file is expected.");
        break;
    case YAML_ALIAS_EVENT:
        luo_tree_break(t, line_of(e), col_of(e),
                       "alias `*%s` stands here; aliases are not allowed, write the value out.",
                       (const char *)e->data.alias.anchor);
        break;
    case YAML_SCALAR_EVENT:
        on_scalar(t, e);
        break;
    case YAML_SEQUENCE_START_EVENT:
        on_open(t, LUO_DOC_LIST, e);
        break;
    case YAML_MAPPING_START_EVENT:
        on_open(t, LUO_DOC_MAP, e);
        break;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        luo_tree_close(t);
        break;
    default:
        break;
    }
}

static void parser_error(luo_tree *t, const yaml_parser_t *p)
{
    if (p->error == YAML_MEMORY_ERROR)
        luo_tree_nomem(t);
    else
        luo_tree_break(t, (int)p->problem_mark.line + 1, (int)p->problem_mark.column + 1,
                       "%s%s%s; check indentation, quotes and brackets up to here.",
                       p->problem ? p->problem : "not YAML", p->context ? " " : "",
                       p->context ? p->context : "");
}

void luo_tree_yaml(luo_tree *t, const char *text, size_t len)
{
    yaml_parser_t p;
    if (!yaml_parser_initialize(&p)) {
        luo_tree_nomem(t);
        return;
    }
    yaml_parser_set_encoding(&p, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&p, (const unsigned char *)text, len);
    for (bool more = true; more && !t->broken;) {
        yaml_event_t e;
        if (!yaml_parser_parse(&p, &e)) {
            parser_error(t, &p);
            break;
        }
        on_event(t, &e);
        more = e.type != YAML_STREAM_END_EVENT;
        yaml_event_delete(&e);
    }
    yaml_parser_delete(&p);
}
