/* prop_hap.c: the search against every choice there is; what has to hold of costs and starts.
 *
 * The slow twin walks all triples of all operations, facts in a plain table, nothing masked; it
 * only leaves a branch that already costs more than the best program, for encoders with the
 * cheapest triples of the rest added. */
#include <math.h>

#include "core/plan/hap/alternate.h"
#include "core/plan/hap/balance.h"
#include "tests/check_main.h"
#include "tests/parked/hap_graphs.h"
#include "tests/prop/prop.h"

enum { GRAPHS = 300, PAIRS = 40 };
static int encoders, with_moves, with_factors,
    published_programs; /* proof that the generator hits */

static double between(luo_rng *rng, double lo, double hi) /* evenly in logarithms */
{
    return lo * exp(luo_rng_u(rng) * log(hi / lo));
}

static luo_hap_graph *random_mlp(luo_arena *a, luo_rng *rng)
{
    luo_hap_mlp_in in = {.batch = 1 + luo_rng_pick(rng, 16),
                         .layers = 1 + (int32_t)luo_rng_pick(rng, 3),
                         .biases = luo_rng_pick(rng, 2)};
    for (int i = 0; i <= in.layers; i++) in.d[i] = (int64_t)between(rng, 1, 64);
    return luo_hap_graphs_mlp(a, &in);
}

static luo_hap_graph *random_encoder(luo_arena *a, luo_rng *rng)
{
    const int64_t heads = 1 + luo_rng_pick(rng, 4);
    const luo_hap_encoder sizes = {.batch = 1 + luo_rng_pick(rng, 8),
                                   .tokens = 1 + luo_rng_pick(rng, 8),
                                   .width = heads * (1 + luo_rng_pick(rng, 8)),
                                   .heads = heads,
                                   .feed_forward = 1 + luo_rng_pick(rng, 64),
                                   .words = 2 + luo_rng_pick(rng, 64)};
    return luo_hap_network_bert(a, &sizes, 1);
}

static luo_hap_numbers random_numbers(luo_rng *rng)
{
    const int32_t count[] = {1 + (int32_t)luo_rng_pick(rng, 3), 1 + (int32_t)luo_rng_pick(rng, 3)};
    const double speed[] = {between(rng, 1e3, 1e7), between(rng, 1e3, 1e7)};
    luo_hap_numbers out = luo_hap_graphs_toy(count, speed, between(rng, .1, 10), 1, 1, 1);
    for (int32_t l = 0; l < LUO_HAP_LINKS; l++)
        out.line[l] =
            (luo_hap_line){luo_rng_pick(rng, 2) ? luo_rng_u(rng) : 0, between(rng, 10, 1e5)};
    if (luo_rng_pick(rng, 2))
        out.line[LUO_HAP_LINK_AG_GROUPED].bandwidth_bytes_s =
            out.line[LUO_HAP_LINK_RS_GROUPED].bandwidth_bytes_s = 0;
    return out;
}

static void random_shares(luo_rng *rng, const luo_hap_numbers *numbers, double *shares)
{
    double sum = 0;
    for (int t = 0; t < 2; t++) {
        shares[t] = luo_rng_pick(rng, 5) ? luo_rng_u(rng) + (t == 0 ? 1e-3 : 0) : t == 0;
        sum += numbers->count[t] * shares[t];
    }
    for (int t = 0; t < 2; t++) shares[t] /= sum;
}

typedef struct walk {
    const luo_hap_space *space;
    const double *cost, *ahead;
    bool *have;
    double best;
    int64_t steps;
} walk;

static bool possible(const walk *w, const luo_hap_triple *t)
{
    for (int32_t p = 0; p < t->npre; p++)
        if (!w->have[t->pre[p]]) return false;
    return true;
}

