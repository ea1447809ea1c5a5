/* op.h: what the files of op times share; for core/cost only. */
#ifndef LUO_CORE_COST_OP_H
#define LUO_CORE_COST_OP_H
#include "core/cost/cost.h"

/* Measured time of exactly these sizes. */
bool luo_op_time_find(const luo_profile *profile, const char *op, luo_dtype dtype, int64_t m,
                      int64_t n, int64_t k, double *seconds);
/* beta*W. Errors: E1. */
luo_status luo_op_stream_bytes_per_s(const luo_profile *profile, double *out, luo_err *err);
#endif
