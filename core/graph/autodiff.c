/* autodiff.c: gradients as ordinary operations (docs/annotations.md#differentiation).
 *
 * dX and dW are separate operations and dX comes first: the previous stage waits for it. The
 * synchronisation of gradients is nowhere written down: the Reshard between a parameter's state
 * and its working copy has a Reshard as its gradient, and that is an all-reduce, a
 * reduce-scatter or a split of one. Each operation is annotated as soon as it is made, because
 * what a Reshard's gradient and a sum look like depends on the annotations.
 */
#include <assert.h>
#include <string.h>

#include "core/graph/graph.h"

typedef struct part { /* one contribution to the gradient of a tensor, by consumer id ascending */
    int32_t tensor;
    struct part *next;
} part;

typedef struct diff {
    luo_graph *g;
    int32_t forward_tensors;
    part **parts;      /* by forward tensor */
    int32_t *consumers; /* gradient-carrying consumers of a forward tensor */
    int32_t at;        /* forward operation whose gradient is being made */
    int32_t *state, *grad; /* pairs for the update */
    int32_t npairs;
    luo_override_fn override;
    void *ctx;
    luo_err *err;
} diff;

static const luo_op *here(const diff *d)
{
    return &d->g->op[d->at];
}

static luo_status contribute(diff *d, int32_t x, int32_t tensor)
{
    part *p = LUO_NEW(d->g->arena, part);
    if (!p) return luo_err_nomem(d->err);
    *p = (part){tensor, d->parts[x]};
    d->parts[x] = p;
    return LUO_OK;
}

/* Tensor for a contribution to the gradient of x: `d.x`, or `d.x@OP` if there are several. */
static int32_t grad_tensor(diff *d, int32_t x)
{
    luo_graph *graph = d->g;
    const luo_tensor *tensor = &graph->tensor[x];
    const bool whole = d->consumers[x] <= 1 && tensor->kind == LUO_TENSOR_VALUE;
    const char *name = whole
                           ? luo_arena_printf(graph->arena, "d.%s", tensor->name)
                           : luo_arena_printf(graph->arena, "d.%s@%s", tensor->name, here(d)->name);
    const int32_t y =
        luo_graph_tensor(graph, name, tensor->letters, LUO_TENSOR_VALUE, here(d)->layer);
    if (graph->failed) return y;
    const bool weight = tensor->kind == LUO_TENSOR_FULL || tensor->kind == LUO_TENSOR_PARAM;
    if (tensor->kind == LUO_TENSOR_VALUE || tensor->counted)
        graph->tensor[y].elem_bytes = tensor->elem_bytes;
    if (weight && graph->scatter_each)
        graph->tensor[y].elem_bytes = graph->sum_bytes; /* nothing adds to it */
    return y;
}

/* Adds the operation, finds its phase and annotates what it makes. */
static luo_status emit(diff *d, luo_op_kind kind, const char *name, const int32_t *in, int32_t nin,
                       const int32_t *out, int32_t nout)
{
    luo_graph *graph = d->g;
    const int32_t layer = graph->failed ? -1 : here(d)->layer;
    const int32_t o = luo_graph_op(graph, kind, name, layer, in, nin, out, nout);
    if (graph->failed) return luo_err_nomem(d->err);
    graph->op[o].forward = d->at;
    luo_graph_segment(graph, o);
    return luo_graph_deduce(graph, o, d->err);
}

static luo_status emit_reshard(diff *d, const char *name, int32_t x, int32_t kind, int32_t ann,
                               int32_t *res)
{
    luo_graph *graph = d->g;
    const luo_tensor from = graph->tensor[x];
    *res = luo_graph_tensor(graph, name, from.letters, kind, from.layer);
    if (graph->failed) return luo_err_nomem(d->err);
    const int32_t raw = d->override(d->ctx, name);
    graph->tensor[*res].ann = raw >= 0 ? raw : ann;
    graph->tensor[*res].elem_bytes = from.elem_bytes;
    return emit(d, LUO_OP_RESHARD, name, &x, 1, res, 1);
}

static const luo_ann *ann_of(const diff *d, int32_t x)
{
    return luo_annset_get(d->g->set, d->g->tensor[x].ann);
}

/* ---- sums of contributions ---- */

/* Are these summands of one group, or copies there? They are added as they are. */
static bool adds_once(const luo_graph *graph, const int32_t *at, int32_t n)
{
    bool good = graph->matched;
    for (int32_t i = 0; i < n && good; i++) {
        const luo_ann *ann = luo_annset_get(graph->set, graph->tensor[at[i]].ann);
        good = ann->u == 1 && ann->grp[0].nent == 1 && ann->grp[0].ent[0].key < 0;
    }
    return good;
}

