/* kernels_f32.c: the kernels in single precision. */
#define LUO_REAL_IS_FLOAT
#define LUO_TABLE luo_kernels_f32
#include "exec/host/kernels.inc"
