/* route.c: finds the moves behind an instruction, and says where their cells lie. */
#include "exec/bind/route.h"

#include <string.h>

#include "core/base/vec.h"
#include "core/graph/graph.h"
#include "exec/bind/path.h"

typedef struct finder {
    luo_arena *arena;
    const luo_programs *set;
    const luo_program *program;
    const luo_role *role;
    const luo_exchange *exchange; /* of the instruction */
    int32_t zero;                 /* id of the Reshard's first exchange */
    bool again;
    luo_err *err;
} finder;

static luo_status contradicts(const finder *f, int32_t instr, const char *what)
{
    return luo_err_set(
        f->err, LUO_EBUG, "device %d, instruction %d (`%s`): %s; compile the program again.",
        (int)f->program->device, (int)instr, f->set->ops[f->role->instr[instr].op].name, what);
}

/* ---- the instructions of the Reshard on this device ---- */

static bool belongs(const finder *f, int32_t instr)
{
    const luo_instr *i = &f->role->instr[instr];
    return i->exchange >= f->zero && i->exchange < f->zero + f->exchange->resolution->nsteps &&
           i->recompute == f->again;
}

static const luo_segment *segment_of(const luo_role *role, int32_t instr)
{
    int32_t lo = 0, hi = role->nseg - 1;
    while (lo < hi) {
        const int32_t mid = lo + (hi - lo) / 2;
        if (instr < role->seg[mid].first + role->seg[mid].n)
            hi = mid;
        else
            lo = mid + 1;
    }
    return &role->seg[lo];
}

/* Instructions of the same Reshard around `instr`, in its segment: *first..*end-1. */
static void find_run(const finder *f, int32_t instr, int32_t *first, int32_t *end)
{
    const luo_segment *seg = segment_of(f->role, instr);
    *first = instr;
    *end = instr + 1;
    while (*first > seg->first && belongs(f, *first - 1)) --*first;
    while (*end < seg->first + seg->n && belongs(f, *end)) ++*end;
}

static bool is_collective(const luo_move *move)
{
    return move->kind == LUO_MOVE_AR || move->kind == LUO_MOVE_RS || move->kind == LUO_MOVE_AG;
}

/* Moves of the device in one step; cells nobody has do not count. */
static luo_status find_moves(const finder *f, luo_hop *hop)
{
    const luo_moves *all = &f->exchange->resolution->moves;
    const luo_move **at = NULL;
    int32_t cap = 0;
    for (int32_t i = 0; i < all->n; i++) {
        const luo_move *move = &all->at[i];
        if (move->step != hop->step || luo_path_move_rank(move, f->program->device) < 0) continue;
        if (!is_collective(move) && move->region->empty) continue;
        if (!LUO_VEC_ROOM_IN(f->arena, at, hop->nmove, cap)) return luo_err_nomem(f->err);
        at[hop->nmove++] = move;
        hop->ncoll += is_collective(move);
        hop->batch |= move->kind == LUO_MOVE_SEND;
    }
    hop->move = at;
    return LUO_OK;
}

/* Instructions of a step from `at` on, if the device has any there: collectives in list order, one
 * batch, one copy. */
static luo_status take_hop(const finder *f, luo_hop *hop, int32_t at, int32_t end)
{
    const luo_instr *instr = f->role->instr;
    hop->first = at;
    for (int32_t k = 0; k < hop->ncoll + hop->batch; k++, at++) {
        const int32_t kind = k < hop->ncoll ? LUO_INSTR_COLLECTIVE : LUO_INSTR_P2P;
        if (at == end || instr[at].exchange != f->zero + hop->step || instr[at].kind != kind)
            return contradicts(f, at == end ? at - 1 : at, "it is not the next of its exchange");
    }
    if (at < end && instr[at].exchange == f->zero + hop->step &&
        instr[at].kind == LUO_INSTR_LOCAL) {
        hop->local = true;
        at++;
    }
    hop->n = at - hop->first;
    return LUO_OK;
}

/* Buffer that the instructions of a hop read, or write; -1: none. */
static int32_t buffer_of(const finder *f, const luo_hop *hop, bool written)
{
    for (int32_t k = hop->first; k < hop->first + hop->n; k++) {
        const luo_instr *instr = &f->role->instr[k];
        if (written && instr->nout) return instr->out[0];
        if (!written && instr->nin) return instr->in[0];
    }
    return -1;
}

