/* context.c: plans that cut sequences among devices train like one device, on host in f64
 * (context.h). Run by `mpirun -n 8`. */
#include "tests/mpi/context.h"

int main(int argc, char **argv)
{
    luo_lab lab;
    context_tally t = {0};
    luo_lab_open(&lab, &argc, &argv);
    luo_lab_need(&lab, "context", 8);
    const int wanted =
        (int)luo_prop_env("LUO_CASES", luo_prop_few(10, 40) * luo_prop_env("LUO_SCALE", 1));
    const uint64_t first = luo_prop_first();
    uint64_t seed = first;
    context_run_by_hand(&lab, LUO_F64, 0, 1, &t);
    const int hand = t.plans;
    for (; t.plans < wanted + hand; seed++) context_run(&lab, LUO_F64, seed, &t);
    context_report(&lab, &t, first, seed - 1);
    if (lab.rank == 0)
        printf("%d%%: Checks: %d, Failures: %d, Errors: 0\n",
               100 * (t.plans - t.failed) / t.plans, t.plans, t.failed);
    luo_lab_close(&lab);
    return t.failed > 0;
}
