/* chakra.h: nodes of a Chakra execution trace (et_def.proto of mlcommons/chakra); for chakra*.c
 * and for those who read such traces. */
#ifndef LUO_CORE_IO_EXPORT_CHAKRA_H
#define LUO_CORE_IO_EXPORT_CHAKRA_H
#include <stdint.h>

#include "core/base/str.h"

#define CHAKRA_VERSION "0.0.4"

enum { /* GlobalMetadata */
       CHAKRA_META_VERSION = 1,
       CHAKRA_META_ATTR = 2
};
enum { /* Node */
       CHAKRA_ID = 1,
       CHAKRA_NAME = 2,
       CHAKRA_TYPE = 3,
       CHAKRA_CTRL_DEPS = 4,
       CHAKRA_DATA_DEPS = 5,
       CHAKRA_DURATION_US = 7,
       CHAKRA_ATTR = 10
};
enum { /* AttributeProto: its name, and which of its values it has */
       CHAKRA_ATTR_NAME = 1,
       CHAKRA_INT32 = 7,
       CHAKRA_INT64 = 9,
       CHAKRA_UINT64 = 13,
       CHAKRA_BOOL = 27,
       CHAKRA_STRING = 29
};
typedef enum chakra_type {
    CHAKRA_COMP = 4,
    CHAKRA_SEND = 5,
    CHAKRA_RECV = 6,
    CHAKRA_COLL = 7
} chakra_type;
typedef enum chakra_coll {
    CHAKRA_ALL_REDUCE = 0,
    CHAKRA_ALL_GATHER = 2,
    CHAKRA_BROADCAST = 5,
    CHAKRA_ALL_TO_ALL = 6,
    CHAKRA_REDUCE_SCATTER = 7
} chakra_coll;

typedef struct chakra_node {
    int64_t id; /* above 0 */
    const char *name;
    chakra_type type;
    int32_t nctrl, ndata;
    const int64_t *ctrl, *data; /* ids */
    uint64_t duration_us;
    int64_t flops;         /* COMP */
    int64_t bytes;         /* COMP: of the operands; else of the transfer */
    chakra_coll coll;      /* COLL .. */
    const char *pg_name;   /* .. and its group */
    int32_t src, dst, tag; /* SEND, RECV: ranks; what both ends call the message */
} chakra_node;

/* Begins a trace: of rank, which is that device of the plan, from the programs of that hash. */
void chakra_put_head(luo_str *file, int32_t rank, int32_t device, uint64_t programs);
void chakra_put_node(luo_str *file, const chakra_node *node);
#endif
