/* check_route.c: segments by hand, and programs that contradict their exchanges. */
#include "tests/check_main.h"
#include "tests/exec/cells.h"
#include "tests/plan_make.h"

static const struct {
    int32_t rank;
    const char *frame, *part, *segments; /* "at+n .." */
} rows[] = {
    {1, "[0:8)", "[2:5)", "2+3"},
    {1, "[4:8)", "[4:8)", "0+4"},
    {1, "[0:2)+[6:8)", "[1:2)+[6:7)", "1+2"}, /* the gap of the frame closes */
    {2, "[0:3)x[0:4)", "[1:3)x[0:4)", "4+8"},
    {2, "[0:3)x[0:4)", "[0:3)x[1:3)", "1+2 5+2 9+2"},
    {2, "[0:2)x[0:6)", "[0:2)x[0:1)+[5:6)", "0+1 5+2 11+1"}, /* row ends meet row beginnings */
    {2, "[2:4)x[0:2)+[6:8)", "[3:4)x[1:2)+[6:8)", "5+3"},
    {3, "[0:2)x[0:2)x[0:3)", "[0:2)x[1:2)x[0:3)", "3+3 9+3"},
    {2, "[0:3)x[0:4)", "-", ""},
    {0, "", "", "0+1"},
};

START_TEST(segments)
{
    luo_arena *a = luo_arena_new(0);
    luo_frame f = {0};
    luo_region part;
    luo_copy_segments got;
    luo_str s = {0};
    ck_assert_int_eq(luo_region_parse(a, rows[_i].part, rows[_i].rank, &part, NULL), LUO_OK);
    ck_assert_int_eq(luo_region_parse(a, rows[_i].frame, rows[_i].rank, &f.region, NULL), LUO_OK);
    f.volume = luo_region_volume(&f.region);
    ck_assert_int_eq(luo_frame_segments(a, &f, &part, &got, NULL), LUO_OK);
    for (int32_t k = 0; k < got.n; k++)
        luo_str_addf(&s, "%s%d+%d", k ? " " : "", (int)got.at[k].at, (int)got.at[k].n);
    ck_assert_str_eq(luo_str_get(&s), rows[_i].segments);
    ck_assert_int_eq(got.elements, luo_region_volume(&part));
    luo_str_free(&s);
    luo_arena_free(a);
}
END_TEST

START_TEST(outside)
{
    luo_arena *a = luo_arena_new(0);
    luo_frame f = {.volume = 4};
    luo_region part;
    luo_copy_segments got;
    luo_err err = {0};
    luo_region_parse(a, "[0:4)", 1, &f.region, NULL);
    luo_region_parse(a, "[3:5)", 1, &part, NULL);
    ck_assert_int_eq(luo_frame_segments(a, &f, &part, &got, &err), LUO_EBUG);
    ck_assert_str_eq(err.text, "cells are moved that do not lie in the buffer; compile the program "
                               "again.");
    luo_arena_free(a);
}
END_TEST

/* ---- programs ---- */

typedef struct rig {
    luo_arena *a;
    luo_programs *set;
    const luo_program *p; /* device 0 */
    luo_role *role;
} rig;

/* Two pipelines, the first of two devices a stage. */
static rig open_rig(int32_t zero)
{
    rig r = {.a = luo_arena_new(1 << 16)};
    luo_err err = {0};
    luo_plan *p = luo_test_plan(r.a, "1: [0,1]*1 [2,3]*1 || 1: [4]*1 [5]*1");
    const luo_model m = luo_test_llama(p->layers, 8, 12, 4, 20);
    p->sequence_tokens = 16;
    p->zero = zero;
    p->bucket = (luo_bucketing){LUO_BUCKET_MIB, true, 0, 0}; /* a call per tensor */
    ck_assert_msg(luo_plan_compile(r.a, p, &m, NULL, NULL, &r.set, &err) == LUO_OK, "%s", err.text);
    r.p = luo_programs_find(r.set, 0);
    r.role = (luo_role *)&r.set->roles[r.p->role];
    return r;
}

/* First instruction of a kind in a phase whose operation's name ends so. */
static luo_instr *find(const rig *r, int32_t kind, int32_t phase, const char *tail)
{
    for (int32_t i = 0; i < r->role->ninstr; i++) {
        const char *name = r->set->ops[r->role->instr[i].op].name;
        if (r->role->instr[i].kind == kind && r->role->instr[i].phase == phase &&
            r->role->instr[i].exchange >= 0 && strlen(name) >= strlen(tail) &&
            strcmp(name + strlen(name) - strlen(tail), tail) == 0)
            return (luo_instr *)&r->role->instr[i];
    }
    ck_abort_msg("no such instruction: %s", tail);
    return NULL;
}

/* The gradient of a norm's weight: device 4 sums it with 0, then with 1. Each must get its first
 * summand, so it goes through the scratch; devices 0 and 1 sum in place. */
