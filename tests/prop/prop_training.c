/* prop_training.c: who averages with whom in a scenario, beside the same controllers in
 * simulated time (`luoshu sync`), and AD-PSGD with workers that leave and come back beside
 * its rule, tried at every instant. LUO_SEED=n LUO_CASES=1 plays one case again. */
#include "core/base/rng.h"
#include "core/sync/loop.h"
#include "tests/prop/prop.h"
#include "tests/training_fixture.h"

/* ---- groups ---- */

enum { GROUPS = 4096 };
typedef struct kept { /* groups by their number */
    int32_t n;
    struct {
        double t_s;
        uint32_t members;
        bool guard;
    } at[GROUPS];
} kept;

static luo_status keep_group(void *ctx, int64_t id, const luo_preduce_group *group, luo_err *err)
{
    kept *k = ctx;
    (void)err;
    ck_assert_int_eq(id, k->n);
    ck_assert_int_lt(k->n, GROUPS);
    k->at[k->n].t_s = group->t_s;
    k->at[k->n].guard = group->guard;
    k->at[k->n].members = 0;
    for (int32_t i = 0; i < group->n; i++) k->at[k->n].members |= 1u << group->member[i];
    k->n++;
    return LUO_OK;
}

static kept ours, theirs;

static luo_status keep_ours(void *ctx, int64_t id, const luo_preduce_group *group, luo_err *err)
{
    (void)ctx;
    return keep_group(&ours, id, group, err);
}

typedef struct setting {
    luo_training_mode mode;
    int32_t n;
    double slowdown[4];
    luo_preduce_opts preduce;
    double request_s;
} setting;

/* In eighths of a second, so that sums are exact and ties are ties. */
static setting draw(luo_rng *r)
{
    static const luo_training_mode modes[] = {LUO_TRAINING_PREDUCE, LUO_TRAINING_PREDUCE,
                                              LUO_TRAINING_ADPSGD, LUO_TRAINING_ALLREDUCE};
    setting s = {.mode = modes[luo_rng_pick(r, 4)], .n = 1 + (int32_t)luo_rng_pick(r, 4)};
    for (int32_t w = 0; w < s.n; w++) s.slowdown[w] = 1 + (double)luo_rng_pick(r, 17) / 8;
    s.preduce = (luo_preduce_opts){.workers = s.n,
                                   .max_group = 1 + (int32_t)luo_rng_pick(r, s.n),
                                   .wait_s = (double)luo_rng_pick(r, 5) / 8,
                                   .guard = (int32_t)luo_rng_pick(r, 4),
                                   .adaptive = luo_rng_pick(r, 2) == 0,
                                   .wait_max_s = .75,
                                   .wait_min_s = .125};
    s.request_s = s.mode == LUO_TRAINING_PREDUCE ? (double)luo_rng_pick(r, 4) / 8 : 0;
    return s;
}

/* Workers on nodes of their own; sums take 1/4 s a member but one. */
static void train(const setting *s)
{
    static const int32_t dev[] = {0, 2, 4, 6};
    static const char *const name[] = {"device:0", "device:2", "device:4", "device:6"};
    luo_err err = {0};
    luo_sink sink = fake_sink;
    for (int32_t w = 0; w < s->n; w++) {
        events[w] = fixture_event(name[w], LUO_EVENT_STRAGGLER, name[w], 0, 0);
        events[w].slowdown = s->slowdown[w];
    }
    workers(s->mode, dev, s->n, 40, s->n);
    ring_s = .125;
    spec.training.max_group = s->preduce.max_group;
    spec.training.guard = s->preduce.guard;
    spec.training.wait_s = s->preduce.wait_s;
    spec.training.adaptive = s->preduce.adaptive;
    spec.training.wait_max_s = s->preduce.wait_max_s;
    spec.training.wait_min_s = s->preduce.wait_min_s;
    spec.training.request_s = s->request_s;
    sink.group = keep_ours;
    ours.n = 0;
    ck_assert_msg(luo_run_policy(&sc, 0, &opts, &sink, &err) == LUO_OK, "%s", err.text);
}

