/* prop_sync.c: loops of workers against slow twins that scan all workers at every event: the clock
 * rule, partial reduce (guard, pairs, adaptive waits, deaths), AD-PSGD's pairs; bsp = allreduce;
 * lambda2 against Jacobi's rotations. Times are multiples of 1/8, so that many are equal. */
#include <math.h>

#include "core/base/str.h"
#include "core/sync/adpsgd.h"
#include "core/sync/draws.h"
#include "core/sync/loop.h"
#include "core/sync/mixing.h"
#include "tests/check_main.h"
#include "tests/prop/prop.h"

enum { MOST = 9 };
static const double never = INFINITY;

typedef struct scene {
    luo_loop_opts opts;
    double compute_s[MOST], factor[MOST];
    luo_loop_death death[MOST];
} scene;

static double eighths(luo_rng *r, int64_t least, int64_t most)
{
    return (double)(least + luo_rng_pick(r, most - least + 1)) / 8;
}

static void draw_deaths(luo_rng *r, scene *s)
{
    double t = 0;
    bool dead[MOST] = {false};
    const int64_t n = luo_rng_pick(r, 3) ? 0 : luo_rng_pick(r, s->opts.workers + 1);
    for (int64_t i = 0; i < n; i++) {
        const int32_t who = (int32_t)luo_rng_pick(r, s->opts.workers);
        t += eighths(r, 0, 60);
        if (dead[who]) continue;
        dead[who] = true;
        s->death[s->opts.ndeaths++] = (luo_loop_death){t, who};
    }
    s->opts.death = s->death;
}

static void draw_scene(luo_rng *r, scene *s, luo_loop_mode mode)
{
    memset(s, 0, sizeof *s);
    luo_loop_opts *o = &s->opts;
    o->mode = mode;
    o->workers = 1 + (int32_t)luo_rng_pick(r, MOST);
    o->seed = luo_rng_next(r);
    o->horizon_s = eighths(r, 8, 300);
    o->sync_s = eighths(r, 0, 4);
    o->compute_s = s->compute_s;
    for (int32_t w = 0; w < o->workers; w++) s->compute_s[w] = eighths(r, 1, 16);
    if (luo_rng_pick(r, 2))
        o->straggler = (luo_straggler){.kind = LUO_STRAGGLER_BERN, .p = .3, .sleep_s = 1.25};
    draw_deaths(r, s);
}

static double compute_s(const luo_loop_opts *o, int32_t w, int64_t k)
{
    const bool sleeps = o->straggler.kind == LUO_STRAGGLER_BERN &&
                        luo_draw_u(o->seed, (uint64_t)w, (uint64_t)k) < o->straggler.p;
    return o->compute_s[w] + (sleeps ? o->straggler.sleep_s : 0);
}

/* ---- what happened, as text ---- */

static luo_status tell_row(void *ctx, const luo_loop_row *row, luo_err *err)
{
    (void)err;
    luo_str_addf(ctx, "%d.%lld %g-%g wait %g\n", row->worker, (long long)row->iteration,
                 row->start_s, row->end_s, row->wait_s);
    return LUO_OK;
}

static luo_status tell_group(void *ctx, int64_t id, const luo_preduce_group *group, luo_err *err)
{
    (void)err;
    luo_str_addf(ctx, "%lld%s @%g:", (long long)id, group->guard ? "g" : "", group->t_s);
    for (int32_t i = 0; i < group->n; i++) luo_str_addf(ctx, " %d", group->member[i]);
    luo_str_addc(ctx, '\n');
    return LUO_OK;
}

static void run_fast(luo_arena *arena, scene *s, luo_str *text, luo_loop_summary *summary)
{
    luo_err err = {0};
    s->opts.sink =
        (luo_loop_sink){tell_row, luo_loop_mode_groups(s->opts.mode) ? tell_group : NULL, text};
    ck_assert_msg(luo_loop_run(arena, &s->opts, summary, &err) == LUO_OK, "%s", err.text);
}

