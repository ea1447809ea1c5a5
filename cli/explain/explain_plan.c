/* explain_plan.c: a plan before anything runs: stages, annotations, communication with bytes
 * and cost, memory per device. */
#include "cli/explain/explain.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "cli/range.h"
#include "core/base/devset.h"
#include "core/cost/cost.h"
#include "core/io/result/result.h"
#include "core/plan/annotated.h"
#include "core/plan/step/step.h"

/* "layers.12.attn.q" -> "layers.*.attn.q": what differs between layers only is one row. */
static void without_layer(const char *name, char *out, size_t size)
{
    size_t n = 0;
    for (const char *p = name; *p && n + 2 < size; p++) {
        const bool start = p == name || p[-1] == '.';
        if (start && isdigit((unsigned char)*p)) {
            while (isdigit((unsigned char)p[1])) p++;
            out[n++] = '*';
        } else {
            out[n++] = *p;
        }
    }
    out[n] = 0;
}

static void print_stages(FILE *out, const luo_plan *plan)
{
    fprintf(out, "\n%-8s %-5s %-10s %-20s %-7s %-9s %s\n", "pipeline", "stage", "layers",
            "devices", "micro_b", "recompute", "shares");
    for (int32_t i = 0; i < plan->npipelines; i++)
        for (int32_t j = 0; j < plan->pipelines[i].nstages; j++) {
            const luo_stage *stage = &plan->pipelines[i].stages[j];
            luo_str dev = {0}, layers = {0}, shares = {0};
            luo_devset_print(&dev, stage->dev, stage->ndev);
            for (int32_t k = 0; k < stage->nlayers; k++)
                luo_str_addf(&layers, "%s[%d,%d)", k ? "," : "", stage->layers[k].lo,
                             stage->layers[k].hi);
            for (int32_t k = 0; stage->shares && k < stage->ndev / stage->context_parallel; k++)
                luo_str_addf(&shares, "%s%u", k ? "," : "", stage->shares[k]);
            fprintf(out, "%-8d %-5d %-10s %-20s %-7d %-9s %s\n", i, j, luo_str_get(&layers),
                    luo_str_get(&dev), plan->pipelines[i].micro_batches,
                    luo_recompute_name(stage->recompute),
                    stage->shares ? luo_str_get(&shares) : "even");
            luo_str_free(&dev);
            luo_str_free(&layers);
            luo_str_free(&shares);
        }
}

static void print_reroutes(FILE *out, const luo_plan *plan)
{
    for (int32_t i = 0; i < plan->npipelines; i++)
        for (int32_t j = 0; j < plan->pipelines[i].nstages; j++) {
            const luo_stage *stage = &plan->pipelines[i].stages[j];
            for (int32_t k = 0; k < stage->nreroute; k++)
                fprintf(out,
                        "pipeline %d, stage %d: %d micro-batches run on stage %d of pipeline "
                        "%d\n",
                        i, j, stage->reroute[k].micro_batches, j, stage->reroute[k].pipeline);
        }
}

static void print_contexts(FILE *out, const luo_plan *plan, const luo_model *model)
{
    for (int32_t i = 0; i < plan->npipelines; i++) {
        const luo_context context = luo_plan_context(plan, model->causal, i);
        if (!luo_context_is_on(&context)) continue;
        fprintf(out, "pipeline %d: sequences are cut among %d groups, %s", i, context.c,
                context.zigzag ? "zigzag" : "contiguous");
        if (context.inner > 1) fprintf(out, "; heads for tokens among %d", context.inner);
        if (context.inner < context.c) fprintf(out, "; a ring of %d", luo_context_parts(&context));
        fprintf(out, "; padded to a multiple of %lld tokens\n",
                (long long)luo_plan_context_multiple(plan, model->causal, i));
    }
}

/* Of the stages, how many deal whole experts to their devices. */
static void count_dealt(const luo_plan *plan, int64_t *dealt, int64_t *all)
{
    *dealt = *all = 0;
    for (int32_t i = 0; i < plan->npipelines; i++)
        for (int32_t j = 0; j < plan->pipelines[i].nstages; j++) {
            *dealt += plan->pipelines[i].stages[j].experts_dealt;
            (*all)++;
        }
}