static void loop(const setting *s, double horizon_s)
{
    luo_err err = {0};
    luo_loop_summary summary;
    const luo_loop_opts o = {.mode = s->mode == LUO_TRAINING_PREDUCE  ? LUO_LOOP_PREDUCE
                                     : s->mode == LUO_TRAINING_ADPSGD ? LUO_LOOP_ADPSGD
                                                                      : LUO_LOOP_ALLREDUCE,
                             .workers = s->n,
                             .compute_s = s->slowdown,
                             .seed = sc.seed,
                             .horizon_s = horizon_s,
                             .sync_s = NAN,
                             .net = {.125, 1},
                             .preduce = s->preduce,
                             .request_s = s->request_s,
                             .sink = {.group = keep_group, .ctx = &theirs}};
    theirs.n = 0;
    ck_assert_msg(luo_loop_run(arena, &o, &summary, &err) == LUO_OK, "%s", err.text);
}

/* What begins late may end after the horizon, which loops do not tell. */
static int32_t compare(double horizon_s, uint64_t seed)
{
    int32_t i = 0;
    for (; i < ours.n && ours.at[i].t_s < horizon_s - 1; i++)
        ck_assert_msg(i < theirs.n && ours.at[i].members == theirs.at[i].members &&
                          ours.at[i].guard == theirs.at[i].guard &&
                          fabs(ours.at[i].t_s - theirs.at[i].t_s) < 1e-9,
                      "LUO_SEED=%llu: group %d is %x at %.9g, of `sync` %x at %.9g",
                      (unsigned long long)seed, i, ours.at[i].members, ours.at[i].t_s,
                      i < theirs.n ? theirs.at[i].members : 0,
                      i < theirs.n ? theirs.at[i].t_s : -1);
    return i;
}

START_TEST(groups_of_sync)
{
    int32_t partial = 0, asked_for = 0;
    LUO_PROP_FOR(seed, 200)
    {
        luo_rng r = luo_rng_stream(seed, "training.groups");
        const setting s = draw(&r);
        train(&s);
        loop(&s, fake.summary.total_s);
        const int32_t n = compare(fake.summary.total_s, seed);
        ck_assert_int_gt(n, 10);
        partial += s.mode == LUO_TRAINING_PREDUCE && s.preduce.max_group < s.n;
        asked_for += s.request_s > 0;
    }
    printf("groups: %d with partial groups, %d with requests\n", partial, asked_for);
}
END_TEST

/* ---- pairs that leave and come back ---- */

typedef struct pair_worker {
    bool gone, waits, exchanges;
    int64_t turn, from; /* its step; the first that it takes part in */
    int32_t with;       /* exchanges: the other, or itself */
    double until_s;     /* of its computation or exchange */
    double compute_s;
} pair_worker;

typedef struct change {
    double t_s;
    int32_t worker;
    bool back;
} change;

typedef struct pairs {
    pair_worker at[8];
    double ends_s[2048];
    int32_t n;
} pairs;

static void begin(pairs *p, int32_t w, double t_s)
{
    p->at[w].waits = p->at[w].exchanges = false;
    p->at[w].until_s = t_s + p->at[w].compute_s;
}

static int32_t partner_of(int32_t w, int64_t step)
{
    int32_t shuffle[8], partner[8];
    luo_adpsgd_pairs(8, sc.seed, step, shuffle, partner);
    return partner[w];
}

/* Whoever waits looks whether the partner is there, or will never be. */
static void look(pairs *p, double t_s)
{
    for (int32_t w = 0; w < 8; w++) {
        pair_worker *x = &p->at[w];
        if (!x->waits) continue;
        int32_t v = partner_of(w, x->turn);
        if (p->at[v].gone || x->turn < p->at[v].from) v = w;
        if (v != w && !(p->at[v].waits && p->at[v].turn == x->turn)) continue;
        const double takes_s = v == w ? 0 : v / 2 == w / 2 ? .1 : .5;
        const int32_t both[] = {w, v};
        for (int i = 0; i < 2; i++) {
            p->at[both[i]].waits = false;
            p->at[both[i]].exchanges = true;
            p->at[both[i]].with = both[1 - i];
            p->at[both[i]].until_s = t_s + takes_s;
        }
    }
}

/* Its partner has nobody to exchange with: that is over. */
static void go(pairs *p, int32_t w, double t_s)
{
    pair_worker *x = &p->at[w];
    if (x->exchanges && x->with != w) {
        p->at[x->with].until_s = t_s;
        p->at[x->with].with = x->with;
    }
    x->gone = true;
    x->waits = x->exchanges = false;
    x->until_s = INFINITY;
}

