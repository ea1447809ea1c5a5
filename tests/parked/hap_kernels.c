#include "tests/parked/hap_kernels.h"

#include <math.h>
#include <string.h>

enum { KERNEL = 3 };
static const double STEP = 1e-40;

luo_hap_array luo_hap_kernels_array(luo_arena *a, int32_t rank, const int64_t *dim)
{
    luo_hap_array x = {.rank = rank, .n = 1};
    for (int32_t d = 0; d < rank; d++) x.n *= x.dim[d] = dim[d];
    x.at = LUO_NEW_N(a, luo_hap_number, x.n ? x.n : 1);
    return x;
}

static int64_t offset(const luo_hap_array *x, const char *is, const int64_t *index)
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

static void product(const luo_hap_op *op, const luo_hap_array *in, luo_hap_array *out,
                    const int64_t *size)
{
    char all[32] = "";
    int64_t index[128] = {0};
    add_letters(all, op->in_is[0]);
    add_letters(all, op->in_is[1]);
    if (any_empty(all, size)) return;
    do {
        const luo_hap_number term = in[0].at[offset(&in[0], op->in_is[0], index)] *
                                    in[1].at[offset(&in[1], op->in_is[1], index)];
        const int64_t k = op->kind == LUO_HAP_QKV ? index['p'] : 0;
        out[k].at[offset(&out[k], op->out_is[k], index)] += term;
    } while (step_index(all, size, index));
}

static void add_bias(const luo_hap_op *op, const luo_hap_array *in, luo_hap_array *out,
                     const int64_t *size)
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

static void conv(const luo_hap_array *in, luo_hap_array *y)
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

