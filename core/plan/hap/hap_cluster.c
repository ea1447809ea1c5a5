/* Types of a cluster's devices, and what they and its links can do. */
#include "core/plan/hap/hap_cluster.h"

#include <math.h>
#include <string.h>

enum { MIB = 1 << 20, SMALL = MIB, LARGE = 64 * MIB };

/* ---- types ---- */

static int32_t type_of(luo_hap_devices *devices, const luo_profile *profile, double slowdown)
{
    for (int32_t t = 0; t < devices->ntypes; t++)
        if (strcmp(devices->profile[t]->name, profile->name) == 0 &&
            devices->slowdown[t] == slowdown)
            return t;
    if (devices->ntypes == LUO_HAP_TYPES) return -1;
    devices->profile[devices->ntypes] = profile;
    devices->slowdown[devices->ntypes] = slowdown;
    return devices->ntypes++;
}

luo_status luo_hap_devices_of(luo_arena *arena, const luo_cluster *cluster, const int32_t *usable,
                              int32_t n, const double *rate, luo_hap_devices *out, luo_err *err)
{
    luo_hap_devices devices = {.n = n};
    int32_t *order = LUO_NEW_N(arena, int32_t, n), *type = LUO_NEW_N(arena, int32_t, n), at = 0;
    if (!order || !type) return luo_err_nomem(err);
    for (int32_t i = 0; i < n; i++) {
        type[i] = type_of(&devices, luo_cluster_profile(cluster, usable[i]),
                          luo_cluster_base_slowdown(cluster, usable[i]) * fmax(1, rate[usable[i]]));
        if (type[i] < 0)
            return luo_err_set(err, LUO_E2BIG,
                               "the cluster has more than %d types of devices, slow ones by "
                               "their slowdown counted; planner `hap` takes at most so many: "
                               "give rounder slowdowns.",
                               LUO_HAP_TYPES);
    }
    for (int32_t t = 0; t < devices.ntypes; t++)
        for (int32_t i = 0; i < n; i++)
            if (type[i] == t) {
                order[at++] = usable[i];
                devices.count[t]++;
            }
    devices.device = order;
    *out = devices;
    return LUO_OK;
}

static void name_types(const luo_hap_devices *devices, luo_hap_numbers *out)
{
    *out = (luo_hap_numbers){.ntypes = devices->ntypes};
    for (int32_t t = 0; t < devices->ntypes; t++) {
        const luo_profile *profile = devices->profile[t];
        out->name[t] = profile->name;
        out->slowdown[t] = devices->slowdown[t];
        out->count[t] = devices->count[t];
        if (profile->memory_bytes > 0)
            out->memory_bytes[t] = profile->memory_bytes - profile->reserved_bytes;
    }
}

/* ---- speeds ---- */

/* Extents of an operation as one batched product: letters of both operands that stay, of the first,
 * of the second, of both that are summed. */
static luo_gemm product_of(const luo_hap_graph *graph, const luo_hap_op *op)
{
    luo_gemm gemm = {1, 1, 1, 1, graph->elem_bytes, LUO_GEMM_PLAIN};
    for (const char *c = op->in_is[0]; *c; c++) {
        const bool also = strchr(op->in_is[1], *c), stays = strchr(op->out_is[0], *c);
        int64_t *to = also ? stays ? &gemm.batch : &gemm.k : &gemm.m;
        *to *= op->size[(int)*c];
    }
    for (const char *c = op->in_is[1]; *c; c++)
        if (!strchr(op->in_is[0], *c)) gemm.n *= op->size[(int)*c];
    if (gemm.batch > 1) gemm.form = LUO_GEMM_EXPERTS;
    return gemm;
}

