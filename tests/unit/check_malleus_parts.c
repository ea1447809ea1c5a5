/* check_malleus_parts.c: the parts of the straggler planner one by one: layers and
 * micro-batches of given pipelines (computed vectors), caps by table, groups of a node.
 * */
#include <math.h>

#include "core/plan/malleus/malleus_internal.h"
#include "tests/check_main.h"
#include "tests/malleus_fixture.h"

enum { GROUPS = 24, PIPES = 4, STAGES = 12 };

/* Groups of one device each, one to a node, of kinds whose base rate is y: what is dealt then is
 * the y of a vector. */
typedef struct rig {
    luo_malleus_device devices[GROUPS];
    luo_malleus_kind kinds[GROUPS];
    luo_malleus_in in;
    luo_mal_mix *mix;
    luo_mal_search s;
} rig;

typedef struct given { /* pipelines by y; 0 ends a pipeline */
    int32_t dp;
    double y[PIPES][STAGES];
    int64_t layers, micro_batches;
    const table *t;
    bool rising;
} given;

static int32_t kind_of(rig *r, double y)
{
    static const double one[] = {1};
    int32_t k = 0;
    while (k < r->in.nkinds && r->kinds[k].base != y) k++;
    if (k == r->in.nkinds) r->kinds[r->in.nkinds++] = (luo_malleus_kind){y, one};
    return k;
}

static void make_input(const given *g, rig *r)
{
    memset(r, 0, sizeof *r);
    r->in = (luo_malleus_in){.devices = r->devices, .kinds = r->kinds, .dp = g->dp, .tp = 1,
                             .pp = 1, .layers = g->layers, .micro_batches = g->micro_batches,
                             .threshold = 1.2, .rising = g->rising};
    if (g->t) {
        r->in.cap = table_cap;
        r->in.cap_ctx = g->t;
        r->in.max_stages = g->t->n;
    }
    for (int32_t i = 0; i < g->dp; i++)
        for (int32_t j = 0; j < STAGES && g->y[i][j] > 0; j++) {
            const int32_t d = r->in.ndevices++;
            r->devices[d] = (luo_malleus_device){d, d, kind_of(r, g->y[i][j]), 1};
        }
}

/* Searches nothing: makes the memo, so that pipelines can be solved one by one. */
static void begin(const given *g, luo_malleus_rank rank, luo_arena *a, rig *r)
{
    luo_mal_node *nodes;
    int32_t n;
    make_input(g, r);
    r->in.rank = rank;
    ck_assert_int_eq(luo_mal_nodes(a, &r->in, &nodes, &n, NULL), LUO_OK);
    r->s = (luo_mal_search){.arena = a, .in = &r->in, .dp = g->dp};
    bool all;
    ck_assert_int_eq(luo_mal_mixes(a, &r->in, nodes, n, &r->s.mixes, &r->s.nmixes, &all, NULL),
                     LUO_OK);
    ck_assert_int_eq(luo_mal_tops(&r->s, NULL), LUO_OK);
    ck_assert_int_eq(luo_mal_memo(&r->s, NULL), LUO_OK);
    r->mix = r->s.mixes;
}

static int32_t solve(const given *g, rig *r, int32_t i)
{
    int32_t v[GROUPS] = {0};
    for (int32_t j = 0; j < STAGES && g->y[i][j] > 0; j++) {
        int32_t c = 0;
        while (r->mix->cls[c].y != g->y[i][j]) c++;
        v[c]++;
    }
    return luo_mal_pipe_of(&r->s, r->mix, v);
}

/* Offers the given pipelines as they are, and times them. */
static const luo_mal_top *judge(const given *g, rig *r)
{
    int32_t ids[PIPES];
    for (int32_t i = 0; i < g->dp; i++) ids[i] = solve(g, r, i);
    luo_mal_offer(&r->s, r->mix, ids);
    ck_assert_int_eq(r->s.ntops, 1);
    ck_assert_int_eq(luo_mal_rerank(&r->s, NULL), LUO_OK);
    ck_assert(!r->s.nomem);
    return r->s.tops;
}

