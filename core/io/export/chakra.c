/* chakra.c: the programs of a plan as Chakra execution traces, one a device.
 *
 * The interpreter that walks programs for every executor walks them here too: what it submits
 * becomes a node, a message of a P2P one of its own. A node's data dependencies are those of the
 * instruction; that a lane keeps its order, and what else is waited for, are control dependencies.
 * Ranks count the devices of the plan, and messages between two of them in a lane have tags. */
#include "core/io/export/chakra.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/cost/cost.h"
#include "core/io/export/export_internal.h"
#include "core/plan/compile.h"
#include "core/run/interp.h"

typedef struct run { /* of an instruction: the nodes that it has become */
    int64_t first;
    int32_t n;
} run;

typedef struct list { /* of ids */
    int64_t *at;
    int32_t n, room;
} list;

typedef struct tracer { /* of all devices */
    export_job *job;
    const luo_programs *set;
    const int32_t *rank_of; /* by device */
    bool timed;
    luo_cost_ctx cost;
} tracer;

struct luo_rank { /* a device: the context of the executor */
    const tracer *all;
    const luo_program *program;
    const luo_role *role;
    luo_arena *arena;
    double *seconds; /* by instruction; NULL: no cluster */
    luo_str file;
    int64_t next; /* id */
    run *runs;    /* by ticket */
    int32_t nruns, room_runs, nmicro;
    int64_t *ran; /* [instruction][1 + nmicro]: ticket of its latest run, and by micro-batch */
    int64_t last[LUO_LANES]; /* ticket; -1: none */
    double carry[LUO_LANES]; /* what rounding to microseconds has left, in them */
    luo_map tags;            /* messages so far, by peer, lane and direction */
    list data, ctrl;
};

/* ---- seconds ---- */

static luo_status cost_collectives(luo_rank *rank, luo_comm_cost *comm)
{
    const tracer *all = rank->all;
    for (int32_t i = 0; i < rank->role->ninstr; i++) {
        const luo_instr *in = &rank->role->instr[i];
        if (in->kind != LUO_INSTR_COLLECTIVE) continue;
        const luo_slot *slot = &rank->program->slots[in->slot];
        const luo_cost_call call = luo_cost_call_of(all->set, in, slot, in->bytes);
        comm[i].seconds = luo_cost_call_seconds(&all->cost, &call, 0);
        comm[i].loss = luo_cost_overlap_loss(&all->cost, call.dev, call.n);
    }
    return LUO_OK;
}

static luo_status find_seconds(luo_rank *rank)
{
    const tracer *all = rank->all;
    const int32_t n = rank->role->ninstr;
    luo_comm_cost *comm = LUO_NEW_N(rank->arena, luo_comm_cost, n);
    rank->seconds = LUO_NEW_N(rank->arena, double, n);
    if (!comm || !rank->seconds) return luo_err_nomem(all->job->err);
    LUO_TRY(cost_collectives(rank, comm));
    LUO_TRY(luo_cost_role(rank->arena, &all->cost, rank->program->device, rank->role, comm,
                          rank->seconds, all->job->err));
    for (int32_t i = 0; i < n; i++)
        if (rank->role->instr[i].kind == LUO_INSTR_COLLECTIVE) rank->seconds[i] = comm[i].seconds;
    return LUO_OK;
}

/* Whole microseconds, so that those of a lane add up to its seconds. */
static uint64_t round_to_us(luo_rank *rank, int32_t lane, double seconds)
{
    const double us = seconds * 1e6 + rank->carry[lane], whole = floor(us + 0.5);
    rank->carry[lane] = us - whole;
    return whole > 0 ? (uint64_t)whole : 0;
}

/* ---- dependencies ---- */

static bool holds(const list *ids, int64_t id)
{
    for (int32_t i = 0; i < ids->n; i++)
        if (ids->at[i] == id) return true;
    return false;
}

static luo_status add_id(luo_rank *rank, list *to, int64_t id)
{
    if (to->n == to->room) {
        const size_t old = (size_t)to->room * sizeof *to->at;
        to->at = luo_arena_grow(rank->arena, to->at, old, 2 * old + 16 * sizeof *to->at);
        to->room = 2 * to->room + 16;
        if (!to->at) return luo_err_nomem(rank->all->job->err);
    }
    to->at[to->n++] = id;
    return LUO_OK;
}

