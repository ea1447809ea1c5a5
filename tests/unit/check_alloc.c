/* check_alloc.c: computed and recorded plans for the allocations. */
#include <math.h>

#include "core/plan/planners.h"
#include "tests/check_main.h"

enum { STAGES = 8, PIPES = 4 };

/* Pipelines of stage times y; after the canonical split and the trim their o and fill. */
typedef struct solved {
    int32_t stages[PIPES];
    int64_t layers[PIPES][STAGES];
    double o[PIPES], fill[PIPES];
} solved;

static int32_t solve_pipe(luo_arena *a, const double *y0, int64_t L, solved *s, int32_t i)
{
    double y[STAGES];
    int32_t n = 0;
    for (; n < STAGES && y0[n] > 0; n++) y[n] = y0[n];
    for (int32_t trimmed = 1; trimmed;) {
        ck_assert_int_eq(luo_plan_split_layers(a, n, y, L, NULL, s->layers[i], NULL), LUO_OK);
        trimmed = 0;
        for (int32_t j = 0; j < n && !trimmed; j++)
            if (s->layers[i][j] == 0) {
                memmove(y + j, y + j + 1, (size_t)(n - j - 1) * sizeof *y);
                n--;
                trimmed = 1;
            }
    }
    s->o[i] = s->fill[i] = 0;
    for (int32_t j = 0; j < n; j++) {
        s->o[i] = fmax(s->o[i], y[j] * (double)s->layers[i][j]);
        s->fill[i] += y[j] * (double)s->layers[i][j];
    }
    return s->stages[i] = n;
}

static const struct {
    const char *id;
    double y[PIPES][STAGES];
    int64_t L, M;
    double steady, filled, bound;
    int64_t m_steady[PIPES], m_filled[PIPES]; /* 0: not printed */
} rows[] = {
    {"T1", {{1, 1}, {1, 1}}, 8, 8, 16, 20, 16, {4, 4}, {4, 4}},
    {"T2", {{2, 1}, {1, 1}}, 8, 8, 20, 24, 18.285714285714285, {3, 5}, {3, 5}},
    {"T4", {{2.57, 1, 1, 1}, {1, 1, 1, 1}}, 16, 16, 36, 48, 34.6456, {7, 9}, {7, 9}},
    {"T5", {{5, 1}}, 6, 4, 20, 25, 20, {4}, {4}},
    {"T10", {{2, 2, 1}, {1}}, 12, 12, 48, 60, 48, {8, 4}, {8, 4}},
    {"T11", {{90, 3, 1}, {1, 1}}, 10, 12, 40, 45, 35.8804, {5, 7}, {4, 8}},
    {"T13", {{1, 1, 1, 1}, {1.25, 1, 1, 1}}, 80, 64, 660, 721.75, 656.4103, {33, 31}, {33, 31}},
    {"D1", {{1, 1}, {1, 1}}, 8, 8, 16, 0, 0, {0}, {0}},
    {"D3", {{2, 2, 1}, {1}}, 12, 12, 48, 0, 0, {8, 4}, {0}},
    {"D5", {{1, 1}, {1}}, 12, 12, 48, 0, 0, {8, 4}, {0}},
    {"G1", {{7.22, 3.66, 1.90, 1, 1, 1}, {1, 1, 1, 1}}, 80, 64, 660, 0, 0, {31, 33}, {0}},
    {"G3", {{7.22, 7.22, 1.90, 1, 1, 1, 1}, {3.66, 3.66, 1.90, 1, 1}}, 80, 64, 665, 0, 0,
     {0}, {0}},
    {"G4", {{7.22, 3.66, 1.90, 1, 1}, {1, 1, 1, 1, 1}}, 80, 64, 656, 0, 0, {23, 41}, {0}},
    {"G6", {{1, 1, 1, 1}, {3.66, 1.9, 1, 1, 1}}, 60, 64, 496, 0, 0, {33, 31}, {0}},
    {"G7", {{3.2, 3.2, 1}, {3.2, 3.2, 1}, {3.2, 3.2, 1}, {3.2, 3.2, 1}}, 60, 64, 608, 0, 0,
     {16, 16, 16, 16}, {0}},
    {"G8", {{3.2, 3.2, 1, 1}, {3.2, 3.2, 1, 1}}, 60, 64, 736, 0, 0, {32, 32}, {0}},
    {"G10", {{3.2, 3.2, 3.2, 1, 1}, {3.2, 3.2, 3.2, 1, 1}}, 60, 64, 672, 0, 0, {32, 32}, {0}},
    {"G11", {{3.2, 3.2, 1, 1}, {3.2, 3.2, 1}, {3.2, 3.2, 1.6, 2.9}}, 60, 64, 684, 0, 0,
     {29, 18, 17}, {0}},
    {"G14", {{2.6, 2.6, 1}, {2.6, 2.6, 1}}, 80, 64, 1472, 0, 0, {32, 32}, {0}},
    {"G16", {{2.6, 2.6, 1, 1}}, 80, 64, 1856, 0, 0, {64}, {0}},
};

