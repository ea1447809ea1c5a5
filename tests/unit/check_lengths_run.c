/* check_lengths_run.c: runs under policies for uneven lengths, on the simulator; their parts. */
#include "core/io/read/read.h"
#include "core/run/lengths/batches.h"
#include "core/run/lengths/lengths_run.h"
#include "core/run/lengths/planning.h"
#include "core/run/lengths/result_sum.h"
#include "core/run/lengths/traffic.h"
#include "core/run/run.h"
#include "sim/sim.h"
#include "tests/driver_fixture.h"

static const luo_lengths uneven = {
    .kind = LUO_LENGTH_LOGNORMAL, .median = 60, .sigma = 1, .low = 8, .high = 128};

/* ---- planning ahead ---- */

/* Steps of 1 s whose plans take 1.5 s, ten steps ahead. */
START_TEST(plans_ahead)
{
    static const double start[] = {7.5, 5.5};
    luo_planning p;
    double at = 0, now = 0;
    arena = luo_arena_new(0);
    ck_assert_int_eq(luo_planning_open(arena, 1.5, 1 + _i, 10, &p, NULL), LUO_OK);
    for (int64_t step = 0; step <= 4; step++) {
        at = fmax(now, luo_planning_ready(&p, step, now));
        luo_planning_began(&p, step, at);
        now = at + 1;
    }
    ck_assert_double_eq_tol(at, start[_i], 1e-12);
    luo_arena_free(arena);
    arena = NULL;
}
END_TEST

START_TEST(plans_not_ahead)
{
    luo_planning p;
    arena = luo_arena_new(0);
    ck_assert_int_eq(luo_planning_open(arena, 1.5, 2, 0, &p, NULL), LUO_OK);
    for (int64_t step = 0; step < 4; step++)
        ck_assert_double_eq(luo_planning_ready(&p, step, 10.0 * (double)step),
                            10.0 * (double)step + 1.5);
    /* three steps ahead: step 3 may be planned when step 0 begins */
    ck_assert_int_eq(luo_planning_open(arena, 1, 8, 3, &p, NULL), LUO_OK);
    for (int64_t step = 0; step < 3; step++) {
        ck_assert_double_eq(luo_planning_ready(&p, step, 5), 1);
        luo_planning_began(&p, step, 5 + (double)step);
    }
    ck_assert_double_eq(luo_planning_ready(&p, 3, 8), 6);
    ck_assert_double_eq(luo_planning_ready(&p, 4, 8), 7);
    luo_arena_free(arena);
    arena = NULL;
}
END_TEST

/* Plans that were made are of no use from 20 s on; those of later steps begin then, in order. */
START_TEST(plans_are_thrown_away)
{
    luo_planning p;
    arena = luo_arena_new(0);
    ck_assert_int_eq(luo_planning_open(arena, 1.5, 2, 10, &p, NULL), LUO_OK);
    for (int64_t step = 0; step < 5; step++) {
        luo_planning_ready(&p, step, 4.0 * (double)step);
        luo_planning_began(&p, step, 4.0 * (double)step);
    }
    luo_planning_restart(&p, 5, 20);
    ck_assert_double_eq(luo_planning_ready(&p, 5, 20), 21.5);
    luo_planning_began(&p, 5, 21.5);
    ck_assert_double_eq(luo_planning_ready(&p, 6, 22), 21.5);
    luo_planning_began(&p, 6, 22);
    ck_assert_double_eq(luo_planning_ready(&p, 7, 23), 23);
    luo_planning_restart(&p, 0, 30); /* the run goes back */
    ck_assert_double_eq(luo_planning_ready(&p, 2, 90), 31.5);
    luo_arena_free(arena);
    arena = NULL;
}
END_TEST

/* ---- batches ---- */

typedef struct drawn {
    int64_t *length;
    int32_t n;
} drawn;

static drawn draw(luo_batches *b, int64_t step, int64_t tokens)
{
    drawn d;
    luo_err err = {0};
    ck_assert_msg(luo_batches_draw(arena, b, step, tokens, &d.length, &d.n, &err) == LUO_OK, "%s",
                  err.text);
    return d;
}

static bool alike(drawn a, drawn b)
{
    return a.n == b.n && memcmp(a.length, b.length, (size_t)a.n * sizeof *a.length) == 0;
}

