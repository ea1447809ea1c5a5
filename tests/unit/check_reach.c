/* check_reach.c: which devices can take part when links are down: rows by hand, and
 * random clusters against a slow twin that knows links by their names alone. */
#include "core/base/rng.h"
#include "core/run/events/reach.h"
#include "tests/cluster_fixture.h"
#include "tests/prop/prop.h"

static luo_arena *arena;

/* ---- by hand: 2 sites; g0: 2 nodes of 4, g1: 1 node of 4 ---- */

static const luo_mesh_link square[] = {{0, 1, 1}, {1, 2, 1}, {2, 3, 1}, {0, 3, 1}, {0, 2, 1},
                                       {1, 3, 1}};
static const luo_site_link line = {"here", "there", 1e9, 1e-3};

static luo_node_group *group(luo_arena *a, int32_t g, int32_t nodes, int32_t slots,
                             luo_node_group *out)
{
    const char **racks = LUO_NEW_N(a, const char *, nodes);
    for (int32_t i = 0; i < nodes; i++) racks[i] = luo_arena_printf(a, "r%d%d", g, i % 2);
    *out = (luo_node_group){.name = luo_arena_printf(a, "g%d", g), .site = "here", .nodes = nodes,
                            .devices_per_node = slots, .nracks = nodes, .racks = racks,
                            .profile = fixture_profile(a, luo_arena_printf(a, "type%d", g)),
                            .base_slowdown = 1, .scale_up = LUO_SCALE_UP_NVSWITCH,
                            .scale_up_bytes_per_s = 200e9, .has_pcie = true,
                            .pcie_bytes_per_s = 20e9, .socket_bytes_per_s = 20e9,
                            .devices_per_switch = 2, .sockets = 2, .nics = 2,
                            .nic_bytes_per_s = 25e9, .host_cores = 64};
    return out;
}

static luo_cluster *finish(luo_cluster *c)
{
    luo_err err = {0};
    c->name = "c";
    c->rack_uplink_bytes_per_s = 400e9;
    ck_assert_msg(luo_cluster_finish(arena, c, &err) == LUO_OK, "%s", err.text);
    return c;
}

static luo_cluster *two_sites(void)
{
    luo_cluster *c = LUO_NEW(arena, luo_cluster);
    c->ngroups = 2;
    c->groups = LUO_NEW_N(arena, luo_node_group, 2);
    group(arena, 0, 2, 4, &c->groups[0]);
    group(arena, 1, 1, 4, &c->groups[1]);
    c->groups[1].site = "there";
    c->groups[1].scale_up = LUO_SCALE_UP_MESH;
    c->groups[1].mesh = square;
    c->groups[1].nmesh = 6;
    c->groups[1].nic_shared = true;
    c->fabric = LUO_FABRIC_TWO_TIER;
    c->nsite_links = 1;
    c->site_links = &line;
    c->storage_read_bytes_per_s = 1e9;
    return finish(c);
}

static const struct row {
    const char *dead, *cut; /* device 10 is `a`, 11 `b` */
    const char *touched;    /* of these plans: devices 0 1; 4 to 7; 8 */
} rows[] = {
    {"g0-0/nv0", "0", "x.."},      {"g0-0/nv3", "3", "x.."},      {"g0-1/nv0", "4", ".x."},
    {"g1-0/nv0", "89", "..x"},     {"g1-0/nv2", "ab", "..x"},     {"g1-0/nv5", "9b", "..x"},
    {"g0-1/pcie2", "6", ".x."},    {"g1-0/pcie3", "b", "..x"},    {"g0-0/sw0", "01", "x.."},
    {"g0-0/sw1", "23", "x.."},     {"g0-1/socket", "4567", ".x."}, {"g0-0/nic0", "01", "x.."},
    {"g0-0/nic1", "23", "x.."},    {"g1-0/nic0", "89ab", "..x"},  {"g1-0/nic1", "89ab", "..x"},
    {"r00/up", "0123", "x.."},     {"r01/up", "4567", ".x."},     {"r10/up", "89ab", "..x"},
    {"here-there/line", "89ab", "xxx"}, {"storage", "", "xxx"},
};

START_TEST(by_hand)
{
    static const int32_t plans[3][4] = {{0, 1, 0, 1}, {4, 5, 6, 7}, {8, 8, 8, 8}};
    const struct row *row = &rows[_i];
    bool usable[12];
    luo_world *w;
    arena = luo_arena_new(0);
    const luo_cluster *c = two_sites();
    const int32_t l = luo_cluster_find_link(c, row->dead);
    ck_assert_msg(l >= 0, "%s", row->dead);
    ck_assert_int_eq(luo_world_new(arena, c, &w, NULL), LUO_OK);
    luo_reach(c, w, usable);
    for (int32_t d = 0; d < 12; d++) ck_assert(usable[d]);
    w->link_factor[l] = 1e-9; /* slow is not dead */
    luo_reach(c, w, usable);
    for (int32_t d = 0; d < 12; d++) ck_assert(usable[d]);
    w->link_factor[l] = 0;
    luo_reach(c, w, usable);
    for (int32_t d = 0; d < 12; d++)
        ck_assert_msg(usable[d] == !strchr(row->cut, "0123456789ab"[d]), "%s, device %d", row->dead,
                      d);
    w->up[5] = false;
    luo_reach(c, w, usable);
    for (int32_t d = 0; d < 12; d++)
        ck_assert(usable[d] == (d != 5 && !strchr(row->cut, "0123456789ab"[d])));
    for (int p = 0; p < 3; p++) {
        bool in_plan[12] = {0};
        for (int k = 0; k < 4; k++) in_plan[plans[p][k]] = true;
        ck_assert_int_eq(luo_reach_link_touches(c, l, in_plan), row->touched[p] == 'x');
    }
    luo_arena_free(arena);
}
END_TEST

