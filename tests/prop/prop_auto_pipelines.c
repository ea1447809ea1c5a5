/* prop_auto_pipelines.c: every pipeline that a search tries, beside a slow twin: the formulas
 * written out once more, every cut, every list of strategies of every stage. Devices of several
 * speeds and memories on two nodes; shares are equal, so the slowest and the smallest count. */
#include <math.h>

#include "core/graph/schedule/sched.h"
#include "core/plan/auto/search.h"
#include "tests/check_main.h"
#include "tests/prop/prop.h"

enum { LAYERS = 4, DEVICES = 4, PER_NODE = 2, BATCH = 16, LISTS = 14 };
static const double UNIT = 1 << 16, KC = 1.3, KB = 1.2;

typedef struct rig {
    double flops[DEVICES], limit[DEVICES];
    luo_auto_layer layer[LAYERS];
    luo_auto_link inside[2], between[2];
    luo_auto_nodes nodes;
    luo_auto_job job;
} rig;

static double between(luo_rng *rng, double lo, double hi)
{
    return lo + (hi - lo) * luo_rng_u(rng);
}

static luo_auto_link make_link(luo_rng *rng, double bytes_per_s)
{
    return (luo_auto_link){between(rng, 1e-6, 1e-5), between(rng, .5, 2) * bytes_per_s};
}

static void make_rig(luo_rng *rng, rig *x)
{
    static const int32_t node[DEVICES] = {0, 0, 1, 1}, devices[2] = {PER_NODE, PER_NODE};
    const luo_auto_widths w = {256, 1024, 128, 4, 4096};
    const bool mixed = luo_rng_pick(rng, 2);
    const double speed = between(rng, 1e12, 9e12), room = between(rng, 3e6, 4e7);
    for (int d = 0; d < DEVICES; d++) {
        x->flops[d] = mixed ? between(rng, 1e12, 9e12) : speed;
        x->limit[d] = mixed ? room * between(rng, 1, 2) : room;
    }
    for (int k = 0; k < 2; k++) {
        x->inside[k] = make_link(rng, 50e9);
        x->between[k] = make_link(rng, 10e9);
    }
    x->nodes = (luo_auto_nodes){node, devices, x->inside, x->between};
    x->layer[0] = luo_auto_layer_embedding("e", &w);
    for (int l = 1; l < LAYERS; l++)
        x->layer[l] = luo_rng_pick(rng, 3) ? luo_auto_layer_transformer("l", &w)
                                           : luo_auto_layer_head("h", &w);
    if (luo_rng_pick(rng, 4) == 0) x->layer[2].heads = 2; /* no tp of 4 */
    x->job =
        (luo_auto_job){.layer = x->layer,
                       .layers = LAYERS,
                       .cluster = {DEVICES, x->flops, x->limit, luo_auto_link_nodes, &x->nodes},
                       .batch = BATCH,
                       .unit_bytes = UNIT,
                       .checkpointing = luo_rng_pick(rng, 2),
                       .slow_comm = KC,
                       .slow_compute = KB};
}

/* ---- the twin: links and layers ---- */

static luo_auto_link slow_link(const rig *x, int first, int g, int degree, int stride)
{
    luo_auto_link slowest = {0, INFINITY};
    for (int base = first; base < first + g; base++) {
        int on[2] = {0, 0};
        if ((base - first) / stride % degree) continue; /* not the first of its group */
        for (int k = 0; k < degree; k++) on[(base + k * stride) / PER_NODE]++;
        for (int node = 0; node < 2; node++) {
            if (!on[node]) continue;
            luo_auto_link l = on[1 - node] ? x->between[node] : x->inside[node];
            if (on[1 - node]) l.bytes_per_s *= (double)on[node] / PER_NODE;
            if (l.bytes_per_s < slowest.bytes_per_s) slowest = l;
        }
    }
    return slowest;
}

typedef struct slow_cost {
    bool taken;
    double forward, micro_batch, exposed, step, units; /* forward: F of the schedule */
} slow_cost;

typedef struct place {
    const rig *x;
    int p, m, stage, g;
} place;

static double least_of(const double *v, int first, int n)
{
    double least = INFINITY;
    for (int d = first; d < first + n; d++) least = fmin(least, v[d]);
    return least;
}

