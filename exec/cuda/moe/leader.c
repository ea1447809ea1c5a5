/* leader.c: rows of experts, and their counts, through the first device of each node. It has two
 * runs of memory in the middle: what the devices of its node have for all experts, by place and
 * expert; and what all senders have for the experts of its node, by sender and expert. To the
 * experts rows go from the first run to the second, back the other way. The counts came that way
 * before and lie in the runs as the rows do, one number a block, so that a leader knows how many
 * rows there are.
 *
 * The part of a device of the node, or of a node, is as few messages as it lies in pieces at both
 * ends: home, and in the first run, one; there, one for each sender and expert. */
#include <string.h>

#include "exec/cuda/moe/trade_internal.h"

static int32_t first_of_node(const luo_bound_trade *trade)
{
    return trade->rank - trade->rank % trade->per_node;
}

static int64_t experts_of_node(const luo_bound_trade *trade, int32_t node)
{
    return trade->expert[(node + 1) * trade->per_node] - trade->expert[node * trade->per_node];
}

static int32_t own_node(const luo_bound_trade *trade)
{
    return trade->rank / trade->per_node;
}

/* ---- sizes ---- */

int64_t gpu_led_room(const luo_bound_trade *trade, bool arrives)
{
    const int64_t all = trade->expert[trade->n];
    if (!trade->leads) return 0;
    if (trade->counts)
        return arrives ? trade->n * experts_of_node(trade, own_node(trade)) : trade->per_node * all;
    return (arrives ? trade->n : trade->per_node) * (trade->own / trade->width);
}

int64_t gpu_led_counts(const luo_bound_trade *trade)
{
    if (!trade->leads) return 0;
    return trade->per_node * trade->expert[trade->n] +
           trade->n * experts_of_node(trade, own_node(trade));
}

int64_t gpu_led_messages(const luo_bound_trade *trade)
{
    return trade->n * (experts_of_node(trade, own_node(trade)) + trade->per_node + 2);
}

/* ---- rows in the two runs ---- */

/* Of place s of the node for experts lo..hi-1. */
static int64_t rows_first(const trader *x, int32_t s, int64_t lo, int64_t hi)
{
    int64_t rows = 0;
    if (x->t->counts) return hi - lo;
    for (int64_t e = lo; e < hi; e++) rows += (int64_t)x->between[s * x->t->expert[x->t->n] + e];
    return rows;
}

/* Of a sender for experts lo..hi-1, which are those of the node. */
static int64_t rows_second(const trader *x, int32_t sender, int64_t lo, int64_t hi)
{
    const luo_bound_trade *trade = x->t;
    const int64_t here = experts_of_node(trade, own_node(trade)),
                  zero = trade->expert[first_of_node(trade)];
    int64_t rows = 0;
    if (trade->counts) return hi - lo;
    const float *at = x->between + trade->per_node * trade->expert[trade->n] + sender * here;
    for (int64_t e = lo; e < hi; e++) rows += (int64_t)at[e - zero];
    return rows;
}

bool gpu_led_fits(const trader *x)
{
    const luo_bound_trade *trade = x->t;
    const int64_t lo = trade->expert[first_of_node(trade)],
                  hi = trade->expert[first_of_node(trade) + trade->per_node];
    int64_t first = 0, second = 0;
    if (!trade->leads) return true;
    for (int32_t s = 0; s < trade->per_node; s++)
        first += rows_first(x, s, 0, trade->expert[trade->n]);
    for (int32_t s = 0; s < trade->n; s++) second += rows_second(x, s, lo, hi);
    return first <= gpu_led_room(trade, false) && second <= gpu_led_room(trade, true);
}

static char *second_run(const trader *x)
{
    return row_at(x, x->mid, gpu_led_room(x->t, false));
}

/* ---- messages ---- */

/* Between place i of the node, which has it at `here`, and a leader, which has it in a run. */
static luo_status pass(trader *x, int32_t i, bool to_run, char *here, char *run, int64_t rows)
{
    const int32_t k = x->t->message[i];
    if (k >= 0) {
        message_of(x, x->slot->message[k].peer, !to_run, run, rows);
        return LUO_OK;
    }
    return to_run ? keep(x, here, run, rows) : keep(x, run, here, rows);
}

