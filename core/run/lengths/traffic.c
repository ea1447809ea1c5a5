#include "core/run/lengths/traffic.h"

#include <string.h>

#include "core/base/vec.h"

/* ---- who it is ---- */

static bool is_send(const luo_exchange *exchange, const luo_move *move)
{
    return move->kind == LUO_MOVE_SEND && move->step == exchange->step;
}

static uint64_t key_of(const luo_programs *set, const luo_comm_use *use)
{
    const int32_t what[2] = {use->stream, use->group < 0 ? -1 : use->coll};
    uint64_t h = luo_hash_bytes(LUO_HASH_EMPTY, what, sizeof what);
    if (use->group >= 0) {
        const luo_group *group = &set->groups[use->group];
        h = luo_hash_bytes(h, group->dev, (size_t)group->n * sizeof *group->dev);
    } else if (use->exchange >= 0 && set->exchanges[use->exchange].resolution) {
        const luo_exchange *exchange = &set->exchanges[use->exchange];
        const luo_moves *moves = &exchange->resolution->moves;
        for (int32_t i = 0; i < moves->n; i++)
            if (is_send(exchange, &moves->at[i]))
                h = luo_hash_bytes(h, moves->at[i].dev, 2 * sizeof *moves->at[i].dev);
    }
    return h ? h : 1;
}

/* ---- copies that stay when programs go ---- */

static int32_t *copy_devices(luo_traffic *traffic, const int32_t *from, int32_t n)
{
    int32_t *dev = LUO_NEW_N(traffic->arena, int32_t, n);
    if (dev) memcpy(dev, from, (size_t)n * sizeof *dev);
    return dev;
}

static luo_status copy_group(luo_traffic *traffic, const luo_group *from, int32_t *id, luo_err *err)
{
    int32_t *dev = copy_devices(traffic, from->dev, from->n);
    if (!dev || !LUO_VEC_ROOM_IN(traffic->arena, traffic->groups, traffic->set.ngroups,
                                 traffic->group_room))
        return luo_err_nomem(err);
    *id = traffic->set.ngroups++;
    traffic->groups[*id] = (luo_group){from->n, dev, from->stream};
    traffic->set.groups = traffic->groups;
    return LUO_OK;
}

/* Who sends to whom, without what. */
static luo_status copy_exchange(luo_traffic *traffic, const luo_exchange *from, int32_t *id,
                                luo_err *err)
{
    const int32_t most = from->resolution ? from->resolution->moves.n : 0;
    luo_resolution *resolution = LUO_NEW(traffic->arena, luo_resolution);
    luo_move *move = LUO_NEW_N(traffic->arena, luo_move, most);
    int32_t n = 0;
    if (!resolution || !move ||
        !LUO_VEC_ROOM_IN(traffic->arena, traffic->exchanges, traffic->set.nexchanges,
                         traffic->exchange_room))
        return luo_err_nomem(err);
    for (int32_t i = 0; i < most; i++) {
        const luo_move *m = &from->resolution->moves.at[i];
        if (!is_send(from, m)) continue;
        int32_t *dev = copy_devices(traffic, m->dev, 2);
        if (!dev) return luo_err_nomem(err);
        move[n++] = (luo_move){.kind = m->kind, .step = m->step, .ndev = 2, .dev = dev};
    }
    resolution->moves.n = n;
    resolution->moves.at = move;
    *id = traffic->set.nexchanges++;
    traffic->exchanges[*id] = (luo_exchange){.step = from->step, .resolution = resolution};
    traffic->set.exchanges = traffic->exchanges;
    return LUO_OK;
}

static luo_status new_row(luo_traffic *traffic, const luo_programs *set, const luo_comm_use *use,
                          luo_err *err)
{
    luo_comm_use row = *use;
    row.calls = row.bytes = 0;
    row.busy_s = row.exposed_s = 0;
    if (use->group >= 0)
        LUO_TRY(copy_group(traffic, &set->groups[use->group], &row.group, err));
    else if (use->exchange >= 0)
        LUO_TRY(copy_exchange(traffic, &set->exchanges[use->exchange], &row.exchange, err));
    if (!LUO_VEC_ROOM_IN(traffic->arena, traffic->use, traffic->n, traffic->room))
        return luo_err_nomem(err);
    traffic->use[traffic->n++] = row;
    return LUO_OK;
}

luo_status luo_traffic_add(luo_traffic *traffic, const luo_programs *set, const luo_comm_use *use,
                           int32_t n, luo_err *err)
{
    for (int32_t i = 0; i < n; i++) {
        int64_t *at = luo_map_at(&traffic->at, key_of(set, &use[i]), -1);
        if (!at) return luo_err_nomem(err);
        if (*at < 0) {
            LUO_TRY(new_row(traffic, set, &use[i], err));
            *at = traffic->n - 1;
        }
        luo_comm_use *to = &traffic->use[*at];
        to->calls += use[i].calls;
        to->bytes += use[i].bytes;
        to->busy_s += use[i].busy_s;
        to->exposed_s += use[i].exposed_s;
    }
    return LUO_OK;
}

void luo_traffic_free(luo_traffic *traffic)
{
    luo_map_free(&traffic->at);
}