static double objective(const solved *s, int32_t n, const int64_t *m, bool filled)
{
    double t = 0;
    for (int32_t i = 0; i < n; i++)
        t = fmax(t, filled ? (double)(m[i] - 1) * s->o[i] + s->fill[i] : (double)m[i] * s->o[i]);
    return t;
}

static void same(const int64_t *got, const int64_t *want, int32_t n)
{
    for (int32_t i = 0; i < n && want[0]; i++) ck_assert_int_eq(got[i], want[i]);
}

START_TEST(vector_row)
{
    luo_arena *a = luo_arena_new(4096);
    solved s;
    int32_t n = 0;
    int64_t lo[PIPES], m[PIPES];
    double speed = 0;
    for (; n < PIPES && rows[_i].y[n][0] > 0; n++) {
        for (int32_t j = 0; j < STAGES && rows[_i].y[n][j] > 0; j++) speed += 1 / rows[_i].y[n][j];
        lo[n] = solve_pipe(a, rows[_i].y[n], rows[_i].L, &s, n);
    }
    for (int filled = 0; filled < 2; filled++) {
        const double want = filled ? rows[_i].filled : rows[_i].steady;
        if (want == 0) continue;
        ck_assert_int_eq(
            luo_plan_split_micro_batches(n, s.o, s.fill, filled, rows[_i].M, lo, m, NULL), LUO_OK);
        ck_assert_msg(fabs(objective(&s, n, m, filled) - want) < 1e-6, "%s: %.9g, not %.9g",
                      rows[_i].id, objective(&s, n, m, filled), want);
        same(m, filled ? rows[_i].m_filled : rows[_i].m_steady, n);
    }
    if (rows[_i].bound > 0)
        ck_assert_double_eq_tol((double)(rows[_i].L * rows[_i].M) / speed, rows[_i].bound, 5e-5);
    luo_arena_free(a);
}
END_TEST

/* Recorded layers where the canonical split names them, and G5 under the caps C1. */
START_TEST(layers)
{
    luo_arena *a = luo_arena_new(4096);
    int64_t n[4];
    const int64_t cap[] = {15, 17, 19, 22};
    const double even[] = {1, 1, 1, 1}, slow[] = {2.57, 1, 1, 1}, fast_last[] = {3.2, 3.2, 1};
    double best = 0;
    ck_assert_int_eq(luo_plan_minmax(4, even, NULL, 60, NULL, cap, n, &best, NULL), LUO_OK);
    ck_assert_double_eq(best, 15); /* T7 */
    ck_assert_int_eq(luo_plan_split_layers(a, 4, slow, 60, cap, n, NULL), LUO_OK);
    same(n, (const int64_t[]){7, 17, 18, 18}, 4); /* G5 */
    ck_assert_int_eq(luo_plan_split_layers(a, 3, fast_last, 60, NULL, n, NULL), LUO_OK);
    same(n, (const int64_t[]){11, 11, 38}, 3); /* G7 */
    ck_assert_int_eq(luo_plan_split_layers(a, 3, even, 80, NULL, n, NULL), LUO_OK);
    same(n, (const int64_t[]){26, 27, 27}, 3); /* the larger shares are the later ones */
    luo_arena_free(a);
}
END_TEST

START_TEST(infeasible)
{
    luo_err err = {0};
    int64_t n[2] = {-1, -1};
    const double w[] = {1, 1};
    ck_assert_int_eq(luo_plan_minmax(2, w, NULL, 10, NULL, (const int64_t[]){4, 4}, n, NULL, &err),
                     LUO_EINFEASIBLE); /* T9 */
    ck_assert_str_eq(err.text, "10 units do not fit into bounds of 8; larger bounds are needed.");
    ck_assert_int_eq(luo_plan_minmax(2, w, NULL, 3, (const int64_t[]){2, 2}, NULL, n, NULL, &err),
                     LUO_EINFEASIBLE);
    ck_assert_str_eq(err.text, "3 units do not reach the least of 4; fewer rows are needed.");
    ck_assert_int_eq(luo_plan_minmax(2, w, NULL, 4, (const int64_t[]){2, 1},
                                     (const int64_t[]){1, 4}, n, NULL, &err),
                     LUO_EINFEASIBLE);
    ck_assert_str_eq(err.text,
                     "row 0 takes at most 1 units and needs 2; larger bounds are needed.");
    ck_assert_int_eq(n[0], -1);
}
END_TEST
LUO_SUITE("plan.alloc", LUO_T_N(vector_row, LUO_ROWS(rows)), LUO_T(layers), LUO_T(infeasible))
