/* input.h: the one way in which files are opened to be read. None waits for ever. */
#ifndef LUO_CORE_IO_DOCUMENT_INPUT_H
#define LUO_CORE_IO_DOCUMENT_INPUT_H
#include "core/base/err.h"

typedef enum luo_input {
    LUO_INPUT_FILE, /* a regular file alone: what other processes open, too, or is mapped */
    LUO_INPUT_READ  /* or a pipe that somebody writes to: a process substitution, /dev/stdin */
} luo_input;

/* Opens path at its beginning, with links followed. A pipe is read to its end, up to
 * LUO_FILE_BYTES, and kept, so that its path can be opened again as a file can. Folders, sockets,
 * devices and pipes that nobody writes to are refused. expected: "a readable file". Errors:
 * LUO_EINPUT; LUO_E2BIG with the path as place; LUO_ENOMEM. Owner: the caller closes *fd. */
luo_status luo_input_open(const char *path, luo_input what, const char *expected, int *fd,
                          luo_err *err);
/* LUO_EINPUT: the system does not let it be read; why is in errno. */
luo_status luo_input_unreadable(const char *path, luo_err *err);
/* LUO_E2BIG: more than LUO_FILE_BYTES. */
luo_status luo_input_too_big(const char *path, luo_err *err);
#endif
