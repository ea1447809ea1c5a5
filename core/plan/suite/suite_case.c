/* suite_case.c: a published row as model, cluster and uniform plan of ours. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/plan/grid.h"
#include "core/plan/suite/suite_internal.h"

const char *luo_step_kind_name(luo_step_kind kind)
{
    static const char *const names[] = {LUO_STEP_KIND_LIST(LUO_WORD_TEXT)};
    return names[kind];
}

bool luo_suite_excluded(const luo_suite_row *row)
{
    return strstr(row->note, "exclude from fits") != NULL || strstr(row->note, "fits the ") != NULL;
}

int32_t luo_suite_nodes(const luo_suite_row *row)
{
    return (row->gpus + row->gpus_per_node - 1) / row->gpus_per_node;
}

luo_status suite_refuse(const luo_suite_row *row, luo_status st, luo_err *err, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    luo_err_set(err, st, "%s: %s", row->id, text);
    return luo_err_at(err, st, row->file, row->line, 1);
}

/* ---- model ---- */

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool is_gated(const luo_suite_row *row)
{
    static const char *const families[] = {"llama",    "deepseek", "mixtral", "mistral",
                                           "qwen",     "baichuan", "aquila",  "chatglm",
                                           "internlm", "kimi",     "gpt-oss"};
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (begins(row->model, families[i])) return true;
    return false;
}

/* Vocabularies are padded to a multiple of 128 a tensor-parallel device. */
static int64_t padded(int64_t vocab, int32_t tp)
{
    const int64_t unit = 128 * (int64_t)tp;
    return (vocab + unit - 1) / unit * unit;
}

/* Rows do not print sizes of latent attention: those of the published DeepSeek networks. */
static luo_latent latent_of(const luo_suite_row *row)
{
    const bool lite = strstr(row->model, "lite") != NULL;
    if (!row->mla) return (luo_latent){0};
    return (luo_latent){
        .q_lora = lite ? 0 : 1536, .kv_lora = 512, .nope = 128, .rope = 64, .v = 128};
}

static void add_experts(const luo_suite_row *row, luo_model *model)
{
    if (row->experts == 0) return;
    model->family = LUO_FAMILY_MOE;
    model->moe = (luo_moe){.experts = row->experts,
                           .experts_per_token = row->topk,
                           .expert_ffn_hidden = row->moe_ffn,
                           .shared_experts = row->shared_ffn > 0,
                           .shared_ffn_hidden = row->shared_ffn,
                           .first_dense_layers = row->dense_layers,
                           .every_layers = 1};
}

static void make_model(const luo_suite_row *row, luo_dtype dtype, luo_model *model)
{
    const luo_latent latent = latent_of(row);
    const int64_t head = row->mla ? latent.nope + latent.rope : row->hidden / row->heads;
    const bool gated = is_gated(row), mpt = begins(row->model, "mpt");
    const bool biases = !gated && !mpt && row->experts == 0; /* none beside experts */
    /* Sailor's networks are lists of layers that share nothing: with one replica of two stages its
     * reductions take no time (rows sm-N2_D1, sg-neo-N4_D1). */
    const bool apart = (gated && !strstr(row->note, "tied tables")) || begins(row->suite, "sailor");
    *model = (luo_model){.name = row->model,
                         .family = gated ? LUO_FAMILY_LLAMA : LUO_FAMILY_GPT,
                         .layers = row->layers,
                         .hidden = row->hidden,
                         .ffn_hidden = row->ffn,
                         .heads = row->heads,
                         .kv_heads = row->kv_heads ? row->kv_heads : row->heads,
                         .head_dim = head,
                         .latent = latent,
                         .vocab = padded(row->vocab, row->tp),
                         .max_sequence_tokens = row->seq,
                         .tied_embeddings = !apart,
                         .linear_bias = biases,
                         .out_bias = biases,
                         .qkv_bias = biases,
                         .causal = true,
                         .norm = gated ? LUO_NORM_RMS : LUO_NORM_LAYER,
                         .activation = gated ? LUO_ACT_SWIGLU : LUO_ACT_GELU,
                         .position = gated || mpt ? LUO_POS_ROPE : LUO_POS_LEARNED,
                         .norm_eps = gated ? 1e-6 : 1e-5,
                         .rope_base = 10000,
                         .dtype = dtype};
    add_experts(row, model);
}

