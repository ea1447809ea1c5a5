/* sim_programs.h: programs of whole training steps, hand-made: a pipeline of single devices,
 * and stages of tensor-parallel nodes. */
#ifndef LUO_TESTS_SIM_PROGRAMS_H
#define LUO_TESTS_SIM_PROGRAMS_H
#include "core/graph/schedule/sched.h"
#include "tests/sim_fixture.h"

/* ---- pipelines ---- */

typedef struct pipeline {
    luo_sched_kind kind;
    int32_t S, m, v;
    const double *forward, *backward; /* [s*v + c] */
    const double *weight; /* the same, where backward is cut in two */
    double hop_s;
    bool blocking;
} pipeline;

enum { FORWARD_EXCHANGE = 0, BACKWARD_EXCHANGE = 1000 };

/* Segments of a chunk: F, then B or BI, then BW. */
static inline int32_t task_part(const luo_task *t)
{
    return t->phase == LUO_TASK_F ? 0 : t->phase == LUO_TASK_BW ? 2 : 1;
}

/* Segment F of chunk c: receive, work, send; B or BI likewise; BW works. Virtual stage c*S + s. */
static inline void pipeline_role(rig *r, const pipeline *p, int32_t s)
{
    const int32_t role = rig_role(r), last = p->S * p->v - 1;
    const bool splits = luo_sched_splits(p->kind);
    for (int32_t phase = 0; phase < luo_sched_phases(p->kind); phase++)
        for (int32_t c = 0; c < p->v; c++) {
            const bool back = phase == 1;
            const int32_t at = c * p->S + s;
            if (phase == 2) {
                rig_segment(r, role, LUO_PHASE_BW, c);
                rig_work(r, role, p->weight[s * p->v + c]);
                continue;
            }
            const bool receives = back ? at < last : at > 0, sends = back ? at > 0 : at < last;
            const int32_t from = back ? BACKWARD_EXCHANGE + at : at - 1;
            const int32_t to = back ? BACKWARD_EXCHANGE + at - 1 : at;
            rig_segment(r, role, !back ? LUO_PHASE_F : splits ? LUO_PHASE_BI : LUO_PHASE_B, c);
            const int32_t got = receives ? rig_p2p(r, role, LUO_STREAM_PP, 0, from) : -1;
            const int32_t done = rig_work(r, role, (back ? p->backward : p->forward)[s * p->v + c]);
            if (receives) rig_after(r, role, done, got);
            if (sends) rig_after(r, role, rig_p2p(r, role, LUO_STREAM_PP, 1, to), done);
        }
}

/* Peers follow from the exchange: virtual stage of the other end modulo S. */
static inline void pipeline_peers(rig *r, const pipeline *p, int32_t s)
{
    const luo_role *role = &r->set.roles[s];
    for (int32_t i = 0; i < role->ninstr; i++) {
        const luo_instr *in = &role->instr[i];
        if (in->kind != LUO_INSTR_P2P) continue;
        const bool back = in->exchange >= BACKWARD_EXCHANGE, send = in->bytes > 0;
        const int32_t low = in->exchange - (back ? BACKWARD_EXCHANGE : FORWARD_EXCHANGE);
        const int32_t other = send == back ? low : low + 1;
        rig_message(r, s, i, other % p->S, send, 1);
    }
}

static inline rig *pipeline_rig(const pipeline *p)
{
    rig *r = rig_new(&(rig_shape){.devices_per_node = p->S, .p2p_s = p->hop_s});
    r->set.schedule = p->kind;
    r->stack.p2p_blocking = p->blocking;
    for (int32_t s = 0; s < p->S; s++) pipeline_role(r, p, s);
    for (int32_t s = 0; s < p->S; s++) {
        const luo_task *tasks = NULL;
        int32_t n = 0;
        rig_device(r, s, s, 0, s);
        rig_check(r, luo_sched_make(r->arena, p->kind, p->S, s, p->m, p->v, &tasks, &n, &r->err));
        for (int32_t i = 0; i < n; i++)
            rig_task(r, s, task_part(&tasks[i]) * p->v + tasks[i].chunk, tasks[i].micro_batch);
        pipeline_peers(r, p, s);
    }
    return r;
}

/* ---- whole steps ---- */

typedef struct layout {
    int32_t tp, stages, pipelines, micro_batches, layers; /* layers of a stage */
    int32_t spare_nodes;
    int32_t stages_per_node, nics; /* 0: one; one per device */
    double uplink_bytes_per_s;     /* 0: one switch; else a rack per node */
} layout;

