/* Which devices the uniform planner takes, and where the parts of a plan lie on them. */
#include <string.h>

#include "core/plan/uniform/uniform_internal.h"

static luo_status find_usable(uniform_search *s)
{
    const luo_cluster *cluster = s->cluster;
    bool *out = LUO_NEW_N(s->scratch, bool, cluster->ndevices);
    s->usable = LUO_NEW_N(s->scratch, int32_t, cluster->ndevices);
    if (!out || !s->usable) return luo_err_nomem(s->err);
    for (int32_t i = 0; i < cluster->nstandby; i++) out[cluster->standby[i]] = true;
    for (int32_t i = 0; i < cluster->nhealth; i++) {
        luo_target target;
        if (!cluster->health[i].down) continue;
        LUO_TRY(luo_target_parse(s->scratch, cluster, cluster->health[i].target, &target, s->err));
        for (int32_t k = 0; k < target.choices->ndev; k++) out[target.choices->dev[k]] = true;
    }
    for (int32_t d = 0; d < cluster->ndevices; d++)
        if (!out[d]) s->usable[s->nusable++] = d;
    return LUO_OK;
}

static luo_status use_given(uniform_search *s)
{
    s->usable = LUO_NEW_N(s->scratch, int32_t, s->opts->ndevices);
    if (!s->usable) return luo_err_nomem(s->err);
    memcpy(s->usable, s->opts->devices, (size_t)s->opts->ndevices * sizeof *s->usable);
    s->nusable = s->opts->ndevices;
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
static int32_t list_types(const uniform_search *s, int32_t *of)
{
    int32_t n = 0;
    for (int32_t i = 0; i < s->nusable; i++) {
        int32_t k = 0;
        while (k < n && !same_type(s->cluster, of[k], s->usable[i])) k++;
        if (k == n && n == POOLS - WHOLE) continue; /* more types: only within the whole */
        if (k == n) of[n++] = s->usable[i];
    }
    return n;
}

static void append(const uniform_search *s, int32_t type, int32_t *dev, int32_t *n)
{
    for (int32_t i = 0; i < s->nusable; i++)
        if (same_type(s->cluster, type, s->usable[i])) dev[(*n)++] = s->usable[i];
}

static luo_status add_pool(uniform_search *s, const int32_t *types, int32_t ntypes)
{
    int32_t *dev = LUO_NEW_N(s->scratch, int32_t, s->nusable), n = 0;
    if (!dev) return luo_err_nomem(s->err);
    for (int32_t k = 0; k < ntypes; k++) append(s, types[k], dev, &n);
    s->pool[s->npools++] = (uniform_pool){dev, n, ntypes > 1};
    return LUO_OK;
}

/* All devices; of several types also those of each, and all with the types turned round: other
 * stages come first, and others stay idle where some have to. */
luo_status uniform_take_devices(uniform_search *s)
{
    int32_t types[POOLS], turned[POOLS];
    LUO_TRY(s->opts->devices ? use_given(s) : find_usable(s));
    s->pool[s->npools++] = (uniform_pool){s->usable, s->nusable, false};
    const int32_t n = list_types(s, types);
    s->several = n > 1;
    if (n < 2 || !s->opts->types) return LUO_OK;
    s->pool[0].mixed = true;
    for (int32_t k = 0; k < n; k++) turned[k] = types[n - 1 - k];
    LUO_TRY(add_pool(s, turned, n));
    for (int32_t k = 0; k < n; k++) LUO_TRY(add_pool(s, &types[k], 1));
    return LUO_OK;
}

bool uniform_is_of_one_type(const uniform_search *s, const uniform_frame *f)
{
    const int32_t n = f->dp * f->pp * uniform_width(f);
    for (int32_t i = 1; i < n; i++)
        if (!same_type(s->cluster, s->dev[0], s->dev[i])) return false;
    return true;
}

/* ---- groups and stages ---- */

void uniform_make_groups(uniform_search *s, int32_t pool, int32_t tp)
{
    const luo_device *at = s->cluster->devices;
    const uniform_pool *p = &s->pool[pool];
    if (s->groups_pool == pool && s->groups_tp == tp) return;
    s->ngroups = 0;
    s->groups_pool = pool;
    s->groups_tp = tp;
    s->placed = NULL;
    for (int32_t i = 0; i + tp <= p->n;) {
        if (at[p->dev[i]].node != at[p->dev[i + tp - 1]].node) {
            i++;
            continue;
        }
        memcpy(s->groups + (int64_t)s->ngroups * tp, p->dev + i, (size_t)tp * sizeof *s->groups);
        s->ngroups++;
        i += tp;
    }
}

/* Groups of (pipeline d, stage p), those of its ranks side by side. */
void uniform_place(uniform_search *s, const uniform_frame *f)
{
    const int32_t width = uniform_width(f);
    if (s->placed == f) return;
    uniform_make_groups(s, f->pool, f->tp);
    s->placed = f;
    for (int32_t d = 0; d < f->dp; d++)
        for (int32_t p = 0; p < f->pp; p++) {
            const int32_t g = f->neighbours ? p + f->pp * d : d + f->dp * p;
            memcpy(s->dev + ((int64_t)d * f->pp + p) * width, s->groups + (int64_t)g * width,
                   (size_t)width * sizeof *s->dev);
        }
}

int32_t uniform_near(uniform_search *s, const uniform_frame *f)
{
    const luo_device *at = s->cluster->devices;
    int32_t n = 1;
    uniform_place(s, f);
    while (n < f->dp && at[uniform_stage(s, f, n, 0)[0]].node == at[s->dev[0]].node) n++;
    return n > 1 && n < f->dp && f->dp % n == 0 ? n : 0;
}

int32_t uniform_neighbours(uniform_search *s, const uniform_frame *f)
{
    const luo_device *at = s->cluster->devices;
    int32_t n = 1;
    uniform_place(s, f);
    while (n < f->context.c && at[s->dev[n * f->tp]].node == at[s->dev[0]].node) n++;
    return n < f->context.c && f->context.c % n == 0 ? n : 1;
}
