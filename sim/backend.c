/* backend.c: the backend table of the simulator. */
#include <math.h>
#include <simgrid/forward.h>
#include <simgrid/version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/rng.h"
#include "sim/jobs/jobs.h"
#include "sim/memo.h"
#include "sim/plugin/plugin.h"
#include "sim/share.h"
#include "sim/sim.h"
#include "sim/step/death.h"
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
    uint64_t shared_config; /* sim_share_config */
    luo_world *world;    /* of this step, without what cannot matter */
    int64_t world_name;  /* and the programs for which it, and node, were made; 0: none */
    uint64_t world_programs;
    bool world_is_same;  /* as in the request before */
    int32_t down;        /* a device of the programs that is; -1: none */
    const sim_memo_entry *quiet; /* the quiet step last found; quiet_name: as it was then */
    int64_t quiet_name;
    luo_change *changes; /* the same */
    int32_t nchanges, room_changes;
    bool *node;          /* per node: has a device of the programs */
    luo_rng *compute_rng, *comm_rng; /* per device of the cluster; NULL: no noise */
    sim_noise *noise;                /* per program, of the step at hand */
    int64_t asked, closed_instead, flow_instead;
};

luo_status luo_sim_load(luo_err *err)
{
    int (*serve)(void *);
    return sim_plugin_find(&serve, err);
}

static luo_status sim_describe(char *text, size_t size)
{
    snprintf(text, size, "sim: SimGrid %d.%d, virtual time, no data", SIMGRID_VERSION_MAJOR,
             SIMGRID_VERSION_MINOR);
    return LUO_OK;
}

static bool has_noise(const luo_backend_state *backend)
{
    return backend->config.compute_sigma > 0 || backend->config.comm_sigma > 0;
}

static luo_rng noise_stream(const luo_backend_state *backend, const char *form, int32_t device)
{
    char name[32];
    snprintf(name, sizeof name, form, device);
    return luo_rng_stream(backend->config.seed, name);
}

static luo_status open_state(luo_backend_state *backend, luo_err *err)
{
    const luo_cluster *cluster = backend->config.cluster;
    backend->arena = luo_arena_new(0);
    backend->last = luo_arena_new(0);
    if (!backend->arena || !backend->last) return luo_err_nomem(err);
    LUO_TRY(luo_world_new(backend->arena, cluster, &backend->world, err));
    backend->shared_config = sim_share_config(&backend->config);
    backend->node = LUO_NEW_N(backend->arena, bool, cluster->nnodes);
    if (!backend->node) return luo_err_nomem(err);
    if (!has_noise(backend)) return LUO_OK;
    backend->compute_rng = LUO_NEW_N(backend->arena, luo_rng, cluster->ndevices);
    backend->comm_rng = LUO_NEW_N(backend->arena, luo_rng, cluster->ndevices);
    backend->noise = LUO_NEW_N(backend->arena, sim_noise, cluster->ndevices);
    if (!backend->compute_rng || !backend->comm_rng || !backend->noise) return luo_err_nomem(err);
    for (int32_t d = 0; d < cluster->ndevices; d++) {
        backend->compute_rng[d] = noise_stream(backend, "noise#%d", d);
        backend->comm_rng[d] = noise_stream(backend, "noise#comm#%d", d);
    }
    return LUO_OK;
}

static void sim_close(luo_backend_state *backend)
{
    if (!backend) return;
    for (int i = 0; i < WORKERS; i++) sim_worker_drop(&backend->worker[i]);
    sim_memo_free(&backend->memo);
    luo_arena_free(backend->last);
    luo_arena_free(backend->arena);
    free(backend->changes);
    free(backend);
}

static luo_status sim_open(const luo_backend_config *config, luo_backend_state **out, luo_err *err)
{
    luo_backend_state *backend = calloc(1, sizeof *backend);
    if (!backend) return luo_err_nomem(err);
    backend->config = *config;
    const luo_status st = open_state(backend, err);
    if (st == LUO_OK)
        *out = backend;
    else
        sim_close(backend);
    return st;
}

/* ---- workers ---- */

