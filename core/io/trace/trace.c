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
    luo_trace *t = calloc(1, sizeof *t);
    if (!t) return NULL;
    const size_t nd = (size_t)cluster->ndevices, nl = (size_t)cluster->nlinks;
    t->cluster = cluster;
    t->limit = limit > 0 ? limit : LUO_TRACE_LIMIT;
    t->arena = luo_arena_new(0);
    t->scratch = luo_arena_new(0);
    t->track_end = t->arena ? LUO_NEW_N(t->arena, int64_t, 8 * nd) : NULL;
    t->factor = t->arena ? LUO_NEW_N(t->arena, double, nd) : NULL;
    t->memory = t->arena ? LUO_NEW_N(t->arena, int64_t, nd) : NULL;
    t->nic = t->arena ? LUO_NEW_N(t->arena, double, 2 * nl) : NULL;
    t->used = t->arena ? LUO_NEW_N(t->arena, bool, 8 * nd) : NULL;
    t->used_node = t->arena ? LUO_NEW_N(t->arena, bool, cluster->nnodes) : NULL;
    t->spill_fd = -1;
    if (!t->scratch || !t->track_end || !t->factor || !t->memory || !t->nic || !t->used ||
        !t->used_node) {
        luo_trace_free(t);
        return NULL;
    }
    for (size_t i = 0; i < nd; i++) t->memory[i] = -1;
    for (size_t i = 0; i < 2 * nl; i++) t->nic[i] = -1;
    return t;
}

void luo_trace_free(luo_trace *t)
{
    if (!t) return;
    if (t->spill_fd >= 0) close(t->spill_fd);
    free(t->spill_dir);
    free(t->piece_end);
    luo_map_free(&t->names);
    luo_arena_free(t->arena);
    luo_arena_free(t->scratch);
    free(t->name);
    free(t->slow);
    free(t->at);
    free(t);
}

luo_status luo_trace_spill_to(luo_trace *t, const char *dir, int64_t hold, luo_err *err)
{
    enum { HOLD = 1 << 16 };
    free(t->spill_dir);
    t->spill_dir = strdup(dir);
    t->hold = hold > 0 ? hold : HOLD;
    return t->spill_dir ? LUO_OK : luo_err_nomem(err);
}

int32_t luo_trace_name(luo_trace *t, const char *text)
{
    uint64_t key = luo_hash_str(LUO_HASH_EMPTY, text);
    luo_str quoted = {0};
    luo_json_quote(&quoted, text);
    int32_t found = -1;
    for (; !quoted.failed; key++) { /* the next key when two texts have one hash */
        int64_t *slot = luo_map_at(&t->names, key, -1);
        if (!slot) break;
        if (*slot >= 0 && strcmp(t->name[*slot], quoted.at) != 0) continue;
        if (*slot >= 0) {
            found = (int32_t)*slot;
            break;
        }
        if (!LUO_VEC_ROOM(t->name, t->nnames, t->cap_names)) break;
        t->name[t->nnames] = luo_arena_strdup(t->arena, quoted.at);
        if (!t->name[t->nnames]) break;
        found = t->nnames++;
        *slot = found;
        break;
    }
    luo_str_free(&quoted);
    return found;
}

bool luo_trace_add(luo_trace *t, luo_titem item)
{
    const int64_t held = t->n - t->spilled;
    if (!LUO_VEC_ROOM(t->at, held, t->cap)) return false;
    item.seq = (uint32_t)t->n++;
    t->at[held] = item;
    return true;
}

int64_t luo_trace_room(const luo_trace *t, bool of_run)
{
    return (of_run ? t->limit : t->limit - t->limit / 10) - t->n;
}

int64_t luo_trace_events(const luo_trace *t)
{
    return t->n;
}

