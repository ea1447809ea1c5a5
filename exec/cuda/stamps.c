/* stamps.c: where the streams are, told by stamps in mapped memory: while a step runs for
 * those who ask where this rank is, and afterwards for its report. */
#include <stdlib.h>
#include <string.h>

#include "exec/cuda/job.h"

/* Every wait of the compute stream leaves a communication behind, and makes two marks at most: one
 * for itself, one for what comes after it. */
luo_status gpu_stamps_open(luo_job *job, int64_t runs, int64_t communications, luo_err *err)
{
    gpu_stamps *stamps = &job->stamps;
    const int64_t marks = 2 * communications + runs + job->bound.program->ntask + 2;
    const int64_t slots = marks + 2 * runs;
    void *slot, *there;
    if (slots > INT32_MAX / 4)
        return luo_err_set(err, LUO_E2BIG, "a step has over 2^29 instructions and waits.");
    stamps->cap_marks = (int32_t)marks;
    stamps->cap_spans = (int32_t)runs;
    for (int i = 0; i < 1 + GPU_GRAPHS; i++) {
        stamps->list[i].mark = LUO_NEW_N(job->arena, gpu_mark, marks);
        stamps->list[i].span = LUO_NEW_N(job->arena, gpu_span, runs);
        if (!stamps->list[i].mark || !stamps->list[i].span) return luo_err_nomem(err);
    }
    LUO_TRY(gpu_alloc_mapped(slots * (int64_t)sizeof(uint64_t), "stamps of a step", &slot, &there,
                             err));
    stamps->slot = slot;
    stamps->device_slot = there;
    stamps->now = &stamps->list[0];
    return LUO_OK;
}

void gpu_stamps_close(luo_job *job)
{
    gpu_free_mapped(job->stamps.slot);
}

static uint64_t *span_slot(const gpu_stamps *stamps, uint64_t *slots, int32_t span)
{
    return slots + stamps->cap_marks + 2 * (int64_t)span;
}

/* The watchdog must not look at the last step's marks and tell of them in this one. */
void gpu_stamps_begin(luo_job *job, const gpu_graph *graph)
{
    gpu_stamps *stamps = &job->stamps;
    pthread_mutex_lock(&job->x->watched);
    memset(stamps->slot, 0, (size_t)stamps->now->nmarks * sizeof *stamps->slot);
    memset(span_slot(stamps, stamps->slot, 0), 0,
           2 * (size_t)stamps->now->nspans * sizeof *stamps->slot);
    atomic_store(&stamps->passed, 0);
    stamps->now = &stamps->list[graph ? 1 + (graph - job->graph) : 0];
    pthread_mutex_unlock(&job->x->watched);
}

void gpu_stamps_forget(luo_job *job)
{
    job->stamps.now->nmarks = 0;
    job->stamps.now->nspans = 0;
}

luo_status gpu_mark_now(luo_rank *rank, gpu_mark_kind kind, int32_t task, int32_t instr)
{
    gpu_stamps *stamps = &rank->job->stamps;
    const int32_t n = stamps->now->nmarks;
    const gpu_mark *last = n ? &stamps->now->mark[n - 1] : NULL;
    if (last && last->kind == kind && last->task == task &&
        (kind != GPU_MARK_WAIT || last->instr == instr))
        return LUO_OK;
    if (n == stamps->cap_marks)
        return luo_err_set(&rank->err, LUO_EBUG, "a step has too many waits.");
    stamps->now->mark[n] = (gpu_mark){kind, task, instr};
    atomic_store_explicit(&stamps->now->nmarks, n + 1, memory_order_release);
    return gpu_check(&rank->err,
                     gpu_stamp(rank->x->stream[LUO_STREAM_COMPUTE], stamps->device_slot + n),
                     "a stamp");
}

luo_status gpu_span_begin(luo_rank *rank, cudaStream_t stream, int32_t task, int32_t instr,
                          int32_t *span)
{
    gpu_stamps *stamps = &rank->job->stamps;
    if (stamps->now->nspans == stamps->cap_spans)
        return luo_err_set(&rank->err, LUO_EBUG, "a step has too many instructions.");
    *span = stamps->now->nspans++;
    stamps->now->span[*span] = (gpu_span){task, instr};
    return gpu_check(&rank->err, gpu_stamp(stream, span_slot(stamps, stamps->device_slot, *span)),
                     "a stamp");
}

luo_status gpu_span_end(luo_rank *rank, cudaStream_t stream, int32_t span)
{
    const gpu_stamps *stamps = &rank->job->stamps;
    return gpu_check(
        &rank->err, gpu_stamp(stream, span_slot(stamps, stamps->device_slot, span) + 1), "a stamp");
}

uint64_t gpu_mark_stamp(const gpu_stamps *stamps, int32_t mark)
{
    return ((const volatile uint64_t *)stamps->slot)[mark];
}

uint64_t gpu_span_stamp(const gpu_stamps *stamps, int32_t span, bool end)
{
    return ((const volatile uint64_t *)span_slot(stamps, stamps->slot, span))[end];
}

/* ---- where this rank is ---- */

void gpu_stamps_look(luo_job *job)
{
    gpu_stamps *stamps = &job->stamps;
    luo_progress_report *report = job->x->config.where;
    const int32_t was = atomic_load(&stamps->passed);
    const int32_t nmarks = atomic_load_explicit(&stamps->now->nmarks, memory_order_acquire);
    int32_t n = was;
    while (n < nmarks && gpu_mark_stamp(stamps, n) != 0) n++;
    if (n == was) return;
    atomic_store(&stamps->passed, n);
    atomic_fetch_add(&job->x->progress, n - was);
    if (!report) return;
    const gpu_mark *mark = &stamps->now->mark[n - 1];
    atomic_store(&report->task, mark->task);
    atomic_store(&report->instr, mark->instr);
    atomic_store(&report->waiting, mark->kind == GPU_MARK_WAIT);
    atomic_fetch_add(&report->done, n - was);
}
