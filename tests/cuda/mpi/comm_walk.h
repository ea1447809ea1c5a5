/* comm_walk.h: all communication of a rank's program, in its order, on a stream per
 * lane, with operands and results of its own for every instruction. What a rank computes between
 * them is left out, so that receives are posted as early as can be. */
#ifndef LUO_TESTS_CUDA_COMM_WALK_H
#define LUO_TESTS_CUDA_COMM_WALK_H
#include "tests/cuda/mpi/comm_lab.h"

typedef struct walk_op {
    const luo_instr *instr;
    const luo_slot *slot;
    uint64_t key; /* the same for all that take part */
    gpu_comm *comm;
    int64_t at, to; /* elements in the block: operand, result; or all sends, all receives */
    int64_t n, count[LAB_RANKS], own, start;
} walk_op;

typedef struct walk { /* of one rank */
    lab *l;
    const luo_programs *set;
    const luo_program *p;
    int64_t elem, used;
    int32_t n;
    walk_op *op;
    lab_block block;
} walk;

static inline int64_t parts_of(const walk *w, walk_op *o, const luo_group *g)
{
    o->n = 0;
    for (int32_t k = 0; k < g->n; k++) {
        o->count[k] = o->slot->counts ? o->slot->counts[k] : o->instr->bytes / w->elem / g->n;
        if (g->dev[k] == w->l->rank) {
            o->own = o->count[k];
            o->start = o->n;
        }
        o->n += o->count[k];
    }
    if (o->instr->coll == LUO_COLL_AR) o->n = o->instr->bytes / w->elem;
    return o->n;
}

static inline void place(walk *w, walk_op *o)
{
    o->at = w->used;
    if (o->instr->kind == LUO_INSTR_P2P) {
        for (int32_t m = 0; m < o->slot->nmessage; m++)
            w->used += o->slot->message[m].bytes / w->elem;
        return;
    }
    const luo_group *g = &w->set->groups[o->slot->group];
    w->used += parts_of(w, o, g);
    o->to = w->used;
    w->used += o->instr->coll == LUO_COLL_AG ? o->own : o->own * (g->n + 1);
}

static inline void open_walk(walk *w, lab *l, luo_arena *a, const luo_programs *set, int64_t elem)
{
    *w = (walk){.l = l, .set = set, .p = luo_programs_find(set, l->rank), .elem = elem};
    const luo_role *role = w->p ? &set->roles[w->p->role] : NULL;
    w->op = LUO_NEW_N(a, walk_op, role ? (int64_t)w->p->ntask * role->ninstr : 0);
    for (int32_t t = 0; w->p && t < w->p->ntask; t++) {
        const luo_segment *s = &role->seg[w->p->tasks[t].seg];
        for (int32_t i = s->first; i < s->first + s->n; i++) {
            const luo_instr *in = &role->instr[i];
            if (in->kind != LUO_INSTR_COLLECTIVE && in->kind != LUO_INSTR_P2P) continue;
            const int64_t id[2] = {in->exchange, w->p->tasks[t].micro_batch};
            walk_op *o = &w->op[w->n++];
            *o = (walk_op){.instr = in,
                           .slot = &w->p->slots[in->slot],
                           .key = luo_hash_bytes(LUO_HASH_EMPTY, id, sizeof id),
                           .comm = gpu_comms_find(l->comms, set, w->p, in)};
            lab_must(l, o->comm != NULL, "a communicator of an instruction");
            place(w, o);
        }
    }
    w->block = lab_alloc(l, w->used * elem);
}

static inline uint64_t between(const walk_op *o, int32_t from, int32_t to)
{
    return o->key * 64 + (uint64_t)from * 8 + (uint64_t)to;
}

/* Operands as they are before the walk. */
static inline void fill_walk(walk *w)
{
    memset(w->block.host, 0, (size_t)w->block.bytes);
    for (int32_t k = 0; k < w->n; k++) {
        const walk_op *o = &w->op[k];
        int64_t at = o->at;
        for (int32_t m = 0; o->instr->kind == LUO_INSTR_P2P && m < o->slot->nmessage; m++) {
            const luo_message *x = &o->slot->message[m];
            for (int64_t i = 0; i < x->bytes / w->elem; i++, at++)
                if (x->send)
                    lab_put(w->block.host, at, w->elem,
                            lab_value(between(o, w->l->rank, x->peer), 0, i));
        }
        if (o->instr->kind == LUO_INSTR_P2P) continue;
        const bool gathers = o->instr->coll == LUO_COLL_AG;
        for (int64_t i = 0; i < (gathers ? o->own : o->n); i++)
            lab_put(w->block.host, (gathers ? o->to : o->at) + i, w->elem,
                    lab_value(o->key, w->l->rank, i));
    }
    lab_send_block(w->l, &w->block);
}

static inline char *cells(const walk *w, int64_t at)
{
    return w->block.device + at * w->elem;
}

