/* process.h: child processes: started, watched and ended; and how this one is asked to end. */
#ifndef LUO_CORE_BASE_PROCESS_H
#define LUO_CORE_BASE_PROCESS_H
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "core/base/status.h"

typedef struct luo_process { /* {0}: none */
    pid_t pid;               /* 0: it does not run, or has ended and was waited for */
    bool group;              /* it leads a process group, and signals go to all of that */
    int how;                 /* as waitpid gives it, once it has ended */
    int told;                /* signal with which luo_process_urge told it to end; 0: not told */
    double told_s;           /* when, on the monotonic clock */
    const volatile bool *closing; /* of its opts; NULL: not known */
} luo_process;

typedef struct luo_process_opts {
    /* Is called in the child; what it gives back is the exit code, without exit handlers. With a
     * program too: before it, and 0 lets it follow. The caller flushes its streams before a start:
     * what a child finds in them it would write again. */
    int (*inside)(void *ctx);
    void *ctx;
    const char *const *argv; /* program, found on the path, words, NULL at the end. NULL: none */
    const char *const *env;  /* of the program; NULL: that of this process */
    bool no_input;           /* /dev/null in the place of stdin */
    int out, err;            /* descriptors in the place of stdout and stderr; 0: they stay */
    bool group;
    /* In memory that both share and that outlives the child; false at first, the child's
     * luo_process_closing sets it. NULL: nowhere. */
    volatile bool *closing;
    int parent_signal; /* what it gets when the thread that started it ends; 0: nothing */
} luo_process_opts;

/* Returns when the child has been made, with a program when that runs.
 * Errors: LUO_EBACKEND no process, or the program cannot be run; *why (NULL: nowhere) is the errno
 * and *out is {0}. */
luo_status luo_process_start(const luo_process_opts *opts, luo_process *out, int *why);

/* Waits so long, 0: not at all, INFINITY: until its end. True: it does not run any more. */
bool luo_process_wait(luo_process *process, double seconds);

/* Sends a signal to one that runs. */
void luo_process_tell(const luo_process *process, int sig);

/* SIGTERM and, if that has not ended it after so long, SIGKILL; 0: SIGKILL at once. Waits for its
 * end. */
void luo_process_end(luo_process *process, double grace_s);

/* luo_process_end for who waits for others too and comes back: the first time it is told the
 * signal, and if it has not ended after LUO_PROCESS_CHILD_S, or LUO_PROCESS_CLOSE_S where it says
 * that it is closing, it is killed. Waits for nothing. */
void luo_process_urge(luo_process *process, int sig);

/* Of one that has ended: the signal that ended it, 0: none; the exit code as a shell has it, 128
 * and the signal where that ended it. */
int luo_process_signal(const luo_process *process);
int luo_process_code(const luo_process *process);

/* "exit 3" or "signal 11". Returns text. */
char *luo_process_text(const luo_process *process, char *text, size_t size);

/* INT, TERM and HUP end a process at once, which is right where nothing is half written; its
 * children end with it (parent_signal). Who has something to close catches them: from now on the
 * first one sets what luo_process_asked gives. Whoever works looks there, says with
 * luo_process_closing that it has seen it, closes what there is and ends. If nobody has seen it
 * after LUO_PROCESS_GRACE_S, as in the middle of a plan, or if a second one comes, the process ends
 * with 128 and the signal; one whose parent has died has LUO_PROCESS_CLOSE_S. One that the parent
 * sends within the grace counts as the first: a terminal tells both, and the parent passes it on. A
 * HUP that is ignored (nohup) stays so. */
#define LUO_PROCESS_GRACE_S 0.5
/* For luo_process_urge: children end by themselves after the grace; those that are closing may have
 * much to write. */
#define LUO_PROCESS_CHILD_S (1.5 * LUO_PROCESS_GRACE_S)
#define LUO_PROCESS_CLOSE_S 10.0
void luo_process_catch(void);
/* As without, also in a child; what was asked is forgotten. */
void luo_process_let(void);
/* The signal; 0: none came. */
const volatile int *luo_process_asked(void);
/* From now on closing takes what it takes, also if a signal comes only then. */
void luo_process_closing(void);
#endif
