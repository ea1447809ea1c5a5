/* suite_internal.h: what suite_case.c and suite_mixed.c share; for these two only. */
#ifndef LUO_CORE_PLAN_SUITE_SUITE_INTERNAL_H
#define LUO_CORE_PLAN_SUITE_SUITE_INTERNAL_H
#include "core/plan/suite/suite.h"

/* The sentence with the row's name before it, at its line of the file. Returns st. */
luo_status suite_refuse(const luo_suite_row *row, luo_status st, luo_err *err, const char *fmt, ...)
    LUO_PRINTF(4, 5);
/* Rows of several GPU types: cluster, profile and peak of the case. *scaled: a micro-batch was not
 * in the table of layer times, the nearest one stands for it. Pre: all else of the case is made.
 * Errors: LUO_EINPUT, LUO_EUNSUP, LUO_ENOMEM. */
luo_status luo_case_mixed(luo_arena *arena, luo_case *one, const luo_suite_kit *kit, bool *scaled,
                          luo_err *err);
#endif
