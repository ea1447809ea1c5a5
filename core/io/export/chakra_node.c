#include "core/io/export/chakra.h"

#include "core/base/hash.h"
#include "core/io/export/wire.h"

static void put_number(luo_str *message, int at, const char *name, int field, int64_t v)
{
    luo_str attr = {0};
    wire_text(&attr, CHAKRA_ATTR_NAME, name);
    wire_number(&attr, field, (uint64_t)v);
    wire_bytes(message, at, luo_str_get(&attr), attr.len);
    message->failed |= attr.failed;
    luo_str_free(&attr);
}

static void put_text(luo_str *message, int at, const char *name, const char *v)
{
    luo_str attr = {0};
    wire_text(&attr, CHAKRA_ATTR_NAME, name);
    wire_text(&attr, CHAKRA_STRING, v);
    wire_bytes(message, at, luo_str_get(&attr), attr.len);
    message->failed |= attr.failed;
    luo_str_free(&attr);
}

void chakra_put_head(luo_str *file, int32_t rank, int32_t device, uint64_t programs)
{
    luo_str head = {0};
    char hash[17];
    wire_text(&head, CHAKRA_META_VERSION, CHAKRA_VERSION);
    put_number(&head, CHAKRA_META_ATTR, "rank", CHAKRA_INT64, rank);
    put_number(&head, CHAKRA_META_ATTR, "device", CHAKRA_INT64, device);
    put_text(&head, CHAKRA_META_ATTR, "programs", luo_hash_print(programs, hash));
    wire_append(file, &head);
    luo_str_free(&head);
}

static void put_work(luo_str *message, const chakra_node *node)
{
    put_number(message, CHAKRA_ATTR, "num_ops", CHAKRA_INT64, node->flops);
    put_number(message, CHAKRA_ATTR, "tensor_size", CHAKRA_UINT64, node->bytes);
}

static void put_transfer(luo_str *message, const chakra_node *node)
{
    put_number(message, CHAKRA_ATTR, "comm_size", CHAKRA_INT64, node->bytes);
    if (node->type == CHAKRA_COLL) {
        put_number(message, CHAKRA_ATTR, "comm_type", CHAKRA_INT64, node->coll);
        put_text(message, CHAKRA_ATTR, "pg_name", node->pg_name);
        return;
    }
    put_number(message, CHAKRA_ATTR, "comm_src", CHAKRA_INT32, node->src);
    put_number(message, CHAKRA_ATTR, "comm_dst", CHAKRA_INT32, node->dst);
    put_number(message, CHAKRA_ATTR, "comm_tag", CHAKRA_INT32, node->tag);
}

void chakra_put_node(luo_str *file, const chakra_node *node)
{
    luo_str message = {0};
    wire_number(&message, CHAKRA_ID, (uint64_t)node->id);
    wire_text(&message, CHAKRA_NAME, node->name);
    wire_number(&message, CHAKRA_TYPE, (uint64_t)node->type);
    wire_numbers(&message, CHAKRA_CTRL_DEPS, node->ctrl, node->nctrl);
    wire_numbers(&message, CHAKRA_DATA_DEPS, node->data, node->ndata);
    if (node->duration_us > 0) wire_number(&message, CHAKRA_DURATION_US, node->duration_us);
    put_number(&message, CHAKRA_ATTR, "is_cpu_op", CHAKRA_BOOL, 0);
    if (node->type == CHAKRA_COMP)
        put_work(&message, node);
    else
        put_transfer(&message, node);
    wire_append(file, &message);
    luo_str_free(&message);
}
