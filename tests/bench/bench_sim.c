/* bench_sim.c: the simulator on compiled plans (docs/speed.md) and on the workloads W1 to W3 of
 * docs/speed.md#workloads, whose collectives are rings and whose closed forms must be met to 1e-5.
 * Each case is a process of its own and prints `name value unit`: seconds of the whole case
 * (opening, preparing, one step), of a further step that is simulated again, of one that is known
 * (us), and its memory. */
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#define RIG_ASSERT(ok, ...)                \
    do {                                   \
        if (!(ok)) luo_bench_fail(__VA_ARGS__); \
    } while (0)
#include "core/io/read/read.h"
#include "core/plan/compile.h"
#include "core/plan/grid.h"
#include "tests/sim_fixture.h"

#define GIB 1073741824.0
#define MIB 1048576
enum { RUNS = 5, KNOWN = 1000 };

/* ---- measuring ---- */

static void run_once(const luo_backend_config *config, const luo_programs *set, const char *name,
                     double want_s)
{
    luo_arena *arena = luo_arena_new(0);
    luo_backend_state *state = NULL;
    luo_world *world = NULL;
    luo_err err = {0};
    luo_step_result s;
    double again[RUNS];
    const int runs = config->cluster->ndevices > 10000 ? 1 : RUNS;
    const double start = luo_bench_now();
    RIG_ASSERT(luo_world_new(arena, config->cluster, &world, &err) == LUO_OK, "%s", err.text);
    luo_step_request q = {.programs = set, .world = world};
    RIG_ASSERT(luo_sim_backend.open(config, &state, &err) == LUO_OK, "%s: %s", name, err.text);
    RIG_ASSERT(luo_sim_backend.run_ranks(state, &q, &s, &err) == LUO_OK, "%s: %s", name, err.text);
    RIG_ASSERT(s.status == LUO_OK, "%s: %s", name, s.text);
    const double first = luo_bench_now() - start, step = s.end_s - s.start_s;
    RIG_ASSERT(want_s <= 0 || fabs(step / want_s - 1) <= 1e-5,
               "%s: %.9g s; the closed form is %.9g", name, step, want_s);
    for (int i = 0; i < runs; i++) {
        world->slowdown[0] = 1 + 1e-9 * (i + 1); /* another world, so it is simulated */
        const double from = luo_bench_now();
        q.step++;
        luo_sim_backend.run_ranks(state, &q, &s, &err);
        again[i] = luo_bench_now() - from;
        RIG_ASSERT(s.status == LUO_OK && !s.reused, "%s: %s", name, s.text);
    }
    const double from = luo_bench_now();
    for (int i = 0; i < KNOWN; i++) {
        q.step++;
        luo_sim_backend.run_ranks(state, &q, &s, &err);
        RIG_ASSERT(s.reused, "%s: simulated again", name);
    }
    const double known = (luo_bench_now() - from) / KNOWN;
    luo_sim_backend.close(state);
    printf("sim_%s_whole %.4f s\n", name, first);
    printf("sim_%s_step %.4f s\n", name, luo_bench_median(again, runs));
    printf("sim_%s_known %.2f us\n", name, 1e6 * known);
    printf("sim_%s_simulated %.9f s\n", name, step);
    luo_arena_free(arena);
}

static void print_memory(const char *name)
{
    struct rusage self, worker;
    getrusage(RUSAGE_SELF, &self);
    getrusage(RUSAGE_CHILDREN, &worker);
    printf("sim_%s_peak %.0f MiB\n", name, (double)(self.ru_maxrss + worker.ru_maxrss) / 1024);
    fflush(stdout);
}

/* ---- compiled plans ---- */

typedef struct plan_case {
    const char *name, *cluster, *model;
    int32_t pipelines, stages, tp, micro_batches, zero;
} plan_case;
static const plan_case plan_cases[] = {
    {"8", "a100-64", "llama-7b", 2, 2, 2, 8, 1},
    {"1024", "h100-1024", "llama-70b", 16, 8, 8, 64, 1},
    {"16384", "h100-16384", "llama-70b", 128, 16, 8, 64, 1},
    {"16384_zero3", "h100-16384", "llama-70b", 16384, 1, 1, 1, 3},
};