static luo_status place_of(const finder *f, int32_t buffer, luo_place *out)
{
    const int32_t rank = f->exchange->shape.rank;
    *out = (luo_place){.buffer = buffer, .frame.region = {.rank = rank, .empty = true}};
    if (buffer < 0) return LUO_OK;
    const luo_buffer *b = &f->role->buf[buffer];
    if (!b->ann || b->shape.rank != rank)
        return luo_err_set(f->err, LUO_EBUG, "buffer `%s` does not say what it is a piece of.",
                           b->tensor);
    return luo_frame_of(f->arena, b, f->program->device, &out->frame, f->err);
}

/* A copy without an instruction in a step that has others: the Reshard runs in place. */
static bool keeps_in_place(const luo_hop *hop)
{
    for (int32_t k = 0; k < hop->nmove && !hop->local; k++)
        if (hop->move[k]->kind == LUO_MOVE_COPY) return true;
    return false;
}

/* Ends of the way: the buffers of the Reshard. An instruction that only sends names no result, one
 * that only receives no operand. */
static luo_status place_ends(const finder *f, luo_path *path)
{
    int32_t in = buffer_of(f, &path->hop[0], false), out = -1;
    for (int32_t j = 0; j < path->nhop && out < 0; j++) out = buffer_of(f, &path->hop[j], true);
    if (keeps_in_place(&path->hop[0])) {
        if (in < 0) in = out;
        if (out < 0) out = in;
    }
    LUO_TRY(place_of(f, out, &path->out));
    return place_of(f, in, &path->hop[0].from);
}

/* The steps before, with and after `instr` of one run of the Reshard, from instruction `at` on. */
static luo_status take_way(const finder *f, const luo_hop *steps, int32_t at, int32_t end,
                           luo_path *path)
{
    const int32_t n = f->exchange->resolution->nsteps;
    *path = (luo_path){.device = f->program->device, .hop = LUO_NEW_N(f->arena, luo_hop, n)};
    if (!path->hop) return luo_err_nomem(f->err);
    for (int32_t s = 0; s < n; s++) {
        luo_hop *hop = &path->hop[path->nhop];
        *hop = steps[s];
        LUO_TRY(take_hop(f, hop, at, end));
        at += hop->n;
        path->nhop += hop->n > 0;
        path->ends_early = hop->n == 0;
    }
    if (path->ends_early) {
        path->kept = steps[n - 1].move;
        path->nkept = steps[n - 1].nmove;
    }
    return LUO_OK;
}

static luo_status find_way(const finder *f, int32_t instr, luo_path *path)
{
    const int32_t n = f->exchange->resolution->nsteps;
    int32_t at, end;
    luo_hop *steps = LUO_NEW_N(f->arena, luo_hop, n);
    if (!steps) return luo_err_nomem(f->err);
    for (int32_t s = 0; s < n; s++) {
        steps[s].step = s;
        LUO_TRY(find_moves(f, &steps[s]));
    }
    find_run(f, instr, &at, &end);
    for (;;) { /* the same Reshard may run twice in a row */
        LUO_TRY(take_way(f, steps, at, end, path));
        if (path->nhop == 0) return contradicts(f, instr, "it is not the next of its exchange");
        const luo_hop *last = &path->hop[path->nhop - 1];
        at = last->first + last->n;
        if (instr < at) break;
    }
    LUO_TRY(place_ends(f, path));
    return luo_path_plan(f->arena, path, f->set->ops[f->exchange->op].name, f->err);
}

/* ---- segments of one instruction ---- */

typedef struct ends { /* being filled */
    luo_copy_segment_list *send, *recv;
} ends;

/* What a move takes from the device goes to the lists from send on, what it puts there to those
 * from recv on. NULL: not looked at. */
