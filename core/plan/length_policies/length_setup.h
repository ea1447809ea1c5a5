/* length_setup.h: all that policies for uneven lengths choose once for a set of devices: costs of
 * strategies, where optimizer state lies, candidate plans, settings of the rivals
 * (docs/planners.md#hydraulis). */
#ifndef LUO_CORE_PLAN_LENGTH_POLICIES_LENGTH_SETUP_H
#define LUO_CORE_PLAN_LENGTH_POLICIES_LENGTH_SETUP_H
#include "core/cost/cost.h"
#include "core/plan/length_policies/length_plan.h"

enum { LUO_CONTEXT_SIZES = 8 }; /* of context parallelism that may be listed */

/* Whose proposals are candidates: of both modes, or of one. */
#define LUO_PROPOSALS_LIST(X)                                                                      \
    X(LUO_PROPOSALS_BOTH, "both")                                                                  \
    X(LUO_PROPOSALS_FLOOR, "floor")                                                                \
    X(LUO_PROPOSALS_PUBLIC, "public")
typedef enum luo_proposals { LUO_PROPOSALS_LIST(LUO_WORD_VALUE) } luo_proposals;

typedef struct luo_length_setup_in {
    const luo_model *model;
    const luo_cluster *cluster;
    const luo_stack *stack;
    int32_t ndevices; /* usable, those of a node side by side */
    const int32_t *devices;
    const luo_lengths *lengths;
    luo_batch_rule rule; /* rule.most is the context */
    int64_t limit;       /* sequences of a batch, at most */
    uint64_t seed;
    int32_t ncontext; /* context-parallel sizes beside 1 that strategies may have */
    int32_t context[LUO_CONTEXT_SIZES];
    luo_proposals proposals;
    luo_length_assign assign;
    double switch_ms; /* of hotspa */
    luo_step_opts step;
    int32_t device_step; /* of proposals; 0: 1, above 64 devices 4 */
    int64_t grid_step;   /* of lengths; 0: by the context */
} luo_length_setup_in;

typedef struct luo_length_setup {
    luo_pool pool;
    luo_optimizer_layout layout; /* of policies whose replicas differ: that of uniform_best, so that
                                    its plan is as good to them; or what a caller sets */
    luo_candidates found;
    luo_length_rivals rivals;
    luo_step_place place;
    double *moved_ms; /* per candidate: luo_length_moved_ms */
    double *type;     /* per place: luo_pool_model_speeds */
    bool mixed;       /* of types of unequal speed */
    double *speed;    /* per place: what replicas there are weighed by */
} luo_length_setup;

/* The layout of optimizer state that is as wide as a node allows: each tensor-parallel rank cuts it
 * once more. */
luo_optimizer_layout luo_length_layout(const luo_model *model, const luo_cluster *cluster,
                                       const int32_t *devices, int32_t ndevices);
/* luo_length_rivals_choose on batches of the stream `hydraulis` of the seed, of at most `limit`
 * sequences. Errors: those of it and of luo_lengths_batch. Owner: arena. */
luo_status luo_length_choose_on_samples(luo_arena *arena, const luo_lengths *lengths,
                                        const luo_batch_rule *rule, int64_t limit, uint64_t seed,
                                        int64_t grid_step, luo_length_rivals *rivals, luo_err *err);
/* (*out)[p]: what moves between `place` and candidate p, luo_propagation.exposed_ms; 0: not known.
 * Errors: LUO_ENOMEM. Owner: arena. */
luo_status luo_length_moved_ms(luo_arena *arena, const luo_pool *pool,
                               const luo_candidates *candidates, const luo_step_place *place,
                               const luo_stack *stack, double **out, luo_err *err);
/* The same of equal replicas of each entry of the pool, whose state lies as
 * luo_length_plan_layout says. Errors: LUO_ENOMEM. Owner: arena. */
luo_status luo_length_moved_alike_ms(luo_arena *arena, const luo_length_rivals *rivals,
                                     const luo_step_place *place, const luo_stack *stack,
                                     double **out, luo_err *err);
/* Adds strategies of these context-parallel sizes to a pool. Errors: LUO_EINPUT the nodes have no
 * network; LUO_ENOMEM. Owner: arena. */
luo_status luo_length_add_context(luo_arena *arena, const luo_length_setup_in *in, luo_pool *pool,
                                  luo_err *err);

/* What the candidates of a setup are made from. */
void luo_length_candidates_in(const luo_length_setup_in *in, const luo_length_setup *setup,
                              luo_candidates_in *out);

/* A pool from the cost model whose caps fit, candidates, and what every rival chooses on sample
 * batches of the stream `hydraulis` of the seed. *out points into itself.
 * Errors: LUO_EINFEASIBLE no strategy holds the longest sequence; those of luo_pool_model,
 * luo_candidates_make and luo_length_rivals_choose; LUO_ENOMEM. Owner: arena.
 * Cost: some compilations for each strategy; a proposal. */
luo_status luo_length_setup_make(luo_arena *arena, const luo_length_setup_in *in,
                                 luo_length_setup *out, luo_err *err);
/* *to becomes *from, which points into itself. */
void luo_length_setup_copy(luo_length_setup *to, const luo_length_setup *from);
/* The replicas of candidate p hold so much less from now on, those of others what they held: what
 * fits beside replicas of its kind may not fit beside others. Pre: 0 < share < 1.
 * Errors: LUO_ENOMEM. Owner: arena. */
luo_status luo_length_setup_tighten(luo_arena *arena, luo_length_setup *setup, int32_t p,
                                    double share, luo_err *err);
/* All strategies hold so much less. */
void luo_length_setup_tighten_all(luo_length_setup *setup, double share);
/* Are some devices of types slower than the others by more than a hundredth? type: as of a setup.
 */
bool luo_length_setup_mixes(const double *type, int32_t ndevices);
/* Speeds of replicas when devices are so much slower than their types (NULL: 1 all), by place. */
void luo_length_setup_rates(luo_length_setup *setup, const double *rate);
/* The same for speeds against the pool; they live as long as the setup. */
void luo_length_setup_speeds(luo_length_setup *setup, double *speed);
#endif
