/* comm_machine.h: programs of all devices on an abstract machine with NCCL's rules, to
 * see whether they finish and whether what meets belongs together. The slow twin of what
 * exec/cuda/comm/comm_plan.h says about order.
 *
 * A device has a compute stream and a stream per lane, as the executor uses them: the compute
 * stream takes the program in the order of issue and waits for what an instruction depends on; a
 * communication is then released to its lane; at the end of a task the compute stream waits for all
 * that was released, but for sends between stages, receives of the next task and calls that run
 * beside tasks, which wait for what they depend on in their lane. A kernel of NCCL begins when the
 * one before it in its stream is done, the one before it on its communicator is done and, by the
 * order of launches, those issued before it have begun (BEGIN) or are done (SERIAL). The k-th send
 * from a to b on a communicator meets the k-th receive. */
#ifndef LUO_TESTS_COMM_MACHINE_H
#define LUO_TESTS_COMM_MACHINE_H
#include <stdio.h>

#include "core/run/interp.h"
#include "exec/cuda/comm/comm_plan.h"

typedef enum launch_order { LAUNCH_FREE, LAUNCH_BEGIN, LAUNCH_SERIAL } launch_order;

typedef struct machine_issue { /* as the interpreter submits it */
    int32_t task, instr;
    bool early;
} machine_issue;

struct luo_rank { /* of the interpreter */
    machine_issue *at;
    int32_t n;
};

static inline luo_status machine_note(luo_rank *r, const luo_issue *i, int64_t *ticket)
{
    r->at[r->n++] = (machine_issue){i->task, i->instr->id, i->early};
    *ticket = 0;
    return LUO_OK;
}

static inline luo_status machine_wait(luo_rank *r, const int64_t *tickets, int32_t n)
{
    (void)r, (void)tickets, (void)n;
    return LUO_OK;
}

typedef struct machine_op { /* a communication of one device, in order of issue */
    int32_t task, instr, lane, comm;
    bool released, begun, done;
    int32_t left;  /* MESSAGES: not met yet */
    int32_t place; /* among the operations of its communicator on this device */
} machine_op;

typedef struct machine_device {
    const luo_program *program;
    const luo_role *role;
    int32_t *segment_of; /* per instruction */
    int32_t n;
    machine_op *op;
    int32_t *op_of;          /* per (task * ninstr + instr); -1: no communication */
    luo_rank order;          /* of issue */
    bool early;              /* of the machine */
    int32_t next, task;      /* the compute stream: next of the order; the task it is at */
    int32_t *on_comm;        /* per communicator: operations done; they are done in order */
    int32_t **at;            /* per communicator: its operations by place */
    int32_t unbegun, undone; /* first such operation */
    int32_t *lane_next;      /* per operation: the next of its lane; n: none */
    int32_t head[LUO_LANES]; /* first operation of the lane that is not done */
} machine_device;

typedef struct machine {
    luo_arena *arena;
    const luo_programs *set;
    int32_t ncomm;
    launch_order order;
    bool early; /* calls run beside tasks (luo_walk_make) */
    machine_device *dev;
    char wrong[256]; /* what met and does not belong together; "" */
} machine;

/* Position of the communicator that an instruction uses. */
typedef int32_t (*machine_choice)(const void *ctx, const luo_program *p, const luo_instr *in);

static inline void machine_index(machine *m, machine_device *d)
{
    d->at = LUO_NEW_N(m->arena, int32_t *, m->ncomm);
    for (int32_t c = 0; c < m->ncomm; c++)
        d->at[c] = LUO_NEW_N(m->arena, int32_t, d->on_comm[c] + 1);
    for (int32_t c = 0; c < m->ncomm; c++) {
        d->at[c][d->on_comm[c]] = -1;
        d->on_comm[c] = 0;
    }
    d->lane_next = LUO_NEW_N(m->arena, int32_t, d->n);
    for (int32_t l = 0; l < LUO_LANES; l++) d->head[l] = d->n;
    for (int32_t k = d->n - 1; k >= 0; k--) {
        d->at[d->op[k].comm][d->op[k].place] = k;
        d->lane_next[k] = d->head[d->op[k].lane];
        d->head[d->op[k].lane] = k;
    }
}

