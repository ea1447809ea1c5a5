/* check_moe.c: gates, exchanges and loads against hand-made vectors; their names are those of the
 * specification. */
#include <math.h>

#include "core/base/rng.h"
#include "core/graph/moe/load.h"
#include "tests/check_main.h"
#include "tests/parked/alltoall_move.h"
#include "tests/parked/gate_route.h"

static const double logits[24] = {2, 1, 0, 0, 2, 0, 1, 0, 2, 1, 0, -1,
                                  0, 2, 1, 0, 2, 0, 0, 1, 0, 0, 2, 1};

static const struct gate_row {
    const char *id;
    luo_gate gate;
    int64_t capacity;
    int32_t expert[12];
    int64_t location[12]; /* -1: not looked at */
    double loss;
} gate_rows[] = {
    {"MG1",
     {.kind = LUO_GATE_TOPK, .experts = 4, .k = 1, .capacity_factor = 1},
     2,
     {0, 0, 0, 1, 0, 2},
     {0, 1, 2, 0, 3, 0},
     1.465678},
    {"MG2",
     {.kind = LUO_GATE_TOPK, .experts = 4, .k = 2, .capacity_factor = 1},
     4,
     {0, 1, 0, 2, 0, 1, 1, 2, 0, 3, 2, 3},
     {0, 1, 1, 1, 2, 2, 0, 2, 3, 0, 0, 1},
     2.212346411},
    {"MG3 k 1",
     {.kind = LUO_GATE_SAM, .experts = 4, .k = 1, .groups = 2},
     0,
     {0, 0, 0, 1, 0, 2},
     {-1},
     0},
    {"MG3 k 2",
     {.kind = LUO_GATE_SAM, .experts = 4, .k = 2, .groups = 2},
     0,
     {0, 1, 0, 1, 0, 1, 1, 0, 0, 1, 2, 3},
     {-1},
     .425762},
};

START_TEST(choices)
{
    const struct gate_row *r = &gate_rows[_i];
    luo_arena *arena = luo_arena_new(0);
    luo_gate_routes got;
    ck_assert_int_eq(luo_gate_route(arena, &r->gate, 6, logits, NULL, &got, NULL), LUO_OK);
    ck_assert_int_eq(got.capacity, r->capacity);
    for (int32_t i = 0; i < 6 * r->gate.k; i++) {
        ck_assert_msg(got.expert[i] == r->expert[i], "%s, choice %d", r->id, i);
        if (r->location[0] >= 0)
            ck_assert_msg(got.location[i] == r->location[i], "%s, choice %d", r->id, i);
    }
    ck_assert_msg(fabs(got.loss - r->loss) < 1e-6, "%s: %.9f", r->id, got.loss);
    luo_arena_free(arena);
}
END_TEST

/* MG1: tokens 2 and 4 are dropped. */
START_TEST(drops)
{
    luo_arena *arena = luo_arena_new(0);
    luo_gate_routes got;
    int64_t counts[4];
    ck_assert_int_eq(luo_gate_route(arena, &gate_rows[0].gate, 6, logits, NULL, &got, NULL),
                     LUO_OK);
    for (int64_t t = 0; t < 6; t++) ck_assert_int_eq(luo_gate_drops(&got, t), t == 2 || t == 4);
    luo_gate_counts(&got, 4, counts);
    ck_assert(counts[0] == 2 && counts[1] == 1 && counts[2] == 1 && counts[3] == 0);
    luo_arena_free(arena);
}
END_TEST

/* MB1 */
START_TEST(balanced)
{
    static const double scores[18] = {3, 1, 2, 3, 2, 1, 3, 0, 2, 1, 3, 0, 0, 2, 3, 2, 2, 2};
    static const int32_t want[6] = {0, 0, 2, 1, 2, 1};
    luo_arena *arena = luo_arena_new(0);
    int32_t expert[6], rounds;
    double total = 0;
    ck_assert_int_eq(luo_gate_balance(arena, 6, 3, scores, expert, &rounds, NULL), LUO_OK);
    for (int t = 0; t < 6; t++) {
        ck_assert_int_eq(expert[t], want[t]);
        total += scores[t * 3 + expert[t]];
    }
    ck_assert(total == 16 && rounds == 2);
    luo_arena_free(arena);
}
END_TEST

