/* prop_eigen.c: one eigenvalue = LAPACK's of all. Matrices are dense, of few different numbers (so
 * that eigenvalues coincide and columns are zero already), and means of groups as
 * core/sync/mixing.c has them. */
#include "core/sync/eigen.h"

#include <math.h>

#include "tests/check_main.h"
#include "tests/prop/prop.h"

void openblas_set_num_threads(int n);
/* LAPACK's as Fortran has it; lengths of texts come last (a convention of gfortran's). */
void dsyev_(const char *jobz, const char *uplo, const int *n, double *a, const int *lda, double *w,
            double *work, const int *lwork, int *info, size_t jobz_n, size_t uplo_n);

enum { MOST = 40, KINDS = 3 };
static int met[KINDS], coincide; /* coincide: neighbours that differ by roundings alone */

static double draw(luo_rng *rng)
{
    return (double)(luo_rng_next(rng) >> 11) * 0x1p-53;
}

/* The mean of what groups of two or more change: identity less 1/size within a group. */
static void add_group(luo_rng *rng, double *a, int n)
{
    bool in[MOST];
    int size = 0;
    for (int i = 0; i < n; i++) size += in[i] = luo_rng_next(rng) % 3 == 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) a[i * n + k] += in[i] && in[k] ? 1.0 / size : i == k;
}

static void fill(luo_rng *rng, int kind, double *a, int n)
{
    for (int i = 0; i < n * n; i++) a[i] = 0;
    for (int g = 0; kind == 2 && g < 6; g++) add_group(rng, a, n);
    for (int i = 0; kind < 2 && i < n; i++)
        for (int k = 0; k <= i; k++)
            a[i * n + k] = a[k * n + i] =
                kind == 0 ? 200 * draw(rng) - 100 : (double)(luo_rng_next(rng) % 4 == 0);
}

START_TEST(as_lapack)
{
    openblas_set_num_threads(1);
    LUO_PROP_FOR(seed, 600)
    {
        luo_rng rng = luo_rng_seed(seed);
        const int n = 1 + (int)(luo_rng_next(&rng) % MOST), kind = (int)(seed % KINDS);
        const int lwork = 8 * MOST;
        double a[MOST * MOST], copy[MOST * MOST], all[MOST], work[8 * MOST], scratch[4 * MOST];
        int info = 0;
        fill(&rng, kind, a, n);
        for (int i = 0; i < n * n; i++) copy[i] = a[i];
        dsyev_("N", "U", &n, copy, &n, all, work, &lwork, &info, 1, 1);
        ck_assert_int_eq(info, 0);
        const double most = fmax(fabs(all[0]), fabs(all[n - 1]));
        for (int index = 0; index < n; index++) {
            for (int i = 0; i < n * n; i++) copy[i] = a[i];
            const double got = luo_eigen_symmetric(copy, n, index, scratch);
            ck_assert_msg(fabs(got - all[index]) <= 1e-14 * (n + 1) * most,
                          "LUO_SEED=%llu LUO_CASES=1: %d of %d: %.17g against %.17g",
                          (unsigned long long)seed, index, n, got, all[index]);
            coincide += index > 0 && all[index] - all[index - 1] <= 1e-12 * most;
        }
        met[kind] += n > 2;
    }
    for (int i = 0; i < KINDS; i++)
        ck_assert_int_gt(met[i] + (luo_prop_env("LUO_CASES", 0) > 0), 0);
    ck_assert_int_gt(coincide + (luo_prop_env("LUO_CASES", 0) > 0), 0);
}
END_TEST

/* Without roundings: what one can say by hand. */
START_TEST(by_hand)
{
    double scratch[16], one[] = {-3}, swap[] = {0, 1, 1, 0}, zero[9] = {0};
    ck_assert_double_eq(luo_eigen_symmetric(one, 1, 0, scratch), -3);
    ck_assert_double_eq_tol(luo_eigen_symmetric(swap, 2, 0, scratch), -1, 1e-15);
    ck_assert_double_eq(luo_eigen_symmetric(zero, 3, 1, scratch), 0);
    double path[] = {2, 9, 9, -1, 2, 9, 0, -1, 2}; /* above the diagonal nothing is read */
    ck_assert_double_eq_tol(luo_eigen_symmetric(path, 3, 2, scratch), 2 + sqrt(2), 1e-15);
}
END_TEST
LUO_SUITE("eigen", LUO_T(as_lapack), LUO_T(by_hand))
