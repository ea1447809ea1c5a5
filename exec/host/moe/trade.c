/* trade.c: rows of experts on their way to the experts and back, for which the counts of both ends
 * have come before; and these counts. By node, rows go in two steps: to the experts inside nodes by
 * the place of the receiver first, then between devices of equal places; back the other way.
 * Between the steps a device has what its node has for its place in all nodes. Through leaders:
 * leader.c. */
#include <limits.h>
#include <string.h>

#include "exec/host/moe/trade.h"

struct host_trade {     /* of two steps; elements */
    MPI_Comm inside;    /* devices of the node */
    host_comm *first;   /* of the first step; what comes is in its message, behind what is sent */
    int64_t sent_first; /* so many */
    int *home, *there;  /* per rank of all: from here to its experts; to the experts here */
    int *between;       /* [sender of the node][node]: to the experts of this place */
    int *told, *room;   /* [place][node], what `between` is made of; where a list begins */
};

/* ---- memory ---- */

static luo_status check_elements(int64_t elements, luo_err *err)
{
    if (elements <= INT_MAX) return LUO_OK;
    return luo_err_set(err, LUO_E2BIG,
                       "rows of experts could be over 2^31 elements; deal the experts to more "
                       "devices.");
}

static luo_status bind_first(luo_job *job, host_comm *comm, luo_err *err)
{
    const luo_bound_trade *trade = comm->b->trade;
    struct host_trade *two = comm->trade = LUO_NEW(job->arena, struct host_trade);
    if (!two) return luo_err_nomem(err);
    const luo_instr *other = &job->b.role->instr[luo_bound_trade_other(trade)];
    const luo_slot *slot = &job->b.program->slots[other->slot];
    const host_group *group = host_find_group(job->x, &job->b.set->groups[slot->group]);
    if (!group || group->comm == MPI_COMM_NULL)
        return luo_err_set(err, LUO_EBUG, "device %d has no communicator for instruction %d.",
                           (int)job->x->device, (int)other->id);
    two->inside = luo_bound_trade_is_inside(trade) ? comm->comm : group->comm;
    two->first = comm;
    two->sent_first = trade->back ? trade->most : trade->own;
    two->home = LUO_NEW_N(job->arena, int, trade->n);
    two->there = LUO_NEW_N(job->arena, int, trade->n);
    two->between = LUO_NEW_N(job->arena, int, trade->n);
    two->told = LUO_NEW_N(job->arena, int, trade->n);
    two->room = LUO_NEW_N(job->arena, int, trade->n);
    if (!two->home || !two->there || !two->between || !two->told || !two->room)
        return luo_err_nomem(err);
    return LUO_OK;
}

luo_status host_bind_trade(luo_job *job, host_comm *comm, luo_err *err)
{
    const luo_bound_trade *trade = comm->b->trade;
    const int64_t between = trade->per_node * trade->own;
    if (trade->step >= LUO_TRADE_GATHER) return host_bind_led(job, comm, err);
    comm->counts = LUO_NEW_N(job->arena, int, 2 * (int64_t)trade->n);
    comm->starts = LUO_NEW_N(job->arena, int, 2 * (int64_t)trade->n);
    if (!comm->counts || !comm->starts) return luo_err_nomem(err);
    int64_t elements = trade->counts ? 0 : trade->most;
    if (trade->step == LUO_TRADE_FIRST) {
        LUO_TRY(bind_first(job, comm, err));
        elements = comm->trade->sent_first + between;
    } else if (trade->step == LUO_TRADE_SECOND) {
        comm->trade = job->op[trade->first].comm->trade;
        elements = between + (trade->back ? trade->own : trade->most);
    }
    LUO_TRY(check_elements(trade->step == LUO_TRADE_WHOLE ? trade->most : elements, err));
    comm->send_bytes = elements * (int64_t)job->x->k->elem;
    return LUO_OK;
}

/* ---- counts ---- */

static int64_t value_at(const luo_rank *rank, const void *counts, int64_t i)
{
    return rank->x->k->elem == sizeof(float) ? (int64_t)((const float *)counts)[i]
                                             : (int64_t)((const double *)counts)[i];
}

static int64_t experts_of(const luo_bound_trade *trade, int32_t rank)
{
    return trade->expert[rank + 1] - trade->expert[rank];
}

/* Rows of local expert e that sender s has here. */
static int64_t sent_by(const luo_rank *rank, const luo_bound_trade *trade, const void *there,
                       int32_t s, int64_t e)
{
    return value_at(rank, there, s * trade->each * experts_of(trade, trade->rank) + e);
}

