/* Why a search found nothing: the sentence with the number that helps. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/plan/auto/search_internal.h"

static int32_t smallest_device(const luo_auto_job *job, int32_t first, int32_t devices)
{
    int32_t least = first;
    for (int32_t d = first; d < first + devices; d++)
        if (job->cluster.limit_bytes[d] < job->cluster.limit_bytes[least]) least = d;
    return least;
}

void luo_auto_shortage_note(luo_auto_shortage *least, const luo_auto_job *job,
                            const luo_auto_stage *stage, int32_t stages)
{
    luo_auto_shortage worst = {0};
    for (int32_t i = 0; i < stages; i++) {
        const int32_t device =
            smallest_device(job, stage[i].first_device, job->cluster.devices / stages);
        const double limit = job->cluster.limit_bytes[device];
        const double needed = (double)stage[i].least * job->unit_bytes;
        if (stage[i].least <= stage[i].budget || needed / limit <= worst.over) continue;
        worst = (luo_auto_shortage){needed / limit, needed, limit, device};
    }
    if (least->over == 0 || worst.over < least->over) *least = worst;
}

/* With one decimal, or as many as tell the two numbers apart. */
static luo_status short_of_memory(const luo_auto_shortage *shortage, luo_err *err)
{
    const double gib = 1 << 30;
    char limit[32], needed[32];
    int decimals = 1;
    do {
        snprintf(limit, sizeof limit, "%.*f", decimals, shortage->limit_bytes / gib);
        snprintf(needed, sizeof needed, "%.*f", decimals, shortage->needed_bytes / gib);
    } while (strcmp(limit, needed) == 0 && ++decimals < 10);
    return luo_err_set(err, LUO_EINFEASIBLE,
                       "no strategy fits %s GiB on device %d; the smallest needs %s GiB.", limit,
                       shortage->device, needed);
}

/* ---- batches that can be dealt ---- */

typedef struct choices { /* of every layer on one number of stages */
    int32_t p, strategies;
    luo_auto_strategy *strategy;
    bool *possible; /* [layer][strategy]: it cuts the layer and is allowed */
} choices;

static bool same_as_before(const luo_auto_job *job, int32_t l)
{
    return l > 0 && !job->allow && luo_auto_layer_same(&job->layer[l - 1], &job->layer[l]);
}

static luo_status look(luo_arena *scratch, const luo_auto_job *job, int32_t p, choices *x,
                       luo_err *err)
{
    const luo_auto_env env = {.cluster = &job->cluster, .devices = job->cluster.devices / p};
    double *share = LUO_NEW_N(scratch, double, env.devices);
    x->p = p;
    LUO_TRY(luo_auto_strategies(scratch, env.devices, job->checkpointing, &x->strategy,
                                &x->strategies, err));
    x->possible = LUO_NEW_N(scratch, bool, (int64_t)job->layers * x->strategies);
    if (!share || !x->possible) return luo_err_nomem(err);
    for (int32_t l = 0; l < job->layers; l++) {
        bool *row = x->possible + (int64_t)l * x->strategies;
        if (same_as_before(job, l)) {
            memcpy(row, row - x->strategies, (size_t)x->strategies * sizeof *row);
            continue;
        }
        for (int32_t s = 0; s < x->strategies; s++) {
            luo_auto_skip skip;
            LUO_TRY(luo_auto_deal_width(scratch, &env, &x->strategy[s], &job->layer[l], share,
                                        &skip, err));
            row[s] = skip == LUO_AUTO_TAKEN &&
                     (!job->allow || job->allow(job->allow_ctx, l, &x->strategy[s]));
        }
    }
    return LUO_OK;
}

static bool layer_deals(const choices *x, int32_t l, int64_t samples)
{
    const bool *row = x->possible + (int64_t)l * x->strategies;
    for (int32_t s = 0; s < x->strategies; s++)
        if (row[s] && samples % luo_auto_strategy_data(&x->strategy[s]) == 0) return true;
    return false;
}

/* If any number of micro-batches will do, the smallest does. */
static bool deals(const luo_auto_job *job, const choices *x, int64_t batch)
{
    const int32_t m = luo_auto_search_first_micro_batches(job, x->p);
    if (batch % m) return false;
    for (int32_t l = 0; l < job->layers; l++)
        if (!same_as_before(job, l) && !layer_deals(x, l, batch / m)) return false;
    return true;
}

/* The next batch that some pipeline deals; 0: none near, or this one is dealt already. What m times
 * all devices does not divide either is a matter of widths. */
static int64_t next_batch(const luo_auto_job *job, const choices *x, int32_t n)
{
    const int64_t m = luo_auto_search_first_micro_batches(job, job->cluster.devices);
    const int64_t last = job->batch + m * job->cluster.devices;
    for (int64_t batch = job->batch; batch <= last; batch++)
        for (int32_t i = 0; i < n; i++)
            if (deals(job, &x[i], batch)) return batch == job->batch ? 0 : batch;
    return 0;
}

luo_status luo_auto_search_refuse(luo_arena *scratch, const luo_auto_job *job,
                                  const luo_auto_shortage *shortage, luo_err *err)
{
    int32_t n = 0;
    if (shortage->over > 0) return short_of_memory(shortage, err);
    choices *x = LUO_NEW_N(scratch, choices, job->cluster.devices);
    if (!x) return luo_err_nomem(err);
    for (int32_t p = 1; p <= job->cluster.devices; p++)
        if (luo_auto_search_stages(job, p)) LUO_TRY(look(scratch, job, p, &x[n++], err));
    const int64_t other = next_batch(job, x, n);
    if (other)
        return luo_err_set(err, LUO_EUSAGE,
                           "batch %lld cannot be divided by any number of micro-batches and data "
                           "degree; try %lld.",
                           (long long)job->batch, (long long)other);
    return luo_err_set(err, LUO_EINFEASIBLE,
                       "no strategy suits all layers on any number of stages; other heads or "
                       "widths, or fewer fixed choices, are needed.");
}
