#include "core/io/convert/node.h"

#include <string.h>

#include "core/io/jsonw.h"

/* One way, of datasheets: an NVLink lane, and PCIe of 16 lanes (8 or 16 GT/s: four fifths of it).
 */
typedef struct generation {
    const char *profile; /* how its name begins */
    double lane, pcie;
} generation;
static const generation generations[] = {
    {"p100", 20, 12},  {"v100", 25, 12},     {"a100", 25, 25},      {"a800", 25, 25},
    {"h100", 25, 50},  {"h200", 25, 50},     {"h800", 25, 50},      {"h20", 25, 50},
    {"gh200", 25, 50}, {"b200", 50, 50},     {"b300", 50, 50},      {"gb200", 50, 50},
    {"gb300", 50, 50}, {"rtx-3090", 14, 25}, {"titan-rtx", 25, 12}, {"a10", 0, 25},
    {"l4", 0, 25},     {"l40s", 0, 25},      {"rtx-4090", 0, 25},   {"rtx-2080", 25, 12},
    {"t4", 0, 12},     {"rtx-3080", 0, 25},
};
#define NIC 25.0 /* 200 Gbit/s */
#define SOCKET 60.0
#define NIC_US 2.0

static const generation *generation_of(const char *profile)
{
    const char *slash = strrchr(profile, '/'), *name = slash ? slash + 1 : profile;
    const generation *best = NULL;
    for (size_t i = 0; i < sizeof generations / sizeof *generations; i++) {
        const size_t n = strlen(generations[i].profile);
        if (strncmp(name, generations[i].profile, n) == 0 && (!best || n > strlen(best->profile)))
            best = &generations[i];
    }
    return best;
}

/* Lanes of every pair if all are alike; 0 else. */
static int32_t same_lanes(const convert_node *node)
{
    const int32_t first = node->devices > 1 ? node->lanes[0][1] : 0;
    for (int32_t a = 0; a < node->devices; a++)
        for (int32_t b = a + 1; b < node->devices; b++)
            if (node->lanes[a][b] != first) return 0;
    return first;
}

static bool has_lanes(const convert_node *node)
{
    for (int32_t a = 0; a < node->devices; a++)
        for (int32_t b = a + 1; b < node->devices; b++)
            if (node->lanes[a][b]) return true;
    return false;
}

static void put_mesh(luo_str *text, const convert_node *node, double lane)
{
    bool first = true;
    luo_str_addf(text,
                 "    scale_up: {kind: mesh, bandwidth_gbytes_per_s: %.6g, latency_us: 1}\n"
                 "    scale_up_links: [",
                 lane);
    for (int32_t a = 0; a < node->devices; a++)
        for (int32_t b = a + 1; b < node->devices; b++)
            if (node->lanes[a][b]) {
                luo_str_addf(text, "%s{a: %d, b: %d, lanes: %d}", first ? "" : ", ", a, b,
                             node->lanes[a][b]);
                first = false;
            }
    luo_str_add(text, "]\n");
}

/* Two GPUs joined by all their lanes are a mesh of one pair; more need a switch for that. */
static void put_scale_up(luo_str *text, const convert_node *node, double lane)
{
    const int32_t port = node->port_lanes    ? node->port_lanes
                         : node->devices > 2 ? same_lanes(node)
                                             : 0;
    if (port)
        luo_str_addf(text,
                     "    scale_up: {kind: nvswitch, bandwidth_gbytes_per_s: %.6g, latency_us: "
                     "1}\n",
                     port * lane);
    else if (has_lanes(node))
        put_mesh(text, node, lane);
}

static void tell_assumed(convert_job *job, const convert_node *node, const generation *g)
{
    luo_str text = {0};
    const bool lanes = node->port_lanes || has_lanes(node);
    if (lanes && node->lane_gbytes_per_s <= 0)
        luo_str_addf(&text, "an NVLink lane %g GB/s, ", g->lane);
    if (node->pcie_gbytes_per_s <= 0) luo_str_addf(&text, "PCIe %g GB/s, ", g->pcie);
    if (node->sockets > 1) luo_str_addf(&text, "between sockets %g GB/s, ", SOCKET);
    if (node->nics && node->nic_gbytes_per_s <= 0)
        luo_str_addf(&text, "a network card %g GB/s, ", NIC);
    convert_note(
        job, LUO_NOTE,
        "the source does not say these, and they are taken: %slatencies of 1 us by NVLink, "
        "1.5 us by PCIe%s.",
        luo_str_get(&text), node->nics ? " and 2 us by network" : "");
    luo_str_free(&text);
}

luo_status convert_node_file(convert_job *job, const convert_node *node)
{
    const char *profile = job->opts->profile;
    luo_str text = {0};
    if (!profile)
        return convert_usage(job, "`--profile` is missing: the name of the GPU's profile, such as "
                                  "a100-80.");
    const generation *g = generation_of(profile);
    const bool lanes = node->port_lanes || has_lanes(node);
    if (!g || (lanes && node->lane_gbytes_per_s <= 0 && g->lane <= 0))
        return convert_usage(job,
                             "`--profile` is `%.60s`, and %s is known of such a GPU; type the "
                             "cluster file by hand.",
                             profile, g ? "no NVLink" : "nothing");
    const double lane = node->lane_gbytes_per_s > 0 ? node->lane_gbytes_per_s : g->lane;
    luo_str_addf(&text,
                 "# luoshu import %s\nschema: luoshu.cluster/1\nname: imported\nnode_groups:\n"
                 "  - name: node\n    nodes: 1\n    devices_per_node: %d\n    profile: ",
                 luo_convert_kind_name(job->opts->kind), node->devices);
    luo_jsonw_quote(&text, profile);
    luo_str_addc(&text, '\n');
    put_scale_up(&text, node, lane);
    luo_str_addf(&text, "    pcie: {bandwidth_gbytes_per_s: %.6g, latency_us: 1.5",
                 node->pcie_gbytes_per_s > 0 ? node->pcie_gbytes_per_s : g->pcie);
    if (node->devices_per_switch)
        luo_str_addf(&text, ", devices_per_switch: %d", node->devices_per_switch);
    if (node->sockets > 1)
        luo_str_addf(&text, ", sockets: %d, socket_gbytes_per_s: %g", node->sockets, SOCKET);
    luo_str_add(&text, "}\n");
    if (node->nics)
        luo_str_addf(&text, "    nics: {count: %d, bandwidth_gbytes_per_s: %.6g, latency_us: %g}\n",
                     node->nics, node->nic_gbytes_per_s > 0 ? node->nic_gbytes_per_s : NIC,
                     node->nic_latency_us > 0 ? node->nic_latency_us : NIC_US);
    tell_assumed(job, node, g);
    LUO_TRY(convert_add(job, "cluster.yaml", &text));
    return convert_say(job, "a node of %d GPUs, %d network card%s, %d socket%s", node->devices,
                       node->nics, node->nics == 1 ? "" : "s", node->sockets,
                       node->sockets == 1 ? "" : "s");
}
