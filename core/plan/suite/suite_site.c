/* suite_site.c: GPUs and fabrics by the names that published rows use. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/plan/suite/suite.h"

/* Links of a GPU in one direction: datasheets, as kept in stas00/ml-engineering (public code), and
 * sources of the profiles. Of the GH200 nodes 4 GPUs are joined pair by pair, 6 links of 25 GB/s
 * each (NVIDIA HGX GH200 4x). MI300X: 7 links of 64 GB/s; MI250X: a ring over all dies goes over
 * single links. Without NVLink: PCIe x16 of the third (T4) or fourth generation. */
static const luo_suite_gpu gpus[] = {
    {"A100-80G-SXM", "a100-80", 300e9, 0},
    {"A100-40G-SXM", "a100-40", 300e9, 0},
    {"A800-80G-SXM", "a800", 200e9, 0},
    {"H100-80G-SXM", "h100", 450e9, 0},
    {"H100-GT", "h100-96", 450e9, 0}, /* Grand Teton, as torchtitan has it */
    {"H200-141G-SXM", "h200", 450e9, 0},
    {"GH200-96G", "gh200", 450e9, 0},
    {"B200-180G-SXM", "b200", 900e9, 0},
    {"B300-288G-SXM", "b300", 900e9, 0},
    {"GB200-186G", "gb200", 900e9, 0},
    {"GB300-279G", "gb300", 900e9, 0},
    {"V100-16G-SXM", "v100-16", 150e9, 0},
    {"V100-32G-SXM", "v100-32", 150e9, 0},
    {"H800-80G-SXM", "h800", 200e9, 0},
    {"H20-96G-SXM", "h20", 450e9, 0},
    {"MI250X-64G", "mi250x", 50e9, 0},
    {"MI300X-192G", "mi300x", 448e9, 0},
    {"T4-16G", "t4", 0, 16e9},
    {"A10-24G", "a10", 0, 32e9},
    {"L4-24G", "l4", 0, 32e9},
    {"L40S-48G", "l40s", 0, 32e9},
    {"RTX-4090-24G", "rtx-4090", 0, 32e9},
    {"RTX-3080-10G", "rtx-3080", 0, 32e9},
    {"RTX-3090", "rtx-3090", 49.8e9, 0},
    {"Titan-RTX", "titan-rtx", 10.8e9, 0},
    {"GH-96", "gh200", 450e9, 0},        /* as Sailor calls it */
    {"RTX-2080", "rtx-2080", 10.8e9, 0}, /* between two of a node: links of eth-easl/sailor */
};

const luo_suite_gpu *luo_suite_gpu_of(const char *name)
{
    for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++)
        if (strcmp(gpus[i].name, name) == 0 || strcasecmp(gpus[i].profile, name) == 0)
            return &gpus[i];
    return NULL;
}

const char *luo_suite_software(const luo_suite_row *row)
{
    if (strstr(row->note, "PaddlePaddle")) return "paddle";
    if (strcmp(row->system, "fsdp") == 0 && strstr(row->note, "compile")) return "fsdp-compile";
    return row->system;
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

/* "8x25": NICs of a node of up to 8 GPUs, and GB/s of each. */
static bool read_cards(const luo_suite_row *row, luo_suite_fabric *out)
{
    char *end;
    const long n = strtol(row->fabric, &end, 10);
    if (end == row->fabric || *end != 'x' || n < 1 || n > 64) return false;
    const char *rate = end + 1;
    const double gbytes = strtod(rate, &end);
    if (end == rate || *end || !(gbytes > 0 && gbytes <= 1e6)) return false;
    const bool rack = row->gpus_per_node > 8;
    *out = (luo_suite_fabric){rack ? row->gpus_per_node : (int32_t)n, gbytes * 1e9, rack};
    return true;
}

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
    luo_suite_fabric fabric;
    for (size_t i = 0; i < sizeof sites / sizeof *sites; i++) {
        if (strcmp(row->fabric, sites[i].name) != 0) continue;
        fabric = (luo_suite_fabric){.nics = sites[i].nics};
        if (fabric.nics) fabric.nic_bytes_per_s = sites[i].node_bytes_per_s / fabric.nics;
        return fabric;
    }
    if (read_cards(row, &fabric)) return fabric;
    if (read_fabric(row->fabric, &fabric)) {
        fabric.chosen =
            strncmp(row->fabric, "opa-", 4) == 0; /* the links are told, not their rate */
        return fabric;
    }
    static const char *const before_h100[] = {"A100", "A800", "A10", "V100", "T4", "MI250"};
    bool old = false;
    for (size_t i = 0; i < sizeof before_h100 / sizeof *before_h100; i++)
        old = old || strncmp(row->gpu, before_h100[i], strlen(before_h100[i])) == 0;
    return (luo_suite_fabric){8, old ? 25e9 : 50e9, true};
}

/* Nodes of unlike GPUs: eth-easl/sailor, links between nodes
 * (docs/calibration.md#where-shipped-numbers-come-from). */
double luo_suite_node_rate(const luo_suite_row *row, const luo_suite_gpu *gpu)
{
    if (strcmp(row->fabric, "eth-1g-25g") == 0)
        return strcmp(gpu->profile, "rtx-3090") == 0 ? 0.1148e9 : 2.857e9;
    const luo_suite_fabric fabric = luo_suite_fabric_of(row);
    return fabric.nics * fabric.nic_bytes_per_s;
}
