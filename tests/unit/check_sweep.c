/* check_sweep.c: keys of a sweep, its journals, what its rows say, and the least value. */
#include "core/io/sweep/sweep.h"

#include <math.h>
#include <string.h>

#include "core/base/rng.h"
#include "core/io/files.h"
#include "tests/check_main.h"
#include "tests/prop/prop.h"
#include "tests/run_fixture.h"

/* ---- keys ---- */

static const struct {
    const char *text;
    const char *values; /* joined by `|`; NULL: the sentence */
    const char *says;
} keys[] = {
    {"a.b=1,2", "1|2", ""},
    {"a=1:3", "1|2|3", ""},
    {"a=0:1:0.25", "0|0.25|0.5|0.75|1", ""},
    {"a=-1:0,7", "-1|0|7", ""},
    {"a=0.1:0.3:0.1", "0.1|0.2|0.3", ""},
    {"a=device:[0,1],node:a", "device:[0,1]|node:a", ""},
    {"a={x: 1, y: 2},\"b,c\"", "{x: 1, y: 2}|\"b,c\"", ""},
    {"a=12:30x", "12:30x", ""},
    {"a", NULL,
     "`--grid` is `a`: there is no key with a `=`; KEY=VALUE,VALUE or KEY=LO:HI:STEP is expected."},
    {"a=1,", NULL,
     "`--grid` is `a=1,`: a value is empty; KEY=VALUE,VALUE or KEY=LO:HI:STEP is expected."},
    {"a=1,2,1", NULL,
     "`--grid` is `a=1,2,1`: a value stands there twice; KEY=VALUE,VALUE or KEY=LO:HI:STEP is "
     "expected."},
    {"a=2:1", NULL,
     "`--grid` is `a=2:1`: a range does not rise, or its step; KEY=VALUE,VALUE or KEY=LO:HI:STEP "
     "is expected."},
    {"a=1:100001,0", NULL,
     "`--grid` is `a=1:100001,0`: a key has over 100000 values; KEY=VALUE,VALUE or "
     "KEY=LO:HI:STEP is expected."},
    {"taken=1", NULL,
     "`--grid` is `taken=1`: the key is swept already; KEY=VALUE,VALUE or KEY=LO:HI:STEP is "
     "expected."},
};

START_TEST(key_values)
{
    luo_arena *arena = luo_arena_new(4096);
    luo_sweep_grid grid = {0};
    luo_err err = {0};
    luo_str all = {0};
    ck_assert_int_eq(luo_sweep_add_key(arena, &grid, "grid", "taken=0", false, &err), LUO_OK);
    const luo_status st = luo_sweep_add_key(arena, &grid, "grid", keys[_i].text, false, &err);
    ck_assert_int_eq(st, keys[_i].values ? LUO_OK : LUO_EUSAGE);
    ck_assert_str_eq(err.text, keys[_i].says);
    ck_assert_int_eq(grid.nkeys, keys[_i].values ? 2 : 1);
    for (int64_t i = 0; st == LUO_OK && i < grid.key[1].n; i++)
        luo_str_addf(&all, "%s%s", i ? "|" : "", luo_sweep_value(arena, &grid.key[1], i));
    if (keys[_i].values) ck_assert_str_eq(luo_str_get(&all), keys[_i].values);
    luo_str_free(&all);
    luo_arena_free(arena);
}
END_TEST

static const char *upper(luo_arena *arena, const char *path)
{
    return luo_arena_printf(arena, "/home/%s", path);
}

