/* step.c: sets a step up, lets SimGrid run it, and ends it early when something fails. */
#include "sim/step/beside.h"

#include <math.h>
#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <string.h>

#include "sim/shim.h"

double sim_now(const sim_step *step)
{
    return simgrid_get_clock() - step->origin;
}

void sim_sleep_until(const sim_step *step, double at)
{
    if (at > sim_now(step)) sg_actor_sleep_until(step->origin + at);
}

void sim_step_fail(sim_step *step, luo_status st, int32_t device, int32_t link)
{
    if (step->stopped || step->over) return;
    step->stopped = true;
    step->st = st;
    step->end = sim_now(step);
    step->failed_device = device;
    step->failed_link = link;
    step->failed_class = device >= 0 ? step->net->class_of[device] : -1;
    if (device >= 0) sg_host_turn_off(step->grid->class[step->failed_class]);
    sim_transfers_cancel(step);
    for (int32_t l = 0; l < step->net->nclasses; l++) sim_rank_wake(&step->ranks[l]);
    sim_drivers_wake(step);
}

/* The last class home: the step has its end, a little late for scale jitter
 * (docs/cost-model.md#scale). */
static void finish_step(sim_step *step)
{
    const luo_backend_config *config = step->net->config;
    if (!step->stopped) {
        double end = step->ended[step->rounds - 1] - step->before;
        const bool noise = config->compute_sigma > 0 || config->comm_sigma > 0;
        if (step->net->training && !noise) end *= luo_cost_jitter(config->stack, step->net->set->n);
        end += step->before;
        sim_sleep_until(step, end);
        if (!step->stopped) step->end = end;
    }
    step->over = true;
    sim_drivers_wake(step);
}

/* The last round lasts beyond the end of the one before in all classes. */
static void end_round(luo_rank *rank)
{
    sim_step *step = rank->step;
    step->ended[rank->round] = fmax(step->ended[rank->round], rank->end);
    if (rank->round == step->rounds - 2) step->before = step->ended[rank->round];
}

/* The walk of ranks: a thread begins calls where it comes to them. GPUs begin what has been issued
 * when it can, wherever that was. */
static int32_t walk_of(const sim_step *step, const sim_class *class)
{
    return 2 * class->program->role + (step->net->config->stack->dp_overlap ? 1 : 0);
}

static void rank_main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    luo_rank *rank = sg_actor_get_data(sg_actor_self());
    sim_step *step = rank->step;
    const luo_walk *walk = step->walks[walk_of(step, rank->class)];
    for (int32_t k = 0; k < step->rounds && rank->st == LUO_OK; k++) {
        sim_round_begin(rank, k);
        rank->st = luo_interp_walk(&sim_executor, rank, walk, rank->class->program, rank->scratch);
        if (rank->st == LUO_OK) end_round(rank);
    }
    rank->finished = true;
    if (rank->st != LUO_OK && !step->stopped) sim_step_fail(step, rank->st, -1, -1);
    if (--step->running == 0) finish_step(step);
    sim_actor_ends(step);
}

void sim_actor_ends(sim_step *step)
{
    if (--step->nactors == 0 && step->done) sg_sem_release(step->done);
}

luo_status sim_step_init(luo_arena *arena, sim_step *step, const sim_net *net, sim_grid *grid)
{
    *step = (sim_step){.net = net, .grid = grid, .arena = luo_arena_new(1 << 20)};
    step->ranks = LUO_NEW_N(arena, luo_rank, net->nclasses);
    step->courses = LUO_NEW_N(arena, sim_course, net->ntraffics);
    step->walks = LUO_NEW_N(arena, const luo_walk *, 2 * (int64_t)net->set->nroles);
    step->kept = arena;
    LUO_TRY(sim_beside_init(arena, step));
    if (!step->arena || !step->ranks || !step->courses || !step->walks) return LUO_ENOMEM;
    for (int32_t l = 0; l < net->nclasses; l++) {
        const int32_t walk = walk_of(step, &net->classes[l]);
        if (!step->walks[walk])
            LUO_TRY(luo_walk_make(arena, net->classes[l].role, walk % 2 > 0, &step->walks[walk]));
        step->ranks[l].scratch = luo_arena_new(1 << 14);
        if (!step->ranks[l].scratch) return LUO_ENOMEM;
    }
    return LUO_OK;
}

