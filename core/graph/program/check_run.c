/* check_run.c: all devices on an abstract machine with rendezvous semantics.
 *
 * Each lane runs in order. A collective ends when every member of its group stands at it; a batch
 * of messages ends when every message has met the peer's batch. Whatever is not communication
 * takes no time. If nothing can move and something is left, the sets of waits is a deadlock. */
#include <string.h>

#include "core/base/devset.h"
#include "core/graph/program/check_internal.h"

typedef struct lane_state {
    int32_t done;  /* points passed */
    int32_t over;  /* waits of the head point that are over: they stay so */
    int32_t left;  /* messages of the posted batch that are not met yet */
    int32_t room;  /* of met */
    bool posted;   /* the head point stands at its rendezvous */
} lane_state;

typedef struct group_state {
    int32_t arrived, first; /* first: device index that came first */
    int32_t members;        /* those that are run */
} group_state;

typedef struct machine {
    luo_arena *arena;
    const luo_programs *set;
    const check_list *const *lists;
    luo_err *err;
    const bool *runs;     /* by device index: the others take the same steps (check_fold.c) */
    lane_state *lane;     /* [device index * LUO_LANES + lane] */
    group_state *group;
    bool **met;           /* by the same index: messages of the posted batch */
    int32_t *queue;       /* devices to look at, a ring */
    bool *queued;
    int32_t head, waiting;
    int32_t *index;       /* by device id; -1: no program */
    int32_t max_device;
} machine;

static lane_state *lane_at(machine *m, int32_t dev, int32_t lane)
{
    return &m->lane[(int64_t)dev * LUO_LANES + lane];
}

static const check_point *point_at(machine *m, int32_t dev, int32_t lane)
{
    return &m->lists[dev]->point[lane][lane_at(m, dev, lane)->done];
}

static const luo_instr *instr_at(machine *m, int32_t dev, int32_t lane)
{
    return &m->lists[dev]->role->instr[point_at(m, dev, lane)->instr];
}

static const luo_slot *slot_at(machine *m, int32_t dev, int32_t lane)
{
    return &m->set->at[dev].slots[instr_at(m, dev, lane)->slot];
}

static const char *op_name(machine *m, const luo_instr *instr)
{
    return m->set->ops[instr->op].name;
}

static int32_t device_id(machine *m, int32_t dev)
{
    return m->set->at[dev].device;
}

static void enqueue(machine *m, int32_t dev)
{
    if (m->queued[dev]) return;
    m->queued[dev] = true;
    m->queue[(m->head + m->waiting++) % m->set->n] = dev;
}

static void pass_here(lane_state *state)
{
    state->done++;
    state->over = 0;
    state->posted = false;
}

static void pass(machine *m, int32_t dev, int32_t lane)
{
    pass_here(lane_at(m, dev, lane));
    enqueue(m, dev);
}

static bool ready(machine *m, int32_t dev, const check_point *point, lane_state *state)
{
    const check_wait *wait = m->lists[dev]->wait + point->first_wait;
    for (; state->over < point->nwait; state->over++)
        if (lane_at(m, dev, wait[state->over].lane)->done < wait[state->over].count) return false;
    return true;
}

/* Index of a device of the set; -1: it has no program. */
static int32_t find(machine *m, int32_t device)
{
    return device >= 0 && device <= m->max_device ? m->index[device] : -1;
}

/* ---- collectives ---- */

/* The same number of elements of every tensor; where they lie is each device's own. */
static bool same_pieces(const luo_instr *a, const luo_instr *b)
{
    bool same = a->npieces == b->npieces;
    if (a == b) return true; /* of one role */
    for (int32_t k = 0; same && k < a->npieces; k++) same = a->piece[k].count == b->piece[k].count;
    return same;
}

static luo_status pieces_differ(machine *m, int32_t a, int32_t b, int32_t lane)
{
    return luo_err_set(m->err, LUO_EINPUT, "devices %d and %d meet with different pieces in `%s`.",
                       (int)device_id(m, a), (int)device_id(m, b),
                       op_name(m, instr_at(m, a, lane)));
}

/* "grouped all_gather of 64 bytes in `op` (micro-batch 0)"; the word where it is not auto. */
static void put_call(luo_str *text, machine *m, int32_t dev, int32_t lane)
{
    const luo_instr *instr = instr_at(m, dev, lane);
    const luo_coll_variant variant = (luo_coll_variant)instr->variant;
    if (variant != LUO_COLL_AUTO) luo_str_addf(text, "%s ", luo_coll_variant_name(variant));
    luo_str_addf(text, "%s of %lld bytes in `%s` (micro-batch %d)",
                 luo_coll_name((luo_coll)instr->coll), (long long)instr->bytes, op_name(m, instr),
                 (int)point_at(m, dev, lane)->micro_batch);
}

