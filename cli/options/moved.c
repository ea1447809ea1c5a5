#include "cli/options/moved.h"

#include <string.h>

static const struct {
    const char *verb, *option, *now;
} moved[] = {
    {"plan", "cache-rows", "--cache rows=N"},
    {"plan", "policy", "--cache rows=N,policy=NAME"},
    {"plan", "pull-bound", "--cache rows=N,pull_bound=N"},
    {"plan", "push-bound", "--cache rows=N,push_bound=N"},
    {"run", "nccl-algo", "--cuda nccl_algo=NAME"},
    {"run", "nccl-proto", "--cuda nccl_proto=NAME"},
    {"run", "share-gpus", "--cuda share=on"},
    {"run", "keep-checkpoints", "--checkpoint-every keep=N"},
    {"run", "forward", "--launcher mpirun,forward=NAME"},
    {"run", "listen", "--launcher NAME,listen=ADDRESS"},
};

bool luo_moved_option(const char *verb, const char *name, size_t length, luo_err *err)
{
    for (size_t i = 0; i < sizeof moved / sizeof *moved; i++) {
        if (strcmp(moved[i].verb, verb) != 0 || strlen(moved[i].option) != length ||
            memcmp(moved[i].option, name, length) != 0)
            continue;
        luo_err_set(err, LUO_EUSAGE, "`--%s` is part of another option now; give `%s`.",
                    moved[i].option, moved[i].now);
        return true;
    }
    return false;
}
