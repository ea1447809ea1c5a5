/* deduce_op.c: the rule of every operation kind (docs/annotations.md#deduction), on top of the
 * einsum rule. Results get their annotation in operation order. */
#include <string.h>

#include "core/graph/graph.h"

typedef struct site {
    luo_graph *g;
    const luo_op *op;
    luo_err *err;
} site;

static const luo_tensor *in_of(const site *s, int32_t i)
{
    return &s->g->tensor[s->op->in[i]];
}

static luo_tensor *out_of(const site *s, int32_t i)
{
    return &s->g->tensor[s->op->out[i]];
}

static luo_term term_of(const luo_tensor *tensor)
{
    return (luo_term){tensor->ann, tensor->letters, tensor->name, false};
}

/* Annotation of a tensor with the letters `out` from the einsum of these tensors. */
static luo_status einsum(const site *s, const luo_tensor *const *x, int32_t n, const char *out,
                         int32_t *ann)
{
    luo_term terms[4];
    for (int32_t i = 0; i < n; i++) terms[i] = term_of(x[i]);
    return luo_annset_einsum(s->g->set, terms, n, out, s->op->name, ann, s->err);
}

static luo_status disagree(const site *s, const luo_tensor *tensor, int32_t a, int32_t b)
{
    const char *have = luo_annset_text(s->g->set, a), *want = luo_annset_text(s->g->set, b);
    return luo_err_set(s->err, LUO_EDEDUCE,
                       "op `%s`: D_CUT: `%s` comes out as %s by one operand and as %s by another; "
                       "insert a Reshard.",
                       s->op->name, tensor->name, have ? have : "?", want ? want : "?");
}

/* The annotation is given by a plan, or by who makes the operation. */
static luo_status rule_given(const site *s)
{
    (void)s;
    return LUO_OK;
}

/* All operands in one einsum, the last one as a label only if so. */
static luo_status whole_einsum(const site *s, bool last_is_label)
{
    luo_term terms[4];
    for (int32_t i = 0; i < s->op->nin; i++) terms[i] = term_of(in_of(s, i));
    terms[s->op->nin - 1].label_only = last_is_label;
    for (int32_t j = 0; j < s->op->nout; j++) {
        luo_tensor *tensor = out_of(s, j);
        LUO_TRY(luo_annset_einsum(s->g->set, terms, s->op->nin, tensor->letters, s->op->name,
                                  &tensor->ann, s->err));
    }
    return LUO_OK;
}

static luo_status rule_einsum(const site *s)
{
    return whole_einsum(s, false);
}

static luo_status rule_embedding_dw(const site *s)
{
    return whole_einsum(s, true);
}

/* Each result of the first operand and one of those from `first` on. */
static luo_status fan_out(const site *s, int32_t first)
{
    for (int32_t j = 0; j < s->op->nout; j++) {
        const luo_tensor *pair[2] = {in_of(s, 0), in_of(s, first + j)};
        luo_tensor *tensor = out_of(s, j);
        LUO_TRY(einsum(s, pair, 2, tensor->letters, &tensor->ann));
    }
    return LUO_OK;
}

/* x, w1..wn -> y1..yn: y_j of x and w_j. Also x, dy1..dyn -> dw1..dwn. */
static luo_status rule_fan_out(const site *s)
{
    return fan_out(s, 1);
}

/* The result of every pair of operands from `first` on: they must give the same. */
static luo_status fan_in(const site *s, int32_t first)
{
    luo_tensor *tensor = out_of(s, 0);
    for (int32_t j = first; j < s->op->nin; j += 2) {
        const luo_tensor *pair[2] = {in_of(s, j), in_of(s, j + 1)};
        int32_t ann;
        LUO_TRY(einsum(s, pair, 2, tensor->letters, &ann));
        if (j > first && ann != tensor->ann) return disagree(s, tensor, tensor->ann, ann);
        tensor->ann = ann;
    }
    return LUO_OK;
}

/* dy1, w1, .. dyn, wn -> dx. */
static luo_status rule_fan_in(const site *s)
{
    return fan_in(s, 0);
}

static luo_status want_whole(const site *s, const luo_tensor *tensor, int32_t dim, const char *why)
{
    return luo_deduce_want_whole(luo_annset_get(s->g->set, tensor->ann), dim, tensor->name,
                                 s->op->name, why, s->err);
}

