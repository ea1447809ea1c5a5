#include "core/io/report/report.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/compare/compare.h"
#include "core/io/document/doc.h"
#include "core/io/io.h"
#include "core/io/report/report_internal.h"

typedef struct page {
    luo_arena *arena;
    const luo_report_opts *opts;
    luo_result *runs;
    int32_t nruns;
    luo_str html, answer, notes;
    luo_diags *diags;
    luo_err err;
} page;

static void put(page *p, const char *html)
{
    luo_str_add(&p->html, html);
}

/* <TAG>text</TAG> */
static void put_element(page *p, const char *tag, const char *text)
{
    luo_str_addf(&p->html, "<%s>", tag);
    luo_report_escape(&p->html, text);
    luo_str_addf(&p->html, "</%.*s>\n", (int)strcspn(tag, " "), tag);
}

/* ---- head ---- */

static void put_head(page *p)
{
    const char *scenario = p->nruns ? p->runs[0].scenario : "";
    put(p, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
           "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
           "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
           "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n");
    put_element(p, "title",
                *scenario ? luo_arena_printf(p->arena, "luoshu: %s", scenario) : "luoshu: runs");
    luo_str_addf(&p->html, "<style>\n%s</style>\n</head>\n<body>\n<header>\n", p->opts->style);
    put_element(p, "h1", *scenario ? scenario : "Runs side by side");
    if (p->answer.len) put_element(p, "p class=\"answer\"", luo_str_get(&p->answer));
    put(p, "</header>\n<main>\n");
}

/* ---- the table ---- */

static bool is_best(const page *p, int32_t i)
{
    for (int32_t k = 0; k < p->nruns; k++)
        if (p->runs[k].goodput_tokens_per_s > p->runs[i].goodput_tokens_per_s) return false;
    return p->nruns > 1 && p->runs[i].goodput_tokens_per_s > 0;
}

static void put_table(page *p)
{
    luo_compare_row cells;
    put(p, "<section id=\"runs\">\n<h2>Runs</h2>\n<div class=\"wide\"><table class=\"sorts\">\n"
           "<thead><tr>");
    for (int c = 0; c < LUO_COMPARE_CELLS; c++) {
        const char *unit = luo_compare_unit(c);
        luo_str_addf(&p->html, "<th title=\"%s\">%s%s%s%s</th>", luo_compare_meaning(c),
                     luo_compare_title(c), *unit ? " <small>" : "", unit, *unit ? "</small>" : "");
    }
    put(p, "</tr></thead>\n<tbody>\n");
    for (int32_t i = 0; i < p->nruns; i++) {
        luo_compare_fill(cells, &p->runs[i], &p->runs[0]);
        put(p, is_best(p, i) ? "<tr class=\"best\">" : "<tr>");
        for (int c = 0; c < LUO_COMPARE_CELLS; c++) {
            put(p, "<td>");
            luo_report_escape(&p->html, cells[c]);
            put(p, "</td>");
        }
        put(p, "</tr>\n");
    }
    put(p, "</tbody>\n</table></div>\n");
    if (p->notes.len) put_element(p, "pre", luo_str_get(&p->notes));
    put(p, "<details><summary>What the columns mean</summary><dl>\n");
    for (int c = 0; c < LUO_COMPARE_CELLS; c++) {
        put_element(p, "dt", luo_compare_title(c));
        put_element(p, "dd", luo_compare_meaning(c));
    }
    put(p, "</dl></details>\n</section>\n");
}

/* ---- what the script fills ---- */

static void put_places(page *p)
{
    put(p, "<section id=\"time\" class=\"live\">\n<h2>Throughput over time</h2>\n"
           "<p>Tokens a second of all steps; lines are events of the run that the pointer is "
           "nearest to. Drag to zoom, double-click for all.</p>\n"
           "<div id=\"rate\"></div>\n<p id=\"event\" class=\"said\">&nbsp;</p>\n</section>\n"
           "<section id=\"timeline\" class=\"live\">\n<h2>Timeline of traced steps</h2>\n"
           "<div class=\"controls\"><label>run <select id=\"run\"></select></label> "
           "<label>step <select id=\"step\"></select></label> <button id=\"all\">whole step"
           "</button> <span id=\"legend\"></span></div>\n"
           "<canvas id=\"canvas\" tabindex=\"0\"></canvas>\n"
           "<p id=\"slice\" class=\"said\">Wheel to zoom at the pointer, drag to move, click a "
           "slice for what it is.</p>\n<h3>Traffic of the step</h3>\n"
           "<p>Bytes of communication under way, by stream, over all devices shown.</p>\n"
           "<div id=\"traffic\"></div>\n</section>\n");
}

