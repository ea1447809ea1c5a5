/* program.h: the instruction list of every device for one step under one plan.
 *
 * Devices whose programs differ only in who their peers are share one role; what differs stands
 * in the device's own slots. A program is: role (segments of instructions), tasks (which segment
 * for which micro-batch, in order), slots (groups and peers). One segment is run by many tasks.
 * Everything is immutable once compiled.
 */
#ifndef LUO_CORE_GRAPH_PROGRAM_PROGRAM_H
#define LUO_CORE_GRAPH_PROGRAM_PROGRAM_H
#include "core/graph/model.h"
#include "core/graph/op.h"
#include "core/graph/program/coll.h"
#include "core/graph/schedule/sched.h"
#include "core/hspmd/resolve.h"

typedef enum luo_stream {
    LUO_STREAM_COMPUTE,
    LUO_STREAM_TP,
    LUO_STREAM_PP,
    LUO_STREAM_DP,
    LUO_STREAM_MOVE,
    LUO_STREAM_IO,
    LUO_STREAMS
} luo_stream;
const char *luo_stream_name(luo_stream s); /* "compute tp pp dp move io" */

typedef enum luo_phase {
    LUO_PHASE_PRE,
    LUO_PHASE_F,
    LUO_PHASE_B,
    LUO_PHASE_POST,
    LUO_PHASE_SWITCH,
    LUO_PHASE_BI, /* the half of a backward that makes gradients of inputs .. */
    LUO_PHASE_BW, /* .. and that of weights; a program has these two or B */
    LUO_PHASES
} luo_phase;
const char *luo_phase_name(luo_phase p); /* "pre F B post switch BI BW" */
static inline bool luo_phase_is_backward(int32_t p)
{
    return p == LUO_PHASE_B || p == LUO_PHASE_BI || p == LUO_PHASE_BW;
}
/* Of a micro-batch? Else once a step, or a switch. */
static inline bool luo_phase_in_task(int32_t p)
{
    return p == LUO_PHASE_F || luo_phase_is_backward(p);
}
/* The backward of a micro-batch, or the half that comes first: gradients of its outputs arrive. */
static inline bool luo_phase_begins_backward(int32_t p)
{
    return p == LUO_PHASE_B || p == LUO_PHASE_BI;
}
/* .. or the half that comes last: its gradients of weights are complete, it needs nothing more. */
static inline bool luo_phase_ends_backward(int32_t p)
{
    return p == LUO_PHASE_B || p == LUO_PHASE_BW;
}

typedef enum luo_instr_kind {
    LUO_INSTR_COMPUTE,
    LUO_INSTR_COLLECTIVE,
    LUO_INSTR_P2P,
    LUO_INSTR_LOCAL,
    LUO_INSTR_IO
} luo_instr_kind;
const char *luo_instr_kind_name(luo_instr_kind k); /* "COMPUTE COLLECTIVE P2P LOCAL IO" */


/* What a COMPUTE or LOCAL instruction costs; core/cost turns it into seconds of a GPU type. */
typedef enum luo_cost_kind {
    LUO_COST_NONE,
    LUO_COST_GEMM,       /* a: m, n, k, batch, element bytes, luo_gemm_form */
    LUO_COST_ATTENTION_F, /* a: query heads here, head_dim, tokens, sequence tokens, mask, pairs,
                             elements of a value (0: head_dim), tokens of the window (0: none);
                             the micro-batch is tokens / sequence tokens sequences of that length.
                             Pairs above 0: a step of a ring, so many of a query and a key a head.
                             Mask: LUO_ATTENTION_CAUSAL, and LUO_ATTENTION_AGAIN for a backward that
                             runs an unfused core forward again (selective recompute) */
    LUO_COST_ATTENTION_B,
    LUO_COST_STREAM,     /* a: bytes moved; one kernel */
    LUO_COST_OPTIMIZER,  /* a: parameters updated here, LUO_OPTIMIZER_BYTES */
    LUO_COST_GROUPED     /* products of experts, each with rows of its own; a: rows of all, n, k,
                            experts that have rows, element bytes, then how often LUO_GROUPED_TILE
                            rows, half and a quarter of that cover each expert's, in sum */
} luo_cost_kind;
enum { LUO_GROUPED_TILE = 256, LUO_GROUPED_TILES = 3, LUO_COST_SIZES = 5 + LUO_GROUPED_TILES };
/* Places in a key behind these: luo_weight_product; elements of the first operand that become fp8
 * here, if any do: others are gathered as such. */
