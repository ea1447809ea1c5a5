/* host_damage.c: checkpoints that are cut, flipped, emptied or incomplete. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/storm/host.h"

static int descending(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

int storm_checkpoints(const char *dir, int64_t *steps, int max)
{
    int n = 0;
    DIR *d = opendir(dir);
    for (const struct dirent *e; d && n < max && (e = readdir(d));)
        if (strncmp(e->d_name, "step-", 5) == 0) steps[n++] = strtoll(e->d_name + 5, NULL, 10);
    if (d) closedir(d);
    qsort(steps, (size_t)n, sizeof *steps, descending);
    return n;
}

typedef enum kind { CUT, EMPTY, GONE, LONGER, DATA, HEAD, KINDS } kind;
static const char *const names[KINDS] = {"is cut",
                                         "is empty",
                                         "is gone",
                                         "is longer",
                                         "has another bit in its data",
                                         "has another bit in its head"};

static void put(const char *path, const char *bytes, size_t n)
{
    FILE *f = fopen(path, "r+");
    if (!f) return;
    fwrite(bytes, 1, n, f);
    fclose(f);
}

/* Bytes in front of the tensors of a safetensors file; all of any other. */
static size_t head_of(const char *path, const char *bytes, size_t n)
{
    uint64_t head = 0;
    if (!strstr(path, ".safetensors") || n < 8) return n;
    for (int i = 7; i >= 0; i--) head = head << 8 | (unsigned char)bytes[i];
    return head < n - 8 ? (size_t)head + 8 : n;
}

static void flip(storm_case *c, char *bytes, size_t lo, size_t hi)
{
    const size_t at = (size_t)storm_draw(c, (int64_t)lo, (int64_t)hi - 1);
    const int bit = (int)storm_draw(c, 0, 7);
    storm_tell(c, "bit %d of byte %zu", bit, at);
    bytes[at] = (char)(bytes[at] ^ (1 << bit));
}

/* True: no resume may use what is left. */
static bool damage_file(storm_case *c, const char *path, kind k)
{
    size_t n;
    char *bytes = storm_read(c, path, &n);
    if (!bytes || n == 0) return false;
    const size_t head = head_of(path, bytes, n);
    if (k == DATA && head >= n) k = HEAD;
    storm_tell(c, "damage: %s %s", path, names[k]);
    switch (k) {
    case CUT:
        return truncate(path, (off_t)storm_draw(c, 1, (int64_t)n - 1)) == 0;
    case EMPTY:
        return truncate(path, 0) == 0;
    case GONE:
        return unlink(path) == 0;
    case LONGER:
        return truncate(path, (off_t)n + (off_t)storm_draw(c, 1, 4096)) == 0;
    case DATA:
        flip(c, bytes, head, n);
        break;
    default:
        flip(c, bytes, 0, head);
        break;
    }
    put(path, bytes, n);
    return k == DATA;
}

void storm_do_damage(storm_case *c, const char *dir, storm_damage *out)
{
    static const char *const files[] = {"model.safetensors", "model.safetensors",
                                        "optimizer.safetensors", "optimizer.safetensors",
                                        "state.json"};
    int64_t steps[16];
    const int n = storm_checkpoints(dir, steps, 16);
    const kind k = (kind)storm_draw(c, 0, KINDS - 1);
    const char *file = files[storm_draw(c, 0, 4)];
    const int many = storm_chance(c, 25) ? n : 1;
    *out = (storm_damage){.newest = n ? steps[0] : -1, .left = n - many};
    for (int i = 0; i < n && i < many; i++) {
        const char *path =
            luo_arena_printf(c->arena, "%s/step-%06lld/%s", dir, (long long)steps[i], file);
        const bool strict = damage_file(c, path, k);
        out->must_tell |= i == 0 && strict;
        out->done = true;
    }
}