static bool is_taken(const sim_worker *worker)
{
    return worker->process.pid || worker->owed;
}

/* Of these programs; NULL: there is none. */
static sim_worker *find_worker(luo_backend_state *backend, const luo_programs *set)
{
    for (int i = 0; i < WORKERS; i++)
        if (is_taken(&backend->worker[i]) && backend->worker[i].hash == set->hash)
            return &backend->worker[i];
    return NULL;
}

/* A place without one, if need be that of the one not asked for longest. */
static sim_worker *free_worker(luo_backend_state *backend)
{
    sim_worker *oldest = &backend->worker[0];
    for (int i = 0; i < WORKERS; i++) {
        sim_worker *worker = &backend->worker[i];
        if (!is_taken(worker) || (is_taken(oldest) && worker->used < oldest->used)) oldest = worker;
    }
    sim_worker_drop(oldest);
    return oldest;
}

/* Asks what was not asked since another process knew the answer. */
static luo_status ask_owed(luo_backend_state *backend, const luo_programs *set, sim_worker *worker,
                           const sim_shared *owed, luo_err *err)
{
    sim_reply known;
    luo_arena *arena = luo_arena_new(0);
    if (!arena) return luo_err_nomem(err);
    sim_places places;
    const luo_cluster *cluster = backend->config.cluster;
    luo_status st = sim_places_make(arena, cluster, set, &places, err);
    const luo_world *world =
        st == LUO_OK ? sim_share_world(arena, owed, cluster, &places) : NULL;
    if (st == LUO_OK && !world) st = luo_err_nomem(err);
    const sim_ask ask = {.world = world,
                         .update = sim_share_update(owed),
                         .n = set->n,
                         .interrupted = backend->config.interrupted};
    if (st == LUO_OK) st = sim_worker_ask(worker, arena, &ask, &known, err);
    luo_arena_free(arena);
    return st;
}

static luo_status worker_for(luo_backend_state *backend, const luo_programs *set, sim_worker **out,
                             luo_err *err)
{
    sim_worker *worker = find_worker(backend, set);
    const sim_shared *owed = worker ? worker->owed : NULL;
    if (!worker) worker = free_worker(backend);
    if (!worker->process.pid)
        LUO_TRY(sim_worker_start(worker, &backend->config, set, backend->worker, WORKERS, err));
    worker->used = ++backend->asked;
    *out = worker;
    return owed ? ask_owed(backend, set, worker, owed, err) : LUO_OK;
}

/* The first nchanges, as a worker counts that simulates before_s of earlier steps first. */
static luo_status date_changes(luo_backend_state *backend, int32_t nchanges, double before_s,
                               const luo_change **out, luo_err *err)
{
    *out = backend->changes;
    if (before_s <= 0 || nchanges == 0) return LUO_OK;
    luo_change *at = LUO_NEW_N(backend->last, luo_change, nchanges);
    if (!at) return luo_err_nomem(err);
    for (int32_t i = 0; i < nchanges; i++) {
        at[i] = backend->changes[i];
        at[i].at_s += before_s;
    }
    *out = at;
    return LUO_OK;
}

static double update_of(const luo_backend_state *backend, const luo_step_request *request)
{
    return luo_step_part_update(&request->part, backend->config.stack->optimizer_bytes);
}

/* before_s: of the undisturbed step. */
static luo_status simulate(luo_backend_state *backend, const luo_step_request *request,
                           int32_t nchanges, double before_s, luo_arena *arena, sim_reply *reply,
                           luo_err *err)
{
    const luo_programs *set = request->programs;
    sim_worker *worker = NULL;
    const luo_change *changes;
    LUO_TRY(date_changes(backend, nchanges, before_s, &changes, err));
    sim_ask ask = {backend->world,
                   changes,
                   nchanges,
                   request->trace,
                   update_of(backend, request),
                   NULL,
                   set->n,
                   backend->config.interrupted};
    LUO_TRY(worker_for(backend, set, &worker, err));
    if (has_noise(backend)) ask.noise = backend->noise;
    LUO_TRY(sim_worker_ask(worker, arena, &ask, reply, err));
    backend->closed_instead += reply->head.closed_instead;
    backend->flow_instead += reply->head.flow_instead;
    return LUO_OK;
}

