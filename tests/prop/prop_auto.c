/* prop_auto.c: the programme = every choice, the cut = every cut, elimination = every
 * configuration, a search of one stage = every list of strategies; more memory is never slower, and
 * no plan of one strategy is faster than the search. */
#include <math.h>

#include "core/plan/auto/cut.h"
#include "core/plan/auto/dp.h"
#include "core/plan/auto/search.h"
#include "tests/check_main.h"
#include "tests/parked/eliminate.h"
#include "tests/prop/prop.h"

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

/* The next of all lists of n digits, digit k below base[k]; false: that was the last. */
static bool next_list(int32_t *digit, const int32_t *base, int32_t n)
{
    for (int32_t k = n; k-- > 0;) {
        if (++digit[k] < base[k]) return true;
        digit[k] = 0;
    }
    return false;
}

static void fill(luo_rng *rng, double *x, int32_t n, int64_t most)
{
    for (int32_t i = 0; i < n; i++) x[i] = (double)luo_rng_pick(rng, most);
}

/* ---- the programme ---- */

enum { L = 5, S = 4 };

typedef struct instance {
    luo_auto_dp_in in;
    int32_t row[L];
    int64_t units[L * S];
    double seconds[L * S], change[L * S * S];
} instance;

/* Small whole numbers, so that ties, zero memory and budgets that are just enough are common. */
static void make_instance(luo_rng *rng, instance *x)
{
    x->in = (luo_auto_dp_in){.layers = (int32_t)(1 + luo_rng_pick(rng, L)),
                             .strategies = (int32_t)(1 + luo_rng_pick(rng, S)),
                             .budget = luo_rng_pick(rng, 16),
                             .row = luo_rng_pick(rng, 2) ? x->row : NULL,
                             .units = x->units,
                             .seconds = x->seconds,
                             .change = luo_rng_pick(rng, 4) ? x->change : NULL};
    for (int32_t l = 0; l < L; l++) x->row[l] = (int32_t)luo_rng_pick(rng, 2);
    for (int32_t i = 0; i < L * S; i++) x->units[i] = luo_rng_pick(rng, 5);
    fill(rng, x->seconds, L * S, 10);
    for (int32_t i = 0; i < L * S; i++)
        if (luo_rng_pick(rng, 8) == 0) x->seconds[i] = INFINITY;
    fill(rng, x->change, L * S * S, 4);
}

static double seconds_of(const instance *x, const int32_t *choice, int64_t *units)
{
    const int32_t n = x->in.strategies;
    double sum = 0;
    *units = 0;
    for (int32_t l = 0; l < x->in.layers; l++) {
        const int32_t row = x->in.row ? x->in.row[l] : l;
        const int32_t before = l == 0 ? 0 : x->in.row ? x->in.row[l - 1] : l - 1;
        *units += x->units[row * n + choice[l]];
        sum += x->seconds[row * n + choice[l]];
        if (l > 0 && x->in.change) sum += x->change[(before * n + choice[l - 1]) * n + choice[l]];
    }
    return sum;
}

static double best_choice(const instance *x)
{
    int32_t choice[L] = {0}, base[L];
    double best = INFINITY;
    for (int32_t l = 0; l < L; l++) base[l] = x->in.strategies;
    do {
        int64_t units;
        const double sum = seconds_of(x, choice, &units);
        if (units <= x->in.budget && sum < best) best = sum;
    } while (next_list(choice, base, x->in.layers));
    return best;
}