static luo_status differ(machine *m, int32_t a, int32_t b, int32_t lane, const luo_group *group)
{
    luo_str who = {0}, calls = {0};
    luo_devset_print(&who, group->dev, group->n);
    put_call(&calls, m, a, lane);
    luo_str_addf(&calls, " and ");
    put_call(&calls, m, b, lane);
    const luo_status st = luo_err_set(
        m->err, LUO_EINPUT, "devices %d and %d meet in group %s with different calls: %s.",
        (int)device_id(m, a), (int)device_id(m, b), luo_str_get(&who), luo_str_get(&calls));
    luo_str_free(&who);
    luo_str_free(&calls);
    return st;
}

static luo_status arrive(machine *m, int32_t dev, int32_t lane)
{
    const luo_slot *slot = slot_at(m, dev, lane);
    const luo_group *group = &m->set->groups[slot->group];
    group_state *state = &m->group[slot->group];
    if (state->arrived++ == 0) state->first = dev;
    const luo_instr *instr = instr_at(m, state->first, lane), *y = instr_at(m, dev, lane);
    const int32_t batch = point_at(m, state->first, lane)->micro_batch;
    if (instr->coll != y->coll || instr->bytes != y->bytes || instr->exchange != y->exchange ||
        instr->v != y->v || instr->variant != y->variant ||
        batch != point_at(m, dev, lane)->micro_batch ||
        !check_same_counts(slot_at(m, state->first, lane), slot, group->n))
        return differ(m, state->first, dev, lane, group);
    if (!same_pieces(instr, y)) return pieces_differ(m, state->first, dev, lane);
    lane_at(m, dev, lane)->posted = true;
    if (state->arrived < state->members) return LUO_OK;
    state->arrived = 0;
    for (int32_t i = 0; i < group->n; i++)
        if (m->runs[find(m, group->dev[i])]) pass(m, find(m, group->dev[i]), lane);
    return LUO_OK;
}

/* ---- messages ---- */

/* Message between slot's device and `peer` in the given direction; -1: none. */
static int32_t find_message(const luo_slot *slot, int32_t peer, bool send)
{
    int32_t lo = 0, hi = slot->nmessage;
    while (lo < hi) {
        const int32_t mid = lo + (hi - lo) / 2;
        const luo_message *message = &slot->message[mid];
        const bool before = message->send != send ? message->send : message->peer < peer;
        if (before) lo = mid + 1;
        else hi = mid;
    }
    if (lo == slot->nmessage || slot->message[lo].peer != peer) return -1;
    return slot->message[lo].send == send ? lo : -1;
}

static luo_status sizes_differ(machine *m, int32_t a, int32_t la, const luo_message *x, int32_t b,
                               const luo_message *y)
{
    const int32_t from = x->send ? a : b, to = x->send ? b : a;
    return luo_err_set(m->err, LUO_EINPUT,
                       "device %d sends %lld bytes to device %d in `%s` (micro-batch %d), which "
                       "expects %lld.", (int)device_id(m, from),
                       (long long)(x->send ? x : y)->bytes, (int)device_id(m, to),
                       op_name(m, instr_at(m, a, la)), (int)point_at(m, a, la)->micro_batch,
                       (long long)(x->send ? y : x)->bytes);
}

/* Marks message k of the batch as met; true if that was the last one. */
static bool meet(machine *m, int32_t dev, int32_t lane, int32_t k)
{
    bool *met = m->met[(int64_t)dev * LUO_LANES + lane];
    if (met[k]) return false;
    met[k] = true;
    return --lane_at(m, dev, lane)->left == 0;
}

