#include <math.h>
#include <string.h>

#include "core/io/io.h"
#include "exec/coordinator/coord.h"

/* ---- processes ---- */

/* Devices that get a rank, as many as there may be: of those that are up the ones of the programs,
 * then the others by number. Ascending. */
static luo_status choose_devices(const luo_backend_state *b, const luo_world *world,
                                 const luo_programs *programs, int32_t **dev, int32_t *n,
                                 luo_err *err)
{
    const luo_exec_options *o = b->options;
    int32_t most = o->ranks > 0 ? o->ranks : world->ndevices, chosen = 0;
    if (o->launcher == LUO_LAUNCH_NONE && o->rendezvous) most = o->rendezvous->nranks;
    bool *takes = LUO_NEW_N(b->last, bool, world->ndevices);
    *n = 0;
    *dev = LUO_NEW_N(b->last, int32_t, world->ndevices);
    if (!*dev || !takes) return luo_err_nomem(err);
    for (int turn = 0; turn < 2; turn++)
        for (int32_t d = 0; d < world->ndevices && chosen < most; d++) {
            if (!world->up[d] || (luo_programs_find(programs, d) != NULL) != (turn == 0)) continue;
            takes[d] = true;
            chosen++;
        }
    for (int32_t d = 0; d < world->ndevices; d++)
        if (takes[d]) (*dev)[(*n)++] = d;
    if (o->launcher != LUO_LAUNCH_NONE || *n == most) return LUO_OK;
    return luo_err_set(err, LUO_EINPUT,
                       "the launcher started %d ranks and %d devices are up; as "
                       "many ranks as devices are expected.",
                       most, *n);
}

static bool all_run(const luo_workers *f, const int32_t *dev, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (luo_workers_rank_of(f, dev[i]) < 0) return false;
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

void luo_coord_forget_jobs(luo_backend_state *b)
{
    memset(b->job, 0, sizeof b->job);
    b->holder = -1;
}

luo_status luo_coord_start(luo_backend_state *b, const luo_world *world,
                           const luo_programs *programs, luo_err *err)
{
    int32_t *dev, n;
    LUO_TRY(choose_devices(b, world, programs, &dev, &n, err));
    LUO_TRY(covers(programs, dev, n, err));
    if (b->workers.alive && all_run(&b->workers, dev, n)) return LUO_OK;
    if (b->options->launcher == LUO_LAUNCH_NONE && b->starts > 0)
        return luo_err_set(err, LUO_EBACKEND,
                           "ranks are gone, and under `--launcher none` they "
                           "cannot be started again; let luoshu start them.");
    if (b->workers.alive) luo_workers_end(&b->workers);
    luo_coord_forget_jobs(b);
    b->starts++;
    const luo_setup setup = {.nranks = n,
                             .device_of = dev,
                             .dtype = b->config.dtype,
                             .seed = b->config.seed,
                             .data = b->options->data};
    luo_status st = luo_workers_start(&b->workers, b->options, &setup, err);
    b->dead = st == LUO_EPEER;
    if (st == LUO_OK) st = luo_get_device_info(&b->workers.at[0].answer, &b->device_info, err);
    if (st == LUO_OK && b->options->device_info) *b->options->device_info = b->device_info;
    return st;
}

luo_status luo_coord_wait(luo_backend_state *b, const char *what, luo_err *err)
{
    luo_workers_wait w = {.what = what,
                          .abort_s = INFINITY,
                          .stuck_s = fmax(b->options->stuck_s, LUO_WORKERS_START_S)};
    const luo_status st = luo_workers_wait_all(&b->workers, &w, err);
    if (st == LUO_EPEER) b->dead = true;
    return st == LUO_OK ? luo_workers_answers(&b->workers, err) : st;
}

/* ---- jobs ---- */

static luo_status drop(luo_backend_state *b, int32_t job, luo_err *err)
{
    luo_wire w = {0};
    luo_workers_begin(&b->workers, &w);
    luo_wire_put_int(&w, b->job[job].id);
    luo_status st = luo_workers_send_all(&b->workers, LUO_SAY_DROP, &w, err);
    luo_wire_free(&w);
    b->job[job] = (luo_coord_job){0};
    return st == LUO_OK ? luo_coord_wait(b, "give memory back", err) : st;
}

/* A free place; if there is none, that of the job used longest ago which holds no state. */
static luo_status find_place(luo_backend_state *b, int32_t *out, luo_err *err)
{
    int32_t oldest = -1;
    for (int32_t i = 0; i < LUO_COORD_JOBS; i++) {
        if (b->job[i].id == 0) {
            *out = i;
            return LUO_OK;
        }
        if (i != b->holder && (oldest < 0 || b->job[i].used < b->job[oldest].used)) oldest = i;
    }
    *out = oldest;
    return drop(b, oldest, err);
}

static luo_status send_prepare(luo_backend_state *b, const luo_coord_job *job, const luo_plan *plan,
                               luo_err *err)
{
    luo_wire w = {0};
    luo_str json = {0};
    luo_plan_json(&json, plan);
    if (json.failed) return luo_err_nomem(err);
    luo_workers_begin(&b->workers, &w);
    luo_wire_put_int(&w, job->id);
    luo_wire_put_text(&w, json.at);
    luo_wire_put_int(&w, job->tokens);
    luo_wire_put_int(&w, (int64_t)job->hash);
    const luo_status st = luo_workers_send_all(&b->workers, LUO_SAY_PREPARE, &w, err);
    luo_wire_free(&w);
    luo_str_free(&json);
    return st;
}

/* Hash that all ranks found. */
static luo_status take_hashes(luo_backend_state *b, luo_coord_job *job, luo_err *err)
{
    for (int32_t r = 0; r < b->workers.n; r++) {
        luo_wire *m = &b->workers.at[r].answer;
        const uint64_t hash = (uint64_t)luo_wire_int(m);
        LUO_TRY(luo_wire_end(m, err));
        if (job->hash == 0) job->hash = hash;
        if (job->hash != hash)
            return luo_err_set(err, LUO_EBACKEND,
                               "ranks 0 and %d made different programs of one "
                               "plan; the same build and inputs on all hosts are needed.",
                               r);
    }
    return LUO_OK;
}

static luo_status bind(luo_backend_state *b, luo_coord_job *job, const luo_plan *plan, luo_err *err)
{
    if (plan->dtype != b->config.dtype)
        return luo_err_set(err, LUO_EINPUT,
                           "plan `%s` has another dtype than the run began with; "
                           "one for all plans of a run is expected.",
                           plan->name);
    LUO_TRY(send_prepare(b, job, plan, err));
    LUO_TRY(luo_coord_wait(b, "bind the programs", err));
    return take_hashes(b, job, err);
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

luo_status luo_coord_prepare(luo_backend_state *b, const luo_plan *plan, int64_t tokens,
                             const luo_programs *programs, int32_t *job, luo_err *err)
{
    const uint64_t hash = luo_plan_hash(plan);
    int32_t at;
    for (at = 0; at < LUO_COORD_JOBS; at++)
        if (b->job[at].id && b->job[at].plan == hash && b->job[at].tokens == tokens) break;
    if (at == LUO_COORD_JOBS) {
        LUO_TRY(find_place(b, &at, err));
        luo_coord_job fresh = {
            .id = ++b->ids, .plan = hash, .tokens = tokens, .hash = programs ? programs->hash : 0};
        LUO_TRY(bind(b, &fresh, plan, err));
        b->job[at] = fresh;
    }
    b->job[at].used = ++b->uses;
    *job = at;
    return same_programs(&b->job[at], programs, err);
}