/* Best sum of scores over all ways of dealing tokens at and on, with so much room left. */
static double best_of(const double *scores, int tokens, int experts, int at, int *room)
{
    double best = at == tokens ? 0 : -INFINITY;
    for (int e = 0; e < experts && at < tokens; e++) {
        if (room[e] == 0) continue;
        room[e]--;
        best =
            fmax(best, scores[at * experts + e] + best_of(scores, tokens, experts, at + 1, room));
        room[e]++;
    }
    return best;
}

/* Against every way of dealing; every third number of tokens fits the experts. */
START_TEST(dealt)
{
    luo_rng rng = luo_rng_seed((uint64_t)_i);
    luo_arena *arena = luo_arena_new(0);
    const int tokens = (int)luo_rng_pick(&rng, 8), experts = 1 + (int)luo_rng_pick(&rng, 3);
    const int each = (tokens + experts - 1) / experts;
    int room[3] = {each, each, each}, used[3] = {0};
    double scores[24], least = INFINITY, most = -INFINITY, sum = 0;
    int32_t expert[8];
    for (int i = 0; i < tokens * experts; i++) {
        scores[i] = luo_rng_normal(&rng);
        least = fmin(least, scores[i]);
        most = fmax(most, scores[i]);
    }
    ck_assert_int_eq(luo_gate_deal(arena, tokens, experts, scores, expert, NULL), LUO_OK);
    for (int t = 0; t < tokens; t++) {
        ck_assert(expert[t] >= 0 && expert[t] < experts && used[expert[t]]++ < each);
        sum += scores[t * experts + expert[t]];
    }
    const double best = best_of(scores, tokens, experts, 0, room);
    const double step = tokens ? fmax((most - least) / 50, 1e-4) : 0;
    ck_assert_msg(sum <= best + 1e-12 && sum >= best - each * experts * step - 1e-12,
                  "%d tokens, %d experts: %g, best %g", tokens, experts, sum, best);
    luo_arena_free(arena);
}
END_TEST

/* Scores that are no numbers end the auction before it begins. */
START_TEST(dealt_in_turn)
{
    static const double scores[6] = {1, NAN, 2, 0, 3, INFINITY};
    luo_arena *arena = luo_arena_new(0);
    int32_t expert[3];
    ck_assert_int_eq(luo_gate_deal(arena, 3, 2, scores, expert, NULL), LUO_OK);
    for (int t = 0; t < 3; t++) ck_assert_int_eq(expert[t], t % 2);
    luo_arena_free(arena);
}
END_TEST

/* MH1, RN1 */
START_TEST(hash)
{
    static const int32_t want[10] = {7, 1, 6, 5, 2, 2, 0, 7, 6, 4};
    static const double u[3] = {.6935121390102292, .42321144819582723, .8323609501268625};
    const luo_gate gate = {.kind = LUO_GATE_HASH, .experts = 8, .k = 1};
    luo_arena *arena = luo_arena_new(0);
    int32_t ids[10];
    luo_gate_routes got;
    for (int32_t i = 0; i < 10; i++) ids[i] = i;
    ck_assert_int_eq(luo_gate_route(arena, &gate, 10, NULL, ids, &got, NULL), LUO_OK);
    for (int32_t i = 0; i < 10; i++) ck_assert_int_eq(got.expert[i], want[i]);
    for (uint64_t i = 0; i < 3; i++) {
        const uint64_t key = luo_rng_at(luo_rng_at(1, 0) + i / 2, 0) + i % 2;
        ck_assert((double)(luo_rng_at(key, 0) >> 11) * 0x1p-53 == u[i]);
    }
    luo_arena_free(arena);
}
END_TEST