static void print_experts(FILE *out, const luo_plan *plan, const luo_model *model)
{
    int64_t dealt, all;
    if (!model->moe.experts) return;
    if (luo_plan_is_annotated(plan)) {
        fprintf(out, "experts: %lld a layer, as annotated\n", (long long)model->moe.experts);
        return;
    }
    count_dealt(plan, &dealt, &all);
    fprintf(out, "experts: %lld a layer, %s; ", (long long)model->moe.experts,
            dealt == 0     ? "each cut as other weights are"
            : dealt == all ? "whole ones dealt to devices"
                           : "whole ones dealt to devices in some stages, each cut in others");
    if (plan->ngroups == 0) fprintf(out, "a set for each pipeline");
    for (int32_t g = 0; g < plan->ngroups; g++) {
        luo_str ids = {0};
        luo_devset_print(&ids, plan->expert_groups[g].pipeline, plan->expert_groups[g].n);
        fprintf(out, "%s%s", g ? ", " : "a set for pipelines ", luo_str_get(&ids));
        luo_str_free(&ids);
    }
    if (plan->expert_parallel)
        fprintf(out, "; %d neighbouring devices have all of them together", plan->expert_parallel);
    if (dealt) fprintf(out, "; rows travel %s", luo_alltoall_kind_name(plan->moe_exchange));
    fputc('\n', out);
}

static void print_param_row(FILE *out, const luo_param *first, const luo_param *last)
{
    char name[128];
    luo_str text = {0}, s = {0};
    without_layer(first->name, name, sizeof name);
    luo_ann_print(&text, first->weight);
    luo_ann_print(&s, first->state);
    if (first->layer < 0)
        fprintf(out, "%-28s %-9s %s", name, "-", luo_str_get(&text));
    else
        fprintf(out, "%-28s %4d-%-4d %s", name, first->layer, last->layer, luo_str_get(&text));
    if (strcmp(luo_str_get(&text), luo_str_get(&s)) != 0)
        fprintf(out, "  state %s", luo_str_get(&s));
    fputc('\n', out);
    luo_str_free(&text);
    luo_str_free(&s);
}

static bool same_kind(const luo_param *a, const luo_param *b)
{
    char x[128], y[128];
    without_layer(a->name, x, sizeof x);
    without_layer(b->name, y, sizeof y);
    return strcmp(x, y) == 0;
}

/* Rows of consecutive layers whose parameter of this kind lies alike. */
static void print_annotations(FILE *out, const luo_param *param, int32_t n, bool *done)
{
    fprintf(out, "\n%-28s %-9s %s\n", "parameter", "layers", "annotation");
    for (int32_t i = 0; i < n; i++) {
        if (done[i]) continue;
        int32_t last = i;
        done[i] = true;
        for (int32_t k = i + 1; k < n; k++) {
            if (done[k] || !same_kind(&param[i], &param[k])) continue;
            if (!luo_ann_equal(param[i].weight, param[k].weight) ||
                !luo_ann_equal(param[i].state, param[k].state))
                break;
            done[k] = true;
            last = k;
        }
        print_param_row(out, &param[i], &param[last]);
    }
}

typedef struct comm_row {
    char op[128];
    const char *how; /* resolution text, or the collective */
    int32_t stream;
    int64_t calls, bytes; /* over all devices and micro-batches of the step */
    double seconds;       /* of one device: the busiest */
} comm_row;

enum { MAX_ROWS = 512 };

static comm_row *row_of(comm_row *rows, int *n, const char *op, const char *how, int32_t stream)
{
    for (int i = 0; i < *n; i++)
        if (rows[i].stream == stream && strcmp(rows[i].op, op) == 0 &&
            strcmp(rows[i].how, how) == 0)
            return &rows[i];
    if (*n == MAX_ROWS) return NULL;
    comm_row *row = &rows[(*n)++];
    memset(row, 0, sizeof *row);
    snprintf(row->op, sizeof row->op, "%s", op);
    row->how = how;
    row->stream = stream;
    return row;
}

static int64_t sent(const luo_slot *slot)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < slot->nmessage; i++)
        if (slot->message[i].send) bytes += slot->message[i].bytes;
    return bytes;
}

