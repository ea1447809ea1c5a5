/* route.cu: choices of tokens and their gradients, a warp a token; what is counted over tokens, a
 * block an expert. */
#include "core/base/rng.h"
#include "exec/cuda/kernels/units.cuh"
#include "exec/cuda/moe/counting.cuh"
#include "exec/cuda/moe/experts.h"

namespace
{
constexpr int WARP = 32;

/* ---- over the lanes of a warp, in an order that is always the same ---- */

template <class T> __device__ __forceinline__ T warp_sum(T v)
{
#pragma unroll
    for (int lane = WARP / 2; lane > 0; lane /= 2) v += __shfl_xor_sync(0xffffffffu, v, lane);
    return v;
}
__device__ __forceinline__ double warp_most(double v)
{
#pragma unroll
    for (int lane = WARP / 2; lane > 0; lane /= 2)
        v = fmax(v, __shfl_xor_sync(0xffffffffu, v, lane));
    return v;
}

/* ---- a token's choices ---- */

/* Memory of a warp: probabilities, scores, groups, choices. */
__host__ __device__ __forceinline__ int64_t room_of(const gpu_gate &g)
{
    return (2 * g.experts + g.groups) * static_cast<int64_t>(sizeof(double)) +
           (g.k + 1) / 2 * 2 * static_cast<int64_t>(sizeof(int32_t));
}
struct token_room {
    double *p, *score, *group;
    int32_t *chosen;
};
__device__ __forceinline__ token_room room_at(const gpu_gate &g, unsigned char *at)
{
    token_room r;
    r.p = reinterpret_cast<double *>(at);
    r.score = r.p + g.experts;
    r.group = r.score + g.experts;
    r.chosen = reinterpret_cast<int32_t *>(r.group + g.groups);
    return r;
}

__device__ __forceinline__ void softmax(double *p, int n, int lane)
{
    double most = -INFINITY, sum = 0;
    for (int e = lane; e < n; e += WARP) most = fmax(most, p[e]);
    most = warp_most(most);
    for (int e = lane; e < n; e += WARP) sum += p[e] = exp(p[e] - most);
    sum = warp_sum(sum);
    for (int e = lane; e < n; e += WARP) p[e] /= sum;
    __syncwarp();
}

/* The largest of score[lo..hi), the lowest place of equal ones; a score that is no number is not
 * taken. -1: all are none. */
__device__ __forceinline__ int largest(const double *score, int lo, int hi, int lane)
{
    int best = -1;
    double value = 0;
    for (int e = lo + lane; e < hi; e += WARP)
        if (score[e] == score[e] && (best < 0 || score[e] > value)) best = e, value = score[e];
#pragma unroll
    for (int by = WARP / 2; by > 0; by /= 2) {
        const int other = __shfl_xor_sync(0xffffffffu, best, by);
        const double its = __shfl_xor_sync(0xffffffffu, value, by);
        const bool better =
            other >= 0 && (best < 0 || its > value || (its == value && other < best));
        if (better) best = other, value = its;
    }
    return best;
}

/* The j-th choice where no score is a number: the first place that is not chosen yet. */
__device__ __forceinline__ int first_left(const int32_t *chosen, int j, int lo)
{
    int e = lo;
    for (int i = 0; i < j; i++)
        if (chosen[i] == e) e++, i = -1;
    return e;
}

/* Chosen scores become NaN, which is never taken. */
__device__ __forceinline__ void take_largest(const token_room &r, int lo, int hi, int from, int k,
                                             int lane)
{
    for (int j = from; j < from + k; j++) {
        int best = largest(r.score, lo, hi, lane);
        if (best < 0) best = first_left(r.chosen, j, lo);
        __syncwarp();
        if (lane == 0) {
            r.chosen[j] = best;
            r.score[best] = NAN;
        }
        __syncwarp();
    }
}

/* Sum of the two best scores of a group, of the one if it has no more or one counts. */
__device__ __forceinline__ double group_score(const double *score, int n, bool one)
{
    double first = -INFINITY, second = -INFINITY;
    for (int e = 0; e < n; e++) {
        if (score[e] > first)
            second = first, first = score[e];
        else
            second = fmax(second, score[e]);
    }
    return n > 1 && !one ? first + second : first;
}

/* Scores of the groups that are not kept become -INFINITY. */
__device__ __forceinline__ void keep_groups(const gpu_gate &g, const token_room &r, int lane)
{
    const int each = g.experts / g.groups;
    for (int i = lane; i < g.groups; i += WARP)
        r.group[i] = group_score(r.score + i * each, each, !g.sigmoid);
    __syncwarp();
    for (int dropped = g.groups - g.kept; dropped > 0; dropped--) {
        int worst = -1;
        for (int i = 0; i < g.groups; i++)
            if (r.group[i] < INFINITY && (worst < 0 || r.group[i] <= r.group[worst])) worst = i;
        __syncwarp();
        if (worst < 0) continue; /* no scores that are numbers */
        if (lane == 0) r.group[worst] = INFINITY;
        for (int e = lane; e < each; e += WARP) r.score[worst * each + e] = -INFINITY;
        __syncwarp();
    }
}

__device__ __forceinline__ int best_group(const gpu_gate &g, const token_room &r, int lane)
{
    const int each = g.experts / g.groups;
    for (int i = lane; i < g.groups; i += WARP) {
        double sum = 0;
        for (int e = i * each; e < (i + 1) * each; e++) sum += r.p[e];
        r.group[i] = sum;
    }
    __syncwarp();
    int best = 0;
    double most = -1;
    for (int i = 0; i < g.groups; i++) {
        if (r.group[i] > most) best = i;
        most = fmax(most, r.group[i]);
    }
    return best;
}

__device__ __forceinline__ void choose(const gpu_gate &g, const token_room &r, const float *bias,
                                       int lane)
{
    const int each = g.experts / g.prototypes;
    if (g.sigmoid) {
        for (int e = lane; e < g.experts; e += WARP) {
            r.p[e] = 1 / (1 + exp(-r.p[e]));
            r.score[e] = r.p[e] + (bias ? static_cast<double>(bias[e]) : 0);
        }
        __syncwarp();
    } else {
        for (int i = 0; i < g.prototypes; i++) softmax(r.p + i * each, each, lane);
        for (int e = lane; e < g.experts; e += WARP) r.score[e] = r.p[e];
        __syncwarp();
    }
    if (!g.sam) keep_groups(g, r, lane);
    if (g.prototypes > 1) {
        for (int i = 0; i < g.prototypes; i++)
            take_largest(r, i * each, (i + 1) * each, i, 1, lane);
        return;
    }
    const int part = g.sam ? g.experts / g.groups : g.experts;
    const int lo = g.sam ? best_group(g, r, lane) * part : 0;
    take_largest(r, lo, lo + part, 0, g.k, lane);
}

__global__ void route(int64_t t, gpu_gate g, const float *logits, const float *bias, float *weights,
                      float *ids, float *probabilities)
{
    const int64_t token = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
    const int lane = static_cast<int>(threadIdx.x);
    if (token >= t) return;
    const token_room r = room_at(g, gpu_dynamic_shared() + threadIdx.y * room_of(g));
    for (int e = lane; e < g.experts; e += WARP)
        r.p[e] = static_cast<double>(logits[token * g.experts + e]);
    __syncwarp();
    choose(g, r, bias, lane);
    for (int e = lane; e < g.experts; e += WARP)
        probabilities[token * g.experts + e] = static_cast<float>(r.p[e]);
    double sum = 0;
    for (int j = 0; j < g.k; j++) sum += r.p[r.chosen[j]];
    const double by = g.scale / (g.divides ? sum : 1);
    for (int j = lane; j < g.k; j += WARP) {
        weights[token * g.k + j] = static_cast<float>(r.p[r.chosen[j]] * by);
        ids[token * g.k + j] = static_cast<float>(r.chosen[j]);
    }
}

__global__ void __launch_bounds__(COUNTERS)
    route_hash(int64_t t, int32_t experts, const int32_t *tokens, float *ids)
{
    const int64_t i = static_cast<int64_t>(blockIdx.x) * COUNTERS + threadIdx.x;
    if (i >= t) return;
    const uint64_t key = static_cast<uint64_t>(static_cast<int64_t>(tokens[i]));
    ids[i] = static_cast<float>(luo_rng_at(key, 0) % static_cast<uint64_t>(experts));
}

__global__ void __launch_bounds__(COUNTERS)
    route_dealt(int32_t experts, const int32_t *dealt, const float *logits, float *weights,
                float *ids, float *probabilities)
{
    const int64_t token = blockIdx.x, at = token * experts;
    for (int e = static_cast<int>(threadIdx.x); e < experts; e += COUNTERS) {
        const double p = 1 / (1 + exp(-static_cast<double>(logits[at + e])));
        probabilities[at + e] = static_cast<float>(p);
        if (e == dealt[token]) weights[token] = static_cast<float>(p);
    }
    if (threadIdx.x > 0) return;
    ids[token] = static_cast<float>(dealt[token]);
    if (dealt[token] < 0) weights[token] = 0;
}

/* ---- counted over tokens ---- */

__global__ void __launch_bounds__(COUNTERS)
    count_choices(int64_t t, int32_t k, const float *ids, const int32_t *pad, float *load)
{
    __shared__ int32_t shared[COUNTERS / WARP];
    const float own = static_cast<float>(blockIdx.x);
    int32_t n = 0;
    for (int64_t i = threadIdx.x; i < t * k; i += COUNTERS)
        n += ids[i] == own && !(pad && pad[i / k]);
    n = gpu_count_all(n, shared);
    if (threadIdx.x == 0) load[blockIdx.x] = static_cast<float>(n);
}

/* Blocks write ids of their own expert alone, and those below 0 are nobody's: what others read
 * meanwhile makes no difference to them. */
__global__ void __launch_bounds__(COUNTERS)
    drop(int64_t t, int32_t k, int64_t capacity, float *weights, float *ids)
{
    __shared__ int32_t shared[COUNTERS / WARP];
    const float own = static_cast<float>(blockIdx.x);
    int64_t before = 0;
    for (int32_t j = 0; j < k; j++)
        for (int64_t first = 0; first < t; first += COUNTERS) {
            const int64_t at = (first + threadIdx.x) * k + j;
            const bool mine = first + threadIdx.x < t && ids[at] == own;
            int32_t n = 0;
            const int32_t rank = gpu_rank_among(mine, shared, &n);
            if (mine && before + rank >= capacity) {
                ids[at] = -1 - own;
                if (weights) weights[at] = 0;
            }
            before += n;
        }
}

/* ---- gradients ---- */

/* Also of a choice that was dropped. */
__device__ __forceinline__ int expert_of(float id)
{
    return static_cast<int>(id < 0 ? -1 - id : id);
}

/* Slope of the loss of alignment: what experts outside the chosen group are above the last one
 * chosen. Returns how many are; *over: their sum. */
__device__ __forceinline__ int misaligned(const gpu_gate &g, const float *p, const float *id,
                                          float weight, float *grad, double *over, int lane)
{
    const int each = g.experts / g.groups;
    const int last = static_cast<int>(id[g.k - 1]), group = static_cast<int>(id[0]) / each;
    int n = 0;
    *over = 0;
    for (int e = lane; e < g.experts && last >= 0; e += WARP) {
        if (e / each == group || !(p[e] > p[last])) continue;
        *over += static_cast<double>(p[e]) - static_cast<double>(p[last]);
        n++;
        if (grad) grad[e] += weight;
    }
    n = warp_sum(n);
    if (grad && lane == 0 && n > 0) grad[last] -= static_cast<float>(n) * weight;
    return n;
}

/* Gradients of the chosen probabilities from those of the weights: w = scale p, dp = scale g, or
 * divided by their sum: w = scale p / sum, so that dp = (g - sum g w / scale) scale / sum. A
 * dropped choice has neither g nor w, but stands in the sum. */
__device__ __forceinline__ void chosen_dx(const gpu_gate &g, const float *dw, const float *w,
                                          const float *id, const float *p, float *dp, int lane)
{
    const float scale = static_cast<float>(g.scale);
    float sum = 0, mean = 0;
    for (int j = 0; j < g.k && g.divides; j++) {
        sum += p[expert_of(id[j])];
        if (id[j] >= 0) mean += dw[j] * w[j] / scale;
    }
    const float ratio = g.divides ? scale / sum : scale;
    for (int j = lane; j < g.k; j += WARP)
        dp[expert_of(id[j])] += ((id[j] < 0 ? 0 : dw[j]) - mean) * ratio;
}

/* Of logits from those of probabilities, in place. */
__device__ __forceinline__ void logits_dx(const gpu_gate &g, const float *p, float *dp, int lane)
{
    const int each = g.experts / g.prototypes;
    for (int at = 0; at < g.experts; at += each) {
        float sum = 0;
        for (int e = at + lane; e < at + each && !g.sigmoid; e += WARP) sum += p[e] * dp[e];
        sum = warp_sum(sum);
        for (int e = at + lane; e < at + each; e += WARP)
            dp[e] = g.sigmoid ? p[e] * (1 - p[e]) * dp[e] : p[e] * (dp[e] - sum);
    }
    __syncwarp(); /* who reads an expert's may not be who wrote it */
}

__global__ void route_dx(int64_t t, gpu_gate g, const float *dweights, const float *weights,
                         const float *ids, const float *probabilities, const int32_t *pad,
                         const float *load, float balance, float *dlogits)
{
    const int64_t token = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
    const int lane = static_cast<int>(threadIdx.x);
    if (token >= t) return;
    float *const dp = reinterpret_cast<float *>(gpu_dynamic_shared()) + threadIdx.y * g.experts;
    const bool counts = !(pad && pad[token]) && balance > 0;
    const float *const p = probabilities + token * g.experts, *const id = ids + token * g.k;
    for (int e = lane; e < g.experts; e += WARP) dp[e] = counts && load ? balance * load[e] : 0;
    __syncwarp();
    chosen_dx(g, dweights + token * g.k, weights + token * g.k, id, p, dp, lane);
    __syncwarp();
    double over;
    if (counts && g.sam) misaligned(g, p, id, balance, dp, &over, lane);
    __syncwarp();
    logits_dx(g, p, dp, lane);
    for (int e = lane; e < g.experts; e += WARP) dlogits[token * g.experts + e] = dp[e];
}

/* ---- the loss of unbalanced experts ---- */

constexpr int BALANCE_WARPS = 8;

__global__ void __launch_bounds__(BALANCE_WARPS *WARP)
    balance_parts(int64_t t, gpu_gate g, const float *ids, const float *probabilities,
                  const int32_t *pad, const float *load, double *parts)
{
    __shared__ double shared[BALANCE_WARPS];
    const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
    double sum = 0;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * BALANCE_WARPS + warp; i < t;
         i += static_cast<int64_t>(gridDim.x) * BALANCE_WARPS) {
        const float *const p = probabilities + i * g.experts;
        double own = 0;
        if (pad && pad[i]) continue;
        if (g.sam) misaligned(g, p, ids + i * g.k, 0, nullptr, &own, lane);
        for (int e = lane; e < g.experts && load; e += WARP)
            own += static_cast<double>(p[e]) * static_cast<double>(load[e]);
        sum += warp_sum(own);
    }
    if (lane == 0) shared[warp] = sum;
    __syncthreads();
    if (lane > 0 || warp > 0) return;
    for (int w = 1; w < BALANCE_WARPS; w++) sum += shared[w];
    parts[blockIdx.x] = sum;
}

