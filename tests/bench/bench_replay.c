/* bench_replay.c: W4, the heterogeneous day: 10,000 steps on 1,024 devices with 100
 * events under policy restart, once with collectives in closed form and once as flows. */
#include <string.h>

#include "core/io/read/read.h"
#include "core/run/driver.h"
#include "sim/sim.h"
#include "tests/bench/bench.h"

static luo_status keep(void *ctx, const luo_run_summary *s, luo_err *err)
{
    (void)err;
    *(int64_t *)ctx = s->steps_done;
    return LUO_OK;
}

static int replay(const luo_scenario *sc, int32_t policy, luo_comm_mode comm, const char *name)
{
    int64_t steps = 0;
    luo_err err = {0};
    const luo_sink sink = {.ctx = &steps, .summary = keep};
    const luo_run_opts opts = {.backend = &luo_sim_backend, .comm = comm, .fold = true,
                               .trace = {.kind = LUO_TRACE_NONE}};
    const double start = luo_bench_now();
    if (luo_run_policy(sc, policy, &opts, &sink, &err) != LUO_OK || steps != sc->steps) {
        fprintf(stderr, "%s: %s\n", name, err.text);
        return 1;
    }
    printf("%s %.1f s\n", name, luo_bench_now() - start);
    fflush(stdout);
    return 0;
}

int main(void)
{
    luo_arena *arena = luo_arena_new(1 << 20);
    luo_diags diags;
    luo_scenario *sc;
    luo_diags_init(&diags, arena);
    if (luo_read_scenario(arena, "scenarios/bench/w4.yaml", NULL, &sc, NULL, &diags) != LUO_OK) {
        fprintf(stderr, "%s\n", diags.first->err.text);
        return 1;
    }
    int32_t restart = 0;
    while (strcmp(sc->policies[restart].name, "restart") != 0) restart++;
    const int bad = replay(sc, restart, LUO_COMM_MODEL, "replay_w4_restart_model") ||
                    replay(sc, restart, LUO_COMM_FLOW, "replay_w4_restart_flow");
    luo_arena_free(arena);
    return bad;
}