static luo_status add_cells(const finder *f, const luo_hop *hop, const luo_move *move,
                            luo_copy_segment_list *send, luo_copy_segment_list *recv)
{
    int32_t n;
    const luo_region *region = luo_path_move_cells(move, f->program->device, false, &n);
    for (int32_t k = 0; k < n && send; k++)
        LUO_TRY(luo_segments_add(f->arena, &send[k], &hop->from.frame, hop->from.base, &region[k],
                                 f->err));
    region = luo_path_move_cells(move, f->program->device, true, &n);
    for (int32_t k = 0; k < n && recv; k++)
        LUO_TRY(
            luo_segments_add(f->arena, &recv[k], &hop->to.frame, hop->to.base, &region[k], f->err));
    return LUO_OK;
}

static luo_status fill_collective(const finder *f, const luo_hop *hop, int32_t instr, ends *e,
                                  luo_route *out)
{
    const luo_slot *slot = &f->program->slots[f->role->instr[instr].slot];
    const luo_group *group = &f->set->groups[slot->group];
    int32_t turn = instr - hop->first, at = 0;
    while (!is_collective(hop->move[at]) || turn-- > 0) at++;
    const luo_move *move = hop->move[at];
    bool same = group->n == move->ndev;
    for (int32_t k = 0; same && k < group->n; k++) same = group->dev[k] == move->dev[k];
    if (!same) return contradicts(f, instr, "its group is another than that of its exchange");
    out->rank = luo_path_move_rank(move, f->program->device);
    return add_cells(f, hop, move, e->send, e->recv);
}

static luo_status fill_batch(const finder *f, const luo_hop *hop, int32_t instr, ends *e)
{
    const luo_slot *slot = &f->program->slots[f->role->instr[instr].slot];
    for (int32_t j = 0; j < slot->nmessage; j++) {
        const luo_message *message = &slot->message[j];
        luo_copy_segment_list *list = message->send ? &e->send[j] : &e->recv[j];
        for (int32_t k = 0; k < hop->nmove; k++)
            if (hop->move[k]->kind == LUO_MOVE_SEND &&
                hop->move[k]->dev[message->send] == message->peer)
                LUO_TRY(add_cells(f, hop, hop->move[k], message->send ? list : NULL,
                                  message->send ? NULL : list));
        if (list->elements != message->elements)
            return contradicts(f, instr, "its messages are not as long as its exchange says");
    }
    return LUO_OK;
}

static luo_status fill_copy(const finder *f, const luo_hop *hop, ends *e)
{
    for (int32_t k = 0; k < hop->nmove; k++)
        if (hop->move[k]->kind == LUO_MOVE_COPY)
            LUO_TRY(add_cells(f, hop, hop->move[k], e->send, e->recv));
    return LUO_OK;
}

static luo_status fill(const finder *f, const luo_hop *hop, int32_t instr, ends *e, luo_route *out)
{
    switch ((luo_instr_kind)f->role->instr[instr].kind) {
    case LUO_INSTR_COLLECTIVE:
        return fill_collective(f, hop, instr, e, out);
    case LUO_INSTR_P2P:
        return fill_batch(f, hop, instr, e);
    case LUO_INSTR_LOCAL:
        return fill_copy(f, hop, e);
    case LUO_INSTR_COMPUTE:
    case LUO_INSTR_IO:
        break;
    }
    return luo_err_set(f->err, LUO_EBUG, "instruction %d of a Reshard moves nothing; report it.",
                       (int)instr);
}

/* Ranks, messages, or one. */
static int32_t count_ends(const finder *f, int32_t instr)
{
    const luo_instr *i = &f->role->instr[instr];
    if (i->kind == LUO_INSTR_COLLECTIVE) return f->set->groups[f->program->slots[i->slot].group].n;
    return i->kind == LUO_INSTR_P2P ? f->program->slots[i->slot].nmessage : 1;
}

static luo_status seal(const finder *f, const ends *e, int32_t n, luo_route *out)
{
    luo_copy_segments *send = LUO_NEW_N(f->arena, luo_copy_segments, n);
    luo_copy_segments *recv = LUO_NEW_N(f->arena, luo_copy_segments, n);
    if (!send || !recv) return luo_err_nomem(f->err);
    int64_t reads = 0, writes = 0;
    for (int32_t j = 0; j < n; j++) {
        send[j] = luo_segments_of(&e->send[j]);
        recv[j] = luo_segments_of(&e->recv[j]);
        reads += send[j].elements;
        writes += recv[j].elements;
    }
    out->n = n;
    out->send = send;
    out->recv = recv;
    if (reads == 0) out->in = -1;
    if (writes == 0) out->out = -1;
    return LUO_OK;
}

