/* device_info.h: what a rank tells its coordinator of device and libraries, once it is set up. */
#ifndef LUO_EXEC_DEVICE_INFO_H
#define LUO_EXEC_DEVICE_INFO_H
#include "core/base/err.h"

typedef struct luo_device_info {
    char device[96];                               /* name of the GPU */
    char driver[32], cuda[32], nccl[32], blas[32]; /* versions */
    char warning[LUO_ERR_TEXT]; /* what to know before the first step, no full stop; "": nothing */
} luo_device_info;
#endif
