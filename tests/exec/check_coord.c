/* check_coord.c: what the coordinator makes of worlds and of reports, without processes:
 * orders of ranks, results of steps, the sentence of a hang. */
#include <math.h>

#include "core/run/parts.h"
#include "tests/exec/coord_rig.h"

/* A workers of which nothing is alive but the list of devices. */
static void seat(rig *g, int32_t n)
{
    g->b = calloc(1, sizeof *g->b);
    g->b->config = g->config;
    g->b->options = &g->options;
    g->b->last = luo_arena_new(0);
    g->b->t0 = luo_clock_s();
    g->b->memory = calloc((size_t)g->cluster->ndevices, sizeof *g->b->memory);
    g->b->workers.n = n;
    g->b->workers.at = calloc((size_t)n, sizeof *g->b->workers.at);
    for (int32_t i = 0; i < n; i++)
        g->b->workers.at[i] = (luo_workers_rank){.fd = -1, .device = i, .pid = 100 + i};
}

static void unseat(rig *g)
{
    for (int32_t i = 0; i < g->b->workers.n; i++) luo_wire_free(&g->b->workers.at[i].answer);
    free(g->b->workers.at);
    free(g->b->memory);
    luo_arena_free(g->b->last);
    free(g->b);
    rig_remove(g);
    luo_arena_free(g->arena);
}

static bool traced = true;

static luo_coord_orders orders(rig *g, const luo_change *c, int32_t n)
{
    luo_coord_orders o;
    const luo_step_request q = {.programs = g->set,
                                .recipe = &g->recipe,
                                .world = g->world,
                                .changes = c,
                                .nchanges = n,
                                .step = 5,
                                .trace = traced};
    if (luo_coord_orders_make(g->b->last, g->b, &q, &o, &g->err) != LUO_OK)
        rig_fail("orders", &g->err);
    return o;
}

START_TEST(orders_of_devices)
{
    rig g;
    rig_open(&g, 4, "2: [0,1]*2 [2]*2");
    seat(&g, 4);
    g.world->slowdown[1] = 2;
    const luo_change c[] = {{.at_s = 1, .kind = LUO_CHANGE_SLOWDOWN, .target = 1, .value = 3},
                            {.at_s = 2, .kind = LUO_CHANGE_DOWN, .target = 2},
                            {.at_s = 2, .kind = LUO_CHANGE_DOWN, .target = 3},
                            {.at_s = 3, .kind = LUO_CHANGE_DOWN, .target = 3, .hard = true},
                            {.at_s = 4, .kind = LUO_CHANGE_DOWN, .target = 2, .hard = true},
                            {.at_s = 5, .kind = LUO_CHANGE_UP, .target = 2}};
    luo_coord_orders o = orders(&g, c, LUO_ROWS(c));
    ck_assert_int_eq(o.down, -1);
    ck_assert_int_eq(o.at[0].npace, 1);
    ck_assert_double_eq(o.at[0].pace[0].slowdown, 1);
    ck_assert_double_lt(o.at[0].pace[0].at_s, luo_clock_s());
    ck_assert_int_eq(o.at[1].npace, 2);
    ck_assert_double_eq(o.at[1].pace[0].slowdown, 2);
    ck_assert_double_eq(o.at[1].pace[1].slowdown, 3);
    ck_assert_double_eq(o.at[1].pace[1].at_s, g.b->t0 + 1);
    ck_assert(isinf(o.at[1].withdraw_s) && isinf(o.at[1].kill_s));
    ck_assert_double_eq(o.at[2].withdraw_s, g.b->t0 + 2);
    ck_assert_double_eq(o.at[2].kill_s, g.b->t0 + 4);
    ck_assert(isinf(o.at[3].withdraw_s));             /* nobody misses it .. */
    ck_assert_double_eq(o.at[3].kill_s, g.b->t0 + 3); /* .. but its process is one of the job */
    ck_assert(o.at[3].step == 5 && o.at[3].trace && o.at[3].ndelay == 0);
    g.world->up[2] = false;
    o = orders(&g, c, LUO_ROWS(c));
    ck_assert_int_eq(o.down, 2);
    ck_assert(isinf(o.at[2].withdraw_s) && isinf(o.at[2].kill_s)); /* what is down does not fail */
    unseat(&g);
}
END_TEST

