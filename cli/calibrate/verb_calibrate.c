/* verb_calibrate.c: `luoshu calibrate`: measures this machine, or takes tables, and makes a
 * profile and clusters of one node. */
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/calibrate/calibrate_foreign.h"
#include "cli/calibrate/calibrate_gpu.h"
#include "cli/calibrate/calibrate_suite.h"
#include "cli/machine.h"
#include "cli/run/session.h"
#include "core/io/files.h"
#include "core/io/io.h"

typedef struct job {
    luo_cli *cli;
    const char *dir, *cpu;
    bool quick;
    int32_t ranks; /* 0: 1, 2, 4 .. */
    double cores, memory_bytes;
    luo_str csv;           /* rows of calibrate.csv */
    luo_progress progress;
    luo_calibrate_turn turn;
    int32_t computing;     /* most ranks that operations were measured with */
    luo_measured computed; /* their rows */
} job;

static luo_status find_machine(job *j, luo_err *err)
{
    luo_fact facts[LUO_MACHINE_FACTS];
    const luo_exec_options none = {0};
    LUO_TRY(luo_machine_facts(j->cli->arena, &none, facts, err));
    for (int i = 0; i < LUO_MACHINE_FACTS; i++)
        if (strcmp(facts[i].name, "cpu") == 0) j->cpu = facts[i].value;
    j->cores = (double)sysconf(_SC_NPROCESSORS_ONLN);
    j->memory_bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    return LUO_OK;
}

/* Fits, writes, reads back and scores one number of ranks. */
static luo_status finish(job *j, luo_calibration *calibration)
{
    luo_calibration_errors errors[LUO_CAL_KINDS][2];
    luo_err err = {0};
    luo_status st = luo_calibration_fit(calibration, &err);
    if (st == LUO_OK) st = luo_calibration_write(calibration, &err);
    if (st != LUO_OK) return luo_cli_fail(j->cli, st, &err);
    LUO_TRY(luo_calibration_score(j->cli, calibration, &j->csv, errors));
    fprintf(luo_cli_out(j->cli),
            "%d ranks: %.1f GFLOP/s, products %.2f of it, compute x %.3f; "
            "%s/cluster-%d.yaml\n",
            calibration->ranks, 1e-9 * calibration->fit.peak_flops, calibration->fit.gemm_ratio,
            calibration->slowdown, calibration->dir, calibration->ranks);
    luo_calibration_print(j->cli, calibration->ranks, calibration->slowdown, errors);
    return LUO_OK;
}

/* ---- measuring ---- */

static luo_status read_table(job *j, luo_measured *measured, const char *name, int32_t ranks)
{
    const char *path = luo_arena_printf(j->cli->arena, "%s/%s-%d.csv", j->dir, name, ranks);
    if (!path) return luo_cli_error(j->cli, LUO_ENOMEM, "%s.", luo_status_text(LUO_ENOMEM));
    return luo_measured_read(j->cli, measured, path);
}

/* How much more processor time work takes where ranks share cores: geometric mean over the networks
 * that tell. */
static double slowdown_of(const luo_measured *measured)
{
    double sum = 0;
    int n = 0;
    for (int32_t i = 0; i < measured->nfacts; i++) {
        const struct luo_measured_fact *fact = &measured->facts[i];
        if (strncmp(fact->name, "sharing ", 8) != 0 || !(fact->value > 0)) continue;
        sum += log(fact->value);
        n++;
    }
    return n ? fmax(1, exp(sum / n)) : 1;
}

/* The first network was run again at the end (docs/calibration.md#measuring-a-machine). */
static void check_drift(job *j, const luo_measured *measured, int32_t ranks)
{
    for (int32_t i = 0; i < measured->nfacts; i++) {
        const char *name = measured->facts[i].name;
        if (strncmp(name, "again_s ", 8) != 0) continue;
        const char *before = luo_arena_printf(j->cli->arena, "compute_s %s", name + 8);
        const double first = before ? luo_measured_fact(measured, before, 0) : 0;
        const double drift = first > 0 ? measured->facts[i].value / first - 1 : 0;
        if (fabs(drift) > 0.05)
            luo_cli_note(j->cli, LUO_WARNING,
                         "with %d ranks the first network took %+.0f %% when it "
                         "was run again at the end; the machine is not quiet, measure again.",
                         ranks, 100 * drift);
    }
}

