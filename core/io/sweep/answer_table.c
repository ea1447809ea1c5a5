/* answer_table.c: the answer of a sweep as JSON, and as the table of the figure `sweep`. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/vec.h"
#include "core/io/sweep/sweep.h"

static luo_status json_case(luo_arena *arena, const luo_sweep_grid *grid,
                            const luo_sweep_case *sweep_case, const char *name, luo_jsonw *json,
                            luo_err *err)
{
    if (!sweep_case) {
        luo_jsonw_text(json, name, NULL);
        return LUO_OK;
    }
    luo_jsonw_open(json, name, '{');
    luo_jsonw_int(json, "cell", sweep_case->cell);
    luo_jsonw_open(json, "values", '{');
    for (int32_t k = 0; k < grid->nkeys; k++) {
        const char *value =
            luo_sweep_value(arena, &grid->key[k], luo_sweep_pick(grid, sweep_case->cell, k));
        if (!value) return luo_err_nomem(err);
        luo_jsonw_text(json, grid->key[k].name, value);
    }
    luo_jsonw_close(json);
    luo_jsonw_text(json, "policy", *sweep_case->policy ? sweep_case->policy : NULL);
    luo_jsonw_text(json, "state", luo_run_state_name(sweep_case->state));
    luo_jsonw_int(json, "seeds", sweep_case->n);
    luo_jsonw_num(json, "goodput_mean_tokens_per_s", sweep_case->mean.mean, 3);
    luo_jsonw_num(json, "goodput_low95_tokens_per_s", sweep_case->mean.low, 3);
    luo_jsonw_num(json, "goodput_high95_tokens_per_s", sweep_case->mean.high, 3);
    luo_jsonw_num(json, "step_mean_s", sweep_case->step_s, 9);
    luo_jsonw_num(json, "mfu_ratio", sweep_case->mfu, 6);
    luo_jsonw_num(json, "lost_ratio", sweep_case->lost, 6);
    luo_jsonw_num(json, "peak_memory_ratio", sweep_case->memory, 6);
    luo_jsonw_close(json);
    return LUO_OK;
}

luo_status luo_sweep_json(luo_arena *arena, const luo_sweep_grid *grid,
                          const luo_sweep_answer *answer, int64_t most, luo_jsonw *json,
                          luo_err *err)
{
    luo_jsonw_int(json, "runs", answer->nrows);
    luo_jsonw_int(json, "without_figures", answer->failed);
    LUO_TRY(json_case(arena, grid, answer->best, "best", json, err));
    LUO_TRY(json_case(arena, grid, answer->next, "next", json, err));
    if (answer->next) {
        const luo_interval *interval = &answer->lead.difference;
        luo_jsonw_open(json, "difference", '{');
        luo_jsonw_num(json, "mean_tokens_per_s", interval->mean, 3);
        luo_jsonw_num(json, "low95_tokens_per_s", interval->low, 3);
        luo_jsonw_num(json, "high95_tokens_per_s", interval->high, 3);
        luo_jsonw_num(json, "p", interval->p, 6);
        luo_jsonw_int(json, "rivals", answer->rivals);
        luo_jsonw_close(json);
    }
    luo_jsonw_open(json, "factors", '[');
    for (int32_t i = 0; i < answer->nfactors; i++) {
        luo_jsonw_open(json, NULL, '{');
        luo_jsonw_text(json, "name", answer->factor[i].name);
        luo_jsonw_num(json, "variance_ratio", answer->factor[i].share, 6);
        luo_jsonw_close(json);
    }
    luo_jsonw_close(json);
    luo_jsonw_open(json, "cases", '[');
    for (int64_t i = 0; i < answer->ncases && i < most; i++)
        LUO_TRY(json_case(arena, grid, &answer->at[i], NULL, json, err));
    luo_jsonw_close(json);
    return LUO_OK;
}

/* ---- plots/swept.csv ---- */

typedef struct plotter {
    luo_arena *arena;
    const luo_sweep_grid *grid;
    const luo_sweep_answer *answer;
    luo_table *table;
    int32_t npolicies, cap;
    const char **policy; /* in the order of their first cases */
    double *sum, *mean;  /* [values * policies * seeds]; [seeds] */
    int32_t *n;
} plotter;

static int32_t policy_of(plotter *p, const char *label)
{
    int32_t i = 0;
    while (i < p->npolicies && strcmp(p->policy[i], label) != 0) i++;
    return i;
}

/* Best cases come first in the answer; legends are as policies stand in the scenario. */
static luo_status list_policies(plotter *p, luo_err *err)
{
    const luo_sweep_answer *answer = p->answer;
    const luo_sweep_case **by_order = LUO_NEW_N(p->arena, const luo_sweep_case *, answer->ncases);
    if (!by_order) return luo_err_nomem(err);
    for (int64_t i = 0; i < answer->ncases; i++) by_order[answer->at[i].order] = &answer->at[i];
    for (int64_t i = 0; i < answer->ncases; i++) {
        if (by_order[i]->n == 0 || policy_of(p, by_order[i]->policy) < p->npolicies) continue;
        if (!LUO_VEC_ROOM_IN(p->arena, p->policy, p->npolicies, p->cap)) return luo_err_nomem(err);
        p->policy[p->npolicies++] = by_order[i]->policy;
    }
    return LUO_OK;
}

