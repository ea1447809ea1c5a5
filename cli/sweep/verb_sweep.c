/* verb_sweep.c: `luoshu sweep SCENARIO`: a scenario under many values of its keys. */
#include <signal.h>
#include <stdlib.h>

#include "cli/range.h"
#include "cli/run/finish.h"
#include "cli/sweep/sweep_job.h"
#include "core/base/process.h"

static luo_status put(void *ctx, const luo_sweep_row *rows, int32_t n, luo_err *err)
{
    return luo_sweep_folder_put(ctx, rows, n, err);
}

luo_status luo_sweep_job_run(luo_sweep_job *job, const int64_t *unit, int64_t n, luo_err *err)
{
    int64_t *missing = LUO_NEW_N(job->cli->arena, int64_t, n > 0 ? n : 1), k = 0;
    if (!missing) return luo_err_nomem(err);
    for (int64_t i = 0; i < n; i++)
        if (luo_sweep_find(&job->folder.rows, unit[i]) < 0) missing[k++] = unit[i];
    job->units.put = put;
    job->units.ctx = &job->folder;
    return luo_sweep_units_run(&job->units, missing, k, err);
}

luo_status luo_sweep_job_judge(luo_sweep_job *job, luo_sweep_answer *out, luo_err *err)
{
    return luo_sweep_judge(job->cli->arena, &job->grid, &job->folder.rows, job->bounds,
                           job->nbounds, out, err);
}

/* Every parts-th unit, from this part on. */
static luo_status run_part(luo_sweep_job *job, luo_err *err)
{
    const int64_t units = job->cells * job->grid.nseeds;
    const luo_sweep_folder *folder = &job->folder;
    int64_t *unit = LUO_NEW_N(job->cli->arena, int64_t, units / folder->parts + 1), n = 0;
    if (!unit) return luo_err_nomem(err);
    for (int64_t i = folder->part - 1; i < units; i += folder->parts) unit[n++] = i;
    return luo_sweep_job_run(job, unit, n, err);
}

/* ---- the answer ---- */

static luo_status answer(luo_sweep_job *job, luo_err *err)
{
    luo_sweep_answer sweep_answer;
    luo_str text = {0};
    int32_t drawn = 0;
    LUO_TRY(luo_sweep_job_judge(job, &sweep_answer, err));
    luo_status st = luo_sweep_say(job->cli->arena, &job->grid, &sweep_answer, &text, err);
    if (st == LUO_OK) st = luo_sweep_job_tell(job, &sweep_answer, luo_str_get(&text), err);
    luo_str_free(&text);
    if (st == LUO_OK)
        st = luo_sweep_say_cases(job->cli->arena, &job->grid, &sweep_answer, &text, err);
    fputs(luo_str_get(&text), luo_cli_out(job->cli));
    luo_str_free(&text);
    if (st == LUO_OK)
        st = luo_sweep_json(job->cli->arena, &job->grid, &sweep_answer, sweep_answer.ncases,
                            &job->cli->json, err);
    if (st == LUO_OK) st = luo_sweep_job_draw(job, &sweep_answer, &drawn, err);
    luo_cli_tell_place(job->cli, job->folder.dir, drawn);
    if (st != LUO_OK || sweep_answer.failed < sweep_answer.nrows) return st;
    return luo_cli_error(job->cli, LUO_ENO,
                         "no run has figures; values that can be simulated are "
                         "expected.");
}

/* Whoever finds that nothing is missing makes the table. */
static luo_status finish(luo_sweep_job *job, luo_err *err)
{
    const luo_sweep_folder *folder = &job->folder;
    const int64_t units = job->cells * job->grid.nseeds;
    int64_t missing;
    LUO_TRY(luo_sweep_folder_merge(&job->folder, units, &missing, err));
    luo_jsonw_int(&job->cli->json, "missing", missing);
    if (missing == 0) return answer(job, err);
    fprintf(luo_cli_out(job->cli),
            "part %d of %d is done; %lld of %lld cells and seeds are missing, which other parts "
            "have.\n",
            (int)folder->part, (int)folder->parts, (long long)missing, (long long)units);
    return LUO_OK;
}

static luo_status sweep(luo_sweep_job *job, luo_err *err)
{
    LUO_TRY(job->least ? luo_sweep_job_least(job, err) : run_part(job, err));
    if (*luo_process_asked()) return LUO_OK;
    return job->least ? LUO_OK : finish(job, err);
}

static luo_status open_folder(luo_sweep_job *job, luo_err *err)
{
    luo_sweep_folder *folder = &job->folder;
    luo_str definition = {0};
    const char *name = luo_arena_printf(job->cli->arena, "%s-sweep", job->first.scenario->name);
    if (!name) return luo_err_nomem(err);
    folder->cli = job->cli;
    folder->grid = &job->grid;
    folder->dir = luo_args_get(&job->cli->args, "out", name);
    LUO_TRY(luo_sweep_job_part(job->cli, &folder->part, &folder->parts, err));
    if (job->least && folder->parts > 1)
        return luo_err_set(err, LUO_EUSAGE,
                           "`--least` asks one value after the other; one part "
                           "alone is expected.");
    luo_status st = luo_sweep_job_define(job, &definition, err);
    if (st == LUO_OK) st = luo_sweep_folder_open(folder, luo_str_get(&definition), err);
    luo_str_free(&definition);
    luo_jsonw_text(&job->cli->json, "out", folder->dir);
    return st;
}

static luo_status run(luo_sweep_job *job, luo_err *err)
{
    LUO_TRY(luo_sweep_job_read(job, err));
    luo_process_catch();
    luo_status st = open_folder(job, err);
    const luo_scenario *sc = job->first.scenario;
    if (st == LUO_OK) luo_cli_range_warn(job->cli, sc->cluster, &sc->stack, NULL);
    if (st == LUO_OK) st = sweep(job, err);
    luo_err late = {0};
    const luo_status closed = luo_sweep_folder_close(&job->folder, &late);
    if (st == LUO_OK && closed != LUO_OK) {
        *err = late;
        st = closed;
    }
    return st;
}

luo_status luo_verb_sweep_run(luo_cli *cli)
{
    luo_err err = {0};
    LUO_TRY(luo_cli_files(cli, 1, 1, "a scenario is"));
    luo_sweep_job *job = LUO_NEW(cli->arena, luo_sweep_job);
    if (!job) return luo_cli_error(cli, LUO_ENOMEM, "%s.", luo_status_text(LUO_ENOMEM));
    job->cli = cli;
    job->path = cli->args.files[0];
    luo_status st = run(job, &err);
    if (err.text[0]) st = luo_cli_fail(cli, st, &err);
    const int sig = *luo_process_asked();
    if (sig) {
        luo_cli_flush(cli);
        exit(128 + sig);
    }
    luo_process_let();
    return st;
}