/* AP3 */
START_TEST(ap3_programme)
{
    luo_arena *a = luo_arena_new(0);
    int32_t solved = 0, refused = 0, free_units = 0;
    LUO_PROP_FOR(seed, 300)
    {
        luo_rng rng = luo_rng_stream(seed, "auto.programme");
        instance x;
        int32_t choice[L];
        int64_t units;
        double got = INFINITY;
        make_instance(&rng, &x);
        const double want = best_choice(&x);
        const luo_status st = luo_auto_dp(a, &x.in, choice, &got, NULL);
        ck_assert_msg((st == LUO_OK) == isfinite(want), "LUO_SEED=%llu", (unsigned long long)seed);
        refused += st != LUO_OK;
        if (st != LUO_OK) continue;
        ck_assert_msg(got == want, "LUO_SEED=%llu: %g is not %g", (unsigned long long)seed, got,
                      want);
        ck_assert_msg(seconds_of(&x, choice, &units) == want, "LUO_SEED=%llu",
                      (unsigned long long)seed);
        ck_assert_msg(units <= x.in.budget, "LUO_SEED=%llu", (unsigned long long)seed);
        solved++;
        for (int32_t i = 0; i < x.in.layers; i++) free_units += x.units[i] == 0;
    }
    if (luo_prop_env("LUO_CASES", 300) >= 300) {
        ck_assert_int_gt(solved, 100);
        ck_assert_int_gt(refused, 20);
        ck_assert_int_gt(free_units, 50);
    }
    luo_arena_free(a);
}
END_TEST

/* ---- the cut ---- */

static double largest(const double *work, const double *speed, const int32_t *count, int32_t stages)
{
    double most = 0;
    for (int32_t k = 0, l = 0; k < stages; k++) {
        double sum = 0;
        for (int32_t end = l + count[k]; l < end; l++) sum += work[l];
        most = fmax(most, sum / speed[k]);
    }
    return most;
}

/* Lists of lengths in ascending order: the first of the best is the one with shorter early stages.
 */
static double best_cut(const double *work, const double *speed, int32_t layers, int32_t stages,
                       int32_t *out)
{
    int32_t digit[5] = {0}, base[5];
    double best = INFINITY;
    for (int32_t k = 0; k < stages; k++) base[k] = layers;
    do {
        int32_t count[5], sum = 0;
        for (int32_t k = 0; k < stages; k++) sum += count[k] = digit[k] + 1;
        if (sum != layers) continue;
        const double most = largest(work, speed, count, stages);
        if (most >= best * (1 - 1e-12)) continue;
        best = most;
        memcpy(out, count, (size_t)stages * sizeof *out);
    } while (next_list(digit, base, stages));
    return best;
}

START_TEST(cut)
{
    luo_arena *a = luo_arena_new(0);
    LUO_PROP_FOR(seed, 300)
    {
        luo_rng rng = luo_rng_stream(seed, "auto.cut");
        const int32_t layers = (int32_t)(1 + luo_rng_pick(&rng, 8));
        const int32_t stages = (int32_t)(1 + luo_rng_pick(&rng, layers < 5 ? layers : 5));
        double work[8], speed[5], got;
        int32_t count[5], want[5];
        fill(&rng, work, layers, 5);
        fill(&rng, speed, stages, 3);
        for (int32_t k = 0; k < stages; k++) speed[k] += 1;
        const double best = best_cut(work, speed, layers, stages, want);
        ck_assert_int_eq(luo_auto_cut(a, work, layers, speed, stages, count, &got, NULL), LUO_OK);
        ck_assert_msg(near(got, best), "LUO_SEED=%llu: %g is not %g", (unsigned long long)seed, got,
                      best);
        for (int32_t k = 0; k < stages; k++)
            ck_assert_msg(count[k] == want[k], "LUO_SEED=%llu: stage %d has %d layers, not %d",
                          (unsigned long long)seed, k, count[k], want[k]);
    }
    luo_arena_free(a);
}
END_TEST

/* ---- elimination ---- */

enum { N = 6, C = 3, E = 12 };

typedef struct tangle {
    luo_auto_graph graph;
    int32_t configs[N];
    double cost[N][C], edge_cost[E][C * C];
    const double *node[N];
    luo_auto_graph_edge edge[E];
} tangle;