/* Do they lie on some members of x each (reads_part)? */
static bool are_parts(const diff *d, int32_t x, const int32_t *at, int32_t n)
{
    bool good = n == 2 && d->g->tensor[x].kind == LUO_TENSOR_PARAM;
    for (int32_t i = 0; i < n && good; i++)
        good = d->g->tensor[at[i]].kind == LUO_TENSOR_GRAD && ann_of(d, at[i])->u < ann_of(d, x)->u;
    return good;
}

static luo_status sum_parts(diff *d, int32_t x, const int32_t *at, int32_t n, int32_t *res)
{
    luo_graph *graph = d->g;
    bool equal = true;
    for (int32_t i = 1; i < n; i++) equal &= graph->tensor[at[i]].ann == graph->tensor[at[0]].ann;
    equal = equal || adds_once(graph, at, n) || are_parts(d, x, at, n);
    int32_t *in = LUO_NEW_N(graph->arena, int32_t, n);
    if (!in) return luo_err_nomem(d->err);
    memcpy(in, at, (size_t)n * sizeof *in);
    for (int32_t i = 1; i < n && !luo_ann_has_partial(ann_of(d, in[0])) && equal; i++)
        if (luo_ann_has_partial(ann_of(d, at[i]))) { /* the sum may lie in its first part */
            in[0] = at[i];
            in[i] = at[0];
        }
    for (int32_t i = 0; i < n && !equal; i++) {
        int32_t full;
        LUO_TRY(luo_annset_complete(graph->set, graph->tensor[x].ann, &full, d->err));
        if (graph->tensor[at[i]].ann == full) continue;
        const char *name = luo_arena_printf(graph->arena, "%s.whole", graph->tensor[at[i]].name);
        LUO_TRY(emit_reshard(d, name, at[i], graph->tensor[at[i]].kind, full, &in[i]));
    }
    const char *name = luo_arena_printf(graph->arena, "d.%s.sum", graph->tensor[x].name);
    const luo_tensor first = graph->tensor[in[0]];
    *res = luo_graph_tensor(graph, name, first.letters, first.kind, first.layer);
    if (graph->failed) return luo_err_nomem(d->err);
    graph->tensor[*res].elem_bytes = first.elem_bytes;
    return emit(d, LUO_OP_ADD, name, in, n, res, 1);
}

static bool made_per_micro_batch(const luo_graph *graph, int32_t x)
{
    const luo_op *op = &graph->op[graph->tensor[x].op];
    return op->phase == LUO_PHASE_B && op->kind != LUO_OP_ACCUMULATE;
}

/* Running sum over the micro-batches of those contributions to x that have annotation `ann`. */
static luo_status accumulate(diff *d, int32_t x, const int32_t *at, int32_t n, int32_t *res)
{
    luo_graph *graph = d->g;
    const luo_tensor tensor = graph->tensor[x];
    const char *name = luo_arena_printf(graph->arena, "d.%s", tensor.name);
    *res = luo_graph_tensor(graph, name, tensor.letters, LUO_TENSOR_GRAD, tensor.layer);
    return emit(d, LUO_OP_ACCUMULATE, name, at, n, res, 1);
}

/* Contributions to a parameter: those of a micro-batch are accumulated, by annotation. */
static luo_status accumulate_parts(diff *d, int32_t x, int32_t *at, int32_t *n)
{
    luo_graph *graph = d->g;
    int32_t *same = LUO_NEW_N(graph->arena, int32_t, *n);
    if (!same) return luo_err_nomem(d->err);
    int32_t kept = 0;
    for (int32_t i = 0; i < *n; i++) {
        if (at[i] < 0) continue;
        if (!made_per_micro_batch(graph, at[i])) {
            at[kept++] = at[i];
            continue;
        }
        int32_t m = 0;
        for (int32_t j = i; j < *n; j++) {
            if (at[j] < 0 || !made_per_micro_batch(graph, at[j])) continue;
            if (graph->tensor[at[j]].ann != graph->tensor[at[i]].ann) continue;
            same[m++] = at[j];
            if (j > i) at[j] = -1;
        }
        LUO_TRY(accumulate(d, x, same, m, &at[kept++]));
    }
    *n = kept;
    return LUO_OK;
}

/* Is the running sum kept on this side of the operation? With ZeRO-2 a micro-batch's gradient is
 * cut to pieces first, and these are summed. */
static bool sums_up(const diff *d)
{
    const luo_op *op = here(d);
    if (op->phase != LUO_PHASE_PRE) return false;
    return !d->g->scatter_each || d->g->tensor[op->out[0]].counted || op->kind == LUO_OP_STATE ||
           d->g->tensor[op->out[0]].form == LUO_FORM_SHARD;
}

