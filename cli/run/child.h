/* child.h: one policy in a process of its own. */
#ifndef LUO_CLI_RUN_CHILD_H
#define LUO_CLI_RUN_CHILD_H
#include "cli/run/session.h"
#include "core/base/process.h"
#include "core/io/scratch.h"

enum { LUO_NOTES_MAX = 8 };

/* What a child tells its parent, in memory both share. Written by the child alone; the parent
 * reads the counters while it runs and the rest after it has ended. */
typedef struct luo_child_slot {
    volatile int64_t step, steps;
    volatile double t_s;
    volatile int32_t events;
    volatile bool closing; /* the run is over, and what it left is being written */
    luo_scratch memory;    /* of its checkpoints, if they lie in memory; the parent has made it */
    luo_status status;
    luo_err err;
    int stopped; /* signal that told it to end; 0: none */
    double wall_s;
    int32_t nnotes; /* warnings of the run, for the terminal */
    char note[LUO_NOTES_MAX][LUO_ERR_TEXT];
} luo_child_slot;

/* Begins the folder DIR/LABEL of a policy that is to run later: its inputs and its manifest. */
luo_status luo_child_begin(luo_cli *cli, const luo_session *session, int32_t index, const char *dir,
                           luo_err *err);
/* Runs policy `index` into dir/LABEL, in a process. Errors: LUO_EBACKEND no process; why: errno;
 * LUO_EIO, LUO_ENOMEM, told in the slot: no memory for its checkpoints. */
luo_status luo_child_start(luo_cli *cli, const luo_session *session, int32_t index,
                           luo_child_slot *slot, luo_process *out, int *why);
/* Gives back what was kept for a child that has ended; checkpoints in memory that it could not keep
 * itself, since it was killed, are kept. Writes into the slot what a child that was ended by a
 * signal could not tell: our fault, or that somebody ended it, and how to go on; or that it was
 * asked to end and was at what could not be interrupted, or did not hear it and was killed for
 * that. What it wrote so far stays readable. */
void luo_child_ended(luo_cli *cli, const luo_session *session, int32_t index,
                     const luo_process *process, luo_child_slot *slot);
/* dir/LABEL of a policy. Owner: cli->arena. */
const char *luo_child_dir(luo_cli *cli, const luo_session *session, int32_t index);
#endif
