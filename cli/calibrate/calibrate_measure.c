/* calibrate_measure.c: starts the ranks that measure. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/calibrate/calibrate.h"
#include "cli/machine.h"
#include "core/base/process.h"
#include "core/io/files.h"
#include "exec/coordinator/launch.h"
#include "exec/limits.h"

static int prepare(void *ctx)
{
    luo_launch_environment(luo_rendezvous_alone(&(luo_exec_options){0}), ctx);
    return 0;
}

static luo_status spawn(luo_cli *cli, const char *const *argv, const char *log, char *scratch,
                        luo_process *out)
{
    luo_err err = {0};
    int why;
    const int file = luo_file_new(log, 0);
    if (file < 0) return luo_cli_fail(cli, luo_io_err(&err, "write", log), &err);
    const luo_process_opts opts = {.inside = prepare,
                                   .ctx = scratch,
                                   .argv = argv,
                                   .no_input = true,
                                   .out = file,
                                   .err = file,
                                   .parent_signal = SIGTERM /* mpirun then ends its ranks */};
    const luo_status st = luo_process_start(&opts, out, &why);
    close(file);
    if (st == LUO_OK) return LUO_OK;
    if (why == EAGAIN || why == ENOMEM)
        return luo_cli_error(cli, st,
                             "no process can be started; memory or processes have "
                             "run out.");
    return luo_cli_error(cli, st,
                         "cannot start `mpirun`; Open MPI has to be installed "
                         "(openmpi-bin).");
}

/* The last line that begins with the name of the program, else the last line. */
static void last_words(const char *log, char *out, size_t size)
{
    char line[512];
    bool own = false;
    FILE *file = fopen(log, "r");
    snprintf(out, size, "it said nothing");
    while (file && fgets(line, sizeof line, file)) {
        static const char says[] = ": error: ";
        const char *at = strncmp(line, "luoshu-rank", 11) == 0 ? strstr(line, says) : NULL;
        const bool ours = at != NULL;
        const char *text = ours ? at + sizeof says - 1 : line;
        if ((own && !ours) || strspn(text, "- \n") == strlen(text)) continue;
        own = own || ours;
        snprintf(out, size, "%.*s", (int)strcspn(text, "\n"), text);
    }
    if (file) fclose(file);
}

static luo_status wait_for(luo_cli *cli, luo_process *process, int32_t ranks, const char *log,
                           const luo_calibrate_turn *turn)
{
    char words[512], label[64];
    snprintf(label, sizeof label, "calibrate  %d rank%s", (int)ranks, ranks == 1 ? "" : "s");
    while (!luo_process_wait(process, 0.1))
        luo_progress_count(turn->progress, label, turn->done, turn->of, "measurements");
    luo_progress_erase(turn->progress);
    if (luo_process_code(process) == 0) {
        unlink(log);
        return LUO_OK;
    }
    last_words(log, words, sizeof words);
    return luo_cli_error(cli, LUO_EBACKEND, "measuring with %d ranks failed: %s (more in %s)",
                         ranks, words, log);
}

luo_status luo_calibrate_measure(luo_cli *cli, const char *program, const char *dir, int32_t ranks,
                                 bool quick, bool ops,
                                 const luo_calibrate_turn *turn)
{
    char n[16], mpirun[4096];
    luo_err err = {0};
    const char *log = luo_arena_printf(cli->arena, "%s/measure-%d.log", dir, ranks);
    luo_status st = luo_machine_rank_program(cli->arena, program, &program, &err);
    if (st == LUO_OK) st = luo_limits_check(ranks, &err);
    if (st != LUO_OK) return luo_cli_fail(cli, st, &err);
    if (!log) return luo_cli_error(cli, LUO_ENOMEM, "%s.", luo_status_text(LUO_ENOMEM));
    snprintf(n, sizeof n, "%d", ranks);
    (void)luo_launch_mpirun(mpirun, sizeof mpirun);
    const char *argv[16] = {mpirun,
                            "--allow-run-as-root",
                            "--oversubscribe",
                            "--bind-to",
                            "none",
                            "-n",
                            n,
                            program,
                            "--calibrate",
                            dir};
    int at = 10;
    if (quick) argv[at++] = "--quick";
    if (!ops) argv[at++] = "--no-ops";
    fflush(stdout);
    fflush(stderr);
    luo_process process;
    luo_scratch scratch;
    (void)luo_scratch_open(&scratch,
                           NULL); /* without one mpirun's files lie where they always do */
    luo_status done = spawn(cli, argv, log, scratch.path, &process);
    if (done == LUO_OK) done = wait_for(cli, &process, ranks, log, turn);
    luo_scratch_close(&scratch);
    return done;
}
