/* fuzz_import.c: libFuzzer target of the importers: the first byte says which kind reads the rest;
 * what a good table would hold goes to /dev/null. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/io/import/import.h"
#include "tests/fuzz/fuzz_io.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[40];
    if (size == 0) return 0;
    luo_arena *arena = luo_arena_new(0);
    const int fd = memfd_create("fuzz", MFD_CLOEXEC);
    luo_diags diags;
    luo_import_made made;
    want(arena && fd >= 0 && write(fd, data + 1, size - 1) == (ssize_t)size - 1);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    luo_diags_init(&diags, arena);
    const luo_import_opts opts = {.kind = (luo_import_kind)(data[0] % LUO_IMPORT_KINDS),
                                  .source = path,
                                  .out = "/dev/null",
                                  .length = (luo_import_length)(data[0] / 16 % LUO_IMPORT_LENGTHS),
                                  .unit = (luo_import_unit)(data[0] / 64 % LUO_IMPORT_UNITS)};
    const luo_status st = luo_import(arena, &opts, &made, &diags);
    fuzz_judge(st, &diags);
    want(st != LUO_OK || (made.lengths == made.rows && made.least >= 1));
    close(fd);
    luo_arena_free(arena);
    return 0;
}
