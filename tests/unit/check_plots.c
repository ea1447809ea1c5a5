/* check_plots.c: figures of a set and of a run, twice with equal bytes; runs with
 * nothing to show; what is said when gnuplot is missing or fails. Run from the root of the
 * repository. */
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/io/compare/compare.h"
#include "core/io/files.h"
#include "core/io/plot/plots.h"
#include "tests/check_main.h"
#include "tests/plots_fixture.h"

static bool skip(void)
{
    if (luo_plot_possible(NULL)) return false;
    printf("skipped: gnuplot is not installed\n");
    return true;
}

static void no_words(const luo_diags *d)
{
    for (const luo_diag *x = d->first; x; x = x->next) ck_abort_msg("%s", x->err.text);
}

static luo_status plot(fixture *f, const char *dir, const char *figure, luo_str *made, luo_diags *d)
{
    const luo_plot_opts o = {.dir = dir, .scripts = "plots", .figure = figure};
    luo_diags_init(d, f->arena);
    luo_str_clear(made);
    return luo_plot(f->arena, &o, made, d);
}

static uint64_t hash_of(const char *path)
{
    static char text[4 << 20];
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "%s is missing", path);
    const size_t n = fread(text, 1, sizeof text, file);
    fclose(file);
    ck_assert_uint_gt(n, 500);
    ck_assert_uint_lt(n, sizeof text);
    return luo_hash_bytes(LUO_HASH_EMPTY, text, n);
}

/* Hash over all files that were made, and their number. */
static uint64_t hash_all(const char *made, int *n)
{
    uint64_t h = LUO_HASH_EMPTY;
    char path[1024];
    *n = 0;
    for (const char *at = made; *at; at = strchr(at, '\n') + 1, ++*n) {
        snprintf(path, sizeof path, "%.*s", (int)strcspn(at, "\n"), at);
        const uint64_t one = hash_of(path);
        h = luo_hash_bytes(h, &one, sizeof one);
    }
    return h;
}

START_TEST(set)
{
    fixture *f = fix_new();
    const char *top = fix_dir(f->arena, "plots");
    const char *dir = luo_arena_printf(f->arena, "%s/it's a set", top); /* a name that needs care */
    const char *const paths[] = {luo_arena_printf(f->arena, "%s/static", dir),
                                 luo_arena_printf(f->arena, "%s/re_start", dir)};
    luo_str text = {0}, made = {0};
    luo_diags d;
    int n, again;
    if (skip()) return;
    fix_run(f, dir, "static", 40, 1, false);
    fix_run(f, dir, "re_start", 30, 1.5, false);
    const luo_compare_opts o = {.paths = paths, .npaths = 2, .out = dir};
    luo_diags_init(&d, f->arena);
    ck_assert_int_eq(luo_compare(f->arena, &o, &text, &d), LUO_OK);
    ck_assert_int_eq(plot(f, dir, NULL, &made, &d), LUO_OK);
    no_words(&d);
    const uint64_t first = hash_all(luo_str_get(&made), &n);
    ck_assert_int_eq(n, 3 * (5 + 2 * 5)); /* SVG, PNG, PDF; five of the set, five of each run */
    ck_assert_int_eq(plot(f, dir, NULL, &made, &d), LUO_OK);
    ck_assert_uint_eq(hash_all(luo_str_get(&made), &again), first);
    luo_str_free(&text);
    luo_str_free(&made);
    fix_remove(f->arena, top);
    luo_arena_free(f->arena);
}
END_TEST

/* One run alone, without events, trace, switches or traffic: figures without data are left out and
 * no script stumbles. */
START_TEST(bare)
{
    fixture *f = fix_new();
    const char *dir = fix_dir(f->arena, "bare");
    const char *run = luo_arena_printf(f->arena, "%s/static", dir);
    luo_str made = {0};
    luo_diags d;
    int n;
    if (skip()) return;
    fix_run(f, dir, "static", 3, 1, true);
    ck_assert_int_eq(plot(f, run, NULL, &made, &d), LUO_OK);
    no_words(&d);
    hash_all(luo_str_get(&made), &n);
    ck_assert_int_eq(n, 3 * 6);
    ck_assert_ptr_nonnull(strstr(made.at, "/static/plots/memory.png\n"));
    ck_assert_int_eq(plot(f, run, "memory", &made, &d), LUO_OK);
    hash_all(luo_str_get(&made), &n);
    ck_assert_int_eq(n, 3);
    ck_assert_int_eq(plot(f, run, "gantt", &made, &d), LUO_EINPUT);
    ck_assert_str_eq(d.first->err.text,
                     luo_arena_printf(f->arena, "`%s` holds no data for figure `gantt`.", run));
    luo_str_free(&made);
    fix_remove(f->arena, dir);
    luo_arena_free(f->arena);
}
END_TEST

