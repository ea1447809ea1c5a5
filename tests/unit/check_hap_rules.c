/* check_hap_rules.c: every rule of every kind of operation, carried out with numbers on three
 * devices with random uneven pieces, one of them empty: results and gradients lie as it says.
 *
 * Gradients are derivatives by complex steps (the imaginary part of f(x + ih) over h, exact to the
 * last bits) of what a device computes from what it holds. */
#include <complex.h>
#include <math.h>

#include "core/plan/hap_graph/rules.h"
#include "tests/check_main.h"
#include "tests/prop/prop.h"

typedef double complex number;
enum { DEVICES = 3, KERNEL = 3 };
static const double STEP = 1e-40;

typedef struct array {
    int32_t rank;
    int64_t dim[LUO_HAP_RANK], n;
    number *at;
} array;

typedef struct place { /* what a device knows beside its operands */
    bool once;         /* it adds complete summands to partial sums */
    int64_t lo;        /* first row of its piece of a table or of logits */
    array lse;         /* of the loss: log of the sum of exponentials, by token */
} place;

static array array_new(luo_arena *a, int32_t rank, const int64_t *dim)
{
    array x = {.rank = rank, .n = 1};
    for (int32_t d = 0; d < rank; d++) x.n *= x.dim[d] = dim[d];
    x.at = LUO_NEW_N(a, number, x.n ? x.n : 1);
    return x;
}

static int64_t offset(const array *x, const char *is, const int64_t *index)
{
    int64_t at = 0;
    for (int32_t d = 0; d < x->rank; d++) at = at * x->dim[d] + index[(int)is[d]];
    return at;
}

/* The next index of the axes named by letters; false: that was the last. */
static bool step_index(const char *letters, const int64_t *size, int64_t *index)
{
    for (size_t i = strlen(letters); i-- > 0;) {
        if (++index[(int)letters[i]] < size[(int)letters[i]]) return true;
        index[(int)letters[i]] = 0;
    }
    return false;
}

static bool any_empty(const char *letters, const int64_t *size)
{
    for (; *letters; letters++)
        if (size[(int)*letters] == 0) return true;
    return false;
}

static void add_letters(char *to, const char *letters)
{
    for (; *letters; letters++)
        if (!strchr(to, *letters)) strncat(to, letters, 1);
}

/* ---- kernels ---- */

static void product(const luo_hap_op *op, const array *in, array *out, const int64_t *size)
{
    char all[32] = "";
    int64_t index[128] = {0};
    add_letters(all, op->in_is[0]);
    add_letters(all, op->in_is[1]);
    if (any_empty(all, size)) return;
    do {
        const number term = in[0].at[offset(&in[0], op->in_is[0], index)] *
                            in[1].at[offset(&in[1], op->in_is[1], index)];
        const int64_t k = op->kind == LUO_HAP_QKV ? index['p'] : 0;
        out[k].at[offset(&out[k], op->out_is[k], index)] += term;
    } while (step_index(all, size, index));
}

static void add_bias(const luo_hap_op *op, const array *in, array *out, const int64_t *size)
{
    for (int64_t k = 0; k < op->nout; k++) {
        int64_t index[128] = {0};
        if (out[k].n == 0) continue;
        index['p'] = k;
        do
            out[k].at[offset(&out[k], op->out_is[k], index)] +=
                in[2].at[offset(&in[2], op->in_is[2], index)];
        while (step_index(op->out_is[k], size, index));
    }
}

