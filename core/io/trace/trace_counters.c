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

static bool put_memory(luo_tstep *step, int32_t device, int64_t ts, int64_t bytes)
{
    char name[64];
    if (step->t->memory[device] == bytes) return true;
    step->t->memory[device] = bytes;
    snprintf(name, sizeof name, "dev %d memory", device);
    luo_titem titem =
        luo_trace_item(LUO_TITEM_BYTES, step->t->cluster->devices[device].node + 1, 0, ts);
    titem.name = luo_trace_name(step->t, name);
    titem.bytes = bytes;
    return titem.name >= 0 && luo_trace_add(step->t, titem);
}

/* State plus stored activations: an F task (or BI) adds what it stores when it starts, the B task
 * (or BI, BW) of the same micro-batch and chunk gives it back when it ends. What failed has not: a
 * receive that was posted early begins no task. Work buffers inside a task are left out, and so is
 * what the rules of a stack add (memory.csv has both). */
bool luo_trace_memory(luo_tstep *step, const luo_program *program, int64_t first, int64_t n)
{
    luo_arena *scratch = step->t->scratch;
    const size_t mark = luo_arena_mark(scratch);
    if (step->set->roles[program->role].nbuf == 0) return true; /* of a table */
    luo_when *task = LUO_NEW_N(scratch, luo_when, program->ntask);
    stash_change *ch = LUO_NEW_N(scratch, stash_change, 2 * (int64_t)program->ntask);
    bool *failed = LUO_NEW_N(scratch, bool, program->ntask);
    luo_programs own = *step->set;
    luo_memory_account account;
    own.memory = (luo_memory_rules){0};
    bool ok = task && ch && failed &&
              luo_program_account(scratch, &own, program, &account, NULL) == LUO_OK;
    for (int64_t k = first; ok && k < first + n; k++) {
        const luo_op_record *record = &step->result->records[k];
        luo_when *when = &task[record->task];
        failed[record->task] |= record->status != LUO_OK;
        if (record->status != LUO_OK) continue;
        if (when->end == 0 || step->at[k].ts < when->ts) when->ts = step->at[k].ts;
        if (step->at[k].end > when->end) when->end = step->at[k].end;
    }
    int32_t nch = 0;
    for (int32_t i = 0; ok && i < program->ntask; i++) {
        const luo_memory_curve *curve = &account.curve[program->tasks[i].seg];
        if (task[i].end == 0) continue;
        if (curve->made > 0) ch[nch++] = (stash_change){task[i].ts, curve->made, i};
        if (curve->freed > 0 && !failed[i])
            ch[nch++] = (stash_change){task[i].end, -curve->freed, i};
    }
    int64_t level = 0;
    if (ok) {
        level = account.state.weights + account.state.gradients + account.state.optimizer;
        qsort(ch, (size_t)nch, sizeof *ch, by_time);
        ok = put_memory(step, program->device, step->start, level);
    }
    for (int32_t i = 0; ok && i < nch; i++) {
        level += ch[i].bytes;
        ok = put_memory(step, program->device, ch[i].ts, level);
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
    luo_titem titem = luo_trace_item(LUO_TITEM_RATIO, l->node + 1, 0, ts);
    titem.name = luo_trace_name(trace, name);
    titem.value = *last = ratio;
    return titem.name >= 0 && luo_trace_add(trace, titem);
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
