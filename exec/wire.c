#include "exec/wire.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/io/files.h"

enum { MARK = 0x316f756c, HEAD = 16 }; /* "luo1" */

/* ---- payloads ---- */

void luo_wire_clear(luo_wire *wire)
{
    wire->len = wire->pos = 0;
    wire->failed = false;
}

void luo_wire_free(luo_wire *wire)
{
    free(wire->at);
    *wire = (luo_wire){0};
}

void luo_wire_put_bytes(luo_wire *wire, const void *data, size_t n)
{
    if (wire->failed || n == 0) return;
    if (n > wire->cap - wire->len) {
        size_t cap = wire->cap ? wire->cap : 256;
        while (cap - wire->len < n && cap < ((size_t)1 << 40)) cap *= 2;
        unsigned char *more = cap - wire->len < n ? NULL : realloc(wire->at, cap);
        if (!more) {
            wire->failed = true;
            return;
        }
        wire->at = more;
        wire->cap = cap;
    }
    memcpy(wire->at + wire->len, data, n);
    wire->len += n;
}

void luo_wire_put_int(luo_wire *wire, int64_t v)
{
    const uint64_t u = htole64((uint64_t)v);
    luo_wire_put_bytes(wire, &u, sizeof u);
}

void luo_wire_put_num(luo_wire *wire, double v)
{
    int64_t bits;
    memcpy(&bits, &v, sizeof bits);
    luo_wire_put_int(wire, bits);
}

void luo_wire_put_text(luo_wire *wire, const char *text)
{
    luo_wire_put_int(wire, text ? (int64_t)strlen(text) : -1);
    if (text) luo_wire_put_bytes(wire, text, strlen(text) + 1);
}

static const unsigned char *take(luo_wire *wire, size_t n)
{
    if (wire->failed || n > wire->len - wire->pos) {
        wire->failed = true;
        return NULL;
    }
    wire->pos += n;
    return wire->at + wire->pos - n;
}

int64_t luo_wire_int(luo_wire *wire)
{
    uint64_t u;
    const unsigned char *at = take(wire, sizeof u);
    if (!at) return 0;
    memcpy(&u, at, sizeof u);
    return (int64_t)le64toh(u);
}

int64_t luo_wire_int_in(luo_wire *wire, int64_t lo, int64_t hi)
{
    const int64_t v = luo_wire_int(wire);
    if (v >= lo && v <= hi) return v;
    wire->failed = true;
    return 0;
}

double luo_wire_num(luo_wire *wire)
{
    const int64_t bits = luo_wire_int(wire);
    double v;
    memcpy(&v, &bits, sizeof v);
    return wire->failed ? 0 : v;
}

const char *luo_wire_text(luo_wire *wire)
{
    const int64_t n = luo_wire_int(wire);
    if (wire->failed || n == -1) return NULL;
    const unsigned char *at = n >= 0 && n < LUO_WIRE_LIMIT ? take(wire, (size_t)n + 1) : NULL;
    if (at && at[n] == 0 && !memchr(at, 0, (size_t)n)) return (const char *)at;
    wire->failed = true;
    return NULL;
}

bool luo_wire_has(luo_wire *wire, int64_t n, size_t bytes)
{
    if (!wire->failed && n >= 0 && (uint64_t)n <= (wire->len - wire->pos) / bytes) return true;
    wire->failed = true;
    return false;
}

/* ---- frames ---- */

