#include "core/io/report/report.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/io/compare/compare.h"
#include "core/io/document/doc.h"
#include "core/io/io.h"
#include "core/io/report/report_internal.h"

typedef struct report_page {
    luo_arena *arena;
    const luo_report_opts *opts;
    luo_result *runs;
    int32_t nruns;
    luo_str html, answer, notes;
    luo_diags *diags;
    luo_err err;
} report_page;

static void put(report_page *page, const char *html)
{
    luo_str_add(&page->html, html);
}

/* <TAG>text</TAG> */
static void put_element(report_page *page, const char *tag, const char *text)
{
    luo_str_addf(&page->html, "<%s>", tag);
    luo_report_escape(&page->html, text);
    luo_str_addf(&page->html, "</%.*s>\n", (int)strcspn(tag, " "), tag);
}

/* ---- head ---- */

static void put_head(report_page *page)
{
    const char *scenario = page->nruns ? page->runs[0].scenario : "";
    if (!*scenario && page->nruns == 1) scenario = page->runs[0].name; /* a recorded one has none */
    put(page, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
           "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
           "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
           "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n");
    put_element(page, "title",
                *scenario ? luo_arena_printf(page->arena, "luoshu: %s", scenario) : "luoshu: runs");
    luo_str_addf(&page->html, "<style>\n%s</style>\n</head>\n<body>\n<header>\n",
                 page->opts->style);
    put_element(page, "h1", *scenario ? scenario : "Runs side by side");
    if (page->answer.len) put_element(page, "p class=\"answer\"", luo_str_get(&page->answer));
    put(page, "</header>\n<main>\n");
}

/* ---- the table ---- */

/* No row stands out where none is better than another, nor among jobs, which are no choice, nor
 * where what was simulated stands beside what was measured. */
static bool is_best(const report_page *page, int32_t i)
{
    bool better = false;
    for (int32_t k = 0; k < page->nruns; k++) {
        if (strcmp(page->runs[k].backend, page->runs[i].backend) != 0) return false;
        if (page->runs[k].goodput_tokens_per_s > page->runs[i].goodput_tokens_per_s) return false;
        better |= page->runs[k].goodput_tokens_per_s < page->runs[i].goodput_tokens_per_s;
    }
    return better && !page->runs[i].job;
}

static void put_table(report_page *page)
{
    luo_compare_row cells;
    put(page, "<section id=\"runs\">\n<h2>Runs</h2>\n<div class=\"wide\"><table class=\"sorts\">\n"
           "<thead><tr>");
    for (int c = 0; c < LUO_COMPARE_CELLS; c++) {
        const char *unit = luo_compare_unit(c);
        luo_str_addf(&page->html, "<th title=\"%s\">%s%s%s%s</th>", luo_compare_meaning(c),
                     luo_compare_title(c), *unit ? " <small>" : "", unit, *unit ? "</small>" : "");
    }
    put(page, "</tr></thead>\n<tbody>\n");
    for (int32_t i = 0; i < page->nruns; i++) {
        luo_compare_fill(cells, &page->runs[i],
                         luo_compare_reference(page->runs, page->nruns, &page->runs[i]));
        put(page, is_best(page, i) ? "<tr class=\"best\">" : "<tr>");
        for (int c = 0; c < LUO_COMPARE_CELLS; c++) {
            put(page, "<td>");
            luo_report_escape(&page->html, cells[c]);
            put(page, "</td>");
        }
        put(page, "</tr>\n");
    }
    put(page, "</tbody>\n</table></div>\n");
    if (page->notes.len) put_element(page, "pre", luo_str_get(&page->notes));
    put(page, "<details><summary>What the columns mean</summary><dl>\n");
    for (int c = 0; c < LUO_COMPARE_CELLS; c++) {
        put_element(page, "dt", luo_compare_title(c));
        put_element(page, "dd", luo_compare_meaning(c));
    }
    put(page, "</dl></details>\n</section>\n");
}

/* ---- what the script fills ---- */

static void put_places(report_page *page)
{
    put(page, "<section id=\"time\" class=\"live\">\n<h2>Throughput over time</h2>\n"
           "<p>Tokens a second of all steps; lines are events of the run that the pointer is "
           "nearest to. Drag to zoom, double-click for all.</p>\n"
           "<div id=\"rate\"></div>\n<p id=\"event\" class=\"said\">&nbsp;</p>\n</section>\n"
           "<section id=\"links\" class=\"live\">\n<h2>Links over time</h2>\n"
           "<p>The links and directions of a class that carried most over the run: &gt; leads away "
           "from devices, &lt; towards them. Upright lines are events.</p>\n"
           "<div class=\"controls\"><label>run <select id=\"links-run\"></select></label> "
           "<label>class <select id=\"links-class\"></select></label></div>\n"
           "<div id=\"traffic-over-run\"></div>\n</section>\n"
           "<section id=\"timeline\" class=\"live\">\n<h2>Timeline of traced steps</h2>\n"
           "<div class=\"controls\"><label>run <select id=\"run\"></select></label> "
           "<label>step <select id=\"step\"></select></label> <button id=\"all\">whole step"
           "</button> <span id=\"legend\"></span></div>\n"
           "<canvas id=\"canvas\" tabindex=\"0\"></canvas>\n"
           "<p id=\"slice\" class=\"said\">Wheel to zoom at the pointer, drag to move, click a "
           "slice for what it is.</p>\n<h3>Traffic of the step</h3>\n"
           "<p>Bytes of communication under way, by stream, over all devices shown.</p>\n"
           "<div id=\"traffic\"></div>\n<p id=\"no-traffic\" hidden>None.</p>\n</section>\n");
}