/* V-M3, and route groups: the second group's two best lose to the first's. */
START_TEST(sigmoid)
{
    static const double l[4] = {2, 1, 0, -1}, b[4] = {0, 0, .3, 0};
    const luo_gate gate = {.kind = LUO_GATE_SIGMOID, .experts = 4, .k = 2, .scale = 2.5, .bias = b};
    luo_gate grouped = gate;
    luo_arena *arena = luo_arena_new(0);
    luo_gate_routes got;
    ck_assert_int_eq(luo_gate_route(arena, &gate, 1, l, NULL, &got, NULL), LUO_OK);
    ck_assert(got.expert[0] == 0 || got.expert[0] == 2);
    for (int j = 0; j < 2; j++)
        ck_assert(fabs(got.weight[j] - (got.expert[j] ? .905274221633 : 1.594725778367)) < 1e-11);
    grouped.groups = 2;
    grouped.groups_kept = 1;
    ck_assert_int_eq(luo_gate_route(arena, &grouped, 1, l, NULL, &got, NULL), LUO_OK);
    ck_assert(got.expert[0] == 0 && got.expert[1] == 1);
    luo_arena_free(arena);
}
END_TEST

/* Kept are the route groups whose two best scores (or the only one) add up to most, wherever the
 * best expert is; ties go to the first. */
static const struct {
    int32_t experts, groups, kept, k;
    double logits[6];
    int32_t want[2];
} group_rows[] = {
    {6, 3, 1, 2, {0, 0, 1, 1, 3, -5}, {2, 3}}, /* .5 + .5, .73 + .73, .95 + .01 */
    {6, 3, 1, 2, {-1, -1, 0, 0, 2, 1.9}, {4, 5}},
    {6, 3, 1, 2, {2, 1.9, -3, -3, 0, 0}, {0, 1}},
    {6, 3, 2, 2, {0, 0, 1, 1, 3, -5}, {2, 3}}, /* the third group is the worst */
    {6, 3, 2, 2, {-4, 3, .5, .5, -5, -5}, {1, 2}},
    {6, 3, 2, 2, {-5, -5, .5, .5, -4, 3}, {5, 2}},
    {6, 2, 1, 2, {2, -9, -9, 1, 1, -9}, {3, 4}},
    {6, 2, 1, 2, {-9, 1, 1, 2, -9, -9}, {1, 2}},
    {6, 3, 1, 2, {1, 0, 1, 0, 0, 0}, {0, 1}},
    {3, 3, 1, 1, {0, 2, 1}, {1}},
    {3, 3, 2, 2, {0, 2, 1}, {1, 2}},
};

/* Of top-k by the best one. */
static const struct {
    int32_t experts, groups, kept, k;
    double logits[6];
    int32_t want[3];
} best_rows[] = {
    {6, 3, 1, 2, {3, -9, 2, 2, 1, 1}, {0, 1}}, /* two best would keep the second group */
    {6, 3, 2, 3, {0, 1, 3, -9, 2, 2}, {2, 4, 5}},
    {6, 3, 2, 2, {1, 1, 1, 1, 1, 1}, {0, 1}},
    {6, 2, 1, 2, {0, 0, 0, 0, 5, 4}, {4, 5}},
    {6, 3, 0, 2, {0, 1, 0, 1, 0, 2}, {5, 1}}, /* all are kept */
};

START_TEST(best_of_groups)
{
    luo_gate gate = {.kind = LUO_GATE_TOPK,
                     .experts = best_rows[_i].experts,
                     .k = best_rows[_i].k,
                     .groups = best_rows[_i].groups,
                     .groups_kept = best_rows[_i].kept,
                     .scale = 16};
    luo_arena *arena = luo_arena_new(0);
    double p[6], all = 0, sum = 0;
    for (int e = 0; e < 6; e++) all += p[e] = exp(best_rows[_i].logits[e]);
    for (int divided = 0; divided < 2; divided++, sum = 0) {
        luo_gate_routes got;
        gate.renorm = divided;
        ck_assert_int_eq(luo_gate_route(arena, &gate, 1, best_rows[_i].logits, NULL, &got, NULL),
                         LUO_OK);
        for (int j = 0; j < gate.k; j++) {
            ck_assert_int_eq(got.expert[j], best_rows[_i].want[j]);
            sum += p[got.expert[j]] / all;
        }
        for (int j = 0; j < gate.k; j++)
            ck_assert(fabs(got.weight[j] -
                           16 * p[got.expert[j]] / all / (divided ? sum : 1)) < 1e-13);
    }
    luo_arena_free(arena);
}
END_TEST

