/* The straggler planner from its numbers to its plans (docs/planners.md#groups-of-a-node): groups
 * of every node, combinations of them, assignments of each combination, and another number of
 * pipelines when the one asked for has no plan. */
#include "core/plan/malleus/malleus.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/plan/malleus/malleus_internal.h"

const char *luo_malleus_rank_name(luo_malleus_rank rank)
{
    static const char *const names[] = {LUO_MALLEUS_RANK_LIST(LUO_WORD_TEXT)};
    return names[rank];
}

enum { DEALT = 8 }; /* up to so many pipelines every assignment is tried */

/* Of climbing: work, so that a snapshot in which every device has a rate of its own ends in
 * time. */
enum { CLIMB_SOLVES = 20000, CLIMB_MOVES = 400000, CLIMB_VECTORS = 400000, CLIMB_GROUPS = 200000 };
/* Slow devices that are left out to see whether that helps, on clusters of up to so many. */
enum { OUT = 8, OUT_DEVICES = 256, FEW_OUT = 2, FEW_OUT_DEVICES = 2048 };

typedef struct job {
    luo_arena *arena, *scratch;
    const luo_malleus_in *in;
    luo_mal_node *nodes;
    int32_t nnodes, nmixes;
    luo_mal_mix *mixes;
    bool all; /* mixes are all combinations that there are */
    double bound;
} job;

static luo_status begin(luo_mal_search *search, const luo_malleus_in *in, int32_t dp,
                        const luo_mal_mix *mixes, int32_t n, bool all, luo_err *err)
{
    *search = (luo_mal_search){.arena = luo_arena_new(1 << 16),
                               .in = in,
                               .dp = dp,
                               .nmixes = n,
                               .rng = luo_rng_stream(in->seed, "malleus"),
                               .count.exhaustive = all};
    if (!search->arena) return luo_err_nomem(err);
    search->mixes =
        LUO_NEW_N(search->arena, luo_mal_mix, n + (all || in->quick ? 0 : LUO_MAL_CLIMB));
    if (!search->mixes) return luo_err_nomem(err);
    memcpy(search->mixes, mixes, (size_t)n * sizeof *mixes);
    LUO_TRY(luo_mal_tops(search, err));
    return luo_mal_memo(search, err);
}

static luo_status search_mix(luo_mal_search *search, luo_mal_mix *mix, luo_err *err)
{
    if (mix->ngroups < search->dp || mix->bound >= luo_mal_best(search)) return LUO_OK;
    search->count.combos++;
    if (search->dp > DEALT || !luo_mal_deal(search, mix)) {
        search->count.exhaustive = false;
        LUO_TRY(luo_mal_local(search, mix, err));
    }
    return search->nomem ? luo_err_nomem(err) : LUO_OK;
}

/* At least as many micro-batches as stages in every pipeline; when no plan has that, at least
 * one. */
static luo_status search(luo_mal_search *mal_search, luo_err *err)
{
    for (int few = 0; few <= 1 && mal_search->ntops == 0 && (!few || mal_search->crowded); few++) {
        mal_search->few = few;
        for (int32_t i = 0; i < mal_search->nmixes; i++)
            LUO_TRY(search_mix(mal_search, &mal_search->mixes[i], err));
    }
    return LUO_OK;
}

/* ---- one node's alternative at a time ---- */

typedef struct climber {
    const job *j;
    luo_mal_search *s;
    int32_t *choice; /* of the best combination so far */
    const luo_mal_node **order; /* nodes by their snapshots */
    int32_t tried, most;
    int64_t solves, moves, vectors; /* counts that end it */
} climber;

static bool spent(const climber *c)
{
    const luo_malleus_search *search = &c->s->count;
    return c->tried == c->most || search->solves > c->solves || search->moves > c->moves ||
           search->vectors > c->vectors;
}

/* Not tried yet, and its bound leaves hope. */
static bool worth(const luo_mal_search *search, const luo_mal_mix *mix)
{
    if (mix->ngroups < search->dp || mix->bound >= luo_mal_best(search)) return false;
    for (int32_t i = 0; i < search->nmixes; i++)
        if (luo_mal_same_mix(&search->mixes[i], mix)) return false;
    return true;
}

