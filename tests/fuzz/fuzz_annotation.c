/* fuzz_annotation.c: libFuzzer target of the annotation parser: what it accepts passes
 * luo_ann_check, is printed, and reads back as the same bytes; it never crashes. */
#include <stdlib.h>
#include <string.h>

#include "core/hspmd/ann.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void want(bool ok)
{
    if (!ok) abort();
}

/* Binding to a shape made of the first bytes must answer as well. */
static void bind(const luo_ann *a, const uint8_t *data, size_t size)
{
    luo_shape shape = {.rank = size ? data[0] % (LUO_RANK_MAX + 1) : 0};
    luo_err err = {0};
    for (int32_t d = 0; d < shape.rank; d++)
        shape.dim[d] = (size_t)d + 1 < size ? data[d + 1] : 1;
    for (int mode = LUO_BIND_ROUND; mode <= LUO_BIND_EXACT; mode++) {
        const luo_status st = luo_ann_bind(a, &shape, (luo_bind_mode)mode, "x", &err);
        want(st == LUO_OK || err.text[0]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    luo_arena *arena = luo_arena_new(0);
    char *text = arena ? luo_arena_strndup(arena, (const char *)data, size) : NULL;
    luo_str first = {0}, second = {0};
    const luo_ann *a = NULL, *b = NULL;
    luo_err err = {0};
    if (text && luo_ann_parse(arena, text, &a, &err) == LUO_OK) {
        want(luo_ann_check(a, &err) == LUO_OK);
        luo_ann_print(&first, a);
        want(luo_ann_parse(arena, luo_str_get(&first), &b, &err) == LUO_OK);
        luo_ann_print(&second, b);
        want(strcmp(luo_str_get(&first), luo_str_get(&second)) == 0);
        want(luo_ann_equal(a, b) && luo_ann_hash(a) == luo_ann_hash(b));
        bind(a, data, size);
    } else {
        want(!text || err.text[0]);
    }
    luo_str_free(&first);
    luo_str_free(&second);
    luo_arena_free(arena);
    return 0;
}
