/* classes.c: which devices are simulated as one, and what their instructions cost.
 *
 * Devices of one stage that run roles alike and the same tasks in one node, with the same GPU, do
 * the same thing at the same time: what differs between them (slowdowns, noise) is kept per member
 * at run time (sim/step/rank.c). CPU ranks share cores and wait for each other's, so they are never
 * folded, nor are devices that others meet by turns (turns.c) or whose links other jobs load
 * (sim/jobs/jobs_net.c). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/cost/overlap.h"
#include "sim/net/turns.h"

typedef struct place { /* of one program, for sorting */
    int32_t pipeline, stage, role, node, at; /* role: the first that is like the program's */
} place;

static int by_place(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->pipeline != y->pipeline) return x->pipeline < y->pipeline ? -1 : 1;
    if (x->stage != y->stage) return x->stage < y->stage ? -1 : 1;
    if (x->node != y->node) return x->node < y->node ? -1 : 1;
    if (x->role != y->role) return x->role < y->role ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

static bool same_tasks(const luo_program *a, const luo_program *b)
{
    return a->ntask == b->ntask &&
           (a->tasks == b->tasks ||
            memcmp(a->tasks, b->tasks, (size_t)a->ntask * sizeof *a->tasks) == 0);
}

typedef struct folding {
    sim_net *net;
    bool folds;   /* at all */
    bool *single; /* by program: it is not folded */
    place *places;
    int32_t *member, *class_of; /* by place; by device */
} folding;

/* Programs without training (switches, checkpoints) run once and are not regular: no folding. */
static bool joins(const folding *f, const place *a, const place *b)
{
    const sim_net *net = f->net;
    const luo_program *program = &net->set->at[a->at], *q = &net->set->at[b->at];
    const luo_device *device = net->config->cluster->devices;
    return f->folds && net->training && a->pipeline == b->pipeline && a->stage == b->stage &&
           a->role == b->role && a->node == b->node &&
           device[program->device].kind == device[q->device].kind &&
           !luo_cluster_profile(net->config->cluster, program->device)->cpu &&
           same_tasks(program, q) && !f->single[a->at] && !f->single[b->at];
}

static void lay_out(const folding *f)
{
    sim_net *net = f->net;
    const luo_cluster *cluster = net->config->cluster;
    net->nclasses = 0;
    for (int32_t d = 0; d < cluster->ndevices; d++) f->class_of[d] = -1;
    for (int32_t i = 0; i < net->set->n; i++) {
        const luo_program *program = &net->set->at[f->places[i].at];
        sim_class *class = &net->classes[net->nclasses];
        if (i == 0 || !joins(f, &f->places[i - 1], &f->places[i])) {
            const luo_device *device = &cluster->devices[program->device];
            const bool cpu = luo_cluster_profile(cluster, program->device)->cpu;
            *class = (sim_class){.program = program,
                                 .role = &net->set->roles[program->role],
                                 .member = f->member + i,
                                 .node = device->node,
                                 .group = device->group,
                                 .kind = device->kind,
                                 .exec = cpu || !net->config->fold,
                                 .thread = cpu};
            net->nclasses++;
        } else {
            class--;
        }
        f->member[i] = f->places[i].at;
        f->class_of[program->device] = net->nclasses - 1;
        class->n++;
    }
}

static luo_status find_leads(luo_arena *arena, const folding *f)
{
    sim_net *net = f->net;
    int32_t *lead = LUO_NEW_N(arena, int32_t, net->set->n);
    if (!lead) return LUO_ENOMEM;
    for (int32_t k = 0; k < net->nclasses; k++)
        for (int32_t m = 0; m < net->classes[k].n; m++)
            lead[net->classes[k].member[m]] = net->classes[k].member[0];
    net->lead_of = lead;
    return LUO_OK;
}

