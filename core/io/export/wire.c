#include "core/io/export/wire.h"

#include <string.h>

enum { VARINT = 0, BYTES = 2 }; /* types of fields */

void wire_varint(luo_str *message, uint64_t v)
{
    for (; v >= 0x80; v >>= 7) luo_str_addc(message, (char)(v | 0x80));
    luo_str_addc(message, (char)v);
}

static void put_tag(luo_str *message, int field, int type)
{
    wire_varint(message, (uint64_t)field << 3 | (uint64_t)type);
}

void wire_number(luo_str *message, int field, uint64_t v)
{
    put_tag(message, field, VARINT);
    wire_varint(message, v);
}

void wire_bytes(luo_str *message, int field, const char *at, size_t n)
{
    put_tag(message, field, BYTES);
    wire_varint(message, n);
    luo_str_addn(message, at, n);
}

void wire_text(luo_str *message, int field, const char *text)
{
    wire_bytes(message, field, text, strlen(text));
}

void wire_numbers(luo_str *message, int field, const int64_t *v, int32_t n)
{
    luo_str list = {0};
    for (int32_t i = 0; i < n; i++) wire_varint(&list, (uint64_t)v[i]);
    if (n > 0) wire_bytes(message, field, luo_str_get(&list), list.len);
    message->failed |= list.failed;
    luo_str_free(&list);
}

void wire_append(luo_str *file, const luo_str *message)
{
    wire_varint(file, message->len);
    luo_str_addn(file, luo_str_get(message), message->len);
    file->failed |= message->failed;
}
