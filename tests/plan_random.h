/* plan_random.h: random plans of up to four pipelines of up to four stages of 1, 2 or 4
 * devices, with everything that a plan may vary: shares, chunks, ZeRO-1, recompute, lengths, a
 * layout of the optimizer's own. */
#ifndef LUO_TESTS_PLAN_RANDOM_H
#define LUO_TESTS_PLAN_RANDOM_H
#include "core/base/rng.h"
#include "core/base/str.h"
#include "tests/plan_make.h"

typedef struct plan_tally { /* how often a plan had .. */
    int pipelines, uneven, interleaved, zero, full, split, lengths, apart, parallel;
} plan_tally;

static inline void plan_random_stage(luo_str *s, luo_rng *r, int *next, int chunks, plan_tally *t)
{
    const int tp = 1 << luo_rng_pick(r, 3);
    luo_str_addf(s, " [%d-%d]", *next, *next + tp - 1);
    if (tp == 2 && luo_rng_pick(r, 3) == 0) {
        luo_str_add(s, luo_rng_pick(r, 2) ? ":(3,1)" : ":(1,3)");
        t->uneven++;
    }
    *next += tp;
    for (int c = 0; c < chunks; c++) luo_str_add(s, c ? "+1" : "*1");
}

/* Pipelines have as many layers as the first: those that are missing go to the last stage. */
static inline luo_plan *plan_random_shape(luo_arena *a, luo_rng *r, plan_tally *t)
{
    const int pipes = 1 + (int)luo_rng_pick(r, 4), chunks = 1 + (luo_rng_pick(r, 4) == 0);
    luo_str line = {0};
    int next = 0;
    for (int p = 0; p < pipes; p++) {
        const int stages = 1 + (int)luo_rng_pick(r, 4);
        int m = 1 + (int)luo_rng_pick(r, 8);
        if (chunks > 1) m = stages * (1 + (m > 4));
        luo_str_addf(&line, "%s%d:", p ? " || " : "", m);
        for (int s = 0; s < stages; s++) plan_random_stage(&line, r, &next, chunks, t);
    }
    luo_plan *plan = luo_test_plan(a, luo_str_get(&line));
    luo_str_free(&line);
    t->pipelines += pipes > 1;
    t->interleaved += chunks > 1;
    return plan;
}

static inline void plan_even_layers(luo_plan *p)
{
    int32_t most = 0;
    for (int32_t i = 0; i < p->npipelines; i++) {
        const luo_stage *last = &p->pipelines[i].stages[p->pipelines[i].nstages - 1];
        const int32_t n = last->layers[last->nlayers - 1].hi;
        if (n > most) most = n;
    }
    for (int32_t i = 0; i < p->npipelines; i++) {
        const luo_stage *last = &p->pipelines[i].stages[p->pipelines[i].nstages - 1];
        ((luo_range *)last->layers)[last->nlayers - 1].hi = most;
    }
    p->layers = most;
}

static inline void plan_random_lengths(luo_arena *a, luo_rng *r, luo_plan *p, plan_tally *t)
{
    luo_pipeline *pipes = (luo_pipeline *)p->pipelines;
    for (int32_t i = 0; i < p->npipelines; i++) {
        if (luo_rng_pick(r, 3)) continue;
        int64_t *tokens = LUO_NEW_N(a, int64_t, pipes[i].micro_batches);
        for (int32_t k = 0; k < pipes[i].micro_batches; k++) tokens[k] = 8 + 8 * luo_rng_pick(r, 3);
        pipes[i].micro_batch_tokens = tokens;
        t->lengths++;
    }
}

/* The optimizer in a layout of its own, on these devices and some more. */
static inline void plan_random_state(luo_arena *a, luo_rng *r, luo_plan *p, plan_tally *t)
{
    luo_state_layout l = {1 + (int32_t)luo_rng_pick(r, 3), 1 << luo_rng_pick(r, 3),
                          1 + (int32_t)luo_rng_pick(r, 3), 0, NULL};
    l.ndev = l.data * l.tensor * l.pipeline;
    int32_t *dev = LUO_NEW_N(a, int32_t, l.ndev);
    for (int32_t i = 0; i < l.ndev; i++) dev[i] = l.ndev - 1 - i;
    l.dev = dev;
    p->state_layout = l;
    t->apart++;
}