static void conv(const array *in, array *y)
{
    const int64_t *d = y->dim, C = in[0].dim[1];
    for (int64_t b = 0; b < d[0]; b++)
        for (int64_t at = 0; at < d[1] * d[2] * d[3] * C * KERNEL * KERNEL; at++) {
            const int64_t l = at % KERNEL, k = at / KERNEL % KERNEL;
            const int64_t c = at / (KERNEL * KERNEL) % C, q = at / (KERNEL * KERNEL) / C;
            const int64_t j = q % d[3], i = q / d[3] % d[2], o = q / d[3] / d[2];
            const int64_t row = i + k - 1, col = j + l - 1;
            if (row < 0 || col < 0 || row >= d[2] || col >= d[3]) continue;
            y->at[((b * d[1] + o) * d[2] + i) * d[3] + j] +=
                in[0].at[((b * C + c) * d[2] + row) * d[3] + col] *
                in[1].at[((o * C + c) * KERNEL + k) * KERNEL + l];
        }
}

static void attention(const array *in, array *o) /* b s h e, keys b t h e */
{
    const int64_t B = o->dim[0], S = o->dim[1], H = o->dim[2], E = o->dim[3], T = in[1].dim[1];
#define AT(x, len, b, s, h, e) (x).at[(((b) * (len) + (s)) * H + (h)) * E + (e)]
    for (int64_t i = 0; i < B * S * H; i++) {
        const int64_t h = i % H, s = i / H % S, b = i / H / S;
        number sum = 0, weight[8];
        for (int64_t t = 0; t < T; t++) {
            number score = 0;
            for (int64_t e = 0; e < E; e++)
                score += AT(in[0], S, b, s, h, e) * AT(in[1], T, b, t, h, e);
            sum += weight[t] = cexp(score);
        }
        for (int64_t t = 0; t < T; t++)
            for (int64_t e = 0; e < E; e++)
                AT(*o, S, b, s, h, e) += weight[t] / sum * AT(in[2], T, b, t, h, e);
    }
#undef AT
}

static void gated(const array *in, array *y)
{
    for (int64_t at = 0; at < y->n; at++)
        y->at[at] = in[0].at[at] / (1 + cexp(-in[0].at[at])) * in[1].at[at];
}

static void norm(const array *in, array *y)
{
    const int64_t M = y->dim[y->rank - 1];
    for (int64_t row = 0; row < y->n; row += M) {
        number mean = 0, square = 0;
        for (int64_t m = 0; m < M; m++) mean += in[0].at[row + m] / (double)M;
        for (int64_t m = 0; m < M; m++) {
            const number off = in[0].at[row + m] - mean;
            square += off * off / (double)M;
        }
        for (int64_t m = 0; m < M; m++)
            y->at[row + m] = (in[0].at[row + m] - mean) / csqrt(square + 1e-5) * in[1].at[m] +
                             (in[2].n ? in[2].at[m] : 0);
    }
}

/* Largest of windows of two by two; an adaptive pool repeats rows and columns. */
static void pool(const array *in, array *y)
{
    const int64_t *d = y->dim, height = in[0].dim[2], width = in[0].dim[3];
    for (int64_t at = 0; at < y->n; at++) {
        const int64_t j = at % d[3], i = at / d[3] % d[2], image = at / d[3] / d[2];
        number best = -INFINITY;
        for (int64_t row = i * height / d[2]; row < ((i + 1) * height + d[2] - 1) / d[2]; row++)
            for (int64_t col = j * width / d[3]; col < ((j + 1) * width + d[3] - 1) / d[3]; col++) {
                const number x = in[0].at[(image * height + row) * width + col];
                if (creal(x) > creal(best)) best = x;
            }
        y->at[at] = best;
    }
}

static void embedding(const array *in, array *y, int64_t lo)
{
    const int64_t M = in[1].dim[1], rows = in[1].dim[0];
    for (int64_t at = 0; at < y->n; at++) {
        const int64_t id = (int64_t)creal(in[0].at[at / M]) - lo;
        if (id >= 0 && id < rows) y->at[at] = in[1].at[id * M + at % M];
    }
}

static void append(const array *in, array *y)
{
    const int64_t S = y->dim[1], M = y->dim[2];
    for (int64_t at = 0; at < y->n; at++) {
        const int64_t m = at % M, s = at / M % S, b = at / M / S;
        y->at[at] = s == 0 ? in[1].at[m] : in[0].at[(b * (S - 1) + s - 1) * M + m];
    }
}