/* ---- cluster ---- */

static luo_status make_cluster(luo_arena *arena, const luo_suite_row *row, const luo_suite_gpu *gpu,
                               const luo_profile *profile, luo_cluster **out, luo_err *err)
{
    static const char *const racks[] = {"r0"};
    const int32_t nodes = luo_suite_nodes(row);
    const bool pcie = !(gpu->nvlink_bytes_per_s > 0);
    luo_suite_fabric fabric = luo_suite_fabric_of(row);
    luo_cluster *cluster = LUO_NEW(arena, luo_cluster);
    luo_node_group *group = LUO_NEW(arena, luo_node_group);
    if (!cluster || !group) return luo_err_nomem(err);
    if (fabric.nics > row->gpus_per_node) {
        fabric.nic_bytes_per_s *= (double)fabric.nics / row->gpus_per_node;
        fabric.nics = row->gpus_per_node;
    }
    /* Latencies are those of the clusters that we ship. */
    *group = (luo_node_group){.name = "node",
                              .site = "main",
                              .nodes = nodes,
                              .devices_per_node = row->gpus_per_node,
                              .nracks = 1,
                              .racks = racks,
                              .profile = profile,
                              .base_slowdown = 1,
                              .scale_up = pcie ? LUO_SCALE_UP_NONE : LUO_SCALE_UP_NVSWITCH,
                              .scale_up_bytes_per_s = gpu->nvlink_bytes_per_s,
                              .scale_up_latency_s = pcie ? 0 : 1e-6,
                              .has_pcie = pcie,
                              .pcie_bytes_per_s = gpu->pcie_bytes_per_s,
                              .pcie_latency_s = pcie ? 1.5e-6 : 0,
                              .sockets = 1,
                              .devices_per_switch = row->gpus_per_node,
                              .nics = nodes > 1 ? fabric.nics : 0,
                              .nic_bytes_per_s = fabric.nic_bytes_per_s,
                              .nic_latency_s = 2e-6,
                              .host_cores = 1};
    *cluster = (luo_cluster){.name = row->fabric,
                             .ngroups = 1,
                             .groups = group,
                             .fabric = LUO_FABRIC_SINGLE,
                             .hop_latency_s = 0.5e-6};
    *out = cluster;
    return luo_cluster_finish(arena, cluster, err);
}

/* ---- how it is cut ---- */

/* Tensor groups first, then context, replicas, stages, as Megatron and DeepSpeed number ranks. */
static luo_status place(luo_arena *arena, luo_case *one, luo_err *err)
{
    const luo_suite_row *row = one->row;
    const int32_t w = row->tp * row->cp;
    one->dev = LUO_NEW_N(arena, int32_t, row->gpus);
    if (!one->dev) return luo_err_nomem(err);
    for (int32_t d = 0; d < row->dp; d++)
        for (int32_t s = 0; s < row->pp; s++)
            for (int32_t i = 0; i < w; i++)
                one->dev[((int64_t)d * row->pp + s) * w + i] = (s * row->dp + d) * w + i;
    return LUO_OK;
}

static luo_status listed_layers(luo_case *one, luo_err *err)
{
    const luo_suite_row *row = one->row;
    const char *at = row->layers_per_stage;
    int64_t sum = 0;
    for (int32_t s = 0; s < row->pp; s++) {
        char *end;
        one->layers[s] = strtoll(at, &end, 10);
        if (end == at || one->layers[s] < 0 || *end != (s + 1 < row->pp ? '/' : 0))
            return suite_refuse(row, LUO_EINPUT, err,
                                "`layers_per_stage` is `%s`; %d numbers joined "
                                "by / are expected.",
                                row->layers_per_stage, (int)row->pp);
        sum += one->layers[s];
        at = end + 1;
    }
    if (sum == row->layers + 2) {
        one->layers[0]--;
        one->layers[row->pp - 1]--;
    } else if (sum != row->layers) {
        return suite_refuse(row, LUO_EINPUT, err,
                            "`layers_per_stage` adds up to %lld; %lld or two "
                            "more are expected.",
                            (long long)sum, (long long)row->layers);
    }
    return LUO_OK;
}

