/* answer_text.c: the answer of a sweep in sentences, and the table of its first cases. */
#include <math.h>
#include <string.h>

#include "core/io/result/result.h"
#include "core/io/sweep/sweep.h"

enum { SHOWN = 20, OWN = 8 }; /* cases of the table; its columns beside the keys */

const char *luo_sweep_name(luo_arena *arena, const luo_sweep_grid *grid,
                           const luo_sweep_case *sweep_case)
{
    const char *name = "";
    for (int32_t k = 0; name && k < grid->nkeys; k++) {
        const char *value =
            luo_sweep_value(arena, &grid->key[k], luo_sweep_pick(grid, sweep_case->cell, k));
        name = value ? luo_arena_printf(arena, "%s%s%s=%s", name, *name ? ", " : "",
                                        grid->key[k].name, value)
                     : NULL;
    }
    if (!name || !*sweep_case->policy) return name;
    return *name ? luo_arena_printf(arena, "%s, %s", name, sweep_case->policy) : sweep_case->policy;
}

static void say_rate(luo_str *text, double tokens_per_s)
{
    luo_table_print_fixed(text, tokens_per_s, 0);
}

/* ---- sentences ---- */

luo_status luo_sweep_ask(const luo_sweep_grid *grid, const char *condition, luo_str *text,
                         luo_err *err)
{
    luo_str_add(text, condition ? "What is the smallest value of" : "Which value");
    if (!condition) luo_str_add(text, grid->nkeys > 1 ? "s of" : " of");
    for (int32_t k = 0; k < grid->nkeys; k++)
        luo_str_addf(text, "%s `%s`", k > 0 ? "," : "", grid->key[k].name);
    if (condition)
        luo_str_addf(text, " for which `%s` holds?", condition);
    else
        luo_str_add(text, grid->nkeys > 1 ? " give the largest goodput?"
                                          : " gives the largest goodput?");
    return text->failed ? luo_err_nomem(err) : LUO_OK;
}

static void say_best(luo_str *text, const char *name, const luo_sweep_case *sweep_case)
{
    luo_str_addf(text, "best: %s: ", name);
    say_rate(text, sweep_case->mean.mean);
    luo_str_add(text, " tokens/s");
    if (sweep_case->n > 1) {
        luo_str_addf(text, " in the mean of %d seeds, 95 %% interval ", (int)sweep_case->n);
        say_rate(text, sweep_case->mean.low);
        luo_str_add(text, " to ");
        say_rate(text, sweep_case->mean.high);
    }
    luo_str_addf(text, "; a step takes %.4g s", sweep_case->step_s);
    if (isfinite(sweep_case->mfu)) luo_str_addf(text, ", MFU %.1f %%", 100 * sweep_case->mfu);
    luo_str_add(text, ".\n");
}

/* With one seed: by the ranges of the steps. */
static void say_ranges(luo_str *text, const luo_sweep_case *best, const luo_sweep_case *next,
                       const char *name)
{
    const double gain = best->mean.mean / next->mean.mean - 1;
    if (fabs(gain) <= 1e-9) {
        luo_str_addf(text, "The next, %s, comes out equal (one seed).\n", name);
        return;
    }
    luo_str_addf(text, "That is %.3g %% more than the next, %s; ", 100 * gain, name);
    if (!isfinite(best->low) || !isfinite(next->high))
        luo_str_add(text, "how sure it is takes several seeds.\n");
    else if (best->low > next->high)
        luo_str_add(text, "their ranges lie apart (one seed).\n");
    else
        luo_str_add(text, "their ranges overlap, so it is not sure (one seed).\n");
}

static luo_status say_lead(luo_arena *arena, const luo_sweep_grid *grid,
                           const luo_sweep_answer *answer, luo_str *text, luo_err *err)
{
    const char *best = luo_sweep_name(arena, grid, answer->best);
    const char *next = answer->next ? luo_sweep_name(arena, grid, answer->next) : "";
    if (!best || !next) return luo_err_nomem(err);
    say_best(text, best, answer->best);
    if (answer->next && grid->nseeds == 1) say_ranges(text, answer->best, answer->next, next);
    if (!answer->next || grid->nseeds == 1) return LUO_OK;
    const char *says = luo_compare_lead(arena, best, next, &answer->lead, answer->rivals);
    if (!says) return luo_err_nomem(err);
    luo_str_addf(text, "%s\n", says);
    return LUO_OK;
}

static void say_factors(luo_str *text, const luo_sweep_answer *answer)
{
    double rest = 1;
    if (answer->nfactors == 0 && answer->rivals > 0) luo_str_add(text, "No key changes goodput.\n");
    if (answer->nfactors == 0) return;
    luo_str_addf(text,
                 "Goodput depends most on `%s`: it explains %.0f %% of the variance of the "
                 "logarithm",
                 answer->factor[0].name, 100 * answer->factor[0].share);
    for (int32_t i = 0; i < answer->nfactors; i++) {
        rest -= answer->factor[i].share;
        if (i > 0 && answer->factor[i].share >= 0.005)
            luo_str_addf(text, ", `%s` %.0f %%", answer->factor[i].name,
                         100 * answer->factor[i].share);
    }
    if (rest >= 0.005)
        luo_str_addf(text, "; the other %.0f %% are seeds and what keys do together", 100 * rest);
    luo_str_add(text, ".\n");
}

