/* check_scenario.c: the scenario of docs/formats.md#luoshuscenario1, overrides, canonical hash
 * (A13), files from memory. Wrong scenarios stand in tests/golden/bad/scenario. */
#include "core/io/read/read.h"
#include "tests/check_main.h"

static const char path[] = "tests/golden/inputs/demo-day.yaml";
static luo_arena *arena;
static luo_diags diags;

static luo_scenario *read_set(const char *const *set, int32_t n, luo_inputs *inputs)
{
    luo_scenario *sc = NULL;
    const luo_overrides overrides = {.n = n, .at = set};
    arena = luo_arena_new(0);
    luo_diags_init(&diags, arena);
    const luo_status st = luo_read_scenario(arena, path, &overrides, &sc, inputs, &diags);
    ck_assert_msg(st == LUO_OK, "%s: %s", n ? set[0] : "",
                  diags.first ? diags.first->err.text : "?");
    return sc;
}

START_TEST(values)
{
    luo_inputs in = {0};
    const luo_scenario *sc = read_set(NULL, 0, &in);
    ck_assert_str_eq(sc->name, "demo-day");
    ck_assert(sc->seed == 7 && sc->steps == 2000 && sc->duration_s == 0 && !sc->plan);
    ck_assert(sc->batch_sequences == 64 && sc->length_tokens == 4096);
    ck_assert(sc->cluster->ndevices == 48 && sc->model->layers == 60);
    ck_assert_str_eq(sc->planner, "uniform");
    ck_assert(sc->npolicies == 4 && sc->policies[1].restart_s == 90);
    ck_assert(sc->policies[0].restart_s == -1 && sc->policies[2].window_steps == 5);
    ck_assert_str_eq(sc->policies[2].label, "rebalance");
    const luo_policy_spec *m = &sc->policies[3];
    ck_assert(m->plan_mode == LUO_PLAN_AUTO && sc->policies[1].plan_mode == LUO_PLAN_ASYNC);
    ck_assert(m->reentry_probes == 5 && m->top_k == 32 && m->rank == LUO_RANK_FILLED);
    ck_assert(!m->split2 && !m->dp_auto && !m->always_switch && m->payback_steps == 50);
    ck_assert(sc->compute_sigma == 0.01 && sc->comm_sigma == 0.02 && sc->truth);
    ck_assert(sc->checkpoint.kind == LUO_CHECKPOINT_STEPS && sc->checkpoint.every_steps == 100);
    ck_assert(!sc->checkpoint.blocking && sc->checkpoint.target == LUO_TARGET_STORAGE);
    ck_assert(sc->detect_fail_s == 30 && sc->process_start_s == 60);
    ck_assert(sc->communicator_s == 0.05 && sc->replacement_s == 0);
    ck_assert_str_eq(sc->stack.name, "luoshu-cuda");
    ck_assert_int_eq(in.n, 7);
    ck_assert_str_eq(in.path[0], path);
    ck_assert_str_eq(in.path[2], "tests/golden/inputs/h20.yaml");
    luo_arena_free(arena);
}
END_TEST

/* 256 plans are ranked by event time, unless it is said how many. */
START_TEST(rank_event_looks_at_more)
{
    static const char *const set[] = {"policies[3].rank=event", "policies[3].top_k=40"};
    for (int32_t n = 1; n <= 2; n++) {
        const luo_scenario *sc = read_set(set, n, NULL);
        ck_assert_int_eq(sc->policies[3].top_k, n == 1 ? 256 : 40);
        luo_arena_free(arena);
    }
}
END_TEST

START_TEST(events)
{
    const luo_scenario *sc = read_set(NULL, 0, NULL);
    const luo_event *e = sc->events;
    ck_assert_int_eq(sc->nevents, 13);
    ck_assert(e[0].kind == LUO_EVENT_STRAGGLER && e[0].trigger == LUO_AT_S && e[0].at[0] == 600);
    ck_assert(e[0].slowdown == 2.57 && e[0].ramp_s == 30 && e[0].life.duration_s == 3600);
    ck_assert(e[0].line == 18 && e[0].col == 43);
    ck_assert(e[1].trigger == LUO_AT_STEP && e[1].at[0] == 400);
    ck_assert_str_eq(e[1].cause, "hbm");
    ck_assert(e[2].trigger == LUO_BETWEEN_S && e[2].at[1] == 7200 && e[2].life.duration_s == 0);
    ck_assert(e[3].kind == LUO_EVENT_JOIN && *e[3].cause == 0);
    ck_assert(e[5].bandwidth_factor == 0.25 && e[5].extra_latency_s == 5 * 1e-6);
    ck_assert(e[6].kind == LUO_EVENT_FLAP && e[6].down_s == 2 && e[6].up_s == 8);
    ck_assert(e[7].kind == LUO_EVENT_LEAVE && e[7].notice_s == 120);
    ck_assert(e[8].trigger == LUO_PER_STEP_PROBABILITY && e[8].at[0] == 0.001);
    ck_assert(e[8].slowdown_between[0] == 1.3 && e[8].slowdown_between[1] == 4);
    ck_assert(e[9].kind == LUO_EVENT_LENGTHS && e[9].tokens == 8192);
    ck_assert_str_eq(e[10].id, "away"); /* of the trace */
    ck_assert_str_eq(e[11].id, "spot.csv:5");
    ck_assert(e[12].at[0] == 15000.5 && e[12].life.duration_s == 60 && e[12].line == 6);
    luo_arena_free(arena);
}
END_TEST

