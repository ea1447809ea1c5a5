/* report_replay.c: the page of a replay, of summary.json, attribution.csv and its tables of steps.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/vec.h"
#include "core/io/report/report_internal.h"
#include "core/run/replay/replay.h"

/* ---- the step ---- */

static const struct step_figure {
    const char *key, *title, *unit;
    double scale;
    int decimals;
} step_figures[] = {
    {"recorded_mean_s", "recorded", "s", 1, 6},
    {"launch_delay_mean_s", "of it launch delays", "s", 1, 6},
    {"replayed_mean_s", "predicted: replayed with the recorded durations", "s", 1, 6},
    {"ideal_s", "idealised: replayed with one duration for each kind of operation", "s", 1, 6},
    {"slowdown", "slowdown, predicted over idealised", "", 1, 4},
    {"last_stage_recovered_ratio", "comes back if the last stage alone is ideal", "%", 100, 1},
    {"slow_workers", "slowest workers: 3 % of all, one at least", "", 1, 0},
    {"slow_workers_recovered_ratio", "comes back if they alone are ideal", "%", 100, 1},
};

static void put_step(report_page *page, const luo_doc_node *summary)
{
    luo_report_put(page, "<section id=\"step\">\n<h2>The mean step</h2>\n<table>\n");
    for (size_t i = 0; i < sizeof step_figures / sizeof *step_figures; i++) {
        const struct step_figure *figure = &step_figures[i];
        luo_str_addf(&page->html, "<tr><th class=\"word\">%s%s%s%s</th>", figure->title,
                     *figure->unit ? " <small>" : "", figure->unit,
                     *figure->unit ? "</small>" : "");
        luo_report_put_number(page, figure->scale * luo_report_real(summary, figure->key),
                              figure->decimals);
        luo_report_put(page, "</tr>\n");
    }
    luo_report_put(page, "</table>\n</section>\n");
}

/* ---- attribution ---- */

typedef struct cause {
    const char *by, *op;
    int64_t stage, pipeline, micro_batch; /* -1: it is of none */
    double slowdown, recovered_ratio;     /* NAN: none */
    int64_t row;
} cause;

typedef struct causes {
    int64_t n, cap;
    cause *at;
} causes;

static int64_t whole_of(const luo_csv_cell *cell)
{
    return cell->given ? cell->whole : -1;
}

static double number_of(const luo_csv_cell *cell)
{
    return cell->given ? cell->number : NAN;
}

static luo_status read_causes(report_page *page, const char *dir, causes *out)
{
    luo_csv_cell cell[LUO_CSV_COLUMNS];
    luo_csv *csv = luo_result_table(page->arena, dir, LUO_TABLE_ATTRIBUTION, page->diags);
    bool ok = true;
    while (ok && csv && luo_csv_next(csv, cell)) {
        ok = LUO_VEC_ROOM_IN(page->arena, out->at, out->n, out->cap);
        if (!ok) break;
        cause *one = &out->at[out->n];
        *one = (cause){.by = luo_arena_strdup(page->arena, cell[LUO_COL_ATTRIBUTION_by].text),
                       .op = luo_arena_strdup(page->arena, cell[LUO_COL_ATTRIBUTION_op].text),
                       .stage = whole_of(&cell[LUO_COL_ATTRIBUTION_stage]),
                       .pipeline = whole_of(&cell[LUO_COL_ATTRIBUTION_pipeline]),
                       .micro_batch = whole_of(&cell[LUO_COL_ATTRIBUTION_micro_batch]),
                       .slowdown = number_of(&cell[LUO_COL_ATTRIBUTION_slowdown]),
                       .recovered_ratio = number_of(&cell[LUO_COL_ATTRIBUTION_recovered_ratio]),
                       .row = out->n++};
        ok = one->by && one->op;
    }
    const luo_status st = luo_csv_close(csv);
    return ok ? st : luo_err_nomem(&page->err);
}

