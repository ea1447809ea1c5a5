/* experts.h: what the GPU computes for layers with experts; launchers of the kernels in route.cu
 * and rows.cu, callable from C.
 *
 * Meaning and notation as exec/bind/kernels.h, rules as exec/cuda/kernels/kernels.h: t tokens, k
 * choices of a token, E experts, h wide. Logits, weights, ids, probabilities, loads and counts are
 * f32 in every precision; ids and counts are whole numbers in it, id -1 - e: expert e was chosen
 * but dropped the token. Rows are of the precision. All that is counted is counted without atomic
 * sums. */
#ifndef LUO_EXEC_CUDA_MOE_EXPERTS_H
#define LUO_EXEC_CUDA_MOE_EXPERTS_H
#include "exec/cuda/kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gpu_gate { /* of luo_gate, what kernels ask; gpu_gate_of (moe.h) */
    int32_t experts, k;
    int32_t prototypes;   /* softmaxes of neighbouring experts, the best of each; 1: of all */
    int32_t groups, kept; /* of neighbouring experts; kept: those with the best scores, which are
                             of two experts with sigmoid, else of one */
    bool sigmoid;         /* probabilities are sigmoids, each alone */
    bool sam;             /* only experts of the best group */
    bool divides;         /* weights of a token are divided by their sum .. */
    double scale;         /* .. and multiplied by this */
} gpu_gate;

/* logits, probabilities [t x E], weights, ids [t x k]; bias E, NULL: zeros. Nothing is dropped yet.
 * In f64, in the order of luo_gate_choose where it decides. */
cudaError_t gpu_route(cudaStream_t stream, int64_t t, const gpu_gate *gate, const float *logits,
                      const float *bias, float *weights, float *ids, float *probabilities);
/* ids [t] by hashes of tokens. */
cudaError_t gpu_route_hash(cudaStream_t stream, int64_t t, int32_t experts, const int32_t *tokens,
                           float *ids);
/* ids [t] as dealt, -1: none; weights [t]. */
cudaError_t gpu_route_dealt(cudaStream_t stream, int64_t t, int32_t experts, const int32_t *dealt,
                            const float *logits, float *weights, float *ids, float *probabilities);
/* load [E]: how often each expert was chosen. Before anything is dropped. pad [t]: not 0: counts
 * nowhere. */
cudaError_t gpu_count_choices(cudaStream_t stream, int64_t t, int32_t k, int32_t experts,
                              const float *ids, const int32_t *pad, float *load);
/* Choices behind `capacity` of their expert: id -1 - e, weight 0; first choices of all tokens
 * first. weights NULL: there are none. */
cudaError_t gpu_drop(cudaStream_t stream, int64_t t, int32_t k, int32_t experts, int64_t capacity,
                     float *weights, float *ids);
/* load NULL: no loss of unbalanced experts; balance 0: neither that of alignment. */
cudaError_t gpu_route_dx(cudaStream_t stream, int64_t t, const gpu_gate *gate,
                         const float *dweights, const float *weights, const float *ids,
                         const float *probabilities, const int32_t *pad, const float *load,
                         float balance, float *dlogits);
/* *sum += weight * (sum over tokens and experts of probability times load; sam: the loss of
 * alignment), in f64. work: GPU_BALANCE_PARTS doubles. */
enum { GPU_BALANCE_PARTS = 256 };
cudaError_t gpu_balance(cudaStream_t stream, int64_t t, const gpu_gate *gate, const float *ids,
                        const float *probabilities, const int32_t *pad, const float *load,
                        double weight, double *sum, double *work);

/* row_of [t x k]: where the row of each choice lies by (expert, token), -1: nowhere; counts [E],
 * NULL: not wanted. */
cudaError_t gpu_places(cudaStream_t stream, int64_t t, int32_t k, int32_t experts, const float *ids,
                       int32_t *row_of, float *counts);
cudaError_t gpu_pack(cudaStream_t stream, int64_t t, int64_t h, int32_t k, const int32_t *row_of,
                     gpu_array x, gpu_array rows);
/* weights NULL: 1. */
cudaError_t gpu_combine(cudaStream_t stream, int64_t t, int64_t h, int32_t k, const int32_t *row_of,
                        const float *weights, gpu_array rows, gpu_array y);
/* dweights NULL: not wanted; rows are not read then. */
cudaError_t gpu_combine_dx(cudaStream_t stream, int64_t t, int64_t h, int32_t k,
                           const int32_t *row_of, const float *weights, gpu_array dy,
                           gpu_array rows, gpu_array drows, float *dweights);

/* x, y [t x h]: y = sigmoid(logit) x. */
cudaError_t gpu_token_gate(cudaStream_t stream, int64_t t, int64_t h, const float *logits,
                           gpu_array x, gpu_array y);
cudaError_t gpu_token_gate_dx(cudaStream_t stream, int64_t t, int64_t h, gpu_array dy,
                              const float *logits, gpu_array x, float *dlogits, gpu_array dx);

#ifdef __cplusplus
}
#endif
#endif
