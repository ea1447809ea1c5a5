/* leader.c: rows of experts, and their counts, through the first device of each node: it gathers
 * those of its node, exchanges with other leaders, and deals out what came for its node.
 *
 * What a device of the node has before the exchange, and what it has behind it, is a list by rank:
 * of home by the rank of the experts, there by sender. A leader has both lists of its node as
 * tables [place][rank]. Rows lie gathered as the first table; then by node of the rank, so that
 * what goes to another leader is one run; there they arrive as [rank][place] of the other table,
 * and are dealt out as [place][rank]. Memory: two runs of all rows of the node. */
#include <limits.h>
#include <string.h>

#include "exec/host/moe/trade.h"

struct host_led {        /* elements */
    int *before, *after; /* a leader: [place][rank]; others: by rank, of their own */
    int *told;           /* both lists of a device; a leader: of all of its node */
    int *sums, *starts;  /* room for a table */
    MPI_Request *req;    /* room for one a device of the node */
    host_comm *gather, *exchange; /* steps whose messages are the two runs */
    int64_t room;                 /* of each run */
};

/* ---- memory ---- */

/* All devices' rows, were all for experts of this node. */
static int64_t most_of_node(const luo_bound_trade *t)
{
    return t->n * (t->counts ? t->expert[t->n] : t->own);
}

static luo_status open_led(luo_job *job, host_comm *comm, luo_err *err)
{
    const luo_bound_trade *t = comm->b->trade;
    const int64_t table = (int64_t)t->per_node * t->n;
    struct host_led *led = comm->led = LUO_NEW(job->arena, struct host_led);
    if (!led) return luo_err_nomem(err);
    led->before = LUO_NEW_N(job->arena, int, table);
    led->after = LUO_NEW_N(job->arena, int, table);
    led->told = LUO_NEW_N(job->arena, int, 2 * table);
    led->sums = LUO_NEW_N(job->arena, int, table);
    led->starts = LUO_NEW_N(job->arena, int, table);
    led->req = LUO_NEW_N(job->arena, MPI_Request, t->per_node);
    if (!led->before || !led->after || !led->told || !led->sums || !led->starts || !led->req)
        return luo_err_nomem(err);
    led->gather = comm;
    led->room = most_of_node(t);
    return LUO_OK;
}

/* A leader needs none in the last step: it deals out of the second run. */
static int64_t elements_of(const luo_bound_trade *t, const struct host_led *led)
{
    if (t->step == LUO_TRADE_LEADERS || (t->leads && t->step == LUO_TRADE_GATHER)) return led->room;
    if (t->leads) return 0;
    if (t->step == LUO_TRADE_GATHER) return t->back ? t->most : 0;
    return t->counts ? led->room : t->back ? 0 : t->most;
}

luo_status host_bind_led(luo_job *job, host_comm *comm, luo_err *err)
{
    const luo_bound_trade *t = comm->b->trade;
    comm->counts = LUO_NEW_N(job->arena, int, 2 * (int64_t)t->n);
    comm->starts = LUO_NEW_N(job->arena, int, 2 * (int64_t)t->n);
    if (!comm->counts || !comm->starts) return luo_err_nomem(err);
    if (t->step == LUO_TRADE_GATHER) LUO_TRY(open_led(job, comm, err));
    struct host_led *led = comm->led = job->op[t->first].comm->led;
    if (t->step == LUO_TRADE_LEADERS) led->exchange = comm;
    if (led->room > INT_MAX)
        return luo_err_set(err, LUO_E2BIG,
                           "rows of the experts of a node could be over 2^31 elements; deal the "
                           "experts to more devices, or use moe_exchange: flat.");
    comm->send_bytes = elements_of(t, led) * (int64_t)job->x->k->elem;
    return LUO_OK;
}

/* ---- how many ---- */

static int64_t sum_of(const int *list, int32_t n)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < n; i++) sum += list[i];
    return sum;
}

