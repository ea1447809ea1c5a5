/* check_oobleck.c: columns `oobleck` and `oracle` of the computed vectors, their place among the
 * other policies, and every list of templates by hand on small random clusters. */
#include <math.h>

#include "core/base/rng.h"
#include "core/plan/oobleck/oobleck.h"
#include "tests/check_main.h"
#include "tests/malleus_fixture.h"
#include "tests/prop/prop.h"

enum { MAX = 64 };

typedef struct row {
    const char *id;
    const setting *s;
    slow slow[3];
    int32_t groups_per_node, nodes; /* nodes that are left */
    double event;
    int32_t size[4];                  /* of its pipelines; 0 ends */
    double fixed, rebalance, restart; /* the other columns */
    double healthy, oracle;           /* event; ratio */
} row;
static const row rows[] = {
    {"B1", &s70, {{0, 1, 2.57}}, 1, 7, 800, {5, 2}, 1653.40, 980, 836, 700, 1.0096},
    {"B2", &s70, {{0, 1, 12.53}}, 1, 7, 800, {5, 2}, 8019.20, 1260, 836, 700, 1.0146},
    {"B3", &s70, {{0, 1, 1.25}}, 1, 7, 800, {5, 2}, 845, 780, 836, 700, 1.0031},
    {"B4", &s70, {{0, 1, 12.53}, {8, 1, 12.53}, {16, 1, 2.57}}, 1, 5, 1080, {3, 2}, 8269.80, 1260,
     1088, 700, 1.0398},
    {"B5", &s70, {{0, 8, 6.87}, {8, 1, 5.42}}, 1, 6, 917, {3, 3}, 4476.20, 1180, 917, 700, 1.1358},
    {"B6", &s110, {{0, 1, 5.42}}, 1, 7, 808, {4, 3}, 3468.80, 1140, 836, 700, 1.0129},
    {"B7", &s32, {{0, 1, 2.57}}, 4, 3, 375, {1, 1, 1}, 623.25, 330, 525, 285, 1.0195},
    {"B8", &s32, {{0, 8, 2.35}}, 4, 3, 375, {1, 1, 1}, 669.75, 345, 525, 285, 1.1677},
};

/* Event time of the straggler planner for the row. */
static double malleus(luo_arena *a, const row *r, luo_malleus_device *devices)
{
    const luo_malleus_in in = make_in(r->s, devices);
    luo_malleus_found *found;
    luo_err err;
    for (int i = 0; i < 3; i++)
        for (int32_t d = 0; d < r->slow[i].n; d++)
            devices[r->slow[i].first + d].rate = r->slow[i].rate;
    ck_assert_msg(luo_malleus(a, &in, &found, &err) == LUO_OK, "%s: %s", r->id, err.text);
    return found->plans[0].event;
}

START_TEST(policy_row)
{
    const row *r = &rows[_i];
    luo_arena *a = luo_arena_new(1 << 16);
    luo_malleus_device devices[64];
    int32_t first[MAX];
    double y[MAX], work = 0;
    for (int32_t i = 0; i <= r->nodes; i++) first[i] = i * r->groups_per_node;
    for (int i = 0; i < MAX; i++) y[i] = 1;
    const luo_oobleck_in in = {.nnodes = r->nodes, .first = first, .y = y, .layers = r->s->layers,
                               .micro_batches = 64, .least_pipelines = 2, .cap = group_cap,
                               .cap_ctx = r->s->t};
    luo_oobleck_plan p;
    luo_err err;
    ck_assert_msg(luo_oobleck(a, &in, &p, &err) == LUO_OK, "%s: %s", r->id, err.text);
    ck_assert_double_eq_tol(p.event, r->event, 1e-6);
    int64_t m = 0;
    for (int32_t i = 0; i < p.npipes; i++) {
        ck_assert_int_eq(p.pipes[i].nodes, r->size[i]);
        m += p.pipes[i].micro_batches;
    }
    ck_assert(p.npipes == 4 || r->size[p.npipes] == 0);
    ck_assert_int_eq(m, 64);
    const double found = malleus(a, r, devices);
    const int32_t n = r->s->dp * r->s->tp * r->s->pp;
    for (int32_t d = 0; d < n; d++) work += 1 / devices[d].rate;
    ck_assert_double_eq_tol(n / work, r->oracle, 5e-5);
    ck_assert_double_le(r->healthy * n / work, found);
    const double others[] = {r->fixed, r->rebalance, r->restart, p.event};
    for (int i = 0; i < 4; i++) ck_assert_double_le(found, others[i]);
    luo_arena_free(a);
}
END_TEST

/* ---- every list of sizes ---- */

typedef struct pipes {
    int32_t n;
    int32_t size[MAX];
} pipes;

typedef struct trial {
    const luo_oobleck_in *in;
    luo_arena *scratch;
    double best;  /* filled */
    pipes chosen; /* fewest, then the largest first */
} trial;

