#include "core/io/trace/trace_cluster.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/result/result.h"

typedef struct nodes {
    luo_arena *arena;
    luo_diags *diags;
    luo_node_group *group;
    int32_t ngroups, cap;
    int32_t ndevices;
    const char *last; /* name of the node of the device before */
} nodes;

static luo_status nomem(const nodes *n)
{
    luo_err err;
    luo_err_nomem(&err);
    return luo_diags_err(n->diags, &err);
}

static luo_node_group *add_group(nodes *n, const char *name, size_t len)
{
    static const char *const racks[] = {"r0"};
    if (n->ngroups == n->cap) {
        const int32_t cap = n->cap ? 2 * n->cap : 8;
        luo_node_group *more = LUO_NEW_N(n->arena, luo_node_group, cap);
        if (!more) return NULL;
        if (n->ngroups) memcpy(more, n->group, (size_t)n->ngroups * sizeof *more);
        n->group = more;
        n->cap = cap;
    }
    luo_node_group *group = &n->group[n->ngroups];
    *group = (luo_node_group){.name = luo_arena_strndup(n->arena, name, len),
                              .site = "main",
                              .nracks = 1,
                              .racks = racks,
                              .base_slowdown = 1,
                              .has_pcie = true,
                              .pcie_bytes_per_s = 1e9,
                              .sockets = 1,
                              .nics = 1,
                              .nic_bytes_per_s = 1e9,
                              .host_cores = 1};
    n->ngroups++;
    return group->name ? group : NULL;
}

/* One more slot of the first node of a group; equal types have one profile. */
static bool add_slot(nodes *n, luo_node_group *group, const char *type)
{
    const luo_profile **all = LUO_NEW_N(n->arena, const luo_profile *, group->devices_per_node + 1);
    luo_profile *own = LUO_NEW(n->arena, luo_profile);
    const luo_profile *known = NULL;
    if (!all || !own) return false;
    for (int32_t s = 0; s < group->devices_per_node; s++) {
        all[s] = group->profiles[s];
        if (strcmp(all[s]->name, type) == 0) known = all[s];
    }
    *own = (luo_profile){.name = luo_arena_strdup(n->arena, type)};
    all[group->devices_per_node] = known ? known : own;
    group->devices_per_switch = ++group->devices_per_node;
    group->profiles = all;
    group->profile = all[0];
    return own->name != NULL;
}

/* The next device: of the node before, of the next one of its group (GROUP-1 after GROUP-0), or of
 * another group. All nodes of a group are alike. */
static luo_status add_device(nodes *n, const char *node, const char *type)
{
    const char *dash = strrchr(node, '-');
    const size_t len = dash ? (size_t)(dash - node) : strlen(node);
    luo_node_group *group = n->ngroups ? &n->group[n->ngroups - 1] : NULL;
    const bool same_group =
        group && strlen(group->name) == len && strncmp(group->name, node, len) == 0;
    const bool same_node = same_group && strcmp(n->last, node) == 0;
    if (!same_group) group = add_group(n, node, len);
    if (!group) return nomem(n);
    if (!same_node) {
        group->nodes++;
        n->last = luo_arena_strdup(n->arena, node);
        if (!n->last) return nomem(n);
    }
    if (group->nodes == 1 && !add_slot(n, group, type)) return nomem(n);
    n->ndevices++;
    return LUO_OK;
}

static luo_status read_devices(nodes *n, const char *dir)
{
    luo_csv_cell cells[LUO_CSV_COLUMNS];
    luo_status st = LUO_OK;
    luo_csv *csv = luo_result_table(n->arena, dir, LUO_TABLE_DEVICES, n->diags);
    while (st == LUO_OK && csv && luo_csv_next(csv, cells)) {
        if (cells[LUO_COL_DEVICES_device].whole != n->ndevices || n->ndevices >= LUO_DEVICES_MAX)
            st = luo_csv_error(csv, LUO_COL_DEVICES_device,
                               "`device` is `%lld`; device %d is expected.",
                               (long long)cells[LUO_COL_DEVICES_device].whole, n->ndevices);
        else
            st = add_device(n, cells[LUO_COL_DEVICES_node].text,
                            cells[LUO_COL_DEVICES_profile].text);
    }
    const luo_status closed = luo_csv_close(csv);
    return st == LUO_OK ? closed : st;
}

/* The highest device of an ops.csv is one of `known` (0: of any). */
static luo_status find_highest(nodes *n, const char *dir, const char *file, int32_t known,
                               int32_t *highest)
{
    luo_csv_cell cells[LUO_CSV_COLUMNS];
    luo_status st = LUO_OK;
    luo_csv *csv = luo_result_file(n->arena, dir, file, LUO_TABLE_OPS, n->diags);
    const int32_t most = known ? known : LUO_DEVICES_MAX;
    *highest = 0;
    while (st == LUO_OK && csv && luo_csv_next(csv, cells)) {
        const int64_t d = cells[LUO_COL_OPS_device].whole;
        if (d < 0 || d >= most)
            st = luo_csv_error(csv, LUO_COL_OPS_device, "`device` is %lld; 0 to %d is expected.",
                               (long long)d, most - 1);
        else if (d > *highest)
            *highest = (int32_t)d;
    }
    const luo_status closed = luo_csv_close(csv);
    return st == LUO_OK ? closed : st;
}

luo_status luo_trace_cluster(luo_arena *arena, const char *dir, const char *file, luo_cluster **out,
                             luo_diags *diags)
{
    nodes n = {.arena = arena, .diags = diags, .last = ""};
    luo_cluster *cluster = LUO_NEW(arena, luo_cluster);
    luo_err err = {0};
    int32_t highest;
    if (!cluster) return nomem(&n);
    if (luo_result_has(dir, luo_table_def_at(LUO_TABLE_DEVICES)->file))
        LUO_TRY(read_devices(&n, dir));
    LUO_TRY(find_highest(&n, dir, file, n.ndevices, &highest));
    for (int32_t d = n.ndevices; d <= highest; d++) LUO_TRY(add_device(&n, "devices-0", "GPU"));
    *cluster = (luo_cluster){
        .name = "run", .ngroups = n.ngroups, .groups = n.group, .fabric = LUO_FABRIC_SINGLE};
    if (luo_cluster_finish(arena, cluster, &err) != LUO_OK) return luo_diags_err(diags, &err);
    *out = cluster;
    return LUO_OK;
}
