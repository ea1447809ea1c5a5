/* episode.h: several jobs on one cluster, each step after step, in one run of SimGrid.
 *
 * Jobs wait for each other nowhere; they meet on wires that they share (sim/net/net.h). An episode
 * ends when all steps are done, or when the steps that follow can be told from those that were
 * simulated: the jobs that run have been those for a while, and
 * - all of them have begun a step at one date before and do so now, so that what lies between comes
 *   again until a job begins or ends, or
 * - each has done `settle` steps: steps until shortly before the next job begins or ends are then
 *   taken as the last three quarters of those, again and again. The next episode begins there, each
 *   job with the beginning of a step.
 */
#ifndef LUO_SIM_STEP_EPISODE_H
#define LUO_SIM_STEP_EPISODE_H
#include "sim/step/serve.h"

typedef struct sim_episode_job {
    const sim_net *net;
    double start_s; /* when its first step begins, since the start of the episode */
    int64_t left;   /* steps, > 0 */
    double end_s;   /* a step begins before it, since the start of the episode; HUGE_VAL: any */
    double update;  /* luo_step_part_update of a whole step */
} sim_episode_job;

typedef struct sim_episode {
    int32_t n, own; /* own: the job whose replies are sent */
    const sim_episode_job *job;
    const luo_world *world;
    int64_t settle;  /* 0: only what comes again is left out */
    int64_t traced;  /* so many of the first steps of `own` are traced */
} sim_episode;

/* The process tells of each step as it ends; behind one of `own` its sim_reply follows. At the end
 * job is -1, and a sim_skip of each job follows. After a status that is not LUO_OK nothing does. */
typedef struct sim_told {
    int32_t job, status;
    bool last; /* the job has ended with it */
    double start_s, seconds;
    char text[LUO_ERR_TEXT];
} sim_told;

typedef struct sim_skip { /* what follows what was simulated */
    double at_s;     /* when the next step that is left begins, after those that are skipped */
    int64_t skipped; /* so many steps are as .. */
    int64_t cycle;   /* .. the last so many that were simulated, in turn .. */
    bool repeats;    /* .. which was assumed: they need not come again */
} sim_skip;

/* Serves the episode of a birth; gives back the exit code, if it does. */
int sim_episode_serve(const sim_birth *birth);
#endif