/* Gradient of forward tensor x; -1: it has none. */
static luo_status gradient(diff *d, int32_t x, int32_t *res)
{
    int32_t n = 0;
    for (const part *p = d->parts[x]; p; p = p->next) n++;
    *res = -1;
    if (n == 0) return LUO_OK;
    int32_t *at = LUO_NEW_N(d->g->arena, int32_t, n);
    if (!at) return luo_err_nomem(d->err);
    n = 0;
    for (const part *p = d->parts[x]; p; p = p->next) at[n++] = p->tensor;
    if (sums_up(d)) LUO_TRY(accumulate_parts(d, x, at, &n));
    if (n > 1) return sum_parts(d, x, at, n, res);
    *res = at[0];
    return LUO_OK;
}

/* ---- one rule per operation kind ---- */

/* One result for operand number i. */
static luo_status emit_one(diff *d, luo_op_kind kind, int32_t i, const int32_t *in, int32_t nin)
{
    const int32_t x = here(d)->in[i];
    const int32_t y = grad_tensor(d, x);
    if (d->g->failed) return luo_err_nomem(d->err);
    LUO_TRY(emit(d, kind, d->g->tensor[y].name, in, nin, &y, 1));
    return contribute(d, x, y);
}

/* Results for operands first..first+n-1, by one operation called `d.NAME` + tail. */
static luo_status emit_many(diff *d, luo_op_kind kind, const char *tail, int32_t first, int32_t n,
                            const int32_t *in, int32_t nin)
{
    int32_t y[4];
    assert(n <= 4);
    for (int32_t j = 0; j < n; j++) y[j] = grad_tensor(d, here(d)->in[first + j]);
    if (d->g->failed) return luo_err_nomem(d->err);
    const char *name = luo_arena_printf(d->g->arena, "d.%s%s", here(d)->name, tail);
    LUO_TRY(emit(d, kind, name, in, nin, y, n));
    for (int32_t j = 0; j < n; j++) LUO_TRY(contribute(d, here(d)->in[first + j], y[j]));
    return LUO_OK;
}

/* Gradients of several products are partial sums all together, or none is. */
static luo_status complete_some(diff *d, int32_t *dy, int32_t n)
{
    int32_t sums = 0;
    for (int32_t j = 0; j < n; j++) sums += luo_ann_has_partial(ann_of(d, dy[j]));
    for (int32_t j = 0; j < n && d->g->matched && sums < n; j++) {
        if (!luo_ann_has_partial(ann_of(d, dy[j]))) continue;
        const luo_tensor from = d->g->tensor[dy[j]];
        const char *name = luo_arena_printf(d->g->arena, "%s.whole", from.name);
        int32_t full;
        LUO_TRY(luo_annset_complete(d->g->set, from.ann, &full, d->err));
        LUO_TRY(emit_reshard(d, name, dy[j], from.kind, full, &dy[j]));
    }
    return LUO_OK;
}

/* Operands of the products of weight gradients, gathered to where the weights lie. dw: x, dy.. */
static luo_status gather_factors(diff *d, int32_t *dw, int32_t n)
{
    luo_graph *graph = d->g;
    const int32_t w = here(d)->in[1];
    if (!graph->factors || !graph->factors[w]) return LUO_OK;
    for (int32_t j = 0; j <= n; j++) {
        const char *name = luo_arena_printf(graph->arena, "%s.factor@%s",
                                            graph->tensor[dw[j]].name, here(d)->name);
        LUO_TRY(emit_reshard(d, name, dw[j], graph->tensor[dw[j]].kind, graph->tensor[w].ann,
                             &dw[j]));
    }
    return LUO_OK;
}

static luo_status diff_matmul(diff *d, const int32_t *gradients)
{
    const int32_t n = here(d)->nout;
    int32_t pairs[8], dw[5] = {here(d)->in[0]}, dy[4];
    assert(n <= 4);
    memcpy(dy, gradients, sizeof dy);
    LUO_TRY(complete_some(d, dy, n));
    for (int32_t j = 0; j < n; j++) {
        pairs[2 * j] = dw[1 + j] = dy[j];
        pairs[2 * j + 1] = here(d)->in[1 + j];
    }
    LUO_TRY(emit_one(d, LUO_OP_MATMUL_DX, 0, pairs, 2 * n));
    LUO_TRY(gather_factors(d, dw, n));
    return emit_many(d, LUO_OP_MATMUL_DW, ".weight", 1, n, dw, 1 + n);
}

