/* moves_rows.h: what each key of a cluster, a profile and a stack moves. For unit/check_moves.c
 * only. */
#ifndef LUO_TESTS_MOVES_ROWS_H
#define LUO_TESTS_MOVES_ROWS_H

/* ---- clusters; every number is synthetic ---- */

#define NODES(nics, fabric, health)                                                                \
    "schema: luoshu.cluster/1\n"                                                                   \
    "name: c\n"                                                                                    \
    "node_groups:\n"                                                                               \
    "  - name: ga\n"                                                                               \
    "    nodes: 2\n"                                                                               \
    "    devices_per_node: 2\n"                                                                    \
    "    profile: p.yaml\n"                                                                        \
    "    base_slowdown: 1\n"                                                                       \
    "    racks: [r0, r1]\n"                                                                        \
    "    site: east\n"                                                                             \
    "    hosts: [h0, h1]\n"                                                                        \
    "    scale_up: {kind: nvswitch, bandwidth_gbytes_per_s: 100, latency_us: 1}\n"                 \
    "    pcie: {bandwidth_gbytes_per_s: 30, latency_us: 2}\n"                                      \
    "    nics: {count: " nics ", bandwidth_gbytes_per_s: 20, latency_us: 3, attach: slot}\n"       \
    "    host: {cores: 8, memory_gib: 64, disk_read_gbytes_per_s: 2, disk_write_gbytes_per_s: "    \
    "3}\n"                                                                                         \
    "fabric: {" fabric "}\n"                                                                       \
    "storage: {read_gbytes_per_s: 4, write_gbytes_per_s: 5}\n"                                     \
    "standby: \"[]\"\n"                                                                            \
    "health: [" health "]\n"

static const char two_nodes[] =
    NODES("1", "kind: two_tier, hop_latency_us: 0.5, rack_uplink_gbytes_per_s: 10",
          "{target: \"device:1\", state: slow, slowdown: 1.5}");
static const char flat_nodes[] = NODES("2", "kind: single, hop_latency_us: 0.5", "");

static const char many_nodes[] = "schema: luoshu.cluster/1\n"
                                 "name: c\n"
                                 "node_groups:\n"
                                 "  - {name: ga, nodes: 64, devices_per_node: 8, profile: p.yaml,\n"
                                 "     scale_up: {kind: nvswitch, bandwidth_gbytes_per_s: 100},\n"
                                 "     nics: {count: 8, bandwidth_gbytes_per_s: 20}}\n"
                                 "fabric: {kind: single}\n";

static const char pcie_node[] =
    "schema: luoshu.cluster/1\n"
    "name: c\n"
    "node_groups:\n"
    "  - name: ga\n"
    "    nodes: 1\n"
    "    devices_per_node: 4\n"
    "    profile: p.yaml\n"
    "    scale_up: {kind: none}\n"
    "    pcie: {bandwidth_gbytes_per_s: 30, latency_us: 15, devices_per_switch: 1, sockets: 2, "
    "socket_gbytes_per_s: 20}\n";

static const char mesh_node[] =
    "schema: luoshu.cluster/1\n"
    "name: c\n"
    "node_groups:\n"
    "  - name: ga\n"
    "    nodes: 1\n"
    "    devices_per_node: 3\n"
    "    profile: p.yaml\n"
    "    scale_up: {kind: mesh, bandwidth_gbytes_per_s: 20, latency_us: 1}\n"
    "    scale_up_links: [{a: 0, b: 1, lanes: 2}]\n"
    "    pcie: {bandwidth_gbytes_per_s: 5}\n";

static const char two_sites[] =
    "schema: luoshu.cluster/1\n"
    "name: c\n"
    "node_groups:\n"
    "  - {name: ga, nodes: 1, devices_per_node: 2, profile: p.yaml, site: east, racks: [r0],\n"
    "     scale_up: {kind: nvswitch, bandwidth_gbytes_per_s: 100},\n"
    "     nics: {count: 2, bandwidth_gbytes_per_s: 20}}\n"
    "  - {name: gb, nodes: 1, devices_per_node: 2, profile: p.yaml, site: west, racks: [r1],\n"
    "     scale_up: {kind: nvswitch, bandwidth_gbytes_per_s: 100},\n"
    "     nics: {count: 2, bandwidth_gbytes_per_s: 20}}\n"
    "  - {name: gc, nodes: 1, devices_per_node: 1, profile: p.yaml, site: north, racks: [r2],\n"
    "     nics: {count: 2, bandwidth_gbytes_per_s: 20}}\n"
    "fabric:\n"
    "  kind: single\n"
    "  site_links: [{a: east, b: west, bandwidth_gbytes_per_s: 2, latency_us: 100},\n"
    "    {a: west, b: north, bandwidth_gbytes_per_s: 3, latency_us: 200}]\n";

