#include "exec/coordinator/hosts.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/io/document/input.h"

/* ---- lists ---- */

enum { NAME = 256 };

static luo_status add(luo_arena *arena, luo_hosts *h, const char *name, luo_err *err)
{
    const size_t one = sizeof *h->at;
    if (h->n > 0 && strcmp(h->at[h->n - 1], name) == 0) return LUO_OK; /* a line per slot */
    if ((h->n & (h->n - 1)) == 0) {                                    /* 0, 1, 2, 4, .. */
        const size_t n = (size_t)h->n;
        const char **more = luo_arena_grow(arena, h->at, n * one, (n ? 2 * n : 1) * one);
        if (!more) return luo_err_nomem(err);
        h->at = more;
    }
    h->at[h->n] = luo_arena_strdup(arena, name);
    return h->at[h->n++] ? LUO_OK : luo_err_nomem(err);
}

luo_status luo_hosts_of_file(luo_arena *arena, const char *path, luo_hosts *out, luo_err *err)
{
    char line[1024], word[NAME];
    luo_hosts h = {.known = true};
    luo_status st = LUO_OK;
    int fd;
    /* a file alone, since mpirun reads it, too */
    LUO_TRY(luo_input_open(path, LUO_INPUT_FILE, "a hostfile", &fd, err));
    FILE *f = fdopen(fd, "r");
    if (!f) {
        close(fd);
        return luo_err_nomem(err);
    }
    while (st == LUO_OK && fgets(line, sizeof line, f))
        if (sscanf(line, " %255[^ \t\r\n#]", word) == 1) st = add(arena, &h, word, err);
    fclose(f);
    if (st == LUO_OK) *out = h;
    return st;
}

/* An item with each bracket at its first number, or at its last. */
static void expand(const char *item, size_t n, bool last, char out[NAME])
{
    size_t used = 0;
    for (size_t i = 0; i < n && used + 1 < NAME; i++) {
        if (item[i] != '[') {
            out[used++] = item[i];
            continue;
        }
        const size_t inside = strcspn(item + i + 1, "]");
        size_t from = i + 1, to = i + 1 + inside;
        if (last)
            while (to > from && !strchr(",-", item[to - 1])) to--;
        const size_t digits = last ? i + 1 + inside - to : strcspn(item + from, ",-]");
        if (last) from = to;
        for (size_t k = 0; k < digits && used + 1 < NAME; k++) out[used++] = item[from + k];
        i += inside + 1;
    }
    out[used] = 0;
}

/* Bytes up to the comma behind an item. */
static size_t item_bytes(const char *list)
{
    size_t n = 0;
    for (bool inside = false; list[n] && (inside || list[n] != ','); n++)
        inside = list[n] == '[' || (inside && list[n] != ']');
    return n;
}

luo_status luo_hosts_of_slurm(luo_arena *arena, const char *list, luo_hosts *out, luo_err *err)
{
    char name[NAME];
    luo_hosts h = {.known = true};
    while (*list) {
        const size_t n = item_bytes(list);
        for (int last = 0; n > 0 && last < 2; last++) {
            expand(list, n, last, name);
            LUO_TRY(add(arena, &h, name, err));
        }
        list += n + (list[n] == ',');
    }
    *out = h;
    return LUO_OK;
}

/* ---- of a run ---- */

static bool same_number(const char *one, const char *other)
{
    const char *a = getenv(one), *b = getenv(other);
    return a && b && strcmp(a, b) == 0;
}

/* Under a launcher of the user's: all of its processes are on this host. */
static bool launched_here(void)
{
    return same_number("OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_SIZE") ||
           same_number("MPI_LOCALNRANKS", "PMI_SIZE");
}

luo_status luo_hosts_of_run(luo_arena *arena, const luo_exec_options *options, luo_hosts *out,
                            luo_err *err)
{
    static const struct {
        const char *job, *file;
    } systems[] = {{"PBS_JOBID", "PBS_NODEFILE"},
                   {"LSB_JOBID", "LSB_DJOB_HOSTFILE"},
                   {"JOB_ID", "PE_HOSTFILE"}};
    const bool none = options->launcher == LUO_LAUNCH_NONE;
    const char *nodes = none ? getenv("SLURM_STEP_NODELIST") : NULL;
    const bool local = options->launcher == LUO_LAUNCH_LOCAL;
    *out = (luo_hosts){.known = local || options->launcher == LUO_LAUNCH_MPIRUN ||
                                (none && launched_here())};
    if (local) return LUO_OK;
    if (none && out->known) return LUO_OK;
    if (options->hostfile) return luo_hosts_of_file(arena, options->hostfile, out, err);
    if (!nodes) nodes = getenv("SLURM_JOB_NODELIST");
    if (nodes) return luo_hosts_of_slurm(arena, nodes, out, err);
    out->known = out->known && !getenv("SLURM_JOB_ID");
    for (size_t i = 0; i < sizeof systems / sizeof *systems; i++) {
        if (!getenv(systems[i].job)) continue;
        const char *file = getenv(systems[i].file);
        if (file && access(file, R_OK) == 0) return luo_hosts_of_file(arena, file, out, err);
        out->known = false;
    }
    return LUO_OK;
}

/* ---- the way ---- */

bool luo_hosts_way(const char *host, char address[LUO_HOSTS_ADDRESS], bool *here)
{
    const struct addrinfo hint = {.ai_family = AF_INET, .ai_socktype = SOCK_DGRAM};
    struct addrinfo *found = NULL;
    struct sockaddr_in from = {0};
    socklen_t size = sizeof from;
    if (getaddrinfo(host, "9", &hint, &found) != 0) return false;
    struct sockaddr_in to;
    memcpy(&to, found->ai_addr, sizeof to);
    freeaddrinfo(found);
    const int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0); /* connecting it sends nothing */
    const bool good = s >= 0 && connect(s, (struct sockaddr *)&to, sizeof to) == 0 &&
                      getsockname(s, (struct sockaddr *)&from, &size) == 0;
    if (s >= 0) close(s);
    if (!good || !inet_ntop(AF_INET, &from.sin_addr, address, LUO_HOSTS_ADDRESS)) return false;
    *here = from.sin_addr.s_addr == to.sin_addr.s_addr || ntohl(from.sin_addr.s_addr) >> 24 == 127;
    return true;
}
