/* server.c: a parameter server: rows that are added to and read, and the clock rule, which holds
 * back pulls of workers that are too far ahead. */
#include <stdlib.h>
#include <string.h>

#include "core/base/vec.h"
#include "core/sync/clock.h"
#include "exec/sync/sync_rank.h"

typedef struct packet { /* a message of a worker: its head, and its body */
    int64_t head[LUO_SYNC_HEAD];
    unsigned char *body;
    size_t bytes;
    bool waits;     /* a pull that is held back, a push that is not added yet */
    double since_s; /* of the pull */
} packet;

typedef struct server {
    luo_sync_rank *rank;
    luo_het_store store;
    luo_clock clock;
    bool orders;         /* bsp: what an iteration brings is added in the order of workers */
    packet *pull, *push; /* by worker */
    int64_t *log;        /* LUO_SYNC_DID_WORDS each */
    int64_t nlog, cap_log;
    int64_t gap; /* largest of clocks when one was released */
    int32_t left;
    bool ended;
} server;

static luo_status log_add(server *s, int64_t what, int64_t worker, int64_t iteration, luo_err *err)
{
    const int64_t words[LUO_SYNC_DID_WORDS] = {what, worker, iteration};
    if (!s->rank->job.verify || s->rank->job.embed != LUO_SYNC_NO_EMBED) return LUO_OK;
    for (int i = 0; i < LUO_SYNC_DID_WORDS; i++) {
        if (!LUO_VEC_ROOM(s->log, s->nlog, s->cap_log)) return luo_err_nomem(err);
        s->log[s->nlog++] = words[i];
    }
    return LUO_OK;
}

static luo_status receive(server *s, int32_t worker, int tag, packet *p, luo_err *err)
{
    luo_sync_receive(s->rank, worker, tag, p->head, sizeof p->head);
    p->bytes = luo_sync_probe(s->rank, worker, LUO_SYNC_BODY);
    free(p->body);
    p->body = malloc(p->bytes + 1);
    if (!p->body) return luo_err_nomem(err);
    luo_sync_receive(s->rank, worker, LUO_SYNC_BODY, p->body, p->bytes);
    return LUO_OK;
}

/* ---- pushes ---- */

static luo_status add(server *s, int32_t worker, packet *p, luo_err *err)
{
    const size_t n = (size_t)p->head[0];
    const luo_het_message message = {
        .width = (int32_t)p->head[2],
        .push = {.n = (int32_t)n,
                 .keys = (const uint64_t *)(const void *)p->body,
                 .counts = (const int64_t *)(const void *)(p->body + 8 * n),
                 .grads = (const double *)(const void *)(p->body + 16 * n)}};
    p->waits = false;
    LUO_TRY(luo_het_store_exchange(&s->store, &message, err));
    return log_add(s, LUO_SYNC_DID_ADD, worker, p->head[1], err);
}

static luo_status on_push(server *s, int32_t worker, luo_err *err)
{
    packet *p = &s->push[worker];
    LUO_TRY(receive(s, worker, LUO_SYNC_PUSH, p, err));
    p->waits = s->orders;
    return s->orders ? LUO_OK : add(s, worker, p, err);
}

static luo_status add_in_order(server *s, luo_err *err)
{
    for (int32_t w = 0; w < s->rank->workers; w++)
        if (s->push[w].waits) LUO_TRY(add(s, w, &s->push[w], err));
    return LUO_OK;
}

static luo_status on_init(server *s, int32_t worker, luo_err *err)
{
    packet *p = &s->push[worker];
    LUO_TRY(receive(s, worker, LUO_SYNC_INIT, p, err));
    const int64_t nlog = s->nlog;
    LUO_TRY(add(s, worker, p, err));
    s->nlog = nlog; /* it is nobody's gradient */
    return LUO_OK;
}

/* ---- pulls ---- */

static luo_status answer_all(server *s, const packet *p, unsigned char *reply, luo_err *err)
{
    const size_t n = (size_t)p->head[0], width = (size_t)p->head[3];
    const size_t row = 16 + 8 * width;
    int64_t *versions = malloc(n * 8 + 8);
    bool *given = malloc(n + 1);
    double *values = calloc(n * width + 1, 8);
    luo_het_message message = {.width = (int32_t)width,
                               .ask = {.n = (int32_t)n,
                                       .keys = (const uint64_t *)(const void *)p->body,
                                       .bound = p->head[2],
                                       .versions = versions,
                                       .given = given,
                                       .values = values}};
    luo_status st = versions && given && values ? LUO_OK : luo_err_nomem(err);
    if (st == LUO_OK) {
        memcpy(versions, p->body + 8 * n, 8 * n);
        st = luo_het_store_exchange(&s->store, &message, err);
    }
    for (size_t i = 0; st == LUO_OK && i < n; i++) {
        const int64_t pair[2] = {versions[i], given[i]};
        memcpy(reply + i * row, pair, sizeof pair);
        memcpy(reply + i * row + sizeof pair, values + i * width, 8 * width);
    }
    free(versions);
    free(given);
    free(values);
    return st;
}

static luo_status answer(server *s, int32_t worker, packet *p, luo_err *err)
{
    const size_t n = (size_t)p->head[0];
    const size_t bytes = 8 + n * (16 + 8 * (size_t)p->head[3]);
    const double queued_s = p->waits ? luo_sync_now(s->rank) - p->since_s : 0;
    unsigned char *reply = malloc(bytes);
    luo_status st = reply ? answer_all(s, p, reply + 8, err) : luo_err_nomem(err);
    if (st == LUO_OK) {
        memcpy(reply, &queued_s, 8);
        luo_sync_send(s->rank, worker, LUO_SYNC_ANSWER, reply, bytes);
        if (p->head[1] >= 0) st = log_add(s, LUO_SYNC_DID_ANSWER, worker, p->head[1], err);
    }
    free(reply);
    p->waits = false;
    return st;
}

