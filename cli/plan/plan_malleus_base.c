/* The base plan of `luoshu plan malleus`: from --tp, --pp and --dp, from the uniform planner where
 * one of them is not given, or the running plan where nothing is said. And what --rates says. */
#include <math.h>
#include <string.h>

#include "cli/plan/plan_malleus.h"
#include "cli/plan/plan_rates.h"
#include "core/base/devset.h"
#include "core/plan/grid.h"
#include "core/run/events/world.h"

static const double FASTER = 0.8; /* docs/planners.md#malleus */

/* ---- rates ---- */

static void say_rates(luo_cli *cli, luo_malleus_call *call)
{
    int32_t *watched = LUO_NEW_N(cli->arena, int32_t, call->cluster->ndevices), n = 0;
    luo_str text = {0};
    for (int32_t d = 0; d < call->cluster->ndevices; d++) {
        if (call->rate[d] < FASTER)
            luo_malleus_call_warn(cli, call, LUO_WARNING,
                                  "device %d is faster than its type's baseline; its "
                                  "rate %.6g counts as 1.",
                                  d, call->rate[d]);
        if (watched && call->rate[d] > 1 && call->rate[d] < LUO_RATE_WATCHED) watched[n++] = d;
    }
    if (n == 0) return;
    luo_devset_print(&text, watched, n);
    luo_malleus_call_warn(cli, call, LUO_NOTE,
                          "watch devices %s; rates between 1 and 1.2 count as 1.",
                          luo_str_get(&text));
    luo_str_free(&text);
}

luo_status luo_malleus_call_rates(luo_cli *cli, luo_malleus_call *call, luo_err *err)
{
    LUO_TRY(luo_plan_rates(cli, call->cluster, &call->rate, &call->candidate, err));
    say_rates(cli, call);
    return LUO_OK;
}

/* ---- sizes ---- */

static luo_status check_tp(const luo_cli *cli, const luo_cluster *cluster, luo_err *err)
{
    int32_t most = 1;
    const char *given = luo_args_get(&cli->args, "tp", NULL);
    if (!given) return LUO_OK;
    for (int32_t g = 0; g < cluster->ngroups; g++)
        if (cluster->groups[g].devices_per_node > most) most = cluster->groups[g].devices_per_node;
    for (int32_t tp = 1; tp <= most; tp *= 2) {
        char text[16];
        snprintf(text, sizeof text, "%d", tp);
        if (strcmp(text, given) == 0) return LUO_OK;
    }
    return luo_err_set(err, LUO_EUSAGE, "`--tp` is %s; a power of two up to the %d devices of a "
                       "node is expected.", given, most);
}

/* Micro-batches of a step: given, or what the batch comes to. 0: as the running plan has them. */
static luo_status read_batch(luo_cli *cli, luo_malleus_call *call, luo_uniform_opts *opts, bool own,
                             luo_err *err)
{
    const luo_args *args = &cli->args;
    if (luo_args_has(args, "micro-batches") && luo_args_has(args, "global-batch-size"))
        return luo_err_set(err, LUO_EUSAGE, "`--micro-batches` and `--global-batch-size` are both "
                           "given; choose one.");
    LUO_TRY(luo_args_int(args, "micro-batches", 0, 1, 1 << 24, &call->job.micro_batches, err));
    if (own) return LUO_OK;
    const bool open =
        !opts->tp || !opts->pp || !opts->dp; /* what is not given the uniform planner finds */
    if (open && !opts->micro_batch_sequences && !call->job.micro_batches) return LUO_OK;
    if (opts->micro_batch_sequences == 0) opts->micro_batch_sequences = 1;
    if (call->job.micro_batches)
        opts->batch_sequences = call->job.micro_batches * opts->micro_batch_sequences;
    call->job.micro_batches = opts->batch_sequences / opts->micro_batch_sequences;
    if (opts->batch_sequences % opts->micro_batch_sequences)
        return luo_err_set(err, LUO_EUSAGE,
                           "a batch of %lld sequences is not made of "
                           "micro-batches of %d; a multiple is expected.",
                           (long long)opts->batch_sequences, opts->micro_batch_sequences);
    if (call->job.micro_batches < opts->dp)
        return luo_err_set(err, LUO_EINPUT,
                           "the batch gives %lld micro-batches for %d pipelines; "
                           "at least one each is needed.",
                           (long long)call->job.micro_batches, opts->dp);
    return LUO_OK;
}