static inline luo_status issue(walk *w, const walk_op *o)
{
    gpu_message m[2 * LAB_RANKS];
    const cudaStream_t stream = w->l->stream[luo_instr_lane(o->instr)];
    int64_t at = o->at;
    if (o->instr->kind == LUO_INSTR_P2P) {
        for (int32_t i = 0; i < o->slot->nmessage; i++) {
            const luo_message *x = &o->slot->message[i];
            m[i] = (gpu_message){x->peer, x->send, cells(w, at), x->bytes / w->elem};
            at += x->bytes / w->elem;
        }
        return gpu_exchange(o->comm, o->slot->nmessage, m, w->elem, stream, &w->l->err);
    }
    if (o->instr->coll == LUO_COLL_AR)
        return gpu_all_reduce(o->comm, cells(w, o->at), cells(w, o->at), o->n, w->elem,
                              LUO_REDUCE_SUM, stream, &w->l->err);
    if (o->instr->coll == LUO_COLL_RS)
        return gpu_reduce_scatter(o->comm, cells(w, o->at), cells(w, o->to), o->count, w->elem,
                                  LUO_REDUCE_SUM, cells(w, o->to + o->own), stream, &w->l->err);
    return gpu_all_gather(o->comm, cells(w, o->to), cells(w, o->at), o->count, w->elem, stream,
                          &w->l->err);
}

static inline float wanted(const walk *w, const walk_op *o, int64_t i)
{
    const luo_group *g = &w->set->groups[o->slot->group];
    float v = 0;
    if (o->instr->coll == LUO_COLL_AG) {
        int32_t k = 0;
        while (i >= o->count[k]) i -= o->count[k++];
        return lab_value(o->key, g->dev[k], i);
    }
    for (int32_t k = 0; k < g->n; k++) v += lab_value(o->key, g->dev[k], i);
    return v;
}

static inline bool op_is_right(const walk *w, const walk_op *o)
{
    int64_t at = o->at;
    bool good = true;
    if (o->instr->kind == LUO_INSTR_P2P) {
        for (int32_t m = 0; m < o->slot->nmessage; m++) {
            const luo_message *x = &o->slot->message[m];
            for (int64_t i = 0; i < x->bytes / w->elem; i++, at++)
                good &= x->send || lab_get(w->block.host, at, w->elem) ==
                                       lab_value(between(o, x->peer, w->l->rank), 0, i);
        }
        return good;
    }
    const bool scatters = o->instr->coll == LUO_COLL_RS;
    for (int64_t i = 0; i < (scatters ? o->own : o->n); i++)
        good &= lab_get(w->block.host, (scatters ? o->to : o->at) + i, w->elem) ==
                wanted(w, o, i + (scatters ? o->start : 0));
    return good;
}

static inline void check_walk(walk *w, const char *how)
{
    lab_get_block(w->l, &w->block);
    for (int32_t k = 0; k < w->n; k++)
        if (!op_is_right(w, &w->op[k]))
            lab_fail(w->l, "%s: `%s`, instruction %d is wrong", how,
                     w->set->ops[w->op[k].instr->op].name, w->op[k].instr->id);
}

static inline void walk_anew(walk *w)
{
    fill_walk(w);
    for (int32_t k = 0; k < w->n; k++)
        lab_must(w->l, issue(w, &w->op[k]) == LUO_OK, "an instruction");
    check_walk(w, "as it is issued");
}

/* From the compute stream into all lanes, and back. */
static inline void fork_lanes(lab *l, cudaEvent_t event, bool join)
{
    const cudaStream_t from = l->stream[LUO_STREAM_COMPUTE];
    bool good = true;
    if (!join) good &= cudaEventRecord(event, from) == cudaSuccess;
    for (int i = 0; i < LUO_LANES; i++) {
        if (i == LUO_STREAM_COMPUTE) continue;
        if (join) good &= cudaEventRecord(event, l->stream[i]) == cudaSuccess;
        good &= cudaStreamWaitEvent(join ? from : l->stream[i], event, 0) == cudaSuccess;
    }
    lab_must(l, good, "events");
}

static inline void walk_captured(walk *w)
{
    lab *l = w->l;
    const cudaStream_t stream = l->stream[LUO_STREAM_COMPUTE];
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaEvent_t event;
    bool good = cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess;
    good &= cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess;
    lab_must(l, good, "a capture");
    fork_lanes(l, event, false);
    for (int32_t k = 0; k < w->n; k++)
        lab_must(l, issue(w, &w->op[k]) == LUO_OK, "a captured instruction");
    fork_lanes(l, event, true);
    good &= cudaStreamEndCapture(stream, &graph) == cudaSuccess;
    good &= cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess;
    lab_must(l, good, "a graph");
    for (int i = 0; i < 2; i++) {
        fill_walk(w);
        lab_must(l, cudaGraphLaunch(exec, stream) == cudaSuccess, "a launch");
        check_walk(w, i ? "launched again" : "launched");
    }
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    cudaEventDestroy(event);
}
#endif
