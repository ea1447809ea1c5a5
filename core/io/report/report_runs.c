/* report_runs.c: the page of run directories and result sets. */
#include <string.h>
#include <sys/stat.h>

#include "core/io/compare/compare.h"
#include "core/io/document/doc.h"
#include "core/io/report/report_internal.h"

enum { WORDS = 2 }; /* columns of the table that are no numbers: run and state */

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
    luo_report_put(
        page, "<section id=\"runs\">\n<h2>Runs</h2>\n<div class=\"wide\"><table class=\"sorts\">\n"
              "<thead><tr>");
    for (int c = 0; c < LUO_COMPARE_CELLS; c++) {
        const char *unit = luo_compare_unit(c);
        luo_str_addf(&page->html, "<th%s title=\"%s\">%s%s%s%s</th>",
                     c < WORDS ? " class=\"word\"" : "", luo_compare_meaning(c),
                     luo_compare_title(c), *unit ? " <small>" : "", unit, *unit ? "</small>" : "");
    }
    luo_report_put(page, "</tr></thead>\n<tbody>\n");
    for (int32_t i = 0; i < page->nruns; i++) {
        luo_compare_fill(cells, &page->runs[i],
                         luo_compare_reference(page->runs, page->nruns, &page->runs[i]));
        luo_report_put(page, is_best(page, i) ? "<tr class=\"best\">" : "<tr>");
        for (int c = 0; c < LUO_COMPARE_CELLS; c++) {
            luo_report_put_cell(page, c < WORDS, cells[c]);
        }
        luo_report_put(page, "</tr>\n");
    }
    luo_report_put(page, "</tbody>\n</table></div>\n");
    if (page->notes.len) luo_report_put_element(page, "pre", luo_str_get(&page->notes));
    luo_report_put(page, "<details><summary>What the columns mean</summary><dl>\n");
    for (int c = 0; c < LUO_COMPARE_CELLS; c++) {
        luo_report_put_element(page, "dt", luo_compare_title(c));
        luo_report_put_element(page, "dd", luo_compare_meaning(c));
    }
    luo_report_put(page, "</dl></details>\n</section>\n");
}

/* ---- what the script fills ---- */

