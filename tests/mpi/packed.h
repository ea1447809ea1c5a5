/* packed.h: sequences of unequal lengths, packed by plans whose replicas are unlike each other,
 * train like every sequence alone on one device: loss, norm of the gradients, and after the last
 * step weights and both moments. The plan is another one in every step: other replicas, other
 * lengths, other micro-batches; the optimizer's layout, where it has one of its own, stays, and a
 * step may be several plans then, each with some of the sequences (luo_step_part). Run by
 * `mpirun -n 8`, on the executor of the lab.
 *
 * The reference has one micro-batch per sequence, so whatever sequences of one micro-batch would
 * see of each other, whatever pads would add, and a mean that is not over all tokens of the step
 * would show. */
#ifndef LUO_TESTS_MPI_PACKED_H
#define LUO_TESTS_MPI_PACKED_H
#include "core/plan/hydraulis/step_plan.h"
#include "tests/mpi/trial.h"
#include "tests/prop/prop.h"

enum { PACKED_CTX = 64, PACKED_DEVICES = 8, PACKED_MOST = 16, PACKED_PARTS = 3 };

typedef struct packed_kinds { /* what plans may have */
    luo_dtype dtype;
    bool context, apart; /* cut sequences; state in a layout of its own */
} packed_kinds;

typedef struct packed_tally { /* how often there was .. */
    int cases, failed, apart, zero, steps, replicas, idle, tensor, context, pipelines, mixed, cut,
        shared, pads, chosen, changed, parts, staggered, experts, experts_apart, dealt;
} packed_tally;

static const struct {
    int32_t tp, cp, pp;
} packed_shapes[] = {{1, 1, 1}, {2, 1, 1}, {4, 1, 1}, {1, 1, 2}, {2, 1, 2}, {1, 2, 1},
                     {2, 2, 1}, {1, 2, 2}, {1, 1, 3}, {1, 3, 1}, {1, 4, 1}, {4, 1, 2}};

static const luo_optimizer_layout packed_layouts[] = {{8, 1, 1}, {4, 2, 1}, {2, 2, 2}, {1, 2, 2},
                                                      {2, 1, 2}, {3, 1, 2}, {1, 1, 1}, {2, 4, 1}};

typedef struct packed_case {
    luo_arena *arena;
    luo_rng rng;
    const packed_kinds *kinds;
    luo_model model;
    luo_pool pool;
    luo_step_place place;
    luo_optimizer_layout layout;
    bool apart, parallel, staggered;
    int32_t zero, order, recompute;
    double mib;
    /* of the step at hand */
    int32_t n;
    int64_t length[PACKED_MOST];
    int32_t number[PACKED_MOST]; /* in the step, of which this may be a part */
} packed_case;

typedef struct packed_step {
    int32_t n; /* plans */
    luo_plan *plan[PACKED_PARTS], *alone;
} packed_step;

static inline int32_t packed_pick(packed_case *c, int32_t n)
{
    return (int32_t)luo_rng_pick(&c->rng, n);
}

/* Experts whose gates look at one token alone: a capacity, an auxiliary loss and balanced
 * assignment look at those beside it as well. steady: what is rounded otherwise chooses no other.
 */
static inline void packed_experts(uint64_t seed, bool steady, luo_model *m)
{
    static const luo_gate_kind gates[] = {LUO_GATE_TOPK, LUO_GATE_HASH, LUO_GATE_SIGMOID};
    luo_rng rng = luo_rng_stream(seed, "experts");
    if (luo_rng_pick(&rng, 2) || m->linear_bias) return;
    m->family = LUO_FAMILY_MOE;
    m->moe = (luo_moe){.experts = 2 + luo_rng_pick(&rng, 4),
                       .experts_per_token = 1 + luo_rng_pick(&rng, 2),
                       .expert_ffn_hidden = 16,
                       .every_layers = 1 + luo_rng_pick(&rng, 2),
                       .gate = gates[luo_rng_pick(&rng, 3)]};
    if (steady) {
        if (m->moe.gate == LUO_GATE_SIGMOID) m->moe.gate = LUO_GATE_TOPK;
        m->moe.experts_per_token = m->moe.experts;
    }
    if (m->moe.gate == LUO_GATE_HASH) m->moe.experts_per_token = 1;
    if (m->moe.gate == LUO_GATE_SIGMOID) m->moe.routed_scale = 1.5;
    if (m->moe.experts_per_token == 1 && m->moe.gate == LUO_GATE_SIGMOID)
        m->moe.gate = LUO_GATE_TOPK;
    if (luo_rng_pick(&rng, 3) == 0) m->moe.shared_experts = 1, m->moe.shared_ffn_hidden = 8;
}

