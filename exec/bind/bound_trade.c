/* bound_trade.c: exchanges of rows of experts: who has all experts together, and by which steps
 * their rows go. */
#include "core/graph/moe/alltoall.h"
#include "core/hspmd/bounds.h"
#include "exec/bind/bound_internal.h"

/* By what shares the second dimension of counts is cut where this device has them; NULL: alike. */
static const uint32_t *shares_of_experts(const luo_binder *binder, const luo_buffer *counts)
{
    const luo_ann *ann = counts->ann;
    for (int32_t u = 0; u < ann->u; u++)
        for (int32_t i = 0; i < ann->grp[u].ndev; i++)
            if (ann->grp[u].dev[i] == binder->b->device) return luo_grp_share(&ann->grp[u], 1);
    return NULL;
}

/* Experts of every rank of the group. */
static luo_status deal_experts(luo_binder *binder, luo_bound_trade *trade, int64_t experts)
{
    int64_t *expert = LUO_NEW_N(binder->arena, int64_t, trade->n + 1);
    if (!expert) return luo_err_nomem(binder->err);
    luo_bounds_cut(experts, trade->n,
                   shares_of_experts(binder, luo_bound_desc(binder->b, trade->there)), expert);
    trade->expert = expert;
    return LUO_OK;
}

/* Are the rows those of some experts, not of all? */
static bool has_some_experts(const luo_buffer *rows)
{
    for (int32_t u = 0; u < rows->ann->u; u++)
        if (luo_grp_count(&rows->ann->grp[u], 0) > 1) return true;
    return false;
}

/* Steps of one exchange stand one behind the other. */
static bool goes_on(const luo_role *role, int32_t a)
{
    if (a < 0 || a + 1 >= role->ninstr) return false;
    const luo_instr *x = &role->instr[a], *y = x + 1;
    return luo_instr_trades(x) && luo_instr_trades(y) && x->op == y->op &&
           x->exchange < y->exchange && x->exchange + LUO_LEADER_STEPS > y->exchange;
}

static void find_steps(const luo_binder *binder, const luo_instr *instr, luo_bound_trade *trade)
{
    const luo_role *role = binder->b->role;
    trade->first = trade->last = instr->id;
    while (goes_on(role, trade->first - 1)) trade->first--;
    while (goes_on(role, trade->last)) trade->last++;
    const bool led = role->instr[trade->first].kind == LUO_INSTR_P2P;
    if (trade->first == trade->last)
        trade->step = LUO_TRADE_WHOLE;
    else if (instr->kind == LUO_INSTR_COLLECTIVE && led)
        trade->step = LUO_TRADE_LEADERS;
    else if (instr->id == trade->first)
        trade->step = led ? LUO_TRADE_GATHER : LUO_TRADE_FIRST;
    else
        trade->step = led ? LUO_TRADE_SCATTER : LUO_TRADE_SECOND;
}

static const luo_group *group_of(const luo_binder *binder, int32_t instr)
{
    const luo_slot *slot = &binder->b->program->slots[binder->b->role->instr[instr].slot];
    return &binder->b->set->groups[slot->group];
}

/* n: it is none of them. */
static int32_t rank_in(const int32_t *dev, int32_t n, int32_t device)
{
    int32_t rank = 0;
    while (rank < n && dev[rank] != device) rank++;
    return rank;
}

/* The message of a slot to or from a device; -1: none. */
static int32_t message_with(const luo_slot *slot, int32_t device)
{
    for (int32_t k = 0; k < slot->nmessage; k++)
        if (slot->message[k].peer == device) return k;
    return -1;
}

static bool sends_to_leader(const luo_move *move)
{
    return move->step == LUO_LEADER_GATHER && move->kind == LUO_MOVE_SEND;
}

