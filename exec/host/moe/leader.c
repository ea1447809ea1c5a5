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
static int64_t most_of_node(const luo_bound_trade *trade)
{
    return trade->n * (trade->counts ? trade->expert[trade->n] : trade->own);
}

static luo_status open_led(luo_job *job, host_comm *comm, luo_err *err)
{
    const luo_bound_trade *trade = comm->b->trade;
    const int64_t table = (int64_t)trade->per_node * trade->n;
    struct host_led *led = comm->led = LUO_NEW(job->arena, struct host_led);
    if (!led) return luo_err_nomem(err);
    led->before = LUO_NEW_N(job->arena, int, table);
    led->after = LUO_NEW_N(job->arena, int, table);
    led->told = LUO_NEW_N(job->arena, int, 2 * table);
    led->sums = LUO_NEW_N(job->arena, int, table);
    led->starts = LUO_NEW_N(job->arena, int, table);
    led->req = LUO_NEW_N(job->arena, MPI_Request, trade->per_node);
    if (!led->before || !led->after || !led->told || !led->sums || !led->starts || !led->req)
        return luo_err_nomem(err);
    led->gather = comm;
    led->room = most_of_node(trade);
    return LUO_OK;
}

/* A leader needs none in the last step: it deals out of the second run. */
static int64_t elements_of(const luo_bound_trade *trade, const struct host_led *led)
{
    if (trade->step == LUO_TRADE_LEADERS || (trade->leads && trade->step == LUO_TRADE_GATHER))
        return led->room;
    if (trade->leads) return 0;
    if (trade->step == LUO_TRADE_GATHER) return trade->back ? trade->most : 0;
    return trade->counts ? led->room : trade->back ? 0 : trade->most;
}

