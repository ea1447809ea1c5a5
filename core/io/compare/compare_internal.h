/* compare_internal.h: what the files that make up compare share; not for others. */
#ifndef LUO_CORE_IO_COMPARE_COMPARE_INTERNAL_H
#define LUO_CORE_IO_COMPARE_COMPARE_INTERNAL_H
#include "core/io/compare/compare.h"
#include "core/io/result/table.h"

typedef struct luo_pair_errors { /* of one pair of runs */
    int64_t steps;
    double median, largest; /* of |error| of steps; NAN: no common step */
} luo_pair_errors;

/* Opens OUT/compare_X-SUFFIX.csv as a table of that definition. */
luo_status luo_compare_open(luo_arena *arena, luo_table *table, const char *out, luo_table_id id,
                            const char *suffix, luo_err *err);
/* compare_steps.c. suffix: "" or "-RUN". */
luo_status luo_compare_steps(luo_arena *arena, const char *out, const luo_result *reference,
                             const luo_result *other, const char *suffix, luo_pair_errors *errors,
                             luo_diags *diags);
/* compare_ops.c: sums by op of every run; run 0 is the reference. */
typedef struct luo_op_table luo_op_table;
luo_op_table *luo_op_table_new(luo_arena *arena, int32_t nruns); /* NULL: out of memory */
void luo_op_table_free(luo_op_table *table);
luo_status luo_op_table_read(luo_op_table *table, int32_t run, const luo_result *result,
                             luo_diags *diags);
/* A row per op, then sums, whose names have a * in them: of an op over all layers, of all ops of a
 * kind, of all, of what devices waited; all but the first also to text (NULL: not wanted). Nothing
 * when no step was traced in both. */
luo_status luo_op_table_write(luo_op_table *table, int32_t run, const char *out, const char *suffix,
                              luo_str *text, luo_err *err);
/* predicted.c: OUT/plots/predicted.csv, if the reference or others were simulated and the other one
 * was not; else nothing. Reads the files that were written for the pairs. suffix: as above, per
 * run. */
luo_status luo_compare_predicted(luo_arena *arena, const char *out, const luo_result *runs,
                                 int32_t n, luo_diags *diags);

typedef struct luo_seed_policy { /* runs of one folder's name under several seeds */
    const char *label;
    int32_t n;
    const luo_result **run;
    luo_interval goodput; /* tokens per second, of the mean over seeds, 95 % */
} luo_seed_policy;
typedef struct luo_seed_stats {
    int32_t npolicies, npairs; /* each pair in both directions */
    luo_seed_policy *policy;   /* in the order of their first runs */
    luo_seed_pair *pair;
    int32_t best; /* policy with the highest mean goodput, `oracle` left out; -1: none */
    const char *answer; /* one sentence: which is better and how sure that is; "": no two */
} luo_seed_stats;
/* seeds_pairs.c. Runs without figures are left out. Pre: goodput is settled. Errors: LUO_ENOMEM. */
luo_status luo_seed_stats_of(luo_arena *arena, const luo_result *runs, int32_t n,
                             luo_seed_stats *out, luo_err *err);
/* seeds.c: OUT/seeds.csv, OUT/pairs.csv and OUT/plots/bands.csv, seeds_kept.csv and paired.csv of
 * these policies, a line each and the answer to text; nothing, and no such files, if there are
 * none. */
luo_status luo_compare_seeds(luo_arena *arena, const char *out, const luo_result *runs, int32_t n,
                             const luo_seed_stats *stats, luo_str *text, luo_diags *diags);
/* job_pairs.c: a job of several on one cluster, beside the others and alone. */
typedef struct luo_job_pair {
    const luo_result *run, *alone;
    const char *others;    /* names, with commas; "": none ran meanwhile */
    int64_t beside_steps;  /* of `run`, in which another job ran */
    double beside_step_s;  /* their mean */
    int part;              /* of the time of a step (luo_result_time_name) what grew most .. */
    double part_s;         /* .. by so much in the mean; part -1: nothing grew */
    const char *link, *class; /* of links that other jobs use too the fullest; NULL: none */
} luo_job_pair;
/* Of runs that have both, from their files. Errors: LUO_ENOMEM; those of tables, in diags. */
luo_status luo_job_pairs_of(luo_arena *arena, const luo_result *runs, int32_t n, luo_job_pair **out,
                            int32_t *npairs, luo_diags *diags);
/* By how much a step is longer than alone, over that; NAN: nobody was beside it. */
double luo_job_pair_slower(const luo_job_pair *pair);
void luo_job_pairs_say(luo_str *text, const luo_job_pair *pairs, int32_t n); /* a sentence each */
void luo_job_pairs_json(luo_jsonw *json, const luo_job_pair *pairs, int32_t n);
/* OUT/jobs.csv; nothing without pairs. */
luo_status luo_job_pairs_write(const char *out, const luo_job_pair *pairs, int32_t n, luo_err *err);

/* compare_text.c: what goodput is, of every run alike, finished or lost. */
extern const char luo_goodput_means[];
void luo_compare_table(luo_str *text, const luo_result *runs, int32_t n);
/* What stands below it: ranges, what goodput is where a run is not whole, who was lost and why. */
void luo_compare_notes(luo_str *text, const luo_result *runs, int32_t n);

/* compare_range.c: best slower within_range, by goodput beside the highest of simulated runs of one
 * seed; "": it has no range. result is one of runs. Cost: O(n). */
const char *luo_result_beside_best(const luo_result *result, const luo_result *runs, int32_t n);
/* Ends of the range of step_mean_s; NAN: there is none. */
double luo_result_low_s(const luo_result *result);
double luo_result_high_s(const luo_result *result);
/* answer.c: one sentence: which run to choose, by how much, and whether that is more than ranges
 * allow for; of equal ones why; of one run its step; of a real run beside its prediction how far
 * that is off. Else nothing where seeds or backends differ. Pre: goodput is settled. */
void luo_compare_answer(luo_str *text, const luo_result *runs, int32_t n);
/* The range of the best run, what it is made of, and who is within it. */
void luo_compare_range_text(luo_str *text, const luo_result *runs, int32_t n);

/* Time not spent in steps that stayed. */
double luo_result_lost_s(const luo_result *result);
double luo_result_speedup(const luo_result *result, const luo_result *first);
/* NAN unless the two are on different backends. */
double luo_result_error(const luo_result *result, const luo_result *first);
#endif
