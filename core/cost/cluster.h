/* cluster.h: nodes, devices, links (docs/formats.md#luoshucluster1).
 *
 * Devices are numbered by group, then node, then slot. Bandwidths are bytes per second in one
 * direction; every link exists once per direction with the same numbers. */
#ifndef LUO_CORE_COST_CLUSTER_H
#define LUO_CORE_COST_CLUSTER_H
#include "core/base/str.h"
#include "core/cost/profile.h"

typedef enum luo_scale_up {
    LUO_SCALE_UP_NONE,
    LUO_SCALE_UP_NVSWITCH,
    LUO_SCALE_UP_MESH
} luo_scale_up;
#define LUO_FABRIC_LIST(X)                                                                         \
    X(LUO_FABRIC_SINGLE, "single")                                                                 \
    X(LUO_FABRIC_TWO_TIER, "two_tier")                                                             \
    X(LUO_FABRIC_RAIL, "rail")
typedef enum luo_fabric { LUO_FABRIC_LIST(LUO_WORD_VALUE) } luo_fabric;
const char *luo_fabric_name(luo_fabric fabric);

typedef struct luo_mesh_link {
    int32_t a, b, lanes; /* slots a < b */
} luo_mesh_link;

/* Pointers first, then numbers, which have one hash together (sim/share.c). */
typedef struct luo_node_group {
    const char *name, *site;
    const char *const *racks;
    const char *const *hosts;   /* real names, nodes of them, or NULL */
    const luo_profile *profile; /* of all devices, or of slot 0 where profiles is given */
    const luo_profile *const *profiles; /* by slot, of a node of several types; NULL: one type */
    const luo_mesh_link *mesh;
    int32_t nodes, devices_per_node, nracks, nmesh; /* nracks: 1 or nodes */
    double base_slowdown;
    luo_scale_up scale_up;
    double scale_up_bytes_per_s, scale_up_latency_s; /* mesh: of one lane */
    bool has_pcie;
    double pcie_bytes_per_s, pcie_latency_s, socket_bytes_per_s;
    int32_t devices_per_switch, sockets;
    int32_t nics; /* 0: none */
    double nic_bytes_per_s, nic_latency_s;
    bool nic_shared;                              /* attach: shared */
    double host_cores, host_memory_bytes;         /* memory 0: not given */
    double disk_read_bytes_per_s, disk_write_bytes_per_s; /* 0: unlimited */
} luo_node_group;

typedef struct luo_site_link {
    const char *a, *b;
    double bytes_per_s, latency_s;
} luo_site_link;

typedef struct luo_health {
    const char *target;
    bool down;
    double slowdown; /* state slow */
    int line, col;
} luo_health;

typedef enum luo_link_kind {
    LUO_LINK_NVLINK, /* NODE/nvS: port of a device on the switch, or one mesh pair */
    LUO_LINK_PCIE,   /* NODE/pcieS */
    LUO_LINK_PCIE_SWITCH, /* NODE/swK */
    LUO_LINK_SOCKET, /* NODE/socket */
    LUO_LINK_NIC,    /* NODE/nicK */
    LUO_LINK_UPLINK, /* RACK/up or RACK/upK */
    LUO_LINK_LINE,   /* SITE-SITE/line */
    LUO_LINK_STORAGE /* storage */
} luo_link_kind;
/* All classes are those between devices and this one. */
#define LUO_LINK_CLASS_STORAGE "storage"
/* The class of a kind; both kinds of PCIe are of one. */
const char *luo_link_kind_name(luo_link_kind k);

/* Latencies of a cluster file are those of a whole trip between two devices over that kind of link
 * and its switch. A trip crosses two ports, so each port link (NVLINK of an nvswitch, PCIE,
 * PCIE_SWITCH, NIC) carries half of it; a mesh pair and a line carry all, SOCKET half of the PCIe
 * latency, UPLINK and STORAGE none (their switches are counted by luo_cluster_hop_latency).
 * So: nvswitch `latency_us`; PCIe under one switch 1 x, through two switches 2 x, through two
 * sockets 2.5 x `latency_us`; between nodes half of both PCIe latencies (if given) + half of both
 * NIC latencies + hops. */
