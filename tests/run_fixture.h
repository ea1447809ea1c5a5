/* run_fixture.h: a small run made by hand, for tests of what is written about runs.
 *
 * Two nodes of two devices; one pipeline of two stages with tp 2; two micro-batches, F F B B.
 * All times are synthetic: instruction k of a device begins when the one before it ends. */
#ifndef LUO_TESTS_RUN_FIXTURE_H
#define LUO_TESTS_RUN_FIXTURE_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/io/result/rundir.h"
#include "core/run/scenario.h"

enum { FIX_DEVICES = 4, FIX_STEP_RECORDS = 4 * (2 * 3 + 2 * 2 + 1) };

typedef struct fixture {
    luo_arena *arena;
    luo_profile profile;
    luo_cluster cluster;
    luo_scenario scenario;
    luo_plan plan;
    luo_programs set;
    luo_op_record records[FIX_STEP_RECORDS];
    luo_link_use *links;
    luo_link_windows windows; /* of links: all of it in the first one, which lasts 1 s */
} fixture;

static inline void fix_cluster(fixture *f)
{
    static const char *const racks[] = {"r0"};
    luo_node_group *g = LUO_NEW(f->arena, luo_node_group);
    f->profile = (luo_profile){.name = "H20", .memory_bytes = 96e9};
    *g = (luo_node_group){.name = "h20",
                          .site = "main",
                          .nodes = 2,
                          .devices_per_node = 2,
                          .nracks = 1,
                          .racks = racks,
                          .profile = &f->profile,
                          .base_slowdown = 1,
                          .scale_up = LUO_SCALE_UP_NVSWITCH,
                          .scale_up_bytes_per_s = 4e11,
                          .nics = 2,
                          .nic_bytes_per_s = 5e10,
                          .host_cores = 1};
    f->cluster =
        (luo_cluster){.name = "four", .ngroups = 1, .groups = g, .fabric = LUO_FABRIC_SINGLE};
    luo_err err = {0};
    if (luo_cluster_finish(f->arena, &f->cluster, &err) != LUO_OK) {
        fprintf(stderr, "fixture: %s\n", err.text);
        abort();
    }
}

static inline void fix_plan(fixture *f)
{
    static const int32_t dev[] = {0, 1, 2, 3};
    static const luo_range layers[] = {{0, 1}, {1, 2}};
    luo_stage *s = LUO_NEW_N(f->arena, luo_stage, 2);
    luo_pipeline *p = LUO_NEW(f->arena, luo_pipeline);
    for (int i = 0; i < 2; i++)
        s[i] = (luo_stage){.nlayers = 1,
                           .layers = &layers[i],
                           .ndev = 2,
                           .dev = dev + 2 * i,
                           .context_parallel = 1,
                           .embedding = i == 0,
                           .head = i == 1};
    *p = (luo_pipeline){.micro_batches = 2, .micro_batch_sequences = 1, .nstages = 2, .stages = s};
    f->plan = (luo_plan){.name = "fix",
                         .model = "m",
                         .cluster = "four",
                         .layers = 2,
                         .devices = 4,
                         .sequence_tokens = 8,
                         .micro_batch_sequences = 1,
                         .schedule = LUO_SCHED_1F1B,
                         .chunks = 1,
                         .npipelines = 1,
                         .pipelines = p};
}

/* Instructions of a stage: F = compute, all_reduce, send or recv; B = recv or send, compute; post.
 */
