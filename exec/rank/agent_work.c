/* agent_work.c: the commands of a rank. What all ranks take part in is begun by all or none:
 * they agree first. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/io/read/read.h"
#include "exec/coordinator/hosts.h"
#include "exec/rank/agent_internal.h"
#include "exec/state/checkpoint.h"

/* ---- jobs ---- */

static luo_agent_job *find_job(const luo_agent *agent, int64_t id)
{
    for (luo_agent_job *job = agent->jobs; job; job = job->next)
        if (job->id == id) return job;
    return NULL;
}

static luo_status need_job(const luo_agent *agent, int64_t id, luo_agent_job **out, luo_err *err)
{
    *out = find_job(agent, id);
    if (*out) return LUO_OK;
    return luo_err_set(err, LUO_EBUG, "rank %d has no job %lld; it has to be prepared first.",
                       agent->rank, (long long)id);
}

static void free_job(const luo_agent *agent, luo_agent_job *job)
{
    if (job->job) agent->executor->unbind(job->job);
    luo_arena_free(job->arena);
    free(job);
}

static void drop_job(luo_agent *agent, int64_t id)
{
    for (luo_agent_job **at = &agent->jobs; *at; at = &(*at)->next) {
        luo_agent_job *job = *at;
        if (job->id != id) continue;
        *at = job->next;
        free_job(agent, job);
        return;
    }
}

void luo_agent_drop_jobs(luo_agent *agent)
{
    while (agent->jobs) drop_job(agent, agent->jobs->id);
}

static luo_status same_hash(uint64_t here, uint64_t there, const char *what, luo_err *err)
{
    char h[17], t[17];
    if (there == 0 || here == there) return LUO_OK;
    return luo_err_set(err, LUO_EBACKEND,
                       "a rank made %s %s where the coordinator made %s; "
                       "`luoshu` and the programs of ranks of one build and the same inputs "
                       "belong together.",
                       what, luo_hash_print(here, h), luo_hash_print(there, t));
}

static luo_status read_plan(luo_agent_job *job, const char *json, luo_err *err)
{
    const luo_source src = {.name = "plan", .text = json, .len = strlen(json)};
    luo_diags diags;
    luo_diags_init(&diags, job->arena);
    const luo_status st = luo_read_plan_text(job->arena, &src, &job->plan, &diags);
    if (st == LUO_OK) return LUO_OK;
    return luo_err_set(err, LUO_EBUG, "a rank cannot read the plan it is sent: %s",
                       diags.first ? diags.first->err.text : luo_status_text(st));
}

static luo_status compile(const luo_agent *agent, luo_agent_job *job, luo_wire *wire, luo_err *err)
{
    const char *json = luo_wire_text(wire);
    const luo_compile_opts opts = {.sequence_tokens = luo_wire_int(wire)};
    const uint64_t hash = (uint64_t)luo_wire_int(wire);
    LUO_TRY(luo_message_end(wire, err));
    if (!json) return luo_err_set(err, LUO_EBUG, "a rank is asked to prepare no plan.");
    LUO_TRY(read_plan(job, json, err));
    LUO_TRY(luo_model_check_run(agent->model, err));
    LUO_TRY(luo_plan_compile(job->arena, job->plan, agent->model, agent->cluster, &opts, &job->set,
                             err));
    job->recipe = (luo_recipe){.plan = job->plan, .sequence_tokens = opts.sequence_tokens};
    return same_hash(job->set->hash, hash, "programs", err);
}

static luo_status prepare(luo_agent *agent, luo_wire *wire, luo_wire *answer, luo_err *err)
{
    luo_agent_job *job = calloc(1, sizeof *job);
    luo_status st = luo_err_nomem(err);
    if (job) {
        job->id = (int32_t)luo_wire_int_in(wire, 0, INT32_MAX);
        job->arena = luo_arena_new(1 << 16);
        if (job->arena) st = compile(agent, job, wire, err);
    }
    st = luo_boot_agree(agent->boot, st, err);
    if (st == LUO_OK)
        st = agent->executor->bind(agent->x, job->id, job->set, &job->recipe, &job->job, err);
    if (st != LUO_OK) {
        if (job) free_job(agent, job);
        return st;
    }
    job->next = agent->jobs;
    agent->jobs = job;
    luo_wire_put_int(answer, (int64_t)job->set->hash);
    return LUO_OK;
}