/* ---- models ---- */

static const char llama[] =
    "schema: luoshu.model/1\nname: m\nfamily: llama\nlayers: 4\nhidden: 1024\n"
    "ffn_hidden: 2816\nheads: 8\nkv_heads: 8\nvocab: 4096\n"
    "max_sequence_tokens: 1024\ndtype: bf16\n";
static const char llama_f32[] =
    "schema: luoshu.model/1\nname: m\nfamily: llama\nlayers: 4\nhidden: 1024\n"
    "ffn_hidden: 2816\nheads: 8\nkv_heads: 8\nvocab: 4096\n"
    "max_sequence_tokens: 1024\ndtype: f32\n";
static const char llama_f64[] =
    "schema: luoshu.model/1\nname: m\nfamily: llama\nlayers: 4\nhidden: 1024\n"
    "ffn_hidden: 2816\nheads: 8\nkv_heads: 8\nvocab: 4096\n"
    "max_sequence_tokens: 1024\ndtype: f64\n";
static const char odd_heads[] =
    "schema: luoshu.model/1\nname: m\nfamily: llama\nlayers: 4\nhidden: 800\n"
    "ffn_hidden: 2816\nheads: 8\nkv_heads: 8\nvocab: 4096\n"
    "max_sequence_tokens: 1024\ndtype: bf16\n";
static const char experts[] =
    "schema: luoshu.model/1\nname: m\nfamily: moe\nlayers: 4\nhidden: 1024\n"
    "ffn_hidden: 2816\nheads: 8\nkv_heads: 8\nvocab: 4096\n"
    "max_sequence_tokens: 1024\ndtype: bf16\n"
    "moe: {experts: 4, experts_per_token: 2, expert_ffn_hidden: 1024}\n";

/* ---- scenes ---- */

typedef enum scene_id {
    TWO,        /* tensor groups in nodes, replicas between them */
    TWO_PIPES,  /* stages in nodes, replicas between them */
    TWO_ACROSS, /* the same, but a stage a node */
    TWO_F32,
    TWO_F64,
    TWO_ODD,
    TWO_EXPERTS,
    PCIE,
    PCIE_PIPES,
    MESH,
    SITES,
    SITES_PIPES,
    CPUS,
    FLAT, /* no racks */
    FLAT_ACROSS,
    FLAT_WIDE, /* a tensor group on both nodes */
    ZERO,      /* optimizer state cut among replicas */
    ZERO3,     /* weights as well, gathered for each task */
    UNEVEN,    /* replicas whose stages end at other layers */
    PLANNED,   /* by planner `uniform` */
    TABLES,
    PCIE_TABLES,
    NIC_TABLES, /* the same with measured tables */
    MANY,
    SCENES
} scene_id;

