/* Orders of the devices, each with its candidates. */
#include "core/run/lengths/orders.h"

#include <math.h>

#include "core/plan/length_policies/length_slow.h"

/* ---- what is made for slow devices ---- */

luo_status luo_orders_forget(luo_orders *orders, luo_err *err)
{
    for (int order = 0; order < LUO_JOINT_ORDERS; order++) {
        orders->slow[order] = NULL;
        if (order != LUO_JOINT_AS_THEY_ARE) orders->seen[order].n = 0;
    }
    if (!orders->arena) orders->arena = luo_arena_new(1 << 16);
    if (!orders->arena) return luo_err_nomem(err);
    luo_arena_reset(orders->arena, 0);
    return LUO_OK;
}

void luo_orders_free(luo_orders *orders)
{
    luo_arena_free(orders->arena);
    orders->arena = NULL;
}

void luo_orders_bar_none(luo_orders *orders)
{
    luo_lengths_bar_none(&orders->choice.learned);
    for (int order = 0; order < LUO_JOINT_ORDERS; order++)
        if (orders->slow[order]) luo_lengths_bar_none(&orders->slow[order]->learned);
}

/* ---- what steps have shown ---- */

void luo_orders_learn(luo_orders *orders, double seconds)
{
    luo_order_seen *seen = &orders->seen[orders->order];
    if (isfinite(orders->first_ms) && orders->first_ms > 0)
        seen->ratio[seen->n++ % LUO_ORDERS_STEPS] = 1e3 * seconds / orders->first_ms;
}

/* Of the last steps; 1: there were none. */
static double mean_ratio(const luo_order_seen *seen)
{
    const int32_t n = seen->n < LUO_ORDERS_STEPS ? seen->n : LUO_ORDERS_STEPS;
    double sum = 0;
    for (int32_t k = 0; k < n; k++) sum += seen->ratio[k];
    return n > 0 ? sum / n : 1;
}

/* What is expected may be wrong, of both orders alike, or of one. */
static bool is_slower(const luo_orders *orders, luo_joint_order order)
{
    const luo_order_seen *first = &orders->seen[LUO_JOINT_AS_THEY_ARE];
    return orders->seen[order].n >= LUO_ORDERS_STEPS &&
           mean_ratio(&orders->seen[order]) > mean_ratio(first);
}

/* ---- one order ---- */

typedef struct chooser {
    luo_arena *arena;
    luo_orders *x;
    const luo_orders_ask *ask;
    luo_err *err;
} chooser;

/* Per device of the cluster, for the simulator: what the planner knows. */
static luo_status known_rates(const chooser *c, double **out)
{
    const luo_orders *orders = c->x;
    const int32_t n = orders->in.cluster->ndevices;
    *out = LUO_NEW_N(c->arena, double, n);
    if (!*out) return luo_err_nomem(c->err);
    for (int32_t d = 0; d < n; d++) (*out)[d] = 1;
    for (int32_t i = 0; i < orders->in.ndevices; i++)
        (*out)[orders->in.devices[i]] = orders->rate[i];
    return LUO_OK;
}

/* Where plans are simulated, candidates of which nothing is known are, before they are used; else
 * their first steps show what they are worth. */
static luo_status choose_on(const chooser *c, const luo_length_setup *setup, luo_length_choice *of,
                            luo_orders_answer *out)
{
    const luo_orders_ask *ask = c->ask;
    const bool ours = ask->policy == LUO_LENGTH_POLICY_HYDRAULIS;
    const int32_t current = of == ask->chosen ? ask->current : -1;
    luo_length_rivals rivals = setup->rivals;
    double *rate;
    *out = (luo_orders_answer){.judged = {.seconds = (double)NAN},
                               .of = of,
                               .devices = setup->place.devices,
                               .speed = setup->speed};
    rivals.step.extra_ms = ours ? of->learned.extra_ms : NULL;
    if (!ours || !ask->judge)
        return luo_length_plan(c->arena, &rivals, &setup->place, ask->policy, current, ask->length,
                               ask->n, &out->judged.plans, c->err);
    LUO_TRY(known_rates(c, &rate));
    const luo_status st =
        luo_judge_lengths(c->arena, ask->judge, &rivals, &setup->place, current, ask->length,
                          ask->n, ask->sure, rate, &of->learned, &out->judged, &out->why);
    return st == LUO_OK ? st : luo_err_set(c->err, st, "%s", out->why.text);
}