/* ---- all three sizes are given: equal pipelines as far as it goes ---- */

static int32_t make_groups(const luo_cluster *cluster, const bool *standby, int32_t tp,
                           int32_t *dev)
{
    int32_t n = 0;
    for (int32_t k = 0; k < cluster->nnodes; k++) {
        const luo_node *at = &cluster->nodes[k];
        const int32_t end = at->first_device + cluster->groups[at->group].devices_per_node;
        int32_t held = 0;
        for (int32_t d = at->first_device; d < end; d++) {
            if (standby[d]) continue;
            dev[n * tp + held++] = d;
            if (held < tp) continue;
            n++;
            held = 0;
        }
    }
    return n;
}

static luo_status arrange(luo_cli *cli, const luo_malleus_call *call, const luo_uniform_opts *opts,
                          int32_t **out, luo_err *err)
{
    const luo_cluster *cl = call->cluster;
    bool *standby = LUO_NEW_N(cli->arena, bool, cl->ndevices);
    int32_t *group = LUO_NEW_N(cli->arena, int32_t, cl->ndevices + opts->tp);
    if (!standby || !group) return luo_err_nomem(err);
    for (int32_t i = 0; i < cl->nstandby; i++) standby[cl->standby[i]] = true;
    const int32_t n = make_groups(cl, standby, opts->tp, group);
    if ((int64_t)opts->dp * opts->pp > n)
        return luo_err_set(err, LUO_EUSAGE,
                           "%d pipelines of %d stages need %lld groups of %d "
                           "devices; the cluster has %d.",
                           opts->dp, opts->pp, (long long)opts->dp * opts->pp, opts->tp, n);
    int32_t *dev = LUO_NEW_N(cli->arena, int32_t, opts->dp * opts->pp * opts->tp);
    if (!dev) return luo_err_nomem(err);
    for (int32_t d = 0; d < opts->dp; d++)
        for (int32_t p = 0; p < opts->pp; p++)
            memcpy(dev + ((int64_t)d * opts->pp + p) * opts->tp,
                   group +
                       (int64_t)(opts->tp_pp_dp ? p + opts->pp * d : d + opts->dp * p) * opts->tp,
                   (size_t)opts->tp * sizeof *dev);
    *out = dev;
    return LUO_OK;
}

/* Layers by the canonical split, micro-batches by luo_alloc: equal where they divide. */
static luo_status build(luo_cli *cli, luo_malleus_call *call, const luo_uniform_opts *opts,
                        luo_plan **out, luo_err *err)
{
    int32_t *dev = NULL;
    double *y = LUO_NEW_N(cli->arena, double, opts->pp);
    int64_t *layers = LUO_NEW_N(cli->arena, int64_t, opts->pp);
    luo_pipeline *pipes = LUO_NEW_N(cli->arena, luo_pipeline, opts->dp);
    if (!y || !layers || !pipes) return luo_err_nomem(err);
    LUO_TRY(arrange(cli, call, opts, &dev, err));
    for (int32_t p = 0; p < opts->pp; p++) y[p] = 1;
    LUO_TRY(luo_plan_split_layers(cli->arena, opts->pp, y, call->model->layers, NULL, layers, err));
    const luo_grid grid = {.name = "base",
                           .model = call->model,
                           .cluster = call->cluster,
                           .dtype = call->model->dtype,
                           .sequence_tokens = opts->sequence_tokens,
                           .micro_batches = call->job.micro_batches / opts->dp,
                           .micro_batch_sequences = opts->micro_batch_sequences,
                           .zero = opts->zero >= 0 ? opts->zero : opts->dp > 1,
                           .pipelines = opts->dp,
                           .stages = opts->pp,
                           .tp = opts->tp,
                           .sequence_parallel = opts->sequence_parallel && opts->tp > 1,
                           .recompute = opts->recompute > 0 ? (luo_recompute)opts->recompute
                                                            : LUO_RECOMPUTE_NONE,
                           .dev = dev,
                           .layers = layers};
    LUO_TRY(luo_plan_grid(cli->arena, &grid, out, err));
    memcpy(pipes, (*out)->pipelines, (size_t)opts->dp * sizeof *pipes);
    for (int32_t d = 0; d < call->job.micro_batches % opts->dp; d++) pipes[d].micro_batches++;
    (*out)->pipelines = pipes;
    return LUO_OK;
}

