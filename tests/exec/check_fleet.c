/* check_fleet.c: real processes: started, asked, ended; devices that fail, processes
 * that die, ranks that hang, a coordinator that is killed. Nothing may be left of any of them. */
#include "core/run/parts.h"
#include "tests/exec/coord_rig.h"

/* Seconds of a task of the fake. A step that is to be broken lasts for a minute, so that whatever
 * is to happen in it does so on a busy machine, too. */
static const double TASK_S = 0.01;

static void slow(rig *g, bool on)
{
    g->world->slowdown[0] = on ? 1000 : 1;
}

START_TEST(steps)
{
    rig g;
    int64_t step = 3;
    rig_open(&g, 8, "2: [0,1]*2 [2]*2");
    rig_start(&g);
    ck_assert_int_eq(g.b->workers.n, 8); /* more than the plan uses */
    for (int64_t s = 0; s < 3; s++) {
        const double before = rig_now(&g);
        rig_step(&g, s);
        ck_assert_double_ge(g.r.start_s, before);
        ck_assert_double_le(g.r.end_s, rig_now(&g));
        ck_assert_double_ge(g.r.end_s - g.r.start_s, TASK_S * g.set->at[0].ntask);
        ck_assert_int_eq(g.r.n, 3);
        for (int32_t i = 0; i < 3; i++) {
            ck_assert_double_eq_tol(luo_parts_total(&g.r.parts[i]), g.r.end_s - g.r.start_s, 1e-9);
            ck_assert_int_eq(g.r.memory_bytes[i], 1000 + i);
            ck_assert_double_gt(g.r.compute_s[i], 0);
        }
        ck_assert(g.r.has_loss && !g.r.note);
        ck_assert_double_eq(g.r.loss, 1.0 / (double)(s + 1));
    }
    ck_assert_int_eq(rig_state(&g, LUO_STATE_SAVE, &step), LUO_OK);
    step = INT64_MAX;
    ck_assert_int_eq(rig_state(&g, LUO_STATE_LOAD, &step), LUO_OK);
    ck_assert_int_eq(step, 3);
    rig_close(&g);
}
END_TEST

/* ---- devices that fail, processes stay ---- */

START_TEST(soft_failure)
{
    static const int32_t dead[] = {2};
    rig g;
    int64_t step = 1;
    rig_open(&g, 4, "2: [0,1]*2 [2]*2");
    rig_start(&g);
    const double at = rig_now(&g) + 0.3;
    const luo_change idle = {.at_s = at, .kind = LUO_CHANGE_DOWN, .target = 3};
    ck_assert_int_eq(rig_run(&g, 0, &idle, 1), LUO_OK);
    ck_assert_int_eq(g.r.status, LUO_OK); /* nobody misses a device without a program */
    slow(&g, true);
    const double when = rig_now(&g) + 0.3;
    const luo_change down = {.at_s = when, .kind = LUO_CHANGE_DOWN, .target = 2};
    ck_assert_int_eq(rig_run(&g, 1, &down, 1), LUO_OK);
    ck_assert_int_eq(g.r.status, LUO_EPEER);
    ck_assert_str_eq(g.r.text, "device 2 failed in the step.");
    ck_assert(g.r.failed_device == 2 && g.r.failed_link == -1 && !g.r.died && !g.r.has_loss);
    ck_assert_double_ge(g.r.end_s, when);
    slow(&g, false);
    g.world->up[2] = false;
    ck_assert_int_eq(rig_run(&g, 1, NULL, 0), LUO_OK);
    ck_assert_int_eq(g.r.status, LUO_EPEER);
    ck_assert_str_eq(g.r.text, "device 2 is down when the step begins.");
    ck_assert_int_eq(rig_state(&g, LUO_STATE_SAVE, &step), LUO_OK); /* step 1 was not counted */
    rig_take(&g, "2: [0,1]*4");
    step = INT64_MAX;
    ck_assert_int_eq(rig_state(&g, LUO_STATE_LOAD, &step), LUO_OK);
    ck_assert_int_eq(step, 1);
    rig_step(&g, 1);
    ck_assert_int_eq(g.b->starts, 1);
    ck_assert_int_eq(rig_switch(&g, "2: [0]*4", 1, dead, NULL, 0), LUO_OK);
    ck_assert_msg(g.r.status == LUO_OK, "%s", g.r.text);
    rig_step(&g, 2);
    rig_close(&g);
}
END_TEST