static inline void machine_open_device(machine *m, machine_device *d, const luo_program *p,
                                       machine_choice choose, const void *ctx)
{
    const luo_role *role = &m->set->roles[p->role];
    *d = (machine_device){.program = p, .role = role, .early = m->early};
    d->segment_of = LUO_NEW_N(m->arena, int32_t, role->ninstr);
    for (int32_t s = 0; s < role->nseg; s++)
        for (int32_t i = 0; i < role->seg[s].n; i++) d->segment_of[role->seg[s].first + i] = s;
    const int64_t cells = (int64_t)p->ntask * role->ninstr;
    d->op_of = LUO_NEW_N(m->arena, int32_t, cells);
    d->op = LUO_NEW_N(m->arena, machine_op, cells);
    int32_t *places = d->on_comm = LUO_NEW_N(m->arena, int32_t, m->ncomm);
    static const luo_executor notes = {.submit = machine_note, .wait = machine_wait};
    d->order.at = LUO_NEW_N(m->arena, machine_issue, cells);
    (void)luo_interp_program(&notes, &d->order, m->set, p, m->early,
                             m->arena);
    for (int64_t k = 0; k < cells; k++) d->op_of[k] = -1;
    for (int32_t k = 0; k < d->order.n; k++) {
        const machine_issue *at = &d->order.at[k];
        const luo_instr *in = &role->instr[at->instr];
        const int32_t c = choose(ctx, p, in);
        if (c < 0) continue;
        d->op_of[at->task * role->ninstr + at->instr] = d->n;
        d->op[d->n++] = (machine_op){.task = at->task,
                                     .instr = at->instr,
                                     .lane = luo_instr_lane(in),
                                     .comm = c,
                                     .left = p->slots[in->slot].nmessage,
                                     .place = places[c]++};
    }
    machine_index(m, d);
}

static inline void machine_open(machine *m, luo_arena *a, const luo_programs *set, int32_t ncomm,
                                launch_order order, bool early, machine_choice choose,
                                const void *ctx)
{
    *m = (machine){.arena = a, .set = set, .ncomm = ncomm, .order = order, .early = early};
    m->dev = LUO_NEW_N(a, machine_device, set->n);
    for (int32_t d = 0; d < set->n; d++)
        machine_open_device(m, &m->dev[d], &set->at[d], choose, ctx);
}

/* ---- the compute stream ---- */

/* Task in which the dependency of an instruction of task t ran last; -1: never. */
static inline int32_t machine_dep_task(const machine_device *d, int32_t t, int32_t dep)
{
    const luo_run_task *task = d->program->tasks;
    const int32_t s = d->segment_of[dep], phase = d->role->seg[s].phase;
    if (s == task[t].seg) return t;
    const bool same = task[t].micro_batch >= 0 && (phase == LUO_PHASE_F || phase == LUO_PHASE_B);
    for (int32_t k = t; k >= 0; k--)
        if (task[k].seg == s && (!same || task[k].micro_batch == task[t].micro_batch)) return k;
    return -1;
}

static inline bool machine_done(const machine_device *d, int32_t t, int32_t instr)
{
    const int32_t op = t < 0 ? -1 : d->op_of[t * d->role->ninstr + instr];
    return op < 0 || d->op[op].done;
}

/* What an instruction waits for: its dependencies, and earlier parts of its Reshard. */
static inline bool machine_ready(const machine_device *d, int32_t t, const luo_instr *in)
{
    for (int32_t k = 0; k < in->ndep; k++)
        if (!machine_done(d, machine_dep_task(d, t, in->dep[k]), in->dep[k])) return false;
    for (int32_t k = in->id - 1; k >= 0 && d->segment_of[k] == d->segment_of[in->id]; k--) {
        if (d->role->instr[k].op != in->op || in->slot < 0) break;
        if (!machine_done(d, t, k)) return false;
    }
    return true;
}

static inline bool machine_beside(const machine_device *d, const luo_instr *in)
{
    return d->early && luo_instr_runs_beside(d->role, in);
}

/* Nobody waits for it at the end of a task. */
static inline bool machine_outlives(const machine_device *d, const machine_op *o)
{
    return o->lane == LUO_STREAM_PP || o->lane == LUO_LANE_PP_B_SEND ||
           machine_beside(d, &d->role->instr[o->instr]);
}

static inline bool machine_task_over(const machine_device *d)
{
    for (int32_t k = 0; k < d->n && d->op[k].released; k++)
        if (!d->op[k].done && d->op[k].task <= d->task && !machine_outlives(d, &d->op[k]))
            return false;
    return true;
}

/* Of what goes ahead: the task before its own, in which it comes. */
static inline int32_t machine_task_of(const machine_device *d, const machine_issue *at)
{
    if (!at->early) return at->task;
    return luo_instr_goes_ahead(&d->role->instr[at->instr]) ? at->task - 1 : d->task;
}

