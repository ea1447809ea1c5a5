/* replay.c: a step run, and whom its slowness is due to. */
#include "core/run/replay/replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/words.h"

static const char *const by_names[] = {"stage", "pipeline", "worker", "op", "micro_batch"};

const char *luo_replay_by_name(luo_replay_by by)
{
    return by_names[by];
}

/* ---- one step ---- */

/* When all that the members of unit u wait for in a pipeline has ended. */
static double ready_at(const luo_replay *replay, int32_t u, const double *end_s)
{
    double ready = 0;
    for (int32_t m = replay->unit[u]; m < replay->unit[u + 1]; m++)
        for (int32_t e = replay->first[replay->member[m]]; e < replay->first[replay->member[m] + 1];
             e++)
            ready = fmax(ready, end_s[replay->before[e]]);
    return ready;
}

static double find_end(const luo_replay *replay, const double *end_s)
{
    double updated = 0, last = 0;
    for (int64_t i = 0; i < (int64_t)replay->pipelines * replay->nodes; i++) {
        last = fmax(last, end_s[i]);
        if (replay->node[i % replay->nodes].op == LUO_REPLAY_OPTIMIZER)
            updated = fmax(updated, end_s[i]);
    }
    return replay->ideal_s[LUO_REPLAY_OPTIMIZER] > 0 || updated > 0 ? updated : last;
}

double luo_replay_run(const luo_replay *replay, const double *duration_s, double *end_s)
{
    const int64_t nodes = replay->nodes;
    for (int32_t u = 0; u < replay->units; u++) {
        double common = 0;
        for (int32_t d = 0; replay->spans[u] && d < replay->pipelines; d++)
            common = fmax(common, ready_at(replay, u, end_s + d * nodes));
        for (int32_t d = 0; d < replay->pipelines; d++) {
            const double start = replay->spans[u] ? common : ready_at(replay, u, end_s + d * nodes);
            for (int32_t m = replay->unit[u]; m < replay->unit[u + 1]; m++) {
                const int64_t i = d * nodes + replay->member[m];
                end_s[i] = start + duration_s[i];
            }
        }
    }
    return find_end(replay, end_s);
}

/* ---- who is slow ---- */

typedef struct work {
    const luo_replay *r;
    double *duration_s, *end_s; /* D x N */
    const bool *slow;           /* D x P: those that are idealised; NULL: by a cause */
    double real_mean_s, ideal_s;
} work;

static bool is_of(const work *w, const luo_replay_cause *cause, int32_t pipeline,
                  const luo_replay_node *node)
{
    if (w->slow) return w->slow[(int64_t)pipeline * w->r->stages + node->stage];
    switch (cause->by) {
    case LUO_REPLAY_STAGE:
        return node->stage == cause->stage;
    case LUO_REPLAY_PIPELINE:
        return pipeline == cause->pipeline;
    case LUO_REPLAY_WORKER:
        return pipeline == cause->pipeline && node->stage == cause->stage;
    case LUO_REPLAY_OP:
        return strcmp(luo_replay_op_type(node->op), cause->type) == 0;
    case LUO_REPLAY_MICRO_BATCH:
        return node->micro_batch == cause->micro_batch;
    }
    return false;
}

/* Mean step if the durations of a cause are as recorded and all others ideal (kept), or the other
 * way round. */
static double run_mean(const work *w, const luo_replay_cause *cause, bool kept)
{
    const luo_replay *replay = w->r;
    double sum = 0;
    for (int32_t k = 0; k < replay->steps; k++) {
        const double *recorded =
            replay->duration_s + (int64_t)k * replay->pipelines * replay->nodes;
        for (int32_t d = 0; d < replay->pipelines; d++)
            for (int32_t v = 0; v < replay->nodes; v++) {
                const int64_t i = (int64_t)d * replay->nodes + v;
                const bool real = is_of(w, cause, d, &replay->node[v]) == kept;
                w->duration_s[i] = real ? recorded[i] : replay->ideal_s[replay->node[v].op];
            }
        sum += luo_replay_run(replay, w->duration_s, w->end_s);
    }
    return sum / replay->steps;
}