/* ---- figures ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Names of the .svg in DIR/plots, sorted. */
static luo_status list_figures(report_page *page, const char *dir, const char ***out, int32_t *n)
{
    enum { MOST = 64 };
    const char **names = *out = LUO_NEW_N(page->arena, const char *, MOST);
    const char *plots = luo_arena_printf(page->arena, "%s/plots", dir);
    *n = 0;
    if (!names || !plots) return luo_err_nomem(&page->err);
    DIR *folder = opendir(plots);
    for (struct dirent *e; folder && *n < MOST && (e = readdir(folder));) {
        const size_t len = strlen(e->d_name);
        if (len <= 4 || strcmp(e->d_name + len - 4, ".svg") != 0) continue;
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

static luo_status put_figure(report_page *page, const char *path, const char *of)
{
    luo_source svg;
    const char *name = figure_name(page, path);
    LUO_TRY(luo_source_read(page->arena, path, &svg, &page->err));
    put(page, "<figure>\n");
    if (page->html.len + svg.len / 3 * 4 > LUO_REPORT_BYTES) {
        luo_str_addf(&page->html, "<p>Too large for this page: ");
        luo_report_escape(&page->html, path);
        put(page, "</p>\n");
    } else {
        put(page, "<img alt=\"");
        luo_report_escape(&page->html, name);
        put(page, "\" src=\"data:image/svg+xml;base64,");
        luo_report_base64(&page->html, svg.text, svg.len);
        put(page, "\">\n");
    }
    put_element(page, "figcaption",
                *of ? luo_arena_printf(page->arena, "%s, of %s", name, of) : name);
    put(page, "</figure>\n");
    return LUO_OK;
}

/* A run that is given alone has its page, and the figures that are shown first, in its folder. */
static bool is_same_folder(const char *a, const char *b)
{
    struct stat of_a, of_b;
    return stat(a, &of_a) == 0 && stat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
           of_a.st_ino == of_b.st_ino;
}

static luo_status put_figures(report_page *page)
{
    const char **path;
    int32_t n;
    put(page, "<section id=\"figures\">\n<h2>Figures</h2>\n<div class=\"figures\">\n");
    LUO_TRY(list_figures(page, page->opts->out, &path, &n));
    for (int32_t i = 0; i < n; i++) LUO_TRY(put_figure(page, path[i], ""));
    put(page, "</div>\n");
    for (int32_t k = 0; k < page->nruns; k++) {
        if (is_same_folder(page->opts->out, page->runs[k].dir)) continue;
        LUO_TRY(list_figures(page, page->runs[k].dir, &path, &n));
        if (n == 0) continue;
        put(page, "<details><summary>Figures of ");
        luo_report_escape(&page->html, page->runs[k].name);
        put(page, "</summary>\n<div class=\"figures\">\n");
        for (int32_t i = 0; i < n; i++) LUO_TRY(put_figure(page, path[i], page->runs[k].name));
        put(page, "</div></details>\n");
    }
    put(page, "</section>\n");
    return LUO_OK;
}

/* ---- assumptions, and what made it ---- */

/* A document of a run; NULL: it has none, or none that can be read. */
static const luo_doc_node *read_document(report_page *page, const char *dir, const char *name)
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

static const char *shown_of(report_page *page, const luo_doc_node *node)
{
    return node && node->text ? luo_result_shown(page->arena, node->text) : "";
}

static bool put_list(report_page *page, const luo_doc_node *root, const char *key,
                     const char *title)
{
    const luo_doc_node *list = luo_doc_get(root, key);
    if (!list || list->type != LUO_DOC_LIST || list->n == 0) return false;
    put_element(page, "h4", title);
    put(page, "<ul>\n");
    for (const luo_doc_node *at = list->first; at; at = at->next)
        put_element(page, "li", shown_of(page, at));
    put(page, "</ul>\n");
    return true;
}

static void put_assumptions(report_page *page)
{
    put(page, "<section id=\"assumptions\">\n<h2>Warnings, and what was assumed</h2>\n");
    for (int32_t i = 0; i < page->nruns; i++) {
        const luo_doc_node *summary = read_document(page, page->runs[i].dir, "summary.json");
        if (!summary) continue;
        luo_str_addf(&page->html, "<details%s><summary>", page->nruns == 1 ? " open" : "");
        luo_report_escape(&page->html, page->runs[i].name);
        put(page, "</summary>\n");
        bool any = put_list(page, summary, "warnings", "Warnings");
        any |= put_list(page, summary, "assumptions", "Assumed, chosen or a default");
        any |= put_list(page, summary, "never_fired", "Events that never fired");
        if (!any) put(page, "<p>Nothing.</p>\n");
        put(page, "</details>\n");
    }
    put(page, "</section>\n");
}

static void put_row(report_page *page, const char *key, const char *text)
{
    put(page, "<tr><th>");
    luo_report_escape(&page->html, key);
    put(page, "</th><td>");
    luo_report_escape(&page->html, text);
    put(page, "</td></tr>\n");
}

static void put_command(report_page *page, const luo_doc_node *manifest)
{
    luo_str text = {0};
    const luo_doc_node *list = luo_doc_get(manifest, "argv");
    for (const luo_doc_node *at = list && list->type == LUO_DOC_LIST ? list->first : NULL; at;
         at = at->next) {
        if (text.len) luo_str_addc(&text, ' ');
        luo_str_add_word(&text, shown_of(page, at));
    }
    put_row(page, "command", luo_str_get(&text));
    luo_str_free(&text);
}

static void put_inputs(report_page *page, const luo_doc_node *manifest)
{
    const luo_doc_node *list = luo_doc_get(manifest, "inputs");
    for (const luo_doc_node *at = list && list->type == LUO_DOC_LIST ? list->first : NULL; at;
         at = at->next) {
        const char *text = luo_arena_printf(page->arena, "%s (%s)",
                                            shown_of(page, luo_doc_get(at, "path")),
                                            shown_of(page, luo_doc_get(at, "hash")));
        put_row(page, "input", text ? text : "");
    }
}

static void put_origin(report_page *page)
{
    static const char *const keys[] = {"luoshu", "git_commit", "wall_start", "wall_s",
                                       "backend", "seed", "scenario_hash"};
    put(page, "<section id=\"origin\">\n<h2>What made it</h2>\n<table>\n");
    put_row(page, "this page", page->opts->command);
    put(page, "</table>\n");
    for (int32_t i = 0; i < page->nruns; i++) {
        const luo_doc_node *manifest = read_document(page, page->runs[i].dir, "manifest.json");
        put(page, "<details><summary>");
        luo_report_escape(&page->html, page->runs[i].name);
        put(page, "</summary>\n<table>\n");
        put_row(page, "folder", luo_result_shown(page->arena, page->runs[i].dir));
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            put_row(page, keys[k], shown_of(page, luo_doc_get(manifest, keys[k])));
        put_command(page, manifest);
        put_inputs(page, manifest);
        for (int32_t k = 0; k < page->runs[i].nplans; k++) {
            const char *text = luo_arena_printf(page->arena, "%s, program %s",
                                                page->runs[i].plans[k],
                                                page->runs[i].programs[k]);
            put_row(page, "plan", text ? text : "");
        }
        put(page, "</table></details>\n");
    }
    put(page, "</section>\n");
}

/* ---- the page ---- */

static luo_status put_data(report_page *page)
{
    luo_str json = {0}, packed = {0};
    luo_status st = luo_report_data(page->arena, page->runs, page->nruns, &json, page->diags);
    if (st == LUO_OK) st = luo_report_pack(&packed, luo_str_get(&json), json.len, &page->err);
    put(page, "<script type=\"application/octet-stream\" id=\"data\">");
    luo_report_base64(&page->html, luo_str_get(&packed), packed.len);
    put(page, "</script>\n");
    luo_str_free(&json);
    luo_str_free(&packed);
    return st;
}

static luo_status fill(report_page *page)
{
    LUO_TRY(luo_compare_say(page->arena, page->runs, page->nruns, &page->answer, &page->notes,
                            page->diags, &page->err));
    put_head(page);
    put_table(page);
    put_places(page);
    LUO_TRY(put_data(page)); /* before the figures, which take what room is left */
    LUO_TRY(put_figures(page));
    put_assumptions(page);
    put_origin(page);
    luo_str_addf(&page->html, "</main>\n<script>\n%s</script>\n</body>\n</html>\n",
                 page->opts->script);
    return page->html.failed ? luo_err_nomem(&page->err) : LUO_OK;
}

luo_status luo_report(luo_arena *arena, const luo_report_opts *opts, luo_diags *diags)
{
    report_page page = {.arena = arena, .opts = opts, .diags = diags};
    const char *path = luo_arena_printf(arena, "%s/report.html", opts->out);
    LUO_TRY(luo_compare_read(arena, opts->paths, opts->npaths, &page.runs, &page.nruns, diags));
    luo_status st = path ? fill(&page) : luo_err_nomem(&page.err);
    if (st == LUO_OK) st = luo_file_write_own(path, page.html.at, page.html.len, &page.err);
    luo_str_free(&page.html);
    luo_str_free(&page.answer);
    luo_str_free(&page.notes);
    if (st != LUO_OK && page.err.text[0]) luo_diags_err(diags, &page.err);
    return st;
}
