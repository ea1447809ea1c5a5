/* Tables over run time: throughput, lost time, marks, breakdown. */
#include "core/io/plot/plotdata.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/stats.h"
#include "core/base/vec.h"
#include "core/io/result/repeats.h"
#include "core/io/result/table.h"

enum { MEDIAN = 21, POINTS = 1200, MARKS = 400, LABELS = 30 };

/* Parts of a step stand side by side in steps.csv. */
enum { PARTS = LUO_COL_STEPS_bubble_s - LUO_COL_STEPS_compute_s + 1 };
_Static_assert(PARTS == 10, "the columns from compute_s to bubble_s are the parts");

typedef struct step_row {
    int64_t step, tokens, plan;
    double start_s, end_s, rate, parts[PARTS];
    bool stayed;
} step_row;

typedef struct step_list {
    step_row *at;
    int64_t n, cap;
} step_list;

static bool add(step_list *list, const step_row *row)
{
    if (!LUO_VEC_ROOM(list->at, list->n, list->cap)) return false;
    list->at[list->n++] = *row;
    return true;
}

/* A row stayed unless a later row is of the same step or an earlier one. */
static void mark_stayed(step_list *list)
{
    int64_t least = INT64_MAX;
    for (int64_t i = list->n - 1; i >= 0; i--) {
        list->at[i].stayed = list->at[i].step < least;
        if (list->at[i].step < least) least = list->at[i].step;
    }
}

static luo_status read_steps(luo_arena *arena, const luo_result *run, step_list *out,
                             luo_diags *diags)
{
    luo_csv_cell cell[LUO_CSV_COLUMNS];
    luo_repeats *rows = luo_repeats_open(arena, run->dir, LUO_TABLE_STEPS, diags);
    bool ok = true;
    while (ok && rows && luo_repeats_next(rows, cell)) {
        step_row row = {.step = cell[LUO_COL_STEPS_step].whole,
                        .tokens = cell[LUO_COL_STEPS_tokens].whole,
                        .plan = cell[LUO_COL_STEPS_plan].whole,
                        .start_s = cell[LUO_COL_STEPS_t_start_s].number,
                        .end_s = cell[LUO_COL_STEPS_t_end_s].number,
                        .rate = cell[LUO_COL_STEPS_tokens_per_s].number};
        for (int i = 0; i < PARTS; i++) row.parts[i] = cell[LUO_COL_STEPS_compute_s + i].number;
        ok = add(out, &row);
    }
    const luo_status st = luo_repeats_close(rows);
    mark_stayed(out);
    return ok ? st : LUO_ENOMEM;
}

static double median_at(const step_list *list, int64_t k)
{
    double w[MEDIAN] = {0};
    int n = 0;
    for (int64_t i = k - MEDIAN / 2; i <= k + MEDIAN / 2; i++)
        if (i >= 0 && i < list->n) w[n++] = list->at[i].rate;
    return luo_stats_median(w, n);
}

/* Does time pass without a step between rows k and k + 1? */
static bool gap_after(const step_list *list, int64_t k)
{
    return k + 1 < list->n && list->at[k + 1].start_s - list->at[k].end_s > 1e-6;
}

static luo_status put_point(luo_table *table, const char *run, double t_s, double rate,
                            int64_t kept, luo_err *err)
{
    luo_table_text(table, LUO_COL_PLOT_THROUGHPUT_run, run);
    luo_table_num(table, LUO_COL_PLOT_THROUGHPUT_t_s, t_s);
    luo_table_num(table, LUO_COL_PLOT_THROUGHPUT_tokens_per_s, rate);
    luo_table_int(table, LUO_COL_PLOT_THROUGHPUT_kept_tokens, kept);
    return luo_table_end(table, err);
}

