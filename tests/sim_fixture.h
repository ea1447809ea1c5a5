/* sim_fixture.h: hand-made programs on a hand-made cluster, for tests of the simulator.
 *
 * Numbers are such that seconds are exact: a kernel of s seconds streams s * 1e12 bytes at 1e12
 * bytes/s, nothing costs a launch, every curve is flat at the bandwidth of the ports, networks
 * reach their full bandwidth at any size. Roles are filled instruction by instruction; devices are
 * added in ascending order, each with its tasks, groups and peers. */
#ifndef LUO_TESTS_SIM_FIXTURE_H
#define LUO_TESTS_SIM_FIXTURE_H
#include <math.h>
#include <string.h>

#include "core/run/parts.h"
#include "sim/sim.h"
#ifndef RIG_ASSERT /* benchmarks run without Check */
#include "tests/check_main.h"
#define RIG_ASSERT ck_assert_msg
#endif

#define RIG_STREAM_BYTES_PER_S 1e12

typedef struct rig_shape { /* 0: what the comment says */
    int32_t nodes, devices_per_node; /* 1 */
    double port_bytes_per_s;         /* 100e9; of the curves too */
    double port_latency_s;           /* 0: of a trip through the switch of a node */
    int32_t nics;                    /* one per device */
    double nic_bytes_per_s;          /* 10e9 */
    double nic_latency_s;            /* 0: of a trip between nodes */
    double uplink_bytes_per_s;       /* no racks; else two_tier, one rack per node but as `rack` */
    const int32_t *rack;             /* per node; NULL: 0, 1, .. */
    double busbw_bytes_per_s;        /* of the ports */
    double net_half_bytes, p2p_s;    /* 0 */
    double nvlink_loss, net_loss;    /* 0: of computation beside calls */
    bool rings;                      /* between nodes: nothing for small messages, no trees */
    double cores;                    /* GPUs; else CPU ranks that share so many cores a node */
} rig_shape;

typedef struct rig {
    luo_arena *arena;
    luo_profile profile;
    luo_stack stack;
    luo_cluster cluster;
    luo_world *world;
    luo_backend_config config; /* flow, folded, one stream per kind, no noise */
    luo_programs set;
    luo_backend_state *state; /* NULL: not open */
    luo_err err;
    int64_t step;
    luo_step_part part; /* of the next step */
    bool trace;
} rig;

/* Adds one element, all zero, to *array of *n and returns it; room doubles at powers of two. */
static inline void *rig_more(rig *r, void *array, int32_t *n, size_t bytes)
{
    char *at;
    const size_t old = (size_t)*n * bytes;
    memcpy(&at, array, sizeof at);
    if ((*n & (*n - 1)) == 0) at = luo_arena_grow(r->arena, at, old, *n ? 2 * old : bytes);
    memcpy(array, &at, sizeof at);
    memset(at + old, 0, bytes);
    ++*n;
    return at + old;
}

/* ---- cluster ---- */

static inline void rig_check(const rig *r, luo_status st)
{
    RIG_ASSERT(st == LUO_OK, "%s: %s", luo_status_name(st), r->err.text);
}

static inline double rig_or(double value, double otherwise)
{
    return value != 0 ? value : otherwise;
}