__global__ void balance_all(int n, const double *parts, double weight, double *out)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += parts[i];
    *out += weight * sum;
}

/* Tokens of a block, so that its memory is a plain one where it can be. */
int tokens_of(int64_t bytes)
{
    const int64_t fits = GPU_SHARED_PLAIN / bytes;
    return fits < 1 ? 1 : fits > 4 ? 4 : static_cast<int>(fits);
}
} // namespace

cudaError_t gpu_route(cudaStream_t stream, int64_t t, const gpu_gate *gate, const float *logits,
                      const float *bias, float *weights, float *ids, float *probabilities)
{
    const int64_t room = room_of(*gate);
    const int each = tokens_of(room);
    return gpu_launch(route, gpu_blocks(t, each), dim3(WARP, static_cast<unsigned>(each)),
                      static_cast<size_t>(each * room), stream, t, *gate, logits, bias, weights,
                      ids, probabilities);
}

cudaError_t gpu_route_hash(cudaStream_t stream, int64_t t, int32_t experts, const int32_t *tokens,
                           float *ids)
{
    return gpu_launch(route_hash, gpu_blocks(t, COUNTERS), COUNTERS, 0, stream, t, experts, tokens,
                      ids);
}

cudaError_t gpu_route_dealt(cudaStream_t stream, int64_t t, int32_t experts, const int32_t *dealt,
                            const float *logits, float *weights, float *ids, float *probabilities)
{
    return gpu_launch(route_dealt, gpu_blocks(t, 1), COUNTERS, 0, stream, experts, dealt, logits,
                      weights, ids, probabilities);
}