static luo_status diff_norm(diff *d, const int32_t *dy)
{
    const int32_t x = here(d)->in[0], w = here(d)->in[1];
    const int32_t in[3] = {dy[0], x, w};
    LUO_TRY(emit_one(d, LUO_OP_NORM_DX, 0, in, 3));
    return emit_many(d, LUO_OP_NORM_DW, ".weight", 1, here(d)->nin - 1, in, 2);
}

/* ---- attention whose keys and values went round a ring ---- */

typedef struct ring {
    int32_t in[7];             /* of a step: do, o, rows, q, k, v, dq so far */
    const int32_t *first;      /* operands of the first forward step, and its name */
    const char *name;
    int32_t k[2], travels[2];  /* keys, values of the step at hand; the sums that travel */
    int32_t own[2], made[2];   /* of the first step; of the step at hand */
} ring;

static const char *ring_name(diff *d, const char *what, int32_t x, int32_t j)
{
    return luo_arena_printf(d->g->arena, "%s%s.%d", what, d->g->tensor[x].name, (int)j);
}

/* Where sums for the block of step j lie: with its keys, or at home once it went all round. */
static luo_status ring_place(diff *d, int32_t home, int32_t there, int32_t j, int32_t *ann)
{
    luo_graph *graph = d->g;
    const int32_t U = luo_annset_get(graph->set, graph->tensor[home].ann)->u;
    bool *back = LUO_NEW_N(graph->arena, bool, U);
    int32_t a, b;
    if (!back) return luo_err_nomem(d->err);
    for (int32_t u = 0; u < U; u++)
        back[u] = j >= luo_context_parts(&graph->context[u * graph->npipelines / U]);
    LUO_TRY(luo_annset_summed(graph->set, graph->tensor[there].ann, &a, d->err));
    LUO_TRY(luo_annset_summed(graph->set, graph->tensor[home].ann, &b, d->err));
    return luo_annset_pick(graph->set, a, b, back, ann, d->err);
}

static luo_status ring_step(diff *d, int32_t j, const int32_t *there, ring *r)
{
    luo_graph *graph = d->g;
    int32_t y[3];
    for (int32_t i = 0; i < 3; i++) {
        const luo_tensor like = graph->tensor[r->first[i]];
        y[i] = luo_graph_tensor(graph, ring_name(d, "d.", r->first[i], j), like.letters,
                                LUO_TENSOR_VALUE, like.layer);
    }
    const char *name = luo_arena_printf(graph->arena, "d.%s.step.%d", r->name, (int)j);
    const int32_t o =
        luo_graph_op(graph, LUO_OP_ATTENTION_DX, name, here(d)->layer, r->in, j ? 7 : 6, y, 3);
    if (graph->failed) return luo_err_nomem(d->err);
    graph->op[o].forward = d->at;
    graph->op[o].ring = j;
    luo_graph_segment(graph, o);
    LUO_TRY(luo_graph_deduce(graph, o, d->err));
    r->in[6] = y[0];
    for (int32_t i = 0; i < 2; i++) {
        r->made[i] = y[1 + i];
        if (j == 0) r->own[i] = y[1 + i];
        else
            LUO_TRY(ring_place(d, r->first[1 + i], there[i], j, &graph->tensor[y[1 + i]].ann));
    }
    return LUO_OK;
}

/* Keys and values travel again; the forward step's own is at home, or was passed on then. */
static luo_status ring_next(diff *d, int32_t j, const int32_t *forward, ring *r)
{
    for (int32_t i = 0; i < 2; i++) {
        LUO_TRY(emit_reshard(d, ring_name(d, "d.again.", r->first[1 + i], j), r->k[i],
                             LUO_TENSOR_VALUE, d->g->tensor[forward[i]].ann, &r->k[i]));
        d->g->op[d->g->nops - 1].after = r->in[6];
    }
    return LUO_OK;
}

static luo_status ring_pass_on(diff *d, int32_t j, const int32_t *there, ring *r)
{
    for (int32_t i = 0; i < 2; i++) {
        int32_t ann;
        LUO_TRY(ring_place(d, r->first[1 + i], there[i], j, &ann));
        LUO_TRY(emit_reshard(d, ring_name(d, "d.way.", r->first[1 + i], j), r->travels[i],
                             LUO_TENSOR_VALUE, ann, &r->travels[i]));
    }
    return LUO_OK;
}

