/* uniform.c: is a plan the same on all of its pipelines, and what are its few numbers? */
#include <string.h>

#include "core/io/export/export_internal.h"

typedef struct uniform_check {
    export_job *job;
    const luo_plan *plan;
    const luo_stage *first; /* of the first pipeline */
    export_uniform *out;
} uniform_check;

#define CANNOT(check, at, fmt, ...)                                                                \
    export_cannot((check)->job, (at).text, "%s can't express " fmt, (check)->out->format,          \
                  __VA_ARGS__)

/* ---- what stands in a plan once ---- */

static luo_status check_whole(const uniform_check *check)
{
    const luo_plan *plan = check->plan;
    const char *format = check->out->format;
    if (plan->staggered)
        return export_cannot(check->job, "/optimizer_step",
                             "%s can't express a staggered optimizer step.", format);
    if (plan->state_layout.ndev > 0)
        return export_cannot(check->job, "/state_layout",
                             "%s can't express state in a layout of its own.", format);
    if (plan->nassignment > 0)
        return export_cannot(check->job, "/assignment",
                             "%s can't express which sequence goes where.", format);
    if (plan->nannotations > 0)
        return export_cannot(check->job, "/annotations/0",
                             "%s can't express the annotation of tensor `%s`.", format,
                             plan->annotations[0].tensor);
    return LUO_OK;
}

static luo_status check_pipeline(const uniform_check *check, int32_t p)
{
    const luo_pipeline *one = &check->plan->pipelines[p], *first = &check->plan->pipelines[0];
    if (one->micro_batches != first->micro_batches)
        return CANNOT(check, export_at_pipeline(p, "/micro_batches"),
                      "pipelines of different numbers of micro-batches, %d here and %d in "
                      "pipeline 0; equally many are expected.",
                      one->micro_batches, first->micro_batches);
    if (one->micro_batch_sequences != first->micro_batch_sequences)
        return CANNOT(check, export_at_pipeline(p, "/micro_batch_sequences"),
                      "micro-batches of %d sequences here and of %d in pipeline 0; one size is "
                      "expected.",
                      one->micro_batch_sequences, first->micro_batch_sequences);
    const int64_t tokens = check->plan->sequence_tokens * one->micro_batch_sequences;
    for (int32_t i = 0; one->micro_batch_tokens && i < one->micro_batches; i++)
        if (one->micro_batch_tokens[i] != tokens)
            return CANNOT(check, export_at_pipeline(p, "/micro_batch_tokens"),
                          "micro-batch %d of %lld tokens; all have %lld.", i,
                          (long long)one->micro_batch_tokens[i], (long long)tokens);
    if (one->nstages != first->nstages)
        return CANNOT(check, export_at_pipeline(p, "/stages"),
                      "pipelines of different numbers of stages, %d here and %d in pipeline 0; "
                      "equally many are expected.",
                      one->nstages, first->nstages);
    return LUO_OK;
}

/* ---- stages ---- */

static bool is_uneven(const uint32_t *share, int32_t n)
{
    for (int32_t i = 1; share && i < n; i++)
        if (share[i] != share[0]) return true;
    return false;
}

static luo_status check_devices(const uniform_check *check, int32_t p, int32_t s)
{
    const luo_stage *stage = &check->plan->pipelines[p].stages[s], *first = check->first;
    if (stage->nreroute > 0)
        return CANNOT(check, export_at_stage(p, s, "/reroute"),
                      "a stage without devices, which %s do.", "others");
    if (luo_stage_tp(stage) != luo_stage_tp(first))
        return CANNOT(check, export_at_stage(p, s, "/devices"),
                      "a tensor-parallel size of %d here and of %d in the first stage; one for all "
                      "is expected.",
                      luo_stage_tp(stage), luo_stage_tp(first));
    if (stage->context_parallel != first->context_parallel)
        return CANNOT(
            check, export_at_stage(p, s, "/context_parallel"),
            "a context-parallel size of %d here and of %d in the first stage; one for all "
            "is expected.",
            stage->context_parallel, first->context_parallel);
    if (is_uneven(stage->shares, luo_stage_tp(stage)))
        return CANNOT(check, export_at_stage(p, s, "/shares"), "%s.",
                      "uneven shares of tensor-parallel devices");
    if (is_uneven(stage->context_shares, stage->context_parallel))
        return CANNOT(check, export_at_stage(p, s, "/context_shares"), "%s.",
                      "uneven shares of context-parallel devices");
    if (stage->context_kind != first->context_kind ||
        stage->context_inner != first->context_inner ||
        stage->context_layout != first->context_layout)
        return CANNOT(check, export_at_stage(p, s, ""), "%s.",
                      "ways of context parallelism that differ by stage");
    if (stage->experts_dealt != first->experts_dealt)
        return CANNOT(check, export_at_stage(p, s, "/experts"), "%s.",
                      "experts that some stages cut and others deal");
    return LUO_OK;
}

