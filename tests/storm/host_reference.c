/* host_reference.c: what one rank learns that nobody disturbs, once per setting. */
#include <stdlib.h>

#include "tests/storm/host.h"

enum { SEEDS = 4, SETTINGS = 16 };
static storm_row known[SETTINGS][SEEDS][2][STORM_STEPS];
static bool have[SETTINGS][SEEDS][2];

static bool train(storm_case *c, storm_row *out)
{
    storm_process p;
    storm_row *rows;
    const storm_command cmd = {.word = {getenv("LUOSHU"), "run", storm_make_alone(c), "--backend",
                                        "host", "--ranks", "1", "--dtype", "f64", "--plots", "off",
                                        "--trace-steps", "none", "--quiet", "--out",
                                        storm_path(c, "alone")},
                               .n = 16};
    storm_start(c, &cmd, "alone", &p);
    storm_wait(c, &p);
    const int n = storm_rows(c, storm_path(c, "alone/static/steps.csv"), &rows);
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
    if (!have[k][s][c->longer]) have[k][s][c->longer] = train(c, known[k][s][c->longer]);
    return have[k][s][c->longer] ? known[k][s][c->longer] : NULL;
}