/* What this step gave, and what came in the meantime. The step does not wait for it. */
static luo_status ring_add(diff *d, int32_t j, ring *r)
{
    luo_graph *graph = d->g;
    for (int32_t i = 0; i < 2; i++) {
        const luo_tensor like = graph->tensor[r->made[i]];
        const int32_t in[2] = {r->travels[i], r->made[i]};
        const char *name = ring_name(d, "d.sum.", r->first[1 + i], j);
        r->travels[i] = r->made[i];
        if (j < 2) continue;
        r->travels[i] = luo_graph_tensor(graph, name, like.letters, LUO_TENSOR_VALUE, like.layer);
        if (graph->failed) return luo_err_nomem(d->err);
        LUO_TRY(emit(d, LUO_OP_ADD, name, in, 2, &r->travels[i], 1));
    }
    return LUO_OK;
}

/* What came round and what the owner's own step gave. */
static luo_status ring_sum(diff *d, ring *r)
{
    luo_graph *graph = d->g;
    for (int32_t i = 0; i < 2; i++) {
        const int32_t in[2] = {r->own[i], r->travels[i]}, x = r->first[1 + i];
        const int32_t y = grad_tensor(d, x);
        if (graph->failed) return luo_err_nomem(d->err);
        LUO_TRY(emit(d, LUO_OP_ADD, graph->tensor[y].name, in, 2, &y, 1));
        LUO_TRY(contribute(d, x, y));
    }
    return contribute(d, r->first[0], r->in[6]);
}

/* Blocks come round in the same order as forward; sums for a block start at the rank after its
 * owner, travel with it and go home after the last step. Pre: here is the last step. */
static luo_status diff_ring(diff *d, int32_t dy)
{
    luo_graph *graph = d->g;
    const luo_op last = *here(d);
    const int32_t n = last.ring + 1;
    int32_t at = d->at, kv[LUO_CONTEXT_SHARES][2];
    assert(n <= LUO_CONTEXT_SHARES);
    for (int32_t j = n - 1; j >= 0; j--) {
        const int32_t *in = graph->op[at].in;
        kv[j][0] = in[1];
        kv[j][1] = in[2];
        if (j > 0) at = graph->tensor[in[3]].op;
    }
    ring r = {.in = {dy, last.out[0], last.out[1], last.in[0]},
              .first = graph->op[at].in,
              .name = graph->op[at].name,
              .k = {kv[0][0], kv[0][1]}};
    for (int32_t j = 0; j < n; j++) {
        const int32_t have[2] = {r.k[0], r.k[1]};
        if (j + 1 < n) LUO_TRY(ring_next(d, j + 1, kv[j + 1], &r));
        if (j > 1) LUO_TRY(ring_pass_on(d, j, kv[j], &r)); /* from the rank before */
        r.in[4] = have[0];
        r.in[5] = have[1];
        LUO_TRY(ring_step(d, j, kv[j], &r));
        LUO_TRY(ring_add(d, j, &r));
    }
    LUO_TRY(ring_pass_on(d, n, kv[n - 1], &r));
    return ring_sum(d, &r);
}

static luo_status diff_rope(diff *d, const int32_t *dy)
{
    return emit_many(d, LUO_OP_ROPE_DX, "", 0, 2, dy, 2);
}

static luo_status diff_latent(diff *d, const int32_t *gradients)
{
    int32_t dy[2] = {gradients[0], gradients[1]};
    LUO_TRY(complete_some(d, dy, 2));
    return emit_many(d, LUO_OP_LATENT_DX, "", 0, 3, dy, 2);
}

static luo_status diff_attention(diff *d, const int32_t *dy)
{
    const luo_op *op = here(d);
    if (op->ring > 0) return diff_ring(d, dy[0]);
    const int32_t in[6] = {dy[0], op->out[0], op->out[1], op->in[0], op->in[1], op->in[2]};
    return emit_many(d, LUO_OP_ATTENTION_DX, "", 0, 3, in, 6);
}

static luo_status diff_activation(diff *d, const int32_t *dy)
{
    const luo_op *op = here(d);
    int32_t in[4] = {dy[0], op->in[0]};
    if (op->nin == 1) return emit_one(d, LUO_OP_ACTIVATION_DX, 0, in, 2);
    in[2] = op->in[1];
    in[3] = op->out[1];
    return emit_many(d, LUO_OP_ACTIVATION_DX, "", 0, 2, in, 4);
}

/* ---- experts ---- */

/* What the Reshard makes that reads x. Pre: there is one. */
static int32_t completed(const diff *d, int32_t x)
{
    int32_t o = d->at + 1;
    while (d->g->op[o].kind != LUO_OP_RESHARD || d->g->op[o].in[0] != x) o++;
    return d->g->op[o].out[0];
}

