#include "cli/options/moved.h"

#include <string.h>

/* now: what to give; files: it is no option, and which file says it. */
static const struct {
    const char *verb, *option, *now, *files;
} moved[] = {
    {"plan", "cache-rows", "--cache rows=N", NULL},
    {"plan", "policy", "--cache rows=N,policy=NAME", NULL},
    {"plan", "pull-bound", "--cache rows=N,pull_bound=N", NULL},
    {"plan", "push-bound", "--cache rows=N,push_bound=N", NULL},
    {"run", "nccl-algo", "--cuda nccl_algo=NAME", NULL},
    {"run", "nccl-proto", "--cuda nccl_proto=NAME", NULL},
    {"run", "share-gpus", "--cuda share=on", NULL},
    {"run", "keep-checkpoints", "--checkpoint-every keep=N", NULL},
    {"run", "forward", "--launcher mpirun,forward=NAME", NULL},
    {"run", "listen", "--launcher NAME,listen=ADDRESS", NULL},
    {"plan", "num-layers", NULL, "`layers` of the file of --model"},
    {"plan", "hidden-size", NULL, "`hidden` of the file of --model"},
    {"plan", "ffn-hidden-size", NULL, "`ffn_hidden` of the file of --model"},
    {"plan", "num-attention-heads", NULL, "`heads` of the file of --model"},
    {"plan", "vocab-size", NULL, "`vocab` of the file of --model"},
    {"plan", "num-experts", NULL, "`moe.experts` of the file of --model"},
    {"plan", "world-size", NULL, "`nodes` and `devices_per_node` of the file of --cluster"},
    {"plan", "gpus", NULL, "`nodes` and `devices_per_node` of the file of --cluster"},
    {"plan", "num-gpus", NULL, "`nodes` and `devices_per_node` of the file of --cluster"},
    {"plan", "nodes", NULL, "`nodes` of the file of --cluster"},
    {"plan", "gpus-per-node", NULL, "`devices_per_node` of the file of --cluster"},
};

bool luo_moved_option(const char *verb, const char *name, size_t length, luo_err *err)
{
    for (size_t i = 0; i < sizeof moved / sizeof *moved; i++) {
        if (strcmp(moved[i].verb, verb) != 0 || strlen(moved[i].option) != length ||
            memcmp(moved[i].option, name, length) != 0)
            continue;
        if (moved[i].files)
            luo_err_set(err, LUO_EUSAGE, "`--%s` is no option of `luoshu %s`; it is %s.",
                        moved[i].option, verb, moved[i].files);
        else
            luo_err_set(err, LUO_EUSAGE, "`--%s` is part of another option now; give `%s`.",
                        moved[i].option, moved[i].now);
        return true;
    }
    return false;
}
