/* zipf.h: keys that come as often as words of a language do: rank r of a vocabulary with the share
 * 1 / r^theta. Synthetic; what a real table of embeddings sees differs. */
#ifndef LUO_CORE_SYNC_EMBED_ZIPF_H
#define LUO_CORE_SYNC_EMBED_ZIPF_H
#include <stdint.h>

#include "core/base/err.h"

typedef struct luo_zipf { /* immutable */
    double theta;
    int64_t vocab;
    const double *sum;    /* of the shares of keys 0 to i, not divided by that of all */
    const int32_t *guide; /* the first key whose sum reaches i / guides of all */
    int64_t guides;
} luo_zipf;

enum { LUO_ZIPF_VOCAB = 1 << 28 };

/* Pre: theta is at least 0 and finite, 1 <= vocab <= LUO_ZIPF_VOCAB. Errors: LUO_ENOMEM.
 * Owner: arena. Cost: O(vocab); 8 bytes a key, and 4 for each of at most 2^22 guides. */
luo_status luo_zipf_make(luo_arena *arena, double theta, int64_t vocab, luo_zipf *out,
                         luo_err *err);
/* The smallest key whose share, together with those before it, is at least u; 0 <= u < 1.
 * Cost: O(1) expected: a guide, then a search among what lies before the next one. */
int64_t luo_zipf_key(const luo_zipf *zipf, double u);
#endif
