/* suite_case.c: a published row as model, cluster and uniform plan of ours. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/plan/grid.h"
#include "core/plan/suite/suite_internal.h"

bool luo_suite_excluded(const luo_suite_row *r)
{
    return strstr(r->note, "exclude from fits") != NULL || strstr(r->note, "fits the ") != NULL;
}

int32_t luo_suite_nodes(const luo_suite_row *r)
{
    return (r->gpus + r->gpus_per_node - 1) / r->gpus_per_node;
}

luo_status suite_refuse(const luo_suite_row *r, luo_status st, luo_err *err, const char *fmt,
                        ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    luo_err_set(err, st, "%s: %s", r->id, text);
    return luo_err_at(err, st, r->file, r->line, 1);
}

/* ---- model ---- */

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool is_gated(const luo_suite_row *r)
{
    return begins(r->model, "llama") || begins(r->model, "deepseek") ||
           begins(r->model, "mixtral") || begins(r->model, "qwen");
}

/* Vocabularies are padded to a multiple of 128 a tensor-parallel device. */
static int64_t padded(int64_t vocab, int32_t tp)
{
    const int64_t unit = 128 * (int64_t)tp;
    return (vocab + unit - 1) / unit * unit;
}

static void make_model(const luo_suite_row *r, luo_dtype dtype, luo_model *m)
{
    const bool gated = is_gated(r), mpt = begins(r->model, "mpt");
    /* Sailor's networks are lists of layers that share nothing: with one replica of two stages its
     * reductions take no time (rows sm-N2_D1, sg-neo-N4_D1). */
    const bool apart = gated || begins(r->suite, "sailor");
    *m = (luo_model){.name = r->model, .family = gated ? LUO_FAMILY_LLAMA : LUO_FAMILY_GPT,
                     .layers = r->layers, .hidden = r->hidden, .ffn_hidden = r->ffn,
                     .heads = r->heads, .kv_heads = r->kv_heads ? r->kv_heads : r->heads,
                     .head_dim = r->hidden / r->heads, .vocab = padded(r->vocab, r->tp),
                     .max_sequence_tokens = r->seq, .tied_embeddings = !apart,
                     .linear_bias = !gated && !mpt, .qkv_bias = !gated && !mpt, .causal = true,
                     .norm = gated ? LUO_NORM_RMS : LUO_NORM_LAYER,
                     .activation = gated ? LUO_ACT_SWIGLU : LUO_ACT_GELU,
                     .position = gated || mpt ? LUO_POS_ROPE : LUO_POS_LEARNED,
                     .norm_eps = gated ? 1e-6 : 1e-5, .rope_base = 10000, .dtype = dtype};
}

/* ---- cluster ---- */

static luo_status make_cluster(luo_arena *arena, const luo_suite_row *r, const luo_suite_gpu *gpu,
                               const luo_profile *profile, luo_cluster **out, luo_err *err)
{
    static const char *const racks[] = {"r0"};
    const int32_t nodes = luo_suite_nodes(r);
    luo_suite_fabric f = luo_suite_fabric_of(r);
    luo_cluster *c = LUO_NEW(arena, luo_cluster);
    luo_node_group *g = LUO_NEW(arena, luo_node_group);
    if (!c || !g) return luo_err_nomem(err);
    if (f.nics > r->gpus_per_node) {
        f.nic_bytes_per_s *= (double)f.nics / r->gpus_per_node;
        f.nics = r->gpus_per_node;
    }
    /* Latencies are those of the clusters that we ship. */
    *g = (luo_node_group){.name = "node", .site = "main", .nodes = nodes,
                          .devices_per_node = r->gpus_per_node, .nracks = 1, .racks = racks,
                          .profile = profile, .base_slowdown = 1,
                          .scale_up = LUO_SCALE_UP_NVSWITCH,
                          .scale_up_bytes_per_s = gpu->nvlink_bytes_per_s,
                          .scale_up_latency_s = 1e-6, .sockets = 1,
                          .devices_per_switch = r->gpus_per_node, .nics = nodes > 1 ? f.nics : 0,
                          .nic_bytes_per_s = f.nic_bytes_per_s, .nic_latency_s = 2e-6,
                          .host_cores = 1};
    *c = (luo_cluster){.name = r->fabric, .ngroups = 1, .groups = g, .fabric = LUO_FABRIC_SINGLE,
                       .hop_latency_s = 0.5e-6};
    *out = c;
    return luo_cluster_finish(arena, c, err);
}