/* The slowest first; equal ones, and those without a figure, as they stand in the file. */
static int by_slowdown(const void *a, const void *b)
{
    const cause *x = a, *y = b;
    if (isnan(x->slowdown) != isnan(y->slowdown)) return isnan(x->slowdown) ? 1 : -1;
    if (x->slowdown > y->slowdown) return -1;
    if (x->slowdown < y->slowdown) return 1;
    return (x->row > y->row) - (x->row < y->row);
}

static const struct cause_kind {
    luo_replay_by by;
    const char *title;
    int32_t nnames;
    report_column name[2]; /* what names one of them */
} cause_kinds[] = {
    {LUO_REPLAY_STAGE, "Stages", 1, {{"stage", "", "0 first", false}}},
    {LUO_REPLAY_PIPELINE, "Pipelines", 1, {{"pipeline", "", "0 first", false}}},
    {LUO_REPLAY_WORKER,
     "Ranks: workers of a pipeline and a stage",
     2,
     {{"pipeline", "", "0 first", false}, {"stage", "", "0 first", false}}},
    {LUO_REPLAY_OP, "Operations", 1, {{"operation", "", "its kind", true}}},
    {LUO_REPLAY_MICRO_BATCH, "Micro-batches", 1, {{"micro-batch", "", "0 first", false}}},
};

static void put_cause(report_page *page, const struct cause_kind *kind, const cause *one)
{
    luo_report_put(page, "<tr>");
    if (kind->by == LUO_REPLAY_WORKER || kind->by == LUO_REPLAY_PIPELINE)
        luo_report_put_number(page, (double)one->pipeline, 0);
    if (kind->by == LUO_REPLAY_WORKER || kind->by == LUO_REPLAY_STAGE)
        luo_report_put_number(page, (double)one->stage, 0);
    if (kind->by == LUO_REPLAY_OP)
        luo_report_put_cell(page, true, luo_result_shown(page->arena, one->op));
    if (kind->by == LUO_REPLAY_MICRO_BATCH)
        luo_report_put_number(page, (double)one->micro_batch, 0);
    luo_report_put_number(page, one->slowdown, 4);
    luo_report_put_number(page, 100 * one->recovered_ratio, 1);
    luo_report_put(page, "</tr>\n");
}

static void put_more(report_page *page, int64_t rows, const char *file)
{
    if (rows > LUO_REPORT_ROWS)
        luo_str_addf(&page->html, "<p>%lld more are in %s.</p>\n",
                     (long long)(rows - LUO_REPORT_ROWS), file);
}

static void put_causes(report_page *page, const struct cause_kind *kind, const causes *all)
{
    const luo_table_def *table = luo_table_def_at(LUO_TABLE_ATTRIBUTION);
    const report_column figures[] = {
        {"slowdown", "", table->columns[LUO_COL_ATTRIBUTION_slowdown].help, false},
        {"recovered", "%", table->columns[LUO_COL_ATTRIBUTION_recovered_ratio].help, false}};
    report_column columns[4];
    int64_t n = 0;
    memcpy(columns, kind->name, sizeof kind->name);
    memcpy(columns + kind->nnames, figures, sizeof figures);
    luo_report_put(page, "<div>\n");
    luo_report_put_element(page, "h3", kind->title);
    luo_report_put(page, "<table class=\"sorts\">\n");
    luo_report_put_titles(page, columns, kind->nnames + 2);
    luo_report_put(page, "<tbody>\n");
    for (int64_t i = 0; i < all->n; i++) {
        if (strcmp(all->at[i].by, luo_replay_by_name(kind->by)) != 0) continue;
        if (n++ < LUO_REPORT_ROWS) put_cause(page, kind, &all->at[i]);
    }
    luo_report_put(page, "</tbody>\n</table>\n");
    put_more(page, n, table->file);
    luo_report_put(page, "</div>\n");
}