START_TEST(faults)
{
    fixture *f = fix_new();
    const char *dir = fix_dir(f->arena, "faults");
    luo_str made = {0};
    luo_diags d;
    luo_plot_opts o = {.dir = dir, .scripts = "plots", .gnuplot = "no-such-gnuplot"};
    luo_diags_init(&d, f->arena);
    ck_assert_int_eq(luo_plot(f->arena, &o, &made, &d), LUO_EBACKEND);
    ck_assert_str_eq(d.first->err.text,
                     "`no-such-gnuplot` is not installed; figures need it (Debian: gnuplot-nox).");
    o.figure = "pie";
    luo_diags_init(&d, f->arena);
    ck_assert_int_eq(luo_plot(f->arena, &o, &made, &d), LUO_EUSAGE);
    if (skip()) return;
    fix_run(f, dir, "static", 3, 1, true);
    o = (luo_plot_opts){.dir = dir, .scripts = "/nonexistent", .figure = "stepcdf"};
    luo_diags_init(&d, f->arena);
    ck_assert_int_eq(luo_plot(f->arena, &o, &made, &d), LUO_EBACKEND);
    ck_assert_ptr_nonnull(strstr(d.first->err.text, "gnuplot failed on figure `stepcdf`"));
    ck_assert_ptr_nonnull(strstr(d.first->err.text, "Cannot load input"));
    luo_str_free(&made);
    fix_remove(f->arena, dir);
    luo_arena_free(f->arena);
}
END_TEST

/* Of a folder that holds a comparison and no run: drawn from its table, or nothing. */
START_TEST(predicted)
{
    static const char table[] = "suite,case,role,measured_s,predicted_s\nstep,0,,0.5,0.55\n"
                                "compute,a,,0.005,0.0055\ncollective,b,calibration,2e-4,3e-4\n";
    fixture *f = fix_new();
    const char *dir = fix_dir(f->arena, "predicted");
    const char *path = luo_arena_printf(f->arena, "%s/plots/predicted.csv", dir);
    const luo_plot_opts o = {.dir = dir, .scripts = "plots"};
    luo_str made = {0};
    luo_diags d;
    luo_err err;
    uint64_t first = 0;
    int n;
    if (skip()) return;
    luo_diags_init(&d, f->arena);
    ck_assert_int_eq(luo_plot_compared(f->arena, &o, "a beside b", &made, &d), LUO_OK);
    ck_assert_uint_eq(made.len, 0);
    ck_assert_int_eq(luo_file_write_atomic(path, table, strcspn(table, "\n") + 1, &err), LUO_OK);
    ck_assert_int_eq(luo_plot_compared(f->arena, &o, "a beside b", &made, &d), LUO_OK);
    ck_assert_uint_eq(made.len, 0);
    ck_assert_int_eq(luo_file_write_atomic(path, table, sizeof table - 1, &err), LUO_OK);
    for (int k = 0; k < 2; k++) {
        luo_str_clear(&made);
        ck_assert_int_eq(luo_plot_compared(f->arena, &o, "a beside b", &made, &d), LUO_OK);
        no_words(&d);
        const uint64_t h = hash_all(luo_str_get(&made), &n);
        ck_assert_int_eq(n, 3);
        ck_assert(k == 0 || h == first);
        first = h;
    }
    luo_str_free(&made);
    fix_remove(f->arena, dir);
    luo_arena_free(f->arena);
}
END_TEST

