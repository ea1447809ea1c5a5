#include "core/run/lengths/batches.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/vec.h"

int64_t luo_batches_context(const luo_scenario *sc)
{
    const int64_t most = sc->model->max_sequence_tokens;
    int64_t longest = luo_lengths_longest(sc->lengths);
    for (int32_t i = 0; i < sc->nevents; i++)
        if (sc->events[i].tokens > longest) longest = sc->events[i].tokens;
    return most > 0 && most < longest ? most : longest;
}

void luo_batches_open(const luo_lengths *lengths, const luo_batch_rule *rule, int64_t limit,
                      uint64_t seed, luo_batches *b)
{
    *b = (luo_batches){.lengths = lengths, .rule = *rule, .limit = limit, .seed = seed};
    if (!LUO_VEC_ROOM(b->mark, b->n, b->room)) return; /* draws find none, and say so */
    b->mark[b->n++] = luo_length_source_open(seed);
}

/* Draws the newest step that has a mark, and marks the next one. */
static luo_status draw_on(luo_arena *arena, luo_batches *b, int64_t **length, int32_t *n,
                          luo_err *err)
{
    luo_length_source source = b->mark[b->n - 1];
    LUO_TRY(luo_lengths_batch(arena, b->lengths, &b->rule, b->limit, &source, length, n, err));
    if (!LUO_VEC_ROOM(b->mark, b->n, b->room)) return luo_err_nomem(err);
    b->mark[b->n++] = source;
    return LUO_OK;
}

luo_status luo_batches_draw(luo_arena *arena, luo_batches *b, int64_t step, int64_t tokens,
                            int64_t **length, int32_t *n, luo_err *err)
{
    const luo_lengths fixed = {.kind = LUO_LENGTH_FIXED, .tokens = tokens};
    if (b->n == 0) return luo_err_nomem(err);
    if (step < b->first) {
        b->mark[0] = luo_length_source_open(b->seed);
        b->first = 0;
        b->n = 1;
    }
    while (b->first + b->n - 1 <= step) LUO_TRY(draw_on(arena, b, length, n, err));
    luo_length_source source =
        tokens > 0 ? luo_length_source_open(b->seed) : b->mark[step - b->first];
    return luo_lengths_batch(arena, tokens > 0 ? &fixed : b->lengths, &b->rule, b->limit, &source,
                             length, n, err);
}

void luo_batches_forget(luo_batches *b, int64_t step)
{
    const int64_t gone = step - b->first;
    if (gone <= 0 || gone >= b->n) return;
    memmove(b->mark, b->mark + gone, (size_t)(b->n - gone) * sizeof *b->mark);
    b->first = step;
    b->n -= (int32_t)gone;
}

void luo_batches_free(luo_batches *b)
{
    free(b->mark);
    b->mark = NULL;
    b->n = b->room = 0;
}
