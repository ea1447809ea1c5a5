/* check_slow.c: replicas that are cut around slow devices, or leave them idle, for uneven lengths.
 */
#include <math.h>
#include <string.h>

#include "core/plan/hydraulis/pool_model_internal.h"
#include "core/plan/hydraulis/pool_split.h"
#include "core/plan/length_policies/length_slow.h"
#include "core/plan/lengths/lengths.h"
#include "core/plan/planners.h"
#include "tests/check_main.h"
#include "tests/cost_fixture.h"
#include "tests/prop/prop.h"

enum { DEVICES = 8, CTX = 32768, MOST_STAGES = 4 };

typedef struct fixture {
    luo_arena *arena;
    luo_model model;
    luo_profile profile;
    luo_node_group group;
    luo_cluster cluster;
    luo_stack stack;
    int32_t devices[DEVICES];
} fixture;

static void open_fixture(fixture *f, int64_t layers, int64_t hidden)
{
    *f = (fixture){.arena = luo_arena_new(1 << 20), .profile = luo_ref_profile()};
    f->model = (luo_model){.name = "m",
                           .family = LUO_FAMILY_LLAMA,
                           .layers = layers,
                           .hidden = hidden,
                           .ffn_hidden = hidden * 11 / 4,
                           .heads = hidden / 128,
                           .kv_heads = hidden / 128,
                           .head_dim = 128,
                           .vocab = 30592,
                           .activation = LUO_ACT_SWIGLU,
                           .norm = LUO_NORM_RMS,
                           .max_sequence_tokens = CTX,
                           .causal = true,
                           .dtype = LUO_BF16};
    f->group = luo_test_group("n", 2, DEVICES / 2, &f->profile);
    f->cluster = luo_test_cluster(f->arena, &f->group, 1);
    luo_stack_default(&f->stack);
    for (int32_t d = 0; d < DEVICES; d++) f->devices[d] = d;
}

static luo_pool_model_in pool_in(const fixture *f)
{
    return (luo_pool_model_in){.model = &f->model,
                               .cluster = &f->cluster,
                               .stack = &f->stack,
                               .ndevices = DEVICES,
                               .devices = f->devices,
                               .ctx = CTX};
}

static luo_pool_entry split_of(const fixture *f, luo_pool_entry of, const double *rate, bool keep)
{
    const luo_pool_model_in in = pool_in(f);
    luo_pool_entry e;
    luo_err err = {0};
    const luo_status st = luo_pool_split_make(f->arena, &in, &of, f->devices, rate, keep, &e, &err);
    ck_assert_msg(st == LUO_OK, "%s", err.text);
    return e;
}

/* ---- which stages ---- */

typedef struct cut_row {
    int32_t tp, cp, pp;
    bool keep;
    double rate[DEVICES];
    int32_t n, first[6], width[6]; /* 0: there is no such strategy */
} cut_row;

static const cut_row cuts[] = {
    {4, 1, 1, true, {1, 1, 1, 2.5}, 3, {0, 2, 3}, {2, 1, 1}},
    {4, 1, 1, false, {1, 1, 1, 2.5}, 2, {0, 2}, {2, 1}},
    {4, 1, 1, true, {1, 1.1, 2, 2.5}, 3, {0, 2, 3}, {2, 1, 1}},
    {4, 1, 1, true, {1, 1, 1, 500}, 2, {0, 2}, {2, 1}}, /* not a layer for such a one */
    {8, 1, 1, true, {1, 1, 1, 1, 1, 1, 1, 1.5}, 4, {0, 4, 6, 7}, {4, 2, 1, 1}},
    {8, 1, 1, false, {1, 1, 1, 1, 1, 1, 1.3, 3}, 2, {0, 4}, {4, 2}},
    {2, 1, 2, true, {1, 1, 1, 1.2}, 3, {0, 2, 3}, {2, 1, 1}},
    {1, 1, 3, true, {1, 1.2, 1}, 3, {0, 1, 2}, {1, 1, 1}},
    {1, 1, 3, false, {1, 1.2, 1}, 2, {0, 2}, {1, 1}},
    {4, 1, 1, true, {1, 1, 1, 1.19}, 0, {0}, {0}}, /* noise */
    {4, 1, 1, true, {1, 2.5, 1, 1}, 0, {0}, {0}},  /* a slow one before another */
    {2, 2, 1, true, {1, 1, 1, 2.5}, 0, {0}, {0}},  /* context-parallel */
    {1, 1, 2, false, {2.5, 2.5}, 0, {0}, {0}},     /* nobody is left */
};

