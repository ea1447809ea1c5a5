/* hap.c: programs of the planner `hap` train like one device, on host in f64 (hap.h). Run by
 * `mpirun -n 8`. */
#include "tests/mpi/hap.h"

/* A draw may lead to an operation whose operands cannot be brought to any of its rules. */
static int hap_few(const luo_lab *lab, const hap_tally *t, int cases)
{
    if (cases <= 8 || t->ran >= cases * 3 / 4) return 0;
    if (lab->rank == 0) printf("only %d of %d programs ran\n", t->ran, cases);
    return 1;
}

int main(int argc, char **argv)
{
    luo_lab lab;
    hap_tally plain = {0}, experts = {0}, mlps = {0}, found = {0};
    int failed = 0;
    luo_lab_open(&lab, &argc, &argv);
    luo_lab_need(&lab, "hap", 8);
    const int cases =
        (int)luo_prop_env("LUO_CASES", luo_prop_few(16, 40) * luo_prop_env("LUO_SCALE", 1));
    for (int k = 0; k < cases; k++)
        failed += !hap_run(&lab, LUO_F64, luo_prop_first() + (uint64_t)k, HAP_ATTENTION, &plain);
    for (int k = 0; k < cases; k++)
        failed += !hap_run(&lab, LUO_F64, luo_prop_first() + (uint64_t)k, HAP_EXPERTS, &experts);
    for (int k = 0; k < cases; k++)
        failed += !hap_run(&lab, LUO_F64, luo_prop_first() + (uint64_t)k, HAP_FEED_FORWARD, &mlps);
    for (int k = 0; k < HAP_CASES; k++)
        failed += !hap_run_case(&lab, LUO_F64, &hap_cases[k], &found);
    failed += !hap_has_variants(&lab, &found, "of the planner");
    if (cases >= 8) failed += !hap_has_variants(&lab, &plain, "drawn");
    failed +=
        hap_few(&lab, &plain, cases) + hap_few(&lab, &experts, cases) + hap_few(&lab, &mlps, cases);
    const int checks = plain.ran + experts.ran + mlps.ran + HAP_CASES;
    if (lab.rank == 0)
        printf("%d programs of models with experts: %d with experts dealt, in %d of them none to "
               "some devices, %d with copies and tokens cut, %d with columns cut, %d that drop "
               "choices, %d with latent attention; %d programs of feed-forward alone\n%d%%: "
               "Checks: %d, Failures: %d, Errors: 0\n",
               experts.ran, experts.dealt, experts.none, experts.copies, experts.columns,
               experts.dropped, experts.latent, mlps.ran,
               100 * (checks - failed) / (checks > 0 ? checks : 1), checks, failed);
    luo_lab_close(&lab);
    return failed > 0;
}
