/* diff_malleus.c: the straggler planner against brute force on small inputs with fixed
 * groups: every assignment, every split of the layers, every number of micro-batches; the K best
 * values, not only the first. Sections 10.2 to 10.4 of Malleus are followed word by word. */
#include <math.h>

#include "core/plan/malleus/malleus.h"
#include "tests/check_main.h"
#include "tests/prop/prop.h"

enum { GROUPS = 5, KINDS = 3, PIPES = 3, KEPT = 4, ASSIGNMENTS = 243 };

typedef struct memory { /* layers that a kind holds; less with what is in flight behind it */
    int64_t most[KINDS], each, first, last;
} memory;

typedef struct problem {
    luo_malleus_device devices[GROUPS];
    luo_malleus_kind kinds[KINDS];
    memory mem;
    luo_malleus_in in;
    double y[GROUPS]; /* of group i: device i */
} problem;

typedef struct pipe { /* of a set of groups */
    bool fits;
    double o, fill, any; /* any: o of the best split before anything is dropped */
    int32_t stages;
    int64_t key; /* what is left: equal for equal pipelines */
} pipe;

static int met_plans, met_infeasible, met_few, met_fewer_pipelines, met_trimmed, met_free;

static int64_t cap_of(const void *ctx, int32_t kind, int32_t size, int32_t stages, int32_t stage,
                      int32_t pipelines)
{
    (void)size;
    const memory *m = ctx;
    const int64_t cap = m->most[kind] - m->each * (stages - stage) - m->first * (stage == 0) -
                        m->last * (stage == stages - 1) + (pipelines == 1);
    return cap > 0 ? cap : 0;
}

static void draw(luo_rng *r, problem *p)
{
    static const double one[] = {1}, bases[] = {1, 1.3, 2, 3.2}, rates[] = {1, 1.1, 1.5, 2, 2.57};
    const int32_t n = 1 + (int32_t)luo_rng_pick(r, GROUPS);
    const int32_t dp = 1 + (int32_t)luo_rng_pick(r, PIPES);
    for (int k = 0; k < KINDS; k++) {
        p->kinds[k] = (luo_malleus_kind){bases[luo_rng_pick(r, 4)], one};
        p->mem.most[k] = 2 + luo_rng_pick(r, 8);
    }
    p->mem.each = luo_rng_pick(r, 2);
    p->mem.first = luo_rng_pick(r, 2);
    p->mem.last = luo_rng_pick(r, 2);
    for (int32_t d = 0; d < n; d++) {
        const bool joins = d > 0 && luo_rng_u(r) < 0.5; /* the node of the device before */
        p->devices[d] = (luo_malleus_device){
            d, joins ? p->devices[d - 1].node : d,
            joins ? p->devices[d - 1].kind : (int32_t)luo_rng_pick(r, KINDS),
            rates[luo_rng_pick(r, 5)]};
        const double rate = p->devices[d].rate < 1.2 ? 1 : p->devices[d].rate;
        p->y[d] = p->kinds[p->devices[d].kind].base * rate;
    }
    p->in = (luo_malleus_in){.ndevices = n, .devices = p->devices, .nkinds = KINDS,
                             .kinds = p->kinds, .dp = dp, .tp = 1, .pp = 1,
                             .layers = 3 + luo_rng_pick(r, 6),
                             .micro_batches = dp + luo_rng_pick(r, 12), .threshold = 1.2,
                             .top_k = KEPT, .quick = true, .rising = luo_rng_u(r) < 0.3,
                             .rank = luo_rng_u(r) < 0.5 ? LUO_RANK_STEADY : LUO_RANK_FILLED};
    if (luo_rng_u(r) < 0.7) {
        p->in.cap = cap_of;
        p->in.cap_ctx = &p->mem;
    }
    if (luo_rng_u(r) < 0.3) p->in.max_stages = 2 + (int32_t)luo_rng_pick(r, 3);
}

static bool before(const problem *p, int32_t a, int32_t b) /* slow first */
{
    if (p->y[a] != p->y[b]) return p->y[a] > p->y[b];
    return p->devices[a].kind < p->devices[b].kind;
}

static bool alike(const problem *p, int32_t a, int32_t b)
{
    return !before(p, a, b) && !before(p, b, a);
}

typedef struct line { /* stages in order: groups, caps, layers */
    int32_t n, group[GROUPS];
    int64_t cap[GROUPS], layers[GROUPS];
} line;

static void drop(line *l, int32_t j)
{
    for (l->n--; j < l->n; j++) l->group[j] = l->group[j + 1];
}

static double least_o(const problem *p, line *l, int32_t j, int64_t left)
{
    if (j == l->n) return left == 0 ? 0 : INFINITY;
    double best = INFINITY;
    for (int64_t n = 0; n <= left && n <= l->cap[j]; n++)
        best = fmin(best, fmax(p->y[l->group[j]] * (double)n, least_o(p, l, j + 1, left - n)));
    return best;
}