static void make_tangle(luo_rng *rng, tangle *x)
{
    int32_t name[N]; /* edges go up in this order, so that sources have any number */
    x->graph =
        (luo_auto_graph){(int32_t)(1 + luo_rng_pick(rng, N)), x->configs, x->node, 0, x->edge};
    const int32_t n = x->graph.nodes;
    for (int32_t k = 0; k < n; k++) {
        const int32_t other = (int32_t)luo_rng_pick(rng, k + 1);
        name[k] = name[other];
        name[other] = k;
        x->configs[k] = (int32_t)(1 + luo_rng_pick(rng, C));
        x->node[k] = x->cost[k];
        fill(rng, x->cost[k], C, 8);
    }
    for (int64_t e = luo_rng_pick(rng, E + 1); n > 1 && e > 0; e--) {
        const int32_t from = (int32_t)luo_rng_pick(rng, n - 1);
        const int32_t to = from + 1 + (int32_t)luo_rng_pick(rng, n - 1 - from);
        const int32_t i = x->graph.nedges++;
        x->edge[i] = (luo_auto_graph_edge){name[from], name[to], x->edge_cost[i]};
        fill(rng, x->edge_cost[i], C * C, 8);
    }
}

static double cost_of(const tangle *x, const int32_t *config)
{
    double sum = 0;
    for (int32_t k = 0; k < x->graph.nodes; k++) sum += x->cost[k][config[k]];
    for (int32_t e = 0; e < x->graph.nedges; e++) {
        const luo_auto_graph_edge *edge = &x->edge[e];
        sum += edge->cost[config[edge->from] * x->configs[edge->to] + config[edge->to]];
    }
    return sum;
}

START_TEST(elimination)
{
    luo_arena *a = luo_arena_new(0);
    int32_t folded = 0, tried = 0;
    LUO_PROP_FOR(seed, 500)
    {
        luo_rng rng = luo_rng_stream(seed, "auto.elimination");
        tangle x;
        int32_t config[N] = {0}, got[N], core;
        double best = INFINITY, cost;
        make_tangle(&rng, &x);
        do best = fmin(best, cost_of(&x, config));
        while (next_list(config, x.configs, x.graph.nodes));
        ck_assert_int_eq(luo_auto_eliminate(a, &x.graph, got, &cost, &core, NULL), LUO_OK);
        ck_assert_msg(cost == best && cost_of(&x, got) == best,
                      "LUO_SEED=%llu: %g (its configurations have %g) is not %g",
                      (unsigned long long)seed, cost, cost_of(&x, got), best);
        folded += x.graph.nodes - core;
        tried += core > 2;
    }
    if (luo_prop_env("LUO_CASES", 500) >= 500) {
        ck_assert_int_gt(folded, 100);
        ck_assert_int_gt(tried, 100);
    }
    luo_arena_free(a);
}
END_TEST

/* A chain with memory for all: elimination and the programme have the same least sum. */
START_TEST(chain)
{
    luo_arena *a = luo_arena_new(0);
    LUO_PROP_FOR(seed, 200)
    {
        luo_rng rng = luo_rng_stream(seed, "auto.chain");
        instance x;
        int32_t choice[L], config[L], core;
        double by_programme, by_graph;
        const double *node[L];
        int32_t configs[L];
        luo_auto_graph_edge edge[L];
        make_instance(&rng, &x);
        fill(&rng, x.seconds, L * S, 10); /* none is impossible */
        x.in.budget = 1000;
        x.in.row = NULL;
        x.in.change = x.change;
        const int32_t n = x.in.strategies;
        for (int32_t l = 0; l < x.in.layers; l++) {
            node[l] = x.seconds + l * n;
            configs[l] = n;
            edge[l] = (luo_auto_graph_edge){l, l + 1, x.change + l * n * n};
        }
        const luo_auto_graph graph = {x.in.layers, configs, node, x.in.layers - 1, edge};
        ck_assert_int_eq(luo_auto_dp(a, &x.in, choice, &by_programme, NULL), LUO_OK);
        ck_assert_int_eq(luo_auto_eliminate(a, &graph, config, &by_graph, &core, NULL), LUO_OK);
        ck_assert_msg(by_programme == by_graph, "LUO_SEED=%llu", (unsigned long long)seed);
        ck_assert_int_eq(core, x.in.layers < 2 ? x.in.layers : 2);
    }
    luo_arena_free(a);
}
END_TEST

