/* prop_joint.c: the list schedule of stages that share devices beside every order there
 * is, on small cases: pipelines of which a stage is lost, with whole and with split backward parts.
 * Prints how far it is from the best. */
#include <string.h>

#include "core/graph/schedule/joint.h"
#include "core/plan/replan/reroute.h"
#include "tests/check_main.h"
#include "tests/plan_make.h"
#include "tests/prop/prop.h"

enum { P = 3, S = 3, BATCHES = 8, NODES = 200000, STATIONS = P * S, PARTS = 3 };

typedef struct problem {
    luo_joint in;
    luo_joint_batch batch[BATCHES];
    int32_t station[BATCHES][S], kept[STATIONS], waiting[STATIONS];
    int64_t time[BATCHES][PARTS][S];
    int64_t tail[STATIONS]; /* what follows the last backward task of a station at least */
} problem;

/* ---- every order ---- */

typedef struct search {
    const problem *p;
    int64_t best, nodes;
} search;

typedef struct state {
    int64_t free[STATIONS], ready[BATCHES]; /* when the next task of a micro-batch can begin */
    int64_t back[BATCHES][S];               /* when its backward part on a stage ended */
    int64_t work[STATIONS];                 /* still to do, weight gradients apart */
    int64_t weight[STATIONS];               /* weight gradients still to do */
    int8_t next[BATCHES];                   /* tasks done: F of stage 0.., then B of the last .. */
    bool done[BATCHES][S];                  /* weight gradients */
    int8_t flying[STATIONS], waiting[STATIONS];
    int64_t last_start, end;
} state;

