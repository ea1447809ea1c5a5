/* resultset.h: the folder of a result set, from its lock to its last word.
 *
 *   luo_set_open(&s, dir, force, err);      makes it, locks it, refuses one that is not empty
 *   luo_set_replace(&s, &how, err);         only if luo_set_old(&s): results of an earlier run are
 * there
 *   ..                                      the runs write into dir/LABEL
 *   luo_set_undo(&s, err);                  only if nothing came of it: all is as before
 *   luo_set_close(&s, whole, err);          gives the lock back
 *
 * Replacing: the new set is begun in a hidden folder beside, .NAME.new-PID, and changes places with
 * the old one in a single step of the file system, so that whatever happens DIR is the old set or a
 * new one whose manifests tell its state. The old set waits in DIR/.old until the new one is whole.
 * Files that are no part of a result set stay in DIR. Part of one are the folders of its runs, of
 * its seeds, what compares them, and what runs without policies leave in DIR itself; of these,
 * whose names others may use, only what luoshu wrote, by the first line. */
#ifndef LUO_CORE_IO_RESULT_RESULTSET_H
#define LUO_CORE_IO_RESULT_RESULTSET_H
#include <stdint.h>

#include "core/io/result/lock.h"

#define LUO_SET_OLD ".old"
#define LUO_SET_FLAT_SCHEMA "luoshu.sim/1" /* of summary.json of a run without policies */

typedef struct luo_set { /* all zero: none */
    char *dir;           /* as given */
    char *real;          /* without links */
    luo_lock lock;
    bool made;     /* it was not there before */
    bool replaced; /* by luo_set_replace */
} luo_set;

typedef struct luo_set_new {
    /* Begins the new set in dir: the folder of every run, with its manifest. */
    luo_status (*begin)(void *ctx, const char *dir, luo_err *err);
    void *ctx;
    int32_t nread; /* files that the runs will read; NULLs are skipped */
    const char *const *read;
    const char
        *keep; /* a folder that goes on living in the new set, by links to its files; or NULL */
} luo_set_new;

/* Errors: LUO_EUSAGE a process owns it, or it is not empty and not force; LUO_EIO; LUO_ENOMEM. */
luo_status luo_set_open(luo_set *set, const char *dir, bool force, luo_err *err);
/* Are there results of an earlier run? */
bool luo_set_old(const luo_set *set);
/* Can a run have the folder of that label? Errors: LUO_EUSAGE something else has it, which no
 * option makes ours to replace. */
luo_status luo_set_label(const luo_set *set, const char *label, luo_err *err);
/* May a run without policies write into DIR itself? Errors: LUO_EUSAGE a file has a name of its
 * files and is none of luoshu's, which no option makes ours to replace. */
luo_status luo_set_flat(const luo_set *set, luo_err *err);
/* Errors: those of begin; LUO_EUSAGE a file to be read would be replaced, or the folder cannot be
 * moved; LUO_EIO. The old set is then as before. */
luo_status luo_set_replace(luo_set *set, const luo_set_new *how, luo_err *err);
/* Is there a set that was replaced and waits? */
bool luo_set_replaced(const luo_set *set);
/* What was written since goes, and what it replaced comes back. Pre: no old set was there, or
 * luo_set_replace. Errors: LUO_EIO. Safe on one that is all zero. */
luo_status luo_set_undo(luo_set *set, luo_err *err);
/* whole: what was replaced goes. Gives everything back. Safe on one that is all zero.
 * Errors: LUO_EIO the old set cannot be removed. */
luo_status luo_set_close(luo_set *set, bool whole, luo_err *err);
#endif
