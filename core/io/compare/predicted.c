/* Simulated beside measured: OUT/plots/predicted.csv, for the figure `predicted`, from the tables
 * of the pairs. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/io/compare/compare_internal.h"
#include "core/io/files.h"

static bool is_sim(const luo_result *result)
{
    return strcmp(result->backend, "sim") == 0;
}

typedef struct points {
    luo_arena *arena;
    luo_table table;
    const char *out, *suffix; /* of the pair at hand */
    bool predicted_first;     /* the reference is the simulated run */
    luo_diags *diags;
    luo_err err;
} points;

/* Times of 0 have no place on a logarithmic axis. */
static luo_status put(points *p, const char *suite, const char *name, double reference,
                      double other)
{
    const double measured = p->predicted_first ? other : reference;
    const double predicted = p->predicted_first ? reference : other;
    if (!(measured > 0 && predicted > 0)) return LUO_OK;
    luo_table_text(&p->table, LUO_COL_PLOT_PREDICTED_suite, suite);
    luo_table_text(&p->table, LUO_COL_PLOT_PREDICTED_case, name);
    luo_table_text(&p->table, LUO_COL_PLOT_PREDICTED_role, "");
    luo_table_num(&p->table, LUO_COL_PLOT_PREDICTED_measured_s, measured);
    luo_table_num(&p->table, LUO_COL_PLOT_PREDICTED_predicted_s, predicted);
    return luo_table_end(&p->table, &p->err);
}

static luo_csv *open_pair(points *p, luo_table_id id)
{
    const char *file = luo_table_def_at(id)->file;
    char *name = luo_arena_printf(p->arena, "%.*s%s.csv", (int)strlen(file) - 4, file, p->suffix);
    return name ? luo_result_file(p->arena, p->out, name, id, p->diags) : NULL;
}

static luo_status put_steps(points *p)
{
    luo_csv_cell cell[LUO_CSV_COLUMNS];
    luo_csv *csv = open_pair(p, LUO_TABLE_COMPARE_STEPS);
    luo_status st = LUO_OK;
    while (st == LUO_OK && csv && luo_csv_next(csv, cell))
        st = put(p, "step", cell[LUO_COL_COMPARE_STEPS_step].text,
                 cell[LUO_COL_COMPARE_STEPS_reference_s].number,
                 cell[LUO_COL_COMPARE_STEPS_other_s].number);
    const luo_status read = luo_csv_close(csv);
    return st != LUO_OK ? luo_diags_err(p->diags, &p->err) : read;
}

static luo_status put_ops(points *p)
{
    luo_csv_cell cell[LUO_CSV_COLUMNS];
    char kind[32];
    luo_csv *csv = open_pair(p, LUO_TABLE_COMPARE_OPS);
    luo_status st = LUO_OK;
    while (st == LUO_OK && csv && luo_csv_next(csv, cell)) {
        const char *op = cell[LUO_COL_COMPARE_OPS_op].text;
        if (strchr(op, '*')) continue; /* sums of what is drawn */
        snprintf(kind, sizeof kind, "%s", cell[LUO_COL_COMPARE_OPS_kind].text);
        for (char *at = kind; *at; at++)
            if (*at >= 'A' && *at <= 'Z') *at = (char)(*at - 'A' + 'a');
        st = put(p, kind, op, cell[LUO_COL_COMPARE_OPS_reference_s].number,
                 cell[LUO_COL_COMPARE_OPS_other_s].number);
    }
    const luo_status read = luo_csv_close(csv);
    return st != LUO_OK ? luo_diags_err(p->diags, &p->err) : read;
}

static luo_status put_pair(points *p, const luo_result *runs, int32_t n, int32_t i)
{
    p->suffix = n > 2 ? luo_arena_printf(p->arena, "-%s", runs[i].name) : "";
    if (!p->suffix) return LUO_ENOMEM;
    LUO_TRY(put_steps(p));
    const char *ops = luo_arena_printf(p->arena, "compare_ops%s.csv", p->suffix);
    if (!ops) return LUO_ENOMEM;
    return luo_result_has(p->out, ops) ? put_ops(p) : LUO_OK; /* not traced */
}

static bool predicts(const luo_result *a, const luo_result *b)
{
    return is_sim(a) != is_sim(b) && a->measured && b->measured;
}

static luo_status put_pairs(points *p, const luo_result *runs, int32_t n)
{
    luo_status st = LUO_OK;
    for (int32_t i = 1; st == LUO_OK && i < n; i++)
        if (predicts(&runs[0], &runs[i])) st = put_pair(p, runs, n, i);
    return st;
}

luo_status luo_compare_predicted(luo_arena *arena, const char *out, const luo_result *runs,
                                 int32_t n, luo_diags *diags)
{
    points p = {.arena = arena, .out = out, .predicted_first = is_sim(&runs[0]), .diags = diags};
    const char *dir = luo_arena_printf(arena, "%s/plots", out);
    bool any = false;
    for (int32_t i = 1; i < n; i++) any |= predicts(&runs[0], &runs[i]);
    if (!dir) return LUO_ENOMEM;
    if (!any) { /* a table of an earlier comparison would be drawn as if it were of this one */
        const char *old = luo_arena_printf(arena, "%s/predicted.csv", dir);
        if (old) unlink(old);
        return old ? LUO_OK : LUO_ENOMEM;
    }
    luo_status st = luo_file_make_own_dir(dir, &p.err);
    if (st == LUO_OK)
        st = luo_table_open(&p.table, dir, luo_table_def_at(LUO_TABLE_PLOT_PREDICTED), &p.err);
    if (st != LUO_OK) return luo_diags_err(diags, &p.err);
    st = put_pairs(&p, runs, n);
    const luo_status closed = luo_table_close(&p.table, &p.err);
    if (st == LUO_OK && closed != LUO_OK) return luo_diags_err(diags, &p.err);
    return st;
}
