/* libraries.h: versions of the file libraries this build uses. */
#ifndef LUO_CORE_IO_LIBRARIES_H
#define LUO_CORE_IO_LIBRARIES_H

/* "jansson 2.14, zlib 1.2.13, ..": one constant line. */
extern const char *const luo_io_libraries;
#endif