/* Through leaders: who sends to whom stands in the moves, of all devices. */
static luo_status find_led_ranks(const luo_binder *binder, const luo_instr *instr,
                                 luo_bound_trade *trade)
{
    const luo_moves *moves = &binder->b->set->exchanges[instr->exchange].resolution->moves;
    const luo_slot *slot = &binder->b->program->slots[instr->slot];
    const int32_t device = binder->b->program->device;
    int32_t leader = device, place = 0;
    int32_t *message = LUO_NEW_N(binder->arena, int32_t, moves->n + 1);
    if (!message) return luo_err_nomem(binder->err);
    for (int32_t i = 0; i < moves->n; i++)
        if (sends_to_leader(&moves->at[i]) && moves->at[i].dev[0] == device)
            leader = moves->at[i].dev[1];
    message[0] = message_with(slot, leader);
    trade->per_node = 1;
    for (int32_t i = 0; i < moves->n; i++) {
        const luo_move *move = &moves->at[i];
        if (sends_to_leader(move) && move->dev[1] == leader) {
            if (move->dev[0] == device) place = trade->per_node;
            message[trade->per_node++] = message_with(slot, move->dev[0]);
        }
        const int32_t node = rank_in(move->dev, move->ndev, leader);
        if (move->step != LUO_LEADER_EXCHANGE || node == move->ndev) continue;
        trade->nodes = move->ndev;
        trade->rank = node;
    }
    trade->message = message;
    trade->leads = leader == device;
    trade->n = trade->nodes * trade->per_node;
    trade->rank = trade->rank * trade->per_node + place;
    return LUO_OK;
}

/* Places of the device in its node and among the nodes, by the groups of both steps. */
static luo_status find_ranks(const luo_binder *binder, const luo_instr *instr,
                             luo_bound_trade *trade)
{
    const int32_t device = binder->b->program->device;
    if (trade->step >= LUO_TRADE_GATHER) return find_led_ranks(binder, instr, trade);
    const luo_group *own = group_of(binder, instr->id);
    trade->nodes = 1;
    trade->per_node = trade->n = own->n;
    trade->rank = rank_in(own->dev, own->n, device);
    if (trade->step == LUO_TRADE_WHOLE) return LUO_OK;
    const luo_group *other = group_of(binder, luo_bound_trade_other(trade));
    const bool inside = luo_bound_trade_is_inside(trade);
    const luo_group *node = inside ? own : other, *across = inside ? other : own;
    trade->nodes = across->n;
    trade->per_node = node->n;
    trade->n = across->n * node->n;
    trade->rank = rank_in(across->dev, across->n, device) * node->n;
    trade->rank += rank_in(node->dev, node->n, device);
    return LUO_OK;
}

luo_status luo_bind_trade(luo_binder *binder, const luo_bound_op *op, luo_bound_comm *comm)
{
    luo_bound_trade *trade = LUO_NEW(binder->arena, luo_bound_trade);
    if (!trade) return luo_err_nomem(binder->err);
    comm->trade = trade;
    if (op->instr->kind == LUO_INSTR_P2P) LUO_TRY(luo_bind_peers(binder, op, comm));
    find_steps(binder, op->instr, trade);
    comm->route.first = trade->first;
    const luo_instr *instr = &binder->b->role->instr[trade->first];
    const bool counts = instr->nin == 1;
    const luo_buffer *in = luo_bound_desc(binder->b, instr->in[0]);
    trade->from = instr->in[0];
    trade->to = binder->b->role->instr[trade->last].out[0];
    trade->home = counts ? trade->from : instr->in[1];
    trade->there = counts ? trade->to : instr->in[2];
    trade->width = counts ? 1 : in->shape.dim[2]; /* here there may be no cells at all */
    trade->counts = counts;
    const luo_buffer *home = luo_bound_desc(binder->b, trade->home);
    trade->each = home->dim[0];
    trade->back = !counts && has_some_experts(in);
    const luo_role *role = binder->b->role;
    trade->most = luo_layout_bytes(binder->b->set, role, trade->back ? trade->from : trade->to) /
                  in->elem_bytes;
    trade->own = luo_layout_bytes(binder->b->set, role, trade->back ? trade->to : trade->from) /
                 in->elem_bytes;
    LUO_TRY(find_ranks(binder, op->instr, trade));
    return deal_experts(binder, trade, home->dim[1]);
}
