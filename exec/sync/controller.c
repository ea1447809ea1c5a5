/* controller.c: the controller of groups (allreduce, preduce, adpsgd): the state machines of
 * core/sync, driven by messages and by the clock of this host. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/vec.h"
#include "core/sync/adpsgd.h"
#include "exec/sync/sync_rank.h"

typedef struct slot { /* a communicator that workers keep */
    int32_t n, *member;
    int64_t used;
} slot;

typedef struct controller {
    luo_sync_rank *rank;
    luo_preduce preduce;
    luo_adpsgd adpsgd;
    bool is_pairs;
    int32_t left;
    int64_t groups;
    int64_t *message;           /* to members */
    slot slots[LUO_SYNC_SLOTS]; /* --group-comm create */
    int64_t *log;               /* for --verify on: luo_sync_verify_groups */
    int64_t nlog, cap_log;
} controller;

/* ---- communicators: all members have to make one and give it back alike, so it is decided here */

static bool same(const slot *s, const luo_preduce_group *group)
{
    return s->n == group->n &&
           memcmp(s->member, group->member, (size_t)group->n * sizeof *group->member) == 0;
}

/* The slot of these members, or the one that was not used for longest. *fresh: it has to be made.
 */
static int32_t slot_of(controller *c, const luo_preduce_group *group, bool *fresh)
{
    int32_t best = 0;
    for (int32_t i = 0; i < LUO_SYNC_SLOTS; i++) {
        if (same(&c->slots[i], group)) {
            best = i;
            break;
        }
        if (c->slots[i].used < c->slots[best].used) best = i;
    }
    slot *s = &c->slots[best];
    *fresh = !same(s, group);
    s->n = group->n;
    s->used = c->groups + 1;
    memcpy(s->member, group->member, (size_t)group->n * sizeof *group->member);
    return best;
}

/* ---- groups ---- */

static luo_status keep(controller *c, const luo_preduce_group *group, luo_err *err)
{
    if (!c->rank->job.verify) return LUO_OK;
    for (int32_t i = 0; i < 1 + 2 * group->n; i++) {
        if (!LUO_VEC_ROOM(c->log, c->nlog, c->cap_log)) return luo_err_nomem(err);
        c->log[c->nlog++] = i == 0          ? group->n
                            : i <= group->n ? group->member[i - 1]
                                            : group->iteration[i - 1 - group->n];
    }
    return LUO_OK;
}

static luo_status write_row(controller *c, const luo_preduce_group *group, luo_err *err)
{
    luo_str row = {0};
    luo_str_addf(&row, "%lld,%.9f,", (long long)c->groups, group->t_s);
    for (int32_t i = 0; i < group->n; i++)
        luo_str_addf(&row, "%s%d", i ? " " : "", (int)group->member[i]);
    luo_str_addc(&row, ',');
    for (int32_t i = 0; i < group->n; i++)
        luo_str_addf(&row, "%s%lld", i ? " " : "", (long long)group->iteration[i]);
    const luo_status st =
        row.failed ? luo_err_nomem(err)
                   : luo_sync_row(c->rank, err, "%s,%d\n", luo_str_get(&row), (int)group->guard);
    luo_str_free(&row);
    return st;
}

/* Head: group, members, slot (-1: none), fresh; then members and their iterations. */
static luo_status tell(controller *c, const luo_preduce_group *group, luo_err *err)
{
    const bool creates = c->rank->job.comm == LUO_SYNC_CREATE && group->n > 1;
    bool fresh = false;
    int64_t *m = c->message;
    m[0] = c->groups;
    m[1] = group->n;
    m[2] = creates ? slot_of(c, group, &fresh) : -1;
    m[3] = fresh;
    for (int32_t i = 0; i < group->n; i++) {
        m[LUO_SYNC_HEAD + i] = group->member[i];
        m[LUO_SYNC_HEAD + group->n + i] = group->iteration[i];
    }
    LUO_TRY(keep(c, group, err));
    LUO_TRY(write_row(c, group, err));
    for (int32_t i = 0; i < group->n; i++)
        luo_sync_send(c->rank, group->member[i], LUO_SYNC_GROUP, m,
                      (size_t)(LUO_SYNC_HEAD + 2 * group->n) * sizeof *m);
    c->groups++;
    return LUO_OK;
}

static luo_status closed(controller *c, const luo_preduce_group *group, luo_err *err)
{
    luo_preduce_group part;
    if (group->n == 0) return LUO_OK;
    for (int32_t i = 0; luo_preduce_group_part(group, i, &part), part.n > 0; i++)
        LUO_TRY(tell(c, &part, err));
    return LUO_OK;
}

