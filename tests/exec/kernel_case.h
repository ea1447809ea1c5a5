/* kernel_case.h: one kernel against its slow twin on one random shape.
 *
 * A row of the table draws a shape and its arrays (make), calls the kernel (call), and says in
 * plain loops over doubles what it should have written (twin). The driver runs every row in both
 * precisions; twice each, at different alignments, and the bits must be the same; results start
 * as NaN unless they are added to; what lies beside every array must stay as it was.
 */
#ifndef LUO_TESTS_EXEC_KERNEL_CASE_H
#define LUO_TESTS_EXEC_KERNEL_CASE_H
#include <cblas.h>
#include <float.h>
#include <math.h>

#include "exec/bind/kernels.h"
#include "tests/check_main.h"
#include "tests/prop/prop.h"

enum { CASE_ARRAYS = 12, CASE_DIMS = 8, CASE_INTS = 1024, CASE_GUARD = 64 };

typedef struct array {
    int64_t n;
    bool out, keeps; /* written; added to or changed, so that its first values count */
    bool scratch;    /* written, but nobody reads it afterwards */
    double *x;       /* values before the call, representable in the precision */
    double *want;    /* of an output: what the twin says */
    char *base, *raw;
} array;

typedef struct kase {
    const luo_kernels *k;
    luo_rng rng;
    int64_t dim[CASE_DIMS];
    bool flag[CASE_DIMS];
    double real[CASE_DIMS];
    int32_t ints[2][CASE_INTS]; /* ids, labels, positions, kv_of, starts */
    int narrays;
    array a[CASE_ARRAYS];
    double returned, returned_want; /* by a kernel that returns a number */
} kase;

typedef struct kernel_row {
    const char *name;
    void (*make)(kase *c), (*call)(kase *c), (*twin)(kase *c);
    double ulps; /* allowed error, in units of the precision's epsilon times the largest result, or
                    1: inputs are of size 1, and results may be small by cancellation */
} kernel_row;

static inline int64_t draw(kase *c, int64_t lo, int64_t hi)
{
    return lo + luo_rng_pick(&c->rng, hi - lo + 1);
}

static inline int64_t least_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline bool coin(kase *c)
{
    return luo_rng_pick(&c->rng, 2) == 1;
}

static inline double rounded(const luo_kernels *k, double v)
{
    return k->elem == sizeof(float) ? (double)(float)v : v;
}

static inline array *new_array(kase *c, int64_t n, double size)
{
    ck_assert_int_lt(c->narrays, CASE_ARRAYS);
    array *a = &c->a[c->narrays++];
    *a = (array){.n = n};
    a->x = malloc(sizeof *a->x * (size_t)(n + 1));
    a->want = malloc(sizeof *a->want * (size_t)(n + 1));
    a->base = malloc((size_t)n * c->k->elem + 4 * CASE_GUARD);
    ck_assert(a->x && a->want && a->base);
    for (int64_t i = 0; i < n; i++) a->x[i] = rounded(c->k, size * luo_rng_normal(&c->rng));
    return a;
}

static inline void in(kase *c, int64_t n)
{
    new_array(c, n, 1);
}

static inline void out(kase *c, int64_t n, bool keeps)
{
    array *a = new_array(c, n, 1);
    a->out = true;
    a->keeps = keeps;
}

static inline void array_load(const luo_kernels *k, array *a, int64_t shift)
{
    const size_t bytes = (size_t)a->n * k->elem;
    memset(a->base, 0xa5, bytes + 4 * CASE_GUARD);
    const uintptr_t at = (uintptr_t)a->base + 2 * CASE_GUARD;
    a->raw = a->base + 2 * CASE_GUARD - at % CASE_GUARD + (size_t)shift * k->elem;
    for (int64_t i = 0; i < a->n; i++) {
        const double v = a->out && !a->keeps ? (double)NAN : a->x[i];
        if (k->elem == sizeof(float))
            ((float *)(void *)a->raw)[i] = (float)v;
        else
            ((double *)(void *)a->raw)[i] = v;
    }
}

