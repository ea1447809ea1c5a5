/* Sorts the events of a trace and writes them as gzip. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "core/io/files.h"
#include "core/io/jsonw.h"
#include "core/io/replace.h"
#include "core/io/result/table.h"
#include "core/io/trace/trace_spill.h"

static const char *const cats[LUO_TRACE_CATS] = {"compute", "tp",  "pp",    "dp",  "move",  "io",
                                                 "bubble",  "run", "event", "p2p", "switch"};

typedef struct writer {
    luo_trace *t;
    gzFile gz;
    luo_str out;
    bool first, failed;
    bool nomem; /* a name of a track has no text; failed: a file */
} writer;

static void spill(writer *w, size_t least)
{
    if (w->out.len < least || w->failed || w->out.len == 0) return;
    if (w->out.failed || gzwrite(w->gz, w->out.at, (unsigned)w->out.len) != (int)w->out.len)
        w->failed = true;
    luo_str_clear(&w->out);
}

static void begin(writer *w)
{
    spill(w, 1 << 16);
    luo_str_add(&w->out, w->first ? "\n" : ",\n");
    w->first = false;
}

/* Nanoseconds as microseconds with three decimals. */
static void us(luo_str *text, int64_t ns)
{
    luo_str_addi(text, ns / 1000);
    const char tail[4] = {'.', (char)('0' + ns / 100 % 10), (char)('0' + ns / 10 % 10),
                          (char)('0' + ns % 10)};
    luo_str_addn(text, tail, sizeof tail);
}

static void field(luo_str *text, const char *name, int64_t v)
{
    luo_str_add(text, name);
    luo_str_addi(text, v);
}

/* An argument that does not apply (negative) is left out. */
static void arg(writer *w, bool *any, const char *key, int64_t v)
{
    if (v < 0) return;
    luo_str_add(&w->out, *any ? ",\"" : "\"");
    luo_str_add(&w->out, key);
    luo_str_add(&w->out, "\":");
    luo_str_addi(&w->out, v);
    *any = true;
}

static void arg_text(writer *w, bool *any, const char *key, int32_t name)
{
    if (name < 0) return;
    luo_str_add(&w->out, *any ? ",\"" : "\"");
    luo_str_add(&w->out, key);
    luo_str_add(&w->out, "\":");
    luo_str_add(&w->out, w->t->name[name]);
    *any = true;
}

static void arg_num(writer *w, bool *any, const char *key, double v)
{
    if (!isfinite(v)) return;
    luo_str_add(&w->out, *any ? ",\"" : "\"");
    luo_str_add(&w->out, key);
    luo_str_add(&w->out, "\":");
    luo_table_print_fixed(&w->out, v, 6);
    *any = true;
}

static void args(writer *w, const luo_titem *titem)
{
    bool any = false;
    luo_str_add(&w->out, ",\"args\":{");
    switch ((luo_titem_kind)titem->kind) {
    case LUO_TITEM_OP:
        arg_text(w, &any, "op", titem->text);
        arg_text(w, &any, "kind", titem->extra);
        arg(w, &any, "step", titem->step);
        arg(w, &any, "attempt", titem->attempt);
        arg(w, &any, "pipeline", titem->pipeline);
        arg(w, &any, "stage", titem->stage);
        arg(w, &any, "micro_batch", titem->micro_batch);
        arg(w, &any, "layer", titem->layer);
        arg(w, &any, "bytes", titem->bytes);
        arg(w, &any, "instruction", titem->instruction);
        break;
    case LUO_TITEM_WAIT:
        arg(w, &any, "step", titem->step);
        arg(w, &any, "attempt", titem->attempt);
        break;
    case LUO_TITEM_SPAN:
        arg(w, &any, "step", titem->step);
        arg(w, &any, "plan", titem->pipeline);
        arg_text(w, &any, "event", titem->text);
        arg(w, &any, "bytes", titem->bytes);
        break;
    case LUO_TITEM_EVENT:
        arg_text(w, &any, "id", titem->text);
        arg(w, &any, "step", titem->step);
        arg_num(w, &any, "value", titem->value);
        arg_text(w, &any, "detail", titem->extra);
        break;
    case LUO_TITEM_BYTES:
        arg(w, &any, "bytes", titem->bytes);
        break;
    case LUO_TITEM_RATIO:
        arg_num(w, &any, "ratio", titem->value);
        break;
    case LUO_TITEM_FACTOR:
        arg_num(w, &any, "factor", titem->value);
        break;
    case LUO_TITEM_FLOW_S:
    case LUO_TITEM_FLOW_F:
        break;
    }
    luo_str_addc(&w->out, '}');
}