static luo_status post(machine *m, int32_t dev, int32_t lane)
{
    const luo_slot *slot = slot_at(m, dev, lane);
    const luo_instr *in = instr_at(m, dev, lane);
    lane_state *state = lane_at(m, dev, lane);
    bool **met = &m->met[(int64_t)dev * LUO_LANES + lane];
    const int32_t batch = point_at(m, dev, lane)->micro_batch, other = luo_program_lane_peer(lane);
    if (state->room < slot->nmessage) {
        *met = LUO_NEW_N(m->arena, bool, slot->nmessage);
        if (!*met) return luo_err_nomem(m->err);
        state->room = slot->nmessage;
    }
    for (int32_t k = 0; k < slot->nmessage; k++) (*met)[k] = false;
    state->posted = true;
    state->left = slot->nmessage;
    for (int32_t k = 0; k < slot->nmessage; k++) {
        const luo_message *message = &slot->message[k];
        const int32_t peer = find(m, message->peer);
        if (peer < 0 || !lane_at(m, peer, other)->posted) continue;
        const luo_instr *theirs = instr_at(m, peer, other);
        if (theirs->kind != LUO_INSTR_P2P || theirs->exchange != in->exchange ||
            point_at(m, peer, other)->micro_batch != batch)
            continue;
        const luo_slot *slot2 = slot_at(m, peer, other);
        const int32_t j = find_message(slot2, device_id(m, dev), !message->send);
        if (j < 0) continue;
        if (slot2->message[j].bytes != message->bytes)
            return sizes_differ(m, dev, lane, message, peer, &slot2->message[j]);
        if (meet(m, peer, other, j)) pass(m, peer, other);
        if (meet(m, dev, lane, k)) {
            pass(m, dev, lane);
            return LUO_OK;
        }
    }
    if (state->posted && state->left == 0) pass(m, dev, lane);
    return LUO_OK;
}

/* ---- the machine ---- */

static luo_status step(machine *m, int32_t dev, int32_t lane, bool *moved)
{
    const check_list *list = m->lists[dev];
    lane_state *state = lane_at(m, dev, lane);
    while (state->done < list->n[lane] && !state->posted) {
        const check_point *point = &list->point[lane][state->done];
        if (!ready(m, dev, point, state)) return LUO_OK;
        *moved = true;
        const int32_t kind = list->role->instr[point->instr].kind;
        if (kind == LUO_INSTR_COLLECTIVE) LUO_TRY(arrive(m, dev, lane));
        else if (kind == LUO_INSTR_P2P) LUO_TRY(post(m, dev, lane));
        else
            pass_here(state);
    }
    return LUO_OK;
}

static luo_status run_all(machine *m)
{
    for (int32_t d = 0; d < m->set->n; d++)
        if (m->runs[d]) enqueue(m, d);
    while (m->waiting > 0) {
        const int32_t dev = m->queue[m->head];
        m->head = (m->head + 1) % m->set->n;
        m->waiting--;
        m->queued[dev] = false;
        bool moved = true;
        while (moved) {
            moved = false;
            for (int32_t l = 0; l < LUO_LANES; l++)
                if (m->lists[dev]->n[l] > 0) LUO_TRY(step(m, dev, l, &moved));
        }
    }
    return LUO_OK;
}

/* ---- when it does not finish ---- */

typedef struct place {
    int32_t dev, lane;
} place;

static bool finished(machine *m, place p)
{
    return lane_at(m, p.dev, p.lane)->done == m->lists[p.dev]->n[p.lane];
}

/* What the head of a lane waits for: another lane of its device, or a peer's. dev -1: nobody. */
static place waits_for(machine *m, place p)
{
    const check_point *point = point_at(m, p.dev, p.lane);
    const check_wait *wait = m->lists[p.dev]->wait + point->first_wait;
    for (int32_t k = 0; k < point->nwait; k++)
        if (lane_at(m, p.dev, wait[k].lane)->done < wait[k].count)
            return (place){p.dev, wait[k].lane};
    const luo_slot *slot = slot_at(m, p.dev, p.lane);
    if (instr_at(m, p.dev, p.lane)->kind == LUO_INSTR_COLLECTIVE) {
        const luo_group *group = &m->set->groups[slot->group];
        for (int32_t i = 0; i < group->n; i++) {
            const place o = {find(m, group->dev[i]), p.lane};
            if (o.dev < 0) return o;
            if (finished(m, o) || !lane_at(m, o.dev, o.lane)->posted ||
                instr_at(m, o.dev, o.lane)->kind != LUO_INSTR_COLLECTIVE ||
                slot_at(m, o.dev, o.lane)->group != slot->group)
                return o;
        }
        return (place){-1, 0};
    }
    const bool *met = m->met[(int64_t)p.dev * LUO_LANES + p.lane];
    for (int32_t k = 0; k < slot->nmessage; k++)
        if (!met[k]) return (place){find(m, slot->message[k].peer), luo_program_lane_peer(p.lane)};
    return (place){-1, 0};
}