/* Cut to fit, kept for the next batch, and a number of sequences. */
START_TEST(batches_come_again)
{
    const luo_batch_rule rule = {.tokens = _i < 2 ? 2048 : 0, .sequences = _i < 2 ? 0 : 30,
                                 .most = 128, .keeps_last = _i == 1};
    luo_batches b, other;
    drawn d[8];
    arena = luo_arena_new(0);
    luo_batches_open(&uneven, &rule, 100000, 7, &b);
    luo_batches_open(&uneven, &rule, 100000, 7, &other);
    for (int k = 0; k < 8; k++) d[k] = draw(&b, k, 0);
    for (int k = 0; k < 8; k++) {
        int64_t sum = 0;
        for (int32_t i = 0; i < d[k].n; i++) sum += d[k].length[i];
        if (_i == 0) ck_assert(sum > 2048 - 8 && sum <= 2048);
        if (_i == 1) ck_assert_int_le(sum, 2048);
        if (_i == 2) ck_assert_int_eq(d[k].n, 30);
        if (k > 0) ck_assert(!alike(d[k], d[k - 1]));
    }
    for (int k = 7; k >= 0; k--) ck_assert(alike(draw(&b, k, 0), d[k])); /* back */
    ck_assert(alike(draw(&other, 6, 0), d[6]));                           /* on the way */
    luo_batches_forget(&b, 5);
    ck_assert_int_eq(b.first, 5);
    ck_assert(alike(draw(&b, 5, 0), d[5]));
    luo_batches_forget(&b, 3); /* before: nothing to forget */
    ck_assert_int_eq(b.first, 5);
    for (int k = 2; k < 8; k++) ck_assert(alike(draw(&b, k, 0), d[k])); /* back to the start */
    luo_batches_free(&b);
    luo_batches_free(&other);
    luo_arena_free(arena);
    arena = NULL;
}
END_TEST

/* An event makes all sequences of some steps alike; the others are what they are without it. */
START_TEST(batches_of_an_event)
{
    const luo_batch_rule rule = {.tokens = 2048, .most = 128, .keeps_last = _i == 1};
    luo_batches b, other;
    arena = luo_arena_new(0);
    luo_batches_open(&uneven, &rule, 100000, 7, &b);
    luo_batches_open(&uneven, &rule, 100000, 7, &other);
    for (int k = 0; k < 6; k++) {
        const drawn plain = draw(&other, k, 0), d = draw(&b, k, k == 2 || k == 3 ? 64 : 0);
        if (k != 2 && k != 3) {
            ck_assert(alike(d, plain));
            continue;
        }
        ck_assert_int_eq(d.n, 32);
        for (int32_t i = 0; i < d.n; i++) ck_assert_int_eq(d.length[i], 64);
        ck_assert(alike(draw(&b, k, 0), plain));
    }
    luo_batches_free(&b);
    luo_batches_free(&other);
    luo_arena_free(arena);
    arena = NULL;
}
END_TEST

/* ---- sums ---- */

START_TEST(results_are_added)
{
    luo_parts parts[2] = {{.compute_s = 1, .tp_s = 2, .bubble_s = 3}, {.compute_s = 4}};
    double compute[2] = {1, 4}, predicted[2] = {0.5, 4};
    int64_t few[2] = {10, 40}, many[2] = {30, 20};
    luo_link_use links[1] = {{10, 20, 1, 2}};
    const luo_step_result one = {.start_s = 5,
                                 .end_s = 11,
                                 .reused = true,
                                 .n = 2,
                                 .parts = parts,
                                 .memory_bytes = few,
                                 .has_loss = true,
                                 .loss = 1.5,
                                 .grad_norm = 7,
                                 .compute_s = compute,
                                 .predicted_s = predicted,
                                 .nlinks = 1,
                                 .links = links,
                                 .failed_device = -1,
                                 .failed_link = -1};
    luo_step_result two = one, three = one;
    luo_err err = {0};
    arena = luo_arena_new(0);
    luo_result_sum sum = {.arena = arena};
    two.start_s = 11.25; /* another plan took its place meanwhile */
    two.end_s = 12;
    two.memory_bytes = many;
    two.loss = 2;
    two.grad_norm = 9;
    two.reused = false;
    ck_assert_int_eq(luo_result_add(&sum, &one, &err), LUO_OK);
    ck_assert(sum.result.reused);
    ck_assert_int_eq(luo_result_add(&sum, &two, &err), LUO_OK);
    const luo_step_result *r = &sum.result;
    ck_assert_double_eq(r->start_s, 5);
    ck_assert_double_eq(r->end_s, 12);
    ck_assert(!r->reused);
    ck_assert_int_eq(r->status, LUO_OK);
    ck_assert_int_eq(r->n, 2);
    ck_assert_double_eq(r->parts[0].tp_s, 4);
    ck_assert_double_eq(r->parts[1].compute_s, 8);
    ck_assert_double_eq(r->compute_s[1], 8);
    ck_assert_double_eq(r->predicted_s[0], 1);
    ck_assert(r->parts[0].move_s == 0.25 && r->parts[1].move_s == 0.25);
    ck_assert(r->memory_bytes[0] == 30 && r->memory_bytes[1] == 40);
    ck_assert(r->has_loss && r->loss == 3.5 && r->grad_norm == 9);
    ck_assert_double_eq(r->links[0].bytes_down, 40);
    ck_assert_double_eq(r->links[0].busy_up_s, 2);
    ck_assert_double_eq(parts[0].tp_s, 2); /* what was added stays as it is */
    three.n = 1;
    ck_assert_int_eq(luo_result_add(&sum, &three, &err), LUO_EBUG);
    luo_arena_free(arena);
    arena = NULL;
}
END_TEST

