/* child.h: one policy in a process of its own. */
#ifndef LUO_CLI_RUN_CHILD_H
#define LUO_CLI_RUN_CHILD_H
#include "core/base/process.h"
#include "cli/run/session.h"

enum { LUO_NOTES_MAX = 8 };

/* What a child tells its parent, in memory both share. Written by the child alone; the parent
 * reads the counters while it runs and the rest after it has ended. */
typedef struct luo_child_slot {
    volatile int64_t step, steps;
    volatile double t_s;
    volatile int32_t events;
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
/* Runs policy `index` into dir/LABEL, in a process. Errors: LUO_EBACKEND no process; why: errno. */
luo_status luo_child_start(luo_cli *cli, const luo_session *session, int32_t index,
                           luo_child_slot *slot, luo_process *out, int *why);
/* Writes into the slot what a child that was ended by a signal could not tell: our fault, or that
 * somebody ended it, and how to go on. What it wrote so far stays readable. */
void luo_child_killed(luo_cli *cli, const luo_session *session, int32_t index, int sig,
                      luo_child_slot *slot);
/* dir/LABEL of a policy. Owner: cli->arena. */
const char *luo_child_dir(luo_cli *cli, const luo_session *session, int32_t index);
#endif
