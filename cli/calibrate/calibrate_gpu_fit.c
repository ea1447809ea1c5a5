/* calibrate_gpu_fit.c: measured rows and facts to the constants of a profile and a stack. */
#include <math.h>
#include <string.h>

#include "cli/calibrate/calibrate_gpu.h"

const char *luo_gpu_fact_text(const luo_measured *m, const char *key)
{
    const size_t n = strlen(key);
    for (int32_t i = 0; i < m->nfacts; i++)
        if (strncmp(m->facts[i].name, key, n) == 0 && m->facts[i].name[n] == ' ')
            return m->facts[i].name + n + 1;
    return "";
}

static luo_op_time *calibration_rows(const luo_measured *m, int32_t *n)
{
    luo_op_time *rows = LUO_NEW_N(m->arena, luo_op_time, m->nops);
    *n = 0;
    for (int32_t i = 0; rows && i < m->nops; i++)
        if (!m->ops[i].validation) rows[(*n)++] = m->ops[i].row;
    return rows;
}

static double fastest_stream(const luo_measured *m)
{
    double most = 0;
    for (int32_t i = 0; i < m->nops; i++) {
        const luo_op_time *t = &m->ops[i].row;
        if (!m->ops[i].validation && strcmp(t->op, "stream") == 0 && t->seconds > 0)
            most = fmax(most, (double)t->m / t->seconds);
    }
    return most;
}

/* Steps of networks: `step_gpu_s NAME`, `step_kernels NAME`, `step_s NAME`. */
static luo_host_row *host_rows(const luo_measured *m, int32_t *n)
{
    luo_host_row *rows = LUO_NEW_N(m->arena, luo_host_row, m->nfacts);
    *n = 0;
    for (int32_t i = 0; rows && i < m->nfacts; i++) {
        if (strncmp(m->facts[i].name, "step_s ", 7) != 0) continue;
        const char *name = m->facts[i].name + 7;
        const char *gpu = luo_arena_printf(m->arena, "step_gpu_s %s", name);
        const char *kernels = luo_arena_printf(m->arena, "step_kernels %s", name);
        if (!gpu || !kernels) return NULL;
        const luo_host_row r = {luo_measured_fact(m, gpu, 0), luo_measured_fact(m, kernels, 0),
                                m->facts[i].value};
        if (r.gpu_s > 0 && r.kernels > 0 && r.step_s > 0) rows[(*n)++] = r;
    }
    return rows;
}

/* Collectives of several nodes, measured on --cluster. */
static luo_status fit_net(luo_gpu_calibration *c, luo_err *err)
{
    const luo_measured *m = &c->rows;
    luo_net_row *rows = LUO_NEW_N(m->arena, luo_net_row, m->ncomm);
    int32_t n = 0;
    if (!rows) return luo_err_nomem(err);
    for (int32_t i = 0; i < m->ncomm; i++) {
        const struct luo_measured_comm *r = &m->comm[i];
        if (r->coll < 0 || r->nodes < 2 || r->validation) continue;
        if (!c->cluster)
            return luo_err_set(err, LUO_EINPUT,
                               "the tables have collectives of %d nodes, and how fast those reach "
                               "the fabric is not told; give --cluster.",
                               (int)r->nodes);
        const luo_node_group *g = &c->cluster->groups[0];
        const int32_t members = r->devices / r->nodes;
        const double rate = luo_cost_node_bytes_per_s(g);
        if (members < 1 || !(rate > 0)) continue;
        rows[n++] =
            (luo_net_row){r->coll, r->nodes, members,   (double)members / g->devices_per_node,
                          rate,    r->bytes, r->seconds, 0};
    }
    c->net_rows = n;
    if (n) c->net = luo_net_fit(rows, n);
    return LUO_OK;
}

/* Tables of communication alone: the constants are those of --profile. */
static void keep_known(luo_gpu_calibration *c)
{
    const luo_profile *p = c->known;
    const double value[] = {
        [LUO_GPU_LAUNCH] = 1e6 * p->launch_s,        [LUO_GPU_GEMM_RATIO] = p->gemm_ratio,
        [LUO_GPU_GEMM_DEPTH] = p->gemm_depth,        [LUO_GPU_MEMORY_RATIO] = p->memory_ratio,
        [LUO_GPU_ATTENTION_F] = p->attention_forward_ratio,
        [LUO_GPU_ATTENTION_B] = p->attention_backward_ratio};
    memcpy(c->fit.value, value, sizeof value);
    memcpy(c->fit.peak_flops, p->peak_flops, sizeof p->peak_flops);
}

luo_status luo_gpu_calibration_fit(luo_gpu_calibration *c, luo_err *err)
{
    int32_t n = 0;
    const double launch_us = luo_measured_fact(&c->rows, "launch_us", -1);
    luo_gpu_base base = {.sm_count = luo_measured_fact(&c->rows, "sm_count", 0),
                         .launch_s = launch_us < 0 ? -1 : 1e-6 * launch_us};
    if (c->known) {
        memcpy(base.peak_flops, c->known->peak_flops, sizeof base.peak_flops);
        base.memory_bytes_per_s = c->known->memory_bytes_per_s;
        if (!(base.sm_count > 0)) base.sm_count = c->known->sm_count;
    }
    const luo_op_time *rows = calibration_rows(&c->rows, &n);
    const luo_host_row *steps = host_rows(&c->rows, &c->host_rows);
    if (!rows || !steps) return luo_err_nomem(err);
    if (c->rows.nops == 0 && c->known) keep_known(c);
    else LUO_TRY(luo_gpu_fit_rows(&(luo_gpu_rows){rows, n}, &base, c->seed, &c->fit, err));
    c->memory_measured = !(base.memory_bytes_per_s > 0);
    c->memory_bytes_per_s = c->memory_measured ? fastest_stream(&c->rows) : base.memory_bytes_per_s;
    LUO_TRY(fit_net(c, err));
    if (c->host_rows > 0)
        c->host_error = luo_host_fit(steps, c->host_rows, c->seed, &c->host_launch_us,
                                     &c->host_exponent, c->host_weak);
    return LUO_OK;
}
