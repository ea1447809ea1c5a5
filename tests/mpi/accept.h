/* accept.h: any plan trains like one device on host (the numerical acceptance):
 * loss, norm of the gradients, weights and both moments of every copy on every rank are compared.
 * The first moment after one step is the gradient but for a factor. Run by `mpirun -n 8`, on the
 * executor of the lab. */
#ifndef LUO_TESTS_MPI_ACCEPT_H
#define LUO_TESTS_MPI_ACCEPT_H
#include "core/base/hash.h"
#include "tests/mpi/trial.h"
#include "tests/prop/prop.h"

/* Single rows first, then the 14 published shapes scaled to 8 devices. */
#pragma GCC diagnostic push /* what a row leaves out is 0 */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
static const row rows[] = {
    {"2: [0]*2", LLAMA, 0, 0, 0, {0}, 0, 1, 0},
    {"2: [0]*2", GPT, 0, 0, 0, {0}, 0, 1, 0},
    {"2: [0,1]*2", LLAMA, 0, 0, 0, {0}, 0, 1, 0},
    {"2: [0,1]*2", LLAMA, 0, 1, 0, {0}, 0, 1, 0},
    {"2: [0,1]*2", GPT, 0, 0, 0, {0}, 0, 1, 0},
    {"2: [0,1]*2", GPT, 0, 1, 0, {0}, 0, 1, 0},
    {"2: [0-3]*2", GROUPED, 0, 0, 0, {0}, 0, 1, 0},
    {"2: [0-3]*2", GROUPED, 0, 1, 0, {0}, 0, 1, 0},
    {"2: [0,1]*2", QKNORM, 0, 1, 0, {0}, 0, 1, 0},
    {"1: [0,1]:(3,1)*2", LLAMA, 0, 0, 0, {0}, 0, 1, 0},
    {"2: [0,1]:(3,1)*2", LLAMA, 0, 1, 0, {0}, 0, 1, 0},
    {"2: [0,1]:(1,3)*2", GPT, 0, 1, 0, {0}, 0, 1, 0},
    {"2: [0-2]:(2,1,1)*2", LLAMA, 1, 1, 0, {0}, 0, 1, 0},
    {"4: [0]*1 [1]*3", LLAMA, 0, 0, 0, {0}, 0, 1, 0},
    {"4: [0]*3 [1]*1", LLAMA, 0, 0, 1, {0}, 0, 1, 0},
    {"3: [0]*1 [1]*2 [2]*1", GPT, 0, 0, 0, {0}, 1, 1, 0},
    {"4: [0]*1 [1]*1 [2]*1 [3]*1", LLAMA, 0, 0, 0, {0}, 1, 1, 0},
    {"4: [0]*1+1 [1]*1+1", LLAMA, 0, 0, 0, {0}, 0, 1, 0},
    {"4: [0,1]*1+1 [2,3]*1+1", GPT, 0, 1, 0, {0}, 0, 1, 0},
    {"2: [0]*2 || 2: [1]*2", LLAMA, 0, 0, 0, {0}, 0, 1, 0},
    {"2: [0]*2 || 2: [1]*2", LLAMA, 1, 0, 0, {0}, 0, 1, 0},
    {"3: [0]*2 || 1: [1]*2", LLAMA, 1, 0, 1, {0}, 0, 1, 0},
    {"2: [0]*2 || 2: [1]*2 || 1: [2]*2", GPT, 1, 0, 0, {0}, 0, 1, 0},
    {"2: [0,1]*2 || 2: [2,3]*2", LLAMA, 1, 1, 0, {0}, 0, 1, 0},
    {"2: [0,1]*2 || 1: [2]*2", LLAMA, 0, 0, 0, {0}, 0, 1, 0},
    {"2: [0,1]*2 || 1: [2]*2", LLAMA, 1, 1, 0, {0}, 0, 1, 0},
    {"2: [0,1]:(3,1)*2 || 1: [2,3]*2", LLAMA, 0, 0, 0, {0}, 0, 1, 0},
    {"2: [0,1]:(3,1)*2 || 1: [2,3]*2", LLAMA, 1, 1, 0, {0}, 0, 1, 0},
    {"2: [0-3]*2 || 2: [4,5]*2", GROUPED, 1, 1, 0, {0}, 0, 1, 0},
    {"3: [0]*2", LLAMA, 0, 0, 0, {16, 32, 8}, 0, 1, 0},
    {"3: [0]*1 [1]*1", LLAMA, 0, 0, 0, {16, 32, 8}, 0, 1, 0},
    {"3: [0,1]*1 [2]*1 || 2: [3]*2", LLAMA, 1, 1, 1, {32, 16, 48}, 0, 1, 0},
    {"4: [0-3]*2 [4-7]*2", LLAMA, 0, 1, 0, {0}, 0, 1, 0},
    {"3: [0,1]*1 [2,3]*3 || 5: [4,5]*3 [6,7]*1", LLAMA, 0, 1, 0, {0}, 0, 1, 0},
    {"3: [0,1]*2 [2,3]*2 || 3: [4]*1 [5]*1 [6]*1 [7]*1", LLAMA, 0, 1, 0, {0}, 0, 1, 0},
    {"4: [0-3]*3 [4,5]*1 || 2: [6]*2 [7]*2", GROUPED, 0, 1, 0, {0}, 0, 1, 0},
    {"3: [0,1]*2 [2]*2 || 4: [3,4]*1 [5]*3", LLAMA, 0, 1, 1, {0}, 0, 1, 0},
    {"3: [0-3]*4 || 2: [4,5]*2 [6]*2", LLAMA, 1, 1, 0, {0}, 0, 1, 0},
    {"2: [0]*4 || 2: [1]*4 || 3: [2,3]*4", LLAMA, 0, 1, 0, {0}, 0, 1, 0},
    {"2: [0,1]*4 || 2: [2,3]*1 [4,5]*3 || 1: [6]*2 [7]*2", LLAMA, 1, 1, 0, {0}, 0, 1, 0},
    {"2: [0]*2 [1]*1 [2]*1 || 2: [3,4]*2 [5,6]*2", GPT, 0, 1, 0, {0}, 0, 1, 0},
    {"4: [0,1]*2 [2,3]*2 || 4: [4,5]*2 [6,7]*2", LLAMA, 1, 1, 0, {0}, 0, 1, 0},
    {"5: [0,1]:(3,1)*3 [2]*1 || 2: [3-5]:(2,1,1)*2 [6,7]*2", LLAMA, 1, 1, 0, {0}, 0, 1, 0},
    {"2: [0-3]:(1,1,1,1)*1 [4,5]:(3,1)*3", LLAMA, 0, 0, 1, {0}, 0, 1, 0},
    {"4: [0]*4 || 2: [1,2]*2 [3]*2 || 2: [4-7]*4", LLAMA, 0, 0, 0, {0}, 0, 1, 0},
    {"4: [0]*4 || 2: [1,2]*2 [3]*2 || 2: [4-7]*4", GPT, 1, 0, 1, {0}, 0, 1, 0},
    /* what those leave out: tied embeddings far apart, uneven shares of tokens between stages, key
     * and value heads whole under ZeRO-1, chunks in two pipelines, recompute with gpipe, one
     * micro-batch beside many, more sends under way than there are places, two sequences in a
     * micro-batch */
    {"4: [0]*1 [1]*1 || 2: [2]*1 [3]*1", GPT, 1, 0, 0, {0}, 0, 1, 0},
    {"3: [0]*1 [1,2]*1 || 1: [3,4]*2", GPT, 1, 1, 1, {0}, 0, 1, 0},
    {"3: [0,1]:(3,1)*1 [2,3]:(1,3)*1", LLAMA, 0, 1, 0, {0}, 0, 1, 0},
    {"2: [0-2]:(2,1,1)*1 [3]*1 || 3: [4,5]:(1,3)*2", LLAMA, 1, 1, 2, {0}, 0, 1, 0},
    {"3: [0-3]*1 [4,5]*1", GROUPED, 1, 1, 1, {0}, 0, 1, 0},
    {"2: [0-3]*1 [4]*1 || 3: [5]*2", GROUPED, 1, 0, 2, {0}, 0, 1, 0},
    {"4: [0]*1+1 [1]*1+1 || 2: [2]*1+1 [3]*1+1", LLAMA, 1, 0, 0, {0}, 0, 1, 0},
    {"2: [0,1]*1+1 [2]*1+1 || 4: [3]*1+1 [4]*1+1", GPT, 1, 1, 1, {0}, 0, 1, 0},
    {"5: [0]*1 [1]*1", LLAMA, 1, 0, 1, {0}, 1, 1, 0},
    {"1: [0]*2 || 7: [1]*1 [2]*1", LLAMA, 1, 0, 0, {0}, 0, 1, 0},
    {"20: [0]*1 [1]*1 [2]*1", LLAMA, 0, 0, 0, {0}, 1, 1, 0},
    {"20: [0]*1+1 [1]*1+1", LLAMA, 0, 0, 0, {0}, 0, 1, 0},
    {"2: [0,1]*1 [2]*1 || 1: [3]*2", LLAMA, 1, 1, 0, {0}, 0, 2, 0},
    {"2: [0]*2 || 2: [1]*2", QKNORM, 1, 0, 2, {0}, 0, 3, 0},
    /* messages of 64 KiB and more, where MPI has other ways */
    {"1: [0]*2 || 1: [1]*2 || 1: [2]*2 || 1: [3,4]*2", WIDE, 0, 1, 0, {0}, 0, 1, 0},
    {"1: [0]*2 || 1: [1]*2 || 1: [2,3]*2 || 1: [4-7]*2", WIDE, 1, 1, 0, {0}, 0, 1, 0},
    {"2: [0-2]:(2,1,1)*1 [4-7]*1", WIDE, 0, 1, 0, {128, 64}, 0, 1, 0},
    /* buckets: a sum in place, one whose tensors lie apart, shares, whole tensors beside cut ones
     * of which one partner sums twice, chunks, tied tables, parts that no or one rank has */
    {"2: [0]*2 || 2: [1]*2", LLAMA, 0, 0, 0, {0}, 0, 1, 25},
    {"2: [0]*2 || 2: [1]*2 || 1: [2]*2", GPT, 1, 0, 0, {0}, 0, 1, 25},
    {"2: [0,1]:(3,1)*2 || 1: [2,3]*2", LLAMA, 1, 1, 0, {0}, 0, 1, 25},
    {"2: [0-3]*2 || 2: [4,5]*2", GROUPED, 1, 1, 0, {0}, 0, 1, 0.01},
    {"2: [0,1]*2 || 1: [2]*2", GPT, 0, 0, 0, {0}, 0, 1, 25},
    {"4: [0]*4 || 2: [1,2]*2 [3]*2 || 2: [4-7]*4", GPT, 1, 0, 1, {0}, 0, 1, 0.01},
    {"2: [0,1]*1+1 [2]*1+1 || 4: [3]*1+1 [4]*1+1", GPT, 1, 1, 1, {0}, 0, 1, 25},
    {"4: [0]*1 [1]*1 || 2: [2]*1 [3]*1", GPT, 1, 0, 0, {0}, 0, 1, 25},
    {"4: [0,1]*2 [2,3]*2 || 4: [4,5]*2 [6,7]*2", LLAMA, 1, 1, 0, {0}, 0, 1, 25},
    /* backward cut in two: one stage, two to four, fewer micro-batches than stages, tensor groups
     * that gather again for BW, layers run again in BI, ragged micro-batches, a tied table,
     * buckets, stages of other numbers in two pipelines, norms of queries and keys */
    {"3: [0]*2", LLAMA, 0, 0, 0, {0}, 2, 1, 0},
    {"5: [0]*1 [1]*1", LLAMA, 0, 0, 0, {0}, 2, 1, 0},
    {"4: [0]*1 [1]*2 [2]*1", GPT, 0, 0, 1, {0}, 2, 1, 0},
    {"2: [0]*1 [1]*1 [2]*1 [3]*1", LLAMA, 0, 0, 2, {0}, 2, 1, 0},
    {"7: [0]*1 [1]*1 [2]*1 [3]*1", GROUPED, 0, 0, 0, {0}, 2, 2, 0},
    {"4: [0,1]*1 [2,3]*1", LLAMA, 0, 1, 0, {0}, 2, 1, 0},
    {"3: [0,1]*1 [2,3]*1 [4,5]*1", GPT, 0, 1, 2, {0}, 2, 1, 0},
    {"3: [0,1]:(3,1)*1 [2,3]:(1,3)*1", LLAMA, 0, 1, 2, {0}, 2, 1, 0},
    {"5: [0]*1 [1]*1 [2]*1", LLAMA, 0, 0, 2, {16, 32, 8, 48, 16}, 2, 1, 0},
    {"4: [0]*1 [1]*1 || 2: [2]*1 [3]*1", GPT, 1, 0, 0, {0}, 2, 1, 25},
    {"3: [0]*1 [1]*1 [2]*1 || 4: [3]*2 [4]*1", GPT, 1, 0, 2, {0}, 2, 1, 0.01},
    {"4: [0,1]*2 [2,3]*2 || 4: [4,5]*2 [6,7]*2", LLAMA, 1, 1, 0, {0}, 2, 1, 25},
    {"3: [0,1]*1 [2]*1 || 2: [3]*2", QKNORM, 1, 1, 1, {32, 16, 48}, 2, 1, 0},
    /* feed-forward alone: tensor groups with and without sequence parallelism, uneven shares, more
     * devices than heads would allow, replicas, stages, chunks, selective recompute, which finds
     * nothing to run again, and full, a backward cut in two, buckets */
    {"2: [0]*2", MLP, 0, 0, 0, {0}, 0, 1, 0},
    {"2: [0,1]*2", MLP_GATED, 0, 0, 0, {0}, 0, 1, 0},
    {"1: [0-7]*2", MLP, 0, 1, 1, {0}, 0, 1, 0},
    {"2: [0,1]:(3,1)*2 || 1: [2,3]*2", MLP_BIASED, 1, 1, 0, {0}, 0, 1, 0},
    {"2: [0-2]:(5,2,1)*1 [3]*1 || 3: [4,5]:(1,3)*2", MLP_GATED_BIASED, 1, 0, 2, {0}, 0, 1, 25},
    {"3: [0]*1 [1]*3 || 5: [2,3]*3 [4,5]*1", MLP_GATED, 0, 1, 0, {0}, 1, 1, 0},
    {"4: [0,1]*1+1 [2]*1+1 || 2: [3]*1+1 [4]*1+1", MLP_BIASED, 1, 1, 2, {0}, 0, 1, 0},
    {"3: [0,1]*2 [2]*1 || 2: [3]*3", MLP_GATED_BIASED, 1, 1, 2, {32, 16, 48}, 2, 1, 0.01},
};
#pragma GCC diagnostic pop

