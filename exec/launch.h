/* exec/launch.h: starts the processes of the ranks through mpirun or srun, and ends them.
 *
 * The launcher is a process group of its own, so that an interrupt from the terminal reaches the
 * coordinator alone; it is told to end when the coordinator dies. What it and the ranks write goes
 * to a log, never to the terminal: mpirun prints an essay whenever a rank dies. */
#ifndef LUO_EXEC_LAUNCH_H
#define LUO_EXEC_LAUNCH_H
#include <stdbool.h>
#include <sys/types.h>

#include "core/base/err.h"
#include "exec/options.h"

enum { LUO_DOOR_TOKEN = 33, LUO_DOOR_HOST = 256 };

/* Where ranks find their coordinator. */
struct luo_door {
    int fd; /* listens */
    int port;
    char host[LUO_DOOR_HOST];   /* name or address that ranks can reach */
    char token[LUO_DOOR_TOKEN]; /* what a connection has to know */
    int32_t nranks;             /* LUO_LAUNCH_NONE: as many as the launcher started; else 0 */
    int rank0; /* LUO_LAUNCH_NONE: readable once the process that became rank 0 has ended */
};

/* Opens a door: the loopback alone when all ranks are on this host. Errors: LUO_EBACKEND. */
luo_status luo_door_open(const luo_exec_options *o, luo_door *out, luo_err *err);
void luo_door_close(luo_door *door);

/* Sets what Open MPI reads in this process's environment, before mpirun is executed; what a user
 * has set wins. */
void luo_launch_environment(void);

/* cuda: puts the algorithm and protocol of NCCL that the options name into the environment. */
void luo_launch_pin(const luo_exec_options *o);

typedef struct luo_launch { /* {0}: none */
    pid_t pid;              /* 0: it does not run */
    bool has_log;
    int log;        /* file descriptor */
    off_t log_from; /* where this start began to write */
    int how;        /* wait status, once it has ended */
} luo_launch;

/* Starts n ranks that knock at the door.
 * Errors: LUO_EBACKEND the launcher can not be run; LUO_EIO the log can not be written. */
luo_status luo_launch_start(const luo_exec_options *o, const luo_door *door, int32_t n,
                            luo_launch *out, luo_err *err);
/* Has it ended by itself? */
bool luo_launch_ended(luo_launch *l);
/* Waits so long for its end, then kills its process group; gives everything back. */
void luo_launch_end(luo_launch *l, const luo_exec_options *o, double wait_s);
/* Was a rank killed, as far as the launcher tells? Pre: it has ended. */
bool luo_launch_rank_killed(const luo_launch *l);
/* The reason in what was written since the start: a sentence of `luoshu-rank`, that a rank was
 * killed, else the launcher's first notice on one line, else how it ended. */
void luo_launch_reason(const luo_launch *l, char *text, size_t size);

/* For --launcher none, before anything else is begun. In the process of rank 0 the coordinator
 * goes on in a child, which alone returns; the processes that the launcher knows become ranks. Rank
 * 0 ends with the exit code of its child. These ranks can be started once: there are no restarts,
 * and one run only.
 * Errors, in every process: LUO_EUSAGE there is no launcher around; LUO_EBACKEND. */
luo_status luo_launch_split(const luo_exec_options *o, luo_door *out, luo_err *err);
#endif