/* Stages on two nodes: their messages cross one NIC of each, of 25e9 bytes per second. */
START_TEST(orders_of_links)
{
    rig g;
    rig_open(&g, 8, "2: [0]*2 [4]*2");
    seat(&g, 8);
    const int32_t nic = luo_cluster_find_link(g.cluster, "a-0/nic0"),
                  idle = luo_cluster_find_link(g.cluster, "a-0/nic1");
    ck_assert(nic >= 0 && idle >= 0);
    luo_coord_orders o = orders(&g, NULL, 0);
    ck_assert(!o.slow_links && o.broken == -1 && isinf(o.break_s));
    g.world->link_factor[idle] = 0; /* nobody uses it */
    o = orders(&g, NULL, 0);
    ck_assert(!o.slow_links && o.broken == -1);
    g.world->link_factor[nic] = 0.5;
    g.world->link_extra_latency_s[nic] = 1e-3;
    const luo_change c[] = {{.at_s = 1, .kind = LUO_CHANGE_LINK, .target = idle, .value = 1},
                            {.at_s = 2, .kind = LUO_CHANGE_LINK, .target = nic, .value = 1},
                            {.at_s = 3, .kind = LUO_CHANGE_LINK, .target = nic, .value = 0},
                            {.at_s = 4, .kind = LUO_CHANGE_LINK, .target = nic, .value = 1}};
    o = orders(&g, c, LUO_ROWS(c));
    ck_assert(o.slow_links && o.broken == nic);
    ck_assert_double_eq(o.break_s, g.b->t0 + 3);
    for (int32_t r = 0; r < 8; r++) {
        const luo_step_order *s = &o.at[r];
        if (r != 0 && r != 4) {
            ck_assert_int_eq(s->ndelay, 0);
            continue;
        }
        ck_assert_int_ge(s->ndelay, 2);
        ck_assert_int_eq(s->delay[0].device, r == 0 ? 4 : 0);
        ck_assert_double_lt(s->delay[0].at_s, luo_clock_s());
        ck_assert_double_eq_tol(s->delay[0].s_per_byte, 1 / 12.5e9 - 1 / 25e9, 1e-20);
        ck_assert_double_eq(s->delay[0].extra_s, 1e-3);
        ck_assert_double_eq(s->delay[1].at_s, g.b->t0 + 2);
        ck_assert(s->delay[1].s_per_byte == 0 && s->delay[1].extra_s == 0);
    }
    g.world->link_factor[nic] = 0;
    o = orders(&g, NULL, 0);
    ck_assert(o.broken == nic && o.break_s < luo_clock_s());
    unseat(&g);
}
END_TEST

/* All ranks are told the same, whatever befalls one of them. */
static int quiet_ranks(rig *g, const luo_change *c, int32_t n)
{
    int quiet = 0;
    const luo_coord_orders o = orders(g, c, n);
    for (int32_t r = 0; r < g->b->workers.n; r++) quiet += o.at[r].quiet;
    return quiet;
}

START_TEST(quiet_steps)
{
    rig g;
    rig_open(&g, 8, "2: [0]*2 [4]*2");
    seat(&g, 8);
    const int32_t nic = luo_cluster_find_link(g.cluster, "a-0/nic0");
    const luo_change healed = {.at_s = 1, .kind = LUO_CHANGE_SLOWDOWN, .target = 1, .value = 1},
                     slow = {.at_s = 1, .kind = LUO_CHANGE_SLOWDOWN, .target = 1, .value = 1.5},
                     soft = {.at_s = 1, .kind = LUO_CHANGE_DOWN, .target = 4};
    ck_assert_int_eq(quiet_ranks(&g, NULL, 0), 8); /* a traced step has a graph too */
    traced = false;
    ck_assert_int_eq(quiet_ranks(&g, NULL, 0), 8);
    ck_assert_int_eq(quiet_ranks(&g, &healed, 1), 8);
    ck_assert_int_eq(quiet_ranks(&g, &slow, 1), 0);
    ck_assert_int_eq(quiet_ranks(&g, &soft, 1), 0);
    g.world->slowdown[7] = 2;
    ck_assert_int_eq(quiet_ranks(&g, NULL, 0), 0);
    g.world->slowdown[7] = 1;
    g.world->link_factor[nic] = 0.5;
    ck_assert_int_eq(quiet_ranks(&g, NULL, 0), 0);
    unseat(&g);
}
END_TEST

