/* import_files.c: `luoshu import KIND SOURCE` of files that are made whole. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/import/import_verb.h"
#include "core/io/io.h"

static luo_status read_opts(luo_cli *cli, luo_convert_opts *opts, luo_err *err)
{
    const luo_args *args = &cli->args;
    int64_t devices, tokens, gpus;
    LUO_TRY(luo_args_int(args, "devices", 0, 1, 131072, &devices, err));
    LUO_TRY(luo_args_int(args, "seq-length", 0, 1, 1000000000, &tokens, err));
    LUO_TRY(luo_args_int(args, "min-gpus", 1, 0, 131072, &gpus, err));
    opts->min_gpus = gpus;
    opts->sequence_tokens = tokens;
    opts->source = args->files[1];
    opts->devices = (int32_t)devices;
    opts->units = luo_args_get(args, "units", NULL);
    opts->micro_batches = luo_args_get(args, "micro-batches", NULL);
    opts->profile = luo_args_get(args, "profile", NULL);
    opts->model = luo_args_get(args, "model", NULL);
    opts->approximate = luo_args_has(args, "approximate");
    opts->repair = luo_args_has(args, "repair");
    opts->run = luo_args_has(args, "run");
    if (opts->run && !luo_args_has(args, "out"))
        return luo_err_set(err, LUO_EUSAGE,
                           "`--run` needs --out: the folder that becomes the run is expected.");
    return LUO_OK;
}

/* Of several files a folder, of one the file; --out NAME, else what the kind makes. */
static const char *place_of(luo_cli *cli, const luo_convert_made *made, int32_t i)
{
    const char *out = luo_args_get(&cli->args, "out", NULL);
    if (made->nfiles == 1) return out ? out : made->file[0].name;
    return out ? luo_arena_printf(cli->arena, "%s/%s", out, made->file[i].name)
               : made->file[i].name;
}

static luo_status check_places(luo_cli *cli, const luo_convert_made *made, const char **place,
                               luo_err *err)
{
    struct stat old;
    const char *out = luo_args_get(&cli->args, "out", NULL);
    if (made->nfiles > 1 && out && mkdir(out, 0777) != 0 && errno != EEXIST)
        return luo_err_set(err, LUO_EIO, "the folder `%s` cannot be made: %s.", out,
                           strerror(errno));
    for (int32_t i = 0; i < made->nfiles; i++) {
        place[i] = place_of(cli, made, i);
        if (!place[i]) return luo_err_nomem(err);
        if (!luo_args_has(&cli->args, "force") && stat(place[i], &old) == 0 && S_ISREG(old.st_mode))
            return luo_err_set(err, LUO_EUSAGE, "`%s` exists; give another --out, or --force.",
                               place[i]);
    }
    return LUO_OK;
}

static luo_status write_files(luo_cli *cli, const luo_convert_made *made, const char **place,
                              luo_err *err)
{
    LUO_TRY(check_places(cli, made, place, err));
    for (int32_t i = 0; i < made->nfiles; i++)
        LUO_TRY(luo_file_write_atomic(place[i], made->file[i].text, made->file[i].len, err));
    return LUO_OK;
}

static void tell(luo_cli *cli, const luo_convert_opts *opts, const luo_convert_made *made,
                 const char *const *place)
{
    luo_jsonw *jsonw = &cli->json;
    fprintf(luo_cli_out(cli), "%s.\n", made->summary);
    luo_jsonw_text(jsonw, "kind", luo_convert_kind_name(opts->kind));
    luo_jsonw_text(jsonw, "summary", made->summary);
    luo_jsonw_open(jsonw, "files", '[');
    for (int32_t i = 0; i < made->nfiles; i++) {
        fprintf(luo_cli_out(cli), "%s: hash %016llx\n", place[i],
                (unsigned long long)made->file[i].hash);
        luo_jsonw_open(jsonw, NULL, '{');
        luo_jsonw_text(jsonw, "out", place[i]);
        luo_jsonw_hash(jsonw, "hash", made->file[i].hash);
        luo_jsonw_close(jsonw);
    }
    luo_jsonw_close(jsonw);
}

luo_status luo_import_files_run(luo_cli *cli, luo_convert_kind kind)
{
    luo_convert_opts opts = {.kind = kind};
    luo_convert_made made;
    const char *place[LUO_CONVERT_FILES];
    luo_err err = {0};
    LUO_TRY(luo_cli_fail(cli, read_opts(cli, &opts, &err), &err));
    LUO_TRY(luo_convert(cli->arena, &opts, &made, &cli->diags));
    LUO_TRY(luo_cli_fail(cli, write_files(cli, &made, place, &err), &err));
    tell(cli, &opts, &made, place);
    return LUO_OK;
}
