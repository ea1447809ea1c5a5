/* calibrate_ops.c: operations, measured in steps of small networks on one device each. */
#include <math.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/stats.h"
#include "core/base/vec.h"
#include "core/cost/cpu.h"
#include "core/graph/graph.h"
#include "exec/calibrate/calibrate_trial.h"

typedef struct network {
    luo_network of;
    bool shares; /* tells what sharing cores costs */
} network;

/* A tensor-parallel share of a layer is a layer of fewer heads, columns and vocabulary. */
static const network networks[] = {
    {{"h64", 64, 160, 8, 4, 8, 256, 64, 1, 2, false}, false},
    {{"h64.b4", 64, 160, 8, 4, 8, 256, 64, 4, 2, false}, true},
    {{"h64.t2", 64, 80, 4, 2, 8, 128, 64, 2, 2, false}, false},
    {{"h64.t4", 64, 40, 2, 1, 8, 64, 64, 4, 2, false}, false},
    {{"h128", 128, 352, 4, 4, 32, 512, 128, 1, 2, false}, false},
    {{"h128.b4", 128, 352, 4, 4, 32, 512, 128, 4, 2, false}, false},
    {{"h128.t2", 128, 176, 2, 2, 32, 256, 128, 2, 2, false}, false},
    {{"h128.t4", 128, 88, 1, 1, 32, 128, 128, 4, 2, false}, false},
    {{"h256", 256, 704, 8, 8, 32, 2048, 128, 1, 4, false}, false},
    {{"h256.b4", 256, 704, 8, 8, 32, 2048, 128, 4, 4, false}, true},
    {{"h256.t2", 256, 352, 4, 4, 32, 1024, 256, 2, 4, false}, false},
    {{"h256.t4", 256, 176, 2, 2, 32, 512, 256, 2, 4, false}, false},
    {{"h384", 384, 1024, 6, 6, 64, 4096, 256, 1, 2, false}, false},
    {{"h384.t2", 384, 512, 3, 3, 64, 2048, 256, 1, 2, false}, false},
    {{"h512", 512, 1376, 8, 8, 64, 8192, 256, 1, 2, false}, true},
    {{"h512.b2", 512, 1376, 8, 8, 64, 8192, 256, 2, 1, false}, false},
    {{"h512.t2", 512, 688, 4, 4, 64, 4096, 256, 2, 2, false}, false},
    {{"h512.t4", 512, 344, 2, 2, 64, 2048, 256, 2, 2, false}, false},
    {{"h512.s64", 512, 1376, 8, 8, 64, 2048, 64, 1, 2, false}, false},
    {{"h64.g", 64, 256, 4, 4, 16, 256, 64, 2, 2, true}, false},
    {{"h64.g2", 64, 128, 2, 2, 16, 128, 64, 2, 2, true}, false},
    {{"h256.g", 256, 1024, 4, 4, 64, 2048, 128, 2, 4, true}, false},
    {{"h256.g2", 256, 512, 2, 2, 64, 1024, 128, 4, 4, true}, false},
    {{"h512.g", 512, 2048, 8, 8, 64, 4096, 128, 2, 2, true}, false},
};
enum {
    NETWORKS = sizeof networks / sizeof *networks,
    HELD_OUT = 5,
    FIRST_AGAIN = 1,
    ROUNDS = 2,
    SHARING = 5,
    SHARING_QUICK = 3,
    QUICK_HIDDEN = 256,
    ACCIDENT = 3
};

typedef struct sample {
    luo_op_kind kind;
    luo_dtype dtype;
    luo_cpu_size size;
    bool held_out;
    double seconds;
} sample;

typedef struct bench {
    luo_measurer *m;
    const luo_rank_executor *executor;
    sample *at;
    int32_t n, cap;
    double *beside; /* seconds per instruction beside the kernels, one value a step */
    int32_t nbeside;
    luo_err *err;
} bench;

/* ---- samples ---- */

static luo_status add_sample(bench *b, sample s)
{
    if (!LUO_VEC_ROOM(b->at, b->n, b->cap)) return luo_err_nomem(b->err);
    b->at[b->n++] = s;
    return LUO_OK;
}

static luo_status harvest(bench *b, const luo_trial_run *trial, const luo_step_report *report,
                          bool held_out)
{
    const luo_role *role = &trial->set->roles[luo_programs_find(trial->set, b->m->rank)->role];
    for (int32_t i = 0; i < report->nrecords; i++) {
        const luo_instr *in = &role->instr[report->records[i].instr];
        const luo_op_kind kind = trial->set->ops[in->op].kind;
        const sample s = {kind, trial->config.dtype, luo_cpu_size_of(role, in, kind), held_out,
                          report->records[i].end_s - report->records[i].start_s};
        if (s.kind < LUO_OP_KINDS && s.size.m > 0) LUO_TRY(add_sample(b, s));
    }
    return LUO_OK;
}

