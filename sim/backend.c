/* backend.c: the backend table of the simulator. */
#include <math.h>
#include <simgrid/forward.h>
#include <simgrid/version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/memo.h"
#include "sim/sim.h"
#include "sim/worker.h"

enum {
    WORKERS = 4, /* programs of steps, checkpoints and switches take turns */
    AHEAD = 4    /* changes are looked up so many times as far as the step is known to last */
};

struct luo_backend_state {
    luo_backend_config config;
    double now;
    luo_arena *arena; /* of the state */
    luo_arena *last;  /* of a reply that is not kept */
    sim_worker worker[WORKERS];
    sim_memo memo;
    luo_world *world;    /* of this step, without what cannot matter */
    luo_change *changes; /* the same */
    int32_t nchanges, room_changes;
    bool *node;          /* per node: has a device of the programs */
    luo_rng *rng, *step_rng; /* per device of the cluster; per program */
    int64_t asked, closed_instead, flow_instead;
};

static luo_status sim_describe(char *text, size_t size)
{
    snprintf(text, size, "sim: SimGrid %d.%d, virtual time, no data", SIMGRID_VERSION_MAJOR,
             SIMGRID_VERSION_MINOR);
    return LUO_OK;
}

static bool has_noise(const luo_backend_state *b)
{
    return b->config.compute_sigma > 0 || b->config.comm_sigma > 0;
}

static luo_status open_state(luo_backend_state *b, luo_err *err)
{
    const luo_cluster *c = b->config.cluster;
    b->arena = luo_arena_new(0);
    b->last = luo_arena_new(0);
    if (!b->arena || !b->last) return luo_err_nomem(err);
    LUO_TRY(luo_world_new(b->arena, c, &b->world, err));
    b->node = LUO_NEW_N(b->arena, bool, c->nnodes);
    if (!b->node) return luo_err_nomem(err);
    if (!has_noise(b)) return LUO_OK;
    b->rng = LUO_NEW_N(b->arena, luo_rng, c->ndevices);
    b->step_rng = LUO_NEW_N(b->arena, luo_rng, c->ndevices);
    if (!b->rng || !b->step_rng) return luo_err_nomem(err);
    for (int32_t d = 0; d < c->ndevices; d++) {
        char name[32];
        snprintf(name, sizeof name, "noise#%d", d);
        b->rng[d] = luo_rng_stream(b->config.seed, name);
    }
    return LUO_OK;
}

static void sim_close(luo_backend_state *b)
{
    if (!b) return;
    for (int i = 0; i < WORKERS; i++) sim_worker_drop(&b->worker[i]);
    sim_memo_free(&b->memo);
    luo_arena_free(b->last);
    luo_arena_free(b->arena);
    free(b->changes);
    free(b);
}

static luo_status sim_open(const luo_backend_config *config, luo_backend_state **out, luo_err *err)
{
    luo_backend_state *b = calloc(1, sizeof *b);
    if (!b) return luo_err_nomem(err);
    b->config = *config;
    const luo_status st = open_state(b, err);
    if (st == LUO_OK) *out = b;
    else sim_close(b);
    return st;
}

/* ---- workers ---- */

static luo_status worker_for(luo_backend_state *b, const luo_programs *set, sim_worker **out,
                             luo_err *err)
{
    sim_worker *oldest = &b->worker[0];
    for (int i = 0; i < WORKERS; i++) {
        sim_worker *w = &b->worker[i];
        if (w->pid && w->hash == set->hash) {
            *out = w;
            w->used = ++b->asked;
            return LUO_OK;
        }
        if (!w->pid || (oldest->pid && w->used < oldest->used)) oldest = w;
    }
    sim_worker_drop(oldest);
    LUO_TRY(sim_worker_start(oldest, &b->config, set, b->worker, WORKERS, err));
    oldest->used = ++b->asked;
    *out = oldest;
    return LUO_OK;
}

/* The first nchanges, as a worker counts that simulates before_s of earlier steps first. */
static luo_status date_changes(luo_backend_state *b, int32_t nchanges, double before_s,
                               const luo_change **out, luo_err *err)
{
    *out = b->changes;
    if (before_s <= 0 || nchanges == 0) return LUO_OK;
    luo_change *at = LUO_NEW_N(b->last, luo_change, nchanges);
    if (!at) return luo_err_nomem(err);
    for (int32_t i = 0; i < nchanges; i++) {
        at[i] = b->changes[i];
        at[i].at_s += before_s;
    }
    *out = at;
    return LUO_OK;
}

