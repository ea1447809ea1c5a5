/* check_length_policy.c: whole steps of every policy for uneven lengths, beside the times that a
 * reference program computed; HotSPa's buckets; what the planner must not get wrong again. */
#include <math.h>

#include "core/plan/length_policies/length_plan.h"
#include "tests/check_main.h"
#include "tests/hydraulis_fixture.h"

enum {
    PADDING = LUO_LENGTH_POLICY_PADDING,
    STATIC = LUO_LENGTH_POLICY_PACK_STATIC,
    DYNAMIC = LUO_LENGTH_POLICY_PACK_DYNAMIC,
    UNIFORM = LUO_LENGTH_POLICY_UNIFORM_BEST,
    HOTSPA = LUO_LENGTH_POLICY_HOTSPA,
    CTX = 32768
};

typedef struct scene {
    luo_arena *arena;
    luo_pool pool;
    int64_t *length;
    int32_t n;
    luo_candidates none;
    luo_length_rivals rivals;
} scene;

static scene make(const char *preset, uint64_t seed, int64_t budget, bool big)
{
    scene s = {.arena = luo_arena_new(0)};
    luo_length_part parts[LUO_PRESET_PARTS];
    luo_lengths lengths;
    luo_length_source source = luo_length_source_open(seed);
    const luo_batch_rule rule = {.tokens = budget, .most = CTX, .least = 32};
    ck_assert(luo_length_preset(preset, CTX, parts, &lengths));
    ck_assert_int_eq(
        luo_lengths_batch(s.arena, &lengths, &rule, 1 << 20, &source, &s.length, &s.n, NULL),
        LUO_OK);
    s.pool = big ? POOL_32B(s.arena, 2, 16, 1) : POOL_7B(s.arena, 8, 4, 1);
    s.rivals = (luo_length_rivals){
        .devices = 32,
        .ctx = CTX,
        .step = {.published = true, .kicks = 0, .current = -1, .unrefined = true}};
    s.rivals.alike = s.rivals.uniform = entry_of(&s.pool, big ? 16 : 4, 1);
    return s;
}

static double policy_ms(scene *s, int policy)
{
    double ms;
    s->rivals.pool = &s->pool;
    s->rivals.candidates = &s->none;
    ck_assert_int_eq(luo_length_policy_step(s->arena, &s->rivals, (luo_length_policy)policy, -1,
                                            s->length, s->n, &ms, NULL, NULL),
                     LUO_OK);
    return ms;
}

typedef struct shape {
    int32_t copies, tp, pp;
} shape;

static luo_replicas plan_of(scene *s, const shape *shapes)
{
    luo_replicas plan = {0, LUO_NEW_N(s->arena, luo_replica, 64)};
    for (; shapes->copies > 0; shapes++)
        for (int32_t k = 0; k < shapes->copies; k++)
            plan.replica[plan.n++] = (luo_replica){entry_of(&s->pool, shapes->tp, shapes->pp), 1};
    return plan;
}

static luo_status plan_ms(scene *s, const shape *shapes, double *ms)
{
    const luo_replicas plan = plan_of(s, shapes);
    luo_step_plan out;
    const luo_status st =
        luo_step_choose(s->arena, &s->pool, &plan, 1, s->length, s->n, &s->rivals.step, &out, NULL);
    if (st == LUO_OK) *ms = out.event;
    return st;
}

/* ---- steps of 100,000 tokens on 32 devices ---- */

static const struct {
    const char *preset;
    uint64_t seed;
    bool big;
    double padding, arrival, packed, alike;
    struct {
        shape shapes[3];
        double ms; /* 0: a sequence fits nowhere */
    } plan[3];
} steps[] = {
    {"syn-web",
     1,
     true,
     209233.45,
     7239.76,
     7696.17,
     5694.80,
     {{{{1, 16, 1}, {4, 4, 1}}, 4362.23},
      {{{1, 8, 1}, {3, 4, 2}}, 4274.76},
      {{{1, 16, 1}, {2, 8, 1}}, 4717.39}}},
    {"syn-web",
     1,
     false,
     33151.58,
     1299.68,
     2483.46,
     969.30,
     {{{{1, 8, 1}, {6, 4, 1}}, 855.80}, {{{2, 4, 1}, {12, 1, 2}}, 1213.97}, {{{0}}, -1}}},
    {"syn-code",
     3,
     true,
     79707.98,
     7580.95,
     8161.22,
     6080.14,
     {{{{1, 16, 1}, {4, 4, 1}}, 6894.55},
      {{{1, 8, 1}, {3, 4, 2}}, 0},
      {{{1, 16, 1}, {2, 8, 1}}, 5048.84}}},
};

