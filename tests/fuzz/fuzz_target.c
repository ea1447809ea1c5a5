/* fuzz_target.c: libFuzzer target of the small languages that name devices and hosts:
 * device sets, targets of events, Slurm's lists. */
#include "core/base/devset.h"
#include "core/io/read/read.h"
#include "exec/coordinator/hosts.h"
#include "tests/fuzz/fuzz_io.h"

static luo_cluster *cluster_of(luo_arena *arena)
{
    luo_cluster *c = NULL;
    luo_diags diags;
    const luo_source src = {"cluster", fuzz_cluster, sizeof fuzz_cluster - 1};
    luo_diags_init(&diags, arena);
    want(luo_read_cluster_text(arena, &src, &fuzz_files, &c, &diags) == LUO_OK);
    return c;
}

static void read_devices(luo_arena *arena, const char *text, bool bare)
{
    luo_err err = {0};
    luo_str first = {0}, again = {0};
    int32_t *dev, n;
    if (luo_devset_parse(arena, text, bare, 1 << 16, &dev, &n, &err) != LUO_OK) {
        want(err.text[0]);
        return;
    }
    luo_devset_print(&first, dev, n);
    want(luo_devset_parse(arena, luo_str_get(&first), false, 1 << 16, &dev, &n, &err) == LUO_OK);
    luo_devset_print(&again, dev, n);
    want(strcmp(luo_str_get(&first), luo_str_get(&again)) == 0);
    luo_str_free(&first);
    luo_str_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static luo_arena *kept;
    static luo_cluster *cluster;
    if (!kept) kept = luo_arena_new(0);
    if (!cluster) cluster = cluster_of(kept);
    luo_arena *arena = luo_arena_new(0);
    const char *text = fuzz_source(arena, data, size).text;
    luo_err err = {0};
    luo_target t;
    luo_hosts hosts;
    read_devices(arena, text, false);
    read_devices(arena, text, true);
    want(luo_target_parse(arena, cluster, text, &t, &err) == LUO_OK || err.text[0]);
    err.text[0] = 0;
    want(luo_hosts_of_slurm(arena, text, &hosts, &err) == LUO_OK ? hosts.known : err.text[0] != 0);
    luo_arena_free(arena);
    return 0;
}
