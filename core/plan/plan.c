#include "core/plan/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/vec.h"

bool luo_shard_has_copies(const luo_sharding *sharding, int32_t npipelines)
{
    return sharding->kind == LUO_SHARD_HYBRID && sharding->pipelines < npipelines;
}

const char *luo_shard_name(luo_shard s)
{
    static const char *const names[] = {LUO_SHARD_LIST(LUO_WORD_TEXT)};
    return names[s];
}

const char *luo_recompute_name(luo_recompute r)
{
    static const char *const names[] = {LUO_RECOMPUTE_LIST(LUO_WORD_TEXT)};
    return names[r];
}

int32_t luo_stage_tp(const luo_stage *st)
{
    return st->ndev / st->context_parallel;
}

/* ---- context parallelism ---- */

const char *luo_context_kind_name(luo_context_kind k)
{
    static const char *const names[] = {LUO_CONTEXT_KIND_LIST(LUO_WORD_TEXT)};
    return names[k];
}

const char *luo_context_layout_name(luo_context_layout l)
{
    static const char *const names[] = {LUO_CONTEXT_LAYOUT_LIST(LUO_WORD_TEXT)};
    return names[l];
}

luo_context luo_plan_context(const luo_plan *plan, bool causal, int32_t i)
{
    const luo_stage *stage = &plan->pipelines[i].stages[0];
    luo_context context = {
        .c = stage->context_parallel, .inner = 1, .share = stage->context_shares};
    if (stage->context_kind == LUO_CONTEXT_A2A) context.inner = context.c;
    if (stage->context_kind == LUO_CONTEXT_2D && stage->context_inner > 0)
        context.inner = stage->context_inner;
    context.zigzag =
        stage->context_layout == LUO_LAYOUT_ZIGZAG ||
        (stage->context_layout == LUO_LAYOUT_AUTO && causal && context.inner < context.c);
    return context;
}

bool luo_plan_has_context(const luo_plan *plan)
{
    for (int32_t i = 0; i < plan->npipelines; i++)
        for (int32_t k = 0; k < plan->pipelines[i].nstages; k++)
            if (plan->pipelines[i].stages[k].context_parallel > 1) return true;
    return false;
}

static int64_t least_multiple(int64_t a, int64_t b)
{
    int64_t x = a, y = b;
    while (y) {
        const int64_t r = x % y;
        x = y;
        y = r;
    }
    return a / x * b;
}

/* What one token range is cut into among the tensor-parallel ranks of a stage: by the shares where
 * activations are cut, evenly where keys and values are. */
static int64_t tensor_cut(const luo_stage *stage)
{
    int64_t sum = 0;
    const int32_t tp = luo_stage_tp(stage);
    for (int32_t k = 0; k < tp; k++) sum += stage->shares ? stage->shares[k] : 1;
    return least_multiple(sum, tp);
}

int64_t luo_plan_context_multiple(const luo_plan *plan, bool causal, int32_t i)
{
    const luo_context context = luo_plan_context(plan, causal, i);
    int64_t cuts = 1;
    if (!luo_context_is_on(&context)) return 1;
    for (int32_t k = 0; k < plan->pipelines[i].nstages; k++)
        cuts = least_multiple(cuts, tensor_cut(&plan->pipelines[i].stages[k]));
    if (context.inner == 1 && !plan->sequence_parallel) cuts = 1;
    return cuts * luo_context_multiple(&context);
}

int64_t luo_plan_padded(int64_t tokens, int64_t row_tokens, int64_t multiple)
{
    if (row_tokens < 1 || tokens % row_tokens) return luo_context_pad(tokens, multiple);
    return tokens / row_tokens * luo_context_pad(row_tokens, multiple);
}

/* ---- canonical text: keys sorted, no blanks, every default written out ---- */

typedef struct sink { /* into s, or into the hash alone when s is NULL */
    luo_str *s;
    uint64_t hash;
} sink;

static void put(sink *o, const char *text)
{
    if (o->s) luo_str_add(o->s, text);
    else o->hash = luo_hash_str(o->hash, text);
}

static void put_int(sink *o, int64_t v)
{
    char buf[24];
    snprintf(buf, sizeof buf, "%" PRId64, v);
    put(o, buf);
}

