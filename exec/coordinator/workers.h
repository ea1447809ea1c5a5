/* workers.h: the processes of all ranks as the coordinator sees them: started together, asked
 * together, ended together. One thread; no MPI.
 *
 * A workers lives from luo_workers_start until the first of its ranks is gone or hangs; then all of
 * it is ended, and can be started anew. */
#ifndef LUO_EXEC_COORDINATOR_WORKERS_H
#define LUO_EXEC_COORDINATOR_WORKERS_H
#include <poll.h>

#include "exec/coordinator/launch.h"
#include "exec/message.h"

/* Seconds in which all ranks have to be there, and in which a command that is no step has to go on:
 * eight ranks on two busy cores need seconds for MPI_Init alone. */
enum { LUO_WORKERS_START_S = 120 };

typedef struct luo_workers_where { /* luo_progress_report as last told */
    int64_t done;
    int32_t job, task, instr;
    bool waiting;
    bool silent; /* it did not answer the last question */
} luo_workers_where;

typedef struct luo_workers_rank {
    int fd; /* -1: gone */
    luo_wire_in in;
    int32_t device;
    pid_t pid;
    char host[LUO_HOST_TEXT];
    bool told;     /* its launcher told it to end */
    bool answered; /* the command under way; then: */
    luo_status status;
    char text[LUO_ERR_TEXT];
    luo_wire answer; /* what follows them */
    luo_workers_where where;
    double heard_s; /* when it last said anything to the command under way, or that was given */
} luo_workers_rank;

typedef struct luo_workers {
    const luo_exec_options *options;
    bool has_rendezvous;
    luo_rendezvous rendezvous;
    luo_launch launch;
    bool alive;        /* every rank is there and set up */
    bool local;        /* all of them on this host */
    char refused[192]; /* who came beside a rank that was there, in a sentence; "": nobody */
    int32_t n;
    luo_workers_rank *at;
    struct pollfd *poll;         /* n */
    int64_t serial;              /* of the command under way */
    double asked_s;              /* when it was given */
    struct {                     /* what ended the last life: */
        int32_t rank;            /* that died first, or answers nothing; -1: not known */
        double at_s;             /* when that was noticed, CLOCK_MONOTONIC */
        char text[LUO_ERR_TEXT]; /* who, without `;` and what would be right */
    } loss;
} luo_workers;

/* Starts setup->nranks processes and sets them up; waits until each has read its inputs. host_of:
 * as for luo_launch_start.
 * Pre:    *workers is {0}, or has ended. options live as long.
 * Errors: LUO_EBACKEND they do not start, with the reason; LUO_ENOMEM as luo_launch_start;
 * LUO_EPEER one was killed meanwhile; what a rank said of its inputs.
 * Owner:  luo_workers_end. */
luo_status luo_workers_start(luo_workers *workers, const luo_exec_options *options,
                             const char *const *host_of, const luo_setup *setup, luo_err *err);
/* Lets all ranks end in order, kills those that do not; nothing is left afterwards. */
void luo_workers_end(luo_workers *workers);
/* Ends all ranks at once; progress report and loss stay. The launcher is waited for by the next
 * call of start or end. */
void luo_workers_drop(luo_workers *workers);
/* World rank of a device; -1: it has no process. */
int32_t luo_workers_rank_of(const luo_workers *workers, int32_t device);

/* ---- commands ---- */

/* Begins a command: a payload with its serial number, to be finished by the caller. */
void luo_workers_begin(luo_workers *workers, luo_wire *payload);
/* Errors: those of luo_wire_send, but that a rank is gone is left for luo_workers_wait to find. */
luo_status luo_workers_send(luo_workers *workers, int32_t rank, luo_say kind,
                            const luo_wire *payload, luo_err *err);
luo_status luo_workers_send_all(luo_workers *workers, luo_say kind, const luo_wire *payload,
                                luo_err *err);

typedef struct luo_workers_wait {
    const char *what;  /* the command in words: "save the state" */
    double stuck_s;    /* longest time in which nobody completes an instruction or answers */
    double abort_s;    /* drain the command then (CLOCK_MONOTONIC); INFINITY: never */
    int32_t withdrew;  /* out: rank whose device failed softly first; -1: none */
    double withdrew_s; /* out: when it said so */
    double drained_s;  /* out: when ABORT was sent for abort_s; < 0: not */
} luo_workers_wait;

/* Waits until every rank has answered the command. A device that withdraws makes all drain.
 * Errors: LUO_EPEER a rank died, or answered LUO_EPEER: see loss; LUO_ESTUCK nobody went on for
 * stuck_s, or one that has not answered said nothing at all for the options' stuck_s, not even
 * where it is; the workers is then dropped. What else ranks answered is no error here. */
luo_status luo_workers_wait_all(luo_workers *workers, luo_workers_wait *wait, luo_err *err);
/* The first answer that is not LUO_OK, as an error; LUO_ECANCELED if there is no other. */
luo_status luo_workers_answers(const luo_workers *workers, luo_err *err);
#endif
