/* plot_lengths.c: `luoshu plot LENGTHS...`: the figure of tables of lengths and of presets. */
#include "cli/plot_lengths.h"

#include <string.h>
#include <sys/stat.h>

#include "cli/run/finish.h"
#include "core/io/plot/plots.h"
#include "core/io/read/input_tables.h"
#include "core/io/read/read.h"

enum { CONTEXT = 32768, NARROW = 2 };

typedef struct drawn { /* a distribution, and what it is made of */
    luo_lengths lengths;
    luo_length_part parts[LUO_PRESET_PARTS];
} drawn;

static bool is_preset(const char *name)
{
    for (int32_t i = 0; i < LUO_LENGTH_PRESETS; i++)
        if (strcmp(luo_length_preset_name(i), name) == 0) return true;
    return false;
}

bool luo_plot_lengths_named(const char *name)
{
    struct stat info;
    if (stat(name, &info) != 0) return is_preset(name);
    return !S_ISDIR(info.st_mode);
}

static luo_status read_table(luo_cli *cli, const char *path, drawn *to, luo_plot_lengths *out)
{
    luo_source src;
    luo_err err = {0};
    const char *slash = strrchr(path, '/');
    LUO_TRY(luo_cli_fail(cli, luo_source_read(cli->arena, path, &src, &err), &err));
    LUO_TRY(luo_read_lengths_text(cli->arena, &src, &to->lengths, &cli->diags));
    out->name = slash ? slash + 1 : path;
    out->from = luo_arena_printf(cli->arena, "%016llx", (unsigned long long)luo_source_hash(&src));
    return out->from ? LUO_OK : luo_cli_fail(cli, luo_err_nomem(&err), &err);
}

static luo_status read_one(luo_cli *cli, const char *name, int64_t ctx, drawn *to,
                           luo_plot_lengths *out)
{
    luo_err err = {0};
    out->lengths = &to->lengths;
    if (!is_preset(name)) return read_table(cli, name, to, out);
    luo_length_preset(name, ctx, to->parts, &to->lengths);
    out->name = name;
    out->from = luo_arena_printf(cli->arena, "context %lld, seed %llu", (long long)ctx,
                                 (unsigned long long)out->seed);
    return out->from ? LUO_OK : luo_cli_fail(cli, luo_err_nomem(&err), &err);
}

/* Files of one name in several folders are told apart by their paths. */
static void name_by_paths(const luo_cli *cli, luo_plot_lengths *all, int n)
{
    bool same[LUO_PLOT_LENGTHS] = {false};
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) same[i] |= k != i && strcmp(all[i].name, all[k].name) == 0;
    for (int i = 0; i < n; i++)
        if (same[i]) all[i].name = cli->args.files[i];
}

/* most: what a legend has room for. */
static luo_status read_opts(luo_cli *cli, int most, int64_t *ctx, int64_t *seed, luo_err *err)
{
    const luo_args *args = &cli->args;
    bool draws = false;
    for (int i = 0; i < args->nfiles; i++) draws |= is_preset(args->files[i]);
    if (luo_args_has(args, "step") || luo_args_has(args, "plan"))
        return luo_err_set(err, LUO_EUSAGE,
                           "`--%s` is about a run, and `%s` is a table of lengths; leave it out.",
                           luo_args_has(args, "step") ? "step" : "plan", args->files[0]);
    for (int i = 0; i < args->nfiles; i++)
        if (!luo_plot_lengths_named(args->files[i]))
            return luo_err_set(err, LUO_EUSAGE,
                               "`%s` is no table of lengths as the others are; runs and lengths "
                               "are plotted one after another.",
                               args->files[i]);
    if (args->nfiles > most)
        return luo_err_set(err, LUO_EUSAGE,
                           "%d distributions are given; at most %d in a figure of this width are "
                           "expected.",
                           args->nfiles, most);
    if (!draws && (luo_args_has(args, "ctx") || luo_args_has(args, "seed")))
        return luo_err_set(err, LUO_EUSAGE,
                           "`--%s` is about presets such as %s, and there are none; leave it out.",
                           luo_args_has(args, "ctx") ? "ctx" : "seed", luo_length_preset_name(0));
    LUO_TRY(luo_args_int(args, "ctx", CONTEXT, 32, 1 << 24, ctx, err));
    return luo_args_int(args, "seed", 0, 0, INT64_MAX, seed, err);
}

luo_status luo_plot_lengths_run(luo_cli *cli, bool column)
{
    luo_err err = {0};
    luo_str made = {0};
    int64_t ctx, seed;
    const int n = cli->args.nfiles;
    luo_plot_lengths all[LUO_PLOT_LENGTHS] = {{0}};
    drawn to[LUO_PLOT_LENGTHS];
    luo_plot_opts opts = {.dir = luo_args_get(&cli->args, "out", "lengthcdf"),
                          .figure = luo_args_get(&cli->args, "figure", NULL),
                          .column = column};
    LUO_TRY(luo_cli_fail(cli, read_opts(cli, column ? NARROW : LUO_PLOT_LENGTHS, &ctx, &seed, &err),
                         &err));
    for (int i = 0; i < n; i++) {
        all[i].seed = (uint64_t)seed;
        LUO_TRY(read_one(cli, cli->args.files[i], ctx, &to[i], &all[i]));
    }
    name_by_paths(cli, all, n);
    luo_status st = luo_cli_scripts(cli, opts.dir, &opts.scripts, &err);
    if (st != LUO_OK) return luo_cli_fail(cli, st, &err);
    st = luo_plot_distribution(cli->arena, &opts, all, n, &made, &cli->diags);
    fputs(luo_str_get(&made), stdout);
    luo_str_free(&made);
    return st;
}
