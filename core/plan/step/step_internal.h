/* step_internal.h: what the parts of a whole step share; for core/plan/step/step*.c only. */
#ifndef LUO_CORE_PLAN_STEP_STEP_INTERNAL_H
#define LUO_CORE_PLAN_STEP_STEP_INTERNAL_H
#include <math.h>

#include "core/cost/step/layer.h"
#include "core/plan/step/step.h"

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

/* ---- tasks ---- */

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
    double computes; /* share of work that calls beside it slow: not the tensor group's calls */
} step_beat;
typedef struct step_beats {
    int32_t n, cap, ncalls;
    step_beat *at;
    double loss; /* of computation beside their calls */
    const int32_t *bucket; /* backward: of every tensor of step_done */
    double *kept;          /* by bucket: when its pieces were added up last */
} step_beats;

/* ---- pipelines ---- */

typedef struct step_layer { /* of one kind on devices of one kind */
    luo_layer_cost cost; /* zb_h1: what it says of backward is of BW */
    double input;        /* zb_h1: seconds of BI */
    double beside;       /* GPU seconds of step_beside */
} step_layer;

typedef struct step_chunk { /* of a stage */
    int32_t lo, hi;            /* layers */
    bool embedding, head;
    const step_layer **layer;  /* of lo, lo + 1, .. */
    double forward, backward, weight; /* of a task; zb_h1: backward is BI, weight BW; else 0 */
    int32_t first_run, nruns;
    step_beats forward_beats, backward_beats; /* n = 0: tasks are plain */
    double last; /* when its last B or BW begins */
} step_chunk;

/* A task of a stage whose pipeline differs from others. */
typedef struct step_turn {
    luo_task task;
    double start, end;
    /* Played beside gathers: when it began, was done, and its result was there; else there: 0. Of
     * pipelines that cost the same the latest. */
    double began, done, there;
} step_turn;

typedef struct step_stage { /* of a pipeline */
    const luo_stage *at;
    int32_t index;
    luo_layer_shape shape; /* of its layers */
    double rate;           /* of its slowest device */
    luo_pair_cost embedding, head; /* 0 where it has none */
    step_chunk *chunk;
    double lane, worked; /* ZeRO 2 and 3: lane and work so far end */
    double end;          /* of its last backward */
    step_turn *turns;    /* in their order; NULL: pipelines are alike */
    int32_t nturns, *place; /* of a task in turns: step_place */
} step_stage;
static inline int32_t *step_place(const step_stage *stage, const luo_task *task, int32_t chunks,
                                  int32_t m)
{
    return &stage->place[((int32_t)task->phase * chunks + task->chunk) * m + task->micro_batch];
}

typedef struct step_pipe {
    bool same; /* as the one before: it costs the same, and has its stages */
    int32_t n;
    step_stage *stage;
    double *transfer, *back; /* stage k to k + 1 and back; of chunks also the last to the first */
} step_pipe;

/* ---- gradients and weights between pipelines ---- */

typedef struct step_call { /* a bucket */
    double ready, seconds, end; /* seconds: in lanes; end: on links */
    int64_t elements;
    int32_t run, order;
    bool summed; /* over the tensor group first */
    bool table;  /* half of the gradient of a table on two stages; no call where both hold it */
    bool whole;  /* step_goes_apart: what every device of the tensor group has */
    double estimate; /* of ready, by which programs put calls in order */
    double *after;   /* pipelines differ: ready, from the begin of each one's last backward */
    int32_t part;    /* first of its slices among the parts that are played */
} step_call;

typedef struct step_load { /* of a link in one direction: seconds for each byte of a slice */
    int32_t at;            /* 2 * link + up */
    double seconds;
} step_load;

typedef struct step_slice { /* of the widest group of a run */
    int32_t ndev, *dev;
    int32_t nloads;
    step_load *loads;
    double fixed; /* seconds of a bucket, whatever its size */
    /* By which programs put calls in order (core/plan/compile_clock.c): ns, and does it leave
     * nodes? */
    int64_t order_fixed, order_moving;
    int32_t order_link;
} step_slice;

typedef struct step_priced { /* slices of calls of so many bytes */
    int64_t bytes;
    bool weights;
    const step_slice *slices;
    struct step_priced *next;
} step_priced;