/* ---- state ---- */

/* Arrays of the state in host memory, where an executor keeps it elsewhere. */
static luo_status fetch(const luo_agent *agent, const luo_agent_job *job, bool contents,
                        luo_err *err)
{
    return agent->executor->fetch ? agent->executor->fetch(job->job, contents, err) : LUO_OK;
}

/* All ranks or none: else some would go on with state that others do not have. */
static luo_status store(const luo_agent *agent, const luo_agent_job *job, luo_err *err)
{
    if (!agent->executor->store) return LUO_OK;
    return luo_boot_agree(agent->boot, agent->executor->store(job->job, true, err), err);
}

static void put_back(const luo_agent *agent, const luo_agent_job *job)
{
    if (agent->executor->store) (void)agent->executor->store(job->job, false, NULL);
}

static luo_status init(luo_agent *agent, luo_state *state, const luo_state_order *order,
                       luo_err *err)
{
    const luo_share share = {
        .rank = agent->rank, .ranks = agent->nranks, .done = &agent->where.done};
    if (order->checkpoint)
        return luo_checkpoint_load(state, agent->model, order->checkpoint, share, err);
    state->step = 0;
    if (order->weights)
        return luo_state_load_weights(state, agent->model, order->weights, share, err);
    luo_state_init(state, agent->model, agent->setup.seed);
    return LUO_OK;
}

static luo_status save(const luo_agent *agent, const luo_agent_job *job, luo_state *state,
                       const luo_state_order *order, const luo_gather *gather, luo_err *err)
{
    luo_status st = LUO_OK;
    if (!luo_programs_find(job->set, state->device))
        state->step = order->step; /* it may have missed some */
    if (state->step != order->step)
        st = luo_err_set(err, LUO_EBUG, "rank %d has done %lld steps where %lld are to be saved.",
                         agent->rank, (long long)state->step, (long long)order->step);
    if (st == LUO_OK) st = fetch(agent, job, true, err);
    st = luo_boot_agree(agent->boot, st, err);
    if (st == LUO_OK)
        st = luo_checkpoint_save(state, agent->model, order->checkpoint, agent->setup.seed,
                                 order->data, luo_plan_hash(job->plan), order->keep, gather, err);
    put_back(agent, job);
    return st;
}

/* What was begun with stays, also where it could not be saved. */
static luo_status begin_with(luo_agent *agent, const luo_agent_job *job, luo_state *state,
                             const luo_state_order *order, const luo_gather *gather, luo_err *err)
{
    luo_status st = fetch(agent, job, false, err), saved = LUO_OK;
    if (st == LUO_OK) st = init(agent, state, order, err);
    st = luo_boot_agree(agent->boot, st, err);
    if (st != LUO_OK) {
        put_back(agent, job);
        return st;
    }
    if (order->save_init)
        saved = luo_state_save_weights(state, agent->model, order->save_init, gather, err);
    st = store(agent, job, saved == LUO_OK ? err : NULL);
    return saved == LUO_OK ? st : saved;
}

/* Gathering counts as going on: a large checkpoint takes longer than a hang may. */
typedef struct counted {
    luo_gather inner;
    luo_progress_report *where;
} counted;

static luo_status gather_counted(void *ctx, const void *mine, int64_t n, const void *const **out,
                                 const int64_t **sizes, int32_t *ranks, luo_err *err)
{
    const counted *c = ctx;
    c->where->done++;
    return c->inner.bytes(c->inner.ctx, mine, n, out, sizes, ranks, err);
}

static luo_status state(luo_agent *agent, luo_wire *wire, luo_wire *answer, luo_err *err)
{
    luo_agent_job *job;
    luo_state_order order;
    counted c = {.where = &agent->where};
    const int64_t id = luo_wire_int(wire);
    LUO_TRY(luo_message_get_state_order(wire, &order, err));
    LUO_TRY(need_job(agent, id, &job, err));
    LUO_TRY(agent->executor->gather(agent->x, &c.inner));
    const luo_gather gather = {.ctx = &c, .writer = c.inner.writer, .bytes = gather_counted};
    luo_state *s = agent->executor->state(job->job);
    LUO_TRY(order.action == LUO_STATE_SAVE ? save(agent, job, s, &order, &gather, err)
                                           : begin_with(agent, job, s, &order, &gather, err));
    luo_wire_put_int(answer, s->step);
    return LUO_OK;
}