/* The plan and one device train alike: losses, norms of gradients and all state are compared. */
static inline bool run_against_one(luo_lab *lab, const char *what, const luo_plan *plan,
                                   const luo_model *model, const char *name)
{
    luo_arena *a = luo_arena_new(1 << 20);
    luo_exec *x = luo_lab_executor(lab, model, plan->dtype);
    luo_trial many = luo_lab_bind(a, lab, x, plan, model);
    luo_trial single = refer(a, lab, x, plan, model);
    curve c, ref;
    int64_t n;
    trial_begin(&many, model);
    trial_begin(&single, model);
    train(&single, &ref, 0, 1);
    const double *early = spread(a, lab, &single, &n);
    train(&single, &ref, 1, STEPS - 1);
    train(&many, &c, 0, STEPS);
    worst w = compare(a, &many, spread(a, lab, &single, &n), early);
    for (int i = 0; i < STEPS; i++) {
        const double e = fmax(far(c.loss[i], ref.loss[i]), far(c.norm[i], ref.norm[i]));
        if (e <= w.error) continue;
        w.error = e;
        snprintf(w.name, sizeof w.name, "loss %.9g (%.9g) or norm %.9g (%.9g) of step %d",
                 c.loss[i], ref.loss[i], c.norm[i], ref.norm[i], i);
    }
    const bool good = judge(lab, what, name, w, bound_of(plan->dtype));
    check_begins(a, lab, &many, STEPS);
    many.executor->unbind(many.job);
    close_reference(lab, &single);
    lab->executor->close(x);
    luo_arena_free(a);
    return good;
}

