/* orders.h: the plan of a step on devices some of which are slower: which replicas take which
 * devices, and what is cut around slow ones (docs/policies.md#uneven-lengths, `stragglers`). */
#ifndef LUO_CORE_RUN_LENGTHS_ORDERS_H
#define LUO_CORE_RUN_LENGTHS_ORDERS_H
#include "core/plan/length_policies/length_setup.h"
#include "core/run/lengths/joint.h"
#include "core/run/policy/judge_lengths.h"

typedef struct luo_length_choice { /* a setup with what is known of its candidates */
    luo_length_setup setup;
    luo_lengths_learned learned;
} luo_length_choice;

enum { LUO_ORDERS_STEPS = 3 };
typedef struct luo_order_seen { /* steps in an order, over what was expected in the first order */
    int32_t n;                  /* of them, since rates changed; in the first order all */
    double ratio[LUO_ORDERS_STEPS]; /* of the last ones, step k at k mod LUO_ORDERS_STEPS */
} luo_order_seen;

typedef struct luo_orders {
    luo_length_setup_in in;
    luo_length_choice choice; /* with the devices as they are */
    double *rate;             /* per place of in.devices: what plans are made for */
    luo_arena *arena;         /* of what follows */
    luo_length_choice
        *slow[LUO_JOINT_ORDERS]; /* with candidates for slow devices; NULL: not made */
    luo_order_seen seen[LUO_JOINT_ORDERS];
    luo_joint_order order; /* of the last answer */
    double first_ms;       /* what was expected of that step in the first order */
} luo_orders;

typedef struct luo_orders_ask {
    luo_length_policy policy;
    const luo_judge *judge; /* of hydraulis; NULL: its candidates are not simulated */
    bool joint;             /* candidates may be cut around slow devices, or leave them idle */
    bool sure;              /* luo_judge_lengths */
    const int64_t *length;
    int32_t n;
    const luo_length_choice *chosen; /* in the step before, and its candidate; -1: none */
    int32_t current;
} luo_orders_ask;

typedef struct luo_orders_answer {
    luo_judged_lengths judged; /* simulated nowhere: seconds is NAN */
    luo_err why;               /* of seconds that are INFINITY */
    luo_length_choice *of;
    const int32_t *devices; /* by place */
    const double *speed;    /* by place: luo_length_setup.speed */
} luo_orders_answer;

/* What was made for slow devices at other rates is forgotten, and what steps in their orders have
 * shown. orders->arena may be NULL at first. Errors: LUO_ENOMEM. */
luo_status luo_orders_forget(luo_orders *orders, luo_err *err);
void luo_orders_free(luo_orders *orders);
/* The plans of a batch, on the devices as they are; where those differ and the policy is hydraulis,
 * also in the other orders, of which one is taken that saves a hundredth of the time: with a judge,
 * of the step simulated on this batch, both ways. One whose last LUO_ORDERS_STEPS steps took longer
 * than was expected in the first order is out, as far as steps in the first order are as expected.
 * Pre:    luo_orders_forget was called for the rates of now.
 * In/out: orders->choice.learned, orders->slow. Speeds of candidates are those of orders->choice
 * afterwards. Errors: those of luo_length_plan, luo_judge_lengths and luo_length_slow_add. Owner:
 * arena; what is made for slow devices orders->arena. */
luo_status luo_orders_choose(luo_arena *arena, luo_orders *orders, const luo_orders_ask *ask,
                             luo_orders_answer *out, luo_err *err);
/* The step of the last answer has taken so long. */
void luo_orders_learn(luo_orders *orders, double seconds);
/* Candidates that were barred may be taken again. */
void luo_orders_bar_none(luo_orders *orders);
#endif