enum { LUO_COST_PRODUCT = LUO_COST_SIZES, LUO_COST_CAST, LUO_COST_PLACES };
enum { LUO_COST_EAGER = LUO_COST_SIZES }; /* of STREAM: bytes where no kernel does all of it */
typedef struct luo_eager { /* what they move of an element: so many of its precision, and of f32 */
    int32_t own, f32;
} luo_eager;
static inline double luo_eager_bytes(luo_eager each, double elem_bytes, double elements)
{
    return (each.own * elem_bytes + each.f32 * (double)sizeof(float)) * elements;
}
/* docs/cost-model.md#streaming-kernels: root-mean-square norms forward and backward, rotary
 * positions, gated activations forward and backward. */
extern const luo_eager luo_eager_norm[2], luo_eager_rope, luo_eager_gate[2];
/* Of a batch of products. */
typedef enum luo_gemm_form {
    LUO_GEMM_PLAIN,
    LUO_GEMM_MISALIGNED, /* a size is no multiple of 8 */
    LUO_GEMM_EXPERTS,    /* each by weights of its own, k x n */
    LUO_GEMM_SUMS        /* each added to the gradient of weights of its own, m x n */
} luo_gemm_form;
enum { LUO_OPTIMIZER_BYTES = 34 }; /* per parameter: grad 4+2, state 12 + 12, weight, clipping */
enum { LUO_ATTENTION_CAUSAL = 1, LUO_ATTENTION_AGAIN = 2 };
/* Which product of a layer's weights: those may run in fp8, and what casts them follows from it. */
typedef enum luo_weight_product {
    LUO_WEIGHTS_OTHER, /* none of them: of the head, of a router, inside attention */
    LUO_WEIGHTS_Y,
    LUO_WEIGHTS_DX,
    LUO_WEIGHTS_DW
} luo_weight_product;
typedef struct luo_cost_key {
    int32_t kind;
    int64_t a[LUO_COST_PLACES]; /* the first six, but of GROUPED; of latent attention seven; of
                                   STREAM, GEMM and GROUPED what follows LUO_COST_SIZES, which the
                                   operation says already: no part of the text */
} luo_cost_key;

typedef enum luo_buffer_class {
    LUO_BUFFER_WEIGHT,
    LUO_BUFFER_GRADIENT,
    LUO_BUFFER_OPTIMIZER,
    LUO_BUFFER_STASH, /* made in F, read in B, or made in BI, read in BW: one per micro-batch in
                         flight */
    LUO_BUFFER_WORK,  /* lives inside one task */
    LUO_BUFFER_COMM   /* between the steps of an exchange; lives inside one task */
} luo_buffer_class;

typedef struct luo_buffer {
    const char *tensor; /* name, as in plans and logs */
    int32_t rank;
    int64_t dim[LUO_RANK_MAX]; /* local shape */
    int64_t elem_bytes, bytes;
    int32_t buffer_class;
    /* What it is a piece of, for those who fill it with numbers: the region of a device is
     * luo_region_of(ann, shape). Not part of the text: NULL in a program that was read from it,
     * and in programs of switches and checkpoints. */
    const char *letters; /* of its dimensions (core/graph/graph.h) */
    const luo_ann *ann;
    luo_shape shape;     /* of the whole tensor: one micro-batch of every pipeline of that length */
} luo_buffer;

typedef struct luo_instr_piece { /* what a bucket takes of one buffer, in elements */
    int32_t buffer;
    int64_t count; /* all cells that the call moves there, of every rank */
} luo_instr_piece;