/* Some workers have left and the rest has not: what the rest has pushed may still be under way,
 * for messages are in order only between two ranks. */
static bool is_closing(const server *s)
{
    return s->left > 0 && s->left < s->rank->workers;
}

/* A pull says how many iterations its worker has finished; -1: it asks out of turn, at the start
 * or when it has left; then it wants what all have pushed. */
static luo_status on_pull(server *s, int32_t worker, luo_err *err)
{
    packet *p = &s->pull[worker];
    LUO_TRY(receive(s, worker, LUO_SYNC_PULL, p, err));
    p->waits = p->head[1] >= 0 ? s->clock.state[worker] != LUO_CLOCK_RUNNING : is_closing(s);
    p->since_s = luo_sync_now(s->rank);
    return p->waits ? LUO_OK : answer(s, worker, p, err);
}

/* ---- the clock ---- */

/* Who may start now gets what it has asked for. */
static luo_status release(server *s, luo_err *err)
{
    const int32_t *started;
    const int32_t n = luo_clock_release(&s->clock, &started);
    if (n > 0 && s->orders) LUO_TRY(add_in_order(s, err)); /* bsp: all are there, or none is */
    if (s->clock.living > 0 && s->clock.most - s->clock.least > s->gap)
        s->gap = s->clock.most - s->clock.least;
    for (int32_t i = 0; i < n; i++)
        if (s->pull[started[i]].waits) LUO_TRY(answer(s, started[i], &s->pull[started[i]], err));
    return LUO_OK;
}

static luo_status on_clock(server *s, int32_t worker, luo_err *err)
{
    luo_sync_receive(s->rank, worker, LUO_SYNC_CLOCK, NULL, 0);
    LUO_TRY(luo_clock_finish(&s->clock, worker, err));
    return release(s, err);
}

static luo_status on_leave(server *s, int32_t worker, luo_err *err)
{
    luo_sync_receive(s->rank, worker, LUO_SYNC_LEAVE, NULL, 0);
    luo_clock_leave(&s->clock, worker);
    s->left++;
    LUO_TRY(release(s, err));
    if (s->left < s->rank->workers) return LUO_OK;
    LUO_TRY(add_in_order(s, err));
    for (int32_t w = 0; w < s->rank->workers; w++)
        if (s->pull[w].waits) LUO_TRY(answer(s, w, &s->pull[w], err));
    return LUO_OK;
}

static luo_status on_end(server *s, int32_t worker, luo_err *err)
{
    (void)err;
    luo_sync_receive(s->rank, worker, LUO_SYNC_END, NULL, 0);
    if (s->rank->job.verify && s->rank->job.embed == LUO_SYNC_NO_EMBED)
        luo_sync_send(s->rank, worker, LUO_SYNC_LOG, s->log, (size_t)s->nlog * sizeof *s->log);
    s->ended = true;
    return LUO_OK;
}

/* ---- the whole ---- */

static luo_status serve(server *s, luo_err *err)
{
    static luo_status (*const on[])(server *, int32_t, luo_err *) = {
        [LUO_SYNC_INIT] = on_init,   [LUO_SYNC_PUSH] = on_push,   [LUO_SYNC_PULL] = on_pull,
        [LUO_SYNC_CLOCK] = on_clock, [LUO_SYNC_LEAVE] = on_leave, [LUO_SYNC_END] = on_end};
    enum { KINDS = sizeof on / sizeof *on };
    while (!s->ended) {
        int32_t from;
        const int tag = luo_sync_next(s->rank, &from);
        if (tag <= 0 || tag >= KINDS || !on[tag])
            return luo_err_set(err, LUO_EBUG, "a server got a message of kind %d.", tag);
        LUO_TRY(on[tag](s, from, err));
    }
    return LUO_OK;
}

static luo_status open_server(server *s, luo_err *err)
{
    const luo_sync_rank *rank = s->rank;
    const bool embeds = rank->job.embed != LUO_SYNC_NO_EMBED;
    int64_t staleness = -1;
    if (!embeds && rank->job.mode == LUO_LOOP_BSP) staleness = 0;
    if (!embeds && rank->job.mode == LUO_LOOP_SSP) staleness = rank->job.staleness;
    s->orders = staleness == 0;
    s->store.width = embeds ? LUO_SYNC_EMBED_WIDTH : rank->toy.width;
    s->pull = LUO_NEW_N(rank->arena, packet, rank->workers);
    s->push = LUO_NEW_N(rank->arena, packet, rank->workers);
    if (!s->pull || !s->push) return luo_err_nomem(err);
    return luo_clock_new(rank->arena, rank->workers, staleness, &s->clock, err);
}

luo_status luo_sync_server(luo_sync_rank *rank, luo_err *err)
{
    server s = {.rank = rank};
    luo_status st = open_server(&s, err);
    if (st == LUO_OK) st = serve(&s, err);
    if (st == LUO_OK) st = luo_sync_fact(rank, "gap", (double)s.gap, err);
    for (int32_t w = 0; w < rank->workers && s.pull && s.push; w++) {
        free(s.pull[w].body);
        free(s.push[w].body);
    }
    free(s.log);
    luo_het_store_free(&s.store);
    return st;
}
