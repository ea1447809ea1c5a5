/* child_memory.h: checkpoints of target `peer` in a real run: a folder in a file system that
 * lives in this host's memory, so it outlives the processes of the ranks and not the run. */
#ifndef LUO_CLI_RUN_CHILD_MEMORY_H
#define LUO_CLI_RUN_CHILD_MEMORY_H
#include <sys/types.h>

#include "cli/run/session.h"

/* Path of the folder of policy number `index` of the run that process `parent` began. NULL: no
 * memory. */
const char *luo_child_memory(luo_cli *cli, pid_t parent, int32_t index);
/* Makes it. Errors: LUO_EIO. */
luo_status luo_child_memory_open(const char *memory, luo_err *err);
/* Copies what it holds to `keep` (NULL: nowhere), and removes it; a folder that is not there is
 * fine. Errors: LUO_EIO what could not be copied, which is gone then; LUO_ENOMEM. */
luo_status luo_child_memory_close(const char *memory, const char *keep, luo_err *err);
#endif
