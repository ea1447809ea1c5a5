/* packed.c: packed sequences of unequal lengths train like each of them alone, on host in f64
 * (packed.h). Run by `mpirun -n 8`. */
#include "tests/mpi/packed.h"

int main(int argc, char **argv)
{
    static const packed_kinds kinds = {LUO_F64, true, true};
    luo_lab lab;
    packed_tally t = {0};
    luo_lab_open(&lab, &argc, &argv);
    luo_lab_need(&lab, "packed", 8);
    const uint64_t first = luo_prop_first();
    const uint64_t cases =
        luo_prop_env("LUO_CASES", luo_prop_few(12, 40) * luo_prop_env("LUO_SCALE", 1));
    for (uint64_t k = 0; k < cases; k++) packed_run(&lab, &kinds, first + k, &t);
    packed_report(&lab, &t, first, first + cases - 1);
    if (lab.rank == 0)
        printf("%d%%: Checks: %d, Failures: %d, Errors: 0\n", 100 * (t.cases - t.failed) / t.cases,
               t.cases, t.failed);
    luo_lab_close(&lab);
    return t.failed > 0;
}