static void same(uint64_t seed, const luo_str *fast, const luo_str *slow)
{
    ck_assert_msg(strcmp(luo_str_get(fast), luo_str_get(slow)) == 0,
                  "LUO_SEED=%llu LUO_CASES=1\n--- fast\n%s--- slow\n%s", (unsigned long long)seed,
                  luo_str_get(fast), luo_str_get(slow));
}

/* ---- the clock rule ---- */

typedef struct clocks { /* the twin */
    int64_t clock[MOST];
    bool dead[MOST], waits[MOST];
    double start[MOST], end[MOST], since[MOST], wait[MOST];
    int64_t gap;
} clocks;

static int64_t least_of(const clocks *c, int32_t n)
{
    int64_t least = INT64_MAX;
    for (int32_t w = 0; w < n; w++)
        if (!c->dead[w] && c->clock[w] < least) least = c->clock[w];
    return least;
}

static void start_those_who_may(const scene *s, clocks *c, int64_t bound, double t)
{
    const luo_loop_opts *o = &s->opts;
    const int64_t least = least_of(c, o->workers);
    for (int32_t w = 0; w < o->workers; w++) {
        if (c->dead[w]) continue;
        if (c->clock[w] - least > c->gap) c->gap = c->clock[w] - least;
        if (!c->waits[w] || (bound >= 0 && least + bound < c->clock[w])) continue;
        c->waits[w] = false;
        c->wait[w] = t - c->since[w];
        c->start[w] = t;
        c->end[w] = t + compute_s(o, w, c->clock[w]) + o->sync_s;
    }
}

static int64_t slow_clocks(const scene *s, int64_t bound, luo_str *text)
{
    const luo_loop_opts *o = &s->opts;
    clocks c = {.gap = 0};
    int32_t died = 0;
    for (int32_t w = 0; w < o->workers; w++) c.waits[w] = true;
    start_those_who_may(s, &c, bound, 0);
    for (;;) {
        double t = never;
        for (int32_t w = 0; w < o->workers; w++)
            if (!c.dead[w] && !c.waits[w]) t = fmin(t, c.end[w]);
        const double death = died < o->ndeaths ? o->death[died].t_s : never;
        if (fmin(t, death) > o->horizon_s) return c.gap;
        for (int32_t w = 0; t <= death && w < o->workers; w++) {
            if (c.dead[w] || c.waits[w] || c.end[w] != t) continue;
            luo_str_addf(text, "%d.%lld %g-%g wait %g\n", w, (long long)c.clock[w]++, c.start[w], t,
                         c.wait[w]);
            c.waits[w] = true;
            c.since[w] = t;
        }
        if (t > death) c.dead[o->death[died++].who] = true;
        start_those_who_may(s, &c, bound, fmin(t, death));
    }
}

static int64_t gaps; /* cases that reached the bound: proof that it is met */

START_TEST(clock_rule)
{
    LUO_PROP_FOR(seed, 3000)
    {
        luo_rng r = luo_rng_seed(seed);
        luo_arena *arena = luo_arena_new(0);
        luo_str fast = {0}, slow = {0};
        luo_loop_summary summary;
        scene s;
        static const luo_loop_mode modes[] = {LUO_LOOP_BSP, LUO_LOOP_SSP, LUO_LOOP_ASP};
        draw_scene(&r, &s, modes[luo_rng_pick(&r, 3)]);
        s.opts.staleness = luo_rng_pick(&r, 6) - 1;
        const int64_t bound = s.opts.mode == LUO_LOOP_BSP   ? 0
                              : s.opts.mode == LUO_LOOP_SSP ? s.opts.staleness
                                                            : -1;
        run_fast(arena, &s, &fast, &summary);
        const int64_t gap = slow_clocks(&s, bound, &slow);
        same(seed, &fast, &slow);
        ck_assert_msg(bound < 0 || gap <= bound + 1, "seed %llu", (unsigned long long)seed);
        ck_assert_msg(summary.updates == 0 || summary.nahead - 1 <= gap, "seed %llu",
                      (unsigned long long)seed);
        gaps += bound > 0 && gap == bound + 1;
        luo_str_free(&fast);
        luo_str_free(&slow);
        luo_arena_free(arena);
    }
    ck_assert_int_gt(gaps, 0);
}
END_TEST

