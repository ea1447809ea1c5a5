#include "cli/calibrate/calibrate_foreign.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/calibrate/foreign_job.h"
#include "core/base/utf8.h"
#include "core/cost/collective.h"
#include "core/io/files.h"
#include "core/io/result/csv.h"

static const char *role_of(int32_t i)
{
    return i % 4 == 3 ? "validation" : "calibration";
}

luo_status foreign_bad(foreign_job *job, const char *what)
{
    return luo_cli_error(job->cli, LUO_EINPUT, "`%s`: %s", job->src->name, what);
}

static luo_status write_rows(foreign_job *job, const char *dir, const char *name, const char *head)
{
    luo_str text = {0};
    luo_err err = {0};
    const char *path = luo_arena_printf(job->cli->arena, "%s/%s", dir, name);
    if (job->n == 0) return foreign_bad(job, "no row of it can be used.");
    char from[LUO_ERR_PATH]; /* on one line */
    luo_utf8_show(from, sizeof from, job->src->name);
    luo_str_addf(&text, "# From %s.\n%s\n", from, head);
    luo_str_addn(&text, job->rows.at, job->rows.len);
    luo_status st = path && !text.failed && !job->rows.failed ? luo_file_make_dir(dir, &err)
                                                              : luo_err_nomem(&err);
    if (st == LUO_OK) st = luo_file_write_own(path, text.at, text.len, &err);
    luo_str_free(&text);
    if (st != LUO_OK) return luo_cli_fail(job->cli, st, &err);
    fprintf(luo_cli_out(job->cli), "%s: %d rows of %s", path, (int)job->n, job->src->name);
    if (job->left) fprintf(luo_cli_out(job->cli), ", %d left out", (int)job->left);
    fputc('\n', luo_cli_out(job->cli));
    return LUO_OK;
}

/* ---- efficiencies of ops: "b=1, m=4096, k=8192, n=10240, .." ---- */

/* The number behind "KEY=" in the shape; 0: none. */
static double part_of(const char *shape, const char *key)
{
    const size_t n = strlen(key);
    for (const char *at = shape; at; at = strchr(at, ',')) {
        at += strspn(at, ", ");
        if (strncmp(at, key, n) == 0 && at[n] == '=') return strtod(at + n + 1, NULL);
    }
    return 0;
}

static void put_op(foreign_job *job, const char *op, double m, double n, double k, double seconds)
{
    luo_str_addf(&job->rows, "%s,bf16,%.0f,%.0f,%.0f,%.6f,%s\n", op, m, n, k, 1e6 * seconds,
                 role_of(job->n));
    job->n++;
}

/* Rates count the whole square of attention, 2.5 times as much backward, although it was causal
 * (MooreThreads/SimuMax simu_tools, public code). */
static bool take_op(foreign_job *job, const char *op, const char *shape, double rate)
{
    const double m = part_of(shape, "m"), n = part_of(shape, "n"), k = part_of(shape, "k");
    const double s = part_of(shape, "seq_len"), heads = part_of(shape, "head_num");
    const double d = part_of(shape, "qk_head_dim");
    if (strcmp(op, "matmul") == 0) {
        if (part_of(shape, "b") != 1 || m < 1 || n < 1 || k < 1) return false;
        put_op(job, "gemm", m, n, k, 2 * m * n * k / rate);
        return true;
    }
    const bool backward = strcmp(op, "sdp_bwd") == 0;
    if ((!backward && strcmp(op, "sdp_fwd") != 0) || part_of(shape, "batch") != 1 || s < 1 ||
        heads < 1 || d < 1 || part_of(shape, "v_head_dim") != d)
        return false;
    put_op(job, backward ? "attention_backward" : "attention_forward", s, heads, d,
           (backward ? 2.5 : 1) * 4 * heads * d * s * s / rate);
    return true;
}

static luo_status read_ops(foreign_job *job)
{
    enum { GPU, OP, SHAPE, PEAK_TFLOPS, EFFICIENCY, COLUMNS };
    static const luo_csv_column columns[COLUMNS] = {
        [GPU] = {"gpu", LUO_CSV_TEXT, true, LUO_FROM(0), NULL, false, NULL},
        [OP] = {"op", LUO_CSV_TEXT, true, LUO_FROM(0), NULL, false, NULL},
        [SHAPE] = {"shape", LUO_CSV_TEXT, true, LUO_FROM(0), NULL, false, NULL},
        [PEAK_TFLOPS] = {"peak_tflops", LUO_CSV_NUMBER, true, LUO_WITHIN(1e-6, 1e6), NULL, false,
                         NULL},
        [EFFICIENCY] = {"efficiency", LUO_CSV_NUMBER, true, LUO_WITHIN(1e-6, 2), NULL, false,
                        NULL}};
    luo_csv_cell cell[COLUMNS];
    luo_csv *csv = luo_csv_open(job->src, columns, COLUMNS, &job->cli->diags);
    while (luo_csv_next(csv, cell))
        job->left += !take_op(job, cell[OP].text, cell[SHAPE].text,
                              1e12 * cell[PEAK_TFLOPS].number * cell[EFFICIENCY].number);
    return luo_csv_close(csv);
}

/* ---- all-reduces in ns ---- */

