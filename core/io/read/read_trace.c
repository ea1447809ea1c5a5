/* read_trace.c: event traces and tables of causes (docs/formats.md#tables-1). */
#include "core/io/read/read_trace.h"

#include <stdio.h>
#include <string.h>

#include "core/base/vec.h"
#include "core/io/io.h"
#include "core/io/read/input_tables.h"
#include "core/io/read/read.h"

/* ---- targets ---- */

static bool all_have(const luo_target *target, bool links)
{
    for (int32_t i = 0; i < target->nchoices; i++)
        if ((links ? target->choices[i].nlink : target->choices[i].ndev) == 0) return false;
    return target->nchoices > 0;
}

static luo_status judge(const luo_target *t, luo_event_kind kind, bool process,
                        const char *target, const char *what, luo_err *err)
{
    if (process && (t->any || !all_have(t, false)))
        return luo_err_set(err, LUO_EINPUT, "`target` is `%.100s`; %s has a clock for each device, "
                           "so devices, nodes, groups or racks are expected.", target, what);
    if (process) return LUO_OK;
    const luo_event_hits hits = luo_event_traits_of(kind).hits;
    if (hits == LUO_HITS_DEVICES && !all_have(t, false))
        return luo_err_set(err, LUO_EINPUT, "`target` is `%.100s`; %s slows devices down, so "
                           "devices, nodes, groups or racks are expected.", target, what);
    if (hits == LUO_HITS_LINKS && !all_have(t, true))
        return luo_err_set(err, LUO_EINPUT, "`target` is `%.100s`; %s changes links, so links, "
                           "switches or whole nodes are expected.", target, what);
    return LUO_OK;
}

luo_status luo_trace_check_target(luo_arena *arena, const luo_cluster *cluster, luo_event_kind kind,
                                  bool process, const char *target, const char *what, luo_err *err)
{
    luo_target t;
    const size_t mark = luo_arena_mark(arena);
    luo_status st = luo_target_parse(arena, cluster, target, &t, err);
    if (st == LUO_OK) st = judge(&t, kind, process, target, what, err);
    luo_arena_reset(arena, mark);
    return st;
}

/* ---- event traces ---- */

typedef struct trace {
    luo_arena *arena;
    luo_csv *table;
    const luo_cluster *cluster;
    const char *file; /* last part of the path, for ids */
    double start_s, time_scale;
    luo_event *at;
    int32_t n, cap;
    bool failed;
} trace;

/* kinds in the order of the table's words (input_tables.c). */
#define ROW(kind, word, event, row, ...) LUO_WHERE_##row(LUO_EVENT_##kind, )
static const luo_event_kind row_kinds[] = {LUO_EVENT_KIND_LIST(ROW)};

/* What stands in `value`; name NULL: nothing does. */
static const struct {
    const char *name, *within;
    luo_quantity_id quantity;
} values[] = {
    [LUO_VALUE_SLOWDOWN] = {"slowdown", "a slowdown of at least 1", LUO_Q_SLOWDOWN},
    [LUO_VALUE_FACTOR] = {"bandwidth factor", "a bandwidth factor above 0, at most 1,",
                          LUO_Q_LINK_FACTOR},
    [LUO_VALUE_TOKENS] = {NULL, NULL, LUO_Q_SEQUENCE},
};

/* "a slowdown of at least 1"; both ends of the range for who is beyond one of them. */
static const char *expected(luo_event_value value, double v, char *buf, size_t size)
{
    const luo_quantity *quantity = luo_quantity_at(values[value].quantity);
    if (value == LUO_VALUE_SLOWDOWN ? v < 1 : v <= 0 || v > 1)
        snprintf(buf, size, "%s", values[value].within);
    else
        snprintf(buf, size, "a %s from %.15g to %.15g", values[value].name, quantity->lowest,
                 quantity->highest);
    return buf;
}

static bool check_value(trace *t, luo_event_kind kind, const luo_csv_cell *cells)
{
    const luo_csv_cell *cell = &cells[LUO_EV_VALUE];
    const luo_event_value value = luo_event_traits_of(kind).value;
    const char *name = values[value].name;
    char buf[80];
    if (name && !cell->given)
        luo_csv_error(t->table, LUO_EV_VALUE, "`value` is empty; kind `%s` needs a %s.",
                      cells[LUO_EV_KIND].text, name);
    else if (name && !luo_quantity_holds(values[value].quantity, cell->number))
        luo_csv_error(t->table, LUO_EV_VALUE, "`value` is `%s`; %s is expected.", cell->text,
                      expected(value, cell->number, buf, sizeof buf));
    else if (!name && cell->given)
        luo_csv_error(t->table, LUO_EV_VALUE,
                      "`value` is `%s`; kind `%s` has none, leave it "
                      "empty.",
                      cell->text, cells[LUO_EV_KIND].text);
    else return true;
    return false;
}

