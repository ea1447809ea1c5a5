/* check_kernels_step.c: loss, update, cells and time of the CUDA executor, against the
 * host's kernels in f64 or what is exact. Bounds: gpu_case_check. */
#include <float.h>

#include "tests/cuda/kernel_case.h"

#define ARG(i) gpu_case_arg(k->a[i])
#define X(i) k->a[i]->x
#define AT(i) k->a[i]->at

/* ---- the loss: t tokens, h logits of the vocabulary from lo on ---- */

static const gpu_step_block *block_of(const kase *k)
{
    return (const gpu_step_block *)k->block->at;
}
static int64_t tokens; /* columns that are no pads */
static void loss_shape(kase *k)
{
    k->h = kase_width(k, 0), k->t = kase_rows(k, k->h, 60);
    if (k->h == 0) k->t = gpu_case_draw(&k->c, 0, 40);
    k->lo = gpu_case_draw(&k->c, 0, 50), k->hi = k->lo + k->h;
    tokens = gpu_case_coin(&k->c) ? k->h : gpu_case_draw(&k->c, 0, k->h);
    k->ids = kase_ids(k, -1, k->hi + 5);
    const gpu_step_block b = {.scale = 1.0 / (double)gpu_case_draw(&k->c, 1, 9)};
    k->eps = b.scale;
    k->block = gpu_case_bytes(&k->c, sizeof b, &b);
}
static cudaError_t row_max_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_row_max(s, k->t, k->h, tokens, ARG(0), AT(1), 0);
}
static void row_max_run(kase *k)
{
    loss_shape(k);
    k->a[0] = kase_in(k, k->t * k->h, 9), k->a[1] = gpu_case_out(&k->c, GPU_F32, k->t, false);
    if (k->flag && k->t * k->h > 0) gpu_case_set(k->a[0], k->t * k->h - 1, (double)NAN);
    gpu_case_run(&k->c, row_max_call, k);
    double *want = kase_room(k, k->t, NULL);
    twin->row_max(k->t, k->h, tokens, X(0), want, 0);
    gpu_case_exact(&k->c, k->a[1], want);
}
static cudaError_t row_sum_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_row_sum(s, k->t, k->h, tokens, ARG(0), AT(1), AT(2), AT(3), 0);
}
static void row_sum_run(kase *k)
{
    loss_shape(k);
    const int64_t n = k->t * k->h;
    k->a[0] = kase_in(k, n, 9), k->a[1] = kase_f32(k, k->t, 1);
    k->a[2] = gpu_case_out(&k->c, GPU_F32, k->t, false);
    k->a[3] = gpu_case_out(&k->c, GPU_F32, n, false);
    double *max = kase_room(k, k->t, NULL);
    twin->row_max(k->t, k->h, tokens, X(0), max, 0);
    for (int64_t i = 0; i < k->t; i++)
        gpu_case_set(k->a[1], i, tokens ? max[i] + (k->flag ? 2 : 0) : 0);
    gpu_case_run(&k->c, row_sum_call, k);
    double *sum = kase_room(k, k->t, NULL), *want = kase_room(k, n, NULL);
    twin->row_sum(k->t, k->h, tokens, X(0), X(1), sum, want, 0);
    /* exp is known to a rounding of its argument, and its own */
    double *mass = kase_room(k, n, NULL), *all = kase_room(k, k->t, NULL);
    for (int64_t i = 0; i < n; i++) {
        mass[i] = want[i] * (2 + fabs(X(0)[i] - X(1)[i / k->h])) + (double)FLT_MIN * 0x1p24;
        all[i / k->h] += mass[i];
    }
    gpu_case_check(&k->c, k->a[3], want, mass, 2);
    gpu_case_check(&k->c, k->a[2], sum, all, 8);
}
static cudaError_t row_target_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_row_target(s, k->t, k->h, k->lo, ARG(0), k->ids->at, AT(1), 0);
}
static void row_target_run(kase *k)
{
    loss_shape(k);
    k->a[0] = kase_in(k, k->t * k->h, 1), k->a[1] = gpu_case_out(&k->c, GPU_F32, k->t, false);
    gpu_case_run(&k->c, row_target_call, k);
    double *want = kase_room(k, k->t, NULL);
    twin->row_target(k->t, k->h, k->lo, X(0), kase_ints(k->ids), want, 0);
    gpu_case_exact(&k->c, k->a[1], want);
}
static cudaError_t loss_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_loss(s, k->t, AT(0), AT(1), AT(2), k->ids->at, block_of(k), AT(3));
}
static void loss_run(kase *k)
{
    loss_shape(k);
    for (int i = 0; i < 3; i++) k->a[i] = kase_f32(k, k->t, 5); /* max, sum, target */
    k->a[3] = gpu_case_out(&k->c, GPU_F32, k->t, false);
    for (int64_t i = 0; i < k->t; i++) gpu_case_set(k->a[1], i, 1 + fabs(X(1)[i]));
    gpu_case_run(&k->c, loss_call, k);
    double *want = kase_room(k, k->t, NULL);
    twin->loss(k->t, X(0), X(1), X(2), kase_ints(k->ids), k->eps, want);
    gpu_case_check(&k->c, k->a[3], want, NULL, 0.001);
}
static cudaError_t loss_dx_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_loss_dx(s, k->t, k->h, k->lo, AT(0), AT(1), k->ids->at, block_of(k), ARG(2), NULL,
                       0);
}
static void loss_dx_run(kase *k)
{
    loss_shape(k);
    k->a[0] = kase_f32(k, k->t * k->h, 1), k->a[1] = kase_f32(k, k->t, 1);
    k->a[2] = kase_out(k, k->t * k->h, false);
    for (int64_t i = 0; i < k->t * k->h; i++) gpu_case_set(k->a[0], i, fabs(X(0)[i]));
    for (int64_t i = 0; i < k->t; i++) gpu_case_set(k->a[1], i, 5 + fabs(X(1)[i]));
    gpu_case_run(&k->c, loss_dx_call, k);
    double *want = kase_room(k, k->t * k->h, NULL);
    twin->loss_dx(k->t, k->h, k->lo, X(0), X(1), kase_ints(k->ids), k->eps, want, NULL, 0);
    gpu_case_check(&k->c, k->a[2], want, NULL, 2);
}
static cudaError_t sum_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_sum(s, k->t, AT(0), k->add, AT(1));
}
static void sum_run(kase *k)
{
    k->t = gpu_case_draw(&k->c, 0, 5000);
    k->a[0] = kase_f32(k, k->t, 1), k->a[1] = gpu_case_out(&k->c, GPU_F32, 1, k->add);
    gpu_case_run(&k->c, sum_call, k);
    double *want = kase_room(k, 1, X(1));
    twin->sum(k->t, X(0), k->add, want);
    gpu_case_check(&k->c, k->a[1], want, NULL, 0.001);
}

