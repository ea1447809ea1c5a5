#include "core/io/plot/plots.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/io/files.h"
#include "core/io/plot/gnuplot.h"
#include "core/io/plot/plotdata.h"

enum { JOBS = 2 };

/* X(figure, name, table): in the order of the documentation (plots/README.md). table: of a run, or
 * of a simulation without a scenario, which the figure is drawn from as it stands, if it has rows;
 * TABLES: draw_.. below says when. */
#define FIGURE_LIST(X)                                                                             \
    X(THROUGHPUT, "throughput", TABLES)                                                            \
    X(GOODPUT, "goodput", TABLES)                                                                  \
    X(STEPCDF, "stepcdf", TABLES)                                                                  \
    X(TIMELOST, "timelost", TABLES)                                                                \
    X(BREAKDOWN, "breakdown", TABLES)                                                              \
    X(PREDICTED, "predicted", TABLES)                                                              \
    X(GANTT, "gantt", TABLES)                                                                      \
    X(MEMORY, "memory", TABLE_MEMORY)                                                              \
    X(SWITCH, "switch", TABLE_SWITCHES)                                                            \
    X(SLOWDOWN, "slowdown", TABLES)                                                                \
    X(LINKS, "links", TABLES)                                                                      \
    X(ERRORBOX, "errorbox", TABLES)                                                                \
    X(LENGTHCDF, "lengthcdf", TABLES)                                                              \
    X(SYNC_TIMELINE, "sync_timeline", TABLE_ITERATIONS)                                            \
    X(SYNC_GAP, "sync_gap", TABLE_AHEAD)                                                           \
    X(SYNC_SERVERS, "sync_servers", TABLE_SERVERS)                                                 \
    X(SYNC_RATE, "sync_rate", TABLE_SYNC_SWEEP)                                                    \
    X(PR_SIZES, "pr_sizes", TABLE_GROUPS)                                                          \
    X(PR_WAIT, "pr_wait", TABLE_SYNC_SWEEP)                                                        \
    X(PR_SPEEDUP, "pr_speedup", TABLE_SYNC_SWEEP)                                                  \
    X(PR_ISOLATION, "pr_isolation", TABLE_ISOLATION)                                               \
    X(HET_CACHE, "het_cache", TABLE_EMBED_SWEEP)                                                   \
    X(HET_BOUND, "het_bound", TABLE_EMBED_SWEEP)                                                   \
    X(HET_THETA, "het_theta", TABLE_EMBED_SWEEP)                                                   \
    X(A2A_SIZE, "a2a_size", TABLE_A2A_SWEEP)                                                       \
    X(A2A_MAP, "a2a_map", TABLE_A2A_SWEEP)                                                         \
    X(MOE_LAYER, "moe_layer", TABLE_MOE_LAYER)                                                     \
    X(SWEEP, "sweep", TABLES)
enum {
#define FIGURE_ENUM(figure, name, table) figure,
    FIGURE_LIST(FIGURE_ENUM)
#undef FIGURE_ENUM
        FIGURES
};
static const char *const names[FIGURES] = {
#define FIGURE_NAME(figure, name, table) name,
    FIGURE_LIST(FIGURE_NAME)
#undef FIGURE_NAME
};
static const luo_table_id tables[FIGURES] = {
#define FIGURE_TABLE(figure, name, table) LUO_##table,
    FIGURE_LIST(FIGURE_TABLE)
#undef FIGURE_TABLE
};

const char *luo_plot_figure(int i)
{
    return i < FIGURES ? names[i] : NULL;
}

/* ---- gnuplot ---- */

bool luo_plot_possible(const char *gnuplot)
{
    char path[PATH_MAX];
    luo_gnuplot_find(gnuplot ? gnuplot : "gnuplot", path);
    return path[0] != 0;
}

typedef struct job { /* one figure under way */
    luo_gnuplot gnuplot;
    const char *figure;
    char *base;
} job;

typedef struct plotter {
    const luo_plot_opts *o;
    luo_arena *arena;
    luo_str *made;
    luo_diags *diags;
    char program[PATH_MAX], scripts[PATH_MAX]; /* whole paths: gnuplot stands elsewhere */
    job job[JOBS];
    int njobs;
    bool drawn;         /* a figure was started */
    luo_status st;      /* of everything but gnuplot */
    luo_status gnuplot; /* the other figures are drawn all the same */
} plotter;

