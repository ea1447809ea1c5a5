/* alltoall_move.h: which row ends where in three exchanges of experts' rows. */
#ifndef LUO_TESTS_PARKED_ALLTOALL_MOVE_H
#define LUO_TESTS_PARKED_ALLTOALL_MOVE_H
#include "core/graph/moe/alltoall.h"

/* Place of row i of a leader's buffer of G devices' rows before the nodes exchange, and after: from
 * (device, node, peer, row) to (node, peer, device, row), and back. */
int64_t luo_alltoall_gathered(const luo_alltoall *x, int64_t i);
int64_t luo_alltoall_dealt(const luo_alltoall *x, int64_t i);

/* Moves row ids: in, out [M x M c]; work: as many. All three kinds give the same. */
void luo_alltoall_move(const luo_alltoall *x, luo_alltoall_kind kind, const int64_t *in,
                       int64_t *out, int64_t *work);
#endif
