/* check_gmp.c: partition of samples and embeddings: vectors GS1 and GP1. */
#include <math.h>

#include "core/sync/embed/gmp.h"
#include "tests/check_main.h"

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(1, fabs(b));
}

START_TEST(GS1)
{
    static const double soft[] = {0, .827636719, 1.3671875, 1.694824219, 1.875};
    for (int k = 0; k < 5; k++) ck_assert(near(luo_gmp_soft(8, 4, k), soft[k]));
    ck_assert(luo_gmp_soft(8, 4, 8) == 2 && luo_gmp_soft(8, 4, 9) == 2);
}
END_TEST

static const int64_t first[] = {0, 2, 4, 6, 8, 10, 12, 14, 16};
static const int32_t embed[] = {0, 2, 0, 2, 1, 3, 1, 3, 0, 3, 1, 2, 0, 2, 1, 3};
static const luo_bigraph graph = {8, 4, first, embed};
static const double unit[] = {0, 1, 1, 0};
static const luo_gmp_opts opts = {
    .parts = 2, .rounds = 1, .batch = 2, .balance = 1, .load_weight = 0.01, .cm = unit};

static void check_parts(const int32_t *parts, const int32_t *homes)
{
    static const int32_t want[] = {0, 0, 1, 1, 0, 1, 0, 1}, want_homes[] = {0, 1, 0, 1};
    for (int i = 0; i < 8; i++) ck_assert_int_eq(parts[i], want[i]);
    for (int e = 0; e < 4; e++) ck_assert_int_eq(homes[e], want_homes[e]);
}

START_TEST(GP1)
{
    luo_arena *arena = luo_arena_new(0);
    luo_gmp gmp;
    double traffic[4];
    ck_assert_int_eq(luo_gmp_make(arena, &graph, &opts, &gmp, NULL), LUO_OK);
    ck_assert(near(luo_gmp_cost(&gmp), 4.75));
    luo_gmp_refine_samples(&gmp);
    luo_gmp_refine_embeddings(&gmp);
    check_parts(gmp.sample_part, gmp.embed_home);
    ck_assert(near(luo_gmp_cost(&gmp), 1.75));
    luo_gmp_traffic(&gmp, traffic);
    ck_assert(near(traffic[0], 1.9375) && near(traffic[1], .4375));
    ck_assert(near(traffic[2], .4375) && near(traffic[3], 1.9375));
    ck_assert_int_eq(luo_gmp_refine_samples(&gmp), 0);
    ck_assert_int_eq(luo_gmp_refine_embeddings(&gmp), 0);
    ck_assert_int_eq(luo_gmp_refine(&gmp), 1);
    luo_arena_free(arena);
}
END_TEST

START_TEST(in_one_call)
{
    int32_t parts[8], homes[4];
    ck_assert_int_eq(luo_gmp_partition(&graph, &opts, parts, homes, NULL), LUO_OK);
    check_parts(parts, homes);
}
END_TEST

/* After GP1: part 0 reads embedding 3 (of sample 4) from elsewhere, part 1 embedding 2 (sample 5).
 * Both take batches of two of their four samples, so that an epoch has two iterations: in one of
 * them each of the parts reads and updates what is elsewhere. */
START_TEST(training)
{
    luo_arena *arena = luo_arena_new(0);
    luo_gmp gmp;
    luo_gmp_moved moved;
    int32_t *kept, n;
    luo_gmp_make(arena, &graph, &opts, &gmp, NULL);
    luo_gmp_refine(&gmp);
    ck_assert_int_eq(luo_gmp_train(&gmp, 0, 0, 0, 0, 1, &moved, NULL), LUO_OK);
    ck_assert_int_eq(moved.iterations, 2);
    ck_assert_int_eq(moved.pulls, 2);
    ck_assert_int_eq(moved.pushes, 2);
    ck_assert_int_eq(moved.remote, 2);
    /* A quarter of four embeddings: each part has a replica of the one that it misses. */
    luo_gmp_replicas(arena, &gmp, 0, 0.25, &kept, &n, NULL);
    ck_assert(n == 1 && kept[0] == 3);
    luo_gmp_replicas(arena, &gmp, 1, 0.9, &kept, &n, NULL);
    ck_assert(n == 1 && kept[0] == 2);
    luo_gmp_replicas(arena, &gmp, 1, 0.2, &kept, &n, NULL);
    ck_assert_int_eq(n, 0);
    ck_assert_int_eq(luo_gmp_train(&gmp, 0.25, 100, 1, 8, 1, &moved, NULL), LUO_OK);
    ck_assert_int_eq(moved.remote, 8);
    ck_assert_int_eq(moved.pulls, 2); /* once each; none is ever 100 behind */
    ck_assert_int_eq(moved.by_replica, 6);
    ck_assert_int_eq(moved.pushes, 4); /* two updates at a time */
    luo_arena_free(arena);
}
END_TEST