static void add_made(plotter *p, const char *base)
{
    base = luo_result_shown(p->arena, base);
    for (int i = 0; i < (p->o->svg_alone ? 1 : LUO_GNUPLOT_FILES); i++)
        luo_str_addf(p->made, "%s.%s\n", base, luo_gnuplot_endings[i]);
    if (p->made->failed) p->st = LUO_ENOMEM;
}

/* Waits for the oldest figure. */
static void reap(plotter *p)
{
    job j = p->job[0];
    char words[256];
    luo_err err = {0};
    memmove(p->job, p->job + 1, (size_t)(--p->njobs) * sizeof *p->job);
    const luo_status st = luo_gnuplot_end(&j.gnuplot, words, &err);
    if (st == LUO_EBACKEND) {
        p->gnuplot = luo_diags_add(p->diags, LUO_ERROR, LUO_EBACKEND, NULL, 0, 0,
                                   "gnuplot failed on figure `%s` (%s); it says: %s", j.figure,
                                   j.base, words[0] ? words : "nothing");
        return;
    }
    if (words[0])
        luo_diags_add(p->diags, LUO_WARNING, LUO_OK, NULL, 0, 0, "figure `%s`: gnuplot says: %s",
                      j.figure, words);
    if (st == LUO_OK)
        add_made(p, j.base);
    else if (p->st == LUO_OK)
        p->st = luo_diags_err(p->diags, &err);
}

/* name: of the files. */
static void start_as(plotter *p, const char *figure, const char *name, const char *dir,
                     const char *title, const char *more)
{
    luo_err err = {0};
    if (p->st != LUO_OK) return;
    if (p->njobs == JOBS) reap(p);
    job j = {.figure = figure, .base = luo_arena_printf(p->arena, "%s/plots/%s", dir, name)};
    const luo_gnuplot_opts opts = {
        .program = p->program,
        .script = luo_arena_printf(p->arena, "%s/%s.gp", p->scripts, figure),
        .dir = dir,
        .base = j.base,
        .ran = title,
        .nfiles = p->o->svg_alone ? 1 : LUO_GNUPLOT_FILES,
        .more = luo_arena_printf(p->arena, "%s%s", p->o->column ? "column=1; " : "", more)};
    luo_status st = j.base && opts.script && opts.more ? LUO_OK : luo_err_nomem(&err);
    if (st == LUO_OK) st = luo_gnuplot_start(p->arena, &opts, &j.gnuplot, &err);
    if (st == LUO_OK) {
        p->job[p->njobs++] = j;
        p->drawn = true;
    } else {
        luo_err_prefix(&err, st, "figure `%s`", figure);
        p->st = luo_diags_err(p->diags, &err);
    }
}

static void start(plotter *p, const char *figure, const char *dir, const char *title,
                  const char *more)
{
    start_as(p, figure, figure, dir, title, more);
}

/* ---- figures ---- */

static bool wanted(const plotter *p, int figure)
{
    return p->st == LUO_OK && (!p->o->figure || strcmp(p->o->figure, names[figure]) == 0);
}

/* Scenario, policy, backend, seed, hash; a narrow figure has room for half of the hash. */
static const char *title_of(const plotter *p, const luo_result *result, bool of_set)
{
    const char *t =
        luo_arena_printf(p->arena, "%s%s%s, %s, seed %s, %.*s",
                         *result->scenario ? result->scenario : "plans",
                         of_set ? "" : ", ", of_set ? "" : result->policy, result->backend,
                         result->seed, p->o->column ? 8 : 16, result->scenario_hash);
    return t ? t : "";
}

static void keep(plotter *p, luo_status st)
{
    if (p->st == LUO_OK) p->st = st;
}

