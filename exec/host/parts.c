/* parts.c: a step in parts (luo_step_part): gradients of one part after the other are summed where
 * optimizer state lies, which is the same place in all of them. */
#include <string.h>

#include "exec/host/job.h"

struct host_sums {    /* of the gradients of all pieces updated here */
    luo_arena *arena; /* made anew for every step in parts */
    luo_sums of;
    char *at;
};

/* ---- begin ---- */

static luo_status open_sums(luo_exec *exec, const luo_job *job, luo_err *err)
{
    struct host_sums *sums = exec->sums ? exec->sums : LUO_NEW(exec->arena, struct host_sums);
    if (!sums) return luo_err_nomem(err);
    exec->sums = sums;
    if (!sums->arena && !(sums->arena = luo_arena_new(1 << 16))) return luo_err_nomem(err);
    luo_arena_reset(sums->arena, 0);
    sums->of = (luo_sums){0};
    LUO_TRY(luo_sums_copy(sums->arena, &job->b.sums, &sums->of, err));
    sums->at = luo_arena_alloc(sums->arena, (size_t)sums->of.elements * job->x->k->elem);
    return sums->at ? LUO_OK : luo_err_nomem(err);
}

luo_status host_begin_part(luo_job *job, const luo_step_part *part, luo_err *err)
{
    static const luo_sums none = {0};
    if (part->n < 2) return LUO_OK;
    if (part->index == 0) return open_sums(job->x, job, err);
    return luo_sums_check(job->x->sums ? &job->x->sums->of : &none, &job->b.sums, job->x->device,
                          err);
}

int64_t host_sum_bytes(const luo_exec *exec)
{
    return exec->sums ? exec->sums->of.elements * (int64_t)exec->k->elem : 0;
}

void host_free_sums(luo_exec *exec)
{
    if (exec->sums) luo_arena_free(exec->sums->arena);
}

/* ---- sums ---- */

static char *sum_of(const luo_rank *rank, const luo_bound_pair *pair, const luo_cells *cells)
{
    const struct host_sums *sums = rank->x->sums;
    const int64_t at = sums->of.at[pair->piece - rank->job->b.piece] + cells->state;
    return sums->at + at * (int64_t)rank->x->k->elem;
}

static void add(const luo_rank *rank, int64_t n, const char *more, char *sum)
{
    const void *const both[] = {sum, more};
    rank->x->k->add(n, 2, both, sum);
}

void host_keep_gradients(luo_rank *rank, int32_t task)
{
    const int64_t elem = (int64_t)rank->x->k->elem;
    for (int32_t i = 0; i < rank->job->b.npairs; i++) {
        const luo_bound_pair *pair = &rank->job->b.pair[i];
        const char *gradient = host_buf(rank, pair->grad, task);
        for (int32_t k = 0; k < pair->ncells; k++) {
            const luo_cells *cells = &pair->cells[k];
            char *sum = sum_of(rank, pair, cells);
            if (rank->order->part.index == 0)
                memcpy(sum, gradient + cells->grad * elem, (size_t)(cells->n * elem));
            else
                add(rank, cells->n, gradient + cells->grad * elem, sum);
        }
    }
}

void host_take_gradients(luo_rank *rank, int32_t task)
{
    const int64_t elem = (int64_t)rank->x->k->elem;
    const luo_step_part *part = &rank->order->part;
    if (part->index == 0 || !luo_step_part_is_last(part) || rank->summed) return;
    rank->summed = true;
    for (int32_t i = 0; i < rank->job->b.npairs; i++) {
        const luo_bound_pair *pair = &rank->job->b.pair[i];
        char *gradient = host_buf(rank, pair->grad, task);
        for (int32_t k = 0; k < pair->ncells; k++) {
            const luo_cells *cells = &pair->cells[k];
            add(rank, cells->n, sum_of(rank, pair, cells), gradient + cells->grad * elem);
        }
    }
}
