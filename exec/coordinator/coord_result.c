/* coord_result.c: what ranks report of a step, as one result. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/run/parts.h"
#include "exec/coordinator/coord.h"

typedef struct gathered {
    luo_step_report *report; /* per device of the programs */
    double *late_s;
    luo_parts *parts;
    double *compute_s, *predicted_s;
    int64_t *memory;
    luo_op_record *records;
    luo_comm_use *comm;
    int32_t nrecords, ncomm;
} gathered;

static luo_status read_reports(luo_backend_state *backend, const luo_programs *set, gathered *g,
                               luo_err *err)
{
    g->report = LUO_NEW_N(backend->last, luo_step_report, set->n);
    g->late_s = LUO_NEW_N(backend->last, double, set->n);
    if (!g->report || !g->late_s) return luo_err_nomem(err);
    for (int32_t i = 0; i < set->n; i++) {
        const int32_t rank = luo_workers_rank_of(&backend->workers, set->at[i].device);
        LUO_TRY(luo_message_get_report(backend->last, &backend->workers.at[rank].answer,
                                       &g->report[i], &g->late_s[i], err));
        g->nrecords += g->report[i].nrecords;
        g->ncomm += g->report[i].ncomm;
    }
    return LUO_OK;
}

/* All devices end a step alike: what one has updated and another has not would be no state. */
static luo_status common_status(const luo_step_request *request, const gathered *g,
                                luo_step_result *out, luo_err *err)
{
    const bool is_switch = request->recipe->from != NULL;
    int32_t ended = -1, drained = -1;
    for (int32_t i = 0; i < request->programs->n; i++) {
        const luo_step_report *report = &g->report[i];
        if (report->status == LUO_OK)
            ended = i;
        else if (report->status == LUO_ECANCELED)
            drained = i;
        else {
            out->status = report->status;
            memcpy(out->text, report->text, sizeof out->text);
            return LUO_OK;
        }
    }
    if (drained >= 0 && ended >= 0 && !is_switch)
        return luo_err_set(err, LUO_EBUG, "device %d ended step %lld and device %d did not.",
                           request->programs->at[ended].device, (long long)request->step,
                           request->programs->at[drained].device);
    out->status = drained >= 0 ? LUO_ECANCELED : LUO_OK;
    return LUO_OK;
}

/* What a rank does not account for, before it began and after it ended, is bubble. */
static void fill_device(luo_backend_state *backend, const luo_programs *set, gathered *g, int32_t i,
                        double seconds)
{
    const luo_step_report *report = &g->report[i];
    const int32_t device = set->at[i].device;
    g->parts[i] = report->parts;
    g->parts[i].bubble_s += fmax(0, seconds - luo_parts_total(&report->parts));
    g->compute_s[i] = report->compute_s;
    g->predicted_s[i] = report->predicted_s;
    if (report->memory_bytes > backend->memory[device])
        backend->memory[device] = report->memory_bytes;
    g->memory[i] = backend->memory[device];
}

static void add_records(gathered *g, int32_t i, double base_s)
{
    const luo_step_report *report = &g->report[i];
    for (int32_t k = 0; k < report->nrecords; k++) {
        luo_op_record *record = &g->records[g->nrecords++];
        *record = report->records[k];
        record->start_s += base_s + g->late_s[i];
        record->end_s += base_s + g->late_s[i];
    }
}

static bool same_use(const luo_comm_use *a, const luo_comm_use *b)
{
    return a->group == b->group && a->exchange == b->exchange && a->coll == b->coll &&
           a->stream == b->stream;
}

/* A collective is told by the first device of its group, a message by its sender. */
static void add_comm(const luo_programs *set, gathered *g, int32_t i)
{
    const luo_step_report *report = &g->report[i];
    for (int32_t k = 0; k < report->ncomm; k++) {
        const luo_comm_use *use = &report->comm[k];
        int32_t at = 0;
        if (use->group >= set->ngroups) continue;
        if (use->group >= 0 && set->groups[use->group].dev[0] != set->at[i].device) continue;
        while (at < g->ncomm && !same_use(&g->comm[at], use)) at++;
        if (at == g->ncomm) {
            g->comm[g->ncomm++] = *use;
            continue;
        }
        g->comm[at].calls += use->calls;
        g->comm[at].bytes += use->bytes;
        g->comm[at].busy_s += use->busy_s;
        g->comm[at].exposed_s += use->exposed_s;
    }
}

/* Groups first, each by number. */
static int by_number(const void *x, const void *y)
{
    const luo_comm_use *a = x, *b = y;
    if ((a->group < 0) != (b->group < 0)) return a->group < 0 ? 1 : -1;
    if (a->group != b->group) return a->group < b->group ? -1 : 1;
    if (a->coll != b->coll) return a->coll < b->coll ? -1 : 1;
    return (a->exchange > b->exchange) - (a->exchange < b->exchange);
}

static luo_status make_room(luo_backend_state *backend, const luo_programs *set, gathered *g,
                            luo_err *err)
{
    g->parts = LUO_NEW_N(backend->last, luo_parts, set->n);
    g->compute_s = LUO_NEW_N(backend->last, double, set->n);
    g->predicted_s = LUO_NEW_N(backend->last, double, set->n);
    g->memory = LUO_NEW_N(backend->last, int64_t, set->n);
    g->records = LUO_NEW_N(backend->last, luo_op_record, g->nrecords);
    g->comm = LUO_NEW_N(backend->last, luo_comm_use, g->ncomm);
    const bool ok =
        g->parts && g->compute_s && g->predicted_s && g->memory && g->records && g->comm;
    g->nrecords = g->ncomm = 0; /* filled below */
    return ok ? LUO_OK : luo_err_nomem(err);
}

luo_status luo_coord_result(luo_backend_state *backend, const luo_step_request *request,
                            luo_step_result *out, luo_err *err)
{
    gathered g = {0};
    double aux_loss = 0;
    const luo_programs *set = request->programs;
    const double base_s = luo_coord_time(backend, backend->workers.asked_s) - out->start_s;
    LUO_TRY(read_reports(backend, set, &g, err));
    LUO_TRY(common_status(request, &g, out, err));
    LUO_TRY(make_room(backend, set, &g, err));
    for (int32_t i = 0; i < set->n; i++) {
        fill_device(backend, set, &g, i, out->end_s - out->start_s);
        add_records(&g, i, base_s);
        add_comm(set, &g, i);
        aux_loss += g.report[i].aux_loss;
        if (!g.report[i].has_loss || out->has_loss) continue;
        out->has_loss = true;
        out->loss = g.report[i].loss;
        out->grad_norm = g.report[i].grad_norm;
    }
    out->loss += aux_loss; /* devices have it where their experts are, far from the head's loss */
    LUO_TRY(luo_coord_meet(backend->last, set, g.records, g.nrecords, err));
    if (g.ncomm > 0) qsort(g.comm, (size_t)g.ncomm, sizeof *g.comm, by_number);
    out->parts = g.parts;
    out->compute_s = g.compute_s;
    out->predicted_s = g.predicted_s;
    out->memory_bytes = g.memory;
    out->nrecords = g.nrecords;
    out->records = g.records;
    out->ncomm = g.ncomm;
    out->comm = g.comm;
    return LUO_OK;
}