static double value_of(const problem *p, const line *l, int32_t j)
{
    return p->y[l->group[j]];
}

/* 10.2: classes of y from fast to slow take what they can under o, one layer at a time to the stage
 * that has least, the later one of equals. */
static void canonical(const problem *p, line *l, double o)
{
    int64_t left = p->in.layers;
    memset(l->layers, 0, sizeof l->layers);
    for (; left > 0; left--) {
        int32_t to = -1;
        for (int32_t j = 0; j < l->n; j++) {
            const double y = value_of(p, l, j);
            const int64_t room = (int64_t)floor(o / y * (1 + 1e-12));
            if (l->layers[j] >= (room < l->cap[j] ? room : l->cap[j])) continue;
            if (to < 0 || y < value_of(p, l, to) ||
                (y == value_of(p, l, to) && l->layers[j] <= l->layers[to]))
                to = j;
        }
        ck_assert_int_ge(to, 0);
        l->layers[to]++;
    }
}

/* 10.3: the slowest stage without layers; -1: none. */
static int32_t idle(const problem *p, const line *l)
{
    int32_t found = -1;
    for (int32_t j = 0; j < l->n; j++)
        if (l->layers[j] == 0 && (found < 0 || p->in.rising)) found = j;
    return found;
}

static pipe solve(const problem *p, uint32_t set, int32_t dp)
{
    line l = {0};
    pipe out = {0};
    for (int32_t g = 0; g < p->in.ndevices; g++) {
        if (!(set >> g & 1)) continue;
        int32_t at = l.n++;
        for (; at > 0; at--) {
            const int32_t last = l.group[at - 1];
            if (!(p->in.rising ? before(p, last, g) : before(p, g, last))) break;
            l.group[at] = last;
        }
        l.group[at] = g;
    }
    for (bool again = true; again;) {
        while (p->in.max_stages && l.n > p->in.max_stages) drop(&l, p->in.rising ? l.n - 1 : 0);
        for (int32_t j = 0; j < l.n; j++)
            l.cap[j] = p->in.cap ? cap_of(&p->mem, p->devices[l.group[j]].kind, 1, l.n, j, dp)
                                 : p->in.layers;
        out.o = least_o(p, &l, 0, p->in.layers);
        if (out.any == 0) out.any = out.o;
        if (out.o == INFINITY || l.n == 0) return out;
        canonical(p, &l, out.o);
        const int32_t j = idle(p, &l);
        again = j >= 0;
        if (again) drop(&l, j);
        met_trimmed += again;
    }
    out.fits = true;
    out.stages = l.n;
    for (int32_t j = 0; j < l.n; j++) {
        int32_t same = 0; /* the first group of its class stands for it */
        while (!alike(p, same, l.group[j])) same++;
        int64_t unit = 1;
        while (same-- > 0) unit *= GROUPS + 1;
        out.key += unit;
        out.fill += value_of(p, &l, j) * (double)l.layers[j];
    }
    return out;
}

/* Best number of micro-batches of pipelines i.., by trying all. */
static double deal_micro_batches(const problem *p, const pipe *const *pipes, int32_t n, int32_t i,
                                 int64_t left, bool few)
{
    if (i == n) return left == 0 ? 0 : INFINITY;
    double best = INFINITY;
    for (int64_t m = few ? 1 : pipes[i]->stages; m <= left; m++) {
        const double t = p->in.rank == LUO_RANK_STEADY
                             ? (double)m * pipes[i]->o
                             : (double)(m - 1) * pipes[i]->o + pipes[i]->fill;
        best = fmin(best, fmax(t, deal_micro_batches(p, pipes, n, i + 1, left - m, few)));
    }
    return best;
}

static double deal_freely(const pipe *const *pipes, int32_t n, int64_t left)
{
    if (n == 0) return left == 0 ? 0 : INFINITY;
    double best = INFINITY;
    for (int64_t m = 1; m <= left; m++)
        best = fmin(best, fmax((double)m * pipes[0]->any, deal_freely(pipes + 1, n - 1, left - m)));
    return best;
}

typedef struct answer { /* distinct plans, values rising */
    int32_t n;
    double least; /* of m*o over every assignment, every split, every m >= 1: nothing beats it */
    double value[ASSIGNMENTS];
    int64_t key[ASSIGNMENTS][PIPES];
} answer;

static void note(answer *a, int32_t dp, const pipe *const *pipes, double value)
{
    int64_t key[PIPES] = {0};
    for (int32_t i = 0; i < dp; i++) {
        int32_t at = i;
        for (; at > 0 && key[at - 1] < pipes[i]->key; at--) key[at] = key[at - 1];
        key[at] = pipes[i]->key;
    }
    for (int32_t k = 0; k < a->n; k++)
        if (memcmp(a->key[k], key, sizeof key) == 0) return;
    int32_t at = a->n++;
    for (; at > 0 && a->value[at - 1] > value; at--) {
        a->value[at] = a->value[at - 1];
        memcpy(a->key[at], a->key[at - 1], sizeof key);
    }
    a->value[at] = value;
    memcpy(a->key[at], key, sizeof key);
}

