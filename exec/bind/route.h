/* route.h: which elements of which buffer an instruction of a Reshard sends and receives.
 *
 * Core has decided who sends what to whom (luo_exchange); this only says where those cells lie in
 * the buffers of one device. Pure geometry: no MPI, no numbers.
 * Notation: a frame is the region of the whole tensor that a buffer holds, its cells row-major.
 */
#ifndef LUO_EXEC_BIND_ROUTE_H
#define LUO_EXEC_BIND_ROUTE_H
#include "core/graph/program/program.h"

typedef struct luo_frame {
    luo_region region;
    int64_t volume;
} luo_frame;

typedef struct luo_copy_segment { /* neighbouring elements of a buffer */
    int64_t at, n;
} luo_copy_segment;
typedef struct luo_copy_segments { /* in the order in which they are packed: row-major in the region
                                    */
    int32_t n;
    const luo_copy_segment *at;
    int64_t elements; /* sum of n */
} luo_copy_segments;

/* Frame of a buffer on a device. Pre: buffer->ann. A device without cells has an empty one.
 * Errors: LUO_ENOMEM. Owner: arena. */
luo_status luo_frame_of(luo_arena *arena, const luo_buffer *buffer, int32_t device, luo_frame *out,
                        luo_err *err);
/* Where the cells of `part` lie in a frame. Neighbours become one segment.
 * Errors: LUO_EBUG part is not inside the frame; LUO_ENOMEM. Owner: arena. */
luo_status luo_frame_segments(luo_arena *arena, const luo_frame *frame, const luo_region *part,
                              luo_copy_segments *out, luo_err *err);

typedef enum luo_reduce { LUO_REDUCE_SUM, LUO_REDUCE_MAX } luo_reduce;

/* Instead of a buffer id: the scratch of a Reshard; the slab of all buffers (luo_layout_join). */
enum { LUO_ROUTE_SCRATCH = -2, LUO_ROUTE_SLAB = -3 };

typedef struct luo_route_copy { /* elements of src go to dst, in order */
    int32_t from, to;           /* buffers or LUO_ROUTE_SCRATCH; from -1: nothing to copy */
    luo_copy_segments src, dst;
} luo_route_copy;

/* One COLLECTIVE, P2P or LOCAL instruction of a Reshard. Everything is in elements.
 *
 * An instruction reads all of its own cells before it writes any. Where that isn't enough, because
 * a later instruction of the Reshard still needs what an earlier one would overwrite (a device that
 * sums the same cells with several partners), or where cells between two steps fit no buffer, they
 * lie in the scratch of the Reshard: segments of LUO_ROUTE_SCRATCH count from its first element. It
 * lives from the first to the last instruction of the Reshard on this device, which stand together
 * in their segment. `enter` is done right before the instruction, `leave` right after it. */
typedef struct luo_route {
    int32_t in, out;          /* -1: nothing is read or written; LUO_ROUTE_SCRATCH; else a buffer */
    int64_t scratch_elements; /* of this Reshard on this device; 0: none is used */
    int32_t first, last;      /* instructions of the Reshard on this device */
    luo_route_copy enter, leave;
    luo_reduce reduce; /* COLLECTIVE RS, AR */
    int32_t rank;      /* COLLECTIVE: own position in the group */
    int32_t n;         /* COLLECTIVE: ranks of the group; P2P: messages of the slot; LOCAL: 1 */
    /* send[j]: to rank j (RS) or the j-th message; AG and AR: send[0]. recv[j]: from rank j (AG;
     * the own part too) or the j-th message; RS and AR: recv[0]. LOCAL: send[0] to recv[0].
     * Elements of unused ends are 0. */
    const luo_copy_segments *send, *recv;
    /* A bucket: one route per piece, and of the above only first, last, rank, n and
     * scratch_elements (the sum) are set, until luo_layout_join has made one route of them. */
    int32_t nparts;
    const struct luo_route *part;
} luo_route;

/* The route of instruction `instr` of a device's role. Pre: its exchange is >= 0 and the program
 * was compiled, not parsed. Owner: arena. Cost: O(moves of the Reshard).
 * Errors: LUO_EINPUT by raw annotations, operands or results lie outside of the buffer they share;
 * LUO_EBUG the program contradicts its exchanges; LUO_ENOMEM.
 * See: tests/exec/prop_route.c (all devices of a program run on cells, against the truth). */
luo_status luo_route_of(luo_arena *arena, const luo_programs *set, const luo_program *program,
                        int32_t instr, luo_route *out, luo_err *err);
#endif