/* a: the plan's; is freed. */
static inline bool run_plan(luo_arena *a, luo_lab *lab, const row *r, const luo_plan *plan)
{
    const luo_model model = row_model(r, plan->layers);
    const bool good = run_against_one(lab, luo_dtype_name(plan->dtype), plan, &model, r->line);
    luo_arena_free(a);
    return good;
}

static inline bool run_row(luo_lab *lab, const row *r, luo_dtype dtype)
{
    luo_arena *a = luo_arena_new(1 << 20);
    return run_plan(a, lab, r, plan_of(a, r, dtype));
}

/* ---- switches in mid-training ---- */

typedef struct pair_row { /* both take 6 micro-batches of TOKENS a step */
    const char *a, *b;
    kind model;
    int zero_a, zero_b;
} pair_row;
static const pair_row switches[] = {
    {"6: [0]*2", "3: [0,1]*2 || 3: [2]*2", LLAMA, 0, 0},
    {"6: [0,1]:(3,1)*2", "6: [0]*1 [1]*1", LLAMA, 0, 1},
    {"4: [0,1]*1 [2,3]*3 || 2: [4]*4", "2: [5,6]*4 || 2: [0-3]*2 [4]*2 || 2: [7]*4", LLAMA, 1, 1},
    {"3: [0-3]*4 || 3: [4-7]*4", "3: [0,1]*2 [2,3]*2 || 3: [4,5]*3 [6,7]*1", GROUPED, 1, 0},
    {"6: [0]*2 [1]*2", "4: [2,3]*4 || 2: [0]*4", GPT, 0, 1},
    {"3: [0]*4 || 3: [1,2]*4", "6: [3-6]*4", GPT, 1, 1},
};

