#include <math.h>
#include <string.h>

#include "core/io/io.h"
#include "core/io/write_plan.h"
#include "exec/coordinator/coord.h"
#include "exec/coordinator/places.h"

/* ---- processes ---- */

/* May device d, which no program uses, get a rank that waits? At the first start yes. At later ones
 * only if all devices of its node are up: where one has failed the host may be gone, and a launcher
 * that cannot reach it would fail for a rank that nothing needs. */
static bool may_wait(const luo_backend_state *backend, const luo_world *world, int32_t d)
{
    const luo_device *devices = backend->config.cluster->devices;
    if (backend->starts == 0) return true;
    for (int32_t i = d - devices[d].slot; i < world->ndevices && devices[i].node == devices[d].node;
         i++)
        if (!world->up[i]) return false;
    return true;
}

/* Devices that get a rank, as many as there may be: of those that are up the ones of the programs,
 * then the others by number. Ascending. */
static luo_status choose_devices(const luo_backend_state *backend, const luo_world *world,
                                 const luo_programs *programs, int32_t **dev, int32_t *n,
                                 luo_err *err)
{
    const luo_exec_options *options = backend->options;
    int32_t most = options->ranks > 0 ? options->ranks : world->ndevices, chosen = 0;
    if (options->launcher == LUO_LAUNCH_NONE && options->rendezvous)
        most = options->rendezvous->nranks;
    bool *takes = LUO_NEW_N(backend->last, bool, world->ndevices);
    *n = 0;
    *dev = LUO_NEW_N(backend->last, int32_t, world->ndevices);
    if (!*dev || !takes) return luo_err_nomem(err);
    for (int turn = 0; turn < 2; turn++)
        for (int32_t d = 0; d < world->ndevices && chosen < most; d++) {
            if (!world->up[d] || (luo_programs_find(programs, d) != NULL) != (turn == 0)) continue;
            if (turn == 1 && !may_wait(backend, world, d)) continue;
            takes[d] = true;
            chosen++;
        }
    for (int32_t d = 0; d < world->ndevices; d++)
        if (takes[d]) (*dev)[(*n)++] = d;
    if (options->launcher != LUO_LAUNCH_NONE || *n == most) return LUO_OK;
    return luo_err_set(err, LUO_EINPUT,
                       "the launcher started %d ranks and %d devices are up; as "
                       "many ranks as devices are expected.",
                       most, *n);
}

static bool all_run(const luo_workers *workers, const int32_t *dev, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (luo_workers_rank_of(workers, dev[i]) < 0) return false;
    return true;
}

static luo_status covers(const luo_programs *set, const int32_t *dev, int32_t n, luo_err *err)
{
    int32_t k = 0;
    for (int32_t i = 0; i < set->n; i++) {
        while (k < n && dev[k] < set->at[i].device) k++;
        if (k == n || dev[k] != set->at[i].device)
            return luo_err_set(err, LUO_EINPUT,
                               "device %d of the plan gets no rank, as there are "
                               "%d ranks (devices up to %d); a larger `--ranks` is needed.",
                               set->at[i].device, n, n > 0 ? dev[n - 1] : -1);
    }
    return LUO_OK;
}

void luo_coord_forget_jobs(luo_backend_state *backend)
{
    memset(backend->job, 0, sizeof backend->job);
    backend->holder = -1;
}

luo_status luo_coord_start(luo_backend_state *backend, const luo_world *world,
                           const luo_programs *programs, luo_err *err)
{
    const luo_exec_options *options = backend->options;
    int32_t *dev, n;
    luo_places places;
    LUO_TRY(choose_devices(backend, world, programs, &dev, &n, err));
    LUO_TRY(covers(programs, dev, n, err));
    if (backend->workers.alive && all_run(&backend->workers, dev, n)) return LUO_OK;
    if (options->launcher == LUO_LAUNCH_NONE && backend->starts > 0)
        return luo_err_set(err, LUO_EBACKEND,
                           "ranks are gone, and under `--launcher none` they "
                           "cannot be started again; let luoshu start them.");
    LUO_TRY(luo_places_find(backend->last, options, backend->config.cluster, dev, n, &places, err));
    if (backend->workers.alive) luo_workers_end(&backend->workers);
    luo_coord_forget_jobs(backend);
    backend->starts++;
    const luo_setup setup = {.nranks = n,
                             .device_of = dev,
                             .place_of = places.place,
                             .host_of = places.told,
                             .share_gpus = options->share_gpus,
                             .dtype = backend->config.dtype,
                             .seed = backend->config.seed,
                             .data = options->data};
    luo_status st = luo_workers_start(&backend->workers, options, places.host, &setup, err);
    backend->dead = st == LUO_EPEER;
    if (st == LUO_OK)
        st =
            luo_message_get_device_info(&backend->workers.at[0].answer, &backend->device_info, err);
    if (st == LUO_OK && options->device_info) *options->device_info = backend->device_info;
    return st;
}