/* Two program sets number the same groups and exchanges otherwise. */
START_TEST(traffic_is_added_by_who_it_is)
{
    static const int32_t pair[] = {0, 1}, other[] = {2, 3}, way[] = {0, 2}, back[] = {2, 0};
    luo_move to[] = {{.kind = LUO_MOVE_SEND, .ndev = 2, .dev = way}},
             from[] = {{.kind = LUO_MOVE_SEND, .ndev = 2, .dev = back}};
    const luo_resolution there = {.moves = {.n = 1, .at = to}},
                         here = {.moves = {.n = 1, .at = from}};
    const luo_group a[] = {{2, pair, LUO_STREAM_TP}, {2, other, LUO_STREAM_TP}},
                    b[] = {{2, other, LUO_STREAM_TP}, {2, pair, LUO_STREAM_TP}};
    const luo_exchange x[] = {
        {.resolution = &there}, {.resolution = &here}, {.resolution = &there}};
    const luo_programs first = {.ngroups = 2, .groups = a, .nexchanges = 3, .exchanges = x},
                       second = {.ngroups = 2, .groups = b, .nexchanges = 1, .exchanges = x + 1};
    const luo_comm_use one[] = {{.group = 0, .exchange = -1, .stream = LUO_STREAM_TP, .devices = 2,
                                 .calls = 3, .bytes = 30, .busy_s = 1},
                                {.group = -1, .exchange = 0, .stream = LUO_STREAM_PP, .devices = 2,
                                 .calls = 1, .bytes = 7},
                                {.group = -1, .exchange = 1, .stream = LUO_STREAM_PP, .devices = 2,
                                 .calls = 1, .bytes = 8},
                                {.group = -1, .exchange = 2, .stream = LUO_STREAM_PP, .devices = 2,
                                 .calls = 1, .bytes = 9}},
                       two[] = {{.group = 1, .exchange = -1, .stream = LUO_STREAM_TP, .devices = 2,
                                 .calls = 2, .bytes = 20, .busy_s = 1, .exposed_s = 0.5},
                                {.group = 0, .exchange = -1, .stream = LUO_STREAM_TP, .devices = 2,
                                 .calls = 1, .bytes = 5},
                                {.group = 1, .exchange = -1, .coll = 1, .stream = LUO_STREAM_TP,
                                 .devices = 2, .calls = 1, .bytes = 6},
                                {.group = -1, .exchange = 0, .stream = LUO_STREAM_PP, .devices = 2,
                                 .calls = 1, .bytes = 100}};
    static const int64_t bytes[] = {50, 16, 108, 5, 6};
    luo_err err = {0};
    arena = luo_arena_new(0);
    luo_traffic t = {.arena = arena};
    ck_assert_int_eq(luo_traffic_add(&t, &first, one, LUO_ROWS(one), &err), LUO_OK);
    ck_assert_int_eq(t.n, 3); /* messages of all tensors between the same devices are one row */
    ck_assert_int_eq(luo_traffic_add(&t, &second, two, LUO_ROWS(two), &err), LUO_OK);
    ck_assert_int_eq(t.n, LUO_ROWS(bytes));
    for (int i = 0; i < LUO_ROWS(bytes); i++) ck_assert_int_eq(t.use[i].bytes, bytes[i]);
    ck_assert_int_eq(t.use[0].calls, 5);
    ck_assert_double_eq(t.use[0].busy_s, 2);
    ck_assert_double_eq(t.use[0].exposed_s, 0.5);
    ck_assert_int_eq(t.set.groups[t.use[0].group].dev[1], 1);
    ck_assert_int_eq(t.set.groups[t.use[3].group].dev[1], 3);
    ck_assert_int_eq(t.set.exchanges[t.use[2].exchange].resolution->moves.at[0].dev[0], 2);
    luo_traffic_free(&t);
    luo_arena_free(arena);
    arena = NULL;
}
END_TEST

