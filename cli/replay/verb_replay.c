/* verb_replay.c: `luoshu replay TIMELINE`. */
#include <stdlib.h>
#include <string.h>

#include "cli/folder.h"
#include "cli/inputs.h"
#include "cli/replay/replay_files.h"
#include "cli/run/finish.h"
#include "core/io/recorded/recorded.h"

static luo_status read_job(luo_cli *cli, const char *path, luo_replay *replay, luo_err *err)
{
    const char *steps = luo_args_get(&cli->args, "steps", NULL);
    const luo_range *ranges = NULL;
    luo_replay_record *records = NULL;
    int32_t nranges = 0;
    int64_t n;
    if (steps)
        LUO_TRY(
            luo_inputs_steps(cli, "steps", steps, "a list like 0-3,40", &ranges, &nranges, err));
    LUO_TRY(luo_recorded_read(path, ranges, nranges, &records, &n, &cli->diags));
    luo_status st = n == 0 && steps ? luo_err_set(err, LUO_EUSAGE,
                                                  "`--steps` is `%s`, and none of these steps was "
                                                  "recorded.",
                                                  steps)
                                    : luo_replay_build(cli->arena, records, n, replay, err);
    free(records);
    return st == LUO_EUSAGE ? st : luo_err_at(err, st, path, 0, 0);
}

static luo_status check_options(luo_cli *cli, const char *scenario, luo_err *err)
{
    static const char *const of_scenario[] = {"model", "cluster", "plan"};
    for (size_t i = 0; i < sizeof of_scenario / sizeof *of_scenario && !scenario; i++)
        if (luo_args_has(&cli->args, of_scenario[i]))
            return luo_err_set(err, LUO_EUSAGE, "`--%s` is of --scenario; leave it out.",
                               of_scenario[i]);
    return LUO_OK;
}

/* Timelines have names that others have, too: --force replaces those of `replay` alone. */
static luo_status check_own(luo_cli *cli, const char *dir, luo_err *err)
{
    static const char *const names[] = {LUO_REPLAY_RECORDED, LUO_REPLAY_IDEAL, LUO_REPLAY_TIMES};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        luo_source old;
        const char *path = luo_arena_printf(cli->arena, "%s/%s", dir, names[i]);
        if (!path) return luo_err_nomem(err);
        if (luo_source_read(cli->arena, path, &old, NULL) == LUO_OK &&
            strncmp(old.text, LUO_REPLAY_SAYS, strlen(LUO_REPLAY_SAYS)) != 0)
            return luo_err_set(err, LUO_EUSAGE,
                               "`%s` is there and no file of `luoshu replay`; give another --out.",
                               path);
    }
    return LUO_OK;
}

static luo_status write_files(luo_cli *cli, luo_replay_files *files, luo_err *err)
{
    luo_str answer = {0};
    luo_replay_files_say(files->figures, &answer);
    files->answer = luo_str_get(&answer);
    const luo_status st =
        answer.failed ? luo_err_nomem(err) : luo_replay_files_write(cli, files, err);
    if (st == LUO_OK) luo_replay_files_print(cli, files);
    luo_str_free(&answer);
    return st;
}

static luo_status run(luo_cli *cli, luo_err *err)
{
    const char *path = cli->args.files[0], *scenario = luo_args_get(&cli->args, "scenario", NULL);
    bool plots;
    luo_replay replay;
    luo_replay_figures figures;
    luo_set set = {0};
    luo_replay_files files = {.path = path,
                              .dir = luo_args_get(&cli->args, "out", "replay"),
                              .replay = &replay,
                              .figures = &figures};
    LUO_TRY(luo_inputs_on_off(&cli->args, "plots", &plots, err));
    LUO_TRY(check_options(cli, scenario, err));
    LUO_TRY(read_job(cli, path, &replay, err));
    LUO_TRY(luo_replay_attribute(cli->arena, &replay, &figures, err));
    LUO_TRY(check_own(cli, files.dir, err));
    if (scenario) LUO_TRY(luo_replay_files_scenario(cli, &files, scenario, err));
    LUO_TRY(luo_folder_take(cli, files.dir, true, 1, &path, &set, err));
    luo_status st = write_files(cli, &files, err);
    const luo_folder_end end = luo_folder_end_of(st); /* without figures it is whole, too */
    if (st == LUO_OK && plots) st = luo_cli_draw_all(cli, files.dir);
    const luo_status closed = luo_folder_give(cli, &set, end, st == LUO_OK ? err : NULL);
    return st == LUO_OK ? closed : st;
}

luo_status luo_verb_replay_run(luo_cli *cli)
{
    luo_err err = {0};
    LUO_TRY(luo_cli_files(cli, 1, 1, "a recorded timeline is"));
    const luo_status st = run(cli, &err);
    return err.text[0] ? luo_cli_fail(cli, st, &err) : st;
}
