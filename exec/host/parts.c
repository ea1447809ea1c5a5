/* parts.c: a step in parts (luo_step_part): gradients of one part after the other are summed where
 * optimizer state lies, which is the same place in all of them. */
#include <string.h>

#include "exec/host/job.h"

typedef struct host_sum { /* of the gradients of a piece, in the frame of its state */
    luo_region region;
    char *at; /* NULL: no part so far updates it here */
} host_sum;

struct host_sums {
    luo_arena *arena; /* made anew for every step in parts */
    int64_t bytes;    /* of all sums */
    int32_t n;        /* parameters of the model */
    host_sum *of;
};

static host_sum *sum_of(const luo_rank *rank, const luo_bound_pair *pair)
{
    return &rank->x->sums->of[pair->piece - rank->job->b.piece];
}

/* ---- begin ---- */

static luo_status copy_region(luo_arena *arena, const luo_region *from, luo_region *out,
                              luo_err *err)
{
    *out = *from;
    for (int32_t d = 0; d < from->rank; d++) {
        luo_span *at = LUO_NEW_N(arena, luo_span, from->dim[d].n);
        if (!at) return luo_err_nomem(err);
        memcpy(at, from->dim[d].at, (size_t)from->dim[d].n * sizeof *at);
        out->dim[d].at = at;
    }
    return LUO_OK;
}

static luo_status open_sums(luo_exec *exec, const luo_job *job, luo_err *err)
{
    struct host_sums *sums = exec->sums ? exec->sums : LUO_NEW(exec->arena, struct host_sums);
    if (!sums) return luo_err_nomem(err);
    exec->sums = sums;
    if (!sums->arena && !(sums->arena = luo_arena_new(1 << 16))) return luo_err_nomem(err);
    luo_arena_reset(sums->arena, 0);
    sums->bytes = 0;
    sums->n = job->b.npieces;
    sums->of = LUO_NEW_N(sums->arena, host_sum, sums->n);
    if (!sums->of) return luo_err_nomem(err);
    for (int32_t i = 0; i < job->b.npairs; i++) {
        const luo_piece *piece = job->b.pair[i].piece;
        host_sum *sum = &sums->of[piece - job->b.piece];
        const size_t bytes = (size_t)piece->state_frame.volume * job->x->k->elem;
        sum->at = luo_arena_alloc(sums->arena, bytes);
        sums->bytes += (int64_t)bytes;
        if (!sum->at) return luo_err_nomem(err);
        LUO_TRY(copy_region(sums->arena, &piece->state_frame.region, &sum->region, err));
    }
    return LUO_OK;
}

/* What a part adds to is what the first one began. */
static luo_status check_sums(const luo_exec *exec, const luo_job *job, luo_err *err)
{
    const struct host_sums *sums = exec->sums;
    bool same = sums && sums->n == job->b.npieces;
    for (int32_t i = 0; same && i < job->b.npairs; i++) {
        const luo_piece *piece = job->b.pair[i].piece;
        const host_sum *sum = &sums->of[piece - job->b.piece];
        same = sum->at && luo_region_equal(&sum->region, &piece->state_frame.region);
    }
    if (same) return LUO_OK;
    return luo_err_set(err, LUO_EBUG,
                       "parts of a step keep state in different layouts on device %d.",
                       (int)exec->device);
}

luo_status host_begin_part(luo_job *job, const luo_step_part *part, luo_err *err)
{
    if (part->n < 2) return LUO_OK;
    return part->index == 0 ? open_sums(job->x, job, err) : check_sums(job->x, job, err);
}

int64_t host_sum_bytes(const luo_exec *exec)
{
    return exec->sums ? exec->sums->bytes : 0;
}

void host_free_sums(luo_exec *exec)
{
    if (exec->sums) luo_arena_free(exec->sums->arena);
}

/* ---- sums ---- */

static void add(const luo_rank *rank, int64_t n, const char *more, char *sum)
{
    const void *const both[] = {sum, more};
    rank->x->k->add(n, 2, both, sum);
}

void host_keep_gradients(luo_rank *rank, int32_t task)
{
    const int64_t elem = (int64_t)rank->x->k->elem;
    for (int32_t i = 0; i < rank->job->b.npairs; i++) {
        const luo_bound_pair *p = &rank->job->b.pair[i];
        const char *gradient = host_buf(rank, p->grad, task);
        for (int32_t k = 0; k < p->ncells; k++) {
            const luo_cells *c = &p->cells[k];
            char *sum = sum_of(rank, p)->at + c->state * elem;
            if (rank->order->part.index == 0)
                memcpy(sum, gradient + c->grad * elem, (size_t)(c->n * elem));
            else
                add(rank, c->n, gradient + c->grad * elem, sum);
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
        const luo_bound_pair *p = &rank->job->b.pair[i];
        char *gradient = host_buf(rank, p->grad, task);
        for (int32_t k = 0; k < p->ncells; k++) {
            const luo_cells *c = &p->cells[k];
            add(rank, c->n, sum_of(rank, p)->at + c->state * elem, gradient + c->grad * elem);
        }
    }
}