START_TEST(stages)
{
    const cut_row *row = &cuts[_i];
    fixture f;
    open_fixture(&f, 16, 2048);
    const luo_pool_entry e = split_of(
        &f, (luo_pool_entry){.tp = row->tp, .cp = row->cp, .pp = row->pp}, row->rate, row->keep);
    ck_assert_int_eq(e.cap > 0, row->n > 0);
    ck_assert_int_eq(e.split ? e.pp : 0, row->n);
    int32_t layers = 0;
    for (int32_t s = 0; s < row->n; s++) {
        ck_assert_int_eq(e.split->first[s], row->first[s]);
        ck_assert_int_eq(e.split->width[s], row->width[s]);
        ck_assert_int_ge(e.split->layers[s], 1);
        layers += e.split->layers[s];
    }
    ck_assert_int_eq(layers, row->n ? 16 : 0);
    if (row->n) {
        const luo_replicas plan = {1, &(luo_replica){.entry = 0}};
        luo_pool_entry copy = e;
        luo_step_speeds(&(luo_pool){1, &copy}, &plan, row->rate);
        ck_assert_double_eq(plan.replica[0].mu, 1); /* its costs have the speeds */
        ck_assert_int_eq(luo_pool_devices(&e), row->tp * row->pp);
    }
    luo_arena_free(f.arena);
}
END_TEST

/* ---- layers ---- */

/* Slowest stage with these layers, at the tokens by which layers are dealt. */
static double slowest(const fixture *f, const luo_pool_split *split, int32_t n, const double *rate,
                      const int32_t *layers)
{
    const luo_pool_model_in in = pool_in(f);
    double most = 0;
    for (int32_t s = 0; s < n; s++) {
        luo_pool_parts parts;
        double slow = 0;
        ck_assert_int_eq(luo_pool_parts_of(&in, split->width[s], f->devices + split->first[s],
                                           LUO_POOL_SPEED_TOKENS, &parts, NULL),
                         LUO_OK);
        for (int32_t i = 0; i < split->width[s]; i++) slow = fmax(slow, rate[split->first[s] + i]);
        most = fmax(most, slow * (layers[s] * parts.layer + (s == 0 ? parts.embedding : 0) +
                                  (s == n - 1 ? parts.head : 0)));
    }
    return most;
}

/* Every division in which each stage has a layer. */
static double least(const fixture *f, const luo_pool_split *split, int32_t n, const double *rate,
                    int32_t *layers, int32_t s, int32_t left)
{
    if (s == n - 1) {
        layers[s] = left;
        return slowest(f, split, n, rate, layers);
    }
    double best = INFINITY;
    for (layers[s] = 1; layers[s] <= left - (n - 1 - s); layers[s]++) {
        const int32_t mine = layers[s];
        best = fmin(best, least(f, split, n, rate, layers, s + 1, left - mine));
        layers[s] = mine;
    }
    return best;
}

START_TEST(layers_are_the_best)
{
    enum { CASES = 40, LAYERS = 12 };
    int tried = 0, cases = 0;
    LUO_PROP_FOR(seed, CASES)
    {
        luo_rng rng = luo_rng_seed(seed);
        fixture f;
        double rate[DEVICES];
        int32_t layers[DEVICES];
        open_fixture(&f, LAYERS, 1024);
        cases++;
        const int32_t tp = 2 << luo_rng_pick(&rng, 3), slow = 1 + (int32_t)luo_rng_pick(&rng, 2);
        for (int32_t i = 0; i < tp; i++) rate[i] = i < tp - slow ? 1 : 1.2 + 3 * luo_rng_u(&rng);
        const luo_pool_entry e =
            split_of(&f, (luo_pool_entry){.tp = tp, .cp = 1, .pp = 1}, rate, luo_rng_pick(&rng, 2));
        if (e.cap > 0 && e.pp <= MOST_STAGES) {
            const double got = slowest(&f, e.split, e.pp, rate, e.split->layers);
            const double want = least(&f, e.split, e.pp, rate, layers, 0, LAYERS);
            ck_assert_msg(got <= want * (1 + 1e-12), "seed %llu: %g, best %g",
                          (unsigned long long)seed, got, want);
            tried++;
        }
        luo_arena_free(f.arena);
    }
    ck_assert_int_gt(3 * tried, cases);
}
END_TEST

/* ---- candidates ---- */

static double step_ms(const fixture *f, const luo_length_setup *s, const luo_step_opts *opts,
                      const int64_t *length, int32_t n, luo_step_plan *out)
{
    luo_err err = {0};
    const luo_status st =
        luo_step_choose(f->arena, &s->pool, s->found.plan, s->found.n, length, n, opts, out, &err);
    ck_assert_msg(st == LUO_OK, "%s", err.text);
    return out->sum;
}