typedef struct tally {
    const luo_explain *x;
    comm_row *rows;
    int n;
    double *seconds; /* of the device at hand, per row */
} tally;

static void add_instr(tally *t, const luo_program *program, const luo_instr *in, int64_t runs)
{
    const luo_programs *set = t->x->set;
    if (in->slot < 0) return;
    const luo_slot *slot = &program->slots[in->slot];
    char op[128];
    without_layer(set->ops[in->op].name, op, sizeof op);
    const bool p2p = in->kind == LUO_INSTR_P2P;
    comm_row *row =
        row_of(t->rows, &t->n, op, p2p ? "send_receive" : luo_coll_name(in->coll), in->stream);
    if (!row) return;
    double s = 0;
    if (!p2p) {
        const luo_group *group = &set->groups[slot->group];
        const luo_cost_call call = luo_cost_call_of(set, in, slot, in->bytes);
        s = luo_cost_call_seconds(&t->x->cost, &call, 0);
        row->calls += group->dev[0] == program->device ? runs : 0;
        row->bytes += group->dev[0] == program->device ? runs * in->bytes : 0;
    } else {
        for (int32_t i = 0; i < slot->nmessage; i++) {
            if (!slot->message[i].send) continue;
            const double one = luo_cost_p2p_seconds(
                &t->x->cost, program->device, slot->message[i].peer, slot->message[i].bytes, 0);
            s += one;
        }
        row->calls += sent(slot) > 0 ? runs : 0;
        row->bytes += runs * sent(slot);
    }
    t->seconds[row - t->rows] += (double)runs * s;
}

static luo_status add_device(tally *t, const luo_program *program, luo_err *err)
{
    const luo_role *role = &t->x->set->roles[program->role];
    int64_t *runs = LUO_NEW_N(t->x->arena, int64_t, role->nseg + 1);
    if (!runs) return luo_err_nomem(err);
    memset(t->seconds, 0, MAX_ROWS * sizeof *t->seconds);
    for (int32_t i = 0; i < program->ntask; i++) runs[program->tasks[i].seg]++;
    for (int32_t k = 0; k < role->nseg; k++)
        for (int32_t i = 0; i < role->seg[k].n; i++)
            add_instr(t, program, &role->instr[role->seg[k].first + i], runs[k]);
    for (int i = 0; i < t->n; i++)
        if (t->seconds[i] > t->rows[i].seconds) t->rows[i].seconds = t->seconds[i];
    return LUO_OK;
}

static luo_status tally_comm(const luo_explain *explain, tally *t, luo_err *err)
{
    *t = (tally){.x = explain,
                 .rows = LUO_NEW_N(explain->arena, comm_row, MAX_ROWS),
                 .seconds = LUO_NEW_N(explain->arena, double, MAX_ROWS)};
    if (!t->rows || !t->seconds) return luo_err_nomem(err);
    for (int32_t i = 0; i < explain->set->n; i++) LUO_TRY(add_device(t, &explain->set->at[i], err));
    return LUO_OK;
}

static luo_status print_comm(FILE *out, const luo_explain *explain, luo_err *err)
{
    tally t;
    LUO_TRY(tally_comm(explain, &t, err));
    fprintf(out, "\n%-34s %-15s %-6s %9s %18s %12s\n", "communication of a step", "how", "stream",
            "calls", "bytes", "device_s");
    for (int i = 0; i < t.n; i++)
        fprintf(out, "%-34s %-15s %-6s %9lld %18lld %12.6f\n", t.rows[i].op, t.rows[i].how,
                luo_stream_name((luo_stream)t.rows[i].stream), (long long)t.rows[i].calls,
                (long long)t.rows[i].bytes, t.rows[i].seconds);
    fprintf(out, "communicators: %d\n", explain->set->ngroups);
    return LUO_OK;
}

typedef struct named_part {
    const char *name;
    double seconds;
} named_part;
enum { PARTS = 10 };

