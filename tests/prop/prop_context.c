/* prop_context.c: the cut of sequences among context-parallel ranks against a slow twin
 * that goes token by token, and numbers worked out by hand. */
#include "core/graph/context.h"
#include "tests/check_main.h"
#include "tests/prop/prop.h"

/* Pairs of every ring step of every rank for 8 tokens, by hand. */
static const struct {
    luo_context x;
    int64_t n;
    int32_t rank;
    int64_t steps[4];
} by_hand[] = {
    {{4, 1, true, NULL}, 8, 0, {3, 2, 2, 2}},
    {{2, 1, true, NULL}, 8, 0, {10, 8}},
    {{4, 1, false, NULL}, 8, 3, {3, 4, 4, 4}},
    {{4, 1, false, NULL}, 8, 1, {3, 4, 0, 0}},
    {{2, 1, true, (const uint32_t[]){3, 1}}, 8, 0, {21, 6}},
    {{2, 1, true, (const uint32_t[]){3, 1}}, 8, 1, {3, 6}},
    {{2, 1, false, (const uint32_t[]){3, 1}}, 8, 0, {21, 0}},
    {{2, 1, false, (const uint32_t[]){3, 1}}, 8, 1, {3, 12}},
    {{2, 1, false, NULL}, 4096, 0, {2098176, 0}},
    {{2, 1, false, NULL}, 4096, 1, {2098176, 4194304}},
};

START_TEST(hand)
{
    const luo_context *x = &by_hand[_i].x;
    for (int32_t j = 0; j < x->c; j++) {
        const int32_t k = (by_hand[_i].rank - j + x->c) % x->c;
        const int64_t got =
            luo_context_half_pairs(x, by_hand[_i].n, true, false, by_hand[_i].rank, k);
        ck_assert_int_eq(got, 2 * by_hand[_i].steps[j]);
    }
}
END_TEST

/* Sizes that do not cut exactly: every token is somewhere, the largest remainders get one more. */
static const struct {
    luo_context x;
    int64_t n, tokens[4];
} uneven[] = {
    {{4, 1, false, NULL}, 5, {2, 1, 1, 1}},
    {{4, 1, false, NULL}, 7, {2, 2, 2, 1}},
    {{4, 1, false, NULL}, 8, {2, 2, 2, 2}},
    {{2, 1, false, (const uint32_t[]){3, 1}}, 9, {7, 2}},
    {{2, 1, false, (const uint32_t[]){3, 1}}, 11, {8, 3}},
    {{2, 1, true, NULL}, 9, {5, 4}},
};

START_TEST(remainders)
{
    const luo_context *x = &uneven[_i].x;
    for (int32_t r = 0; r < x->c; r++) {
        luo_context_piece piece[2];
        const int32_t m = luo_context_pieces(x, uneven[_i].n, r, piece);
        int64_t tokens = 0;
        for (int32_t k = 0; k < m; k++) tokens += piece[k].hi - piece[k].lo;
        ck_assert_int_eq(tokens, uneven[_i].tokens[r]);
    }
}
END_TEST

static int64_t all_pairs(const luo_context *x, int64_t n, int32_t q)
{
    int64_t sum = 0;
    for (int32_t k = 0; k < x->c; k++) sum += luo_context_half_pairs(x, n, true, false, q, k);
    return sum / 2;
}

/* 4096 tokens: the busiest rank over the mean, and what every rank of a zigzag has. */
START_TEST(busiest)
{
    static const double over_mean[] = {1.499878, 1.749817, 1.874786};
    static const int64_t each[] = {4195328, 2097664, 1048832};
    for (int32_t i = 0; i < 3; i++) {
        const luo_context flat = {2 << i, 1, false, NULL}, fold = {2 << i, 1, true, NULL};
        const double mean = 4096.0 * 4097 / 2 / flat.c;
        ck_assert_double_eq_tol((double)all_pairs(&flat, 4096, flat.c - 1) / mean, over_mean[i],
                                5e-7);
        for (int32_t r = 0; r < fold.c; r++)
            ck_assert_int_eq(all_pairs(&fold, 4096, r), each[i]);
    }
    ck_assert_int_eq(all_pairs(&(luo_context){2, 1, false, NULL}, 4096, 1), 6292480);
}
END_TEST

/* ---- slow twin ---- */

typedef struct made {
    luo_context x;
    uint32_t share[LUO_CONTEXT_SHARES];
    int64_t n;
    bool causal;
} made;

static made draw(luo_rng *rng)
{
    made m = {.causal = luo_rng_pick(rng, 3) > 0};
    const int32_t parts = 1 + (int32_t)luo_rng_pick(rng, 5);
    m.x.inner = 1 + (int32_t)luo_rng_pick(rng, 4);
    m.x.c = parts * m.x.inner;
    m.x.zigzag = luo_rng_pick(rng, 2);
    for (int32_t r = 0; r < m.x.c; r++) m.share[r] = 1 + (uint32_t)luo_rng_pick(rng, 3);
    m.n = 1 + (int64_t)luo_rng_pick(rng, 90);
    return m;
}