/* The nodes of a ticket, unless they are dependencies already. */
static luo_status depend_on(luo_rank *rank, list *to, int64_t ticket)
{
    if (ticket < 0) return LUO_OK;
    for (int32_t i = 0; i < rank->runs[ticket].n; i++) {
        const int64_t id = rank->runs[ticket].first + i;
        if (!holds(&rank->data, id) && !holds(&rank->ctrl, id)) LUO_TRY(add_id(rank, to, id));
    }
    return LUO_OK;
}

static int64_t *ran_of(const luo_rank *rank, int32_t instr)
{
    return rank->ran + (int64_t)instr * (1 + rank->nmicro);
}

static luo_status find_dependencies(luo_rank *rank, const luo_issue *issue, int32_t lane)
{
    rank->data.n = rank->ctrl.n = 0;
    for (int32_t k = 0; k < issue->instr->ndep; k++) {
        const int64_t *ran = ran_of(rank, issue->instr->dep[k]);
        const int64_t same = issue->micro_batch >= 0 ? ran[1 + issue->micro_batch] : -1;
        LUO_TRY(depend_on(rank, &rank->data, same >= 0 ? same : ran[0]));
    }
    for (int32_t k = 0; k < issue->ndep; k++) LUO_TRY(depend_on(rank, &rank->ctrl, issue->dep[k]));
    return depend_on(rank, &rank->ctrl, rank->last[lane]);
}

/* ---- nodes ---- */

static void put_node(luo_rank *rank, chakra_node *node)
{
    node->id = rank->next++;
    node->ndata = rank->data.n;
    node->data = rank->data.at;
    node->nctrl = rank->ctrl.n;
    node->ctrl = rank->ctrl.at;
    chakra_put_node(&rank->file, node);
}

static int64_t count_operand_bytes(const luo_role *role, const luo_instr *in)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < in->nin; i++) bytes += role->buf[in->in[i]].bytes;
    for (int32_t i = 0; i < in->nout; i++) bytes += role->buf[in->out[i]].bytes;
    return bytes;
}

/* What a member of it gives: of an all-gather its own piece, else the tensor that it has. */
static int64_t bytes_of_member(const luo_instr *in, int32_t members)
{
    return in->coll == LUO_COLL_AG ? (in->bytes + members - 1) / members : in->bytes;
}

static void put_collective(luo_rank *rank, const luo_issue *issue, chakra_node *node)
{
    static const chakra_coll colls[LUO_COLLS] = {[LUO_COLL_AR] = CHAKRA_ALL_REDUCE,
                                                 [LUO_COLL_RS] = CHAKRA_REDUCE_SCATTER,
                                                 [LUO_COLL_AG] = CHAKRA_ALL_GATHER,
                                                 [LUO_COLL_A2A] = CHAKRA_ALL_TO_ALL,
                                                 [LUO_COLL_BCAST] = CHAKRA_BROADCAST};
    char group[16];
    snprintf(group, sizeof group, "%d", issue->slot->group + 1);
    node->type = CHAKRA_COLL;
    node->coll = colls[issue->instr->coll];
    node->pg_name = group;
    node->bytes = bytes_of_member(issue->instr, rank->all->set->groups[issue->slot->group].n);
    put_node(rank, node);
}

/* Both ends count the messages of a lane between them, by the lane of the sender. */
static luo_status next_tag(luo_rank *rank, const luo_message *message, int32_t lane, int32_t *tag)
{
    const int32_t sender = message->send ? lane : luo_program_lane_peer(lane);
    const uint64_t key =
        ((uint64_t)message->peer * LUO_LANES + (uint64_t)sender) * 2 + message->send;
    int64_t *count = luo_map_at(&rank->tags, key, 0);
    if (!count) return luo_err_nomem(rank->all->job->err);
    *tag = (int32_t)((*count)++ * LUO_LANES + sender);
    return LUO_OK;
}

