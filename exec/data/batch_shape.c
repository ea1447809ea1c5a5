/* batch_shape.c: which sequences of a step each micro-batch has, and where they lie in the data. */
#include "exec/data/batch.h"

#include <stdlib.h>
#include <string.h>

#include "core/plan/replan/reroute.h"

/* ---- shape ---- */

/* Tokens of a micro-batch as luo_plan_compile counts them. */
static int64_t tokens_of(const luo_plan *plan, int64_t row_tokens, int32_t i, int32_t k)
{
    const luo_pipeline *pipe = &plan->pipelines[i];
    int64_t assigned = 0;
    if (pipe->micro_batch_tokens) return pipe->micro_batch_tokens[k];
    for (int32_t a = 0; a < plan->nassignment; a++)
        if (plan->assignment[a].pipeline == i && plan->assignment[a].micro_batch == k)
            assigned += plan->assignment[a].length_tokens;
    return assigned ? assigned : pipe->micro_batch_sequences * row_tokens;
}

static luo_status cut_sequences(luo_arena *arena, const luo_plan *plan, bool causal,
                                luo_batch_shape *out, luo_err *err)
{
    if (!luo_plan_has_context(plan)) return LUO_OK;
    luo_context *context = LUO_NEW_N(arena, luo_context, plan->npipelines);
    int64_t *multiple = LUO_NEW_N(arena, int64_t, plan->npipelines);
    if (!context || !multiple) return luo_err_nomem(err);
    for (int32_t i = 0; i < plan->npipelines; i++) {
        context[i] = luo_plan_context(plan, causal, i);
        multiple[i] = luo_plan_context_multiple(plan, causal, i);
    }
    out->context = context;
    out->multiple = multiple;
    return LUO_OK;
}

static luo_status number(luo_arena *arena, const luo_plan *plan, luo_batch_shape *out, luo_err *err)
{
    if (!luo_plan_is_rerouted(plan)) return LUO_OK;
    int32_t *first = LUO_NEW_N(arena, int32_t, plan->npipelines);
    if (!first) return luo_err_nomem(err);
    for (int32_t i = 0; i < plan->npipelines; i++) first[i] = luo_plan_first_number(plan, i);
    out->first = first;
    return LUO_OK;
}

/* ---- assigned sequences ---- */

typedef struct assigned {
    int64_t number;
    int32_t place, pipeline, micro_batch; /* place: in the assignment */
    luo_batch_sequence sequence;
} assigned;

