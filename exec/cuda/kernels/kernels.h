/* kernels.h: what the GPU computes; launchers of the kernels in kernels_*.cu and
 * attention*.cu, callable from C.
 *
 * Notation and meaning as exec/bind/kernels.h (the host's table is the reference): t tokens, h
 * hidden, v vocabulary entries held here, dense and row-major. All pointers are of the device
 * unless said; every launcher only enqueues on `stream` and returns what the launch returned. No
 * kernel allocates. Sums run in a fixed order: the same input gives the same bits. Sizes of 0 do
 * nothing. Activations and weights are of one type (f32 or bf16); statistics of rows, exp, loss and
 * sums are f32; gradients have a type of their own (f32 where they are accumulated). Everything is
 * computed in f32, the norm of the gradients in f64.
 * A sum of nothing is 0 (the largest of nothing -inf) and is written, or added; "sizes of 0 do
 * nothing" is said of results that have no elements.
 * Memory-bound kernels move 16 bytes a thread and access where pointers and row lengths allow, and
 * read their input once; any size and alignment is right, if slower.
 */
#ifndef LUO_EXEC_CUDA_KERNELS_KERNELS_H
#define LUO_EXEC_CUDA_KERNELS_KERNELS_H
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/graph/turns.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef enum gpu_type { GPU_F32, GPU_BF16 } gpu_type;
typedef struct gpu_array { /* of a type */
    void *at;
    gpu_type type;
} gpu_array;

/* What changes from step to step, in device memory, so that a captured step reads the new numbers.
 * In f64, as the host's kernels are given them: 1 - beta of a beta rounded to f32 is another rate.
 */
typedef struct gpu_step_block {
    double scale; /* 1 / targets of the step */
    double lr, beta1, beta2, eps, weight_decay;
    double correction1, correction2; /* 1 - beta^step */
    double clip_norm, clip_eps;
    double most_squares; /* what one rank adds to the norm at most; kernels round it to f32 first */
} gpu_step_block;

/* What the step tells the host, in mapped host memory. */
typedef enum gpu_outcome { GPU_NONE, GPU_UPDATED, GPU_DRAINED, GPU_NOT_FINITE } gpu_outcome;
typedef struct gpu_step_answer {
    float loss, squares;
    int32_t outcome; /* gpu_outcome */
    int32_t drain;   /* written by the host: nonzero makes the norm -inf (exec/bind/bound.h) */
} gpu_step_answer;

/* ---- rows, norms, embeddings, rotary positions, pointwise: kernels_{rows,norm,embedding,rope,
 * latent,pointwise}.cu ---- */

cudaError_t gpu_bias(cudaStream_t stream, int64_t t, int64_t n, gpu_array x, gpu_array b,
                     gpu_array y);
/* work: gpu_columns_work(t, n) bytes; used by all that sum over rows. */
size_t gpu_columns_work(int64_t t, int64_t n);
cudaError_t gpu_bias_dw(cudaStream_t stream, int64_t t, int64_t n, gpu_array dy, bool add,
                        gpu_array db, void *work);
cudaError_t gpu_embedding(cudaStream_t stream, int64_t t, int64_t h, int64_t lo, int64_t hi,
                          float scale, const int32_t *ids, gpu_array table, gpu_array y);
/* order: positions 0..t-1 sorted by (id, position), made by the host with the batch. Without add
 * the whole table gradient is written. */
cudaError_t gpu_embedding_dw(cudaStream_t stream, int64_t t, int64_t h, int64_t lo, int64_t hi,
                             float scale, const int32_t *ids, const int32_t *order, gpu_array dy,
                             bool add, gpu_array dtable);
/* b.at NULL: RMSNorm. */
cudaError_t gpu_norm(cudaStream_t stream, int64_t rows, int64_t h, float eps, float one,
                     gpu_array x, gpu_array w, gpu_array b, gpu_array y);
cudaError_t gpu_norm_dx(cudaStream_t stream, int64_t rows, int64_t h, float eps, float one,
                        bool centred, gpu_array dy, gpu_array x, gpu_array w, gpu_array dx);
/* db.at NULL: RMSNorm. work: gpu_columns_work(rows, 2 * h). */
cudaError_t gpu_norm_dw(cudaStream_t stream, int64_t rows, int64_t h, float eps, gpu_array dy,
                        gpu_array x, bool add, gpu_array dw, gpu_array db, void *work);
