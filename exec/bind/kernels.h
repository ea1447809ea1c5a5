/* kernels.h: what an executor computes with, one table a precision.
 *
 * Notation: t tokens of a micro-batch, h hidden, n query heads, g key-value heads, d head size,
 * f feed-forward, v vocabulary entries held here, k choices of a token. All arrays are dense and
 * row-major, of the table's precision (`real`) unless typed; ids, labels and positions are int32.
 * Outputs never overlap inputs unless said. `add`: the result is added to the output, which must be
 * valid.
 * Kernels allocate nothing, return nothing and read no global state. Sums run in a fixed order, so
 * the same input gives the same bits.
 * Sources: GEMM is BLAS 3; RMSNorm Zhang and Sennrich 2019; RoPE Su et al. 2021 in the half-split
 * form of the Hugging Face weights; attention in one pass over keys with row statistics (Dao et
 * al. 2022); AdamW Loshchilov and Hutter 2019.
 */
#ifndef LUO_EXEC_BIND_KERNELS_H
#define LUO_EXEC_BIND_KERNELS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/graph/moe/gate.h"
#include "core/graph/turns.h"

typedef struct luo_documents { /* documents packed in a micro-batch; they do not see each other */
    int32_t n;
    const int32_t *start; /* start[0] = 0 .. start[n] = t */
} luo_documents;

typedef struct luo_run { /* neighbours of one document: tokens at.. of the reordered micro-batch */
    int32_t at, n, document, position; /* position of the first in its document */
} luo_run;

typedef struct luo_runs { /* all tokens but pads, ascending by `at` */
    int32_t n;
    const luo_run *run;
} luo_runs;

typedef struct luo_block { /* queries and keys of an attention that sees a part of them */
    const luo_runs *runs;
    int64_t q, nq, k, nk; /* tokens q.. and k.. of the micro-batch */
    bool first_keys;      /* of these queries: o and rows, dq are made; else gone on with */
} luo_block;

typedef struct luo_heads { /* of an attention: query head j reads key-value head kv_of[j] */
    int64_t n, g, d;
    const int32_t *kv_of; /* n values, local indices below g */
    bool causal;
    int64_t u; /* elements of a value and of a result; 0: d */
    double scale, softcap; /* of scores: factor, 0: d^-1/2; c of c tanh(x / c), 0: x as it is */
    int64_t window; /* a token sees itself and window - 1 before it; 0: all. Pre: causal */
} luo_heads;

typedef struct luo_adam { /* one AdamW step; `grad_scale` holds clipping */
    double lr, beta1, beta2, eps, weight_decay, grad_scale;
    int64_t step; /* counts from 1, for the bias correction */
} luo_adam;