/* Once a step, however often it is simulated. */
static void draw_noise(luo_backend_state *backend, const luo_programs *set)
{
    for (int32_t i = 0; i < set->n; i++) {
        const int32_t device = set->at[i].device;
        backend->noise[i].compute = luo_rng_next(&backend->compute_rng[device]);
        backend->noise[i].comm = luo_rng_next(&backend->comm_rng[device]);
    }
}

/* ---- what can matter to a step ---- */

static void find_nodes(luo_backend_state *backend, const luo_programs *set)
{
    const luo_cluster *cluster = backend->config.cluster;
    memset(backend->node, 0, (size_t)cluster->nnodes * sizeof *backend->node);
    for (int32_t i = 0; i < set->n; i++) {
        const int32_t d = set->at[i].device;
        if (d >= 0 && d < cluster->ndevices)
            backend->node[cluster->devices[d].node] = true; /* else sim_net_make */
    }
}

/* What is sent goes over links of nodes that send or receive, and between nodes. */
static bool link_concerns(const luo_backend_state *backend, int32_t link)
{
    const int32_t node = backend->config.cluster->links[link].node;
    return node < 0 || backend->node[node];
}

static bool concerns(const luo_backend_state *backend, const luo_programs *set,
                     const luo_change *change)
{
    if (change->kind == LUO_CHANGE_LINK) return link_concerns(backend, change->target);
    return change->kind != LUO_CHANGE_UP && luo_programs_find(set, change->target) != NULL;
}

static luo_status add_changes(luo_backend_state *backend, const luo_programs *set,
                              const luo_change *change, int32_t n, luo_err *err)
{
    if (backend->nchanges + n > backend->room_changes) {
        const int32_t room = 2 * (backend->nchanges + n);
        luo_change *more = realloc(backend->changes, (size_t)room * sizeof *more);
        if (!more) return luo_err_nomem(err);
        backend->changes = more;
        backend->room_changes = room;
    }
    for (int32_t i = 0; i < n; i++) {
        if (!concerns(backend, set, &change[i])) continue;
        backend->changes[backend->nchanges] = change[i];
        backend->changes[backend->nchanges++].at_s = fmax(0, change[i].at_s - backend->now);
    }
    return LUO_OK;
}

/* Devices without a program cannot matter, nor links of nodes without one; so steps stay equal when
 * only those change. */
static void take_world(luo_backend_state *backend, const luo_step_request *request)
{
    luo_world_copy(backend->world, request->world);
    for (int32_t d = 0; d < backend->world->ndevices; d++) {
        backend->world->slowdown[d] = 1;
        backend->world->up[d] = true;
    }
    for (int32_t i = 0; i < request->programs->n; i++) {
        const int32_t d = request->programs->at[i].device;
        if (d < 0 || d >= backend->world->ndevices) continue; /* sim_net_make says so */
        backend->world->slowdown[d] = request->world->slowdown[d];
        backend->world->up[d] = request->world->up[d];
    }
    for (int32_t l = 0; l < backend->world->nlinks; l++) {
        if (link_concerns(backend, l)) continue;
        backend->world->link_factor[l] = 1;
        backend->world->link_extra_latency_s[l] = 0;
    }
}

/* ---- a step ---- */

/* name: of a quiet step that nothing disturbed; else 0. */
static void fill(const luo_backend_state *backend, const sim_reply *reply, bool reused,
                 int64_t name, luo_step_result *out)
{
    *out = (luo_step_result){.status = (luo_status)reply->head.status,
                             .start_s = backend->now,
                             .end_s = backend->now + reply->head.end_s,
                             .failed_device = reply->head.failed_device,
                             .failed_link = reply->head.failed_link,
                             .reused = reused,
                             .name = name,
                             .n = reply->head.n,
                             .parts = reply->parts,
                             .compute_s = reply->compute_s,
                             .predicted_s = reply->predicted_s,
                             .nrecords = (int32_t)reply->head.nrecords,
                             .nlinks = reply->head.nlinks,
                             .ncomm = reply->head.ncomm,
                             .records = reply->records,
                             .links = reply->links,
                             .comm = reply->comm};
    memcpy(out->text, reply->head.text, sizeof out->text);
}