/* Figures that hold several runs side by side, or one. */
static void draw_common(plotter *p, const char *dir, const char *plots, const char *title,
                        const luo_result *runs, int32_t n)
{
    luo_arena *arena = p->arena;
    int64_t rows = 0, lost = 0, marks = 0;
    bool timed = false; /* is it known where the time of a run went? */
    for (int32_t i = 0; i < n; i++) timed |= isfinite(runs[i].time[LUO_TIME(compute_s)]);
    keep(p, luo_plotdata_timelost(arena, runs, n, plots, &rows, p->diags)); /* names the runs */
    if (wanted(p, THROUGHPUT) || wanted(p, GOODPUT)) {
        keep(p, luo_plotdata_lost(arena, runs, n, plots, &lost, p->diags));
        keep(p, luo_plotdata_marks(arena, runs, n, plots, &marks, p->diags));
        keep(p, luo_plotdata_throughput(arena, runs, n, plots, &rows, p->diags));
        const char *more = luo_arena_printf(arena, "nlost=%d; nmarks=%d; ", lost > 0, marks > 0);
        if (!more) keep(p, LUO_ENOMEM);
        if (wanted(p, THROUGHPUT) && rows > 0) start(p, names[THROUGHPUT], dir, title, more);
        if (wanted(p, GOODPUT) && rows > 0) start(p, names[GOODPUT], dir, title, more);
    }
    if (wanted(p, STEPCDF)) {
        keep(p, luo_plotdata_stepcdf(arena, runs, n, plots, &rows, p->diags));
        if (rows > 0) start(p, names[STEPCDF], dir, title, "");
    }
    if (wanted(p, TIMELOST) && timed) start(p, names[TIMELOST], dir, title, "");
    if (wanted(p, BREAKDOWN)) {
        keep(p, luo_plotdata_breakdown(arena, runs, n, plots, &rows, p->diags));
        if (rows > 0) start(p, names[BREAKDOWN], dir, title, "");
    }
}

/* Rows of a table in the folder, counted to two. */
static int rows_of(plotter *p, const char *dir, luo_table_id id)
{
    luo_csv_cell cells[LUO_CSV_COLUMNS];
    luo_csv *csv = luo_result_table(p->arena, dir, id, p->diags);
    int n = 0;
    while (csv && n < 2 && luo_csv_next(csv, cells)) n++;
    keep(p, luo_csv_close(csv));
    return n;
}

/* The table is a comparison's (core/io/compare/compare.h) or of `validate`; nothing if there was
 * none of sim with a real run. Errors by suite belong to `validate` alone, which leaves its own
 * table in dir. */
static void draw_predicted(plotter *p, const char *dir, const char *plots, const char *title)
{
    const bool suites = luo_result_has(dir, "validate.csv");
    if (!luo_result_has(plots, "predicted.csv") || rows_of(p, plots, LUO_TABLE_PLOT_PREDICTED) == 0)
        return;
    if (wanted(p, PREDICTED)) start(p, names[PREDICTED], dir, title, "");
    if (wanted(p, ERRORBOX) && suites) start(p, names[ERRORBOX], dir, title, "");
}

static void draw_run(plotter *p, const char *plots, const luo_result *run)
{
    luo_arena *arena = p->arena;
    const char *title = title_of(p, run, false);
    int64_t rows = 0;
    if (wanted(p, GANTT)) {
        keep(p, luo_plotdata_gantt(arena, run, p->o->of_step ? p->o->step : -1,
                                   p->o->of_plan ? p->o->plan : -1, plots, &rows, p->diags));
        if (rows > 0) start(p, names[GANTT], run->dir, title, "");
    }
    for (int f = 0; f < FIGURES; f++)
        if ((int)tables[f] < LUO_RUN_TABLES && wanted(p, f) &&
            luo_result_has(run->dir, luo_table_def_at(tables[f])->file) &&
            rows_of(p, run->dir, tables[f]) > 0)
            start(p, names[f], run->dir, title, "");
    if (wanted(p, SLOWDOWN)) {
        keep(p, luo_plotdata_slowdown(arena, run, plots, &rows, p->diags));
        if (rows > 0) start(p, names[SLOWDOWN], run->dir, title, "");
    }
    if (wanted(p, LINKS) &&
        luo_result_has(run->dir, luo_table_def_at(LUO_TABLE_LINK_WINDOWS)->file) &&
        rows_of(p, run->dir, LUO_TABLE_LINK_WINDOWS) > 0) {
        keep(p, luo_plotdata_busiest(arena, run, plots, &rows, p->diags));
        if (rows > 0) start(p, names[LINKS], run->dir, title, "");
    }
}

/* DIR/plots, made if missing; NULL: failed, and it is said. */
static const char *plots_folder(plotter *p, const char *dir)
{
    luo_err err = {0};
    const char *path = luo_arena_printf(p->arena, "%s/plots", dir);
    const luo_status st = path ? luo_file_make_own_dir(path, &err) : luo_err_nomem(&err);
    if (st != LUO_OK) keep(p, luo_diags_err(p->diags, &err));
    return st == LUO_OK ? path : NULL;
}

