#include "exec/cuda/delay.h"

#include <math.h>

static double wait_of(const luo_step_order *order, double now, const luo_message *message)
{
    double s = 0;
    for (int32_t d = 0; d < order->ndelay && order->delay[d].at_s <= now; d++)
        if (order->delay[d].device == message->peer) /* the last that has come */
            s = order->delay[d].extra_s + order->delay[d].s_per_byte * (double)message->bytes;
    return s;
}

static double slowest(const luo_step_order *order, double now, const luo_slot *slot)
{
    double most = 0;
    for (int32_t i = 0; i < slot->nmessage; i++)
        if (slot->message[i].send) most = fmax(most, wait_of(order, now, &slot->message[i]));
    return most;
}

static int64_t ns_of(double s)
{
    return (int64_t)(1e9 * s);
}

int32_t gpu_delay_rows(const luo_step_order *order, const luo_slot *slot, int64_t offset_ns,
                       gpu_delay_row out[GPU_DELAYS])
{
    int32_t n = 0;
    for (int32_t d = 0; d < order->ndelay; d++) {
        const double at_s = order->delay[d].at_s;
        if (d + 1 < order->ndelay && order->delay[d + 1].at_s == at_s) continue;
        const uint64_t wait = (uint64_t)ns_of(slowest(order, at_s, slot));
        const int64_t at = ns_of(at_s) + offset_ns;
        if (wait == (n > 0 ? out[n - 1].wait_ns : 0)) continue;
        if (n == GPU_DELAYS) {
            out[n - 1].wait_ns = wait;
            continue;
        }
        out[n++] = (gpu_delay_row){at > 0 ? (uint64_t)at : 0, wait};
    }
    return n;
}