/* ---- figures ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Names of the .svg in DIR/plots, sorted. */
static luo_status list_figures(page *p, const char *dir, const char ***out, int32_t *n)
{
    enum { MOST = 64 };
    const char **names = *out = LUO_NEW_N(p->arena, const char *, MOST);
    const char *plots = luo_arena_printf(p->arena, "%s/plots", dir);
    *n = 0;
    if (!names || !plots) return luo_err_nomem(&p->err);
    DIR *folder = opendir(plots);
    for (struct dirent *e; folder && *n < MOST && (e = readdir(folder));) {
        const size_t len = strlen(e->d_name);
        if (len <= 4 || strcmp(e->d_name + len - 4, ".svg") != 0) continue;
        names[*n] = luo_arena_printf(p->arena, "%s/%s", plots, e->d_name);
        if (names[*n]) ++*n;
    }
    if (folder) closedir(folder);
    qsort(names, (size_t)*n, sizeof *names, by_name);
    return LUO_OK;
}

/* `throughput` of a/plots/throughput.svg. */
static const char *figure_name(page *p, const char *path)
{
    const char *name = strrchr(path, '/') + 1;
    const char *text = luo_arena_strndup(p->arena, name, strlen(name) - 4);
    return text ? text : name;
}

static luo_status put_figure(page *p, const char *path, const char *of)
{
    luo_source svg;
    const char *name = figure_name(p, path);
    LUO_TRY(luo_source_read(p->arena, path, &svg, &p->err));
    put(p, "<figure>\n");
    if (p->html.len + svg.len / 3 * 4 > LUO_REPORT_BYTES) {
        luo_str_addf(&p->html, "<p>Too large for this page: ");
        luo_report_escape(&p->html, path);
        put(p, "</p>\n");
    } else {
        put(p, "<img alt=\"");
        luo_report_escape(&p->html, name);
        put(p, "\" src=\"data:image/svg+xml;base64,");
        luo_report_base64(&p->html, svg.text, svg.len);
        put(p, "\">\n");
    }
    put_element(p, "figcaption",
                *of ? luo_arena_printf(p->arena, "%s, of %s", name, of) : name);
    put(p, "</figure>\n");
    return LUO_OK;
}

static luo_status put_figures(page *p)
{
    const char **path;
    int32_t n;
    put(p, "<section id=\"figures\">\n<h2>Figures</h2>\n<div class=\"figures\">\n");
    LUO_TRY(list_figures(p, p->opts->out, &path, &n));
    for (int32_t i = 0; i < n; i++) LUO_TRY(put_figure(p, path[i], ""));
    put(p, "</div>\n");
    for (int32_t k = 0; k < p->nruns; k++) {
        LUO_TRY(list_figures(p, p->runs[k].dir, &path, &n));
        if (n == 0) continue;
        put(p, "<details><summary>Figures of ");
        luo_report_escape(&p->html, p->runs[k].name);
        put(p, "</summary>\n<div class=\"figures\">\n");
        for (int32_t i = 0; i < n; i++) LUO_TRY(put_figure(p, path[i], p->runs[k].name));
        put(p, "</div></details>\n");
    }
    put(p, "</section>\n");
    return LUO_OK;
}

/* ---- assumptions, and what made it ---- */

/* A document of a run; NULL: it has none, or none that can be read. */
static const luo_doc_node *read_document(page *p, const char *dir, const char *name)
{
    luo_source src;
    luo_err unheard = {0};
    const luo_doc_node *root = NULL;
    const char *path = luo_arena_printf(p->arena, "%s/%s", dir, name);
    if (!path || !luo_result_has(dir, name)) return NULL;
    if (luo_source_read(p->arena, path, &src, &unheard) != LUO_OK) return NULL;
    if (luo_doc_tree(p->arena, src.text, src.len, &root, &unheard) != LUO_OK) return NULL;
    return root;
}

static const char *shown_of(page *p, const luo_doc_node *node)
{
    return node && node->text ? luo_result_shown(p->arena, node->text) : "";
}

static bool put_list(page *p, const luo_doc_node *root, const char *key, const char *title)
{
    const luo_doc_node *list = luo_doc_get(root, key);
    if (!list || list->type != LUO_DOC_LIST || list->n == 0) return false;
    put_element(p, "h4", title);
    put(p, "<ul>\n");
    for (const luo_doc_node *at = list->first; at; at = at->next)
        put_element(p, "li", shown_of(p, at));
    put(p, "</ul>\n");
    return true;
}

static void put_assumptions(page *p)
{
    put(p, "<section id=\"assumptions\">\n<h2>Warnings, and what was assumed</h2>\n");
    for (int32_t i = 0; i < p->nruns; i++) {
        const luo_doc_node *summary = read_document(p, p->runs[i].dir, "summary.json");
        if (!summary) continue;
        luo_str_addf(&p->html, "<details%s><summary>", p->nruns == 1 ? " open" : "");
        luo_report_escape(&p->html, p->runs[i].name);
        put(p, "</summary>\n");
        bool any = put_list(p, summary, "warnings", "Warnings");
        any |= put_list(p, summary, "assumptions", "Assumed, chosen or a default");
        any |= put_list(p, summary, "never_fired", "Events that never fired");
        if (!any) put(p, "<p>Nothing.</p>\n");
        put(p, "</details>\n");
    }
    put(p, "</section>\n");
}