/* y like the einsum of x and the weights; the axis (last dimension of x) is whole. */
static luo_status rule_norm(const site *s)
{
    const luo_tensor *tensor = in_of(s, 0);
    LUO_TRY(want_whole(s, tensor, tensor->rank - 1,
                       "insert a Reshard that gathers the normalised axis"));
    return rule_einsum(s);
}

/* dx of (dy, x, w). */
static luo_status rule_norm_dx(const site *s)
{
    const luo_tensor *tensor = in_of(s, 1);
    LUO_TRY(want_whole(s, tensor, tensor->rank - 1,
                       "insert a Reshard that gathers the normalised axis"));
    return rule_einsum(s);
}

/* One group with this key alone. */
static bool has_key(const luo_ann *ann, int32_t key)
{
    return ann->u == 1 && ann->grp[0].nent == 1 && ann->grp[0].ent[0].key == key;
}

/* Every result like the operand in its place; gradients are linear in it. */
static luo_status rule_like(const site *s)
{
    for (int32_t j = 0; j < s->op->nout; j++) {
        const luo_tensor *tensor = in_of(s, j);
        luo_tensor *y = out_of(s, j);
        const bool sums = has_key(luo_annset_get(s->g->set, tensor->ann), LUO_PARTIAL);
        if (s->g->matched && s->op->kind == LUO_OP_ROPE_DX && sums) {
            y->ann = tensor->ann;
            continue;
        }
        LUO_TRY(want_whole(s, tensor, tensor->rank - 1, "insert a Reshard that gathers the head"));
        LUO_TRY(einsum(s, &tensor, 1, y->letters, &y->ann));
    }
    return LUO_OK;
}

static luo_status renamed(const site *s, const luo_tensor *tensor, const char *letters,
                          luo_term *term)
{
    *term = term_of(tensor);
    term->letters = letters; /* the last dimension, which is whole, has another size */
    return want_whole(s, tensor, tensor->rank - 1, "insert a Reshard that gathers the head");
}

/* q, k, shared -> q', k': keys have the heads of their own part. */
static luo_status rule_latent(const site *s)
{
    const luo_tensor *tensor = in_of(s, 0);
    luo_term term[2], like;
    LUO_TRY(renamed(s, tensor, "tnd", &like));
    LUO_TRY(renamed(s, in_of(s, 1), "tnd", &term[0]));
    LUO_TRY(renamed(s, in_of(s, 2), "td", &term[1]));
    LUO_TRY(luo_annset_einsum(s->g->set, &like, 1, "tnd", s->op->name, &out_of(s, 0)->ann, s->err));
    return luo_annset_einsum(s->g->set, term, 2, "tnd", s->op->name, &out_of(s, 1)->ann, s->err);
}

/* dq', dk' -> dq, dk, shared dk, which is summed over the heads here. */
static luo_status rule_latent_dx(const site *s)
{
    static const char *const out[3] = {"tnd", "tnd", "td"};
    for (int32_t j = 0; j < 3; j++) {
        luo_term from;
        LUO_TRY(renamed(s, in_of(s, j > 0), "tnd", &from));
        LUO_TRY(luo_annset_einsum(s->g->set, &from, 1, out[j], s->op->name, &out_of(s, j)->ann,
                                  s->err));
    }
    return LUO_OK;
}

/* A member's own cut of the tokens would part a sequence. */
static luo_status want_sequences(const site *s, const luo_tensor *tensor)
{
    const luo_ann *ann = luo_annset_get(s->g->set, tensor->ann);
    for (int32_t u = 0; u < ann->u && !s->g->matched; u++) /* the plan cuts between sequences */
        if (luo_grp_count(&ann->grp[u], 0) > 1)
            return luo_err_set(s->err, LUO_EDEDUCE,
                               "op `%s`: D_UNCUT: the tokens of `%s` are cut in %d inside member "
                               "%d; insert a Reshard that gathers the sequence.",
                               s->op->name, tensor->name, (int)luo_grp_count(&ann->grp[u], 0),
                               (int)u);
    return LUO_OK;
}

