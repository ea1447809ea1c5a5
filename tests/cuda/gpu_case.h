/* gpu_case.h: arrays of a device for one random case of a kernel's test.
 *
 * Only the plain runtime API: the same test runs on the stand-in (make check-more) and on a GPU
 * (make check-gpu).
 *
 *   gpu_case c;
 *   gpu_case_begin(&c, "gelu", seed);
 *   c.shift = coin ? 0 : 3;                       where arrays begin, see below
 *   gpu_case_array *x = gpu_case_in(&c, GPU_BF16, n, 3), *y = gpu_case_out(&c, GPU_BF16, n, false);
 *   gpu_case_run(&c, call, &ctx);                 call(ctx, stream) enqueues; it is called twice
 *   gpu_case_check(&c, y, want, NULL, 8);         want: n doubles, of a slow twin in f64
 *   gpu_case_end(&c);
 *
 * The twin reads x->x[i], what the device holds as doubles, so that rounding of inputs is no error.
 * Every pass starts from the same values: outputs are NaN unless they are added to, work memory is
 * NaN in the first pass and other garbage in the second; both must write the same bits, leave what
 * is beside every array as it was, and change no input. */
#ifndef LUO_TESTS_CUDA_GPU_CASE_H
#define LUO_TESTS_CUDA_GPU_CASE_H
#include <cuda_runtime_api.h>
#include <math.h>

#include "exec/cuda/kernels/kernels.h"
#include "tests/check_main.h"
#include "tests/prop/prop.h"

enum { GPU_CASE_ARRAYS = 24, GPU_CASE_GUARD = 256 };

typedef enum gpu_case_use { GPU_CASE_IN, GPU_CASE_OUT, GPU_CASE_KEEPS, GPU_CASE_WORK } gpu_case_use;

typedef struct gpu_case_array {
    void *at;         /* on the device */
    int64_t n, bytes; /* elements; bytes in all */
    gpu_type type;    /* meaningless for ints, bytes and work */
    bool typed;       /* x and got are there */
    gpu_case_use use;
    double *x, *got;    /* before and after the calls; got: of outputs */
    unsigned char *raw; /* before, as bytes; after, for what is no input */
    char *base;         /* device memory with guards; at = base + GPU_CASE_GUARD + shift */
} gpu_case_array;

typedef struct gpu_case {
    const char *name;
    uint64_t seed;
    luo_rng rng;
    int64_t shift; /* 0: every typed array begins at 256 bytes; else the k-th is (shift + k) % 8
                      elements off */
    int32_t n;
    gpu_case_array a[GPU_CASE_ARRAYS];
    cudaStream_t stream;
} gpu_case;

#define GPU_CASE_OK(call)                                                                          \
    do {                                                                                           \
        const cudaError_t code_ = (call);                                                          \
        ck_assert_msg(code_ == cudaSuccess, "%s: %s", #call, cudaGetErrorString(code_));           \
    } while (0)

/* ---- numbers as the device holds them ---- */

static inline uint16_t gpu_case_to_bf16(double v)
{
    const float f = (float)v;
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if (f != f) return 0x7fff;
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16); /* to nearest, ties to even */
}

static inline double gpu_case_of_bf16(uint16_t b)
{
    const uint32_t u = (uint32_t)b << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return (double)f;
}

static inline double gpu_case_rounded(gpu_type t, double v)
{
    return t == GPU_BF16 ? gpu_case_of_bf16(gpu_case_to_bf16(v)) : (double)(float)v;
}

static inline int64_t gpu_case_elem(gpu_type t)
{
    return t == GPU_BF16 ? 2 : 4;
}

static inline double gpu_case_get(gpu_type t, const unsigned char *raw, int64_t i)
{
    uint16_t b;
    float f;
    if (t == GPU_BF16) {
        memcpy(&b, raw + i * 2, sizeof b);
        return gpu_case_of_bf16(b);
    }
    memcpy(&f, raw + i * 4, sizeof f);
    return (double)f;
}

static inline void gpu_case_set(gpu_case_array *a, int64_t i, double v)
{
    a->x[i] = gpu_case_rounded(a->type, v);
    const uint16_t b = gpu_case_to_bf16(v);
    const float f = (float)v;
    if (a->type == GPU_BF16)
        memcpy(a->raw + i * 2, &b, sizeof b);
    else
        memcpy(a->raw + i * 4, &f, sizeof f);
}

/* ---- a case and its arrays ---- */

static inline void gpu_case_begin(gpu_case *c, const char *name, uint64_t seed)
{
    memset(c, 0, sizeof *c);
    c->name = name;
    c->seed = seed;
    c->rng = luo_rng_stream(seed, name);
    GPU_CASE_OK(cudaStreamCreate(&c->stream));
}

