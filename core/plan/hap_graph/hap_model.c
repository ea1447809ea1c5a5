/* From the graph of a model to letters: one table by kind of operation. */
#include "core/plan/hap_graph/hap_model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct builder {
    luo_arena *arena;
    const luo_graph *from;
    luo_hap_graph *to;
    int64_t sequences, tokens;
    int32_t *same; /* by tensor of `from`: what it is a copy of, itself */
    int32_t *made; /* by tensor of `from`: tensor of `to`, -1: not yet */
} builder;

enum { LETTERS = 16 };
#define HEAD                                                                                       \
    "diu" /* sizes of a head: of queries and keys, of keys before they are turned, of values */

/* ---- tensors ---- */

/* Letters of a tensor with b and s for its tokens, b and c for its rows of an expert. These are
 * others in the model's graph: there s is the width of shared experts, b the part of a key that is
 * turned, c the latent vector of keys and values. */
static const char *letters_of(const builder *b, int32_t x, char *buf)
{
    static const char there[] = "trsbc", here[] = "scfxl";
    char *at = buf;
    for (const char *c = b->from->tensor[x].letters; *c; c++) {
        const char *other = strchr(there, *c);
        if (*c == 't' || *c == 'r') *at++ = 'b';
        *at++ = other ? here[other - there] : *c;
    }
    *at = 0;
    return buf;
}

/* Of an expert for the tokens of a sequence, if all get equally many. */
static int64_t rows_of_sequence(const builder *b)
{
    const int64_t n = (int64_t)ceil((double)b->tokens * b->from->rows_per_token - 1e-9);
    return n > 0 ? n : 1;
}

static int32_t dims_of(const builder *b, int32_t x, int64_t *dims)
{
    const luo_tensor *tensor = &b->from->tensor[x];
    int32_t n = 0;
    for (int32_t d = 0; d < tensor->rank; d++) {
        const bool tokens = tensor->dim[d] == LUO_DIM_TOKENS, rows = tensor->dim[d] == LUO_DIM_ROWS;
        if (tokens || rows) dims[n++] = b->sequences;
        dims[n++] = tokens ? b->tokens : rows ? rows_of_sequence(b) : tensor->dim[d];
    }
    return n;
}

/* Sequences and their tokens are one dimension of a plan: pieces of sequences can be said there,
 * pieces of their tokens cannot. So are the rows of an expert. */
static void place_dims(builder *b, int32_t x, int32_t made)
{
    int32_t n = 0;
    if (made < 0) return;
    luo_hap_tensor *to = &b->to->tensor[made];
    for (int32_t d = 0; d < b->from->tensor[x].rank; d++) {
        to->plan_dim[n++] = (int8_t)d;
        if (b->from->tensor[x].dim[d] < 0) to->plan_dim[n++] = -1;
    }
}

/* The tensor of `to`; data and parameters come when they are first read. */
static int32_t use(builder *b, int32_t x)
{
    int64_t dims[LUO_HAP_RANK + 2];
    const int32_t root = b->same[x];
    const luo_tensor *tensor = &b->from->tensor[root];
    if (b->made[root] >= 0) return b->made[root];
    const bool data = tensor->kind == LUO_TENSOR_DATA;
    const int32_t rank = dims_of(b, root, dims);
    b->made[root] = luo_hap_graph_leaf(b->to, tensor->name, data ? LUO_HAP_INPUT : LUO_HAP_PARAM,
                                       data, rank, dims);
    place_dims(b, root, b->made[root]);
    return b->made[root];
}

static void make(builder *b, luo_hap_kind kind, const char *signature, const char *whole,
                 const int32_t *in, int32_t result)
{
    const int32_t root = b->same[result];
    const char *name = b->from->tensor[result].name;
    b->made[root] = luo_hap_graph_op(b->to, kind, name, signature, whole, NULL, in,
                                     (const char *const[]){name});
    place_dims(b, result, b->made[root]);
}

/* Results of an operation whose letters `sizes` gives where no operand has them. */
static void make_several(builder *b, luo_hap_kind kind, const luo_op *op, const char *name,
                         const char *signature, const char *whole, const int64_t *sizes,
                         const int32_t *in, int32_t n)
{
    const char *names[2] = {0};
    for (int32_t k = 0; k < n; k++) names[k] = b->from->tensor[op->out[k]].name;
    const int32_t y = luo_hap_graph_op(b->to, kind, name, signature, whole, sizes, in, names);
    for (int32_t k = 0; k < n; k++) {
        b->made[b->same[op->out[k]]] = y < 0 ? y : y + k;
        place_dims(b, op->out[k], y < 0 ? y : y + k);
    }
}

