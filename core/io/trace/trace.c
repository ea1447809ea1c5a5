#include "core/io/trace/trace.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/quantity.h"
#include "core/base/vec.h"
#include "core/io/jsonw.h"
#include "core/io/trace/trace_internal.h"
#include "core/io/trace/trace_spill.h"

int64_t luo_trace_ns(double seconds)
{
    assert(fabs(seconds) <= luo_quantity_at(LUO_Q_RUN_TIME)->highest); /* so that sums fit, too */
    return llround(seconds * 1e9);
}

luo_trace *luo_trace_new(const luo_cluster *cluster, int64_t limit)
{
    luo_trace *trace = calloc(1, sizeof *trace);
    if (!trace) return NULL;
    const size_t nd = (size_t)cluster->ndevices, nl = (size_t)cluster->nlinks;
    trace->cluster = cluster;
    trace->limit = limit > 0 ? limit : LUO_TRACE_LIMIT;
    trace->arena = luo_arena_new(0);
    trace->scratch = luo_arena_new(0);
    trace->track_end = trace->arena ? LUO_NEW_N(trace->arena, int64_t, 8 * nd) : NULL;
    trace->factor = trace->arena ? LUO_NEW_N(trace->arena, double, nd) : NULL;
    trace->memory = trace->arena ? LUO_NEW_N(trace->arena, int64_t, nd) : NULL;
    trace->nic = trace->arena ? LUO_NEW_N(trace->arena, double, 2 * nl) : NULL;
    trace->used = trace->arena ? LUO_NEW_N(trace->arena, bool, 8 * nd) : NULL;
    trace->used_node = trace->arena ? LUO_NEW_N(trace->arena, bool, cluster->nnodes) : NULL;
    trace->spill_fd = -1;
    if (!trace->scratch || !trace->track_end || !trace->factor || !trace->memory || !trace->nic ||
        !trace->used || !trace->used_node) {
        luo_trace_free(trace);
        return NULL;
    }
    for (size_t i = 0; i < nd; i++) trace->memory[i] = -1;
    for (size_t i = 0; i < 2 * nl; i++) trace->nic[i] = -1;
    return trace;
}

void luo_trace_free(luo_trace *trace)
{
    if (!trace) return;
    if (trace->spill_fd >= 0) close(trace->spill_fd);
    free(trace->spill_dir);
    free(trace->piece_end);
    luo_map_free(&trace->names);
    luo_arena_free(trace->arena);
    luo_arena_free(trace->scratch);
    free(trace->name);
    free(trace->slow);
    free(trace->at);
    free(trace);
}

luo_status luo_trace_spill_to(luo_trace *trace, const char *dir, int64_t hold, luo_err *err)
{
    enum { HOLD = 1 << 16 };
    free(trace->spill_dir);
    trace->spill_dir = strdup(dir);
    trace->hold = hold > 0 ? hold : HOLD;
    return trace->spill_dir ? LUO_OK : luo_err_nomem(err);
}

int32_t luo_trace_name(luo_trace *trace, const char *text)
{
    uint64_t key = luo_hash_str(LUO_HASH_EMPTY, text);
    luo_str quoted = {0};
    luo_jsonw_quote(&quoted, text);
    int32_t found = -1;
    for (; !quoted.failed; key++) { /* the next key when two texts have one hash */
        int64_t *slot = luo_map_at(&trace->names, key, -1);
        if (!slot) break;
        if (*slot >= 0 && strcmp(trace->name[*slot], quoted.at) != 0) continue;
        if (*slot >= 0) {
            found = (int32_t)*slot;
            break;
        }
        if (!LUO_VEC_ROOM(trace->name, trace->nnames, trace->cap_names)) break;
        trace->name[trace->nnames] = luo_arena_strdup(trace->arena, quoted.at);
        if (!trace->name[trace->nnames]) break;
        found = trace->nnames++;
        *slot = found;
        break;
    }
    luo_str_free(&quoted);
    return found;
}

bool luo_trace_add(luo_trace *trace, luo_titem item)
{
    const int64_t held = trace->n - trace->spilled;
    if (!LUO_VEC_ROOM(trace->at, held, trace->cap)) return false;
    item.seq = (uint32_t)trace->n++;
    trace->at[held] = item;
    return true;
}

int64_t luo_trace_room(const luo_trace *trace, bool of_run)
{
    return (of_run ? trace->limit : trace->limit - trace->limit / 10) - trace->n;
}

