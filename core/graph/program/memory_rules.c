#include "core/graph/program/memory_rules.h"

#include <math.h>
#include <string.h>

int64_t luo_memory_score_bytes(const luo_memory_rules *rules, int64_t elem_bytes)
{
    if (!rules->attention_unfused) return 0;
    return rules->dropout ? 2 * elem_bytes + 1 : elem_bytes;
}

static bool is(const luo_programs *set, const luo_instr *instr, luo_op_kind kind)
{
    return instr->kind == LUO_INSTR_COMPUTE && set->ops[instr->op].kind == kind;
}

static int64_t scores(const luo_programs *set, const luo_role *role, const luo_instr *instr)
{
    const int64_t *a = instr->cost.a; /* heads here, head_dim, tokens, sequence tokens, -, pairs */
    return a[0] * (a[5] > 0 ? a[5] : a[2] * a[3]) *
           luo_memory_score_bytes(&set->memory, role->buf[instr->in[0]].elem_bytes);
}

/* Selective recompute: forward drops the scores, backward makes them again. */
static bool drops_scores(const luo_programs *set, const luo_instr *instr)
{
    return set->selective && instr->layer >= 0 && set->selective[instr->layer];
}

static int64_t elements(const luo_buffer *buffer)
{
    return buffer->bytes / buffer->elem_bytes;
}

/* Its input has another reader only in forward: the sum that the layer ends with. */
static bool is_second_norm(const luo_programs *set, const luo_instr *instr)
{
    const char *name = set->ops[instr->op].name, *dot = strrchr(name, '.');
    return instr->layer >= 0 && is(set, instr, LUO_OP_NORM) && dot && strcmp(dot, ".norm2") == 0;
}

/* What the stack keeps of an operation's results beside what its gradient reads, or does without.
 */
static void keep(const luo_programs *set, const luo_role *role, const luo_instr *instr,
                 int64_t *out)
{
    const luo_memory_rules *rules = &set->memory;
    const luo_buffer *first = &role->buf[instr->out[0]];
    const luo_buffer *second = instr->nout > 1 ? &role->buf[instr->out[1]] : NULL;
    const luo_op_kind kind = set->ops[instr->op].kind;
    if (rules->norm2_again && is_second_norm(set, instr)) out[instr->in[0]] = 0;
    if (rules->expert_weights_inside && kind == LUO_OP_COMBINE && instr->nin > 2)
        out[instr->in[0]] = 0;
    switch (kind < LUO_OP_KINDS ? luo_op_desc_of(kind)->keeps : LUO_OP_KEEPS_NOTHING) {
    case LUO_OP_KEEPS_NOTHING:
        return;
    case LUO_OP_KEEPS_MASK:
        if (rules->dropout && instr->layer >= 0 && first->rank == 2)
            out[instr->out[0]] = first->bytes + elements(first);
        return;
    case LUO_OP_KEEPS_SCORES:
        if (second && instr->cost.kind == LUO_COST_ATTENTION_F && !drops_scores(set, instr))
            out[instr->out[1]] = second->bytes + scores(set, role, instr);
        return;
    case LUO_OP_KEEPS_SILU:
        if (second && rules->silu_again) out[instr->out[1]] = 0;
        return;
    case LUO_OP_KEEPS_LOGITS:
        if (second && rules->cross_entropy_unfused)
            out[instr->out[1]] = second->bytes + 4 * elements(second);
        return;
    }
}

void luo_memory_bytes(const luo_programs *set, const luo_role *role, int64_t *out)
{
    for (int32_t b = 0; b < role->nbuf; b++) out[b] = role->buf[b].bytes;
    for (int32_t k = 0; k < role->ninstr; k++) {
        const luo_instr *instr = &role->instr[k];
        if (instr->kind == LUO_INSTR_COMPUTE && instr->nout > 0) keep(set, role, instr, out);
    }
}

int64_t luo_memory_beside(const luo_programs *set, const luo_role *role, const luo_instr *instr)
{
    int64_t n = 0;
    if (instr->cost.kind == LUO_COST_ATTENTION_B && drops_scores(set, instr))
        n += scores(set, role, instr);
    if (!set->memory.dummy_gradients || instr->layer >= 0 || !is(set, instr, LUO_OP_MATMUL_DW))
        return n;
    for (int32_t k = 0; k < instr->nout; k++) /* of the weights' precision */
        n += elements(&role->buf[instr->out[k]]) * role->buf[instr->in[0]].elem_bytes;
    return n;
}

/* Weights that forward products of the segment's layer `layer` read. */
static int64_t matrices(const luo_programs *set, const luo_role *role, const luo_instr *instr)
{
    int64_t n = 0;
    if (instr->phase != LUO_PHASE_F || instr->layer < 0 || !is(set, instr, LUO_OP_MATMUL)) return 0;
    for (int32_t k = 1; k < instr->nin; k++) n += role->buf[instr->in[k]].bytes;
    return n;
}

int64_t luo_memory_dummies(const luo_programs *set, const luo_role *role)
{
    int64_t most = 0;
    if (!set->memory.dummy_gradients) return 0;
    for (int32_t s = 0; s < role->nseg; s++) {
        const luo_segment *seg = &role->seg[s];
        int64_t sum = 0;
        for (int32_t k = seg->first; k < seg->first + seg->n; k++) {
            const luo_instr *instr = &role->instr[k];
            if (k > seg->first && instr->layer != instr[-1].layer) sum = 0;
            sum += matrices(set, role, instr);
            if (sum > most) most = sum;
        }
    }
    return most;
}

void luo_memory_held(const luo_memory_rules *rules, int64_t weight_bytes, int64_t *gradients,
                     int64_t *optimizer)
{
    if (weight_bytes == 2 && rules->gradient_bytes > 0)
        *gradients = (int64_t)ceil((double)*gradients * rules->gradient_bytes / 4 - 1e-6);
    if (weight_bytes == 4 && rules->f32_state_bytes > 8) /* 8 of them are weights and gradients */
        *optimizer = (int64_t)ceil((double)*optimizer * (rules->f32_state_bytes - 8) / 8 - 1e-6);
}

void luo_memory_say_communicators(const luo_memory *memory, luo_str *text)
{
    if (memory->communicators > 0)
        luo_str_addf(text, ", communicators %.1f", (double)memory->communicators / 1073741824.0);
}

void luo_memory_total(const luo_memory_rules *rules, int64_t tensors, int32_t communicators,
                      luo_memory *memory)
{
    const double factor = rules->allocator_factor > 1 ? rules->allocator_factor : 1;
    const double headroom = rules->headroom_factor > 1 ? rules->headroom_factor : 1;
    memory->communicators = (int64_t)ceil(communicators * rules->communicator_bytes - 1e-6);
    memory->allocated = tensors + (int64_t)rules->framework_bytes;
    memory->peak = (int64_t)ceil((double)memory->allocated * factor - 1e-6);
    memory->needed = (int64_t)ceil((double)memory->peak * headroom - 1e-6) + memory->communicators;
    memory->peak += memory->communicators; /* no allocator takes them, none has to have room */
}
