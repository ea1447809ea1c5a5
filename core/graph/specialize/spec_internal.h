/* spec_internal.h: what the parts of specialization share. Not for other folders.
 *
 *   spec_stages.c  pipelines, stages, classes of equal pipelines, virtual stages of operations
 *   spec_tables.c  local sizes of every tensor on every device
 *   spec_moves.c   resolutions; spec_steps.c: what each device does in them; spec_experts.c: of
 *                  rows of experts
 *   spec_bucket.c  tensors whose steps become one call; spec_bucket_emit.c: its instructions
 *   spec_units.c   ZeRO-2 and 3: what is gathered and scattered per micro-batch, unit by unit;
 *                  spec_units_emit.c: when, in F and B
 *   spec_order.c   order and lanes of these calls; spec_clock.c: when gradients are complete
 *   spec_roles.c   devices of equal structure, their tasks and slots
 *   spec_joint.c   tasks where devices stand in for absent ones
 *   spec_places.c  operations of every virtual stage
 *   spec_emit.c    instructions of one role; spec_write.c: buffers and wait edges;
 *                  spec_cost.c: what each costs
 *   spec_pattern.c roles that differ from an emitted one in numbers alone
 */
#ifndef LUO_CORE_GRAPH_SPECIALIZE_SPEC_INTERNAL_H
#define LUO_CORE_GRAPH_SPECIALIZE_SPEC_INTERNAL_H
#include "core/graph/intern.h"
#include "core/graph/specialize/specialize.h"

typedef struct spec_places { /* op[first[k]..first[k+1]): ascending */
    const int32_t *first, *op;
} spec_places;

typedef struct spec_class { /* pipelines with the same stages for every operation */
    int32_t pipeline;       /* the first of them */
    int32_t S, v;
    const int32_t *vs_in, *vs_out; /* virtual stage c*S+s by operation of F and B; else -1 */
    const bool *full, *selective;  /* as in luo_pipe */
    spec_places here[2];           /* operations of F, of B, by virtual stage */
} spec_class;

typedef struct spec_table { /* a tensor's local sizes, by device ascending */
    int32_t n;
    const int32_t *dev, *dims; /* dims: index in spec.dims */
} spec_table;

typedef struct spec_dims {
    int64_t dim[LUO_RANK_MAX], volume;
} spec_dims;

typedef struct spec_item { /* what one device does in one step: becomes one instruction */
    uint8_t kind, stream, coll, variant;
    bool v;
    int64_t bytes;
    luo_slot slot; /* COLLECTIVE, P2P */
    int32_t call;  /* COLLECTIVE: its number in the step */
} spec_item;

typedef struct spec_call { /* a collective of a step, for all its members */
    int32_t group, coll;
    int32_t move;  /* in the resolution */
    int64_t cells; /* of all its regions */
} spec_call;

typedef struct spec_step {
    int32_t id; /* counts all steps of all moves */
    int32_t n;  /* devices, ascending */
    const int32_t *dev, *first;       /* items first[i]..first[i+1]-1 */
    const int32_t *structure, *alike; /* alike: structure but for where pieces lie */
    const spec_item *item;
    int32_t ncalls;
    const spec_call *call;
} spec_step;

typedef struct spec_move { /* one resolution; nsteps = 0: identity */
    const luo_resolution *resolution;
    int32_t src, dst; /* annotation ids */
    const spec_table *from, *to; /* sizes at the source and at the destination */
    const char *name;       /* of the first Reshard that needs it */
    bool per_micro_batch, has_messages;
    uint8_t variant; /* luo_coll_variant of its gathers and scatters */
    bool trade; /* of rows of experts, or of their counts */
    int32_t layer;  /* trade, where loads of experts are given; else -1 */
    int64_t tokens; /* of a micro-batch of one pipeline */
    luo_shape shape;
    int64_t elem_bytes;
    int32_t nsteps;
    spec_step *step;
} spec_move;

typedef struct spec_part { /* a step of a tensor's Reshard in a bucket */
    int32_t op, step;
    int32_t ready; /* operation that makes the gradient complete, or reads the weight first */
} spec_part;

