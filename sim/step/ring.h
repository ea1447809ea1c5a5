/* ring.h: see ring.c. */
#ifndef LUO_SIM_STEP_RING_H
#define LUO_SIM_STEP_RING_H
#include "sim/step/step.h"

/* Before any of its edges starts: has the ring all its wires to itself, an edge each? Then they are
 * its own until it is done (sim_alone_done) or somebody comes, and it ends *end_s after its start
 * if nobody does. */
bool sim_ring_alone(sim_step *step, sim_transfer *transfer, double *end_s);

/* Where the edges of a ring that was alone stand `at` seconds after its start: steps done go into
 * transfer->ring, what is left of the steps under way into left[0..n); the bytes that moved are
 * counted. False: out of memory. */
bool sim_ring_stand(sim_step *step, const sim_transfer *transfer, double at, sim_edge_left *left);
#endif
