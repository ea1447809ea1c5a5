/* trade.c: rows of experts, and their counts, on their way to the experts and back, as
 * exec/host/moe/trade.c has it; but every block of rows travels as a message of its own, from where
 * it lies to where it belongs, so that nothing is packed and nothing kept twice.
 *
 * A block is the rows of one sender for one expert; of counts all that a sender has for a rank.
 * Both ends walk the blocks of a pair in one order, by expert, or by sender and expert where they
 * come from a whole node: the k-th message from a to b is received by b's k-th from a. What stays
 * on the device is copied.
 *
 * By node, a device has in the middle what the devices of its node have for the experts of its
 * place: by node of the experts, then by sender, then by expert. The counts came that way before,
 * so that it knows how many rows there are. Through leaders: leader.c. */
#include <string.h>

#include "exec/cuda/moe/trade_internal.h"

/* ---- how many and where, in rows ---- */

static int64_t most_experts(const luo_bound_trade *trade)
{
    int64_t most = 0;
    for (int32_t r = 0; r < trade->n; r++)
        if (experts_of(trade, r) > most) most = experts_of(trade, r);
    return most;
}

static int32_t place_of(const luo_bound_trade *trade)
{
    return trade->rank % trade->per_node;
}

/* Where the rows here begin: by expert, then sender. */
static void find_starts(const trader *x)
{
    const luo_bound_trade *trade = x->t;
    int64_t at = 0, *start = x->r->job->moe->start;
    for (int64_t e = 0; e < experts_of(trade, trade->rank); e++)
        for (int32_t s = 0; s < trade->n; s++) {
            *start++ = at;
            at += rows_there(x, s, e);
        }
}

/* In the middle: rows of the s-th device of this node for a block of the rank of this place in a
 * node. The counts lie there as they came: by node, sender and expert. */
static int64_t rows_between(const trader *x, int32_t node, int32_t s, int64_t block)
{
    const luo_bound_trade *trade = x->t;
    int64_t at = 0;
    const int32_t rank = node * trade->per_node + place_of(trade);
    if (trade->counts) return experts_of(trade, rank);
    for (int32_t b = 0; b < node; b++)
        at += trade->per_node * experts_of(trade, b * trade->per_node + place_of(trade));
    return (int64_t)x->between[at + s * experts_of(trade, rank) + block];
}

/* ---- messages ---- */

/* To or from the device with a rank in the group. */
static void message(trader *x, int32_t rank, bool away, char *at, int64_t rows)
{
    message_of(x, x->group->dev[rank], away, at, rows);
}

static luo_status copy(const trader *x, bool back, char *home, char *there, int64_t rows)
{
    return back ? keep(x, there, home, rows) : keep(x, home, there, rows);
}

/* ---- in one step ---- */

static luo_status list_whole(trader *x)
{
    const luo_bound_trade *trade = x->t;
    int64_t home = 0;
    for (int32_t r = 0; r < trade->n; r++)
        for (int64_t b = 0; b < blocks_of(x, r); b++) {
            const int64_t rows = home_rows(x, r, b);
            char *at = row_at(x, x->at_home, home);
            home += rows;
            if (r == trade->rank)
                LUO_TRY(
                    copy(x, trade->back, at, row_at(x, x->at_there, place_there(x, r, b)), rows));
            else
                message(x, r, !trade->back, at, rows);
        }
    for (int32_t s = 0; s < trade->n; s++)
        for (int64_t b = 0; b < blocks_of(x, trade->rank) && s != trade->rank; b++)
            message(x, s, trade->back, row_at(x, x->at_there, place_there(x, s, b)),
                    rows_there(x, s, b));
    return LUO_OK;
}

/* ---- by node ---- */

/* Between the rows home and the middle, of devices of a node: for each place and node one message,
 * since the experts of a rank lie together at both ends. */
