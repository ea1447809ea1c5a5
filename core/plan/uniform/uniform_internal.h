/* uniform_internal.h: what the parts of the uniform planner share; for core/plan/uniform/uniform*.c
 * only. A frame is what a family of shapes has in common: devices, sizes, seconds of a layer. */
#ifndef LUO_CORE_PLAN_UNIFORM_UNIFORM_INTERNAL_H
#define LUO_CORE_PLAN_UNIFORM_UNIFORM_INTERNAL_H
#include "core/base/hash.h"
#include "core/cost/step/layer.h"
#include "core/cost/step/memory.h"
#include "core/plan/planners.h"
#include "core/plan/step/step.h"

/* Usable devices, those of a type side by side. */
typedef struct uniform_pool {
    const int32_t *dev;
    int32_t n;
    bool mixed; /* of several types */
} uniform_pool;

typedef struct uniform_frame {
    int32_t pool, tp, pp, dp, micro_batch_sequences, recompute;
    bool neighbours;     /* pipelines on neighbouring devices (--use-tp-pp-dp-mapping) */
    luo_context context; /* c 1: none */
    int64_t micro_batches;          /* of a pipeline; with `dealt` the most of one */
    const int32_t *dealt;           /* per pipeline: by its speed; NULL: all alike */
    const double *forward, *backward; /* per stage: of a layer, slowest pipeline */
    double embedding[2], head[2];     /* forward, backward; slowest pipeline */
    /* Of the pipeline that has most to do, for bounds: per stage, and its micro-batches. */
    const double *own_forward, *own_backward;
    double own_embedding[2], own_head[2];
    int64_t own_micro_batches;
} uniform_frame;

typedef struct uniform_shape {
    const uniform_frame *frame;
    luo_sched_kind schedule;
    const int64_t *layers; /* [chunk*pp + stage]; NULL: equal */
    int32_t chunks, zero, order;
    luo_shard shard; /* zero 3 */
    int32_t group;   /* of shard hybrid: pipelines that share a state */
    double bound_s;  /* no closed form of this shape is below */
    double memory_ratio;
    luo_step_cost cost;
} uniform_shape;

typedef struct uniform_search {
    luo_arena *arena, *scratch;
    const luo_model *model;
    const luo_cluster *cluster;
    const luo_uniform_opts *opts;
    luo_err *err;
    luo_cost_ctx cost;
    int32_t *usable, nusable; /* ascending */
    bool several;             /* types of them */
    uniform_pool pool[8];
    int32_t npools;
    int32_t *groups; /* of the pool and tp at hand: ngroups * tp devices */
    int32_t ngroups, groups_pool, groups_tp;
    int32_t *dev; /* of a frame: [((pipeline*pp + stage)*c + rank)*tp + i] */
    const uniform_frame *placed;
    luo_map known; /* seconds of a layer or an end by devices and sizes: index in `seconds` */
    double (*seconds)[2];
    int32_t nseconds, cap_seconds;
    uniform_shape *shape;
    int32_t nshapes, cap_shapes;
    double tightest; /* smallest ratio of those that do not fit */
    double fewest;   /* micro-batches of those that have more than the limit of work; 0: none */
    int64_t needs, has, npriced, nmemory;
    int32_t tight_device;
} uniform_search;

/* ---- uniform_place.c ---- */

/* Usable devices and pools. */
luo_status uniform_take_devices(uniform_search *search);
/* search->groups: groups of tp devices of the pool inside nodes; what is left in a node stays idle.
 */
void uniform_make_groups(uniform_search *search, int32_t pool, int32_t tp);
/* search->dev: docs/planners.md#order-of-devices. */
void uniform_place(uniform_search *search, const uniform_frame *frame);
static inline int32_t uniform_width(const uniform_frame *frame)
{
    return frame->tp * frame->context.c;
}
static inline const int32_t *uniform_stage(const uniform_search *search, const uniform_frame *frame,
                                           int32_t pipeline, int32_t stage)
{
    return search->dev + ((int64_t)pipeline * frame->pp + stage) * uniform_width(frame);
}
/* Has the frame, which is placed, devices of one type alone? */
bool uniform_is_of_one_type(const uniform_search *search, const uniform_frame *frame);
/* Pipelines whose devices of a stage fill a node: what they share stays inside; 0: none or all. */
int32_t uniform_near(uniform_search *search, const uniform_frame *frame);
/* Ranks of the first node if there are more of them: neighbours that exchange heads; else 1. */
int32_t uniform_neighbours(uniform_search *search, const uniform_frame *frame);

/* ---- uniform_frame.c ---- */

/* Fills in seconds; with `deal`, micro-batches by speed. *good: there are micro-batches enough, and
 * no other frame is the same. */
luo_status uniform_finish_frame(uniform_search *search, uniform_frame *frame, bool deal,
                                bool *good);
/* Layers of the virtual stages by speed and ends, NULL: nothing else than equal ones. */
luo_status uniform_balance(uniform_search *search, const uniform_frame *frame, int32_t chunks,
                           const int64_t **layers);
/* Seconds that no closed form of the shape is below. */
double uniform_bound(const uniform_search *search, const uniform_shape *shape);

/* ---- uniform_shapes.c: the grid ---- */

luo_status uniform_list_shapes(uniform_search *search);

/* ---- uniform_price.c ---- */

/* Ratio of memory on the worst device by the closed form (docs/cost-model.md#memory). */
void uniform_weigh(uniform_search *search, uniform_shape *shape);
luo_status uniform_price(uniform_search *search, uniform_shape *shape);

/* ---- uniform_refuse.c ---- */

/* LUO_EINPUT: what the tensor parallelism that is asked for does not divide, and which would. */
luo_status uniform_refuse_tp(const uniform_search *search);
/* Why the search found nothing: LUO_EINFEASIBLE, or a limit of work. */
luo_status uniform_refuse(uniform_search *search);

/* ---- uniform.c ---- */

/* The plan of a shape. Owner: arena. */
luo_status uniform_make_plan(uniform_search *search, luo_arena *arena, const uniform_shape *shape,
                             luo_plan **out);
#endif
