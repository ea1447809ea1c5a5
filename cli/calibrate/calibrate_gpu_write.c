/* calibrate_gpu_write.c: the profile, the stack and the cluster as files. */
#include <ctype.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "cli/calibrate/calibrate_gpu.h"
#include "core/cost/collective.h"
#include "core/io/io.h"
#include "core/io/read/input_tables.h"

#define GIB 1073741824.0

static void value(luo_str *text, const char *name, double v, const char *provenance,
                  const char *source, bool weak)
{
    luo_str_addf(text, "  - {name: %s, value: %.9g, source: \"%s%s\", provenance: %s}\n", name, v,
                 source, weak ? "; weakly determined" : "", provenance);
}

/* Out of the rows of that file. */
static void put_measured(luo_str *text, const char *name, double v, const char *what,
                         const char *file)
{
    char source[LUO_ERR_PATH];
    snprintf(source, sizeof source, "%s: %s", file, what);
    value(text, name, v, "measured", source, false);
}

/* As given with --profile, with its own source. */
static void known_value(luo_str *text, const luo_gpu_calibration *calibration, const char *name)
{
    for (int32_t i = 0; calibration->known && i < calibration->known->nvalues; i++) {
        const luo_value *value = &calibration->known->values[i];
        char spread[32] = "";
        if (strcmp(value->name, name) != 0) continue;
        if (value->has_spread) snprintf(spread, sizeof spread, ", spread: %.9g", value->spread);
        luo_str_addf(text, "  - {name: %s, value: %.9g, source: \"%s\", provenance: %s%s}\n", name,
                     value->value, value->source, luo_provenance_name(value->provenance), spread);
    }
}

static void peaks(luo_str *text, const luo_gpu_calibration *calibration)
{
    static const char *const names[] = {[LUO_BF16] = "peak_bf16_tflop_per_s",
                                        [LUO_F32] = "peak_f32_tflop_per_s",
                                        [LUO_F64] = "peak_f64_tflop_per_s"};
    for (int d = 0; d < 3; d++) {
        if (!(calibration->fit.peak_flops[d] > 0)) continue;
        const double tflops = 1e-12 * calibration->fit.peak_flops[d];
        if (calibration->fit.peak_measured[d])
            put_measured(text, names[d], tflops, "fastest product", calibration->rows.ops_file);
        else if (calibration->fit.peak_fitted[d])
            value(text, names[d], tflops, "fitted",
                  "what gives the calibration rows of its products the same gemm_ratio", false);
        else
            known_value(text, calibration, names[d]);
    }
}

static void constants(luo_str *text, const luo_gpu_calibration *calibration)
{
    const double launch_us = luo_measured_fact(&calibration->rows, "launch_us", -1);
    char fitted[160];
    snprintf(fitted, sizeof fitted,
             "pattern search over %d calibration rows of op_times, mean |ln error| %.3f",
             calibration->fit.rows, calibration->fit.error);
    for (int i = 0; i < LUO_GPU_PARAMS; i++) {
        const char *name = luo_gpu_param_name((luo_gpu_param)i);
        double given;
        if (calibration->fit.fitted[i])
            value(text, name, calibration->fit.value[i], "fitted", fitted,
                  calibration->fit.weak[i]);
        else if (i == LUO_GPU_LAUNCH && launch_us >= 0)
            put_measured(text, name, launch_us, "empty kernels in a graph",
                         calibration->rows.facts_file);
        else if (calibration->known && luo_profile_value(calibration->known, name, &given))
            known_value(text, calibration, name);
        else
            value(text, name, calibration->fit.value[i], "chosen", "default; nothing was measured",
                  false);
    }
}

static double memory_gib(const luo_gpu_calibration *calibration)
{
    const double bytes = luo_measured_fact(&calibration->rows, "memory_bytes", 0);
    return bytes > 0            ? bytes / GIB
           : calibration->known ? calibration->known->memory_bytes / GIB
                                : 0;
}

static void network(luo_str *text, const luo_gpu_calibration *calibration)
{
    char source[160];
    if (calibration->net_rows == 0) return;
    snprintf(source, sizeof source,
             "grid over %d calibration rows (collectives between nodes), mean |ln error| %.3f",
             calibration->net_rows, calibration->net.error);
    value(text, "net_ratio", calibration->net.net_ratio, "fitted", source, false);
    value(text, "net_half_bytes", calibration->net.net_half_bytes, "fitted", source, false);
    value(text, "net_step_us", 1e6 * calibration->net.net_step_s, "fitted", source, false);
}

