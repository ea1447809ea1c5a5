/* report.c: parts, compute, links, communication and records of a step. */
#include "sim/step/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/net/traffic.h"
#include "sim/step/death.h"

static luo_status alloc_reply(sim_step *step, sim_reply *reply)
{
    const sim_net *net = step->net;
    reply->parts = LUO_NEW_N(step->arena, luo_parts, net->set->n);
    reply->compute_s = LUO_NEW_N(step->arena, double, net->set->n);
    reply->predicted_s = LUO_NEW_N(step->arena, double, net->set->n);
    reply->links = LUO_NEW_N(step->arena, luo_link_use, net->config->cluster->nlinks);
    reply->comm = LUO_NEW_N(step->arena, luo_comm_use, net->nrows);
    const bool ok =
        reply->parts && reply->compute_s && reply->predicted_s && reply->links && reply->comm;
    return ok ? LUO_OK : LUO_ENOMEM;
}

/* ---- comm use ---- */

static void add_use(const sim_net *net, luo_comm_use *comm, int32_t row, const luo_instr *in,
                    const sim_tally *tally, double exposed)
{
    luo_comm_use *use = &comm[row];
    const sim_row *r = &net->rows[row];
    use->group = r->group;
    use->exchange = r->exchange;
    use->coll = r->coll;
    use->stream = r->stream;
    use->devices = r->devices;
    use->calls += tally->calls;
    use->bytes += tally->calls * sim_bytes(net, in, in->bytes);
    use->busy_s += tally->busy_s;
    use->exposed_s += exposed;
}

/* A collective is told by the first device of its group, a message by its sender. */
static void use_of_member(const luo_rank *rank, int32_t m, const double *exposed,
                          luo_comm_use *comm)
{
    const sim_net *net = rank->step->net;
    const int32_t device = net->set->at[rank->class->member[m]].device;
    for (int32_t i = 0; i < rank->class->role->ninstr; i++) {
        const luo_instr *in = &rank->class->role->instr[i];
        if (rank->tally[i].calls == 0 || in->slot < 0) continue;
        if (in->kind == LUO_INSTR_COLLECTIVE) {
            const int32_t group = sim_slot(net, rank->class, m, in)->group;
            if (net->set->groups[group].dev[0] == device)
                add_use(net, comm, net->row_of_group[group * 5 + in->coll], in, &rank->tally[i],
                        exposed[i]);
        } else if (in->bytes > 0 && in->exchange >= 0) {
            add_use(net, comm, net->row_of_exchange[in->exchange], in, &rank->tally[i], exposed[i]);
        }
    }
}

static luo_status report_rank(sim_step *step, const luo_rank *rank, sim_reply *out)
{
    const size_t mark = luo_arena_mark(step->arena);
    for (int32_t k = 0; k < rank->npaces; k++) {
        luo_parts parts;
        double *exposed = LUO_NEW_N(step->arena, double, rank->class->role->ninstr);
        if (!exposed) return LUO_ENOMEM;
        LUO_TRY(luo_ledger_close(&rank->paces[k].ledger, step->arena,
                                 fmax(0, step->end - step->before), &parts, exposed));
        const double compute =
            step->stopped ? parts.compute_s + parts.recompute_s : rank->paces[k].compute_s;
        for (int32_t m = 0; m < rank->class->n; m++) {
            if (rank->pace_of[m] != k) continue;
            out->parts[rank->class->member[m]] = parts;
            out->compute_s[rank->class->member[m]] = compute;
            out->predicted_s[rank->class->member[m]] = rank->paces[k].predicted_s;
            use_of_member(rank, m, exposed, out->comm);
        }
        luo_arena_reset(step->arena, mark);
    }
    return LUO_OK;
}

/* ---- links ---- */

luo_status sim_unit_init(luo_arena *arena, const sim_net *net, sim_unit_loads *loads)
{
    loads->arena = arena;
    loads->of = LUO_NEW_N(arena, struct sim_unit, net->set->ngroups * 5);
    return loads->of ? LUO_OK : LUO_ENOMEM;
}

