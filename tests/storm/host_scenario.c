/* tests/storm/host_scenario.c: jobs: a bare plan, or a scenario with policies and random events. */
#include <stdio.h>

#include "tests/storm/host.h"

/* Which of the keys beyond those of the detector a policy has. */
static const struct {
    const char *name;
    bool plans, restarts;
} policies[] = {{"static", false, false},
                {"restart", true, true},
                {"oobleck", true, true},
                {"rebalance", true, false},
                {"malleus", true, true}};
enum { KINDS_OF_POLICY = sizeof policies / sizeof *policies };

static void add_policy(storm_case *c, luo_str *s, int k)
{
    luo_str_addf(s, "  - {name: %s, threshold_slowdown: %lld, replan_gap: %lld, window_steps: %lld",
                 policies[k].name, (long long)storm_draw(c, 2, 10), (long long)storm_draw(c, 1, 8),
                 (long long)storm_draw(c, 1, 5));
    if (policies[k].plans && storm_chance(c, 70)) luo_str_add(s, ", planner_s: 0");
    if (policies[k].restarts)
        luo_str_addf(s, ", payback_steps: %lld", (long long)storm_draw(c, 0, 1000));
    if (policies[k].restarts && storm_chance(c, 60)) luo_str_add(s, ", restart_s: 0.1");
    if (k == KINDS_OF_POLICY - 1 && storm_chance(c, 40)) luo_str_add(s, ", always_switch: true");
    luo_str_add(s, "}\n");
}

static void add_life(storm_case *c, luo_str *s)
{
    if (storm_chance(c, 40))
        luo_str_addf(s, ", duration_s: 0.%02lld", (long long)storm_draw(c, 1, 99));
    else if (storm_chance(c, 70))
        luo_str_addf(s, ", duration_steps: %lld", (long long)storm_draw(c, 1, 6));
}

static void add_target(storm_case *c, luo_str *s)
{
    const int64_t device = storm_draw(c, 0, c->devices - 1);
    if (storm_chance(c, 12))
        luo_str_addf(s, "target: \"node:cpu-%lld\"", (long long)(device / c->per_node));
    else if (storm_chance(c, 12))
        luo_str_addf(s, "target: \"any device:[0-%d]\"", c->devices - 1);
    else
        luo_str_addf(s, "target: \"device:%lld\"", (long long)device);
}

static void add_trigger(storm_case *c, luo_str *s)
{
    if (storm_chance(c, 65))
        luo_str_addf(s, ", at_step: %lld", (long long)storm_draw(c, 0, c->steps));
    else if (storm_chance(c, 30))
        luo_str_addf(s, ", per_step_probability: 0.%lld", (long long)storm_draw(c, 1, 5));
    else
        luo_str_addf(s, ", at_s: 0.%02lld", (long long)storm_draw(c, 0, 99));
}

static void add_event(storm_case *c, luo_str *s, int id)
{
    static const char *const kinds[] = {"straggler", "straggler", "fail", "fail", "leave", "join"};
    const int k = (int)storm_draw(c, 0, 5);
    luo_str_addf(s, "  - {id: e%d, kind: %s, ", id, kinds[k]);
    add_target(c, s);
    add_trigger(c, s);
    if (k < 2) luo_str_addf(s, ", slowdown: %lld", (long long)storm_draw(c, 2, 40));
    if ((k == 2 || k == 3) && storm_chance(c, 40)) luo_str_add(s, ", hard: true");
    if (k == 4) luo_str_addf(s, ", notice_s: 0.%lld", (long long)storm_draw(c, 0, 9));
    if (k != 5) add_life(c, s);
    luo_str_add(s, "}\n");
}

static void write_scenario(storm_case *c, storm_job *job)
{
    luo_str s = {0};
    luo_str_addf(
        &s,
        "schema: luoshu.scenario/1\nname: storm\nseed: %llu\ncluster: cluster.yaml\n"
        "model: model.yaml\nplan: first.json\nextent: {steps: %d}\n"
        "data:\n  batch: {sequences: %d}\n  lengths: {kind: fixed, tokens: %d}\npolicies:\n",
        (unsigned long long)c->data_seed, c->steps, c->setting->sequences, c->setting->tokens);
    job->npolicies = storm_chance(c, 30) ? 2 : 1;
    const int first = (int)storm_draw(c, 0, KINDS_OF_POLICY - 1);
    for (int i = 0; i < job->npolicies; i++) {
        const int k = (first + i) % KINDS_OF_POLICY;
        job->policy[i] = policies[k].name;
        add_policy(c, &s, k);
    }
    const int events = (int)storm_draw(c, 0, 4);
    if (events) luo_str_add(&s, "events:\n");
    for (int i = 0; i < events; i++) add_event(c, &s, i);
    job->events = events > 0;
    if (job->every)
        luo_str_addf(&s, "checkpoint: {every_steps: %d, mode: %s, target: storage}\n", job->every,
                     storm_chance(c, 50) ? "blocking" : "background");
    luo_str_add(
        &s,
        "costs: {detect_fail_s: 0.05, process_start_s: 0, communicator_s: 0, replacement_s: 0}\n");
    storm_write(c, job->input, luo_str_get(&s));
    storm_tell(c, "%s:\n%s", job->input, luo_str_get(&s));
    luo_str_free(&s);
}

void storm_make_job(storm_case *c, storm_job *job)
{
    *job = (storm_job){.scenario = storm_chance(c, 45),
                       .npolicies = 1,
                       .policy = {"plan"},
                       .input = storm_path(c, "first.json"),
                       .max_restarts = 3};
    job->every = storm_chance(c, 80) ? (int32_t)storm_draw(c, 1, 4) : 0;
    storm_make_plan(c, job->input);
    if (!job->scenario) {
        job->max_restarts = storm_chance(c, 50) ? 0 : (int32_t)storm_draw(c, 1, 2);
        return;
    }
    job->input = storm_path(c, "scenario.yaml");
    write_scenario(c, job);
}
