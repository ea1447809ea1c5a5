/* fuzz_checkpoint.c: libFuzzer target of state.json: what is read can be written, and
 * reads back as the same model, step and hash. */
#include "core/io/checkpoint/checkpoint_info.h"
#include "tests/fuzz/fuzz_io.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    luo_arena *arena = luo_arena_new(0);
    luo_checkpoint_info info, again;
    luo_err err = {0};
    luo_str text = {0};
    const luo_source src = fuzz_source(arena, data, size);
    const luo_status st = luo_checkpoint_info_read_text(arena, &src, &info, &err);
    if (st == LUO_OK) {
        luo_checkpoint_info_json(&text, &info);
        const luo_source copy = {"again", luo_str_get(&text), text.len};
        want(luo_checkpoint_info_read_text(arena, &copy, &again, &err) == LUO_OK);
        want(again.step == info.step && again.seed == info.seed);
        want(again.plan_hash == info.plan_hash && strcmp(again.data, info.data) == 0);
        want(luo_checkpoint_same_model(&info.model, &again.model, &err) == LUO_OK);
    } else {
        want(err.text[0] && luo_status_exit(st) == 3);
    }
    luo_str_free(&text);
    luo_arena_free(arena);
    return 0;
}
