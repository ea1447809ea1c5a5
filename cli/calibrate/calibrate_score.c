/* calibrate_score.c: measured rows predicted by the profile that was made of them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/calibrate/calibrate.h"
#include "core/base/vec.h"
#include "core/cost/cost.h"
#include "core/io/files.h"
#include "core/io/io.h"
#include "core/io/read/input_tables.h"
#include "core/io/read/read.h"
#include "core/io/result/columns.h"
#include "core/io/result/table.h"

typedef struct scorer {
    const luo_calibration *c;
    const luo_cluster *cluster;
    luo_cost_ctx cost;
    luo_calibration_tally tally;
} scorer;

static void put(scorer *s, int kind, bool validation, const char *name, double measured,
                double predicted, const char *table, int32_t of)
{
    char source[64];
    snprintf(source, sizeof source, "%s-%d.csv", table, of);
    luo_calibration_tally_add(&s->tally, kind, validation, name, measured, predicted, source);
}

static luo_status score_ops(scorer *s, luo_err *err)
{
    const luo_measured *measured = &s->c->rows;
    const luo_profile *profile = s->cluster->groups[0].profile;
    char name[128];
    for (int32_t i = 0; i < measured->nops; i++) {
        const luo_op_time *time = &measured->ops[i].row;
        double predicted = 0;
        bool known;
        LUO_TRY(luo_cpu_seconds(profile, time->dtype, time->op,
                                (luo_cpu_size){time->m, time->n, time->k}, &predicted, &known,
                                err));
        snprintf(name, sizeof name, "%s %s %lldx%lldx%lld beside %d", time->op,
                 luo_dtype_name(time->dtype), (long long)time->m, (long long)time->n,
                 (long long)time->k, s->c->ops_of - 1);
        put(s, LUO_CAL_OPS, measured->ops[i].validation, name, time->seconds, predicted, "op_times",
            s->c->ops_of);
    }
    return LUO_OK;
}

static double predict_comm(const scorer *s, const struct luo_measured_comm *comm)
{
    int32_t dev[64];
    for (int32_t d = 0; d < comm->devices && d < 64; d++) dev[d] = d;
    const int64_t bytes = (int64_t)comm->bytes;
    if (comm->coll < 0) return luo_cost_p2p_seconds(&s->cost, 0, 1, bytes, 0);
    return luo_cost_group_seconds(&s->cost, comm->coll, dev, comm->devices, bytes, 0);
}

static void score_comm(scorer *s)
{
    const luo_measured *measured = &s->c->rows;
    char name[128];
    for (int32_t i = 0; s->c->ranks > 1 && i < measured->ncomm; i++) {
        const struct luo_measured_comm *comm = &measured->comm[i];
        if (comm->devices > s->c->ranks) continue;
        snprintf(name, sizeof name, "%s of %d %.0f bytes%s",
                 comm->coll < 0 ? "message" : luo_coll_name((luo_coll)comm->coll), comm->devices,
                 comm->bytes, comm->validation ? " less often" : "");
        put(s, LUO_CAL_COMM, comm->validation, name, comm->seconds, predict_comm(s, comm),
            comm->coll < 0 ? "p2p_times" : "collective_times", s->c->ranks);
    }
}

luo_status luo_calibration_score(luo_cli *cli, const luo_calibration *calibration, luo_str *text,
                                 luo_calibration_errors errors[LUO_CAL_KINDS][2])
{
    scorer s = {.c = calibration};
    luo_err err = {0};
    luo_stack stack;
    luo_cluster *cluster;
    const char *path =
        luo_arena_printf(cli->arena, "%s/cluster-%d.yaml", calibration->dir, calibration->ranks);
    if (!path) return luo_cli_error(cli, LUO_ENOMEM, "%s.", luo_status_text(LUO_ENOMEM));
    LUO_TRY(luo_read_cluster(cli->arena, path, &cluster, &cli->diags));
    luo_stack_default(&stack);
    s.cluster = cluster;
    s.cost = (luo_cost_ctx){.cluster = cluster, .stack = &stack, .dtype = LUO_F32};
    LUO_TRY(luo_calibration_tally_open(cli, text, calibration->rows.nops + calibration->rows.ncomm,
                                       &s.tally));
    luo_status st = score_ops(&s, &err);
    if (st == LUO_OK) score_comm(&s);
    if (st != LUO_OK) return luo_cli_fail(cli, st, &err);
    luo_calibration_tally_close(&s.tally, errors);
    return LUO_OK;
}

/* ---- errors ---- */

static luo_calibration_errors summary(double *v, int32_t n)
{
    luo_calibration_errors errors = {.n = n};
    if (n == 0) return errors;
    qsort(v, (size_t)n, sizeof *v, luo_vec_by_double);
    for (int32_t i = 0; i < n; i++) errors.mean += v[i] / n;
    errors.median = n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
    errors.largest = v[n - 1];
    return errors;
}