/* ---- what a step teaches ---- */

/* A step of 0.5 s on devices 2 and 5 that the pool thought to take 420 ms; device 2 is known to be
 * three times as slow as its type. More than a tenth slower than known is news, and the step then
 * says nothing of its plan. */
START_TEST(steps_as_known_teach)
{
    static const struct {
        double compute[2]; /* of 1 s and 2 s */
        int32_t plan;      /* -1: of no candidate */
        bool simulated, learns;
    } rows[] = {
        {{1, 2}, 0, false, true},    {{3, 2}, 0, false, true},    {{3.2, 2.1}, 0, false, true},
        {{3.4, 2}, 0, false, false}, {{3, 2.3}, 0, false, false}, {{1, 2}, -1, false, false},
        {{1, 2}, 0, true, false},
    };
    int32_t setup[] = {1, 2, 4, 5}, dev[] = {2, 5};
    double rate[] = {9, 3, 9, 1}, extra[] = {0}, predicted[] = {1, 2}, compute[2];
    bool known[] = {false}, staged[] = {false}, barred[] = {false};
    luo_used_plan used = {.ndev = 2, .dev = dev}, *list[] = {&used};
    const luo_policy_spec simulated = {.judged = LUO_JUDGED_SIMULATED},
                          objective = {.judged = LUO_JUDGED_OBJECTIVE};
    memcpy(compute, rows[_i].compute, sizeof compute);
    luo_length_choice choice = {
        .learned = {.n = 1, .extra_ms = extra, .known = known, .barred = barred, .staged = staged}};
    luo_run_lengths x = {.orders = {.in = {.devices = setup, .ndevices = 4}, .rate = rate},
                         .current = -2,
                         .plans = {.step = {.plan = rows[_i].plan}, .ms = 420},
                         .chosen = &choice};
    x.orders.order = LUO_JOINT_SLOW_LAST;
    x.orders.first_ms = 400;
    luo_run run = {.lengths = &x, .plans = {.list = list, .n = 1}};
    run.job.spec = rows[_i].simulated ? &simulated : &objective;
    run.decision.judge.simulator = &luo_sim_backend;
    const luo_step_result result = {.n = 2, .compute_s = compute, .predicted_s = predicted};
    luo_run_lengths_learn(&run, &result, 0.5);
    ck_assert_int_eq(x.current, rows[_i].plan);
    ck_assert_int_eq(known[0], rows[_i].learns);
    ck_assert_double_eq_tol(extra[0], rows[_i].learns ? 80 : 0, 1e-9);
    /* of its order: where plans are simulated, too */
    const luo_order_seen *seen = &x.orders.seen[LUO_JOINT_SLOW_LAST];
    ck_assert_int_eq(seen->n, rows[_i].learns || rows[_i].simulated);
    ck_assert_double_eq_tol(seen->ratio[0], seen->n ? 1.25 : 0, 1e-12);
}
END_TEST

/* ---- runs ---- */

enum { ROWS = 1 << 14 };
static luo_row_assignment row[ROWS];
static int32_t nrows;
static luo_model small;

static luo_status keep_row(void *ctx, const luo_row_assignment *r, luo_err *err)
{
    (void)ctx;
    (void)err;
    ck_assert_int_lt(nrows, ROWS);
    row[nrows++] = *r;
    return LUO_OK;
}

static void prepare_lengths(const char *policy, int64_t steps, int32_t nevents)
{
    prepare(policy, steps, nevents);
    luo_read_policy_defaults(&spec, policy);
    small = model;
    small.layers = 4;
    small.hidden = 256;
    sc.model = &small;
    sc.plan = NULL;
    sc.lengths = &uneven;
    sc.batch_tokens = 2048;
    sc.truncate_last = true;
    sc.detect_fail_s = 1;
    sc.process_start_s = 1;
    opts.backend = &luo_sim_backend;
    nrows = 0;
}

