/* host_scenario.c: jobs: a bare plan, or a scenario with policies and random events. */
#include <string.h>

#include "tests/storm/host.h"

/* Which of the keys beyond those of the detector a policy has. */
static const struct {
    const char *name;
    bool plans, restarts;
} policies[] = {{"static", false, false},
                {"restart", true, true},
                {"oobleck", true, true},
                {"rebalance", true, false},
                {"spares", true, true},
                {"drop_replica", true, false},
                {"reroute", true, false},
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

static void begin_scenario(const storm_case *c, luo_str *s, const char *plan, int64_t steps)
{
    luo_str_addf(s,
                 "schema: luoshu.scenario/1\nname: storm\nseed: %llu\ncluster: cluster.yaml\n"
                 "model: model.yaml\nplan: %s\nextent: {steps: %lld}\n"
                 "data:\n  batch: {sequences: %d}\n  lengths: {kind: fixed, tokens: %d}\n",
                 (unsigned long long)c->data_seed, plan, (long long)steps, c->setting->sequences,
                 c->setting->tokens);
    if (storm_overlaps(c)) luo_str_add(s, "stack: stack.yaml\n");
    luo_str_add(s, "costs: {detect_fail_s: 0.05, process_start_s: 0, communicator_s: 0, "
                   "replacement_s: 0}\n");
}

static void add_events(storm_case *c, luo_str *s, int n)
{
    if (n > 0 || c->longer) luo_str_add(s, "events:\n");
    if (c->longer)
        luo_str_addf(
            s, "  - {id: longer, kind: lengths, at_step: %d, lengths: {kind: fixed, tokens: %d}}\n",
            STORM_LONGER_AT, c->setting->tokens + STORM_LONGER_BY);
    for (int i = 0; i < n; i++) add_event(c, s, i);
}

static void end_scenario(storm_case *c, luo_str *s, const char *path)
{
    storm_write(c, path, luo_str_get(s));
    luo_str_free(s);
}

/* Policy `static`, and nothing happens but that sequences become longer. */
static void write_quiet(storm_case *c, const char *path, const char *plan, int64_t steps, int every)
{
    luo_str s = {0};
    begin_scenario(c, &s, plan, steps);
    luo_str_add(&s, "policies: [{name: static}]\n");
    if (every) luo_str_addf(&s, "checkpoint: {every_steps: %d}\n", every);
    add_events(c, &s, 0);
    end_scenario(c, &s, path);
}

static void write_scenario(storm_case *c, storm_job *job)
{
    luo_str s = {0};
    begin_scenario(c, &s, "a.json", c->steps);
    luo_str_add(&s, "policies:\n");
    job->npolicies = storm_chance(c, 30) ? 2 : 1;
    const int first = (int)storm_draw(c, 0, KINDS_OF_POLICY - 1);
    for (int i = 0; i < job->npolicies; i++) {
        const int k = (first + i) % KINDS_OF_POLICY;
        job->policy[i] = policies[k].name;
        job->picky |= policies[k].plans;
        add_policy(c, &s, k);
    }
    const int events = (int)storm_draw(c, 0, 4);
    add_events(c, &s, events);
    job->events = events > 0;
    if (job->every)
        luo_str_addf(&s, "checkpoint: {every_steps: %d, mode: %s, target: %s}\n", job->every,
                     storm_chance(c, 50) ? "blocking" : "background",
                     storm_chance(c, 25) ? "peer" : "storage");
    storm_tell(c, "%s:\n%s", job->input, luo_str_get(&s));
    end_scenario(c, &s, job->input);
}

void storm_make_job(storm_case *c, storm_job *job)
{
    *job = (storm_job){.scenario = c->longer || storm_chance(c, 45),
                       .npolicies = 1,
                       .policy = {"plan"},
                       .input = storm_path(c, "a.json"),
                       .max_restarts = 3};
    job->every = storm_chance(c, 80) ? (int32_t)storm_draw(c, 1, 4) : 0;
    storm_make_plan(c, job->input);
    if (!job->scenario) {
        job->max_restarts = storm_chance(c, 50) ? 0 : (int32_t)storm_draw(c, 1, 2);
        return;
    }
    job->input = storm_path(c, "a.yaml");
    write_scenario(c, job);
}

void storm_make_job_again(storm_case *c, storm_job *job, const char *name, int64_t steps)
{
    const char *plan = luo_arena_printf(c->arena, "%s/%s.json", c->dir, name);
    *job = (storm_job){.npolicies = 1, .policy = {"plan"}, .input = plan};
    job->every = storm_chance(c, 50) ? (int32_t)storm_draw(c, 1, 3) : 0;
    job->max_restarts = storm_chance(c, 50) ? 0 : (int32_t)storm_draw(c, 1, 2);
    storm_make_plan(c, plan);
    if (!c->longer) return;
    job->scenario = true;
    job->policy[0] = "static";
    job->input = luo_arena_printf(c->arena, "%s/%s.yaml", c->dir, name);
    write_quiet(c, job->input, strrchr(plan, '/') + 1, steps, job->every);
}

const char *storm_make_alone(storm_case *c)
{
    const char *path = storm_path(c, "alone.yaml");
    write_quiet(c, path, "alone.json", STORM_STEPS, 0);
    return path;
}
