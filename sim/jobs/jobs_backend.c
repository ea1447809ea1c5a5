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

static luo_status open_jobs(luo_backend_state *b, luo_err *err)
{
    const luo_scenario *scenario = b->jobs->scenario;
    b->n = scenario->njobs;
    b->configs = LUO_NEW_N(b->arena, luo_backend_config, b->n);
    b->net = LUO_NEW_N(b->arena, const sim_net *, b->n);
    b->at_s = LUO_NEW_N(b->arena, double, b->n);
    b->left = LUO_NEW_N(b->arena, int64_t, b->n);
    b->here = LUO_NEW_N(b->arena, int32_t, b->n);
    if (!b->configs || !b->net || !b->at_s || !b->left || !b->here) return luo_err_nomem(err);
    for (int32_t i = 0; i < b->n; i++) {
        b->configs[i] = *b->config;
        b->configs[i].model = scenario->jobs[i].model;
        b->configs[i].dtype = scenario->jobs[i].plan->dtype;
        b->at_s[i] = b->jobs->began_s[i] = scenario->jobs[i].start_s;
        b->left[i] = scenario->jobs[i].steps > 0 ? scenario->jobs[i].steps : INT64_MAX;
    }
    LUO_TRY(luo_world_new(b->arena, scenario->cluster, &b->world, err));
    return sim_jobs_nets(b->arena, b->configs, b->jobs->set, b->n, b->net, err);
}

static void jobs_close(luo_backend_state *b)
{
    if (!b) return;
    sim_worker_drop(&b->worker);
    luo_arena_free(b->arena);
    free(b);
}

static luo_status jobs_open(const luo_backend_config *config, luo_backend_state **out, luo_err *err)
{
    luo_backend_state *b = calloc(1, sizeof *b);
    if (!b) return luo_err_nomem(err);
    b->arena = luo_arena_new(1 << 20);
    luo_backend_config *own = b->arena ? LUO_NEW(b->arena, luo_backend_config) : NULL;
    luo_status st = own ? LUO_OK : luo_err_nomem(err);
    if (st == LUO_OK) {
        *own = *config;
        b->config = own;
        b->jobs = (luo_jobs *)(uintptr_t)config->options; /* whose dates are ours to fill */
        st = open_jobs(b, err);
    }
    if (st == LUO_OK) *out = b;
    else jobs_close(b);
    return st;
}

/* ---- an episode ---- */

static luo_status add_stretch(luo_backend_state *b, int64_t n, int32_t reply, int64_t cycle,
                              luo_err *err)
{
    if (n == 0) return LUO_OK;
    if (!LUO_VEC_ROOM_IN(b->arena, b->stretches, b->nstretches, b->room_stretches))
        return luo_err_nomem(err);
    const stretch *last = b->nstretches > 0 ? &b->stretches[b->nstretches - 1] : NULL;
    const stretch next = {last ? last->first + last->n : 0, n, reply, (int32_t)cycle};
    b->stretches[b->nstretches++] = next;
    return LUO_OK;
}

static luo_status take_step(luo_backend_state *b, const sim_told *told, luo_err *err)
{
    const int32_t job = b->here[told->job];
    if (told->status != LUO_OK)
        return luo_err_set(err, (luo_status)told->status, "job `%s`: %s",
                           b->jobs->scenario->jobs[job].name, told->text);
    b->left[job] = told->last ? 0 : b->left[job] - 1;
    if (b->left[job] == 0) b->jobs->ended_s[job] = b->base_s + told->start_s + told->seconds;
    if (job != b->jobs->own) return LUO_OK;
    if (!LUO_VEC_ROOM_IN(b->arena, b->replies, b->nreplies, b->room_replies))
        return luo_err_nomem(err);
    sim_reply *reply = &b->replies[b->nreplies];
    LUO_TRY(sim_worker_take(&b->worker, b->arena, b->config->interrupted, reply, err));
    b->closed_instead += reply->head.closed_instead;
    b->flow_instead += reply->head.flow_instead;
    return add_stretch(b, 1, b->nreplies++, 1, err);
}

static luo_status take_skip(luo_backend_state *b, const sim_skip *skip, int32_t job, luo_err *err)
{
    b->at_s[job] = b->base_s + skip->at_s;
    b->left[job] -= skip->skipped;
    if (skip->skipped > 0 && b->left[job] == 0) b->jobs->ended_s[job] = b->at_s[job];
    b->repeats |= skip->repeats && job == b->jobs->own;
    if (job != b->jobs->own || skip->skipped == 0) return LUO_OK;
    return add_stretch(b, skip->skipped, b->nreplies - (int32_t)skip->cycle, skip->cycle, err);
}

