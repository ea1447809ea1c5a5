/* objective_internal.h: what the files of objective share. Not for others. */
#ifndef LUO_CORE_PLAN_OBJECTIVE_OBJECTIVE_INTERNAL_H
#define LUO_CORE_PLAN_OBJECTIVE_OBJECTIVE_INTERNAL_H
#include "core/cost/step/layer.h"
#include "core/plan/objective/objective.h"

typedef struct obj_stage { /* seconds of a micro-batch, slowed */
    const luo_stage *at;
    int32_t tp, lo, hi;
    double forward, backward; /* of a layer */
    luo_pair_cost ends[2];    /* embedding and head, 0 where it has none */
    double last;              /* when its last backward begins */
    double waits;             /* what its calls wait, one after another on its lanes, is over */
} obj_stage;

typedef struct obj_pipe {
    int32_t n;
    obj_stage *stage;
    double *transfer; /* stage k to k + 1 */
    double end;
} obj_pipe;

typedef struct objective {
    luo_arena *arena;
    const luo_objective_in *in;
    const luo_plan *plan;
    luo_cost_ctx ctx;
    luo_layer_shape shape; /* of a layer; tp and sequence_parallel are the stage's */
    obj_pipe *pipe;
    double *arrives;       /* per layer: its weights are there, from the begin of the step; .. */
    double ends_arrive[2]; /* .. embedding, head */
    int32_t ndev;          /* of the plan */
    int32_t *senders, most_stages; /* [node * most_stages + stage] */
    luo_err *err;
} objective;

/* Do the stages of embedding and head both hold a tied table and its state? */
static inline bool obj_holds_ends(const objective *o)
{
    bool apart = false;
    for (int32_t i = 0; i < o->plan->npipelines; i++) apart |= o->pipe[i].n > 1;
    return apart && o->in->model->tied_embeddings && o->plan->zero < 2;
}

/* objective_dp.c. Bytes between pipelines, of gradients or weights. */
luo_status obj_weights(objective *o);
/* Out: when the last bucket is there. Pre: last of all stages. */
luo_status obj_gradients(objective *o, double *end);
static inline double obj_task(const obj_stage *s, bool backward)
{
    const double ends = backward ? s->ends[0].backward + s->ends[1].backward
                                 : s->ends[0].forward + s->ends[1].forward;
    return ends + (backward ? s->backward : s->forward) * (s->hi - s->lo);
}
#endif
