/* sched.c: the order of forward and backward tasks on a stage
 * (docs/architecture/schedules.md#orders; the interleaved order is that of NVIDIA Megatron-LM,
 * core/pipeline_parallel/schedules.py; that of zb_h1 is ZB-H1 of arXiv 2401.10241, whose in-flight
 * micro-batches are as many on every stage: weight gradients of stage s come s micro-batches
 * late; zb_h2: 2s). */
#include "core/graph/schedule/sched.h"

#include <string.h>

#include "core/base/words.h"

/* ---- forwards before the first backward's pair ---- */

static int64_t warm_up_all(int32_t S, int32_t s, int32_t m, int32_t v)
{
    (void)S, (void)s, (void)v;
    return m;
}

static int64_t warm_up_once(int32_t S, int32_t s, int32_t m, int32_t v)
{
    (void)m, (void)v;
    return S - s - 1;
}

static int64_t warm_up_twice(int32_t S, int32_t s, int32_t m, int32_t v)
{
    (void)m, (void)v;
    return 2 * (int64_t)(S - s - 1);
}

static int64_t warm_up_groups(int32_t S, int32_t s, int32_t m, int32_t v)
{
    (void)m;
    return 2 * (int64_t)(S - s - 1) + (int64_t)(v - 1) * S;
}

/* ---- the table ---- */

typedef struct sched {
    const char *name;
    bool takes_chunks;
    int32_t late;
    int64_t (*warm_up)(int32_t S, int32_t s, int32_t m, int32_t v);
} sched;

static const sched scheds[LUO_SCHEDS] = {
#define LUO_SCHED(kind, name, takes_chunks, late, warm_up, uniform)                                \
    [LUO_SCHED_##kind] = {name, takes_chunks, late, warm_up_##warm_up},
#include "core/graph/schedule/schedules.inc"
#undef LUO_SCHED
};

const char *luo_sched_name(luo_sched_kind kind)
{
    return (unsigned)kind < LUO_SCHEDS ? scheds[kind].name : "?";
}

bool luo_sched_splits(luo_sched_kind kind)
{
    return scheds[kind].late > 0;
}

bool luo_sched_takes_chunks(luo_sched_kind kind)
{
    return scheds[kind].takes_chunks;
}

luo_status luo_sched_parse(const char *name, luo_sched_kind *out, luo_err *err)
{
    const char *names[LUO_SCHEDS];
    luo_str text = {0};
    for (int k = 0; k < LUO_SCHEDS; k++) {
        names[k] = scheds[k].name;
        if (strcmp(name, names[k]) != 0) continue;
        *out = (luo_sched_kind)k;
        return LUO_OK;
    }
    luo_words_expected(&text, name, names, LUO_SCHEDS);
    const luo_status st =
        luo_err_set(err, LUO_EINPUT, "schedule `%s` is not known; %s", name, luo_str_get(&text));
    luo_str_free(&text);
    return st;
}

luo_status luo_sched_check(luo_sched_kind kind, int32_t S, int32_t m, int32_t v, luo_err *err)
{
    const bool interleaved = luo_sched_takes_chunks(kind);
    if (S < 1 || m < 1 || v < 1)
        return luo_err_set(err, LUO_EINPUT,
                           "%s schedule: %d stages, %d micro-batches, %d chunks; at least one of "
                           "each is needed.",
                           luo_sched_name(kind), S, m, v);
    if (!interleaved && v > 1)
        return luo_err_set(err, LUO_EINPUT,
                           "%s schedule: %d chunks per stage; use interleaved_1f1b.",
                           luo_sched_name(kind), v);
    if (interleaved && m % S != 0)
        return luo_err_set(err, LUO_EINPUT,
                           "interleaved schedule: %d micro-batches are not a multiple of %d stages",
                           m, S);
    if ((int64_t)m * v > INT32_MAX / 3 || (int64_t)S * v > INT32_MAX / 2)
        return luo_err_set(err, LUO_E2BIG,
                           "%s schedule: %d micro-batches in %d chunks are too many tasks.",
                           luo_sched_name(kind), m, v);
    return LUO_OK;
}

static int32_t warm_up(luo_sched_kind kind, int32_t S, int32_t s, int32_t m, int32_t v)
{
    const int64_t w = scheds[kind].warm_up(S, s, m, v);
    return w < m * v ? (int32_t)w : m * v;
}

int32_t luo_sched_kept(luo_sched_kind kind, int32_t S, int32_t s, int32_t m, int32_t v)
{
    const int32_t w = warm_up(kind, S, s, m, v);
    return w < m * v ? w + 1 : w;
}

int32_t luo_sched_waiting(luo_sched_kind kind, int32_t s, int32_t m)
{
    if (!luo_sched_splits(kind)) return 0;
    const int64_t late = scheds[kind].late * (int64_t)s;
    return late < m - 1 ? (int32_t)late : m - 1;
}

/* Virtual index k of a direction: groups of S micro-batches visit all chunks one after another.
 * One chunk: micro-batch k. */
static luo_task task_at(int32_t S, int32_t v, int32_t k, luo_task_phase phase)
{
    const int32_t within = (int32_t)(k % ((int64_t)S * v)), chunk = within / S;
    return (luo_task){.phase = phase,
                      .micro_batch = v == 1 ? k : (int32_t)(k / ((int64_t)S * v)) * S + k % S,
                      .chunk = phase == LUO_TASK_F ? chunk : v - 1 - chunk};
}

luo_status luo_sched_make(luo_arena *arena, luo_sched_kind kind, int32_t S, int32_t s, int32_t m,
                          int32_t v, const luo_task **tasks, int32_t *n, luo_err *err)
{
    LUO_TRY(luo_sched_check(kind, S, m, v, err));
    if (s < 0 || s >= S)
        return luo_err_set(err, LUO_EINPUT, "%s schedule: stage %d; stages are 0 to %d.",
                           luo_sched_name(kind), s, S - 1);
    const int32_t each = m * v, w = warm_up(kind, S, s, m, v);
    const bool splits = luo_sched_splits(kind);
    const int32_t late = luo_sched_waiting(kind, s, m);
    luo_task *task = LUO_NEW_N(arena, luo_task, (int64_t)luo_sched_phases(kind) * each);
    if (!task) return luo_err_nomem(err);
    int32_t at = 0;
    for (int32_t k = 0; k < w; k++) task[at++] = task_at(S, v, k, LUO_TASK_F);
    for (int32_t k = 0; k < each; k++) {
        if (w + k < each) task[at++] = task_at(S, v, w + k, LUO_TASK_F);
        task[at++] = task_at(S, v, k, splits ? LUO_TASK_BI : LUO_TASK_B);
        if (splits && k >= late) task[at++] = task_at(S, v, k - late, LUO_TASK_BW);
    }
    for (int32_t k = each - late; splits && k < each; k++)
        task[at++] = task_at(S, v, k, LUO_TASK_BW);
    *tasks = task;
    *n = at;
    return LUO_OK;
}
