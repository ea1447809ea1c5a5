#include "core/io/builtin.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/words.h"

#define SCHEME "built-in:"
#define ROOT "scenarios/"

static const luo_builtin *find(const char *path)
{
    const size_t n = strlen(SCHEME), root = strlen(ROOT);
    if (strncmp(path, SCHEME, n) != 0) return NULL;
    for (const luo_builtin *builtin = luo_builtin_files; builtin->name; builtin++)
        if (strcmp(builtin->name + root, path + n) == 0) return builtin;
    return NULL;
}

bool luo_builtin_path(const char *folder, const char *word, char *path, size_t size)
{
    const int n = snprintf(path, size, SCHEME "%s/%s.yaml", folder, word);
    return n > 0 && (size_t)n < size && !strchr(word, '/') && find(path);
}

bool luo_builtin_get(const char *path, luo_source *out)
{
    const luo_builtin *builtin = find(path);
    if (builtin) *out = (luo_source){path, builtin->text, strlen(builtin->text)};
    return builtin != NULL;
}

void luo_builtin_names(const char *folder, luo_str *out)
{
    const size_t n = strlen(folder), root = strlen(ROOT);
    for (const luo_builtin *builtin = luo_builtin_files; builtin->name; builtin++) {
        const char *at = builtin->name + root, *file = at + n + 1;
        if (strncmp(at, folder, n) != 0 || at[n] != '/') continue;
        const char *end = strstr(file, ".yaml");
        if (!end || strchr(file, '/')) continue;
        luo_str_addn(out, file, (size_t)(end - file));
        luo_str_addc(out, ' ');
    }
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

luo_status luo_builtin_refuse(const char *folder, const char *path, luo_err *err)
{
    enum { MOST = 64 };
    const char *word = last_part(path), *kind = last_part(folder), *names[MOST];
    luo_str list = {0}, text = {0};
    int n = 0;
    if (strchr(word, '.') || access(path, F_OK) == 0) return LUO_OK;
    luo_builtin_names(folder, &list);
    for (char *at = list.at, *end; at && n < MOST && (end = strchr(at, ' ')); at = end + 1) {
        *end = 0;
        names[n++] = at;
    }
    const char *near = luo_word_nearest(word, names, n);
    if (near)
        luo_str_addf(&text, "did you mean `%s`?", near);
    else
        luo_str_add(&text, "`luoshu help profiles` lists those.");
    luo_err_set(err, LUO_EINPUT, "`%.80s` is no file and no built-in %.*s; %s", word,
                (int)strlen(kind) - 1, kind, luo_str_get(&text)); /* of profiles: profile */
    luo_str_free(&list);
    luo_str_free(&text);
    return LUO_EINPUT;
}
