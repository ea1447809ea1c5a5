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

static int64_t most_experts(const luo_bound_trade *t)
{
    int64_t most = 0;
    for (int32_t r = 0; r < t->n; r++)
        if (experts_of(t, r) > most) most = experts_of(t, r);
    return most;
}

static int32_t place_of(const luo_bound_trade *t)
{
    return t->rank % t->per_node;
}

/* Where the rows here begin: by expert, then sender. */
static void find_starts(const trader *x)
{
    const luo_bound_trade *t = x->t;
    int64_t at = 0, *start = x->r->job->moe->start;
    for (int64_t e = 0; e < experts_of(t, t->rank); e++)
        for (int32_t s = 0; s < t->n; s++) {
            *start++ = at;
            at += rows_there(x, s, e);
        }
}

/* In the middle: rows of the s-th device of this node for a block of the rank of this place in a
 * node. The counts lie there as they came: by node, sender and expert. */
static int64_t rows_between(const trader *x, int32_t node, int32_t s, int64_t block)
{
    const luo_bound_trade *t = x->t;
    int64_t at = 0;
    const int32_t rank = node * t->per_node + place_of(t);
    if (t->counts) return experts_of(t, rank);
    for (int32_t b = 0; b < node; b++)
        at += t->per_node * experts_of(t, b * t->per_node + place_of(t));
    return (int64_t)x->between[at + s * experts_of(t, rank) + block];
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
    const luo_bound_trade *t = x->t;
    int64_t home = 0;
    for (int32_t r = 0; r < t->n; r++)
        for (int64_t b = 0; b < blocks_of(x, r); b++) {
            const int64_t rows = home_rows(x, r, b);
            char *at = row_at(x, x->at_home, home);
            home += rows;
            if (r == t->rank)
                LUO_TRY(copy(x, t->back, at, row_at(x, x->at_there, place_there(x, r, b)), rows));
            else
                message(x, r, !t->back, at, rows);
        }
    for (int32_t s = 0; s < t->n; s++)
        for (int64_t b = 0; b < blocks_of(x, t->rank) && s != t->rank; b++)
            message(x, s, t->back, row_at(x, x->at_there, place_there(x, s, b)),
                    rows_there(x, s, b));
    return LUO_OK;
}

/* ---- by node ---- */

/* Between the rows home and the middle, of devices of a node: for each place and node one message,
 * since the experts of a rank lie together at both ends. */
static luo_status list_inside(trader *x)
{
    const luo_bound_trade *t = x->t;
    int64_t home = 0, mid = 0;
    for (int32_t r = 0; r < t->n; r++) {
        int64_t rows = 0;
        for (int64_t b = 0; b < blocks_of(x, r); b++) rows += home_rows(x, r, b);
        if (r % t->per_node != x->own)
            message(x, r % t->per_node, !t->back, row_at(x, x->at_home, home), rows);
        home += rows;
    }
    home = 0;
    for (int32_t node = 0; node < t->nodes; node++)
        for (int32_t s = 0; s < t->per_node; s++) {
            const int32_t rank = node * t->per_node + place_of(t);
            int64_t rows = 0, before = 0;
            for (int64_t b = 0; b < blocks_of(x, rank); b++) rows += rows_between(x, node, s, b);
            for (int32_t r = 0; r < rank && s == x->own; r++)
                for (int64_t b = 0; b < blocks_of(x, r); b++) before += home_rows(x, r, b);
            char *at = row_at(x, x->mid, mid);
            mid += rows;
            if (s == x->own)
                LUO_TRY(copy(x, t->back, row_at(x, x->at_home, before), at, rows));
            else
                message(x, s, t->back, at, rows);
        }
    return LUO_OK;
}

/* Between the middle and the rows there, of devices of equal places. */
static luo_status list_across(trader *x)
{
    const luo_bound_trade *t = x->t;
    int64_t mid = 0;
    for (int32_t node = 0; node < t->nodes; node++)
        for (int32_t s = 0; s < t->per_node; s++)
            for (int64_t b = 0; b < blocks_of(x, node * t->per_node + place_of(t)); b++) {
                const int64_t rows = rows_between(x, node, s, b);
                char *at = row_at(x, x->mid, mid);
                const int32_t sender = x->own * t->per_node + s;
                mid += rows;
                if (node == x->own)
                    LUO_TRY(copy(x, t->back, at, row_at(x, x->at_there, place_there(x, sender, b)),
                                 rows));
                else
                    message(x, node, !t->back, at, rows);
            }
    for (int32_t node = 0; node < t->nodes; node++)
        for (int32_t s = 0; s < t->per_node && node != x->own; s++)
            for (int64_t b = 0; b < blocks_of(x, t->rank); b++) {
                const int32_t sender = node * t->per_node + s;
                message(x, node, t->back, row_at(x, x->at_there, place_there(x, sender, b)),
                        rows_there(x, sender, b));
            }
    return LUO_OK;
}

/* ---- one step of an exchange ---- */

static bool begins(const luo_bound_trade *t)
{
    return t->step == LUO_TRADE_FIRST || t->step == LUO_TRADE_GATHER;
}

static bool ends(const luo_bound_trade *t)
{
    return t->step == LUO_TRADE_WHOLE || t->step == LUO_TRADE_SECOND ||
           t->step == LUO_TRADE_SCATTER;
}

