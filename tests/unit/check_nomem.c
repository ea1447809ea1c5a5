/* check_nomem.c: what the main jobs of core do when there is no memory: each of their allocations
 * is refused once, and the answer is LUO_ENOMEM or, where the memory was not needed, what it is
 * with all memory; nothing crashes, and nothing that was taken by malloc is kept. */
#include "core/hspmd/resolve.h"
#include <sys/stat.h>

#include "core/hspmd/bsr/switch.h"
#include "core/io/compare/compare.h"
#include "core/io/import/import.h"
#include "core/io/read/read.h"
#include "core/io/write_plan.h"
#include "core/plan/annotate.h"
#include "core/plan/hap/emit.h"
#include "core/plan/oobleck/oobleck.h"
#include "core/plan/planners.h"
#include "tests/cluster_fixture.h"
#include "tests/hydraulis_fixture.h"
#include "tests/keys_dump.h"
#include "tests/malleus_fixture.h"
#include "tests/nomem.h"
#include "tests/plan_make.h"
#include "tests/run_fixture.h"

/* What a job was given and what it found. */
static struct {
    luo_diags diags;
    luo_model *model;
    luo_cluster *cluster;
    luo_plan *plan;
    luo_scenario *scenario;
    luo_pool pool;
    luo_lengths lengths;
    luo_graph *graph;
    luo_programs *set;
    luo_resolution moves;
    luo_uniform_result *offers;
    int32_t n;
    luo_model small;
    luo_malleus_device devices[64];
    luo_malleus_in in;
    luo_malleus_found *found;
    fixture *fix;
    const char *dir, *set_dir, *run[2];
    int32_t assign[12], bin[12];
    double best;
    luo_packed packed;
    luo_switch sw;
    luo_switch_tensor tensor[3];
    luo_oobleck_plan templates;
} world;

/* ---- readers ---- */

static luo_status read_model(luo_arena *a, luo_err *err)
{
    (void)err;
    luo_diags_init(&world.diags, a);
    return luo_read_model(a, "scenarios/models/llama-32b.yaml", &world.model, &world.diags);
}

static luo_status read_cluster(luo_arena *a, luo_err *err)
{
    (void)err;
    luo_diags_init(&world.diags, a);
    return luo_read_cluster(a, "scenarios/clusters/mixed48.yaml", &world.cluster, &world.diags);
}

static luo_status read_plan(luo_arena *a, luo_err *err)
{
    (void)err;
    luo_diags_init(&world.diags, a);
    return luo_read_plan(a, "scenarios/demo/plan.json", &world.plan, NULL, &world.diags);
}

static luo_status read_scenario(luo_arena *a, luo_err *err)
{
    (void)err;
    luo_diags_init(&world.diags, a);
    return luo_read_scenario(a, "scenarios/demo/demo.yaml", NULL, &world.scenario, NULL,
                             &world.diags);
}

static luo_status read_pool(luo_arena *a, luo_err *err)
{
    (void)err;
    luo_diags_init(&world.diags, a);
    return luo_read_pool(a, "scenarios/pools/7b-a800.csv", &world.pool, &world.diags);
}

static void tell_model(luo_str *text)
{
    dump_model(text, world.model);
}

static void tell_cluster(luo_str *text)
{
    dump_cluster(text, world.cluster);
}

static void tell_plan(luo_str *text)
{
    luo_plan_json(text, world.plan);
}

static void tell_scenario(luo_str *text)
{
    luo_str_addf(text, "%016llx", (unsigned long long)world.scenario->hash);
    dump_cluster(text, world.scenario->cluster);
    dump_model(text, world.scenario->model);
}

static void tell_pool(luo_str *text)
{
    for (int32_t i = 0; i < world.pool.n; i++)
        luo_str_addf(text, "%d %d %a %a %a %lld\n", world.pool.entry[i].tp, world.pool.entry[i].pp,
                     world.pool.entry[i].a, world.pool.entry[i].b, world.pool.entry[i].c,
                     (long long)world.pool.entry[i].cap);
}

/* ---- graphs, programs, moves ---- */

static void prepare_plan(luo_arena *a)
{
    world.small = luo_test_llama(4, 64, 128, 8, 256);
    world.plan = luo_test_plan(a, "4: [0,1]*2 [2,3]*2 || 2: [4,5]:(3,1)*3 [6]*1");
}

static luo_status build_graph(luo_arena *a, luo_err *err)
{
    luo_build_opts build;
    LUO_TRY(luo_plan_build_opts(a, world.plan, &world.small, &build, err));
    LUO_TRY(luo_graph_build(a, &world.small, &build, &world.graph, err));
    const luo_status st = luo_plan_annotate(world.graph, world.plan, err);
    if (st != LUO_OK) luo_annset_free(world.graph->set);
    return st;
}

