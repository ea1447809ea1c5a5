/* sim.h: the simulator as a backend: virtual time, no data, link events.
 *
 * What it does to a program set: core/run/backend.h; how: sim/net/net.h and sim/step/step.h.
 *
 * Things a caller must know. `programs->hash` tells program sets apart. `predicted_s` is the time
 * on a device of the type and its group's base_slowdown without events and noise. Steps of programs
 * with forward or backward tasks last longer by scale jitter (docs/cost-model.md#scale) unless
 * there is noise; it counts as bubble. A device of the programs that goes down before the step has
 * ended ends it at that date; a link only if something is under way over it, or is begun. Stretches
 * of compute beside communication (docs/cost-model.md#overlap) are not simulated. */
#ifndef LUO_SIM_SIM_H
#define LUO_SIM_SIM_H
#include "core/run/backend.h"

extern const luo_backend luo_sim_backend;

/* Loads what simulating needs, which the first step does otherwise: who starts processes that
 * simulate does it once for all of them. Errors: those of sim_plugin_find. */
luo_status luo_sim_load(luo_err *err);
/* From now on this process and those that come of it share the steps that they simulate
 * (sim/share.h); calls after the first change nothing. Before the processes are started. Errors:
 * LUO_ENOMEM. */
luo_status luo_sim_share(luo_err *err);
#endif
