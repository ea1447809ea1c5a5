/* Local search over assignments, where there are too many to try them all
 * (docs/planners.md#groups-to-pipelines).
 *
 * A target time T makes pipelines comparable: A = micro-batches that a pipeline finishes before T.
 * When the sum of A over all pipelines reaches M, the plan beats T. A move changes two pipelines
 * only, so the best move of a pair is remembered as long as T stands. */
#include <math.h>
#include <string.h>

#include "core/plan/malleus/malleus_internal.h"

enum { SPLITS = 2000, ROUNDS = 40, KICKS = 6, SWAPS = 3, TRIES = 16 };
/* Per mix, so that a snapshot in which every device has a rate of its own ends in time too. */
enum { MOVES = 2000000, SOLVED = 100000, MEMO_BYTES = 1 << 25, LIGHT = 50 };

typedef struct gain {
    double whole, exact; /* micro-batches before T, in whole ones and before rounding */
} gain;

typedef struct change { /* pipelines a and b become a_new and b_new */
    gain g;
    int32_t a_new, b_new;
} change;

typedef struct table { /* the best change of every pair of pipelines under one T */
    luo_map map;
    change *at;
    int32_t n, room;
} table;

typedef struct hunt {
    luo_mal_search *s;
    luo_mal_mix *mix;
    int32_t *ids;          /* falling vectors */
    int32_t *reps, nreps;  /* ids, each as often as it is worth pairing: once or twice */
    double target;         /* T */
    table moves, splits;
    int32_t *best;         /* ids of the best plan of this mix */
    double best_time;
    int64_t most_moves; /* budgets, as the counters that end them */
    int32_t most_pipes;
    int32_t *v, *w, *joint; /* ncls */
} hunt;

static bool better(gain a, gain b)
{
    if (a.whole != b.whole) return a.whole > b.whole;
    return a.exact > b.exact + 1e-6;
}

/* What a pipeline does before T. Pipelines that hold too few layers, or have too few micro-batches
 * for their stages, are worth so little that mending them comes first. */
static gain value(const hunt *h, int32_t id)
{
    const luo_mal_search *search = h->s;
    const luo_mal_pipe *pipe = &h->mix->pipes[id];
    if (pipe->lack) return (gain){-1e7 - 1e4 * (double)pipe->lack, 0};
    const bool steady = search->in->rank == LUO_RANK_STEADY;
    const double x = steady ? h->target / pipe->o : (h->target - pipe->fill) / pipe->o;
    const double whole = ceil(x - 1e-9) - steady, least = search->few ? 1 : pipe->stages;
    const double lack = whole < least ? least - whole : 0;
    return (gain){whole - 1000 * lack, x};
}

static void add(gain *to, gain g, double sign)
{
    to->whole += sign * g.whole;
    to->exact += sign * g.exact;
}

/* Better of *best and the change of pipelines of value `was` into a and b. */
static void consider(hunt *h, gain was, int32_t a, int32_t b, change *best)
{
    change c = {value(h, a), a, b};
    add(&c.g, value(h, b), 1);
    add(&c.g, was, -1);
    if (better(c.g, best->g)) *best = c;
    h->s->count.moves++;
}

static gain together(const hunt *h, int32_t a, int32_t b)
{
    gain g = value(h, a);
    add(&g, value(h, b), 1);
    return g;
}

static bool spent(const hunt *h)
{
    return h->s->count.moves > h->most_moves || h->mix->npipes > h->most_pipes || h->s->nomem;
}

static void load(const hunt *h, int32_t id, int32_t *v)
{
    memcpy(v, luo_mal_vector(h->mix, id), (size_t)h->mix->ncls * sizeof *v);
}

static int32_t but(hunt *h, int32_t id, int32_t out, int32_t in)
{
    return luo_mal_pipe_but(h->s, h->mix, id, out, in);
}

/* One group moved, either way, or two swapped. */
static change best_move(hunt *h, int32_t a, int32_t b)
{
    const gain was = together(h, a, b);
    change best = {{0, 0}, a, b};
    load(h, a, h->v);
    load(h, b, h->w);
    for (int32_t c = 0; c < h->mix->ncls; c++) {
        if (h->w[c] > 0 && a != b) consider(h, was, but(h, a, -1, c), but(h, b, c, -1), &best);
        if (h->v[c] == 0) continue;
        consider(h, was, but(h, a, c, -1), but(h, b, -1, c), &best);
        for (int32_t d = 0; d < h->mix->ncls; d++)
            if (d != c && h->w[d] > 0)
                consider(h, was, but(h, a, c, d), but(h, b, d, c), &best);
    }
    return best;
}