static luo_status compile(luo_arena *a, luo_err *err)
{
    const luo_compile_opts opts = {.check = true, .bucket = {LUO_BUCKET_MIB, true, 0, 0}};
    return luo_plan_compile(a, world.plan, &world.small, NULL, &opts, &world.set, err);
}

/* The second step is bound to patterns of the first. */
static luo_status compile_steps(luo_arena *a, luo_err *err)
{
    static const int64_t tokens[2][4] = {{16, 24, 16, 24}, {40, 40, 32, 32}};
    luo_pipeline *pipes = (luo_pipeline *)world.plan->pipelines;
    luo_patterns *patterns;
    LUO_TRY(luo_patterns_open(a, LUO_PATTERN_BYTES, &patterns, err));
    const luo_compile_opts opts = {.patterns = patterns, .bucket = {LUO_BUCKET_MIB, true, 0, 0}};
    luo_status st = LUO_OK;
    for (int k = 0; st == LUO_OK && k < 2; k++) {
        pipes[0].micro_batch_tokens = tokens[k];
        st = luo_plan_compile(a, world.plan, &world.small, NULL, &opts, &world.set, err);
    }
    luo_patterns_free(patterns);
    return st;
}

/* Sums, a re-shard with dead devices, sends of several senders. */
static luo_status resolve(luo_arena *a, luo_err *err)
{
    luo_node_racks where = {4, 0};
    const luo_resolve_opts o = {
        .name = "x", .planner = {.link_class = luo_node_racks_link_class, .link_ctx = &where}};
    const luo_shape shape = {.rank = 2, .dim = {24, 8}};
    const luo_ann *src, *dst;
    LUO_TRY(luo_ann_parse(a, "[0-3]{-1:2,0:2}", &src, err));
    LUO_TRY(luo_ann_parse(a, "[2-7]{1:2,0:3}", &dst, err));
    return luo_resolve(a, src, dst, &shape, &o, &world.moves, err);
}

static void tell_graph(luo_str *text)
{
    luo_graph_print(text, world.graph);
    luo_annset_free(world.graph->set);
}

static void tell_programs(luo_str *text)
{
    luo_str_addf(text, "%016llx\n", (unsigned long long)world.set->hash);
    for (int32_t i = 0; i < world.set->n; i++)
        luo_program_print(text, world.set, world.set->at[i].device);
}

static void tell_moves(luo_str *text)
{
    luo_str_addf(text, "%s\n", world.moves.text);
    for (int32_t i = 0; i < world.moves.moves.n; i++)
        luo_move_print(text, &world.moves.moves.at[i]);
}

/* ---- planners ---- */

static void prepare_cluster(luo_arena *a)
{
    world.cluster = fixture_cluster(a, 2, 1, 4);
    world.small = luo_test_llama(8, 1024, 2816, 8, 32000);
}

static luo_status plan_uniform(luo_arena *a, luo_err *err)
{
    const luo_uniform_opts o = {
        .batch_sequences = 16, .sequence_tokens = 2048, .top = 3, .zero = -1, .recompute = -1};
    return luo_plan_uniform(a, &world.small, world.cluster, &o, &world.offers, &world.n, err);
}

static void tell_offers(luo_str *text)
{
    for (int32_t i = 0; i < world.n; i++) {
        luo_str_addf(text, "%a\n", world.offers[i].objective_s);
        luo_plan_json(text, world.offers[i].plan);
    }
}

static void prepare_malleus(luo_arena *a)
{
    (void)a;
    world.in = make_in(&s32, world.devices);
    world.devices[3].rate = 2.57;
    world.devices[9].rate = 5.42;
}

static luo_status plan_malleus(luo_arena *a, luo_err *err)
{
    return luo_malleus(a, &world.in, &world.found, err);
}

static void tell_found(luo_str *text)
{
    for (int32_t i = 0; i < world.found->n; i++) {
        const luo_malleus_plan *p = &world.found->plans[i];
        luo_str_addf(text, "%a %a %d\n", p->event, p->steady, p->npipes);
        for (int32_t k = 0; k < p->npipes; k++)
            luo_str_addf(text, "%d %lld %a\n", p->pipes[k].nstages,
                         (long long)p->pipes[k].micro_batches, p->pipes[k].o);
    }
}

