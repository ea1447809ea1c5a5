/* suite_mixed.c: published rows of several GPU types: a node for each entry of
 * `stage_devices`, as fast as the layer table says. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cost/step/layer.h"
#include "core/plan/suite/layer_fit.h"
#include "core/plan/suite/suite_internal.h"

/* ---- "TYPExCOUNT:tpN|.. // ..": stages, in them replicas ---- */

static luo_status bad_entry(const luo_suite_row *row, const char *at, luo_err *err)
{
    return suite_refuse(row, LUO_EINPUT, err,
                        "`stage_devices` has `%.*s`; TYPExCOUNT:tpN is "
                        "expected, %d replicas joined by | in each of %d stages joined by //.",
                        (int)strcspn(at, "|/"), at, (int)row->dp, (int)row->pp);
}

/* One entry from *at on, which then stands behind it. */
static luo_status read_entry(const luo_suite_row *row, const char **at, const luo_suite_gpu **gpu,
                             luo_err *err)
{
    char name[64];
    const char *from = *at + strspn(*at, " "), *x = from + strcspn(from, "|/");
    char *end;
    while (x > from && *x != 'x') x--;
    const size_t n = (size_t)(x - from);
    if (n == 0 || n >= sizeof name) return bad_entry(row, from, err);
    memcpy(name, from, n);
    name[n] = 0;
    const long count = strtol(x + 1, &end, 10);
    if (strncmp(end, ":tp", 3) != 0) return bad_entry(row, from, err);
    const long tp = strtol(end + 3, &end, 10);
    *gpu = luo_suite_gpu_of(name);
    if (!*gpu) return suite_refuse(row, LUO_EINPUT, err, "GPU `%s` has no profile of ours.", name);
    if (count != row->tp || tp != row->tp)
        return suite_refuse(row, LUO_EUNSUP, err,
                            "stages and replicas of unequal tensor groups "
                            "are not scored yet.");
    *at = end + strspn(end, " ");
    return LUO_OK;
}

/* gpu[stage * dp + replica]. */
static luo_status read_entries(const luo_suite_row *row, const luo_suite_gpu **gpu, luo_err *err)
{
    const char *at = row->stage_devices;
    for (int32_t i = 0; i < row->pp * row->dp; i++) {
        const char *join = i == 0 ? "" : i % row->dp == 0 ? "//" : "|";
        if (strncmp(at, join, strlen(join)) != 0) return bad_entry(row, at, err);
        at += strlen(join);
        LUO_TRY(read_entry(row, &at, &gpu[i], err));
    }
    return *at ? bad_entry(row, at, err) : LUO_OK;
}

/* ---- the layer table ---- */

static bool same_gpu(const luo_suite_gpu *gpu, const char *name)
{
    const luo_suite_gpu *other = luo_suite_gpu_of(name);
    return other && strcmp(other->profile, gpu->profile) == 0;
}

/* The micro-batch of the table that is nearest to b, the smaller of two; 0: none. */
static int32_t nearest(const luo_layer_times *times, const luo_suite_row *row,
                       const luo_suite_gpu *gpu, int32_t b)
{
    int32_t best = 0;
    for (int32_t i = 0; times && i < times->n; i++) {
        const luo_layer_time *time = &times->at[i];
        if (time->tp != row->tp || !luo_layer_same_model(row->model, time->model) ||
            !same_gpu(gpu, time->gpu))
            continue;
        const int32_t off = abs(time->sequences - b), least = abs(best - b);
        if (best == 0 || off < least || (off == least && time->sequences < best))
            best = time->sequences;
    }
    return best;
}

/* Seconds of a micro-batch of stage k, communication of its tensor group included. Layer 0 of the
 * table is the embedding, its last the head. */
static double table_seconds(const luo_layer_times *times, const luo_case *one,
                            const luo_suite_gpu *gpu, int32_t k, int32_t sequences)
{
    const luo_suite_row *row = one->row;
    int64_t first = 1, last;
    double sum = 0;
    for (int32_t s = 0; s < k; s++) first += one->layers[s];
    last = first + one->layers[k] - 1;
    if (k == 0) first = 0;
    if (k == row->pp - 1) last++;
    for (int32_t i = 0; i < times->n; i++) {
        const luo_layer_time *time = &times->at[i];
        if (time->tp == row->tp && time->sequences == sequences && time->layer >= first &&
            time->layer <= last && luo_layer_same_model(row->model, time->model) &&
            same_gpu(gpu, time->gpu))
            sum += time->forward_s + time->backward_s;
    }
    return sum * one->micro_batch_sequences / sequences;
}

