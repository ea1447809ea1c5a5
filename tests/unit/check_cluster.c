/* check_cluster.c: numbers, names, paths and targets of a cluster (docs/formats.md).
 * The world of most rows: `a` = 3 nodes of 4 (nvswitch, 4 NICs; racks r0 r0 r1), devices 0..11;
 * `b` = 2 nodes of 8 (mesh 0-1, PCIe of 2 devices a switch, 2 sockets, NICs of its own; rack r1),
 * devices 12..27. */
#include "core/cost/cluster.h"

#include <math.h>

#include "core/base/devset.h"
#include "core/run/events/world.h"
#include "tests/cost_fixture.h"

static luo_arena *arena;
static luo_profile ref;
static luo_node_group groups[2];
static luo_cluster world;
static luo_err err;

static const char *const a_racks[] = {"r0", "r0", "r1"}, *const b_racks[] = {"r1"};
static const luo_mesh_link pairs[] = {{0, 1, 4}, {2, 7, 1}};

static void describe(luo_fabric fabric)
{
    if (!arena) arena = luo_arena_new(0);
    ref = luo_ref_profile();
    groups[0] = luo_test_group("a", 3, 4, &ref);
    groups[0].nracks = 3;
    groups[0].racks = a_racks;
    groups[1] = luo_test_group("b", 2, 8, &ref);
    groups[1].nracks = 1;
    groups[1].racks = b_racks;
    groups[1].scale_up = LUO_SCALE_UP_MESH;
    groups[1].scale_up_bytes_per_s = 20e9;
    groups[1].nmesh = LUO_ROWS(pairs);
    groups[1].mesh = pairs;
    groups[1].has_pcie = true;
    groups[1].pcie_bytes_per_s = 50e9;
    groups[1].pcie_latency_s = 4e-6;
    groups[1].socket_bytes_per_s = 60e9;
    groups[1].devices_per_switch = 2;
    groups[1].sockets = 2;
    groups[1].nics = fabric == LUO_FABRIC_RAIL ? 4 : 2;
    groups[1].nic_shared = fabric == LUO_FABRIC_TWO_TIER;
    world = (luo_cluster){.name = "world", .ngroups = 2, .groups = groups, .fabric = fabric,
                          .hop_latency_s = 0.5e-6, .rack_uplink_bytes_per_s = 400e9,
                          .storage_write_bytes_per_s = 20e9};
}

static void build(luo_fabric fabric)
{
    describe(fabric);
    const luo_status st = luo_cluster_finish(arena, &world, &err);
    ck_assert_msg(st == LUO_OK, "%s", err.text);
}

START_TEST(numbers)
{
    build(LUO_FABRIC_TWO_TIER);
    ck_assert_int_eq(world.ndevices, 28);
    ck_assert_int_eq(world.nnodes, 5);
    ck_assert_int_eq(world.nracks, 2);
    ck_assert_int_eq(world.nsites, 1);
    ck_assert_str_eq(world.sites[0], "main");
    ck_assert_str_eq(world.racks[1], "r1");
    ck_assert_str_eq(world.nodes[2].name, "a-2");
    ck_assert_str_eq(world.nodes[3].name, "b-0");
    ck_assert_int_eq(world.nodes[3].first_device, 12);
    ck_assert_int_eq(world.nodes[3].rack, world.nodes[2].rack);
    ck_assert_int_eq(world.devices[21].node, 4);
    ck_assert_int_eq(world.devices[21].slot, 1);
    ck_assert_int_eq(world.devices[21].group, 1);
    ck_assert_int_eq(luo_cluster_find_node(&world, "b-1"), 4);
    ck_assert_int_eq(luo_cluster_find_node(&world, "b-2"), -1);
    ck_assert_ptr_eq(luo_cluster_profile(&world, 3), &ref);
    ck_assert_double_eq(luo_cluster_base_slowdown(&world, 27), 1);
    ck_assert_int_eq(luo_cluster_link_class(&world, 3, 3), 0);
    ck_assert_int_eq(luo_cluster_link_class(&world, 0, 3), 1);
    ck_assert_int_eq(luo_cluster_link_class(&world, 0, 7), 2);
    ck_assert_int_eq(luo_cluster_link_class(&world, 8, 27), 2);
    ck_assert_int_eq(luo_cluster_link_class(&world, 0, 8), 3);
    luo_arena_free(arena);
}
END_TEST