/* What plans leave free. Not known from tables alone: then the profile's default stands. */
static void reserved(luo_str *text, const luo_gpu_calibration *calibration)
{
    const double alone = luo_measured_fact(&calibration->rows, "beside_bytes alone", 0);
    const double among = luo_measured_fact(&calibration->rows, "beside_bytes communicators", 0);
    if (alone > 0 || among > 0)
        put_measured(text, "reserved_gib", fmax(alone, among) / GIB,
                     among > 0 ? "used beside tensors: context, code, libraries, communicators"
                               : "used beside tensors by one rank alone: context, code, libraries",
                     calibration->rows.facts_file);
    else
        known_value(text, calibration, "reserved_gib");
}

typedef struct link { /* between two GPUs: the smallest and the largest message */
    double latency_us, gbytes_per_s;
    bool measured;
    const char *by; /* what tells gbytes_per_s, and in which file */
    const char *file;
    double up_gbytes_per_s; /* to the host; 0: not measured */
    bool direct;            /* not through the host */
} link;

/* Where no message was measured: the fastest collective inside a node, by its bandwidth of bus.
 * PCIe carries less than PCIE_MOST, so that what is faster is a link of its own. */
#define PCIE_MOST 64.0
static void link_of_collectives(const luo_gpu_calibration *calibration, link *l)
{
    const luo_measured *measured = &calibration->rows;
    for (int32_t i = 0; i < measured->ncomm; i++) {
        const struct luo_measured_comm *comm = &measured->comm[i];
        if (comm->coll < 0 || comm->nodes != 1 || !(comm->seconds > 0)) continue;
        const double busbw =
            1e-9 * luo_cost_volume(comm->coll, comm->devices) * comm->bytes / comm->seconds;
        l->gbytes_per_s = fmax(l->gbytes_per_s, busbw);
    }
    l->direct = l->gbytes_per_s > PCIE_MOST;
    l->by = "fastest collective inside the node";
    const char *path = calibration->tables[1], *slash = path ? strrchr(path, '/') : NULL;
    l->file = slash ? slash + 1 : path;
}

static link link_of(const luo_gpu_calibration *calibration)
{
    const luo_measured *measured = &calibration->rows;
    link l = {.latency_us = 2};
    double least = HUGE_VAL, most = 0;
    for (int32_t i = 0; i < measured->ncomm; i++) {
        const struct luo_measured_comm *comm = &measured->comm[i];
        if (comm->coll >= 0 || comm->validation || !(comm->seconds > 0)) continue;
        if (comm->bytes < least) l.latency_us = 1e6 * comm->seconds;
        if (comm->bytes > most) l.gbytes_per_s = 1e-9 * comm->bytes / comm->seconds;
        least = fmin(least, comm->bytes);
        most = fmax(most, comm->bytes);
        l.measured = true;
    }
    l.up_gbytes_per_s = luo_measured_fact(measured, "device_to_host_gbytes_per_s", 0);
    l.direct = l.measured && l.gbytes_per_s > 1.5 * l.up_gbytes_per_s;
    l.by = "largest message between two GPUs";
    l.file = measured->messages_file;
    if (!l.measured) link_of_collectives(calibration, &l);
    return l;
}

/* Of the links that tables were measured over, as the cluster has them; nothing is said where the
 * tables do not tell. */
static void links_of_tables(luo_str *text, const luo_gpu_calibration *calibration)
{
    const link l = link_of(calibration);
    if (l.direct)
        put_measured(text, "tables_nvlink_gbytes_per_s", l.gbytes_per_s, l.by, l.file);
    else if (l.measured && l.up_gbytes_per_s > 0)
        put_measured(text, "tables_pcie_gbytes_per_s", l.up_gbytes_per_s,
                     "largest copy to the host", calibration->rows.facts_file);
}