luo_status luo_coord_wait(luo_backend_state *backend, const char *what, luo_err *err)
{
    luo_workers_wait wait = {.what = what,
                             .abort_s = INFINITY,
                             .stuck_s = fmax(backend->options->stuck_s, LUO_WORKERS_START_S)};
    const luo_status st = luo_workers_wait_all(&backend->workers, &wait, err);
    if (st == LUO_EPEER) backend->dead = true;
    return st == LUO_OK ? luo_workers_answers(&backend->workers, err) : st;
}

/* ---- jobs ---- */

static luo_status drop(luo_backend_state *backend, int32_t job, luo_err *err)
{
    luo_wire wire = {0};
    luo_workers_begin(&backend->workers, &wire);
    luo_wire_put_int(&wire, backend->job[job].id);
    luo_status st = luo_workers_send_all(&backend->workers, LUO_SAY_DROP, &wire, err);
    luo_wire_free(&wire);
    backend->job[job] = (luo_coord_job){0};
    return st == LUO_OK ? luo_coord_wait(backend, "give memory back", err) : st;
}

/* A free place; if there is none, that of the job used longest ago which holds no state. */
static luo_status find_place(luo_backend_state *backend, int32_t *out, luo_err *err)
{
    int32_t oldest = -1;
    for (int32_t i = 0; i < LUO_COORD_JOBS; i++) {
        if (backend->job[i].id == 0) {
            *out = i;
            return LUO_OK;
        }
        if (i != backend->holder &&
            (oldest < 0 || backend->job[i].used < backend->job[oldest].used))
            oldest = i;
    }
    *out = oldest;
    return drop(backend, oldest, err);
}

static luo_status send_prepare(luo_backend_state *backend, const luo_coord_job *job,
                               const luo_plan *plan, luo_err *err)
{
    luo_wire wire = {0};
    luo_str json = {0};
    luo_plan_json(&json, plan);
    if (json.failed) return luo_err_nomem(err);
    luo_workers_begin(&backend->workers, &wire);
    luo_wire_put_int(&wire, job->id);
    luo_wire_put_text(&wire, json.at);
    luo_wire_put_int(&wire, job->tokens);
    luo_wire_put_int(&wire, (int64_t)job->hash);
    const luo_status st = luo_workers_send_all(&backend->workers, LUO_SAY_PREPARE, &wire, err);
    luo_wire_free(&wire);
    luo_str_free(&json);
    return st;
}

/* Hash that all ranks found. */
static luo_status take_hashes(luo_backend_state *backend, luo_coord_job *job, luo_err *err)
{
    for (int32_t r = 0; r < backend->workers.n; r++) {
        luo_wire *wire = &backend->workers.at[r].answer;
        const uint64_t hash = (uint64_t)luo_wire_int(wire);
        LUO_TRY(luo_message_end(wire, err));
        if (job->hash == 0) job->hash = hash;
        if (job->hash != hash)
            return luo_err_set(err, LUO_EBACKEND,
                               "ranks 0 and %d made different programs of one "
                               "plan; the same build and inputs on all hosts are needed.",
                               r);
    }
    return LUO_OK;
}

static luo_status bind(luo_backend_state *backend, luo_coord_job *job, const luo_plan *plan,
                       luo_err *err)
{
    if (plan->dtype != backend->config.dtype)
        return luo_err_set(err, LUO_EINPUT,
                           "plan `%s` has another dtype than the run began with; "
                           "one for all plans of a run is expected.",
                           plan->name);
    LUO_TRY(send_prepare(backend, job, plan, err));
    LUO_TRY(luo_coord_wait(backend, "bind the programs", err));
    return take_hashes(backend, job, err);
}

static luo_status same_programs(const luo_coord_job *job, const luo_programs *set, luo_err *err)
{
    char here[17], there[17];
    if (!set || set->hash == job->hash) return LUO_OK;
    return luo_err_set(err, LUO_EBACKEND,
                       "ranks hold programs %s where %s are to run; the same "
                       "build and inputs are needed.",
                       luo_hash_print(job->hash, there), luo_hash_print(set->hash, here));
}

luo_status luo_coord_prepare(luo_backend_state *backend, const luo_plan *plan, int64_t tokens,
                             const luo_programs *programs, int32_t *job, luo_err *err)
{
    const uint64_t hash = luo_plan_hash(plan);
    int32_t at;
    for (at = 0; at < LUO_COORD_JOBS; at++)
        if (backend->job[at].id && backend->job[at].plan == hash &&
            backend->job[at].tokens == tokens)
            break;
    if (at == LUO_COORD_JOBS) {
        LUO_TRY(find_place(backend, &at, err));
        luo_coord_job fresh = {.id = ++backend->ids,
                               .plan = hash,
                               .tokens = tokens,
                               .hash = programs ? programs->hash : 0};
        LUO_TRY(bind(backend, &fresh, plan, err));
        backend->job[at] = fresh;
    }
    backend->job[at].used = ++backend->uses;
    *job = at;
    return same_programs(&backend->job[at], programs, err);
}