static void run_lengths(void)
{
    luo_sink sink = fake_sink;
    luo_err err = {0};
    sink.assignment = keep_row;
    ck_assert_msg(luo_run_policy(&sc, 0, &opts, &sink, &err) == LUO_OK, "%s", err.text);
    ck_assert_int_eq(fake.summary.state, LUO_COMPLETE);
}

/* The rows of one attempt of a step: from *at on, which goes behind them. */
static const luo_row_assignment *next_step(int32_t *at, int32_t *n)
{
    const luo_row_assignment *first = &row[*at];
    for (*n = 0; *at < nrows && row[*at].step == first->step &&
                 (*n == 0 || row[*at].sequence != first->sequence);
         ++*at)
        ++*n;
    return first;
}

/* most: tokens of a micro-batch; 0: not known. */
static void check_rows(int32_t attempts, int64_t most)
{
    const int32_t limit = 512;
    int32_t at = 0, n, k = 0;
    for (; at < nrows; k++) {
        const luo_row_assignment *r = next_step(&at, &n);
        bool seen[512] = {0};
        int64_t tokens = 0;
        ck_assert_int_lt(k, fake.nsteps);
        ck_assert_int_eq(r->step, fake.steps[k].step);
        ck_assert_int_eq(n, fake.steps[k].sequences);
        for (int32_t i = 0; i < n; i++) {
            int64_t sum = 0;
            int32_t with = 0;
            ck_assert_int_lt(r[i].sequence, n);
            ck_assert_int_lt(n, limit);
            ck_assert(!seen[r[i].sequence]);
            seen[r[i].sequence] = true;
            tokens += r[i].length_tokens;
            for (int32_t j = 0; j < n; j++) {
                if (r[j].pipeline != r[i].pipeline) continue;
                if (r[j].micro_batch != r[i].micro_batch) continue;
                ck_assert(j == i || r[j].position != r[i].position);
                sum += r[j].length_tokens;
                with++;
            }
            ck_assert_int_lt(r[i].position, with);
            if (most > 0) ck_assert_int_le(sum, most);
        }
        ck_assert_int_eq(tokens, fake.steps[k].tokens);
        ck_assert(tokens > 2048 - 8 && tokens <= 2048);
    }
    ck_assert_int_eq(k, attempts);
    ck_assert_int_eq(fake.nsteps, attempts);
}

static uint64_t bytes_of_run(void)
{
    uint64_t h = LUO_HASH_EMPTY;
    for (int32_t i = 0; i < nrows; i++) {
        const int64_t all[] = {row[i].step, row[i].sequence, row[i].length_tokens, row[i].pipeline,
                               row[i].micro_batch, row[i].position};
        h = luo_hash_bytes(h, all, sizeof all);
    }
    for (int32_t i = 0; i < fake.nsteps; i++) {
        const double all[] = {fake.steps[i].start_s, fake.steps[i].end_s, fake.steps[i].parts.tp_s};
        h = luo_hash_bytes(h, all, sizeof all);
    }
    return h;
}

static const struct {
    const char *name;
    int64_t most;
} policies[] = {{"padding", 128},   {"pack_static", 128}, {"pack_dynamic", 128},
                {"uniform_best", 0}, {"hotspa", 0},        {"one_plan", 0},
                {"hydraulis", 0}};

START_TEST(every_sequence_once)
{
    uint64_t first = 0;
    double total = 0;
    for (int again = 0; again < 2; again++) {
        prepare_lengths(policies[_i].name, 4, 0);
        spec.planner_s = 0.001;
        run_lengths();
        check_rows(4, policies[_i].most);
        if (!again) first = bytes_of_run();
        if (!again) total = fake.summary.total_s;
    }
    ck_assert(first == bytes_of_run());
    ck_assert(total == fake.summary.total_s);
    ck_assert(fake.summary.kept_tokens > 4 * (2048 - 8) && fake.summary.kept_tokens <= 4 * 2048);
    ck_assert_int_eq(fake.summary.switches + fake.summary.restarts, 0);
    bool told = false;
    for (int32_t i = 0; i < fake.nassumptions; i++)
        told |= strcmp(fake.assumptions[i], "lengths of sequences: lognormal, synthetic") == 0;
    ck_assert(told);
}
END_TEST

/* Rooms from too small to plenty. What the pool thinks has room and the plan has not is found out
 * when the plan is bound: a run ends well wherever a strategy has room. */