/* A step that a device has ended. What was done in it is lost, so it is not told apart: idle. */
static luo_status lost_step(luo_backend_state *backend, const luo_step_request *request,
                            int32_t device, double end_s, sim_reply *reply, luo_err *err)
{
    const int32_t n = request->programs->n, links = backend->world->nlinks;
    *reply = (sim_reply){.head = {.status = LUO_EPEER,
                                  .failed_device = device,
                                  .failed_link = -1,
                                  .n = n,
                                  .nlinks = links,
                                  .end_s = end_s},
                         .parts = LUO_NEW_N(backend->last, luo_parts, n),
                         .compute_s = LUO_NEW_N(backend->last, double, n),
                         .predicted_s = LUO_NEW_N(backend->last, double, n),
                         .links = LUO_NEW_N(backend->last, luo_link_use, links)};
    if (!reply->parts || !reply->compute_s || !reply->predicted_s || !reply->links)
        return luo_err_nomem(err);
    for (int32_t i = 0; i < n; i++) reply->parts[i].bubble_s = end_s;
    return LUO_OK;
}

/* A device that is down when the step begins ends it at once. */
static luo_status refuse(luo_backend_state *backend, const luo_step_request *request,
                         int32_t device, luo_step_result *result, luo_err *err)
{
    sim_reply reply;
    LUO_TRY(lost_step(backend, request, device, 0, &reply, err));
    snprintf(reply.head.text, sizeof reply.head.text, "device %d is down when the step begins.",
             device);
    fill(backend, &reply, false, 0, result);
    return LUO_OK;
}

/* The step found last, if the request asks for it again; comparing worlds takes longer than all
 * else of a step that is known. */
static const sim_memo_entry *find_last(const luo_backend_state *backend,
                                       const luo_step_request *request, double update)
{
    const sim_memo_entry *last = backend->quiet;
    if (!last || last->name != backend->quiet_name || !backend->world_name) return NULL;
    return backend->world_is_same && last->key.programs == request->programs->hash &&
                   last->key.trace == request->trace && last->key.update == update
               ? last
               : NULL;
}

/* Names the step to those who share steps; places of a set that is no set of the cluster, which
 * sim_net_make says, and of none that is shared, are NULL. */
static luo_status name_step(luo_backend_state *backend, const luo_step_request *request,
                            sim_places *places, sim_share_key *key, luo_err *err)
{
    const luo_programs *set = request->programs;
    const luo_cluster *cluster = backend->config.cluster;
    *key = (sim_share_key){.config = backend->shared_config,
                           .update = update_of(backend, request),
                           .world = backend->world};
    if (!sim_share_on() || request->trace || find_worker(backend, set)) return LUO_OK;
    const luo_status st = sim_places_make(backend->last, cluster, set, places, NULL);
    if (st != LUO_OK) return st == LUO_ENOMEM ? luo_err_nomem(err) : LUO_OK;
    key->places = places;
    return sim_places_hash(backend->last, cluster, set, places, &key->programs, err);
}

/* The step without its changes, as it is known already, of these programs at this or other places,
 * or simulated now, and shared if it is the first one that its worker is asked for. */
static luo_status quiet_anew(luo_backend_state *backend, const luo_step_request *request,
                             luo_arena *arena, sim_reply *reply, luo_err *err)
{
    const luo_programs *set = request->programs;
    const sim_shared *known = NULL;
    sim_places places;
    sim_share_key key;
    LUO_TRY(name_step(backend, request, &places, &key, err));
    if (key.places) LUO_TRY(sim_share_find(arena, &key, &known, reply, err));
    if (known) {
        sim_worker *worker = free_worker(backend);
        *worker = (sim_worker){.hash = set->hash, .used = ++backend->asked, .owed = known};
        backend->closed_instead += reply->head.closed_instead;
        backend->flow_instead += reply->head.flow_instead;
        return LUO_OK;
    }
    LUO_TRY(simulate(backend, request, 0, 0, arena, reply, err));
    if (key.places && reply->head.status == LUO_OK) sim_share_put(backend->last, &key, reply);
    return LUO_OK;
}