/* before_s: of the undisturbed step. Draws, if there is noise, begin where those of the last step
 * ended. */
static luo_status simulate(luo_backend_state *b, const luo_step_request *q, int32_t nchanges,
                           double before_s, luo_arena *arena, sim_reply *reply, luo_err *err)
{
    const luo_programs *set = q->programs;
    sim_worker *w = NULL;
    const luo_change *changes;
    LUO_TRY(date_changes(b, nchanges, before_s, &changes, err));
    sim_ask ask = {b->world, changes, nchanges, q->trace, NULL, set->n, b->config.interrupted};
    LUO_TRY(worker_for(b, set, &w, err));
    if (has_noise(b)) {
        ask.rng = b->step_rng;
        for (int32_t i = 0; i < set->n; i++) b->step_rng[i] = b->rng[set->at[i].device];
    }
    LUO_TRY(sim_worker_ask(w, arena, &ask, reply, err));
    b->closed_instead += reply->head.closed_instead;
    b->flow_instead += reply->head.flow_instead;
    return LUO_OK;
}

/* Draws made by the last simulation count. */
static void keep_draws(luo_backend_state *b, const luo_programs *set)
{
    for (int32_t i = 0; b->rng && i < set->n; i++) b->rng[set->at[i].device] = b->step_rng[i];
}

/* ---- what can matter to a step ---- */

static void find_nodes(luo_backend_state *b, const luo_programs *set)
{
    const luo_cluster *c = b->config.cluster;
    memset(b->node, 0, (size_t)c->nnodes * sizeof *b->node);
    for (int32_t i = 0; i < set->n; i++) {
        const int32_t d = set->at[i].device;
        if (d >= 0 && d < c->ndevices) b->node[c->devices[d].node] = true; /* else sim_net_make */
    }
}

/* What is sent goes over links of nodes that send or receive, and between nodes. */
static bool link_concerns(const luo_backend_state *b, int32_t link)
{
    const int32_t node = b->config.cluster->links[link].node;
    return node < 0 || b->node[node];
}

static bool concerns(const luo_backend_state *b, const luo_programs *set, const luo_change *c)
{
    if (c->kind == LUO_CHANGE_LINK) return link_concerns(b, c->target);
    return c->kind != LUO_CHANGE_UP && luo_programs_find(set, c->target) != NULL;
}

static luo_status add_changes(luo_backend_state *b, const luo_programs *set, const luo_change *c,
                              int32_t n, luo_err *err)
{
    if (b->nchanges + n > b->room_changes) {
        const int32_t room = 2 * (b->nchanges + n);
        luo_change *more = realloc(b->changes, (size_t)room * sizeof *more);
        if (!more) return luo_err_nomem(err);
        b->changes = more;
        b->room_changes = room;
    }
    for (int32_t i = 0; i < n; i++) {
        if (!concerns(b, set, &c[i])) continue;
        b->changes[b->nchanges] = c[i];
        b->changes[b->nchanges++].at_s = fmax(0, c[i].at_s - b->now);
    }
    return LUO_OK;
}

/* Devices without a program cannot matter, nor links of nodes without one; so steps stay equal when
 * only those change. */
static void take_world(luo_backend_state *b, const luo_step_request *q)
{
    luo_world_copy(b->world, q->world);
    for (int32_t d = 0; d < b->world->ndevices; d++) {
        b->world->slowdown[d] = 1;
        b->world->up[d] = true;
    }
    for (int32_t i = 0; i < q->programs->n; i++) {
        const int32_t d = q->programs->at[i].device;
        if (d < 0 || d >= b->world->ndevices) continue; /* sim_net_make says so */
        b->world->slowdown[d] = q->world->slowdown[d];
        b->world->up[d] = q->world->up[d];
    }
    for (int32_t l = 0; l < b->world->nlinks; l++) {
        if (link_concerns(b, l)) continue;
        b->world->link_factor[l] = 1;
        b->world->link_extra_latency_s[l] = 0;
    }
}

/* ---- a step ---- */

