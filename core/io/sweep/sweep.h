/* sweep.h: a scenario under many values of its keys: what is swept, what came out, what that says
 * (docs/sweeps.md).
 *
 * A cell is one value of every key; it is numbered, the last key changing fastest. A unit is a cell
 * under one seed, unit = cell * nseeds + seed, and has a row for each policy. */
#ifndef LUO_CORE_IO_SWEEP_SWEEP_H
#define LUO_CORE_IO_SWEEP_SWEEP_H
#include "core/base/hash.h"
#include "core/base/stats.h"
#include "core/io/compare/compare.h"
#include "core/io/io.h"
#include "core/io/jsonw.h"
#include "core/io/result/table.h"
#include "core/run/rows.h"

enum { LUO_SWEEP_KEYS = 16, LUO_SWEEP_VALUES = 100000, LUO_SWEEP_UNITS = 1000000 };

typedef struct luo_sweep_key {
    const char *name;        /* as --set has it */
    int64_t n;               /* values */
    const char *const *text; /* of each; NULL: lo + i * step */
    const char *const *set;  /* what --set gets in the place of the text: files; NULL: the text */
    double lo, step;
} luo_sweep_key;

typedef struct luo_sweep_grid {
    int32_t nkeys, nseeds;
    luo_sweep_key key[LUO_SWEEP_KEYS];
    const char *const *seed;
} luo_sweep_grid;

/* ---- grid.c ---- */

/* Appends KEY=A,B,LO:HI[:STEP]; commas inside brackets, braces or quotes belong to a value. range:
 * KEY=LO:HI[:STEP] alone, however long. option: its name, for messages.
 * Errors: LUO_EUSAGE; LUO_ENOMEM. Owner: arena; text must outlive the grid. */
luo_status luo_sweep_add_key(luo_arena *arena, luo_sweep_grid *grid, const char *option,
                             const char *text, bool range, luo_err *err);
/* Appends a key whose values are files: text is a list A,B as the user names them, set what --set
 * gets. Errors: as above. */
luo_status luo_sweep_add_files(luo_arena *arena, luo_sweep_grid *grid, const char *option,
                               const char *key, const char *text,
                               const char *(*set)(luo_arena *arena, const char *path),
                               luo_err *err);
/* Cells, 1 without keys. Errors: LUO_EUSAGE too many with the seeds. */
luo_status luo_sweep_count(const luo_sweep_grid *grid, int64_t *cells, luo_err *err);
/* Which value of key k a cell has. */
int64_t luo_sweep_pick(const luo_sweep_grid *grid, int64_t cell, int32_t k);
/* Text of value i. Owner: the key, or arena. NULL: out of memory. */
const char *luo_sweep_value(luo_arena *arena, const luo_sweep_key *key, int64_t i);
/* Are all values numbers? Their number i. */
bool luo_sweep_numeric(const luo_sweep_key *key);
double luo_sweep_number(const luo_sweep_key *key, int64_t i);
/* KEY=VALUE for every key of a cell, out[0..nkeys). Errors: LUO_ENOMEM. */
luo_status luo_sweep_overrides(luo_arena *arena, const luo_sweep_grid *grid, int64_t cell,
                               const char **out, luo_err *err);

/* ---- definition.c ---- */

/* The file of the text below. */
#define LUO_SWEEP_DEFINITION "sweep.json"
#define LUO_SWEEP_SCHEMA "luoshu.sweep/1"

typedef struct luo_sweep_definition { /* beside the grid: all that the rows depend on */
    const char *version, *scenario;
    uint64_t scenario_hash; /* of the first cell that can be read */
    const char *path;       /* of the scenario, for files that values name */
    int32_t nsettings;
    const char *const *settings; /* options that change results, NAME=VALUE */
} luo_sweep_definition;

/* Text of LUO_SWEEP_DEFINITION. Files that values of `cluster`, `model` and `plan` name are
 * in it by the hash of their content. Errors: LUO_ENOMEM. */
luo_status luo_sweep_define(luo_arena *arena, const luo_sweep_grid *grid,
                            const luo_sweep_definition *definition, luo_str *out, luo_err *err);