/* ---- simulations without a scenario ---- */

static bool is_table(const plotter *p, int figure)
{
    const luo_table_id id = tables[figure];
    return id != LUO_TABLES && id >= LUO_TABLE_ITERATIONS &&
           luo_result_has(p->o->dir, luo_table_def_at(id)->file);
}

/* No run, but tables that figures are drawn from? */
static bool without_run(const plotter *p)
{
    bool any = false;
    for (int f = 0; f < FIGURES; f++) any |= is_table(p, f);
    return any && !luo_result_has(p->o->dir, "manifest.json") &&
           !luo_result_has(p->o->dir, "compare.csv");
}

/* Tables of several runs have rows of several figures, whose name is the first column. */
static bool is_sweep(luo_table_id id)
{
    return id == LUO_TABLE_SYNC_SWEEP || id == LUO_TABLE_EMBED_SWEEP || id == LUO_TABLE_A2A_SWEEP;
}

/* Has a sweep rows of that figure? */
static bool swept(plotter *p, int figure)
{
    luo_csv_cell cells[LUO_CSV_COLUMNS];
    luo_csv *csv = luo_result_table(p->arena, p->o->dir, tables[figure], p->diags);
    bool found = false;
    while (csv && !found && luo_csv_next(csv, cells))
        found = strcmp(cells[0].text, names[figure]) == 0;
    keep(p, luo_csv_close(csv));
    return found;
}

static void draw_tables(plotter *p)
{
    const char *title = luo_arena_printf(p->arena, "%s, simulated", p->o->dir);
    const char *plots = plots_folder(p, p->o->dir);
    for (int f = 0; plots && f < FIGURES; f++)
        if (is_table(p, f) && wanted(p, f) &&
            (is_sweep(tables[f]) ? swept(p, f) : rows_of(p, p->o->dir, tables[f]) > 0))
            start(p, names[f], p->o->dir, title ? title : "", "");
    while (p->njobs > 0) reap(p);
}

/* ---- recorded steps ---- */

static const char RECORDED[] = "recorded.csv", IDEAL[] = "ideal.csv";

static bool is_recorded(const plotter *p)
{
    return luo_result_has(p->o->dir, RECORDED) && !luo_result_has(p->o->dir, "manifest.json") &&
           !luo_result_has(p->o->dir, "compare.csv");
}

/* Beside it what `replay` left: an ideal step, and who is slow. */
static void draw_recorded(plotter *p)
{
    const char *dir = p->o->dir, *title = luo_arena_printf(p->arena, "%s, recorded", dir);
    const char *path = luo_arena_printf(p->arena, "%s/%s", dir, RECORDED),
               *ideal = luo_arena_printf(p->arena, "%s/%s", dir, IDEAL);
    const char *plots =
        wanted(p, GANTT) || wanted(p, SLOWDOWN) ? plots_folder(p, dir) : NULL;
    int64_t rows = 0;
    if (!title || !path || !ideal) keep(p, LUO_ENOMEM);
    if (!plots || p->st != LUO_OK) return;
    if (wanted(p, GANTT)) {
        keep(p, luo_plotdata_recorded(p->arena, path, luo_result_has(dir, IDEAL) ? ideal : NULL,
                                      plots, &rows, p->diags));
        if (rows > 0) start(p, names[GANTT], dir, title, "");
    }
    if (wanted(p, SLOWDOWN) && luo_result_has(dir, luo_table_def_at(LUO_TABLE_ATTRIBUTION)->file)) {
        keep(p, luo_plotdata_attributed(p->arena, dir, plots, &rows, p->diags));
        if (rows > 0) start(p, names[SLOWDOWN], dir, title, "");
    }
    while (p->njobs > 0) reap(p);
}

/* ---- sweeps ---- */