/* Inside a node all flows of a collective carry the same payload. */
static luo_status make_unit(const sim_net *net, sim_unit_loads *loads, int32_t group, int coll,
                            luo_arena *scratch)
{
    const luo_group *g = &net->set->groups[group];
    struct sim_unit *unit = &loads->of[group * 5 + coll];
    luo_flow *flow = NULL;
    int32_t n = 0, count = 0;
    unit->known = true;
    if (luo_cost_flow(scratch, &net->cost, coll, g->dev, g->n, 1 << 30, &flow, &n, NULL) != LUO_OK)
        return LUO_OK; /* it has cost something before, so it will not fail now */
    sim_load *at = LUO_NEW_N(loads->arena, sim_load, (size_t)n * LUO_PATH_MAX);
    if (!at) return LUO_ENOMEM;
    const double each = luo_cost_volume(coll, g->n) / (coll == LUO_COLL_A2A ? g->n - 1 : 1);
    for (int32_t i = 0; i < n; i++) {
        luo_hop hops[LUO_PATH_MAX];
        const int32_t len = luo_cluster_path(net->config->cluster, flow[i].src, flow[i].dst, hops);
        for (int32_t h = 0; h < len; h++)
            at[count++] = (sim_load){2 * hops[h].link + hops[h].up, each};
    }
    unit->at = at;
    unit->n = count;
    return LUO_OK;
}

static void add_hop(luo_link_use *links, int32_t hop, double bytes, double busy)
{
    luo_link_use *use = &links[hop / 2];
    *(hop % 2 ? &use->bytes_up : &use->bytes_down) += bytes;
    *(hop % 2 ? &use->busy_up_s : &use->busy_down_s) += busy;
}

typedef struct inside { /* collectives inside classes, per group and kind */
    double *bytes, *busy_s;
} inside;

static void see_messages(const luo_rank *rank, const luo_instr *in, const sim_tally *tally,
                         luo_link_use *links)
{
    const sim_net *net = rank->step->net;
    for (int32_t m = 0; m < rank->class->n; m++) {
        const luo_slot *slot = sim_slot(net, rank->class, m, in);
        for (int32_t k = 0; k < slot->nmessage; k++) {
            luo_hop hops[LUO_PATH_MAX];
            if (!slot->message[k].send) continue;
            const int32_t n =
                luo_cluster_path(net->config->cluster, net->set->at[rank->class->member[m]].device,
                                 slot->message[k].peer, hops);
            for (int32_t h = 0; h < n; h++)
                add_hop(links, 2 * hops[h].link + hops[h].up,
                        (double)(tally->calls * sim_bytes(net, in, slot->message[k].bytes)),
                        tally->busy_s);
        }
    }
}

/* Pieces of a grouped collective are of unlike lengths: they are told one by one. */
static luo_status see_grouped(const sim_step *step, const luo_cost_call *call,
                              const sim_tally *tally, luo_link_use *links)
{
    const luo_cluster *cluster = step->net->config->cluster;
    const size_t mark = luo_arena_mark(step->arena);
    int32_t *room = LUO_NEW_N(step->arena, int32_t, call->n);
    if (!room) return LUO_ENOMEM;
    for (int32_t i = 0; i < luo_cost_call_parts(call); i++) {
        const luo_cost_part part = luo_cost_call_part(call, i, room);
        const double bytes = (double)(tally->calls * part.bytes);
        const double busy = tally->busy_s * (double)part.bytes / (double)call->bytes;
        luo_flow *flow = NULL;
        int32_t n = 0;
        if (luo_cost_flow(step->arena, &step->net->cost, part.coll, part.dev, call->n, part.bytes,
                          &flow, &n, NULL) != LUO_OK)
            continue; /* it has cost something before, so it will not fail now */
        for (int32_t k = 0; k < n; k++) {
            luo_hop hops[LUO_PATH_MAX];
            const int32_t len = luo_cluster_path(cluster, flow[k].src, flow[k].dst, hops);
            for (int32_t h = 0; h < len; h++)
                add_hop(links, 2 * hops[h].link + (hops[h].up != part.reversed), bytes, busy);
        }
    }
    luo_arena_reset(step->arena, mark);
    return LUO_OK;
}