static void name_parts(const luo_parts *parts, named_part out[PARTS])
{
    const named_part all[PARTS] = {
        {"compute_s", parts->compute_s}, {"recompute_s", parts->recompute_s},
        {"tp_s", parts->tp_s},           {"ep_s", parts->ep_s},
        {"cp_s", parts->cp_s},           {"pp_s", parts->pp_s},
        {"dp_s", parts->dp_s},           {"move_s", parts->move_s},
        {"io_s", parts->io_s},           {"bubble_s", parts->bubble_s}};
    memcpy(out, all, sizeof all);
}

static void print_step(FILE *out, const luo_explain *explain)
{
    named_part part[PARTS];
    if (!explain->simulated) return;
    name_parts(&explain->parts, part);
    fprintf(out, "\nsimulated step %.6f s; mean over the devices:", explain->step_s);
    for (int i = 0; i < PARTS; i++)
        if (part[i].seconds > 0) fprintf(out, " %s %.6f", part[i].name, part[i].seconds);
    fputc('\n', out);
}

static void print_memory(FILE *out, const luo_explain *explain)
{
    const double gib = 1073741824.0;
    fprintf(out, "\n%-6s %-12s %8s %8s %8s %8s %8s %8s %8s %8s  %s\n", "device", "node/slot",
            "weights", "grads", "optim", "activ", "buffers", "comms", "peak", "limit",
            "verdict (GiB)");
    for (int32_t i = 0; i < explain->set->n; i++) {
        const int32_t d = explain->set->at[i].device;
        const luo_profile *profile = luo_cluster_profile(explain->cluster, d);
        const luo_device *where = &explain->cluster->devices[d];
        const luo_memory memory = explain->memory[i];
        char name[64];
        const double limit = profile->memory_bytes - profile->reserved_bytes;
        snprintf(name, sizeof name, "%s/%d", explain->cluster->nodes[where->node].name,
                 where->slot);
        fprintf(out, "%-6d %-12s %8.2f %8.2f %8.2f %8.2f %8.2f %8.2f %8.2f %8.2f  %s\n", d, name,
                (double)memory.weights / gib, (double)memory.gradients / gib,
                (double)memory.optimizer / gib, (double)memory.activations / gib,
                (double)memory.buffers / gib, (double)memory.communicators / gib,
                (double)memory.peak / gib, limit / gib,
                (double)memory.needed > limit ? "over" : "fits");
    }
}

/* The answer: does it fit, who is idle, how long is a step. */
static void print_answer(FILE *out, const luo_explain *explain)
{
    const double gib = 1073741824.0;
    double most = 0, worst_peak = 0, worst_limit = 1;
    int32_t worst = 0;
    for (int32_t i = 0; i < explain->set->n; i++) {
        const int32_t d = explain->set->at[i].device;
        const luo_profile *profile = luo_cluster_profile(explain->cluster, d);
        const double limit = profile->memory_bytes - profile->reserved_bytes;
        const luo_memory *memory = &explain->memory[i];
        if ((double)memory->needed / limit <= most) continue;
        most = (double)memory->needed / limit;
        worst = d;
        worst_peak = (double)memory->peak / gib;
        worst_limit = limit / gib;
    }
    fprintf(out, "%s: device %d is the fullest with %.1f of %.1f GiB; %d of %d devices are used",
            most > 1 ? "It does not fit" : "It fits", worst, worst_peak, worst_limit,
            explain->set->n, explain->cluster->ndevices);
    if (explain->simulated) {
        fprintf(out, "; a step takes %.6f s", explain->step_s);
        luo_cli_range_print(out, &explain->range, explain->step_s);
    } else if (explain->closed_s > 0) {
        fprintf(out, "; a step takes %.4g s by the closed form (--simulate: as `sim` has it)",
                explain->closed_s);
    } else {
        fputs("; --simulate says how long a step takes", out);
    }
    const double step_s = explain->simulated ? explain->step_s : explain->closed_s;
    if (step_s > 0)
        fprintf(out, ", %.4g tokens/s, MFU %.1f %%",
                (double)luo_plan_tokens(explain->plan) / step_s,
                100 * luo_plan_mfu(explain->plan, explain->model, explain->cluster, step_s));
    fputs(".\n", out);
}

