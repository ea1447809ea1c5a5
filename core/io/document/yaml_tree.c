/* yaml_tree.c: YAML by the events of libyaml into a tree; no anchors, tags, merges and second
 * documents (docs/formats.md#rules-for-all-files). */
#include <string.h>
#include <yaml.h>

#include "core/io/document/tree_internal.h"

static int line_of(const yaml_event_t *event)
{
    return (int)event->start_mark.line + 1;
}

static int col_of(const yaml_event_t *event)
{
    return (int)event->start_mark.column + 1;
}

static void refuse_marks(luo_tree *tree, const yaml_event_t *event, const unsigned char *anchor,
                         const unsigned char *tag)
{
    if (anchor)
        luo_tree_error(tree, line_of(event), col_of(event),
                       "anchor `&%s` stands here; anchors are not allowed, write the value out.",
                       (const char *)anchor);
    if (tag)
        luo_tree_error(tree, line_of(event), col_of(event),
                       "tag `%s` stands here; tags are not allowed.", (const char *)tag);
}

static void on_scalar(luo_tree *tree, const yaml_event_t *event)
{
    const size_t n = event->data.scalar.length;
    const char *raw = (const char *)event->data.scalar.value;
    refuse_marks(tree, event, event->data.scalar.anchor, event->data.scalar.tag);
    if (memchr(raw, 0, n))
        luo_tree_error(tree, line_of(event), col_of(event), "a text holds a 0 character.");
    const char *text = luo_arena_strndup(tree->doc->arena, raw, n);
    if (!text)
        luo_tree_nomem(tree);
    else if (!luo_tree_wants_key(tree))
        luo_tree_scalar(tree, text, event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE,
                        line_of(event), col_of(event));
    else if (strcmp(text, "<<") == 0) /* what was to be merged would be missing */
        luo_tree_break(tree, line_of(event), col_of(event),
                       "merge key `<<` stands here; merges are not allowed, write the keys out.");
    else
        luo_tree_key(tree, text, line_of(event), col_of(event));
}

static void on_open(luo_tree *tree, luo_doc_type type, const yaml_event_t *event)
{
    if (type == LUO_DOC_MAP)
        refuse_marks(tree, event, event->data.mapping_start.anchor, event->data.mapping_start.tag);
    else
        refuse_marks(tree, event, event->data.sequence_start.anchor,
                     event->data.sequence_start.tag);
    if (luo_tree_wants_key(tree))
        luo_tree_break(tree, line_of(event), col_of(event),
                       "a key is a map or a list; a word is expected.");
    else
        luo_tree_open(tree, type, line_of(event), col_of(event));
}

static void on_event(luo_tree *tree, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (tree->root)
            luo_tree_break(tree, line_of(event), col_of(event),
                           "a second document begins here; one document a file is expected.");
        break;
    case YAML_ALIAS_EVENT:
        luo_tree_break(tree, line_of(event), col_of(event),
                       "alias `*%s` stands here; aliases are not allowed, write the value out.",
                       (const char *)event->data.alias.anchor);
        break;
    case YAML_SCALAR_EVENT:
        on_scalar(tree, event);
        break;
    case YAML_SEQUENCE_START_EVENT:
        on_open(tree, LUO_DOC_LIST, event);
        break;
    case YAML_MAPPING_START_EVENT:
        on_open(tree, LUO_DOC_MAP, event);
        break;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        luo_tree_close(tree);
        break;
    default:
        break;
    }
}

/* Column of the tab by which line `line` of a text is indented, 1..; 0: there is none. */
static int tab_of_line(const char *text, size_t len, size_t line)
{
    const char *end = text + len;
    for (; line > 0 && text < end; text++) line -= *text == '\n';
    int col = 1;
    for (; text < end && (*text == ' ' || *text == '\t'); text++, col++)
        if (*text == '\t') return col;
    return 0;
}

static void parser_error(luo_tree *tree, const yaml_parser_t *p, const char *text, size_t len)
{
    const int tab = tab_of_line(text, len, p->problem_mark.line);
    if (p->error == YAML_MEMORY_ERROR)
        luo_tree_nomem(tree);
    else if (tab)
        luo_tree_break(tree, (int)p->problem_mark.line + 1, tab,
                       "a tab indents this line, and YAML is indented by spaces; put spaces in its "
                       "place.");
    else
        luo_tree_break(tree, (int)p->problem_mark.line + 1, (int)p->problem_mark.column + 1,
                       "%s%s%s; check indentation, quotes and brackets up to here.",
                       p->problem ? p->problem : "not YAML", p->context ? " " : "",
                       p->context ? p->context : "");
}

void luo_tree_yaml(luo_tree *tree, const char *text, size_t len)
{
    yaml_parser_t p;
    if (!yaml_parser_initialize(&p)) {
        luo_tree_nomem(tree);
        return;
    }
    yaml_parser_set_encoding(&p, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&p, (const unsigned char *)text, len);
    for (bool more = true; more && !tree->broken;) {
        yaml_event_t e;
        if (!yaml_parser_parse(&p, &e)) {
            parser_error(tree, &p, text, len);
            break;
        }
        on_event(tree, &e);
        more = e.type != YAML_STREAM_END_EVENT;
        yaml_event_delete(&e);
    }
    yaml_parser_delete(&p);
}
