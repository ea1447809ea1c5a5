/* client.c: a worker and its servers. */
#include <stdlib.h>
#include <string.h>

#include "exec/sync/sync_rank.h"

int32_t luo_sync_client_server(const luo_sync_client *client, uint64_t key)
{
    const luo_sync_client *sync_client = client;
    if (sync_client->home) return sync_client->home[key];
    const luo_exchange_table table = {.vocab = sync_client->vocab,
                                      .servers = sync_client->rank->servers,
                                      .shard = (luo_exchange_shard)sync_client->rank->job.shard};
    return luo_exchange_server(&table, (int64_t)key);
}

/* A message in bytes. */
typedef struct packet {
    unsigned char *at;
    size_t n;
} packet;

static void put(packet *p, const void *from, size_t bytes)
{
    memcpy(p->at + p->n, from, bytes);
    p->n += bytes;
}

/* Where each key of a list lies. NULL: out of memory. */
static int32_t *servers_of(const luo_sync_client *client, const uint64_t *keys, int32_t n)
{
    int32_t *at = malloc(((size_t)n + 1) * sizeof *at);
    for (int32_t i = 0; at && i < n; i++) at[i] = luo_sync_client_server(client, keys[i]);
    return at;
}

static void send_two(luo_sync_client *client, int32_t server, int tag, const int64_t head[],
                     const packet *body)
{
    const int32_t to = client->rank->workers + server;
    luo_sync_send(client->rank, to, tag, head, LUO_SYNC_HEAD * sizeof *head);
    if (tag == LUO_SYNC_PUSH) luo_sync_die(client->rank);
    luo_sync_send(client->rank, to, LUO_SYNC_BODY, body->at, body->n);
}

/* The rows that lie on one server: keys, counts, gradients, one kind after the other. */
static void push_to(luo_sync_client *client, int32_t server, int tag,
                    const luo_het_message *message, const int32_t *at, packet *body)
{
    const size_t row = (size_t)message->width * sizeof(double);
    int64_t head[LUO_SYNC_HEAD] = {0, client->clock, message->width, 0};
    body->n = 0;
    for (int32_t i = 0; i < message->push.n; i++)
        if (at[i] == server) put(body, &message->push.keys[i], sizeof *message->push.keys);
    head[0] = (int64_t)(body->n / sizeof *message->push.keys);
    for (int32_t i = 0; i < message->push.n; i++)
        if (at[i] == server) put(body, &message->push.counts[i], sizeof *message->push.counts);
    for (int32_t i = 0; i < message->push.n; i++)
        if (at[i] == server) put(body, (const char *)message->push.grads + (size_t)i * row, row);
    if (head[0] == 0 && tag != LUO_SYNC_INIT) return;
    if (tag == LUO_SYNC_PUSH && server != client->rank->rank) client->pushed_away += head[0];
    client->involved[server] = true;
    client->rank->bytes[LUO_SYNC_PUSHED] += (int64_t)(sizeof head + body->n);
    client->rank->payload[LUO_SYNC_PUSHED] += head[0] * (int64_t)(sizeof *message->push.keys + row);
    send_two(client, server, tag, head, body);
}

static luo_status push(luo_sync_client *client, int tag, const luo_het_message *message,
                       luo_err *err)
{
    const size_t row = 2 * sizeof(int64_t) + (size_t)message->width * sizeof(double);
    int32_t *at = servers_of(client, message->push.keys, message->push.n);
    packet body = {.at = malloc((size_t)message->push.n * row + 1)};
    const bool good = at && body.at;
    for (int32_t s = 0; good && s < client->rank->servers; s++)
        push_to(client, s, tag, message, at, &body);
    free(at);
    free(body.at);
    return good ? LUO_OK : luo_err_nomem(err);
}

static void ask(luo_sync_client *client, int32_t server, const luo_het_message *message,
                const int32_t *at, packet *body)
{
    int64_t head[LUO_SYNC_HEAD] = {0, client->paced ? client->clock : -1, message->ask.bound,
                                   message->width};
    body->n = 0;
    for (int32_t i = 0; i < message->ask.n; i++)
        if (at[i] == server) put(body, &message->ask.keys[i], sizeof *message->ask.keys);
    head[0] = (int64_t)(body->n / sizeof *message->ask.keys);
    for (int32_t i = 0; i < message->ask.n; i++)
        if (at[i] == server) put(body, &message->ask.versions[i], sizeof *message->ask.versions);
    client->rank->bytes[LUO_SYNC_ASKED] += (int64_t)(sizeof head + body->n);
    client->rank->payload[LUO_SYNC_ASKED] += head[0] * (int64_t)sizeof *message->ask.keys;
    send_two(client, server, LUO_SYNC_PULL, head, body);
}

static const void *take(packet *p, size_t bytes)
{
    const void *from = p->at + p->n;
    p->n += bytes;
    return from;
}

