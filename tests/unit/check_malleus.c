/* tests/unit/check_malleus.c: the straggler planner on the vectors of Malleus 19.1 to 19.5 and the
 * faults of the published code, section 20. */
#include <math.h>

#include "tests/check_main.h"
#include "tests/malleus_fixture.h"

enum { DEVICES = 16384 };
static luo_malleus_device devices[DEVICES];

static const luo_malleus_found *find(luo_arena *a, const luo_malleus_in *in)
{
    luo_malleus_found *f = NULL;
    luo_err err = {0};
    const luo_status st = luo_malleus(a, in, &f, &err);
    ck_assert_msg(st == LUO_OK, "%s: %s", luo_status_name(st), err.text);
    return f;
}

/* Every layer once, every stage within its cap, every micro-batch once, every device once. */
static void check_plan(const luo_malleus_in *in, const luo_malleus_plan *p)
{
    static int8_t seen[DEVICES];
    int64_t m = 0;
    memset(seen, 0, sizeof seen);
    for (int32_t i = 0; i < p->npipes; i++) {
        int64_t at = 0;
        for (int32_t j = 0; j < p->pipes[i].nstages; j++) {
            const luo_malleus_stage *s = &p->pipes[i].stages[j];
            ck_assert_int_eq(s->lo, at);
            ck_assert_int_gt(s->hi, s->lo);
            ck_assert_int_le(s->hi - s->lo, s->cap);
            ck_assert_double_eq(s->t, s->group->y * (double)(s->hi - s->lo));
            for (int32_t d = 0; d < s->group->size; d++) seen[s->group->devices[d]]++;
            at = s->hi;
        }
        ck_assert_int_eq(at, in->layers);
        m += p->pipes[i].micro_batches;
    }
    ck_assert_int_eq(m, in->micro_batches);
    for (int32_t k = 0; k < p->nstandby; k++) seen[p->standby[k]]++;
    for (int32_t d = 0; d < in->ndevices; d++) ck_assert_int_eq(seen[in->devices[d].device], 1);
    ck_assert_double_le(p->steady, p->event * (1 + 1e-9));
    ck_assert_double_le(p->event, p->filled * (1 + 1e-9));
}

static void check_at_most(const char *id, const char *what, double is, double bound, double most)
{
    ck_assert_msg(is >= bound * (1 - 1e-9) && is <= most + 1e-6, "%s: %s is %.6f, not in %.3f..%.3f",
                  id, what, is, bound, most);
}

/* 19.5: at most the value of the row, at least the bound. */
START_TEST(whole_planner)
{
    const pl_row *r = &pl_rows[_i];
    luo_arena *a = luo_arena_new(0);
    luo_malleus_in in = make_pl(r, devices);
    const luo_malleus_found *f = find(a, &in);
    ck_assert_double_eq_tol(f->bound, r->bound, 1e-3);
    ck_assert(f->search.exhaustive);
    ck_assert_int_eq(f->dp, in.dp);
    for (int32_t k = 0; k < f->n; k++) check_plan(&in, &f->plans[k]);
    check_at_most(r->id, "filled", f->plans[0].filled, f->bound, r->filled);
    check_at_most(r->id, "event", f->plans[0].event, f->bound, r->event);
    in.rank = LUO_RANK_STEADY;
    f = find(a, &in);
    for (int32_t k = 0; k < f->n; k++) check_plan(&in, &f->plans[k]);
    check_at_most(r->id, "steady", f->plans[0].steady, f->bound, r->steady);
    luo_arena_free(a);
}
END_TEST

LUO_SUITE("plan.malleus", LUO_T_N(whole_planner, LUO_ROWS(pl_rows)))
