/* lengths.h: how long sequences are: distributions, draws, batches, histograms
 * (docs/formats.md#lengths).
 *
 * All lengths are tokens, at least 1. Draws come from the caller's random stream, one after
 * another over all batches, so that the same seed gives the same sequences whatever is done with
 * them. */
#ifndef LUO_CORE_PLAN_LENGTHS_LENGTHS_H
#define LUO_CORE_PLAN_LENGTHS_LENGTHS_H
#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/base/rng.h"

typedef enum luo_length_kind {
#define LUO_LENGTH(kind, word, is_synthetic) LUO_LENGTH_##kind,
#include "core/plan/lengths/kinds.inc"
#undef LUO_LENGTH
    LUO_LENGTH_KINDS
} luo_length_kind;
/* "fixed"; "?" out of range. */
const char *luo_length_kind_name(luo_length_kind kind);

typedef struct luo_length_row { /* of a histogram: low <= length < high */
    int64_t low, high;
    double count; /* at least 0 */
} luo_length_row;

typedef struct luo_length_part luo_length_part;

typedef struct luo_lengths {
    luo_length_kind kind;
    int64_t tokens;       /* fixed */
    int64_t low, high;    /* uniform, lognormal: both are possible lengths */
    double median, sigma; /* lognormal */
    int32_t nrows;        /* histogram: at least one, with a count above 0 */
    const luo_length_row *rows;
    int64_t ngiven; /* file: at least one, taken in their order */
    const int64_t *given;
    int64_t repeat; /* file: how often; 0: without end */
    int32_t nparts; /* mixture: at least one; parts are no mixtures, and LUO_LENGTH_FILES at most
                       are files */
    const luo_length_part *parts;
} luo_lengths;

struct luo_length_part {
    double weight; /* above 0; of the sum of all */
    luo_lengths lengths;
};

/* Made by a formula, not taken from data: labelled so wherever it is shown. */
bool luo_lengths_synthetic(const luo_lengths *lengths);
/* No draw is longer. Cost: O(rows). */
int64_t luo_lengths_longest(const luo_lengths *lengths);
/* No draw is shorter. Cost: O(rows). */
int64_t luo_lengths_shortest(const luo_lengths *lengths);
enum { LUO_LENGTH_LEAST = 32 }; /* of presets, and of what is cut to fit a batch */
/* Presets of mixtures, 32 to ctx tokens: "syn-web", made to agree with the one public statement
 * about CommonCrawl (97 % below 8K at 32K context, Hetu v2), and "syn-code", longer. Synthetic.
 * False: no such preset. Owner: static memory but for *out. */
enum { LUO_LENGTH_PRESETS = 2, LUO_PRESET_PARTS = 2 };
const char *luo_length_preset_name(int32_t preset);
bool luo_length_preset(const char *name, int64_t ctx, luo_length_part parts[LUO_PRESET_PARTS],
                       luo_lengths *out);

enum { LUO_LENGTH_FILES = 16 };    /* of one mixture */
typedef struct luo_length_source { /* where the draws stand */
    luo_rng rng;                   /* stream `lengths` of the seed */
    int64_t next[LUO_LENGTH_FILES]; /* how many were taken of each file */
    int64_t carried; /* a sequence, or the rest of one, that opens the next batch; 0: none */
} luo_length_source;
luo_length_source luo_length_source_open(uint64_t seed);

/* The next length. Errors: LUO_EINPUT a file without repeat is at its end; a lognormal that never
 * falls within its bounds. */
luo_status luo_lengths_draw(const luo_lengths *lengths, luo_length_source *source, int64_t *tokens,
                            luo_err *err);

/* What a context of ctx tokens does to lengths; formulas keep within their bounds: all 0. */
typedef struct luo_length_beyond {
    double sequences, longer; /* all, and those above ctx; of a file as it stands, once */
    double tokens, over;      /* of all, and of them what lies behind ctx in its sequence */
    int64_t longest;
} luo_length_beyond;
/* Rows of a histogram count as luo_lengths_draw draws them, each length as likely. Cost: O(n). */
luo_length_beyond luo_lengths_beyond(const luo_lengths *lengths, int64_t ctx);
/* Lengths of a file with each above ctx as the several that luo_batch_rule.splits makes of it, in
 * order, so that luo_lengths_histogram, which cuts, counts them all. Other kinds stay as they are.
 * Errors: LUO_E2BIG more than `limit` lengths; LUO_ENOMEM. Owner: *out in arena, or of *lengths. */
luo_status luo_lengths_split(luo_arena *arena, const luo_lengths *lengths, int64_t ctx,
                             int64_t limit, luo_lengths *out, luo_err *err);

typedef struct luo_batch_rule {
    int64_t tokens, sequences; /* of a step: one of the two, the other 0 */
    int64_t most;              /* context: longest sequence; 0: any */
    bool splits;               /* a longer one becomes several; else it is cut */
    bool keeps_last;           /* budget of tokens: the sequence that does not fit waits for the
                                  next batch; else it is cut to fit */
    int64_t least;             /* of what is cut to fit: dropped below; 0: 32, or the shortest
                                  length there is if that is less */
} luo_batch_rule;

/* The sequences of one step: exactly `sequences`, or until `tokens` are reached.
 * Errors: those of luo_lengths_draw; LUO_E2BIG more than `limit` sequences; LUO_ENOMEM.
 * Owner: *length belongs to arena. */
luo_status luo_lengths_batch(luo_arena *arena, const luo_lengths *lengths,
                             const luo_batch_rule *rule, int64_t limit, luo_length_source *source,
                             int64_t **length, int32_t *n, luo_err *err);

typedef struct luo_histogram { /* of one step: real numbers of sequences */
    int32_t n;
    int64_t *length; /* ascending */
    double *count;
    double tokens; /* their sum */
} luo_histogram;

/* What a step of `budget` tokens holds on average: rows of a histogram count as their middle,
 * lengths of a file as they are, formulas by LUO_HISTOGRAM_DRAWS draws of the stream
 * `lengths.histogram` of the seed. Lengths above ctx count as ctx.
 * Errors: those of luo_lengths_draw; LUO_ENOMEM. Owner: arena. */
enum { LUO_HISTOGRAM_DRAWS = 100000 };
luo_status luo_lengths_histogram(luo_arena *arena, const luo_lengths *lengths, uint64_t seed,
                                 double budget, int64_t ctx, luo_histogram *out, luo_err *err);
#endif
