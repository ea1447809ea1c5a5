/* fuzz_dsjson.c: libFuzzer target of the border to Hetu: what is read can be written,
 * and reads back as the same annotations. */
#include "tests/parked/dsjson.h"
#include "tests/fuzz/fuzz_io.h"

static void round_trip(luo_arena *arena, const luo_dsjson *file)
{
    luo_str text = {0};
    luo_diags diags;
    luo_err err;
    luo_dsjson *again = NULL;
    const luo_ann *weight;
    want(luo_dsjson_write(arena, file, &text, &err) == LUO_OK);
    const luo_source src = {"again", luo_str_get(&text), text.len};
    luo_diags_init(&diags, arena);
    want(luo_dsjson_read(arena, &src, &again, &diags) == LUO_OK && again->n == file->n);
    for (int32_t i = 0; i < file->n; i++) {
        want(strcmp(again->items[i].path, file->items[i].path) == 0);
        want(again->items[i].ann->u == file->items[i].ann->u);
        want(luo_dsjson_weight(arena, &file->items[i], &weight, &err) == LUO_OK);
    }
    luo_str_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    luo_arena *arena = luo_arena_new(0);
    luo_diags diags;
    luo_err err;
    luo_dsjson *file = NULL;
    const luo_ann *a;
    luo_ds_type type;
    luo_str text = {0};
    luo_diags_init(&diags, arena);
    const luo_source src = fuzz_source(arena, data, size);
    const luo_status st = luo_dsjson_read(arena, &src, &file, &diags);
    fuzz_judge(st, &diags);
    if (st == LUO_OK) round_trip(arena, file);
    if (luo_dsjson_read_entry(arena, src.text, "e", &a, &type, &err) == LUO_OK)
        want(luo_dsjson_write_entry(a, type, &text, &err) == LUO_OK);
    else
        want(err.text[0]);
    luo_str_free(&text);
    luo_arena_free(arena);
    return 0;
}