START_TEST(plans_find_room)
{
    enum { ROOMS = 10 };
    static const char *const names[] = {"hydraulis", "one_plan", "hotspa"};
    int32_t whole = 0;
    for (int k = 0; k < ROOMS; k++) {
        luo_err err = {0};
        prepare_lengths(names[_i], 6, 0);
        luo_profile profile = *sc.cluster->groups[0].profile;
        profile.memory_bytes = profile.reserved_bytes + 15e6 * pow(1.05, k);
        sc.cluster->groups[0].profile = &profile;
        spec.planner_s = 0.001;
        const luo_status st = luo_run_policy(&sc, 0, &opts, &fake_sink, &err);
        const bool held = st == LUO_OK && fake.nsteps == 6;
        ck_assert_msg(held || (st == LUO_EINFEASIBLE && fake.nsteps == 0), "%s, room %d: %s",
                      names[_i], k, err.text);
        whole += held;
    }
    ck_assert_int_gt(whole, ROOMS / 2);
    ck_assert_int_lt(whole, ROOMS);
}
END_TEST

static luo_status no_trace(void *ctx, int64_t step, int32_t attempt, double start_s, int32_t plan,
                           const luo_programs *set, const luo_step_result *result, luo_err *err)
{
    (void)ctx, (void)step, (void)attempt, (void)start_s, (void)plan, (void)set, (void)result;
    (void)err;
    return LUO_OK;
}

/* Steps that may run in parts are not traced then, which is said; nothing is of others. */
START_TEST(steps_in_parts_are_not_traced)
{
    const bool parts = strcmp(policies[_i].name, "hotspa") == 0;
    luo_sink sink = fake_sink;
    luo_err err = {0};
    sink.ops = no_trace;
    prepare_lengths(policies[_i].name, 2, 0);
    spec.planner_s = 0.001;
    opts.trace.kind = LUO_TRACE_ALL;
    ck_assert_msg(luo_run_policy(&sc, 0, &opts, &sink, &err) == LUO_OK, "%s", err.text);
    ck_assert_int_eq(fake.nwarnings, parts);
}
END_TEST

/* Backends that train and do not sum gradients over programs are told from those that do. */
START_TEST(steps_in_parts_need_a_backend)
{
    luo_err err = {0};
    prepare_lengths("hotspa", 2, 0);
    opts.backend = &fake_data_backend;
    const luo_status st = luo_run_policy(&sc, 0, &opts, &fake_sink, &err);
    opts.backend = &fake_backend;
    ck_assert_int_eq(st, LUO_EINPUT);
    ck_assert_str_eq(err.text, "policy `hotspa` runs a step in parts, one plan after another, "
                               "which backend `fake` does not.");
}
END_TEST

/* With work, or with optimizer state alone. */
static bool takes_part(const luo_plan *p, int32_t device)
{
    bool keeps = false;
    for (int32_t k = 0; k < p->state_layout.ndev; k++) keeps |= p->state_layout.dev[k] == device;
    return keeps || holds(p, device);
}

/* Plans of 2 s, one worker: a step every 2 s. Device 3 fails while step 6 waits for its plan, comes
 * back after 20 s; checkpoints every 4 steps. */
START_TEST(fails_and_comes_back)
{
    static const char *const names[] = {"uniform_best", "hydraulis"};
    int32_t at = 0, n, redone = 0;
    events[0] = fixture_event("gone", LUO_EVENT_FAIL, "device:3", 11.5, 20);
    prepare_lengths(names[_i], 20, 1);
    spec.planner_s = 2;
    sc.checkpoint.kind = LUO_CHECKPOINT_STEPS;
    sc.checkpoint.every_steps = 4;
    run_lengths();
    ck_assert_int_eq(fake.summary.restarts, 1);
    ck_assert_int_eq(fake.summary.switches, 1);
    ck_assert_str_eq(event_row("restarted", 0)->id, "gone");
    ck_assert_str_eq(fake.switches[0].source, "checkpoint");
    ck_assert_str_eq(fake.switches[1].source, "devices");
    ck_assert_int_gt(fake.switches[1].messages, 0); /* state went to device 3 */
    check_rows(22, 0); /* 4 and 5 are made again */
    const luo_row_assignment *lost[20] = {0};
    int32_t lost_n[20] = {0};
    for (int32_t k = 0; k < fake.nsteps; k++) {
        const luo_row_step *s = &fake.steps[k];
        const luo_row_assignment *r = next_step(&at, &n);
        ck_assert_int_eq(takes_part(fake.plans[s->plan].plan, 3), s->devices_used == 8);
        ck_assert_int_eq(s->devices_used, s->devices_up);
        redone += s->attempt > 0;
        if (!lost[s->step]) {
            lost[s->step] = r;
            lost_n[s->step] = n;
            continue;
        }
        ck_assert_int_eq(s->devices_used, 7);
        ck_assert_int_eq(n, lost_n[s->step]);
        for (int32_t i = 0; i < n; i++) /* the same sequences, dealt anew */
            for (int32_t j = 0; j < n; j++)
                if (r[i].sequence == lost[s->step][j].sequence)
                    ck_assert_int_eq(r[i].length_tokens, lost[s->step][j].length_tokens);
    }
    ck_assert_int_eq(redone, 2);
    ck_assert_int_eq(fake.steps[fake.nsteps - 1].devices_used, 8);
}
END_TEST

