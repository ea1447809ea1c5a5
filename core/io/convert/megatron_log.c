/* megatron_log.c: what Megatron-LM prints: its arguments, and the times of its iterations. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/stats.h"
#include "core/base/vec.h"
#include "core/io/convert/flags.h"
#include "core/io/recorded/run_files.h"

enum { WARM_UP = 2 }; /* iterations that are left out where there are more than twice as many */

typedef struct steps {
    convert_job *job;
    recorded_iteration *at;
    int64_t n, cap;
    double tflops; /* sum of those that were printed */
    int64_t ntflops;
    double memory_mb; /* most that a rank had allocated; 0: not printed */
    int64_t global_batch;
} steps;

/* The number behind a key in a line; false: the key is not there. */
static bool number_behind(const char *line, size_t n, const char *key, double *out)
{
    const char *at = memmem(line, n, key, strlen(key));
    char text[40];
    if (!at) return false;
    at += strlen(key);
    const size_t rest = (size_t)(line + n - at), len = rest < 39 ? rest : 39;
    memcpy(text, at, len);
    text[len] = 0;
    char *end;
    *out = strtod(text, &end);
    return end != text && isfinite(*out) && *out >= 0;
}

static luo_status take_line(steps *s, const char *line, size_t n)
{
    double v;
    if (number_behind(line, n, "| max allocated:", &v) && v > s->memory_mb) s->memory_mb = v;
    if (!number_behind(line, n, "elapsed time per iteration (ms):", &v) || v <= 0) return LUO_OK;
    if (!LUO_VEC_ROOM_IN(s->job->arena, s->at, s->n, s->cap)) return convert_nomem(s->job);
    recorded_iteration *one = &s->at[s->n++];
    *one = (recorded_iteration){1e-3 * v, NAN, NAN};
    if (number_behind(line, n, "lm loss:", &v)) one->loss = v;
    if (number_behind(line, n, "grad norm:", &v)) one->grad_norm = v;
    if (number_behind(line, n, "throughput per GPU (TFLOP/s/GPU):", &v)) {
        s->tflops += v;
        s->ntflops++;
    }
    if (number_behind(line, n, "global batch size:", &v)) s->global_batch = (int64_t)v;
    return LUO_OK;
}

static luo_status read_steps(steps *s)
{
    const char *stop = s->job->src.text + s->job->src.len;
    for (const char *at = s->job->src.text; at < stop;) {
        const char *nl = memchr(at, '\n', (size_t)(stop - at)), *end = nl ? nl : stop;
        LUO_TRY(take_line(s, at, (size_t)(end - at)));
        at = end + 1;
    }
    if (s->n) return LUO_OK;
    return convert_error(s->job, 0, 0,
                         "no line has `elapsed time per iteration (ms):`; what "
                         "Megatron-LM prints is expected.");
}

/* Without those of the beginning: how many are left out. */
static int64_t warm_up(const steps *s)
{
    return s->n > 2 * WARM_UP ? WARM_UP : 0;
}

/* Median step; 0: out of memory. */
static double median_s(const steps *s)
{
    const int64_t skip = warm_up(s), n = s->n - skip;
    double *sorted = LUO_NEW_N(s->job->arena, double, n);
    if (!sorted) return 0;
    for (int64_t i = 0; i < n; i++) sorted[i] = s->at[skip + i].step_s;
    luo_stats_sort(sorted, n);
    return luo_stats_quantile(sorted, n, 0.5);
}

/* ---- a row of a suite ---- */

static void put(luo_str *text, int64_t v)
{
    if (v) luo_str_addi(text, v);
    luo_str_addc(text, ',');
}

static void put_network(luo_str *text, const convert_network *network)
{
    luo_str_add(text, "imported,");
    put(text, network->layers);
    put(text, network->hidden);
    put(text, network->heads);
    put(text, network->kv_heads);
    put(text, network->ffn_hidden);
    put(text, network->vocab);
}