/* ---- rows.c ---- */

typedef struct luo_sweep_row {
    int64_t cell;
    int32_t seed;               /* index */
    int32_t policies;           /* rows of the unit */
    const char *policy, *error; /* "": the cell cannot be read; none */
    luo_run_state state;
    int64_t steps; /* -1, and NAN below: none */
    double total_s, step_mean_s, low_s, high_s, goodput_tokens_per_s, mfu_ratio, lost_s;
    double peak_memory_ratio;
    int64_t order; /* of luo_sweep_sort */
} luo_sweep_row;

typedef struct luo_sweep_rows { /* whole units, each once */
    int64_t n, cap;
    luo_sweep_row *at;
    luo_map first; /* unit -> index of its first row */
} luo_sweep_rows;

/* The first row of a unit; -1: it is not there. */
int64_t luo_sweep_find(const luo_sweep_rows *rows, int64_t unit);
/* sweep.csv with the columns of the keys. NULL: out of memory. */
const luo_table_def *luo_sweep_table(luo_arena *arena, const luo_sweep_grid *grid,
                                     const char *file);
/* A row, with its keys where the table has columns for them. Errors: of luo_table_end. */
luo_status luo_sweep_put(luo_arena *scratch, luo_table *table, const luo_sweep_grid *grid,
                         const luo_sweep_row *row, luo_err *err);
/* Appends the whole units of DIR/FILE that rows lack; a part of one, as a killed process leaves it,
 * is passed over. Errors: of reading, in diags. Owner: arena. */
luo_status luo_sweep_read(luo_arena *arena, const char *dir, const char *file,
                          const luo_sweep_grid *grid, luo_sweep_rows *rows, luo_diags *diags);
/* By cell and seed; policies of a unit keep their order. Gives up `first`. */
void luo_sweep_sort(luo_sweep_rows *rows);
/* DIR/sweep.csv, replaced as a whole. Pre: sorted. Errors: LUO_EIO; LUO_ENOMEM. */
luo_status luo_sweep_write(luo_arena *arena, const char *dir, const luo_sweep_grid *grid,
                           const luo_sweep_rows *rows, luo_err *err);
void luo_sweep_rows_free(luo_sweep_rows *rows);

/* ---- answer.c ---- */

/* What the sweep told, in its folder: question, condition (null: none), answer, a line a sentence,
 * the keys of luo_sweep_json with the first LUO_SWEEP_KEPT cases, and how many more there are. */
enum { LUO_SWEEP_KEPT = 2000 };
#define LUO_SWEEP_ANSWER "sweep-answer.json"
#define LUO_SWEEP_ANSWER_SCHEMA "luoshu.sweep-answer/1"

typedef struct luo_sweep_case { /* a policy in a cell, over the seeds */
    int64_t cell;
    const char *policy;
    int32_t n;                        /* seeds with figures */
    double *goodput;                  /* of seed i; NAN: none */
    luo_interval mean;                /* of goodput */
    double step_s, mfu, lost, memory; /* means; lost: share of the time */
    double low, high;                 /* range of goodput by that of the step; NAN: none */
    luo_run_state state;              /* the worst */
    bool bound;                       /* nothing that a run could do */
    int64_t order;                    /* by cell, and as its policies stand */
} luo_sweep_case;

typedef struct luo_sweep_factor {
    const char *name; /* a key, or `policy` */
    double share;     /* of the variance of log goodput that its means explain */
} luo_sweep_factor;

typedef struct luo_sweep_answer {
    int64_t ncases, nrows, failed; /* failed: rows without figures */
    const luo_sweep_row *says;     /* the first of these; NULL: none */
    luo_sweep_case *at;            /* best mean first, then by cell and policy; failed ones last */
    int32_t rivals;                /* cases that can be chosen, but the best */
    const luo_sweep_case *best, *next; /* NULL: none */
    luo_seed_pair lead;                /* best and next, seed by seed */
    int32_t nfactors;
    luo_sweep_factor factor[LUO_SWEEP_KEYS + 1]; /* the largest first */
} luo_sweep_answer;

