/* spec_cost.c: what each operation costs on one device (docs/cost-model.md#matrix-products).
 * Sizes are local: with uneven shares every device is costed with its own. */
#include <math.h>
#include <string.h>

#include "core/graph/specialize/spec_internal.h"

typedef struct look { /* where sizes are looked up */
    const spec *s;
    const luo_op *op;
    int32_t length, dev;
} look;

static int64_t volume_of(const look *l, int32_t x)
{
    const spec_dims *dims = spec_local(l->s, x, l->length, l->dev);
    return dims ? dims->volume : 0;
}

static int64_t in_volume(const look *l, int32_t i)
{
    return volume_of(l, l->op->in[i]);
}

static int64_t tokens_of(const look *l, int32_t x)
{
    const spec_dims *dims = spec_local(l->s, x, l->length, l->dev);
    return dims ? dims->dim[0] : 0;
}

static int64_t dim_of(const look *l, int32_t x, int32_t d)
{
    const spec_dims *dims = spec_local(l->s, x, l->length, l->dev);
    return dims ? dims->dim[d] : 0;
}

static void stream(luo_instr *instr, int64_t bytes)
{
    instr->cost = (luo_cost_key){LUO_COST_STREAM, {bytes}};
}

static void gemm(const look *l, luo_instr *instr, int64_t m, int64_t n, int64_t k)
{
    instr->cost = (luo_cost_key){LUO_COST_GEMM, {m, n, k, 1, l->s->g->elem_bytes, 0}};
    instr->flops = 2 * m * n * k;
}

/* Products of all weights of the operation at once: widths add up (docs/cost-model.md#layers). */
static int64_t width(const look *l, const int32_t *at, int32_t n, int32_t step, int64_t tokens)
{
    int64_t sum = 0;
    for (int32_t j = 0; j < n; j += step) sum += volume_of(l, at[j]);
    return tokens ? sum / tokens : 0;
}

/* Elements of x that become fp8 here: of what is gathered a device has cast its own. */
static int64_t cast_here(const look *l, int32_t x)
{
    const luo_graph *graph = l->s->g;
    const int64_t all = volume_of(l, x);
    const int32_t by = graph->tensor[x].op;
    if (by < 0 || graph->op[by].kind != LUO_OP_RESHARD) return all;
    const int64_t own = volume_of(l, graph->op[by].in[0]);
    return own > 0 && own < all ? own : all;
}

static void name_product(luo_instr *instr, luo_weight_product product, int64_t cast)
{
    instr->cost.a[LUO_COST_PRODUCT] = product;
    instr->cost.a[LUO_COST_CAST] = cast;
}

/* y: what a forward product gives or takes the gradient of. Head, router and the gate of shared
 * experts are none of those. */
static bool may_be_fp8(const look *l, int32_t y)
{
    const char *letters = l->s->g->tensor[y].letters;
    return l->op->layer >= 0 && strcmp(letters, "te") != 0 && strcmp(letters, "to") != 0;
}

static void cost_matmul(const look *l, luo_instr *instr)
{
    const int64_t t = tokens_of(l, l->op->in[0]);
    gemm(l, instr, t, width(l, l->op->out, l->op->nout, 1, t), t ? in_volume(l, 0) / t : 0);
    if (may_be_fp8(l, l->op->out[0]))
        name_product(instr, LUO_WEIGHTS_Y, cast_here(l, l->op->in[0]));
}

static void cost_matmul_dx(const look *l, luo_instr *instr)
{
    const int64_t t = tokens_of(l, l->op->out[0]);
    int64_t cast = 0;
    gemm(l, instr, t, width(l, l->op->out, 1, 1, t), width(l, l->op->in, l->op->nin, 2, t));
    for (int32_t j = 0; j < l->op->nin; j += 2) cast += cast_here(l, l->op->in[j]);
    if (may_be_fp8(l, l->op->in[0])) name_product(instr, LUO_WEIGHTS_DX, cast);
}

