#include "core/graph/context.h"

#include <assert.h>

#include "core/hspmd/bounds.h"

static int64_t divisor(const luo_context *context)
{
    int64_t d = 0;
    for (int32_t r = 0; context->share && r < context->c; r++)
        d = luo_bounds_gcd(context->share[r], d);
    return d ? d : 1;
}

static int64_t raw_share(const luo_context *context, int32_t rank)
{
    return context->share ? context->share[rank] : 1;
}

int64_t luo_context_share(const luo_context *context, int32_t rank)
{
    return raw_share(context, rank) / divisor(context);
}

int64_t luo_context_sum(const luo_context *context)
{
    int64_t sum = 0;
    for (int32_t r = 0; r < context->c; r++) sum += raw_share(context, r);
    return sum / divisor(context);
}

int64_t luo_context_multiple(const luo_context *context)
{
    if (!luo_context_is_on(context)) return 1;
    return (context->zigzag ? 2 : 1) * luo_context_sum(context);
}

int64_t luo_context_pad(int64_t tokens, int64_t multiple)
{
    return (tokens + multiple - 1) / multiple * multiple;
}

/* ---- cuts ---- */

/* Cuts n by shares w; bound[k]..bound[k+1] is part k. Cumulative largest remainder, as every
 * split of a dimension. */
static void cut(int64_t n, const int64_t *w, int32_t parts, int64_t *bound)
{
    int64_t sum = 0, left = n, rest[2 * LUO_CONTEXT_SHARES];
    bool more[2 * LUO_CONTEXT_SHARES] = {false};
    for (int32_t k = 0; k < parts; k++) sum += w[k];
    for (int32_t k = 0; k < parts; k++) {
        const unsigned __int128 at = (unsigned __int128)n * (uint64_t)w[k];
        bound[k + 1] = (int64_t)(at / (uint64_t)sum);
        rest[k] = (int64_t)(at % (uint64_t)sum);
        left -= bound[k + 1];
    }
    for (; left > 0; left--) {
        int32_t best = -1;
        for (int32_t k = 0; k < parts; k++)
            if (!more[k] && (best < 0 || rest[k] > rest[best])) best = k;
        if (best < 0) break; /* what is left is less than the parts */
        more[best] = true;
    }
    bound[0] = 0;
    for (int32_t k = 0; k < parts; k++) bound[k + 1] += bound[k] + more[k];
}

static int64_t part_share(const luo_context *context, int32_t o)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < context->inner; i++) sum += raw_share(context, o * context->inner + i);
    return sum;
}

int32_t luo_context_part(const luo_context *context, int64_t n, int32_t o, luo_context_piece out[2])
{
    int64_t w[2 * LUO_CONTEXT_SHARES], bound[2 * LUO_CONTEXT_SHARES + 1];
    const int32_t parts = luo_context_parts(context);
    if (parts == 1) {
        out[0] = (luo_context_piece){0, n};
        return n > 0;
    }
    assert(parts <= LUO_CONTEXT_SHARES);
    const int32_t pieces = context->zigzag ? 2 * parts : parts;
    for (int32_t k = 0; k < pieces; k++) w[k] = part_share(context, k < parts ? k : pieces - 1 - k);
    cut(n, w, pieces, bound);
    int32_t count = 0;
    const int32_t at[2] = {o, pieces - 1 - o};
    for (int32_t k = 0; k < (context->zigzag ? 2 : 1); k++)
        if (bound[at[k]] < bound[at[k] + 1])
            out[count++] = (luo_context_piece){bound[at[k]], bound[at[k] + 1]};
    return count;
}

int64_t luo_context_part_tokens(const luo_context *context, int64_t n, int32_t o)
{
    luo_context_piece piece[2];
    const int32_t count = luo_context_part(context, n, o, piece);
    int64_t sum = 0;
    for (int32_t k = 0; k < count; k++) sum += piece[k].hi - piece[k].lo;
    return sum;
}

/* Tokens lo..hi-1 of a part, counted along its pieces. */
static int32_t section(const luo_context_piece *part, int32_t count, int64_t lo, int64_t hi,
                       luo_context_piece out[2])
{
    int64_t before = 0;
    int32_t kept = 0;
    for (int32_t k = 0; k < count; k++) {
        const int64_t size = part[k].hi - part[k].lo;
        const int64_t a = lo > before ? lo : before;
        const int64_t b = hi < before + size ? hi : before + size;
        if (a < b)
            out[kept++] =
                (luo_context_piece){part[k].lo + a - before, part[k].lo + b - before};
        before += size;
    }
    return kept;
}

int32_t luo_context_pieces(const luo_context *context, int64_t n, int32_t rank,
                           luo_context_piece out[2])
{
    int64_t w[LUO_CONTEXT_SHARES], bound[LUO_CONTEXT_SHARES + 1];
    luo_context_piece part[2];
    if (!luo_context_is_on(context)) return luo_context_part(context, n, 0, out);
    if (context->zigzag &&
        context->inner == context->c) { /* one part: its ranks are cut as parts would be */
        const luo_context apart = {context->c, 1, true, context->share};
        return luo_context_part(&apart, n, rank, out);
    }
    const int32_t o = rank / context->inner, i = rank % context->inner;
    const int32_t count = luo_context_part(context, n, o, part);
    assert(context->inner <= LUO_CONTEXT_SHARES);
    for (int32_t k = 0; k < context->inner; k++) w[k] = raw_share(context, o * context->inner + k);
    cut(luo_context_part_tokens(context, n, o), w, context->inner, bound);
    return section(part, count, bound[i], bound[i + 1], out);
}

/* ---- work ---- */

/* Twice the sum of max(q + 1 - lo, 0) over queries q < end. */
static int64_t below(int64_t end, int64_t lo)
{
    const int64_t m = end > lo ? end - lo : 0;
    return m * (m + 1);
}

static int64_t half_pairs_of(luo_context_piece q, luo_context_piece k, bool causal, bool halves)
{
    if (!causal) return 2 * (q.hi - q.lo) * (k.hi - k.lo);
    int64_t twice = below(q.hi, k.lo) - below(q.lo, k.lo) - below(q.hi, k.hi) + below(q.lo, k.hi);
    const int64_t lo = q.lo > k.lo ? q.lo : k.lo, hi = q.hi < k.hi ? q.hi : k.hi;
    if (halves && lo < hi) twice -= hi - lo;
    return twice;
}

int64_t luo_context_half_pairs(const luo_context *context, int64_t n, bool causal, bool halves,
                               int32_t q, int32_t k)
{
    luo_context_piece a[2], b[2];
    const int32_t na = luo_context_part(context, n, q, a), nb = luo_context_part(context, n, k, b);
    int64_t twice = 0;
    for (int32_t i = 0; i < na; i++)
        for (int32_t j = 0; j < nb; j++) twice += half_pairs_of(a[i], b[j], causal, halves);
    return twice;
}

/* ---- order ---- */

void luo_context_order(const luo_context *context, int64_t rows, int64_t n, int32_t *source)
{
    const int32_t c = luo_context_is_on(context) ? context->c : 1;
    int64_t at = 0;
    for (int32_t r = 0; r < c; r++)
        for (int64_t row = 0; row < rows; row++) {
            luo_context_piece piece[2];
            const int32_t count = luo_context_pieces(context, n, r, piece);
            for (int32_t k = 0; k < count; k++)
                for (int64_t t = piece[k].lo; t < piece[k].hi; t++)
                    source[at++] = (int32_t)(row * n + t);
        }
}
