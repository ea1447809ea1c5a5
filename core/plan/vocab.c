/* vocab.c: a vocabulary that tensor parallelism does not divide gets rows that no token has, as
 * Megatron-LM does it (`make-vocab-size-divisible-by` 128). */
#include "core/hspmd/bounds.h"
#include "core/plan/annotated.h"
#include "core/plan/plan.h"

enum { STEP = 128, MOST = 1024 }; /* rows of a part; parts, so that padding stays small */

/* Parts that a stage cuts the table into. */
static int64_t parts_of(const luo_stage *st)
{
    const int32_t tp = luo_stage_tp(st);
    int64_t sum = 0;
    for (int32_t k = 0; k < tp; k++) sum += st->shares ? st->shares[k] : 1;
    return sum > 0 ? sum : 1;
}

/* The least number of parts that all cuts of the table are made of; 0: too many. */
static int64_t common(const luo_plan *plan)
{
    const int64_t state = plan->state_layout.tensor;
    int64_t n = state > 0 ? state : 1;
    for (int32_t i = 0; i < plan->npipelines; i++)
        for (int32_t s = 0; s < plan->pipelines[i].nstages; s++) {
            const luo_stage *st = &plan->pipelines[i].stages[s];
            if (!(st->embedding || st->head) || st->ndev == 0 || st->context_parallel < 1) continue;
            const int64_t parts = parts_of(st);
            if (parts > MOST) return 0;
            n = n / luo_bounds_gcd(n, parts) * parts;
            if (n > MOST) return 0;
        }
    return n;
}

int64_t luo_plan_vocab(const luo_plan *plan, const luo_model *model)
{
    const int64_t n = luo_plan_is_annotated(plan) ? 1 : common(plan), step = STEP * n;
    if (n == 0 || model->vocab % n == 0) return model->vocab;
    return (model->vocab + step - 1) / step * step;
}

luo_status luo_plan_model(luo_arena *arena, const luo_plan *plan, const luo_model *model,
                          const luo_model **out, luo_err *err)
{
    const int64_t vocab = luo_plan_vocab(plan, model);
    *out = model;
    if (vocab == model->vocab) return LUO_OK;
    luo_model *padded = LUO_NEW(arena, luo_model);
    if (!padded) return luo_err_nomem(err);
    *padded = *model;
    padded->vocab = vocab;
    *out = padded;
    return LUO_OK;
}