START_TEST(step_row)
{
    scene s = make(steps[_i].preset, steps[_i].seed, 100000, steps[_i].big);
    s.rivals.assign = LUO_ASSIGN_ARRIVAL;
    const double padding = policy_ms(&s, PADDING), arrival = policy_ms(&s, DYNAMIC);
    const double packed = policy_ms(&s, STATIC), alike = policy_ms(&s, UNIFORM);
    printf("%s %s: padding %.2f arrival %.2f static %.2f alike %.2f", steps[_i].preset,
           steps[_i].big ? "32B" : "7B", padding, arrival, packed, alike);
    ck_assert_double_eq_tol(padding, steps[_i].padding, 1e-3 * padding);
    ck_assert_double_eq_tol(arrival, steps[_i].arrival, 1e-3 * arrival);
    ck_assert_double_eq_tol(packed, steps[_i].packed, 0.02 * packed);
    ck_assert_double_le(alike, 1.02 * steps[_i].alike);
    ck_assert(padding > arrival && arrival > alike);
    for (int k = 0; k < 3 && steps[_i].plan[k].ms >= 0; k++) {
        double ms = 0;
        ck_assert_int_eq(plan_ms(&s, steps[_i].plan[k].shapes, &ms),
                         steps[_i].plan[k].ms > 0 ? LUO_OK : LUO_EINFEASIBLE);
        printf(", %.2f", ms);
        ck_assert_double_le(ms, 1.02 * steps[_i].plan[k].ms);
    }
    printf("\n");
    luo_arena_free(s.arena);
}
END_TEST

/* The published "split" cuts the sorted batch: one replica gets all long sequences. */
START_TEST(sorted_is_unfair)
{
    scene s = make("syn-web", 1, 100000, true);
    s.rivals.assign = LUO_ASSIGN_SORTED;
    const double sorted = policy_ms(&s, DYNAMIC);
    s.rivals.assign = LUO_ASSIGN_BALANCED;
    const double balanced = policy_ms(&s, DYNAMIC);
    printf("sorted %.2f, balanced %.2f\n", sorted, balanced);
    ck_assert_double_gt(sorted, 7239.76);
    ck_assert_double_lt(balanced, 7239.76);
    luo_arena_free(s.arena);
}
END_TEST

/* ---- HotSPa ---- */

static const luo_pool_entry three[] = {ENTRY(1, 1, 4e-6, .08, 2, 2048, 0),
                                       ENTRY(2, 1, 2e-6, .045, 3, 4096, 0),
                                       ENTRY(4, 1, 1e-6, .026, 5, 8192, 0)};
static const struct {
    int32_t devices;
    double switch_ms, ms;
} hots[] = {{8, 0, 900}, {8, 30, 960}, {8, 200, 1142}, {16, 0, 471}, {16, 30, 501}, {16, 200, 576}};

START_TEST(buckets_row)
{
    luo_arena *a = luo_arena_new(0);
    luo_pool pool = {3, LUO_NEW_N(a, luo_pool_entry, 3)};
    int64_t end[] = {2048, 4096, 8192}, length[] = {1000, 3000, 7000};
    double count[] = {40, 6, 2}, ms;
    const luo_propose_grid grid = {3, end};
    const luo_histogram h = {3, length, count, 0};
    luo_length_bucket *bucket;
    int32_t n;
    memcpy(pool.entry, three, sizeof three);
    ck_assert_int_eq(luo_length_buckets(a, &pool, hots[_i].devices, &h, &grid, hots[_i].switch_ms,
                                        &bucket, &n, &ms, NULL),
                     LUO_OK);
    ck_assert_double_eq_tol(ms, hots[_i].ms, 0.5);
    ck_assert_int_eq(bucket[0].high, 8192);
    ck_assert_int_eq(bucket[n - 1].low, 0);
    for (int32_t k = 1; k < n; k++) ck_assert_int_eq(bucket[k].high, bucket[k - 1].low);
    luo_arena_free(a);
}
END_TEST