void foreign_put_collective(foreign_job *job, luo_coll op, const char *dtype, int32_t devices,
                            int32_t nodes, double bytes, double seconds, double printed)
{
    const double volume = luo_cost_volume((int)op, devices);
    double busbw = 1e-9 * volume * bytes / seconds;
    if (printed >= 1 && fabs(printed / busbw - 1) > 0.02) {
        if (!job->odd++)
            luo_cli_note(job->cli, LUO_WARNING,
                         "`%s`: %.6g GB/s of bus are printed, and the time of %.0f bytes on %d "
                         "ranks is %.6g; what is printed is taken.",
                         job->src->name, printed, bytes, (int)devices, busbw);
        busbw = printed;
        seconds = 1e-9 * volume * bytes / printed;
    }
    luo_str_addf(&job->rows, "%s,%s,%d,%d,%.0f,%.4f,%.6g,%s\n", luo_coll_name(op), dtype,
                 (int)devices, (int)nodes, bytes, 1e6 * seconds, busbw, role_of(job->n));
    job->n++;
}

bool foreign_collective_of(const char *name, luo_coll *op)
{
    for (int i = 0; i < LUO_COLLS; i++) {
        *op = (luo_coll)i;
        if (strcmp(luo_coll_name(*op), name) == 0) return true;
    }
    return false;
}

static luo_status read_ns(foreign_job *job)
{
    enum { GPUS, OP, BYTES, TIME_NS, GPU, TIME_IN_PLACE_NS, COLUMNS };
    static const luo_csv_column columns[COLUMNS] = {
        [GPUS] = {"gpus", LUO_CSV_WHOLE, true, LUO_WITHIN(2, 131072), NULL, false, NULL},
        [OP] = {"op", LUO_CSV_TEXT, true, LUO_FROM(0), NULL, false, NULL},
        [BYTES] = {"bytes", LUO_CSV_NUMBER, true, LUO_WITHIN(1, 1e15), NULL, false, NULL},
        [TIME_NS] = {"time_out_of_place_ns", LUO_CSV_NUMBER, true, LUO_WITHIN(1, 1e18), NULL,
                     false, NULL},
        [GPU] = {"gpu", LUO_CSV_TEXT, false, LUO_FROM(0), NULL, false, NULL},
        [TIME_IN_PLACE_NS] = {"time_in_place_ns", LUO_CSV_TEXT, false, LUO_FROM(0), NULL, false,
                              NULL}};
    luo_csv_cell cell[COLUMNS];
    luo_coll op;
    luo_csv *csv = luo_csv_open(job->src, columns, COLUMNS, &job->cli->diags);
    while (luo_csv_next(csv, cell)) {
        if (foreign_collective_of(cell[OP].text, &op))
            foreign_put_collective(job, op, "f32", (int32_t)cell[GPUS].whole, 1, cell[BYTES].number,
                                   1e-9 * cell[TIME_NS].number, 0);
        else
            job->left++;
    }
    return luo_csv_close(csv);
}

/* ---- which is it ---- */

typedef enum format {
    FORMAT_OURS,
    FORMAT_OPS,
    FORMAT_NS,
    FORMAT_NCCL,
    FORMAT_NCCL_JSON
} format;

/* The first line that is no comment. */
static const char *header_of(const luo_source *src)
{
    const char *at = src->text;
    while (*at == '#') at += strcspn(at, "\n") + (at[strcspn(at, "\n")] == '\n');
    return at;
}

static format format_of(const luo_source *src)
{
    const char *at = header_of(src);
    const size_t n = strcspn(at, "\r\n");
    if (strncmp(at, "gpu,op,shape,peak_tflops,efficiency", 35) == 0) return FORMAT_OPS;
    for (const char *p = at; p < at + n; p += strcspn(p, ",\r\n") + 1)
        if (strncmp(p, "time_out_of_place_ns", 20) == 0) return FORMAT_NS;
    if (foreign_nccl_is_json(src)) return FORMAT_NCCL_JSON;
    return strstr(src->text, "out-of-place") && strstr(src->text, "busbw") ? FORMAT_NCCL
                                                                           : FORMAT_OURS;
}

bool luo_foreign_is(luo_cli *cli, const char *path)
{
    luo_source src;
    luo_err err;
    if (luo_source_read(cli->arena, path, &src, &err) != LUO_OK) return false; /* told later */
    return format_of(&src) != FORMAT_OURS;
}

luo_status luo_foreign_table(luo_cli *cli, const char *dir, const char *path, const char **name)
{
    static const char ops[] = "op,dtype,m,n,k,time_us,role";
    static const char collectives[] =
        "collective,dtype,devices,nodes,size_bytes,time_us,busbw_gbytes_per_s,role";
    luo_source src;
    luo_err err = {0};
    *name = NULL;
    luo_status st = luo_source_read(cli->arena, path, &src, &err);
    if (st != LUO_OK) return luo_cli_fail(cli, st, &err);
    foreign_job job = {.cli = cli, .src = &src};
    const format f = format_of(&src);
    if (f == FORMAT_OURS) return LUO_OK;
    st = f == FORMAT_OPS    ? read_ops(&job)
         : f == FORMAT_NS   ? read_ns(&job)
         : f == FORMAT_NCCL ? foreign_read_nccl(&job)
                            : foreign_read_nccl_json(&job);
    const char *made = f == FORMAT_OPS ? "op_times.csv" : "collective_times.csv";
    if (st == LUO_OK) st = write_rows(&job, dir, made, f == FORMAT_OPS ? ops : collectives);
    luo_str_free(&job.rows);
    if (st == LUO_OK) *name = made;
    return st;
}