typedef struct scene {
    const char *cluster, *model;
    int32_t tp, stages, pipelines;
    bool cpu;
    int32_t zero;     /* of the plan */
    bool uneven;      /* stages of pipeline 1 end at other layers */
    const char *over; /* value of the profile whose tables were measured so; NULL: none */
    const char *table;
} scene;
static const scene scenes[SCENES] = {
    [TWO] = {two_nodes, llama, 2, 1, 2, false, 0, false, NULL, NULL},
    [TWO_PIPES] = {two_nodes, llama, 1, 2, 2, false, 0, false, NULL, NULL},
    [TWO_ACROSS] = {two_nodes, llama, 2, 2, 1, false, 0, false, NULL, NULL},
    [TWO_F32] = {two_nodes, llama_f32, 2, 1, 2, false, 0, false, NULL, NULL},
    [TWO_F64] = {two_nodes, llama_f64, 2, 1, 2, false, 0, false, NULL, NULL},
    [TWO_ODD] = {two_nodes, odd_heads, 2, 1, 2, false, 0, false, NULL, NULL},
    [TWO_EXPERTS] = {two_nodes, experts, 2, 1, 2, false, 0, false, NULL, NULL},
    [PCIE] = {pcie_node, llama, 4, 1, 1, false, 0, false, NULL, NULL},
    [PCIE_PIPES] = {pcie_node, llama, 1, 4, 1, false, 0, false, NULL, NULL},
    [MESH] = {mesh_node, llama, 2, 1, 1, false, 0, false, NULL, NULL},
    [SITES] = {two_sites, llama, 2, 1, 2, false, 0, false, NULL, NULL},
    [SITES_PIPES] = {two_sites, llama, 2, 2, 1, false, 0, false, NULL, NULL},
    [CPUS] = {two_nodes, llama_f32, 2, 1, 2, true, 0, false, NULL, NULL},
    [FLAT] = {flat_nodes, llama, 2, 1, 2, false, 0, false, NULL, NULL},
    [FLAT_ACROSS] = {flat_nodes, llama, 2, 2, 1, false, 0, false, NULL, NULL},
    [FLAT_WIDE] = {flat_nodes, llama, 4, 1, 1, false, 0, false, NULL, NULL},
    [ZERO] = {two_nodes, llama, 2, 1, 2, false, 1, false, NULL, NULL},
    [ZERO3] = {two_nodes, llama, 2, 1, 2, false, 3, false, NULL, NULL},
    [UNEVEN] = {two_nodes, llama, 1, 2, 2, false, 0, true, NULL, NULL},
    [PLANNED] = {flat_nodes, llama, 0, 0, 0, false, 0, false, NULL, NULL},
    [TABLES] = {two_nodes, llama, 2, 1, 2, false, 0, false, "tables_nvlink_gbytes_per_s",
                "collective_times"},
    [PCIE_TABLES] = {pcie_node, llama, 4, 1, 1, false, 0, false, "tables_pcie_gbytes_per_s",
                     "collective_times"},
    [NIC_TABLES] = {flat_nodes, llama, 2, 2, 1, false, 0, false, "tables_nic_gbytes_per_s",
                    "p2p_times nic"},
    [MANY] = {many_nodes, llama, 1, 1, 512, false, 0, false, NULL, NULL},
};

/* ---- rows ---- */

typedef enum output {
    STEP_S,  /* seconds of the last step */
    WRITING, /* of the whole run, which writes checkpoints to storage; .. */
    TO_DISK,
    TO_PEERS, /* .. to the disks of nodes; to the memory of others */
    READING,
    READING_DISK, /* .. a device fails and policy `restart` reads one */
    MEMORY,       /* bytes that the fullest device needs */
    ROOM,         /* the second does not fit, or is refused with `says` */
    RANGE,        /* standard deviation of ln(step) */
    NAMES,        /* names something or is for reports: moves nothing, tried if `from` is given */
    ELSEWHERE     /* moves what is not a step of a plan: `says` has where that is tested */
} output;

typedef enum direction { MORE, LESS } direction; /* of the output, from the first to the second */

typedef struct move {
    const char *key;
    scene_id scene;
    output of;
    direction way;
    const char *from, *to; /* text in the file and what takes its place */
    const char *says;      /* why, or what is said */
} move;

