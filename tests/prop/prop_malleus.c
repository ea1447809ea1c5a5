/* prop_malleus.c: what holds of the straggler planner on random clusters,
 * and its local search beside the exhaustive one. */
#include <math.h>

#include "core/plan/malleus/malleus_internal.h"
#include "tests/check_main.h"
#include "tests/malleus_check.h"
#include "tests/malleus_fixture.h"
#include "tests/prop/prop.h"

enum { NODES = 8, PER_NODE = 8, DEVICES = NODES * PER_NODE, KINDS = 2 };

typedef struct cluster {
    luo_malleus_device devices[DEVICES];
    luo_malleus_kind kinds[KINDS];
    table t;
    luo_malleus_in in;
} cluster;

static double draw_rate(luo_rng *r, double share)
{
    static const double rates[] = {1.3, 2, 2.57, 12.53};
    if (luo_rng_u(r) >= share) return 1 + 0.15 * luo_rng_u(r);
    return luo_rng_u(r) < 0.5 ? rates[luo_rng_pick(r, 4)] : 1.2 + 4 * luo_rng_u(r);
}

/* Some nodes of eight, some with devices missing; of one kind or two. */
static void draw(luo_rng *r, cluster *c)
{
    const int32_t nodes = 2 + (int32_t)luo_rng_pick(r, NODES - 1);
    const double share = luo_rng_u(r) * 0.15, missing = luo_rng_u(r) < 0.5 ? 0 : 0.1;
    int32_t n = 0;
    *c = (cluster){.kinds = {kind70, {1 + luo_rng_u(r), alpha70}}, .t = k70};
    for (int32_t d = 0; d < nodes * PER_NODE; d++) {
        if (n > 0 && luo_rng_u(r) < missing) continue;
        const int32_t kind = d / PER_NODE % 2 * (share < 0.05);
        c->devices[n++] = (luo_malleus_device){d, d / PER_NODE, kind, draw_rate(r, share)};
    }
    c->in = (luo_malleus_in){.ndevices = n, .devices = c->devices, .nkinds = KINDS,
                             .kinds = c->kinds, .dp = 1 + (int32_t)luo_rng_pick(r, 4),
                             .tp = 1 << (1 + luo_rng_pick(r, 3)), .pp = 4,
                             .layers = 20 + luo_rng_pick(r, 60),
                             .micro_batches = 4 + luo_rng_pick(r, 60), .threshold = 1.2,
                             .rank = (luo_malleus_rank)luo_rng_pick(r, 3),
                             .split2 = luo_rng_u(r) < 0.3, .seed = luo_rng_next(r)};
    if (luo_rng_u(r) < 0.3) c->in.dp = 9; /* no assignment of all */
    if (luo_rng_u(r) < 0.5) {
        c->t.tp = c->in.tp;
        c->in.cap = table_cap;
        c->in.cap_ctx = &c->t;
        c->in.max_stages = c->t.n;
    }
    if (c->in.micro_batches < c->in.dp) c->in.micro_batches = c->in.dp;
}

static const luo_malleus_found *find(luo_arena *a, const luo_malleus_in *in)
{
    luo_malleus_found *f = NULL;
    const luo_status st = luo_malleus(a, in, &f, NULL);
    ck_assert(st == LUO_OK || st == LUO_EINFEASIBLE);
    return f;
}

/* The nodes and the devices of each in another order, under other numbers. */
static void shuffle(luo_rng *r, const cluster *from, cluster *to)
{
    int32_t node[NODES], n = 0;
    *to = *from;
    to->in.devices = to->devices;
    to->in.kinds = to->kinds;
    if (from->in.cap) to->in.cap_ctx = &to->t;
    for (int32_t i = 0; i < NODES; i++) {
        const int64_t k = luo_rng_pick(r, i + 1);
        node[i] = node[k];
        node[k] = i;
    }
    for (int32_t i = 0; i < NODES; i++) {
        const int32_t first = n;
        for (int32_t d = 0; d < from->in.ndevices; d++) {
            if (from->devices[d].node != node[i]) continue;
            const int64_t k = first + luo_rng_pick(r, n + 1 - first);
            to->devices[n] = to->devices[k];
            to->devices[k] = from->devices[d];
            to->devices[k].node = 3 * i;
            n++;
        }
    }
    for (int32_t d = 0; d < n; d++) to->devices[d].device = 2 * d + 1;
}