/* Elements for the experts of every rank from home, and from every rank there. */
void host_count_rows(luo_rank *rank, const luo_bound_trade *trade, int32_t task, int *at_home,
                     int *at_there)
{
    const void *home = host_buf(rank, trade->home, task),
               *there = host_buf(rank, trade->there, task);
    const int64_t here = experts_of(trade, trade->rank);
    for (int32_t r = 0; r < trade->n; r++) {
        int64_t out = trade->counts ? experts_of(trade, r) : 0, in = trade->counts ? here : 0;
        for (int64_t e = trade->expert[r]; e < trade->expert[r + 1] && !trade->counts; e++)
            out += value_at(rank, home, e);
        for (int64_t e = 0; e < here && !trade->counts; e++)
            in += sent_by(rank, trade, there, r, e);
        at_home[r] = (int)(out * trade->width);
        at_there[r] = (int)(in * trade->width);
    }
}

void host_row_starts(const int *counts, int32_t n, int *starts)
{
    for (int32_t r = 0, at = 0; r < n; at += counts[r++]) starts[r] = at;
}

/* ---- orders ---- */

/* Between rows by (sender, expert) and by (expert, sender). */
void host_reorder_rows(luo_rank *rank, const luo_bound_trade *trade, int32_t task, char *by_sender,
                       char *by_expert)
{
    const void *there = host_buf(rank, trade->there, task);
    const int64_t experts = experts_of(trade, trade->rank);
    const int64_t bytes = trade->width * (int64_t)rank->x->k->elem;
    for (int64_t e = 0; e < experts; e++) {
        int64_t from = 0;
        for (int32_t s = 0; s < trade->n; s++) {
            for (int64_t i = 0; i < e; i++) from += sent_by(rank, trade, there, s, i);
            const size_t n = (size_t)(sent_by(rank, trade, there, s, e) * bytes);
            char *at = by_sender + from * bytes;
            if (trade->back)
                memcpy(at, by_expert, n);
            else
                memcpy(by_expert, at, n);
            by_expert += n;
            for (int64_t i = e; i < experts; i++) from += sent_by(rank, trade, there, s, i);
        }
    }
}

/* A table of blocks by rows, counts [rows x columns], to one by columns. starts: room for them. */
void host_transpose_rows(size_t elem, const int *counts, int32_t rows, int32_t columns, int *starts,
                         const char *from, char *to)
{
    host_row_starts(counts, rows * columns, starts);
    for (int32_t c = 0; c < columns; c++)
        for (int32_t r = 0; r < rows; r++) {
            const size_t n = (size_t)counts[r * columns + c] * elem;
            memcpy(to, from + (size_t)starts[r * columns + c] * elem, n);
            to += n;
        }
}

/* The counts of such a table by columns. */
void host_transpose_counts(const int *counts, int32_t rows, int32_t columns, int *to)
{
    for (int32_t c = 0; c < columns; c++)
        for (int32_t r = 0; r < rows; r++) *to++ = counts[r * columns + c];
}

/* A sender's counts of the experts of a rank; rows of counts that nobody sends are 0. */
void host_place_counts(luo_rank *rank, const luo_bound_trade *trade, int32_t task, const char *from)
{
    const int64_t bytes = experts_of(trade, trade->rank) * (int64_t)rank->x->k->elem;
    char *to = host_buf(rank, trade->there, task);
    memset(to, 0, (size_t)luo_bound_desc(&rank->job->b, trade->there)->bytes);
    for (int32_t r = 0; r < trade->n; r++)
        memcpy(to + r * trade->each * bytes, from + r * bytes, (size_t)bytes);
}

/* ---- calls ---- */

/* One message for every pair of ranks that have something for each other; both know the counts, and
 * calls of a communicator stand in one order. MPI_Ialltoallv of Open MPI 4.1.4 was seen to wait for
 * ever where one rank had nothing to get and went on to its next call. */
static luo_status begin_messages(luo_rank *rank, host_pending *pending, int32_t n, const char *from,
                                 char *to)
{
    const host_comm *comm = pending->op->comm;
    const size_t elem = rank->x->k->elem;
    int own;
    LUO_TRY(host_mpi(&rank->err, MPI_Comm_rank(comm->comm, &own), "a rank"));
    for (int i = 0; i < comm->nreq; i++) pending->req[i] = MPI_REQUEST_NULL;
    for (int r = 0; r < n; r++) {
        const int out = comm->counts[r], in = comm->counts[n + r];
        const char *send = from + (size_t)comm->starts[r] * elem;
        char *recv = to + (size_t)comm->starts[n + r] * elem;
        if (r == own) {
            memcpy(recv, send, (size_t)out * elem);
            continue;
        }
        if (in > 0)
            LUO_TRY(
                host_mpi(&rank->err,
                         MPI_Irecv(recv, in, rank->x->type, r, 0, comm->comm, &pending->req[2 * r]),
                         "a receive"));
        if (out > 0)
            LUO_TRY(host_mpi(
                &rank->err,
                MPI_Isend(send, out, rank->x->type, r, 0, comm->comm, &pending->req[2 * r + 1]),
                "a send"));
    }
    return LUO_OK;
}

