/* check_sched.c: task orders and makespans (docs/architecture/schedules.md#orders, the computed
 * vectors). */
#include "core/base/str.h"
#include "core/graph/schedule/sched.h"
#include "tests/check_main.h"

static const struct {
    luo_sched_kind kind;
    int32_t S, s, m, v;
    const char *order;
    int32_t kept;
} orders[] = {
    {LUO_SCHED_1F1B, 2, 0, 3, 1, "F0 F1 B0 F2 B1 B2", 2},
    {LUO_SCHED_1F1B, 2, 1, 3, 1, "F0 B0 F1 B1 F2 B2", 1},
    {LUO_SCHED_1F1B, 3, 0, 4, 1, "F0 F1 F2 B0 F3 B1 B2 B3", 3},
    {LUO_SCHED_1F1B, 3, 1, 4, 1, "F0 F1 B0 F2 B1 F3 B2 B3", 2},
    {LUO_SCHED_1F1B, 3, 2, 4, 1, "F0 B0 F1 B1 F2 B2 F3 B3", 1},
    {LUO_SCHED_1F1B, 4, 0, 2, 1, "F0 F1 B0 B1", 2},
    {LUO_SCHED_1F1B, 4, 1, 2, 1, "F0 F1 B0 B1", 2},
    {LUO_SCHED_1F1B, 4, 2, 2, 1, "F0 F1 B0 B1", 2},
    {LUO_SCHED_1F1B, 4, 3, 2, 1, "F0 B0 F1 B1", 1},
    {LUO_SCHED_GPIPE, 4, 3, 3, 1, "F0 F1 F2 B0 B1 B2", 3},
    {LUO_SCHED_INTERLEAVED, 2, 0, 4, 2,
     "F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 B2.1 B3.1 B2.0 B3.0", 5},
    {LUO_SCHED_INTERLEAVED, 2, 1, 4, 2,
     "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0", 3},
    {LUO_SCHED_INTERLEAVED, 2, 0, 2, 2, "F0.0 F1.0 F0.1 F1.1 B0.1 B1.1 B0.0 B1.0", 4},
    /* I: input gradients, W: weight gradients (arXiv 2401.10241, figure 3, where I is B) */
    {LUO_SCHED_ZB_H1, 1, 0, 2, 1, "F0 I0 W0 F1 I1 W1", 1},
    {LUO_SCHED_ZB_H1, 2, 0, 3, 1, "F0 F1 I0 W0 F2 I1 W1 I2 W2", 2},
    {LUO_SCHED_ZB_H1, 2, 1, 3, 1, "F0 I0 F1 I1 W0 F2 I2 W1 W2", 1},
    {LUO_SCHED_ZB_H1, 3, 0, 4, 1, "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3", 3},
    {LUO_SCHED_ZB_H1, 3, 1, 4, 1, "F0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3", 2},
    {LUO_SCHED_ZB_H1, 3, 2, 4, 1, "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3", 1},
    {LUO_SCHED_ZB_H1, 4, 0, 2, 1, "F0 F1 I0 W0 I1 W1", 2},
    {LUO_SCHED_ZB_H1, 4, 1, 2, 1, "F0 F1 I0 I1 W0 W1", 2},
    {LUO_SCHED_ZB_H1, 4, 2, 2, 1, "F0 F1 I0 I1 W0 W1", 2},
    {LUO_SCHED_ZB_H1, 4, 3, 2, 1, "F0 I0 F1 I1 W0 W1", 1},
    {LUO_SCHED_ZB_H2, 1, 0, 2, 1, "F0 I0 W0 F1 I1 W1", 1},
    {LUO_SCHED_ZB_H2, 2, 0, 4, 1, "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3", 3},
    {LUO_SCHED_ZB_H2, 2, 1, 4, 1, "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3", 1},
    {LUO_SCHED_ZB_H2, 3, 1, 5, 1, "F0 F1 F2 I0 F3 I1 F4 I2 W0 I3 W1 I4 W2 W3 W4", 3},
    {LUO_SCHED_ZB_H2, 3, 0, 2, 1, "F0 F1 I0 W0 I1 W1", 2},
};

