/* prop_route.c: every Reshard of the programs of random plans, followed by luo_route_of
 * on all devices at once with real cells: everything lands where the annotations say. */
#include "tests/check_main.h"
#include "tests/exec/wires.h"
#include "tests/plan_random.h"
#include "tests/plan_raw.h"
#include "tests/prop/prop.h"

typedef struct run { /* instructions of one Reshard that stand together on one device */
    int32_t program, first, n;
    int32_t exchange; /* of step 0 */
    bool again;
    int32_t turn; /* earlier runs of the same on this device */
} run;

static plan_tally plans;
static struct {
    int64_t sharded; /* plans of ZeRO-2 */
    int64_t reshards, devices, in_place, again, steps, scratch, enter, leave, max, messages, gpt,
        grouped;
} met;

typedef struct follower {
    luo_arena *a;
    luo_rng *rng;
    const luo_programs *set;
    run *at;
    int32_t n;
    uint64_t seed;
    bool raw;     /* the plan has raw annotations: a result may not fit its buffer */
    bool refused; /* .. and that was said */
} follower;

static void broken(const follower *f, const luo_exchange *x, const char *why)
{
    ck_abort_msg("LUO_SEED=%llu LUO_CASES=1: reshard `%s` (%s -> %s: %s): %s",
                 (unsigned long long)f->seed, f->set->ops[x->op].name, x->src, x->dst,
                 x->resolution->text, why);
}

/* ---- which instructions belong together ---- */

static int32_t zero_of(const follower *f, const luo_instr *i)
{
    return i->exchange < 0 ? -1 : i->exchange - f->set->exchanges[i->exchange].step;
}

static void list_device(follower *f, int32_t p)
{
    const luo_role *r = &f->set->roles[f->set->at[p].role];
    const int32_t mine = f->n;
    for (int32_t s = 0; s < r->nseg; s++) {
        const int32_t end = r->seg[s].first + r->seg[s].n;
        for (int32_t i = r->seg[s].first, n; i < end; i += n) {
            run x = {p, i, 0, zero_of(f, &r->instr[i]), r->instr[i].recompute, 0};
            for (n = 1; i + n < end && zero_of(f, &r->instr[i + n]) == x.exchange &&
                        r->instr[i + n].recompute == x.again;)
                n++;
            if (x.exchange < 0) continue;
            x.n = n;
            for (int32_t k = mine; k < f->n; k++)
                x.turn += f->at[k].exchange == x.exchange && f->at[k].again == x.again;
            f->at[f->n++] = x;
        }
    }
}

static int by_exchange(const void *a, const void *b)
{
    const run *x = a, *y = b;
    if (x->exchange != y->exchange) return x->exchange < y->exchange ? -1 : 1;
    if (x->again != y->again) return x->again ? 1 : -1;
    if (x->turn != y->turn) return x->turn < y->turn ? -1 : 1;
    return x->program - y->program;
}

static void list_runs(follower *f)
{
    int32_t all = 0;
    for (int32_t p = 0; p < f->set->n; p++) all += f->set->roles[f->set->at[p].role].ninstr;
    f->at = LUO_NEW_N(f->a, run, all);
    for (int32_t p = 0; p < f->set->n; p++) list_device(f, p);
    qsort(f->at, (size_t)f->n, sizeof *f->at, by_exchange);
}

/* ---- one Reshard ---- */

typedef struct ends { /* buffers of a device; -1: none */
    int32_t in, out;
} ends;

/* First operand and first result. Instructions that only send or only receive in place name one. */
static ends find_ends(const follower *f, const run *r, const luo_exchange *x)
{
    const luo_program *p = &f->set->at[r->program];
    const luo_role *role = &f->set->roles[p->role];
    ends e = {-1, -1};
    bool copies = false, local = false;
    for (int32_t i = r->first; i < r->first + r->n; i++) {
        if (e.in < 0 && role->instr[i].nin &&
            role->instr[i].exchange == role->instr[r->first].exchange)
            e.in = role->instr[i].in[0];
        if (e.out < 0 && role->instr[i].nout) e.out = role->instr[i].out[0];
        local = local || role->instr[i].kind == LUO_INSTR_LOCAL;
    }
    for (int32_t i = 0; i < x->resolution->moves.n; i++) {
        const luo_move *m = &x->resolution->moves.at[i];
        copies = copies || (m->kind == LUO_MOVE_COPY && m->dev[0] == p->device &&
                            m->step == f->set->exchanges[role->instr[r->first].exchange].step);
    }
    if (copies && !local && e.in < 0) e.in = e.out;
    if (copies && !local && e.out < 0) e.out = e.in;
    return e;
}

static const luo_ann *read_ann(const follower *f, const char *text)
{
    const luo_ann *a = NULL;
    ck_assert_int_eq(luo_ann_parse(f->a, text, &a, NULL), LUO_OK);
    return a;
}

static const ends *ends_of(const wires *w, const ends *e, int32_t device, wire_device **d)
{
    for (int32_t k = 0; k < w->ndev; k++)
        if (w->dev[k].program->device == device) {
            *d = &w->dev[k];
            return &e[k];
        }
    *d = NULL;
    return NULL;
}