static inline void gpu_case_end(gpu_case *c)
{
    for (int32_t i = 0; i < c->n; i++) {
        free(c->a[i].x), free(c->a[i].got), free(c->a[i].raw);
        GPU_CASE_OK(cudaFree(c->a[i].base));
    }
    GPU_CASE_OK(cudaStreamDestroy(c->stream));
}

static inline int64_t gpu_case_draw(gpu_case *c, int64_t lo, int64_t hi)
{
    return lo + luo_rng_pick(&c->rng, hi - lo + 1);
}

static inline bool gpu_case_coin(gpu_case *c)
{
    return luo_rng_pick(&c->rng, 2) == 1;
}

static inline gpu_case_array *gpu_case_new(gpu_case *c, int64_t bytes, int64_t shift,
                                           gpu_case_use use)
{
    ck_assert_int_lt(c->n, GPU_CASE_ARRAYS);
    gpu_case_array *a = &c->a[c->n++];
    *a = (gpu_case_array){.bytes = bytes, .use = use};
    ck_assert_ptr_nonnull(a->raw = calloc(1, (size_t)bytes + 8));
    void *base;
    GPU_CASE_OK(cudaMalloc(&base, (size_t)(bytes + 2 * GPU_CASE_GUARD + shift)));
    a->base = base;
    a->at = a->base + GPU_CASE_GUARD + shift;
    return a;
}

static inline gpu_case_array *gpu_case_typed(gpu_case *c, gpu_type type, int64_t n, double size,
                                             gpu_case_use use)
{
    const int64_t elem = gpu_case_elem(type), shift = c->shift ? (c->shift + c->n) % 8 : 0;
    gpu_case_array *a = gpu_case_new(c, n * elem, shift * elem, use);
    a->n = n, a->type = type, a->typed = true;
    ck_assert_ptr_nonnull(a->x = calloc((size_t)n + 1, sizeof *a->x));
    ck_assert_ptr_nonnull(a->got = calloc((size_t)n + 1, sizeof *a->got));
    for (int64_t i = 0; i < n; i++)
        gpu_case_set(a, i, use == GPU_CASE_OUT ? (double)NAN : size * luo_rng_normal(&c->rng));
    return a;
}

/* Normal numbers times size. gpu_case_set changes them before the run. */
static inline gpu_case_array *gpu_case_in(gpu_case *c, gpu_type type, int64_t n, double size)
{
    return gpu_case_typed(c, type, n, size, GPU_CASE_IN);
}

/* keeps: its first values (normal numbers) count, as it is added to or changed. */
static inline gpu_case_array *gpu_case_out(gpu_case *c, gpu_type type, int64_t n, bool keeps)
{
    return gpu_case_typed(c, type, n, 1, keeps ? GPU_CASE_KEEPS : GPU_CASE_OUT);
}

/* Ids, tables, blocks: copied as they are. */
static inline gpu_case_array *gpu_case_bytes(gpu_case *c, int64_t bytes, const void *values)
{
    gpu_case_array *a = gpu_case_new(c, bytes, 0, GPU_CASE_IN);
    memcpy(a->raw, values, (size_t)bytes);
    return a;
}

/* The same, written by the kernel: compared by the test alone (a->raw after the run). */
static inline gpu_case_array *gpu_case_bytes_out(gpu_case *c, int64_t bytes, const void *values)
{
    gpu_case_array *a = gpu_case_bytes(c, bytes, values);
    a->use = GPU_CASE_KEEPS;
    return a;
}

static inline gpu_case_array *gpu_case_work(gpu_case *c, size_t bytes)
{
    return gpu_case_new(c, (int64_t)bytes, 0, GPU_CASE_WORK);
}

static inline gpu_array gpu_case_arg(const gpu_case_array *a)
{
    return (gpu_array){a ? a->at : NULL, a ? a->type : GPU_F32};
}

/* ---- running ---- */

static inline int64_t gpu_case_span(const gpu_case_array *a) /* with guards */
{
    return (char *)a->at - a->base + a->bytes + GPU_CASE_GUARD;
}

static inline void gpu_case_load(gpu_case_array *a, int pass)
{
    const int64_t span = gpu_case_span(a);
    unsigned char *image = malloc((size_t)span);
    ck_assert_ptr_nonnull(image);
    memset(image, 0xa5, (size_t)span);
    unsigned char *in = image + ((char *)a->at - a->base);
    if (a->use == GPU_CASE_WORK)
        memset(in, pass == 0 ? 0xff : 0x5a, (size_t)a->bytes);
    else
        memcpy(in, a->raw, (size_t)a->bytes);
    GPU_CASE_OK(cudaMemcpy(a->base, image, (size_t)span, cudaMemcpyHostToDevice));
    free(image);
}