static void fill(const luo_backend_state *b, const sim_reply *r, bool reused, luo_step_result *out)
{
    *out = (luo_step_result){
        .status = (luo_status)r->head.status, .start_s = b->now, .end_s = b->now + r->head.end_s,
        .failed_device = r->head.failed_device, .failed_link = r->head.failed_link,
        .reused = reused, .n = r->head.n, .parts = r->parts, .compute_s = r->compute_s,
        .predicted_s = r->predicted_s, .nrecords = (int32_t)r->head.nrecords,
        .nlinks = r->head.nlinks, .ncomm = r->head.ncomm, .records = r->records, .links = r->links,
        .comm = r->comm};
    memcpy(out->text, r->head.text, sizeof out->text);
}

/* A step that a device has ended. What was done in it is lost, so it is not told apart: idle. */
static luo_status lost_step(luo_backend_state *b, const luo_step_request *q, int32_t device,
                            double end_s, sim_reply *r, luo_err *err)
{
    const int32_t n = q->programs->n, links = b->world->nlinks;
    *r = (sim_reply){.head = {.status = LUO_EPEER, .failed_device = device, .failed_link = -1,
                              .n = n, .nlinks = links, .end_s = end_s},
                     .parts = LUO_NEW_N(b->last, luo_parts, n),
                     .compute_s = LUO_NEW_N(b->last, double, n),
                     .predicted_s = LUO_NEW_N(b->last, double, n),
                     .links = LUO_NEW_N(b->last, luo_link_use, links)};
    if (!r->parts || !r->compute_s || !r->predicted_s || !r->links) return luo_err_nomem(err);
    for (int32_t i = 0; i < n; i++) r->parts[i].bubble_s = end_s;
    return LUO_OK;
}

/* A device that is down when the step begins ends it at once. */
static luo_status refuse(luo_backend_state *b, const luo_step_request *q, int32_t device,
                         luo_step_result *result, luo_err *err)
{
    sim_reply r;
    LUO_TRY(lost_step(b, q, device, 0, &r, err));
    snprintf(r.head.text, sizeof r.head.text,
             "device %d is down when the step begins.", device);
    fill(b, &r, false, result);
    return LUO_OK;
}

/* The step without its changes, from the memo if it is there. */
static luo_status quiet_step(luo_backend_state *b, const luo_step_request *q, sim_reply *reply,
                             bool *reused, luo_err *err)
{
    const sim_memo_entry *known = sim_memo_find(&b->memo, q->programs->hash, b->world, q->trace);
    *reused = known != NULL;
    if (!known) {
        luo_arena *arena = luo_arena_new(0);
        if (!arena) return luo_err_nomem(err);
        luo_status st = simulate(b, q, 0, 0, arena, reply, err);
        if (st != LUO_OK) {
            luo_arena_free(arena);
            return st;
        }
        /* A failure is kept as well: it depends on nothing else. */
        known = sim_memo_put(&b->memo, arena, q->programs->hash, b->world, q->trace, reply);
        if (!known) return luo_err_nomem(err);
    }
    *reply = known->reply;
    return LUO_OK;
}

/* A link over which nothing went in the undisturbed step cannot matter, whatever it does. */
static void drop_idle_links(luo_backend_state *b, int32_t from, const sim_reply *undisturbed)
{
    int32_t n = from;
    if (undisturbed->head.status != LUO_OK) return;
    for (int32_t i = from; i < b->nchanges; i++) {
        const luo_change c = b->changes[i];
        if (c.kind == LUO_CHANGE_LINK && undisturbed->links[c.target].bytes_up <= 0 &&
            undisturbed->links[c.target].bytes_down <= 0)
            continue;
        b->changes[n++] = c;
    }
    b->nchanges = n;
}

/* Is there a change in the step, as long as it is now known to be, that was not simulated? Those
 * after its end are looked up as well: they may come to lie in it. */
static luo_status find_trigger(luo_backend_state *b, const luo_step_request *q,
                               const sim_reply *undisturbed, double end_s, int32_t known,
                               bool *trigger, luo_err *err)
{
    luo_ahead *a = q->ahead;
    while (a && a->whole_s < b->now + end_s) {
        const luo_change *c;
        const int32_t from = b->nchanges;
        int32_t n;
        LUO_TRY(a->more(a, b->now + AHEAD * end_s, &c, &n, err));
        LUO_TRY(add_changes(b, q->programs, c, n, err));
        drop_idle_links(b, from, undisturbed);
        if (b->nchanges > known && b->changes[known].at_s < end_s) break;
    }
    *trigger = b->nchanges > known && b->changes[known].at_s < end_s;
    return LUO_OK;
}