static luo_status check_layers(const uniform_check *check, int32_t p, int32_t s)
{
    const luo_pipeline *pipeline = &check->plan->pipelines[p];
    const luo_stage *stage = &pipeline->stages[s];
    const luo_stage *same = &check->plan->pipelines[0].stages[s];
    for (int32_t c = 0; c < stage->nlayers; c++)
        if (stage->layers[c].lo != same->layers[c].lo || stage->layers[c].hi != same->layers[c].hi)
            return CANNOT(check, export_at_stage(p, s, "/layers"),
                          "layers [%d, %d) here and [%d, %d) in that stage of pipeline 0; the same "
                          "in all pipelines are expected.",
                          stage->layers[c].lo, stage->layers[c].hi, same->layers[c].lo,
                          same->layers[c].hi);
    if (stage->embedding != (s == 0))
        return CANNOT(check, export_at_stage(p, s, "/embedding"), "%s.",
                      "an embedding outside the first stage");
    if (stage->head != (s == pipeline->nstages - 1))
        return CANNOT(check, export_at_stage(p, s, "/head"), "%s.",
                      "a head outside the last stage");
    return LUO_OK;
}

/* ---- recompute ---- */

static int32_t count_recomputed(const luo_stage *stage, const luo_range *chunk)
{
    int32_t n = 0;
    for (int32_t layer = chunk->lo; layer < chunk->hi; layer++)
        n += export_recomputes(stage, layer);
    return n;
}

/* The largest number in a chunk; all: every layer of the plan is. */
static int32_t most_recomputed(const luo_plan *plan, bool *all, luo_recompute *mode)
{
    int32_t most = 0;
    *all = true;
    *mode = LUO_RECOMPUTE_NONE;
    for (int32_t p = 0; p < plan->npipelines; p++)
        for (int32_t s = 0; s < plan->pipelines[p].nstages; s++) {
            const luo_stage *stage = &plan->pipelines[p].stages[s];
            for (int32_t c = 0; c < stage->nlayers; c++) {
                const int32_t n = count_recomputed(stage, &stage->layers[c]);
                if (n > 0 && *mode == LUO_RECOMPUTE_NONE) *mode = stage->recompute;
                if (n > most) most = n;
                *all = *all && n == stage->layers[c].hi - stage->layers[c].lo;
            }
        }
    return most;
}

static luo_status check_recompute(const uniform_check *check, int32_t p, int32_t s, int32_t most)
{
    const luo_stage *stage = &check->plan->pipelines[p].stages[s];
    const export_at at =
        export_at_stage(p, s, stage->recompute || stage->nrecompute ? "/recompute" : "");
    for (int32_t c = 0; c < stage->nlayers; c++) {
        const luo_range *chunk = &stage->layers[c];
        const int32_t n = count_recomputed(stage, chunk), size = chunk->hi - chunk->lo;
        if (n > 0 && stage->recompute != check->out->recompute)
            return CANNOT(check, at, "recompute `%s` here and `%s` in another stage.",
                          luo_recompute_name(stage->recompute),
                          luo_recompute_name(check->out->recompute));
        if (n != (size < most ? size : most))
            return CANNOT(check, at,
                          "recompute of %d layers of [%d, %d) and of %d elsewhere; equally many in "
                          "every stage are expected.",
                          n, chunk->lo, chunk->hi, most);
        for (int32_t i = 0; i < n; i++)
            if (!export_recomputes(stage, chunk->lo + i))
                return CANNOT(check, at, "recompute of other layers than the first of [%d, %d).",
                              chunk->lo, chunk->hi);
    }
    return LUO_OK;
}

static luo_status find_recompute(const uniform_check *check)
{
    bool all;
    const int32_t most = most_recomputed(check->plan, &all, &check->out->recompute);
    if (most == 0) return LUO_OK;
    check->out->recompute_first = all ? 0 : most;
    for (int32_t p = 0; p < check->plan->npipelines; p++)
        for (int32_t s = 0; s < check->out->pp; s++) LUO_TRY(check_recompute(check, p, s, most));
    return LUO_OK;
}

/* ---- order of ranks ---- */

/* A plan may leave devices out: ranks count those that it has. */
static luo_status count_ranks(const uniform_check *check, int32_t **rank_of)
{
    int32_t *device, n, most = 0;
    LUO_TRY(luo_plan_devices(check->job->arena, check->plan, &device, &n, check->job->err));
    for (int32_t i = 0; i < n; i++)
        if (device[i] > most) most = device[i];
    *rank_of = LUO_NEW_N(check->job->arena, int32_t, most + 1);
    if (!*rank_of) return luo_err_nomem(check->job->err);
    for (int32_t i = 0; i < n; i++) (*rank_of)[device[i]] = i;
    return LUO_OK;
}

static int32_t rank_expected(const export_uniform *plan, int32_t p, int32_t s, int32_t i,
                             bool pipeline_inside)
{
    const int32_t block = pipeline_inside ? s + plan->pp * p : p + plan->dp * s;
    return i + plan->tp * plan->cp * block;
}

