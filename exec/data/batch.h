/* batch.h: what a micro-batch of a step holds (data.h). */
#ifndef LUO_EXEC_DATA_BATCH_H
#define LUO_EXEC_DATA_BATCH_H
#include "core/plan/plan.h"
#include "exec/bind/kernels.h"
#include "exec/data/data.h"

typedef struct luo_batch_sequence { /* that the plan assigns to a micro-batch */
    int64_t tokens, number;
    int64_t before; /* tokens of sequences with smaller numbers in the plan */
} luo_batch_sequence;

typedef struct luo_batch_shape { /* of a step under a plan */
    int32_t npipelines;
    const int32_t *nmicro;        /* per pipeline */
    const int64_t *const *tokens; /* [pipeline][micro_batch]: tokens */
    int64_t row_tokens;           /* rows are that long; a micro-batch that is no multiple is
                                     one row of its own length */
    int64_t total_tokens;
    /* Context parallelism, by pipeline; NULL: no pipeline cuts sequences. */
    const luo_context *context;
    const int64_t *multiple; /* every row is padded to a multiple */
    /* Numbers in programs of the first micro-batches, per pipeline (core/plan/replan/reroute.h);
     * NULL: all stages have devices, numbers are places in the pipeline. */
    const int32_t *first;
    /* Sequences of the assignment, of assigned_tokens in all; NULL: the plan assigns none. Those of
     * micro-batch k of pipeline i are sequence[first_sequence[i][k]] and on, up to
     * first_sequence[i][k + 1], by number. */
    const luo_batch_sequence *sequence;
    int32_t nassigned;
    const int32_t *const *first_sequence;
    int64_t assigned_tokens;
    /* Of a part of a step: the sequences of all parts, whose list lives as long as this is used,
     * their tokens and their targets. NULL: the plan's are all there are. */
    struct {
        int64_t *before; /* [n], by number: tokens of sequences with smaller numbers */
        int64_t tokens, targets;
    } whole;
} luo_batch_shape;
/* sequence_tokens 0: the plan's. Tokens are those of the data, without the pads of context
 * parallelism, but with those behind assigned sequences. Pre: luo_plan_check passed. Errors:
 * LUO_E2BIG a micro-batch of 2^31 tokens or more; LUO_ENOMEM. Owner: arena. */
luo_status luo_batch_shape_of(luo_arena *arena, const luo_plan *plan, bool causal,
                              int64_t sequence_tokens, luo_batch_shape *out, luo_err *err);
/* From now on the shape is that of a part of a step of so many sequences: the part's are numbers
 * among length[0..n), and lie in the data where the whole step has them. n 0: it is a whole step.
 * Errors: LUO_EBUG a sequence of the shape has no such number or another length; LUO_ENOMEM; the
 * shape is unchanged. Owner: arena, until the next call. Cost: O(n). */
luo_status luo_batch_place(luo_arena *arena, luo_batch_shape *shape, const int64_t *length,
                           int32_t n, luo_err *err);
/* Which micro-batch does a device of `pipeline` run under this number? */
void luo_batch_find(const luo_batch_shape *shape, int32_t pipeline, int32_t number,
                    int32_t *of_pipeline, int32_t *micro_batch);
/* Tokens of a micro-batch with its pads. */
int64_t luo_batch_padded(const luo_batch_shape *shape, int32_t pipeline, int32_t micro_batch);

typedef struct luo_micro_batch { /* arrays of `tokens`; labels -1: no target */
    int64_t tokens, data_tokens; /* all; those that are no pads */
    const int32_t *ids, *labels, *positions; /* positions start at 0 in each document */
    luo_documents docs;                      /* not where sequences are cut: */
    luo_runs runs; /* context parallelism: documents in the order of the ranks; else n 0 */
    const int32_t *source; /* the same: where each token stood, those of the data first; -1: a pad.
                              NULL: where it is */
} luo_micro_batch;
/* Is the token at place i of the micro-batch a pad? */
static inline bool luo_batch_is_pad(const luo_micro_batch *mb, int64_t i)
{
    const int64_t from = mb->source ? mb->source[i] : i;
    return from < 0 || from >= mb->data_tokens;
}

/* Under context parallelism ids, labels and positions are reordered to the pieces of rank 0 of all
 * rows, those of rank 1, and so on (core/graph/context.h); pads stand last in their row, have id 0,
 * position 0 and no target. Pads behind assigned sequences are a document of their own, with id 0
 * and no target, so that nothing attends to them.
 * The next token of the same document is the label; the last of a document has none.
 * Pre: step >= 0; memory is the caller's, aligned for int32_t, at least luo_batch_bytes(shape,
 * tokens) for as many tokens with pads.
 * Cost: O(tokens), whatever the step. */
size_t luo_batch_bytes(const luo_batch_shape *shape, int64_t tokens);
void luo_batch_fill(const luo_corpus *corpus, const luo_batch_shape *shape, int64_t step,
                    int32_t pipeline, int32_t micro_batch, void *memory, luo_micro_batch *out);
/* Targets of the whole step, over all pipelines and parts: what the loss is divided by. 0 if every
 * document is a single token. Cost: O(tokens of the step). */
int64_t luo_batch_targets(const luo_corpus *corpus, const luo_batch_shape *shape, int64_t step);
/* Tokens of the step under a shape, over all parts, without any pads. */
int64_t luo_batch_data_tokens(const luo_batch_shape *shape);
/* One JSON line per micro-batch of the step, in global order (--dump-batches):
 * {"step":0,"micro_batch":0,"replica":0,"ids":[..],"document_starts":[..],"pads":0}:
 * so many of the last ids are no data (docs/real-runs.md#what-a-step-was-trained-on). */
luo_status luo_batch_dump(const luo_corpus *corpus, const luo_batch_shape *shape, int64_t step,
                          luo_str *out);
#endif