static inline void plan_random_options(luo_arena *a, luo_rng *r, luo_plan *p, plan_tally *t)
{
    p->sequence_tokens = 16;
    p->zero = (int32_t)luo_rng_pick(r, 2);
    p->sequence_parallel = luo_rng_pick(r, 2);
    static const luo_sched_kind kinds[] = {LUO_SCHED_1F1B, LUO_SCHED_GPIPE, LUO_SCHED_ZB_H1};
    if (p->chunks == 1) p->schedule = kinds[luo_rng_pick(r, 3)];
    t->split += luo_sched_splits(p->schedule);
    t->zero += p->zero;
    t->parallel += p->sequence_parallel;
    for (int32_t i = 0; i < p->npipelines; i++)
        for (int32_t s = 0; s < p->pipelines[i].nstages; s++) {
            luo_stage *stage = (luo_stage *)&p->pipelines[i].stages[s];
            stage->recompute = (luo_recompute)luo_rng_pick(r, 3);
            t->full += stage->recompute == LUO_RECOMPUTE_FULL;
        }
    plan_random_lengths(a, r, p, t);
    if (luo_rng_pick(r, 4) == 0) plan_random_state(a, r, p, t);
}

static inline luo_plan *plan_random(luo_arena *a, luo_rng *r, plan_tally *t)
{
    luo_plan *p = plan_random_shape(a, r, t);
    plan_even_layers(p);
    plan_random_options(a, r, p, t);
    return p;
}

/* Shard hybrid: groups of two pipelines, or of one; those of a group have the shares of its first,
 * and its devices' number or each is alone. */
static inline void plan_random_groups(luo_plan *p)
{
    int32_t size = p->npipelines % 2 ? 1 : 2;
    for (int32_t i = 0; i < p->npipelines; i++)
        for (int32_t s = 0; s < p->pipelines[i].nstages; s++) {
            luo_stage *a = (luo_stage *)&p->pipelines[i / 2 * 2].stages[s];
            luo_stage *b = (luo_stage *)&p->pipelines[i].stages[s];
            if (a->ndev != b->ndev) size = 1;
            else if (size == 2) b->shares = a->shares;
        }
    p->sharding.kind = LUO_SHARD_HYBRID;
    p->sharding.pipelines = size;
}

/* Every second plan that can be cut by ZeRO-2 or 3 is: with pipelines like the first alone, and its
 * borders and micro-batches. tied: the model's table. */
static inline bool plan_random_shard(luo_rng *r, luo_plan *p, bool tied)
{
    luo_pipeline *pipes = (luo_pipeline *)p->pipelines;
    if (p->state_layout.ndev || (tied && pipes[0].nstages > 1) || luo_rng_pick(r, 2)) return false;
    int32_t n = 1;
    for (; n < p->npipelines && pipes[n].nstages == pipes[0].nstages; n++) {
        if (pipes[n].micro_batches != pipes[0].micro_batches) pipes[n].micro_batch_tokens = NULL;
        pipes[n].micro_batches = pipes[0].micro_batches;
        for (int32_t s = 0; s < pipes[0].nstages; s++)
            ((luo_stage *)pipes[n].stages)[s].layers = pipes[0].stages[s].layers;
    }
    p->npipelines = n;
    if (luo_sched_splits(p->schedule)) p->schedule = LUO_SCHED_1F1B;
    p->zero = 2 + (luo_rng_pick(r, 3) > 0);
    if (p->zero == 2) return true;
    p->sharding = (luo_sharding){.has_depth = true, .depth = (int32_t)luo_rng_pick(r, 4)};
    const int kind = (int)luo_rng_pick(r, 4);
    if (kind == 0) p->sharding.kind = LUO_SHARD_GRAD_OP;
    if (kind == 1) plan_random_groups(p);
    return true;
}

/* Of a hundred plans or more: something was hardly ever there. */
static inline bool plan_tally_poor(const plan_tally *t)
{
    return t->pipelines < 10 || t->uneven < 10 || t->interleaved < 10 || t->zero < 10 ||
           t->full < 10 || t->split < 10 || t->lengths < 10 || t->apart < 10 || t->parallel < 10;
}
#endif
