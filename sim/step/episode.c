/* episode.c: the process of an episode. */
#include "sim/step/episode.h"

#include <math.h>
#include <signal.h>
#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <string.h>
#include <unistd.h>

#include "core/base/vec.h"
#include "sim/shim.h"
#include "sim/talk.h"

typedef struct engine engine;
typedef struct member { /* a job in it */
    engine *in;
    const sim_episode_job *job;
    sim_grid *grid;
    sim_step step;
    sim_unit_loads units;
    bool joined;      /* its first step has begun */
    int64_t left;     /* steps that are not done */
    int64_t done;
    double began_s;   /* its last step that has begun, of the engine's clock */
    double *seconds;  /* [since]: of its steps since the set of running jobs is what it is, .. */
    int32_t since, room; /* .. or since the mark */
    sim_skip skip;
} member;

struct engine {
    int fd;
    const sim_episode *episode;
    luo_arena *arena;
    member *at;
    double origin, mark_s;
    bool marked; /* all that run began a step at mark_s */
};

static double now_s(const engine *e)
{
    return simgrid_get_clock() - e->origin;
}

/* Has it another step? Pre: no step of it is under way. */
static bool goes_on(const member *m)
{
    return m->left > 0 && now_s(m->in) < m->job->end_s;
}

static bool runs(const member *m)
{
    return m->joined && m->left > 0;
}

/* ---- what the parent is told ---- */

static void tell_end(const engine *e)
{
    const sim_told told = {.job = -1};
    bool good = sim_send(e->fd, &told, sizeof told);
    for (int32_t i = 0; good && i < e->episode->n; i++)
        good = sim_send(e->fd, &e->at[i].skip, sizeof e->at[i].skip);
    _exit(good ? 0 : 1); /* steps may be under way that nobody asks for */
}

static void tell_fault(const member *m, luo_status st, const char *text)
{
    sim_told told = {.job = (int32_t)(m - m->in->at), .status = (int32_t)st};
    memcpy(told.text, text, strnlen(text, sizeof told.text - 1));
    _exit(st != LUO_ENOMEM && sim_send(m->in->fd, &told, sizeof told) ? 0 : SIM_NO_MEMORY);
}

/* No actor can go on. */
static void on_deadlock(void *ctx)
{
    const engine *e = ctx;
    char text[LUO_ERR_TEXT] = "";
    int32_t i = 0;
    while (i + 1 < e->episode->n && (!runs(&e->at[i]) || e->at[i].step.over)) i++;
    sim_stuck_text(&e->at[i].step, text, sizeof text);
    tell_fault(&e->at[i], LUO_ESTUCK, text);
}

/* ---- what need not be simulated ---- */

/* The set of running jobs has changed. */
static void forget(engine *e)
{
    e->marked = false;
    for (int32_t i = 0; i < e->episode->n; i++) e->at[i].since = 0;
}

/* Of n steps behind those of a member, which are its last `cycle` in turn. */
static double cycle_s(const member *m, int64_t cycle, int64_t n)
{
    const double *last = m->seconds + m->since - cycle;
    double whole = 0, rest = 0;
    for (int64_t i = 0; i < cycle; i++) {
        whole += last[i];
        if (i < n % cycle) rest += last[i];
    }
    return (double)(n / cycle) * whole + rest;
}

/* When the first of those that have not joined does; HUGE_VAL: all have. */
static double next_join(const engine *e)
{
    double at = HUGE_VAL;
    for (int32_t i = 0; i < e->episode->n; i++)
        if (!e->at[i].joined) at = fmin(at, e->at[i].job->start_s);
    return at;
}

