/* path.h: the way of one device's cells through the steps of a Reshard: from which buffer each
 * step takes them and where it leaves them. For exec/bind/route.c only. */
#ifndef LUO_EXEC_BIND_PATH_H
#define LUO_EXEC_BIND_PATH_H
#include "exec/bind/segments.h"

typedef struct luo_place {
    int32_t buffer; /* -1: none; LUO_ROUTE_SCRATCH */
    luo_frame frame;
    int64_t base; /* element of the scratch at which the frame begins; 0 in a buffer */
} luo_place;

typedef struct luo_hop { /* one step in which the device has instructions */
    int32_t step;
    int32_t first, n;  /* instructions */
    int32_t ncoll;     /* collectives among them; they come first */
    bool batch, local; /* one P2P; one LOCAL at the end: without it copies need no instruction */
    const luo_move *const *move; /* those of this device, in list order */
    int32_t nmove;
    luo_place from, to;
    luo_route_copy enter;
} luo_hop;

typedef struct luo_path {
    int32_t device, nhop;
    luo_hop *hop;
    const luo_move *const *kept; /* copies after the last hop: all that is wanted in the end */
    int32_t nkept;
    bool ends_early; /* steps come after the last hop */
    luo_place out;
    int64_t scratch_elements;
    luo_route_copy leave;
} luo_path;

/* Cells that a move takes from a device, or puts there: *n regions. */
const luo_region *luo_path_move_cells(const luo_move *move, int32_t device, bool written,
                                      int32_t *n);
int32_t luo_path_move_rank(const luo_move *move, int32_t device); /* -1: takes no part */

/* Pre: hops are filled but for from, to and enter; hop[0].from is the buffer the Reshard reads (-1:
 * none), out the one it makes. Fills the rest. name: of the Reshard, for the sentence.
 * Errors: LUO_EINPUT results do not fit the buffer; LUO_EBUG; LUO_ENOMEM. */
luo_status luo_path_plan(luo_arena *arena, luo_path *path, const char *name, luo_err *err);
#endif
