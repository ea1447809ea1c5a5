/* checksum.h: CRC-32 (ISO 3309, as zlib computes it) of bytes that are written to files. */
#ifndef LUO_CORE_IO_CHECKSUM_H
#define LUO_CORE_IO_CHECKSUM_H
#include <stddef.h>
#include <stdint.h>

/* Of bytes behind those whose checksum is `before`; 0: of none. Parts give what the whole gives. */
uint32_t luo_checksum(uint32_t before, const void *bytes, size_t n);
#endif