static const char *driver_of(const luo_measured *measured)
{
    for (int32_t i = 0; i < measured->nfacts; i++)
        if (strncmp(measured->facts[i].name, "driver ", 7) == 0) return measured->facts[i].name + 7;
    return "";
}

static luo_status calibrate_ranks(job *j, int32_t ranks)
{
    const bool ops = j->computing == 0 || ranks <= j->cores;
    luo_measured own = {0};
    LUO_TRY(luo_calibrate_measure(j->cli, "luoshu-rank", j->dir, ranks, j->quick, ops,
                                  &j->turn));
    j->turn.done++;
    LUO_TRY(read_table(j, &own, "facts", ranks));
    if (ops) {
        j->computing = ranks;
        j->computed = own;
        LUO_TRY(read_table(j, &j->computed, "op_times", ranks));
        check_drift(j, &own, ranks);
    }
    luo_calibration calibration = {.dir = j->dir,
                                   .ranks = ranks,
                                   .ops_of = j->computing,
                                   .cores = j->cores,
                                   .memory_bytes = j->memory_bytes / ranks,
                                   .slowdown = slowdown_of(&own),
                                   .machine = j->cpu,
                                   .driver = driver_of(&own),
                                   .comm = ranks > 1,
                                   .rows = j->computed};
    if (ranks > 1) LUO_TRY(read_table(j, &calibration.rows, "collective_times", ranks));
    if (ranks > 1) LUO_TRY(read_table(j, &calibration.rows, "p2p_times", ranks));
    return finish(j, &calibration);
}

enum { RANKS_LEAST = 8, RANKS_MOST = 64 }; /* 1, 2, 4, 8, and on while there are cores */

/* --ranks: that number alone, behind as many ranks as have a core each, whose operations are its.
 */
static luo_status measure_only(job *j, int32_t ranks)
{
    int32_t own = 1;
    while (2 * own <= ranks && 2 * own <= j->cores) own *= 2;
    j->turn.of = own < ranks ? 2 : 1;
    if (own < ranks) LUO_TRY(calibrate_ranks(j, own));
    return calibrate_ranks(j, ranks);
}

static luo_status measure(job *j)
{
    j->progress = luo_progress_new(j->cli);
    j->turn = (luo_calibrate_turn){.progress = &j->progress};
    if (j->ranks > 0) return measure_only(j, j->ranks);
    int32_t most = 1;
    for (int32_t n = 1; n <= RANKS_MOST && (n <= RANKS_LEAST || n <= j->cores); most = n, n *= 2)
        j->turn.of++;
    for (int32_t n = 1; n <= most; n *= 2) LUO_TRY(calibrate_ranks(j, n));
    return LUO_OK;
}

/* ---- tables that are there ---- */

/* As the profile names it: by its whole path, unless it was made in the profile's folder. */
static const char *table_name(job *j, const char *path)
{
    char cwd[4096];
    if (path[0] == '/') return path;
    return getcwd(cwd, sizeof cwd) ? luo_arena_printf(j->cli->arena, "%s/%s", cwd, path) : NULL;
}

static luo_status take_table(job *j, luo_calibration *calibration, const char *path)
{
    const int32_t ops = calibration->rows.nops, comm = calibration->rows.ncomm;
    const char *made, *from = path;
    LUO_TRY(luo_foreign_table(j->cli, j->dir, path, &made));
    if (made) from = luo_arena_printf(j->cli->arena, "%s/%s", j->dir, made);
    if (!from) return luo_cli_error(j->cli, LUO_ENOMEM, "%s.", luo_status_text(LUO_ENOMEM));
    LUO_TRY(luo_measured_read(j->cli, &calibration->rows, from));
    const int kind = calibration->rows.nops > ops             ? 0
                     : calibration->rows.ncomm == comm        ? -1
                     : calibration->rows.comm[comm].coll >= 0 ? 1
                                                              : 2;
    if (kind < 0) return LUO_OK; /* facts, or no rows */
    if (calibration->tables[kind])
        return luo_cli_error(j->cli, LUO_EUSAGE,
                             "`%s` and `%s` are of one kind; give one table of each.",
                             calibration->tables[kind], path);
    calibration->comm = calibration->comm || kind > 0;
    calibration->tables[kind] = made ? made : table_name(j, path);
    return calibration->tables[kind] ? LUO_OK
                                     : luo_cli_error(j->cli, LUO_EIO,
                                                     "the current folder cannot be named; "
                                                     "use whole paths.");
}

