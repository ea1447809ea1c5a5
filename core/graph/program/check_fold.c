/* check_fold.c: which devices the abstract machine has to run.
 *
 * A class: devices of one stage with one list; its j-th devices are *copy* j. Where every call
 * meets either inside one copy, in each copy with the same classes, or all devices of each of its
 * classes, all copies can take the steps of copy 0 together: what finishes there finishes
 * everywhere. TP groups are the rule: with them a stage is one device here. */
#include <stdlib.h>
#include <string.h>

#include "core/graph/program/check_internal.h"

typedef struct place { /* for sorting */
    const check_list *list;
    int32_t pipeline, stage, at;
} place;

typedef struct folder {
    const luo_programs *set;
    const check_list *const *lists;
    int32_t *index;        /* by device id: program; -1: none */
    int32_t max_device;
    place *place;          /* by class */
    int32_t *cls, *copy;   /* by program */
    int32_t *first, *size; /* by class: in place */
    int32_t ncls;
    bool *whole;           /* by group: known to hold classes wholly */
    struct aligned {
        int32_t zero, copy, size; /* zero: group of copy 0 + 1 */
    } *aligned; /* by group: known to be that copy's, for classes of that size */
    int32_t *held;         /* by class: room, 0 */
} folder;

static int by_list(const void *p, const void *q)
{
    const place *a = p, *b = q;
    if (a->pipeline != b->pipeline) return a->pipeline < b->pipeline ? -1 : 1;
    if (a->stage != b->stage) return a->stage < b->stage ? -1 : 1;
    if (a->list != b->list) return (uintptr_t)a->list < (uintptr_t)b->list ? -1 : 1;
    return (a->at > b->at) - (a->at < b->at);
}

static void make_classes(folder *f)
{
    const int32_t n = f->set->n;
    for (int32_t i = 0; i < n; i++)
        f->place[i] = (place){f->lists[i], f->set->at[i].pipeline, f->set->at[i].stage, i};
    if (n > 1) qsort(f->place, (size_t)n, sizeof *f->place, by_list);
    for (int32_t i = 0; i < n; i++) {
        const place *p = &f->place[i];
        if (i == 0 || p->list != p[-1].list || p->pipeline != p[-1].pipeline ||
            p->stage != p[-1].stage)
            f->first[f->ncls++] = i;
        const int32_t c = f->ncls - 1;
        f->cls[p->at] = c;
        f->copy[p->at] = f->size[c]++;
    }
}

static int32_t find(const folder *f, int32_t device)
{
    return device >= 0 && device <= f->max_device ? f->index[device] : -1;
}

/* Is every class that has a device in the group there with all of them? */
static bool holds_whole(folder *f, int32_t group)
{
    const luo_group *g = &f->set->groups[group];
    bool whole = true;
    if (f->whole[group]) return true;
    for (int32_t i = 0; whole && i < g->n; i++) {
        whole = find(f, g->dev[i]) >= 0;
        if (whole) f->held[f->cls[find(f, g->dev[i])]]++;
    }
    for (int32_t i = 0; whole && i < g->n; i++) {
        const int32_t c = f->cls[find(f, g->dev[i])];
        whole = f->held[c] == f->size[c];
    }
    for (int32_t i = 0; i < g->n; i++)
        if (find(f, g->dev[i]) >= 0) f->held[f->cls[find(f, g->dev[i])]] = 0;
    f->whole[group] = whole;
    return whole;
}

/* Is a device of copy `copy` in place of that of copy 0, among as many? */
static bool stands_for(const folder *f, int32_t device, int32_t zero, int32_t copy, int32_t size)
{
    const int32_t a = find(f, device), b = find(f, zero);
    return a >= 0 && b >= 0 && f->cls[a] == f->cls[b] && f->copy[a] == copy && f->copy[b] == 0 &&
           f->size[f->cls[a]] == size;
}