static luo_status begin_tables(sim_step *step)
{
    const sim_net *net = step->net;
    step->gathers = LUO_NEW_N(step->arena, sim_gather *, net->nrendezvous);
    step->mail = LUO_NEW_N(step->arena, sim_mail *, net->nchannels);
    step->runs = LUO_NEW_N(step->arena, int64_t, net->ntraffics);
    step->busy = LUO_NEW_N(step->arena, int32_t, net->nwires);
    step->busy_since = LUO_NEW_N(step->arena, double, net->nwires);
    step->busy_s = LUO_NEW_N(step->arena, double, net->nwires);
    step->owner = LUO_NEW_N(step->arena, sim_transfer *, net->nwires);
    step->closed_on = LUO_NEW_N(step->arena, int64_t, net->nwires);
    step->room = LUO_NEW_N(step->arena, double, net->nwires);
    step->users = LUO_NEW_N(step->arena, int32_t, net->nwires);
    const bool ok =
        step->gathers && step->mail && step->runs && step->busy && step->busy_since && step->busy_s;
    return ok && step->owner && step->closed_on && step->room && step->users ? LUO_OK : LUO_ENOMEM;
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
    const luo_program *program = class->program;
    int32_t from = program->ntask;
    if (!luo_sched_takes_chunks(set->schedule) && !waits_in_backward(class)) return from;
    while (from > 0 && class->role->seg[program->tasks[from - 1].seg].phase != LUO_PHASE_F) from--;
    return from;
}

/* A class goes on when a quarter is free; the longest backward and what follows fit in the rest. So
 * do all tasks in which nothing waits, as gradients are exchanged beside them, while there is
 * memory for that: fewer are open where there are very many classes. */
static int32_t jobs_max(const luo_rank *rank)
{
    const luo_role *role = rank->class->role;
    const luo_program *program = rank->class->program;
    int64_t backward = 0, rest = 0, tail = 0;
    for (int32_t k = 0; k < role->nseg; k++) {
        const luo_segment *seg = &role->seg[k];
        if (!luo_phase_in_task(seg->phase)) rest += seg->n;
        else if (seg->n > backward) backward = seg->n;
    }
    for (int32_t k = rank->defer_from; k < program->ntask; k++) {
        const luo_segment *seg = &role->seg[program->tasks[k].seg];
        if (luo_phase_in_task(seg->phase)) tail += seg->n;
    }
    const int64_t most = SIM_JOBS_ALL / rank->step->net->nclasses;
    if (tail > most) tail = most;
    return (int32_t)(((tail > backward ? tail : backward) + rest) / 3 * 4 + SIM_JOBS_MORE);
}

static luo_status begin_rank(sim_step *step, int32_t l)
{
    luo_arena *scratch = step->ranks[l].scratch;
    luo_rank *rank = &step->ranks[l];
    *rank =
        (luo_rank){.step = step, .class = &step->net->classes[l], .index = l, .scratch = scratch};
    rank->defer_from = first_tail_task(step->net->set, rank->class);
    rank->jobs_max = jobs_max(rank);
    rank->tally = LUO_NEW_N(step->arena, sim_tally, rank->class->role->ninstr);
    rank->sem = sg_sem_init(0);
    if (!rank->tally) return LUO_ENOMEM;
    return LUO_OK;
}

static void start_rank(luo_rank *rank)
{
    rank->step->nactors++;
    sg_actor_t actor = sg_actor_init("lane", rank->step->grid->control);
    sg_actor_set_data(actor, rank);
    sg_actor_start(actor, rank_main, 0, NULL);
}

/* No device goes down in this step. */
static bool all_stay(const sim_step *step)
{
    for (int32_t i = 0; i < step->nchanges; i++)
        if (step->changes[i].kind == LUO_CHANGE_DOWN) return false;
    return true;
}

