/* step_exchange.c: what is sent in a step: rows with their keys and gradients, and gradients of the
 * dense part. Rows travel in lane 1 of stream dp, the dense part in lane 0, so that the two run
 * beside each other, as hybrid training has it. */
#include <math.h>

#include "core/run/tables/step.h"

enum { DENSE = TABLES_DENSE, ROWS = TABLES_ROWS }; /* lanes of messages */

static int64_t row_bytes(const tables_maker *m)
{
    return 4 * luo_model_row_width(m->l->model);
}

static bool on_servers(const tables_maker *m)
{
    return m->way->tables == LUO_TABLES_SERVERS || m->way->tables == LUO_TABLES_CACHES;
}

static int64_t part(int64_t rows, double share)
{
    return (int64_t)llround((double)rows * share);
}

int64_t tables_held(const tables_maker *m)
{
    const tables_layout *l = m->l;
    const int64_t rows = l->model->features.rows, width = luo_model_row_width(l->model);
    if (m->way->tables == LUO_TABLES_ALL_TO_ALL) return (rows + l->n - 1) / l->n * width;
    if (!on_servers(m)) return rows * width;
    const int64_t cache = m->way->tables == LUO_TABLES_CACHES ? l->in->cache.rows : 0;
    const bool server = l->server_of[m->worker] != TABLES_NONE;
    return ((server ? (rows + l->servers - 1) / l->servers : 0) + (cache < rows ? cache : rows)) *
           width;
}

/* ---- messages with servers ---- */

typedef struct exchange {
    const char *op;
    bool up; /* to servers, else from them */
    int32_t lane;
    double share;  /* of rows; of dense parameters: .. */
    int64_t bytes; /* .. of each row; 0: `dense` */
    int64_t dense; /* bytes of all servers together */
} exchange;

static int64_t between(const tables_maker *m, const exchange *x, int32_t worker, int32_t server)
{
    const tables_layout *l = m->l;
    if (x->bytes) return part(l->rows[(int64_t)worker * l->servers + server], x->share) * x->bytes;
    return x->dense / l->servers + (server < x->dense % l->servers);
}

/* Sends first, then receives, each by peer. */
static void add_messages(const tables_maker *m, const exchange *x, luo_slot *slot,
                         luo_message *message)
{
    const tables_layout *l = m->l;
    const int32_t own = l->server_of[m->worker];
    for (int send = 1; send >= 0; send--)
        for (int32_t peer = 0; peer < l->n; peer++) {
            const int32_t server = l->server_of[peer];
            const bool as_worker = (send != 0) == x->up; /* the device's own part in it */
            if (peer == m->worker || (as_worker ? server : own) == TABLES_NONE) continue;
            const int64_t bytes =
                as_worker ? between(m, x, m->worker, server) : between(m, x, peer, own);
            if (bytes == 0) continue;
            message[slot->nmessage++] = (luo_message){l->dev[peer], send != 0, bytes, bytes};
        }
}

static int32_t messages(tables_maker *m, const exchange *x, int32_t dep)
{
    const tables_layout *l = m->l;
    luo_message *message = LUO_NEW_N(m->arena, luo_message, l->n + l->servers);
    luo_slot *slot = &m->slot[m->nslot];
    int64_t sent = 0;
    m->failed |= !message;
    if (!message) return TABLES_NONE;
    *slot = (luo_slot){.group = -1, .message = message};
    add_messages(m, x, slot, message);
    for (int32_t i = 0; i < slot->nmessage; i++)
        if (message[i].send) sent += message[i].bytes;
    return tables_add(m, x->op,
                      (luo_instr){.kind = LUO_INSTR_P2P,
                                  .stream = LUO_STREAM_DP,
                                  .lane = (uint8_t)x->lane,
                                  .slot = m->nslot++,
                                  .bytes = sent},
                      dep, TABLES_NONE);
}

/* Rows that a server is asked for by all workers, its own included. */
static double served(const tables_maker *m, double share)
{
    const tables_layout *l = m->l;
    const int32_t own = l->server_of[m->worker];
    int64_t rows = 0;
    for (int32_t w = 0; own != TABLES_NONE && w < l->n; w++)
        rows += part(l->rows[(int64_t)w * l->servers + own], share);
    return (double)rows;
}

/* ---- collectives ---- */

int32_t tables_collective(tables_maker *m, const char *op, luo_coll coll, tables_caller caller,
                          double bytes, const int64_t *counts, int32_t dep)
{
    if (m->l->n < 2) return dep;
    m->slot[m->nslot] = (luo_slot){.group = m->group[caller], .counts = counts};
    return tables_add(m, op,
                      (luo_instr){.kind = LUO_INSTR_COLLECTIVE,
                                  .stream = caller == TABLES_MOVES ? LUO_STREAM_TP : LUO_STREAM_DP,
                                  .coll = (uint8_t)coll,
                                  .v = counts != NULL,
                                  .lane = caller == TABLES_ROWS ? 1 : 0,
                                  .slot = m->nslot++,
                                  .bytes = (int64_t)bytes},
                      dep, TABLES_NONE);
}

static int32_t collective(tables_maker *m, const char *op, luo_coll coll, double bytes, int32_t dep)
{
    return tables_collective(m, op, coll, TABLES_ROWS, bytes, NULL, dep);
}

/* ---- before forward ---- */

/* Server: reads rows and writes them into messages. */
static int32_t pull_from_servers(tables_maker *m)
{
    const tables_traffic *t = m->traffic;
    const exchange keys = {
        .op = "rows.keys", .up = true, .lane = ROWS, .share = t->asked, .bytes = t->key_bytes};
    const exchange rows = {.op = "rows.pull",
                           .lane = ROWS,
                           .share = t->pulled,
                           .bytes = row_bytes(m) + t->row_extra_bytes};
    const int32_t asked = messages(m, &keys, TABLES_NONE);
    const int32_t read =
        tables_stream(m, "rows.gather", 2 * served(m, t->pulled) * (double)row_bytes(m), asked);
    return messages(m, &rows, read);
}