/* Micro-batches of the given pipelines: a plan lists them by falling vectors. */
static void check_micro_batches(const given *g, rig *r, const luo_mal_top *t, const int64_t *m)
{
    for (int32_t i = 0; i < g->dp && m[0]; i++) {
        const int32_t id = r->mix->pipes[solve(g, r, i)].trimmed;
        bool found = false;
        for (int32_t k = 0; k < g->dp; k++) found |= t->ids[k] == id && t->m[k] == m[i];
        ck_assert_msg(found, "no pipeline like %d has %d micro-batches", (int)i, (int)m[i]);
    }
}

static const struct {
    const char *id;
    given g;
    double steady;
    int64_t steady_m[PIPES];
    double filled;
    int64_t filled_m[PIPES];
    double event, bound;
} allocations[] = {
    {"T1", {2, {{1, 1}, {1, 1}}, 8, 8, NULL, 0}, 16, {4, 4}, 20, {4, 4}, 20, 16},
    {"T2", {2, {{2, 1}, {1, 1}}, 8, 8, NULL, 0}, 20, {3, 5}, 24, {3, 5}, 24, 18.2857},
    {"T4", {2, {{2.57, 1, 1, 1}, {1, 1, 1, 1}}, 16, 16, NULL, 0}, 36, {7, 9}, 48, {7, 9}, 48,
     34.6456},
    {"T5", {1, {{5, 1}}, 6, 4, NULL, 0}, 20, {4}, 25, {4}, 25, 20},
    {"T10", {2, {{2, 2, 1}, {1}}, 12, 12, NULL, 0}, 48, {8, 4}, 60, {8, 4}, 60, 48},
    {"T11", {2, {{90, 3, 1}, {1, 1}}, 10, 12, NULL, 0}, 40, {5, 7}, 45, {4, 8}, 45, 35.8804},
    {"T13", {2, {{1, 1, 1, 1}, {1.25, 1, 1, 1}}, 80, 64, NULL, 0}, 660, {33, 31}, 721.75, {33, 31},
     721.00, 656.4103},
};

START_TEST(allocation)
{
    luo_arena *a = luo_arena_new(0);
    const given *g = &allocations[_i].g;
    rig r;
    begin(g, LUO_RANK_STEADY, a, &r);
    ck_assert_double_eq_tol(r.mix->bound, allocations[_i].bound, 1e-4);
    const luo_mal_top *t = judge(g, &r);
    ck_assert_double_eq_tol(t->steady, allocations[_i].steady, 1e-6);
    check_micro_batches(g, &r, t, allocations[_i].steady_m);
    begin(g, LUO_RANK_FILLED, a, &r);
    t = judge(g, &r);
    ck_assert_double_eq_tol(t->filled, allocations[_i].filled, 1e-6);
    ck_assert_double_eq_tol(t->event, allocations[_i].event, 1e-6);
    check_micro_batches(g, &r, t, allocations[_i].filled_m);
    luo_arena_free(a);
}
END_TEST

START_TEST(trimmed_stage_stands_by)
{
    luo_arena *a = luo_arena_new(0);
    rig r;
    begin(&allocations[5].g, LUO_RANK_FILLED, a, &r); /* T11 */
    const int32_t id = solve(&allocations[5].g, &r, 0);
    ck_assert_int_eq(r.mix->pipes[id].stages, 2);
    ck_assert_int_eq(luo_mal_vector(r.mix, r.mix->pipes[id].trimmed)[0], 0); /* class 90 */
    luo_arena_free(a);
}
END_TEST

/* Slow stages get few layers; a class of equal stages gives the larger shares to the later. */
START_TEST(layers_follow_stage_order)
{
    const given g = {1, {{7, 6, 5, 4, 3.5, 3, 2.5, 2, 1.5, 1, 1, 1}}, 100, 16, NULL, 0};
    luo_arena *a = luo_arena_new(0);
    rig r;
    begin(&g, LUO_RANK_FILLED, a, &r);
    const int32_t id = solve(&g, &r, 0);
    const int32_t n = luo_mal_stages(&r.s, r.mix, id);
    int64_t sum = 0;
    ck_assert_int_eq(n, 12);
    for (int32_t j = 0; j < n; j++) { /* fault F4: layers on the stages they were planned for */
        ck_assert_double_eq(r.s.y[j], g.y[0][j]);
        ck_assert(j == 0 || r.s.layers[j] >= r.s.layers[j - 1]);
        ck_assert_double_le(r.s.y[j] * (double)r.s.layers[j], r.mix->pipes[id].o);
        sum += r.s.layers[j];
    }
    ck_assert_int_eq(sum, 100);
    luo_arena_free(a);
}
END_TEST