/* ---- the search ---- */

enum { LAYERS = 3, DEVICES = 4 };

typedef struct rig {
    double flops[DEVICES], limit[DEVICES];
    luo_auto_link link;
    luo_auto_layer layer[LAYERS];
    luo_auto_job job;
} rig;

static void make_rig(luo_rng *rng, rig *x)
{
    const luo_auto_widths w = {256, 1024, 128, 4, 4096};
    const bool mixed = luo_rng_pick(rng, 2);
    for (int d = 0; d < DEVICES; d++) {
        x->flops[d] = 1e12 * (double)(1 + (mixed ? luo_rng_pick(rng, 3) : 1));
        x->limit[d] = 1e6 * (double)(4 + luo_rng_pick(rng, 40));
    }
    x->link = (luo_auto_link){1e-6 * luo_rng_u(rng), 1e9 * (1 + 50 * luo_rng_u(rng))};
    for (int l = 0; l < LAYERS; l++)
        x->layer[l] = luo_rng_pick(rng, 4) ? luo_auto_layer_transformer("l", &w)
                                           : luo_auto_layer_head("h", &w);
    x->job = (luo_auto_job){.layer = x->layer,
                            .layers = LAYERS,
                            .cluster = {DEVICES, x->flops, x->limit, luo_auto_link_flat, &x->link},
                            .batch = 8,
                            .unit_bytes = 1e4,
                            .stages = 1,
                            .micro_batches = 2,
                            .checkpointing = luo_rng_pick(rng, 2),
                            .uneven = luo_rng_pick(rng, 2) ? LUO_AUTO_UNEVEN : LUO_AUTO_EVEN,
                            .slow_comm = 1.3,
                            .slow_compute = 1.2};
}

/* The slow twin knows layers and changes one by one; exact bytes, so it may fit a little more. */
static double best_lists(luo_arena *a, const rig *x, bool uneven)
{
    const luo_auto_env env = {.cluster = &x->job.cluster,
                              .devices = DEVICES,
                              .batch = 8,
                              .micro_batches = 2,
                              .in_flight = 1,
                              .uneven = uneven,
                              .slow_comm = 1.3,
                              .slow_compute = 1.2};
    luo_auto_strategy *s;
    int32_t n, choice[LAYERS] = {0};
    double best = INFINITY, limit = INFINITY;
    ck_assert_int_eq(luo_auto_strategies(a, DEVICES, x->job.checkpointing, &s, &n, NULL), LUO_OK);
    const int32_t base[LAYERS] = {n, n, n};
    luo_auto_cost *cost = LUO_NEW_N(a, luo_auto_cost, LAYERS * n);
    const luo_auto_link link = luo_auto_cost_stage_link(&env);
    int64_t *moved = LUO_NEW_N(a, int64_t, n * n);
    ck_assert_int_eq(luo_auto_cost_moved(a, &env, s, n, moved, NULL), LUO_OK);
    for (int32_t i = 0; i < LAYERS * n; i++)
        ck_assert_int_eq(luo_auto_cost_layer(a, &env, &x->layer[i / n], &s[i % n], &cost[i], NULL),
                         LUO_OK);
    for (int d = 0; d < DEVICES; d++) limit = fmin(limit, x->limit[d]);
    do {
        double sum = 0, bytes = 0;
        bool taken = true;
        for (int l = 0; l < LAYERS; l++) {
            const luo_auto_cost *c = &cost[l * n + choice[l]];
            taken = taken && c->skip == LUO_AUTO_TAKEN;
            bytes += ceil(c->scaled_bytes / 1e4);
            sum += c->step_s;
            if (l > 0)
                sum += luo_auto_cost_change(&env, link, x->layer[l - 1].boundary_bytes,
                                            moved[choice[l - 1] * n + choice[l]]);
        }
        if (taken && bytes <= floor(limit / 1e4)) best = fmin(best, sum);
    } while (next_list(choice, base, LAYERS));
    return best;
}

