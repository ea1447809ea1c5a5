/* kernel_case.h: one random case of one launcher of exec/cuda/kernels/kernels.h against the
 * host's kernels in f64.
 *
 * A row of a table makes the case: it draws a shape and arrays, runs the launcher (gpu_case_run),
 * lets the host work out from the same inputs what should be there, and compares. A case has all
 * its arrays in f32, all in bf16, or each in a type of its own; they begin at 16 bytes or not. */
#ifndef LUO_TESTS_CUDA_KERNEL_CASE_H
#define LUO_TESTS_CUDA_KERNEL_CASE_H
#include "exec/bind/kernels.h"
#include "tests/cuda/gpu_case.h"

enum { KASE_ARRAYS = 12, KASE_ROOMS = 24 };

typedef struct kase {
    gpu_case c;
    int32_t types;        /* 0 f32, 1 bf16, 2 mixed */
    int64_t t, h, lo, hi; /* rows and columns; others as the kernel means them */
    bool add, flag;
    double eps;
    gpu_case_array *a[KASE_ARRAYS];
    gpu_case_array *ids, *order, *block, *work;
    double *room[KASE_ROOMS];
    int32_t nrooms;
} kase;

typedef struct kernel_row {
    const char *name;
    void (*run)(kase *k);
    uint64_t cases;
} kernel_row;

static const luo_kernels *const twin = &luo_kernels_f64;

static inline gpu_type kase_type(kase *k)
{
    const bool b = k->types == 1 || (k->types == 2 && gpu_case_coin(&k->c));
    return b ? GPU_BF16 : GPU_F32;
}

static inline gpu_case_array *kase_in(kase *k, int64_t n, double size)
{
    return gpu_case_in(&k->c, kase_type(k), n, size);
}

static inline gpu_case_array *kase_out(kase *k, int64_t n, bool keeps)
{
    return gpu_case_out(&k->c, kase_type(k), n, keeps);
}

static inline gpu_case_array *kase_f32(kase *k, int64_t n, double size)
{
    return gpu_case_in(&k->c, GPU_F32, n, size);
}

/* n doubles, freed with the case; as x, or 0. */
static inline double *kase_room(kase *k, int64_t n, const double *x)
{
    ck_assert_int_lt(k->nrooms, KASE_ROOMS);
    double *room = k->room[k->nrooms++] = calloc((size_t)n + 1, sizeof *room);
    ck_assert_ptr_nonnull(room);
    if (x) memcpy(room, x, (size_t)n * sizeof *room);
    return room;
}

/* |x|, freed with the case. */
static inline double *kase_mass(kase *k, int64_t n, const double *x)
{
    double *room = kase_room(k, n, x);
    for (int64_t i = 0; i < n; i++) room[i] = fabs(room[i]);
    return room;
}

/* Ids of a table of which rows lo..hi-1 lie here, some outside; with few different ones there are
 * long runs. */
static inline gpu_case_array *kase_ids(kase *k, int64_t lo, int64_t hi)
{
    int32_t *ids = calloc((size_t)k->t + 1, sizeof *ids);
    ck_assert_ptr_nonnull(ids);
    const int64_t few = gpu_case_coin(&k->c) ? 2 : hi - lo + 1;
    for (int64_t i = 0; i < k->t; i++) ids[i] = (int32_t)(lo + gpu_case_draw(&k->c, 0, few - 1));
    gpu_case_array *a = gpu_case_bytes(&k->c, k->t * (int64_t)sizeof *ids, ids);
    free(ids);
    return a;
}

static inline const int32_t *kase_ints(const gpu_case_array *a)
{
    return (const int32_t *)(const void *)a->raw;
}

/* How wide a row is: often whole units of 16 bytes, often not; sometimes wider than a block holds
 * at a time (256 threads x 4 units x 8 elements). */
static inline int64_t kase_width(kase *k, int64_t least)
{
    const int64_t what = gpu_case_draw(&k->c, 0, 9);
    if (what < 3) return gpu_case_draw(&k->c, least, 90);
    if (what < 6) return 8 * gpu_case_draw(&k->c, 1, 40);
    if (what < 8) return 8 * gpu_case_draw(&k->c, 60, 260);
    return what == 8 ? gpu_case_draw(&k->c, 300, 1500)
                     : 8 * gpu_case_draw(&k->c, 500, 1100) + gpu_case_draw(&k->c, 0, 1);
}

/* Rows, so that a case stays small. */
static inline int64_t kase_rows(kase *k, int64_t width, int64_t most)
{
    const int64_t fits = 60000 / (width + 1), n = fits < most ? fits : most;
    return gpu_case_draw(&k->c, 0, 9) == 0 ? gpu_case_draw(&k->c, 0, 1)
                                           : gpu_case_draw(&k->c, 1, n > 1 ? n : 1);
}

static inline void kase_run(const kernel_row *row, uint64_t seed)
{
    static kase k;
    memset(&k, 0, sizeof k);
    gpu_case_begin(&k.c, row->name, seed);
    k.types = (int32_t)gpu_case_draw(&k.c, 0, 2);
    k.c.shift = gpu_case_draw(&k.c, 0, 4) < 3 ? 0 : gpu_case_draw(&k.c, 1, 7);
    k.add = gpu_case_coin(&k.c), k.flag = gpu_case_coin(&k.c);
    k.eps = gpu_case_coin(&k.c) ? 1e-5 : 1e-2;
    row->run(&k);
    for (int32_t i = 0; i < k.nrooms; i++) free(k.room[i]);
    gpu_case_end(&k.c);
}

#define KERNEL_TEST(rows)                                                                          \
    START_TEST(kernel_is_its_twin)                                                                 \
    {                                                                                              \
        LUO_PROP_FOR(seed, rows[_i].cases) kase_run(&rows[_i], seed);                              \
    }                                                                                              \
    END_TEST
#endif