/* What the scenario makes of times: start_s + t_s * time_scale. */
static bool check_times(trace *t, const luo_csv_cell *cells)
{
    const double at = t->start_s + cells[LUO_EV_T].number * t->time_scale;
    const double life = cells[LUO_EV_DURATION].number * t->time_scale;
    const luo_quantity *run = luo_quantity_at(LUO_Q_RUN_TIME), *time = luo_quantity_at(LUO_Q_TIME);
    const bool early = at <= run->highest;
    const bool whole = !cells[LUO_EV_DURATION].given || luo_quantity_holds(LUO_Q_TIME, life);
    if (!early)
        luo_csv_error(t->table, LUO_EV_T,
                      "`t_s` is `%s`, at %g s with `start_s` and `time_scale` of the scenario; "
                      "a date up to %g s is expected.",
                      cells[LUO_EV_T].text, at, run->highest);
    if (!whole)
        luo_csv_error(t->table, LUO_EV_DURATION,
                      "`duration_s` is `%s`, %g s with `time_scale` of the scenario; a time from "
                      "%g to %g s is expected.",
                      cells[LUO_EV_DURATION].text, life, time->lowest, time->highest);
    return early && whole;
}

static bool check_row(trace *t, luo_event_kind kind, const luo_csv_cell *cells)
{
    char what[80];
    luo_err err;
    bool good = check_value(t, kind, cells);
    good = check_times(t, cells) && good;
    snprintf(what, sizeof what, "kind `%s`", cells[LUO_EV_KIND].text);
    if (luo_event_traits_of(kind).loss == LUO_LOSS_BACK && cells[LUO_EV_DURATION].given) {
        luo_csv_error(t->table, LUO_EV_DURATION,
                      "`duration_s` is `%s`; what joins is up from then "
                      "on, leave it empty.",
                      cells[LUO_EV_DURATION].text);
        good = false;
    }
    if (strchr(cells[LUO_EV_ID].text, '#')) {
        luo_csv_error(t->table, LUO_EV_ID, "`id` is `%.60s`; a text without `#` is expected.",
                      cells[LUO_EV_ID].text);
        good = false;
    }
    const luo_status st = t->cluster ? luo_trace_check_target(t->arena, t->cluster, kind, false,
                                                              cells[LUO_EV_TARGET].text, what, &err)
                                     : luo_target_check(t->arena, cells[LUO_EV_TARGET].text, &err);
    if (st == LUO_ENOMEM) t->failed = true;
    else if (st != LUO_OK) luo_csv_error(t->table, LUO_EV_TARGET, "%s", err.text);
    return good && st == LUO_OK;
}

static void add_event(trace *t, luo_event_kind kind, const luo_csv_cell *cells)
{
    if (!LUO_VEC_ROOM_IN(t->arena, t->at, t->n, t->cap)) {
        t->failed = true;
        return;
    }
    const int line = luo_csv_line(t->table);
    const luo_event_value value = luo_event_traits_of(kind).value;
    luo_event *event = &t->at[t->n++];
    *event = (luo_event){.kind = kind,
                         .trigger = LUO_AT_S,
                         .cause = "",
                         .line = line,
                         .col = 1,
                         .target = luo_arena_strdup(t->arena, cells[LUO_EV_TARGET].text),
                         .id = cells[LUO_EV_ID].given
                                   ? luo_arena_strdup(t->arena, cells[LUO_EV_ID].text)
                                   : luo_arena_printf(t->arena, "%s:%d", t->file, line)};
    event->at[0] = t->start_s + cells[LUO_EV_T].number * t->time_scale;
    if (cells[LUO_EV_DURATION].given)
        event->life.duration_s = cells[LUO_EV_DURATION].number * t->time_scale;
    if (value == LUO_VALUE_SLOWDOWN) event->slowdown = cells[LUO_EV_VALUE].number;
    if (value == LUO_VALUE_FACTOR) event->bandwidth_factor = cells[LUO_EV_VALUE].number;
    if (!event->target || !event->id) t->failed = true;
}