static void every_choice(walk *w, int32_t o, double g)
{
    if (g + w->ahead[o] >= w->best * (1 - 1e-12)) return;
    if (o == w->space->graph->nops) {
        w->best = g;
        return;
    }
    for (int32_t i = w->space->first[o]; i < w->space->first[o + 1]; i++) {
        const luo_hap_triple *t = &w->space->triple[i];
        bool had[16];
        w->steps++;
        if (!possible(w, t)) continue;
        for (int32_t p = 0; p < t->npost; p++) {
            had[p] = w->have[t->post[p]];
            w->have[t->post[p]] = true;
        }
        every_choice(w, o + 1, g + w->cost[i]);
        for (int32_t p = t->npost; p-- > 0;) w->have[t->post[p]] = had[p];
    }
}

static double least_of_all(luo_arena *a, const luo_hap_space *space, const luo_hap_numbers *numbers,
                           const double *shares, bool look_ahead)
{
    const int32_t nops = space->graph->nops;
    luo_hap_cuts *cuts;
    double *cost = LUO_NEW_N(a, double, space->ntriples), *ahead = LUO_NEW_N(a, double, nops + 1);
    ck_assert_int_eq(luo_hap_program_cuts(a, space, numbers, shares, &cuts, NULL), LUO_OK);
    for (int32_t o = nops; o-- > 0;) {
        double least = INFINITY;
        for (int32_t i = space->first[o]; i < space->first[o + 1]; i++) {
            const luo_hap_stage s = luo_hap_stage_cost(space, numbers, cuts, &space->triple[i]);
            cost[i] = s.compute_s + s.communication_s;
            least = fmin(least, cost[i]);
        }
        ahead[o] = look_ahead ? ahead[o + 1] + least : 0;
    }
    walk w = {space, cost, ahead, LUO_NEW_N(a, bool, space->nfacts), INFINITY, 0};
    every_choice(&w, 0, 0);
    return w.best;
}

static void count_hits(const luo_hap_program *program)
{
    for (int32_t o = 0; o < program->space->graph->nops; o++) {
        const luo_hap_triple *t = &program->space->triple[program->choice[o]];
        for (int32_t j = 0; j < LUO_HAP_OPERANDS; j++) {
            with_factors += t->take[j].how == LUO_HAP_HOW_FACTORS;
            with_moves += t->take[j].how >= LUO_HAP_HOW_GATHER;
        }
    }
}

START_TEST(search_is_brute_force)
{
    LUO_PROP_FOR(seed, GRAPHS)
    {
        luo_rng rng = luo_rng_seed(seed);
        luo_arena *a = luo_arena_new(1 << 16);
        const bool encoder = seed % 10 == 0;
        const luo_hap_graph *graph = encoder ? random_encoder(a, &rng) : random_mlp(a, &rng);
        const luo_hap_numbers numbers = random_numbers(&rng);
        luo_hap_opts opts = {.factors = luo_rng_pick(&rng, 2), .zero = luo_rng_pick(&rng, 4) == 0};
        luo_hap_space *space;
        luo_hap_program *fast, *slow;
        double shares[2];
        random_shares(&rng, &numbers, shares);
        ck_assert_int_eq(luo_hap_space_new(a, graph, &opts, &space, NULL), LUO_OK);
        ck_assert_int_eq(luo_hap_synth(a, space, &numbers, shares, 0, &fast, NULL), LUO_OK);
        count_hits(fast);
        encoders += encoder;
        opts.layers = true;
        luo_hap_space by_layers = *space;
        by_layers.opts = opts;
        ck_assert_int_eq(luo_hap_synth(a, &by_layers, &numbers, shares, 0, &slow, NULL), LUO_OK);
        const double all = least_of_all(a, space, &numbers, shares, encoder);
        ck_assert_msg(fabs(fast->cost_s - all) <= 1e-9 * all &&
                          fabs(slow->cost_s - all) <= 1e-9 * all,
                      "LUO_SEED=%llu LUO_CASES=1: A* %.12g, layers %.12g, all choices %.12g",
                      (unsigned long long)seed, fast->cost_s, slow->cost_s, all);
        luo_arena_free(a);
    }
    printf("%d encoders, %d moves, %d weights by factors\n", encoders, with_moves, with_factors);
    ck_assert_int_gt(with_moves, 0);
    ck_assert_int_gt(with_factors, 0);
}
END_TEST