static slow_cost cost_of(const place *at, const luo_auto_layer *layer, const luo_auto_strategy *s)
{
    const int first = at->stage * at->g, m = at->m,
              flight = at->p - at->stage < m ? at->p - at->stage : m;
    int d = 1, t = 1, stride = 1, d_stride = 1, t_stride = 1;
    bool sdp = false;
    for (int i = s->n; i-- > 0; stride *= s->factor[i].degree) {
        if (s->factor[i].kind == LUO_AUTO_TP) {
            t = s->factor[i].degree;
            t_stride = stride;
        } else {
            d = s->factor[i].degree;
            d_stride = stride;
            sdp = s->factor[i].kind == LUO_AUTO_SDP;
        }
    }
    if (BATCH % (m * d) || layer->heads % t || layer->ffn % t) return (slow_cost){0};
    const luo_auto_link tl = slow_link(at->x, first, at->g, t, t_stride);
    const luo_auto_link dl = slow_link(at->x, first, at->g, d, d_stride);
    const double lb = (double)BATCH / (m * d), P = layer->parameters, A = layer->boundary_bytes;
    const double fwd = layer->forward_flop * lb / (t * least_of(at->x->flops, first, at->g));
    const double bwd = (s->checkpoint ? 3 : 2) * fwd;
    const double reduce = 2 * (t - 1) * (tl.latency_s + A * lb / (t * tl.bytes_per_s));
    const double pass = (d - 1) * (dl.latency_s + 2 * P / t / (d * dl.bytes_per_s));
    const double tp = (s->checkpoint ? 6 : 4) * reduce, gathers = sdp ? 2 * pass : 0;
    const double sync = sdp ? pass : 2 * pass;
    const double bytes =
        16 * P / t / (sdp ? d : 1) +
        (s->checkpoint ? layer->act_c_bytes : layer->act_s_bytes + layer->act_t_bytes / t) * lb *
            flight;
    const double both = sync * KC > bwd * KB ? bwd * KB + (sync - bwd * KB / KC)
                                             : sync * KC + (bwd - sync * KC / KB);
    const double mb = fwd + bwd + tp + gathers;
    /* Equal bytes on all: the smallest memory is full first. */
    return (slow_cost){true,
                       fwd + 2 * reduce + gathers / 2,
                       mb,
                       both - bwd,
                       m * mb + both - bwd,
                       ceil(bytes / UNIT)};
}

/* Batch interval of a rank, as parts of the micro-batch. */
static void interval(const luo_auto_strategy *s, int rank, int g, double *lo, double *hi)
{
    *lo = 0;
    *hi = 1;
    for (int i = 0; i < s->n; i++) {
        const int degree = s->factor[i].degree, inner = g / degree;
        const double width = (*hi - *lo) / degree;
        if (s->factor[i].kind != LUO_AUTO_TP) {
            *lo += width * (rank / inner);
            *hi = *lo + width;
        }
        rank %= inner;
        g = inner;
    }
}

static double change_of(const place *at, double A, const luo_auto_strategy *from,
                        const luo_auto_strategy *to)
{
    const luo_auto_link link = slow_link(at->x, at->stage * at->g, at->g, at->g, 1);
    double mv = 0;
    for (int r = 0; r < at->g; r++) {
        double a, b, c, d;
        interval(from, r, at->g, &a, &b);
        interval(to, r, at->g, &c, &d);
        mv = fmax(mv, d - c - fmax(0, fmin(b, d) - fmax(a, c)));
    }
    return mv == 0 ? 0 : 2 * at->m * (link.latency_s + mv * A * BATCH / (at->m * link.bytes_per_s));
}

/* ---- the twin: a stage, a cut, a pipeline ---- */

typedef struct slow_stage {
    double step, forward, backward, exposed;
    int d_in, d_out;
} slow_stage;

typedef struct table {
    slow_cost cost[LAYERS][LISTS];
    double change[LAYERS][LISTS][LISTS];
} table;

static void fill_table(const place *at, const luo_auto_layer *layer, int layers,
                       const luo_auto_strategy *s, int n, table *t)
{
    for (int l = 0; l < layers; l++)
        for (int i = 0; i < n; i++) {
            t->cost[l][i] = cost_of(at, &layer[l], &s[i]);
            for (int k = 0; l > 0 && k < n; k++)
                t->change[l][k][i] = change_of(at, layer[l - 1].boundary_bytes, &s[k], &s[i]);
        }
}

static slow_stage sum_up(const place *at, const table *t, const luo_auto_strategy *s, int layers,
                         const int *choice)
{
    slow_stage x = {0};
    double units = 0;
    for (int l = 0; l < layers; l++) {
        const slow_cost *c = &t->cost[l][choice[l]];
        const double change = l ? t->change[l][choice[l - 1]][choice[l]] : 0;
        if (!c->taken) return (slow_stage){.step = INFINITY};
        x.step = x.step + change + c->step;
        x.forward += c->forward + change / 2 / at->m;
        x.backward += c->micro_batch - c->forward + change / 2 / at->m;
        x.exposed += c->exposed;
        units += c->units;
    }
    x.d_in = luo_auto_strategy_data(&s[choice[0]]);
    x.d_out = luo_auto_strategy_data(&s[choice[layers - 1]]);
    if (units > floor(least_of(at->x->limit, at->stage * at->g, at->g) / UNIT)) x.step = INFINITY;
    return x;
}

/* All lists, the last layer's strategy counting most, so that the first of the best is the one
 * that the programme finds. */
