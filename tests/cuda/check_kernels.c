/* check_kernels.c: rows, norms, embeddings, rotary positions and pointwise kernels of
 * the CUDA executor against the host's in f64. Bounds: gpu_case_check. */
#include "tests/cuda/kernel_case.h"

#define ARG(i) gpu_case_arg(k->a[i])
#define X(i) k->a[i]->x

/* ---- bias ---- */
static cudaError_t bias_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_bias(s, k->t, k->h, ARG(0), ARG(1), ARG(2));
}
static void bias_run(kase *k)
{
    k->h = kase_width(k, 0), k->t = kase_rows(k, k->h, 300);
    k->a[0] = kase_in(k, k->t * k->h, 1), k->a[1] = kase_in(k, k->h, 1);
    k->a[2] = kase_out(k, k->t * k->h, false);
    gpu_case_run(&k->c, bias_call, k);
    double *want = kase_room(k, k->t * k->h, NULL);
    twin->bias(k->t, k->h, X(0), X(1), want);
    gpu_case_check(&k->c, k->a[2], want, NULL, 0);
}

static cudaError_t bias_dw_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_bias_dw(s, k->t, k->h, ARG(0), k->add, ARG(1), k->work->at);
}
/* A result of n columns, summed over rows of `of` [t x n] in magnitude. */
static double *column_mass(kase *k, int64_t t, int64_t n, const double *of, const double *first)
{
    double *abs = kase_mass(k, t * n, of), *sum = kase_room(k, n, NULL);
    twin->bias_dw(t, n, abs, false, sum);
    for (int64_t j = 0; first && j < n; j++) sum[j] += fabs(first[j]);
    return sum;
}
static void bias_dw_run(kase *k)
{
    k->h = kase_width(k, 0), k->t = kase_rows(k, k->h, 3000);
    k->a[0] = kase_in(k, k->t * k->h, 1), k->a[1] = kase_out(k, k->h, k->add);
    k->work = gpu_case_work(&k->c, gpu_columns_work(k->t, k->h));
    gpu_case_run(&k->c, bias_dw_call, k);
    double *want = kase_room(k, k->h, X(1));
    twin->bias_dw(k->t, k->h, X(0), k->add, want);
    const double *mass = column_mass(k, k->t, k->h, X(0), k->add ? X(1) : NULL);
    gpu_case_check(&k->c, k->a[1], want, mass, 4);
}

/* ---- embedding ---- */
static cudaError_t embedding_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_embedding(s, k->t, k->h, k->lo, k->hi, 1.5f, k->ids->at, ARG(0), ARG(1));
}
static void embedding_shape(kase *k)
{
    k->h = kase_width(k, 1), k->t = kase_rows(k, k->h, 400);
    k->lo = gpu_case_draw(&k->c, 0, 6), k->hi = k->lo + gpu_case_draw(&k->c, 0, 20);
    k->ids = kase_ids(k, k->lo > 2 ? k->lo - 2 : 0, k->hi + 2);
}
static void embedding_run(kase *k)
{
    embedding_shape(k);
    k->a[0] = kase_in(k, (k->hi - k->lo) * k->h, 1), k->a[1] = kase_out(k, k->t * k->h, false);
    gpu_case_run(&k->c, embedding_call, k);
    double *want = kase_room(k, k->t * k->h, NULL);
    twin->embedding(k->t, k->h, k->lo, k->hi, 1.5, kase_ints(k->ids), X(0), want);
    gpu_case_check(&k->c, k->a[1], want, NULL, 0);
}

static cudaError_t embedding_dw_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_embedding_dw(s, k->t, k->h, k->lo, k->hi, 1.5f, k->ids->at, k->order->at, ARG(0),
                            k->add, ARG(1));
}
static const int32_t *sort_ids;
static int by_id(const void *a, const void *b)
{
    const int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    if (sort_ids[i] != sort_ids[j]) return sort_ids[i] < sort_ids[j] ? -1 : 1;
    return i < j ? -1 : i > j;
}
static void embedding_dw_run(kase *k)
{
    embedding_shape(k);
    int32_t *order = calloc((size_t)k->t + 1, sizeof *order);
    ck_assert_ptr_nonnull(order);
    for (int32_t i = 0; i < k->t; i++) order[i] = i;
    sort_ids = kase_ints(k->ids);
    qsort(order, (size_t)k->t, sizeof *order, by_id);
    k->order = gpu_case_bytes(&k->c, k->t * (int64_t)sizeof *order, order);
    free(order);
    const int64_t n = (k->hi - k->lo) * k->h;
    k->a[0] = kase_in(k, k->t * k->h, 1), k->a[1] = kase_out(k, n, k->add);
    gpu_case_run(&k->c, embedding_dw_call, k);
    double *want = kase_room(k, n, X(1)), *mass = kase_mass(k, n, X(1));
    const double *abs = kase_mass(k, k->t * k->h, X(0));
    twin->embedding_dw(k->t, k->h, k->lo, k->hi, 1.5, kase_ints(k->ids), X(0), k->add, want);
    twin->embedding_dw(k->t, k->h, k->lo, k->hi, 1.5, kase_ints(k->ids), abs, k->add, mass);
    gpu_case_check(&k->c, k->a[1], want, mass, 4);
}