/* A device that is left over idles: seven devices have the buckets of six where nobody takes one
 * alone, and too few for the longest bucket are told so. */
START_TEST(buckets_leave_devices_idle)
{
    luo_arena *a = luo_arena_new(0);
    luo_pool pool = {3, LUO_NEW_N(a, luo_pool_entry, 3)};
    int64_t end[] = {2048, 4096, 8192}, length[] = {1000, 3000, 7000};
    double count[] = {40, 6, 2}, six, seven;
    const luo_propose_grid grid = {3, end};
    const luo_histogram h = {3, length, count, 0};
    luo_length_bucket *bucket;
    luo_err err = {0};
    int32_t n;
    memcpy(pool.entry, three, sizeof three);
    for (int k = 0; k < 3; k++) pool.entry[k].tp = 2, pool.entry[k].pp = 1, pool.entry[k].cp = 1;
    ck_assert_int_eq(luo_length_buckets(a, &pool, 6, &h, &grid, 0, &bucket, &n, &six, &err),
                     LUO_OK);
    ck_assert_int_eq(luo_length_buckets(a, &pool, 7, &h, &grid, 0, &bucket, &n, &seven, &err),
                     LUO_OK);
    ck_assert_double_eq(six, seven);
    ck_assert_int_eq(luo_length_buckets(a, &pool, 1, &h, &grid, 0, &bucket, &n, &seven, &err),
                     LUO_EINFEASIBLE);
    luo_arena_free(a);
}
END_TEST

START_TEST(hotspa_steps)
{
    scene s = make("syn-web", 1, 100000, true);
    const luo_length_bucket published[] = {{16384, CTX, entry_of(&s.pool, 16, 1)},
                                           {4096, 16384, entry_of(&s.pool, 8, 2)},
                                           {0, 4096, entry_of(&s.pool, 4, 2)}};
    const luo_length_bucket two[] = {{16384, CTX, entry_of(&s.pool, 16, 1)},
                                     {0, 16384, entry_of(&s.pool, 8, 2)}};
    s.rivals.bucket = published;
    s.rivals.nbuckets = 3;
    const double first = policy_ms(&s, HOTSPA);
    s.rivals.switch_ms = 100; /* the longest bucket is empty: one change */
    ck_assert_double_eq_tol(policy_ms(&s, HOTSPA), first + 100, 1e-6);
    s.rivals.switch_ms = 0;
    s.rivals.bucket = two;
    s.rivals.nbuckets = 2;
    const double second = policy_ms(&s, HOTSPA);
    printf("three buckets %.2f, two %.2f\n", first, second);
    ck_assert_double_le(second, 1.02 * 5139.98);
    luo_arena_free(s.arena);
}
END_TEST

/* Parts of a step: buckets without a sequence have none, one with a single sequence has its own,
 * and every sequence is in one of them, by its number in the batch. */
