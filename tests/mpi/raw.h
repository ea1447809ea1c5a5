/* raw.h: plans with random raw annotations (docs/annotations.md#raw-annotations) train like one
 * device, too: their Reshards are of all sorts, with copies beside messages and sums of several
 * partners. Most annotations are refused, the rest may change no number. Run by `mpirun -n 8`, on
 * the executor of the lab. */
#ifndef LUO_TESTS_MPI_RAW_H
#define LUO_TESTS_MPI_RAW_H
#include "tests/mpi/trial.h"
#include "tests/plan_raw.h"
#include "tests/prop/prop.h"

/* Compiled and bound on all ranks, or on none. */
static inline bool bind_raw(luo_arena *a, luo_lab *lab, const luo_model *model, luo_trial *t)
{
    luo_err err = {0};
    const luo_compile_opts opts = {.check = true};
    luo_status st = luo_plan_compile(a, t->recipe->plan, model, lab->cluster, &opts, &t->set, &err);
    if (st == LUO_OK) st = t->executor->bind(t->x, 0, t->set, t->recipe, &t->job, &err);
    int bad = st != LUO_OK, any;
    MPI_Allreduce(&bad, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (any && !bad) t->executor->unbind(t->job);
    return !any;
}

static inline bool run_raw(luo_lab *lab, uint64_t seed, luo_dtype dtype, int *ran)
{
    luo_arena *a = luo_arena_new(1 << 20);
    luo_rng rng = luo_rng_seed(seed);
    luo_plan *plan = plan_raw_bare(a, &rng);
    bool good = true;
    plan->dtype = dtype;
    plan->sequence_parallel = luo_rng_pick(&rng, 2);
    const luo_model model = model_of(LLAMA, plan->layers);
    plan_raw_annotate(a, &rng, plan, &model);
    luo_exec *x = luo_lab_executor(lab, &model, dtype);
    luo_trial many = {.executor = lab->executor, .x = x, .recipe = LUO_NEW(a, luo_recipe)};
    *many.recipe = (luo_recipe){.plan = plan, .sequence_tokens = plan->sequence_tokens};
    if (bind_raw(a, lab, &model, &many)) {
        luo_trial single = refer(a, lab, x, plan, &model);
        curve c;
        int64_t n;
        char what[64];
        luo_trial_init(&many, &model, 7);
        luo_trial_init(&single, &model, 7);
        train(&single, &c, 0, 1);
        const double *early = dtype == LUO_F64 ? NULL : spread(a, lab, &single, &n);
        train(&single, &c, 1, 1);
        train(&many, &c, 0, 2);
        snprintf(what, sizeof what, "LUO_SEED=%llu LUO_CASES=1", (unsigned long long)seed);
        const worst w = compare(a, &many, spread(a, lab, &single, &n), early);
        good = judge(lab, what, plan->annotations[0].annotation, w, bound_of(dtype));
        close_reference(lab, &single);
        many.executor->unbind(many.job);
        ++*ran;
    }
    lab->executor->close(x);
    luo_arena_free(a);
    return good;
}
#endif