/* ---- events ---- */

static luo_status arrive(controller *c, int32_t worker, luo_err *err)
{
    luo_preduce_group group;
    int64_t k;
    luo_sync_receive(c->rank, worker, LUO_SYNC_ARRIVE, &k, sizeof k);
    const double t_s = luo_sync_now(c->rank);
    LUO_TRY(c->is_pairs ? luo_adpsgd_arrive(&c->adpsgd, t_s, worker, k, &group, err)
                        : luo_preduce_arrive(&c->preduce, t_s, worker, k, &group, err));
    return closed(c, &group, err);
}

static luo_status leave(controller *c, int32_t worker, luo_err *err)
{
    luo_preduce_group group;
    luo_sync_receive(c->rank, worker, LUO_SYNC_LEAVE, NULL, 0);
    const double t_s = luo_sync_now(c->rank);
    c->left++;
    if (!c->is_pairs) {
        luo_preduce_leave(&c->preduce, t_s, worker, &group);
        return closed(c, &group, err);
    }
    luo_adpsgd_leave(&c->adpsgd, worker);
    for (luo_adpsgd_alone(&c->adpsgd, t_s, &group); group.n > 0;
         luo_adpsgd_alone(&c->adpsgd, t_s, &group))
        LUO_TRY(closed(c, &group, err));
    return LUO_OK;
}

/* The next message, or LUO_SYNC_END of nobody at the deadline: what has come goes first. */
static int next(controller *c, int32_t *from)
{
    luo_sync_rank *rank = c->rank;
    const double deadline_s = c->is_pairs ? INFINITY : luo_preduce_deadline(&c->preduce);
    MPI_Status status;
    int there = 0;
    luo_watch_begin(&rank->watch, "any worker to say something");
    for (int look = 0;; look++) {
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, rank->world, &there, &status);
        if (there || luo_sync_now(rank) >= deadline_s) break;
        luo_watch_nap(look);
    }
    luo_watch_end(&rank->watch);
    luo_sync_die(rank);
    *from = there ? status.MPI_SOURCE : -1;
    return there ? status.MPI_TAG : LUO_SYNC_END;
}

static luo_status lead(controller *c, luo_err *err)
{
    while (c->left < c->rank->workers) {
        int32_t from;
        luo_preduce_group group;
        const int tag = next(c, &from);
        if (tag == LUO_SYNC_ARRIVE) {
            LUO_TRY(arrive(c, from, err));
        } else if (tag == LUO_SYNC_LEAVE) {
            LUO_TRY(leave(c, from, err));
        } else {
            luo_preduce_timer(&c->preduce, luo_sync_now(c->rank), &group);
            LUO_TRY(closed(c, &group, err));
        }
    }
    if (c->rank->job.verify)
        luo_sync_send(c->rank, 0, LUO_SYNC_LOG, c->log, (size_t)c->nlog * sizeof *c->log);
    return LUO_OK;
}

/* ---- the whole ---- */

static luo_status open_controller(controller *c, luo_err *err)
{
    const luo_sync_job *job = &c->rank->job;
    luo_arena *arena = c->rank->arena;
    const int32_t n = c->rank->workers;
    luo_preduce_opts opts = {.workers = n, .max_group = n, .wait_s = INFINITY}; /* allreduce */
    if (job->mode == LUO_LOOP_PREDUCE)
        opts = (luo_preduce_opts){.workers = n,
                                  .max_group = (int32_t)job->max_group,
                                  .wait_s = job->wait_s,
                                  .guard = (int32_t)job->guard,
                                  .pairs = job->pairs,
                                  .adaptive = job->adaptive,
                                  .wait_max_s = job->wait_max_s,
                                  .wait_min_s = job->wait_min_s};
    c->message = LUO_NEW_N(arena, int64_t, LUO_SYNC_HEAD + 2 * n);
    if (!c->message) return luo_err_nomem(err);
    for (int i = 0; i < LUO_SYNC_SLOTS; i++) {
        c->slots[i].member = LUO_NEW_N(arena, int32_t, n);
        if (!c->slots[i].member) return luo_err_nomem(err);
    }
    c->is_pairs = job->mode == LUO_LOOP_ADPSGD;
    if (c->is_pairs) return luo_adpsgd_new(arena, n, (uint64_t)job->seed, &c->adpsgd, err);
    return luo_preduce_new(arena, &opts, &c->preduce, err);
}

luo_status luo_sync_controller(luo_sync_rank *rank, luo_err *err)
{
    controller c = {.rank = rank};
    luo_status st = open_controller(&c, err);
    if (st == LUO_OK) st = lead(&c, err);
    free(c.log);
    return st;
}