/* Every link once, in order of kind, then node or rack, then index; found by its name. */
START_TEST(link_names)
{
    static const char *const want =
        "a-0/nv0 a-0/nv1 a-0/nv2 a-0/nv3 a-1/nv0 a-1/nv1 a-1/nv2 a-1/nv3 a-2/nv0 a-2/nv1 a-2/nv2 "
        "a-2/nv3 b-0/nv0 b-0/nv1 b-1/nv0 b-1/nv1 b-0/pcie0 b-0/pcie1 b-0/pcie2 b-0/pcie3 "
        "b-0/pcie4 b-0/pcie5 b-0/pcie6 b-0/pcie7 b-1/pcie0 b-1/pcie1 b-1/pcie2 b-1/pcie3 "
        "b-1/pcie4 b-1/pcie5 b-1/pcie6 b-1/pcie7 b-0/sw0 b-0/sw1 b-0/sw2 b-0/sw3 b-1/sw0 b-1/sw1 "
        "b-1/sw2 b-1/sw3 b-0/socket b-1/socket a-0/nic0 a-0/nic1 a-0/nic2 a-0/nic3 a-1/nic0 "
        "a-1/nic1 a-1/nic2 a-1/nic3 a-2/nic0 a-2/nic1 a-2/nic2 a-2/nic3 b-0/nic0 b-0/nic1 "
        "b-1/nic0 b-1/nic1 r0/up r1/up storage ";
    luo_str s = {0};
    build(LUO_FABRIC_TWO_TIER);
    for (int32_t i = 0; i < world.nlinks; i++) {
        luo_str_addf(&s, "%s ", world.links[i].name);
        ck_assert_int_eq(luo_cluster_find_link(&world, world.links[i].name), i);
    }
    ck_assert_str_eq(luo_str_get(&s), want);
    ck_assert_int_eq(luo_cluster_find_link(&world, "a-0/nv4"), -1);
    const luo_link *mesh = &world.links[luo_cluster_find_link(&world, "b-1/nv0")];
    ck_assert_double_eq(mesh->bytes_per_s, 80e9); /* 4 lanes of 20 */
    const luo_link *storage = &world.links[world.storage];
    ck_assert_double_eq(storage->bytes_per_s, 20e9);
    ck_assert_double_eq(storage->down_bytes_per_s, 0);
    build(LUO_FABRIC_RAIL);
    const int32_t up = luo_cluster_find_link(&world, "r1/up3");
    ck_assert_int_ge(up, 0);
    ck_assert_double_eq(world.links[up].bytes_per_s, 100e9);
    luo_str_free(&s);
    luo_arena_free(arena);
}
END_TEST