/* The largest logit is the largest of all devices', every other Partial is a sum. */
static luo_reduce reduce_of(const finder *f, const luo_path *path)
{
    const luo_hop *hop = &path->hop[0];
    const int32_t in = buffer_of(f, hop, false);
    if (in < 0) return LUO_REDUCE_SUM;
    for (int32_t k = hop->first - 1; k >= 0; k--) {
        const luo_instr *instr = &f->role->instr[k];
        for (int32_t j = 0; j < instr->nout; j++)
            if (instr->out[j] == in)
                return f->set->ops[instr->op].kind == LUO_OP_ROW_MAX ? LUO_REDUCE_MAX
                                                                     : LUO_REDUCE_SUM;
    }
    return LUO_REDUCE_SUM;
}

static luo_status make_route(const finder *f, const luo_path *path, int32_t instr, luo_route *out)
{
    const luo_hop *hop = path->hop, *last = &path->hop[path->nhop - 1];
    while (instr >= hop->first + hop->n) hop++;
    const int32_t n = count_ends(f, instr);
    ends e = {LUO_NEW_N(f->arena, luo_copy_segment_list, n),
              LUO_NEW_N(f->arena, luo_copy_segment_list, n)};
    if (!e.send || !e.recv) return luo_err_nomem(f->err);
    luo_route route = {.in = hop->from.buffer,
                       .out = hop->to.buffer,
                       .rank = -1,
                       .scratch_elements = path->scratch_elements,
                       .first = path->hop[0].first,
                       .last = last->first + last->n - 1,
                       .enter.from = -1,
                       .leave.from = -1};
    if (instr == hop->first) route.enter = hop->enter;
    if (instr == route.last) route.leave = path->leave;
    LUO_TRY(fill(f, hop, instr, &e, &route));
    if (f->role->instr[instr].kind == LUO_INSTR_COLLECTIVE) route.reduce = reduce_of(f, path);
    LUO_TRY(seal(f, &e, n, &route));
    *out = route;
    return LUO_OK;
}

/* Rows of experts lie as the counts say, which are known when the step runs. */
static luo_route trade_route(const finder *f, int32_t instr)
{
    const luo_instr *i = &f->role->instr[instr];
    luo_route route = {.in = -1,
                       .out = -1,
                       .rank = -1,
                       .first = instr,
                       .last = instr,
                       .enter.from = -1,
                       .leave.from = -1};
    if (i->kind == LUO_INSTR_P2P) return route;
    const luo_group *group = &f->set->groups[f->program->slots[i->slot].group];
    route.in = i->in[0];
    route.out = i->out[0];
    route.n = group->n;
    while (group->dev[++route.rank] != f->program->device) {
    }
    return route;
}

/* ---- buckets ---- */

static bool same_call(const luo_instr *a, const luo_instr *b)
{
    return a->exchange == b->exchange && a->recompute == b->recompute &&
           luo_instr_lane(a) == luo_instr_lane(b);
}

static bool meets(const luo_group *group, const luo_move *move)
{
    bool same = is_collective(move) && group->n == move->ndev;
    for (int32_t k = 0; same && k < group->n; k++) same = group->dev[k] == move->dev[k];
    return same;
}

/* The move of a call: as many of its group stand before it as calls do in its segment. */
static const luo_move *move_of(const finder *f, const luo_hop *hop, int32_t instr)
{
    const luo_instr *at = f->role->instr;
    const int32_t group = f->program->slots[at[instr].slot].group;
    int32_t before = 0;
    for (int32_t i = segment_of(f->role, instr)->first; i < instr; i++)
        before += at[i].exchange == at[instr].exchange && at[i].recompute == at[instr].recompute &&
                  f->program->slots[at[i].slot].group == group;
    for (int32_t k = 0; k < hop->nmove; k++)
        if (meets(&f->set->groups[group], hop->move[k]) && before-- == 0) return hop->move[k];
    return NULL;
}

/* Leaves the moves of the calls in the hop, in their order; with all calls of the step also what it
 * moves without one. */
