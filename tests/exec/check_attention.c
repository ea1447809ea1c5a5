/* check_attention.c: attention in tiles against one that makes all scores: packed
 * documents, grouped-query heads, causal and not, lengths below and above a tile. */
#include "tests/exec/kernel_case.h"

#define RAW(i) c->a[i].raw
#define X(i) c->a[i].x
enum { T, N, G, D, DOCS, WINDOW };
enum { Q, K_, V, O, ROWS, DO_, DQ, DK, DV, WORK }; /* arrays */

static void shape(kase *c)
{
    const bool tiles = luo_rng_pick(&c->rng, 6) == 0; /* more than one block of keys */
    c->dim[T] = tiles ? draw(c, 520, 640) : draw(c, 1, 150);
    c->dim[N] = draw(c, 1, tiles ? 2 : 5), c->dim[G] = draw(c, 1, c->dim[N]);
    c->dim[D] = draw(c, 1, tiles ? 6 : 20);
    c->dim[DOCS] = least_of(draw(c, 1, tiles ? 2 : 6), c->dim[T]);
    c->flag[0] = coin(c);
    c->dim[WINDOW] = c->flag[0] && coin(c) ? draw(c, 1, coin(c) ? 8 : c->dim[T] + 3) : 0;
    for (int64_t i = 0; i < c->dim[N]; i++) c->ints[0][i] = (int32_t)draw(c, 0, c->dim[G] - 1);
    int32_t *start = c->ints[1]; /* cuts, each at a place of its own */
    start[0] = 0, start[c->dim[DOCS]] = (int32_t)c->dim[T];
    for (int64_t i = 1; i < c->dim[DOCS]; i++)
        start[i] = (int32_t)draw(c, start[i - 1] + 1, c->dim[T] - c->dim[DOCS] + i);
}

static luo_heads heads_of(const kase *c)
{
    return (luo_heads){c->dim[N], c->dim[G], c->dim[D], c->ints[0], c->flag[0], 0, 0, 0,
                       c->dim[WINDOW]};
}
static luo_documents docs_of(const kase *c)
{
    return (luo_documents){(int32_t)c->dim[DOCS], c->ints[1]};
}
static int64_t values(const kase *c, int64_t heads)
{
    return c->dim[T] * heads * c->dim[D];
}

static void inputs(kase *c)
{
    shape(c);
    new_array(c, values(c, c->dim[N]), 2);
    new_array(c, values(c, c->dim[G]), 1.5);
    in(c, values(c, c->dim[G]));
}
/* The work memory is an output whose values nobody looks at: its guards are checked all the same.
 */
static void work_make(kase *c, bool backward)
{
    const luo_heads h = heads_of(c);
    const luo_documents docs = docs_of(c);
    const size_t bytes = c->k->attention_work(c->dim[T], &h, &docs, backward);
    ck_assert_uint_eq(bytes % c->k->elem, 0);
    out(c, (int64_t)(bytes / c->k->elem), false);
    c->a[c->narrays - 1].scratch = true;
}

static double score(const kase *c, int64_t q, int64_t k, int64_t head)
{
    double s = 0;
    for (int64_t i = 0; i < c->dim[D]; i++)
        s += X(Q)[(q * c->dim[N] + head) * c->dim[D] + i] *
             X(K_)[(k * c->dim[G] + c->ints[0][head]) * c->dim[D] + i];
    return s / sqrt((double)c->dim[D]);
}
/* Keys that query q sees: begin..end-1. */
static void seen(const kase *c, int64_t q, int64_t *begin, int64_t *end)
{
    const int32_t *start = c->ints[1];
    int64_t i = 0;
    while (start[i + 1] <= q) i++;
    *begin = start[i], *end = c->flag[0] ? q + 1 : start[i + 1];
    if (c->dim[WINDOW] > 0 && q + 1 - c->dim[WINDOW] > *begin) *begin = q + 1 - c->dim[WINDOW];
}
static double log_sum(const kase *c, int64_t q, int64_t head)
{
    int64_t begin, end;
    seen(c, q, &begin, &end);
    double top = -INFINITY, all = 0;
    for (int64_t k = begin; k < end; k++) top = fmax(top, score(c, q, k, head));
    for (int64_t k = begin; k < end; k++) all += exp(score(c, q, k, head) - top);
    return top + log(all);
}
static void attend(const kase *c, int64_t q, int64_t head, double *o, double *row)
{
    int64_t begin, end;
    seen(c, q, &begin, &end);
    *row = log_sum(c, q, head);
    for (int64_t i = 0; i < c->dim[D]; i++) o[i] = 0;
    for (int64_t k = begin; k < end; k++) {
        const double p = exp(score(c, q, k, head) - *row);
        for (int64_t i = 0; i < c->dim[D]; i++)
            o[i] += p * X(V)[(k * c->dim[G] + c->ints[0][head]) * c->dim[D] + i];
    }
}
static void attend_all(const kase *c, double *o, double *rows)
{
    for (int64_t q = 0; q < c->dim[T]; q++)
        for (int64_t j = 0; j < c->dim[N]; j++) {
            const int64_t at = q * c->dim[N] + j;
            attend(c, q, j, o + at * c->dim[D], rows + at);
        }
}