static void check_same(const luo_malleus_found *a, const luo_malleus_found *b, int seed)
{
    ck_assert_msg(!a == !b, "seed %d", seed);
    if (!a) return;
    ck_assert_msg(a->n == b->n && a->dp == b->dp && a->few == b->few, "seed %d", seed);
    ck_assert_double_eq(a->bound, b->bound);
    for (int32_t k = 0; k < a->n; k++) {
        ck_assert_msg(a->plans[k].steady == b->plans[k].steady, "seed %d plan %d", seed, k);
        ck_assert_msg(a->plans[k].filled == b->plans[k].filled, "seed %d plan %d", seed, k);
        ck_assert_msg(a->plans[k].event == b->plans[k].event, "seed %d plan %d", seed, k);
    }
}

/* Equal in every byte that is not an address. */
static void check_equal(const luo_malleus_found *a, const luo_malleus_found *b, int seed)
{
    check_same(a, b, seed);
    if (!a) return;
    for (int32_t k = 0; k < a->n; k++)
        for (int32_t i = 0; i < a->dp; i++) {
            const luo_malleus_pipe *p = &a->plans[k].pipes[i], *q = &b->plans[k].pipes[i];
            ck_assert(p->nstages == q->nstages && p->micro_batches == q->micro_batches);
            for (int32_t j = 0; j < p->nstages; j++) {
                const luo_malleus_stage *s = &p->stages[j], *t = &q->stages[j];
                ck_assert(s->lo == t->lo && s->hi == t->hi && s->cap == t->cap && s->t == t->t);
                ck_assert_int_eq(s->group->size, t->group->size);
                ck_assert_mem_eq(s->group->devices, t->group->devices,
                                 (size_t)s->group->size * sizeof(int32_t));
            }
        }
    ck_assert_mem_eq(&a->search, &b->search, sizeof a->search);
}

START_TEST(any_cluster)
{
    int plans = 0, local = 0;
    LUO_PROP_FOR(seed, luo_prop_few(20, 40))
    {
        luo_rng r = luo_rng_seed(seed);
        luo_arena *a = luo_arena_new(0);
        cluster c, other;
        draw(&r, &c);
        const luo_malleus_found *f = find(a, &c.in);
        check_equal(f, find(a, &c.in), (int)seed);
        shuffle(&r, &c, &other);
        check_same(f, find(a, &other.in), (int)seed);
        for (int32_t k = 0; f && k < f->n; k++) {
            check_plan(&c.in, &f->plans[k]);
            ck_assert_double_ge(f->plans[k].steady, f->bound * (1 - 1e-9));
        }
        plans += f != NULL;
        local += f && !f->search.exhaustive;
        luo_arena_free(a);
    }
    ck_assert_int_gt(plans, 0);
    ck_assert_int_gt(local, 0);
}
END_TEST

/* Groups of one device; many micro-batches, so that no pipeline has fewer than stages. */
static void draw_single(luo_rng *r, cluster *c, int32_t most)
{
    static const double one[] = {1};
    const int32_t n = 2 + (int32_t)luo_rng_pick(r, most - 1);
    *c = (cluster){.kinds = {{1, one}, {1.7, one}}};
    for (int32_t d = 0; d < n; d++)
        c->devices[d] = (luo_malleus_device){d, d, (int32_t)luo_rng_pick(r, 2),
                                             luo_rng_u(r) < 0.5 ? 1 : 1.2 + 2 * luo_rng_u(r)};
    c->in = (luo_malleus_in){.ndevices = n, .devices = c->devices, .nkinds = KINDS,
                             .kinds = c->kinds, .dp = 1 + (int32_t)luo_rng_pick(r, n < 3 ? n : 3),
                             .tp = 1, .pp = 1, .layers = n + luo_rng_pick(r, 30),
                             .micro_batches = 50 * n, .threshold = 1.2, .rank = LUO_RANK_STEADY};
}

typedef struct caps {
    int64_t more, each;
} caps;

static int64_t cap_of(const void *ctx, int32_t kind, int32_t size, int32_t stages, int32_t stage,
                      int32_t pipelines)
{
    (void)size, (void)pipelines;
    const caps *m = ctx;
    const int64_t cap = 12 - 3 * kind + m->more - m->each * (stages - stage);
    return cap > 0 ? cap : 0;
}

static double steady(luo_arena *a, const luo_malleus_in *in)
{
    const luo_malleus_found *f = find(a, in);
    if (!f || f->dp < in->dp) return INFINITY;
    ck_assert(f->search.exhaustive && !f->few);
    return f->plans[0].steady;
}

