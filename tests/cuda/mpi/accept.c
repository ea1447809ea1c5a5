/* accept.c: plans on the cuda executor train like one device on host: some rows of
 * tests/mpi/accept.h, switches there and back, drained steps, raw annotations, and checkpoints that
 * wander between host and GPUs. f32 within 1e-4; bf16 beside the host's f32 within 5 % of the
 * largest value of each tensor (bound_of). Run by `mpirun -n 8`. */
#include <stdlib.h>
#include <unistd.h>

#include "core/plan/replan/reroute.h"
#include "exec/cuda/executor.h"
#include "exec/cuda/job.h"
#include "exec/state/checkpoint.h"
#include "tests/mpi/accept.h"
#include "tests/mpi/drain.h"
#include "tests/mpi/raw.h"

/* Of tests/mpi/accept.h, the first ones always, the others under LUO_SCALE: cut by all means,
 * pipelines, ZeRO-1, uneven shares, chunks, lengths, recompute, buckets. */
enum { FIRST = 2 };
static const int f32_rows[] = {31, 11, 67, 3, 17, 26, 47, 51, 63, 65, 68, 69};
static const int bf16_rows[] = {24, 28, 66, 5, 35, 52, 64, 71};

/* ZeRO-2 and 3: gathers and cuts inside the tasks. Without LUO_SCALE each row has one precision, in
 * turn, and so has a row of split_rows. */
static const row shard_rows[] = {
    {.line = "2: [0,1]*2 || 2: [2]*2", .model = LLAMA, .zero = 3, .sp = 1},
    {.line = "2: [0]*3 || 2: [1]*3", .model = GPT, .zero = 3, .recompute = 2, .tied = true},
    {.line = "3: [0]*2 [1]*1 || 3: [2]*2 [3]*1", .model = LLAMA, .zero = 2, .mib = 0.01},
    {.line = "2: [0]*2 || 2: [1]*2 || 2: [2]*2 || 2: [3]*2", .model = LLAMA, .zero = 3,
     .sharding = {.kind = LUO_SHARD_HYBRID, .pipelines = 2}},
};

/* Backward cut in two: kept longer, gathered again, buckets behind it. */
static const row split_rows[] = {
    {.line = "5: [0]*1 [1]*1 [2]*1 [3]*1", .model = GPT, .recompute = 2, .tied = true, .order = 2},
    {.line = "4: [0,1]*1 [2,3]*1 || 3: [4,5]*1 [6,7]*1", .model = LLAMA, .zero = 1, .sp = 1,
     .order = 2, .mib = 25},
};

static int groups_of(const luo_exec *x)
{
    return (int)gpu_comms_count(x->comms);
}

/* The models are small: state travels in pieces that are smaller yet. */
static luo_status open_small(const luo_rank_config *config, luo_exec **out, luo_err *err)
{
    LUO_TRY(luo_cuda_executor.open(config, out, err));
    (*out)->window = 1000;
    return LUO_OK;
}

/* ---- checkpoints ---- */

typedef struct station { /* where a run goes on */
    const luo_rank_executor *executor;
    const char *line;
    int zero;
    luo_dtype dtype;
} station;

/* Goes on from the checkpoint of the station before, does a step and writes the next one. */
static void travel(luo_lab *lab, const station *s, const char *dir, int64_t step, curve *c)
{
    luo_arena *a = luo_arena_new(1 << 20);
    const row r = {.line = s->line, .model = LLAMA, .zero = s->zero};
    const luo_plan *p = plan_of(a, &r, s->dtype);
    const luo_model model = model_of(LLAMA, p->layers);
    luo_err err = {0};
    luo_gather gather;
    char path[256];
    lab->executor = s->executor;
    luo_exec *x = luo_lab_executor(lab, &model, s->dtype);
    luo_trial t = luo_lab_bind(a, lab, x, p, &model);
    luo_state *state = luo_trial_take(&t, false);
    snprintf(path, sizeof path, "%s/step-%06d", dir, (int)step);
    if (step == 0)
        luo_state_init(state, &model, 5);
    else if (luo_checkpoint_load(state, &model, path, (luo_share){.ranks = 1}, &err) != LUO_OK)
        luo_lab_die("load", &err);
    luo_trial_put(&t, true);
    train(&t, c, step, 1);
    state = luo_trial_take(&t, true);
    state->step = step + 1; /* also of ranks beside the plan */
    if (t.executor->gather(x, &gather) != LUO_OK ||
        luo_checkpoint_save(state, &model, dir, 7, "data", 1, 0, &gather, &err) != LUO_OK)
        luo_lab_die("save", &err);
    luo_trial_put(&t, false);
    MPI_Barrier(MPI_COMM_WORLD);
    t.executor->unbind(t.job);
    t.executor->close(x);
    luo_arena_free(a);
}