static void cost_matmul_dw(const look *l, luo_instr *instr)
{
    const int64_t t = tokens_of(l, l->op->in[0]);
    gemm(l, instr, t ? in_volume(l, 0) / t : 0, width(l, l->op->in + 1, l->op->nin - 1, 1, t), t);
    if (may_be_fp8(l, l->op->in[1])) name_product(instr, LUO_WEIGHTS_DW, 0);
}

const luo_context *luo_spec_context(const spec *s, int32_t dev)
{
    return &s->g->context[s->pipe_of[dev]];
}

/* Block that has come to the device by step j. */
static int32_t block_of(const spec *s, int32_t dev, int32_t j)
{
    const int32_t parts = luo_context_parts(luo_spec_context(s, dev));
    return (spec_ring_part(s, dev) - j % parts + parts) % parts;
}

bool luo_spec_sees(const spec *s, const luo_op *op, int32_t dev)
{
    return !s->g->causal || luo_spec_context(s, dev)->zigzag ||
           block_of(s, dev, op->ring) <= spec_ring_part(s, dev);
}

int32_t luo_spec_part_differs(const spec *s, int32_t dev)
{
    const luo_context *context = luo_spec_context(s, dev);
    const bool differs =
        luo_context_parts(context) > 1 && ((s->g->causal && !context->zigzag) || context->share);
    return differs ? spec_ring_part(s, dev) : -1;
}

/* Tokens of the window of this layer, where sequences are longer; 0: everything is seen. */
static int64_t window_of(const look *l, int64_t sequence)
{
    const int64_t tokens = luo_window_of(&l->s->g->window, l->op->layer);
    return tokens < sequence ? tokens : 0;
}

/* Pairs of queries and keys in this step, per head, of all sequences of the micro-batch. The
 * diagonal counts half, so that the steps add up to the half square of a sequence. */
static int64_t pairs_of(const look *l, const luo_length *length)
{
    const luo_context *context = luo_spec_context(l->s, l->dev);
    const int64_t s = length->sequence_tokens;
    const int32_t q = spec_ring_part(l->s, l->dev), k = block_of(l->s, l->dev, l->op->ring);
    const int64_t twice = luo_context_half_pairs(context, s, l->s->g->causal, true, q, k);
    const int64_t window = window_of(l, s);
    if (s == 0) return 0;
    /* of a window every step has its part */
    const __int128 all = (__int128)twice * length->tokens / (2 * s);
    return (int64_t)(window > 0 ? all * window / s * (2 * s - window) / s : all);
}

/* Causal or not; backward of layers with selective recompute says that the core runs again. */
static int64_t mask_of(const look *l, bool backward)
{
    const spec_class *class = &l->s->cls[l->s->class_of[l->s->pipe_of[l->dev]]];
    const bool again = backward && l->op->layer >= 0 && class->selective[l->op->layer];
    return (l->s->g->causal ? LUO_ATTENTION_CAUSAL : 0) | (again ? LUO_ATTENTION_AGAIN : 0);
}

/* One step of a ring: 2 products of a query and a key forward, 5 backward. A step that only makes
 * the zeros that others add to writes them. */
static void cost_ring(const look *l, luo_instr *instr, const spec_dims *dims, bool backward)
{
    const luo_length *length = &l->s->in->lengths[l->length];
    const int64_t pairs = pairs_of(l, length), heads = dims->dim[1], head = dims->dim[2];
    if (pairs == 0) {
        stream(instr, volume_of(l, l->op->out[1]) * 2 * l->s->g->elem_bytes);
        return;
    }
    instr->cost = (luo_cost_key){
        backward ? LUO_COST_ATTENTION_B : LUO_COST_ATTENTION_F,
        {heads, head, dims->dim[0], length->sequence_tokens, mask_of(l, backward), pairs}};
    instr->flops = (backward ? 10 : 4) * heads * head * pairs;
}

