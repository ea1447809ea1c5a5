#include "core/run/training/training.h"

#include <math.h>
#include <stdio.h>

#include "core/run/training/training_internal.h"
#include "core/sync/loop_queue.h"

/* ---- one worker ---- */

/* Groups of some workers, or a clock of all? */
static bool has_groups(const training *t)
{
    return t->spec->mode == LUO_TRAINING_PREDUCE || t->spec->mode == LUO_TRAINING_ADPSGD;
}

static luo_status start(training *t, int32_t w, luo_err *err)
{
    trainer *it = &t->at[w];
    it->phase = TRAINER_COMPUTES;
    it->arrived = it->asks = false;
    it->answer = 0;
    it->left = 1;
    it->begun_s = t->run->clock.t_s;
    return luo_training_seconds(t, w, &it->seconds, err);
}

/* ---- what happens at one time ---- */

static luo_status exchange(training *t, const luo_preduce_group *group, luo_err *err)
{
    const luo_sink *sink = t->run->job.sink;
    double seconds = 0;
    if (group->n == 0) return LUO_OK;
    LUO_TRY(luo_training_exchange(t, group->member, group->n, &seconds, err));
    if (sink->group && !luo_training_uses_servers(t->spec))
        LUO_TRY(sink->group(sink->ctx, t->groups, group, err));
    t->groups++;
    for (int32_t i = 0; i < group->n; i++) {
        trainer *it = &t->at[group->member[i]];
        it->met_s = t->run->clock.t_s;
        it->phase = TRAINER_EXCHANGES;
        it->left = 1;
        it->seconds = seconds;
        it->until_s = t->run->clock.t_s + seconds;
        it->group = t->groups;
    }
    return LUO_OK;
}

/* ---- requests of partial reduce ---- */

/* Its members know request_s later. */
static luo_status answer(training *t, const luo_preduce_group *group, luo_err *err)
{
    if (t->spec->request_s <= 0 || group->n == 0) return exchange(t, group, err);
    t->closed++;
    for (int32_t i = 0; i < group->n; i++) {
        trainer *it = &t->at[group->member[i]];
        it->answer = t->closed;
        it->guard = group->guard;
        it->until_s = t->run->clock.t_s + t->spec->request_s;
    }
    return LUO_OK;
}

static luo_status ask(training *t, int32_t w, luo_err *err)
{
    luo_preduce_group group = {0};
    const double now = t->run->clock.t_s;
    t->at[w].asks = false;
    LUO_TRY(luo_preduce_arrive(&t->preduce, now, w, t->at[w].iteration, &group, err));
    return answer(t, &group, err);
}

/* The group of this number, as far as its members still live. */
static luo_status know(training *t, int64_t number, luo_err *err)
{
    int32_t *member = LUO_NEW_N(t->run->scratch, int32_t, t->n);
    int64_t *iteration = LUO_NEW_N(t->run->scratch, int64_t, t->n);
    luo_preduce_group group = {.t_s = t->run->clock.t_s, .member = member, .iteration = iteration};
    if (!member || !iteration) return luo_err_nomem(err);
    for (int32_t w = 0; w < t->n; w++) {
        if (t->at[w].answer != number) continue;
        t->at[w].answer = 0;
        group.guard = t->at[w].guard;
        iteration[group.n] = t->at[w].iteration;
        member[group.n++] = w;
    }
    return exchange(t, &group, err);
}

/* Answers that have come, in the order in which their groups closed. */
static luo_status take_answers(training *t, double until_s, luo_err *err)
{
    for (;;) {
        int64_t first = 0;
        for (int32_t w = 0; w < t->n; w++) {
            const trainer *it = &t->at[w];
            if (it->answer && it->until_s <= until_s && (!first || it->answer < first))
                first = it->answer;
        }
        if (!first) return LUO_OK;
        LUO_TRY(know(t, first, err));
    }
}

/* All living workers have computed: one sum for all, where no servers are. */
static luo_status meet(training *t, luo_err *err)
{
    int32_t *member = LUO_NEW_N(t->run->scratch, int32_t, t->n);
    int32_t n = 0;
    if (!member) return luo_err_nomem(err);
    for (int32_t w = 0; w < t->n; w++)
        if (t->at[w].phase == TRAINER_WAITS && t->at[w].arrived) member[n++] = w;
    const luo_preduce_group all = {.t_s = t->run->clock.t_s, .n = n, .member = member};
    return n > 0 && n == t->living ? exchange(t, &all, err) : LUO_OK;
}