/* ---- which of the ways ---- */

static bool has_any(const luo_args *args, const char *const *names, size_t n, const char **which)
{
    for (size_t i = 0; i < n; i++)
        if (luo_args_has(args, names[i])) {
            *which = names[i];
            return true;
        }
    return false;
}

/* The running plan is the base plan unless sizes of another one are given. */
static luo_status is_own(const luo_args *args, bool *own, luo_err *err)
{
    static const char *const sizes[] = {"tp", "pp", "dp", "tensor-model-parallel-size",
                                        "pipeline-model-parallel-size", "data-parallel-size"};
    static const char *const rest[] = {
        "zero", "global-batch-size", "seq-length", "micro-batch-size", "recompute",
        "recompute-granularity",
        "use-distributed-optimizer", "no-distributed-optimizer", "no-sequence-parallel",
        "use-tp-pp-dp-mapping"};
    const char *which;
    *own =
        luo_args_has(args, "prev") && !has_any(args, sizes, sizeof sizes / sizeof *sizes, &which);
    if (*own && has_any(args, rest, sizeof rest / sizeof *rest, &which))
        return luo_err_set(err, LUO_EUSAGE, "`--%s` belongs to a base plan, which is here that of "
                           "--prev; leave it out, or give --dp, --tp and --pp too.", which);
    return LUO_OK;
}

static luo_status best_uniform(luo_cli *cli, luo_malleus_call *call, luo_uniform_opts *opts,
                               luo_plan **out, luo_err *err)
{
    luo_uniform_result *found;
    int32_t n;
    opts->stack = &call->stack;
    LUO_TRY(luo_plan_uniform_fitting(cli->arena, call->model, call->cluster, opts, &found, &n, NULL,
                                     err));
    *out = found[0].plan;
    return LUO_OK;
}

static luo_status check(luo_cli *cli, const luo_malleus_call *call, const luo_plan *plan,
                        luo_err *err)
{
    luo_plan_finding *finding;
    int32_t n;
    const luo_status st =
        luo_plan_check(cli->arena, plan, call->model, &call->healthy, &finding, &n);
    return st == LUO_OK || n == 0
               ? st
               : luo_err_set(err, finding[0].st, "base plan: %s", finding[0].text);
}

luo_status luo_malleus_call_base(luo_cli *cli, luo_malleus_call *call, luo_err *err)
{
    const char *prev = luo_args_get(&cli->args, "prev", NULL);
    luo_uniform_opts opts = {0};
    luo_plan *base;
    bool own;
    LUO_TRY(is_own(&cli->args, &own, err));
    if (prev) LUO_TRY(luo_cli_plan(cli, prev, call->model, &call->healthy, &call->prev, NULL));
    call->job.prev = call->prev;
    LUO_TRY(check_tp(cli, call->cluster, err));
    call->job.dp_auto = strcmp(luo_args_get(&cli->args, "dp", ""), "auto") == 0;
    LUO_TRY(luo_plan_sizes(cli, false, &opts, err));
    LUO_TRY(luo_plan_seq_length(&cli->args, call->model, &opts.sequence_tokens, err));
    LUO_TRY(read_batch(cli, call, &opts, own, err));
    if (own)
        base = call->prev;
    else if (opts.tp && opts.pp && opts.dp)
        LUO_TRY(build(cli, call, &opts, &base, err));
    else
        LUO_TRY(best_uniform(cli, call, &opts, &base, err));
    call->job.base = base;
    return check(cli, call, base, err);
}