static void fill(follower *f, wires *w, const ends *e, const luo_exchange *x, const cells *had)
{
    for (int32_t k = 0; k < had->h.n; k++) {
        wire_device *d;
        const ends *v = ends_of(w, e, had->h.at[k].dev, &d);
        if (!d || had->h.at[k].region.empty || v->in < 0) continue;
        wires_fill(w, d, v->in, &had->h.at[k], &x->shape, had->value[k]);
    }
    if (w->why[0]) broken(f, x, w->why);
}

/* The device runs this Reshard, but not now: only some pipelines run it again. */
static bool is_elsewhere(const follower *f, int32_t exchange, int32_t device)
{
    for (int32_t k = 0; k < f->n && f->at[k].exchange <= exchange; k++)
        if (f->at[k].exchange == exchange && f->set->at[f->at[k].program].device == device)
            return true;
    return false;
}

static void check(follower *f, wires *w, const ends *e, const luo_exchange *x, const cells *had,
                  const int64_t *truth)
{
    luo_holdings dst;
    const luo_ann *ann = read_ann(f, x->dst);
    luo_holdings_make(f->a, ann, &x->shape, &dst, NULL);
    int64_t **got = LUO_NEW_N(f->a, int64_t *, dst.n);
    for (int32_t k = 0; k < dst.n; k++) {
        wire_device *d;
        const ends *v = ends_of(w, e, dst.at[k].dev, &d);
        if (!d && is_elsewhere(f, (int32_t)(x - f->set->exchanges), dst.at[k].dev)) continue;
        got[k] =
            d && v->out >= 0 ? wires_spread(w, d, v->out, &x->shape) : wires_array(f->a, had->n);
        for (int32_t s = 0; s < had->h.n && !d; s++) /* another name for what it has */
            for (int64_t c = 0; had->h.at[s].dev == dst.at[k].dev && c < had->n; c++)
                if (cells_inside(&had->h.at[s].region, &x->shape, c)) got[k][c] = had->value[s][c];
    }
    const char *why = cells_check(f->a, ann, &x->shape, truth, got);
    if (why) broken(f, x, why);
}

static void check_sources(follower *f, wires *w, const ends *e, const luo_exchange *x,
                          const cells *had)
{
    for (int32_t k = 0; k < had->h.n; k++) {
        wire_device *d;
        const ends *v = ends_of(w, e, had->h.at[k].dev, &d);
        if (!d || v->in < 0 || v->in == v->out) continue;
        const int64_t *now = wires_spread(w, d, v->in, &x->shape);
        for (int64_t c = 0; c < had->n; c++)
            if (cells_inside(&had->h.at[k].region, &x->shape, c) && now[c] != had->value[k][c])
                broken(f, x, "an operand was changed");
    }
}

static void tally(const wires *w, const ends *e, const luo_exchange *x, const run *r)
{
    met.reshards++;
    met.devices += w->ndev;
    met.again += r->again;
    met.steps += x->resolution->nsteps > 1;
    met.scratch += w->scratches > 0;
    met.enter += w->enters;
    met.leave += w->leaves;
    met.max += w->maxes > 0;
    met.messages += w->nposts > 0;
    bool place = false, several = false;
    for (int32_t k = 0; k < w->ndev; k++) {
        place = place || e[k].in == e[k].out;
        several = several || w->dev[k].n > 1;
    }
    met.in_place += place;
    met.grouped += several;
}

static void follow(follower *f, const run *r, int32_t n)
{
    const luo_exchange *x = &f->set->exchanges[r->exchange];
    wires w = {.arena = f->a, .set = f->set, .dev = LUO_NEW_N(f->a, wire_device, n)};
    ends *e = LUO_NEW_N(f->a, ends, n);
    const int64_t count = cells_count(&x->shape);
    int64_t *truth = LUO_NEW_N(f->a, int64_t, count);
    cells had;
    for (int64_t c = 0; c < count; c++) truth[c] = luo_rng_pick(f->rng, 2000) - 1000;
    const bool max = strcmp(f->set->ops[x->op].name, "loss.max.reduce") == 0;
    cells_deal(f->a, f->rng, read_ann(f, x->src), &x->shape, truth, max, &had);
    for (int32_t k = 0; k < n; k++) {
        int32_t list[256];
        ck_assert_int_le(r[k].n, 256);
        for (int32_t i = 0; i < r[k].n; i++) list[i] = r[k].first + i;
        e[k] = find_ends(f, &r[k], x);
        if (wires_add(&w, &f->set->at[r[k].program], list, r[k].n)) continue;
        f->refused = f->raw && strstr(w.why, "outside of their buffer");
        if (!f->refused) broken(f, x, w.why);
        return;
    }
    fill(f, &w, e, x, &had);
    wires_run(&w);
    if (w.why[0]) broken(f, x, w.why);
    check(f, &w, e, x, &had, truth);
    check_sources(f, &w, e, x, &had);
    tally(&w, e, x, r);
}

