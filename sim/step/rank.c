/* rank.c: what the interpreter calls for one class. */
#include <math.h>
#include <simgrid/actor.h>
#include <simgrid/exec.h>
#include <simgrid/host.h>
#include <string.h>

#include "core/base/rng.h"
#include "sim/shim.h"
#include "sim/step/beside.h"

static const sim_cell *cell_of(int64_t ticket)
{
    return ticket >= SIM_PENDING ? (const sim_cell *)(uintptr_t)(ticket - SIM_PENDING) : NULL;
}

double sim_ticket_end(int64_t ticket)
{
    const sim_cell *cell = cell_of(ticket);
    double end = 0;
    if (cell) return cell->end;
    memcpy(&end, &ticket, sizeof end);
    return end;
}

sim_job *sim_ticket_job(int64_t ticket)
{
    const sim_cell *cell = cell_of(ticket);
    return cell ? cell->job : NULL;
}

static double later(double a, double b)
{
    return a > b ? a : b;
}

/* ---- waiting ---- */

/* A thread that waits carries what it has posted. */
static void block(luo_rank *rank)
{
    rank->blocked = true;
    if (rank->class->thread) sim_jobs_start(rank->step);
    sg_sem_acquire(rank->sem);
}

void sim_rank_wake(luo_rank *rank)
{
    if (!rank->blocked) return;
    rank->blocked = false;
    sg_sem_release(rank->sem);
}

static luo_status await_cell(luo_rank *rank, const sim_cell *cell, double *ready)
{
    while (cell->job) {
        if (rank->step->stopped) return sim_rank_status(rank, cell->job);
        rank->waiting_for = cell->job;
        block(rank);
        rank->waiting_for = NULL;
    }
    *ready = later(*ready, cell->end);
    return LUO_OK;
}

static luo_status await_ticket(luo_rank *rank, int64_t ticket, double *ready)
{
    const sim_cell *cell = cell_of(ticket);
    if (cell) return await_cell(rank, cell, ready);
    *ready = later(*ready, sim_ticket_end(ticket));
    return LUO_OK;
}

/* Keeps the number of open jobs, and so the memory, within bounds. */
static luo_status await_room(luo_rank *rank)
{
    while (rank->open_jobs >= rank->jobs_max) {
        if (rank->step->stopped) return sim_rank_status(rank, NULL);
        block(rank);
    }
    return LUO_OK;
}

static bool takes_part(const sim_step *step, const sim_job *job)
{
    if (job->op->what < SIM_MEET) return false;
    if (job->op->what == SIM_MEET) {
        const sim_rendezvous *rendezvous = &step->net->rendezvous_of[job->cross->rendezvous];
        for (int32_t i = 0; i < rendezvous->nclasses; i++)
            if (rendezvous->class[i] == step->failed_class) return true;
        return false;
    }
    for (int32_t i = 0; i < job->cross->nout; i++)
        if (step->net->channels[job->cross->out[i].channel].dst == step->failed_class) return true;
    for (int32_t i = 0; i < job->cross->nin; i++)
        if (step->net->channels[job->cross->in[i].channel].src == step->failed_class) return true;
    return false;
}

static bool passes(const sim_step *step, int32_t traffic)
{
    if (traffic < 0) return false; /* no receiver */
    const sim_traffic *t = &step->net->traffics[traffic];
    for (int32_t i = 0; i < t->nloads; i++)
        if (t->loads[i].hop / 2 == step->failed_link) return true;
    return false;
}

luo_status sim_rank_status(const luo_rank *rank, const sim_job *job)
{
    const sim_step *step = rank->step;
    if (step->st != LUO_EPEER) return step->st;
    if (step->failed_device >= 0 && step->failed_class == rank->index) return LUO_EPEER;
    if (!job || job->op->what < SIM_MEET) return LUO_ECANCELED;
    if (step->failed_device >= 0) return takes_part(step, job) ? LUO_EPEER : LUO_ECANCELED;
    bool touched = false;
    for (int32_t i = 0; i < job->cross->ntraffics; i++)
        touched = touched || passes(step, job->cross->traffic[i]);
    for (int32_t i = 0; i < job->cross->nout; i++)
        touched = touched || passes(step, job->cross->out[i].traffic);
    return touched ? LUO_EPEER : LUO_ECANCELED;
}

