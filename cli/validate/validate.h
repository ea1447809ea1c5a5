/* validate.h: what the files of `luoshu validate` and of `calibrate --from SUITE` share. */
#ifndef LUO_CLI_VALIDATE_VALIDATE_H
#define LUO_CLI_VALIDATE_VALIDATE_H
#include "cli/cli.h"
#include "core/base/stats.h"
#include "core/io/read/suite.h"
#include "core/plan/suite/suite_fit.h"
#include "core/plan/suite/suite_effects.h"
#include "core/run/backend.h"

/* Names of the tables (NAME.csv) in `dir`, in order. Errors: LUO_EINPUT it cannot be opened;
 * LUO_ENOMEM. Owner: arena. */
luo_status luo_validate_files(luo_arena *arena, const char *dir, const char ***out, int32_t *n,
                              luo_err *err);

/* ---- profiles and stacks of the rows, validate_kit.c ---- */

typedef struct luo_kit { /* each is read once; rows that agree share it */
    luo_cli *cli;
    const char *folder; /* --profile-dir; NULL: the built-in ones alone */
    bool pooled;        /* constants are those of GPU type and of software, not of a site */
    struct luo_kit_profile {
        const char *name, *path;
        bool tf32; /* at the peak of tf32 */
        luo_profile *at;
    } *profiles;
    struct luo_kit_stack {
        const char *name, *path; /* of the file */
        const char *system;      /* of its rows */
        double grad_bytes; /* that rows ask for; 0: the file's */
        luo_stack *at;
    } *stacks;
    int32_t nprofiles, nstacks;
    luo_suite_kit as; /* for luo_case_make */
} luo_kit;
/* layers: for rows of several GPU types; NULL: none. They have to live as long as the kit. */
void luo_kit_open(luo_cli *cli, const char *folder, const luo_layer_times *layers, bool pooled,
                  luo_kit *out);
/* Adds the built-in profiles of GPU types whose architecture is known, and that no row had yet. */
luo_status luo_kit_add_types(luo_kit *kit, luo_err *err);
/* Constants from `fit`, which all profiles and stacks of the kit keep; `left` as luo_suite_effects
 * has it. Pre: pooled; all cases are of this kit. Errors: those of luo_suite_effects_fit. */
luo_status luo_kit_pool(luo_kit *kit, const luo_case *const *fit, int32_t nfit,
                        const luo_case *const *left, int32_t nleft, luo_suite_effects_result *out,
                        luo_err *err);
/* A file of --profile-dir, or the built-in name; NULL: there is none. */
const char *luo_kit_path(const luo_kit *kit, const char *builtin, const char *name);

/* ---- constants from rows, cli/calibrate/suite_fit.c ---- */

enum { LUO_FITTED_MAX = 16 };
typedef struct luo_fitted { /* of rows that share a kit */
    const luo_suite_param *param[LUO_FITTED_MAX];
    double value[LUO_FITTED_MAX];
    bool weak[LUO_FITTED_MAX];
    int32_t n, rows;
    double objective; /* of the last stage */
} luo_fitted;
/* Runs the stages; cases are all of one kit, whose profiles and stacks change. params not NULL: one
 * stage of these instead. Errors: those of luo_suite_fit_run; LUO_EUSAGE an unknown constant. */
luo_status luo_kit_fit(luo_kit *kit, const luo_case *const *cases, int32_t n,
                       const luo_suite_recipe *recipe, const char *params, uint64_t seed,
                       luo_fitted *out, luo_err *err);
/* The same constants? Rows of one suite, or of one GPU of it, as the recipe says. */
bool luo_validate_together(const luo_suite_row *a, const luo_suite_row *b);
/* Names of the stack and the profile that the recipe of the row writes. */
const char *luo_validate_stack_name(luo_arena *arena, const luo_suite_row *row);
const char *luo_validate_profile_name(luo_arena *arena, const luo_suite_row *row);

/* ---- one row, validate_score.c ---- */

