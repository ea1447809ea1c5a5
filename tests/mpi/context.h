/* context.h: plans that cut sequences among devices train like one device: rings, exchanges of
 * heads and both, layouts, shares, packed sequences and pads, key-value heads fewer than ranks,
 * beside tensor and pipeline parallelism, ZeRO, sequence parallelism and pipelines that cut
 * otherwise. Run by `mpirun -n 8`, on the executor of the lab. */
#ifndef LUO_TESTS_MPI_CONTEXT_H
#define LUO_TESTS_MPI_CONTEXT_H
#include "tests/mpi/accept.h"

typedef struct context_tally { /* how often a plan had .. */
    int plans, failed, ring, a2a, both, zigzag, contiguous, shares, packed, pads, tensor, pipelines,
        mixed, zero, cut, sequence, few, blind, again, windows;
} context_tally;

static const int32_t context_heads_of[KINDS] = {4, 8, 4, 4};

/* Degree, kind and layout of a pipeline whose stages have t tensor-parallel devices. */
static inline luo_stage context_stage(luo_arena *a, luo_rng *rng, int32_t most, int32_t t,
                                      kind model)
{
    static const luo_context_kind kinds[] = {LUO_CONTEXT_AUTO, LUO_CONTEXT_RING, LUO_CONTEXT_A2A,
                                             LUO_CONTEXT_A2A, LUO_CONTEXT_2D};
    luo_stage s = {.context_parallel = 1 + (int32_t)luo_rng_pick(rng, most)};
    const int32_t c = s.context_parallel, heads = context_heads_of[model] / t;
    if (c == 1) return s;
    s.context_kind = kinds[luo_rng_pick(rng, 5)];
    if (s.context_kind == LUO_CONTEXT_A2A && heads < c) s.context_kind = LUO_CONTEXT_RING;
    if (s.context_kind == LUO_CONTEXT_2D) s.context_inner = 2;
    if (s.context_kind == LUO_CONTEXT_2D && (c < 4 || c % 2 || heads < 2))
        s.context_kind = LUO_CONTEXT_RING, s.context_inner = 0;
    s.context_layout = (luo_context_layout)luo_rng_pick(rng, 3);
    if (luo_rng_pick(rng, 3)) return s;
    uint32_t *w = LUO_NEW_N(a, uint32_t, c);
    for (int32_t r = 0; r < c; r++) w[r] = 1 + (uint32_t)luo_rng_pick(rng, 3);
    s.context_shares = w;
    return s;
}

static inline void context_count(context_tally *t, const luo_plan *p, bool causal)
{
    int32_t degrees[2] = {0};
    for (int32_t i = 0; i < p->npipelines; i++) {
        const luo_context x = luo_plan_context(p, causal, i);
        const int32_t tp = luo_stage_tp(&p->pipelines[i].stages[0]);
        degrees[i > 0] = x.c;
        if (!luo_context_is_on(&x)) continue;
        t->ring += x.inner == 1;
        t->a2a += x.inner == x.c;
        t->both += x.inner > 1 && x.inner < x.c;
        t->zigzag += x.zigzag;
        t->contiguous += !x.zigzag;
        t->shares += x.share != NULL;
        t->tensor += tp > 1;
        t->pads += p->sequence_tokens % luo_plan_context_multiple(p, causal, i) != 0;
    }
    t->mixed += p->npipelines > 1 && degrees[0] != degrees[1];
}

/* Stages of c * t devices each, while there are devices left. */
static inline void context_pipeline(luo_arena *a, luo_rng *rng, kind model, int32_t *left,
                                    luo_str *line, luo_stage *how)
{
    const int32_t t = *left > 1 && luo_rng_pick(rng, 3) == 0 ? 2 : 1;
    const int32_t most = *left / t < 4 ? *left / t : 4;
    *how = context_stage(a, rng, most, t, model);
    const int32_t each = how->context_parallel * t;
    const int32_t stages = *left >= 2 * each && luo_rng_pick(rng, 2) ? 2 : 1;
    luo_str_addf(line, "%d:", 1 + (int)luo_rng_pick(rng, 3));
    for (int32_t s = 0; s < stages; s++, *left -= each)
        luo_str_addf(line, " [%d-%d]*%d", 8 - *left, 8 - *left + each - 1, stages == 2 ? 1 : 2);
}

