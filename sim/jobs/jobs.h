/* jobs.h: the simulator for one of several jobs: what luo_sim_backend has as its `jobs`.
 *
 * It simulates all jobs of its options (core/run/jobs/jobs.h), in episodes (sim/step/episode.h),
 * and its steps are those of the job that is run. The world is that of the cluster file all along.
 */
#ifndef LUO_SIM_JOBS_JOBS_H
#define LUO_SIM_JOBS_JOBS_H
#include "sim/net/net.h"

extern const luo_backend luo_sim_jobs_backend;

/* Nets of n program sets of one cluster that run at the same time, each with its config, whose
 * cluster they share: a hop that several may load, and fill, is a wire by itself, and devices whose
 * messages go over one are not folded. Owner: arena. Errors: those of sim_net_make. */
luo_status sim_jobs_nets(luo_arena *arena, const luo_backend_config *config,
                         const luo_programs *const *set, int32_t n, const sim_net **out,
                         luo_err *err);
#endif