/* Fused attention: the square of each sequence, half of it if causal; backward 2.5 times. */
static void fused(const look *l, luo_instr *instr, int32_t q, int32_t v, bool backward)
{
    const spec_dims *dims = spec_local(l->s, q, l->length, l->dev);
    if (!dims) return;
    if (l->s->g->npipelines > 0 && luo_context_parts(luo_spec_context(l->s, l->dev)) > 1) {
        cost_ring(l, instr, dims, backward);
        return;
    }
    const luo_length *length = &l->s->in->lengths[l->length];
    const int64_t t = dims->dim[0], heads = dims->dim[1], head = dims->dim[2],
                  value = dim_of(l, v, 2);
    const int64_t sequence = length->sequence_tokens < t ? length->sequence_tokens : t;
    const bool causal = l->s->g->causal;
    const int64_t window = window_of(l, sequence);
    instr->cost = (luo_cost_key){backward ? LUO_COST_ATTENTION_B : LUO_COST_ATTENTION_F,
                                 {heads, head, t, sequence, mask_of(l, backward), 0,
                                  value == head ? 0 : value, window}};
    const int64_t each = backward ? 3 * head + 2 * value : head + value;
    const int64_t seen = window > 0 ? window * (2 * sequence - window) / sequence : sequence;
    instr->flops = (causal ? 1 : 2) * heads * each * t * seen;
}

static void cost_attention(const look *l, luo_instr *instr)
{
    fused(l, instr, l->op->in[0], l->op->in[2], false);
}

static void cost_attention_dx(const look *l, luo_instr *instr)
{
    fused(l, instr, l->op->in[3], l->op->in[5], true);
}

/* ---- streaming kernels ---- */

/* So many times every element of an operand of activations is read or written. */
static void pass_over(const look *l, luo_instr *instr, int32_t times, int64_t elements)
{
    stream(instr, times * l->s->g->elem_bytes * elements);
}

static int64_t in_volumes(const look *l)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < l->op->nin; i++) sum += in_volume(l, i);
    return sum;
}

static void eager(const look *l, luo_instr *instr, luo_eager each, int64_t elements)
{
    instr->cost.a[LUO_COST_EAGER] =
        (int64_t)luo_eager_bytes(each, (double)l->s->g->elem_bytes, (double)elements);
}

static void cost_norm(const look *l, luo_instr *instr)
{
    pass_over(l, instr, 2, in_volume(l, 0));
    if (l->op->nin == 2) eager(l, instr, luo_eager_norm[0], in_volume(l, 0));
}

static void cost_norm_dx(const look *l, luo_instr *instr)
{
    const bool centred = l->op->forward >= 0 && l->s->g->op[l->op->forward].nin > 2;
    pass_over(l, instr, 4, in_volume(l, 0));
    if (!centred) eager(l, instr, luo_eager_norm[1], in_volume(l, 0));
}

static void cost_rope(const look *l, luo_instr *instr)
{
    pass_over(l, instr, 2, in_volumes(l));
    eager(l, instr, luo_eager_rope, in_volumes(l));
}

static void cost_latent(const look *l, luo_instr *instr)
{
    int64_t sum = in_volumes(l);
    for (int32_t i = 0; i < l->op->nout; i++) sum += volume_of(l, l->op->out[i]);
    pass_over(l, instr, 1, sum);
}

static void cost_activation(const look *l, luo_instr *instr)
{
    const bool gated = l->op->nout == 2; /* with silu(gate) */
    pass_over(l, instr, gated ? 3 : 2, in_volume(l, 0));
    if (gated) eager(l, instr, luo_eager_gate[0], in_volume(l, 0));
}

static void cost_activation_dx(const look *l, luo_instr *instr)
{
    const bool gated = l->op->nout == 2;
    pass_over(l, instr, gated ? 5 : 3, in_volume(l, 0));
    if (gated) eager(l, instr, luo_eager_gate[1], in_volume(l, 0));
}

static void cost_embedding(const look *l, luo_instr *instr)
{
    pass_over(l, instr, 2, volume_of(l, l->op->out[0]));
}

static void cost_embedding_dw(const look *l, luo_instr *instr)
{
    pass_over(l, instr, 2, in_volume(l, 1));
}

static void cost_exponentials(const look *l, luo_instr *instr)
{
    stream(instr, 10 * in_volume(l, 0));
}