/* The next change is left to be simulated behind a whole period, unless it is the end of all. */
static bool skip_periods(engine *e, double period)
{
    const double join = next_join(e);
    double periods = period > 0 ? floor((join - now_s(e)) / period) : HUGE_VAL;
    bool all = join == HUGE_VAL;
    for (int32_t i = 0; i < e->episode->n; i++) {
        if (!runs(&e->at[i])) continue;
        periods = fmin(periods, (double)(e->at[i].left / e->at[i].since));
        if (period > 0) periods = fmin(periods, floor((e->at[i].job->end_s - now_s(e)) / period));
    }
    for (int32_t i = 0; i < e->episode->n; i++)
        if (runs(&e->at[i]))
            all &= e->at[i].left == (int64_t)periods * e->at[i].since &&
                   e->at[i].job->end_s == HUGE_VAL;
    if (!all) periods--;
    if (periods < 1) return false;
    for (int32_t i = 0; i < e->episode->n; i++) {
        member *m = &e->at[i];
        if (!runs(m)) continue;
        const int64_t steps = (int64_t)periods * m->since;
        m->skip = (sim_skip){now_s(e) + periods * period, steps, m->since, false};
    }
    return true;
}

/* The first quarter is what the last change may still be felt in. */
static int64_t settled_cycle(const member *m)
{
    return m->since - m->since / 4;
}

static double settled_mean(const member *m)
{
    return cycle_s(m, settled_cycle(m), settled_cycle(m)) / (double)settled_cycle(m);
}

/* Fewer than n where the job would have ended: its last step is simulated. */
static void skip_steps(member *m, int64_t n)
{
    const int64_t cycle = settled_cycle(m);
    while (n > 0 && m->began_s + cycle_s(m, cycle, n) >= m->job->end_s) n--;
    m->skip = (sim_skip){m->began_s + cycle_s(m, cycle, n), n, cycle, true};
}

/* The job of the longest steps goes on one of its steps before the next change, the others with the
 * step in which it does. */
static bool skip_settled(engine *e)
{
    member *slowest = NULL;
    double change = next_join(e);
    for (int32_t i = 0; i < e->episode->n; i++) {
        member *m = &e->at[i];
        if (!runs(m)) continue;
        if (m->since < e->episode->settle) return false;
        const double mean = settled_mean(m);
        change = fmin(change, fmin(m->began_s + (double)m->left * mean, m->job->end_s));
        if (!slowest || mean > settled_mean(slowest)) slowest = m;
    }
    if (!slowest) return false;
    const double mean = settled_mean(slowest);
    const double most = mean > 0 ? floor((change - slowest->began_s) / mean) - 1 : 0;
    if (most < (double)e->episode->settle) return false; /* it is soon simulated */
    skip_steps(slowest, (int64_t)most);
    for (int32_t i = 0; i < e->episode->n; i++) {
        member *m = &e->at[i];
        if (!runs(m) || m == slowest) continue;
        const double n = floor((slowest->skip.at_s - m->began_s) / settled_mean(m));
        skip_steps(m, (int64_t)fmin(fmax(n, 0), (double)(m->left - 1)));
    }
    return true;
}

/* A step of the member begins. */
static void pass_boundary(member *m)
{
    engine *e = m->in;
    m->began_s = now_s(e);
    m->skip.at_s = m->began_s;
    for (int32_t i = 0; i < e->episode->n; i++)
        if (runs(&e->at[i]) && fabs(e->at[i].began_s - m->began_s) > SIM_INSTANT) return;
    if (e->marked && skip_periods(e, m->began_s - e->mark_s)) tell_end(e);
    forget(e);
    e->marked = true;
    e->mark_s = m->began_s;
}

/* ---- steps ---- */

static void report(member *m)
{
    const engine *e = m->in;
    const int32_t index = (int32_t)(m - e->at);
    const sim_told told = {.job = index,
                           .last = m->left == 1 || now_s(e) >= m->job->end_s,
                           .start_s = m->began_s,
                           .seconds = fmax(0, m->step.end - m->step.before)};
    sim_reply reply;
    if (m->step.st == LUO_OK && sim_report(&m->step, &m->units, &reply) != LUO_OK)
        tell_fault(m, LUO_ENOMEM, "");
    if (m->step.st != LUO_OK) tell_fault(m, m->step.st, "its step fails in the simulator.");
    if (!sim_send(e->fd, &told, sizeof told) ||
        (index == e->episode->own && !sim_reply_send(e->fd, &reply)))
        _exit(1);
    if (!LUO_VEC_ROOM_IN(e->arena, m->seconds, m->since, m->room))
        tell_fault(m, LUO_ENOMEM, "");
    m->seconds[m->since++] = told.seconds;
}

