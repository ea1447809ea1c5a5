/* fuzz_safetensors.c: libFuzzer target of the head of safetensors files: what is
 * accepted lies inside the file without gap, and its head is written and read back the same. */
#include "core/io/checkpoint/safetensors_head.h"
#include "core/io/checkpoint/safetensors_index.h"
#include "tests/fuzz/fuzz_io.h"

static void inside(const luo_safetensors *f, size_t size)
{
    int64_t sum = f->data;
    want(f->n >= 0 && f->data >= 8 && (size_t)f->data <= size);
    for (int32_t i = 0; i < f->n; i++) {
        const luo_file_tensor *t = &f->at[i];
        want(0 <= t->begin && t->begin <= t->end && f->data + t->end <= (int64_t)size);
        want(i == 0 || strcmp(f->at[i - 1].name, t->name) < 0);
        want(luo_safetensors_find(f, t->name) == t);
        sum += t->end - t->begin;
    }
    want(sum == (int64_t)size);
}

/* In order of the names, so that only the places may differ. */
static void round_trip(luo_arena *arena, const luo_safetensors *f, size_t data)
{
    luo_str head = {0};
    luo_safetensors again;
    luo_err err;
    luo_file_tensor *at = LUO_NEW_N(arena, luo_file_tensor, f->n);
    for (int32_t i = 0; i < f->n; i++) at[i] = f->at[i];
    luo_safetensors_head(&head, at, f->n);
    char *file = luo_arena_calloc(arena, head.len + data, 1);
    memcpy(file, head.at, head.len);
    want(luo_safetensors_read(arena, file, head.len + data, &again, &err) == LUO_OK);
    want(again.n == f->n && again.data == (int64_t)head.len);
    for (int32_t i = 0; i < f->n; i++) {
        const luo_file_tensor *x = &f->at[i], *y = &again.at[i];
        want(strcmp(x->name, y->name) == 0 && x->dtype == y->dtype && x->rank == y->rank);
        want(memcmp(x->dim, y->dim, sizeof x->dim) == 0);
        want(x->end - x->begin == y->end - y->begin);
    }
    luo_str_free(&head);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    luo_arena *arena = luo_arena_new(0);
    luo_safetensors f;
    luo_err err = {0};
    const luo_status st = luo_safetensors_read(arena, data, size, &f, &err);
    if (st == LUO_OK) {
        inside(&f, size);
        round_trip(arena, &f, size - (size_t)f.data);
    } else {
        want(err.text[0] && luo_status_exit(st) == 3);
    }
    luo_safetensors_index index;
    const luo_status of_index =
        luo_safetensors_index_read(arena, (const char *)data, size, &index, &err);
    want(of_index == LUO_OK ? index.nfiles > 0 : luo_status_exit(of_index) == 3);
    luo_arena_free(arena);
    return 0;
}
