/* cpu.h: what an instruction costs a CPU rank: measured times of whole instructions, by
 * kind of operation, and a formula between and beyond them.
 *
 * A row of op_times is of an operation of the graph as the executor runs it: op is its kind
 * (core/graph/ops.inc), and
 *   matmul, matmul_dx, matmul_dw   m, n, k of its products together, as in the cost key
 *   attention, attention_dx        m tokens of a sequence (of a window: of one that has as many
 *                                  pairs), n heads times sequences, k head size
 *   others                         m elements that it reads and writes, n buffers read, k written;
 *                                  n = k = 0 of `add accumulate grad_norm update`
 * A kind without rows is costed by its key: products without tiles, attention, all
 * else by the bytes it streams. */
#ifndef LUO_CORE_COST_CPU_H
#define LUO_CORE_COST_CPU_H
#include "core/cost/cost.h"

typedef struct luo_cpu_size {
    int64_t m, n, k;
} luo_cpu_size;
/* kind: of the instruction's operation. Pre: COMPUTE or LOCAL. */
luo_cpu_size luo_cpu_size_of(const luo_role *role, const luo_instr *in, luo_op_kind kind);

/* A product on one thread: 2mn(k + gemm_depth)/(P*gemm_ratio) + e(mk + kn + 2mn)/(beta*W): nothing
 * is rounded up to tiles, and packing does not hide behind computing. Without launch_s. Cost: 20
 * ns. Errors: E1, E2. */
luo_status luo_cpu_gemm(const luo_profile *profile, luo_dtype dtype, const luo_gemm *gemm,
                        double *seconds, luo_err *err);

/* Seconds of an operation of the kind called `name` and that size, without launch_s. At a row of
 * its kind: the measured time. Between: of products and attention (causal) the formula times the
 * ratio of measured to formula at rows near in log size; of others linear in m, from nothing at 0,
 * and in proportion above. *known: false if there is no row for it and no formula; then 0. Cost:
 * O(rows). Errors: E1, E2. */
luo_status luo_cpu_seconds(const luo_profile *profile, luo_dtype dtype, const char *name,
                           luo_cpu_size size, double *seconds, bool *known, luo_err *err);
/* Seconds of a COMPUTE or LOCAL instruction at slowdown 1, launch_s included (what the interpreter
 * needs for it); by its key where luo_cpu_seconds knows nothing or ctx->ops is NULL. */
luo_status luo_cpu_instr(const luo_cost_ctx *ctx, const luo_profile *profile, const luo_role *role,
                         const luo_instr *in, double *seconds, luo_err *err);
#endif
