/* calibrate_gpu_write.c: the profile, the stack and the cluster as files. */
#include <ctype.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "cli/calibrate/calibrate_gpu.h"
#include "core/io/io.h"

#define GIB 1073741824.0

static void value(luo_str *s, const char *name, double v, const char *provenance,
                  const char *source, bool weak)
{
    luo_str_addf(s, "  - {name: %s, value: %.9g, source: \"%s%s\", provenance: %s}\n", name, v,
                 source, weak ? "; weakly determined" : "", provenance);
}

/* As given with --profile, with its own source. */
static void known_value(luo_str *s, const luo_gpu_calibration *c, const char *name)
{
    for (int32_t i = 0; c->known && i < c->known->nvalues; i++) {
        static const char *const words[] = {"paper",    "datasheet", "public_code", "reported",
                                            "measured", "fitted",    "chosen"};
        const luo_value *v = &c->known->values[i];
        if (strcmp(v->name, name) == 0)
            value(s, name, v->value, words[v->provenance], v->source, 0);
    }
}

static void peaks(luo_str *s, const luo_gpu_calibration *c)
{
    static const char *const names[] = {[LUO_BF16] = "peak_bf16_tflop_per_s",
                                        [LUO_F32] = "peak_f32_tflop_per_s",
                                        [LUO_F64] = "peak_f64_tflop_per_s"};
    for (int d = 0; d < 3; d++) {
        if (!(c->fit.peak_flops[d] > 0)) continue;
        if (c->fit.peak_measured[d])
            value(s, names[d], 1e-12 * c->fit.peak_flops[d], "measured",
                  "fastest product, or what fits gemm_ratio for this dtype", false);
        else
            known_value(s, c, names[d]);
    }
}

static void constants(luo_str *s, const luo_gpu_calibration *c)
{
    char fitted[160];
    snprintf(fitted, sizeof fitted,
             "pattern search over %d calibration rows of op_times, mean |ln error| %.3f",
             c->fit.rows, c->fit.error);
    for (int i = 0; i < LUO_GPU_PARAMS; i++) {
        const char *name = luo_gpu_param_name((luo_gpu_param)i);
        double given;
        if (!c->fit.fitted[i] && c->known && luo_profile_value(c->known, name, &given))
            known_value(s, c, name);
        else if (c->fit.fitted[i])
            value(s, name, c->fit.value[i], "fitted", fitted, c->fit.weak[i]);
        else if (i == LUO_GPU_LAUNCH)
            value(s, name, c->fit.value[i], "measured", "empty kernels in a graph", false);
        else
            value(s, name, c->fit.value[i], "chosen", "default; nothing was measured", false);
    }
}

static double memory_gib(const luo_gpu_calibration *c)
{
    const double bytes = luo_measured_fact(&c->rows, "memory_bytes", 0);
    return bytes > 0 ? bytes / GIB : c->known ? c->known->memory_bytes / GIB : 0;
}

static void network(luo_str *s, const luo_gpu_calibration *c)
{
    char source[160];
    if (c->net_rows == 0) return;
    snprintf(source, sizeof source,
             "grid over %d calibration rows (collectives between nodes), mean |ln error| %.3f",
             c->net_rows, c->net.error);
    value(s, "net_ratio", c->net.net_ratio, "fitted", source, false);
    value(s, "net_half_bytes", c->net.net_half_bytes, "fitted", source, false);
    value(s, "net_step_us", 1e6 * c->net.net_step_s, "fitted", source, false);
}

/* What plans leave free. Not known from tables alone: then the profile's default stands. */
static void reserved(luo_str *s, const luo_gpu_calibration *c)
{
    const double bytes = fmax(luo_measured_fact(&c->rows, "beside_bytes alone", 0),
                              luo_measured_fact(&c->rows, "beside_bytes communicators", 0));
    if (bytes > 0)
        value(s, "reserved_gib", bytes / GIB, "measured",
              "used beside tensors: context, code, libraries, communicators", false);
    else
        known_value(s, c, "reserved_gib");
}

static void values(luo_str *s, const luo_gpu_calibration *c)
{
    const double sms = luo_measured_fact(&c->rows, "sm_count", 0);
    const bool counted = luo_measured_fact(&c->rows, "memory_bytes", 0) > 0;
    luo_str_add(s, "values:\n");
    peaks(s, c);
    if (c->memory_measured)
        value(s, "memory_gbytes_per_s", 1e-9 * c->memory_bytes_per_s, "measured",
              "fastest streaming kernel", false);
    else
        known_value(s, c, "memory_gbytes_per_s");
    if (counted)
        value(s, "memory_gib", memory_gib(c), "measured", "as the driver says", false);
    else
        known_value(s, c, "memory_gib");
    reserved(s, c);
    if (sms > 0)
        value(s, "sm_count", sms, "measured", "as the driver says", false);
    else
        known_value(s, c, "sm_count");
    constants(s, c);
    network(s, c);
}

/* "NVIDIA H100 80GB HBM3" -> "nvidia_h100_80gb_hbm3". */
static void slug(const char *text, char *out, size_t size)
{
    size_t n = 0;
    for (; *text && n + 1 < size; text++) {
        const bool word = isalnum((unsigned char)*text);
        if (word)
            out[n++] = (char)tolower((unsigned char)*text);
        else if (n && out[n - 1] != '_')
            out[n++] = '_';
    }
    while (n && out[n - 1] == '_') n--;
    out[n] = 0;
    if (n == 0 || !isalpha((unsigned char)out[0])) snprintf(out, size, "gpu");
}