static void take(const array *in, array *y)
{
    const int64_t S = in[0].dim[1], M = in[0].dim[2];
    for (int64_t at = 0; at < y->n; at++) y->at[at] = in[0].at[at / M * S * M + at % M];
}

/* Best expert of a token by the order of tokens; its slot is the token's place. */
static void gate(const array *in, array *out)
{
    const int64_t S = in[0].dim[1], M = in[0].dim[2], E = in[1].dim[1], C = out[0].dim[3];
    for (int64_t row = 0; row < in[0].dim[0] * S; row++) {
        number score[8], sum = 0;
        int64_t best = 0;
        for (int64_t e = 0; e < E; e++) {
            score[e] = 0;
            for (int64_t m = 0; m < M; m++) score[e] += in[0].at[row * M + m] * in[1].at[m * E + e];
            sum += cexp(score[e]);
            if (creal(score[e]) > creal(score[best])) best = e;
        }
        const int64_t at = (row * E + best) * C + row % S % C;
        out[0].at[at] = 1;
        out[1].at[at] = cexp(score[best]) / sum;
    }
}

static void loss(const array *in, array *L, const place *at)
{
    const int64_t V = in[0].dim[in[0].rank - 1];
    for (int64_t row = 0; row < in[1].n; row++) {
        const int64_t label = (int64_t)creal(in[1].at[row]) - at->lo;
        if (label >= 0 && label < V) L->at[0] += at->lse.at[row] - in[0].at[row * V + label];
    }
}

static void elementwise(const luo_hap_op *op, const array *in, array *out, const place *at,
                        const int64_t *size, uint32_t lin)
{
    for (int32_t j = 0; j < op->nin; j++) {
        int64_t index[128] = {0};
        if (out->n == 0 || (lin && !(lin >> j & 1) && !at->once)) continue;
        do {
            const number x = in[j].at[offset(&in[j], op->in_is[j], index)];
            out->at[offset(out, op->out_is[0], index)] += op->add || creal(x) > 0 ? x : 0.1 * x;
        } while (step_index(op->out_is[0], size, index));
    }
}

/* What one device computes of its operands. */
static void forward(luo_arena *a, const luo_hap_op *op, const luo_hap_rule *rule, const array *in,
                    const place *at, array *out)
{
    int64_t size[128];
    memcpy(size, op->size, sizeof size);
    for (int32_t j = 0; j < op->nin; j++)
        for (int32_t d = 0; d < in[j].rank; d++) size[(int)op->in_is[j][d]] = in[j].dim[d];
    for (int32_t k = 0; k < op->nout; k++) {
        int64_t dim[LUO_HAP_RANK];
        const int32_t rank = (int32_t)strlen(op->out_is[k]);
        for (int32_t d = 0; d < rank; d++) dim[d] = size[(int)op->out_is[k][d]];
        out[k] = array_new(a, rank, dim);
    }
    switch (op->kind) {
    case LUO_HAP_CONV:
        conv(in, out);
        break;
    case LUO_HAP_ATTENTION:
        attention(in, out);
        break;
    case LUO_HAP_UNARY:
    case LUO_HAP_ADD:
        elementwise(op, in, out, at, size, rule->lin);
        break;
    case LUO_HAP_GATED:
        gated(in, out);
        break;
    case LUO_HAP_NORM:
        norm(in, out);
        break;
    case LUO_HAP_POOL:
    case LUO_HAP_ADAPTIVE_POOL:
        pool(in, out);
        break;
    case LUO_HAP_EMBEDDING:
        embedding(in, out, at->lo);
        break;
    case LUO_HAP_APPEND:
        append(in, out);
        break;
    case LUO_HAP_TAKE:
        take(in, out);
        break;
    case LUO_HAP_GATE:
        gate(in, out);
        break;
    case LUO_HAP_LOSS:
        loss(in, out, at);
        break;
    default:
        product(op, in, out, size);
    }
    if (op->bias >= 0 && (at->once || rule->out[0].kind != LUO_REL_R)) add_bias(op, in, out, size);
}