static const struct {
    luo_fabric fabric;
    int32_t a, b;
    const char *path;
    double latency_us; /* links + hops, by hand from core/cost/cluster.h */
} paths[] = {
    {LUO_FABRIC_SINGLE, 5, 5, "", 0},
    {LUO_FABRIC_SINGLE, 0, 3, "a-0/nv0> a-0/nv3< ", 1},
    {LUO_FABRIC_SINGLE, 12, 13, "b-0/nv0> ", 1},
    {LUO_FABRIC_SINGLE, 13, 12, "b-0/nv0< ", 1},
    {LUO_FABRIC_SINGLE, 27, 22, "b-1/nv1< ", 1},
    {LUO_FABRIC_SINGLE, 14, 15, "b-0/pcie2> b-0/pcie3< ", 4},
    {LUO_FABRIC_SINGLE, 12, 14, "b-0/pcie0> b-0/sw0> b-0/sw1< b-0/pcie2< ", 8},
    {LUO_FABRIC_SINGLE, 12, 19, "b-0/pcie0> b-0/sw0> b-0/socket> b-0/sw3< b-0/pcie7< ", 10},
    {LUO_FABRIC_SINGLE, 19, 12, "b-0/pcie7> b-0/sw3> b-0/socket< b-0/sw0< b-0/pcie0< ", 10},
    {LUO_FABRIC_SINGLE, 0, 11, "a-0/nic0> a-2/nic3< ", 2.5},
    {LUO_FABRIC_SINGLE, 1, 17, "a-0/nic1> b-0/nic1< b-0/pcie5< ", 4.5},
    {LUO_FABRIC_SINGLE, 27, 2, "b-1/pcie7> b-1/nic1> a-0/nic2< ", 4.5},
    {LUO_FABRIC_TWO_TIER, 0, 5, "a-0/nic0> a-1/nic1< ", 2.5},
    {LUO_FABRIC_TWO_TIER, 0, 11, "a-0/nic0> r0/up> r1/up< a-2/nic3< ", 3.5},
    /* `shared`: NIC (slot_a + slot_b) mod 2 at the end of `b` */
    {LUO_FABRIC_TWO_TIER, 1, 17, "a-0/nic1> r0/up> r1/up< b-0/nic0< b-0/pcie5< ", 5.5},
    {LUO_FABRIC_TWO_TIER, 13, 22, "b-0/pcie1> b-0/nic1> b-1/nic1< b-1/pcie2< ", 6.5},
    {LUO_FABRIC_RAIL, 1, 5, "a-0/nic1> a-1/nic1< ", 2.5},
    {LUO_FABRIC_RAIL, 1, 6, "a-0/nic1> r0/up1> r0/up2< a-1/nic2< ", 3.5},
    {LUO_FABRIC_RAIL, 1, 9, "a-0/nic1> r0/up1> r1/up1< a-2/nic1< ", 3.5},
    {LUO_FABRIC_RAIL, 9, 15, "a-2/nic1> b-0/nic1< b-0/pcie3< ", 4.5},
};

START_TEST(path)
{
    luo_str s = {0};
    luo_hop hops[LUO_PATH_MAX];
    build(paths[_i].fabric);
    const int32_t n = luo_cluster_path(&world, paths[_i].a, paths[_i].b, hops);
    double least = HUGE_VAL;
    for (int32_t i = 0; i < n; i++) {
        luo_str_addf(&s, "%s%c ", world.links[hops[i].link].name, hops[i].up ? '>' : '<');
        least = fmin(least, world.links[hops[i].link].bytes_per_s);
    }
    ck_assert_str_eq(luo_str_get(&s), paths[_i].path);
    ck_assert_double_eq_tol(1e6 * luo_cluster_path_latency(&world, paths[_i].a, paths[_i].b),
                            paths[_i].latency_us, 1e-9);
    ck_assert(luo_cluster_path_bytes_per_s(&world, paths[_i].a, paths[_i].b) == least);
    luo_str_free(&s);
    luo_arena_free(arena);
}
END_TEST

/* The way back uses the same links the other way round, whatever the fabric. */
START_TEST(paths_reverse)
{
    build((luo_fabric)_i);
    for (int32_t a = 0; a < world.ndevices; a++)
        for (int32_t b = 0; b < world.ndevices; b++) {
            luo_hop to[LUO_PATH_MAX], back[LUO_PATH_MAX];
            const int32_t n = luo_cluster_path(&world, a, b, to);
            ck_assert_int_eq(luo_cluster_path(&world, b, a, back), n);
            for (int32_t i = 0; i < n; i++) {
                ck_assert_int_eq(to[i].link, back[n - 1 - i].link);
                ck_assert_int_ne(to[i].up, back[n - 1 - i].up);
            }
            ck_assert((n == 0) == (a == b));
        }
    luo_arena_free(arena);
}
END_TEST