/* ---- steps and switches ---- */

/* What this rank has given up others may wait for: the coordinator has to know at once. */
static luo_status answer_of(const luo_step_report *report, luo_status st, luo_err *err)
{
    if (st != LUO_OK || (report->status != LUO_EPEER && report->status != LUO_ESTUCK)) return st;
    return luo_err_set(err, report->status, "%s", report->text);
}

static luo_status step(luo_agent *agent, luo_command *command, luo_wire *answer, luo_err *err)
{
    luo_agent_job *job;
    luo_step_order order;
    luo_step_report report = {0};
    const int64_t id = luo_wire_int(&command->payload);
    const size_t mark = luo_arena_mark(agent->arena);
    LUO_TRY(luo_message_get_step_order(agent->arena, &command->payload, command->received_s, &order,
                                       err));
    LUO_TRY(need_job(agent, id, &job, err));
    luo_listener_begin(agent->listener, command->serial, order.withdraw_s, order.kill_s);
    const luo_status st =
        answer_of(&report, agent->executor->step(job->job, &order, &report, err), err);
    luo_listener_finish(agent->listener);
    if (st == LUO_OK) luo_message_put_report(answer, &report, report.start_s - command->received_s);
    luo_arena_reset(agent->arena, mark);
    return st;
}

typedef struct switching {
    luo_agent_job *from, *to;
    luo_recipe recipe;
    luo_switching what;
    luo_step_order order;
} switching;

static luo_status read_switch(luo_agent *agent, luo_arena *arena, luo_command *command,
                              switching *s, luo_err *err)
{
    luo_wire *wire = &command->payload;
    const int64_t from = luo_wire_int(wire), to = luo_wire_int(wire);
    LUO_TRY(need_job(agent, from, &s->from, err));
    LUO_TRY(need_job(agent, to, &s->to, err));
    const int32_t ndead = (int32_t)luo_wire_int_in(wire, 0, LUO_DEVICES_MAX);
    if (!luo_wire_has(wire, ndead, 8)) return luo_message_end(wire, err);
    int32_t *dead = LUO_NEW_N(arena, int32_t, ndead);
    if (!dead) return luo_err_nomem(err);
    for (int32_t i = 0; i < ndead; i++)
        dead[i] = (int32_t)luo_wire_int_in(wire, 0, LUO_DEVICES_MAX);
    const uint64_t hash = (uint64_t)luo_wire_int(wire);
    LUO_TRY(luo_message_get_step_order(arena, wire, command->received_s, &s->order, err));
    s->recipe = (luo_recipe){.plan = s->to->plan,
                             .from = s->from->plan,
                             .sequence_tokens = s->to->recipe.sequence_tokens,
                             .from_tokens = s->from->recipe.sequence_tokens,
                             .ndead = ndead,
                             .dead = dead};
    LUO_TRY(luo_switching_compile(arena, s->from->plan, s->to->plan, agent->model, agent->cluster,
                                  ndead, dead, &s->what, err));
    return same_hash(s->what.set ? s->what.set->hash : 0, hash, "a switch", err);
}

static luo_status move(luo_agent *agent, luo_command *command, luo_wire *answer, luo_err *err)
{
    luo_arena *arena = luo_arena_new(1 << 16);
    luo_step_report report = {0};
    switching s = {0};
    luo_status st = arena ? read_switch(agent, arena, command, &s, err) : luo_err_nomem(err);
    st = luo_boot_agree(agent->boot, st, err);
    if (st == LUO_OK) {
        luo_listener_begin(agent->listener, command->serial, s.order.withdraw_s, s.order.kill_s);
        st = agent->executor->move(s.from->job, s.to->job, &s.what, &s.recipe, &report, err);
        luo_listener_finish(agent->listener);
        st = answer_of(&report, st, err);
    }
    if (st == LUO_OK) luo_message_put_report(answer, &report, report.start_s - command->received_s);
    luo_arena_free(arena);
    return st;
}

/* ---- the beginning ---- */

