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

luo_status luo_calibration_fit(luo_calibration *c, luo_err *err)
{
    int32_t n = 0;
    const luo_op_time *rows = fit_rows(&c->rows, &n);
    const double rate = copy_rate(&c->rows);
    if (!rows) return luo_err_nomem(err);
    LUO_TRY(luo_cpu_fit_rows(rows, n, LUO_F32, rate > 0 ? rate : 1e9, &c->fit, err));
    if (c->fit.products == 0)
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

static void peaks(luo_str *text, const luo_calibration *c, const char *fitted)
{
    const double f32 = fastest_product(&c->rows, LUO_F32);
    const double f64 = fastest_product(&c->rows, LUO_F64); /* no constant is fitted for it */
    if (c->fit.peak_flops <= f32 * (1 + 1e-9))
        measured(text, "peak_f32_tflop_per_s", f32 * 1e-12, "fastest product", c->rows.ops_file);
    else
        value(text, "peak_f32_tflop_per_s", c->fit.peak_flops * 1e-12, "fitted", fitted);
    if (f64 > 0)
        measured(text, "peak_f64_tflop_per_s", f64 * 1e-12, "fastest product", c->rows.ops_file);
}

/* Memory of this machine, and what each instruction takes beside its kernel. */
static void machine(luo_str *text, const luo_calibration *c)
{
    const double launch_us = luo_measured_fact(&c->rows, "instruction_us", -1);
    const double gib = c->memory_bytes / 1073741824.0;
    if (c->tables[0])
        value(text, "memory_gib", gib, "chosen",
              "of the machine that read the tables, over the ranks; the tables do not say it");
    else
        value(text, "memory_gib", gib, "measured", "memory of the host over the ranks");
    value(text, "reserved_gib", 0, "chosen",
          "what a rank needs beside its tensors is not measured");
    if (launch_us >= 0)
        measured(text, "launch_us", launch_us,
                 "time beside an instruction, in steps of small networks", c->rows.facts_file);
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
        const struct luo_measured_comm *r = &measured->comm[i];
        if (r->coll >= 0 || r->validation) continue;
        if (r->bytes < least) *latency_us = 1e6 * r->seconds;
        if (r->bytes > most) *gbytes_per_s = 1e-9 * r->bytes / r->seconds;
        least = fmin(least, r->bytes);
        most = fmax(most, r->bytes);
    }
    return most > 0;
}

/* Of the links that tables of communication were measured over; the cluster has the same. */
static void links_of_tables(luo_str *text, const luo_calibration *c)
{
    double latency, bandwidth;
    if (c->comm && path_of(&c->rows, &latency, &bandwidth))
        measured(text, "tables_pcie_gbytes_per_s", bandwidth, "largest message between two ranks",
                 c->rows.messages_file);
}

static void values(luo_str *text, const luo_calibration *c)
{
    const luo_cpu_fit *f = &c->fit;
    char fitted[160];
    snprintf(fitted, sizeof fitted,
             "least squares over %d calibration rows of products, mean error %.1f %%", f->products,
             100 * f->error);
    luo_str_add(text, "values:\n");
    peaks(text, c, fitted);
    measured(text, "memory_gbytes_per_s", copy_rate(&c->rows) * 1e-9, "largest copy",
             c->rows.ops_file);
    machine(text, c);
    value(text, "gemm_ratio", f->gemm_ratio, "fitted", fitted);
    value(text, "gemm_depth", f->gemm_depth, "fitted", fitted);
    value(text, "memory_ratio", f->memory_ratio, "fitted", fitted);
    if (f->attention_forward_ratio > 0)
        value(text, "attention_forward_ratio", f->attention_forward_ratio, "fitted",
              "median of the calibration rows of attention");
    if (f->attention_backward_ratio > 0)
        value(text, "attention_backward_ratio", f->attention_backward_ratio, "fitted",
              "median of the calibration rows of attention_dx");
    links_of_tables(text, c);
}

static void tables(luo_str *text, const luo_calibration *c)
{
    static const char *const kinds[] = {LUO_PROFILE_TABLE_LIST(LUO_WORD_TEXT)};
    luo_str_add(text, "tables:\n");
    for (int i = 0; i < 3; i++) {
        if (i > 0 && !c->comm) continue;
        if (c->tables[i])
            luo_str_addf(text, "  - {kind: %s, file: \"%s\"}\n", kinds[i], c->tables[i]);
        else
            luo_str_addf(text, "  - {kind: %s, file: %s-%d.csv}\n", kinds[i], kinds[i],
                         i ? c->ranks : c->ops_of);
    }
}

static void profile_text(luo_str *text, const luo_calibration *c)
{
    char date[32];
    const time_t now = time(NULL);
    struct tm day;
    strftime(date, sizeof date, "%Y-%m-%d", gmtime_r(&now, &day));
    luo_str_addf(text,
                 "# Made by `luoshu calibrate`: %d ranks on %g cores; times of operations while %d "
                 "ranks compute.\n",
                 c->ranks, c->cores, c->ops_of);
    luo_str_addf(text, "schema: luoshu.profile/1\nname: host-%d\nkind: cpu\n", c->ranks);
    values(text, c);
    tables(text, c);
    luo_str_addf(text,
                 "calibrated: {date: \"%s\", device: \"%s, %g cores\", driver: \"%s\", rows: %d, "
                 "validation_rows: %d}\n",
                 date, c->machine, c->cores, c->driver, rows_of(&c->rows, false),
                 rows_of(&c->rows, true));
}

/* ---- the cluster ---- */

static void cluster_text(luo_str *text, const luo_calibration *c)
{
    double latency, bandwidth;
    const bool known = path_of(&c->rows, &latency, &bandwidth);
    luo_str_addf(
        text,
        "# Made by `luoshu calibrate`: %d ranks on this machine, one thread each. base_slowdown: "
        "processor time\n# of a step of the same networks, against %d ranks at once.%s\n"
        "schema: luoshu.cluster/1\nname: host-%d\nnode_groups:\n  - name: host\n    nodes: 1\n"
        "    devices_per_node: %d\n    profile: profile-%d.yaml\n    base_slowdown: %.4f\n"
        "    pcie: {bandwidth_gbytes_per_s: %.9g, latency_us: %.6g, devices_per_switch: %d}\n"
        "    host: {cores: %g, memory_gib: %.6g}\n",
        c->ranks, c->ops_of,
        known ? "" : " Bandwidth and latency of pcie are chosen: nothing was measured.", c->ranks,
        c->ranks, c->ranks, c->slowdown, bandwidth, latency, c->ranks, c->cores,
        c->memory_bytes * c->ranks / 1073741824.0);
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

luo_status luo_calibration_write(const luo_calibration *c, luo_err *err)
{
    luo_str profile = {0}, cluster = {0};
    char name[32];
    profile_text(&profile, c);
    snprintf(name, sizeof name, "profile-%d", c->ranks);
    LUO_TRY(luo_calibration_file(&profile, c->dir, name, err));
    cluster_text(&cluster, c);
    snprintf(name, sizeof name, "cluster-%d", c->ranks);
    return luo_calibration_file(&cluster, c->dir, name, err);
}
