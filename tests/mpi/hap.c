/* hap.c: programs of the planner `hap` train like one device, on host in f64 (hap.h). Run by
 * `mpirun -n 8`. */
#include "tests/mpi/hap.h"

int main(int argc, char **argv)
{
    luo_lab lab;
    int failed = 0, checks = 0;
    luo_lab_open(&lab, &argc, &argv);
    luo_lab_need(&lab, "hap", 8);
    const uint64_t cases =
        luo_prop_env("LUO_CASES", luo_prop_few(16, 40) * luo_prop_env("LUO_SCALE", 1));
    for (uint64_t k = 0; k < cases; k++) {
        bool ran;
        failed += !hap_run(&lab, LUO_F64, luo_prop_first() + k, &ran);
        checks += ran;
    }
    /* a draw may lead to an operation whose operands cannot be brought to any of its rules */
    if (cases > 8 && checks < (int)cases * 3 / 4 && ++failed && lab.rank == 0)
        printf("only %d of %d programs ran\n", checks, (int)cases);
    if (lab.rank == 0)
        printf("%d%%: Checks: %d, Failures: %d, Errors: 0\n",
               100 * (checks - failed) / (checks > 0 ? checks : 1), checks, failed);
    luo_lab_close(&lab);
    return failed > 0;
}
