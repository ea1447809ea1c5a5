/* core/run/replay/replay.h: a recorded training job as a graph of operations that is run again, as
 * recorded and as if nobody had been slow, and who the difference is due to.
 *
 * Notation: P = stages, D = pipelines, K = steps, N = operations of a pipeline in a step (nodes).
 * All steps and pipelines share one graph, that of the lowest step and pipeline 0. A communication
 * record holds its transfer alone, so waiting is what the graph makes of it.
 * Source: Lin et al., Understanding Stragglers in Large Model Training (StragglerAnalysis); rules
 * and figures are checked against what its authors published (tests/unit/check_replay.c). */
#ifndef LUO_CORE_RUN_REPLAY_REPLAY_H
#define LUO_CORE_RUN_REPLAY_REPLAY_H
#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"

/* X(ID, "name", compute, "type"): compute: its ideal duration is the mean of its name, else the
 * median; type: as which slowness is told. In the order of a step. */
#define LUO_REPLAY_OP_LIST(X)                                                                      \
    X(ALL_GATHER, "params-all-gather", false, "params-all-gather")                                 \
    X(FORWARD_RECV, "forward-recv", false, "forward-pp-comm")                                      \
    X(FORWARD, "forward-compute", true, "forward-compute")                                         \
    X(FORWARD_SEND, "forward-send", false, "forward-pp-comm")                                      \
    X(BACKWARD_RECV, "backward-recv", false, "backward-pp-comm")                                   \
    X(BACKWARD, "backward-compute", true, "backward-compute")                                      \
    X(BACKWARD_SEND, "backward-send", false, "backward-pp-comm")                                   \
    X(GC, "gc", true, "gc")                                                                        \
    X(LAYERNORM, "layernorm-grads-all-reduce", false, "layernorm-grads-all-reduce")                \
    X(EMBEDDING, "embedding-grads-all-reduce", false, "embedding-grads-all-reduce")                \
    X(REDUCE_SCATTER, "grads-reduce-scatter", false, "grads-reduce-scatter")                       \
    X(SEPARATE, "separate-grads-all-reduce", false, "separate-grads-all-reduce")                   \
    X(CLIP, "optimizer-clip-main-grad", false, "optimizer-clip-main-grad")                         \
    X(OPTIMIZER, "optimizer", true, "optimizer")
typedef enum luo_replay_op {
#define LUO_REPLAY_OP_ENUM(id, name, compute, type) LUO_REPLAY_##id,
    LUO_REPLAY_OP_LIST(LUO_REPLAY_OP_ENUM) LUO_REPLAY_OPS
#undef LUO_REPLAY_OP_ENUM
} luo_replay_op;
/* Pre: op < LUO_REPLAY_OPS. */
const char *luo_replay_op_name(luo_replay_op op);
const char *luo_replay_op_type(luo_replay_op op);
bool luo_replay_op_computes(luo_replay_op op);
bool luo_replay_op_transfers(luo_replay_op op); /* between stages */
/* By name; LUO_REPLAY_OPS: there is none. */
luo_replay_op luo_replay_op_find(const char *name);

typedef struct luo_replay_record { /* one operation; chunk, micro_batch -1: it has none */
    int64_t step, order;
    int32_t pipeline, stage, chunk, micro_batch;
    luo_replay_op op;
    double start_s, duration_s;
} luo_replay_record;

typedef struct luo_replay_node {
    int32_t stage, chunk, micro_batch; /* chunk, micro-batch of transfers: of their computation */
    luo_replay_op op;
    int64_t order;
} luo_replay_node;

typedef struct luo_replay {
    int32_t stages, pipelines, steps, nodes, chunks, micro_batches; /* chunks of a stage; largest
                                                                          micro-batch + 1 */
    const int64_t *step;                                            /* K numbers, ascending */
    const luo_replay_node *node;                                    /* by stage, op, order */
    const double *start_s, *duration_s;                             /* K x D x N, as recorded */
    double ideal_s[LUO_REPLAY_OPS]; /* 0: there is no such operation */
    /* Nodes that begin together are a unit; units stand so that each follows those it waits for.
     * Members of unit u: member[unit[u] .. unit[u + 1]); nodes that v waits for:
     * before[first[v] .. first[v + 1]). */
    int32_t units;
    const int32_t *unit, *member, *first, *before;
    const bool *spans; /* per unit: the pipelines begin together, too */
} luo_replay;

/* Builds the graph; sorts the records.
 * Pre:    0 <= pipeline, stage; durations and times are finite.
 * Errors: LUO_EINPUT there is no record, a stage or pipeline lacks an operation that another has,
 *         or an operation waits for itself; LUO_E2BIG; LUO_ENOMEM; *out untouched.
 * Owner:  arena.
 * Cost:   O(n log n) time, 16 bytes a record. */
luo_status luo_replay_build(luo_arena *arena, luo_replay_record *records, int64_t n,
                            luo_replay *out, luo_err *err);

/* Runs one step. duration_s, end_s: D x N. An operation begins when all that its unit waits for has
 * ended, the first at 0. Returns the latest end of an optimizer; without any, of an operation.
 * Cost: O(operations). */
double luo_replay_run(const luo_replay *replay, const double *duration_s, double *end_s);

typedef enum luo_replay_by { /* whom a slowdown is told of */
                             LUO_REPLAY_STAGE,
                             LUO_REPLAY_PIPELINE,
                             LUO_REPLAY_WORKER, /* a stage of a pipeline */
                             LUO_REPLAY_OP,
                             LUO_REPLAY_MICRO_BATCH
} luo_replay_by;
const char *luo_replay_by_name(luo_replay_by by);

typedef struct luo_replay_cause {
    luo_replay_by by;
    int32_t stage, pipeline, micro_batch; /* -1: not told by it */
    const char *type;                     /* of operations; NULL: likewise */
    /* Mean step with its durations alone as recorded / ideal step; of a worker the smaller one of
     * its stage and its pipeline. */
    double slowdown;
    /* Share of what is lost that comes back with its durations alone ideal; may be below 0 or above
     * 1. NAN: nothing is lost, or not computed (workers). */
    double recovered_ratio;
} luo_replay_cause;

typedef struct luo_replay_figures {
    const double *measured_s; /* K: latest end - earliest start of the records */
    const double *real_s;     /* K: run with recorded durations, without launch delays */
    double measured_mean_s, real_mean_s, ideal_s, slowdown; /* slowdown = real mean / ideal */
    const luo_replay_cause *cause; /* stages, pipelines, workers, types, micro-batches */
    int32_t ncauses, first_worker; /* cause[first_worker + pipeline * P + stage] */
    double last_stage_ratio;       /* Ms: recovered_ratio of the last stage */
    /* Mw: the same of the slowest 3 % of the workers, one at least. */
    double slow_workers_ratio;
    int32_t slow_workers;
    /* D x P: mean of forward and backward computation over the ideal duration of each. */
    const double *compute_ratio;
} luo_replay_figures;

/* Errors: LUO_ENOMEM. Owner: arena. Cost: O(operations * (P + D + types + micro-batches)). */
luo_status luo_replay_attribute(luo_arena *arena, const luo_replay *replay, luo_replay_figures *out,
                                luo_err *err);
#endif
