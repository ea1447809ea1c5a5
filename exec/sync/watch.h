/* watch.h: nothing waits for ever: a thread ends the process when it has waited too long, with one
 * sentence on standard error and the exit code of LUO_ESTUCK; the launcher then ends the others.
 *
 * Waits sleep between two looks: ranks share cores, and one that spins slows those that compute. */
#ifndef LUO_EXEC_SYNC_WATCH_H
#define LUO_EXEC_SYNC_WATCH_H
#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>

#include "core/base/err.h"

typedef struct luo_watch { /* fields are private */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    double stuck_s, since_s;
    const char *who;
    char what[160];
    bool waits, ends;
} luo_watch;

/* who: "worker 2", outlives it. Errors: LUO_EBACKEND no thread. Owner: luo_watch_close. */
luo_status luo_watch_open(luo_watch *watch, const char *who, double stuck_s, luo_err *err);
void luo_watch_close(luo_watch *watch);

/* What follows may wait, for what the words say; until luo_watch_end. */
void luo_watch_begin(luo_watch *watch, const char *fmt, ...) LUO_PRINTF(2, 3);
void luo_watch_end(luo_watch *watch);
/* A little sleep, the longer the more looks (0, 1, ..) found nothing. */
void luo_watch_nap(int look);
/* Until all n requests are done. Pre: luo_watch_begin. */
void luo_watch_all(MPI_Request *requests, int n);
#endif