/* Share of the loss that is gone at that mean step. */
static double recovered(const work *w, double without_s)
{
    const double lost = w->real_mean_s - w->ideal_s;
    return fabs(lost) < 1e-9 ? NAN : (w->real_mean_s - without_s) / lost;
}

static void measure_steps(const work *w, luo_replay_figures *out, double *measured, double *real)
{
    const luo_replay *replay = w->r;
    const int64_t size = (int64_t)replay->pipelines * replay->nodes;
    for (int32_t k = 0; k < replay->steps; k++) {
        const double *start = replay->start_s + k * size, *duration = replay->duration_s + k * size;
        double first = INFINITY, last = -INFINITY;
        for (int64_t i = 0; i < size; i++) {
            first = fmin(first, start[i]);
            last = fmax(last, start[i] + duration[i]);
        }
        measured[k] = last - first;
        real[k] = luo_replay_run(replay, duration, w->end_s);
        out->measured_mean_s += measured[k] / replay->steps;
        out->real_mean_s += real[k] / replay->steps;
    }
    out->measured_s = measured;
    out->real_s = real;
}

static luo_replay_cause cause_of(luo_replay_by by, int32_t pipeline, int32_t stage,
                                 const char *type, int32_t micro_batch)
{
    return (luo_replay_cause){.by = by,
                              .pipeline = pipeline,
                              .stage = stage,
                              .type = type,
                              .micro_batch = micro_batch,
                              .slowdown = NAN,
                              .recovered_ratio = NAN};
}

/* Does an earlier operation have that type, or is there none of it? */
static bool skip_type(const luo_replay *replay, int op)
{
    bool any = false;
    for (int k = 0; k < LUO_REPLAY_OPS; k++) {
        if (strcmp(luo_replay_op_type((luo_replay_op)k), luo_replay_op_type((luo_replay_op)op)) !=
            0)
            continue;
        if (k < op) return true;
        for (int32_t v = 0; v < replay->nodes && !any; v++) any = (int)replay->node[v].op == k;
    }
    return !any;
}

/* has: per micro-batch. */
static int32_t list_causes(const luo_replay *replay, const bool *has, luo_replay_cause *out,
                           int32_t *first_worker)
{
    int32_t n = 0;
    for (int32_t s = 0; s < replay->stages; s++)
        out[n++] = cause_of(LUO_REPLAY_STAGE, -1, s, NULL, -1);
    for (int32_t d = 0; d < replay->pipelines; d++)
        out[n++] = cause_of(LUO_REPLAY_PIPELINE, d, -1, NULL, -1);
    *first_worker = n;
    for (int32_t d = 0; d < replay->pipelines; d++)
        for (int32_t s = 0; s < replay->stages; s++)
            out[n++] = cause_of(LUO_REPLAY_WORKER, d, s, NULL, -1);
    for (int op = 0; op < LUO_REPLAY_OPS; op++)
        if (!skip_type(replay, op))
            out[n++] = cause_of(LUO_REPLAY_OP, -1, -1, luo_replay_op_type((luo_replay_op)op), -1);
    for (int32_t m = 0; m < replay->micro_batches; m++)
        if (has[m]) out[n++] = cause_of(LUO_REPLAY_MICRO_BATCH, -1, -1, NULL, m);
    return n;
}

/* Numbers may be left out. */
static int32_t count_micro_batches(const luo_replay *replay, bool *has)
{
    int32_t n = 0;
    for (int32_t v = 0; v < replay->nodes; v++) {
        const int32_t m = replay->node[v].micro_batch;
        if (m < 0) continue;
        n += !has[m];
        has[m] = true;
    }
    return n;
}

static void fill_causes(const work *w, luo_replay_figures *out, luo_replay_cause *cause)
{
    const int32_t stages = w->r->stages;
    for (int32_t i = 0; i < out->ncauses; i++) {
        luo_replay_cause *replay_cause = &cause[i];
        if (replay_cause->by == LUO_REPLAY_WORKER) {
            replay_cause->slowdown = fmin(cause[replay_cause->stage].slowdown,
                                          cause[stages + replay_cause->pipeline].slowdown);
            continue;
        }
        replay_cause->slowdown = run_mean(w, replay_cause, true) / w->ideal_s;
        replay_cause->recovered_ratio = recovered(w, run_mean(w, replay_cause, false));
    }
    out->cause = cause;
    out->last_stage_ratio = cause[stages - 1].recovered_ratio;
}