START_TEST(route_groups)
{
    const luo_gate gate = {.kind = LUO_GATE_SIGMOID,
                           .experts = group_rows[_i].experts,
                           .k = group_rows[_i].k,
                           .groups = group_rows[_i].groups,
                           .groups_kept = group_rows[_i].kept};
    luo_arena *arena = luo_arena_new(0);
    luo_gate_routes got;
    ck_assert_int_eq(luo_gate_route(arena, &gate, 1, group_rows[_i].logits, NULL, &got, NULL),
                     LUO_OK);
    for (int j = 0; j < group_rows[_i].k; j++)
        ck_assert_int_eq(got.expert[j], group_rows[_i].want[j]);
    luo_arena_free(arena);
}
END_TEST

START_TEST(ktop1)
{
    const luo_gate gate = {.kind = LUO_GATE_KTOP1, .experts = 4, .k = 2};
    static const int32_t want[12] = {0, 2, 0, 2, 0, 2, 1, 2, 0, 3, 0, 2};
    luo_arena *arena = luo_arena_new(0);
    luo_gate_routes got;
    ck_assert_int_eq(luo_gate_route(arena, &gate, 6, logits, NULL, &got, NULL), LUO_OK);
    for (int i = 0; i < 12; i++) ck_assert_int_eq(got.expert[i], want[i]);
    ck_assert(fabs(got.weight[0] - 1 / (1 + exp(-1))) < 1e-15);
    luo_arena_free(arena);
}
END_TEST

static const struct {
    luo_gate gate;
    int64_t tokens;
    const char *says;
} bad_gates[] = {
    {{.kind = LUO_GATE_TOPK, .experts = 2, .k = 3}, 1, "gate: k is 3 but there are 2 experts."},
    {{.kind = LUO_GATE_HASH, .experts = 2, .k = 2}, 1, "gate: k is 2; this gate gives 1."},
    {{.kind = LUO_GATE_SAM, .experts = 4, .k = 1, .groups = 3},
     1,
     "gate: 3 groups, 3 kept, do not fit 4 experts."},
    {{.kind = LUO_GATE_KTOP1, .experts = 4, .k = 3},
     1,
     "gate: 3 prototypes do not divide 4 experts."},
    {{.kind = LUO_GATE_SAM, .experts = 4, .k = 3, .groups = 2},
     1,
     "gate: k is 3 but 2 experts can be chosen."},
    {{.kind = LUO_GATE_BALANCED, .experts = 4, .k = 1},
     10,
     "base gate: 10 tokens cannot be dealt to 4 experts; a multiple is needed."},
    {{.kind = LUO_GATE_TOPK, .experts = 4, .k = 1}, 5, "gate: a logit of token 4 is not a number."},
};

START_TEST(bad_gate)
{
    luo_arena *arena = luo_arena_new(0);
    double l[40] = {0};
    luo_gate_routes got;
    luo_err err = {0};
    if (bad_gates[_i].tokens == 5) l[17] = NAN;
    ck_assert_int_eq(
        luo_gate_route(arena, &bad_gates[_i].gate, bad_gates[_i].tokens, l, NULL, &got, &err),
        LUO_EINPUT);
    ck_assert_str_eq(err.text, bad_gates[_i].says);
    luo_arena_free(arena);
}
END_TEST

