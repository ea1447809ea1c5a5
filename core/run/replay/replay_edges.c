/* replay_edges.c: which operations wait for which, and which begin together. */
#include <stdlib.h>
#include <string.h>

#include "core/base/vec.h"
#include "core/run/replay/replay_internal.h"

static void add_edge(replay_builder *builder, int32_t from, int32_t to)
{
    if (!LUO_VEC_ROOM_IN(builder->arena, builder->edge, builder->nedges, builder->cap_edges))
        builder->failed = true;
    else
        builder->edge[builder->nedges++] = (replay_edge){from, to};
}

/* x and y begin together. */
static void join(replay_builder *builder, int32_t x, int32_t y)
{
    const int32_t u = replay_unit(builder, x), w = replay_unit(builder, y);
    builder->spans[u] |= builder->spans[w];
    builder->unit[w] = u;
}

/* Each operation of a kind waits for the one before. last: of a kind before it, or -1. Returns the
 * last one. */
static int32_t chain(replay_builder *builder, int32_t stage, luo_replay_op op, int32_t last)
{
    for (int32_t i = 0; i < replay_count(builder, stage, op); i++) {
        const int32_t v = replay_node(builder, stage, op, i);
        if (last >= 0) add_edge(builder, last, v);
        last = v;
    }
    return last;
}

typedef struct direction { /* of micro-batches through the pipeline */
    luo_replay_op recv, compute, send;
    int32_t next; /* from a chunk to the one that it sends to */
} direction;
static const direction directions[] = {
    {LUO_REPLAY_FORWARD_RECV, LUO_REPLAY_FORWARD, LUO_REPLAY_FORWARD_SEND, 1},
    {LUO_REPLAY_BACKWARD_RECV, LUO_REPLAY_BACKWARD, LUO_REPLAY_BACKWARD_SEND, -1}};

/* Number of a node's chunk among those of all stages. */
static int32_t global_chunk(const replay_builder *builder, int32_t v)
{
    const luo_replay_node *node = &builder->node[v];
    return (node->chunk > 0 ? node->chunk : 0) * builder->r->stages + node->stage;
}

static bool has_peer(const replay_builder *builder, int32_t compute, int32_t next)
{
    const int32_t peer = global_chunk(builder, compute) + next;
    return peer >= 0 && peer < builder->r->chunks * builder->r->stages;
}

/* Transfer of each computation of a stage, by[i], or -1 where it has no peer. Records may count
 * those without a peer, too. */
static luo_status match_transfers(replay_builder *builder, int32_t stage, luo_replay_op compute,
                                  luo_replay_op transfer, int32_t next, int32_t *by)
{
    const int32_t computations = replay_count(builder, stage, compute),
                  n = replay_count(builder, stage, transfer);
    int32_t valid = 0;
    for (int32_t i = 0; i < computations; i++)
        valid += has_peer(builder, replay_node(builder, stage, compute, i), next);
    if (n != valid && n != computations)
        return luo_err_set(builder->err, LUO_EINPUT,
                           "stage %d has %d %s for %d %s, %d of which have a peer; one for each "
                           "of these is expected.",
                           stage, n, luo_replay_op_name(transfer), computations,
                           luo_replay_op_name(compute), valid);
    for (int32_t i = 0, k = 0; i < computations; i++) {
        const int32_t v = replay_node(builder, stage, compute, i);
        const bool peer = has_peer(builder, v, next);
        by[v] = peer ? replay_node(builder, stage, transfer, n == valid ? k++ : i) : -1;
        if (!peer) continue;
        builder->node[by[v]].chunk = builder->node[v].chunk;
        builder->node[by[v]].micro_batch = builder->node[v].micro_batch;
    }
    return LUO_OK;
}

/* The i-th send of each chunk and the i-th receive of the next one begin together. */
static luo_status pair_transfers(replay_builder *builder, const direction *d, const int32_t *send,
                                 const int32_t *recv)
{
    const luo_replay *replay = builder->r;
    for (int32_t c = 0; c < replay->chunks * replay->stages; c++) {
        const int32_t to = c + d->next;
        if (to < 0 || to >= replay->chunks * replay->stages) continue;
        const int32_t from_n = replay_count(builder, c % replay->stages, d->compute),
                      to_n = replay_count(builder, to % replay->stages, d->compute);
        int32_t sends = 0, receives = 0;
        for (int32_t i = 0, k = 0; i < from_n; i++) {
            const int32_t v = replay_node(builder, c % replay->stages, d->compute, i);
            if (global_chunk(builder, v) != c) continue;
            int32_t w = -1;
            while (k < to_n && w < 0) {
                w = replay_node(builder, to % replay->stages, d->compute, k++);
                if (global_chunk(builder, w) != to) w = -1;
            }
            sends++;
            receives += w >= 0;
            if (w >= 0) join(builder, send[v], recv[w]);
        }
        if (sends != receives)
            return luo_err_set(builder->err, LUO_EINPUT,
                               "stage %d has %d %s in chunk %d, stage %d %d in chunk %d; as many "
                               "are expected.",
                               c % replay->stages, sends, luo_replay_op_name(d->compute),
                               c / replay->stages, to % replay->stages, receives,
                               to / replay->stages);
    }
    return LUO_OK;
}