/* Four devices cut around slow ones: the third is idle, or has the last layer. */
static inline void packed_splits(luo_arena *a, const luo_model *model, luo_pool *pool)
{
    static const int32_t first[] = {0, 3, 2}, width[] = {2, 1, 1};
    for (int32_t pp = 2; pp <= 3 && pp <= model->layers && model->kv_heads % 2 == 0; pp++) {
        luo_pool_split *split = LUO_NEW(a, luo_pool_split);
        int32_t *layers = LUO_NEW_N(a, int32_t, pp);
        for (int32_t s = 0; s < pp; s++) layers[s] = s == 0 ? (int32_t)model->layers - pp + 1 : 1;
        *split = (luo_pool_split){4, first, width, layers};
        pool->entry[pool->n] = pool->entry[0];
        pool->entry[pool->n].tp = 2;
        pool->entry[pool->n].pp = pp;
        pool->entry[pool->n++].split = split;
    }
}

static inline luo_pool packed_pool(luo_arena *a, const packed_kinds *kinds, const luo_model *model)
{
    luo_pool pool = {
        0, LUO_NEW_N(a, luo_pool_entry, sizeof packed_shapes / sizeof *packed_shapes + 2)};
    for (size_t k = 0; k < sizeof packed_shapes / sizeof *packed_shapes; k++) {
        const int32_t tp = packed_shapes[k].tp, cp = packed_shapes[k].cp, pp = packed_shapes[k].pp;
        if (pp > model->layers || model->kv_heads % tp || (cp > 1 && !kinds->context)) continue;
        pool.entry[pool.n++] = (luo_pool_entry){.tp = tp,
                                                .cp = cp,
                                                .pp = pp,
                                                .a = 1e-5 / tp,
                                                .b = 1e-2 / tp,
                                                .c = 0.1,
                                                .exchange = cp == 1 ? LUO_EXCHANGE_NONE
                                                            : cp == 2 && tp * cp <= model->kv_heads
                                                                ? LUO_EXCHANGE_HEADS
                                                                : LUO_EXCHANGE_RING,
                                                .cap = 128 * cp,
                                                .util = 32};
    }
    packed_splits(a, model, &pool);
    return pool;
}

static inline packed_case packed_open(luo_arena *a, const luo_lab *lab, const packed_kinds *kinds,
                                      uint64_t seed)
{
    packed_case c = {.arena = a, .rng = luo_rng_seed(seed), .kinds = kinds};
    int32_t *dev = LUO_NEW_N(a, int32_t, PACKED_DEVICES);
    for (int32_t i = 0; i < PACKED_DEVICES; i++) {
        const int32_t j = packed_pick(&c, i + 1);
        dev[i] = dev[j];
        dev[j] = i;
    }
    c.model = model_of((kind)packed_pick(&c, KINDS), 2 + packed_pick(&c, 3));
    packed_experts(seed, kinds->dtype != LUO_F64, &c.model);
    c.pool = packed_pool(a, kinds, &c.model);
    c.layout = packed_layouts[packed_pick(&c, sizeof packed_layouts / sizeof *packed_layouts)];
    c.apart = kinds->apart && packed_pick(&c, 3) > 0;
    c.zero = packed_pick(&c, 2);
    c.order = packed_pick(&c, 3);
    c.recompute = packed_pick(&c, 3) ? 0 : 2;
    c.parallel = packed_pick(&c, 2);
    c.mib = packed_pick(&c, 2) ? 25 : 0;
    c.staggered = c.apart && packed_pick(&c, 3) == 0;
    c.place = (luo_step_place){.cluster = lab->cluster, /* the model: whoever keeps the case */
                               .ndevices = PACKED_DEVICES,
                               .devices = dev,
                               .dtype = kinds->dtype,
                               .ctx = PACKED_CTX};
    return c;
}