/* Shares of 100 embeddings, half of which are kept elsewhere, as their decimals say. */
START_TEST(decimal_shares)
{
    static const double share[] = {.07, .14, .28, .29, .291, .2899};
    static const int32_t want[] = {7, 14, 28, 29, 29, 28};
    luo_arena *arena = luo_arena_new(0);
    static int32_t all[101];
    static const int64_t begin[] = {0, 100, 101};
    for (int32_t e = 0; e < 100; e++) all[e] = e;
    const luo_bigraph two = {.samples = 2, .embeds = 100, .first = begin, .embed = all};
    const luo_gmp_opts o = {.parts = 2, .batch = 1, .cm = luo_gmp_costs(arena, 2, 2, 1, 1)};
    luo_gmp gmp;
    ck_assert_int_eq(luo_gmp_make(arena, &two, &o, &gmp, NULL), LUO_OK);
    for (int i = 0; i < 6; i++) {
        int32_t *kept, n;
        ck_assert_int_eq(luo_gmp_replicas(arena, &gmp, 0, share[i], &kept, &n, NULL), LUO_OK);
        ck_assert_int_eq(n, want[i]);
    }
    luo_arena_free(arena);
}
END_TEST

START_TEST(costs)
{
    static const double want[] = {0, .1, 1, .1, 0, 1, 1, 1, 0};
    luo_arena *arena = luo_arena_new(0);
    const double *cm = luo_gmp_costs(arena, 3, 2, .1, 1);
    for (int i = 0; i < 9; i++) ck_assert(cm[i] == want[i]);
    luo_arena_free(arena);
}
END_TEST

static const int64_t first_bad[] = {0, 2};
static const int32_t twice[] = {1, 1}, none[] = {0, 2}, fine[] = {0, 1};
static const struct {
    luo_bigraph graph;
    int32_t parts;
    luo_status st;
    const char *says;
} bad[] = {
    {{1, 2, first_bad, fine}, 2, LUO_EINPUT, "2 parts for 1 sample; at most one part per sample."},
    {{8, 4, first, embed}, 9, LUO_EINPUT, "9 parts for 8 samples; at most one part per sample."},
    {{1, 2, first_bad, twice}, 1, LUO_EINPUT, "sample 0 uses embedding 1 twice; once is expected."},
    {{1, 2, first_bad, none}, 1, LUO_EINPUT, "sample 0 uses embedding 2; embeddings are 0 to 1."},
    {{0, 2, first_bad, fine}, 1, LUO_EINPUT, "there is no sample; one or more are expected."},
    {{8, 4, first, embed}, 0, LUO_EBUG, "0 parts, batches of 2 and 1 rounds are asked for."},
};

START_TEST(errors)
{
    luo_arena *arena = luo_arena_new(0);
    luo_gmp_opts o = opts;
    luo_gmp gmp = {.nsoft = 77};
    luo_err err = {0};
    o.parts = bad[_i].parts;
    ck_assert_int_eq(luo_gmp_make(arena, &bad[_i].graph, &o, &gmp, &err), bad[_i].st);
    ck_assert_str_eq(err.text, bad[_i].says);
    ck_assert_int_eq(gmp.nsoft, 77);
    luo_arena_free(arena);
}
END_TEST

LUO_SUITE("gmp", LUO_T(GS1), LUO_T(GP1), LUO_T(in_one_call), LUO_T(training), LUO_T(decimal_shares),
          LUO_T(costs), LUO_T_N(errors, LUO_ROWS(bad)))