/* ---- the slow twin ---- */

static int32_t devices_of_site(const luo_cluster *c, const char *site)
{
    int32_t n = 0;
    for (int32_t d = 0; d < c->ndevices; d++)
        n += strcmp(c->groups[c->nodes[c->devices[d].node].group].site, site) == 0;
    return n;
}

/* Is the device lost with the link of that name? */
static bool is_cut(const luo_cluster *c, const char *link, int32_t d)
{
    const luo_node *node = &c->nodes[c->devices[d].node];
    const luo_node_group *g = &c->groups[node->group];
    const int32_t slot = d - node->first_device, per = g->devices_per_node;
    const char *slash = strchr(link, '/');
    if (!slash) return false; /* storage */
    const size_t len = (size_t)(slash - link);
    if (strcmp(slash, "/line") == 0) {
        const luo_site_link *l = c->site_links;
        const int32_t a = devices_of_site(c, l->a), b = devices_of_site(c, l->b);
        return strcmp(g->site, b > a ? l->a : l->b) == 0;
    }
    if (strncmp(slash, "/up", 3) == 0) {
        const char *rack = c->racks[node->rack];
        return c->nracks > 1 && strlen(rack) == len && strncmp(rack, link, len) == 0;
    }
    if (strlen(node->name) != len || strncmp(node->name, link, len) != 0) return false;
    if (strcmp(slash, "/socket") == 0) return true;
    const int32_t k = atoi(slash + 1 + strcspn(slash + 1, "0123456789"));
    if (strncmp(slash, "/nv", 3) == 0 && g->scale_up == LUO_SCALE_UP_MESH)
        return g->mesh[k].a == slot || g->mesh[k].b == slot;
    if (strncmp(slash, "/nv", 3) == 0 || strncmp(slash, "/pcie", 5) == 0) return slot == k;
    if (strncmp(slash, "/sw", 3) == 0)
        return slot >= k * g->devices_per_switch && slot < (k + 1) * g->devices_per_switch;
    const int32_t first = (k * per + g->nics - 1) / g->nics;
    const int32_t next = ((k + 1) * per + g->nics - 1) / g->nics;
    return g->nic_shared || (slot >= first && slot < next);
}

static luo_cluster *random_cluster(luo_rng *g)
{
    static const int32_t nics[] = {1, 2, 3, 4, 8};
    luo_cluster *c = LUO_NEW(arena, luo_cluster);
    c->ngroups = 1 + (int32_t)(3 * luo_rng_u(g));
    c->groups = LUO_NEW_N(arena, luo_node_group, c->ngroups);
    c->fabric = (luo_fabric)(int)(3 * luo_rng_u(g));
    const int32_t rails = nics[(int)(5 * luo_rng_u(g))];
    const bool one_rack = c->ngroups == 1 && luo_rng_u(g) < 0.5;
    const bool sites = c->ngroups > 1 && luo_rng_u(g) < 0.5;
    for (int32_t i = 0; i < c->ngroups; i++) {
        const int32_t slots = luo_rng_u(g) < 0.5 ? 4 : 8;
        luo_node_group *x = group(arena, i, 1 + (int32_t)(4 * luo_rng_u(g)), slots, &c->groups[i]);
        if (slots == 4 && luo_rng_u(g) < 0.4) {
            x->scale_up = LUO_SCALE_UP_MESH;
            x->mesh = square;
            x->nmesh = 6;
        } else if (luo_rng_u(g) < 0.3) {
            x->scale_up = LUO_SCALE_UP_NONE;
        }
        x->nics = c->fabric == LUO_FABRIC_RAIL ? rails : nics[(int)(5 * luo_rng_u(g))];
        if (one_rack) x->nracks = 1;
        x->nic_shared = luo_rng_u(g) < 0.2;
        x->devices_per_switch = luo_rng_u(g) < 0.5 ? 2 : 4;
        if (sites && i > 0) x->site = "there";
    }
    c->nsite_links = sites;
    c->site_links = sites ? &line : NULL;
    c->storage_read_bytes_per_s = 1e9;
    return finish(c);
}

START_TEST(against_names)
{
    LUO_PROP_FOR(seed, 300)
    {
        luo_rng g = luo_rng_seed(seed);
        luo_world *w;
        arena = luo_arena_new(1 << 16);
        const luo_cluster *c = random_cluster(&g);
        bool *usable = LUO_NEW_N(arena, bool, c->ndevices);
        ck_assert_int_eq(luo_world_new(arena, c, &w, NULL), LUO_OK);
        for (int round = 0; round < 20; round++) {
            for (int32_t l = 0; l < c->nlinks; l++) w->link_factor[l] = luo_rng_u(&g);
            for (int32_t d = 0; d < c->ndevices; d++) w->up[d] = luo_rng_u(&g) > 0.05;
            for (int k = 1 + round % 3; k > 0; k--)
                w->link_factor[(int32_t)(luo_rng_u(&g) * c->nlinks)] = 0;
            luo_reach(c, w, usable);
            for (int32_t d = 0; d < c->ndevices; d++) {
                bool expect = w->up[d];
                for (int32_t l = 0; l < c->nlinks; l++)
                    expect &= w->link_factor[l] > 0 || !is_cut(c, c->links[l].name, d);
                ck_assert_msg(usable[d] == expect, "seed %llu, round %d, device %d",
                              (unsigned long long)seed, round, d);
            }
        }
        luo_arena_free(arena);
    }
}
END_TEST

LUO_SUITE("run.reach", LUO_T_N(by_hand, LUO_ROWS(rows)), LUO_T(against_names))