/* The answer: seconds it was held back, then versions, given and values of the keys asked. */
static void take_answer(luo_sync_client *client, int32_t server, const luo_het_message *message,
                        const int32_t *at, packet *body)
{
    const size_t row = (size_t)message->width * sizeof(double);
    double queued_s;
    body->n = 0;
    memcpy(&queued_s, take(body, sizeof queued_s), sizeof queued_s);
    if (queued_s > client->queued_s) client->queued_s = queued_s;
    for (int32_t i = 0; i < message->ask.n; i++)
        if (at[i] == server) {
            int64_t pair[2];
            memcpy(pair, take(body, sizeof pair), sizeof pair);
            message->ask.versions[i] = pair[0];
            message->ask.given[i] = pair[1] != 0;
            const void *values = take(body, row);
            if (!message->ask.given[i]) continue;
            memcpy((char *)message->ask.values + (size_t)i * row, values, row);
            client->rank->payload[LUO_SYNC_PULLED] += (int64_t)row;
            if (server != client->rank->rank) client->pulled_away++;
        }
}

luo_status luo_sync_client_pull(luo_sync_client *client, const luo_het_message *message,
                                luo_err *err)
{
    const size_t row = 2 * sizeof(int64_t) + (size_t)message->width * sizeof(double);
    int32_t *at = servers_of(client, message->ask.keys, message->ask.n);
    packet body = {.at = malloc((size_t)message->ask.n * row + sizeof(double))};
    const bool good = at && body.at;
    client->queued_s = 0;
    for (int32_t i = 0; good && i < message->ask.n; i++) client->involved[at[i]] = true;
    for (int32_t s = 0; good && s < client->rank->servers; s++)
        if (client->paced || client->involved[s]) ask(client, s, message, at, &body);
    for (int32_t s = 0; good && s < client->rank->servers; s++) {
        const int32_t from = client->rank->workers + s;
        if (!client->paced && !client->involved[s]) continue;
        const size_t bytes = luo_sync_probe(client->rank, from, LUO_SYNC_ANSWER);
        luo_sync_receive(client->rank, from, LUO_SYNC_ANSWER, body.at, bytes);
        client->rank->bytes[LUO_SYNC_PULLED] += (int64_t)bytes;
        take_answer(client, s, message, at, &body);
    }
    free(at);
    free(body.at);
    return good ? LUO_OK : luo_err_nomem(err);
}

luo_status luo_sync_client_exchange(void *ctx, const luo_het_message *message, luo_err *err)
{
    luo_sync_client *client = ctx;
    memset(client->involved, 0, (size_t)client->rank->servers * sizeof *client->involved);
    if (message->push.n > 0) LUO_TRY(push(client, LUO_SYNC_PUSH, message, err));
    /* Who is not paced asks without keys too: the answer says that what it pushed is there. */
    if (client->paced && message->ask.n == 0) return LUO_OK;
    return luo_sync_client_pull(client, message, err);
}

luo_status luo_sync_client_open(luo_sync_rank *rank, int32_t width, luo_sync_client *out,
                                luo_err *err)
{
    bool *involved = LUO_NEW_N(rank->arena, bool, rank->servers);
    if (!involved) return luo_err_nomem(err);
    *out = (luo_sync_client){
        .rank = rank, .width = width, .vocab = rank->served, .involved = involved};
    return LUO_OK;
}

void luo_sync_client_tell(luo_sync_client *client, int tag)
{
    for (int32_t s = 0; s < client->rank->servers; s++)
        luo_sync_send(client->rank, client->rank->workers + s, tag, NULL, 0);
}

/* All keys there are. */
static uint64_t *all_keys(luo_sync_client *client)
{
    uint64_t *keys = malloc((size_t)client->vocab * sizeof *keys);
    for (int64_t i = 0; keys && i < client->vocab; i++) keys[i] = (uint64_t)i;
    return keys;
}

luo_status luo_sync_client_init(luo_sync_client *client, const double *rows, luo_err *err)
{
    uint64_t *keys = all_keys(client);
    int64_t *counts = calloc((size_t)client->vocab, sizeof *counts);
    const luo_het_message message = {
        .width = client->width,
        .push = {.n = (int32_t)client->vocab, .keys = keys, .counts = counts, .grads = rows}};
    const luo_status st =
        keys && counts ? push(client, LUO_SYNC_INIT, &message, err) : luo_err_nomem(err);
    free(keys);
    free(counts);
    return st;
}

luo_status luo_sync_client_all(luo_sync_client *client, double *rows, int64_t *versions,
                               luo_err *err)
{
    const size_t n = (size_t)client->vocab;
    const bool paced = client->paced;
    uint64_t *keys = all_keys(client);
    bool *given = malloc(n * sizeof *given);
    for (size_t i = 0; i < n; i++) versions[i] = -1;
    const luo_het_message message = {
        .width = client->width,
        .ask = {
            .n = (int32_t)n, .keys = keys, .versions = versions, .given = given, .values = rows}};
    client->paced = false;
    memset(client->involved, 0, (size_t)client->rank->servers * sizeof *client->involved);
    const luo_status st =
        keys && given ? luo_sync_client_pull(client, &message, err) : luo_err_nomem(err);
    client->paced = paced;
    free(keys);
    free(given);
    return st;
}