/* Classes once more as long as some hide that their devices are met by turns: each time more. */
static luo_status fold(luo_arena *arena, sim_net *net, place *places, int32_t *member)
{
    const luo_programs *set = net->set;
    folding f = {.net = net,
                 .folds = true,
                 .single = LUO_NEW_N(arena, bool, set->n),
                 .places = places,
                 .member = member,
                 .class_of = LUO_NEW_N(arena, int32_t, net->config->cluster->ndevices)};
    net->classes = LUO_NEW_N(arena, sim_class, set->n);
    if (!f.single || !f.class_of || !net->classes) return LUO_ENOMEM;
    if (net->sharing) memcpy(f.single, net->sharing->single, (size_t)set->n * sizeof *f.single);
    bool again = false;
    LUO_TRY(sim_turns_any(set, &again));
    net->class_of = f.class_of;
    lay_out(&f);
    while (again) {
        LUO_TRY(sim_turns_untie(net, f.single, &again));
        if (again) lay_out(&f);
    }
    LUO_TRY(find_leads(arena, &f));
    f.folds = net->config->fold;
    if (!f.folds) lay_out(&f);
    return LUO_OK;
}

/* ---- what threads carry ---- */

/* Seconds are of n threads that share the cores with nobody else: work of all of them. */
luo_status sim_net_threads(luo_arena *arena, const sim_net *net, const int32_t *class, int32_t n,
                           double seconds, sim_traffic *traffic)
{
    for (int32_t i = 0; i < n; i++)
        if (!net->classes[class[i]].thread ||
            net->classes[class[i]].node != net->classes[class[0]].node)
            return LUO_OK;
    int32_t *copy = LUO_NEW_N(arena, int32_t, n);
    if (!copy) return LUO_ENOMEM;
    memcpy(copy, class, (size_t)n * sizeof *copy);
    const double cores = net->config->cluster->groups[net->classes[class[0]].group].host_cores;
    traffic->nthreads = n;
    traffic->thread = copy;
    traffic->work_s = seconds / fmax(1, n / cores);
    return LUO_OK;
}

/* ---- what an instruction is for its class ---- */

/* Per group: the class that all its devices are in; -1: several. */
static luo_status find_homes(luo_arena *arena, sim_net *net)
{
    int32_t *home = LUO_NEW_N(arena, int32_t, net->set->ngroups);
    if (!home) return LUO_ENOMEM;
    for (int32_t k = 0; k < net->set->ngroups; k++) {
        const luo_group *group = &net->set->groups[k];
        home[k] = group->n > 0 ? net->class_of[group->dev[0]] : -1;
        for (int32_t i = 1; i < group->n; i++)
            if (net->class_of[group->dev[i]] != home[k]) home[k] = -1;
    }
    net->home_of_group = home;
    return LUO_OK;
}

static bool slot_inside(const sim_net *net, const sim_class *class, const luo_instr *in)
{
    const int32_t own = (int32_t)(class - net->classes);
    for (int32_t m = 0; m < class->n; m++) {
        const luo_slot *slot = sim_slot(net, class, m, in);
        if (in->kind == LUO_INSTR_COLLECTIVE) {
            if (net->home_of_group[slot->group] != own) return false;
            continue;
        }
        for (int32_t k = 0; k < slot->nmessage; k++)
            if (net->class_of[slot->message[k].peer] != own) return false;
    }
    return true;
}

static sim_what what_is(const sim_net *net, const sim_class *class, const luo_instr *in)
{
    switch ((luo_instr_kind)in->kind) {
    case LUO_INSTR_COMPUTE:
    case LUO_INSTR_LOCAL: return SIM_WORK;
    case LUO_INSTR_IO: return in->bytes > 0 ? SIM_IO : SIM_INSIDE;
    case LUO_INSTR_COLLECTIVE:
    case LUO_INSTR_P2P: break;
    }
    if (in->slot < 0 || slot_inside(net, class, in)) return SIM_INSIDE;
    return in->kind == LUO_INSTR_P2P ? SIM_MAIL : SIM_MEET;
}

/* Unless the stack overlaps them, collectives of tensor parallelism and rows of experts take turns
 * with compute, as if they were part of it. But gathers of what is not kept run beside dX
 * everywhere. */
