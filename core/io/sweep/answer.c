/* answer.c: what the rows of a sweep say: the best case and its lead, which key matters most. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/vec.h"
#include "core/io/sweep/sweep.h"

#define LEVEL 0.95

typedef struct judge {
    luo_arena *arena;
    const luo_sweep_grid *grid;
    const luo_sweep_rows *rows;
    const char *const *bounds;
    int32_t nbounds;
    luo_sweep_answer *out;
    int64_t cap;
} judge;

static bool has_goodput(const luo_sweep_row *row)
{
    return isfinite(row->goodput_tokens_per_s);
}

static bool is_bound(const judge *j, const char *policy)
{
    for (int32_t i = 0; i < j->nbounds; i++)
        if (strcmp(j->bounds[i], policy) == 0) return true;
    return false;
}

/* ---- cases ---- */

/* The case of a row among those of its cell, which are the last ones; NULL: out of memory. */
static luo_sweep_case *case_of(judge *j, const luo_sweep_row *row)
{
    luo_sweep_answer *answer = j->out;
    for (int64_t i = answer->ncases - 1; i >= 0 && answer->at[i].cell == row->cell; i--)
        if (strcmp(answer->at[i].policy, row->policy) == 0) return &answer->at[i];
    if (!LUO_VEC_ROOM_IN(j->arena, answer->at, answer->ncases, j->cap)) return NULL;
    luo_sweep_case *sweep_case = &answer->at[answer->ncases];
    *sweep_case = (luo_sweep_case){.cell = row->cell,
                                   .policy = row->policy,
                                   .order = answer->ncases,
                                   .goodput = LUO_NEW_N(j->arena, double, j->grid->nseeds),
                                   .low = NAN,
                                   .high = NAN,
                                   .bound = is_bound(j, row->policy)};
    for (int32_t i = 0; sweep_case->goodput && i < j->grid->nseeds; i++)
        sweep_case->goodput[i] = NAN;
    answer->ncases++;
    return sweep_case->goodput ? sweep_case : NULL;
}

static void add_row(luo_sweep_case *sweep_case, const luo_sweep_row *row)
{
    if (row->state > sweep_case->state) sweep_case->state = row->state;
    if (!has_goodput(row)) return;
    sweep_case->goodput[row->seed] = row->goodput_tokens_per_s;
    sweep_case->n++;
    sweep_case->step_s += row->step_mean_s;
    sweep_case->mfu += row->mfu_ratio;
    sweep_case->lost += row->total_s > 0 ? row->lost_s / row->total_s : 0;
    sweep_case->memory += row->peak_memory_ratio;
    if (!isfinite(row->low_s)) return;
    sweep_case->low = row->goodput_tokens_per_s * row->step_mean_s / row->high_s;
    sweep_case->high = row->goodput_tokens_per_s * row->step_mean_s / row->low_s;
}

static void finish_case(luo_sweep_case *sweep_case, double *room, int32_t nseeds)
{
    int32_t n = 0;
    for (int32_t i = 0; i < nseeds; i++)
        if (isfinite(sweep_case->goodput[i])) room[n++] = sweep_case->goodput[i];
    sweep_case->mean = luo_interval_of_mean(room, n, LEVEL);
    sweep_case->step_s /= sweep_case->n; /* NAN without figures */
    sweep_case->mfu /= sweep_case->n;
    sweep_case->lost /= sweep_case->n;
    sweep_case->memory /= sweep_case->n;
    if (sweep_case->n != 1) sweep_case->low = sweep_case->high = NAN;
}

static luo_status list_cases(judge *j, luo_err *err)
{
    double *room = LUO_NEW_N(j->arena, double, j->grid->nseeds);
    if (!room) return luo_err_nomem(err);
    for (int64_t i = 0; i < j->rows->n; i++) {
        luo_sweep_case *sweep_case = case_of(j, &j->rows->at[i]);
        if (!sweep_case) return luo_err_nomem(err);
        add_row(sweep_case, &j->rows->at[i]);
        if (has_goodput(&j->rows->at[i])) continue;
        if (j->out->failed++ == 0) j->out->says = &j->rows->at[i];
    }
    j->out->nrows = j->rows->n;
    for (int64_t i = 0; i < j->out->ncases; i++) finish_case(&j->out->at[i], room, j->grid->nseeds);
    return LUO_OK;
}

