/* Seconds of all instructions of a role, with the host's floor per layer
 * (docs/cost-model.md#the-host). */
#include <math.h>

#include "core/cost/collective.h"
#include "core/cost/cpu.h"

typedef struct part { /* instructions of one layer of one segment, recompute apart */
    double compute, comm;
    int32_t kernels, calls; /* calls: collectives */
    double factor[2]; /* of kernels and of calls, beside those of a forward part */
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

double luo_cost_beside(double work, double comm, double loss)
{
    return work <= comm * (1 - loss) ? work / (1 - loss) : work + comm * loss;
}

luo_cost_reach luo_cost_reach_of(const luo_cluster *cluster, const int32_t *dev, int32_t n)
{
    luo_member_walk walk = luo_members_of(cluster, dev, n);
    luo_members members;
    luo_cost_reach reach = {false, false};
    for (int32_t nodes = 0; luo_members_next(&walk, &members); nodes++) {
        reach.near |= members.n > 1;
        reach.far |= nodes > 0;
    }
    return reach;
}

double luo_cost_reach_loss(const luo_profile *profile, luo_cost_reach reach)
{
    return fmax(reach.near ? profile->overlap_loss_nvlink_ratio : 0,
                reach.far ? profile->overlap_loss_net_ratio : 0);
}

double luo_cost_overlap_loss(const luo_cost_ctx *ctx, const int32_t *dev, int32_t n)
{
    const luo_device *at = ctx->cluster->devices;
    const luo_cost_reach reach = luo_cost_reach_of(ctx->cluster, dev, n);
    const int32_t types = ctx->cluster->nkinds == 1 ? 1 : n; /* to be looked at */
    double most = 0;
    for (int32_t i = 0; i < types; i++)
        if (i == 0 || at[dev[i]].kind != at[dev[i - 1]].kind)
            most = fmax(most,
                        luo_cost_reach_loss(luo_cluster_profile(ctx->cluster, dev[i]), reach));
    return most;
}

/* A gradient's reduction: beside it may run what is issued between its making and itself (dW). */
static bool reduces_dx(const luo_instr *in)
{
    return in->kind == LUO_INSTR_COLLECTIVE && in->stream == LUO_STREAM_TP &&
           luo_phase_is_backward(in->phase) && !in->recompute && in->nin > 0 &&
           (in->coll == LUO_COLL_AR || in->coll == LUO_COLL_RS);
}

/* First instruction behind the one that made what instruction i moves. */
static int32_t behind_maker(const luo_role *role, const luo_segment *seg, int32_t i)
{
    for (int32_t k = i - 1; k >= seg->first; k--)
        for (int32_t o = 0; o < role->instr[k].nout; o++)
            if (role->instr[k].out[o] == role->instr[i].in[0]) return k + 1;
    return i;
}

/* Slows what runs beside reductions; hidden[i]: seconds of reduction i that it hides. */
static void overlap(const luo_role *role, const luo_segment *seg, const luo_comm_cost *comm,
                    double *seconds, double *hidden)
{
    for (int32_t i = seg->first; i < seg->first + seg->n; i++) {
        double work = 0;
        hidden[i] = 0;
        if (!reduces_dx(&role->instr[i]) || comm[i].seconds <= 0) continue;
        const int32_t from = behind_maker(role, seg, i);
        for (int32_t k = from; k < i; k++) work += computes(&role->instr[k]) ? seconds[k] : 0;
        if (work <= 0) continue;
        const double slowed = luo_cost_beside(work, comm[i].seconds, comm[i].loss);
        for (int32_t k = from; k < i; k++)
            if (computes(&role->instr[k])) seconds[k] *= slowed / work;
        hidden[i] = fmin(slowed, comm[i].seconds);
    }
}

/* A backward launches 1.75 times as many kernels as its forward; cut in two, 1 and 0.75, and the
 * calls are BI's (assumed: both together launch what the whole does). */
static double kernels_factor(int32_t phase)
{
    if (phase == LUO_PHASE_B) return 1.75;
    return phase == LUO_PHASE_BW ? 0.75 : 1;
}

static double calls_factor(int32_t phase)
{
    return luo_phase_begins_backward(phase) ? 1.75 : kernels_factor(phase);
}

static double kernels_of(const luo_stack *stack, const part *p)
{
    if (stack->kernels_forward <= 0) return p->kernels + p->calls;
    return stack->kernels_forward * p->factor[0] + (p->calls > 0 ? 2 : 0) * p->factor[1];
}

static void sum_parts(const luo_cost_ctx *ctx, const luo_role *role, const luo_segment *seg,
                      const luo_comm_cost *comm, const double *seconds, const double *hidden,
                      part *parts)
{
    for (int32_t i = seg->first; i < seg->first + seg->n; i++) {
        const luo_instr *in = &role->instr[i];
        part *p = part_of(parts, in);
        if (computes(in) && seconds[i] > 0) {
            p->compute += seconds[i];
            p->kernels += luo_cost_kernels(ctx->stack, &in->cost);
            p->factor[0] = in->recompute ? 1 : kernels_factor(seg->phase);
            p->factor[1] = in->recompute ? 1 : calls_factor(seg->phase);
        } else if ((in->kind == LUO_INSTR_COLLECTIVE || luo_instr_trades(in)) &&
                   in->stream == LUO_STREAM_TP) {
            p->calls++;
            if (comm) p->comm += comm[i].seconds - hidden[i];
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
            const double all =
                luo_cost_host(ctx->stack, p->compute + p->comm, kernels_of(ctx->stack, p));
            seconds[i] *= (all - p->comm) / p->compute;
        }
    }
}

static luo_status cpu_role(const luo_cost_ctx *ctx, const luo_profile *profile,
                           const luo_role *role, double slow, double *seconds, luo_err *err)
{
    for (int32_t i = 0; i < role->ninstr; i++) {
        seconds[i] = 0;
        if (!computes(&role->instr[i])) continue;
        LUO_TRY(luo_cpu_instr(ctx, profile, role, &role->instr[i], &seconds[i], err));
        seconds[i] *= slow;
    }
    return LUO_OK;
}

luo_status luo_cost_role(luo_arena *scratch, const luo_cost_ctx *ctx, int32_t device,
                         const luo_role *role, const luo_comm_cost *comm, double *seconds,
                         luo_err *err)
{
    const luo_profile *profile = luo_cluster_profile(ctx->cluster, device);
    const double slow = luo_cluster_base_slowdown(ctx->cluster, device);
    const size_t mark = luo_arena_mark(scratch);
    int32_t layers = 0;
    if (profile->cpu) return cpu_role(ctx, profile, role, slow, seconds, err);
    for (int32_t i = 0; i < role->ninstr; i++) {
        seconds[i] = 0;
        if (role->instr[i].layer >= layers) layers = role->instr[i].layer + 1;
        if (computes(&role->instr[i]))
            LUO_TRY(luo_cost_key_seconds(profile, ctx->stack, &role->instr[i].cost, ctx->dtype,
                                         &seconds[i], err));
    }
    part *parts = LUO_NEW_N(scratch, part, 2 * (layers + 1));
    double *hidden = LUO_NEW_N(scratch, double, role->ninstr);
    if (!parts || !hidden) return luo_err_nomem(err);
    for (int32_t s = 0; s < role->nseg; s++) {
        const luo_segment *seg = &role->seg[s];
        for (int32_t i = 0; i < 2 * (layers + 1); i++) parts[i] = (part){0};
        if (comm && ctx->stack->tp_overlap) overlap(role, seg, comm, seconds, hidden);
        sum_parts(ctx, role, seg, comm, seconds, hidden, parts);
        stretch(ctx, role, seg, parts, seconds);
    }
    for (int32_t i = 0; i < role->ninstr; i++) seconds[i] *= slow;
    luo_arena_reset(scratch, mark);
    return LUO_OK;
}
