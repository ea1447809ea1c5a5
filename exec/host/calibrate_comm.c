/* calibrate_comm.c: collectives and messages, measured with the executor's own waiting.
 *
 * Alone, a collective finds its memory in caches and its ranks awake; a step does not. So all ranks
 * compute a product and communicate, again and again, and what counts is by how much longer a cycle
 * is than one without communication: cold caches, wake-ups, ranks that are not there at once and
 * what other ranks' work loses are in it, as in a step. Calibration: one product each time;
 * validation: two. */
#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/vec.h"
#include "core/cost/profile.h"
#include "exec/calibrate/calibrate.h"
#include "exec/host/job.h"

enum { ROUNDS = 5, CYCLES_LEAST = 3, WARM = 2, CYCLES_MOST = 20 };
enum { ROUNDS_QUICK = 2, CYCLES_QUICK = 3, WARM_QUICK = 1 };
enum { CYCLES_LARGEST = 2, RANKS_LARGEST = 16 }; /* the largest takes memory and time */
enum { ROWS = 256, COLUMNS = 512, DEPTH = 256, WEIGHTS = 16 }; /* a product: 67 MFLOP */
#define LEAST_S 1e-6 /* what was measured may be less than nothing */

static const int64_t sizes[] = {1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18,
                                1 << 20, 1 << 22, 1 << 24, INT64_C(1) << 26};
enum { SIZES = sizeof sizes / sizeof *sizes };

typedef struct row { /* what is communicated after so many products */
    bool message;
    luo_coll what;
    int n, count, products; /* n: ranks of a group; count: elements; of a message: bytes */
    int64_t bytes;
    double added[ROUNDS];
} row;
enum { GROUP_MOST = 64, ROWS_MOST = 6 * 36 + 12 }; /* groups of 2, 4 .. GROUP_MOST */

typedef struct tester {
    luo_measurer *m;
    luo_exec *x;
    MPI_Comm group; /* of this rank's group; n ranks */
    int n;
    char *a, *b, *c; /* c: where messages are packed */
    float *rows, *weights;
    int turn;
    int *counts, *starts;
    double cores;
    row row[ROWS_MOST];
    int nrow;
    luo_err *err;
} tester;

static luo_status barrier(tester *t, MPI_Comm comm)
{
    MPI_Request q;
    LUO_TRY(host_mpi(t->err, MPI_Ibarrier(comm, &q), "a barrier"));
    return host_wait(t->x, NULL, 1, &q, t->err);
}

/* ---- one collective ---- */

/* Scattered and gathered are the tensors of a bucket, or rows of several sequences: packed before
 * and unpacked after (transfer.c). Reduced ones are neighbours and stay where they are. */
static int begin_collective(tester *t, luo_coll what, int count, MPI_Request *q)
{
    const int part = count / t->n;
    const size_t bytes = (size_t)count * sizeof(float), own = (size_t)part * sizeof(float);
    char *const mine = t->c + (size_t)t->starts[t->m->rank % t->n] * sizeof(float);
    switch (what) {
    case LUO_COLL_AR:
        return MPI_Iallreduce(MPI_IN_PLACE, t->a, count, MPI_FLOAT, MPI_SUM, t->group, q);
    case LUO_COLL_RS:
        memcpy(t->c, t->a, bytes);
        return MPI_Ireduce_scatter(t->c, t->c + bytes, t->counts, MPI_FLOAT, MPI_SUM, t->group, q);
    case LUO_COLL_AG:
        memcpy(mine, t->a, own);
        return MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_FLOAT, t->c, t->counts, t->starts, MPI_FLOAT,
                               t->group, q);
    case LUO_COLL_A2A:
        return MPI_Ialltoall(t->a, part, MPI_FLOAT, t->b, part, MPI_FLOAT, t->group, q);
    case LUO_COLL_BCAST:
    case LUO_COLLS:
        break;
    }
    return MPI_Ibcast(t->a, count, MPI_FLOAT, 0, t->group, q);
}

static int begin(tester *t, const row *w, MPI_Request *q)
{
    const bool sends = t->m->rank % 2 == 0;
    if (!w->message) return begin_collective(t, w->what, w->count, q);
    if (sends) memcpy(t->c, t->a, (size_t)w->count);
    return sends ? MPI_Isend(t->c, w->count, MPI_CHAR, 1, 0, t->group, q)
                 : MPI_Irecv(t->c, w->count, MPI_CHAR, 0, 0, t->group, q);
}

static luo_status communicate(tester *t, const row *w)
{
    MPI_Request q;
    LUO_TRY(host_mpi(t->err, begin(t, w, &q), "a communication"));
    LUO_TRY(host_wait(t->x, NULL, 1, &q, t->err));
    const size_t bytes = (size_t)w->count * (w->message ? 1 : sizeof(float));
    if (w->message && t->m->rank % 2) memcpy(t->b, t->c, bytes);
    if (!w->message && w->what == LUO_COLL_RS)
        memcpy(t->b, t->c + bytes, bytes / (size_t)w->n);
    if (!w->message && w->what == LUO_COLL_AG) memcpy(t->b, t->c, bytes);
    return LUO_OK;
}

