/* Random clusters of 2 to 64 mixed devices, and small models for them. */
#include <stdlib.h>
#include <unistd.h>

#include "tests/storm/storm.h"

enum { GROUPS = 3, DEVICES = 64 };

static const char *const types[] = {"a100-40", "a100-80", "b200", "gh200",   "h100",
                                    "h20",     "h200",    "h800", "v100-16", "v100-32"};

typedef struct shape {
    int groups, nodes[GROUPS], slots[GROUPS], devices;
} shape;

static shape draw_shape(storm_case *c)
{
    static const int slots[] = {1, 2, 2, 3, 4, 4, 8, 8};
    shape s;
    do {
        s = (shape){.groups = 1 + storm_pick(c, GROUPS)};
        for (int g = 0; g < s.groups; g++) {
            s.nodes[g] = 1 + storm_pick(c, 4);
            s.slots[g] = slots[storm_pick(c, 8)];
            s.devices += s.nodes[g] * s.slots[g];
        }
    } while (s.devices < 2 || s.devices > DEVICES);
    return s;
}

/* Every pair of slots, with one to three lanes. */
static void add_mesh(storm_case *c, luo_str *s, int slots)
{
    luo_str_add(s, "    scale_up_links: [");
    for (int a = 0, n = 0; a < slots; a++)
        for (int b = a + 1; b < slots; b++)
            luo_str_addf(s, "%s{a: %d, b: %d, lanes: %d}", n++ ? ", " : "", a, b,
                         1 + storm_pick(c, 3));
    luo_str_add(s, "]\n");
}

/* Are they joined by a switch? */
static bool add_links(storm_case *c, luo_str *s, int slots)
{
    int kind = slots > 1 ? storm_pick(c, 4) : 3; /* two of four: a switch */
    if (kind == 2 && storm_pick(c, 4)) kind = 0; /* meshes need tables that few profiles have */
    if (kind < 3)
        luo_str_addf(
            s, "    scale_up: {kind: %s, bandwidth_gbytes_per_s: %.6g, latency_us: %.3g}\n",
            kind < 2 ? "nvswitch" : "mesh", storm_decade(c, 20, 900), storm_decade(c, 0.1, 10));
    if (kind == 2) add_mesh(c, s, slots);
    if (kind == 3 || storm_pick(c, 3))
        luo_str_addf(s,
                     "    pcie: {bandwidth_gbytes_per_s: %.6g, latency_us: 1.5, "
                     "devices_per_switch: %d, sockets: %d, socket_gbytes_per_s: 60}\n",
                     storm_decade(c, 5, 64), 1 + storm_pick(c, slots), 1 + storm_pick(c, 2));
    return kind < 2;
}

/* Of some nodes without a switch several. */
static void add_types(storm_case *c, luo_str *s, int slots, int type, bool alike)
{
    const char *root = getenv("STORM_ROOT");
    const bool several = !alike && slots > 1 && storm_pick(c, 2);
    luo_str_add(s, several ? "    profiles: [" : "    profile: ");
    for (int k = 0; k < (several ? slots : 1); k++) {
        luo_str_addf(s, "%s%s/scenarios/profiles/%s.yaml", k ? ", " : "", root ? root : ".",
                     types[type]);
        if (several && storm_pick(c, 2)) type = storm_pick(c, 10);
    }
    luo_str_add(s, several ? "]\n" : "\n");
}

static void add_group(storm_case *c, luo_str *s, const shape *sh, int g, int nics, int fabric)
{
    const int type = storm_pick(c, 10);
    luo_str_addf(s, "  - name: g%d\n    nodes: %d\n    devices_per_node: %d\n", g, sh->nodes[g],
                 sh->slots[g]);
    if (storm_one_in(c, 4)) luo_str_addf(s, "    base_slowdown: %.4g\n", storm_decade(c, 1, 4));
    luo_str_add(s, "    racks: [");
    for (int i = 0; i < sh->nodes[g]; i++)
        luo_str_addf(s, "%sr%d", i ? ", " : "", fabric ? storm_pick(c, 3) : 0);
    luo_str_add(s, "]\n");
    add_types(c, s, sh->slots[g], type, add_links(c, s, sh->slots[g]));
    luo_str_addf(s,
                 "    nics: {count: %d, bandwidth_gbytes_per_s: %.6g, latency_us: %.3g, attach: "
                 "%s}\n",
                 nics ? nics : 1 + storm_pick(c, sh->slots[g]), storm_decade(c, 1, 100),
                 storm_decade(c, 0.5, 50), storm_pick(c, 3) ? "slot" : "shared");
    if (storm_pick(c, 3))
        luo_str_addf(s,
                     "    host: {cores: 64, memory_gib: 1024, disk_read_gbytes_per_s: %.4g, "
                     "disk_write_gbytes_per_s: %.4g}\n",
                     storm_decade(c, 0.1, 10), storm_decade(c, 0.1, 10));
}