typedef struct luo_instr {
    int32_t id; /* position in the role */
    uint8_t kind, stream, phase;
    uint8_t coll; /* COLLECTIVE; P2P: A2A if it carries rows of experts or their counts, to or from
                     the leader of a node, else 0 */
    uint8_t lane; /* of stream dp, 0..LUO_DP_LANES - 1, collectives alone; else 0 */
    uint8_t variant; /* of AG and RS: luo_coll_variant; of equal pieces never padded, which is what
                        they are */
    bool recompute; /* a forward op run again in B */
    bool v;         /* collective with per-rank counts */
    bool at_start;  /* waits for all that the device computed in the tasks before */
    bool beside;    /* of a staggered set: the device's next step does not wait for it */
    int32_t op;     /* index in luo_programs.ops */
    int32_t exchange; /* (Reshard, step): equal on all devices that take part; -1: none */
    int32_t layer;    /* -1: none */
    int32_t slot;     /* COLLECTIVE, P2P: index in luo_program.slots; -1: none */
    int64_t bytes;    /* COLLECTIVE: of the full tensor (A2A: of one device, of rows of experts as
                         many as if all experts got equally many); P2P: sent by this device;
                         LOCAL, IO: moved */
    int64_t flops;
    luo_cost_key cost;
    int32_t nin, nout;
    const int32_t *in, *out; /* buffer ids of the role */
    int32_t ndep;
    const int32_t *dep; /* instruction ids, smaller than id unless in another segment; in another
                           segment: its latest run for the same micro-batch (F of this B, BI of
                           this BW), or its latest run at all (B of Post, Pre of F) */
    /* COLLECTIVE of a bucket: as many pieces as its exchange has parts, in their order; 0: of one
     * tensor. in and out name as many buffers. A gather's pieces lie in `out`, all others in `in`;
     * the other end is the same buffer or, where pieces of weights are kept apart, theirs. */
    int32_t npieces, first_piece; /* first_piece: its number in the role */
    const luo_instr_piece *piece;
} luo_instr;

/* Rows of experts, or their counts: how many of them travel is known when the step runs. */
static inline bool luo_instr_trades(const luo_instr *in)
{
    return (in->kind == LUO_INSTR_COLLECTIVE || in->kind == LUO_INSTR_P2P) &&
           in->coll == LUO_COLL_A2A;
}

/* Communication between replicas? */
static inline bool luo_instr_is_call(const luo_instr *in)
{
    return in->stream == LUO_STREAM_DP &&
           (in->kind == LUO_INSTR_COLLECTIVE || in->kind == LUO_INSTR_P2P);
}

typedef struct luo_segment {
    int32_t phase, chunk;
    int64_t tokens; /* of the micro-batch; segments of other lengths are other segments */
    int32_t first, n; /* instructions first..first+n-1 */
} luo_segment;

typedef struct luo_role {
    int32_t ninstr, nseg, nbuf, nslot, npieces;
    const luo_instr *instr;
    const luo_segment *seg;
    const luo_buffer *buf;
    const int64_t *offset; /* by piece of all instructions: where its first cell lies in its buffer,
                              in elements. Roles that differ in nothing else share the rest */
} luo_role;

/* A call of Pre or Post that moves weights, gradients or state alone, which have places of their
 * own in memory. It may run while tasks do: one of Pre until somebody reads what it brings, one of
 * Post from when the last backward has made what it sums (core/run/interp.h). */
bool luo_instr_runs_beside(const luo_role *role, const luo_instr *instr);

typedef struct luo_run_task {
    int32_t seg, micro_batch; /* micro_batch -1: Pre, Post */
} luo_run_task;

typedef struct luo_message {
    int32_t peer;
    bool send;
    int64_t elements, bytes;
} luo_message;

typedef struct luo_slot { /* who takes part, as this device sees it */
    int32_t group;          /* COLLECTIVE: index in luo_programs.groups; own rank = position */
    const int64_t *counts;  /* v: elements per rank of the group */
    int32_t nmessage;       /* P2P: sends first, then receives, each by peer */
    const luo_message *message;
} luo_slot;

typedef struct luo_program {
    int32_t device, pipeline, stage;
    int32_t role; /* index in luo_programs.roles */
    int32_t ntask;
    const luo_run_task *tasks; /* shared by the devices of a stage */
    const luo_slot *slots;     /* nslot of the role */
} luo_program;

typedef struct luo_group {
    int32_t n;
    const int32_t *dev;
    int32_t stream; /* communicators are cached by (stream, ordered devices) */
} luo_group;

typedef struct luo_exchange { /* one step of one resolved Reshard: what data moves where */
    int32_t op;
    int32_t step;
    const luo_resolution *resolution; /* NULL: of a bucket */
    const char *src, *dst; /* annotation texts */
    luo_shape shape;
    int64_t elem_bytes;
    /* A bucket: the exchanges whose tensors travel together. A call has the tensors in this order;
     * where every rank has a part of each, all parts of rank 0 come first, then those of rank 1. */
    int32_t nparts;
    const int32_t *part;
} luo_exchange;

