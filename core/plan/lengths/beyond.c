/* beyond.c: sequences that a context does not hold. */
#include "core/plan/lengths/lengths.h"

static void count(luo_length_beyond *beyond, int64_t length, double n, int64_t ctx)
{
    beyond->sequences += n;
    beyond->tokens += n * (double)length;
    if (length > beyond->longest) beyond->longest = length;
    if (length <= ctx) return;
    beyond->longer += n;
    beyond->over += n * (double)(length - ctx);
}

/* The part of a row with lengths from `low` to before `high`, as if all had their mean: what
 * lies behind ctx is linear on each side of it. */
static void count_part(luo_length_beyond *beyond, const luo_length_row *row, int64_t low,
                       int64_t high, int64_t ctx)
{
    if (low >= high || row->count <= 0) return;
    const double n = row->count * (double)(high - low) / (double)(row->high - row->low);
    const double mean = (double)low + 0.5 * (double)(high - low - 1);
    beyond->sequences += n;
    beyond->tokens += n * mean;
    if (high - 1 > beyond->longest) beyond->longest = high - 1;
    if (low <= ctx) return;
    beyond->longer += n;
    beyond->over += n * (mean - (double)ctx);
}

luo_length_beyond luo_lengths_beyond(const luo_lengths *lengths, int64_t ctx)
{
    luo_length_beyond beyond = {0};
    if (lengths->kind == LUO_LENGTH_FILE)
        for (int64_t i = 0; i < lengths->ngiven; i++) count(&beyond, lengths->given[i], 1, ctx);
    for (int32_t i = 0; lengths->kind == LUO_LENGTH_HISTOGRAM && i < lengths->nrows; i++) {
        const luo_length_row *row = &lengths->rows[i];
        const int64_t high = row->high, low = row->low;
        if (high <= low) { /* a class of nothing but length 0, which is drawn as 1 */
            count(&beyond, low, row->count, ctx);
            continue;
        }
        const int64_t at = ctx + 1 < low ? low : ctx + 1 > high ? high : ctx + 1;
        count_part(&beyond, row, low, at, ctx);
        count_part(&beyond, row, at, high, ctx);
    }
    return beyond;
}

luo_status luo_lengths_split(luo_arena *arena, const luo_lengths *lengths, int64_t ctx,
                             int64_t limit, luo_lengths *out, luo_err *err)
{
    int64_t n = 0, k = 0;
    *out = *lengths;
    if (lengths->kind != LUO_LENGTH_FILE) return LUO_OK;
    for (int64_t i = 0; i < lengths->ngiven && n <= limit; i++)
        n += (lengths->given[i] - 1) / ctx + 1;
    if (n == lengths->ngiven) return LUO_OK;
    if (n > limit)
        return luo_err_set(err, LUO_E2BIG,
                           "lengths split at %lld tokens are more than %lld; a longer context, or "
                           "lengths that are cut, are expected.",
                           (long long)ctx, (long long)limit);
    int64_t *at = LUO_NEW_N(arena, int64_t, n);
    if (!at) return luo_err_nomem(err);
    for (int64_t i = 0; i < lengths->ngiven; i++)
        for (int64_t left = lengths->given[i]; left > 0; left -= ctx)
            at[k++] = left < ctx ? left : ctx;
    out->given = at;
    out->ngiven = n;
    return LUO_OK;
}