/* Of a cluster: keys as they stand in each other. */
static const move cluster_moves[] = {
    {"schema", TWO, NAMES, MORE, NULL, NULL, "kind of the file"},
    {"name", TWO, NAMES, MORE, NULL, NULL, "in messages and results"},
    {"node_groups.name", TWO, NAMES, MORE, NULL, NULL, "in messages, results and targets"},
    {"node_groups.nodes", TWO, ROOM, MORE, "nodes: 2\n", "nodes: 1\n", "`hosts` has 2 entries"},
    {"node_groups.devices_per_node", TWO, STEP_S, LESS, "devices_per_node: 2",
     "devices_per_node: 4", "all four devices are on one node then"},
    {"node_groups.profile", TWO, NAMES, MORE, NULL, NULL, "path of a file"},
    {"node_groups.profiles", TWO, NAMES, MORE, NULL, NULL, "paths of files"},
    {"node_groups.base_slowdown", TWO, STEP_S, MORE, "base_slowdown: 1\n", "base_slowdown: 2\n",
     NULL},
    {"node_groups.racks", TWO, STEP_S, LESS, "[r0, r1]", "[r0]", "no uplink is crossed"},
    {"node_groups.site", SITES, ROOM, MORE, "site: west", "site: middle",
     "`site_links` names site"},
    {"node_groups.hosts", TWO, NAMES, MORE, NULL, NULL, "machines of `luoshu run`"},
    {"node_groups.scale_up.kind", TWO, STEP_S, MORE,
     "{kind: nvswitch, bandwidth_gbytes_per_s: 100, latency_us: 1}", "{kind: none}", NULL},
    {"node_groups.scale_up.bandwidth_gbytes_per_s", TWO, STEP_S, LESS,
     "bandwidth_gbytes_per_s: 100", "bandwidth_gbytes_per_s: 110", NULL},
    {"node_groups.scale_up.bandwidth_gbytes_per_s", MESH, STEP_S, LESS,
     "bandwidth_gbytes_per_s: 20", "bandwidth_gbytes_per_s: 22", NULL},
    {"node_groups.scale_up.kind", TABLES, STEP_S, MORE,
     "{kind: nvswitch, bandwidth_gbytes_per_s: 100, latency_us: 1}", "{kind: none}",
     "the table of NVLink is not used"},
    {"node_groups.scale_up.bandwidth_gbytes_per_s", TABLES, STEP_S, LESS,
     "bandwidth_gbytes_per_s: 100", "bandwidth_gbytes_per_s: 110", NULL},
    {"node_groups.pcie.bandwidth_gbytes_per_s", PCIE_TABLES, STEP_S, MORE,
     "bandwidth_gbytes_per_s: 30", "bandwidth_gbytes_per_s: 15", "the narrowest link"},
    {"node_groups.pcie.socket_gbytes_per_s", PCIE_TABLES, STEP_S, LESS, "socket_gbytes_per_s: 20",
     "socket_gbytes_per_s: 22", NULL},
    {"node_groups.nics.bandwidth_gbytes_per_s", NIC_TABLES, STEP_S, LESS,
     "bandwidth_gbytes_per_s: 20", "bandwidth_gbytes_per_s: 22", NULL},
    {"node_groups.scale_up.latency_us", TWO_PIPES, STEP_S, MORE, "latency_us: 1}",
     "latency_us: 40}", "messages take at least `p2p_us`"},
    {"node_groups.scale_up_links.a", MESH, STEP_S, MORE, "a: 0, b: 1", "a: 1, b: 2",
     "devices 0 and 1 go over PCIe"},
    {"node_groups.scale_up_links.b", MESH, STEP_S, MORE, "b: 1", "b: 2",
     "devices 0 and 1 go over PCIe"},
    {"node_groups.scale_up_links.lanes", MESH, STEP_S, LESS, "lanes: 2", "lanes: 3", NULL},
    {"node_groups.pcie.bandwidth_gbytes_per_s", PCIE, STEP_S, MORE, "bandwidth_gbytes_per_s: 30",
     "bandwidth_gbytes_per_s: 15", "the narrowest link"},
    {"node_groups.pcie.latency_us", PCIE_PIPES, STEP_S, MORE, "latency_us: 15", "latency_us: 30",
     NULL},
    {"node_groups.pcie.devices_per_switch", PCIE_PIPES, STEP_S, LESS, "devices_per_switch: 1",
     "devices_per_switch: 4", "no switch and no socket is crossed"},
    {"node_groups.pcie.sockets", PCIE_PIPES, STEP_S, LESS, "sockets: 2", "sockets: 1", NULL},
    {"node_groups.pcie.socket_gbytes_per_s", PCIE, STEP_S, LESS, "socket_gbytes_per_s: 20",
     "socket_gbytes_per_s: 22", NULL},
    {"node_groups.nics.count", FLAT, STEP_S, MORE, "count: 2", "count: 1", NULL},
    {"node_groups.nics.bandwidth_gbytes_per_s", FLAT, STEP_S, LESS, "bandwidth_gbytes_per_s: 20",
     "bandwidth_gbytes_per_s: 22", NULL},
    {"node_groups.nics.latency_us", TWO_ACROSS, STEP_S, MORE, "latency_us: 3", "latency_us: 40",
     "messages take at least `p2p_us`"},
    {"node_groups.nics.attach", FLAT, STEP_S, MORE, "attach: slot", "attach: shared",
     "slots of equal number meet on one card"},
    {"node_groups.host.cores", CPUS, STEP_S, MORE, "cores: 8", "cores: 1", NULL},
    {"node_groups.host.memory_gib", CPUS, ROOM, MORE, "memory_gib: 64", "memory_gib: 0.5",
     "for the ranks of node `ga-0`"},
    {"node_groups.host.memory_gib", TWO, TO_PEERS, MORE, "memory_gib: 64", "memory_gib: 0.5",
     "checkpoints in memory"},
    {"node_groups.host.disk_read_gbytes_per_s", TWO, READING_DISK, LESS,
     "disk_read_gbytes_per_s: 2", "disk_read_gbytes_per_s: 4", NULL},
    {"node_groups.host.disk_write_gbytes_per_s", TWO, TO_DISK, LESS, "disk_write_gbytes_per_s: 3",
     "disk_write_gbytes_per_s: 6", NULL},
    {"fabric.kind", TWO, STEP_S, LESS,
     "{kind: two_tier, hop_latency_us: 0.5, "
     "rack_uplink_gbytes_per_s: 10}",
     "{kind: single, hop_latency_us: 0.5}", "no uplink is crossed"},
    {"fabric.hop_latency_us", TWO_ACROSS, STEP_S, MORE, "hop_latency_us: 0.5", "hop_latency_us: 50",
     "messages take at least `p2p_us`"},
    {"fabric.rack_uplink_gbytes_per_s", TWO, STEP_S, MORE, "rack_uplink_gbytes_per_s: 10",
     "rack_uplink_gbytes_per_s: 5", NULL},
    {"fabric.site_links.a", SITES, ROOM, MORE, "a: east", "a: south", "`site_links` names site"},
    {"fabric.site_links.b", SITES, ROOM, MORE, "b: west,", "b: south,", "`site_links` names site"},
    {"fabric.site_links.bandwidth_gbytes_per_s", SITES, STEP_S, LESS, "bandwidth_gbytes_per_s: 2,",
     "bandwidth_gbytes_per_s: 4,", NULL},
    {"fabric.site_links.latency_us", SITES_PIPES, STEP_S, MORE, "latency_us: 100",
     "latency_us: 200", NULL},
    {"storage.read_gbytes_per_s", TWO, READING, LESS, "read_gbytes_per_s: 4,",
     "read_gbytes_per_s: 8,", NULL},
    {"storage.write_gbytes_per_s", TWO, WRITING, LESS, "write_gbytes_per_s: 5}",
     "write_gbytes_per_s: 10}", NULL},
    {"standby", PLANNED, STEP_S, MORE, "\"[]\"", "\"[2,3]\"", "a planner has fewer devices"},
    {"health.target", TWO, STEP_S, LESS, "target: \"device:1\", state: slow, slowdown: 1.5",
     "target: \"device:1\", state: slow, slowdown: 1", NULL},
    {"health.state", TWO, ROOM, MORE, "state: slow, slowdown: 1.5", "state: down", "down"},
    {"health.slowdown", TWO, STEP_S, MORE, "slowdown: 1.5", "slowdown: 1.8", NULL},
};

