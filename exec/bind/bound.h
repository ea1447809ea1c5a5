/* bound.h: a program bound to the buffers of one device: what every instruction computes and
 * moves, as sizes and buffer ids. Worked out once per program; host and cuda turn it into calls.
 *
 * Nothing here knows memory, a library or a precision: it is pure geometry of what core has
 * decided, so that no two executors can read a program differently.
 *
 *   bound.c         the table of bound instructions, predictions, the loss
 *   bound_ops.c     sizes of each kind of COMPUTE, and of LOCAL of the data loader
 *   bound_update.c  pieces of state; gradients, states and weights cell by cell
 *   bound_comm.c    communications: what is sent from where, and where it is put
 *
 * State in memory. A state buffer is runs of state_frame.volume reals, one behind the other:
 *   f32, f64: m, v; the weight itself is the weight buffer (2 reals an element: 8 or 16 bytes);
 *   bf16:     master, m, v, all f32 (12 bytes); the weight buffer holds bf16(master) for the cells
 *             of the piece;
 *   of what counts move: nothing of use; there are no moments, and the weight buffer is of the
 *             precision of sums;
 *   f32, f64, where state lies in a layout of its own (`state_layout`): weight, m, v. The weight's
 *             run is what the Pre part sends to the weight buffers, which hold nothing between two
 *             steps; weight_buffer is the state buffer then;
 *   bf16, the same: bf16(master), which is sent, then master, m, v, all f32, from the next multiple
 *             of LUO_LAYOUT_ALIGN on (luo_bound_state_offset): 14 bytes.
 * Cells of the weight buffer outside of the rank's piece hold nothing between two steps: the Pre
 * part of the program brings them, from the weight buffers of those who own them. So whoever puts
 * state into a job (init, load, a switch) only has to fill the cells of the pieces.
 */
#ifndef LUO_EXEC_BIND_BOUND_H
#define LUO_EXEC_BIND_BOUND_H
#include "core/graph/graph.h"
#include "exec/bind/kernels.h"
#include "exec/bind/layout.h"
#include "exec/bind/route.h"
#include "exec/bind/sums.h"
#include "exec/data/batch.h"
#include "exec/rank/rank.h"

typedef struct luo_product { /* C[m x n] = A B (+ C if add), as luo_kernels.gemm; buffer ids */
    int32_t a, b, c;
    bool ta, tb, add;
    int64_t m, n, k, lda, ldb, ldc;
} luo_product;

typedef enum luo_data { LUO_DATA_IDS, LUO_DATA_LABELS, LUO_DATA_POSITIONS } luo_data;

/* Rows between tokens and experts. Home, the rows of a device's tokens lie by (expert, token);
 * there, those of its experts by (expert, sender, token). How many they are say the counts, senders
 * x experts: home of all experts, there of those of the device. */
typedef enum luo_trade_step {
    LUO_TRADE_WHOLE,
    LUO_TRADE_FIRST, /* by node: to the experts inside the nodes first, back to tokens last */
    LUO_TRADE_SECOND,
    LUO_TRADE_GATHER, /* through leaders, of which messages begin and end the way */
    LUO_TRADE_LEADERS,
    LUO_TRADE_SCATTER
} luo_trade_step;
typedef struct luo_bound_trade {
    int32_t n, rank;       /* devices that have all experts together */
    luo_trade_step step;
    int32_t first, last;    /* instructions of the exchange on this device, which are neighbours */
    int32_t from, to;       /* buffers that it begins with and ends in */
    bool leads;             /* through leaders: it is one .. */
    const int32_t *message; /* .. and by place in its node: message of the slot; own place: -1 */
    int32_t nodes,
        per_node; /* their product is n; rank is node * per_node + place in the node. WHOLE: 1, n */
    const int64_t *expert; /* expert[r]..expert[r + 1] - 1 are rank r's; n + 1 values */
    int32_t home, there;   /* buffers of counts */
    int64_t each;          /* rows of counts of a sender; the first one counts, others are 0 */
    int64_t width;         /* elements of a row */
    int64_t own;           /* elements of the rows home */
    int64_t most;          /* elements of the rows there, were all tokens to come */
    bool back;             /* to the tokens */
    bool counts;           /* what travels are the counts */
} luo_bound_trade;

/* Of two steps by node the other one. */
static inline int32_t luo_bound_trade_other(const luo_bound_trade *trade)
{
    return trade->step == LUO_TRADE_FIRST ? trade->last : trade->first;
}

