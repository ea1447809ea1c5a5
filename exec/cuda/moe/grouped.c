/* grouped.c: products of as many rows as every expert got, one product of cuBLASLt an expert. */
#include "exec/cuda/moe/moe.h"

int64_t gpu_expert_rows(const luo_expert_rows *rows, const float *counts, int64_t e)
{
    int64_t n = 0;
    for (int64_t s = 0; s < rows->sources; s++) n += (int64_t)counts[s * rows->experts + e];
    return n;
}

/* The alignment that every row has. */
static int32_t alignment(int64_t a, int64_t b)
{
    const int64_t both = a | b | LUO_LAYOUT_ALIGN;
    return (int32_t)(both & -both);
}

typedef struct expert_product { /* of one weight: what changes from expert to expert */
    gpu_product what;
    const char *a, *b;
    char *c;
    int64_t elem_a, elem_b, elem_c; /* bytes */
} expert_product;

static expert_product first_of(const luo_job *job, const luo_product *p, bool add, int32_t task)
{
    const gpu_array a = gpu_at(job, p->a, task), b = gpu_at(job, p->b, task),
                    c = gpu_at(job, p->c, task);
    expert_product x = {.a = a.at,
                        .b = b.at,
                        .c = c.at,
                        .elem_a = gpu_elem(a.type),
                        .elem_b = gpu_elem(b.type),
                        .elem_c = gpu_elem(c.type)};
    x.what = gpu_product_of(p, add, a.type, c.type);
    const int64_t each_b = p->ta ? p->ldb : p->n * p->k, each_c = p->ta ? p->m * p->ldc : p->ldc;
    x.what.align = alignment(p->lda * x.elem_a | each_b * x.elem_b, each_c * x.elem_c);
    return x;
}

static luo_status products(luo_rank *rank, const gpu_op *op, const luo_product *p,
                           const float *counts, int32_t task)
{
    const cudaStream_t stream = rank->x->stream[LUO_STREAM_COMPUTE];
    expert_product x = first_of(rank->job, p, p->add || gpu_adds(rank, p->c), task);
    for (int64_t e = 0; e < op->b->experts->experts; e++) {
        const int64_t n = gpu_expert_rows(op->b->experts, counts, e);
        *(p->ta ? &x.what.k : &x.what.m) = n;
        LUO_TRY(gpu_product_run_rows(rank->x->blas, &x.what, stream, x.a, x.b, x.c, &rank->err));
        x.a += n * p->lda * x.elem_a;
        x.b += (p->ta ? n * p->ldb : p->n * p->k) * x.elem_b;
        x.c += (p->ta ? p->m : n) * p->ldc * x.elem_c;
    }
    return LUO_OK;
}

luo_status gpu_run_grouped(luo_rank *rank, const gpu_op *op, int32_t task)
{
    const float *counts;
    LUO_TRY(gpu_counts_at(rank, op->b->experts->counts, task, &counts, NULL));
    for (int32_t k = 0; k < op->b->nproducts; k++)
        LUO_TRY(products(rank, op, &op->b->product[k], counts, task));
    return LUO_OK;
}

/* ---- before the first step ---- */

/* Up to all rows that have room. What is written over are rows and gradients, which every step
 * makes anew. */
static luo_status warm(luo_job *job, const luo_programs *set, const luo_product *p, int32_t task,
                       luo_err *err)
{
    const bool sums = luo_bound_desc(&job->bound, p->c)->buffer_class == LUO_BUFFER_GRADIENT;
    if (p->lda == 0) return LUO_OK; /* no columns are here */
    for (int add = 0; add < 2; add++) {
        if (!gpu_product_runs(p, sums, add)) continue;
        const expert_product x = first_of(job, p, add, task);
        const int64_t room = luo_layout_bytes(set, job->bound.role, p->a);
        LUO_TRY(gpu_product_warm_rows(job->x->blas, &x.what, room / (p->lda * x.elem_a),
                                      job->x->stream[LUO_STREAM_COMPUTE], x.a, x.b, x.c, err));
    }
    return LUO_OK;
}

luo_status gpu_moe_warm(luo_job *job, const luo_programs *set, luo_err *err)
{
    if (!job->moe) return LUO_OK;
    for (int32_t i = 0; i < job->bound.role->ninstr; i++) {
        const int32_t task = job->op[i].run == gpu_run_grouped ? gpu_task_of(job, i) : -1;
        for (int32_t k = 0; task >= 0 && k < job->op[i].b->nproducts; k++)
            LUO_TRY(warm(job, set, &job->op[i].b->product[k], task, err));
    }
    return gpu_check(err, cudaStreamSynchronize(job->x->stream[LUO_STREAM_COMPUTE]),
                     "the first products of experts");
}