typedef struct spec_turn { /* of a device */
    int32_t bucket, item; /* a call of it: number of the device's item in the bucket's step */
    uint8_t lane;
} spec_turn;

typedef struct spec_bucket {
    int32_t phase, level;
    int32_t after; /* its calls stand behind this operation; those of a unit where that begins or
                      ends, which is after none */
    int32_t unit, unit_back; /* weights of a task: before which units of F and B they are gathered;
                                gradients: behind which unit of B they are cut */
    int32_t n;
    const spec_part *part;
    spec_step step;
    int32_t exchange;
    int64_t elem_bytes;
} spec_bucket;

/* What a Reshard does inside the tasks, for all pipelines together. */
typedef enum spec_duty {
    SPEC_NONE,
    SPEC_GATHER, /* ZeRO-3: a weight from its pieces */
    SPEC_SCATTER /* ZeRO-2, 3: a micro-batch's gradient to its pieces */
} spec_duty;

typedef struct spec {
    const luo_spec *in;
    luo_graph *g;
    luo_arena *arena, *scratch; /* result; thrown away */
    luo_patterns *patterns;     /* NULL: every role is emitted */
    luo_err *err;
    int32_t ndev;       /* devices of all stages, and of states kept elsewhere; ascending */
    int32_t *dev;
    int32_t max_device; /* arrays by device id have max_device + 1 entries */
    int32_t *index_of, *pipe_of, *stage_of; /* by device id; -1: in no stage */
    int32_t nclasses;
    spec_class *cls;
    int32_t *class_of;  /* by pipeline */
    int32_t *stage_of_ann; /* [ann * P + p]; -2: not looked at, -1: not on that pipeline */
    int32_t nlayers;
    int32_t *first_of_layer; /* forward operation */
    int32_t *sum_of;         /* by tensor: running sum its maker adds to; -1: none */
    int32_t *weight_of;      /* by state or shard: the working copy made of it */
    int32_t norm;            /* tensor: the gradients' norm on every device */
    uint8_t *duty;           /* by operation: spec_duty */
    int32_t *unit_of;        /* by operation: 0 embedding, 1.. blocks, nlayers + 1 head */
    int32_t *reader;         /* by tensor: first operation of F that reads it; -1: none */
    int32_t *unit_back;      /* by tensor: unit of B that reads it first; -1: none */
    spec_places of_phase;    /* operations by phase */
    bool *late;              /* by operation of B: in BW, if the schedule cuts backward in two */
    /* local sizes */
    luo_intern dims_key, table_key;
    spec_dims *dims;
    spec_table *table;
    int32_t cap_dims, cap_table;
    int32_t *table_of; /* [tensor * nlengths + length] */
    int32_t *cut_ann;  /* [tensor * nlengths + length]: annotation of the pipelines of a length */
    bool *has_length;  /* [length * P + p] */
    /* resolutions */
    luo_intern move_key, group_key, structure_key;
    spec_move *move;
    int32_t cap_move, nsteps;
    int32_t *move_of;     /* [op * nlengths + length]; -1: no Reshard */
    int32_t *exchange_of; /* the same: first exchange id (one per step); -1: none */
    luo_exchange *exchange;
    int32_t nexchanges;
    luo_group *group;
    int32_t cap_group;
    /* buckets, in the order in which their calls are issued */
    int32_t nbuckets;
    spec_bucket *bucket;
    bool *fused; /* by operation: its steps are in buckets */
    int32_t *bucket_of; /* by operation of duty SPEC_SCATTER: the last of them */
    /* by device index: turn[first_turn[i]..first_turn[i+1]) in order of issue, Pre then Post */
    int32_t *first_turn;
    spec_turn *turn;
    int32_t behind[2]; /* operation of Pre, of Post, behind which all of them stand; -1: none */
} spec;

static inline int32_t spec_behind(const spec *s, int32_t phase)
{
    return s->nbuckets == 0 ? -1 : s->behind[phase == LUO_PHASE_POST];
}

luo_status luo_spec_find_stages(spec *s);
/* Stage of pipeline p that holds annotation `ann`; error when it is on several. */
luo_status luo_spec_stage(spec *s, int32_t ann, int32_t p, const char *tensor, int32_t *stage);