static inline luo_trial change(luo_arena *a, luo_lab *lab, luo_trial *from, const luo_plan *to,
                               const luo_model *model)
{
    luo_err err = {0};
    luo_switching what;
    luo_step_report r = {0};
    luo_trial t = luo_lab_bind(a, lab, from->x, to, model);
    const luo_recipe recipe = {
        .plan = to, .from = from->recipe->plan, .sequence_tokens = TOKENS, .from_tokens = TOKENS};
    if (luo_switching_compile(a, recipe.from, to, model, lab->cluster, 0, NULL, &what, &err) !=
            LUO_OK ||
        from->executor->move(from->job, t.job, &what, &recipe, &r, &err) != LUO_OK)
        luo_lab_die("switch", &err);
    MPI_Barrier(MPI_COMM_WORLD); /* nobody frees what another still reads */
    from->executor->unbind(from->job);
    return t;
}

/* groups_of: communicators that the executor has made. */
static inline bool run_switch(luo_lab *lab, const pair_row *r, luo_dtype dtype,
                              int (*groups_of)(const luo_exec *x))
{
    luo_arena *a = luo_arena_new(1 << 20);
    const row ra = {.line = r->a, .model = r->model, .zero = r->zero_a, .sp = 1};
    const row rb = {.line = r->b, .model = r->model, .zero = r->zero_b};
    const luo_plan *pa = plan_of(a, &ra, dtype), *pb = plan_of(a, &rb, dtype);
    const luo_model model = model_of(r->model, pa->layers);
    luo_exec *x = luo_lab_executor(lab, &model, dtype);
    luo_trial single = refer(a, lab, x, pa, &model);
    luo_trial t = luo_lab_bind(a, lab, x, pa, &model);
    curve ref, c;
    int64_t n;
    const double *early = NULL;
    int made = 0;
    luo_trial_init(&t, &model, 5);
    luo_trial_init(&single, &model, 5);
    for (int k = 0; k < 3; k++) {
        train(&single, &ref, 2 * k, 1);
        if (k == 0) early = spread(a, lab, &single, &n);
        train(&single, &ref, 2 * k + 1, 1);
        if (k) t = change(a, lab, &t, k == 1 ? pb : pa, &model);
        if (k == 1) made = groups_of(x);
        train(&t, &c, 2 * k, 2);
    }
    worst w = compare(a, &t, spread(a, lab, &single, &n), early);
    for (int k = 0; k < 6; k++) {
        const double e = far(c.loss[k], ref.loss[k]);
        if (e <= w.error) continue;
        w.error = e;
        snprintf(w.name, sizeof w.name, "loss of step %d", k);
    }
    const bool kept = groups_of(x) == made; /* communicators: the way back makes none */
    if (!kept) printf("switch %s: communicators were made on the way back\n", r->b);
    const bool good = judge(lab, "switch", r->b, w, bound_of(dtype)) && kept;
    t.executor->unbind(t.job);
    close_reference(lab, &single);
    lab->executor->close(x);
    luo_arena_free(a);
    return good;
}

