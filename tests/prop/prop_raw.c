/* tests/prop/prop_raw.c: raw annotations of a plan (hspmd.md 8.4) are checked, never trusted: a
 * plan with random ones either compiles to programs that finish or is refused with a sentence. */
#include "core/plan/annotate.h"
#include "tests/plan_make.h"
#include "tests/prop/gen_ann.h"
#include "tests/prop/prop.h"

static const char *const lines[] = {"2: [0,1]*1 [2,3]*1", "2: [0-3]*2",
                                    "2: [0,1]*1 [2,3]*1 || 2: [4-7]*2", "1: [0]*1 || 1: [1]*1"};

typedef struct tally {
    int accepted, refused, moved; /* moved: accepted, and the program is another one */
} tally;

/* Devices of a member: those of a stage, more often than not; else any. */
static luo_grp random_member(luo_arena *a, luo_rng *r, const luo_pipeline *pipe, int32_t rank)
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

static const char *random_ann(luo_arena *a, luo_rng *r, const luo_plan *p, int32_t rank)
{
    luo_str s = {0};
    const int32_t u = luo_rng_pick(r, 8) ? p->npipelines : 1;
    luo_grp *grp = LUO_NEW_N(a, luo_grp, u);
    for (int32_t i = 0; i < u; i++) grp[i] = random_member(a, r, &p->pipelines[i], rank);
    const luo_ann raw = {u, u > 1 ? luo_gen_int(r, -2, rank - 1) : LUO_H_NONE, false, NULL, grp};
    const luo_ann *c = luo_ann_canonical(a, &raw);
    luo_ann_print(&s, c);
    const char *text = luo_arena_strdup(a, luo_str_get(&s));
    luo_str_free(&s);
    return text;
}

/* The plan's own annotation every now and then: it must change nothing. */
static luo_plan_annotation random_raw(luo_arena *a, luo_rng *r, const luo_plan *p, luo_graph *g)
{
    const int32_t o = (int32_t)luo_rng_pick(r, g->nops);
    const luo_op *op = &g->op[o];
    const bool at = op->nin > 0 && luo_rng_pick(r, 2);
    const int32_t x = at ? op->in[luo_rng_pick(r, op->nin)] : op->out[0];
    const luo_tensor *t = &g->tensor[x];
    const char *text = luo_rng_pick(r, 3) ? random_ann(a, r, p, t->rank)
                                          : luo_annset_text(g->set, t->ann);
    return (luo_plan_annotation){t->name, text, at ? op->name : "", "auto"};
}

static luo_graph *forward_graph(luo_arena *a, const luo_plan *p, const luo_model *m)
{
    luo_build_opts opts;
    luo_graph *g = NULL;
    luo_err err = {0};
    if (luo_plan_build_opts(p, m, &opts, &err) != LUO_OK ||
        luo_graph_build(a, m, &opts, &g, &err) != LUO_OK || luo_plan_annotate(g, p, &err) != LUO_OK)
        luo_test_fail(err.text, "forward graph");
    return g;
}

static bool known(luo_status st)
{
    return st == LUO_EINPUT || st == LUO_EDEDUCE || st == LUO_EUNSUP || st == LUO_ESHAPE ||
           st == LUO_E2BIG || st == LUO_EPARSE;
}

static bool one_case(uint64_t seed, tally *t)
{
    luo_rng r = luo_rng_seed(seed);
    luo_arena *a = luo_arena_new(1 << 16);
    luo_plan *p = luo_test_plan(a, lines[luo_rng_pick(&r, 4)]);
    p->sequence_tokens = 16;
    p->zero = (int32_t)luo_rng_pick(&r, 2);
    const luo_model m = luo_test_llama(p->layers, 16, 32, 4, 40);
    luo_graph *g = forward_graph(a, p, &m);
    const luo_compile_opts opts = {.check = true};
    luo_programs *plain, *set;
    luo_err err = {0};
    bool good = luo_plan_compile(a, p, &m, NULL, &opts, &plain, &err) == LUO_OK;
    luo_plan_annotation raw[3];
    p->nannotations = luo_gen_int(&r, 1, 3);
    for (int32_t i = 0; i < p->nannotations; i++) raw[i] = random_raw(a, &r, p, g);
    p->annotations = raw;
    err = (luo_err){0};
    const luo_status st = luo_plan_compile(a, p, &m, NULL, &opts, &set, &err);
    if (st == LUO_OK) {
        luo_memory mem;
        t->accepted++;
        t->moved += set->hash != plain->hash;
        good &= luo_program_memory(a, set, set->at[0].device, &mem, &err) == LUO_OK;
    } else {
        t->refused++;
        good &= known(st) && err.text[0];
    }
    if (!good)
        printf("seed %llu: %s %s (%s: %s)\n", (unsigned long long)seed, luo_status_name(st),
               err.text, raw[0].tensor, raw[0].annotation);
    luo_annset_free(g->set);
    luo_arena_free(a);
    return good;
}

int main(void)
{
    tally t = {0};
    int failed = 0, cases = 0;
    LUO_PROP_FOR(seed, 800) {
        failed += !one_case(seed, &t);
        cases++;
    }
    printf("%d cases: %d accepted, %d of them with other programs, %d refused\n", cases, t.accepted,
           t.moved, t.refused);
    if (cases >= 500 && (t.accepted < 50 || t.moved < 10 || t.refused < 50)) {
        printf("the generator misses interesting cases\n");
        failed++;
    }
    return failed ? 1 : 0;
}
