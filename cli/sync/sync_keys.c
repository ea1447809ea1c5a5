#include "cli/sync/sync_keys.h"

#include "cli/options/spec.h"
#include "core/sync/embed/zipf.h"

enum { THETA, VOCAB, BATCH, SLOTS, PARTS };
static const luo_spec_part parts[PARTS] = {{"theta", 0, 100, 1.05, false, NULL},
                                           {"vocab", 1, LUO_ZIPF_VOCAB, 1e6, true, NULL},
                                           {"batch", 1, 1e7, 32, true, NULL},
                                           {"slots", 1, 1e4, 26, true, NULL}};
static const luo_spec spec = {
    "keys", "`zipf:theta=1.05,vocab=1e6,batch=32,slots=26` or a part of it", parts, PARTS};

luo_status luo_sync_keys_parse(const char *text, luo_sync_keys *out, luo_err *err)
{
    double v[PARTS];
    bool given[PARTS];
    LUO_TRY(luo_spec_read_behind(&spec, "zipf", text, v, given, err));
    *out = (luo_sync_keys){v[THETA], (int64_t)v[VOCAB], (int64_t)v[BATCH], (int64_t)v[SLOTS]};
    return LUO_OK;
}