/* by.frequency lies on the device. */
cudaError_t gpu_rope(cudaStream_t stream, int64_t t, int64_t heads, int64_t d, luo_turns by,
                     bool back, const int32_t *positions, gpu_array x, gpu_array y);
/* Latent attention. dk has rows of heads x (d - turned). */
cudaError_t gpu_latent(cudaStream_t stream, int64_t t, int64_t heads, int64_t d, int64_t turned,
                       luo_turns by, const int32_t *positions, gpu_array q, gpu_array k,
                       gpu_array shared, gpu_array yq, gpu_array yk);
cudaError_t gpu_latent_dx(cudaStream_t stream, int64_t t, int64_t heads, int64_t d, int64_t turned,
                          luo_turns by, const int32_t *positions, gpu_array dyq, gpu_array dyk,
                          gpu_array dq, gpu_array dk, gpu_array dshared);
cudaError_t gpu_swiglu(cudaStream_t stream, int64_t n, gpu_array gate, gpu_array up, gpu_array y,
                       gpu_array silu);
cudaError_t gpu_swiglu_dx(cudaStream_t stream, int64_t n, gpu_array dy, gpu_array gate,
                          gpu_array up, gpu_array silu, gpu_array dgate, gpu_array dup);
cudaError_t gpu_geglu(cudaStream_t stream, int64_t n, gpu_array gate, gpu_array up, gpu_array y,
                      gpu_array kept);
cudaError_t gpu_geglu_dx(cudaStream_t stream, int64_t n, gpu_array dy, gpu_array gate, gpu_array up,
                         gpu_array kept, gpu_array dgate, gpu_array dup);
cudaError_t gpu_gelu_erf(cudaStream_t stream, int64_t n, gpu_array x, gpu_array y);
cudaError_t gpu_gelu_erf_dx(cudaStream_t stream, int64_t n, gpu_array dy, gpu_array x,
                            gpu_array dx);
cudaError_t gpu_relu(cudaStream_t stream, int64_t n, gpu_array x, gpu_array y);
cudaError_t gpu_relu_dx(cudaStream_t stream, int64_t n, gpu_array dy, gpu_array x, gpu_array dx);
cudaError_t gpu_gelu(cudaStream_t stream, int64_t n, gpu_array x, gpu_array y);
cudaError_t gpu_gelu_dx(cudaStream_t stream, int64_t n, gpu_array dy, gpu_array x, gpu_array dx);
/* y = sum of x[0..count); each of its own type; y may be x[0]. count <= 8; x is of the host. */
cudaError_t gpu_add(cudaStream_t stream, int64_t n, int32_t count, const gpu_array *x, gpu_array y);

/* ---- loss: kernels_loss.cu; scale is read from the block; of v columns the first n are tokens
 * (exec/bind/kernels.h) ---- */

cudaError_t gpu_row_max(cudaStream_t stream, int64_t t, int64_t v, int64_t n, gpu_array logits,
                        float *max, float softcap);
cudaError_t gpu_row_sum(cudaStream_t stream, int64_t t, int64_t v, int64_t n, gpu_array logits,
                        const float *max, float *sum, float *exp, float softcap);
cudaError_t gpu_row_target(cudaStream_t stream, int64_t t, int64_t v, int64_t lo, gpu_array logits,
                           const int32_t *labels, float *target, float softcap);
cudaError_t gpu_loss(cudaStream_t stream, int64_t t, const float *max, const float *sum,
                     const float *target, const int32_t *labels, const gpu_step_block *block,
                     float *loss);
cudaError_t gpu_loss_dx(cudaStream_t stream, int64_t t, int64_t v, int64_t lo, const float *exp,
                        const float *sum, const int32_t *labels, const gpu_step_block *block,
                        gpu_array dlogits, const float *max, float softcap);
cudaError_t gpu_sum(cudaStream_t stream, int64_t n, const float *x, bool add, float *out);

/* ---- the update: kernels_update.cu ---- */

/* Cells of all pieces cut into chunks of at most GPU_CHUNK elements; a table of them lies on the
 * device, made once per program. */
