/* products.c: matrix products of the graph: plans found when a program is bound, run on
 * the compute stream, with what fuse.c lets them add themselves. */
#include "exec/cuda/bind.h"

static int64_t width_of(const luo_job *j, int32_t buffer)
{
    return luo_bound_desc(&j->bound, buffer)->elem_bytes;
}

/* Gradients of logits of routers are f32 beside bf16: such an operand is rounded in working memory,
 * and the product is one of bf16. -1: both are alike. */
static int32_t wider(const luo_job *j, const luo_product *p)
{
    const int64_t a = width_of(j, p->a), b = width_of(j, p->b);
    return a == b ? -1 : a > b ? p->a : p->b;
}

static void need_narrow(gpu_binder *b, const luo_product *p)
{
    const int32_t wide = wider(b->job, p);
    if (wide < 0) return;
    const int64_t bytes = 2 * luo_bound_volume(luo_bound_desc(&b->job->bound, wide));
    if (bytes > b->job->work_bytes) b->job->work_bytes = bytes;
}

static luo_status find(gpu_binder *b, const luo_product *p, const gpu_fused *f,
                       gpu_product_plan **plan)
{
    const luo_job *j = b->job;
    const bool sums = luo_bound_desc(&j->bound, f->result)->buffer_class == LUO_BUFFER_GRADIENT;
    for (int add = 0; add < 2; add++) {
        if (!gpu_product_runs(p, sums, add)) continue;
        gpu_product q =
            gpu_product_of(p, add, wider(j, p) < 0 ? gpu_type_of(width_of(j, p->a)) : GPU_BF16,
                           gpu_type_of(width_of(j, f->result)));
        q.has_bias = f->bias >= 0;
        q.has_plus = f->plus >= 0;
        LUO_TRY(gpu_product_find(b->job->x->blas, &q, &plan[add], b->err));
    }
    return LUO_OK;
}

static const void *operand(const luo_job *j, int32_t buffer, int32_t task)
{
    return buffer < 0 ? NULL : gpu_buf(j, buffer, task);
}

/* An operand as the product reads it. */
static luo_status narrow(luo_rank *r, int32_t buffer, const luo_product *p, int32_t task,
                         const void **at)
{
    const luo_job *j = r->job;
    *at = gpu_buf(j, buffer, task);
    if (wider(j, p) != buffer) return LUO_OK;
    const gpu_array to = {j->work, GPU_BF16};
    *at = to.at;
    return gpu_check(&r->err,
                     gpu_convert(r->x->stream[LUO_STREAM_COMPUTE],
                                 luo_bound_volume(luo_bound_desc(&j->bound, buffer)),
                                 gpu_at(j, buffer, task), to),
                     "rounding an operand");
}

static luo_status run_one(luo_rank *r, const gpu_op *op, int32_t k, int32_t task)
{
    const luo_job *j = r->job;
    const cudaStream_t stream = r->x->stream[LUO_STREAM_COMPUTE];
    const luo_product *p = &op->b->product[k];
    const gpu_fused *f = &op->fused[k];
    const bool add = p->add || gpu_adds(r, f->result);
    void *c = gpu_buf(j, f->result, task);
    const void *left, *right;
    if (p->m == 0 || p->n == 0) return LUO_OK;
    LUO_TRY(narrow(r, p->a, p, task, &left));
    LUO_TRY(narrow(r, p->b, p, task, &right));
    if (p->k > 0)
        return gpu_product_run(r->x->blas, op->plan[k][add], stream, left, right,
                               operand(j, f->bias, task), operand(j, f->plus, task), c, &r->err);
    if (add) return LUO_OK;
    const size_t bytes = (size_t)(p->m * p->n * width_of(j, f->result));
    return gpu_check(&r->err, cudaMemsetAsync(c, 0, bytes, stream), "an empty sum");
}

static luo_status run_products(luo_rank *r, const gpu_op *op, int32_t task)
{
    for (int32_t k = 0; k < op->b->nproducts; k++) LUO_TRY(run_one(r, op, k, task));
    return LUO_OK;
}

/* What the product before it has added already. */
luo_status gpu_run_nothing(luo_rank *r, const gpu_op *op, int32_t task)
{
    (void)r, (void)op, (void)task;
    return LUO_OK;
}

luo_status gpu_bind_products(gpu_binder *b, gpu_op *op)
{
    const int32_t n = op->b->nproducts;
    gpu_fused *f = LUO_NEW_N(b->job->arena, gpu_fused, n);
    gpu_product_plan *(*plan)[2] = luo_arena_calloc(b->job->arena, (size_t)n, sizeof *plan);
    if (!f || !plan) return luo_err_nomem(b->err);
    const gpu_fused *fused = b->fusion.of[op->b->instr->id];
    for (int32_t k = 0; k < n; k++) {
        f[k] = fused ? fused[k] : (gpu_fused){op->b->product[k].c, -1, -1};
        need_narrow(b, &op->b->product[k]);
        LUO_TRY(find(b, &op->b->product[k], &f[k], plan[k]));
    }
    op->fused = f;
    op->plan = plan;
    op->run = run_products;
    return LUO_OK;
}