/* Counts are as many as there are experts. */
static void fill_tables(const luo_bound_trade *t, struct host_led *led)
{
    const int32_t first = t->rank - t->rank % t->per_node;
    for (int32_t i = 0; i < t->per_node; i++)
        for (int32_t r = 0; r < t->n; r++) {
            led->before[i * t->n + r] = (int)(t->expert[r + 1] - t->expert[r]);
            led->after[i * t->n + r] = (int)(t->expert[first + i + 1] - t->expert[first + i]);
        }
}

static luo_status check_tables(luo_rank *rank, const luo_bound_trade *t, const struct host_led *led)
{
    const int32_t n = t->per_node * t->n;
    if (sum_of(led->before, n) <= led->room && sum_of(led->after, n) <= led->room) return LUO_OK;
    return luo_err_set(&rank->err, LUO_EPEER,
                       "there are more rows of experts than could be: communication was given up.");
}

/* A leader gets both lists of every device of its node, before their rows: what is awaited is some
 * numbers, and all of a node come here in the same order. */
static luo_status hear(luo_rank *rank, const host_pending *pending, struct host_led *led)
{
    const host_comm *comm = pending->op->comm;
    const luo_bound_trade *t = comm->b->trade;
    const size_t bytes = (size_t)t->n * sizeof(int);
    led->req[0] = MPI_REQUEST_NULL;
    for (int32_t i = 1; i < t->per_node; i++)
        LUO_TRY(host_mpi(&rank->err,
                         MPI_Irecv(led->told + 2 * i * t->n, 2 * t->n, MPI_INT,
                                   comm->b->peer[t->message[i]], host_tag_of(rank, pending),
                                   comm->comm, &led->req[i]),
                         "a receive"));
    LUO_TRY(host_wait(rank->x, rank, t->per_node, led->req, &rank->err));
    for (int32_t i = 1; i < t->per_node; i++) {
        memcpy(led->before + i * t->n, led->told + 2 * i * t->n, bytes);
        memcpy(led->after + i * t->n, led->told + (2 * i + 1) * t->n, bytes);
    }
    return check_tables(rank, t, led);
}

static luo_status tell(luo_rank *rank, const host_pending *pending, struct host_led *led)
{
    const host_comm *comm = pending->op->comm;
    const luo_bound_trade *t = comm->b->trade;
    memcpy(led->told, led->before, (size_t)t->n * sizeof(int));
    memcpy(led->told + t->n, led->after, (size_t)t->n * sizeof(int));
    LUO_TRY(host_mpi(&rank->err,
                     MPI_Isend(led->told, 2 * t->n, MPI_INT, comm->b->peer[0],
                               host_tag_of(rank, pending), comm->comm, led->req),
                     "a send"));
    return host_wait(rank->x, rank, 1, led->req, &rank->err);
}

static luo_status count(luo_rank *rank, const host_pending *pending, struct host_led *led)
{
    const luo_bound_trade *t = pending->op->comm->b->trade;
    if (t->counts && t->leads) {
        fill_tables(t, led);
        return LUO_OK;
    }
    host_count_rows(rank, t, pending->task, t->back ? led->after : led->before,
                    t->back ? led->before : led->after);
    if (t->counts) return LUO_OK;
    return t->leads ? hear(rank, pending, led) : tell(rank, pending, led);
}

/* ---- messages inside the node ---- */

/* What place i of the node sends or gets; nothing is no message. Pre: not its own place. */
static luo_status begin_message(luo_rank *rank, host_pending *pending, int32_t i, bool send,
                                char *at, int64_t elements)
{
    const host_comm *comm = pending->op->comm;
    const int32_t k = comm->b->trade->message[i];
    if (elements == 0) return LUO_OK;
    const int tag = host_tag_of(rank, pending), peer = comm->b->peer[k];
    return host_mpi(&rank->err,
                    send ? MPI_Isend(at, (int)elements, rank->x->type, peer, tag, comm->comm,
                                     &pending->req[k])
                         : MPI_Irecv(at, (int)elements, rank->x->type, peer, tag, comm->comm,
                                     &pending->req[k]),
                    send ? "a send" : "a receive");
}