static slow_stage best_stage(const place *at, const luo_auto_layer *layer, int layers,
                             const luo_auto_strategy *s, int n)
{
    static table t;
    slow_stage best = {.step = INFINITY};
    int choice[LAYERS] = {0}, l;
    fill_table(at, layer, layers, s, n, &t);
    do {
        const slow_stage x = sum_up(at, &t, s, layers, choice);
        if (x.step < best.step) best = x;
        for (l = 0; l < layers && ++choice[l] == n; l++) choice[l] = 0;
    } while (l < layers);
    return best;
}

static double worst_of(const rig *x, int p, const int *count)
{
    const int g = DEVICES / p;
    double worst = 0;
    for (int k = 0, l = 0; k < p; k++) {
        double work = 0;
        for (int end = l + count[k]; l < end; l++) work += x->layer[l].forward_flop;
        worst = fmax(worst, work / (g * least_of(x->flops, k * g, g)));
    }
    return worst;
}

/* Lengths in ascending order, each at least 1. */
static void best_lengths(const rig *x, int p, int at, int left, int *count, double *best, int *out)
{
    if (at == p - 1) {
        count[at] = left;
        const double worst = worst_of(x, p, count);
        if (worst >= *best * (1 - 1e-12)) return;
        *best = worst;
        memcpy(out, count, (size_t)p * sizeof *out);
        return;
    }
    for (count[at] = 1; count[at] <= left - (p - 1 - at); count[at]++) {
        const int mine = count[at];
        best_lengths(x, p, at + 1, left - mine, count, best, out);
        count[at] = mine;
    }
}

static double slow_pipeline(luo_arena *a, const rig *x, int p, int m)
{
    int count[DEVICES], room[DEVICES];
    double worst = INFINITY, forward[DEVICES], backward[DEVICES], hop[DEVICES] = {0};
    double exposed = 0, events;
    slow_stage stage[DEVICES];
    luo_auto_strategy *s;
    int32_t n;
    ck_assert_int_eq(luo_auto_strategies(a, DEVICES / p, x->job.checkpointing, &s, &n, NULL),
                     LUO_OK);
    best_lengths(x, p, 0, LAYERS, room, &worst, count);
    for (int i = 0, l = 0; i < p; l += count[i++]) {
        const place at = {x, p, m, i, DEVICES / p};
        stage[i] = best_stage(&at, &x->layer[l], count[i], s, n);
        if (isinf(stage[i].step)) return INFINITY;
        forward[i] = stage[i].forward;
        backward[i] = stage[i].backward;
        exposed = fmax(exposed, stage[i].exposed);
        if (i == 0) continue;
        const luo_auto_link link = slow_link(x, (i - 1) * at.g, 2 * at.g, 2, at.g);
        const int d = stage[i].d_in < stage[i - 1].d_out ? stage[i].d_in : stage[i - 1].d_out;
        hop[i - 1] =
            link.latency_s + x->layer[l - 1].boundary_bytes * BATCH / (m * d) / link.bytes_per_s;
    }
    ck_assert_int_eq(luo_sched_makespan(a, LUO_SCHED_1F1B, p, m, 1, forward, backward, NULL, hop,
                                        false, &events, NULL),
                     LUO_OK);
    return events + exposed;
}

static bool near(double a, double b)
{
    return a == b || fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

/* p 1, 2, 4 with m from p to 16. */
START_TEST(pipelines)
{
    int fitting = 0, not_fitting = 0, found_of[DEVICES + 1] = {0};
    LUO_PROP_FOR(seed, 100)
    {
        luo_arena *a = luo_arena_new(0);
        luo_rng rng = luo_rng_stream(seed, "auto.pipelines");
        luo_auto_found found = {0};
        luo_err err = {0};
        rig x;
        int k = 0;
        double best = INFINITY;
        make_rig(&rng, &x);
        const luo_status st = luo_auto_search(a, &x.job, &found, &err);
        for (int p = 1; p <= DEVICES; p *= 2)
            for (int m = p; m <= BATCH; m *= 2, k++) {
                const double want = slow_pipeline(a, &x, p, m);
                best = fmin(best, want);
                if (st != LUO_OK) continue;
                const luo_auto_tried *got = &found.tried[k];
                ck_assert(got->stages == p && got->micro_batches == m && !got->uneven);
                ck_assert_msg(near(got->step_s, want), "LUO_SEED=%llu: p %d m %d: %.12g, not %.12g",
                              (unsigned long long)seed, p, m, got->step_s, want);
                fitting += isfinite(want);
                not_fitting += isinf(want);
            }
        ck_assert_msg((st == LUO_OK) == isfinite(best), "LUO_SEED=%llu: %s",
                      (unsigned long long)seed, err.text);
        ck_assert(st != LUO_OK || (near(found.step_s, best) && found.ntried == k));
        if (st == LUO_OK) found_of[found.stages]++;
        luo_arena_free(a);
    }
    if (luo_prop_env("LUO_CASES", 100) < 100) return;
    ck_assert_int_gt(fitting, 50);
    ck_assert_int_gt(not_fitting, 20);
    ck_assert(found_of[1] && found_of[2] && found_of[4]);
}
END_TEST

LUO_MAIN("plan.auto.pipelines", pipelines, 1)
