#include "core/io/report/report.h"

#include <string.h>

#include "core/io/io.h"
#include "core/io/report/report_internal.h"
#include "core/io/sweep/sweep.h"

/* What a folder without runs is: by the value of a key in a file of it. */
typedef struct report_kind {
    const char *name, *file, *key, *value; /* value NULL: any other */
    luo_status (*fill)(report_page *page); /* NULL: there is no page of it */
} report_kind;

static const report_kind of_runs = {.name = "run", .fill = luo_report_runs};
static const report_kind kinds[] = {
    {"sweep", LUO_SWEEP_DEFINITION, "schema", LUO_SWEEP_SCHEMA, luo_report_sweep},
    {"replay", "summary.json", "kind", "replay", luo_report_replay},
    {"other", "summary.json", "kind", NULL, NULL},
};

static const char *value_of(report_page *page, const char *dir, const report_kind *kind)
{
    return luo_report_text(page, luo_doc_get(luo_report_read(page, dir, kind->file), kind->key));
}

static bool has_runs(const char *dir)
{
    return luo_result_has(dir, "manifest.json") || luo_result_has(dir, "compare.csv") ||
           luo_result_has(dir, "seeds.csv");
}

/* Folders that are of no other kind are left to the reader of runs, which says what it misses. */
static const report_kind *find_kind(report_page *page, const char *dir)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !has_runs(dir); i++) {
        const char *value = value_of(page, dir, &kinds[i]);
        if (kinds[i].value ? strcmp(value, kinds[i].value) == 0 : *value) return &kinds[i];
    }
    return &of_runs;
}

/* Of all paths, which are runs or a single folder of another kind. */
static luo_status find_page(report_page *page, const report_kind **out)
{
    *out = &of_runs;
    for (int32_t i = 0; i < page->opts->npaths; i++) {
        const char *dir = page->opts->paths[i];
        const report_kind *kind = find_kind(page, dir);
        if (!kind->fill)
            return luo_err_set(&page->err, LUO_EINPUT,
                               "`%s` holds results of kind `%s`, of which there is no page; a run, "
                               "a result set, a sweep or a replay is expected.",
                               dir, value_of(page, dir, kind));
        if (kind != &of_runs && page->opts->npaths > 1)
            return luo_err_set(&page->err, LUO_EUSAGE,
                               "`%s` is the folder of a %s, which has a page of its own; give it "
                               "alone.",
                               dir, kind->name);
        *out = kind;
    }
    return LUO_OK;
}

static luo_status fill(report_page *page)
{
    const report_kind *kind;
    LUO_TRY(find_page(page, &kind));
    LUO_TRY(kind->fill(page));
    luo_report_end(page);
    return page->html.failed ? luo_err_nomem(&page->err) : LUO_OK;
}

luo_status luo_report(luo_arena *arena, const luo_report_opts *opts, luo_diags *diags)
{
    report_page page = {.arena = arena, .opts = opts, .diags = diags};
    const char *path = luo_arena_printf(arena, "%s/report.html", opts->out);
    luo_status st = path ? fill(&page) : luo_err_nomem(&page.err);
    if (st == LUO_OK) st = luo_file_write_own(path, page.html.at, page.html.len, &page.err);
    luo_str_free(&page.html);
    if (st != LUO_OK && page.err.text[0]) luo_diags_err(diags, &page.err);
    return st;
}

luo_status luo_report_check(luo_arena *arena, const char *const *paths, int32_t npaths,
                            luo_diags *diags)
{
    const luo_report_opts opts = {
        .paths = paths, .npaths = npaths, .style = "", .script = "", .command = ""};
    report_page page = {.arena = arena, .opts = &opts, .diags = diags};
    const report_kind *kind;
    luo_status st = find_page(&page, &kind);
    for (int32_t i = 0; st == LUO_OK && kind == &of_runs && i < npaths; i++)
        st = luo_result_read_all(arena, &paths[i], 1, &page.runs, &page.nruns, diags);
    if (st == LUO_OK && kind != &of_runs) st = kind->fill(&page); /* a page for nobody */
    luo_str_free(&page.html);
    if (st != LUO_OK && page.err.text[0]) luo_diags_err(diags, &page.err);
    return st;
}
