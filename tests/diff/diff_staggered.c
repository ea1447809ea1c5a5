/* Steps without a barrier between them (optimizer_step: staggered) in the simulator, against a slow
 * twin that walks the tasks of many steps in a row, one pass over all of them after another. */
#include "core/cost/cost.h"
#include "tests/prop/prop.h"
#include "tests/sim_programs.h"

#define TIGHT 1e-6
enum { PIPES = 3, STAGES = 4, STEPS = 40, TOLD = 2, FROM = 20 }; /* TOLD: counts from 0 */

/* Pipelines of one node: stage s sums its gradients over them, updates, and takes part in the norm
 * of all, which nothing in the step waits for. */
typedef struct scene {
    pipeline pipe[PIPES]; /* stages, kinds and hops alike; times and micro-batches their own */
    double f[PIPES][STAGES], b[PIPES][STAGES], w[PIPES][STAGES];
    int32_t npipes;
    double sum_s[STAGES], update_s[STAGES], norm_s;
    bool overlap; /* dp_overlap: the twin is the same, since nothing is gathered or begins early */
    const luo_task *task[PIPES][STAGES];
    int32_t ntask[PIPES][STAGES];
} scene;

static double times(luo_rng *rng)
{
    return 0.25 + 0.25 * (double)luo_rng_pick(rng, 8);
}

static void draw(luo_rng *rng, scene *x)
{
    const luo_sched_kind kinds[] = {LUO_SCHED_1F1B, LUO_SCHED_GPIPE, LUO_SCHED_ZB_H1,
                                    LUO_SCHED_ZB_H2, LUO_SCHED_ZB_H2};
    const int32_t S = 1 + (int32_t)luo_rng_pick(rng, STAGES);
    const luo_sched_kind kind = kinds[luo_rng_pick(rng, 5)];
    const double hop = luo_rng_pick(rng, 2) ? 0.1 * luo_rng_u(rng) : 0;
    const bool even = luo_rng_pick(rng, 2);
    *x = (scene){.npipes = 1 + (int32_t)luo_rng_pick(rng, PIPES)};
    x->norm_s = x->npipes * S > 1 ? 0.5 * luo_rng_u(rng) : 0;
    if (x->norm_s > 0 && luo_rng_pick(rng, 6) == 0) x->norm_s = 40; /* longer than a step */
    for (int32_t s = 0; s < S; s++) {
        x->sum_s[s] = x->npipes > 1 ? 2 * luo_rng_u(rng) : 0;
        x->update_s[s] = times(rng);
    }
    for (int32_t p = 0; p < x->npipes; p++) {
        for (int32_t s = 0; s < S; s++) {
            x->f[p][s] = even ? 1 : times(rng);
            x->b[p][s] = even ? 1 : times(rng);
            x->w[p][s] = even ? 1 : times(rng);
        }
        x->pipe[p] = (pipeline){.kind = kind, .S = S, .m = 1 + (int32_t)luo_rng_pick(rng, 9),
                                .v = 1, .forward = x->f[p], .backward = x->b[p],
                                .weight = x->w[p], .hop_s = hop};
    }
    x->overlap = luo_rng_pick(rng, 2);
}

/* ---- as programs ---- */

static int64_t bytes_of(double seconds, int32_t n)
{
    return llround(seconds * 100e9 / luo_cost_volume(LUO_COLL_AR, n));
}

/* The part of stage s in the norm. Programs have it before the update, which does not wait for it:
 * with dp_overlap off a call begins behind all that stands before it. */
static void write_norm(rig *r, const scene *x, int32_t role, int32_t sum)
{
    const int32_t all = x->npipes * x->pipe[0].S;
    if (all == 1) return;
    const int32_t norm = rig_collective(r, role, LUO_STREAM_DP, LUO_COLL_AR,
                                        bytes_of(x->norm_s, all), 4000);
    luo_instr *in = (luo_instr *)&r->set.roles[role].instr[norm];
    in->lane = LUO_DP_LANES - 1;
    in->beside = true;
    rig_after(r, role, norm, sum);
}