/* Of all that an episode tells the next. */
static luo_status hear(luo_backend_state *b, luo_err *err)
{
    const volatile int *interrupted = b->config->interrupted;
    sim_told told;
    LUO_TRY(sim_worker_hear(&b->worker, interrupted, &told, sizeof told, err));
    if (told.job >= 0) return take_step(b, &told, err);
    for (int32_t i = 0; i < b->nhere; i++) {
        sim_skip skip;
        LUO_TRY(sim_worker_hear(&b->worker, interrupted, &skip, sizeof skip, err));
        LUO_TRY(take_skip(b, &skip, b->here[i], err));
    }
    sim_worker_drop(&b->worker);
    return LUO_OK;
}

static luo_status start_episode(luo_backend_state *b, luo_err *err)
{
    const luo_step_part whole = {0};
    const double update = luo_step_part_update(&whole, b->config->stack->optimizer_bytes);
    sim_episode_job *job = LUO_NEW_N(b->arena, sim_episode_job, b->n);
    sim_episode episode = {.job = job,
                           .own = -1,
                           .world = b->world,
                           .settle = b->jobs->scenario->joint_steps,
                           .traced = b->jobs->traced};
    if (!job) return luo_err_nomem(err);
    b->base_s = HUGE_VAL;
    for (int32_t i = 0; i < b->n; i++)
        if (b->left[i] > 0) b->base_s = fmin(b->base_s, b->at_s[i]);
    for (int32_t i = 0; i < b->n; i++) {
        if (b->left[i] == 0) continue;
        if (i == b->jobs->own) episode.own = episode.n;
        const luo_job_spec *spec = &b->jobs->scenario->jobs[i];
        const double end_s =
            spec->steps > 0 ? HUGE_VAL : spec->start_s + spec->duration_s - b->base_s;
        job[episode.n] =
            (sim_episode_job){b->net[i], b->at_s[i] - b->base_s, b->left[i], end_s, update};
        b->here[episode.n++] = i;
    }
    b->nhere = episode.n;
    return sim_worker_fork(&b->worker, b->net[0], &episode, NULL, 0, err);
}

/* ---- steps ---- */

/* NULL: it is not known yet. */
static const sim_reply *find_reply(const luo_backend_state *b, int64_t step)
{
    int32_t lo = 0, hi = b->nstretches; /* those before lo begin at `step` at the latest */
    while (lo < hi) {
        const int32_t mid = lo + (hi - lo) / 2;
        if (b->stretches[mid].first <= step) lo = mid + 1;
        else hi = mid;
    }
    const stretch *s = lo > 0 ? &b->stretches[lo - 1] : NULL;
    if (!s || step >= s->first + s->n) return NULL;
    return &b->replies[s->reply + (step - s->first) % s->cycle];
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
static bool is_known(const luo_backend_state *b, int64_t step)
{
    if (!find_reply(b, step)) return false;
    return b->jobs->scenario->jobs[b->jobs->own].steps > 0 || b->left[b->jobs->own] == 0 ||
           find_reply(b, step + 1);
}

static int64_t known_steps(const luo_backend_state *b)
{
    const stretch *last = b->nstretches > 0 ? &b->stretches[b->nstretches - 1] : NULL;
    return last ? last->first + last->n : 0;
}

static luo_status jobs_run_ranks(luo_backend_state *b, const luo_step_request *request,
                                 luo_step_result *result, luo_err *err)
{
    if (request->programs->hash != b->jobs->set[b->jobs->own]->hash)
        return luo_err_set(err, LUO_EBUG, "programs of job `%s` are %016" PRIx64 " and %016" PRIx64
                           "; the same ones are expected.",
                           b->jobs->scenario->jobs[b->jobs->own].name, request->programs->hash,
                           b->jobs->set[b->jobs->own]->hash);
    while (!is_known(b, request->step)) {
        if (b->left[b->jobs->own] == 0)
            return luo_err_set(err, LUO_EBUG, "job `%s` has no step %" PRId64 ".",
                               b->jobs->scenario->jobs[b->jobs->own].name, request->step);
        LUO_TRY(b->worker.process.pid ? hear(b, err) : start_episode(b, err));
    }
    if (b->left[b->jobs->own] == 0) b->jobs->steps = known_steps(b);
    const sim_reply *reply = find_reply(b, request->step);
    const int32_t index = (int32_t)(reply - b->replies);
    *result = (luo_step_result){.status = LUO_OK,
                                .start_s = b->now,
                                .end_s = b->now + reply->head.end_s,
                                .failed_device = -1,
                                .failed_link = -1,
                                .reused = index < b->nshown,
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
    b->now = result->end_s;
    if (index >= b->nshown) b->nshown = index + 1;
    if (b->repeats) result->note = repeats_note;
    if (b->flow_instead > 0) result->note = flow_note;
    if (b->closed_instead > 0) result->note = closed_note;
    return LUO_OK;
}

static double jobs_now(const luo_backend_state *b)
{
    return b->now;
}

static luo_status jobs_sleep_until(luo_backend_state *b, double at_s)
{
    b->now = fmax(b->now, at_s);
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
