#include "cli/options/ways.h"

#include <string.h>

#include "core/base/words.h"

luo_status luo_way_word(const luo_args *args, const char *noun, const char *const *names, int n,
                        int *out, luo_err *err)
{
    luo_str expected = {0};
    const char *word = args->nfiles ? args->files[0] : "";
    luo_status st = LUO_OK;
    luo_words_expected(&expected, word, names, n);
    for (*out = 0; *out < n && strcmp(word, names[*out]) != 0;) ++*out;
    if (args->nfiles == 0)
        st = luo_err_set(err, LUO_EUSAGE, "the %s is missing; %s", noun, luo_str_get(&expected));
    else if (args->nfiles > 1)
        st = luo_err_set(err, LUO_EUSAGE, "unexpected argument `%s`; a %s alone is expected.",
                         args->files[1], noun);
    else if (*out == n)
        st = luo_err_set(err, LUO_EUSAGE, "`%s` is no %s; %s", word, noun, luo_str_get(&expected));
    luo_str_free(&expected);
    return st;
}

luo_status luo_way_check(const luo_args *args, const luo_way_option *options, int n, int way,
                         const char *text, luo_err *err)
{
    for (int i = 0; i < n; i++) {
        const bool given = luo_args_has(args, options[i].name);
        if (given && !(options[i].taken & 1U << way))
            return luo_err_set(err, LUO_EUSAGE, "`--%s` is no option of %s; leave it out.",
                               options[i].name, text);
        if (!given && options[i].needed & 1U << way)
            return luo_err_set(err, LUO_EUSAGE, "`--%s` is missing; %s needs it.", options[i].name,
                               text);
    }
    return LUO_OK;
}