luo_status luo_spec_make_tables(spec *s);
/* Sizes on a device; NULL: it holds nothing of the tensor. */
const spec_dims *luo_spec_find(const spec *s, const spec_table *table, int32_t dev);
static inline const spec_table *spec_table_of(const spec *s, int32_t tensor, int32_t length)
{
    return &s->table[s->table_of[(int64_t)tensor * s->in->nlengths + length]];
}
static inline const spec_dims *spec_local(const spec *s, int32_t tensor, int32_t length,
                                          int32_t dev)
{
    return luo_spec_find(s, spec_table_of(s, tensor, length), dev);
}

/* Annotation and whole shape that the local sizes of a tensor were cut from. */
void luo_spec_frame(const spec *s, int32_t tensor, int32_t length, const luo_ann **ann,
                    luo_shape *shape);

/* Where what a collective of the move moves begins in the buffer of device dev, in elements.
 * Pre: it sums what the source holds, or gathers what the destination holds; else that means
 * nothing. Errors: LUO_ENOMEM. */
luo_status luo_spec_offset(const spec *s, const spec_move *m, const spec_call *call, int32_t dev,
                           int64_t *out);
/* Pre: luo_spec_make_moves. Nothing is done where tensors are to travel alone. */
luo_status luo_spec_make_buckets(spec *s);
/* The order in which every device issues its calls of buckets, and their lanes. */
luo_status luo_spec_order_buckets(spec *s);

/* When B of the last micro-batch is through with an operation, in seconds, as a healthy pipeline of
 * its kind would be. */
typedef struct spec_dates {
    int32_t *of_pipe;    /* by pipeline: profile */
    const double **done; /* by profile and operation */
} spec_dates;
/* Errors: those of the clock. Owner: scratch. */
luo_status luo_spec_find_dates(const spec *s, spec_dates *out);

/* Duties, units and readers. Pre: luo_spec_find_stages. */
luo_status luo_spec_find_units(spec *s);
/* Unit at which an operation of F or B works on this class of pipelines; -1: it hands over. */
static inline bool spec_crosses(const spec_class *class, int32_t op)
{
    return class->vs_in[op] != class->vs_out[op];
}
static inline int32_t spec_unit_at(const spec *s, const spec_class *class, int32_t op)
{
    return s->duty[op] == SPEC_GATHER || spec_crosses(class, op) ? -1 : s->unit_of[op];
}
/* Do calls stand at units, not behind operations? */
static inline bool spec_by_unit(const spec *s)
{
    return s->in->bucket.rule == LUO_BUCKET_UNIT;
}

luo_status luo_spec_make_moves(spec *s);
/* What an instruction says of a Reshard's variant: nothing where that changes nothing. */
static inline uint8_t spec_variant(uint8_t variant, int32_t coll, bool v)
{
    const bool pieces = coll == LUO_COLL_AG || coll == LUO_COLL_RS;
    return pieces && (v || variant != LUO_COLL_PADDED) ? variant : LUO_COLL_AUTO;
}
/* spec_experts.c: is the Reshard an exchange of rows of experts, or of their counts? */
bool luo_spec_is_trade(const luo_op *op);
/* One collective of the devices that have all experts together; by node two; through leaders
 * messages, one, and messages. Errors: LUO_EDEDUCE other devices at both ends; LUO_EINPUT they do
 * not lie in nodes alike; LUO_ENOMEM. Owner: the arena of s. */
luo_status luo_spec_resolve_trade(spec *s, const spec_move *move, luo_resolution *out);
/* Where a load is given: bytes by which the collective takes as long as its busiest device, as
 * luo_instr.bytes; n devices of `there`, which have all experts. */
luo_status luo_spec_trade_bytes(spec *s, const spec_move *m, const luo_move *move, int64_t *bytes);
/* Is the collective one among leaders? */
bool luo_spec_is_led(const spec *s, const luo_move *move);
/* Elements of a message to or from a leader. */
luo_status luo_spec_trade_sends(const spec *s, const spec_move *m, const luo_move *move,
                                int64_t *elements);
/* Elements that a leader has behind the first step, LUO_LEADER_GATHER, or the second. */
luo_status luo_spec_trade_between(const spec *s, const spec_move *move, int32_t leader,
                                  int32_t step, int64_t *elements);