/* kept: tokens of steps below index i, so far as known when a row was written. */
static luo_status put_throughput(luo_table *table, const luo_result *run, const step_list *list,
                                 luo_err *err)
{
    const int64_t every = list->n / POINTS + 1;
    int64_t most = 0;
    for (int64_t i = 0; i < list->n; i++)
        if (list->at[i].step + 1 > most) most = list->at[i].step + 1;
    int64_t *before = calloc((size_t)most + 1, sizeof *before);
    luo_status st = before ? LUO_OK : luo_err_nomem(err);
    for (int64_t i = 0; st == LUO_OK && i < list->n; i++) {
        const step_row *row = &list->at[i];
        const int64_t kept = before[row->step] + row->tokens;
        before[row->step + 1] = kept;
        const bool back = i > 0 && row->step <= list->at[i - 1].step, gap = gap_after(list, i);
        if (i % every && !back && !gap && i + 1 < list->n) continue;
        if (back) st = put_point(table, run->name, row->start_s, NAN, before[row->step], err);
        if (st == LUO_OK)
            st = put_point(table, run->name, row->end_s, median_at(list, i), kept, err);
        if (st == LUO_OK && gap) st = put_point(table, run->name, row->end_s, NAN, kept, err);
    }
    free(before);
    return st;
}

typedef luo_status (*run_fn)(luo_arena *arena, luo_table *t, const luo_result *run,
                             luo_diags *diags, luo_err *err);

/* Opens a table, lets fn add the rows of every run, closes it. */
static luo_status each_run(luo_arena *arena, const luo_result *runs, int32_t n, const char *out,
                           luo_table_id id, run_fn fn, int64_t *rows, luo_diags *diags)
{
    luo_table table = {0};
    luo_err err = {0};
    luo_status st = luo_table_open(&table, out, luo_table_def_at(id), &err);
    for (int32_t i = 0; st == LUO_OK && i < n; i++) st = fn(arena, &table, &runs[i], diags, &err);
    *rows = table.rows;
    const luo_status closed = luo_table_close(&table, st == LUO_OK ? &err : NULL);
    if (st == LUO_OK) st = closed;
    if (err.st != LUO_OK) luo_diags_err(diags, &err); /* faults of files read are there already */
    return st;
}

static luo_status throughput_of(luo_arena *arena, luo_table *table, const luo_result *run,
                                luo_diags *diags, luo_err *err)
{
    step_list list = {0};
    luo_status st = read_steps(arena, run, &list, diags);
    if (st == LUO_OK) st = put_throughput(table, run, &list, err);
    free(list.at);
    return st;
}

luo_status luo_plotdata_throughput(luo_arena *arena, const luo_result *runs, int32_t n,
                                   const char *out, int64_t *rows, luo_diags *diags)
{
    return each_run(arena, runs, n, out, LUO_TABLE_PLOT_THROUGHPUT, throughput_of, rows, diags);
}

static luo_status put_share(luo_table *table, const char *run, double step_s, double share,
                            luo_err *err)
{
    luo_table_text(table, LUO_COL_PLOT_STEPCDF_run, run);
    luo_table_num(table, LUO_COL_PLOT_STEPCDF_step_s, step_s);
    luo_table_num(table, LUO_COL_PLOT_STEPCDF_share_ratio, share);
    return luo_table_end(table, err);
}

/* The foot at the least, and at most POINTS + 1 points of the distribution, least and largest among
 * them. */
static luo_status stepcdf_of(luo_arena *arena, luo_table *table, const luo_result *run,
                             luo_diags *diags, luo_err *err)
{
    step_list list = {0};
    luo_status st = read_steps(arena, run, &list, diags);
    double *x = malloc((size_t)list.n * sizeof *x + 1);
    int64_t n = 0;
    if (!x) st = luo_err_nomem(err);
    for (int64_t i = 0; x && i < list.n; i++)
        if (list.at[i].stayed) x[n++] = list.at[i].end_s - list.at[i].start_s;
    luo_stats_sort(x, n);
    const int64_t every = n / POINTS + 1;
    if (st == LUO_OK && n > 0) st = put_share(table, run->name, x[0], 0, err);
    for (int64_t i = 0; st == LUO_OK && i < n; i++) {
        const bool step = i + 1 == n || i == 0 || x[i + 1] - x[i] > 1e-3 * x[n - 1] ||
                          x[i] - x[i - 1] > 1e-3 * x[n - 1]; /* corners stay sharp */
        if (i % every && !step) continue;
        st = put_share(table, run->name, x[i], (double)(i + 1) / (double)n, err);
    }
    free(x);
    free(list.at);
    return st;
}