static int64_t all_home(const trader *x)
{
    int64_t rows = 0;
    for (int32_t r = 0; r < x->t->n; r++)
        for (int64_t b = 0; b < blocks_of(x, r); b++) rows += home_rows(x, r, b);
    return rows;
}

/* Between homes and the first run. */
static luo_status list_homes(trader *x, bool to_run)
{
    const luo_bound_trade *trade = x->t;
    char *run = x->mid;
    if (!trade->leads) {
        message_of(x, x->slot->message[0].peer, to_run, x->at_home, all_home(x));
        return LUO_OK;
    }
    for (int32_t s = 0; s < trade->per_node; s++) {
        const int64_t rows = rows_first(x, s, 0, trade->expert[trade->n]);
        LUO_TRY(pass(x, s, to_run, x->at_home, run, rows));
        run = row_at(x, run, rows);
    }
    return LUO_OK;
}

/* Of a device that does not lead: what each sender has for each expert here; of counts, for all. */
static void list_there(trader *x, bool to_run)
{
    const luo_bound_trade *trade = x->t;
    for (int32_t s = 0; s < trade->n; s++)
        for (int64_t b = 0; b < blocks_of(x, trade->rank); b++)
            message_of(x, x->slot->message[0].peer, to_run,
                       row_at(x, x->at_there, place_there(x, s, b)), rows_there(x, s, b));
}

/* Between the second run and the experts. */
static luo_status list_experts(trader *x, bool to_run)
{
    const luo_bound_trade *trade = x->t;
    char *run = second_run(x);
    if (!trade->leads) {
        list_there(x, to_run);
        return LUO_OK;
    }
    for (int32_t s = 0; s < trade->n; s++)
        for (int32_t i = 0; i < trade->per_node; i++) {
            const int32_t r = first_of_node(trade) + i;
            for (int64_t b = 0; b < blocks_of(x, r); b++) {
                const int64_t lo = trade->expert[r] + b,
                              hi = trade->counts ? trade->expert[r + 1] : lo + 1;
                const int64_t rows = rows_second(x, s, lo, hi);
                char *here = i == 0 ? row_at(x, x->at_there, place_there(x, s, b)) : NULL;
                LUO_TRY(pass(x, i, to_run, here, run, rows));
                run = row_at(x, run, rows);
            }
        }
    return LUO_OK;
}

/* Among leaders: of every sender what it has for the experts of a node, which is one piece at both
 * ends. The first run has it of senders here for all nodes .. */
static void list_first(trader *x)
{
    const luo_bound_trade *trade = x->t;
    char *at = x->mid;
    for (int32_t s = 0; s < trade->per_node; s++)
        for (int32_t node = 0; node < trade->nodes; node++) {
            const int64_t lo = trade->expert[node * trade->per_node];
            const int64_t rows = rows_first(x, s, lo, lo + experts_of_node(trade, node));
            if (node != own_node(trade)) message_of(x, x->group->dev[node], !trade->back, at, rows);
            at = row_at(x, at, rows);
        }
}

/* .. the second one of all senders for this node; of those here it is copied. */
static luo_status list_second(trader *x)
{
    const luo_bound_trade *trade = x->t;
    const int64_t lo = trade->expert[first_of_node(trade)],
                  hi = lo + experts_of_node(trade, own_node(trade));
    char *first = x->mid, *at = second_run(x);
    for (int32_t sender = 0; sender < trade->n; sender++) {
        const int32_t node = sender / trade->per_node, s = sender % trade->per_node;
        const int64_t rows = rows_second(x, sender, lo, hi);
        if (node != own_node(trade)) {
            message_of(x, x->group->dev[node], trade->back, at, rows);
        } else {
            char *here = row_at(x, first, rows_first(x, s, 0, lo));
            LUO_TRY(trade->back ? keep(x, at, here, rows) : keep(x, here, at, rows));
            first = row_at(x, first, rows_first(x, s, 0, trade->expert[trade->n]));
        }
        at = row_at(x, at, rows);
    }
    return LUO_OK;
}

luo_status gpu_list_led(trader *x)
{
    const luo_bound_trade *trade = x->t;
    const bool gathers = trade->step == LUO_TRADE_GATHER;
    if (trade->step == LUO_TRADE_LEADERS) {
        list_first(x);
        return list_second(x);
    }
    return gathers == trade->back ? list_experts(x, gathers) : list_homes(x, gathers);
}
