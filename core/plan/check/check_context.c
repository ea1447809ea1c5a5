/* check_context.c: how the stages of a pipeline cut sequences. */
#include "core/plan/check/check_internal.h"

static bool same_context(const luo_stage *a, const luo_stage *b)
{
    if (a->context_parallel != b->context_parallel || a->context_kind != b->context_kind ||
        a->context_layout != b->context_layout || a->context_inner != b->context_inner)
        return false;
    for (int32_t r = 0; r < a->context_parallel; r++)
        if ((a->context_shares ? a->context_shares[r] : 1) !=
            (b->context_shares ? b->context_shares[r] : 1))
            return false;
    return true;
}

/* Keys of context parallelism would change nothing with a degree of 1. */
static void check_no_context(luo_checker *checker, int32_t i, int32_t s)
{
    const luo_stage *st = &checker->p->pipelines[i].stages[s];
    const char *key = st->context_kind     ? "context_kind"
                      : st->context_layout ? "context_layout"
                      : st->context_inner  ? "context_inner"
                      : st->context_shares ? "context_shares"
                                           : NULL;
    if (!key) return;
    luo_check_place(checker, "/pipelines/%d/stages/%d/%s", i, s, key);
    luo_check_find(checker, "`%s` means nothing with `context_parallel` 1; leave it out.", key);
}

static void check_inner(luo_checker *checker, int32_t i, int32_t s)
{
    const luo_stage *st = &checker->p->pipelines[i].stages[s];
    const bool both = st->context_kind == LUO_CONTEXT_2D;
    const int32_t n = st->context_inner, ranks = st->context_parallel;
    if (!both && n == 0) return;
    luo_check_place(checker, "/pipelines/%d/stages/%d/%s", i, s,
                    n ? "context_inner" : "context_kind");
    if (!both)
        luo_check_find(checker,
                       "`context_inner` is given, but `context_kind` is `%s`; only `2d` has it.",
                       luo_context_kind_name(st->context_kind));
    else if (n < 2 || n >= ranks || ranks % n)
        luo_check_find(
            checker,
            "`context_kind` `2d` with `context_inner` %d; a divisor of `context_parallel` %d "
            "between 1 and it is expected.",
            n, ranks);
}

/* Heads go round in whole ones: every rank of an exchange takes one of each tensor rank's. */
static void check_context_heads(luo_checker *checker, int32_t i, int32_t s)
{
    const luo_stage *st = &checker->p->pipelines[i].stages[s];
    const luo_context context = luo_plan_context(checker->p, checker->model->causal, i);
    uint64_t total = 0, least = UINT32_MAX;
    const int32_t tp = luo_stage_tp(st);
    for (int32_t k = 0; k < tp; k++) {
        total += luo_check_share(st, k);
        if (luo_check_share(st, k) < least) least = luo_check_share(st, k);
    }
    if (context.inner < 2 || total == 0) return;
    const int64_t heads = (int64_t)((uint64_t)checker->model->heads * least / total);
    if (heads >= context.inner) return;
    luo_check_place(checker, "/pipelines/%d/stages/%d/context_kind", i, s);
    luo_check_find(
        checker,
        "`context_parallel` %d: %s needs %d query heads a tensor rank, not %lld; use ring.",
        st->context_parallel, luo_context_kind_name(st->context_kind), context.inner,
        (long long)heads);
}

static void check_context(luo_checker *checker, int32_t i, int32_t s)
{
    const luo_stage *st = &checker->p->pipelines[i].stages[s];
    if (st->context_parallel <= 1) {
        check_no_context(checker, i, s);
        return;
    }
    luo_err err;
    if (checker->model && luo_model_check_context(checker->model, &err) != LUO_OK) {
        luo_check_place(checker, "/pipelines/%d/stages/%d/context_parallel", i, s);
        luo_check_find(checker, "%s", err.text);
        return;
    }
    const luo_context context = {.c = st->context_parallel, .share = st->context_shares};
    const int64_t sum = luo_context_sum(&context);
    if (sum > LUO_CONTEXT_SHARES) {
        luo_check_place(checker, "/pipelines/%d/stages/%d/context_%s", i, s,
                        st->context_shares ? "shares" : "parallel");
        luo_check_find(checker, "sequences are cut into %lld shares; up to %d are expected.",
                       (long long)sum, (int)LUO_CONTEXT_SHARES);
    }
    check_inner(checker, i, s);
    if (checker->model && st->ndev % st->context_parallel == 0) check_context_heads(checker, i, s);
}

void luo_check_contexts(luo_checker *checker)
{
    for (int32_t i = 0; i < checker->p->npipelines; i++) {
        const luo_pipeline *pl = &checker->p->pipelines[i];
        for (int32_t s = 0; s < pl->nstages; s++) {
            check_context(checker, i, s);
            if (same_context(&pl->stages[0], &pl->stages[s])) continue;
            luo_check_place(checker, "/pipelines/%d/stages/%d", i, s);
            luo_check_find(checker,
                           "stage %d cuts sequences otherwise than stage 0 of pipeline %d; context "
                           "parallelism is alike in all stages of a pipeline.",
                           s, i);
        }
    }
}