START_TEST(sites)
{
    static const luo_site_link lines[] = {{"main", "west", 1.25e9, 30e-3},
                                          {"far", "west", 1e9, 10e-3}};
    describe(LUO_FABRIC_SINGLE);
    static const char *const other[] = {"r9"};
    luo_node_group three[3] = {groups[0], groups[0], groups[0]};
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"a", "w", "f"};
        static const char *const where[] = {"main", "west", "far"};
        three[i].name = names[i];
        three[i].site = where[i];
        three[i].nodes = 1;
        three[i].nracks = 1;
    }
    three[1].racks = other;
    three[2].racks = &a_racks[2];
    world.ngroups = 3;
    world.groups = three;
    ck_assert_int_eq(luo_cluster_finish(arena, &world, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "sites `main` and `west` are not joined by 10 lines or fewer; add "
                               "one to `site_links`.");
    world.nsite_links = 2;
    world.site_links = lines;
    ck_assert_int_eq(luo_cluster_finish(arena, &world, &err), LUO_OK);
    luo_hop hops[LUO_PATH_MAX];
    luo_str s = {0};
    const int32_t n = luo_cluster_path(&world, 0, 9, hops);
    for (int32_t i = 0; i < n; i++)
        luo_str_addf(&s, "%s%c ", world.links[hops[i].link].name, hops[i].up ? '>' : '<');
    ck_assert_str_eq(luo_str_get(&s), "a-0/nic0> main-west/line> far-west/line< f-0/nic1< ");
    /* two NIC ends of 1 us, the lines, one switch a site */
    ck_assert_double_eq_tol(luo_cluster_path_latency(&world, 0, 9), 2e-6 + 40e-3 + 3 * 0.5e-6,
                            1e-12);
    luo_str_clear(&s);
    three[2].racks = other; /* r9 stands in two sites now */
    ck_assert_int_eq(luo_cluster_finish(arena, &world, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "rack `r9` stands in sites `west` and `far`; name the racks of "
                               "different sites differently.");
    luo_str_free(&s);
    luo_arena_free(arena);
}
END_TEST

static void spoil_names(void) { groups[1].name = "a"; }
static void spoil_racks(void) { groups[0].nracks = 2; }
static void spoil_nics(void) { groups[1].nics = 0; }
static void spoil_uplink(void) { world.rack_uplink_bytes_per_s = 0; }
static void spoil_rails(void) { groups[1].nics = 2; }
static void spoil_inside(void) { groups[0].scale_up = LUO_SCALE_UP_NONE; }
static void spoil_pcie(void) { groups[1].has_pcie = false; }
static void spoil_speed(void) { groups[0].scale_up_bytes_per_s = 0; }
static void spoil_socket(void) { groups[1].socket_bytes_per_s = 0; }
static void spoil_nodes(void) { groups[0].nodes = 0; }
static void spoil_size(void) { groups[0].nodes = 65536, groups[0].nracks = 1; }
static void spoil_none(void) { world.ngroups = 0; }
static void spoil_pair(void)
{
    static const luo_mesh_link bad[] = {{3, 3, 1}};
    groups[1].nmesh = 1;
    groups[1].mesh = bad;
}
static void spoil_twice(void)
{
    static const luo_mesh_link bad[] = {{0, 1, 1}, {0, 1, 2}};
    groups[1].mesh = bad;
}
static void spoil_standby(void)
{
    static const int32_t bad[] = {3, 28};
    world.nstandby = 2;
    world.standby = bad;
}
static void spoil_health(void)
{
    static const luo_health bad[] = {{"node:a-7", true, 0, 12, 9}};
    world.nhealth = 1;
    world.health = bad;
}
static void spoil_any(void)
{
    static const luo_health bad[] = {{"any node:a", true, 0, 12, 9}};
    world.nhealth = 1;
    world.health = bad;
}
static void spoil_line(void)
{
    static const luo_site_link bad[] = {{"main", "moon", 1e9, 0}};
    world.nsite_links = 1;
    world.site_links = bad;
}
static void spoil_loop(void)
{
    static const luo_site_link bad[] = {{"main", "main", 1e9, 0}};
    world.nsite_links = 1;
    world.site_links = bad;
}

static const struct {
    luo_fabric fabric;
    void (*spoil)(void);
    luo_status st;
    const char *says;
} faults[] = {
    {LUO_FABRIC_SINGLE, spoil_names, LUO_EINPUT,
     "two node groups are named `a`; names must differ."},
    {LUO_FABRIC_SINGLE, spoil_racks, LUO_EINPUT,
     "node group `a` lists 2 racks for 3 nodes; one, or one per node, is expected."},
    {LUO_FABRIC_SINGLE, spoil_nics, LUO_EINPUT,
     "node group `b` has no `nics`; they are needed when there is more than one node."},
    {LUO_FABRIC_TWO_TIER, spoil_uplink, LUO_EINPUT,
     "fabric `two_tier` has no `rack_uplink_gbytes_per_s`; give it."},
    {LUO_FABRIC_RAIL, spoil_uplink, LUO_EINPUT,
     "fabric `rail` has no `rack_uplink_gbytes_per_s`; give it."},
    {LUO_FABRIC_RAIL, spoil_rails, LUO_EINPUT,
     "node group `b` has 2 NICs a node and `a` has 4; fabric `rail` needs equal numbers."},
    {LUO_FABRIC_SINGLE, spoil_inside, LUO_EINPUT,
     "node group `a` has 4 devices a node and nothing that joins them; give `scale_up` or `pcie`."},
    {LUO_FABRIC_SINGLE, spoil_pcie, LUO_EINPUT,
     "`scale_up_links` of node group `b` joins 2 of 28 pairs and there is no `pcie` for the "
     "others; give it."},
    {LUO_FABRIC_SINGLE, spoil_speed, LUO_EINPUT,
     "`scale_up` of node group `a` has no `bandwidth_gbytes_per_s`; give a number above 0."},
    {LUO_FABRIC_SINGLE, spoil_socket, LUO_EINPUT,
     "`pcie` of node group `b` has 2 sockets and no `socket_gbytes_per_s`; give it."},
    {LUO_FABRIC_SINGLE, spoil_nodes, LUO_EINPUT,
     "node group `a` has 0 nodes of 4 devices; 1 node or more of 1 to 64 devices is expected."},
    {LUO_FABRIC_SINGLE, spoil_size, LUO_E2BIG,
     "cluster `world` has 262160 devices; at most 131072 are expected."},
    {LUO_FABRIC_SINGLE, spoil_none, LUO_EINPUT,
     "cluster `world` has no device; give a node group."},
    {LUO_FABRIC_SINGLE, spoil_pair, LUO_EINPUT,
     "`scale_up_links` of node group `b` joins slots 3 and 3 by 1 lanes; slots a < b below 8 and 1 "
     "lane or more are expected."},
    {LUO_FABRIC_SINGLE, spoil_twice, LUO_EINPUT,
     "`scale_up_links` of node group `b` lists slots 0 and 1 twice; give one pair with more "
     "lanes."},
    {LUO_FABRIC_SINGLE, spoil_standby, LUO_EINPUT,
     "`standby` names device 28; cluster `world` has devices 0 to 27."},
    {LUO_FABRIC_SINGLE, spoil_health, LUO_EINPUT,
     "`target` is `node:a-7`; group `a` has nodes 0 to 2."},
    {LUO_FABRIC_SINGLE, spoil_any, LUO_EINPUT,
     "`target` is `any node:a`; health needs a fixed one, without `any`."},
    {LUO_FABRIC_SINGLE, spoil_line, LUO_EINPUT,
     "`site_links` names site `moon`; no node group stands there."},
    {LUO_FABRIC_SINGLE, spoil_loop, LUO_EINPUT,
     "`site_links` joins site `main` to itself; two sites are expected."},
};

START_TEST(fault)
{
    describe(faults[_i].fabric);
    faults[_i].spoil();
    ck_assert_int_eq(luo_cluster_finish(arena, &world, &err), faults[_i].st);
    ck_assert_str_eq(err.text, faults[_i].says);
    ck_assert_int_eq(err.line, strstr(err.text, "`target`") ? 12 : 0);
    luo_arena_free(arena);
}
END_TEST

/* choices as "name: devices links; ", a long list of links as its count. */
static const struct {
    luo_fabric fabric;
    const char *text, *choices; /* or the sentence */
    luo_status st;
} targets[] = {
    {LUO_FABRIC_TWO_TIER, "device:12", "device:12: [12] ; ", LUO_OK},
    {LUO_FABRIC_TWO_TIER, "device:[0-3,7]", "device:[0-3,7]: [0-3,7] ; ", LUO_OK},
    {LUO_FABRIC_TWO_TIER, "device:b-1/3", "device:b-1/3: [23] ; ", LUO_OK},
    {LUO_FABRIC_TWO_TIER, "node:a-1",
     "node:a-1: [4-7] a-1/nv0 a-1/nv1 a-1/nv2 a-1/nv3 a-1/nic0 a-1/nic1 a-1/nic2 a-1/nic3 ; ",
     LUO_OK},
    {LUO_FABRIC_TWO_TIER, "group:b", "group:b: [12-27] 34 links ; ", LUO_OK},
    {LUO_FABRIC_TWO_TIER, "rack:r1", "rack:r1: [8-27] 42 links ; ", LUO_OK},
    {LUO_FABRIC_TWO_TIER, "switch:a-2/nvswitch",
     "switch:a-2/nvswitch: [] a-2/nv0 a-2/nv1 a-2/nv2 a-2/nv3 ; ", LUO_OK},
    {LUO_FABRIC_TWO_TIER, "switch:r1/leaf",
     "switch:r1/leaf: [] a-2/nic0 a-2/nic1 a-2/nic2 a-2/nic3 b-0/nic0 b-0/nic1 b-1/nic0 b-1/nic1 "
     "r1/up ; ",
     LUO_OK},
    {LUO_FABRIC_RAIL, "switch:r0/leaf2", "switch:r0/leaf2: [] a-0/nic2 a-1/nic2 r0/up2 ; ", LUO_OK},
    {LUO_FABRIC_TWO_TIER, "switch:spine", "switch:spine: [] r0/up r1/up ; ", LUO_OK},
    {LUO_FABRIC_SINGLE, "switch:spine", "switch:spine: [] 16 links ; ", LUO_OK},
    {LUO_FABRIC_TWO_TIER, "link:b-0/sw3", "link:b-0/sw3: [] b-0/sw3 ; ", LUO_OK},
    {LUO_FABRIC_TWO_TIER, "link:storage", "link:storage: [] storage ; ", LUO_OK},
    {LUO_FABRIC_TWO_TIER, "any device:[3,1]", "any device:3: [3] ; device:1: [1] ; ", LUO_OK},
    {LUO_FABRIC_TWO_TIER, "any node:b",
     "any node:b-0: [12-19] 17 links ; node:b-1: [20-27] 17 links ; ", LUO_OK},
    {LUO_FABRIC_TWO_TIER, "any link:b",
     "any link:b-0/nic0: [] b-0/nic0 ; link:b-0/nic1: [] b-0/nic1 ; link:b-1/nic0: [] b-1/nic0 ; "
     "link:b-1/nic1: [] b-1/nic1 ; ",
     LUO_OK},

    {LUO_FABRIC_SINGLE, "gpu:3",
     "`device:`, `node:`, `group:`, `rack:`, `switch:` or `link:` and a name is expected.",
     LUO_EPARSE},
    {LUO_FABRIC_SINGLE, "device",
     "`device:`, `node:`, `group:`, `rack:`, `switch:` or `link:` and a name is expected.",
     LUO_EPARSE},
    {LUO_FABRIC_SINGLE, "device:x",
     "a device id, a device set `[0-3]` or an alias `h20-1/3` is expected.", LUO_EPARSE},
    {LUO_FABRIC_SINGLE, "device:[0-3", "device set `[0-3`, column 5: `]` is expected.", LUO_EPARSE},
    {LUO_FABRIC_SINGLE, "device:[5-28]", "device set `[5-28]`: devices are 0 to 27.", LUO_EINPUT},
    {LUO_FABRIC_SINGLE, "device:28", "device set `28`: devices are 0 to 27.", LUO_EINPUT},
    {LUO_FABRIC_SINGLE, "device:[]", "at least one device is expected.", LUO_EINPUT},
    {LUO_FABRIC_SINGLE, "device:b-1/8", "node `b-1` has slots 0 to 7.", LUO_EINPUT},
    {LUO_FABRIC_SINGLE, "node:a-9", "group `a` has nodes 0 to 2.", LUO_EINPUT},
    {LUO_FABRIC_SINGLE, "node:a-01", "group `a` has nodes 0 to 2.", LUO_EINPUT},
    {LUO_FABRIC_SINGLE, "node:a-", "group `a` has nodes 0 to 2.", LUO_EINPUT},
    {LUO_FABRIC_SINGLE, "node:h20-0", "no group is named `h20`; `a` or `b` is expected.",
     LUO_EINPUT},
    {LUO_FABRIC_SINGLE, "node:a", "a node is named GROUP-I, as `h20-1`.", LUO_EINPUT},
    {LUO_FABRIC_SINGLE, "group:c", "no group is named `c`; `a` or `b` is expected.", LUO_EINPUT},
    {LUO_FABRIC_SINGLE, "rack:r7", "no rack is named `r7`, the first is `r0`.", LUO_EINPUT},
    {LUO_FABRIC_SINGLE, "switch:r0/leaf",
     "a `single` fabric has no leaves, its one switch is `spine`.", LUO_EINPUT},
    {LUO_FABRIC_TWO_TIER, "switch:r0/leaf1", "rack `r0` has one switch, `leaf`.", LUO_EINPUT},
    {LUO_FABRIC_RAIL, "switch:r0/leaf4", "rack `r0` has switches `leaf0` to `leaf3`.", LUO_EINPUT},
    {LUO_FABRIC_RAIL, "switch:r4/leaf0", "no rack is named `r4`, the first is `r0`.", LUO_EINPUT},
    {LUO_FABRIC_SINGLE, "switch:b-0/nvswitch", "node `b-0` has no nvswitch.", LUO_EINPUT},
    {LUO_FABRIC_SINGLE, "switch:tor",
     "a switch is `NODE/nvswitch`, `RACK/leaf` (`RACK/leafK` with rails) or `spine`.", LUO_EINPUT},
    {LUO_FABRIC_SINGLE, "link:a-0/nic4",
     "no link has that name, names are as `h20-1/nic3`, `r0/up` or `storage`.", LUO_EINPUT},
    {LUO_FABRIC_SINGLE, "any rack:r0",
     "`any` draws a device of a set, a node or a link of a group.", LUO_EINPUT},
    {LUO_FABRIC_SINGLE, "any node:r0", "no group is named `r0`; `a` or `b` is expected.",
     LUO_EINPUT},
};

START_TEST(target)
{
    luo_target t = {.nchoices = 99};
    luo_str s = {0};
    build(targets[_i].fabric);
    const luo_status st = luo_target_parse(arena, &world, targets[_i].text, &t, &err);
    ck_assert_int_eq(st, targets[_i].st);
    if (st != LUO_OK) {
        luo_str_addf(&s, "`target` is `%s`; %s", targets[_i].text, targets[_i].choices);
        ck_assert_str_eq(err.text, luo_str_get(&s));
        ck_assert_int_eq(t.nchoices, 99); /* untouched */
    } else {
        if (t.any) luo_str_add(&s, "any ");
        for (int32_t i = 0; i < t.nchoices; i++) {
            const struct luo_target_choice *c = &t.choices[i];
            luo_str_addf(&s, "%s: ", c->name);
            luo_devset_print(&s, c->dev, c->ndev);
            luo_str_addc(&s, ' ');
            if (c->nlink > 12) luo_str_addf(&s, "%d links ", c->nlink);
            for (int32_t k = 0; k < c->nlink && c->nlink <= 12; k++)
                luo_str_addf(&s, "%s ", world.links[c->link[k]].name);
            luo_str_add(&s, "; ");
        }
        ck_assert_str_eq(luo_str_get(&s), targets[_i].choices);
        ck_assert_int_eq(t.kind == LUO_TARGET_LINKS, t.choices[0].ndev == 0);
    }
    luo_str_free(&s);
    luo_arena_free(arena);
}
END_TEST

/* What `health` says holds when the run begins: slowdowns multiply, a node that is down has all its
 * devices down but its links up, a link is down where it is named, and only there. */
START_TEST(health)
{
    static const luo_health rows[] = {{.target = "device:[1-2]", .slowdown = 1.5},
                                      {.target = "device:2", .slowdown = 2},
                                      {.target = "node:a-2", .down = true},
                                      {.target = "link:b-1/nic0", .down = true},
                                      {.target = "device:27", .down = true}};
    luo_world *w;
    int32_t links_down = 0;
    describe(LUO_FABRIC_TWO_TIER);
    world.nhealth = LUO_ROWS(rows);
    world.health = rows;
    ck_assert_int_eq(luo_cluster_finish(arena, &world, &err), LUO_OK);
    ck_assert_msg(luo_world_new(arena, &world, &w, &err) == LUO_OK, "%s", err.text);
    for (int32_t d = 0; d < world.ndevices; d++) {
        ck_assert(w->slowdown[d] == (d == 1 ? 1.5 : d == 2 ? 3 : 1));
        ck_assert(w->up[d] == !((d >= 8 && d < 12) || d == 27));
    }
    for (int32_t i = 0; i < world.nlinks; i++) {
        const bool named = strcmp(world.links[i].name, "b-1/nic0") == 0;
        ck_assert(w->link_factor[i] == !named && w->link_extra_latency_s[i] == 0);
        links_down += named;
    }
    ck_assert_int_eq(links_down, 1);
    luo_arena_free(arena);
}
END_TEST

/* 16,384 devices: names, indices and a path through the middle. */
START_TEST(large)
{
    arena = luo_arena_new(1 << 20);
    ref = luo_ref_profile();
    luo_node_group g = luo_test_group("h", 2048, 8, &ref);
    const char **racks = LUO_NEW_N(arena, const char *, 2048);
    for (int32_t i = 0; i < 2048; i++) racks[i] = luo_arena_printf(arena, "r%d", i / 16);
    g.nracks = 2048;
    g.racks = racks;
    g.has_pcie = true;
    g.pcie_bytes_per_s = 50e9;
    world = (luo_cluster){.name = "large", .ngroups = 1, .groups = &g,
                          .fabric = LUO_FABRIC_TWO_TIER, .rack_uplink_bytes_per_s = 3200e9};
    ck_assert_int_eq(luo_cluster_finish(arena, &world, &err), LUO_OK);
    ck_assert_int_eq(world.ndevices, 16384);
    ck_assert_int_eq(world.nlinks, 3 * 16384 + 128);
    luo_hop hops[LUO_PATH_MAX];
    for (int32_t i = 0; i < 1000000; i++) /* no scan could do that */
        ck_assert(luo_cluster_path(&world, i % 16384, 16383 - i % 16384, hops) == 6 ||
                  i % 16384 / 128 == (16383 - i % 16384) / 128);
    luo_arena_free(arena);
}
END_TEST

LUO_SUITE("cluster", LUO_T(numbers), LUO_T(link_names), LUO_T_N(path, LUO_ROWS(paths)),
          LUO_T_N(paths_reverse, 3), LUO_T(sites), LUO_T(health), LUO_T_N(fault, LUO_ROWS(faults)),
          LUO_T_N(target, LUO_ROWS(targets)), LUO_T(large))
