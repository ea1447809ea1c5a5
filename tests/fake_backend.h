/* fake_backend.h: a backend that answers from a formula, and a sink that keeps rows, for
 * tests of the driver without a simulator.
 *
 * A layer takes 10 ms for one micro-batch on a nominal device; pipelines run 1F1B, transfers are
 * free; nothing else takes time. A change in the middle of a step changes the speed at which the
 * rest of the step goes by; a failure of a device of the plan, or a dead link of one of its
 * nodes, ends it at once.
 *
 * fake_data_backend is the same with state that is kept: it writes down what is asked of it
 * (`init`, `save 4`, `load 4`, `move`), its processes can die, and what takes time takes time. */
#ifndef LUO_TESTS_FAKE_BACKEND_H
#define LUO_TESTS_FAKE_BACKEND_H
#include <math.h>

#include "core/plan/replan/replan.h"
#include "core/run/driver.h"
#include "core/run/policy/policy.h"
#include "tests/cluster_fixture.h"

enum { FAKE_ROWS = 4096, FAKE_PLANS = 32 };

typedef struct fake_death { /* a process dies in the middle of the first attempt of a step */
    int64_t step;
    int32_t device;
    bool done;
} fake_death;

static struct fake {
    luo_arena *arena, *scratch;
    double now_s, start_s; /* clock; where it starts */
    const luo_cluster *cluster;
    luo_world *world;
    luo_parts *parts;
    double *compute_s, *predicted_s;
    int32_t nplans;
    struct {
        const luo_programs *set;
        const luo_plan *plan;
    } plans[FAKE_PLANS];
    int64_t runs;
    bool quiet; /* keep no rows */
    int32_t ntime, nsteps, nevents, nswitches, ntruth;
    luo_row_timeline time[FAKE_ROWS];
    luo_row_step steps[FAKE_ROWS];
    luo_row_event events[FAKE_ROWS];
    luo_row_switch switches[FAKE_ROWS];
    luo_row_truth truth[FAKE_ROWS];
    int32_t nmemory;
    luo_row_memory memory[1024];
    int32_t nnotes, ntold;
    const char *notes[256], *info[16];
    /* with data */
    luo_str asked;          /* "init; save 4; ..." */
    int64_t saved[64];      /* steps of checkpoints */
    int32_t nsaved;
    bool processes;         /* they run */
    int64_t state_step;     /* steps that the state has seen; -1: there is none */
    uint64_t state_plan;    /* that it is laid out for */
    double notice_s;        /* from the death of a process until it is noticed */
    double state_s, gap_s;  /* what state() takes; the way to the ranks before a step */
    double machine;         /* compute_s is that many times what is predicted; 0: 1 */
    double odd_stage;       /* device 4 computes so many times longer than that; 0: 1 */
    double layer_s;         /* of a layer and micro-batch; 0: 0.01 */
    double move_s;          /* what a switch takes; 0: by its bytes */
    double overdone;        /* a slow device measures so many times as slow as it is; 0: 1 */
    double other_machine;   /* the same from the second plan on; 0: as under the first */
    bool told_once;         /* asks for no changes beyond the first list, like ranks elsewhere */
    int64_t broken;         /* this checkpoint cannot be read; 0: all can */
    int32_t dies_loading;   /* so many times */
    int32_t dies_starting;  /* the same before the first step */
    double untold_s;        /* of a step that the parts of the last device leave out */
    luo_status bind_fails;  /* of programs to the state; LUO_OK: it does not */
    int32_t ndeaths;
    fake_death deaths[8];
    luo_run_summary summary; /* its range and draws are gone */
    double range_sd;         /* of the range; 0: there was none */
    double up_s[64], used_s[64], mean_slowdown[64], caused_slowdown[64];
    int32_t nnever, nassumptions, nwarnings;
    const char *assumptions[64];
} fake;

static inline const luo_plan *fake_plan(const luo_programs *set)
{
    for (int32_t i = 0; i < fake.nplans; i++)
        if (fake.plans[i].set == set) return fake.plans[i].plan;
    return NULL;
}

static inline double fake_layer(void)
{
    return fake.layer_s > 0 ? fake.layer_s : 0.01;
}

/* A set of moves: every device sends what it sends at 1 GB/s, all at once. */
static inline double fake_moves(const luo_programs *set)
{
    double most = 0;
    if (fake.move_s > 0) return fake.move_s;
    for (int32_t i = 0; i < set->n; i++) {
        const luo_role *role = &set->roles[set->at[i].role];
        double bytes = 0;
        for (int32_t k = 0; k < role->ninstr; k++)
            if (role->instr[k].kind == LUO_INSTR_P2P) bytes += (double)role->instr[k].bytes;
        most = fmax(most, bytes / 1e9);
    }
    return most;
}