START_TEST(bsp_is_allreduce)
{
    LUO_PROP_FOR(seed, 1000)
    {
        luo_rng r = luo_rng_seed(seed);
        luo_arena *arena = luo_arena_new(0);
        luo_str text = {0};
        luo_loop_summary a, b;
        scene s;
        draw_scene(&r, &s, LUO_LOOP_BSP);
        s.opts.ndeaths =
            0; /* who dies waiting has ended its iteration in one and not in the other */
        run_fast(arena, &s, &text, &a);
        s.opts.mode = LUO_LOOP_ALLREDUCE;
        run_fast(arena, &s, &text, &b);
        /* bsp counts the iterations of a last round that fast workers end before the horizon. */
        for (int32_t w = 0; w < s.opts.workers; w++) {
            const int64_t more = a.iterations[w] - b.iterations[w];
            ck_assert_msg(more == 0 || more == 1, "LUO_SEED=%llu", (unsigned long long)seed);
        }
        ck_assert_msg(b.lambda2 != b.lambda2 || s.opts.workers == 1 || b.lambda2 < 1e-12,
                      "LUO_SEED=%llu", (unsigned long long)seed);
        luo_str_free(&text);
        luo_arena_free(arena);
    }
}
END_TEST

/* ---- partial reduce ---- */

typedef struct reduce { /* the twin */
    const scene *s;
    luo_str *text;
    bool dead[MOST], arrived[MOST];
    int64_t k[MOST], seen, groups;
    double start[MOST], at[MOST], wait[MOST], since[MOST];
    int32_t label[MOST]; /* of its component */
    int32_t first;       /* of those who have arrived; -1: none */
    double deadline, most_s; /* the horizon, or when the last worker dies */
    bool guard, need;
} reduce;

/* Exchanges that the last death cut off, groups of the guard, cuts: proof that they come. */
static int64_t cut_off, guards, cuts;

static int32_t living(const reduce *c)
{
    int32_t n = 0;
    for (int32_t w = 0; w < c->s->opts.workers; w++) n += !c->dead[w];
    return n;
}

static int32_t ready(const reduce *c)
{
    int32_t n = 0;
    for (int32_t w = 0; w < c->s->opts.workers; w++) n += c->arrived[w];
    return n;
}

static void join(reduce *c, int32_t a, int32_t b)
{
    const int32_t from = c->label[b], to = c->label[a];
    for (int32_t w = 0; w < c->s->opts.workers; w++)
        if (c->label[w] == from) c->label[w] = to;
}

static bool connected(const reduce *c)
{
    int32_t label = -1;
    for (int32_t w = 0; w < c->s->opts.workers; w++) {
        if (c->dead[w]) continue;
        if (label >= 0 && c->label[w] != label) return false;
        label = c->label[w];
    }
    return true;
}

static void communicate(reduce *c, const int32_t *member, int32_t n, bool guard, double t)
{
    const luo_loop_opts *o = &c->s->opts;
    const double told = t + o->request_s, end = told + o->sync_s;
    for (int32_t i = 0; i < n; i++) c->at[member[i]] = never;
    cut_off += end > c->most_s && end <= o->horizon_s;
    if (end > c->most_s) return;
    luo_str_addf(c->text, "%lld%s @%g:", (long long)c->groups++, guard ? "g" : "", told);
    for (int32_t i = 0; i < n; i++) luo_str_addf(c->text, " %d", member[i]);
    luo_str_addc(c->text, '\n');
    for (int32_t i = 0; i < n; i++) {
        const int32_t w = member[i];
        luo_str_addf(c->text, "%d.%lld %g-%g wait %g\n", w, (long long)c->k[w]++, c->start[w], end,
                     told - c->since[w]);
        c->start[w] = end;
        c->at[w] = end + compute_s(o, w, c->k[w]) + o->request_s;
    }
}

