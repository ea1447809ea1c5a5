/* tests/mpi/raw.c: plans with random raw annotations (HSPMD 8.4) train like one device, too: their
 * Reshards are of all sorts, with copies beside messages and sums of several partners. Most
 * annotations are refused, the rest may change no number. Run by `mpirun -n 8`. */
#include "tests/mpi/trial.h"
#include "tests/plan_raw.h"
#include "tests/prop/prop.h"

/* Compiled and bound on all ranks, or on none. */
static bool bind_raw(luo_arena *a, luo_lab *lab, const luo_model *model, luo_trial *t)
{
    luo_err err = {0};
    const luo_compile_opts opts = {.check = true};
    luo_status st = luo_plan_compile(a, t->recipe->plan, model, lab->cluster, &opts, &t->set, &err);
    if (st == LUO_OK) st = luo_host_executor.bind(t->x, 0, t->set, t->recipe, &t->job, &err);
    int bad = st != LUO_OK, any;
    MPI_Allreduce(&bad, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (any && !bad) luo_host_executor.unbind(t->job);
    return !any;
}

static bool run(luo_lab *lab, uint64_t seed, int *ran)
{
    luo_arena *a = luo_arena_new(1 << 20);
    luo_rng rng = luo_rng_seed(seed);
    luo_plan *plan = plan_raw_bare(a, &rng);
    bool good = true;
    plan->dtype = LUO_F64;
    plan->sequence_parallel = luo_rng_pick(&rng, 2);
    const luo_model model = model_of(LLAMA, plan->layers);
    plan_raw_annotate(a, &rng, plan, &model);
    luo_exec *x = luo_lab_executor(lab, &model, LUO_F64);
    luo_trial many = {.x = x, .recipe = LUO_NEW(a, luo_recipe)};
    *many.recipe = (luo_recipe){.plan = plan, .sequence_tokens = plan->sequence_tokens};
    if (bind_raw(a, lab, &model, &many)) {
        luo_trial single = luo_lab_bind(a, lab, x, alone(a, plan), &model);
        curve c;
        int64_t n;
        char what[64];
        luo_state_init(luo_host_executor.state(many.job), &model, 7);
        luo_state_init(luo_host_executor.state(single.job), &model, 7);
        train(&single, &c, 0, 2);
        train(&many, &c, 0, 2);
        snprintf(what, sizeof what, "LUO_SEED=%llu LUO_CASES=1", (unsigned long long)seed);
        const worst w = compare(a, &many, spread(a, lab, &single, &n), NULL);
        good = judge(lab, what, plan->annotations[0].annotation, w, bound_of(LUO_F64));
        luo_host_executor.unbind(single.job);
        luo_host_executor.unbind(many.job);
        ++*ran;
    }
    luo_host_executor.close(x);
    luo_arena_free(a);
    return good;
}

int main(int argc, char **argv)
{
    /* a copy beside messages; a sum of which one partner is late */
    static const uint64_t known[] = {2805, 3419, 3490};
    luo_lab lab;
    int failed = 0, ran = 0;
    luo_lab_open(&lab, &argc, &argv);
    const uint64_t cases = luo_prop_env("LUO_CASES", 60) * luo_prop_env("LUO_SCALE", 1);
    for (int i = 0; i < 3; i++) failed += !run(&lab, known[i], &ran);
    for (uint64_t k = 0; k < cases; k++) failed += !run(&lab, luo_prop_first() + k, &ran);
    if (ran < 3 && ++failed && lab.rank == 0) printf("the known plans were refused\n");
    if (lab.rank == 0)
        printf("%d of %llu plans ran\n%d%%: Checks: %d, Failures: %d, Errors: 0\n", ran,
               (unsigned long long)cases + 3, 100 * (ran - failed) / (ran > 0 ? ran : 1), ran,
               failed);
    luo_lab_close(&lab);
    return failed > 0;
}
