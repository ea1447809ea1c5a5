/* raw.c: what raw.h says, on host. */
#include "tests/mpi/raw.h"

int main(int argc, char **argv)
{
    /* a copy beside messages; a sum of which one partner is late */
    static const uint64_t known[] = {2805, 3419, 3490};
    luo_lab lab;
    int failed = 0, ran = 0;
    luo_lab_open(&lab, &argc, &argv);
    const uint64_t cases =
        luo_prop_env("LUO_CASES", luo_prop_few(30, 60)) * luo_prop_env("LUO_SCALE", 1);
    for (int i = 0; i < 3; i++) failed += !run_raw(&lab, known[i], LUO_F64, &ran);
    for (uint64_t k = 0; k < cases; k++)
        failed += !run_raw(&lab, luo_prop_first() + k, LUO_F64, &ran);
    if (ran < 3 && ++failed && lab.rank == 0) printf("the known plans were refused\n");
    if (lab.rank == 0)
        printf("%d of %llu plans ran\n%d%%: Checks: %d, Failures: %d, Errors: 0\n", ran,
               (unsigned long long)cases + 3, 100 * (ran - failed) / (ran > 0 ? ran : 1), ran,
               failed);
    luo_lab_close(&lab);
    return failed > 0;
}
