/* cpu_fit.h: constants of a CPU profile from measured rows (docs/calibration.md, for
 * core/cost/cpu.h).
 */
#ifndef LUO_CORE_COST_FIT_CPU_FIT_H
#define LUO_CORE_COST_FIT_CPU_FIT_H
#include "core/cost/cpu.h"

typedef struct luo_cpu_fit {
    double peak_flops; /* of the fastest product, or what larger ones would reach by the fit, up to
                          twice that; where the rows do not tell, that */
    int32_t products;  /* rows that gemm_* and memory_ratio were fitted on; 0: they are not known */
    double gemm_ratio, gemm_depth, memory_ratio;
    double error; /* mean |formula/measured - 1| over these rows */
    double attention_forward_ratio, attention_backward_ratio; /* 0: no rows */
} luo_cpu_fit;

/* Rows of one dtype. Products: the three coefficients of luo_cpu_gemm that make the squared
 * relative errors least, gemm_ratio and memory_ratio at most 1 and gemm_depth at least 0 (cyclic
 * coordinate descent; the problem is convex). Attention: the median rate over the peak.
 * bytes_per_s: of streaming (W). Pre: bytes_per_s > 0. Errors: LUO_ENOMEM. Cost: O(rows * sweeps).
 */
luo_status luo_cpu_fit_rows(const luo_op_time *rows, int32_t n, luo_dtype dtype, double bytes_per_s,
                            luo_cpu_fit *out, luo_err *err);
#endif