typedef struct luo_link {
    const char *name; /* docs/formats.md#words-units-names */
    luo_link_kind kind;
    int32_t node, rack;  /* -1: does not apply */
    int32_t index;       /* slot or mesh pair, switch, NIC, rail or site link number; else 0 */
    double bytes_per_s;  /* STORAGE: away from the devices (write), 0 = unlimited */
    double latency_s;
    double down_bytes_per_s; /* towards the devices; differs from bytes_per_s only for STORAGE */
} luo_link;

typedef struct luo_node {
    const char *name; /* "h20-1" */
    int32_t group, index, first_device, rack, site;
    /* First link of each kind, the others of this node follow it; -1: none. */
    int32_t nvlink, pcie, pcie_switch, socket, nic;
} luo_node;

typedef struct luo_device {
    int32_t group, node, slot, kind;
} luo_device;

/* Devices of one node group and one profile. Where all nodes have one type, a kind is a node group
 * and has its number. */
typedef struct luo_device_kind {
    int32_t group, slot; /* the first slot that is of it */
} luo_device_kind;

/* As luo_node_group: pointers, then numbers. */
typedef struct luo_cluster {
    const char *name;
    luo_node_group *groups;
    const luo_site_link *site_links;
    const int32_t *standby;
    const luo_health *health;
    int32_t ngroups, nsite_links, nstandby, nhealth;
    luo_fabric fabric;
    double hop_latency_s, rack_uplink_bytes_per_s;
    double storage_read_bytes_per_s, storage_write_bytes_per_s; /* 0: unlimited */
    /* Derived by luo_cluster_finish: */
    int32_t ndevices, nnodes, nracks, nsites, nlinks, nkinds;
    const luo_device *devices;
    const luo_device_kind *kinds; /* by group, then first slot */
    const luo_node *nodes;
    const char *const *racks, *const *sites; /* in order of first appearance */
    const luo_link *links;                   /* by kind, then node or rack, then index */
    /* Indices that make luo_cluster_path independent of the size of the cluster: */
    const int32_t *uplinks;           /* per rack: its first uplink; -1: none */
    const int32_t *const *mesh_pairs; /* per group: [slot_a * devices_per_node + slot_b] = pair
                                         number or -1; NULL unless mesh */
    const int32_t *site_routes;       /* [from * nsites + to] = site link to take first; -1: none */
    int32_t first_line, storage;      /* links; -1: none */
    const int32_t *links_by_name, *nodes_by_name; /* sorted */
} luo_cluster;

enum { LUO_DEVICES_MAX = 131072 };

/* Numbers devices, nodes, racks and sites; makes the links and their indices; checks what needs
 * the whole: names differ, racks are 1 or one per node, NICs when there are several nodes, two
 * devices of a node are joined by scale_up or pcie, types of a node are all `gpu` or all `cpu` and
 * one behind an nvswitch, mesh slots in range, uplinks for two_tier and
 * rail, equal NIC counts for rail, a rack in one site only, sites joined, standby and health name
 * things that exist. Pre: the given part is in range key by key (the reader checks that, and that
 * `fabric` stands in the file when there is more than one node).
 * Errors: LUO_EINPUT; LUO_E2BIG more than 131,072 devices; LUO_ENOMEM. err->line and col are set
 * for health only. Owner: arena. Cost: O(n log n) in devices. */
luo_status luo_cluster_finish(luo_arena *arena, luo_cluster *cluster, luo_err *err);

enum { LUO_PATH_MAX = 16 };
typedef struct luo_hop {
    int32_t link;
    bool up; /* true: away from the device (`>`), false: towards one (`<`) */
} luo_hop;
/* Links from device a to device b in order (docs/formats.md#luoshucluster1); 0 hops when a = b.
 * Same node: nvswitch = port >, port <; mesh = the pair (> from the lower slot); else PCIe: device
 * >, [switch >, [socket (> from the lower socket)], switch <,] device <. Other node: [pcie >,] nic
 * >, [uplink >, [lines], uplink <,] nic <, [pcie <]; the pcie links if the group has pcie, the
 * uplinks by fabric: never for single, two_tier between racks, rail between racks or rails. A line
 * is > from its end `a`.
 * Latency of a path = the sum of its links' latencies + luo_cluster_hop_latency. O(hops). */