static const table k32_h1 = {4, 1, {4608.02, 4124.24, 3641.99, 3129.95}, 1200, 5500};
static const struct {
    const char *id;
    given g;
    int64_t layers[PIPES][STAGES]; /* recorded */
    double steady;
    int64_t m[PIPES];
} recorded[] = {
    {"G1", {2, {{7.22, 3.66, 1.90, 1, 1, 1}, {1, 1, 1, 1}}, 80, 64, NULL, 0},
     {{2, 5, 11, 20, 21, 21}, {20, 20, 20, 20}}, 660, {31, 33}},
    {"G3", {2, {{7.22, 7.22, 1.90, 1, 1, 1, 1}, {3.66, 3.66, 1.90, 1, 1}}, 80, 64, NULL, 0},
     {{2, 2, 8, 17, 17, 17, 17}, {7, 7, 14, 26, 26}}, 665, {39, 25}},
    {"G4", {2, {{7.22, 3.66, 1.90, 1, 1}, {1, 1, 1, 1, 1}}, 80, 64, NULL, 0},
     {{3, 7, 14, 28, 28}, {16, 16, 16, 16, 16}}, 656, {23, 41}},
    {"G5", {4, {{2.57, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}}, 60, 64, &k32_h1, 0},
     {{7, 17, 18, 18}, {15, 15, 15, 15}, {15, 15, 15, 15}, {15, 15, 15, 15}}, 255,
     {14, 16, 17, 17}},
    {"G6", {2, {{1, 1, 1, 1}, {1, 1, 1, 1.9, 3.66}}, 60, 64, NULL, 1},
     {{15, 15, 15, 15}, {16, 16, 16, 8, 4}}, 496, {33, 31}},
    {"G7", {4, {{3.2, 3.2, 1}, {3.2, 3.2, 1}, {3.2, 3.2, 1}, {3.2, 3.2, 1}}, 60, 64, NULL, 0},
     {{11, 11, 38}, {11, 11, 38}, {11, 11, 38}, {11, 11, 38}}, 608, {16, 16, 16, 16}},
    {"G8", {2, {{3.2, 3.2, 1, 1}, {3.2, 3.2, 1, 1}}, 60, 64, NULL, 0},
     {{7, 7, 23, 23}, {7, 7, 23, 23}}, 736, {32, 32}},
    {"G10", {2, {{3.2, 3.2, 3.2, 1, 1}, {3.2, 3.2, 3.2, 1, 1}}, 60, 64, NULL, 0},
     {{6, 6, 6, 21, 21}, {6, 6, 6, 21, 21}}, 672, {32, 32}},
    {"G11", {3, {{3.2, 3.2, 1, 1}, {3.2, 3.2, 1}, {3.2, 3.2, 1.6, 2.9}}, 60, 64, NULL, 0},
     {{7, 7, 23, 23}, {11, 11, 38}, {12, 11, 24, 13}}, 684, {29, 18, 17}},
    {"G14", {2, {{2.6, 2.6, 1}, {2.6, 2.6, 1}}, 80, 64, NULL, 0},
     {{17, 17, 46}, {17, 17, 46}}, 1472, {32, 32}},
    {"G16", {1, {{2.6, 2.6, 1, 1}}, 80, 64, NULL, 0}, {{11, 11, 29, 29}}, 1856, {64}},
};

