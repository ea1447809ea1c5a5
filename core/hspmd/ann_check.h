/* ann_check.h: the checks shared by the parser and luo_ann_check. Private to hspmd. */
#ifndef LUO_CORE_HSPMD_ANN_CHECK_H
#define LUO_CORE_HSPMD_ANN_CHECK_H
#include "core/hspmd/ann.h"

/* All checks that need no text and no tensor. h_given: h stands in the text, so that -3 is a wrong
 * key and not "none"; n_hshare: length of the top share list as written (0: none). */
luo_status luo_ann_check_as(const luo_ann *ann, bool h_given, int64_t n_hshare, luo_err *err);
#endif
