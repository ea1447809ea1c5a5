/* Counters of one traced step: stored bytes of every device, traffic of every NIC. */
#include <stdio.h>
#include <stdlib.h>

#include "core/io/trace/trace_step.h"

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

/* State plus stored activations: an F task (or BI) adds what it stores when it starts, the B task
 * (or BI, BW) of the same micro-batch and chunk gives it back when it ends. What failed has not: a
 * receive that was posted early begins no task. Work buffers inside a task are left out, and so is
 * what the rules of a stack add (memory.csv has both). */
bool luo_trace_memory(luo_tstep *c, const luo_program *p, int64_t first, int64_t n)
{
    luo_arena *scratch = c->t->scratch;
    const size_t mark = luo_arena_mark(scratch);
    if (c->set->roles[p->role].nbuf == 0) return true; /* of a table */
    luo_when *task = LUO_NEW_N(scratch, luo_when, p->ntask);
    stash_change *ch = LUO_NEW_N(scratch, stash_change, 2 * (int64_t)p->ntask);
    bool *failed = LUO_NEW_N(scratch, bool, p->ntask);
    luo_programs own = *c->set;
    luo_memory_account account;
    own.memory = (luo_memory_rules){0};
    bool ok =
        task && ch && failed && luo_program_account(scratch, &own, p, &account, NULL) == LUO_OK;
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
        const luo_memory_curve *x = &account.curve[p->tasks[i].seg];
        if (task[i].end == 0) continue;
        if (x->made > 0) ch[nch++] = (stash_change){task[i].ts, x->made, i};
        if (x->freed > 0 && !failed[i]) ch[nch++] = (stash_change){task[i].end, -x->freed, i};
    }
    int64_t level = 0;
    if (ok) {
        level = account.state.weights + account.state.gradients + account.state.optimizer;
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

static bool put_nic(luo_trace *trace, int32_t link, bool up, int64_t ts, double ratio)
{
    double *last = &trace->nic[2 * link + !up];
    if (*last == ratio || (*last < 0 && ratio == 0)) return true;
    const luo_link *l = &trace->cluster->links[link];
    char name[160];
    snprintf(name, sizeof name, "%s%c utilisation", l->name, up ? '>' : '<');
    luo_titem x = luo_trace_item(LUO_TITEM_RATIO, l->node + 1, 0, ts);
    x.name = luo_trace_name(trace, name);
    x.value = *last = ratio;
    return x.name >= 0 && luo_trace_add(trace, x);
}

/* Share of each NIC's bandwidth over the step. After a step that no traced one follows it falls
 * back to 0. */
bool luo_trace_nics(luo_trace *trace, int64_t start, int64_t end, const luo_link_use *use,
                    int32_t n)
{
    for (int32_t i = 0; i < n && i < trace->cluster->nlinks; i++) {
        const luo_link *link = &trace->cluster->links[i];
        if (link->kind != LUO_LINK_NIC || end <= start) continue;
        if (trace->nic_until < start && (!put_nic(trace, i, true, trace->nic_until, 0) ||
                                         !put_nic(trace, i, false, trace->nic_until, 0)))
            return false;
        const double most = link->bytes_per_s * (double)(end - start) * 1e-9;
        if (!put_nic(trace, i, true, start, use[i].bytes_up / most) ||
            !put_nic(trace, i, false, start, use[i].bytes_down / most))
            return false;
    }
    trace->nic_until = end;
    return true;
}
