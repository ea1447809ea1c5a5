/* The lint of docs/results.md#the-trace. It reads the file as a viewer would and shares nothing
 * with the writer. */
#include <float.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "core/base/hash.h"
#include "core/io/document/input.h"
#include "core/io/trace/trace.h"
#include "tests/parked/trace_lint.h"

typedef struct track {
    int64_t pid, tid, events;
    bool named;
    int64_t *end; /* stack of open slices */
    int32_t n, cap;
} track;

typedef struct flow {
    const json_t *start;
    bool ended;
} flow;

typedef struct lint {
    luo_err *err;
    luo_trace_counts c;
    luo_map tracks, owners, processes, flows; /* owners: tid -> pid */
    track *track;
    flow *flow;
    int32_t ntrack, cap_track, nflow, cap_flow;
    int64_t index, last_ts, last_dur;
    bool meta_over;
} lint;

static luo_status fault(lint *l, const char *what)
{
    return luo_err_set(l->err, LUO_EINPUT, "event %lld of the trace: %s.", (long long)l->index,
                       what);
}

/* Room for one more of n items; false: out of memory. */
static bool grow(void *list, int32_t n, int32_t *cap, size_t size)
{
    void **at = list;
    if (n < *cap) return true;
    const int32_t more = *cap ? 2 * *cap : 16;
    void *p = realloc(*at, (size_t)more * size);
    if (!p) return false;
    *at = p;
    *cap = more;
    return true;
}

/* Microseconds of a key as nanoseconds; false: missing, no number, negative or not finite. */
static bool time_of(const json_t *e, const char *key, int64_t *ns)
{
    const json_t *v = json_object_get(e, key);
    if (!json_is_number(v)) return false;
    const double x = json_number_value(v);
    if (!isfinite(x) || x < 0 || x > 9e15) return false;
    *ns = llround(x * 1000);
    return true;
}

/* What a number of microseconds can be off by, in ns: 0 up to 26 days. Each of two may be. */
static int64_t slack_of(int64_t ns)
{
    return (int64_t)(2 * DBL_EPSILON * (double)ns);
}

static bool id_of(const json_t *e, const char *key, int64_t *id)
{
    const json_t *v = json_object_get(e, key);
    if (!json_is_integer(v)) return false;
    *id = json_integer_value(v);
    return *id > 0;
}

static luo_status track_of(lint *l, int64_t pid, int64_t tid, track **out)
{
    const uint64_t key = (uint64_t)pid << 32 | (uint64_t)tid;
    if (!grow(&l->track, l->ntrack, &l->cap_track, sizeof *l->track)) return luo_err_nomem(l->err);
    int64_t *slot = luo_map_at(&l->tracks, key, l->ntrack);
    int64_t *owner = pid == LUO_TRACE_RUN ? NULL : luo_map_at(&l->owners, (uint64_t)tid, pid);
    if (!slot || (pid != LUO_TRACE_RUN && !owner)) return luo_err_nomem(l->err);
    if (owner && *owner != pid) return fault(l, "its tid belongs to another pid");
    if (*slot == l->ntrack) l->track[l->ntrack++] = (track){.pid = pid, .tid = tid};
    *out = &l->track[*slot];
    return LUO_OK;
}

static luo_status lint_meta(lint *l, const json_t *e)
{
    int64_t pid, tid;
    const char *name = json_string_value(json_object_get(e, "name"));
    if (l->meta_over) return fault(l, "metadata stands behind other events");
    if (!id_of(e, "pid", &pid)) return fault(l, "`pid` is no integer above 0");
    if (!name) return fault(l, "`name` is missing");
    if (strncmp(name, "process_", 8) == 0)
        return luo_map_at(&l->processes, (uint64_t)pid, 1) ? LUO_OK : luo_err_nomem(l->err);
    if (!id_of(e, "tid", &tid)) return fault(l, "`tid` is no integer above 0");
    track *t = NULL;
    LUO_TRY(track_of(l, pid, tid, &t));
    if (strcmp(name, "thread_name") == 0) t->named = true;
    return LUO_OK;
}

