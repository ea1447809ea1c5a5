/* plan_raw.h: small plans with random raw annotations (docs/annotations.md#raw-annotations). Most
 * of them are refused.
 */
#ifndef LUO_TESTS_PLAN_RAW_H
#define LUO_TESTS_PLAN_RAW_H
#include "core/plan/annotate.h"
#include "tests/plan_make.h"
#include "tests/prop/gen_ann.h"

/* Devices of a member: those of a stage, more often than not; else any. */
static inline luo_grp plan_raw_member(luo_arena *a, luo_rng *r, const luo_pipeline *pipe,
                                      int32_t rank)
{
    const luo_stage *s = &pipe->stages[luo_rng_pick(r, pipe->nstages)];
    int32_t n = s->ndev, *dev = LUO_NEW_N(a, int32_t, 8);
    memcpy(dev, s->dev, (size_t)n * sizeof *dev);
    if (luo_rng_pick(r, 5) == 0) {
        n = luo_gen_int(r, 1, n);
        dev[0] = luo_gen_int(r, 0, 8);
        if (n > 1) n = 1;
    }
    if (luo_rng_pick(r, 3) == 0) luo_gen_shuffle(r, dev, n);
    return luo_gen_group(a, r, dev, n, rank, luo_rng_pick(r, 4) ? -1 : -2);
}

static inline const char *plan_raw_ann(luo_arena *a, luo_rng *r, const luo_plan *p, int32_t rank)
{
    luo_str s = {0};
    const int32_t u = luo_rng_pick(r, 8) ? p->npipelines : 1;
    luo_grp *grp = LUO_NEW_N(a, luo_grp, u);
    for (int32_t i = 0; i < u; i++) grp[i] = plan_raw_member(a, r, &p->pipelines[i], rank);
    const luo_ann raw = {u, u > 1 ? luo_gen_int(r, -2, rank - 1) : LUO_H_NONE, false, NULL, grp};
    const luo_ann *c = luo_ann_canonical(a, &raw);
    luo_ann_print(&s, c);
    const char *text = luo_arena_strdup(a, luo_str_get(&s));
    luo_str_free(&s);
    return text;
}

/* The plan's own annotation every now and then: it must change nothing. */
static inline luo_plan_annotation plan_raw_one(luo_arena *a, luo_rng *r, const luo_plan *p,
                                               luo_graph *g)
{
    const int32_t o = (int32_t)luo_rng_pick(r, g->nops);
    const luo_op *op = &g->op[o];
    const bool at = op->nin > 0 && luo_rng_pick(r, 2);
    const int32_t x = at ? op->in[luo_rng_pick(r, op->nin)] : op->out[0];
    const luo_tensor *t = &g->tensor[x];
    const char *text =
        luo_rng_pick(r, 3) ? plan_raw_ann(a, r, p, t->rank) : luo_annset_text(g->set, t->ann);
    return (luo_plan_annotation){t->name, text, at ? op->name : "", "auto"};
}

static inline luo_graph *plan_raw_graph(luo_arena *a, const luo_plan *p, const luo_model *m)
{
    luo_build_opts opts;
    luo_graph *g = NULL;
    luo_err err = {0};
    if (luo_plan_build_opts(a, p, m, &opts, &err) != LUO_OK ||
        luo_graph_build(a, m, &opts, &g, &err) != LUO_OK || luo_plan_annotate(g, p, &err) != LUO_OK)
        luo_test_fail(err.text, "forward graph");
    return g;
}

/* A plan of a few devices, without annotations yet. */
static inline luo_plan *plan_raw_bare(luo_arena *a, luo_rng *r)
{
    static const char *const lines[] = {"2: [0,1]*1 [2,3]*1", "2: [0-3]*2",
                                        "2: [0,1]*1 [2,3]*1 || 2: [4-7]*2", "1: [0]*1 || 1: [1]*1"};
    luo_plan *p = luo_test_plan(a, lines[luo_rng_pick(r, 4)]);
    p->sequence_tokens = 16;
    p->zero = (int32_t)luo_rng_pick(r, 2);
    return p;
}

static inline void plan_raw_annotate(luo_arena *a, luo_rng *r, luo_plan *p, const luo_model *m)
{
    luo_graph *g = plan_raw_graph(a, p, m);
    luo_plan_annotation *raw = LUO_NEW_N(a, luo_plan_annotation, 3);
    const int32_t n = luo_gen_int(r, 1, 3);
    for (int32_t i = 0; i < n; i++) raw[i] = plan_raw_one(a, r, p, g);
    p->nannotations = n;
    p->annotations = raw;
    luo_annset_free(g->set);
}
#endif
