/* verb_help.c: `help`, `version`, and what the verbs share on options. */
#include <gnu/libc-version.h>
#include <stdlib.h>
#include <string.h>

#include "cli/build_info.h"
#include "cli/cli.h"
#include "cli/load.h"
#include "core/base/quantity.h"
#include "core/io/builtin.h"
#include "core/io/libraries.h"
#include "core/io/read/read.h"

/* Both tables as they are. */
static void print_limits(void)
{
    puts("Limits of work; --limit NAME=VALUE raises one and may be given several times.\n");
    printf("  %-16s%12s  %s\n", "name", "default", "what it bounds");
    for (int i = 0; i < LUO_WORKS; i++) {
        const luo_work_id id = (luo_work_id)i;
        printf("  %-16s%12lld  %s %s\n", luo_work_name(id), (long long)luo_work_default(id),
               luo_work_unit(id), luo_work_bounds(id));
    }
    puts("\nRanges of quantities, which nothing raises.\n");
    printf("  %-32s%12s%12s  %s\n", "quantity", "lowest", "highest", "unit");
    for (int i = LUO_Q_NONE + 1; i < LUO_QUANTITIES; i++) {
        const luo_quantity *q = luo_quantity_at((luo_quantity_id)i);
        printf("  %-32s%12.6g%12.6g  %s\n", q->name, q->lowest, q->highest,
               *q->unit ? q->unit : "-");
    }
}

static void print_sources(const luo_profile *profile)
{
    for (int32_t i = 0; i < profile->nvalues; i++) {
        const luo_value *v = &profile->values[i];
        printf("  %-34s %12.6g  %-11s  %s\n", v->name, v->value, luo_provenance_name(v->provenance),
               v->source);
    }
}

/* Each name with what stands behind it; tables and stacks give their sources in their files. */
static luo_status print_profiles(luo_cli *cli)
{
    luo_str names = {0};
    puts("Built-in names for `profile:` of a cluster, values with provenance and source.\n");
    luo_builtin_names(LUO_BUILTIN_PROFILES, &names);
    luo_status st = names.failed ? LUO_ENOMEM : LUO_OK;
    for (char *at = names.at, *end; st == LUO_OK && at && (end = strchr(at, ' ')); at = end + 1) {
        luo_profile *profile;
        *end = 0;
        st = luo_read_profile(cli->arena, at, &profile, &cli->diags);
        if (st != LUO_OK) break;
        puts(at);
        print_sources(profile);
    }
    luo_str_free(&names);
    luo_builtin_names(LUO_BUILTIN_STACKS, &names);
    printf("\nBuilt-in names for `stack:` of a scenario and `--stack`:\n  %s\n",
           luo_str_get(&names));
    luo_str_free(&names);
    return st;
}

luo_status luo_verb_help_run(luo_cli *cli)
{
    LUO_TRY(luo_cli_files(cli, 0, 1, "at most one verb is"));
    if (cli->args.nfiles == 0) {
        luo_cli_help(stdout);
        return LUO_OK;
    }
    if (strcmp(cli->args.files[0], "limits") == 0) {
        print_limits();
        return LUO_OK;
    }
    if (strcmp(cli->args.files[0], "profiles") == 0) return print_profiles(cli);
    const luo_verb *v = luo_verb_find(cli->args.files[0]);
    luo_err err;
    if (!v) return luo_cli_fail(cli, luo_verb_unknown(cli->args.files[0], &err), &err);
    luo_verb_help(stdout, v);
    return LUO_OK;
}

luo_status luo_verb_version_run(luo_cli *cli)
{
    LUO_TRY(luo_cli_files(cli, 0, 0, "no argument is"));
    printf("luoshu %s (%s)\n", LUO_VERSION, luo_build_git);
    printf("compiler: %s\nflags: %s\n", luo_build_compiler, luo_build_flags);
    char text[256];
    for (int i = 0; i < luo_nbackends; i++)
        if (luo_backends[i]->describe(text, sizeof text) == LUO_OK)
            printf("backend %s\n", text);
    if (luo_build_no_cuda[0])
        printf("GPU code: none (%s at build time)\n", luo_build_no_cuda);
    else
        printf("GPU code: %s\n", luo_build_cuda);
    printf("libraries: %s\n", luo_io_libraries);
    return LUO_OK;
}
