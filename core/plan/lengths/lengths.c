/* Draws of single lengths, presets, and batches. */
#include "core/plan/lengths/lengths.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/base/vec.h"

enum { REDRAWS = 100000 }; /* of a lognormal, until bounds that it never meets are called so */

static const struct {
    const char *word;
    bool synthetic;
} kinds[] = {
#define LUO_LENGTH(kind, word, is_synthetic) {word, is_synthetic},
#include "core/plan/lengths/kinds.inc"
#undef LUO_LENGTH
};

const char *luo_length_kind_name(luo_length_kind kind)
{
    return (unsigned)kind < LUO_LENGTH_KINDS ? kinds[kind].word : "?";
}

bool luo_lengths_synthetic(const luo_lengths *lengths)
{
    if (lengths->kind != LUO_LENGTH_MIXTURE) return kinds[lengths->kind].synthetic;
    for (int32_t i = 0; i < lengths->nparts; i++)
        if (luo_lengths_synthetic(&lengths->parts[i].lengths)) return true;
    return false;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int64_t luo_lengths_longest(const luo_lengths *lengths)
{
    int64_t most = lengths->kind == LUO_LENGTH_FIXED ? lengths->tokens : lengths->high;
    for (int32_t i = 0; i < lengths->nrows; i++)
        if (lengths->rows[i].count > 0) most = larger(most, lengths->rows[i].high - 1);
    for (int64_t i = 0; i < lengths->ngiven; i++) most = larger(most, lengths->given[i]);
    for (int32_t i = 0; i < lengths->nparts; i++)
        most = larger(most, luo_lengths_longest(&lengths->parts[i].lengths));
    return most;
}

int64_t luo_lengths_shortest(const luo_lengths *lengths)
{
    int64_t least = lengths->kind == LUO_LENGTH_FIXED ? lengths->tokens : lengths->low;
    if (least == 0) least = INT64_MAX; /* it is a table, or a mixture */
    for (int32_t i = 0; i < lengths->nrows; i++)
        if (lengths->rows[i].count > 0 && lengths->rows[i].low < least)
            least = lengths->rows[i].low;
    for (int64_t i = 0; i < lengths->ngiven; i++)
        if (lengths->given[i] < least) least = lengths->given[i];
    for (int32_t i = 0; i < lengths->nparts; i++) {
        const int64_t part = luo_lengths_shortest(&lengths->parts[i].lengths);
        if (part < least) least = part;
    }
    return least;
}

/* ---- presets ---- */

static const struct preset {
    const char *name;
    struct {
        double weight, median, sigma;
    } part[LUO_PRESET_PARTS];
} presets[LUO_LENGTH_PRESETS] = {
    {"syn-web", {{0.90, 545, 1.05}, {0.10, 3640, 0.95}}},
    {"syn-code", {{0.80, 990, 1.20}, {0.20, 6000, 1.00}}},
};

const char *luo_length_preset_name(int32_t preset)
{
    return presets[preset].name;
}

bool luo_length_preset(const char *name, int64_t ctx, luo_length_part parts[LUO_PRESET_PARTS],
                       luo_lengths *out)
{
    enum { LOW = LUO_LENGTH_LEAST };
    for (int32_t i = 0; i < LUO_LENGTH_PRESETS; i++) {
        if (strcmp(presets[i].name, name) != 0) continue;
        for (int32_t k = 0; k < LUO_PRESET_PARTS; k++)
            parts[k] = (luo_length_part){presets[i].part[k].weight,
                                         {.kind = LUO_LENGTH_LOGNORMAL,
                                          .low = ctx < LOW ? 1 : LOW,
                                          .high = ctx,
                                          .median = presets[i].part[k].median,
                                          .sigma = presets[i].part[k].sigma}};
        *out =
            (luo_lengths){.kind = LUO_LENGTH_MIXTURE, .nparts = LUO_PRESET_PARTS, .parts = parts};
        return true;
    }
    return false;
}

/* ---- draws ---- */

luo_length_source luo_length_source_open(uint64_t seed)
{
    return (luo_length_source){.rng = luo_rng_stream(seed, "lengths")};
}

static luo_status draw_lognormal(const luo_lengths *lengths, luo_rng *rng, int64_t *tokens,
                                 luo_err *err)
{
    for (int32_t i = 0; i < REDRAWS; i++) {
        const double z = luo_rng_normal(rng);
        const double length = floor(lengths->median * exp(lengths->sigma * z) + 0.5);
        if (length < (double)lengths->low || length > (double)lengths->high) continue;
        *tokens = (int64_t)length;
        return LUO_OK;
    }
    return luo_err_set(
        err, LUO_EINPUT,
        "lengths with median %g and sigma %g never fall within %lld and %lld tokens; "
        "wider bounds are needed.",
        lengths->median, lengths->sigma, (long long)lengths->low, (long long)lengths->high);
}

static int64_t draw_row(const luo_lengths *lengths, luo_rng *rng)
{
    double total = 0, below = 0;
    int32_t row = 0;
    for (int32_t i = 0; i < lengths->nrows; i++) total += lengths->rows[i].count;
    const double at = luo_rng_u(rng) * total;
    const double within = luo_rng_u(rng);
    for (int32_t i = 0; i < lengths->nrows; i++) {
        if (lengths->rows[i].count <= 0) continue;
        row = i; /* the last one with a count takes what rounding leaves */
        below += lengths->rows[i].count;
        if (at < below) break;
    }
    const luo_length_row *length_row = &lengths->rows[row];
    return length_row->low + (int64_t)floor(within * (double)(length_row->high - length_row->low));
}

/* next: how many were taken of it. */
static luo_status draw_given(const luo_lengths *lengths, int64_t *next, int64_t *tokens,
                             luo_err *err)
{
    assert(lengths->ngiven > 0);
    if (lengths->repeat > 0 && *next / lengths->ngiven >= lengths->repeat)
        return luo_err_set(err, LUO_EINPUT,
                           "the file of lengths is at its end after %lld sequences; `repeat` says "
                           "how often it is read.",
                           (long long)*next);
    *tokens = lengths->given[(*next)++ % lengths->ngiven];
    return LUO_OK;
}

/* *file: of those parts that are files, how many are before it. */
static const luo_lengths *draw_part(const luo_lengths *lengths, luo_rng *rng, int32_t *file)
{
    double total = 0, below = 0;
    int32_t i = 0;
    for (int32_t k = 0; k < lengths->nparts; k++) total += lengths->parts[k].weight;
    const double at = luo_rng_u(rng) * total;
    *file = 0;
    for (; i < lengths->nparts - 1; i++) { /* the last one takes what rounding leaves */
        below += lengths->parts[i].weight;
        if (at < below) break;
        *file += lengths->parts[i].lengths.kind == LUO_LENGTH_FILE;
    }
    return &lengths->parts[i].lengths;
}

static luo_status draw(const luo_lengths *lengths, int32_t file, luo_length_source *source,
                       int64_t *tokens, luo_err *err)
{
    luo_rng *rng = &source->rng;
    switch (lengths->kind) {
    case LUO_LENGTH_FIXED:
        *tokens = lengths->tokens;
        return LUO_OK;
    case LUO_LENGTH_UNIFORM:
        *tokens = lengths->low +
                  (int64_t)floor(luo_rng_u(rng) * (double)(lengths->high - lengths->low + 1));
        return LUO_OK;
    case LUO_LENGTH_LOGNORMAL:
        return draw_lognormal(lengths, rng, tokens, err);
    case LUO_LENGTH_HISTOGRAM:
        *tokens = draw_row(lengths, rng);
        return LUO_OK;
    case LUO_LENGTH_FILE:
        assert(file < LUO_LENGTH_FILES);
        return draw_given(lengths, &source->next[file], tokens, err);
    case LUO_LENGTH_MIXTURE:
    case LUO_LENGTH_KINDS:
        break;
    }
    assert(0);
    return LUO_EBUG;
}

luo_status luo_lengths_draw(const luo_lengths *lengths, luo_length_source *source, int64_t *tokens,
                            luo_err *err)
{
    int32_t file = 0;
    if (lengths->kind == LUO_LENGTH_MIXTURE) lengths = draw_part(lengths, &source->rng, &file);
    return draw(lengths, file, source, tokens, err);
}

/* ---- batches ---- */

typedef struct batch {
    luo_arena *arena;
    int64_t *length, tokens, limit;
    int32_t n, cap;
} batch;

static luo_status add(batch *b, int64_t tokens, luo_err *err)
{
    if (b->n >= b->limit || b->n == INT32_MAX)
        return luo_err_set(err, LUO_E2BIG,
                           "a batch has more than %lld sequences; fewer tokens a step or a higher "
                           "limit are needed.",
                           (long long)b->limit);
    if (!LUO_VEC_ROOM_IN(b->arena, b->length, b->n, b->cap)) return luo_err_nomem(err);
    b->length[b->n++] = tokens;
    b->tokens += tokens;
    return LUO_OK;
}

/* The next sequence within the context; what is beyond is carried, or cut off. */
static luo_status take(const luo_lengths *lengths, const luo_batch_rule *rule,
                       luo_length_source *source, int64_t *tokens, luo_err *err)
{
    if (source->carried > 0) {
        *tokens = source->carried;
        source->carried = 0;
    } else {
        LUO_TRY(luo_lengths_draw(lengths, source, tokens, err));
    }
    if (rule->most > 0 && *tokens > rule->most) {
        if (rule->splits) source->carried = *tokens - rule->most;
        *tokens = rule->most;
    }
    return LUO_OK;
}

static int64_t least_of(const luo_lengths *lengths, const luo_batch_rule *rule)
{
    const int64_t shortest = luo_lengths_shortest(lengths);
    if (rule->least > 0) return rule->least;
    return shortest < LUO_LENGTH_LEAST ? shortest : LUO_LENGTH_LEAST;
}

/* The sequence that a budget of tokens has no room for. */
static luo_status last_one(const luo_lengths *lengths, const luo_batch_rule *rule,
                           luo_length_source *source, batch *b, int64_t tokens, luo_err *err)
{
    const int64_t room = rule->tokens - b->tokens;
    if (rule->keeps_last && b->n > 0) {
        source->carried += tokens; /* with the rest of it, if it was split */
        return LUO_OK;
    }
    return room < least_of(lengths, rule) ? LUO_OK : add(b, room, err);
}

luo_status luo_lengths_batch(luo_arena *arena, const luo_lengths *lengths,
                             const luo_batch_rule *rule, int64_t limit, luo_length_source *source,
                             int64_t **length, int32_t *n, luo_err *err)
{
    batch b = {.arena = arena, .limit = limit};
    assert((rule->tokens > 0) != (rule->sequences > 0));
    while (rule->sequences > 0 ? b.n < rule->sequences : b.tokens < rule->tokens) {
        int64_t tokens;
        LUO_TRY(take(lengths, rule, source, &tokens, err));
        if (rule->tokens > 0 && tokens > rule->tokens - b.tokens) {
            LUO_TRY(last_one(lengths, rule, source, &b, tokens, err));
            break;
        }
        LUO_TRY(add(&b, tokens, err));
    }
    *length = b.length;
    *n = b.n;
    return LUO_OK;
}
