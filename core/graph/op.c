#include "core/graph/op.h"

#include <assert.h>
#include <string.h>

const luo_op_desc *luo_op_desc_of(luo_op_kind kind)
{
    static const luo_op_desc descs[LUO_OP_KINDS] = {
#define LUO_OP(kind, name, operands, nin, nout, deduce, gradient, emit, cost, size, keeps, ...)    \
    [LUO_OP_##kind] = {name, operands, nin, nout, LUO_OP_SIZE_##size, LUO_OP_KEEPS_##keeps},
#include "core/graph/ops.inc"
#undef LUO_OP
    };
    assert(kind < LUO_OP_KINDS);
    return &descs[kind];
}

const char *luo_op_kind_name(luo_op_kind kind)
{
    return luo_op_desc_of(kind)->name;
}

luo_op_kind luo_op_kind_of(const char *name)
{
    int kind = 0;
    while (kind < LUO_OP_KINDS && strcmp(luo_op_kind_name((luo_op_kind)kind), name) != 0) kind++;
    return (luo_op_kind)kind;
}
