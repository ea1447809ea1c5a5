/* facts.c: `key value` lines of the first GPU and of the libraries, for records. */
#include "tests/gpu/bench_gpu.h"

int main(void)
{
    gpu_facts f;
    char blas[32], nccl[32];
    const cudaStream_t stream = gpu_bench_open(&f);
    gpu_blas_version(blas, sizeof blas);
    printf("device %s\ncompute_capability %d.%d\nmultiprocessors %d\nclock_mhz %d\n", f.name,
           (int)f.major, (int)f.minor, (int)f.sms, (int)f.clock_khz / 1000);
    printf("memory_bytes %lld\ncuda %d.%d\ndriver_cuda %d.%d\ncublas %s\nnccl %s\n",
           (long long)f.memory, (int)f.runtime / 1000, (int)f.runtime % 1000 / 10,
           (int)f.driver / 1000, (int)f.driver % 1000 / 10, blas,
           gpu_nccl_version(f.nccl, nccl));
    gpu_bench_ok(cudaStreamDestroy(stream), "a stream");
    return 0;
}
