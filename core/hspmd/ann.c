/* ann.c: canonical form, text and questions about annotations (docs/annotations.md). */
#include "core/hspmd/ann.h"
#include "core/base/devset.h"
#include "core/hspmd/bounds.h"

#include <string.h>

/* Shares divided by their gcd into *out, which stays NULL if they are all equal. */
static bool reduce(luo_arena *arena, const uint32_t *share, int32_t n, const uint32_t **out)
{
    *out = NULL;
    if (!share) return true;
    uint32_t g = 0;
    bool even = true;
    for (int32_t k = 0; k < n; k++) {
        g = (uint32_t)luo_bounds_gcd(g, share[k]);
        even = even && share[k] == share[0];
    }
    if (even) return true;
    uint32_t *small = luo_arena_alloc(arena, (size_t)n * sizeof *small);
    if (!small) return false;
    for (int32_t k = 0; k < n; k++) small[k] = share[k] / g;
    *out = small;
    return true;
}

static bool canonical_group(luo_arena *arena, const luo_grp *from, luo_grp *to, int32_t *dev)
{
    luo_ent *ent = luo_arena_alloc(arena, (size_t)from->nent * sizeof *ent);
    if (!ent) return false;
    int32_t n = 0;
    for (int32_t e = 0; e < from->nent; e++) {
        if (from->ent[e].n == 1) continue;
        ent[n] = from->ent[e];
        if (!reduce(arena, from->ent[e].share, ent[n].n, &ent[n].share)) return false;
        n++;
    }
    memcpy(dev, from->dev, (size_t)from->ndev * sizeof *dev);
    *to = (luo_grp){.ndev = from->ndev, .dev = dev, .nent = n, .ent = ent};
    return true;
}

const luo_ann *luo_ann_canonical(luo_arena *arena, const luo_ann *ann)
{
    luo_ann *out = LUO_NEW(arena, luo_ann);
    luo_grp *grp = LUO_NEW_N(arena, luo_grp, ann->u);
    int32_t *dev = luo_arena_alloc(arena, (size_t)luo_ann_ndev(ann) * sizeof *dev);
    if (!out || !grp || !dev) return NULL;
    *out = *ann;
    out->grp = grp;
    if (!reduce(arena, ann->hshare, ann->u, &out->hshare)) return NULL;
    for (int32_t u = 0; u < ann->u; u++) {
        if (!canonical_group(arena, &ann->grp[u], &grp[u], dev)) return NULL;
        dev += ann->grp[u].ndev;
    }
    return out;
}

static void print_shares(luo_str *text, const uint32_t *share, int32_t n)
{
    for (int32_t k = 0; k < n; k++) {
        luo_str_addc(text, k ? ',' : '(');
        luo_str_addi(text, share[k]);
    }
    luo_str_addc(text, ')');
}

static void print_group(luo_str *text, const luo_grp *group)
{
    luo_devset_print(text, group->dev, group->ndev);
    luo_str_addc(text, '{');
    for (int32_t e = 0; e < group->nent; e++) {
        if (e) luo_str_addc(text, ',');
        luo_str_addi(text, group->ent[e].key);
        luo_str_addc(text, ':');
        if (group->ent[e].share)
            print_shares(text, group->ent[e].share, group->ent[e].n);
        else
            luo_str_addi(text, group->ent[e].n);
    }
    luo_str_addc(text, '}');
}

void luo_ann_print(luo_str *text, const luo_ann *ann)
{
    if (ann->h != LUO_H_NONE) {
        luo_str_add(text, "h=");
        luo_str_addi(text, ann->h);
        if (ann->inner) luo_str_addc(text, 'i');
        if (ann->hshare) {
            luo_str_addc(text, ':');
            print_shares(text, ann->hshare, ann->u);
        }
        luo_str_addc(text, ' ');
    }
    for (int32_t u = 0; u < ann->u; u++) {
        if (u) luo_str_add(text, " | ");
        print_group(text, &ann->grp[u]);
    }
}

