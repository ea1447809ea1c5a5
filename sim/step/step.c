/* step.c: sets a step up, lets SimGrid run it, and ends it early when something fails. */
#include "sim/step/step.h"

#include <math.h>
#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <string.h>

double sim_now(const sim_step *s)
{
    return simgrid_get_clock() - s->origin;
}

void sim_sleep_until(const sim_step *s, double at)
{
    if (at > sim_now(s)) sg_actor_sleep_until(s->origin + at);
}

void sim_step_fail(sim_step *s, luo_status st, int32_t device, int32_t link)
{
    if (s->stopped || s->over) return;
    s->stopped = true;
    s->st = st;
    s->end = sim_now(s);
    s->failed_device = device;
    s->failed_link = link;
    s->failed_class = device >= 0 ? s->net->class_of[device] : -1;
    if (device >= 0) sg_host_turn_off(s->grid->class[s->failed_class]);
    sim_transfers_cancel(s);
    for (int32_t l = 0; l < s->net->nclasses; l++) sim_rank_wake(&s->ranks[l]);
    sim_drivers_wake(s);
}

/* The last class home: the step has its end, a little late for scale jitter
 * (docs/cost-model.md#scale). */
static void finish_step(sim_step *s)
{
    const luo_backend_config *config = s->net->config;
    if (!s->stopped) {
        double end = s->ended[s->rounds - 1] - s->before;
        const bool noise = config->compute_sigma > 0 || config->comm_sigma > 0;
        if (s->net->training && !noise) end *= luo_cost_jitter(config->stack, s->net->set->n);
        end += s->before;
        sim_sleep_until(s, end);
        if (!s->stopped) s->end = end;
    }
    s->over = true;
    sim_drivers_wake(s);
}

/* The last round lasts beyond the end of the one before in all classes. */
static void end_round(luo_rank *r)
{
    sim_step *s = r->step;
    s->ended[r->round] = fmax(s->ended[r->round], r->end);
    if (r->round == s->rounds - 2) s->before = s->ended[r->round];
}

static void rank_main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    luo_rank *r = sg_actor_get_data(sg_actor_self());
    sim_step *s = r->step;
    const luo_walk *walk = s->walks[r->class->program->role];
    for (int32_t k = 0; k < s->rounds && r->st == LUO_OK; k++) {
        sim_round_begin(r, k);
        r->st = luo_interpret_walk(&sim_executor, r, walk, r->class->program, r->scratch);
        if (r->st == LUO_OK) end_round(r);
    }
    r->finished = true;
    if (r->st != LUO_OK && !s->stopped) sim_step_fail(s, r->st, -1, -1);
    if (--s->running == 0) finish_step(s);
}

luo_status sim_step_init(luo_arena *arena, sim_step *s, const sim_net *net, sim_grid *grid)
{
    *s = (sim_step){.net = net, .grid = grid, .arena = luo_arena_new(1 << 20)};
    s->ranks = LUO_NEW_N(arena, luo_rank, net->nclasses);
    s->courses = LUO_NEW_N(arena, sim_course, net->ntraffics);
    s->walks = LUO_NEW_N(arena, const luo_walk *, net->set->nroles);
    s->kept = arena;
    if (!s->arena || !s->ranks || !s->courses || !s->walks) return LUO_ENOMEM;
    for (int32_t l = 0; l < net->nclasses; l++) {
        const int32_t role = net->classes[l].program->role;
        if (!s->walks[role])
            LUO_TRY(luo_walk_make(arena, net->classes[l].role, &s->walks[role]));
        s->ranks[l].scratch = luo_arena_new(1 << 14);
        if (!s->ranks[l].scratch) return LUO_ENOMEM;
    }
    return LUO_OK;
}

static luo_status begin_tables(sim_step *s)
{
    const sim_net *net = s->net;
    s->gathers = LUO_NEW_N(s->arena, sim_gather *, net->nrendezvous);
    s->mail = LUO_NEW_N(s->arena, sim_mail *, net->nchannels);
    s->runs = LUO_NEW_N(s->arena, int64_t, net->ntraffics);
    s->busy = LUO_NEW_N(s->arena, int32_t, net->nwires);
    s->busy_since = LUO_NEW_N(s->arena, double, net->nwires);
    s->busy_s = LUO_NEW_N(s->arena, double, net->nwires);
    s->owner = LUO_NEW_N(s->arena, sim_transfer *, net->nwires);
    s->closed_on = LUO_NEW_N(s->arena, int64_t, net->nwires);
    s->room = LUO_NEW_N(s->arena, double, net->nwires);
    s->users = LUO_NEW_N(s->arena, int32_t, net->nwires);
    const bool ok = s->gathers && s->mail && s->runs && s->busy && s->busy_since && s->busy_s;
    return ok && s->owner && s->closed_on && s->room && s->users ? LUO_OK : LUO_ENOMEM;
}

/* Do groups that reach beyond the class (tensor, context or expert parallel between nodes) make its
 * backward wait in the middle? */