START_TEST(hotspa_parts)
{
    static const int64_t lengths[] = {9000, 30000, 100, 8500, 200};
    enum { N = LUO_ROWS(lengths) };
    static const int wanted[] = {1, 2, 2};
    scene s = make("syn-web", 1, 100000, true);
    int32_t devices[32], met[N] = {0};
    const luo_model model = {.layers = 60, .hidden = 6656, .heads = 52, .vocab = 30592};
    for (int32_t i = 0; i < 32; i++) devices[i] = i;
    const luo_cluster cluster = {.name = "c"};
    const luo_optimizer_layout layout = {2, 16, 1};
    const luo_step_place place = {.model = &model,
                                  .cluster = &cluster,
                                  .ndevices = 32,
                                  .devices = devices,
                                  .ctx = CTX,
                                  .layout = &layout};
    const luo_length_bucket buckets[] = {{16384, CTX, entry_of(&s.pool, 16, 1)},
                                         {12000, 16384, entry_of(&s.pool, 16, 1)},
                                         {4096, 12000, entry_of(&s.pool, 8, 2)},
                                         {0, 4096, entry_of(&s.pool, 4, 2)}};
    luo_length_plans plans;
    luo_err err = {0};
    s.rivals.pool = &s.pool;
    s.rivals.candidates = &s.none;
    s.rivals.bucket = buckets;
    s.rivals.nbuckets = LUO_ROWS(buckets);
    ck_assert_msg(luo_length_plan(s.arena, &s.rivals, &place, LUO_LENGTH_POLICY_HOTSPA, -1, lengths,
                                  N, &plans, &err) == LUO_OK,
                  "%s", err.text);
    ck_assert_int_eq(plans.n, LUO_ROWS(wanted));
    for (int32_t k = 0; k < plans.n; k++) {
        const luo_plan *plan = plans.part[k].plan;
        ck_assert_int_eq(plan->nassignment, wanted[k]);
        for (int32_t i = 0; i < plan->nassignment; i++) met[plan->assignment[i].sequence]++;
    }
    for (int32_t i = 0; i < N; i++) ck_assert_int_eq(met[i], 1);
    luo_arena_free(s.arena);
}
END_TEST

/* ---- 1,024 devices, the published plan ---- */

START_TEST(many_devices)
{
    scene s = make("syn-web", 1, 1600000, true);
    s.pool = POOL_32B(s.arena, 64, 16, 1);
    luo_replica replica[244];
    int32_t m = 0, *assign = LUO_NEW_N(s.arena, int32_t, s.n);
    static const shape shapes[] = {{1, 16, 1}, {3, 8, 1}, {2, 4, 4}, {238, 4, 1}};
    for (int k = 0; k < 4; k++)
        for (int32_t c = 0; c < shapes[k].copies; c++)
            replica[m++] = (luo_replica){entry_of(&s.pool, shapes[k].tp, shapes[k].pp), 1};
    int64_t longest = 0;
    for (int32_t i = 0; i < s.n; i++) longest = s.length[i] > longest ? s.length[i] : longest;
    ck_assert_int_eq(s.n, 1134);
    ck_assert_int_le(llabs(longest - 26886), 1);
    luo_dispatch_opts opts = {.published = true, .fast = true};
    double fast, best;
    ck_assert_int_eq(
        luo_dispatch(s.arena, &s.pool, replica, m, s.length, s.n, &opts, assign, &fast, NULL),
        LUO_OK);
    opts = (luo_dispatch_opts){.published = true, .kicks = 0};
    ck_assert_int_eq(
        luo_dispatch(s.arena, &s.pool, replica, m, s.length, s.n, &opts, assign, &best, NULL),
        LUO_OK);
    const luo_step_floor floor_ms = luo_step_floor_of(&s.pool, 1024, NULL, s.length, s.n);
    printf("longest first %.2f, with search %.2f, floor %.2f, balanced %.2f\n", fast, best,
           floor_ms.floor_ms, floor_ms.balanced_ms);
    ck_assert_double_eq_tol(fast, 8000.68, 8);
    ck_assert_double_le(best, 7350);
    ck_assert_double_eq_tol(floor_ms.floor_ms, 3750.03, 4);
    ck_assert_double_eq_tol(floor_ms.balanced_ms, 1499.34, 2);
    double rate[1024]; /* a quarter of them twice as fast, and one twice as slow */
    for (int i = 0; i < 1024; i++) rate[i] = i < 256 ? 0.5 : i == 1023 ? 2 : 1;
    const luo_step_floor mixed = luo_step_floor_of(&s.pool, 1024, rate, s.length, s.n);
    ck_assert_double_eq_tol(mixed.floor_ms, floor_ms.floor_ms / 2, 1e-9);
    ck_assert_double_eq_tol(mixed.balanced_ms, floor_ms.balanced_ms * 1024 / (2 * 256 + 767 + 0.5),
                            1e-9);
    luo_arena_free(s.arena);
}
END_TEST