START_TEST(monotone)
{
    int slower = 0, tighter = 0;
    LUO_PROP_FOR(seed, luo_prop_few(50, 100))
    {
        luo_rng r = luo_rng_seed(seed);
        luo_arena *a = luo_arena_new(0);
        cluster c;
        draw_single(&r, &c, 7);
        const double t = steady(a, &c.in);
        const int64_t d = luo_rng_pick(&r, c.in.ndevices);
        const double was = c.devices[d].rate;
        c.devices[d].rate = fmax(was, 1.2) * (1 + luo_rng_u(&r));
        const double after = steady(a, &c.in);
        ck_assert_msg(after >= t * (1 - 1e-12), "seed %d: a slower device saves time", (int)seed);
        slower += after > t;
        c.devices[d].rate = was;
        const caps tight = {0, luo_rng_pick(&r, 2)}, wide = {1 + luo_rng_pick(&r, 4), tight.each};
        c.in.cap = cap_of;
        c.in.cap_ctx = &tight;
        const double with = steady(a, &c.in);
        c.in.cap_ctx = &wide;
        const double wider = steady(a, &c.in);
        ck_assert_msg(wider <= with * (1 + 1e-12), "seed %d: more memory costs time", (int)seed);
        ck_assert_msg(t <= wider * (1 + 1e-12), "seed %d: no limit costs time", (int)seed);
        tighter += with > wider && wider < INFINITY;
        luo_arena_free(a);
    }
    ck_assert_int_gt(slower, 0);
    ck_assert_int_gt(tighter, 0);
}
END_TEST

START_TEST(healthy)
{
    LUO_PROP_FOR(seed, luo_prop_few(100, 200))
    {
        luo_rng r = luo_rng_seed(seed);
        luo_arena *a = luo_arena_new(0);
        static luo_malleus_device d[DEVICES];
        setting s = {&kind70, NULL, 1, 1 << luo_rng_pick(&r, 4), 1, 0, 0};
        s.dp = 1 + (int32_t)luo_rng_pick(&r, 4);
        s.pp = 1 + (int32_t)luo_rng_pick(&r, DEVICES / s.tp / s.dp < 4 ? DEVICES / s.tp / s.dp : 4);
        s.layers = s.pp + luo_rng_pick(&r, 40);
        s.micro_batches = s.dp * s.pp + luo_rng_pick(&r, 40);
        const luo_malleus_in in = make_in(&s, d);
        const luo_malleus_found *f = find(a, &in);
        const double o = ceil((double)s.layers / s.pp), m = ceil((double)s.micro_batches / s.dp);
        ck_assert_ptr_nonnull(f);
        ck_assert_msg(f->search.skipped && f->plans[0].steady == o * m, "seed %d", (int)seed);
        check_plan(&in, &f->plans[0]);
        luo_arena_free(a);
    }
}
END_TEST

/* One search of one mix: by all assignments, or by the local search. */
static double search(luo_arena *a, const cluster *c, bool local)
{
    luo_mal_node *nodes;
    int32_t n;
    luo_mal_search s = {.arena = a, .in = &c->in, .dp = c->in.dp,
                        .rng = luo_rng_stream(c->in.seed, "malleus")};
    ck_assert_int_eq(luo_mal_nodes(a, &c->in, &nodes, &n, NULL), LUO_OK);
    bool all;
    ck_assert_int_eq(luo_mal_mixes(a, &c->in, nodes, n, &s.mixes, &s.nmixes, &all, NULL), LUO_OK);
    ck_assert_int_eq(luo_mal_tops(&s, NULL), LUO_OK);
    ck_assert_int_eq(luo_mal_memo(&s, NULL), LUO_OK);
    if (local) ck_assert_int_eq(luo_mal_local(&s, s.mixes, NULL), LUO_OK);
    else ck_assert(luo_mal_deal(&s, s.mixes));
    return luo_mal_best(&s);
}