static void close_all(reduce *c, double t)
{
    const luo_preduce_opts *p = &c->s->opts.preduce;
    const int32_t workers = c->s->opts.workers;
    int32_t member[MOST], n = 0;
    const bool guard = c->guard, cut = p->pairs && !guard;
    for (int32_t w = 0; w < workers; w++)
        if (c->arrived[w]) member[n++] = w;
    const int64_t every = (int64_t)p->guard * workers, before = c->seen;
    c->seen += n;
    memset(c->arrived, 0, sizeof c->arrived);
    c->first = -1;
    c->deadline = never;
    if (guard) {
        c->need = false;
        for (int32_t w = 0; w < workers; w++) c->label[w] = w;
    }
    if (every > 0 && c->seen / every > before / every) c->need = true;
    for (int32_t at = 0; at < n; at += cut ? 2 : n) {
        const int32_t size = cut ? (n - at < 2 ? n - at : 2) : n;
        if (cut && size == 2) join(c, member[at], member[at + 1]);
        for (int32_t i = at; p->adaptive && i < at + size; i++)
            c->wait[member[i]] = size < 2 ? fmin(2 * c->wait[member[i]], p->wait_max_s)
                                          : fmax(.9 * c->wait[member[i]], p->wait_min_s);
        communicate(c, member + at, size, guard, t);
    }
}

static void close_if_full(reduce *c, double t)
{
    const int32_t n = ready(c), all = living(c), most = c->s->opts.preduce.max_group;
    if (n > 0 && (c->guard ? connected(c) : n >= (most < all ? most : all))) close_all(c, t);
}

static void comes(reduce *c, int32_t w, double t)
{
    c->since[w] = t - c->s->opts.request_s;
    c->at[w] = never;
    if (c->first < 0) {
        c->first = w;
        c->guard = c->need;
        c->deadline = c->guard ? never : t + c->wait[w];
    }
    c->arrived[w] = true;
    if (c->guard || !c->s->opts.preduce.pairs) join(c, c->first, w);
    close_if_full(c, t);
}

/* The first of a group that leaves hands over to whoever came next; here by time, then number. */
static void dies(reduce *c, int32_t w, double t)
{
    c->dead[w] = true;
    c->at[w] = never;
    if (c->arrived[w]) {
        c->arrived[w] = false;
        if (c->first == w) {
            c->first = -1;
            for (int32_t v = 0; v < c->s->opts.workers; v++)
                if (c->arrived[v] && (c->first < 0 || c->since[v] < c->since[c->first]))
                    c->first = v;
        }
        if (c->first < 0) c->deadline = never;
    }
    close_if_full(c, t);
}

static double most_of(const luo_loop_opts *o)
{
    double last = 0;
    for (int32_t i = 0; i < o->ndeaths; i++) last = fmax(last, o->death[i].t_s);
    return o->ndeaths == o->workers ? fmin(last, o->horizon_s) : o->horizon_s;
}

static void slow_reduce(const scene *s, luo_str *text)
{
    const luo_loop_opts *o = &s->opts;
    reduce c = {.s = s, .text = text, .first = -1, .deadline = never, .most_s = most_of(o)};
    int32_t died = 0;
    for (int32_t w = 0; w < o->workers; w++) {
        c.label[w] = w;
        c.wait[w] = o->preduce.wait_s;
        c.at[w] = compute_s(o, w, 0) + o->request_s;
    }
    for (;;) {
        double t = never;
        for (int32_t w = 0; w < o->workers; w++) t = fmin(t, c.at[w]);
        const double death = died < o->ndeaths ? o->death[died].t_s : never;
        if (fmin(t, fmin(death, c.deadline)) > o->horizon_s) return;
        if (t <= fmin(death, c.deadline)) {
            bool now[MOST] = {false}; /* who arrives at this instant, before anybody goes on */
            for (int32_t w = 0; w < o->workers; w++) now[w] = c.at[w] == t;
            for (int32_t w = 0; w < o->workers; w++)
                if (now[w]) comes(&c, w, t);
        } else if (death <= c.deadline) {
            const int32_t who = o->death[died++].who;
            dies(&c, who, death);
            if (living(&c) == 0) return;
        } else {
            close_all(&c, c.deadline);
        }
    }
}

