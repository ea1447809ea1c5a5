/* annotate.c: derived annotations. Members are pipelines; a place is a block, the
 * embedding or the head, and lies on one stage of every pipeline. */
#include "core/plan/annotate.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/graph/intern.h"
#include "core/plan/annotated.h"

enum { FORMS = LUO_FORMS };

typedef struct placing {
    luo_graph *g;
    const luo_plan *p;
    luo_err *err;
    luo_arena *scratch;
    luo_intern stages; /* stage per pipeline -> set of stages */
    int32_t cap;
    int32_t *ann;      /* [set * FORMS + form], -1: not made */
    int32_t *set_of;   /* by place + 1; the head is last */
} placing;

static int32_t embedding_stage(const luo_pipeline *pipe)
{
    for (int32_t s = 0; s < pipe->nstages; s++)
        if (pipe->stages[s].embedding) return s;
    return 0;
}

static int32_t head_stage(const luo_pipeline *pipe)
{
    for (int32_t s = 0; s < pipe->nstages; s++)
        if (pipe->stages[s].head) return s;
    return pipe->nstages - 1;
}

static int32_t stage_of_block(const luo_pipeline *pipe, int32_t block)
{
    for (int32_t s = 0; s < pipe->nstages; s++)
        for (int32_t r = 0; r < pipe->stages[s].nlayers; r++)
            if (block >= pipe->stages[s].layers[r].lo && block < pipe->stages[s].layers[r].hi)
                return s;
    return -1;
}

static int32_t stage_of_place(const luo_pipeline *pipe, int32_t place)
{
    if (place == LUO_PLACE_EMBEDDING) return embedding_stage(pipe);
    if (place == LUO_PLACE_HEAD) return head_stage(pipe);
    return stage_of_block(pipe, place);
}

/* ---- what the builder has to know ---- */

/* Query and key-value heads are cut at the same place: exactly, by the shares. */
static bool heads_fit(const luo_stage *stage, int64_t heads)
{
    const int32_t tp = luo_stage_tp(stage);
    int64_t sum = 0;
    for (int32_t i = 0; i < tp; i++) sum += stage->shares ? stage->shares[i] : 1;
    for (int32_t i = 0; i < tp && sum; i++)
        if (heads * (int64_t)(stage->shares ? stage->shares[i] : 1) % sum != 0) return false;
    return sum > 0;
}

static luo_status look_at_context(const luo_plan *plan, const luo_model *model, int32_t i,
                                  luo_build_opts *out, luo_err *err)
{
    const luo_context context = luo_plan_context(plan, model->causal, i);
    const int32_t parts = luo_context_parts(&context);
    for (int32_t k = 0; k < plan->pipelines[i].nstages; k++)
        if (plan->pipelines[i].stages[k].ndev % plan->pipelines[i].stages[k].context_parallel)
            return luo_err_set(err, LUO_EINPUT,
                               "pipeline %d, stage %d: context_parallel does not divide its "
                               "devices.", (int)i, (int)k);
    if (parts > out->ring) out->ring = parts;
    if (context.inner > 1) out->exchanges = true;
    return LUO_OK;
}

/* ---- ZeRO-2 and 3: all pipelines do the same at the same place of their task lists ---- */

static luo_status in_zero(luo_status st, luo_err *err)
{
    return luo_err_part(err, st, "/zero");
}

/* Members of a group meet inside a task, so that F1 before B0 on one and after it on the other
 * would be a circle. */
static luo_status check_place(const luo_plan *plan, int32_t size, int32_t place, const char *what,
                              luo_err *err)
{
    for (int32_t i = 1; i < plan->npipelines; i++) {
        const int32_t lead = i / size * size;
        const int32_t first = stage_of_place(&plan->pipelines[lead], place);
        const int32_t stage = stage_of_place(&plan->pipelines[i], place);
        if (stage == first) continue;
        const luo_status st = luo_err_set(
            err, LUO_EINPUT,
            "zero %d: %s is on stage %d of pipeline %d and stage %d of pipeline %d; give equal "
            "borders or %s.",
            (int)plan->zero, what, (int)first, (int)lead, (int)stage, (int)i,
            size > 1 && plan->zero == 3 ? "shard hybrid" : "zero 1");
        return in_zero(st, err);
    }
    return LUO_OK;
}