/* Elsewhere it would use the device of another, or one that has failed. */
static luo_status check_host(const luo_agent *agent, luo_err *err)
{
    char own[LUO_HOSTS_NAME];
    const char *host = agent->setup.host_of[agent->rank];
    const int32_t device = agent->setup.device_of[agent->rank];
    if (!host || luo_hosts_meant(host)) return LUO_OK;
    luo_hosts_here(own);
    return luo_err_set(err, LUO_EBACKEND,
                       "rank %d runs on host `%s` and its device %d (node `%s`) is on `%s`; the "
                       "launcher has to start each rank on the host of its device.",
                       agent->rank, own, device,
                       agent->cluster->nodes[agent->cluster->devices[device].node].name, host);
}

static luo_status set_up(luo_agent *agent, luo_wire *wire, luo_err *err)
{
    LUO_TRY(luo_message_get_setup(agent->arena, wire, &agent->setup, err));
    if (agent->setup.nranks != agent->nranks)
        return luo_err_set(err, LUO_EBUG, "a rank of %d is told of %d ranks.", agent->nranks,
                           agent->setup.nranks);
    LUO_TRY(luo_agent_read(agent, err));
    for (int32_t r = 0; r < agent->nranks; r++)
        if (agent->setup.device_of[r] >= agent->cluster->ndevices)
            return luo_err_set(err, LUO_EBUG, "rank %d has device %d of %d.", r,
                               agent->setup.device_of[r], agent->cluster->ndevices);
    LUO_TRY(check_host(agent, err));
    LUO_TRY(luo_corpus_open(agent->setup.data, agent->model->vocab, agent->setup.seed,
                            &agent->corpus, err));
    agent->config = (luo_rank_config){.rank = agent->rank,
                                      .nranks = agent->nranks,
                                      .device_of = agent->setup.device_of,
                                      .share_gpus = agent->setup.share_gpus,
                                      .model = agent->model,
                                      .cluster = agent->cluster,
                                      .stack = &agent->stack,
                                      .calls_beside = agent->stack.dp_overlap,
                                      .dtype = agent->setup.dtype,
                                      .corpus = agent->corpus,
                                      .where = &agent->where,
                                      .abort = luo_listener_abort(agent->listener)};
    return LUO_OK;
}

static luo_status begin(luo_agent *agent, luo_wire *wire, luo_wire *answer, luo_err *err)
{
    luo_device_info device_info = {0};
    if (agent->x) return luo_err_set(err, LUO_EBUG, "a rank is set up twice.");
    LUO_TRY(luo_boot_agree(agent->boot, set_up(agent, wire, err), err));
    const int32_t place = agent->setup.place_of[agent->rank];
    LUO_TRY(luo_boot_local(agent->boot, place, &agent->config.local, err));
    LUO_TRY(agent->executor->open(&agent->config, &agent->x, err));
    if (agent->executor->tell) agent->executor->tell(agent->x, &device_info);
    luo_message_put_device_info(answer, &device_info);
    return LUO_OK;
}

luo_status luo_agent_work(luo_agent *agent, luo_command *command, luo_wire *answer, luo_err *err)
{
    luo_wire *wire = &command->payload;
    if (command->kind != LUO_SAY_SETUP && !agent->x)
        return luo_err_set(err, LUO_EBUG, "a rank has to be set up first.");
    switch ((luo_say)command->kind) {
    case LUO_SAY_SETUP:
        return begin(agent, wire, answer, err);
    case LUO_SAY_PREPARE:
        return prepare(agent, wire, answer, err);
    case LUO_SAY_STATE:
        return state(agent, wire, answer, err);
    case LUO_SAY_STEP:
        return step(agent, command, answer, err);
    case LUO_SAY_MOVE:
        return move(agent, command, answer, err);
    case LUO_SAY_DROP:
        drop_job(agent, luo_wire_int(wire));
        return LUO_OK;
    case LUO_SAY_END: /* do not come here: exec/coordinator/listener.c */
    case LUO_SAY_ABORT:
    case LUO_SAY_WHERE:
    case LUO_SAY_HELLO: /* a rank's own words */
    case LUO_SAY_ANSWER:
    case LUO_SAY_HERE:
    case LUO_SAY_WITHDRAW:
    case LUO_SAY_BYE:
        break;
    }
    return luo_err_set(err, LUO_EBUG, "a rank knows no command %d.", command->kind);
}
