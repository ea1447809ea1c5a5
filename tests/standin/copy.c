/* copy.c: copies and fills, with CUDA's rules of what the host waits for: what comes
 * from pageable memory is read at the call, what goes there is waited for, all else happens in the
 * stream's turn. */
#include <stdlib.h>
#include <string.h>

#include "ops.h"

typedef struct copy {
    char *to;
    const char *from; /* NULL: fill with value */
    size_t to_pitch, from_pitch, width, height;
    int value;
    char *staged; /* own copy of pageable memory */
} copy;

static cudaError_t run_copy(void *ctx, void **run)
{
    (void)run;
    const copy *c = ctx;
    for (size_t i = 0; i < c->height; i++) {
        char *to = c->to + i * c->to_pitch;
        if (c->from)
            memcpy(to, c->from + i * c->from_pitch, c->width);
        else
            memset(to, c->value, c->width);
    }
    return cudaSuccess;
}
static void drop_copy(void *ctx)
{
    copy *c = ctx;
    free(c->staged);
    free(c);
}
static cudaError_t enqueue_copy(const copy *c, cudaStream_t stream, const char *what)
{
    copy *own = malloc(sizeof *own);
    if (!own) {
        free(c->staged);
        return cudaErrorMemoryAllocation;
    }
    *own = *c;
    const standin_work work = {run_copy, NULL, drop_copy, own, what};
    return standin_enqueue(stream, &work);
}

typedef enum place { DEVICE, PINNED, PAGEABLE, WRONG } place;

static place place_of(const void *p, size_t bytes)
{
    if (standin_is_device(p, bytes)) return DEVICE;
    if (standin_is_pinned(p, bytes)) return PINNED;
    /* It begins in an allocation and ends outside it. */
    if (standin_is_device(p, 0) || standin_is_pinned(p, 0)) return WRONG;
    return p ? PAGEABLE : WRONG;
}
static bool fits(enum cudaMemcpyKind kind, place to, place from)
{
    switch (kind) {
    case cudaMemcpyHostToHost:
        return to != DEVICE && from != DEVICE;
    case cudaMemcpyHostToDevice:
        return to != PAGEABLE && from != DEVICE;
    case cudaMemcpyDeviceToHost:
        return to != DEVICE && from != PAGEABLE;
    case cudaMemcpyDeviceToDevice:
        return to != PAGEABLE && from != PAGEABLE;
    case cudaMemcpyDefault:
        return true;
    }
    return false;
}
/* Bytes from the first to the last of a 2D copy. */
static size_t reach(size_t pitch, size_t width, size_t height)
{
    return height ? (height - 1) * pitch + width : 0;
}

static cudaError_t copy_2d(copy *c, enum cudaMemcpyKind kind, cudaStream_t stream, bool wait)
{
    if (c->width == 0 || c->height == 0) return cudaSuccess;
    if (c->to_pitch < c->width || c->from_pitch < c->width) return cudaErrorInvalidValue;
    const size_t read = reach(c->from_pitch, c->width, c->height);
    const place to = place_of(c->to, reach(c->to_pitch, c->width, c->height));
    const place from = place_of(c->from, read);
    if (to == WRONG || from == WRONG) return cudaErrorInvalidValue;
    if (!fits(kind, to, from)) return cudaErrorInvalidMemcpyDirection;
    const bool capturing = standin_capturing(stream);
    if (from == PAGEABLE && !capturing) {
        c->staged = malloc(read);
        if (!c->staged) return cudaErrorMemoryAllocation;
        memcpy(c->staged, c->from, read);
        c->from = c->staged;
    }
    const cudaError_t code = enqueue_copy(c, stream, "a copy");
    if (code != cudaSuccess || capturing) return code;
    wait = to == PAGEABLE || (wait && (to == PINNED || from == PINNED));
    return wait ? standin_wait(standin_stream(stream)->tail) : cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    STANDIN_ENTER();
    copy c = {to, from, bytes, bytes, bytes, 1, 0, NULL};
    return standin_leave(copy_2d(&c, kind, stream, false));
}
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t stream)
{
    STANDIN_ENTER();
    copy c = {to, from, to_pitch, from_pitch, width, height, 0, NULL};
    return standin_leave(copy_2d(&c, kind, stream, false));
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    STANDIN_ENTER();
    const cudaError_t code = standin_capture_forbids(NULL);
    if (code != cudaSuccess) return standin_leave(code);
    copy c = {to, from, bytes, bytes, bytes, 1, 0, NULL};
    return standin_leave(copy_2d(&c, kind, NULL, true));
}

static cudaError_t fill_2d(void *p, size_t pitch, int value, size_t width, size_t height,
                           cudaStream_t stream)
{
    if (width == 0 || height == 0) return cudaSuccess;
    const place at = place_of(p, reach(pitch, width, height));
    if (pitch < width || at == WRONG || at == PAGEABLE) return cudaErrorInvalidValue;
    const copy c = {p, NULL, pitch, 0, width, height, value, NULL};
    return enqueue_copy(&c, stream, "a fill");
}
cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream)
{
    STANDIN_ENTER();
    return standin_leave(fill_2d(p, bytes, value, bytes, 1, stream));
}
cudaError_t cudaMemset2DAsync(void *p, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream)
{
    STANDIN_ENTER();
    return standin_leave(fill_2d(p, pitch, value, width, height, stream));
}
/* On memory of the device the host does not wait for it. */
cudaError_t cudaMemset(void *p, int value, size_t bytes)
{
    STANDIN_ENTER();
    const cudaError_t code = standin_capture_forbids(NULL);
    if (code != cudaSuccess) return standin_leave(code);
    return standin_leave(fill_2d(p, bytes, value, bytes, 1, NULL));
}