static luo_status put_message(luo_rank *rank, const luo_message *message, int32_t lane,
                              chakra_node *node)
{
    const tracer *all = rank->all;
    const int32_t own = rank->program->device;
    const int32_t src = message->send ? own : message->peer;
    const int32_t dst = message->send ? message->peer : own;
    double seconds = 0;
    if (all->timed) seconds = luo_cost_p2p_seconds(&all->cost, src, dst, message->bytes, 0);
    node->type = message->send ? CHAKRA_SEND : CHAKRA_RECV;
    node->bytes = message->bytes;
    node->src = all->rank_of[src];
    node->dst = all->rank_of[dst];
    node->duration_us = round_to_us(rank, lane, seconds);
    LUO_TRY(next_tag(rank, message, lane, &node->tag));
    put_node(rank, node);
    return LUO_OK;
}

static luo_status put_nodes(luo_rank *rank, const luo_issue *issue, int32_t lane, chakra_node *node)
{
    const luo_instr *in = issue->instr;
    const double seconds = rank->seconds ? rank->seconds[in->id] : 0;
    if (in->kind == LUO_INSTR_P2P) {
        for (int32_t i = 0; i < issue->slot->nmessage; i++)
            LUO_TRY(put_message(rank, &issue->slot->message[i], lane, node));
        return LUO_OK;
    }
    node->duration_us = round_to_us(rank, lane, seconds);
    if (in->kind == LUO_INSTR_COLLECTIVE) {
        put_collective(rank, issue, node);
        return LUO_OK;
    }
    if (in->kind == LUO_INSTR_IO)
        return luo_err_set(rank->all->job->err, LUO_EUNREP,
                           "a Chakra trace can't express reads and writes of checkpoints.");
    node->type = CHAKRA_COMP;
    node->flops = in->flops;
    node->bytes = in->kind == LUO_INSTR_LOCAL ? in->bytes : count_operand_bytes(rank->role, in);
    put_node(rank, node);
    return LUO_OK;
}

/* ---- the executor ---- */

static luo_status take_ticket(luo_rank *rank, int64_t first, int64_t *ticket)
{
    if (rank->nruns == rank->room_runs) {
        const size_t old = (size_t)rank->room_runs * sizeof *rank->runs;
        rank->runs = luo_arena_grow(rank->arena, rank->runs, old, 2 * old + 1024 * sizeof(run));
        rank->room_runs = 2 * rank->room_runs + 1024;
        if (!rank->runs) return luo_err_nomem(rank->all->job->err);
    }
    rank->runs[rank->nruns] = (run){first, (int32_t)(rank->next - first)};
    *ticket = rank->nruns++;
    return LUO_OK;
}

static luo_status submit(luo_rank *rank, const luo_issue *issue, int64_t *ticket)
{
    const luo_instr *in = issue->instr;
    const int32_t lane = luo_instr_lane(in);
    const int64_t first = rank->next;
    char name[256];
    chakra_node node = {.name = name};
    int length = snprintf(name, sizeof name, "%s %s", rank->all->set->ops[in->op].name,
                          luo_phase_name((luo_phase)in->phase));
    if (length > 0 && (size_t)length < sizeof name && issue->micro_batch >= 0)
        snprintf(name + length, sizeof name - (size_t)length, "%d%s", issue->micro_batch,
                 in->recompute ? " again" : "");
    LUO_TRY(find_dependencies(rank, issue, lane));
    LUO_TRY(put_nodes(rank, issue, lane, &node));
    LUO_TRY(take_ticket(rank, first, ticket));
    int64_t *ran = ran_of(rank, in->id);
    ran[0] = rank->last[lane] = *ticket;
    if (issue->micro_batch >= 0) ran[1 + issue->micro_batch] = *ticket;
    return LUO_OK;
}

static luo_status wait(luo_rank *rank, const int64_t *tickets, int32_t n)
{
    (void)rank, (void)tickets, (void)n;
    return LUO_OK;
}
static const luo_executor chakra_executor = {.submit = submit, .wait = wait};

/* ---- devices ---- */

static luo_status begin(luo_rank *rank)
{
    const luo_program *program = rank->program;
    for (int32_t k = 0; k < program->ntask; k++)
        if (program->tasks[k].micro_batch >= rank->nmicro)
            rank->nmicro = program->tasks[k].micro_batch + 1;
    const size_t cells = (size_t)rank->role->ninstr * (size_t)(1 + rank->nmicro);
    rank->ran = luo_arena_alloc(rank->arena, cells * sizeof *rank->ran);
    if (!rank->ran) return luo_err_nomem(rank->all->job->err);
    memset(rank->ran, -1, cells * sizeof *rank->ran);
    for (int32_t lane = 0; lane < LUO_LANES; lane++) rank->last[lane] = -1;
    return rank->all->timed ? find_seconds(rank) : LUO_OK;
}

