/* spec_joint.c: tasks of pipelines that share devices, as some are absent. */
#include <math.h>
#include <string.h>

#include "core/graph/schedule/joint.h"
#include "core/graph/specialize/spec_internal.h"

typedef struct batch_id {
    int32_t pipeline, k; /* k: within its pipeline */
} batch_id;

typedef struct joiner {
    spec *s;
    const spec_joint_in *in;
    bool *joined;         /* by pipeline */
    int32_t *station_of;  /* [pipeline * max stages + stage]; -1: none */
    int32_t *dev_of;      /* by station: its first device */
    luo_joint_batch *batch;
    batch_id *id;         /* by batch */
    luo_joint joint;
    int32_t *kept, *waiting;
    const luo_spec_clock *clock; /* NULL: something is not known, tasks take time by their FLOP */
} joiner;

/* Pipelines with absent devices, and those whose devices stand in. */
static void find_joined(joiner *j)
{
    const spec *s = j->s;
    for (int32_t k = 0; k < s->in->nlengths; k++)
        for (int32_t a = 0; s->in->lengths[k].stands && a < s->in->nabsent; a++) {
            const int32_t d = s->in->lengths[k].stands[a];
            if (d < 0) continue;
            j->joined[s->pipe_of[d]] = true;
            j->joined[s->pipe_of[s->in->first_absent + a]] = true;
        }
}

static int32_t *slot_of(const joiner *j, int32_t dev)
{
    const spec *s = j->s;
    return &j->station_of[(int64_t)s->pipe_of[dev] * j->in->max_stages + s->stage_of[dev]];
}

static void find_stations(joiner *j)
{
    const spec *s = j->s;
    for (int32_t i = 0; i < s->ndev; i++) {
        const int32_t d = s->dev[i], p = s->pipe_of[d];
        if (p < 0 || !j->joined[p] || *slot_of(j, d) >= 0) continue;
        const int32_t id = *slot_of(j, d) = j->joint.nstations++;
        const int32_t m = s->in->pipes[p].micro_batches, stage = s->stage_of[d];
        const int32_t S = s->cls[s->class_of[p]].S;
        j->dev_of[id] = d;
        j->kept[id] = luo_sched_kept(s->in->schedule, S, stage, m, 1);
        j->waiting[id] = luo_sched_waiting(s->in->schedule, stage, m);
        if (j->waiting[id] > m - j->kept[id]) j->waiting[id] = m - j->kept[id];
    }
}

/* The device that runs stage `stage` of pipeline p for micro-batches of this length. */
static int32_t station_at(const joiner *j, int32_t p, int32_t stage, int32_t length)
{
    const spec *s = j->s;
    const int32_t own = j->station_of[(int64_t)p * j->in->max_stages + stage];
    if (own >= 0) return own;
    for (int32_t a = 0; a < s->in->nabsent; a++) {
        const int32_t d = s->in->first_absent + a;
        if (s->pipe_of[d] == p && s->stage_of[d] == stage)
            return *slot_of(j, s->in->lengths[length].stands[a]);
    }
    return -1;
}

/* What a segment takes: nanoseconds by the clock, else its FLOP; at least 1. */
static luo_status segment_cost(const joiner *j, const luo_role *role, int32_t seg, int32_t dev,
                               int64_t *out)
{
    const luo_spec_clock *clock = j->clock;
    double seconds = 0;
    int64_t flops = 0;
    for (int32_t i = role->seg[seg].first; i < role->seg[seg].first + role->seg[seg].n; i++) {
        const luo_instr *in = &role->instr[i];
        double t = 0;
        flops += in->flops / 1024; /* sums stay in range */
        if (clock && in->kind == LUO_INSTR_COMPUTE && in->cost.kind != LUO_COST_NONE)
            LUO_TRY(clock->work(clock->ctx, dev, &in->cost, &t));
        seconds += t;
    }
    *out = clock ? (int64_t)(fmin(seconds, 1e6) * 1e9) + 1 : flops + 1;
    return LUO_OK;
}

static luo_status fill_batch(joiner *j, batch_id id, luo_joint_batch *batch)
{
    spec *s = j->s;
    const luo_pipe *pipe = &s->in->pipes[id.pipeline];
    const int32_t length = pipe->length[id.k];
    const int32_t S = s->cls[s->class_of[id.pipeline]].S;
    int32_t *station = LUO_NEW_N(s->scratch, int32_t, S);
    const int32_t phases = luo_sched_phases(s->in->schedule);
    int64_t *cost = LUO_NEW_N(s->scratch, int64_t, 3 * (int64_t)S);
    if (!station || !cost) return luo_err_nomem(s->err);
    for (int32_t k = 0; k < S; k++) {
        station[k] = station_at(j, id.pipeline, k, length);
        const int32_t dev = j->dev_of[station[k]];
        const luo_role *role = &j->in->role[j->in->role_of[s->index_of[dev]]];
        const int32_t seg = luo_spec_segment(j->in, s, dev, length, LUO_TASK_F);
        for (int32_t i = 0; i < phases; i++)
            LUO_TRY(segment_cost(j, role, seg + i, dev, &cost[i * S + k]));
    }
    *batch = (luo_joint_batch){S, station, cost, cost + S, cost + 2 * S};
    return LUO_OK;
}

