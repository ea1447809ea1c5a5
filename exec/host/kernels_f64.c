/* kernels_f64.c: the kernels in double precision, the reference of everything else. */
#define LUO_TABLE luo_kernels_f64
#include "exec/host/kernels.inc"
