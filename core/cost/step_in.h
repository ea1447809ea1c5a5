/* core/cost/step_in.h: what the parts of a whole step share; for core/cost/step*.c only. */
#ifndef LUO_CORE_COST_STEP_IN_H
#define LUO_CORE_COST_STEP_IN_H
#include "core/cost/step.h"

typedef struct step_call { /* a bucket of gradients */
    double ready, seconds;
    int64_t elements;
    int32_t order;
    bool summed; /* over the tensor group first */
    bool table;  /* half of the gradient of a table on two stages */
} step_call;

typedef struct step_stage {
    step_call *call;
    int32_t ncalls;
    double end;        /* of its last backward */
    double table;      /* when its half of the gradient of a table is summed */
    double gathered;   /* all weights are there */
    double **arrives;  /* per chunk: when each tensor of step_reads is there; NULL: at once */
} step_stage;

typedef struct stepper {
    luo_arena *scratch;
    const luo_cost_ctx *ctx;
    const luo_step_spec *s;
    luo_err *err;
    double *forward, *backward, *transfer; /* per stage (and chunk), of the pipeline at hand */
    double *last;            /* [chunk*pp + stage]: when its last backward begins */
    luo_layer_cost *layer;   /* of the pipeline at hand */
    luo_pair_cost embedding, head;
    int32_t *group;          /* replicas of one device */
    step_stage *stage;
    struct step_tensor *room; /* of one virtual stage */
    double table_there;      /* the head's copy of a tied table is there */
} stepper;

const int32_t *step_devices(const stepper *w, int32_t pipeline, int32_t stage);
int64_t step_layers(const luo_step_spec *s, int32_t stage);
int64_t step_first_layer(const luo_step_spec *s, int32_t stage);
/* The same device and stage of every pipeline. */
const int32_t *step_replicas(const stepper *w, int32_t stage, int32_t i);
/* Is the table shared between two stages? */
bool step_is_split(const luo_step_spec *s);

/* ---- step_dp.c: gradients and weights between replicas ---- */

luo_status step_dp_open(stepper *w);
/* When weights are there (ZeRO 1, 2), from the begin of the step. */
luo_status step_gather(stepper *w);
/* End of the first forward of a chunk that begins at `start`: it waits for its weights. */
double step_first(const void *stepper, int32_t stage, int32_t chunk, double start);
/* After the course of a pipeline: when its gradients are complete. */
luo_status step_ready(stepper *w);
/* What is left of the timetable after `pipeline` seconds: *dp; with it *tied, what the shared table
 * adds. */
luo_status step_exposed(stepper *w, double pipeline, double *dp, double *tied);
#endif