/* What device dev gets of an operation's tensor of rows, x. */
typedef struct spec_load {
    double factor;         /* over rows of equal experts; 1 where experts are cut */
    int64_t rows, experts; /* experts that have some */
    bool even;             /* all experts here have equally many */
    int64_t tiles[LUO_GROUPED_TILES]; /* as LUO_COST_GROUPED says */
} spec_load;
luo_status luo_spec_load_here(const spec *s, int32_t layer, int32_t x, int32_t length, int32_t dev,
                              spec_load *out);
/* By device id: which of the experts' devices it is, -1: none; devices that differ in that have
 * other loads. Owner: scratch. */
luo_status luo_spec_load_places(spec *s, int32_t **out);
/* Steps of a resolved move. */
luo_status luo_spec_make_steps(spec *s, spec_move *move);
/* Position of a device in a step, -1: it takes no part. */
int32_t luo_spec_take_part(const spec_step *step, int32_t dev);
static inline const spec_move *spec_move_of(const spec *s, int32_t op, int32_t length)
{
    return &s->move[s->move_of[(int64_t)op * s->in->nlengths + length]];
}

/* How the pipeline of a device cuts its sequences. Pre: the device is in one, the graph says. */
const luo_context *luo_spec_context(const spec *s, int32_t dev);
static inline int32_t spec_ring_part(const spec *s, int32_t dev)
{
    return s->g->context_rank[dev] / luo_spec_context(s, dev)->inner;
}
/* The part, where parts of equal sizes have other work; else -1. */
int32_t luo_spec_part_differs(const spec *s, int32_t dev);
/* Do queries of the device see any of the keys that are there in this step of the ring? */
bool luo_spec_sees(const spec *s, const luo_op *op, int32_t dev);
/* Cost key and flops of operation o with the local sizes of `dev`. */
void luo_spec_cost(const spec *s, int32_t o, int32_t length, int32_t dev, luo_instr *instr);

typedef struct spec_slot_ref { /* slot of a role: item k of the device in a step */
    const spec_step *step;
    int32_t item;
} spec_slot_ref;
/* Instructions, buffers and segments of the role of device dev. lengths: those of its pipeline,
 * ascending. refs: what its slots are, role->nslot of them. */
luo_status luo_spec_emit_role(spec *s, int32_t dev, const int32_t *lengths, int32_t n,
                              luo_role *role, const spec_slot_ref **refs);
/* Cells that a call of a bucket moves in each of its pieces: piece[k].count. */
void luo_spec_count_pieces(const spec *s, const spec_bucket *bucket, const spec_item *it,
                           luo_instr_piece *piece);
/* Where the pieces of a role's calls lie on one of its devices: role->offset. refs: of emission.
 * Errors: LUO_ENOMEM. Owner: the arena of s. */
luo_status luo_spec_place_pieces(const spec *s, int32_t dev, const spec_slot_ref *refs,
                                 luo_role *role);

/* Operations of every phase and virtual stage. Pre: luo_spec_find_stages. Owner: scratch. */
luo_status luo_spec_list_places(spec *s);
luo_status luo_spec_make_roles(spec *s, luo_programs *out);

typedef struct spec_tasks {
    int32_t n;
    luo_run_task *at; /* NULL: of a stage that shares no devices */
} spec_tasks;
typedef struct spec_joint_in { /* what the roles are */
    const luo_role *role;
    const int32_t *role_of;       /* by device index */
    const luo_intern *lengths;    /* ascending length indices .. */
    const int32_t *lengths_of;    /* .. by pipeline * max_stages + stage */
    int32_t max_stages;
} spec_joint_in;
/* Segment of a part (chunk 0) for micro-batches of this length on a device that runs such. */
int32_t luo_spec_segment(const spec_joint_in *in, const spec *s, int32_t dev, int32_t length,
                         luo_task_phase phase);
/* Tasks of all stages of pipelines that share devices: out[pipeline * max_stages + stage]. */
luo_status luo_spec_join_tasks(spec *s, const spec_joint_in *in, spec_tasks *out);
#endif
