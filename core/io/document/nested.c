#include "core/io/document/nested.h"

#include <stdio.h>
#include <string.h>

#include "core/io/builtin.h"

/* folder: of built-in files that may be meant; NULL: none. */
static luo_status get(luo_doc *doc, const luo_files *files, const luo_doc_node *node,
                      const char *folder, const char *path, luo_source *out)
{
    luo_err err;
    const luo_status st = luo_files_get(files, doc->arena, path, out, &err);
    if (st == LUO_ENOMEM) return luo_doc_nomem(doc);
    if (st != LUO_OK && folder) luo_builtin_refuse(folder, path, &err);
    if (st != LUO_OK) return luo_doc_error(doc, node, "%s", err.text);
    return LUO_OK;
}

luo_status luo_nested_get(luo_doc *doc, const luo_files *files, const luo_doc_node *node,
                          luo_source *out)
{
    const char *path = luo_file_path_join(doc->arena, doc->src->name, node->text);
    return path ? get(doc, files, node, NULL, path, out) : luo_doc_nomem(doc);
}

luo_status luo_nested_named(luo_doc *doc, const luo_files *files, const luo_doc_node *node,
                            const char *folder, luo_source *out)
{
    char path[LUO_ERR_PATH];
    if (luo_builtin_path(folder, node->text, path, sizeof path))
        return get(doc, files, node, NULL, path, out);
    const char *file = luo_file_path_join(doc->arena, doc->src->name, node->text);
    return file ? get(doc, files, node, folder, file, out) : luo_doc_nomem(doc);
}

void luo_nested_trail(luo_doc *doc, const luo_diag *before, const char *what,
                      const luo_doc_node *node)
{
    char trail[LUO_ERR_PATH + 64];
    if (node->from)
        snprintf(trail, sizeof trail, " (in %s named by --set %s)", what, node->from);
    else
        snprintf(trail, sizeof trail, " (in %s named at %s:%d:%d)", what, doc->src->name,
                 node->line, node->col);
    luo_diag *diag = before ? before->next : doc->diags->first;
    for (; diag; diag = diag->next) {
        const size_t n = strlen(diag->err.text);
        if (n + strlen(trail) < sizeof diag->err.text) strcpy(diag->err.text + n, trail);
    }
}