/* ---- a node group for each entry ---- */

static luo_status make_groups(luo_arena *arena, luo_case *one, const luo_suite_kit *kit,
                              const luo_suite_gpu *const *gpu, luo_err *err)
{
    static const char *const racks[] = {"r0"};
    const luo_suite_row *row = one->row;
    luo_cluster *all = one->cluster;
    for (int32_t i = 0; i < all->ngroups; i++) {
        luo_node_group *group = &all->groups[i];
        luo_profile *profile = LUO_NEW(arena, luo_profile);
        const luo_profile *of = kit->profile(kit->ctx, row, gpu[i]->profile, err);
        const char *name =
            luo_arena_printf(arena, "stage%d-replica%d", (int)(i / row->dp), (int)(i % row->dp));
        if (!of) return luo_err_at(err, err->st, row->file, row->line, 1);
        if (!profile || !name) return luo_err_nomem(err);
        *profile = *of;
        profile->ncurves = profile->np2p_times = 0;
        one->peak_flops += row->tp * profile->peak_flops[one->dtype];
        /* The table has the tensor group's communication in its times, so that nothing of it is
         * to be added: links inside the node are free, and no table of them counts. */
        *group = (luo_node_group){.name = name,
                                  .site = "main",
                                  .nodes = 1,
                                  .devices_per_node = row->tp,
                                  .nracks = 1,
                                  .racks = racks,
                                  .profile = profile,
                                  .base_slowdown = 1,
                                  .scale_up = LUO_SCALE_UP_NVSWITCH,
                                  .scale_up_bytes_per_s = 1e15,
                                  .scale_up_latency_s = 0,
                                  .sockets = 1,
                                  .devices_per_switch = row->tp,
                                  .nics = 1,
                                  .nic_bytes_per_s = luo_suite_node_rate(row, gpu[i]),
                                  .nic_latency_s = 2e-6,
                                  .host_cores = 1};
    }
    return luo_cluster_finish(arena, all, err);
}

/* Forward and backward of a micro-batch of stage k by the formulas. */
static luo_status formula_seconds(const luo_case *one, int32_t k, const int32_t *dev, double *out,
                                  luo_err *err)
{
    const luo_suite_row *row = one->row;
    const luo_cost_ctx ctx = {.cluster = one->cluster, .stack = one->stack, .dtype = one->dtype};
    const luo_layer_shape shape =
        luo_layer_of(&one->model, one->micro_batch_sequences, row->seq, row->tp,
                     (luo_context){.c = 1, .inner = 1}, row->sp && row->tp > 1);
    luo_layer_cost layer;
    luo_pair_cost embedding = {0}, head = {0};
    LUO_TRY(luo_cost_layer(&ctx, &shape, dev, LUO_RECOMPUTE_NONE, &layer, err));
    if (k == 0) LUO_TRY(luo_cost_embedding(&ctx, &shape, dev, &embedding, err));
    if (k == row->pp - 1) LUO_TRY(luo_cost_head(&ctx, &shape, dev, &head, err));
    *out = (double)one->layers[k] * (layer.forward + layer.backward) + embedding.forward +
           embedding.backward + head.forward + head.backward;
    return LUO_OK;
}

/* Transfers that stage k of replica d receives for a micro-batch. DeepSpeed sends by pairs that
 * hold up both ends, one transfer after another; a stack's `p2p: blocking` holds up the sender
 * alone (docs/cost-model.md#pipelines), so the receiver's part is added to its work: with it each
 * micro-batch of row sm-N2_D1 takes the 0.936 s that were measured, without it 0.80 s. */
