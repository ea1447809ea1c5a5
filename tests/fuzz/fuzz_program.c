/* fuzz_program.c: libFuzzer target of the program text: what it accepts prints and reads
 * back as the same bytes, and check and memory answer about it; nothing crashes. */
#include <stdlib.h>
#include <string.h>

#include "core/graph/program/program.h"
#include "tests/parked/program_parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void want(bool ok)
{
    if (!ok) abort();
}

static void same_bytes(luo_arena *arena, const luo_programs *set)
{
    luo_str first = {0}, second = {0};
    luo_programs *again = NULL;
    luo_err err = {0};
    luo_program_print(&first, set, -1);
    want(luo_program_parse(arena, luo_str_get(&first), &again, &err) == LUO_OK);
    luo_program_print(&second, again, -1);
    want(strcmp(luo_str_get(&first), luo_str_get(&second)) == 0);
    luo_str_free(&first);
    luo_str_free(&second);
}

static void ask(luo_arena *arena, const luo_programs *set)
{
    luo_err err = {0};
    luo_memory m;
    if (luo_program_check(arena, set, &err) != LUO_OK) {
        want(err.text[0] != 0);
        return;
    }
    for (int32_t i = 0; i < set->n; i++)
        want(luo_program_memory(arena, set, set->at[i].device, &m, &err) == LUO_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    luo_arena *arena = luo_arena_new(0);
    char *text = arena ? luo_arena_strndup(arena, (const char *)data, size) : NULL;
    luo_programs *set = NULL;
    luo_err err = {0};
    if (text && luo_program_parse(arena, text, &set, &err) == LUO_OK) {
        same_bytes(arena, set);
        ask(arena, set);
    } else {
        want(!text || err.text[0]);
    }
    luo_arena_free(arena);
    return 0;
}
