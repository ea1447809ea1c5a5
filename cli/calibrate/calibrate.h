/* calibrate.h: what the files of `luoshu calibrate` share: rows that were measured, the profile
 * made of them, and how well it tells them again. */
#ifndef LUO_CLI_CALIBRATE_CALIBRATE_H
#define LUO_CLI_CALIBRATE_CALIBRATE_H
#include "cli/run/progress.h"
#include "core/cost/fit/cpu_fit.h"

typedef struct luo_measured { /* rows of both roles; calibration rows are those of the profile */
    luo_arena *arena;
    struct luo_measured_op {
        luo_op_time row;
        bool validation;
    } * ops;
    struct luo_measured_comm {
        int32_t coll, devices, nodes; /* coll -1: a message */
        double bytes, seconds;
        bool validation; /* all groups of so many devices, or all pairs, at once */
    } * comm;
    int32_t nops, ncomm, cap_ops, cap_comm;
    struct luo_measured_fact {
        const char *name;
        double value;
    } * facts;
    int32_t nfacts, cap_facts;
    /* Whose rows these are, as sources name them; NULL: none. */
    const char *ops_file, *facts_file, *messages_file;
} luo_measured;

/* Adds the rows of a table of op_times, collective_times or p2p_times (told by its columns), or of
 * facts. Errors are in cli->diags. */
luo_status luo_measured_read(luo_cli *cli, luo_measured *measured, const char *path);
/* Value of a fact, `otherwise` without it. */
double luo_measured_fact(const luo_measured *measured, const char *name, double otherwise);

typedef struct luo_calibration { /* one number of ranks */
    const char *dir;
    int32_t ranks, ops_of; /* ops_of: ranks that computed while operations were measured */
    double cores, memory_bytes;
    double slowdown; /* of compute, against ops_of ranks: what sharing cores costs beside time */
    const char *machine, *driver;
    bool comm;             /* there are tables of collectives and messages */
    const char *tables[3]; /* given ones; NULL: those that were measured in dir */
    luo_measured rows;
    luo_cpu_fit fit;
} luo_calibration;

/* DIR/pool.csv: strategies of --model on --cluster by the cost model, with the caps that planner
 * hydraulis would give them. */
luo_status luo_calibrate_pool(luo_cli *cli, const char *dir);

typedef struct luo_calibrate_turn { /* for the line of progress */
    luo_progress *progress;
    int32_t done, of; /* measurements before this one, and in all */
} luo_calibrate_turn;
/* Starts `program` (luoshu-rank, luoshu-rank-cuda) --calibrate under mpirun with so many ranks and
 * waits. Errors: LUO_EBACKEND with the last line of what it said. */
luo_status luo_calibrate_measure(luo_cli *cli, const char *program, const char *dir, int32_t ranks,
                                 bool quick, bool ops, const luo_calibrate_turn *turn);

/* cli/calibrate/calibrate_write.c */
luo_status luo_calibration_fit(luo_calibration *calibration, luo_err *err);
/* DIR/NAME.yaml; frees the text. Errors: LUO_EIO, LUO_ENOMEM. */
luo_status luo_calibration_file(luo_str *text, const char *dir, const char *name, luo_err *err);
/* DIR/profile-N.yaml and cluster-N.yaml (N ranks). */
luo_status luo_calibration_write(const luo_calibration *calibration, luo_err *err);

typedef struct luo_calibration_errors { /* of |predicted/measured - 1| */
    int32_t n;
    double mean, median, largest;
} luo_calibration_errors;
enum { LUO_CAL_OPS, LUO_CAL_COMM, LUO_CAL_KINDS };
typedef struct luo_calibration_tally { /* rows of calibrate.csv, and their errors */
    luo_str *text;
    double *errors[LUO_CAL_KINDS][2]; /* by role: calibration, validation */
    int32_t n[LUO_CAL_KINDS][2];
} luo_calibration_tally;
/* Room for so many rows of each. Errors: LUO_ENOMEM, in cli->diags. */
luo_status luo_calibration_tally_open(luo_cli *cli, luo_str *text, int32_t rows,
                                      luo_calibration_tally *out);
/* Seconds; rows that measured nothing are left out. source: file or table. */
void luo_calibration_tally_add(luo_calibration_tally *tally, int kind, bool validation,
                               const char *name, double measured, double predicted,
                               const char *source);
void luo_calibration_tally_close(luo_calibration_tally *tally,
                                 luo_calibration_errors errors[LUO_CAL_KINDS][2]);
/* Calibration and validation rows apart, as lines and as one item of `profiles` in --json.
 * slowdown: of devices that share cores; 1: none. */
void luo_calibration_print(luo_cli *cli, int32_t ranks, double slowdown,
                           luo_calibration_errors errors[LUO_CAL_KINDS][2]);
/* Appends a row of calibrate.csv. Seconds; `us`: the file has microseconds. */
void luo_calibration_row(luo_str *text, const char *name, const char *role, double measured,
                         double predicted, bool us, const char *source);
/* Writes DIR/calibrate.csv: the header, and these rows. Errors: LUO_EIO; LUO_ENOMEM. */
luo_status luo_calibration_csv(luo_cli *cli, const char *dir, const luo_str *rows,
                               const char **path, luo_err *err);
/* Predicts every row by the profile that was written; appends to text as rows of calibrate.csv.
 * errors[kind][validation]. */
luo_status luo_calibration_score(luo_cli *cli, const luo_calibration *calibration, luo_str *text,
                                 luo_calibration_errors errors[LUO_CAL_KINDS][2]);
#endif