/* *better: a combination that was not tried before, and has the best plan so far. */
static luo_status try_choice(climber *c, bool *better, luo_err *err)
{
    luo_mal_search *search = c->s;
    luo_mal_mix *mix = &search->mixes[search->nmixes];
    const double before = luo_mal_best(search);
    const size_t mark = luo_arena_mark(search->arena);
    *better = false;
    c->tried++;
    LUO_TRY(
        luo_mal_mix_of(search->arena, search->in, c->j->nodes, c->j->nnodes, c->choice, mix, err));
    if (!worth(search, mix)) {
        luo_arena_reset(search->arena, mark);
        return LUO_OK;
    }
    mix->order = search->nmixes++;
    LUO_TRY(luo_mal_memo_of(search, mix, err));
    LUO_TRY(search_mix(search, mix, err));
    *better = luo_mal_best(search) < before;
    return LUO_OK;
}

static luo_status try_node(climber *c, int32_t node, bool *gains, luo_err *err)
{
    const int32_t n = c->j->nodes[node].nalts;
    for (int32_t a = 0; a < n && !spent(c); a++) {
        const int32_t was = c->choice[node];
        bool better;
        if (a == was) continue;
        c->choice[node] = a;
        LUO_TRY(try_choice(c, &better, err));
        if (better) *gains = true;
        else c->choice[node] = was;
    }
    return LUO_OK;
}

static int by_snapshot(const void *a, const void *b)
{
    const luo_mal_node *x = *(const luo_mal_node *const *)a, *y = *(const luo_mal_node *const *)b;
    if (x->snapshot != y->snapshot) return x->snapshot < y->snapshot ? -1 : 1;
    return (x > y) - (x < y);
}

static luo_status climb(const job *j, luo_mal_search *search, luo_err *err)
{
    const int32_t many = CLIMB_GROUPS / search->mixes[0].ngroups;
    climber c = {j,
                 search,
                 LUO_NEW_N(search->arena, int32_t, j->nnodes),
                 LUO_NEW_N(search->arena, const luo_mal_node *, j->nnodes),
                 0,
                 many < LUO_MAL_CLIMB ? many : LUO_MAL_CLIMB,
                 search->count.solves + CLIMB_SOLVES,
                 search->count.moves + CLIMB_MOVES,
                 search->count.vectors + CLIMB_VECTORS};
    const luo_mal_mix *from = search->ntops > 0 ? search->tops[0].mix : &search->mixes[0];
    if (!c.choice || !c.order) return luo_err_nomem(err);
    for (int32_t i = 0; i < j->nnodes; i++) c.order[i] = &j->nodes[i];
    qsort(c.order, (size_t)j->nnodes, sizeof(luo_mal_node *), by_snapshot);
    memcpy(c.choice, from->choice, (size_t)j->nnodes * sizeof *c.choice);
    search->light = true;
    for (bool gains = true; gains && !spent(&c);) {
        gains = false;
        for (int32_t i = 0; i < j->nnodes; i++)
            LUO_TRY(try_node(&c, (int32_t)(c.order[i] - j->nodes), &gains, err));
    }
    search->light = false;
    luo_mal_mix *best = search->ntops > 0 ? search->tops[0].mix : NULL;
    return best && best->order >= j->nmixes ? search_mix(search, best, err) : LUO_OK;
}

static luo_status finish(const job *j, luo_mal_search *search, luo_malleus_found *out, luo_err *err)
{
    if (search->ntops == 0) return LUO_EINFEASIBLE;
    LUO_TRY(luo_mal_rerank(search, err));
    LUO_TRY(luo_mal_seal(j->arena, search, out, err));
    out->bound = j->bound;
    return LUO_OK;
}

static luo_status plan_with(const job *j, int32_t dp, luo_malleus_found *out, luo_err *err)
{
    luo_mal_search mal_search;
    luo_status st = LUO_OK;
    LUO_TRY_OUT(begin(&mal_search, j->in, dp, j->mixes, j->nmixes, j->all, err));
    LUO_TRY_OUT(search(&mal_search, err));
    if (!j->all && !j->in->quick) LUO_TRY_OUT(climb(j, &mal_search, err));
    LUO_TRY_OUT(finish(j, &mal_search, out, err));
out:
    luo_arena_free(mal_search.arena);
    return st;
}

