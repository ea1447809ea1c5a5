/* storm.h: random scenarios as real files, run by the real command, judged by what it
 * wrote. A case is a seed: the same seed makes the same files.
 *
 *   make_*.c    a case: cluster, model, plan, scenario, options of the command
 *   start.c     one command: limits of time, memory and file size; what it did
 *   sheet.c     a CSV file as text cells, read without the code that wrote it
 *   judge*.c    what has to hold of the results
 *   storm.c     seeds, jobs, shrinking, the tally */
#ifndef LUO_TESTS_STORM_STORM_H
#define LUO_TESTS_STORM_STORM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/rng.h"
#include "core/base/str.h"
#include "core/cost/cluster.h"
#include "core/graph/model.h"
#include "core/run/scenario.h"

/* ---- a case ---- */

enum { STORM_LINES = 64, STORM_ARGS = 16 };

typedef enum storm_section {
    STORM_POLICIES,
    STORM_EVENTS,
    STORM_PROCESSES,
    STORM_SECTIONS
} storm_section;

typedef struct storm_line { /* an entry of a list; shrinking leaves lines out */
    storm_section section;
    const char *text;
    bool out;
} storm_line;

typedef struct storm_case {
    uint64_t seed;
    const char *dir; /* all its files */
    luo_arena *arena;
    luo_rng rng;
    luo_cluster *cluster; /* as the library reads it */
    luo_model model;
    bool planned;     /* the planner makes the first plan */
    bool uneven;      /* sequences differ in length, and policies are those for such */
    const char *head; /* scenario.yaml without its lists */
    int nlines, nargs;
    storm_line line[STORM_LINES];
    const char *arg[STORM_ARGS]; /* options of `luoshu sim` */
    bool noise, twice;
} storm_case;

/* Files of case `seed` into c->dir. False: out of memory or disk, told. */
bool storm_make(storm_case *c);
/* scenario.yaml from head and lines. */
bool storm_write_scenario(const storm_case *c);
bool storm_write(const storm_case *c, const char *name, const char *text);

void storm_make_cluster(storm_case *c, luo_str *s);
void storm_make_model(storm_case *c, luo_str *s);
/* A random plan as plan.json; false: none found for these devices. Sets the model's layers. */
bool storm_make_plan(storm_case *c);
void storm_make_policies(storm_case *c);
void storm_make_events(storm_case *c);
void storm_add(storm_case *c, storm_section section, const char *text);

/* Draws. */
static inline int storm_pick(storm_case *c, int n)
{
    return (int)luo_rng_pick(&c->rng, n);
}
static inline bool storm_one_in(storm_case *c, int n)
{
    return storm_pick(c, n) == 0;
}
/* Spread evenly over powers of ten. */
double storm_decade(storm_case *c, double lo, double hi);
/* Seconds: mostly near the length of a step, at times anything from 1e-9 to 1e9. */
double storm_seconds(storm_case *c);

/* ---- a command ---- */

typedef struct storm_limits {
    double wall_s;
    uint64_t memory_bytes, file_bytes;
} storm_limits;

typedef struct storm_end {
    int exit;   /* -1: by a signal */
    int signal; /* 0: none */
    bool late;  /* killed, with all it had started */
    double wall_s;
    uint64_t peak_bytes; /* of it and all it started, together */
    char said[4096];     /* its stderr, the beginning */
} storm_end;

/* argv[0] is a path; stdout and stderr go to files LOG.out, LOG.err in dir. False: not started. */
bool storm_start(char *const *argv, const char *dir, const char *log, const storm_limits *limits,
                 storm_end *out);

/* ---- results ---- */

typedef struct storm_sheet {
    int columns, rows;
    const char **name; /* columns */
    const char **cell; /* rows * columns; as written, quotes taken off */
} storm_sheet;

/* False, with a sentence in why: not readable, or not a table of whole rows. */
bool storm_sheet_read(luo_arena *arena, const char *path, storm_sheet *out, luo_str *why);
int storm_sheet_column(const storm_sheet *t, const char *name); /* -1: none */
const char *storm_cell(const storm_sheet *t, int row, const char *column);
bool storm_empty(const storm_sheet *t, int row, const char *column);
double storm_number(const storm_sheet *t, int row, const char *column); /* NAN when empty */

typedef struct storm_run { /* of one policy */
    const storm_case *c;
    const luo_scenario *scenario;
    const luo_policy_spec *policy;
    const char *dir; /* of this policy */
    luo_arena *arena;
    luo_str *why; /* what is wrong, a sentence a line; "" is good */
    storm_sheet steps, timeline, events, devices, ops, links;
    struct json_t *summary;
    double total_s, kept; /* kept: tokens of steps that stayed */
    const char *state;
    int exit; /* of the command */
} storm_run;

#define STORM_WRONG(r, ...)                                                                        \
    do {                                                                                           \
        luo_str_addf((r)->why, __VA_ARGS__);                                                       \
        luo_str_add((r)->why, "\n");                                                               \
    } while (0)

/* Everything that has to hold of the results in `out`; what does not is appended to why. Counts
 * complete and lost runs. */
typedef struct storm_counts {
    int complete, lost, steps, failures;
} storm_counts;
void storm_judge(const storm_case *c, const char *out, int exit, luo_str *why,
                 storm_counts *counts);
void storm_judge_files(storm_run *r);
void storm_judge_time(storm_run *r);
void storm_judge_down(storm_run *r);
void storm_judge_work(storm_run *r);
/* Two folders of results hold the same, wall clocks aside. */
void storm_judge_same(luo_arena *arena, const char *a, const char *b, luo_str *why);
#endif