/* ---- the update: gradients and state in pieces of a few arrays ---- */

typedef struct pieces {
    kase *k;
    int64_t n, at[64], len[64];
    bool bf16, copies; /* gradients; weights beside the master */
    gpu_case_array *table, *answer, *squares;
} pieces;
enum { GRAD, MASTER, FIRST, SECOND, WEIGHT }; /* k->a[] */

/* Chunks of all sizes, with gaps between them that must stay as they are. */
static void cut_pieces(pieces *p)
{
    kase *k = p->k;
    p->n = gpu_case_draw(&k->c, 0, 5);
    p->bf16 = gpu_case_coin(&k->c), p->copies = gpu_case_coin(&k->c);
    const int64_t grain = gpu_case_coin(&k->c) ? 8 : 1;
    int64_t at = 0;
    for (int64_t i = 0; i < p->n; i++) {
        const int64_t most = gpu_case_draw(&k->c, 0, 7) == 0 ? GPU_CHUNK : 700;
        p->at[i] = at += grain * gpu_case_draw(&k->c, 0, 3);
        at += p->len[i] = gpu_case_draw(&k->c, 0, most);
        if (grain > 1) at = (at + 7) / 8 * 8;
    }
    k->t = at;
    k->a[GRAD] = gpu_case_in(&k->c, p->bf16 ? GPU_BF16 : GPU_F32, at, 1);
}
static char *in_array(const gpu_case_array *a, int64_t i)
{
    return (char *)a->at + i * gpu_case_elem(a->type);
}
static gpu_step_block adam_block(kase *k)
{
    const double step = (double)gpu_case_draw(&k->c, 1, 1000), beta1 = 0.9, beta2 = 0.95;
    return (gpu_step_block){.lr = 1e-2,
                            .beta1 = beta1,
                            .beta2 = beta2,
                            .eps = 1e-8,
                            .weight_decay = 0.1,
                            .correction1 = 1 - pow(beta1, step),
                            .correction2 = 1 - pow(beta2, step),
                            .clip_norm = 1,
                            .clip_eps = 1e-6,
                            .most_squares = (double)FLT_MAX / 2 / 19, /* rounds down in f32 */
                            .scale = step};
}
static cudaError_t norm_call(void *ctx, cudaStream_t s)
{
    const pieces *p = ctx;
    const kase *k = p->k;
    return gpu_grad_norm(s, p->n, p->table->at, p->bf16 ? GPU_BF16 : GPU_F32, block_of(k),
                         p->answer->at, k->work->at, p->squares->at);
}
static void grad_norm_run(kase *k)
{
    static pieces p;
    p = (pieces){.k = k};
    cut_pieces(&p);
    const gpu_step_block b = adam_block(k);
    const float most = (float)b.most_squares;
    gpu_norm_chunk chunk[64];
    const gpu_step_answer answer = {.drain = gpu_case_draw(&k->c, 0, 5) == 0};
    double want = 0;
    if (k->flag && k->t > 0) /* what is no number, and squares beyond f32 */
        gpu_case_set(k->a[GRAD], gpu_case_draw(&k->c, 0, k->t - 1), k->add ? (double)NAN : 1e30);
    for (int64_t i = 0; i < p.n; i++) {
        chunk[i] = (gpu_norm_chunk){in_array(k->a[GRAD], p.at[i]), p.len[i]};
        want += twin->sum_squares(p.len[i], X(GRAD) + p.at[i]);
    }
    if (!(want < (double)most)) want = (double)most;
    if (answer.drain) want = -INFINITY;
    p.table = gpu_case_bytes(&k->c, p.n * (int64_t)sizeof *chunk, chunk);
    p.answer = gpu_case_bytes(&k->c, sizeof answer, &answer);
    k->block = gpu_case_bytes(&k->c, sizeof b, &b);
    k->work = gpu_case_work(&k->c, (size_t)p.n * 8);
    p.squares = gpu_case_out(&k->c, GPU_F32, 1, false);
    gpu_case_run(&k->c, norm_call, &p);
    gpu_case_check(&k->c, p.squares, &want, NULL, 0.001);
    if (want == (double)most) ck_assert(p.squares->got[0] == (double)most);
}