static int by_goodput(const void *a, const void *b)
{
    const luo_sweep_case *x = a, *y = b;
    if ((x->n > 0) != (y->n > 0)) return x->n > 0 ? -1 : 1;
    if (x->n > 0 && x->mean.mean != y->mean.mean) return x->mean.mean > y->mean.mean ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

/* ---- the best ---- */

static bool competes(const judge *j, const luo_sweep_case *sweep_case)
{
    return !sweep_case->bound && sweep_case->n == j->grid->nseeds;
}

static luo_status find_lead(judge *j, luo_err *err)
{
    luo_sweep_answer *answer = j->out;
    double *room = LUO_NEW_N(j->arena, double, j->grid->nseeds);
    if (!room) return luo_err_nomem(err);
    for (int64_t i = 0; i < answer->ncases; i++) {
        if (!competes(j, &answer->at[i])) continue;
        if (!answer->best)
            answer->best = &answer->at[i];
        else if (answer->rivals++ == 0)
            answer->next = &answer->at[i];
    }
    if (!answer->next) return LUO_OK;
    for (int32_t i = 0; i < j->grid->nseeds; i++) {
        room[i] = answer->best->goodput[i] - answer->next->goodput[i];
        answer->lead.ahead += room[i] > 0;
        answer->lead.behind += room[i] < 0;
    }
    answer->lead.difference = luo_interval_of_mean(room, j->grid->nseeds, LEVEL);
    answer->lead.against = answer->next->mean.mean;
    return LUO_OK;
}

/* ---- which key matters ---- */

typedef struct group { /* rows with one value of a factor */
    double sum;
    int64_t n;
} group;

static bool counts(const judge *j, const luo_sweep_row *row)
{
    return row->goodput_tokens_per_s > 0 && !is_bound(j, row->policy);
}

/* Sum of squares between groups; *several: there are two or more. */
static double between(const group *groups, int64_t n, double mean, bool *several)
{
    double squares = 0;
    int64_t filled = 0;
    for (int64_t i = 0; i < n; i++) {
        if (groups[i].n == 0) continue;
        const double off = groups[i].sum / (double)groups[i].n - mean;
        squares += (double)groups[i].n * off * off;
        filled++;
    }
    *several = filled > 1;
    return squares;
}

/* Number of a policy among all labels. */
static int64_t number_of(luo_map *labels, const char *policy)
{
    int64_t *at = luo_map_at(labels, luo_hash_str(LUO_HASH_EMPTY, policy), -1);
    if (at && *at < 0) *at = (int64_t)labels->n - 1;
    return at ? *at : -1;
}

/* k < nkeys: key k; else the policy. */
static luo_status weigh(judge *j, int32_t k, double mean, double total, luo_err *err)
{
    const luo_sweep_grid *grid = j->grid;
    const bool of_key = k < grid->nkeys;
    const int64_t n = of_key ? grid->key[k].n : j->rows->n;
    const size_t mark = luo_arena_mark(j->arena);
    group *groups = LUO_NEW_N(j->arena, group, n);
    luo_map labels = {0};
    bool several = false;
    if (!groups) return luo_err_nomem(err);
    for (int64_t i = 0; i < j->rows->n; i++) {
        const luo_sweep_row *row = &j->rows->at[i];
        if (!counts(j, row)) continue;
        const int64_t at =
            of_key ? luo_sweep_pick(grid, row->cell, k) : number_of(&labels, row->policy);
        if (at < 0) return luo_err_nomem(err);
        groups[at].sum += log(row->goodput_tokens_per_s);
        groups[at].n++;
    }
    const double squares = between(groups, n, mean, &several);
    luo_map_free(&labels);
    luo_arena_reset(j->arena, mark);
    if (several)
        j->out->factor[j->out->nfactors++] =
            (luo_sweep_factor){of_key ? grid->key[k].name : "policy", squares / total};
    return LUO_OK;
}

/* The largest share first; of equal ones in the order of the keys. */
static void order_factors(luo_sweep_answer *answer)
{
    for (int32_t i = 1; i < answer->nfactors; i++)
        for (int32_t k = i; k > 0 && answer->factor[k].share > answer->factor[k - 1].share; k--) {
            const luo_sweep_factor low = answer->factor[k - 1];
            answer->factor[k - 1] = answer->factor[k];
            answer->factor[k] = low;
        }
}

/* Main effects. What is left are seeds, and what keys do together. */
static luo_status weigh_all(judge *j, luo_err *err)
{
    double sum = 0, total = 0;
    int64_t n = 0;
    for (int64_t i = 0; i < j->rows->n; i++) {
        if (!counts(j, &j->rows->at[i])) continue;
        sum += log(j->rows->at[i].goodput_tokens_per_s);
        n++;
    }
    const double mean = sum / (double)n;
    for (int64_t i = 0; i < j->rows->n; i++) {
        if (!counts(j, &j->rows->at[i])) continue;
        const double off = log(j->rows->at[i].goodput_tokens_per_s) - mean;
        total += off * off;
    }
    if (n < 2 || total <= 1e-12 * (double)n) return LUO_OK; /* nothing differs by a millionth */
    for (int32_t k = 0; k <= j->grid->nkeys; k++)
        if (k == j->grid->nkeys || j->grid->key[k].text) LUO_TRY(weigh(j, k, mean, total, err));
    order_factors(j->out);
    return LUO_OK;
}

luo_status luo_sweep_judge(luo_arena *arena, const luo_sweep_grid *grid, const luo_sweep_rows *rows,
                           const char *const *bounds, int32_t nbounds, luo_sweep_answer *out,
                           luo_err *err)
{
    judge j = {.arena = arena,
               .grid = grid,
               .rows = rows,
               .bounds = bounds,
               .nbounds = nbounds,
               .out = out};
    *out = (luo_sweep_answer){0};
    LUO_TRY(list_cases(&j, err));
    if (out->ncases > 0) qsort(out->at, (size_t)out->ncases, sizeof *out->at, by_goodput);
    LUO_TRY(find_lead(&j, err));
    return weigh_all(&j, err);
}
