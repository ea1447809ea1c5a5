/* wire.h: framed messages between the coordinator and its ranks, over a stream socket.
 *
 * A frame is a mark, a kind, the length of its payload, the payload. A payload is a sequence of
 * 64-bit integers, doubles and texts, all little endian; reader and writer agree on the order
 * (exec/message.h). Whatever arrives, reading ends with a value or with `failed`.
 */
#ifndef LUO_EXEC_WIRE_H
#define LUO_EXEC_WIRE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

/* A payload. {0} is an empty one; memory from malloc, it grows as needed. */
typedef struct luo_wire {
    unsigned char *at;
    size_t len, cap;
    size_t pos;  /* of the next value to read */
    bool failed; /* writing: no memory; reading: a value was missing or wrong */
} luo_wire;

void luo_wire_clear(luo_wire *wire); /* keeps the memory */
void luo_wire_free(luo_wire *wire);

void luo_wire_put_int(luo_wire *wire, int64_t v);
void luo_wire_put_num(luo_wire *wire, double v);
void luo_wire_put_text(luo_wire *wire, const char *text); /* NULL is kept apart from "" */
void luo_wire_put_bytes(luo_wire *wire, const void *data, size_t n);

/* After a failure they return 0 and NULL. */
int64_t luo_wire_int(luo_wire *wire);
/* lo..hi, else the payload has failed. */
int64_t luo_wire_int_in(luo_wire *wire, int64_t lo, int64_t hi);
double luo_wire_num(luo_wire *wire);
const char *luo_wire_text(luo_wire *wire); /* in the payload, ended by 0 */
/* Whether n items of `bytes` bytes each can still follow: to be asked before room is made. */
bool luo_wire_has(luo_wire *wire, int64_t n, size_t bytes);

/* ---- frames ---- */

enum { LUO_WIRE_LIMIT = 1 << 30 }; /* bytes of a payload */

/* Writes a whole frame; blocks.
 * Errors: LUO_EPEER the other side is gone; LUO_ETIMEOUT the socket's send time-out; LUO_ENOMEM
 * the payload had failed; LUO_E2BIG above LUO_WIRE_LIMIT. payload NULL: empty. */
luo_status luo_wire_send(int fd, int32_t kind, const luo_wire *payload, luo_err *err);

/* What has arrived on one socket and not been read. {.limit = n}: longer payloads are refused. */
typedef struct luo_wire_in {
    unsigned char *at;
    size_t len, cap, used, limit;
} luo_wire_in;

/* Reads what is there without waiting for more.
 * Errors: LUO_EPEER closed or reset by the other side; LUO_ENOMEM. */
luo_status luo_wire_read(luo_wire_in *in, int fd, luo_err *err);
/* The next whole frame: *out is a view that lives until the next read. *got false: none is whole
 * yet. Errors: LUO_EPARSE what arrived is no frame, or above the limit. */
luo_status luo_wire_next(luo_wire_in *in, bool *got, int32_t *kind, luo_wire *out, luo_err *err);
void luo_wire_in_free(luo_wire_in *in);

/* ---- sockets; all are closed on exec ---- */

/* Listens on a free port of an IPv4 address of this host. Errors: LUO_EBACKEND. */
luo_status luo_wire_listen(const char *address, int *fd, int *port, luo_err *err);
/* Connects to "HOST:PORT". Errors: LUO_EINPUT not of that form; LUO_EPEER nobody answers. */
luo_status luo_wire_connect(const char *address, int *fd, luo_err *err);
/* A connection that came in, with sends limited to so many seconds. -1: none. */
int luo_wire_accept(int fd, double send_s);
#endif
