/* listener.h: the thread of a rank that listens to the coordinator, so that it is heard even
 * while the rank computes or hangs in MPI. It calls no MPI.
 *
 * It answers WHERE at once; ABORT sets a flag; other commands wait in a queue for the main thread.
 * When the coordinator is gone the process ends at once: no rank outlives its run. */
#ifndef LUO_EXEC_COORDINATOR_LISTENER_H
#define LUO_EXEC_COORDINATOR_LISTENER_H
#include "exec/message.h"

typedef struct luo_listener luo_listener;

typedef struct luo_command {
    int32_t kind;
    int64_t serial;
    double received_s; /* CLOCK_MONOTONIC */
    luo_wire payload;  /* behind the serial number; owned */
} luo_command;

/* Takes the connection over. lost: called when the coordinator is gone; the process ends with the
 * code it returns. Pre: SIGTERM is blocked in all threads of the process: the listener answers it,
 * by saying so to the coordinator and ending the process. */
luo_status luo_listener_start(int fd, const luo_progress_report *where, int (*lost)(void),
                              luo_listener **out, luo_err *err);
/* Pre: the last command was END. */
void luo_listener_close(luo_listener *listener);

/* The next command; waits for it. Owner: luo_wire_free(&out->payload). */
void luo_listener_next(luo_listener *listener, luo_command *out);
/* Sends a message of the main thread. */
luo_status luo_listener_say(luo_listener *listener, luo_say kind, const luo_wire *payload,
                            luo_err *err);

/* Set while the command that was begun is to be drained. */
const _Atomic bool *luo_listener_abort(const luo_listener *listener);
/* The command is begun: from now on its dates count (CLOCK_MONOTONIC; INFINITY: never). */
void luo_listener_begin(luo_listener *listener, int64_t serial, double withdraw_s, double kill_s);
/* .. and over; the flag is down again. */
void luo_listener_finish(luo_listener *listener);
#endif