/* The bytes of the array now; the guards are looked at. Owner: the caller frees. */
static inline unsigned char *gpu_case_fetch(const gpu_case *c, const gpu_case_array *a)
{
    const int64_t span = gpu_case_span(a), first = (char *)a->at - a->base;
    unsigned char *image = malloc((size_t)span);
    ck_assert_ptr_nonnull(image);
    GPU_CASE_OK(cudaMemcpy(image, a->base, (size_t)span, cudaMemcpyDeviceToHost));
    for (int64_t i = 0; i < span; i++)
        if ((i < first || i >= first + a->bytes) && image[i] != 0xa5)
            ck_abort_msg("%s seed %llu: wrote %lld bytes from the begin of array %d of %lld bytes",
                         c->name, (unsigned long long)c->seed, (long long)(i - first),
                         (int)(a - c->a), (long long)a->bytes);
    memmove(image, image + first, (size_t)a->bytes);
    return image;
}

typedef cudaError_t (*gpu_case_call)(void *ctx, cudaStream_t stream);

static inline void gpu_case_pass(gpu_case *c, gpu_case_call call, void *ctx, int pass,
                                 unsigned char **kept)
{
    for (int32_t i = 0; i < c->n; i++) gpu_case_load(&c->a[i], pass);
    GPU_CASE_OK(call(ctx, c->stream));
    GPU_CASE_OK(cudaStreamSynchronize(c->stream));
    GPU_CASE_OK(cudaGetLastError());
    for (int32_t i = 0; i < c->n; i++) {
        const gpu_case_array *a = &c->a[i];
        unsigned char *now = gpu_case_fetch(c, a);
        const unsigned char *want = a->use == GPU_CASE_IN ? a->raw : pass ? kept[i] : now;
        if (a->use != GPU_CASE_WORK && memcmp(now, want, (size_t)a->bytes) != 0)
            ck_abort_msg("%s seed %llu: array %d %s", c->name, (unsigned long long)c->seed, i,
                         a->use == GPU_CASE_IN ? "is an input and was changed"
                                               : "has other bits after the second call");
        if (pass) free(kept[i]);
        kept[i] = now;
    }
}

/* Calls twice, each time from the same values; see the head of this file. */
static inline void gpu_case_run(gpu_case *c, gpu_case_call call, void *ctx)
{
    unsigned char *kept[GPU_CASE_ARRAYS];
    for (int pass = 0; pass < 2; pass++) gpu_case_pass(c, call, ctx, pass, kept);
    for (int32_t i = 0; i < c->n; i++) {
        gpu_case_array *a = &c->a[i];
        for (int64_t j = 0; a->typed && j < a->n; j++)
            a->got[j] = gpu_case_get(a->type, kept[i], j);
        if (a->use != GPU_CASE_IN && !a->typed) memcpy(a->raw, kept[i], (size_t)a->bytes);
        free(kept[i]);
    }
}

/* ---- comparing ---- */

/* |got - want| <= e |want| + roundings 2^-24 mass, where e is 2^-8 for bf16 and 2^-23 for f32: one
 * unit for writing the result, and so many roundings in f32 of terms whose absolute values sum to
 * mass[i]. mass NULL: the largest |want|, at least 1 (inputs are of size 1, and a result may be
 * small by cancellation). NaN and infinities must be met as they are. */
static inline void gpu_case_check(const gpu_case *c, const gpu_case_array *a, const double *want,
                                  const double *mass, double roundings)
{
    double top = 1;
    for (int64_t i = 0; i < a->n; i++)
        if (isfinite(want[i])) top = fmax(top, fabs(want[i]));
    for (int64_t i = 0; i < a->n; i++) {
        const double got = a->got[i], error = fabs(got - want[i]);
        const double bound = ldexp(fabs(want[i]), a->type == GPU_BF16 ? -8 : -23) +
                             ldexp(roundings * (mass ? mass[i] : top), -24);
        const bool same = got == want[i] || (isnan(got) && isnan(want[i]));
        if (!same && !(error <= bound))
            ck_abort_msg("%s seed %llu: array %d[%lld of %lld] is %.9g; should be %.9g (error "
                         "%.3g, bound %.3g)",
                         c->name, (unsigned long long)c->seed, (int)(a - c->a), (long long)i,
                         (long long)a->n, got, want[i], error, bound);
    }
}

/* got is want to the last bit, a NaN any NaN. One assertion for all: libcheck writes about each. */
static inline void gpu_case_exact(const gpu_case *c, const gpu_case_array *a, const double *want)
{
    for (int64_t i = 0; i < a->n; i++)
        if (a->got[i] != want[i] && !(isnan(a->got[i]) && isnan(want[i])))
            ck_abort_msg("%s seed %llu: array %d[%lld of %lld] is %.9g; should be %.9g", c->name,
                         (unsigned long long)c->seed, (int)(a - c->a), (long long)i,
                         (long long)a->n, a->got[i], want[i]);
}
#endif