/* ---- operations ---- */

static void skip(builder *b, const luo_op *op)
{
    (void)b;
    (void)op;
}

/* The bias that is added to x, NULL: none. */
static const luo_op *bias_of(const builder *b, int32_t x)
{
    for (int32_t o = 0; o < b->from->nops; o++)
        if (b->from->op[o].kind == LUO_OP_BIAS && b->same[b->from->op[o].in[0]] == x)
            return &b->from->op[o];
    return NULL;
}

/* Queries, keys and values of as many heads: one operation with one weight [h, 3, n, d]. */
static bool is_qkv(const builder *b, const luo_op *op)
{
    const bool alike = b->from->size['n' - 'a'] == b->from->size['g' - 'a'];
    return op->nout == 3 && alike && strchr(b->from->tensor[op->out[2]].letters, 'g');
}

/* A parameter that is three of the model: `kind` is weight or bias. */
static int32_t three(builder *b, const luo_op *op, const char *kind, const int32_t *parts,
                     int32_t rank, const int64_t *dims, const int8_t *plan_dim)
{
    const char *name = luo_arena_printf(b->arena, "%s.%s", op->name, kind);
    const char **names = LUO_NEW_N(b->arena, const char *, 3);
    if (!name || !names) {
        b->to->st = luo_err_nomem(&b->to->err);
        return -1;
    }
    for (int32_t k = 0; k < 3; k++) names[k] = b->from->tensor[parts[k]].name;
    const int32_t x = luo_hap_graph_leaf(b->to, name, LUO_HAP_PARAM, false, rank, dims);
    if (x < 0) return -1;
    b->to->tensor[x].nnames = 3;
    b->to->tensor[x].names = names;
    memcpy(b->to->tensor[x].plan_dim, plan_dim, (size_t)rank * sizeof *plan_dim);
    return x;
}

static void qkv(builder *b, const luo_op *op)
{
    const int64_t *size = b->from->size;
    const int64_t h = size['h' - 'a'], n = size['n' - 'a'], d = size['d' - 'a'];
    const char *names[3];
    int32_t in[3] = {use(b, op->in[0]), -1, -1}, parts[3];
    bool biased = true;
    for (int32_t k = 0; k < 3; k++) {
        const luo_op *bias = bias_of(b, b->same[op->out[k]]);
        names[k] = b->from->tensor[op->out[k]].name;
        biased &= bias != NULL;
        if (bias) parts[k] = bias->in[1];
    }
    in[1] = three(b, op, "weight", &op->in[1], 4, (int64_t[]){h, 3, n, d}, (int8_t[]){2, -1, 0, 1});
    if (biased) in[2] = three(b, op, "bias", parts, 3, (int64_t[]){3, n, d}, (int8_t[]){-1, 0, 1});
    const int32_t q =
        luo_hap_graph_op(b->to, LUO_HAP_QKV, op->name,
                         biased ? "bsh,hpnd,pnd->bsnd,bsnd,bsnd" : "bsh,hpnd->bsnd,bsnd,bsnd", "pd",
                         NULL, in, names);
    for (int32_t k = 0; k < 3; k++) {
        b->made[b->same[op->out[k]]] = q < 0 ? q : q + k;
        place_dims(b, op->out[k], q < 0 ? q : q + k);
    }
}

static void product(builder *b, const luo_op *op)
{
    if (is_qkv(b, op)) {
        qkv(b, op);
        return;
    }
    char x[LETTERS], w[LETTERS], v[LETTERS] = "", y[LETTERS], signature[4 * LETTERS];
    for (int32_t k = 0; k < op->nout; k++) {
        const luo_op *bias = bias_of(b, b->same[op->out[k]]);
        const int32_t in[3] = {use(b, op->in[0]), use(b, op->in[1 + k]),
                               bias ? use(b, bias->in[1]) : -1};
        const bool heads = strpbrk(letters_of(b, op->in[1 + k], w), HEAD) != NULL;
        if (bias) letters_of(b, bias->in[1], v);
        snprintf(signature, sizeof signature, "%s,%s%s%s->%s", letters_of(b, op->in[0], x), w,
                 bias ? "," : "", v, letters_of(b, op->out[k], y));
        make(b, LUO_HAP_LINEAR, signature, heads ? HEAD : "", in, op->out[k]);
    }
}