static void put_row(page *p, const char *key, const char *text)
{
    put(p, "<tr><th>");
    luo_report_escape(&p->html, key);
    put(p, "</th><td>");
    luo_report_escape(&p->html, text);
    put(p, "</td></tr>\n");
}

/* A word of a command as a shell would take it. */
static void add_word(luo_str *text, const char *word)
{
    const bool plain = *word && !word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTU"
                                                   "VWXYZ0123456789_./:=,+-@%")];
    luo_str_add(text, text->len ? " " : "");
    if (plain) {
        luo_str_add(text, word);
        return;
    }
    luo_str_addc(text, '\'');
    for (; *word; word++) {
        if (*word == '\'')
            luo_str_add(text, "'\\''");
        else
            luo_str_addc(text, *word);
    }
    luo_str_addc(text, '\'');
}

static void put_command(page *p, const luo_doc_node *manifest)
{
    luo_str text = {0};
    const luo_doc_node *list = luo_doc_get(manifest, "argv");
    for (const luo_doc_node *at = list && list->type == LUO_DOC_LIST ? list->first : NULL; at;
         at = at->next)
        add_word(&text, shown_of(p, at));
    put_row(p, "command", luo_str_get(&text));
    luo_str_free(&text);
}

static void put_inputs(page *p, const luo_doc_node *manifest)
{
    const luo_doc_node *list = luo_doc_get(manifest, "inputs");
    for (const luo_doc_node *at = list && list->type == LUO_DOC_LIST ? list->first : NULL; at;
         at = at->next) {
        const char *text = luo_arena_printf(p->arena, "%s (%s)",
                                            shown_of(p, luo_doc_get(at, "path")),
                                            shown_of(p, luo_doc_get(at, "hash")));
        put_row(p, "input", text ? text : "");
    }
}

static void put_origin(page *p)
{
    static const char *const keys[] = {"luoshu", "git_commit", "wall_start", "wall_s",
                                       "backend", "seed", "scenario_hash"};
    put(p, "<section id=\"origin\">\n<h2>What made it</h2>\n<table>\n");
    put_row(p, "this page", p->opts->command);
    put(p, "</table>\n");
    for (int32_t i = 0; i < p->nruns; i++) {
        const luo_doc_node *manifest = read_document(p, p->runs[i].dir, "manifest.json");
        put(p, "<details><summary>");
        luo_report_escape(&p->html, p->runs[i].name);
        put(p, "</summary>\n<table>\n");
        put_row(p, "folder", luo_result_shown(p->arena, p->runs[i].dir));
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            put_row(p, keys[k], shown_of(p, luo_doc_get(manifest, keys[k])));
        put_command(p, manifest);
        put_inputs(p, manifest);
        for (int32_t k = 0; k < p->runs[i].nplans; k++) {
            const char *text = luo_arena_printf(p->arena, "%s, program %s", p->runs[i].plans[k],
                                                p->runs[i].programs[k]);
            put_row(p, "plan", text ? text : "");
        }
        put(p, "</table></details>\n");
    }
    put(p, "</section>\n");
}

/* ---- the page ---- */

static luo_status put_data(page *p)
{
    luo_str json = {0}, packed = {0};
    luo_status st = luo_report_data(p->arena, p->runs, p->nruns, &json, p->diags);
    if (st == LUO_OK) st = luo_report_pack(&packed, luo_str_get(&json), json.len, &p->err);
    put(p, "<script type=\"application/octet-stream\" id=\"data\">");
    luo_report_base64(&p->html, luo_str_get(&packed), packed.len);
    put(p, "</script>\n");
    luo_str_free(&json);
    luo_str_free(&packed);
    return st;
}

static luo_status fill(page *p)
{
    LUO_TRY(luo_compare_say(p->arena, p->runs, p->nruns, &p->answer, &p->notes, &p->err));
    put_head(p);
    put_table(p);
    put_places(p);
    LUO_TRY(put_data(p)); /* before the figures, which take what room is left */
    LUO_TRY(put_figures(p));
    put_assumptions(p);
    put_origin(p);
    luo_str_addf(&p->html, "</main>\n<script>\n%s</script>\n</body>\n</html>\n", p->opts->script);
    return p->html.failed ? luo_err_nomem(&p->err) : LUO_OK;
}

luo_status luo_report(luo_arena *arena, const luo_report_opts *opts, luo_diags *diags)
{
    page p = {.arena = arena, .opts = opts, .diags = diags};
    const char *path = luo_arena_printf(arena, "%s/report.html", opts->out);
    LUO_TRY(luo_compare_read(arena, opts->paths, opts->npaths, &p.runs, &p.nruns, diags));
    luo_status st = path ? fill(&p) : luo_err_nomem(&p.err);
    if (st == LUO_OK) st = luo_file_write_own(path, p.html.at, p.html.len, &p.err);
    luo_str_free(&p.html);
    luo_str_free(&p.answer);
    luo_str_free(&p.notes);
    if (st != LUO_OK && p.err.text[0]) luo_diags_err(diags, &p.err);
    return st;
}
