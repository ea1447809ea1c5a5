/* step_play.c: what shares links over time: calls of gradients and weights, and messages. A part
 * begins when all before it have ended; its bytes move at the max-min share of the links on its
 * way. */
#include <math.h>

#include "core/base/vec.h"
#include "core/plan/step/step_internal.h"

luo_status step_open_player(const stepper *w, step_player *player)
{
    const int64_t nlinks = 2 * (int64_t)w->in->cluster->nlinks;
    *player = (step_player){.w = w,
                            .room = LUO_NEW_N(w->scratch, double, nlinks),
                            .asked = LUO_NEW_N(w->scratch, double, nlinks),
                            .links = LUO_NEW_N(w->scratch, int32_t, nlinks),
                            .listed = LUO_NEW_N(w->scratch, bool, nlinks),
                            .full = LUO_NEW_N(w->scratch, bool, nlinks)};
    if (!player->room || !player->asked || !player->links || !player->listed || !player->full)
        return luo_err_nomem(w->err);
    return LUO_OK;
}

luo_status step_add_part(step_player *player, const step_slice *slice, double bytes, double date,
                         double *end)
{
    if (!LUO_VEC_ROOM_IN(player->w->scratch, player->parts, player->nparts, player->cap_parts))
        return luo_err_nomem(player->w->err);
    player->parts[player->nparts++] =
        (step_part){.slice = slice, .left = bytes, .date = date, .end = end, .first_after = -1};
    return LUO_OK;
}

luo_status step_put_before(step_player *player, int32_t before, int32_t after, double lag)
{
    if (!LUO_VEC_ROOM_IN(player->w->scratch, player->edges, player->nedges, player->cap_edges))
        return luo_err_nomem(player->w->err);
    player->edges[player->nedges] = (step_edge){after, player->parts[before].first_after, lag};
    player->parts[before].first_after = player->nedges++;
    player->parts[after].nbefore++;
    return LUO_OK;
}

/* Links that parts on their way use, with all their room. */
static void list_links(step_player *player)
{
    player->nlinks = 0;
    for (int32_t i = 0; i < player->nlive; i++) {
        step_part *part = &player->parts[player->live[i]];
        part->frozen = part->state != STEP_PART_MOVING;
        for (int32_t k = 0; !part->frozen && k < part->slice->nloads; k++) {
            const int32_t link = part->slice->loads[k].at;
            if (player->listed[link]) continue;
            player->listed[link] = true;
            player->links[player->nlinks++] = link;
            player->room[link] = 1;
        }
    }
}

/* Seconds per byte that parts whose rate is not known ask of each link. Returns their number. */
static int32_t ask(step_player *player)
{
    int32_t n = 0;
    for (int32_t i = 0; i < player->nlinks; i++) player->asked[player->links[i]] = 0;
    for (int32_t i = 0; i < player->nlive; i++) {
        const step_part *part = &player->parts[player->live[i]];
        n += !part->frozen;
        for (int32_t k = 0; !part->frozen && k < part->slice->nloads; k++)
            player->asked[part->slice->loads[k].at] += part->slice->loads[k].seconds;
    }
    return n;
}

/* Bytes a second that a link lets through of each part whose rate is not known. */
static double let_through(const step_player *player, int32_t link)
{
    return player->asked[link] > 0 ? player->room[link] / player->asked[link] : HUGE_VAL;
}

/* Parts on a link that lets no more through get that rate. */
static void freeze(step_player *player, double rate)
{
    for (int32_t i = 0; i < player->nlinks; i++)
        player->full[player->links[i]] = let_through(player, player->links[i]) <= rate * (1 + 1e-9);
    for (int32_t i = 0; i < player->nlive; i++) {
        step_part *part = &player->parts[player->live[i]];
        bool uses = false;
        for (int32_t k = 0; !part->frozen && !uses && k < part->slice->nloads; k++)
            uses = player->full[part->slice->loads[k].at];
        if (!uses) continue;
        part->frozen = true;
        part->rate = rate;
        for (int32_t k = 0; k < part->slice->nloads; k++)
            player->room[part->slice->loads[k].at] -= rate * part->slice->loads[k].seconds;
    }
}

/* Max-min: from one link to the next rates only grow. */
static void share_links(step_player *player)
{
    double rate = 0;
    list_links(player);
    while (ask(player) > 0) {
        double least = HUGE_VAL;
        for (int32_t i = 0; i < player->nlinks; i++)
            least = fmin(least, let_through(player, player->links[i]));
        rate = fmax(rate, least);
        freeze(player, rate);
    }
    for (int32_t i = 0; i < player->nlinks; i++) player->listed[player->links[i]] = false;
}

static double next_date(step_player *player, double now)
{
    double next = HUGE_VAL;
    for (int32_t i = 0; i < player->nlive; i++) {
        step_part *part = &player->parts[player->live[i]];
        if (part->state == STEP_PART_MOVING) part->date = now + part->left / part->rate;
        next = fmin(next, part->date);
    }
    return next;
}

static void end_part(step_player *player, int32_t id, double now)
{
    step_part *part = &player->parts[id];
    part->state = STEP_PART_ENDED;
    if (part->end) *part->end = fmax(*part->end, now);
    for (int32_t e = part->first_after; e >= 0; e = player->edges[e].next) {
        step_part *after = &player->parts[player->edges[e].part];
        after->date = fmax(after->date, now + player->edges[e].lag);
        if (--after->nbefore == 0) player->live[player->nlive++] = player->edges[e].part;
    }
}

/* Those whose turn it is at `now`; parts that this lets begin are behind them in the list. */
static void turn_parts(step_player *player, double was, double now)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < player->nlive; i++) {
        step_part *part = &player->parts[player->live[i]];
        const bool due = part->date <= now;
        if (part->state == STEP_PART_MOVING)
            part->left = fmax(0, part->left - part->rate * (now - was));
        if (due && part->state == STEP_PART_WAITING) {
            part->state = STEP_PART_FIXED;
            part->date = now + part->slice->fixed;
        }
        if (due && part->state == STEP_PART_FIXED && part->date <= now) {
            part->state =
                part->slice->nloads > 0 && part->left > 0 ? STEP_PART_MOVING : STEP_PART_ENDED;
            player->changed = player->changed || part->state == STEP_PART_MOVING;
            if (part->state == STEP_PART_ENDED) end_part(player, player->live[i], now);
        } else if (due && part->state == STEP_PART_MOVING) {
            player->changed = true;
            end_part(player, player->live[i], now);
        }
        if (part->state != STEP_PART_ENDED) player->live[kept++] = player->live[i];
    }
    player->nlive = kept;
}

luo_status step_play_parts(step_player *player)
{
    double now = 0;
    player->live = LUO_NEW_N(player->w->scratch, int32_t, player->nparts);
    if (!player->live) return luo_err_nomem(player->w->err);
    for (int32_t i = 0; i < player->nparts; i++)
        if (player->parts[i].nbefore == 0) player->live[player->nlive++] = i;
    while (player->nlive > 0) {
        if (player->changed) share_links(player);
        player->changed = false;
        const double was = now;
        now = next_date(player, was);
        turn_parts(player, was, now);
    }
    return LUO_OK;
}
