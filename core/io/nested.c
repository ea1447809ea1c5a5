#include "core/io/nested.h"

#include <stdio.h>
#include <string.h>

luo_status luo_nested_get(luo_yaml_doc *doc, const luo_files *files, const luo_yaml *node,
                          luo_source *out)
{
    luo_err err;
    const char *path = luo_path_join(doc->arena, doc->src->name, node->text);
    if (!path) return luo_yaml_nomem(doc);
    const luo_status st = luo_files_get(files, doc->arena, path, out, &err);
    if (st == LUO_ENOMEM) return luo_yaml_nomem(doc);
    if (st != LUO_OK) return luo_yaml_error(doc, node, "%s", err.text);
    return LUO_OK;
}

void luo_nested_trail(luo_yaml_doc *doc, const luo_diag *before, const char *what,
                      const luo_yaml *node)
{
    char trail[LUO_ERR_PATH + 64];
    if (node->from)
        snprintf(trail, sizeof trail, " (in %s named by --set %s)", what, node->from);
    else
        snprintf(trail, sizeof trail, " (in %s named at %s:%d:%d)", what, doc->src->name,
                 node->line, node->col);
    luo_diag *d = before ? before->next : doc->diags->first;
    for (; d; d = d->next) {
        const size_t n = strlen(d->err.text);
        if (n + strlen(trail) < sizeof d->err.text) strcpy(d->err.text + n, trail);
    }
}
