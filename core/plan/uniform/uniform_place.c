/* Which devices the uniform planner takes, and where the parts of a plan lie on them. */
#include <string.h>

#include "core/plan/uniform/uniform_internal.h"

static luo_status find_usable(uniform_search *search)
{
    const luo_cluster *cluster = search->cluster;
    bool *out = LUO_NEW_N(search->scratch, bool, cluster->ndevices);
    search->usable = LUO_NEW_N(search->scratch, int32_t, cluster->ndevices);
    if (!out || !search->usable) return luo_err_nomem(search->err);
    for (int32_t i = 0; i < cluster->nstandby; i++) out[cluster->standby[i]] = true;
    for (int32_t i = 0; i < cluster->nhealth; i++) {
        luo_target target;
        if (!cluster->health[i].down) continue;
        LUO_TRY(luo_target_parse(search->scratch, cluster, cluster->health[i].target, &target,
                                 search->err));
        for (int32_t k = 0; k < target.choices->ndev; k++) out[target.choices->dev[k]] = true;
    }
    for (int32_t d = 0; d < cluster->ndevices; d++)
        if (!out[d]) search->usable[search->nusable++] = d;
    return LUO_OK;
}

static luo_status use_given(uniform_search *search)
{
    search->usable = LUO_NEW_N(search->scratch, int32_t, search->opts->ndevices);
    if (!search->usable) return luo_err_nomem(search->err);
    memcpy(search->usable, search->opts->devices,
           (size_t)search->opts->ndevices * sizeof *search->usable);
    search->nusable = search->opts->ndevices;
    return LUO_OK;
}

/* ---- types ---- */

static bool same_type(const luo_cluster *cluster, int32_t a, int32_t b)
{
    return cluster->devices[a].kind == cluster->devices[b].kind ||
           (strcmp(luo_cluster_profile(cluster, a)->name, luo_cluster_profile(cluster, b)->name) ==
                0 &&
            luo_cluster_base_slowdown(cluster, a) == luo_cluster_base_slowdown(cluster, b));
}

enum { POOLS = sizeof((uniform_search *)0)->pool / sizeof(uniform_pool), WHOLE = 2 };

/* Types in the order of their first devices: of[] has the first device of each. */
static int32_t list_types(const uniform_search *search, int32_t *of)
{
    int32_t n = 0;
    for (int32_t i = 0; i < search->nusable; i++) {
        int32_t k = 0;
        while (k < n && !same_type(search->cluster, of[k], search->usable[i])) k++;
        if (k == n && n == POOLS - WHOLE) continue; /* more types: only within the whole */
        if (k == n) of[n++] = search->usable[i];
    }
    return n;
}

static void append(const uniform_search *search, int32_t type, int32_t *dev, int32_t *n)
{
    for (int32_t i = 0; i < search->nusable; i++)
        if (same_type(search->cluster, type, search->usable[i])) dev[(*n)++] = search->usable[i];
}

static luo_status add_pool(uniform_search *search, const int32_t *types, int32_t ntypes)
{
    int32_t *dev = LUO_NEW_N(search->scratch, int32_t, search->nusable), n = 0;
    if (!dev) return luo_err_nomem(search->err);
    for (int32_t k = 0; k < ntypes; k++) append(search, types[k], dev, &n);
    search->pool[search->npools++] = (uniform_pool){dev, n, ntypes > 1};
    return LUO_OK;
}

/* All devices; of several types also those of each, and all with the types turned round: other
 * stages come first, and others stay idle where some have to. */
luo_status uniform_take_devices(uniform_search *search)
{
    int32_t types[POOLS], turned[POOLS];
    LUO_TRY(search->opts->devices ? use_given(search) : find_usable(search));
    search->pool[search->npools++] = (uniform_pool){search->usable, search->nusable, false};
    const int32_t n = list_types(search, types);
    search->several = n > 1;
    if (n < 2 || !search->opts->types) return LUO_OK;
    search->pool[0].mixed = true;
    for (int32_t k = 0; k < n; k++) turned[k] = types[n - 1 - k];
    LUO_TRY(add_pool(search, turned, n));
    for (int32_t k = 0; k < n; k++) LUO_TRY(add_pool(search, &types[k], 1));
    return LUO_OK;
}

bool uniform_is_of_one_type(const uniform_search *search, const uniform_frame *frame)
{
    const int32_t n = frame->dp * frame->pp * uniform_width(frame);
    for (int32_t i = 1; i < n; i++)
        if (!same_type(search->cluster, search->dev[0], search->dev[i])) return false;
    return true;
}

/* ---- groups and stages ---- */

void uniform_make_groups(uniform_search *search, int32_t pool, int32_t tp)
{
    const luo_device *at = search->cluster->devices;
    const uniform_pool *p = &search->pool[pool];
    if (search->groups_pool == pool && search->groups_tp == tp) return;
    search->ngroups = 0;
    search->groups_pool = pool;
    search->groups_tp = tp;
    search->placed = NULL;
    for (int32_t i = 0; i + tp <= p->n;) {
        if (at[p->dev[i]].node != at[p->dev[i + tp - 1]].node) {
            i++;
            continue;
        }
        memcpy(search->groups + (int64_t)search->ngroups * tp, p->dev + i,
               (size_t)tp * sizeof *search->groups);
        search->ngroups++;
        i += tp;
    }
}

/* Groups of (pipeline d, stage p), those of its ranks side by side. */
void uniform_place(uniform_search *search, const uniform_frame *frame)
{
    const int32_t width = uniform_width(frame);
    if (search->placed == frame) return;
    uniform_make_groups(search, frame->pool, frame->tp);
    search->placed = frame;
    for (int32_t d = 0; d < frame->dp; d++)
        for (int32_t p = 0; p < frame->pp; p++) {
            const int32_t g = frame->neighbours ? p + frame->pp * d : d + frame->dp * p;
            memcpy(search->dev + ((int64_t)d * frame->pp + p) * width,
                   search->groups + (int64_t)g * width, (size_t)width * sizeof *search->dev);
        }
}

int32_t uniform_near(uniform_search *search, const uniform_frame *frame)
{
    const luo_device *at = search->cluster->devices;
    int32_t n = 1;
    uniform_place(search, frame);
    while (n < frame->dp &&
           at[uniform_stage(search, frame, n, 0)[0]].node == at[search->dev[0]].node)
        n++;
    return n > 1 && n < frame->dp && frame->dp % n == 0 ? n : 0;
}

int32_t uniform_neighbours(uniform_search *search, const uniform_frame *frame)
{
    const luo_device *at = search->cluster->devices;
    int32_t n = 1;
    uniform_place(search, frame);
    while (n < frame->context.c && at[search->dev[n * frame->tp]].node == at[search->dev[0]].node)
        n++;
    return n < frame->context.c && frame->context.c % n == 0 ? n : 1;
}