/* Side by side, while there are devices left. */
static inline luo_replicas packed_replicas(packed_case *c)
{
    luo_replicas r = {0, LUO_NEW_N(c->arena, luo_replica, PACKED_DEVICES)};
    int32_t left = PACKED_DEVICES;
    for (int tries = 1 + packed_pick(c, 5); tries > 0; tries--) {
        const int32_t e = packed_pick(c, c->pool.n);
        if (luo_pool_devices(&c->pool.entry[e]) > left) continue;
        left -= luo_pool_devices(&c->pool.entry[e]);
        r.replica[r.n++] = (luo_replica){e, 1};
    }
    if (r.n == 0) r.replica[r.n++] = (luo_replica){0, 1};
    return r;
}

/* Every sequence to any replica and any micro-batch of it with room. */
static inline luo_step_plan packed_anyhow(packed_case *c, const luo_replicas *replicas)
{
    luo_step_plan s = {.assign = LUO_NEW_N(c->arena, int32_t, c->n),
                       .bin = LUO_NEW_N(c->arena, int32_t, c->n),
                       .packed = LUO_NEW_N(c->arena, luo_packed, replicas->n)};
    for (int32_t r = 0; r < replicas->n; r++)
        s.packed[r].tokens = LUO_NEW_N(c->arena, int64_t, PACKED_MOST);
    for (int32_t k = 0; k < c->n; k++) {
        const int32_t r = s.assign[k] = packed_pick(c, replicas->n);
        luo_packed *p = &s.packed[r];
        int32_t u = packed_pick(c, p->nbins + 1);
        if (u < p->nbins && p->tokens[u] + c->length[k] > 128) u = p->nbins;
        if (u == p->nbins) p->tokens[p->nbins++] = 0;
        p->tokens[u] += c->length[k];
        s.bin[k] = u;
    }
    return s;
}

/* The planner's pads are up to LUO_POOL_ROUND; here few or none, or those. */
static inline void packed_pads(packed_case *c, luo_plan *plan, packed_tally *t)
{
    for (int32_t i = 0; i < plan->npipelines; i++) {
        const luo_pipeline *pipe = &plan->pipelines[i];
        for (int32_t u = 0; u < pipe->micro_batches; u++) {
            int64_t sum = 0, *tokens = (int64_t *)&pipe->micro_batch_tokens[u];
            int32_t sequences = 0;
            for (int32_t k = 0; k < plan->nassignment; k++)
                if (plan->assignment[k].pipeline == i && plan->assignment[k].micro_batch == u) {
                    sum += plan->assignment[k].length_tokens;
                    sequences++;
                }
            if (packed_pick(c, 4)) *tokens = sum + packed_pick(c, 2) * packed_pick(c, 12);
            t->pads += *tokens > sum;
            t->shared += sequences > 1;
        }
    }
}

static inline void packed_count(const packed_case *c, const luo_replicas *replicas,
                                const luo_plan *plan, packed_tally *t)
{
    const luo_stage *first = &plan->pipelines[0].stages[0];
    bool mixed = false;
    t->steps++;
    t->replicas += replicas->n;
    t->idle += replicas->n - plan->npipelines;
    for (int32_t r = 0; r < replicas->n; r++)
        t->cut += c->pool.entry[replicas->replica[r].entry].split != NULL;
    for (int32_t i = 0; i < plan->npipelines; i++) {
        const luo_pipeline *p = &plan->pipelines[i];
        const luo_stage *s = &p->stages[0];
        t->tensor += luo_stage_tp(s) > 1;
        t->context += s->context_parallel > 1;
        t->pipelines += p->nstages > 1;
        mixed |= p->nstages != plan->pipelines[0].nstages || s->ndev != first->ndev ||
                 s->context_parallel != first->context_parallel;
    }
    t->mixed += mixed;
}