static inline double fake_stage(const luo_stage *st, const luo_world *w)
{
    double t = 0;
    int32_t layers = 0;
    for (int32_t i = 0; i < st->nlayers; i++) layers += st->layers[i].hi - st->layers[i].lo;
    for (int32_t k = 0; k < st->ndev; k++)
        t = fmax(t, fake_layer() * layers * w->slowdown[st->dev[k]]);
    return t;
}

/* Seconds of a whole step in this world. */
static inline double fake_seconds(const luo_plan *p, const luo_world *w)
{
    luo_pipe_time *pipes = LUO_NEW_N(fake.scratch, luo_pipe_time, p->npipelines);
    double seconds = 0;
    for (int32_t i = 0; i < p->npipelines; i++) {
        const luo_pipeline *pl = &p->pipelines[i];
        double *t = LUO_NEW_N(fake.scratch, double, pl->nstages);
        for (int32_t s = 0; s < pl->nstages; s++) t[s] = fake_stage(&pl->stages[s], w);
        pipes[i] = (luo_pipe_time){pl->nstages, t, pl->micro_batches};
    }
    ck_assert_int_eq(
        luo_replan_event_time(fake.scratch, pipes, p->npipelines, false, &seconds, NULL), LUO_OK);
    luo_arena_reset(fake.scratch, 0);
    return seconds;
}

static inline luo_status fake_open(const luo_backend_config *config, luo_backend_state **out,
                                   luo_err *err)
{
    const int32_t n = config->cluster->ndevices;
    fake.cluster = config->cluster;
    fake.now_s = fake.start_s;
    LUO_TRY(luo_world_new(fake.arena, config->cluster, &fake.world, err));
    fake.parts = LUO_NEW_N(fake.arena, luo_parts, n);
    fake.compute_s = LUO_NEW_N(fake.arena, double, n);
    fake.predicted_s = LUO_NEW_N(fake.arena, double, n);
    *out = (luo_backend_state *)&fake;
    return LUO_OK;
}

static inline void fake_close(luo_backend_state *b)
{
    (void)b;
}

static inline bool fake_broken(const luo_programs *set, const luo_world *w, int32_t *device,
                               int32_t *link)
{
    *device = *link = -1;
    for (int32_t i = 0; i < set->n; i++)
        if (!w->up[set->at[i].device]) *device = set->at[i].device;
    for (int32_t i = 0; i < w->nlinks; i++)
        for (int32_t k = 0; k < set->n && w->link_factor[i] == 0; k++)
            if (fake.cluster->devices[set->at[k].device].node == fake.cluster->links[i].node)
                *link = i;
    return *device >= 0 || *link >= 0;
}

/* Shares of the work done at each speed. */
static inline void fake_devices(const luo_plan *p, const luo_world *w, double share)
{
    for (int32_t i = 0; i < p->npipelines; i++)
        for (int32_t s = 0; s < p->pipelines[i].nstages; s++) {
            const luo_stage *st = &p->pipelines[i].stages[s];
            for (int32_t k = 0; k < st->ndev; k++) {
                int32_t layers = 0;
                for (int32_t j = 0; j < st->nlayers; j++)
                    layers += st->layers[j].hi - st->layers[j].lo;
                const double nominal =
                    fake_layer() * layers * p->pipelines[i].micro_batches * share;
                fake.predicted_s[st->dev[k]] += nominal;
                fake.compute_s[st->dev[k]] += nominal * w->slowdown[st->dev[k]];
            }
        }
}

/* The death of this attempt as a change; false: none. */
static inline bool fake_dies(const luo_step_request *q, const luo_plan *p, luo_change *out)
{
    for (int32_t i = 0; i < fake.ndeaths; i++) {
        fake_death *d = &fake.deaths[i];
        if (d->done || d->step != q->step) continue;
        d->done = true;
        *out = (luo_change){.at_s = fake.now_s + 0.5 * (p ? fake_seconds(p, q->world) : 0),
                            .kind = LUO_CHANGE_DOWN, .target = d->device, .hard = true};
        return true;
    }
    return false;
}