/* What only the calibration of GPUs looks at. */
static luo_status refuse_gpu_options(luo_cli *cli)
{
    static const char *const names[] = {"profile", "cluster", "seed"};
    for (int i = 0; i < 3; i++)
        if (luo_args_has(&cli->args, names[i]))
            return luo_cli_error(cli, LUO_EUSAGE,
                                 "`--%s` is of GPUs; this calibration is of processors and does "
                                 "not need it.",
                                 names[i]);
    return LUO_OK;
}

/* Products of GPUs are measured by themselves, those of processors inside of steps. Without any, a
 * profile that is known gets tables of communication. */
static bool of_gpu(const luo_cli *cli, const luo_measured *measured)
{
    if (measured->nops == 0) return luo_args_has(&cli->args, "profile");
    for (int32_t i = 0; i < measured->nops; i++)
        if (strcmp(measured->ops[i].row.op, "gemm") == 0) return true;
    return false;
}

/* As many ranks as the largest group of the tables. */
static luo_status take_tables(job *j, const char *first)
{
    const luo_args *args = &j->cli->args;
    luo_calibration calibration = {.dir = j->dir,
                                   .ranks = 1,
                                   .cores = j->cores,
                                   .slowdown = 1,
                                   .machine = j->cpu,
                                   .driver = ""};
    LUO_TRY(take_table(j, &calibration, first));
    for (int i = 0; i < args->nfiles; i++) LUO_TRY(take_table(j, &calibration, args->files[i]));
    if (!calibration.tables[0] && !(calibration.tables[1] && luo_args_has(args, "profile")))
        return luo_cli_error(j->cli, LUO_EINPUT,
                             "no table of op_times is given; a profile needs one, or --profile "
                             "beside collectives.");
    if (of_gpu(j->cli, &calibration.rows))
        return luo_calibrate_gpu_tables(j->cli, j->dir, &calibration.rows, calibration.tables);
    LUO_TRY(refuse_gpu_options(j->cli));
    for (int32_t i = 0; i < calibration.rows.ncomm; i++)
        if (calibration.rows.comm[i].devices > calibration.ranks)
            calibration.ranks = calibration.rows.comm[i].devices;
    calibration.ops_of = calibration.ranks < j->cores ? calibration.ranks : (int32_t)j->cores;
    calibration.memory_bytes = j->memory_bytes / calibration.ranks;
    calibration.driver = driver_of(&calibration.rows);
    return finish(j, &calibration);
}

/* ---- the verb ---- */

static luo_status write_csv(job *j)
{
    luo_err err = {0};
    const char *path;
    LUO_TRY(luo_cli_fail(j->cli, luo_calibration_csv(j->cli, j->dir, &j->csv, &path, &err), &err));
    fprintf(luo_cli_out(j->cli), "%s\n", path);
    return LUO_OK;
}

static luo_status read_backend(luo_cli *cli, bool *cuda, luo_err *err)
{
    static const char *const names[] = {"host", "cuda"};
    int which = 0;
    LUO_TRY(luo_args_choice(&cli->args, "backend", 0, names, 2, &which, err));
    *cuda = which == 1;
    return LUO_OK;
}

static luo_status read_ranks(job *j, bool tables, luo_err *err)
{
    int64_t ranks;
    LUO_TRY(luo_args_int(&j->cli->args, "ranks", 0, 1, RANKS_MOST, &ranks, err));
    if (ranks > 0 && tables)
        return luo_err_set(err, LUO_EUSAGE,
                           "`--ranks` says what to measure, and `--from` takes what was measured; "
                           "give one of them.");
    j->ranks = (int32_t)ranks;
    return LUO_OK;
}

/* What only the calibration by published steps looks at. */
static luo_status refuse_suite_options(luo_cli *cli, luo_err *err)
{
    static const char *const names[] = {"fit", "name", "profile-dir"};
    for (int i = 0; i < 3; i++)
        if (luo_args_has(&cli->args, names[i]))
            return luo_err_set(err, LUO_EUSAGE,
                               "`--%s` goes with `--from` a suite of published "
                               "steps; leave it out.",
                               names[i]);
    return LUO_OK;
}

