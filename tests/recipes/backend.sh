# The simulator, walking each program by itself before: it says how many instructions a step has.
row='add a backend'
programs=(backend/run_counted)
steps() {
    cat >sim/counted.h <<'X' &&
/* counted.h: the simulator, with a note of how many instructions steps submit. */
#ifndef LUO_SIM_COUNTED_H
#define LUO_SIM_COUNTED_H
#include "core/run/backend.h"

extern const luo_backend luo_counted_backend;
#endif
X
        cat >sim/counted.c <<'X' &&
/* counted.c: both tables; time is the simulator's. */
#include "sim/counted.h"

#include <stdio.h>

#include "core/run/interp.h"
#include "sim/sim.h"

struct luo_rank {
    int64_t submitted;
};
struct luo_backend_state {
    luo_backend_state *sim;
    luo_arena *scratch;
    char note[64];
};

static luo_status submit(luo_rank *rank, const luo_issue *issue, int64_t *ticket)
{
    (void)issue;
    *ticket = rank->submitted++;
    return LUO_OK;
}
static luo_status wait_for(luo_rank *rank, const int64_t *tickets, int32_t n)
{
    (void)rank, (void)tickets, (void)n;
    return LUO_OK;
}
static const luo_executor counter = {.submit = submit, .wait = wait_for};

static luo_status counted_open(const luo_backend_config *config, luo_backend_state **out,
                               luo_err *err)
{
    luo_arena *arena = luo_arena_new(1 << 12);
    luo_backend_state *b = arena ? luo_arena_calloc(arena, 1, sizeof *b) : NULL;
    luo_status st = b ? luo_sim_backend.open(config, &b->sim, err) : luo_err_nomem(err);
    if (st != LUO_OK) {
        luo_arena_free(arena);
        return st;
    }
    b->scratch = arena;
    *out = b;
    return LUO_OK;
}
static void counted_close(luo_backend_state *b)
{
    if (!b) return;
    luo_sim_backend.close(b->sim);
    luo_arena_free(b->scratch);
}
static luo_status counted_run(luo_backend_state *b, const luo_step_request *request,
                              luo_step_result *result, luo_err *err)
{
    const luo_programs *set = request->programs;
    luo_rank rank = {0};
    for (int32_t i = 0; i < set->n; i++)
        if (luo_interp_program(&counter, &rank, set, &set->at[i], false, b->scratch) !=
            LUO_OK)
            return luo_err_nomem(err);
    LUO_TRY(luo_sim_backend.run_ranks(b->sim, request, result, err));
    snprintf(b->note, sizeof b->note, "%lld instructions a step", (long long)rank.submitted);
    if (!result->note) result->note = b->note;
    return LUO_OK;
}
static luo_status counted_describe(char *text, size_t size)
{
    snprintf(text, size, "counted: the simulator, and how much it is given");
    return LUO_OK;
}
static double counted_now(const luo_backend_state *b)
{
    return luo_sim_backend.now(b->sim);
}
static luo_status counted_sleep(luo_backend_state *b, double at_s)
{
    return luo_sim_backend.sleep_until(b->sim, at_s);
}

const luo_backend luo_counted_backend = {
    .name = "counted",
    .caps = LUO_CAP_VIRTUAL_TIME | LUO_CAP_LINK_EVENTS | LUO_CAP_WHAT_IF | LUO_CAP_PARTS,
    .describe = counted_describe,
    .open = counted_open,
    .close = counted_close,
    .run_ranks = counted_run,
    .now = counted_now,
    .sleep_until = counted_sleep,
};
X
        insert before cli/load.c '#include "sim/sim.h"' <<'X' &&
#include "sim/counted.h"
X
        sed -i 's/{&luo_sim_backend, &luo_host_backend, &luo_cuda_backend};/{\&luo_sim_backend, \&luo_host_backend, \&luo_cuda_backend,\n                                           \&luo_counted_backend};/' cli/load.c &&
        sed -e 's/&luo_sim_backend/by_name()/; s|sim/sim.h|cli/load.h|' \
            -e 's/^static bool with_judge;.*/&\n#define by_name() luo_backend_find(luo_backends, luo_nbackends, "counted")/' \
            -e '/^static double step_seconds/,/^}/s/    run_ok();/&\n    ck_assert_int_gt(fake.nwarnings, 0);/' \
            tests/backend/run_sim.c >tests/backend/run_counted.c
}
show() { # whole runs, found by name, both tables in use
    [ "$(grep -cE 'by_name\(\)|nwarnings' tests/backend/run_counted.c)" -ge 4 ] && ! grep luo_sim_backend tests/backend/run_counted.c &&
        "$B/tests/backend/run_counted"
}