/* Filled time of one list; INFINITY: it does not fit. */
static double filled(const trial *t, const pipes *p)
{
    const luo_oobleck_in *in = t->in;
    double o[MAX], fill[MAX], worst = 0;
    int64_t lo[MAX], m[MAX], stages = 0;
    for (int32_t i = 0, at = 0; i < p->n; at += p->size[i++]) {
        const int32_t g = in->first[at], S = in->first[at + p->size[i]] - g;
        int64_t cap[MAX], layers[MAX];
        o[i] = fill[i] = 0;
        for (int32_t s = 0; s < S; s++)
            cap[s] = in->cap ? in->cap(in->cap_ctx, g + s, S, s, in->least_pipelines, 0) : 1 << 20;
        if (S > in->layers || luo_plan_split_layers(t->scratch, S, in->y + g, in->layers, cap,
                                                    layers, NULL) != LUO_OK)
            return INFINITY;
        for (int32_t s = 0; s < S; s++) {
            if (layers[s] == 0) return INFINITY;
            o[i] = fmax(o[i], in->y[g + s] * (double)layers[s]);
            fill[i] += in->y[g + s] * (double)layers[s];
        }
        lo[i] = S;
        stages += S;
    }
    for (int32_t i = 0; i < p->n && stages > in->micro_batches; i++) lo[i] = 1;
    if (luo_plan_split_micro_batches(p->n, o, fill, true, in->micro_batches, lo, m, NULL) != LUO_OK)
        return INFINITY;
    for (int32_t i = 0; i < p->n; i++)
        worst = fmax(worst, (double)(m[i] - 1) * o[i] + fill[i]);
    return worst;
}

static void list_all(trial *t, pipes *p, int32_t at)
{
    if (at == t->in->nnodes) {
        if (p->n < t->in->least_pipelines) return;
        if (t->in->most_pipelines > 0 && p->n > t->in->most_pipelines) return;
        const double T = filled(t, p);
        if (T > t->best * (1 + 1e-12) || isinf(T)) return;
        /* lists of one number come by rising sizes, so the last of them begins with the largest */
        if (T < t->best * (1 - 1e-12) || p->n <= t->chosen.n) t->chosen = *p;
        t->best = fmin(t->best, T);
        return;
    }
    for (int32_t k = 1; at + k <= t->in->nnodes; k++) {
        p->size[p->n++] = k;
        list_all(t, p, at + k);
        p->size[--p->n] = 0;
    }
}

/* Least layers a stage takes is free, most falls towards the first stages, as memory does. */
static int64_t random_cap(const void *ctx, int32_t group, int32_t stages, int32_t stage,
                          int32_t pipelines, int64_t micro_batches)
{
    (void)group;
    (void)pipelines;
    (void)micro_batches;
    return *(const int32_t *)ctx - 2 * (stages - stage);
}

static int met_none, met_lists, met_few, met_most;

static void one_cluster(uint64_t seed)
{
    luo_rng r = luo_rng_seed(seed);
    luo_arena *a = luo_arena_new(1 << 16), *scratch = luo_arena_new(1 << 16);
    int32_t first[MAX] = {0}, kind[MAX] = {0}, room = 8 + (int32_t)luo_rng_pick(&r, 40);
    double y[MAX], speed[] = {1, 1 + luo_rng_u(&r), 3};
    const int32_t n = 1 + (int32_t)luo_rng_pick(&r, 9), g = 1 + (int32_t)luo_rng_pick(&r, 3);
    const bool mixed = luo_rng_u(&r) < 0.4;
    for (int32_t i = 0; i < n; i++) {
        kind[i] = mixed ? (int32_t)luo_rng_pick(&r, 3) : 0;
        first[i + 1] = first[i] + (kind[i] == 2 ? 1 : g);
        for (int32_t k = first[i]; k < first[i + 1]; k++) y[k] = speed[kind[i]];
    }
    luo_oobleck_in in = {.nnodes = n, .first = first, .kind = mixed ? kind : NULL, .y = y,
                         .layers = 4 + luo_rng_pick(&r, 30),
                         .micro_batches = 1 + luo_rng_pick(&r, 40),
                         .least_pipelines = 1 + (int32_t)luo_rng_pick(&r, 3),
                         .cap = luo_rng_u(&r) < 0.6 ? random_cap : NULL, .cap_ctx = &room};
    if (luo_rng_u(&r) < 0.4)
        in.most_pipelines = in.least_pipelines + (int32_t)luo_rng_pick(&r, 3);
    trial t = {.in = &in, .scratch = scratch, .best = INFINITY};
    pipes none = {0};
    luo_oobleck_plan p;
    list_all(&t, &none, 0);
    const luo_status st = luo_oobleck(a, &in, &p, NULL);
    met_none += st != LUO_OK;
    ck_assert_msg((st == LUO_OK) == !isinf(t.best), "seed %llu", (unsigned long long)seed);
    if (st == LUO_OK) {
        pipes got = {.n = p.npipes};
        int64_t m = 0;
        for (int32_t i = 0; i < p.npipes; i++) {
            got.size[i] = p.pipes[i].nodes;
            m += p.pipes[i].micro_batches;
            ck_assert_int_ge(p.pipes[i].micro_batches, 1);
        }
        ck_assert_int_eq(m, in.micro_batches);
        ck_assert_double_le(p.event, t.best * (1 + 1e-9));
        ck_assert_double_eq_tol(filled(&t, &got), t.best, 1e-9 * t.best);
        ck_assert_msg(memcmp(&got, &t.chosen, sizeof got) == 0, "seed %llu",
                      (unsigned long long)seed);
        met_lists += p.npipes > in.least_pipelines;
        met_few += in.micro_batches < n;
        met_most += p.npipes == in.most_pipelines;
    }
    luo_arena_free(scratch);
    luo_arena_free(a);
}

