/* gate.h: the gates of a mixture of experts.
 *
 * Notation: T tokens, E experts, k choices of a token, C rows that an expert takes.
 * Shapes: logits [T x E]; expert, weight, location [T x k], choices of a token side by side.
 * Order:  ties always go to the lowest expert; whatever is counted is counted token by token.
 * Source: top-k Shazeer et al. 2017, capacity and auxiliary loss Fedus et al. 2021, balanced
 *         assignment Lewis et al. 2021, groups of a node (SAM) and k-top-1 the HetuMoE paper,
 *         sigmoid with a bias and route groups the DeepSeek-V3 report, those of top-k by their best
 *         expert DeepSeek-V2 (group_limited_greedy).
 */
#ifndef LUO_CORE_GRAPH_MOE_GATE_H
#define LUO_CORE_GRAPH_MOE_GATE_H
#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/base/words.h"

/*   topk      softmax; the k largest, in route groups
 *   ktop1     k prototypes of E / k experts, the best of each
 *   hash      by the token's id; weight 1
 *   sam       the best group of experts, then the k best in it
 *   balanced  T / E tokens an expert; weight: sigmoid of the score
 *   sigmoid   sigmoid of each; chosen by score and bias, in route groups */
#define LUO_GATE_LIST(X)                                                                           \
    X(LUO_GATE_TOPK, "topk")                                                                       \
    X(LUO_GATE_KTOP1, "ktop1")                                                                     \
    X(LUO_GATE_HASH, "hash")                                                                       \
    X(LUO_GATE_SAM, "sam")                                                                         \
    X(LUO_GATE_BALANCED, "balanced")                                                               \
    X(LUO_GATE_SIGMOID, "sigmoid")
typedef enum luo_gate_kind { LUO_GATE_LIST(LUO_WORD_VALUE) } luo_gate_kind;
const char *luo_gate_kind_name(luo_gate_kind kind); /* "topk" */

enum { LUO_GATE_CHOICES = 256 }; /* of a token at most */

typedef struct luo_gate {
    luo_gate_kind kind;
    int32_t experts, k;
    double capacity_factor; /* 0: nothing is dropped */
    bool renorm;            /* top-k: weights of a token are divided by their sum */
    double scale;           /* top-k, sigmoid: factor of them; 0: 1 */
    int32_t groups;         /* sam, top-k, sigmoid: of neighbouring experts; 0: 1 */
    int32_t groups_kept;    /* top-k, sigmoid: 0: all */
    const double *bias;     /* sigmoid: E values; NULL: zeros */
} luo_gate;

/* Are the weights of a token divided by their sum? */
static inline bool luo_gate_divides(const luo_gate *gate)
{
    return gate->kind == LUO_GATE_TOPK ? gate->renorm : gate->kind == LUO_GATE_SIGMOID;
}
/* What they are multiplied by then. */
static inline double luo_gate_scale(const luo_gate *gate)
{
    const bool scales = gate->kind == LUO_GATE_TOPK || gate->kind == LUO_GATE_SIGMOID;
    return scales && gate->scale > 0 ? gate->scale : 1;
}

/* Rows that an expert takes of so many tokens; capacity_factor 0: 0, nothing is dropped. */
int64_t luo_gate_capacity(const luo_gate *gate, int64_t tokens);
/* Of choices, those that are not dropped where all experts are chosen equally often, but for what
 * capacity is rounded up by. */
double luo_gate_kept(double capacity_factor);

/* The auxiliary loss is aux_loss E sum_e mean_i(p_ie) mean_i(mask_ie) of a micro-batch of a
 * pipeline (E: of a prototype), of sam the mean of what is not aligned, by its `tokens` over those
 * of the step. Masks are constants of its gradient, and the loss is linear in the probabilities, so
 * that every device adds the part of its own tokens. This is what a term of that sum is multiplied
 * by; 0: there is no loss. */
double luo_gate_aux_weight(const luo_gate *gate, double aux_loss, int64_t tokens, int64_t step);

/* Errors: LUO_EINPUT `gate: ..` for k and groups that do not fit the experts. */
luo_status luo_gate_check(const luo_gate *gate, luo_err *err);

/* Room that luo_gate_choose works in, in doubles. */
int64_t luo_gate_work(const luo_gate *gate);
/* Choices of one token; no kind that looks at all tokens (balanced).
 * Shapes: logits E, NULL for hash; probability E: softmax or sigmoid; expert, weight k.
 * Pre:    luo_gate_check passed; work: luo_gate_work(gate) doubles.
 * Cost:   O(E k). */
void luo_gate_choose(const luo_gate *gate, const double *logits, int32_t id, double *probability,
                     int32_t *expert, double *weight, double *work);

/* Experts by the auction of balanced assignment, within T * eps of the best sum of scores.
 * Pre: experts divides tokens. rounds: of the auction; NULL: not wanted. Errors: LUO_ENOMEM. */
luo_status luo_gate_balance(luo_arena *arena, int64_t tokens, int32_t experts, const double *scores,
                            int32_t *expert, int32_t *rounds, luo_err *err);
/* The same for any number of tokens: no expert gets more than T / E, rounded up. Tokens that all
 * experts value alike stand for those that are missing. A score that is no number: dealt in turn.
 * Errors: LUO_ENOMEM. Cost: O(T E log T) a round. See: tests/unit/check_moe.c */
luo_status luo_gate_deal(luo_arena *arena, int64_t tokens, int32_t experts, const double *scores,
                         int32_t *expert, luo_err *err);
#endif
