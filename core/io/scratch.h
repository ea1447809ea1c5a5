/* scratch.h: a folder of a process in the memory of this host: /dev/shm/luoshu-UID-RANDOM, made for
 * this user alone, so that nobody else knows its name beforehand or writes into it.
 *
 * Its lock (result/lock.h) tells whether its process or one that it started lives. What a killed
 * one left goes when the next is opened; what is not ours is not opened. */
#ifndef LUO_CORE_IO_SCRATCH_H
#define LUO_CORE_IO_SCRATCH_H
#include "core/base/err.h"
#include "core/io/result/lock.h"

typedef struct luo_scratch { /* all zero: none */
    char path[64];
    luo_lock lock;
} luo_scratch;

/* Sweeps, then makes one. Processes that are started afterwards hold it, too.
 * Errors: LUO_EIO; LUO_ENOMEM. */
luo_status luo_scratch_open(luo_scratch *scratch, luo_err *err);
/* Removes it with all that it holds; nothing if there is none. */
void luo_scratch_close(luo_scratch *scratch);
/* Removes folders of this user whose processes have all gone. */
void luo_scratch_sweep(void);
#endif