/* Host, GPUs and host again, each under another plan, beside one device of the host. */
static bool run_journey(luo_lab *lab, const char *dir, luo_dtype dtype)
{
    const luo_rank_executor *tested = lab->executor;
    const station way[] = {{&luo_host_executor, "6: [0,1]*2", 0, LUO_F32},
                           {tested, "3: [0]*1 [1]*1 || 3: [2,3]*2", 1, dtype},
                           {tested, "3: [0,1]:(3,1)*2 || 3: [2]*2", 3, dtype},
                           {&luo_host_executor, "3: [0]*2 || 3: [1]*2", 2, LUO_F32}};
    luo_arena *a = luo_arena_new(1 << 20);
    const row r = {.line = way[0].line, .model = LLAMA};
    const luo_plan *p = plan_of(a, &r, LUO_F32);
    const luo_model model = model_of(LLAMA, p->layers);
    curve c, ref;
    worst w = {0, ""};
    for (int k = 0; k < 4; k++) travel(lab, &way[k], dir, k, &c);
    lab->executor = tested;
    luo_trial one = refer(a, lab, NULL, p, &model);
    luo_trial_init(&one, &model, 5);
    train(&one, &ref, 0, 4);
    for (int k = 0; k < 4; k++) {
        const double e = far(c.loss[k], ref.loss[k]);
        if (e <= w.error) continue;
        w.error = e;
        snprintf(w.name, sizeof w.name, "loss %.9g (%.9g) of step %d", c.loss[k], ref.loss[k], k);
    }
    close_reference(lab, &one);
    luo_arena_free(a);
    return judge(lab, "checkpoints", luo_dtype_name(dtype), w, bound_of(dtype));
}