/* ---- records ---- */

sim_record *sim_record_new(luo_rank *rank, sim_pace *pace, int32_t task, int32_t instr)
{
    sim_record *record = LUO_NEW(rank->step->arena, sim_record);
    if (!record) return NULL;
    *record = (sim_record){task, instr, LUO_OK, 0, 0, NULL};
    if (pace->last)
        pace->last->next = record;
    else
        pace->first = record;
    pace->last = record;
    pace->nrecords++;
    return record;
}

static luo_status note(luo_rank *rank, sim_pace *pace, int32_t task, const luo_instr *in,
                       const sim_op *op, double start, double end)
{
    const int32_t tag = op->what == SIM_INSIDE ? in->id : -1;
    if (!rank->told) return LUO_OK;
    LUO_TRY(luo_ledger_add(&pace->ledger, (luo_part)op->part, start - rank->base, end - rank->base,
                           tag));
    if (!rank->step->trace) return LUO_OK;
    sim_record *record = rank->records ? rank->records[pace - rank->paces] : NULL;
    if (!record) record = sim_record_new(rank, pace, task, in->id);
    if (!record) return LUO_ENOMEM;
    record->start = start;
    record->end = end;
    return LUO_OK;
}

/* ---- noise (docs/formats.md#random-numbers) ---- */

/* Rounds are the same step. */
static double draw(const luo_rank *rank, uint64_t key, int32_t task, const luo_instr *in,
                   double sigma)
{
    const uint64_t ninstr = (uint64_t)rank->class->role->ninstr;
    const uint64_t at = 2 * ((uint64_t)task * ninstr + (uint64_t)in->id);
    const double z =
        luo_rng_normal_of(luo_rng_u_of(luo_rng_at(key, at)), luo_rng_u_of(luo_rng_at(key, at + 1)));
    return exp(sigma * z - sigma * sigma / 2);
}

/* Devices that could be simulated as one have one factor for a communication. */
static double draw_comm(const luo_rank *rank, int32_t task, const luo_instr *in)
{
    const sim_step *step = rank->step;
    if (!step->noise) return 1;
    const int32_t lead = step->net->lead_of[rank->class->member[0]];
    return draw(rank, step->noise[lead].comm, task, in, step->net->config->comm_sigma);
}

/* When the device is done with what it computes so far. */
static double compute_clock(const luo_rank *rank)
{
    double clock = rank->clock[LUO_STREAM_COMPUTE];
    for (int32_t k = 0; k < rank->npaces; k++) clock = later(clock, rank->paces[k].clock);
    return clock;
}

static double draw_work(const luo_rank *rank, int32_t pace, int32_t task, const luo_instr *in)
{
    const sim_step *step = rank->step;
    if (!step->noise) return 1;
    const int32_t program = rank->class->member[pace]; /* paces are members */
    return draw(rank, step->noise[program].compute, task, in, step->net->config->compute_sigma);
}

/* ---- work of the device ---- */

static double work_s(const luo_rank *rank, const luo_instr *in, const sim_op *op)
{
    return in->cost.kind == LUO_COST_OPTIMIZER ? op->seconds * rank->step->update : op->seconds;
}

/* Of a kernel, with what calls beside it take. */
static double kernel_s(const luo_rank *rank, int32_t pace, int32_t task, const luo_instr *in,
                       const sim_op *op)
{
    return work_s(rank, in, op) * sim_beside_factor(rank, pace, task, in);
}