static luo_status nobody(machine *m, place p, place o, int32_t device)
{
    const luo_instr *instr = instr_at(m, p.dev, p.lane);
    const bool sends = instr->kind == LUO_INSTR_P2P && instr->bytes > 0;
    const int32_t id = o.dev >= 0 ? device_id(m, o.dev) : device;
    return luo_err_set(m->err, LUO_EINPUT,
                       "device %d waits in `%s` (micro-batch %d) for device %d, which never %s it.",
                       (int)device_id(m, p.dev), op_name(m, instr),
                       (int)point_at(m, p.dev, p.lane)->micro_batch, (int)id,
                       instr->kind == LUO_INSTR_COLLECTIVE ? "joins"
                       : sends                             ? "receives"
                                                           : "sends");
}

static int32_t awaited_device(machine *m, place p)
{
    const luo_slot *slot = slot_at(m, p.dev, p.lane);
    if (instr_at(m, p.dev, p.lane)->kind != LUO_INSTR_P2P) return -1;
    const bool *met = m->met[(int64_t)p.dev * LUO_LANES + p.lane];
    for (int32_t k = 0; k < slot->nmessage; k++)
        if (!met[k]) return slot->message[k].peer;
    return -1;
}

/* Follows the waits from one stuck lane: they end at a lane that has no more to do, or run in a
 * circle, which is the deadlock. */
static luo_status explain(machine *m, place p)
{
    const int32_t limit = m->set->n * LUO_LANES;
    for (int32_t i = 0; i < limit; i++) {
        const place o = waits_for(m, p);
        if (o.dev < 0 || finished(m, o)) return nobody(m, p, o, awaited_device(m, p));
        p = o;
    }
    luo_str text = {0};
    const place start = p;
    for (int32_t i = 0; i < 8; i++) {
        const place o = waits_for(m, p);
        luo_str_addf(&text, "%sdevice %d in `%s` (micro-batch %d) for device %d", i ? ", " : "",
                     (int)device_id(m, p.dev), op_name(m, instr_at(m, p.dev, p.lane)),
                     (int)point_at(m, p.dev, p.lane)->micro_batch, (int)device_id(m, o.dev));
        p = o;
        if (p.dev == start.dev && p.lane == start.lane) break;
    }
    const luo_status st = luo_err_set(m->err, LUO_EINPUT, "the programs wait for each other for "
                                      "ever: %s.", luo_str_get(&text));
    luo_str_free(&text);
    return st;
}

static luo_status check_finished(machine *m)
{
    for (int32_t d = 0; d < m->set->n; d++)
        for (int32_t l = 0; m->runs[d] && l < LUO_LANES; l++) {
            const place p = {d, l};
            if (!finished(m, p)) return explain(m, p);
        }
    return LUO_OK;
}

static luo_status run(luo_arena *scratch, const luo_programs *set, const check_list *const *lists,
                      const bool *runs, luo_err *err)
{
    const int64_t lanes = (int64_t)set->n * LUO_LANES;
    machine m = {.arena = scratch, .set = set, .lists = lists, .err = err, .runs = runs,
                 .lane = LUO_NEW_N(scratch, lane_state, lanes),
                 .group = LUO_NEW_N(scratch, group_state, set->ngroups),
                 .met = LUO_NEW_N(scratch, bool *, lanes),
                 .queue = LUO_NEW_N(scratch, int32_t, set->n),
                 .queued = LUO_NEW_N(scratch, bool, set->n)};
    m.max_device = set->n ? set->at[set->n - 1].device : -1;
    m.index = LUO_NEW_N(scratch, int32_t, (int64_t)m.max_device + 1);
    if (!m.lane || !m.group || !m.met || !m.queue || !m.queued || !m.index)
        return luo_err_nomem(err);
    for (int32_t d = 0; d <= m.max_device; d++) m.index[d] = -1;
    for (int32_t i = 0; i < set->n; i++) m.index[set->at[i].device] = i;
    for (int32_t g = 0; g < set->ngroups; g++)
        for (int32_t i = 0; i < set->groups[g].n; i++)
            m.group[g].members += runs[m.index[set->groups[g].dev[i]]];
    LUO_TRY(run_all(&m));
    return check_finished(&m);
}

luo_status luo_check_run(luo_arena *scratch, const luo_programs *set,
                         const check_list *const *lists, bool fold, luo_err *err)
{
    luo_err first = {0};
    bool folded, *runs = LUO_NEW_N(scratch, bool, set->n);
    if (!runs) return luo_err_nomem(err);
    LUO_TRY(luo_check_fold(scratch, set, lists, runs, &folded, err));
    if (folded && fold && run(scratch, set, lists, runs, &first) == LUO_OK) return LUO_OK;
    for (int32_t i = 0; i < set->n; i++) runs[i] = true; /* the sentence names every device */
    return run(scratch, set, lists, runs, err);
}