/* ---- pieces ---- */

typedef struct cut { /* lengths of the axis that is cut */
    int64_t lo[DEVICES], len[DEVICES];
} cut;

static cut cut_of(luo_rng *rng, int64_t extent)
{
    cut c = {0};
    const int32_t empty = (int32_t)luo_rng_pick(rng, DEVICES);
    const int32_t first = (empty + 1) % DEVICES, second = (empty + 2) % DEVICES;
    c.len[first] = 1 + luo_rng_pick(rng, extent - 1);
    c.len[second] = extent - c.len[first];
    for (int32_t i = 1; i < DEVICES; i++) c.lo[i] = c.lo[i - 1] + c.len[i - 1];
    return c;
}

/* Position in x of element `at` of the piece that device i has of dimension d. */
static int64_t in_whole(const array *x, const array *piece, int32_t d, int64_t lo, int64_t at)
{
    int64_t inner = 1;
    for (int32_t e = d + 1; e < x->rank; e++) inner *= x->dim[e];
    const int64_t rest = at % inner, line = at / inner;
    return (line / piece->dim[d] * x->dim[d] + line % piece->dim[d] + lo) * inner + rest;
}

static void split(luo_arena *a, luo_rng *rng, const array *x, luo_rel rel, const cut *c,
                  array *piece)
{
    for (int32_t i = 0; i < DEVICES; i++) {
        int64_t dim[LUO_HAP_RANK];
        memcpy(dim, x->dim, sizeof dim);
        if (rel.kind == LUO_REL_G) dim[rel.dim] = c->len[i];
        piece[i] = array_new(a, x->rank, dim);
        for (int64_t at = 0; at < piece[i].n; at++)
            if (rel.kind == LUO_REL_G)
                piece[i].at[at] = x->at[in_whole(x, &piece[i], rel.dim, c->lo[i], at)];
            else if (rel.kind == LUO_REL_I)
                piece[i].at[at] = x->at[at];
            else if (i < DEVICES - 1)
                piece[i].at[at] = luo_rng_u(rng) - 0.5;
            else
                piece[i].at[at] = x->at[at] - piece[0].at[at] - piece[1].at[at];
    }
}

/* Is x what the pieces are said to be? */
static void compare(luo_arena *a, const array *x, luo_rel rel, const cut *c, const array *piece,
                    const char *what)
{
    array sum = array_new(a, x->rank, x->dim);
    for (int32_t i = 0; i < DEVICES; i++)
        for (int64_t at = 0; at < piece[i].n; at++) {
            const number v = piece[i].at[at];
            if (rel.kind == LUO_REL_G)
                sum.at[in_whole(x, &piece[i], rel.dim, c->lo[i], at)] = v;
            else if (rel.kind == LUO_REL_R)
                sum.at[at] += v;
            else
                ck_assert_msg(cabs(v - x->at[at]) < 1e-9, "%s: device %d, element %d", what, i,
                              (int)at);
        }
    for (int64_t at = 0; at < x->n && rel.kind != LUO_REL_I; at++)
        ck_assert_msg(cabs(sum.at[at] - x->at[at]) < 1e-9, "%s: element %d is %g, not %g", what,
                      (int)at, creal(sum.at[at]), creal(x->at[at]));
}

/* ---- gradients ---- */

static array loss_gradient(luo_arena *a, const array *in, const place *at, const array *dL)
{
    array g = array_new(a, in[0].rank, in[0].dim);
    const int64_t V = g.dim[g.rank - 1];
    for (int64_t i = 0; i < g.n; i++) {
        const int64_t label = (int64_t)creal(in[1].at[i / V]) - at->lo;
        g.at[i] = (cexp(in[0].at[i] - at->lse.at[i / V]) - (label == i % V)) * dL->at[0];
    }
    return g;
}