/* ---- forward ---- */
static void attention_make(kase *c)
{
    inputs(c);
    out(c, values(c, c->dim[N]), false);
    out(c, c->dim[T] * c->dim[N], false);
    work_make(c, false);
}
static void attention_call(kase *c)
{
    const luo_heads h = heads_of(c);
    const luo_documents docs = docs_of(c);
    c->k->attention(c->dim[T], &h, &docs, RAW(Q), RAW(K_), RAW(V), RAW(O), RAW(ROWS), RAW(5));
}
static void attention_twin(kase *c)
{
    attend_all(c, c->a[O].want, c->a[ROWS].want);
}

/* ---- backward ---- */
static void attention_dx_make(kase *c)
{
    inputs(c);
    in(c, values(c, c->dim[N]));
    in(c, c->dim[T] * c->dim[N]);
    in(c, values(c, c->dim[N]));
    out(c, values(c, c->dim[N]), false);
    out(c, values(c, c->dim[G]), false);
    out(c, values(c, c->dim[G]), false);
    work_make(c, true);
    attend_all(c, X(O), X(ROWS));
    for (int a = O; a <= ROWS; a++)
        for (int64_t i = 0; i < c->a[a].n; i++) X(a)[i] = rounded(c->k, X(a)[i]);
}
static void attention_dx_call(kase *c)
{
    const luo_heads h = heads_of(c);
    const luo_documents docs = docs_of(c);
    c->k->attention_dx(c->dim[T], &h, &docs, RAW(DO_), RAW(O), RAW(ROWS), RAW(Q), RAW(K_), RAW(V),
                       RAW(DQ), RAW(DK), RAW(DV), RAW(WORK));
}
static void pair_dx(kase *c, int64_t q, int64_t k, int64_t head, double row)
{
    const int64_t d = c->dim[D], at = (q * c->dim[N] + head) * d;
    const int64_t key = (k * c->dim[G] + c->ints[0][head]) * d;
    const double p = exp(score(c, q, k, head) - row);
    double dp = 0, less = 0;
    for (int64_t i = 0; i < d; i++) {
        dp += X(DO_)[at + i] * X(V)[key + i];
        less += X(DO_)[at + i] * X(O)[at + i];
    }
    const double ds = p * (dp - less) / sqrt((double)d);
    for (int64_t i = 0; i < d; i++) {
        c->a[DV].want[key + i] += p * X(DO_)[at + i];
        c->a[DQ].want[at + i] += ds * X(K_)[key + i];
        c->a[DK].want[key + i] += ds * X(Q)[at + i];
    }
}
static void attention_dx_twin(kase *c)
{
    for (int a = DQ; a <= DV; a++) memset(c->a[a].want, 0, sizeof(double) * (size_t)c->a[a].n);
    for (int64_t q = 0; q < c->dim[T]; q++)
        for (int64_t j = 0; j < c->dim[N]; j++) {
            int64_t begin, end;
            seen(c, q, &begin, &end);
            for (int64_t k = begin; k < end; k++) pair_dx(c, q, k, j, X(ROWS)[q * c->dim[N] + j]);
        }
}

static const kernel_row rows[] = {
    {"attention", attention_make, attention_call, attention_twin, 60},
    {"attention_dx", attention_dx_make, attention_dx_call, attention_dx_twin, 60},
};

START_TEST(attention_is_its_twin)
{
    case_both(&rows[_i], 60);
}
END_TEST

/* What stands in one document changes no bit of another. */
START_TEST(documents_do_not_see_each_other)
{
    enum { TOKENS = 90, HEADS = 3, SIZE = 8, ALL = TOKENS * HEADS * SIZE };
    static double q[ALL], k[ALL], v[ALL], o[2][ALL], stat[TOKENS * HEADS];
    const int32_t kv_of[HEADS] = {0, 1, 2}, start[] = {0, 40, TOKENS};
    const luo_heads h = {HEADS, HEADS, SIZE, kv_of, _i == 0, 0, 0, 0, 0};
    const luo_documents docs = {2, start};
    luo_rng rng = luo_rng_seed(5);
    for (int i = 0; i < ALL; i++) {
        q[i] = luo_rng_normal(&rng);
        k[i] = luo_rng_normal(&rng);
        v[i] = luo_rng_normal(&rng);
    }
    void *work = malloc(luo_kernels_f64.attention_work(TOKENS, &h, &docs, false));
    ck_assert_ptr_nonnull(work);
    for (int pass = 0; pass < 2; pass++) {
        luo_kernels_f64.attention(TOKENS, &h, &docs, q, k, v, o[pass], stat, work);
        for (int i = 40 * HEADS * SIZE; i < ALL; i++) k[i] += 3, v[i] = -v[i];
    }
    const size_t first = 40 * HEADS * SIZE;
    ck_assert_int_eq(memcmp(o[0], o[1], first * sizeof(double)), 0);
    ck_assert_int_ne(memcmp(o[0] + first, o[1] + first, sizeof(double) * (ALL - first)), 0);
    free(work);
}
END_TEST

LUO_SUITE("exec.attention", LUO_T_N(attention_is_its_twin, LUO_ROWS(rows)),
          LUO_T_N(documents_do_not_see_each_other, 2))
