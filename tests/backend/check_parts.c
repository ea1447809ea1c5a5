/* Parts of a step against a slow twin that looks at every elementary span of time. */
#include <math.h>

#include "core/run/parts.h"
#include "tests/check_main.h"
#include "tests/prop/prop.h"

typedef struct span {
    luo_part part;
    double start, end;
    int32_t tag;
} span;

static double *field(luo_parts *p, int part)
{
    return &p->compute_s + part; /* the parts stand in order of precedence, bubble last */
}

/* All times are multiples of 1/8, so that a span of 1/8 has one state. */
static void slow_twin(const span *s, int n, double end_s, luo_parts *out, double *exposed)
{
    *out = (luo_parts){0};
    for (double t = 0; t < end_s; t += 0.125) {
        int first = LUO_PARTS;
        for (int i = 0; i < n; i++)
            if (s[i].start <= t && t < s[i].end && (int)s[i].part < first) first = (int)s[i].part;
        *field(out, first) += 0.125;
        for (int i = 0; i < n; i++)
            if (s[i].tag >= 0 && s[i].part > LUO_PART_RECOMPUTE && s[i].start <= t &&
                t < s[i].end && first > LUO_PART_RECOMPUTE)
                exposed[s[i].tag] += 0.125;
    }
}

START_TEST(parts_agree_with_the_slow_twin)
{
    int overlaps = 0, cut = 0, unsorted = 0;
    LUO_PROP_FOR(seed, 3000) {
        luo_rng rng = luo_rng_seed(seed);
        luo_arena *arena = luo_arena_new(0);
        luo_ledger ledger = {.arena = arena};
        span s[120];
        const int n = (int)luo_rng_pick(&rng, seed % 10 ? 20 : 120);
        const double end_s = (double)luo_rng_pick(&rng, 80) / 8;
        double want_exposed[4] = {0}, exposed[4] = {0};
        for (int i = 0; i < n; i++) {
            s[i].part = (luo_part)luo_rng_pick(&rng, LUO_PARTS);
            s[i].start = (double)luo_rng_pick(&rng, 80) / 8;
            s[i].end = s[i].start + (double)luo_rng_pick(&rng, 16) / 8;
            s[i].tag = (int32_t)luo_rng_pick(&rng, 5) - 1;
            ck_assert_int_eq(luo_ledger_add(&ledger, s[i].part, s[i].start, s[i].end, s[i].tag),
                             LUO_OK);
            cut += s[i].end > end_s;
        }
        for (int p = 0; p < LUO_PARTS; p++) unsorted += ledger.part[p].unsorted;
        luo_parts want, got;
        slow_twin(s, n, end_s, &want, want_exposed);
        ck_assert_int_eq(luo_ledger_close(&ledger, arena, end_s, &got, exposed), LUO_OK);
        for (int p = 0; p <= LUO_PARTS; p++)
            ck_assert_msg(fabs(*field(&got, p) - *field(&want, p)) < 1e-9, "seed %llu part %d",
                          (unsigned long long)seed, p);
        for (int t = 0; t < 4; t++) ck_assert_double_eq_tol(exposed[t], want_exposed[t], 1e-9);
        ck_assert_double_eq_tol(luo_parts_total(&got), end_s, 1e-9 * (1 + end_s));
        overlaps += want.tp_s > 0 && want.bubble_s > 0 && want.compute_s > 0;
        luo_arena_free(arena);
    }
    if (luo_prop_env("LUO_CASES", 3000) >= 3000) {
        ck_assert_int_gt(overlaps, 300);
        ck_assert_int_gt(cut, 300);
        ck_assert_int_gt(unsorted, 300);
    }
}
END_TEST

static const struct {
    luo_instr instr;
    luo_part part;
} kinds[] = {
    {{.kind = LUO_INSTR_COMPUTE, .stream = LUO_STREAM_COMPUTE}, LUO_PART_COMPUTE},
    {{.kind = LUO_INSTR_COMPUTE, .stream = LUO_STREAM_COMPUTE, .recompute = true},
     LUO_PART_RECOMPUTE},
    {{.kind = LUO_INSTR_COLLECTIVE, .stream = LUO_STREAM_TP, .coll = LUO_COLL_AR}, LUO_PART_TP},
    {{.kind = LUO_INSTR_COLLECTIVE, .stream = LUO_STREAM_TP, .coll = LUO_COLL_A2A}, LUO_PART_EP},
    {{.kind = LUO_INSTR_P2P, .stream = LUO_STREAM_TP}, LUO_PART_CP},
    {{.kind = LUO_INSTR_P2P, .stream = LUO_STREAM_PP}, LUO_PART_PP},
    {{.kind = LUO_INSTR_COLLECTIVE, .stream = LUO_STREAM_DP, .coll = LUO_COLL_A2A}, LUO_PART_DP},
    {{.kind = LUO_INSTR_P2P, .stream = LUO_STREAM_MOVE}, LUO_PART_MOVE},
    {{.kind = LUO_INSTR_IO, .stream = LUO_STREAM_IO}, LUO_PART_IO},
};

START_TEST(every_instruction_has_its_part)
{
    ck_assert_int_eq(luo_part_of(&kinds[_i].instr), kinds[_i].part);
}
END_TEST

LUO_SUITE("backend.parts", LUO_T(parts_agree_with_the_slow_twin),
          LUO_T_N(every_instruction_has_its_part, LUO_ROWS(kinds)))