bool luo_trace_warning(const luo_trace *t, luo_str *out)
{
    if (!t->full && t->dropped == 0) return false;
    luo_str_add(out, "trace.json.gz holds ");
    if (t->nsteps == 1 && t->part_of > 0)
        luo_str_addf(out, "%d of %d devices of one traced step", t->part_devices, t->part_of);
    else luo_str_addf(out, "the first %lld traced steps", (long long)t->nsteps);
    if (t->dropped > 0)
        luo_str_addf(out, " and lacks %lld events of the run", (long long)t->dropped);
    luo_str_addf(out, " (limit %lld events); use --trace-steps to choose.", (long long)t->limit);
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

luo_status luo_trace_span(luo_trace *t, const luo_row_timeline *row, luo_err *err)
{
    LUO_TRY(luo_trace_spill(t, err));
    if (luo_trace_room(t, true) < 1) {
        t->dropped++;
        return LUO_OK;
    }
    const int32_t tid = row->kind == LUO_SPAN_STEP ? LUO_TRACE_STEPS
                        : row->blocking            ? LUO_TRACE_PHASES
                                                   : LUO_TRACE_EVENTS;
    luo_titem x = luo_trace_item(LUO_TITEM_SPAN, LUO_TRACE_RUN, tid, luo_trace_ns(row->start_s));
    int64_t end = luo_trace_ns(row->end_s);
    /* Rows of one track follow each other; two planners at work at once are drawn one behind the
     * other. */
    if (x.ts < t->run_end[tid]) x.ts = t->run_end[tid];
    if (end < x.ts) end = x.ts;
    t->run_end[tid] = end;
    x.dur = end - x.ts;
    x.cat = LUO_TRACE_CAT_RUN;
    x.name = luo_trace_name(t, luo_span_kind_name(row->kind));
    x.step = row->step;
    x.pipeline = row->plan; /* printed as `plan` */
    x.bytes = row->bytes;
    x.text = row->event[0] ? luo_trace_name(t, row->event) : -1;
    return x.name >= 0 && luo_trace_add(t, x) ? LUO_OK : luo_err_nomem(err);
}

/* Writes the slowdown of a device if it changed; the first change is preceded by a 1 at 0. */
static bool slowdown(luo_trace *t, int32_t dev, int64_t ts)
{
    double f = 1;
    for (int32_t i = 0; i < t->nslow; i++)
        for (int32_t j = 0; j < t->slow[i].ndev; j++)
            if (t->slow[i].dev[j] == dev) f *= t->slow[i].value;
    f = luo_quantity_clamp(LUO_Q_SLOWDOWN, f);
    if (f == t->factor[dev] || (f == 1 && t->factor[dev] == 0)) return true;
    if (luo_trace_room(t, true) < 2) {
        t->dropped++;
        return true;
    }
    char name[64];
    snprintf(name, sizeof name, "dev %d slowdown", dev);
    luo_titem c = luo_trace_item(LUO_TITEM_FACTOR, t->cluster->devices[dev].node + 1, 0, 0);
    c.name = luo_trace_name(t, name);
    if (c.name < 0) return false;
    c.value = 1;
    if (t->factor[dev] == 0 && ts > 0 && !luo_trace_add(t, c)) return false;
    c.ts = ts;
    c.value = t->factor[dev] = f;
    return luo_trace_add(t, c);
}

static bool straggle(luo_trace *t, const luo_row_event *row, const struct luo_target_choice *hit)
{
    const bool starts = strcmp(row->phase, "fired") == 0 && row->has_value;
    const bool ends = strcmp(row->phase, "ended") == 0;
    if (strcmp(row->kind, "straggler") != 0 || !(starts || ends)) return true;
    int32_t at = 0;
    while (at < t->nslow && strcmp(t->slow[at].id, row->id) != 0) at++;
    if (starts && at == t->nslow) {
        if (!LUO_VEC_ROOM(t->slow, t->nslow, t->cap_slow)) return false;
        luo_slow s = {luo_arena_strdup(t->arena, row->id), hit->ndev,
                      LUO_NEW_N(t->arena, int32_t, hit->ndev), row->value};
        if (!s.id || !s.dev) return false;
        memcpy(s.dev, hit->dev, (size_t)hit->ndev * sizeof *s.dev);
        t->slow[t->nslow++] = s;
    } else if (starts) {
        t->slow[at].value = row->value;
    } else if (at < t->nslow) {
        memmove(t->slow + at, t->slow + at + 1, (size_t)(t->nslow - at - 1) * sizeof *t->slow);
        t->nslow--;
    }
    for (int32_t i = 0; i < hit->ndev; i++)
        if (!slowdown(t, hit->dev[i], luo_trace_ns(row->t_s))) return false;
    return true;
}

/* Instants on the compute tracks of the devices that something begins or ends to hit. A target
 * that cannot be read (a set to draw from) is shown on the run track alone. */
static bool on_devices(luo_trace *t, const luo_row_event *row, luo_titem x)
{
    enum { MANY = 64 };
    luo_target target;
    const size_t mark = luo_arena_mark(t->scratch);
    bool ok = true;
    if (luo_target_parse(t->scratch, t->cluster, row->target, &target, NULL) == LUO_OK &&
        target.nchoices == 1 && target.kind == LUO_TARGET_DEVICES) {
        const struct luo_target_choice *hit = &target.choices[0];
        ok = straggle(t, row, hit);
        const bool show = strcmp(row->phase, "fired") == 0 || strcmp(row->phase, "ended") == 0;
        for (int32_t i = 0; ok && show && hit->ndev <= MANY && i < hit->ndev; i++) {
            if (luo_trace_room(t, true) < 1) {
                t->dropped++;
                continue;
            }
            x.global = false;
            x.pid = t->cluster->devices[hit->dev[i]].node + 1;
            x.tid = 8 * hit->dev[i] + LUO_STREAM_COMPUTE + 1;
            ok = luo_trace_add(t, x);
        }
    }
    luo_arena_reset(t->scratch, mark);
    return ok;
}

luo_status luo_trace_event(luo_trace *t, const luo_row_event *row, luo_err *err)
{
    if (luo_trace_room(t, true) < 1) {
        t->dropped++;
        return LUO_OK;
    }
    luo_str name = {0};
    luo_titem x =
        luo_trace_item(LUO_TITEM_EVENT, LUO_TRACE_RUN, LUO_TRACE_EVENTS, luo_trace_ns(row->t_s));
    if (strcmp(row->phase, "fired") != 0) luo_str_addf(&name, "%s ", row->phase);
    luo_str_addf(&name, "%s %s", row->kind, row->target);
    x.name = luo_trace_name(t, luo_str_get(&name));
    x.text = luo_trace_name(t, row->id);
    x.extra = luo_trace_name(t, row->detail);
    x.step = row->step;
    x.value = row->has_value ? row->value : NAN;
    x.cat = LUO_TRACE_CAT_EVENT;
    x.global = true;
    const bool ok = !name.failed && x.name >= 0 && x.text >= 0 && x.extra >= 0 &&
                    luo_trace_add(t, x) && on_devices(t, row, x);
    luo_str_free(&name);
    return ok ? LUO_OK : luo_err_nomem(err);
}