/* ---- results ---- */

static void report(rig *g, int32_t rank, const luo_step_report *r, double late_s)
{
    luo_wire_clear(&g->b->workers.at[rank].answer);
    luo_message_put_report(&g->b->workers.at[rank].answer, r, late_s);
}

START_TEST(results)
{
    rig g;
    rig_open(&g, 2, "2: [0,1]*4");
    seat(&g, 3);
    const luo_step_request q = {.programs = g.set, .recipe = &g.recipe};
    int32_t pair = 0;
    while (g.set->groups[pair].n != 2) pair++;
    luo_comm_use c[2][2] = {{{.group = pair, .exchange = -1, .calls = 3, .bytes = 30, .busy_s = 1},
                             {.group = -1, .exchange = 4, .calls = 1, .bytes = 7, .busy_s = 1}},
                            {{.group = -1, .exchange = 4, .calls = 1, .bytes = 8, .busy_s = 2},
                             {.group = pair, .exchange = -1, .calls = 3, .bytes = 30}}};
    const luo_op_record op[2] = {{.device = 0, .instr = 1, .start_s = 0.5, .end_s = 1},
                                 {.device = 1, .instr = 2, .start_s = 0.25, .end_s = 2}};
    luo_step_report r[3] = {{.start_s = 50,
                             .end_s = 52,
                             .parts = {.compute_s = 1.5, .tp_s = 0.5},
                             .compute_s = 1,
                             .predicted_s = 0.5,
                             .has_loss = true,
                             .loss = 3,
                             .grad_norm = 4,
                             .aux_loss = 0.25,
                             .ncomm = 2,
                             .comm = c[0],
                             .nrecords = 1,
                             .records = &op[0],
                             .memory_bytes = 10},
                            {.start_s = 7,
                             .end_s = 9.5,
                             .parts = {.compute_s = 2.5},
                             .aux_loss = 0.5, /* of its tokens; the loss is the head's */
                             .compute_s = 2,
                             .predicted_s = 1,
                             .ncomm = 2,
                             .comm = c[1],
                             .nrecords = 1,
                             .records = &op[1],
                             .memory_bytes = 20},
                            {.start_s = 0, .end_s = 0}};
    for (int32_t i = 0; i < 3; i++) report(&g, i, &r[i], 0.125);
    g.b->workers.asked_s = g.b->t0 + 1; /* one second of the step went by before it was asked for */
    luo_step_result out = {.start_s = 0, .end_s = 4};
    ck_assert_int_eq(luo_coord_result(g.b, &q, &out, &g.err), LUO_OK);
    ck_assert(out.status == LUO_OK && out.has_loss && out.loss == 3.75 && out.grad_norm == 4);
    for (int32_t i = 0; i < 2; i++)
        ck_assert_double_eq_tol(luo_parts_total(&out.parts[i]), 4, 1e-12);
    ck_assert_double_eq(out.parts[0].bubble_s, 2);
    ck_assert(out.compute_s[1] == 2 && out.predicted_s[1] == 1 && out.memory_bytes[1] == 20);
    ck_assert_int_eq(out.nrecords, 2);
    ck_assert_double_eq(out.records[0].start_s, 1 + 0.125 + 0.5);
    ck_assert_double_eq(out.records[1].end_s, 1 + 0.125 + 2);
    ck_assert_int_eq(out.ncomm, 2); /* the group once, the message from both senders */
    ck_assert(out.comm[0].group == pair && out.comm[0].bytes == 30 && out.comm[0].busy_s == 1);
    ck_assert(out.comm[1].exchange == 4 && out.comm[1].bytes == 15 && out.comm[1].calls == 2);
    r[1].status = LUO_ECANCELED;
    for (int32_t i = 0; i < 3; i++) report(&g, i, &r[i], 0);
    out = (luo_step_result){.end_s = 4};
    ck_assert_int_eq(luo_coord_result(g.b, &q, &out, &g.err), LUO_EBUG);
    ck_assert_str_eq(g.err.text, "device 0 ended step 0 and device 1 did not.");
    r[1].status = LUO_EBACKEND;
    snprintf(r[1].text, sizeof r[1].text, "it broke; it has to be whole.");
    for (int32_t i = 0; i < 3; i++) report(&g, i, &r[i], 0);
    ck_assert_int_eq(luo_coord_result(g.b, &q, &out, &g.err), LUO_OK);
    ck_assert(out.status == LUO_EBACKEND);
    ck_assert_str_eq(out.text, "it broke; it has to be whole.");
    unseat(&g);
}
END_TEST

