/* Candidates that are cut around slow devices, or leave them idle. */
#include "core/plan/length_policies/length_slow.h"

#include <math.h>
#include <string.h>

#include "core/base/vec.h"
#include "core/plan/hydraulis/pool_room.h"
#include "core/plan/hydraulis/pool_split.h"

typedef struct cut_kind { /* replicas whose cut is the same */
    int32_t of, at;       /* entries: whole, cut; at -1: it cannot be had */
    int32_t first;        /* place of the first device of one of them */
    bool keep;
} cut_kind;

typedef struct slow {
    luo_arena *arena;
    const luo_length_setup_in *in;
    const double *rate;
    luo_length_setup *setup;
    luo_pool pool;
    luo_candidates found;
    double *moved_ms;
    cut_kind *kind;
    int32_t cap_pool, cap_plan, cap_source, cap_ms, cap_longest, cap_moved, nkinds, cap_kinds;
    luo_err *err;
} slow;

/* ---- candidates ---- */

static luo_status add_candidate(slow *x, luo_replicas plan, luo_candidate_source source, double ms,
                                double moved_ms)
{
    luo_candidates *candidates = &x->found;
    const int32_t n = candidates->n;
    if (!LUO_VEC_ROOM_IN(x->arena, candidates->plan, n, x->cap_plan) ||
        !LUO_VEC_ROOM_IN(x->arena, candidates->source, n, x->cap_source) ||
        !LUO_VEC_ROOM_IN(x->arena, candidates->ms, n, x->cap_ms) ||
        !LUO_VEC_ROOM_IN(x->arena, candidates->longest, n, x->cap_longest) ||
        !LUO_VEC_ROOM_IN(x->arena, x->moved_ms, n, x->cap_moved))
        return luo_err_nomem(x->err);
    candidates->plan[n] = plan;
    candidates->source[n] = source;
    candidates->ms[n] = ms;
    candidates->longest[n] = luo_dispatch_longest(&x->pool, plan.replica, plan.n);
    x->moved_ms[n] = moved_ms;
    candidates->n++;
    return LUO_OK;
}

static luo_status copy_candidates(slow *x)
{
    const luo_candidates *from = &x->setup->found;
    x->found = (luo_candidates){.mixed_tried = from->mixed_tried, .histogram = from->histogram};
    for (int32_t p = 0; p < from->n; p++)
        LUO_TRY(
            add_candidate(x, from->plan[p], from->source[p], from->ms[p], x->setup->moved_ms[p]));
    return LUO_OK;
}

static luo_status copy_pool(slow *x)
{
    const luo_pool *from = &x->setup->pool;
    for (; x->pool.n < from->n; x->pool.n++) {
        if (!LUO_VEC_ROOM_IN(x->arena, x->pool.entry, x->pool.n, x->cap_pool))
            return luo_err_nomem(x->err);
        x->pool.entry[x->pool.n] = from->entry[x->pool.n];
    }
    return LUO_OK;
}

/* ---- replicas that are cut ---- */

/* Types and rates of the devices from two places on are the same. */
static bool alike(const slow *x, int32_t a, int32_t b, int32_t n)
{
    const luo_device *device = x->in->cluster->devices;
    const int32_t *at = x->setup->place.devices;
    for (int32_t i = 0; i < n; i++)
        if (x->rate[a + i] != x->rate[b + i] || device[at[a + i]].kind != device[at[b + i]].kind)
            return false;
    return true;
}

/* The cap is held to what a compiled plan needs on the very devices of the replica. */
static luo_status check_room(slow *x, int32_t first, luo_pool_entry *entry)
{
    luo_step_place place = x->setup->place;
    const int32_t n = place.ndevices;
    int32_t *devices = LUO_NEW_N(x->arena, int32_t, n);
    luo_pool one = {1, entry};
    if (!devices) return luo_err_nomem(x->err);
    for (int32_t i = 0; i < n; i++) devices[i] = place.devices[(first + i) % n];
    if (!place.layout_devices) place.layout_devices = place.devices;
    place.devices = devices;
    return luo_pool_room_check(&place, x->in->stack, &one, x->err);
}

static luo_status make_kind(slow *x, const cut_kind *kind, int32_t *at)
{
    const luo_step_place *place = &x->setup->place;
    const luo_pool_model_in model = {.model = x->in->model,
                                     .cluster = x->in->cluster,
                                     .stack = x->in->stack,
                                     .ndevices = place->ndevices,
                                     .devices = place->devices,
                                     .ctx = x->in->rule.most};
    luo_pool_entry entry;
    *at = -1;
    LUO_TRY(luo_pool_split_make(x->arena, &model, &x->pool.entry[kind->of],
                                place->devices + kind->first, x->rate + kind->first, kind->keep,
                                &entry, x->err));
    if (entry.cap > 0) LUO_TRY(check_room(x, kind->first, &entry));
    if (entry.cap == 0) return LUO_OK;
    if (!LUO_VEC_ROOM_IN(x->arena, x->pool.entry, x->pool.n, x->cap_pool))
        return luo_err_nomem(x->err);
    *at = x->pool.n;
    x->pool.entry[x->pool.n++] = entry;
    return LUO_OK;
}