/* Does a step of it go inside the nodes, not between them? */
static inline bool luo_bound_trade_is_inside(const luo_bound_trade *trade)
{
    return trade->step != LUO_TRADE_WHOLE && (trade->step == LUO_TRADE_FIRST) != trade->back;
}

typedef struct luo_bound_comm { /* COLLECTIVE, P2P, or LOCAL of a Reshard; all in elements */
    luo_route route;
    int64_t elem_bytes;               /* of the exchange, and of the buffers at both ends */
    const int32_t *peer;              /* P2P: world rank per message of the slot */
    const int64_t *counts;            /* RS, AG: elements per rank of the group .. */
    const int64_t *starts;            /* .. and where they begin in the packed run */
    luo_copy_segments send, recv;     /* all of them, one after the other */
    int64_t send_direct, recv_direct; /* offset in the buffer where nothing has to be packed; -1 */
    bool in_place; /* AR, AG: the operand lies where its result is put. Not: it is packed to where
                      its part of the result begins (recv_direct is -1 then if one buffer is read
                      and written, since these would overlap) */
    int64_t runs;  /* of this instruction in a step */
    const luo_bound_trade *trade; /* A2A; else NULL */
    bool outlives; /* only sends between stages, from memory of their own: may go on when the task
                      has ended */
    bool beside;   /* luo_instr_runs_beside: nobody waits for it but who reads what it brings */
    bool awaits;   /* only receives: waiting for it is the pipeline's bubble */
    bool ahead;    /* luo_instr_goes_ahead: what it receives lies in the room of its task until
                      somebody waits for it, and is unpacked then .. */
    int64_t room;  /* .. so many bytes behind the begin of that */
} luo_bound_comm;

/* What tasks receive from other stages has a room of its own, since what it is unpacked into may be
 * in use when it comes: that of a task while it is under way, until it is unpacked in the next. */
enum { LUO_ROOMS = 2 };
static inline int32_t luo_bound_room(int32_t task)
{
    return task % LUO_ROOMS;
}

enum { LUO_SUMMANDS = 8 }; /* of LUO_OP_ADD at most */

typedef struct luo_expert_rows { /* rows of the experts here, one expert behind the other */
    int32_t counts;           /* buffer [sources x experts]; what sources sent adds up */
    int64_t sources, experts;
} luo_expert_rows;

typedef struct luo_bound_op {
    const luo_instr *instr;
    luo_op_kind kind; /* LUO_OP_RESHARD: communication, or LOCAL of a Reshard */
    int32_t lane;
    /* bias: rows x cols. embedding: rows ids, cols wide, rows lo..depth-1 of the table lie here.
     * norm: rows x cols. rope: lo first token of queries, depth of keys; latent: lo. attention:
     * rows tokens from lo. logits: rows x cols, columns lo.. lie here, the first
     * depth of which are tokens (core/plan/vocab.c pads). loss: rows, lo first token.
     * placeholder: depth is luo_data, rows values from lo. route: rows x cols, lo first token;
     * depth of its gradient: not 0: another device has the same tokens, and counts them. pack,
     * combine: rows tokens, cols wide. rows_activation: cols wide. All else: rows is the volume of
     * the result (sum: of the operand). */
    int64_t rows, cols, lo, depth;
    double scale;      /* embedding: of a row */
    uint32_t left_out; /* bias, add: bits of complete summands that another device adds to the
                          partial sums */
    int32_t nproducts;
    const luo_product *product; /* matmul, matmul_dx, matmul_dw; grouped: of one expert, m (of dw
                                   k) is what the counts say */
    const luo_expert_rows *experts; /* grouped, rows_activation and their gradients */
    const luo_heads *heads;     /* attention, attention_dx */
    const luo_turns *turns;     /* rope, latent and their gradients */
    /* The same where tokens are out of order: queries and keys that are here; runs are set when a
     * micro-batch is at hand. NULL: documents lie whole and one behind the other. */
    const luo_block *block;
    const luo_bound_comm *comm; /* RESHARD only */
    double predicted_s;         /* on the nominal device of the profile */
    bool is_loss;               /* its result is the loss of the step */
} luo_bound_op;

typedef struct luo_cells { /* neighbours in weight, gradient and state, as element offsets */
    int64_t weight, grad, state, n;
} luo_cells;

typedef struct luo_bound_pair { /* one piece of a parameter in the update */
    const luo_piece *piece;
    int32_t weight, grad, state; /* buffers */
    int32_t ncells;
    const luo_cells *cells;
    luo_copy_segments owned; /* of the gradient: cells that this rank counts in the norm; none of
                                counts */
    bool decays;
} luo_bound_pair;