enum { GPU_CHUNK = 16384 };
typedef struct gpu_norm_chunk {
    const void *grad;
    int64_t n;
} gpu_norm_chunk;
typedef struct gpu_update_chunk {
    const void *grad;
    float *master, *m, *v;
    void *weight; /* bf16 copy of master; NULL: master is the weight */
    int32_t n;
    int32_t decays;
} gpu_update_chunk;
/* Sum of squares in f64; not finite counts as block->most_squares, answer->drain makes it -inf.
 * work: 8 * chunks bytes. */
cudaError_t gpu_grad_norm(cudaStream_t stream, int64_t chunks, const gpu_norm_chunk *chunk,
                          gpu_type grad, const gpu_step_block *block, const gpu_step_answer *answer,
                          double *work, float *squares);
/* One kernel for all parameters. Reads *squares: below 0 nothing is updated (GPU_DRAINED), at
 * block->most_squares or not finite neither (GPU_NOT_FINITE). Writes answer->squares, outcome. */
cudaError_t gpu_update(cudaStream_t stream, int64_t chunks, const gpu_update_chunk *chunk,
                       gpu_type grad, const float *squares, const gpu_step_block *block,
                       gpu_step_answer *answer);

/* Biases of gates that learn: no gradient moves them, but how often each expert was chosen. Where
 * gpu_update updates, bias[i] goes up by `rate` where count[i] is below the mean, down where it is
 * above. A table of n on the device. */
typedef struct gpu_counted {
    const float *count;
    float *bias;
    int64_t n;
} gpu_counted;
cudaError_t gpu_move_bias(cudaStream_t stream, int64_t n, const gpu_counted *piece, double rate,
                          const float *squares, const gpu_step_block *block);

/* Of a part of a step that is not the last, in place of gpu_update: sums[at[k]..] of chunk k become
 * its gradients (FIRST), or these are added (MORE), unless nothing may be updated; the answer is
 * written as gpu_update does. Before the last part's norm: gradients become the sums and themselves
 * (TAKE); squares is not read, nothing is answered. */
typedef enum gpu_sum_way { GPU_SUM_FIRST, GPU_SUM_MORE, GPU_SUM_TAKE } gpu_sum_way;
cudaError_t gpu_sum_gradients(cudaStream_t stream, int64_t chunks, const gpu_update_chunk *chunk,
                              const int64_t *at, float *sums, gpu_type grad, gpu_sum_way way,
                              const float *squares, const gpu_step_block *block,
                              gpu_step_answer *answer);

/* chunk.weight = chunk.master, rounded as gpu_update does it; nothing for chunks whose weight is
 * NULL. For state that init, load or a switch has put on the device. */
cudaError_t gpu_round_weights(cudaStream_t stream, int64_t chunks, const gpu_update_chunk *chunk);

/* ---- cells: kernels_cells.cu ---- */

/* n segments of `elem_bytes` elements: out[s.to + i] = in[s.from + i]; a table on the device, made
 * once per program. What is written overlaps neither itself nor what is read. */
typedef struct gpu_copy_segment {
    int64_t from, to, n;
    int64_t first; /* elements of the segments before it */
} gpu_copy_segment;
cudaError_t gpu_copy_segments(cudaStream_t stream, int32_t nsegments,
                              const gpu_copy_segment *segment, int64_t elements, int32_t elem_bytes,
                              const void *in, void *out);
cudaError_t gpu_convert(cudaStream_t stream, int64_t n, gpu_array from, gpu_array to);

/* ---- time: kernels_time.cu ---- */

/* *slot = the device's clock in ns (%globaltimer). One thread. slot may be mapped host memory; the
 * write is seen by the host without an event (system fence). */
cudaError_t gpu_stamp(cudaStream_t stream, uint64_t *slot);
/* A straggler: spins until (now - *since) * (slowdown(now) - 1) more has passed, at most `most_ns`.
 * pace: n rows {at_ns of the device's clock, slowdown}, ascending, on the device. Ends early when
 * answer->drain is set. *spun += ns spun. */
typedef struct gpu_pace {
    uint64_t at_ns;
    double slowdown;
} gpu_pace;
cudaError_t gpu_spin(cudaStream_t stream, const uint64_t *since, int32_t n, const gpu_pace *pace,
                     uint64_t most_ns, const gpu_step_answer *answer, uint64_t *spun);

/* A slow link: waits as long as the last row that has come says, the stream with it. row: n <=
 * GPU_DELAYS rows of the host, ascending; at_ns of the device's clock. Ends early when
 * answer->drain is set. */