/* Experts of all stages on their devices, instead of a piece of each on all of them. */
static inline void packed_deal(packed_case *c, luo_plan *p, packed_tally *t)
{
    bool dealt = packed_pick(c, 2);
    for (int32_t i = 0; i < p->npipelines; i++)
        for (int32_t s = 0; s < p->pipelines[i].nstages; s++)
            dealt &= p->pipelines[i].stages[s].ndev <= c->model.moe.experts;
    for (int32_t i = 0; i < p->npipelines; i++)
        for (int32_t s = 0; s < p->pipelines[i].nstages; s++)
            ((luo_stage *)p->pipelines[i].stages)[s].experts_dealt = dealt;
    t->dealt += dealt;
}

/* A plan for the sequences of the case. */
static inline luo_plan *packed_plan(packed_case *c, packed_tally *t)
{
    luo_err err = {0};
    luo_step_plan step;
    luo_plan *p;
    const luo_replicas replicas = packed_replicas(c);
    const bool chosen = packed_pick(c, 2);
    const luo_step_opts opts = {.kicks = 2, .current = -1};
    if (!chosen) step = packed_anyhow(c, &replicas);
    if (chosen && luo_step_choose(c->arena, &c->pool, &replicas, 1, c->length, c->n, &opts, &step,
                                  &err) != LUO_OK)
        luo_lab_die("choose", &err);
    t->chosen += chosen;
    c->place.layout = c->apart ? &c->layout : NULL;
    if (luo_step_plan_make(c->arena, &c->place, &c->pool, &replicas, &step, c->length, c->number,
                           c->n, &p, &err) != LUO_OK)
        luo_lab_die("plan", &err);
    p->zero = c->zero;
    p->staggered = c->staggered;
    p->sequence_parallel = c->parallel;
    if (c->order) p->schedule = c->order == 1 ? LUO_SCHED_GPIPE : LUO_SCHED_ZB_H1;
    p->bucket = (luo_bucketing){LUO_BUCKET_MIB, true, c->mib, 0};
    for (int32_t i = 0; i < p->npipelines; i++)
        for (int32_t s = 0; s < p->pipelines[i].nstages; s++)
            ((luo_stage *)p->pipelines[i].stages)[s].recompute = (luo_recompute)c->recompute;
    if (c->model.moe.experts > 0) packed_deal(c, p, t);
    packed_pads(c, p, t);
    packed_count(c, &replicas, p, t);
    return p;
}

/* Every sequence is of one part; parts without any fall away. */
static inline void packed_parts(packed_case *c, packed_tally *t, int32_t n, packed_step *out)
{
    int32_t part[PACKED_MOST];
    for (int32_t k = 0; k < c->n; k++) part[k] = packed_pick(c, n);
    out->n = 0;
    for (int32_t i = 0; i < n; i++) {
        packed_case some = *c;
        some.n = 0;
        for (int32_t k = 0; k < c->n; k++) {
            if (part[k] != i) continue;
            some.number[some.n] = k;
            some.length[some.n++] = c->length[k];
        }
        if (some.n == 0) continue;
        out->plan[out->n++] = packed_plan(&some, t);
        c->rng = some.rng;
    }
    t->parts += out->n > 1;
}

