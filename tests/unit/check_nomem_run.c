/* check_nomem_run.c: what a simulated run does when there is no memory: each allocation of the
 * driver, of its policy and of the simulator's processes is refused once, and the answer is
 * LUO_ENOMEM or, where the memory was not needed, what it is with all memory. */
#define NOMEM_DEEP 2 /* planners have jobs of their own in check_nomem.c; a run takes 50 ms */
#include "sim/sim.h"
#include "tests/driver_fixture.h"
#include "tests/nomem.h"
#include "tests/plan_make.h"

static luo_str rows;

/* ---- a sink whose own memory is never refused ---- */

static luo_status say_step(void *ctx, const luo_row_step *row, luo_err *err)
{
    (void)ctx;
    (void)err;
    nomem.on = false;
    luo_str_addf(&rows, "step %lld.%d plan %d: %a %a compute %a bubble %a\n", (long long)row->step,
                 row->attempt, row->plan, row->start_s, row->end_s, row->parts.compute_s,
                 row->parts.bubble_s);
    nomem.on = true;
    return LUO_OK;
}

static luo_status say_event(void *ctx, const luo_row_event *row, luo_err *err)
{
    (void)ctx;
    (void)err;
    nomem.on = false;
    luo_str_addf(&rows, "%s %s in step %lld, %a: %s\n", row->id, luo_event_phase_name(row->phase),
                 (long long)row->step, row->t_s, row->detail);
    nomem.on = true;
    return LUO_OK;
}

static luo_status say_plan(void *ctx, int32_t index, const luo_plan *plan, const luo_programs *set,
                           luo_err *err)
{
    (void)ctx;
    (void)plan;
    (void)err;
    nomem.on = false;
    luo_str_addf(&rows, "plan %d: %016llx\n", index, (unsigned long long)set->hash);
    nomem.on = true;
    return LUO_OK;
}

static luo_status say_ops(void *ctx, int64_t step, int32_t attempt, double start_s, int32_t plan,
                          const luo_programs *set, const luo_step_result *result, luo_err *err)
{
    (void)ctx;
    (void)start_s;
    (void)set;
    (void)err;
    nomem.on = false;
    luo_str_addf(&rows, "ops of step %lld.%d plan %d: %d, the last at %a\n", (long long)step,
                 attempt, plan, result->nrecords, result->records[result->nrecords - 1].end_s);
    nomem.on = true;
    return LUO_OK;
}

static luo_status say_summary(void *ctx, const luo_run_summary *s, luo_err *err)
{
    (void)ctx;
    (void)err;
    nomem.on = false;
    luo_str_addf(&rows, "%s: %lld steps, %d switches, %d restarts, %a s\n",
                 luo_run_state_name(s->state), (long long)s->steps_done, s->switches, s->restarts,
                 s->total_s);
    nomem.on = true;
    return LUO_OK;
}

static const luo_sink says = {.step = say_step,
                              .event = say_event,
                              .plan = say_plan,
                              .ops = say_ops,
                              .summary = say_summary};

/* ---- runs ----
 * The driver's fixture with 4 layers, one stage of 2 devices a pipeline and 2 micro-batches. */

static luo_model small;

static void prepare_run(luo_arena *a, const char *policy, luo_event_kind kind)
{
    events[0] = fixture_event("event", kind, "device:3", 0, 0);
    events[0].trigger = LUO_AT_STEP;
    events[0].at[0] = 1;
    prepare(policy, 4, 1);
    small = model;
    small.layers = 4;
    sc.model = &small;
    luo_plan *plan = luo_test_plan(a, "2: [0,1]*4 || 2: [2,3]*4");
    plan->devices = sc.cluster->ndevices;
    plan->sequence_tokens = 256;
    sc.plan = plan;
    spec.window_steps = 2;
    opts.backend = &luo_sim_backend;
    opts.simulator = &luo_sim_backend;
    luo_str_clear(&rows);
}

static void prepare_restart(luo_arena *a)
{
    prepare_run(a, "restart", LUO_EVENT_FAIL);
    sc.checkpoint.kind = LUO_CHECKPOINT_STEPS;
    sc.checkpoint.every_steps = 1;
    opts.trace.kind = LUO_TRACE_ALL;
}

static void prepare_malleus_run(luo_arena *a)
{
    prepare_run(a, "malleus", LUO_EVENT_STRAGGLER);
}

static luo_status simulate(luo_arena *a, luo_err *err)
{
    (void)a;
    return luo_run_policy(&sc, 0, &opts, &says, err);
}

static void tell_rows(luo_str *text)
{
    luo_str_add(text, luo_str_get(&rows));
}

static const nomem_job jobs[] = {
    {"simulate under restart", prepare_restart, simulate, tell_rows, NULL},
    {"simulate under malleus", prepare_malleus_run, simulate, tell_rows, NULL},
};

START_TEST(refused)
{
    ck_assert_int_eq(nomem_all(&jobs[_i], 20), 0);
}
END_TEST
LUO_MAIN("nomem.run", refused, LUO_ROWS(jobs))
