/* noise.h: what the draws of a device in one step begin with.
 *
 * A draw is found by its instruction and task (luo_rng_at), so that in which order, how often and
 * whether it is made changes no other: folded and unfolded steps draw the same numbers. */
#ifndef LUO_SIM_STEP_NOISE_H
#define LUO_SIM_STEP_NOISE_H
#include <stdint.h>

typedef struct sim_noise { /* next numbers of the streams `noise#DEVICE`, `noise#comm#DEVICE` */
    uint64_t compute, comm;
} sim_noise;
#endif