static array gradient(luo_arena *a, const luo_hap_op *op, const luo_hap_rule *rule, array *in,
                      const place *at, const array *dout, int32_t j)
{
    array g = array_new(a, in[j].rank, in[j].dim);
    if (op->kind == LUO_HAP_LOSS) return loss_gradient(a, in, at, dout);
    for (int64_t i = 0; i < g.n; i++) {
        array out[LUO_HAP_RESULTS];
        const number was = in[j].at[i];
        const size_t mark = luo_arena_mark(a);
        in[j].at[i] += STEP * I;
        forward(a, op, rule, in, at, out);
        in[j].at[i] = was;
        double sum = 0;
        for (int32_t k = 0; k < op->nout; k++)
            for (int64_t e = 0; e < out[k].n; e++)
                sum += cimag(out[k].at[e]) / STEP * creal(dout[k].at[e]);
        g.at[i] = sum;
        luo_arena_reset(a, mark);
    }
    return g;
}

typedef struct whole_run { /* on one device */
    array in[LUO_HAP_OPERANDS], out[LUO_HAP_RESULTS], dout[LUO_HAP_RESULTS];
    array grad[LUO_HAP_OPERANDS];
    place at;
} whole_run;

static array random_array(luo_arena *a, luo_rng *rng, const luo_hap_tensor *x)
{
    array y = array_new(a, x->rank, x->dim);
    for (int64_t i = 0; i < y.n; i++) y.at[i] = 2 * luo_rng_u(rng) - 1;
    return y;
}

/* Ids and labels are rows of a table of that many. */
static void to_ids(luo_rng *rng, array *x, int64_t rows)
{
    for (int64_t i = 0; i < x->n; i++) x->at[i] = (double)luo_rng_pick(rng, rows);
}

static array log_sums(luo_arena *a, const array *x)
{
    const int64_t V = x->dim[x->rank - 1];
    array lse = array_new(a, x->rank - 1, x->dim);
    for (int64_t i = 0; i < x->n; i++) lse.at[i / V] += cexp(x->at[i]);
    for (int64_t i = 0; i < lse.n; i++) lse.at[i] = clog(lse.at[i]);
    return lse;
}

static whole_run run_whole(luo_arena *a, luo_rng *rng, const luo_hap_graph *g, const luo_hap_op *op)
{
    whole_run w = {.at = {.once = true}};
    const luo_hap_rule rule = {0};
    for (int32_t j = 0; j < op->nin; j++) w.in[j] = random_array(a, rng, &g->tensor[op->in[j]]);
    if (op->kind == LUO_HAP_EMBEDDING) to_ids(rng, &w.in[0], w.in[1].dim[0]);
    if (op->kind == LUO_HAP_LOSS) {
        to_ids(rng, &w.in[1], w.in[0].dim[w.in[0].rank - 1]);
        w.at.lse = log_sums(a, &w.in[0]);
    }
    forward(a, op, &rule, w.in, &w.at, w.out);
    for (int32_t k = 0; k < op->nout; k++) {
        w.dout[k] = random_array(a, rng, &g->tensor[op->out[k]]);
        if (g->tensor[op->out[k]].role == LUO_HAP_MASK)
            memset(w.dout[k].at, 0, (size_t)w.dout[k].n * sizeof(number));
    }
    for (int32_t j = 0; j < op->nin; j++)
        if (luo_hap_graph_trains(g, op->in[j]))
            w.grad[j] = gradient(a, op, &rule, w.in, &w.at, w.dout, j);
    return w;
}