/* The figure goodput of several seeds. */
START_TEST(bands)
{
    static const char table[] =
        "run,t_s,kept_p10_tokens,kept_p50_tokens,kept_p90_tokens,ideal_tokens,"
        "kept_mean_tokens,kept_low95_tokens,kept_high95_tokens\n"
        "static,0,0,0,0,0,0,0,0\nstatic,50,40,45,48,50,44,42,46\n"
        "static,100,40,45,48,100,44,42,46\n"
        "restart,0,0,0,0,0,0,0,0\nrestart,50,44,45,46,50,45,44,46\n"
        "restart,100,90,92,95,100,92,91,93\n";
    fixture *f = fix_new();
    const char *dir = fix_dir(f->arena, "bands");
    static const char kept[] = "run,seed,t_s,kept_tokens,ideal_tokens\n"
                               "static,1,0,0,0\nstatic,1,50,45,50\nstatic,1,100,90,100\n"
                               "restart,1,0,0,0\nrestart,1,50,44,50\nrestart,1,100,92,100\n";
    static const char pairs[] =
        "run,other,seed,difference_ratio,mean_ratio,low95_ratio,high95_ratio\n";
    static const char pair[] = "restart,static,1,0.02,0.02,,\n";
    const char *path = luo_arena_printf(f->arena, "%s/plots/bands.csv", dir);
    const char *kept_path = luo_arena_printf(f->arena, "%s/plots/seeds_kept.csv", dir);
    const char *paired_path = luo_arena_printf(f->arena, "%s/plots/paired.csv", dir);
    const luo_plot_opts o = {.dir = dir, .scripts = "plots"};
    luo_str made = {0};
    luo_diags d;
    luo_err err;
    uint64_t first = 0;
    int n;
    if (skip()) return;
    luo_diags_init(&d, f->arena);
    ck_assert_int_eq(luo_plot_compared(f->arena, &o, "seeds", &made, &d), LUO_OK);
    ck_assert_uint_eq(made.len, 0);
    ck_assert_int_eq(luo_file_write_atomic(path, table, sizeof table - 1, &err), LUO_OK);
    ck_assert_int_eq(luo_file_write_atomic(kept_path, kept, sizeof kept - 1, &err), LUO_OK);
    for (int k = 0; k < 4; k++) { /* of one policy, then of two */
        const char *rows = luo_arena_printf(f->arena, "%s%s", pairs, k < 2 ? "" : pair);
        ck_assert_int_eq(luo_file_write_atomic(paired_path, rows, strlen(rows), &err), LUO_OK);
        luo_str_clear(&made);
        ck_assert_int_eq(luo_plot_compared(f->arena, &o, "seeds", &made, &d), LUO_OK);
        no_words(&d);
        const uint64_t h = hash_all(luo_str_get(&made), &n);
        ck_assert_int_eq(n, 3);
        ck_assert(k == 0 || (h == first) == (k != 2));
        first = h;
    }
    luo_str_free(&made);
    fix_remove(f->arena, dir);
    luo_arena_free(f->arena);
}
END_TEST

/* ---- distributions ---- */

static luo_status distribute(fixture *f, const char *dir, luo_plot_lengths *all, int32_t n,
                             luo_str *made, luo_diags *d)
{
    const luo_plot_opts o = {.dir = dir, .scripts = "plots"};
    luo_diags_init(d, f->arena);
    luo_str_clear(made);
    return luo_plot_distribution(f->arena, &o, all, n, made, d);
}

static const char *points_of(fixture *f, const char *dir)
{
    luo_source src;
    luo_err err;
    const char *path = luo_arena_printf(f->arena, "%s/plots/lengthcdf.csv", dir);
    ck_assert_int_eq(luo_source_read(f->arena, path, &src, &err), LUO_OK);
    return strchr(src.text, '\n') + 1;
}

