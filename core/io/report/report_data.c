/* What the script of the page draws: throughput over time, events, links, timelines. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/report/report_internal.h"
#include "core/io/result/repeats.h"

/* ---- throughput ---- */

typedef struct buckets { /* of run time, of one width for all runs */
    double width_s, tokens[LUO_REPORT_POINTS];
} buckets;

/* Tokens of a step spread evenly over its time. */
static void spread(buckets *b, double start_s, double end_s, double tokens)
{
    if (!(end_s > start_s)) return;
    const double rate = tokens / (end_s - start_s);
    for (int64_t i = (int64_t)(start_s / b->width_s); i < LUO_REPORT_POINTS; i++) {
        const double lo = fmax(start_s, (double)i * b->width_s);
        const double hi = fmin(end_s, (double)(i + 1) * b->width_s);
        if (i < 0 || !(hi > lo)) break;
        b->tokens[i] += rate * (hi - lo);
    }
}

static luo_status read_steps(luo_arena *arena, const luo_result *run, buckets *b, luo_diags *diags)
{
    luo_csv_cell cells[LUO_CSV_COLUMNS];
    luo_repeats *rows = luo_repeats_open(arena, run->dir, LUO_TABLE_STEPS, diags);
    while (rows && luo_repeats_next(rows, cells))
        spread(b, cells[LUO_COL_STEPS_t_start_s].number, cells[LUO_COL_STEPS_t_end_s].number,
               cells[LUO_COL_STEPS_tokens].number);
    return luo_repeats_close(rows);
}

/* Tokens per second, a number a bucket up to the end of the run. */
static luo_status put_rate(luo_arena *arena, const luo_result *run, double width_s,
                           luo_jsonw *json, luo_diags *diags)
{
    buckets *b = calloc(1, sizeof *b);
    if (!b) return LUO_ENOMEM;
    b->width_s = width_s;
    const luo_status st = read_steps(arena, run, b, diags);
    luo_jsonw_open(json, "rate", '[');
    for (int64_t i = 0; i < LUO_REPORT_POINTS; i++) {
        const double begin_s = (double)i * width_s, whole_s = run->total_s - begin_s;
        if (!(whole_s > 0.5 * width_s)) break;
        luo_jsonw_num(json, NULL, b->tokens[i] / fmin(whole_s, width_s), 0);
    }
    luo_jsonw_close(json);
    free(b);
    return st;
}

/* ---- events ---- */

static luo_status put_events(luo_arena *arena, const luo_result *run, luo_jsonw *json,
                             luo_diags *diags)
{
    luo_csv_cell cell[LUO_CSV_COLUMNS];
    luo_jsonw_open(json, "events", '[');
    luo_csv *csv = luo_result_has(run->dir, luo_table_def_at(LUO_TABLE_EVENTS)->file)
                       ? luo_result_table(arena, run->dir, LUO_TABLE_EVENTS, diags)
                       : NULL;
    const bool there = csv != NULL;
    while (csv && luo_csv_next(csv, cell)) {
        const char *text =
            luo_arena_printf(arena, "%s %s: %s %s %s", cell[LUO_COL_EVENTS_id].text,
                             cell[LUO_COL_EVENTS_phase].text, cell[LUO_COL_EVENTS_kind].text,
                             cell[LUO_COL_EVENTS_target].text, cell[LUO_COL_EVENTS_detail].text);
        luo_jsonw_open(json, NULL, '[');
        luo_jsonw_num(json, NULL, cell[LUO_COL_EVENTS_t_s].number, 3);
        luo_jsonw_text(json, NULL, text ? luo_result_shown(arena, text) : "");
        luo_jsonw_close(json);
    }
    luo_jsonw_close(json);
    return there ? luo_csv_close(csv) : LUO_OK;
}

/* ---- links ---- */

