/* deepspeed.c: a configuration of DeepSpeed: ZeRO over all devices; the network is its user's. */
#include <string.h>

#include "core/io/convert/flags.h"

enum { GRADIENT_BYTES = 2, MIB = 1 << 20 };

typedef struct batches { /* 0: "auto", or not said */
    int64_t global, micro, times;
} batches;

static const luo_doc_node *at(const luo_doc_node *root, const char *map, const char *key)
{
    return luo_doc_get(map ? luo_doc_get(root, map) : root, key);
}

/* A whole number, or "auto". */
static luo_status read_number(convert_job *job, const luo_doc_node *node, int64_t *out)
{
    double v;
    if (!node || strcmp(node->text, "auto") == 0 || luo_doc_is(node, "null")) return LUO_OK;
    if (luo_doc_real(node, &v) && v >= 0 && v <= 1e15 && v == (double)(int64_t)v) {
        *out = (int64_t)v;
        return LUO_OK;
    }
    return convert_error(job, node->line, node->col,
                         "`%s` is `%.60s`; a whole number or \"auto\" is expected.", node->key,
                         node->text);
}

static luo_status refuse(convert_job *job, const luo_doc_node *node, const char *why)
{
    return convert_refuse(job, node->key, node->line, node->col, why);
}

static luo_status check(convert_job *job, const luo_doc_node *root)
{
    static const char *const offloads[] = {"offload_optimizer", "offload_param"};
    const luo_doc_node *zero = luo_doc_get(root, "zero_optimization");
    const luo_doc_node *half = at(root, "fp16", "enabled");
    for (int i = 0; i < 2; i++) {
        const luo_doc_node *one = luo_doc_get(zero, offloads[i]);
        const luo_doc_node *device = luo_doc_get(one, "device");
        if (one && device && strcmp(device->text, "none") != 0)
            LUO_TRY(refuse(job, one,
                           "nothing is moved to the host or a disk; --approximate "
                           "leaves it on the GPU"));
    }
    if (half && !luo_doc_is(half, "false"))
        LUO_TRY(refuse(job, half, "weights are bf16; --approximate takes them as that"));
    return LUO_OK;
}

/* Any two of the three give the third. */
static luo_status settle(convert_job *job, const luo_doc_node *root, convert_training *training)
{
    batches b = {0};
    LUO_TRY(read_number(job, luo_doc_get(root, "train_batch_size"), &b.global));
    LUO_TRY(read_number(job, luo_doc_get(root, "train_micro_batch_size_per_gpu"), &b.micro));
    LUO_TRY(read_number(job, luo_doc_get(root, "gradient_accumulation_steps"), &b.times));
    const int64_t dp = training->devices / training->tp;
    if (!b.micro && b.global && b.times && b.global % (dp * b.times) == 0)
        b.micro = b.global / (dp * b.times);
    if (!b.micro) b.micro = 1;
    if (b.global && b.times && b.global != b.micro * b.times * dp) {
        const luo_doc_node *node = luo_doc_get(root, "train_batch_size");
        return convert_error(job, node->line, node->col,
                             "`train_batch_size` is %lld, and %lld x %lld x %lld devices are %lld; "
                             "the same is expected.",
                             (long long)b.global, (long long)b.micro, (long long)b.times,
                             (long long)dp, (long long)(b.micro * b.times * dp));
    }
    if (!b.global) training->micro_batches = b.times ? b.times : 1;
    training->global_batch = b.global;
    training->micro_batch = b.micro;
    return LUO_OK;
}

static luo_status note_unused(convert_job *job, const luo_doc_node *root)
{
    static const char *const used[] = {"train_batch_size",
                                       "train_micro_batch_size_per_gpu",
                                       "gradient_accumulation_steps",
                                       "zero_optimization",
                                       "bf16",
                                       "fp16",
                                       "tensor_parallel"};
    const char *names[64];
    int32_t n = 0;
    for (const luo_doc_node *node = root->first; node && n < 64; node = node->next) {
        bool known = false;
        for (size_t i = 0; i < sizeof used / sizeof *used; i++)
            known |= strcmp(used[i], node->key) == 0;
        if (!known) names[n++] = node->key;
    }
    return convert_unused(job, names, n);
}

luo_status convert_deepspeed(convert_job *job)
{
    luo_doc doc;
    convert_training training = {.devices = job->opts->devices, .tp = 1};
    int64_t bucket = 0;
    bool given;
    LUO_TRY(convert_json(job, &doc));
    const luo_doc_node *zero = luo_doc_get(doc.root, "zero_optimization");
    const luo_doc_node *stage = luo_doc_get(zero, "stage");
    LUO_TRY(check(job, doc.root));
    LUO_TRY(convert_network_given(job, &training, &given));
    if (!given)
        return convert_usage(job, "`--model` is missing: a configuration of DeepSpeed does not "
                                  "say what network trains.");
    if (!training.devices)
        return convert_usage(job, "`--devices` is missing: how many GPUs train.");
    LUO_TRY(read_number(job, stage, &training.zero));
    if (training.zero > 3)
        return convert_error(job, stage->line, stage->col, "`stage` is %lld; 0 to 3 is expected.",
                             (long long)training.zero);
    LUO_TRY(read_number(job, luo_doc_get(zero, "reduce_bucket_size"), &bucket));
    LUO_TRY(read_number(job, at(doc.root, "tensor_parallel", "autotp_size"), &training.tp));
    if (training.tp < 1) training.tp = 1;
    if (training.devices % training.tp)
        return convert_usage(job,
                             "`--devices` is %lld; a multiple of `autotp_size` %lld is "
                             "expected.",
                             (long long)training.devices, (long long)training.tp);
    training.bucket_mib = (double)bucket * GRADIENT_BYTES / MIB;
    if (training.bucket_mib > LUO_BUCKET_MIB_MAX) training.bucket_mib = LUO_BUCKET_MIB_MAX;
    LUO_TRY(settle(job, doc.root, &training));
    LUO_TRY(convert_plan_file(job, &training));
    return note_unused(job, doc.root);
}