static luo_status keep_beside(bench *b, const luo_step_report *report)
{
    double inside = 0;
    double *grown = realloc(b->beside, (size_t)(b->nbeside + 1) * sizeof *grown);
    if (!grown) return luo_err_nomem(b->err);
    b->beside = grown;
    for (int32_t i = 0; i < report->nrecords; i++)
        inside += report->records[i].end_s - report->records[i].start_s;
    b->beside[b->nbeside++] = (report->end_s - report->start_s - inside) / report->nrecords;
    return LUO_OK;
}

/* ---- running ---- */

enum { STEPS_LEAST = 3, STEPS_MOST = 12 };

/* Steps that all ranks make: as the slowest wants after the first one, which warms up. */
static int32_t steps_of(const bench *b, double first_s)
{
    double slowest = first_s;
    MPI_Allreduce(&first_s, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    const double want = (b->m->quick ? 0.1 : 0.15) / fmax(slowest, 1e-6);
    return want < STEPS_LEAST ? STEPS_LEAST : want > STEPS_MOST ? STEPS_MOST : (int32_t)want;
}

/* *compute_s: processor time of a step. */
static luo_status run_trial(bench *b, const luo_network *w, bool rows, bool held_out,
                            luo_trial_run *trial, double *compute_s)
{
    luo_step_report report;
    double spent[STEPS_MOST];
    LUO_TRY(luo_trial_run_step(trial, 0, true, &report, b->err));
    const int32_t n = steps_of(b, report.end_s - report.start_s);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int32_t i = 0; i < n; i++) {
        LUO_TRY(luo_trial_run_step(trial, i + 1, true, &report, b->err));
        spent[i] = report.compute_s;
        if (rows) LUO_TRY(harvest(b, trial, &report, held_out));
        if (rows && w->tokens <= 64) LUO_TRY(keep_beside(b, &report));
    }
    *compute_s = luo_stats_median(spent, n);
    return LUO_OK;
}

/* fact: under which its processor time is told; NULL: not at all. */
static luo_status measure(bench *b, int32_t i, luo_dtype dtype, bool rows, const char *fact)
{
    const luo_network *w = &networks[i].of;
    const bool held_out = i % HELD_OUT == HELD_OUT - 1;
    luo_trial_run trial;
    double compute_s = 0;
    luo_status st = luo_trial_run_open(b->m, b->executor, w, dtype, &trial, b->err);
    if (st == LUO_OK) st = run_trial(b, w, rows, held_out, &trial, &compute_s);
    if (st == LUO_OK && fact && b->m->rank == 0)
        luo_str_addf(&b->m->facts, "%s %s %s,%.9f\n", fact, luo_dtype_name(dtype), w->name,
                     compute_s);
    luo_trial_run_close(&trial);
    MPI_Barrier(MPI_COMM_WORLD);
    return st;
}

/* ---- sharing cores ---- */