/* Does a stand before b? By how far they are in their pipelines: those of a lost first stage are
 * dealt among those of its peers. */
static bool stands_before(const spec *s, batch_id a, batch_id b)
{
    const int64_t x = (2 * (int64_t)a.k + 1) * s->in->pipes[b.pipeline].micro_batches;
    const int64_t y = (2 * (int64_t)b.k + 1) * s->in->pipes[a.pipeline].micro_batches;
    return x != y ? x < y : a.pipeline < b.pipeline;
}

/* Micro-batches of all joined pipelines, merged; those of a pipeline are in order. */
static luo_status list_batches(joiner *j, int32_t *next)
{
    const spec *s = j->s;
    const int32_t P = s->in->npipelines;
    int32_t n = 0;
    for (int32_t p = 0; p < P; p++) n += j->joined[p] ? s->in->pipes[p].micro_batches : 0;
    memset(next, 0, (size_t)P * sizeof *next);
    for (int32_t b = 0; b < n; b++) {
        batch_id best = {-1, 0};
        for (int32_t p = 0; p < P; p++) {
            const batch_id x = {p, next[p]};
            if (!j->joined[p] || x.k == s->in->pipes[p].micro_batches) continue;
            if (best.pipeline < 0 || stands_before(s, x, best)) best = x;
        }
        j->id[b] = best;
        next[best.pipeline]++;
        LUO_TRY(fill_batch(j, best, &j->batch[b]));
    }
    j->joint.nbatches = n;
    j->joint.batch = j->batch;
    j->joint.kept = j->kept;
    j->joint.waiting = j->waiting;
    j->joint.split = luo_sched_splits(s->in->schedule);
    return LUO_OK;
}

static luo_status make_batches(joiner *j)
{
    const spec *s = j->s;
    int32_t n = 0, *next = LUO_NEW_N(s->scratch, int32_t, s->in->npipelines);
    for (int32_t p = 0; p < s->in->npipelines; p++)
        n += j->joined[p] ? s->in->pipes[p].micro_batches : 0;
    j->id = LUO_NEW_N(s->scratch, batch_id, n);
    j->batch = LUO_NEW_N(s->scratch, luo_joint_batch, n);
    if (!next || !j->id || !j->batch) return luo_err_nomem(s->err);
    j->clock = s->in->clock;
    luo_status st = list_batches(j, next);
    if (st != LUO_OK && st != LUO_ENOMEM && j->clock) { /* as for the order of calls */
        j->clock = NULL;
        st = list_batches(j, next);
    }
    return st;
}

static luo_status write_tasks(joiner *j, int32_t station, const luo_joint_order *order,
                              spec_tasks *out)
{
    spec *s = j->s;
    const int32_t dev = j->dev_of[station];
    const luo_role *role = &j->in->role[j->in->role_of[s->index_of[dev]]];
    luo_run_task *task = LUO_NEW_N(s->arena, luo_run_task, order->n + 2);
    if (!task) return luo_err_nomem(s->err);
    task[0] = (luo_run_task){0, -1};
    for (int32_t i = 0; i < order->n; i++) {
        const batch_id id = j->id[order->task[i].batch];
        const luo_pipe *pipe = &s->in->pipes[id.pipeline];
        task[1 + i] = (luo_run_task){
            luo_spec_segment(j->in, s, dev, pipe->length[id.k], order->task[i].phase),
            pipe->first + id.k};
    }
    task[order->n + 1] = (luo_run_task){role->nseg - 1, -1};
    *out = (spec_tasks){order->n + 2, task};
    return LUO_OK;
}

static luo_status join(joiner *j, spec_tasks *out)
{
    spec *s = j->s;
    const int64_t places = (int64_t)s->in->npipelines * j->in->max_stages;
    luo_joint_order *order;
    int64_t makespan;
    j->joined = LUO_NEW_N(s->scratch, bool, s->in->npipelines);
    j->station_of = LUO_NEW_N(s->scratch, int32_t, places);
    j->dev_of = LUO_NEW_N(s->scratch, int32_t, places);
    j->kept = LUO_NEW_N(s->scratch, int32_t, places);
    j->waiting = LUO_NEW_N(s->scratch, int32_t, places);
    if (!j->joined || !j->station_of || !j->dev_of || !j->kept || !j->waiting)
        return luo_err_nomem(s->err);
    for (int64_t i = 0; i < places; i++) j->station_of[i] = -1;
    find_joined(j);
    find_stations(j);
    LUO_TRY(make_batches(j));
    LUO_TRY(luo_joint_schedule(s->scratch, &j->joint, &order, &makespan, s->err));
    for (int64_t i = 0; i < places; i++)
        if (j->station_of[i] >= 0)
            LUO_TRY(write_tasks(j, j->station_of[i], &order[j->station_of[i]], &out[i]));
    return LUO_OK;
}

luo_status luo_spec_join_tasks(spec *s, const spec_joint_in *in, spec_tasks *out)
{
    joiner j = {.s = s, .in = in};
    return join(&j, out);
}
