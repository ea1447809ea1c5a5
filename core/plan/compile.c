/* compile.c: (model, cluster, plan) -> programs. */
#include "core/plan/compile.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/vec.h"
#include "core/graph/intern.h"
#include "core/graph/specialize/specialize.h"
#include "core/plan/annotate.h"
#include "core/plan/compile_clock.h"
#include "core/plan/replan/reroute.h"

typedef struct compiler {
    luo_arena *arena;
    const luo_plan *p;
    const luo_model *m;
    const luo_compile_opts *opts;
    luo_err *err;
    luo_intern length_key;
    luo_length *lengths;
    int32_t cap_lengths;
    int32_t nabsent;
    int32_t *length_words; /* scratch: a length as a key */
} compiler;

/* ---- lengths of micro-batches ---- */

/* Tokens and sum of squares of the sequences that the plan assigns to one micro-batch. */
static void assigned(const luo_plan *plan, int32_t pipeline, int32_t micro_batch, int64_t *tokens,
                     double *squares)
{
    *tokens = 0;
    *squares = 0;
    for (int32_t i = 0; i < plan->nassignment; i++) {
        const luo_assignment *assignment = &plan->assignment[i];
        if (assignment->pipeline != pipeline || assignment->micro_batch != micro_batch) continue;
        *tokens += assignment->length_tokens;
        *squares += (double)assignment->length_tokens * (double)assignment->length_tokens;
    }
}

/* Sequences of unequal length cost as much attention as equal ones of sum s^2 / sum s tokens. What
 * pads a micro-batch behind those that are assigned is one more sequence. */
static luo_length length_of(const compiler *c, int32_t pipeline, int32_t micro_batch)
{
    const luo_pipeline *pipe = &c->p->pipelines[pipeline];
    const int64_t fixed =
        c->opts->sequence_tokens ? c->opts->sequence_tokens : c->p->sequence_tokens;
    luo_length length = {.tokens = fixed * pipe->micro_batch_sequences, .sequence_tokens = fixed};
    int64_t sum;
    double squares;
    assigned(c->p, pipeline, micro_batch, &sum, &squares);
    if (sum > 0) length.tokens = sum;
    if (pipe->micro_batch_tokens) length.tokens = pipe->micro_batch_tokens[micro_batch];
    if (sum > 0) {
        const double pad = (double)(length.tokens - sum);
        length.sequence_tokens = (int64_t)((squares + pad * pad) / (double)length.tokens + 0.5);
    }
    if (length.sequence_tokens > length.tokens) length.sequence_tokens = length.tokens;
    const int64_t multiple = luo_plan_context_multiple(c->p, c->m->causal, pipeline);
    if (multiple == 1) return length;
    length.tokens = luo_plan_padded(length.tokens, fixed, multiple);
    length.sequence_tokens = luo_context_pad(length.sequence_tokens, multiple);
    if (length.sequence_tokens > length.tokens) length.sequence_tokens = length.tokens;
    return length;
}

static luo_status length_id(compiler *c, luo_length length, int32_t *id)
{
    int32_t *key = c->length_words;
    const int32_t n = length.stands ? c->nabsent : 0;
    bool fresh;
    key[0] = (int32_t)(uint32_t)length.tokens, key[1] = (int32_t)(length.tokens >> 32);
    key[2] = (int32_t)(uint32_t)length.sequence_tokens,
    key[3] = (int32_t)(length.sequence_tokens >> 32);
    if (n) memcpy(key + 4, length.stands, (size_t)n * sizeof *key);
    *id = luo_intern_id(&c->length_key, key, 4 + n, &fresh);
    if (*id < 0) return luo_err_nomem(c->err);
    if (!fresh) return LUO_OK;
    if (!LUO_VEC_ROOM_IN(c->arena, c->lengths, *id, c->cap_lengths)) return luo_err_nomem(c->err);
    c->lengths[*id] = length;
    return LUO_OK;
}

/* ---- micro-batches of pipelines with lost stages ---- */

/* Devices that do the work of absent ones, for every micro-batch of pipeline i:
 * (*out)[k * nabsent + a]; NULL: none is absent there. */
static luo_status find_stands(compiler *c, int32_t i, int32_t **out)
{
    const luo_pipeline *pipe = &c->p->pipelines[i];
    const int32_t M = pipe->micro_batches;
    *out = NULL;
    if (!luo_reroute_in_pipeline(pipe)) return LUO_OK;
    int32_t *at = *out = LUO_NEW_N(c->arena, int32_t, (int64_t)M * c->nabsent);
    int32_t *route = LUO_NEW_N(c->arena, int32_t, M);
    if (!at || !route) return luo_err_nomem(c->err);
    for (int64_t k = 0; k < (int64_t)M * c->nabsent; k++) at[k] = -1;
    for (int32_t s = 0; s < pipe->nstages; s++) {
        const luo_stage *st = &pipe->stages[s];
        if (!st->nreroute) continue;
        LUO_TRY(luo_reroute_stage(c->arena, st, M, route, c->err));
        for (int32_t k = 0; k < M; k++)
            for (int32_t d = 0; d < st->ndev; d++)
                at[(int64_t)k * c->nabsent + st->dev[d] - c->p->first_absent] =
                    c->p->pipelines[route[k]].stages[s].dev[d];
    }
    return LUO_OK;
}

