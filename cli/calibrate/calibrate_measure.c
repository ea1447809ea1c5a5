/* calibrate_measure.c: starts the ranks that measure. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/calibrate/calibrate.h"
#include "cli/machine.h"
#include "core/io/files.h"
#include "exec/coordinator/launch.h"

static void become(char *const *argv, const char *log)
{
    const int null = open("/dev/null", O_RDONLY),
              out = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* mpirun then ends its ranks */
    if (null < 0 || out < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
        _exit(126);
    luo_launch_environment(luo_rendezvous_alone(&(luo_exec_options){0}));
    execvp(argv[0], argv);
    _exit(127);
}

/* The last line that begins with the name of the program, else the last line. */
static void last_words(const char *log, char *out, size_t size)
{
    char line[512];
    bool own = false;
    FILE *f = fopen(log, "r");
    snprintf(out, size, "it said nothing");
    while (f && fgets(line, sizeof line, f)) {
        static const char says[] = ": error: ";
        const char *at = strncmp(line, "luoshu-rank", 11) == 0 ? strstr(line, says) : NULL;
        const bool ours = at != NULL;
        const char *text = ours ? at + sizeof says - 1 : line;
        if ((own && !ours) || strspn(text, "- \n") == strlen(text)) continue;
        own = own || ours;
        snprintf(out, size, "%.*s", (int)strcspn(text, "\n"), text);
    }
    if (f) fclose(f);
}

static luo_status wait_for(luo_cli *cli, pid_t pid, int32_t ranks, const char *log)
{
    int how = 0;
    char words[512];
    while (waitpid(pid, &how, 0) < 0) {
    }
    if (WIFEXITED(how) && WEXITSTATUS(how) == 0) {
        unlink(log);
        return LUO_OK;
    }
    if (WIFEXITED(how) && WEXITSTATUS(how) == 127)
        return luo_cli_error(cli, LUO_EBACKEND,
                             "cannot start `mpirun`; Open MPI has to be installed "
                             "(openmpi-bin).");
    last_words(log, words, sizeof words);
    return luo_cli_error(cli, LUO_EBACKEND, "measuring with %d ranks failed: %s (more in %s)",
                         ranks, words, log);
}

luo_status luo_calibrate_measure(luo_cli *cli, const char *program, const char *dir, int32_t ranks,
                                 bool quick, bool ops)
{
    char n[16], mpirun[4096];
    luo_err err = {0};
    const char *log = luo_arena_printf(cli->arena, "%s/measure-%d.log", dir, ranks);
    const luo_status st = luo_machine_rank_program(cli->arena, program, &program, &err);
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
    const pid_t pid = fork();
    if (pid == 0) become((char *const *)argv, log);
    if (pid < 0)
        return luo_cli_error(cli, LUO_EBACKEND,
                             "no process can be started; memory or processes have "
                             "run out.");
    return wait_for(cli, pid, ranks, log);
}