/* ---- what it adds ---- */

/* A product as of a layer: other weights each time, and the first cells of `a` are made by it. */
static void work(tester *t)
{
    const float *weights = t->weights + (size_t)(t->turn++ % WEIGHTS) * DEPTH * COLUMNS;
    void *out = t->a;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, ROWS, COLUMNS, DEPTH, 1, t->rows, DEPTH,
                weights, COLUMNS, 0, out, COLUMNS);
}

static double processor_s(void)
{
    struct timespec at;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

/* Seconds that a cycle of products, and what is communicated after them, holds the machine: until
 * the last rank is done. Without: the processor time of the products, since ranks that do not wait
 * for each other do not end together. The same on all ranks. */
static luo_status time_cycles(tester *t, const row *r, bool with, int cycles, double *seconds)
{
    MPI_Request q;
    LUO_TRY(barrier(t, t->x->p2p));
    const double began = with ? host_now() : processor_s();
    for (int i = 0; i < cycles; i++) {
        for (int k = 0; k < r->products; k++) work(t);
        if (with) LUO_TRY(communicate(t, r));
    }
    *seconds = ((with ? host_now() : processor_s()) - began) / cycles;
    MPI_Iallreduce(MPI_IN_PLACE, seconds, 1, MPI_DOUBLE, with ? MPI_MAX : MPI_SUM, t->x->p2p, &q);
    LUO_TRY(host_wait(t->x, NULL, 1, &q, t->err));
    if (!with) *seconds /= fmin(t->cores, t->m->nranks);
    return LUO_OK;
}

/* By how much a cycle is longer with it than without, right after each other: a machine whose speed
 * changes changes both. */
static luo_status time_added(tester *t, const row *r, double *added)
{
    const double budget_s = t->m->quick ? 0.01 : 0.04;
    const bool brief = t->m->quick || r->bytes == sizes[SIZES - 1];
    const int least = t->m->quick ? CYCLES_QUICK : brief ? CYCLES_LARGEST : CYCLES_LEAST;
    double with = 0, without = 0;
    LUO_TRY(time_cycles(t, r, true, brief ? WARM_QUICK : WARM, &with)); /* warms up */
    const double fit = budget_s / fmax(with, 1e-9);
    const int n = fit > CYCLES_MOST ? CYCLES_MOST : fit < least ? least : (int)fit;
    LUO_TRY(time_cycles(t, r, true, n, &with));
    LUO_TRY(time_cycles(t, r, false, n, &without));
    *added = with - without;
    return LUO_OK;
}

/* ---- rows ---- */

/* Calibration after one product each; validation after two, of every other size. Quick: only what
 * the profile needs, of every other size, and of every fourth of what few plans use. */
static void add_rows(tester *t, int n, bool message, luo_coll what)
{
    const bool rare = !message && (what == LUO_COLL_A2A || what == LUO_COLL_BCAST);
    const bool checked = message || what == LUO_COLL_AR;
    for (int i = 0; i < SIZES; i++)
        for (int products = 1; products <= 2; products++) {
            const bool even = i % 2 == 0, largest = i == SIZES - 1;
            const bool few = t->m->quick || rare || message || t->m->nranks > RANKS_LARGEST;
            if (largest && (few || products > 1)) continue;
            if ((!even && (t->m->quick || rare)) || (products > 1 && !(checked && even))) continue;
            if (t->m->quick && (products > 1 || (rare && i % 4 != 0))) continue;
            const int count = message ? (int)sizes[i] : (int)(sizes[i] / 4) / n * n;
            t->row[t->nrow++] = (row){message, what, n, count, products, sizes[i], {0}};
        }
}

static void list_rows(tester *t)
{
    for (int n = 2; n <= t->m->nranks && n <= GROUP_MOST; n *= 2)
        for (int what = 0; t->m->nranks % n == 0 && what < LUO_COLLS; what++)
            add_rows(t, n, false, (luo_coll)what);
    if (t->m->nranks % 2 == 0) add_rows(t, 2, true, LUO_COLL_AR);
}

static luo_status turn_to(tester *t, const row *r)
{
    for (int i = 0; i < r->n; i++) {
        t->counts[i] = r->count / r->n;
        t->starts[i] = i * (r->count / r->n);
    }
    if (t->n == r->n) return LUO_OK;
    if (t->n) MPI_Comm_free(&t->group);
    t->n = r->n;
    return host_mpi(t->err, MPI_Comm_split(t->x->p2p, t->m->rank / t->n, t->m->rank, &t->group),
                    "making a communicator");
}

/* All rows, and all again: a slow phase of the machine meets few rounds of a row. */
static luo_status measure_rows(tester *t)
{
    const int rounds = t->m->quick ? ROUNDS_QUICK : ROUNDS;
    for (int k = 0; k < rounds; k++)
        for (int i = 0; i < t->nrow; i++) {
            LUO_TRY(turn_to(t, &t->row[i]));
            LUO_TRY(time_added(t, &t->row[i], &t->row[i].added[k]));
        }
    if (t->n) MPI_Comm_free(&t->group);
    return LUO_OK;
}

/* Processor time of a member, as core/cost and the simulator have it (ARCHITECTURE.md): so many
 * seconds as it would take if its own threads alone shared the cores. A message is its receiver's.
 */
static double alone_s(const tester *t, row *r)
{
    const int rounds = t->m->quick ? ROUNDS_QUICK : ROUNDS;
    const int threads = r->message ? 1 : r->n, all = r->message ? t->m->nranks / 2 : t->m->nranks;
    qsort(r->added, (size_t)rounds, sizeof *r->added, luo_vec_by_double);
    return fmax(LEAST_S, r->added[rounds / 2]) / fmax(1, all / t->cores) *
           fmax(1, threads / t->cores);
}

static void write_rows(tester *t)
{
    for (int i = 0; i < t->nrow; i++) {
        row *r = &t->row[i];
        const char *role = r->products > 1 ? "validation" : "calibration";
        const double us = 1e6 * alone_s(t, r);
        if (r->message)
            luo_str_addf(&t->m->transfers, "pcie,%lld,%.3f,%s\n", (long long)r->bytes, us, role);
        else
            luo_str_addf(&t->m->collectives, "%s,f32,%d,1,%lld,%.3f,%s\n",
                         luo_coll_name(r->what), r->n, (long long)r->bytes, us, role);
    }
}

/* ---- all ---- */

/* "Open MPI v4.1.4, package .." and "OpenBLAS 0.3.21 NO_LAPACKE ..": what stands before the
 * details. */
/* The libraries that compute and communicate, as a fact. */
static void name_libraries(luo_measurer *measurer)
{
    char mpi[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int n = 0;
    MPI_Get_library_version(mpi, &n);
    mpi[strcspn(mpi, ",\n")] = 0;
    const char *blas = openblas_get_config();
    size_t words = strcspn(blas, " ");
    if (blas[words]) words += 1 + strcspn(blas + words + 1, " ");
    if (measurer->rank == 0)
        luo_str_addf(&measurer->facts, "driver %s and %.*s,1\n", mpi, (int)words, blas);
}

static luo_status measure_all(tester *t)
{
    const size_t most = (size_t)sizes[SIZES - 1];
    t->a = calloc(1, most);
    t->b = calloc(1, most);
    t->c = calloc(2, most); /* also what is received */
    t->rows = calloc(ROWS * DEPTH, sizeof *t->rows);
    t->weights = calloc((size_t)WEIGHTS * DEPTH * COLUMNS, sizeof *t->weights);
    t->counts = calloc((size_t)t->m->nranks, sizeof *t->counts);
    t->starts = calloc((size_t)t->m->nranks, sizeof *t->starts);
    const bool room = t->a && t->b && t->c && t->rows && t->weights;
    if (!room || !t->counts || !t->starts) return luo_err_nomem(t->err);
    for (int i = 0; i < ROWS * DEPTH; i++) t->rows[i] = 1e-3F * (float)(i % 7);
    for (int i = 0; i < WEIGHTS * DEPTH * COLUMNS; i++) t->weights[i] = 1e-3F * (float)(i % 5);
    list_rows(t);
    LUO_TRY(measure_rows(t));
    if (t->m->rank == 0) write_rows(t);
    return LUO_OK;
}

static luo_status measure_comm(luo_measurer *measurer, luo_err *err)
{
    int32_t *device_of = calloc((size_t)measurer->nranks, sizeof *device_of);
    if (!device_of) return luo_err_nomem(err);
    for (int32_t r = 0; r < measurer->nranks; r++) device_of[r] = r;
    const luo_rank_config config = {.rank = measurer->rank,
                                    .nranks = measurer->nranks,
                                    .device_of = device_of,
                                    .dtype = LUO_F32};
    tester t = {.m = measurer, .err = err, .cores = measurer->cores};
    luo_status st = luo_host_executor.open(&config, &t.x, err);
    if (st == LUO_OK) st = measure_all(&t);
    free(t.a);
    free(t.b);
    free(t.c);
    free(t.rows);
    free(t.weights);
    free(t.counts);
    free(t.starts);
    if (t.x) luo_host_executor.close(t.x);
    free(device_of);
    return st;
}

static luo_status measure_ops(luo_measurer *measurer, bool rows, luo_err *err)
{
    name_libraries(measurer);
    return luo_calibrate_ops(measurer, &luo_host_executor, rows, err);
}

const luo_measuring luo_host_measuring = {measure_ops, measure_comm};