static void put_bool(sink *o, bool v)
{
    put(o, v ? "true" : "false");
}

/* As jansson writes it: the reader allows printable ASCII only, so two escapes are enough. */
static void put_text(sink *o, const char *text)
{
    put(o, "\"");
    for (const char *p = text; *p; p++) {
        const char c[3] = {'\\', *p, 0};
        put(o, *p == '"' || *p == '\\' ? c : c + 1);
    }
    put(o, "\"");
}

static void put_ids(sink *o, const int32_t *v, int32_t n)
{
    put(o, "[");
    for (int32_t i = 0; i < n; i++) {
        if (i) put(o, ",");
        put_int(o, v[i]);
    }
    put(o, "]");
}

static void put_ranges(sink *o, const luo_range *range, int32_t n)
{
    put(o, "[");
    for (int32_t i = 0; i < n; i++) {
        put(o, i ? ",[" : "[");
        put_int(o, range[i].lo);
        put(o, ",");
        put_int(o, range[i].hi);
        put(o, "]");
    }
    put(o, "]");
}

static void put_shares(sink *o, const luo_stage *st)
{
    const int32_t tp = luo_stage_tp(st);
    put(o, ",\"shares\":[");
    for (int32_t i = 0; i < tp; i++) {
        if (i) put(o, ",");
        put_int(o, st->shares ? st->shares[i] : 1);
    }
    put(o, "]}");
}

/* What is at its default is no part of the form: plans from before these keys keep their hash. */
static void put_context(sink *o, const luo_stage *st)
{
    put(o, "{");
    if (st->context_inner) {
        put(o, "\"context_inner\":");
        put_int(o, st->context_inner);
        put(o, ",");
    }
    if (st->context_kind) {
        put(o, "\"context_kind\":");
        put_text(o, luo_context_kind_name(st->context_kind));
        put(o, ",");
    }
    if (st->context_layout) {
        put(o, "\"context_layout\":");
        put_text(o, luo_context_layout_name(st->context_layout));
        put(o, ",");
    }
    put(o, "\"context_parallel\":");
    put_int(o, st->context_parallel);
    if (!st->context_shares) return;
    put(o, ",\"context_shares\":[");
    for (int32_t i = 0; i < st->context_parallel; i++) {
        if (i) put(o, ",");
        put_int(o, st->context_shares[i]);
    }
    put(o, "]");
}

static void put_reroute(sink *o, const luo_stage *st)
{
    for (int32_t i = 0; i < st->nreroute; i++) {
        put(o, i ? ",{\"micro_batches\":" : ",\"reroute\":[{\"micro_batches\":");
        put_int(o, st->reroute[i].micro_batches);
        put(o, ",\"pipeline\":");
        put_int(o, st->reroute[i].pipeline);
        put(o, i == st->nreroute - 1 ? "}]" : "}");
    }
}

static void put_stage(sink *o, const luo_stage *st)
{
    put_context(o, st);
    put(o, ",\"devices\":");
    put_ids(o, st->dev, st->ndev);
    put(o, ",\"embedding\":");
    put_bool(o, st->embedding);
    put(o, st->experts_dealt ? ",\"experts\":\"expert\",\"head\":"
                             : ",\"experts\":\"tensor\",\"head\":");
    put_bool(o, st->head);
    put(o, ",\"layers\":");
    put_ranges(o, st->layers, st->nlayers);
    put(o, ",\"recompute\":{\"layers\":");
    put_ranges(o, st->recompute_layers, st->nrecompute);
    put(o, ",\"mode\":");
    put_text(o, luo_recompute_name(st->recompute));
    put(o, "}");
    put_reroute(o, st);
    put_shares(o, st);
}

static void put_pipeline(sink *o, const luo_pipeline *pl)
{
    put(o, "{\"micro_batch_sequences\":");
    put_int(o, pl->micro_batch_sequences);
    put(o, ",\"micro_batch_tokens\":[");
    for (int32_t i = 0; pl->micro_batch_tokens && i < pl->micro_batches; i++) {
        if (i) put(o, ",");
        put_int(o, pl->micro_batch_tokens[i]);
    }
    put(o, "],\"micro_batches\":");
    put_int(o, pl->micro_batches);
    put(o, ",\"stages\":[");
    for (int32_t i = 0; i < pl->nstages; i++) {
        if (i) put(o, ",");
        put_stage(o, &pl->stages[i]);
    }
    put(o, "]}");
}