START_TEST(all_lists)
{
    LUO_PROP_FOR(seed, 1500) one_cluster(seed);
    if (getenv("LUO_CASES")) return;
    ck_assert_int_gt(met_none, 50);
    ck_assert_int_gt(met_lists, 50);
    ck_assert_int_gt(met_few, 10);
    ck_assert_int_gt(met_most, 50);
}
END_TEST

/* Equal groups without caps: no list has a shorter event time either. */
static double least_event(trial *t, pipes *p, int32_t at)
{
    double best = INFINITY;
    for (int32_t k = 1; at + k <= t->in->nnodes; k++) {
        p->size[p->n++] = k;
        best = fmin(best, least_event(t, p, at + k));
        p->size[--p->n] = 0;
    }
    if (at < t->in->nnodes || p->n < t->in->least_pipelines) return best;
    luo_pipe_time time[MAX];
    int64_t m[MAX];
    for (int32_t i = 0; i < p->n; i++) {
        const int32_t S = p->size[i];
        int64_t layers[MAX];
        double *s = LUO_NEW_N(t->scratch, double, S);
        luo_plan_split_layers(t->scratch, S, t->in->y, t->in->layers, NULL, layers, NULL);
        for (int32_t k = 0; k < S; k++) s[k] = (double)layers[k];
        time[i] = (luo_pipe_time){.stages = S, .t = s};
    }
    luo_replan_rebalance(t->scratch, time, p->n, t->in->micro_batches, false, m, &best, NULL);
    luo_arena_reset(t->scratch, 0);
    return best;
}

START_TEST(no_shorter_event)
{
    for (int32_t n = 2; n <= 8; n++) {
        luo_arena *a = luo_arena_new(1 << 16), *scratch = luo_arena_new(1 << 16);
        int32_t first[MAX];
        double y[MAX];
        for (int32_t i = 0; i < MAX; i++) {
            first[i] = i;
            y[i] = 1;
        }
        const luo_oobleck_in in = {.nnodes = n, .first = first, .y = y, .layers = 17,
                                   .micro_batches = 24, .least_pipelines = 2};
        trial t = {.in = &in, .scratch = scratch};
        pipes none = {0};
        luo_oobleck_plan p;
        ck_assert_int_eq(luo_oobleck(a, &in, &p, NULL), LUO_OK);
        ck_assert_double_eq_tol(p.event, least_event(&t, &none, 0), 1e-9);
        luo_arena_free(scratch);
        luo_arena_free(a);
    }
}
END_TEST

START_TEST(nothing_fits)
{
    luo_arena *a = luo_arena_new(1 << 16);
    luo_err err = {0};
    const int32_t first[] = {0, 1, 2, 3};
    const double y[] = {1, 1, 1};
    const luo_oobleck_in in = {.nnodes = 3, .first = first, .y = y, .layers = 80,
                               .micro_batches = 8, .least_pipelines = 2, .cap = group_cap,
                               .cap_ctx = &k70};
    luo_oobleck_plan p;
    ck_assert_int_eq(luo_oobleck(a, &in, &p, &err), LUO_EINFEASIBLE);
    ck_assert_str_eq(err.text, "no 2 pipelines of whole nodes hold 80 layers on 3 nodes; more "
                               "nodes, `recompute` or `zero` 1 are needed.");
    luo_arena_free(a);
}
END_TEST

/* Many nodes: seconds would be too long between two steps. */
START_TEST(two_thousand_nodes)
{
    enum { NODES = 2047 };
    static int32_t first[NODES + 1];
    static double y[NODES];
    luo_arena *a = luo_arena_new(1 << 16);
    for (int32_t i = 0; i <= NODES; i++) first[i] = i;
    for (int32_t i = 0; i < NODES; i++) y[i] = 1;
    const luo_oobleck_in in = {.nnodes = NODES, .first = first, .y = y, .layers = 126,
                               .micro_batches = 4096, .least_pipelines = 2};
    luo_oobleck_plan p;
    ck_assert_int_eq(luo_oobleck(a, &in, &p, NULL), LUO_OK);
    int32_t nodes = 0;
    for (int32_t i = 0; i < p.npipes; i++) nodes += p.pipes[i].nodes;
    ck_assert_int_eq(nodes, NODES);
    ck_assert_double_ge(p.event, 126 * 4096.0 / NODES);
    luo_arena_free(a);
}
END_TEST
LUO_SUITE("plan.oobleck", LUO_T_N(policy_row, LUO_ROWS(rows)), LUO_T(all_lists),
          LUO_T(no_shorter_event), LUO_T(nothing_fits), LUO_T(two_thousand_nodes))
