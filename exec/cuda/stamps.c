/* stamps.c: where the streams are, told by stamps in mapped memory: while a step runs for
 * those who ask where this rank is, and afterwards for its report. */
#include <stdlib.h>
#include <string.h>

#include "exec/cuda/job.h"

/* Every wait of the compute stream leaves a communication behind, and makes two marks at most: one
 * for itself, one for what comes after it. */
luo_status gpu_stamps_open(luo_job *j, int64_t runs, int64_t communications, luo_err *err)
{
    gpu_stamps *s = &j->stamps;
    const int64_t marks = 2 * communications + runs + j->bound.program->ntask + 2;
    const int64_t slots = marks + 2 * runs;
    void *slot, *there;
    if (slots > INT32_MAX / 4)
        return luo_err_set(err, LUO_E2BIG, "a step has over 2^29 instructions and waits.");
    s->cap_marks = (int32_t)marks;
    s->cap_spans = (int32_t)runs;
    for (int i = 0; i < 1 + GPU_GRAPHS; i++) {
        s->list[i].mark = LUO_NEW_N(j->arena, gpu_mark, marks);
        s->list[i].span = LUO_NEW_N(j->arena, gpu_span, runs);
        if (!s->list[i].mark || !s->list[i].span) return luo_err_nomem(err);
    }
    LUO_TRY(gpu_alloc_mapped(slots * (int64_t)sizeof(uint64_t), "stamps of a step", &slot, &there,
                             err));
    s->slot = slot;
    s->device_slot = there;
    s->now = &s->list[0];
    return LUO_OK;
}

void gpu_stamps_close(luo_job *j)
{
    gpu_free_mapped(j->stamps.slot);
}

static uint64_t *span_slot(const gpu_stamps *s, uint64_t *slots, int32_t span)
{
    return slots + s->cap_marks + 2 * (int64_t)span;
}

/* The watchdog must not look at the last step's marks and tell of them in this one. */
void gpu_stamps_begin(luo_job *j, const gpu_graph *graph)
{
    gpu_stamps *s = &j->stamps;
    pthread_mutex_lock(&j->x->watched);
    memset(s->slot, 0, (size_t)s->now->nmarks * sizeof *s->slot);
    memset(span_slot(s, s->slot, 0), 0, 2 * (size_t)s->now->nspans * sizeof *s->slot);
    atomic_store(&s->passed, 0);
    s->now = &s->list[graph ? 1 + (graph - j->graph) : 0];
    pthread_mutex_unlock(&j->x->watched);
}

void gpu_stamps_forget(luo_job *j)
{
    j->stamps.now->nmarks = 0;
    j->stamps.now->nspans = 0;
}

luo_status gpu_mark_now(luo_rank *r, gpu_mark_kind kind, int32_t task, int32_t instr)
{
    gpu_stamps *s = &r->job->stamps;
    const int32_t n = s->now->nmarks;
    const gpu_mark *last = n ? &s->now->mark[n - 1] : NULL;
    if (last && last->kind == kind && last->task == task &&
        (kind != GPU_MARK_WAIT || last->instr == instr))
        return LUO_OK;
    if (n == s->cap_marks) return luo_err_set(&r->err, LUO_EBUG, "a step has too many waits.");
    s->now->mark[n] = (gpu_mark){kind, task, instr};
    atomic_store_explicit(&s->now->nmarks, n + 1, memory_order_release);
    return gpu_check(&r->err, gpu_stamp(r->x->stream[LUO_STREAM_COMPUTE], s->device_slot + n),
                     "a stamp");
}

luo_status gpu_span_begin(luo_rank *r, cudaStream_t stream, int32_t task, int32_t instr,
                          int32_t *span)
{
    gpu_stamps *s = &r->job->stamps;
    if (s->now->nspans == s->cap_spans)
        return luo_err_set(&r->err, LUO_EBUG, "a step has too many instructions.");
    *span = s->now->nspans++;
    s->now->span[*span] = (gpu_span){task, instr};
    return gpu_check(&r->err, gpu_stamp(stream, span_slot(s, s->device_slot, *span)), "a stamp");
}

luo_status gpu_span_end(luo_rank *r, cudaStream_t stream, int32_t span)
{
    const gpu_stamps *s = &r->job->stamps;
    return gpu_check(&r->err, gpu_stamp(stream, span_slot(s, s->device_slot, span) + 1), "a stamp");
}

uint64_t gpu_mark_stamp(const gpu_stamps *s, int32_t mark)
{
    return ((const volatile uint64_t *)s->slot)[mark];
}

uint64_t gpu_span_stamp(const gpu_stamps *s, int32_t span, bool end)
{
    return ((const volatile uint64_t *)span_slot(s, s->slot, span))[end];
}

/* ---- where this rank is ---- */

void gpu_stamps_look(luo_job *j)
{
    gpu_stamps *s = &j->stamps;
    luo_progress_report *w = j->x->config.where;
    const int32_t was = atomic_load(&s->passed);
    const int32_t nmarks = atomic_load_explicit(&s->now->nmarks, memory_order_acquire);
    int32_t n = was;
    while (n < nmarks && gpu_mark_stamp(s, n) != 0) n++;
    if (n == was) return;
    atomic_store(&s->passed, n);
    atomic_fetch_add(&j->x->progress, n - was);
    if (!w) return;
    const gpu_mark *m = &s->now->mark[n - 1];
    atomic_store(&w->task, m->task);
    atomic_store(&w->instr, m->instr);
    atomic_store(&w->waiting, m->kind == GPU_MARK_WAIT);
    atomic_fetch_add(&w->done, n - was);
}
