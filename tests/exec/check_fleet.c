/* tests/exec/check_fleet.c: real processes: started, asked, ended; devices that fail, processes
 * that die, ranks that hang, a coordinator that is killed. Nothing may be left of any of them. */
#include "core/run/parts.h"
#include "tests/exec/coord_rig.h"

static void set_task_s(double s)
{
    char text[32];
    snprintf(text, sizeof text, "%g", s);
    setenv("FAKE_TASK_S", text, 1);
}

/* Tasks of one device of the plan: what a step of the fake takes, in tasks. */
static double step_s(const rig *g, double task_s)
{
    return task_s * g->set->at[0].ntask;
}

START_TEST(steps)
{
    rig g;
    int64_t step = 3;
    set_task_s(0.01);
    rig_open(&g, 4, "2: [0,1]*2 [2]*2");
    rig_start(&g);
    ck_assert_int_eq(g.b->fleet.n, 4); /* one more than the plan uses */
    for (int64_t s = 0; s < 3; s++) {
        const double before = rig_now(&g);
        rig_step(&g, s);
        ck_assert_double_ge(g.r.start_s, before);
        ck_assert_double_le(g.r.end_s, rig_now(&g));
        ck_assert_double_ge(g.r.end_s - g.r.start_s, step_s(&g, 0.01));
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

RIG_MAIN("exec.fleet", LUO_T(steps))