static luo_status check_alike(const luo_plan *plan, int32_t lead, int32_t i, luo_err *err)
{
    const luo_pipeline *pipeline = &plan->pipelines[lead], *b = &plan->pipelines[i];
    if (pipeline->micro_batches != b->micro_batches)
        return in_zero(luo_err_set(err, LUO_EINPUT,
                                   "zero %d: pipelines %d and %d run %d and %d "
                                   "micro-batches; give equally many or zero 1.",
                                   (int)plan->zero, (int)lead, (int)i, (int)pipeline->micro_batches,
                                   (int)b->micro_batches),
                       err);
    if (pipeline->nstages == b->nstages) return LUO_OK;
    return in_zero(luo_err_set(err, LUO_EINPUT,
                               "zero %d: pipelines %d and %d have %d and %d "
                               "stages; give equal borders or zero 1.",
                               (int)plan->zero, (int)lead, (int)i, (int)pipeline->nstages,
                               (int)b->nstages),
                   err);
}

/* Shard hybrid: pipelines of a group cut weights alike. */
static luo_status check_cuts(const luo_plan *plan, int32_t lead, int32_t i, luo_err *err)
{
    for (int32_t k = 0; k < plan->pipelines[i].nstages; k++) {
        const luo_stage *stage = &plan->pipelines[lead].stages[k],
                        *b = &plan->pipelines[i].stages[k];
        bool same = stage->ndev == b->ndev && stage->context_parallel == b->context_parallel;
        for (int32_t d = 0; same && d < luo_stage_tp(stage); d++)
            same = (stage->shares ? stage->shares[d] : 1) == (b->shares ? b->shares[d] : 1);
        if (same) continue;
        return luo_err_part(err, luo_err_set(err, LUO_EINPUT, "shard hybrid: stage %d of pipelines "
                                             "%d and %d has other tensor-parallel groups; give "
                                             "equal ones or shard full.", (int)k, (int)lead,
                                             (int)i), "/shard");
    }
    return LUO_OK;
}

/* Shard hybrid: gradients of norms of queries and keys are sums over a tensor group, which is one
 * device here and several there. */
static luo_status check_head_norms(const luo_plan *plan, luo_err *err)
{
    const luo_pipeline *first = &plan->pipelines[0];
    for (int32_t i = 1; i < plan->npipelines; i++)
        for (int32_t k = 0; k < plan->pipelines[i].nstages && k < first->nstages; k++) {
            const int32_t a = luo_stage_tp(&first->stages[k]);
            const int32_t b = luo_stage_tp(&plan->pipelines[i].stages[k]);
            if ((a > 1) == (b > 1)) continue;
            luo_err_set(err, LUO_EINPUT,
                        "shard hybrid: stage %d of pipelines 0 and %d has groups of %d and %d "
                        "devices, and the model has norms of queries and keys; set "
                        "`sequence_parallel` or give groups of several.",
                        (int)k, (int)i, (int)a, (int)b);
            return luo_err_part(err, LUO_EINPUT, "/shard");
        }
    return LUO_OK;
}

/* Gradients of norms are summed over context-parallel ranks and are the same on tensor-parallel
 * ones; sums of which there are copies cannot be cut finer unit by unit. */
static luo_status check_copies(const luo_plan *plan, int32_t i, luo_err *err)
{
    const luo_pipeline *pipe = &plan->pipelines[i];
    for (int32_t k = 0; k < pipe->nstages; k++)
        if (pipe->stages[k].context_parallel > 1 && luo_stage_tp(&pipe->stages[k]) > 1 &&
            !plan->sequence_parallel)
            return in_zero(luo_err_set(err, LUO_EINPUT,
                                       "zero %d with context and tensor parallelism in pipeline %d "
                                       "needs `sequence_parallel`; set it or use zero 1.",
                                       (int)plan->zero, (int)i),
                           err);
    return LUO_OK;
}

