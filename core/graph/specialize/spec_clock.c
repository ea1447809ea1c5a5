/* spec_clock.c: when gradients are complete in the last micro-batch, by estimates. */
#include <string.h>

#include "core/graph/specialize/spec_internal.h"

typedef struct finder {
    const spec *s;
    int32_t max_stages;
    int32_t *first_dev, *ndev; /* by pipeline * max_stages + stage */
    /* of the profile at hand */
    double *done;                 /* by operation */
    double *forward, *backward, *weight; /* by virtual stage; weight: BW, else 0 */
    double *layer;                /* by layer: its forward part, for those that run it again */
    bool *redone;                 /* by layer */
} finder;

/* Stages without devices take the time of those that stand in for the last micro-batch; that these
 * have others to run as well is passed over. */
static void stand_in(finder *f, int32_t p)
{
    const spec *s = f->s;
    const luo_pipe *pipe = &s->in->pipes[p];
    const int32_t *stands = s->in->lengths[pipe->length[pipe->micro_batches - 1]].stands;
    for (int32_t k = 0; stands && k < s->in->nabsent; k++) {
        const int32_t d = s->in->first_absent + k;
        const int64_t at = (int64_t)p * f->max_stages + s->stage_of[d];
        if (s->pipe_of[d] == p && f->ndev[at]++ == 0) f->first_dev[at] = stands[k];
    }
}

static luo_status find_stages(finder *f)
{
    const spec *s = f->s;
    for (int32_t k = 0; k < s->nclasses; k++)
        if (s->cls[k].S > f->max_stages) f->max_stages = s->cls[k].S;
    const int64_t n = (int64_t)s->in->npipelines * f->max_stages;
    f->first_dev = LUO_NEW_N(s->scratch, int32_t, n);
    f->ndev = LUO_NEW_N(s->scratch, int32_t, n);
    if (!f->first_dev || !f->ndev) return luo_err_nomem(s->err);
    for (int32_t i = 0; i < s->ndev; i++) {
        const int32_t d = s->dev[i];
        if (s->pipe_of[d] < 0) continue;
        const int64_t at = (int64_t)s->pipe_of[d] * f->max_stages + s->stage_of[d];
        if (f->ndev[at]++ == 0) f->first_dev[at] = d;
    }
    for (int32_t p = 0; p < s->in->npipelines; p++) stand_in(f, p);
    return LUO_OK;
}

/* Pipelines of one key take the same time: the shares of a stage's devices are passed over. */
static luo_status profile_id(const finder *f, int32_t p, luo_intern *keys, int32_t *id,
                             bool *fresh)
{
    const spec *s = f->s;
    const luo_pipe *pipe = &s->in->pipes[p];
    const spec_class *class = &s->cls[s->class_of[p]];
    const luo_spec_clock *clock = s->in->clock;
    const size_t mark = luo_arena_mark(s->scratch);
    int32_t n = 0, *key = LUO_NEW_N(s->scratch, int32_t, 2 + 2 * class->S + pipe->micro_batches);
    if (!key) return luo_err_nomem(s->err);
    key[n++] = s->class_of[p];
    key[n++] = pipe->micro_batches;
    for (int32_t k = 0; k < class->S; k++) {
        const int64_t at = (int64_t)p * f->max_stages + k;
        key[n++] = f->ndev[at];
        key[n++] = clock->kind(clock->ctx, f->first_dev[at]);
    }
    for (int32_t k = 0; k < pipe->micro_batches; k++) key[n++] = pipe->length[k];
    *id = luo_intern_id(keys, key, n, fresh);
    luo_arena_reset(s->scratch, mark);
    return *id >= 0 ? LUO_OK : luo_err_nomem(s->err);
}

/* A running sum is kept by the operations that make its parts. */
static bool adds_nothing(const spec *s, const luo_op *op)
{
    bool all = op->kind == LUO_OP_ACCUMULATE;
    for (int32_t i = 0; all && i < op->nin; i++) all = s->sum_of[op->in[i]] >= 0;
    return all;
}

static luo_status seconds_of(const finder *f, int32_t p, int32_t o, int32_t length, double *out)
{
    const spec *s = f->s;
    const spec_class *class = &s->cls[s->class_of[p]];
    const luo_spec_clock *clock = s->in->clock;
    const int32_t stage = class->vs_out[o] % class->S;
    const int32_t dev = f->first_dev[(int64_t)p * f->max_stages + stage];
    luo_instr instr = {0};
    *out = 0;
    if (s->g->op[o].kind == LUO_OP_RESHARD || adds_nothing(s, &s->g->op[o])) return LUO_OK;
    luo_spec_cost(s, o, length, dev, &instr);
    return instr.cost.kind == LUO_COST_NONE ? LUO_OK
                                            : clock->work(clock->ctx, dev, &instr.cost, out);
}

/* Seconds of every virtual stage for the last micro-batch, and how far into B, or into its half, an
 * operation ends. */
