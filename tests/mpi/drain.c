/* drain.c: what drain.h says, on host. */
#include "tests/mpi/drain.h"

int main(int argc, char **argv)
{
    luo_lab lab;
    int failed = 0, checks = 0, given_up = 0;
    luo_lab_open(&lab, &argc, &argv);
    luo_lab_need(&lab, "drain", 8);
    for (int i = 0; i < 6; i++, checks++) failed += !run_drain(&lab, i, LUO_F64, i % 2);
    failed += !run_infinite(&lab, LUO_F64, false) + !run_infinite(&lab, LUO_F32, true);
    const int cases = (int)(luo_prop_few(10, 60) * luo_prop_env("LUO_SCALE", 1));
    failed += !run_bells(&lab, cases, LUO_F32, false, &given_up);
    failed += !run_bells(&lab, cases / 2, LUO_F32, true, &given_up);
    checks += 4;
    if (lab.rank == 0) {
        printf("seed %llu: %d of %d steps given up\n", (unsigned long long)luo_prop_first(),
               given_up, cases + cases / 2);
        printf("%d%%: Checks: %d, Failures: %d, Errors: 0\n", 100 * (checks - failed) / checks,
               checks, failed);
    }
    luo_lab_close(&lab);
    return failed > 0;
}