static void cost_update(const look *l, luo_instr *instr)
{
    int64_t n = 0;
    for (int32_t k = 0; k < l->op->nin / 2; k++) n += in_volume(l, k);
    instr->cost = (luo_cost_key){LUO_COST_OPTIMIZER, {n, LUO_OPTIMIZER_BYTES}};
}

/* Residual and dropout forward, their gradients where they meet backward, sums after the step. */
static void cost_add(const look *l, luo_instr *instr)
{
    const int64_t e = l->s->g->elem_bytes, n = in_volume(l, 0);
    if (l->op->phase == LUO_PHASE_POST)
        stream(instr, 3 * l->s->g->sum_bytes * n);
    else
        stream(instr, ((l->op->phase == LUO_PHASE_F ? 3 : l->op->nin) * e + 1) * n);
}

/* What arrives, and the sum twice. */
static void cost_accumulate(const look *l, luo_instr *instr)
{
    const int64_t arrives = l->s->g->tensor[l->op->in[0]].elem_bytes;
    stream(instr, (arrives + 2 * l->s->g->sum_bytes) * in_volumes(l));
}

/* ---- experts ---- */

/* What is here of tensor x of rows; without a load equal experts. Out of memory the program is not
 * made at all: its roles ask again. */
static spec_load load_of(const look *l, int32_t x)
{
    spec_load load = {.factor = 1, .even = true};
    if (!l->s->in->load || l->s->g->tensor[x].letters[0] != 'e') return load;
    if (luo_spec_load_here(l->s, l->op->layer, x, l->length, l->dev, &load) != LUO_OK)
        return (spec_load){.factor = 1, .even = true};
    return load;
}

static int64_t loaded(int64_t rows, double factor)
{
    return factor == 1 ? rows : (int64_t)ceil((double)rows * factor - 1e-9);
}

/* Of so many experts with equal sizes. */
static void batched(const look *l, luo_instr *instr, int64_t m, int64_t n, int64_t k,
                    int64_t experts, luo_gemm_form form)
{
    if (m == 0 || n == 0 || k == 0 || experts == 0) return;
    instr->cost = (luo_cost_key){LUO_COST_GEMM, {m, n, k, experts, l->s->g->elem_bytes, form}};
    instr->flops = 2 * m * n * k * experts;
}

/* Rows of tensor x of every expert here, by weights of k x n. */
static void grouped(const look *l, luo_instr *instr, int32_t x, int64_t n, int64_t k)
{
    const spec_load load = load_of(l, x);
    if (load.even) {
        batched(l, instr, loaded(dim_of(l, x, 1), load.factor), n, k, dim_of(l, x, 0),
                LUO_GEMM_EXPERTS);
        return;
    }
    instr->cost = (luo_cost_key){
        LUO_COST_GROUPED, {load.rows, n, k, load.experts, l->s->g->elem_bytes}};
    for (int t = 0; t < LUO_GROUPED_TILES; t++) instr->cost.a[5 + t] = load.tiles[t];
    instr->flops = 2 * load.rows * n * k;
}

/* Columns of several tensors side by side. */
static int64_t columns(const look *l, const int32_t *at, int32_t n, int32_t step)
{
    int64_t sum = 0;
    for (int32_t j = 0; j < n; j += step) sum += dim_of(l, at[j], 2);
    return sum;
}

/* Rows of all experts here. */
static int64_t rows_cast(const luo_instr *instr)
{
    const int64_t *a = instr->cost.a;
    return a[0] * a[2] * (instr->cost.kind == LUO_COST_GEMM ? a[3] : 1);
}

static void cost_grouped(const look *l, luo_instr *instr)
{
    const int32_t x = l->op->in[0];
    grouped(l, instr, x, columns(l, l->op->out, l->op->nout, 1), dim_of(l, x, 2));
    name_product(instr, LUO_WEIGHTS_Y, rows_cast(instr));
}

static void cost_grouped_dx(const look *l, luo_instr *instr)
{
    const int32_t x = l->op->out[0];
    grouped(l, instr, x, columns(l, l->op->in + 1, l->op->nin - 1, 2), dim_of(l, x, 2));
    name_product(instr, LUO_WEIGHTS_DX, rows_cast(instr));
}

