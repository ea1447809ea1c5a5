/* suite_site.c: GPUs and fabrics by the names that published rows use. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/plan/suite/suite.h"

/* NVLink of a GPU in one direction: datasheets, as kept in stas00/ml-engineering (public code). Of
 * the GH200 nodes 4 GPUs are joined pair by pair, 6 links of 25 GB/s each (NVIDIA HGX GH200 4x). */
static const luo_suite_gpu gpus[] = {
    {"A100-80G-SXM", "a100-80", 300e9}, {"A100-40G-SXM", "a100-40", 300e9},
    {"H100-80G-SXM", "h100", 450e9},    {"H200-141G-SXM", "h200", 450e9},
    {"GH200-96G", "gh200", 450e9},      {"B200-180G-SXM", "b200", 900e9},
    {"V100-16G-SXM", "v100-16", 150e9}, {"V100-32G-SXM", "v100-32", 150e9},
    {"H800-80G-SXM", "h800", 200e9},    {"H20-96G-SXM", "h20", 450e9},
    {"RTX-3090", "rtx-3090", 49.8e9},   {"Titan-RTX", "titan-rtx", 10.8e9},
    {"GH-96", "gh200", 450e9}, /* as Sailor calls it */
    {"RTX-2080", "rtx-2080", 10.8e9}, /* between two of a node: links of eth-easl/sailor */
};

const luo_suite_gpu *luo_suite_gpu_of(const char *name)
{
    for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++)
        if (strcmp(gpus[i].name, name) == 0 || strcasecmp(gpus[i].profile, name) == 0)
            return &gpus[i];
    return NULL;
}

/* Nodes whose rate was measured at the site, or is told by their software's site file. */
static const struct {
    const char *name;
    int32_t nics;
    double node_bytes_per_s;
} sites[] = {
    {"gh200-4x200g", 4, 92.5e9}, /* eth-easl/sailor, links between GH200 nodes */
    {"nvlink5", 0, 0},           /* one node */
};

/* The number before or after the `x` of "ib-hdr200x8", "opa-100x4" and "roce-1600g", in Gbit/s. */
static bool read_fabric(const char *name, luo_suite_fabric *out)
{
    const char *digits = name + strcspn(name, "0123456789");
    char *end;
    const double gbit = strtod(digits, &end);
    if (end == digits || !(gbit > 0)) return false;
    *out = (luo_suite_fabric){.nics = 8, .nic_bytes_per_s = gbit / 8 * 1e9 / 8};
    if (*end == 'g' && !end[1]) return true; /* of the node */
    if (*end != 'x') return false;
    const long n = strtol(end + 1, &end, 10);
    if (n < 1 || n > 64 || *end) return false;
    *out = (luo_suite_fabric){.nics = (int32_t)n, .nic_bytes_per_s = gbit * 1e9 / 8};
    return true;
}

luo_suite_fabric luo_suite_fabric_of(const luo_suite_row *row)
{
    luo_suite_fabric f;
    for (size_t i = 0; i < sizeof sites / sizeof *sites; i++) {
        if (strcmp(row->fabric, sites[i].name) != 0) continue;
        f = (luo_suite_fabric){.nics = sites[i].nics};
        if (f.nics) f.nic_bytes_per_s = sites[i].node_bytes_per_s / f.nics;
        return f;
    }
    if (read_fabric(row->fabric, &f)) {
        f.chosen = strncmp(row->fabric, "opa-", 4) == 0; /* the links are told, not their rate */
        return f;
    }
    const bool old = strncmp(row->gpu, "A100", 4) == 0 || strncmp(row->gpu, "V100", 4) == 0;
    return (luo_suite_fabric){8, old ? 25e9 : 50e9, true};
}

/* Nodes of unlike GPUs: eth-easl/sailor, links between nodes
 * (docs/calibration.md#where-shipped-numbers-come-from). */
double luo_suite_node_rate(const luo_suite_row *row, const luo_suite_gpu *gpu)
{
    if (strcmp(row->fabric, "eth-1g-25g") == 0)
        return strcmp(gpu->profile, "rtx-3090") == 0 ? 0.1148e9 : 2.857e9;
    const luo_suite_fabric f = luo_suite_fabric_of(row);
    return f.nics * f.nic_bytes_per_s;
}