/* What is sent and received by n ranks is counted. */
luo_status host_exchange_rows(luo_rank *rank, host_pending *pending, int32_t n, const char *from,
                              char *to)
{
    const host_comm *comm = pending->op->comm;
    host_row_starts(comm->counts, n, comm->starts);
    host_row_starts(comm->counts + n, n, comm->starts + n);
    return begin_messages(rank, pending, n, from, to);
}

static luo_status begin_counts(luo_rank *rank, host_pending *pending)
{
    host_comm *comm = pending->op->comm;
    const luo_bound_trade *trade = comm->b->trade;
    const int64_t here = experts_of(trade, trade->rank);
    char *to = host_buf(rank, trade->there, pending->task);
    memset(to, 0, (size_t)luo_bound_desc(&rank->job->b, trade->there)->bytes);
    for (int32_t r = 0; r < trade->n; r++) {
        comm->counts[r] = (int)experts_of(trade, r);
        comm->starts[r] = (int)trade->expert[r];
        comm->counts[trade->n + r] = (int)here;
        comm->starts[trade->n + r] = (int)(r * trade->each * here);
    }
    return begin_messages(rank, pending, trade->n, host_buf(rank, trade->home, pending->task), to);
}

static luo_status begin_whole(luo_rank *rank, host_pending *pending)
{
    host_comm *comm = pending->op->comm;
    const luo_bound_trade *trade = comm->b->trade;
    if (trade->counts) return begin_counts(rank, pending);
    char *in = host_buf(rank, comm->b->route.in, pending->task);
    char *out = host_buf(rank, comm->b->route.out, pending->task);
    int *home = comm->counts + (trade->back ? trade->n : 0),
        *there = comm->counts + (trade->back ? 0 : trade->n);
    host_count_rows(rank, trade, pending->task, home, there);
    if (trade->back) host_reorder_rows(rank, trade, pending->task, comm->message, in);
    return host_exchange_rows(rank, pending, trade->n, trade->back ? comm->message : in,
                              trade->back ? out : comm->message);
}

/* ---- two steps ---- */

/* Sums of n lists of m numbers. */
static void sum_lists(const int *from, int32_t n, int32_t m, int *to)
{
    for (int32_t i = 0; i < n; i++) {
        to[i] = 0;
        for (int32_t k = 0; k < m; k++) to[i] += from[i * m + k];
    }
}

/* What devices of this node have for those of this place: each tells the others, before rows move.
 * All ranks of a node come here in the same order, and what is awaited is some numbers; sends that
 * are late go out meanwhile. */
static luo_status tell(luo_rank *rank, const luo_bound_trade *trade, int32_t task,
                       struct host_trade *two)
{
    const int32_t place = trade->rank % trade->per_node;
    host_count_rows(rank, trade, task, two->home, two->there);
    host_transpose_counts(two->home, trade->nodes, trade->per_node, two->told);
    if (!trade->counts) {
        MPI_Request request;
        LUO_TRY(host_mpi(&rank->err,
                         MPI_Ialltoall(two->told, trade->nodes, MPI_INT, two->between, trade->nodes,
                                       MPI_INT, two->inside, &request),
                         "an all-to-all"));
        return host_wait(rank->x, rank, 1, &request, &rank->err);
    }
    for (int32_t s = 0; s < trade->per_node; s++)
        memcpy(two->between + s * trade->nodes, two->told + place * trade->nodes,
               (size_t)trade->nodes * sizeof *two->told);
    return LUO_OK;
}

static char *mid_of(const luo_rank *rank, const struct host_trade *two)
{
    return two->first->message + (size_t)two->sent_first * rank->x->k->elem;
}

/* The numbers of a table by rows, of `between` by nodes. */
static void sum_between(const luo_bound_trade *trade, struct host_trade *two, int *by_sender,
                        int *by_node)
{
    if (by_sender) sum_lists(two->between, trade->per_node, trade->nodes, by_sender);
    if (!by_node) return;
    host_transpose_counts(two->between, trade->per_node, trade->nodes, two->room);
    sum_lists(two->room, trade->nodes, trade->per_node, by_node);
}