typedef struct luo_op_info {
    const char *name; /* "layers.3.attn.q", "d.layers.3.attn.q.weight" */
    luo_op_kind kind; /* LUO_OP_KINDS: of no graph; its kind is its name */
    int32_t layer;
} luo_op_info;
const char *luo_op_info_kind(const luo_op_info *op); /* as text */

typedef struct luo_memory_rules { /* memory_rules.h; all zero: as the program says */
    bool attention_unfused;     /* backward finds the square of scores kept */
    bool dropout;               /* masks of a byte after attention and after feed-forward */
    bool silu_again;            /* gated: silu(gate) is made again in backward, not kept */
    bool norm2_again;           /* input of a layer's second norm: made again from its output */
    bool cross_entropy_unfused; /* a copy of the logits in f32 beside their exponentials */
    bool dummy_gradients;       /* gradients summed elsewhere still get a tensor each */
    bool flat_gradients;        /* in one array: reduced in place, shared evenly under ZeRO */
    bool expert_weights_inside; /* tokens' weights act before the last product of experts, whose
                                   result backward does not read */
    bool outputs_kept;          /* what a stage has sent stays until its backward */
    bool calls_beside;          /* calls of Pre and Post run beside tasks: what they pack has room
                                   of its own */
    double gradient_bytes;      /* held of a gradient where weights have 2 bytes; 0: 4 */
    double f32_state_bytes;     /* weight, gradient and optimizer of an f32 parameter; 0: 16 */
    double framework_bytes;     /* allocated whatever the model is */
    double communicator_bytes;  /* taken by each communicator of a device, beside the allocator */
    double allocator_factor;    /* taken from the device over what is allocated; 0: 1 */
    double headroom_factor;     /* room over that which a plan must have to fit; 0: 1 */
} luo_memory_rules;

typedef struct luo_programs {
    int32_t n; /* devices of the plan, ascending */
    const luo_program *at;
    int32_t nroles, ngroups, nops, nexchanges;
    const luo_role *roles;
    const luo_group *groups;
    const luo_op_info *ops;
    const luo_exchange *exchanges;
    int32_t npipelines;
    luo_sched_kind schedule;
    bool staggered; /* a device begins its next step when its own is done, but for what is beside;
                       else when all devices have the norm of all gradients */
    uint64_t hash; /* of the text form of the whole set */
    luo_memory_rules memory; /* of the stack; not part of the text */
    int32_t copies; /* of a weight: context-parallel groups of all pipelines; 0: npipelines */
    const bool *selective;   /* by layer: attention is recomputed; NULL: nowhere. No part of it */
} luo_programs;

/* A device runs the instructions of one lane in issue order. Every stream is one lane, but pp has
 * four: forward and backward apart (docs/architecture/programs.md#streams), and receives, which are
 * posted at task start, apart from sends; and dp has as many as its collectives say
 * (luo_instr.lane), so that calls of disjoint groups run beside each other. Lanes 0..LUO_STREAMS-1
 * are the streams (pp: forward sends; dp: lane 0). Calls of one group never overlap: one in another
 * lane waits for that before it. */
enum {
    LUO_LANE_PP_F_RECV = LUO_STREAMS,
    LUO_LANE_PP_B_SEND,
    LUO_LANE_PP_B_RECV,
    LUO_LANE_DP_1, /* lanes 1.. of dp */
    LUO_DP_LANES = 4,
    LUO_LANES = LUO_LANE_DP_1 + LUO_DP_LANES - 1
};
int32_t luo_instr_lane(const luo_instr *instr);
static inline bool luo_program_lane_is_dp(int32_t lane)
{
    return lane == LUO_STREAM_DP || lane >= LUO_LANE_DP_1;
}
/* A receive from another stage that needs nothing of its device: not even that its task begins. */
bool luo_instr_goes_ahead(const luo_instr *instr);
/* The lane in which the other end of a message has its instruction. */
int32_t luo_program_lane_peer(int32_t lane);

/* Weights, gradients and state in the order in which they lie in memory: turn[buffer] counts from
 * 0; -1 for all other buffers. Tensors that are reduced in one call are neighbours, so that it need
 * not pack them. turn: room for all buffers. Cost: O(buffers + pieces). */
