/* experts.c: plans of models with experts, and with latent attention, on the cuda executor train
 * like one device on host: what tests/mpi/experts.h and tests/mpi/latent.h say, in f32 and, every
 * third, in bf16. Run by `mpirun -n 8`. */
#include "tests/mpi/experts.h"
#include "exec/cuda/executor.h"
#include "tests/mpi/latent.h"

/* Choices are made by numbers that bf16 rounds: many a token goes to another expert than on host,
 * and its gradients with it. So plans in bf16 have gates that do not look at such numbers. */
static luo_dtype dtype_of(uint64_t seed)
{
    return seed % 3 == 0 ? LUO_BF16 : LUO_F32;
}

static void run_seeds(luo_lab *lab, experts_tally *t, latent_tally *l)
{
    const int wanted = (int)luo_prop_env("LUO_CASES", luo_prop_few(3, 30));
    const uint64_t first = luo_prop_first();
    for (int k = 0; k < wanted; k++) {
        const luo_dtype dtype = dtype_of(first + (uint64_t)k);
        const experts_kinds kinds = {dtype, true, dtype == LUO_BF16};
        experts_run_seed(lab, &kinds, first + (uint64_t)k, t);
    }
    experts_report(lab, t, first, first + (uint64_t)wanted);
    largest_error = 0;
    for (int k = 0; k < (wanted + 1) / 2; k++)
        latent_run_seed(lab, dtype_of(first + (uint64_t)k), first + (uint64_t)k, l);
    latent_report(lab, l, first, first + (uint64_t)(wanted + 1) / 2);
}

int main(int argc, char **argv)
{
    static const experts_kinds f32 = {LUO_F32, true, false};
    luo_lab lab;
    experts_tally t = {0};
    latent_tally l = {0};
    luo_lab_open(&lab, &argc, &argv);
    luo_lab_need(&lab, "experts", 8);
    lab.calls_beside = true;
    lab.executor = &luo_cuda_executor;
    experts_open(&lab);
    run_seeds(&lab, &t, &l);
    if (!getenv("LUO_CASES")) experts_run_tables(&lab, &f32, true, &t);
    const int n = t.plans + l.plans, many = t.edges > 1 + t.plans / 8;
    const int failed = t.failed + l.failed + many;
    if (many && lab.rank == 0) printf("FAIL too many plans were seen again: %d\n", t.edges);
    if (lab.rank == 0)
        printf("%d%%: Checks: %d, Failures: %d, Errors: 0\n", 100 * (n - failed) / n, n, failed);
    luo_lab_close(&lab);
    return failed > 0;
}