static luo_status computed(training *t, int32_t w, luo_err *err)
{
    luo_preduce_group group = {0};
    t->at[w].phase = TRAINER_WAITS;
    t->at[w].arrived = true;
    t->at[w].computed_s = t->run->clock.t_s;
    if (t->spec->mode == LUO_TRAINING_PREDUCE) {
        t->at[w].asks = true;
        t->at[w].until_s = t->run->clock.t_s + t->spec->request_s;
        return t->spec->request_s > 0 ? LUO_OK : ask(t, w, err);
    }
    if (t->spec->mode == LUO_TRAINING_ADPSGD) {
        LUO_TRY(luo_adpsgd_arrive(&t->adpsgd, t->run->clock.t_s, w, t->at[w].turn, &group, err));
        return exchange(t, &group, err);
    }
    group = (luo_preduce_group){.t_s = t->run->clock.t_s, .n = 1, .member = &w};
    return luo_training_uses_servers(t->spec) ? exchange(t, &group, err) : LUO_OK;
}

/* With servers a worker waits before it computes, else before it exchanges. */
static luo_status put_iteration(training *t, int32_t w, luo_err *err)
{
    trainer *it = &t->at[w];
    const luo_sink *sink = t->run->job.sink;
    const bool served = luo_training_uses_servers(t->spec);
    const luo_loop_row row = {.worker = w,
                              .iteration = it->iteration,
                              .start_s = it->begun_s,
                              .end_s = t->run->clock.t_s,
                              .compute_s = it->computed_s - it->begun_s,
                              .wait_s =
                                  served ? it->begun_s - it->ended_s : it->met_s - it->computed_s,
                              .group = served ? -1 : it->group - 1};
    it->ended_s = t->run->clock.t_s;
    return sink->iteration ? sink->iteration(sink->ctx, &row, err) : LUO_OK;
}

static luo_status exchanged(training *t, int32_t w, luo_err *err)
{
    LUO_TRY(put_iteration(t, w, err));
    t->at[w].phase = TRAINER_WAITS;
    t->at[w].arrived = false;
    t->at[w].iteration++;
    t->at[w].turn++;
    t->ended++;
    if (has_groups(t)) return start(t, w, err);
    return luo_clock_finish(&t->clock, w, err);
}

static luo_status release(training *t, luo_err *err)
{
    const int32_t *started = NULL;
    if (has_groups(t)) return LUO_OK;
    const int32_t n = luo_clock_release(&t->clock, &started);
    for (int32_t i = 0; i < n; i++) LUO_TRY(start(t, started[i], err));
    return LUO_OK;
}

/* Those who waited for it average with nobody. */
static luo_status leave_pairs(training *t, int32_t w, luo_err *err)
{
    luo_preduce_group group;
    luo_adpsgd_leave(&t->adpsgd, w);
    for (luo_adpsgd_alone(&t->adpsgd, t->run->clock.t_s, &group); group.n > 0;
         luo_adpsgd_alone(&t->adpsgd, t->run->clock.t_s, &group))
        LUO_TRY(exchange(t, &group, err));
    return LUO_OK;
}

static luo_status leave(training *t, int32_t w, luo_err *err)
{
    luo_preduce_group group = {0};
    t->at[w].phase = TRAINER_GONE;
    t->at[w].asks = false;
    t->at[w].answer = 0;
    t->living--;
    LUO_TRY(luo_run_note(&t->run->job, err, "worker %d has left after %lld iterations", w,
                         (long long)t->at[w].iteration));
    if (t->spec->mode == LUO_TRAINING_ADPSGD) return leave_pairs(t, w, err);
    if (!has_groups(t)) {
        luo_clock_leave(&t->clock, w);
        return LUO_OK;
    }
    luo_preduce_leave(&t->preduce, t->run->clock.t_s, w, &group);
    return answer(t, &group, err);
}

/* A step that no worker has begun: pairs of those before were made without it. */
static void join_pairs(training *t, int32_t w)
{
    int64_t last = -1;
    for (int32_t v = 0; v < t->n; v++)
        if (v != w && t->at[v].phase != TRAINER_GONE && t->at[v].turn > last) last = t->at[v].turn;
    t->at[w].turn = luo_adpsgd_join(&t->adpsgd, w, last);
}

/* From the newest weights: beside the others, at the least of their clocks. */
static luo_status join(training *t, int32_t w, luo_err *err)
{
    t->living++;
    t->at[w].ended_s = t->run->clock.t_s;
    LUO_TRY(luo_run_note(&t->run->job, err, "worker %d is back", w));
    if (t->spec->mode == LUO_TRAINING_PREDUCE)
        luo_preduce_join(&t->preduce, w);
    else if (t->spec->mode == LUO_TRAINING_ADPSGD)
        join_pairs(t, w);
    else
        LUO_TRY(luo_clock_join(&t->clock, w, err));
    return start(t, w, err);
}

