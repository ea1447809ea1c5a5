/* check_malleus.c: the straggler planner on the the computed vectors and the
 * faults of the published code. */
#include <math.h>

#include "tests/check_main.h"
#include "tests/malleus_check.h"
#include "tests/malleus_fixture.h"

static luo_malleus_device devices[MALLEUS_DEVICES];

static const luo_malleus_found *find(luo_arena *a, const luo_malleus_in *in)
{
    luo_malleus_found *f = NULL;
    luo_err err = {0};
    const luo_status st = luo_malleus(a, in, &f, &err);
    ck_assert_msg(st == LUO_OK, "%s: %s", luo_status_name(st), err.text);
    return f;
}

static void check_at_most(const char *id, const char *what, double is, double bound, double most)
{
    ck_assert_msg(is >= bound * (1 - 1e-9) && is <= most + 1e-6,
                  "%s: %s is %.6f, not in %.3f..%.3f", id, what, is, bound, most);
}

/* At most the value of the row, at least the bound. */
START_TEST(whole_planner)
{
    const pl_row *r = &pl_rows[_i];
    luo_arena *a = luo_arena_new(0);
    luo_malleus_in in = make_pl(r, devices);
    const luo_malleus_found *f = find(a, &in);
    ck_assert_double_eq_tol(f->bound, r->bound, 1e-3);
    ck_assert(f->search.exhaustive);
    ck_assert_int_eq(f->dp, in.dp);
    for (int32_t k = 0; k < f->n; k++) check_plan(&in, &f->plans[k]);
    check_at_most(r->id, "filled", f->plans[0].filled, f->bound, r->filled);
    check_at_most(r->id, "event", f->plans[0].event, f->bound, r->event);
    in.rank = LUO_RANK_STEADY;
    f = find(a, &in);
    for (int32_t k = 0; k < f->n; k++) check_plan(&in, &f->plans[k]);
    check_at_most(r->id, "steady", f->plans[0].steady, f->bound, r->steady);
    luo_arena_free(a);
}
END_TEST

static const struct {
    const setting *s;
    double steady, event;
} healthy[] = {{&s70, 640, 700}, {&s110, 640, 700}, {&s32, 240, 285}};

/* Pipeline i stage j is group pp*i + j, devices in order; also when all are equally slow, and when
 * rates below the threshold differ (PL16). */
START_TEST(base_plan)
{
    const setting *s = healthy[_i].s;
    luo_arena *a = luo_arena_new(0);
    const luo_malleus_in in = make_in(s, devices);
    for (int kind = 0; kind < 3; kind++) {
        const double all = kind == 2 ? 1.7 : 1;
        for (int32_t d = 0; d < in.ndevices; d++)
            devices[d].rate = kind == 1 ? 1 + 0.01 * (d % 10) : all;
        const luo_malleus_found *f = find(a, &in);
        const luo_malleus_plan *p = &f->plans[0];
        ck_assert(f->search.skipped);
        ck_assert_int_eq(f->n, 1);
        ck_assert_int_eq(p->nstandby, 0);
        ck_assert_double_eq_tol(p->steady, all * healthy[_i].steady, 1e-9);
        ck_assert_double_eq_tol(p->event, all * healthy[_i].event, 1e-9);
        if (kind < 2)
            ck_assert_double_eq_tol(f->bound, healthy[_i].steady, 1e-9);
        for (int32_t i = 0; i < s->dp; i++)
            for (int32_t j = 0; j < s->pp; j++)
                for (int32_t k = 0; k < s->tp; k++)
                    ck_assert_int_eq(p->pipes[i].stages[j].group->devices[k],
                                     (s->pp * i + j) * s->tp + k);
        check_plan(&in, p);
    }
    luo_arena_free(a);
}
END_TEST

