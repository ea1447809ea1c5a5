/* spec_stages.c: pipelines and stages are read off the annotations
 * (docs/architecture/programs.md#segments). */
#include <stdlib.h>
#include <string.h>

#include "core/base/vec.h"
#include "core/graph/specialize/spec_internal.h"

typedef struct sets { /* device sets of parameters, per pipeline in operation order */
    luo_intern key;   /* sorted devices */
    int32_t **list, *n, *cap;
    int32_t *set_of; /* [ann * P + p], -1: not made yet */
} sets;

/* Members of pipeline p in annotation a: u with u * P / U = p. */
static luo_status member_set(spec *s, sets *t, int32_t ann, int32_t p, const char *name,
                             int32_t *id)
{
    int32_t *slot = &t->set_of[(int64_t)ann * s->in->npipelines + p];
    *id = *slot;
    if (*id >= 0) return LUO_OK;
    const luo_ann *a = luo_annset_get(s->g->set, ann);
    const int32_t P = s->in->npipelines;
    if (a->u % P != 0)
        return luo_err_set(s->err, LUO_EINPUT,
                           "annotation of `%s` has %d members for %d pipelines; use a multiple.",
                           name, (int)a->u, (int)P);
    const int32_t per = a->u / P;
    int32_t n = 0;
    for (int32_t u = p * per; u < (p + 1) * per; u++) n += a->grp[u].ndev;
    const size_t mark = luo_arena_mark(s->scratch);
    int32_t *dev = LUO_NEW_N(s->scratch, int32_t, n);
    if (!dev) return luo_err_nomem(s->err);
    n = 0;
    for (int32_t u = p * per; u < (p + 1) * per; u++) {
        memcpy(dev + n, a->grp[u].dev, (size_t)a->grp[u].ndev * sizeof *dev);
        n += a->grp[u].ndev;
    }
    qsort(dev, (size_t)n, sizeof *dev, luo_vec_by_int32);
    *id = *slot = luo_intern_id(&t->key, dev, n, NULL);
    luo_arena_reset(s->scratch, mark);
    return *id >= 0 ? LUO_OK : luo_err_nomem(s->err);
}

static luo_status push(spec *s, sets *t, int32_t p, int32_t id)
{
    if (t->n[p] && t->list[p][t->n[p] - 1] == id) return LUO_OK;
    if (!LUO_VEC_ROOM_IN(s->arena, t->list[p], t->n[p], t->cap[p])) return luo_err_nomem(s->err);
    t->list[p][t->n[p]++] = id;
    return LUO_OK;
}

static bool is_parameter(const luo_graph *graph, int32_t x)
{
    return graph->op[graph->tensor[x].op].phase == LUO_PHASE_PRE;
}

static luo_status collect(spec *s, sets *t)
{
    const luo_graph *graph = s->g;
    for (int32_t o = 0; o < graph->nops; o++) {
        if (graph->op[o].phase != LUO_PHASE_F) continue;
        for (int32_t i = 0; i < graph->op[o].nin; i++) {
            const luo_tensor *tensor = &graph->tensor[graph->op[o].in[i]];
            if (!is_parameter(graph, graph->op[o].in[i])) continue;
            /* pieces may have members of several pipelines; what is gathered has not */
            /* the weights of a norm tell the stage of a layer whose experts several share */
            if (graph->joins && luo_annset_get(graph->set, tensor->ann)->u < s->in->npipelines)
                continue;
            if (graph->op[o].kind == LUO_OP_RESHARD) tensor = &graph->tensor[graph->op[o].out[0]];
            for (int32_t p = 0; p < s->in->npipelines; p++) {
                int32_t id;
                LUO_TRY(member_set(s, t, tensor->ann, p, tensor->name, &id));
                LUO_TRY(push(s, t, p, id));
            }
        }
    }
    return LUO_OK;
}

/* S = number of distinct sets; they must come back in the same order (interleaved chunks). */
static luo_status count_stages(spec *s, const sets *t, int32_t p, int32_t *S)
{
    const int32_t *list = t->list[p], q = t->n[p];
    *S = q;
    for (int32_t i = 1; i < q && *S == q; i++)
        for (int32_t j = 0; j < i; j++)
            if (list[i] == list[j]) {
                *S = i;
                break;
            }
    bool good = q % *S == 0;
    for (int32_t i = *S; i < q && good; i++) good = list[i] == list[i - *S];
    if (good) return LUO_OK;
    return luo_err_set(s->err, LUO_EINPUT,
                       "pipeline %d: device sets come back in an order that is not interleaved; "
                       "give every chunk the stages in the same order.", (int)p);
}