static int32_t stage_of(const luo_joint_batch *b, int32_t next)
{
    return next < b->nstages ? next : 2 * b->nstages - 1 - next;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t least(const search *x, const state *s)
{
    int64_t bound = s->end;
    for (int32_t k = 0; k < x->p->in.nstations; k++) {
        if (s->work[k]) bound = most(bound, s->free[k] + s->work[k] + x->p->tail[k]);
        bound = most(bound, s->free[k] + s->work[k] + s->weight[k]);
    }
    for (int32_t b = 0; b < x->p->in.nbatches; b++) {
        const luo_joint_batch *q = &x->p->in.batch[b];
        int64_t t = s->ready[b];
        for (int32_t k = s->next[b]; k < 2 * q->nstages; k++)
            t += (k < q->nstages ? q->forward : q->backward)[stage_of(q, k)];
        bound = most(bound, t);
    }
    return bound;
}

/* Of two micro-batches that go the same way, the first is never behind the second: else they can
 * change names from there on. */
static bool is_behind(const problem *p, const state *s, int32_t b)
{
    for (int32_t a = 0; a < b; a++)
        if (s->next[a] <= s->next[b] &&
            memcmp(p->station[a], p->station[b], sizeof p->station[a]) == 0)
            return true;
    return false;
}

static void go(search *x, const state *s);

/* Tasks are begun in the order of their times, so that no two ways are the same schedule. */
static bool begin(state *t, int32_t at, int64_t ready, int64_t takes)
{
    const int64_t start = most(t->free[at], ready);
    if (start < t->last_start) return false;
    t->last_start = start;
    t->free[at] = start + takes;
    t->end = most(t->end, start + takes);
    return true;
}

static void go_on(search *x, const state *s, int32_t b)
{
    const luo_joint_batch *q = &x->p->in.batch[b];
    const int32_t stage = stage_of(q, s->next[b]), at = q->station[stage];
    const bool forward = s->next[b] < q->nstages, split = x->p->in.split;
    if (is_behind(x->p, s, b)) return;
    if (forward && s->flying[at] == x->p->kept[at]) return;
    if (split && s->waiting[at] > x->p->waiting[at]) return;
    state t = *s;
    if (!begin(&t, at, t.ready[b], (forward ? q->forward : q->backward)[stage])) return;
    t.ready[b] = t.free[at];
    t.work[at] -= (forward ? q->forward : q->backward)[stage];
    t.next[b]++;
    t.flying[at] = (int8_t)(t.flying[at] + (forward ? 1 : -1));
    if (!forward && split) t.waiting[at]++;
    if (!forward) t.back[b][stage] = t.free[at];
    go(x, &t);
}

/* Weight gradients of a station in the order of its backward parts: all take the same time. */
static void finish(search *x, const state *s, int32_t at)
{
    int32_t of = -1, stage = 0;
    for (int32_t b = 0; b < x->p->in.nbatches; b++)
        for (int32_t k = 0; k < x->p->batch[b].nstages; k++)
            if (x->p->station[b][k] == at && s->back[b][k] && !s->done[b][k] &&
                (of < 0 || s->back[b][k] < s->back[of][stage]))
                of = b, stage = k;
    if (of < 0) return;
    state t = *s;
    if (!begin(&t, at, t.back[of][stage], x->p->time[of][2][stage])) return;
    t.weight[at] -= x->p->time[of][2][stage];
    t.done[of][stage] = true;
    t.waiting[at]--;
    go(x, &t);
}

static void go(search *x, const state *s)
{
    bool any = false;
    if (least(x, s) >= x->best || ++x->nodes > NODES) return;
    for (int32_t b = 0; b < x->p->in.nbatches; b++) {
        if (s->next[b] == 2 * x->p->batch[b].nstages) continue;
        any = true;
        go_on(x, s, b);
    }
    for (int32_t k = 0; k < x->p->in.nstations; k++) {
        if (!s->weight[k]) continue;
        any = true;
        finish(x, s, k);
    }
    if (!any && s->end < x->best) x->best = s->end;
}

static int64_t best_of(const problem *p, int64_t known, bool *all)
{
    search x = {p, known + 1, 0};
    state s = {.last_start = 0};
    for (int32_t b = 0; b < p->in.nbatches; b++)
        for (int32_t k = 0; k < p->batch[b].nstages; k++) {
            s.work[p->station[b][k]] += p->time[b][0][k] + p->time[b][1][k];
            s.weight[p->station[b][k]] += p->in.split ? p->time[b][2][k] : 0;
        }
    go(&x, &s);
    *all = x.nodes <= NODES;
    return x.best;
}

/* ---- cases ---- */

static void draw(luo_rng *rng, bool split, problem *p)
{
    const int32_t pipes = 2 + (int32_t)luo_rng_pick(rng, 2), m = pipes == 2 ? 3 : 2;
    const int32_t stages = 2 + (int32_t)luo_rng_pick(rng, 2);
    const int32_t lost = (int32_t)luo_rng_pick(rng, (uint32_t)stages);
    const bool equal = luo_rng_pick(rng, 2);
    int64_t f[S];
    *p = (problem){.in = {.nbatches = pipes * m, .nstations = pipes * stages, .split = split}};
    for (int32_t k = 0; k < stages; k++) f[k] = equal ? 2 : 1 + (int64_t)luo_rng_pick(rng, 3);
    for (int32_t b = 0; b < p->in.nbatches; b++) {
        const int32_t pipe = b % pipes, k = b / pipes;
        for (int32_t s = 0; s < stages; s++) {
            const int32_t peer = 1 + k % (pipes - 1);
            p->station[b][s] = (pipe == 0 && s == lost ? peer : pipe) * stages + s;
            p->time[b][0][s] = f[s];
            p->time[b][1][s] = split ? f[s] : 2 * f[s];
            p->time[b][2][s] = f[s];
        }
        p->batch[b] = (luo_joint_batch){stages, p->station[b], p->time[b][0], p->time[b][1],
                                        p->time[b][2]};
    }
    for (int32_t k = 0; k < p->in.nstations; k++) {
        const luo_sched_kind kind = split ? LUO_SCHED_ZB_H1 : LUO_SCHED_1F1B;
        p->kept[k] = luo_sched_kept(kind, stages, k % stages, m, 1);
        p->waiting[k] = luo_sched_waiting(kind, k % stages, m);
        for (int32_t s = 0; s < k % stages; s++) p->tail[k] += split ? f[s] : 2 * f[s];
    }
    p->in.batch = p->batch;
    p->in.kept = p->kept;
    p->in.waiting = p->waiting;
}

/* Every task once and in order, and within the room. */
static void check_order(const problem *p, const luo_joint_order *order)
{
    for (int32_t k = 0; k < p->in.nstations; k++) {
        int32_t flying = 0, waiting = 0, seen[BATCHES] = {0};
        for (int32_t i = 0; i < order[k].n; i++) {
            const luo_joint_task t = order[k].task[i];
            const int32_t part = t.phase == LUO_TASK_F ? 0 : t.phase == LUO_TASK_BW ? 2 : 1;
            ck_assert_int_eq(seen[t.batch]++, part);
            if (p->in.split && part != 2) ck_assert_int_le(waiting, p->waiting[k]);
            flying += part == 0 ? 1 : part == 1 ? -1 : 0;
            if (p->in.split) waiting += part == 1 ? 1 : part == 2 ? -1 : 0;
            ck_assert_int_le(flying, p->kept[k]);
        }
        for (int32_t b = 0; b < p->in.nbatches; b++)
            for (int32_t s = 0; s < p->batch[b].nstages; s++)
                if (p->station[b][s] == k) ck_assert_int_eq(seen[b], p->in.split ? 3 : 2);
    }
}

START_TEST(beside_every_order)
{
    int cases = 0, whole = 0, best = 0;
    double sum = 0, worst = 0;
    LUO_PROP_FOR(seed, luo_prop_few(40, 100)) {
        luo_arena *arena = luo_arena_new(0);
        luo_rng rng = luo_rng_seed(seed);
        problem p;
        luo_joint_order *order;
        int64_t got;
        bool all;
        cases++;
        draw(&rng, _i, &p);
        ck_assert_int_eq(luo_joint_schedule(arena, &p.in, &order, &got, NULL), LUO_OK);
        check_order(&p, order);
        const int64_t least_time = best_of(&p, got, &all);
        if (all) {
            const double gap = (double)got / (double)least_time - 1;
            ck_assert_msg(least_time <= got, "seed %llu: the best order takes %lld, ours %lld",
                          (unsigned long long)seed, (long long)least_time, (long long)got);
            whole++;
            best += got == least_time;
            sum += gap;
            if (gap > worst) worst = gap;
        }
        luo_arena_free(arena);
    }
    printf("%s backward: %d of %d cases searched, %d are the best order, mean %.2f %% above it, "
           "worst %.2f %%\n", _i ? "split" : "whole", whole, cases, best, 100 * sum / whole,
           100 * worst);
    ck_assert_int_gt(8 * whole, cases);
}
END_TEST

/* ---- every deal ---- */

enum { DEAL_PIPES = 3, DEAL_STAGES = 2, DEAL_MOST = 5 };

typedef struct deal_case {
    int32_t m[DEAL_PIPES], lost; /* micro-batches; the stage that pipeline 0 has lost */
    bool split;
} deal_case;

/* When all is done if micro-batch k of pipeline 0 goes to peer[k]. */
static int64_t span_of(const deal_case *c, const int32_t *peer)
{
    enum { MOST = DEAL_PIPES * DEAL_MOST };
    static const int64_t forward[DEAL_STAGES] = {2, 2}, whole[DEAL_STAGES] = {4, 4};
    const luo_sched_kind kind = c->split ? LUO_SCHED_ZB_H1 : LUO_SCHED_1F1B;
    luo_joint_batch batch[MOST];
    int32_t station[MOST][DEAL_STAGES], kept[DEAL_PIPES * DEAL_STAGES];
    int32_t waiting[DEAL_PIPES * DEAL_STAGES], n = 0;
    for (int32_t k = 0; k < DEAL_MOST; k++)
        for (int32_t p = 0; p < DEAL_PIPES; p++) {
            if (k >= c->m[p]) continue;
            for (int32_t s = 0; s < DEAL_STAGES; s++)
                station[n][s] = (p == 0 && s == c->lost ? peer[k] : p) * DEAL_STAGES + s;
            batch[n] = (luo_joint_batch){DEAL_STAGES, station[n], forward,
                                         c->split ? forward : whole, forward};
            n++;
        }
    for (int32_t k = 0; k < DEAL_PIPES * DEAL_STAGES; k++) {
        const int32_t m = c->m[k / DEAL_STAGES], stage = k % DEAL_STAGES;
        kept[k] = luo_sched_kept(kind, DEAL_STAGES, stage, m, 1);
        waiting[k] = luo_sched_waiting(kind, stage, m);
        if (waiting[k] > m - kept[k]) waiting[k] = m - kept[k];
    }
    luo_arena *arena = luo_arena_new(0);
    const luo_joint in = {.nbatches = n, .nstations = DEAL_PIPES * DEAL_STAGES, .split = c->split,
                          .batch = batch, .kept = kept, .waiting = waiting};
    luo_joint_order *order;
    int64_t got = 0;
    ck_assert_int_eq(luo_joint_schedule(arena, &in, &order, &got, NULL), LUO_OK);
    luo_arena_free(arena);
    return got;
}

static int64_t best_deal(const deal_case *c)
{
    int64_t best = INT64_MAX;
    for (int32_t bits = 0; bits < 1 << c->m[0]; bits++) {
        int32_t peer[DEAL_MOST];
        for (int32_t k = 0; k < c->m[0]; k++) peer[k] = 1 + (bits >> k & 1);
        const int64_t span = span_of(c, peer);
        if (span < best) best = span;
    }
    return best;
}

static int64_t our_deal(const deal_case *c)
{
    luo_arena *arena = luo_arena_new(0);
    char line[128];
    bool usable[6] = {true, true, true, true, true, true};
    int32_t peer[DEAL_MOST];
    const luo_plan *p;
    snprintf(line, sizeof line, "%d: [0]*1 [1]*1 || %d: [2]*1 [3]*1 || %d: [4]*1 [5]*1",
             (int)c->m[0], (int)c->m[1], (int)c->m[2]);
    usable[c->lost] = false;
    ck_assert_int_eq(luo_plan_reroute(arena, luo_test_plan(arena, line), usable, &p, NULL), LUO_OK);
    ck_assert_int_eq(
        luo_reroute_stage(arena, &p->pipelines[0].stages[c->lost], c->m[0], peer, NULL), LUO_OK);
    const int64_t span = span_of(c, peer);
    luo_arena_free(arena);
    return span;
}

/* Peers with at least as many micro-batches as stages: with fewer they keep fewer in flight, which
 * the deal, even by counts, does not look at. */
START_TEST(beside_every_deal)
{
    enum { RANGE = DEAL_MOST - DEAL_STAGES + 1 };
    int cases = 0, best = 0;
    double sum = 0, worst = 0;
    for (int32_t x = 0; x < RANGE * RANGE * RANGE; x++)
        for (int32_t lost = 0; lost < DEAL_STAGES; lost++) {
            const deal_case c = {{DEAL_STAGES + x % RANGE, DEAL_STAGES + x / RANGE % RANGE,
                                  DEAL_STAGES + x / RANGE / RANGE}, lost, _i};
            const int64_t least_time = best_deal(&c), got = our_deal(&c);
            const double gap = (double)got / (double)least_time - 1;
            cases++;
            best += got == least_time;
            sum += gap;
            if (gap > worst) worst = gap;
        }
    printf("%s backward: %d deals, %d are the best, mean %.2f %% above it, worst %.2f %%\n",
           _i ? "split" : "whole", cases, best, 100 * sum / cases, 100 * worst);
    ck_assert(worst < 0.25);
}
END_TEST

LUO_SUITE("prop.joint", LUO_T_N(beside_every_order, 2), LUO_T_N(beside_every_deal, 2))