static bool all_alike(const luo_malleus_in *in)
{
    const double rate = luo_mal_rate(in, in->devices[0].rate);
    for (int32_t i = 1; i < in->ndevices; i++)
        if (luo_mal_rate(in, in->devices[i].rate) != rate) return false;
    return true;
}

/* The base plan, when nothing is missing and no device differs from another: pipeline i stage j is
 * group pp*i + j. LUO_ENO: it has to be searched. */
static luo_status plan_base(const job *j, luo_malleus_found *out, luo_err *err)
{
    const luo_malleus_in *in = j->in;
    luo_mal_search search = {0};
    luo_mal_mix mix;
    luo_status st = LUO_ENO;
    if (in->search_healthy || !in->whole || !all_alike(in)) return LUO_ENO;
    LUO_TRY(luo_mal_whole_mix(j->scratch, in, j->nodes, j->nnodes, &mix, err));
    if (mix.ncls != 1 || mix.ngroups != in->dp * in->pp) return LUO_ENO;
    int32_t *ids = LUO_NEW_N(j->scratch, int32_t, in->dp);
    if (!ids) return luo_err_nomem(err);
    LUO_TRY_OUT(begin(&search, in, in->dp, &mix, 1, true, err));
    for (int32_t i = 0; i < in->dp; i++) ids[i] = luo_mal_pipe_of(&search, search.mixes, &in->pp);
    luo_mal_offer(&search, search.mixes, ids);
    if (search.ntops == 0 && search.crowded) {
        search.few = true;
        luo_mal_offer(&search, search.mixes, ids);
    }
    st = finish(j, &search, out, err);
    if (st == LUO_EINFEASIBLE) st = LUO_ENO;
    if (st == LUO_OK) out->search = (luo_malleus_search){.skipped = true};
out:
    luo_arena_free(search.arena);
    return st;
}

static bool improves(const luo_malleus_in *in, const luo_malleus_found *a,
                     const luo_malleus_found *b)
{
    const luo_malleus_plan *plan = &a->plans[0], *malleus_plan = &b->plans[0];
    if (in->rank == LUO_RANK_STEADY) return plan->steady < malleus_plan->steady;
    return plan->event != malleus_plan->event ? plan->event < malleus_plan->event
                                              : plan->filled < malleus_plan->filled;
}

static luo_status try_more(const job *j, luo_malleus_found *out, luo_err *err)
{
    luo_malleus_found more;
    if (!j->in->dp_auto || out->dp != j->in->dp || j->in->micro_batches <= out->dp) return LUO_OK;
    const luo_status st = plan_with(j, out->dp + 1, &more, err);
    if (st == LUO_OK && improves(j->in, &more, out)) *out = more;
    return st == LUO_EINFEASIBLE ? LUO_OK : st;
}

/* Names the stage that holds least when all groups are one pipeline. */
static luo_status say_infeasible(const job *j, luo_err *err)
{
    luo_mal_search search;
    luo_status st = LUO_OK;
    const luo_malleus_in *in = j->in;
    LUO_TRY_OUT(begin(&search, in, 1, j->mixes, 1, true, err));
    const luo_mal_mix *mix = &search.mixes[0];
    for (int32_t c = 0; c < mix->ncls; c++) search.vector[c] = mix->cls[c].n;
    const int32_t n = luo_mal_lay_out(&search, mix, search.vector);
    int32_t least = 0;
    for (int32_t k = 1; k < n; k++)
        if (search.cap[k] < search.cap[least]) least = k;
    const luo_mal_class *cls = &mix->cls[search.stage_class[least]];
    const int32_t device = cls->members[0]->devices[0];
    if (in->tight) *in->tight = (luo_malleus_tight){device, cls->kind, cls->size, n, least};
    st = luo_err_set(err, LUO_EINFEASIBLE,
                     "no plan fits in memory; the tightest stage (device %d) holds %lld of %lld "
                     "layers; try more stages, `recompute` or `zero` 1.",
                     device, (long long)search.cap[least], (long long)in->layers);
out:
    luo_arena_free(search.arena);
    return st;
}