static luo_status plan_hap(luo_arena *a, luo_err *err)
{
    static const int32_t usable[] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const double rate[] = {1, 1, 1, 1, 1, 1, 1, 1};
    luo_stack stack;
    luo_stack_default(&stack);
    const luo_hap_ask ask = {.model = &world.small,
                             .cluster = world.cluster,
                             .stack = &stack,
                             .usable = usable,
                             .nusable = 8,
                             .rate = rate,
                             .sequences = 16,
                             .tokens = 2048,
                             .micro_batches = 1};
    double step_s;
    return luo_hap_plan(a, &ask, &world.plan, &step_s, err);
}

static void prepare_short(luo_arena *a)
{
    prepare_cluster(a);
    world.small.layers = 2;
}

static luo_status plan_oobleck(luo_arena *a, luo_err *err)
{
    static const int32_t first[] = {0, 4, 8, 12, 16};
    static const double y[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    const luo_oobleck_in in = {.nnodes = 4,
                               .first = first,
                               .y = y,
                               .layers = 60,
                               .micro_batches = 64,
                               .least_pipelines = 2,
                               .cap = group_cap,
                               .cap_ctx = &k32};
    return luo_oobleck(a, &in, &world.templates, err);
}

static void tell_templates(luo_str *text)
{
    luo_str_addf(text, "%a %d\n", world.templates.event, world.templates.npipes);
    for (int32_t i = 0; i < world.templates.npipes; i++)
        luo_str_addf(text, "%d %lld\n", world.templates.pipes[i].nodes,
                     (long long)world.templates.pipes[i].micro_batches);
}

static void prepare_pool(luo_arena *a)
{
    world.pool = POOL_7B(a, 1, 8, 1);
}

/* Sequences to replicas, exactly and by the search, and into micro-batches. */
static luo_status deal_lengths(luo_arena *a, luo_err *err)
{
    static const int64_t length[12] = {4000, 3000, 900, 800, 700, 600, 500, 400, 300, 200, 100, 50};
    const int32_t entry = entry_of(&world.pool, 2, 2) < 0 ? 0 : entry_of(&world.pool, 2, 2);
    const luo_replica replica[2] = {{.entry = entry, .mu = 1}, {.entry = entry, .mu = 2}};
    const luo_dispatch_opts opts = {.kicks = -1};
    LUO_TRY(
        luo_dispatch(a, &world.pool, replica, 2, length, 9, &opts, world.assign, &world.best, err));
    LUO_TRY(luo_dispatch(a, &world.pool, replica, 2, length, 12, &opts, world.assign, &world.best,
                         err));
    return luo_pack(a, &world.pool.entry[entry], length, 12, LUO_SCORE_MAX, world.bin,
                    &world.packed, err);
}

static void tell_dealt(luo_str *text)
{
    luo_str_addf(text, "%a %a %d:", world.best, world.packed.score, world.packed.nbins);
    for (int i = 0; i < 12; i++) luo_str_addf(text, " %d/%d", world.assign[i], world.bin[i]);
}

static void prepare_switch(luo_arena *a)
{
    static const char *const from[] = {"h=-1 [0]{} | [1]{}", "[0,1]{0:2}", "[0-3]{0:4}"};
    static const char *const to[] = {"[4]{}", "[2-5]{0:4}", "[0-3]{-1:2,0:2}"};
    for (int i = 0; i < 3; i++) {
        world.tensor[i] =
            (luo_switch_tensor){.name = "t", .shape = {.rank = 1, .dim = {24}}, .elem_bytes = 4};
        ck_assert_int_eq(luo_ann_parse(a, from[i], &world.tensor[i].from, NULL), LUO_OK);
        ck_assert_int_eq(luo_ann_parse(a, to[i], &world.tensor[i].to, NULL), LUO_OK);
    }
}

static luo_status plan_switch(luo_arena *a, luo_err *err)
{
    static const luo_node_racks where = {4, 0};
    const luo_switch_opts o = {.planner = {.sender = LUO_SENDER_EXACT,
                                           .link_class = luo_node_racks_link_class,
                                           .link_ctx = &where}};
    LUO_TRY(luo_switch_plan(a, world.tensor, 3, &o, &world.sw, err));
    return luo_compile_switch(a, world.tensor, 3, &world.sw, &world.set, err);
}

/* ---- runs and what they write ---- */

static void prepare_rundir(luo_arena *a)
{
    world.fix = fix_new();
    world.dir = fix_dir(a, "nomem");
    world.dir = luo_arena_strdup(world.fix->arena, world.dir);
}

static luo_status write_rows(luo_rundir *r, luo_err *err)
{
    const luo_sink *sink = luo_rundir_sink(r);
    LUO_TRY(sink->plan(sink->ctx, 0, &world.fix->plan, &world.fix->set, err));
    const luo_run_summary summary = {.policy = "static",
                                     .backend = "sim",
                                     .state = LUO_COMPLETE,
                                     .steps_done = 2,
                                     .total_s = 0.3,
                                     .expert_imbalance_ratio = NAN};
    for (int i = 0; i < 2; i++) LUO_TRY(fix_step(sink, world.fix, i, 0.15 * i, i == 0, err));
    return sink->summary(sink->ctx, &summary, err);
}

static luo_status write_run(luo_arena *a, luo_err *err)
{
    const luo_rundir_opts opts = fix_opts(world.fix);
    luo_rundir *r = NULL;
    (void)a;
    LUO_TRY(luo_rundir_open(world.dir, &opts, &r, err));
    const luo_status st = write_rows(r, err);
    if (st == LUO_OK) return luo_rundir_close(r, LUO_COMPLETE, 0, err);
    luo_rundir_leave(r);
    return st;
}

/* The bytes of every file, by name. */
static void tell_run(luo_str *text)
{
    char cmd[1024], line[4096];
    snprintf(cmd, sizeof cmd, "find '%s' -type f | LC_ALL=C sort | xargs cat", world.dir);
    FILE *f = popen(cmd, "r");
    while (fgets(line, sizeof line, f)) luo_str_add(text, line);
    pclose(f);
}

static void clean_run(void)
{
    fix_remove(world.fix->arena, world.dir);
    luo_arena_free(world.fix->arena);
}

/* Two runs, written by prepare, beside each other. */
static void prepare_compare(luo_arena *a)
{
    luo_err err = {0};
    prepare_rundir(a);
    world.set_dir = world.dir;
    ck_assert_int_eq(mkdir(world.set_dir, 0777), 0);
    for (int i = 0; i < 2; i++) {
        world.run[i] = luo_arena_printf(world.fix->arena, "%s/%d", world.set_dir, i);
        world.dir = world.run[i];
        ck_assert_msg(write_run(a, &err) == LUO_OK, "%s", err.text);
    }
    world.dir = world.set_dir;
}

static luo_status compare_runs(luo_arena *a, luo_err *err)
{
    const luo_compare_opts opts = {.paths = world.run, .npaths = 2, .out = world.dir};
    luo_str text = {0};
    luo_diags_init(&world.diags, a);
    const luo_status st = luo_compare(a, &opts, &text, &world.diags);
    luo_str_free(&text);
    if (st != LUO_OK && world.diags.first) *err = world.diags.first->err;
    return st;
}

static luo_status import_lengths(luo_arena *a, luo_err *err)
{
    luo_import_made made;
    (void)err;
    const luo_import_opts opts = {
        .kind = LUO_IMPORT_TEXT, .source = "tests/golden/bad", .out = world.dir};
    luo_diags_init(&world.diags, a);
    return luo_import(a, &opts, &made, &world.diags);
}

static const nomem_job jobs[] = {
    {"read a model", NULL, read_model, tell_model, NULL},
    {"read a cluster", NULL, read_cluster, tell_cluster, NULL},
    {"read a plan", NULL, read_plan, tell_plan, NULL},
    {"read a scenario", NULL, read_scenario, tell_scenario, NULL},
    {"read a pool", NULL, read_pool, tell_pool, NULL},
    {"build a graph", prepare_plan, build_graph, tell_graph, NULL},
    {"compile a plan", prepare_plan, compile, tell_programs, NULL},
    {"compile steps of lengths", prepare_plan, compile_steps, tell_programs, NULL},
    {"resolve", NULL, resolve, tell_moves, NULL},
    {"plan uniform", prepare_cluster, plan_uniform, tell_offers, NULL},
    {"plan malleus", prepare_malleus, plan_malleus, tell_found, NULL},
    {"plan hap", prepare_short, plan_hap, tell_plan, NULL},
    {"plan oobleck", NULL, plan_oobleck, tell_templates, NULL},
    {"deal lengths", prepare_pool, deal_lengths, tell_dealt, NULL},
    {"plan a switch", prepare_switch, plan_switch, tell_programs, NULL},
    {"write a run", prepare_rundir, write_run, tell_run, clean_run},
    {"compare runs", prepare_compare, compare_runs, tell_run, clean_run},
    {"import lengths", prepare_rundir, import_lengths, tell_run, clean_run},
};

START_TEST(refused)
{
    ck_assert_int_eq(nomem_all(&jobs[_i], 100), 0);
}
END_TEST
LUO_MAIN("nomem", refused, LUO_ROWS(jobs))