static int compare_numbers(const void *a, const void *b)
{
    const assigned *x = a, *y = b;
    if (x->number != y->number) return x->number < y->number ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

static int compare_places(const void *a, const void *b)
{
    const assigned *x = a, *y = b;
    if (x->pipeline != y->pipeline) return x->pipeline < y->pipeline ? -1 : 1;
    if (x->micro_batch != y->micro_batch) return x->micro_batch < y->micro_batch ? -1 : 1;
    return compare_numbers(a, b);
}

static void list_assigned(const luo_plan *plan, assigned *at, int64_t *tokens)
{
    const int32_t n = plan->nassignment;
    for (int32_t k = 0; k < n; k++) {
        const luo_assignment *assignment = &plan->assignment[k];
        at[k] = (assigned){assignment->sequence,
                           k,
                           assignment->pipeline,
                           assignment->micro_batch,
                           {.tokens = assignment->length_tokens, .number = assignment->sequence}};
    }
    qsort(at, (size_t)n, sizeof *at, compare_numbers);
    *tokens = 0;
    for (int32_t k = 0; k < n; k++) {
        at[k].sequence.before = *tokens;
        *tokens += at[k].sequence.tokens;
    }
    qsort(at, (size_t)n, sizeof *at, compare_places);
}

static luo_status list_sequences(luo_arena *arena, const luo_plan *plan, luo_batch_shape *out,
                                 luo_err *err)
{
    const int32_t n = plan->nassignment;
    int32_t next = 0;
    if (n == 0) return LUO_OK;
    luo_batch_sequence *sequence = LUO_NEW_N(arena, luo_batch_sequence, n);
    const int32_t **first = LUO_NEW_N(arena, const int32_t *, plan->npipelines);
    assigned *at = LUO_NEW_N(arena, assigned, n);
    if (!sequence || !first || !at) return luo_err_nomem(err);
    list_assigned(plan, at, &out->assigned_tokens);
    for (int32_t i = 0; i < plan->npipelines; i++) {
        const int32_t M = plan->pipelines[i].micro_batches;
        int32_t *own = LUO_NEW_N(arena, int32_t, (int64_t)M + 1);
        if (!own) return luo_err_nomem(err);
        for (int32_t k = 0; k < M; k++) {
            own[k] = next;
            for (; next < n && at[next].pipeline == i && at[next].micro_batch == k; next++)
                sequence[next] = at[next].sequence;
        }
        own[M] = next;
        first[i] = own;
    }
    out->sequence = sequence;
    out->nassigned = n;
    out->first_sequence = first;
    return LUO_OK;
}

static luo_status check_sequence(const luo_batch_sequence *sequence, const int64_t *length,
                                 int32_t n, luo_err *err)
{
    const int64_t number = sequence->number;
    if (number >= 0 && number < n && length[number] == sequence->tokens) return LUO_OK;
    return luo_err_set(err, LUO_EBUG,
                       "a part of a step has sequence %lld of %lld tokens, which is none of the %d "
                       "of the step.",
                       (long long)number, (long long)sequence->tokens, n);
}

luo_status luo_batch_place(luo_arena *arena, luo_batch_shape *shape, const int64_t *length,
                           int32_t n, luo_err *err)
{
    luo_batch_shape placed = *shape;
    memset(&placed.whole, 0, sizeof placed.whole);
    for (int32_t i = 0; n > 0 && i < shape->nassigned; i++)
        LUO_TRY(check_sequence(&shape->sequence[i], length, n, err));
    if (n > 0 && !(placed.whole.before = LUO_NEW_N(arena, int64_t, n))) return luo_err_nomem(err);
    for (int32_t k = 0; k < n; k++) {
        const int64_t documents = (length[k] + shape->row_tokens - 1) / shape->row_tokens;
        placed.whole.before[k] = placed.whole.tokens;
        placed.whole.tokens += length[k];
        placed.whole.targets += length[k] - documents; /* the last token of each has none */
    }
    *shape = placed;
    return LUO_OK;
}

int64_t luo_batch_data_tokens(const luo_batch_shape *shape)
{
    if (shape->whole.before) return shape->whole.tokens;
    return shape->sequence ? shape->assigned_tokens : shape->total_tokens;
}

/* ---- places ---- */

void luo_batch_find(const luo_batch_shape *shape, int32_t pipeline, int32_t number,
                    int32_t *of_pipeline, int32_t *micro_batch)
{
    *of_pipeline = pipeline;
    *micro_batch = number;
    for (int32_t i = 0; shape->first && i < shape->npipelines; i++) {
        const int32_t first = shape->first[i];
        if (first == 0 || number < first || number - first >= shape->nmicro[i]) continue;
        *of_pipeline = i;
        *micro_batch = number - first;
    }
}

int64_t luo_batch_padded(const luo_batch_shape *shape, int32_t pipeline, int32_t micro_batch)
{
    const int64_t t = shape->tokens[pipeline][micro_batch];
    if (!shape->context) return t;
    return luo_plan_padded(t, shape->row_tokens, shape->multiple[pipeline]);
}

luo_status luo_batch_shape_of(luo_arena *arena, const luo_plan *plan, bool causal,
                              int64_t sequence_tokens, luo_batch_shape *out, luo_err *err)
{
    const int64_t row = sequence_tokens ? sequence_tokens : plan->sequence_tokens;
    int32_t *nmicro = LUO_NEW_N(arena, int32_t, plan->npipelines);
    const int64_t **tokens = LUO_NEW_N(arena, const int64_t *, plan->npipelines);
    int64_t total = 0;
    if (!nmicro || !tokens) return luo_err_nomem(err);
    for (int32_t i = 0; i < plan->npipelines; i++) {
        int64_t *at = LUO_NEW_N(arena, int64_t, plan->pipelines[i].micro_batches);
        if (!at) return luo_err_nomem(err);
        nmicro[i] = plan->pipelines[i].micro_batches;
        tokens[i] = at;
        for (int32_t k = 0; k < nmicro[i]; k++) {
            at[k] = tokens_of(plan, row, i, k);
            if (at[k] >= INT32_MAX)
                return luo_err_set(err, LUO_E2BIG,
                                   "micro-batch %d of pipeline %d has %lld tokens; below 2^31 are "
                                   "expected.",
                                   (int)k, (int)i, (long long)at[k]);
            total += at[k];
        }
    }
    *out = (luo_batch_shape){.npipelines = plan->npipelines,
                             .nmicro = nmicro,
                             .tokens = tokens,
                             .row_tokens = row,
                             .total_tokens = total};
    LUO_TRY(list_sequences(arena, plan, out, err));
    LUO_TRY(number(arena, plan, out, err));
    return cut_sequences(arena, plan, causal, out, err);
}