int64_t luo_trace_events(const luo_trace *trace)
{
    return trace->n;
}

bool luo_trace_warning(const luo_trace *trace, luo_str *out)
{
    if (!trace->full && trace->dropped == 0) return false;
    if (!trace->full && trace->nsteps == 0) { /* nobody wanted any: the track of the run is long */
        luo_str_addf(out, "trace.json.gz lacks %lld events of the run (limit %lld events); "
                     "timeline.csv and events.csv have all.",
                     (long long)trace->dropped, (long long)trace->limit);
        return true;
    }
    luo_str_add(out, "trace.json.gz holds ");
    if (trace->nsteps == 1 && trace->part_of > 0)
        luo_str_addf(out, "%d of %d devices of one traced step", trace->part_devices,
                     trace->part_of);
    else
        luo_str_addf(out, "the first %lld traced steps", (long long)trace->nsteps);
    if (trace->dropped > 0)
        luo_str_addf(out, " and lacks %lld events of the run", (long long)trace->dropped);
    luo_str_addf(out, " (limit %lld events); use --trace-steps to choose.",
                 (long long)trace->limit);
    return true;
}

luo_titem luo_trace_item(luo_titem_kind kind, int32_t pid, int32_t tid, int64_t ts)
{
    return (luo_titem){.kind = (uint8_t)kind,
                       .pid = pid,
                       .tid = tid,
                       .ts = ts,
                       .text = -1,
                       .extra = -1,
                       .step = -1,
                       .bytes = -1,
                       .attempt = -1,
                       .pipeline = -1,
                       .stage = -1,
                       .micro_batch = -1,
                       .layer = -1,
                       .instruction = -1};
}

luo_status luo_trace_span(luo_trace *trace, const luo_row_timeline *row, luo_err *err)
{
    const bool step = row->kind == LUO_SPAN_STEP;
    LUO_TRY(luo_trace_spill(trace, err));
    /* Half of the room is for what steps are made of; timeline.csv has all steps. */
    if (step && trace->nrun_steps >= trace->limit / 2) return LUO_OK;
    if (luo_trace_room(trace, true) < 1) {
        trace->dropped++;
        return LUO_OK;
    }
    trace->nrun_steps += step;
    const int32_t tid = step            ? LUO_TRACE_STEPS
                        : row->blocking ? LUO_TRACE_PHASES
                                        : LUO_TRACE_EVENTS;
    luo_titem titem =
        luo_trace_item(LUO_TITEM_SPAN, LUO_TRACE_RUN, tid, luo_trace_ns(row->start_s));
    int64_t end = luo_trace_ns(row->end_s);
    /* Rows of one track follow each other; two planners at work at once are drawn one behind the
     * other. */
    if (titem.ts < trace->run_end[tid]) titem.ts = trace->run_end[tid];
    if (end < titem.ts) end = titem.ts;
    trace->run_end[tid] = end;
    titem.dur = end - titem.ts;
    titem.cat = LUO_TRACE_CAT_RUN;
    titem.name = luo_trace_name(trace, luo_span_kind_name(row->kind));
    titem.step = row->step;
    titem.pipeline = row->plan; /* printed as `plan` */
    titem.bytes = row->bytes;
    titem.text = row->event[0] ? luo_trace_name(trace, row->event) : -1;
    return titem.name >= 0 && luo_trace_add(trace, titem) ? LUO_OK : luo_err_nomem(err);
}

/* Writes the slowdown of a device if it changed; the first change is preceded by a 1 at 0. */
static bool slowdown(luo_trace *trace, int32_t dev, int64_t ts)
{
    double f = 1;
    for (int32_t i = 0; i < trace->nslow; i++)
        for (int32_t j = 0; j < trace->slow[i].ndev; j++)
            if (trace->slow[i].dev[j] == dev) f *= trace->slow[i].value;
    f = luo_quantity_clamp(LUO_Q_SLOWDOWN, f);
    if (f == trace->factor[dev] || (f == 1 && trace->factor[dev] == 0)) return true;
    if (luo_trace_room(trace, true) < 2) {
        trace->dropped++;
        return true;
    }
    char name[64];
    snprintf(name, sizeof name, "dev %d slowdown", dev);
    luo_titem titem = luo_trace_item(LUO_TITEM_FACTOR, trace->cluster->devices[dev].node + 1, 0, 0);
    titem.name = luo_trace_name(trace, name);
    if (titem.name < 0) return false;
    titem.value = 1;
    if (trace->factor[dev] == 0 && ts > 0 && !luo_trace_add(trace, titem)) return false;
    titem.ts = ts;
    titem.value = trace->factor[dev] = f;
    return luo_trace_add(trace, titem);
}