static bool is_copy(folder *f, int32_t group, int32_t zero, int32_t copy, int32_t size)
{
    const luo_group *h = &f->set->groups[group], *g = &f->set->groups[zero];
    struct aligned *known = &f->aligned[group];
    if (known->zero == zero + 1 && known->copy == copy && known->size == size) return true;
    for (int32_t i = 0; i < g->n; i++)
        if (!stands_for(f, h->dev[i], g->dev[i], copy, size)) return false;
    *known = (struct aligned){zero + 1, copy, size};
    return true;
}

static const luo_slot *slot_of(const folder *f, int32_t c, int32_t copy, int32_t slot)
{
    return &f->set->at[f->place[f->first[c] + copy].at].slots[slot];
}

static bool calls_agree(folder *f, int32_t c, int32_t slot)
{
    const luo_slot *zero = slot_of(f, c, 0, slot);
    const luo_group *group = &f->set->groups[zero->group];
    bool one = true;
    for (int32_t j = 1; j < f->size[c]; j++) {
        const luo_slot *s = slot_of(f, c, j, slot);
        one &= s->group == zero->group;
        if (f->set->groups[s->group].n != group->n || !check_same_counts(s, zero, group->n))
            return false;
    }
    if (one && holds_whole(f, zero->group)) return true;
    for (int32_t j = 0; j < f->size[c]; j++)
        if (!is_copy(f, slot_of(f, c, j, slot)->group, zero->group, j, f->size[c])) return false;
    return true;
}

static bool messages_agree(const folder *f, int32_t c, int32_t slot)
{
    const luo_slot *zero = slot_of(f, c, 0, slot);
    for (int32_t j = 0; j < f->size[c]; j++) {
        const luo_slot *s = slot_of(f, c, j, slot);
        if (s->nmessage != zero->nmessage) return false;
        for (int32_t k = 0; k < s->nmessage; k++) {
            const luo_message *message = &s->message[k], *y = &zero->message[k];
            if (message->send != y->send || message->elements != y->elements ||
                message->bytes != y->bytes || !stands_for(f, message->peer, y->peer, j, f->size[c]))
                return false;
        }
    }
    return true;
}

static bool class_folds(folder *f, int32_t c)
{
    const luo_role *role = f->place[f->first[c]].list->role;
    for (int32_t i = 0; i < role->ninstr; i++) {
        const luo_instr *in = &role->instr[i];
        if (in->slot < 0) continue;
        if (in->kind == LUO_INSTR_COLLECTIVE && !calls_agree(f, c, in->slot)) return false;
        if (in->kind == LUO_INSTR_P2P && !messages_agree(f, c, in->slot)) return false;
    }
    return true;
}

luo_status luo_check_fold(luo_arena *scratch, const luo_programs *set,
                          const check_list *const *lists, bool *runs, bool *folded, luo_err *err)
{
    const int32_t n = set->n;
    folder f = {.set = set, .lists = lists, .max_device = n ? set->at[n - 1].device : -1,
                .place = LUO_NEW_N(scratch, place, n), .cls = LUO_NEW_N(scratch, int32_t, n),
                .copy = LUO_NEW_N(scratch, int32_t, n), .first = LUO_NEW_N(scratch, int32_t, n),
                .size = LUO_NEW_N(scratch, int32_t, n), .held = LUO_NEW_N(scratch, int32_t, n),
                .whole = LUO_NEW_N(scratch, bool, set->ngroups),
                .aligned = LUO_NEW_N(scratch, struct aligned, set->ngroups)};
    f.index = LUO_NEW_N(scratch, int32_t, (int64_t)f.max_device + 1);
    if (!f.place || !f.cls || !f.copy || !f.first || !f.size || !f.held || !f.whole || !f.aligned ||
        !f.index)
        return luo_err_nomem(err);
    for (int32_t d = 0; d <= f.max_device; d++) f.index[d] = -1;
    for (int32_t i = 0; i < n; i++) f.index[set->at[i].device] = i;
    make_classes(&f);
    *folded = f.ncls < n;
    for (int32_t c = 0; *folded && c < f.ncls; c++) *folded = class_folds(&f, c);
    for (int32_t i = 0; i < n; i++) runs[i] = !*folded || f.copy[i] == 0;
    return LUO_OK;
}