/* The local search is never better, and seldom worse. */
START_TEST(local_search)
{
    int n = 0, same = 0;
    double worst = 1;
    LUO_PROP_FOR(seed, luo_prop_few(50, 100))
    {
        luo_rng r = luo_rng_seed(seed);
        luo_arena *a = luo_arena_new(0);
        cluster c;
        const caps m = {4, 1};
        draw_single(&r, &c, 12);
        c.in.rank = luo_rng_u(&r) < 0.5 ? LUO_RANK_STEADY : LUO_RANK_FILLED;
        c.in.dp = 2 + (c.in.ndevices > 5);
        if (luo_rng_u(&r) < 0.5) c.in.cap = cap_of;
        c.in.cap_ctx = &m;
        const double all = search(a, &c, false), local = search(a, &c, true);
        ck_assert_msg(local >= all * (1 - 1e-12), "seed %d: %.9f, all %.9f", (int)seed, local, all);
        luo_arena_free(a);
        if (all == INFINITY) continue;
        n++;
        same += local <= all * (1 + 1e-12);
        worst = fmax(worst, local / all);
    }
    printf("local search: %d of %d as good as all dealings, worst %.4f\n", same, n, worst);
    ck_assert_int_gt(n, 0);
    ck_assert_int_ge(100 * same, 80 * n);
    ck_assert_double_le(worst, 1.05);
}
END_TEST

/* ---- many slow nodes ---- */

/* 3 to 8 slow devices, on nodes of their own, with rates of their own. */
static luo_malleus_in many_slow(luo_rng *r, luo_malleus_device *d, int32_t most)
{
    static const setting *const all[] = {&s70, &s110, &s32};
    const setting *s = all[luo_rng_pick(r, 3)];
    luo_malleus_in in = make_in(s, d);
    const int32_t nodes = in.ndevices / 8, n = 3 + (int32_t)luo_rng_pick(r, most - 2);
    for (int32_t k = 0; k < n && k < nodes; k++)
        d[8 * k + luo_rng_pick(r, 8)].rate = 1.2 + 4 * luo_rng_u(r);
    in.rank = luo_rng_u(r) < 0.5 ? LUO_RANK_STEADY : LUO_RANK_FILLED;
    return in;
}

static double rank_value(const luo_malleus_in *in, const luo_malleus_found *f)
{
    return in->rank == LUO_RANK_STEADY ? f->plans[0].steady : f->plans[0].event;
}

/* More combinations are never worse than three, and split2 is never worse than without. */
START_TEST(more_is_never_worse)
{
    int many = 0, gained = 0, split = 0;
    double most = 1;
    LUO_PROP_FOR(seed, luo_prop_few(20, 40))
    {
        static luo_malleus_device d[DEVICES];
        luo_rng r = luo_rng_stream(seed, "many");
        luo_arena *a = luo_arena_new(0);
        luo_malleus_in in = many_slow(&r, d, 8);
        in.quick = true;
        const luo_malleus_found *few = find(a, &in);
        in.quick = false;
        const luo_malleus_found *f = find(a, &in);
        in.split2 = true;
        const luo_malleus_found *two = find(a, &in);
        ck_assert(few && f && two);
        const double was = rank_value(&in, few), now = rank_value(&in, f);
        ck_assert_msg(now <= was * (1 + 1e-12), "seed %d: %.9f, before %.9f", (int)seed, now, was);
        ck_assert_msg(rank_value(&in, two) <= now * (1 + 1e-12), "seed %d: split2 %.9f, without "
                      "%.9f", (int)seed, rank_value(&in, two), now);
        check_plan(&in, &f->plans[0]);
        check_plan(&in, &two->plans[0]);
        many += !few->search.exhaustive;
        gained += now < was * (1 - 1e-9);
        split += rank_value(&in, two) < now * (1 - 1e-9);
        most = fmax(most, was / now);
        luo_arena_free(a);
    }
    printf("more than 27 combinations or dealings: %d; better than before %d, by up to %.1f %%; "
           "split2 better %d\n", many, gained, 100 * (most - 1), split);
    ck_assert_int_gt(many, 0);
    ck_assert_int_gt(gained, 0);
}
END_TEST

/* The twin: every combination of every alternative, each with all its assignments. */
static double all_combinations(luo_arena *a, const luo_malleus_in *in, int *ways)
{
    luo_mal_node *nodes;
    int32_t n, choice[DEVICES] = {0};
    double best = INFINITY;
    ck_assert_int_eq(luo_mal_nodes(a, in, &nodes, &n, NULL), LUO_OK);
    for (*ways = 0;;) {
        luo_mal_mix mix;
        luo_mal_search s = {.arena = a, .in = in, .dp = in->dp, .nmixes = 1, .mixes = &mix,
                            .rng = luo_rng_stream(in->seed, "malleus")};
        ck_assert_int_eq(luo_mal_mix_of(a, in, nodes, n, choice, &mix, NULL), LUO_OK);
        ck_assert_int_eq(luo_mal_tops(&s, NULL), LUO_OK);
        ck_assert_int_eq(luo_mal_memo(&s, NULL), LUO_OK);
        if (!luo_mal_deal(&s, &mix)) ck_assert_int_eq(luo_mal_local(&s, &mix, NULL), LUO_OK);
        best = fmin(best, luo_mal_best(&s));
        ++*ways;
        int32_t i = 0;
        while (i < n && ++choice[i] == nodes[i].nalts) choice[i++] = 0;
        if (i == n) return best;
    }
}

