/* uniform_refuse.c: why there is no plan of alike pipelines: the first reason that holds. */
#include <math.h>
#include <stdio.h>

#include "core/base/words.h"
#include "core/plan/uniform/uniform_internal.h"

/* ---- tensor parallelism ---- */

/* The node with most usable devices, of which it has *n. */
static const luo_node *largest_node(const uniform_search *search, int32_t *n)
{
    const luo_cluster *cluster = search->cluster;
    const luo_node *largest = NULL;
    int32_t here = 0;
    *n = 0;
    for (int32_t i = 0; i < search->nusable; i++) {
        const int32_t node = cluster->devices[search->usable[i]].node;
        here = i > 0 && cluster->devices[search->usable[i - 1]].node == node ? here + 1 : 1;
        if (here <= *n) continue;
        *n = here;
        largest = &cluster->nodes[node];
    }
    return largest;
}

/* Devices of the largest node, usable or not. */
static int32_t most_of_node(const luo_cluster *cluster)
{
    int32_t most = 1;
    for (int32_t g = 0; g < cluster->ngroups; g++)
        if (cluster->groups[g].devices_per_node > most) most = cluster->groups[g].devices_per_node;
    return most;
}

luo_status uniform_refuse_tp(const uniform_search *search)
{
    enum { MOST = 64 };
    char digits[MOST][12];
    const char *names[MOST];
    const int32_t tp = search->opts->tp, most = most_of_node(search->cluster);
    int64_t parts = 0;
    int n = 0;
    luo_str choices = {0};
    const char *what = luo_model_tp_undivided(search->model, tp, &parts);
    for (int32_t size = 1; size <= most && n < MOST; size++) {
        if (!luo_model_tp_divides(search->model, size)) continue;
        snprintf(digits[n], sizeof digits[n], "%d", size);
        names[n] = digits[n];
        n++;
    }
    luo_words_choices(&choices, names, n);
    luo_err_set(search->err, LUO_EINPUT,
                "tensor parallelism of %d does not divide the %lld %s of `%s`; %s would, in nodes "
                "of %d.",
                tp, (long long)parts, what, search->model->name, luo_str_get(&choices), most);
    luo_str_free(&choices);
    return LUO_EINPUT;
}

/* Groups are inside nodes, and sequence parallelism cuts tokens among them. */
static luo_status check_groups(const uniform_search *search)
{
    const luo_uniform_opts *opts = search->opts;
    int32_t most;
    const luo_node *node = largest_node(search, &most);
    if (opts->tp > most)
        return luo_err_set(search->err, LUO_EINFEASIBLE,
                           "tensor parallelism of %d is more than the %d usable devices of node "
                           "`%s`, and no node has more; its groups do not cross nodes.",
                           opts->tp, most, node->name);
    if (opts->tp && opts->sequence_parallel && opts->sequence_tokens % opts->tp)
        return luo_err_set(
            search->err, LUO_EINFEASIBLE,
            "tensor parallelism of %d does not divide the %lld tokens of a sequence, "
            "which sequence parallelism cuts; another length is needed.",
            opts->tp, (long long)opts->sequence_tokens);
    return LUO_OK;
}

/* ---- devices ---- */

static int32_t or_1(int32_t size)
{
    return size > 0 ? size : 1;
}

/* The sizes that are asked for together. */
static luo_status check_devices(uniform_search *search)
{
    const luo_uniform_opts *opts = search->opts;
    const int64_t groups = (int64_t)or_1(opts->pp) * or_1(opts->dp) * or_1(opts->cp),
                  needed = groups * or_1(opts->tp);
    if (needed > search->nusable)
        return luo_err_set(search->err, LUO_EINFEASIBLE,
                           "%lld devices are needed (tensor %d x pipeline %d x context %d x data "
                           "%d), and the cluster has %d%s.",
                           (long long)needed, or_1(opts->tp), or_1(opts->pp), or_1(opts->cp),
                           or_1(opts->dp), search->nusable,
                           search->nusable < search->cluster->ndevices ? " that are usable" : "");
    uniform_make_groups(search, 0, or_1(opts->tp));
    if (groups > search->ngroups)
        return luo_err_set(search->err, LUO_EINFEASIBLE,
                           "%lld groups of %d devices are needed, each in one node, and the "
                           "nodes have room for %d.",
                           (long long)groups, or_1(opts->tp), search->ngroups);
    return LUO_OK;
}

static luo_status check_batch(const uniform_search *search)
{
    const luo_uniform_opts *opts = search->opts;
    const int32_t dp = or_1(opts->dp), size = or_1(opts->micro_batch_sequences);
    const long long batch = opts->batch_sequences, multiple = (long long)dp * size;
    if (batch % multiple == 0) return LUO_OK;
    if (dp == 1)
        return luo_err_set(search->err, LUO_EINFEASIBLE,
                           "micro-batches of %d do not divide a batch of %lld sequences; a "
                           "multiple of %d is needed.",
                           size, batch, size);
    return luo_err_set(search->err, LUO_EINFEASIBLE,
                       "%d pipelines with micro-batches of %d do not divide a batch of %lld "
                       "sequences; a multiple of %lld is needed.",
                       dp, size, batch, multiple);
}

/* ---- all ---- */

/* What may help: only what the search was not free to take. */
static luo_status no_room(const uniform_search *search)
{
    const luo_uniform_opts *opts = search->opts;
    const char *may[3];
    luo_str text = {0};
    int n = 0;
    if (opts->pp > 0) may[n++] = "more stages";
    if (opts->recompute >= 0 && opts->recompute != LUO_RECOMPUTE_FULL) may[n++] = "`recompute`";
    if (opts->zero == 0) may[n++] = "`zero` 1";
    luo_str_addf(&text,
                 "no plan fits in memory; the tightest stage (device %d) needs %.1f GiB of "
                 "%.1f",
                 search->tight_device, (double)search->needs / 1073741824.0,
                 (double)search->has / 1073741824.0);
    for (int i = 0; i < n; i++)
        luo_str_addf(&text, "%s%s", i == 0 ? "; try " : i == n - 1 ? " or " : ", ", may[i]);
    luo_str_addf(&text, n ? "." : "; more devices or shorter sequences are needed.");
    luo_err_set(search->err, LUO_EINFEASIBLE, "%s", luo_str_get(&text));
    luo_str_free(&text);
    return LUO_EINFEASIBLE;
}

luo_status uniform_refuse(uniform_search *search)
{
    if (search->nusable == 0)
        return luo_err_set(search->err, LUO_EINFEASIBLE,
                           "no usable device is left; %d of %d are down "
                           "or on standby.",
                           search->cluster->ndevices, search->cluster->ndevices);
    if (search->tightest < INFINITY) return no_room(search);
    if (search->fewest > 0)
        return luo_work_check(search->opts->work, LUO_WORK_MICRO_BATCHES, search->fewest,
                              "the batch is too large: a plan of its sequences has", search->err);
    LUO_TRY(check_groups(search));
    LUO_TRY(check_devices(search));
    LUO_TRY(check_batch(search));
    return luo_err_set(search->err, LUO_EINFEASIBLE,
                       "no tensor, pipeline and data parallelism divides %lld layers and %lld "
                       "sequences over %d devices; another batch or other sizes are needed.",
                       (long long)search->model->layers, (long long)search->opts->batch_sequences,
                       search->nusable);
}
