/* launch.h: starts the processes of the ranks through mpirun or srun, and ends them.
 *
 * The launcher is a process group of its own, so that an interrupt from the terminal reaches the
 * coordinator alone; it is told to end when the coordinator dies. What it and the ranks write goes
 * to a log, never to the terminal: mpirun prints an essay whenever a rank dies. */
#ifndef LUO_EXEC_COORDINATOR_LAUNCH_H
#define LUO_EXEC_COORDINATOR_LAUNCH_H
#include <stdbool.h>
#include <sys/types.h>

#include "core/base/err.h"
#include "core/base/process.h"
#include "core/io/scratch.h"
#include "exec/coordinator/rendezvous.h"
#include "exec/options.h"

/* Sets what Open MPI reads in this process's environment, before mpirun is executed; what a user
 * has set wins. alone: all ranks are on this host and speak through memory. scratch: a folder of
 * ours in memory, where Open MPI's own files lie then, so that they go with it; "": none. */
void luo_launch_environment(bool alone, const char *scratch);

/* The mpirun beside this program, as a bundle has one (exec/bundle/make.sh); false: there is none,
 * and out is `mpirun`, which the path finds. */
bool luo_launch_mpirun(char *out, size_t size);

/* cuda: puts the algorithm and protocol of NCCL that the options name into the environment. */
void luo_launch_pin(const luo_exec_options *options);

typedef struct luo_launch { /* {0}: none */
    luo_process process;
    bool has_log;
    int log;        /* file descriptor */
    off_t log_from; /* where this start began to write */
    luo_scratch scratch; /* of the launcher, if all ranks are on this host */
} luo_launch;

/* Refuses a name of "NAME,FI_*" that the environment lacks. Errors: LUO_EUSAGE. */
luo_status luo_launch_check_forward(const char *list, luo_err *err);

/* Starts n ranks that knock at the rendezvous; NULL: they are on this host and know no coordinator.
 * host_of: the name of the host of rank r, for all n ranks; NULL: the launcher places them.
 * Errors: LUO_ENOMEM processes may not take the memory that a rank needs; LUO_EBACKEND the launcher
 * cannot be run; LUO_EIO the log cannot be written. */
luo_status luo_launch_start(const luo_exec_options *options, const luo_rendezvous *rendezvous,
                            const char *const *host_of, int32_t n, luo_launch *out, luo_err *err);
/* Has it ended by itself? */
bool luo_launch_ended(luo_launch *launch);
/* Waits so long for its end, then kills its process group; gives everything back. */
void luo_launch_end(luo_launch *launch, const luo_exec_options *options, double wait_s);
/* Was a rank killed, as far as the launcher tells? All of it when it has ended. */
bool luo_launch_rank_killed(const luo_launch *launch);
/* The rank that the launcher says was killed; -1: it says of none. */
int32_t luo_launch_rank_named(const luo_launch *launch);
/* The reason in what was written since the start: a sentence of `luoshu-rank`, that a rank was
 * killed, else the launcher's first notice on one line, else how it ended. */
void luo_launch_reason(const luo_launch *launch, char *text, size_t size);

/* For --launcher none, before anything else is begun. In the process of rank 0 the coordinator
 * goes on in a child, which alone returns; the processes that the launcher knows become ranks. Rank
 * 0 ends with the exit code of its child. These ranks can be started once: there are no restarts,
 * and one run only.
 * Errors, in every process: LUO_EUSAGE there is no launcher around; LUO_EBACKEND. */
luo_status luo_launch_split(const luo_exec_options *options, luo_rendezvous *out, luo_err *err);
#endif
