/* prop_fsdp.c: programs of ZeRO-3 take as long as luo_cost_fsdp says, under random times
 * of their units, and never have more units whole than they may: depth + 1 of weights, two of
 * gradients. The machine is the plainest one: two lanes, each in order, and waits. */
#include <stdlib.h>
#include <string.h>

#include "core/cost/overlap.h"
#include "core/plan/compile.h"
#include "tests/check_main.h"
#include "tests/plan_make.h"
#include "tests/prop/prop.h"

enum { UNITS = 12, LIVES = 512 };

typedef struct times { /* of a unit: work in F and B, gather, scatter */
    double f[UNITS], b[UNITS], a[UNITS], r[UNITS];
} times;

typedef struct life {
    double from, to;
} life;

typedef struct machine {
    const luo_programs *set;
    const luo_program *p;
    const luo_role *role;
    const times *t;
    int32_t units;
    double lane[2];     /* compute, dp: ends so far */
    double *end;        /* by instruction: of its latest run */
    double forward_end; /* of the first F */
    bool keeps;         /* shard grad-op: weights are gathered in Pre, and read as they are */
    life whole[LIVES], gradient[LIVES];
    int nwhole, ngradient;
} machine;

static int32_t unit_of_name(const machine *m, const char *name)
{
    if (strncmp(name, "d.", 2) == 0) name += 2;
    if (strncmp(name, "layers.", 7) == 0) return 1 + (int32_t)strtol(name + 7, NULL, 10);
    return name[0] == 'w' ? 0 : m->units - 1; /* wte, wpe */
}

/* Unit whose time is spent here: by the first operation that reads a gathered weight of it. */
static int32_t works_at(const machine *m, int32_t i, int32_t *last)
{
    const luo_instr *in = &m->role->instr[i];
    if (in->kind != LUO_INSTR_COMPUTE) return -1;
    for (int32_t k = 0; k < in->nin; k++) {
        const luo_buffer *b = &m->role->buf[in->in[k]];
        const char *name = b->tensor, *full = strstr(name, ".full");
        if (name[0] == 'd') continue;
        if (m->keeps ? b->buffer_class != LUO_BUFFER_WEIGHT : !full || full[5]) continue;
        const int32_t unit = unit_of_name(m, name);
        return unit == *last ? -1 : (*last = unit);
    }
    return -1;
}

static double later(double a, double b)
{
    return a > b ? a : b;
}

static void run(machine *m, const luo_segment *seg, int32_t i, double before, int32_t *last)
{
    const luo_instr *in = &m->role->instr[i];
    const bool call = in->kind == LUO_INSTR_COLLECTIVE && in->stream == LUO_STREAM_DP;
    double *lane = &m->lane[call], start = *lane, cost = 0;
    for (int32_t k = 0; k < in->ndep; k++) start = later(start, m->end[in->dep[k]]);
    if (in->at_start) start = later(start, before);
    const int32_t unit = call ? unit_of_name(m, m->role->buf[in->piece[0].buffer].tensor)
                              : works_at(m, i, last);
    if (call) cost = in->coll == LUO_COLL_AG ? m->t->a[unit] : m->t->r[unit];
    else if (unit >= 0) cost = seg->phase == LUO_PHASE_F ? m->t->f[unit] : m->t->b[unit];
    *lane = m->end[i] = start + cost;
    if (call && in->coll == LUO_COLL_AG) m->whole[m->nwhole++] = (life){start, start};
    if (call && in->coll == LUO_COLL_RS)
        for (int k = 0; k < m->ngradient; k++)
            if (m->gradient[k].to < 0) {
                m->gradient[k].to = *lane; /* in order, so the first that is open */
                break;
            }
    if (call || unit < 0) return;
    if (seg->phase == LUO_PHASE_B) m->gradient[m->ngradient++] = (life){start, -1};
    for (int k = 0; k < m->nwhole; k++)
        if (m->whole[k].to == m->whole[k].from) {
            m->whole[k].to = *lane;
            break;
        }
}

static void run_all(machine *m)
{
    for (int32_t t = 0; t < m->p->ntask; t++) {
        const luo_segment *seg = &m->role->seg[m->p->tasks[t].seg];
        const double before = m->lane[0];
        int32_t last = -1;
        const bool gathers = m->keeps && seg->phase == LUO_PHASE_PRE;
        if (seg->phase != LUO_PHASE_F && seg->phase != LUO_PHASE_B && !gathers) continue;
        for (int32_t i = seg->first; i < seg->first + seg->n; i++) run(m, seg, i, before, &last);
        if (m->forward_end == 0 && !gathers) m->forward_end = m->lane[0];
    }
}

static int most_alive(const life *at, int n)
{
    int most = 0;
    for (int i = 0; i < n; i++) {
        int alive = 0;
        for (int k = 0; k < n; k++) alive += at[k].from <= at[i].from && at[i].from < at[k].to;
        if (alive > most) most = alive;
    }
    return most;
}