START_TEST(processes)
{
    const luo_scenario *sc = read_set(NULL, 0, NULL);
    const luo_arrivals *p = sc->processes;
    ck_assert(sc->nprocesses == 3 && p[0].dist == LUO_DIST_EXPONENTIAL && p[0].mean_s == 4e6);
    ck_assert(p[0].life.dist == LUO_DIST_LOGNORMAL && p[0].life.median_s == 3600);
    ck_assert(p[1].dist == LUO_DIST_WEIBULL && p[1].shape == 0.7 && p[1].life.mean_s == 900);
    ck_assert(p[2].kind == LUO_EVENT_CAUSES && p[2].ncauses == 4 && p[2].observed_s == 4665600);
    ck_assert(p[2].causes[0].count == 148 && p[2].causes[0].scope == LUO_SCOPE_DEVICE);
    ck_assert(p[2].causes[1].scope == LUO_SCOPE_NODE && p[2].causes[1].value == 1.5);
    ck_assert(p[2].causes[3].scope == LUO_SCOPE_JOB && p[2].causes[3].life_median_s == 0);
    luo_arena_free(arena);
}
END_TEST

/* A13: each key, changed alone, changes the hash. */
static const char *const changes[] = {
    "name=other", "seed=8", "cluster=h800x.yaml", "model=small.yaml", "plan=plan.json",
    "extent.steps=1999", "extent={duration_s: 5}", "data.batch.sequences=128",
    "data.lengths.tokens=2048", "policies[0].label=base", "policies[0].name=restart",
    "policies[0].plan=plan.json", "policies[1].restart_s=91",
    "policies[1].strict_uniform=true", "policies[1].threshold_slowdown=1.5",
    "policies[1].payback_steps=51", "policies[2].replan_gap=0.4", "policies[2].window_steps=6",
    "policies[0].replan_gap=0.4", "policies[2].planner_time=measured", "policies[2].planner_s=11",
    "policies[3].top_k=31", "policies[3].rank=steady", "policies[3].rank=event",
    "policies[3].grouping=split2", "policies[3].plan_mode=sync", "policies[3].plan_mode=async",
    "policies[0].optimizer_step=staggered", "policies[0].optimizer_step=together",
    "policies[3].always_switch=true", "policies[3].reentry_probes=4", "policies[3].dp=auto",
    "policies[3].payback_steps=52", "policies[3].planner_s=12", "policies[3].restart_s=70",
    "events[0].id=x",
    "events[0].target=device:13", "events[0].slowdown=2.58", "events[0].ramp_s=31",
    "events[1].duration_s=7201",
    "events[0].duration_s=3601", "events[0].at_s=601", "events[1].at_step=401",
    "events[1].cause=sdc", "events[1].hard=true", "events[2].between_s=[3600, 7201]",
    "events[3].kind=fail", "events[5].bandwidth_factor=0.26", "events[5].extra_latency_us=6",
    "events[6].down_s=3", "events[6].up_s=9", "events[7].notice_s=121",
    "events[8].slowdown_between=[1.3, 4.1]", "events[8].per_step_probability=0.002",
    "events[9].lengths.tokens=8191", "processes[0].id=y", "processes[0].kind=straggler",
    "processes[0].target=device:[0-46]", "processes[0].mean_s=4000001",
    "processes[0].life.median_s=3601", "processes[0].life.sigma=0.9",
    "processes[1].shape=0.8",
    "processes[1]={id: slows, kind: straggler, target: \"device:[0-47]\", mean_s: 900000, "
    "distribution: exponential, life: {distribution: exponential, mean_s: 900}, "
    "slowdown_between: [1.2, 4.0]}",
    "processes[1].life.mean_s=901", "processes[1].slowdown_between=[1.2, 4.1]",
    "processes[2].observed_devices=16385", "processes[2].observed_s=4665601",
    "processes[2].file=causes2.csv", "traces[0].file=spot2.csv", "traces[0].start_s=1",
    "traces[0].time_scale=2", "noise.compute_sigma=0.02", "noise.comm_sigma=0.03",
    "checkpoint.every_steps=101", "checkpoint.mode=blocking", "checkpoint.target=disk",
    "checkpoint={every_s: 60}", "checkpoint={auto: true}", "costs.detect_fail_s=31",
    "costs.process_start_s=61", "costs.communicator_s=0.06", "costs.replacement_s=1",
    "costs.operator_s=0.01",
    "truth.write=false", "stack=slow.yaml", "stack.dp_overlap=on", "stack.p2p=blocking",
    "stack.bucket_rule=ddp", "stack.bucket_mib=25", "stack.dp_lanes=4",
    "stack.fp8_recipe=current", "stack.fp8_weights=once",
    "cluster.storage.read_gbytes_per_s=41", "cluster.node_groups[0].nics.latency_us=2.5",
    "model.vocab=32128",
};