/* A figure a key: sweep-1, sweep-2 .. in the order in which they were given. */
static void draw_sweep(plotter *p)
{
    luo_csv_cell cells[LUO_CSV_COLUMNS];
    const char *title = luo_arena_printf(p->arena, "%s, simulated", p->o->dir);
    const char *plots = wanted(p, SWEEP) ? plots_folder(p, p->o->dir) : NULL;
    int64_t last = 0;
    if (!title) keep(p, LUO_ENOMEM);
    if (!plots || p->st != LUO_OK) return;
    luo_csv *csv = luo_result_table(p->arena, plots, LUO_TABLE_PLOT_SWEPT, p->diags);
    while (csv && luo_csv_next(csv, cells)) {
        const int64_t key = cells[LUO_COL_PLOT_SWEPT_key].whole;
        if (key == last) continue;
        last = key;
        const char *name = luo_arena_printf(p->arena, "%s-%lld", names[SWEEP], (long long)key);
        const char *more = luo_arena_printf(p->arena, "swept=%lld; ", (long long)key);
        if (name && more) start_as(p, names[SWEEP], name, p->o->dir, title, more);
        else keep(p, LUO_ENOMEM);
    }
    keep(p, luo_csv_close(csv));
    while (p->njobs > 0) reap(p);
}

/* Figures are written into what was named and what lies in it, not where a link in it leads. */
static bool is_ours(plotter *p, const char *dir)
{
    struct stat info;
    if (strcmp(dir, p->o->dir) == 0 || lstat(dir, &info) != 0 || !S_ISLNK(info.st_mode))
        return true;
    luo_diags_add(p->diags, LUO_WARNING, LUO_OK, NULL, 0, 0,
                  "`%s` is a link, so its own figures are not drawn; name its folder itself.", dir);
    return false;
}

/* Of the others there is nothing to draw. */
static void read_measured(plotter *p, const char *const *paths, int32_t npaths, luo_result **runs,
                          int32_t *n)
{
    int32_t all = 0;
    *n = 0;
    keep(p, luo_result_read_all(p->arena, paths, npaths, runs, &all, p->diags));
    for (int32_t i = 0; p->st == LUO_OK && i < all; i++)
        if ((*runs)[i].measured) (*runs)[(*n)++] = (*runs)[i];
}

static bool is_one_seed(const luo_result *runs, int32_t n)
{
    for (int32_t i = 1; i < n; i++)
        if (strcmp(runs[i].seed, runs[0].seed) != 0) return false;
    return true;
}

/* What several seeds kept, if that was compared. */
static void draw_bands(plotter *p, const char *dir, const char *plots, const char *title)
{
    if (!wanted(p, GOODPUT) || !luo_result_has(plots, "bands.csv") ||
        !luo_result_has(plots, luo_table_def_at(LUO_TABLE_PLOT_SEEDS_KEPT)->file) ||
        !luo_result_has(plots, luo_table_def_at(LUO_TABLE_PLOT_PAIRED)->file))
        return;
    const bool paired = rows_of(p, plots, LUO_TABLE_PLOT_PAIRED) > 0;
    start(p, names[GOODPUT], dir, title, paired ? "bands=1; " : "bands=1; alone=1; ");
}

static void draw(plotter *p)
{
    luo_result *runs = NULL;
    int32_t n;
    if (without_run(p)) {
        draw_tables(p);
        return;
    }
    if (is_recorded(p)) {
        draw_recorded(p);
        return;
    }
    if (luo_result_has(p->o->dir, "plots/swept.csv") &&
        !luo_result_has(p->o->dir, "compare.csv")) {
        draw_sweep(p);
        return;
    }
    read_measured(p, &p->o->dir, 1, &runs, &n);
    if (n == 0) return;
    const char *plots = p->st == LUO_OK ? plots_folder(p, p->o->dir) : NULL;
    const char *title = title_of(p, &runs[0], n > 1);
    if (plots && is_one_seed(runs, n)) draw_common(p, p->o->dir, plots, title, runs, n);
    if (plots) draw_predicted(p, p->o->dir, plots, title);
    if (plots) draw_bands(p, p->o->dir, plots, title);
    for (int32_t i = 0; p->st == LUO_OK && i < n; i++) {
        const char *own = is_ours(p, runs[i].dir) ? plots_folder(p, runs[i].dir) : NULL;
        if (own) draw_run(p, own, &runs[i]);
    }
    while (p->njobs > 0) reap(p);
}

