/* jobs_backend.c: steps of one job beside others. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/vec.h"
#include "core/run/jobs/jobs.h"
#include "sim/jobs/jobs.h"
#include "sim/sim.h"
#include "sim/step/episode.h"
#include "sim/worker.h"

typedef struct stretch { /* steps first .. first + n - 1 are replies from `reply` on, in turn */
    int64_t first, n;
    int32_t reply, cycle;
} stretch;

struct luo_backend_state {
    const luo_backend_config *config;
    luo_jobs *jobs;
    luo_arena *arena;
    int32_t n;
    luo_backend_config *configs; /* per job */
    const sim_net **net;
    luo_world *world;
    double *at_s;   /* per job: when the next step that is left begins, of the cluster's clock */
    int64_t *left;  /* per job: steps; of one that has a duration more than it can have */
    stretch *stretches;
    int32_t nstretches, room_stretches;
    sim_reply *replies; /* of the job that is run */
    int32_t nreplies, room_replies, nshown; /* shown: handed to the driver */
    sim_worker worker; /* of the episode at hand; {0}: there is none */
    double base_s;     /* its start, of the cluster's clock */
    int32_t nhere, *here; /* jobs in it, by their place there */
    double now;
    int64_t closed_instead, flow_instead;
    bool repeats; /* steps were skipped that need not be as those they are taken for */
};

static luo_status describe(char *text, size_t size)
{
    return luo_sim_backend.describe(text, size);
}

static luo_status open_jobs(luo_backend_state *backend, luo_err *err)
{
    const luo_scenario *scenario = backend->jobs->scenario;
    backend->n = scenario->njobs;
    backend->configs = LUO_NEW_N(backend->arena, luo_backend_config, backend->n);
    backend->net = LUO_NEW_N(backend->arena, const sim_net *, backend->n);
    backend->at_s = LUO_NEW_N(backend->arena, double, backend->n);
    backend->left = LUO_NEW_N(backend->arena, int64_t, backend->n);
    backend->here = LUO_NEW_N(backend->arena, int32_t, backend->n);
    if (!backend->configs || !backend->net || !backend->at_s || !backend->left || !backend->here)
        return luo_err_nomem(err);
    for (int32_t i = 0; i < backend->n; i++) {
        backend->configs[i] = *backend->config;
        backend->configs[i].model = scenario->jobs[i].model;
        backend->configs[i].dtype = scenario->jobs[i].plan->dtype;
        backend->at_s[i] = backend->jobs->began_s[i] = scenario->jobs[i].start_s;
        backend->left[i] = scenario->jobs[i].steps > 0 ? scenario->jobs[i].steps : INT64_MAX;
    }
    LUO_TRY(luo_world_new(backend->arena, scenario->cluster, &backend->world, err));
    return sim_jobs_nets(backend->arena, backend->configs, backend->jobs->set, backend->n,
                         backend->net, err);
}

static void jobs_close(luo_backend_state *backend)
{
    if (!backend) return;
    sim_worker_drop(&backend->worker);
    luo_arena_free(backend->arena);
    free(backend);
}

static luo_status jobs_open(const luo_backend_config *config, luo_backend_state **out, luo_err *err)
{
    luo_backend_state *backend = calloc(1, sizeof *backend);
    if (!backend) return luo_err_nomem(err);
    backend->arena = luo_arena_new(1 << 20);
    luo_backend_config *own = backend->arena ? LUO_NEW(backend->arena, luo_backend_config) : NULL;
    luo_status st = own ? LUO_OK : luo_err_nomem(err);
    if (st == LUO_OK) {
        *own = *config;
        backend->config = own;
        backend->jobs = (luo_jobs *)(uintptr_t)config->options; /* whose dates are ours to fill */
        st = open_jobs(backend, err);
    }
    if (st == LUO_OK)
        *out = backend;
    else
        jobs_close(backend);
    return st;
}

/* ---- an episode ---- */

static luo_status add_stretch(luo_backend_state *backend, int64_t n, int32_t reply, int64_t cycle,
                              luo_err *err)
{
    if (n == 0) return LUO_OK;
    if (!LUO_VEC_ROOM_IN(backend->arena, backend->stretches, backend->nstretches,
                         backend->room_stretches))
        return luo_err_nomem(err);
    const stretch *last =
        backend->nstretches > 0 ? &backend->stretches[backend->nstretches - 1] : NULL;
    const stretch next = {last ? last->first + last->n : 0, n, reply, (int32_t)cycle};
    backend->stretches[backend->nstretches++] = next;
    return LUO_OK;
}

