/* Platform files that `luoshu export simgrid-xml` writes, as SimGrid reads them: the route between
 * any two devices has the links, the latency and the bandwidth of luo_cluster_path. A row is a
 * process of its own (one engine per process); routes exist once the run has begun. */
#include <simgrid/actor.h>
#include <simgrid/comm.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/link.h>
#include <unistd.h>
#include <xbt/config.h>
#include <xbt/dynar.h>

#include "core/io/export/export.h"
#include "core/io/read/read.h"
#include "sim/shim.h"
#include "tests/check_main.h"

#define CARDS "nics: {count: 2, bandwidth_gbytes_per_s: 25, latency_us: 2}}\n"
#define PCIE                                                                                       \
    "pcie: {bandwidth_gbytes_per_s: 50, latency_us: 1.5, devices_per_switch: 1, sockets: 2, "      \
    "socket_gbytes_per_s: 60}, "

static const struct {
    const char *name, *text; /* text NULL: a file of scenarios/clusters */
} rows[] = {
    {"dgx1-v100", NULL},
    {"a100-64", NULL},
    {"mixed48", NULL},
    {"rtx4090-t4-2x8", NULL},
    {"h20x24-h800x8", NULL},
    {"tiny8", NULL},
    {"rails",
     "schema: luoshu.cluster/1\nname: rails\nnode_groups:\n"
     "  - {name: g, nodes: 4, devices_per_node: 4, profile: h20, racks: [r0, r0, r1, \"a&b\"], "
     "scale_up: {kind: nvswitch, bandwidth_gbytes_per_s: 450, latency_us: 1}, " PCIE CARDS
     "fabric: {kind: rail, hop_latency_us: 0.5, rack_uplink_gbytes_per_s: 40}\n"},
    {"sites",
     "schema: luoshu.cluster/1\nname: sites\nnode_groups:\n"
     "  - {name: a, nodes: 2, devices_per_node: 4, profile: h20, racks: [r0, r1], site: one, " PCIE
         CARDS "  - {name: b, nodes: 1, devices_per_node: 4, profile: h800, racks: [r2], site: "
     "two, scale_up: {kind: nvswitch, bandwidth_gbytes_per_s: 400, latency_us: 1}, " CARDS
     "  - {name: c, nodes: 1, devices_per_node: 4, profile: h20, racks: [r3], site: three, " PCIE
         CARDS "fabric:\n  kind: two_tier\n  hop_latency_us: 0.5\n"
     "  rack_uplink_gbytes_per_s: 40\n  site_links:\n"
     "    - {a: one, b: two, bandwidth_gbytes_per_s: 5, latency_us: 100}\n"
     "    - {a: three, b: two, bandwidth_gbytes_per_s: 3, latency_us: 300}\n"},
    {"lines",
     "schema: luoshu.cluster/1\nname: lines\nnode_groups:\n"
     "  - {name: a, nodes: 2, devices_per_node: 2, profile: h20, site: one, " PCIE CARDS
     "  - {name: b, nodes: 1, devices_per_node: 2, profile: h20, racks: [r1], site: two, " PCIE
         CARDS "fabric:\n  kind: single\n  hop_latency_us: 0.7\n  site_links:\n"
     "    - {a: two, b: one, bandwidth_gbytes_per_s: 5, latency_us: 100}\n"},
};

static const luo_cluster *cluster;
static int64_t routes;

static luo_status write_file(void *ctx, const char *name, const luo_str *text, luo_err *err)
{
    (void)err;
    ck_assert_ptr_null(name);
    ck_assert_int_eq(write(*(int *)ctx, luo_str_get(text), text->len), (ssize_t)text->len);
    return LUO_OK;
}

static sg_host_t host_of(int32_t device)
{
    char name[128];
    const luo_device *d = &cluster->devices[device];
    snprintf(name, sizeof name, "%s/%d", cluster->nodes[d->node].name, d->slot);
    sg_host_t host = sg_host_by_name(name);
    ck_assert_msg(host != NULL, "no host %s", name);
    return host;
}

enum { LINKS = 64, NAME = 128 };
typedef struct route {
    int n;
    char name[LINKS][NAME];
} route;

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Without the links that only make a route longer. Sorted: SimGrid 3.32 turns the links of one edge
 * around, and a transfer holds all of its links at once. */
static void find_route(route *out, sg_host_t from, sg_host_t to)
{
    xbt_dynar_t links = xbt_dynar_new(sizeof(sg_link_t), NULL);
    sg_host_get_route(from, to, links);
    out->n = 0;
    for (unsigned long i = 0; i < xbt_dynar_length(links); i++) {
        const char *name = sg_link_get_name(xbt_dynar_get_as(links, i, sg_link_t));
        if (strcmp(name, "hop") == 0 || strcmp(name, "pad") == 0) continue;
        ck_assert_int_lt(out->n, LINKS);
        snprintf(out->name[out->n++], NAME, "%s", name);
    }
    xbt_dynar_free_container(&links);
    qsort(out->name, (size_t)out->n, NAME, by_name);
}

static void find_path(route *out, int32_t from, int32_t to)
{
    luo_hop hops[LUO_PATH_MAX];
    out->n = luo_cluster_path(cluster, from, to, hops);
    for (int32_t i = 0; i < out->n; i++)
        snprintf(out->name[i], NAME, "%s_%s", cluster->links[hops[i].link].name,
                 hops[i].up ? "UP" : "DOWN");
    qsort(out->name, (size_t)out->n, NAME, by_name);
}