enum { GPU_DELAYS = 64 };
typedef struct gpu_delay_row {
    uint64_t at_ns, wait_ns;
} gpu_delay_row;
cudaError_t gpu_delay(cudaStream_t stream, int32_t n, const gpu_delay_row *row,
                      const gpu_step_answer *answer);

/* ---- attention: attention.cu (bf16, tensor cores), attention_simple.cu (f32, and sm_70) ---- */

/* Causal or whole attention over packed documents, grouped query heads, in one pass over keys, no
 * O(t^2) memory (Dao et al. 2022, 2023). q [t x n x d], o [t x n x u], k [t x g x d], v [t x g x
 * u], u = d unless said; rows [t x n] f32: log of the sum of exp of the scaled scores. kv_of: n
 * values of the device. start_of, end_of: per token the first token of its document and the one
 * after its last, on the device, so that a captured step reads the documents of its batch. Head
 * sizes: any; bf16 of multiples of 8 up to 128 runs on tensor cores, 64 and 128 without waste,
 * where all arrays (and work) begin at multiples of 16 bytes; all else, and u that is not d, by the
 * simple kernels. All arrays of a call have one type. cudaErrorInvalidValue: they have not, or t or
 * a row has more than 2^31 - 1 - 256 elements. */
typedef struct gpu_heads {
    int64_t n, g, d;
    const int32_t *kv_of;          /* device */
    const int32_t *heads_of;       /* device: query heads of each key-value head, one list .. */
    const int32_t *heads_of_first; /* .. and where they begin, g + 1 values; device */
    bool causal;
    int64_t u;             /* elements of a value and of a result; 0: d */
    double scale, softcap; /* of scores: factor, 0: d^-1/2; c of c tanh(x / c), 0: x as it is */
    int64_t window; /* a token sees itself and window - 1 before it; 0: all. Pre: causal. Of a block
                       its lists have it */
} gpu_heads;
cudaError_t gpu_attention(cudaStream_t stream, int64_t t, const gpu_heads *heads,
                          const int32_t *start_of, const int32_t *end_of, gpu_array q, gpu_array k,
                          gpu_array v, gpu_array o, float *rows);
/* work: gpu_attention_dx_work(t, heads, type) bytes: 8 a token and head, each rounded up to 128
 * tokens, and for grouped heads on tensor cores, where the heads of a group are cut into p parts,
 * 8 p t g d besides, which is below 256 MiB. Deterministic: no atomic sums. */
size_t gpu_attention_dx_work(int64_t t, const gpu_heads *heads, gpu_type type);
cudaError_t gpu_attention_dx(cudaStream_t stream, int64_t t, const gpu_heads *heads,
                             const int32_t *start_of, const int32_t *end_of, gpu_array dout,
                             gpu_array o, const float *rows, gpu_array q, gpu_array k, gpu_array v,
                             gpu_array dq, gpu_array dk, gpu_array dv, void *work);

/* ---- attention of a block: attention_block.cu; where devices have parts of sequences ---- */

/* Queries q [nq x n x d] on keys and values k, v [nk x g x d], whose rows may lie in any order.
 * sights, on the device, 3 (nq + nk) values: exec/cuda/context/sights.h. first_keys: o and rows,
 * dq are written (0 and -inf, 0 for a query that sees nobody); else these keys' part of the softmax
 * is merged into o and rows, and dq is added to. dk and dv are written. Types and kernels as
 * gpu_attention. work: gpu_attention_block_work bytes. */
typedef struct gpu_block {
    int64_t nq, nk;
    bool first_keys;
    const int32_t *sights;
} gpu_block;
size_t gpu_attention_block_work(const gpu_block *block, const gpu_heads *heads, gpu_type type,
                                bool back);
cudaError_t gpu_attention_block(cudaStream_t stream, const gpu_block *block, const gpu_heads *heads,
                                gpu_array q, gpu_array k, gpu_array v, gpu_array o, float *rows,
                                void *work);
/* rows: of all keys, -inf where a query sees nobody. */
cudaError_t gpu_attention_block_dx(cudaStream_t stream, const gpu_block *block,
                                   const gpu_heads *heads, gpu_array dout, gpu_array o,
                                   const float *rows, gpu_array q, gpu_array k, gpu_array v,
                                   gpu_array dq, gpu_array dk, gpu_array dv, void *work);

#ifdef __cplusplus
}
#endif
#endif
