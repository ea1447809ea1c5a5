/* fuzz_yaml_profile.c: libFuzzer target of the readers of profiles, stacks, params. */
#include "core/io/read/read.h"
#include "tests/fuzz/fuzz_io.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    luo_arena *arena = luo_arena_new(0);
    luo_diags diags;
    luo_profile *profile = NULL;
    luo_stack stack;
    luo_params params;
    luo_diags_init(&diags, arena);
    const luo_source src = fuzz_source(arena, data, size);
    luo_status st = luo_read_profile_text(arena, &src, &fuzz_files, &profile, &diags);
    fuzz_judge(st, &diags);
    want((st == LUO_OK) == (profile && profile->memory_bytes > 0));
    luo_diags_init(&diags, arena);
    st = luo_read_stack_text(arena, &src, &stack, &diags);
    fuzz_judge(st, &diags);
    for (int json = 0; json < 2; json++) {
        const luo_source named = {json ? "p.json" : "p.yaml", src.text, src.len};
        luo_diags_init(&diags, arena);
        fuzz_judge(luo_read_params_text(arena, &named, &params, &diags), &diags);
    }
    luo_arena_free(arena);
    return 0;
}