static void check_route(int32_t from, int32_t to)
{
    route want, got;
    find_path(&want, from, to);
    find_route(&got, host_of(from), host_of(to));
    ck_assert_msg(got.n == want.n, "%d to %d: %d links, not %d", from, to, got.n, want.n);
    for (int i = 0; i < got.n; i++)
        ck_assert_msg(strcmp(got.name[i], want.name[i]) == 0, "%d to %d: %s, not %s", from, to,
                      got.name[i], want.name[i]);
    ck_assert_double_eq_tol(sg_host_get_route_latency(host_of(from), host_of(to)),
                            luo_cluster_path_latency(cluster, from, to), 1e-12);
    ck_assert_double_eq_tol(sg_host_get_route_bandwidth(host_of(from), host_of(to)) /
                                luo_cluster_path_bytes_per_s(cluster, from, to),
                            1, 1e-9);
    routes++;
}

/* One transfer takes latency + bytes / bandwidth, as docs/architecture/simulator.md has it. */
static void check_transfer(int32_t from, int32_t to)
{
    const double bytes = 1e9, begin = simgrid_get_clock();
    sg_comm_t comm = luo_shim_send(host_of(from), host_of(to), (uint64_t)bytes);
    ck_assert_ptr_nonnull(comm);
    ck_assert_int_eq(sg_comm_wait(comm), SG_OK);
    ck_assert_double_eq_tol(simgrid_get_clock() - begin,
                            luo_cluster_path_latency(cluster, from, to) +
                                bytes / luo_cluster_path_bytes_per_s(cluster, from, to),
                            1e-6);
}

static void check_all(int argc, char **argv)
{
    (void)argc, (void)argv;
    for (int32_t a = 0; a < cluster->ndevices; a++)
        for (int32_t b = 0; b < cluster->ndevices; b++)
            if (a != b) check_route(a, b);
    check_transfer(0, 1);
    check_transfer(1, cluster->ndevices - 1);
}

static luo_cluster *read_row(luo_arena *arena, int i)
{
    luo_diags diags;
    luo_cluster *out = NULL;
    luo_status st;
    luo_diags_init(&diags, arena);
    if (rows[i].text) {
        const luo_source src = {"scenarios/clusters/made.yaml", rows[i].text, strlen(rows[i].text)};
        st = luo_read_cluster_text(arena, &src, NULL, &out, &diags);
    } else {
        st = luo_read_cluster(arena,
                              luo_arena_printf(arena, "scenarios/clusters/%s.yaml", rows[i].name),
                              &out, &diags);
    }
    ck_assert_msg(st == LUO_OK, "%s: %s", rows[i].name, diags.first ? diags.first->err.text : "");
    return out;
}

static void load(luo_arena *arena)
{
    char path[] = "/tmp/luoshu-platform-XXXXXX.xml";
    int fd = mkstemps(path, 4);
    const luo_export_source source = {.cluster = cluster};
    const luo_export_sink sink = {write_file, NULL, &fd};
    luo_export_made made;
    luo_err err = {0};
    ck_assert_int_ge(fd, 0);
    ck_assert_msg(luo_export(arena, LUO_EXPORT_SIMGRID, &source, &sink, &made, &err) == LUO_OK,
                  "%s", err.text);
    close(fd);
    simgrid_load_platform(path);
    unlink(path);
}

START_TEST(routes_are_those_of_the_cluster)
{
    luo_arena *arena = luo_arena_new(0);
    char name[] = "export", plain[] = "--cfg=network/model:CM02",
         gamma[] = "--cfg=network/TCP-gamma:0";
    char crosstraffic[] = "--cfg=network/crosstraffic:0";
    char *argv[] = {name, plain, gamma, crosstraffic, NULL};
    int argc = 4;
    cluster = read_row(arena, _i);
    simgrid_init(&argc, argv);
    load(arena);
    sg_actor_create("check", host_of(0), check_all, 0, NULL);
    simgrid_run();
    ck_assert_int_eq(routes, (int64_t)cluster->ndevices * (cluster->ndevices - 1));
    luo_arena_free(arena);
}
END_TEST

/* Which of several shared cards a route takes depends on both ends: no graph has that. */
START_TEST(shared_cards_are_refused)
{
    luo_arena *arena = luo_arena_new(0);
    luo_cluster *c = read_row(arena, 0);
    const luo_export_source source = {.cluster = c};
    const luo_export_sink sink = {write_file, NULL, NULL};
    luo_export_made made;
    luo_err err = {0};
    c->groups[0].nic_shared = true;
    ck_assert_int_eq(luo_export(arena, LUO_EXPORT_SIMGRID, &source, &sink, &made, &err),
                     LUO_EUNREP);
    ck_assert_str_eq(err.text, "a SimGrid platform file can't express the 4 shared NICs of group "
                               "`v100`: which of them is taken depends on both ends of a route.");
    luo_arena_free(arena);
}
END_TEST

LUO_SUITE("export.simgrid", LUO_T_N(routes_are_those_of_the_cluster, LUO_ROWS(rows)),
          LUO_T(shared_cards_are_refused))