START_TEST(search_healthy)
{
    luo_arena *a = luo_arena_new(0);
    luo_malleus_in in = make_in(&s70, devices);
    in.search_healthy = true;
    const luo_malleus_found *f = find(a, &in);
    ck_assert(!f->search.skipped && f->search.exhaustive);
    ck_assert_double_le(f->plans[0].event, 700 + 1e-9);
    check_plan(&in, &f->plans[0]);
    luo_arena_free(a);
}
END_TEST

/* Fault F1: no place of the straggler changes a number. F2: nor does noise below the threshold. */
START_TEST(any_place)
{
    luo_arena *a = luo_arena_new(0);
    luo_malleus_in in = make_in(&s70, devices);
    for (int rank = 0; rank < 2; rank++) {
        in.rank = rank ? LUO_RANK_STEADY : LUO_RANK_FILLED;
        for (int32_t k = 0; k < 64; k += 7) {
            for (int32_t d = 0; d < 64; d++) devices[d].rate = k < 32 ? 1 : 1 + 0.003 * d;
            devices[k].rate = 2.57;
            const luo_malleus_plan *p = &find(a, &in)->plans[0];
            ck_assert_double_eq_tol(rank ? p->steady : p->filled, rank ? 656 : 734.4, 1e-9);
            ck_assert_int_eq(p->nstandby, 1);
            ck_assert_int_eq(p->standby[0], k);
        }
    }
    luo_arena_free(a);
}
END_TEST

/* Of a node of four groups only the one that the straggler is in is cut. */
START_TEST(others_stay_groups)
{
    luo_arena *a = luo_arena_new(0);
    const luo_malleus_in in = make_in(&s32, devices);
    devices[10].rate = 2.57; /* of group 10, 11 */
    const luo_malleus_plan *p = &find(a, &in)->plans[0];
    ck_assert_double_eq_tol(p->filled, 300, 1e-9); /* PL4 */
    for (int32_t i = 0; i < p->npipes; i++)
        for (int32_t j = 0; j < p->pipes[i].nstages; j++) {
            const luo_malleus_group *g = p->pipes[i].stages[j].group;
            ck_assert_int_eq(g->devices[0] % 2, g->size == 1);
            if (g->size == 2) ck_assert_int_eq(g->devices[1], g->devices[0] + 1);
            else ck_assert_int_eq(g->devices[0], 11);
        }
    ck_assert(p->nstandby == 1 && p->standby[0] == 10);
    luo_arena_free(a);
}
END_TEST

/* Four groups of four, of which two have a slow device, one of them not very. Each of these devices
 * has to be left out: with the second one in its group the best is 128.47. */
START_TEST(slow_devices_left_out)
{
    static const setting s = {&kind70, NULL, 2, 4, 2, 24, 16};
    luo_arena *a = luo_arena_new(0);
    const luo_malleus_in in = make_in(&s, devices);
    devices[10].rate = 4.8;
    devices[12].rate = 1.63;
    const luo_malleus_found *f = find(a, &in);
    const luo_malleus_plan *p = &f->plans[0];
    ck_assert_double_eq_tol(p->filled, 127.2, 1e-9);
    ck_assert(p->nstandby == 2 && p->standby[0] == 10 && p->standby[1] == 12);
    for (int32_t k = 0; k < f->n; k++) check_plan(&in, &f->plans[k]);
    luo_arena_free(a);
}
END_TEST

/* `--rank event`: more plans are ranked by event time, so the first is no worse; split2: more ways
 * to cut a node. */
START_TEST(wider_searches)
{
    luo_arena *a = luo_arena_new(0);
    for (int k = 0; k < LUO_ROWS(pl_rows); k++) {
        luo_malleus_in in = make_pl(&pl_rows[k], devices);
        in.rank = LUO_RANK_EVENT;
        const luo_malleus_found *f = find(a, &in);
        check_at_most(pl_rows[k].id, "event", f->plans[0].event, f->bound, pl_rows[k].event);
        in.rank = LUO_RANK_FILLED;
        in.split2 = true;
        f = find(a, &in);
        const bool four = strcmp(pl_rows[k].id, "PL14") == 0; /* 19.5: split2 gives 734.25 */
        check_at_most(pl_rows[k].id, "filled", f->plans[0].filled, f->bound,
                      four ? 734.25 : pl_rows[k].filled);
    }
    luo_malleus_in in = make_in(&s70, devices);
    devices[0].rate = 1.5;
    in.split2 = true;
    const luo_malleus_found *f = find(a, &in);
    check_at_most("one at 1.5", "filled", f->plans[0].filled, f->bound, 730.47); /* computed */
    luo_arena_free(a);
}
END_TEST

