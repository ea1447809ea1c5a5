/* kinds.c: kinds of plans that accept.c has not train like one device on host, on the cuda
 * executor: packed sequences of unequal lengths with optimizer state in a layout of its own and
 * steps in parts (tests/mpi/packed.h), sequences cut among devices (tests/mpi/context.h), and
 * annotated plans with partial sums and complete summands (tests/mpi/hap.h). Random plans, of which
 * a failure prints the seed; bounds as accept.c has them. Run by `mpirun -n 8`. */
#include "exec/cuda/executor.h"
#include "exec/cuda/job.h"
#include "tests/mpi/context.h"
#include "tests/mpi/hap.h"
#include "tests/mpi/packed.h"

/* The models are small: state travels in pieces that are smaller yet. */
static luo_status open_small(const luo_rank_config *config, luo_exec **out, luo_err *err)
{
    LUO_TRY(luo_cuda_executor.open(config, out, err));
    (*out)->window = 1000;
    return LUO_OK;
}

typedef struct tally {
    luo_lab *lab;
    int scale; /* LUO_SCALE: also what takes long */
    int checks, failed;
} tally;

/* Another plan in every step, or several of them. */
static void run_packed(tally *all, const packed_kinds *kinds, int cases)
{
    packed_tally p = {0};
    const uint64_t first = luo_prop_first();
    largest_error = 0;
    for (int k = 0; k < cases; k++) packed_run(all->lab, kinds, first + (uint64_t)k, &p);
    packed_report(all->lab, &p, first, first + (uint64_t)cases - 1);
    all->checks += p.cases;
    all->failed += p.failed;
}

static void run_context(tally *all, luo_dtype dtype, size_t each, int cases)
{
    context_tally c = {0};
    uint64_t seed = luo_prop_first();
    const uint64_t first = seed;
    largest_error = 0;
    context_run_by_hand(all->lab, dtype, dtype == LUO_BF16, each, &c);
    for (const int wanted = c.plans + cases; c.plans < wanted; seed++)
        context_run(all->lab, dtype, seed, &c);
    context_report(all->lab, &c, first, seed - 1);
    all->checks += c.plans;
    all->failed += c.failed;
}

/* A draw may lead to an operation whose operands cannot be brought to any of its rules. */
static void run_hap(tally *all, luo_dtype dtype, int cases, hap_models models)
{
    hap_tally drawn = {0};
    int failed = 0;
    const uint64_t first = luo_prop_first();
    largest_error = 0;
    for (int k = 0; k < cases; k++)
        failed += !hap_run(all->lab, dtype, first + (uint64_t)k, models, &drawn);
    if (all->lab->rank == 0)
        printf("seeds %llu..%llu: %d annotated plans, worst error %.2g\n",
               (unsigned long long)first, (unsigned long long)first + (unsigned)cases - 1,
               drawn.ran, largest_error);
    all->checks += drawn.ran + 1;
    all->failed += failed + (drawn.ran < cases * 3 / 4);
}

/* Programs of the planner whose uneven gathers and scatters are padded or grouped. */
static void run_hap_variants(tally *all)
{
    static const char *const names[] = {"bert", "bert, padded", "llama, ZeRO, padded"};
    hap_tally found = {0};
    for (int k = 0; k < HAP_CASES; k++)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            if (strcmp(hap_cases[k].name, names[i]) != 0) continue;
            all->checks++;
            all->failed += !hap_run_case(all->lab, LUO_F32, &hap_cases[k], &found);
        }
    all->checks++;
    all->failed += !hap_has_variants(all->lab, &found, "of the planner");
}

/* LUO_KIND names one of them. */
static bool is_wanted(const char *name)
{
    const char *only = getenv("LUO_KIND");
    return !only || strcmp(only, name) == 0;
}

static void run_all(tally *t)
{
    static const packed_kinds packed[] = {{LUO_F32, true, true}, {LUO_BF16, true, true}};
    const size_t each = t->scale > 1 ? 1 : 8;
    if (is_wanted("packed")) {
        run_packed(t, &packed[0], t->scale);
        run_packed(t, &packed[1], t->scale);
    }
    if (is_wanted("context")) {
        run_context(t, LUO_F32, each, 2 * t->scale);
        run_context(t, LUO_BF16, each, t->scale);
    }
    if (is_wanted("annotated")) {
        run_hap(t, LUO_F32, 3 * t->scale, HAP_ATTENTION);
        run_hap(t, LUO_BF16, 2 * t->scale, HAP_ATTENTION);
        run_hap(t, LUO_F32, 3 * t->scale, HAP_EXPERTS);
        run_hap(t, LUO_F32, t->scale, HAP_FEED_FORWARD);
        run_hap_variants(t);
    }
}

int main(int argc, char **argv)
{
    luo_lab lab;
    luo_lab_open(&lab, &argc, &argv);
    tally t = {.lab = &lab, .scale = luo_prop_whole() ? 5 : 1};
    luo_rank_executor tested = luo_cuda_executor;
    tested.open = open_small;
    lab.calls_beside = true;
    lab.executor = &tested;
    luo_lab_need(&lab, "kinds", 8);
    run_all(&t);
    if (lab.rank == 0)
        printf("%d%%: Checks: %d, Failures: %d, Errors: 0\n",
               100 * (t.checks - t.failed) / t.checks, t.checks, t.failed);
    luo_lab_close(&lab);
    return t.failed > 0;
}
