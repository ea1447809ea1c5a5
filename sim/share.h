/* share.h: steps that are simulated once in a command: a run whose plan moves to other nodes, runs
 * of several policies or seeds, and cells of a sweep ask for the same steps of the same programs.
 *
 * Programs are told apart by what they do at which place (places.h), and so is what devices and
 * links are slow, so that a step is found again on other nodes. Shared is what a new worker
 * (worker.h) answers first, in a world that does not change: later answers depend, in their last
 * bits, on what was asked before. So a run leaves the same bytes whether it finds a step here or
 * simulates it.
 */
#ifndef LUO_SIM_SHARE_H
#define LUO_SIM_SHARE_H
#include "sim/places.h"
#include "sim/step/report.h"

enum { SIM_SHARE_BYTES = 512 << 20 };

typedef struct sim_share_key { /* all that the answer depends on */
    uint64_t config;           /* sim_share_config */
    uint64_t programs;         /* sim_places_hash */
    double update; /* luo_step_part_update */
    const luo_world *world;
    const sim_places *places; /* of the programs; by which worlds and replies are kept */
} sim_share_key;

typedef struct sim_shared sim_shared; /* a step that is known; it stays where it is */

/* A name of all that a simulator reads of its config but for what is random: values of cluster,
 * profiles and stack, wherever they lie. */
uint64_t sim_share_config(const luo_backend_config *config);
bool sim_share_on(void); /* luo_sim_share was called */
/* NULL: nobody has simulated it, or nothing is shared. *out: its reply, whose arrays belong to
 * arena. Errors: LUO_ENOMEM. */
luo_status sim_share_find(luo_arena *arena, const sim_share_key *key, const sim_shared **found,
                          sim_reply *out, luo_err *err);
/* Keeps a copy of a reply without records that uses no link without a place, as long as there is
 * room, which is told nowhere: who does not find it simulates. Pre: its status is LUO_OK. */
void sim_share_put(luo_arena *scratch, const sim_share_key *key, const sim_reply *reply);
/* What was asked, in the world of the one that found it: that of its key. Pre: places are those of
 * that key. Owner: arena. NULL: out of memory. */
const luo_world *sim_share_world(luo_arena *arena, const sim_shared *shared,
                                 const luo_cluster *cluster, const sim_places *places);
double sim_share_update(const sim_shared *shared);
#endif
