/* latent.c: what latent.h says, in f64. */
#include "tests/mpi/latent.h"

int main(int argc, char **argv)
{
    luo_lab lab;
    latent_tally t = {0};
    luo_lab_open(&lab, &argc, &argv);
    luo_lab_need(&lab, "latent", 8);
    const int wanted =
        (int)luo_prop_env("LUO_CASES", luo_prop_few(10, 40) * luo_prop_env("LUO_SCALE", 1));
    const uint64_t first = luo_prop_first();
    uint64_t seed = first;
    for (; t.plans < wanted; seed++) latent_run_seed(&lab, LUO_F64, seed, &t);
    latent_report(&lab, &t, first, seed);
    if (lab.rank == 0)
        printf("%d%%: Checks: %d, Failures: %d, Errors: 0\n", 100 * (t.plans - t.failed) / t.plans,
               t.plans, t.failed);
    luo_lab_close(&lab);
    return t.failed > 0;
}
