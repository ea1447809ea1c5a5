/* ways.h: verbs whose first word, and backend, say which of their options there are. */
#ifndef LUO_CLI_OPTIONS_WAYS_H
#define LUO_CLI_OPTIONS_WAYS_H
#include "cli/cli.h"

typedef struct luo_way_option {
    const char *name;
    unsigned taken, needed; /* sets of ways, a bit each: that have it; that do nothing without */
} luo_way_option;

/* Index among names[0..n) of the only positional argument, a `noun`. Errors: LUO_EUSAGE. */
luo_status luo_way_word(const luo_args *args, const char *noun, const char *const *names, int n,
                        int *out, luo_err *err);
/* Are options[0..n) given where they may be, and where they have to be? Options that are not
 * listed are of all ways. way: which it is; text: how it is called, "`embed gmp`". Errors:
 * LUO_EUSAGE. */
luo_status luo_way_check(const luo_args *args, const luo_way_option *options, int n, int way,
                         const char *text, luo_err *err);
#endif