luo_status luo_plotdata_stepcdf(luo_arena *arena, const luo_result *runs, int32_t n,
                                const char *out, int64_t *rows, luo_diags *diags)
{
    return each_run(arena, runs, n, out, LUO_TABLE_PLOT_STEPCDF, stepcdf_of, rows, diags);
}

static luo_status timelost_of(luo_arena *arena, luo_table *table, const luo_result *run,
                              luo_diags *diags, luo_err *err)
{
    (void)arena;
    (void)diags;
    luo_table_text(table, LUO_COL_PLOT_TIMELOST_run, run->name);
    luo_table_text(table, LUO_COL_PLOT_TIMELOST_state, luo_run_state_name(run->state));
    for (int i = 0; i < LUO_TIMES; i++)
        luo_table_num(table, LUO_COL_PLOT_TIMELOST_compute_s + i, run->time[i]);
    return luo_table_end(table, err);
}

luo_status luo_plotdata_timelost(luo_arena *arena, const luo_result *runs, int32_t n,
                                 const char *out, int64_t *rows, luo_diags *diags)
{
    return each_run(arena, runs, n, out, LUO_TABLE_PLOT_TIMELOST, timelost_of, rows, diags);
}

typedef struct span {
    double start_s, end_s;
    int64_t step;
    char kind[16];
    bool lost;
} span;

/* Joins spans that touch and are of one kind. */
static luo_status put_lost(luo_table *table, const char *run, const span *s, int64_t n,
                           luo_err *err)
{
    for (int64_t i = 0, j; i < n; i = j) {
        j = i + 1;
        if (!s[i].lost) continue;
        while (j < n && s[j].lost && strcmp(s[j].kind, s[i].kind) == 0 &&
               s[j].start_s - s[j - 1].end_s < 1e-6)
            j++;
        luo_table_text(table, LUO_COL_PLOT_LOST_run, run);
        luo_table_text(table, LUO_COL_PLOT_LOST_kind, s[i].kind);
        luo_table_num(table, LUO_COL_PLOT_LOST_t_start_s, s[i].start_s);
        luo_table_num(table, LUO_COL_PLOT_LOST_t_end_s, s[j - 1].end_s);
        LUO_TRY(luo_table_end(table, err));
    }
    return LUO_OK;
}

/* Blocking rows that are no steps, and steps that had to be done again. */
static luo_status lost_of(luo_arena *arena, luo_table *table, const luo_result *run,
                          luo_diags *diags, luo_err *err)
{
    luo_csv_cell cell[LUO_CSV_COLUMNS];
    luo_repeats *rows = luo_repeats_open(arena, run->dir, LUO_TABLE_TIMELINE, diags);
    span *s = NULL;
    int64_t n = 0, cap = 0;
    bool ok = true;
    while (ok && rows && luo_repeats_next(rows, cell)) {
        if (cell[LUO_COL_TIMELINE_blocking].whole != 1) continue;
        ok = LUO_VEC_ROOM(s, n, cap);
        if (!ok) break;
        s[n] = (span){.start_s = cell[LUO_COL_TIMELINE_t_start_s].number,
                      .end_s = cell[LUO_COL_TIMELINE_t_end_s].number,
                      .step = cell[LUO_COL_TIMELINE_step].whole};
        snprintf(s[n].kind, sizeof s[n].kind, "%s", cell[LUO_COL_TIMELINE_kind].text);
        s[n].lost = strcmp(s[n].kind, "step") != 0;
        n++;
    }
    luo_status st = luo_repeats_close(rows);
    if (!ok) st = luo_err_nomem(err);
    int64_t least = INT64_MAX;
    for (int64_t i = n - 1; i >= 0; i--) {
        if (s[i].lost) continue;
        if (s[i].step >= least) {
            s[i].lost = true;
            snprintf(s[i].kind, sizeof s[i].kind, "redone");
        } else {
            least = s[i].step;
        }
    }
    if (st == LUO_OK) st = put_lost(table, run->name, s, n, err);
    free(s);
    if (st != LUO_OK || run->state != LUO_LOST) return st;
    luo_table_text(table, LUO_COL_PLOT_LOST_run, run->name);
    luo_table_text(table, LUO_COL_PLOT_LOST_kind, "lost");
    luo_table_num(table, LUO_COL_PLOT_LOST_t_start_s, run->total_s);
    luo_table_num(table, LUO_COL_PLOT_LOST_t_end_s, run->total_s);
    return luo_table_end(table, err);
}