static void put_annotations(sink *o, const luo_plan *plan)
{
    put(o, "{\"annotations\":[");
    for (int32_t i = 0; i < plan->nannotations; i++) {
        const luo_plan_annotation *annotation = &plan->annotations[i];
        put(o, i ? ",{\"annotation\":" : "{\"annotation\":");
        put_text(o, annotation->annotation);
        put(o, ",\"at\":");
        put_text(o, annotation->at);
        put(o, ",\"tensor\":");
        put_text(o, annotation->tensor);
        put(o, ",\"variant\":");
        put_text(o, annotation->variant);
        put(o, "}");
    }
    put(o, "]");
}

static void put_assignment(sink *o, const luo_plan *plan)
{
    put(o, ",\"assignment\":[");
    for (int32_t i = 0; i < plan->nassignment; i++) {
        const luo_assignment *assignment = &plan->assignment[i];
        put(o, i ? ",{\"length_tokens\":" : "{\"length_tokens\":");
        put_int(o, assignment->length_tokens);
        put(o, ",\"micro_batch\":");
        put_int(o, assignment->micro_batch);
        put(o, ",\"pipeline\":");
        put_int(o, assignment->pipeline);
        put(o, ",\"sequence\":");
        put_int(o, assignment->sequence);
        put(o, "}");
    }
    put(o, "]");
}

static void put_state_layout(sink *o, const luo_state_layout *layout)
{
    put(o, ",\"state_layout\":");
    if (!layout->ndev) {
        put(o, "null");
        return;
    }
    put(o, "{\"data\":");
    put_int(o, layout->data);
    put(o, ",\"devices\":");
    put_ids(o, layout->dev, layout->ndev);
    put(o, ",\"pipeline\":");
    put_int(o, layout->pipeline);
    put(o, ",\"tensor\":");
    put_int(o, layout->tensor);
    put(o, "}");
}

static void put_groups(sink *o, const luo_plan *plan)
{
    put(o, ",\"expert_groups\":[");
    for (int32_t i = 0; i < plan->ngroups; i++) {
        if (i) put(o, ",");
        put_ids(o, plan->expert_groups[i].pipeline, plan->expert_groups[i].n);
    }
    put(o, plan->expert_parallel ? "],\"expert_parallel\":" : "]");
    if (plan->expert_parallel) put_int(o, plan->expert_parallel);
    put(o, ",\"layers\":");
    put_int(o, plan->layers);
    if (!plan->moe_exchange) return;
    put(o, ",\"moe_exchange\":");
    put_text(o, luo_alltoall_kind_name(plan->moe_exchange));
}

/* What is not said is no part of the form, so plans that say nothing keep their hash. */
static void put_bucket(sink *o, const luo_bucketing *bucketing)
{
    char text[32];
    if (bucketing->has_mib) {
        snprintf(text, sizeof text, "%.17g", bucketing->mib);
        put(o, ",\"bucket_mib\":");
        put(o, text);
    }
    if (bucketing->rule == LUO_BUCKET_UNSAID) return;
    put(o, ",\"bucket_rule\":");
    put_text(o, luo_bucket_rule_name(bucketing->rule));
}

static void put_prefetch(sink *o, const luo_sharding *sharding)
{
    if (sharding->has_depth) {
        put(o, ",\"prefetch_depth\":");
        put_int(o, sharding->depth);
    }
}

static void put_shard(sink *o, const luo_sharding *sharding)
{
    if (sharding->kind != LUO_SHARD_FULL) {
        put(o, ",\"shard\":");
        put_text(o, luo_shard_name(sharding->kind));
    }
    if (!sharding->pipelines) return;
    put(o, ",\"shard_pipelines\":");
    put_int(o, sharding->pipelines);
}