static luo_status check_sharding(const luo_plan *plan, const luo_model *model,
                                 const luo_build_opts *opts, luo_err *err)
{
    char what[32];
    const bool hybrid = plan->zero == 3 && plan->sharding.kind == LUO_SHARD_HYBRID;
    const int32_t size = hybrid ? plan->sharding.pipelines : plan->npipelines;
    if (plan->npipelines % size)
        return luo_err_part(err,
                            luo_err_set(err, LUO_EINPUT,
                                        "shard_pipelines %d does not divide "
                                        "%d.",
                                        (int)size, (int)plan->npipelines),
                            "/shard_pipelines");
    if (opts->state_apart)
        return in_zero(luo_err_set(err, LUO_EINPUT,
                                   "zero %d cuts weights where they are used, and "
                                   "`state_layout` keeps their state elsewhere; use zero 1.",
                                   (int)plan->zero),
                       err);
    for (int32_t i = 0; i < plan->npipelines; i++) LUO_TRY(check_copies(plan, i, err));
    for (int32_t i = 1; i < plan->npipelines; i++) {
        LUO_TRY(check_alike(plan, i / size * size, i, err));
        if (opts->shard_copies) LUO_TRY(check_cuts(plan, i / size * size, i, err));
    }
    if (opts->shard_copies && size > 1 && model->qk_norm && !plan->sequence_parallel)
        LUO_TRY(check_head_norms(plan, err));
    for (int32_t l = 0; l < plan->layers; l++) {
        snprintf(what, sizeof what, "layer %d", (int)l);
        LUO_TRY(check_place(plan, size, l, what, err));
    }
    LUO_TRY(check_place(plan, size, LUO_PLACE_EMBEDDING, "the embedding", err));
    return check_place(plan, size, LUO_PLACE_HEAD, "the head", err);
}

luo_status luo_plan_build_opts(luo_arena *arena, const luo_plan *plan, const luo_model *model,
                               luo_build_opts *out, luo_err *err)
{
    *out = (luo_build_opts){
        .dtype = plan->dtype,
        .scatter_each = plan->zero >= 2,
        .gather_each = plan->zero == 3 && plan->sharding.kind != LUO_SHARD_GRAD_OP,
        .shard_copies = plan->zero == 3 && luo_shard_has_copies(&plan->sharding, plan->npipelines)};
    const luo_state_layout *layout = &plan->state_layout;
    out->state_apart = layout->ndev > 0;
    if (out->state_apart &&
        (layout->data < 1 || layout->tensor < 1 || layout->pipeline < 1 ||
         (int64_t)layout->data * layout->tensor * layout->pipeline != layout->ndev))
        return luo_err_part(err,
                            luo_err_set(err, LUO_EINPUT,
                                        "state layout %d x %d x %d does not fit %d devices.",
                                        (int)layout->data, (int)layout->tensor,
                                        (int)layout->pipeline, (int)layout->ndev),
                            "/state_layout");
    out->apart = luo_plan_is_annotated(plan);
    if (out->apart) return luo_plan_annotated_opts(arena, plan, model, out, err);
    for (int32_t i = 0; i < plan->npipelines; i++) {
        const luo_pipeline *pipe = &plan->pipelines[i];
        if (embedding_stage(pipe) != head_stage(pipe)) out->head_apart = true;
        LUO_TRY(look_at_context(plan, model, i, out, err));
        for (int32_t k = 0; k < pipe->nstages; k++)
            if (model->kv_heads != model->heads && !heads_fit(&pipe->stages[k], model->kv_heads))
                out->kv_whole = true;
    }
    if (model->moe.experts) LUO_TRY(luo_plan_expert_opts(arena, plan, model, out, err));
    return plan->zero >= 2 ? check_sharding(plan, model, out, err) : LUO_OK;
}

/* ---- one annotation per (stages, form) ---- */

