/* check_policies.c: runs under `oobleck` and `oracle` on a backend that answers from a
 * formula. Base: 2 pipelines of 2 stages of 12 layers (0.12 s each), 16 micro-batches; a node of
 * two devices is a stage. */
#include <math.h>

#include "core/base/rng.h"
#include "core/cost/step/memory.h"
#include "core/io/io.h"
#include "core/run/policy/groups.h"
#include "core/run/policy/policy.h"
#include "tests/driver_fixture.h"

static luo_arrivals processes[2];

/* ---- groups ---- */

static double needs(const luo_snapshot *now, int64_t layers, int32_t stages, int32_t stage,
                    int32_t pipelines)
{
    const luo_memory_rules rules = luo_stack_memory(&sc.stack);
    luo_mem_spec x = {.model = sc.model, .rules = &rules, .recompute_layers = -1, .tp = 2,
                      .micro_batch_tokens = 2 * 256, .sequence_tokens = 256, .stage = stage,
                      .stages = stages, .chunks = 1, .micro_batches = 16 / pipelines,
                      .replicas = pipelines, .schedule = LUO_SCHED_1F1B, .embedding = stage == 0,
                      .head = stage == stages - 1};
    luo_mem m;
    x.layers = (double)layers;
    x.recompute = (int)now->base->pipelines[0].stages[0].recompute;
    x.zero = now->base->zero;
    x.sequence_parallel = now->base->sequence_parallel;
    x.attention_fused = sc.stack.attention_fused;
    luo_mem_stage(&x, &m);
    return (double)m.needed;
}

/* The slow twin: one layer more as long as that fits. */
static int64_t fits(const luo_snapshot *now, double room, int32_t stages, int32_t stage,
                    int32_t pipelines)
{
    int64_t n = 0;
    while (n < sc.model->layers && needs(now, n + 1, stages, stage, pipelines) <= room) n++;
    return n;
}

/* Asked in any order, for two types of devices of which one has less memory. */
START_TEST(layers_that_fit)
{
    luo_rng rng = luo_rng_stream(1 + (uint64_t)_i, "caps");
    luo_model wide = model;
    luo_groups g;
    double rate[8];
    bool leaving[8] = {0};
    int32_t some = 0, ends = 0;
    int64_t last = -1;
    prepare("restart", 10, 0);
    luo_cluster *c = fixture_cluster(arena, 2, 2, 2);
    sc.cluster = c;
    wide.vocab = 32000;
    sc.model = &wide;
    sc.stack.attention_fused = luo_rng_pick(&rng, 2);
    luo_plan *p = base_plan(c);
    p->zero = (int32_t)luo_rng_pick(&rng, 2);
    p->sequence_parallel = luo_rng_pick(&rng, 2);
    p->micro_batch_sequences = 2;
    ((luo_stage *)p->pipelines[0].stages)[0].recompute = luo_rng_pick(&rng, 2) ? LUO_RECOMPUTE_FULL
                                                                               : LUO_RECOMPUTE_NONE;
    for (int d = 0; d < 8; d++) rate[d] = 1;
    const luo_snapshot now = {.scenario = &sc, .spec = &spec, .base = p, .plan = p, .rate = rate,
                              .leaving = leaving, .micro_batches = 16, .sequence_tokens = 256,
                              .memory_factor = _i % 2 ? 1 : 0.9};
    for (int k = 0; k < 2; k++) { /* up to so many layers in the middle of a pipeline */
        luo_profile *profile = (luo_profile *)c->groups[k].profile;
        profile->reserved_bytes = 1e8;
        profile->memory_bytes =
            (needs(&now, 8 + 6 * k + (int64_t)luo_rng_pick(&rng, 4), 3, 1, 2) + 1e8) /
            now.memory_factor;
    }
    ck_assert_int_eq(luo_groups_find(arena, &now, false, &g, NULL), LUO_OK);
    ck_assert_int_eq(g.n, 4);
    for (int round = 0; round < 400; round++) {
        const int32_t group = (int32_t)luo_rng_pick(&rng, 4);
        const int32_t stages = 1 + (int32_t)luo_rng_pick(&rng, 4);
        const int32_t stage = (int32_t)luo_rng_pick(&rng, (uint64_t)stages);
        const int32_t pipelines = 1 << luo_rng_pick(&rng, 3);
        const luo_profile *profile = c->groups[group / 2].profile;
        const double room = profile->memory_bytes * now.memory_factor - profile->reserved_bytes;
        const int64_t cap = luo_groups_cap(&g, group, stages, stage, pipelines, 16 / pipelines);
        ck_assert_int_eq(cap, fits(&now, room, stages, stage, pipelines));
        some += cap > 0 && cap < model.layers;
        ends += cap != last;
        last = cap;
    }
    ck_assert_int_gt(some, 100); /* the memory decides, .. */
    ck_assert_int_gt(ends, 100); /* and not always alike */
}
END_TEST

