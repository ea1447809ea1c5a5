/* verb_import.c: `luoshu import KIND SOURCE`: which kind, and which options it has. */
#include <string.h>

#include "cli/import/import_verb.h"
#include "core/base/words.h"

enum { KINDS = LUO_IMPORT_KINDS + LUO_CONVERT_KINDS };

/* Kinds of lengths first, then those of files. */
static const char *kind_name(int k)
{
    return k < LUO_IMPORT_KINDS ? luo_import_kind_name((luo_import_kind)k)
                                : luo_convert_kind_name((luo_convert_kind)(k - LUO_IMPORT_KINDS));
}

typedef struct option { /* of some kinds alone: bits of the one table and of the other */
    const char *name;
    int lengths, files;
} option;
static const option options[] = {
    {"length", LUO_IMPORT_LENGTH, 0},
    {"unit", LUO_IMPORT_UNIT, 0},
    {"histogram", ~0, 0},
    {"devices", 0, LUO_CONVERT_DEVICES},
    {"seq-length", 0, LUO_CONVERT_SEQUENCE},
    {"micro-batches", 0, LUO_CONVERT_MICRO_BATCHES},
    {"profile", 0, LUO_CONVERT_PROFILE},
    {"approximate", 0, LUO_CONVERT_APPROXIMATE},
    {"repair", 0, LUO_CONVERT_REPAIR},
    {"model", 0, LUO_CONVERT_MODEL},
    {"units", 0, LUO_CONVERT_UNITS},
    {"min-gpus", 0, LUO_CONVERT_MIN_GPUS},
    {"run", 0, LUO_CONVERT_RUN},
};

static bool has_option(int k, const option *o)
{
    if (k < LUO_IMPORT_KINDS)
        return o->lengths == ~0 || luo_import_kind_options((luo_import_kind)k) & o->lengths;
    return luo_convert_kind_options((luo_convert_kind)(k - LUO_IMPORT_KINDS)) & o->files;
}

static luo_status read_kind(const char *word, int *out, luo_err *err)
{
    const char *names[KINDS];
    luo_str text = {0};
    for (int k = 0; k < KINDS; k++) {
        names[k] = kind_name(k);
        *out = k;
        if (strcmp(names[k], word) == 0) return LUO_OK;
    }
    luo_words_expected(&text, word, names, KINDS);
    luo_err_set(err, LUO_EUSAGE, "unknown kind `%.60s`; %s", word, luo_str_get(&text));
    luo_str_free(&text);
    return LUO_EUSAGE;
}

/* An option that the kind would not look at. */
static luo_status check_owner(const luo_args *args, int kind, luo_err *err)
{
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        const char *owners[KINDS];
        luo_str text = {0};
        int n = 0;
        if (!luo_args_has(args, options[i].name) || has_option(kind, &options[i])) continue;
        for (int k = 0; k < KINDS; k++)
            if (has_option(k, &options[i])) owners[n++] = kind_name(k);
        luo_words_choices(&text, owners, n);
        luo_err_set(err, LUO_EUSAGE, "`--%s` is an option of %s; leave it out.", options[i].name,
                    luo_str_get(&text));
        luo_str_free(&text);
        return LUO_EUSAGE;
    }
    return LUO_OK;
}

luo_status luo_verb_import_run(luo_cli *cli)
{
    luo_err err = {0};
    int kind = 0;
    LUO_TRY(luo_cli_files(cli, 2, 2, "a kind and a source are"));
    luo_status st = read_kind(cli->args.files[0], &kind, &err);
    if (st == LUO_OK) st = check_owner(&cli->args, kind, &err);
    LUO_TRY(luo_cli_fail(cli, st, &err));
    if (kind < LUO_IMPORT_KINDS) return luo_import_lengths_run(cli, (luo_import_kind)kind);
    return luo_import_files_run(cli, (luo_convert_kind)(kind - LUO_IMPORT_KINDS));
}