luo_status luo_plotdata_lost(luo_arena *arena, const luo_result *runs, int32_t n, const char *out,
                             int64_t *rows, luo_diags *diags)
{
    return each_run(arena, runs, n, out, LUO_TABLE_PLOT_LOST, lost_of, rows, diags);
}

/* "device:12 x2.57", "fail node:h800-1", "h20-1/nic3 x0.25". */
static void mark_label(char *out, size_t size, const char *kind, const char *target,
                       const luo_csv_cell *value)
{
    if (!value->given) snprintf(out, size, "%s %s", kind, target);
    else
        snprintf(out, size, "%s x%.3g", strncmp(target, "link:", 5) == 0 ? target + 5 : target,
                 value->number);
}

typedef struct mark {
    double t_s;
    bool breaks; /* devices go or come, which counts more than slowness */
    bool named;
    bool shared; /* every run that lasted so long met it then */
    char kind[24], label[128];
} mark;

/* Events are marked when they begin, other jobs when they end, too. */
static bool is_marked(const char *kind, const char *phase)
{
    const bool job = strcmp(kind, "job") == 0;
    return strcmp(phase, luo_event_phase_name(LUO_EVENT_PHASE_FIRED)) == 0 ||
           (job && strcmp(phase, luo_event_phase_name(LUO_EVENT_PHASE_ENDED)) == 0);
}

typedef struct mark_list {
    const luo_result *run;
    mark *at;
    int64_t n, cap;
    bool known; /* the run has a table of events */
} mark_list;

static luo_status read_marks(luo_arena *arena, mark_list *list, luo_diags *diags, luo_err *err)
{
    luo_csv_cell cell[LUO_CSV_COLUMNS];
    bool ok = true;
    list->known = luo_result_has(list->run->dir, luo_table_def_at(LUO_TABLE_EVENTS)->file);
    if (!list->known) return LUO_OK;
    luo_csv *in = luo_result_table(arena, list->run->dir, LUO_TABLE_EVENTS, diags);
    while (ok && in && luo_csv_next(in, cell)) {
        const char *kind = cell[LUO_COL_EVENTS_kind].text;
        const char *phase = cell[LUO_COL_EVENTS_phase].text;
        if (!is_marked(kind, phase)) continue;
        ok = LUO_VEC_ROOM(list->at, list->n, list->cap);
        if (!ok) break;
        mark *m = &list->at[list->n++];
        *m = (mark){.t_s = cell[LUO_COL_EVENTS_t_s].number,
                    .breaks = strcmp(kind, "straggler") && strcmp(kind, "link")};
        snprintf(m->kind, sizeof m->kind, "%s", kind);
        if (strcmp(kind, "job") == 0)
            snprintf(m->label, sizeof m->label, "%s %s", cell[LUO_COL_EVENTS_id].text,
                     strcmp(phase, luo_event_phase_name(LUO_EVENT_PHASE_FIRED)) ? "ends"
                                                                                : "begins");
        else
            mark_label(m->label, sizeof m->label, kind, cell[LUO_COL_EVENTS_target].text,
                       &cell[LUO_COL_EVENTS_value]);
    }
    const luo_status st = luo_csv_close(in);
    return ok ? st : luo_err_nomem(err);
}