static luo_status compute(luo_rank *rank, int32_t task, const luo_instr *in, const sim_op *op,
                          double ready, double *last)
{
    *last = 0;
    ready = later(ready, rank->clock[LUO_STREAM_COMPUTE]); /* collectives that took its turn */
    for (int32_t k = 0; k < rank->npaces; k++) {
        sim_pace *pace = &rank->paces[k];
        const double seconds = kernel_s(rank, k, task, in, op), start = later(pace->clock, ready);
        const double work = seconds * draw_work(rank, k, task, in);
        const double end = pace->slow.n == 1 ? start + work * pace->slow.value[0]
                                             : sim_timeline_end(&pace->slow, start, work);
        pace->clock = end;
        if (rank->told) pace->predicted_s += seconds;
        if (rank->told) pace->compute_s += end - start;
        LUO_TRY(sim_beside_kernel(rank, k, task, in, start, end));
        *last = later(*last, end);
        LUO_TRY(note(rank, pace, task, in, op, start, end));
    }
    return LUO_OK;
}

/* Copies and the like on a communication stream: the slowest member counts. */
static luo_status work_aside(luo_rank *rank, int32_t task, const luo_instr *in, const sim_op *op,
                             double ready, double *last)
{
    const double start = later(rank->clock[op->fifo], ready), seconds = work_s(rank, in, op);
    *last = start;
    for (int32_t k = 0; k < rank->npaces; k++)
        *last = later(*last, sim_timeline_end(&rank->paces[k].slow, start,
                                              seconds * draw_work(rank, k, task, in)));
    rank->clock[op->fifo] = *last;
    for (int32_t k = 0; k < rank->npaces; k++)
        LUO_TRY(note(rank, &rank->paces[k], task, in, op, start, *last));
    return LUO_OK;
}

/* ---- communication inside the class ---- */

static luo_status talk_inside(luo_rank *rank, int32_t task, const luo_instr *in, const sim_op *op,
                              double ready, double *last)
{
    const bool turn = op->fifo == LUO_STREAM_COMPUTE;
    const double start = later(turn ? compute_clock(rank) : rank->clock[op->fifo], ready);
    const double seconds = op->seconds * draw_comm(rank, task, in);
    *last = rank->ninner > 0 ? sim_inner_end(rank, in, start, seconds) : start + seconds;
    rank->clock[op->fifo] = *last;
    rank->tally[in->id].calls += rank->told;
    if (rank->told) rank->tally[in->id].busy_s += *last - start;
    LUO_TRY(sim_beside_called(rank, op, start, *last));
    for (int32_t k = 0; k < rank->npaces; k++)
        LUO_TRY(note(rank, &rank->paces[k], task, in, op, start, *last));
    return LUO_OK;
}

luo_status sim_work_here(luo_rank *rank, int32_t task, const luo_instr *in, const sim_op *op,
                         double ready, double *end)
{
    if (op->what == SIM_INSIDE) return talk_inside(rank, task, in, op, ready, end);
    if (op->fifo == LUO_STREAM_COMPUTE) return compute(rank, task, in, op, ready, end);
    return work_aside(rank, task, in, op, ready, end);
}

/* ---- executions: for cores that are shared, and as the slow twin of the arithmetic ---- */

/* A slowdown that changes in the middle takes what is left and starts it anew. */
luo_status sim_run_execution(luo_rank *rank, const sim_timeline *slow, double work)
{
    const sim_grid *grid = rank->step->grid;
    while (work > 0 && !rank->step->stopped) {
        const double now = sim_now(rank->step), x = slow ? sim_timeline_value(slow, now) : 1;
        const double next = slow ? sim_timeline_next(slow, now) : HUGE_VAL;
        sg_exec_t e = sg_actor_exec_init(work * x * SIM_FLOPS);
        sg_exec_set_host(e, grid->worker[rank->index]);
        if (grid->share[rank->index] > 0) sg_exec_set_bound(e, grid->share[rank->index]);
        sg_exec_start(e);
        const sg_error_t st = next < HUGE_VAL ? sg_exec_wait_for(e, next - now) : sg_exec_wait(e);
        if (st == SG_OK) break;
        if (st != SG_ERROR_TIMEOUT) return LUO_EPEER;
        work = sg_exec_get_remaining(e) / (x * SIM_FLOPS);
        luo_shim_exec_cancel(e);
        sg_exec_wait(e);
    }
    return rank->step->stopped ? LUO_ECANCELED : LUO_OK;
}