/* Rank of every token, token by token: the sizes are exact, so cuts are multiples of n / W. */
static void owners(const made *m, int32_t *owner)
{
    const luo_context *x = &m->x;
    const bool folds = x->zigzag;
    const int64_t unit = m->n / (folds ? 2 : 1) / luo_context_sum(x);
    const int32_t parts = x->inner == x->c && folds ? x->c : x->c / x->inner;
    const int32_t inner = x->c / parts;
    int64_t at = 0, had[LUO_CONTEXT_SHARES] = {0};
    for (int32_t k = 0; k < (folds ? 2 * parts : parts); k++) {
        const int32_t o = k < parts ? k : 2 * parts - 1 - k;
        int64_t size = 0;
        for (int32_t i = 0; i < inner; i++) size += unit * luo_context_share(x, o * inner + i);
        for (int64_t t = 0; t < size; t++, at++) {
            int64_t end = 0; /* the first rank of the part that is not full */
            int32_t i = 0;
            for (; i < inner; i++) {
                end += (folds ? 2 : 1) * unit * luo_context_share(x, o * inner + i);
                if (had[o] < end) break;
            }
            owner[at] = o * inner + i;
            had[o]++;
        }
    }
    ck_assert_int_eq(at, m->n);
}

static void check_order(const made *m, const int32_t *owner, int64_t rows)
{
    int32_t *source = malloc((size_t)(rows * m->n) * sizeof *source);
    int64_t at = 0;
    luo_context_order(&m->x, rows, m->n, source);
    for (int32_t r = 0; r < m->x.c; r++)
        for (int64_t row = 0; row < rows; row++)
            for (int64_t t = 0; t < m->n; t++)
                if (owner[t] == r) ck_assert_int_eq(source[at++], row * m->n + t);
    ck_assert_int_eq(at, rows * m->n);
    free(source);
}

static void check_pairs(const made *m, const int32_t *owner)
{
    const int32_t parts = luo_context_parts(&m->x);
    for (int32_t q = 0; q < parts; q++)
        for (int32_t k = 0; k < parts; k++) {
            int64_t pairs = 0, diagonal = 0;
            for (int64_t i = 0; i < m->n; i++)
                for (int64_t j = 0; j < m->n && owner[i] / m->x.inner == q; j++) {
                    if (owner[j] / m->x.inner != k || (m->causal && j > i)) continue;
                    pairs++;
                    diagonal += i == j;
                }
            ck_assert_int_eq(luo_context_half_pairs(&m->x, m->n, m->causal, false, q, k),
                             2 * pairs);
            ck_assert_int_eq(luo_context_half_pairs(&m->x, m->n, m->causal, true, q, k),
                             2 * pairs - (m->causal ? diagonal : 0));
        }
}

/* Zigzag: the work of a part goes with its tokens, whatever the shares. */
static void check_balance(const made *m)
{
    if (!m->x.zigzag || !m->causal || m->x.inner == m->x.c) return;
    const int32_t parts = luo_context_parts(&m->x);
    for (int32_t q = 0; q < parts; q++) {
        int64_t twice = 0;
        for (int32_t k = 0; k < parts; k++)
            twice += luo_context_half_pairs(&m->x, m->n, true, false, q, k);
        ck_assert_int_eq(twice, luo_context_part_tokens(&m->x, m->n, q) * (m->n + 1));
    }
}

START_TEST(twin)
{
    int64_t seen[2][3] = {{0}};
    LUO_PROP_FOR(seed, 2000) {
        luo_rng rng = luo_rng_seed(seed);
        made m = draw(&rng);
        m.x.share = luo_rng_pick(&rng, 2) ? m.share : NULL;
        const int64_t bare = m.n;
        if (luo_context_is_on(&m.x) && luo_context_sum(&m.x) > LUO_CONTEXT_SHARES) continue;
        m.n = luo_context_pad(m.n, luo_context_multiple(&m.x));
        ck_assert(m.n >= bare && m.n < bare + luo_context_multiple(&m.x));
        int32_t *owner = calloc((size_t)m.n, sizeof *owner);
        if (luo_context_is_on(&m.x)) owners(&m, owner);
        check_order(&m, owner, 1 + (int64_t)luo_rng_pick(&rng, 3));
        check_pairs(&m, owner);
        check_balance(&m);
        free(owner);
        seen[m.x.zigzag][m.x.inner == 1 ? 0 : m.x.inner == m.x.c ? 1 : 2]++;
    }
    printf("contiguous: ring %lld, all to all %lld, both %lld; zigzag: %lld, %lld, %lld\n",
           (long long)seen[0][0], (long long)seen[0][1], (long long)seen[0][2],
           (long long)seen[1][0], (long long)seen[1][1], (long long)seen[1][2]);
}
END_TEST
LUO_SUITE("graph.context", LUO_T_N(hand, LUO_ROWS(by_hand)),
          LUO_T_N(remainders, LUO_ROWS(uneven)), LUO_T(busiest), LUO_T(twin))