static bool is_exposed(const sim_net *net, const sim_class *class, const luo_instr *in,
                       const bool *keys)
{
    if (keys && in->nin > 0 && in->nout > 0 && (keys[in->in[0]] || keys[in->out[0]])) return false;
    return (in->kind == LUO_INSTR_COLLECTIVE || luo_instr_trades(in)) &&
           in->stream == LUO_STREAM_TP && !class->thread && !net->config->stack->tp_overlap &&
           !in->recompute;
}

/* With context parallelism, by buffer: what attention reads, and gradients that it makes.
 * Collectives on these stand between messages, which they follow in their class and are followed
 * by; so they stay there, and attention waits for them. *keys NULL: no context parallelism. */
static luo_status find_keys(luo_arena *arena, const luo_role *role, bool **keys)
{
    bool sends = false;
    *keys = NULL;
    for (int32_t i = 0; i < role->ninstr; i++)
        sends |= role->instr[i].kind == LUO_INSTR_P2P && role->instr[i].stream == LUO_STREAM_TP &&
                 !luo_instr_trades(&role->instr[i]);
    if (!sends) return LUO_OK;
    bool *at = LUO_NEW_N(arena, bool, role->nbuf);
    if (!at) return LUO_ENOMEM;
    for (int32_t i = 0; i < role->ninstr; i++) {
        const luo_instr *in = &role->instr[i];
        const bool forward = in->cost.kind == LUO_COST_ATTENTION_F;
        if (!forward && in->cost.kind != LUO_COST_ATTENTION_B) continue;
        for (int32_t k = 0; k < (forward ? in->nin : in->nout); k++)
            at[forward ? in->in[k] : in->out[k]] = true;
    }
    *keys = at;
    return LUO_OK;
}

/* With one communication stream (docs/speed.md#workloads, W2) all of them share a queue, in issue
 * order; receives stay apart, since one posted early would hold up everything behind it. */
static int32_t queue_of(const sim_net *net, const sim_class *on, const luo_instr *in,
                        const bool *keys)
{
    const int32_t lane = luo_instr_lane(in);
    if (is_exposed(net, on, in, keys)) return LUO_STREAM_COMPUTE;
    const bool shared = lane == LUO_STREAM_PP || luo_program_lane_is_dp(lane) ||
                        lane == LUO_STREAM_MOVE || lane == LUO_LANE_PP_B_SEND;
    return net->config->one_comm_stream && shared ? LUO_STREAM_TP : lane;
}

/* ---- seconds ---- */

typedef struct tariff { /* what a collective of a group costs */
    luo_cost_call call;
    double seconds;
    struct tariff *next;
} tariff;

typedef struct priced { /* costs of a role on a kind of device with given collectives */
    const luo_comm_cost *comm;
    const double *seconds, *device_s;
    int32_t role, kind;
    struct priced *next;
} priced;

typedef struct listed { /* operations of a role that some class has */
    const sim_op *ops;
    struct listed *next;
} listed;

/* Gradients are what is reduced or moved after the micro-batches, or with ZeRO-2 and 3 in them;
 * weights are gathered, and a tensor of one element is a statistic (docs/formats.md#names-of-values
 * and docs/cost-model.md#overlap). */
int64_t sim_bytes(const sim_net *net, const luo_instr *in, int64_t bytes)
{
    const double each = net->config->stack->grad_comm_bytes;
    const bool back = luo_phase_is_backward(in->phase) || in->phase == LUO_PHASE_POST;
    if (each <= 0 || in->stream != LUO_STREAM_DP || !back) return bytes;
    if (in->exchange < 0 || in->exchange >= net->set->nexchanges) return bytes;
    if (in->kind == LUO_INSTR_COLLECTIVE && in->coll != LUO_COLL_AR && in->coll != LUO_COLL_RS)
        return bytes;
    const int64_t own = net->set->exchanges[in->exchange].elem_bytes;
    return bytes > own && own > 0 ? (int64_t)(each * (double)bytes / (double)own) : bytes;
}

luo_cost_call sim_call(const sim_net *net, const luo_instr *in, const luo_slot *slot)
{
    return luo_cost_call_of(net->set, in, slot, sim_bytes(net, in, in->bytes));
}

