/* fuzz_yaml_cluster.c: libFuzzer target of the cluster reader. */
#include "core/io/read/read.h"
#include "tests/fuzz/fuzz_io.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    luo_arena *arena = luo_arena_new(0);
    luo_diags diags;
    luo_cluster *cluster = NULL;
    luo_diags_init(&diags, arena);
    const luo_source src = fuzz_source(arena, data, size);
    const luo_status st = luo_read_cluster_text(arena, &src, &fuzz_files, &cluster, &diags);
    fuzz_judge(st, &diags);
    want((st == LUO_OK) == (cluster && cluster->ndevices > 0));
    luo_arena_free(arena);
    return 0;
}
