/* sweep_answer.c: the answer of a sweep: printed, in the document of --json, and in
 * sweep-answer.json, which `luoshu report` reads. */
#include "cli/run/finish.h"
#include "cli/sweep/sweep_job.h"
#include "core/io/files.h"

static luo_status write_answer(luo_sweep_job *job, const luo_sweep_answer *sweep_answer,
                               const char *question, const char *answer, luo_err *err)
{
    luo_str text = {0};
    luo_jsonw json = luo_jsonw_start(&text);
    const char *path = luo_arena_printf(job->cli->arena, "%s/" LUO_SWEEP_ANSWER, job->folder.dir);
    luo_jsonw_open(&json, NULL, '{');
    luo_jsonw_text(&json, "schema", LUO_SWEEP_ANSWER_SCHEMA);
    luo_jsonw_text(&json, "question", question);
    luo_jsonw_text(&json, "condition", job->least ? job->condition.text : NULL);
    luo_jsonw_text(&json, "answer", answer);
    luo_status st =
        luo_sweep_json(job->cli->arena, &job->grid, sweep_answer, LUO_SWEEP_KEPT, &json, err);
    luo_jsonw_int(&json, "more_cases",
                  sweep_answer->ncases > LUO_SWEEP_KEPT ? sweep_answer->ncases - LUO_SWEEP_KEPT
                                                        : 0);
    luo_jsonw_close(&json);
    luo_str_addc(&text, '\n');
    if (st == LUO_OK)
        st = !path || text.failed ? luo_err_nomem(err)
                                  : luo_file_write_own(path, text.at, text.len, err);
    luo_str_free(&text);
    return st;
}

luo_status luo_sweep_job_tell(luo_sweep_job *job, const luo_sweep_answer *sweep_answer,
                              const char *answer, luo_err *err)
{
    luo_str question = {0};
    luo_status st =
        luo_sweep_ask(&job->grid, job->least ? job->condition.text : NULL, &question, err);
    fputs(answer, luo_cli_out(job->cli));
    luo_jsonw_text(&job->cli->json, "question", luo_str_get(&question));
    luo_jsonw_text(&job->cli->json, "answer", answer);
    if (st == LUO_OK) st = write_answer(job, sweep_answer, luo_str_get(&question), answer, err);
    luo_str_free(&question);
    return st;
}

luo_status luo_sweep_job_draw(luo_sweep_job *job, const luo_sweep_answer *answer, int32_t *drawn,
                              luo_err *err)
{
    luo_cli *cli = job->cli;
    luo_str made = {0};
    int32_t keys;
    const char *plots = luo_arena_printf(cli->arena, "%s/plots", job->folder.dir);
    if (!plots) return luo_err_nomem(err);
    LUO_TRY(luo_file_make_own_dir(plots, err));
    LUO_TRY(luo_sweep_plotdata(cli->arena, plots, &job->grid, answer, &keys, err));
    if (!job->plots || keys == 0) return LUO_OK;
    const luo_plot_opts how = {.dir = job->folder.dir, .svg_alone = true};
    const luo_status st = luo_cli_draw(cli, &how, &made);
    for (const char *c = luo_str_get(&made); *c; c++) *drawn += *c == '\n';
    if (cli->verbose) fputs(luo_str_get(&made), luo_cli_out(cli));
    luo_str_free(&made);
    return st;
}
