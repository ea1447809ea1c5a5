/* check_hap_balance.c: shares by linear programmes: HL1 to HL7 as coefficients, HN7 and HN8 of a
 * program, segments HG1 to HG3. */
#include <math.h>

#include "core/plan/hap/alternate.h"
#include "core/plan/hap/balance.h"
#include "tests/check_main.h"
#include "tests/parked/hap_graphs.h"

typedef struct raw {
    const char *id;
    int32_t ntypes, count[3];
    double speed[3], full, split, most; /* most: seconds per largest share */
    double bytes, limit[3];             /* bytes 0: memory does not matter */
    double seconds, share[3];           /* seconds -1: nothing fits */
} raw;

static const raw rows[] = {
    {"HL1, S 1", 2, {1, 1}, {3, 1}, 0, 6, 2, 0, {0}, 3, {.75, .25}},
    {"HL1, S 4", 2, {1, 1}, {3, 1}, 0, 6, 8, 0, {0}, 7, {.5, .5}},
    {"HL1, S 3", 2, {1, 1}, {3, 1}, 0, 6, 6, 0, {0}, 6, {.5, .5}},
    {"HL2", 2, {1, 1}, {3, 1}, 3, 6, 0, 0, {0}, 3, {1, 0}},
    {"HL3", 2, {2, 2}, {3, 1}, 0, 12, 0, 0, {0}, 1.5, {.375, .125}},
    {"HL4", 2, {2, 2}, {3, 1}, 0, 12, 0, 1000, {300, 1e9}, 2.4, {.3, .2}},
    {"HL5", 2, {2, 2}, {3, 1}, 0, 12, 0, 100, {10, 10}, -1, {0}},
    {"HL6", 2, {2, 2}, {3, 1}, 0, 12000, 0, 0, {0}, 1500, {.375, .125}},
    {"HL7",
     3,
     {1, 2, 1},
     {4, 2, 1},
     0,
     16,
     5,
     0,
     {0},
     3.7142857143,
     {.2857142857, .2857142857, .1428571429}},
};

START_TEST(coefficients)
{
    const raw *row = &rows[_i];
    luo_arena *a = luo_arena_new(0);
    luo_hap_lp_stage stage = {0};
    double shares[3], seconds = -1;
    luo_err err = {0};
    const luo_hap_lp lp = {.ntypes = row->ntypes,
                           .nsegments = 1,
                           .nstages = 1,
                           .count = row->count,
                           .stage = &stage,
                           .most_s = &row->most,
                           .share_bytes = row->bytes > 0 ? &row->bytes : NULL,
                           .limit_bytes = row->limit};
    for (int32_t t = 0; t < row->ntypes; t++) {
        stage.full_s[t] = row->full / row->speed[t];
        stage.split_s[t] = row->split / row->speed[t];
    }
    const luo_status st = luo_hap_balance_raw(a, &lp, shares, &seconds, &err);
    if (row->seconds < 0) {
        ck_assert_int_eq(st, LUO_EINFEASIBLE);
        ck_assert_str_eq(err.text, "no feasible shares under the memory limits.");
    } else {
        ck_assert_int_eq(st, LUO_OK);
        ck_assert_msg(fabs(seconds - row->seconds) < 1e-9 * row->seconds + 1e-10, "%s: %.12g",
                      row->id, seconds);
        for (int32_t t = 0; t < row->ntypes; t++)
            ck_assert_msg(fabs(shares[t] - row->share[t]) < 1e-6, "%s: type %d: %.9g", row->id, t,
                          shares[t]);
    }
    luo_arena_free(a);
}
END_TEST

static luo_hap_numbers hn7(void)
{
    luo_hap_numbers numbers = luo_hap_graphs_toy(NULL, (double[]){10000, 1000}, 1, 40, 40, 40);
    for (int t = 0; t < 2; t++) numbers.speed[t][LUO_HAP_ON_ELT] = 1e9;
    return numbers;
}

static luo_hap_numbers hn8(void)
{
    luo_hap_numbers numbers = luo_hap_graphs_toy(NULL, (double[]){1000, 100}, 1, 40, 20, 80);
    numbers.line[LUO_HAP_LINK_AG].latency_s = numbers.line[LUO_HAP_LINK_RS].latency_s = .5;
    numbers.line[LUO_HAP_LINK_AG_GROUPED] = numbers.line[LUO_HAP_LINK_RS_GROUPED] =
        (luo_hap_line){.25, 38};
    numbers.line[LUO_HAP_LINK_AR].latency_s = 1;
    numbers.line[LUO_HAP_LINK_A2A].latency_s = .5;
    for (int t = 0; t < 2; t++) numbers.speed[t][LUO_HAP_ON_ELT] = 1e9;
    return numbers;
}

static const struct {
    const char *id;
    luo_hap_numbers (*numbers)(void);
    luo_hap_mlp_in graph;
    double seconds;
} values[] = {{"HN7", hn7, {4, 2, {16, 32, 32}, false, false, false}, 28.57891347},
              {"HN8", hn8, {64, 2, {64, 16, 64}, false, false, false}, 839.9608437}};