static luo_status print_parameters(FILE *out, const luo_explain *explain, luo_err *err)
{
    luo_param *params;
    int32_t n;
    LUO_TRY(luo_plan_params(explain->arena, explain->plan, explain->model, &params, &n, err));
    bool *done = LUO_NEW_N(explain->arena, bool, n);
    if (!done) return luo_err_nomem(err);
    print_annotations(out, params, n, done);
    return LUO_OK;
}

luo_status luo_explain_plan(FILE *out, const luo_explain *explain, luo_err *err)
{
    char a[17], b[17];
    print_answer(out, explain);
    fprintf(out, "plan %s  program %s\n", luo_hash_print(luo_plan_hash(explain->plan), a),
            luo_hash_print(explain->set->hash, b));
    fprintf(out,
            "%d devices, %d pipelines, schedule %s, %d layers, zero %d, sequences %lld, "
            "tokens %lld a step\n",
            explain->set->n, explain->plan->npipelines, luo_sched_name(explain->plan->schedule),
            explain->plan->layers, explain->plan->zero,
            (long long)luo_plan_sequences(explain->plan),
            (long long)luo_plan_tokens(explain->plan));
    print_stages(out, explain->plan);
    print_reroutes(out, explain->plan);
    print_contexts(out, explain->plan, explain->model);
    print_experts(out, explain->plan, explain->model);
    if (explain->annotations) LUO_TRY(print_parameters(out, explain, err));
    LUO_TRY(print_comm(out, explain, err));
    print_step(out, explain);
    print_memory(out, explain);
    return LUO_OK;
}

/* ---- as JSON ---- */

static void json_reroute(luo_jsonw *json, const luo_stage *stage)
{
    if (!stage->nreroute) return;
    luo_jsonw_open(json, "reroute", '[');
    for (int32_t k = 0; k < stage->nreroute; k++) {
        luo_jsonw_open(json, NULL, '{');
        luo_jsonw_int(json, "pipeline", stage->reroute[k].pipeline);
        luo_jsonw_int(json, "micro_batches", stage->reroute[k].micro_batches);
        luo_jsonw_close(json);
    }
    luo_jsonw_close(json);
}

static void json_stages(luo_jsonw *json, const luo_plan *plan)
{
    luo_jsonw_open(json, "pipelines", '[');
    for (int32_t i = 0; i < plan->npipelines; i++) {
        luo_jsonw_open(json, NULL, '{');
        luo_jsonw_int(json, "micro_batches", plan->pipelines[i].micro_batches);
        luo_jsonw_open(json, "stages", '[');
        for (int32_t k = 0; k < plan->pipelines[i].nstages; k++) {
            const luo_stage *stage = &plan->pipelines[i].stages[k];
            luo_str dev = {0};
            int32_t layers = 0;
            for (int32_t r = 0; r < stage->nlayers; r++)
                layers += stage->layers[r].hi - stage->layers[r].lo;
            luo_devset_print(&dev, stage->dev, stage->ndev);
            luo_jsonw_open(json, NULL, '{');
            luo_jsonw_text(json, "devices", luo_str_get(&dev));
            luo_jsonw_int(json, "layers", layers);
            json_reroute(json, stage);
            luo_jsonw_close(json);
            luo_str_free(&dev);
        }
        luo_jsonw_close(json);
        luo_jsonw_close(json);
    }
    luo_jsonw_close(json);
}

static void json_experts(luo_jsonw *json, const luo_plan *plan, const luo_model *model)
{
    int64_t dealt, all;
    if (!model->moe.experts) return;
    count_dealt(plan, &dealt, &all);
    luo_jsonw_open(json, "experts", '{');
    luo_jsonw_int(json, "experts", model->moe.experts);
    luo_jsonw_int(json, "stages_dealt", dealt);
    luo_jsonw_open(json, "groups", '[');
    for (int32_t g = 0; g < plan->ngroups; g++) {
        luo_str ids = {0};
        luo_devset_print(&ids, plan->expert_groups[g].pipeline, plan->expert_groups[g].n);
        luo_jsonw_text(json, NULL, luo_str_get(&ids));
        luo_str_free(&ids);
    }
    luo_jsonw_close(json);
    luo_jsonw_int(json, "expert_parallel", plan->expert_parallel);
    luo_jsonw_text(json, "moe_exchange", luo_alltoall_kind_name(plan->moe_exchange));
    luo_jsonw_close(json);
}