/* A node loses its disk with the checkpoint on it: back to the start, past batches forgotten. */
START_TEST(back_to_the_start)
{
    events[0] = fixture_event("gone", LUO_EVENT_FAIL, "node:g0-1", 0.016, 0);
    prepare_lengths("uniform_best", 8, 1);
    spec.planner_s = 0.001;
    sc.checkpoint.kind = LUO_CHECKPOINT_STEPS;
    sc.checkpoint.every_steps = 2;
    sc.checkpoint.target = LUO_TARGET_DISK;
    run_lengths();
    ck_assert_int_eq(fake.summary.restarts, 1);
    const int32_t before = fake.nsteps - 8;
    ck_assert_int_gt(before, 2);
    ck_assert_int_eq(fake.steps[before].step, 0);
    ck_assert_int_eq(fake.steps[before].attempt, 1);
    check_rows(fake.nsteps, 0);
    int32_t at = 0, n[2];
    const luo_row_assignment *first = next_step(&at, &n[0]), *again = NULL;
    while (at < nrows && !again) {
        const luo_row_assignment *r = next_step(&at, &n[1]);
        if (r->step == 0) again = r;
    }
    ck_assert_ptr_nonnull(again);
    ck_assert_int_eq(n[0], n[1]);
    int64_t sum[2] = {0};
    for (int32_t i = 0; i < n[0]; i++) {
        sum[0] += first[i].length_tokens * (first[i].sequence + 1);
        sum[1] += again[i].length_tokens * (again[i].sequence + 1);
    }
    ck_assert_int_eq(sum[0], sum[1]);
}
END_TEST

/* ---- a process that dies between two parts of a step ---- */

static struct parted {
    int32_t requests, dies_at, parts_most;
    bool in_move; /* it died in one */
} parted;

/* As fake_data_run, for steps in parts: the state has seen a step when its last part is done; the
 * process of device 7 dies in request `dies_at`. */
static luo_status parted_run(luo_backend_state *b, const luo_step_request *q, luo_step_result *out,
                             luo_err *err)
{
    const bool move = q->recipe->from != NULL, dies = parted.requests++ == parted.dies_at;
    ck_assert(fake.processes);
    ck_assert_int_eq(fake.state_step, q->step);
    parted.parts_most = q->part.n > parted.parts_most ? q->part.n : parted.parts_most;
    LUO_TRY(fake_run(b, q, out, err));
    if (!dies) {
        fake.state_step += !move && luo_step_part_is_last(&q->part);
        return LUO_OK;
    }
    parted.in_move = move;
    fake.processes = false;
    out->status = LUO_EPEER;
    out->died = true;
    out->failed_device = 7;
    snprintf(out->text, sizeof out->text, "the process of device 7 died");
    return LUO_OK;
}