/* bounds: labels of policies that only bound others. Pre: rows are sorted. Errors: LUO_ENOMEM.
 * Owner: arena. Cost: O(rows * keys). */
luo_status luo_sweep_judge(luo_arena *arena, const luo_sweep_grid *grid, const luo_sweep_rows *rows,
                           const char *const *bounds, int32_t nbounds, luo_sweep_answer *out,
                           luo_err *err);
/* The sentences, a line each: best, how sure, which key matters. Errors: LUO_ENOMEM. */
luo_status luo_sweep_say(luo_arena *arena, const luo_sweep_grid *grid,
                         const luo_sweep_answer *answer, luo_str *text, luo_err *err);
/* The table of the first cases. Errors: LUO_ENOMEM. */
luo_status luo_sweep_say_cases(luo_arena *arena, const luo_sweep_grid *grid,
                               const luo_sweep_answer *answer, luo_str *text, luo_err *err);
/* `Which values of `a`, `b` give the largest goodput?`; of a condition the smallest value for which
 * it holds. condition: NULL: none. Errors: LUO_ENOMEM. */
luo_status luo_sweep_ask(const luo_sweep_grid *grid, const char *condition, luo_str *text,
                         luo_err *err);
/* `event[0].slowdown=2, static`. Owner: arena. NULL: out of memory. */
const char *luo_sweep_name(luo_arena *arena, const luo_sweep_grid *grid,
                           const luo_sweep_case *sweep_case);
/* Keys best, next, factors, cases: the first `most` of these. */
luo_status luo_sweep_json(luo_arena *arena, const luo_sweep_grid *grid,
                          const luo_sweep_answer *answer, int64_t most, luo_jsonw *json,
                          luo_err *err);
/* DIR/plots/swept.csv of keys with several values, at those that have figures. *n: how many keys
 * there are. Cost: O((cases + values * policies) * seeds) a key. Errors: LUO_EIO; LUO_ENOMEM. */
luo_status luo_sweep_plotdata(luo_arena *arena, const char *plots, const luo_sweep_grid *grid,
                              const luo_sweep_answer *answer, int32_t *n, luo_err *err);

/* ---- least.c ---- */

/* What can be asked of a cell: word, the member of luo_sweep_case. */
#define LUO_SWEEP_QUANTITY_LIST(X)                                                                 \
    X("step_s", step_s)                                                                            \
    X("goodput", mean.mean)                                                                        \
    X("mfu", mfu)                                                                                  \
    X("lost", lost)                                                                                \
    X("memory", memory)

typedef struct luo_sweep_condition {
    const char *text;
    int32_t quantity; /* of the list; -1: state=complete */
    int sign;         /* 1: at least, -1: at most */
    bool strict;
    double limit;
} luo_sweep_condition;

/* QUANTITY>=NUMBER (also > <= <), or state=complete. Errors: LUO_EUSAGE. */
luo_status luo_sweep_read_condition(const char *text, luo_sweep_condition *out, luo_err *err);
/* Does it hold of one of the policies of a cell in all seeds? By means over the seeds; a policy
 * that failed under one of them meets nothing. *which: the policy that does, else the nearest. */
bool luo_sweep_holds(const luo_sweep_condition *condition, const luo_sweep_answer *answer,
                     int64_t cell, const luo_sweep_case **which);
/* Value of the quantity. Pre: condition->quantity >= 0. */
double luo_sweep_quantity(const luo_sweep_condition *condition, const luo_sweep_case *of);

typedef struct luo_sweep_search { /* the smallest cell in 0 .. n - 1 for which it holds */
    int64_t n, lo, hi; /* fails at lo (-1: nothing is known below), holds at hi (n: nowhere yet) */
    int64_t first, last; /* what the ends said: -1 not asked, 0, 1 */
} luo_sweep_search;

/* The cell to ask for next; -1: it is known: hi, or none if hi is n. The ends are asked first. */
int64_t luo_sweep_next(const luo_sweep_search *search);
void luo_sweep_tell(luo_sweep_search *search, int64_t cell, bool holds);
#endif