static inline void rig_profile(rig *r, const rig_shape *s)
{
    const struct {
        const char *name;
        double value;
    } from[] = {{"peak_bf16_tflop_per_s", 100},
                {"memory_gbytes_per_s", RIG_STREAM_BYTES_PER_S / 1e9},
                {"memory_gib", 80}, {"sm_count", 100}, {"launch_us", 0}, {"memory_ratio", 1},
                {"gemm_ratio", 1}, {"gemm_depth", 0}, {"net_ratio", 1},
                {"net_half_bytes", s->net_half_bytes}, {"p2p_us", 1e6 * s->p2p_s},
                {"overlap_loss_nvlink_ratio", s->nvlink_loss},
                {"overlap_loss_net_ratio", s->net_loss},
                {"net_step_us", s->rings ? 1e9 : 2.7}};
    enum { RIG_VALUES = sizeof from / sizeof *from };
    luo_value *v = LUO_NEW_N(r->arena, luo_value, RIG_VALUES);
    luo_curve *c = LUO_NEW(r->arena, luo_curve);
    luo_curve_point *p = LUO_NEW(r->arena, luo_curve_point);
    for (int i = 0; i < RIG_VALUES; i++)
        v[i] = (luo_value){.name = from[i].name, .source = "invented for this test",
                           .value = from[i].value, .provenance = LUO_FROM_CHOSEN};
    *p = (luo_curve_point){1, rig_or(s->busbw_bytes_per_s, rig_or(s->port_bytes_per_s, 100e9))};
    *c = (luo_curve){LUO_COLL_AR, 2, 1, p}; /* the nearest table of every other op and size */
    r->profile = (luo_profile){.name = "exact", .cpu = s->cores > 0, .nvalues = RIG_VALUES,
                               .values = v,
                               .ncurves = 1, .curves = c};
    rig_check(r, luo_profile_finish(&r->profile, &r->err));
}

static inline void rig_cluster(rig *r, const rig_shape *s)
{
    const int32_t nodes = s->nodes ? s->nodes : 1;
    const int32_t devices = s->devices_per_node ? s->devices_per_node : 1;
    luo_node_group *g = LUO_NEW(r->arena, luo_node_group);
    const char **racks = LUO_NEW_N(r->arena, const char *, nodes);
    for (int32_t i = 0; i < nodes; i++)
        racks[i] = luo_arena_printf(r->arena, "r%d", s->rack ? s->rack[i] : i);
    *g = (luo_node_group){
        .name = "n", .site = "main", .nodes = nodes, .devices_per_node = devices,
        .nracks = s->uplink_bytes_per_s > 0 ? nodes : 1, .racks = racks, .profile = &r->profile,
        .base_slowdown = 1, .scale_up = LUO_SCALE_UP_NVSWITCH,
        .scale_up_bytes_per_s = rig_or(s->port_bytes_per_s, 100e9),
        .scale_up_latency_s = s->port_latency_s, .nics = s->nics ? s->nics : devices,
        .nic_bytes_per_s = rig_or(s->nic_bytes_per_s, 10e9), .nic_latency_s = s->nic_latency_s,
        .nic_shared = s->nics && s->nics < devices, .host_cores = rig_or(s->cores, 1)};
    r->cluster = (luo_cluster){.name = "rig", .ngroups = 1, .groups = g,
                               .fabric = s->uplink_bytes_per_s > 0 ? LUO_FABRIC_TWO_TIER
                                                                   : LUO_FABRIC_SINGLE,
                               .rack_uplink_bytes_per_s = s->uplink_bytes_per_s};
    rig_check(r, luo_cluster_finish(r->arena, &r->cluster, &r->err));
    rig_check(r, luo_world_new(r->arena, &r->cluster, &r->world, &r->err));
}

static inline rig *rig_new(const rig_shape *s)
{
    luo_arena *arena = luo_arena_new(0);
    rig *r = LUO_NEW(arena, rig);
    r->arena = arena;
    luo_stack_default(&r->stack);
    r->stack.host_launch_s = r->stack.scale_jitter = 0;
    rig_profile(r, s);
    rig_cluster(r, s);
    r->config = (luo_backend_config){.cluster = &r->cluster, .stack = &r->stack,
                                     .dtype = LUO_BF16, .comm = LUO_COMM_FLOW, .fold = true};
    r->set.npipelines = 1;
    r->set.hash = 1;
    return r;
}

/* ---- roles ---- */

static inline int32_t rig_role(rig *r)
{
    rig_more(r, &r->set.roles, &r->set.nroles, sizeof(luo_role));
    return r->set.nroles - 1;
}

/* Instructions added to the role from now on are in this segment. */
static inline int32_t rig_segment(rig *r, int32_t role, luo_phase phase, int32_t chunk)
{
    luo_role *to = (luo_role *)&r->set.roles[role];
    luo_segment *s = rig_more(r, &to->seg, &to->nseg, sizeof *s);
    *s = (luo_segment){.phase = (int32_t)phase, .chunk = chunk, .first = to->ninstr};
    return to->nseg - 1;
}

