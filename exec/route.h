/* exec/route.h: which elements of which buffer an instruction of a Reshard sends and receives.
 *
 * Core has decided who sends what to whom (luo_exchange); this only says where those cells lie in
 * the buffers of one device. Pure geometry: no MPI, no numbers.
 * Notation: a frame is the region of the whole tensor that a buffer holds, its cells row-major.
 */
#ifndef LUO_EXEC_ROUTE_H
#define LUO_EXEC_ROUTE_H
#include "core/graph/program.h"

typedef struct luo_frame {
    luo_region region;
    int64_t volume;
} luo_frame;

typedef struct luo_strip { /* neighbouring elements of a buffer */
    int64_t at, n;
} luo_strip;
typedef struct luo_strips { /* in the order in which they are packed: row-major in the region */
    int32_t n;
    const luo_strip *at;
    int64_t elements; /* sum of n */
} luo_strips;

/* Frame of a buffer on a device. Pre: b->ann. A device without cells has an empty one. */
luo_status luo_frame_of(luo_arena *arena, const luo_buffer *b, int32_t device, luo_frame *out,
                        luo_err *err);
/* Where the cells of `part` lie in a frame. Neighbours become one strip.
 * Errors: LUO_EBUG part is not inside the frame; LUO_ENOMEM. Owner: arena. */
luo_status luo_frame_strips(luo_arena *arena, const luo_frame *f, const luo_region *part,
                            luo_strips *out, luo_err *err);

typedef enum luo_reduce { LUO_REDUCE_SUM, LUO_REDUCE_MAX } luo_reduce;

enum { LUO_ROUTE_SCRATCH = -2 }; /* instead of a buffer id */

/* One COLLECTIVE, P2P or LOCAL instruction of a Reshard. Everything is in elements. A Reshard of
 * several steps whose cells fit neither end goes through a scratch buffer of the role: `enter` is
 * copied into it before the first instruction of the Reshard on this device, `leave` out of it
 * after the last. */
typedef struct luo_route {
    int32_t in, out;         /* buffer ids; -1: nothing is read or written; LUO_ROUTE_SCRATCH */
    int64_t scratch_elements; /* of this Reshard; 0: none is used */
    int32_t enter_from, leave_to; /* buffers; -1: nothing to copy here */
    luo_strips enter_in, enter_scratch, leave_scratch, leave_out;
    luo_reduce reduce;
    int32_t rank;            /* COLLECTIVE: own position in the group */
    int32_t n;               /* COLLECTIVE: ranks of the group; P2P: messages of the slot */
    /* send[j]: to rank j (RS) or the j-th message; AG and AR: send[0]. recv[j]: from rank j (AG)
     * or the j-th message; RS and AR: recv[0]. LOCAL: send[0] to recv[0]. Elements of unused ends
     * are 0. */
    const luo_strips *send, *recv;
} luo_route;

/* The route of instruction i of a device's role. Pre: instr->exchange >= 0 and the program was
 * compiled, not parsed. Owner: arena. Cost: O(moves of the step).
 * Errors: LUO_EBUG the program contradicts its exchanges; LUO_ENOMEM. */
luo_status luo_route_of(luo_arena *arena, const luo_programs *set, const luo_program *program,
                        int32_t instr, luo_route *out, luo_err *err);

/* Cells of part that `device` counts when every cell of an annotated tensor is to be counted once:
 * those of its region that no earlier holding, in (member, index) order, has. */
luo_status luo_owned_strips(luo_arena *arena, const luo_ann *ann, const luo_shape *shape,
                            int32_t device, const luo_frame *frame, luo_strips *out, luo_err *err);
/* The same as regions (boxes), for those who write a tensor to a file. */
luo_status luo_owned_boxes(luo_arena *arena, const luo_ann *ann, const luo_shape *shape,
                           int32_t device, const luo_region **out, int32_t *n, luo_err *err);
#endif