/* Memory holds the long sequences on several devices alone, so a step may take several parts. */
static void run_parted(int32_t dies_at)
{
    static const luo_lengths long_tail = {
        .kind = LUO_LENGTH_LOGNORMAL, .median = 60, .sigma = 1.5, .low = 8, .high = 4096};
    luo_backend backend = fake_data_backend;
    luo_err err = {0};
    events[0] = fixture_event("back", LUO_EVENT_JOIN, "device:7", 1000, 0);
    prepare_lengths("hotspa", 4, 1);
    small.max_sequence_tokens = 4096;
    small.hidden = 1024;
    small.ffn_hidden = 3072;
    sc.lengths = &long_tail;
    sc.batch_tokens = 16384;
    ((luo_profile *)sc.cluster->groups[0].profile)->memory_bytes = 2400e6;
    sc.checkpoint.kind = LUO_CHECKPOINT_STEPS;
    sc.checkpoint.every_steps = 1;
    sc.checkpoint.blocking = true;
    ((luo_cluster *)sc.cluster)->storage_write_bytes_per_s = 0;
    spec.planner_s = spec.lengths.switch_ms = 0;
    backend.caps |= LUO_CAP_PARTS;
    backend.run_ranks = parted_run;
    opts.backend = &backend;
    opts.max_restarts = 1;
    opts.checkpoints = "out/hotspa/checkpoints";
    parted = (struct parted){.dies_at = dies_at};
    const luo_status st = luo_run_policy(&sc, 0, &opts, &fake_sink, &err);
    opts.backend = &fake_backend;
    ck_assert_msg(st == LUO_OK, "death in request %d: %s", dies_at, err.text);
    ck_assert_int_eq(fake.summary.state, LUO_COMPLETE);
    ck_assert_int_eq(fake.summary.kept_tokens, 4 * 16384);
    ck_assert_int_eq(fake.summary.restarts, dies_at >= 0);
}

/* In whatever part of whatever step, or move between two of them: the step begins again with its
 * first part, of the last checkpoint. */
START_TEST(death_between_parts)
{
    int32_t in_moves = 0, in_parts = 0;
    run_parted(-1);
    ck_assert_int_gt(parted.parts_most, 1);
    const int32_t all = parted.requests;
    for (int32_t k = 0; k < all; k++) {
        run_parted(k);
        ck_assert_int_gt(parted.requests, all);
        in_moves += parted.in_move;
        in_parts += !parted.in_move;
    }
    ck_assert_int_gt(in_moves, 4);
    ck_assert_int_gt(in_parts, 4);
}
END_TEST

/* Tokens of the last step on the replica that has device 1, which is three times slower. */
static int64_t tokens_of_slow(luo_length_stragglers stragglers, double *step_s)
{
    int64_t tokens = 0;
    events[0] = fixture_event("slow", LUO_EVENT_STRAGGLER, "device:1", 0.001, 0);
    events[0].slowdown = 3;
    prepare_lengths("uniform_best", 16, 1);
    spec.planner_s = 0;
    spec.lengths.stragglers = stragglers;
    run_lengths();
    check_rows(16, 0);
    ck_assert_str_eq(event_row("detected", 0)->id, "slow");
    ck_assert_int_eq(fake.summary.switches + fake.summary.restarts, 0);
    ck_assert_int_eq(fake.summary.detect_false, 0);
    const luo_plan *p = fake.plans[fake.steps[15].plan].plan;
    for (int32_t i = 0; i < p->npipelines; i++)
        for (int32_t s = 0; s < p->pipelines[i].nstages; s++)
            for (int32_t k = 0; k < p->pipelines[i].stages[s].ndev; k++)
                for (int32_t j = 0; j < nrows && p->pipelines[i].stages[s].dev[k] == 1; j++)
                    if (row[j].step == 15 && row[j].pipeline == i) tokens += row[j].length_tokens;
    *step_s = last_step();
    return tokens;
}

START_TEST(slow_devices_are_given_less)
{
    double none_s, dispatch_s;
    const int64_t none = tokens_of_slow(LUO_STRAGGLERS_NONE, &none_s);
    const int64_t dispatch = tokens_of_slow(LUO_STRAGGLERS_DISPATCH, &dispatch_s);
    ck_assert_int_gt(none, 0);
    ck_assert_int_lt(2 * dispatch, none);
    ck_assert_double_lt(dispatch_s, none_s);
}
END_TEST

LUO_SUITE("run.lengths", LUO_T_N(plans_ahead, 2), LUO_T(plans_not_ahead),
          LUO_T(plans_are_thrown_away), LUO_T_N(batches_come_again, 3),
          LUO_T_N(batches_of_an_event, 2), LUO_T(results_are_added),
          LUO_T(traffic_is_added_by_who_it_is), LUO_T_N(steps_as_known_teach, 7),
          LUO_T_N(plans_find_room, 3), LUO_T_N(every_sequence_once, LUO_ROWS(policies)),
          LUO_T_N(steps_in_parts_are_not_traced, LUO_ROWS(policies)),
          LUO_T(steps_in_parts_need_a_backend), LUO_T(death_between_parts),
          LUO_T_N(fails_and_comes_back, 2), LUO_T(back_to_the_start),
          LUO_T(slow_devices_are_given_less))