/* Of a profile: keys of the file. */
static const move profile_moves[] = {
    {"schema", TWO, NAMES, MORE, NULL, NULL, "kind of the file"},
    {"name", TWO, NAMES, MORE, NULL, NULL, "in messages and results"},
    {"kind", CPUS, STEP_S, LESS, "kind: gpu", "kind: cpu", "no host launches its kernels"},
    {"values.name", TWO, NAMES, MORE, NULL, NULL, "rows below"},
    {"values.value", TWO, NAMES, MORE, NULL, NULL, "rows below"},
    {"values.source", TWO, NAMES, MORE, NULL, NULL, "for reports"},
    {"values.provenance", TWO, NAMES, MORE, NULL, NULL, "for reports"},
    {"values.spread", TWO, NAMES, MORE, NULL, NULL, "tests/unit/check_spread.c"},
    {"tables.kind", TWO, NAMES, MORE, NULL, NULL, "rows below"},
    {"tables.file", TWO, NAMES, MORE, NULL, NULL, "path of a file"},
    {"calibrated.date", TWO, NAMES, MORE, NULL, NULL, "for reports"},
    {"calibrated.device", TWO, NAMES, MORE, NULL, NULL, "for reports"},
    {"calibrated.driver", TWO, NAMES, MORE, NULL, NULL, "for reports"},
    {"calibrated.cuda", TWO, NAMES, MORE, NULL, NULL, "for reports"},
    {"calibrated.nccl", TWO, NAMES, MORE, NULL, NULL, "for reports"},
    {"calibrated.rows", TWO, NAMES, MORE, NULL, NULL, "for reports"},
    {"calibrated.validation_rows", TWO, NAMES, MORE, NULL, NULL, "for reports"},
};