static luo_status trace_device(const tracer *all, int32_t i, luo_arena *scratch)
{
    const luo_program *program = &all->set->at[i];
    luo_rank rank = {.all = all,
                     .program = program,
                     .role = &all->set->roles[program->role],
                     .arena = luo_arena_new(0),
                     .next = 1};
    char name[32];
    if (!rank.arena) return luo_err_nomem(all->job->err);
    snprintf(name, sizeof name, "trace.%d.et", i);
    chakra_put_head(&rank.file, i, program->device, all->set->hash);
    luo_status st = begin(&rank);
    if (st == LUO_OK)
        st = luo_interp_program(&chakra_executor, &rank, all->set, program,
                                all->timed && all->cost.stack->dp_overlap, scratch);
    if (st == LUO_ENOMEM) luo_err_nomem(all->job->err);
    if (st == LUO_OK) st = export_put(all->job, name, &rank.file);
    luo_str_free(&rank.file);
    luo_map_free(&rank.tags);
    luo_arena_free(rank.arena);
    return st;
}

/* Those of more ranks that an earlier plan had. */
static luo_status drop_others(const tracer *all)
{
    const luo_export_sink *sink = all->job->sink;
    bool was_there = true;
    for (int32_t i = all->set->n; was_there; i++) {
        char name[32];
        snprintf(name, sizeof name, "trace.%d.et", i);
        LUO_TRY(sink->drop(sink->ctx, name, &was_there, all->job->err));
    }
    return LUO_OK;
}

/* ASTRA-sim's own file of communicators: {"NAME": [ranks]}. */
static luo_status put_groups(const tracer *all)
{
    luo_str text = {0};
    luo_str_add(&text, "{");
    for (int32_t g = 0; g < all->set->ngroups; g++) {
        luo_str_addf(&text, "%s\n  \"%d\": [", g ? "," : "", g + 1);
        for (int32_t i = 0; i < all->set->groups[g].n; i++)
            luo_str_addf(&text, "%s%d", i ? ", " : "", all->rank_of[all->set->groups[g].dev[i]]);
        luo_str_addc(&text, ']');
    }
    luo_str_add(&text, "\n}\n");
    return export_put(all->job, "comm_groups.json", &text);
}

static luo_status count_ranks(tracer *all)
{
    int32_t *rank_of =
        LUO_NEW_N(all->job->arena, int32_t, all->set->at[all->set->n - 1].device + 1);
    if (!rank_of) return luo_err_nomem(all->job->err);
    for (int32_t i = 0; i < all->set->n; i++) rank_of[all->set->at[i].device] = i;
    all->rank_of = rank_of;
    return LUO_OK;
}

static luo_status compile(export_job *job, luo_programs **out)
{
    const luo_export_source *source = job->source;
    const luo_compile_opts opts = {
        .check = true, .bucket = source->stack->bucket, .memory = luo_stack_memory(source->stack)};
    return luo_plan_compile(job->arena, source->plan, source->model, source->cluster, &opts, out,
                            job->err);
}

luo_status export_chakra(export_job *job)
{
    const luo_export_source *source = job->source;
    luo_programs *set;
    LUO_TRY(compile(job, &set));
    tracer all = {job,
                  set,
                  NULL,
                  source->cluster != NULL,
                  {source->cluster, source->stack, source->plan->dtype, set->nops, set->ops}};
    luo_arena *scratch = luo_arena_new(0);
    if (!scratch) return luo_err_nomem(job->err);
    luo_status st = count_ranks(&all);
    for (int32_t i = 0; i < set->n && st == LUO_OK; i++) st = trace_device(&all, i, scratch);
    if (st == LUO_OK) st = put_groups(&all);
    if (st == LUO_OK) st = drop_others(&all);
    luo_arena_free(scratch);
    if (st != LUO_OK || all.timed) return st;
    return export_note(job, "without --cluster the nodes have no durations.");
}