static bool equal_shares(const uint32_t *a, const uint32_t *b, int32_t n)
{
    if (!a || !b) return a == b;
    return memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

static bool equal_groups(const luo_grp *a, const luo_grp *b)
{
    if (a->ndev != b->ndev) return false;
    if (memcmp(a->dev, b->dev, (size_t)a->ndev * sizeof *a->dev) != 0) return false;
    return luo_grp_same_cut(a, b);
}

bool luo_grp_same_cut(const luo_grp *a, const luo_grp *b)
{
    if (a->nent != b->nent) return false;
    for (int32_t e = 0; e < a->nent; e++)
        if (a->ent[e].key != b->ent[e].key || a->ent[e].n != b->ent[e].n ||
            !equal_shares(a->ent[e].share, b->ent[e].share, a->ent[e].n))
            return false;
    return true;
}

bool luo_ann_equal(const luo_ann *a, const luo_ann *b)
{
    if (a == b) return true;
    if (a->u != b->u || a->h != b->h || a->inner != b->inner) return false;
    if (!equal_shares(a->hshare, b->hshare, a->u)) return false;
    for (int32_t u = 0; u < a->u; u++)
        if (!equal_groups(&a->grp[u], &b->grp[u])) return false;
    return true;
}

static uint64_t mix(uint64_t h, int64_t x)
{
    h = (h ^ (uint64_t)x) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ (h >> 29);
}

static uint64_t mix_shares(uint64_t h, const uint32_t *share, int32_t n)
{
    h = mix(h, share ? n : -n);
    for (int32_t k = 0; share && k < n; k++) h = mix(h, share[k]);
    return h;
}

uint64_t luo_ann_hash(const luo_ann *ann)
{
    uint64_t h = mix_shares(mix(mix(mix(0, ann->u), ann->h), ann->inner), ann->hshare, ann->u);
    for (int32_t u = 0; u < ann->u; u++) {
        const luo_grp *group = &ann->grp[u];
        h = mix(h, group->ndev);
        for (int32_t i = 0; i < group->ndev; i++)
            if (i == 0 || group->dev[i] != group->dev[i - 1] + 1) h = mix(mix(h, i), group->dev[i]);
        h = mix(h, group->nent);
        for (int32_t e = 0; e < group->nent; e++)
            h = mix_shares(mix(h, group->ent[e].key), group->ent[e].share, group->ent[e].n);
    }
    return h;
}

static const luo_ent *entry_of(const luo_grp *group, int32_t key)
{
    for (int32_t e = 0; e < group->nent; e++)
        if (group->ent[e].key == key) return &group->ent[e];
    return NULL;
}

int32_t luo_grp_count(const luo_grp *group, int32_t key)
{
    const luo_ent *ent = entry_of(group, key);
    return ent ? ent->n : 1;
}

const uint32_t *luo_grp_share(const luo_grp *group, int32_t key)
{
    const luo_ent *ent = entry_of(group, key);
    return ent ? ent->share : NULL;
}

int32_t luo_grp_stride(const luo_grp *group, int32_t key)
{
    int32_t stride = 1;
    for (int32_t e = group->nent; e-- > 0;) {
        if (group->ent[e].key == key) return stride;
        stride *= group->ent[e].n;
    }
    return 0;
}

int32_t luo_grp_coord(const luo_grp *group, int32_t i, int32_t key)
{
    const int32_t stride = luo_grp_stride(group, key);
    return stride ? i / stride % luo_grp_count(group, key) : 0;
}

bool luo_ann_has_partial(const luo_ann *ann)
{
    if (ann->h == LUO_PARTIAL) return true;
    for (int32_t u = 0; u < ann->u; u++)
        if (luo_grp_count(&ann->grp[u], LUO_PARTIAL) > 1) return true;
    return false;
}

int32_t luo_ann_ndev(const luo_ann *ann)
{
    int32_t n = 0;
    for (int32_t u = 0; u < ann->u; u++) n += ann->grp[u].ndev;
    return n;
}