static bool head_cuts_equal(const luo_ann *q, const luo_ann *k)
{
    if (q->u != k->u || q->h == 1 || k->h == 1) return q->u == k->u && q->h == k->h;
    for (int32_t u = 0; u < q->u; u++) {
        const int32_t n = luo_grp_count(&q->grp[u], 1);
        if (n != luo_grp_count(&k->grp[u], 1)) return false;
        const uint32_t *a = luo_grp_share(&q->grp[u], 1), *b = luo_grp_share(&k->grp[u], 1);
        if (!a != !b || (a && memcmp(a, b, (size_t)n * sizeof *a) != 0)) return false;
    }
    return true;
}

/* Key-value heads are cut exactly like the query heads (then g is n), or not at all. */
static luo_status key_letters(const site *s, const luo_tensor *q, const luo_tensor *k,
                              const char **letters)
{
    const luo_ann *ann = luo_annset_get(s->g->set, q->ann), *b = luo_annset_get(s->g->set, k->ann);
    const bool equal = head_cuts_equal(ann, b);
    *letters = equal ? "tnd" : "tgd";
    return equal ? LUO_OK : want_whole(s, k, 1, "insert a Reshard that gathers the heads");
}

/* Values of latent attention have a size of their own. */
static const char *value_letters(const luo_tensor *tensor, const char *keys)
{
    return tensor->letters[2] == 'u' ? "tnu" : keys;
}

/* ---- attention under context parallelism ---- */

static bool same_ents(const luo_grp *a, const luo_grp *b, int32_t key)
{
    const int32_t n = luo_grp_count(a, key);
    const uint32_t *x = luo_grp_share(a, key), *y = luo_grp_share(b, key);
    if (n != luo_grp_count(b, key) || !x != !y) return false;
    return !x || memcmp(x, y, (size_t)n * sizeof *x) == 0;
}

/* Tokens may be cut by the parts of the ring, alike in queries, keys and values. */
static luo_status want_parts(const site *s, const luo_tensor *q, const luo_tensor *x)
{
    const luo_ann *ann = luo_annset_get(s->g->set, q->ann), *b = luo_annset_get(s->g->set, x->ann);
    if (ann->u != b->u || ann->h != b->h) return disagree(s, x, q->ann, x->ann);
    for (int32_t u = 0; u < b->u; u++) {
        const int32_t parts = luo_context_parts(&s->g->context[u * s->g->npipelines / b->u]);
        const int32_t n = luo_grp_count(&b->grp[u], 0);
        if (n > 1 && n != parts)
            return luo_err_set(s->err, LUO_EDEDUCE,
                               "op `%s`: D_UNCUT: the tokens of `%s` are cut in %d inside member "
                               "%d, whose ring has %d parts; insert a Reshard.", s->op->name,
                               x->name, (int)n, (int)u, (int)parts);
        if (!same_ents(&ann->grp[u], &b->grp[u], 0)) return disagree(s, x, q->ann, x->ann);
    }
    return LUO_OK;
}

/* Each rank has the keys and values of its queries' heads; what more it computes on is decided by
 * the step of the ring, so results lie like the queries. */
static luo_status rule_ring(const site *s, int32_t q)
{
    for (int32_t i = q; i < q + 3; i++) {
        LUO_TRY(want_whole(s, in_of(s, i), 2, "insert a Reshard that gathers the head"));
        LUO_TRY(want_parts(s, in_of(s, q), in_of(s, i)));
    }
    if (in_of(s, q + 1)->ann != in_of(s, q + 2)->ann)
        return disagree(s, in_of(s, q + 2), in_of(s, q + 1)->ann, in_of(s, q + 2)->ann);
    out_of(s, 0)->ann = in_of(s, q)->ann;
    return LUO_OK;
}

static luo_status rule_ring_forward(const site *s)
{
    LUO_TRY(rule_ring(s, 0));
    out_of(s, 1)->ann = in_of(s, 0)->ann;
    return LUO_OK;
}

/* Gradients of copies of keys and values are summands. */
static luo_status rule_ring_dx(const site *s)
{
    const int32_t q = in_of(s, 3)->ann;
    LUO_TRY(rule_ring(s, 3));
    if (in_of(s, 0)->ann != q) return disagree(s, in_of(s, 0), in_of(s, 0)->ann, q);
    for (int32_t j = 1; j < 3; j++)
        LUO_TRY(luo_annset_summed(s->g->set, in_of(s, 3 + j)->ann, &out_of(s, j)->ann, s->err));
    return LUO_OK;
}