/* Marks of a list lie in the order of time. *from: below it all are too early for this mark and
 * for those that follow it. */
static bool has_mark(const mark_list *list, int64_t *from, const mark *wanted, double width_s)
{
    while (*from < list->n && list->at[*from].t_s < wanted->t_s - width_s) ++*from;
    for (int64_t i = *from; i < list->n && list->at[i].t_s <= wanted->t_s + width_s; i++)
        if (strcmp(list->at[i].kind, wanted->kind) == 0 &&
            strcmp(list->at[i].label, wanted->label) == 0)
            return true;
    return false;
}

/* Compares every run with every other that lasted to the mark. */
static void share_marks(mark_list *lists, int32_t n, double width_s)
{
    for (int32_t r = 0; r < n; r++) {
        for (int64_t i = 0; i < lists[r].n; i++) lists[r].at[i].shared = true;
        for (int32_t k = 0; k < n; k++) {
            int64_t from = 0;
            for (int64_t i = 0; k != r && lists[k].known && i < lists[r].n; i++) {
                mark *m = &lists[r].at[i];
                if (lists[k].run->total_s > m->t_s + width_s &&
                    !has_mark(&lists[k], &from, m, width_s))
                    m->shared = false;
            }
        }
    }
}

/* A label needs 1/LABELS of the width. */
static void name_marks(mark *m, int64_t n, bool breaks, double width_s)
{
    for (int64_t i = 0; i < n; i++) {
        bool free = m[i].breaks == breaks;
        for (int64_t k = 0; k < n && free; k++)
            free = !m[k].named || fabs(m[k].t_s - m[i].t_s) > width_s;
        if (free) m[i].named = true;
    }
}

/* Marks of one kind to the front, as many as there is room for: one needs 1/MARKS of the width. */
static int64_t choose_marks(mark_list *list, bool shared, double width_s, mark *out)
{
    int64_t n = 0;
    for (int64_t i = 0; i < list->n && n <= MARKS; i++) {
        const mark *m = &list->at[i];
        if (m->shared == shared && (n == 0 || m->t_s - out[n - 1].t_s >= width_s)) out[n++] = *m;
    }
    return n;
}

static luo_status put_marks(luo_table *table, const char *run, const mark *m, int64_t n,
                            luo_err *err)
{
    for (int64_t i = 0; i < n; i++) {
        luo_table_text(table, LUO_COL_PLOT_MARKS_run, run);
        luo_table_num(table, LUO_COL_PLOT_MARKS_t_s, m[i].t_s);
        luo_table_text(table, LUO_COL_PLOT_MARKS_kind, m[i].kind);
        /* gnuplot takes the last one for "" */
        luo_table_text(table, LUO_COL_PLOT_MARKS_label, m[i].named ? m[i].label : "-");
        LUO_TRY(luo_table_end(table, err));
    }
    return LUO_OK;
}

/* Those that all share, of the longest run, with labels; behind them the others, run by run. */
static luo_status put_all_marks(luo_table *table, mark_list *lists, int32_t n, int32_t longest,
                                mark *room, luo_err *err)
{
    const double total_s = lists[longest].run->total_s;
    int64_t chosen = choose_marks(&lists[longest], true, total_s / MARKS, room);
    name_marks(room, chosen, true, total_s / LABELS);
    name_marks(room, chosen, false, total_s / LABELS);
    LUO_TRY(put_marks(table, "-", room, chosen, err));
    for (int32_t r = 0; r < n; r++) {
        chosen = choose_marks(&lists[r], false, total_s / MARKS, room);
        LUO_TRY(put_marks(table, lists[r].run->name, room, chosen, err));
    }
    return LUO_OK;
}