/* Adds an instruction with an op of its own and, if it communicates, the next slot. Without a
 * segment it goes into one of phase post. */
static inline int32_t rig_add(rig *r, int32_t role, luo_instr in)
{
    luo_role *to = (luo_role *)&r->set.roles[role];
    if (to->nseg == 0) rig_segment(r, role, LUO_PHASE_POST, 0);
    luo_segment *seg = (luo_segment *)&to->seg[to->nseg - 1];
    const bool talks = in.kind == LUO_INSTR_COLLECTIVE || in.kind == LUO_INSTR_P2P;
    luo_op_info *op = rig_more(r, &r->set.ops, &r->set.nops, sizeof *op);
    luo_instr *at = rig_more(r, &to->instr, &to->ninstr, sizeof *at);
    *at = in;
    at->id = to->ninstr - 1;
    at->op = r->set.nops - 1;
    at->phase = (uint8_t)seg->phase;
    at->layer = -1;
    at->slot = talks ? to->nslot++ : -1;
    if (!talks) at->exchange = -1;
    if (at->exchange >= r->set.nexchanges) r->set.nexchanges = at->exchange + 1;
    *op = (luo_op_info){luo_arena_printf(r->arena, "op%d", at->op),
                        talks ? LUO_OP_RESHARD : LUO_OP_MATMUL, -1};
    seg->n++;
    return at->id;
}

static inline int32_t rig_work(rig *r, int32_t role, double seconds)
{
    return rig_add(r, role,
                   (luo_instr){.kind = LUO_INSTR_COMPUTE, .stream = LUO_STREAM_COMPUTE,
                               .cost = {LUO_COST_STREAM,
                                        {llround(seconds * RIG_STREAM_BYTES_PER_S)}}});
}

/* exchange: equal on all devices that take part, and no other instruction's. */
static inline int32_t rig_collective(rig *r, int32_t role, luo_stream stream, luo_coll coll,
                                     int64_t bytes, int32_t exchange)
{
    return rig_add(r, role,
                   (luo_instr){.kind = LUO_INSTR_COLLECTIVE, .stream = (uint8_t)stream,
                               .coll = (uint8_t)coll, .bytes = bytes, .exchange = exchange});
}

/* bytes: sent by this device; 0: it only receives. */
static inline int32_t rig_p2p(rig *r, int32_t role, luo_stream stream, int64_t bytes,
                              int32_t exchange)
{
    return rig_add(r, role, (luo_instr){.kind = LUO_INSTR_P2P, .stream = (uint8_t)stream,
                                        .bytes = bytes, .exchange = exchange});
}

/* Instruction `id` waits for `on`. */
static inline void rig_after(rig *r, int32_t role, int32_t id, int32_t on)
{
    luo_instr *in = (luo_instr *)&r->set.roles[role].instr[id];
    *(int32_t *)rig_more(r, &in->dep, &in->ndep, sizeof on) = on;
}

/* ---- devices ---- */

/* Pre: the role is complete; devices come in ascending order. */
static inline void rig_device(rig *r, int32_t device, int32_t role, int32_t pipeline, int32_t stage)
{
    luo_program *p = rig_more(r, &r->set.at, &r->set.n, sizeof *p);
    const int32_t nslot = r->set.roles[role].nslot;
    luo_slot *slots = LUO_NEW_N(r->arena, luo_slot, nslot);
    for (int32_t i = 0; i < nslot; i++) slots[i].group = -1;
    *p = (luo_program){.device = device, .pipeline = pipeline, .stage = stage, .role = role,
                       .slots = slots};
    if (pipeline >= r->set.npipelines) r->set.npipelines = pipeline + 1;
}

static inline luo_program *rig_program(const rig *r, int32_t device)
{
    return (luo_program *)luo_programs_find(&r->set, device);
}

static inline void rig_task(rig *r, int32_t device, int32_t seg, int32_t micro_batch)
{
    luo_program *p = rig_program(r, device);
    luo_run_task *t = rig_more(r, &p->tasks, &p->ntask, sizeof *t);
    *t = (luo_run_task){seg, micro_batch};
}

