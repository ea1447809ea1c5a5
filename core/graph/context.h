/* context.h: how the devices of a stage share the tokens of a sequence (context
 * parallelism). Pure numbers: no graph, no annotation, no time.
 *
 * Rank r of c ranks; shares w_r, W their sum once the common divisor is taken out. Ranks lie in
 * parts of `inner` neighbours: neighbours exchange heads for tokens (all to all), so that a part
 * computes as one; parts pass keys and values round in a ring (Liu et al. 2023). A sequence is cut
 * by parts, and a part among its ranks:
 *   contiguous  part o has the o-th piece;
 *   zigzag      2 pieces a part, o and 2n-1-o of n parts: under a causal mask every part has the
 *               same work whatever its share (Brandon et al. 2023).
 * Tokens are reordered to the pieces of rank 0 of all sequences, those of rank 1, and so on: then
 * the cut of the token dimension is an ordinary split.
 */
#ifndef LUO_CORE_GRAPH_CONTEXT_H
#define LUO_CORE_GRAPH_CONTEXT_H
#include <stdbool.h>
#include <stdint.h>

enum { LUO_CONTEXT_SHARES = 64 }; /* sum of the shares at most; so are the ranks */

typedef struct luo_context {
    int32_t c;     /* ranks; 0 or 1: tokens are not cut */
    int32_t inner; /* ranks of a part: 1 a ring, c all to all; divides c */
    bool zigzag;
    const uint32_t *share; /* c values; NULL: all equal */
} luo_context;

typedef struct luo_context_piece {
    int64_t lo, hi; /* tokens lo..hi-1 of a sequence */
} luo_context_piece;

static inline bool luo_context_is_on(const luo_context *context)
{
    return context && context->c > 1;
}
/* Parts of the ring. */
static inline int32_t luo_context_parts(const luo_context *context)
{
    return luo_context_is_on(context) ? context->c / context->inner : 1;
}
/* Share of a rank once the common divisor of all is taken out, and their sum W. */
int64_t luo_context_share(const luo_context *context, int32_t rank);
int64_t luo_context_sum(const luo_context *context);
/* Sequences are padded to a multiple of this: 2W zigzag, W else; then every cut is exact. */
int64_t luo_context_multiple(const luo_context *context);
int64_t luo_context_pad(int64_t tokens, int64_t multiple);

/* What a rank has of a sequence of n tokens, in the order in which it keeps it; the number of
 * pieces, 0 to 2. Empty ones are left out. Sizes that do not cut exactly are rounded: the largest
 * remainders get one more. */
int32_t luo_context_pieces(const luo_context *context, int64_t n, int32_t rank,
                           luo_context_piece out[2]);
/* The same for part o as a whole, and the tokens of it. */
int32_t luo_context_part(const luo_context *context, int64_t n, int32_t o,
                         luo_context_piece out[2]);
int64_t luo_context_part_tokens(const luo_context *context, int64_t n, int32_t o);

/* (query, key) pairs of queries of part q and keys of part k in a sequence of n tokens, with the
 * diagonal. `halves`: the diagonal counts half, as the cost of attention has it (s^2 / 2 a
 * sequence). In halves of a pair, so that it stays whole. Cost: O(1). */
int64_t luo_context_half_pairs(const luo_context *context, int64_t n, bool causal, bool halves,
                               int32_t q, int32_t k);

/* Reorders `rows` sequences of n tokens each, one behind the other: place p of the result comes
 * from place source[p]. source: rows * n values. */
void luo_context_order(const luo_context *context, int64_t rows, int64_t n, int32_t *source);
#endif