static inline bool machine_compute(machine_device *d)
{
    bool moved = false;
    for (; d->next < d->order.n; d->next++) {
        const machine_issue *at = &d->order.at[d->next];
        const luo_instr *in = &d->role->instr[at->instr];
        const int32_t task = machine_task_of(d, at);
        if (task != d->task) {
            if (!machine_task_over(d)) return moved;
            d->task = task;
        }
        if (!machine_beside(d, in) && !machine_ready(d, at->task, in)) return moved;
        const int32_t op = d->op_of[at->task * d->role->ninstr + in->id];
        if (op >= 0) d->op[op].released = true;
        moved = true;
    }
    return moved;
}

/* ---- NCCL ---- */

static inline const luo_instr *machine_instr(const machine_device *d, const machine_op *o)
{
    return &d->role->instr[o->instr];
}

static inline bool machine_same(machine *m, const machine_device *a, const machine_op *x,
                                const machine_device *b, const machine_op *y)
{
    const luo_instr *i = machine_instr(a, x), *k = machine_instr(b, y);
    if (i->kind == k->kind && i->exchange == k->exchange && i->op == k->op &&
        a->program->tasks[x->task].micro_batch == b->program->tasks[y->task].micro_batch)
        return true;
    if (!m->wrong[0])
        snprintf(m->wrong, sizeof m->wrong,
                 "instruction %d of device %d meets instruction %d of device %d", i->id,
                 a->program->device, k->id, b->program->device);
    return false;
}

static inline machine_device *machine_of(machine *m, int32_t device)
{
    return &m->dev[luo_programs_find(m->set, device) - m->set->at];
}

/* The operation at a place of a communicator on a device; NULL: it has none. */
static inline machine_op *machine_at(machine_device *d, int32_t comm, int32_t place)
{
    for (int32_t i = 0; i <= place; i++)
        if (d->at[comm][i] < 0) return NULL;
    return &d->op[d->at[comm][place]];
}

static inline void machine_finish(machine_device *d, machine_op *o)
{
    o->done = true;
    d->on_comm[o->comm]++;
    while (d->undone < d->n && d->op[d->undone].done) d->undone++;
    for (int32_t *h = &d->head[o->lane]; *h < d->n && d->op[*h].done;) *h = d->lane_next[*h];
}

static inline void machine_collective(machine *m, machine_device *d, machine_op *o)
{
    const luo_group *g = &m->set->groups[d->program->slots[machine_instr(d, o)->slot].group];
    for (int32_t i = 0; i < g->n; i++) {
        machine_device *e = machine_of(m, g->dev[i]);
        const machine_op *x = machine_at(e, o->comm, o->place);
        if (!x || !x->begun || !machine_same(m, d, o, e, x)) return;
    }
    for (int32_t i = 0; i < g->n; i++)
        machine_finish(machine_of(m, g->dev[i]),
                       machine_at(machine_of(m, g->dev[i]), o->comm, o->place));
}

static inline bool machine_has(const machine_device *d, const machine_op *o, int32_t peer,
                               bool send, int64_t *bytes)
{
    const luo_slot *s = &d->program->slots[machine_instr(d, o)->slot];
    for (int32_t i = 0; i < s->nmessage; i++)
        if (s->message[i].peer == peer && s->message[i].send == send) {
            *bytes = s->message[i].bytes;
            return true;
        }
    return false;
}

/* How many messages of that direction with that peer came before on the communicator. */
static inline int32_t machine_rank_of(const machine_device *d, const machine_op *o, int32_t peer,
                                      bool send)
{
    int32_t n = 0;
    int64_t bytes;
    for (const machine_op *x = d->op; x < o; x++)
        n += x->comm == o->comm && machine_has(d, x, peer, send, &bytes);
    return n;
}

static inline machine_op *machine_nth(machine_device *d, int32_t comm, int32_t peer, bool send,
                                      int32_t n)
{
    int64_t bytes;
    for (int32_t k = 0; k < d->n; k++)
        if (d->op[k].comm == comm && machine_has(d, &d->op[k], peer, send, &bytes) && n-- == 0)
            return &d->op[k];
    return NULL;
}

/* An operation that begins meets what has begun already. */
static inline void machine_messages(machine *m, machine_device *d, machine_op *o)
{
    const luo_slot *s = &d->program->slots[machine_instr(d, o)->slot];
    for (int32_t i = 0; i < s->nmessage; i++) {
        const luo_message *x = &s->message[i];
        machine_device *e = machine_of(m, x->peer);
        const int32_t rank = machine_rank_of(d, o, x->peer, x->send);
        machine_op *y = machine_nth(e, o->comm, d->program->device, !x->send, rank);
        int64_t bytes = -1;
        if (!y || !y->begun || !machine_same(m, d, o, e, y)) continue;
        machine_has(e, y, d->program->device, !x->send, &bytes);
        if (bytes != x->bytes && !m->wrong[0])
            snprintf(m->wrong, sizeof m->wrong, "sizes differ between devices %d and %d",
                     d->program->device, x->peer);
        if (--o->left == 0) machine_finish(d, o);
        if (--y->left == 0) machine_finish(e, y);
    }
}