/* Where virtual stages cannot be equal, those at the ends, which have the embedding and the head,
 * are shorter, then the ones before the last. */
static luo_status deal_chunks(luo_arena *arena, luo_case *one, luo_err *err)
{
    const luo_suite_row *row = one->row;
    const int64_t n = (int64_t)row->pp * row->vpp, longer = row->layers % n;
    one->chunks = LUO_NEW_N(arena, int64_t, n);
    if (!one->chunks) return luo_err_nomem(err);
    for (int64_t i = 0; i < n; i++) one->chunks[i] = row->layers / n + (i > 0 && i <= longer);
    for (int32_t s = 0; s < row->pp; s++) {
        one->layers[s] = 0;
        for (int32_t c = 0; c < row->vpp; c++) one->layers[s] += one->chunks[c * row->pp + s];
    }
    return LUO_OK;
}

/* Equal stages; if the embedding and the head have to count as layers for that, they do. */
static luo_status deal_layers(luo_arena *arena, luo_case *one, luo_err *err)
{
    const luo_suite_row *row = one->row;
    one->layers = LUO_NEW_N(arena, int64_t, row->pp);
    if (!one->layers) return luo_err_nomem(err);
    if (*row->layers_per_stage) return listed_layers(one, err);
    if (row->vpp > 1 && one->model.layers % ((int64_t)row->pp * row->vpp))
        return deal_chunks(arena, one, err);
    const bool ends =
        row->vpp == 1 && row->layers % row->pp != 0 && (row->layers + 2) % row->pp == 0;
    const int64_t all = one->model.layers + (ends ? 2 : 0);
    for (int32_t s = 0; s < row->pp; s++) one->layers[s] = all / row->pp + (s < all % row->pp);
    if (ends) {
        one->layers[0]--;
        one->layers[row->pp - 1]--;
    }
    return LUO_OK;
}

static luo_status deal_batch(luo_case *one, luo_err *err)
{
    const luo_suite_row *row = one->row;
    const int64_t each = row->gbs / row->dp;
    if (row->gbs % row->dp)
        return suite_refuse(row, LUO_EINPUT, err, "%lld sequences are not %d equal shares.",
                            (long long)row->gbs, (int)row->dp);
    int32_t b = row->mbs;
    if (b == 0) { /* not printed */
        b = row->pp > 1 || each < 4 ? 1 : 4;
        while (each % b) b--;
    }
    if (each % b)
        return suite_refuse(row, LUO_EINPUT, err,
                            "%lld sequences of a replica are no whole "
                            "micro-batches of %d.",
                            (long long)each, (int)b);
    one->micro_batch_sequences = b;
    one->micro_batches = (int32_t)(each / b);
    return LUO_OK;
}

/* Chunks that are equal only if the embedding and the head count as layers: two layers are added.
 */
static bool chunks_fall_short(const luo_suite_row *row)
{
    const int64_t n = (int64_t)row->pp * row->vpp;
    return row->vpp > 1 && row->layers % n != 0 && (row->layers + 2) % n == 0;
}

static bool mixed(const luo_suite_row *row)
{
    return strcmp(row->gpu, "mixed") == 0;
}

static luo_status check_experts(const luo_suite_row *row, luo_err *err)
{
    const int32_t width = row->tp * row->cp;
    const bool sizes = row->topk >= 1 && row->moe_ffn >= 1 && row->ep >= 1;
    if (!sizes ||
        (row->ep > width ? row->ep % width || row->dp % (row->ep / width) : width % row->ep))
        return suite_refuse(row, LUO_EUNSUP, err,
                            "experts are scored where their sizes are printed and `ep` divides the "
                            "GPUs of a stage, or is a multiple of them that divides those of all "
                            "replicas.");
    return LUO_OK;
}

