/* state.c: parameters and their state between the device and files.
 *
 * While somebody fills or saves them, the cells of a job's pieces lie in host memory as well,
 * always in f32: a checkpoint knows no device and no precision of the working weights. They travel
 * in windows of page-locked memory, two at a time, so that the device copies while the host does;
 * no memory of the device is needed for that, since at a checkpoint there may be none left. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "exec/cuda/job.h"

/* ---- what a job has ---- */

luo_status gpu_state_bind(luo_job *job, luo_err *err)
{
    const luo_bound *bound = &job->bound;
    luo_piece *at = LUO_NEW_N(job->arena, luo_piece, bound->npieces);
    if (!at) return luo_err_nomem(err);
    for (int32_t i = 0; i < bound->npieces; i++) {
        at[i] = bound->piece[i];
        at[i].weight_frame = at[i].state_frame; /* only cells of the piece are moved */
    }
    job->state =
        (luo_state){.device = job->x->device, .n = bound->npieces, .at = at, .elem = sizeof(float)};
    return LUO_OK;
}

static void drop_arrays(luo_job *job)
{
    for (int32_t i = 0; i < job->state.n; i++)
        job->state.at[i].weight = job->state.at[i].m = job->state.at[i].v = NULL;
    free(job->arrays);
    job->arrays = NULL;
}

void gpu_state_unbind(luo_job *job)
{
    drop_arrays(job);
}

luo_state *gpu_state(luo_job *job)
{
    return &job->state;
}

/* Per piece weight, m, v. */
static luo_status make_arrays(luo_job *job, luo_err *err)
{
    int64_t cells = 0;
    for (int32_t i = 0; i < job->state.n; i++)
        if (!job->state.at[i].piece.empty) cells += 3 * job->state.at[i].state_frame.volume;
    job->arrays = malloc((size_t)(cells > 0 ? cells : 1) * sizeof(float));
    if (!job->arrays) return luo_err_nomem(err);
    float *next = job->arrays;
    for (int32_t i = 0; i < job->state.n; i++) {
        luo_piece *piece = &job->state.at[i];
        const int64_t n = piece->state_frame.volume;
        if (piece->piece.empty) continue;
        piece->weight = next;
        piece->m = piece->param->counted ? NULL : next + n; /* no gradient moves it */
        piece->v = piece->param->counted ? NULL : next + 2 * n;
        next += 3 * n;
    }
    return LUO_OK;
}

/* ---- windows ---- */

typedef struct window {    /* neighbouring elements of the device, with segments in it */
    float *device, *cells; /* its first element; where its segments lie one after the other */
    const luo_copy_segment *segment;
    int32_t n;
} window;

typedef struct crane {
    luo_job *job;
    bool up; /* to the host */
    cudaStream_t stream;
    luo_arena *arena; /* segments of one array */
    int64_t room;     /* elements of a window */
    float *pinned[2];
    cudaEvent_t done[2];
    bool busy[2]; /* the device reads or writes it, until done */
    window under_way[2];
    int turn;
    luo_err *err;
} crane;

static int64_t span_of(const window *w)
{
    const luo_copy_segment *last = &w->segment[w->n - 1];
    return last->at + last->n - w->segment[0].at;
}

/* Cells of a window between page-locked memory and the arrays. */
static void carry(const window *w, float *pinned, bool up)
{
    float *cells = w->cells;
    for (int32_t i = 0; i < w->n; i++) {
        float *there = pinned + (w->segment[i].at - w->segment[0].at);
        const size_t bytes = (size_t)w->segment[i].n * sizeof(float);
        memcpy(up ? cells : there, up ? there : cells, bytes);
        cells += w->segment[i].n;
    }
}

static luo_status settle(crane *c, int k)
{
    if (!c->busy[k]) return LUO_OK;
    LUO_TRY(gpu_check(c->err, cudaEventSynchronize(c->done[k]), "moving state"));
    c->busy[k] = false;
    if (c->up) carry(&c->under_way[k], c->pinned[k], true);
    return LUO_OK;
}

/* What lies between the segments of a weight belongs to others, who bring it before it is read. */
static luo_status begin(crane *c, const window *w)
{
    const int k = c->turn;
    const int64_t span = span_of(w);
    const size_t bytes = (size_t)span * sizeof(float);
    LUO_TRY(settle(c, k));
    c->under_way[k] = *w;
    if (!c->up && w->n > 1) memset(c->pinned[k], 0, bytes);
    if (!c->up) carry(w, c->pinned[k], false);
    const cudaError_t code =
        c->up ? cudaMemcpyAsync(c->pinned[k], w->device, bytes, cudaMemcpyDeviceToHost, c->stream)
              : cudaMemcpyAsync(w->device, c->pinned[k], bytes, cudaMemcpyHostToDevice, c->stream);
    LUO_TRY(gpu_check(c->err, code, "moving state"));
    LUO_TRY(gpu_check(c->err, cudaEventRecord(c->done[k], c->stream), "moving state"));
    c->busy[k] = true;
    c->turn = 1 - k;
    return LUO_OK;
}

/* The list again, with no segment longer than a window. */
static luo_status cut(crane *c, const luo_copy_segments *segments, luo_copy_segment **out,
                      int32_t *n)
{
    int64_t most = 0;
    for (int32_t i = 0; i < segments->n; i++) most += segments->at[i].n / c->room + 1;
    luo_copy_segment *at = LUO_NEW_N(c->arena, luo_copy_segment, most);
    if (!at) return luo_err_nomem(c->err);
    *n = 0;
    for (int32_t i = 0; i < segments->n; i++)
        for (int64_t k = 0; k < segments->at[i].n; k += c->room) {
            const int64_t left = segments->at[i].n - k;
            at[(*n)++] =
                (luo_copy_segment){segments->at[i].at + k, left < c->room ? left : c->room};
        }
    *out = at;
    return LUO_OK;
}