static void follow_all(follower *f)
{
    list_runs(f);
    for (int32_t k = 0, n; k < f->n; k += n) {
        const run *r = &f->at[k];
        for (n = 1; k + n < f->n && r[n].exchange == r->exchange && r[n].again == r->again &&
                    r[n].turn == r->turn;)
            n++;
        const size_t mark = luo_arena_mark(f->a);
        follow(f, r, n);
        luo_arena_reset(f->a, mark);
    }
}

/* ---- plans ---- */

static void one_case(uint64_t seed)
{
    luo_rng r = luo_rng_seed(seed);
    luo_arena *a = luo_arena_new(1 << 20);
    luo_plan *p = plan_random(a, &r, &plans);
    p->bucket = (luo_bucketing){LUO_BUCKET_MIB, true, 0, 0}; /* a call per tensor */
    luo_model m = luo_test_llama(p->layers, 8, 12, 4, 20);
    const bool gpt = luo_rng_pick(&r, 3) == 0;
    if (gpt) m = luo_test_gpt(p->layers, 8, 4, 20);
    m.max_sequence_tokens = 24;
    if (!gpt) m.kv_heads = 4 >> luo_rng_pick(&r, 3); /* fewer than devices: not cut */
    if (!gpt && luo_rng_pick(&r, 3) == 0) m.tied_embeddings = true;
    met.gpt += gpt;
    if (plan_random_shard(&r, p, m.tied_embeddings)) {
        p->zero = 2; /* buckets, which ZeRO-3 always has, are followed by prop_layout */
        p->sharding = (luo_sharding){0};
        for (int32_t i = 0; i < p->npipelines; i++) /* a task of each length has its own calls */
            ((luo_pipeline *)p->pipelines)[i].micro_batch_tokens = NULL;
        met.sharded++;
    }
    luo_programs *set = NULL;
    luo_err err = {0};
    if (luo_plan_compile(a, p, &m, NULL, NULL, &set, &err) != LUO_OK)
        ck_abort_msg("seed %llu: %s", (unsigned long long)seed, err.text);
    follower f = {.a = a, .rng = &r, .set = set, .seed = seed};
    follow_all(&f);
    luo_arena_free(a);
}

/* Raw annotations make Reshards that no plan derives. */
static bool one_raw(uint64_t seed, int *refused)
{
    luo_rng r = luo_rng_seed(seed);
    luo_arena *a = luo_arena_new(1 << 18);
    luo_plan *p = plan_raw_bare(a, &r);
    const luo_model m = luo_test_llama(p->layers, 8, 12, 4, 20);
    luo_programs *set = NULL;
    plan_raw_annotate(a, &r, p, &m);
    p->bucket = (luo_bucketing){LUO_BUCKET_MIB, true, 0, 0};
    const bool good = luo_plan_compile(a, p, &m, NULL, NULL, &set, NULL) == LUO_OK;
    follower f = {.a = a, .rng = &r, .set = set, .seed = seed, .raw = true};
    if (good) follow_all(&f);
    *refused += f.refused;
    luo_arena_free(a);
    return good;
}

enum { CASES = 200 };

START_TEST(programs)
{
    LUO_PROP_FOR(seed, CASES) one_case(seed);
    printf(
        "plans: %d of several pipelines, %d uneven stages, %d interleaved, %d zero-1, %d sequence "
        "parallel, %d stages run again, %lld gpt, %d pipelines of own lengths, %d states apart\n",
        plans.pipelines, plans.uneven, plans.interleaved, plans.zero, plans.parallel, plans.full,
        (long long)met.gpt, plans.lengths, plans.apart);
    printf("reshards: %lld (%lld devices), %lld in place, %lld run again, %lld of several steps, "
           "%lld with several instructions, %lld with messages, %lld with scratch (%lld copies in, "
           "%lld out), %lld of largest values\n",
           (long long)met.reshards, (long long)met.devices, (long long)met.in_place,
           (long long)met.again, (long long)met.steps, (long long)met.grouped,
           (long long)met.messages, (long long)met.scratch, (long long)met.enter,
           (long long)met.leave, (long long)met.max);
    if (luo_prop_env("LUO_CASES", CASES) < CASES) return;
    ck_assert(!plan_tally_poor(&plans));
    ck_assert_int_gt(met.sharded, 20);
    ck_assert(met.in_place > 100 && met.again > 100 && met.steps > 100 && met.grouped > 100);
    ck_assert(met.messages > 100 && met.scratch > 100 && met.max > 50);
}
END_TEST
enum { RAW_CASES = 2500 };

START_TEST(raw_programs)
{
    int good = 0, refused = 0;
    LUO_PROP_FOR(seed, RAW_CASES) good += one_raw(seed, &refused);
    printf(
        "raw annotations: %d plans compile, %d of them have results that fit no buffer; reshards: "
        "%lld, %lld of several steps, %lld with scratch\n",
        good, refused, (long long)met.reshards, (long long)met.steps, (long long)met.scratch);
    if (luo_prop_env("LUO_CASES", RAW_CASES) < RAW_CASES) return;
    ck_assert(good > 250 && met.steps > 50);
}
END_TEST
LUO_SUITE("exec.route", LUO_T(programs), LUO_T(raw_programs))