static cudaError_t update_call(void *ctx, cudaStream_t s)
{
    const pieces *p = ctx;
    return gpu_update(s, p->n, p->table->at, p->bf16 ? GPU_BF16 : GPU_F32, p->squares->at,
                      block_of(p->k), p->answer->at);
}
static void update_arrays(pieces *p, gpu_update_chunk *chunk)
{
    kase *k = p->k;
    for (int i = MASTER; i <= SECOND; i++) k->a[i] = gpu_case_out(&k->c, GPU_F32, k->t, true);
    k->a[WEIGHT] = gpu_case_out(&k->c, GPU_BF16, p->copies ? k->t : 0, true);
    for (int64_t i = 0; i < k->t; i++) gpu_case_set(k->a[SECOND], i, fabs(X(SECOND)[i]));
    for (int64_t i = 0; i < p->n; i++)
        chunk[i] = (gpu_update_chunk){
            .grad = in_array(k->a[GRAD], p->at[i]),
            .master = (float *)(void *)in_array(k->a[MASTER], p->at[i]),
            .m = (float *)(void *)in_array(k->a[FIRST], p->at[i]),
            .v = (float *)(void *)in_array(k->a[SECOND], p->at[i]),
            .weight = p->copies && i % 3 < 2 ? in_array(k->a[WEIGHT], p->at[i]) : NULL,
            .n = (int32_t)p->len[i],
            .decays = (int32_t)(i % 2),
        };
    p->table = gpu_case_bytes(&k->c, p->n * (int64_t)sizeof *chunk, chunk);
}
/* What the host's AdamW makes of the pieces, and how large the terms of each number are. */
static void update_twin(const pieces *p, const gpu_step_block *b, double squares, double **want,
                        double **mass)
{
    const kase *k = p->k;
    luo_adam a = {.lr = b->lr, .beta1 = b->beta1, .beta2 = b->beta2, .eps = b->eps};
    a.step = (int64_t)b->scale; /* kept there */
    a.grad_scale = fmin(1, b->clip_norm / (sqrt(squares) + b->clip_eps));
    for (int64_t i = 0; i < p->n; i++) {
        const int64_t at = p->at[i];
        a.weight_decay = i % 2 ? b->weight_decay : 0;
        twin->adamw(p->len[i], &a, X(GRAD) + at, want[MASTER] + at, want[FIRST] + at,
                    want[SECOND] + at);
    }
    for (int64_t i = 0; i < k->t; i++) {
        const double g = fabs(X(GRAD)[i]) * a.grad_scale;
        mass[FIRST][i] = fabs(X(FIRST)[i]) + g, mass[SECOND][i] = want[SECOND][i];
        /* the quotient by a root of nearly nothing is what the first moment is off by */
        mass[MASTER][i] =
            fabs(X(MASTER)[i]) + b->lr / b->correction1 * mass[FIRST][i] /
                                     (sqrt(want[SECOND][i] / b->correction2) + b->eps);
    }
}
static void check_copies(const pieces *p, bool updated)
{
    const kase *k = p->k;
    if (!p->copies) return;
    double *want = kase_room(p->k, k->t, X(WEIGHT));
    for (int64_t i = 0; updated && i < p->n; i++)
        for (int64_t j = p->at[i]; i % 3 < 2 && j < p->at[i] + p->len[i]; j++)
            want[j] = gpu_case_rounded(GPU_BF16, k->a[MASTER]->got[j]);
    gpu_case_exact(&k->c, k->a[WEIGHT], want);
}
static void update_run(kase *k)
{
    static pieces p;
    gpu_update_chunk chunk[64];
    p = (pieces){.k = k};
    cut_pieces(&p);
    update_arrays(&p, chunk);
    const gpu_step_block b = adam_block(k);
    const double most = (double)(float)b.most_squares;
    const double odd[] = {0, 0.25, 400, -INFINITY, most, INFINITY, (double)NAN, most / 2};
    const int64_t which = gpu_case_draw(&k->c, 0, 11); /* an ordinary one more often */
    const double squares = which < 8 ? odd[which] : 2.5;
    const gpu_step_answer answer = {.outcome = 77, .drain = 5};
    k->block = gpu_case_bytes(&k->c, sizeof b, &b);
    p.answer = gpu_case_bytes_out(&k->c, sizeof answer, &answer);
    p.squares = gpu_case_in(&k->c, GPU_F32, 1, 0);
    gpu_case_set(p.squares, 0, squares);
    gpu_case_run(&k->c, update_call, &p);

    const bool updated = squares >= 0 && squares < most;
    double *want[4] = {NULL}, *mass[4] = {NULL};
    for (int i = MASTER; i <= SECOND; i++)
        want[i] = kase_room(k, k->t, X(i)), mass[i] = kase_room(k, k->t, NULL);
    if (updated) update_twin(&p, &b, squares, want, mass);
    for (int i = MASTER; i <= SECOND; i++)
        gpu_case_check(&k->c, k->a[i], want[i], mass[i], updated ? 6 : 0);
    check_copies(&p, updated);
    gpu_step_answer got;
    memcpy(&got, p.answer->raw, sizeof got);
    ck_assert_int_eq(got.outcome, updated       ? GPU_UPDATED
                                  : squares < 0 ? GPU_DRAINED
                                                : GPU_NOT_FINITE);
    ck_assert((double)got.squares == p.squares->x[0] || isnan(squares));
    ck_assert_int_eq(got.drain, 5);
}