typedef struct luo_score {
    luo_status closed, simulated, memory; /* LUO_OK: there is one; LUO_EUNSUP: it cannot be said */
    double closed_s, step_s;
    luo_step_cost cost;
    luo_parts parts;       /* mean over devices */
    double memory_bytes;   /* of the device that needs most */
    bool over;             /* does not fit */
    char why[LUO_ERR_TEXT]; /* what is missing */
} luo_score;
/* Predicts a case: closed form; unless `closed_only` programs, their memory and one simulated step,
 * as `luoshu sim` makes them. What cannot be said is a status in the score.
 * Errors: LUO_ENOMEM and LUO_EBUG alone. */
luo_status luo_score_case(luo_arena *scratch, const luo_case *one, bool closed_only, luo_score *out,
                          luo_err *err);
/* The same for many, on all cores. A row whose process is ended keeps what it had. */
luo_status luo_score_cases(luo_cli *cli, const luo_case *one, int32_t n, bool closed_only,
                           luo_score *out, luo_err *err);

/* ---- suites, validate_table.c ---- */

typedef struct luo_bar { /* what is asked of a suite; 0: nothing */
    const char *suite, *others;
    double mean[2], largest[2], spearman[2]; /* normal, strict */
    double memory[2];
} luo_bar;
/* NULL: no bar. */
const luo_bar *luo_bar_of(const char *suite);

typedef struct luo_scored { /* a row with its prediction */
    const luo_case *c;
    const luo_score *s;
    const char *suite;  /* as it is reported */
    double predicted_s, naive_s; /* 0: none */
    double measured_s;
    int fold;           /* --cross; -1: none */
    double spread;      /* --leave: standard deviation of the prediction's logarithm; 0: none */
} luo_scored;
/* Name of the part of a suite that a row is reported in. */
const char *luo_validate_part(const luo_suite_row *row);

/* What is asked of the rows that are scored. */
typedef enum luo_scored_rows {
    LUO_ROWS_VAL,
    LUO_ROWS_CAL,
    LUO_ROWS_CROSS,
    LUO_ROWS_LEFT
} luo_scored_rows;

/* How far a rate that nobody printed decides: mean |error| of the closed form as it is, with 20 %
 * less of it, with 20 % more. */
enum { LUO_SENSES = 3 };
typedef struct luo_sensitivity {
    const char *what;
    int32_t rows; /* that rest on it; 0: none */
    double mean[3];
} luo_sensitivity;

typedef struct luo_suite_result { /* of one part of a suite */
    const char *suite;
    luo_errors all;           /* of what is scored */
    luo_errors simulated, closed, naive; /* of the rows that have each */
    luo_errors memory;
    int32_t outside;          /* rows that no case of ours says: not scored, no bar broken */
    int32_t missing;          /* rows that should be predicted, and are not .. */
    const luo_scored *first;  /* .. the first of them */
    int32_t by_closed;        /* rows scored by the closed form for want of programs */
    int32_t ranges, inside;   /* rows with a range; of them measured inside the middle 80 % */
    int32_t weighed, refused; /* rows that ran; of them said not to fit */
    int32_t oom, oom_told;    /* rows that ran out of memory; of them said to */
    bool broken[2];           /* a bar: normal, strict */
    luo_sensitivity sense[LUO_SENSES];
} luo_suite_result;

typedef struct luo_validation {
    luo_cli *cli;
    luo_scored *at; /* in the order of the files */
    int32_t n;
    luo_scored_rows rows;
    bool closed_only, strict;
    luo_suite_result *suites;
    int32_t nsuites;
    double elapsed_s;
} luo_validation;

/* Is the row counted, rather than only drawn? */
bool luo_validation_counts(const luo_validation *validation, const luo_scored *scored);
/* Fills measured_s, predicted_s, naive_s and the suites. Errors: LUO_ENOMEM. */
luo_status luo_validation_sum(luo_validation *validation, luo_err *err);
/* Fills sense of the suites, validate_sense.c. Errors: those of luo_case_closed. */
luo_status luo_validation_sense(luo_validation *validation, luo_err *err);
void luo_sensitivity_print(FILE *out, const char *suite, const luo_sensitivity *sensitivity);
void luo_validation_print(const luo_validation *validation);
void luo_validation_json(const luo_validation *validation);
/* DIR/validate.csv and DIR/plots/predicted.csv. */
luo_status luo_validation_write(const luo_validation *validation, const char *dir, luo_err *err);
#endif