static void come(pairs *p, int32_t w, double t_s)
{
    int64_t last = -1;
    for (int32_t v = 0; v < 8; v++)
        if (!p->at[v].gone && p->at[v].turn > last) last = p->at[v].turn;
    p->at[w].gone = false;
    p->at[w].turn = p->at[w].from = last + 1;
    begin(p, w, t_s);
}

static void end_one(pairs *p, int32_t w)
{
    pair_worker *x = &p->at[w];
    const double t_s = x->until_s;
    if (x->exchanges) {
        p->ends_s[p->n++] = t_s;
        x->turn++;
        begin(p, w, t_s);
    } else {
        x->waits = true;
        x->until_s = INFINITY;
    }
    look(p, t_s);
}

static void twin(pairs *p, const change *changes, int32_t nchanges, int32_t iterations)
{
    int32_t k = 0;
    for (int32_t w = 0; w < 8; w++) begin(p, w, 0);
    while (p->n < iterations) {
        int32_t first = 0;
        for (int32_t w = 1; w < 8; w++)
            if (p->at[w].until_s < p->at[first].until_s) first = w;
        if (k < nchanges && changes[k].t_s < p->at[first].until_s) {
            const change *c = &changes[k++];
            if (c->back)
                come(p, c->worker, c->t_s);
            else
                go(p, c->worker, c->t_s);
            look(p, c->t_s);
        } else {
            end_one(p, first);
        }
    }
}

/* Two workers leave at random times, and come back after others. */
static int32_t draw_changes(luo_rng *r, change *out)
{
    const int32_t n = (int32_t)luo_rng_pick(r, 3), first = (int32_t)luo_rng_pick(r, 8);
    int32_t count = 0;
    for (int32_t i = 0; i < n; i++) {
        const double gone_s = .1 + 20 * luo_rng_u(r);
        const int32_t w = (first + i * 3) % 8;
        out[count++] = (change){gone_s, w, false};
        if (luo_rng_pick(r, 4)) out[count++] = (change){gone_s + .1 + 8 * luo_rng_u(r), w, true};
    }
    for (int32_t i = 1; i < count; i++)
        for (int32_t k = i; k > 0 && out[k].t_s < out[k - 1].t_s; k--) {
            const change c = out[k];
            out[k] = out[k - 1];
            out[k - 1] = c;
        }
    return count;
}

START_TEST(pairs_of_any_case)
{
    enum { STEPS = 30 };
    static const char *const name[] = {"device:0", "device:1", "device:2", "device:3",
                                       "device:4", "device:5", "device:6", "device:7"};
    static const char *const id[] = {"a", "b", "c", "d"}, *const slow[] = {"s0", "s1", "s2"};
    int32_t left = 0, back = 0;
    LUO_PROP_FOR(seed, 200)
    {
        luo_rng r = luo_rng_stream(seed, "training.pairs");
        change changes[4];
        pairs p = {0};
        const int32_t n = draw_changes(&r, changes);
        for (int32_t i = 0; i < n; i++) {
            events[i] = fixture_event(id[i], changes[i].back ? LUO_EVENT_JOIN : LUO_EVENT_FAIL,
                                      name[changes[i].worker], changes[i].t_s, 0);
            left += !changes[i].back;
            back += changes[i].back;
        }
        for (int32_t w = 0; w < 8; w++) p.at[w].compute_s = 1;
        for (int32_t i = 0; i < 3; i++) { /* slow ones, of any speed; no two are one */
            const int32_t w = (5 * i + (int32_t)(seed % 8)) % 8;
            p.at[w].compute_s = 1 + 2 * luo_rng_u(&r);
            events[n + i] = fixture_event(slow[i], LUO_EVENT_STRAGGLER, name[w], 0, 0);
            events[n + i].slowdown = p.at[w].compute_s;
        }
        workers(LUO_TRAINING_ADPSGD, eight, 8, STEPS, n + 3);
        twin(&p, changes, n, 8 * STEPS);
        run_ok();
        for (int32_t s = 0; s < STEPS; s++)
            ck_assert_msg(fabs(fake.steps[s].end_s - p.ends_s[8 * s + 7]) < 1e-9,
                          "LUO_SEED=%llu: step %d ends at %.9g, by the rule at %.9g",
                          (unsigned long long)seed, s, fake.steps[s].end_s, p.ends_s[8 * s + 7]);
    }
    printf("pairs: %d left, %d came back\n", left, back);
}
END_TEST

LUO_SUITE("run.training_twins", LUO_T(groups_of_sync), LUO_T(pairs_of_any_case))