static void embedding(builder *b, const luo_op *op)
{
    char ids[LETTERS], table[LETTERS], y[LETTERS], signature[4 * LETTERS];
    const int32_t in[2] = {use(b, op->in[0]), use(b, op->in[1])};
    snprintf(signature, sizeof signature, "%s,%s->%s", letters_of(b, op->in[0], ids),
             letters_of(b, op->in[1], table), letters_of(b, op->out[0], y));
    make(b, LUO_HAP_EMBEDDING, signature, "", in, op->out[0]);
}

static void normalise(builder *b, const luo_op *op)
{
    char x[LETTERS], signature[4 * LETTERS];
    const char last[2] = {letters_of(b, op->in[0], x)[strlen(x) - 1], 0};
    int32_t in[3] = {-1, -1, -1};
    for (int32_t j = 0; j < op->nin && j < 3; j++) in[j] = use(b, op->in[j]);
    snprintf(signature, sizeof signature, op->nin == 3 ? "%s,%s,%s->%s" : "%s,%s%.0s->%s", x, last,
             last, x);
    make(b, LUO_HAP_NORM, signature, last, in, op->out[0]);
}

/* Results of the same shape as one operand each, one by one. */
static void each(builder *b, const luo_op *op)
{
    for (int32_t k = 0; k < op->nout; k++) {
        char x[LETTERS], signature[4 * LETTERS];
        const int32_t in = use(b, op->in[k]);
        const bool pairs = op->kind == LUO_OP_ROPE; /* turns pairs of a head's elements */
        letters_of(b, op->in[k], x);
        snprintf(signature, sizeof signature, "%s->%s", x, x);
        make(b, LUO_HAP_UNARY, signature, pairs ? "d" : "", &in, op->out[k]);
    }
}

static void add(builder *b, const luo_op *op)
{
    char x[LETTERS], y[LETTERS], z[LETTERS] = "", signature[4 * LETTERS];
    const bool three = op->nin > 2;
    const int32_t in[3] = {use(b, op->in[0]), use(b, op->in[1]), three ? use(b, op->in[2]) : -1};
    if (three) letters_of(b, op->in[2], z);
    snprintf(signature, sizeof signature, "%s,%s%s%s->%s", letters_of(b, op->in[0], x),
             letters_of(b, op->in[1], y), three ? "," : "", z, x);
    make(b, LUO_HAP_ADD, signature, "", in, op->out[0]);
}

static void gated(builder *b, const luo_op *op, const char *whole)
{
    char x[LETTERS], signature[4 * LETTERS];
    const int32_t in[2] = {use(b, op->in[0]), use(b, op->in[1])};
    letters_of(b, op->in[0], x);
    snprintf(signature, sizeof signature, "%s,%s->%s", x, x, x);
    make(b, LUO_HAP_GATED, signature, whole, in, op->out[0]);
}

static void activation(builder *b, const luo_op *op)
{
    if (op->nin == 2)
        gated(b, op, "");
    else
        each(b, op);
}

static void latent(builder *b, const luo_op *op)
{
    char q[LETTERS], k[LETTERS], x[LETTERS], signature[4 * LETTERS];
    const int32_t in[3] = {use(b, op->in[0]), use(b, op->in[1]), use(b, op->in[2])};
    snprintf(signature, sizeof signature, "%s,%s,%s->%s,%s", letters_of(b, op->in[0], q),
             letters_of(b, op->in[1], k), letters_of(b, op->in[2], x), q, q);
    make_several(b, LUO_HAP_LATENT, op, b->from->tensor[op->out[0]].name, signature, "dix", NULL,
                 in, 2);
}

static void attention(builder *b, const luo_op *op)
{
    const int32_t in[3] = {use(b, op->in[0]), use(b, op->in[1]), use(b, op->in[2])};
    const bool shared = b->from->size['n' - 'a'] != b->from->size['g' - 'a'];
    const bool latent = b->from->tensor[op->in[2]].letters[2] == 'u';
    make(b, LUO_HAP_ATTENTION,
         latent   ? "bsnd,btnd,btnu->bsnu"
         : shared ? "bsnd,btgd,btgd->bsnd"
                  : "bsnd,btnd,btnd->bsnd",
         shared && !latent ? "stdng" : "stdu", in, op->out[0]);
}

