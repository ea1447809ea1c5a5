/* lock.h: who owns a folder of results. DIR/.lock names the process (pid, start, host) and
 * is held by flock as long as it or a process that it started lives: the kernel gives back what the
 * dead held, and a reused pid holds nothing. Where a file system has no flock, the names alone
 * decide. */
#ifndef LUO_CORE_IO_RESULT_LOCK_H
#define LUO_CORE_IO_RESULT_LOCK_H
#include <stdbool.h>

#include "core/base/err.h"

#define LUO_LOCK_FILE ".lock"

typedef struct luo_lock { /* all zero: holds nothing */
    char *path;           /* DIR/.lock; NULL: nothing is held */
    int fd;
} luo_lock;

/* Takes the lock of a folder that is there; that of a dead process is taken over, after waiting up
 * to 10 s for those it started. Processes that are started afterwards hold it, too. Errors:
 * LUO_EUSAGE a living process owns the folder, which the sentence names; LUO_EIO; LUO_ENOMEM.
 */
luo_status luo_lock_take(luo_lock *lock, const char *dir, luo_err *err);
/* Removes the file and gives the lock back; nothing if none is held. */
void luo_lock_give(luo_lock *lock);
/* Has a process taken the lock of this folder that is gone, with all that it started? Of one that
 * has no lock: no. */
bool luo_lock_left(const char *dir);
#endif
