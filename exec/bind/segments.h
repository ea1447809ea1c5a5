/* segments.h: lists of segments while they grow; for exec/bind/route*.c and exec/bind/owned.c
 * only. */
#ifndef LUO_EXEC_BIND_SEGMENTS_H
#define LUO_EXEC_BIND_SEGMENTS_H
#include "exec/bind/route.h"

typedef struct luo_copy_segment_list {
    luo_copy_segment *at;
    int32_t n, cap;
    int64_t elements;
} luo_copy_segment_list;

/* Appends where the cells of part lie in the frame, counted from element `base`; what follows the
 * last segment directly makes it longer. Errors: LUO_EBUG part is not inside; LUO_ENOMEM. */
luo_status luo_segments_add(luo_arena *arena, luo_copy_segment_list *list, const luo_frame *frame,
                            int64_t base, const luo_region *part, luo_err *err);
static inline luo_copy_segments luo_segments_of(const luo_copy_segment_list *list)
{
    return (luo_copy_segments){list->n, list->at, list->elements};
}
#endif