static luo_status put_row(steps *s, const convert_training *training, luo_str *text, double step_s)
{
    static const char *const recomputes[] = {"none", "selective", "full"};
    const int64_t gpus = training->devices ? training->devices : s->job->opts->devices;
    luo_str_addf(text, "log-1,val,imported,megatron-core,,%s,%lld,%lld,,", s->job->opts->profile,
                 (long long)gpus, (long long)(gpus < 8 ? gpus : 8));
    if (gpus > 8)
        convert_note(s->job, LUO_NOTE,
                     "the log does not say how many GPUs a node has; 8 are taken.");
    if (!training->network.layers) {
        luo_str_addf(text, ",,,,,,,,,,,,,,,%lld,,,,,,", (long long)s->global_batch);
    } else {
        put_network(text, &training->network);
        luo_str_addf(text, "%lld,bf16,%lld,%lld,%lld,%lld,%lld,%lld,%lld,%d,%s,%lld,,,",
                     (long long)training->sequence_tokens, (long long)training->tp,
                     (long long)training->pp, (long long)training->chunks, (long long)training->dp,
                     (long long)training->cp, (long long)training->micro_batch,
                     (long long)training->global_batch, training->sequence_parallel,
                     recomputes[training->recompute], (long long)training->zero);
    }
    luo_str_addf(text, "%.6g,measured,,", step_s);
    if (s->memory_mb > 0) luo_str_addf(text, "%.0f", s->memory_mb * 1048576);
    luo_str_addc(text, ',');
    if (s->ntflops) luo_str_addf(text, "%.6g", s->tflops / (double)s->ntflops);
    luo_str_add(text, ",log,,");
    if (training->network.experts)
        luo_str_addf(text, "%lld,%lld,%lld,%lld,%lld,%lld", (long long)training->ep,
                     (long long)training->network.experts,
                     (long long)training->network.experts_per_token,
                     (long long)training->network.expert_ffn_hidden,
                     (long long)training->network.shared_ffn_hidden,
                     (long long)training->network.first_dense_layers);
    else
        luo_str_add(text, ",,,,,");
    luo_str_addc(text, '\n');
    return LUO_OK;
}

static luo_status write_row(steps *s, const convert_training *training, double step_s)
{
    luo_str text = {0};
    luo_str_add(
        &text, "id,split,suite,system,date,gpu,gpus,gpus_per_node,fabric,model,layers,hidden,heads,"
               "kv_heads,ffn,vocab,seq,precision,tp,pp,vpp,dp,cp,mbs,gbs,sp,recompute,zero,"
               "layers_per_stage,stage_devices,step_s,step_kind,grad_reduce_s,mem_bytes,"
               "tflops_gpu,source,note,ep,experts,topk,moe_ffn,shared_ffn,dense_layers\n");
    LUO_TRY(put_row(s, training, &text, step_s));
    return convert_add(s->job, "measured.csv", &text);
}

static luo_status read_arguments(convert_job *job, convert_training *training)
{
    convert_flags flags = {.job = job};
    LUO_TRY(convert_flags_log(&flags));
    if (!convert_flags_use(&flags, "num_layers")) return LUO_OK;
    LUO_TRY(convert_megatron(&flags, training));
    LUO_TRY(convert_network_file(job, &training->network));
    return convert_plan_file(job, training);
}

/* With --run: the iterations as a run. */
static luo_status write_run(const steps *s, const convert_training *training)
{
    const int64_t skip = warm_up(s),
                  sequences = training->global_batch ? training->global_batch : s->global_batch,
                  length = training->sequence_tokens ? training->sequence_tokens
                                                     : s->job->opts->sequence_tokens;
    if (!s->job->opts->run) return LUO_OK;
    if (!sequences)
        return convert_error(s->job, 0, 0,
                             "no line says the `global batch size:`, which a run has.");
    if (!length)
        return convert_usage(s->job, "`--seq-length` is missing: the log does not say how long the "
                                     "sequences of the run are.");
    return recorded_run_add(
        s->job,
        &(recorded_run){.at = s->at + skip,
                        .n = s->n - skip,
                        .sequences = sequences,
                        .tokens = sequences * length,
                        .devices = training->devices ? training->devices : s->job->opts->devices});
}

luo_status convert_megatron_log(convert_job *job)
{
    steps s = {.job = job};
    convert_training training = {0};
    LUO_TRY(read_steps(&s));
    if (!job->opts->profile)
        return convert_usage(job, "`--profile` is missing: the log does not say which GPU it was; "
                                  "the name of a profile, such as h100, is expected.");
    LUO_TRY(read_arguments(job, &training));
    if (!training.devices && !job->opts->devices)
        return convert_usage(job, "`--devices` is missing: the log does not say how many GPUs "
                                  "there were.");
    const double step_s = median_s(&s);
    if (step_s <= 0) return convert_nomem(job);
    LUO_TRY(write_row(&s, &training, step_s));
    LUO_TRY(write_run(&s, &training));
    return convert_say(job, "a step of %.6g s (median of %lld), global batch %lld", step_s,
                       (long long)(s.n - warm_up(&s)),
                       (long long)(training.global_batch ? training.global_batch : s.global_batch));
}