/* ---- random plans ---- */

/* mlp: of layers without attention. */
static inline void random_row(luo_rng *rng, row *r, char *line, size_t size, bool mlp)
{
    int next = 0, layers = 2 + (int)luo_rng_pick(rng, 3), pipes = 1 + (int)luo_rng_pick(rng, 3);
    size_t n = 0;
    *r = (row){.line = line,
               .model = mlp ? random_mlp(rng) : (kind)luo_rng_pick(rng, KINDS),
               .zero = (int)luo_rng_pick(rng, 2),
               .sp = (int)luo_rng_pick(rng, 2),
               .recompute = (int)luo_rng_pick(rng, 3),
               .order = (int)luo_rng_pick(rng, 4) % 3,
               .sequences = luo_rng_pick(rng, 4) == 0 ? 2 : 1};
    for (int p = 0; p < pipes && next < 8; p++) {
        int left = layers;
        n += (size_t)snprintf(line + n, size - n, "%s%d:", p ? " || " : "",
                              1 + (int)luo_rng_pick(rng, 4));
        while (left > 0 && next < 8) {
            int tp = 1 << luo_rng_pick(rng, 3);
            while (next + tp > 8 - (pipes - 1 - p)) tp = tp > 1 ? tp / 2 : 1;
            const bool last = next + tp >= 8 - (pipes - 1 - p);
            const int take = last ? left : 1 + (int)luo_rng_pick(rng, left);
            n += (size_t)snprintf(
                line + n, size - n, " [%d-%d]%s*%d", next, next + tp - 1,
                tp == 2 && luo_rng_pick(rng, 3) == 0 && r->model != GROUPED ? ":(3,1)" : "", take);
            left -= take;
            next += tp;
        }
    }
}
#endif
