/* sweep_inputs.c: options of `luoshu sweep`: what is swept, and which part is this one's. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/build_info.h"
#include "cli/inputs.h"
#include "cli/run/seeds.h"
#include "cli/sweep/sweep_job.h"
#include "core/io/files.h"
#include "core/run/policy/policy.h"

enum { TRIED = 1000 }; /* cells that are read before it is said that none can be */

/* ---- keys ---- */

/* Paths of options are relative to where the user stands. */
static const char *whole_path(luo_arena *arena, const char *path)
{
    char *whole = realpath(path, NULL);
    const char *text = luo_arena_strdup(arena, whole ? whole : path);
    free(whole);
    return text;
}

/* A file that is not there is a slip of the pen, no cell that cannot be. */
static luo_status add_files(luo_sweep_job *job, const char *option, const char *key,
                            const char *text, luo_err *err)
{
    LUO_TRY(luo_sweep_add_files(job->cli->arena, &job->grid, option, key, text, whole_path, err));
    const luo_sweep_key *added = &job->grid.key[job->grid.nkeys - 1];
    for (int64_t i = 0; i < added->n; i++) {
        char why[128];
        if (access(added->set[i], R_OK) == 0) continue;
        luo_io_errno_text(errno, why, sizeof why);
        return luo_err_set(err, LUO_EINPUT, "`--%s` names `%s`, which cannot be read: %s.", option,
                           added->text[i], why);
    }
    return LUO_OK;
}

static luo_status read_keys(luo_sweep_job *job, luo_err *err)
{
    const luo_args *args = &job->cli->args;
    for (int i = 0; i < args->nset; i++) {
        const char *name = args->set[i].option->name, *value = args->set[i].value;
        const bool range = strcmp(name, "over") == 0;
        if (range || strcmp(name, "grid") == 0)
            LUO_TRY(luo_sweep_add_key(job->cli->arena, &job->grid, name, value, range, err));
        if (strcmp(name, "plans") == 0) LUO_TRY(add_files(job, name, "plan", value, err));
        if (strcmp(name, "clusters") == 0) LUO_TRY(add_files(job, name, "cluster", value, err));
    }
    for (int32_t k = 0; k < job->grid.nkeys; k++)
        if (strcmp(job->grid.key[k].name, "seed") == 0)
            return luo_err_set(err, LUO_EUSAGE, "`seed` is no key to sweep; give --seeds.");
    return LUO_OK;
}

static luo_status check_least(luo_sweep_job *job, luo_err *err)
{
    const char *least = luo_args_get(&job->cli->args, "least", NULL);
    const bool over = luo_args_has(&job->cli->args, "over");
    job->least = least != NULL;
    if (over != job->least)
        return luo_err_set(err, LUO_EUSAGE,
                           "`--%s` is given alone; --least CONDITION and --over "
                           "KEY=LO:HI belong together.",
                           over ? "over" : "least");
    if (!job->least && job->grid.nkeys == 0)
        return luo_err_set(err, LUO_EUSAGE,
                           "nothing is swept; --grid KEY=VALUE,VALUE is expected, "
                           "or --plans, --clusters or --least.");
    if (!job->least) return LUO_OK;
    if (job->grid.nkeys != 1)
        return luo_err_set(err, LUO_EUSAGE,
                           "`--least` seeks one key; --over once, without --grid, "
                           "--plans and --clusters, is expected.");
    return luo_sweep_read_condition(least, &job->condition, err);
}

static luo_status read_seeds(luo_sweep_job *job, luo_err *err)
{
    luo_seeds seeds = {.text = luo_args_get(&job->cli->args, "seeds", NULL)};
    if (!seeds.text) return LUO_OK;
    if (luo_args_has(&job->cli->args, "seed"))
        return luo_err_set(err, LUO_EUSAGE, "`--seed` and `--seeds` are given; give one of them.");
    LUO_TRY(luo_seeds_read(job->cli, &seeds, err));
    job->grid.nseeds = seeds.n;
    job->grid.seed = seeds.seed;
    return LUO_OK;
}