static int32_t count_absent(const luo_plan *plan)
{
    int32_t n = 0;
    for (int32_t i = 0; i < plan->npipelines; i++)
        for (int32_t s = 0; s < plan->pipelines[i].nstages; s++)
            if (plan->pipelines[i].stages[s].nreroute) n += plan->pipelines[i].stages[s].ndev;
    return n;
}

/* ---- recompute ---- */

static void mark_recompute(const luo_stage *stage, bool *full, bool *selective)
{
    bool *mark = stage->recompute == LUO_RECOMPUTE_FULL ? full : selective;
    if (stage->recompute == LUO_RECOMPUTE_NONE) return;
    const luo_range *range = stage->nrecompute ? stage->recompute_layers : stage->layers;
    const int32_t n = stage->nrecompute ? stage->nrecompute : stage->nlayers;
    for (int32_t i = 0; i < n; i++)
        for (int32_t l = range[i].lo; l < range[i].hi; l++) mark[l] = true;
}

/* Layers whose attention some stage recomputes; the instructions are the same. */
static luo_status mark_selective(compiler *c, luo_programs *set)
{
    bool *full = LUO_NEW_N(c->arena, bool, c->m->layers);
    bool *selective = LUO_NEW_N(c->arena, bool, c->m->layers);
    if (!full || !selective) return luo_err_nomem(c->err);
    set->selective = selective;
    for (int32_t i = 0; i < c->p->npipelines; i++)
        for (int32_t k = 0; k < c->p->pipelines[i].nstages; k++)
            mark_recompute(&c->p->pipelines[i].stages[k], full, selective);
    return LUO_OK;
}

static luo_status make_pipe(compiler *c, int32_t i, luo_pipe *pipe)
{
    const luo_pipeline *pipeline = &c->p->pipelines[i];
    int32_t *length = LUO_NEW_N(c->arena, int32_t, pipeline->micro_batches), *stands;
    bool *full = LUO_NEW_N(c->arena, bool, c->m->layers);
    bool *selective = LUO_NEW_N(c->arena, bool, c->m->layers);
    if (!length || !full || !selective) return luo_err_nomem(c->err);
    LUO_TRY(find_stands(c, i, &stands));
    for (int32_t k = 0; k < pipeline->micro_batches; k++) {
        luo_length l = length_of(c, i, k);
        if (stands) l.stands = stands + (int64_t)k * c->nabsent;
        LUO_TRY(length_id(c, l, &length[k]));
    }
    for (int32_t s = 0; s < pipeline->nstages; s++)
        mark_recompute(&pipeline->stages[s], full, selective);
    *pipe = (luo_pipe){pipeline->micro_batches, length, full, selective,
                       luo_plan_first_number(c->p, i)};
    return LUO_OK;
}

/* ---- the way through ---- */

static bool is_empty(const luo_stage *stage)
{
    int32_t n = 0;
    for (int32_t i = 0; i < stage->nlayers; i++) n += stage->layers[i].hi - stage->layers[i].lo;
    return n == 0 && !stage->embedding && !stage->head;
}

/* {-2:n} on every device that has work. */
static luo_status all_devices(compiler *c, luo_ann *all, luo_grp *grp, luo_ent *ent)
{
    const luo_state_layout *layout = &c->p->state_layout;
    int32_t n = layout->ndev;
    for (int32_t i = 0; i < c->p->npipelines; i++)
        for (int32_t k = 0; k < c->p->pipelines[i].nstages; k++)
            n += c->p->pipelines[i].stages[k].ndev;
    int32_t *dev = LUO_NEW_N(c->arena, int32_t, n);
    if (!dev) return luo_err_nomem(c->err);
    n = layout->ndev;
    if (n) memcpy(dev, layout->dev, (size_t)n * sizeof *dev);
    for (int32_t i = 0; i < c->p->npipelines; i++)
        for (int32_t k = 0; k < c->p->pipelines[i].nstages; k++) {
            const luo_stage *stage = &c->p->pipelines[i].stages[k];
            if (is_empty(stage) || stage->nreroute) continue;
            memcpy(dev + n, stage->dev, (size_t)stage->ndev * sizeof *dev);
            n += stage->ndev;
        }
    qsort(dev, (size_t)n, sizeof *dev, luo_vec_by_int32);
    int32_t kept = 0; /* the state may lie on devices of the pipelines */
    for (int32_t i = 0; i < n; i++)
        if (i == 0 || dev[i] != dev[i - 1]) dev[kept++] = dev[i];
    n = kept;
    *ent = (luo_ent){LUO_PARTIAL, n, NULL};
    *grp = (luo_grp){n, dev, n > 1, ent};
    *all = (luo_ann){1, LUO_H_NONE, false, NULL, grp};
    return luo_ann_check(all, c->err);
}

