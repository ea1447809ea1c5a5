/* cli/verb_help.c: `help`, `version`, and what the verbs share on options. */
#include <gnu/libc-version.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/build_info.h"
#include "cli/load.h"
#include "core/io/libraries.h"

luo_status luo_verb_help_run(luo_cli *cli)
{
    LUO_TRY(luo_cli_files(cli, 0, 1, "at most one verb is"));
    if (cli->args.nfiles == 0) {
        luo_main_help(stdout);
        return LUO_OK;
    }
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
