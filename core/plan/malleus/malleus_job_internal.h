/* malleus_job_internal.h: what the files of malleus_job share. Not for others. */
#ifndef LUO_CORE_PLAN_MALLEUS_MALLEUS_JOB_INTERNAL_H
#define LUO_CORE_PLAN_MALLEUS_MALLEUS_JOB_INTERNAL_H
#include "core/plan/malleus/malleus_job.h"

enum { LUO_KIND_SIZES = 7 }; /* 64 devices of a node and halves of them */

/* Memory of one kind, MiB per device. */
typedef struct luo_kind_room {
    double bound, gap, context;
} luo_kind_room;

/* A job in the planner's numbers. A kind is one of the cluster's devices, or several that are alike
 * in speed and memory. */
typedef struct luo_kinds {
    const luo_malleus_job *job;
    int32_t n, tp, dp, pp;
    int32_t *of_kind; /* per kind of the cluster's devices: the kind here */
    luo_malleus_kind *at;
    luo_kind_room *room;
    int64_t sequence_tokens, micro_batches;
    double layer_parameters; /* of a mean layer */
    double tau_s, model_tau_s; /* model_tau_s: by the cost model, also when params give tau */
} luo_kinds;

/* Pre: job as for luo_plan_malleus. Errors: LUO_EINPUT; LUO_ENOMEM. Owner: arena. */
luo_status luo_kinds_make(luo_arena *arena, const luo_malleus_job *job, luo_kinds *out,
                          luo_err *err);
/* Seconds of a layer and micro-batch, forward and backward, on a nominal group. */
luo_status luo_kinds_layer_s(const luo_kinds *kinds, const int32_t *dev, int32_t tp, int32_t cp,
                             double *seconds, luo_err *err);
/* y of a stage under rates (2): tau per layer and micro-batch; rate NULL: all healthy. INFINITY
 * when a device is not usable. */
luo_status luo_kinds_y(const luo_kinds *kinds, const luo_stage *st, const double *rate, double *y,
                       luo_err *err);
static inline int32_t luo_kinds_of(const luo_kinds *kinds, int32_t device)
{
    return kinds->of_kind[kinds->job->cluster->devices[device].kind];
}
/* r as the planner sees it: 1 below the threshold. */
static inline double luo_kinds_rate(const luo_kinds *kinds, double r)
{
    const double threshold = kinds->job->threshold > 0 ? kinds->job->threshold : 1.2;
    return r < threshold ? 1 : r;
}

/* Stage times of a plan, in tau; micro-batches from m, or the plan's own. Pre: INFINITY times stay
 * INFINITY. Owner: arena. */
luo_status luo_kinds_times(luo_arena *arena, const luo_kinds *kinds, const luo_plan *plan,
                           const double *rate, const int64_t *m, luo_pipe_time **out, luo_err *err);

/* luo_malleus_cap_fn with ctx = luo_kinds (7). */
int64_t luo_kinds_cap(const void *ctx, int32_t kind, int32_t size, int32_t stages, int32_t stage,
                      int32_t pipelines);
/* MiB of a device of the stage when it holds so many layers; INFINITY beyond the table. */
double luo_kinds_mib(const luo_kinds *kinds, int32_t kind, int32_t size, int32_t stages,
                     int32_t stage, int32_t pipelines, int64_t layers);

/* The same plan with groups where they have least to move and their devices in order (11). prev:
 * what runs now. */
luo_status luo_malleus_place(luo_arena *arena, const luo_kinds *kinds, const luo_malleus_plan *from,
                             const luo_plan *prev, luo_malleus_plan *out, luo_err *err);
#endif