/* Devices of the class's stage; its classes are neighbours. */
static int32_t stage_size(const sim_net *net, int32_t class)
{
    const luo_program *program = net->classes[class].program;
    int32_t n = 0, from = class;
    while (from > 0 && net->classes[from - 1].program->pipeline == program->pipeline &&
           net->classes[from - 1].program->stage == program->stage)
        from--;
    for (int32_t l = from;
         l < net->nclasses && net->classes[l].program->pipeline == program->pipeline &&
         net->classes[l].program->stage == program->stage;
         l++)
        n += net->classes[l].n;
    return n;
}

/* Do all devices of the stage hold its activations whole, so that they are summed in full? */
static bool is_whole(const luo_role *role)
{
    for (int32_t i = 0; i < role->ninstr; i++) {
        const luo_instr *in = &role->instr[i];
        if (in->kind == LUO_INSTR_COLLECTIVE && in->stream == LUO_STREAM_TP && in->layer >= 0 &&
            in->phase == LUO_PHASE_F)
            return in->coll == LUO_COLL_AR;
    }
    return false;
}

int64_t sim_message_bytes(const sim_net *net, const luo_instr *in, int32_t src, int32_t dst,
                          int64_t bytes)
{
    const luo_cluster *cluster = net->config->cluster;
    const int32_t a = net->class_of[src], b = net->class_of[dst];
    bytes = sim_bytes(net, in, bytes);
    if (!net->config->stack->scatter_gather || in->stream != LUO_STREAM_PP || a < 0 || b < 0 ||
        cluster->devices[src].node == cluster->devices[dst].node)
        return bytes;
    const int32_t t = stage_size(net, a);
    const bool both = t == stage_size(net, b) && is_whole(net->classes[a].role) &&
                      is_whole(net->classes[b].role);
    return both ? (bytes + t - 1) / t : bytes;
}

typedef struct pricer { /* costs already worked out, shared by all classes */
    luo_arena *arena;
    const sim_net *net;
    tariff **of_group; /* per group of the programs */
    luo_cost_reach *reach; /* the same; all of them are known */
    priced **of_role;
    listed **ops; /* per role */
    bool **keys;  /* per role: find_keys; NULL: not looked for yet */
    luo_comm_cost *comm; /* room: per instruction of the class at hand */
    sim_op *room;        /* the same */
    luo_err *err;
} pricer;

static luo_status group_seconds(pricer *p, const luo_slot *slot, const luo_instr *in,
                                double *seconds)
{
    const luo_cost_call call = sim_call(p->net, in, slot);
    for (const tariff *t = p->of_group[slot->group]; t; t = t->next)
        if (luo_cost_call_equal(&t->call, &call)) {
            *seconds = t->seconds;
            return LUO_OK;
        }
    *seconds = luo_cost_call_seconds(&p->net->cost, &call, 0);
    tariff *fresh = LUO_NEW(p->arena, tariff);
    if (!fresh) return luo_err_nomem(p->err);
    *fresh = (tariff){call, *seconds, p->of_group[slot->group]};
    p->of_group[slot->group] = fresh;
    return LUO_OK;
}

static luo_status collective_seconds(pricer *p, const sim_class *class, const luo_instr *in,
                                     double *seconds)
{
    int32_t last = -1;
    *seconds = 0;
    if (in->slot < 0) return LUO_OK;
    for (int32_t m = 0; m < class->n; m++) {
        const luo_slot *slot = sim_slot(p->net, class, m, in);
        if (slot->group == last) continue;
        last = slot->group;
        double s = 0;
        LUO_TRY(group_seconds(p, slot, in, &s));
        *seconds = fmax(*seconds, s);
    }
    return LUO_OK;
}

/* The messages of a device one after another, sends beside receives. */
static void message_seconds(const sim_net *net, const luo_slot *slot, const luo_instr *in,
                            int32_t own, double *seconds)
{
    double out = 0, back = 0;
    for (int32_t k = 0; k < slot->nmessage; k++) {
        const luo_message *msg = &slot->message[k];
        const double s =
            luo_cost_p2p_seconds(&net->cost, msg->send ? own : msg->peer,
                                 msg->send ? msg->peer : own, sim_bytes(net, in, msg->bytes), 0);
        *(msg->send ? &out : &back) += s;
    }
    *seconds = fmax(out, back);
}