/* A group of both types of a node is as slow as the lesser one and has as much room; groups of one
 * type do not inherit it, whichever is asked first. */
START_TEST(groups_of_two_types)
{
    static const char *const types[] = {"ffss", "fsff", "ssff", "fsss"};
    luo_err err = {0};
    luo_groups g;
    double rate[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    bool leaving[8] = {0};
    prepare("restart", 10, 0);
    luo_cluster *c = fixture_cluster(arena, 1, 2, 4);
    luo_profile *type[2] = {fixture_profile(arena, "fast"), fixture_profile(arena, "slow")};
    const luo_profile *slots[4];
    for (int s = 0; s < 4; s++) slots[s] = type[types[_i][s] == 's'];
    c->groups[0].profile = slots[0];
    c->groups[0].profiles = slots;
    c->groups[0].scale_up = LUO_SCALE_UP_NONE;
    c->groups[0].has_pcie = true;
    c->groups[0].pcie_bytes_per_s = 64e9;
    ck_assert_int_eq(luo_cluster_finish(arena, c, &err), LUO_OK);
    sc.cluster = c;
    luo_plan *p = base_plan(c);
    p->micro_batch_sequences = 2;
    const luo_snapshot now = {.scenario = &sc, .spec = &spec, .base = p, .plan = p, .rate = rate,
                              .leaving = leaving, .micro_batches = 16, .sequence_tokens = 256,
                              .memory_factor = 1};
    for (int k = 0; k < 2; k++) {
        type[k]->peak_flops[LUO_BF16] = k ? 1e12 : 300e12;
        type[k]->memory_bytes = needs(&now, k ? 8 : 14, 3, 1, 2) + type[k]->reserved_bytes;
    }
    ck_assert_int_eq(luo_groups_find(arena, &now, false, &g, NULL), LUO_OK);
    ck_assert_int_eq(g.n, 4);
    for (int32_t i = 0; i < 4; i++) {
        const char *at = types[_i] + 2 * (i % 2);
        const bool is_slow = at[0] == 's' || at[1] == 's';
        ck_assert_int_eq(luo_groups_cap(&g, i, 3, 1, 2, 8), is_slow ? 8 : 14);
        for (int32_t k = 0; k < i; k++)
            if (is_slow == (strncmp(types[_i] + 2 * (k % 2), "ff", 2) != 0))
                ck_assert_double_eq_tol(g.y[i] / g.y[k], 1, 0.02);
            else
                ck_assert(is_slow ? g.y[i] > 1.2 * g.y[k] : g.y[k] > 1.2 * g.y[i]);
    }
}
END_TEST

/* Equal neighbours have equal groups; a node with a device that is slow, gone or leaves is out. */
static const struct {
    double rate[8];
    bool slow_too;
    int32_t leaves; /* a device, -1: none */
    int32_t nodes, dev[4], kind[4];
} grouped[] = {
    {{1, 1, 1, 1, 1, 1, 1, 1}, false, -1, 4, {0, 2, 4, 6}, {0, 0, 2, 2}},
    {{1, 1, 1, 2, 1, 1, 1, 1}, false, -1, 3, {0, 4, 6}, {0, 1, 1}},
    {{1, 1, 1, 2, 1, 1, 1, 1}, true, -1, 4, {0, 2, 4, 6}, {0, 1, 2, 2}},
    {{2, 1, 1, 2, 1, 1, 1, 1}, true, -1, 4, {0, 2, 4, 6}, {0, 0, 2, 2}},
    {{1, 1, 1, 1, 1, 1.19, 1, 1}, false, -1, 4, {0, 2, 4, 6}, {0, 0, 2, 2}},
    {{1, 1, 1, 1, 1, 1.2, 1, 1}, false, -1, 3, {0, 2, 6}, {0, 0, 2}},
    {{1, 1, 1, 1, 1, 1.2, 1, 1}, true, -1, 4, {0, 2, 4, 6}, {0, 0, 2, 3}},
    {{1, 1, INFINITY, 1, 1, 1, 1, 1}, true, -1, 3, {0, 4, 6}, {0, 1, 1}},
    {{1, 1, 1, 1, 1, 1, 1, 1}, true, 7, 3, {0, 2, 4}, {0, 0, 2}},
};

START_TEST(groups_of_nodes)
{
    luo_groups g;
    bool leaving[8] = {0};
    prepare("restart", 10, 0);
    sc.cluster = fixture_cluster(arena, 2, 2, 2);
    const luo_plan *p = base_plan(sc.cluster);
    const luo_snapshot now = {.scenario = &sc, .spec = &spec, .base = p, .plan = p,
                              .rate = grouped[_i].rate, .leaving = leaving, .micro_batches = 16,
                              .sequence_tokens = 256, .memory_factor = 1};
    if (grouped[_i].leaves >= 0) leaving[grouped[_i].leaves] = true;
    ck_assert_int_eq(luo_groups_find(arena, &now, grouped[_i].slow_too, &g, NULL), LUO_OK);
    ck_assert_int_eq(g.tp, 2);
    ck_assert_int_eq(g.nnodes, grouped[_i].nodes);
    ck_assert_int_eq(g.n, grouped[_i].nodes);
    for (int32_t n = 0; n < g.nnodes; n++) {
        const int32_t d = grouped[_i].dev[n];
        const double worst = fmax(grouped[_i].rate[d], grouped[_i].rate[d + 1]);
        ck_assert_int_eq(g.first[n], n);
        ck_assert_int_eq(g.kind[n], grouped[_i].kind[n]);
        ck_assert(g.dev[2 * n] == d && g.dev[2 * n + 1] == d + 1);
        ck_assert_double_eq_tol(g.y[n], g.layer_s[d / 4] * (worst < 1.2 ? 1 : worst), 1e-12);
        ck_assert_double_gt(g.y[n], 0);
    }
    ck_assert_int_eq(g.first[g.nnodes], g.n);
}
END_TEST

/* ---- oobleck ---- */

/* Three nodes are left: one pipeline of two, of 10 or 11 micro-batches, and one of one with the
 * rest: the larger of (10 + 1) / 2 and 6 is that of (11 + 1) / 2 and 5, but for what embedding and
 * head weigh. */
static void two_and_one(const luo_plan *p)
{
    ck_assert_int_eq(p->npipelines, 2);
    ck_assert_int_eq(p->pipelines[0].nstages, 2);
    ck_assert_int_eq(p->pipelines[1].nstages, 1);
    const int32_t m = p->pipelines[0].micro_batches;
    ck_assert_msg(m == 10 || m == 11, "%d micro-batches", m);
    ck_assert_int_eq(p->pipelines[1].micro_batches, 16 - m);
    ck_assert_int_eq(luo_plan_sequences(p), 16);
}

START_TEST(slow_node_leaves)
{
    events[0] = fixture_event("slow", LUO_EVENT_STRAGGLER, "device:1", 5.4, 0);
    events[0].slowdown = 3;
    prepare("oobleck", 40, 1);
    spec.payback_steps = 1e9; /* the closed form knows a small model, not this backend */
    run_ok();
    check_books();
    ck_assert_int_eq(fake.summary.switches, 1);
    ck_assert_int_eq(fake.summary.restarts, 0);
    ck_assert_int_eq(fake.summary.steps_redone, 0);
    ck_assert_int_eq(fake.nplans, 2);
    two_and_one(fake.plans[1].plan);
    ck_assert(!holds(fake.plans[1].plan, 0)); /* its neighbour leaves with it */
    ck_assert(!holds(fake.plans[1].plan, 1));
    ck_assert_double_eq_tol(last_step(), 6 * 0.24, 1e-9);
    ck_assert_str_eq(event_row("decided", 0)->detail, "2 pipelines of whole nodes");
    ck_assert_str_eq(fake.switches[0].source, "devices");
    ck_assert_int_gt(fake.switches[0].messages, 0);
}
END_TEST

/* A slow node leaves when that pays, and comes back into the plan of the scenario. */
START_TEST(node_comes_back)
{
    events[0] = fixture_event("slow", LUO_EVENT_STRAGGLER, "device:1", 5.4, 60);
    events[0].slowdown = 3;
    prepare("oobleck", 100, 1);
    spec.payback_steps = _i ? 0 : 1e9;
    run_ok();
    check_books();
    ck_assert_int_eq(fake.summary.switches, _i ? 0 : 2);
    if (!_i) ck_assert_int_eq(fake.switches[1].to_plan, 0);
    ck_assert_double_eq_tol(last_step(), STEP, 1e-9);
    if (_i) ck_assert_str_eq(event_row("decided", 0)->detail, "a switch does not pay");
}
END_TEST

/* .. and stays outside for as long as coming back does not pay. */
START_TEST(node_stays_outside)
{
    events[0] = fixture_event("gone", LUO_EVENT_FAIL, "device:1", 5.4, 60);
    prepare("oobleck", 100, 1);
    spec.payback_steps = 0;
    run_ok();
    check_books();
    ck_assert_int_eq(fake.summary.switches, 1);
    ck_assert_double_eq_tol(last_step(), 6 * 0.24, 1e-9);
    ck_assert_str_eq(event_row("decided", 1)->detail, "a switch does not pay");
}
END_TEST

/* Every layer has a copy in the other pipeline: no step but the broken one is lost. */
START_TEST(failure_costs_one_step)
{
    events[0] = fixture_event("gpu", LUO_EVENT_FAIL, "device:3", 7, 0);
    prepare("oobleck", 20, 1);
    run_ok();
    check_books();
    ck_assert_int_eq(fake.summary.restarts, 0);
    ck_assert_int_eq(fake.summary.switches, 1);
    ck_assert_int_eq(fake.summary.steps_redone, 1);
    two_and_one(fake.plans[1].plan);
    ck_assert(!holds(fake.plans[1].plan, 2));
    ck_assert_int_eq(fake.summary.detect_true, 1);
}
END_TEST

/* Both copies of the first half are gone, or its optimizer state had one owner: a checkpoint. */
START_TEST(without_copies)
{
    events[0] = fixture_event("gpu", LUO_EVENT_FAIL, "device:0", 7, 0);
    events[1] = fixture_event("gpu2", LUO_EVENT_FAIL, "device:4", 7, 0);
    prepare("oobleck", 20, _i ? 1 : 2);
    ((luo_plan *)sc.plan)->zero = _i;
    sc.checkpoint.kind = LUO_CHECKPOINT_STEPS;
    sc.checkpoint.every_steps = 4;
    run_ok();
    check_books();
    ck_assert_int_eq(fake.summary.restarts, 1);
    ck_assert_int_eq(fake.summary.switches, 0);
    ck_assert_int_eq(fake.summary.steps_redone, 3); /* 4, 5, and the attempt */
    ck_assert_str_eq(fake.switches[0].source, "checkpoint");
    ck_assert_int_eq(fake.nwarnings, 1);
}
END_TEST

/* Device 3 is back before anybody decides, but empty. Where its node leaves with its neighbour,
 * copies are enough; where it stays, a checkpoint has to fill it. */
START_TEST(back_but_empty)
{
    events[0] = fixture_event("gpu", LUO_EVENT_FAIL, "device:3", 7, 10);
    events[1] = fixture_event("gpu2", LUO_EVENT_FAIL, _i ? "device:2" : "device:6", 8, 0);
    prepare("oobleck", 20, 2);
    run_ok();
    check_books();
    ck_assert_int_eq(fake.summary.restarts, !_i);
    ck_assert_int_eq(fake.summary.switches, _i);
}
END_TEST

/* While the communicators of the new plan are made, a node of it is cut off: the policy is asked
 * again, and nothing moves to where nobody can be reached. */
START_TEST(cut_off_before_the_moves)
{
    events[0] = fixture_event("gpu", LUO_EVENT_FAIL, "device:3", 7, 0);
    events[1] = fixture_event("cut", LUO_EVENT_FAIL, "link:g0-3/nic0", 8.2, 0);
    prepare("oobleck", 20, 2);
    sc.detect_fail_s = 1;
    sc.communicator_s = 0.5;
    spec.planner_s = 0;
    sc.checkpoint.kind = LUO_CHECKPOINT_STEPS;
    sc.checkpoint.every_steps = 4;
    run_ok();
    check_books();
    const luo_plan *last = fake.plans[fake.nplans - 1].plan;
    ck_assert_str_eq(event_row("decided", 1)->detail, "2 pipelines of whole nodes");
    ck_assert(!holds(last, 3) && !holds(last, 6) && holds(last, 0) && holds(last, 4));
}
END_TEST

/* One node is no two pipelines: the run waits for the others, or is lost. */
START_TEST(two_pipelines_at_least)
{
    luo_err err = {0};
    static const char *const nodes[] = {"node:g0-0", "node:g0-1", "node:g0-2"};
    for (int i = 0; i < 3; i++)
        events[i] = fixture_event(nodes[i], LUO_EVENT_FAIL, nodes[i], 7, _i ? 93 : 0);
    prepare("oobleck", 20, 3);
    const luo_status st = run(&err);
    check_books();
    ck_assert_int_eq(st, _i ? LUO_OK : LUO_ENO);
    ck_assert_int_eq(fake.summary.state, _i ? LUO_COMPLETE : LUO_LOST);
    ck_assert_str_eq(event_row("decided", 0)->detail,
                     "no 2 pipelines of whole nodes hold 24 layers on 1 nodes; more nodes, "
                     "`recompute` or `zero` 1 are needed.");
    if (_i) ck_assert_double_eq_tol(fake.summary.wait_s, 100 - 7 - 30 - 2, 1e-6);
}
END_TEST

/* Half of every node is gone at 7 s, so `restart` and `oobleck` have no whole node; found at 37 s,
 * planned until 39 s. Meanwhile and after that the other half is struck, slowed and gone for a
 * while, all the time: that brings nothing back. */
static const struct wait {
    luo_event_kind kind; /* of what else there is */
    const char *target;
    double at_s, duration_s, outage_s; /* outage_s: of the half; 0: for ever */
    double end_s;                      /* of waiting; 0: lost at 39 s */
} waits[] = {
    {LUO_EVENT_STRAGGLER, "device:1", 50, 5, 0, 0},     /* slowness that ends */
    {LUO_EVENT_FAIL, "device:1", 50, 5, 0, 0},          /* an outage of what is there */
    {LUO_EVENT_FAIL, "device:0", 50, 5, 0, 0},          /* .. and one more of what is gone */
    {LUO_EVENT_JOIN, "device:1", 50, 0, 0, 0},          /* of who is there */
    {LUO_EVENT_STRAGGLER, "device:1", 50, 5, 893, 900}, /* the outage ends */
    {LUO_EVENT_STRAGGLER, "device:1", 50, 5, 31, 39},   /* .. while the policy is asked */
    {LUO_EVENT_JOIN, "group:g0", 500, 0, 0, 500},       /* repaired */
    {LUO_EVENT_JOIN, "group:g0", 500, 0, 893, 500},
    {LUO_EVENT_JOIN, "device:0", 500, 0, 0, -1}, /* one node: by the policy */
    {LUO_EVENT_FAIL, "group:g0", 300, 0, 893, 0}, /* gone for ever before it is back */
    {LUO_EVENT_FAIL, "group:g0", 300, 700, 893, 1000},
    {LUO_EVENT_FLAP, "device:0", 50, 0, 0, 0}, /* of what is gone */
    {LUO_EVENT_FAIL, "link:g0-1/nv0", 50, 1200, 893, 900}, /* the other nodes are enough */
};

START_TEST(only_what_comes_back_is_hope)
{
    static const char *const half[] = {"device:0", "device:2", "device:4", "device:6"};
    static const char *const names[] = {"restart", "oobleck"};
    static const luo_arrivals storm[] = {
        {.id = "slow", .target = "device:[0-7]", .kind = LUO_EVENT_STRAGGLER, .slowdown = 2,
         .dist = LUO_DIST_EXPONENTIAL, .mean_s = 20, .life = {.duration_s = 1}},
        {.id = "gone", .target = "device:[1,3,5,7]", .kind = LUO_EVENT_FAIL,
         .dist = LUO_DIST_EXPONENTIAL, .mean_s = 1e5, .life = {.duration_s = 1}}};
    const struct wait *w = &waits[_i / 2];
    luo_err err = {0};
    for (int i = 0; i < 4; i++)
        events[i] = fixture_event(half[i], LUO_EVENT_FAIL, half[i], 7, w->outage_s);
    events[4] = fixture_event("more", w->kind, w->target, w->at_s, w->duration_s);
    events[4].down_s = 3;
    events[4].up_s = 2;
    prepare(names[_i % 2], 40, 5);
    sc.processes = storm;
    sc.nprocesses = 2;
    const luo_status st = run(&err);
    check_books();
    const bool lost = w->end_s == 0 || (w->end_s < 0 && _i % 2 == 1); /* oobleck needs two nodes */
    ck_assert_int_eq(st, lost ? LUO_ENO : LUO_OK);
    ck_assert_int_eq(fake.summary.state, lost ? LUO_LOST : LUO_COMPLETE);
    if (lost) ck_assert_double_eq_tol(fake.summary.total_s, 39, 1e-9);
    if (lost) ck_assert_str_eq(event_row("lost", 0)->detail,
                               "no plan is possible, and not enough comes back");
    if (w->end_s > 0) ck_assert_double_eq_tol(fake.summary.wait_s, w->end_s - 39, 1e-6);
}
END_TEST

/* All processes died and every node is there: the same plan from the checkpoint. */
START_TEST(crash_restarts)
{
    static const luo_cause software = {.cause = "software", .kind = LUO_EVENT_FAIL,
                                       .scope = LUO_SCOPE_JOB, .count = 1};
    prepare("oobleck", 60, 0);
    processes[0] = (luo_arrivals){.id = "c", .target = "device:[0-7]", .ncauses = 1,
                                 .kind = LUO_EVENT_CAUSES, .causes = &software,
                                 .observed_devices = 8, .observed_s = 20};
    sc.processes = processes;
    sc.nprocesses = 1;
    sc.checkpoint.kind = LUO_CHECKPOINT_STEPS;
    sc.checkpoint.every_steps = 1;
    sc.checkpoint.blocking = true;
    spec.restart_s = 10;
    run_ok();
    check_books();
    ck_assert_int_gt(fake.summary.restarts, 0);
    ck_assert_double_eq_tol(fake.summary.restart_s, 10.0 * fake.summary.restarts, 1e-6);
    ck_assert_int_eq(fake.nplans, 1);
}
END_TEST

/* A device three times as slow on every node: without them nothing is left, so they stay, and the
 * base plan is left alone or not by what a switch brings. */
START_TEST(all_nodes_are_slow)
{
    static const char *const targets[] = {"device:0", "device:2", "device:4", "device:6"};
    for (int i = 0; i < 4; i++) {
        events[i] = fixture_event(targets[i], LUO_EVENT_STRAGGLER, targets[i], 5.4, 0);
        events[i].slowdown = 3;
    }
    prepare("oobleck", 40, 4);
    spec.payback_steps = _i ? 0 : 1e9;
    run_ok();
    check_books();
    ck_assert_int_eq(fake.summary.switches, _i ? 0 : 1); /* four pipelines of one stage fill less */
    ck_assert_double_eq_tol(last_step(), _i ? 3 * STEP : 3 * 4 * 0.24, 1e-9);
}
END_TEST

/* ---- oracle ---- */

START_TEST(work_per_time)
{
    events[0] = fixture_event("slow", LUO_EVENT_STRAGGLER, "device:1", 5.4, 0);
    events[1] = fixture_event("gpu", LUO_EVENT_FAIL, "device:3", 5.4, 0);
    prepare("oracle", 40, _i);
    sc.checkpoint.kind = LUO_CHECKPOINT_STEPS; /* costs nothing either */
    sc.checkpoint.every_steps = 4;
    sc.checkpoint.blocking = true;
    sc.compute_sigma = 0.1;
    run_ok();
    check_books();
    const double sum = _i == 0 ? 8 : _i == 1 ? 7.5 : 6.5;
    ck_assert_double_eq_tol(last_step(), STEP * 8 / sum, 1e-9);
    ck_assert_double_eq_tol(fake.summary.total_s, 5 * STEP + 35 * STEP * 8 / sum, 1e-9);
    ck_assert_int_eq(fake.summary.steps_redone + fake.summary.switches + fake.summary.restarts, 0);
    ck_assert_int_eq(fake.summary.detect_true + fake.summary.detect_missed, 0);
    ck_assert_int_eq(fake.ntruth, _i);
}
END_TEST

/* Changes in the middle of a step count from there on; while nobody is there, nothing is done. */
START_TEST(through_changes)
{
    events[0] = fixture_event("half", LUO_EVENT_STRAGGLER, "device:[0-7]", 0.54, 0);
    events[1] = fixture_event("all", LUO_EVENT_FAIL, "group:g0", 3, 97);
    prepare("oracle", 10, 2);
    fake.start_s = 1000;
    run_ok();
    check_books();
    ck_assert_double_eq_tol(fake.steps[0].end_s, 0.54 + 2 * 0.54, 1e-9);
    ck_assert_double_eq_tol(fake.summary.total_s, 97 + 0.54 + 2 * (10 * STEP - 0.54), 1e-9);
}
END_TEST

START_TEST(nobody_is_left)
{
    luo_err err = {0};
    events[0] = fixture_event("all", LUO_EVENT_FAIL, "group:g0", 3, 0);
    prepare("oracle", 10, 1);
    ck_assert_int_eq(run(&err), LUO_ENO);
    ck_assert_int_eq(fake.summary.state, LUO_LOST);
    check_books();
    ck_assert_int_eq(fake.summary.steps_done, 2);
    ck_assert_str_eq(event_row("lost", 0)->detail, "no device is left, and nothing comes back");
    const luo_row_timeline *last = &fake.time[fake.ntime - 1]; /* the step that nobody ended */
    ck_assert_int_eq(last->kind, LUO_SPAN_STEP);
    ck_assert(last->blocking && last->redone);
    ck_assert_double_eq_tol(last->start_s, 2 * STEP, 1e-9);
    ck_assert_double_eq_tol(last->end_s, 3, 1e-9);
}
END_TEST

/* Of two types, the work of each counts by its own time for a layer: hardly anything is lost with a
 * node of very slow ones. */
START_TEST(mixed_types)
{
    events[0] = fixture_event("gpu", LUO_EVENT_FAIL, "node:g0-3", 5.4, 0);
    prepare("oracle", 40, 1);
    luo_cluster *c = (luo_cluster *)sc.cluster;
    luo_node_group *groups = LUO_NEW_N(arena, luo_node_group, 2);
    groups[0] = groups[1] = c->groups[0];
    groups[1].base_slowdown = _i ? 1e6 : 1; /* node 3 */
    c->groups = groups;
    c->ngroups = 2;
    ((luo_node *)c->nodes)[3].group = 1;
    for (int32_t d = 6; d < 8; d++) {
        luo_device *device = (luo_device *)&c->devices[d];
        device->group = device->kind = 1;
    }
    c->nkinds = 2;
    run_ok();
    check_books();
    ck_assert_double_eq_tol(last_step() / STEP, _i ? 1 : 8.0 / 6, 1e-4);
}
END_TEST

START_TEST(no_real_run)
{
    luo_err err = {0};
    prepare("oracle", 10, 0);
    opts.backend = &fake_data_backend;
    ck_assert_int_eq(run(&err), LUO_EINPUT);
    ck_assert_str_eq(err.text,
                     "policy `oracle` is a bound and not a run, which backend `fake` cannot "
                     "make; leave it out, or simulate it.");
    ck_assert_int_eq(fake.runs, 0);
}
END_TEST

/* Random failures and stragglers: books balance, and the same run twice gives the same rows. */
START_TEST(busy_runs_repeat)
{
    static const char *const names[] = {"oobleck", "oracle"};
    static luo_row_timeline first[FAKE_ROWS];
    luo_err err = {0};
    int32_t n = 0;
    for (int twice = 0; twice < 2; twice++) {
        prepare(names[_i % 2], 400, 0);
        processes[0] = (luo_arrivals){.id = "slow", .target = "device:[0-7]",
                                     .kind = LUO_EVENT_STRAGGLER, .dist = LUO_DIST_WEIBULL,
                                     .mean_s = 900, .shape = 0.7, .slowdown_between = {1.2, 4},
                                     .life = {.dist = LUO_DIST_EXPONENTIAL, .mean_s = 60}};
        processes[1] = (luo_arrivals){.id = "die", .target = "device:[0-7]", .kind = LUO_EVENT_FAIL,
                                     .dist = LUO_DIST_EXPONENTIAL, .mean_s = 4000,
                                     .life = {.dist = LUO_DIST_LOGNORMAL, .median_s = 100,
                                              .sigma = 0.8}};
        sc.seed = (uint64_t)_i / 2 + 1;
        sc.processes = processes;
        sc.nprocesses = 2;
        sc.checkpoint.kind = LUO_CHECKPOINT_STEPS;
        sc.checkpoint.every_steps = 20;
        const luo_status st = run(&err);
        ck_assert_msg(st == LUO_OK || st == LUO_ENO, "%s", err.text);
        check_books();
        for (int32_t i = 0; twice && i < n; i++) {
            ck_assert_int_eq(fake.ntime, n);
            ck_assert_double_eq(fake.time[i].start_s, first[i].start_s);
            ck_assert_double_eq(fake.time[i].end_s, first[i].end_s);
            ck_assert_int_eq(fake.time[i].kind, first[i].kind);
        }
        n = fake.ntime;
        memcpy(first, fake.time, sizeof first);
    }
    if (_i % 2 == 0) ck_assert_int_gt(fake.summary.switches, 0);
}
END_TEST
/* ---- ZeRO-2 and 3 ---- */

START_TEST(pipelines_of_zero_are_alike)
{
    static const char *const names[] = {"rebalance", "oobleck", "static", "restart"};
    for (int i = 0; i < 4; i++)
        for (int32_t zero = 0; zero <= 3; zero++) {
            const luo_plan plan = {.zero = zero};
            const luo_snapshot now = {.base = &plan, .plan = &plan};
            const luo_policy *p = luo_policy_find(names[i]);
            luo_err err = {0};
            const bool refuses = p->check && p->check(&now, &err) == LUO_EINPUT;
            ck_assert_msg(refuses == (i < 2 && zero >= 2), "%s, zero %d", names[i], (int)zero);
            if (refuses) ck_assert_ptr_nonnull(strstr(err.text, "zero 0 or 1 is expected"));
        }
}
END_TEST

/* ---- docs/policies.md ---- */

static void is_told(const char *text, const char *word, size_t n)
{
    char quoted[64];
    snprintf(quoted, sizeof quoted, "`%.*s`", (int)n, word);
    ck_assert_msg(strstr(text, quoted) != NULL, "docs/policies.md does not speak of %s", quoted);
}

START_TEST(documented)
{
    luo_arena *a = luo_arena_new(1 << 16);
    luo_source src;
    luo_err err = {0};
    int32_t n;
    const char *const *names = luo_policy_names(&n);
    ck_assert_msg(luo_source_read(a, "docs/policies.md", &src, &err) == LUO_OK, "%s", err.text);
    for (int32_t i = 0; i < n; i++) {
        is_told(src.text, names[i], strlen(names[i]));
        const char *key = luo_policy_find(names[i])->keys;
        while (key && *key) {
            const size_t length = strcspn(key, " ");
            is_told(src.text, key, length);
            key += length + strspn(key + length, " ");
        }
    }
    luo_arena_free(a);
}
END_TEST

LUO_SUITE("run.policies", LUO_T_N(layers_that_fit, 8), LUO_T_N(groups_of_two_types, 4),
          LUO_T_N(groups_of_nodes, LUO_ROWS(grouped)),
          LUO_T(documented), LUO_T(pipelines_of_zero_are_alike), LUO_T(slow_node_leaves),
          LUO_T_N(node_comes_back, 2), LUO_T(node_stays_outside), LUO_T(failure_costs_one_step),
          LUO_T_N(without_copies, 2), LUO_T_N(back_but_empty, 2), LUO_T(cut_off_before_the_moves),
          LUO_T_N(two_pipelines_at_least, 2), LUO_T(crash_restarts),
          LUO_T_N(only_what_comes_back_is_hope, 2 * LUO_ROWS(waits)),
          LUO_T_N(all_nodes_are_slow, 2), LUO_T_N(work_per_time, 3), LUO_T(through_changes),
          LUO_T(nobody_is_left), LUO_T_N(mixed_types, 2), LUO_T(no_real_run),
          LUO_T_N(busy_runs_repeat, 10))
