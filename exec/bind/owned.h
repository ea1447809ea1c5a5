/* owned.h: every cell of a tensor counted by one of its holders. */
#ifndef LUO_EXEC_BIND_OWNED_H
#define LUO_EXEC_BIND_OWNED_H
#include "exec/bind/route.h"

/* Cells that `device` counts when every cell of an annotated tensor is to be counted once: those of
 * its region that no earlier holding, in (member, index) order, has. As segments of a frame that
 * contains them, box after box. Pre: no Partial. Errors: LUO_EBUG outside of the frame; LUO_ENOMEM.
 * Owner: arena. Cost: O(devices * boxes). */
luo_status luo_owned_segments(luo_arena *arena, const luo_ann *ann, const luo_shape *shape,
                              int32_t device, const luo_frame *frame, luo_copy_segments *out,
                              luo_err *err);
/* The same as regions (one span per dimension), for those who write a tensor to a file. */
luo_status luo_owned_boxes(luo_arena *arena, const luo_ann *ann, const luo_shape *shape,
                           int32_t device, const luo_region **out, int32_t *n, luo_err *err);
#endif
