/* watch.h: nothing waits for ever: a thread ends the process when it has waited too long, with one
 * sentence on standard error and the exit code of LUO_ESTUCK; the launcher then ends the others.
 *
 * Waits sleep between two looks: ranks share cores, and one that spins slows those that compute. */
#ifndef LUO_EXEC_SYNC_WATCH_H
#define LUO_EXEC_SYNC_WATCH_H
#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "core/base/err.h"

typedef struct luo_watch { /* fields are private */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    double stuck_s, since_s;
    const char *who;
    char what[160];
    bool waits, ends;
    /* of the neighbour: its file, who it is, and when that file's time was last seen to change */
    int mine; /* -1: no neighbour */
    char file[4096], name[64];
    struct timespec sign;
    double looked_s, sign_s;
} luo_watch;

/* who: "worker 2", outlives it. Errors: LUO_EBACKEND no thread. Owner: luo_watch_close. */
luo_status luo_watch_open(luo_watch *watch, const char *who, double stuck_s, luo_err *err);
void luo_watch_close(luo_watch *watch);

/* What follows may wait, for what the words say; until luo_watch_end. */
void luo_watch_begin(luo_watch *watch, const char *fmt, ...) LUO_PRINTF(2, 3);
void luo_watch_end(luo_watch *watch);
/* Where nobody has to wait for a rank that was stopped, since groups form without it or servers
 * answer the others: from now on the thread gives the file `mine` the time of now, over and over,
 * and looks whether the neighbour's does the same, however long that computes. No sign for a
 * quarter more than stuck_s, so that who waits speaks first, ends the process and names it. */
void luo_watch_neighbour(luo_watch *watch, int mine, const char *file, const char *name);
/* A little sleep, the longer the more looks (0, 1, ..) found nothing. */
void luo_watch_nap(int look);
/* Until all n requests are done. Pre: luo_watch_begin. */
void luo_watch_all(MPI_Request *requests, int n);
#endif
