/* delay.h: links that an event slows down, between GPUs: what the host waits before it
 * sends (exec/host/transfer.c, `due`) the lane's stream waits on the device.
 *
 * The rule is the host's: the messages that an instruction sends leave together, with the slowest
 * of them; how slow a link is counts when they would leave. The receives of the same instruction
 * wait with them, since NCCL moves both as one. */
#ifndef LUO_EXEC_CUDA_DELAY_H
#define LUO_EXEC_CUDA_DELAY_H
#include "core/graph/program/program.h"
#include "exec/cuda/kernels/kernels.h"
#include "exec/rank/rank.h"

/* How long the sends of a slot wait, by time: rows of *out, ascending; the number of them, 0:
 * never. A wait lasts from its row to the next. The device's clock is CLOCK_MONOTONIC + offset_ns.
 * Changes after the first GPU_DELAYS are taken together with the last of these. */
int32_t gpu_delay_rows(const luo_step_order *order, const luo_slot *slot, int64_t offset_ns,
                       gpu_delay_row out[GPU_DELAYS]);
#endif