/* The recorded plan's own objective is the row's, and ours on the same pipelines is equal. */
START_TEST(recorded_plan)
{
    luo_arena *a = luo_arena_new(0);
    const given *g = &recorded[_i].g;
    double theirs = 0;
    rig r;
    for (int32_t i = 0; i < g->dp; i++) {
        int64_t sum = 0;
        double o = 0;
        for (int32_t j = 0; j < STAGES && g->y[i][j] > 0; j++) {
            o = fmax(o, g->y[i][j] * (double)recorded[_i].layers[i][j]);
            sum += recorded[_i].layers[i][j];
        }
        ck_assert_int_eq(sum, g->layers);
        theirs = fmax(theirs, o * (double)recorded[_i].m[i]);
    }
    ck_assert_double_eq_tol(theirs, recorded[_i].steady, 1e-6);
    begin(g, LUO_RANK_STEADY, a, &r);
    ck_assert_double_eq_tol(judge(g, &r)->steady, recorded[_i].steady, 1e-6);
    luo_arena_free(a);
}
END_TEST

START_TEST(unique_micro_batches)
{
    luo_arena *a = luo_arena_new(0);
    for (int k = 0; k < LUO_ROWS(recorded); k++) {
        if (strcmp(recorded[k].id, "G6") != 0 && strcmp(recorded[k].id, "G11") != 0) continue;
        rig r;
        begin(&recorded[k].g, LUO_RANK_STEADY, a, &r);
        check_micro_batches(&recorded[k].g, &r, judge(&recorded[k].g, &r), recorded[k].m);
    }
    luo_arena_free(a);
}
END_TEST

static const struct {
    const table *t;
    int32_t stages, h[6];
    int64_t cap[6];
} caps[] = {
    {&k32, 4, {1, 1, 1, 1}, {15, 17, 19, 22}},
    {&k32, 4, {2, 1, 1, 1}, {7, 17, 19, 22}},
    {&k70, 4, {1, 1, 1, 1}, {34, 37, 40, 43}},
    {&k70, 5, {8, 4, 2, 1, 1}, {3, 8, 18, 40, 43}},
    {&k70, 6, {8, 4, 2, 1, 1, 1}, {3, 7, 17, 37, 40, 43}},
    {&k110, 4, {1, 1, 1, 1}, {23, 25, 27, 29}},
};

START_TEST(caps_by_table)
{
    for (int32_t j = 0; j < caps[_i].stages; j++)
        ck_assert_int_eq(
            table_cap(caps[_i].t, 0, caps[_i].t->tp / caps[_i].h[j], caps[_i].stages, j, 1),
            caps[_i].cap[j]);
}
END_TEST

typedef struct cut {
    int32_t size;
    double rate; /* 0: healthy */
} cut;

static const struct {
    const char *id;
    int32_t tp, n;
    double rate[8];
    cut cuts[5]; /* of the best alternative, in order */
    int32_t standby;
    double score;
} groupings[] = {
    {"R1", 8, 8, {1, 1, 1, 1, 1, 1, 1, 2.57}, {{4, 0}, {2, 0}, {1, 0}}, 1, 0.938044},
    {"R2", 8, 8, {1, 1, 1, 1, 1, 1, 1, 1.15}, {{8, 0}}, 0, 1},
    {"R3", 8, 8, {1, 1, 1, 1, 1, 1, 2.57, 2.57}, {{4, 0}, {2, 0}, {1, 2.57}}, 1, 0.853433},
    {"R4", 8, 8, {1, 1, 1, 1, 1, 2.57, 2.57, 2.57}, {{4, 0}, {2, 2.57}, {1, 0}}, 1, 0.771133},
    {"R5", 8, 8, {1, 1, 1, 1, 1.5, 1.5, 1.5, 1.5}, {{4, 0}, {2, 1.5}, {1, 1.5}}, 1, 0.800801},
    {"R6", 8, 7, {1, 1, 1, 1, 1, 1, 1}, {{4, 0}, {2, 0}, {1, 0}}, 0, 0.938044},
    {"R7", 8, 6, {1, 1, 1, 1, 1, 5.42}, {{4, 0}, {2, 5.42}}, 0, 0.576726},
    {"R8", 4, 8, {1, 1, 1, 1, 1, 1, 2.57, 2.57}, {{4, 0}, {2, 0}, {1, 2.57}}, 1, 1.632629},
    {"R9", 2, 8, {1, 1, 1, 1, 1, 1, 12.53, 12.53}, {{2, 0}, {2, 0}, {2, 0}, {2, 12.53}}, 0,
     3.079808},
    {"R10", 8, 8, {1, 1, 1, 1.3, 1.6, 2, 3, 8}, {{4, 1.3}, {2, 2}, {1, 3}}, 1, 0.587638},
};

