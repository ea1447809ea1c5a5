#include "exec/coordinator/places.h"

#include "exec/coordinator/hosts.h"

typedef struct node_hosts {
    luo_hosts hosts;
    int32_t *host_of; /* by node: number of its host; -1: none */
    int32_t *first;   /* by node: place of its first device on its host */
} node_hosts;

/* Does the cluster's file say which host a node is? A hostfile goes before it. */
static bool has_names(const luo_exec_options *options, const luo_cluster *cluster)
{
    for (int32_t i = 0; i < cluster->nnodes && !options->hostfile; i++)
        if (luo_hosts_of_node(cluster, i)) return true;
    return false;
}

static luo_status match_names(luo_arena *arena, const luo_cluster *cluster, node_hosts *hosts,
                              luo_err *err)
{
    hosts->hosts = (luo_hosts){.known = true};
    for (int32_t i = 0; i < cluster->nnodes; i++) {
        const char *name = luo_hosts_of_node(cluster, i);
        hosts->host_of[i] = -1;
        if (name) LUO_TRY(luo_hosts_add(arena, &hosts->hosts, name, &hosts->host_of[i], err));
    }
    return LUO_OK;
}

static void match_numbers(const luo_cluster *cluster, node_hosts *hosts)
{
    for (int32_t i = 0; i < cluster->nnodes; i++)
        hosts->host_of[i] = hosts->hosts.n == 1 ? 0 : i < hosts->hosts.n ? i : -1;
}

/* Nodes of one host follow each other on it. Where hosts are not known, a node is one of its own.
 */
static luo_status count_places(luo_arena *arena, const luo_cluster *cluster, bool all_here,
                               node_hosts *hosts, luo_err *err)
{
    int32_t *used = LUO_NEW_N(arena, int32_t, hosts->hosts.n + 1);
    if (!used) return luo_err_nomem(err);
    for (int32_t i = 0; i < cluster->nnodes; i++) {
        const int32_t host = all_here ? 0 : hosts->host_of[i];
        if (host < 0) continue;
        hosts->first[i] = used[host];
        used[host] += cluster->groups[cluster->nodes[i].group].devices_per_node;
    }
    return LUO_OK;
}

static luo_status no_host(const luo_cluster *cluster, int32_t device, int32_t nhosts, luo_err *err)
{
    return luo_err_set(err, LUO_EINPUT,
                       "device %d is in node `%s` of cluster `%s`, which has no host: %d for %d "
                       "nodes; a hostfile with one for each node in the order of the "
                       "cluster, or `hosts` of each group in the cluster file, is expected.",
                       device, cluster->nodes[cluster->devices[device].node].name, cluster->name,
                       nhosts, cluster->nnodes);
}

static luo_status tell(luo_arena *arena, const char *host, const char **out, luo_err *err)
{
    char name[LUO_HOSTS_NAME];
    luo_hosts_told(host, name);
    *out = luo_arena_strdup(arena, name);
    return *out ? LUO_OK : luo_err_nomem(err);
}

/* *started: luoshu says where ranks start. Under a launcher of the user's it only looks whether
 * they are where the user says that they belong: the order of a batch system is the launcher's own.
 */
static luo_status find_hosts(luo_arena *arena, const luo_exec_options *options,
                             const luo_cluster *cluster, node_hosts *hosts, bool *started,
                             luo_err *err)
{
    const luo_launcher launcher = options->launcher;
    *started = launcher == LUO_LAUNCH_MPIRUN || launcher == LUO_LAUNCH_SRUN;
    hosts->host_of = LUO_NEW_N(arena, int32_t, cluster->nnodes);
    hosts->first = LUO_NEW_N(arena, int32_t, cluster->nnodes);
    if (!hosts->host_of || !hosts->first) return luo_err_nomem(err);
    LUO_TRY(luo_hosts_of_run(arena, options, &hosts->hosts, err));
    const bool all_here = launcher != LUO_LAUNCH_NONE && hosts->hosts.known && hosts->hosts.n == 0;
    if (!*started && options->hostfile)
        LUO_TRY(luo_hosts_of_file(arena, options->hostfile, &hosts->hosts, err));
    else if (!*started)
        hosts->hosts.n = 0;
    if (has_names(options, cluster))
        LUO_TRY(match_names(arena, cluster, hosts, err));
    else
        match_numbers(cluster, hosts);
    return count_places(arena, cluster, all_here, hosts, err);
}

luo_status luo_places_find(luo_arena *arena, const luo_exec_options *options,
                           const luo_cluster *cluster, const int32_t *device_of, int32_t n,
                           luo_places *out, luo_err *err)
{
    node_hosts hosts = {0};
    bool started;
    luo_places places = {.place = LUO_NEW_N(arena, int32_t, n)};
    const char **host = LUO_NEW_N(arena, const char *, n),
               **told = LUO_NEW_N(arena, const char *, n);
    if (!places.place || !host || !told) return luo_err_nomem(err);
    LUO_TRY(find_hosts(arena, options, cluster, &hosts, &started, err));
    for (int32_t r = 0; r < n; r++) {
        const luo_device *at = &cluster->devices[device_of[r]];
        const int32_t k = hosts.host_of[at->node];
        places.place[r] = hosts.first[at->node] + at->slot;
        if (hosts.hosts.n == 0) continue;
        if (k < 0) return no_host(cluster, device_of[r], hosts.hosts.n, err);
        host[r] = hosts.hosts.at[k];
        if (r > 0 && host[r] == host[r - 1])
            told[r] = told[r - 1];
        else
            LUO_TRY(tell(arena, host[r], &told[r], err));
    }
    places.told = told;
    if (hosts.hosts.n > 0 && started) places.host = host;
    *out = places;
    return LUO_OK;
}