static luo_status place_device(spec *s, int32_t dev, int32_t p, int32_t stage)
{
    if (s->pipe_of[dev] < 0) {
        s->pipe_of[dev] = p;
        s->stage_of[dev] = stage;
        return LUO_OK;
    }
    if (s->pipe_of[dev] == p)
        return luo_err_set(s->err, LUO_EINPUT,
                           "device %d is in stages %d and %d of pipeline %d; a device belongs to "
                           "one stage.", (int)dev, (int)s->stage_of[dev], (int)stage, (int)p);
    return luo_err_set(s->err, LUO_EINPUT,
                       "device %d is in pipelines %d and %d; a device belongs to one stage.",
                       (int)dev, (int)s->pipe_of[dev], (int)p);
}

static luo_status place_devices(spec *s, const sets *t, int32_t p, int32_t S)
{
    for (int32_t i = 0; i < S; i++) {
        const struct luo_intern_key *set = &t->key.key[t->list[p][i]];
        for (int32_t j = 0; j < set->len; j++) LUO_TRY(place_device(s, set->at[j], p, i));
    }
    return LUO_OK;
}

static int32_t *filled(luo_arena *arena, int64_t n, int32_t v)
{
    int32_t *a = LUO_NEW_N(arena, int32_t, n);
    for (int64_t i = 0; a && i < n; i++) a[i] = v;
    return a;
}

/* Devices outside the stages are in the program only if the optimizer has a layout of its own:
 * they hold state and join the norm, and have Pre and Post only. */
static void add_holders(spec *s, bool *in)
{
    bool apart = false;
    for (int32_t d = 0; d <= s->max_device; d++) in[d] = s->pipe_of[d] >= 0;
    for (int32_t x = 0; x < s->g->ntensors; x++) apart |= s->g->tensor[x].kind == LUO_TENSOR_SHARD;
    for (int32_t x = 0; x < s->g->ntensors && apart; x++) {
        const bool norm = s->g->op[s->g->tensor[x].op].kind == LUO_OP_GRAD_NORM;
        if (s->g->tensor[x].kind != LUO_TENSOR_STATE && !norm) continue;
        const luo_ann *ann = luo_annset_get(s->g->set, s->g->tensor[x].ann);
        for (int32_t u = 0; u < ann->u; u++)
            for (int32_t i = 0; i < ann->grp[u].ndev; i++) in[ann->grp[u].dev[i]] = true;
    }
}

/* Largest device id in any annotation: a raw one may name devices outside the stages. */
static void find_largest(spec *s)
{
    for (int32_t k = 0; k < luo_annset_count(s->g->set); k++) {
        const luo_ann *ann = luo_annset_get(s->g->set, k);
        for (int32_t u = 0; u < ann->u; u++)
            for (int32_t i = 0; i < ann->grp[u].ndev; i++)
                if (ann->grp[u].dev[i] > s->max_device) s->max_device = ann->grp[u].dev[i];
    }
}

static luo_status list_devices(spec *s)
{
    bool *in = LUO_NEW_N(s->scratch, bool, (int64_t)s->max_device + 1);
    s->index_of = filled(s->arena, (int64_t)s->max_device + 1, -1);
    if (!in || !s->index_of) return luo_err_nomem(s->err);
    add_holders(s, in);
    for (int32_t k = 0; k < s->in->nabsent; k++) in[s->in->first_absent + k] = false;
    s->ndev = 0;
    for (int32_t d = 0; d <= s->max_device; d++)
        if (in[d]) s->index_of[d] = s->ndev++;
    s->dev = LUO_NEW_N(s->arena, int32_t, s->ndev);
    if (!s->dev) return luo_err_nomem(s->err);
    for (int32_t d = 0; d <= s->max_device; d++)
        if (in[d]) s->dev[s->index_of[d]] = d;
    return LUO_OK;
}

/* Of a group of pipelines, or of all: where its devices of pipeline p are. */
static luo_status joined_stage(spec *s, const luo_ann *ann, int32_t p, const char *tensor,
                               int32_t *slot, int32_t *stage)
{
    int32_t found = -1;
    for (int32_t u = 0; u < ann->u; u++)
        for (int32_t i = 0; i < ann->grp[u].ndev; i++) {
            const int32_t dev = ann->grp[u].dev[i];
            if (s->pipe_of[dev] != p) continue;
            if (found >= 0 && s->stage_of[dev] != found)
                return luo_err_set(s->err, LUO_EINPUT,
                                   "`%s` lies on stages %d and %d of pipeline %d; keep it on one.",
                                   tensor, (int)found, (int)s->stage_of[dev], (int)p);
            found = s->stage_of[dev];
        }
    *stage = *slot = found;
    return LUO_OK;
}