/* Behind the tasks of stage s: its sum, its part in the norm, its update. */
static void write_post(rig *r, const scene *x, int32_t role, int32_t s)
{
    const int32_t before = r->set.roles[role].ninstr - 1;
    int32_t sum = before; /* if nothing is summed: the last that computes */
    while (r->set.roles[role].instr[sum].stream != LUO_STREAM_COMPUTE) sum--;
    rig_segment(r, role, LUO_PHASE_POST, 0);
    if (x->npipes > 1) {
        sum = rig_collective(r, role, LUO_STREAM_DP, LUO_COLL_AR,
                             bytes_of(x->sum_s[s], x->npipes), 3000 + s);
        for (int32_t i = 0; i <= before; i++)
            if (r->set.roles[role].instr[i].stream == LUO_STREAM_COMPUTE)
                rig_after(r, role, sum, i);
    }
    write_norm(r, x, role, sum);
    rig_after(r, role, rig_work(r, role, x->update_s[s]), sum);
}

static void write_device(rig *r, const scene *x, int32_t p, int32_t s, const int32_t *sums,
                         int32_t norm)
{
    const pipeline *pipe = &x->pipe[p];
    const int32_t d = p * pipe->S + s;
    rig_device(r, d, d, p, s);
    for (int32_t i = 0; i < x->ntask[p][s]; i++)
        rig_task(r, d, task_part(&x->task[p][s][i]), x->task[p][s][i].micro_batch);
    rig_task(r, d, luo_sched_phases(pipe->kind), -1);
    for (int32_t i = 0; i < r->set.roles[d].ninstr; i++) {
        const luo_instr *in = &r->set.roles[d].instr[i];
        if (in->kind == LUO_INSTR_COLLECTIVE) rig_join(r, d, i, in->beside ? norm : sums[s]);
        if (in->kind != LUO_INSTR_P2P) continue;
        const bool send = in->bytes > 0, up = send == (in->exchange < BACKWARD_EXCHANGE);
        rig_message(r, d, i, d + (up ? 1 : -1), send, 1);
    }
}

static rig *scene_rig(scene *x)
{
    const int32_t S = x->pipe[0].S, n = x->npipes * S;
    int32_t sums[STAGES], dev[PIPES * STAGES];
    rig *r = rig_new(&(rig_shape){.devices_per_node = n, .p2p_s = x->pipe[0].hop_s});
    r->set.schedule = x->pipe[0].kind;
    r->set.staggered = true;
    r->stack.dp_overlap = x->overlap;
    r->config.comm = LUO_COMM_MODEL;
    for (int32_t d = 0; d < n; d++) {
        pipeline_role(r, &x->pipe[d / S], d % S);
        write_post(r, x, d, d % S);
    }
    for (int32_t s = 0; s < S; s++) {
        for (int32_t p = 0; p < x->npipes; p++) dev[p] = p * S + s;
        sums[s] = x->npipes > 1 ? rig_group(r, LUO_STREAM_DP, x->npipes, dev) : -1;
    }
    for (int32_t d = 0; d < n; d++) dev[d] = d;
    const int32_t norm = n > 1 ? rig_group(r, LUO_STREAM_DP, n, dev) : -1;
    for (int32_t p = 0; p < x->npipes; p++)
        for (int32_t s = 0; s < S; s++) {
            rig_check(r, luo_sched_make(r->arena, x->pipe[p].kind, S, s, x->pipe[p].m, 1,
                                        &x->task[p][s], &x->ntask[p][s], &r->err));
            write_device(r, x, p, s, sums, norm);
        }
    return r;
}

/* ---- the twin ---- */

/* When a task's input is there; < 0: not yet. at[phase][stage][micro-batch]: ends, < 0: not run. */
static double input_of(const pipeline *p, double at[3][STAGES][16], int32_t s, const luo_task *t)
{
    const int32_t i = t->micro_batch, last = p->S - 1;
    const int part = task_part(t);
    double from;
    if (part == 2) return at[1][s][i];
    if (part == 0 && s == 0) return 0;
    if (part == 1 && s == last) return at[0][s][i];
    from = part == 0 ? at[0][s - 1][i] : at[1][s + 1][i];
    return from < 0 ? from : from + p->hop_s;
}

