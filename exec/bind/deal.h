/* deal.h: balanced assignment of a micro-batch's tokens to experts, as every device of a pipeline
 * works it out for itself. */
#ifndef LUO_EXEC_BIND_DEAL_H
#define LUO_EXEC_BIND_DEAL_H
#include "exec/data/batch.h"

/* logits [tokens of mb x experts], reals of `elem` bytes. own[rows]: experts of tokens lo.. of it,
 * -1: a pad, which goes to none. In the order of the data, so that choices do not depend on how
 * tokens are cut; all devices find the same. Errors: LUO_ENOMEM. Scratch: arena. Cost: that of
 * luo_gate_deal. */
luo_status luo_deal_tokens(luo_arena *arena, const luo_micro_batch *mb, int32_t experts,
                           const void *logits, size_t elem, int64_t lo, int64_t rows, int32_t *own,
                           luo_err *err);
#endif