/* Random tokens: every kept place of an expert once, balanced gives T / E each. */
START_TEST(places_once)
{
    static const luo_gate_kind kinds[] = {LUO_GATE_TOPK, LUO_GATE_KTOP1, LUO_GATE_SAM,
                                          LUO_GATE_BALANCED, LUO_GATE_SIGMOID};
    luo_rng rng = luo_rng_seed((uint64_t)_i);
    luo_arena *arena = luo_arena_new(0);
    luo_gate gate = {.kind = kinds[_i % 5], .experts = 8, .groups = 2, .groups_kept = 1};
    gate.k = gate.kind == LUO_GATE_BALANCED ? 1 : 1 << luo_rng_pick(&rng, 3);
    gate.capacity_factor = (double)luo_rng_pick(&rng, 3);
    double l[64 * 8];
    bool seen[8][128] = {{false}};
    luo_gate_routes got;
    int64_t counts[8], kept = 0, sum = 0;
    for (int i = 0; i < 64 * 8; i++) l[i] = luo_rng_normal(&rng);
    ck_assert_int_eq(luo_gate_route(arena, &gate, 64, l, NULL, &got, NULL), LUO_OK);
    luo_gate_counts(&got, 8, counts);
    for (int64_t i = 0; i < got.tokens * got.k; i++) {
        if (luo_gate_drops(&got, i)) continue;
        ck_assert(!seen[got.expert[i]][got.location[i]]);
        seen[got.expert[i]][got.location[i]] = true;
        kept++;
    }
    for (int e = 0; e < 8; e++) sum += counts[e];
    ck_assert_int_eq(sum, kept);
    for (int e = 0; e < 8 && gate.kind == LUO_GATE_BALANCED && gate.capacity_factor == 0; e++)
        ck_assert_int_eq(counts[e], 8);
    luo_arena_free(arena);
}
END_TEST

/* MA1: node 0's rows, by (source, destination), as its leader has them for the exchange. */
START_TEST(leader)
{
    static const int want[8][2] = {{0, 0}, {1, 0}, {0, 1}, {1, 1}, {0, 2}, {1, 2}, {0, 3}, {1, 3}};
    const luo_alltoall x = {2, 2, 1};
    for (int64_t i = 0; i < 8; i++) {
        const int64_t at = luo_alltoall_gathered(&x, i);
        ck_assert(want[at][0] == i / 4 && want[at][1] == i % 4);
    }
}
END_TEST

START_TEST(three_ways)
{
    luo_rng rng = luo_rng_seed((uint64_t)_i);
    const luo_alltoall x = {1 + (int32_t)luo_rng_pick(&rng, 4), 1 + (int32_t)luo_rng_pick(&rng, 4),
                            1 + luo_rng_pick(&rng, 3)};
    const int64_t n = (int64_t)x.nodes * x.each, rows = n * n * x.rows;
    int64_t *a = calloc((size_t)(5 * rows), sizeof *a);
    for (int64_t i = 0; i < rows; i++) a[i] = i;
    luo_alltoall_move(&x, LUO_ALLTOALL_FLAT, a, a + rows, a + 4 * rows);
    luo_alltoall_move(&x, LUO_ALLTOALL_LEADER, a, a + 2 * rows, a + 4 * rows);
    luo_alltoall_move(&x, LUO_ALLTOALL_2D, a, a + 3 * rows, a + 4 * rows);
    for (int64_t i = 0; i < rows; i++) {
        const int64_t to = i / (n * x.rows), from = i / x.rows % n;
        ck_assert_int_eq(a[rows + i], (from * n + to) * x.rows + i % x.rows);
        ck_assert_int_eq(a[2 * rows + i], a[rows + i]);
        ck_assert_int_eq(a[3 * rows + i], a[rows + i]);
    }
    free(a);
}
END_TEST

/* MA2 */
START_TEST(exchange_costs)
{
    const luo_alltoall_links links = {20e-6, 12.5e9, 5e-6, 10e9, 300e9, 1};
    const luo_alltoall x = {4, 8, 1}, y = {2, 4, 1}, one = {4, 1, 1};
    ck_assert(fabs(luo_alltoall_limit(&x, &links) - 2462389.38) < .01);
    ck_assert(fabs(luo_alltoall_limit(&y, &links) - 413265.306) < .001);
    ck_assert(luo_alltoall_limit(&one, &links) == 0);
    static const double want[] = {.00387145728, .000260198187, .0005530654933};
    for (int k = 0; k < 3; k++) {
        const double s = luo_alltoall_seconds(&x, (luo_alltoall_kind)k, &links, 65536);
        ck_assert_msg(fabs(s - want[k]) < 1e-12, "%d: %.13g", k, s);
    }
}
END_TEST

