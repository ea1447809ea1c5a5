#include "cli/machine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/build_info.h"
#include "core/base/str.h"
#include "core/io/files.h"
#include "exec/coordinator/hosts.h"
#include "exec/recipe.h"

static luo_status list_hosts(luo_arena *arena, luo_str *out, const luo_exec_options *options,
                             luo_err *err)
{
    luo_hosts hosts;
    LUO_TRY(luo_hosts_of_run(arena, options, &hosts, err));
    for (int32_t i = 0; i < hosts.n; i++) luo_str_addf(out, "%s%s", i ? ", " : "", hosts.at[i]);
    return out->failed ? luo_err_nomem(err) : LUO_OK;
}

/* As the kernel calls it; "unknown" where it says nothing. */
static void cpu_name(char *out, size_t size)
{
    char line[512];
    FILE *file = fopen("/proc/cpuinfo", "r");
    snprintf(out, size, "unknown");
    while (file && fgets(line, sizeof line, file)) {
        const char *value = strncmp(line, "model name", 10) == 0 ? strchr(line, ':') : NULL;
        if (!value) continue;
        snprintf(out, size, "%.*s", (int)strcspn(value + 2, "\n"), value + 2);
        break;
    }
    if (file) fclose(file);
}

static void list_optimizer(luo_arena *arena, luo_fact *out)
{
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"learning_rate", LUO_LEARNING_RATE},
                   {"beta1", LUO_BETA1},
                   {"beta2", LUO_BETA2},
                   {"adam_eps", LUO_ADAM_EPS},
                   {"weight_decay", LUO_WEIGHT_DECAY},
                   {"clip_norm", LUO_CLIP_NORM}};
    *out++ = (luo_fact){"optimizer", luo_arena_strdup(arena, "adamw")};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        *out++ = (luo_fact){numbers[i].name, luo_arena_printf(arena, "%g", numbers[i].value)};
}

luo_status luo_machine_facts(luo_arena *arena, const luo_exec_options *options,
                             luo_fact out[LUO_MACHINE_FACTS], luo_err *err)
{
    char here[256] = "", cpu[256];
    luo_str hosts = {0};
    luo_status st = list_hosts(arena, &hosts, options, err);
    if (gethostname(here, sizeof here - 1) != 0) snprintf(here, sizeof here, "unknown");
    cpu_name(cpu, sizeof cpu);
    out[0] = (luo_fact){"hosts", luo_arena_strdup(arena, hosts.len ? luo_str_get(&hosts) : here)};
    out[1] = (luo_fact){"cpu", luo_arena_strdup(arena, cpu)};
    out[2] = (luo_fact){"cores", luo_arena_printf(arena, "%ld", sysconf(_SC_NPROCESSORS_ONLN))};
    out[3] =
        (luo_fact){"data", luo_arena_strdup(arena, options->data ? options->data : "synthetic")};
    list_optimizer(arena, out + 4);
    luo_str_free(&hosts);
    for (int i = 0; st == LUO_OK && i < LUO_MACHINE_FACTS; i++)
        if (!out[i].value) st = luo_err_nomem(err);
    return st;
}

void luo_machine_gpu_facts(const luo_device_info *device_info, luo_fact out[LUO_MACHINE_GPU_FACTS])
{
    out[0] = (luo_fact){"gpu", device_info->device};
    out[1] = (luo_fact){"gpu_driver", device_info->driver};
    out[2] = (luo_fact){"cuda", device_info->cuda};
    out[3] = (luo_fact){"nccl", device_info->nccl};
    out[4] = (luo_fact){"cublas", device_info->blas};
}

luo_status luo_machine_rank_program(luo_arena *arena, const char *name, const char **out,
                                    luo_err *err)
{
    char self[4096];
    LUO_TRY(luo_file_beside(name, self, sizeof self, err));
    *out = luo_arena_strdup(arena, self);
    if (!*out) return luo_err_nomem(err);
    if (access(*out, X_OK) == 0) return LUO_OK;
    if (strcmp(name, "luoshu-rank-cuda") == 0 && luo_build_no_cuda[0])
        return luo_err_set(err, LUO_EBACKEND,
                           "backend `cuda` is not in this build (%s at build time); rebuild with "
                           "CUDA or use --backend host.",
                           luo_build_no_cuda);
    return luo_err_set(err, LUO_EBACKEND,
                       "`%s` is missing, the program of a rank; it belongs beside "
                       "`luoshu`, where `make` puts it.",
                       *out);
}