static luo_status put_attribution(report_page *page, const char *dir)
{
    causes all = {0};
    LUO_TRY(read_causes(page, dir, &all));
    if (all.n > 0) qsort(all.at, (size_t)all.n, sizeof *all.at, by_slowdown);
    luo_report_put(page,
                   "<section id=\"attribution\">\n<h2>Who is slow</h2>\n"
                   "<p>Slowdown: the mean step with its durations alone as recorded, all others "
                   "ideal, over the ideal step. Recovered: the share of what is lost that comes "
                   "back with its durations alone ideal.</p>\n<div class=\"side\">\n");
    for (size_t i = 0; i < sizeof cause_kinds / sizeof *cause_kinds; i++)
        put_causes(page, &cause_kinds[i], &all);
    luo_report_put(page, "</div>\n</section>\n");
    return LUO_OK;
}

/* ---- steps ---- */

static luo_status put_steps(report_page *page, const char *dir)
{
    static const report_column columns[] = {
        {"step", "", "as recorded", false},
        {"recorded", "s", "latest end less earliest start of its records", false},
        {"predicted", "s", "replayed with its recorded durations", false},
        {"error", "%", "predicted over recorded, less 1", false}};
    luo_csv_cell cell[LUO_CSV_COLUMNS];
    int64_t n = 0;
    luo_csv *csv = luo_result_table(page->arena, dir, LUO_TABLE_COMPARE_STEPS, page->diags);
    luo_report_put(page, "<section id=\"steps\">\n<h2>Steps</h2>\n<table class=\"sorts\">\n");
    luo_report_put_titles(page, columns, 4);
    luo_report_put(page, "<tbody>\n");
    while (csv && luo_csv_next(csv, cell)) {
        if (n++ >= LUO_REPORT_ROWS) continue;
        luo_report_put(page, "<tr>");
        luo_report_put_number(page, (double)cell[LUO_COL_COMPARE_STEPS_step].whole, 0);
        luo_report_put_number(page, number_of(&cell[LUO_COL_COMPARE_STEPS_reference_s]), 6);
        luo_report_put_number(page, number_of(&cell[LUO_COL_COMPARE_STEPS_other_s]), 6);
        luo_report_put_number(page, 100 * number_of(&cell[LUO_COL_COMPARE_STEPS_error_ratio]), 3);
        luo_report_put(page, "</tr>\n");
    }
    luo_report_put(page, "</tbody>\n</table>\n");
    put_more(page, n, luo_table_def_at(LUO_TABLE_COMPARE_STEPS)->file);
    luo_report_put(page, "</section>\n");
    return luo_csv_close(csv);
}

/* ---- the page ---- */

static void put_origin(report_page *page, const char *dir, const luo_doc_node *summary)
{
    static const char *const facts[] = {"timeline", "steps",  "pipelines",
                                        "stages",   "chunks", "operations"};
    luo_report_put(page, "<section id=\"origin\">\n<h2>What made it</h2>\n<table>\n");
    luo_report_put_row(page, "this page", page->opts->command);
    luo_report_put_row(page, "folder", luo_result_shown(page->arena, dir));
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        luo_report_put_row(page, facts[i], luo_report_text(page, luo_doc_get(summary, facts[i])));
    luo_report_put(page, "</table>\n</section>\n");
}

luo_status luo_report_replay(report_page *page)
{
    const char *dir = page->opts->paths[0];
    const luo_doc_node *summary = luo_report_read(page, dir, "summary.json");
    const char *answer = luo_doc_text(summary, "answer");
    if (!answer)
        return luo_err_set(&page->err, LUO_EINPUT,
                           "summary.json of the replay in `%s` has no `answer`, as an older luoshu "
                           "left it; give the command of the replay again, with --force.",
                           dir);
    const char *heading = luo_arena_printf(page->arena, "Replay of %s",
                                           luo_report_text(page, luo_doc_get(summary, "timeline")));
    const char *title = heading ? luo_arena_printf(page->arena, "luoshu: %s", heading) : NULL;
    if (!title) return luo_err_nomem(&page->err);
    luo_report_begin(page, title, heading, "What do stragglers cost the job, and which are they?",
                     answer);
    put_step(page, summary);
    LUO_TRY(put_attribution(page, dir));
    LUO_TRY(luo_report_put_figures(page, dir));
    LUO_TRY(put_steps(page, dir));
    put_origin(page, dir, summary);
    return LUO_OK;
}