/* A device fails before anything else changes, in a step that would have lasted longer: that is all
 * there is to know, unless what was done until then is to be traced. */
static bool fails_first(const luo_backend_state *b, const luo_step_request *q,
                        const sim_reply *undisturbed)
{
    const luo_change *c = b->changes;
    if (q->trace || has_noise(b) || undisturbed->head.status != LUO_OK) return false;
    return b->nchanges > 0 && c->kind == LUO_CHANGE_DOWN && c->at_s > 0 &&
           c->at_s < undisturbed->head.end_s;
}

static luo_status fail_step(luo_backend_state *b, const luo_step_request *q, sim_reply *reply,
                            luo_err *err)
{
    const luo_change c = b->changes[0];
    LUO_TRY(lost_step(b, q, c.target, c.at_s, reply, err));
    sim_failure_text(reply->head.text, sizeof reply->head.text, c.target);
    return LUO_OK;
}

/* A change may make the step longer, so that others come to lie in it: then it is simulated again
 * with these, until all that happens before its end was known when it began. */
static luo_status run_step(luo_backend_state *b, const luo_step_request *q, luo_step_result *result,
                           luo_err *err)
{
    sim_reply undisturbed, reply;
    bool reused = false, trigger;
    if (has_noise(b)) LUO_TRY(simulate(b, q, 0, 0, b->last, &undisturbed, err));
    else LUO_TRY(quiet_step(b, q, &undisturbed, &reused, err));
    reply = undisturbed;
    drop_idle_links(b, 0, &undisturbed);
    LUO_TRY(find_trigger(b, q, &undisturbed, reply.head.end_s, 0, &trigger, err));
    if (trigger && fails_first(b, q, &undisturbed)) {
        LUO_TRY(fail_step(b, q, &reply, err));
        trigger = reused = false;
    }
    while (trigger) {
        const int32_t known = b->nchanges;
        LUO_TRY(simulate(b, q, known, undisturbed.head.before_s, b->last, &reply, err));
        LUO_TRY(find_trigger(b, q, &undisturbed, reply.head.end_s, known, &trigger, err));
        reused = false;
    }
    keep_draws(b, q->programs);
    if (reply.head.nrecords > INT32_MAX)
        return luo_err_set(err, LUO_E2BIG, "the trace of this step has more than 2,147,483,647 "
                                           "records; trace fewer devices.");
    fill(b, &reply, reused, result);
    b->now = result->end_s;
    return LUO_OK;
}

static const char closed_note[] =
    "some transfers were done in closed form, because too many flows were under way at once; "
    "contention among those is not seen";

static const char flow_note[] =
    "collectives of more than 1,024 ranks were done as flows: step by step is for up to 1,024";

static luo_status sim_run_ranks(luo_backend_state *b, const luo_step_request *q,
                                luo_step_result *result, luo_err *err)
{
    luo_arena_reset(b->last, 0);
    find_nodes(b, q->programs);
    take_world(b, q);
    b->nchanges = 0;
    LUO_TRY(add_changes(b, q->programs, q->changes, q->nchanges, err));
    for (int32_t i = 0; i < q->programs->n; i++) {
        const int32_t d = q->programs->at[i].device;
        if (d >= 0 && d < b->world->ndevices && !b->world->up[d])
            return refuse(b, q, d, result, err);
    }
    LUO_TRY(run_step(b, q, result, err));
    if (b->flow_instead > 0) result->note = flow_note;
    if (b->closed_instead > 0) result->note = closed_note; /* which no message is */
    return LUO_OK;
}

static double sim_backend_now(const luo_backend_state *b)
{
    return b->now;
}

static luo_status sim_backend_sleep_until(luo_backend_state *b, double at_s)
{
    if (at_s > b->now) b->now = at_s;
    return LUO_OK;
}

const luo_backend luo_sim_backend = {
    .name = "sim",
    .caps = LUO_CAP_VIRTUAL_TIME | LUO_CAP_LINK_EVENTS | LUO_CAP_WHAT_IF,
    .describe = sim_describe,
    .open = sim_open,
    .close = sim_close,
    .run_ranks = sim_run_ranks,
    .now = sim_backend_now,
    .sleep_until = sim_backend_sleep_until,
};