void luo_role_order(const luo_role *role, int32_t *turn);
enum { LUO_BUFFER_ALIGN = 64 }; /* bytes; where every buffer begins */
/* Do the pieces of a call lie one behind the other? turn: of luo_role_order. */
bool luo_instr_adjoins(const luo_role *role, const int32_t *turn, const luo_instr *instr);

/* Per role the first that differs from it in nothing but where the pieces of buckets lie: devices
 * of both take the same time, and wait for the same. Errors: LUO_ENOMEM. Owner: arena. */
luo_status luo_roles_alike(luo_arena *arena, const luo_programs *set, const int32_t **out);

/* Program of a device, NULL if it has none. */
const luo_program *luo_programs_find(const luo_programs *set, int32_t device);

/* Text form (grammar: docs/architecture/programs.md). device -1: all of the set, roles first; else
 * that device with its role. */
void luo_program_print(luo_str *text, const luo_programs *set, int32_t device);

/* Sets set->hash: FNV-1a over the text form, without holding it. Errors: LUO_ENOMEM. */
luo_status luo_programs_hash(luo_programs *set, luo_err *err);
/* The same hash of the text in which place[d] stands for device d: sets that differ in nothing but
 * the numbers of devices have one. place: of nplaces devices, -1: none, and devices that have none
 * keep their numbers; NULL: all of them do. Errors: LUO_ENOMEM. */
luo_status luo_programs_hash_placed(const luo_programs *set, const int32_t *place, int32_t nplaces,
                                    uint64_t *hash, luo_err *err);

/* Proves for the set: matching order and sizes per group, every receive has its send, each F one
 * B, or one BI and then one BW, buffers written before read, and that the lists finish on an
 * abstract machine with rendezvous semantics (docs/architecture/programs.md#the-check).
 * Errors: LUO_EINPUT with the cycle or mismatch of (device, instruction); LUO_ENOMEM. */
luo_status luo_program_check(luo_arena *scratch, const luo_programs *set, luo_err *err);

typedef struct luo_memory {
    int64_t weights, gradients, optimizer, activations, buffers; /* bytes */
    int64_t communicators; /* bytes; luo_program_communicators of them */
    int64_t allocated; /* all but communicators at the worst moment, and what the framework holds */
    int64_t peak;      /* taken from the device for it: with the allocator's rounding and gaps, and
                          communicators */
    int64_t needed;    /* to be called fitting: with headroom */
    int32_t peak_instruction;
} luo_memory;
/* The account of a device's memory over time, from buffer lifetimes and set->memory. State is there
 * all the time; what a task of a segment does to it, in bytes: */
typedef struct luo_memory_curve {
    int64_t made, freed;      /* kept activations that it adds, and that it gives back at its end */
    int64_t peak, kept, work; /* inside: largest sum over what was kept before, and its two parts */
    int32_t at;               /* instruction of the peak */
} luo_memory_curve;
typedef struct luo_memory_account {
    luo_memory state;              /* weights, gradients, optimizer, and in `buffers` what packed
                                      calls have of their own; the rest is 0 */
    const luo_memory_curve *curve; /* by segment of the role */
} luo_memory_account;
/* Pre: program is a program of the set. Errors: LUO_ENOMEM. Owner: arena. Cost: O(instructions). */
luo_status luo_program_account(luo_arena *arena, const luo_programs *set,
                               const luo_program *program, luo_memory_account *out, luo_err *err);
/* Communicators that a device of the set is in, as GPU ranks make them (tests/cuda holds them to
 * it): a group of two or more devices of its collectives is one, and every lane in which it has
 * messages is one. Pre: program is a program of the set. Errors: LUO_ENOMEM. Cost: O(instructions +
 * groups of the set). */
luo_status luo_program_communicators(luo_arena *scratch, const luo_programs *set,
                                     const luo_program *program, int32_t *out, luo_err *err);
/* The worst moment of that account over the tasks in their order, and communicators; without
 * `reserved`. Cost: O(tasks + instructions), and where a communicator has bytes that of their
 * number. */
luo_status luo_program_memory(luo_arena *scratch, const luo_programs *set, int32_t device,
                              luo_memory *out, luo_err *err);
#endif