static int32_t pull_by_all_to_all(tables_maker *m)
{
    const double touched = (double)m->most_touched, row = (double)row_bytes(m);
    const int32_t asked = collective(m, "rows.keys", LUO_COLL_A2A, 8 * touched, TABLES_NONE);
    const int32_t read = tables_stream(m, "rows.gather", 2 * touched * row, asked);
    return collective(m, "rows.pull", LUO_COLL_A2A, touched * row, read);
}

int32_t tables_pull(tables_maker *m)
{
    switch (m->way->tables) {
    case LUO_TABLES_SERVERS:
    case LUO_TABLES_CACHES:
        return pull_from_servers(m);
    case LUO_TABLES_ALL_TO_ALL:
        return pull_by_all_to_all(m);
    case LUO_TABLES_ALL_GATHER:
    case LUO_TABLES_ALL_REDUCE:
        break;
    }
    return TABLES_NONE;
}

/* ---- after backward: rows ---- */

/* Reads a gradient and a row, writes the row. Answers the bytes. */
static double update_bytes(const tables_maker *m, double rows)
{
    return 3 * rows * (double)row_bytes(m);
}

/* Answers the instruction that has sent them. */
static int32_t push_rows(tables_maker *m)
{
    const double row = (double)row_bytes(m), all = (double)m->l->model->features.rows;
    const int32_t from = m->rows_gradient;
    const exchange push = {.op = "rows.push",
                           .up = true,
                           .lane = ROWS,
                           .share = m->traffic->pushed,
                           .bytes = row_bytes(m) + m->traffic->push_extra_bytes};
    switch (m->way->tables) {
    case LUO_TABLES_SERVERS:
    case LUO_TABLES_CACHES:
        return messages(m, &push, from);
    case LUO_TABLES_ALL_TO_ALL:
        return collective(m, "rows.push", LUO_COLL_A2A, (double)m->most_touched * (row + 8), from);
    case LUO_TABLES_ALL_GATHER:
        return collective(m, "rows.gather_gradients", LUO_COLL_AG,
                          (double)m->all_touched * (row + 8), from);
    case LUO_TABLES_ALL_REDUCE:
        break;
    }
    /* Zeros, and the touched rows among them. */
    const int32_t buffer =
        tables_buffer(m, "d.tables", LUO_BUFFER_GRADIENT, 4,
                      m->l->model->features.rows * luo_model_row_width(m->l->model));
    const int32_t filled =
        tables_stream(m, "d.tables", all * row + 2 * (double)m->l->touched[m->worker] * row, from);
    tables_uses(m, filled, m->rows_buffer, buffer);
    return collective(m, "rows.reduce", LUO_COLL_AR, all * row, filled);
}

static double updated_rows(const tables_maker *m)
{
    switch (m->way->tables) {
    case LUO_TABLES_SERVERS:
        return served(m, 1);
    case LUO_TABLES_CACHES: /* and those of its own that the cache has */
        return served(m, m->traffic->pushed) + (double)m->l->touched[m->worker];
    case LUO_TABLES_ALL_TO_ALL:
        return (double)m->most_touched;
    case LUO_TABLES_ALL_GATHER:
        return (double)m->all_touched;
    case LUO_TABLES_ALL_REDUCE:
        break;
    }
    return (double)m->l->model->features.rows;
}

/* ---- after backward: the dense part ---- */

/* One fused kernel, which moves what the optimizer of transformers does (docs/cost-model.md), but
 * without its 40 launches a step: these models have a dozen tensors. */
static int32_t optimize(tables_maker *m, const char *op, int64_t parameters, int32_t dep)
{
    return tables_stream(m, op, 34.0 * (double)parameters, dep);
}

static void reduce_dense(tables_maker *m)
{
    const int32_t last = tables_reduce(m);
    int64_t all = 0;
    for (int32_t i = 0; i < m->layers; i++) all += tables_kept(m, i);
    optimize(m, "dense.update", all, last); /* the last of its lane ends after all others */
}

/* Layers of the top together, whose gradients come first, then those of the bottom: a message for
 * each layer would be a small one. */
static void serve_dense(tables_maker *m)
{
    int32_t pushed[2];
    int64_t n[2] = {0, 0};
    const bool server = m->l->server_of[m->worker] != TABLES_NONE;
    const int32_t last[2] = {m->weights[m->bottom], m->weights[0]};
    const int parts = m->bottom > 0 ? 2 : 1;
    for (int32_t i = 0; i < m->layers; i++) n[i < m->bottom] += tables_weights(&m->layer[i]);
    for (int k = 0; k < parts; k++) {
        const exchange push = {.op = "dense.push", .up = true, .lane = DENSE, .dense = 4 * n[k]};
        pushed[k] = messages(m, &push, last[k]);
    }
    for (int k = 0; k < parts; k++) {
        const exchange pull = {.op = "dense.pull", .lane = DENSE, .dense = 4 * n[k]};
        const int64_t own = (n[k] + m->l->servers - 1) / m->l->servers;
        messages(m, &pull, server ? optimize(m, "dense.update", own, pushed[k]) : pushed[k]);
    }
}

void tables_push(tables_maker *m)
{
    const int32_t sent = push_rows(m);
    if (m->way->dense == LUO_TABLES_SERVERS)
        serve_dense(m);
    else
        reduce_dense(m);
    tables_stream(m, "rows.update", update_bytes(m, updated_rows(m)), sent);
}