static cudaError_t round_call(void *ctx, cudaStream_t s)
{
    const pieces *p = ctx;
    return gpu_round_weights(s, p->n, p->table->at);
}
static void round_weights_run(kase *k)
{
    static pieces p;
    gpu_update_chunk chunk[64];
    p = (pieces){.k = k};
    cut_pieces(&p);
    update_arrays(&p, chunk);
    gpu_case_run(&k->c, round_call, &p);
    for (int i = MASTER; i <= SECOND; i++) gpu_case_exact(&k->c, k->a[i], X(i));
    check_copies(&p, true);
}

/* ---- a step in parts: gradients of a[GRAD], sums in a[FIRST] ---- */

static cudaError_t sum_gradients_call(void *ctx, cudaStream_t s)
{
    const pieces *p = ctx;
    const kase *k = p->k;
    return gpu_sum_gradients(s, p->n, p->table->at, k->ids->at, AT(FIRST),
                             p->bf16 ? GPU_BF16 : GPU_F32, (gpu_sum_way)k->h, p->squares->at,
                             block_of(k), p->answer->at);
}
static void sum_gradients_run(kase *k)
{
    static pieces p;
    gpu_update_chunk chunk[64];
    int64_t at[64], sums = 0;
    p = (pieces){.k = k};
    cut_pieces(&p);
    k->h = gpu_case_draw(&k->c, GPU_SUM_FIRST, GPU_SUM_TAKE);
    const bool takes = k->h == GPU_SUM_TAKE;
    if (takes) k->a[GRAD] = gpu_case_out(&k->c, p.bf16 ? GPU_BF16 : GPU_F32, k->t, true);
    for (int64_t i = 0; i < p.n; i++) {
        at[i] = sums += k->flag ? 4 : gpu_case_draw(&k->c, 0, 3);
        sums += k->flag ? (p.len[i] + 3) / 4 * 4 : p.len[i];
        chunk[i] =
            (gpu_update_chunk){.grad = in_array(k->a[GRAD], p.at[i]), .n = (int32_t)p.len[i]};
    }
    k->a[FIRST] =
        takes ? gpu_case_in(&k->c, GPU_F32, sums, 1) : gpu_case_out(&k->c, GPU_F32, sums, true);
    p.table = gpu_case_bytes(&k->c, p.n * (int64_t)sizeof *chunk, chunk);
    k->ids = gpu_case_bytes(&k->c, p.n * (int64_t)sizeof *at, at);
    const gpu_step_block b = adam_block(k);
    const double odd[] = {-INFINITY, (double)(float)b.most_squares, (double)NAN};
    const int64_t which = gpu_case_draw(&k->c, 0, 8);
    const double squares = which < 3 ? odd[which] : 2.5;
    const gpu_step_answer answer = {.outcome = 77, .drain = 5};
    k->block = gpu_case_bytes(&k->c, sizeof b, &b);
    p.answer = gpu_case_bytes_out(&k->c, sizeof answer, &answer);
    p.squares = gpu_case_in(&k->c, GPU_F32, 1, 0);
    gpu_case_set(p.squares, 0, squares);
    gpu_case_run(&k->c, sum_gradients_call, &p);

    const int to = takes ? GRAD : FIRST;
    double *want = kase_room(k, takes ? k->t : sums, X(to)), *mass;
    mass = kase_room(k, takes ? k->t : sums, NULL);
    for (int64_t i = 0; (takes || which >= 3) && i < p.n; i++)
        for (int64_t j = 0; j < p.len[i]; j++) {
            const double g = X(GRAD)[p.at[i] + j], s = X(FIRST)[at[i] + j];
            double *w = &want[takes ? p.at[i] + j : at[i] + j];
            *w = k->h == GPU_SUM_FIRST ? g : s + g;
            mass[w - want] = k->h == GPU_SUM_FIRST ? 0 : fabs(s) + fabs(g);
        }
    gpu_case_check(&k->c, k->a[to], want, mass, 1);
    gpu_step_answer got;
    memcpy(&got, p.answer->raw, sizeof got);
    ck_assert_int_eq(got.outcome, takes        ? 77
                                  : which == 0 ? GPU_DRAINED
                                  : which < 3  ? GPU_NOT_FINITE
                                               : GPU_UPDATED);
    ck_assert(takes || which == 2 || (double)got.squares == squares);
    ck_assert_int_eq(got.drain, 5);
}