/* Without taking a core from those that compute. */
static void wait_asleep(void)
{
    MPI_Request q;
    MPI_Ibarrier(MPI_COMM_WORLD, &q);
    for (int done = 0;;) {
        MPI_Test(&q, &done, MPI_STATUS_IGNORE);
        if (done) return;
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
}

static luo_status step_of_first(bench *b, luo_trial_run *trial, int32_t ranks, int64_t step,
                                double *compute_s)
{
    luo_step_report report = {0};
    wait_asleep();
    const luo_status st =
        b->m->rank < ranks ? luo_trial_run_step(trial, step, true, &report, b->err) : LUO_OK;
    *compute_s = report.compute_s;
    wait_asleep();
    return st;
}

/* Processor time of a step while all ranks make it, over that while only as many do as have cores:
 * in turns, so that the machine's speed does not matter. */
static luo_status measure_sharing(bench *b, int32_t i)
{
    const int n = b->m->quick ? SHARING_QUICK : SHARING;
    double ratio[SHARING];
    luo_trial_run trial;
    luo_status st = luo_trial_run_open(b->m, b->executor, &networks[i].of, LUO_F32, &trial, b->err);
    for (int k = -1; st == LUO_OK && k < n; k++) { /* -1 warms up */
        double few = 1, all = 1;
        if (k >= 0) st = step_of_first(b, &trial, b->m->cores, k + 1, &few);
        if (st == LUO_OK) st = step_of_first(b, &trial, b->m->nranks, k + 1, &all);
        if (k >= 0) ratio[k] = all / few;
    }
    if (st == LUO_OK && b->m->rank == 0)
        luo_str_addf(&b->m->facts, "sharing %s,%.6f\n", networks[i].of.name,
                     luo_stats_median(ratio, n));
    luo_trial_run_close(&trial);
    return st;
}

/* ---- rows ---- */

static int by_size(const void *a, const void *b)
{
    const sample *x = a, *y = b;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    if (x->dtype != y->dtype) return x->dtype < y->dtype ? -1 : 1;
    if (x->size.m != y->size.m) return x->size.m < y->size.m ? -1 : 1;
    if (x->size.n != y->size.n) return x->size.n < y->size.n ? -1 : 1;
    if (x->size.k != y->size.k) return x->size.k < y->size.k ? -1 : 1;
    return (x->seconds > y->seconds) - (x->seconds < y->seconds);
}

static bool same(const sample *x, const sample *y)
{
    return x->kind == y->kind && x->dtype == y->dtype && x->size.m == y->size.m &&
           x->size.n == y->size.n && x->size.k == y->size.k;
}

/* A step is a sum of what its instructions take, lucky or not, so the mean: medians would leave out
 * the slow ones, of which every step has some. One of many times the median is an accident of the
 * machine that most steps do not see; it counts as ACCIDENT medians. v is in order. */
static double usual_s(const sample *v, int32_t n)
{
    const double most = ACCIDENT * v[n / 2].seconds;
    double sum = 0;
    for (int32_t i = 0; i < n; i++) sum += fmin(v[i].seconds, most);
    return sum / n;
}

/* A size that any network shows which is not held out is calibration. */
static void write_rows(bench *b)
{
    if (b->n > 1) qsort(b->at, (size_t)b->n, sizeof *b->at, by_size);
    for (int32_t i = 0, n; i < b->n; i += n) {
        bool held_out = true;
        for (n = 0; i + n < b->n && same(&b->at[i], &b->at[i + n]); n++)
            held_out = held_out && b->at[i + n].held_out;
        const sample *s = &b->at[i];
        luo_str_addf(&b->m->ops, "%s,%s,%lld,%lld,%lld,%.4f,%d,%s\n", luo_op_kind_name(s->kind),
                     luo_dtype_name(s->dtype), (long long)s->size.m, (long long)s->size.n,
                     (long long)s->size.k, 1e6 * usual_s(s, n), n,
                     held_out ? "validation" : "calibration");
    }
}

/* Processor times of networks are of the first round. */
static luo_status measure_round(bench *b, int round)
{
    static const luo_dtype dtypes[] = {LUO_F32, LUO_F64};
    for (int d = 0; d < 2; d++)
        for (int32_t i = 0; i < NETWORKS && i < b->m->networks; i++) {
            const bool told = i == FIRST_AGAIN && d == 0 && round == 0;
            const bool skipped = i % 2 == 1 && (b->m->quick || d == 1);
            if (b->m->quick && (d == 1 || networks[i].of.hidden > QUICK_HIDDEN)) continue;
            if (told || !skipped)
                LUO_TRY(measure(b, i, dtypes[d], true, told ? "compute_s" : NULL));
        }
    return LUO_OK;
}

/* Every network is met again some time later, so that a slow phase of the machine is not the whole
 * of what is known of it. */
static luo_status measure_all(bench *b, bool rows)
{
    for (int32_t i = 0; b->m->nranks > b->m->cores && i < NETWORKS && i < b->m->networks; i++)
        if (networks[i].shares && !(b->m->quick && networks[i].of.hidden > QUICK_HIDDEN))
            LUO_TRY(measure_sharing(b, i));
    for (int round = 0; rows && round < ROUNDS; round++) LUO_TRY(measure_round(b, round));
    if (!rows) return LUO_OK;
    LUO_TRY(luo_calibrate_copies(b->m, b->err));
    if (b->m->networks <= FIRST_AGAIN) return LUO_OK;
    return measure(b, FIRST_AGAIN, LUO_F32, false, "again_s"); /* has the machine changed? */
}

luo_status luo_calibrate_ops(luo_measurer *measurer, const luo_rank_executor *executor, bool rows,
                             luo_err *err)
{
    bench b = {.m = measurer, .executor = executor, .err = err};
    const luo_status st = measure_all(&b, rows);
    if (st == LUO_OK && measurer->rank == 0) {
        write_rows(&b);
        if (b.nbeside)
            luo_str_addf(&measurer->facts, "instruction_us,%.4f\n",
                         1e6 * luo_stats_median(b.beside, b.nbeside));
    }
    free(b.at);
    free(b.beside);
    return st;
}