int32_t luo_cluster_path(const luo_cluster *cluster, int32_t a, int32_t b,
                         luo_hop hops[LUO_PATH_MAX]);
/* Seconds of switch hops on the way from a to b: hop_latency_s per leaf or spine crossed. */
double luo_cluster_hop_latency(const luo_cluster *cluster, int32_t a, int32_t b);
double luo_cluster_path_latency(const luo_cluster *cluster, int32_t a, int32_t b);
/* Bandwidth of the narrowest link on the way; HUGE_VAL when a = b. */
double luo_cluster_path_bytes_per_s(const luo_cluster *cluster, int32_t a, int32_t b);
/* NIC of device `dev` when talking to `peer` (index in its node); -1: no NIC. */
int32_t luo_cluster_nic(const luo_cluster *cluster, int32_t dev, int32_t peer);
/* luo_link_class_fn for planners: ctx is a luo_cluster; 0 same, 1 node, 2 rack, 3 cross. With one
 * rack only, class 2 is not used. */
int32_t luo_cluster_link_class(const void *cluster, int32_t a, int32_t b);
/* Bytes per second of one device in a link class: the slowest node group decides; 0: not known. */
double luo_cluster_class_bytes_per_s(const luo_cluster *cluster, int link_class);
/* The constants of a device, of a slot of a node, of a kind: all that asks for some asks here. */
const luo_profile *luo_cluster_profile(const luo_cluster *cluster, int32_t dev);
const luo_profile *luo_node_group_profile(const luo_node_group *group, int32_t slot);
const luo_profile *luo_device_kind_profile(const luo_cluster *cluster, int32_t kind);
/* Names of the types of a node: "h20", or "4 v100-32 + 4 t4". */
void luo_node_group_say_profiles(luo_str *text, const luo_node_group *group);
double luo_cluster_base_slowdown(const luo_cluster *cluster, int32_t dev);
/* Can that be the name or address of a host, perhaps behind USER@? Letters, digits, `.`, `-` and
 * `_`, the first of each a letter or digit: launchers read more into other characters. */
bool luo_cluster_is_host_name(const char *name);
/* Index of a link or node by name, -1: none. */
int32_t luo_cluster_find_link(const luo_cluster *cluster, const char *name);
int32_t luo_cluster_find_node(const luo_cluster *cluster, const char *name);

typedef enum luo_target_kind {
    LUO_TARGET_DEVICES, /* device:, node:, group:, rack: -> devices, and links when whole nodes */
    LUO_TARGET_LINKS    /* link:, switch: */
} luo_target_kind;
typedef struct luo_target {
    luo_target_kind kind;
    bool any;              /* one of the choices is drawn when the event fires */
    int32_t nchoices;      /* 1 unless any */
    struct luo_target_choice {
        const char *name; /* "device:31" */
        int32_t ndev, nlink;
        const int32_t *dev, *link;
    } *choices;
} luo_target;
/* Reads a target (docs/formats.md#targets). `fail` of a node takes its devices and links, of a
 * group or rack its nodes, of a switch all links on it (`spine`: uplinks and lines, or all NICs of
 * a `single` fabric, whose one switch it is; `RACK/leaf`: NICs of the rack and its uplink).
 * `device:` also takes an alias `device:h20-1/3`. Choices of `any` are in order of ids.
 * Errors, all beginning with "`target` is `TEXT`; ": LUO_EINPUT `group `h20` has nodes 0 to 3.`
 * and alike; LUO_EPARSE unknown kind or a bad device set; LUO_ENOMEM. */
luo_status luo_target_parse(luo_arena *arena, const luo_cluster *cluster, const char *text,
                            luo_target *out, luo_err *err);
/* Is it a target, of whatever cluster? Names are not looked at. Errors: as above. Owner: nothing is
 * kept. */
luo_status luo_target_check(luo_arena *arena, const char *text, luo_err *err);
#endif