/* Layers that the same stages hold in all pipelines, with the ends that stand beside them. */
typedef struct step_run {
    int32_t lo, hi;
    bool embedding, head;
    int32_t *stage, *chunk;      /* per pipeline */
    int32_t widest;              /* tensor-parallel size: number of slices */
    double *arrives;             /* when each tensor of step_reads is there; NULL: at once */
    int32_t nreads, *brought_by; /* pipelines differ: of each, the call that brings it */
    const int32_t *also;         /* of a table on two stages: the head's; else NULL */
    step_priced *priced;         /* pipelines differ: what its calls put on links, by bytes */
} step_run;

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
enum { STEP_KNOWN = 32 }; /* of a lane; when there are more the oldest is forgotten */

typedef struct step_lane { /* of a stage where all pipelines are alike */
    step_known known[STEP_KNOWN];
    int32_t nknown; /* all that were worked out */
    double gathered; /* all weights are there */
    double end;      /* of the last backward; then of the calls behind it */
    double table;    /* when its half of the gradient of a table is summed; held by both stages:
                        when that may begin */
} step_lane;

typedef struct stepper {
    luo_arena *scratch;
    const luo_step_in *in;
    const luo_plan *plan;
    luo_cost_ctx ctx;
    luo_err *err;
    bool estimates; /* what compiling takes: work alone */
    bool plays;     /* pipelines differ, and what stages send is played beside other calls */
    bool by_lanes; /* a call is a lane of its stage's; else what it puts on links */
    int32_t ranks; /* context-parallel ones of a stage; 1 where pipelines differ */
    luo_bucketing bucket; /* how buckets close */
    int32_t ndev;  /* of the plan */
    int32_t *devices;
    step_pipe *pipe;
    int32_t nlayers, cap_layers;
    struct step_costed *layers; /* worked out so far */
    int32_t nruns;
    step_run *run;    /* in the order of layers; one more: the table that two stages share */
    step_lane *lane;  /* per stage; alike */
    int32_t *senders, most_stages; /* [node * most_stages + stage] */
    double *ends;     /* of the calls of a task, room for nends */
    int32_t nends;
    int32_t *group;   /* members of a call */
    step_tensor *room, *other; /* of one run */
    int32_t ncalls;
    step_call *calls;
    double gathered;    /* pipelines differ: all weights are there */
    double table_there; /* a tied table is there where the head is; held by both: at both */
} stepper;

/* Is the table shared between two stages? */
bool step_is_split(const stepper *w);
/* The same with its state on both (ZeRO 0 and 1). */
static inline bool step_holds_ends(const stepper *w)
{
    return w->plan->zero < 2 && step_is_split(w);
}
static inline bool step_sums_inside(const step_stage *stage)
{
    return stage->shape.sequence_parallel && stage->shape.tp > 1;
}
/* Copies of a weight. */
static inline int32_t step_copies(const stepper *w)
{
    return w->plan->npipelines * w->ranks;
}
/* With both context and tensor parallelism what every device of a tensor group holds whole goes
 * another way than what is cut: among all devices of the stage, and among pipelines. */
static inline bool step_goes_apart(const stepper *w, const step_run *run, const step_tensor *tensor)
{
    return tensor->whole && run->widest > 1 && w->ranks > 1;
}
/* Devices among which it goes inside the stage. */
static inline int32_t step_inside(const stepper *w, const step_run *run)
{
    return run->widest * w->ranks;
}
/* Weights of a task are gathered in it, unit by unit. */
static inline bool step_gathers_each(const stepper *w)
{
    return w->plan->zero == 3 && w->plan->sharding.kind != LUO_SHARD_GRAD_OP;
}
/* Are there copies of the pieces? Gradients are summed over them once a step. */
static inline bool step_has_copies(const stepper *w)
{
    return w->plan->zero == 3 && luo_shard_has_copies(&w->plan->sharding, w->plan->npipelines);
}
/* Copies over which state, or a piece of it, is cut. */
static inline int32_t step_shard_size(const stepper *w)
{
    return step_has_copies(w) ? w->plan->sharding.pipelines * w->ranks : step_copies(w);
}
/* Gradients of every micro-batch are cut to pieces. */
static inline bool step_scatters_each(const stepper *w)
{
    return w->plan->zero >= 2;
}
/* The stage that has a run in a pipeline, and its chunk there. */
static inline step_stage *step_stage_of(const stepper *w, const step_run *run, int32_t pipeline)
{
    return &w->pipe[pipeline].stage[run->stage[pipeline]];
}
static inline step_chunk *step_chunk_of(const stepper *w, const step_run *run, int32_t pipeline)
{
    return &step_stage_of(w, run, pipeline)->chunk[run->chunk[pipeline]];
}