static luo_status check(plotter *p)
{
    const char *program = p->o->gnuplot ? p->o->gnuplot : "gnuplot";
    bool known = !p->o->figure;
    for (int i = 0; i < FIGURES; i++) known |= p->o->figure && strcmp(p->o->figure, names[i]) == 0;
    if (!known) {
        luo_str text = {0};
        luo_words_expected(&text, p->o->figure, names, FIGURES);
        luo_diags_add(p->diags, LUO_ERROR, LUO_EUSAGE, NULL, 0, 0, "unknown figure `%s`; %s",
                      p->o->figure, luo_str_get(&text));
        luo_str_free(&text);
        return LUO_EUSAGE;
    }
    luo_gnuplot_find(program, p->program);
    if (!realpath(p->o->scripts, p->scripts)) /* gnuplot will say it */
        snprintf(p->scripts, sizeof p->scripts, "%s", p->o->scripts);
    if (!p->program[0])
        return luo_diags_add(p->diags, LUO_ERROR, LUO_EBACKEND, NULL, 0, 0,
                             "`%s` is not installed; figures need it (Debian: gnuplot-nox).",
                             program);
    return LUO_OK;
}

/* Those of several seeds have bands instead. */
static void draw_side_by_side(plotter *p, const char *plots, const char *title)
{
    luo_result *runs = NULL;
    int32_t n;
    read_measured(p, p->o->runs, p->o->nruns, &runs, &n);
    if (n > 1 && is_one_seed(runs, n)) draw_common(p, p->o->dir, plots, title, runs, n);
}

luo_status luo_plot_compared(luo_arena *arena, const luo_plot_opts *opts, const char *title,
                             luo_str *made, luo_diags *diags)
{
    plotter p = {.o = opts, .arena = arena, .made = made, .diags = diags};
    LUO_TRY(check(&p));
    const char *plots = plots_folder(&p, opts->dir);
    if (plots) draw_predicted(&p, opts->dir, plots, title);
    if (plots && opts->nruns > 0) draw_side_by_side(&p, plots, title);
    if (plots) draw_bands(&p, opts->dir, plots, title);
    while (p.njobs > 0) reap(&p);
    return p.st != LUO_OK ? p.st : p.gnuplot;
}

/* How many, their mean, and where they are from; of several the means alone have room. */
static const char *title_of_lengths(const plotter *p, const luo_plot_lengths *lengths, int32_t n)
{
    const char *title = "mean tokens:";
    if (n == 1)
        title = luo_arena_printf(
            p->arena, "%s, %.0f sequences%s, mean %.0f tokens%s%s", lengths->name,
            lengths->sequences, luo_lengths_synthetic(lengths->lengths) ? " drawn" : "",
            lengths->mean, p->o->column ? "" : ", ", p->o->column ? "" : lengths->from);
    for (int32_t i = 0; title && n > 1 && i < n; i++)
        title = luo_arena_printf(p->arena, "%s%s %s %.0f", title, i ? "," : "", lengths[i].name,
                                 lengths[i].mean);
    return title ? title : "";
}

luo_status luo_plot_distribution(luo_arena *arena, const luo_plot_opts *opts,
                                 luo_plot_lengths *lengths, int32_t n, luo_str *made,
                                 luo_diags *diags)
{
    plotter p = {.o = opts, .arena = arena, .made = made, .diags = diags};
    LUO_TRY(check(&p));
    if (!wanted(&p, LENGTHCDF))
        return luo_diags_add(diags, LUO_ERROR, LUO_EUSAGE, NULL, 0, 0,
                             "figure `%s` is of runs; of lengths `%s` is drawn.", opts->figure,
                             names[LENGTHCDF]);
    const char *plots = plots_folder(&p, opts->dir);
    if (plots) keep(&p, luo_plotdata_lengthcdf(arena, lengths, n, plots, diags));
    start(&p, names[LENGTHCDF], opts->dir, title_of_lengths(&p, lengths, n), "");
    while (p.njobs > 0) reap(&p);
    return p.st != LUO_OK ? p.st : p.gnuplot;
}

luo_status luo_plot(luo_arena *arena, const luo_plot_opts *opts, luo_str *made, luo_diags *diags)
{
    plotter p = {.o = opts, .arena = arena, .made = made, .diags = diags};
    LUO_TRY(check(&p));
    draw(&p);
    if (p.st == LUO_OK && opts->figure && !p.drawn)
        return luo_diags_add(diags, LUO_ERROR, LUO_EINPUT, NULL, 0, 0,
                             "`%s` holds no data for figure `%s`.", opts->dir, opts->figure);
    return p.st != LUO_OK ? p.st : p.gnuplot;
}