/* 1, 1, 2 and 4 tokens: half of the sequences have a quarter of the tokens. */
START_TEST(points)
{
    static const int64_t given[] = {2, 1, 4, 1};
    static const luo_length_row rows[] = {{1, 3, 4}};
    const luo_lengths alone = {.kind = LUO_LENGTH_FILE, .ngiven = 4, .given = given};
    const luo_lengths classes = {.kind = LUO_LENGTH_HISTOGRAM, .nrows = 1, .rows = rows};
    luo_plot_lengths all[] = {{.name = "a,b", .from = "x", .lengths = &alone},
                              {.name = "c", .from = "y", .lengths = &classes}};
    fixture *f = fix_new();
    const char *dir = fix_dir(f->arena, "points");
    luo_str made = {0};
    luo_diags d;
    if (skip()) return;
    ck_assert_int_eq(distribute(f, dir, all, 2, &made, &d), LUO_OK);
    no_words(&d);
    ck_assert(all[0].sequences == 4 && all[0].mean == 2);
    ck_assert(all[1].sequences == 4 && all[1].mean == 1.5);
    ck_assert_str_eq(points_of(f, dir),
                     "1,\"a,b\",1,0.000000,0.000000\n1,\"a,b\",1,0.500000,0.250000\n"
                     "1,\"a,b\",2,0.500000,0.250000\n1,\"a,b\",2,0.750000,0.500000\n"
                     "1,\"a,b\",4,0.750000,0.500000\n1,\"a,b\",4,1.000000,1.000000\n"
                     "2,c,1,0.000000,0.000000\n2,c,1,0.500000,0.333333\n"
                     "2,c,2,1.000000,1.000000\n");
    luo_str_free(&made);
    fix_remove(f->arena, dir);
    luo_arena_free(f->arena);
}
END_TEST

/* A preset is labelled, thinned out, and the same twice. */
START_TEST(drawn)
{
    fixture *f = fix_new();
    const char *dir = fix_dir(f->arena, "drawn");
    luo_length_part parts[LUO_PRESET_PARTS];
    luo_lengths lengths;
    luo_str made = {0};
    luo_diags d;
    uint64_t first = 0;
    int n = 0, lines = 0;
    if (skip()) return;
    ck_assert(luo_length_preset("syn-web", 32768, parts, &lengths));
    luo_plot_lengths one = {.name = "syn-web", .from = "x", .lengths = &lengths, .seed = 3};
    for (int k = 0; k < 2; k++) {
        ck_assert_int_eq(distribute(f, dir, &one, 1, &made, &d), LUO_OK);
        no_words(&d);
        const uint64_t h = hash_all(luo_str_get(&made), &n);
        ck_assert_int_eq(n, 3);
        ck_assert(k == 0 || h == first);
        first = h;
    }
    const char *text = points_of(f, dir);
    ck_assert(strncmp(text, "1,syn-web (synthetic),", 22) == 0);
    for (const char *at = text; (at = strchr(at, '\n')); at++) lines++;
    ck_assert_int_gt(lines, 300);
    ck_assert_int_lt(lines, 2500);
    ck_assert_double_eq_tol(one.mean, 1380, 20);
    luo_str_free(&made);
    fix_remove(f->arena, dir);
    luo_arena_free(f->arena);
}
END_TEST

/* Of lengths there is one figure, and of runs it is none. */
START_TEST(other_figures)
{
    const luo_lengths lengths = {.kind = LUO_LENGTH_FIXED, .tokens = 7};
    luo_plot_lengths one = {.name = "seven", .from = "x", .lengths = &lengths};
    fixture *f = fix_new();
    const char *dir = fix_dir(f->arena, "other");
    luo_plot_opts o = {.dir = dir, .scripts = "plots", .figure = "gantt"};
    luo_str made = {0};
    luo_diags d;
    if (skip()) return;
    luo_diags_init(&d, f->arena);
    ck_assert_int_eq(luo_plot_distribution(f->arena, &o, &one, 1, &made, &d), LUO_EUSAGE);
    ck_assert_str_eq(d.first->err.text,
                     "figure `gantt` is of runs; of lengths `lengthcdf` is drawn.");
    o.figure = "lengthcdf";
    luo_diags_init(&d, f->arena);
    ck_assert_int_eq(luo_plot_distribution(f->arena, &o, &one, 1, &made, &d), LUO_OK);
    no_words(&d);
    ck_assert_str_eq(points_of(f, dir), "1,seven (synthetic),7,0.000000,0.000000\n"
                                        "1,seven (synthetic),7,1.000000,1.000000\n");
    luo_str_free(&made);
    fix_remove(f->arena, dir);
    luo_arena_free(f->arena);
}
END_TEST

LUO_SUITE("io.plots", LUO_T(set), LUO_T(bare), LUO_T(faults), LUO_T(predicted), LUO_T(bands),
          LUO_T(points), LUO_T(drawn), LUO_T(other_figures))
