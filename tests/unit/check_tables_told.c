/* check_tables_told.c: what a cluster says, as it is read, of measured transfers over links that
 * are not its own: of each class that some way from a group has, wherever the far device is. */
#include "core/io/read/read.h"
#include "tests/check_main.h"

static luo_status get_text(void *ctx, luo_arena *a, const char *name, luo_source *out, luo_err *err)
{
    const char *class = ctx;
    const char *text =
        "schema: luoshu.profile/1\nname: p\nkind: gpu\nvalues:\n"
        "  - {name: peak_bf16_tflop_per_s, value: 100, source: x, provenance: chosen}\n"
        "  - {name: memory_gbytes_per_s, value: 1000, source: x, provenance: chosen}\n"
        "  - {name: memory_gib, value: 16, source: x, provenance: chosen}\n"
        "tables: [{kind: p2p_times, file: t.csv}]\n";
    (void)err;
    if (strstr(name, "t.csv"))
        text =
            luo_arena_printf(a, "class,size_bytes,time_us,role\n%s,1024,30,calibration\n", class);
    *out = (luo_source){name, text, strlen(text)};
    return LUO_OK;
}

#define RACKS(a, b, c) "racks: [" a ", " b ", " c "]"
#define TIER "kind: two_tier, rack_uplink_gbytes_per_s: 10"
#define NVLINK "scale_up: {kind: nvswitch, bandwidth_gbytes_per_s: 100}"
#define SOCKETS                                                                                    \
    "pcie: {bandwidth_gbytes_per_s: 30, devices_per_switch: 1, sockets: 2, socket_gbytes_per_s: "  \
    "20}"
static const struct told {
    const char *racks, *node, *fabric, *class;
    bool says;
} rows[] = {
    {RACKS("r0", "r1", "r2"), NVLINK, TIER, "uplink", true},
    {RACKS("r0", "r0", "r1"), NVLINK, TIER, "uplink", true}, /* the next node is in the rack */
    {RACKS("r0", "r0", "r1"), NVLINK, TIER, "nic", true},
    {RACKS("r0", "r1", "r1"), NVLINK, TIER, "nic", true}, /* no way of the first node */
    {RACKS("r0", "r1", "r2"), NVLINK, TIER, "nic", false},
    {RACKS("r0", "r0", "r0"), NVLINK, "kind: single", "uplink", false},
    {RACKS("r0", "r1", "r2"), SOCKETS, TIER, "socket", true}, /* device 1 is on the first socket */
    {RACKS("r0", "r1", "r2"), SOCKETS, TIER, "pcie", true},
    {RACKS("r0", "r1", "r2"), NVLINK, TIER, "line", false},
};

START_TEST(each_class_of_way)
{
    const struct told *row = &rows[_i];
    luo_arena *arena = luo_arena_new(0);
    const luo_files files = {get_text, (void *)(uintptr_t)row->class};
    const char *text = luo_arena_printf(
        arena,
        "schema: luoshu.cluster/1\nname: c\nnode_groups:\n"
        "  - name: ga\n    nodes: 3\n    devices_per_node: 4\n    profile: p.yaml\n    %s\n    %s\n"
        "    nics: {count: 1, bandwidth_gbytes_per_s: 20}\nfabric: {%s}\n",
        row->racks, row->node, row->fabric);
    const luo_source src = {"cluster", text, strlen(text)};
    luo_cluster *cluster;
    luo_diags diags;
    int told = 0;
    luo_diags_init(&diags, arena);
    const luo_status st = luo_read_cluster_text(arena, &src, &files, &cluster, &diags);
    ck_assert_msg(st == LUO_OK, "%s", diags.first ? diags.first->err.text : "");
    for (const luo_diag *d = diags.first; d; d = d->next)
        told += strstr(d->err.text, "`p2p_times` were measured") &&
                strstr(d->err.text, luo_arena_printf(arena, "stand for %s of", row->class));
    ck_assert_int_eq(told, row->says);
    luo_arena_free(arena);
}
END_TEST

LUO_SUITE("cost.tables_told", LUO_T_N(each_class_of_way, LUO_ROWS(rows)))