static void add_cases(plotter *p, int32_t k)
{
    const int32_t nseeds = p->grid->nseeds;
    for (int64_t i = 0; i < p->answer->ncases; i++) {
        const luo_sweep_case *sweep_case = &p->answer->at[i];
        const int64_t value = luo_sweep_pick(p->grid, sweep_case->cell, k);
        if (sweep_case->n == 0) continue;
        const int64_t at = (value * p->npolicies + policy_of(p, sweep_case->policy)) * nseeds;
        for (int32_t s = 0; s < nseeds; s++) {
            if (!isfinite(sweep_case->goodput[s])) continue;
            p->sum[at + s] += sweep_case->goodput[s];
            p->n[at + s]++;
        }
    }
}

static luo_status put_value(plotter *p, int32_t k, int64_t value, int32_t policy, luo_err *err)
{
    const luo_sweep_key *key = &p->grid->key[k];
    const bool numeric = luo_sweep_numeric(key);
    const int64_t at = (value * p->npolicies + policy) * p->grid->nseeds;
    int32_t n = 0;
    for (int32_t s = 0; s < p->grid->nseeds; s++)
        if (p->n[at + s] > 0) p->mean[n++] = p->sum[at + s] / p->n[at + s];
    if (n == 0) return LUO_OK;
    const char *text = luo_sweep_value(p->arena, key, value);
    if (!text) return luo_err_nomem(err);
    const luo_interval mean = luo_interval_of_mean(p->mean, n, 0.95);
    luo_table_int(p->table, LUO_COL_PLOT_SWEPT_key, k + 1);
    luo_table_text(p->table, LUO_COL_PLOT_SWEPT_name, key->name);
    luo_table_text(p->table, LUO_COL_PLOT_SWEPT_value, text);
    luo_table_num(p->table, LUO_COL_PLOT_SWEPT_x,
                  numeric ? luo_sweep_number(key, value) : (double)value);
    luo_table_int(p->table, LUO_COL_PLOT_SWEPT_numeric, numeric);
    luo_table_text(p->table, LUO_COL_PLOT_SWEPT_policy, p->policy[policy]);
    luo_table_int(p->table, LUO_COL_PLOT_SWEPT_seeds, n);
    luo_table_num(p->table, LUO_COL_PLOT_SWEPT_goodput_mean_tokens_per_s, mean.mean);
    luo_table_num(p->table, LUO_COL_PLOT_SWEPT_goodput_low95_tokens_per_s, mean.low);
    luo_table_num(p->table, LUO_COL_PLOT_SWEPT_goodput_high95_tokens_per_s, mean.high);
    return luo_table_end(p->table, err);
}

typedef struct place {
    double x;
    int64_t value;
} place;

static int by_x(const void *a, const void *b)
{
    const place *p = a, *q = b;
    return (p->x > q->x) - (p->x < q->x);
}

static luo_status put_key(plotter *p, int32_t k, luo_err *err)
{
    const luo_sweep_key *key = &p->grid->key[k];
    const int64_t all = key->n * p->npolicies * p->grid->nseeds;
    const bool numeric = luo_sweep_numeric(key);
    place *places = LUO_NEW_N(p->arena, place, key->n);
    p->sum = LUO_NEW_N(p->arena, double, all);
    p->n = LUO_NEW_N(p->arena, int32_t, all);
    p->mean = LUO_NEW_N(p->arena, double, p->grid->nseeds);
    if (!places || !p->sum || !p->n || !p->mean) return luo_err_nomem(err);
    add_cases(p, k);
    for (int64_t i = 0; i < key->n; i++)
        places[i] = (place){numeric ? luo_sweep_number(key, i) : (double)i, i};
    qsort(places, (size_t)key->n, sizeof *places, by_x);
    for (int32_t policy = 0; policy < p->npolicies; policy++)
        for (int64_t i = 0; i < key->n; i++) LUO_TRY(put_value(p, k, places[i].value, policy, err));
    return LUO_OK;
}

luo_status luo_sweep_plotdata(luo_arena *arena, const char *plots, const luo_sweep_grid *grid,
                              const luo_sweep_answer *answer, int32_t *n, luo_err *err)
{
    luo_table table = {0};
    plotter p = {.arena = arena, .grid = grid, .answer = answer, .table = &table};
    *n = 0;
    LUO_TRY(list_policies(&p, err));
    luo_status st = luo_table_open(&table, plots, luo_table_def_at(LUO_TABLE_PLOT_SWEPT), err);
    for (int32_t k = 0; st == LUO_OK && p.npolicies > 0 && k < grid->nkeys; k++) {
        if (grid->key[k].n < 2) continue;
        st = put_key(&p, k, err);
        ++*n;
    }
    const luo_status closed = luo_table_close(&table, st == LUO_OK ? err : NULL);
    return st == LUO_OK ? closed : st;
}