luo_comm_mode sim_step_comm(const sim_step *step)
{
    const luo_comm_mode comm = step->net->config->comm;
    return step->forerun && comm == LUO_COMM_MESSAGE ? LUO_COMM_FLOW : comm;
}

static luo_status begin(sim_step *step)
{
    luo_shim_hosts_stay(all_stay(step)); /* a step that fails otherwise cancels all */
    LUO_TRY(begin_tables(step));
    for (int32_t l = 0; l < step->net->nclasses; l++) LUO_TRY(begin_rank(step, l));
    LUO_TRY(sim_faults_begin(step));
    for (int32_t l = 0; l < step->net->nclasses; l++) LUO_TRY(sim_beside_begin(&step->ranks[l]));
    return LUO_OK;
}

void sim_step_close(sim_step *step)
{
    for (int32_t l = 0; l < step->net->nclasses; l++) sg_sem_destroy(step->ranks[l].sem);
    for (sim_driver *driver = step->drivers; driver; driver = driver->next)
        sg_sem_destroy(driver->sem);
}

luo_status sim_step_start(sim_step *step, const luo_world *world, const luo_change *changes,
                          int32_t nchanges, bool trace)
{
    luo_arena_reset(step->arena, 0);
    *step = (sim_step){.net = step->net,
                       .grid = step->grid,
                       .arena = step->arena,
                       .ranks = step->ranks,
                       .walks = step->walks,
                       .kept = step->kept,
                       .courses = step->courses,
                       .noise = step->noise,
                       .update = step->update,
                       .forerun = step->forerun,
                       .beside = step->beside,
                       .factors = step->factors,
                       .foreseen = step->foreseen,
                       .has_foreseen = step->has_foreseen,
                       .done = step->done,
                       .origin = simgrid_get_clock(),
                       .trace = trace,
                       .rounds = step->net->set->staggered ? SIM_ROUNDS : 1,
                       .world = world,
                       .changes = changes,
                       .nchanges = nchanges,
                       .running = step->net->nclasses,
                       .failed_device = -1,
                       .failed_class = -1,
                       .failed_link = -1};
    LUO_TRY(begin(step));
    for (int32_t l = 0; l < step->net->nclasses; l++) start_rank(&step->ranks[l]);
    return LUO_OK;
}

static luo_status run(sim_step *step, const luo_world *world, const luo_change *changes,
                      int32_t nchanges, bool trace)
{
    LUO_TRY(sim_step_start(step, world, changes, nchanges, trace));
    simgrid_run();
    sim_step_close(step);
    return step->st == LUO_ENOMEM ? LUO_ENOMEM : LUO_OK;
}

/* slows: some kernel has to be slower than in it. */
static luo_status run_ahead(sim_step *step, const luo_world *world, bool *slows)
{
    sim_noise *noise = step->noise;
    const double update = step->update;
    step->noise = NULL;
    step->update = 1;
    step->forerun = true;
    LUO_TRY(run(step, world, NULL, 0, false));
    LUO_TRY(sim_beside_find(step, slows));
    step->forerun = false;
    step->noise = noise;
    step->update = update;
    return LUO_OK;
}

luo_status sim_step_foresee(sim_step *step, const luo_world *world, bool *slows)
{
    *slows = false;
    return sim_beside_is_new(step, world) ? run_ahead(step, world, slows) : LUO_OK;
}

luo_status sim_step_run(sim_step *step, const luo_world *world, const luo_change *changes,
                        int32_t nchanges, bool trace)
{
    const bool plain = !step->noise && step->update == 1 && nchanges == 0 && !trace &&
                       step->net->config->comm != LUO_COMM_MESSAGE;
    if (sim_beside_is_new(step, world)) {
        bool slows = false;
        LUO_TRY(run_ahead(step, world, &slows));
        if (plain && !slows) return LUO_OK; /* it was the step that is asked for */
    }
    return run(step, world, changes, nchanges, trace);
}
