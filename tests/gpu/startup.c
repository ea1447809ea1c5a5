/* startup.c: what it costs to begin: seconds and bytes of the GPU's memory until the
 * first kernel and product, one after the other. CUDA_MODULE_LOADING is the caller's choice, else
 * luoshu's. Rows: mode,what,s,used_bytes; used_bytes: of the whole device, what this program
 * allocates included (the workspace of products). */
#include "exec/clock.h"
#include "exec/cuda/kernels/kernels.h"
#include "tests/gpu/bench_gpu.h"

static double since;

static void row(const char *what)
{
    size_t free_bytes = 0, total = 0;
    const double now = luo_clock_s();
    gpu_bench_ok(cudaMemGetInfo(&free_bytes, &total), "asking for free memory");
    printf("%s,%s,%.6f,%lld\n", getenv("CUDA_MODULE_LOADING"), what, now - since,
           (long long)(total - free_bytes));
    fflush(stdout);
    since = luo_clock_s();
}

static void first_product(gpu_blas *blas, cudaStream_t stream)
{
    const int64_t n = 256;
    const gpu_product p = {
        .m = n, .n = n, .k = n, .lda = n, .ldb = n, .ldc = n, .in = GPU_BF16, .out = GPU_BF16};
    (void)gpu_bench_product_time(blas, &p, stream);
}

int main(void)
{
    luo_err err = {0};
    gpu_facts facts;
    gpu_blas *blas;
    gpu_prepare_environment();
    since = luo_clock_s();
    printf("mode,what,s,used_bytes\n");
    gpu_bench_ok(cudaFree(NULL), "a context");
    row("context");
    const cudaStream_t stream = gpu_bench_open(&facts);
    uint64_t *at = gpu_bench_alloc(sizeof *at);
    gpu_bench_ok(gpu_stamp(stream, at), "a kernel");
    gpu_bench_ok(cudaStreamSynchronize(stream), "a kernel");
    row("first_kernel");
    gpu_bench_done(gpu_blas_open(&blas, &err), &err);
    row("cublaslt");
    first_product(blas, stream);
    row("first_products");
    gpu_blas_close(blas);
    gpu_free(at);
    return 0;
}