START_TEST(partial_reduce)
{
    LUO_PROP_FOR(seed, 3000)
    {
        luo_rng r = luo_rng_seed(seed);
        luo_arena *arena = luo_arena_new(0);
        luo_str fast = {0}, slow = {0};
        luo_loop_summary summary;
        scene s;
        draw_scene(&r, &s, LUO_LOOP_PREDUCE);
        luo_preduce_opts *p = &s.opts.preduce;
        p->max_group = 1 + (int32_t)luo_rng_pick(&r, s.opts.workers);
        p->wait_s = luo_rng_pick(&r, 6) ? eighths(&r, 0, 12) : 1000;
        p->guard = (int32_t)luo_rng_pick(&r, 4);
        p->pairs = luo_rng_pick(&r, 3) == 0;
        p->adaptive = luo_rng_pick(&r, 3) == 0;
        p->wait_min_s = .125;
        p->wait_max_s = 2;
        s.opts.request_s = luo_rng_pick(&r, 3) ? 0 : eighths(&r, 0, 4);
        run_fast(arena, &s, &fast, &summary);
        slow_reduce(&s, &slow);
        same(seed, &fast, &slow);
        guards += summary.guards;
        cuts += p->pairs && summary.sizes[s.opts.workers > 1 ? 2 : 1] > 0;
        luo_str_free(&fast);
        luo_str_free(&slow);
        luo_arena_free(arena);
    }
    ck_assert(guards > 0 && cuts > 0 && cut_off > 0);
}
END_TEST

/* ---- AD-PSGD ---- */

/* A worker's step ends when both of its pair have computed it: by recursion over steps. */
static double done(const scene *s, int32_t w, int64_t k)
{
    int32_t shuffle[MOST], partner[MOST];
    const luo_loop_opts *o = &s->opts;
    luo_adpsgd_pairs(o->workers, o->seed, k, shuffle, partner);
    const int32_t v = partner[w];
    const double mine = (k > 0 ? done(s, w, k - 1) : 0) + compute_s(o, w, k);
    const double its = v == w ? mine : (k > 0 ? done(s, v, k - 1) : 0) + compute_s(o, v, k);
    return fmax(mine, its) + o->sync_s;
}

START_TEST(pairs_by_recursion)
{
    LUO_PROP_FOR(seed, 400)
    {
        luo_rng r = luo_rng_seed(seed);
        luo_arena *arena = luo_arena_new(0);
        luo_loop_summary summary;
        luo_str text = {0};
        scene s;
        draw_scene(&r, &s, LUO_LOOP_ADPSGD);
        s.opts.ndeaths = 0;
        s.opts.horizon_s = fmin(s.opts.horizon_s, 8);
        run_fast(arena, &s, &text, &summary);
        for (int32_t w = 0; w < s.opts.workers; w++) {
            int64_t k = 0;
            while (k < 10 && done(&s, w, k) <= s.opts.horizon_s) k++;
            if (k < 10)
                ck_assert_msg(summary.iterations[w] == k, "LUO_SEED=%llu: %lld, not %lld",
                              (unsigned long long)seed, (long long)summary.iterations[w],
                              (long long)k);
        }
        luo_str_free(&text);
        luo_arena_free(arena);
    }
}
END_TEST

/* Deaths: nobody waits for ever, and every group is a pair or one alone. */
START_TEST(pairs_with_deaths)
{
    LUO_PROP_FOR(seed, 1000)
    {
        luo_rng r = luo_rng_seed(seed);
        luo_arena *arena = luo_arena_new(0);
        luo_loop_summary summary;
        luo_str text = {0};
        scene s;
        bool dead[MOST] = {false};
        draw_scene(&r, &s, LUO_LOOP_ADPSGD);
        s.opts.horizon_s = 600; /* the last death is at 9 x 7.5 at the latest */
        run_fast(arena, &s, &text, &summary);
        for (int32_t i = 0; i < s.opts.ndeaths; i++) dead[s.death[i].who] = true;
        for (int32_t w = 0; w < s.opts.workers && !summary.lost; w++)
            ck_assert_msg(dead[w] || summary.iterations[w] > 100, "LUO_SEED=%llu: %d has %lld",
                          (unsigned long long)seed, w, (long long)summary.iterations[w]);
        for (int32_t n = 3; n <= s.opts.workers; n++) ck_assert_int_eq(summary.sizes[n], 0);
        luo_str_free(&text);
        luo_arena_free(arena);
    }
}
END_TEST