static const char *phase_of(const luo_titem *titem)
{
    switch ((luo_titem_kind)titem->kind) {
    case LUO_TITEM_OP:
    case LUO_TITEM_WAIT:
    case LUO_TITEM_SPAN:
        return titem->dur > 0 ? "X" : "i";
    case LUO_TITEM_EVENT:
        return "i";
    case LUO_TITEM_FLOW_S:
        return "s";
    case LUO_TITEM_FLOW_F:
        return "f";
    case LUO_TITEM_BYTES:
    case LUO_TITEM_RATIO:
    case LUO_TITEM_FACTOR:
        break;
    }
    return "C";
}

static void put(writer *w, const luo_titem *titem)
{
    luo_str *text = &w->out;
    const char *ph = phase_of(titem);
    begin(w);
    luo_str_add(text, "{\"ph\":\"");
    luo_str_add(text, ph);
    field(text, "\",\"pid\":", titem->pid);
    if (*ph != 'C') field(text, ",\"tid\":", titem->tid);
    luo_str_add(text, ",\"ts\":");
    us(text, titem->ts);
    if (*ph == 'X') {
        luo_str_add(text, ",\"dur\":");
        us(text, titem->dur);
    }
    luo_str_add(text, ",\"name\":");
    luo_str_add(text, w->t->name[titem->name]);
    if (*ph == 'i') luo_str_add(text, titem->global ? ",\"s\":\"g\"" : ",\"s\":\"t\"");
    if (*ph != 'C') {
        luo_str_add(text, ",\"cat\":\"");
        luo_str_add(text, cats[titem->cat]);
        luo_str_addc(text, '"');
    }
    if (*ph == 's' || *ph == 'f') field(text, ",\"id\":", titem->extra);
    if (*ph == 'f') luo_str_add(text, ",\"bp\":\"e\"");
    if (*ph != 's' && *ph != 'f') args(w, titem);
    luo_str_addc(text, '}');
}

static void meta(writer *w, const char *what, int32_t pid, int32_t tid, const char *key,
                 const char *value)
{
    begin(w);
    luo_str_addf(&w->out, "{\"ph\":\"M\",\"pid\":%d,", pid);
    if (tid > 0) luo_str_addf(&w->out, "\"tid\":%d,", tid);
    luo_str_addf(&w->out, "\"name\":\"%s\",\"args\":{\"%s\":%s}}", what, key, value);
}

static void name_process(writer *w, int32_t pid, const char *name, int64_t sort)
{
    luo_str text = {0};
    luo_jsonw_quote(&text, name);
    meta(w, "process_name", pid, 0, "name", luo_str_get(&text));
    luo_str_clear(&text);
    luo_str_addi(&text, sort);
    meta(w, "process_sort_index", pid, 0, "sort_index", luo_str_get(&text));
    w->nomem |= text.failed;
    luo_str_free(&text);
}

static void name_thread(writer *w, int32_t pid, int32_t tid, const char *name)
{
    luo_str text = {0};
    luo_jsonw_quote(&text, name);
    meta(w, "thread_name", pid, tid, "name", luo_str_get(&text));
    luo_str_clear(&text);
    luo_str_addi(&text, tid);
    meta(w, "thread_sort_index", pid, tid, "sort_index", luo_str_get(&text));
    w->nomem |= text.failed;
    luo_str_free(&text);
}

/* Names the tracks that carry something. */
static void put_meta(writer *w)
{
    static const char *const tracks[] = {"", "steps", "phases", "events"};
    const luo_cluster *cluster = w->t->cluster;
    const bool *used = w->t->used, *node = w->t->used_node, *run = w->t->used_run;
    char name[192];
    if (run[0]) name_process(w, LUO_TRACE_RUN, "run", 0);
    for (int32_t i = 1; i < 4; i++)
        if (run[i]) name_thread(w, LUO_TRACE_RUN, i, tracks[i]);
    for (int32_t i = 0; i < cluster->nnodes; i++) {
        if (!node[i]) continue;
        luo_str types = {0};
        luo_node_group_say_profiles(&types, &cluster->groups[cluster->nodes[i].group]);
        snprintf(name, sizeof name, "%s (%s)", cluster->nodes[i].name, luo_str_get(&types));
        w->nomem |= types.failed;
        luo_str_free(&types);
        name_process(w, i + 1, name, i + 1);
    }
    for (int32_t d = 0; d < cluster->ndevices; d++)
        for (int32_t s = 0; s < 8; s++) {
            if (!used[8 * d + s]) continue;
            if (s < LUO_STREAMS)
                snprintf(name, sizeof name, "dev %d %s", d, luo_stream_name((luo_stream)s));
            else
                snprintf(name, sizeof name, "dev %d pp %d", d, s - LUO_STREAMS + 2);
            name_thread(w, cluster->devices[d].node + 1, 8 * d + s + 1, name);
        }
}

