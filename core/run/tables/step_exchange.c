/* step_exchange.c: what is sent in a step: rows with their keys and gradients, and gradients of the
 * dense part. Rows travel in lane 1 of stream dp, the dense part in lane 0, so that the two run
 * beside each other, as hybrid training has it. */
#include <math.h>

#include "core/run/tables/step.h"

enum { DENSE = TABLES_DENSE, ROWS = TABLES_ROWS }; /* lanes of messages */

static int64_t row_bytes(const tables_maker *maker)
{
    return 4 * luo_model_row_width(maker->l->model);
}

static bool on_servers(const tables_maker *maker)
{
    return maker->way->tables == LUO_TABLES_SERVERS || maker->way->tables == LUO_TABLES_CACHES;
}

static int64_t part(int64_t rows, double share)
{
    return (int64_t)llround((double)rows * share);
}

int64_t tables_held(const tables_maker *maker)
{
    const tables_layout *layout = maker->l;
    const int64_t rows = layout->model->features.rows, width = luo_model_row_width(layout->model);
    if (maker->way->tables == LUO_TABLES_ALL_TO_ALL)
        return (rows + layout->n - 1) / layout->n * width;
    if (!on_servers(maker)) return rows * width;
    const int64_t cache = maker->way->tables == LUO_TABLES_CACHES ? layout->in->cache.rows : 0;
    const bool server = layout->server_of[maker->worker] != TABLES_NONE;
    return ((server ? (rows + layout->servers - 1) / layout->servers : 0) +
            (cache < rows ? cache : rows)) *
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

static int64_t between(const tables_maker *maker, const exchange *x, int32_t worker, int32_t server)
{
    const tables_layout *layout = maker->l;
    if (x->bytes)
        return part(layout->rows[(int64_t)worker * layout->servers + server], x->share) * x->bytes;
    return x->dense / layout->servers + (server < x->dense % layout->servers);
}

/* Sends first, then receives, each by peer. */
static void add_messages(const tables_maker *maker, const exchange *x, luo_slot *slot,
                         luo_message *message)
{
    const tables_layout *layout = maker->l;
    const int32_t own = layout->server_of[maker->worker];
    for (int send = 1; send >= 0; send--)
        for (int32_t peer = 0; peer < layout->n; peer++) {
            const int32_t server = layout->server_of[peer];
            const bool as_worker = (send != 0) == x->up; /* the device's own part in it */
            if (peer == maker->worker || (as_worker ? server : own) == TABLES_NONE) continue;
            const int64_t bytes =
                as_worker ? between(maker, x, maker->worker, server) : between(maker, x, peer, own);
            if (bytes == 0) continue;
            message[slot->nmessage++] = (luo_message){layout->dev[peer], send != 0, bytes, bytes};
        }
}

static int32_t messages(tables_maker *maker, const exchange *x, int32_t dep)
{
    const tables_layout *layout = maker->l;
    luo_message *message = LUO_NEW_N(maker->arena, luo_message, layout->n + layout->servers);
    luo_slot *slot = &maker->slot[maker->nslot];
    int64_t sent = 0;
    maker->failed |= !message;
    if (!message) return TABLES_NONE;
    *slot = (luo_slot){.group = -1, .message = message};
    add_messages(maker, x, slot, message);
    for (int32_t i = 0; i < slot->nmessage; i++)
        if (message[i].send) sent += message[i].bytes;
    return tables_add(maker, x->op,
                      (luo_instr){.kind = LUO_INSTR_P2P,
                                  .stream = LUO_STREAM_DP,
                                  .lane = (uint8_t)x->lane,
                                  .slot = maker->nslot++,
                                  .bytes = sent},
                      dep, TABLES_NONE);
}

/* Rows that a server is asked for by all workers, its own included. */
static double served(const tables_maker *maker, double share)
{
    const tables_layout *layout = maker->l;
    const int32_t own = layout->server_of[maker->worker];
    int64_t rows = 0;
    for (int32_t w = 0; own != TABLES_NONE && w < layout->n; w++)
        rows += part(layout->rows[(int64_t)w * layout->servers + own], share);
    return (double)rows;
}

/* ---- collectives ---- */

int32_t tables_collective(tables_maker *maker, const char *op, luo_coll coll, tables_caller caller,
                          double bytes, const int64_t *counts, int32_t dep)
{
    if (maker->l->n < 2) return dep;
    maker->slot[maker->nslot] = (luo_slot){.group = maker->group[caller], .counts = counts};
    return tables_add(maker, op,
                      (luo_instr){.kind = LUO_INSTR_COLLECTIVE,
                                  .stream = caller == TABLES_MOVES ? LUO_STREAM_TP : LUO_STREAM_DP,
                                  .coll = (uint8_t)coll,
                                  .v = counts != NULL,
                                  .lane = caller == TABLES_ROWS ? 1 : 0,
                                  .slot = maker->nslot++,
                                  .bytes = (int64_t)bytes},
                      dep, TABLES_NONE);
}

static int32_t collective(tables_maker *maker, const char *op, luo_coll coll, double bytes,
                          int32_t dep)
{
    return tables_collective(maker, op, coll, TABLES_ROWS, bytes, NULL, dep);
}

/* ---- before forward ---- */

/* Server: reads rows and writes them into messages. */
static int32_t pull_from_servers(tables_maker *maker)
{
    const tables_traffic *traffic = maker->traffic;
    const exchange keys = {.op = "rows.keys",
                           .up = true,
                           .lane = ROWS,
                           .share = traffic->asked,
                           .bytes = traffic->key_bytes};
    const exchange rows = {.op = "rows.pull",
                           .lane = ROWS,
                           .share = traffic->pulled,
                           .bytes = row_bytes(maker) + traffic->row_extra_bytes};
    const int32_t asked = messages(maker, &keys, TABLES_NONE);
    const int32_t read = tables_stream(
        maker, "rows.gather", 2 * served(maker, traffic->pulled) * (double)row_bytes(maker), asked);
    return messages(maker, &rows, read);
}

static int32_t pull_by_all_to_all(tables_maker *maker)
{
    const double touched = (double)maker->most_touched, row = (double)row_bytes(maker);
    const int32_t asked = collective(maker, "rows.keys", LUO_COLL_A2A, 8 * touched, TABLES_NONE);
    const int32_t read = tables_stream(maker, "rows.gather", 2 * touched * row, asked);
    return collective(maker, "rows.pull", LUO_COLL_A2A, touched * row, read);
}

int32_t tables_pull(tables_maker *maker)
{
    switch (maker->way->tables) {
    case LUO_TABLES_SERVERS:
    case LUO_TABLES_CACHES:
        return pull_from_servers(maker);
    case LUO_TABLES_ALL_TO_ALL:
        return pull_by_all_to_all(maker);
    case LUO_TABLES_ALL_GATHER:
    case LUO_TABLES_ALL_REDUCE:
        break;
    }
    return TABLES_NONE;
}

/* ---- after backward: rows ---- */

/* Reads a gradient and a row, writes the row. Answers the bytes. */
static double update_bytes(const tables_maker *maker, double rows)
{
    return 3 * rows * (double)row_bytes(maker);
}

/* Answers the instruction that has sent them. */
static int32_t push_rows(tables_maker *maker)
{
    const double row = (double)row_bytes(maker), all = (double)maker->l->model->features.rows;
    const int32_t from = maker->rows_gradient;
    const exchange push = {.op = "rows.push",
                           .up = true,
                           .lane = ROWS,
                           .share = maker->traffic->pushed,
                           .bytes = row_bytes(maker) + maker->traffic->push_extra_bytes};
    switch (maker->way->tables) {
    case LUO_TABLES_SERVERS:
    case LUO_TABLES_CACHES:
        return messages(maker, &push, from);
    case LUO_TABLES_ALL_TO_ALL:
        return collective(maker, "rows.push", LUO_COLL_A2A, (double)maker->most_touched * (row + 8),
                          from);
    case LUO_TABLES_ALL_GATHER:
        return collective(maker, "rows.gather_gradients", LUO_COLL_AG,
                          (double)maker->all_touched * (row + 8), from);
    case LUO_TABLES_ALL_REDUCE:
        break;
    }
    /* Zeros, and the touched rows among them. */
    const int32_t buffer =
        tables_buffer(maker, "d.tables", LUO_BUFFER_GRADIENT, 4,
                      maker->l->model->features.rows * luo_model_row_width(maker->l->model));
    const int32_t filled = tables_stream(
        maker, "d.tables", all * row + 2 * (double)maker->l->touched[maker->worker] * row, from);
    tables_uses(maker, filled, maker->rows_buffer, buffer);
    return collective(maker, "rows.reduce", LUO_COLL_AR, all * row, filled);
}

static double updated_rows(const tables_maker *maker)
{
    switch (maker->way->tables) {
    case LUO_TABLES_SERVERS:
        return served(maker, 1);
    case LUO_TABLES_CACHES: /* and those of its own that the cache has */
        return served(maker, maker->traffic->pushed) + (double)maker->l->touched[maker->worker];
    case LUO_TABLES_ALL_TO_ALL:
        return (double)maker->most_touched;
    case LUO_TABLES_ALL_GATHER:
        return (double)maker->all_touched;
    case LUO_TABLES_ALL_REDUCE:
        break;
    }
    return (double)maker->l->model->features.rows;
}

/* ---- after backward: the dense part ---- */

/* One fused kernel, which moves what the optimizer of transformers does (docs/cost-model.md), but
 * without its 40 launches a step: these models have a dozen tensors. */
static int32_t optimize(tables_maker *maker, const char *op, int64_t parameters, int32_t dep)
{
    return tables_stream(maker, op, 34.0 * (double)parameters, dep);
}

static void reduce_dense(tables_maker *maker)
{
    const int32_t last = tables_reduce(maker);
    int64_t all = 0;
    for (int32_t i = 0; i < maker->layers; i++) all += tables_kept(maker, i);
    optimize(maker, "dense.update", all, last); /* the last of its lane ends after all others */
}

/* Layers of the top together, whose gradients come first, then those of the bottom: a message for
 * each layer would be a small one. */
static void serve_dense(tables_maker *maker)
{
    int32_t pushed[2];
    int64_t n[2] = {0, 0};
    const bool server = maker->l->server_of[maker->worker] != TABLES_NONE;
    const int32_t last[2] = {maker->weights[maker->bottom], maker->weights[0]};
    const int parts = maker->bottom > 0 ? 2 : 1;
    for (int32_t i = 0; i < maker->layers; i++)
        n[i < maker->bottom] += tables_weights(&maker->layer[i]);
    for (int k = 0; k < parts; k++) {
        const exchange push = {.op = "dense.push", .up = true, .lane = DENSE, .dense = 4 * n[k]};
        pushed[k] = messages(maker, &push, last[k]);
    }
    for (int k = 0; k < parts; k++) {
        const exchange pull = {.op = "dense.pull", .lane = DENSE, .dense = 4 * n[k]};
        const int64_t own = (n[k] + maker->l->servers - 1) / maker->l->servers;
        messages(maker, &pull,
                 server ? optimize(maker, "dense.update", own, pushed[k]) : pushed[k]);
    }
}

void tables_push(tables_maker *maker)
{
    const int32_t sent = push_rows(maker);
    if (maker->way->dense == LUO_TABLES_SERVERS)
        serve_dense(maker);
    else
        reduce_dense(maker);
    tables_stream(maker, "rows.update", update_bytes(maker, updated_rows(maker)), sent);
}