START_TEST(cells)
{
    luo_arena *arena = luo_arena_new(4096);
    luo_sweep_grid grid = {.nseeds = 2};
    const char *set[3];
    int64_t n;
    luo_err err = {0};
    ck_assert_int_eq(luo_sweep_add_key(arena, &grid, "grid", "a=1,2", false, &err), LUO_OK);
    ck_assert_int_eq(
        luo_sweep_add_files(arena, &grid, "plans", "plan", "p.json,q.json,r.json", upper, &err),
        LUO_OK);
    ck_assert_int_eq(luo_sweep_count(&grid, &n, &err), LUO_OK);
    ck_assert_int_eq(n, 6);
    ck_assert_int_eq(luo_sweep_overrides(arena, &grid, 5, set, &err), LUO_OK);
    ck_assert_str_eq(set[0], "a=2");
    ck_assert_str_eq(set[1], "plan=/home/r.json");
    ck_assert_str_eq(luo_sweep_value(arena, &grid.key[1], luo_sweep_pick(&grid, 1, 1)), "q.json");
    ck_assert(luo_sweep_numeric(&grid.key[0]) && !luo_sweep_numeric(&grid.key[1]));
    ck_assert_int_eq(luo_sweep_add_key(arena, &grid, "over", "x=1:9e9", true, &err), LUO_OK);
    ck_assert_int_eq(grid.key[2].n, 9000000000);
    ck_assert_str_eq(luo_sweep_value(arena, &grid.key[2], 8999999999), "9000000000");
    ck_assert_int_eq(luo_sweep_add_key(arena, &grid, "over", "y=1,2", true, &err), LUO_EUSAGE);
    ck_assert_str_eq(err.text, "`--over` is `y=1,2`; KEY=LO:HI or KEY=LO:HI:STEP with numbers that "
                               "rise is expected.");
    ck_assert_int_eq(luo_sweep_add_files(arena, &grid, "plans", "z", "p,,q", upper, &err),
                     LUO_EUSAGE);
    ck_assert_str_eq(err.text, "`--plans` is `p,,q`: a name is empty; FILE,FILE is expected.");
    luo_sweep_grid wide = {.nseeds = 11};
    ck_assert_int_eq(luo_sweep_add_key(arena, &wide, "grid", "a=1:100000", false, &err), LUO_OK);
    ck_assert_int_eq(luo_sweep_count(&wide, &n, &err), LUO_EUSAGE);
    ck_assert_str_eq(err.text, "values of the keys and seeds make more than 1000000 runs; fewer "
                               "are expected.");
    luo_arena_free(arena);
}
END_TEST

/* ---- rows ---- */

static const char *const seeds[] = {"1", "7", "3"};

static luo_sweep_row row_of(int64_t cell, int32_t seed, const char *policy, double goodput)
{
    return (luo_sweep_row){.cell = cell,
                           .seed = seed,
                           .policies = 2,
                           .policy = policy,
                           .error = "",
                           .state = LUO_COMPLETE,
                           .steps = 4,
                           .total_s = 10,
                           .step_mean_s = 2.5,
                           .low_s = NAN,
                           .high_s = NAN,
                           .goodput_tokens_per_s = goodput,
                           .mfu_ratio = 0.25,
                           .lost_s = 1,
                           .peak_memory_ratio = 0.5};
}

static luo_sweep_grid small_grid(luo_arena *arena)
{
    luo_sweep_grid grid = {.nseeds = 3, .seed = seeds};
    ck_assert_int_eq(luo_sweep_add_key(arena, &grid, "grid", "a=1,2", false, NULL), LUO_OK);
    ck_assert_int_eq(luo_sweep_add_key(arena, &grid, "grid", "b=x,=y", false, NULL), LUO_OK);
    return grid;
}

/* A journal of units 5 and 2, the second of which lacks its end. */
START_TEST(journal)
{
    luo_arena *arena = luo_arena_new(1 << 16);
    const char *dir = fix_dir(arena, "journal");
    const luo_sweep_grid grid = small_grid(arena);
    const luo_sweep_row put[] = {row_of(1, 2, "static", 1e7 / 3), row_of(1, 2, "restart", 2),
                                 row_of(0, 2, "static", 3)};
    luo_sweep_rows rows = {0};
    luo_table table;
    luo_diags diags;
    luo_err err;
    ck_assert_int_eq(luo_file_make_dir(dir, &err), LUO_OK);
    luo_table_def def = *luo_table_def_at(LUO_TABLE_SWEEP);
    def.file = "rows.csv";
    luo_diags_init(&diags, arena);
    ck_assert_int_eq(luo_table_open(&table, dir, &def, &err), LUO_OK);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(luo_sweep_put(arena, &table, &grid, &put[i], &err), LUO_OK);
    ck_assert_int_eq(luo_table_close(&table, &err), LUO_OK);
    for (int again = 0; again < 2; again++) /* what is there already is not taken twice */
        ck_assert_int_eq(luo_sweep_read(arena, dir, "rows.csv", &grid, &rows, &diags), LUO_OK);
    ck_assert_int_eq(rows.n, 2);
    ck_assert_int_eq(luo_sweep_find(&rows, 5), 0);
    ck_assert_int_eq(luo_sweep_find(&rows, 2), -1);
    ck_assert_str_eq(rows.at[1].policy, "restart");
    luo_sweep_sort(&rows);
    ck_assert_int_eq(luo_sweep_write(arena, dir, &grid, &rows, &err), LUO_OK);
    luo_source text;
    ck_assert_int_eq(
        luo_source_read(arena, luo_arena_printf(arena, "%s/sweep.csv", dir), &text, &err), LUO_OK);
    ck_assert_str_eq(
        text.text,
        "cell,seed,policies,policy,state,steps,total_s,step_mean_s,low_s,high_s,"
        "goodput_tokens_per_s,mfu_ratio,lost_s,peak_memory_ratio,error,a,b\n"
        "1,3,2,static,complete,4,10.000000000,2.500000000,,,3333333.333,0.250000,1.000000000,"
        "0.500000,,1,'=y\n"
        "1,3,2,restart,complete,4,10.000000000,2.500000000,,,2.000,0.250000,1.000000000,"
        "0.500000,,1,'=y\n");
    luo_sweep_rows_free(&rows);
    fix_remove(arena, dir);
    luo_arena_free(arena);
}
END_TEST