static inline bool machine_may_begin(const machine *m, const machine_device *d, int32_t k)
{
    const machine_op *o = &d->op[k];
    if (!o->released || o->begun || d->on_comm[o->comm] != o->place) return false;
    if (!machine_ready(d, o->task, &d->role->instr[o->instr])) return false;
    return m->order == LAUNCH_FREE || k == (m->order == LAUNCH_BEGIN ? d->unbegun : d->undone);
}

static inline bool machine_begin_lane(machine *m, machine_device *d, int32_t lane)
{
    const int32_t k = d->head[lane];
    if (k == d->n || !machine_may_begin(m, d, k)) return false;
    machine_op *o = &d->op[k];
    o->begun = true;
    while (d->unbegun < d->n && d->op[d->unbegun].begun) d->unbegun++;
    if (machine_instr(d, o)->kind == LUO_INSTR_COLLECTIVE)
        machine_collective(m, d, o);
    else
        machine_messages(m, d, o);
    return true;
}

static inline bool machine_begin(machine *m, machine_device *d)
{
    bool moved = false;
    for (int32_t l = 0; l < LUO_LANES; l++)
        while (machine_begin_lane(m, d, l)) moved = true;
    return moved;
}

/* ---- hosts alone ---- */

/* The first use of a connection keeps the host until the others use it too. So hosts that issue
 * without waiting for their devices have to come to an end also if every collective keeps them
 * (and every message, if `messages`). */
static inline bool machine_hosts_meet(machine *m, const int32_t *at, machine_device *d,
                                      bool messages)
{
    const machine_op *o = &d->op[at[d - m->dev]];
    const luo_slot *slot = &d->program->slots[machine_instr(d, o)->slot];
    if (machine_instr(d, o)->kind == LUO_INSTR_COLLECTIVE) {
        const luo_group *g = &m->set->groups[slot->group];
        for (int32_t i = 0; i < g->n; i++) {
            const machine_device *e = machine_of(m, g->dev[i]);
            const machine_op *x = &e->op[at[e - m->dev]];
            if (at[e - m->dev] == e->n || x->comm != o->comm || x->place < o->place) return false;
        }
        return true;
    }
    for (int32_t i = 0; messages && i < slot->nmessage; i++) {
        const luo_message *x = &slot->message[i];
        machine_device *e = machine_of(m, x->peer);
        const int32_t rank = machine_rank_of(d, o, x->peer, x->send);
        const machine_op *y = machine_nth(e, o->comm, d->program->device, !x->send, rank);
        if (!y || y > &e->op[at[e - m->dev]]) return false;
    }
    return true;
}

static inline bool machine_hosts(machine *m, bool messages)
{
    int32_t *at = LUO_NEW_N(m->arena, int32_t, m->set->n);
    bool all = true;
    for (bool moved = true; moved;) {
        moved = false;
        for (int32_t d = 0; d < m->set->n; d++) {
            machine_device *e = &m->dev[d];
            while (at[d] < e->n && machine_hosts_meet(m, at, e, messages)) {
                if (machine_instr(e, &e->op[at[d]])->kind == LUO_INSTR_COLLECTIVE) {
                    const luo_group *g =
                        &m->set->groups[e->program->slots[machine_instr(e, &e->op[at[d]])->slot]
                                            .group];
                    for (int32_t i = 0; i < g->n; i++) at[machine_of(m, g->dev[i]) - m->dev]++;
                } else {
                    at[d]++;
                }
                moved = true;
            }
        }
    }
    for (int32_t d = 0; d < m->set->n; d++) all &= at[d] == m->dev[d].n;
    return all;
}

/* True: every device came to the end of its program. */
static inline bool machine_run(machine *m)
{
    for (bool moved = true; moved && !m->wrong[0];) {
        moved = false;
        for (int32_t d = 0; d < m->set->n; d++) {
            moved |= machine_compute(&m->dev[d]);
            moved |= machine_begin(m, &m->dev[d]);
        }
    }
    bool all = !m->wrong[0];
    for (int32_t d = 0; d < m->set->n; d++) {
        all &= m->dev[d].next == m->dev[d].order.n;
        for (int32_t k = 0; k < m->dev[d].n; k++) all &= m->dev[d].op[k].done;
    }
    return all;
}
#endif
