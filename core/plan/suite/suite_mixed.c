/* suite_mixed.c: published rows of several GPU types: a node for each entry of
 * `stage_devices`, as fast as the layer table says. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/plan/suite/layer_fit.h"
#include "core/plan/suite/suite_internal.h"

/* ---- "TYPExCOUNT:tpN|.. // ..": stages, in them replicas ---- */

static luo_status bad_entry(const luo_suite_row *r, const char *at, luo_err *err)
{
    return suite_refuse(r, LUO_EINPUT, err, "`stage_devices` has `%.*s`; TYPExCOUNT:tpN is "
                            "expected, %d replicas joined by | in each of %d stages joined by //.",
                            (int)strcspn(at, "|/"), at, (int)r->dp, (int)r->pp);
}

/* One entry from *at on, which then stands behind it. */
static luo_status read_entry(const luo_suite_row *r, const char **at, const luo_suite_gpu **gpu,
                             luo_err *err)
{
    char name[64];
    const char *from = *at + strspn(*at, " "), *x = from + strcspn(from, "|/");
    char *end;
    while (x > from && *x != 'x') x--;
    const size_t n = (size_t)(x - from);
    if (n == 0 || n >= sizeof name) return bad_entry(r, from, err);
    memcpy(name, from, n);
    name[n] = 0;
    const long count = strtol(x + 1, &end, 10);
    if (strncmp(end, ":tp", 3) != 0) return bad_entry(r, from, err);
    const long tp = strtol(end + 3, &end, 10);
    *gpu = luo_suite_gpu_of(name);
    if (!*gpu) return suite_refuse(r, LUO_EINPUT, err, "GPU `%s` has no profile of ours.", name);
    if (count != r->tp || tp != r->tp)
        return suite_refuse(r, LUO_EUNSUP, err, "stages and replicas of unequal tensor groups "
                                "are not scored yet.");
    *at = end + strspn(end, " ");
    return LUO_OK;
}

/* gpu[stage * dp + replica]. */
static luo_status read_entries(const luo_suite_row *r, const luo_suite_gpu **gpu, luo_err *err)
{
    const char *at = r->stage_devices;
    for (int32_t i = 0; i < r->pp * r->dp; i++) {
        const char *join = i == 0 ? "" : i % r->dp == 0 ? "//" : "|";
        if (strncmp(at, join, strlen(join)) != 0) return bad_entry(r, at, err);
        at += strlen(join);
        LUO_TRY(read_entry(r, &at, &gpu[i], err));
    }
    return *at ? bad_entry(r, at, err) : LUO_OK;
}

/* ---- the layer table ---- */

static bool same_gpu(const luo_suite_gpu *gpu, const char *name)
{
    const luo_suite_gpu *other = luo_suite_gpu_of(name);
    return other && strcmp(other->profile, gpu->profile) == 0;
}

/* The micro-batch of the table that is nearest to b, the smaller of two; 0: none. */
static int32_t nearest(const luo_layer_times *t, const luo_suite_row *r, const luo_suite_gpu *gpu,
                       int32_t b)
{
    int32_t best = 0;
    for (int32_t i = 0; t && i < t->n; i++) {
        const luo_layer_time *l = &t->at[i];
        if (l->tp != r->tp || !luo_layer_same_model(r->model, l->model) || !same_gpu(gpu, l->gpu))
            continue;
        const int32_t off = abs(l->sequences - b), least = abs(best - b);
        if (best == 0 || off < least || (off == least && l->sequences < best)) best = l->sequences;
    }
    return best;
}

/* Seconds of a micro-batch of stage k, communication of its tensor group included. Layer 0 of the
 * table is the embedding, its last the head. */
static double table_seconds(const luo_layer_times *t, const luo_case *c, const luo_suite_gpu *gpu,
                            int32_t k, int32_t sequences)
{
    const luo_suite_row *r = c->row;
    int64_t first = 1, last;
    double sum = 0;
    for (int32_t s = 0; s < k; s++) first += c->layers[s];
    last = first + c->layers[k] - 1;
    if (k == 0) first = 0;
    if (k == r->pp - 1) last++;
    for (int32_t i = 0; i < t->n; i++) {
        const luo_layer_time *l = &t->at[i];
        if (l->tp == r->tp && l->sequences == sequences && l->layer >= first && l->layer <= last &&
            luo_layer_same_model(r->model, l->model) && same_gpu(gpu, l->gpu))
            sum += l->forward_s + l->backward_s;
    }
    return sum * c->micro_batch_sequences / sequences;
}

