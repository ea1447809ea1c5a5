/* trace_lint.h: is a trace file one that viewers read? Shares nothing with the writer. */
#ifndef LUO_TESTS_PARKED_TRACE_LINT_H
#define LUO_TESTS_PARKED_TRACE_LINT_H
#include "core/base/err.h"

typedef struct luo_trace_counts {
    int64_t events, slices, flows, counters, instants, tracks;
} luo_trace_counts;
/* Checks a trace file (gzip or plain): JSON, integer ids that are not 0, metadata first, sorted by
 * time with the longer slice first, slices of a track nest or are apart, every flow has one start
 * and one end inside slices and in that order, numbers finite and not negative, tracks named.
 * Errors: LUO_EPARSE not JSON; LUO_EINPUT the first fault, naming the event; LUO_E2BIG above 1 GiB
 * of text; LUO_ENOMEM. */
luo_status luo_trace_lint(const char *path, luo_trace_counts *out, luo_err *err);
#endif