/* Of a leader, with all others of its node: one run as `table` says, its own part first. */
static luo_status begin_node(luo_rank *rank, host_pending *pending, bool send, char *run,
                             const int *table)
{
    const luo_bound_trade *t = pending->op->comm->b->trade;
    for (int32_t i = 0; i < t->per_node; i++) {
        const int64_t elements = sum_of(table + i * t->n, t->n);
        if (i > 0) LUO_TRY(begin_message(rank, pending, i, send, run, elements));
        run += (size_t)elements * rank->x->k->elem;
    }
    return LUO_OK;
}

luo_status host_begin_gather(luo_rank *rank, host_pending *pending)
{
    host_comm *comm = pending->op->comm;
    const luo_bound_trade *t = comm->b->trade;
    struct host_led *led = comm->led;
    char *from = host_buf(rank, t->from, pending->task);
    for (int i = 0; i < comm->nreq; i++) pending->req[i] = MPI_REQUEST_NULL;
    LUO_TRY(count(rank, pending, led));
    const int64_t own = sum_of(led->before, t->n);
    if (t->back)
        host_reorder_rows(rank, t, pending->task, comm->message, from);
    else if (t->leads)
        memcpy(comm->message, from, (size_t)own * rank->x->k->elem);
    if (t->leads) return begin_node(rank, pending, false, comm->message, led->before);
    return begin_message(rank, pending, 0, true, t->back ? comm->message : from, own);
}

/* ---- among leaders ---- */

/* Sums of a table over the ranks of every node: [place][node]. */
static void sum_nodes(const luo_bound_trade *t, const int *table, int *sums)
{
    for (int32_t i = 0; i < t->per_node; i++)
        for (int32_t b = 0; b < t->nodes; b++)
            sums[i * t->nodes + b] =
                (int)sum_of(table + i * t->n + b * t->per_node, t->per_node);
}

static void sum_places(const luo_bound_trade *t, const int *sums, int *by_node)
{
    for (int32_t b = 0; b < t->nodes; b++) by_node[b] = 0;
    for (int32_t i = 0; i < t->per_node; i++)
        for (int32_t b = 0; b < t->nodes; b++) by_node[b] += sums[i * t->nodes + b];
}

luo_status host_begin_leaders(luo_rank *rank, host_pending *pending)
{
    host_comm *comm = pending->op->comm;
    const luo_bound_trade *t = comm->b->trade;
    struct host_led *led = comm->led;
    sum_nodes(t, led->after, led->sums);
    sum_places(t, led->sums, comm->counts + t->nodes);
    sum_nodes(t, led->before, led->sums);
    sum_places(t, led->sums, comm->counts);
    host_transpose_rows(rank->x->k->elem, led->sums, t->per_node, t->nodes, led->starts,
                        led->gather->message, comm->message);
    return host_exchange_rows(rank, pending, t->nodes, comm->message, led->gather->message);
}

/* ---- out of leaders ---- */

luo_status host_begin_scatter(luo_rank *rank, host_pending *pending)
{
    host_comm *comm = pending->op->comm;
    const luo_bound_trade *t = comm->b->trade;
    struct host_led *led = comm->led;
    for (int i = 0; i < comm->nreq; i++) pending->req[i] = MPI_REQUEST_NULL;
    if (!t->leads)
        return begin_message(rank, pending, 0, false,
                             t->back ? host_buf(rank, t->to, pending->task) : comm->message,
                             sum_of(led->after, t->n));
    host_transpose_counts(led->after, t->per_node, t->n, led->sums);
    host_transpose_rows(rank->x->k->elem, led->sums, t->n, t->per_node, led->starts,
                        led->gather->message, led->exchange->message);
    return begin_node(rank, pending, true, led->exchange->message, led->after);
}

void host_scatter_arrived(luo_rank *rank, const host_pending *pending)
{
    const host_comm *comm = pending->op->comm;
    const luo_bound_trade *t = comm->b->trade;
    char *from = t->leads ? comm->led->exchange->message : comm->message;
    char *to = host_buf(rank, t->to, pending->task);
    if (t->counts)
        host_place_counts(rank, t, pending->task, from);
    else if (!t->back)
        host_reorder_rows(rank, t, pending->task, from, to);
    else if (t->leads)
        memcpy(to, from, (size_t)sum_of(comm->led->after, t->n) * rank->x->k->elem);
}