/* A bias is moved by how often its experts were chosen: that goes the way of its gradient. */
static luo_status diff_route(diff *d, const int32_t *dy)
{
    const luo_op *op = here(d);
    if (op->nout == 1) return LUO_OK; /* choices that nothing moves */
    const bool balances = op->nout > 3;
    if (op->nin > 1 && balances) {
        const int32_t counted[5] = {dy[0], op->out[0], op->out[1], op->out[2], op->out[3]};
        return emit_many(d, LUO_OP_ROUTE_DX, "", 0, 2, counted, 5);
    }
    const int32_t in[5] = {dy[0], op->out[0], op->out[1], op->out[2],
                           balances ? completed(d, op->out[3]) : -1};
    return emit_one(d, LUO_OP_ROUTE_DX, 0, in, balances ? 5 : 4);
}

static luo_status diff_pack(diff *d, const int32_t *dy)
{
    const int32_t in[2] = {dy[0], here(d)->in[1]};
    return emit_one(d, LUO_OP_PACK_DX, 0, in, 2);
}

static luo_status diff_grouped(diff *d, const int32_t *dy)
{
    const int32_t n = here(d)->nout, counts = here(d)->in[1];
    int32_t pairs[7] = {counts}, dw[5] = {here(d)->in[0], counts};
    assert(n <= 3);
    for (int32_t j = 0; j < n; j++) {
        pairs[1 + 2 * j] = dw[2 + j] = dy[j];
        pairs[2 + 2 * j] = here(d)->in[2 + j];
    }
    LUO_TRY(emit_one(d, LUO_OP_GROUPED_DX, 0, pairs, 1 + 2 * n));
    return emit_many(d, LUO_OP_GROUPED_DW, ".weight", 2, n, dw, 2 + n);
}

static luo_status diff_rows_activation(diff *d, const int32_t *dy)
{
    const luo_op *op = here(d);
    const int32_t plain[3] = {dy[0], op->in[0], op->in[1]};
    if (op->nin == 2) return emit_one(d, LUO_OP_ROWS_ACTIVATION_DX, 0, plain, 3);
    const int32_t gated[5] = {dy[0], op->in[0], op->in[1], op->out[1], op->in[2]};
    return emit_many(d, LUO_OP_ROWS_ACTIVATION_DX, "", 0, 2, gated, 5);
}

/* Of rows and of weights, not of the choices. Without weights rows get what their tokens have. */
static luo_status diff_combine(diff *d, const int32_t *dy)
{
    const luo_op *op = here(d);
    const int32_t alone[2] = {dy[0], op->in[1]};
    if (op->nin == 2) return emit_one(d, LUO_OP_COMBINE_DX, 0, alone, 2);
    const int32_t in[4] = {dy[0], op->in[1], op->in[2], op->in[0]};
    const int32_t y[2] = {grad_tensor(d, op->in[0]), grad_tensor(d, op->in[2])};
    if (d->g->failed) return luo_err_nomem(d->err);
    const char *name = luo_arena_printf(d->g->arena, "d.%s", op->name);
    LUO_TRY(emit(d, LUO_OP_COMBINE_DX, name, in, 4, y, 2));
    LUO_TRY(contribute(d, here(d)->in[0], y[0]));
    return contribute(d, here(d)->in[2], y[1]);
}

static luo_status diff_token_gate(diff *d, const int32_t *dy)
{
    const int32_t in[3] = {dy[0], here(d)->in[0], here(d)->in[1]};
    return emit_many(d, LUO_OP_TOKEN_GATE_DX, "", 0, 2, in, 3);
}

static bool same_devices(const luo_ann *a, const luo_ann *b)
{
    if (luo_ann_ndev(a) != luo_ann_ndev(b)) return false;
    if (a->u != b->u) return true; /* of one place: only the tiers differ */
    for (int32_t u = 0; u < a->u; u++) {
        if (a->grp[u].ndev != b->grp[u].ndev) return false;
        for (int32_t i = 0; i < a->grp[u].ndev; i++) {
            bool found = false;
            for (int32_t j = 0; j < b->grp[u].ndev && !found; j++)
                found = b->grp[u].dev[(i + j) % b->grp[u].ndev] == a->grp[u].dev[i];
            if (!found) return false;
        }
    }
    return true;
}

/* Summands of which there are copies too: a part of the sum for each is no reduce-scatter. */
static bool sums_of_copies(const luo_ann *ann)
{
    for (int32_t u = 0; u < ann->u; u++)
        if (luo_grp_count(&ann->grp[u], LUO_PARTIAL) > 1 &&
            luo_grp_count(&ann->grp[u], LUO_DUP) > 1)
            return true;
    return false;
}