/* What each device knows of a loss or a table by this rule. */
static void place_devices(luo_arena *a, luo_rng *rng, const luo_hap_op *op,
                          const luo_hap_rule *rule, const whole_run *w, const cut *c, place *at)
{
    const int32_t cut_at = op->kind == LUO_HAP_LOSS ? w->in[0].rank - 1 : 0;
    const luo_rel rel = rule->in[op->kind == LUO_HAP_LOSS ? 0 : 1];
    array lse[DEVICES] = {{0}};
    if (op->kind == LUO_HAP_LOSS) split(a, rng, &w->at.lse, rule->in[1], c, lse);
    for (int32_t i = 0; i < DEVICES; i++) {
        at[i] = (place){.once = i == 0, .lse = lse[i]};
        if (rel.kind == LUO_REL_G && rel.dim == cut_at) at[i].lo = c->lo[i];
    }
}

static void check_rule(luo_arena *a, luo_rng *rng, const luo_hap_graph *g, const luo_hap_op *op,
                       const luo_hap_rule *rule, const whole_run *w)
{
    const cut c = cut_of(rng, rule->letter ? op->size[(int)rule->letter] : 2);
    array in[LUO_HAP_OPERANDS][DEVICES], mine[DEVICES][LUO_HAP_OPERANDS];
    array out[DEVICES][LUO_HAP_RESULTS], dout[LUO_HAP_RESULTS][DEVICES], piece[DEVICES];
    place at[DEVICES];
    char what[64], name[8];
    memset(mine, 0, sizeof mine);
    for (int32_t j = 0; j < op->nin; j++) split(a, rng, &w->in[j], rule->in[j], &c, in[j]);
    place_devices(a, rng, op, rule, w, &c, at);
    for (int32_t i = 0; i < DEVICES; i++) {
        for (int32_t j = 0; j < op->nin; j++) mine[i][j] = in[j][i];
        forward(a, op, rule, mine[i], &at[i], out[i]);
    }
    for (int32_t k = 0; k < op->nout; k++) {
        for (int32_t i = 0; i < DEVICES; i++) piece[i] = out[i][k];
        snprintf(what, sizeof what, "%s, rule %s, result %d", op->name,
                 luo_hap_rule_name(rule, name), k);
        compare(a, &w->out[k], rule->out[k], &c, piece, what);
        split(a, rng, &w->dout[k], luo_rel_dual(rule->out[k]), &c, dout[k]);
    }
    for (int32_t j = 0; j < op->nin; j++) {
        if (!luo_hap_graph_trains(g, op->in[j])) continue;
        for (int32_t i = 0; i < DEVICES; i++) {
            const array d[LUO_HAP_RESULTS] = {dout[0][i], dout[1][i], dout[2][i]};
            at[i].once = true; /* a gradient is whole wherever it is computed */
            const luo_hap_rule complete = {0};
            piece[i] = gradient(a, op, &complete, mine[i], &at[i], d, j);
        }
        snprintf(what, sizeof what, "%s, rule %s, gradient %d", op->name,
                 luo_hap_rule_name(rule, name), j);
        compare(a, &w->grad[j], rule->grad[j], &c, piece, what);
    }
}

/* ---- rows ---- */

typedef struct operand {
    luo_hap_role role;
    const char *dims; /* a digit each */
} operand;