typedef struct luo_bound_copy { /* state in a layout of its own: a weight that lies here, too */
    const luo_piece *piece;
    int32_t weight; /* buffer of the working copy */
    int32_t ncells;
    const luo_cells *cells; /* of both; grad is not used */
} luo_bound_copy;

typedef struct luo_bound {
    const luo_rank_config *config;
    int32_t device;
    const luo_programs *set;
    const luo_recipe *recipe;
    const luo_program *program; /* NULL: this rank has no part in the plan; then only the params and
                                   empty pieces */
    const luo_role *role;
    int64_t weight_bytes; /* bf16 with state in a layout of its own: of an element of the weights in
                             front of it; else 0 */
    luo_layout layout;
    const luo_route *route; /* per instruction, of Reshards */
    luo_bound_op *op;       /* per instruction of the role */
    int32_t *seg_of;        /* per instruction */
    int64_t room_bytes; /* of one of LUO_ROOMS; multiple of LUO_LAYOUT_ALIGN */
    luo_batch_shape batch;
    int64_t longest; /* tokens of the longest micro-batch of the step */
    int32_t npairs;
    luo_bound_pair *pair;
    luo_param *param; /* one per parameter of the model */
    int32_t npieces;  /* as many */
    luo_piece *piece; /* param, piece and frames (of the buffers) are set; the arrays are the
                         executor's to set */
    int32_t *weight_buffer, *state_buffer; /* per piece; -1: none here */
    luo_sums sums;                         /* of a step in parts: the pieces of the update */
    /* What a step copies before it begins: the Pre part moves what comes from other devices, and
     * knows what stays on a device as the same cells under another name. */
    int32_t ncopies;
    luo_bound_copy *copy;
} luo_bound;

/* Binds the program of config->device_of[config->rank]. set, recipe and config outlive it.
 * Errors: LUO_EUNSUP shares with gaps, heads apart from their key-value heads, buffers of another
 * precision than config->dtype; LUO_EBACKEND a device without a rank; LUO_EBUG; LUO_ENOMEM. They
 * may befall some ranks alone: what all ranks do together for a job comes before. Owner: arena.
 * Cost: O(instructions + segments). See: tests/exec/check_bound.c. */
luo_status luo_bind(luo_arena *arena, const luo_rank_config *config, const luo_programs *set,
                    const luo_recipe *recipe, luo_bound *out, luo_err *err);

/* Every buffer is as wide as a run in this precision makes it: weights and activations of the
 * precision; f64: all else too; f32 and bf16: gradients f32; statistics, loss and ids 4 bytes;
 * state as above. luo_bind asks for config->dtype. Errors: LUO_EUNSUP with the tensor. */
luo_status luo_bound_check_width(const luo_role *role, luo_dtype dtype, luo_err *err);

/* What one rank adds to the sum of squares of the gradients at most, so that the sum of all ranks
 * stays finite; it stands for what isn't. A number that the sum's type (f64: f64, else f32) holds,
 * so that it is known again. */
double luo_bound_most_squares(luo_dtype dtype, int32_t nranks);

/* Seconds of a step's COMPUTE on the nominal device of the profile. */
double luo_bound_predicted(const luo_bound *bound);
/* Of what was used per instruction of the role (calls, bytes, seconds), those that ran, with who
 * took part; their number. used: room for all. */
int32_t luo_bound_use(const luo_bound *bound, const luo_comm_use *use, luo_comm_use *used);

/* World rank of a device; -1: none. Cost: O(log ranks). */
int32_t luo_bound_rank_of(const luo_rank_config *config, int32_t device);

static inline const luo_buffer *luo_bound_desc(const luo_bound *bound, int32_t buffer)
{
    return &bound->role->buf[buffer];
}
/* From the begin of the slab to the state in a state buffer, behind the weights in front of it. */
static inline int64_t luo_bound_state_offset(const luo_bound *bound, int32_t state)
{
    return bound->layout.at[state] +
           luo_layout_weights(luo_bound_desc(bound, state), bound->weight_bytes);
}
static inline int64_t luo_bound_volume(const luo_buffer *buffer)
{
    int64_t n = 1;
    for (int32_t d = 0; d < buffer->rank; d++) n *= buffer->dim[d];
    return n;
}
static inline int64_t luo_bound_width(const luo_buffer *buffer) /* elements of a token */
{
    int64_t n = 1;
    for (int32_t d = 1; d < buffer->rank; d++) n *= buffer->dim[d];
    return n;
}
#endif