/* The slowest workers; of equal ones those of the lower rank, which is by stage, then pipeline. */
static void mark_slowest(const luo_replay *replay, const luo_replay_cause *worker, int32_t n,
                         bool *slow)
{
    for (; n > 0; n--) {
        int64_t most = -1;
        for (int32_t s = 0; s < replay->stages; s++)
            for (int32_t d = 0; d < replay->pipelines; d++) {
                const int64_t i = (int64_t)d * replay->stages + s;
                if (!slow[i] && (most < 0 || worker[i].slowdown > worker[most].slowdown)) most = i;
            }
        slow[most] = true;
    }
}

static void find_ratios(const luo_replay *replay, double *ratio, int64_t *n)
{
    const int64_t size = (int64_t)replay->pipelines * replay->nodes,
                  workers = (int64_t)replay->pipelines * replay->stages;
    for (int64_t i = 0; i < replay->steps * size; i++) {
        const luo_replay_node *node = &replay->node[i % replay->nodes];
        const int64_t at = i % size / replay->nodes * replay->stages + node->stage;
        const double ideal = replay->ideal_s[node->op];
        if ((node->op != LUO_REPLAY_FORWARD && node->op != LUO_REPLAY_BACKWARD) || ideal <= 0)
            continue;
        ratio[at] += replay->duration_s[i] / ideal;
        n[at]++;
    }
    for (int64_t i = 0; i < workers; i++) ratio[i] = n[i] ? ratio[i] / (double)n[i] : 1;
}

luo_status luo_replay_attribute(luo_arena *arena, const luo_replay *replay, luo_replay_figures *out,
                                luo_err *err)
{
    const int64_t size = (int64_t)replay->pipelines * replay->nodes,
                  workers = (int64_t)replay->pipelines * replay->stages;
    luo_replay_figures made = {0};
    double *measured = LUO_NEW_N(arena, double, replay->steps),
           *real = LUO_NEW_N(arena, double, replay->steps);
    double *ratio = LUO_NEW_N(arena, double, workers);
    int64_t *n = LUO_NEW_N(arena, int64_t, workers);
    bool *slow = LUO_NEW_N(arena, bool, workers);
    bool *has = LUO_NEW_N(arena, bool, replay->micro_batches);
    luo_replay_cause *cause = has ? LUO_NEW_N(arena, luo_replay_cause,
                                              workers + replay->stages + replay->pipelines +
                                                  LUO_REPLAY_OPS + count_micro_batches(replay, has))
                                  : NULL;
    work w = {.r = replay,
              .duration_s = LUO_NEW_N(arena, double, size),
              .end_s = LUO_NEW_N(arena, double, size)};
    if (!measured || !real || !ratio || !n || !slow || !cause || !w.duration_s || !w.end_s)
        return luo_err_nomem(err);
    measure_steps(&w, &made, measured, real);
    const luo_replay_cause nobody = cause_of(LUO_REPLAY_STAGE, -1, -1, NULL, -1);
    w.real_mean_s = made.real_mean_s;
    w.ideal_s = made.ideal_s = run_mean(&w, &nobody, true);
    made.slowdown = made.real_mean_s / made.ideal_s;
    made.ncauses = list_causes(replay, has, cause, &made.first_worker);
    fill_causes(&w, &made, cause);
    made.slow_workers = (int32_t)ceil(0.03 * (double)workers);
    mark_slowest(replay, cause + made.first_worker, made.slow_workers, slow);
    w.slow = slow;
    made.slow_workers_ratio = recovered(&w, run_mean(&w, &nobody, false));
    find_ratios(replay, ratio, n);
    made.compute_ratio = ratio;
    *out = made;
    return LUO_OK;
}