/* The next change before until_s, asked for where the list ends; NULL: none. */
static inline const luo_change *fake_change(const luo_step_request *q, const luo_change **list,
                                            int32_t *n, int32_t i, double until_s)
{
    while (i == *n && !fake.told_once && q->ahead && q->ahead->whole_s < until_s) {
        luo_err err = {0};
        const luo_change *c;
        int32_t more;
        ck_assert_msg(q->ahead->more(q->ahead, until_s, &c, &more, &err) == LUO_OK, "%s", err.text);
        luo_change *all = LUO_NEW_N(fake.arena, luo_change, *n + more);
        if (*n > 0) memcpy(all, *list, (size_t)*n * sizeof *all);
        if (more > 0) memcpy(all + *n, c, (size_t)more * sizeof *all);
        *list = all;
        *n += more;
    }
    return i < *n && (*list)[i].at_s < until_s ? &(*list)[i] : NULL;
}

static inline luo_status fake_run(luo_backend_state *b, const luo_step_request *q,
                                  luo_step_result *out, luo_err *err)
{
    (void)b;
    (void)err;
    const luo_plan *p = q->recipe && q->recipe->from ? NULL : fake_plan(q->programs);
    luo_change death = {0};
    const bool dies = fake_dies(q, p, &death);
    double left = p ? 1 : 0;
    const luo_change *list = q->changes;
    int32_t nlist = q->nchanges;
    fake.now_s += fake.gap_s;
    *out = (luo_step_result){.start_s = fake.now_s, .failed_device = -1, .failed_link = -1,
                             .n = q->programs->n};
    fake.runs++;
    if (!p) fake.now_s += fake_moves(q->programs);
    luo_world_copy(fake.world, q->world);
    memset(fake.compute_s, 0, (size_t)fake.cluster->ndevices * sizeof(double));
    memset(fake.predicted_s, 0, (size_t)fake.cluster->ndevices * sizeof(double));
    for (int32_t i = 0; left > 0; i++) {
        if (fake_broken(q->programs, fake.world, &out->failed_device, &out->failed_link)) {
            out->status = LUO_EPEER;
            snprintf(out->text, sizeof out->text, "a device or a link failed");
            break;
        }
        const double whole = fake_seconds(p, fake.world), rest = left * whole;
        const luo_change *change = fake_change(q, &list, &nlist, i, fake.now_s + rest);
        if (dies && (!change || change->at_s > death.at_s)) {
            fake_devices(p, fake.world, (death.at_s - fake.now_s) / whole);
            fake.now_s = death.at_s;
            out->status = LUO_EPEER;
            out->died = true;
            out->failed_device = death.target;
            snprintf(out->text, sizeof out->text, "the process of device %d died", death.target);
            break;
        }
        const double run = change ? fmax(0, change->at_s - fake.now_s) : rest;
        fake_devices(p, fake.world, run / whole);
        left = change ? left - run / whole : 0;
        fake.now_s = change ? fmax(fake.now_s, change->at_s) : fake.now_s + rest;
        if (change) luo_world_apply(fake.world, change);
        if (change && change->hard) out->died = true;
    }
    if (out->died) fake.now_s += fake.notice_s;
    out->end_s = fake.now_s;
    double *compute = LUO_NEW_N(fake.scratch, double, 2 * q->programs->n);
    const bool other = fake.other_machine > 0 && p != fake.plans[0].plan;
    const double machine = other ? fake.other_machine : fake.machine > 0 ? fake.machine : 1;
    for (int32_t i = 0; i < q->programs->n; i++) {
        const int32_t d = q->programs->at[i].device;
        compute[i] = fake.compute_s[d] * machine;
        if (d == 4 && fake.odd_stage > 0) compute[i] *= fake.odd_stage;
        if (fake.overdone > 0 && fake.world->slowdown[d] > 1) compute[i] *= fake.overdone;
        compute[q->programs->n + i] = fake.predicted_s[d];
        fake.parts[i] = (luo_parts){.compute_s = fake.compute_s[d],
                                    .bubble_s = out->end_s - out->start_s - fake.compute_s[d]};
    }
    fake.parts[q->programs->n - 1].bubble_s -= fake.untold_s;
    memcpy(fake.compute_s, compute, (size_t)q->programs->n * sizeof *compute);
    memcpy(fake.predicted_s, compute + q->programs->n, (size_t)q->programs->n * sizeof *compute);
    luo_arena_reset(fake.scratch, 0);
    out->parts = fake.parts;
    out->compute_s = fake.compute_s;
    out->predicted_s = fake.predicted_s;
    return LUO_OK;
}

static inline void fake_note(const char *what, int64_t step)
{
    if (fake.asked.len) luo_str_add(&fake.asked, "; ");
    luo_str_add(&fake.asked, what);
    if (step >= 0) luo_str_addf(&fake.asked, " %lld", (long long)step);
}