static int32_t count(const luo_measured *m, bool validation)
{
    int32_t n = 0;
    for (int32_t i = 0; i < m->nops; i++) n += m->ops[i].validation == validation;
    for (int32_t i = 0; i < m->ncomm; i++) n += m->comm[i].validation == validation;
    return n;
}

static void profile_text(luo_str *s, const luo_gpu_calibration *c, const char *name)
{
    static const char *const kinds[] = {"op_times", "collective_times", "p2p_times"};
    char date[32];
    const time_t now = time(NULL);
    struct tm day;
    strftime(date, sizeof date, "%Y-%m-%d", gmtime_r(&now, &day));
    luo_str_addf(s,
                 "# Made by `luoshu calibrate`.\nschema: luoshu.profile/1\nname: %s\n"
                 "kind: gpu\n",
                 name);
    values(s, c);
    luo_str_add(s, "tables:\n");
    for (int i = 0; i < 3; i++)
        if (c->tables[i]) luo_str_addf(s, "  - {kind: %s, file: \"%s\"}\n", kinds[i], c->tables[i]);
    luo_str_addf(s,
                 "calibrated: {date: \"%s\", device: \"%s\", driver: \"%s\", cuda: \"%s\", "
                 "nccl: \"%s\", rows: %d, validation_rows: %d}\n",
                 date, luo_gpu_fact_text(&c->rows, "device"), luo_gpu_fact_text(&c->rows, "driver"),
                 luo_gpu_fact_text(&c->rows, "cuda"), luo_gpu_fact_text(&c->rows, "nccl"),
                 count(&c->rows, false), count(&c->rows, true));
}

/* ---- the stack ---- */

static void stack_text(luo_str *s, const luo_gpu_calibration *c)
{
    char source[160];
    snprintf(source, sizeof source,
             "pattern search over %d steps (calibration rows of facts), mean |ln error| %.3f",
             c->host_rows, c->host_error);
    luo_str_add(
        s, "# Made by `luoshu calibrate --backend cuda`: what the host costs this program. All "
           "else is the default.\nschema: luoshu.stack/1\nname: luoshu-cuda\nvalues:\n");
    value(s, "host_launch_us", c->host_launch_us, "fitted", source, c->host_weak[0]);
    value(s, "host_exponent", c->host_exponent, "fitted", source, c->host_weak[1]);
}

/* ---- the cluster ---- */

typedef struct link { /* between two GPUs: the smallest and the largest message */
    double latency_us, gbytes_per_s;
    bool measured;
} link;

static link link_of(const luo_measured *m)
{
    link l = {.latency_us = 2};
    double least = HUGE_VAL, most = 0;
    for (int32_t i = 0; i < m->ncomm; i++) {
        const struct luo_measured_comm *r = &m->comm[i];
        if (r->coll >= 0 || r->validation || !(r->seconds > 0)) continue;
        if (r->bytes < least) l.latency_us = 1e6 * r->seconds;
        if (r->bytes > most) l.gbytes_per_s = 1e-9 * r->bytes / r->seconds;
        least = fmin(least, r->bytes);
        most = fmax(most, r->bytes);
        l.measured = true;
    }
    return l;
}

/* The way to the host bounds what PCIe carries; 25 where it was not measured (a chosen value). */
static void cluster_text(luo_str *s, const luo_gpu_calibration *c, const char *name)
{
    const link l = link_of(&c->rows);
    const double up = luo_measured_fact(&c->rows, "device_to_host_gbytes_per_s", 0);
    const double disk = luo_measured_fact(&c->rows, "disk_write_gbytes_per_s", 0);
    const bool direct = l.measured && l.gbytes_per_s > 1.5 * up;
    luo_str_addf(s,
                 "# Made by `luoshu calibrate --backend cuda`: this node.%s\n"
                 "schema: luoshu.cluster/1\nname: %s\nnode_groups:\n  - name: %s\n    nodes: 1\n"
                 "    devices_per_node: %d\n    profile: profile.yaml\n",
                 up > 0 ? "" : " The PCIe bandwidth is chosen: nothing was measured.", name, name,
                 c->ranks);
    if (direct)
        luo_str_addf(s,
                     "    scale_up: {kind: nvswitch, bandwidth_gbytes_per_s: %.6g, latency_us: "
                     "%.6g}\n",
                     l.gbytes_per_s, l.latency_us);
    luo_str_addf(s, "    pcie: {bandwidth_gbytes_per_s: %.6g, latency_us: %.6g}\n",
                 up > 0 ? up : 25, l.measured && !direct ? l.latency_us : 2);
    if (disk > 0) luo_str_addf(s, "    host: {disk_write_gbytes_per_s: %.6g}\n", disk);
}

luo_status luo_gpu_calibration_write(const luo_gpu_calibration *c, luo_err *err)
{
    luo_str profile = {0}, stack = {0}, cluster = {0};
    char name[64];
    slug(luo_gpu_fact_text(&c->rows, "device"), name, sizeof name);
    profile_text(&profile, c, name);
    LUO_TRY(luo_calibration_file(&profile, c->dir, "profile", err));
    if (c->host_rows > 0) {
        stack_text(&stack, c);
        LUO_TRY(luo_calibration_file(&stack, c->dir, "stack", err));
    }
    cluster_text(&cluster, c, name);
    return luo_calibration_file(&cluster, c->dir, "cluster", err);
}
