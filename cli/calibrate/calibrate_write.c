/* calibrate_write.c: the profile and the cluster that measured rows make, and how well they
 * tell the rows again. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/calibrate/calibrate.h"
#include "core/io/io.h"
#include "core/io/read/input_tables.h"

/* ---- constants ---- */

/* Calibration rows of all operations. */
static luo_op_time *fit_rows(const luo_measured *measured, int32_t *n)
{
    luo_op_time *rows = LUO_NEW_N(measured->arena, luo_op_time, measured->nops);
    *n = 0;
    for (int32_t i = 0; rows && i < measured->nops; i++)
        if (!measured->ops[i].validation) rows[(*n)++] = measured->ops[i].row;
    return rows;
}

/* Bytes per second of the largest copy: it reads and writes. */
static double copy_rate(const luo_measured *measured)
{
    double rate = 0;
    int64_t largest = 0;
    for (int32_t i = 0; i < measured->nops; i++) {
        const luo_op_time *time = &measured->ops[i].row;
        if (strcmp(time->op, "copy") != 0 || time->m < largest || !(time->seconds > 0)) continue;
        largest = time->m;
        rate = 2.0 * (double)time->m * (double)luo_dtype_bytes(time->dtype) / time->seconds;
    }
    return rate;
}

luo_status luo_calibration_fit(luo_calibration *calibration, luo_err *err)
{
    int32_t n = 0;
    const luo_op_time *rows = fit_rows(&calibration->rows, &n);
    const double rate = copy_rate(&calibration->rows);
    if (!rows) return luo_err_nomem(err);
    LUO_TRY(luo_cpu_fit_rows(rows, n, LUO_F32, rate > 0 ? rate : 1e9, &calibration->fit, err));
    if (calibration->fit.products == 0)
        return luo_err_set(err, LUO_EINPUT,
                           "there is no row of `matmul` in f32 among the measured "
                           "operations; a profile needs some.");
    if (rate > 0) return LUO_OK;
    return luo_err_set(err, LUO_EINPUT,
                       "there is no row of `copy` among the measured operations; the "
                       "memory bandwidth follows from it.");
}

/* ---- the profile ---- */

static int32_t rows_of(const luo_measured *measured, bool validation)
{
    int32_t n = 0;
    for (int32_t i = 0; i < measured->nops; i++) n += measured->ops[i].validation == validation;
    for (int32_t i = 0; i < measured->ncomm; i++) n += measured->comm[i].validation == validation;
    return n;
}

static void value(luo_str *text, const char *name, double v, const char *provenance,
                  const char *source)
{
    luo_str_addf(text, "  - {name: %s, value: %.9g, source: \"%s\", provenance: %s}\n", name, v,
                 source, provenance);
}

/* Out of the rows of that file. */
static void measured(luo_str *text, const char *name, double v, const char *what, const char *file)
{
    char source[LUO_ERR_PATH];
    snprintf(source, sizeof source, "%s: %s", file, what);
    value(text, name, v, "measured", source);
}

/* The fastest product among the calibration rows. */
static double fastest_product(const luo_measured *rows, luo_dtype dtype)
{
    double best = 0;
    for (int32_t i = 0; i < rows->nops; i++) {
        const luo_op_time *time = &rows->ops[i].row;
        if (rows->ops[i].validation || time->dtype != dtype || strncmp(time->op, "matmul", 6) != 0)
            continue;
        best =
            fmax(best, 2.0 * (double)time->m * (double)time->n * (double)time->k / time->seconds);
    }
    return best;
}

static void peaks(luo_str *text, const luo_calibration *calibration, const char *fitted)
{
    const double f32 = fastest_product(&calibration->rows, LUO_F32);
    const double f64 =
        fastest_product(&calibration->rows, LUO_F64); /* no constant is fitted for it */
    if (calibration->fit.peak_flops <= f32 * (1 + 1e-9))
        measured(text, "peak_f32_tflop_per_s", f32 * 1e-12, "fastest product",
                 calibration->rows.ops_file);
    else
        value(text, "peak_f32_tflop_per_s", calibration->fit.peak_flops * 1e-12, "fitted", fitted);
    if (f64 > 0)
        measured(text, "peak_f64_tflop_per_s", f64 * 1e-12, "fastest product",
                 calibration->rows.ops_file);
}

/* Memory of this machine, and what each instruction takes beside its kernel. */
static void machine(luo_str *text, const luo_calibration *calibration)
{
    const double launch_us = luo_measured_fact(&calibration->rows, "instruction_us", -1);
    const double gib = calibration->memory_bytes / 1073741824.0;
    if (calibration->tables[0])
        value(text, "memory_gib", gib, "chosen",
              "of the machine that read the tables, over the ranks; the tables do not say it");
    else
        value(text, "memory_gib", gib, "measured", "memory of the host over the ranks");
    value(text, "reserved_gib", 0, "chosen",
          "what a rank needs beside its tensors is not measured");
    if (launch_us >= 0)
        measured(text, "launch_us", launch_us,
                 "time beside an instruction, in steps of small networks",
                 calibration->rows.facts_file);
    else
        value(text, "launch_us", 0, "chosen", "time beside an instruction is not measured");
}

/* Latency and bandwidth of the path between two ranks, which must be there though the tables
 * decide: the smallest and the largest message. False: none was measured. */
static bool path_of(const luo_measured *measured, double *latency_us, double *gbytes_per_s)
{
    double least = HUGE_VAL, most = 0;
    *latency_us = 1;
    *gbytes_per_s = 10;
    for (int32_t i = 0; i < measured->ncomm; i++) {
        const struct luo_measured_comm *comm = &measured->comm[i];
        if (comm->coll >= 0 || comm->validation) continue;
        if (comm->bytes < least) *latency_us = 1e6 * comm->seconds;
        if (comm->bytes > most) *gbytes_per_s = 1e-9 * comm->bytes / comm->seconds;
        least = fmin(least, comm->bytes);
        most = fmax(most, comm->bytes);
    }
    return most > 0;
}