/* A switch in which a device fails moves nothing: the old plan goes on. */
START_TEST(broken_switch)
{
    rig g;
    int64_t step = 1;
    rig_open(&g, 4, "2: [0,1]*4");
    rig_start(&g);
    rig_step(&g, 0);
    const luo_change down = {.at_s = rig_now(&g), .kind = LUO_CHANGE_DOWN, .target = 3};
    ck_assert_int_eq(rig_switch(&g, "2: [2,3]*4", 0, NULL, &down, 1), LUO_OK);
    ck_assert_msg(g.r.status == LUO_EPEER && g.r.failed_device == 3, "%s", g.r.text);
    rig_step(&g, 1);
    ck_assert_int_eq(rig_switch(&g, "2: [2,3]*4", 0, NULL, NULL, 0), LUO_OK);
    ck_assert_msg(g.r.status == LUO_OK, "%s", g.r.text);
    rig_step(&g, 2);
    ck_assert_int_eq(rig_switch(&g, "2: [0,1]*4", 0, NULL, NULL, 0), LUO_OK);
    rig_step(&g, 3);
    step = 4;
    ck_assert_int_eq(rig_state(&g, LUO_STATE_SAVE, &step), LUO_OK);
    rig_close(&g);
}
END_TEST

/* Other micro-batches of the same places: no switch is asked for, and none is needed. */
START_TEST(other_micro_batches)
{
    rig g;
    int64_t step = 2;
    rig_open(&g, 2, "2: [0]*4 || 2: [1]*4");
    rig_start(&g);
    rig_step(&g, 0);
    rig_take(&g, "3: [0]*4 || 1: [1]*4");
    rig_step(&g, 1);
    ck_assert_int_eq(rig_state(&g, LUO_STATE_SAVE, &step), LUO_OK);
    rig_take(&g, "1: [0]*4 || 3: [1]*4"); /* a third: the first is given back */
    rig_step(&g, 2);
    ck_assert_int_eq(g.b->ids, 3);
    rig_close(&g);
}
END_TEST

/* ---- processes that die ---- */

static void kill_after(pid_t pid, double seconds, double *at)
{
    int device_info[2];
    ck_assert_int_eq(pipe(device_info), 0);
    if (fork() == 0) {
        usleep((useconds_t)(1e6 * seconds));
        const double now = luo_clock_s();
        kill(pid, SIGKILL);
        if (write(device_info[1], &now, sizeof now) < 0) _exit(1);
        _exit(0);
    }
    close(device_info[1]);
    *at = device_info[0]; /* to be read by killed_at */
}

static double killed_at(double device_info)
{
    double at = 0;
    ck_assert_int_eq(read((int)device_info, &at, sizeof at), sizeof at);
    close((int)device_info);
    return at;
}

static void same_plan_again(rig *g, int64_t want)
{
    int64_t step = INT64_MAX;
    if (rig_state(g, LUO_STATE_LOAD, &step) != LUO_OK) rig_fail("load", &g->err);
    ck_assert_int_eq(step, want);
}

/* Killed from outside in mid-step, twice; then by an event. */
START_TEST(hard_failure)
{
    rig g;
    pid_t pid[8];
    int64_t step = 1;
    double at;
    rig_open(&g, 4, "2: [0,1]*2 [2]*2");
    rig_start(&g);
    rig_step(&g, 0);
    ck_assert_int_eq(rig_state(&g, LUO_STATE_SAVE, &step), LUO_OK);
    for (int i = 0; i < 2; i++) {
        const int32_t n = rig_pids(&g, pid);
        slow(&g, true);
        kill_after(pid[1 + i], 0.4, &at);
        ck_assert_int_eq(rig_run(&g, 1, NULL, 0), LUO_OK);
        const double noticed = luo_clock_s() - killed_at(at);
        printf("killed rank %d: noticed after %.1f ms\n", 1 + i, 1000 * noticed);
        ck_assert_msg(g.r.status == LUO_EPEER && g.r.died && g.r.failed_device == 1 + i, "%s",
                      g.r.text);
        ck_assert_ptr_nonnull(strstr(g.r.text, "died in step 1, noticed at "));
        ck_assert_double_ge(rig_gone_after(pid, n, RIG_PATIENCE_S), 0);
        same_plan_again(&g, 1);
        ck_assert_int_eq(g.b->starts, 2 + i);
    }
    rig_pids(&g, pid);
    const double when = rig_now(&g) + 0.3;
    const luo_change hard = {.at_s = when, .kind = LUO_CHANGE_DOWN, .target = 2, .hard = true};
    ck_assert_int_eq(rig_run(&g, 1, &hard, 1), LUO_OK);
    ck_assert_msg(g.r.died && g.r.failed_device == 2, "%s", g.r.text);
    ck_assert_double_ge(g.r.end_s, when);
    slow(&g, false);
    g.world->up[2] = false; /* no rank is started for it */
    rig_take(&g, "2: [0,1]*2 [3]*2");
    same_plan_again(&g, 1);
    ck_assert_int_eq(g.b->workers.n, 3);
    rig_step(&g, 1);
    g.world->up[2] = true; /* repaired: a restart takes it in again */
    rig_take(&g, "2: [0,1]*2 [2]*2");
    ck_assert_int_eq(rig_run(&g, 2, NULL, 0), LUO_EBUG);
    same_plan_again(&g, 1);
    ck_assert_int_eq(g.b->workers.n, 4);
    rig_step(&g, 1);
    rig_close(&g);
}
END_TEST