/* One step of pipeline p; free[s]: from when the stage is free, becomes when it is done. */
static void walk(const scene *x, int32_t p, double *free)
{
    const pipeline *pipe = &x->pipe[p];
    double at[3][STAGES][16];
    int32_t pos[STAGES] = {0};
    bool moved = true;
    for (int k = 0; k < 3; k++)
        for (int s = 0; s < STAGES; s++)
            for (int i = 0; i < 16; i++) at[k][s][i] = -1;
    while (moved) {
        moved = false;
        for (int32_t s = 0; s < pipe->S; s++) {
            const luo_task *t = &x->task[p][s][pos[s]];
            if (pos[s] == x->ntask[p][s] || input_of(pipe, at, s, t) < 0) continue;
            const double *const takes[3] = {pipe->forward, pipe->backward, pipe->weight};
            free[s] = fmax(free[s], input_of(pipe, at, s, t)) + takes[task_part(t)][s];
            at[task_part(t)][s][t->micro_batch] = free[s];
            pos[s]++;
            moved = true;
        }
    }
    for (int32_t s = 0; s < pipe->S; s++) ck_assert_int_eq(pos[s], x->ntask[p][s]);
}

/* When each of STEPS steps is done everywhere. */
static void twin(const scene *x, double *done)
{
    const int32_t S = x->pipe[0].S;
    double free[PIPES][STAGES] = {{0}}, norm = 0;
    for (int k = 0; k < STEPS; k++) {
        double last = norm, end = 0; /* last: the norm of the step before */
        for (int32_t p = 0; p < x->npipes; p++) walk(x, p, free[p]);
        for (int32_t s = 0; s < S; s++) {
            double sum = 0;
            for (int32_t p = 0; p < x->npipes; p++) sum = fmax(sum, free[p][s]);
            sum += x->sum_s[s];
            norm = fmax(norm, sum);
            for (int32_t p = 0; p < x->npipes; p++)
                free[p][s] = fmax((x->npipes > 1 ? sum : free[p][s]) + x->update_s[s], last);
            end = fmax(end, fmax(sum + x->update_s[s], last));
        }
        norm += x->norm_s;
        done[k] = end;
    }
}

START_TEST(a_step_is_that_of_many_in_a_row)
{
    int steady = 0, all = 0, gains = 0, held = 0;
    double off = 0;
    LUO_PROP_FOR(seed, 80) {
        luo_rng rng = luo_rng_seed(seed);
        scene x;
        double done[STEPS];
        char what[96];
        draw(&rng, &x);
        rig *r = scene_rig(&x);
        snprintf(what, sizeof what, "seed %d: %s, %d x %d, norm %g, dp_overlap %d", (int)seed,
                 luo_sched_name(x.pipe[0].kind), x.npipes, x.pipe[0].S, x.norm_s, x.overlap);
        const luo_step_result s = rig_step(r);
        const double got = rig_seconds(&s);
        twin(&x, done);
        rig_near(got, done[TOLD] - done[TOLD - 1], TIGHT, what);
        const double mean = (done[STEPS - 1] - done[FROM]) / (STEPS - 1 - FROM);
        off = fmax(off, fabs(got / mean - 1));
        steady += fabs(got / mean - 1) < TIGHT;
        gains += got < done[0] * (1 - 1e-3);
        held += x.norm_s > 30;
        all++;
        rig_free(r);
    }
    printf("%d of %d steps are steady, the others off by %.2g at most; %d gain, %d wait for the "
           "norm\n", steady, all, off, gains, held);
    ck_assert(off < 0.1);
    if (!getenv("LUO_CASES")) ck_assert(steady * 10 > all * 9 && gains > 10 && held > 3);
}
END_TEST