/* By the objective of the rank: filled, before plans are ordered by event time. */
START_TEST(near_all_combinations)
{
    int cases = 0, same = 0, most_ways = 0;
    double worst = 1;
    LUO_PROP_FOR(seed, luo_prop_few(6, 12))
    {
        static luo_malleus_device d[DEVICES];
        luo_rng r = luo_rng_stream(seed, "twin");
        luo_arena *a = luo_arena_new(0);
        luo_malleus_in in = many_slow(&r, d, 5);
        int ways;
        const double all = all_combinations(a, &in, &ways);
        const luo_malleus_found *f = find(a, &in);
        double best = INFINITY;
        for (int32_t k = 0; k < f->n; k++)
            best = fmin(best, in.rank == LUO_RANK_STEADY ? f->plans[k].steady : f->plans[k].filled);
        cases++;
        same += best <= all * (1 + 1e-12);
        worst = fmax(worst, best / all);
        if (ways > most_ways) most_ways = ways;
        luo_arena_free(a);
    }
    printf("as good as all combinations (up to %d): %d of %d, worst %.4f\n", most_ways, same,
           cases, worst);
    ck_assert_int_gt(most_ways, 27);
    ck_assert_int_ge(4 * same, 3 * cases);
    ck_assert_double_le(worst, 1.03);
}
END_TEST

/* A further slow device, anywhere: the plan takes no longer. */
START_TEST(slow_devices_never_hurt)
{
    int helped = 0, idle = 0;
    LUO_PROP_FOR(seed, luo_prop_few(50, 100))
    {
        static luo_malleus_device d[DEVICES], with[DEVICES + 1];
        luo_rng r = luo_rng_stream(seed, "further");
        luo_arena *a = luo_arena_new(0);
        setting s = {&kind70, luo_rng_u(&r) < 0.5 ? &k70 : NULL,
                     1 + (int32_t)luo_rng_pick(&r, 2), 8, 4, 80, 16 + luo_rng_pick(&r, 48)};
        luo_malleus_in in = make_in(&s, d);
        const int32_t n = (int32_t)luo_rng_pick(&r, 3);
        for (int32_t k = 0; k < n; k++)
            d[luo_rng_pick(&r, in.ndevices)].rate = 1.2 + 4 * luo_rng_u(&r);
        in.rank = luo_rng_u(&r) < 0.5 ? LUO_RANK_STEADY : LUO_RANK_FILLED;
        in.search_healthy = true;
        const luo_malleus_found *before = find(a, &in);
        memcpy(with, d, (size_t)in.ndevices * sizeof *d);
        with[in.ndevices] = (luo_malleus_device){in.ndevices, in.ndevices / 8, 0,
                                                 1.2 + 10 * luo_rng_u(&r)};
        in.devices = with;
        in.ndevices++;
        in.whole = false;
        const luo_malleus_found *after = find(a, &in);
        ck_assert(before && after);
        const double was = rank_value(&in, before), now = rank_value(&in, after);
        ck_assert_msg(now <= was * (1 + 1e-12), "seed %d: %.9f with a slow device more, %.9f "
                      "without", (int)seed, now, was);
        check_plan(&in, &after->plans[0]);
        helped += now < was * (1 - 1e-9);
        idle += after->plans[0].nstandby > 0;
        luo_arena_free(a);
    }
    printf("a slow device more: helped in %d, somebody stands by in %d\n", helped, idle);
    ck_assert_int_gt(helped, 0);
    ck_assert_int_gt(idle, 0);
}
END_TEST

LUO_SUITE("plan.malleus.prop", LUO_T(any_cluster), LUO_T(monotone), LUO_T(healthy),
          LUO_T(local_search), LUO_T(more_is_never_worse), LUO_T(near_all_combinations),
          LUO_T(slow_devices_never_hurt))