static double cost_of(luo_arena *a, const luo_hap_graph *graph, const luo_hap_numbers *numbers,
                      uint32_t starts, luo_hap_result **result)
{
    const luo_hap_job job = {.starts = starts, .opts = {.factors = true}};
    luo_err err = {0};
    const luo_status st = luo_hap_alternate(a, graph, numbers, &job, result, &err);
    ck_assert_msg(st == LUO_OK, "%s", err.text);
    return (*result)->cost_s;
}

START_TEST(of_pairs) /* one more start is never worse; no round is better than the answer; units */
{
    LUO_PROP_FOR(seed, PAIRS)
    {
        luo_rng rng = luo_rng_seed(seed);
        luo_arena *a = luo_arena_new(1 << 16);
        const luo_hap_graph *graph = seed % 4 == 0 ? random_encoder(a, &rng) : random_mlp(a, &rng);
        luo_hap_numbers numbers = random_numbers(&rng);
        luo_hap_result *one, *two;
        const double prop = cost_of(a, graph, &numbers, 1u << LUO_HAP_START_PROP, &one);
        const double both = cost_of(a, graph, &numbers, 0, &two);
        ck_assert(both <= prop * (1 + 1e-12));
        for (int32_t i = 0; i < two->rounds; i++) {
            ck_assert(two->round[i].program_s >= both * (1 - 1e-12));
            ck_assert(two->round[i].shares_s >= both * (1 - 1e-12));
        }
        for (int t = 0; t < 2; t++)
            for (int c = 0; c < LUO_HAP_CLASSES; c++) numbers.speed[t][c] *= 2;
        for (int l = 0; l < LUO_HAP_LINKS; l++) {
            numbers.line[l].bandwidth_bytes_s *= 2;
            numbers.line[l].latency_s /= 2;
        }
        ck_assert_msg(fabs(2 * cost_of(a, graph, &numbers, 0, &one) - both) <= 1e-9 * both,
                      "LUO_SEED=%llu LUO_CASES=1", (unsigned long long)seed);
        luo_arena_free(a);
    }
}
END_TEST

enum { POINTS = 41 };

/* Pieces as shares say and padded gathers: then the linear programme is J itself, and no share on a
 * grid is better; with segments on two devices, whose re-shares it has exactly. */
START_TEST(shares_are_the_best)
{
    LUO_PROP_FOR(seed, PAIRS)
    {
        luo_rng rng = luo_rng_seed(seed);
        luo_arena *a = luo_arena_new(1 << 16);
        luo_hap_graph *graph = random_mlp(a, &rng);
        luo_hap_numbers numbers = random_numbers(&rng);
        const luo_hap_opts opts = {.factors = luo_rng_pick(&rng, 2)};
        const bool two = seed % 2;
        luo_hap_space *space;
        luo_hap_program *program;
        double shares[4], best[4], seconds, cost;
        numbers.fractional = true;
        numbers.line[LUO_HAP_LINK_AG_GROUPED].bandwidth_bytes_s =
            numbers.line[LUO_HAP_LINK_RS_GROUPED].bandwidth_bytes_s = 0;
        if (two) {
            numbers.count[0] = numbers.count[1] = 1;
            numbers.line[LUO_HAP_LINK_P2P].latency_s = 0; /* equal shares need no message */
            luo_hap_graph_segment(graph, graph->nops / 2, 1);
        }
        for (int k = 0; k < 2; k++) random_shares(&rng, &numbers, &shares[2 * k]);
        ck_assert_int_eq(luo_hap_space_new(a, graph, &opts, &space, NULL), LUO_OK);
        ck_assert_int_eq(luo_hap_synth(a, space, &numbers, shares, 0, &program, NULL), LUO_OK);
        ck_assert_int_eq(luo_hap_balance(a, program, &numbers, false, shares, best, &seconds, NULL),
                         LUO_OK);
        ck_assert_int_eq(luo_hap_cost(a, program, &numbers, best, &cost, NULL, NULL), LUO_OK);
        ck_assert_msg(fabs(cost - seconds) <= 1e-6 * cost, "LUO_SEED=%llu LUO_CASES=1: %.12g %.12g",
                      (unsigned long long)seed, cost, seconds);
        for (int i = 0; i < POINTS * (two ? POINTS : 1); i++) {
            const double x[] = {(i % POINTS) / (POINTS - 1.), (double)(i / POINTS) / (POINTS - 1)};
            for (int k = 0; k < 2; k++) {
                shares[2 * k] = x[k] / numbers.count[0];
                shares[2 * k + 1] = (1 - x[k]) / numbers.count[1];
            }
            ck_assert_int_eq(luo_hap_cost(a, program, &numbers, shares, &cost, NULL, NULL), LUO_OK);
            ck_assert_msg(cost >= seconds * (1 - 1e-6),
                          "LUO_SEED=%llu LUO_CASES=1: %.12g at %g %g, below %.12g",
                          (unsigned long long)seed, cost, x[0], x[1], seconds);
        }
        luo_arena_free(a);
    }
}
END_TEST