static luo_status annotate(compiler *c, luo_graph *graph)
{
    luo_annotate_raw raw = {.g = graph, .plan = c->p};
    luo_ann all;
    luo_grp grp;
    luo_ent ent;
    graph->staggered = c->p->staggered;
    LUO_TRY(luo_plan_annotate(graph, c->p, c->err));
    LUO_TRY(all_devices(c, &all, &grp, &ent));
    LUO_TRY(luo_graph_differentiate(graph, &all, luo_plan_override, &raw, c->err));
    if (raw.err.st != LUO_OK) {
        if (c->err) *c->err = raw.err;
        return raw.err.st;
    }
    return luo_plan_check_raw(graph, c->p, c->err);
}

/* What is gathered or cut layer by layer travels layer by layer. */
static luo_bucketing bucketing(const compiler *c)
{
    luo_bucketing b = luo_bucketing_of(c->p->bucket, c->opts->bucket);
    if (c->p->zero == 3) b = (luo_bucketing){.rule = LUO_BUCKET_UNIT, .lanes = b.lanes};
    return b;
}

static luo_status find_nodes(compiler *c, const luo_cluster *cluster, const int32_t **out)
{
    int32_t *node = LUO_NEW_N(c->arena, int32_t, cluster->ndevices);
    *out = node;
    if (!node) return luo_err_nomem(c->err);
    for (int32_t d = 0; d < cluster->ndevices; d++) node[d] = cluster->devices[d].node;
    return LUO_OK;
}

static luo_status specialize(compiler *c, luo_graph *graph, const luo_cluster *cluster,
                             luo_programs **out)
{
    luo_pipe *pipes = LUO_NEW_N(c->arena, luo_pipe, c->p->npipelines);
    if (!pipes) return luo_err_nomem(c->err);
    luo_intern_init(&c->length_key, c->arena);
    c->nabsent = count_absent(c->p);
    c->length_words = LUO_NEW_N(c->arena, int32_t, 4 + (int64_t)c->nabsent);
    if (!c->length_words) return luo_err_nomem(c->err);
    for (int32_t i = 0; i < c->p->npipelines; i++) LUO_TRY(make_pipe(c, i, &pipes[i]));
    const luo_bucketing bucket = bucketing(c);
    luo_spec spec = {.graph = graph,
                     .npipelines = c->p->npipelines,
                     .nlengths = c->length_key.n,
                     .pipes = pipes,
                     .lengths = c->lengths,
                     .schedule = c->p->schedule,
                     .first_absent = c->p->first_absent,
                     .nabsent = c->nabsent,
                     .bucket = bucket,
                     .post = luo_bucketing_of(c->p->bucket, c->opts->bucket),
                     .dp_lanes = bucket.lanes,
                     .load = c->m->moe.experts ? c->opts->load : NULL,
                     .patterns = c->opts->patterns,
                     .prefetch = luo_sharding_depth(&c->p->sharding)};
    luo_plan_clock clock;
    if (cluster) {
        luo_plan_clock_init(&clock, cluster, c->p->dtype);
        spec.clock = &clock.clock;
        spec.planner.link_class = luo_cluster_link_class;
        spec.planner.link_ctx = cluster;
        spec.exchange = c->p->moe_exchange;
        if (spec.exchange != LUO_ALLTOALL_FLAT) LUO_TRY(find_nodes(c, cluster, &spec.node_of));
    }
    return luo_graph_specialize(c->arena, &spec, out, c->err);
}

/* A name of the programs whatever the numbers of their devices; never 0. */
static luo_status name_of_any(luo_arena *scratch, const luo_programs *set, uint64_t *name,
                              luo_err *err)
{
    const int32_t devices = set->n > 0 ? set->at[set->n - 1].device + 1 : 0;
    int32_t *place = LUO_NEW_N(scratch, int32_t, devices);
    if (!place) return luo_err_nomem(err);
    for (int32_t d = 0; d < devices; d++) place[d] = -1;
    for (int32_t i = 0; i < set->n; i++) place[set->at[i].device] = i;
    LUO_TRY(luo_programs_hash_placed(set, place, devices, name, err));
    if (*name == 0) *name = 1;
    return LUO_OK;
}