/* ---- lambda2 ---- */

/* One sweep of Jacobi's rotations over a symmetric matrix. */
static void sweep(double a[MOST][MOST], int n)
{
    for (int p = 0; p < n; p++)
        for (int q = p + 1; q < n; q++) {
            if (fabs(a[p][q]) < 1e-300) continue;
            const double theta = (a[q][q] - a[p][p]) / (2 * a[p][q]);
            const double t = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1));
            const double c = 1 / sqrt(t * t + 1), s = t * c;
            for (int k = 0; k < n; k++) {
                const double x = a[k][p], y = a[k][q];
                a[k][p] = c * x - s * y;
                a[k][q] = s * x + c * y;
            }
            for (int k = 0; k < n; k++) {
                const double x = a[p][k], y = a[q][k];
                a[p][k] = c * x - s * y;
                a[q][k] = s * x + c * y;
            }
        }
}

static double second_largest(double a[MOST][MOST], int n)
{
    double most = -1, second = -1;
    for (int times = 0; times < 30; times++) sweep(a, n);
    for (int i = 0; i < n; i++) {
        if (a[i][i] > most) {
            second = most;
            most = a[i][i];
        } else if (a[i][i] > second) {
            second = a[i][i];
        }
    }
    return second;
}

START_TEST(lambda2)
{
    LUO_PROP_FOR(seed, 1000)
    {
        luo_rng r = luo_rng_seed(seed);
        luo_arena *arena = luo_arena_new(0);
        const int32_t n = 2 + (int32_t)luo_rng_pick(&r, MOST - 1),
                      groups = 1 + (int32_t)luo_rng_pick(&r, 12);
        const bool weighted = luo_rng_pick(&r, 2);
        double mean[MOST][MOST] = {{0}}, got;
        luo_mixing m;
        ck_assert_int_eq(luo_mixing_new(arena, n, &m, NULL), LUO_OK);
        for (int32_t g = 0; g < groups; g++) {
            double w[MOST][MOST] = {{0}}, weight[MOST], sum = 0;
            int32_t member[MOST], size = 0;
            for (int32_t i = 0; i < n; i++) w[i][i] = 1;
            for (int32_t i = 0; i < n; i++)
                if (luo_rng_pick(&r, 2) || (size == 0 && i == n - 1)) member[size++] = i;
            for (int32_t i = 0; i < size; i++) sum += weight[i] = weighted ? .1 + luo_rng_u(&r) : 1;
            for (int32_t i = 0; i < size; i++) weight[i] /= sum;
            for (int32_t i = 0; i < size; i++)
                for (int32_t k = 0; k < size; k++) w[member[i]][member[k]] = weight[k];
            for (int32_t i = 0; i < n; i++) /* W^T W */
                for (int32_t k = 0; k < n; k++)
                    for (int32_t j = 0; j < n; j++) mean[i][k] += w[j][i] * w[j][k] / groups;
            luo_mixing_add(&m, member, weighted ? weight : NULL, size);
        }
        ck_assert_int_eq(luo_mixing_lambda2(arena, &m, NULL, &got, NULL), LUO_OK);
        const double want = second_largest(mean, n);
        ck_assert_msg(fabs(got - want) < 1e-9, "LUO_SEED=%llu: %g, not %g",
                      (unsigned long long)seed, got, want);
        luo_arena_free(arena);
    }
}
END_TEST

LUO_SUITE("prop.sync", LUO_T(clock_rule), LUO_T(bsp_is_allreduce), LUO_T(partial_reduce),
          LUO_T(pairs_by_recursion), LUO_T(pairs_with_deaths), LUO_T(lambda2))