static luo_status lint_slice(lint *l, track *t, int64_t ts, int64_t dur)
{
    if (dur <= 0) return fault(l, "a slice has no length");
    if (t->n > 0 && ts + dur > t->end[t->n - 1] + slack_of(ts))
        return fault(l, "a slice overlaps the one before it on its track");
    if (!grow(&t->end, t->n, &t->cap, sizeof *t->end)) return luo_err_nomem(l->err);
    t->end[t->n++] = ts + dur;
    l->c.slices++;
    return LUO_OK;
}

static bool same_text(const json_t *a, const json_t *b, const char *key)
{
    const char *x = json_string_value(json_object_get(a, key));
    const char *y = json_string_value(json_object_get(b, key));
    return x && y && strcmp(x, y) == 0;
}

static luo_status lint_flow(lint *l, const track *t, const json_t *e, bool start)
{
    int64_t id;
    if (!id_of(e, "id", &id)) return fault(l, "a flow has no integer `id` above 0");
    if (t->n == 0) return fault(l, "a flow ends or begins outside of any slice");
    if (!grow(&l->flow, l->nflow, &l->cap_flow, sizeof *l->flow)) return luo_err_nomem(l->err);
    int64_t *slot = luo_map_at(&l->flows, (uint64_t)id, -1);
    if (!slot) return luo_err_nomem(l->err);
    if (start) {
        if (*slot >= 0) return fault(l, "a flow begins twice");
        *slot = l->nflow;
        l->flow[l->nflow++] = (flow){e, false};
        return LUO_OK;
    }
    if (*slot < 0) return fault(l, "a flow ends that has not begun");
    flow *f = &l->flow[*slot];
    if (f->ended) return fault(l, "a flow ends twice");
    if (!same_text(f->start, e, "name") || !same_text(f->start, e, "cat"))
        return fault(l, "the ends of a flow differ in `name` or `cat`");
    const char *bp = json_string_value(json_object_get(e, "bp"));
    if (!bp || strcmp(bp, "e") != 0) return fault(l, "the end of a flow lacks `bp` `e`");
    f->ended = true;
    l->c.flows++;
    return LUO_OK;
}

static bool all_finite(const json_t *v)
{
    const char *key;
    json_t *child;
    size_t i;
    if (json_is_real(v)) return isfinite(json_real_value(v)) != 0;
    if (json_is_object(v))
        json_object_foreach((json_t *)v, key, child) if (!all_finite(child)) return false;
    if (json_is_array(v)) json_array_foreach(v, i, child) if (!all_finite(child)) return false;
    return true;
}

static luo_status lint_counter(lint *l, const json_t *e)
{
    const char *key;
    json_t *v;
    json_t *args = json_object_get(e, "args");
    if (json_object_size(args) == 0) return fault(l, "a counter has no value");
    json_object_foreach(args, key, v) if (!json_is_number(v)) return fault(
        l, "the value of a counter is no number");
    l->c.counters++;
    return LUO_OK;
}

static luo_status lint_timed(lint *l, const json_t *e, char ph)
{
    int64_t pid, tid, ts, dur = 0;
    track *t = NULL;
    l->meta_over = true;
    if (!id_of(e, "pid", &pid)) return fault(l, "`pid` is no integer above 0");
    if (!time_of(e, "ts", &ts)) return fault(l, "`ts` is no number from 0 on");
    if (ph == 'X' && !time_of(e, "dur", &dur)) return fault(l, "`dur` is no number from 0 on");
    if (ts < l->last_ts) return fault(l, "events are not sorted by `ts`");
    if (ts == l->last_ts && dur > l->last_dur && slack_of(ts) == 0)
        return fault(l, "at equal `ts` the longer slice must stand first");
    l->last_ts = ts;
    l->last_dur = dur;
    if (!json_is_string(json_object_get(e, "name"))) return fault(l, "`name` is missing");
    if (luo_map_get(&l->processes, (uint64_t)pid, 0) == 0)
        return fault(l, "its process has no name");
    if (!all_finite(json_object_get(e, "args"))) return fault(l, "an argument is not finite");
    if (ph == 'C') return lint_counter(l, e);
    if (!id_of(e, "tid", &tid)) return fault(l, "`tid` is no integer above 0");
    LUO_TRY(track_of(l, pid, tid, &t));
    if (!t->named) return fault(l, "its track has no name");
    t->events++;
    const int64_t over = ph == 'X' ? ts + slack_of(ts) : ts - slack_of(ts);
    while (t->n > 0 && t->end[t->n - 1] <= over) t->n--;
    if (ph == 'X') return lint_slice(l, t, ts, dur);
    if (ph == 's' || ph == 'f') return lint_flow(l, t, e, ph == 's');
    l->c.instants++;
    return LUO_OK;
}