START_TEST(values_of_programs)
{
    luo_arena *a = luo_arena_new(0);
    const luo_hap_numbers numbers = values[_i].numbers();
    const luo_hap_graph *graph = luo_hap_graphs_mlp(a, &values[_i].graph);
    const luo_hap_job job = {0};
    luo_hap_result *result;
    double shares[2], seconds;
    ck_assert_int_eq(luo_hap_alternate(a, graph, &numbers, &job, &result, NULL), LUO_OK);
    ck_assert_int_eq(luo_hap_balance(a, result->program, &numbers, false, result->shares, shares,
                                     &seconds, NULL),
                     LUO_OK);
    ck_assert_msg(fabs(seconds - values[_i].seconds) < 1e-8 * seconds, "%s: %.12g", values[_i].id,
                  seconds);
    luo_arena_free(a);
}
END_TEST

static const struct {
    const char *id;
    double p2p;
    int32_t count;
    double cost, share[4];
    const char *text;
} segments[] = {
    {"HG1", 1, 1, 7.680000514, {.5, .5, .5, .5}, NULL},
    {"HG2", 400, 1, 7.104000514, {.75, .25, .5, .5}, "b w0:I/AR\nb h0:RE0 w1:I/AR\nb\n"},
    {"HG3", 1e6, 2, 3.072384513, {.375, .125, .25, .25}, NULL},
};

START_TEST(segment_row)
{
    luo_arena *a = luo_arena_new(0);
    const luo_hap_mlp_in in = {24, 2, {8, 8, 8}, false, true, true};
    luo_hap_graph *graph = luo_hap_graphs_mlp(a, &in);
    luo_hap_graph_segment(graph, 1, 1);
    const int32_t count[] = {segments[_i].count, segments[_i].count};
    luo_hap_numbers numbers = luo_hap_graphs_toy(count, (double[]){1000, 1000}, 0, 1e9, 1e9, 1e9);
    for (int t = 0; t < 2; t++) numbers.speed[t][LUO_HAP_ON_ELT] = 1e12;
    numbers.speed[0][LUO_HAP_ON_CONV] = 3000;
    numbers.line[LUO_HAP_LINK_P2P].bandwidth_bytes_s = segments[_i].p2p;
    const luo_hap_job job = {.opts = {.rules = "b"}};
    luo_hap_result *result;
    luo_str text = {0};
    ck_assert_int_eq(luo_hap_alternate(a, graph, &numbers, &job, &result, NULL), LUO_OK);
    luo_hap_program_print(&text, result->program);
    ck_assert_msg(fabs(result->cost_s - segments[_i].cost) < 1e-9 * segments[_i].cost,
                  "%s: %.12g\n%s", segments[_i].id, result->cost_s, luo_str_get(&text));
    for (int i = 0; i < 4; i++)
        ck_assert_msg(fabs(result->shares[i] - segments[_i].share[i]) < 1e-6, "%s: %d: %.9g",
                      segments[_i].id, i, result->shares[i]);
    if (segments[_i].text) ck_assert_str_eq(luo_str_get(&text), segments[_i].text);
    if (_i == 0) /* HG1 at the shares of start prop */
        ck_assert_double_eq_tol(result->round[0].program_s, 390.1440005, 1e-6);
    luo_str_free(&text);
    luo_arena_free(a);
}
END_TEST

/* HG4: all of it from the first two devices to the last two. In truth each sends or receives 4 of
 * 8; the programme counts what passes a device's boundaries: 8. */
START_TEST(bound_of_a_reshare)
{
    luo_arena *a = luo_arena_new(0);
    const luo_hap_lp_stage stages[] = {{0, {0}, {0, 1000}}, {1, {0}, {1000, 0}}};
    const luo_hap_lp_pair move = {0, 1, 8};
    const int32_t count[] = {2, 2};
    const luo_hap_lp lp = {.ntypes = 2,
                           .nsegments = 2,
                           .nstages = 2,
                           .nmoves = 1,
                           .count = count,
                           .stage = stages,
                           .move = &move};
    double shares[4], seconds;
    ck_assert_int_eq(luo_hap_balance_raw(a, &lp, shares, &seconds, NULL), LUO_OK);
    ck_assert_double_eq_tol(shares[0], .5, 1e-6);
    ck_assert_double_eq_tol(shares[3], .5, 1e-6);
    ck_assert_double_eq_tol(seconds, 8, 1e-6);
    luo_arena_free(a);
}
END_TEST

LUO_SUITE("hap.balance", LUO_T_N(coefficients, LUO_ROWS(rows)),
          LUO_T_N(values_of_programs, LUO_ROWS(values)), LUO_T_N(segment_row, LUO_ROWS(segments)),
          LUO_T(bound_of_a_reshare))
