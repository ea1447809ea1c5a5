/* tests/storm/host_reference.c: what one rank learns that nobody disturbs, once per setting. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/storm/host.h"

enum { SEEDS = 4, SETTINGS = 16 };
static storm_row known[SETTINGS][SEEDS][STORM_STEPS];
static bool have[SETTINGS][SEEDS];

static bool train(storm_case *c, storm_row *out)
{
    char seed[24], steps[24];
    storm_process p;
    storm_row *rows;
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)c->data_seed);
    snprintf(steps, sizeof steps, "%d", STORM_STEPS);
    const storm_command cmd = {.word = {getenv("LUOSHU"),
                                        "run",
                                        storm_path(c, "alone.json"),
                                        "--backend",
                                        "host",
                                        "--model",
                                        storm_path(c, "model.yaml"),
                                        "--cluster",
                                        storm_path(c, "cluster.yaml"),
                                        "--ranks",
                                        "1",
                                        "--dtype",
                                        "f64",
                                        "--plots",
                                        "off",
                                        "--trace-steps",
                                        "none",
                                        "--quiet",
                                        "--seed",
                                        seed,
                                        "--steps",
                                        steps,
                                        "--out",
                                        storm_path(c, "alone")},
                               .n = 24};
    storm_start(c, &cmd, "alone", &p);
    storm_wait(c, &p);
    const int n = storm_rows(c, storm_path(c, "alone/plan/steps.csv"), &rows);
    if (p.how != 0 || n != STORM_STEPS) {
        storm_wrong(c, "the reference has %d of %d steps and status %d", n, STORM_STEPS, p.how);
        return false;
    }
    for (int i = 0; i < n; i++) out[i] = rows[i];
    return true;
}

const storm_row *storm_reference(storm_case *c)
{
    const int k = (int)(c->setting - storm_settings);
    const uint64_t s = c->data_seed % SEEDS;
    if (!have[k][s]) have[k][s] = train(c, known[k][s]);
    return have[k][s] ? known[k][s] : NULL;
}
