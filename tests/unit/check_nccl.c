/* check_nccl.c: collectives against tables of NCCL measured elsewhere
 * (docs/cost-model.md#communication), by cross-validation: a row is predicted by
 * luo_cost_group from a profile that the other three quarters of its table alone made (curves taken
 * over, constants by luo_fit_net). The tables are third-party data and no part of this repository:
 * without the folder beside the checkout the tests print that they are skipped. */
#include <math.h>
#include <unistd.h>

#include "core/cost/fit/gpu_fit.h"
#include "core/io/result/csv.h"
#include "tests/cost_fixture.h"

#define DATA "../shared/data/micro/"
enum { FOLDS = 4, MOST = 1100, GROUPS = 64 };
#define WORST 3.0        /* no row is further off than this factor .. */
#define NCCL_MEAN 0.08   /* .. and the geometric mean error of a table is below this */
#define RATIO_MEAN 0.12  /* ratios that were read off plots and rounded to two digits */

#define NUMBER .limit = LUO_WITHIN(0, 1e18)

typedef struct row {
    double bytes, busbw; /* bytes/s */
} row;

typedef struct table { /* rows of one fabric, number of devices and algorithm */
    char name[96];
    int32_t nodes, devices;
    int n;
    row at[MOST];
} table;

typedef struct score {
    int n;
    double sum, worst, worst_bytes; /* |ln|; worst keeps its sign */
} score;

static bool skipped(const char *file)
{
    if (access(file, R_OK) == 0) return false;
    printf("skipped: %s is not there\n", file);
    return true;
}

static void add(score *s, double bytes, double predicted, double measured)
{
    const double e = log(predicted / measured);
    ck_assert(isfinite(e));
    s->n++;
    s->sum += fabs(e);
    if (fabs(e) > fabs(s->worst)) {
        s->worst = e;
        s->worst_bytes = bytes;
    }
}

static double mean(const score *s)
{
    return exp(s->sum / s->n) - 1;
}

static void join(score *all, const score *s)
{
    all->n += s->n;
    all->sum += s->sum;
    if (fabs(s->worst) > fabs(all->worst)) {
        all->worst = s->worst;
        all->worst_bytes = s->worst_bytes;
    }
}

static void say(const char *name, const score *s)
{
    printf("%-44s rows %4d, mean error %5.2f %%, worst %.2f times at %.0f bytes\n", name, s->n,
           100 * mean(s), exp(s->worst), s->worst_bytes);
}

static void demand(const char *name, const score *s, double bound)
{
    say(name, s);
    ck_assert_msg(mean(s) < bound, "%s: %.2f %%", name, 100 * mean(s));
    ck_assert_msg(fabs(s->worst) < log(WORST), "%s: %.2f times", name, exp(s->worst));
}

