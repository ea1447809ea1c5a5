/* regroup.h: members side by side read as one. */
#ifndef LUO_CORE_HSPMD_REGROUP_H
#define LUO_CORE_HSPMD_REGROUP_H
#include "core/hspmd/ann.h"

/* a with members of `like`, which some of a's neighbouring members are together; the meaning is
 * the same. *out NULL: there is none. */
luo_status luo_regroup_like(luo_arena *arena, const luo_ann *ann, const luo_ann *like,
                            const luo_ann **out, luo_err *err);
/* n members that are copies (key -1) or summands (-2) of each other as one. *works: they are cut
 * alike, and the entry can stand in front. */
luo_status luo_regroup_join(luo_arena *arena, const luo_grp *group, int32_t n, int32_t key,
                            luo_grp *out, bool *works, luo_err *err);
#endif