static luo_status begin_first(luo_rank *rank, host_pending *pending)
{
    host_comm *comm = pending->op->comm;
    const luo_bound_trade *trade = comm->b->trade;
    struct host_trade *two = comm->trade;
    char *in = host_buf(rank, trade->counts ? trade->home : comm->b->route.in, pending->task);
    LUO_TRY(tell(rank, trade, pending->task, two));
    if (trade->back) {
        host_reorder_rows(rank, trade, pending->task, comm->message, in);
        sum_lists(two->there, trade->nodes, trade->per_node, comm->counts);
        sum_between(trade, two, NULL, comm->counts + trade->nodes);
        return host_exchange_rows(rank, pending, trade->nodes, comm->message, mid_of(rank, two));
    }
    host_transpose_rows(rank->x->k->elem, two->home, trade->nodes, trade->per_node, two->room, in,
                        comm->message);
    sum_lists(two->told, trade->per_node, trade->nodes, comm->counts);
    sum_between(trade, two, comm->counts + trade->per_node, NULL);
    return host_exchange_rows(rank, pending, trade->per_node, comm->message, mid_of(rank, two));
}

static char *arrived_at(const luo_rank *rank, const host_comm *comm)
{
    const luo_bound_trade *trade = comm->b->trade;
    return comm->message + (size_t)(trade->per_node * trade->own) * rank->x->k->elem;
}

static luo_status begin_second(luo_rank *rank, host_pending *pending)
{
    host_comm *comm = pending->op->comm;
    const luo_bound_trade *trade = comm->b->trade;
    struct host_trade *two = comm->trade;
    const char *mid = mid_of(rank, two);
    const size_t elem = rank->x->k->elem;
    if (trade->back) {
        int *by_node = two->told; /* the table as it came: node by node */
        sum_between(trade, two, comm->counts, NULL);
        host_transpose_counts(two->home, trade->nodes, trade->per_node, two->room);
        sum_lists(two->room, trade->per_node, trade->nodes, comm->counts + trade->per_node);
        host_transpose_counts(two->between, trade->per_node, trade->nodes, by_node);
        host_transpose_rows(elem, by_node, trade->nodes, trade->per_node, two->room, mid,
                            comm->message);
        return host_exchange_rows(rank, pending, trade->per_node, comm->message,
                                  arrived_at(rank, comm));
    }
    host_transpose_rows(elem, two->between, trade->per_node, trade->nodes, two->room, mid,
                        comm->message);
    sum_between(trade, two, NULL, comm->counts);
    sum_lists(two->there, trade->nodes, trade->per_node, comm->counts + trade->nodes);
    return host_exchange_rows(rank, pending, trade->nodes, comm->message, arrived_at(rank, comm));
}

/* Home, what came is by (place, node) of the experts. */
static void second_arrived(luo_rank *rank, const host_pending *pending)
{
    const host_comm *comm = pending->op->comm;
    const luo_bound_trade *trade = comm->b->trade;
    struct host_trade *two = comm->trade;
    char *from = arrived_at(rank, comm), *out = host_buf(rank, comm->b->route.out, pending->task);
    if (trade->counts) {
        host_place_counts(rank, trade, pending->task, from);
    } else if (trade->back) {
        host_transpose_counts(two->home, trade->nodes, trade->per_node, two->told);
        host_transpose_rows(rank->x->k->elem, two->told, trade->per_node, trade->nodes, two->room,
                            from, out);
    } else {
        host_reorder_rows(rank, trade, pending->task, from, out);
    }
}

/* ---- begin and end ---- */

luo_status host_begin_trade(luo_rank *rank, host_pending *pending)
{
    switch (pending->op->comm->b->trade->step) {
    case LUO_TRADE_WHOLE: break;
    case LUO_TRADE_FIRST: return begin_first(rank, pending);
    case LUO_TRADE_SECOND: return begin_second(rank, pending);
    case LUO_TRADE_GATHER:
        return host_begin_gather(rank, pending);
    case LUO_TRADE_LEADERS:
        return host_begin_leaders(rank, pending);
    case LUO_TRADE_SCATTER:
        return host_begin_scatter(rank, pending);
    }
    return begin_whole(rank, pending);
}

void host_trade_arrived(luo_rank *rank, const host_pending *pending)
{
    const host_comm *comm = pending->op->comm;
    const luo_bound_trade *trade = comm->b->trade;
    switch (trade->step) {
    case LUO_TRADE_WHOLE:
        if (trade->counts || trade->back) return;
        host_reorder_rows(rank, trade, pending->task, comm->message,
                          host_buf(rank, comm->b->route.out, pending->task));
        return;
    case LUO_TRADE_FIRST: return; /* the second step takes it from where it is */
    case LUO_TRADE_SECOND: second_arrived(rank, pending); return;
    case LUO_TRADE_GATHER:
    case LUO_TRADE_LEADERS:
        return;
    case LUO_TRADE_SCATTER:
        host_scatter_arrived(rank, pending);
        return;
    }
}