static luo_status list_inside(trader *x)
{
    const luo_bound_trade *trade = x->t;
    int64_t home = 0, mid = 0;
    for (int32_t r = 0; r < trade->n; r++) {
        int64_t rows = 0;
        for (int64_t b = 0; b < blocks_of(x, r); b++) rows += home_rows(x, r, b);
        if (r % trade->per_node != x->own)
            message(x, r % trade->per_node, !trade->back, row_at(x, x->at_home, home), rows);
        home += rows;
    }
    home = 0;
    for (int32_t node = 0; node < trade->nodes; node++)
        for (int32_t s = 0; s < trade->per_node; s++) {
            const int32_t rank = node * trade->per_node + place_of(trade);
            int64_t rows = 0, before = 0;
            for (int64_t b = 0; b < blocks_of(x, rank); b++) rows += rows_between(x, node, s, b);
            for (int32_t r = 0; r < rank && s == x->own; r++)
                for (int64_t b = 0; b < blocks_of(x, r); b++) before += home_rows(x, r, b);
            char *at = row_at(x, x->mid, mid);
            mid += rows;
            if (s == x->own)
                LUO_TRY(copy(x, trade->back, row_at(x, x->at_home, before), at, rows));
            else
                message(x, s, trade->back, at, rows);
        }
    return LUO_OK;
}

/* Between the middle and the rows there, of devices of equal places. */
static luo_status list_across(trader *x)
{
    const luo_bound_trade *trade = x->t;
    int64_t mid = 0;
    for (int32_t node = 0; node < trade->nodes; node++)
        for (int32_t s = 0; s < trade->per_node; s++)
            for (int64_t b = 0; b < blocks_of(x, node * trade->per_node + place_of(trade)); b++) {
                const int64_t rows = rows_between(x, node, s, b);
                char *at = row_at(x, x->mid, mid);
                const int32_t sender = x->own * trade->per_node + s;
                mid += rows;
                if (node == x->own)
                    LUO_TRY(copy(x, trade->back, at,
                                 row_at(x, x->at_there, place_there(x, sender, b)), rows));
                else
                    message(x, node, !trade->back, at, rows);
            }
    for (int32_t node = 0; node < trade->nodes; node++)
        for (int32_t s = 0; s < trade->per_node && node != x->own; s++)
            for (int64_t b = 0; b < blocks_of(x, trade->rank); b++) {
                const int32_t sender = node * trade->per_node + s;
                message(x, node, trade->back, row_at(x, x->at_there, place_there(x, sender, b)),
                        rows_there(x, sender, b));
            }
    return LUO_OK;
}

/* ---- one step of an exchange ---- */

static bool begins(const luo_bound_trade *trade)
{
    return trade->step == LUO_TRADE_FIRST || trade->step == LUO_TRADE_GATHER;
}

static bool ends(const luo_bound_trade *trade)
{
    return trade->step == LUO_TRADE_WHOLE || trade->step == LUO_TRADE_SECOND ||
           trade->step == LUO_TRADE_SCATTER;
}

static bool is_by_node(const luo_bound_trade *trade)
{
    return trade->step == LUO_TRADE_FIRST || trade->step == LUO_TRADE_SECOND;
}

static bool is_led(const luo_bound_trade *trade)
{
    return trade->step >= LUO_TRADE_GATHER;
}

/* Rows of counts that nobody sends are 0. */
static luo_status clear_counts(const trader *x)
{
    const luo_bound_trade *trade = x->t;
    if (!trade->counts || !ends(trade)) return LUO_OK;
    const size_t bytes = (size_t)luo_bound_desc(&x->r->job->bound, trade->there)->bytes;
    return gpu_check(&x->r->err, cudaMemsetAsync(x->at_there, 0, bytes, x->stream),
                     "counts of rows");
}

static luo_status check_room(const trader *x)
{
    const luo_bound_trade *trade = x->t;
    int64_t home = 0, there = 0, between = 0;
    for (int32_t node = 0; is_by_node(trade) && node < trade->nodes; node++)
        for (int32_t s = 0; s < trade->per_node; s++)
            for (int64_t b = 0; b < blocks_of(x, node * trade->per_node + place_of(trade)); b++)
                between += rows_between(x, node, s, b);
    for (int64_t e = 0; e < trade->expert[trade->n]; e++) home += (int64_t)x->home[e];
    for (int32_t s = 0; s < trade->n; s++)
        for (int64_t e = 0; e < experts_of(trade, trade->rank); e++) there += rows_there(x, s, e);
    if (home * trade->width <= trade->own && there * trade->width <= trade->most &&
        between * trade->width <= trade->per_node * trade->own &&
        (!is_led(trade) || gpu_led_fits(x)))
        return LUO_OK;
    return luo_err_set(&x->r->err, LUO_EPEER,
                       "there are more rows of experts than could be: communication was given up.");
}