/* Nobody notices a death between commands; then saving fails, and the next step tells who it was.
 */
START_TEST(death_while_idle)
{
    rig g;
    int64_t step = 1;
    pid_t pid[8];
    rig_open(&g, 3, "2: [0,1]*4");
    rig_start(&g);
    rig_step(&g, 0);
    rig_pids(&g, pid);
    kill(pid[2], SIGKILL); /* a spare one */
    ck_assert_double_ge(rig_gone_after(&pid[2], 1, RIG_PATIENCE_S), 0);
    ck_assert_int_eq(rig_state(&g, LUO_STATE_SAVE, &step), LUO_EPEER);
    ck_assert_int_eq(rig_state(&g, LUO_STATE_SAVE, &step), LUO_EPEER);
    ck_assert_int_eq(rig_run(&g, 1, NULL, 0), LUO_OK);
    ck_assert_msg(g.r.died && g.r.failed_device == 2, "%s", g.r.text);
    ck_assert_double_ge(rig_gone_after(pid, 3, RIG_PATIENCE_S), 0);
    step = INT64_MAX;
    ck_assert_int_eq(rig_state(&g, LUO_STATE_LOAD, &step), LUO_EINPUT);
    ck_assert_str_eq(g.err.text, "there is no checkpoint to go back to; `--resume DIR` or a "
                                 "checkpoint of this run is needed.");
    rig_close(&g);
}
END_TEST

/* One is stopped outside of steps: a checkpoint may take long, but every rank says where it is. */
START_TEST(silent_while_saving)
{
    rig g;
    int64_t step = 1;
    pid_t pid[8];
    rig_open(&g, 3, "2: [0,1]*2 [2]*2");
    g.options.stuck_s = 2;
    rig_start(&g);
    rig_step(&g, 0);
    rig_pids(&g, pid);
    kill(pid[1], SIGSTOP);
    ck_assert_int_eq(rig_state(&g, LUO_STATE_SAVE, &step), LUO_ESTUCK);
    ck_assert_msg(strstr(g.err.text, ": device 1 (rank 1, process "), "%s", g.err.text);
    ck_assert_msg(strstr(g.err.text, " does not answer, and the ranks do not save the state."),
                  "%s", g.err.text);
    ck_assert_double_ge(rig_gone_after(pid, 3, RIG_PATIENCE_S), 0);
    rig_close(&g);
}
END_TEST

/* The launcher itself is killed: all ranks are gone, and no device is to blame. */
START_TEST(launcher_killed)
{
    rig g;
    pid_t pid[8];
    double at;
    rig_open(&g, 2, "2: [0,1]*4");
    rig_start(&g);
    const int32_t n = rig_pids(&g, pid);
    slow(&g, true);
    kill_after(g.b->workers.launch.process.pid, 0.3, &at);
    ck_assert_int_eq(rig_run(&g, 0, NULL, 0), LUO_OK);
    ck_assert_msg(g.r.status == LUO_EPEER && g.r.died && g.r.failed_device == -1, "%s", g.r.text);
    killed_at(at);
    ck_assert_ptr_nonnull(strstr(g.r.text, "the launcher was ended by signal 9 in step 0, "));
    ck_assert_double_ge(rig_gone_after(pid, n, RIG_PATIENCE_S), 0);
    rig_close(&g);
}
END_TEST

RIG_MAIN("exec.fleet", LUO_T(steps), LUO_T(soft_failure), LUO_T(broken_switch),
         LUO_T(other_micro_batches), LUO_T(hard_failure), LUO_T(death_while_idle),
         LUO_T(silent_while_saving), LUO_T(launcher_killed))
