/* compare.h: runs side by side, from their files alone; the first is the reference
 * (docs/results.md). */
#ifndef LUO_CORE_IO_COMPARE_COMPARE_H
#define LUO_CORE_IO_COMPARE_COMPARE_H
#include "core/io/jsonw.h"
#include "core/io/result/result.h"

typedef struct luo_compare_opts {
    const char *const *paths; /* run directories or result sets */
    int32_t npaths;
    const char *out;      /* folder for the files, made if missing */
    bool allow_different; /* sim and real runs of different programs */
    luo_jsonw *json;      /* gets what compare.json says under `compared`; NULL: nobody */
} luo_compare_opts;

/* Runs of these paths as they are compared: read, told apart, goodput over equal times. Errors:
 * those of luo_result_read_all. */
luo_status luo_compare_read(luo_arena *arena, const char *const *paths, int32_t npaths,
                            luo_result **runs, int32_t *n, luo_diags *diags);

/* What stands above and below the table: one sentence, of jobs one each, or nothing; lines of
 * ranges, and of runs that are not whole. Pre: luo_compare_read. Errors: LUO_ENOMEM; of jobs those
 * of their tables, in diags. */
luo_status luo_compare_say(luo_arena *arena, const luo_result *runs, int32_t n, luo_str *answer,
                           luo_str *notes, luo_diags *diags, luo_err *err);

/* What a run is held against: the first, a job the same one alone. result is one of runs. */
const luo_result *luo_compare_reference(const luo_result *runs, int32_t n,
                                        const luo_result *result);

/* The table for people, cell by cell. */
enum { LUO_COMPARE_CELLS = 14, LUO_COMPARE_CELL = 24 };
typedef char luo_compare_row[LUO_COMPARE_CELLS][LUO_COMPARE_CELL];
const char *luo_compare_title(int cell);
const char *luo_compare_unit(int cell);    /* "": none */
const char *luo_compare_meaning(int cell); /* of the column of compare.csv that it is made of */
/* Cells of a run beside its reference. */
void luo_compare_fill(luo_compare_row out, const luo_result *run, const luo_result *reference);

typedef struct luo_seed_pair { /* of policies, seed by seed */
    int32_t run, other;
    int32_t ahead, behind;   /* seeds in which `run` kept more, less */
    luo_interval difference; /* of their goodput */
    double against;          /* mean goodput of `other` in these seeds */
} luo_seed_pair;
/* One sentence: is `run` of the pair, of that name, which is the best in the mean, better than
 * `other`, the second; its lead is to be surer by as many rivals as it has (Bonferroni). Owner:
 * arena. NULL: out of memory. */
char *luo_compare_lead(luo_arena *arena, const char *run, const char *other,
                       const luo_seed_pair *pair, int32_t rivals);

/* Writes compare.csv and compare.json, and for every pair (first, other) and, when both were
 * traced, compare_ops.csv; with more than two runs these two are named compare_steps-RUN.csv and
 * compare_ops-RUN.csv. Runs of another seed on the same backend are no pairs; policies that ran
 * under several seeds get a row of seeds.csv each and a band in plots/bands.csv. With a simulated
 * and a real run also plots/predicted.csv. Appends the table for people to text; of a simulated and
 * a real run the error of steps, of kinds of operations and of the whole. Errors: LUO_ENO a sim and
 * a real run have different programs (files are written all the same); LUO_EINPUT, LUO_EPARSE of
 * the files read; LUO_EIO; LUO_ENOMEM. All are in diags. Cost: 10 runs of 10,000 steps in 1 s;
 * memory: 8 bytes a step, one entry an op. */
luo_status luo_compare(luo_arena *arena, const luo_compare_opts *opts, luo_str *text,
                       luo_diags *diags);
#endif
