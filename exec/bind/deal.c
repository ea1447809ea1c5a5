#include "exec/bind/deal.h"

/* Place of a token in the data of the micro-batch, whatever its devices; -1: a pad. */
static int64_t place_of(const luo_micro_batch *mb, int64_t i)
{
    return luo_batch_is_pad(mb, i) ? -1 : mb->source ? mb->source[i] : i;
}

luo_status luo_deal_tokens(luo_arena *arena, const luo_micro_batch *mb, int32_t experts,
                           const void *logits, size_t elem, int64_t lo, int64_t rows, int32_t *own,
                           luo_err *err)
{
    double *scores = LUO_NEW_N(arena, double, mb->data_tokens *experts);
    int32_t *expert = LUO_NEW_N(arena, int32_t, mb->data_tokens);
    if (!scores || !expert) return luo_err_nomem(err);
    for (int64_t i = 0; i < mb->tokens; i++) {
        const int64_t at = place_of(mb, i);
        for (int64_t e = 0; at >= 0 && e < experts; e++)
            scores[at * experts + e] = elem == sizeof(float)
                                           ? (double)((const float *)logits)[i * experts + e]
                                           : ((const double *)logits)[i * experts + e];
    }
    LUO_TRY(luo_gate_deal(arena, mb->data_tokens, experts, scores, expert, err));
    for (int64_t i = 0; i < rows; i++) {
        const int64_t at = place_of(mb, lo + i);
        own[i] = at < 0 ? -1 : expert[at];
    }
    return LUO_OK;
}
