/* wire.h: messages of Protocol Buffers as bytes (developers.google.com/protocol-buffers, Encoding).
 *
 * A message is text that grows; a field is appended to it by its number. */
#ifndef LUO_CORE_IO_EXPORT_WIRE_H
#define LUO_CORE_IO_EXPORT_WIRE_H
#include <stdbool.h>
#include <stdint.h>

#include "core/base/str.h"

void wire_varint(luo_str *message, uint64_t v);
void wire_number(luo_str *message, int field, uint64_t v);
void wire_bytes(luo_str *message, int field, const char *at, size_t n);
void wire_text(luo_str *message, int field, const char *text);
/* A list of numbers, packed; nothing if there are none. */
void wire_numbers(luo_str *message, int field, const int64_t *v, int32_t n);
/* A message behind its length, as it stands in a file of several. */
void wire_append(luo_str *file, const luo_str *message);
#endif
