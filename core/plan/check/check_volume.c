/* check_volume.c: what a step amounts to, and the sequences that its micro-batches get. */
#include "core/base/quantity.h"
#include "core/plan/check/check_internal.h"

static double widest(const luo_model *model)
{
    const double q = (double)model->heads * (double)model->head_dim;
    const double width[] = {(double)model->hidden,      (double)model->ffn_hidden,
                            (double)model->vocab,       (double)model->classes,
                            (double)model->moe.experts, q};
    double most = 1;
    for (size_t i = 0; i < sizeof width / sizeof *width; i++)
        if (width[i] > most) most = width[i];
    return most;
}

/* Bytes of a tensor and FLOP of an operation fit into 63 bits. */
static void check_operations(luo_checker *checker, double tokens)
{
    const luo_model *model = checker->model;
    if (!model) return;
    const double q = (double)model->heads * (double)model->head_dim;
    const double product = 6 * tokens * widest(model) * (double)model->hidden;
    const double attention = 10 * tokens * q * (double)checker->p->sequence_tokens;
    const double flop = product > attention ? product : attention;
    if (flop < 9e18) return;
    luo_check_place(checker, "/sequence_tokens");
    luo_check_find(
        checker,
        "an operation of model `%s` on a step of this plan has %.3g FLOP; up to 9e18 are "
        "taken.",
        model->name, flop);
}

static void check_tokens(luo_checker *checker)
{
    const int64_t most = (int64_t)luo_quantity_at(LUO_Q_TOKENS)->highest;
    const int64_t tokens = luo_plan_tokens(checker->p);
    luo_check_place(checker, "/pipelines");
    if (tokens > most)
        luo_check_find(checker, "a step of %lld tokens is too large; up to %lld are taken.",
                       (long long)tokens, (long long)most);
    else
        check_operations(checker, (double)tokens);
    int64_t assigned = 0;
    for (int32_t k = 0; k < checker->p->nassignment && assigned <= most; k++)
        assigned += checker->p->assignment[k].length_tokens;
    luo_check_place(checker, "/assignment");
    if (assigned > most)
        luo_check_find(checker,
                       "`assignment` has more than %lld tokens in a step; fewer are taken.",
                       (long long)most);
}

/* Lengths given for the micro-batches have room for the sequences given to them. */
static void check_room(luo_checker *checker, int32_t i)
{
    const luo_plan *plan = checker->p;
    const luo_pipeline *pl = &plan->pipelines[i];
    if (!pl->micro_batch_tokens || !plan->nassignment) return;
    int64_t *sum = LUO_NEW_N(checker->arena, int64_t, pl->micro_batches);
    if (!sum) checker->failed = true;
    for (int32_t k = 0; sum && k < plan->nassignment; k++) {
        const luo_assignment *assignment = &plan->assignment[k];
        if (assignment->pipeline == i && assignment->micro_batch >= 0 &&
            assignment->micro_batch < pl->micro_batches &&
            sum[assignment->micro_batch] <= pl->micro_batch_tokens[assignment->micro_batch])
            sum[assignment->micro_batch] += assignment->length_tokens;
    }
    for (int32_t k = 0; sum && k < pl->micro_batches; k++) {
        if (sum[k] <= pl->micro_batch_tokens[k]) continue;
        luo_check_place(checker, "/pipelines/%d/micro_batch_tokens/%d", i, k);
        luo_check_find(
            checker,
            "micro-batch %d of pipeline %d has %lld tokens, but `assignment` gives it %lld; "
            "at least as many are needed.",
            k, i, (long long)pl->micro_batch_tokens[k], (long long)sum[k]);
    }
}

static void check_assignment(luo_checker *checker)
{
    const luo_plan *plan = checker->p;
    for (int32_t i = 0; i < plan->npipelines; i++) check_room(checker, i);
    for (int32_t k = 0; k < plan->nassignment; k++) {
        const luo_assignment *assignment = &plan->assignment[k];
        luo_check_place(checker, "/assignment/%d/pipeline", k);
        if (assignment->pipeline < 0 || assignment->pipeline >= plan->npipelines) {
            luo_check_find(checker, "pipeline %d does not exist; pipelines are 0 to %d.",
                           assignment->pipeline, plan->npipelines - 1);
            continue;
        }
        luo_check_place(checker, "/assignment/%d/micro_batch", k);
        if (assignment->micro_batch < 0 ||
            assignment->micro_batch >= plan->pipelines[assignment->pipeline].micro_batches)
            luo_check_find(checker,
                           "micro-batch %d does not exist in pipeline %d; its ids are 0 to %d.",
                           assignment->micro_batch, assignment->pipeline,
                           plan->pipelines[assignment->pipeline].micro_batches - 1);
    }
}

void luo_check_volume(luo_checker *checker)
{
    check_tokens(checker);
    check_assignment(checker);
}
