/* Seconds of all instructions of a role, with the host's floor per layer (accuracy.md 4.5). */
#include <math.h>

#include "core/cost/cpu.h"

typedef struct part { /* instructions of one layer of one segment, recompute apart */
    double compute, comm;
    int32_t kernels;
} part;

/* Parts of a segment: [2*(layer + 1) + recompute]. */
static part *part_of(part *parts, const luo_instr *in)
{
    return &parts[2 * (in->layer + 1) + in->recompute];
}

static bool computes(const luo_instr *in)
{
    return in->kind == LUO_INSTR_COMPUTE || in->kind == LUO_INSTR_LOCAL;
}

static void sum_parts(const luo_cost_ctx *ctx, const luo_role *role, const luo_segment *seg,
                      const double *comm, const double *seconds, part *parts)
{
    for (int32_t i = seg->first; i < seg->first + seg->n; i++) {
        const luo_instr *in = &role->instr[i];
        part *p = part_of(parts, in);
        if (computes(in) && seconds[i] > 0) {
            p->compute += seconds[i];
            p->kernels += luo_cost_kernels(ctx->stack, &in->cost);
        } else if (in->kind == LUO_INSTR_COLLECTIVE && in->stream == LUO_STREAM_TP && comm) {
            p->comm += comm[i] * ctx->stack->tp_exposed_factor;
        }
    }
}

static void stretch(const luo_cost_ctx *ctx, const luo_role *role, const luo_segment *seg,
                    part *parts, double *seconds)
{
    int32_t optimizers = 0;
    for (int32_t i = seg->first; i < seg->first + seg->n; i++)
        optimizers += role->instr[i].cost.kind == LUO_COST_OPTIMIZER;
    for (int32_t i = seg->first; i < seg->first + seg->n; i++) {
        const luo_instr *in = &role->instr[i];
        const part *p = part_of(parts, in);
        if (!computes(in) || seconds[i] <= 0) continue;
        if (in->cost.kind == LUO_COST_OPTIMIZER) {
            seconds[i] += 40 * ctx->stack->host_launch_s / optimizers;
        } else if (in->layer < 0) {
            seconds[i] = luo_cost_host(ctx->stack, seconds[i],
                                       luo_cost_kernels(ctx->stack, &in->cost));
        } else {
            const double all = luo_cost_host(ctx->stack, p->compute + p->comm, p->kernels);
            seconds[i] *= (all - p->comm) / p->compute;
        }
    }
}

static luo_status cpu_role(const luo_cost_ctx *ctx, const luo_profile *p, const luo_role *role,
                           double slow, double *seconds, luo_err *err)
{
    for (int32_t i = 0; i < role->ninstr; i++) {
        seconds[i] = 0;
        if (!computes(&role->instr[i])) continue;
        LUO_TRY(luo_cpu_instr(ctx, p, role, &role->instr[i], &seconds[i], err));
        seconds[i] *= slow;
    }
    return LUO_OK;
}

luo_status luo_cost_role(luo_arena *scratch, const luo_cost_ctx *ctx, int32_t device,
                         const luo_role *role, const double *comm, double *seconds, luo_err *err)
{
    const luo_profile *p = luo_cluster_profile(ctx->cluster, device);
    const double slow = luo_cluster_base_slowdown(ctx->cluster, device);
    const size_t mark = luo_arena_mark(scratch);
    int32_t layers = 0;
    if (p->cpu) return cpu_role(ctx, p, role, slow, seconds, err);
    for (int32_t i = 0; i < role->ninstr; i++) {
        seconds[i] = 0;
        if (role->instr[i].layer >= layers) layers = role->instr[i].layer + 1;
        if (computes(&role->instr[i]))
            LUO_TRY(luo_cost_key_seconds(p, ctx->stack, &role->instr[i].cost, ctx->dtype,
                                         &seconds[i], err));
    }
    part *parts = LUO_NEW_N(scratch, part, 2 * (layers + 1));
    if (!parts) return luo_err_nomem(err);
    for (int32_t s = 0; s < role->nseg; s++) {
        const luo_segment *seg = &role->seg[s];
        for (int32_t i = 0; i < 2 * (layers + 1); i++) parts[i] = (part){0, 0, 0};
        sum_parts(ctx, role, seg, comm, seconds, parts);
        stretch(ctx, role, seg, parts, seconds);
    }
    for (int32_t i = 0; i < role->ninstr; i++) seconds[i] *= slow;
    luo_arena_reset(scratch, mark);
    return LUO_OK;
}