static void run_step(member *m)
{
    const engine *e = m->in;
    const bool trace = m - e->at == e->episode->own && m->done < e->episode->traced;
    if (sim_step_start(&m->step, e->episode->world, NULL, 0, trace) != LUO_OK)
        tell_fault(m, LUO_ENOMEM, "");
    sg_sem_acquire(m->step.done);
    sim_step_close(&m->step);
    report(m);
    m->done++;
    m->left--;
}

static void member_main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    member *m = sg_actor_get_data(sg_actor_self());
    engine *e = m->in;
    if (m->job->start_s > now_s(e)) sg_actor_sleep_until(e->origin + m->job->start_s);
    m->joined = true;
    forget(e);
    do { /* whoever is in an episode has a step left */
        pass_boundary(m);
        run_step(m);
        if (!goes_on(m)) {
            m->left = 0;
        } else if (e->episode->settle > 0) {
            m->began_s = m->skip.at_s = now_s(e); /* of the step that follows */
            if (skip_settled(e)) tell_end(e);
        }
    } while (m->left > 0);
    m->skip.at_s = now_s(e);
    forget(e);
}

/* ---- the process ---- */

static luo_status prepare_member(engine *e, member *m)
{
    bool slows;
    LUO_TRY(sim_unit_init(e->arena, m->job->net, &m->units));
    LUO_TRY(sim_step_init(e->arena, &m->step, m->job->net, m->grid));
    m->step.update = m->job->update;
    LUO_TRY(sim_step_foresee(&m->step, e->episode->world, &slows));
    m->step.done = sg_sem_init(0);
    return LUO_OK;
}

static luo_status prepare(engine *e)
{
    const int32_t n = e->episode->n;
    e->arena = luo_arena_new(1 << 20);
    if (!e->arena) return LUO_ENOMEM;
    e->at = LUO_NEW_N(e->arena, member, n);
    const sim_net **nets = LUO_NEW_N(e->arena, const sim_net *, n);
    sim_grid *grids = LUO_NEW_N(e->arena, sim_grid, n);
    if (!e->at || !nets || !grids) return LUO_ENOMEM;
    for (int32_t i = 0; i < n; i++) nets[i] = e->episode->job[i].net;
    LUO_TRY(sim_grid_open(e->arena, nets, n, grids));
    luo_shim_on_deadlock(on_deadlock, e);
    signal(SIGINT, SIG_IGN); /* SimGrid took it; it is the parent's to answer */
    for (int32_t i = 0; i < n; i++) {
        const sim_episode_job *job = &e->episode->job[i];
        e->at[i] = (member){.in = e,
                            .job = job,
                            .grid = &grids[i],
                            .left = job->left,
                            .skip = {.at_s = job->start_s}};
        LUO_TRY(prepare_member(e, &e->at[i]));
    }
    return LUO_OK;
}

int sim_episode_serve(const sim_birth *birth)
{
    engine e = {.fd = birth->fd, .episode = birth->episode};
    if (prepare(&e) != LUO_OK) return SIM_NO_MEMORY;
    e.origin = simgrid_get_clock();
    for (int32_t i = 0; i < e.episode->n; i++) {
        sg_actor_t actor = sg_actor_init("job", e.at[i].grid->control);
        sg_actor_set_data(actor, &e.at[i]);
        sg_actor_start(actor, member_main, 0, NULL);
    }
    simgrid_run();
    tell_end(&e);
    return 0;
}
