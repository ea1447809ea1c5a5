/* core/io/recorded/recorded.h: recorded.csv (docs/formats.md#recorded) read and written. */
#ifndef LUO_CORE_IO_RECORDED_RECORDED_H
#define LUO_CORE_IO_RECORDED_RECORDED_H
#include "core/io/io.h"
#include "core/plan/plan.h"
#include "core/run/replay/replay.h"

/* Reads the records of steps lo <= s < hi of nranges ranges (0: of all steps).
 * Errors: LUO_EINPUT, LUO_EPARSE of the file, an operation of another name, in diags; LUO_ENOMEM.
 * Owner:  *out by free(). */
luo_status luo_recorded_read(const char *path, const luo_range *ranges, int32_t nranges,
                             luo_replay_record **out, int64_t *n, luo_diags *diags);

/* Appends the k-th step of a replay with these times (D x N) as such a file, a comment
 * before it that says `says`, with its #. */
void luo_recorded_print(luo_str *text, const luo_replay *replay, int32_t k, const double *start_s,
                        const double *duration_s, const char *says);
#endif