static void draw(luo_rng *r, times *t, int32_t units)
{
    const int32_t most = 1 + (int32_t)luo_rng_pick(r, 12);
    for (int32_t i = 0; i < units; i++) {
        t->f[i] = (double)(1 + luo_rng_pick(r, most));
        t->b[i] = (double)(1 + luo_rng_pick(r, most));
        t->a[i] = (double)(1 + luo_rng_pick(r, 12));
        t->r[i] = (double)(1 + luo_rng_pick(r, 12));
    }
}

static luo_programs *compile(luo_arena *a, int32_t layers, int32_t batches, luo_sharding sharding)
{
    char line[64];
    luo_err err = {0};
    luo_programs *set;
    snprintf(line, sizeof line, "%d: [0]*%d || %d: [1]*%d", batches, layers, batches, layers);
    luo_plan *p = luo_test_plan(a, line);
    const luo_model m = luo_test_llama(layers, 8, 16, 2, 8);
    const luo_compile_opts opts = {.check = true};
    p->zero = 3;
    p->sharding = sharding;
    ck_assert_msg(luo_plan_compile(a, p, &m, NULL, &opts, &set, &err) == LUO_OK, "%s", err.text);
    return set;
}

/* One program under many times. */
static void play(luo_rng *r, const luo_programs *set, int32_t units, int32_t batches, int32_t depth)
{
    times t;
    luo_fsdp want;
    machine *m = calloc(1, sizeof *m);
    draw(r, &t, units);
    luo_cost_fsdp(units, t.f, t.b, t.a, t.r, depth, &want);
    const luo_program *p = &set->at[0];
    *m = (machine){.set = set, .p = p, .role = &set->roles[p->role], .t = &t, .units = units};
    m->end = calloc((size_t)m->role->ninstr, sizeof *m->end);
    run_all(m);
    ck_assert_msg(m->forward_end == want.forward_end, "depth %d: F ends at %g, not at %g",
                  (int)depth, m->forward_end, want.forward_end);
    ck_assert_msg(m->lane[0] == batches * want.end && m->lane[1] <= m->lane[0],
                  "depth %d: ends at %g, not at %d times %g", (int)depth, m->lane[0], (int)batches,
                  want.end);
    ck_assert_int_eq(m->nwhole, 2 * units * batches);
    ck_assert_int_eq(m->ngradient, units * batches);
    ck_assert_int_le(most_alive(m->whole, m->nwhole), depth + 1);
    ck_assert_int_le(most_alive(m->gradient, m->ngradient), 2);
    free(m->end);
    free(m);
}

START_TEST(timelines)
{
    LUO_PROP_FOR(seed, 60)
    {
        luo_rng r = luo_rng_seed(seed);
        luo_arena *a = luo_arena_new(1 << 18);
        const int32_t layers = 1 + (int32_t)luo_rng_pick(&r, UNITS - 2);
        const int32_t batches = 1 + (int32_t)luo_rng_pick(&r, 3);
        const int32_t depth = (int32_t)luo_rng_pick(&r, 5);
        const luo_programs *set = compile(
            a, layers, batches, (luo_sharding){.has_depth = true, .depth = depth});
        for (int k = 0; k < 200; k++) play(&r, set, layers + 2, batches, depth);
        luo_arena_free(a);
    }
}
END_TEST

/* Vector Z, shard grad-op: four units that take f, b, a, r each; one and two micro-batches. On the
 * page the second forward begins while gradients of the first backward are still cut, and two end
 * at 101, 114 and 82; in our programs a task ends with the sum of its last pieces, and the next
 * one waits. */
static const struct {
    double f, b, a, r, end[2];
} kept[] = {{4, 8, 2, 3, {53, 104}}, {4, 8, 6, 6, {66, 120}}, {2, 4, 5, 7, {54, 94}}};

START_TEST(kept_weights)
{
    enum { FOUR = 4 };
    luo_arena *a = luo_arena_new(1 << 18);
    times t;
    for (int32_t k = 0; k < FOUR; k++) {
        t.f[k] = kept[_i].f;
        t.b[k] = kept[_i].b;
        t.a[k] = kept[_i].a;
        t.r[k] = kept[_i].r;
    }
    for (int32_t batches = 1; batches <= 2; batches++) {
        const luo_programs *set = compile(a, FOUR - 2, batches,
                                          (luo_sharding){.kind = LUO_SHARD_GRAD_OP});
        const luo_program *p = &set->at[0];
        machine m = {.set = set, .p = p, .role = &set->roles[p->role], .t = &t, .units = FOUR,
                     .keeps = true};
        m.end = LUO_NEW_N(a, double, m.role->ninstr);
        run_all(&m);
        const double end = later(m.lane[0], m.lane[1]);
        const double want = kept[_i].end[batches - 1];
        ck_assert_msg(end == want, "%d micro-batches end at %g, not at %g", (int)batches, end,
                      want);
    }
    luo_arena_free(a);
}
END_TEST

LUO_SUITE("prop.fsdp", LUO_T(timelines), LUO_T_N(kept_weights, LUO_ROWS(kept)))
