#include "core/sync/clock.h"

#include <assert.h>
#include <string.h>

enum { FIRST = 16, BITS = 64 };

luo_status luo_clock_new(luo_arena *arena, int32_t workers, int64_t staleness, luo_clock *out,
                         luo_err *err)
{
    assert(workers >= 1 && staleness >= -1);
    luo_clock clock = {.workers = workers, .living = workers, .staleness = staleness, .cap = FIRST};
    clock.arena = arena;
    clock.clock = LUO_NEW_N(arena, int64_t, workers);
    clock.state = LUO_NEW_N(arena, uint8_t, workers);
    clock.at = LUO_NEW_N(arena, int64_t, FIRST);
    clock.fresh = LUO_NEW_N(arena, int32_t, workers);
    clock.started = LUO_NEW_N(arena, int32_t, workers);
    clock.blocked = LUO_NEW_N(arena, uint64_t, workers / BITS + 1);
    if (!clock.clock || !clock.state || !clock.at || !clock.fresh || !clock.started ||
        !clock.blocked)
        return luo_err_nomem(err);
    clock.at[0] = workers;
    *out = clock;
    return LUO_OK;
}

static int64_t *place(const luo_clock *clock, int64_t value)
{
    return &clock->at[value & (clock->cap - 1)];
}

/* Room for clocks from the least to `most`. */
static luo_status widen(luo_clock *clock, int64_t most, luo_err *err)
{
    int64_t cap = clock->cap;
    while (most - clock->least >= cap) cap *= 2;
    if (cap == clock->cap) return LUO_OK;
    int64_t *at = LUO_NEW_N(clock->arena, int64_t, cap);
    if (!at) return luo_err_nomem(err);
    for (int64_t v = clock->least; v <= clock->most; v++) at[v & (cap - 1)] = *place(clock, v);
    clock->at = at;
    clock->cap = cap;
    return LUO_OK;
}

/* One of the living less at `value`: the least clock is where somebody still is. */
static void take(luo_clock *clock, int64_t value)
{
    --*place(clock, value);
    if (clock->living == 0) return;
    while (*place(clock, clock->least) == 0 && clock->least < clock->most) {
        clock->least++;
        clock->moved = true;
    }
}

luo_status luo_clock_finish(luo_clock *clock, int32_t worker, luo_err *err)
{
    if (worker < 0 || worker >= clock->workers || clock->state[worker] != LUO_CLOCK_RUNNING)
        return luo_err_set(err, LUO_EBUG,
                           "worker %d finishes an iteration and runs none; it has to be started "
                           "first.",
                           worker);
    const int64_t before = clock->clock[worker];
    LUO_TRY(widen(clock, before + 1, err));
    ++*place(clock, before + 1);
    clock->clock[worker] = before + 1;
    if (before + 1 > clock->most) clock->most = before + 1;
    take(clock, before);
    clock->state[worker] = LUO_CLOCK_FRESH;
    clock->fresh[clock->nfresh++] = worker;
    return LUO_OK;
}

void luo_clock_leave(luo_clock *clock, int32_t worker)
{
    if (clock->state[worker] == LUO_CLOCK_GONE) return;
    if (clock->state[worker] == LUO_CLOCK_BLOCKED)
        clock->blocked[worker / BITS] &= ~(UINT64_C(1) << worker % BITS);
    clock->state[worker] = LUO_CLOCK_GONE;
    clock->living--;
    take(clock, clock->clock[worker]);
    /* The foremost may be who left. */
    while (clock->living > 0 && *place(clock, clock->most) == 0) clock->most--;
}

luo_status luo_clock_join(luo_clock *clock, int32_t worker, luo_err *err)
{
    if (clock->state[worker] != LUO_CLOCK_GONE)
        return luo_err_set(err, LUO_EBUG, "worker %d comes back and has not left.", worker);
    if (clock->living == 0) clock->least = clock->most = clock->clock[worker];
    clock->clock[worker] = clock->least;
    clock->state[worker] = LUO_CLOCK_RUNNING;
    clock->living++;
    ++*place(clock, clock->least);
    return LUO_OK;
}

bool luo_clock_may_start(const luo_clock *clock, int32_t worker)
{
    return clock->staleness < 0 || clock->clock[worker] - clock->staleness <= clock->least;
}

static void block(luo_clock *clock, int32_t worker)
{
    clock->state[worker] = LUO_CLOCK_BLOCKED;
    clock->blocked[worker / BITS] |= UINT64_C(1) << worker % BITS;
}

/* Who of the blocked may start, ascending. */
static int32_t unblock(luo_clock *clock)
{
    int32_t n = 0;
    for (int32_t i = 0; i <= clock->workers / BITS; i++)
        for (uint64_t bits = clock->blocked[i]; bits; bits &= bits - 1) {
            const int32_t worker = i * BITS + __builtin_ctzll(bits);
            if (luo_clock_may_start(clock, worker)) clock->started[n++] = worker;
        }
    for (int32_t i = 0; i < n; i++)
        clock->blocked[clock->started[i] / BITS] &= ~(UINT64_C(1) << clock->started[i] % BITS);
    return n;
}

int32_t luo_clock_release(luo_clock *clock, const int32_t **started)
{
    int32_t n = 0;
    /* While the least clock stands, nobody who is blocked may start: only the fresh are looked at.
     */
    for (int32_t i = 0; i < clock->nfresh; i++) {
        const int32_t worker = clock->fresh[i];
        if (clock->state[worker] != LUO_CLOCK_FRESH) continue;
        if (clock->moved || !luo_clock_may_start(clock, worker))
            block(clock, worker);
        else
            clock->started[n++] = worker;
    }
    if (clock->moved) n = unblock(clock);
    for (int32_t i = 0; i < n; i++) clock->state[clock->started[i]] = LUO_CLOCK_RUNNING;
    clock->nfresh = 0;
    clock->moved = false;
    *started = clock->started;
    return n;
}