static luo_status set_of_place(placing *c, int32_t place, int32_t layers, int32_t *set)
{
    int32_t *memo = &c->set_of[place == LUO_PLACE_HEAD ? layers + 1 : place + 1];
    *set = *memo;
    if (*memo >= 0) return LUO_OK;
    const int32_t P = c->p->npipelines;
    int32_t *key = LUO_NEW_N(c->scratch, int32_t, P);
    if (!key) return luo_err_nomem(c->err);
    for (int32_t i = 0; i < P; i++) {
        key[i] = stage_of_place(&c->p->pipelines[i], place);
        if (key[i] < 0)
            return luo_err_set(c->err, LUO_EINPUT,
                               "pipeline %d has no stage for layer %d; cover every layer once.",
                               (int)i, (int)place);
    }
    *set = *memo = luo_intern_id(&c->stages, key, P, NULL);
    if (*set < 0) return luo_err_nomem(c->err);
    if (*set < c->cap) return LUO_OK;
    const size_t old = (size_t)c->cap * FORMS, want = 2 * old + 64 * FORMS;
    int32_t *ann = luo_arena_grow(c->scratch, c->ann, old * sizeof *ann, want * sizeof *ann);
    if (!ann) return luo_err_nomem(c->err);
    for (size_t i = old; i < want; i++) ann[i] = -1;
    c->ann = ann;
    c->cap = (int32_t)(want / FORMS);
    return LUO_OK;
}

static luo_status add_ann(placing *c, const luo_ann *ann, int32_t *id)
{
    LUO_TRY(luo_ann_check(ann, c->err));
    const luo_ann *canonical = luo_ann_canonical(c->scratch, ann);
    if (!canonical) return luo_err_nomem(c->err);
    return luo_annset_add(c->g->set, canonical, id, c->err);
}

static luo_status make_ann(placing *c, int32_t set, luo_form form, int32_t *id)
{
    const int32_t P = c->p->npipelines, *stage = c->stages.key[set].at;
    const bool experts = form == LUO_FORM_ROWS || form == LUO_FORM_COUNTS ||
                         form == LUO_FORM_EXPERTS;
    if (experts && c->g->joins) {
        luo_ann joined;
        LUO_TRY(luo_plan_expert_ann(c->scratch, c->p, stage, form, &joined, c->err));
        return add_ann(c, &joined, id);
    }
    luo_grp *grp = LUO_NEW_N(c->scratch, luo_grp, P);
    if (!grp) return luo_err_nomem(c->err);
    for (int32_t i = 0; i < P; i++)
        LUO_TRY(luo_plan_group(c->scratch, c->g, c->p, i, &c->p->pipelines[i].stages[stage[i]],
                               form, &grp[i], c->err));
    const luo_ann ann = {P, P > 1 ? luo_plan_form_top(form) : LUO_H_NONE, false, NULL, grp};
    return add_ann(c, &ann, id);
}

static luo_status derive(placing *c, int32_t place, luo_form form, int32_t layers, int32_t *id);

/* Of a weight that the stages of embedding and head both hold: the members of both. */
static luo_status derive_ends(placing *c, int32_t layers, int32_t *id)
{
    int32_t first, last;
    LUO_TRY(derive(c, LUO_PLACE_EMBEDDING, LUO_FORM_CUT, layers, &first));
    LUO_TRY(derive(c, LUO_PLACE_HEAD, LUO_FORM_CUT, layers, &last));
    return luo_annset_join(c->g->set, first, last, LUO_DUP, id, c->err);
}

static luo_status derive(placing *c, int32_t place, luo_form form, int32_t layers, int32_t *id)
{
    int32_t set;
    if (form == LUO_FORM_ENDS) return derive_ends(c, layers, id);
    LUO_TRY(set_of_place(c, place, layers, &set));
    if (c->ann[set * FORMS + (int32_t)form] < 0) {
        int32_t made;
        LUO_TRY(make_ann(c, set, form, &made));
        c->ann[set * FORMS + (int32_t)form] = made;
    }
    *id = c->ann[set * FORMS + (int32_t)form];
    return LUO_OK;
}

/* ---- raw annotations ---- */