/* ---- experts ---- */

/* How rows lie is known when the step runs: they go between tokens and experts, as the counts of
 * both ends say, or stay where they are. */
static void keep_rows(builder *b, const luo_op *op, luo_hap_moves moves)
{
    for (int32_t k = 0; k < op->nout; k++) {
        const int32_t x = b->made[b->same[op->out[k]]];
        if (x >= 0) b->to->tensor[x].moves = moves;
    }
}

/* Choices of a token by its logits, or by its id. The bias of a gate is moved by counts, which are
 * small: to the planner it is data. */
static void route(builder *b, const luo_op *op)
{
    const int64_t k = b->from->gate.k;
    int32_t in[2] = {use(b, op->in[0]), -1};
    if (op->nout == 1) {
        make_several(b, LUO_HAP_HASH, op, op->name, "bsh->bsk", "shk", &k, in, 1);
        return;
    }
    const bool biased = op->nin > 1 && b->from->tensor[op->in[1]].counted;
    if (biased) {
        const int64_t experts = b->from->gate.experts;
        in[1] = luo_hap_graph_leaf(b->to, b->from->tensor[op->in[1]].name, LUO_HAP_INPUT, true, 1,
                                   &experts);
    }
    make_several(b, LUO_HAP_ROUTE, op, op->name, biased ? "bse,e->bsk,bsk" : "bse->bsk,bsk", "sek",
                 &k, in, 2);
}

static void pack(builder *b, const luo_op *op)
{
    const int32_t in[2] = {use(b, op->in[0]), use(b, op->in[1])};
    const int64_t sizes[2] = {b->from->gate.experts, rows_of_sequence(b)};
    make_several(b, LUO_HAP_PACK, op, b->from->tensor[op->out[0]].name, "bsh,bsk->ebch", "shkec",
                 sizes, in, 1);
    const int32_t x = b->made[b->same[op->out[0]]];
    if (x >= 0) b->to->tensor[x].moves = LUO_HAP_MOVES_ROWS;
}

/* By experts, by tokens, or by their inner columns. */
static void grouped(builder *b, const luo_op *op)
{
    const bool pair = op->nout > 1, back = b->from->tensor[op->out[0]].letters[2] == 'h';
    const int32_t in[3] = {use(b, op->in[0]), use(b, op->in[2]), pair ? use(b, op->in[3]) : -1};
    const char *name = pair ? op->name : b->from->tensor[op->out[0]].name;
    make_several(b, pair ? LUO_HAP_ROWS_PAIR : LUO_HAP_ROWS, op, name,
                 back   ? "ebcw,ewh->ebch"
                 : pair ? "ebch,ewh,ewh->ebcw,ebcw"
                        : "ebch,ewh->ebcw",
                 "ch", NULL, in, op->nout);
    keep_rows(b, op, back ? LUO_HAP_MOVES_ROWS : LUO_HAP_MOVES_NONE);
}

static void rows_activation(builder *b, const luo_op *op)
{
    const int32_t in = use(b, op->in[0]);
    if (op->nin == 3)
        gated(b, op, "c");
    else
        make(b, LUO_HAP_UNARY, "ebcw->ebcw", "c", &in, op->out[0]);
    const int32_t x = b->made[b->same[op->out[0]]];
    if (x >= 0) b->to->tensor[x].moves = LUO_HAP_MOVES_NONE;
}

static void combine(builder *b, const luo_op *op)
{
    const bool weighed = op->nin > 2;
    const int32_t in[3] = {use(b, op->in[0]), use(b, op->in[1]), weighed ? use(b, op->in[2]) : -1};
    make(b, LUO_HAP_UNPACK, weighed ? "ebch,bsk,bsk->bsh" : "ebch,bsk->bsh", "ecshk", in,
         op->out[0]);
}

static void token_gate(builder *b, const luo_op *op)
{
    const int32_t in[2] = {use(b, op->in[0]), use(b, op->in[1])};
    make(b, LUO_HAP_GATED, "bso,bsh->bsh", "o", in, op->out[0]);
}