static luo_status rule_attention(const site *s)
{
    if (s->g->npipelines > 0) return rule_ring_forward(s);
    const luo_tensor *tensor = in_of(s, 0), *k = in_of(s, 1), *v = in_of(s, 2);
    const char *letters;
    LUO_TRY(key_letters(s, tensor, k, &letters));
    luo_term terms[3] = {term_of(tensor), term_of(k), term_of(v)};
    terms[1].letters = letters;
    terms[2].letters = value_letters(v, letters);
    for (int32_t i = 0; i < 3; i++) {
        LUO_TRY(want_whole(s, in_of(s, i), 2, "insert a Reshard that gathers the head"));
        LUO_TRY(want_sequences(s, in_of(s, i)));
    }
    for (int32_t j = 0; j < 2; j++)
        LUO_TRY(luo_annset_einsum(s->g->set, terms, 3, out_of(s, j)->letters, s->op->name,
                                  &out_of(s, j)->ann, s->err));
    return LUO_OK;
}

/* do, o, rows, q, k, v -> dq, dk, dv: whole keys give gradients summed over the query heads. */
static luo_status rule_attention_dx(const site *s)
{
    if (s->g->npipelines > 0) return rule_ring_dx(s);
    const luo_tensor *dy = in_of(s, 0), *tensor = in_of(s, 3), *k = in_of(s, 4);
    const char *letters;
    LUO_TRY(key_letters(s, tensor, k, &letters));
    luo_term terms[3] = {term_of(dy), term_of(tensor), term_of(k)};
    terms[2].letters = letters;
    const char *out[3] = {"tnd", letters, value_letters(in_of(s, 5), letters)};
    for (int32_t j = 0; j < 3; j++)
        LUO_TRY(luo_annset_einsum(s->g->set, terms, 3, out[j], s->op->name, &out_of(s, j)->ann,
                                  s->err));
    return LUO_OK;
}

/* Sums accept Partial operands of one annotation; others add by the einsum rule. Two parts of the
 * gradient of a tensor whose readers have some of its members each are summands of all of them. */
static luo_status rule_sum(const site *s)
{
    bool equal = true;
    for (int32_t i = 1; i < s->op->nin; i++) equal &= in_of(s, i)->ann == in_of(s, 0)->ann;
    if (!equal && in_of(s, 0)->kind == LUO_TENSOR_GRAD && s->op->nin == 2)
        return luo_annset_join(s->g->set, in_of(s, 0)->ann, in_of(s, 1)->ann, LUO_PARTIAL,
                               &out_of(s, 0)->ann, s->err);
    if (!equal) return rule_einsum(s);
    out_of(s, 0)->ann = in_of(s, 0)->ann;
    return LUO_OK;
}

/* Results of (dy, operands ..): all have the letters of dy. */
static luo_status rule_activation_dx(const site *s)
{
    const luo_tensor *pair[2] = {in_of(s, 0), in_of(s, 1)};
    for (int32_t j = 0; j < s->op->nout; j++)
        LUO_TRY(einsum(s, pair, 2, out_of(s, j)->letters, &out_of(s, j)->ann));
    return LUO_OK;
}

/* ---- experts ---- */

/* Is dimension d cut neither at the top nor in a member? Partial or not. */
static bool is_whole(const luo_ann *ann, int32_t d)
{
    bool whole = ann->h != d;
    for (int32_t u = 0; u < ann->u; u++) whole &= luo_grp_count(&ann->grp[u], d) == 1;
    return whole;
}

/* The choices of a token lie where all its logits do; by a hash, where the token itself does. */
static luo_status rule_route(const site *s)
{
    LUO_TRY(want_whole(s, in_of(s, 0), 1, "insert a Reshard that gathers the experts"));
    for (int32_t j = 0; j < s->op->nout; j++) out_of(s, j)->ann = in_of(s, 0)->ann;
    if (s->op->nout < 4) return LUO_OK;
    /* choices of own tokens: sums over those of a pipeline, not over pipelines */
    return luo_annset_inner_sums(s->g->set, in_of(s, 0)->ann, &out_of(s, 3)->ann, s->err);
}

