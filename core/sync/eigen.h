/* eigen.h: one eigenvalue of a symmetric matrix.
 *
 * Of our own, since a BLAS takes threads and memory for them as soon as it is loaded, which every
 * start of the command would pay, and rounds as the processor's kernels do: these 100 lines give
 * the same bits on every machine. */
#ifndef LUO_CORE_SYNC_EIGEN_H
#define LUO_CORE_SYNC_EIGEN_H
#include <stdint.h>

/* Eigenvalue `index`, counted from the least, 0 first, to some roundings of the largest.
 * Shapes: a is n x n, row by row, of which the lower triangle is read and overwritten; scratch has
 *         4 n numbers.
 * Pre:    0 <= index < n; squares of the elements are finite.
 * Cost:   4/3 n^3 operations: a second at n = 1024.
 * Source: reflections to three diagonals, then halving by Sturm's count (Golub and Van Loan, Matrix
 *         Computations, 8.3.1 and 8.4.1).
 * See:    tests/prop/prop_eigen.c, which asks LAPACK. */
double luo_eigen_symmetric(double *a, int32_t n, int32_t index, double *scratch);
#endif