static luo_status send_all(int fd, const void *data, size_t n, int more, luo_err *err)
{
    for (const char *at = data; n > 0;) {
        const ssize_t did = send(fd, at, n, MSG_NOSIGNAL | more);
        if (did < 0 && errno == EINTR) continue;
        if (did < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return luo_err_set(err, LUO_ETIMEOUT,
                               "the other side takes no messages.");
        if (did <= 0)
            return luo_err_set(err, LUO_EPEER, "the other side is gone.");
        at += did;
        n -= (size_t)did;
    }
    return LUO_OK;
}

luo_status luo_wire_send(int fd, int32_t kind, const luo_wire *payload, luo_err *err)
{
    const size_t n = payload ? payload->len : 0;
    if (payload && payload->failed) return luo_err_nomem(err);
    if (n > LUO_WIRE_LIMIT)
        return luo_err_set(err, LUO_E2BIG, "a message has %zu bytes; at most %d are expected.", n,
                           LUO_WIRE_LIMIT);
    uint32_t head[4] = {htole32(MARK), htole32((uint32_t)kind), htole32((uint32_t)n), 0};
    LUO_TRY(send_all(fd, head, HEAD, n ? MSG_MORE : 0, err));
    return n ? send_all(fd, payload->at, n, 0, err) : LUO_OK;
}

/* Room for at least one more byte; frames that were taken are dropped first. At most one frame more
 * than the limit is held: whoever sends more waits until it was taken. */
static bool make_room(luo_wire_in *in)
{
    if (in->used > 0) {
        memmove(in->at, in->at + in->used, in->len - in->used);
        in->len -= in->used;
        in->used = 0;
    }
    if (in->len < in->cap) return true;
    const size_t cap = in->cap ? 2 * in->cap : 4096;
    unsigned char *more = realloc(in->at, cap);
    if (!more) return false;
    in->at = more;
    in->cap = cap;
    return true;
}

luo_status luo_wire_read(luo_wire_in *in, int fd, luo_err *err)
{
    for (;;) {
        if (in->len - in->used >= in->limit + HEAD) return LUO_OK;
        if (!make_room(in)) return luo_err_nomem(err);
        const size_t room = in->cap - in->len;
        const ssize_t n = recv(fd, in->at + in->len, room, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return LUO_OK;
        if (n <= 0)
            return luo_err_set(err, LUO_EPEER,
                               "the other side has closed.");
        in->len += (size_t)n;
        if ((size_t)n < room) return LUO_OK;
    }
}

luo_status luo_wire_next(luo_wire_in *in, bool *got, int32_t *kind, luo_wire *out, luo_err *err)
{
    uint32_t head[4];
    *got = false;
    if (in->len - in->used < HEAD) return LUO_OK;
    memcpy(head, in->at + in->used, HEAD);
    const size_t n = le32toh(head[2]);
    if (le32toh(head[0]) != MARK || head[3] != 0)
        return luo_err_set(err, LUO_EPARSE, "what arrived is no message; a rank is expected.");
    if (n > in->limit || n > LUO_WIRE_LIMIT)
        return luo_err_set(err, LUO_EPARSE,
                           "a message of %zu bytes arrived; at most %zu are "
                           "expected.",
                           n, in->limit);
    if (in->len - in->used < HEAD + n) return LUO_OK;
    *kind = (int32_t)le32toh(head[1]);
    *out = (luo_wire){.at = in->at + in->used + HEAD, .len = n};
    in->used += HEAD + n;
    *got = true;
    return LUO_OK;
}

void luo_wire_in_free(luo_wire_in *in)
{
    free(in->at);
    *in = (luo_wire_in){.limit = in->limit};
}

/* ---- sockets ---- */

static luo_status no_socket(luo_err *err)
{
    char why[128];
    luo_io_errno_text(errno, why, sizeof why);
    return luo_err_set(err, LUO_EBACKEND,
                       "no socket to speak with the ranks: %s; close files or "
                       "other programs.",
                       why);
}

luo_status luo_wire_listen(const char *address, int *fd, int *port, luo_err *err)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    socklen_t size = sizeof a;
    if (inet_pton(AF_INET, address, &a.sin_addr) != 1)
        return luo_err_set(err, LUO_EBUG, "`%s` is no address to listen at.", address);
    const int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s < 0) return no_socket(err);
    if (bind(s, (struct sockaddr *)&a, sizeof a) != 0 || listen(s, SOMAXCONN) != 0 ||
        getsockname(s, (struct sockaddr *)&a, &size) != 0) {
        no_socket(err);
        close(s);
        return LUO_EBACKEND;
    }
    *fd = s;
    *port = ntohs(a.sin_port);
    return LUO_OK;
}

/* Small messages are answers somebody waits for. */
static void no_delay(int fd)
{
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

int luo_wire_accept(int fd, double send_s)
{
    const struct timeval limit = {.tv_sec = (time_t)send_s,
                                  .tv_usec =
                                      (suseconds_t)(1e6 * (send_s - (double)(time_t)send_s))};
    int s;
    do s = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
    while (s < 0 && errno == EINTR);
    if (s < 0) return -1;
    no_delay(s);
    setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    return s;
}

luo_status luo_wire_connect(const char *address, int *fd, luo_err *err)
{
    char host[256];
    const char *colon = strrchr(address, ':');
    if (!colon || colon == address || !colon[1] || (size_t)(colon - address) >= sizeof host)
        return luo_err_set(err, LUO_EINPUT, "`%s` is no address; HOST:PORT is expected.", address);
    snprintf(host, sizeof host, "%.*s", (int)(colon - address), address);
    const struct addrinfo hint = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int s = -1;
    const int code = getaddrinfo(host, colon + 1, &hint, &found);
    for (struct addrinfo *a = found; code == 0 && a && s < 0; a = a->ai_next) {
        s = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (s < 0 || connect(s, a->ai_addr, a->ai_addrlen) == 0) continue;
        close(s);
        s = -1;
    }
    if (found) freeaddrinfo(found);
    if (s < 0)
        return luo_err_set(err, LUO_EPEER,
                           "nobody answers at `%s` (%s); the coordinator has to "
                           "run and be reachable there.",
                           address, code ? gai_strerror(code) : strerror(errno));
    no_delay(s);
    *fd = s;
    return LUO_OK;
}