static luo_status json_comm(luo_jsonw *json, const luo_explain *explain, luo_err *err)
{
    tally t;
    LUO_TRY(tally_comm(explain, &t, err));
    luo_jsonw_open(json, "communication", '[');
    for (int i = 0; i < t.n; i++) {
        luo_jsonw_open(json, NULL, '{');
        luo_jsonw_text(json, "op", t.rows[i].op);
        luo_jsonw_text(json, "how", t.rows[i].how);
        luo_jsonw_text(json, "stream", luo_stream_name((luo_stream)t.rows[i].stream));
        luo_jsonw_int(json, "calls", t.rows[i].calls);
        luo_jsonw_int(json, "bytes", t.rows[i].bytes);
        luo_jsonw_num(json, "device_s", t.rows[i].seconds, 9);
        luo_jsonw_close(json);
    }
    luo_jsonw_close(json);
    return LUO_OK;
}

static void json_memory(luo_jsonw *json, const luo_explain *explain)
{
    luo_jsonw_open(json, "memory", '[');
    for (int32_t i = 0; i < explain->set->n; i++) {
        const luo_memory memory = explain->memory[i];
        const int32_t d = explain->set->at[i].device;
        const luo_profile *profile = luo_cluster_profile(explain->cluster, d);
        luo_jsonw_open(json, NULL, '{');
        luo_jsonw_int(json, "device", d);
        luo_jsonw_int(json, "weights_bytes", memory.weights);
        luo_jsonw_int(json, "gradients_bytes", memory.gradients);
        luo_jsonw_int(json, "optimizer_bytes", memory.optimizer);
        luo_jsonw_int(json, "activations_bytes", memory.activations);
        luo_jsonw_int(json, "buffers_bytes", memory.buffers);
        luo_jsonw_int(json, "communicators_bytes", memory.communicators);
        luo_jsonw_int(json, "peak_bytes", memory.peak);
        luo_jsonw_num(json, "limit_bytes", profile->memory_bytes - profile->reserved_bytes, 0);
        luo_jsonw_close(json);
    }
    luo_jsonw_close(json);
}

static void json_step(luo_jsonw *json, const luo_explain *explain)
{
    named_part part[PARTS];
    if (explain->closed_s > 0) luo_jsonw_num(json, "closed_step_s", explain->closed_s, 9);
    if (!explain->simulated) return;
    name_parts(&explain->parts, part);
    luo_jsonw_num(json, "step_s", explain->step_s, 9);
    luo_jsonw_num(json, "mfu_ratio",
                  luo_plan_mfu(explain->plan, explain->model, explain->cluster, explain->step_s),
                  6);
    luo_result_range_json(json, &explain->range, explain->step_s);
    luo_jsonw_num(json, "tokens_per_s", (double)luo_plan_tokens(explain->plan) / explain->step_s,
                  3);
    luo_jsonw_open(json, "parts", '{');
    for (int i = 0; i < PARTS; i++) luo_jsonw_num(json, part[i].name, part[i].seconds, 9);
    luo_jsonw_close(json);
}

luo_status luo_explain_plan_json(luo_jsonw *json, const luo_explain *explain, luo_err *err)
{
    char h[17];
    luo_jsonw_text(json, "plan_hash", luo_hash_print(luo_plan_hash(explain->plan), h));
    luo_jsonw_text(json, "program_hash", luo_hash_print(explain->set->hash, h));
    luo_jsonw_int(json, "devices", explain->set->n);
    luo_jsonw_int(json, "layers", explain->plan->layers);
    luo_jsonw_int(json, "zero", explain->plan->zero);
    luo_jsonw_text(json, "schedule", luo_sched_name(explain->plan->schedule));
    luo_jsonw_int(json, "sequences", luo_plan_sequences(explain->plan));
    luo_jsonw_int(json, "tokens", luo_plan_tokens(explain->plan));
    luo_jsonw_int(json, "communicators", explain->set->ngroups);
    json_step(json, explain);
    json_stages(json, explain->plan);
    json_experts(json, explain->plan, explain->model);
    LUO_TRY(json_comm(json, explain, err));
    json_memory(json, explain);
    return LUO_OK;
}