static luo_status check_new(luo_arena *scratch, const luo_programs *set, luo_map *checked,
                            luo_err *err)
{
    uint64_t name;
    LUO_TRY(name_of_any(scratch, set, &name, err));
    if (luo_map_get(checked, name, 0)) return LUO_OK;
    LUO_TRY(luo_program_check(scratch, set, err));
    return luo_map_at(checked, name, 1) ? LUO_OK : luo_err_nomem(err);
}

static luo_status check(const luo_programs *set, luo_map *checked, luo_err *err)
{
    luo_arena *scratch = luo_arena_new(1 << 16);
    if (!scratch) return luo_err_nomem(err);
    const luo_status st =
        checked ? check_new(scratch, set, checked, err) : luo_program_check(scratch, set, err);
    luo_arena_free(scratch);
    return st;
}

/* Derived annotations always fit each other; so what does not, comes from raw ones. A given plan
 * that needs an impossible re-shard is an impossible plan, not a negative answer (docs/formats.md
 * 17, decision 13). */
static luo_status blame(const luo_plan *plan, luo_status st, luo_err *err)
{
    if (st == LUO_EUNSUP) {
        st = LUO_EINPUT;
        if (err) err->st = st;
    }
    if (luo_status_exit(st) == 3 && plan->nannotations > 0)
        luo_err_part(err, st, plan->nannotations == 1 ? "/annotations/0" : "/annotations");
    return st;
}

static luo_status annotated(luo_arena *scratch, const luo_plan *plan, const luo_model *model,
                            luo_err *err)
{
    static const luo_compile_opts none = {0};
    compiler c = {.arena = scratch, .p = plan, .m = model, .opts = &none, .err = err};
    luo_build_opts build;
    luo_graph *graph;
    LUO_TRY(luo_plan_model(scratch, plan, model, &c.m, err));
    LUO_TRY(luo_plan_build_opts(scratch, plan, c.m, &build, err));
    LUO_TRY(luo_graph_build(scratch, c.m, &build, &graph, err));
    const luo_status st = annotate(&c, graph);
    luo_annset_free(graph->set);
    return blame(plan, st, err);
}

luo_status luo_plan_check_annotations(const luo_plan *plan, const luo_model *model, luo_err *err)
{
    if (plan->nannotations == 0) return LUO_OK;
    luo_arena *scratch = luo_arena_new(1 << 16);
    if (!scratch) return luo_err_nomem(err);
    const luo_status st = annotated(scratch, plan, model, err);
    luo_arena_free(scratch);
    return st;
}

static luo_status go_on(const compiler *c)
{
    if (!c->opts->interrupted || !*c->opts->interrupted) return LUO_OK;
    return luo_err_set(c->err, LUO_ECANCELED, "compiling plan `%s` was interrupted.", c->p->name);
}

luo_status luo_plan_compile(luo_arena *arena, const luo_plan *plan, const luo_model *model,
                            const luo_cluster *cluster, const luo_compile_opts *opts,
                            luo_programs **out, luo_err *err)
{
    static const luo_compile_opts none = {0};
    compiler c = {.arena = arena, .p = plan, .m = model, .opts = opts ? opts : &none, .err = err};
    luo_build_opts build;
    luo_graph *graph;
    luo_programs *set = NULL;
    if (plan->layers != model->layers)
        return luo_err_set(err, LUO_EINPUT, "the plan has %d layers, the model `%s` %lld.",
                           (int)plan->layers, model->name, (long long)model->layers);
    LUO_TRY(luo_plan_fill_absent(arena, plan, &c.p, err));
    LUO_TRY(luo_plan_model(arena, c.p, model, &c.m, err));
    LUO_TRY(luo_plan_build_opts(arena, c.p, c.m, &build, err));
    LUO_TRY(luo_graph_build(arena, c.m, &build, &graph, err));
    luo_status st = annotate(&c, graph);
    if (st == LUO_OK) st = go_on(&c);
    if (st == LUO_OK) st = specialize(&c, graph, cluster, &set);
    luo_annset_free(graph->set);
    if (st == LUO_OK) st = go_on(&c);
    if (st == LUO_OK) set->memory = c.opts->memory;
    if (st == LUO_OK) set->staggered = plan->staggered;
    for (int32_t i = 0; st == LUO_OK && i < plan->npipelines; i++)
        set->copies += plan->pipelines[i].stages[0].context_parallel;
    if (st == LUO_OK) st = mark_selective(&c, set);
    if (st == LUO_OK && !c.opts->unnamed) st = luo_programs_hash(set, err);
    if (st == LUO_OK) st = go_on(&c);
    if (st == LUO_OK && c.opts->check) st = check(set, c.opts->checked, err);
    if (st == LUO_OK) *out = set;
    return blame(plan, st, err);
}