/* Names of values: from and to are numbers. */
typedef struct value_move {
    const char *name;
    scene_id scene;
    output of;
    direction way;
    double from, to;
    const char *table; /* of the profile; NULL: none */
    const char *stack; /* rows of the stack; NULL: none */
    const char *says;  /* why, or what is said */
} value_move;

#define UNFUSED "switches: [{name: attention, value: unfused}]\n"
#define UNITS "switches: [{name: bucket_rule, value: unit}]\n"
#define FP8 "switches: [{name: fp8_recipe, value: current}]\n"
#define TF32 "switches: [{name: precision, value: tf32}]\n"
static const value_move profile_value_moves[] = {
    {"peak_bf16_tflop_per_s", TWO, STEP_S, LESS, 100, 110, NULL, NULL, NULL},
    {"peak_f32_tflop_per_s", TWO_F32, STEP_S, LESS, 20, 22, NULL, NULL, NULL},
    {"peak_f64_tflop_per_s", TWO_F64, STEP_S, LESS, 10, 11, NULL, NULL, NULL},
    {"peak_f16_tflop_per_s", TWO, STEP_S, LESS, 100, 110, NULL, NULL, NULL},
    {"peak_tf32_tflop_per_s", TWO_F32, STEP_S, LESS, 50, 55, NULL, TF32, NULL},
    {"peak_fp8_tflop_per_s", TWO, STEP_S, LESS, 150, 200, NULL, FP8, NULL},
    {"memory_gbytes_per_s", TWO, STEP_S, LESS, 1000, 1100, NULL, NULL, NULL},
    {"memory_gib", TWO, ROOM, MORE, 16, 1.5, NULL, NULL, "GiB on device"},
    {"reserved_gib", TWO, ROOM, MORE, 1, 15.5, NULL, NULL, "GiB on device"},
    {"sm_count", TWO, STEP_S, MORE, 100, 3000, NULL, NULL, NULL},
    {"launch_us", TWO, STEP_S, MORE, 4, 40, NULL, NULL, NULL},
    {"gemm_ratio", TWO, STEP_S, LESS, 0.7, 0.8, NULL, NULL, NULL},
    {"gemm_depth", TWO, STEP_S, MORE, 64, 128, NULL, NULL, NULL},
    {"memory_ratio", TWO, STEP_S, LESS, 0.7, 0.8, NULL, NULL, NULL},
    {"attention_forward_ratio", TWO, STEP_S, LESS, 0.3, 0.4, NULL, NULL, NULL},
    {"attention_backward_ratio", TWO, STEP_S, LESS, 0.3, 0.4, NULL, NULL, NULL},
    {"attention_depth", TWO, STEP_S, MORE, 100, 200, NULL, NULL, NULL},
    {"misaligned_factor", TWO_ODD, STEP_S, MORE, 6, 12, NULL, UNFUSED, NULL},
    {"net_ratio", TWO, STEP_S, LESS, 0.7, 0.8, NULL, NULL, NULL},
    {"net_half_bytes", TWO, STEP_S, MORE, 1e4, 2e4, NULL, NULL, NULL},
    {"net_step_us", TWO, STEP_S, MORE, 2, 40, NULL, NULL, NULL},
    {"p2p_us", TWO_PIPES, STEP_S, MORE, 10, 20, NULL, NULL, NULL},
    {"overlap_loss_nvlink_ratio", TWO, STEP_S, MORE, 0.1, 0.3, NULL, NULL, NULL},
    {"overlap_loss_net_ratio", FLAT_WIDE, STEP_S, MORE, 0.02, 0.3, NULL, NULL, NULL},
    {"tables_nvlink_gbytes_per_s", TWO, STEP_S, MORE, 100, 120, "collective_times", NULL, NULL},
    {"tables_pcie_gbytes_per_s", PCIE, STEP_S, MORE, 20, 24, "collective_times", NULL, NULL},
    {"tables_socket_gbytes_per_s", PCIE_PIPES, STEP_S, MORE, 20, 24, "p2p_times socket", NULL,
     NULL},
    {"tables_nic_gbytes_per_s", FLAT_ACROSS, STEP_S, MORE, 20, 24, "p2p_times nic", NULL, NULL},
    {"tables_uplink_gbytes_per_s", TWO_ACROSS, STEP_S, MORE, 20, 24, "p2p_times uplink", NULL,
     NULL},
    {"tables_line_gbytes_per_s", SITES_PIPES, STEP_S, MORE, 2, 4, "p2p_times line", NULL, NULL},
};