/* One array: as many segments a window as fit. */
static luo_status carry_array(crane *c, float *device, float *cells,
                              const luo_copy_segments *segments)
{
    luo_copy_segment *at = NULL;
    int32_t n = 0;
    LUO_TRY(cut(c, segments, &at, &n));
    for (int32_t i = 0; i < n;) {
        window w = {device + at[i].at, cells, &at[i], 1};
        int64_t elements = at[i].n;
        for (; i + w.n < n && at[i + w.n].at + at[i + w.n].n - at[i].at <= c->room; w.n++)
            elements += at[i + w.n].n;
        LUO_TRY(begin(c, &w));
        cells += elements;
        i += w.n;
    }
    return LUO_OK;
}

static luo_status carry_piece(crane *c, int32_t i)
{
    const luo_piece *piece = &c->job->state.at[i], *bound = &c->job->bound.piece[i];
    const gpu_piece there = gpu_piece_at(c->job, i);
    const luo_copy_segment all = {0, piece->state_frame.volume};
    const luo_copy_segments whole = {all.n > 0, &all, all.n};
    luo_copy_segments weight = whole;
    if (there.master == there.weight)
        LUO_TRY(luo_frame_segments(c->arena, &bound->weight_frame, &piece->piece, &weight, c->err));
    LUO_TRY(carry_array(c, there.master, piece->weight, &weight));
    if (piece->param->counted) return LUO_OK;
    LUO_TRY(carry_array(c, there.m, piece->m, &whole));
    return carry_array(c, there.v, piece->v, &whole);
}

static luo_status carry_all(crane *c)
{
    for (int32_t i = 0; i < c->job->state.n; i++)
        if (!c->job->state.at[i].piece.empty) LUO_TRY(carry_piece(c, i));
    for (int k = 0; k < 2; k++, c->turn = 1 - c->turn) LUO_TRY(settle(c, c->turn));
    return LUO_OK;
}

static luo_status open_crane(crane *c)
{
    int64_t most = 1;
    for (int32_t i = 0; i < c->job->state.n; i++)
        if (!c->job->state.at[i].piece.empty && c->job->bound.piece[i].weight_frame.volume > most)
            most = c->job->bound.piece[i].weight_frame.volume;
    c->room = most < c->job->x->window ? most : c->job->x->window;
    c->arena = luo_arena_new(1 << 16);
    if (!c->arena) return luo_err_nomem(c->err);
    for (int k = 0; k < 2; k++) {
        void *p, *unused;
        LUO_TRY(gpu_alloc_mapped(c->room * (int64_t)sizeof(float), "a window for state", &p,
                                 &unused, c->err));
        c->pinned[k] = p;
        LUO_TRY(gpu_check(
            c->err,
            cudaEventCreateWithFlags(&c->done[k], cudaEventDisableTiming | cudaEventBlockingSync),
            "making events"));
    }
    return LUO_OK;
}

static void close_crane(crane *c)
{
    (void)cudaStreamSynchronize(c->stream); /* after an error windows may still be under way */
    for (int k = 0; k < 2; k++) {
        gpu_free_mapped(c->pinned[k]);
        if (c->done[k]) (void)cudaEventDestroy(c->done[k]);
    }
    if (c->arena) luo_arena_free(c->arena);
}

static luo_status carry_state(luo_job *job, bool up, luo_err *err)
{
    crane c = {.job = job, .up = up, .stream = job->x->stream[LUO_STREAM_MOVE], .err = err};
    if (!job->bound.program) return LUO_OK;
    luo_status st = open_crane(&c);
    if (st == LUO_OK) st = carry_all(&c);
    close_crane(&c);
    return st;
}

/* ---- the two ways ---- */

luo_status gpu_fetch(luo_job *job, bool contents, luo_err *err)
{
    luo_status st = job->arrays ? LUO_OK : make_arrays(job, err);
    if (st == LUO_OK && contents) st = carry_state(job, true, err);
    if (st != LUO_OK) drop_arrays(job);
    return st;
}

luo_status gpu_round_state(luo_job *job, luo_err *err)
{
    const cudaStream_t stream = job->x->stream[LUO_STREAM_MOVE];
    if (!job->bound.program || job->x->config.dtype != LUO_BF16) return LUO_OK;
    LUO_TRY(gpu_check(err, gpu_round_weights(stream, job->nupdate, job->update_chunk),
                      "rounding weights"));
    return gpu_check(err, cudaStreamSynchronize(stream), "rounding weights");
}

luo_status gpu_store(luo_job *job, bool contents, luo_err *err)
{
    luo_status st = LUO_OK;
    if (contents && !job->arrays)
        st = luo_err_set(err, LUO_EBUG, "state is stored that was not fetched.");
    else if (contents)
        st = carry_state(job, false, err);
    if (st == LUO_OK && contents) st = gpu_round_state(job, err);
    drop_arrays(job);
    return st;
}

/* ---- files: what all ranks send to the one that writes ---- */

luo_status gpu_gather_open(luo_exec *exec, luo_err *err)
{
    return luo_gatherer_open(MPI_COMM_WORLD, NULL, NULL, &exec->gatherer, err);
}

void gpu_gather_close(luo_exec *exec)
{
    luo_gatherer_close(exec->gatherer);
}

luo_status gpu_gather(luo_exec *exec, luo_gather *out)
{
    *out = luo_gatherer_gather(exec->gatherer);
    return LUO_OK;
}