/* Of the links that tables of communication were measured over; the cluster has the same. */
static void links_of_tables(luo_str *text, const luo_calibration *calibration)
{
    double latency, bandwidth;
    if (calibration->comm && path_of(&calibration->rows, &latency, &bandwidth))
        measured(text, "tables_pcie_gbytes_per_s", bandwidth, "largest message between two ranks",
                 calibration->rows.messages_file);
}

static void values(luo_str *text, const luo_calibration *calibration)
{
    const luo_cpu_fit *fit = &calibration->fit;
    char fitted[160];
    snprintf(fitted, sizeof fitted,
             "least squares over %d calibration rows of products, mean error %.1f %%",
             fit->products, 100 * fit->error);
    luo_str_add(text, "values:\n");
    peaks(text, calibration, fitted);
    measured(text, "memory_gbytes_per_s", copy_rate(&calibration->rows) * 1e-9, "largest copy",
             calibration->rows.ops_file);
    machine(text, calibration);
    value(text, "gemm_ratio", fit->gemm_ratio, "fitted", fitted);
    value(text, "gemm_depth", fit->gemm_depth, "fitted", fitted);
    value(text, "memory_ratio", fit->memory_ratio, "fitted", fitted);
    if (fit->attention_forward_ratio > 0)
        value(text, "attention_forward_ratio", fit->attention_forward_ratio, "fitted",
              "median of the calibration rows of attention");
    if (fit->attention_backward_ratio > 0)
        value(text, "attention_backward_ratio", fit->attention_backward_ratio, "fitted",
              "median of the calibration rows of attention_dx");
    links_of_tables(text, calibration);
}

static void tables(luo_str *text, const luo_calibration *calibration)
{
    static const char *const kinds[] = {LUO_PROFILE_TABLE_LIST(LUO_WORD_TEXT)};
    luo_str_add(text, "tables:\n");
    for (int i = 0; i < 3; i++) {
        if (i > 0 && !calibration->comm) continue;
        if (calibration->tables[i])
            luo_str_addf(text, "  - {kind: %s, file: \"%s\"}\n", kinds[i], calibration->tables[i]);
        else
            luo_str_addf(text, "  - {kind: %s, file: %s-%d.csv}\n", kinds[i], kinds[i],
                         i ? calibration->ranks : calibration->ops_of);
    }
}

static void profile_text(luo_str *text, const luo_calibration *calibration)
{
    char date[32];
    const time_t now = time(NULL);
    struct tm day;
    strftime(date, sizeof date, "%Y-%m-%d", gmtime_r(&now, &day));
    luo_str_addf(text,
                 "# Made by `luoshu calibrate`: %d ranks on %g cores; times of operations while %d "
                 "ranks compute.\n",
                 calibration->ranks, calibration->cores, calibration->ops_of);
    luo_str_addf(text, "schema: luoshu.profile/1\nname: host-%d\nkind: cpu\n", calibration->ranks);
    values(text, calibration);
    tables(text, calibration);
    luo_str_addf(text,
                 "calibrated: {date: \"%s\", device: \"%s, %g cores\", driver: \"%s\", rows: %d, "
                 "validation_rows: %d}\n",
                 date, calibration->machine, calibration->cores, calibration->driver,
                 rows_of(&calibration->rows, false), rows_of(&calibration->rows, true));
}

/* ---- the cluster ---- */

static void cluster_text(luo_str *text, const luo_calibration *calibration)
{
    double latency, bandwidth;
    const bool known = path_of(&calibration->rows, &latency, &bandwidth);
    luo_str_addf(
        text,
        "# Made by `luoshu calibrate`: %d ranks on this machine, one thread each. base_slowdown: "
        "processor time\n# of a step of the same networks, against %d ranks at once.%s\n"
        "schema: luoshu.cluster/1\nname: host-%d\nnode_groups:\n  - name: host\n    nodes: 1\n"
        "    devices_per_node: %d\n    profile: profile-%d.yaml\n    base_slowdown: %.4f\n"
        "    pcie: {bandwidth_gbytes_per_s: %.9g, latency_us: %.6g, devices_per_switch: %d}\n"
        "    host: {cores: %g, memory_gib: %.6g}\n",
        calibration->ranks, calibration->ops_of,
        known ? "" : " Bandwidth and latency of pcie are chosen: nothing was measured.",
        calibration->ranks, calibration->ranks, calibration->ranks, calibration->slowdown,
        bandwidth, latency, calibration->ranks, calibration->cores,
        calibration->memory_bytes * calibration->ranks / 1073741824.0);
}

luo_status luo_calibration_file(luo_str *text, const char *dir, const char *name, luo_err *err)
{
    luo_str path = {0};
    luo_str_addf(&path, "%s/%s.yaml", dir, name);
    const luo_status st = path.failed || text->failed
                              ? luo_err_nomem(err)
                              : luo_file_write_own(path.at, text->at, text->len, err);
    luo_str_free(&path);
    luo_str_free(text);
    return st;
}

luo_status luo_calibration_write(const luo_calibration *calibration, luo_err *err)
{
    luo_str profile = {0}, cluster = {0};
    char name[32];
    profile_text(&profile, calibration);
    snprintf(name, sizeof name, "profile-%d", calibration->ranks);
    LUO_TRY(luo_calibration_file(&profile, calibration->dir, name, err));
    cluster_text(&cluster, calibration);
    snprintf(name, sizeof name, "cluster-%d", calibration->ranks);
    return luo_calibration_file(&cluster, calibration->dir, name, err);
}