/* The plans of a step, and its sequences each alone on one device. */
static inline packed_step packed_plans(packed_case *c, packed_tally *t)
{
    packed_step step = {0};
    char line[64];
    c->n = 1 + packed_pick(c, PACKED_MOST);
    for (int32_t k = 0; k < c->n; k++) {
        c->length[k] = 1 + packed_pick(c, packed_pick(c, 4) ? PACKED_CTX / 3 : PACKED_CTX);
        c->number[k] = k;
    }
    if (c->length[0] == 1) c->length[0] = 2; /* something to predict */
    packed_parts(c, t, c->apart && packed_pick(c, 2) ? PACKED_PARTS : 1, &step);
    snprintf(line, sizeof line, "%d: [0]*%d", (int)c->n, (int)c->model.layers);
    luo_plan *one = step.alone = luo_test_plan(c->arena, line);
    luo_assignment *at = LUO_NEW_N(c->arena, luo_assignment, c->n);
    for (int32_t k = 0; k < c->n; k++) at[k] = (luo_assignment){k, c->length[k], 0, k};
    one->assignment = at;
    one->nassignment = c->n;
    one->sequence_tokens = PACKED_CTX;
    one->sequence_parallel = false;
    one->dtype = step.plan[0]->dtype == LUO_BF16 ? LUO_F32 : step.plan[0]->dtype;
    return step;
}

static inline void packed_check(const packed_case *c, const luo_plan *p, const luo_lab *lab)
{
    luo_plan_finding *found;
    int32_t n;
    luo_err err = {0};
    if (luo_plan_check(c->arena, p, &c->model, lab->cluster, &found, &n) == LUO_OK) return;
    luo_err_set(&err, LUO_EINPUT, "%s: %s", found[0].pointer, found[0].text);
    luo_lab_die("plan", &err);
}

/* The next plan with the state of the one before. */
static inline luo_trial packed_change(packed_case *c, luo_lab *lab, luo_trial *from,
                                      const luo_plan *to, int64_t *moved)
{
    luo_err err = {0};
    luo_switching what;
    luo_step_report r = {0};
    const luo_rank_executor *tested = lab->executor;
    lab->executor = from->executor;
    luo_trial t = luo_lab_bind(c->arena, lab, from->x, to, &c->model);
    lab->executor = tested;
    const luo_recipe recipe = {.plan = to,
                               .from = from->recipe->plan,
                               .sequence_tokens = PACKED_CTX,
                               .from_tokens = PACKED_CTX};
    if (luo_switching_compile(c->arena, recipe.from, to, &c->model, lab->cluster, 0, NULL, &what,
                              &err) != LUO_OK ||
        t.executor->move(from->job, t.job, &what, &recipe, &r, &err) != LUO_OK)
        luo_lab_die("switch", &err);
    *moved = what.sw.npair;
    MPI_Barrier(MPI_COMM_WORLD); /* nobody frees what another still reads */
    from->executor->unbind(from->job);
    return t;
}

static inline luo_trial packed_refer(packed_case *c, luo_lab *lab, luo_exec *x,
                                     const luo_plan *alone)
{
    const luo_rank_executor *tested = lab->executor;
    lab->executor = &luo_host_executor;
    if (tested != lab->executor) x = luo_lab_executor(lab, &c->model, alone->dtype);
    const luo_trial t = luo_lab_bind(c->arena, lab, x, alone, &c->model);
    lab->executor = tested;
    return t;
}