static luo_status rule_route_dx(const site *s)
{
    for (int32_t i = 0; i < 3; i++)
        if (in_of(s, i)->ann != in_of(s, 3)->ann)
            return disagree(s, in_of(s, i), in_of(s, i)->ann, in_of(s, 3)->ann);
    out_of(s, 0)->ann = in_of(s, 3)->ann;
    if (s->op->nout < 2) return LUO_OK;
    /* choices of all tokens, as the gradient of a bias would be */
    const luo_tensor *tensor = in_of(s, 3);
    return einsum(s, &tensor, 1, out_of(s, 1)->letters, &out_of(s, 1)->ann);
}

/* x(th) -> rows(erh): every device has rows of its tokens for all experts. */
static luo_status rows_of_tokens(const site *s, const luo_tensor *tensor, luo_tensor *rows)
{
    static const int32_t to[2] = {1, 2};
    LUO_TRY(want_whole(s, tensor, 1, "insert a Reshard that gathers the hidden dimension"));
    return luo_annset_rename(s->g->set, tensor->ann, to, &rows->ann, s->err);
}

/* rows(erh) -> what has the tokens first; sums that are not complete stay so. */
static luo_status tokens_of_rows(const site *s, const luo_tensor *rows, luo_tensor *tensor)
{
    static const int32_t to[3] = {-1, 0, 1};
    const luo_ann *ann = luo_annset_get(s->g->set, rows->ann);
    if (!is_whole(ann, 0) || !is_whole(ann, 2))
        return luo_err_set(s->err, LUO_EDEDUCE,
                           "op `%s`: D_UNCUT: experts or columns of `%s` are cut; insert a "
                           "Reshard that brings the rows home.",
                           s->op->name, rows->name);
    return luo_annset_rename(s->g->set, rows->ann, to, &tensor->ann, s->err);
}

static luo_status rule_pack(const site *s)
{
    const luo_tensor *tensor = in_of(s, 0), *ids = in_of(s, 1);
    if (tensor->ann != ids->ann) return disagree(s, ids, tensor->ann, ids->ann);
    /* every device that has tokens has as many rows of counts, however many tokens it has */
    LUO_TRY(luo_annset_even(s->g->set, tensor->ann, &out_of(s, 1)->ann, s->err));
    return rows_of_tokens(s, tensor, out_of(s, 0));
}

/* Rows, ids and the rest -> tokens: the rows are those of the tokens that ids are of. */
static luo_status rule_unpack(const site *s)
{
    int32_t whole;
    LUO_TRY(tokens_of_rows(s, in_of(s, 0), out_of(s, 0)));
    LUO_TRY(luo_annset_complete(s->g->set, out_of(s, 0)->ann, &whole, s->err));
    for (int32_t i = 1; i < s->op->nin; i++)
        if (in_of(s, i)->ann != whole) return disagree(s, in_of(s, i), in_of(s, i)->ann, whole);
    return LUO_OK;
}

static luo_status rule_combine_dx(const site *s)
{
    LUO_TRY(rows_of_tokens(s, in_of(s, 0), out_of(s, 0)));
    return s->op->nout > 1 ? tokens_of_rows(s, in_of(s, 3), out_of(s, 1)) : LUO_OK;
}

/* rows, counts, w1..wn -> y1..yn, and rows, counts, dy1..dyn -> dw1..dwn. */
static luo_status rule_grouped(const site *s)
{
    return fan_out(s, 2);
}

static luo_status rule_grouped_dx(const site *s)
{
    return fan_in(s, 1);
}

/* All but the counts, which come last, lie alike. */
static luo_status rule_rows(const site *s)
{
    for (int32_t i = 1; i + 1 < s->op->nin; i++)
        if (in_of(s, i)->ann != in_of(s, 0)->ann)
            return disagree(s, in_of(s, i), in_of(s, i)->ann, in_of(s, 0)->ann);
    if (luo_ann_has_partial(luo_annset_get(s->g->set, in_of(s, 0)->ann)))
        return disagree(s, in_of(s, 0), in_of(s, 0)->ann, in_of(s, 0)->ann);
    for (int32_t j = 0; j < s->op->nout; j++) out_of(s, j)->ann = in_of(s, 0)->ann;
    return LUO_OK;
}