START_TEST(order)
{
    luo_arena *arena = luo_arena_new(0);
    const luo_task *t;
    int32_t n;
    luo_str s = {0};
    ck_assert_int_eq(luo_sched_make(arena, orders[_i].kind, orders[_i].S, orders[_i].s,
                                    orders[_i].m, orders[_i].v, &t, &n, NULL),
                     LUO_OK);
    int alive = 0, most = 0;
    for (int32_t k = 0; k < n; k++) {
        luo_str_addf(&s, "%s%c%d", k ? " " : "", "FBIW"[t[k].phase], t[k].micro_batch);
        if (orders[_i].v > 1) luo_str_addf(&s, ".%d", t[k].chunk);
        if (t[k].phase != LUO_TASK_BW) alive += t[k].phase == LUO_TASK_F ? 1 : -1;
        if (alive > most) most = alive;
    }
    ck_assert_str_eq(luo_str_get(&s), orders[_i].order);
    ck_assert_int_eq(most, orders[_i].kept);
    ck_assert_int_eq(luo_sched_kept(orders[_i].kind, orders[_i].S, orders[_i].s, orders[_i].m,
                                    orders[_i].v),
                     orders[_i].kept);
    luo_str_free(&s);
    luo_arena_free(arena);
}
END_TEST

static const struct {
    const char *id;
    luo_sched_kind kind;
    int32_t S, m, v;
    double f[4], b[4], hop; /* per stage; all chunks of a stage alike */
    bool blocking;
    double want;
    double w[4];
} spans[] = {
    {"19.7", LUO_SCHED_1F1B, 4, 8, 1, {1, 1, 1, 1}, {2, 2, 2, 2}, 0, false, 33, {0}},
    {"19.7", LUO_SCHED_1F1B, 4, 8, 1, {1, 1, 1, 1}, {2, 2, 2, 2}, 0.25, false, 37, {0}},
    {"19.7", LUO_SCHED_1F1B, 4, 8, 1, {1, 1, 1, 1}, {2, 2, 2, 2}, 1, false, 49, {0}},
    {"19.7", LUO_SCHED_GPIPE, 4, 8, 1, {1, 1, 1, 1}, {2, 2, 2, 2}, 0.25, false, 34.5, {0}},
    {"19.7", LUO_SCHED_GPIPE, 4, 8, 1, {1, 1, 1, 1}, {2, 2, 2, 2}, 1, false, 39, {0}},
    {"19.7", LUO_SCHED_1F1B, 3, 4, 1, {1, 2, 1}, {2, 4, 2}, 0, false, 28, {0}},
    {"19.7", LUO_SCHED_GPIPE, 3, 4, 1, {1, 2, 1}, {2, 4, 2}, 0, false, 30, {0}},
    {"19.7", LUO_SCHED_INTERLEAVED, 3, 6, 2, {1, 1, 1}, {2, 2, 2}, 0, false, 42, {0}},
    {"ACC-P2", LUO_SCHED_GPIPE, 4, 8, 1, {1, 1, 1, 1}, {2, 2, 2, 2}, 0, false, 33, {0}},
    {"ACC-P3", LUO_SCHED_1F1B, 4, 8, 1, {1, 1, 1, 1.5}, {2, 2, 2, 3}, 0, false, 45, {0}},
    {"ACC-P4", LUO_SCHED_1F1B, 4, 2, 1, {1, 1, 1, 1}, {2, 2, 2, 2}, 0, false, 15, {0}},
    {"ACC-P5", LUO_SCHED_INTERLEAVED, 4, 8, 2, {.5, .5, .5, .5}, {1, 1, 1, 1}, 0, false, 28.5, {0}},
    {"ACC-P6", LUO_SCHED_1F1B, 4, 8, 1, {1, 1, 1, 1}, {2, 2, 2, 2}, 0.2, false, 36.2, {0}},
    {"ACC-P7", LUO_SCHED_1F1B, 4, 8, 1, {1, 1, 1, 1}, {2, 2, 2, 2}, 0.2, true, 36.8, {0}},
    {"ACC-P10", LUO_SCHED_1F1B, 1, 5, 1, {1}, {2}, 0, false, 15, {0}},
    /* m (F + BI + BW) + (S-1) (F + BI - BW); 1F1B of the same work: 33 */
    {"H1", LUO_SCHED_ZB_H1, 4, 8, 1, {1, 1, 1, 1}, {1, 1, 1, 1}, 0, false, 27, {1, 1, 1, 1}},
    {"H1", LUO_SCHED_ZB_H1, 4, 4, 1, {1, 1, 1, 1}, {1, 1, 1, 1}, 0, false, 15, {1, 1, 1, 1}},
    {"H1", LUO_SCHED_ZB_H1, 2, 3, 1, {1, 1}, {2, 2}, 0, false, 14, {1, 1}},
    {"H1", LUO_SCHED_ZB_H1, 4, 2, 1, {1, 1, 1, 1}, {1, 1, 1, 1}, 0, false, 11, {1, 1, 1, 1}},
    {"H1", LUO_SCHED_ZB_H1, 1, 5, 1, {1}, {1}, 0, false, 15, {1}},
    {"H2", LUO_SCHED_ZB_H2, 4, 8, 1, {1, 1, 1, 1}, {1, 1, 1, 1}, 0, false, 27, {1, 1, 1, 1}},
};

