/* memory.h: the memory of the device, for the engine. */
#ifndef LUO_STANDIN_MEMORY_H
#define LUO_STANDIN_MEMORY_H
#include "cuda_runtime_api.h"
#include "standin.h"

void standin_close_memory(void);       /* to the host, if it should be now */
void standin_want_memory_closed(void); /* the next time */
void standin_count_memory(standin_counts *out);
#endif