/* ---- the first cell ---- */

/* Where none can be read, what the first one says is told. */
static luo_status read_first(luo_sweep_job *job, luo_err *err)
{
    luo_cli own = *job->cli;
    luo_err first_err = {0};
    luo_diags first = {0};
    luo_status st = LUO_OK;
    for (int64_t cell = 0; cell < job->cells && cell < TRIED; cell++) {
        const int64_t nseeds = job->grid.nseeds > 0 ? job->grid.nseeds : 1;
        const size_t mark = luo_arena_mark(own.arena);
        luo_err here = {0};
        luo_diags_init(&own.diags, own.arena);
        const luo_status got =
            luo_sweep_unit_read(&own, &job->units, cell * nseeds, &job->first, &here);
        if (got == LUO_OK) return LUO_OK;
        if (cell > 0) {
            luo_arena_reset(own.arena, mark);
            continue;
        }
        first = own.diags;
        first_err = here;
        st = got;
    }
    for (const luo_diag *diag = first.first; diag; diag = diag->next)
        luo_diags_add(&job->cli->diags, diag->severity, diag->err.st,
                      *diag->err.path ? diag->err.path : NULL, diag->err.line, diag->err.col, "%s",
                      diag->err.text);
    *err = first_err;
    return st;
}

static luo_status list_bounds(luo_sweep_job *job, luo_err *err)
{
    const luo_scenario *sc = job->first.scenario;
    job->bounds = LUO_NEW_N(job->cli->arena, const char *, sc->npolicies);
    if (!job->bounds) return luo_err_nomem(err);
    for (int32_t i = 0; i < sc->npolicies; i++) {
        const luo_policy *policy = luo_policy_find(sc->policies[i].name);
        if (policy && policy->bound) job->bounds[job->nbounds++] = sc->policies[i].label;
    }
    return LUO_OK;
}

/* Without --seeds that of the scenario is the only one. */
static luo_status settle_seeds(luo_sweep_job *job, luo_err *err)
{
    if (job->grid.nseeds > 0) return LUO_OK;
    const char **seed = LUO_NEW_N(job->cli->arena, const char *, 1);
    if (!seed) return luo_err_nomem(err);
    seed[0] =
        luo_arena_printf(job->cli->arena, "%llu", (unsigned long long)job->first.scenario->seed);
    if (!seed[0]) return luo_err_nomem(err);
    job->grid.nseeds = 1;
    job->grid.seed = seed;
    return LUO_OK;
}

/* Processors that this process may use: those that mpirun or Slurm has bound it to. */
static int64_t count_cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

luo_status luo_sweep_job_read(luo_sweep_job *job, luo_err *err)
{
    const luo_args *args = &job->cli->args;
    luo_session *session = LUO_NEW(job->cli->arena, luo_session);
    int64_t jobs;
    bool ranges;
    luo_file_kind kind;
    if (!session) return luo_err_nomem(err);
    LUO_TRY(luo_file_kind_of(job->path, &kind, &job->cli->diags));
    if (kind != LUO_FILE_SCENARIO)
        return luo_err_set(err, LUO_EUSAGE,
                           "`%s` is a %s; a scenario is expected, and --plans or "
                           "--clusters for files in it.",
                           job->path, luo_file_kind_name(kind));
    LUO_TRY(luo_args_int(args, "jobs", count_cores(), 1, 4096, &jobs, err));
    LUO_TRY(luo_inputs_on_off(args, "plots", &job->plots, err));
    LUO_TRY(luo_inputs_on_off(args, "ranges", &ranges, err));
    LUO_TRY(read_keys(job, err));
    LUO_TRY(check_least(job, err));
    LUO_TRY(read_seeds(job, err));
    LUO_TRY(luo_sweep_count(&job->grid, &job->cells, err));
    LUO_TRY(luo_inputs_simulator(job->cli, session, err));
    session->run.work = &job->cli->work;
    session->run.trace.kind = LUO_TRACE_NONE;
    session->run.range =
        ranges && job->grid.nseeds <= 1 && !job->least; /* else seeds say how sure */
    job->units = (luo_sweep_units){.cli = job->cli,
                                   .path = job->path,
                                   .grid = &job->grid,
                                   .run = &session->run,
                                   .jobs = (int32_t)jobs};
    LUO_TRY(read_first(job, err));
    LUO_TRY(settle_seeds(job, err));
    LUO_TRY(luo_sweep_count(&job->grid, &job->cells, err)); /* with the seeds */
    return list_bounds(job, err);
}

