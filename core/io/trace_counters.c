/* Counters of one traced step: stored bytes of every device, traffic of every NIC. */
#include <stdio.h>
#include <stdlib.h>

#include "core/io/trace_step.h"

/* Bytes of what a segment stores for the backward pass. */
static int64_t stash_bytes(luo_arena *scratch, const luo_role *role, const luo_segment *seg)
{
    const size_t mark = luo_arena_mark(scratch);
    bool *seen = LUO_NEW_N(scratch, bool, role->nbuf);
    int64_t sum = seen ? 0 : -1;
    for (int32_t i = seg->first; seen && i < seg->first + seg->n; i++)
        for (int32_t k = 0; k < role->instr[i].nout; k++) {
            const int32_t b = role->instr[i].out[k];
            if (role->buf[b].buffer_class != LUO_BUFFER_STASH || seen[b]) continue;
            seen[b] = true;
            sum += role->buf[b].bytes;
        }
    luo_arena_reset(scratch, mark);
    return sum;
}

typedef struct stash_change {
    int64_t ts, bytes;
    int64_t order;
} stash_change;

static int by_time(const void *a, const void *b)
{
    const stash_change *x = a, *y = b;
    return x->ts != y->ts ? (x->ts > y->ts) - (x->ts < y->ts)
                          : (x->order > y->order) - (x->order < y->order);
}

static bool put_memory(luo_tstep *c, int32_t device, int64_t ts, int64_t bytes)
{
    char name[64];
    if (c->t->memory[device] == bytes) return true;
    c->t->memory[device] = bytes;
    snprintf(name, sizeof name, "dev %d memory", device);
    luo_titem x = luo_trace_item(LUO_TITEM_BYTES, c->t->cluster->devices[device].node + 1, 0, ts);
    x.name = luo_trace_name(c->t, name);
    x.bytes = bytes;
    return x.name >= 0 && luo_trace_add(c->t, x);
}

/* State plus stored activations: an F task adds what it stores when it starts, the B task of the
 * same micro-batch and chunk gives it back when it ends. What failed has not: a receive that was
 * posted early begins no task. Work buffers inside a task are left out. */
bool luo_trace_memory(luo_tstep *c, const luo_program *p, int64_t first, int64_t n)
{
    const luo_role *role = &c->set->roles[p->role];
    luo_arena *scratch = c->t->scratch;
    const size_t mark = luo_arena_mark(scratch);
    luo_when *task = LUO_NEW_N(scratch, luo_when, p->ntask);
    stash_change *ch = LUO_NEW_N(scratch, stash_change, p->ntask);
    int64_t *stash = LUO_NEW_N(scratch, int64_t, role->nseg);
    bool *failed = LUO_NEW_N(scratch, bool, p->ntask);
    bool ok = task && ch && stash && failed;
    for (int32_t s = 0; ok && s < role->nseg; s++)
        ok = (stash[s] = stash_bytes(scratch, role, &role->seg[s])) >= 0;
    for (int64_t k = first; ok && k < first + n; k++) {
        const luo_op_record *o = &c->result->records[k];
        luo_when *w = &task[o->task];
        failed[o->task] |= o->status != LUO_OK;
        if (o->status != LUO_OK) continue;
        if (w->end == 0 || c->at[k].ts < w->ts) w->ts = c->at[k].ts;
        if (c->at[k].end > w->end) w->end = c->at[k].end;
    }
    int32_t nch = 0;
    for (int32_t i = 0; ok && i < p->ntask; i++) {
        const luo_segment *seg = &role->seg[p->tasks[i].seg];
        if (task[i].end == 0) continue;
        if (seg->phase == LUO_PHASE_F && stash[p->tasks[i].seg] > 0)
            ch[nch++] = (stash_change){task[i].ts, stash[p->tasks[i].seg], i};
        if (seg->phase != LUO_PHASE_B || failed[i]) continue;
        for (int32_t j = 0; j < role->nseg; j++) /* the F segment of the same chunk and length */
            if (role->seg[j].phase == LUO_PHASE_F && role->seg[j].chunk == seg->chunk &&
                role->seg[j].tokens == seg->tokens) {
                ch[nch++] = (stash_change){task[i].end, -stash[j], i};
                break;
            }
    }
    int64_t level = 0;
    for (int32_t b = 0; b < role->nbuf; b++)
        if (role->buf[b].buffer_class <= LUO_BUFFER_OPTIMIZER) level += role->buf[b].bytes;
    if (ok) {
        qsort(ch, (size_t)nch, sizeof *ch, by_time);
        ok = put_memory(c, p->device, c->start, level);
    }
    for (int32_t i = 0; ok && i < nch; i++) {
        level += ch[i].bytes;
        ok = put_memory(c, p->device, ch[i].ts, level);
    }
    luo_arena_reset(scratch, mark);
    return ok;
}

static bool put_nic(luo_trace *t, int32_t link, bool up, int64_t ts, double ratio)
{
    double *last = &t->nic[2 * link + !up];
    if (*last == ratio || (*last < 0 && ratio == 0)) return true;
    const luo_link *l = &t->cluster->links[link];
    char name[160];
    snprintf(name, sizeof name, "%s%c utilisation", l->name, up ? '>' : '<');
    luo_titem x = luo_trace_item(LUO_TITEM_RATIO, l->node + 1, 0, ts);
    x.name = luo_trace_name(t, name);
    x.value = *last = ratio;
    return x.name >= 0 && luo_trace_add(t, x);
}

/* Share of each NIC's bandwidth over the step. After a step that no traced one follows it falls
 * back to 0. */
bool luo_trace_nics(luo_trace *t, int64_t start, int64_t end, const luo_link_use *use, int32_t n)
{
    for (int32_t i = 0; i < n && i < t->cluster->nlinks; i++) {
        const luo_link *l = &t->cluster->links[i];
        if (l->kind != LUO_LINK_NIC || end <= start) continue;
        if (t->nic_until < start &&
            (!put_nic(t, i, true, t->nic_until, 0) || !put_nic(t, i, false, t->nic_until, 0)))
            return false;
        const double most = l->bytes_per_s * (double)(end - start) * 1e-9;
        if (!put_nic(t, i, true, start, use[i].bytes_up / most) ||
            !put_nic(t, i, false, start, use[i].bytes_down / most))
            return false;
    }
    t->nic_until = end;
    return true;
}