static luo_status check_sizes(const luo_suite_row *row, luo_err *err)
{
    if (row->hidden < 1 || row->heads < 1 || row->layers < 1 || row->vocab < 1 || row->seq < 1 ||
        row->ffn < 1 || row->gbs < 1)
        return suite_refuse(row, LUO_EINPUT, err,
                            "a size of the network or its batch is not "
                            "printed; nothing can be predicted without it.");
    if ((int64_t)row->tp * row->pp * row->dp * row->cp != row->gpus)
        return suite_refuse(row, LUO_EINPUT, err,
                            "tp %d, pp %d, dp %d and cp %d are not the %d "
                            "GPUs.",
                            (int)row->tp, (int)row->pp, (int)row->dp, (int)row->cp, (int)row->gpus);
    if (row->vpp > 1 && !chunks_fall_short(row) && row->layers < (int64_t)row->pp * row->vpp)
        return suite_refuse(row, LUO_EINPUT, err, "%lld layers are fewer than the %lld chunks.",
                            (long long)row->layers, (long long)row->pp * row->vpp);
    if (row->mla && !begins(row->model, "deepseek"))
        return suite_refuse(row, LUO_EUNSUP, err,
                            "latent attention is scored for networks of DeepSeek, whose sizes are "
                            "known.");
    return row->experts > 0 ? check_experts(row, err) : LUO_OK;
}

/* Words of notes whose effect no constant or rule of ours has. */
static const struct {
    const char *word, *system, *told;
} not_modelled[] = {
    {"async TP", "fsdp", "overlap of tensor parallelism left out"},
};

/* torch's selective checkpointing keeps attention and every second product, and computes the rest
 * again (pytorch/torchtitan, activation_checkpoint.py): about half of a layer. */
static bool half_again(const luo_suite_row *row)
{
    return row->recompute == LUO_RECOMPUTE_SELECTIVE && strcmp(row->system, "fsdp") == 0;
}

/* Those of the row, each followed by "; ". */
static const char *left_aside(luo_arena *arena, const luo_suite_row *row)
{
    const bool whole = row->experts > 0 && row->ep > 1 && row->tp > 1;
    const char *all = whole ? "experts whole on a GPU, not cut by tensor parallelism; " : "";
    if (half_again(row))
        all = luo_arena_printf(arena, "%sselective recomputation taken as that of every second "
                               "layer; ", all);
    for (size_t i = 0; all && i < sizeof not_modelled / sizeof *not_modelled; i++)
        if (strcmp(row->system, not_modelled[i].system) == 0 &&
            strstr(row->note, not_modelled[i].word))
            all = luo_arena_printf(arena, "%s%s; ", all, not_modelled[i].told);
    return all;
}

static luo_status assumptions(luo_arena *arena, luo_case *one, bool scaled, luo_err *err)
{
    const luo_suite_row *row = one->row;
    const char *aside = left_aside(arena, row);
    const bool fabric = luo_suite_nodes(row) > 1 && luo_suite_fabric_of(row).chosen && !mixed(row);
    char batch[64] = "";
    if (row->mbs == 0)
        snprintf(batch, sizeof batch, "micro-batch of %d chosen", (int)one->micro_batch_sequences);
    const char *rate = row->kind != LUO_STEP_MFU_ONLY ? ""
                       : *batch || fabric             ? "; convention of the rate unknown"
                                                      : "convention of the rate unknown";
    const char *more = chunks_fall_short(row) ? "two layers more, for equal chunks; "
                       : one->chunks          ? "chunks of unequal length; "
                                              : "";
    if (!aside) return luo_err_nomem(err);
    one->assumed =
        luo_arena_printf(arena, "%s%s%s%s%s%s%s", aside, more, batch, *batch && fabric ? "; " : "",
                         fabric ? "fabric chosen" : "",
                         scaled ? "layer times of another micro-batch, scaled" : "", rate);
    return one->assumed ? LUO_OK : luo_err_nomem(err);
}

/* Seconds of the step, also where FLOP/s were printed instead. */
static double find_seconds(const luo_suite_row *row)
{
    if (row->step_s > 0) return row->step_s;
    const double rate = row->tflops_gpu * 1e12 * row->gpus;
    if (!(rate > 0)) return 0;
    if (row->kind == LUO_STEP_FROM_FLOPS96)
        return luo_step_flops_96(row->gbs, row->seq, row->layers, row->hidden, row->vocab) / rate;
    if (row->kind == LUO_STEP_FROM_FLOPS72)
        return luo_step_flops_72(row->gbs, row->seq, row->layers, row->hidden, row->vocab) / rate;
    return 0;
}