static luo_status add_up(finder *f, int32_t p)
{
    const spec *s = f->s;
    const luo_pipe *pipe = &s->in->pipes[p];
    const spec_class *class = &s->cls[s->class_of[p]];
    const int32_t length = pipe->length[pipe->micro_batches - 1];
    memset(f->layer, 0, (size_t)s->nlayers * sizeof *f->layer);
    memset(f->redone, 0, (size_t)s->nlayers * sizeof *f->redone);
    for (int32_t o = 0; o < s->g->nops; o++) {
        const luo_op *op = &s->g->op[o];
        const int32_t vs = class->vs_out[o], l = op->layer;
        double t;
        if (vs < 0 || op->kind == LUO_OP_PLACEHOLDER) continue;
        LUO_TRY(seconds_of(f, p, o, length, &t));
        if (op->phase == LUO_PHASE_F) {
            f->forward[vs] += t;
            if (l >= 0) f->layer[l] += t;
            continue;
        }
        if (l >= 0 && class->full[l] && !f->redone[l] && !spec_crosses(class, o)) {
            f->redone[l] = true;
            f->backward[vs] += f->layer[l];
        }
        const bool splits = luo_sched_splits(s->in->schedule);
        double *half = splits && s->late[o] ? f->weight : f->backward;
        half[vs] += t;
        f->done[o] = splits && !s->late[o] ? 0 : half[vs]; /* BI is over when BW begins */
    }
    return LUO_OK;
}

/* Where the last task with weight gradients of every virtual stage begins. Micro-batches of other
 * lengths take time by their tokens. */
static luo_status find_starts(const finder *f, int32_t p, double *start)
{
    const spec *s = f->s;
    const luo_pipe *pipe = &s->in->pipes[p];
    const spec_class *class = &s->cls[s->class_of[p]];
    const int32_t m = pipe->micro_batches, n = class->S * class->v;
    double *times = LUO_NEW_N(s->scratch, double, 3 * (int64_t)n * m), makespan;
    if (!times) return luo_err_nomem(s->err);
    const double last = (double)s->in->lengths[pipe->length[m - 1]].tokens;
    for (int32_t stage = 0; stage < class->S; stage++)
        for (int32_t k = 0; k < class->v; k++)
            for (int32_t i = 0; i < m; i++) {
                const double part = (double)s->in->lengths[pipe->length[i]].tokens / last;
                double *at = &times[((int64_t)stage * class->v + k) * m + i];
                at[0] = f->forward[k * class->S + stage] * part;
                at[(int64_t)n * m] = f->backward[k * class->S + stage] * part;
                at[2 * (int64_t)n * m] = f->weight[k * class->S + stage] * part;
            }
    return luo_sched_makespan_each(s->scratch, s->in->schedule, class->S, m, class->v, times,
                                   times + (int64_t)n * m, times + 2 * (int64_t)n * m, NULL, false,
                                   &makespan, start, s->err);
}

static luo_status make_profile(finder *f, int32_t p, const double **out)
{
    const spec *s = f->s;
    const spec_class *class = &s->cls[s->class_of[p]];
    f->done = LUO_NEW_N(s->scratch, double, s->g->nops);
    const size_t mark = luo_arena_mark(s->scratch);
    double *start = LUO_NEW_N(s->scratch, double, class->S *class->v);
    f->forward = LUO_NEW_N(s->scratch, double, class->S *class->v);
    f->backward = LUO_NEW_N(s->scratch, double, class->S *class->v);
    f->weight = LUO_NEW_N(s->scratch, double, class->S *class->v);
    if (!f->done || !start || !f->forward || !f->backward || !f->weight)
        return luo_err_nomem(s->err);
    luo_status st = add_up(f, p);
    if (st == LUO_OK) st = find_starts(f, p, start);
    for (int32_t o = 0; st == LUO_OK && o < s->g->nops; o++)
        if (s->g->op[o].phase == LUO_PHASE_B && class->vs_out[o] >= 0)
            f->done[o] += start[class->vs_out[o]];
    luo_arena_reset(s->scratch, mark);
    *out = f->done;
    return st;
}

luo_status luo_spec_find_dates(const spec *s, spec_dates *out)
{
    finder f = {.s = s};
    luo_intern keys;
    luo_intern_init(&keys, s->arena);
    LUO_TRY(find_stages(&f));
    f.layer = LUO_NEW_N(s->scratch, double, s->nlayers);
    f.redone = LUO_NEW_N(s->scratch, bool, s->nlayers);
    out->of_pipe = LUO_NEW_N(s->scratch, int32_t, s->in->npipelines);
    out->done = LUO_NEW_N(s->scratch, const double *, s->in->npipelines);
    if (!f.layer || !f.redone || !out->of_pipe || !out->done) return luo_err_nomem(s->err);
    for (int32_t p = 0; p < s->in->npipelines; p++) {
        bool fresh;
        int32_t id = 0;
        LUO_TRY(profile_id(&f, p, &keys, &id, &fresh));
        out->of_pipe[p] = id;
        if (fresh) LUO_TRY(make_profile(&f, p, &out->done[id]));
    }
    return LUO_OK;
}
