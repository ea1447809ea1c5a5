/* node.h: a node with its GPUs, as tools that look at machines describe it, as cluster.yaml. */
#ifndef LUO_CORE_IO_CONVERT_NODE_H
#define LUO_CORE_IO_CONVERT_NODE_H
#include "core/io/convert/convert_internal.h"

enum { CONVERT_SLOTS = 64 };
typedef struct convert_node {
    int32_t devices, nics, sockets, devices_per_switch; /* of a switch 0: all */
    int32_t lanes[CONVERT_SLOTS][CONVERT_SLOTS];        /* NVLinks between two devices; 0: none */
    int32_t port_lanes; /* of a device to a switch of NVLinks; 0: see lanes */
    double lane_gbytes_per_s, pcie_gbytes_per_s, nic_gbytes_per_s; /* 0: not known */
    double nic_latency_us;                                         /* 0: not known */
} convert_node;

/* cluster.yaml of one such node. What the source does not know is taken from the kind of GPU that
 * --profile names, and told in one note. Errors: LUO_EUSAGE no --profile; a GPU whose NVLink is not
 * known. */
luo_status convert_node_file(convert_job *job, const convert_node *node);
#endif