static luo_status link_transfers(replay_builder *builder)
{
    const luo_replay *replay = builder->r;
    int32_t *send = LUO_NEW_N(builder->arena, int32_t, replay->nodes),
            *recv = LUO_NEW_N(builder->arena, int32_t, replay->nodes);
    if (!send || !recv) return luo_err_nomem(builder->err);
    for (size_t k = 0; k < sizeof directions / sizeof *directions; k++) {
        const direction *d = &directions[k];
        for (int32_t s = 0; s < replay->stages; s++) {
            LUO_TRY(match_transfers(builder, s, d->compute, d->send, d->next, send));
            LUO_TRY(match_transfers(builder, s, d->compute, d->recv, -d->next, recv));
            chain(builder, s, d->send, -1);
            chain(builder, s, d->recv, -1);
            for (int32_t i = 0; i < replay_count(builder, s, d->compute); i++) {
                const int32_t v = replay_node(builder, s, d->compute, i);
                if (send[v] >= 0) add_edge(builder, v, send[v]);
                if (recv[v] >= 0) add_edge(builder, recv[v], v);
                if (recv[v] >= 0 && i > 0) add_edge(builder, v - 1, recv[v]);
            }
        }
        LUO_TRY(pair_transfers(builder, d, send, recv));
    }
    return LUO_OK;
}

typedef struct started { /* a computation, as it is sorted */
    double start_s;
    int64_t order;
    int32_t node;
    const char *name;
} started;