/* ---- cells ---- */

static cudaError_t copy_segments_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_copy_segments(s, (int32_t)k->h, k->block->at, k->t,
                             (int32_t)gpu_case_elem(k->a[0]->type), AT(0), AT(1));
}
/* Segments of a few to many elements, some empty; whole units of 16 bytes or not; what lies between
 * them in the output stays. */
static void copy_segments_run(kase *k)
{
    k->h =
        gpu_case_draw(&k->c, 0, 9) == 0 ? gpu_case_draw(&k->c, 0, 1) : gpu_case_draw(&k->c, 2, 600);
    gpu_copy_segment *segment = calloc((size_t)k->h + 1, sizeof *segment);
    ck_assert_ptr_nonnull(segment);
    const int64_t grain = k->flag ? 8 : 1, most = k->add ? 3 : 90, source = 3000;
    int64_t to = 0;
    k->t = 0;
    for (int64_t i = 0; i < k->h; i++) {
        const int64_t n = grain * gpu_case_draw(&k->c, 0, k->h < 9 ? 2900 / grain : most);
        to += grain * gpu_case_draw(&k->c, 0, 2);
        segment[i] =
            (gpu_copy_segment){grain * gpu_case_draw(&k->c, 0, (source - n) / grain), to, n, k->t};
        to += n, k->t += n;
    }
    for (int64_t i = k->h - 1; i > 0; i--) { /* in any order of where they go */
        const int64_t j = gpu_case_draw(&k->c, 0, i), first = segment[i].to;
        if (segment[i].n == segment[j].n) segment[i].to = segment[j].to, segment[j].to = first;
    }
    const gpu_type type = k->types == 1 ? GPU_BF16 : GPU_F32;
    k->block = gpu_case_bytes(&k->c, k->h * (int64_t)sizeof *segment, segment);
    k->a[0] = gpu_case_in(&k->c, type, source, 1), k->a[1] = gpu_case_out(&k->c, type, to, true);
    gpu_case_run(&k->c, copy_segments_call, k);
    double *want = kase_room(k, to, X(1));
    for (int64_t i = 0; i < k->h; i++)
        for (int64_t j = 0; j < segment[i].n; j++)
            want[segment[i].to + j] = X(0)[segment[i].from + j];
    gpu_case_exact(&k->c, k->a[1], want);
    free(segment);
}

