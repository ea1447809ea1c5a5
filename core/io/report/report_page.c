/* report_page.c: what pages of all kinds of folders are made of. */
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/document/doc.h"
#include "core/io/io.h"
#include "core/io/report/report_internal.h"
#include "core/io/result/table.h"

void luo_report_put(report_page *page, const char *html)
{
    luo_str_add(&page->html, html);
}

void luo_report_put_element(report_page *page, const char *tag, const char *text)
{
    luo_str_addf(&page->html, "<%s>", tag);
    luo_report_escape(&page->html, text);
    luo_str_addf(&page->html, "</%.*s>\n", (int)strcspn(tag, " "), tag);
}

/* ---- head ---- */

/* A paragraph a line; the first is the answer itself. */
static void put_sentences(report_page *page, const char *text)
{
    for (bool first = true; *text; first = false) {
        const size_t n = strcspn(text, "\n");
        const char *line = luo_arena_strndup(page->arena, text, n);
        luo_report_put_element(page, first ? "p class=\"answer\"" : "p",
                               line ? luo_result_shown(page->arena, line) : "");
        text += n + (text[n] == '\n');
    }
}

void luo_report_begin(report_page *page, const char *title, const char *heading,
                      const char *question, const char *answer)
{
    luo_report_put(page,
                   "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                   "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                   "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                   "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n");
    luo_report_put_element(page, "title", title);
    luo_str_addf(&page->html, "<style>\n%s</style>\n</head>\n<body>\n<header>\n",
                 page->opts->style);
    luo_report_put_element(page, "h1", heading);
    if (*question) luo_report_put_element(page, "p class=\"question\"", question);
    put_sentences(page, answer);
    luo_report_put(page, "</header>\n<main>\n");
}

void luo_report_end(report_page *page)
{
    luo_str_addf(&page->html, "</main>\n<script>\n%s</script>\n</body>\n</html>\n",
                 page->opts->script);
}

/* ---- figures ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_figure(const char *name)
{
    const size_t len = strlen(name);
    return len > 4 && strcmp(name + len - 4, ".svg") == 0;
}

bool luo_report_has_figures(const char *dir)
{
    luo_str path = {0};
    bool found = false;
    luo_str_addf(&path, "%s/plots", dir);
    DIR *folder = opendir(luo_str_get(&path));
    for (const struct dirent *e; folder && !found && (e = readdir(folder));)
        found = is_figure(e->d_name);
    if (folder) closedir(folder);
    luo_str_free(&path);
    return found;
}

luo_status luo_report_list_figures(report_page *page, const char *dir, const char ***out,
                                   int32_t *n)
{
    enum { MOST = 64 };
    const char **names = *out = LUO_NEW_N(page->arena, const char *, MOST);
    const char *plots = luo_arena_printf(page->arena, "%s/plots", dir);
    *n = 0;
    if (!names || !plots) return luo_err_nomem(&page->err);
    DIR *folder = opendir(plots);
    for (struct dirent *e; folder && *n < MOST && (e = readdir(folder));) {
        if (!is_figure(e->d_name)) continue;
        names[*n] = luo_arena_printf(page->arena, "%s/%s", plots, e->d_name);
        if (names[*n]) ++*n;
    }
    if (folder) closedir(folder);
    qsort(names, (size_t)*n, sizeof *names, by_name);
    return LUO_OK;
}

/* `throughput` of a/plots/throughput.svg. */
static const char *figure_name(report_page *page, const char *path)
{
    const char *name = strrchr(path, '/') + 1;
    const char *text = luo_arena_strndup(page->arena, name, strlen(name) - 4);
    return text ? text : name;
}

luo_status luo_report_put_figure(report_page *page, const char *path, const char *of)
{
    luo_source svg;
    const char *name = figure_name(page, path);
    LUO_TRY(luo_source_read(page->arena, path, &svg, &page->err));
    luo_report_put(page, "<figure>\n");
    if (page->html.len + svg.len / 3 * 4 > LUO_REPORT_BYTES) {
        luo_str_addf(&page->html, "<p>Too large for this page: ");
        luo_report_escape(&page->html, path);
        luo_report_put(page, "</p>\n");
    } else {
        luo_report_put(page, "<img alt=\"");
        luo_report_escape(&page->html, name);
        luo_report_put(page, "\" src=\"data:image/svg+xml;base64,");
        luo_report_base64(&page->html, svg.text, svg.len);
        luo_report_put(page, "\">\n");
    }
    luo_report_put_element(page, "figcaption",
                           *of ? luo_arena_printf(page->arena, "%s, of %s", name, of) : name);
    luo_report_put(page, "</figure>\n");
    return LUO_OK;
}

luo_status luo_report_put_figures(report_page *page, const char *dir)
{
    const char **path;
    int32_t n;
    luo_report_put(page, "<section id=\"figures\">\n<h2>Figures</h2>\n");
    LUO_TRY(luo_report_list_figures(page, dir, &path, &n));
    luo_report_put(page, n > 0 ? "<div class=\"figures\">\n" : "<p>None.</p>\n");
    for (int32_t i = 0; i < n; i++) LUO_TRY(luo_report_put_figure(page, path[i], ""));
    luo_report_put(page, n > 0 ? "</div>\n</section>\n" : "</section>\n");
    return LUO_OK;
}

/* ---- documents ---- */

const luo_doc_node *luo_report_read(report_page *page, const char *dir, const char *name)
{
    luo_source src;
    luo_err unheard = {0};
    const luo_doc_node *root = NULL;
    const char *path = luo_arena_printf(page->arena, "%s/%s", dir, name);
    if (!path || !luo_result_has(dir, name)) return NULL;
    if (luo_source_read(page->arena, path, &src, &unheard) != LUO_OK) return NULL;
    if (luo_doc_tree(page->arena, src.text, src.len, &root, &unheard) != LUO_OK) return NULL;
    return root;
}

const char *luo_report_text(report_page *page, const luo_doc_node *node)
{
    return node && node->text ? luo_result_shown(page->arena, node->text) : "";
}

/* ---- rows ---- */

void luo_report_put_row(report_page *page, const char *key, const char *text)
{
    luo_report_put(page, "<tr><th>");
    luo_report_escape(&page->html, key);
    luo_report_put(page, "</th><td>");
    luo_report_escape(&page->html, text);
    luo_report_put(page, "</td></tr>\n");
}

/* ---- tables that sort ---- */

void luo_report_put_titles(report_page *page, const report_column *columns, int32_t n)
{
    luo_report_put(page, "<thead><tr>");
    for (int32_t c = 0; c < n; c++) {
        luo_report_put(page, columns[c].word ? "<th class=\"word\" title=\"" : "<th title=\"");
        luo_report_escape(&page->html, columns[c].meaning);
        luo_report_put(page, "\">");
        luo_report_escape(&page->html, columns[c].title);
        if (*columns[c].unit) luo_str_addf(&page->html, " <small>%s</small>", columns[c].unit);
        luo_report_put(page, "</th>");
    }
    luo_report_put(page, "</tr></thead>\n");
}

void luo_report_put_cell(report_page *page, bool word, const char *text)
{
    luo_report_put(page, word ? "<td class=\"word\">" : "<td>");
    luo_report_escape(&page->html, text);
    luo_report_put(page, "</td>");
}

void luo_report_put_number(report_page *page, double value, int decimals)
{
    luo_report_put(page, "<td>");
    if (isfinite(value))
        luo_table_print_fixed(&page->html, value, decimals);
    else
        luo_report_put(page, "-");
    luo_report_put(page, "</td>");
}

double luo_report_real(const luo_doc_node *map, const char *key)
{
    double value;
    return luo_doc_real(luo_doc_get(map, key), &value) ? value : NAN;
}