static luo_status look_up(trader *x, int32_t task)
{
    const luo_bound_trade *trade = x->t;
    if (trade->counts) return LUO_OK;
    LUO_TRY(gpu_counts_at(x->r, trade->home, task, &x->home, NULL));
    LUO_TRY(gpu_counts_at(x->r, trade->there, task, &x->there, &x->between));
    LUO_TRY(check_room(x));
    find_starts(x);
    return LUO_OK;
}

static luo_status list(trader *x)
{
    if (x->t->step == LUO_TRADE_WHOLE) return list_whole(x);
    if (is_led(x->t)) return gpu_list_led(x);
    return luo_bound_trade_is_inside(x->t) ? list_inside(x) : list_across(x);
}

luo_status gpu_trade_send(luo_rank *rank, const gpu_op *op, int32_t task, cudaStream_t stream)
{
    const luo_job *job = rank->job;
    const luo_bound_comm *comm = op->b->comm;
    const luo_bound_trade *trade = comm->trade;
    const luo_slot *slot = &job->bound.program->slots[op->b->instr->slot];
    trader x = {.r = rank,
                .op = op,
                .t = trade,
                .group = slot->group < 0 ? NULL : &job->bound.set->groups[slot->group],
                .slot = slot,
                .stream = stream,
                .width = trade->width,
                .elem = comm->elem_bytes,
                .at_home = gpu_buf(job, trade->back ? trade->to : trade->from, task),
                .at_there = gpu_buf(job, trade->back ? trade->from : trade->to, task),
                .mid = job->moe->mid,
                .own = comm->route.rank};
    LUO_TRY(look_up(&x, task));
    LUO_TRY(clear_counts(&x));
    LUO_TRY(list(&x));
    if (ends(trade) && trade->step != LUO_TRADE_WHOLE) job->moe->mid_user = op;
    return gpu_exchange(op->transfer->comm, x.n, job->moe->message, x.elem, stream, &rank->err);
}

luo_status gpu_trade_settle(luo_rank *rank, const gpu_op *op)
{
    const gpu_op *last = rank->job->moe->mid_user;
    if (!begins(op->b->comm->trade) || !last) return LUO_OK;
    return gpu_finish(rank, last->transfer->latest);
}

/* ---- binding ---- */

luo_status gpu_bind_trade(gpu_binder *binder, gpu_op *op)
{
    luo_job *job = binder->job;
    gpu_transfer *transfer = op->transfer;
    const gpu_cells none = {.from = -1, .to = -1};
    transfer->enter = transfer->leave = transfer->local = none;
    transfer->send_direct = transfer->recv_direct = true;
    transfer->deep = 1;
    transfer->ticket_of = LUO_NEW_N(job->arena, int64_t, 1);
    transfer->comm =
        gpu_comms_find(job->x->comms, job->bound.set, job->bound.program, op->b->instr);
    return transfer->ticket_of ? LUO_OK : luo_err_nomem(binder->err);
}

int64_t gpu_trade_blocks(const luo_bound_trade *trade)
{
    return trade->n * experts_of(trade, trade->rank);
}

int64_t gpu_trade_messages(const luo_bound_trade *trade)
{
    if (is_led(trade)) return gpu_led_messages(trade);
    return 2 * (int64_t)trade->n * (trade->counts ? 1 : most_experts(trade));
}

int64_t gpu_trade_between(const luo_bound_trade *trade)
{
    int64_t n = 0;
    if (is_led(trade)) return gpu_led_counts(trade);
    if (trade->step == LUO_TRADE_WHOLE) return 0;
    for (int32_t node = 0; node < trade->nodes; node++)
        n += trade->per_node * experts_of(trade, node * trade->per_node + place_of(trade));
    return n;
}

int64_t gpu_trade_mid_bytes(const luo_bound_comm *comm)
{
    const luo_bound_trade *trade = comm->trade;
    if (trade->step == LUO_TRADE_WHOLE) return 0;
    if (is_led(trade))
        return (gpu_led_room(trade, false) + gpu_led_room(trade, true)) * trade->width *
               comm->elem_bytes;
    return (trade->counts ? gpu_trade_between(trade) : trade->per_node * trade->own) *
           comm->elem_bytes;
}