/* A P2P between members. */
static void exchange_seconds(const sim_net *net, const sim_class *class, const luo_instr *in,
                             double *seconds)
{
    *seconds = 0;
    for (int32_t m = 0; in->slot >= 0 && m < class->n; m++) {
        double one;
        message_seconds(net, sim_slot(net, class, m, in), in, net->set->at[class->member[m]].device,
                        &one);
        *seconds = fmax(*seconds, one);
    }
    *seconds *= luo_overlap_exposed_factor(net->config->stack, in);
}

/* Seconds of its work without those that the host adds. */
static luo_status device_seconds(const pricer *p, const sim_class *class, const double *seconds,
                                 double *out)
{
    const luo_cost_ctx *ctx = &p->net->cost;
    const luo_profile *profile = luo_cluster_profile(ctx->cluster, class->program->device);
    const double slow = luo_cluster_base_slowdown(ctx->cluster, class->program->device);
    for (int32_t i = 0; i < class->role->ninstr; i++) {
        out[i] = seconds[i];
        if (seconds[i] <= 0 || class->thread) continue;
        LUO_TRY(luo_cost_key_seconds(profile, ctx->stack, &class->role->instr[i].cost, ctx->dtype,
                                     &out[i], p->err));
        out[i] = fmin(out[i] * slow, seconds[i]);
    }
    return LUO_OK;
}

/* Seconds of the role's work on this class, shared by classes that agree in all it depends on. */
static luo_status work_seconds(pricer *p, const sim_class *class, const priced **out)
{
    const int32_t n = class->role->ninstr, role = class->program->role;
    for (priced *k = p->of_role[role]; k; k = k->next)
        if (k->kind == class->kind &&
            memcmp(k->comm, p->comm, (size_t)n * sizeof *k->comm) == 0) {
            *out = k;
            return LUO_OK;
        }
    priced *fresh = LUO_NEW(p->arena, priced);
    luo_comm_cost *copy = LUO_NEW_N(p->arena, luo_comm_cost, n);
    double *seconds = LUO_NEW_N(p->arena, double, n), *device_s = LUO_NEW_N(p->arena, double, n);
    if (!fresh || !copy || !seconds || !device_s) return luo_err_nomem(p->err);
    memcpy(copy, p->comm, (size_t)n * sizeof *copy);
    LUO_TRY(luo_cost_role(p->arena, &p->net->cost, class->program->device, class->role, copy,
                          seconds, p->err));
    LUO_TRY(device_seconds(p, class, seconds, device_s));
    *fresh = (priced){copy, seconds, device_s, role, class->kind, p->of_role[role]};
    p->of_role[role] = fresh;
    *out = fresh;
    return LUO_OK;
}

/* The last of two messages of a device that does not lead: rows of experts from its leader. */
static bool comes_from_leader(const luo_instr *in)
{
    return luo_instr_trades(in) && in->id > 0 && in[-1].kind == LUO_INSTR_P2P &&
           luo_instr_trades(&in[-1]) && in[-1].op == in->op && in[-1].exchange < in->exchange;
}

/* .. which exchanges with other leaders and then deals out, while those of its node wait. */
static void led_seconds(const sim_net *net, const luo_slot *slot, const luo_instr *in,
                        double *seconds)
{
    const luo_program *leader = luo_programs_find(net->set, slot->message[0].peer);
    const luo_role *role = &net->set->roles[leader->role];
    double sum = 0;
    for (int32_t i = 0; i < role->ninstr; i++) {
        const luo_instr *instr = &role->instr[i];
        double one = 0;
        if (instr->op != in->op || instr->phase != in->phase || instr->recompute != in->recompute ||
            instr->slot < 0)
            continue;
        const luo_slot *its = &leader->slots[instr->slot];
        if (instr->exchange == in->exchange) message_seconds(net, its, instr, leader->device, &one);
        if (instr->exchange == in->exchange - 1 && instr->kind == LUO_INSTR_COLLECTIVE)
            one = luo_cost_group_seconds(&net->cost, instr->coll, net->set->groups[its->group].dev,
                                         net->set->groups[its->group].n, instr->bytes, 0);
        sum += one;
    }
    *seconds = sum * luo_overlap_exposed_factor(net->config->stack, in);
}

