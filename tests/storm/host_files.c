/* host_files.c: files and draws of a case. */
#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/storm/host.h"

int64_t storm_draw(storm_case *c, int64_t lo, int64_t hi)
{
    return lo + luo_rng_pick(&c->rng, hi - lo + 1);
}

bool storm_chance(storm_case *c, int percent)
{
    return luo_rng_pick(&c->rng, 100) < percent;
}

static void add_line(luo_str *s, const char *fmt, va_list ap)
{
    char line[2048];
    vsnprintf(line, sizeof line, fmt, ap);
    luo_str_addf(s, "  %s\n", line);
}

void storm_tell(storm_case *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    add_line(&c->story, fmt, ap);
    va_end(ap);
}

void storm_wrong(storm_case *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    add_line(&c->wrong, fmt, ap);
    va_end(ap);
}

const char *storm_path(const storm_case *c, const char *name)
{
    return luo_arena_printf(c->arena, "%s/%s", c->dir, name);
}

void storm_write(storm_case *c, const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    if (!f || fputs(text, f) < 0) storm_wrong(c, "the test itself cannot write %s", path);
    if (f) fclose(f);
}

char *storm_read(const storm_case *c, const char *path, size_t *n)
{
    struct stat st;
    FILE *f = fopen(path, "r");
    if (!f || fstat(fileno(f), &st) != 0 || !S_ISREG(st.st_mode)) {
        if (f) fclose(f);
        return NULL;
    }
    char *text = luo_arena_alloc(c->arena, (size_t)st.st_size + 1);
    const size_t got = text ? fread(text, 1, (size_t)st.st_size, f) : 0;
    fclose(f);
    if (!text) return NULL;
    text[got] = 0;
    if (n) *n = got;
    return text;
}

static bool ends_with(const char *s, const char *end)
{
    const size_t a = strlen(s), b = strlen(end);
    return a >= b && strcmp(s + a - b, end) == 0;
}

int storm_find(const storm_case *c, const char *dir, const char *end, const char **out, int max)
{
    int n = 0;
    struct stat st;
    DIR *d = opendir(dir);
    for (const struct dirent *e; d && n < max && (e = readdir(d));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        const char *path = luo_arena_printf(c->arena, "%s/%s", dir, e->d_name);
        if (!path || lstat(path, &st) != 0) continue;
        if (S_ISDIR(st.st_mode))
            n += storm_find(c, path, end, out + n, max - n);
        else if (S_ISREG(st.st_mode) && ends_with(path, end))
            out[n++] = path;
    }
    if (d) closedir(d);
    return n;
}

void storm_remove(const char *dir)
{
    char path[1024];
    struct stat st;
    DIR *d = opendir(dir);
    for (const struct dirent *e; d && (e = readdir(d));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
            storm_remove(path);
        else
            unlink(path);
    }
    if (d) closedir(d);
    rmdir(dir);
}