/* LB over the best way to cut every node. */
static luo_status find_bound(job *j, luo_err *err)
{
    luo_mal_mix best;
    int32_t *choice = LUO_NEW_N(j->scratch, int32_t, j->nnodes);
    if (!choice) return luo_err_nomem(err);
    for (int32_t i = 0; i < j->nnodes; i++)
        for (int32_t a = 1; a < j->nodes[i].nalts; a++)
            if (j->nodes[i].alts[a].score > j->nodes[i].alts[choice[i]].score) choice[i] = a;
    LUO_TRY(luo_mal_mix_of(j->scratch, j->in, j->nodes, j->nnodes, choice, &best, err));
    j->bound = best.bound;
    return LUO_OK;
}

static luo_status plan(job *j, luo_malleus_found *out, luo_err *err)
{
    const luo_malleus_in *in = j->in;
    LUO_TRY(luo_mal_nodes(j->arena, in, &j->nodes, &j->nnodes, err));
    LUO_TRY(luo_mal_mixes(j->scratch, in, j->nodes, j->nnodes, &j->mixes, &j->nmixes, &j->all,
                          err));
    LUO_TRY(find_bound(j, err));
    luo_status st = plan_base(j, out, err);
    if (st != LUO_ENO) return st;
    st = LUO_EINFEASIBLE;
    for (int32_t dp = in->dp; dp >= 1 && st == LUO_EINFEASIBLE; dp--)
        st = plan_with(j, dp, out, err);
    if (st == LUO_EINFEASIBLE) return say_infeasible(j, err);
    LUO_TRY(st);
    return try_more(j, out, err);
}

/* ---- with all devices, and with fewer ---- */

static luo_status plan_all(luo_arena *arena, const luo_malleus_in *in, luo_malleus_found *out,
                           luo_err *err)
{
    job j = {.arena = arena, .scratch = luo_arena_new(0), .in = in};
    const luo_status st = j.scratch ? plan(&j, out, err) : luo_err_nomem(err);
    luo_arena_free(j.scratch);
    return st;
}

static void take(luo_malleus_found *best, const luo_malleus_found *other)
{
    const luo_malleus_search *a = &best->search, *b = &other->search;
    const luo_malleus_search sum = {a->combos + b->combos,   a->plans + b->plans,
                                    a->vectors + b->vectors, a->moves + b->moves,
                                    a->solves + b->solves,   a->exhaustive && b->exhaustive,
                                    b->skipped};
    const double bound = best->bound < other->bound ? best->bound : other->bound;
    *best = *other;
    best->search = sum;
    best->bound = bound;
}

/* More ways to cut nodes are no worse: the better of both answers. */
static luo_status plan_splits(luo_arena *arena, const luo_malleus_in *in, luo_malleus_found *out,
                              luo_err *err)
{
    luo_malleus_in plain = *in;
    luo_malleus_found other;
    luo_err why = {0};
    plain.split2 = false;
    luo_status st = plan_all(arena, &plain, out, &why);
    const bool more_ways = st == LUO_EINFEASIBLE || (st == LUO_OK && !out->search.skipped);
    if (in->split2 && more_ways) {
        const luo_status more = plan_all(arena, in, &other, err);
        if (more != LUO_OK && more != LUO_EINFEASIBLE) return more;
        if (more == LUO_OK && st != LUO_OK) *out = other;
        else if (more == LUO_OK && improves(in, &other, out)) take(out, &other);
        if (more == LUO_OK) st = more;
    }
    return st == LUO_OK ? st : luo_err_set(err, st, "%s", why.text);
}

typedef struct slow_one {
    double rate;
    uint64_t snapshot; /* of its node */
    int32_t at;       /* in the devices of the whole input */
} slow_one;

typedef struct leaver { /* devices, and which of them are left out */
    luo_malleus_in in;
    luo_malleus_device *devices;
    slow_one *slow; /* the slowest first */
    int32_t nslow;
    bool *out; /* by position in the devices of the whole input */
} leaver;

