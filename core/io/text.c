/* text.c: whole files: read, join paths. How they are written: replace.c. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "core/io/builtin.h"
#include "core/io/document/input.h"
#include "core/io/io.h"

/* Reads to the end; a file may grow meanwhile. */
static luo_status slurp(luo_arena *arena, int fd, size_t hint, const char *path, luo_source *out,
                        luo_err *err)
{
    size_t cap = hint + 1, len = 0;
    char *text = luo_arena_alloc(arena, cap);
    while (text) {
        const ssize_t got = read(fd, text + len, cap - len);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return luo_input_unreadable(path, err);
        if (got == 0) break;
        len += (size_t)got;
        if (len > LUO_FILE_BYTES) return luo_input_too_big(path, err);
        if (len < cap) continue;
        text = luo_arena_grow(arena, text, cap, 2 * cap);
        cap *= 2;
    }
    if (!text) return luo_err_nomem(err);
    text[len] = 0;
    *out = (luo_source){path, text, len};
    return LUO_OK;
}

luo_status luo_source_read(luo_arena *arena, const char *path, luo_source *out, luo_err *err)
{
    struct stat info;
    int fd;
    const char *name = luo_arena_strdup(arena, path);
    if (!name) return luo_err_nomem(err);
    LUO_TRY(luo_input_open(path, LUO_INPUT_READ, "a readable file", &fd, err));
    luo_status st =
        fstat(fd, &info) == 0 ? LUO_OK : luo_input_unreadable(path, err);
    if (st == LUO_OK && (size_t)info.st_size > LUO_FILE_BYTES) st = luo_input_too_big(path, err);
    if (st == LUO_OK) st = slurp(arena, fd, (size_t)info.st_size, name, out, err);
    close(fd);
    return st;
}

luo_status luo_files_get(const luo_files *files, luo_arena *arena, const char *path,
                         luo_source *out, luo_err *err)
{
    if (files) return files->get(files->ctx, arena, path, out, err);
    if (!luo_builtin_get(path, out)) return luo_source_read(arena, path, out, err);
    out->name = luo_arena_strdup(arena, path);
    return out->name ? LUO_OK : luo_err_nomem(err);
}

/* "a/./b" -> "a/b", "a/b/../c" -> "a/c"; leading ".." stay. In place. */
static void normalise(char *path)
{
    const bool root = path[0] == '/';
    char *out = path + root;
    for (char *at = path + root; *at;) {
        char *end = strchrnul(at, '/');
        const size_t n = (size_t)(end - at);
        char *const next = *end ? end + 1 : end;
        char *const base = path + root;
        char *last = out > base ? out - 1 : base; /* start of the part before */
        while (last > base && last[-1] != '/') last--;
        if (n == 0 || (n == 1 && at[0] == '.')) {
        } else if (n == 2 && at[0] == '.' && at[1] == '.' && out > base &&
                   strncmp(last, "../", 3) != 0) {
            out = last;
        } else {
            memmove(out, at, n);
            out += n;
            if (*end) *out++ = '/';
        }
        at = next;
    }
    *out = 0;
}

const char *luo_file_path_join(luo_arena *arena, const char *base, const char *name)
{
    const char *slash = strrchr(base, '/');
    const size_t folder = name[0] == '/' || !slash ? 0 : (size_t)(slash - base) + 1;
    char *path = luo_arena_alloc(arena, folder + strlen(name) + 1);
    if (!path) return NULL;
    memcpy(path, base, folder);
    memcpy(path + folder, name, strlen(name) + 1);
    normalise(path);
    return path;
}

uint64_t luo_source_hash(const luo_source *src)
{
    return luo_hash_bytes(LUO_HASH_EMPTY, src->text, src->len);
}
