/* calibrate_gpu_score.c: measured rows predicted by what was made of them. */
#include <stdio.h>
#include <string.h>

#include "cli/calibrate/calibrate_gpu.h"
#include "core/cost/cost.h"
#include "core/io/read/read.h"

typedef struct scorer {
    const luo_gpu_calibration *c;
    luo_profile formulas; /* the profile without its table of operations */
    luo_cost_ctx cost;
    luo_calibration_tally tally;
} scorer;

static luo_status predict_op(const scorer *s, const luo_op_time *time, double *out, luo_err *err)
{
    const luo_profile *profile = &s->formulas;
    const luo_gemm gemm = {time->m, time->n, time->k, 1, luo_dtype_bytes(time->dtype), false};
    const luo_attention attention = {
        .heads = time->n, .head_dim = time->k, .sequences = 1, .tokens = time->m, .causal = true};
    *out = 0; /* rows of other operations: nothing is predicted of them */
    if (strcmp(time->op, "gemm") == 0) return luo_cost_gemm(profile, time->dtype, &gemm, out, err);
    if (strcmp(time->op, "stream") == 0) return luo_cost_stream(profile, (double)time->m, out, err);
    const bool backward = strcmp(time->op, "attention_backward") == 0;
    if (backward || strcmp(time->op, "attention_forward") == 0)
        return luo_cost_attention(profile, time->dtype, &attention, backward, out, err);
    return LUO_OK;
}

static luo_status score_ops(scorer *s, luo_err *err)
{
    const luo_measured *measured = &s->c->rows;
    char name[128];
    for (int32_t i = 0; i < measured->nops; i++) {
        const luo_op_time *time = &measured->ops[i].row;
        double predicted;
        LUO_TRY(predict_op(s, time, &predicted, err));
        snprintf(name, sizeof name, "%s %s %lldx%lldx%lld", time->op, luo_dtype_name(time->dtype),
                 (long long)time->m, (long long)time->n, (long long)time->k);
        if (predicted > 0)
            luo_calibration_tally_add(&s->tally, LUO_CAL_OPS, measured->ops[i].validation, name,
                                      time->seconds, predicted, "op_times");
    }
    return LUO_OK;
}

static void score_comm(scorer *s)
{
    const luo_measured *measured = &s->c->rows;
    int32_t dev[64];
    char name[128];
    for (int32_t d = 0; d < 64; d++) dev[d] = d;
    for (int32_t i = 0; i < measured->ncomm; i++) {
        const struct luo_measured_comm *comm = &measured->comm[i];
        const bool message = comm->coll < 0;
        if (comm->nodes > 1 || comm->devices > s->c->ranks || comm->devices > 64) continue;
        const double predicted =
            message ? luo_cost_p2p_seconds(&s->cost, 0, 1, (int64_t)comm->bytes, 0)
                    : luo_cost_group_seconds(&s->cost, comm->coll, dev, comm->devices,
                                             (int64_t)comm->bytes, 0);
        snprintf(name, sizeof name, "%s of %d %.0f bytes",
                 message ? "message" : luo_coll_name((luo_coll)comm->coll), comm->devices,
                 comm->bytes);
        luo_calibration_tally_add(&s->tally, LUO_CAL_COMM, comm->validation, name, comm->seconds,
                                  predicted, message ? "p2p_times" : "collective_times");
    }
}

static luo_status open_scorer(luo_cli *cli, scorer *s, luo_str *text, luo_cluster **cluster)
{
    const char *path = luo_arena_printf(cli->arena, "%s/cluster.yaml", s->c->dir);
    if (!path) return luo_cli_error(cli, LUO_ENOMEM, "%s.", luo_status_text(LUO_ENOMEM));
    LUO_TRY(luo_read_cluster(cli->arena, path, cluster, &cli->diags));
    s->formulas = *(*cluster)->groups[0].profile;
    s->formulas.nop_times = 0;
    return luo_calibration_tally_open(cli, text, s->c->rows.nops + s->c->rows.ncomm, &s->tally);
}

luo_status luo_gpu_calibration_score(luo_cli *cli, const luo_gpu_calibration *calibration,
                                     luo_str *text, luo_calibration_errors errors[LUO_CAL_KINDS][2])
{
    scorer s = {.c = calibration};
    luo_err err = {0};
    luo_stack stack;
    luo_cluster *cluster;
    LUO_TRY(open_scorer(cli, &s, text, &cluster));
    luo_stack_default(&stack);
    s.cost = (luo_cost_ctx){.cluster = cluster, .stack = &stack, .dtype = LUO_BF16};
    luo_status st = score_ops(&s, &err);
    if (st == LUO_OK && calibration->ranks > 1) score_comm(&s);
    if (st != LUO_OK) return luo_cli_fail(cli, st, &err);
    luo_calibration_tally_close(&s.tally, errors);
    return LUO_OK;
}