/* ---- hangs ---- */

/* First instruction of that kind and direction in a device's program. */
static int32_t find_instr(const rig *g, int32_t device, luo_instr_kind kind, bool sends)
{
    const luo_program *p = luo_programs_find(g->set, device);
    const luo_role *role = &g->set->roles[p->role];
    for (int32_t i = 0; i < role->ninstr; i++) {
        const luo_instr *in = &role->instr[i];
        if (in->kind != (uint8_t)kind) continue;
        if (kind != LUO_INSTR_P2P || p->slots[in->slot].message[0].send == sends) return i;
    }
    return -1;
}

static void be(rig *g, int32_t device, int32_t instr, bool waiting)
{
    g->b->workers.at[device].where =
        (luo_workers_where){.job = 1, .instr = instr, .waiting = waiting};
}

static const char *stuck(rig *g, char text[LUO_ERR_TEXT])
{
    luo_coord_stuck_text(&g->b->workers, g->set, 60, 4, text, LUO_ERR_TEXT);
    return text;
}

START_TEST(chains)
{
    rig g;
    char text[LUO_ERR_TEXT], want[LUO_ERR_TEXT];
    rig_open(&g, 3, "2: [0]*2 [1,2]*2");
    seat(&g, 3);
    const int32_t recv = find_instr(&g, 1, LUO_INSTR_P2P, false),
                  gather = find_instr(&g, 2, LUO_INSTR_COLLECTIVE, false);
    ck_assert(recv >= 0 && gather >= 0);
    const luo_role *role = &g.set->roles[luo_programs_find(g.set, 1)->role];
    const char *op = g.set->ops[role->instr[recv].op].name,
               *group = g.set->ops[role->instr[gather].op].name;
    be(&g, 0, 0, false);
    be(&g, 1, recv, true);
    be(&g, 2, gather, true);
    snprintf(want, sizeof want,
             "stuck for 60.0 s in step 4: device 1 waits in recv of `%s` from "
             "device 0 (pp, instruction %d); device 0 never issued it: it is in `%s` (compute, "
             "instruction 0).",
             op, recv,
             g.set->ops[g.set->roles[luo_programs_find(g.set, 0)->role].instr[0].op].name);
    ck_assert_str_eq(stuck(&g, text), want);
    g.b->workers.at[1].where.waiting = false; /* now it is device 2 that waits, for device 1 */
    ck_assert_ptr_nonnull(strstr(stuck(&g, text), "device 2 waits in "));
    ck_assert_ptr_nonnull(strstr(text, group));
    ck_assert_ptr_nonnull(strstr(text, " for device 1; device 1 never issued it: it is in `"));
    g.b->workers.at[1].answered = true;
    ck_assert_ptr_nonnull(
        strstr(stuck(&g, text), "device 1 never issued it: it has ended its part."));
    g.b->workers.at[1].answered = false;
    g.b->workers.at[1].where.silent = true;
    ck_assert_ptr_nonnull(strstr(stuck(&g, text), "it does not answer (process 101 on )."));
    for (int32_t d = 0; d < 3; d++) g.b->workers.at[d].answered = true;
    ck_assert_str_eq(stuck(&g, text),
                     "stuck for 60.0 s in step 4: no device of the plan is at work; "
                     "another rank has to answer.");
    be(&g, 2, 1 << 30, true); /* nonsense from afar */
    g.b->workers.at[2].answered = false;
    ck_assert_ptr_nonnull(strstr(stuck(&g, text), "device 2 is between instructions."));
    be(&g, 0, -1, false); /* all of them agree on something, but for one who is stopped */
    g.b->workers.at[0].answered = g.b->workers.at[1].answered = false;
    ck_assert_ptr_nonnull(strstr(stuck(&g, text), "device 0 is between instructions; "
                                                  "device 1 does not answer (process 101 on )."));
    unseat(&g);
}
END_TEST

