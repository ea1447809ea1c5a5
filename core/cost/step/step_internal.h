/* step_internal.h: what the parts of a whole step share; for core/cost/step/step*.c only. */
#ifndef LUO_CORE_COST_STEP_STEP_INTERNAL_H
#define LUO_CORE_COST_STEP_STEP_INTERNAL_H
#include "core/cost/step/step.h"

typedef struct step_call { /* a bucket of gradients */
    double ready, seconds;
    int64_t elements;
    int32_t order;
    bool summed; /* over the tensor group first */
    bool table;  /* half of the gradient of a table on two stages; no call where both hold it */
    bool whole;  /* step_goes_apart: what every device of the tensor group has */
} step_call;

typedef struct step_tensor {
    double at; /* in its task: first read, or complete */
    int64_t elements;
    int32_t unit; /* -1: embedding; a layer; all of them: head */
    bool bias;    /* of a product */
    bool whole;   /* on every device of the tensor group */
    bool table;   /* one that two stages share */
    bool alone;   /* in a bucket of its own: something in Pre or Post waits for it */
} step_tensor;

enum { STEP_LAYER_TENSORS = 24, STEP_END_TENSORS = 8 }; /* most of a layer, of an end */

/* A task in which weights are gathered or gradients scattered is a list of these. */
typedef enum step_beat_kind {
    STEP_WORK,
    STEP_CALL, /* put into the lane */
    STEP_WAIT, /* for a call */
    STEP_MARK, /* the moment is kept as if it were the end of a call */
    STEP_KEEP, /* the pieces of a bucket are added up */
    STEP_END   /* the result of the task is there */
} step_beat_kind;
/* A call waits for the work so far, or for that of the tasks before. */
enum { STEP_NOW = -1, STEP_AT_START = -2 };
typedef struct step_beat {
    step_beat_kind kind;
    int32_t call;
    int32_t since; /* of a call: what it waits for, a mark or one of the above */
    double seconds;
} step_beat;
typedef struct step_beats {
    int32_t n, cap, ncalls;
    step_beat *at;
    const int32_t *bucket; /* backward: of every tensor of step_done */
    double *kept;          /* by bucket: when its pieces were added up last */
} step_beats;

typedef enum step_members { /* of a call, of the replicas of a device */
    STEP_SHARD,    /* those of a group that share a state */
    STEP_COPIES,   /* those with the same piece */
    STEP_PIPELINES, /* of STEP_SHARD those of one context-parallel rank */
    STEP_ENDS       /* all of the first stage and of the last */
} step_members;

/* Buckets of layers that are alike are calls that are alike: their seconds, worked out once. */
typedef struct step_known {
    step_members members;
    int coll;
    int64_t bytes;
    double seconds;
} step_known;
enum { STEP_KNOWN = 32 }; /* of a stage; when there are more the oldest is forgotten */

typedef struct step_stage {
    step_known known[STEP_KNOWN];
    int32_t nknown; /* all that were worked out */
    step_call *call;
    int32_t ncalls;
    double end;        /* of its last backward */
    double table;      /* when its half of the gradient of a table is summed; held by both stages:
                          when that may begin */
    double gathered;   /* all weights are there */
    double **arrives;  /* per chunk: when each tensor of step_reads is there; NULL: at once */
    step_beats *forward_beats, *backward_beats; /* per chunk; n = 0: tasks are plain */
    double lane, worked; /* of the course at hand: lane and work so far end */
} step_stage;

typedef struct stepper {
    luo_arena *scratch;
    const luo_cost_ctx *ctx;
    const luo_step_spec *s;
    luo_err *err;
    double *forward, *backward, *transfer; /* per stage (and chunk), of the pipeline at hand */
    double *weight;          /* the same of BW; backward is BI then, and what layer, embedding and
                                head say of backward is of BW; NULL: backward is whole */
    double *ends;            /* of the calls of a task, room for nends */
    int32_t nends;
    double *beside;          /* per layer: GPU seconds of step_beside */
    double *last;            /* [chunk*pp + stage]: when its last B or BW begins */
    luo_layer_cost *layer;   /* of the pipeline at hand */
    luo_pair_cost embedding, head;
    int32_t *group;          /* replicas of one device */
    step_stage *stage;
    step_tensor *room;       /* of one virtual stage */
    double table_there;      /* a tied table is there where the head is; held by both: at both */
    bool *same;              /* per pipeline: it costs what the one before does */
} stepper;

const int32_t *step_devices(const stepper *w, int32_t pipeline, int32_t stage);
int64_t step_layers(const luo_step_spec *spec, int32_t stage);
int64_t step_first_layer(const luo_step_spec *spec, int32_t stage);
/* Those of a chunk, and the first of them when the chunks of a stage stand side by side. */
int64_t step_chunk_layers(const luo_step_spec *spec, int32_t stage, int32_t chunk);
int64_t step_chunk_first(const luo_step_spec *spec, int32_t stage, int32_t chunk);
/* The same tensor rank of a stage in every pipeline and context-parallel rank. */
const int32_t *step_replicas(const stepper *w, int32_t stage, int32_t i);
/* Is the table shared between two stages? */
bool step_is_split(const luo_step_spec *spec);
/* The same with its state on both (ZeRO 0 and 1). */
static inline bool step_holds_ends(const luo_step_spec *s)
{
    return s->zero < 2 && step_is_split(s);
}

