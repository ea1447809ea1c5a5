/* megatron.h: the two halves of Megatron's arguments; for megatron*.c only. */
#ifndef LUO_CORE_IO_EXPORT_MEGATRON_H
#define LUO_CORE_IO_EXPORT_MEGATRON_H
#include "core/io/export/export_internal.h"

/* A flag with its value on a line of its own. */
void megatron_flag(luo_str *text, const char *fmt, ...) LUO_PRINTF(2, 3);
/* Sizes of the network, of batches and of sequences. Errors: LUO_EUNREP the first key of the model
 * that Megatron has no flag for. */
luo_status megatron_add_model(export_job *job, luo_str *text, const export_uniform *plan);
#endif