static luo_status pick_moves(const finder *f, luo_hop *hop)
{
    const luo_move **at = LUO_NEW_N(f->arena, const luo_move *, hop->nmove);
    int32_t n = 0;
    if (!at) return luo_err_nomem(f->err);
    if (hop->n > hop->ncoll || hop->batch)
        return contradicts(f, hop->first, "its bucket has other calls than its exchange");
    for (int32_t i = hop->first; i < hop->first + hop->n; i++) {
        at[n] = move_of(f, hop, i);
        if (!at[n++]) return contradicts(f, i, "its group is another than that of its exchange");
    }
    for (int32_t k = 0; k < hop->nmove && hop->n == hop->ncoll; k++)
        if (!is_collective(hop->move[k])) at[n++] = hop->move[k];
    hop->ncoll = hop->n;
    hop->move = at;
    hop->nmove = n;
    return LUO_OK;
}

/* Calls of a lane that stand together; every tensor goes its way from the buffer that the call
 * reads to the one that it writes, so that no step of it has to know of another. */
static luo_status make_part(const finder *f, int32_t instr, int32_t first, int32_t n, int32_t k,
                            luo_route *out)
{
    luo_hop hop = {.step = f->exchange->step, .first = first, .n = n};
    luo_path path = {.device = f->program->device, .nhop = 1, .hop = &hop};
    LUO_TRY(find_moves(f, &hop));
    LUO_TRY(pick_moves(f, &hop));
    LUO_TRY(place_of(f, f->role->instr[instr].out[k], &path.out));
    LUO_TRY(place_of(f, f->role->instr[instr].in[k], &hop.from));
    LUO_TRY(luo_path_plan(f->arena, &path, f->set->ops[f->exchange->op].name, f->err));
    return make_route(f, &path, instr, out);
}

static luo_status make_bucket(finder *f, int32_t instr, const luo_exchange *exchange,
                              luo_route *out)
{
    const luo_instr *at = f->role->instr, *i = &at[instr];
    const luo_segment *seg = segment_of(f->role, instr);
    int32_t first = instr, end = instr + 1;
    while (first > seg->first && same_call(&at[first - 1], i)) first--;
    while (end < seg->first + seg->n && same_call(&at[end], i)) end++;
    luo_route *part = LUO_NEW_N(f->arena, luo_route, exchange->nparts);
    if (!part) return luo_err_nomem(f->err);
    if (exchange->nparts != i->npieces || i->kind != LUO_INSTR_COLLECTIVE)
        return luo_err_set(f->err, LUO_EBUG, "instruction %d of device %d has other pieces than "
                           "its bucket.", (int)instr, (int)f->program->device);
    *out = (luo_route){.in = -1,
                       .out = -1,
                       .rank = -1,
                       .first = first,
                       .last = end - 1,
                       .enter.from = -1,
                       .leave.from = -1,
                       .nparts = exchange->nparts,
                       .part = part};
    for (int32_t k = 0; k < exchange->nparts; k++) {
        f->exchange = &f->set->exchanges[exchange->part[k]];
        f->zero = exchange->part[k] - f->exchange->step;
        LUO_TRY(make_part(f, instr, first, end - first, k, &part[k]));
        out->scratch_elements += part[k].scratch_elements;
    }
    out->n = part[0].n;
    out->rank = part[0].rank;
    return LUO_OK;
}

luo_status luo_route_of(luo_arena *arena, const luo_programs *set, const luo_program *program,
                        int32_t instr, luo_route *out, luo_err *err)
{
    const luo_role *role = &set->roles[program->role];
    const luo_instr *i = &role->instr[instr];
    luo_path path;
    if (i->exchange < 0 || i->exchange >= set->nexchanges)
        return luo_err_set(err, LUO_EBUG, "instruction %d of device %d has no exchange to follow.",
                           (int)instr, (int)program->device);
    const luo_exchange *exchange = &set->exchanges[i->exchange];
    finder f = {arena,        set, program, role, exchange, i->exchange - exchange->step,
                i->recompute, err};
    if (luo_instr_trades(i)) {
        *out = trade_route(&f, instr);
        return LUO_OK;
    }
    if (exchange->nparts) return make_bucket(&f, instr, exchange, out);
    LUO_TRY(find_way(&f, instr, &path));
    return make_route(&f, &path, instr, out);
}