/* ---- what it is known by ---- */

/* Options that rows depend on, and the hash of the first cell does not have. */
luo_status luo_sweep_job_define(luo_sweep_job *job, luo_str *out, luo_err *err)
{
    static const char *const names[] = {"comm",  "comm-streams", "fold",  "policies", "dtype",
                                        "limit", "set",          "steps", "stack",    "ranges"};
    const luo_args *args = &job->cli->args;
    const char **settings = LUO_NEW_N(job->cli->arena, const char *, args->nset);
    luo_sweep_definition definition = {
        .version = luo_arena_printf(job->cli->arena, LUO_VERSION " %s", luo_build_git),
        .scenario = job->first.scenario->name,
        .scenario_hash = job->first.scenario->hash,
        .path = job->path,
        .settings = settings};
    if (!definition.version || (args->nset > 0 && !settings)) return luo_err_nomem(err);
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        for (int i = 0; i < args->nset; i++) {
            if (strcmp(args->set[i].option->name, names[k]) != 0) continue;
            settings[definition.nsettings] =
                luo_arena_printf(job->cli->arena, "%s=%s", names[k], args->set[i].value);
            if (!settings[definition.nsettings++]) return luo_err_nomem(err);
        }
    return luo_sweep_define(job->cli->arena, &job->grid, &definition, out, err);
}

/* ---- parts ---- */

/* A whole number of the environment; `otherwise` where it is not set or none. */
static int64_t number_of(const char *name, int64_t otherwise)
{
    const char *text = getenv(name);
    char *end;
    if (!text || !*text) return otherwise;
    const long long v = strtoll(text, &end, 10);
    return *end || v < 0 || v > 1000000 ? otherwise : v;
}

luo_status luo_sweep_job_part(const luo_cli *cli, int32_t *part, int32_t *parts, luo_err *err)
{
    const char *text = luo_args_get(&cli->args, "part", NULL);
    char *end = NULL;
    if (text) {
        const long i = strtol(text, &end, 10), n = *end == '/' ? strtol(end + 1, &end, 10) : 0;
        if (*end || text[0] < '1' || text[0] > '9' || n < i || n > 1000000)
            return luo_err_set(err, LUO_EUSAGE,
                               "`--part` is `%s`; I/N, such as 1/4 to 4/4, is expected.", text);
        *part = (int32_t)i;
        *parts = (int32_t)n;
        return LUO_OK;
    }
    const int64_t step = number_of("SLURM_ARRAY_TASK_STEP", 1);
    const int64_t tasks = number_of("SLURM_ARRAY_TASK_COUNT", 1);
    const int64_t task =
        (number_of("SLURM_ARRAY_TASK_ID", 0) - number_of("SLURM_ARRAY_TASK_MIN", 0)) /
        (step > 0 ? step : 1);
    const int64_t ranks = number_of("OMPI_COMM_WORLD_SIZE", 1);
    const int64_t rank = number_of("OMPI_COMM_WORLD_RANK", 0);
    if (tasks < 1 || ranks < 1 || task < 0 || task >= tasks || rank >= ranks)
        return luo_err_set(err, LUO_EUSAGE,
                           "the task of the Slurm array or the rank of mpirun is "
                           "not below their number; give --part I/N.");
    *part = (int32_t)(task * ranks + rank + 1);
    *parts = (int32_t)(tasks * ranks);
    return LUO_OK;
}