/* ---- norms; flag: LayerNorm ---- */
static cudaError_t norm_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_norm(s, k->t, k->h, (float)k->eps, 0.5f, ARG(0), ARG(1), ARG(2), ARG(3));
}
/* Two or three numbers may be almost equal, and their variance lost; one has 1/sqrt(eps) as scale.
 */
static void norm_shape(kase *k)
{
    k->h = gpu_case_draw(&k->c, 0, 11) == 0 ? 1 : kase_width(k, 5);
    k->t = kase_rows(k, k->h, 600);
    k->eps = (double)(float)(k->h == 1 ? 1 : k->eps);
}
static void norm_run(kase *k)
{
    norm_shape(k);
    k->a[0] = kase_in(k, k->t * k->h, 1), k->a[1] = kase_in(k, k->h, 1);
    k->a[2] = k->flag ? kase_in(k, k->h, 1) : NULL;
    k->a[3] = kase_out(k, k->t * k->h, false);
    gpu_case_run(&k->c, norm_call, k);
    double *want = kase_room(k, k->t * k->h, NULL);
    twin->norm(k->t, k->h, k->eps, 0.5, X(0), X(1), k->flag ? X(2) : NULL, want);
    gpu_case_check(&k->c, k->a[3], want, NULL, 8);
}

static cudaError_t norm_dx_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_norm_dx(s, k->t, k->h, (float)k->eps, 0.5f, k->flag, ARG(0), ARG(1), ARG(2), ARG(3));
}
static void norm_dx_run(kase *k)
{
    norm_shape(k);
    k->a[0] = kase_in(k, k->t * k->h, 1), k->a[1] = kase_in(k, k->t * k->h, 1);
    k->a[2] = kase_in(k, k->h, 1), k->a[3] = kase_out(k, k->t * k->h, false);
    gpu_case_run(&k->c, norm_dx_call, k);
    double *want = kase_room(k, k->t * k->h, NULL);
    twin->norm_dx(k->t, k->h, k->eps, 0.5, k->flag, X(0), X(1), X(2), want);
    gpu_case_check(&k->c, k->a[3], want, NULL, 16);
}

static cudaError_t norm_dw_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_norm_dw(s, k->t, k->h, (float)k->eps, ARG(0), ARG(1), k->add, ARG(2), ARG(3),
                       k->work->at);
}
static void norm_dw_run(kase *k)
{
    norm_shape(k);
    k->a[0] = kase_in(k, k->t * k->h, 1), k->a[1] = kase_in(k, k->t * k->h, 1);
    k->a[2] = kase_out(k, k->h, k->add), k->a[3] = k->flag ? kase_out(k, k->h, k->add) : NULL;
    k->work = gpu_case_work(&k->c, gpu_columns_work(k->t, 2 * k->h));
    gpu_case_run(&k->c, norm_dw_call, k);
    double *dw = kase_room(k, k->h, X(2)), *db = k->flag ? kase_room(k, k->h, X(3)) : NULL;
    twin->norm_dw(k->t, k->h, k->eps, X(0), X(1), k->add, dw, db);
    /* terms are |dy| (|xhat| + 1): xhat is known to a rounding of x and of the mean */
    double *ones = kase_room(k, k->h, NULL), *term = kase_room(k, k->t * k->h, NULL);
    for (int64_t j = 0; j < k->h; j++) ones[j] = 1;
    double *none = kase_room(k, k->h, NULL);
    twin->norm(k->t, k->h, k->eps, 0, X(1), ones, k->flag ? none : NULL, term);
    for (int64_t i = 0; i < k->t * k->h; i++) term[i] = fabs(X(0)[i]) * (fabs(term[i]) + 1);
    const double *mass = column_mass(k, k->t, k->h, term, k->add ? X(2) : NULL);
    gpu_case_check(&k->c, k->a[2], dw, mass, 8);
    if (!k->flag) return;
    mass = column_mass(k, k->t, k->h, X(0), k->add ? X(3) : NULL);
    gpu_case_check(&k->c, k->a[3], db, mass, 4);
}