static bool straggle(luo_trace *trace, const luo_row_event *row,
                     const struct luo_target_choice *hit)
{
    const bool starts = row->phase == LUO_EVENT_PHASE_FIRED && row->has_value;
    const bool ends = row->phase == LUO_EVENT_PHASE_ENDED;
    if (strcmp(row->kind, "straggler") != 0 || !(starts || ends)) return true;
    int32_t at = 0;
    while (at < trace->nslow && strcmp(trace->slow[at].id, row->id) != 0) at++;
    if (starts && at == trace->nslow) {
        if (!LUO_VEC_ROOM(trace->slow, trace->nslow, trace->cap_slow)) return false;
        luo_slow slow = {luo_arena_strdup(trace->arena, row->id), hit->ndev,
                         LUO_NEW_N(trace->arena, int32_t, hit->ndev), row->value};
        if (!slow.id || !slow.dev) return false;
        memcpy(slow.dev, hit->dev, (size_t)hit->ndev * sizeof *slow.dev);
        trace->slow[trace->nslow++] = slow;
    } else if (starts) {
        trace->slow[at].value = row->value;
    } else if (at < trace->nslow) {
        memmove(trace->slow + at, trace->slow + at + 1,
                (size_t)(trace->nslow - at - 1) * sizeof *trace->slow);
        trace->nslow--;
    }
    for (int32_t i = 0; i < hit->ndev; i++)
        if (!slowdown(trace, hit->dev[i], luo_trace_ns(row->t_s))) return false;
    return true;
}

/* Instants on the compute tracks of the devices that something begins or ends to hit. A target
 * that cannot be read (a set to draw from) is shown on the run track alone. */
static bool on_devices(luo_trace *trace, const luo_row_event *row, luo_titem titem)
{
    enum { MANY = 64 };
    luo_target target;
    const size_t mark = luo_arena_mark(trace->scratch);
    bool ok = true;
    if (luo_target_parse(trace->scratch, trace->cluster, row->target, &target, NULL) == LUO_OK &&
        target.nchoices == 1 && target.kind == LUO_TARGET_DEVICES) {
        const struct luo_target_choice *hit = &target.choices[0];
        ok = straggle(trace, row, hit);
        const bool show =
            row->phase == LUO_EVENT_PHASE_FIRED || row->phase == LUO_EVENT_PHASE_ENDED;
        for (int32_t i = 0; ok && show && hit->ndev <= MANY && i < hit->ndev; i++) {
            if (luo_trace_room(trace, true) < 1) {
                trace->dropped++;
                continue;
            }
            titem.global = false;
            titem.pid = trace->cluster->devices[hit->dev[i]].node + 1;
            titem.tid = 8 * hit->dev[i] + LUO_STREAM_COMPUTE + 1;
            ok = luo_trace_add(trace, titem);
        }
    }
    luo_arena_reset(trace->scratch, mark);
    return ok;
}

luo_status luo_trace_event(luo_trace *trace, const luo_row_event *row, luo_err *err)
{
    if (luo_trace_room(trace, true) < 1) {
        trace->dropped++;
        return LUO_OK;
    }
    luo_str name = {0};
    luo_titem titem =
        luo_trace_item(LUO_TITEM_EVENT, LUO_TRACE_RUN, LUO_TRACE_EVENTS, luo_trace_ns(row->t_s));
    if (row->phase != LUO_EVENT_PHASE_FIRED)
        luo_str_addf(&name, "%s ", luo_event_phase_name(row->phase));
    luo_str_addf(&name, "%s %s", row->kind, row->target);
    titem.name = luo_trace_name(trace, luo_str_get(&name));
    titem.text = luo_trace_name(trace, row->id);
    titem.extra = luo_trace_name(trace, row->detail);
    titem.step = row->step;
    titem.value = row->has_value ? row->value : NAN;
    titem.cat = LUO_TRACE_CAT_EVENT;
    titem.global = true;
    const bool ok = !name.failed && titem.name >= 0 && titem.text >= 0 && titem.extra >= 0 &&
                    luo_trace_add(trace, titem) && on_devices(trace, row, titem);
    luo_str_free(&name);
    return ok ? LUO_OK : luo_err_nomem(err);
}