/* ---- how it is cut ---- */

/* Tensor groups first, then context, replicas, stages, as Megatron and DeepSpeed number ranks. */
static luo_status place(luo_arena *arena, luo_case *c, luo_err *err)
{
    const luo_suite_row *r = c->row;
    const int32_t w = r->tp * r->cp;
    c->dev = LUO_NEW_N(arena, int32_t, r->gpus);
    if (!c->dev) return luo_err_nomem(err);
    for (int32_t d = 0; d < r->dp; d++)
        for (int32_t s = 0; s < r->pp; s++)
            for (int32_t i = 0; i < w; i++)
                c->dev[((int64_t)d * r->pp + s) * w + i] = (s * r->dp + d) * w + i;
    return LUO_OK;
}

static luo_status listed_layers(luo_case *c, luo_err *err)
{
    const luo_suite_row *r = c->row;
    const char *at = r->layers_per_stage;
    int64_t sum = 0;
    for (int32_t s = 0; s < r->pp; s++) {
        char *end;
        c->layers[s] = strtoll(at, &end, 10);
        if (end == at || c->layers[s] < 0 || *end != (s + 1 < r->pp ? '/' : 0))
            return suite_refuse(r, LUO_EINPUT, err, "`layers_per_stage` is `%s`; %d numbers joined "
                                "by / are expected.", r->layers_per_stage, (int)r->pp);
        sum += c->layers[s];
        at = end + 1;
    }
    if (sum == r->layers + 2) {
        c->layers[0]--;
        c->layers[r->pp - 1]--;
    } else if (sum != r->layers) {
        return suite_refuse(r, LUO_EINPUT, err, "`layers_per_stage` adds up to %lld; %lld or two "
                            "more are expected.", (long long)sum, (long long)r->layers);
    }
    return LUO_OK;
}

/* Equal stages; if the embedding and the head have to count as layers for that, they do. */
static luo_status deal_layers(luo_arena *arena, luo_case *c, luo_err *err)
{
    const luo_suite_row *r = c->row;
    c->layers = LUO_NEW_N(arena, int64_t, r->pp);
    if (!c->layers) return luo_err_nomem(err);
    if (*r->layers_per_stage) return listed_layers(c, err);
    const bool ends = r->vpp == 1 && r->layers % r->pp != 0 && (r->layers + 2) % r->pp == 0;
    const int64_t all = c->model.layers + (ends ? 2 : 0);
    for (int32_t s = 0; s < r->pp; s++) c->layers[s] = all / r->pp + (s < all % r->pp);
    if (ends) {
        c->layers[0]--;
        c->layers[r->pp - 1]--;
    }
    return LUO_OK;
}

static luo_status deal_batch(luo_case *c, luo_err *err)
{
    const luo_suite_row *r = c->row;
    const int64_t each = r->gbs / r->dp;
    if (r->gbs % r->dp)
        return suite_refuse(r, LUO_EINPUT, err, "%lld sequences are not %d equal shares.",
                            (long long)r->gbs, (int)r->dp);
    int32_t b = r->mbs;
    if (b == 0) { /* not printed */
        b = r->pp > 1 || each < 4 ? 1 : 4;
        while (each % b) b--;
    }
    if (each % b)
        return suite_refuse(r, LUO_EINPUT, err, "%lld sequences of a replica are no whole "
                            "micro-batches of %d.", (long long)each, (int)b);
    c->micro_batch_sequences = b;
    c->micro_batches = (int32_t)(each / b);
    return LUO_OK;
}

/* Chunks that are equal only if the embedding and the head count as layers: programs have equal
 * ones, so two layers are added. */
static bool chunks_fall_short(const luo_suite_row *r)
{
    return r->vpp > 1 && r->layers % ((int64_t)r->pp * r->vpp) != 0;
}

static bool mixed(const luo_suite_row *r)
{
    return strcmp(r->gpu, "mixed") == 0;
}