static inline void fix_role(fixture *f, luo_role *r, int stage)
{
    static const int32_t bufs[] = {0, 1};
    static const luo_segment seg[] = {
        {LUO_PHASE_F, 0, 8, 0, 3}, {LUO_PHASE_B, 0, 8, 3, 2}, {LUO_PHASE_POST, 0, 0, 5, 1}};
    luo_buffer *b = LUO_NEW_N(f->arena, luo_buffer, 2);
    luo_instr *in = LUO_NEW_N(f->arena, luo_instr, 6);
    b[0] = (luo_buffer){
        .tensor = "w", .elem_bytes = 4, .bytes = 1000, .buffer_class = LUO_BUFFER_WEIGHT};
    b[1] = (luo_buffer){
        .tensor = "x", .elem_bytes = 4, .bytes = 100, .buffer_class = LUO_BUFFER_STASH};
    for (int i = 0; i < 6; i++)
        in[i] = (luo_instr){.id = i, .exchange = -1, .layer = stage, .slot = -1};
    const int p2p_f = stage == 0 ? 2 : 0, p2p_b = stage == 0 ? 3 : 4;
    const int comp_f = stage == 0 ? 0 : 1, ar = stage == 0 ? 1 : 2, comp_b = stage == 0 ? 4 : 3;
    in[comp_f].op = 0;
    in[comp_f].phase = LUO_PHASE_F;
    in[comp_f].flops = 4096;
    in[comp_f].nout = 1;
    in[comp_f].out = bufs + 1;
    in[ar].kind = LUO_INSTR_COLLECTIVE;
    in[ar].stream = LUO_STREAM_TP;
    in[ar].phase = LUO_PHASE_F;
    in[ar].op = 1;
    in[ar].slot = 0;
    in[ar].bytes = 512;
    in[comp_b].op = 4;
    in[comp_b].phase = LUO_PHASE_B;
    in[comp_b].recompute = stage == 1;
    in[5].op = 5;
    in[5].layer = -1;
    in[5].phase = LUO_PHASE_POST;
    for (int k = 0; k < 2; k++) {
        luo_instr *x = &in[k ? p2p_b : p2p_f];
        x->kind = LUO_INSTR_P2P;
        x->stream = LUO_STREAM_PP;
        x->phase = k ? LUO_PHASE_B : LUO_PHASE_F;
        x->op = 2 + k;
        x->exchange = k;
        x->slot = 1 + k;
        x->bytes = (stage == 0) == (k == 0) ? 256 : 0;
    }
    *r = (luo_role){
        .ninstr = 6, .nseg = 3, .nbuf = 2, .nslot = 3, .instr = in, .seg = seg, .buf = b};
}

static inline void fix_programs(fixture *f)
{
    static const luo_run_task tasks[] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, -1}};
    static const int32_t group[2][2] = {{0, 1}, {2, 3}};
    static const luo_op_info ops[] = {
        {"layers.0.mm", LUO_OP_MATMUL, 0},   {"layers.0.ar", LUO_OP_RESHARD, 0},
        {"act.0", LUO_OP_RESHARD, -1},       {"d.act.0", LUO_OP_RESHARD, -1},
        {"d.layers.0.mm", LUO_OP_MATMUL, 0}, {"adam", LUO_OP_UPDATE, -1}};
    luo_role *roles = LUO_NEW_N(f->arena, luo_role, 2);
    luo_program *p = LUO_NEW_N(f->arena, luo_program, FIX_DEVICES);
    luo_group *g = LUO_NEW_N(f->arena, luo_group, 2);
    luo_exchange *x = LUO_NEW_N(f->arena, luo_exchange, 2);
    for (int s = 0; s < 2; s++) {
        fix_role(f, &roles[s], s);
        g[s] = (luo_group){2, group[s], LUO_STREAM_TP};
    }
    for (int d = 0; d < FIX_DEVICES; d++) {
        const int s = d / 2;
        luo_slot *slot = LUO_NEW_N(f->arena, luo_slot, 3);
        luo_message *m = LUO_NEW_N(f->arena, luo_message, 2);
        slot[0] = (luo_slot){.group = s};
        for (int k = 0; k < 2; k++) {
            m[k] = (luo_message){(d + 2) % 4, (s == 0) == (k == 0), 64, 256};
            slot[1 + k] = (luo_slot){.group = -1, .nmessage = 1, .message = &m[k]};
        }
        p[d] = (luo_program){.device = d,
                             .pipeline = 0,
                             .stage = s,
                             .role = s,
                             .ntask = 5,
                             .tasks = tasks,
                             .slots = slot};
    }
    f->set = (luo_programs){.n = 4,
                            .at = p,
                            .nroles = 2,
                            .ngroups = 2,
                            .nops = 6,
                            .nexchanges = 2,
                            .roles = roles,
                            .groups = g,
                            .ops = ops,
                            .exchanges = x,
                            .npipelines = 1,
                            .schedule = LUO_SCHED_1F1B,
                            .hash = 0x1234};
}

/* Every instruction takes 10 ms, but stage 0 waits 30 ms longer for its first gradient; stage 1
 * starts 20 ms later, its forward receives are posted at the start of the step. */
static inline void fix_records(fixture *f)
{
    int n = 0;
    for (int d = 0; d < FIX_DEVICES; d++) {
        const luo_program *p = &f->set.at[d];
        double t = d / 2 ? 0.02 : 0;
        for (int k = 0; k < p->ntask; k++) {
            const luo_segment *seg = &f->set.roles[p->role].seg[p->tasks[k].seg];
            for (int i = seg->first; i < seg->first + seg->n; i++) {
                const bool posted = d / 2 && i == 0;
                const double dur = d < 2 && k == 2 && i == 3 ? 0.04 : 0.01;
                f->records[n++] = (luo_op_record){d, k, i, posted ? 0 : t, t + dur, LUO_OK};
                t += dur;
            }
        }
    }
}