static void open_link(luo_jsonw *json, const char *name, const char *class)
{
    luo_jsonw_open(json, NULL, '{');
    luo_jsonw_text(json, "link", name);
    luo_jsonw_text(json, "class", class);
    luo_jsonw_open(json, "windows", '[');
}

static void close_link(luo_jsonw *json)
{
    luo_jsonw_close(json);
    luo_jsonw_close(json);
}

/* Rows of a link stand together in the table. Its windows are rows of four numbers: begin, end,
 * bytes, share of what it could carry (null: of no known bandwidth). */
static luo_status put_links(luo_arena *arena, const luo_result *run, luo_jsonw *json,
                            luo_diags *diags)
{
    luo_csv_cell cell[LUO_CSV_COLUMNS];
    const char *name = NULL;
    bool ok = true;
    luo_jsonw_open(json, "links", '[');
    luo_csv *csv =
        luo_result_has(run->dir, luo_table_def_at(LUO_TABLE_LINK_WINDOWS)->file)
            ? luo_result_table(arena, run->dir, LUO_TABLE_LINK_WINDOWS, diags)
            : NULL;
    const bool there = csv != NULL;
    while (csv && luo_csv_next(csv, cell)) {
        const char *link = luo_result_shown(arena, cell[LUO_COL_LINK_WINDOWS_link].text);
        if (!name || strcmp(name, link) != 0) {
            if (name) close_link(json);
            open_link(json, link, luo_result_shown(arena, cell[LUO_COL_LINK_WINDOWS_class].text));
            name = luo_arena_strdup(arena, link);
            ok = name != NULL;
            if (!ok) break;
        }
        const luo_csv_cell *ratio = &cell[LUO_COL_LINK_WINDOWS_utilisation_ratio];
        luo_jsonw_num(json, NULL, cell[LUO_COL_LINK_WINDOWS_t_start_s].number, 9);
        luo_jsonw_num(json, NULL, cell[LUO_COL_LINK_WINDOWS_t_end_s].number, 9);
        luo_jsonw_int(json, NULL, cell[LUO_COL_LINK_WINDOWS_bytes].whole);
        luo_jsonw_num(json, NULL, ratio->given ? ratio->number : NAN, 6);
    }
    if (name) close_link(json);
    luo_jsonw_close(json);
    const luo_status st = there ? luo_csv_close(csv) : LUO_OK;
    return ok ? st : LUO_ENOMEM;
}

/* ---- the document ---- */

luo_status luo_report_data(luo_arena *arena, const luo_result *runs, int32_t n, luo_str *text,
                           luo_diags *diags)
{
    luo_jsonw json = luo_jsonw_start(text);
    double longest_s = 0;
    int32_t measured = 0;
    luo_status st = LUO_OK;
    for (int32_t i = 0; i < n; i++) {
        if (!runs[i].measured) continue;
        longest_s = fmax(longest_s, runs[i].total_s);
        measured++;
    }
    const double width_s = longest_s > 0 ? longest_s / LUO_REPORT_POINTS : 1;
    luo_jsonw_open(&json, NULL, '{');
    luo_jsonw_num(&json, "width_s", width_s, 9);
    luo_jsonw_open(&json, "runs", '[');
    for (int32_t i = 0; st == LUO_OK && i < n; i++) {
        if (!runs[i].measured) continue;
        luo_jsonw_open(&json, NULL, '{');
        luo_jsonw_text(&json, "name", runs[i].name);
        st = put_rate(arena, &runs[i], width_s, &json, diags);
        if (st == LUO_OK) st = put_events(arena, &runs[i], &json, diags);
        if (st == LUO_OK) st = put_links(arena, &runs[i], &json, diags);
        if (st == LUO_OK)
            st = luo_report_timeline(arena, &runs[i], LUO_REPORT_SLICES / measured, &json, diags);
        luo_jsonw_close(&json);
    }
    luo_jsonw_close(&json);
    luo_jsonw_close(&json);
    return st == LUO_OK && text->failed ? LUO_ENOMEM : st;
}