/* What only the calibration by times of layers looks at. */
static luo_status refuse_layer_options(luo_cli *cli, luo_err *err)
{
    static const char *const names[] = {"model", "stack"};
    for (int i = 0; i < 2; i++)
        if (luo_args_has(&cli->args, names[i]))
            return luo_err_set(err, LUO_EUSAGE,
                               "`--%s` goes with `--from` times of layers; leave "
                               "it out.",
                               names[i]);
    return LUO_OK;
}

/* What only a pool of the cost model looks at. */
static luo_status refuse_pool_options(luo_cli *cli, luo_err *err)
{
    static const char *const names[] = {"os", "ctx"};
    for (int i = 0; i < 2; i++)
        if (luo_args_has(&cli->args, names[i]))
            return luo_err_set(err, LUO_EUSAGE,
                               "`--%s` goes with `--model` and `--cluster`, which "
                               "give a pool; leave it out.",
                               names[i]);
    return LUO_OK;
}

static bool is_folder(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static luo_status from_suites(job *j, const char *from)
{
    static const char *const names[] = {"profile", "cluster", "quick", "ranks",
                                        "backend", "model",   "stack"};
    for (int i = 0; i < 7; i++)
        if (luo_args_has(&j->cli->args, names[i]))
            return luo_cli_error(j->cli, LUO_EUSAGE,
                                 "`--%s` is of measurements of a machine; "
                                 "published steps do not need it.",
                                 names[i]);
    luo_jsonw_text(&j->cli->json, "out", j->dir);
    luo_jsonw_open(&j->cli->json, "profiles", '[');
    const luo_status st = is_folder(from) ? luo_calibrate_sources(j->cli, j->dir, from)
                                          : luo_calibrate_suites(j->cli, j->dir, from);
    luo_jsonw_close(&j->cli->json);
    return st;
}

static luo_status calibrate(job *j, const char *from, bool cuda)
{
    luo_cli *cli = j->cli;
    luo_err err = {0};
    if (!from && luo_args_has(&cli->args, "model")) {
        luo_jsonw_text(&cli->json, "out", j->dir);
        return luo_calibrate_pool(cli, j->dir);
    }
    LUO_TRY(luo_cli_fail(cli, refuse_pool_options(cli, &err), &err));
    if (from && (is_folder(from) ||
                 (!luo_foreign_is(cli, from) && luo_calibrate_suite_is(cli, from))))
        return from_suites(j, from);
    if (from && luo_calibrate_layers_is(cli, from)) return luo_calibrate_layers(cli, j->dir, from);
    LUO_TRY(luo_cli_fail(cli, refuse_layer_options(cli, &err), &err));
    LUO_TRY(luo_cli_fail(cli, refuse_suite_options(cli, &err), &err));
    LUO_TRY(luo_cli_fail(cli, find_machine(j, &err), &err));
    luo_jsonw_text(&cli->json, "out", j->dir);
    luo_jsonw_open(&cli->json, "profiles", '[');
    luo_status st = from   ? take_tables(j, from)
                    : cuda ? luo_calibrate_gpus(cli, j->dir, j->quick, j->ranks)
                           : measure(j);
    luo_jsonw_close(&cli->json);
    if (st == LUO_OK && j->csv.len) st = write_csv(j); /* that of GPUs is written */
    luo_str_free(&j->csv);
    return st;
}

luo_status luo_verb_calibrate_run(luo_cli *cli)
{
    const char *from = luo_args_get(&cli->args, "from", NULL);
    job j = {.cli = cli,
             .dir = luo_args_get(&cli->args, "out", "calibration"),
             .quick = luo_args_has(&cli->args, "quick")};
    const bool pool = !from && luo_args_has(&cli->args, "model");
    bool cuda = false;
    luo_err err = {0};
    if (!from) LUO_TRY(luo_cli_files(cli, 0, 0, "no file (but behind --from) is"));
    LUO_TRY(luo_cli_fail(cli, read_backend(cli, &cuda, &err), &err));
    LUO_TRY(luo_cli_fail(cli, read_ranks(&j, from != NULL, &err), &err));
    if (cuda && !from) LUO_TRY(luo_calibrate_gpus_check(cli));
    if (!cuda && !from && !pool) LUO_TRY(refuse_gpu_options(cli));
    luo_set set;
    LUO_TRY(luo_cli_fail(cli, luo_set_open(&set, j.dir, luo_args_has(&cli->args, "force"), &err),
                         &err));
    const luo_status st = calibrate(&j, from, cuda);
    luo_set_close(&set, false, NULL);
    return st;
}