static inline fixture *fix_new(void)
{
    luo_arena *arena = luo_arena_new(0);
    fixture *f = LUO_NEW(arena, fixture);
    f->arena = arena;
    fix_cluster(f);
    fix_plan(f);
    fix_programs(f);
    fix_records(f);
    f->links = LUO_NEW_N(arena, luo_link_use, f->cluster.nlinks);
    for (int32_t i = 0; i < f->cluster.nlinks; i++)
        if (f->cluster.links[i].kind == LUO_LINK_NIC)
            f->links[i] = (luo_link_use){1e9, 5e8, 0.02, 0.01};
    f->windows = (luo_link_windows){
        .nlinks = f->cluster.nlinks,
        .window_s = 1,
        .up = LUO_NEW_N(arena, double, (int64_t)f->cluster.nlinks * LUO_LINK_WINDOWS),
        .down = LUO_NEW_N(arena, double, (int64_t)f->cluster.nlinks * LUO_LINK_WINDOWS)};
    for (int32_t i = 0; i < f->cluster.nlinks; i++) {
        f->windows.up[(int64_t)i * LUO_LINK_WINDOWS] = f->links[i].bytes_up;
        f->windows.down[(int64_t)i * LUO_LINK_WINDOWS] = f->links[i].bytes_down;
    }
    f->scenario = (luo_scenario){
        .name = "fixture", .seed = 7, .cluster = &f->cluster, .truth = true, .hash = 0xabcd};
    return f;
}

static inline luo_step_result fix_result(const fixture *f)
{
    return (luo_step_result){.start_s = 0,
                             .end_s = 0.15,
                             .n = FIX_DEVICES,
                             .nrecords = FIX_STEP_RECORDS,
                             .records = f->records,
                             .nlinks = f->cluster.nlinks,
                             .links = f->links};
}

/* A folder of its own below the build folder; removed before use. */
static inline const char *fix_dir(luo_arena *arena, const char *name)
{
    const char *base = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
    char *dir = luo_arena_printf(arena, "%s/luo-test-%s-%d", base, name, (int)getpid());
    char *cmd = luo_arena_printf(arena, "rm -rf '%s'", dir);
    if (system(cmd) != 0) abort();
    return dir;
}

static inline void fix_remove(luo_arena *arena, const char *dir)
{
    char *cmd = luo_arena_printf(arena, "rm -rf '%s'", dir);
    if (system(cmd) != 0) abort();
}

static inline luo_rundir_opts fix_opts(const fixture *f)
{
    static const luo_fact facts[] = {{"git_commit", "abc"}, {"wall_start", "2026-01-01T00:00:00Z"}};
    static const luo_fact libraries[] = {{"zlib", "1.2.13"}};
    static const char *const argv[] = {"luoshu", "sim", "x.yaml"};
    return (luo_rundir_opts){.scenario = &f->scenario,
                             .policy = "static",
                             .backend = "sim",
                             .version = "0.1",
                             .nfacts = 2,
                             .facts = facts,
                             .nlibraries = 1,
                             .libraries = libraries,
                             .argc = 3,
                             .argv = argv};
}

/* One step of 0.15 s from t on with its rows. */
static inline luo_status fix_step(const luo_sink *k, const fixture *f, int64_t step, double t,
                                  bool traced, luo_err *err)
{
    const luo_row_step s = {
        .step = step,
        .sequences = 2,
        .tokens = 16,
        .devices_used = 4,
        .devices_up = 4,
        .slowest_device = -1,
        .start_s = t,
        .end_s = t + 0.15,
        .tokens_per_s = 16 / 0.15,
        .max_slowdown = 1,
        .parts = {.compute_s = 0.05, .tp_s = 0.02, .pp_s = 0.04, .bubble_s = 0.04}};
    const luo_row_timeline line = {.start_s = t,
                                   .end_s = t + 0.15,
                                   .kind = LUO_SPAN_STEP,
                                   .blocking = true,
                                   .step = step,
                                   .event = ""};
    const luo_step_result result = fix_result(f);
    LUO_TRY(k->step(k->ctx, &s, err));
    LUO_TRY(k->timeline(k->ctx, &line, err));
    if (traced) LUO_TRY(k->ops(k->ctx, step, 0, t, 0, &f->set, &result, err));
    return k->boundary(k->ctx, step + 1, 100, t + 0.15, 0, err);
}
#endif
