/* experts.c: what experts.h says, in f64. */
#include "tests/mpi/experts.h"

int main(int argc, char **argv)
{
    static const experts_kinds kinds = {LUO_F64, true, false};
    luo_lab lab;
    experts_tally t = {0};
    luo_lab_open(&lab, &argc, &argv);
    luo_lab_need(&lab, "experts", 8);
    experts_open(&lab);
    const int wanted =
        (int)luo_prop_env("LUO_CASES", luo_prop_few(10, 40) * luo_prop_env("LUO_SCALE", 1));
    const uint64_t first = luo_prop_first();
    uint64_t seed = first;
    for (; t.plans < wanted; seed++) experts_run_seed(&lab, &kinds, seed, &t);
    const int twins = wanted / 2;
    for (int i = 0; i < twins; i++)
        t.failed += !experts_run_twin(&lab, &kinds, first + (uint64_t)i, &t);
    experts_run_tables(&lab, &kinds, false, &t);
    experts_report(&lab, &t, first, seed);
    if (lab.rank == 0)
        printf("%d%%: Checks: %d, Failures: %d, Errors: 0\n", 100 * (t.plans - t.failed) / t.plans,
               t.plans, t.failed);
    luo_lab_close(&lab);
    return t.failed > 0;
}