static const luo_plan_annotation *raw_of(const luo_plan *plan, const char *tensor)
{
    for (int32_t i = 0; i < plan->nannotations; i++)
        if (!plan->annotations[i].at[0] && strcmp(plan->annotations[i].tensor, tensor) == 0)
            return &plan->annotations[i];
    return NULL;
}

/* Names the raw annotation in an error. */
static luo_status in_raw(const luo_plan *plan, const luo_plan_annotation *annotation, luo_status st,
                         luo_err *err)
{
    return luo_err_part(err, st, "/annotations/%d", (int)(annotation - plan->annotations));
}

static luo_status read_raw(luo_graph *graph, const luo_plan_annotation *annotation, int32_t *id,
                           luo_err *err)
{
    if (strcmp(annotation->variant, "auto") != 0)
        return luo_err_set(err, LUO_EINPUT,
                           "annotation of `%s`: variant `%s` is not compiled; use `auto`.",
                           annotation->tensor, annotation->variant);
    const luo_ann *ann;
    const luo_status st = luo_ann_parse(graph->arena, annotation->annotation, &ann, err);
    if (st != LUO_OK) return luo_err_prefix(err, st, "`%s`", annotation->tensor);
    return luo_annset_add(graph->set, ann, id, err);
}

int32_t luo_plan_override(void *ctx, const char *tensor)
{
    luo_annotate_raw *raw = ctx;
    if (raw->g->matched) return -1; /* what is annotated forward says it all */
    const luo_plan_annotation *annotation =
        raw->plan->nannotations ? raw_of(raw->plan, tensor) : NULL;
    int32_t id = -1;
    if (!annotation || in_raw(raw->plan, annotation, read_raw(raw->g, annotation, &id, &raw->err),
                              &raw->err) != LUO_OK)
        return -1;
    return id;
}

/* A raw annotation `at` an operation: a Reshard in front of it, read by it alone. */
static luo_status insert_reshard(luo_graph *graph, const luo_plan_annotation *annotation,
                                 luo_err *err)
{
    int32_t o = 0;
    while (o < graph->nops && strcmp(graph->op[o].name, annotation->at) != 0) o++;
    if (o == graph->nops)
        return luo_err_set(err, LUO_EINPUT,
                           "annotation of `%s`: no operation is called `%s`; "
                           "`luoshu explain` lists them.",
                           annotation->tensor, annotation->at);
    if (graph->op[o].kind == LUO_OP_RESHARD)
        return luo_err_set(err, LUO_EINPUT,
                           "annotation of `%s`: operation `%s` is a Reshard "
                           "itself; annotate its result.",
                           annotation->tensor, annotation->at);
    for (int32_t i = 0; i < graph->op[o].nin; i++) {
        if (strcmp(graph->tensor[graph->op[o].in[i]].name, annotation->tensor) != 0) continue;
        int32_t ann;
        LUO_TRY(read_raw(graph, annotation, &ann, err));
        const int32_t y = luo_graph_insert_reshard(graph, o, i);
        if (graph->failed) return luo_err_nomem(err);
        graph->tensor[y].ann = ann;
        return LUO_OK;
    }
    return luo_err_set(err, LUO_EINPUT, "annotation of `%s`: operation `%s` does not read it.",
                       annotation->tensor, annotation->at);
}

static luo_status insert_reshards(luo_graph *graph, const luo_plan *plan, luo_err *err)
{
    for (int32_t i = 0; i < plan->nannotations; i++) {
        const luo_plan_annotation *annotation = &plan->annotations[i];
        if (annotation->at[0])
            LUO_TRY(in_raw(plan, annotation, insert_reshard(graph, annotation, err), err));
    }
    return LUO_OK;
}

static bool is_given(const luo_graph *graph, const luo_tensor *tensor)
{
    return graph->op[tensor->op].kind <= LUO_OP_RESHARD;
}