/* V-M4 */
START_TEST(loads)
{
    static const int64_t want[8] = {3014, 1507, 1005, 753, 603, 502, 431, 377};
    static const int64_t rows[4] = {1000, 24, 0, 3000};
    luo_arena *arena = luo_arena_new(0);
    const uint32_t *w;
    int64_t counts[8];
    ck_assert_int_eq(luo_load_zipf(arena, 8, 1, 0, &w, NULL), LUO_OK);
    ck_assert_int_eq(luo_load_counts(arena, w, 8, 4096, 2, counts, NULL), LUO_OK);
    for (int e = 0; e < 8; e++) ck_assert_int_eq(counts[e], want[e]);
    static const uint32_t share[3] = {1, 0, 3}; /* the first two experts, none, the others */
    double ratio;
    ck_assert_int_eq(luo_load_imbalance(arena, counts, 8, 4, NULL, &ratio, NULL), LUO_OK);
    ck_assert(fabs(ratio - 2.207520) < 1e-6);
    ck_assert_int_eq(luo_load_imbalance(arena, counts, 8, 3, share, &ratio, NULL), LUO_OK);
    ck_assert(fabs(ratio - (3014 + 1507) * 3 / 8192.0) < 1e-12);
    ck_assert_int_eq(luo_load_tiles(rows, 4, 2048, 128, 128), 528);
    luo_arena_free(arena);
}
END_TEST

/* Counts add up to T k and none is above T, whatever the exponent and the order. */
START_TEST(loads_add_up)
{
    luo_arena *arena = luo_arena_new(0);
    luo_rng rng = luo_rng_seed((uint64_t)_i);
    const int32_t experts = 1 + (int32_t)luo_rng_pick(&rng, 20);
    const int32_t k = 1 + (int32_t)luo_rng_pick(&rng, experts);
    const int64_t tokens = luo_rng_pick(&rng, 500);
    const uint32_t *w;
    int64_t counts[20], sum = 0;
    ck_assert_int_eq(
        luo_load_zipf(arena, experts, luo_rng_u(&rng) * 4, luo_rng_next(&rng), &w, NULL), LUO_OK);
    ck_assert_int_eq(luo_load_counts(arena, w, experts, tokens, k, counts, NULL), LUO_OK);
    for (int32_t e = 0; e < experts; e++) {
        ck_assert(counts[e] >= 0 && counts[e] <= tokens);
        sum += counts[e];
    }
    ck_assert_int_eq(sum, tokens * k);
    luo_arena_free(arena);
}
END_TEST

/* V-M1: two ranks of three tokens, top-2, two experts a rank. */
START_TEST(by_source)
{
    static const int64_t want[2][4] = {{3, 2, 1, 0}, {1, 1, 2, 2}};
    const luo_gate gate = {.kind = LUO_GATE_TOPK, .experts = 4, .k = 2};
    luo_gate tight = gate;
    luo_arena *arena = luo_arena_new(0);
    luo_gate_routes got;
    int64_t counts[4], leave[2] = {0}, received[2] = {0};
    double loss = 0;
    for (int r = 0; r < 2; r++) {
        ck_assert_int_eq(luo_gate_route(arena, &gate, 3, logits + 12 * r, NULL, &got, NULL),
                         LUO_OK);
        luo_gate_counts(&got, 4, counts);
        for (int e = 0; e < 4; e++) {
            ck_assert_int_eq(counts[e], want[r][e]);
            received[e / 2] += counts[e];
            if (e / 2 != r) leave[r] += counts[e] * 8 * 8;
        }
        loss += got.loss / 2;
    }
    ck_assert(received[0] == 7 && received[1] == 5);
    ck_assert(leave[0] == 64 && leave[1] == 128);
    ck_assert(fabs(loss - 2.561063699) < 1e-9);
    tight.capacity_factor = 1;
    ck_assert_int_eq(luo_gate_route(arena, &tight, 3, logits, NULL, &got, NULL), LUO_OK);
    ck_assert_int_eq(got.capacity, 2);
    for (int i = 0; i < 6; i++) ck_assert_int_eq(luo_gate_drops(&got, i), i == 4);
    luo_arena_free(arena);
}
END_TEST

/* Sums that are rounded otherwise, as where a model is cut otherwise, change no choice, be some
 * tokens alike. */