static void received_seconds(const luo_case *one, int32_t d, int32_t k, double *out)
{
    const luo_suite_row *row = one->row;
    const luo_cost_ctx ctx = {.cluster = one->cluster, .stack = one->stack, .dtype = one->dtype};
    const int64_t bytes = (int64_t)one->micro_batch_sequences * row->seq * row->hidden *
                          luo_dtype_bytes(one->dtype) / (one->stack->scatter_gather ? row->tp : 1);
    *out = 0;
    for (int32_t from = k - 1; from <= k + 1 && one->stack->p2p_blocking; from += 2) {
        if (from < 0 || from >= row->pp) continue;
        const double t = luo_cost_p2p_seconds(&ctx, one->dev[(d * row->pp + from) * row->tp],
                                              one->dev[(d * row->pp + k) * row->tp], bytes, 0);
        *out += t;
    }
}

/* All kernels of the profile times x. */
static void stretch(luo_profile *profile, double x)
{
    for (int i = 0; i < 3; i++) profile->peak_flops[i] /= x;
    profile->memory_bytes_per_s /= x;
    profile->launch_s *= x;
}

/* The kernels of entry i as long as the table says; what does not grow with them (the host, calls
 * of the tensor group) is found by making them twice as long. */
static luo_status take_table(luo_case *one, const luo_layer_times *times, const luo_suite_gpu *gpu,
                             int32_t i, bool *scaled, luo_err *err)
{
    const luo_suite_row *row = one->row;
    const int32_t k = i / row->dp, sequences = nearest(times, row, gpu, one->micro_batch_sequences);
    const int32_t *dev = &one->dev[((i % row->dp) * row->pp + k) * row->tp];
    luo_profile *profile =
        (luo_profile *)(uintptr_t)one->cluster->groups[i].profile; /* our own copy */
    double once, twice, received;
    if (sequences == 0)
        return suite_refuse(row, LUO_EUNSUP, err,
                            "no layer times of `%s` on `%s` with tp %d are at "
                            "hand; several GPU types in one row are scored by these alone.",
                            row->model, gpu->name, (int)row->tp);
    *scaled |= sequences != one->micro_batch_sequences;
    LUO_TRY(formula_seconds(one, k, dev, &once, err));
    stretch(profile, 2);
    LUO_TRY(formula_seconds(one, k, dev, &twice, err));
    received_seconds(one, i % row->dp, k, &received);
    const double kernels = twice - once;
    const double want = table_seconds(times, one, gpu, k, sequences) + received;
    const double x = (want - (once - kernels)) / kernels;
    if (!(x > 0))
        return suite_refuse(row, LUO_EINPUT, err,
                            "the layer times of `%s` on `%s` are shorter than "
                            "a call of its tensor group.",
                            row->model, gpu->name);
    stretch(profile, x / 2);
    return LUO_OK;
}

luo_status luo_case_mixed(luo_arena *arena, luo_case *one, const luo_suite_kit *kit, bool *scaled,
                          luo_err *err)
{
    const luo_suite_row *row = one->row;
    const int32_t n = row->pp * row->dp;
    const luo_suite_gpu **gpu = LUO_NEW_N(arena, const luo_suite_gpu *, n);
    one->cluster = LUO_NEW(arena, luo_cluster);
    if (!gpu || !one->cluster) return luo_err_nomem(err);
    *one->cluster = (luo_cluster){.name = row->fabric,
                                  .ngroups = n,
                                  .fabric = LUO_FABRIC_SINGLE,
                                  .groups = LUO_NEW_N(arena, luo_node_group, n),
                                  .hop_latency_s = 0.5e-6};
    if (!one->cluster->groups) return luo_err_nomem(err);
    if (row->cp > 1 || row->recompute != LUO_RECOMPUTE_NONE)
        return suite_refuse(row, LUO_EUNSUP, err,
                            "several GPU types with recomputation or "
                            "context parallelism are not scored.");
    LUO_TRY(read_entries(row, gpu, err));
    LUO_TRY(make_groups(arena, one, kit, gpu, err));
    for (int32_t i = 0; i < n; i++) LUO_TRY(take_table(one, kit->layers, gpu[i], i, scaled, err));
    one->profile = (luo_profile *)(uintptr_t)one->cluster->groups[0].profile;
    return LUO_OK;
}
