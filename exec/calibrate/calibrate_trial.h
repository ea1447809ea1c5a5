/* calibrate_trial.h: small networks trained on one device for the sake of their times; for
 * those who calibrate. */
#ifndef LUO_EXEC_CALIBRATE_CALIBRATE_TRIAL_H
#define LUO_EXEC_CALIBRATE_CALIBRATE_TRIAL_H
#include "core/plan/compile.h"
#include "exec/calibrate/calibrate.h"

typedef struct luo_network {
    const char *name;
    int64_t hidden, ffn, heads, kv, head_dim, vocab, tokens; /* of a sequence */
    int32_t sequences, layers;                               /* sequences of a micro-batch */
    bool gpt;
} luo_network;

typedef struct luo_trial_run { /* a network, ready to run */
    const luo_rank_executor *executor;
    int32_t rank, nranks;
    luo_arena *arena;
    luo_model model;
    luo_cluster cluster;
    luo_stack stack;
    luo_programs *set;
    luo_recipe recipe;
    luo_corpus *corpus;
    int32_t *device_of;
    luo_rank_config config;
    luo_exec *x;
    luo_job *job;
} luo_trial_run;

/* Plan, programs, data and a bound job of this rank's own; weights drawn. Two micro-batches a step.
 * *run is closed by luo_trial_run_close, whatever is returned. Collective: executors open together.
 */
luo_status luo_trial_run_open(const luo_measurer *measurer, const luo_rank_executor *executor,
                              const luo_network *network, luo_dtype dtype, luo_trial_run *run,
                              luo_err *err);
void luo_trial_run_close(luo_trial_run *trial);
/* One step. Errors: also when the step did not run to its end. */
luo_status luo_trial_run_step(luo_trial_run *trial, int64_t step, bool trace,
                              luo_step_report *report, luo_err *err);
#endif