static int by_bytes(const void *a, const void *b)
{
    const row *x = a, *y = b;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* The rows of t outside the fold (-1: all) as a curve; p: at least t->n points. */
static luo_curve curve_of(const table *t, int fold, int32_t devices, luo_curve_point *p)
{
    int32_t n = 0;
    for (int i = 0; i < t->n; i++)
        if (fold < 0 || i % FOLDS != fold)
            p[n++] = (luo_curve_point){t->at[i].bytes, t->at[i].busbw};
    return (luo_curve){LUO_COLL_AR, devices, n, p};
}

typedef struct machine {
    luo_profile p;
    luo_curve curve;
    int32_t nodes, devices_per_node;
    double link, nic;
} machine;

/* Seconds of an all-reduce, or what else `coll` is, over the first `devices` devices. */
static double predict(machine *m, int coll, int32_t devices, double bytes)
{
    luo_arena *arena = luo_arena_new(0);
    luo_stack stack;
    luo_stack_default(&stack);
    m->p.ncurves = m->curve.n > 0;
    m->p.curves = &m->curve;
    luo_node_group g = luo_test_group("a", m->nodes, m->devices_per_node, &m->p);
    if (m->link > 0) g.scale_up_bytes_per_s = m->link;
    if (m->nic > 0) g.nic_bytes_per_s = m->nic;
    m->p.tables_bytes_per_s[LUO_CLASS_NVLINK] = g.scale_up_bytes_per_s;
    const luo_cluster c = luo_test_cluster(arena, &g, 1);
    const luo_cost_ctx ctx = {.cluster = &c, .stack = &stack, .dtype = LUO_BF16};
    int32_t *dev = LUO_NEW_N(arena, int32_t, devices);
    for (int32_t i = 0; i < devices; i++) dev[i] = i;
    const double s = luo_cost_group_seconds(&ctx, coll, dev, devices, (int64_t)bytes, 0);
    luo_arena_free(arena);
    return s;
}

static score one_node(table *t)
{
    static luo_curve_point points[MOST];
    score s = {0};
    qsort(t->at, (size_t)t->n, sizeof *t->at, by_bytes);
    for (int fold = 0; fold < FOLDS; fold++) {
        machine m = {.p = luo_ref_profile(), .nodes = 1, .devices_per_node = t->devices,
                     .curve = curve_of(t, fold, t->devices, points)};
        for (int i = fold; i < t->n; i += FOLDS) {
            const row *r = &t->at[i];
            add(&s, r->bytes, predict(&m, LUO_COLL_AR, t->devices, r->bytes),
                luo_cost_volume(LUO_COLL_AR, t->devices) * r->bytes / r->busbw);
        }
    }
    return s;
}

/* ---- vTrain's tables: time in ns ---- */

static const struct {
    const char *file;
    int rows;
} vtrain[] = {{DATA "vtrain_allreduce_a100.csv", 3072}, {DATA "vtrain_allreduce_v100.csv", 77}};

START_TEST(vtrain_rows)
{
    static const luo_csv_column columns[] = {
        {.name = "gpus", .type = LUO_CSV_NUMBER, .required = true, NUMBER},
        {.name = "bytes", .type = LUO_CSV_NUMBER, .required = true, NUMBER},
        {.name = "time_out_of_place_ns", .type = LUO_CSV_NUMBER, .required = true, NUMBER},
        {.name = "gpu", .type = LUO_CSV_TEXT},
        {.name = "op", .type = LUO_CSV_TEXT},
        {.name = "time_in_place_ns", .type = LUO_CSV_NUMBER, NUMBER}};
    static table t[9];
    luo_diags diags = {0};
    luo_csv_cell c[LUO_ROWS(columns)];
    score all = {0};
    if (skipped(vtrain[_i].file)) return;
    luo_csv *csv = luo_csv_open_path(vtrain[_i].file, columns, LUO_ROWS(columns), &diags);
    while (luo_csv_next(csv, c)) {
        const int32_t n = (int32_t)c[0].number;
        ck_assert(n >= 2 && n <= 8 && t[n].n < MOST);
        t[n].devices = n;
        t[n].at[t[n].n++] = (row){
            c[1].number, luo_cost_volume(LUO_COLL_AR, n) * c[1].number / (1e-9 * c[2].number)};
    }
    ck_assert_int_eq(luo_csv_close(csv), LUO_OK);
    for (int32_t n = 2; n <= 8; n++) {
        if (t[n].n == 0) continue;
        const score s = one_node(&t[n]);
        snprintf(t[n].name, sizeof t[n].name, "%.5s, %d devices", strrchr(vtrain[_i].file, '_') + 1,
                 n);
        demand(t[n].name, &s, NCCL_MEAN);
        join(&all, &s);
    }
    ck_assert_int_eq(all.n, vtrain[_i].rows);
    demand(vtrain[_i].file, &all, NCCL_MEAN);
}
END_TEST

/* ---- nccl_busbw.csv ---- */

static table groups[GROUPS];
static int ngroups;

static double number_of(const char *text)
{
    char *end;
    const double x = strtod(text, &end);
    return end != text && *end == 0 ? x : NAN;
}

/* Digits that tell something: 0.01 has one. */
static int digits(const char *text)
{
    int n = 0;
    for (; *text; text++) n += *text >= '0' && *text <= '9' && (n > 0 || *text != '0');
    return n;
}

static table *group_of(const char *name, int32_t nodes, int32_t devices)
{
    for (int i = 0; i < ngroups; i++)
        if (strcmp(groups[i].name, name) == 0 && groups[i].nodes == nodes &&
            groups[i].devices == devices)
            return &groups[i];
    ck_assert_int_lt(ngroups, GROUPS);
    table *t = &groups[ngroups++];
    snprintf(t->name, sizeof t->name, "%s", name);
    t->nodes = nodes;
    t->devices = devices;
    return t;
}

/* Rows whose size or bandwidth is text, or a bandwidth of one digit (half of it may be rounding),
 * are counted and left out. Returns how many were left out. */
static int read_nccl(void)
{
    static const luo_csv_column columns[] = {
        {.name = "gpu_fabric", .type = LUO_CSV_TEXT}, {.name = "nodes", .type = LUO_CSV_TEXT},
        {.name = "gpus", .type = LUO_CSV_TEXT},       {.name = "op", .type = LUO_CSV_TEXT},
        {.name = "algo", .type = LUO_CSV_TEXT},       {.name = "bytes", .type = LUO_CSV_TEXT},
        {.name = "busbw_GBps", .type = LUO_CSV_TEXT}, {.name = "algbw_GBps", .type = LUO_CSV_TEXT},
        {.name = "source", .type = LUO_CSV_TEXT},     {.name = "note", .type = LUO_CSV_TEXT}};
    luo_diags diags = {0};
    luo_csv_cell c[LUO_ROWS(columns)];
    int text = 0, coarse = 0;
    luo_csv *csv = luo_csv_open_path(DATA "nccl_busbw.csv", columns, LUO_ROWS(columns), &diags);
    while (luo_csv_next(csv, c)) {
        char name[96];
        const double bytes = number_of(c[5].text), busbw = number_of(c[6].text);
        if (!(bytes > 0) || !(busbw > 0)) {
            text++;
            continue;
        }
        if (digits(c[6].text) < 2) {
            printf("left out: `%s` GB/s at %s bytes of %s has one digit\n", c[6].text, c[5].text,
                   c[0].text);
            coarse++;
            continue;
        }
        snprintf(name, sizeof name, "%.40s %.20s %.20s", c[0].text,
                 strncmp(c[3].text, "collective", 10) == 0 ? "all_reduce" : c[3].text, c[4].text);
        table *t = group_of(name, (int32_t)number_of(c[1].text), (int32_t)number_of(c[2].text));
        t->at[t->n++] = (row){bytes, 1e9 * busbw};
    }
    ck_assert_int_eq(luo_csv_close(csv), LUO_OK);
    printf("left out: %d rows with a size or bandwidth that is text\n", text);
    return text + coarse;
}

/* Several nodes: e_n, x0 and the step from the other rows, inside the nodes the curve of one. */
static score several_nodes(table *t, const table *inside, double nic)
{
    static luo_curve_point points[MOST];
    score s = {0};
    const int32_t each = t->devices / t->nodes;
    qsort(t->at, (size_t)t->n, sizeof *t->at, by_bytes);
    machine m = {.p = luo_ref_profile(), .nodes = t->nodes, .devices_per_node = each, .nic = nic,
                 .curve = curve_of(inside, -1, each, points)};
    machine alone = m;
    alone.nodes = 1;
    const double more = luo_cost_volume(LUO_COLL_AR, t->devices);
    for (int fold = 0; fold < FOLDS; fold++) {
        luo_net_row rows[MOST];
        int32_t n = 0;
        for (int i = 0; i < t->n; i++)
            if (i % FOLDS != fold)
                rows[n++] = (luo_net_row){
                    LUO_COLL_AR, t->nodes, each, 1, each * nic, t->at[i].bytes,
                    more * t->at[i].bytes / t->at[i].busbw,
                    more / luo_cost_volume(LUO_COLL_AR, each) *
                        predict(&alone, LUO_COLL_AR, each, t->at[i].bytes)};
        const luo_net_fitted f = luo_fit_net(rows, n);
        m.p.net_ratio = f.net_ratio;
        m.p.net_half_bytes = f.net_half_bytes;
        m.p.net_step_s = f.net_step_s;
        printf("fold %d: net_ratio %.3f, net_half_bytes %.3g, net_step_us %.1f\n", fold,
               f.net_ratio, f.net_half_bytes, 1e6 * f.net_step_s);
        for (int i = fold; i < t->n; i += FOLDS)
            add(&s, t->at[i].bytes, predict(&m, LUO_COLL_AR, t->devices, t->at[i].bytes),
                more * t->at[i].bytes / t->at[i].busbw);
    }
    return s;
}

/* Single rows of a GPU type: NVLS, where it is used, is what that type's curve of 8 has; rings are
 * the formula without a table. */
static const struct {
    const char *fabric, *curve;
    double link;
} singles[] = {{"H200 NVLink4 ", "H200 8x NVLink4 all_reduce default (NVLS)", 450e9},
               {"B200 NVLink5 ", "B200 8x NVLink5 all_reduce default", 900e9}};

static score single(table *t)
{
    static luo_curve_point points[MOST];
    score s = {0};
    for (int k = 0; k < LUO_ROWS(singles); k++) {
        if (strncmp(t->name, singles[k].fabric, strlen(singles[k].fabric)) != 0) continue;
        table *whole = group_of(singles[k].curve, 1, 8);
        ck_assert_int_gt(whole->n, 10);
        machine m = {.p = luo_ref_profile(), .nodes = 1, .devices_per_node = t->devices,
                     .link = singles[k].link};
        if (t->devices == 8 && !strstr(t->name, "ring")) m.curve = curve_of(whole, -1, 8, points);
        const int coll = strstr(t->name, "all_gather")       ? LUO_COLL_AG
                         : strstr(t->name, "reduce_scatter") ? LUO_COLL_RS
                                                             : LUO_COLL_AR;
        for (int i = 0; i < t->n; i++)
            add(&s, t->at[i].bytes, predict(&m, coll, t->devices, t->at[i].bytes),
                luo_cost_volume(coll, t->devices) * t->at[i].bytes / t->at[i].busbw);
    }
    return s;
}

START_TEST(nccl_rows)
{
    score all = {0}, alone = {0};
    if (skipped(DATA "nccl_busbw.csv")) return;
    const int left = read_nccl();
    table *b200 = group_of("B200 8x NVLink5 all_reduce default", 1, 8);
    const int n = ngroups;
    for (int i = 0; i < n; i++) {
        table *t = &groups[i];
        score s = {0};
        if (t->n < FOLDS) {
            s = single(t);
            ck_assert_msg(s.n == t->n, "nothing predicts %s", t->name);
            join(&alone, &s);
            continue;
        }
        s = t->nodes > 1 ? several_nodes(t, b200, 50e9) : one_node(t);
        say(t->name, &s);
        join(&all, &s);
    }
    demand("single rows", &alone, NCCL_MEAN);
    join(&all, &alone);
    ck_assert_int_eq(all.n + left, 107);
    demand(DATA "nccl_busbw.csv", &all, NCCL_MEAN);
}
END_TEST

/* ---- simai_busbw_ratio.csv: several nodes, as shares of the NICs ---- */

enum { RATIOS = 128 };

/* The table does not tell all-reduces from all-gathers and reduce-scatters: each stands for all. */
START_TEST(ratios_of_several_nodes)
{
    static const luo_coll colls[] = {LUO_COLL_AR, LUO_COLL_AG};
    const luo_coll coll = colls[_i];
    static const luo_csv_column columns[] = {
        {.name = "table", .type = LUO_CSV_TEXT, .required = true},
        {.name = "bytes", .type = LUO_CSV_NUMBER, .required = true, NUMBER},
        {.name = "topology", .type = LUO_CSV_TEXT, .required = true},
        {.name = "ratio_of_peak_busbw", .type = LUO_CSV_NUMBER, .required = true, NUMBER}};
    const double peak = 200e9; /* cancels, but for the least step of luo_fit_net */
    luo_net_row rows[RATIOS];
    luo_diags diags = {0};
    luo_csv_cell c[LUO_ROWS(columns)];
    int32_t n = 0;
    score s = {0};
    if (skipped(DATA "simai_busbw_ratio.csv")) return;
    luo_csv *csv = luo_csv_open_path(DATA "simai_busbw_ratio.csv", columns, LUO_ROWS(columns),
                                     &diags);
    while (luo_csv_next(csv, c)) {
        const int32_t nodes = (int32_t)strtol(c[2].text, NULL, 10);
        if (strcmp(c[0].text, "nic_ratio") != 0 || nodes < 2) continue;
        ck_assert_int_lt(n, RATIOS);
        rows[n++] = (luo_net_row){coll, nodes, 8, 1, peak, c[1].number,
                                  luo_cost_volume(coll, nodes) * c[1].number /
                                      (peak * c[3].number), 0};
    }
    ck_assert_int_eq(luo_csv_close(csv), LUO_OK);
    ck_assert_int_eq(n, 77);
    for (int fold = 0; fold < FOLDS; fold++) {
        luo_net_row other[RATIOS];
        int32_t m = 0;
        for (int32_t i = 0; i < n; i++)
            if (i % FOLDS != fold) other[m++] = rows[i];
        const luo_net_fitted f = luo_fit_net(other, m);
        for (int32_t i = fold; i < n; i += FOLDS) {
            machine k = {.p = luo_ref_profile(), .nodes = rows[i].nodes, .devices_per_node = 8,
                         .nic = peak / 8, .link = 1e15};
            k.p.net_ratio = f.net_ratio;
            k.p.net_half_bytes = f.net_half_bytes;
            k.p.net_step_s = f.net_step_s;
            add(&s, rows[i].bytes,
                predict(&k, coll, 8 * rows[i].nodes, rows[i].bytes), rows[i].seconds);
        }
        printf("%s, fold %d: net_ratio %.3f, net_half_bytes %.3g, net_step_us %.1f\n",
               luo_coll_name(coll), fold,
               f.net_ratio, f.net_half_bytes, 1e6 * f.net_step_s);
    }
    demand(DATA "simai_busbw_ratio.csv", &s, RATIO_MEAN);
}
END_TEST

LUO_SUITE("nccl", LUO_T_N(vtrain_rows, LUO_ROWS(vtrain)), LUO_T(nccl_rows),
          LUO_T_N(ratios_of_several_nodes, 2))
