/* split.c: under a launcher of the user's (--launcher none): one process a rank is there
 * already, and the coordinator has to live beside them. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/io/files.h"
#include "exec/coordinator/launch.h"
#include "exec/wire.h"

/* What launchers tell their processes: Open MPI, PMI (MPICH, Intel), Slurm. */
static const struct {
    const char *rank, *size;
} launchers[] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                 {"PMI_RANK", "PMI_SIZE"},
                 {"SLURM_PROCID", "SLURM_NTASKS"}};

static bool number(const char *name, int32_t *out)
{
    const char *text = getenv(name);
    char *end;
    if (!text) return false;
    const long v = strtol(text, &end, 10);
    if (end == text || *end || v < 0 || v > INT32_MAX) return false;
    *out = (int32_t)v;
    return true;
}

static luo_status find_place(int32_t *rank, int32_t *n, luo_err *err)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
        if (number(launchers[i].rank, rank) && number(launchers[i].size, n) && *rank < *n)
            return LUO_OK;
    return luo_err_set(err, LUO_EUSAGE,
                       "`--launcher none` is given and no launcher is around; "
                       "start it as `mpirun -n RANKS luoshu run ..`, or leave the option out.");
}

/* The rank program in the place of this process. Its address is told by rank 0 alone. */
static luo_status become_rank(const luo_exec_options *options, const luo_rendezvous *rendezvous,
                              luo_err *err)
{
    char address[LUO_RENDEZVOUS_HOST + 16], why[128];
    int n = 0;
    const char **at = calloc((size_t)options->ninputs + 8, sizeof *at);
    if (!at) return luo_err_nomem(err);
    at[n++] = options->program;
    at[n++] = "--broadcast";
    if (rendezvous) {
        snprintf(address, sizeof address, "%s:%d", rendezvous->host, rendezvous->port);
        at[n++] = "--control";
        at[n++] = address;
        setenv(LUO_RENDEZVOUS_VARIABLE, rendezvous->token, 1);
    }
    for (int32_t i = 0; i < options->ninputs; i++) at[n++] = options->inputs[i];
    luo_launch_pin(options);
    execvp(options->program, (char *const *)at);
    luo_io_errno_text(errno, why, sizeof why);
    free(at);
    return luo_err_set(err, LUO_EBACKEND, "cannot run `%s`: %s; it belongs beside `luoshu`.",
                       options->program, why);
}

luo_status luo_launch_split(const luo_exec_options *options, luo_rendezvous *out, luo_err *err)
{
    int32_t rank, n;
    luo_rendezvous rendezvous;
    LUO_TRY(find_place(&rank, &n, err));
    if (rank > 0) return become_rank(options, NULL, err);
    LUO_TRY(luo_rendezvous_open(options, &rendezvous, err));
    rendezvous.nranks = n;
    int life[2]; /* its other end stays open as long as rank 0's process lives */
    if (pipe(life) != 0) {
        luo_rendezvous_close(&rendezvous);
        return luo_err_set(err, LUO_EBACKEND, "no pipe to rank 0; close files.");
    }
    const pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0); /* or the launcher would end it with the ranks, before it has told why */
        close(life[1]);
        rendezvous.rank0 = life[0];
        fcntl(rendezvous.rank0, F_SETFD, FD_CLOEXEC);
        *out = rendezvous;
        return LUO_OK;
    }
    if (pid > 0) {
        close(rendezvous.fd);
        close(life[0]);
        const luo_status st = become_rank(options, &rendezvous, err);
        kill(pid, SIGTERM);
        return st;
    }
    close(life[0]);
    close(life[1]);
    luo_rendezvous_close(&rendezvous);
    return luo_err_set(err, LUO_EBACKEND, "no process for the coordinator; end others.");
}