/* ---- a node group for each entry ---- */

static luo_status make_groups(luo_arena *arena, luo_case *c, const luo_suite_kit *kit,
                              const luo_suite_gpu *const *gpu, luo_err *err)
{
    static const char *const racks[] = {"r0"};
    const luo_suite_row *r = c->row;
    luo_cluster *all = c->cluster;
    for (int32_t i = 0; i < all->ngroups; i++) {
        luo_node_group *g = &all->groups[i];
        luo_profile *p = LUO_NEW(arena, luo_profile);
        const luo_profile *of = kit->profile(kit->ctx, r, gpu[i]->profile, err);
        const char *name = luo_arena_printf(arena, "stage%d-replica%d", (int)(i / r->dp),
                                            (int)(i % r->dp));
        if (!of) return luo_err_at(err, err->st, r->file, r->line, 1);
        if (!p || !name) return luo_err_nomem(err);
        *p = *of;
        p->ncurves = p->np2p_times = 0;
        c->peak_flops += r->tp * p->peak_flops[c->dtype];
        /* The table has the tensor group's communication in its times, so that nothing of it is
         * to be added: links inside the node are free, and no table of them counts. */
        *g = (luo_node_group){.name = name, .site = "main", .nodes = 1, .devices_per_node = r->tp,
                              .nracks = 1, .racks = racks, .profile = p, .base_slowdown = 1,
                              .scale_up = LUO_SCALE_UP_NVSWITCH, .scale_up_bytes_per_s = 1e15,
                              .scale_up_latency_s = 0, .sockets = 1, .devices_per_switch = r->tp,
                              .nics = 1, .nic_bytes_per_s = luo_suite_node_rate(r, gpu[i]),
                              .nic_latency_s = 2e-6, .host_cores = 1};
    }
    return luo_cluster_finish(arena, all, err);
}

/* Forward and backward of a micro-batch of stage k by the formulas. */
static luo_status formula_seconds(const luo_case *c, int32_t k, const int32_t *dev, double *out,
                                  luo_err *err)
{
    const luo_suite_row *r = c->row;
    const luo_cost_ctx ctx = {.cluster = c->cluster, .stack = c->stack, .dtype = c->dtype};
    const luo_layer_shape l = {.model = &c->model, .sequence_tokens = r->seq, .tp = r->tp,
                               .tokens = c->micro_batch_sequences * r->seq,
                               .sequence_parallel = r->sp && r->tp > 1};
    luo_layer_cost layer;
    luo_pair_cost embedding = {0}, head = {0};
    LUO_TRY(luo_cost_layer(&ctx, &l, dev, LUO_RECOMPUTE_NONE, &layer, err));
    if (k == 0) LUO_TRY(luo_cost_embedding(&ctx, &l, dev, &embedding, err));
    if (k == r->pp - 1) LUO_TRY(luo_cost_head(&ctx, &l, dev, &head, err));
    *out = (double)c->layers[k] * (layer.forward + layer.backward) + embedding.forward +
           embedding.backward + head.forward + head.backward;
    return LUO_OK;
}

/* Transfers that stage k of replica d receives for a micro-batch. DeepSpeed sends by pairs that
 * hold up both ends, one transfer after another; a stack's `p2p: blocking` holds up the sender
 * alone (docs/cost-model.md#pipelines), so the receiver's part is added to its work: with it each
 * micro-batch of row sm-N2_D1 takes the 0.936 s that were measured, without it 0.80 s. */