static double alpha_of(const luo_malleus_kind *kind, int32_t tp, int32_t size)
{
    int32_t k = 0;
    while (tp >> k > size) k++;
    return kind->alpha[k];
}

/* In every order of the devices. */
START_TEST(grouping)
{
    const int32_t row = _i / 8, shift = _i % 8, n = groupings[row].n, tp = groupings[row].tp;
    luo_arena *a = luo_arena_new(0);
    luo_malleus_device d[8];
    const luo_malleus_kind *kind = tp == 2 ? &kind32 : &kind70;
    for (int32_t i = 0; i < n; i++)
        d[i] = (luo_malleus_device){i, 0, 0, groupings[row].rate[(i + shift) % n]};
    const luo_malleus_in in = {.ndevices = n, .devices = d, .nkinds = 1, .kinds = kind, .dp = 1,
                               .tp = tp, .pp = 1, .layers = 8, .micro_batches = 8,
                               .threshold = 1.2};
    luo_mal_node *node;
    int32_t nnodes, used = 0, k = 0;
    ck_assert_int_eq(luo_mal_nodes(a, &in, &node, &nnodes, NULL), LUO_OK);
    ck_assert_int_eq(nnodes, 1);
    const luo_mal_alt *best = &node->alts[0];
    ck_assert_double_eq_tol(best->score, groupings[row].score, 1e-6);
    for (; k < 5 && groupings[row].cuts[k].size; k++) {
        const cut *c = &groupings[row].cuts[k];
        ck_assert_int_lt(k, best->n);
        ck_assert_int_eq(best->groups[k].size, c->size);
        ck_assert_double_eq_tol(best->groups[k].y / alpha_of(kind, tp, c->size),
                                c->rate > 0 ? c->rate : 1, 1e-12);
        used += c->size;
    }
    ck_assert_int_eq(k, best->n);
    ck_assert_int_eq(n - used, groupings[row].standby);
    luo_arena_free(a);
}
END_TEST

/* Three groups of y 4, one of 2 and three of 1 are dealt to two pipelines. By weight, fastest
 * first: 1 and 1, 2 (the first of equals), 1.5, 1.75, 2, and 2.25 again of the first. There and
 * back: 4, 4 | 4, 2 | 1, 1 | 1. In turn, up to half of the weight, 2.125: all of 4 and 2 and one
 * of 1. */
static const struct {
    const char *id;
    int32_t vectors[2][3]; /* falling */
} starts[] = {
    {"even", {{2, 1, 1}, {1, 0, 2}}},
    {"snake", {{2, 0, 2}, {1, 1, 1}}},
    {"in turn", {{3, 1, 1}, {0, 0, 2}}},
};

START_TEST(where_the_local_search_starts)
{
    const given g = {2, {{4, 4, 4, 2}, {1, 1, 1}}, 16, 16, NULL, 0};
    luo_arena *a = luo_arena_new(0);
    rig r;
    int32_t ids[2];
    begin(&g, LUO_RANK_STEADY, a, &r);
    ck_assert_int_eq(r.mix->ncls, 3);
    luo_mal_seed(&r.s, r.mix, _i, ids);
    for (int32_t i = 0; i < 2; i++)
        for (int32_t c = 0; c < 3; c++)
            ck_assert_msg(luo_mal_vector(r.mix, ids[i])[c] == starts[_i].vectors[i][c],
                          "%s: pipeline %d has %d of class %d", starts[_i].id, (int)i,
                          (int)luo_mal_vector(r.mix, ids[i])[c], (int)c);
    luo_arena_free(a);
}
END_TEST

LUO_SUITE("plan.malleus.parts", LUO_T_N(allocation, LUO_ROWS(allocations)),
          LUO_T(trimmed_stage_stands_by), LUO_T(layers_follow_stage_order),
          LUO_T_N(recorded_plan, LUO_ROWS(recorded)), LUO_T(unique_micro_batches),
          LUO_T_N(caps_by_table, LUO_ROWS(caps)), LUO_T_N(grouping, 8 * LUO_ROWS(groupings)),
          LUO_T_N(where_the_local_search_starts, LUO_MAL_SEEDS))