static void add_health(storm_case *c, luo_str *s, int devices)
{
    if (storm_one_in(c, 5)) {
        const int n = 1 + storm_pick(c, devices > 4 ? 4 : 1), first = storm_pick(c, devices);
        luo_str_addf(s, "standby: \"[%d-%d]\"\n", first, first + n < devices ? first + n : first);
    }
    if (!storm_one_in(c, 6)) return;
    if (storm_pick(c, 2))
        luo_str_addf(s, "health: [{target: \"device:%d\", state: down}]\n", storm_pick(c, devices));
    else
        luo_str_addf(s, "health: [{target: \"device:%d\", state: slow, slowdown: %.4g}]\n",
                     storm_pick(c, devices), storm_decade(c, 1, 100));
}

void storm_make_cluster(storm_case *c, luo_str *s)
{
    static const char *const fabrics[] = {"single", "two_tier", "rail"};
    const shape sh = draw_shape(c);
    const int fabric = storm_pick(c, 3);
    luo_str_add(s, "schema: luoshu.cluster/1\nname: storm\nnode_groups:\n");
    for (int g = 0; g < sh.groups; g++)
        add_group(c, s, &sh, g, fabric == 2 ? 1 + (sh.devices & 1) : 0, fabric);
    luo_str_addf(s, "fabric:\n  kind: %s\n  hop_latency_us: 0.5\n", fabrics[fabric]);
    if (fabric) luo_str_addf(s, "  rack_uplink_gbytes_per_s: %.6g\n", storm_decade(c, 1, 1000));
    if (storm_pick(c, 4))
        luo_str_addf(s, "storage: {read_gbytes_per_s: %.4g, write_gbytes_per_s: %.4g}\n",
                     storm_decade(c, 0.1, 50), storm_decade(c, 0.1, 50));
    add_health(c, s, sh.devices);
}

/* ---- models ---- */

void storm_make_model(storm_case *c, luo_str *s)
{
    static const char *const dtypes[] = {"f32", "bf16"};
    luo_model *m = &c->model;
    const int heads = 8 << storm_pick(c, 2), dtype = !storm_one_in(c, 24);
    *m = (luo_model){.family = storm_pick(c, 3) ? LUO_FAMILY_LLAMA : LUO_FAMILY_GPT,
                     .layers = 1 + storm_pick(c, 12),
                     .heads = heads,
                     .hidden = heads * (8 << storm_pick(c, 5)),
                     .vocab = 64 << storm_pick(c, 8),
                     .dtype = dtype ? LUO_BF16 : LUO_F32,
                     .max_sequence_tokens = 4096};
    m->kv_heads = m->family == LUO_FAMILY_LLAMA && storm_pick(c, 2) ? 4 : heads;
    m->ffn_hidden = m->hidden * (2 + storm_pick(c, 3));
    m->head_dim = m->hidden / heads;
    luo_str_addf(s, "schema: luoshu.model/1\nname: storm\nfamily: %s\nhidden: %d\nffn_hidden: %d\n",
                 m->family == LUO_FAMILY_LLAMA ? "llama" : "gpt", (int)m->hidden,
                 (int)m->ffn_hidden);
    luo_str_addf(s, "heads: %d\nvocab: %d\nmax_sequence_tokens: %d\ndtype: %s\n", heads,
                 (int)m->vocab, (int)m->max_sequence_tokens, dtypes[dtype]);
    if (m->family == LUO_FAMILY_LLAMA) luo_str_addf(s, "kv_heads: %d\n", (int)m->kv_heads);
}