static void put_places(report_page *page)
{
    luo_report_put(
        page,
        "<section id=\"time\" class=\"live\">\n<h2>Throughput over time</h2>\n"
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
    luo_report_put(page, "<section id=\"figures\">\n<h2>Figures</h2>\n<div class=\"figures\">\n");
    LUO_TRY(luo_report_list_figures(page, page->opts->out, &path, &n));
    for (int32_t i = 0; i < n; i++) LUO_TRY(luo_report_put_figure(page, path[i], ""));
    luo_report_put(page, "</div>\n");
    for (int32_t k = 0; k < page->nruns; k++) {
        if (is_same_folder(page->opts->out, page->runs[k].dir)) continue;
        LUO_TRY(luo_report_list_figures(page, page->runs[k].dir, &path, &n));
        if (n == 0) continue;
        luo_report_put(page, "<details><summary>Figures of ");
        luo_report_escape(&page->html, page->runs[k].name);
        luo_report_put(page, "</summary>\n<div class=\"figures\">\n");
        for (int32_t i = 0; i < n; i++)
            LUO_TRY(luo_report_put_figure(page, path[i], page->runs[k].name));
        luo_report_put(page, "</div></details>\n");
    }
    luo_report_put(page, "</section>\n");
    return LUO_OK;
}

/* ---- assumptions, and what made it ---- */

static bool put_list(report_page *page, const luo_doc_node *root, const char *key,
                     const char *title)
{
    const luo_doc_node *list = luo_doc_get(root, key);
    if (!list || list->type != LUO_DOC_LIST || list->n == 0) return false;
    luo_report_put_element(page, "h4", title);
    luo_report_put(page, "<ul>\n");
    for (const luo_doc_node *at = list->first; at; at = at->next)
        luo_report_put_element(page, "li", luo_report_text(page, at));
    luo_report_put(page, "</ul>\n");
    return true;
}

static void put_assumptions(report_page *page)
{
    luo_report_put(page, "<section id=\"assumptions\">\n<h2>Warnings, and what was assumed</h2>\n");
    for (int32_t i = 0; i < page->nruns; i++) {
        const luo_doc_node *summary = luo_report_read(page, page->runs[i].dir, "summary.json");
        if (!summary) continue;
        luo_str_addf(&page->html, "<details%s><summary>", page->nruns == 1 ? " open" : "");
        luo_report_escape(&page->html, page->runs[i].name);
        luo_report_put(page, "</summary>\n");
        bool any = put_list(page, summary, "warnings", "Warnings");
        any |= put_list(page, summary, "assumptions", "Assumed, chosen or a default");
        any |= put_list(page, summary, "never_fired", "Events that never fired");
        if (!any) luo_report_put(page, "<p>Nothing.</p>\n");
        luo_report_put(page, "</details>\n");
    }
    luo_report_put(page, "</section>\n");
}

static void put_command(report_page *page, const luo_doc_node *manifest)
{
    luo_str text = {0};
    const luo_doc_node *list = luo_doc_get(manifest, "argv");
    for (const luo_doc_node *at = list && list->type == LUO_DOC_LIST ? list->first : NULL; at;
         at = at->next) {
        if (text.len) luo_str_addc(&text, ' ');
        luo_str_add_word(&text, luo_report_text(page, at));
    }
    luo_report_put_row(page, "command", luo_str_get(&text));
    luo_str_free(&text);
}

static void put_inputs(report_page *page, const luo_doc_node *manifest)
{
    const luo_doc_node *list = luo_doc_get(manifest, "inputs");
    for (const luo_doc_node *at = list && list->type == LUO_DOC_LIST ? list->first : NULL; at;
         at = at->next) {
        const char *text =
            luo_arena_printf(page->arena, "%s (%s)", luo_report_text(page, luo_doc_get(at, "path")),
                             luo_report_text(page, luo_doc_get(at, "hash")));
        luo_report_put_row(page, "input", text ? text : "");
    }
}

static void put_origin(report_page *page)
{
    static const char *const keys[] = {"luoshu",  "git_commit", "wall_start",   "wall_s",
                                       "backend", "seed",       "scenario_hash"};
    luo_report_put(page, "<section id=\"origin\">\n<h2>What made it</h2>\n<table>\n");
    luo_report_put_row(page, "this page", page->opts->command);
    luo_report_put(page, "</table>\n");
    for (int32_t i = 0; i < page->nruns; i++) {
        const luo_doc_node *manifest = luo_report_read(page, page->runs[i].dir, "manifest.json");
        luo_report_put(page, "<details><summary>");
        luo_report_escape(&page->html, page->runs[i].name);
        luo_report_put(page, "</summary>\n<table>\n");
        luo_report_put_row(page, "folder", luo_result_shown(page->arena, page->runs[i].dir));
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            luo_report_put_row(page, keys[k],
                               luo_report_text(page, luo_doc_get(manifest, keys[k])));
        put_command(page, manifest);
        put_inputs(page, manifest);
        for (int32_t k = 0; k < page->runs[i].nplans; k++) {
            const char *text = luo_arena_printf(page->arena, "%s, program %s",
                                                page->runs[i].plans[k], page->runs[i].programs[k]);
            luo_report_put_row(page, "plan", text ? text : "");
        }
        luo_report_put(page, "</table></details>\n");
    }
    luo_report_put(page, "</section>\n");
}

/* ---- the page ---- */

static luo_status put_data(report_page *page)
{
    luo_str json = {0}, packed = {0};
    luo_status st = luo_report_data(page->arena, page->runs, page->nruns, &json, page->diags);
    if (st == LUO_OK) st = luo_report_pack(&packed, luo_str_get(&json), json.len, &page->err);
    luo_report_put(page, "<script type=\"application/octet-stream\" id=\"data\">");
    luo_report_base64(&page->html, luo_str_get(&packed), packed.len);
    luo_report_put(page, "</script>\n");
    luo_str_free(&json);
    luo_str_free(&packed);
    return st;
}

/* The scenario that all runs have; a recorded run has none, and its own name instead. */
static const char *scenario_of(const report_page *page)
{
    const char *scenario = page->nruns ? page->runs[0].scenario : "";
    return !*scenario && page->nruns == 1 ? page->runs[0].name : scenario;
}

static luo_status put_all(report_page *page, const char *answer)
{
    const char *scenario = scenario_of(page);
    const char *title =
        *scenario ? luo_arena_printf(page->arena, "luoshu: %s", scenario) : "luoshu: runs";
    if (!title) return luo_err_nomem(&page->err);
    luo_report_begin(page, title, *scenario ? scenario : "Runs side by side", "", answer);
    put_table(page);
    put_places(page);
    LUO_TRY(put_data(page)); /* before the figures, which take what room is left */
    LUO_TRY(put_figures(page));
    put_assumptions(page);
    put_origin(page);
    return LUO_OK;
}

luo_status luo_report_runs(report_page *page)
{
    luo_str answer = {0};
    LUO_TRY(luo_compare_read(page->arena, page->opts->paths, page->opts->npaths, &page->runs,
                             &page->nruns, page->diags));
    luo_status st = luo_compare_say(page->arena, page->runs, page->nruns, &answer, &page->notes,
                                    page->diags, &page->err);
    if (st == LUO_OK) st = put_all(page, luo_str_get(&answer));
    luo_str_free(&answer);
    luo_str_free(&page->notes);
    return st;
}
