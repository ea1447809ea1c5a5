/* check_shares.c: what tensor parallelism cuts comes in whole heads, columns and rows. */
#include <stdio.h>

#include "core/plan/annotated.h"
#include "core/plan/check/check_internal.h"

typedef struct cut { /* a dimension that a stage cuts over its tensor-parallel devices */
    int64_t size;
    const char *what, *unit;
} cut;

uint32_t luo_check_share(const luo_stage *stage, int32_t k)
{
    return stage->shares ? stage->shares[k] : 1;
}

/* "4.5 and 1.5" or "1.5 each". */
static void parts(const luo_stage *st, int64_t size, uint64_t total, char *buf, size_t room)
{
    const int32_t tp = luo_stage_tp(st);
    if (!st->shares) {
        snprintf(buf, room, "%.6g each", (double)size / tp);
        return;
    }
    size_t at = 0;
    for (int32_t k = 0; k < tp && at + 32 < room; k++)
        at += (size_t)snprintf(buf + at, room - at, "%s%.6g",
                               k == 0        ? ""
                               : k == tp - 1 ? " and "
                                             : ", ",
                               (double)size * luo_check_share(st, k) / (double)total);
}

static void share_list(const luo_stage *st, char *buf, size_t room)
{
    size_t at = 0;
    for (int32_t k = 0; k < luo_stage_tp(st) && at + 16 < room; k++)
        at += (size_t)snprintf(buf + at, room - at, "%s%u", k ? "," : "[", luo_check_share(st, k));
    snprintf(buf + at, room - at, "]");
}

static void check_cut(luo_checker *checker, int32_t i, int32_t s, cut x)
{
    const luo_stage *st = &checker->p->pipelines[i].stages[s];
    const int32_t tp = luo_stage_tp(st);
    uint64_t total = 0;
    bool exact = true;
    for (int32_t k = 0; k < tp; k++) total += luo_check_share(st, k);
    for (int32_t k = 0; k < tp; k++)
        if ((uint64_t)x.size % total * luo_check_share(st, k) % total) exact = false;
    if (exact) return;
    char how[400], list[200];
    parts(st, x.size, total, how, sizeof how);
    if (st->shares) {
        share_list(st, list, sizeof list);
        luo_check_place(checker, "/pipelines/%d/stages/%d/shares", i, s);
        luo_check_find(checker, "`shares` %s would cut %lld %s into %s; shares must give whole %s.",
                       list, (long long)x.size, x.what, how, x.unit);
    } else {
        luo_check_place(checker, "/pipelines/%d/stages/%d/devices", i, s);
        luo_check_find(checker,
                       "tensor parallelism of %d would cut %lld %s into %s; it must give whole %s.",
                       tp, (long long)x.size, x.what, how, x.unit);
    }
}

/* Experts are dealt as evenly as they can be. */
static void check_dealt(luo_checker *checker, int32_t i, int32_t s)
{
    const luo_stage *st = &checker->p->pipelines[i].stages[s];
    const int32_t among = checker->p->expert_parallel ? checker->p->expert_parallel : st->ndev;
    if (among <= checker->model->moe.experts) return;
    luo_check_place(checker, "/pipelines/%d/stages/%d/devices", i, s);
    luo_check_find(
        checker,
        "%lld experts cannot be dealt to %d devices; use experts: tensor or fewer devices.",
        (long long)checker->model->moe.experts, among);
}

static void check_stage_cuts(luo_checker *checker, int32_t i, int32_t s)
{
    const luo_stage *st = &checker->p->pipelines[i].stages[s];
    const luo_model *model = checker->model;
    bool holds = false;
    for (int32_t k = 0; k < st->nlayers; k++) holds = holds || st->layers[k].lo < st->layers[k].hi;
    if (holds) {
        check_cut(checker, i, s, (cut){model->heads, "heads", "heads"});
        if (model->kv_heads != model->heads)
            check_cut(checker, i, s, (cut){model->kv_heads, "key-value heads", "heads"});
        if (model->ffn_hidden)
            check_cut(checker, i, s, (cut){model->ffn_hidden, "feed-forward columns", "columns"});
    }
    if (holds && model->moe.experts && st->experts_dealt) check_dealt(checker, i, s);
    if (holds && model->moe.experts && !st->experts_dealt)
        check_cut(checker, i, s, (cut){model->moe.expert_ffn_hidden, "expert columns", "columns"});
    if (model->vocab && (st->embedding || st->head))
        check_cut(
            checker, i, s,
            (cut){luo_plan_vocab(checker->p, model), "vocabulary rows", "rows (pad `vocab`)"});
}

void luo_check_shares(luo_checker *checker)
{
    if (checker->model && checker->model->max_sequence_tokens &&
        checker->p->sequence_tokens > checker->model->max_sequence_tokens) {
        luo_check_place(checker, "/sequence_tokens");
        luo_check_find(checker, "`sequence_tokens` is %lld; model `%s` takes up to %lld.",
                       (long long)checker->p->sequence_tokens, checker->model->name,
                       (long long)checker->model->max_sequence_tokens);
    }
    for (int32_t i = 0; i < checker->p->npipelines; i++)
        for (int32_t s = 0; s < checker->p->pipelines[i].nstages; s++) {
            const luo_stage *st = &checker->p->pipelines[i].stages[s];
            if (st->ndev % st->context_parallel) {
                luo_check_place(checker, "/pipelines/%d/stages/%d/context_parallel", i, s);
                luo_check_find(
                    checker,
                    "`context_parallel` is %d; it must divide the %d devices of the stage.",
                    st->context_parallel, st->ndev);
            } else if (checker->model && st->ndev && !luo_plan_is_annotated(checker->p)) {
                check_stage_cuts(checker, i, s);
            }
        }
}
