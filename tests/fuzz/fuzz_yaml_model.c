/* fuzz_yaml_model.c: libFuzzer target of the model reader, with the config.json of
 * Hugging Face. */
#include "core/io/read/read.h"
#include "tests/fuzz/fuzz_io.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    luo_arena *arena = luo_arena_new(0);
    luo_diags diags;
    luo_model *model = NULL;
    luo_diags_init(&diags, arena);
    const luo_source src = fuzz_source(arena, data, size);
    const luo_status st = luo_read_model_text(arena, &src, NULL, &model, &diags);
    fuzz_judge(st, &diags);
    want((st == LUO_OK) == (model && (model->hidden > 0 || !luo_model_has_layers(model))));
    luo_arena_free(arena);
    return 0;
}
