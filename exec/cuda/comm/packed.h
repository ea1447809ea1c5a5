/* packed.h: lists of cells of parameters' state on the device: what exec/cuda/move.c packs, sends,
 * unpacks and copies; for exec/cuda only.
 *
 * All are f32: master weights (in f32 the weight itself) and both moments. Offsets count from the
 * beginning of a job's slab, so one list, and one kernel, has cells of any number of parameters. A
 * list is cut into slices, so that the memory for messages does not grow with them. */
#ifndef LUO_EXEC_CUDA_COMM_PACKED_H
#define LUO_EXEC_CUDA_COMM_PACKED_H
#include "exec/cuda/job.h"

typedef struct gpu_list {       /* being collected; {.arena, .scratch, .err} is an empty list */
    luo_arena *arena, *scratch; /* the list; segments of one region, thrown away */
    gpu_copy_segment *at;              /* first is not set */
    int32_t n, cap;
    int64_t elements;
    luo_err *err;
} gpu_list;

/* The cells of one region of a piece: weight, m, v, each in row-major order. */
/* From the slab of job to a packed run. Errors: LUO_EBUG job does not keep them; LUO_ENOMEM. */
luo_status gpu_list_pack(gpu_list *list, const luo_job *job, int32_t piece,
                         const luo_region *cells);
/* From the slab of one job to that of another. */
luo_status gpu_list_carry(gpu_list *list, const luo_job *from, const luo_job *to, int32_t piece,
                          const luo_region *cells);

typedef struct gpu_slice {
    int32_t first, n; /* segments */
    int64_t elements;
} gpu_slice;
typedef struct gpu_packed { /* a list on the device */
    int64_t elements;
    int32_t nslices;
    const gpu_slice *slice;
    gpu_copy_segment *table; /* device */
} gpu_packed;

typedef enum gpu_packed_way {
    GPU_PACKED_PACK,   /* slab to packed: a slice begins at element 0 of its run */
    GPU_PACKED_UNPACK, /* packed to slab */
    GPU_PACKED_CARRY   /* slab to slab */
} gpu_packed_way;
/* most: elements of a slice. Pre: a list of gpu_list_pack for PACK and UNPACK, of gpu_list_carry
 * for CARRY. Errors: LUO_EOOM, LUO_EBACKEND, LUO_ENOMEM. Owner: gpu_packed_free; slices:
 * list->arena. Cost: O(segments). */
luo_status gpu_packed_make(gpu_list *list, gpu_packed_way way, int64_t most, gpu_packed *out);
void gpu_packed_free(gpu_packed *packed);
/* Enqueues the copy of slice k. */
luo_status gpu_packed_copy(const gpu_packed *packed, int32_t k, cudaStream_t stream, const void *in,
                           void *out, luo_err *err);
#endif