/* What the host runs ahead in: messages of rows as collectives. */
static luo_status rows_seconds(pricer *p, const sim_class *class, const luo_instr *in,
                               luo_comm_cost *comm)
{
    const luo_slot *slot = sim_slot(p->net, class, 0, in);
    const int32_t device = p->net->set->at[class->member[0]].device;
    if (slot->nmessage == 0) return LUO_OK;
    const int32_t pair[2] = {device, slot->message[0].peer};
    comm->loss = luo_cost_overlap_loss(&p->net->cost, pair, 2);
    if (comes_from_leader(in)) {
        led_seconds(p->net, slot, in, &comm->seconds);
        return LUO_OK;
    }
    exchange_seconds(p->net, class, in, &comm->seconds);
    return LUO_OK;
}

/* What calls between pipelines do to computation of the class beside them: the GPUs of a type have
 * their own loss, whoever else takes part. Tensor-parallel sums beside dW are luo_cost_role's. */
static double loss_of_call(const pricer *p, const sim_class *class, const luo_instr *in)
{
    const luo_profile *profile =
        luo_cluster_profile(p->net->cost.cluster, class->program->device);
    double loss = 0;
    if (class->thread || in->stream != LUO_STREAM_DP || in->slot < 0) return 0;
    for (int32_t m = 0; m < class->n; m++)
        loss = fmax(loss, luo_cost_reach_loss(
                              profile, p->reach[sim_slot(p->net, class, m, in)->group]));
    return loss;
}

/* Seconds of communication, and what it does to compute beside it. */
static luo_status talk_seconds(pricer *p, const sim_class *class, const luo_instr *in, sim_op *op,
                               luo_comm_cost *comm)
{
    *comm = (luo_comm_cost){0, 0};
    if (in->kind == LUO_INSTR_P2P && luo_instr_trades(in))
        LUO_TRY(rows_seconds(p, class, in, comm));
    if (in->kind == LUO_INSTR_P2P && op->what == SIM_INSIDE) {
        exchange_seconds(p->net, class, in, &op->seconds);
        return LUO_OK;
    }
    if (in->kind != LUO_INSTR_COLLECTIVE) return LUO_OK;
    LUO_TRY(collective_seconds(p, class, in, &comm->seconds));
    comm->seconds *= luo_overlap_exposed_factor(p->net->config->stack, in);
    op->seconds = comm->seconds;
    if (in->slot < 0) return LUO_OK;
    const int32_t group = sim_slot(p->net, class, 0, in)->group;
    const int32_t first = p->net->set->groups[group].dev[0];
    comm->loss = luo_cost_reach_loss(luo_cluster_profile(p->net->cost.cluster, first),
                                     p->reach[group]);
    op->loss = loss_of_call(p, class, in);
    return LUO_OK;
}

static bool same_ops(const sim_op *a, const sim_op *b, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (a[i].what != b[i].what || a[i].fifo != b[i].fifo || a[i].part != b[i].part ||
            a[i].cross != b[i].cross || a[i].seconds != b[i].seconds ||
            a[i].device_s != b[i].device_s || a[i].loss != b[i].loss)
            return false;
    return true;
}

/* The operations in `room`, once for all classes of the role that have the same. */
static luo_status keep_ops(pricer *p, sim_class *class)
{
    const int32_t n = class->role->ninstr, role = class->program->role;
    for (const listed *k = p->ops[role]; k; k = k->next)
        if (same_ops(k->ops, p->room, n)) {
            class->ops = k->ops;
            return LUO_OK;
        }
    sim_op *copy = LUO_NEW_N(p->arena, sim_op, n);
    listed *fresh = LUO_NEW(p->arena, listed);
    if (!copy || !fresh) return luo_err_nomem(p->err);
    memcpy(copy, p->room, (size_t)n * sizeof *copy);
    *fresh = (listed){copy, p->ops[role]};
    p->ops[role] = fresh;
    class->ops = copy;
    return LUO_OK;
}