/* A small copy of the row in the form "one time per stage and chunk, per micro-batch". */
static void spread(const double *stage, int32_t S, int32_t v, int32_t m, double *each)
{
    for (int32_t k = 0; k < S * v * m; k++) each[k] = stage[k / (v * m)];
}

START_TEST(makespan)
{
    luo_arena *arena = luo_arena_new(0);
    const int32_t S = spans[_i].S, m = spans[_i].m, v = spans[_i].v;
    double f[128], b[128], w[128], hop[4], got, again;
    for (int k = 0; k < 4; k++) hop[k] = spans[_i].hop;
    spread(spans[_i].f, S, v, 1, f);
    spread(spans[_i].b, S, v, 1, b);
    spread(spans[_i].w, S, v, 1, w);
    ck_assert_int_eq(luo_sched_makespan(arena, spans[_i].kind, S, m, v, f, b, w,
                                        spans[_i].hop > 0 ? hop : NULL, spans[_i].blocking, &got,
                                        NULL),
                     LUO_OK);
    ck_assert_msg(got > spans[_i].want - 1e-9 && got < spans[_i].want + 1e-9, "%s: %.12g",
                  spans[_i].id, got);
    spread(spans[_i].f, S, v, m, f);
    spread(spans[_i].b, S, v, m, b);
    spread(spans[_i].w, S, v, m, w);
    ck_assert_int_eq(luo_sched_makespan_each(arena, spans[_i].kind, S, m, v, f, b, w, hop,
                                             spans[_i].blocking, &again, NULL, NULL),
                     LUO_OK);
    ck_assert_double_eq(got, again);
    ck_assert_uint_eq(luo_arena_used(arena), 0);
    luo_arena_free(arena);
}
END_TEST

static const struct {
    luo_sched_kind kind;
    int32_t S, s, m, v;
    const char *says;
} wrong[] = {
    {LUO_SCHED_INTERLEAVED, 3, 0, 5, 2,
     "interleaved schedule: 5 micro-batches are not a multiple of 3 stages"},
    {LUO_SCHED_1F1B, 3, 0, 5, 2, "1f1b schedule: 2 chunks per stage; use interleaved_1f1b."},
    {LUO_SCHED_ZB_H1, 3, 0, 5, 2, "zb_h1 schedule: 2 chunks per stage; use interleaved_1f1b."},
    {LUO_SCHED_GPIPE, 3, 3, 5, 1, "gpipe schedule: stage 3; stages are 0 to 2."},
    {LUO_SCHED_GPIPE, 3, 0, 0, 1,
     "gpipe schedule: 3 stages, 0 micro-batches, 1 chunks; at least one of each is needed."},
    {LUO_SCHED_INTERLEAVED, 1, 0, 1 << 20, 1 << 20,
     "interleaved_1f1b schedule: 1048576 micro-batches in 1048576 chunks are too many tasks."},
};

START_TEST(refused)
{
    luo_arena *arena = luo_arena_new(0);
    const luo_task *t;
    int32_t n;
    luo_err err = {0};
    luo_sched_make(arena, wrong[_i].kind, wrong[_i].S, wrong[_i].s, wrong[_i].m, wrong[_i].v, &t,
                   &n, &err);
    ck_assert_str_eq(err.text, wrong[_i].says);
    luo_arena_free(arena);
}
END_TEST

START_TEST(names)
{
    luo_err err = {0};
    for (int k = 0; k < LUO_SCHEDS; k++) {
        luo_sched_kind got;
        ck_assert_int_eq(luo_sched_parse(luo_sched_name((luo_sched_kind)k), &got, &err), LUO_OK);
        ck_assert_int_eq(got, k);
    }
    luo_sched_kind none;
    ck_assert_int_eq(luo_sched_parse("zb-h1", &none, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "schedule `zb-h1` is not known; did you mean `zb_h1`?");
}
END_TEST

LUO_SUITE("graph.sched", LUO_T_N(order, LUO_ROWS(orders)), LUO_T_N(makespan, LUO_ROWS(spans)),
          LUO_T_N(refused, LUO_ROWS(wrong)), LUO_T(names))