static luo_status take_step(luo_backend_state *backend, const sim_told *told, luo_err *err)
{
    const int32_t job = backend->here[told->job];
    if (told->status != LUO_OK)
        return luo_err_set(err, (luo_status)told->status, "job `%s`: %s",
                           backend->jobs->scenario->jobs[job].name, told->text);
    backend->left[job] = told->last ? 0 : backend->left[job] - 1;
    if (backend->left[job] == 0)
        backend->jobs->ended_s[job] = backend->base_s + told->start_s + told->seconds;
    if (job != backend->jobs->own) return LUO_OK;
    if (!LUO_VEC_ROOM_IN(backend->arena, backend->replies, backend->nreplies,
                         backend->room_replies))
        return luo_err_nomem(err);
    sim_reply *reply = &backend->replies[backend->nreplies];
    LUO_TRY(sim_worker_take(&backend->worker, backend->arena, backend->config->interrupted, reply,
                            err));
    backend->closed_instead += reply->head.closed_instead;
    backend->flow_instead += reply->head.flow_instead;
    return add_stretch(backend, 1, backend->nreplies++, 1, err);
}

static luo_status take_skip(luo_backend_state *backend, const sim_skip *skip, int32_t job,
                            luo_err *err)
{
    backend->at_s[job] = backend->base_s + skip->at_s;
    backend->left[job] -= skip->skipped;
    if (skip->skipped > 0 && backend->left[job] == 0)
        backend->jobs->ended_s[job] = backend->at_s[job];
    backend->repeats |= skip->repeats && job == backend->jobs->own;
    if (job != backend->jobs->own || skip->skipped == 0) return LUO_OK;
    return add_stretch(backend, skip->skipped, backend->nreplies - (int32_t)skip->cycle,
                       skip->cycle, err);
}

/* Of all that an episode tells the next. */
static luo_status hear(luo_backend_state *backend, luo_err *err)
{
    const volatile int *interrupted = backend->config->interrupted;
    sim_told told;
    LUO_TRY(sim_worker_hear(&backend->worker, interrupted, &told, sizeof told, err));
    if (told.job >= 0) return take_step(backend, &told, err);
    for (int32_t i = 0; i < backend->nhere; i++) {
        sim_skip skip;
        LUO_TRY(sim_worker_hear(&backend->worker, interrupted, &skip, sizeof skip, err));
        LUO_TRY(take_skip(backend, &skip, backend->here[i], err));
    }
    sim_worker_drop(&backend->worker);
    return LUO_OK;
}

static luo_status start_episode(luo_backend_state *backend, luo_err *err)
{
    const luo_step_part whole = {0};
    const double update = luo_step_part_update(&whole, backend->config->stack->optimizer_bytes);
    sim_episode_job *job = LUO_NEW_N(backend->arena, sim_episode_job, backend->n);
    sim_episode episode = {.job = job,
                           .own = -1,
                           .world = backend->world,
                           .settle = backend->jobs->scenario->joint_steps,
                           .traced = backend->jobs->traced};
    if (!job) return luo_err_nomem(err);
    backend->base_s = HUGE_VAL;
    for (int32_t i = 0; i < backend->n; i++)
        if (backend->left[i] > 0) backend->base_s = fmin(backend->base_s, backend->at_s[i]);
    for (int32_t i = 0; i < backend->n; i++) {
        if (backend->left[i] == 0) continue;
        if (i == backend->jobs->own) episode.own = episode.n;
        const luo_job_spec *spec = &backend->jobs->scenario->jobs[i];
        const double end_s =
            spec->steps > 0 ? HUGE_VAL : spec->start_s + spec->duration_s - backend->base_s;
        job[episode.n] = (sim_episode_job){backend->net[i], backend->at_s[i] - backend->base_s,
                                           backend->left[i], end_s, update};
        backend->here[episode.n++] = i;
    }
    backend->nhere = episode.n;
    return sim_worker_fork(&backend->worker, backend->net[0], &episode, NULL, 0, err);
}

/* ---- steps ---- */

