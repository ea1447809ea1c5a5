#include "exec/coordinator/hosts.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/io/document/input.h"
#include "core/io/hostlist.h"

/* ---- lists ---- */

static luo_status append_host(luo_arena *arena, luo_hosts *hosts, const char *name, luo_err *err)
{
    const size_t one = sizeof *hosts->at, n = (size_t)hosts->n;
    if (!luo_cluster_is_host_name(name))
        return luo_err_set(err, LUO_EINPUT,
                           "`%.60s` is no name of a host; letters, digits, `.`, `-` and `_` are "
                           "expected, a letter or digit first.",
                           name);
    if (hosts->n == LUO_HOSTS_MAX)
        return luo_err_set(err, LUO_EINPUT,
                           "more than %d hosts are named; as many or fewer are "
                           "expected.",
                           LUO_HOSTS_MAX);
    if ((n & (n - 1)) == 0) { /* 0, 1, 2, 4, .. */
        const char **more = luo_arena_grow(arena, hosts->at, n * one, (n ? 2 * n : 1) * one);
        if (!more) return luo_err_nomem(err);
        hosts->at = more;
    }
    hosts->at[hosts->n] = luo_arena_strdup(arena, name);
    return hosts->at[hosts->n++] ? LUO_OK : luo_err_nomem(err);
}

luo_status luo_hosts_add(luo_arena *arena, luo_hosts *hosts, const char *name, int32_t *at,
                         luo_err *err)
{
    int32_t i = hosts->n - 1; /* files with a line per slot repeat the last one */
    while (i >= 0 && strcmp(hosts->at[i], name) != 0) i--;
    if (i < 0) {
        i = hosts->n;
        LUO_TRY(append_host(arena, hosts, name, err));
    }
    if (at) *at = i;
    return LUO_OK;
}

/* One, or as Slurm writes several. */
static luo_status add_hosts(luo_arena *arena, luo_hosts *hosts, const char *word, luo_err *err)
{
    const char *const *names;
    int32_t n;
    if (!strchr(word, '[')) return luo_hosts_add(arena, hosts, word, NULL, err);
    LUO_TRY(luo_hostlist_expand(arena, word, &names, &n, err));
    for (int32_t i = 0; i < n; i++) LUO_TRY(luo_hosts_add(arena, hosts, names[i], NULL, err));
    return LUO_OK;
}

luo_status luo_hosts_of_file(luo_arena *arena, const char *path, luo_hosts *out, luo_err *err)
{
    char line[1024], word[sizeof line];
    luo_hosts hosts = {.known = true};
    luo_status st = LUO_OK;
    int fd, number = 0;
    LUO_TRY(luo_input_open(path, LUO_INPUT_FILE, "a hostfile", &fd, err));
    FILE *file = fdopen(fd, "r");
    if (!file) {
        close(fd);
        return luo_err_nomem(err);
    }
    while (st == LUO_OK && fgets(line, sizeof line, file)) {
        number++;
        if (sscanf(line, " %1023[^ \t\r\n#]", word) != 1) continue;
        st = add_hosts(arena, &hosts, word, err);
        if (st == LUO_EINPUT) luo_err_at(err, st, path, number, 1);
    }
    fclose(file);
    if (st == LUO_OK && hosts.n == 0)
        st = luo_err_set(err, LUO_EINPUT,
                         "`%s` names no host; a line for each, with its name first, is expected.",
                         path);
    if (st == LUO_OK) *out = hosts;
    return st;
}

luo_status luo_hosts_of_slurm(luo_arena *arena, const char *list, luo_hosts *out, luo_err *err)
{
    luo_hosts hosts = {.known = true};
    const char *const *names;
    int32_t n;
    LUO_TRY(luo_hostlist_expand(arena, list, &names, &n, err));
    for (int32_t i = 0; i < n; i++) LUO_TRY(append_host(arena, &hosts, names[i], err));
    *out = hosts;
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

const char *luo_hosts_of_node(const luo_cluster *cluster, int32_t node)
{
    const luo_node *at = &cluster->nodes[node];
    const char *const *names = cluster->groups[at->group].hosts;
    return names ? names[at->index] : NULL;
}

/* Of the nodes of the cluster file, where it has them. */
static luo_status hosts_of_cluster(luo_arena *arena, const luo_cluster *cluster, luo_hosts *out,
                                   luo_err *err)
{
    luo_hosts hosts = {.known = true};
    for (int32_t i = 0; i < cluster->nnodes; i++) {
        const char *name = luo_hosts_of_node(cluster, i);
        if (name) LUO_TRY(luo_hosts_add(arena, &hosts, name, NULL, err));
    }
    if (hosts.n > 0) *out = hosts;
    return LUO_OK;
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
    if (options->cluster) LUO_TRY(hosts_of_cluster(arena, options->cluster, out, err));
    if (out->n > 0) return LUO_OK;
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

/* ---- is this host meant ---- */

void luo_hosts_here(char name[LUO_HOSTS_NAME])
{
    memset(name, 0, LUO_HOSTS_NAME);
    if (gethostname(name, LUO_HOSTS_NAME - 1) != 0) snprintf(name, LUO_HOSTS_NAME, "a host");
}

/* One may be written without its domain. */
static bool same_name(const char *one, const char *other)
{
    const size_t a = strcspn(one, "."), b = strcspn(other, ".");
    if (strcasecmp(one, other) == 0) return true;
    return (!one[a] || !other[b]) && a == b && strncasecmp(one, other, a) == 0;
}

static bool is_loopback(const char *name)
{
    return strcasecmp(name, "localhost") == 0 || strncmp(name, "127.", 4) == 0;
}

void luo_hosts_told(const char *name, char out[LUO_HOSTS_NAME])
{
    const char *at = strrchr(name, '@'); /* USER@HOST */
    if (at) name = at + 1;
    if (is_loopback(name))
        luo_hosts_here(out);
    else
        snprintf(out, LUO_HOSTS_NAME, "%s", name);
}

bool luo_hosts_meant(const char *name)
{
    char own[LUO_HOSTS_NAME], address[LUO_HOSTS_ADDRESS];
    const char *slurm = getenv("SLURMD_NODENAME");
    bool here;
    luo_hosts_here(own);
    if (same_name(name, own) || (slurm && same_name(name, slurm))) return true;
    return !luo_hosts_way(name, address, &here) || here; /* a name that ssh alone knows */
}