/* Layout of the state, precision and precision's bound; false: a failure, printed with its seed. */
static inline bool packed_run(luo_lab *lab, const packed_kinds *kinds, uint64_t seed,
                              packed_tally *t)
{
    luo_arena *a = luo_arena_new(1 << 20);
    packed_case c = packed_open(a, lab, kinds, seed);
    c.place.model = &c.model;
    luo_str name = {0};
    curve got = {{0}, {0}}, want = {{0}, {0}};
    int64_t n, moved = 0;
    const double *early = NULL;
    const luo_step_part whole = {0};
    bool same = true;
    luo_str_addf(&name, "seed %llu", (unsigned long long)seed);
    if (c.apart)
        luo_str_addf(&name, ", layout %d x %d x %d", (int)c.layout.dp, (int)c.layout.tp,
                     (int)c.layout.pp);
    packed_step step = packed_plans(&c, t);
    packed_check(&c, step.plan[0], lab);
    luo_exec *x = luo_lab_executor(lab, &c.model, kinds->dtype);
    luo_trial many = luo_lab_bind(a, lab, x, step.plan[0], &c.model);
    luo_trial single = packed_refer(&c, lab, x, step.alone);
    luo_trial_init(&many, &c.model, 7);
    luo_trial_init(&single, &c.model, 7);
    for (int s = 0; s < STEPS; s++) {
        int64_t none;
        if (s > 0) {
            step = packed_plans(&c, t);
            single = packed_change(&c, lab, &single, step.alone, &none);
        }
        train(&single, &want, s, 1);
        for (int32_t i = 0; i < step.n; i++) {
            const luo_step_part part = {i, step.n, c.n, c.length};
            if (s > 0 || i > 0) {
                packed_check(&c, step.plan[i], lab);
                many = packed_change(&c, lab, &many, step.plan[i], &moved);
                t->changed += moved > 0;
                same &= !c.apart || moved == 0; /* the optimizer never moves */
            }
            train_part(&many, &got, s, step.n > 1 ? &part : &whole);
        }
        if (s == 0 && kinds->dtype != LUO_F64) early = spread(a, lab, &single, &n);
    }
    worst w = compare(a, &many, spread(a, lab, &single, &n), early);
    for (int s = 0; s < STEPS; s++) {
        const double e = fmax(far(got.loss[s], want.loss[s]), far(got.norm[s], want.norm[s]));
        if (!(e > w.error)) continue;
        w.error = e;
        snprintf(w.name, sizeof w.name, "loss %.9g (%.9g) or norm %.9g (%.9g) of step %d",
                 got.loss[s], want.loss[s], got.norm[s], want.norm[s], s);
    }
    bool good = judge(lab, "packed", luo_str_get(&name), w, bound_of(kinds->dtype));
    /* A mean over targets: what a model that knows nothing says is near log V for every token. */
    if (fabs(want.loss[0] - log((double)c.model.vocab)) > 0.3 && want.norm[0] > 0) {
        if (lab->rank == 0) printf("%s: loss %g of step 0\n", luo_str_get(&name), want.loss[0]);
        good = false;
    }
    if (!same && lab->rank == 0) printf("%s: the optimizer moved\n", luo_str_get(&name));
    many.executor->unbind(many.job);
    close_reference(lab, &single);
    lab->executor->close(x);
    t->cases++;
    t->apart += c.apart;
    t->experts += c.model.moe.experts > 0;
    t->experts_apart += c.model.moe.experts > 0 && c.apart;
    t->zero += c.zero;
    t->staggered += c.staggered;
    t->failed += !good || !same;
    luo_str_free(&name);
    luo_arena_free(a);
    return good && same;
}

static inline void packed_report(const luo_lab *lab, const packed_tally *t, uint64_t first,
                                 uint64_t last)
{
    if (lab->rank != 0) return;
    printf("seeds %llu..%llu: %d cases (%d with a layout for the state, %d zero 1, %d staggered, "
           "%d with "
           "experts, %d of them with such a layout; %d plans have theirs dealt), "
           "worst error %.2g; %d plans (%d steps of several): %d replicas, %d of them without "
           "sequences; %d with tensor, %d with "
           "context, %d with pipeline parallelism, %d cut around slow devices; %d plans of unlike "
           "replicas; %d "
           "micro-batches of "
           "several sequences, %d with pads; %d plans by the planner; %d changes moved state\n",
           (unsigned long long)first, (unsigned long long)last, t->cases, t->apart, t->zero,
           t->staggered, t->experts, t->experts_apart, t->dealt, largest_error, t->steps, t->parts,
           t->replicas, t->idle, t->tensor, t->context, t->pipelines, t->cut, t->mixed, t->shared,
           t->pads, t->chosen, t->changed);
}
#endif