/* Every way to deal the groups of a and b to two pipelines, if those are few. */
static change best_split(hunt *h, int32_t a, int32_t b)
{
    const gain was = together(h, a, b);
    const int32_t n = h->mix->ncls;
    change best = {{0, 0}, a, b};
    int64_t ways = 1;
    load(h, a, h->v);
    load(h, b, h->joint);
    for (int32_t c = 0; c < n && ways <= SPLITS; c++) ways *= (h->joint[c] += h->v[c]) + 1;
    if (ways > SPLITS) return best;
    memset(h->v, 0, (size_t)n * sizeof *h->v);
    for (int64_t k = 0; 2 * k < ways; k++) { /* the other half is the same with a and b changed */
        for (int32_t c = 0; c < n; c++) h->w[c] = h->joint[c] - h->v[c];
        const int32_t first = luo_mal_pipe_of(h->s, h->mix, h->v);
        consider(h, was, first, luo_mal_pipe_of(h->s, h->mix, h->w), &best);
        for (int32_t c = 0; c < n && ++h->v[c] > h->joint[c]; c++) h->v[c] = 0;
    }
    return best;
}

static void forget(table *t)
{
    luo_map_clear(&t->map);
    t->n = 0;
}

static change look_up(hunt *h, table *t, int32_t a, int32_t b,
                      change (*find)(hunt *h, int32_t a, int32_t b))
{
    const change none = {{0, 0}, a, b};
    int64_t *at = luo_map_at(&t->map, (uint64_t)a << 32 | (uint32_t)b, -1);
    if (at && *at >= 0) return t->at[*at];
    if (at && t->n == t->room) {
        const size_t was = (size_t)t->room * sizeof *t->at;
        change *grown = luo_arena_grow(h->s->arena, t->at, was, was ? 2 * was : 64 * sizeof *t->at);
        if (!grown) at = NULL;
        else t->at = grown, t->room = t->room ? 2 * t->room : 64;
    }
    if (!at) {
        h->s->nomem = true;
        return none;
    }
    *at = t->n++;
    t->at[*at] = find(h, a, b);
    return t->at[t->n - 1];
}

/* Equal pipelines are tried against each other and against others once. */
static void list_reps(hunt *h)
{
    h->nreps = 0;
    for (int32_t i = 0; i < h->s->dp; i++) {
        const int32_t n = h->nreps;
        if (n > 1 && h->reps[n - 1] == h->ids[i] && h->reps[n - 2] == h->ids[i]) continue;
        h->reps[h->nreps++] = h->ids[i];
    }
}

static void replace(hunt *h, int32_t from, int32_t to)
{
    int32_t i = 0;
    while (h->ids[i] != from) i++;
    h->ids[i] = to;
}

/* Applies the best change over all pairs. False: none gains. */
static bool step(hunt *h, table *t, change (*find)(hunt *h, int32_t a, int32_t b))
{
    change best = {{0, 0}, 0, 0};
    int32_t a = 0, b = 0;
    list_reps(h);
    for (int32_t i = 0; i < h->nreps; i++)
        for (int32_t k = i + 1; k < h->nreps; k++) {
            if (spent(h)) return false;
            const change c = look_up(h, t, h->reps[i], h->reps[k], find);
            if (!better(c.g, best.g)) continue;
            best = c;
            a = h->reps[i];
            b = h->reps[k];
        }
    if (!better(best.g, (gain){0, 0})) return false;
    replace(h, a, best.a_new);
    replace(h, b, best.b_new);
    luo_mal_sort(h->mix, h->ids, h->s->dp);
    return true;
}

static double whole_sum(const hunt *h)
{
    double sum = 0;
    for (int32_t i = 0; i < h->s->dp; i++) sum += value(h, h->ids[i]).whole;
    return sum;
}

static void aim(hunt *h, double target)
{
    h->target = target;
    forget(&h->moves);
    forget(&h->splits);
}