START_TEST(rounding_deals_alike)
{
    for (uint64_t seed = 1; seed <= 300; seed++) {
        luo_arena *a = luo_arena_new(1 << 14);
        luo_rng rng = luo_rng_seed(seed);
        const int32_t experts = 2 + (int32_t)luo_rng_pick(&rng, 6);
        const int64_t tokens = 1 + luo_rng_pick(&rng, 40);
        double *scores = LUO_NEW_N(a, double, tokens *experts);
        double *other = LUO_NEW_N(a, double, tokens *experts);
        int32_t *expert[2] = {LUO_NEW_N(a, int32_t, tokens), LUO_NEW_N(a, int32_t, tokens)};
        for (int64_t i = 0, like = 0; i < tokens * experts; i++) {
            if (i % experts == 0) like = luo_rng_pick(&rng, 2) * experts; /* as the token before */
            scores[i] = like > 0 && i >= like ? scores[i - like] : luo_rng_normal(&rng);
            other[i] = scores[i] + 1e-15 * (double)(luo_rng_pick(&rng, 9) - 4);
        }
        ck_assert_int_eq(luo_gate_deal(a, tokens, experts, scores, expert[0], NULL), LUO_OK);
        ck_assert_int_eq(luo_gate_deal(a, tokens, experts, other, expert[1], NULL), LUO_OK);
        ck_assert_msg(memcmp(expert[0], expert[1], (size_t)tokens * sizeof **expert) == 0,
                      "seed %llu: %d tokens, %d experts", (unsigned long long)seed, (int)tokens,
                      (int)experts);
        luo_arena_free(a);
    }
}
END_TEST

/* What all scores have more changes no choice. Doubles hold multiples of 1/64 near 2^24. */
START_TEST(what_all_have_more)
{
    int uneven = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        luo_arena *a = luo_arena_new(1 << 14);
        luo_rng rng = luo_rng_seed(seed);
        const int32_t experts = 2 + (int32_t)luo_rng_pick(&rng, 6);
        const int64_t tokens = 1 + luo_rng_pick(&rng, 40);
        double *scores = LUO_NEW_N(a, double, tokens *experts);
        double *other = LUO_NEW_N(a, double, tokens *experts);
        int32_t *expert[2] = {LUO_NEW_N(a, int32_t, tokens), LUO_NEW_N(a, int32_t, tokens)};
        for (int64_t i = 0; i < tokens * experts; i++) {
            scores[i] = (double)luo_rng_pick(&rng, 512) / 64;
            other[i] = scores[i] + (seed % 2 ? 1 << 24 : -(1 << 24));
        }
        ck_assert_int_eq(luo_gate_deal(a, tokens, experts, scores, expert[0], NULL), LUO_OK);
        ck_assert_int_eq(luo_gate_deal(a, tokens, experts, other, expert[1], NULL), LUO_OK);
        ck_assert_msg(memcmp(expert[0], expert[1], (size_t)tokens * sizeof **expert) == 0,
                      "seed %llu: %d tokens, %d experts", (unsigned long long)seed, (int)tokens,
                      (int)experts);
        uneven += tokens % experts != 0;
        luo_arena_free(a);
    }
    ck_assert_int_gt(uneven, 100);
}
END_TEST

LUO_SUITE("moe", LUO_T_N(choices, LUO_ROWS(gate_rows)), LUO_T(drops), LUO_T(balanced),
          LUO_T(rounding_deals_alike), LUO_T(what_all_have_more),
          LUO_T_N(dealt, 200), LUO_T(dealt_in_turn), LUO_T(hash), LUO_T(sigmoid),
          LUO_T_N(route_groups, LUO_ROWS(group_rows)),
          LUO_T_N(best_of_groups, LUO_ROWS(best_rows)), LUO_T(ktop1),
          LUO_T_N(bad_gate, LUO_ROWS(bad_gates)), LUO_T_N(places_once, 50), LUO_T(leader),
          LUO_T_N(three_ways, 40), LUO_T(exchange_costs), LUO_T(loads), LUO_T_N(loads_add_up, 100),
          LUO_T(by_source))
