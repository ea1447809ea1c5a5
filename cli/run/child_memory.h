/* child_memory.h: checkpoints of target `peer` in a real run: a folder in this host's
 * memory (core/io/scratch.h), so it outlives the processes of the ranks and not the run. */
#ifndef LUO_CLI_RUN_CHILD_MEMORY_H
#define LUO_CLI_RUN_CHILD_MEMORY_H
#include "core/io/scratch.h"

/* Copies what it holds to `keep` (NULL: nowhere), and removes it; a folder that is not there is
 * fine. Errors: LUO_EIO what could not be copied, which is gone then; LUO_ENOMEM. */
luo_status luo_child_memory_close(luo_scratch *memory, const char *keep, luo_err *err);
#endif