/* ---- rope: t tokens, lo heads, h head size; flag: back ---- */
static luo_turns turns_of(const kase *k)
{
    return (luo_turns){
        .base = k->eps, .factor = k->add ? 1.25 : 0, .turned = k->add ? (int)(k->h / 4 * 2) : 0};
}
static cudaError_t rope_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_rope(s, k->t, k->lo, k->h, turns_of(k), k->flag, k->ids->at, ARG(0), ARG(1));
}
static void rope_run(kase *k)
{
    const int64_t halves[] = {1, 5, 16, 32, 64, 128, 77}; /* more than one block of sines */
    k->h = 2 * halves[gpu_case_draw(&k->c, 0, 6)], k->lo = gpu_case_draw(&k->c, 0, 5);
    k->t = gpu_case_draw(&k->c, 0, 30), k->eps = k->add ? 10000 : 500000;
    if (gpu_case_draw(&k->c, 0, 20) == 0)
        k->t = 5000, k->lo = 1, k->h = 2; /* tokens share blocks */
    k->ids = kase_ids(k, 0, k->flag ? 9000 : 130000);
    const int64_t n = k->t * k->lo * k->h;
    k->a[0] = kase_in(k, n, 1), k->a[1] = kase_out(k, n, false);
    gpu_case_run(&k->c, rope_call, k);
    double *want = kase_room(k, n, NULL), *mass = kase_room(k, n, NULL);
    twin->rope(k->t, k->lo, k->h, turns_of(k), k->flag, kase_ints(k->ids), X(0), want);
    const int64_t half = turns_of(k).turned > 0 ? turns_of(k).turned / 2 : k->h / 2;
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = i % k->h, other = at < half ? half : at < 2 * half ? -half : 0;
        mass[i] = fabs(X(0)[i]) + fabs(X(0)[i + other]);
    }
    gpu_case_check(&k->c, k->a[1], want, mass, 5);
}