/* The step without its changes, from the memo if it is there. */
static luo_status quiet_step(luo_backend_state *backend, const luo_step_request *request,
                             sim_reply *reply, bool *reused, luo_err *err)
{
    const sim_memo_key key = {request->programs->hash, request->trace, update_of(backend, request),
                              backend->world};
    const sim_memo_entry *known = find_last(backend, request, key.update);
    if (!known) known = sim_memo_find(&backend->memo, &key);
    *reused = known != NULL;
    if (!known) {
        luo_arena *arena = luo_arena_new(0);
        if (!arena) return luo_err_nomem(err);
        luo_status st = quiet_anew(backend, request, arena, reply, err);
        if (st != LUO_OK) {
            luo_arena_free(arena);
            return st;
        }
        /* A failure is kept as well: it depends on nothing else. */
        known = sim_memo_put(&backend->memo, arena, &key, reply);
        if (!known) return luo_err_nomem(err);
    }
    backend->quiet = known;
    backend->quiet_name = known->name;
    *reply = known->reply;
    return LUO_OK;
}

/* A link over which nothing went in the undisturbed step cannot matter, whatever it does. */
static void drop_idle_links(luo_backend_state *backend, int32_t from, const sim_reply *undisturbed)
{
    int32_t n = from;
    if (undisturbed->head.status != LUO_OK) return;
    for (int32_t i = from; i < backend->nchanges; i++) {
        const luo_change change = backend->changes[i];
        if (change.kind == LUO_CHANGE_LINK && undisturbed->links[change.target].bytes_up <= 0 &&
            undisturbed->links[change.target].bytes_down <= 0)
            continue;
        backend->changes[n++] = change;
    }
    backend->nchanges = n;
}

/* Is there a change in the step, as long as it is now known to be, that was not simulated? Those
 * after its end are looked up as well: they may come to lie in it. */
static luo_status find_trigger(luo_backend_state *backend, const luo_step_request *request,
                               const sim_reply *undisturbed, double end_s, int32_t known,
                               bool *trigger, luo_err *err)
{
    luo_ahead *ahead = request->ahead;
    while (ahead && ahead->whole_s < backend->now + end_s) {
        const luo_change *change;
        const int32_t from = backend->nchanges;
        int32_t n;
        LUO_TRY(ahead->more(ahead, backend->now + AHEAD * end_s, &change, &n, err));
        LUO_TRY(add_changes(backend, request->programs, change, n, err));
        drop_idle_links(backend, from, undisturbed);
        if (backend->nchanges > known && backend->changes[known].at_s < end_s) break;
    }
    *trigger = backend->nchanges > known && backend->changes[known].at_s < end_s;
    return LUO_OK;
}

/* A device fails before anything else changes, in a step that would have lasted longer: that is all
 * there is to know, unless what was done until then is to be traced. */
static bool fails_first(const luo_backend_state *backend, const luo_step_request *request,
                        const sim_reply *undisturbed)
{
    const luo_change *change = backend->changes;
    if (request->trace || has_noise(backend) || undisturbed->head.status != LUO_OK) return false;
    return backend->nchanges > 0 && change->kind == LUO_CHANGE_DOWN && change->at_s > 0 &&
           change->at_s < undisturbed->head.end_s;
}

static luo_status fail_step(luo_backend_state *backend, const luo_step_request *request,
                            sim_reply *reply, luo_err *err)
{
    const luo_change change = backend->changes[0];
    LUO_TRY(lost_step(backend, request, change.target, change.at_s, reply, err));
    sim_failure_text(reply->head.text, sizeof reply->head.text, change.target);
    return LUO_OK;
}

/* A change may make the step longer, so that others come to lie in it: then it is simulated again
 * with these, until all that happens before its end was known when it began. */