static luo_status cut_entry(slow *x, int32_t entry, int32_t first, bool keep, int32_t *at)
{
    const int32_t n = luo_pool_devices(&x->pool.entry[entry]);
    for (int32_t k = 0; k < x->nkinds; k++) {
        const cut_kind *kind = &x->kind[k];
        if (kind->of != entry || kind->keep != keep || !alike(x, kind->first, first, n)) continue;
        *at = kind->at;
        return LUO_OK;
    }
    cut_kind kind = {entry, -1, first, keep};
    if (!LUO_VEC_ROOM_IN(x->arena, x->kind, x->nkinds, x->cap_kinds)) return luo_err_nomem(x->err);
    LUO_TRY(make_kind(x, &kind, &kind.at));
    x->kind[x->nkinds++] = kind;
    *at = kind.at;
    return LUO_OK;
}

static bool has_slow(const slow *x, int32_t first, int32_t n)
{
    for (int32_t i = first; i < first + n; i++)
        if (x->rate[i] >= LUO_POOL_SLOW) return true;
    return false;
}

/* Candidate p with every replica cut that can be. */
static luo_status add_cut(slow *x, int32_t p, bool keep)
{
    const luo_replicas from = x->found.plan[p];
    luo_replicas plan = {from.n, LUO_NEW_N(x->arena, luo_replica, from.n)};
    bool cut = false;
    if (!plan.replica) return luo_err_nomem(x->err);
    memcpy(plan.replica, from.replica, (size_t)from.n * sizeof *plan.replica);
    for (int32_t r = 0, first = 0; r < plan.n; r++) {
        const int32_t entry = plan.replica[r].entry;
        const int32_t n = luo_pool_devices(&x->pool.entry[entry]);
        int32_t at = -1;
        if (has_slow(x, first, n)) LUO_TRY(cut_entry(x, entry, first, keep, &at));
        if (at >= 0) plan.replica[r].entry = at;
        cut = cut || at >= 0;
        first += n;
    }
    if (!cut) return LUO_OK;
    return add_candidate(x, plan, x->found.source[p], x->found.ms[p], x->moved_ms[p]);
}

/* ---- fewer devices ---- */

/* What all are worth, in healthy devices. */
static int32_t effective(const slow *x)
{
    double sum = 0;
    for (int32_t i = 0; i < x->setup->place.ndevices; i++) sum += 1 / x->rate[i];
    return (int32_t)floor(sum + 1e-9);
}

static luo_status add_fewer(slow *x)
{
    const int32_t all = x->setup->place.ndevices;
    luo_candidates fewer;
    luo_candidates_in in;
    double *moved_ms;
    luo_err why = {0};
    luo_length_candidates_in(x->in, x->setup, &in);
    in.devices = effective(x) / in.device_step * in.device_step;
    if (in.devices == all || in.devices < 1) return LUO_OK;
    in.rate = x->setup->speed;
    luo_status st = luo_candidates_make(x->arena, &in, &fewer, &why);
    if (st == LUO_EINFEASIBLE) return LUO_OK;
    if (st != LUO_OK) return luo_err_set(x->err, st, "%s", why.text);
    LUO_TRY(luo_length_moved_ms(x->arena, &x->setup->pool, &fewer, &x->setup->place, x->in->stack,
                                &moved_ms, x->err));
    for (int32_t p = 0; p < fewer.n; p++)
        LUO_TRY(add_candidate(x, fewer.plan[p], fewer.source[p], fewer.ms[p], moved_ms[p]));
    return LUO_OK;
}

luo_status luo_length_slow_add(luo_arena *arena, const luo_length_setup_in *in, const double *rate,
                               luo_length_setup *setup, luo_err *err)
{
    slow x = {.arena = arena, .in = in, .rate = rate, .setup = setup, .err = err};
    const int32_t before = setup->found.n;
    LUO_TRY(copy_pool(&x));
    LUO_TRY(copy_candidates(&x));
    for (int32_t p = 0; p < before; p++) {
        LUO_TRY(add_cut(&x, p, true));
        LUO_TRY(add_cut(&x, p, false));
    }
    LUO_TRY(add_fewer(&x));
    setup->pool = x.pool;
    setup->found = x.found;
    setup->moved_ms = x.moved_ms;
    luo_length_setup_speeds(setup, setup->speed);
    return LUO_OK;
}