static luo_status check_sizes(const luo_suite_row *r, luo_err *err)
{
    if (r->hidden < 1 || r->heads < 1 || r->layers < 1 || r->vocab < 1 || r->seq < 1 ||
        r->ffn < 1 || r->gbs < 1)
        return suite_refuse(r, LUO_EINPUT, err, "a size of the network or its batch is not "
                            "printed; nothing can be predicted without it.");
    if ((int64_t)r->tp * r->pp * r->dp * r->cp != r->gpus)
        return suite_refuse(r, LUO_EINPUT, err, "tp %d, pp %d, dp %d and cp %d are not the %d "
                            "GPUs.", (int)r->tp, (int)r->pp, (int)r->dp, (int)r->cp,
                            (int)r->gpus);
    if (chunks_fall_short(r) && (r->layers + 2) % ((int64_t)r->pp * r->vpp))
        return suite_refuse(r, LUO_EINPUT, err, "%lld layers are no %d equal chunks.",
                            (long long)r->layers, (int)(r->pp * r->vpp));
    if (r->experts > 0 || r->mla)
        return suite_refuse(r, LUO_EUNSUP, err, "experts and latent attention are not scored "
                            "yet.");
    return LUO_OK;
}

static luo_status assumptions(luo_arena *arena, luo_case *c, bool scaled, luo_err *err)
{
    const luo_suite_row *r = c->row;
    const bool fabric = luo_suite_nodes(r) > 1 && luo_suite_fabric_of(r).chosen && !mixed(r);
    char batch[64] = "";
    if (r->mbs == 0)
        snprintf(batch, sizeof batch, "micro-batch of %d chosen", (int)c->micro_batch_sequences);
    const char *rate = r->kind != LUO_STEP_MFU_ONLY ? ""
                       : *batch || fabric           ? "; convention of the rate unknown"
                                                    : "convention of the rate unknown";
    const char *more = chunks_fall_short(r) ? "two layers more, for equal chunks; " : "";
    c->assumed = luo_arena_printf(arena, "%s%s%s%s%s%s", more, batch, *batch && fabric ? "; " : "",
                                  fabric ? "fabric chosen" : "",
                                  scaled ? "layer times of another micro-batch, scaled" : "", rate);
    return c->assumed ? LUO_OK : luo_err_nomem(err);
}

/* Seconds of the step, also where FLOP/s were printed instead. */
static double measured(const luo_suite_row *r)
{
    if (r->step_s > 0) return r->step_s;
    const double rate = r->tflops_gpu * 1e12 * r->gpus;
    if (!(rate > 0)) return 0;
    if (r->kind == LUO_STEP_FROM_FLOPS96)
        return luo_flops_96(r->gbs, r->seq, r->layers, r->hidden, r->vocab) / rate;
    if (r->kind == LUO_STEP_FROM_FLOPS72)
        return luo_flops_72(r->gbs, r->seq, r->layers, r->hidden, r->vocab) / rate;
    return 0;
}

/* Cluster and profile of a row of one GPU type. */
static luo_status of_one_gpu(luo_arena *arena, luo_case *c, const luo_suite_kit *kit, luo_err *err)
{
    const luo_suite_row *r = c->row;
    const luo_suite_gpu *gpu = luo_suite_gpu_of(r->gpu);
    if (!gpu)
        return suite_refuse(r, LUO_EINPUT, err, "GPU `%s` has no profile of ours.", r->gpu);
    c->profile = kit->profile(kit->ctx, r, gpu->profile, err);
    if (!c->profile) return luo_err_at(err, err->st, r->file, r->line, 1);
    c->peak_flops = r->gpus * c->profile->peak_flops[c->dtype];
    return make_cluster(arena, r, gpu, c->profile, &c->cluster, err);
}

luo_status luo_case_make(luo_arena *arena, const luo_suite_row *r, const luo_suite_kit *kit,
                         luo_case *c, luo_err *err)
{
    bool scaled = false;
    LUO_TRY(check_sizes(r, err));
    *c = (luo_case){.row = r, .measured_s = measured(r), .stack = kit->stack(kit->ctx, r, err)};
    if (!c->stack) return luo_err_at(err, err->st, r->file, r->line, 1);
    c->dtype = strcmp(r->precision, "tf32") == 0 || strcmp(r->precision, "fp32") == 0 ? LUO_F32
                                                                                     : LUO_BF16;
    make_model(r, c->dtype, &c->model);
    if (chunks_fall_short(r)) c->model.layers += 2;
    LUO_TRY(place(arena, c, err));
    LUO_TRY(deal_layers(arena, c, err));
    LUO_TRY(deal_batch(c, err));
    LUO_TRY(mixed(r) ? luo_case_mixed(arena, c, kit, &scaled, err)
                     : of_one_gpu(arena, c, kit, err));
    return assumptions(arena, c, scaled, err);
}