static luo_status product_s(const luo_hap_graph *graph, const luo_hap_op *op,
                            const luo_profile *profile, luo_dtype dtype, int32_t n, double *speed,
                            luo_err *err)
{
    luo_gemm gemm = product_of(graph, op);
    double seconds;
    gemm.m = gemm.m > n ? gemm.m / n : 1;
    LUO_TRY(luo_cost_gemm(profile, dtype, &gemm, &seconds, err));
    *speed = 2 * (double)gemm.m * (double)gemm.n * (double)gemm.k * (double)gemm.batch / seconds;
    return LUO_OK;
}

static luo_status attention_s(const luo_hap_graph *graph, const luo_hap_op *op,
                              const luo_profile *profile, luo_dtype dtype, int32_t n, double *speed,
                              luo_err *err)
{
    const int64_t *dim = graph->tensor[op->in[0]].dim; /* b s h e */
    const luo_attention attention = {.heads = dim[2],
                                     .head_dim = dim[3],
                                     .sequences = dim[0] > n ? dim[0] / n : 1,
                                     .tokens = dim[1]};
    const double part = (double)attention.sequences / (double)dim[0];
    double forward, backward;
    LUO_TRY(luo_cost_attention(profile, dtype, &attention, false, &forward, err));
    LUO_TRY(luo_cost_attention(profile, dtype, &attention, true, &backward, err));
    *speed = part * luo_hap_graph_work(op) / (forward + backward);
    return LUO_OK;
}

static luo_status stream_s(const luo_hap_op *op, const luo_profile *profile, int32_t n,
                           double *speed, luo_err *err)
{
    const double bytes = luo_hap_graph_work(op) / n;
    double seconds;
    LUO_TRY(luo_cost_stream(profile, bytes, &seconds, err));
    *speed = bytes > 0 && seconds > 0 ? bytes / seconds : (double)INFINITY;
    return LUO_OK;
}

static luo_status speed_of(const luo_hap_graph *graph, const luo_hap_op *op,
                           const luo_profile *profile, luo_dtype dtype, int32_t n, double *speed,
                           luo_err *err)
{
    if (op->class == LUO_HAP_ON_ELT) return stream_s(op, profile, n, speed, err);
    if (op->class == LUO_HAP_ON_ATTN) return attention_s(graph, op, profile, dtype, n, speed, err);
    return product_s(graph, op, profile, dtype, n, speed, err);
}

static luo_status set_speeds(luo_arena *arena, const luo_hap_graph *graph, const luo_cost_ctx *ctx,
                             const luo_hap_devices *devices, luo_hap_numbers *out, luo_err *err)
{
    double *speed = LUO_NEW_N(arena, double, graph->nops * devices->ntypes);
    if (!speed) return luo_err_nomem(err);
    for (int32_t o = 0; o < graph->nops; o++)
        for (int32_t t = 0; t < devices->ntypes; t++) {
            double *at = &speed[o * devices->ntypes + t];
            LUO_TRY(speed_of(graph, &graph->op[o], devices->profile[t], ctx->dtype, devices->n, at,
                             err));
            *at /= devices->slowdown[t];
        }
    out->op_speed = speed;
    return LUO_OK;
}

/* ---- lines ---- */

static luo_hap_line line_through(double small_s, double large_s)
{
    const double per_byte = (large_s - small_s) / (LARGE - SMALL);
    if (!(per_byte > 0)) return (luo_hap_line){0, LARGE / fmax(large_s, 1e-12)};
    return (luo_hap_line){fmax(0, small_s - SMALL * per_byte), 1 / per_byte};
}

static void set_collectives(const luo_cost_ctx *ctx, const luo_hap_devices *devices,
                            luo_hap_numbers *out)
{
    static const struct {
        luo_hap_link link;
        int coll;    /* luo_coll */
        bool of_one; /* bytes are those that one device holds */
    } forms[] = {{LUO_HAP_LINK_AG, LUO_COLL_AG, false},
                 {LUO_HAP_LINK_RS, LUO_COLL_RS, false},
                 {LUO_HAP_LINK_AR, LUO_COLL_AR, false},
                 {LUO_HAP_LINK_A2A, LUO_COLL_A2A, true}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const int32_t part = forms[i].of_one ? devices->n : 1;
        const double small = luo_cost_group_seconds(ctx, forms[i].coll, devices->device, devices->n,
                                                    SMALL / part, 0);
        const double large = luo_cost_group_seconds(ctx, forms[i].coll, devices->device, devices->n,
                                                    LARGE / part, 0);
        out->line[forms[i].link] = line_through(small, large);
    }
}