static inline int32_t rig_group(rig *r, luo_stream stream, int32_t n, const int32_t *dev)
{
    luo_group *g = rig_more(r, &r->set.groups, &r->set.ngroups, sizeof *g);
    int32_t *copy = LUO_NEW_N(r->arena, int32_t, n);
    memcpy(copy, dev, (size_t)n * sizeof *copy);
    *g = (luo_group){n, copy, (int32_t)stream};
    return r->set.ngroups - 1;
}

static inline luo_slot *rig_slot(const rig *r, int32_t device, int32_t id)
{
    const luo_program *p = rig_program(r, device);
    return (luo_slot *)&p->slots[r->set.roles[p->role].instr[id].slot];
}

/* The device runs collective `id` of its role with this group. */
static inline void rig_join(rig *r, int32_t device, int32_t id, int32_t group)
{
    rig_slot(r, device, id)->group = group;
}

/* P2P `id` of the device's role has this message: sends before receives, each by peer. */
static inline void rig_message(rig *r, int32_t device, int32_t id, int32_t peer, bool send,
                               int64_t bytes)
{
    luo_slot *s = rig_slot(r, device, id);
    luo_message *m = rig_more(r, &s->message, &s->nmessage, sizeof *m);
    *m = (luo_message){peer, send, bytes, bytes};
}

/* ---- running ---- */

/* A set without a forward segment is no training, and then nothing is folded: there is one. */
static inline void rig_open(rig *r)
{
    rig_segment(r, rig_role(r), LUO_PHASE_F, 0);
    rig_check(r, luo_sim_backend.open(&r->config, &r->state, &r->err));
}

static inline luo_status rig_try(rig *r, const luo_change *changes, int32_t n, luo_step_result *out)
{
    const luo_step_request request = {.programs = &r->set,
                                      .world = r->world,
                                      .changes = changes,
                                      .nchanges = n,
                                      .step = r->step++,
                                      .part = r->part,
                                      .trace = r->trace};
    if (!r->state) rig_open(r);
    return luo_sim_backend.run_ranks(r->state, &request, out, &r->err);
}

/* Parts sum to the step on every device (docs/results.md). */
static inline void rig_check_parts(const luo_step_result *s)
{
    const double step = s->end_s - s->start_s;
    for (int32_t i = 0; i < s->n; i++)
        RIG_ASSERT(fabs(luo_parts_total(&s->parts[i]) - step) <= 1e-9 * step,
                      "device %d: parts sum to %.17g, the step is %.17g", i,
                      luo_parts_total(&s->parts[i]), step);
}

/* One step of programs that can finish; changes are dated from the start of the step. */
static inline luo_step_result rig_step_with(rig *r, const luo_change *changes, int32_t n)
{
    luo_step_result s;
    if (!r->state) {
        rig_check(r, luo_program_check(r->arena, &r->set, &r->err));
        rig_open(r);
    }
    luo_change *dated = LUO_NEW_N(r->arena, luo_change, n);
    for (int32_t i = 0; i < n; i++) {
        dated[i] = changes[i];
        dated[i].at_s += luo_sim_backend.now(r->state);
    }
    rig_check(r, rig_try(r, dated, n, &s));
    rig_check_parts(&s);
    return s;
}

static inline luo_step_result rig_step(rig *r)
{
    const luo_step_result s = rig_step_with(r, NULL, 0);
    RIG_ASSERT(s.status == LUO_OK, "%s: %s", luo_status_name(s.status), s.text);
    return s;
}

static inline double rig_seconds(const luo_step_result *s)
{
    return s->end_s - s->start_s;
}

static inline void rig_free(rig *r)
{
    if (r->state) luo_sim_backend.close(r->state);
    luo_arena_free(r->arena);
}

/* The result of one step, and no more. */
static inline double rig_run(rig *r)
{
    const luo_step_result s = rig_step(r);
    const double seconds = rig_seconds(&s);
    rig_free(r);
    return seconds;
}

static inline void rig_near(double got, double want, double tolerance, const char *what)
{
    RIG_ASSERT(fabs(got - want) <= tolerance * fabs(want), "%s: %.12g s, expected %.12g s", what,
                  got, want);
}
#endif
