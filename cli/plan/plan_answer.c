#include "cli/plan/plan_answer.h"

#include "core/plan/step/step.h"

enum { KINDS = 3 }; /* of pipelines, told one by one */

/* How many from i on are alike. */
static int32_t alike_from(const luo_plan *plan, int32_t i)
{
    const luo_pipeline *first = &plan->pipelines[i];
    int32_t n = 1;
    for (; i + n < plan->npipelines; n++) {
        const luo_pipeline *pipeline = &plan->pipelines[i + n];
        if (pipeline->nstages != first->nstages ||
            pipeline->micro_batches != first->micro_batches ||
            luo_stage_tp(&pipeline->stages[0]) != luo_stage_tp(&first->stages[0]))
            break;
    }
    return n;
}

static void say_alike(luo_str *text, const luo_pipeline *pipeline, int32_t n)
{
    luo_str_addf(text, "%d x (tp %d, ", n, luo_stage_tp(&pipeline->stages[0]));
    if (pipeline->stages[0].context_parallel > 1)
        luo_str_addf(text, "cp %d, ", pipeline->stages[0].context_parallel);
    luo_str_addf(text, "pp %d, %d micro-batch%s of %d)", pipeline->nstages, pipeline->micro_batches,
                 pipeline->micro_batches == 1 ? "" : "es", pipeline->micro_batch_sequences);
}

static void say_ends(luo_str *text, const luo_plan *plan)
{
    const luo_pipeline *all = plan->pipelines;
    int32_t pp[2] = {all[0].nstages, all[0].nstages};
    int32_t tp[2] = {luo_stage_tp(&all[0].stages[0]), luo_stage_tp(&all[0].stages[0])};
    for (int32_t i = 0; i < plan->npipelines; i++) {
        pp[0] = all[i].nstages < pp[0] ? all[i].nstages : pp[0];
        pp[1] = all[i].nstages > pp[1] ? all[i].nstages : pp[1];
        for (int32_t k = 0; k < all[i].nstages; k++) {
            const int32_t t = luo_stage_tp(&all[i].stages[k]);
            tp[0] = t < tp[0] ? t : tp[0];
            tp[1] = t > tp[1] ? t : tp[1];
        }
    }
    luo_str_addf(text, "%d pipelines of %d to %d stages, tp %d to %d", plan->npipelines, pp[0],
                 pp[1], tp[0], tp[1]);
}

void luo_plan_shape_say(luo_str *text, const luo_plan *plan)
{
    int32_t kinds = 0;
    for (int32_t i = 0; i < plan->npipelines; i += alike_from(plan, i)) kinds++;
    if (kinds > KINDS) {
        say_ends(text, plan);
        return;
    }
    for (int32_t i = 0, n; i < plan->npipelines; i += n) {
        n = alike_from(plan, i);
        if (i > 0) luo_str_add(text, " + ");
        say_alike(text, &plan->pipelines[i], n);
    }
}

static void say_step(luo_str *text, const luo_plan_answer *answer)
{
    luo_str_addf(text, "; a step takes %.4g s", answer->step_s);
    if (answer->closed) luo_str_add(text, " by the closed form");
    if (answer->range) {
        luo_str_add(text, " (");
        luo_time_range_say(text, answer->range, answer->step_s);
        luo_str_addc(text, ')');
    }
    const double mfu = luo_plan_mfu(answer->plan, answer->model, answer->cluster, answer->step_s);
    if (mfu > 0) luo_str_addf(text, ", MFU %.1f %%", 100 * mfu);
}

void luo_plan_answer_print(luo_cli *cli, const luo_plan_answer *answer)
{
    luo_str text = {0};
    if (cli->as_json) return;
    luo_str_addf(&text, "Choose %s: ", answer->file);
    luo_plan_shape_say(&text, answer->plan);
    if (answer->plan->zero > 0) luo_str_addf(&text, ", zero %d", answer->plan->zero);
    if (answer->step_s >= 0) say_step(&text, answer);
    if (answer->memory_ratio >= 0)
        luo_str_addf(&text, ", memory %.1f %% full", 100 * answer->memory_ratio);
    const double more = answer->next ? answer->next_s / answer->step_s - 1 : 0;
    if (answer->next && more < 5e-5)
        luo_str_addf(&text, "; next, %s: as long", answer->next);
    else if (more > 1)
        luo_str_addf(&text, "; next, %s: %.3g times as long%s", answer->next, 1 + more,
                     answer->apart);
    else if (answer->next)
        luo_str_addf(&text, "; next, %s: %.2g %% longer%s", answer->next, 100 * more,
                     answer->apart);
    fprintf(luo_cli_out(cli), "%s.\n", luo_str_get(&text));
    luo_str_free(&text);
}
