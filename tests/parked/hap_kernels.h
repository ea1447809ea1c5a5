/* hap_kernels.h: what one device computes of operations by letters, plainly, for tests of the
 * planner `hap`; gradients are derivatives by complex steps (the imaginary part of f(x + ih) over
 * h, exact to the last bits). */
#ifndef LUO_TESTS_PARKED_HAP_KERNELS_H
#define LUO_TESTS_PARKED_HAP_KERNELS_H
#include <complex.h>

#include "core/plan/hap_graph/rules.h"

typedef double complex luo_hap_number;

typedef struct luo_hap_array {
    int32_t rank;
    int64_t dim[LUO_HAP_RANK], n;
    luo_hap_number *at;
} luo_hap_array;

typedef struct luo_hap_place { /* what a device knows beside its operands */
    bool once;                 /* it adds complete summands to partial sums */
    int64_t lo;                /* first row of its piece of a table or of logits */
    luo_hap_array lse;         /* of the loss: log of the sum of exponentials, by token */
} luo_hap_place;

/* All zero. */
luo_hap_array luo_hap_kernels_array(luo_arena *a, int32_t rank, const int64_t *dim);
/* out[0..nout) of the operands that a device holds. */
void luo_hap_kernels_forward(luo_arena *a, const luo_hap_op *op, const luo_hap_rule *rule,
                             const luo_hap_array *in, const luo_hap_place *at, luo_hap_array *out);
/* Of operand j; in is as it was afterwards. */
luo_hap_array luo_hap_kernels_gradient(luo_arena *a, const luo_hap_op *op, const luo_hap_rule *rule,
                                       luo_hap_array *in, const luo_hap_place *at,
                                       const luo_hap_array *dout, int32_t j);
/* Position in x of element `at` of the piece of dimension d that begins at lo. */
int64_t luo_hap_kernels_in_whole(const luo_hap_array *x, const luo_hap_array *piece, int32_t d,
                                 int64_t lo, int64_t at);
luo_hap_array luo_hap_kernels_log_sums(luo_arena *a, const luo_hap_array *x);
#endif
