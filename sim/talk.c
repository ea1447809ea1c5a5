#include "sim/talk.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

bool sim_send(int fd, const void *data, size_t bytes)
{
    for (const char *at = data; bytes > 0;) {
        const ssize_t n = send(fd, at, bytes, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

bool sim_receive(int fd, void *data, size_t bytes)
{
    for (char *at = data; bytes > 0;) {
        const ssize_t n = read(fd, at, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}
