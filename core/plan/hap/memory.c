/* What a program holds on a device. */
#include <math.h>

#include "core/plan/hap/program.h"
#include "core/plan/hap/space_internal.h"

double luo_hap_state_bytes(const luo_hap_graph *graph)
{
    return graph->elem_bytes == 2 ? 18 : 4 * (double)graph->elem_bytes;
}

luo_status luo_hap_state_fits(const luo_hap_graph *graph, const luo_hap_numbers *numbers,
                              luo_err *err)
{
    double state = 0, room = 0;
    for (int32_t i = 0; i < graph->ntensors; i++)
        if (graph->tensor[i].role == LUO_HAP_PARAM)
            state += luo_hap_state_bytes(graph) * (double)graph->tensor[i].elements;
    for (int32_t t = 0; t < numbers->ntypes; t++) {
        if (!(numbers->memory_bytes[t] > 0)) return LUO_OK;
        room += numbers->count[t] * numbers->memory_bytes[t];
    }
    if (state <= room) return LUO_OK;
    return luo_err_set(err, LUO_EINFEASIBLE,
                       "no plan fits: one copy of parameters, gradients and optimizer state needs "
                       "%.1f GiB, all devices have %.1f GiB; try more devices.",
                       state / 0x1p30, room / 0x1p30);
}

static luo_hap_bytes held(const luo_hap_space *space, int32_t tensor, luo_rel rel, double bytes)
{
    luo_hap_bytes out = {.bytes = bytes, .ext = -1, .fact = -1};
    if (rel.kind == LUO_REL_G) {
        out.seg = rel.seg;
        out.ext = luo_hap_space_extent(space, space->graph->tensor[tensor].dim[rel.dim]);
    }
    return out;
}

static int32_t of_param(const luo_hap_space *space, const luo_hap_triple *triple, int32_t j,
                        luo_hap_bytes *out)
{
    const luo_hap_op *op = &space->graph->op[triple->op];
    const luo_hap_take *take = &triple->take[j];
    const luo_hap_tensor *tensor = &space->graph->tensor[op->in[j]];
    luo_rel rel = take->to;
    if (take->how == LUO_HAP_HOW_KEPT) return 0; /* counted where it is made */
    if (take->how == LUO_HAP_HOW_ZERO)
        rel = (luo_rel){.kind = LUO_REL_G, .dim = 0, .seg = (uint16_t)op->segment};
    out[0] =
        held(space, op->in[j], rel, luo_hap_state_bytes(space->graph) * (double)tensor->elements);
    if (take->how != LUO_HAP_HOW_ZERO) return 1;
    /* Gathered, and in backward its gradient beside it, before that is cut. */
    out[1] = (luo_hap_bytes){
        .bytes = 2 * (double)tensor->bytes, .ext = -1, .fact = -1, .transient = true};
    return 2;
}

int32_t luo_hap_bytes_of(const luo_hap_space *space, const luo_hap_triple *triple,
                         luo_hap_bytes out[LUO_HAP_BYTES_MOST])
{
    const luo_hap_op *op = &space->graph->op[triple->op];
    int32_t n = 0;
    for (int32_t j = 0; j < op->nin; j++) {
        const luo_hap_tensor *tensor = &space->graph->tensor[op->in[j]];
        if (tensor->role == LUO_HAP_PARAM) n += of_param(space, triple, j, &out[n]);
        if (tensor->role != LUO_HAP_INPUT) continue;
        out[n] = held(space, op->in[j], triple->take[j].to, (double)tensor->bytes);
        out[n++].fact = luo_hap_space_fact_id(space, op->in[j], triple->take[j].to);
    }
    for (int32_t p = 0; p < triple->npost; p++) {
        const luo_hap_fact fact = luo_hap_space_fact(space, triple->post[p]);
        const luo_hap_tensor *tensor = &space->graph->tensor[fact.tensor];
        if (tensor->role == LUO_HAP_PARAM ||
            triple->post[p] == luo_hap_space_moved(space, fact.tensor))
            continue;
        out[n] = held(space, fact.tensor, fact.rel, (double)tensor->bytes);
        out[n++].fact = triple->post[p];
    }
    return n;
}

luo_status luo_hap_program_bytes(luo_arena *arena, const luo_hap_program *program,
                                 luo_hap_bytes_fn *each, void *ctx, double *largest, luo_err *err)
{
    const luo_hap_space *space = program->space;
    const size_t mark = luo_arena_mark(arena);
    bool *seen = LUO_NEW_N(arena, bool, space->nfacts);
    if (!seen) return luo_err_nomem(err);
    *largest = 0;
    for (int32_t o = 0; o < space->graph->nops; o++) {
        luo_hap_bytes part[LUO_HAP_BYTES_MOST];
        const int32_t n = luo_hap_bytes_of(space, &space->triple[program->choice[o]], part);
        for (int32_t i = 0; i < n; i++) {
            if (part[i].transient) *largest = fmax(*largest, part[i].bytes);
            if (part[i].transient || (part[i].fact >= 0 && seen[part[i].fact])) continue;
            if (part[i].fact >= 0) seen[part[i].fact] = true;
            each(ctx, &part[i]);
        }
    }
    luo_arena_reset(arena, mark);
    return LUO_OK;
}

typedef struct sum {
    const luo_hap_cuts *cuts;
    double *bytes;
} sum;

static void add(void *ctx, const luo_hap_bytes *part)
{
    const sum *s = ctx;
    const luo_hap_cuts *cuts = s->cuts;
    for (int32_t t = 0; t < cuts->ntypes; t++)
        s->bytes[t] +=
            part->bytes *
            (part->ext < 0
                 ? 1
                 : cuts->part[(part->seg * cuts->nextents + part->ext) * cuts->ntypes + t]);
}

luo_status luo_hap_program_memory(luo_arena *arena, const luo_hap_program *program,
                                  const luo_hap_cuts *cuts, double *bytes, luo_err *err)
{
    double largest;
    sum s = {cuts, bytes};
    for (int32_t t = 0; t < cuts->ntypes; t++) bytes[t] = 0;
    LUO_TRY(luo_hap_program_bytes(arena, program, add, &s, &largest, err));
    for (int32_t t = 0; t < cuts->ntypes; t++) bytes[t] += largest;
    return LUO_OK;
}