/* What is left of an exchange goes on at another speed. */
static void pace(trainer *it, double seconds, double now_s)
{
    if (seconds == it->seconds) return;
    if (isfinite(it->seconds))
        it->left = it->seconds > 0 ? fmax(0, it->until_s - now_s) / it->seconds : 0;
    it->seconds = seconds;
    it->until_s = it->left > 0 ? now_s + it->left * seconds : now_s;
}

/* Links are slower, faster, down or up again, or somebody has left: exchanges go on as they are. */
static luo_status follow_links(training *t, luo_err *err)
{
    int32_t *member = LUO_NEW_N(t->run->scratch, int32_t, t->n);
    bool *done = LUO_NEW_N(t->run->scratch, bool, t->n);
    if (!member || !done) return luo_err_nomem(err);
    for (int32_t w = 0; w < t->n; w++) {
        double seconds = 0;
        int32_t n = 0;
        if (t->at[w].phase != TRAINER_EXCHANGES || done[w]) continue;
        for (int32_t v = w; v < t->n; v++)
            if (t->at[v].phase == TRAINER_EXCHANGES && t->at[v].group == t->at[w].group) {
                done[v] = true;
                member[n++] = v;
            }
        LUO_TRY(luo_training_exchange(t, member, n, &seconds, err));
        for (int32_t i = 0; i < n; i++) pace(&t->at[member[i]], seconds, t->run->clock.t_s);
    }
    return LUO_OK;
}

/* What is left of an iteration goes on at the speed of now; of one that ends right now, nothing. */
static luo_status pace_iteration(training *t, int32_t w, luo_err *err)
{
    trainer *it = &t->at[w];
    if (it->left * it->seconds <= luo_loop_tie(t->run->clock.t_s)) it->left = 0;
    return luo_training_seconds(t, w, &it->seconds, err);
}

/* Devices may be faster, slower, down or up again since the events were last committed. */
static luo_status follow_world(training *t, luo_err *err)
{
    int32_t changes;
    const luo_change *change = luo_events_changes(t->run->clock.events, &changes);
    const uint64_t links = t->links;
    bool of_links = false, moved = false;
    for (int32_t i = 0; i < changes; i++) of_links |= change[i].kind == LUO_CHANGE_LINK;
    if (changes == 0) return LUO_OK;
    if (of_links) luo_training_see_links(t);
    for (int32_t w = 0; w < t->n; w++) {
        trainer *it = &t->at[w];
        const bool up = luo_training_is_up(t, w), gone = it->phase == TRAINER_GONE;
        moved |= up == gone;
        if (!up && !gone) LUO_TRY(leave(t, w, err));
        if (up && gone) LUO_TRY(join(t, w, err));
        if (up && !gone && it->phase == TRAINER_COMPUTES) LUO_TRY(pace_iteration(t, w, err));
    }
    return moved || t->links != links ? follow_links(t, err) : LUO_OK;
}

/* Who waits, and for what is there now, goes on. */
static luo_status go_on(training *t, luo_err *err)
{
    if (!has_groups(t) && !luo_training_uses_servers(t->spec)) LUO_TRY(meet(t, err));
    return release(t, err);
}

/* ---- time ---- */

/* It computes, but a link that it needs is down. */
static bool stands_still(const trainer *it)
{
    return it->phase == TRAINER_COMPUTES && isinf(it->seconds) && it->left > 0;
}

static double end_of(const training *t, int32_t w)
{
    const trainer *it = &t->at[w];
    if (stands_still(it)) return INFINITY;
    if (it->phase == TRAINER_COMPUTES)
        return t->run->clock.t_s + (it->left > 0 ? it->left * it->seconds : 0);
    return it->phase == TRAINER_EXCHANGES || it->asks || it->answer ? it->until_s : INFINITY;
}

static double next_time(const training *t)
{
    double next = luo_events_next(t->run->clock.events);
    for (int32_t w = 0; w < t->n; w++) next = fmin(next, end_of(t, w));
    if (t->spec->mode == LUO_TRAINING_PREDUCE) next = fmin(next, luo_preduce_deadline(&t->preduce));
    return fmax(next, t->run->clock.t_s);
}