luo_status luo_spec_stage(spec *s, int32_t ann, int32_t p, const char *tensor, int32_t *stage)
{
    int32_t *slot = &s->stage_of_ann[(int64_t)ann * s->in->npipelines + p];
    *stage = *slot;
    if (*slot != -2) return LUO_OK;
    const luo_ann *a = luo_annset_get(s->g->set, ann);
    int32_t found = -1;
    const int32_t P = s->in->npipelines;
    if (s->g->joins && a->u < P) return joined_stage(s, a, p, tensor, slot, stage);
    const int64_t U = a->u, first = p * U / P - 1, last = ((int64_t)p + 1) * U / P;
    for (int32_t u = (int32_t)(first > 0 ? first : 0); u <= last && u < a->u; u++) {
        const int64_t lo = (int64_t)u * P / a->u, hi = ((int64_t)u + 1) * P / a->u;
        const bool joined = s->g->shard_copies && hi > lo + 1; /* pieces: of pipelines lo..hi-1 */
        if (joined ? p < lo || p >= hi : lo != p) continue;
        for (int32_t i = 0; i < a->grp[u].ndev; i++) {
            const int32_t dev = a->grp[u].dev[i];
            if (joined && s->pipe_of[dev] >= lo && s->pipe_of[dev] < hi && s->pipe_of[dev] != p)
                continue;
            if (s->pipe_of[dev] != p)
                return luo_err_set(s->err, LUO_EINPUT,
                                   "device %d of `%s` is not in pipeline %d; keep every member "
                                   "on the devices of its pipeline.", (int)dev, tensor, (int)p);
            if (found >= 0 && s->stage_of[dev] != found)
                return luo_err_set(s->err, LUO_EINPUT,
                                   "`%s` lies on stages %d and %d of pipeline %d; keep it on one.",
                                   tensor, (int)found, (int)s->stage_of[dev], (int)p);
            found = s->stage_of[dev];
        }
    }
    *stage = *slot = found;
    return LUO_OK;
}

/* ---- classes of pipelines ---- */

static const luo_tensor *result_of(const luo_graph *graph, const luo_op *op)
{
    return &graph->tensor[op->nout ? op->out[0] : op->in[0]];
}

static bool runs_per_micro_batch(const luo_op *op)
{
    return (op->phase == LUO_PHASE_F || op->phase == LUO_PHASE_B) &&
           op->kind != LUO_OP_PLACEHOLDER;
}

static int32_t count_layers(const luo_graph *graph)
{
    int32_t n = 0;
    for (int32_t o = 0; o < graph->nops; o++)
        if (graph->op[o].layer >= n) n = graph->op[o].layer + 1;
    return n;
}

/* Stage of every forward operation's result, and the layers run again. */
static luo_status class_key(spec *s, int32_t p, int32_t layers, int32_t *key, int32_t *n)
{
    const luo_graph *graph = s->g;
    *n = 0;
    const luo_pipe *pipe = &s->in->pipes[p];
    for (int32_t l = 0; l < layers; l++) key[(*n)++] = pipe->full[l] + 2 * pipe->selective[l];
    for (int32_t o = 0; o < graph->nops; o++) {
        if (graph->op[o].phase != LUO_PHASE_F || !runs_per_micro_batch(&graph->op[o])) continue;
        const luo_tensor *tensor = result_of(graph, &graph->op[o]);
        LUO_TRY(luo_spec_stage(s, tensor->ann, p, tensor->name, &key[(*n)++]));
    }
    return LUO_OK;
}

/* Virtual stages move on by one where a Reshard leads to the next stage. */
static luo_status forward_stages(spec *s, const spec_class *class, int32_t *in, int32_t *out)
{
    const luo_graph *graph = s->g;
    int32_t now = 0;
    for (int32_t o = 0; o < graph->nops; o++) {
        const luo_op *op = &graph->op[o];
        if (op->phase != LUO_PHASE_F || !runs_per_micro_batch(op)) continue;
        const luo_tensor *tensor = result_of(graph, op);
        int32_t stage;
        LUO_TRY(luo_spec_stage(s, tensor->ann, class->pipeline, tensor->name, &stage));
        in[o] = now;
        if (stage != now % class->S) {
            now++;
            if (now >= class->S * class->v || stage != now % class->S)
                return luo_err_set(s->err, LUO_EINPUT,
                                   "op `%s` leads from stage %d to stage %d of pipeline %d; point-"
                                   "to-point goes to the next stage only.",
                                   op->name, (int)((now - 1) % class->S), (int)stage,
                                   (int)class->pipeline);
        }
        out[o] = now;
        for (int32_t i = 0; i < op->nin; i++) { /* data are loaded where they are first used */
            const int32_t maker = graph->tensor[op->in[i]].op;
            if (graph->op[maker].kind == LUO_OP_PLACEHOLDER && in[maker] < 0)
                in[maker] = out[maker] = now;
        }
    }
    return LUO_OK;
}