static int by_start(const void *a, const void *b)
{
    const started *x = a, *y = b;
    if (x->start_s != y->start_s) return x->start_s < y->start_s ? -1 : 1;
    if (x->order != y->order) return x->order < y->order ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Computations of a stage, in the order of their starts. */
static int32_t sort_computations(const replay_builder *builder, int32_t stage, started *out)
{
    int32_t n = 0;
    for (size_t k = 0; k < sizeof directions / sizeof *directions; k++)
        for (int32_t i = 0; i < replay_count(builder, stage, directions[k].compute); i++) {
            const int32_t v = replay_node(builder, stage, directions[k].compute, i);
            out[n++] = (started){builder->record[v].start_s, builder->record[v].order, v,
                                 luo_replay_op_name(directions[k].compute)};
        }
    qsort(out, (size_t)n, sizeof *out, by_start);
    return n;
}

/* One after the other. The first transfers of backward wait for the computation two places before
 * the first backward one. Returns the computation that ends last. */
static int32_t link_computations(replay_builder *builder, int32_t stage, started *sorted)
{
    static const luo_replay_op early[] = {LUO_REPLAY_BACKWARD_SEND, LUO_REPLAY_BACKWARD_RECV};
    const int32_t n = sort_computations(builder, stage, sorted);
    int32_t backward = -1, last = sorted[0].node;
    for (int32_t i = 0; i < n; i++) {
        const luo_replay_record *x = &builder->record[sorted[i].node], *y = &builder->record[last];
        if (i > 0) add_edge(builder, sorted[i - 1].node, sorted[i].node);
        if (backward < 0 && x->op == LUO_REPLAY_BACKWARD) backward = i;
        if (x->start_s + x->duration_s >= y->start_s + y->duration_s) last = sorted[i].node;
    }
    for (int k = 0; k < 2 && backward >= 2; k++)
        if (replay_count(builder, stage, early[k]) > 0)
            add_edge(builder, sorted[backward - 2].node, replay_node(builder, stage, early[k], 0));
    return last;
}

static int32_t chunk_or_0(const replay_builder *builder, int32_t v)
{
    return builder->node[v].chunk > 0 ? builder->node[v].chunk : 0;
}

/* The first or the last one of a kind in a chunk of a stage; -1: none. */
static int32_t find_in_chunk(const replay_builder *builder, int32_t stage, luo_replay_op op,
                             int32_t chunk, bool last)
{
    int32_t found = -1;
    for (int32_t i = 0; i < replay_count(builder, stage, op); i++) {
        const int32_t v = replay_node(builder, stage, op, i);
        if (chunk_or_0(builder, v) == chunk && (found < 0 || last)) found = v;
    }
    return found;
}

/* The last gather of a chunk comes before its first computation. Returns the last of all. */
static int32_t link_gathers(replay_builder *builder, int32_t stage)
{
    for (int32_t c = 0; c < builder->r->chunks; c++) {
        const int32_t gather = find_in_chunk(builder, stage, LUO_REPLAY_ALL_GATHER, c, true),
                      forward = find_in_chunk(builder, stage, LUO_REPLAY_FORWARD, c, false);
        if (gather >= 0 && forward >= 0) add_edge(builder, gather, forward);
    }
    return chain(builder, stage, LUO_REPLAY_ALL_GATHER, -1);
}

/* What follows the last computation. Gradients of a chunk are scattered at its end if they
 * overlap, which a separate all-reduce tells; else behind all others. */
static void link_update(replay_builder *builder, int32_t stage, int32_t computed, int32_t gathered)
{
    const bool overlap = replay_count(builder, stage, LUO_REPLAY_SEPARATE) > 0;
    int32_t last = chain(builder, stage, LUO_REPLAY_GC, computed);
    const int32_t scattered = chain(builder, stage, LUO_REPLAY_REDUCE_SCATTER, gathered);
    for (int32_t i = 0; overlap && i < replay_count(builder, stage, LUO_REPLAY_REDUCE_SCATTER);
         i++) {
        const int32_t v = replay_node(builder, stage, LUO_REPLAY_REDUCE_SCATTER, i),
                      w = find_in_chunk(builder, stage, LUO_REPLAY_BACKWARD, chunk_or_0(builder, v),
                                        true);
        if (w >= 0) add_edge(builder, w, v);
    }
    static const luo_replay_op rest[] = {LUO_REPLAY_LAYERNORM,      LUO_REPLAY_EMBEDDING,
                                         LUO_REPLAY_REDUCE_SCATTER, LUO_REPLAY_SEPARATE,
                                         LUO_REPLAY_CLIP,           LUO_REPLAY_OPTIMIZER};
    bool joined = !overlap;
    for (size_t k = 0; k < sizeof rest / sizeof *rest; k++) {
        if (replay_count(builder, stage, rest[k]) == 0) continue;
        const int32_t v = replay_node(builder, stage, rest[k], 0);
        if (rest[k] == LUO_REPLAY_REDUCE_SCATTER) {
            if (!overlap) add_edge(builder, last, v);
            last = overlap ? last : scattered;
            continue;
        }
        if (!joined && scattered >= 0) add_edge(builder, scattered, v);
        joined = true;
        last = chain(builder, stage, rest[k], last);
    }
}

/* The i-th of a kind of both stages begin together. */
static luo_status join_stages(replay_builder *builder, luo_replay_op op, int32_t x, int32_t y)
{
    const int32_t n = replay_count(builder, x, op);
    if (replay_count(builder, y, op) != n)
        return luo_err_set(builder->err, LUO_EINPUT,
                           "stage %d has %d %s, stage %d %d; as many are expected.", x, n,
                           luo_replay_op_name(op), y, replay_count(builder, y, op));
    for (int32_t i = 0; i < n; i++)
        join(builder, replay_node(builder, x, op, i), replay_node(builder, y, op, i));
    return LUO_OK;
}

static luo_status join_groups(replay_builder *builder)
{
    static const luo_replay_op spanning[] = {LUO_REPLAY_ALL_GATHER, LUO_REPLAY_REDUCE_SCATTER,
                                             LUO_REPLAY_CLIP};
    const int32_t stages = builder->r->stages;
    for (int32_t s = 0; s < stages; s++)
        for (size_t k = 0; k < sizeof spanning / sizeof *spanning; k++)
            for (int32_t i = 0; i < replay_count(builder, s, spanning[k]); i++)
                builder->spans[replay_node(builder, s, spanning[k], i)] = true;
    if (stages > 1) LUO_TRY(join_stages(builder, LUO_REPLAY_EMBEDDING, 0, stages - 1));
    for (int32_t s = 1; s < stages; s++) LUO_TRY(join_stages(builder, LUO_REPLAY_CLIP, 0, s));
    return LUO_OK;
}

luo_status replay_link(replay_builder *builder)
{
    started *sorted = LUO_NEW_N(builder->arena, started, builder->r->nodes);
    if (!sorted) return luo_err_nomem(builder->err);
    LUO_TRY(join_groups(builder));
    LUO_TRY(link_transfers(builder));
    for (int32_t s = 0; s < builder->r->stages; s++) {
        const int32_t computed = link_computations(builder, s, sorted);
        link_update(builder, s, computed, link_gathers(builder, s));
    }
    return builder->failed ? luo_err_nomem(builder->err) : LUO_OK;
}