static void put_plan(sink *o, const luo_plan *plan)
{
    put_annotations(o, plan);
    put_assignment(o, plan);
    put_bucket(o, &plan->bucket);
    put(o, ",\"devices\":");
    put_int(o, plan->devices);
    if (plan->bucket.lanes) {
        put(o, ",\"dp_lanes\":");
        put_int(o, plan->bucket.lanes);
    }
    put(o, ",\"dtype\":");
    put_text(o, luo_dtype_name(plan->dtype));
    put_groups(o, plan);
    put(o, ",\"micro_batch_sequences\":");
    put_int(o, plan->micro_batch_sequences);
    if (plan->staggered) put(o, ",\"optimizer_step\":\"staggered\"");
    put(o, ",\"pipelines\":[");
    for (int32_t i = 0; i < plan->npipelines; i++) {
        if (i) put(o, ",");
        put_pipeline(o, &plan->pipelines[i]);
    }
    put(o, "]");
    put_prefetch(o, &plan->sharding);
    put(o, ",\"schedule\":{\"chunks\":");
    put_int(o, plan->chunks);
    put(o, ",\"kind\":");
    put_text(o, luo_sched_name(plan->schedule));
    put(o, "},\"schema\":\"luoshu.plan/1\",\"sequence_parallel\":");
    put_bool(o, plan->sequence_parallel);
    put(o, ",\"sequence_tokens\":");
    put_int(o, plan->sequence_tokens);
    put_shard(o, &plan->sharding);
    put_state_layout(o, &plan->state_layout);
    put(o, ",\"zero\":");
    put_int(o, plan->zero);
    put(o, "}");
}

void luo_plan_canonical(luo_str *text, const luo_plan *plan)
{
    sink o = {.s = text};
    put_plan(&o, plan);
}

uint64_t luo_plan_hash(const luo_plan *plan)
{
    sink o = {.hash = LUO_HASH_EMPTY};
    put_plan(&o, plan);
    return o.hash;
}

/* ---- sums ---- */

int64_t luo_plan_sequences(const luo_plan *plan)
{
    int64_t n = 0;
    for (int32_t i = 0; i < plan->npipelines; i++)
        n += (int64_t)plan->pipelines[i].micro_batches * plan->pipelines[i].micro_batch_sequences;
    return n;
}

static int64_t plus(int64_t a, int64_t b)
{
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

int64_t luo_plan_tokens(const luo_plan *plan)
{
    int64_t n = 0;
    for (int32_t i = 0; i < plan->npipelines; i++) {
        const luo_pipeline *pl = &plan->pipelines[i];
        const int64_t sequences = (int64_t)pl->micro_batches * pl->micro_batch_sequences;
        if (!pl->micro_batch_tokens)
            n = sequences > INT64_MAX / plan->sequence_tokens
                    ? INT64_MAX
                    : plus(n, sequences * plan->sequence_tokens);
        for (int32_t k = 0; pl->micro_batch_tokens && k < pl->micro_batches; k++)
            n = plus(n, pl->micro_batch_tokens[k]);
    }
    return n;
}

bool luo_plan_within(const luo_plan *plan, const bool *device)
{
    for (int32_t i = 0; i < plan->npipelines; i++)
        for (int32_t s = 0; s < plan->pipelines[i].nstages; s++)
            for (int32_t k = 0; k < plan->pipelines[i].stages[s].ndev; k++)
                if (!device[plan->pipelines[i].stages[s].dev[k]]) return false;
    for (int32_t k = 0; k < plan->state_layout.ndev; k++)
        if (!device[plan->state_layout.dev[k]]) return false;
    return true;
}

luo_status luo_plan_devices(luo_arena *arena, const luo_plan *plan, int32_t **dev, int32_t *n,
                            luo_err *err)
{
    int32_t count = 0;
    for (int32_t i = 0; i < plan->npipelines; i++)
        for (int32_t j = 0; j < plan->pipelines[i].nstages; j++)
            count += plan->pipelines[i].stages[j].ndev;
    int32_t *all = LUO_NEW_N(arena, int32_t, count), at = 0;
    if (!all) return luo_err_nomem(err);
    for (int32_t i = 0; i < plan->npipelines; i++)
        for (int32_t j = 0; j < plan->pipelines[i].nstages; j++) {
            const luo_stage *st = &plan->pipelines[i].stages[j];
            for (int32_t k = 0; k < st->ndev; k++) all[at++] = st->dev[k];
        }
    qsort(all, (size_t)count, sizeof *all, luo_vec_by_int32);
    *dev = all;
    *n = count;
    return LUO_OK;
}