/* ---- predictions ---- */

/* Rows whose source cut sequences so; the others get a ring. */
static bool exchanges_heads(const luo_suite_row *r)
{
    return strstr(r->note, "all-to-all over heads") != NULL;
}

static void exchange_heads(luo_plan *p)
{
    for (int32_t i = 0; i < p->npipelines; i++)
        for (int32_t k = 0; k < p->pipelines[i].nstages; k++) {
            luo_stage *s = (luo_stage *)(uintptr_t)&p->pipelines[i].stages[k]; /* just made */
            if (s->context_parallel > 1) s->context_kind = LUO_CONTEXT_A2A;
        }
}

luo_status luo_case_plan(luo_arena *arena, const luo_case *c, luo_plan **out, luo_err *err)
{
    const luo_suite_row *r = c->row;
    const luo_grid g = {.name = r->id, .model = &c->model, .cluster = c->cluster,
                        .dtype = c->dtype, .sequence_tokens = r->seq,
                        .micro_batches = c->micro_batches,
                        .micro_batch_sequences = c->micro_batch_sequences, .zero = r->zero,
                        .pipelines = r->dp, .stages = r->pp, .tp = r->tp, .chunks = r->vpp,
                        .context_parallel = r->cp,
                        .sequence_parallel = r->sp && r->tp > 1,
                        .recompute = (luo_recompute)r->recompute, .dev = c->dev,
                        .layers = r->vpp > 1 ? NULL : c->layers};
    LUO_TRY(luo_plan_grid(arena, &g, out, err));
    if (exchanges_heads(r)) exchange_heads(*out);
    return LUO_OK;
}

luo_memory_rules luo_case_memory(const luo_case *c)
{
    luo_memory_rules r = luo_stack_memory(c->stack);
    if (strcmp(c->row->system, "megatron-deepspeed") == 0 &&
        strcmp(c->row->date, "2022-02-28") >= 0)
        r.gradient_bytes = 4;
    return r;
}

double luo_case_printed(const luo_case *c, const luo_memory *m)
{
    if (strcmp(c->row->suite, "bloom") != 0) return (double)m->allocated;
    return (double)m->peak + c->profile->reserved_bytes;
}

luo_status luo_case_closed(luo_arena *scratch, const luo_case *c, luo_step_cost *out,
                           luo_err *err)
{
    const luo_suite_row *r = c->row;
    const luo_cost_ctx ctx = {.cluster = c->cluster, .stack = c->stack, .dtype = c->dtype};
    const luo_step_spec spec = {
        .model = &c->model, .sequence_tokens = r->seq,
        .micro_batch_sequences = c->micro_batch_sequences, .micro_batches = c->micro_batches,
        .tp = r->tp, .pp = r->pp, .dp = r->dp, .chunks = r->vpp,
        .context = {.c = r->cp, .inner = exchanges_heads(r) ? r->cp : 1,
                    .zigzag = c->model.causal && !exchanges_heads(r)},
        .schedule = r->vpp > 1 ? LUO_SCHED_INTERLEAVED : LUO_SCHED_1F1B,
        .recompute = r->recompute, .zero = r->zero, .sequence_parallel = r->sp && r->tp > 1,
        .prefetch_depth = LUO_PREFETCH_DEFAULT, .layers = r->vpp > 1 ? NULL : c->layers,
        .dev = c->dev};
    return luo_cost_step(scratch, &ctx, &spec, out, err);
}

double luo_case_naive(const luo_case *c)
{
    const luo_suite_row *r = c->row;
    if (!c->cluster || !(c->peak_flops > 0)) return 0;
    const double flops =
        r->recompute == LUO_RECOMPUTE_FULL
            ? luo_flops_96(r->gbs, r->seq, r->layers, r->hidden, r->vocab)
            : luo_flops_72(r->gbs, r->seq, r->layers, r->hidden, r->vocab);
    const double bubble = (double)(r->pp - 1) / ((double)r->vpp * c->micro_batches);
    return flops / c->peak_flops * (1 + bubble);
}
