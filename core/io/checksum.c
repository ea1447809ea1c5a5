#include "core/io/checksum.h"

#include <zlib.h>

uint32_t luo_checksum(uint32_t before, const void *bytes, size_t n)
{
    return (uint32_t)crc32_z(before, bytes, n);
}
