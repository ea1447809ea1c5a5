/* standin_nccl.h: what tests may do to the stand-in for NCCL beyond NCCL's own API.
 * All of it is for this process alone. */
#ifndef LUO_STANDIN_STANDIN_NCCL_H
#define LUO_STANDIN_STANDIN_NCCL_H
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
void standin_nccl_hang(bool on); /* its operations do not go on, and say nothing */
void standin_nccl_break(void);   /* all its communicators report ncclRemoteError from here on */
void standin_nccl_hold_aborts(bool on); /* ncclCommAbort does not return */
void standin_nccl_refuse_splits(bool on); /* ncclCommSplit is ncclInvalidUsage */

typedef struct standin_nccl_counts {
    int32_t alive, aborted;      /* communicators */
    int64_t inits, splits, runs; /* calls, those without a color too; operations done */
} standin_nccl_counts;
standin_nccl_counts standin_nccl_count(void);
#ifdef __cplusplus
}
#endif
#endif
