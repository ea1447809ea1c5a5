/* training_internal.h: what the files of training share. */
#ifndef LUO_CORE_RUN_TRAINING_TRAINING_INTERNAL_H
#define LUO_CORE_RUN_TRAINING_TRAINING_INTERNAL_H
#include "core/run/training/training.h"
#include "core/sync/adpsgd.h"
#include "core/sync/clock.h"
#include "core/sync/preduce.h"

/* What a worker does; the parts of a step are made of it. */
typedef enum trainer_phase {
    TRAINER_COMPUTES,
    TRAINER_WAITS, /* for a group, for all others, or for the clock rule */
    TRAINER_EXCHANGES,
    TRAINER_GONE
} trainer_phase;

typedef struct trainer { /* a worker */
    trainer_phase phase;
    bool arrived;                     /* WAITS: it has computed and wants to exchange */
    bool asks;                        /* WAITS: its request is under way, until until_s */
    bool guard;                       /* of its group, from `answer` on */
    int64_t answer;                   /* WAITS: its group has closed, as the one of this number,
                                       * and it knows at until_s; 0: not yet */
    double left;                      /* COMPUTES: share of the iteration that is left; EXCHANGES:
                                       * of the exchange, when `seconds` was last set */
    double seconds;                   /* of the whole, as devices or links are now */
    double until_s;                   /* EXCHANGES; INFINITY: a link is down. See above */
    int64_t group;                    /* EXCHANGES: they who have the same do it together */
    int64_t iteration;                /* finished ones */
    int64_t turn;                     /* adpsgd: the step whose partner is its next */
    double spent_s[TRAINER_GONE + 1]; /* of the open step, by phase */
    double ended_s, begun_s, computed_s,
        met_s; /* iteration before; computation, exchange of this */
} trainer;

typedef struct training {
    luo_run *run;
    const luo_training_spec *spec;
    const luo_plan *plan;
    luo_arena *arena;
    int32_t n, living;
    trainer *at;
    int64_t ended;  /* iterations of the open step */
    int64_t groups; /* exchanges that have begun */
    int64_t closed; /* groups that have closed, where answers take time */
    uint64_t links; /* how they are: a hash; 0: all well */
    bool *crosses;  /* per worker: one of those that are not joins devices of its own */
    double step_start_s;
    int32_t *like; /* per worker: the first one whose steps take as long on devices as fast */
    int32_t *cut;  /* per worker: the first one with the same stages, wherever they are */
    luo_map steps, exchanges;           /* of groups (training_group.c): bits of seconds */
    luo_map iterations;                 /* of workers that cross such links, the same */
    int32_t *link_number, *node_number; /* while groups are compared; else -1 */
    int32_t *seen_link, *seen_dev;
    luo_clock clock;
    luo_preduce preduce;
    luo_adpsgd adpsgd;
    luo_step_result result;
    luo_parts *parts; /* by device of the plan */
    double *compute_s, *predicted_s;
    double *rate; /* per device of the cluster, as luo_judge_step takes it */
} training;

/* training_open.c */
/* All of it but the first iterations. Errors: LUO_ENOMEM. Owner: the run's arena, but for the maps.
 */
luo_status luo_training_open(training *t, luo_run *run, luo_err *err);

/* training_time.c */
/* Fills t->like and t->cut. Cost: O(workers^2) at most, of workers that nobody is like. */
void luo_training_compare(training *t);
/* Seconds of an iteration of worker w on devices and links as they are; INFINITY: a link that it
 * needs is down. Errors: as below. Cost: a simulated step, the first time. */
luo_status luo_training_seconds(training *t, int32_t w, double *seconds, luo_err *err);
/* Fills t->links and t->crosses. Cost: O(links), and while one is not well O(devices^2) of every
 * worker, of up to 1,024 of them. */
void luo_training_see_links(training *t);
/* Seconds of a step of these pipelines of the plan and of nothing else, all devices well, links as
 * they are; INFINITY: one that it needs is down. Errors: LUO_EINPUT they cannot make one; those of
 * luo_judge_step. */
luo_status luo_training_step_of(training *t, const int32_t *member, int32_t n, double *seconds,
                                luo_err *err);
/* Seconds of an exchange of these workers, or of each of them with the servers, on links as they
 * are; INFINITY: one is down. */
luo_status luo_training_exchange(training *t, const int32_t *member, int32_t n, double *seconds,
                                 luo_err *err);
bool luo_training_is_up(const training *t, int32_t w);
bool luo_training_uses_servers(const luo_training_spec *spec);

/* training_servers.c */
/* Seconds of an exchange with the servers. */
luo_status luo_training_servers(training *t, double *seconds, luo_err *err);
/* Messages of it at most, where servers are devices. */
int64_t luo_training_messages(const training *t);
/* A server whose device is down; -1: none. */
int32_t luo_training_dead_server(const training *t);

/* training_group.c */
/* What the step of these workers takes beyond the slowest of them alone: sums of gradients, as far
 * as nothing hides them. Pre: n >= 1, ascending. Cost: O(devices^2) of members that have not met
 * before; simulated steps where none were like them. */
luo_status luo_training_group(training *t, const int32_t *member, int32_t n, double *seconds,
                              luo_err *err);

/* training_step.c */
/* The open step has all its iterations: rows, totals, and the next one is opened. */
luo_status luo_training_close_step(training *t, luo_err *err);
#endif
