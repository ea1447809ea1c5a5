#include "core/sync/adpsgd.h"

#include <assert.h>
#include <string.h>

#include "core/sync/draws.h"

enum { FIRST = 8 };

void luo_adpsgd_pairs(int32_t workers, uint64_t seed, int64_t step, int32_t *shuffle,
                      int32_t *partner)
{
    for (int32_t w = 0; w < workers; w++) shuffle[w] = w;
    for (int32_t i = workers - 1; i > 0; i--) {
        const uint64_t draw = (uint64_t)step * (uint64_t)workers + (uint64_t)i;
        const int32_t k = (int32_t)(luo_draw_u(seed, 0, draw) * (i + 1));
        const int32_t other = shuffle[i];
        shuffle[i] = shuffle[k];
        shuffle[k] = other;
    }
    for (int32_t i = 0; i + 1 < workers; i += 2) {
        partner[shuffle[i]] = shuffle[i + 1];
        partner[shuffle[i + 1]] = shuffle[i];
    }
    if (workers % 2) partner[shuffle[workers - 1]] = shuffle[workers - 1];
}

static luo_status make_places(luo_adpsgd *adpsgd, int64_t cap, luo_err *err)
{
    int32_t **partner = LUO_NEW_N(adpsgd->arena, int32_t *, cap);
    int64_t *step_of = LUO_NEW_N(adpsgd->arena, int64_t, cap);
    if (!partner || !step_of) return luo_err_nomem(err);
    for (int64_t i = 0; i < cap; i++) {
        step_of[i] = -1;
        partner[i] = LUO_NEW_N(adpsgd->arena, int32_t, adpsgd->workers);
        if (!partner[i]) return luo_err_nomem(err);
    }
    adpsgd->partner = partner;
    adpsgd->step_of = step_of;
    adpsgd->cap = cap;
    return LUO_OK;
}

luo_status luo_adpsgd_new(luo_arena *arena, int32_t workers, uint64_t seed, luo_adpsgd *out,
                          luo_err *err)
{
    assert(workers >= 1);
    luo_adpsgd adpsgd = {.workers = workers, .seed = seed, .arena = arena};
    adpsgd.waits = LUO_NEW_N(arena, int64_t, workers);
    adpsgd.gone = LUO_NEW_N(arena, bool, workers);
    adpsgd.from = LUO_NEW_N(arena, int64_t, workers);
    adpsgd.shuffle = LUO_NEW_N(arena, int32_t, workers);
    if (!adpsgd.waits || !adpsgd.gone || !adpsgd.from || !adpsgd.shuffle) return luo_err_nomem(err);
    for (int32_t w = 0; w < workers; w++) adpsgd.waits[w] = -1;
    LUO_TRY(make_places(&adpsgd, FIRST, err));
    *out = adpsgd;
    return LUO_OK;
}

/* A step that is met again after its place was taken is shuffled again: what it comes to is a
 * function of its number. So a place lost costs time alone, and no step is ever missing. */
static const int32_t *partners(luo_adpsgd *adpsgd, int64_t step)
{
    const int64_t at = step & (adpsgd->cap - 1);
    if (adpsgd->step_of[at] != step) {
        luo_adpsgd_pairs(adpsgd->workers, adpsgd->seed, step, adpsgd->shuffle, adpsgd->partner[at]);
        adpsgd->step_of[at] = step;
    }
    return adpsgd->partner[at];
}

/* The place of a step is taken by a later one: workers are further apart than there are places. */
static luo_status make_room(luo_adpsgd *adpsgd, int64_t step, luo_err *err)
{
    enum { MOST = 64 };
    const int64_t there = adpsgd->step_of[step & (adpsgd->cap - 1)];
    if (there <= step || adpsgd->cap >= MOST) return LUO_OK;
    return make_places(adpsgd, 2 * adpsgd->cap, err);
}

static void group(luo_adpsgd *adpsgd, double t_s, int32_t first, int32_t second, int64_t step,
                  luo_preduce_group *out)
{
    const bool alone = first == second;
    adpsgd->member[0] = first < second ? first : second;
    adpsgd->member[1] = first < second ? second : first;
    adpsgd->iteration[0] = adpsgd->iteration[1] = step;
    adpsgd->waits[first] = adpsgd->waits[second] = -1;
    *out = (luo_preduce_group){
        .t_s = t_s, .n = alone ? 1 : 2, .member = adpsgd->member, .iteration = adpsgd->iteration};
}

static bool is_absent(const luo_adpsgd *adpsgd, int32_t rank, int64_t step)
{
    return adpsgd->gone[rank] || step < adpsgd->from[rank];
}

luo_status luo_adpsgd_arrive(luo_adpsgd *adpsgd, double t_s, int32_t rank, int64_t step,
                             luo_preduce_group *out, luo_err *err)
{
    luo_adpsgd *a = adpsgd;
    out->n = 0;
    if (rank < 0 || rank >= a->workers || a->gone[rank] || a->waits[rank] >= 0)
        return luo_err_set(err, LUO_EBUG,
                           "worker %d arrives and waits already, or has left; each arrives once "
                           "before its pair.",
                           rank);
    LUO_TRY(make_room(a, step, err));
    const int32_t other = partners(a, step)[rank];
    const bool absent = is_absent(a, other, step);
    if (absent || a->waits[other] == step)
        group(a, t_s, rank, absent ? rank : other, step, out);
    else if (other == rank)
        group(a, t_s, rank, rank, step, out);
    else
        a->waits[rank] = step;
    return LUO_OK;
}

void luo_adpsgd_leave(luo_adpsgd *adpsgd, int32_t rank)
{
    adpsgd->gone[rank] = true;
    adpsgd->waits[rank] = -1;
}

int64_t luo_adpsgd_join(luo_adpsgd *adpsgd, int32_t rank, int64_t last)
{
    luo_adpsgd *a = adpsgd;
    for (int32_t w = 0; w < a->workers; w++)
        if (a->waits[w] > last) last = a->waits[w];
    a->gone[rank] = false;
    a->from[rank] = last + 1;
    return a->from[rank];
}

void luo_adpsgd_alone(luo_adpsgd *adpsgd, double t_s, luo_preduce_group *out)
{
    luo_adpsgd *a = adpsgd;
    out->n = 0;
    for (int32_t w = 0; w < a->workers; w++) {
        const int64_t step = a->waits[w];
        if (step < 0 || !is_absent(a, partners(a, step)[w], step)) continue;
        group(a, t_s, w, w, step, out);
        return;
    }
}