static void attention(const luo_hap_array *in, luo_hap_array *o) /* b s h e, keys b t h e */
{
    const int64_t B = o->dim[0], S = o->dim[1], H = o->dim[2], E = o->dim[3], T = in[1].dim[1];
#define AT(x, len, b, s, h, e) (x).at[(((b) * (len) + (s)) * H + (h)) * E + (e)]
    for (int64_t i = 0; i < B * S * H; i++) {
        const int64_t h = i % H, s = i / H % S, b = i / H / S;
        luo_hap_number sum = 0, weight[8];
        for (int64_t t = 0; t < T; t++) {
            luo_hap_number score = 0;
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

static void gated(const luo_hap_array *in, luo_hap_array *y)
{
    for (int64_t at = 0; at < y->n; at++)
        y->at[at] = in[0].at[at] / (1 + cexp(-in[0].at[at])) * in[1].at[at];
}

/* Of every sample, products of all pairs of its vectors, and the first vector beside them. */
static void interaction(const luo_hap_array *in, luo_hap_array *y)
{
    const int64_t m = in[0].dim[1], vectors = in[1].dim[1] + 1;
    for (int64_t b = 0, at = 0; b < y->dim[0]; b++) {
        for (int64_t i = 0; i < vectors; i++)
            for (int64_t k = 0; k < i; k++, at++)
                for (int64_t e = 0; e < m; e++)
                    y->at[at] +=
                        in[1].at[(b * (vectors - 1) + i - 1) * m + e] *
                        (k ? in[1].at[(b * (vectors - 1) + k - 1) * m + e] : in[0].at[b * m + e]);
        for (int64_t e = 0; e < m; e++) y->at[at++] = in[0].at[b * m + e];
    }
}

static void norm(const luo_hap_array *in, luo_hap_array *y)
{
    const int64_t M = y->dim[y->rank - 1];
    for (int64_t row = 0; row < y->n; row += M) {
        luo_hap_number mean = 0, square = 0;
        for (int64_t m = 0; m < M; m++) mean += in[0].at[row + m] / (double)M;
        for (int64_t m = 0; m < M; m++) {
            const luo_hap_number off = in[0].at[row + m] - mean;
            square += off * off / (double)M;
        }
        for (int64_t m = 0; m < M; m++)
            y->at[row + m] = (in[0].at[row + m] - mean) / csqrt(square + 1e-5) * in[1].at[m] +
                             (in[2].n ? in[2].at[m] : 0);
    }
}

/* Largest of windows of two by two; an adaptive pool repeats rows and columns. */
static void pool(const luo_hap_array *in, luo_hap_array *y)
{
    const int64_t *d = y->dim, height = in[0].dim[2], width = in[0].dim[3];
    for (int64_t at = 0; at < y->n; at++) {
        const int64_t j = at % d[3], i = at / d[3] % d[2], image = at / d[3] / d[2];
        luo_hap_number best = -INFINITY;
        for (int64_t row = i * height / d[2]; row < ((i + 1) * height + d[2] - 1) / d[2]; row++)
            for (int64_t col = j * width / d[3]; col < ((j + 1) * width + d[3] - 1) / d[3]; col++) {
                const luo_hap_number x = in[0].at[(image * height + row) * width + col];
                if (creal(x) > creal(best)) best = x;
            }
        y->at[at] = best;
    }
}

static void embedding(const luo_hap_array *in, luo_hap_array *y, int64_t lo)
{
    const int64_t M = in[1].dim[1], rows = in[1].dim[0];
    for (int64_t at = 0; at < y->n; at++) {
        const int64_t id = (int64_t)creal(in[0].at[at / M]) - lo;
        if (id >= 0 && id < rows) y->at[at] = in[1].at[id * M + at % M];
    }
}

static void append(const luo_hap_array *in, luo_hap_array *y)
{
    const int64_t S = y->dim[1], M = y->dim[2];
    for (int64_t at = 0; at < y->n; at++) {
        const int64_t m = at % M, s = at / M % S, b = at / M / S;
        y->at[at] = s == 0 ? in[1].at[m] : in[0].at[(b * (S - 1) + s - 1) * M + m];
    }
}

static void take(const luo_hap_array *in, luo_hap_array *y)
{
    const int64_t S = in[0].dim[1], M = in[0].dim[2];
    for (int64_t at = 0; at < y->n; at++) y->at[at] = in[0].at[at / M * S * M + at % M];
}

/* Best expert of a token by the order of tokens; its slot is the token's luo_hap_place. */
static void gate(const luo_hap_array *in, luo_hap_array *out)
{
    const int64_t S = in[0].dim[1], M = in[0].dim[2], E = in[1].dim[1], C = out[0].dim[3];
    for (int64_t row = 0; row < in[0].dim[0] * S; row++) {
        luo_hap_number score[8], sum = 0;
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

static void loss(const luo_hap_array *in, luo_hap_array *L, const luo_hap_place *at)
{
    const int64_t V = in[0].dim[in[0].rank - 1];
    for (int64_t row = 0; row < in[1].n; row++) {
        const int64_t label = (int64_t)creal(in[1].at[row]) - at->lo;
        if (label >= 0 && label < V) L->at[0] += at->lse.at[row] - in[0].at[row * V + label];
    }
}

static void elementwise(const luo_hap_op *op, const luo_hap_array *in, luo_hap_array *out,
                        const luo_hap_place *at, const int64_t *size, uint32_t lin)
{
    for (int32_t j = 0; j < op->nin; j++) {
        int64_t index[128] = {0};
        if (out->n == 0 || (lin && !(lin >> j & 1) && !at->once)) continue;
        do {
            const luo_hap_number x = in[j].at[offset(&in[j], op->in_is[j], index)];
            out->at[offset(out, op->out_is[0], index)] += op->add || creal(x) > 0 ? x : 0.1 * x;
        } while (step_index(op->out_is[0], size, index));
    }
}

/* What one device computes of its operands. */
void luo_hap_kernels_forward(luo_arena *a, const luo_hap_op *op, const luo_hap_rule *rule,
                             const luo_hap_array *in, const luo_hap_place *at, luo_hap_array *out)
{
    int64_t size[128];
    memcpy(size, op->size, sizeof size);
    for (int32_t j = 0; j < op->nin; j++)
        for (int32_t d = 0; d < in[j].rank; d++) size[(int)op->in_is[j][d]] = in[j].dim[d];
    for (int32_t k = 0; k < op->nout; k++) {
        int64_t dim[LUO_HAP_RANK];
        const int32_t rank = (int32_t)strlen(op->out_is[k]);
        for (int32_t d = 0; d < rank; d++) dim[d] = size[(int)op->out_is[k][d]];
        out[k] = luo_hap_kernels_array(a, rank, dim);
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
    case LUO_HAP_INTERACTION:
        interaction(in, out);
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

/* Position in x of element `at` of the piece that device i has of dimension d. */
int64_t luo_hap_kernels_in_whole(const luo_hap_array *x, const luo_hap_array *piece, int32_t d,
                                 int64_t lo, int64_t at)
{
    int64_t inner = 1;
    for (int32_t e = d + 1; e < x->rank; e++) inner *= x->dim[e];
    const int64_t rest = at % inner, line = at / inner;
    return (line / piece->dim[d] * x->dim[d] + line % piece->dim[d] + lo) * inner + rest;
}

/* ---- gradients ---- */

static luo_hap_array loss_gradient(luo_arena *a, const luo_hap_array *in, const luo_hap_place *at,
                                   const luo_hap_array *dL)
{
    luo_hap_array g = luo_hap_kernels_array(a, in[0].rank, in[0].dim);
    const int64_t V = g.dim[g.rank - 1];
    for (int64_t i = 0; i < g.n; i++) {
        const int64_t label = (int64_t)creal(in[1].at[i / V]) - at->lo;
        g.at[i] = (cexp(in[0].at[i] - at->lse.at[i / V]) - (label == i % V)) * dL->at[0];
    }
    return g;
}

luo_hap_array luo_hap_kernels_gradient(luo_arena *a, const luo_hap_op *op, const luo_hap_rule *rule,
                                       luo_hap_array *in, const luo_hap_place *at,
                                       const luo_hap_array *dout, int32_t j)
{
    luo_hap_array g = luo_hap_kernels_array(a, in[j].rank, in[j].dim);
    if (op->kind == LUO_HAP_LOSS) return loss_gradient(a, in, at, dout);
    for (int64_t i = 0; i < g.n; i++) {
        luo_hap_array out[LUO_HAP_RESULTS];
        const luo_hap_number was = in[j].at[i];
        const size_t mark = luo_arena_mark(a);
        in[j].at[i] += STEP * I;
        luo_hap_kernels_forward(a, op, rule, in, at, out);
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

luo_hap_array luo_hap_kernels_log_sums(luo_arena *a, const luo_hap_array *x)
{
    const int64_t V = x->dim[x->rank - 1];
    luo_hap_array lse = luo_hap_kernels_array(a, x->rank - 1, x->dim);
    for (int64_t i = 0; i < x->n; i++) lse.at[i / V] += cexp(x->at[i]);
    for (int64_t i = 0; i < lse.n; i++) lse.at[i] = clog(lse.at[i]);
    return lse;
}