static void plan_case_run(const plan_case *p)
{
    luo_arena *a = luo_arena_new(1 << 20);
    luo_diags diags;
    luo_cluster *c = NULL;
    luo_model *m = NULL;
    luo_plan *plan = NULL;
    luo_programs *set = NULL;
    luo_stack stack;
    luo_err err = {0};
    luo_diags_init(&diags, a);
    luo_stack_default(&stack);
    luo_read_cluster(a, luo_arena_printf(a, "scenarios/clusters/%s.yaml", p->cluster), &c, &diags);
    luo_read_model(a, luo_arena_printf(a, "scenarios/models/%s.yaml", p->model), &m, &diags);
    RIG_ASSERT(c && m, "bench_sim: run from the root of the repository");
    const int32_t n = p->pipelines * p->stages * p->tp;
    int32_t *dev = LUO_NEW_N(a, int32_t, n);
    for (int32_t i = 0; i < n; i++) dev[i] = i;
    const luo_grid g = {.name = p->name, .model = m, .cluster = c, .dtype = LUO_BF16,
                        .sequence_tokens = 4096, .micro_batches = p->micro_batches,
                        .micro_batch_sequences = 1, .zero = p->zero, .pipelines = p->pipelines,
                        .stages = p->stages, .tp = p->tp, .sequence_parallel = true, .dev = dev};
    const luo_compile_opts opts = {0};
    const double start = luo_bench_now();
    RIG_ASSERT(luo_plan_grid(a, &g, &plan, &err) == LUO_OK &&
                   luo_plan_compile(a, plan, m, c, &opts, &set, &err) == LUO_OK,
               "%s: %s", p->name, err.text);
    printf("sim_%s_compile %.4f s\n", p->name, luo_bench_now() - start);
    const luo_backend_config config = {.cluster = c, .stack = &stack, .dtype = LUO_BF16,
                                       .comm = LUO_COMM_FLOW, .fold = true};
    run_once(&config, set, p->name, 0);
    luo_arena_free(a);
}

/* ---- W1: one ring all-reduce of 1 GiB ---- */

static void all_in_group(rig *r, int32_t id, int32_t n, int32_t first, int32_t stride, int32_t len)
{
    int32_t *dev = LUO_NEW_N(r->arena, int32_t, len);
    for (int32_t i = 0; i < len; i++) dev[i] = first + i * stride;
    const int32_t group = rig_group(r, LUO_STREAM_DP, len, dev);
    for (int32_t i = 0; i < len && dev[i] < n; i++) rig_join(r, dev[i], id, group);
}

static void w1(int32_t n, luo_comm_mode mode, const char *name)
{
    const double bandwidth = 50 * GIB, hop_s = 501e-9, bytes = GIB;
    rig *r = rig_new(&(rig_shape){.nodes = n, .nic_bytes_per_s = bandwidth, .nic_latency_s = hop_s,
                                  .net_half_bytes = hop_s * bandwidth, .rings = true});
    const int32_t role = rig_role(r);
    const int32_t id =
        rig_collective(r, role, LUO_STREAM_DP, LUO_COLL_AR, (int64_t)bytes, 0);
    for (int32_t d = 0; d < n; d++) {
        rig_device(r, d, role, d, 0);
        rig_task(r, d, 0, -1);
    }
    all_in_group(r, id, n, 0, 1, n);
    r->config.comm = mode;
    run_once(&r->config, &r->set, name, 2 * (n - 1) * (bytes / n / bandwidth + hop_s));
    rig_free(r);
}

/* ---- W2 and W3: GPT on D nodes of 8 ---- */

typedef struct gpt {
    int32_t nodes, micro_batches; /* D, M */
    bool flat, fold;              /* flat: W3, every device a node */
    double tp_bytes_per_s, tp_hop_s, dp_bytes_per_s, dp_hop_s;
} gpt;
enum { LAYERS = 32, TP = 8, TP_BYTES = 16 * MIB, DP_BYTES = 48 * MIB };

