/* training.h: steps of a run whose replicas do not all wait for each other (key `training`):
 * bounded staleness over parameter servers, partial reduce (docs/sync.md#in-scenarios).
 *
 * A worker is a pipeline of the plan. Its iteration is the simulated step of that pipeline alone on
 * devices and links as they are, so that stragglers and slow links between its devices count; when
 * they change, what is left of it goes on at the new speed, and waits while a link that it needs is
 * down. Then it exchanges, as long as the simulated step of its group takes beyond that
 * of the slowest alone on links as they are, or as parameter servers need; when links change, what
 * is left of that goes on likewise, and waits while one that it needs is down. Who may start next,
 * and who averages with whom, is decided by core/sync. A step of the run is as many iterations as
 * the plan has pipelines, whoever made them.
 *
 * A worker with a device that is down leaves; when all are up again it goes on from the newest
 * weights. Policies are not asked, checkpoints are not written. */
#ifndef LUO_CORE_RUN_TRAINING_TRAINING_H
#define LUO_CORE_RUN_TRAINING_TRAINING_H
#include "core/run/run.h"

/* Can this run train so? Errors: LUO_EINPUT, what stands against it; those of simulated steps. */
luo_status luo_training_check(luo_run *run, luo_err *err);
/* All steps of the run, instead of the loop of the driver. Pre: luo_training_check passed. Sets
 * run->clock.state. */
luo_status luo_training_run(luo_run *run, luo_err *err);
#endif
