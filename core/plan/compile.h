/* compile.h: (model, cluster, plan) -> programs. The only way from a plan to a program:
 * simulator and executors receive what is made here. */
#ifndef LUO_CORE_PLAN_COMPILE_H
#define LUO_CORE_PLAN_COMPILE_H
#include "core/base/hash.h"
#include "core/graph/moe/load.h"
#include "core/graph/program/program.h"
#include "core/graph/specialize/pattern.h"
#include "core/hspmd/bsr/switch.h"
#include "core/plan/plan.h"

typedef struct luo_compile_opts {
    int64_t sequence_tokens; /* 0: the plan's; else overrides its fixed length */
    bool check;              /* run luo_program_check as well */
    luo_map *checked;        /* of those that passed, to which a new one is added: programs that
                                differ from one of them in nothing but the numbers of their devices
                                pass; NULL: none is known */
    bool unnamed;            /* hash 0: for programs that nobody compares, as text and hash take
                                a third of the time */
    luo_bucketing bucket;    /* of the stack; the plan's goes before */
    luo_memory_rules memory; /* of the stack: luo_stack_memory */
    luo_patterns *patterns;  /* of compilations of this plan with other lengths: what they have in
                                common is not made again; NULL: there are none */
    const luo_expert_load *load; /* of simulations: rows of experts; NULL: equally many for each */
    const volatile int *interrupted; /* not NULL: looked at between the parts of the way */
} luo_compile_opts;

/* Builds the graph, differentiates, annotates (docs/annotations.md#from-a-plan-to-annotations),
 * resolves, specializes, schedules.
 * Pre: luo_plan_check passed. Errors: LUO_EINPUT (also for a re-shard that is
 * not supported), LUO_EDEDUCE, LUO_ESHAPE, with the part of the plan at fault in err->pointer if it
 * is known; LUO_ECANCELED interrupted; LUO_ENOMEM.
 * Owner: arena. Cost: 16,384 devices under 5 s and 4 GB (docs/speed.md). */
luo_status luo_plan_compile(luo_arena *arena, const luo_plan *plan, const luo_model *model,
                            const luo_cluster *cluster, const luo_compile_opts *opts,
                            luo_programs **out, luo_err *err);

/* Do the annotations of the plan name tensors of the model, and agree with what is deduced? For
 * those who compile nothing; the first part of luo_plan_compile asks the same.
 * Pre: luo_plan_check passed with the model. Errors: those of luo_plan_compile. */
luo_status luo_plan_check_annotations(const luo_plan *plan, const luo_model *model, luo_err *err);

/* Parameters and their annotations under a plan: what a switch moves, and what a checkpoint holds.
 * state: annotation of master weights and optimizer states (ZeRO folds them). */
typedef struct luo_param {
    const char *name; /* "layers.3.attn.q.weight" */
    luo_shape shape;
    const luo_ann *weight, *state;
    const luo_ann *pieces; /* state in a layout of its own: this plan's own cut, by which weights
                              come and gradients go; else NULL */
    int32_t layer;      /* -1: none */
    int64_t elem_bytes; /* of the working copy */
    bool counted;       /* moved by counts: no gradient, no moments */
} luo_param;
/* Bytes of an element's master weight and of its two moments if it has any, each as wide as the
 * accumulated gradient (docs/cost-model.md#precision). */
static inline int64_t luo_param_state_bytes(const luo_param *param, luo_dtype dtype)
{
    const int64_t each = dtype == LUO_F64 ? 8 : 4;
    return param->counted ? each : 3 * each;
}
luo_status luo_plan_params(luo_arena *arena, const luo_plan *plan, const luo_model *model,
                           luo_param **out, int32_t *n, luo_err *err);

/* A program set whose instructions are the moves of a switch (phase switch, stream move): one
 * COMM or LOCAL per device as needed. */
luo_status luo_compile_switch(luo_arena *arena, const luo_switch_tensor *tensors, int32_t n,
                              const luo_switch *sw, luo_programs **out, luo_err *err);
/* A program set in which devices send so many bytes to each other, all at once (phase switch,
 * stream move). Pre: pairs ascend by (src, dst); src and dst differ; bytes > 0. */
luo_status luo_compile_messages(luo_arena *arena, const luo_pair *pairs, int32_t n,
                                const char *name, luo_programs **out, luo_err *err);
/* A program set in which every device of the plan writes (or reads) its state: bytes per device
 * on stream io. For checkpoints. */
luo_status luo_compile_checkpoint(luo_arena *arena, const luo_plan *plan, const luo_model *model,
                                  bool write, luo_programs **out, luo_err *err);
#endif