luo_status luo_plotdata_marks(luo_arena *arena, const luo_result *runs, int32_t n, const char *out,
                              int64_t *rows, luo_diags *diags)
{
    luo_table table = {0};
    luo_err err = {0};
    mark_list *lists = LUO_NEW_N(arena, mark_list, n);
    mark *room = LUO_NEW_N(arena, mark, MARKS + 1);
    int32_t longest = 0;
    luo_status st = lists && room ? LUO_OK : luo_err_nomem(&err);
    for (int32_t i = 0; i < n && st == LUO_OK; i++) {
        lists[i].run = &runs[i];
        if (runs[i].total_s > runs[longest].total_s) longest = i;
        st = read_marks(arena, &lists[i], diags, &err);
    }
    if (st == LUO_OK) share_marks(lists, n, runs[longest].total_s / MARKS);
    if (st == LUO_OK)
        st = luo_table_open(&table, out, luo_table_def_at(LUO_TABLE_PLOT_MARKS), &err);
    if (st == LUO_OK) st = put_all_marks(&table, lists, n, longest, room, &err);
    for (int32_t i = 0; lists && i < n; i++) free(lists[i].at);
    *rows = table.rows;
    const luo_status closed = luo_table_close(&table, st == LUO_OK ? &err : NULL);
    if (st == LUO_OK) st = closed;
    if (err.st != LUO_OK) luo_diags_err(diags, &err);
    return st;
}

static luo_status put_breakdown(luo_table *table, const char *name, const step_list *list,
                                int64_t plan, const luo_time_range *range, luo_err *err)
{
    double sum[PARTS] = {0}, step = 0;
    int64_t n = 0;
    for (int64_t i = 0; i < list->n; i++) {
        if (!list->at[i].stayed || (plan >= 0 && list->at[i].plan != plan)) continue;
        for (int k = 0; k < PARTS; k++) sum[k] += list->at[i].parts[k];
        n++;
    }
    for (int k = 0; k < PARTS; k++) step += n ? sum[k] / (double)n : 0;
    if (!(step > 0)) return LUO_OK; /* none, or of a run that was recorded elsewhere */
    luo_table_text(table, LUO_COL_PLOT_BREAKDOWN_name, name);
    luo_table_int(table, LUO_COL_PLOT_BREAKDOWN_steps, n);
    for (int k = 0; k < PARTS; k++)
        luo_table_num(table, LUO_COL_PLOT_BREAKDOWN_compute_s + k, sum[k] / (double)n);
    luo_table_num(table, LUO_COL_PLOT_BREAKDOWN_low_s,
                  range ? luo_time_range_low(range, step) : NAN);
    luo_table_num(table, LUO_COL_PLOT_BREAKDOWN_high_s,
                  range ? luo_time_range_high(range, step) : NAN);
    return luo_table_end(table, err);
}

static luo_status breakdown_by_run(luo_arena *arena, luo_table *table, const luo_result *run,
                                   luo_diags *diags, luo_err *err)
{
    step_list list = {0};
    luo_status st = read_steps(arena, run, &list, diags);
    if (st == LUO_OK) st = put_breakdown(table, run->name, &list, -1, run->range, err);
    free(list.at);
    return st;
}

static luo_status breakdown_by_plan(luo_arena *arena, luo_table *table, const luo_result *run,
                                    luo_diags *diags, luo_err *err)
{
    step_list list = {0};
    char name[32];
    luo_status st = read_steps(arena, run, &list, diags);
    int64_t last = -1;
    for (int64_t i = 0; i < list.n; i++)
        if (list.at[i].plan > last) last = list.at[i].plan;
    for (int64_t plan = 0; st == LUO_OK && plan <= last && plan < 1000; plan++) {
        snprintf(name, sizeof name, "plan %lld", (long long)plan);
        st = put_breakdown(table, name, &list, plan, NULL, err);
    }
    free(list.at);
    return st;
}

luo_status luo_plotdata_breakdown(luo_arena *arena, const luo_result *runs, int32_t n,
                                  const char *out, int64_t *rows, luo_diags *diags)
{
    return each_run(arena, runs, n, out, LUO_TABLE_PLOT_BREAKDOWN,
                    n == 1 ? breakdown_by_plan : breakdown_by_run, rows, diags);
}
