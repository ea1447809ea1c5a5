/* args.h: one table per verb makes its parser and its help, so that neither can lag behind. */
#ifndef LUO_CLI_ARGS_H
#define LUO_CLI_ARGS_H
#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"

typedef struct luo_option {
    const char *name; /* without the dashes */
    const char *value; /* placeholder in the help; NULL: a switch without value */
    const char *help;  /* one phrase, unit and default included */
} luo_option;

enum { LUO_ARGS_MAX = 512 };

/* The parsed command line of one verb. Values point into argv. */
typedef struct luo_args {
    int nfiles, nset;
    const char *files[LUO_ARGS_MAX]; /* positional arguments */
    struct {
        const luo_option *option;
        const char *value;
    } set[LUO_ARGS_MAX]; /* options in the order given */
    const char *unknown; /* the option that is none, behind its dashes; NULL: all are known */
} luo_args;

/* Parses argv[0..argc) against the two tables (common may be NULL). `--name VALUE` and
 * `--name=VALUE`; `--` ends options. Errors: LUO_EUSAGE. */
luo_status luo_args_parse(int argc, char **argv, const luo_option *options, int noptions,
                          const luo_option *common, int ncommon, luo_args *out, luo_err *err);
/* The last value given, or `otherwise`. */
const char *luo_args_get(const luo_args *args, const char *name, const char *otherwise);
bool luo_args_has(const luo_args *args, const char *name);
/* Integer or number in [least, most]. Errors: LUO_EUSAGE ``--tp` is `x`; an integer from 1 to 8 is
 * expected.` */
luo_status luo_args_int(const luo_args *args, const char *name, int64_t otherwise, int64_t least,
                        int64_t most, int64_t *out, luo_err *err);
/* The same of a text `v` that is the value of option `name`, or a part of it. */
luo_status luo_args_int_of(const char *name, const char *v, int64_t least, int64_t most,
                           int64_t *out, luo_err *err);
luo_status luo_args_number(const luo_args *args, const char *name, double otherwise, double least,
                           double most, double *out, luo_err *err);
/* Index of the value among names[0..n). Errors: LUO_EUSAGE naming them. */
luo_status luo_args_choice(const luo_args *args, const char *name, int otherwise,
                           const char *const *names, int n, int *out, luo_err *err);
/* The same of a text. */
luo_status luo_args_choice_of(const char *name, const char *v, const char *const *names, int n,
                              int *out, luo_err *err);
#endif