START_TEST(two_partners)
{
    rig r = open_rig(0);
    luo_route one, two;
    r.p = luo_programs_find(r.set, 4);
    r.role = (luo_role *)&r.set->roles[r.p->role];
    const luo_instr *i = find(&r, LUO_INSTR_COLLECTIVE, LUO_PHASE_POST, "norm2.weight.state");
    ck_assert_int_eq(luo_route_of(r.a, r.set, r.p, i->id, &one, NULL), LUO_OK);
    ck_assert_int_eq(luo_route_of(r.a, r.set, r.p, i->id + 1, &two, NULL), LUO_OK);
    ck_assert_int_eq(one.first, i->id);
    ck_assert_int_eq(one.last, i->id + 1);
    ck_assert_int_eq(one.scratch_elements, 8);
    ck_assert_int_eq(one.in, LUO_ROUTE_SCRATCH);
    ck_assert_int_eq(two.in, LUO_ROUTE_SCRATCH);
    ck_assert_int_eq(one.out, i->out[0]);
    ck_assert_int_eq(one.enter.from, i->in[0]);
    ck_assert_int_eq(one.enter.to, LUO_ROUTE_SCRATCH);
    ck_assert_int_eq(one.enter.src.elements, 8);
    ck_assert_int_eq(two.enter.from, -1);
    ck_assert_int_eq(two.leave.from, -1);
    ck_assert_int_eq(one.reduce, LUO_REDUCE_SUM);
    luo_arena_free(r.a);
}
END_TEST

START_TEST(largest)
{
    rig r = open_rig(0);
    luo_route x;
    r.p = luo_programs_find(r.set, 2);
    r.role = (luo_role *)&r.set->roles[r.p->role];
    const luo_instr *i = find(&r, LUO_INSTR_COLLECTIVE, LUO_PHASE_F, "loss.max.reduce");
    ck_assert_int_eq(luo_route_of(r.a, r.set, r.p, i->id, &x, NULL), LUO_OK);
    ck_assert_int_eq(x.reduce, LUO_REDUCE_MAX);
    i = find(&r, LUO_INSTR_COLLECTIVE, LUO_PHASE_F, "loss.sum.reduce");
    ck_assert_int_eq(luo_route_of(r.a, r.set, r.p, i->id, &x, NULL), LUO_OK);
    ck_assert_int_eq(x.reduce, LUO_REDUCE_SUM);
    luo_arena_free(r.a);
}
END_TEST

/* ---- contradictions ---- */

static void no_exchange(rig *r, luo_instr *i)
{
    (void)r;
    i->exchange = -1;
}

static void other_kind(rig *r, luo_instr *i)
{
    (void)r;
    i->kind = LUO_INSTR_LOCAL;
}

static void other_group(rig *r, luo_instr *i)
{
    luo_group *g = (luo_group *)&r->set->groups[r->p->slots[i->slot].group];
    int32_t *dev = LUO_NEW_N(r->a, int32_t, g->n);
    for (int32_t k = 0; k < g->n; k++) dev[k] = g->dev[g->n - 1 - k];
    g->dev = dev;
}

static void no_annotation(rig *r, luo_instr *i)
{
    ((luo_buffer *)&r->role->buf[i->in[0]])->ann = NULL;
}

static const struct {
    void (*spoil)(rig *r, luo_instr *i);
    const char *says;
} wrong[] = {
    {no_exchange, "has no exchange to follow."},
    {other_kind, "it is not the next of its exchange; compile the program again."},
    {other_group, "its group is another than that of its exchange; compile the program again."},
    {no_annotation, "does not say what it is a piece of."},
};

START_TEST(contradiction)
{
    rig r = open_rig(0);
    luo_route x = {.n = 77};
    luo_err err = {0};
    luo_instr *i = find(&r, LUO_INSTR_COLLECTIVE, LUO_PHASE_F, "attn.reduce");
    wrong[_i].spoil(&r, i);
    ck_assert_int_eq(luo_route_of(r.a, r.set, r.p, i->id, &x, &err), LUO_EBUG);
    ck_assert_msg(strstr(err.text, wrong[_i].says), "%s", err.text);
    ck_assert_int_eq(x.n, 77); /* untouched */
    luo_arena_free(r.a);
}
END_TEST

START_TEST(shorter_message)
{
    rig r = open_rig(0);
    luo_route x;
    luo_err err = {0};
    for (int32_t i = 0; i < r.role->ninstr; i++) {
        if (r.role->instr[i].kind != LUO_INSTR_P2P) continue;
        ((luo_message *)r.p->slots[r.role->instr[i].slot].message)->elements--;
        ck_assert_int_eq(luo_route_of(r.a, r.set, r.p, i, &x, &err), LUO_EBUG);
        ck_assert_msg(strstr(err.text, "its messages are not as long"), "%s", err.text);
        luo_arena_free(r.a);
        return;
    }
    ck_abort_msg("no message");
}
END_TEST

LUO_SUITE("exec.route.hand", LUO_T_N(segments, LUO_ROWS(rows)), LUO_T(outside), LUO_T(two_partners),
          LUO_T(largest), LUO_T_N(contradiction, LUO_ROWS(wrong)), LUO_T(shorter_message))