/* The triple of another space that does the same. */
static int32_t same_triple(const luo_hap_space *space, const luo_hap_space *of,
                           const luo_hap_triple *t)
{
    const luo_hap_rule *rule = &of->rule[t->op][t->rule];
    for (int32_t i = space->first[t->op]; i < space->first[t->op + 1]; i++) {
        const luo_hap_triple *other = &space->triple[i];
        const luo_hap_rule *its = &space->rule[t->op][other->rule];
        bool same = its->letter == rule->letter && its->lin == rule->lin;
        for (int32_t j = 0; same && j < LUO_HAP_OPERANDS; j++)
            same = t->take[j].how == other->take[j].how &&
                   luo_rel_same(t->take[j].from, other->take[j].from) &&
                   luo_rel_same(t->take[j].to, other->take[j].to);
        if (same) return i;
    }
    return -1;
}

START_TEST(published_programs_are_not_better) /* at the same shares, by our cost */
{
    LUO_PROP_FOR(seed, PAIRS)
    {
        luo_rng rng = luo_rng_seed(seed);
        luo_arena *a = luo_arena_new(1 << 16);
        const luo_hap_graph *graph = seed % 4 == 0 ? random_encoder(a, &rng) : random_mlp(a, &rng);
        const luo_hap_numbers numbers = random_numbers(&rng);
        const luo_hap_opts opts = {0}, published = {.compat = true};
        luo_hap_space *space, *compat;
        luo_hap_program *ours, *theirs;
        double shares[2], cost;
        random_shares(&rng, &numbers, shares);
        ck_assert_int_eq(luo_hap_space_new(a, graph, &opts, &space, NULL), LUO_OK);
        ck_assert_int_eq(luo_hap_space_new(a, graph, &published, &compat, NULL), LUO_OK);
        ck_assert_int_eq(luo_hap_synth(a, space, &numbers, shares, 0, &ours, NULL), LUO_OK);
        /* published programs end in a sum over devices, which one sample does not give */
        if (luo_hap_synth(a, compat, &numbers, shares, 0, &theirs, NULL) == LUO_ENORULE) {
            luo_arena_free(a);
            continue;
        }
        published_programs++;
        luo_hap_program mapped = {.space = space, .choice = LUO_NEW_N(a, int32_t, graph->nops)};
        for (int32_t o = 0; o < graph->nops; o++) {
            mapped.choice[o] = same_triple(space, compat, &compat->triple[theirs->choice[o]]);
            ck_assert_int_ge(mapped.choice[o], 0);
        }
        ck_assert_int_eq(luo_hap_cost(a, &mapped, &numbers, shares, &cost, NULL, NULL), LUO_OK);
        ck_assert(ours->cost_s <= cost * (1 + 1e-12));
        luo_arena_free(a);
    }
    ck_assert_int_gt(published_programs, PAIRS / 2);
}
END_TEST

LUO_SUITE("hap.search", LUO_T(search_is_brute_force), LUO_T(of_pairs), LUO_T(shares_are_the_best),
          LUO_T(published_programs_are_not_better))