/* Same device, region, Partial coordinate and count everywhere. */
static luo_status compare(luo_graph *graph, int32_t x, int32_t want, const luo_plan *plan,
                          luo_err *err)
{
    const luo_tensor *tensor = &graph->tensor[x];
    const int64_t tokens = plan->sequence_tokens * plan->micro_batch_sequences;
    const luo_shape shape = luo_graph_shape(graph, x, tokens, plan->npipelines);
    luo_holdings holdings, b;
    LUO_TRY(
        luo_ann_bind(luo_annset_get(graph->set, want), &shape, LUO_BIND_ROUND, tensor->name, err));
    LUO_TRY(luo_holdings_make(graph->arena, luo_annset_get(graph->set, tensor->ann), &shape,
                              &holdings, err));
    LUO_TRY(luo_holdings_make(graph->arena, luo_annset_get(graph->set, want), &shape, &b, err));
    bool equal = holdings.n == b.n;
    for (int32_t i = 0; i < holdings.n && equal; i++) {
        int32_t j = 0;
        while (j < b.n && b.at[j].dev != holdings.at[i].dev) j++;
        equal = j < b.n && holdings.at[i].part == b.at[j].part &&
                holdings.at[i].parts == b.at[j].parts &&
                luo_region_equal(&holdings.at[i].region, &b.at[j].region);
    }
    if (equal) return LUO_OK;
    return luo_err_set(err, LUO_EDEDUCE, "op `%s`: `%s` is deduced as %s, the plan says %s.",
                       graph->op[tensor->op].name, tensor->name,
                       luo_annset_text(graph->set, tensor->ann), luo_annset_text(graph->set, want));
}

static luo_status check_raw(luo_graph *graph, const luo_plan *plan,
                            const luo_plan_annotation *annotation, luo_err *err)
{
    const int32_t x = luo_graph_find(graph, annotation->tensor);
    if (x < 0)
        return luo_err_set(err, LUO_EINPUT,
                           "the plan annotates `%s`, but no tensor is called so; "
                           "`luoshu explain` lists them.",
                           annotation->tensor);
    int32_t want;
    LUO_TRY(read_raw(graph, annotation, &want, err));
    if (graph->tensor[x].ann == want || is_given(graph, &graph->tensor[x])) return LUO_OK;
    return compare(graph, x, want, plan, err);
}

luo_status luo_plan_check_raw(luo_graph *graph, const luo_plan *plan, luo_err *err)
{
    if (graph->matched) return LUO_OK;
    for (int32_t i = 0; i < plan->nannotations; i++) {
        const luo_plan_annotation *annotation = &plan->annotations[i];
        if (!annotation->at[0])
            LUO_TRY(in_raw(plan, annotation, check_raw(graph, plan, annotation, err), err));
    }
    return LUO_OK;
}

/* ---- all leaves and Reshards ---- */

static luo_status annotate_one(placing *c, int32_t x, int32_t layers)
{
    luo_tensor *tensor = &c->g->tensor[x];
    if (tensor->ann >= 0 || tensor->form == LUO_FORM_NONE || tensor->form == LUO_FORM_STATE ||
        tensor->form == LUO_FORM_SHARD)
        return LUO_OK;
    const luo_plan_annotation *annotation = c->p->nannotations ? raw_of(c->p, tensor->name) : NULL;
    if (!annotation) return derive(c, tensor->place, (luo_form)tensor->form, layers, &tensor->ann);
    LUO_TRY(in_raw(c->p, annotation, read_raw(c->g, annotation, &tensor->ann, c->err), c->err));
    const luo_shape shape = luo_graph_shape(c->g, x, c->p->sequence_tokens, c->p->npipelines);
    return in_raw(c->p, annotation,
                  luo_ann_bind(luo_annset_get(c->g->set, tensor->ann), &shape, LUO_BIND_ROUND,
                               tensor->name, c->err),
                  c->err);
}

/* The optimizer's own layout: data x tensor x pipeline stages, uniform; device order of
 * docs/planners.md#order-of-devices (t + T * (d + D * p)). The annotation a weight would have
 * there. */