START_TEST(many_devices)
{
    static const struct {
        const setting *s;
        int32_t step, n;
        double bound, steady, event;
    } rows[] = {{&s1024, 64, 16, 646.068, 660, 740}, {&s16384, 256, 64, 252.489, 256, 385}};
    const char *scale = getenv("LUO_SCALE");
    luo_arena *a = luo_arena_new(0);
    for (int k = 0; k < (scale && atoi(scale) > 1 ? 2 : 1); k++) {
        luo_malleus_in in = make_many(rows[k].s, devices, rows[k].step, rows[k].n);
        const luo_malleus_found *f = find(a, &in);
        ck_assert_double_eq_tol(f->bound, rows[k].bound, 1e-3);
        check_plan(&in, &f->plans[0]);
        check_at_most("many", "filled", f->plans[0].filled, f->bound, rows[k].event);
        check_at_most("many", "event", f->plans[0].event, f->bound, rows[k].event);
        in.rank = LUO_RANK_STEADY;
        f = find(a, &in);
        check_plan(&in, &f->plans[0]);
        check_at_most("many", "steady", f->plans[0].steady, f->bound, rows[k].steady);
    }
    luo_arena_free(a);
}
END_TEST

/* Groups of one device each, all assignments into two pipelines. */
START_TEST(assignments)
{
    static const struct {
        int32_t n;
        double rate[4];
        int64_t layers, micro_batches;
        double steady;
        int64_t m[2]; /* 0: D1 and D3 have several best plans, D3 one with less warm-up */
        int32_t stages[2];
    } rows[] = {
        {4, {1, 1, 1, 1}, 8, 8, 16, {0}, {0}},
        {4, {2, 2, 1, 1}, 12, 12, 48, {0}, {0}},
        {3, {1, 1, 1}, 12, 12, 48, {8, 4}, {2, 1}},
    };
    static const double one[] = {1};
    static const luo_malleus_kind kind = {1, one};
    luo_arena *a = luo_arena_new(0);
    for (int32_t i = 0; i < rows[_i].n; i++)
        devices[i] = (luo_malleus_device){i, i, 0, rows[_i].rate[i]};
    const luo_malleus_in in = {.ndevices = rows[_i].n, .devices = devices, .nkinds = 1,
                               .kinds = &kind, .dp = 2, .tp = 1, .pp = 2,
                               .layers = rows[_i].layers,
                               .micro_batches = rows[_i].micro_batches, .threshold = 1.2,
                               .rank = LUO_RANK_STEADY};
    const luo_malleus_found *f = find(a, &in);
    const luo_malleus_plan *p = &f->plans[0];
    ck_assert_double_eq(p->steady, rows[_i].steady);
    check_plan(&in, p);
    for (int32_t i = 0; i < 2 && rows[_i].m[0]; i++) {
        ck_assert_int_eq(p->pipes[i].nstages, rows[_i].stages[i]);
        ck_assert_int_eq(p->pipes[i].micro_batches, rows[_i].m[i]);
    }
    luo_arena_free(a);
}
END_TEST

/* `--stage-order rising` puts slow groups last and costs what it costs. */
START_TEST(rising_order)
{
    luo_arena *a = luo_arena_new(0);
    luo_malleus_in in = make_pl(&pl_rows[0], devices);
    in.rising = true;
    in.cap = NULL;
    in.max_stages = 0;
    const luo_malleus_plan *p = &find(a, &in)->plans[0];
    check_plan(&in, p);
    for (int32_t i = 0; i < p->npipes; i++)
        for (int32_t j = 1; j < p->pipes[i].nstages; j++)
            ck_assert_double_ge(p->pipes[i].stages[j].group->y,
                                p->pipes[i].stages[j - 1].group->y);
    luo_arena_free(a);
}
END_TEST