/* NULL: it is not known yet. */
static const sim_reply *find_reply(const luo_backend_state *backend, int64_t step)
{
    int32_t lo = 0, hi = backend->nstretches; /* those before lo begin at `step` at the latest */
    while (lo < hi) {
        const int32_t mid = lo + (hi - lo) / 2;
        if (backend->stretches[mid].first <= step)
            lo = mid + 1;
        else hi = mid;
    }
    const stretch *s = lo > 0 ? &backend->stretches[lo - 1] : NULL;
    if (!s || step >= s->first + s->n) return NULL;
    return &backend->replies[s->reply + (step - s->first) % s->cycle];
}

static const char closed_note[] =
    "some transfers were done in closed form, because too many flows were under way at once; "
    "contention among those is not seen";
static const char flow_note[] =
    "collectives of more than 1,024 ranks were done as flows: step by step is for up to 1,024";
static const char repeats_note[] =
    "while the same jobs ran for long, `joint_steps` steps of each were simulated, and later ones "
    "are those again";

/* Of a job that has a duration, whether a step is its last one is known when the next begins. */
static bool is_known(const luo_backend_state *backend, int64_t step)
{
    if (!find_reply(backend, step)) return false;
    return backend->jobs->scenario->jobs[backend->jobs->own].steps > 0 ||
           backend->left[backend->jobs->own] == 0 || find_reply(backend, step + 1);
}

static int64_t known_steps(const luo_backend_state *backend)
{
    const stretch *last =
        backend->nstretches > 0 ? &backend->stretches[backend->nstretches - 1] : NULL;
    return last ? last->first + last->n : 0;
}

static luo_status jobs_run_ranks(luo_backend_state *backend, const luo_step_request *request,
                                 luo_step_result *result, luo_err *err)
{
    if (request->programs->hash != backend->jobs->set[backend->jobs->own]->hash)
        return luo_err_set(err, LUO_EBUG,
                           "programs of job `%s` are %016" PRIx64 " and %016" PRIx64
                           "; the same ones are expected.",
                           backend->jobs->scenario->jobs[backend->jobs->own].name,
                           request->programs->hash, backend->jobs->set[backend->jobs->own]->hash);
    while (!is_known(backend, request->step)) {
        if (backend->left[backend->jobs->own] == 0)
            return luo_err_set(err, LUO_EBUG, "job `%s` has no step %" PRId64 ".",
                               backend->jobs->scenario->jobs[backend->jobs->own].name,
                               request->step);
        LUO_TRY(backend->worker.process.pid ? hear(backend, err) : start_episode(backend, err));
    }
    if (backend->left[backend->jobs->own] == 0) backend->jobs->steps = known_steps(backend);
    const sim_reply *reply = find_reply(backend, request->step);
    const int32_t index = (int32_t)(reply - backend->replies);
    *result = (luo_step_result){.status = LUO_OK,
                                .start_s = backend->now,
                                .end_s = backend->now + reply->head.end_s,
                                .failed_device = -1,
                                .failed_link = -1,
                                .reused = index < backend->nshown,
                                .n = reply->head.n,
                                .parts = reply->parts,
                                .compute_s = reply->compute_s,
                                .predicted_s = reply->predicted_s,
                                .nrecords = request->trace ? (int32_t)reply->head.nrecords : 0,
                                .nlinks = reply->head.nlinks,
                                .ncomm = reply->head.ncomm,
                                .records = reply->records,
                                .links = reply->links,
                                .comm = reply->comm};
    backend->now = result->end_s;
    if (index >= backend->nshown) backend->nshown = index + 1;
    if (backend->repeats) result->note = repeats_note;
    if (backend->flow_instead > 0) result->note = flow_note;
    if (backend->closed_instead > 0) result->note = closed_note;
    return LUO_OK;
}

static double jobs_now(const luo_backend_state *backend)
{
    return backend->now;
}

static luo_status jobs_sleep_until(luo_backend_state *backend, double at_s)
{
    backend->now = fmax(backend->now, at_s);
    return LUO_OK;
}

const luo_backend luo_sim_jobs_backend = {
    .name = "sim",
    .caps = LUO_CAP_VIRTUAL_TIME | LUO_CAP_PARTS,
    .describe = describe,
    .open = jobs_open,
    .close = jobs_close,
    .run_ranks = jobs_run_ranks,
    .now = jobs_now,
    .sleep_until = jobs_sleep_until,
};
