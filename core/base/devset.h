/* devset.h: sets of devices as text. */
#ifndef LUO_CORE_BASE_DEVSET_H
#define LUO_CORE_BASE_DEVSET_H
#include "core/base/arena.h"
#include "core/base/str.h"

/* Device set "[0-3,7]" (docs/formats.md#words-units-names). Print: runs of 3 or more ascending ids
 * as a-b. */
void luo_devset_print(luo_str *text, const int32_t *dev, int32_t n);
/* Parses; brackets may be left out when `bare` is true. Ids are checked against < limit, order is
 * kept, an id given twice is an error. Errors: LUO_EPARSE, LUO_EINPUT, LUO_ENOMEM.
 * Owner: *dev belongs to the arena. */
luo_status luo_devset_parse(luo_arena *arena, const char *text, bool bare, int32_t limit,
                            int32_t **dev, int32_t *n, luo_err *err);
#endif