static luo_status make_ops(pricer *p, sim_class *class)
{
    const luo_role *role = class->role;
    bool **keys = &p->keys[class->program->role];
    if (!*keys && find_keys(p->arena, role, keys) != LUO_OK) return luo_err_nomem(p->err);
    for (int32_t i = 0; i < role->ninstr; i++) {
        const luo_instr *in = &role->instr[i];
        sim_op *op = &p->room[i];
        *op = (sim_op){.what = (uint8_t)what_is(p->net, class, in),
                       .fifo = (uint8_t)queue_of(p->net, class, in, *keys),
                       .part = (uint8_t)luo_part_of(in), .cross = -1};
        if (op->what >= SIM_MEET) op->cross = class->ncross++;
        LUO_TRY(talk_seconds(p, class, in, op, &p->comm[i]));
    }
    const priced *work = NULL;
    LUO_TRY(work_seconds(p, class, &work));
    for (int32_t i = 0; i < role->ninstr; i++)
        if (p->room[i].what == SIM_WORK) {
            p->room[i].seconds = work->seconds[i];
            p->room[i].device_s = work->device_s[i];
        }
    LUO_TRY(keep_ops(p, class));
    class->cross = LUO_NEW_N(p->arena, sim_cross, class->ncross);
    return class->cross ? LUO_OK : luo_err_nomem(p->err);
}

static luo_status make_all_ops(luo_arena *arena, sim_net *net, luo_err *err)
{
    const int32_t nroles = net->set->nroles;
    int32_t most = 0;
    for (int32_t r = 0; r < nroles; r++)
        if (net->set->roles[r].ninstr > most) most = net->set->roles[r].ninstr;
    pricer p = {.arena = arena, .net = net, .err = err,
                .of_group = LUO_NEW_N(arena, tariff *, net->set->ngroups),
                .reach = LUO_NEW_N(arena, luo_cost_reach, net->set->ngroups),
                .of_role = LUO_NEW_N(arena, priced *, nroles),
                .ops = LUO_NEW_N(arena, listed *, nroles), .keys = LUO_NEW_N(arena, bool *, nroles),
                .comm = LUO_NEW_N(arena, luo_comm_cost, most),
                .room = LUO_NEW_N(arena, sim_op, most)};
    if (!p.of_group || !p.reach || !p.of_role || !p.ops || !p.keys || !p.comm || !p.room)
        return luo_err_nomem(err);
    for (int32_t k = 0; k < net->set->ngroups; k++)
        p.reach[k] = luo_cost_reach_of(net->config->cluster, net->set->groups[k].dev,
                                       net->set->groups[k].n);
    for (int32_t l = 0; l < net->nclasses; l++) LUO_TRY(make_ops(&p, &net->classes[l]));
    return LUO_OK;
}

luo_status sim_classes_make(luo_arena *arena, sim_net *net, luo_err *err)
{
    const luo_cluster *cluster = net->config->cluster;
    const int32_t n = net->set->n, *alike = NULL;
    if (luo_roles_alike(arena, net->set, &alike) != LUO_OK) return luo_err_nomem(err);
    int32_t *member = LUO_NEW_N(arena, int32_t, n);
    place *places = LUO_NEW_N(arena, place, n);
    if (!member || !places) return luo_err_nomem(err);
    for (int32_t i = 0; i < n; i++) {
        const luo_program *program = &net->set->at[i];
        places[i] = (place){program->pipeline, program->stage, alike[program->role],
                            cluster->devices[program->device].node, i};
    }
    qsort(places, (size_t)n, sizeof *places, by_place);
    if (fold(arena, net, places, member) != LUO_OK || find_homes(arena, net) != LUO_OK)
        return luo_err_nomem(err);
    return make_all_ops(arena, net, err);
}