/* Files that stand beside those of the folder, and what a change needs beside itself. */
static luo_status beside(void *ctx, luo_arena *a, const char *name, luo_source *out, luo_err *err)
{
    (void)ctx;
    static const char small[] = "schema: luoshu.model/1\nname: s\nfamily: llama\nlayers: 2\n"
                                "hidden: 64\nffn_hidden: 64\nheads: 4\nvocab: 64\n"
                                "max_sequence_tokens: 8192\n";
    static const char slow[] = "schema: luoshu.stack/1\nname: slow\nvalues: [{name: host_launch_us,"
                               " value: 99, source: x, provenance: chosen}]\n";
    static const char spot2[] = "t_s,kind,target\n1,fail,device:3\n";
    static const char causes2[] = "cause,kind,scope,count\ngpu,fail,device,149\n";
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    const struct {
        const char *name, *text;
    } made[] = {{"small.yaml", small}, {"slow.yaml", slow}, {"spot2.csv", spot2},
                {"causes2.csv", causes2}};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        if (strcmp(made[i].name, base) == 0) {
            *out = (luo_source){name, made[i].text, strlen(made[i].text)};
            return LUO_OK;
        }
    if (strcmp(base, "plan.json") == 0) name = "tests/golden/inputs/plan-64.json";
    if (strcmp(base, "h800x.yaml") == 0) name = "tests/golden/inputs/mixed48b.yaml";
    return luo_source_read(a, name, out, err);
}

static const char *companion(const char *change)
{
    if (strcmp(change, "policies[0].name=restart") == 0) return "policies[1].label=second";
    if (strcmp(change, "events[3].kind=fail") == 0) return "seed=7";
    if (strcmp(change, "processes[0].kind=straggler") == 0) return "processes[0].slowdown=2";
    return "seed=7";
}

static uint64_t hash_of(const char *change)
{
    static const luo_files files = {beside, NULL};
    luo_scenario *sc = NULL;
    luo_source src;
    luo_err err;
    const char *set[] = {"", ""};
    arena = luo_arena_new(0);
    luo_diags_init(&diags, arena);
    set[0] = change ? change : "seed=7";
    set[1] = change ? companion(change) : "seed=7";
    const bool seed = change && strncmp(change, "seed", 4) == 0;
    const luo_overrides overrides = {.n = seed ? 1 : 2, .at = set};
    ck_assert_int_eq(luo_source_read(arena, path, &src, &err), LUO_OK);
    luo_read_scenario_text(arena, &src, &files, &overrides, &sc, NULL, &diags);
    ck_assert_msg(sc != NULL, "%s: %s", change ? change : "", diags.first->err.text);
    const uint64_t hash = sc->hash;
    luo_arena_free(arena);
    return hash;
}

START_TEST(each_key_counts)
{
    enum { N = sizeof changes / sizeof *changes };
    uint64_t seen[N + 1];
    seen[N] = hash_of(NULL);
    for (int i = 0; i < N; i++) seen[i] = hash_of(changes[i]);
    for (int i = 0; i <= N; i++)
        for (int k = 0; k < i; k++)
            ck_assert_msg(seen[i] != seen[k], "`%s` and `%s` give one hash",
                          i < N ? changes[i] : "nothing", changes[k]);
}
END_TEST