static luo_status run_step(luo_backend_state *backend, const luo_step_request *request,
                           luo_step_result *result, luo_err *err)
{
    sim_reply undisturbed, reply;
    bool reused = false, trigger;
    int64_t name = 0;
    if (has_noise(backend)) {
        draw_noise(backend, request->programs);
        LUO_TRY(simulate(backend, request, 0, 0, backend->last, &undisturbed, err));
    } else {
        LUO_TRY(quiet_step(backend, request, &undisturbed, &reused, err));
        name = backend->quiet_name;
    }
    reply = undisturbed;
    drop_idle_links(backend, 0, &undisturbed);
    LUO_TRY(find_trigger(backend, request, &undisturbed, reply.head.end_s, 0, &trigger, err));
    if (trigger && fails_first(backend, request, &undisturbed)) {
        LUO_TRY(fail_step(backend, request, &reply, err));
        trigger = reused = false;
        name = 0;
    }
    while (trigger) {
        const int32_t known = backend->nchanges;
        LUO_TRY(simulate(backend, request, known, undisturbed.head.before_s, backend->last, &reply,
                         err));
        LUO_TRY(
            find_trigger(backend, request, &undisturbed, reply.head.end_s, known, &trigger, err));
        reused = false;
        name = 0;
    }
    if (reply.head.nrecords > INT32_MAX)
        return luo_err_set(err, LUO_E2BIG, "the trace of this step has more than 2,147,483,647 "
                                           "records; trace fewer devices.");
    fill(backend, &reply, reused, name, result);
    backend->now = result->end_s;
    return LUO_OK;
}

static const char closed_note[] =
    "some transfers were done in closed form, because too many flows were under way at once; "
    "contention among those is not seen";

static const char flow_note[] =
    "collectives of more than 1,024 ranks were done as flows: step by step is for up to 1,024";

/* A device of the programs that is down; -1: none. */
static int32_t find_down(const luo_backend_state *backend, const luo_programs *set)
{
    for (int32_t i = 0; i < set->n; i++) {
        const int32_t d = set->at[i].device;
        if (d >= 0 && d < backend->world->ndevices && !backend->world->up[d]) return d;
    }
    return -1;
}

/* What of the world the step sees; where it is as before, nothing is looked at again. */
static void see_world(luo_backend_state *backend, const luo_step_request *request)
{
    const uint64_t programs = request->programs->hash;
    backend->world_is_same = request->world_name && request->world_name == backend->world_name &&
                             programs == backend->world_programs;
    if (backend->world_is_same) return;
    backend->quiet = NULL;
    find_nodes(backend, request->programs);
    take_world(backend, request);
    backend->down = find_down(backend, request->programs);
    backend->world_name = request->world_name;
    backend->world_programs = programs;
}

static luo_status sim_run_ranks(luo_backend_state *backend, const luo_step_request *request,
                                luo_step_result *result, luo_err *err)
{
    luo_arena_reset(backend->last, 0);
    see_world(backend, request);
    backend->nchanges = 0;
    LUO_TRY(add_changes(backend, request->programs, request->changes, request->nchanges, err));
    if (backend->down >= 0) return refuse(backend, request, backend->down, result, err);
    LUO_TRY(run_step(backend, request, result, err));
    if (backend->flow_instead > 0) result->note = flow_note;
    if (backend->closed_instead > 0) result->note = closed_note; /* which no message is */
    return LUO_OK;
}

static double sim_backend_now(const luo_backend_state *backend)
{
    return backend->now;
}

static luo_status sim_backend_sleep_until(luo_backend_state *backend, double at_s)
{
    if (at_s > backend->now) backend->now = at_s;
    return LUO_OK;
}

const luo_backend luo_sim_backend = {
    .name = "sim",
    .caps = LUO_CAP_VIRTUAL_TIME | LUO_CAP_LINK_EVENTS | LUO_CAP_WHAT_IF | LUO_CAP_PARTS,
    .jobs = &luo_sim_jobs_backend,
    .describe = sim_describe,
    .open = sim_open,
    .close = sim_close,
    .run_ranks = sim_run_ranks,
    .now = sim_backend_now,
    .sleep_until = sim_backend_sleep_until,
};