/* ---- the table ---- */

typedef struct grid_text { /* rows[r * columns + c] */
    int32_t nrows, columns;
    const char **cell;
} grid_text;

static const char *num(luo_arena *arena, double v, int decimals)
{
    luo_str text = {0};
    if (isfinite(v)) luo_table_print_fixed(&text, v, decimals);
    const char *out = luo_arena_strdup(arena, text.len ? text.at : "-");
    luo_str_free(&text);
    return out;
}

static bool fill_row(luo_arena *arena, const luo_sweep_grid *grid, const luo_sweep_case *sweep_case,
                     const char **out)
{
    const double half = (sweep_case->mean.high - sweep_case->mean.low) / 2;
    for (int32_t k = 0; k < grid->nkeys; k++) {
        const char *value =
            luo_sweep_value(arena, &grid->key[k], luo_sweep_pick(grid, sweep_case->cell, k));
        if (!value || !(*out++ = luo_result_shown(arena, value))) return false;
    }
    const char *own[OWN] = {*sweep_case->policy ? luo_result_shown(arena, sweep_case->policy) : "-",
                            num(arena, sweep_case->n > 0 ? sweep_case->mean.mean : NAN, 0),
                            num(arena, half, 0),
                            sweep_case->n > 0 ? luo_arena_printf(arena, "%.4g", sweep_case->step_s)
                                              : "-",
                            num(arena, 100 * sweep_case->mfu, 1),
                            num(arena, 100 * sweep_case->lost, 1),
                            num(arena, 100 * sweep_case->memory, 1),
                            luo_run_state_name(sweep_case->state)};
    for (int i = 0; i < OWN; i++)
        if (!(*out++ = own[i])) return false;
    return true;
}

/* To the right, but the last column; no blanks at the end. */
static void put_table(luo_str *text, const grid_text *t, const int *width)
{
    for (int32_t r = 0; r < t->nrows; r++) {
        const char *const *cell = &t->cell[r * t->columns];
        int32_t last = t->columns - 1;
        while (last > 0 && !*cell[last]) last--;
        for (int32_t c = 0; c <= last; c++)
            luo_str_addf(text, "%s%*s", c ? "  " : "", c == t->columns - 1 ? 0 : width[c], cell[c]);
        luo_str_addc(text, '\n');
    }
}

luo_status luo_sweep_say_cases(luo_arena *arena, const luo_sweep_grid *grid,
                               const luo_sweep_answer *answer, luo_str *text, luo_err *err)
{
    static const char *const titles[OWN] = {"policy", "goodput", "95 %",   "step",
                                            "MFU",    "lost",    "memory", "state"};
    static const char *const units[OWN] = {"", "tok/s", "+-", "s", "%", "%", "%", ""};
    const int32_t shown = answer->ncases < SHOWN ? (int32_t)answer->ncases : SHOWN;
    grid_text t = {.nrows = shown + 2, .columns = grid->nkeys + OWN};
    int width[LUO_SWEEP_KEYS + OWN] = {0};
    t.cell = LUO_NEW_N(arena, const char *, (int64_t)t.nrows *t.columns);
    if (!t.cell) return luo_err_nomem(err);
    for (int32_t c = 0; c < t.columns; c++) {
        const int own = c - grid->nkeys;
        t.cell[c] = own < 0 ? luo_result_shown(arena, grid->key[c].name) : titles[own];
        t.cell[t.columns + c] = own < 0 ? "" : units[own];
    }
    for (int32_t r = 0; r < shown; r++)
        if (!fill_row(arena, grid, &answer->at[r], &t.cell[(r + 2) * t.columns]))
            return luo_err_nomem(err);
    for (int32_t r = 0; r < t.nrows; r++)
        for (int32_t c = 0; c < t.columns; c++) {
            const int n = (int)strlen(t.cell[r * t.columns + c]);
            if (n > width[c]) width[c] = n;
        }
    put_table(text, &t, width);
    if (answer->ncases > shown)
        luo_str_addf(text, ".. and %lld more in sweep.csv\n", (long long)(answer->ncases - shown));
    return text->failed ? luo_err_nomem(err) : LUO_OK;
}

luo_status luo_sweep_say(luo_arena *arena, const luo_sweep_grid *grid,
                         const luo_sweep_answer *answer, luo_str *text, luo_err *err)
{
    if (answer->best) LUO_TRY(say_lead(arena, grid, answer, text, err));
    say_factors(text, answer);
    if (answer->failed)
        luo_str_addf(text, "%lld of %lld runs have no figures; the first, cell %lld, says: %s\n",
                     (long long)answer->failed, (long long)answer->nrows,
                     (long long)answer->says->cell, luo_result_shown(arena, answer->says->error));
    return text->failed ? luo_err_nomem(err) : LUO_OK;
}