/* ---- the answer ---- */

typedef struct sample {
    luo_arena *arena;
    luo_sweep_grid grid;
    luo_sweep_rows rows;
} sample;

/* Goodput of policy p in cell c under seed s; two policies, all units. */
static sample sample_of(double (*goodput)(int64_t c, int32_t s, int32_t p))
{
    static const char *const policies[] = {"static", "oracle"};
    sample x = {.arena = luo_arena_new(1 << 16)};
    x.grid = small_grid(x.arena);
    x.rows.at = malloc(24 * sizeof *x.rows.at);
    for (int64_t c = 0; c < 4; c++)
        for (int32_t s = 0; s < 3; s++)
            for (int32_t p = 0; p < 2; p++)
                x.rows.at[x.rows.n++] = row_of(c, s, policies[p], goodput(c, s, p));
    return x;
}

static void drop(sample *x)
{
    luo_sweep_rows_free(&x->rows);
    luo_arena_free(x->arena);
}

/* exp(a) * exp(b): of the variance of the logarithm a has 4 parts, b 1, and seeds none. */
static double product(int64_t c, int32_t s, int32_t p)
{
    (void)s;
    return 1000 * exp(2.0 * (double)(c / 2) + 1.0 * (double)(c % 2)) * (p ? 10 : 1);
}

START_TEST(factors)
{
    static const char *const bounds[] = {"oracle"};
    sample x = sample_of(product);
    luo_sweep_answer a;
    luo_str text = {0};
    luo_err err = {0};
    ck_assert_int_eq(luo_sweep_judge(x.arena, &x.grid, &x.rows, bounds, 1, &a, &err), LUO_OK);
    ck_assert_int_eq(a.nfactors, 2);
    ck_assert_str_eq(a.factor[0].name, "a");
    ck_assert_double_eq_tol(a.factor[0].share, 0.8, 1e-12);
    ck_assert_double_eq_tol(a.factor[1].share, 0.2, 1e-12);
    ck_assert_int_eq(a.best->cell, 3); /* and not what only bounds it */
    ck_assert_str_eq(a.best->policy, "static");
    ck_assert_int_eq(a.next->cell, 2);
    ck_assert_int_eq(a.rivals, 3);
    ck_assert_int_eq(luo_sweep_say(x.arena, &x.grid, &a, &text, &err), LUO_OK);
    ck_assert_msg(strstr(luo_str_get(&text),
                         "`a=2, b==y, static` keeps 171.8 % more than `a=2, b=x, static` in each "
                         "of 3 seeds"),
                  "%s", luo_str_get(&text));
    ck_assert_ptr_nonnull(strstr(luo_str_get(&text),
                                 "Goodput depends most on `a`: it explains 80 % of the variance of "
                                 "the logarithm, `b` 20 %.\n"));
    luo_str_free(&text);
    drop(&x);
}
END_TEST

static double drawn(int64_t c, int32_t s, int32_t p)
{
    static const double of[4][3] = {{10, 12, 14}, {11, 13, 15.5}, {9, 9, 9}, {8, 8, NAN}};
    return of[c][s] * (p ? 0.5 : 1);
}

/* Means by hand: 12 and 13.1667; differences 1, 1, 1.5: mean 1.1667, t = 7 of 2 degrees. */
START_TEST(lead)
{
    sample x = sample_of(drawn);
    luo_sweep_answer a;
    luo_str text = {0};
    luo_err err = {0};
    ck_assert_int_eq(luo_sweep_judge(x.arena, &x.grid, &x.rows, NULL, 0, &a, &err), LUO_OK);
    ck_assert_int_eq(a.best->cell, 1);
    ck_assert_int_eq(a.next->cell, 0);
    ck_assert_int_eq(a.failed, 2);
    ck_assert_int_eq(a.rivals, 5); /* of the fourth cell a seed has no figures */
    ck_assert_int_eq(a.lead.ahead, 3);
    ck_assert_double_eq_tol(a.lead.difference.mean, 7.0 / 6, 1e-12);
    ck_assert_double_eq_tol(a.lead.difference.p, 1 - luo_stats_student_within(2, 7), 1e-9);
    ck_assert_int_eq(luo_sweep_say(x.arena, &x.grid, &a, &text, &err), LUO_OK);
    ck_assert_msg(strstr(luo_str_get(&text), "corrected for 5 rivals"), "%s", luo_str_get(&text));
    ck_assert_msg(strstr(luo_str_get(&text), "2 of 24 runs have no figures; the first, cell 3, "),
                  "%s", luo_str_get(&text));
    luo_str_free(&text);
    drop(&x);
}
END_TEST

