/* Two runs step by step. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/vec.h"
#include "core/io/compare/compare_internal.h"
#include "core/io/result/repeats.h"

typedef struct steps { /* step_s by step; NAN: did not stay */
    double *at;
    int64_t n, cap;
} steps;

/* A later row of a step is a later attempt: the last one stayed, unless the run went back before
 * it and never came there again, which ends the run. */
static luo_status read_steps(luo_arena *arena, const luo_result *result, steps *out,
                             luo_diags *diags)
{
    luo_csv_cell cells[LUO_CSV_COLUMNS];
    luo_repeats *rows = luo_repeats_open(arena, result->dir, LUO_TABLE_STEPS, diags);
    bool ok = true;
    while (ok && rows && luo_repeats_next(rows, cells)) {
        const int64_t k = cells[LUO_COL_STEPS_step].whole;
        if (k < 0 || k > INT32_MAX) continue;
        if (k >= out->cap) {
            const int64_t cap = k < 512 ? 1024 : 2 * k;
            double *grown = realloc(out->at, (size_t)cap * sizeof *grown);
            ok = grown != NULL;
            if (!ok) break;
            out->at = grown;
            out->cap = cap;
        }
        for (; out->n <= k; out->n++) out->at[out->n] = NAN;
        out->at[k] = cells[LUO_COL_STEPS_step_s].number;
    }
    if (out->n > result->steps_done) out->n = result->steps_done;
    const luo_status st = luo_repeats_close(rows);
    return ok ? st : LUO_ENOMEM;
}

static luo_status write_steps(luo_arena *arena, const char *out, const steps *a, const steps *b,
                              const char *suffix, luo_pair_errors *pair_errors, luo_err *err)
{
    const int64_t n = a->n < b->n ? a->n : b->n;
    double *errors = malloc((size_t)n * sizeof *errors + 1);
    luo_table table = {0};
    int64_t k = 0;
    if (!errors) return luo_err_nomem(err);
    luo_status st = luo_compare_open(arena, &table, out, LUO_TABLE_COMPARE_STEPS, suffix, err);
    for (int64_t i = 0; st == LUO_OK && i < n; i++) {
        if (!isfinite(a->at[i]) || !isfinite(b->at[i])) continue;
        const double error = a->at[i] > 0 ? b->at[i] / a->at[i] - 1 : NAN;
        luo_table_int(&table, LUO_COL_COMPARE_STEPS_step, i);
        luo_table_num(&table, LUO_COL_COMPARE_STEPS_reference_s, a->at[i]);
        luo_table_num(&table, LUO_COL_COMPARE_STEPS_other_s, b->at[i]);
        luo_table_num(&table, LUO_COL_COMPARE_STEPS_error_ratio, error);
        if (isfinite(error)) errors[k++] = fabs(error);
        st = luo_table_end(&table, err);
    }
    const luo_status closed = luo_table_close(&table, st == LUO_OK ? err : NULL);
    if (k > 0) qsort(errors, (size_t)k, sizeof *errors, luo_vec_by_double);
    *pair_errors =
        (luo_pair_errors){k, k ? luo_stats_quantile(errors, k, 0.5) : NAN, k ? errors[k - 1] : NAN};
    free(errors);
    return st == LUO_OK ? closed : st;
}

luo_status luo_compare_steps(luo_arena *arena, const char *out, const luo_result *reference,
                             const luo_result *other, const char *suffix, luo_pair_errors *errors,
                             luo_diags *diags)
{
    const luo_result *const run[] = {reference, other};
    steps s[2] = {{0}};
    luo_err err = {0};
    luo_status st = LUO_OK;
    for (int k = 0; st == LUO_OK && k < 2; k++) st = read_steps(arena, run[k], &s[k], diags);
    if (st == LUO_OK) {
        st = write_steps(arena, out, &s[0], &s[1], suffix, errors, &err);
        if (st != LUO_OK) luo_diags_err(diags, &err);
    }
    free(s[0].at);
    free(s[1].at);
    return st;
}