/* The setup with the devices in another order; optimizer state stays where it is. rate: as
 * orders->rate, in that order. */
static luo_status reorder(const chooser *c, luo_arena *arena, luo_joint_order order,
                          const double *by, luo_length_setup *out, double **rate)
{
    const luo_orders *orders = c->x;
    const luo_length_setup *setup = &orders->choice.setup;
    const int32_t n = orders->in.ndevices;
    int32_t *at = LUO_NEW_N(arena, int32_t, n), *devices = LUO_NEW_N(arena, int32_t, n);
    double *speed = LUO_NEW_N(arena, double, n);
    *rate = LUO_NEW_N(arena, double, n);
    if (!at || !devices || !speed || !*rate) return luo_err_nomem(c->err);
    LUO_TRY(
        luo_joint_place(arena, orders->in.cluster, orders->in.devices, by, n, order, at, c->err));
    for (int32_t k = 0; k < n; k++) {
        devices[k] = orders->in.devices[at[k]];
        speed[k] = setup->speed[at[k]];
        (*rate)[k] = orders->rate[at[k]];
    }
    luo_length_setup_copy(out, setup);
    if (!out->place.layout_devices) out->place.layout_devices = orders->in.devices;
    out->place.devices = devices;
    luo_length_setup_speeds(out, speed);
    return LUO_OK;
}

/* Kept until rates change: what is known of the candidates for slow devices is kept with them. */
static luo_status make_slow(const chooser *c, luo_joint_order order, const double *by,
                            luo_length_choice **out)
{
    luo_orders *orders = c->x;
    luo_length_choice *slow = *out = LUO_NEW(orders->arena, luo_length_choice);
    double *rate;
    if (!slow) return luo_err_nomem(c->err);
    LUO_TRY(reorder(c, orders->arena, order, by, &slow->setup, &rate));
    LUO_TRY(luo_length_slow_add(orders->arena, &orders->in, rate, &slow->setup, c->err));
    return luo_lengths_learn_more(orders->arena, &orders->choice.learned, &slow->setup.pool,
                                  &slow->setup.found, slow->setup.moved_ms, &slow->learned, c->err);
}

static luo_status choose_slow(const chooser *c, luo_joint_order order, const double *by,
                              luo_orders_answer *out)
{
    luo_orders *orders = c->x;
    if (!orders->slow[order]) {
        luo_length_choice *made;
        LUO_TRY(make_slow(c, order, by, &made));
        orders->slow[order] = made;
    }
    luo_length_choice *slow = orders->slow[order];
    luo_length_setup_speeds(&slow->setup, slow->setup.speed); /* candidates are shared */
    return choose_on(c, &slow->setup, slow, out);
}

/* ---- all of them ---- */

/* Candidates may be cut around slow devices, or leave them idle. */
static bool knows_slow(const chooser *c)
{
    for (int32_t i = 0; i < c->x->in.ndevices && c->ask->joint; i++)
        if (c->x->rate[i] > 1) return true;
    return false;
}

/* By what devices may go to other replicas: speeds as they are, those of their types, or nothing.
 */
static const double *sorted_by(const chooser *c)
{
    const luo_length_setup *setup = &c->x->choice.setup;
    if (c->ask->policy != LUO_LENGTH_POLICY_HYDRAULIS) return NULL;
    if (knows_slow(c)) return setup->speed;
    return setup->mixed ? setup->type : NULL;
}