static luo_status layout_ann(placing *c, const luo_tensor *tensor, int32_t layers, int32_t *id)
{
    const luo_state_layout *layout = &c->p->state_layout;
    const int32_t D = layout->data, T = layout->tensor;
    const int64_t block = tensor->layer < 0 ? 0 : tensor->layer;
    int32_t stage = layers > 0 ? (int32_t)(block * layout->pipeline / layers) : 0;
    if (tensor->place == LUO_PLACE_HEAD) stage = layout->pipeline - 1;
    luo_grp *grp = LUO_NEW_N(c->scratch, luo_grp, D);
    if (!grp) return luo_err_nomem(c->err);
    /* experts by their width, so that copies are cut by experts */
    const bool cut = tensor->form == LUO_FORM_CUT || tensor->form == LUO_FORM_ENDS;
    const int32_t key = cut ? 0 : LUO_DUP;
    const luo_ent ent = {tensor->form == LUO_FORM_EXPERTS ? 1 : key, T, NULL};
    for (int32_t d = 0; d < D; d++)
        grp[d] = (luo_grp){T, layout->dev + (int64_t)T * (d + (int64_t)D * stage), 1, &ent};
    const luo_ann ann = {D, D > 1 ? LUO_DUP : LUO_H_NONE, false, NULL, grp};
    LUO_TRY(luo_ann_check(&ann, c->err));
    const luo_ann *canonical = luo_ann_canonical(c->scratch, &ann);
    if (!canonical) return luo_err_nomem(c->err);
    return luo_annset_add(c->g->set, canonical, id, c->err);
}

/* Tensor-parallel devices that have the same gradients: their copies are not cut. Copies of
 * context-parallel ranks are, since their gradients are summands. */
static bool keeps_copies(const luo_plan *plan)
{
    for (int32_t i = 0; i < plan->npipelines && !plan->sequence_parallel; i++)
        for (int32_t k = 0; k < plan->pipelines[i].nstages; k++)
            if (luo_stage_tp(&plan->pipelines[i].stages[k]) > 1) return true;
    return false;
}

static luo_status annotate_piece(placing *c, luo_tensor *tensor, const luo_shape *shape,
                                 int32_t from, bool cut)
{
    const luo_plan_annotation *annotation = c->p->nannotations ? raw_of(c->p, tensor->name) : NULL;
    if (annotation)
        return in_raw(c->p, annotation, read_raw(c->g, annotation, &tensor->ann, c->err), c->err);
    tensor->ann = from;
    if (!cut) return LUO_OK;
    if (c->p->first_absent)
        LUO_TRY(luo_annset_present(c->g->set, from, c->p->first_absent, &from, c->err));
    if (c->g->shard_copies)
        return luo_annset_fold_groups(c->g->set, from, shape, c->p->sharding.pipelines,
                                      keeps_copies(c->p), &tensor->ann, c->err);
    return luo_annset_fold(c->g->set, from, shape, &tensor->ann, c->err);
}

/* ZeRO-3: the working copy between two tasks is the piece that the state is of; but a copy for a
 * head on another stage has no state. */
static luo_status annotate_pieces(placing *c, luo_tensor *tensor, int32_t full)
{
    luo_tensor *state = &c->g->tensor[c->g->op[tensor->op].in[0]];
    const luo_shape shape = luo_graph_shape(c->g, (int32_t)(tensor - c->g->tensor), 0, 1);
    if (state->kind != LUO_TENSOR_STATE) return annotate_piece(c, tensor, &shape, full, true);
    const luo_plan_annotation *annotation = c->p->nannotations ? raw_of(c->p, state->name) : NULL;
    if (annotation)
        return in_raw(c->p, annotation,
                      luo_err_set(c->err, LUO_EINPUT,
                                  "with zero 3 the state of `%s` lies "
                                  "where `%s` does; annotate that.",
                                  tensor->name, tensor->name),
                      c->err);
    LUO_TRY(annotate_piece(c, tensor, &shape, full, true));
    state->ann = tensor->ann;
    return LUO_OK;
}

/* The state of a parameter: its annotation, that cut over all copies, or the same in
 * a layout of its own; then the plan's own cut stands between them. */