static bool is_by_node(const luo_bound_trade *t)
{
    return t->step == LUO_TRADE_FIRST || t->step == LUO_TRADE_SECOND;
}

static bool is_led(const luo_bound_trade *t)
{
    return t->step >= LUO_TRADE_GATHER;
}

/* Rows of counts that nobody sends are 0. */
static luo_status clear_counts(const trader *x)
{
    const luo_bound_trade *t = x->t;
    if (!t->counts || !ends(t)) return LUO_OK;
    const size_t bytes = (size_t)luo_bound_desc(&x->r->job->bound, t->there)->bytes;
    return gpu_check(&x->r->err, cudaMemsetAsync(x->at_there, 0, bytes, x->stream),
                     "counts of rows");
}

static luo_status check_room(const trader *x)
{
    const luo_bound_trade *t = x->t;
    int64_t home = 0, there = 0, between = 0;
    for (int32_t node = 0; is_by_node(t) && node < t->nodes; node++)
        for (int32_t s = 0; s < t->per_node; s++)
            for (int64_t b = 0; b < blocks_of(x, node * t->per_node + place_of(t)); b++)
                between += rows_between(x, node, s, b);
    for (int64_t e = 0; e < t->expert[t->n]; e++) home += (int64_t)x->home[e];
    for (int32_t s = 0; s < t->n; s++)
        for (int64_t e = 0; e < experts_of(t, t->rank); e++) there += rows_there(x, s, e);
    if (home * t->width <= t->own && there * t->width <= t->most &&
        between * t->width <= t->per_node * t->own && (!is_led(t) || gpu_led_fits(x)))
        return LUO_OK;
    return luo_err_set(&x->r->err, LUO_EPEER,
                       "there are more rows of experts than could be: communication was given up.");
}

static luo_status look_up(trader *x, int32_t task)
{
    const luo_bound_trade *t = x->t;
    if (t->counts) return LUO_OK;
    LUO_TRY(gpu_counts_at(x->r, t->home, task, &x->home, NULL));
    LUO_TRY(gpu_counts_at(x->r, t->there, task, &x->there, &x->between));
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

luo_status gpu_trade_send(luo_rank *r, const gpu_op *op, int32_t task, cudaStream_t stream)
{
    const luo_job *j = r->job;
    const luo_bound_comm *c = op->b->comm;
    const luo_bound_trade *t = c->trade;
    const luo_slot *slot = &j->bound.program->slots[op->b->instr->slot];
    trader x = {.r = r,
                .op = op,
                .t = t,
                .group = slot->group < 0 ? NULL : &j->bound.set->groups[slot->group],
                .slot = slot,
                .stream = stream,
                .width = t->width,
                .elem = c->elem_bytes,
                .at_home = gpu_buf(j, t->back ? t->to : t->from, task),
                .at_there = gpu_buf(j, t->back ? t->from : t->to, task),
                .mid = j->moe->mid,
                .own = c->route.rank};
    LUO_TRY(look_up(&x, task));
    LUO_TRY(clear_counts(&x));
    LUO_TRY(list(&x));
    if (ends(t) && t->step != LUO_TRADE_WHOLE) j->moe->mid_user = op;
    return gpu_exchange(op->transfer->comm, x.n, j->moe->message, x.elem, stream, &r->err);
}

luo_status gpu_trade_settle(luo_rank *r, const gpu_op *op)
{
    const gpu_op *last = r->job->moe->mid_user;
    if (!begins(op->b->comm->trade) || !last) return LUO_OK;
    return gpu_finish(r, last->transfer->latest);
}

/* ---- binding ---- */

luo_status gpu_bind_trade(gpu_binder *b, gpu_op *op)
{
    luo_job *j = b->job;
    gpu_transfer *t = op->transfer;
    const gpu_cells none = {.from = -1, .to = -1};
    t->enter = t->leave = t->local = none;
    t->send_direct = t->recv_direct = true;
    t->deep = 1;
    t->ticket_of = LUO_NEW_N(j->arena, int64_t, 1);
    t->comm = gpu_comms_find(j->x->comms, j->bound.set, j->bound.program, op->b->instr);
    return t->ticket_of ? LUO_OK : luo_err_nomem(b->err);
}

int64_t gpu_trade_blocks(const luo_bound_trade *t)
{
    return t->n * experts_of(t, t->rank);
}

int64_t gpu_trade_messages(const luo_bound_trade *t)
{
    if (is_led(t)) return gpu_led_messages(t);
    return 2 * (int64_t)t->n * (t->counts ? 1 : most_experts(t));
}

int64_t gpu_trade_between(const luo_bound_trade *t)
{
    int64_t n = 0;
    if (is_led(t)) return gpu_led_counts(t);
    if (t->step == LUO_TRADE_WHOLE) return 0;
    for (int32_t node = 0; node < t->nodes; node++)
        n += t->per_node * experts_of(t, node * t->per_node + place_of(t));
    return n;
}

int64_t gpu_trade_mid_bytes(const luo_bound_comm *c)
{
    const luo_bound_trade *t = c->trade;
    if (t->step == LUO_TRADE_WHOLE) return 0;
    if (is_led(t))
        return (gpu_led_room(t, false) + gpu_led_room(t, true)) * t->width * c->elem_bytes;
    return (t->counts ? gpu_trade_between(t) : t->per_node * t->own) * c->elem_bytes;
}