/* ---- faults of the published planner ---- */

/* It took the plan with the fewest replicas, whatever it cost. */
START_TEST(choice_is_by_cost)
{
    scene s = make("syn-web", 1, 100000, true);
    const shape alike[] = {{2, 16, 1}, {0}}, mixed[] = {{1, 16, 1}, {4, 4, 1}, {0}};
    const luo_replicas plans[] = {plan_of(&s, alike), plan_of(&s, mixed)};
    luo_step_plan out;
    ck_assert_int_eq(
        luo_step_choose(s.arena, &s.pool, plans, 2, s.length, s.n, &s.rivals.step, &out, NULL),
        LUO_OK);
    ck_assert_int_eq(out.plan, 1);
    ck_assert_int_ge(out.solved, 1);
    /* What a plan costs beside its replicas counts, and of equal plans the running one stays. */
    const double dear[] = {0, 5000};
    s.rivals.step.extra_ms = dear;
    ck_assert_int_eq(
        luo_step_choose(s.arena, &s.pool, plans, 2, s.length, s.n, &s.rivals.step, &out, NULL),
        LUO_OK);
    ck_assert_int_eq(out.plan, 0);
    const luo_replicas twice[] = {plans[1], plans[1]};
    s.rivals.step.extra_ms = NULL;
    for (int32_t current = -1; current < 2; current++) {
        s.rivals.step.current = current;
        ck_assert_int_eq(
            luo_step_choose(s.arena, &s.pool, twice, 2, s.length, s.n, &s.rivals.step, &out, NULL),
            LUO_OK);
        ck_assert_int_eq(out.plan, current == 1 ? 1 : 0);
    }
    luo_arena_free(s.arena);
}
END_TEST

START_TEST(step_conserves)
{
    scene s = make("syn-code", 9, 200000, true);
    const shape mixed[] = {{1, 16, 1}, {2, 8, 1}, {0}};
    const luo_replicas plan = plan_of(&s, mixed);
    luo_step_plan out;
    s.rivals.step = (luo_step_opts){.kicks = -1, .current = -1};
    ck_assert_int_eq(
        luo_step_choose(s.arena, &s.pool, &plan, 1, s.length, s.n, &s.rivals.step, &out, NULL),
        LUO_OK);
    int64_t tokens = 0, packed = 0;
    for (int32_t i = 0; i < s.n; i++) {
        tokens += s.length[i];
        ck_assert(out.assign[i] >= 0 && out.assign[i] < plan.n);
        ck_assert(out.bin[i] >= 0 && out.bin[i] < out.packed[out.assign[i]].nbins);
    }
    for (int32_t r = 0; r < plan.n; r++)
        for (int32_t u = 0; u < out.packed[r].nbins; u++) {
            packed += out.packed[r].tokens[u];
            ck_assert_int_le(out.packed[r].tokens[u], s.pool.entry[plan.replica[r].entry].cap);
        }
    ck_assert_int_eq(packed, tokens);
    ck_assert_double_le(out.event, out.sum + 1e-6);
    ck_assert_double_le(out.sum, out.max + 1e-6);
    ck_assert_double_le(out.bound, out.event + 1e-6);
    luo_arena_free(s.arena);
}
END_TEST

START_TEST(names)
{
    luo_length_policy p;
    for (int k = 0; k < LUO_LENGTH_POLICIES; k++) {
        ck_assert(luo_length_policy_find(luo_length_policy_name((luo_length_policy)k), &p));
        ck_assert_int_eq(p, k);
    }
    ck_assert(!luo_length_policy_find("hotspot", &p));
}
END_TEST

LUO_SUITE("length_policy", LUO_T_N(step_row, LUO_ROWS(steps)), LUO_T(sorted_is_unfair),
          LUO_T_N(buckets_row, LUO_ROWS(hots)), LUO_T(buckets_leave_devices_idle),
          LUO_T(hotspa_parts), LUO_T(hotspa_steps), LUO_T(many_devices), LUO_T(choice_is_by_cost),
          LUO_T(step_conserves), LUO_T(names))