static int by_rate(const void *a, const void *b)
{
    const slow_one *x = a, *y = b;
    if (x->rate != y->rate) return x->rate > y->rate ? -1 : 1;
    if (x->snapshot != y->snapshot) return x->snapshot < y->snapshot ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

static luo_status find_slow(luo_arena *arena, const luo_malleus_in *in, leaver *l, luo_err *err)
{
    luo_mal_node *node;
    int32_t n;
    *l = (leaver){.in = *in, .devices = LUO_NEW_N(arena, luo_malleus_device, in->ndevices),
                  .slow = LUO_NEW_N(arena, slow_one, in->ndevices),
                  .out = LUO_NEW_N(arena, bool, in->ndevices)};
    if (!l->devices || !l->slow || !l->out) return luo_err_nomem(err);
    LUO_TRY(luo_mal_nodes(arena, in, &node, &n, err));
    for (int32_t k = 0; k < n; k++)
        for (int32_t i = node[k].first; i < node[k].first + node[k].n; i++)
            if (luo_mal_rate(in, in->devices[i].rate) > 1)
                l->slow[l->nslow++] = (slow_one){in->devices[i].rate, node[k].snapshot, i};
    qsort(l->slow, (size_t)l->nslow, sizeof *l->slow, by_rate);
    l->in.devices = l->devices;
    l->in.whole = false;
    return LUO_OK;
}

/* Devices that are left out stand by, in all plans. */
static luo_status add_standby(luo_arena *arena, const luo_malleus_in *in, const leaver *l,
                              luo_malleus_found *found, luo_err *err)
{
    luo_malleus_plan *plans = LUO_NEW_N(arena, luo_malleus_plan, found->n);
    if (!plans) return luo_err_nomem(err);
    for (int32_t k = 0; k < found->n; k++) {
        int32_t n = 0, at = 0, *standby = LUO_NEW_N(arena, int32_t, in->ndevices);
        if (!standby) return luo_err_nomem(err);
        plans[k] = found->plans[k];
        for (int32_t i = 0; i < in->ndevices; i++) {
            const int32_t d = in->devices[i].device;
            const bool stands = at < plans[k].nstandby && plans[k].standby[at] == d;
            if (stands || l->out[i]) standby[n++] = d;
            at += stands;
        }
        plans[k].standby = standby;
        plans[k].nstandby = n;
    }
    found->plans = plans;
    return LUO_OK;
}

/* A slow device more has to be a stage of its own or to slow a group, or is left out: one after
 * another, the slowest first, as long as there are tries. */
static luo_status leave_out(luo_arena *arena, const luo_malleus_in *in, luo_malleus_found *best,
                            luo_err *err)
{
    const int32_t most = in->ndevices <= OUT_DEVICES       ? OUT
                         : in->ndevices <= FEW_OUT_DEVICES ? FEW_OUT
                                                           : 0;
    leaver l;
    if (in->quick || best->search.skipped || most == 0) return LUO_OK;
    LUO_TRY(find_slow(arena, in, &l, err));
    for (int32_t k = 0; k < l.nslow && k < most; k++) {
        const int32_t at = l.slow[k].at;
        luo_malleus_found other;
        luo_err why = {0};
        l.out[at] = true;
        l.in.ndevices = 0;
        for (int32_t i = 0; i < in->ndevices; i++)
            if (!l.out[i]) l.devices[l.in.ndevices++] = in->devices[i];
        if (l.in.ndevices == 0) return LUO_OK;
        const luo_status st = plan_splits(arena, &l.in, &other, &why);
        if (st == LUO_ENOMEM) return luo_err_nomem(err);
        l.out[at] = st == LUO_OK && other.dp == best->dp && improves(in, &other, best);
        if (!l.out[at]) continue;
        LUO_TRY(add_standby(arena, in, &l, &other, err));
        take(best, &other);
    }
    return LUO_OK;
}

luo_status luo_malleus(luo_arena *arena, const luo_malleus_in *in, luo_malleus_found **out,
                       luo_err *err)
{
    assert(in->ndevices >= 1 && in->dp >= 1 && in->tp >= 1 && in->pp >= 1);
    assert((in->tp & (in->tp - 1)) == 0 && in->layers >= 1 && in->nkinds >= 1);
    if (in->micro_batches < in->dp)
        return luo_err_set(err, LUO_EINPUT,
                           "the batch gives %lld micro-batches for %d pipelines; at least one each "
                           "is needed.", (long long)in->micro_batches, in->dp);
    luo_malleus_found *found = LUO_NEW(arena, luo_malleus_found);
    if (!found) return luo_err_nomem(err);
    LUO_TRY(plan_splits(arena, in, found, err));
    LUO_TRY(leave_out(arena, in, found, err));
    *out = found;
    return LUO_OK;
}