START_TEST(defaults_and_layout_do_not_count)
{
    luo_inputs in = {0};
    const luo_scenario *sc = read_set(NULL, 0, &in);
    const uint64_t hash = sc->hash;
    luo_arena_free(arena);
    ck_assert_uint_eq(hash, hash_of(NULL)); /* the same files from elsewhere */
    static const char *const same[] = {"policies[1].threshold_slowdown=1.2",
                                       "policies[1].window_steps=5", "costs.detect_fail_s=30.0",
                                       "checkpoint.mode=background", "events[3].cause=",
                                       "data.lengths={kind: fixed, tokens: 4096}",
                                       "policies[0].label=static", "traces[0].time_scale=1",
                                       "traces[0]={file: spot.csv}"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        ck_assert_msg(hash_of(same[i]) == hash, "%s", same[i]);
}
END_TEST

START_TEST(trace_without_scale)
{
    static const char *const set[] = {"traces[0]={file: spot.csv, start_s: 500}"};
    const luo_scenario *sc = read_set(set, 1, NULL);
    ck_assert(sc->events[10].at[0] == 13500 && sc->events[11].at[0] == 14500);
    ck_assert(sc->events[12].life.duration_s == 60);
    luo_arena_free(arena);
}
END_TEST

/* Dates and durations alike; neither may become longer than there is. */
START_TEST(times_of_a_trace_are_scaled)
{
    static const char text[] = "t_s,kind,target,duration_s\n10,fail,device:0,8\n";
    const luo_source src = {"t.csv", text, sizeof text - 1};
    luo_event *event;
    int32_t n;
    arena = luo_arena_new(0);
    luo_diags_init(&diags, arena);
    ck_assert_int_eq(luo_read_event_trace(arena, &src, NULL, 100, 0.5, &event, &n, &diags), LUO_OK);
    ck_assert(n == 1 && event->at[0] == 105 && event->life.duration_s == 4);
    ck_assert_int_eq(luo_read_event_trace(arena, &src, NULL, 100, 2e9, &event, &n, &diags),
                     LUO_EINPUT);
    ck_assert_str_eq(diags.first->err.text,
                     "`t_s` is `10`, at 2e+10 s with `start_s` and `time_scale` of the scenario; a "
                     "date up to 4e+09 s is expected.");
    ck_assert_str_eq(diags.first->next->err.text,
                     "`duration_s` is `8`, 1.6e+10 s with `time_scale` of the scenario; a time "
                     "from 1e-09 to 1e+10 s is expected.");
    luo_arena_free(arena);
}
END_TEST

START_TEST(plan_against_scenario)
{
    static const char *const set[] = {"plan=plan-64.json", "data.batch.sequences=60"};
    const luo_overrides overrides = {.n = 2, .at = set};
    luo_scenario *sc = NULL;
    const luo_scenario *with = read_set(set, 1, NULL);
    ck_assert(with->plan && with->plan->npipelines == 2);
    luo_arena_free(arena);
    arena = luo_arena_new(0);
    luo_diags_init(&diags, arena);
    ck_assert_int_eq(luo_read_scenario(arena, path, &overrides, &sc, NULL, &diags), LUO_OK);
    ck_assert_int_eq(diags.first->severity, LUO_NOTE);
    ck_assert_str_eq(diags.first->err.text,
                     "`sequences` is 60 and plan `sixty-four`, named at line 6, has 64 a step; its "
                     "micro-batches are dealt anew.");
    ck_assert(sc->batch_sequences == 60 && luo_plan_sequences(sc->plan) == 64);
    luo_arena_free(arena);
}
END_TEST

START_TEST(missing_file_row)
{
    luo_scenario *sc;
    luo_file_kind k;
    arena = luo_arena_new(0);
    luo_diags_init(&diags, arena);
    ck_assert_int_eq(luo_read_scenario(arena, "nowhere.yaml", NULL, &sc, NULL, &diags), LUO_EINPUT);
    ck_assert_str_eq(diags.first->err.text, "cannot read `nowhere.yaml`: no such file or "
                                            "directory.");
    ck_assert_int_eq(luo_read_scenario(arena, "tests", NULL, &sc, NULL, &diags), LUO_EINPUT);
    ck_assert_int_eq(luo_file_kind_of("tests", &k, &diags), LUO_EINPUT);
    luo_arena_free(arena);
}
END_TEST

LUO_SUITE("io.scenario", LUO_T(values), LUO_T(rank_event_looks_at_more), LUO_T(events),
          LUO_T(processes), LUO_T(each_key_counts), LUO_T(defaults_and_layout_do_not_count),
          LUO_T(trace_without_scale), LUO_T(times_of_a_trace_are_scaled),
          LUO_T(plan_against_scenario), LUO_T(missing_file_row))