static const luo_passed fake_passed = {"ckpt/step-new", "it is damaged."};

/* A step needs state that has seen all steps before it, laid out for its plan. */
static inline luo_status fake_data_run(luo_backend_state *b, const luo_step_request *q,
                                       luo_step_result *out, luo_err *err)
{
    ck_assert_ptr_nonnull(q->recipe);
    ck_assert(fake.processes);
    const bool move = q->recipe->from != NULL;
    const uint64_t plan = luo_plan_hash(q->recipe->plan);
    if (move) fake_note("move", -1);
    ck_assert_int_eq(fake.state_step, q->step);
    ck_assert(fake.state_plan == (move ? luo_plan_hash(q->recipe->from) : plan));
    LUO_TRY(fake_run(b, q, out, err));
    static int64_t memory[64];
    for (int32_t i = 0; i < q->programs->n; i++) memory[i] = 1000 + q->programs->at[i].device;
    out->memory_bytes = memory;
    out->has_loss = !move;
    out->loss = 10.0 / (double)(q->step + 1);
    if (out->died) {
        fake.processes = false;
        fake.state_step = -1;
    } else if (out->status == LUO_OK) {
        fake.state_step += !move;
        fake.state_plan = plan;
    }
    return LUO_OK;
}

static inline luo_status fake_state(luo_backend_state *b, const luo_state_request *q, int64_t *step,
                                    luo_err *err)
{
    static const char *const names[] = {"init", "load", "save", "bind"};
    (void)b;
    int64_t found = -1;
    fake.now_s += fake.state_s;
    for (int32_t i = 0; i < fake.nsaved; i++)
        if (fake.saved[i] <= q->step && fake.saved[i] > found && fake.saved[i] != fake.broken)
            found = fake.saved[i];
    fake_note(names[q->action], q->action == LUO_STATE_SAVE   ? q->step
                              : q->action == LUO_STATE_LOAD ? found
                                                          : -1);
    if (q->action == LUO_STATE_BIND)
        return fake.bind_fails ? luo_err_set(err, fake.bind_fails, "no room for them") : LUO_OK;
    if (q->action == LUO_STATE_SAVE) {
        if (!fake.processes) return luo_err_set(err, LUO_EPEER, "nobody is there");
        ck_assert_int_eq(fake.state_step, q->step);
        fake.saved[fake.nsaved++] = q->step;
        return LUO_OK;
    }
    int32_t *dies = q->action == LUO_STATE_LOAD ? &fake.dies_loading : &fake.dies_starting;
    if (*dies > 0) {
        --*dies;
        return luo_err_set(err, LUO_EPEER, "a process died while it started");
    }
    if (q->action == LUO_STATE_LOAD && found < 0)
        return luo_err_set(err, LUO_EINPUT, "there is no checkpoint; one is needed.");
    for (int32_t i = 0; i < fake.nsaved && q->action == LUO_STATE_LOAD; i++)
        if (fake.saved[i] == fake.broken && fake.broken > found && fake.broken <= q->step)
            *q->info = (luo_state_info){"ckpt/step-old", 1, &fake_passed};
    fake.processes = true;
    for (int32_t d = 0; d < q->world->ndevices; d++) q->processes[d] |= q->world->up[d];
    fake.state_plan = luo_plan_hash(q->recipe->plan);
    fake.state_step = q->action == LUO_STATE_LOAD ? found : 0;
    *step = fake.state_step;
    return LUO_OK;
}

static inline double fake_now(const luo_backend_state *b)
{
    (void)b;
    return fake.now_s;
}

static inline luo_status fake_sleep(luo_backend_state *b, double at_s)
{
    (void)b;
    ck_assert_double_ge(at_s, fake.now_s);
    fake.now_s = at_s;
    return LUO_OK;
}

static const luo_backend fake_backend = {.name = "fake",
                                         .caps = LUO_CAP_VIRTUAL_TIME | LUO_CAP_LINK_EVENTS |
                                                 LUO_CAP_PARTS,
                                         .open = fake_open,
                                         .close = fake_close,
                                         .run_ranks = fake_run,
                                         .now = fake_now,
                                         .sleep_until = fake_sleep};

static const luo_backend fake_data_backend = {
    .name = "fake",
    .caps = LUO_CAP_VIRTUAL_TIME | LUO_CAP_LINK_EVENTS | LUO_CAP_DATA, .open = fake_open,
    .close = fake_close, .run_ranks = fake_data_run, .state = fake_state, .now = fake_now,
    .sleep_until = fake_sleep};

