/* bound_internal.h: what the files of bound.h share; nobody else includes it. */
#ifndef LUO_EXEC_BIND_BOUND_INTERNAL_H
#define LUO_EXEC_BIND_BOUND_INTERNAL_H
#include "exec/bind/bound.h"

typedef struct luo_binder {
    luo_arena *arena;
    luo_bound *b;
    luo_err *err;
} luo_binder;

/* bound_ops.c. Binds a COMPUTE, or a LOCAL that belongs to no Reshard. */
luo_status luo_bind_op(luo_binder *binder, luo_bound_op *op);
/* bound_comm.c. All others. */
luo_status luo_bind_comm(luo_binder *binder, luo_bound_op *op);
/* Where what goes ahead lies in the room of its task. */
void luo_bind_rooms(luo_bound *bound);
/* World ranks of the messages of a P2P. */
luo_status luo_bind_peers(luo_binder *binder, const luo_bound_op *op, luo_bound_comm *comm);
/* bound_trade.c */
luo_status luo_bind_trade(luo_binder *binder, const luo_bound_op *op, luo_bound_comm *comm);
/* bound_update.c */
luo_status luo_bind_pieces(luo_binder *binder);
luo_status luo_bind_copies(luo_binder *binder);
luo_status luo_bind_update(luo_binder *binder, luo_bound_op *op);

static inline const luo_buffer *luo_op_in(const luo_binder *binder, const luo_bound_op *op,
                                          int32_t i)
{
    return luo_bound_desc(binder->b, op->instr->in[i]);
}
static inline const luo_buffer *luo_op_out(const luo_binder *binder, const luo_bound_op *op,
                                           int32_t i)
{
    return luo_bound_desc(binder->b, op->instr->out[i]);
}
#endif
