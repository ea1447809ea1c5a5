/* sync_keys.h: --keys: which rows of embedding tables a worker touches in an iteration. */
#ifndef LUO_CLI_SYNC_SYNC_KEYS_H
#define LUO_CLI_SYNC_SYNC_KEYS_H
#include <stdint.h>

#include "core/base/err.h"

typedef struct luo_sync_keys {
    double theta;  /* exponent of Zipf's law */
    int64_t vocab; /* keys are 0 .. vocab - 1 */
    int64_t batch; /* samples of a worker in an iteration */
    int64_t slots; /* keys of a sample */
} luo_sync_keys;

/* Reads `zipf:theta=1.05,vocab=1e6,batch=32,slots=26`; what is left out has these values.
 * Errors: LUO_EUSAGE with the part that is wrong. */
luo_status luo_sync_keys_parse(const char *text, luo_sync_keys *out, luo_err *err);
#endif