static luo_status annotate_state(placing *c, const luo_op *op, int32_t layers)
{
    luo_graph *graph = c->g;
    luo_tensor *from = &graph->tensor[op->in[0]];
    const luo_tensor *tensor = &graph->tensor[op->out[0]];
    const luo_shape shape = luo_graph_shape(graph, op->out[0], 0, 1);
    if (tensor->kind == LUO_TENSOR_FULL) return annotate_pieces(c, from, tensor->ann);
    if (tensor->kind != LUO_TENSOR_PARAM || tensor->form == LUO_FORM_SHARD || from->ann >= 0)
        return LUO_OK;
    if (from->kind == LUO_TENSOR_STATE)
        return annotate_piece(c, from, &shape, tensor->ann, c->p->zero > 0 && !tensor->counted);
    if (from->kind != LUO_TENSOR_SHARD) return LUO_OK;
    int32_t apart;
    LUO_TRY(annotate_piece(c, from, &shape, tensor->ann, true));
    if (luo_tensor_is_copy(graph, op->out[0])) return LUO_OK; /* its state is the embedding's */
    LUO_TRY(layout_ann(c, tensor, layers, &apart));
    return annotate_piece(c, &graph->tensor[graph->op[from->op].in[0]], &shape, apart, true);
}

static luo_status annotate(placing *c)
{
    luo_graph *graph = c->g;
    int32_t layers = 0;
    for (int32_t o = 0; o < graph->nops; o++)
        if (graph->op[o].layer >= layers) layers = graph->op[o].layer + 1;
    c->set_of = LUO_NEW_N(c->scratch, int32_t, layers + 2);
    if (!c->set_of) return luo_err_nomem(c->err);
    for (int32_t i = 0; i < layers + 2; i++) c->set_of[i] = -1;
    LUO_TRY(insert_reshards(graph, c->p, c->err));
    for (int32_t o = 0; o < graph->nops; o++) {
        if (graph->op[o].kind > LUO_OP_RESHARD) continue;
        LUO_TRY(annotate_one(c, graph->op[o].out[0], layers));
        if (graph->op[o].kind == LUO_OP_RESHARD) LUO_TRY(annotate_state(c, &graph->op[o], layers));
    }
    return luo_graph_deduce(graph, 0, c->err);
}

/* How every pipeline cuts its sequences, and which rank of that each device is. */
static luo_status tell_context(luo_graph *graph, const luo_plan *plan, luo_err *err)
{
    int32_t most = 0;
    if (!luo_plan_has_context(plan)) return LUO_OK;
    for (int32_t i = 0; i < plan->npipelines; i++)
        for (int32_t k = 0; k < plan->pipelines[i].nstages; k++) {
            const luo_stage *stage = &plan->pipelines[i].stages[k];
            for (int32_t d = 0; d < stage->ndev; d++)
                if (stage->dev[d] > most) most = stage->dev[d];
        }
    luo_context *context = LUO_NEW_N(graph->arena, luo_context, plan->npipelines);
    int32_t *rank = LUO_NEW_N(graph->arena, int32_t, (int64_t)most + 1);
    if (!context || !rank) return luo_err_nomem(err);
    for (int32_t i = 0; i < plan->npipelines; i++) {
        context[i] = luo_plan_context(plan, graph->causal, i);
        for (int32_t k = 0; k < plan->pipelines[i].nstages; k++) {
            const luo_stage *s = &plan->pipelines[i].stages[k];
            for (int32_t d = 0; d < s->ndev; d++) rank[s->dev[d]] = d / luo_stage_tp(s);
        }
    }
    graph->npipelines = plan->npipelines;
    graph->context = context;
    graph->context_rank = rank;
    return LUO_OK;
}

luo_status luo_plan_annotate(luo_graph *graph, const luo_plan *plan, luo_err *err)
{
    if (luo_plan_is_annotated(plan)) return luo_plan_annotate_all(graph, plan, err);
    LUO_TRY(tell_context(graph, plan, err));
    placing c = {.g = graph, .p = plan, .err = err, .scratch = luo_arena_new(1 << 16)};
    if (!c.scratch) return luo_err_nomem(err);
    luo_intern_init(&c.stages, c.scratch);
    const luo_status st = annotate(&c);
    luo_arena_free(c.scratch);
    return st;
}
