/* verb_sim.c: `luoshu sim SCENARIO|PLAN..` and `luoshu demo`. */
#include <string.h>

#include "cli/run/demo.h"
#include "cli/run/seeds.h"
#include "cli/embed.h"
#include "cli/inputs.h"
#include "cli/range.h"
#include "cli/verb_report.h"
#include "core/io/files.h"
#include "core/io/io.h"

enum { DRAWS_MOST = 100000 };

static luo_status read_opts(luo_cli *cli, luo_session *session, const char *trace, luo_err *err)
{
    const luo_args *args = &cli->args;
    int64_t jobs, draws;
    LUO_TRY(luo_args_int(args, "jobs", 0, 1, 4096, &jobs, err));
    LUO_TRY(luo_args_int(args, "draws", 0, 1, DRAWS_MOST, &draws, err));
    session->run.range = true;
    session->run.draws = (int32_t)draws;
    session->at_once = session->seed ? 1 : (int32_t)jobs; /* of several seeds: as many seeds */
    LUO_TRY(luo_inputs_simulator(cli, session, err));
    return luo_inputs_shared(cli, session, trace, err);
}

static luo_status simulate(luo_cli *cli, const char *path, const char *dir, luo_set *set,
                           const char *trace, luo_err *err)
{
    luo_session session = {.set = set}; /* its caller has opened it, and put inputs there */
    LUO_TRY(read_opts(cli, &session, trace, err));
    LUO_TRY(luo_inputs_read(cli, &session, path, err));
    LUO_TRY(luo_inputs_dir(cli, &session, dir, err));
    luo_cli_flush(cli);
    return luo_session_run(cli, &session);
}

/* One of several seeds, in a process of its own. */
static luo_status simulate_seed(luo_cli *cli, const char *seed, const char *dir, luo_err *err)
{
    luo_session session = {.seed = seed};
    LUO_TRY(read_opts(cli, &session, "none", err));
    LUO_TRY(luo_inputs_read(cli, &session, cli->args.files[0], err));
    session.dir = dir;
    session.plots = false; /* those of all seeds are drawn */
    return luo_session_run(cli, &session);
}

/* Reads the inputs once, so that what is wrong with them is told once. */
static luo_status simulate_seeds(luo_cli *cli, luo_err *err)
{
    luo_seeds seeds = {.text = luo_args_get(&cli->args, "seeds", "")};
    luo_session session = {0};
    if (luo_args_has(&cli->args, "seed"))
        return luo_err_set(err, LUO_EUSAGE, "`--seed` and `--seeds` are given; give one of them.");
    LUO_TRY(luo_seeds_read(cli, &seeds, err));
    session.seed = seeds.seed[0];
    LUO_TRY(read_opts(cli, &session, "none", err));
    LUO_TRY(luo_inputs_read(cli, &session, cli->args.files[0], err));
    const char *name =
        luo_arena_printf(cli->arena, "%s-seeds%s", luo_inputs_name(&session), seeds.text);
    if (!name) return luo_err_nomem(err);
    seeds.dir = luo_args_get(&cli->args, "out", name);
    seeds.ninputs = session.ninputs;
    seeds.inputs = session.inputs;
    seeds.plots = session.plots;
    seeds.run = simulate_seed;
    luo_cli_range_warn(cli, session.scenario->cluster, &session.scenario->stack, NULL);
    return luo_seeds_run(cli, &seeds, err);
}

luo_status luo_verb_sim_run(luo_cli *cli)
{
    luo_err err = {0};
    LUO_TRY(luo_cli_files(cli, 1, LUO_ARGS_MAX, "a scenario, or plans, are"));
    if (luo_args_has(&cli->args, "seeds")) {
        const luo_status many = simulate_seeds(cli, &err);
        return err.text[0] ? luo_cli_fail(cli, many, &err) : many;
    }
    const luo_status st = simulate(cli, cli->args.files[0], NULL, NULL, "auto", &err);
    return err.text[0] ? luo_cli_fail(cli, st, &err) : st;
}

/* One step while device 12 is slow: a traced step of 48 devices is 600,000 operations. */
#define DEMO_TRACE "1100"

/* Folders of a file below the first `own` bytes of its path; links among them are not followed. */
static luo_status make_folders(luo_cli *cli, const char *path, size_t own, luo_err *err)
{
    for (const char *slash = path + own; (slash = strchr(slash, '/')); slash++) {
        const char *folder = luo_arena_printf(cli->arena, "%.*s", (int)(slash - path), path);
        if (!folder) return luo_err_nomem(err);
        LUO_TRY(luo_file_make_own_dir(folder, err));
    }
    return LUO_OK;
}

/* The built-in inputs are written beside the results, so that they can be changed and run again. */
static luo_status write_inputs(luo_cli *cli, const char *dir, const char **scenario, luo_err *err)
{
    for (const luo_embedded *embedded = luo_embedded_files; embedded->name; embedded++) {
        const char *path = luo_arena_printf(cli->arena, "%s/inputs/%s", dir, embedded->name);
        if (!path) return luo_err_nomem(err);
        LUO_TRY(make_folders(cli, path, strlen(dir) + 1, err));
        LUO_TRY(luo_file_write_own(path, embedded->text, strlen(embedded->text), err));
        if (strcmp(embedded->name, "scenarios/demo/demo.yaml") == 0) *scenario = path;
    }
    return *scenario ? LUO_OK : luo_err_set(err, LUO_EBUG, "the demo is not in this build.");
}

static luo_status demo(luo_cli *cli, luo_err *err)
{
    const char *dir = luo_args_get(&cli->args, "out", "luoshu-demo"), *scenario = NULL;
    luo_set set;
    LUO_TRY(luo_set_open(&set, dir, luo_args_has(&cli->args, "force"), err));
    luo_status st = write_inputs(cli, dir, &scenario, err);
    if (st == LUO_OK) st = simulate(cli, scenario, dir, &set, DEMO_TRACE, err);
    luo_set_close(&set, false, NULL); /* the run has, unless it did not begin */
    /* That one of the three policies does not survive the failures is what the demo shows. */
    if (st != LUO_OK && st != LUO_ENO) return st;
    st = luo_demo_real(cli, dir);
    const luo_status page = luo_cli_report(cli, &dir, 1, dir);
    return st == LUO_OK ? page : st;
}

luo_status luo_verb_demo_run(luo_cli *cli)
{
    luo_err err = {0};
    LUO_TRY(luo_cli_files(cli, 0, 0, "no file is"));
    const luo_status st = demo(cli, &err);
    return err.text[0] ? luo_cli_fail(cli, st, &err) : st;
}
