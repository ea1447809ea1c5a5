/* training_internal.h: what the files of training share. */
#ifndef LUO_CORE_RUN_TRAINING_TRAINING_INTERNAL_H
#define LUO_CORE_RUN_TRAINING_TRAINING_INTERNAL_H
#include "core/run/training/training.h"
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
    double left;                      /* COMPUTES: share of the iteration that is left */
    double seconds;                   /* of a whole iteration, as its devices are now */
    double until_s;                   /* EXCHANGES */
    int64_t iteration;                /* finished ones */
    double spent_s[TRAINER_GONE + 1]; /* of the open step, by phase */
} trainer;

typedef struct training {
    luo_run *run;
    const luo_training_spec *spec;
    const luo_plan *plan;
    luo_arena *arena;
    int32_t n, living;
    trainer *at;
    int64_t ended; /* iterations of the open step */
    double step_start_s;
    int32_t *like;      /* per worker: the first one whose steps take as long on devices as fast */
    double *alone_s;    /* per worker, on nominal devices */
    double *exchange_s; /* by members of a group; < 0: not known yet */
    luo_clock clock;
    luo_preduce preduce;
    luo_step_result result;
    luo_parts *parts; /* by device of the plan */
    double *compute_s, *predicted_s;
    double *rate; /* per device of the cluster, as luo_judge_step takes it */
} training;

/* training_time.c */
/* Fills t->like. Cost: O(workers^2) at most, of workers that nobody is like. */
void luo_training_compare(training *t);
/* Seconds of an iteration of worker w on the devices as they are. */
luo_status luo_training_seconds(training *t, int32_t w, double *seconds, luo_err *err);
/* Seconds of an exchange of `members` workers, or of one with the servers (members 1), begun now.
 */
luo_status luo_training_exchange(training *t, int32_t members, double *seconds, luo_err *err);
bool luo_training_is_up(const training *t, int32_t w);
bool luo_training_uses_servers(const luo_training_spec *spec);

/* training_step.c */
/* The open step has all its iterations: rows, totals, and the next one is opened. */
luo_status luo_training_close_step(training *t, luo_err *err);
#endif
