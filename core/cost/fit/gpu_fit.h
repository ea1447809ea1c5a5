/* gpu_fit.h: constants of a GPU profile from measured rows
 * (docs/calibration.md#what-is-fitted-on-what, stages 1 to 3). Pure: the same rows and seed give
 * the same constants. */
#ifndef LUO_CORE_COST_FIT_GPU_FIT_H
#define LUO_CORE_COST_FIT_GPU_FIT_H
#include "core/cost/cost.h"

typedef enum luo_gpu_param {                 /* in the order of docs/formats.md */
                             LUO_GPU_LAUNCH, /* us */
                             LUO_GPU_GEMM_RATIO,
                             LUO_GPU_GEMM_DEPTH,
                             LUO_GPU_MEMORY_RATIO,
                             LUO_GPU_ATTENTION_F,
                             LUO_GPU_ATTENTION_B,
                             LUO_GPU_ATTENTION_DEPTH,
                             LUO_GPU_PARAMS
} luo_gpu_param;
const char *luo_gpu_param_name(luo_gpu_param p); /* as in profiles: "launch_us" */

typedef struct luo_gpu_rows { /* calibration rows alone; ops `gemm`, `attention_forward`,
                                 `attention_backward`, and `stream`: m bytes moved by one kernel */
    const luo_op_time *at;
    int32_t n;
} luo_gpu_rows;

typedef struct luo_gpu_base { /* what is known beforehand; 0: not known */
    double peak_flops[3];     /* by luo_dtype, of a datasheet */
    double memory_bytes_per_s, sm_count;
    double launch_s; /* measured with empty kernels; < 0: to be fitted */
} luo_gpu_base;

typedef struct luo_gpu_fit {
    double value[LUO_GPU_PARAMS];
    bool fitted[LUO_GPU_PARAMS]; /* rows told it; else it was given, or is the default */
    bool weak[LUO_GPU_PARAMS];   /* weakly determined */
    double peak_flops[3]; /* of the base; where that knows none: what makes the products of this
                             dtype come out with the same gemm_ratio. 0: no rows either */
    bool peak_measured[3]; /* that of the fastest product */
    bool peak_fitted[3];
    int32_t rows; /* that were used */
    double error; /* mean |ln(predicted/measured)| over the kinds of rows, each weighing the same */
} luo_gpu_fit;

/* The dtype with the most products decides gemm_ratio and gemm_depth; without a peak of it in base,
 * its peak is that of the fastest product. Errors: LUO_EINPUT no row of `gemm`, or
 * memory_bytes_per_s is 0 and there is no row of `stream`; LUO_ENOMEM. Cost: O(6000 * rows). */
luo_status luo_gpu_fit_rows(const luo_gpu_rows *rows, const luo_gpu_base *base, uint64_t seed,
                            luo_gpu_fit *out, luo_err *err);

typedef struct luo_net_row { /* a collective of several nodes */
    int coll;
    int32_t nodes, members; /* of a node */
    double share, node_bytes_per_s, bytes, seconds;
    double inside_s; /* what its nodes need inside, a bound from below; 0: not known */
} luo_net_row;
typedef struct luo_net_fitted {
    double net_ratio, net_half_bytes, net_step_s;
    double error; /* mean |ln(predicted/measured)| */
} luo_net_fitted;
/* Stage 1: net_ratio and net_half_bytes on a grid of 64 x 64 inside their bounds, for each of 12
 * steps from the default of net_step_us up to 1 ms; then one finer grid around the best; squares
 * of log times. Rows that never go in LL or LL128 leave the step at the least that they allow. Pre:
 * n > 0. Cost: O(2e5 * n). */
luo_net_fitted luo_fit_net(const luo_net_row *rows, int32_t n);

typedef struct luo_host_row { /* a step of one device: what its kernels take, and what it took */
    double gpu_s, kernels, step_s;
} luo_host_row;
/* Stage 3: host_launch_us and host_exponent by the pattern search over luo_cost_host. Pre: n > 0.
 * weak[2]: as luo_gpu_fit.weak. Returns the objective. */
double luo_fit_host(const luo_host_row *rows, int32_t n, uint64_t seed, double *host_launch_us,
                    double *host_exponent, bool weak[2]);
#endif
