/* write_plan.h: plans as files (docs/formats.md#luoshuplan1). */
#ifndef LUO_CORE_IO_WRITE_PLAN_H
#define LUO_CORE_IO_WRITE_PLAN_H
#include "core/base/str.h"
#include "core/plan/plan.h"

/* The file text of a plan, one stage a line, defaults left out: read again it has the same hash. */
void luo_plan_json(luo_str *text, const luo_plan *plan);
luo_status luo_write_plan(const char *path, const luo_plan *plan, luo_err *err);
#endif