/* ---- latent attention: t tokens, lo heads of h elements, of which the last hi turn ---- */
static void latent_shape(kase *k)
{
    const int64_t halves[] = {1, 5, 8, 32, 64, 77}; /* more than one block of sines */
    k->hi = 2 * halves[gpu_case_draw(&k->c, 0, 5)], k->lo = gpu_case_draw(&k->c, 1, 5);
    k->h = k->hi + (k->flag ? 8 * gpu_case_draw(&k->c, 0, 9) : gpu_case_draw(&k->c, 0, 40));
    k->t = gpu_case_draw(&k->c, 0, 20), k->eps = k->add ? 10000 : 500000;
    k->ids = kase_ids(k, 0, 9000);
}
static cudaError_t latent_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_latent(s, k->t, k->lo, k->h, k->hi, turns_of(k), k->ids->at, ARG(0), ARG(1), ARG(2),
                      ARG(3), ARG(4));
}
/* How large the two terms are that element i of a head of such a row is made of. */
static double latent_mass(const kase *k, const double *head, int64_t i)
{
    const int64_t kept = k->h - k->hi, half = k->hi / 2;
    if (i < kept) return 0; /* copied */
    return fabs(head[i]) + fabs(head[i < kept + half ? i + half : i - half]);
}
static void latent_run(kase *k)
{
    latent_shape(k);
    const int64_t n = k->t * k->lo, kept = k->h - k->hi;
    k->a[0] = kase_in(k, n * k->h, 1), k->a[1] = kase_in(k, n * kept, 1);
    k->a[2] = kase_in(k, k->t * k->hi, 1);
    for (int i = 3; i < 5; i++) k->a[i] = kase_out(k, n * k->h, false);
    gpu_case_run(&k->c, latent_call, k);
    double *yq = kase_room(k, n * k->h, NULL), *yk = kase_room(k, n * k->h, NULL);
    twin->latent(k->t, k->lo, k->h, k->hi, turns_of(k), kase_ints(k->ids), X(0), X(1), X(2), yq,
                 yk);
    double *mq = kase_room(k, n * k->h, NULL), *mk = kase_room(k, n * k->h, NULL);
    for (int64_t i = 0; i < n * k->h; i++) {
        const int64_t row = i / k->h;
        mq[i] = latent_mass(k, X(0) + row * k->h, i % k->h);
        mk[i] = latent_mass(k, X(2) + row / k->lo * k->hi - kept, i % k->h);
    }
    gpu_case_check(&k->c, k->a[3], yq, mq, 5);
    gpu_case_check(&k->c, k->a[4], yk, mk, 5);
}
static cudaError_t latent_dx_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_latent_dx(s, k->t, k->lo, k->h, k->hi, turns_of(k), k->ids->at, ARG(0), ARG(1),
                         ARG(2), ARG(3), ARG(4));
}
static void latent_dx_run(kase *k)
{
    latent_shape(k);
    const int64_t n = k->t * k->lo, kept = k->h - k->hi;
    for (int i = 0; i < 2; i++) k->a[i] = kase_in(k, n * k->h, 1);
    k->a[2] = kase_out(k, n * k->h, false), k->a[3] = kase_out(k, n * kept, false);
    k->a[4] = kase_out(k, k->t * k->hi, false);
    gpu_case_run(&k->c, latent_dx_call, k);
    double *dq = kase_room(k, n * k->h, NULL), *dk = kase_room(k, n * kept, NULL);
    double *shared = kase_room(k, k->t * k->hi, NULL), *mass = kase_room(k, n * k->h, NULL);
    twin->latent_dx(k->t, k->lo, k->h, k->hi, turns_of(k), kase_ints(k->ids), X(0), X(1), dq, dk,
                    shared);
    for (int64_t i = 0; i < n * k->h; i++)
        mass[i] = latent_mass(k, X(0) + i / k->h * k->h, i % k->h);
    double *sums = kase_room(k, k->t * k->hi, NULL);
    for (int64_t i = 0; i < n * k->h; i++)
        if (i % k->h >= kept)
            sums[i / (k->h * k->lo) * k->hi + i % k->h - kept] +=
                latent_mass(k, X(1) + i / k->h * k->h, i % k->h);
    gpu_case_check(&k->c, k->a[2], dq, mass, 5);
    gpu_case_check(&k->c, k->a[3], dk, NULL, 0);
    gpu_case_check(&k->c, k->a[4], shared, sums, 5 + (double)k->lo);
}