static const value_move stack_value_moves[] = {
    {"host_launch_us", TWO, STEP_S, MORE, 15, 60, NULL, NULL, NULL},
    {"host_exponent", TWO, STEP_S, LESS, 2, 3, NULL, NULL, NULL},
    {"busbw_factor", TWO, STEP_S, LESS, 1, 1.2, "collective_times", NULL, NULL},
    {"kernels_forward", TWO, STEP_S, MORE, 20, 80, NULL, NULL, NULL},
    {"gemm_ratio", TWO, STEP_S, LESS, 0.9, 1, NULL, NULL, NULL},
    {"attention_ratio", TWO, STEP_S, LESS, 0.9, 1, NULL, NULL, NULL},
    {"grad_comm_bytes", TWO, STEP_S, MORE, 2, 4, NULL, NULL, NULL},
    {"optimizer_bytes", TWO, STEP_S, MORE, 34, 40, NULL, NULL, NULL},
    {"tp_exposed_factor", TWO, STEP_S, MORE, 0.5, 1, NULL, NULL, NULL},
    {"scale_jitter", MANY, STEP_S, MORE, 0.01, 0.1, NULL, NULL, NULL},
    {"gradient_bytes", TWO, MEMORY, MORE, 2, 4, NULL, NULL, NULL},
    {"f32_state_bytes", TWO_F32, MEMORY, MORE, 16, 24, NULL, NULL, NULL},
    {"framework_gib", TWO, MEMORY, MORE, 1, 2, NULL, NULL, NULL},
    {"communicator_mib", TWO, MEMORY, MORE, 1, 2, NULL, NULL, NULL},
    {"allocator_factor", TWO, MEMORY, MORE, 1, 1.1, NULL, NULL, NULL},
    {"headroom_factor", TWO, MEMORY, MORE, 1, 1.1, NULL, NULL, NULL},
    {"bucket_mib", TWO, STEP_S, LESS, 25, 1, NULL, NULL, NULL},
    {"source_spread", TWO, RANGE, MORE, 0.11, 0.22, NULL, NULL, NULL},
    {"residual_spread", TWO, RANGE, MORE, 0.075, 0.15, NULL, NULL, NULL},
    {"dp_lanes", UNEVEN, STEP_S, LESS, 1, 2, NULL, UNITS, NULL},
};

/* Switches: from the first word to the second. */
typedef struct switch_move {
    const char *name;
    scene_id scene;
    output of;
    direction way;
    const char *from, *to;
    const char *also; /* other switches */
} switch_move;
static const switch_move switch_moves[] = {
    {"attention", TWO, STEP_S, LESS, "unfused", "fused", ""},
    {"p2p", TWO_PIPES, STEP_S, MORE, "async", "blocking", ""},
    {"scatter_gather", TWO_ACROSS, STEP_S, LESS, "off", "on", ""},
    {"tp_overlap", TWO, STEP_S, LESS, "none", "dgrad", ""},
    {"precision", TWO_F32, STEP_S, LESS, "own", "tf32", ""},
    {"dp_overlap", TWO, STEP_S, LESS, "off", "on", ", {name: bucket_rule, value: unit}"},
    {"shard_overlap", ZERO3, STEP_S, LESS, "off", "on", ""},
    {"dropout", TWO, MEMORY, MORE, "off", "on", ""},
    {"silu", TWO, MEMORY, LESS, "kept", "again", ""},
    {"norm_inputs", TWO, MEMORY, LESS, "both", "first", ""},
    {"cross_entropy", TWO, MEMORY, MORE, "fused", "unfused", ""},
    {"dummy_gradients", TWO, MEMORY, MORE, "off", "on", ""},
    {"gradients", ZERO, MEMORY, LESS, "separate", "flat", ""},
    {"expert_weights", TWO_EXPERTS, MEMORY, LESS, "behind", "inside", ""},
    {"stage_outputs", TWO_PIPES, MEMORY, MORE, "freed", "kept", ""},
    {"bucket_rule", TWO, STEP_S, LESS, "megatron", "unit", ""},
    {"fp8_recipe", TWO, STEP_S, MORE, "delayed", "current", ""},
    {"elementwise", TWO, STEP_S, MORE, "fused", "eager", ""},
    {"fp8_weights", TWO, STEP_S, LESS, "each", "once", ", {name: fp8_recipe, value: current}"},
};