/* Of logits, where their largest is taken; the other parts are skipped. */
static void cross_entropy(builder *b, const luo_op *op)
{
    const int32_t in[2] = {use(b, op->in[0]), use(b, b->from->labels)};
    make(b, LUO_HAP_LOSS, "bsv,bs->", "", in, b->from->loss);
}

static const struct {
    int32_t kind; /* luo_op_kind */
    void (*write)(builder *b, const luo_op *op);
} kinds[] = {
    {LUO_OP_PLACEHOLDER, skip},
    {LUO_OP_STATE, skip},
    {LUO_OP_RESHARD, skip},
    {LUO_OP_MATMUL, product},
    {LUO_OP_BIAS, skip},
    {LUO_OP_EMBEDDING, embedding},
    {LUO_OP_NORM, normalise},
    {LUO_OP_ROPE, each},
    {LUO_OP_LATENT, latent},
    {LUO_OP_ATTENTION, attention},
    {LUO_OP_ACTIVATION, activation},
    {LUO_OP_ADD, add},
    {LUO_OP_ROUTE, route},
    {LUO_OP_PACK, pack},
    {LUO_OP_GROUPED, grouped},
    {LUO_OP_ROWS_ACTIVATION, rows_activation},
    {LUO_OP_COMBINE, combine},
    {LUO_OP_TOKEN_GATE, token_gate},
    {LUO_OP_ROW_MAX, cross_entropy},
    {LUO_OP_ROW_SUM, skip},
    {LUO_OP_ROW_TARGET, skip},
    {LUO_OP_LOSS, skip},
    {LUO_OP_SUM, skip},
    {LUO_OP_ACCUMULATE, skip},
};

static luo_status write_op(builder *b, const luo_op *op, luo_err *err)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (kinds[i].kind != op->kind) continue;
        b->to->block = op->layer;
        kinds[i].write(b, op);
        return LUO_OK;
    }
    return luo_err_set(
        err, LUO_EINPUT,
        "op `%s` is a %s, which planner `hap` does not know; another model is needed.", op->name,
        luo_op_kind_name((luo_op_kind)op->kind));
}

/* Reshards hand on what they read, up to its maker; parameters begin at their working copy. */
static luo_status follow(builder *b, luo_err *err)
{
    const luo_graph *from = b->from;
    b->same = LUO_NEW_N(b->arena, int32_t, from->ntensors);
    b->made = LUO_NEW_N(b->arena, int32_t, from->ntensors);
    if (!b->same || !b->made) return luo_err_nomem(err);
    for (int32_t x = 0; x < from->ntensors; x++) {
        b->same[x] = x;
        b->made[x] = -1;
    }
    for (int32_t o = 0; o < from->nops; o++) {
        const luo_op *op = &from->op[o];
        if (op->kind == LUO_OP_RESHARD && from->tensor[op->out[0]].kind != LUO_TENSOR_PARAM)
            b->same[op->out[0]] = b->same[op->in[0]];
        const int32_t x = op->nin ? b->same[op->in[0]] : -1;
        if (op->kind == LUO_OP_BIAS) b->same[op->out[0]] = x;
    }
    return LUO_OK;
}

static luo_status write_graph(builder *b, luo_hap_graph **out, luo_err *err)
{
    b->to = luo_hap_graph_new(b->arena, b->from->elem_bytes);
    if (!b->to) return luo_err_nomem(err);
    LUO_TRY(follow(b, err));
    for (int32_t o = 0; o < b->from->nops; o++) LUO_TRY(write_op(b, &b->from->op[o], err));
    LUO_TRY(luo_hap_graph_check(b->to, err));
    *out = b->to;
    return LUO_OK;
}

luo_status luo_hap_model_graph(luo_arena *arena, const luo_model *model, luo_dtype dtype,
                               int64_t sequences, int64_t tokens, luo_hap_graph **out, luo_err *err)
{
    luo_graph *graph;
    const luo_build_opts opts = {.dtype = dtype};
    LUO_TRY(luo_graph_build(arena, model, &opts, &graph, err));
    builder b = {.arena = arena, .from = graph, .sequences = sequences, .tokens = tokens};
    const luo_status st = write_graph(&b, out, err);
    luo_annset_free(graph->set);
    return st;
}
