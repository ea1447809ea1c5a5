#include "cli/args.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/words.h"

static const luo_option *find(const luo_option *option, int n, const char *name, size_t len)
{
    for (int i = 0; i < n; i++)
        if (strlen(option[i].name) == len && memcmp(option[i].name, name, len) == 0)
            return &option[i];
    return NULL;
}

static luo_status unknown(const char *name, size_t len, const luo_option *a, int na,
                          const luo_option *b, int nb, luo_err *err)
{
    enum { MAX = 128 };
    const char *names[MAX];
    char word[64];
    int n = 0;
    for (int i = 0; i < na && n < MAX; i++) names[n++] = a[i].name;
    for (int i = 0; i < nb && n < MAX; i++) names[n++] = b[i].name;
    snprintf(word, sizeof word, "%.*s", (int)(len < 60 ? len : 60), name);
    const char *near = luo_word_nearest(word, names, n);
    if (near)
        return luo_err_set(err, LUO_EUSAGE, "unknown option `--%s`; did you mean `--%s`?", word,
                           near);
    return luo_err_set(err, LUO_EUSAGE, "unknown option `--%s`; `--help` lists the known ones.",
                       word);
}

static luo_status add_file(luo_args *out, const char *file, luo_err *err)
{
    if (out->nfiles == LUO_ARGS_MAX)
        return luo_err_set(err, LUO_EUSAGE, "too many files; at most %d are taken.", LUO_ARGS_MAX);
    out->files[out->nfiles++] = file;
    return LUO_OK;
}

luo_status luo_args_parse(int argc, char **argv, const luo_option *options, int noptions,
                          const luo_option *common, int ncommon, luo_args *out, luo_err *err)
{
    memset(out, 0, sizeof *out);
    bool files_only = false;
    for (int i = 0; i < argc; i++) {
        const char *a = argv[i];
        if (files_only || a[0] != '-' || !a[1]) {
            LUO_TRY(add_file(out, a, err));
            continue;
        }
        if (strcmp(a, "--") == 0) {
            files_only = true;
            continue;
        }
        if (strcmp(a, "-h") == 0) a = "--help";
        if (a[1] != '-')
            return luo_err_set(err, LUO_EUSAGE, "`%s` is no option; options are long: `--name`.",
                               a);
        const char *name = a + 2, *eq = strchr(name, '=');
        const size_t len = eq ? (size_t)(eq - name) : strlen(name);
        const luo_option *option = find(options, noptions, name, len);
        if (!option) option = find(common, ncommon, name, len);
        if (!option) {
            out->unknown = name;
            return unknown(name, len, options, noptions, common, ncommon, err);
        }
        if (out->nset == LUO_ARGS_MAX)
            return luo_err_set(err, LUO_EUSAGE, "too many options; at most %d are taken.",
                               LUO_ARGS_MAX);
        const char *value = eq ? eq + 1 : NULL;
        if (!option->value && eq)
            return luo_err_set(err, LUO_EUSAGE, "`--%s` takes no value; leave out `=%s`.",
                               option->name, eq + 1);
        if (option->value && !value) {
            if (i + 1 == argc)
                return luo_err_set(err, LUO_EUSAGE, "`--%s` has no value; give %s.", option->name,
                                   option->value);
            value = argv[++i];
        }
        out->set[out->nset].option = option;
        out->set[out->nset++].value = value ? value : "";
    }
    return LUO_OK;
}

const char *luo_args_get(const luo_args *args, const char *name, const char *otherwise)
{
    for (int i = args->nset - 1; i >= 0; i--)
        if (strcmp(args->set[i].option->name, name) == 0) return args->set[i].value;
    return otherwise;
}

bool luo_args_has(const luo_args *args, const char *name)
{
    return luo_args_get(args, name, NULL) != NULL;
}

luo_status luo_args_int_of(const char *name, const char *v, int64_t least, int64_t most,
                           int64_t *out, luo_err *err)
{
    char *end;
    errno = 0;
    const long long x = strtoll(v, &end, 10);
    if (errno || end == v || *end || v[0] == '+' || v[0] == ' ' || x < least || x > most)
        return luo_err_set(err, LUO_EUSAGE,
                           "`--%s` is `%s`; an integer from %lld to %lld is expected.", name, v,
                           (long long)least, (long long)most);
    *out = x;
    return LUO_OK;
}

luo_status luo_args_int(const luo_args *args, const char *name, int64_t otherwise, int64_t least,
                        int64_t most, int64_t *out, luo_err *err)
{
    const char *v = luo_args_get(args, name, NULL);
    *out = otherwise;
    return v ? luo_args_int_of(name, v, least, most, out, err) : LUO_OK;
}

luo_status luo_args_number(const luo_args *args, const char *name, double otherwise, double least,
                           double most, double *out, luo_err *err)
{
    const char *v = luo_args_get(args, name, NULL);
    *out = otherwise;
    if (!v) return LUO_OK;
    char *end;
    const double x = strtod(v, &end);
    if (end == v || *end || !isfinite(x) || x < least || x > most)
        return luo_err_set(err, LUO_EUSAGE, "`--%s` is `%s`; a number from %g to %g is expected.",
                           name, v, least, most);
    *out = x;
    return LUO_OK;
}

luo_status luo_args_choice_of(const char *name, const char *v, const char *const *names, int n,
                              int *out, luo_err *err)
{
    for (int i = 0; i < n; i++)
        if (strcmp(v, names[i]) == 0) {
            *out = i;
            return LUO_OK;
        }
    luo_str text = {0};
    luo_words_expected(&text, v, names, n);
    luo_err_set(err, LUO_EUSAGE, "`--%s` is `%s`; %s", name, v, luo_str_get(&text));
    luo_str_free(&text);
    return LUO_EUSAGE;
}

luo_status luo_args_choice(const luo_args *args, const char *name, int otherwise,
                           const char *const *names, int n, int *out, luo_err *err)
{
    const char *v = luo_args_get(args, name, NULL);
    *out = otherwise;
    return v ? luo_args_choice_of(name, v, names, n, out, err) : LUO_OK;
}