/* Cluster and profile of a row of one GPU type. */
static luo_status of_one_gpu(luo_arena *arena, luo_case *one, const luo_suite_kit *kit,
                             luo_err *err)
{
    const luo_suite_row *row = one->row;
    const luo_suite_gpu *gpu = luo_suite_gpu_of(row->gpu);
    if (!gpu)
        return suite_refuse(row, LUO_EINPUT, err, "GPU `%s` has no profile of ours.", row->gpu);
    one->profile = kit->profile(kit->ctx, row, gpu->profile, err);
    if (!one->profile) return luo_err_at(err, err->st, row->file, row->line, 1);
    one->peak_flops = row->gpus * (strcmp(row->precision, "fp8") == 0
                                       ? one->profile->fp8_flops
                                       : one->profile->peak_flops[one->dtype]);
    return make_cluster(arena, row, gpu, one->profile, &one->cluster, err);
}

luo_status luo_case_make(luo_arena *arena, const luo_suite_row *row, const luo_suite_kit *kit,
                         luo_case *one, luo_err *err)
{
    bool scaled = false;
    LUO_TRY(check_sizes(row, err));
    *one = (luo_case){
        .row = row, .measured_s = find_seconds(row), .stack = kit->stack(kit->ctx, row, err)};
    if (!one->stack) return luo_err_at(err, err->st, row->file, row->line, 1);
    one->dtype = strcmp(row->precision, "tf32") == 0 || strcmp(row->precision, "fp32") == 0
                     ? LUO_F32
                     : LUO_BF16;
    make_model(row, one->dtype, &one->model);
    if (chunks_fall_short(row)) one->model.layers += 2;
    LUO_TRY(place(arena, one, err));
    LUO_TRY(deal_layers(arena, one, err));
    LUO_TRY(deal_batch(one, err));
    LUO_TRY(mixed(row) ? luo_case_mixed(arena, one, kit, &scaled, err)
                       : of_one_gpu(arena, one, kit, err));
    return assumptions(arena, one, scaled, err);
}

/* ---- predictions ---- */

/* Rows whose source cut sequences so; the others get a ring. */
static bool exchanges_heads(const luo_suite_row *row)
{
    return strstr(row->note, "all-to-all over heads") != NULL;
}

/* Every second layer of each stage. */
static luo_status recompute_half(luo_arena *arena, luo_plan *plan, luo_err *err)
{
    for (int32_t i = 0; i < plan->npipelines; i++)
        for (int32_t k = 0; k < plan->pipelines[i].nstages; k++) {
            luo_stage *stage =
                (luo_stage *)(uintptr_t)&plan->pipelines[i].stages[k]; /* just made */
            int32_t n = 0, layers = 0;
            for (int32_t r = 0; r < stage->nlayers; r++)
                layers += stage->layers[r].hi - stage->layers[r].lo;
            luo_range *half = LUO_NEW_N(arena, luo_range, layers + 1);
            if (!half) return luo_err_nomem(err);
            for (int32_t r = 0; r < stage->nlayers; r++)
                for (int32_t l = stage->layers[r].lo + 1; l < stage->layers[r].hi; l += 2)
                    half[n++] = (luo_range){l, l + 1};
            stage->recompute = n ? LUO_RECOMPUTE_FULL : LUO_RECOMPUTE_NONE;
            stage->recompute_layers = half;
            stage->nrecompute = n;
        }
    return LUO_OK;
}

static void exchange_heads(luo_plan *plan)
{
    for (int32_t i = 0; i < plan->npipelines; i++)
        for (int32_t k = 0; k < plan->pipelines[i].nstages; k++) {
            luo_stage *stage =
                (luo_stage *)(uintptr_t)&plan->pipelines[i].stages[k]; /* just made */
            if (stage->context_parallel > 1) stage->context_kind = LUO_CONTEXT_A2A;
        }
}

/* Experts lie whole on the `ep` devices that have them all: those of a stage, tensor and context
 * ranks alike, or of the same stage of neighbouring replicas. */
