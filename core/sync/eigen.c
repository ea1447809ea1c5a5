#include "core/sync/eigen.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stddef.h>

/* ---- to three diagonals ---- */

/* out = a v, of the lower triangle of m rows that lie `apart` elements from each other. */
static void multiply_block(const double *a, size_t apart, int32_t m, const double *v, double *out)
{
    for (int32_t i = 0; i < m; i++) {
        const double *row = a + (size_t)i * apart;
        double sum = 0;
        for (int32_t k = 0; k < i; k++) {
            sum += row[k] * v[k];
            out[k] += row[k] * v[i];
        }
        out[i] = sum + row[i] * v[i];
    }
}

/* a - v w^T - w v^T, of the lower triangle. */
static void subtract_both(double *a, size_t apart, int32_t m, const double *v, const double *w)
{
    for (int32_t i = 0; i < m; i++) {
        double *row = a + (size_t)i * apart;
        for (int32_t k = 0; k <= i; k++) row[k] -= v[i] * w[k] + w[i] * v[k];
    }
}

static double dot_product(const double *v, const double *w, int32_t n)
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++) sum += v[i] * w[i];
    return sum;
}

/* A reflection turns v[0..m), a column below the diagonal, into (the returned number, 0, .., 0);
 * the m x m block behind the column gets it from both sides. w: scratch. */
static double reflect_block(double *block, size_t apart, int32_t m, double *v, double *w)
{
    const double rest = dot_product(v + 1, v + 1, m - 1), first = v[0];
    if (rest == 0) return first;
    const double norm = sqrt(first * first + rest), to = first > 0 ? -norm : norm;
    v[0] = first - to; /* both have one sign: nothing cancels */
    const double factor = 2 / (v[0] * v[0] + rest);
    multiply_block(block, apart, m, v, w);
    for (int32_t i = 0; i < m; i++) w[i] *= factor;
    const double along = factor / 2 * dot_product(w, v, m);
    for (int32_t i = 0; i < m; i++) w[i] -= along * v[i];
    subtract_both(block, apart, m, v, w);
    return to;
}

/* beside[i]: between rows i and i + 1. v, w: scratch of n. */
static void make_tridiagonal(double *a, int32_t n, double *diagonal, double *beside, double *v,
                             double *w)
{
    const size_t apart = (size_t)n;
    for (int32_t c = 0; c + 1 < n; c++) {
        const size_t next = (size_t)c + 1;
        for (int32_t i = c + 1; i < n; i++) v[i - c - 1] = a[(size_t)i * apart + (size_t)c];
        beside[c] = reflect_block(a + next * apart + next, apart, n - c - 1, v, w);
    }
    for (int32_t i = 0; i < n; i++) diagonal[i] = a[(size_t)i * apart + (size_t)i];
}

/* ---- halving ---- */

/* How many eigenvalues lie below x: as many as pivots of the matrix less x are negative. One that
 * is 0 is as good as a very small negative one. */
static int32_t count_below(const double *diagonal, const double *beside, int32_t n, double x,
                           double least)
{
    int32_t below = 0;
    double pivot = 1;
    for (int32_t i = 0; i < n; i++) {
        pivot = diagonal[i] - x - (i ? beside[i - 1] * beside[i - 1] / pivot : 0);
        if (fabs(pivot) < least) pivot = -least;
        below += pivot < 0;
    }
    return below;
}

static double bisect_eigenvalue(const double *diagonal, const double *beside, int32_t n,
                                int32_t index)
{
    double lo = INFINITY, hi = -INFINITY, most = 0; /* Gershgorin's circles hold all of them */
    for (int32_t i = 0; i < n; i++) {
        const double radius = (i ? fabs(beside[i - 1]) : 0) + (i + 1 < n ? fabs(beside[i]) : 0);
        lo = fmin(lo, diagonal[i] - radius);
        hi = fmax(hi, diagonal[i] + radius);
        most = fmax(most, radius * radius);
    }
    const double least = DBL_MIN * fmax(1, most);
    for (;;) {
        const double mid = lo + (hi - lo) / 2;
        if (!(lo < mid && mid < hi)) return mid;
        if (count_below(diagonal, beside, n, mid, least) > index)
            hi = mid;
        else
            lo = mid;
    }
}

double luo_eigen_symmetric(double *a, int32_t n, int32_t index, double *scratch)
{
    assert(0 <= index && index < n);
    double *diagonal = scratch, *beside = scratch + n;
    make_tridiagonal(a, n, diagonal, beside, scratch + 2 * n, scratch + 3 * n);
    return bisect_eigenvalue(diagonal, beside, n, index);
}