/* Number of devices, in the order of the plan, that stand where they should. */
static int32_t count_placed(const uniform_check *check, const int32_t *rank_of, bool inside)
{
    const export_uniform *out = check->out;
    const int32_t each = out->tp * out->cp;
    int32_t n = 0;
    for (int32_t p = 0; p < out->dp; p++)
        for (int32_t s = 0; s < out->pp; s++)
            for (int32_t i = 0; i < each; i++, n++) {
                const int32_t device = check->plan->pipelines[p].stages[s].dev[i];
                if (rank_of[device] != rank_expected(out, p, s, i, inside)) return n;
            }
    return n;
}

static luo_status find_order(const uniform_check *check, bool may_swap)
{
    export_uniform *out = check->out;
    const int32_t each = out->tp * out->cp, all = each * out->pp * out->dp;
    int32_t *rank_of;
    LUO_TRY(count_ranks(check, &rank_of));
    const int32_t outside = count_placed(check, rank_of, false);
    const int32_t inside = may_swap ? count_placed(check, rank_of, true) : -1;
    out->pipeline_inside = inside > outside;
    const int32_t placed = out->pipeline_inside ? inside : outside;
    if (placed == all) return LUO_OK;
    const int32_t p = placed / each / out->pp, s = placed / each % out->pp, i = placed % each;
    const int32_t device = check->plan->pipelines[p].stages[s].dev[i];
    return CANNOT(check, export_at_stage(p, s, "/devices"),
                  "this order of devices: device %d is rank %d, and rank %d is expected here.",
                  device, rank_of[device], rank_expected(out, p, s, i, out->pipeline_inside));
}

/* ---- all together ---- */

static luo_status count_layers(const uniform_check *check)
{
    export_uniform *out = check->out;
    int32_t *layers = LUO_NEW_N(check->job->arena, int32_t, out->pp * out->chunks);
    if (!layers) return luo_err_nomem(check->job->err);
    for (int32_t s = 0; s < out->pp; s++)
        for (int32_t c = 0; c < out->chunks; c++) {
            const luo_range *range = &check->plan->pipelines[0].stages[s].layers[c];
            layers[c * out->pp + s] = range->hi - range->lo;
        }
    out->layers = layers;
    return LUO_OK;
}

luo_status export_find_uniform(export_job *job, const char *format, bool may_swap,
                               export_uniform *out)
{
    const luo_plan *plan = job->source->plan;
    const luo_stage *first = &plan->pipelines[0].stages[0];
    const uniform_check check = {job, plan, first, out};
    *out = (export_uniform){.format = format,
                            .dp = plan->npipelines,
                            .pp = plan->pipelines[0].nstages,
                            .tp = luo_stage_tp(first),
                            .cp = first->context_parallel,
                            .chunks = plan->chunks,
                            .micro_batches = plan->pipelines[0].micro_batches,
                            .sequences = plan->pipelines[0].micro_batch_sequences,
                            .context_kind = first->context_kind,
                            .context_layout = first->context_layout,
                            .context_inner = first->context_inner,
                            .experts_dealt = first->experts_dealt};
    LUO_TRY(check_whole(&check));
    for (int32_t p = 0; p < plan->npipelines; p++) {
        LUO_TRY(check_pipeline(&check, p));
        for (int32_t s = 0; s < out->pp; s++) {
            LUO_TRY(check_devices(&check, p, s));
            LUO_TRY(check_layers(&check, p, s));
        }
    }
    LUO_TRY(find_recompute(&check));
    LUO_TRY(find_order(&check, may_swap));
    return count_layers(&check);
}

bool export_is_even(const export_uniform *plan)
{
    for (int32_t i = 1; i < plan->pp * plan->chunks; i++)
        if (plan->layers[i] != plan->layers[0]) return false;
    return true;
}

/* Block g of equally many pipelines has pipelines g * n .. g * n + n - 1. */
static luo_status check_groups(export_job *job, const export_uniform *uniform)
{
    const luo_plan *plan = job->source->plan;
    for (int32_t g = 0; g < plan->ngroups; g++) {
        const int32_t n = plan->expert_groups[0].n;
        bool block = plan->expert_groups[g].n == n;
        for (int32_t i = 0; block && i < n; i++)
            block = plan->expert_groups[g].pipeline[i] == g * n + i;
        if (!block)
            return export_cannot(job, "/expert_groups",
                                 "%s can't express these groups of pipelines with common experts; "
                                 "neighbours in groups of one size are expected.",
                                 uniform->format);
    }
    return LUO_OK;
}

luo_status export_find_experts(export_job *job, const export_uniform *uniform, int32_t *parts)
{
    const luo_plan *plan = job->source->plan;
    LUO_TRY(check_groups(job, uniform));
    if (plan->moe_exchange != LUO_ALLTOALL_FLAT)
        return export_cannot(job, "/moe_exchange",
                             "%s can't express how rows of experts travel; `flat` is expected.",
                             uniform->format);
    *parts = plan->ngroups > 0 ? plan->expert_groups[0].n : 1;
    if (uniform->experts_dealt) *parts *= uniform->tp * uniform->cp;
    if (uniform->experts_dealt && plan->expert_parallel) *parts = plan->expert_parallel;
    return LUO_OK;
}