/* Context-parallel ranks of a stage, and its devices. */
static inline int32_t step_ranks(const luo_step_spec *s)
{
    return s->context.c > 1 ? s->context.c : 1;
}
static inline int32_t step_width(const luo_step_spec *s)
{
    return s->tp * step_ranks(s);
}
/* Copies of a weight. */
static inline int32_t step_copies(const luo_step_spec *s)
{
    return s->dp * step_ranks(s);
}

/* With both context and tensor parallelism what every device of a tensor group holds whole goes
 * another way than what is cut: among all devices of the stage, and among pipelines. */
static inline bool step_goes_apart(const luo_step_spec *s, const step_tensor *t)
{
    return t->whole && s->tp > 1 && step_ranks(s) > 1;
}
/* Devices among which it goes inside the stage. */
static inline int32_t step_inside(const luo_step_spec *s)
{
    return step_ranks(s) > 1 ? step_width(s) : s->tp;
}

/* Weights of a task are gathered in it, unit by unit. */
static inline bool step_gathers_each(const luo_step_spec *s)
{
    return s->zero == 3 && !s->keep_weights;
}
/* Copies over which state, or a piece of it, is cut. */
static inline int32_t step_shard_size(const luo_step_spec *s)
{
    return s->zero == 3 && s->shard_pipelines > 0 ? s->shard_pipelines * step_ranks(s)
                                                : step_copies(s);
}
/* Are there copies of the pieces? Gradients are summed over them once a step. */
static inline bool step_has_copies(const luo_step_spec *s)
{
    return step_shard_size(s) < step_copies(s);
}
/* Gradients of every micro-batch are cut to pieces. */
static inline bool step_scatters_each(const luo_step_spec *s)
{
    return s->zero >= 2;
}
static inline bool step_is_first(int32_t stage, int32_t chunk)
{
    return stage == 0 && chunk == 0;
}
static inline bool step_is_last(const luo_step_spec *s, int32_t stage, int32_t chunk)
{
    return stage == s->pp - 1 && chunk == s->chunks - 1;
}

/* ---- step_tensors.c ---- */

/* Of the table on one device. */
int64_t step_table(const luo_step_spec *spec);
/* Tensors of a layer, all its parts. */
int32_t step_layer_tensors(const luo_step_spec *spec, int64_t layer, step_tensor *t);
/* Weights of a chunk in the order in which its forward reads them; gradients in the order in which
 * its backward completes them. Pre: the chunk has been costed. */
int32_t step_reads(const stepper *w, int32_t stage, int32_t chunk, step_tensor *t);
int32_t step_done(const stepper *w, int32_t stage, int32_t chunk, step_tensor *t);

/* ---- step_units.c: ZeRO 2 and 3 ---- */

/* What adding up the pieces of a layer's gradients takes beside its backward. */
luo_status step_beside(const stepper *w, int32_t stage, luo_layer_shape *shape);
/* The beats of the tasks of a stage. Pre: it has been costed. */
luo_status step_make_beats(stepper *w, int32_t stage);
void step_play(stepper *w, int32_t stage, const step_beats *b, luo_turn *x);

/* ---- step_dp.c: gradients and weights between replicas ---- */

/* Bytes of an element of a gradient on its way. */
double step_sum_bytes(const stepper *w);
/* How buckets close. */
luo_bucketing step_rule(const stepper *w);
/* Number of the bucket of every tensor. */
luo_status step_close(const stepper *w, luo_bucketing rule, const step_tensor *t, int32_t n,
                      bool weights, int32_t **bucket, int32_t *nbuckets);
/* With ZeRO what every device of the tensor group holds whole is cut over that group, too: weights,
 * and their gradients unless context-parallel ranks have to be summed first. */
bool step_cuts_whole(const luo_step_spec *spec, const step_tensor *t, bool weights);
/* Elements of a tensor that a call of the replicas moves. */
double step_moved(const luo_step_spec *spec, const step_tensor *t, bool weights);
/* Who takes part in that call. */
step_members step_way(const luo_step_spec *spec, const step_tensor *t, bool weights);
/* Seconds of a call of the replicas of a stage, the slowest of its devices' groups. */
luo_status step_call_seconds(const stepper *w, step_members members, int coll, int32_t stage,
                             double bytes, double *seconds);
luo_status step_dp_open(stepper *w);
/* When weights are there that are gathered once, from the begin of the step. */
luo_status step_gather(stepper *w);
/* End of the first forward of a chunk that begins at `start`: it waits for its weights. */
double step_first(const stepper *w, int32_t stage, int32_t chunk, double start);
/* After the course of a pipeline: when its gradients are complete. */
luo_status step_ready(stepper *w);
/* What is left of the timetable after `pipeline` seconds: *dp; with it *tied, what the shared table
 * adds. */
luo_status step_exposed(stepper *w, double pipeline, double *dp, double *tied);
#endif
