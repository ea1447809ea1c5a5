/* faults.c: traces of faults of nodes: JSON entries with node_id, event_time, event_type. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/convert/events.h"

typedef struct fault {
    const luo_doc_node *at, *node;
    double t, end; /* as in the file; end below t: it never ends */
    int32_t unit;
} fault;

typedef struct faults {
    convert_job *job;
    fault *at;
    int64_t n;
    const char **name; /* of nodes, in order of appearance */
    int32_t nnames;
} faults;

static int32_t unit_of(faults *f, const char *name)
{
    for (int32_t i = 0; i < f->nnames; i++)
        if (strcmp(f->name[i], name) == 0) return i;
    f->name[f->nnames] = name;
    return f->nnames++;
}

/* An end belongs to the latest fault of its node that has none. */
static void end_fault(faults *f, int32_t unit, double t)
{
    for (int64_t i = f->n - 1; i >= 0; i--)
        if (f->at[i].unit == unit && f->at[i].end < f->at[i].t) {
            f->at[i].end = t;
            return;
        }
}

static luo_status read_entry(faults *f, const luo_doc_node *entry)
{
    const luo_doc_node *node = luo_doc_get(entry, "node_id");
    const luo_doc_node *type = luo_doc_get(entry, "event_type");
    double t;
    if (!node || !type || !luo_doc_real(luo_doc_get(entry, "event_time"), &t) || t < 0)
        return convert_error(f->job, entry->line, entry->col,
                             "`node_id`, `event_time` from 0 and `event_type` are expected.");
    const int32_t unit = unit_of(f, node->text);
    if (strcmp(type->text, "fault_end") == 0)
        end_fault(f, unit, t);
    else if (strcmp(type->text, "fault_start") == 0)
        f->at[f->n++] = (fault){entry, node, t, -1, unit};
    else
        return convert_error(f->job, type->line, type->col,
                             "`event_type` is `%.40s`; fault_start or fault_end is expected.",
                             type->text);
    return LUO_OK;
}

/* "GPU xid Error" -> "gpu-xid-error": what it was, where the file says it. */
static void put_cause(luo_str *text, const luo_doc_node *entry)
{
    const luo_doc_node *type = luo_doc_get(entry, "fault_type");
    const char *words = luo_doc_text(type, "Desc");
    if (!words && type && type->type == LUO_DOC_SCALAR) words = type->text;
    if (!words) words = "fault";
    for (const char *c = words; *c && c - words < 40; c++)
        luo_str_addc(text, isalnum((unsigned char)*c) ? (char)tolower((unsigned char)*c) : '-');
}

static bool is_plain(const char *name)
{
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && !strchr("-_.", *name)) return false;
    return true;
}

static int by_time(const void *a, const void *b)
{
    const fault *x = a, *y = b;
    return x->t != y->t ? (x->t > y->t ? 1 : -1) : (x->at > y->at) - (x->at < y->at);
}

static luo_status put_target(faults *f, luo_str *text, const convert_units *units, const fault *one)
{
    if (units->device) {
        if (one->unit >= units->n)
            return convert_error(f->job, one->node->line, one->node->col,
                                 "`%.60s` is node %d of the file, and `--units` has %d.",
                                 one->node->text, one->unit + 1, units->n);
        luo_str_addf(text, "device:%d", units->device[one->unit]);
    } else if (units->group) {
        luo_str_addf(text, "node:%s-%d", units->group, one->unit);
    } else if (is_plain(one->node->text)) {
        luo_str_addf(text, "node:%s", one->node->text);
    } else {
        return convert_error(f->job, one->node->line, one->node->col,
                             "`%.60s` is no name of a node; --units node:GROUP gives them those of "
                             "a cluster.",
                             one->node->text);
    }
    return LUO_OK;
}

static luo_status put_fault(faults *f, luo_str *text, const convert_units *units, const fault *one,
                            int64_t i)
{
    luo_str_addf(text, "%.9g,fail,", one->t);
    LUO_TRY(put_target(f, text, units, one));
    if (one->end > one->t)
        luo_str_addf(text, ",%.9g,", one->end - one->t);
    else
        luo_str_add(text, ",,");
    put_cause(text, one->at);
    luo_str_addf(text, "-%lld\n", (long long)i + 1);
    return LUO_OK;
}

luo_status convert_faults(convert_job *job)
{
    luo_doc doc;
    convert_events events;
    faults f = {.job = job};
    LUO_TRY(convert_json(job, &doc));
    if (doc.root->type != LUO_DOC_LIST || doc.root->n == 0)
        return convert_error(job, 0, 0, "a list of faults is expected.");
    f.at = LUO_NEW_N(job->arena, fault, doc.root->n);
    f.name = LUO_NEW_N(job->arena, const char *, doc.root->n);
    if (!f.at || !f.name) return convert_nomem(job);
    for (const luo_doc_node *one = doc.root->first; one; one = one->next)
        LUO_TRY(read_entry(&f, one));
    qsort(f.at, (size_t)f.n, sizeof *f.at, by_time);
    luo_status st = convert_events_begin(job, f.nnames, &events);
    if (!job->opts->units) events.units.device = NULL; /* by the names of the file */
    for (int64_t i = 0; st == LUO_OK && i < f.n; i++, events.n++)
        st = put_fault(&f, &events.text, &events.units, &f.at[i], i);
    if (st == LUO_OK) {
        events.last_s = f.n ? f.at[f.n - 1].t : 0;
        convert_note(job, LUO_NOTE,
                     "`event_time` is taken as seconds; `time_scale` of the "
                     "scenario's trace makes it others.");
        st = convert_events_end(&events);
    }
    luo_str_free(&events.text);
    return st;
}