/* ---- pointwise; t elements ---- */
static void pointwise_shape(kase *k)
{
    k->t = gpu_case_coin(&k->c) ? gpu_case_draw(&k->c, 0, 600) : gpu_case_draw(&k->c, 4000, 9000);
}
static cudaError_t swiglu_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_swiglu(s, k->t, ARG(0), ARG(1), ARG(2), ARG(3));
}
static void swiglu_run(kase *k)
{
    pointwise_shape(k);
    for (int i = 0; i < 2; i++) k->a[i] = kase_in(k, k->t, 8);
    for (int i = 2; i < 4; i++) k->a[i] = kase_out(k, k->t, false);
    if (k->t > 0) gpu_case_set(k->a[0], 0, k->flag ? 0 : -90); /* exp ends in no normal number */
    gpu_case_run(&k->c, swiglu_call, k);
    double *y = kase_room(k, k->t, NULL), *silu = kase_room(k, k->t, NULL);
    twin->swiglu(k->t, X(0), X(1), y, silu);
    gpu_case_check(&k->c, k->a[2], y, NULL, 4);
    gpu_case_check(&k->c, k->a[3], silu, NULL, 4);
}
static cudaError_t swiglu_dx_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_swiglu_dx(s, k->t, ARG(0), ARG(1), ARG(2), ARG(3), ARG(4), ARG(5));
}
static void swiglu_dx_run(kase *k)
{
    pointwise_shape(k);
    for (int i = 0; i < 4; i++) k->a[i] = kase_in(k, k->t, 4); /* dy, gate, up, silu */
    for (int i = 4; i < 6; i++) k->a[i] = kase_out(k, k->t, false);
    for (int64_t i = 0; i < k->t; i++) gpu_case_set(k->a[3], i, X(1)[i] / (1 + exp(-X(1)[i])));
    gpu_case_run(&k->c, swiglu_dx_call, k);
    double *dgate = kase_room(k, k->t, NULL), *dup = kase_room(k, k->t, NULL);
    twin->swiglu_dx(k->t, X(0), X(1), X(2), X(3), dgate, dup);
    gpu_case_check(&k->c, k->a[4], dgate, NULL, 8);
    gpu_case_check(&k->c, k->a[5], dup, NULL, 2);
}
static cudaError_t gelu_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_gelu(s, k->t, ARG(0), ARG(1));
}
static void gelu_run(kase *k)
{
    pointwise_shape(k);
    k->a[0] = kase_in(k, k->t, 3), k->a[1] = kase_out(k, k->t, false);
    gpu_case_run(&k->c, gelu_call, k);
    double *want = kase_room(k, k->t, NULL);
    twin->gelu(k->t, X(0), want);
    gpu_case_check(&k->c, k->a[1], want, NULL, 4);
}
static cudaError_t gelu_dx_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_gelu_dx(s, k->t, ARG(0), ARG(1), ARG(2));
}
static void gelu_dx_run(kase *k)
{
    pointwise_shape(k);
    for (int i = 0; i < 2; i++) k->a[i] = kase_in(k, k->t, 3);
    k->a[2] = kase_out(k, k->t, false);
    gpu_case_run(&k->c, gelu_dx_call, k);
    double *want = kase_room(k, k->t, NULL);
    twin->gelu_dx(k->t, X(0), X(1), want);
    gpu_case_check(&k->c, k->a[2], want, NULL, 8);
}
static cudaError_t geglu_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_geglu(s, k->t, ARG(0), ARG(1), ARG(2), ARG(3));
}
static void geglu_run(kase *k)
{
    pointwise_shape(k);
    for (int i = 0; i < 2; i++) k->a[i] = kase_in(k, k->t, 8);
    for (int i = 2; i < 4; i++) k->a[i] = kase_out(k, k->t, false);
    if (k->t > 0) gpu_case_set(k->a[0], 0, k->flag ? 0 : -90); /* exp ends in no normal number */
    gpu_case_run(&k->c, geglu_call, k);
    double *y = kase_room(k, k->t, NULL), *silu = kase_room(k, k->t, NULL);
    twin->geglu(k->t, X(0), X(1), y, silu);
    gpu_case_check(&k->c, k->a[2], y, NULL, 4);
    gpu_case_check(&k->c, k->a[3], silu, NULL, 4);
}
static cudaError_t geglu_dx_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_geglu_dx(s, k->t, ARG(0), ARG(1), ARG(2), ARG(3), ARG(4), ARG(5));
}
static void geglu_dx_run(kase *k)
{
    pointwise_shape(k);
    for (int i = 0; i < 4; i++) k->a[i] = kase_in(k, k->t, 4); /* dy, gate, up, silu */
    for (int i = 4; i < 6; i++) k->a[i] = kase_out(k, k->t, false);
    for (int64_t i = 0; i < k->t; i++) gpu_case_set(k->a[3], i, X(1)[i] / (1 + exp(-X(1)[i])));
    gpu_case_run(&k->c, geglu_dx_call, k);
    double *dgate = kase_room(k, k->t, NULL), *dup = kase_room(k, k->t, NULL);
    twin->geglu_dx(k->t, X(0), X(1), X(2), X(3), dgate, dup);
    gpu_case_check(&k->c, k->a[4], dgate, NULL, 8);
    gpu_case_check(&k->c, k->a[5], dup, NULL, 2);
}
static cudaError_t gelu_erf_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_gelu_erf(s, k->t, ARG(0), ARG(1));
}
static void gelu_erf_run(kase *k)
{
    pointwise_shape(k);
    k->a[0] = kase_in(k, k->t, 3), k->a[1] = kase_out(k, k->t, false);
    gpu_case_run(&k->c, gelu_erf_call, k);
    double *want = kase_room(k, k->t, NULL);
    twin->gelu_erf(k->t, X(0), want);
    gpu_case_check(&k->c, k->a[1], want, NULL, 4);
}
static cudaError_t gelu_erf_dx_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_gelu_erf_dx(s, k->t, ARG(0), ARG(1), ARG(2));
}
static void gelu_erf_dx_run(kase *k)
{
    pointwise_shape(k);
    for (int i = 0; i < 2; i++) k->a[i] = kase_in(k, k->t, 3);
    k->a[2] = kase_out(k, k->t, false);
    gpu_case_run(&k->c, gelu_erf_dx_call, k);
    double *want = kase_room(k, k->t, NULL);
    twin->gelu_erf_dx(k->t, X(0), X(1), want);
    gpu_case_check(&k->c, k->a[2], want, NULL, 8);
}
static cudaError_t relu_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_relu(s, k->t, ARG(0), ARG(1));
}
static void relu_run(kase *k)
{
    pointwise_shape(k);
    k->a[0] = kase_in(k, k->t, 3), k->a[1] = kase_out(k, k->t, false);
    gpu_case_run(&k->c, relu_call, k);
    double *want = kase_room(k, k->t, NULL);
    twin->relu(k->t, X(0), want);
    gpu_case_check(&k->c, k->a[1], want, NULL, 4);
}
static cudaError_t relu_dx_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_relu_dx(s, k->t, ARG(0), ARG(1), ARG(2));
}
static void relu_dx_run(kase *k)
{
    pointwise_shape(k);
    for (int i = 0; i < 2; i++) k->a[i] = kase_in(k, k->t, 3);
    k->a[2] = kase_out(k, k->t, false);
    gpu_case_run(&k->c, relu_dx_call, k);
    double *want = kase_room(k, k->t, NULL);
    twin->relu_dx(k->t, X(0), X(1), want);
    gpu_case_check(&k->c, k->a[2], want, NULL, 8);
}