static luo_status advance(training *t, double to_s, luo_err *err)
{
    const double seconds = to_s - t->run->clock.t_s;
    for (int32_t w = 0; w < t->n; w++) {
        trainer *it = &t->at[w];
        it->spent_s[stands_still(it) ? TRAINER_WAITS : it->phase] += seconds;
        if (it->phase == TRAINER_COMPUTES) it->left -= seconds / it->seconds;
    }
    t->run->clock.t_s = to_s;
    LUO_TRY(luo_run_advance(t->run, to_s, err));
    t->run->decision.trigger = 0; /* nobody is asked */
    return follow_world(t, err);
}

/* Arrivals before the timer, lower workers first. */
static luo_status happen(training *t, luo_err *err)
{
    const double now = t->run->clock.t_s, within_s = luo_loop_tie(now);
    luo_preduce_group group = {0};
    for (int32_t w = 0; w < t->n; w++) {
        const trainer_phase was = t->at[w].phase;
        if (end_of(t, w) > now + within_s) continue;
        if (was == TRAINER_EXCHANGES) LUO_TRY(exchanged(t, w, err));
        if (was == TRAINER_COMPUTES) LUO_TRY(computed(t, w, err));
        if (was == TRAINER_WAITS && t->at[w].asks) LUO_TRY(ask(t, w, err));
    }
    LUO_TRY(take_answers(t, now + within_s, err));
    if (t->spec->mode == LUO_TRAINING_PREDUCE && luo_preduce_deadline(&t->preduce) <= now) {
        luo_preduce_timer(&t->preduce, now, &group);
        return answer(t, &group, err);
    }
    return go_on(t, err);
}

/* ---- steps ---- */

static luo_status lost(training *t, const char *why, luo_err *err)
{
    t->run->clock.state = LUO_LOST;
    return luo_run_event(t->run, LUO_EVENT_PHASE_LOST, "", t->run->decision.acting->name, "", false,
                         0, why, err);
}

/* Its part of the parameters is gone. */
static luo_status lose_server(training *t, luo_err *err)
{
    char why[80];
    const int32_t s = luo_training_dead_server(t);
    if (s < 0) return LUO_OK;
    snprintf(why, sizeof why, "server %d is gone with device %d", s, t->spec->server_devices[s]);
    return lost(t, why, err);
}

/* Until as many iterations have ended as there are workers. */
static luo_status fill_step(training *t, luo_err *err)
{
    while (t->ended < t->n) {
        const double next = next_time(t);
        if (luo_run_interrupted(&t->run->job)) {
            t->run->clock.state = LUO_INTERRUPTED;
            return LUO_OK;
        }
        if (isinf(next))
            return lost(t,
                        t->living > 0 ? "no worker can go on: a link is down for ever"
                                      : "no worker is left",
                        err);
        LUO_TRY(advance(t, next, err));
        LUO_TRY(lose_server(t, err));
        if (t->run->clock.state != LUO_RUNNING) return LUO_OK;
        LUO_TRY(happen(t, err));
        luo_arena_reset(t->run->scratch, 0);
    }
    return LUO_OK;
}

static luo_status steps(training *t, luo_err *err)
{
    luo_run *run = t->run;
    while (!luo_run_is_over(run)) {
        LUO_TRY(luo_events_step(run->clock.events, run->clock.step, run->clock.t_s, err));
        LUO_TRY(luo_run_follow_lengths(run, err));
        luo_run_trigger(run);
        run->decision.trigger = 0;
        LUO_TRY(follow_world(t, err));
        LUO_TRY(lose_server(t, err));
        if (run->clock.state != LUO_RUNNING) return LUO_OK;
        LUO_TRY(go_on(t, err)); /* who left may be who others waited for */
        LUO_TRY(fill_step(t, err));
        if (run->clock.state != LUO_RUNNING) return LUO_OK;
        LUO_TRY(luo_training_close_step(t, err));
        if (run->job.sink->boundary)
            LUO_TRY(run->job.sink->boundary(run->job.sink->ctx, run->clock.step,
                                            run->job.scenario->steps, run->clock.t_s,
                                            luo_events_fired(run->clock.events), err));
    }
    run->clock.state = LUO_COMPLETE;
    return LUO_OK;
}

luo_status luo_training_run(luo_run *run, luo_err *err)
{
    training t;
    luo_status st = luo_training_open(&t, run, err);
    for (int32_t w = 0; w < t.n && st == LUO_OK; w++) st = start(&t, w, err);
    if (st == LUO_OK) st = steps(&t, err);
    luo_map_free(&t.steps);
    luo_map_free(&t.exchanges);
    luo_map_free(&t.iterations);
    return st;
}
