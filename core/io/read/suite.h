/* suite.h: reading suites of published training steps. */
#ifndef LUO_CORE_IO_READ_SUITE_H
#define LUO_CORE_IO_READ_SUITE_H
#include "core/io/io.h"
#include "core/plan/suite/suite.h"

typedef struct luo_suite {
    luo_suite_row *at;
    int32_t n, cap;
} luo_suite;

/* Appends the rows of a file, in their order; what is not printed gets its default (1 for a degree
 * of parallelism, ffn 4 * hidden, kv_heads = heads). A row with an error is left out and told by a
 * warning. Errors: LUO_EINPUT of the header, LUO_EPARSE with line and field; LUO_ENOMEM. Owner:
 * arena. */
luo_status luo_read_suite(luo_arena *arena, const char *path, luo_suite *out, luo_diags *diags);
/* The same for times of layers. */
luo_status luo_read_layer_times(luo_arena *arena, const char *path, luo_layer_times *out,
                                luo_diags *diags);
#endif