static const struct {
    luo_hap_kind kind;
    const char *name, *signature, *whole;
    operand in[LUO_HAP_OPERANDS];
    int64_t sizes[3];
    const char *rules;
} rows[] = {
    {LUO_HAP_LINEAR, "linear", "ba,ac->bc", "", {{1, "43"}, {1, "32"}}, {0}, "b a c rep lin0"},
    {LUO_HAP_LINEAR,
     "with_bias",
     "bsa,ac,c->bsc",
     "",
     {{1, "234"}, {1, "43"}, {1, "3"}},
     {0},
     "b s a c rep lin0"},
    {LUO_HAP_LINEAR,
     "output",
     "bshe,hem,m->bsm",
     "e",
     {{1, "2232"}, {1, "323"}, {1, "3"}},
     {0},
     "b s h m rep lin0"},
    {LUO_HAP_LINEAR, "single", "ba,ac->bc", "", {{1, "13"}, {1, "32"}}, {0}, "a c rep lin0"},
    {LUO_HAP_QKV,
     "qkv",
     "bsm,mphe,phe->bshe,bshe,bshe",
     "pe",
     {{1, "223"}, {1, "3322"}, {1, "322"}},
     {0},
     "b s m h rep lin0"},
    {LUO_HAP_ATTENTION,
     "attention",
     "bshe,bthe,bthe->bshe",
     "ste",
     {{1, "2322"}, {1, "2322"}, {1, "2322"}},
     {0},
     "b h rep"},
    {LUO_HAP_CONV,
     "conv",
     "bcij,ockl,o->boij",
     "ijkl",
     {{1, "2233"}, {1, "3233"}, {1, "3"}},
     {0},
     "b c o rep lin0"},
    {LUO_HAP_UNARY, "relu", "bsm->bsm", "", {{1, "232"}}, {0}, "b s m rep"},
    {LUO_HAP_GATED, "swiglu", "bsm,bsm->bsm", "", {{1, "232"}, {1, "232"}}, {0}, "b s m rep lin1"},
    {LUO_HAP_NORM, "rms_norm", "bsm,m->bsm", "m", {{1, "235"}, {1, "5"}}, {0}, "b s rep"},
    {LUO_HAP_ADD,
     "add",
     "bsm,bsm->bsm",
     "",
     {{1, "232"}, {1, "232"}},
     {0},
     "b s m rep lin0 lin1 lin01"},
    {LUO_HAP_ADD,
     "add_position",
     "bsm,sm->bsm",
     "",
     {{1, "232"}, {1, "32"}},
     {0},
     "b s m rep lin0 lin1 lin01"},
    {LUO_HAP_NORM, "norm", "bsm,m,m->bsm", "m", {{1, "235"}, {1, "5"}, {1, "5"}}, {0}, "b s rep"},
    {LUO_HAP_POOL, "pool", "bcij->bcIJ", "ijIJ", {{1, "2344"}}, {2, 2}, "b c rep"},
    {LUO_HAP_ADAPTIVE_POOL, "adaptive", "bcij->bcIJ", "ijIJ", {{1, "2322"}}, {3, 3}, "b c rep"},
    {LUO_HAP_EMBEDDING, "embedding", "bs,vm->bsm", "", {{0, "23"}, {1, "53"}}, {0}, "b s v m rep"},
    {LUO_HAP_APPEND, "append", "bum,m->bsm", "us", {{1, "233"}, {1, "3"}}, {4}, "b m rep"},
    {LUO_HAP_TAKE, "take", "bsm->bm", "s", {{1, "233"}}, {0}, "b m rep lin0"},
    {LUO_HAP_GATE, "gate", "bsm,mE->bsEc,bsEc", "smEc", {{1, "233"}, {1, "32"}}, {2}, "b rep"},
    {LUO_HAP_DISPATCH,
     "dispatch",
     "bsm,bsEc->bEcm",
     "",
     {{1, "223"}, {1, "2232"}},
     {0},
     "b s m E c rep lin0 lin1"},
    {LUO_HAP_EXPERT,
     "expert",
     "bEcm,Emf->bEcf",
     "",
     {{1, "2322"}, {1, "322"}},
     {0},
     "b E c m f rep lin0"},
    {LUO_HAP_COMBINE,
     "combine",
     "bEcm,bsEc->bsm",
     "",
     {{1, "2322"}, {1, "2232"}},
     {0},
     "b E c m s rep lin0 lin1"},
    {LUO_HAP_LOSS, "loss", "bv,b->", "", {{1, "45"}, {0, "4"}}, {0}, "b v rep"},
    {LUO_HAP_LOSS, "token_loss", "bsv,bs->", "", {{1, "324"}, {0, "32"}}, {0}, "b s v rep"},
};