/* Offers the plan; a better one than ever is remembered. Its time, or 4 LB. */
static double time_of(hunt *h)
{
    const double time = luo_mal_offer(h->s, h->mix, h->ids);
    if (time < h->best_time) {
        h->best_time = time;
        memcpy(h->best, h->ids, (size_t)h->s->dp * sizeof *h->best);
    }
    return time < INFINITY ? time : 4 * h->mix->bound;
}

static void improve(hunt *h)
{
    const double M = (double)h->s->in->micro_batches;
    double time = time_of(h);
    for (;;) {
        if (time < h->target) aim(h, time);
        while (whole_sum(h) < M)
            if (!step(h, &h->moves, best_move)) return;
        time = time_of(h);
        if (!(time < h->target)) return;
    }
}

static void deep(hunt *h)
{
    aim(h, INFINITY);
    improve(h);
    for (int r = 0; r < ROUNDS && step(h, &h->splits, best_split); r++) improve(h);
}

/* A group of pipeline id, classes alike; -1 when it is empty. */
static int32_t pick_class(hunt *h, int32_t id)
{
    const int32_t *v = luo_mal_vector(h->mix, id);
    int32_t n = 0;
    for (int32_t c = 0; c < h->mix->ncls; c++) n += v[c] > 0;
    int64_t k = n ? luo_rng_pick(&h->s->rng, n) : -1;
    for (int32_t c = 0; c < h->mix->ncls; c++)
        if (v[c] > 0 && k-- == 0) return c;
    return -1;
}

static void swap_at_random(hunt *h)
{
    for (int t = 0; t < TRIES; t++) {
        const int64_t i = luo_rng_pick(&h->s->rng, h->s->dp);
        const int64_t k = luo_rng_pick(&h->s->rng, h->s->dp);
        const int32_t a = h->ids[i], b = h->ids[k];
        const int32_t c = pick_class(h, a), d = pick_class(h, b);
        if (i == k || c == d || c < 0 || d < 0) continue;
        h->ids[i] = but(h, a, c, d);
        h->ids[k] = but(h, b, d, c);
        return;
    }
}

static void kick(hunt *h)
{
    memcpy(h->ids, h->best, (size_t)h->s->dp * sizeof *h->ids);
    for (int i = 0; i < SWAPS; i++) swap_at_random(h);
    luo_mal_sort(h->mix, h->ids, h->s->dp);
    deep(h);
}

static int32_t room(const luo_mal_mix *mix)
{
    const size_t row = sizeof *mix->pipes + (size_t)mix->ncls * sizeof *mix->vectors;
    return row * SOLVED < MEMO_BYTES ? SOLVED : (int32_t)(MEMO_BYTES / row);
}

static bool make_hunt(luo_mal_search *search, luo_mal_mix *mix, hunt *h)
{
    *h = (hunt){.s = search,
                .mix = mix,
                .ids = LUO_NEW_N(search->arena, int32_t, search->dp),
                .reps = LUO_NEW_N(search->arena, int32_t, search->dp),
                .best = LUO_NEW_N(search->arena, int32_t, search->dp),
                .best_time = INFINITY,
                .most_moves = search->count.moves + MOVES / (search->light ? LIGHT : 1),
                .most_pipes = mix->npipes + room(mix) / (search->light ? LIGHT : 1),
                .v = LUO_NEW_N(search->arena, int32_t, mix->ncls),
                .w = LUO_NEW_N(search->arena, int32_t, mix->ncls),
                .joint = LUO_NEW_N(search->arena, int32_t, mix->ncls)};
    return h->ids && h->reps && h->best && h->v && h->w && h->joint;
}

luo_status luo_mal_local(luo_mal_search *search, luo_mal_mix *mix, luo_err *err)
{
    hunt h;
    if (!make_hunt(search, mix, &h)) return luo_err_nomem(err);
    for (int seed = 0; seed < LUO_MAL_SEEDS && !search->nomem; seed++) {
        luo_mal_seed(search, mix, seed, h.ids);
        if (!search->nomem) deep(&h);
    }
    const int kicks = search->light || search->dp == 1 ? 0 : KICKS;
    for (int k = 0; k < kicks && h.best_time < INFINITY && !spent(&h); k++) kick(&h);
    luo_map_free(&h.moves.map);
    luo_map_free(&h.splits.map);
    return search->nomem ? luo_err_nomem(err) : LUO_OK;
}
