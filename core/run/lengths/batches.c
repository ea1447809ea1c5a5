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
                      uint64_t seed, luo_batches *batches)
{
    *batches = (luo_batches){.lengths = lengths, .rule = *rule, .limit = limit, .seed = seed};
    if (!LUO_VEC_ROOM(batches->mark, batches->n, batches->room))
        return; /* draws find none, and say so */
    batches->mark[batches->n++] = luo_length_source_open(seed);
}

/* Draws the newest step that has a mark, and marks the next one. */
static luo_status draw_on(luo_arena *arena, luo_batches *batches, int64_t **length, int32_t *n,
                          luo_err *err)
{
    luo_length_source source = batches->mark[batches->n - 1];
    LUO_TRY(luo_lengths_batch(arena, batches->lengths, &batches->rule, batches->limit, &source,
                              length, n, err));
    if (!LUO_VEC_ROOM(batches->mark, batches->n, batches->room)) return luo_err_nomem(err);
    batches->mark[batches->n++] = source;
    return LUO_OK;
}

luo_status luo_batches_draw(luo_arena *arena, luo_batches *batches, int64_t step, int64_t tokens,
                            int64_t **length, int32_t *n, luo_err *err)
{
    const luo_lengths fixed = {.kind = LUO_LENGTH_FIXED, .tokens = tokens};
    if (batches->n == 0) return luo_err_nomem(err);
    if (step < batches->first) {
        batches->mark[0] = luo_length_source_open(batches->seed);
        batches->first = 0;
        batches->n = 1;
    }
    while (batches->first + batches->n - 1 <= step)
        LUO_TRY(draw_on(arena, batches, length, n, err));
    luo_length_source source =
        tokens > 0 ? luo_length_source_open(batches->seed) : batches->mark[step - batches->first];
    return luo_lengths_batch(arena, tokens > 0 ? &fixed : batches->lengths, &batches->rule,
                             batches->limit, &source, length, n, err);
}

void luo_batches_forget(luo_batches *batches, int64_t step)
{
    const int64_t gone = step - batches->first;
    if (gone <= 0 || gone >= batches->n) return;
    memmove(batches->mark, batches->mark + gone,
            (size_t)(batches->n - gone) * sizeof *batches->mark);
    batches->first = step;
    batches->n -= (int32_t)gone;
}

void luo_batches_free(luo_batches *batches)
{
    free(batches->mark);
    batches->mark = NULL;
    batches->n = batches->room = 0;
}
