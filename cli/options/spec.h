/* spec.h: values of options that have parts: `theta=1.05,vocab=1e6`. */
#ifndef LUO_CLI_OPTIONS_SPEC_H
#define LUO_CLI_OPTIONS_SPEC_H
#include <stdbool.h>

#include "core/base/arena.h"
#include "core/base/err.h"

typedef struct luo_spec_part {
    const char *name;
    double least, most, otherwise;
    bool whole;
    const char *const *words; /* its values, ended by NULL; v is an index. NULL: a number */
} luo_spec_part;

typedef struct luo_spec {
    const char *option; /* without dashes */
    const char *form;   /* what is expected: "`zipf:theta=1.05,vocab=1e6` or a part of it" */
    const luo_spec_part *parts;
    int nparts;
} luo_spec;

/* Reads `name=value,name=value` from `at`, a place in the option's value `text`, into v[0..nparts);
 * parts that are not named have their `otherwise`. given: by part. Errors: LUO_EUSAGE with the part
 * that is wrong. */
luo_status luo_spec_read(const luo_spec *spec, const char *text, const char *at, double *v,
                         bool *given, luo_err *err);
/* The same behind a word: `zipf`, or `zipf:theta=1.05`. */
luo_status luo_spec_read_behind(const luo_spec *spec, const char *word, const char *text, double *v,
                                bool *given, luo_err *err);

/* A part whose value is a text. */
typedef struct luo_text_part {
    const char *name;
    bool many; /* may be given again; values are joined by commas */
} luo_text_part;
/* Reads `FIRST,name=value,name=value` of an option, all of it optional but one part, into *first
 * (NULL: it may have none) and values[0..n); NULL: not given. form: what is expected. Owner: arena.
 * Errors: LUO_EUSAGE. */
luo_status luo_spec_texts(luo_arena *arena, const char *option, const char *form, const char *text,
                          const luo_text_part *parts, int n, const char **first,
                          const char **values, luo_err *err);
#endif
