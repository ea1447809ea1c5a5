/* products.c: matrix products of the graph: plans found when a program is bound, run on
 * the compute stream, with what fuse.c lets them add themselves. */
#include "exec/cuda/bind.h"

static int64_t width_of(const luo_job *job, int32_t buffer)
{
    return luo_bound_desc(&job->bound, buffer)->elem_bytes;
}

/* Gradients of logits of routers are f32 beside bf16: such an operand is rounded in working memory,
 * and the product is one of bf16. -1: both are alike. */
static int32_t wider(const luo_job *job, const luo_product *product)
{
    const int64_t a = width_of(job, product->a), b = width_of(job, product->b);
    return a == b ? -1 : a > b ? product->a : product->b;
}

static void need_narrow(gpu_binder *binder, const luo_product *product)
{
    const int32_t wide = wider(binder->job, product);
    if (wide < 0) return;
    const int64_t bytes = 2 * luo_bound_volume(luo_bound_desc(&binder->job->bound, wide));
    if (bytes > binder->job->work_bytes) binder->job->work_bytes = bytes;
}

static luo_status find(gpu_binder *binder, const luo_product *p, const gpu_fused *fused,
                       gpu_product_plan **plan)
{
    const luo_job *job = binder->job;
    const bool sums =
        luo_bound_desc(&job->bound, fused->result)->buffer_class == LUO_BUFFER_GRADIENT;
    for (int add = 0; add < 2; add++) {
        if (!gpu_product_runs(p, sums, add)) continue;
        gpu_product q =
            gpu_product_of(p, add, wider(job, p) < 0 ? gpu_type_of(width_of(job, p->a)) : GPU_BF16,
                           gpu_type_of(width_of(job, fused->result)));
        q.has_bias = fused->bias >= 0;
        q.has_plus = fused->plus >= 0;
        LUO_TRY(gpu_product_find(binder->job->x->blas, &q, &plan[add], binder->err));
    }
    return LUO_OK;
}

static const void *operand(const luo_job *job, int32_t buffer, int32_t task)
{
    return buffer < 0 ? NULL : gpu_buf(job, buffer, task);
}

/* An operand as the product reads it. */
static luo_status narrow(luo_rank *rank, int32_t buffer, const luo_product *product, int32_t task,
                         const void **at)
{
    const luo_job *job = rank->job;
    *at = gpu_buf(job, buffer, task);
    if (wider(job, product) != buffer) return LUO_OK;
    const gpu_array to = {job->work, GPU_BF16};
    *at = to.at;
    return gpu_check(&rank->err,
                     gpu_convert(rank->x->stream[LUO_STREAM_COMPUTE],
                                 luo_bound_volume(luo_bound_desc(&job->bound, buffer)),
                                 gpu_at(job, buffer, task), to),
                     "rounding an operand");
}

static luo_status run_one(luo_rank *rank, const gpu_op *op, int32_t k, int32_t task)
{
    const luo_job *job = rank->job;
    const cudaStream_t stream = rank->x->stream[LUO_STREAM_COMPUTE];
    const luo_product *product = &op->b->product[k];
    const gpu_fused *fused = &op->fused[k];
    const bool add = product->add || gpu_adds(rank, fused->result);
    void *c = gpu_buf(job, fused->result, task);
    const void *left, *right;
    if (product->m == 0 || product->n == 0) return LUO_OK;
    LUO_TRY(narrow(rank, product->a, product, task, &left));
    LUO_TRY(narrow(rank, product->b, product, task, &right));
    if (product->k > 0)
        return gpu_product_run(rank->x->blas, op->plan[k][add], stream, left, right,
                               operand(job, fused->bias, task), operand(job, fused->plus, task), c,
                               &rank->err);
    if (add) return LUO_OK;
    const size_t bytes = (size_t)(product->m * product->n * width_of(job, fused->result));
    return gpu_check(&rank->err, cudaMemsetAsync(c, 0, bytes, stream), "an empty sum");
}

static luo_status run_products(luo_rank *rank, const gpu_op *op, int32_t task)
{
    for (int32_t k = 0; k < op->b->nproducts; k++) LUO_TRY(run_one(rank, op, k, task));
    return LUO_OK;
}

/* What the product before it has added already. */
luo_status gpu_run_nothing(luo_rank *rank, const gpu_op *op, int32_t task)
{
    (void)rank, (void)op, (void)task;
    return LUO_OK;
}

luo_status gpu_bind_products(gpu_binder *binder, gpu_op *op)
{
    const int32_t n = op->b->nproducts;
    gpu_fused *f = LUO_NEW_N(binder->job->arena, gpu_fused, n);
    gpu_product_plan *(*plan)[2] = luo_arena_calloc(binder->job->arena, (size_t)n, sizeof *plan);
    if (!f || !plan) return luo_err_nomem(binder->err);
    const gpu_fused *fused = binder->fusion.of[op->b->instr->id];
    for (int32_t k = 0; k < n; k++) {
        f[k] = fused ? fused[k] : (gpu_fused){op->b->product[k].c, -1, -1};
        need_narrow(binder, &op->b->product[k]);
        LUO_TRY(find(binder, &op->b->product[k], &f[k], plan[k]));
    }
    op->fused = f;
    op->plan = plan;
    op->run = run_products;
    return LUO_OK;
}
