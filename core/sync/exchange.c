#include "core/sync/exchange.h"

#include <math.h>
#include <stdlib.h>

double luo_exchange_ring(int64_t workers, double bytes, const luo_exchange_net *net)
{
    const double w = (double)workers;
    return 2 * (w - 1) * (net->alpha_s + bytes / (w * net->bytes_per_s));
}

double luo_exchange_ring_bytes(int64_t workers, double bytes, int64_t rounds)
{
    return 2.0 * (double)(workers - 1) * bytes * (double)rounds / (double)workers;
}

int32_t luo_exchange_server(const luo_exchange_table *table, int64_t key)
{
    if (table->shard == LUO_EXCHANGE_MOD) return (int32_t)(key % table->servers);
    /* Pieces of one size, the first vocab mod S of them one key longer. */
    const int64_t size = table->vocab / table->servers, longer = table->vocab % table->servers;
    if (key < longer * (size + 1)) return (int32_t)(key / (size + 1));
    return (int32_t)(longer + (key - longer * (size + 1)) / size);
}

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

luo_status luo_exchange_open(luo_arena *arena, int32_t servers, int32_t workers,
                             luo_exchange_bytes *out, luo_err *err)
{
    if (servers < 1)
        return luo_err_set(err, LUO_EUSAGE,
                           "parameters lie on %d servers; at least one server is expected.",
                           servers);
    luo_exchange_bytes bytes = {.servers = servers, .workers = workers};
    bytes.in = LUO_NEW_N(arena, double, servers);
    bytes.out = LUO_NEW_N(arena, double, servers);
    bytes.moved = LUO_NEW_N(arena, double, workers);
    if (!bytes.in || !bytes.out || !bytes.moved) return luo_err_nomem(err);
    *out = bytes;
    return LUO_OK;
}

/* So many rows between a worker and a server. */
static void add(luo_exchange_bytes *bytes, int64_t width, int32_t worker, int32_t server,
                double rows)
{
    const double row = 4.0 * (double)width;
    bytes->in[server] += rows * (row + 8 + 8);
    bytes->out[server] += rows * row;
    bytes->moved[worker] += rows * (row + 8 + 8);
    bytes->push += rows * (row + 8);
    bytes->request += rows * 8;
    bytes->pull += rows * row;
}

luo_status luo_exchange_add_keys(luo_exchange_bytes *bytes, const luo_exchange_table *table,
                                 int32_t worker, int64_t *keys, int64_t n, int64_t times,
                                 luo_err *err)
{
    for (int64_t i = 0; i < n; i++)
        if (keys[i] < 0 || keys[i] >= table->vocab)
            return luo_err_set(err, LUO_EINPUT, "key %lld of worker %d; 0 to %lld is expected.",
                               (long long)keys[i], worker, (long long)table->vocab - 1);
    if (n > 0) qsort(keys, (size_t)n, sizeof *keys, by_value);
    for (int64_t i = 0; i < n; i++)
        if (i == 0 || keys[i] != keys[i - 1])
            add(bytes, table->width, worker, luo_exchange_server(table, keys[i]), (double)times);
    return LUO_OK;
}

void luo_exchange_add_rows(luo_exchange_bytes *bytes, const luo_exchange_table *table,
                           int32_t worker, int64_t rows, int64_t times)
{
    /* Either way of sharding leaves the first servers with one row more. */
    for (int32_t s = 0; s < bytes->servers; s++)
        add(bytes, table->width, worker, s,
            (double)(rows / bytes->servers + (s < rows % bytes->servers)) * (double)times);
}

double luo_exchange_time(const luo_exchange_bytes *bytes, const luo_exchange_net *net)
{
    double slowest = 0;
    for (int32_t s = 0; s < bytes->servers; s++)
        slowest = fmax(slowest, fmax(bytes->in[s], bytes->out[s]));
    for (int32_t w = 0; w < bytes->workers; w++) slowest = fmax(slowest, bytes->moved[w]);
    return 2 * net->alpha_s + slowest / net->bytes_per_s;
}

bool luo_exchange_table_by_ring(const luo_exchange_bytes *round, const luo_exchange_table *table,
                                const luo_exchange_net *net)
{
    const double bytes = 4.0 * (double)table->vocab * (double)table->width;
    return luo_exchange_ring(round->workers, bytes, net) < luo_exchange_time(round, net);
}