static luo_status see_inside(const luo_rank *rank, inside *in, luo_link_use *links)
{
    const sim_net *net = rank->step->net;
    for (int32_t i = 0; i < rank->class->role->ninstr; i++) {
        const luo_instr *instr = &rank->class->role->instr[i];
        const sim_tally *tally = &rank->tally[i];
        if (rank->class->ops[i].what != SIM_INSIDE || tally->calls == 0 || instr->slot < 0)
            continue;
        if (instr->kind == LUO_INSTR_P2P) {
            see_messages(rank, instr, tally, links);
            continue;
        }
        int32_t last = -1;
        for (int32_t m = 0; m < rank->class->n; m++) {
            const luo_slot *slot = sim_slot(net, rank->class, m, instr);
            const luo_cost_call call = sim_call(net, instr, slot);
            if (slot->group == last) continue;
            last = slot->group;
            if (call.variant == LUO_COLL_GROUPED) {
                LUO_TRY(see_grouped(rank->step, &call, tally, links));
                continue;
            }
            in->bytes[slot->group * 5 + instr->coll] +=
                (double)(tally->calls * luo_cost_call_bytes(&call));
            in->busy_s[slot->group * 5 + instr->coll] += tally->busy_s;
        }
    }
    return LUO_OK;
}

static luo_status links_inside(sim_step *step, sim_unit_loads *units, luo_link_use *links)
{
    const int32_t n = step->net->set->ngroups * 5;
    inside in = {LUO_NEW_N(step->arena, double, n), LUO_NEW_N(step->arena, double, n)};
    if (!in.bytes || !in.busy_s) return LUO_ENOMEM;
    for (int32_t l = 0; l < step->net->nclasses; l++)
        LUO_TRY(see_inside(&step->ranks[l], &in, links));
    for (int32_t k = 0; k < n; k++) {
        if (in.bytes[k] <= 0) continue;
        const size_t mark = luo_arena_mark(step->arena);
        if (!units->of[k].known) LUO_TRY(make_unit(step->net, units, k / 5, k % 5, step->arena));
        luo_arena_reset(step->arena, mark);
        for (int32_t i = 0; i < units->of[k].n; i++)
            add_hop(links, units->of[k].at[i].hop, units->of[k].at[i].bytes * in.bytes[k],
                    in.busy_s[k]);
    }
    return LUO_OK;
}

/* What went over links is told as a mean over the rounds, since those of several lanes overlap. */
static double share_told(const sim_step *step)
{
    if (step->rounds == 1) return 1;
    return step->stopped ? fmax(0, step->end - step->before) / fmax(step->end, 1e-12)
                         : 1.0 / step->rounds;
}

static luo_status report_links(sim_step *step, sim_unit_loads *units, luo_link_use *links)
{
    const double share = share_told(step), end = fmax(0, step->end - step->before);
    for (int32_t t = 0; t < step->net->ntraffics; t++)
        for (int32_t i = 0; step->runs[t] > 0 && i < step->net->traffics[t].nloads; i++) {
            const sim_load *load = &step->net->traffics[t].loads[i];
            add_hop(links, load->hop, share * (load->bytes * (double)step->runs[t]), 0);
        }
    for (int32_t w = 0; w < step->net->nwires; w++) {
        if (step->busy[w] > 0) step->busy_s[w] += step->end - step->busy_since[w];
        for (int32_t i = 0; i < step->net->wires[w].nways; i++)
            add_hop(links, step->net->wires[w].hop[i], 0, share * step->busy_s[w]);
    }
    LUO_TRY(links_inside(step, units, links));
    for (int32_t l = 0; l < step->net->config->cluster->nlinks; l++) {
        links[l].busy_up_s = fmin(links[l].busy_up_s, end);
        links[l].busy_down_s = fmin(links[l].busy_down_s, end);
    }
    return LUO_OK;
}

/* ---- records ---- */