/* As many broadcasts as devices, which are priced as they are simulated: a ring has all of a node's
 * bandwidth, not a device's share of it. Reduces take as long. */
static void set_grouped(const luo_cost_ctx *ctx, const luo_hap_devices *devices,
                        luo_hap_numbers *out)
{
    luo_cost_call call = {LUO_COLL_AG, LUO_COLL_GROUPED, devices->n, devices->device, SMALL, NULL};
    const double small = luo_cost_call_seconds(ctx, &call, 0);
    call.bytes = LARGE;
    const double large = luo_cost_call_seconds(ctx, &call, 0);
    luo_hap_line line = line_through(small, large);
    line.latency_s /= devices->n; /* of each */
    out->line[LUO_HAP_LINK_AG_GROUPED] = out->line[LUO_HAP_LINK_RS_GROUPED] = line;
}

/* Of neighbours, the slowest pair. */
static void set_messages(const luo_cost_ctx *ctx, const luo_hap_devices *devices,
                         luo_hap_numbers *out)
{
    luo_hap_line slowest = {0, (double)INFINITY};
    for (int32_t i = 0; i < devices->n; i++) {
        const int32_t from = devices->device[i], to = devices->device[(i + 1) % devices->n];
        const double small = luo_cost_p2p_seconds(ctx, from, to, SMALL, 0);
        const double large = luo_cost_p2p_seconds(ctx, from, to, LARGE, 0);
        const luo_hap_line line = line_through(small, large);
        slowest.latency_s = fmax(slowest.latency_s, line.latency_s);
        slowest.bandwidth_bytes_s = fmin(slowest.bandwidth_bytes_s, line.bandwidth_bytes_s);
    }
    out->line[LUO_HAP_LINK_P2P] = slowest;
}

luo_status luo_hap_cluster_numbers(luo_arena *arena, const luo_hap_graph *graph,
                                   const luo_cost_ctx *ctx, const luo_hap_devices *devices,
                                   luo_hap_numbers *out, luo_err *err)
{
    luo_hap_numbers numbers;
    name_types(devices, &numbers);
    LUO_TRY(set_speeds(arena, graph, ctx, devices, &numbers, err));
    for (int32_t l = 0; l < LUO_HAP_LINKS && devices->n == 1; l++)
        numbers.line[l] = (luo_hap_line){0, (double)INFINITY}; /* nothing moves */
    if (devices->n > 1) {
        set_collectives(ctx, devices, &numbers);
        set_grouped(ctx, devices, &numbers);
        set_messages(ctx, devices, &numbers);
    }
    *out = numbers;
    return LUO_OK;
}

luo_status luo_hap_cluster_given(const luo_hap_params *params, const luo_hap_devices *devices,
                                 luo_hap_numbers *out, luo_err *err)
{
    luo_hap_numbers numbers;
    name_types(devices, &numbers);
    memcpy(numbers.line, params->line, sizeof numbers.line);
    for (int32_t t = 0; t < devices->ntypes; t++) {
        int32_t i = 0;
        while (i < params->ntypes && strcmp(params->type[i].profile, numbers.name[t]) != 0) i++;
        if (i == params->ntypes)
            return luo_err_set(err, LUO_EINPUT,
                               "the params have no type `%s`, which the cluster "
                               "has; one is needed.",
                               numbers.name[t]);
        for (int32_t c = 0; c < LUO_HAP_CLASSES; c++)
            numbers.speed[t][c] = params->type[i].speed[c] / devices->slowdown[t];
    }
    *out = numbers;
    return LUO_OK;
}