/* ZB-H2 with F = BI = BW has no bubble when nothing holds steps apart; together it has. */
START_TEST(zb_h2_has_no_bubble)
{
    const double ones[STAGES] = {1, 1, 1, 1};
    const pipeline p = {.kind = LUO_SCHED_ZB_H2, .S = 4, .m = 8, .v = 1, .forward = ones,
                        .backward = ones, .weight = ones};
    for (int k = 0; k < 2; k++) {
        rig *r = pipeline_rig(&p);
        r->set.staggered = k;
        rig_near(rig_run(r), k ? 24 : 27, TIGHT, k ? "staggered" : "together");
    }
}
END_TEST

/* Changes are dated from where the step before was done: they end or stretch the step that is told,
 * and one behind its end does nothing. */
START_TEST(changes_fall_into_the_step_that_is_told)
{
    scene x;
    luo_rng rng = luo_rng_seed((uint64_t)_i);
    do draw(&rng, &x);
    while (x.pipe[0].S < 2 || x.norm_s > 30);
    rig *r = scene_rig(&x);
    const luo_step_result calm = rig_step(r);
    const double step = rig_seconds(&calm);
    const luo_change slow = {.at_s = 0, .kind = LUO_CHANGE_SLOWDOWN, .target = 0, .value = 3};
    luo_change late = slow, down = {.at_s = step / 2, .kind = LUO_CHANGE_DOWN, .target = 1};
    late.at_s = step * 1.01;
    luo_step_result s = rig_step_with(r, &late, 1);
    rig_near(rig_seconds(&s), step, TIGHT, "a change behind the step");
    s = rig_step_with(r, &slow, 1);
    double done = 3 * x.update_s[0]; /* all that device 0 computes, three times as long */
    for (int32_t i = 0; i < x.ntask[0][0]; i++)
        done += 3 * (const double[]){x.f[0][0], x.b[0][0],
                                     x.w[0][0]}[task_part(&x.task[0][0][i])];
    const double least = done > 2 * step ? 1.3 * step : step; /* some may have been done before */
    ck_assert_msg(rig_seconds(&s) > least * (1 - TIGHT) && rig_seconds(&s) < step + done,
                  "slow %g, calm %g, device 0 computes %g", rig_seconds(&s), step, done);
    for (r->trace = false;; r->trace = true) { /* known without simulating, and simulated */
        s = rig_step_with(r, &down, 1);
        ck_assert_int_eq(s.status, LUO_EPEER);
        rig_near(rig_seconds(&s), step / 2, TIGHT, "a device fails");
        if (r->trace) break;
    }
    rig_free(r);
}
END_TEST

#define LAYOUT(t, s, p, m, l) \
    .tp = (t), .stages = (s), .pipelines = (p), .micro_batches = (m), .layers = (l)
static const layout layouts[] = {{LAYOUT(2, 1, 2, 2, 1)}, {LAYOUT(1, 2, 2, 3, 2)},
                                 {LAYOUT(4, 2, 2, 4, 2)}, {LAYOUT(2, 4, 3, 6, 2)}};

START_TEST(fidelities_and_folding_agree)
{
    double first = 0;
    for (int k = 0; k < 6; k++) {
        rig *r = step_rig(&layouts[_i]);
        char what[64];
        r->set.staggered = true;
        r->config.comm = (luo_comm_mode)(k / 2);
        r->config.fold = k % 2;
        snprintf(what, sizeof what, "layout %d, mode %d, fold %d", _i, k / 2, k % 2);
        const luo_step_result s = rig_step(r);
        if (k == 0) first = rig_seconds(&s);
        rig_near(rig_seconds(&s), first, 1e-3, what);
        rig_free(r);
    }
}
END_TEST

LUO_SUITE("diff.staggered", LUO_T(a_step_is_that_of_many_in_a_row), LUO_T(zb_h2_has_no_bubble),
          LUO_T_N(changes_fall_into_the_step_that_is_told, 12),
          LUO_T_N(fidelities_and_folding_agree, LUO_ROWS(layouts)))