/* What was under way when the step failed ended then; what had not begun is no record. */
static void cut_jobs(const sim_step *step, const luo_rank *rank)
{
    for (const sim_job *job = rank->first_job; job; job = job->after)
        for (int32_t k = 0; job->records && k < rank->npaces; k++) {
            job->records[k]->start = job->issued ? fmin(job->start, step->end) : HUGE_VAL;
            job->records[k]->end = HUGE_VAL;
            job->records[k]->status = (int32_t)sim_rank_status(rank, job);
        }
}

static bool keep_record(const sim_step *step, const sim_record *record, luo_op_record *out)
{
    if (step->stopped && record->start >= step->end) return false;
    out->task = record->task;
    out->instr = record->instr;
    out->start_s = record->start;
    out->end_s = record->end;
    out->status = (luo_status)record->status;
    if (!step->stopped || record->end <= step->end) return true;
    out->end_s = step->end;
    if (out->status == LUO_OK) out->status = LUO_ECANCELED;
    return true;
}

/* When the first lane began the step that is told: dates of a trace count from then, so that steps
 * of a lane follow each other though those of several overlap. */
static double first_begins(const sim_step *step)
{
    double first = step->ranks[0].base;
    for (int32_t l = 1; l < step->net->nclasses; l++) first = fmin(first, step->ranks[l].base);
    return first;
}

static luo_status report_records(sim_step *step, sim_reply *out)
{
    const double first = first_begins(step);
    int64_t most = 0, n = 0;
    const sim_pace **pace_of = LUO_NEW_N(step->arena, const sim_pace *, step->net->set->n);
    if (!pace_of) return LUO_ENOMEM;
    for (int32_t l = 0; l < step->net->nclasses; l++) {
        const luo_rank *rank = &step->ranks[l];
        if (step->stopped) cut_jobs(step, rank);
        for (int32_t m = 0; m < rank->class->n; m++) {
            pace_of[rank->class->member[m]] = &rank->paces[rank->pace_of[m]];
            most += rank->paces[rank->pace_of[m]].nrecords;
        }
    }
    out->records = luo_arena_alloc(step->arena, (size_t)most * sizeof *out->records);
    if (!out->records) return LUO_ENOMEM;
    for (int32_t i = 0; i < step->net->set->n; i++)
        for (const sim_record *record = pace_of[i]->first; record; record = record->next) {
            out->records[n].device = step->net->set->at[i].device;
            if (!keep_record(step, record, &out->records[n])) continue;
            out->records[n].start_s = fmax(0, out->records[n].start_s - first);
            out->records[n++].end_s -= first;
        }
    out->head.nrecords = n;
    return LUO_OK;
}

static void describe_failure(const sim_step *step, sim_head *head)
{
    if (step->failed_device >= 0)
        sim_failure_text(head->text, sizeof head->text, step->failed_device);
    else if (step->failed_link >= 0)
        snprintf(head->text, sizeof head->text, "link `%s` failed while in use.",
                 step->net->config->cluster->links[step->failed_link].name);
    else
        snprintf(head->text, sizeof head->text, "the step failed; its peers must stay up.");
}

static void drop_unused_rows(sim_reply *out, int32_t nrows)
{
    for (int32_t i = 0; i < nrows; i++)
        if (out->comm[i].calls > 0) out->comm[out->head.ncomm++] = out->comm[i];
}

luo_status sim_report(sim_step *step, sim_unit_loads *units, sim_reply *out)
{
    *out = (sim_reply){.head = {.status = (int32_t)step->st,
                                .failed_device = step->failed_device,
                                .failed_link = step->failed_link,
                                .n = step->net->set->n,
                                .nlinks = step->net->config->cluster->nlinks,
                                .end_s = fmax(0, step->end - step->before),
                                .before_s = step->before,
                                .closed_instead = step->closed_instead,
                                .flow_instead = step->flow_instead}};
    LUO_TRY(alloc_reply(step, out));
    for (int32_t l = 0; l < step->net->nclasses; l++)
        LUO_TRY(report_rank(step, &step->ranks[l], out));
    LUO_TRY(report_links(step, units, out->links));
    if (step->trace) LUO_TRY(report_records(step, out));
    drop_unused_rows(out, step->net->nrows);
    if (step->st != LUO_OK) describe_failure(step, &out->head);
    return LUO_OK;
}
