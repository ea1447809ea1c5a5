/* worker.h: a process that simulates steps of one program set.
 *
 * SimGrid knows one engine per process and a platform that cannot change, so every program set gets
 * a process of its own: forked with all it needs in memory, asked over a socket pair, dropped after
 * a failure (its actors and links are then in no state to go on). Its end is an error here, never
 * ours. */
#ifndef LUO_SIM_WORKER_H
#define LUO_SIM_WORKER_H
#include "core/base/process.h"
#include "sim/step/report.h"

struct sim_episode;
typedef struct sim_worker { /* {0}: none */
    luo_process process;
    int fd;
    int log;       /* in memory: what it writes to stderr */
    uint64_t hash; /* of its programs */
    int64_t used;  /* when it was last asked, for the choice of which to drop */
    /* Its first answer came from another process (share.h), so that it was not started; if there is
     * a second question it is, and asked the first one before. NULL: it has a process, or none. */
    const struct sim_shared *owed;
} sim_worker;

typedef struct sim_ask {
    const luo_world *world;
    const luo_change *changes; /* at_s since the start of the step */
    int32_t nchanges;
    bool trace;
    double update; /* luo_step_part_update */
    const sim_noise *noise; /* n of the programs; NULL: no noise */
    int32_t n;
    const volatile int *interrupted; /* of the config */
} sim_ask;

/* Works the net out and forks; others: workers whose sockets the new process must not keep.
 * Errors: those of sim_net_make; LUO_EBACKEND no process. */
luo_status sim_worker_start(sim_worker *worker, const luo_backend_config *config,
                            const luo_programs *set, const sim_worker *others, int32_t nothers,
                            luo_err *err);
/* The same of a net that is there and, unless it is NULL, for an episode of several
 * (sim/step/episode.h), which ends it. Errors: LUO_EBACKEND no process. */
luo_status sim_worker_fork(sim_worker *worker, const sim_net *net,
                           const struct sim_episode *episode, const sim_worker *others,
                           int32_t nothers, luo_err *err);
/* Simulates one step. The reply's arrays belong to arena. Errors: LUO_EBACKEND the process died;
 * LUO_ECANCELED interrupted meanwhile, seen within a tenth of a second; LUO_ENOMEM here or there.
 * After an error, or a reply that is not LUO_OK, the worker is gone. */
luo_status sim_worker_ask(sim_worker *worker, luo_arena *arena, const sim_ask *ask, sim_reply *out,
                          luo_err *err);
/* So many bytes of what an episode tells, or a reply. Errors: as sim_worker_ask. */
luo_status sim_worker_hear(sim_worker *worker, const volatile int *interrupted, void *data,
                           size_t bytes, luo_err *err);
luo_status sim_worker_take(sim_worker *worker, luo_arena *arena, const volatile int *interrupted,
                           sim_reply *out, luo_err *err);
void sim_worker_drop(sim_worker *worker);
#endif
