/* segments.h: lists of strips while they grow; for exec/bind/route*.c and exec/bind/owned.c
 * only. */
#ifndef LUO_EXEC_BIND_SEGMENTS_H
#define LUO_EXEC_BIND_SEGMENTS_H
#include "exec/bind/route.h"

typedef struct luo_strip_list {
    luo_strip *at;
    int32_t n, cap;
    int64_t elements;
} luo_strip_list;

/* Appends where the cells of part lie in the frame, counted from element `base`; what follows the
 * last strip directly makes it longer. Errors: LUO_EBUG part is not inside; LUO_ENOMEM. */
luo_status luo_strips_add(luo_arena *arena, luo_strip_list *l, const luo_frame *f, int64_t base,
                          const luo_region *part, luo_err *err);
static inline luo_strips luo_strips_of(const luo_strip_list *l)
{
    return (luo_strips){l->n, l->at, l->elements};
}
#endif