#define ROW(name, cases)                                                                           \
    {                                                                                              \
#name, name##_run, cases                                                                   \
    }
static const kernel_row rows[] = {
    ROW(row_max, 60),       ROW(row_sum, 60),       ROW(row_target, 30),     ROW(loss, 30),
    ROW(loss_dx, 60),       ROW(sum, 30),           ROW(grad_norm, 80),      ROW(update, 120),
    ROW(copy_segments, 80), ROW(round_weights, 40), ROW(sum_gradients, 120),
};
KERNEL_TEST(rows)

/* ---- time ---- */

typedef struct clocks { /* mapped */
    uint64_t first, second, spun;
    gpu_step_answer answer;
    gpu_pace pace[3];
} clocks;

static uint64_t spun(clocks *c, clocks *device, cudaStream_t s, uint64_t most_ns)
{
    c->spun = 5;
    GPU_CASE_OK(
        gpu_spin(s, &device->first, 3, device->pace, most_ns, &device->answer, &device->spun));
    GPU_CASE_OK(cudaStreamSynchronize(s));
    return c->spun - 5;
}

/* A millisecond before now is what was worked at least. */
START_TEST(time_is_spent_as_paced)
{
    cudaStream_t s;
    clocks *c, *device;
    void *host, *there;
    GPU_CASE_OK(cudaStreamCreate(&s));
    GPU_CASE_OK(cudaHostAlloc(&host, sizeof *c, cudaHostAllocMapped));
    GPU_CASE_OK(cudaHostGetDevicePointer(&there, host, 0));
    c = host, device = there;
    memset(c, 0, sizeof *c);
    GPU_CASE_OK(gpu_stamp(s, &device->first));
    GPU_CASE_OK(gpu_stamp(s, &device->second));
    GPU_CASE_OK(cudaStreamSynchronize(s));
    ck_assert(c->first > 0 && c->second >= c->first);

    const uint64_t ms = 1000000, far = c->second + 3600000 * ms;
    c->first -= ms;
    c->pace[0] = (gpu_pace){0, 1}, c->pace[1] = (gpu_pace){1, 3}, c->pace[2] = (gpu_pace){far, 50};
    const uint64_t twice = spun(c, device, s, 3600000 * ms); /* 2 of what was worked */
    ck_assert(twice >= 2 * ms);
    ck_assert(spun(c, device, s, ms / 2) >= ms / 2); /* no more than is allowed .. */
    ck_assert(spun(c, device, s, 0) == 0);
    c->answer.drain = 1; /* .. and nothing in a step that was given up */
    ck_assert(spun(c, device, s, 3600000 * ms) == 0);
    c->answer.drain = 0, c->pace[1].slowdown = 1;
    ck_assert(spun(c, device, s, 3600000 * ms) == 0);
    GPU_CASE_OK(cudaFreeHost(host));
    GPU_CASE_OK(cudaStreamDestroy(s));
}
END_TEST

START_TEST(no_such_elements)
{
    ck_assert_int_eq(gpu_copy_segments(NULL, 1, NULL, 1, 3, NULL, NULL), cudaErrorInvalidValue);
    ck_assert_int_eq(gpu_add(NULL, 1, 9, NULL, (gpu_array){0}), cudaErrorInvalidValue);
}
END_TEST

LUO_SUITE("cuda.kernels_step", LUO_T_N(kernel_is_its_twin, LUO_ROWS(rows)),
          LUO_T(time_is_spent_as_paced), LUO_T(no_such_elements))