/* The devices of the stage that has a run in the first pipeline. */
static inline const int32_t *step_inner(const stepper *w, const step_run *run)
{
    return w->plan->pipelines[0].stages[run->stage[0]].dev;
}

/* ---- step_stages.c ---- */

/* Seconds of all stages and of the messages between them. */
luo_status step_open_pipes(stepper *w);

/* ---- step_tensors.c ---- */

/* Of the table on one device of tp. */
int64_t step_table(const stepper *w, int32_t tp);
/* Parameters of a stage on one device. */
double step_parameters(const stepper *w, const step_pipe *pipe, int32_t stage);
/* Tensors of a layer on one device of tp, all its parts. */
int32_t step_layer_tensors(const stepper *w, int64_t layer, int32_t tp, step_tensor *tensor);
/* Weights of a run in the order in which the forward of a stage that has it reads them; gradients
 * in the order in which its backward completes them. Slices of the widest group.
 * Pre: the stage has been costed. */
int32_t step_reads(const stepper *w, const step_run *run, const step_stage *stage,
                   const step_chunk *chunk, step_tensor *tensor);
int32_t step_done(const stepper *w, const step_run *run, const step_stage *stage,
                  const step_chunk *chunk, step_tensor *tensor);

/* ---- step_units.c: ZeRO 2 and 3 ---- */

/* What adding up the pieces of a layer's gradients takes beside its backward. */
luo_status step_beside(const stepper *w, const step_stage *stage, luo_layer_shape *shape);
/* The beats of the tasks of all stages. Pre: step_open_runs. */
luo_status step_make_beats(stepper *w);
void step_play(stepper *w, step_stage *stage, const step_beats *beats, luo_turn *turn);

/* ---- step_dp.c: gradients and weights between pipelines ---- */

/* Bytes of an element of a gradient on its way. */
double step_sum_bytes(const stepper *w);
/* Number of the bucket of every tensor of a run; ZeRO 3: by unit. */
luo_status step_close(const stepper *w, luo_bucketing rule, const step_run *run,
                      const step_tensor *tensor, int32_t n, bool weights, int32_t **bucket,
                      int32_t *nbuckets);
luo_bucketing step_rule(const stepper *w);
/* With ZeRO what every device of the tensor group holds whole is cut over that group, too: weights,
 * and their gradients unless context-parallel ranks have to be summed first. */
bool step_cuts_whole(const stepper *w, const step_run *run, const step_tensor *tensor,
                     bool weights);
/* Elements of a tensor that a call of the replicas moves. */
double step_moved(const stepper *w, const step_run *run, const step_tensor *tensor, bool weights);
/* Who takes part in that call. */
step_members step_way(const stepper *w, const step_run *run, const step_tensor *tensor,
                      bool weights);
/* Seconds of a call of the replicas of a run, the slowest of its devices' groups. Pre: alike. */
luo_status step_call_seconds(const stepper *w, const step_run *run, step_members members, int coll,
                             double bytes, double *seconds);
/* Of computation beside those calls; 0 on CPUs, which take turns. */
luo_status step_loss(const stepper *w, const step_run *run, double *loss);
luo_status step_open_runs(stepper *w);
/* When weights are there that are gathered once, from the begin of the step. */
luo_status step_gather(stepper *w);
/* End of the first forward of a chunk that begins at `start`: it waits for its weights. */
double step_first(const stepper *w, const step_stage *stage, const step_chunk *chunk, double start);
/* Calls of gradients, by buckets. Pre: all courses. */
luo_status step_list_sums(stepper *w);
/* What is left of the timetable after `pipeline` seconds: *dp; with it *tied, what the shared table
 * adds. Pre: step_list_sums. */
luo_status step_exposed(stepper *w, double pipeline, double *dp, double *tied);

/* ---- step_links.c: pipelines that differ ---- */

/* What brings weights to the copies of a stage, or sums their gradients. */
static inline int step_sum_of(const stepper *w, bool weights)
{
    return weights ? LUO_COLL_AG : w->plan->zero >= 1 ? LUO_COLL_RS : LUO_COLL_AR;
}