static luo_hap_graph *graph_of(luo_arena *a, int row)
{
    static const char *const names[] = {"y0", "y1", "y2"};
    luo_hap_graph *g = luo_hap_graph_new(a, 4);
    int32_t in[LUO_HAP_OPERANDS] = {-1, -1, -1};
    for (int32_t j = 0; j < LUO_HAP_OPERANDS && rows[row].in[j].dims; j++) {
        int64_t dim[LUO_HAP_RANK];
        const char *digits = rows[row].in[j].dims;
        for (int32_t d = 0; digits[d]; d++) dim[d] = digits[d] - '0';
        in[j] =
            luo_hap_graph_leaf(g, "x", rows[row].in[j].role, false, (int32_t)strlen(digits), dim);
    }
    luo_hap_graph_op(g, rows[row].kind, rows[row].name, rows[row].signature, rows[row].whole,
                     rows[row].sizes, in, names);
    ck_assert_msg(g->st == LUO_OK, "%s", g->err.text);
    return g;
}

START_TEST(rules_of_a_kind)
{
    luo_arena *a = luo_arena_new(1 << 16);
    const luo_hap_graph *g = graph_of(a, _i);
    const luo_hap_op *op = &g->op[0];
    luo_hap_rule *rule;
    char text[64] = "", name[8];
    int32_t n;
    ck_assert_int_eq(luo_hap_rules(a, op, &rule, &n, NULL), LUO_OK);
    for (int32_t i = 0; i < n; i++) {
        if (i) strcat(text, " ");
        strcat(text, luo_hap_rule_name(&rule[i], name));
    }
    ck_assert_str_eq(text, rows[_i].rules);
    LUO_PROP_FOR(seed, 3)
    {
        luo_rng rng = luo_rng_seed(seed);
        const size_t mark = luo_arena_mark(a);
        const whole_run w = run_whole(a, &rng, g, op);
        for (int32_t i = 0; i < n; i++) check_rule(a, &rng, g, op, &rule[i], &w);
        luo_arena_reset(a, mark);
    }
    luo_arena_free(a);
}
END_TEST

START_TEST(sentences)
{
    static const char *const names[] = {"y"};
    luo_arena *a = luo_arena_new(0);
    luo_hap_graph *g = luo_hap_graph_new(a, 4);
    luo_err err = {0};
    int32_t in[2];
    in[0] = luo_hap_graph_leaf(g, "x", LUO_HAP_INPUT, false, 2, (int64_t[]){4, 64});
    in[1] = luo_hap_graph_leaf(g, "w", LUO_HAP_PARAM, false, 2, (int64_t[]){65, 8});
    ck_assert_int_eq(luo_hap_graph_check(g, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "the graph has 0 losses; exactly one is needed.");
    luo_hap_graph_op(g, LUO_HAP_LINEAR, "ffn1", "bs,sn->bn", "", NULL, in, names);
    ck_assert_int_eq(luo_hap_graph_check(g, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text,
                     "op `ffn1` uses letter `s` with extents 64 and 65; equal extents are needed.");
    g = luo_hap_graph_new(a, 4);
    in[0] = 5;
    luo_hap_graph_op(g, LUO_HAP_UNARY, "relu", "b->b", "", NULL, in, names);
    ck_assert_int_eq(luo_hap_graph_check(g, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "op `relu` reads tensor 5 before it is produced; ops must be in "
                               "topological order.");
    g = luo_hap_graph_new(a, 4);
    luo_hap_graph_leaf(g, "x", LUO_HAP_INPUT, false, 1, (int64_t[]){0});
    ck_assert_int_eq(luo_hap_graph_check(g, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "tensor `x` has a dimension of 0; 1 to 2147483647 is expected.");
    luo_arena_free(a);
}
END_TEST

LUO_SUITE("hap.rules", LUO_T_N(rules_of_a_kind, LUO_ROWS(rows)), LUO_T(sentences))