/* The instruction of a device in that exchange whose group is {a, b}. */
static int32_t find_in_group(const rig *g, int32_t device, int32_t exchange, int32_t a, int32_t b)
{
    const luo_program *p = luo_programs_find(g->set, device);
    const luo_role *role = &g->set->roles[p->role];
    for (int32_t i = 0; i < role->ninstr; i++) {
        const luo_instr *in = &role->instr[i];
        if (in->kind != LUO_INSTR_COLLECTIVE || (exchange >= 0 && in->exchange != exchange))
            continue;
        const luo_group *of = &g->set->groups[p->slots[in->slot].group];
        if (of->n == 2 && of->dev[0] == a && of->dev[1] == b) return i;
    }
    return -1;
}

/* Gradients of pipelines of unequal widths: one operation, one exchange, a group for each half.
 * Device 2 is in another group than the one in which device 0 waits for it. */
START_TEST(groups_of_one_exchange)
{
    rig g;
    char text[LUO_ERR_TEXT];
    rig_open(&g, 3, "2: [0,1]*4 || 2: [2]*4");
    seat(&g, 3);
    const int32_t lower = find_in_group(&g, 0, -1, 0, 2);
    ck_assert_int_ge(lower, 0);
    const luo_instr *in = &g.set->roles[luo_programs_find(g.set, 0)->role].instr[lower];
    const int32_t upper = find_in_group(&g, 2, in->exchange, 1, 2);
    ck_assert_int_ge(upper, 0);
    ck_assert_int_eq(g.set->roles[luo_programs_find(g.set, 2)->role].instr[upper].op, in->op);
    be(&g, 0, lower, true);
    be(&g, 2, upper, true);
    g.b->workers.at[1].where.silent = true;
    stuck(&g, text);
    printf("%s\n", text);
    ck_assert_ptr_nonnull(strstr(text, "group [0,2] (dp, instruction "));
    ck_assert_ptr_nonnull(strstr(text, ") for device 2; device 2 waits in "));
    ck_assert_ptr_nonnull(strstr(text, "group [1,2] (dp, instruction "));
    ck_assert_ptr_nonnull(strstr(text, ") for device 1; device 1 never issued it: it does not "
                                       "answer (process 101 on )."));
    unseat(&g);
}
END_TEST

/* ---- the table ---- */

START_TEST(refused_configs)
{
    rig g;
    char text[256];
    rig_open(&g, 2, "2: [0,1]*4");
    g.config.dtype = LUO_BF16;
    ck_assert_int_eq(luo_host_backend.open(&g.config, &g.b, &g.err), LUO_EINPUT);
    ck_assert_str_eq(g.err.text, "the plan's dtype is bf16; the host backend computes in f32 and "
                                 "f64.");
    g.config.dtype = LUO_F64;
    g.options.stuck_s = 0;
    ck_assert_int_eq(luo_host_backend.open(&g.config, &g.b, &g.err), LUO_EUSAGE);
    g.options.stuck_s = 1;
    g.options.dump_batches = "/nowhere/batches";
    ck_assert_int_eq(luo_host_backend.open(&g.config, &g.b, &g.err), LUO_EIO);
    ck_assert_str_eq(g.err.text, "cannot write /nowhere/batches: no such file or directory.");
    g.options.dump_batches = NULL;
    ck_assert_int_eq(luo_host_backend.open(&g.config, &g.b, &g.err), LUO_OK);
    int64_t step = 0; /* a plan of f32 in a run of f64 */
    ck_assert_int_eq(rig_run(&g, 0, NULL, 0), LUO_EBUG);
    ck_assert_str_eq(g.err.text, "no processes run; luo_backend.state has to be called first.");
    ck_assert_int_eq(rig_state(&g, LUO_STATE_INIT, &step), LUO_EINPUT);
    ck_assert_ptr_nonnull(strstr(g.err.text, "has another dtype than the run began with"));
    const double now = rig_now(&g);
    luo_host_backend.sleep_until(g.b, now + 0.05);
    ck_assert_double_ge(rig_now(&g), now + 0.05);
    luo_host_backend.sleep_until(g.b, now); /* gone by already */
    ck_assert_int_eq(luo_host_backend.describe(text, sizeof text), LUO_OK);
    rig_close(&g);
}
END_TEST

RIG_MAIN("exec.coord", LUO_T(orders_of_devices), LUO_T(orders_of_links), LUO_T(quiet_steps),
         LUO_T(results), LUO_T(chains), LUO_T(groups_of_one_exchange), LUO_T(refused_configs))
