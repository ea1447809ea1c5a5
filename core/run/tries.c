#include "core/run/tries.h"
#include "core/base/vec.h"

#include <assert.h>
#include <string.h>

typedef struct luo_try_run run;

static int64_t end_of(const luo_tries *t, int32_t i)
{
    return i + 1 < t->n ? t->run[i + 1].first : t->to;
}

static bool insert(luo_arena *arena, luo_tries *t, int32_t at, run r)
{
    if (!LUO_VEC_ROOM_IN(arena, t->run, t->n, t->room)) return false;
    memmove(t->run + at + 1, t->run + at, (size_t)(t->n - at) * sizeof *t->run);
    t->run[at] = r;
    t->n++;
    return true;
}

static void drop(luo_tries *t, int32_t at)
{
    t->n--;
    memmove(t->run + at, t->run + at + 1, (size_t)(t->n - at) * sizeof *t->run);
}

static bool append_tries(luo_arena *arena, luo_tries *t, int32_t times)
{
    if (t->n == 0 || t->run[t->n - 1].times != times)
        if (!insert(arena, t, t->n, (run){t->to, times})) return false;
    t->to++;
    return true;
}

static int32_t find(const luo_tries *t, int64_t step)
{
    int32_t lo = 0, hi = t->n - 1;
    while (lo < hi) {
        const int32_t mid = lo + (hi - lo + 1) / 2;
        if (t->run[mid].first <= step) lo = mid;
        else hi = mid - 1;
    }
    return lo;
}

bool luo_tries_add(luo_arena *arena, luo_tries *t, int64_t step, int32_t known, int32_t *before)
{
    assert(step >= t->from && step <= t->to);
    *before = known;
    if (step == t->to) return append_tries(arena, t, known + 1);
    int32_t i = find(t, step);
    const int32_t times = t->run[i].times;
    *before = times;
    if (step + 1 < end_of(t, i) && !insert(arena, t, i + 1, (run){step + 1, times})) return false;
    if (step > t->run[i].first) return insert(arena, t, i + 1, (run){step, times + 1});
    if (i > 0 && t->run[i - 1].times == times + 1) drop(t, i); /* goes on with that one */
    else t->run[i].times++;
    return true;
}

void luo_tries_forget(luo_tries *t, int64_t from)
{
    assert(from >= t->from && from <= t->to);
    while (t->n > 0 && end_of(t, 0) <= from) drop(t, 0);
    if (t->n > 0) t->run[0].first = from;
    t->from = from;
}

void luo_tries_clear(luo_tries *t, int64_t from)
{
    t->n = 0;
    t->from = t->to = from;
}
