/* sights.h: who sees whom in blocks of queries and keys whose tokens lie out of order, as
 * context-parallel ranks have them. Put into the order of the data, the keys that a query sees are
 * neighbours, and so are the queries that see a key: kernels need no more than where these begin
 * and end. Pure: no CUDA in here. */
#ifndef LUO_EXEC_CUDA_CONTEXT_SIGHTS_H
#define LUO_EXEC_CUDA_CONTEXT_SIGHTS_H
#include "exec/data/batch.h"

/* Values that the lists of a block take: gpu_block of exec/cuda/kernels/kernels.h has them. */
int64_t gpu_sights_values(const luo_block *block);

/* The tokens of a micro-batch in the order of the data, pads last. order, room: [mb->tokens].
 * Pre: mb->source. */
void gpu_sights_order(const luo_micro_batch *mb, int32_t *order, int32_t *room);

/* out: gpu_sights_values, one list behind the other:
 *   nq  queries, as places in the block, in the order of the data, pads last
 *   nq  of each of these the first key that it sees, counted in the order of the list of keys
 *   nq  .. and the one after the last
 *   nk  keys, as queries
 *   nk  of each of these the first query that sees it, counted in the list of queries
 *   nk  .. and the one after the last
 * Beginnings and ends ascend. A pad sees nobody and is seen by nobody.
 * window: a token sees itself and so many less 1 before it; 0: all. Pre: then causal.
 * Cost: O(tokens of the micro-batch). See: tests/cuda/check_block.c. */
void gpu_sights_fill(const luo_micro_batch *mb, const int32_t *order, const luo_block *block,
                     bool causal, int64_t window, int32_t *out);
#endif