static int64_t three(const void *ctx, int32_t kind, int32_t size, int32_t stages, int32_t stage,
                     int32_t pipelines)
{
    (void)ctx, (void)kind, (void)size, (void)stages, (void)stage, (void)pipelines;
    return 3;
}

START_TEST(other_numbers_of_pipelines)
{
    luo_arena *a = luo_arena_new(0);
    luo_malleus_in in = make_in(&s70, devices);
    in.ndevices = 8; /* one node is left: fewer groups than pipelines */
    in.whole = false;
    in.layers = 20;
    const luo_malleus_found *f = find(a, &in);
    ck_assert_int_eq(f->dp, 1);
    check_plan(&in, &f->plans[0]);
    in = make_in(&s70, devices); /* three layers a stage: eight stages in one pipeline hold 24 */
    in.layers = 24;
    in.cap = three;
    f = find(a, &in);
    ck_assert_int_eq(f->dp, 1);
    check_plan(&in, &f->plans[0]);
    in = make_pl(&pl_rows[4], devices); /* a third pipeline costs memory and saves warm-up */
    in.cap = NULL;
    in.max_stages = 0;
    const double without = find(a, &in)->plans[0].event;
    in.dp_auto = true;
    f = find(a, &in);
    ck_assert_int_eq(f->dp, 3);
    ck_assert_double_lt(f->plans[0].event, without);
    check_plan(&in, &f->plans[0]);
    luo_arena_free(a);
}
END_TEST

START_TEST(few_micro_batches)
{
    luo_arena *a = luo_arena_new(0);
    luo_malleus_in in = make_pl(&pl_rows[0], devices);
    ck_assert(!find(a, &in)->few);
    in.micro_batches = 3; /* ten groups hold layers */
    in.cap = NULL;
    in.max_stages = 0;
    const luo_malleus_found *f = find(a, &in);
    ck_assert(f->few);
    ck_assert_int_eq(f->plans[0].npipes, 2);
    check_plan(&in, &f->plans[0]);
    luo_arena_free(a);
}
END_TEST

START_TEST(refusals)
{
    luo_arena *a = luo_arena_new(0);
    luo_malleus_found *f = NULL;
    luo_err err;
    luo_malleus_in in = make_in(&s32, devices);
    in.micro_batches = 3;
    ck_assert_int_eq(luo_malleus(a, &in, &f, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "the batch gives 3 micro-batches for 4 pipelines; at least one each "
                               "is needed.");
    in = make_in(&s70, devices);
    in.layers = 25;
    in.cap = three;
    devices[17].rate = 2; /* its node is cut into 4, 2 and device 23, the slowest stage */
    ck_assert_int_eq(luo_malleus(a, &in, &f, &err), LUO_EINFEASIBLE);
    ck_assert_str_eq(err.text, "no plan fits in memory; the tightest stage (device 23) holds 3 of "
                               "25 layers; try more stages, `recompute` or `zero` 1.");
    ck_assert_ptr_null(f);
    luo_arena_free(a);
}
END_TEST

LUO_SUITE("plan.malleus", LUO_T_N(whole_planner, LUO_ROWS(pl_rows)),
          LUO_T_N(base_plan, LUO_ROWS(healthy)), LUO_T(search_healthy), LUO_T(any_place),
          LUO_T(others_stay_groups), LUO_T(slow_devices_left_out),
          LUO_T(wider_searches), LUO_T(many_devices), LUO_T_N(assignments, 3), LUO_T(rising_order),
          LUO_T(other_numbers_of_pipelines), LUO_T(few_micro_batches), LUO_T(refusals))