static luo_status rule_update(const site *s)
{
    const int32_t n = s->op->nin / 2;
    for (int32_t i = 0; i < n; i++) {
        const luo_tensor *state = in_of(s, i), *grad = in_of(s, n + i);
        if (state->ann != grad->ann) return disagree(s, grad, grad->ann, state->ann);
    }
    return LUO_OK;
}

static luo_status (*const rules[LUO_OP_KINDS])(const site *s) = {
#define LUO_OP(kind, name, operands, nin, nout, deduce, ...) [LUO_OP_##kind] = rule_##deduce,
#include "core/graph/ops.inc"
#undef LUO_OP
};

/* ---- partial sums, where the plan annotates every tensor ---- */

/* Bits of operands in which an operation is linear together while the others stay; 0: in none. */
static const struct {
    uint32_t one, other;
} linear[LUO_OP_KINDS] = {
    [LUO_OP_MATMUL] = {1, 0},        [LUO_OP_MATMUL_DX] = {0x55, 0}, [LUO_OP_MATMUL_DW] = {1, 0xfe},
    [LUO_OP_BIAS] = {1, 0},          [LUO_OP_BIAS_DW] = {1, 0},      [LUO_OP_EMBEDDING_DW] = {2, 0},
    [LUO_OP_NORM_DX] = {1, 0},       [LUO_OP_NORM_DW] = {1, 0},      [LUO_OP_ATTENTION_DX] = {1, 0},
    [LUO_OP_ACTIVATION_DX] = {1, 0}, [LUO_OP_LATENT_DX] = {3, 0},
    [LUO_OP_TOKEN_GATE_DX] = {1, 0},
};

/* Bits of operands that are partial sums. False: another is neither such nor a copy, or none is. */
static bool find_sums(const site *s, uint32_t *sums)
{
    *sums = 0;
    for (int32_t i = 0; i < s->op->nin; i++) {
        const luo_ann *ann = luo_annset_get(s->g->set, in_of(s, i)->ann);
        if (has_key(ann, LUO_PARTIAL))
            *sums |= 1u << i;
        else if (!has_key(ann, LUO_DUP))
            return false;
    }
    return *sums != 0;
}

/* silu(gate) up is linear in up, and so is the gradient of the gate; silu(gate) and the gradient of
 * up do not read it. So with the gate of a token. */
static bool gated(const site *s, uint32_t sums)
{
    const int32_t kind = s->op->kind;
    const bool back = kind == LUO_OP_ACTIVATION_DX || kind == LUO_OP_TOKEN_GATE_DX;
    const bool pair = s->op->nout == 2 && (back || kind == LUO_OP_ACTIVATION);
    const int32_t up = back ? 2 : 1;
    if ((!pair && kind != LUO_OP_TOKEN_GATE) || sums != 1u << up) return false;
    out_of(s, 0)->ann = in_of(s, up)->ann;
    if (pair) out_of(s, 1)->ann = in_of(s, 0)->ann;
    return true;
}

/* Results are partial sums where operands are that the operation is linear in; a sum is one where
 * any summand is, and complete ones are added on one device alone. */
static bool sums_pass(const site *s)
{
    uint32_t sums;
    if (!s->g->matched || s->op->nin > 8 || !find_sums(s, &sums)) return false;
    if (gated(s, sums)) return true;
    const uint32_t all = (1u << s->op->nin) - 1;
    const uint32_t one = linear[s->op->kind].one & all, other = linear[s->op->kind].other & all;
    if (s->op->kind != LUO_OP_ADD && sums != one && (sums != other || !other)) return false;
    int32_t i = 0;
    while (!(sums >> i & 1)) i++;
    for (int32_t j = 0; j < s->op->nout; j++) out_of(s, j)->ann = in_of(s, i)->ann;
    return true;
}

luo_status luo_graph_deduce_op(luo_graph *graph, int32_t o, luo_err *err)
{
    const site s = {graph, &graph->op[o], err};
    return sums_pass(&s) ? LUO_OK : rules[s.op->kind](&s);
}

luo_status luo_graph_deduce(luo_graph *graph, int32_t first, luo_err *err)
{
    for (int32_t o = first; o < graph->nops; o++) LUO_TRY(luo_graph_deduce_op(graph, o, err));
    return LUO_OK;
}