static luo_status choose_in_order(const chooser *c, luo_joint_order order, const double *by,
                                  luo_orders_answer *out)
{
    luo_length_setup setup;
    double *rate;
    if (knows_slow(c)) return choose_slow(c, order, by, out);
    LUO_TRY(reorder(c, c->arena, order, by, &setup, &rate));
    return choose_on(c, &setup, &c->x->choice, out);
}

/* Milliseconds of the step. */
static double expected_ms(const luo_orders_answer *answer)
{
    if (!isnan(answer->judged.seconds)) return 1e3 * answer->judged.seconds;
    const int32_t p = answer->judged.plans.step.plan;
    return answer->judged.plans.ms + (p >= 0 ? answer->of->learned.extra_ms[p] : 0);
}

static const double WORTH_IT = 0.99; /* of the time: below that devices go to other replicas */

static bool is_worth(const luo_orders_answer *other, const luo_orders_answer *than)
{
    return expected_ms(other) < WORTH_IT * expected_ms(than);
}

/* What was guessed by steps of other batches is simulated on this one. */
static luo_status make_sure(const chooser *c, luo_orders_answer *answer)
{
    const luo_judge *judge = c->ask->judge;
    luo_judged_lengths *judged = &answer->judged;
    luo_judgement step;
    double *rate;
    if (!judge || !isnan(judged->seconds)) return LUO_OK;
    LUO_TRY(known_rates(c, &rate));
    const luo_status st = luo_judge_plan(judge, judged->plans.part[0].plan, c->x->in.rule.most,
                                         rate, &step, &answer->why);
    if (st != LUO_OK) return luo_err_set(c->err, st, "%s", answer->why.text);
    judged->seconds = step.seconds;
    judged->guessed = false;
    judged->simulated++;
    /* The first order answers as it would if there were no others. */
    if (answer->of != &c->x->choice)
        luo_lengths_learn(&answer->of->learned, judged->plans.step.plan, judged->plans.ms,
                          step.seconds);
    return LUO_OK;
}

/* Guesses come first, so that little is simulated in vain. */
static luo_status compare_orders(const chooser *c, luo_orders_answer *other,
                                 luo_orders_answer *than, bool *better)
{
    *better = is_worth(other, than);
    if (!*better) return LUO_OK;
    LUO_TRY(make_sure(c, than));
    LUO_TRY(make_sure(c, other));
    *better = is_worth(other, than);
    return LUO_OK;
}

/* What the steps that come are learned by; a guess is no measure of another order. */
static void keep_expected(const chooser *c, const luo_orders_answer *first, luo_joint_order order)
{
    const bool sure = !c->ask->judge || !isnan(first->judged.seconds);
    c->x->order = order;
    c->x->first_ms = sure ? expected_ms(first) : (double)NAN;
}

luo_status luo_orders_choose(luo_arena *arena, luo_orders *orders, const luo_orders_ask *ask,
                             luo_orders_answer *out, luo_err *err)
{
    const chooser c = {arena, orders, ask, err};
    const double *by = sorted_by(&c);
    luo_orders_answer answer[LUO_JOINT_ORDERS];
    int best = LUO_JOINT_AS_THEY_ARE;
    LUO_TRY(choose_on(&c, &orders->choice.setup, &orders->choice, &answer[best]));
    for (int order = best + 1; by && order < LUO_JOINT_ORDERS; order++) {
        bool better;
        if (is_slower(orders, (luo_joint_order)order)) continue;
        LUO_TRY(choose_in_order(&c, (luo_joint_order)order, by, &answer[order]));
        LUO_TRY(compare_orders(&c, &answer[order], &answer[best], &better));
        if (better) best = order;
    }
    if (by)
        luo_length_setup_speeds(&orders->choice.setup,
                                orders->choice.setup.speed); /* they are shared */
    keep_expected(&c, &answer[LUO_JOINT_AS_THEY_ARE], (luo_joint_order)best);
    *out = answer[best];
    return LUO_OK;
}
