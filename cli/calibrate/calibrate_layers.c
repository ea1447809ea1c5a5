/* calibrate_layers.c: `luoshu calibrate --from LAYER_TIMES --profile P --model F`. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/calibrate/calibrate.h"
#include "cli/calibrate/calibrate_suite.h"
#include "cli/load.h"
#include "core/io/builtin.h"
#include "core/io/files.h"
#include "core/io/read/input_tables.h"
#include "core/io/read/read.h"
#include "core/io/read/suite.h"
#include "core/plan/suite/layer_fit.h"

typedef struct job {
    luo_cli *cli;
    const char *dir, *from, *base; /* base: --profile */
    luo_profile *profile;
    luo_model *model;
    luo_stack stack;
    luo_layer_times times;
    luo_layer_row *rows;
    int32_t n;
    luo_layer_fitted fitted;
} job;

bool luo_calibrate_layers_is(luo_cli *cli, const char *path)
{
    luo_source src;
    luo_err err;
    if (luo_source_read(cli->arena, path, &src, &err) != LUO_OK) return false; /* told later */
    return luo_input_table_of(&src) && strcmp(luo_input_table_of(&src)->name, "layer_times") == 0;
}

static luo_status open_job(job *j)
{
    j->base = luo_args_get(&j->cli->args, "profile", NULL);
    if (!j->base || !luo_args_get(&j->cli->args, "model", NULL))
        return luo_cli_error(j->cli, LUO_EUSAGE,
                             "times of layers do not say which GPU and network "
                             "they are of; give --profile and --model.");
    LUO_TRY(luo_read_profile(j->cli->arena, j->base, &j->profile, &j->cli->diags));
    LUO_TRY(luo_cli_model(j->cli, &j->model));
    LUO_TRY(luo_cli_stack(j->cli, &j->stack));
    return luo_read_layer_times(j->cli->arena, j->from, &j->times, &j->cli->diags);
}

/* The profile's text with the two constants and a name of its own. */
static luo_status write_profile(job *j, luo_err *err)
{
    char builtin[LUO_ERR_PATH];
    luo_source src;
    const luo_layer_fitted *fitted = &j->fitted;
    const double value[2] = {fitted->gemm_ratio, fitted->memory_ratio};
    static const char *const key[2] = {"gemm_ratio", "memory_ratio"};
    const char *path = j->base;
    if (luo_builtin_path(LUO_BUILTIN_PROFILES, path, builtin, sizeof builtin)) path = builtin;
    LUO_TRY(luo_files_get(NULL, j->cli->arena, path, &src, err));
    const char *text = src.text;
    for (int i = 0; i < 2 && text; i++) {
        const char *source = luo_arena_printf(
            j->cli->arena,
            "pattern search of `luoshu calibrate --from` on %d calibration rows of "
            "times of layers of %s%s",
            (int)(j->n - j->n / 4), j->model->name, fitted->weak[i] ? "; weakly determined" : "");
        const luo_calibrated_value found = {key[i], value[i], 0, source, LUO_FROM_FITTED};
        text = source ? luo_calibrate_text_with(j->cli->arena, text, &found) : NULL;
    }
    if (!text) return luo_err_nomem(err);
    return luo_calibrate_member_write(j->cli, j->dir, &src, text, j->profile->name, false, err);
}

static luo_status score(job *j, luo_str *csv, double mean[2], luo_err *err)
{
    double sum[2] = {0};
    int32_t n[2] = {0};
    for (int32_t i = 0; i < j->n; i++) {
        const luo_layer_row *row = &j->rows[i];
        const double measured = row->forward_s + row->backward_s;
        const int role = i % 4 == 3;
        double f, b;
        LUO_TRY(luo_layer_predict(j->profile, &j->stack, j->model, row->sequences, &f, &b, err));
        char name[64];
        snprintf(name, sizeof name, "layer of %d sequences", (int)row->sequences);
        luo_calibration_row(csv, name, luo_row_role_name((luo_row_role)role), measured, f + b,
                            false, j->from);
        sum[role] += fabs((f + b) / measured - 1);
        n[role]++;
    }
    for (int k = 0; k < 2; k++) mean[k] = n[k] ? sum[k] / n[k] : 0;
    return LUO_OK;
}

static luo_status run(job *j, luo_err *err)
{
    int64_t seed;
    double mean[2];
    luo_str csv = {0};
    FILE *out = luo_cli_out(j->cli);
    LUO_TRY(luo_args_int(&j->cli->args, "seed", 0, 0, INT64_MAX, &seed, err));
    LUO_TRY(luo_layer_rows(j->cli->arena, &j->times, j->model->name, j->profile->name, &j->rows,
                           &j->n, err));
    LUO_TRY(luo_layer_fit(j->profile, &j->stack, j->model, j->rows, j->n, (uint64_t)seed,
                          &j->fitted, err));
    luo_status st = score(j, &csv, mean, err);
    const char *path;
    if (st == LUO_OK) st = write_profile(j, err);
    if (st == LUO_OK) st = luo_calibration_csv(j->cli, j->dir, &csv, &path, err);
    luo_str_free(&csv);
    if (st != LUO_OK) return st;
    fprintf(out, "%s\n%s, %s: mean |error| %.1f %% on %d calibration rows", path, j->profile->name,
            j->model->name, 100 * mean[0], (int)(j->n - j->n / 4));
    if (j->n / 4)
        fprintf(out, ", %.1f %% on %d that were not fitted", 100 * mean[1], (int)(j->n / 4));
    fprintf(out, "\n  gemm_ratio   %8.4g%s\n  memory_ratio %8.4g%s\n", j->fitted.gemm_ratio,
            j->fitted.weak[0] ? "  weakly determined" : "", j->fitted.memory_ratio,
            j->fitted.weak[1] ? "  weakly determined" : "");
    return LUO_OK;
}

luo_status luo_calibrate_layers(luo_cli *cli, const char *dir, const char *from)
{
    luo_err err = {0};
    job j = {.cli = cli, .dir = dir, .from = from};
    LUO_TRY(open_job(&j));
    const luo_status st = run(&j, &err);
    return err.text[0] ? luo_cli_fail(cli, st, &err) : st;
}