luo_status luo_read_event_trace(luo_arena *arena, const luo_source *src,
                                const luo_cluster *cluster, double start_s, double time_scale,
                                luo_event **out, int32_t *n, luo_diags *diags)
{
    const char *slash = strrchr(src->name, '/');
    luo_csv_cell cell[LUO_EV_N];
    trace t = {.arena = arena, .cluster = cluster, .start_s = start_s, .time_scale = time_scale,
               .file = slash ? slash + 1 : src->name};
    t.table = luo_csv_open(src, luo_input_table_events.columns, luo_input_table_events.n, diags);
    while (!t.failed && luo_csv_next(t.table, cell)) {
        const luo_event_kind kind = row_kinds[cell[LUO_EV_KIND].whole];
        if (check_row(&t, kind, cell)) add_event(&t, kind, cell);
    }
    luo_status st = luo_csv_close(t.table);
    if (t.failed)
        st = luo_diags_add(diags, LUO_ERROR, LUO_ENOMEM, src->name, 0, 0,
                           "this process is out of memory; free some or use less.");
    if (st != LUO_OK) return st;
    *out = t.at;
    *n = t.n;
    return LUO_OK;
}

/* ---- causes ---- */

#define CAUSE(kind, word, event, row, process, cause, ...) LUO_WHERE_##cause(LUO_EVENT_##kind, )
static const luo_event_kind cause_kinds[] = {LUO_EVENT_KIND_LIST(CAUSE)};

/* A straggler has a slowdown, a link a bandwidth factor, a failure nothing; only a failure can hit
 * the whole job. */
static bool check_cause(luo_csv *csv, const luo_csv_cell *cells)
{
    const luo_event_traits traits = luo_event_traits_of(cause_kinds[cells[LUO_CA_KIND].whole]);
    const bool none = !values[traits.value].name;
    const luo_csv_cell *cell = &cells[LUO_CA_VALUE];
    char buf[80];
    bool good = true;
    if (none ? cell->given
             : !(cell->given && luo_quantity_holds(values[traits.value].quantity, cell->number))) {
        luo_csv_error(
            csv, LUO_CA_VALUE, "`value` is %s%s%s; %s is expected for kind `%s`.",
            cell->given ? "`" : "", cell->given ? cell->text : "empty", cell->given ? "`" : "",
            none ? "an empty cell" : expected(traits.value, cell->number, buf, sizeof buf),
            cells[LUO_CA_KIND].text);
        good = false;
    }
    if (cells[LUO_CA_SCOPE].whole == LUO_SCOPE_JOB && traits.loss != LUO_LOSS_GONE) {
        luo_csv_error(csv, LUO_CA_SCOPE,
                      "`scope` is `job`; only kind `fail` can hit the whole job.");
        good = false;
    }
    if (cells[LUO_CA_SIGMA].given && !cells[LUO_CA_MEDIAN].given) {
        luo_csv_error(csv, LUO_CA_SIGMA,
                      "`life_sigma` has no `life_median_s` beside it; give both "
                      "or none.");
        good = false;
    }
    if (strchr(cells[LUO_CA_CAUSE].text, '#')) {
        luo_csv_error(csv, LUO_CA_CAUSE, "`cause` is `%.60s`; a text without `#` is expected.",
                      cells[LUO_CA_CAUSE].text);
        good = false;
    }
    return good;
}

luo_status luo_read_causes(luo_arena *arena, const luo_source *src, luo_cause **out, int32_t *n,
                           luo_diags *diags)
{
    luo_csv_cell cell[LUO_CA_N];
    luo_cause *cause = NULL;
    int32_t count = 0, cap = 0;
    bool failed = false;
    luo_csv *csv =
        luo_csv_open(src, luo_input_table_causes.columns, luo_input_table_causes.n, diags);
    while (!failed && luo_csv_next(csv, cell)) {
        if (!check_cause(csv, cell)) continue;
        const bool room = LUO_VEC_ROOM_IN(arena, cause, count, cap);
        const char *name = luo_arena_strdup(arena, cell[LUO_CA_CAUSE].text);
        failed = !room || !name;
        if (failed) break;
        cause[count] = (luo_cause){.cause = name,
                                   .scope = (luo_scope)cell[LUO_CA_SCOPE].whole,
                                   .kind = cause_kinds[cell[LUO_CA_KIND].whole],
                                   .count = cell[LUO_CA_COUNT].whole,
                                   .life_median_s = cell[LUO_CA_MEDIAN].number,
                                   .life_sigma = cell[LUO_CA_SIGMA].number,
                                   .value = cell[LUO_CA_VALUE].number};
        count++;
    }
    luo_status st = luo_csv_close(csv);
    if (failed)
        st = luo_diags_add(diags, LUO_ERROR, LUO_ENOMEM, src->name, 0, 0,
                           "this process is out of memory; free some or use less.");
    if (st != LUO_OK) return st;
    *out = cause;
    *n = count;
    return LUO_OK;
}