typedef struct step_links { /* what is put on them by the slice at hand */
    stepper *w;
    bool weights;
    double *sum; /* per link and direction */
    int32_t *touched, ntouched;
} step_links;
luo_status step_open_links(stepper *w, bool weights, step_links *links);
/* The slices of a call of a run, each of `bytes`. */
luo_status step_price_slices(step_links *links, int32_t run, int64_t bytes,
                             const step_slice **slices);
/* Makes it the call of a table that two stages hold: slices of the wider one. */
void step_join_table(const stepper *w, step_call *call);
/* One of a single flow: all bytes of a message are one. */
luo_status step_price_pair(step_links *links, int32_t src, int32_t dst, int64_t bytes,
                           step_slice *slice);
/* Weights, run by run. */
luo_status step_gather_links(stepper *w, bool beside_tasks);

/* ---- step_messages.c ---- */

/* The stage that gets what a stage sends; NULL: none. */
const luo_stage *step_next(const stepper *w, const luo_pipeline *pl, int32_t s);
/* How many devices of a node send to another behind stage s: pipelines go in step. */
int32_t *step_senders(const stepper *w, int32_t device, int32_t s);
luo_status step_count_senders(stepper *w);
/* Seconds of what goes from stage s to the next, and back. */
void step_cost_message(const stepper *w, step_pipe *pipe, int32_t s);
/* The same as slices, one a pair of devices. */
luo_status step_price_message(step_links *links, int32_t pipeline, int32_t s, bool back,
                              const step_slice **slices, int32_t *n);

/* ---- step_play.c: what shares links over time ---- */

typedef enum step_part_state {
    STEP_PART_WAITING,
    STEP_PART_FIXED, /* in the seconds that do not depend on its bytes */
    STEP_PART_MOVING,
    STEP_PART_ENDED
} step_part_state;

/* A slice of a call, a message of a pair of devices, or a moment: one without loads. */
typedef struct step_part {
    step_part_state state;
    int32_t nbefore; /* parts that have to end first */
    const step_slice *slice;
    double left, rate;   /* bytes, and bytes a second */
    double date;         /* of its next turn: it may begin; its bytes move; they have moved */
    double *end;         /* the latest that ended; NULL: nobody asks */
    bool frozen;         /* its rate is known */
    int32_t first_after; /* of those that wait for it; -1: none */
} step_part;

typedef struct step_edge {
    int32_t part, next;
    double lag;
} step_edge;

typedef struct step_player {
    const stepper *w;
    int32_t nparts, cap_parts, nedges, cap_edges;
    step_part *parts;
    step_edge *edges;
    int32_t *live, nlive;   /* parts that wait for none and have not ended */
    bool changed;           /* other parts move than when links were shared last */
    double *room, *asked;   /* per link and direction: share that is left, seconds per byte asked */
    int32_t *links, nlinks; /* that parts on their way use */
    bool *listed, *full; /* per link and direction: is it one of them? does it carry all it can? */
} step_player;
luo_status step_open_player(const stepper *w, step_player *player);
/* A part of `bytes`, which begins at `date` at the earliest. slice: outlives the player. */
luo_status step_add_part(step_player *player, const step_slice *slice, double bytes, double date,
                         double *end);
/* `after` begins `lag` seconds behind the end of `before` at the earliest. */
luo_status step_put_before(step_player *player, int32_t before, int32_t after, double lag);
/* Bytes move at the max-min share of the links on their way. Fills the ends. */
luo_status step_play_parts(step_player *player);

/* ---- step_beside.c: tasks and messages beside gathers or gradients ---- */

/* Adds those of all pipelines that begin while weights are gathered, until `date`, or that end
 * behind `date`, from which gradients are summed. Pre: the calls are parts; courses have been run.
 */
luo_status step_add_gathering(stepper *w, step_player *x, double date);
luo_status step_add_summing(stepper *w, step_player *x, double date);

/* ---- step_timetable.c ---- */

static inline int64_t step_ns_of(double seconds)
{
    return seconds > 0 ? (int64_t)ceil(seconds * 1e9) : 0;
}

/* Ends of the first n of w->calls, from when they are ready. Of two that could begin the one before
 * does, if they gather weights, else the one with more behind it. beside_tasks: with what stages
 * send meanwhile. */
luo_status step_carry(stepper *w, int32_t n, bool weights, bool beside_tasks);
/* The begin of the step: gathers, if there are any, beside tasks. Pre: courses. */
luo_status step_play_begin(stepper *w);
#endif