/* Rows of experts go back the way they came, by the same counts. */
static luo_status diff_exchange(diff *d, const char *name, int32_t dy, int32_t ann)
{
    luo_graph *graph = d->g;
    const int32_t x = here(d)->in[0], in[3] = {dy, here(d)->in[1], here(d)->in[2]};
    const luo_tensor from = graph->tensor[dy];
    const int32_t y = luo_graph_tensor(graph, name, from.letters, from.kind, here(d)->layer);
    if (graph->failed) return luo_err_nomem(d->err);
    graph->tensor[y].ann = ann;
    graph->tensor[y].elem_bytes = from.elem_bytes;
    LUO_TRY(emit(d, LUO_OP_RESHARD, name, in, 3, &y, 1));
    return contribute(d, x, y);
}

/* Some members of a parameter are read here, others elsewhere: what is summed up here stays here
 * until the gradient of all of it is summed. */
static bool reads_part(const diff *d)
{
    const luo_tensor *x = &d->g->tensor[here(d)->in[0]], *y = &d->g->tensor[here(d)->out[0]];
    return x->kind == LUO_TENSOR_PARAM && y->kind == LUO_TENSOR_PARAM &&
           luo_annset_is_part(d->g->set, y->ann, x->ann);
}

/* A Reshard of dY to the complete form of the source. A sum that is still Partial cannot
 * also change devices, nor be cut finer than it is summed: it is completed where it is first. */
static luo_status diff_reshard(diff *d, const int32_t *gradients)
{
    luo_graph *graph = d->g;
    int32_t dy = gradients[0];
    const int32_t x = here(d)->in[0], layer = here(d)->layer;
    int32_t full;
    if (reads_part(d)) return contribute(d, x, dy);
    LUO_TRY(luo_annset_complete(graph->set, graph->tensor[x].ann, &full, d->err));
    const int32_t kind = graph->tensor[dy].kind;
    int32_t whole;
    const int32_t is = graph->tensor[x].kind;
    const bool weight =
        is == LUO_TENSOR_PARAM || is == LUO_TENSOR_STATE || is == LUO_TENSOR_SHARD;
    /* one micro-batch's part of the gradient of a weight is not yet that gradient */
    const bool partial = weight && graph->scatter_each && kind != LUO_TENSOR_GRAD;
    const bool apart = partial && graph->shard_copies; /* copies of the piece are summed later */
    if (apart) LUO_TRY(luo_annset_across(graph->set, full, &full, d->err));
    LUO_TRY(luo_annset_complete(graph->set, graph->tensor[dy].ann, &whole, d->err));
    if (!apart && luo_ann_has_partial(ann_of(d, dy)) &&
        (!same_devices(ann_of(d, dy), luo_annset_get(graph->set, full)) ||
         (whole != full && sums_of_copies(ann_of(d, dy))))) {
        const char *name = luo_arena_printf(graph->arena, "%s.whole", graph->tensor[dy].name);
        LUO_TRY(emit_reshard(d, name, dy, kind, whole, &dy));
    }
    const bool alone = d->consumers[x] <= 1 && !partial;
    const char *name =
        alone ? luo_arena_printf(graph->arena, "d.%s", graph->tensor[x].name)
              : luo_arena_printf(graph->arena, "d.%s@%s", graph->tensor[x].name, here(d)->name);
    int32_t res;
    if (here(d)->nin > 1) return diff_exchange(d, name, dy, full);
    LUO_TRY(emit_reshard(d, name, dy, kind, full, &res));
    graph->op[graph->nops - 1].variant = here(d)->variant_back;
    graph->tensor[res].layer = layer;
    return contribute(d, x, res);
}

static luo_status diff_add(diff *d, const int32_t *dy)
{
    for (int32_t i = 0; i < here(d)->nin; i++) LUO_TRY(contribute(d, here(d)->in[i], dy[0]));
    return LUO_OK;
}

static luo_status diff_bias(diff *d, const int32_t *dy)
{
    LUO_TRY(contribute(d, here(d)->in[0], dy[0]));
    return emit_one(d, LUO_OP_BIAS_DW, 1, dy, 1);
}

static luo_status diff_embedding(diff *d, const int32_t *dy)
{
    const int32_t in[3] = {here(d)->in[0], dy[0], here(d)->in[1]};
    return emit_one(d, LUO_OP_EMBEDDING_DW, 1, in, 3);
}

static luo_status diff_state(diff *d, const int32_t *dy)
{
    d->state[d->npairs] = here(d)->out[0];
    d->grad[d->npairs++] = dy[0];
    return LUO_OK;
}

/* Data, and what the loss does not depend on or whose gradient diff_loss has at once. */
static luo_status diff_untrained(diff *d, const int32_t *dy)
{
    (void)d, (void)dy;
    return LUO_OK;
}

