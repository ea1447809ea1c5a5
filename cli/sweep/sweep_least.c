/* sweep_least.c: `luoshu sweep --least CONDITION --over KEY=LO:HI`. */
#include <string.h>

#include "cli/run/finish.h"
#include "cli/sweep/sweep_job.h"
#include "core/base/process.h"

/* A cell under all seeds, and whether the condition holds there. */
static luo_status ask(luo_sweep_job *job, int64_t cell, bool *holds, luo_err *err)
{
    int64_t *unit = LUO_NEW_N(job->cli->arena, int64_t, job->grid.nseeds), missing;
    luo_sweep_answer answer;
    const luo_sweep_case *which;
    if (!unit) return luo_err_nomem(err);
    for (int32_t i = 0; i < job->grid.nseeds; i++) unit[i] = cell * job->grid.nseeds + i;
    LUO_TRY(luo_sweep_job_run(job, unit, job->grid.nseeds, err));
    LUO_TRY(luo_sweep_folder_merge(&job->folder, 0, &missing, err));
    LUO_TRY(luo_sweep_job_judge(job, &answer, err));
    *holds = luo_sweep_holds(&job->condition, &answer, cell, &which);
    return LUO_OK;
}

/* `extent.steps=12: goodput 714205 (static)` */
static luo_status say_cell(luo_sweep_job *job, const luo_sweep_answer *answer, int64_t cell,
                           const char *key, luo_str *text, luo_err *err)
{
    const luo_sweep_key *sweep_key = &job->grid.key[0];
    const luo_sweep_case *which;
    const char *value = luo_sweep_value(job->cli->arena, sweep_key, cell);
    const bool holds = luo_sweep_holds(&job->condition, answer, cell, &which);
    if (!value) return luo_err_nomem(err);
    luo_str_addf(text, "%s=%s: %s", sweep_key->name, value, holds ? "holds" : "does not hold");
    luo_jsonw_open(&job->cli->json, key, '{');
    luo_jsonw_text(&job->cli->json, "value", value);
    luo_jsonw_bool(&job->cli->json, "holds", holds);
    if (!which)
        luo_str_add(text, "; no policy has figures there");
    else if (job->condition.quantity >= 0)
        luo_str_addf(text, "; %.*s is %.6g under `%s`", (int)strcspn(job->condition.text, "<>="),
                     job->condition.text, luo_sweep_quantity(&job->condition, which),
                     which->policy);
    else
        luo_str_addf(text, "; `%s` is %s", which->policy, luo_run_state_name(which->state));
    if (which && job->condition.quantity >= 0)
        luo_jsonw_num(&job->cli->json, "quantity", luo_sweep_quantity(&job->condition, which), 9);
    if (which) luo_jsonw_text(&job->cli->json, "policy", which->policy);
    luo_jsonw_close(&job->cli->json);
    luo_str_add(text, ".\n");
    return LUO_OK;
}

/* The evaluated cell next above; -1: there is none. */
static int64_t next_above(const luo_sweep_rows *rows, int64_t cell)
{
    for (int64_t i = 0; i < rows->n; i++)
        if (rows->at[i].cell > cell) return rows->at[i].cell;
    return -1;
}

/* The sentences, a line each: the value, and what holds there and beside it. */
static luo_status say(luo_sweep_job *job, const luo_sweep_search *search,
                      const luo_sweep_answer *answer, luo_str *text, luo_err *err)
{
    luo_arena *arena = job->cli->arena;
    const luo_sweep_key *key = &job->grid.key[0];
    const char *lo = luo_sweep_value(arena, key, 0),
               *hi = luo_sweep_value(arena, key, search->n - 1);
    const char *least = luo_sweep_value(arena, key, search->hi < search->n ? search->hi : 0);
    if (!lo || !hi || !least) return luo_err_nomem(err);
    luo_jsonw_text(&job->cli->json, "condition", job->condition.text);
    luo_jsonw_text(&job->cli->json, "key", key->name);
    luo_jsonw_text(&job->cli->json, "least", search->hi < search->n ? least : NULL);
    if (search->hi == search->n) {
        luo_str_addf(text,
                     "`%s` holds neither at %s=%s nor at %s; between them it was not asked.\n",
                     job->condition.text, key->name, lo, hi);
        LUO_TRY(say_cell(job, answer, 0, "below", text, err));
        return search->n > 1 ? say_cell(job, answer, search->n - 1, "above", text, err) : LUO_OK;
    }
    luo_str_addf(text, "least: %s=%s is the smallest value for which `%s` holds.\n", key->name,
                 least, job->condition.text);
    if (search->first && search->last == 0)
        luo_str_addf(text,
                     "It holds at the lowest value and no longer at the highest, %s; --least is "
                     "for what holds from some value on.\n",
                     hi);
    else if (search->first)
        luo_str_add(text, "That is the lowest value that was asked for; smaller ones may do.\n");
    if (search->hi > 0) LUO_TRY(say_cell(job, answer, search->hi - 1, "below", text, err));
    LUO_TRY(say_cell(job, answer, search->hi, "at", text, err));
    const int64_t above = next_above(&job->folder.rows, search->hi);
    return above < 0 ? LUO_OK : say_cell(job, answer, above, "above", text, err);
}

static luo_status tell(luo_sweep_job *job, const luo_sweep_search *search, luo_err *err)
{
    luo_sweep_answer answer;
    luo_str text = {0};
    int32_t drawn = 0;
    LUO_TRY(luo_sweep_job_judge(job, &answer, err));
    luo_status st = say(job, search, &answer, &text, err);
    if (st == LUO_OK && text.failed) st = luo_err_nomem(err);
    if (st == LUO_OK) st = luo_sweep_job_tell(job, &answer, luo_str_get(&text), err);
    luo_str_free(&text);
    if (st == LUO_OK) st = luo_sweep_job_draw(job, &answer, &drawn, err);
    luo_cli_tell_place(job->cli, job->folder.dir, drawn);
    return st;
}

luo_status luo_sweep_job_least(luo_sweep_job *job, luo_err *err)
{
    luo_sweep_search search = {
        .n = job->cells, .lo = -1, .hi = job->cells, .first = -1, .last = -1};
    for (int64_t cell; (cell = luo_sweep_next(&search)) >= 0;) {
        bool holds;
        LUO_TRY(ask(job, cell, &holds, err));
        if (*luo_process_asked()) return LUO_OK;
        luo_sweep_tell(&search, cell, holds);
    }
    LUO_TRY(tell(job, &search, err));
    return search.hi < search.n ? LUO_OK : LUO_ENO;
}
