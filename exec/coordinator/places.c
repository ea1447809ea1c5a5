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

static luo_status match_names(luo_arena *arena, const luo_cluster *cluster, node_hosts *x,
                              luo_err *err)
{
    x->hosts = (luo_hosts){.known = true};
    for (int32_t i = 0; i < cluster->nnodes; i++) {
        const char *name = luo_hosts_of_node(cluster, i);
        x->host_of[i] = -1;
        if (name) LUO_TRY(luo_hosts_add(arena, &x->hosts, name, &x->host_of[i], err));
    }
    return LUO_OK;
}

static void match_numbers(const luo_cluster *cluster, node_hosts *x)
{
    for (int32_t i = 0; i < cluster->nnodes; i++)
        x->host_of[i] = x->hosts.n == 1 ? 0 : i < x->hosts.n ? i : -1;
}

/* Nodes of one host follow each other on it. Where hosts are not known, a node is one of its own.
 */
static luo_status count_places(luo_arena *arena, const luo_cluster *cluster, bool all_here,
                               node_hosts *x, luo_err *err)
{
    int32_t *used = LUO_NEW_N(arena, int32_t, x->hosts.n + 1);
    if (!used) return luo_err_nomem(err);
    for (int32_t i = 0; i < cluster->nnodes; i++) {
        const int32_t host = all_here ? 0 : x->host_of[i];
        if (host < 0) continue;
        x->first[i] = used[host];
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
                             const luo_cluster *cluster, node_hosts *x, bool *started, luo_err *err)
{
    const luo_launcher launcher = options->launcher;
    *started = launcher == LUO_LAUNCH_MPIRUN || launcher == LUO_LAUNCH_SRUN;
    x->host_of = LUO_NEW_N(arena, int32_t, cluster->nnodes);
    x->first = LUO_NEW_N(arena, int32_t, cluster->nnodes);
    if (!x->host_of || !x->first) return luo_err_nomem(err);
    LUO_TRY(luo_hosts_of_run(arena, options, &x->hosts, err));
    const bool all_here = launcher != LUO_LAUNCH_NONE && x->hosts.known && x->hosts.n == 0;
    if (!*started && options->hostfile)
        LUO_TRY(luo_hosts_of_file(arena, options->hostfile, &x->hosts, err));
    else if (!*started)
        x->hosts.n = 0;
    if (has_names(options, cluster))
        LUO_TRY(match_names(arena, cluster, x, err));
    else
        match_numbers(cluster, x);
    return count_places(arena, cluster, all_here, x, err);
}

luo_status luo_places_find(luo_arena *arena, const luo_exec_options *options,
                           const luo_cluster *cluster, const int32_t *device_of, int32_t n,
                           luo_places *out, luo_err *err)
{
    node_hosts x = {0};
    bool started;
    luo_places p = {.place = LUO_NEW_N(arena, int32_t, n)};
    const char **host = LUO_NEW_N(arena, const char *, n),
               **told = LUO_NEW_N(arena, const char *, n);
    if (!p.place || !host || !told) return luo_err_nomem(err);
    LUO_TRY(find_hosts(arena, options, cluster, &x, &started, err));
    for (int32_t r = 0; r < n; r++) {
        const luo_device *at = &cluster->devices[device_of[r]];
        const int32_t k = x.host_of[at->node];
        p.place[r] = x.first[at->node] + at->slot;
        if (x.hosts.n == 0) continue;
        if (k < 0) return no_host(cluster, device_of[r], x.hosts.n, err);
        host[r] = x.hosts.at[k];
        if (r > 0 && host[r] == host[r - 1])
            told[r] = told[r - 1];
        else
            LUO_TRY(tell(arena, host[r], &told[r], err));
    }
    p.told = told;
    if (x.hosts.n > 0 && started) p.host = host;
    *out = p;
    return LUO_OK;
}