/* A slowed thread sleeps: the processor time that was needed, times slowdown - 1 at its end. So its
 * core is free for others meanwhile, as it is where slowness is emulated. spent: both together. */
static luo_status run_paced(luo_rank *rank, const sim_timeline *slow, double work, double *spent)
{
    LUO_TRY(sim_run_execution(rank, NULL, work));
    const double x = sim_timeline_value(slow, sim_now(rank->step));
    sim_sleep_until(rank->step, sim_now(rank->step) + work * (x - 1));
    *spent = work * x;
    return rank->step->stopped ? LUO_ECANCELED : LUO_OK;
}

luo_status sim_execute(sim_job *job, double *end)
{
    luo_rank *rank = job->rank;
    sim_pace *pace = &rank->paces[0]; /* such a class has one member */
    const bool own = job->op->fifo == LUO_STREAM_COMPUTE;
    sim_sleep_until(rank->step, job->start);
    const double start = sim_now(rank->step);
    double spent = 0;
    const double work =
        job->factor * (own ? kernel_s(rank, 0, job->task, job->instr, job->op)
                           : work_s(rank, job->instr, job->op));
    if (rank->class->thread)
        LUO_TRY(run_paced(rank, &pace->slow, work, &spent));
    else
        LUO_TRY(sim_run_execution(rank, &pace->slow, work));
    *end = sim_now(rank->step);
    const bool told = rank->told;
    rank->told = job->round == rank->step->rounds - 1;
    if (own) pace->clock = *end;
    if (own) LUO_TRY(sim_beside_kernel(rank, 0, job->task, job->instr, start, *end));
    if (own && rank->told) pace->compute_s += rank->class->thread ? spent : *end - start;
    rank->records = job->records;
    const luo_status st = note(rank, pace, job->task, job->instr, job->op, start, *end);
    rank->records = NULL;
    rank->told = told;
    return st;
}

/* ---- submit and wait ---- */

static bool is_pending(const luo_rank *rank, const luo_issue *issue, const sim_op *op)
{
    if (rank->tail[op->fifo]) return true;
    for (int32_t i = 0; i < issue->ndep; i++)
        if (sim_ticket_job(issue->dep[i])) return true;
    return false;
}

static luo_status await_blocking(luo_rank *rank, double *ready)
{
    for (int i = 0; i < 2; i++)
        if (rank->blocking[i]) LUO_TRY(await_cell(rank, rank->blocking[i], ready));
    rank->blocking[0] = rank->blocking[1] = NULL;
    return LUO_OK;
}

static bool is_in_task(const luo_instr *in)
{
    return luo_phase_in_task(in->phase);
}

/* What ZeRO-2 and 3 gather and scatter inside the tasks. */
static bool is_shard_call(const luo_instr *in)
{
    return in->stream == LUO_STREAM_DP && is_in_task(in);
}

static luo_status await_shard_calls(luo_rank *rank, double *ready)
{
    for (int32_t l = 0; l < LUO_LANES; l++) {
        if (rank->shard[l]) LUO_TRY(await_cell(rank, rank->shard[l], &rank->shard_s));
        rank->shard[l] = NULL;
    }
    *ready = later(*ready, rank->shard_s);
    return LUO_OK;
}

/* Without dp_overlap gradients wait for the last backward of the device and the first forward for
 * all weights; without shard_overlap what ZeRO-2 and 3 do inside a task takes turns with its
 * computation. */