static inline void context_set(luo_plan *p, const luo_stage *how)
{
    for (int32_t i = 0; i < p->npipelines; i++)
        for (int32_t s = 0; s < p->pipelines[i].nstages; s++) {
            luo_stage *to = (luo_stage *)&p->pipelines[i].stages[s];
            to->context_parallel = how[i].context_parallel;
            to->context_kind = how[i].context_kind;
            to->context_layout = how[i].context_layout;
            to->context_inner = how[i].context_inner;
            to->context_shares = how[i].context_shares;
        }
}

static inline luo_plan *context_draw(luo_arena *a, luo_rng *rng, luo_dtype dtype, row *r,
                                     luo_str *line)
{
    luo_stage how[3];
    int32_t left = 8, n = 0;
    *r = (row){.model = (kind)luo_rng_pick(rng, KINDS), .zero = (int)luo_rng_pick(rng, 2),
               .sp = (int)luo_rng_pick(rng, 2), .recompute = luo_rng_pick(rng, 3) == 0 ? 2 : 0,
               .order = (int)luo_rng_pick(rng, 3), .sequences = 1 + (int)luo_rng_pick(rng, 2),
               .mib = luo_rng_pick(rng, 2) ? 25 : 0};
    for (const int32_t want = 1 + (int32_t)luo_rng_pick(rng, 3); n < want && left > 0; n++) {
        if (n) luo_str_add(line, " || ");
        context_pipeline(a, rng, r->model, &left, line, &how[n]);
    }
    if (luo_rng_pick(rng, 3) == 0) /* packed lengths; the last is one row of its own */
        memcpy(r->tokens, (int64_t[]){32, 16, 21}, 3 * sizeof *r->tokens);
    r->line = luo_str_get(line);
    if (n == 1 && r->model != GPT) r->zero = (int)luo_rng_pick(rng, 4);
    if (r->zero > 1) r->sp = 1; /* else refused where there is tensor parallelism too */
    if (r->zero > 1 && r->order == 2) r->order = 0; /* needs a whole backward */
    luo_plan *p = plan_of(a, r, dtype);
    context_set(p, how);
    return p;
}

static inline void context_check(const luo_plan *p, const luo_model *model, const char *line)
{
    luo_plan_finding *found;
    int32_t n;
    luo_arena *a = luo_arena_new(0);
    luo_err err = {0};
    if (luo_plan_check(a, p, model, NULL, &found, &n) != LUO_OK)
        luo_err_set(&err, LUO_EINPUT, "%s", found[0].text);
    if (err.st != LUO_OK) luo_lab_die(line, &err);
    luo_arena_free(a);
}

static inline void context_run(luo_lab *lab, luo_dtype dtype, uint64_t seed, context_tally *t)
{
    luo_arena *a = luo_arena_new(1 << 20);
    luo_rng rng = luo_rng_seed(seed);
    luo_str line = {0}, name = {0};
    row r;
    const luo_plan *p = context_draw(a, &rng, dtype, &r, &line);
    luo_model model = model_of(r.model, p->layers);
    model.causal = luo_rng_pick(&rng, 5) > 0;
    if (model.causal && luo_rng_pick(&rng, 2)) /* of every second layer */
        model.window = (luo_window){1 + luo_rng_pick(&rng, 20), luo_rng_pick(&rng, 2), 2, 1};
    if (luo_plan_has_context(p)) {
        luo_str_addf(&name, "seed %llu: %s", (unsigned long long)seed, r.line);
        for (int32_t i = 0; i < p->npipelines; i++) {
            const luo_stage *s = &p->pipelines[i].stages[0];
            luo_str_addf(&name, "; %d %s %s", (int)s->context_parallel,
                         luo_context_kind_name(s->context_kind),
                         luo_context_layout_name(s->context_layout));
        }
        luo_str_addf(&name, "; model %d zero %d sp %d recompute %d", (int)r.model, r.zero, r.sp,
                     r.recompute);
        context_check(p, &model, luo_str_get(&name));
        t->failed += !run_against_one(lab, "context", p, &model, luo_str_get(&name));
        t->plans++;
        t->packed += r.sequences > 1 || r.tokens[0];
        t->pipelines += p->npipelines > 1;
        t->zero += r.zero == 1;
        t->cut += r.zero > 1;
        t->sequence += r.sp;
        t->few += r.model == GROUPED;
        t->blind += !model.causal;
        t->again += r.recompute > 0;
        t->windows += model.window.tokens > 0;
        context_count(t, p, model.causal);
    }
    luo_str_free(&line);
    luo_str_free(&name);
    luo_arena_free(a);
}