luo_status host_bind_led(luo_job *job, host_comm *comm, luo_err *err)
{
    const luo_bound_trade *trade = comm->b->trade;
    comm->counts = LUO_NEW_N(job->arena, int, 2 * (int64_t)trade->n);
    comm->starts = LUO_NEW_N(job->arena, int, 2 * (int64_t)trade->n);
    if (!comm->counts || !comm->starts) return luo_err_nomem(err);
    if (trade->step == LUO_TRADE_GATHER) LUO_TRY(open_led(job, comm, err));
    struct host_led *led = comm->led = job->op[trade->first].comm->led;
    if (trade->step == LUO_TRADE_LEADERS) led->exchange = comm;
    if (led->room > INT_MAX)
        return luo_err_set(err, LUO_E2BIG,
                           "rows of the experts of a node could be over 2^31 elements; deal the "
                           "experts to more devices, or use moe_exchange: flat.");
    comm->send_bytes = elements_of(trade, led) * (int64_t)job->x->k->elem;
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
static void fill_tables(const luo_bound_trade *trade, struct host_led *led)
{
    const int32_t first = trade->rank - trade->rank % trade->per_node;
    for (int32_t i = 0; i < trade->per_node; i++)
        for (int32_t r = 0; r < trade->n; r++) {
            led->before[i * trade->n + r] = (int)(trade->expert[r + 1] - trade->expert[r]);
            led->after[i * trade->n + r] =
                (int)(trade->expert[first + i + 1] - trade->expert[first + i]);
        }
}

static luo_status check_tables(luo_rank *rank, const luo_bound_trade *trade,
                               const struct host_led *led)
{
    const int32_t n = trade->per_node * trade->n;
    if (sum_of(led->before, n) <= led->room && sum_of(led->after, n) <= led->room) return LUO_OK;
    return luo_err_set(&rank->err, LUO_EPEER,
                       "there are more rows of experts than could be: communication was given up.");
}

/* A leader gets both lists of every device of its node, before their rows: what is awaited is some
 * numbers, and all of a node come here in the same order. */
static luo_status hear(luo_rank *rank, const host_pending *pending, struct host_led *led)
{
    const host_comm *comm = pending->op->comm;
    const luo_bound_trade *trade = comm->b->trade;
    const size_t bytes = (size_t)trade->n * sizeof(int);
    led->req[0] = MPI_REQUEST_NULL;
    for (int32_t i = 1; i < trade->per_node; i++)
        LUO_TRY(host_mpi(&rank->err,
                         MPI_Irecv(led->told + 2 * i * trade->n, 2 * trade->n, MPI_INT,
                                   comm->b->peer[trade->message[i]], host_tag_of(rank, pending),
                                   comm->comm, &led->req[i]),
                         "a receive"));
    LUO_TRY(host_wait(rank->x, rank, trade->per_node, led->req, &rank->err));
    for (int32_t i = 1; i < trade->per_node; i++) {
        memcpy(led->before + i * trade->n, led->told + 2 * i * trade->n, bytes);
        memcpy(led->after + i * trade->n, led->told + (2 * i + 1) * trade->n, bytes);
    }
    return check_tables(rank, trade, led);
}

static luo_status tell(luo_rank *rank, const host_pending *pending, struct host_led *led)
{
    const host_comm *comm = pending->op->comm;
    const luo_bound_trade *trade = comm->b->trade;
    memcpy(led->told, led->before, (size_t)trade->n * sizeof(int));
    memcpy(led->told + trade->n, led->after, (size_t)trade->n * sizeof(int));
    LUO_TRY(host_mpi(&rank->err,
                     MPI_Isend(led->told, 2 * trade->n, MPI_INT, comm->b->peer[0],
                               host_tag_of(rank, pending), comm->comm, led->req),
                     "a send"));
    return host_wait(rank->x, rank, 1, led->req, &rank->err);
}

static luo_status count(luo_rank *rank, const host_pending *pending, struct host_led *led)
{
    const luo_bound_trade *trade = pending->op->comm->b->trade;
    if (trade->counts && trade->leads) {
        fill_tables(trade, led);
        return LUO_OK;
    }
    host_count_rows(rank, trade, pending->task, trade->back ? led->after : led->before,
                    trade->back ? led->before : led->after);
    if (trade->counts) return LUO_OK;
    return trade->leads ? hear(rank, pending, led) : tell(rank, pending, led);
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
    const luo_bound_trade *trade = pending->op->comm->b->trade;
    for (int32_t i = 0; i < trade->per_node; i++) {
        const int64_t elements = sum_of(table + i * trade->n, trade->n);
        if (i > 0) LUO_TRY(begin_message(rank, pending, i, send, run, elements));
        run += (size_t)elements * rank->x->k->elem;
    }
    return LUO_OK;
}

luo_status host_begin_gather(luo_rank *rank, host_pending *pending)
{
    host_comm *comm = pending->op->comm;
    const luo_bound_trade *trade = comm->b->trade;
    struct host_led *led = comm->led;
    char *from = host_buf(rank, trade->from, pending->task);
    for (int i = 0; i < comm->nreq; i++) pending->req[i] = MPI_REQUEST_NULL;
    LUO_TRY(count(rank, pending, led));
    const int64_t own = sum_of(led->before, trade->n);
    if (trade->back)
        host_reorder_rows(rank, trade, pending->task, comm->message, from);
    else if (trade->leads)
        memcpy(comm->message, from, (size_t)own * rank->x->k->elem);
    if (trade->leads) return begin_node(rank, pending, false, comm->message, led->before);
    return begin_message(rank, pending, 0, true, trade->back ? comm->message : from, own);
}

/* ---- among leaders ---- */

/* Sums of a table over the ranks of every node: [place][node]. */
static void sum_nodes(const luo_bound_trade *trade, const int *table, int *sums)
{
    for (int32_t i = 0; i < trade->per_node; i++)
        for (int32_t b = 0; b < trade->nodes; b++)
            sums[i * trade->nodes + b] =
                (int)sum_of(table + i * trade->n + b * trade->per_node, trade->per_node);
}

static void sum_places(const luo_bound_trade *trade, const int *sums, int *by_node)
{
    for (int32_t b = 0; b < trade->nodes; b++) by_node[b] = 0;
    for (int32_t i = 0; i < trade->per_node; i++)
        for (int32_t b = 0; b < trade->nodes; b++) by_node[b] += sums[i * trade->nodes + b];
}

luo_status host_begin_leaders(luo_rank *rank, host_pending *pending)
{
    host_comm *comm = pending->op->comm;
    const luo_bound_trade *trade = comm->b->trade;
    struct host_led *led = comm->led;
    sum_nodes(trade, led->after, led->sums);
    sum_places(trade, led->sums, comm->counts + trade->nodes);
    sum_nodes(trade, led->before, led->sums);
    sum_places(trade, led->sums, comm->counts);
    host_transpose_rows(rank->x->k->elem, led->sums, trade->per_node, trade->nodes, led->starts,
                        led->gather->message, comm->message);
    return host_exchange_rows(rank, pending, trade->nodes, comm->message, led->gather->message);
}

/* ---- out of leaders ---- */

luo_status host_begin_scatter(luo_rank *rank, host_pending *pending)
{
    host_comm *comm = pending->op->comm;
    const luo_bound_trade *trade = comm->b->trade;
    struct host_led *led = comm->led;
    for (int i = 0; i < comm->nreq; i++) pending->req[i] = MPI_REQUEST_NULL;
    if (!trade->leads)
        return begin_message(rank, pending, 0, false,
                             trade->back ? host_buf(rank, trade->to, pending->task) : comm->message,
                             sum_of(led->after, trade->n));
    host_transpose_counts(led->after, trade->per_node, trade->n, led->sums);
    host_transpose_rows(rank->x->k->elem, led->sums, trade->n, trade->per_node, led->starts,
                        led->gather->message, led->exchange->message);
    return begin_node(rank, pending, true, led->exchange->message, led->after);
}

void host_scatter_arrived(luo_rank *rank, const host_pending *pending)
{
    const host_comm *comm = pending->op->comm;
    const luo_bound_trade *trade = comm->b->trade;
    char *from = trade->leads ? comm->led->exchange->message : comm->message;
    char *to = host_buf(rank, trade->to, pending->task);
    if (trade->counts)
        host_place_counts(rank, trade, pending->task, from);
    else if (!trade->back)
        host_reorder_rows(rank, trade, pending->task, from, to);
    else if (trade->leads)
        memcpy(to, from, (size_t)sum_of(comm->led->after, trade->n) * rank->x->k->elem);
}