static inline double array_at(const luo_kernels *k, const array *a, int64_t i)
{
    return k->elem == sizeof(float) ? (double)((float *)(void *)a->raw)[i]
                                    : ((double *)(void *)a->raw)[i];
}

static inline void array_check_guards(const kase *c, const array *a, const char *name)
{
    const size_t bytes = (size_t)a->n * c->k->elem;
    for (const char *p = a->base; p < a->base + bytes + 4 * CASE_GUARD; p++)
        if ((p < a->raw || p >= a->raw + bytes) && *(const unsigned char *)p != 0xa5)
            ck_abort_msg("%s: wrote outside an array", name);
}

static inline void array_check(const kase *c, const array *a, const kernel_row *r, uint64_t seed)
{
    const double eps = c->k->elem == sizeof(float) ? FLT_EPSILON : DBL_EPSILON;
    double top = 1;
    for (int64_t i = 0; i < a->n; i++) top = fmax(top, fabs(a->want[i]));
    for (int64_t i = 0; i < a->n; i++) {
        const double got = array_at(c->k, a, i), error = fabs(got - a->want[i]);
        if (!(error <= r->ulps * eps * top))
            ck_abort_msg("%s %s seed %llu: array %d[%lld] is %.17g; should be %.17g (%.1f of %.1f)",
                         r->name, c->k->name, (unsigned long long)seed, (int)(a - c->a),
                         (long long)i, got, a->want[i], error / (eps * top), r->ulps);
    }
}

static inline void case_pass(kase *c, const kernel_row *r, bool first, int64_t shift)
{
    static char *kept[CASE_ARRAYS];
    for (int i = 0; i < c->narrays; i++) array_load(c->k, &c->a[i], (shift + i) % 5);
    r->call(c);
    const double returned = c->returned;
    for (int i = 0; i < c->narrays; i++) {
        array *a = &c->a[i];
        const size_t bytes = (size_t)a->n * c->k->elem;
        array_check_guards(c, a, r->name);
        if (first) {
            ck_assert_ptr_nonnull(kept[i] = malloc(bytes + 1));
            memcpy(kept[i], a->raw, bytes);
        } else {
            if (memcmp(kept[i], a->raw, bytes) != 0)
                ck_abort_msg("%s %s: other bits at the second call", r->name, c->k->name);
            free(kept[i]);
        }
        for (int64_t j = 0; !a->out && j < a->n; j++) /* inputs are left alone */
            if (array_at(c->k, a, j) != a->x[j]) ck_abort_msg("%s changed an input", r->name);
    }
    static double before;
    if (first)
        before = returned;
    else
        ck_assert_msg(before == returned, "%s: another value at the second call", r->name);
}

static inline void case_run(const luo_kernels *k, const kernel_row *r, uint64_t seed)
{
    static kase c;
    memset(&c, 0, sizeof c);
    c.k = k;
    c.rng = luo_rng_seed(seed);
    r->make(&c);
    const int64_t shift = luo_rng_pick(&c.rng, 5);
    case_pass(&c, r, true, shift);
    case_pass(&c, r, false, shift + 1);
    for (int i = 0; i < c.narrays; i++)
        for (int64_t j = 0; j < c.a[i].n; j++)
            c.a[i].want[j] = c.a[i].out && !c.a[i].keeps ? (double)NAN : c.a[i].x[j];
    r->twin(&c);
    for (int i = 0; i < c.narrays; i++)
        if (c.a[i].out && !c.a[i].scratch) array_check(&c, &c.a[i], r, seed);
    if (c.returned != c.returned_want)
        ck_assert_msg(fabs(c.returned - c.returned_want) <= 1e-12 * fabs(c.returned_want),
                      "%s returned %.17g; should be %.17g", r->name, c.returned, c.returned_want);
    for (int i = 0; i < c.narrays; i++) free(c.a[i].x), free(c.a[i].want), free(c.a[i].base);
}

static inline void case_both(const kernel_row *r, uint64_t cases)
{
    openblas_set_num_threads(1);
    LUO_PROP_FOR(seed, cases)
    {
        case_run(&luo_kernels_f32, r, seed);
        case_run(&luo_kernels_f64, r, seed);
    }
}
#endif