static bool is_mixed(const rig *x)
{
    for (int d = 1; d < DEVICES; d++)
        if (x->flops[d] != x->flops[0]) return true;
    return false;
}

START_TEST(search_of_one_stage)
{
    int32_t solved = 0, refused = 0, mixed = 0;
    LUO_PROP_FOR(seed, 100)
    {
        luo_arena *a = luo_arena_new(0);
        luo_rng rng = luo_rng_stream(seed, "auto.search");
        luo_auto_found found = {.step_s = INFINITY};
        luo_err err = {0};
        rig x;
        make_rig(&rng, &x);
        const bool uneven = x.job.uneven == LUO_AUTO_UNEVEN && is_mixed(&x);
        const double want = best_lists(a, &x, uneven);
        const luo_status st = luo_auto_search(a, &x.job, &found, &err);
        ck_assert_msg((st == LUO_OK) == isfinite(want), "LUO_SEED=%llu: %s",
                      (unsigned long long)seed, err.text);
        ck_assert_msg(st != LUO_OK || near(found.step_s, want), "LUO_SEED=%llu: %.12g is not %.12g",
                      (unsigned long long)seed, found.step_s, want);
        solved += st == LUO_OK;
        refused += st != LUO_OK;
        mixed += uneven && st == LUO_OK;
        luo_arena_free(a);
    }
    if (luo_prop_env("LUO_CASES", 100) >= 100) {
        ck_assert_int_gt(solved, 20);
        ck_assert_int_gt(refused, 5);
        ck_assert_int_gt(mixed, 5);
    }
}
END_TEST

/* Galvatron's claim: at every budget at least as good as each plan of one strategy. */
static bool only(const void *ctx, int32_t layer, const luo_auto_strategy *s)
{
    (void)layer;
    return luo_auto_strategy_compare(s, ctx) == 0;
}

START_TEST(no_single_strategy_is_faster)
{
    int32_t compared = 0;
    LUO_PROP_FOR(seed, 10)
    {
        luo_rng rng = luo_rng_stream(seed, "auto.single");
        rig x;
        make_rig(&rng, &x);
        double before = INFINITY;
        for (int budget = 1; budget <= 8; budget++) {
            luo_arena *a = luo_arena_new(0);
            luo_auto_found all = {.step_s = INFINITY}, one;
            luo_auto_strategy *s;
            int32_t n;
            for (int d = 0; d < DEVICES; d++) x.limit[d] = 3e6 * budget;
            x.job.allow = NULL;
            (void)luo_auto_search(a, &x.job, &all, NULL);
            ck_assert(all.step_s <= before * (1 + 1e-12)); /* more memory is never slower */
            before = all.step_s;
            x.job.allow = only;
            luo_auto_strategies(a, DEVICES, x.job.checkpointing, &s, &n, NULL);
            for (int32_t i = 0; i < n; i++) {
                x.job.allow_ctx = &s[i];
                if (luo_auto_search(a, &x.job, &one, NULL) != LUO_OK) continue;
                ck_assert(all.step_s <= one.step_s * (1 + 1e-12));
                compared++;
            }
            luo_arena_free(a);
        }
    }
    ck_assert_int_gt(compared, 50);
}
END_TEST

LUO_SUITE("plan.auto.properties", LUO_T(ap3_programme), LUO_T(cut), LUO_T(elimination),
          LUO_T(chain), LUO_T(search_of_one_stage), LUO_T(no_single_strategy_is_faster))