static double gpt_seconds(const gpt *g)
{
    const int32_t D = g->nodes, M = g->micro_batches;
    const double a = 14 * (TP_BYTES / 8 / g->tp_bytes_per_s + g->tp_hop_s);
    const double d = 2 * (D - 1) * ((double)DP_BYTES / D / g->dp_bytes_per_s + g->dp_hop_s);
    const double forward = LAYERS * (900e-6 + 2 * a), backward = LAYERS * (1800e-6 + 2 * a);
    if (g->flat) return M * (forward + backward) + LAYERS * d + 5000e-6;
    return M * forward + (M - 1) * backward + 1800e-6 + 2 * a +
           (LAYERS - 1) * (d + 600e-6 + 2 * a) + d + 5000e-6;
}

typedef struct chain { /* a role whose work and collectives follow one another */
    rig *r;
    int32_t role, last, exchange;
} chain;

static void chain_add(chain *c, int32_t id)
{
    if (c->last >= 0) rig_after(c->r, c->role, id, c->last);
    c->last = id;
}

static void chain_layer(chain *c, double first_s, double second_s)
{
    const double seconds[] = {first_s, second_s};
    for (int i = 0; i < 2; i++) {
        chain_add(c, rig_work(c->r, c->role, seconds[i]));
        chain_add(c, rig_collective(c->r, c->role, LUO_STREAM_TP, LUO_COLL_AR, TP_BYTES,
                                    c->exchange++));
    }
}

/* Segments: forward, backward, backward of the last micro-batch, end. */
static void gpt_role(rig *r, const gpt *g)
{
    chain c = {r, rig_role(r), -1, 0};
    int32_t sum = -1, ends[2];
    rig_segment(r, c.role, LUO_PHASE_F, 0);
    for (int l = 0; l < LAYERS; l++) chain_layer(&c, 300e-6, 600e-6);
    for (int last = 0; last < 2; last++) {
        const int32_t forward = 4 * LAYERS - 1;
        c.last = forward;
        rig_segment(r, c.role, LUO_PHASE_B, 0);
        for (int l = 0; l < LAYERS; l++) {
            chain_layer(&c, 1200e-6, 600e-6);
            if (!last || g->flat) continue;
            sum = rig_collective(r, c.role, LUO_STREAM_DP, LUO_COLL_AR, DP_BYTES, c.exchange++);
            rig_after(r, c.role, sum, c.last);
        }
        ends[last] = c.last;
    }
    if (g->micro_batches > 1) rig_after(r, c.role, 0, ends[0]);
    rig_segment(r, c.role, LUO_PHASE_POST, 0);
    for (int l = 0; l < LAYERS && g->flat; l++) {
        sum = rig_collective(r, c.role, LUO_STREAM_DP, LUO_COLL_AR, DP_BYTES, c.exchange++);
        rig_after(r, c.role, sum, ends[1]);
    }
    rig_after(r, c.role, rig_work(r, c.role, 5000e-6), sum);
}

static void gpt_devices(rig *r, const gpt *g)
{
    const int32_t n = TP * g->nodes;
    for (int32_t d = 0; d < n; d++) {
        rig_device(r, d, 0, g->flat ? d : 0, 0);
        for (int32_t m = 0; m < g->micro_batches; m++) {
            rig_task(r, d, 0, m);
            rig_task(r, d, m < g->micro_batches - 1 ? 1 : 2, m);
        }
        rig_task(r, d, 3, -1);
    }
    for (int32_t k = 0; k < g->nodes + TP; k++) {
        int32_t dev[16384];
        const bool inner = k < g->nodes;
        const int32_t len = inner ? TP : g->nodes, first = inner ? k * TP : k - g->nodes;
        for (int32_t i = 0; i < len; i++) dev[i] = first + i * (inner ? 1 : TP);
        const int32_t group = rig_group(r, inner ? LUO_STREAM_TP : LUO_STREAM_DP, len, dev);
        for (int32_t j = 0; j < r->set.roles[0].ninstr; j++) {
            const luo_instr *in = &r->set.roles[0].instr[j];
            const bool mine = in->stream == (inner ? LUO_STREAM_TP : LUO_STREAM_DP);
            for (int32_t i = 0; mine && i < len; i++) rig_join(r, dev[i], j, group);
        }
    }
}