/* ---- the sink ---- */

static inline luo_status keep_plan(void *ctx, int32_t index, const luo_plan *plan,
                                   const luo_programs *set, luo_err *err)
{
    (void)ctx;
    ck_assert_int_lt(index, FAKE_PLANS);
    ck_assert_int_eq(index, fake.nplans);
    luo_plan *copy; /* rows and what they point to live during the call only */
    LUO_TRY(luo_plan_copy(fake.arena, plan, &copy, err));
    fake.plans[fake.nplans].set = set;
    fake.plans[fake.nplans++].plan = copy;
    return LUO_OK;
}

#define FAKE_KEEP(name, type, array, count)                                   \
    static inline luo_status keep_##name(void *ctx, const type *row, luo_err *err) \
    {                                                                          \
        (void)ctx;                                                             \
        (void)err;                                                             \
        if (fake.quiet) return LUO_OK;                                         \
        ck_assert_int_lt(fake.count, LUO_ROWS(fake.array));                    \
        fake.array[fake.count++] = *row;                                       \
        return LUO_OK;                                                         \
    }
FAKE_KEEP(time, luo_row_timeline, time, ntime)
FAKE_KEEP(step, luo_row_step, steps, nsteps)
FAKE_KEEP(switched, luo_row_switch, switches, nswitches)
FAKE_KEEP(truth, luo_row_truth, truth, ntruth)
FAKE_KEEP(memory, luo_row_memory, memory, nmemory)

static inline luo_status keep_event(void *ctx, const luo_row_event *row, luo_err *err)
{
    (void)ctx;
    (void)err;
    if (fake.quiet) return LUO_OK;
    ck_assert_int_lt(fake.nevents, FAKE_ROWS);
    luo_row_event *e = &fake.events[fake.nevents++];
    *e = *row;
    e->id = luo_arena_strdup(fake.arena, row->id);
    e->target = luo_arena_strdup(fake.arena, row->target);
    e->detail = luo_arena_strdup(fake.arena, row->detail);
    return LUO_OK;
}

static inline luo_status keep_note(void *ctx, const char *text, luo_err *err)
{
    (void)ctx;
    (void)err;
    if (fake.quiet || fake.nnotes == LUO_ROWS(fake.notes)) return LUO_OK;
    fake.notes[fake.nnotes++] = luo_arena_strdup(fake.arena, text);
    return LUO_OK;
}

static inline luo_status keep_told(void *ctx, const char *text, luo_err *err)
{
    (void)ctx;
    (void)err;
    if (fake.quiet || fake.ntold == LUO_ROWS(fake.info)) return LUO_OK;
    fake.info[fake.ntold++] = luo_arena_strdup(fake.arena, text);
    return LUO_OK;
}

static inline luo_status keep_device(void *ctx, const luo_row_device *row, luo_err *err)
{
    (void)ctx;
    (void)err;
    if (row->device >= 64) return LUO_OK;
    fake.up_s[row->device] = row->up_s;
    fake.used_s[row->device] = row->used_s;
    fake.mean_slowdown[row->device] = row->mean_slowdown;
    fake.caused_slowdown[row->device] = row->caused_slowdown;
    return LUO_OK;
}

static inline luo_status keep_summary(void *ctx, const luo_run_summary *s, luo_err *err)
{
    (void)ctx;
    (void)err;
    fake.summary = *s;
    fake.range_sd = s->range ? s->range->sd : 0;
    fake.nnever = s->nnever;
    fake.nassumptions = s->nassumptions < 64 ? s->nassumptions : 64;
    for (int32_t i = 0; i < fake.nassumptions; i++)
        fake.assumptions[i] = luo_arena_strdup(fake.arena, s->assumptions[i]);
    fake.nwarnings = s->nwarnings;
    return LUO_OK;
}

static const luo_sink fake_sink = {.step = keep_step, .timeline = keep_time, .event = keep_event,
                                   .note = keep_note, .tell = keep_told, .memory = keep_memory,
                                   .plan = keep_plan, .switched = keep_switched,
                                   .truth = keep_truth, .device = keep_device,
                                   .summary = keep_summary};

static inline void fake_reset(void)
{
    if (fake.arena) luo_arena_free(fake.arena);
    if (fake.scratch) luo_arena_free(fake.scratch);
    luo_str_free(&fake.asked);
    memset(&fake, 0, sizeof fake);
    fake.arena = luo_arena_new(1 << 16);
    fake.scratch = luo_arena_new(1 << 16);
}
#endif