static luo_status await_phase(luo_rank *rank, const luo_issue *issue, double *ready)
{
    const luo_instr *in = issue->instr;
    const luo_stack *stack = rank->step->net->config->stack;
    const bool waits = !stack->dp_overlap, turns = !stack->shard_overlap;
    sim_job *tail = rank->tail[LUO_STREAM_COMPUTE];
    if (in->stream == LUO_STREAM_DP &&
        ((waits && in->phase == LUO_PHASE_POST) || (turns && is_in_task(in)))) {
        if (tail) LUO_TRY(await_cell(rank, tail->cell, ready));
        *ready = later(*ready, compute_clock(rank));
    }
    if (turns && in->stream == LUO_STREAM_COMPUTE && is_in_task(in))
        LUO_TRY(await_shard_calls(rank, ready));
    if (!waits) return LUO_OK;
    if (rank->gathered || in->stream != LUO_STREAM_COMPUTE || in->phase != LUO_PHASE_F)
        return LUO_OK;
    rank->gathered = true;
    for (int32_t l = 0; l < LUO_LANES; l++)
        if (rank->gather[l]) LUO_TRY(await_cell(rank, rank->gather[l], ready));
    *ready = later(*ready, rank->gather_s);
    return LUO_OK;
}

/* Brings weights from other devices, before the first forward? */
static bool gathers(const luo_rank *rank, const luo_instr *in, const sim_op *op)
{
    if (in->stream != LUO_STREAM_DP || in->phase != LUO_PHASE_PRE) return false;
    return op->what != SIM_MAIL || rank->class->cross[op->cross].nin > 0;
}

static luo_status submit_here(luo_rank *rank, const luo_issue *issue, const sim_op *op,
                              double ready, int64_t *ticket)
{
    double end = 0;
    for (int32_t i = 0; i < issue->ndep; i++) LUO_TRY(await_ticket(rank, issue->dep[i], &ready));
    if (rank->tail[op->fifo]) LUO_TRY(await_cell(rank, rank->tail[op->fifo]->cell, &ready));
    LUO_TRY(sim_work_here(rank, issue->task, issue->instr, op, ready, &end));
    if (issue->instr->beside)
        rank->check_s = end;
    else
        rank->end = later(rank->end, end);
    if (gathers(rank, issue->instr, op)) rank->gather_s = later(rank->gather_s, end);
    if (is_shard_call(issue->instr)) rank->shard_s = later(rank->shard_s, end);
    memcpy(ticket, &end, sizeof end);
    return LUO_OK;
}

static luo_status submit_job(luo_rank *rank, const luo_issue *issue, const sim_op *op, double ready,
                             int64_t *ticket)
{
    LUO_TRY(await_room(rank));
    const bool executes = op->what == SIM_WORK && rank->class->exec;
    double factor = 1; /* of what is arithmetic it is drawn there */
    if (executes) factor = draw_work(rank, 0, issue->task, issue->instr);
    if (op->what >= SIM_MEET) factor = draw_comm(rank, issue->task, issue->instr);
    if (executes && op->fifo == LUO_STREAM_COMPUTE && rank->told)
        rank->paces[0].predicted_s += kernel_s(rank, 0, issue->task, issue->instr, op);
    const sim_cell *cell = sim_job_new(rank, issue, op, factor, ready);
    if (!cell) return LUO_ENOMEM;
    if (rank->step->net->config->stack->p2p_blocking && issue->instr->stream == LUO_STREAM_PP &&
        op->what == SIM_MAIL && rank->class->cross[op->cross].nout > 0)
        rank->blocking[luo_phase_is_backward(issue->instr->phase)] = cell;
    if (gathers(rank, issue->instr, op)) rank->gather[op->fifo] = cell;
    if (is_shard_call(issue->instr)) rank->shard[op->fifo] = cell;
    *ticket = SIM_PENDING + (int64_t)(uintptr_t)cell;
    return LUO_OK;
}

/* Is this one of those that must not hold up what follows? The first chunk of a stage begins while
 * the weights of the others are still gathered. */
static bool goes_ahead(const luo_rank *rank, const luo_issue *issue)
{
    return issue->task >= rank->defer_from || issue->instr->phase == LUO_PHASE_PRE ||
           rank->class->exec;
}

/* What sets an update right is not simulated: it was right. Nor is the norm of the last round,
 * which nobody waits for any more; that of the round before stands for it. */
static bool is_left_out(const luo_rank *rank, const luo_instr *in)
{
    return in->beside && (in->kind == LUO_INSTR_COMPUTE || rank->round == rank->step->rounds - 1);
}