static luo_status diff_none(diff *d, const int32_t *dy)
{
    (void)dy;
    return luo_err_set(d->err, LUO_EBUG, "operation `%s` has no gradient; report it.",
                       here(d)->name);
}

/* The loss is known to be a sum of rows: its gradient starts at the logits, out of nothing. */
static luo_status diff_loss(diff *d, const int32_t *dy)
{
    (void)dy;
    const int32_t in[4] = {d->g->exp, d->g->row_sum, d->g->labels, d->g->row_max};
    return emit_one(d, LUO_OP_LOSS_DX, 0, in, d->g->softcap ? 4 : 3);
}

static luo_status (*const gradients[LUO_OP_KINDS])(diff *d, const int32_t *dy) = {
#define LUO_OP(kind, name, operands, nin, nout, deduce, gradient, ...)                             \
    [LUO_OP_##kind] = diff_##gradient,
#include "core/graph/ops.inc"
#undef LUO_OP
};

static luo_status diff_op(diff *d)
{
    const int32_t nout = here(d)->nout, kind = here(d)->kind;
    int32_t dy[4] = {-1, -1, -1, -1};
    assert(nout <= 4);
    for (int32_t j = 0; j < nout; j++) LUO_TRY(gradient(d, here(d)->out[j], &dy[j]));
    if (dy[0] < 0 && gradients[kind] != diff_loss) return LUO_OK;
    return gradients[kind](d, dy);
}

/* ---- norm and update ---- */

static luo_status finish(diff *d, const luo_ann *all)
{
    luo_graph *graph = d->g;
    const int32_t n = d->npairs;
    int32_t part_ann, full, sum;
    LUO_TRY(luo_annset_add(graph->set, all, &part_ann, d->err));
    LUO_TRY(luo_annset_complete(graph->set, part_ann, &full, d->err));
    const int32_t norm = luo_graph_tensor(graph, "grad_norm.part", "", LUO_TENSOR_VALUE, -1);
    if (graph->failed) return luo_err_nomem(d->err);
    graph->tensor[norm].ann = part_ann;
    graph->tensor[norm].elem_bytes = graph->sum_bytes;
    int32_t *in = LUO_NEW_N(graph->arena, int32_t, 2 * n), m = 0;
    if (!in) return luo_err_nomem(d->err);
    for (int32_t i = 0; i < n; i++) /* counts are none */
        if (!graph->tensor[d->state[i]].counted) in[m++] = d->grad[i];
    LUO_TRY(emit(d, LUO_OP_GRAD_NORM, "grad_norm.part", in, m, &norm, 1));
    LUO_TRY(emit_reshard(d, "grad_norm", norm, LUO_TENSOR_VALUE, full, &sum));
    memcpy(in, d->state, (size_t)n * sizeof *in);
    memcpy(in + n, d->grad, (size_t)n * sizeof *in);
    LUO_TRY(emit(d, LUO_OP_UPDATE, "update", in, 2 * n, NULL, 0));
    return graph->staggered ? emit(d, LUO_OP_AMEND, "amend", in, 2 * n, NULL, 0) : LUO_OK;
}

static luo_status prepare(diff *d)
{
    luo_graph *graph = d->g;
    d->forward_tensors = graph->ntensors;
    d->parts = LUO_NEW_N(graph->arena, part *, graph->ntensors);
    d->consumers = LUO_NEW_N(graph->arena, int32_t, graph->ntensors);
    d->state = LUO_NEW_N(graph->arena, int32_t, graph->ntensors);
    d->grad = LUO_NEW_N(graph->arena, int32_t, graph->ntensors);
    if (!d->parts || !d->consumers || !d->state || !d->grad) return luo_err_nomem(d->err);
    for (int32_t o = 0; o < graph->nops; o++) {
        luo_graph_segment(graph, o);
        for (int32_t i = 0; i < graph->op[o].nin; i++) d->consumers[graph->op[o].in[i]]++;
    }
    return LUO_OK;
}

luo_status luo_graph_differentiate(luo_graph *graph, const luo_ann *all, luo_override_fn override,
                                   void *ctx, luo_err *err)
{
    diff d = {.g = graph, .override = override, .ctx = ctx, .err = err};
    LUO_TRY(prepare(&d));
    const int32_t forward = graph->nops;
    for (d.at = forward - 1; d.at >= 0; d.at--) LUO_TRY(diff_op(&d));
    d.at = forward - 1;
    LUO_TRY(finish(&d, all));
    return graph->failed ? luo_err_nomem(err) : LUO_OK;
}