static luo_status deal_experts(luo_arena *arena, const luo_suite_row *row, luo_plan *plan,
                               luo_err *err)
{
    const int32_t width = row->tp * row->cp;
    for (int32_t i = 0; i < plan->npipelines; i++)
        for (int32_t k = 0; k < plan->pipelines[i].nstages; k++)
            ((luo_stage *)(uintptr_t)&plan->pipelines[i].stages[k])->experts_dealt = true;
    if (row->ep < width) plan->expert_parallel = row->ep;
    if (row->ep <= width) return LUO_OK;
    const int32_t ep = row->ep / width, n = row->dp / ep;
    struct luo_expert_group *groups = LUO_NEW_N(arena, struct luo_expert_group, n);
    int32_t *pipeline = LUO_NEW_N(arena, int32_t, row->dp);
    if (!groups || !pipeline) return luo_err_nomem(err);
    for (int32_t i = 0; i < row->dp; i++) pipeline[i] = i;
    for (int32_t g = 0; g < n; g++)
        groups[g] = (struct luo_expert_group){.n = ep, .pipeline = pipeline + g * ep};
    plan->ngroups = n;
    plan->expert_groups = groups;
    return LUO_OK;
}

luo_status luo_case_plan(luo_arena *arena, const luo_case *one, luo_plan **out, luo_err *err)
{
    const luo_suite_row *row = one->row;
    const luo_grid grid = {.name = row->id,
                           .model = &one->model,
                           .cluster = one->cluster,
                           .dtype = one->dtype,
                           .sequence_tokens = row->seq,
                           .micro_batches = one->micro_batches,
                           .micro_batch_sequences = one->micro_batch_sequences,
                           .zero = row->zero,
                           .pipelines = row->dp,
                           .stages = row->pp,
                           .tp = row->tp,
                           .chunks = row->vpp,
                           .context_parallel = row->cp,
                           .sequence_parallel = row->sp && row->tp > 1,
                           .recompute = (luo_recompute)row->recompute,
                           .dev = one->dev,
                           .layers = row->vpp > 1 ? one->chunks : one->layers};
    LUO_TRY(luo_plan_grid(arena, &grid, out, err));
    if (exchanges_heads(row)) exchange_heads(*out);
    if (half_again(row)) LUO_TRY(recompute_half(arena, *out, err));
    return row->experts > 0 && row->ep > 1 ? deal_experts(arena, row, *out, err) : LUO_OK;
}

luo_memory_rules luo_case_memory(const luo_case *one)
{
    luo_memory_rules rules = luo_stack_memory(one->stack);
    if (strcmp(one->row->system, "megatron-deepspeed") == 0 &&
        strcmp(one->row->date, "2022-02-28") >= 0)
        rules.gradient_bytes = 4;
    return rules;
}

double luo_case_printed(const luo_case *one, const luo_memory *memory)
{
    if (strcmp(one->row->suite, "bloom") != 0) return (double)memory->allocated;
    return (double)memory->peak + one->profile->reserved_bytes;
}

luo_status luo_case_closed(luo_arena *scratch, const luo_case *one, luo_step_cost *out,
                           luo_err *err)
{
    const luo_step_in in = {.model = &one->model, .cluster = one->cluster, .stack = one->stack,
                            .sequence_tokens = one->row->seq};
    const size_t mark = luo_arena_mark(scratch);
    luo_plan *plan;
    LUO_TRY(luo_case_plan(scratch, one, &plan, err));
    if (!luo_plan_step_knows(plan))
        return suite_refuse(one->row, LUO_EUNSUP, err,
                            "experts that replicas share have no closed form.");
    LUO_TRY(luo_plan_step(scratch, &in, plan, out, err));
    luo_arena_reset(scratch, mark);
    return LUO_OK;
}

double luo_case_naive(const luo_case *one)
{
    const luo_suite_row *row = one->row;
    if (!one->cluster || !(one->peak_flops > 0)) return 0;
    const double flops =
        row->recompute == LUO_RECOMPUTE_FULL
            ? luo_step_flops_96(row->gbs, row->seq, row->layers, row->hidden, row->vocab)
            : luo_step_flops_72(row->gbs, row->seq, row->layers, row->hidden, row->vocab);
    const double bubble = (double)(row->pp - 1) / ((double)row->vpp * one->micro_batches);
    return flops / one->peak_flops * (1 + bubble);
}
