/* hosts.c: the hosts of a cluster: a list for mpirun, a batch script for Slurm. */
#include <string.h>

#include "core/io/export/export_internal.h"

static bool has_hosts(const luo_cluster *cluster)
{
    for (int32_t g = 0; g < cluster->ngroups; g++)
        if (!cluster->groups[g].hosts) return false;
    return true;
}

static const char *host_of(const luo_cluster *cluster, int32_t n)
{
    const luo_node *node = &cluster->nodes[n];
    const luo_node_group *group = &cluster->groups[node->group];
    return group->hosts ? group->hosts[node->index] : node->name;
}

static int32_t slots_of(const luo_cluster *cluster, int32_t n)
{
    return cluster->groups[cluster->nodes[n].group].devices_per_node;
}

/* All nodes on one host: -1. Else a host twice is refused: whoever reads the file counts it once.*/
static luo_status find_one_host(export_job *job, bool *one)
{
    const luo_cluster *cluster = job->source->cluster;
    *one = cluster->nnodes > 1;
    for (int32_t n = 1; n < cluster->nnodes; n++)
        *one = *one && strcmp(host_of(cluster, n), host_of(cluster, 0)) == 0;
    for (int32_t n = 1; n < cluster->nnodes && !*one; n++)
        for (int32_t k = 0; k < n; k++)
            if (strcmp(host_of(cluster, n), host_of(cluster, k)) == 0)
                return luo_err_set(
                    job->err, LUO_EUNREP,
                    "nodes `%s` and `%s` of cluster `%s` are both on host `%s`; in a "
                    "hostfile a host is one node.",
                    cluster->nodes[k].name, cluster->nodes[n].name, cluster->name,
                    host_of(cluster, n));
    return LUO_OK;
}

luo_status export_hostfile(export_job *job)
{
    const luo_cluster *cluster = job->source->cluster;
    luo_str text = {0};
    bool one;
    LUO_TRY(find_one_host(job, &one));
    if (one) luo_str_addf(&text, "%s slots=%d\n", host_of(cluster, 0), cluster->ndevices);
    for (int32_t n = 0; n < cluster->nnodes && !one; n++)
        luo_str_addf(&text, "%s slots=%d\n", host_of(cluster, n), slots_of(cluster, n));
    LUO_TRY(export_put(job, NULL, &text));
    if (has_hosts(cluster)) return LUO_OK;
    return export_note(job, "cluster `%s` names no hosts; the names of its nodes stand for them.",
                       cluster->name);
}

/* ---- Slurm ---- */

static bool is_cpu(const luo_cluster *cluster)
{
    return luo_cluster_profile(cluster, 0)->cpu;
}

/* Nodes of several sizes have no number a node. */
static void add_tasks(luo_str *text, const luo_cluster *cluster)
{
    const int32_t slots = slots_of(cluster, 0);
    bool even = true;
    for (int32_t n = 1; n < cluster->nnodes; n++) even = even && slots_of(cluster, n) == slots;
    luo_str_addf(text, "#SBATCH --nodes=%d\n", cluster->nnodes);
    if (even)
        luo_str_addf(text, "#SBATCH --ntasks-per-node=%d\n", slots);
    else
        luo_str_addf(text, "#SBATCH --ntasks=%d\n", cluster->ndevices);
    if (!is_cpu(cluster) && even) luo_str_addf(text, "#SBATCH --gpus-per-node=%d\n", slots);
    if (!is_cpu(cluster) && !even) luo_str_addf(text, "#SBATCH --gpus=%d\n", cluster->ndevices);
    luo_str_add(text, "#SBATCH --exclusive\n");
}

static void add_node_list(luo_str *text, const luo_cluster *cluster)
{
    if (!has_hosts(cluster)) return;
    luo_str_add(text, "#SBATCH --nodelist=");
    for (int32_t n = 0; n < cluster->nnodes; n++)
        luo_str_addf(text, "%s%s", n ? "," : "", host_of(cluster, n));
    luo_str_addc(text, '\n');
}

static luo_status check_nodes(export_job *job)
{
    const luo_cluster *cluster = job->source->cluster;
    bool one;
    LUO_TRY(find_one_host(job, &one));
    if (!one) return LUO_OK;
    return luo_err_set(
        job->err, LUO_EUNREP,
        "all %d nodes of cluster `%s` are on host `%s`; Slurm gives a job whole nodes, "
        "so each wants a host of its own.",
        cluster->nnodes, cluster->name, host_of(cluster, 0));
}

luo_status export_sbatch(export_job *job)
{
    const luo_export_source *source = job->source;
    luo_str text = {0};
    LUO_TRY(check_nodes(job));
    luo_str_add(&text, "#!/bin/bash\n#SBATCH --job-name=luoshu\n");
    add_tasks(&text, source->cluster);
    add_node_list(&text, source->cluster);
    luo_str_add(&text,
                "export SLURM_MPI_TYPE=pmix # as the cluster's Open MPI was built\nluoshu run ");
    luo_str_add_word(&text, source->plan_file);
    luo_str_add(&text, " --model ");
    luo_str_add_word(&text, source->model_file);
    luo_str_add(&text, " --cluster ");
    luo_str_add_word(&text, source->cluster_file);
    luo_str_addf(&text, " --backend %s --launcher srun --out \"real-$SLURM_JOB_ID\"\n",
                 is_cpu(source->cluster) ? "host" : "cuda");
    return export_put(job, NULL, &text);
}
