/* check_expand.c: a program's lanes as lists of points.
 *
 * A lane is in order, so "instruction j of segment s has run" is the same as "its lane has passed
 * so many points". A point stands for every communication, and on the compute lane for every
 * instruction that waits for another lane or that another lane waits for. */
#include <string.h>

#include "core/graph/program/check_internal.h"

typedef struct expander {
    luo_arena *arena;
    const luo_role *role;
    const luo_run_task *tasks;
    int32_t ntask;
    bool *is_point;    /* by instruction */
    int32_t *rank;     /* by instruction: points of its lane in its segment up to and with it */
    int32_t *segment;  /* by instruction */
    int32_t *per_seg;  /* [segment * LUO_LANES + lane]: points */
    int32_t *before;   /* [task * LUO_LANES + lane]: points of earlier tasks */
    int32_t *latest;   /* by segment: latest task so far */
    int32_t *of_batch; /* [segment * micro_batches + micro_batch]: latest task so far */
    int32_t batches;
    check_list *out;
    int32_t nwait;
} expander;

static bool allocate(expander *e)
{
    const luo_role *role = e->role;
    for (int32_t t = 0; t < e->ntask; t++)
        if (e->tasks[t].micro_batch >= e->batches) e->batches = e->tasks[t].micro_batch + 1;
    e->is_point = LUO_NEW_N(e->arena, bool, role->ninstr);
    e->rank = LUO_NEW_N(e->arena, int32_t, role->ninstr);
    e->segment = LUO_NEW_N(e->arena, int32_t, role->ninstr);
    e->per_seg = LUO_NEW_N(e->arena, int32_t, (int64_t)role->nseg * LUO_LANES);
    e->before = LUO_NEW_N(e->arena, int32_t, (int64_t)(e->ntask + 1) * LUO_LANES);
    e->latest = LUO_NEW_N(e->arena, int32_t, role->nseg);
    e->of_batch = LUO_NEW_N(e->arena, int32_t, (int64_t)role->nseg * e->batches);
    return e->is_point && e->rank && e->segment && e->per_seg && e->before && e->latest &&
           e->of_batch;
}

static void find_points(expander *e)
{
    const luo_role *role = e->role;
    for (int32_t i = 0; i < role->ninstr; i++) {
        const luo_instr *in = &role->instr[i];
        if (in->kind == LUO_INSTR_COLLECTIVE || in->kind == LUO_INSTR_P2P || in->ndep)
            e->is_point[i] = true;
        for (int32_t k = 0; k < in->ndep; k++) e->is_point[in->dep[k]] = true;
    }
    for (int32_t s = 0; s < role->nseg; s++)
        for (int32_t i = role->seg[s].first; i < role->seg[s].first + role->seg[s].n; i++) {
            int32_t *n = &e->per_seg[s * LUO_LANES + check_lane(&role->instr[i])];
            e->segment[i] = s;
            e->rank[i] = e->is_point[i] ? ++*n : *n;
        }
}

static void count_tasks(expander *e)
{
    for (int32_t t = 0; t < e->ntask; t++)
        for (int32_t l = 0; l < LUO_LANES; l++)
            e->before[(t + 1) * LUO_LANES + l] =
                e->before[t * LUO_LANES + l] + e->per_seg[e->tasks[t].seg * LUO_LANES + l];
    memcpy(e->out->n, &e->before[e->ntask * LUO_LANES], sizeof e->out->n);
}

static int32_t total_waits(const expander *e)
{
    int64_t sum = 0;
    for (int32_t t = 0; t < e->ntask; t++) {
        const luo_segment *seg = &e->role->seg[e->tasks[t].seg];
        for (int32_t i = seg->first; i < seg->first + seg->n; i++)
            sum += e->role->instr[i].ndep + e->role->instr[i].at_start;
    }
    return sum < INT32_MAX ? (int32_t)sum : -1;
}

/* Task in which dependency `dep` ran as task t sees it; -1: it has not run. */
static int32_t task_of(const expander *e, int32_t t, int32_t dep)
{
    const luo_run_task *now = &e->tasks[t];
    const int32_t s = e->segment[dep];
    if (s == now->seg) return t;
    if (luo_phase_in_task(e->role->seg[s].phase) && now->micro_batch >= 0)
        return e->of_batch[s * e->batches + now->micro_batch] - 1;
    return e->latest[s] - 1;
}

static luo_status add_waits(expander *e, int32_t t, const luo_instr *in, luo_err *err)
{
    if (in->at_start)
        e->out->wait[e->nwait++] = (check_wait){
            LUO_STREAM_COMPUTE, e->before[t * LUO_LANES + LUO_STREAM_COMPUTE]};
    for (int32_t k = 0; k < in->ndep; k++) {
        const int32_t dep = in->dep[k], from = task_of(e, t, dep);
        if (from < 0) {
            /* Post waits for the last B of every length; this list may have none of one. */
            if (e->tasks[t].micro_batch < 0) continue;
            return luo_err_set(err, LUO_EINPUT,
                               "instruction %d waits for instruction %d, which never runs for "
                               "micro-batch %d.", (int)in->id, (int)dep,
                               (int)e->tasks[t].micro_batch);
        }
        const int32_t lane = check_lane(&e->role->instr[dep]);
        e->out->wait[e->nwait++] =
            (check_wait){lane, e->before[from * LUO_LANES + lane] + e->rank[dep]};
    }
    return LUO_OK;
}

static luo_status expand_task(expander *e, int32_t t, int32_t *at, luo_err *err)
{
    const luo_run_task *task = &e->tasks[t];
    const luo_segment *seg = &e->role->seg[task->seg];
    for (int32_t i = seg->first; i < seg->first + seg->n; i++) {
        if (!e->is_point[i]) continue;
        const int32_t lane = check_lane(&e->role->instr[i]), first = e->nwait;
        LUO_TRY(add_waits(e, t, &e->role->instr[i], err));
        e->out->point[lane][at[lane]++] =
            (check_point){i, task->micro_batch, first, e->nwait - first};
    }
    e->latest[task->seg] = t + 1;
    if (task->micro_batch >= 0) e->of_batch[task->seg * e->batches + task->micro_batch] = t + 1;
    return LUO_OK;
}

luo_status luo_check_expand(luo_arena *arena, const luo_role *role, const luo_run_task *tasks,
                            int32_t ntask, check_list *out, luo_err *err)
{
    expander e = {.arena = arena, .role = role, .tasks = tasks, .ntask = ntask, .out = out};
    *out = (check_list){.role = role};
    if ((int64_t)role->nseg * ntask > INT32_MAX / 4)
        return luo_err_set(err, LUO_E2BIG, "%d segments and %d tasks are too many to check; check "
                           "a smaller plan.", (int)role->nseg, (int)ntask);
    if (!allocate(&e)) return luo_err_nomem(err);
    find_points(&e);
    count_tasks(&e);
    const int32_t waits = total_waits(&e);
    if (waits < 0)
        return luo_err_set(err, LUO_E2BIG, "a program has more than 2^31 waits; check a smaller "
                           "plan.");
    out->wait = LUO_NEW_N(arena, check_wait, waits);
    if (!out->wait) return luo_err_nomem(err);
    for (int32_t l = 0; l < LUO_LANES; l++) {
        out->point[l] = LUO_NEW_N(arena, check_point, out->n[l]);
        if (!out->point[l]) return luo_err_nomem(err);
    }
    int32_t at[LUO_LANES] = {0};
    for (int32_t t = 0; t < ntask; t++) LUO_TRY(expand_task(&e, t, at, err));
    return LUO_OK;
}