/* ---- add: a[0] = sum of a[0 or 1]..a[h]; flag: a[0] is the first summand ---- */
static cudaError_t add_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    gpu_array x[8];
    for (int64_t i = 0; i < k->h; i++) x[i] = ARG(i == 0 && k->flag ? 0 : i + 1);
    return gpu_add(s, k->t, (int32_t)k->h, x, ARG(0));
}
/* Accumulators in f32 are the commonest: f32 += bf16. */
static void add_run(kase *k)
{
    pointwise_shape(k);
    k->h = gpu_case_coin(&k->c) ? gpu_case_draw(&k->c, 1, 2) : gpu_case_draw(&k->c, 3, 8);
    const bool accumulates = k->types == 2 && gpu_case_coin(&k->c);
    k->a[0] = gpu_case_out(&k->c, accumulates ? GPU_F32 : kase_type(k), k->t, k->flag);
    for (int64_t i = 1; i <= k->h; i++)
        k->a[i] = gpu_case_in(&k->c, accumulates ? GPU_BF16 : kase_type(k), k->t, 1);
    gpu_case_run(&k->c, add_call, k);
    const void *x[8], *abs[8];
    for (int64_t i = 0; i < k->h; i++) {
        x[i] = X(i == 0 && k->flag ? 0 : i + 1);
        abs[i] = kase_mass(k, k->t, x[i]);
    }
    double *want = kase_room(k, k->t, NULL), *mass = kase_room(k, k->t, NULL);
    twin->add(k->t, (int32_t)k->h, x, want);
    twin->add(k->t, (int32_t)k->h, abs, mass);
    gpu_case_check(&k->c, k->a[0], want, mass, (double)k->h - 1);
}
static cudaError_t convert_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_convert(s, k->t, ARG(0), ARG(1));
}
static void convert_run(kase *k)
{
    pointwise_shape(k);
    k->a[0] = kase_in(k, k->t, 1);
    k->a[1] = gpu_case_out(&k->c, k->flag ? GPU_F32 : GPU_BF16, k->t, false);
    if (k->t > 0) gpu_case_set(k->a[0], 0, k->add ? (double)NAN : -INFINITY);
    gpu_case_run(&k->c, convert_call, k);
    double *want = kase_room(k, k->t, NULL);
    for (int64_t i = 0; i < k->t; i++) want[i] = gpu_case_rounded(k->a[1]->type, X(0)[i]);
    gpu_case_exact(&k->c, k->a[1], want);
}

#define ROW(name, cases)                                                                           \
    {                                                                                              \
#name, name##_run, cases                                                                   \
    }
static const kernel_row rows[] = {
    ROW(bias, 40),        ROW(bias_dw, 60),   ROW(embedding, 40), ROW(embedding_dw, 80),
    ROW(norm, 80),        ROW(norm_dx, 80),   ROW(norm_dw, 80),   ROW(rope, 60),
    ROW(swiglu, 30),      ROW(geglu, 30),     ROW(geglu_dx, 30),  ROW(gelu_erf, 30),
    ROW(gelu_erf_dx, 30), ROW(relu, 30),      ROW(relu_dx, 30),   ROW(gelu, 30),
    ROW(gelu_dx, 30),     ROW(add, 60),       ROW(swiglu_dx, 30), ROW(convert, 30),
    ROW(latent, 60),      ROW(latent_dx, 60),
};
KERNEL_TEST(rows)
LUO_MAIN("cuda.kernels", kernel_is_its_twin, LUO_ROWS(rows))