static luo_status submit(luo_rank *rank, const luo_issue *issue, int64_t *ticket)
{
    const sim_op *op = &rank->class->ops[issue->instr->id];
    double ready = 0;
    if (rank->step->stopped) return sim_rank_status(rank, NULL);
    *ticket = 0; /* done at 0 */
    if (is_left_out(rank, issue->instr)) return LUO_OK;
    if (op->what == SIM_WORK && op->fifo == LUO_STREAM_COMPUTE)
        LUO_TRY(await_blocking(rank, &ready));
    LUO_TRY(await_phase(rank, issue, &ready));
    if (op->what >= SIM_MEET || rank->class->thread || (rank->class->exec && op->what == SIM_WORK))
        return submit_job(rank, issue, op, ready, ticket);
    if (goes_ahead(rank, issue) && is_pending(rank, issue, op))
        return submit_job(rank, issue, op, ready, ticket);
    return submit_here(rank, issue, op, ready, ticket);
}

static const sim_job *first_due(const luo_rank *rank)
{
    const sim_job *job = rank->first_job;
    while (job && job->instr->beside && job->round == rank->round) job = job->after;
    return job;
}

/* A device begins its next step when all of its own is done but the norm of all gradients, which it
 * knows before that step ends. */
static luo_status wait_for_own(luo_rank *rank)
{
    for (const sim_job *job = first_due(rank); job; job = first_due(rank)) {
        double ignored = 0; /* job.c has noted it */
        LUO_TRY(await_cell(rank, job->cell, &ignored));
    }
    rank->end = later(rank->end, later(rank->last_check_s, rank->base));
    sim_sleep_until(rank->step, rank->end);
    return rank->step->stopped ? sim_rank_status(rank, NULL) : LUO_OK;
}

void sim_round_begin(luo_rank *rank, int32_t round)
{
    rank->round = round;
    rank->told = round == rank->step->rounds - 1;
    if (round == 0) return;
    rank->base = rank->end;
    rank->last_check_s = rank->check_s;
    rank->check_s = 0;
    rank->gathered = false;
    rank->gather_s = rank->shard_s = 0;
    memset(rank->gather, 0, sizeof rank->gather);
    memset(rank->shard, 0, sizeof rank->shard);
    rank->blocking[0] = rank->blocking[1] = NULL;
    for (int32_t f = 0; f < LUO_LANES; f++) rank->clock[f] = later(rank->clock[f], rank->end);
    for (int32_t k = 0; k < rank->npaces; k++)
        rank->paces[k].clock = later(rank->paces[k].clock, rank->end);
}

/* Everything of the class: the last of each stream ends last in it. The class ends when SimGrid's
 * clock has come that far, so that a failure before still meets it. */
static luo_status wait_for_all(luo_rank *rank)
{
    double end = 0;
    if (rank->step->rounds > 1) return wait_for_own(rank);
    for (int32_t k = 0; k < rank->npaces; k++) end = later(end, rank->paces[k].clock);
    while (rank->class->thread && rank->first_job)
        LUO_TRY(await_cell(rank, rank->first_job->cell, &end));
    for (int32_t f = 0; f < LUO_LANES; f++) {
        end = later(end, rank->clock[f]);
        if (rank->tail[f]) LUO_TRY(await_cell(rank, rank->tail[f]->cell, &end));
    }
    sim_sleep_until(rank->step, end);
    rank->end = end;
    return rank->step->stopped ? sim_rank_status(rank, NULL) : LUO_OK;
}

static luo_status wait_for(luo_rank *rank, const int64_t *tickets, int32_t n)
{
    double ready = 0;
    if (rank->step->stopped) return sim_rank_status(rank, NULL);
    if (n == 0) return wait_for_all(rank);
    for (int32_t i = 0; i < n; i++) LUO_TRY(await_ticket(rank, tickets[i], &ready));
    return LUO_OK;
}

const luo_executor sim_executor = {.submit = submit, .wait = wait_for};