typedef struct luo_kernels {
    const char *name; /* "f32" "f64" */
    size_t elem;
    /* C[m x n] = A B (+ C if add). A is [m x k], or stored [k x m] if ta; B is [k x n], or stored
     * [n x k] if tb. lda, ldb, ldc: elements from one stored row to the next. */
    void (*gemm)(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const void *a, int64_t lda,
                 const void *b, int64_t ldb, bool add, void *c, int64_t ldc);
    void (*bias)(int64_t t, int64_t n, const void *x, const void *b, void *y);
    void (*bias_dw)(int64_t t, int64_t n, const void *dy, bool add, void *db);
    /* Rows lo..hi-1 of the table lie here; other ids give zero rows, and take no gradient. y is
     * `scale` times the row. */
    void (*embedding)(int64_t t, int64_t h, int64_t lo, int64_t hi, double scale,
                      const int32_t *ids, const void *table, void *y);
    void (*embedding_dw)(int64_t t, int64_t h, int64_t lo, int64_t hi, double scale,
                         const int32_t *ids, const void *dy, bool add, void *dtable);
    /* Over the last dimension h of `rows` rows, times one + w. b NULL: RMSNorm, else LayerNorm. */
    void (*norm)(int64_t rows, int64_t h, double eps, double one, const void *x,
                 const void *w, const void *b, void *y);
    void (*norm_dx)(int64_t rows, int64_t h, double eps, double one, bool centred, const void *dy,
                    const void *x, const void *w, void *dx);
    /* db NULL: RMSNorm. */
    void (*norm_dw)(int64_t rows, int64_t h, double eps, const void *dy, const void *x, bool add,
                    void *dw, void *db);
    /* x, y [t x heads x d], turned by core/graph/turns.h; back: the other way, which is the
     * gradient. */
    void (*rope)(int64_t t, int64_t heads, int64_t d, luo_turns turns, bool back,
                 const int32_t *positions, const void *x, void *y);
    /* Latent attention: the last `turned` elements of q [t x heads x d], and shared [t x turned],
     * which goes behind k [t x heads x d - turned]; y [t x heads x d]. Backward adds up the shared
     * part over the heads. */
    void (*latent)(int64_t t, int64_t heads, int64_t d, int64_t turned, luo_turns turns,
                   const int32_t *positions, const void *q, const void *k, const void *shared,
                   void *yq, void *yk);
    void (*latent_dx)(int64_t t, int64_t heads, int64_t d, int64_t turned, luo_turns turns,
                      const int32_t *positions, const void *dyq, const void *dyk, void *dq,
                      void *dk, void *dshared);
    /* q [t x n x d], o [t x n x u], k [t x g x d], v [t x g x u], rows [t x n]: log of the
     * sum of exp of the scaled scores. work: attention_work(..) bytes. */
    size_t (*attention_work)(int64_t t, const luo_heads *heads, const luo_documents *docs,
                             bool backward);
    void (*attention)(int64_t t, const luo_heads *heads, const luo_documents *docs, const void *q,
                      const void *k, const void *v, void *o, void *rows, void *work);
    void (*attention_dx)(int64_t t, const luo_heads *heads, const luo_documents *docs,
                         const void *dout, const void *o, const void *rows, const void *q,
                         const void *k, const void *v, void *dq, void *dk, void *dv, void *work);
    /* The same where tokens lie out of order, a block of queries and keys at a time: o [nq x n x d]
     * and rows [nq x n] become those of the keys so far, and queries that have seen none have o 0
     * and rows -INFINITY. Backward makes dk, dv [nk x g x d] and adds to dq [nq x n x d]; pads
     * give and take nothing. work: block_work(..) bytes. */
    size_t (*block_work)(const luo_block *b, const luo_heads *heads, bool backward);
    void (*attention_block)(const luo_block *b, const luo_heads *heads, const void *q,
                            const void *k, const void *v, void *o, void *rows, void *work);
    void (*attention_block_dx)(const luo_block *b, const luo_heads *heads, const void *dout,
                               const void *o, const void *rows, const void *q, const void *k,
                               const void *v, void *dq, void *dk, void *dv, void *work);
    void (*swiglu)(int64_t n, const void *gate, const void *up, void *y, void *silu);
    void (*swiglu_dx)(int64_t n, const void *dy, const void *gate, const void *up,
                      const void *silu, void *dgate, void *dup);
    void (*geglu)(int64_t n, const void *gate, const void *up, void *y, void *gelu); /* as gelu */
    void (*geglu_dx)(int64_t n, const void *dy, const void *gate, const void *up,
                     const void *gelu, void *dgate, void *dup);
    void (*gelu)(int64_t n, const void *x, void *y); /* tanh form, as gpt2 */
    void (*gelu_dx)(int64_t n, const void *dy, const void *x, void *dx);
    void (*gelu_erf)(int64_t n, const void *x, void *y); /* x Phi(x), as gpt_neox */
    void (*gelu_erf_dx)(int64_t n, const void *dy, const void *x, void *dx);
    void (*relu)(int64_t n, const void *x, void *y);
    void (*relu_dx)(int64_t n, const void *dy, const void *x, void *dx);
    void (*add)(int64_t n, int32_t count, const void *const *x, void *y); /* y may be x[0] */
    /* logits, probabilities [t x experts], weights, ids [t x k]; ids are whole numbers, -1 - e:
     * dropped by the capacity of expert e among these tokens, weight 0, though other weights may
     * have been divided by a sum with it. Gates that look at one token. load
     * [experts]: how often each was chosen, also by those that were dropped; NULL: not wanted.
     * Backward adds `balance` times load to the gradient of every probability, or times that of
     * alignment (sam). work: 8 (5 experts + k + 4) bytes. pad [t]: not 0: a token that is no data,
     * and counts nowhere; NULL: there is none.
     */
    void (*route)(int64_t t, const luo_gate *gate, const void *logits, const unsigned char *pad,
                  void *weights, void *ids, void *probabilities, void *load, void *work);
    /* By hashes of the tokens' ids: experts [t], -1 - e: dropped. work: as above. */
    void (*route_hash)(int64_t t, const luo_gate *gate, const int32_t *tokens, void *ids,
                       void *work);
    /* Balanced assignment: experts [t] as the tokens were dealt, -1: none; the rest as `route`. */
    void (*route_dealt)(int64_t t, int32_t experts, const int32_t *dealt, const void *logits,
                        void *weights, void *ids, void *probabilities);
    void (*route_dx)(int64_t t, const luo_gate *gate, const void *dweights, const void *weights,
                     const void *ids, const void *probabilities, const unsigned char *pad,
                     const void *load, double balance, void *dlogits);
    /* Sum over tokens and experts of probability times load; of sam the loss of alignment. */
    double (*balance)(int64_t t, const luo_gate *gate, const void *ids, const void *probabilities,
                      const unsigned char *pad, const void *load);
    /* rows [as many as choices that are not dropped x h], by (expert, token); counts [experts].
     * combine: y = sum of the rows of a token times their weights; weights NULL: 1, which is the
     * gradient of pack; then combine_dx makes drows alone. work: of route. */
    void (*pack)(int64_t t, int64_t h, int32_t experts, int32_t k, const void *x, const void *ids,
                 void *rows, void *counts, void *work);
    void (*combine)(int64_t t, int64_t h, int32_t experts, int32_t k, const void *rows,
                    const void *ids, const void *weights, void *y, void *work);
    void (*combine_dx)(int64_t t, int64_t h, int32_t experts, int32_t k, const void *dy,
                       const void *ids, const void *weights, const void *rows, void *drows,
                       void *dweights, void *work);
    /* x, y [t x h], logits [t]: y = sigmoid(logit) x. */
    void (*token_gate)(int64_t t, int64_t h, const void *logits, const void *x, void *y);
    void (*token_gate_dx)(int64_t t, int64_t h, const void *dy, const void *logits, const void *x,
                          void *dlogits, void *dx);
    /* Cross-entropy over a vocabulary cut among devices; columns lo.. lie here, v of which the
     * first n are tokens: the rest pad it, and have exponentials and gradients of 0. A label
     * below 0 is no target: its loss and gradient are 0. softcap c: of c tanh(x / c) of the logits,
     * 0: of the logits; loss_dx reads max then alone. */
    void (*row_max)(int64_t t, int64_t v, int64_t n, const void *logits, void *max,
                    double softcap);
    void (*row_sum)(int64_t t, int64_t v, int64_t n, const void *logits, const void *max,
                    void *sum, void *exp, double softcap);
    void (*row_target)(int64_t t, int64_t v, int64_t lo, const void *logits, const int32_t *labels,
                       void *target, double softcap);
    void (*loss)(int64_t t, const void *max, const void *sum, const void *target,
                 const int32_t *labels, double scale, void *loss);
    void (*loss_dx)(int64_t t, int64_t v, int64_t lo, const void *exp, const void *sum,
                    const int32_t *labels, double scale, void *dlogits, const void *max,
                    double softcap);
    void (*sum)(int64_t n, const void *x, bool add, void *out);
    double (*sum_squares)(int64_t n, const void *x);
    void (*adamw)(int64_t n, const luo_adam *a, const void *grad, void *w, void *m, void *v);
} luo_kernels;

extern const luo_kernels luo_kernels_f32, luo_kernels_f64; /* exec/host */
#endif
