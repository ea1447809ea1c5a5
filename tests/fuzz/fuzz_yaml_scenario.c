/* fuzz_yaml_scenario.c: libFuzzer target of the scenario reader. The first line is a
 * `--set` argument when it begins with `!`. */
#include "core/io/read/read.h"
#include "tests/fuzz/fuzz_io.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    luo_arena *arena = luo_arena_new(0);
    luo_diags diags;
    luo_scenario *scenario = NULL;
    luo_inputs inputs = {0};
    luo_diags_init(&diags, arena);
    luo_source src = fuzz_source(arena, data, size);
    const char *nl = size && data[0] == '!' ? strchr(src.text, '\n') : NULL;
    const char *set = nl ? luo_arena_strndup(arena, src.text + 1, (size_t)(nl - src.text) - 1) : "";
    const luo_overrides overrides = {.n = nl != NULL, .at = &set};
    if (nl) {
        src.len -= (size_t)(nl + 1 - src.text);
        src.text = nl + 1;
    }
    const luo_status st = luo_read_scenario_text(arena, &src, &fuzz_files, &overrides, &scenario,
                                                 &inputs, &diags);
    for (luo_diag *x = diags.first; x; x = x->next) /* a bad --set is exit 2 */
        if (x->err.st == LUO_EUSAGE) x->err.st = LUO_EINPUT;
    fuzz_judge(st, &diags);
    want((st == LUO_OK) == (scenario && scenario->cluster && scenario->npolicies > 0));
    want(inputs.n >= 1);
    luo_arena_free(arena);
    return 0;
}