static void try_all(const problem *p, int32_t dp, bool few, answer *a)
{
    static pipe solved[1 << GROUPS];
    const int32_t n = p->in.ndevices;
    int32_t ways = 1;
    for (int32_t g = 0; g < n; g++) ways *= dp;
    for (uint32_t set = 1; set < 1u << n; set++) solved[set] = solve(p, set, dp);
    a->n = 0;
    a->least = INFINITY;
    for (int32_t w = 0; w < ways; w++) {
        uint32_t sets[PIPES] = {0};
        const pipe *pipes[PIPES];
        bool fits = true, splits = true;
        for (int32_t g = 0, k = w; g < n; g++, k /= dp) sets[k % dp] |= 1u << g;
        for (int32_t i = 0; i < dp; i++) {
            pipes[i] = &solved[sets[i]];
            fits = fits && sets[i] && pipes[i]->fits;
            splits = splits && sets[i] && pipes[i]->any < INFINITY;
        }
        if (splits) a->least = fmin(a->least, deal_freely(pipes, dp, p->in.micro_batches));
        if (!fits) continue;
        const double t = deal_micro_batches(p, pipes, dp, 0, p->in.micro_batches, few);
        if (t < INFINITY) note(a, dp, pipes, t);
    }
}

static double kept(const problem *p, const luo_malleus_found *f, int32_t k)
{
    double v[KEPT]; /* by value: the filled rank is ordered by event time in the end */
    for (int32_t i = 0; i < f->n; i++) {
        const luo_malleus_plan *x = &f->plans[i];
        const double t = p->in.rank == LUO_RANK_STEADY ? x->steady : x->filled;
        int32_t at = i;
        for (; at > 0 && v[at - 1] > t; at--) v[at] = v[at - 1];
        v[at] = t;
    }
    return v[k];
}

static void compare(const problem *p, int seed, luo_arena *arena)
{
    static answer want;
    luo_malleus_found *f = NULL;
    luo_err err = {0};
    int32_t dp = p->in.dp;
    bool few = false;
    for (; dp >= 1; dp--) {
        for (int k = 0; k < 2; k++) {
            few = k == 1;
            try_all(p, dp, few, &want);
            if (want.n > 0) break;
        }
        if (want.n > 0) break;
    }
    const luo_status st = luo_malleus(arena, &p->in, &f, &err);
    ck_assert_msg(st == (dp ? LUO_OK : LUO_EINFEASIBLE), "seed %d: %s", seed, err.text);
    met_infeasible += dp == 0;
    if (dp == 0) return;
    met_plans++;
    met_few += few;
    met_fewer_pipelines += dp < p->in.dp;
    ck_assert_msg(f->dp == dp && f->few == few, "seed %d", seed);
    ck_assert(f->search.exhaustive);
    ck_assert_msg(f->n == (want.n < KEPT ? want.n : KEPT), "seed %d: %d plans of %d", seed, f->n,
                  want.n);
    for (int32_t k = 0; k < f->n; k++) {
        ck_assert_msg(fabs(kept(p, f, k) - want.value[k]) <= 1e-9 * want.value[k],
                      "seed %d: plan %d takes %.9f, brute force %.9f", seed, k, kept(p, f, k),
                      want.value[k]);
        ck_assert_double_ge(f->plans[k].steady, f->bound * (1 - 1e-12));
        if (!p->in.cap) ck_assert_double_ge(f->plans[k].steady, want.least * (1 - 1e-12));
    }
    if (p->in.cap || p->in.max_stages || p->in.rank != LUO_RANK_STEADY || !few) return;
    ck_assert_double_eq_tol(f->plans[0].steady, want.least, 1e-9);
    met_free++;
}

START_TEST(brute_force)
{
    luo_arena *a = luo_arena_new(0);
    const size_t mark = luo_arena_mark(a);
    LUO_PROP_FOR(seed, 2000)
    {
        luo_rng r = luo_rng_seed(seed);
        problem p = {0};
        draw(&r, &p);
        compare(&p, (int)seed, a);
        luo_arena_reset(a, mark);
    }
    luo_arena_free(a);
    ck_assert_int_gt(met_plans, 0);
    ck_assert_int_gt(met_infeasible, 0);
    ck_assert_int_gt(met_few, 0);
    ck_assert_int_gt(met_fewer_pipelines, 0);
    ck_assert_int_gt(met_trimmed, 0);
    ck_assert_int_gt(met_free, 0);
    printf("%d plans, %d with m < stages, %d with fewer pipelines, %d infeasible\n", met_plans,
           met_few, met_fewer_pipelines, met_infeasible);
}
END_TEST
LUO_MAIN("plan.malleus.diff", brute_force, 1)
