#include "core/cost/overlap.h"

#include <math.h>

void luo_cost_ddp_overlap(int32_t n, const double *backward_seconds, const double *bytes,
                          double cap, luo_coll_seconds collective, const void *ctx,
                          luo_overlap *out)
{
    luo_overlap o = {0, 0, 0};
    double now = 0, queue = 0, bucket = 0;
    for (int32_t i = n - 1; i >= -1; i--) {
        if (i < 0 || (bucket > 0 && bucket + bytes[i] > cap)) {
            if (bucket > 0) {
                const double t = collective(ctx, bucket);
                queue = fmax(queue, now) + t;
                o.total += t;
                o.buckets++;
            }
            bucket = 0;
        }
        if (i < 0) break;
        now += backward_seconds[i];
        bucket += bytes[i];
    }
    o.exposed = fmax(0, queue - now);
    *out = o;
}

enum { RING = 64 }; /* ends of the last layers; depth reaches at most RING - 2 back */

static double forward_end(int32_t n, const double *forward, const double *gather, int32_t depth,
                          double *queue)
{
    double finish = 0, waits = 0; /* waits: end of layer i - 1 - depth */
    double ends[RING];
    for (int32_t i = 0; i < n; i++) {
        const int32_t before = i - 1 - depth;
        if (before >= 0) waits = ends[before % RING];
        *queue = fmax(*queue, waits) + gather[i];
        finish = fmax(finish, *queue) + forward[i];
        ends[i % RING] = finish;
    }
    return finish;
}

void luo_cost_fsdp(int32_t n, const double *forward, const double *backward, const double *gather,
                   const double *scatter, int32_t depth, luo_fsdp *out)
{
    double queue = 0;
    depth = depth < 0 ? 0 : depth > RING - 2 ? RING - 2 : depth;
    out->forward_end = forward_end(n, forward, gather, depth, &queue);
    double now = out->forward_end, ready = 0;
    for (int32_t i = n - 1; i >= 0; i--) {
        if (i == n - 1) {
            queue = fmax(queue, now) + gather[i];
            ready = queue;
        }
        const double start = fmax(now, ready);
        /* the scatter of layer i + 1 was issued when its backward ended, before this start */
        if (i < n - 1) queue = fmax(queue, now) + scatter[i + 1];
        if (i > 0) {
            queue = fmax(queue, start) + gather[i - 1];
            ready = queue;
        }
        now = start + backward[i];
    }
    if (n > 0) queue = fmax(queue, now) + scatter[0];
    out->end = fmax(now, queue);
}