static void gpt_run(const gpt *g, const char *name)
{
    const double ring_s = 14 * (TP_BYTES / 8 / g->tp_bytes_per_s + g->tp_hop_s);
    const rig_shape nested = {.nodes = g->nodes, .devices_per_node = TP,
                              .port_bytes_per_s = g->tp_bytes_per_s,
                              .busbw_bytes_per_s = 2.0 * 7 / 8 * TP_BYTES / ring_s,
                              .nic_bytes_per_s = g->dp_bytes_per_s,
                              .net_half_bytes = g->dp_hop_s * TP * g->dp_bytes_per_s,
                              .rings = true};
    const rig_shape flat = {.nodes = TP * g->nodes, .nic_bytes_per_s = g->dp_bytes_per_s,
                            .net_half_bytes = g->dp_hop_s * g->dp_bytes_per_s, .rings = true};
    rig *r = rig_new(g->flat ? &flat : &nested);
    gpt_role(r, g);
    gpt_devices(r, g);
    r->config.one_comm_stream = true;
    r->config.fold = g->fold;
    run_once(&r->config, &r->set, name, gpt_seconds(g));
    rig_free(r);
}

/* ---- cases ---- */

static void run_case(int k)
{
    const gpt w2 = {.fold = true, .tp_bytes_per_s = 300 * GIB, .tp_hop_s = 1000e-9,
                    .dp_bytes_per_s = 25 * GIB, .dp_hop_s = 3000e-9, .micro_batches = 1};
    gpt g = w2;
    switch (k) {
    case 0: case 1: case 2: plan_case_run(&plan_cases[k]); return;
    case 3: w1(1024, LUO_COMM_FLOW, "w1_1024_flow"); return;
    case 4: w1(64, LUO_COMM_MESSAGE, "w1_64_message"); return;
    case 5: g.nodes = 8; gpt_run(&g, "w2_64"); return;
    case 6: g.nodes = 8; g.micro_batches = 4; gpt_run(&g, "w2_64_m4"); return;
    case 7: g.nodes = 128; gpt_run(&g, "w2_1024"); return;
    case 8: g.nodes = 8; g.fold = false; gpt_run(&g, "w2_64_unfolded"); return;
    case 9: g.nodes = 128; g.fold = false; gpt_run(&g, "w2_1024_unfolded"); return;
    case 11: plan_case_run(&plan_cases[3]); return;
    case 12: w1(256, LUO_COMM_MESSAGE, "w1_256_message"); return;
    case 13: w1(1024, LUO_COMM_MESSAGE, "w1_1024_message"); return;
    default: break;
    }
    g = (gpt){.nodes = 8, .micro_batches = 1, .flat = true, .fold = true,
              .tp_bytes_per_s = 50 * GIB, .tp_hop_s = 1000e-9, .dp_bytes_per_s = 50 * GIB,
              .dp_hop_s = 1000e-9};
    gpt_run(&g, "w3_64");
}

enum { CASES = 14 };
static const char *const names[CASES] = {
    "8", "1024", "16384", "w1_1024_flow", "w1_64_message", "w2_64", "w2_64_m4", "w2_1024",
    "w2_64_unfolded", "w2_1024_unfolded", "w3_64", "16384_zero3", "w1_256_message",
    "w1_1024_message"};

/* bench_sim [NAME]: all cases, or one. */
int main(int argc, char **argv)
{
    for (int k = 0; k < CASES; k++) {
        int status = 0;
        if (argc > 1 && strcmp(argv[1], names[k]) != 0) continue;
        fflush(stdout);
        const pid_t pid = fork();
        if (pid == 0) {
            run_case(k);
            print_memory(names[k]);
            _exit(0);
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) return 1;
    }
    return 0;
}