/* Of a stack: keys of the file. */
static const move stack_moves[] = {
    {"schema", TWO, NAMES, MORE, NULL, NULL, "kind of the file"},
    {"name", TWO, NAMES, MORE, NULL, NULL, "in messages and results"},
    {"values.name", TWO, NAMES, MORE, NULL, NULL, "rows below"},
    {"values.value", TWO, NAMES, MORE, NULL, NULL, "rows below"},
    {"values.source", TWO, NAMES, MORE, NULL, NULL, "for reports"},
    {"values.provenance", TWO, NAMES, MORE, NULL, NULL, "for reports"},
    {"values.spread", TWO, NAMES, MORE, NULL, NULL, "tests/unit/check_spread.c"},
    {"switches.name", TWO, NAMES, MORE, NULL, NULL, "rows below"},
    {"switches.value", TWO, NAMES, MORE, NULL, NULL, "rows below"},
};

/* Of a profile's tables: columns. Messages are those over uplinks. */
static const move table_moves[] = {
    {"op_times.op", TWO, STEP_S, LESS, "gemm", "attention_forward",
     "the product is computed by the formula then"},
    {"op_times.dtype", TWO, STEP_S, LESS, "bf16", "f32", "the formula again"},
    {"op_times.m", TWO, STEP_S, LESS, "1024,1536", "1023,1536", "the formula again"},
    {"op_times.n", TWO, STEP_S, LESS, "1536,", "1537,", "the formula again"},
    {"op_times.k", TWO, STEP_S, LESS, "1024,900", "1023,900", "the formula again"},
    {"op_times.time_us", TWO, STEP_S, MORE, "900", "990", NULL},
    {"op_times.samples", TWO, NAMES, MORE, "900,1", "900,3", "for reports"},
    {"op_times.role", TWO, STEP_S, LESS, "1,calibration", "1,validation", "the formula again"},
    {"collective_times.collective", TWO, STEP_S, MORE, "all_reduce,bf16,2,1,268435456",
     "broadcast,bf16,2,1,268435456", "the all-reduce has its slow point alone"},
    {"collective_times.dtype", TWO, NAMES, MORE, "bf16,2,1,268435456", "f32,2,1,268435456",
     "as many bytes take as long"},
    {"collective_times.devices", TWO, STEP_S, MORE, "2,1,268435456", "4,1,268435456",
     "the slow point of two devices is alone"},
    {"collective_times.nodes", TWO, STEP_S, MORE, "2,1,268435456", "2,2,268435456",
     "rows of several nodes enter no profile, and a warning says so"},
    {"collective_times.size_bytes", TWO, STEP_S, MORE, "268435456", "536870912", NULL},
    {"collective_times.time_us", TWO, STEP_S, MORE, "30000,,16", "30000,,",
     "bandwidth is given or follows: 8.9 GB/s"},
    {"collective_times.algbw_gbytes_per_s", TWO, NAMES, MORE, "30000,,16", "30000,5,16",
     "size over time, which every row has"},
    {"collective_times.busbw_gbytes_per_s", TWO, STEP_S, LESS, ",16,", ",17,", NULL},
    {"collective_times.role", TWO, STEP_S, MORE, "16,calibration", "16,validation",
     "rows to validate enter no profile"},
    {"p2p_times.class", TWO_ACROSS, STEP_S, MORE, "uplink,16777216", "nic,16777216",
     "uplinks have their small message alone"},
    {"p2p_times.size_bytes", TWO_ACROSS, STEP_S, LESS, "16777216", "33554432", NULL},
    {"p2p_times.time_us", TWO_ACROSS, STEP_S, MORE, "2000", "2200", NULL},
    {"p2p_times.role", TWO_ACROSS, STEP_S, MORE, "2000,calibration", "2000,validation",
     "rows to validate enter no profile"},
};
#endif
