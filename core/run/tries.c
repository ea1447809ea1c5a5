#include "core/run/tries.h"
#include "core/base/vec.h"

#include <assert.h>
#include <string.h>

typedef struct luo_try_run run;

static int64_t end_of(const luo_tries *tries, int32_t i)
{
    return i + 1 < tries->n ? tries->run[i + 1].first : tries->to;
}

static bool insert(luo_arena *arena, luo_tries *tries, int32_t at, run r)
{
    if (!LUO_VEC_ROOM_IN(arena, tries->run, tries->n, tries->room)) return false;
    memmove(tries->run + at + 1, tries->run + at, (size_t)(tries->n - at) * sizeof *tries->run);
    tries->run[at] = r;
    tries->n++;
    return true;
}

static void drop(luo_tries *tries, int32_t at)
{
    tries->n--;
    memmove(tries->run + at, tries->run + at + 1, (size_t)(tries->n - at) * sizeof *tries->run);
}

static bool append_tries(luo_arena *arena, luo_tries *tries, int32_t times)
{
    if (tries->n == 0 || tries->run[tries->n - 1].times != times)
        if (!insert(arena, tries, tries->n, (run){tries->to, times})) return false;
    tries->to++;
    return true;
}

static int32_t find(const luo_tries *tries, int64_t step)
{
    int32_t lo = 0, hi = tries->n - 1;
    while (lo < hi) {
        const int32_t mid = lo + (hi - lo + 1) / 2;
        if (tries->run[mid].first <= step)
            lo = mid;
        else hi = mid - 1;
    }
    return lo;
}

bool luo_tries_add(luo_arena *arena, luo_tries *tries, int64_t step, int32_t known, int32_t *before)
{
    assert(step >= tries->from && step <= tries->to);
    *before = known;
    if (step == tries->to) return append_tries(arena, tries, known + 1);
    int32_t i = find(tries, step);
    const int32_t times = tries->run[i].times;
    *before = times;
    if (step + 1 < end_of(tries, i) && !insert(arena, tries, i + 1, (run){step + 1, times}))
        return false;
    if (step > tries->run[i].first) return insert(arena, tries, i + 1, (run){step, times + 1});
    if (i > 0 && tries->run[i - 1].times == times + 1)
        drop(tries, i); /* goes on with that one */
    else
        tries->run[i].times++;
    return true;
}

void luo_tries_forget(luo_tries *tries, int64_t from)
{
    assert(from >= tries->from && from <= tries->to);
    while (tries->n > 0 && end_of(tries, 0) <= from) drop(tries, 0);
    if (tries->n > 0) tries->run[0].first = from;
    tries->from = from;
}

void luo_tries_clear(luo_tries *tries, int64_t from)
{
    tries->n = 0;
    tries->from = tries->to = from;
}