/* ---- the least value ---- */

static const struct {
    const char *text;
    bool good;
    int sign;
    bool strict;
    double limit;
} conditions[] = {
    {"goodput>=5e5", true, 1, false, 5e5}, {"step_s<0.5", true, -1, true, 0.5},
    {"memory<=0.9", true, -1, false, 0.9}, {"mfu>0", true, 1, true, 0},
    {"state=complete", true, 0, false, 0}, {"lost<=x", false, 0, false, 0},
    {"goodput=3", false, 0, false, 0},     {"speed>3", false, 0, false, 0},
    {"goodput>=", false, 0, false, 0},     {"", false, 0, false, 0},
};

START_TEST(condition)
{
    luo_sweep_condition c;
    luo_err err = {0};
    const luo_status st = luo_sweep_read_condition(conditions[_i].text, &c, &err);
    ck_assert_int_eq(st, conditions[_i].good ? LUO_OK : LUO_EUSAGE);
    if (!conditions[_i].good) {
        char says[256];
        snprintf(says, sizeof says,
                 "`--least` is `%s`; a condition such as goodput>=5e5 is expected, on step_s, "
                 "goodput, mfu, lost or memory, or state=complete.",
                 conditions[_i].text);
        ck_assert_str_eq(err.text, says);
        return;
    }
    ck_assert_int_eq(c.sign, conditions[_i].sign);
    ck_assert_int_eq(c.strict, conditions[_i].strict);
    ck_assert_double_eq(c.limit, conditions[_i].limit);
}
END_TEST

START_TEST(holding)
{
    sample x = sample_of(drawn);
    luo_sweep_answer a;
    luo_sweep_condition c;
    const luo_sweep_case *which;
    luo_err err = {0};
    ck_assert_int_eq(luo_sweep_judge(x.arena, &x.grid, &x.rows, NULL, 0, &a, &err), LUO_OK);
    ck_assert_int_eq(luo_sweep_read_condition("goodput>=12", &c, &err), LUO_OK);
    ck_assert(luo_sweep_holds(&c, &a, 0, &which));
    ck_assert_str_eq(which->policy, "static");
    ck_assert(!luo_sweep_holds(&c, &a, 2, &which));
    ck_assert_double_eq(luo_sweep_quantity(&c, which), 9); /* the nearest of both */
    ck_assert_int_eq(luo_sweep_read_condition("goodput>12", &c, &err), LUO_OK);
    ck_assert(!luo_sweep_holds(&c, &a, 0, &which));
    ck_assert(!luo_sweep_holds(&c, &a, 77, &which) && !which);
    drop(&x);
}
END_TEST

/* Halves find what looking at every value finds, where it holds from one value on. */
START_TEST(search)
{
    int64_t found = 0, none = 0;
    LUO_PROP_FOR(seed, 2000)
    {
        luo_rng rng = luo_rng_seed(seed);
        const int64_t n = 1 + (int64_t)(luo_rng_next(&rng) % 300);
        const int64_t from = (int64_t)(luo_rng_next(&rng) % (uint64_t)(n + 1)); /* n: nowhere */
        luo_sweep_search s = {.n = n, .lo = -1, .hi = n, .first = -1, .last = -1};
        int64_t cell;
        int asked = 0;
        while ((cell = luo_sweep_next(&s)) >= 0) {
            ck_assert_msg(cell < n && ++asked < 14, "LUO_SEED=%llu", (unsigned long long)seed);
            luo_sweep_tell(&s, cell, cell >= from);
        }
        ck_assert_msg(s.hi == from, "LUO_SEED=%llu: %lld of %lld", (unsigned long long)seed,
                      (long long)s.hi, (long long)from);
        found += from < n;
        none += from == n;
    }
    ck_assert(found > 0 && none > 0);
}
END_TEST

LUO_SUITE("io.sweep", LUO_T_N(key_values, LUO_ROWS(keys)), LUO_T(cells), LUO_T(journal),
          LUO_T(factors), LUO_T(lead), LUO_T_N(condition, LUO_ROWS(conditions)), LUO_T(holding),
          LUO_T(search))