static void put_head(writer *w, const luo_trace_head *head)
{
    luo_jsonw json = luo_jsonw_start(&w->out);
    luo_str_add(&w->out, "{\"displayTimeUnit\":\"ms\",\"otherData\":");
    luo_jsonw_open(&json, NULL, '{');
    luo_jsonw_text(&json, "scenario", head->scenario);
    luo_jsonw_text(&json, "policy", head->policy);
    luo_jsonw_text(&json, "backend", head->backend);
    luo_jsonw_text(&json, "version", head->version);
    luo_jsonw_seed(&json, "seed", head->seed);
    luo_jsonw_hash(&json, "scenario_hash", head->scenario_hash);
    luo_jsonw_open(&json, "plan_hashes", '[');
    for (int32_t i = 0; i < head->nplans; i++) luo_jsonw_hash(&json, NULL, head->plans[i]);
    luo_jsonw_close(&json);
    luo_jsonw_open(&json, "program_hashes", '[');
    for (int32_t i = 0; i < head->nplans; i++) luo_jsonw_hash(&json, NULL, head->programs[i]);
    luo_jsonw_close(&json);
    luo_jsonw_close(&json);
    luo_str_add(&w->out, ",\"traceEvents\":[");
}

static bool put_all(writer *w, const luo_trace_head *head)
{
    luo_trace_reader events;
    const luo_titem *titem;
    const bool ok = luo_trace_reader_open(&events, w->t);
    w->first = true;
    if (ok) put_head(w, head);
    if (ok) put_meta(w);
    while (ok && !w->failed && !w->nomem && (titem = luo_trace_reader_next(&events))) put(w, titem);
    luo_str_add(&w->out, "\n]}\n");
    spill(w, 0);
    w->failed |= events.failed;
    luo_trace_reader_close(&events);
    return ok;
}

/* Level 1: a third of the time of the default and less, for some more bytes. */
static luo_status put_file(writer *w, int file, const char *path, const luo_trace_head *head,
                           luo_err *err)
{
    luo_status st = LUO_OK;
    const int fd = fcntl(file, F_DUPFD_CLOEXEC, 0); /* gzclose closes it */
    if (fd >= 0) w->gz = gzdopen(fd, "wb1");
    if (w->gz && (!put_all(w, head) || w->nomem || w->out.failed)) st = luo_err_nomem(err);
    if (!w->gz && fd >= 0) close(fd);
    const bool closed = w->gz && gzclose(w->gz) == Z_OK;
    if (st == LUO_OK && (!closed || w->failed)) st = luo_io_err(err, "write", path);
    return st;
}

luo_status luo_trace_write(luo_trace *trace, const char *dir, const char *name,
                           const luo_trace_head *head, luo_err *err)
{
    luo_str path = {0};
    luo_replace replace = {.fd = -1};
    writer w = {.t = trace};
    luo_str_addf(&path, "%s/%s", dir, name);
    luo_status st = path.failed ? luo_err_nomem(err) : luo_replace_open_own(&replace, path.at, err);
    if (st == LUO_OK) {
        st = put_file(&w, replace.fd, replace.path, head, err);
        const luo_status closed =
            luo_replace_close(&replace, st == LUO_OK, st == LUO_OK ? err : NULL);
        if (st == LUO_OK) st = closed;
    }
    luo_str_free(&w.out);
    luo_str_free(&path);
    return st;
}

static luo_status read_back(int fd, luo_str *out, luo_err *err)
{
    char piece[1 << 14];
    ssize_t n;
    for (off_t at = 0; (n = pread(fd, piece, sizeof piece, at)) > 0; at += n)
        luo_str_addn(out, piece, (size_t)n);
    if (n < 0) return luo_io_err(err, "read", "the trace");
    return out->failed ? luo_err_nomem(err) : LUO_OK;
}

luo_status luo_trace_print(luo_trace *trace, const luo_trace_head *head, luo_str *out, luo_err *err)
{
    writer w = {.t = trace};
    const int fd = memfd_create("trace", MFD_CLOEXEC);
    if (fd < 0) return luo_io_err(err, "make", "a file in memory");
    luo_status st = put_file(&w, fd, "the trace", head, err);
    if (st == LUO_OK) st = read_back(fd, out, err);
    close(fd);
    luo_str_free(&w.out);
    return st;
}
