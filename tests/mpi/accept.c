/* accept.c: every plan of accept.h, and random ones, on host, in f64 and f32. What f32
 * adds is rounding: without LUO_SCALE every ninth plan shows it, and every third one is run at
 * all. */
#include "tests/mpi/accept.h"
#include "exec/host/job.h"

static int groups_of(const luo_exec *x)
{
    int n = 0;
    for (const host_group *g = x->groups; g; g = g->next) n++;
    return n;
}

int main(int argc, char **argv)
{
    luo_lab lab;
    int failed = 0, checks = 0;
    luo_lab_open(&lab, &argc, &argv);
    luo_lab_need(&lab, "accept", 8);
    const char *only = getenv("LUO_ROW");
    const bool all = only || luo_prop_whole();
    for (int i = 0; i < (int)(sizeof rows / sizeof *rows); i++) {
        if (only ? atoi(only) != i : !all && i % 3) continue;
        if (only && lab.rank == 0) printf("row %d: %s\n", i, rows[i].line);
        failed += !run_row(&lab, &rows[i], LUO_F64);
        checks++;
        if (!all && i % 9) continue;
        failed += !run_row(&lab, &rows[i], LUO_F32);
        checks++;
    }
    for (int i = 0; i < (int)(sizeof switches / sizeof *switches); i++) {
        failed += !run_switch(&lab, &switches[i], LUO_F64, groups_of);
        checks++;
        if (!all && i) continue;
        failed += !run_switch(&lab, &switches[i], LUO_F32, groups_of);
        checks++;
    }
    const uint64_t cases = only ? 0 : luo_prop_few(4, 20) * luo_prop_env("LUO_SCALE", 1);
    if (lab.rank == 0)
        printf("seeds %llu..%llu\n", (unsigned long long)luo_prop_first(),
               (unsigned long long)(luo_prop_first() + cases - 1));
    for (uint64_t k = 0; k < 2 * cases; k++) { /* then of layers without attention */
        const bool mlp = k >= cases;
        const uint64_t at = mlp ? k - cases : k;
        char line[256];
        row r;
        luo_rng rng = luo_rng_seed(luo_prop_first() + at);
        random_row(&rng, &r, line, sizeof line, mlp);
        failed += !run_row(&lab, &r, mlp || at % 4 ? LUO_F64 : LUO_F32);
        checks++;
    }
    if (lab.rank == 0)
        printf("%d%%: Checks: %d, Failures: %d, Errors: 0\n", 100 * (checks - failed) / checks,
               checks, failed);
    luo_lab_close(&lab);
    return failed > 0;
}
