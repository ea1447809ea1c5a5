/* Writes the plans that were kept: which group is which stage, which layers it holds, who stands
 * by. Members of a class are interchangeable here and are taken by their devices; who has a running
 * plan places them better afterwards (docs/planners.md#placement). */
#include <string.h>

#include "core/plan/malleus/malleus_internal.h"

typedef struct sealer {
    luo_arena *arena;
    luo_mal_search *s;
    int32_t *used; /* groups taken of every class */
    bool *busy;    /* by device number */
    int32_t last;  /* of them */
} sealer;

static bool seal_pipe(sealer *x, const luo_mal_top *top, int32_t i, luo_malleus_pipe *out)
{
    luo_mal_search *search = x->s;
    const int32_t n = luo_mal_stages(search, top->mix, top->ids[i]);
    luo_malleus_stage *stages = LUO_NEW_N(x->arena, luo_malleus_stage, n);
    int64_t lo = 0;
    if (!stages) return false;
    for (int32_t j = 0; j < n; j++) {
        const int32_t c = search->stage_class[j];
        const luo_malleus_group *group = top->mix->cls[c].members[x->used[c]++];
        stages[j] = (luo_malleus_stage){group, lo, lo + search->layers[j], search->cap[j],
                                        search->y[j] * (double)search->layers[j]};
        lo = stages[j].hi;
        for (int32_t k = 0; k < group->size; k++) x->busy[group->devices[k]] = true;
    }
    const luo_mal_pipe *pipe = &top->mix->pipes[top->ids[i]];
    *out = (luo_malleus_pipe){n, stages, top->m[i], pipe->o, pipe->fill};
    return true;
}

static bool seal_standby(sealer *x, luo_malleus_plan *out)
{
    const luo_malleus_in *in = x->s->in;
    int32_t n = 0;
    for (int32_t i = 0; i < in->ndevices; i++) n += !x->busy[in->devices[i].device];
    int32_t *standby = LUO_NEW_N(x->arena, int32_t, n);
    if (!standby) return false;
    out->standby = standby;
    for (int32_t i = 0; i < in->ndevices; i++)
        if (!x->busy[in->devices[i].device]) standby[out->nstandby++] = in->devices[i].device;
    return true;
}

static bool seal_plan(sealer *x, const luo_mal_top *top, luo_malleus_plan *out)
{
    luo_malleus_pipe *pipes = LUO_NEW_N(x->arena, luo_malleus_pipe, x->s->dp);
    if (!pipes) return false;
    memset(x->used, 0, (size_t)top->mix->ncls * sizeof *x->used);
    memset(x->busy, 0, (size_t)(x->last + 1) * sizeof *x->busy);
    *out = (luo_malleus_plan){.npipes = x->s->dp,
                              .pipes = pipes,
                              .steady = top->steady,
                              .filled = top->filled,
                              .event = top->event};
    for (int32_t i = 0; i < x->s->dp; i++)
        if (!seal_pipe(x, top, i, &pipes[i])) return false;
    return seal_standby(x, out);
}

luo_status luo_mal_seal(luo_arena *arena, luo_mal_search *search, luo_malleus_found *out,
                        luo_err *err)
{
    sealer x = {.arena = arena,
                .s = search,
                .used = LUO_NEW_N(search->arena, int32_t, search->in->ndevices)};
    for (int32_t i = 0; i < search->in->ndevices; i++)
        if (search->in->devices[i].device > x.last) x.last = search->in->devices[i].device;
    x.busy = LUO_NEW_N(search->arena, bool, x.last + 1);
    luo_malleus_plan *plans = LUO_NEW_N(arena, luo_malleus_plan, search->ntops);
    if (!x.used || !x.busy || !plans) return luo_err_nomem(err);
    for (int32_t k = 0; k < search->ntops; k++)
        if (!seal_plan(&x, &search->tops[k], &plans[k])) return luo_err_nomem(err);
    if (search->nomem) return luo_err_nomem(err);
    *out = (luo_malleus_found){.n = search->ntops,
                               .plans = plans,
                               .dp = search->dp,
                               .few = search->few,
                               .search = search->count};
    return LUO_OK;
}
