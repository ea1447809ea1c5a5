/* malleus.h: the straggler planner in its own numbers (docs/planners.md#malleus): which
 * devices form tensor-parallel groups, which groups form pipelines, how many layers each stage and
 * how many micro-batches each pipeline gets. No model, no cluster, no seconds: times are in tau,
 * one layer and one micro-batch on a full healthy group of the fastest kind.
 * core/plan/malleus/malleus_job.h makes this input from a model and a cluster, and a plan from this
 * output.
 *
 * Mixed GPU types are kinds with another base rate: the same problem. */
#ifndef LUO_CORE_PLAN_MALLEUS_MALLEUS_H
#define LUO_CORE_PLAN_MALLEUS_MALLEUS_H
#include "core/plan/replan/replan.h"

/* (m-1)*o + fill, the default; m*o, the published objective, not ranked again by event time; filled
 * search, 256 plans ranked by event time. */
#define LUO_MALLEUS_RANK_LIST(X)                                                                   \
    X(LUO_RANK_FILLED, "filled")                                                                   \
    X(LUO_RANK_STEADY, "steady")                                                                   \
    X(LUO_RANK_EVENT, "event")
typedef enum luo_malleus_rank { LUO_MALLEUS_RANK_LIST(LUO_WORD_VALUE) } luo_malleus_rank;
const char *luo_malleus_rank_name(luo_malleus_rank rank);
/* Value of split2: how groups are cut. */
#define LUO_MALLEUS_GROUPING_LIST(X) X(false, "halving") X(true, "split2")

typedef struct luo_malleus_kind {
    double base;         /* b >= 1: time per work against the fastest kind */
    const double *alpha; /* alpha[k]: a healthy group of tp >> k devices against a full one; rising,
                            alpha[0] = 1; log2(tp) + 1 values */
} luo_malleus_kind;

typedef struct luo_malleus_device { /* alive, and a candidate */
    int32_t device, node, kind;
    double rate;                    /* r: finite; below 1 counts as 1 */
} luo_malleus_device;

/* Most layers that a group of `size` devices of `kind` holds as stage `stage` of `stages` of one of
 * `pipelines` pipelines; >= 0. Depends on stages only through stages - stage and on whether the
 * stage is the first or the last. */
typedef int64_t (*luo_malleus_cap_fn)(const void *ctx, int32_t kind, int32_t size, int32_t stages,
                                      int32_t stage, int32_t pipelines);

typedef struct luo_malleus_tight { /* the stage that holds least when all groups are one pipeline */
    int32_t device, kind, size, stages, stage; /* device -1: not found */
} luo_malleus_tight;

typedef struct luo_malleus_in {
    int32_t ndevices; /* those of one kind of a node stand together: groups are made of them */
    const luo_malleus_device *devices;
    int32_t nkinds;
    const luo_malleus_kind *kinds;
    int32_t dp, tp, pp;            /* of the base plan; tp a power of two */
    bool whole;                    /* devices are all that the base plan has: nothing is missing */
    int64_t layers, micro_batches; /* L; M of all pipelines */
    double threshold;              /* 1.2: below it a rate is noise */
    luo_malleus_cap_fn cap;        /* NULL: memory is no limit */
    const void *cap_ctx;
    int32_t max_stages; /* of the memory table; 0: no limit */
    luo_malleus_rank rank;
    int32_t top_k;       /* K; 0: 32, or 256 with rank event */
    bool split2;         /* --grouping split2 */
    bool rising;         /* --stage-order rising: slow groups last */
    bool search_healthy; /* search also when nothing is slow or missing */
    bool dp_auto;        /* also tries dp + 1 */
    bool quick;          /* three combinations where there are many, and every device takes part */
    bool full_recompute; /* forward is a quarter of a stage's time in event times, else a third */
    uint64_t seed;       /* of the stream `malleus` of kicks */
    luo_malleus_tight *tight; /* NULL, or told when no plan fits */
} luo_malleus_in;

typedef struct luo_malleus_group {
    int32_t node, kind, size;
    const int32_t *devices; /* device numbers */
    double y;               /* alpha * base * rate */
} luo_malleus_group;

typedef struct luo_malleus_stage {
    const luo_malleus_group *group;
    int64_t lo, hi, cap; /* layers lo <= l < hi; cap INT64_MAX: no limit */
    double t;            /* y * (hi - lo) */
} luo_malleus_stage;

typedef struct luo_malleus_pipe {
    int32_t nstages;
    const luo_malleus_stage *stages;
    int64_t micro_batches;
    double o, fill; /* slowest stage; sum of the stages */
} luo_malleus_pipe;

typedef struct luo_malleus_plan {
    int32_t npipes;
    const luo_malleus_pipe *pipes;
    int32_t nstandby; /* devices in no stage, in the order of the input */
    const int32_t *standby;
    double steady, filled, event;
} luo_malleus_plan;

typedef struct luo_malleus_search { /* counts, never seconds: plans do not depend on speed */
    int64_t combos, plans, vectors, moves, solves;
    bool exhaustive; /* every assignment of every combination of alternatives, but those whose bound
                        says that they are no better */
    bool skipped;    /* the base plan, nothing was searched */
} luo_malleus_search;

typedef struct luo_malleus_found {
    int32_t n; /* 1 .. K, best first */
    const luo_malleus_plan *plans;
    int32_t dp;   /* that was used; below in->dp when that has no plan */
    bool few;     /* fewer micro-batches than stages in every plan: m >= 1 is all that holds */
    double bound; /* LB = L*M / sum 1/y over the best grouping */
    luo_malleus_search search;
} luo_malleus_found;

/* Best plans for the devices (docs/planners.md#groups-of-a-node). Where nodes can be
 * cut in more than 27 ways together, all on their first, second and third way, then one node's way
 * at a time as long as that helps, up to 729 combinations (and a budget of work, both counts). Slow
 * devices are left out where that helps, the slowest first, up to 8 (2 above 256 devices, none
 * above 2,048); split2 is taken where it is better. Equal inputs give equal bytes; no node, device
 * or pipeline number changes an objective.
 * Pre:    ndevices >= 1; sizes >= 1; kinds as described.
 * Errors: LUO_EINFEASIBLE no plan, the sentence names the tightest stage; LUO_EINPUT fewer
 *         micro-batches than pipelines; LUO_ENOMEM.
 * Owner:  *out belongs to arena. Cost: docs/speed.md: below 50 ms for 64 devices, 1 s for 1,024
 * with
 *         16 stragglers, 10 s for 16,384 with 64.
 * See:    tests/unit/check_malleus.c, tests/diff/diff_malleus.c (brute force). */
luo_status luo_malleus(luo_arena *arena, const luo_malleus_in *in, luo_malleus_found **out,
                       luo_err *err);
#endif
