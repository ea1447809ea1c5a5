/* program.c: names, lanes and look-up. */
#include "core/graph/program/program.h"

#include <assert.h>

/* Kernels one after another as torch has them without a compiler (aten's rms_norm in parts, Llama's
 * complex positions), counted by hand. */
const luo_eager luo_eager_norm[2] = {{4, 7}, {8, 17}}, luo_eager_rope = {2, 4},
                luo_eager_gate[2] = {{5, 0}, {9, 0}};

const char *luo_stream_name(luo_stream s)
{
    static const char *const names[LUO_STREAMS] = {"compute", "tp", "pp", "dp", "move", "io"};
    assert(s < LUO_STREAMS);
    return names[s];
}

const char *luo_phase_name(luo_phase p)
{
    static const char *const names[] = {"pre", "F", "B", "post", "switch", "BI", "BW"};
    assert(p < LUO_PHASES);
    return names[p];
}

const char *luo_instr_kind_name(luo_instr_kind k)
{
    static const char *const names[] = {"COMPUTE", "COLLECTIVE", "P2P", "LOCAL", "IO"};
    assert(k <= LUO_INSTR_IO);
    return names[k];
}

const char *luo_coll_name(luo_coll c)
{
#define NAME(coll, name) name,
    static const char *const names[] = {LUO_COLL_LIST(NAME)};
#undef NAME
    return (unsigned)c < LUO_COLLS ? names[c] : NULL;
}

const char *luo_coll_variant_name(luo_coll_variant v)
{
#define NAME(variant, name) name,
    static const char *const names[] = {LUO_COLL_VARIANT_LIST(NAME)};
#undef NAME
    assert(v < LUO_COLL_VARIANTS);
    return names[v];
}

int32_t luo_instr_lane(const luo_instr *instr)
{
    if (instr->stream == LUO_STREAM_DP && instr->lane > 0) return LUO_LANE_DP_1 + instr->lane - 1;
    if (instr->stream != LUO_STREAM_PP) return instr->stream;
    const bool send = instr->bytes > 0;
    if (luo_phase_is_backward(instr->phase)) return send ? LUO_LANE_PP_B_SEND : LUO_LANE_PP_B_RECV;
    return send ? LUO_STREAM_PP : LUO_LANE_PP_F_RECV;
}

bool luo_instr_goes_ahead(const luo_instr *instr)
{
    return instr->kind == LUO_INSTR_P2P && instr->stream == LUO_STREAM_PP && instr->bytes == 0 &&
           luo_phase_in_task(instr->phase) && instr->ndep == 0 && instr->nin == 0 &&
           !instr->at_start;
}

int32_t luo_program_lane_peer(int32_t lane)
{
    switch (lane) {
    case LUO_STREAM_PP: return LUO_LANE_PP_F_RECV;
    case LUO_LANE_PP_F_RECV: return LUO_STREAM_PP;
    case LUO_LANE_PP_B_SEND: return LUO_LANE_PP_B_RECV;
    case LUO_LANE_PP_B_RECV:
        return LUO_LANE_PP_B_SEND;
    }
    return lane; /* both ends of a collective are in lanes of one number */
}

const luo_program *luo_programs_find(const luo_programs *set, int32_t device)
{
    int32_t lo = 0, hi = set->n;
    while (lo < hi) {
        const int32_t mid = lo + (hi - lo) / 2;
        if (set->at[mid].device < device) lo = mid + 1;
        else hi = mid;
    }
    return lo < set->n && set->at[lo].device == device ? &set->at[lo] : NULL;
}

void luo_role_order(const luo_role *role, int32_t *turn)
{
    int32_t n = 0;
    for (int32_t b = 0; b < role->nbuf; b++) turn[b] = -1;
    for (int32_t i = 0; i < role->ninstr; i++) {
        const luo_instr *in = &role->instr[i];
        for (int32_t k = 0; in->coll == LUO_COLL_AR && k < in->npieces; k++)
            if (turn[in->piece[k].buffer] < 0) turn[in->piece[k].buffer] = n++;
    }
    for (int32_t b = 0; b < role->nbuf; b++)
        if (turn[b] < 0 && role->buf[b].buffer_class <= LUO_BUFFER_OPTIMIZER) turn[b] = n++;
}

bool luo_instr_adjoins(const luo_role *role, const int32_t *turn, const luo_instr *instr)
{
    if (instr->coll != LUO_COLL_AR) return false; /* parts of a rank are apart in every tensor */
    for (int32_t k = 0; k < instr->npieces; k++) {
        const luo_instr_piece *p = &instr->piece[k];
        const luo_buffer *buffer = &role->buf[p->buffer];
        if (p->count * buffer->elem_bytes != buffer->bytes) return false;
        if (k == 0) continue;
        const luo_instr_piece *q = p - 1;
        if (turn[p->buffer] != turn[q->buffer] + 1 ||
            role->buf[q->buffer].bytes % LUO_BUFFER_ALIGN != 0)
            return false;
    }
    return true;
}

const char *luo_op_info_kind(const luo_op_info *op)
{
    return op->kind < LUO_OP_KINDS ? luo_op_kind_name(op->kind) : op->name;
}

static bool lie_apart(const luo_role *role, int32_t n, const int32_t *buffers)
{
    for (int32_t k = 0; k < n; k++)
        if (role->buf[buffers[k]].buffer_class > LUO_BUFFER_OPTIMIZER) return false;
    return true;
}

bool luo_instr_runs_beside(const luo_role *role, const luo_instr *instr)
{
    return luo_instr_is_call(instr) && !instr->at_start && !instr->beside &&
           (instr->phase == LUO_PHASE_PRE || instr->phase == LUO_PHASE_POST) &&
           lie_apart(role, instr->nin, instr->in) && lie_apart(role, instr->nout, instr->out);
}