static bool run_journeys(luo_lab *lab, bool all)
{
    char dir[] = "/tmp/luoshu-accept-XXXXXX", command[80];
    bool good = true;
    if (lab->rank == 0 && !mkdtemp(dir)) {
        const luo_err e = {.text = "no folder in /tmp"};
        luo_lab_die("accept", &e);
    }
    MPI_Bcast(dir, sizeof dir, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (all) good &= run_journey(lab, dir, LUO_F32);
    MPI_Barrier(MPI_COMM_WORLD);
    good &= run_journey(lab, dir, LUO_BF16);
    MPI_Barrier(MPI_COMM_WORLD);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    if (lab->rank == 0 && system(command) != 0) printf("%s was not removed\n", dir);
    return good;
}

/* ---- all of it ---- */

typedef struct tally {
    luo_lab *lab;
    bool all; /* LUO_SCALE: also what takes long */
    int checks, failed;
} tally;

static void count(tally *t, bool good)
{
    t->checks++;
    t->failed += !good;
}

/* The largest differences so far, which were within their bounds or have been told. */
static void say(const tally *t, const char *what)
{
    if (t->lab->rank == 0) printf("%s: largest difference %.2g\n", what, largest_error);
    largest_error = 0;
}

static void run_rows(tally *t, const int *at, int n, luo_dtype dtype)
{
    const char *only = getenv("LUO_ROW");
    for (int i = 0; i < (t->all ? n : FIRST); i++)
        if (!only || atoi(only) == at[i]) count(t, run_row(t->lab, &rows[at[i]], dtype));
    say(t, luo_dtype_name(dtype));
}

/* Among them what rows do not name, and so orders of issue. */
static void run_random(tally *t)
{
    const uint64_t cases = luo_prop_few(3, 12) * luo_prop_env("LUO_SCALE", 1);
    for (uint64_t k = 0; k < cases; k++) {
        char line[256];
        row r;
        luo_rng rng = luo_rng_seed(luo_prop_first() + k);
        random_row(&rng, &r, line, sizeof line, k % 4 == 3);
        count(t, run_row(t->lab, &r, LUO_F32));
    }
    say(t, "random plans");
}

static void run_shards(tally *t)
{
    for (size_t i = 0; i < sizeof shard_rows / sizeof *shard_rows; i++) {
        if (t->all || i % 2) count(t, run_row(t->lab, &shard_rows[i], LUO_F32));
        if (t->all || i % 2 == 0) count(t, run_row(t->lab, &shard_rows[i], LUO_BF16));
    }
    say(t, "ZeRO-2 and 3");
}

static void run_split(tally *t)
{
    for (size_t i = 0; i < sizeof split_rows / sizeof *split_rows; i++) {
        if (t->all || i % 2) count(t, run_row(t->lab, &split_rows[i], LUO_F32));
        if (t->all || i % 2 == 0) count(t, run_row(t->lab, &split_rows[i], LUO_BF16));
    }
    say(t, "backward cut in two");
}

static void run_given_up(tally *t)
{
    int given_up = 0;
    count(t, run_drain(t->lab, 4, LUO_BF16, false));
    if (!t->all) return;
    count(t, run_drain(t->lab, 2, LUO_F32, true));
    count(t, run_infinite(t->lab, LUO_BF16, true));
    count(t, run_bells(t->lab, 6, LUO_F32, true, &given_up));
    if (t->lab->rank == 0) printf("%d of 6 steps given up\n", given_up);
}

/* Stages without devices: of the table, and of the head; whole backward parts, and split ones of
 * staggered steps. */
static void run_lost(tally *t)
{
    static const row r = {.line = "3: [0]*1 [1]*2 || 2: [2]*1 [3]*2 || 2: [4]*1 [5]*2",
                          .model = LLAMA, .zero = 1, .mib = 25};
    static const int lost[] = {0, 3};
    for (int k = 0; k < 2; k++) {
        luo_arena *a = luo_arena_new(1 << 20);
        luo_plan *base = plan_of(a, &r, k ? LUO_BF16 : LUO_F32);
        const luo_plan *p = NULL;
        bool usable[8] = {true, true, true, true, true, true, true, true};
        luo_err err = {0};
        usable[lost[k]] = false;
        base->staggered = k;
        if (k) base->schedule = LUO_SCHED_ZB_H1;
        if (luo_plan_reroute(a, base, usable, &p, &err) != LUO_OK) luo_lab_die("reroute", &err);
        count(t, run_plan(a, t->lab, &r, p));
    }
    say(t, "lost stages");
}

static void run_all(tally *t)
{
    int ran = 0;
    run_rows(t, f32_rows, (int)(sizeof f32_rows / sizeof *f32_rows), LUO_F32);
    run_rows(t, bf16_rows, (int)(sizeof bf16_rows / sizeof *bf16_rows), LUO_BF16);
    run_random(t);
    run_split(t);
    run_shards(t);
    run_lost(t);
    count(t, run_switch(t->lab, &switches[2], LUO_BF16, groups_of));
    if (t->all) count(t, run_switch(t->lab, &switches[1], LUO_F32, groups_of));
    say(t, "switches");
    count(t, run_journeys(t->lab, t->all));
    run_given_up(t);
    say(t, "checkpoints");
    count(t, run_raw(t->lab, 2805, LUO_F32, &ran));
    if (t->all) count(t, run_raw(t->lab, 3490, LUO_BF16, &ran));
    count(t, ran == 1 + t->all); /* they are not refused */
}

int main(int argc, char **argv)
{
    luo_lab lab;
    luo_lab_open(&lab, &argc, &argv);
    tally t = {.lab = &lab, .all = luo_prop_whole()};
    luo_rank_executor tested = luo_cuda_executor;
    tested.open = open_small;
    lab.executor = &tested;
    luo_lab_need(&lab, "accept", 8);
    run_all(&t);
    if (lab.rank == 0)
        printf("%d%%: Checks: %d, Failures: %d, Errors: 0\n",
               100 * (t.checks - t.failed) / t.checks, t.checks, t.failed);
    luo_lab_close(&lab);
    return t.failed > 0;
}
