/* call.c: collectives of programs: how much travels, and how they are priced, by the variant in
 * which they are carried out (docs/cost-model.md#uneven-pieces). */
#include <math.h>
#include <string.h>

#include "core/cost/cost.h"

luo_cost_call luo_cost_call_of(const luo_programs *set, const luo_instr *in, const luo_slot *slot,
                               int64_t bytes)
{
    const luo_group *group = &set->groups[slot->group];
    return (luo_cost_call){.coll = in->coll,
                           .variant = in->variant,
                           .n = group->n,
                           .dev = group->dev,
                           .bytes = bytes,
                           .counts = in->variant == LUO_COLL_AUTO ? NULL : slot->counts};
}

bool luo_cost_call_equal(const luo_cost_call *a, const luo_cost_call *b)
{
    if (a->coll != b->coll || a->variant != b->variant || a->n != b->n || a->bytes != b->bytes)
        return false;
    if (a->dev != b->dev && memcmp(a->dev, b->dev, (size_t)a->n * sizeof *a->dev) != 0)
        return false;
    if (!a->counts || !b->counts) return a->counts == b->counts;
    return memcmp(a->counts, b->counts, (size_t)a->n * sizeof *a->counts) == 0;
}

/* Of piece i. */
static int64_t piece_bytes(const luo_cost_call *call, int32_t i)
{
    int64_t all = 0;
    if (!call->counts) return (call->bytes + call->n - 1) / call->n;
    for (int32_t k = 0; k < call->n; k++) all += call->counts[k];
    return all ? llround((double)call->bytes / (double)all * (double)call->counts[i]) : 0;
}

int64_t luo_cost_call_bytes(const luo_cost_call *call)
{
    int32_t longest = 0;
    if (call->variant != LUO_COLL_PADDED || !call->counts) return call->bytes;
    for (int32_t i = 1; i < call->n; i++)
        if (call->counts[i] > call->counts[longest]) longest = i;
    return call->n * piece_bytes(call, longest);
}

int32_t luo_cost_call_parts(const luo_cost_call *call)
{
    return call->variant == LUO_COLL_GROUPED ? call->n : 1;
}

luo_cost_part luo_cost_call_part(const luo_cost_call *call, int32_t i, int32_t *room)
{
    if (call->variant != LUO_COLL_GROUPED)
        return (luo_cost_part){call->coll, call->dev, luo_cost_call_bytes(call), false};
    memcpy(room, call->dev, (size_t)call->n * sizeof *room);
    memmove(room + 1, room, (size_t)i * sizeof *room);
    room[0] = call->dev[i];
    return (luo_cost_part){LUO_COLL_BCAST, room, piece_bytes(call, i), call->coll == LUO_COLL_RS};
}

double luo_cost_call_seconds(const luo_cost_ctx *ctx, const luo_cost_call *call, double share)
{
    double sum = 0;
    if (call->variant != LUO_COLL_GROUPED)
        return luo_cost_group_seconds(ctx, call->coll, call->dev, call->n,
                                      luo_cost_call_bytes(call), share);
    for (int32_t i = 0; i < call->n; i++) /* the same whichever is the root */
        sum += luo_cost_group_seconds(ctx, LUO_COLL_BCAST, call->dev, call->n, piece_bytes(call, i),
                                      share);
    return sum;
}

int32_t luo_cost_call_steps(const luo_cost_ctx *ctx, const luo_cost_call *call)
{
    int32_t steps = 0;
    if (call->variant != LUO_COLL_GROUPED)
        return luo_cost_steps(ctx, call->coll, call->dev, call->n, luo_cost_call_bytes(call));
    for (int32_t i = 0; i < call->n; i++) steps += piece_bytes(call, i) > 0;
    return steps > 1 ? steps : 1;
}