luo_status luo_calibration_tally_open(luo_cli *cli, luo_str *text, int32_t rows,
                                      luo_calibration_tally *out)
{
    *out = (luo_calibration_tally){.text = text};
    for (int k = 0; k < LUO_CAL_KINDS; k++)
        for (int v = 0; v < 2; v++) {
            out->errors[k][v] = LUO_NEW_N(cli->arena, double, rows);
            if (!out->errors[k][v])
                return luo_cli_error(cli, LUO_ENOMEM, "%s.", luo_status_text(LUO_ENOMEM));
        }
    return LUO_OK;
}

void luo_calibration_tally_add(luo_calibration_tally *tally, int kind, bool validation,
                               const char *name, double measured, double predicted,
                               const char *source)
{
    if (!(measured > 0)) return;
    luo_calibration_row(tally->text, name, validation ? "validation" : "calibration", measured,
                        predicted, true, source);
    tally->errors[kind][validation][tally->n[kind][validation]++] = fabs(predicted / measured - 1);
}

void luo_calibration_tally_close(luo_calibration_tally *tally,
                                 luo_calibration_errors errors[LUO_CAL_KINDS][2])
{
    for (int k = 0; k < LUO_CAL_KINDS; k++)
        for (int v = 0; v < 2; v++) errors[k][v] = summary(tally->errors[k][v], tally->n[k][v]);
}

/* ---- calibrate.csv ---- */

void luo_calibration_row(luo_str *text, const char *name, const char *role, double measured,
                         double predicted, bool us, const char *source)
{
    const double scale = us ? 1e6 : 1;
    const int decimals = us ? 4 : 9;
    luo_table_put_text(text, name);
    luo_str_addf(text, ",%s,%.*f,%.*f,%s,%.6f,", role, decimals, scale * measured, decimals,
                 scale * predicted, us ? "us" : "s", predicted / measured - 1);
    luo_table_put_text(text, source);
    luo_str_addc(text, '\n');
}

luo_status luo_calibration_csv(luo_cli *cli, const char *dir, const luo_str *rows,
                               const char **path, luo_err *err)
{
    const luo_table_def *def = luo_table_def_at(LUO_TABLE_CALIBRATE);
    luo_str text = {0};
    *path = luo_arena_printf(cli->arena, "%s/%s", dir, def->file);
    luo_table_def_header(&text, def);
    luo_str_addn(&text, luo_str_get(rows), rows->len);
    const luo_status st = !*path || text.failed || rows->failed
                              ? luo_err_nomem(err)
                              : luo_file_write_own(*path, text.at, text.len, err);
    luo_str_free(&text);
    return st;
}

/* ---- in words ---- */

static void print_errors(luo_cli *cli, const char *what, const luo_calibration_errors errors[2])
{
    for (int v = 0; v < 2; v++)
        if (errors[v].n > 0)
            fprintf(luo_cli_out(cli),
                    "  %-14s %-11s %4d rows, error mean %5.1f %%, median %5.1f %%, most "
                    "%5.1f %%\n",
                    what, luo_row_role_name((luo_row_role)v), errors[v].n, 100 * errors[v].mean,
                    100 * errors[v].median, 100 * errors[v].largest);
}

static void json_errors(luo_cli *cli, const char *what, const luo_calibration_errors errors[2])
{
    for (int v = 0; v < 2; v++) {
        if (errors[v].n == 0) continue;
        luo_jsonw_open(&cli->json, NULL, '{');
        luo_jsonw_text(&cli->json, "of", what);
        luo_jsonw_text(&cli->json, "role", luo_row_role_name((luo_row_role)v));
        luo_jsonw_int(&cli->json, "rows", errors[v].n);
        luo_jsonw_num(&cli->json, "mean_error", errors[v].mean, 6);
        luo_jsonw_num(&cli->json, "median_error", errors[v].median, 6);
        luo_jsonw_num(&cli->json, "largest_error", errors[v].largest, 6);
        luo_jsonw_close(&cli->json);
    }
}

void luo_calibration_print(luo_cli *cli, int32_t ranks, double slowdown,
                           luo_calibration_errors errors[LUO_CAL_KINDS][2])
{
    print_errors(cli, "operations", errors[LUO_CAL_OPS]);
    print_errors(cli, "communication", errors[LUO_CAL_COMM]);
    luo_jsonw_open(&cli->json, NULL, '{');
    luo_jsonw_int(&cli->json, "ranks", ranks);
    luo_jsonw_num(&cli->json, "slowdown", slowdown, 6);
    luo_jsonw_open(&cli->json, "errors_by_kind", '[');
    json_errors(cli, "operations", errors[LUO_CAL_OPS]);
    json_errors(cli, "communication", errors[LUO_CAL_COMM]);
    luo_jsonw_close(&cli->json);
    luo_jsonw_close(&cli->json);
}