static luo_status received_seconds(const luo_case *c, int32_t d, int32_t k, double *out,
                                   luo_err *err)
{
    const luo_suite_row *r = c->row;
    const luo_cost_ctx ctx = {.cluster = c->cluster, .stack = c->stack, .dtype = c->dtype};
    const int64_t bytes = (int64_t)c->micro_batch_sequences * r->seq * r->hidden *
                          luo_dtype_bytes(c->dtype) / (c->stack->scatter_gather ? r->tp : 1);
    *out = 0;
    for (int32_t from = k - 1; from <= k + 1 && c->stack->p2p_blocking; from += 2) {
        double t = 0;
        if (from < 0 || from >= r->pp) continue;
        LUO_TRY(luo_cost_p2p(&ctx, c->dev[(d * r->pp + from) * r->tp],
                             c->dev[(d * r->pp + k) * r->tp], bytes, 0, &t, err));
        *out += t;
    }
    return LUO_OK;
}

/* All kernels of the profile times x. */
static void stretch(luo_profile *p, double x)
{
    for (int i = 0; i < 3; i++) p->peak_flops[i] /= x;
    p->memory_bytes_per_s /= x;
    p->launch_s *= x;
}

/* The kernels of entry i as long as the table says; what does not grow with them (the host, calls
 * of the tensor group) is found by making them twice as long. */
static luo_status take_table(luo_case *c, const luo_layer_times *t, const luo_suite_gpu *gpu,
                             int32_t i, bool *scaled, luo_err *err)
{
    const luo_suite_row *r = c->row;
    const int32_t k = i / r->dp, sequences = nearest(t, r, gpu, c->micro_batch_sequences);
    const int32_t *dev = &c->dev[((i % r->dp) * r->pp + k) * r->tp];
    luo_profile *p = (luo_profile *)(uintptr_t)c->cluster->groups[i].profile; /* our own copy */
    double once, twice, received;
    if (sequences == 0)
        return suite_refuse(r, LUO_EUNSUP, err, "no layer times of `%s` on `%s` with tp %d are at "
                            "hand; several GPU types in one row are scored by these alone.",
                            r->model, gpu->name, (int)r->tp);
    *scaled |= sequences != c->micro_batch_sequences;
    LUO_TRY(formula_seconds(c, k, dev, &once, err));
    stretch(p, 2);
    LUO_TRY(formula_seconds(c, k, dev, &twice, err));
    LUO_TRY(received_seconds(c, i % r->dp, k, &received, err));
    const double kernels = twice - once;
    const double want = table_seconds(t, c, gpu, k, sequences) + received;
    const double x = (want - (once - kernels)) / kernels;
    if (!(x > 0))
        return suite_refuse(r, LUO_EINPUT, err, "the layer times of `%s` on `%s` are shorter than "
                            "a call of its tensor group.", r->model, gpu->name);
    stretch(p, x / 2);
    return LUO_OK;
}

luo_status luo_case_mixed(luo_arena *arena, luo_case *c, const luo_suite_kit *kit, bool *scaled,
                          luo_err *err)
{
    const luo_suite_row *r = c->row;
    const int32_t n = r->pp * r->dp;
    const luo_suite_gpu **gpu = LUO_NEW_N(arena, const luo_suite_gpu *, n);
    c->cluster = LUO_NEW(arena, luo_cluster);
    if (!gpu || !c->cluster) return luo_err_nomem(err);
    *c->cluster = (luo_cluster){.name = r->fabric, .ngroups = n, .fabric = LUO_FABRIC_SINGLE,
                                .groups = LUO_NEW_N(arena, luo_node_group, n),
                                .hop_latency_s = 0.5e-6};
    if (!c->cluster->groups) return luo_err_nomem(err);
    if (r->cp > 1 || r->recompute != LUO_RECOMPUTE_NONE)
        return suite_refuse(r, LUO_EUNSUP, err, "several GPU types with recomputation or "
                                "context parallelism are not scored.");
    LUO_TRY(read_entries(r, gpu, err));
    LUO_TRY(make_groups(arena, c, kit, gpu, err));
    for (int32_t i = 0; i < n; i++) LUO_TRY(take_table(c, kit->layers, gpu[i], i, scaled, err));
    c->profile = (luo_profile *)(uintptr_t)c->cluster->groups[0].profile;
    return LUO_OK;
}