/* A gradient runs where its forward operation ran; that of a Reshard goes the other way. */
static luo_status backward_stages(spec *s, const spec_class *class, int32_t *in, int32_t *out)
{
    const luo_graph *graph = s->g;
    for (int32_t o = 0; o < graph->nops; o++) {
        const luo_op *op = &graph->op[o];
        if (op->phase != LUO_PHASE_B) continue;
        const bool once = graph->op[op->forward].phase == LUO_PHASE_PRE;
        if (op->kind == LUO_OP_ACCUMULATE || once) { /* part of what it sums, or cuts */
            in[o] = out[o] = out[graph->tensor[op->in[0]].op];
            continue;
        }
        const int32_t both[2] = {in[op->forward], out[op->forward]};
        const luo_tensor *tensor = &graph->tensor[op->in[0]], *y = result_of(graph, op);
        int32_t from, to;
        LUO_TRY(luo_spec_stage(s, tensor->ann, class->pipeline, tensor->name, &from));
        LUO_TRY(luo_spec_stage(s, y->ann, class->pipeline, y->name, &to));
        in[o] = both[1] % class->S == from ? both[1] : both[0];
        out[o] = both[0] % class->S == to ? both[0] : both[1];
        if (in[o] % class->S != from || out[o] % class->S != to)
            return luo_err_set(s->err, LUO_EINPUT,
                               "op `%s` leads from stage %d to stage %d of pipeline %d; a gradient "
                               "goes to the previous stage only.",
                               op->name, (int)from, (int)to, (int)class->pipeline);
    }
    return LUO_OK;
}

static luo_status make_class(spec *s, int32_t p, int32_t S, int32_t v)
{
    int32_t *in = filled(s->arena, s->g->nops, -1), *out = filled(s->arena, s->g->nops, -1);
    if (!in || !out) return luo_err_nomem(s->err);
    spec_class *class = &s->cls[s->nclasses++];
    *class = (spec_class){.pipeline = p,
                          .S = S,
                          .v = v,
                          .vs_in = in,
                          .vs_out = out,
                          .full = s->in->pipes[p].full,
                          .selective = s->in->pipes[p].selective};
    LUO_TRY(forward_stages(s, class, in, out));
    return backward_stages(s, class, in, out);
}

static luo_status make_classes(spec *s, const sets *t, const int32_t *S)
{
    const int32_t layers = count_layers(s->g), P = s->in->npipelines;
    luo_intern keys;
    luo_intern_init(&keys, s->scratch);
    int32_t *key = LUO_NEW_N(s->scratch, int32_t, s->g->nops + layers);
    s->cls = LUO_NEW_N(s->arena, spec_class, P);
    s->class_of = LUO_NEW_N(s->arena, int32_t, P);
    if (!key || !s->cls || !s->class_of) return luo_err_nomem(s->err);
    for (int32_t p = 0; p < P; p++) {
        int32_t n;
        bool fresh;
        LUO_TRY(class_key(s, p, layers, key, &n));
        s->class_of[p] = luo_intern_id(&keys, key, n, &fresh);
        if (s->class_of[p] < 0) return luo_err_nomem(s->err);
        if (fresh) LUO_TRY(make_class(s, p, S[p], t->n[p] / S[p]));
    }
    return LUO_OK;
}

luo_status luo_spec_find_stages(spec *s)
{
    const int32_t P = s->in->npipelines;
    const int64_t pairs = (int64_t)luo_annset_count(s->g->set) * P;
    sets t = {.list = LUO_NEW_N(s->arena, int32_t *, P), .n = LUO_NEW_N(s->arena, int32_t, P),
              .cap = LUO_NEW_N(s->arena, int32_t, P), .set_of = filled(s->arena, pairs, -1)};
    luo_intern_init(&t.key, s->arena);
    find_largest(s);
    s->pipe_of = filled(s->arena, (int64_t)s->max_device + 1, -1);
    s->stage_of = filled(s->arena, (int64_t)s->max_device + 1, -1);
    s->stage_of_ann = filled(s->arena, pairs, -2);
    int32_t *S = LUO_NEW_N(s->arena, int32_t, P);
    if (!t.list || !t.n || !t.cap || !t.set_of || !s->pipe_of || !s->stage_of ||
        !s->stage_of_ann || !S)
        return luo_err_nomem(s->err);
    LUO_TRY(collect(s, &t));
    for (int32_t p = 0; p < P; p++) {
        LUO_TRY(count_stages(s, &t, p, &S[p]));
        LUO_TRY(place_devices(s, &t, p, S[p]));
    }
    LUO_TRY(list_devices(s));
    return make_classes(s, &t, S);
}