/* ZeRO that cuts weights where they are used, over pipelines and over their ranks. */
static const struct {
    const char *line;
    kind model;
    int zero;
    luo_stage how[4];
    int32_t group; /* shard hybrid: pipelines of a group */
} context_by_hand[] = {
    {"2: [0-3]*2 || 2: [4-7]*2", LLAMA, 3,
     {{.context_parallel = 2}, {.context_parallel = 2}}, 0},
    {"2: [0-3]*2 || 2: [4-7]*2", GROUPED, 2,
     {{.context_parallel = 4}, {.context_parallel = 4, .context_kind = LUO_CONTEXT_A2A}}, 0},
    {"2: [0-3]*2 || 2: [4,5]*2", GROUPED, 3,
     {{.context_parallel = 4, .context_kind = LUO_CONTEXT_2D, .context_inner = 2},
      {.context_parallel = 2, .context_layout = LUO_LAYOUT_CONTIGUOUS}}, 0},
    {"2: [0,1]*1 [2,3]*1 || 2: [4]*1 [5]*1", QKNORM, 3,
     {{.context_parallel = 2}, {.context_parallel = 1}}, 0},
    {"2: [0,1]*2 || 2: [2,3]*2 || 2: [4,5]*2 || 2: [6,7]*2", LLAMA, 3,
     {{.context_parallel = 2}, {.context_parallel = 2}, {.context_parallel = 2},
      {.context_parallel = 2}}, 2},
    {"2: [0,1]*2 || 2: [2,3]*2 || 2: [4,5]*2 || 2: [6,7]*2", GPT, 3,
     {{.context_parallel = 2, .context_kind = LUO_CONTEXT_A2A},
      {.context_parallel = 2, .context_kind = LUO_CONTEXT_A2A}, {.context_parallel = 2},
      {.context_parallel = 2}}, 1},
    {"2: [0-3]*2 || 2: [4-7]*2", LLAMA, 3,
     {{.context_parallel = 2}, {.context_parallel = 2}}, 1},
    {"2: [0-3]*2 || 2: [4-7]*2", QKNORM, 3,
     {{.context_parallel = 4}, {.context_parallel = 4, .context_kind = LUO_CONTEXT_A2A}}, 1},
};

/* Every `each`-th from `first` on. */
static inline void context_run_by_hand(luo_lab *lab, luo_dtype dtype, size_t first, size_t each,
                                       context_tally *t)
{
    for (size_t i = first; i < sizeof context_by_hand / sizeof *context_by_hand; i += each) {
        luo_arena *a = luo_arena_new(1 << 20);
        const row r = {.line = context_by_hand[i].line, .model = context_by_hand[i].model,
                       .zero = context_by_hand[i].zero,
                       .sp = i % 2 == 0 || context_by_hand[i].group == 0};
        luo_plan *p = plan_of(a, &r, dtype);
        const luo_model model = model_of(r.model, p->layers);
        if (context_by_hand[i].group)
            p->sharding = (luo_sharding){.kind = LUO_SHARD_HYBRID,
                                         .pipelines = context_by_hand[i].group};
        context_set(p, context_by_hand[i].how);
        context_check(p, &model, r.line);
        t->failed += !run_against_one(lab, "context", p, &model, r.line);
        t->plans++;
        t->cut++;
        luo_arena_free(a);
    }
}

static inline void context_report(const luo_lab *lab, const context_tally *t, uint64_t first,
                                  uint64_t last)
{
    if (lab->rank == 0)
        printf("seeds %llu..%llu: %d plans, worst error %.2g; pipelines: %d ring, %d all to all, "
               "%d both, %d zigzag, %d contiguous, %d with shares, %d with pads, %d with tensor "
               "parallelism; plans: %d packed, %d of several pipelines (%d mixed), %d zero 1, %d "
               "zero 2 or 3, %d sequence parallel, %d with few key-value heads, %d without mask, "
               "%d with windows, %d recomputed\n",
               (unsigned long long)first, (unsigned long long)last, t->plans, largest_error,
               t->ring, t->a2a, t->both, t->zigzag, t->contiguous, t->shares, t->pads, t->tensor,
               t->packed, t->pipelines, t->mixed, t->zero, t->cut, t->sequence, t->few, t->blind,
               t->windows, t->again);
}
#endif