/* Every stage is tp devices of one node: per layer work and a TP all-reduce, P2P with the
 * neighbour stage, and at the end a gradient all-reduce over pipelines, rail by rail. Receives
 * stand first in F and B, sends last. */
static inline int32_t step_role(rig *r, const layout *l, int32_t s)
{
    const int32_t role = rig_role(r);
    int32_t before = -1;
    for (int32_t back = 0; back < 2; back++) {
        rig_segment(r, role, back ? LUO_PHASE_B : LUO_PHASE_F, 0);
        before = -1;
        if (back ? s < l->stages - 1 : s > 0)
            before = rig_p2p(r, role, LUO_STREAM_PP, 0, back ? 100 + s : s - 1);
        for (int32_t k = 0; k < l->layers; k++) {
            const int32_t work = rig_work(r, role, (back ? 0.02 : 0.01) + 0.001 * k);
            if (before >= 0) rig_after(r, role, work, before);
            before = rig_collective(r, role, LUO_STREAM_TP, LUO_COLL_AR, 96000000,
                                    200 + 100 * s + 10 * back + k);
            rig_after(r, role, before, work);
        }
        if (back ? s == 0 : s == l->stages - 1) continue;
        const int32_t send = rig_p2p(r, role, LUO_STREAM_PP, 12000000, back ? 99 + s : s);
        rig_after(r, role, send, before);
        before = send; /* so that the gradients below meet no message on a NIC */
    }
    rig_segment(r, role, LUO_PHASE_POST, 0);
    const int32_t sum =
        rig_collective(r, role, LUO_STREAM_DP, LUO_COLL_AR, 240000000, 1000 + s);
    rig_after(r, role, sum, before);
    rig_after(r, role, rig_work(r, role, 0.005), sum);
    return role;
}

static inline void step_device(rig *r, const layout *l, int32_t pipe, int32_t s, int32_t t,
                               int32_t tp, int32_t dp)
{
    const int32_t device = (pipe * l->stages + s) * l->tp + t;
    const luo_task *tasks = NULL;
    int32_t n = 0;
    rig_device(r, device, s, pipe, s);
    rig_check(r, luo_sched_make(r->arena, LUO_SCHED_1F1B, l->stages, s, l->micro_batches, 1,
                                &tasks, &n, &r->err));
    for (int32_t i = 0; i < n; i++) rig_task(r, device, task_part(&tasks[i]), tasks[i].micro_batch);
    rig_task(r, device, 2, -1);
    for (int32_t i = 0; i < r->set.roles[s].ninstr; i++) {
        const luo_instr *in = &r->set.roles[s].instr[i];
        if (in->kind == LUO_INSTR_COLLECTIVE)
            rig_join(r, device, i, in->stream == LUO_STREAM_TP ? tp : dp);
        if (in->kind != LUO_INSTR_P2P) continue;
        const bool send = in->bytes > 0, up = send == (in->exchange < 100);
        rig_message(r, device, i, device + (up ? l->tp : -l->tp), send, 12000000);
    }
}

static inline rig *step_rig(const layout *l)
{
    const int32_t together = l->stages_per_node ? l->stages_per_node : 1;
    rig *r = rig_new(&(rig_shape){.nodes = l->stages * l->pipelines / together + l->spare_nodes,
                                  .devices_per_node = l->tp * together, .nics = l->nics,
                                  .uplink_bytes_per_s = l->uplink_bytes_per_s});
    int32_t dp[64], tp[64];
    for (int32_t s = 0; s < l->stages; s++) {
        step_role(r, l, s);
        for (int32_t t = 0; t < l->tp; t++) {
            for (int32_t p = 0; p < l->pipelines; p++) tp[p] = (p * l->stages + s) * l->tp + t;
            dp[s * l->tp + t] = rig_group(r, LUO_STREAM_DP, l->pipelines, tp);
        }
    }
    for (int32_t p = 0; p < l->pipelines; p++)
        for (int32_t s = 0; s < l->stages; s++) {
            for (int32_t t = 0; t < l->tp; t++) tp[t] = (p * l->stages + s) * l->tp + t;
            const int32_t group = rig_group(r, LUO_STREAM_TP, l->tp, tp);
            for (int32_t t = 0; t < l->tp; t++)
                step_device(r, l, p, s, t, group, dp[s * l->tp + t]);
        }
    return r;
}
#endif