static void check_candidates(const luo_length_setup *before, const luo_length_setup *after)
{
    int32_t fewer = 0, cut = 0;
    for (int32_t p = 0; p < after->found.n; p++) {
        const luo_replicas *plan = &after->found.plan[p];
        int32_t devices = 0;
        bool split = false;
        int64_t longest = 0;
        for (int32_t r = 0; r < plan->n; r++) {
            const luo_pool_entry *e = &after->pool.entry[plan->replica[r].entry];
            devices += luo_pool_devices(e);
            split |= e->split != NULL;
            longest = e->cap > longest ? e->cap : longest;
            ck_assert(!e->split || plan->replica[r].mu == 1);
        }
        ck_assert_int_le(devices, DEVICES);
        ck_assert_int_eq(after->found.longest[p], longest);
        if (p < before->found.n) ck_assert(plan->replica == before->found.plan[p].replica);
        cut += split;
        fewer += devices < DEVICES && !split && p >= before->found.n;
    }
    ck_assert_int_gt(cut, 0);
    ck_assert_int_gt(fewer, 0);
}

/* 13B on eight devices, one of them 2.57 times slower: by the pool, a replica that is cut around it
 * takes at least 4 % off the step. */
START_TEST(cut_is_faster)
{
    enum { TOKENS = 200000, LIMIT = 100000 };
    const double rate[DEVICES] = {1, 1, 1, 1, 1, 1, 1, 2.57};
    luo_length_part parts[LUO_PRESET_PARTS];
    luo_lengths lengths;
    luo_length_setup whole, cut;
    luo_err err = {0};
    fixture f;
    open_fixture(&f, 40, 5120);
    ck_assert(luo_length_preset("syn-web", CTX, parts, &lengths));
    const luo_length_setup_in in = {.model = &f.model,
                                    .cluster = &f.cluster,
                                    .stack = &f.stack,
                                    .ndevices = DEVICES,
                                    .devices = f.devices,
                                    .lengths = &lengths,
                                    .rule = {.tokens = TOKENS, .most = CTX},
                                    .limit = LIMIT,
                                    .seed = 5,
                                    .step = {.current = -1, .kicks = 4, .most = 16}};
    ck_assert_msg(luo_length_setup_make(f.arena, &in, &whole, &err) == LUO_OK, "%s", err.text);
    luo_length_setup_rates(&whole, rate);
    luo_length_setup_copy(&cut, &whole);
    ck_assert_msg(luo_length_slow_add(f.arena, &in, rate, &cut, &err) == LUO_OK, "%s", err.text);
    check_candidates(&whole, &cut);
    luo_length_source source = luo_length_source_open(11);
    double before = 0, after = 0;
    for (int k = 0; k < 2; k++) {
        int64_t *length;
        int32_t n;
        luo_step_plan plan;
        ck_assert_int_eq(
            luo_lengths_batch(f.arena, &lengths, &in.rule, LIMIT, &source, &length, &n, &err),
            LUO_OK);
        before += step_ms(&f, &whole, &in.step, length, n, &plan);
        after += step_ms(&f, &cut, &in.step, length, n, &plan);
        ck_assert_int_ge(plan.plan, whole.found.n);
    }
    ck_assert_msg(after < 0.96 * before, "%g ms, %g without", after, before);
    luo_arena_free(f.arena);
}
END_TEST
/* J4, J5: the slowest stage beside one of equal layers, where layers follow the speeds. */
START_TEST(layers_by_speed)
{
    static const struct {
        double y[4], slowest, mu;
        int64_t layers;
    } rows[] = {{{2, 1, 1, 1}, 10, 1.25, 32}, {{2.57, 1, 1, 1}, 18, 1.2, 60}};
    for (int i = 0; i < LUO_ROWS(rows); i++) {
        int64_t at[4], all = 0;
        double o = 0;
        ck_assert_int_eq(
            luo_plan_minmax(4, rows[i].y, NULL, rows[i].layers, NULL, NULL, at, NULL, NULL),
            LUO_OK);
        for (int s = 0; s < 4; s++) {
            o = fmax(o, rows[i].y[s] * (double)at[s]);
            all += at[s];
        }
        ck_assert_int_eq(all, rows[i].layers);
        ck_assert_double_eq_tol(o, rows[i].slowest, 1e-12);
        ck_assert_double_eq_tol(o / ((double)rows[i].layers / 4), rows[i].mu, 1e-12);
    }
}
END_TEST

LUO_SUITE("plan.slow", LUO_T_N(stages, LUO_ROWS(cuts)), LUO_T(layers_by_speed),
          LUO_T(layers_are_the_best), LUO_T(cut_is_faster))