static bool waits_in_backward(const sim_class *class)
{
    for (int32_t i = 0; i < class->role->ninstr; i++) {
        const luo_instr *in = &class->role->instr[i];
        if (luo_phase_is_backward(in->phase) && in->stream == LUO_STREAM_TP &&
            class->ops[i].what >= SIM_MEET)
            return true;
    }
    return false;
}

/* Gradients of a layer that is done may be summed while others are still going backward: only where
 * the class has to wait in between is there something to be held up, and only after its last
 * forward. */
static int32_t first_tail_task(const luo_programs *set, const sim_class *class)
{
    const luo_program *p = class->program;
    int32_t from = p->ntask;
    if (!luo_sched_takes_chunks(set->schedule) && !waits_in_backward(class)) return from;
    while (from > 0 && class->role->seg[p->tasks[from - 1].seg].phase != LUO_PHASE_F) from--;
    return from;
}

/* A class goes on when a quarter is free; the longest backward and what follows fit in the rest. So
 * do all tasks in which nothing waits, as gradients are exchanged beside them, while there is
 * memory for that: fewer are open where there are very many classes. */
static int32_t jobs_max(const luo_rank *r)
{
    const luo_role *role = r->class->role;
    const luo_program *p = r->class->program;
    int64_t backward = 0, rest = 0, tail = 0;
    for (int32_t k = 0; k < role->nseg; k++) {
        const luo_segment *seg = &role->seg[k];
        if (!luo_phase_in_task(seg->phase)) rest += seg->n;
        else if (seg->n > backward) backward = seg->n;
    }
    for (int32_t k = r->defer_from; k < p->ntask; k++) {
        const luo_segment *seg = &role->seg[p->tasks[k].seg];
        if (luo_phase_in_task(seg->phase)) tail += seg->n;
    }
    const int64_t most = SIM_JOBS_ALL / r->step->net->nclasses;
    if (tail > most) tail = most;
    return (int32_t)(((tail > backward ? tail : backward) + rest) / 3 * 4 + SIM_JOBS_MORE);
}

static luo_status begin_rank(sim_step *s, int32_t l)
{
    luo_arena *scratch = s->ranks[l].scratch;
    luo_rank *r = &s->ranks[l];
    *r = (luo_rank){.step = s, .class = &s->net->classes[l], .index = l, .scratch = scratch};
    r->defer_from = first_tail_task(s->net->set, r->class);
    r->jobs_max = jobs_max(r);
    r->tally = LUO_NEW_N(s->arena, sim_tally, r->class->role->ninstr);
    r->sem = sg_sem_init(0);
    if (!r->tally) return LUO_ENOMEM;
    if (!s->rng) return LUO_OK;
    r->rng = LUO_NEW_N(s->arena, luo_rng, r->class->n);
    if (!r->rng) return LUO_ENOMEM;
    for (int32_t m = 0; m < r->class->n; m++) r->rng[m] = s->rng[r->class->member[m]];
    return LUO_OK;
}

static void start_rank(luo_rank *r)
{
    sg_actor_t actor = sg_actor_init("lane", r->step->grid->control);
    sg_actor_set_data(actor, r);
    sg_actor_start(actor, rank_main, 0, NULL);
}

static luo_status begin(sim_step *s)
{
    LUO_TRY(begin_tables(s));
    for (int32_t l = 0; l < s->net->nclasses; l++) LUO_TRY(begin_rank(s, l));
    return sim_faults_begin(s);
}

static void end_actors(sim_step *s)
{
    for (int32_t l = 0; l < s->net->nclasses; l++) {
        luo_rank *r = &s->ranks[l];
        sg_sem_destroy(r->sem);
        for (int32_t m = 0; s->rng && m < r->class->n; m++) s->rng[r->class->member[m]] = r->rng[m];
    }
    for (sim_driver *d = s->drivers; d; d = d->next) sg_sem_destroy(d->sem);
}

luo_status sim_step_run(sim_step *s, const luo_world *world, const luo_change *changes,
                        int32_t nchanges, bool trace)
{
    luo_rng *rng = s->rng;
    luo_arena_reset(s->arena, 0);
    *s = (sim_step){.net = s->net, .grid = s->grid, .arena = s->arena,
                    .ranks = s->ranks, .walks = s->walks, .kept = s->kept,
                    .courses = s->courses, .rng = rng,
                    .origin = simgrid_get_clock(), .trace = trace,
                    .rounds = s->net->set->staggered ? SIM_ROUNDS : 1,
                    .world = world, .changes = changes, .nchanges = nchanges,
                    .running = s->net->nclasses, .failed_device = -1, .failed_class = -1,
                    .failed_link = -1};
    LUO_TRY(begin(s));
    for (int32_t l = 0; l < s->net->nclasses; l++) start_rank(&s->ranks[l]);
    simgrid_run();
    end_actors(s);
    return s->st == LUO_ENOMEM ? LUO_ENOMEM : LUO_OK;
}