static luo_status lint_event(lint *l, const json_t *e)
{
    const char *ph = json_string_value(json_object_get(e, "ph"));
    if (!ph || strlen(ph) != 1 || !strchr("MXsfCi", ph[0]))
        return fault(l, "`ph` is none of M X s f C i");
    l->c.events++;
    return ph[0] == 'M' ? lint_meta(l, e) : lint_timed(l, e, ph[0]);
}

static luo_status lint_end(lint *l)
{
    for (int32_t i = 0; i < l->nflow; i++)
        if (!l->flow[i].ended) return fault(l, "a flow has no end");
    for (int32_t i = 0; i < l->ntrack; i++)
        if (l->track[i].events == 0) return fault(l, "a track is named but carries nothing");
    l->c.tracks = l->ntrack;
    return LUO_OK;
}

static luo_status lint_all(lint *l, const json_t *root)
{
    const json_t *list = json_object_get(root, "traceEvents");
    const json_t *unit = json_object_get(root, "displayTimeUnit");
    if (!json_is_array(list) || !json_is_string(unit) ||
        !json_is_object(json_object_get(root, "otherData")))
        return luo_err_set(l->err, LUO_EINPUT,
                           "the trace lacks `displayTimeUnit`, `otherData` or `traceEvents`; "
                           "they are its three keys.");
    const size_t n = json_array_size(list);
    for (size_t i = 0; i < n; i++) {
        l->index = (int64_t)i;
        LUO_TRY(lint_event(l, json_array_get(list, i)));
    }
    return lint_end(l);
}

static luo_status gunzip(const char *path, luo_str *text, luo_err *err)
{
    enum { MOST = 1 << 30 };
    char block[1 << 15];
    int n, fd;
    LUO_TRY(luo_input_open(path, LUO_INPUT_READ, "a trace", &fd, err));
    gzFile gz = gzdopen(fd, "rb"); /* reads plain files as they are */
    if (!gz) {
        close(fd);
        return luo_err_nomem(err);
    }
    while ((n = gzread(gz, block, sizeof block)) > 0 && text->len < MOST && !text->failed)
        luo_str_addn(text, block, (size_t)n);
    const bool bad = n < 0;
    gzclose(gz);
    if (text->failed) return luo_err_nomem(err);
    if (bad) return luo_err_set(err, LUO_EPARSE, "`%s` is no complete gzip file.", path);
    if (text->len >= MOST)
        return luo_err_set(err, LUO_E2BIG, "`%s` unpacks to more than 1 GiB, the limit.",
                           path);
    return LUO_OK;
}

luo_status luo_trace_lint(const char *path, luo_trace_counts *out, luo_err *err)
{
    luo_str text = {0};
    json_error_t why;
    lint l = {.err = err, .last_ts = -1};
    luo_status st = gunzip(path, &text, err);
    if (st == LUO_OK) {
        json_t *root = json_loadb(luo_str_get(&text), text.len, JSON_REJECT_DUPLICATES, &why);
        if (!root)
            st = luo_err_at(err, luo_err_set(err, LUO_EPARSE, "%s.", why.text), path, why.line,
                            why.column);
        else st = lint_all(&l, root);
        json_decref(root);
    }
    for (int32_t i = 0; i < l.ntrack; i++) free(l.track[i].end);
    free(l.track);
    free(l.flow);
    luo_map_free(&l.tracks);
    luo_map_free(&l.owners);
    luo_map_free(&l.processes);
    luo_map_free(&l.flows);
    luo_str_free(&text);
    if (st == LUO_OK && out) *out = l.c;
    return st;
}
