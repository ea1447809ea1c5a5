/* chakra_reader.h: reads a Chakra execution trace, by et_def.proto of mlcommons/chakra alone (field
 * numbers, types of attributes as its feeder takes them); it shares nothing with what writes them.
 * What is no trace fails the test. */
#ifndef LUO_TESTS_CHAKRA_READER_H
#define LUO_TESTS_CHAKRA_READER_H
#include "core/base/arena.h"
#include "tests/check_main.h"

typedef struct et_bytes {
    const unsigned char *at, *end;
} et_bytes;

typedef struct et_field {
    int number, wire; /* wire 0: a number; 2: bytes */
    uint64_t value;
    et_bytes bytes;
} et_field;

typedef struct et_node {
    uint64_t id, duration_us;
    int type;
    const char *name, *pg_name;
    int ndep, nctrl; /* of all dependencies; of those that are control ones, which come last */
    uint64_t *dep;
    bool has_cpu_op, has_ops, has_tensor, has_size, has_type, has_src, has_dst, has_tag;
    uint64_t cpu_op, ops, tensor, size, comm_type, src, dst, tag;
} et_node;

typedef struct et_trace {
    const char *version, *programs;
    int64_t rank, device;
    int n;
    et_node *node;
} et_trace;

static inline uint64_t et_varint(et_bytes *b)
{
    uint64_t v = 0;
    for (int shift = 0;; shift += 7) {
        ck_assert_msg(b->at < b->end && shift < 70, "a number that does not end");
        v |= (uint64_t)(*b->at & 0x7f) << shift;
        if (!(*b->at++ & 0x80)) return v;
    }
}

static inline et_bytes et_part(et_bytes *b)
{
    const uint64_t n = et_varint(b);
    ck_assert_msg(n <= (uint64_t)(b->end - b->at), "%llu bytes of %lld", (unsigned long long)n,
                  (long long)(b->end - b->at));
    const et_bytes part = {b->at, b->at + n};
    b->at += n;
    return part;
}

static inline bool et_next(et_bytes *b, et_field *f)
{
    if (b->at == b->end) return false;
    const uint64_t key = et_varint(b);
    *f = (et_field){.number = (int)(key >> 3), .wire = (int)(key & 7)};
    ck_assert_msg(f->number > 0 && (f->wire == 0 || f->wire == 2), "field %d of type %d", f->number,
                  f->wire);
    if (f->wire == 0)
        f->value = et_varint(b);
    else
        f->bytes = et_part(b);
    return true;
}

static inline const char *et_text(luo_arena *a, et_bytes b)
{
    return luo_arena_strndup(a, (const char *)b.at, (size_t)(b.end - b.at));
}

/* An attribute that has its value in the field `number`, which feeders read. */
typedef struct et_attr {
    const char *name;
    et_field value;
} et_attr;

static inline et_attr et_read_attr(luo_arena *a, et_bytes b)
{
    et_attr attr = {0};
    et_field f;
    while (et_next(&b, &f)) {
        if (f.number == 1)
            attr.name = et_text(a, f.bytes);
        else
            attr.value = f;
    }
    ck_assert_ptr_nonnull(attr.name);
    return attr;
}

static inline void et_take(const et_attr *attr, const char *name, int number, bool *has,
                           uint64_t *out)
{
    if (strcmp(attr->name, name) != 0) return;
    ck_assert_msg(attr->value.number == number && attr->value.wire == 0, "%s in field %d", name,
                  attr->value.number);
    ck_assert_msg(!*has, "%s twice", name);
    *has = true;
    *out = attr->value.value;
}

static inline void et_read_node_attr(luo_arena *a, et_node *n, et_bytes b)
{
    const et_attr attr = et_read_attr(a, b);
    et_take(&attr, "is_cpu_op", 27, &n->has_cpu_op, &n->cpu_op);
    et_take(&attr, "num_ops", 9, &n->has_ops, &n->ops);
    et_take(&attr, "tensor_size", 13, &n->has_tensor, &n->tensor);
    et_take(&attr, "comm_size", 9, &n->has_size, &n->size);
    et_take(&attr, "comm_type", 9, &n->has_type, &n->comm_type);
    et_take(&attr, "comm_src", 7, &n->has_src, &n->src);
    et_take(&attr, "comm_dst", 7, &n->has_dst, &n->dst);
    et_take(&attr, "comm_tag", 7, &n->has_tag, &n->tag);
    if (strcmp(attr.name, "pg_name") == 0) {
        ck_assert_int_eq(attr.value.number, 29);
        n->pg_name = et_text(a, attr.value.bytes);
    }
}

static inline void et_read_deps(luo_arena *a, et_node *n, et_bytes b, bool control)
{
    const size_t room = (size_t)n->ndep + (size_t)(b.end - b.at);
    uint64_t *dep = luo_arena_alloc(a, (room + 1) * sizeof *dep);
    if (n->ndep) memcpy(dep, n->dep, (size_t)n->ndep * sizeof *dep);
    n->dep = dep;
    while (b.at < b.end) {
        dep[n->ndep++] = et_varint(&b);
        n->nctrl += control;
    }
}

static inline et_node et_read_node(luo_arena *a, et_bytes b)
{
    et_node n = {0};
    et_field f;
    while (et_next(&b, &f)) {
        if (f.number == 1)
            n.id = f.value;
        else if (f.number == 2)
            n.name = et_text(a, f.bytes);
        else if (f.number == 3)
            n.type = (int)f.value;
        else if (f.number == 4)
            et_read_deps(a, &n, f.bytes, true);
        else if (f.number == 5)
            et_read_deps(a, &n, f.bytes, false);
        else if (f.number == 7)
            n.duration_us = f.value;
        else if (f.number == 10)
            et_read_node_attr(a, &n, f.bytes);
        else
            ck_abort_msg("field %d of a node", f.number);
    }
    return n;
}

static inline et_trace et_read(luo_arena *a, const char *text, size_t bytes)
{
    et_bytes file = {(const unsigned char *)text, (const unsigned char *)text + bytes};
    et_bytes head = et_part(&file);
    et_trace t = {.rank = -1, .device = -1};
    et_field f;
    int room = 0;
    while (et_next(&head, &f)) {
        if (f.number == 1) t.version = et_text(a, f.bytes);
        if (f.number != 2) continue;
        const et_attr attr = et_read_attr(a, f.bytes);
        if (strcmp(attr.name, "rank") == 0) t.rank = (int64_t)attr.value.value;
        if (strcmp(attr.name, "device") == 0) t.device = (int64_t)attr.value.value;
        if (strcmp(attr.name, "programs") == 0) t.programs = et_text(a, attr.value.bytes);
    }
    while (file.at < file.end) {
        if (t.n == room) {
            const size_t old = (size_t)room * sizeof *t.node;
            t.node = luo_arena_grow(a, t.node, old, 2 * old + 64 * sizeof *t.node);
            room = 2 * room + 64;
        }
        t.node[t.n++] = et_read_node(a, et_part(&file));
    }
    return t;
}
#endif