static void values(luo_str *text, const luo_gpu_calibration *calibration)
{
    const double sms = luo_measured_fact(&calibration->rows, "sm_count", 0);
    const bool counted = luo_measured_fact(&calibration->rows, "memory_bytes", 0) > 0;
    luo_str_add(text, "values:\n");
    peaks(text, calibration);
    if (calibration->memory_measured)
        put_measured(text, "memory_gbytes_per_s", 1e-9 * calibration->memory_bytes_per_s,
                     "fastest streaming kernel", calibration->rows.ops_file);
    else
        known_value(text, calibration, "memory_gbytes_per_s");
    if (counted)
        put_measured(text, "memory_gib", memory_gib(calibration), "as the driver says",
                     calibration->rows.facts_file);
    else
        known_value(text, calibration, "memory_gib");
    reserved(text, calibration);
    if (sms > 0)
        put_measured(text, "sm_count", sms, "as the driver says", calibration->rows.facts_file);
    else
        known_value(text, calibration, "sm_count");
    constants(text, calibration);
    network(text, calibration);
    links_of_tables(text, calibration);
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

static int32_t count(const luo_measured *measured, bool validation)
{
    int32_t n = 0;
    for (int32_t i = 0; i < measured->nops; i++) n += measured->ops[i].validation == validation;
    for (int32_t i = 0; i < measured->ncomm; i++) n += measured->comm[i].validation == validation;
    return n;
}

static void profile_text(luo_str *text, const luo_gpu_calibration *calibration, const char *name)
{
    static const char *const kinds[] = {LUO_PROFILE_TABLE_LIST(LUO_WORD_TEXT)};
    char date[32];
    const time_t now = time(NULL);
    struct tm day;
    strftime(date, sizeof date, "%Y-%m-%d", gmtime_r(&now, &day));
    luo_str_addf(text,
                 "# Made by `luoshu calibrate`.\nschema: luoshu.profile/1\nname: %s\n"
                 "kind: gpu\n",
                 name);
    values(text, calibration);
    luo_str_add(text, "tables:\n");
    for (int i = 0; i < 3; i++)
        if (calibration->tables[i])
            luo_str_addf(text, "  - {kind: %s, file: \"%s\"}\n", kinds[i], calibration->tables[i]);
    luo_str_addf(text,
                 "calibrated: {date: \"%s\", device: \"%s\", driver: \"%s\", cuda: \"%s\", "
                 "nccl: \"%s\", rows: %d, validation_rows: %d}\n",
                 date, luo_gpu_name(calibration),
                 luo_gpu_fact_text(&calibration->rows, "driver"),
                 luo_gpu_fact_text(&calibration->rows, "cuda"),
                 luo_gpu_fact_text(&calibration->rows, "nccl"), count(&calibration->rows, false),
                 count(&calibration->rows, true));
}

/* ---- the stack ---- */

static void stack_text(luo_str *text, const luo_gpu_calibration *calibration)
{
    char source[160];
    snprintf(source, sizeof source,
             "pattern search over %d steps (calibration rows of facts), mean |ln error| %.3f",
             calibration->host_rows, calibration->host_error);
    luo_str_add(
        text, "# Made by `luoshu calibrate --backend cuda`: what the host costs this program. All "
              "else is the default.\nschema: luoshu.stack/1\nname: luoshu-cuda\nvalues:\n");
    value(text, "host_launch_us", calibration->host_launch_us, "fitted", source,
          calibration->host_weak[0]);
    value(text, "host_exponent", calibration->host_exponent, "fitted", source,
          calibration->host_weak[1]);
}

/* ---- the cluster ---- */

/* What the tables do not say of the way through PCIe, for the file's first line. */
static const char *chosen_of_pcie(bool rate, bool latency)
{
    if (rate && latency) return "";
    if (rate) return " The latency of PCIe is chosen: nothing was measured.";
    if (latency) return " The bandwidth of PCIe is chosen: nothing was measured.";
    return " Bandwidth and latency of PCIe are chosen: nothing was measured.";
}

/* The way to the host bounds what PCIe carries; 25 where it was not measured. */
static void cluster_text(luo_str *text, const luo_gpu_calibration *calibration, const char *name)
{
    const link l = link_of(calibration);
    const double up = l.up_gbytes_per_s;
    const double disk = luo_measured_fact(&calibration->rows, "disk_write_gbytes_per_s", 0);
    const bool by_pcie = l.measured && !l.direct;
    luo_str_addf(text,
                 "# Made by `luoshu calibrate`: a node of these GPUs.%s\n"
                 "schema: luoshu.cluster/1\nname: %s\nnode_groups:\n  - name: %s\n    nodes: 1\n"
                 "    devices_per_node: %d\n    profile: profile.yaml\n",
                 chosen_of_pcie(up > 0, by_pcie), name, name, calibration->ranks);
    if (l.direct)
        luo_str_addf(text,
                     "    scale_up: {kind: nvswitch, bandwidth_gbytes_per_s: %.9g, latency_us: "
                     "%.6g}\n",
                     l.gbytes_per_s, l.latency_us);
    luo_str_addf(text, "    pcie: {bandwidth_gbytes_per_s: %.9g, latency_us: %.6g}\n",
                 up > 0 ? up : 25, by_pcie ? l.latency_us : 2);
    if (disk > 0) luo_str_addf(text, "    host: {disk_write_gbytes_per_s: %.6g}\n", disk);
}

luo_status luo_gpu_calibration_write(const luo_gpu_calibration *calibration, luo_err *err)
{
    luo_str profile = {0}, stack = {0}, cluster = {0};
    char name[64];
    slug(luo_gpu_name(calibration), name, sizeof name);
    profile_text(&profile, calibration, name);
    LUO_TRY(luo_calibration_file(&profile, calibration->dir, "profile", err));
    if (calibration->host_rows > 0) {
        stack_text(&stack, calibration);
        LUO_TRY(luo_calibration_file(&stack, calibration->dir, "stack", err));
    }
    cluster_text(&cluster, calibration, name);
    return luo_calibration_file(&cluster, calibration->dir, "cluster", err);
}