cudaError_t gpu_count_choices(cudaStream_t stream, int64_t t, int32_t k, int32_t experts,
                              const float *ids, const int32_t *pad, float *load)
{
    return gpu_launch(count_choices, gpu_blocks(experts, 1), COUNTERS, 0, stream, t, k, ids, pad,
                      load);
}

cudaError_t gpu_drop(cudaStream_t stream, int64_t t, int32_t k, int32_t experts, int64_t capacity,
                     float *weights, float *ids)
{
    return gpu_launch(drop, t > 0 ? gpu_blocks(experts, 1) : 0, COUNTERS, 0, stream, t, k, capacity,
                      weights, ids);
}

cudaError_t gpu_route_dx(cudaStream_t stream, int64_t t, const gpu_gate *gate,
                         const float *dweights, const float *weights, const float *ids,
                         const float *probabilities, const int32_t *pad, const float *load,
                         float balance, float *dlogits)
{
    const int64_t room = gate->experts * static_cast<int64_t>(sizeof(float));
    const int each = tokens_of(room);
    return gpu_launch(route_dx, gpu_blocks(t, each), dim3(WARP, static_cast<unsigned>(each)),
                      static_cast<size_t>(each * room), stream, t, *gate, dweights, weights, ids,
                      probabilities, pad, load, balance, dlogits);
}

cudaError_t gpu_balance(cudaStream_t stream, int64_t t, const gpu_gate *gate, const float *ids,
                        const float *probabilities, const int32_t *pad, const float *load,
                        double weight, double *sum, double *work)
{
    const unsigned most = GPU_BALANCE_PARTS, want = gpu_blocks(t, BALANCE_WARPS);
    const unsigned parts = want < most ? want : most;
    const cudaError_t code = gpu_launch(balance_parts, parts, dim3(WARP, BALANCE_WARPS), 0, stream,
                                        t, *gate, ids, probabilities, pad, load, work);
    if (code != cudaSuccess || parts == 0) return code;
    return gpu_launch(balance_all, 1, 1, 0, stream, static_cast<int>(parts), work, weight, sum);
}
