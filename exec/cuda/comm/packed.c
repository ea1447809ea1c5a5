#include "exec/cuda/comm/packed.h"
#include "core/base/vec.h"

enum { KINDS = 3 }; /* weight, first and second moment */

/* ---- lists ---- */

static int kinds_of(const luo_job *job, int32_t piece)
{
    return job->bound.piece[piece].param->counted ? 1 : KINDS;
}

static luo_status push(gpu_list *list, int64_t from, int64_t to, int64_t n)
{
    if (list->n > INT32_MAX / 2)
        return luo_err_set(list->err, LUO_E2BIG, "a switch moves over 2^30 strips of cells.");
    if (!LUO_VEC_ROOM_IN(list->arena, list->at, list->n, list->cap))
        return luo_err_nomem(list->err);
    list->at[list->n++] = (gpu_copy_segment){.from = from, .to = to, .n = n};
    list->elements += n;
    return LUO_OK;
}

/* Where cells of one array of a piece lie: segments that count from element *base of the slab. */
static luo_status find(gpu_list *list, const luo_job *job, int32_t piece, int kind,
                       const luo_region *cells, luo_copy_segments *out, int64_t *base)
{
    const luo_piece *p = &job->bound.piece[piece];
    const gpu_piece at = gpu_piece_at(job, piece);
    const float *array = kind == 0 ? at.master : kind == 1 ? at.m : at.v;
    const luo_frame *frame =
        kind == 0 && (void *)at.master == at.weight ? &p->weight_frame : &p->state_frame;
    if (p->piece.empty)
        return luo_err_set(list->err, LUO_EBUG,
                           "device %d does not keep `%s`, which a switch moves.",
                           (int)job->x->device, p->param->name);
    *base = array - (const float *)(const void *)job->slab;
    return luo_frame_segments(list->scratch, frame, cells, out, list->err);
}

luo_status gpu_list_pack(gpu_list *list, const luo_job *job, int32_t piece, const luo_region *cells)
{
    const size_t mark = luo_arena_mark(list->scratch);
    for (int kind = 0; kind < kinds_of(job, piece); kind++) {
        luo_copy_segments segments;
        int64_t base;
        LUO_TRY(find(list, job, piece, kind, cells, &segments, &base));
        for (int32_t i = 0; i < segments.n; i++)
            LUO_TRY(push(list, base + segments.at[i].at, list->elements, segments.at[i].n));
    }
    luo_arena_reset(list->scratch, mark);
    return LUO_OK;
}

/* Two lists of segments over the same cells, cut at the ends of both. */
static luo_status merge(gpu_list *list, const luo_copy_segments *a, int64_t from,
                        const luo_copy_segments *b, int64_t to)
{
    int64_t pa = 0, pb = 0;
    for (int32_t i = 0, k = 0; i < a->n && k < b->n;) {
        const int64_t left = a->at[i].n - pa, room = b->at[k].n - pb;
        const int64_t n = left < room ? left : room;
        LUO_TRY(push(list, from + a->at[i].at + pa, to + b->at[k].at + pb, n));
        if ((pa += n) == a->at[i].n) i++, pa = 0;
        if ((pb += n) == b->at[k].n) k++, pb = 0;
    }
    return LUO_OK;
}

luo_status gpu_list_carry(gpu_list *list, const luo_job *from, const luo_job *to, int32_t piece,
                          const luo_region *cells)
{
    const size_t mark = luo_arena_mark(list->scratch);
    for (int kind = 0; kind < kinds_of(from, piece); kind++) {
        luo_copy_segments a, b;
        int64_t at_a, at_b;
        LUO_TRY(find(list, from, piece, kind, cells, &a, &at_a));
        LUO_TRY(find(list, to, piece, kind, cells, &b, &at_b));
        LUO_TRY(merge(list, &a, at_a, &b, at_b));
    }
    luo_arena_reset(list->scratch, mark);
    return LUO_OK;
}

/* ---- on the device ---- */

typedef struct cutter {
    gpu_packed_way way;
    int64_t most;
    gpu_copy_segment *at;
    gpu_slice *slice;
    int32_t n, nslices;
} cutter;

/* Part of a segment, which fits the slice at hand. */
static void put(cutter *k, const gpu_copy_segment *s, int64_t pos, int64_t n)
{
    gpu_slice *slice = &k->slice[k->nslices - 1];
    gpu_copy_segment *x = &k->at[k->n++];
    *x = (gpu_copy_segment){s->from + pos, s->to + pos, n, slice->elements};
    if (k->way != GPU_PACKED_CARRY) x->to = slice->elements;
    if (k->way == GPU_PACKED_UNPACK) {
        const int64_t slab = x->from;
        x->from = x->to;
        x->to = slab;
    }
    slice->n++;
    slice->elements += n;
}

static void cut(cutter *k, const gpu_list *list)
{
    for (int32_t i = 0; i < list->n; i++)
        for (int64_t pos = 0; pos < list->at[i].n;) {
            if (k->nslices == 0 || k->slice[k->nslices - 1].elements == k->most)
                k->slice[k->nslices++] = (gpu_slice){.first = k->n};
            const int64_t room = k->most - k->slice[k->nslices - 1].elements;
            const int64_t left = list->at[i].n - pos, n = left < room ? left : room;
            put(k, &list->at[i], pos, n);
            pos += n;
        }
}

static luo_status send(gpu_list *list, const cutter *k, gpu_packed *out)
{
    void *p;
    const int64_t bytes = k->n * (int64_t)sizeof *k->at;
    LUO_TRY(gpu_alloc(bytes, "a table of what a switch moves", &p, list->err));
    out->table = p;
    cudaError_t code = cudaMemcpy(p, k->at, (size_t)bytes, cudaMemcpyHostToDevice);
    if (code == cudaSuccess) code = cudaStreamSynchronize(NULL); /* the copy may lag */
    return gpu_check(list->err, code, "sending a table of what a switch moves");
}

luo_status gpu_packed_make(gpu_list *list, gpu_packed_way way, int64_t most, gpu_packed *out)
{
    const int64_t slices = (list->elements + most - 1) / most;
    cutter k = {.way = way, .most = most};
    *out = (gpu_packed){.elements = list->elements};
    if (slices == 0) return LUO_OK;
    k.at = LUO_NEW_N(list->arena, gpu_copy_segment, list->n + slices);
    k.slice = LUO_NEW_N(list->arena, gpu_slice, slices);
    if (!k.at || !k.slice) return luo_err_nomem(list->err);
    cut(&k, list);
    out->nslices = k.nslices;
    out->slice = k.slice;
    return send(list, &k, out);
}

void gpu_packed_free(gpu_packed *packed)
{
    gpu_free(packed->table);
    packed->table = NULL;
}

luo_status gpu_packed_copy(const gpu_packed *packed, int32_t k, cudaStream_t stream, const void *in,
                           void *out, luo_err *err)
{
    const gpu_slice *slice = &packed->slice[k];
    return gpu_check(err,
                     gpu_copy_segments(stream, slice->n, packed->table + slice->first,
                                       slice->elements, (int32_t)sizeof(float), in, out),
                     "copying state");
}
