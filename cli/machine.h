/* machine.h: where a real run takes place, for its manifest. */
#ifndef LUO_CLI_MACHINE_H
#define LUO_CLI_MACHINE_H
#include "core/io/result/rundir.h"
#include "exec/options.h"
#include "exec/device_info.h"

enum { LUO_MACHINE_FACTS = 11 };
/* hosts (those of the launcher, else this one), cpu and cores (of this one), data, and the numbers
 * of the optimizer (exec/recipe.h). Owner: arena. Errors: LUO_EIO the hostfile cannot be read;
 * LUO_ENOMEM. */
luo_status luo_machine_facts(luo_arena *arena, const luo_exec_options *options,
                             luo_fact out[LUO_MACHINE_FACTS], luo_err *err);
/* Path of the program of a rank (`luoshu-rank`, `luoshu-rank-cuda`), which stands beside the
 * command. Errors: LUO_EBACKEND it does not; of cuda with what this build lacks. */
luo_status luo_machine_rank_program(luo_arena *arena, const char *name, const char **out,
                                    luo_err *err);

enum { LUO_MACHINE_GPU_FACTS = 5 };
/* gpu, gpu_driver, cuda, nccl, cublas, as rank 0 tells them later: the values point into *told. */
void luo_machine_gpu_facts(const luo_device_info *device_info, luo_fact out[LUO_MACHINE_GPU_FACTS]);
#endif