/* Tiles of an expert take as long as it has rows: those of all together are as long as those of
 * their mean. */
static void cost_grouped_dw(const look *l, luo_instr *instr)
{
    const int32_t x = l->op->in[0];
    const spec_load load = load_of(l, x);
    const int64_t m = dim_of(l, x, 2), n = columns(l, l->op->in + 2, l->op->nin - 2, 1);
    if (load.even) {
        batched(l, instr, m, n, loaded(dim_of(l, x, 1), load.factor), dim_of(l, x, 0),
                LUO_GEMM_SUMS);
        name_product(instr, LUO_WEIGHTS_DW, 0);
        return;
    }
    batched(l, instr, m, n, (load.rows + load.experts - 1) / load.experts, load.experts,
            LUO_GEMM_SUMS);
    name_product(instr, LUO_WEIGHTS_DW, 0);
    instr->flops = 2 * m * n * load.rows;
}

static void scale_rows(const look *l, luo_instr *instr)
{
    const double factor = load_of(l, l->op->in[0]).factor;
    int64_t *a = instr->cost.a;
    a[0] = loaded(a[0], factor);
    a[LUO_COST_EAGER] = loaded(a[LUO_COST_EAGER], factor);
}

static void cost_rows_activation(const look *l, luo_instr *instr)
{
    cost_activation(l, instr);
    scale_rows(l, instr);
}

static void cost_rows_activation_dx(const look *l, luo_instr *instr)
{
    cost_activation_dx(l, instr);
    scale_rows(l, instr);
}

static void cost_route(const look *l, luo_instr *instr)
{
    const bool backward = l->op->kind == LUO_OP_ROUTE_DX; /* logits, or probabilities */
    if (!backward && l->op->nout == 1) {                  /* ids of tokens, and of their experts */
        stream(instr, l->s->g->sum_bytes * 2 * volume_of(l, l->op->out[0]));
        return;
    }
    const bool all = !backward && l->op->nin > 1 && l->op->nout == 3; /* balanced: rounds unknown */
    stream(instr,
           l->s->g->sum_bytes * 2 * (in_volume(l, backward ? 3 : 0) + (all ? in_volume(l, 1) : 0)));
}

static void cost_pack(const look *l, luo_instr *instr)
{
    pass_over(l, instr, 2, volume_of(l, l->op->out[0]));
}

/* Rows are read, tokens written. */
static void cost_unpack(const look *l, luo_instr *instr)
{
    pass_over(l, instr, 1, in_volume(l, 0) + volume_of(l, l->op->out[0]));
}

static void cost_combine_dx(const look *l, luo_instr *instr)
{
    const int64_t rows = l->op->nin > 3 ? in_volume(l, 3) : 0; /* for the weights' gradient */
    pass_over(l, instr, 1, in_volume(l, 0) + rows + volume_of(l, l->op->out[0]));
}

/* x is read and y written; or dy and x are, and dx. */
static void cost_token_gate(const look *l, luo_instr *instr)
{
    const bool backward = l->op->kind == LUO_OP_TOKEN_GATE_DX;
    pass_over(l, instr, backward ? 3 : 2, in_volume(l, backward ? 2 : 1));
}

static void cost_rides(const look *l, luo_instr *instr)
{
    (void)l, (void)instr;
}

static void cost_nothing(const look *l, luo_instr *instr)
{
    (void)l, (void)instr;
}

static void (*const costs[LUO_OP_KINDS])(const look *l, luo_instr *i) = {
#define LUO_OP(kind, name, operands, nin, nout, deduce, gradient, emit, cost, ...)                 \
    [LUO_OP_##kind] = cost_##cost,
#include "core/graph/ops.inc"
#undef LUO_OP
};

void luo_spec_cost(const spec *s, int32_t o, int32_t length, int32_t dev, luo_instr *instr)
{
    const look l = {s, &s->g->op[o], length, dev};
    costs[l.op->kind](&l, instr);
}
