/* What `luoshu plan uniform` prints: a table of plans and a few lines, or the document. */
#include "cli/plan/plan_uniform.h"

/* ---- where a step goes ---- */

typedef struct share {
    const char *name, *limit; /* limit: what it says when it is the largest; NULL: no limit */
    double seconds;
} share;
enum { SHARES = 10 };

/* Of a simulated step, or of its closed form: they sum to it. */
static int list_shares(const luo_judged_plan *p, share out[SHARES])
{
    const luo_parts *m = &p->step.mean;
    const luo_uniform_result *r = p->result;
    if (p->step.seconds < 0) {
        const share closed[] = {
            {"work", NULL, r->ideal_s * r->jitter},
            {"bubble", "the bubble of the pipeline", (r->pipeline_s - r->ideal_s) * r->jitter},
            {"dp", "data parallelism", r->dp_s * r->jitter},
            {"optimizer", "the optimizer", r->optimizer_s * r->jitter}};
        for (int i = 0; i < 4; i++) out[i] = closed[i];
        return 4;
    }
    const share simulated[SHARES] = {
        {"compute", NULL, m->compute_s},
        {"recompute", "memory, which recompute makes", m->recompute_s},
        {"tp", "tensor parallelism", m->tp_s},
        {"ep", "expert parallelism", m->ep_s},
        {"cp", "context parallelism", m->cp_s},
        {"pp", "transfers between stages", m->pp_s},
        {"dp", "data parallelism", m->dp_s},
        {"other", NULL, m->move_s + m->io_s},
        {"imbalance", "the imbalance of the stages", p->step.imbalance_s},
        {"bubble", "the bubble of the pipeline", m->bubble_s - p->step.imbalance_s}};
    for (int i = 0; i < SHARES; i++) out[i] = simulated[i];
    return SHARES;
}

static double step_of(const luo_judged_plan *p)
{
    return p->step.seconds >= 0 ? p->step.seconds : p->result->objective_s;
}

static double exposed(const luo_judged_plan *p)
{
    const luo_parts *m = &p->step.mean;
    return m->tp_s + m->ep_s + m->cp_s + m->pp_s + m->dp_s;
}

static const double LITTLE = 0.02; /* a share that limits nothing */

static const char *limit_of(const luo_judged_plan *p)
{
    share s[SHARES];
    const int n = list_shares(p, s);
    double most = LITTLE * step_of(p);
    const char *limit = "compute";
    for (int i = 0; i < n; i++)
        if (s[i].limit && s[i].seconds > most) most = s[i].seconds, limit = s[i].limit;
    return limit;
}

static double memory_of(const luo_judged_plan *p)
{
    return p->step.memory_ratio > 0 ? p->step.memory_ratio : p->result->memory_ratio;
}

/* ---- text ---- */

static bool is_uneven(const luo_plan *p)
{
    const luo_pipeline *pl = &p->pipelines[0];
    const int32_t first = pl->stages[0].layers[0].hi - pl->stages[0].layers[0].lo;
    for (int32_t s = 0; s < pl->nstages; s++)
        for (int32_t k = 0; k < pl->stages[s].nlayers; k++)
            if (pl->stages[s].layers[k].hi - pl->stages[s].layers[k].lo != first) return true;
    return false;
}

static bool is_dealt(const luo_plan *p)
{
    for (int32_t i = 1; i < p->npipelines; i++)
        if (p->pipelines[i].micro_batches != p->pipelines[0].micro_batches) return true;
    return false;
}

static void print_row(luo_cli *cli, const luo_uniform_call *c, int32_t i)
{
    FILE *out = luo_cli_out(cli);
    const luo_judged_plan *j = &c->plan[i];
    const luo_plan *p = j->result->plan;
    const luo_pipeline *pl = &p->pipelines[0];
    char h[17], zero[24], order[24], step[32] = "-", seen[16] = "-", bubble[16] = "-";
    if (p->chunks > 1) snprintf(order, sizeof order, "inter x%d", p->chunks);
    else snprintf(order, sizeof order, "%s", luo_sched_name(p->schedule));
    snprintf(zero, sizeof zero, "%d%s%s", p->zero, p->zero == 3 ? " " : "",
             p->zero == 3 ? luo_shard_name(p->sharding.kind) : "");
    if (j->step.seconds >= 0) {
        snprintf(step, sizeof step, "%.6f", j->step.seconds);
        snprintf(seen, sizeof seen, "%.1f%%", 100 * exposed(j) / j->step.seconds);
        snprintf(bubble, sizeof bubble, "%.1f%%", 100 * j->step.mean.bubble_s / j->step.seconds);
    }
    fprintf(out, "%-4d %-16s %3d %3d %3d %4d%s %3d %-9s %-6s %-9s %-9s %12.6f %12s %6.1f%% %7s %6s"
            "  %s\n", i + 1, luo_hash_print(luo_plan_hash(p), h), luo_stage_tp(&pl->stages[0]),
            pl->stages[0].context_parallel, pl->nstages, p->npipelines, is_dealt(p) ? "d" : " ",
            pl->micro_batch_sequences, order, is_uneven(p) ? "uneven" : "equal",
            luo_recompute_name(pl->stages[0].recompute), zero, j->result->objective_s, step,
            100 * memory_of(j), seen, bubble, luo_plan_file(cli, i));
}

static void print_why(FILE *out, const luo_uniform_call *c)
{
    for (int32_t i = 0; i < luo_uniform_rows(c); i++) {
        const luo_judged_plan *j = &c->plan[i];
        share s[SHARES];
        const int n = list_shares(j, s);
        fprintf(out, "why %d:", i + 1);
        for (int k = 0; k < n; k++)
            if (s[k].seconds > 0)
                fprintf(out, " %s %.1f%%", s[k].name, 100 * s[k].seconds / step_of(j));
        fprintf(out, "; memory %.1f%%; limited by %s\n", 100 * memory_of(j), limit_of(j));
    }
}

static void print_choice(FILE *out, const luo_uniform_call *c)
{
    char h[17];
    if (!c->by_simulation) return;
    fprintf(out, "chosen by simulated step among %d: the best by closed form, and the best of "
            "other sizes", c->nplans);
    if (c->nplans > 1)
        fprintf(out, "; next, plan %s: %.6f s",
                luo_hash_print(luo_plan_hash(c->plan[1].result->plan), h), c->plan[1].step.seconds);
    for (int32_t i = 1; i < c->nplans; i++)
        if (c->plan[i].result == c->closed)
            fprintf(out, "; best by closed form: %.6f s", c->plan[i].step.seconds);
    fputc('\n', out);
}

void luo_uniform_text(luo_cli *cli, const luo_uniform_call *c)
{
    FILE *out = luo_cli_out(cli);
    char g[17];
    fprintf(out, "%-4s %-16s %3s %3s %3s %4s  %3s %-9s %-6s %-9s %-9s %12s %12s %7s %7s %6s  %s\n",
            "rank", "plan", "tp", "cp", "pp", "dp", "mb", "schedule", "layers", "recompute", "zero",
            "objective_s", "simulated_s", "memory", "exposed", "bubble", "file");
    for (int32_t i = 0; i < luo_uniform_rows(c); i++) print_row(cli, c, i);
    if (luo_args_has(&cli->args, "why")) print_why(out, c);
    print_choice(out, c);
    fprintf(out, "search: %lld plans divide, %lld were priced; lower bound %.6f s\n",
            (long long)c->closed->shapes, (long long)c->closed->priced, c->closed->bound_s);
    fprintf(out, "simulated step of the first: %.6f s (program %s)\nplanning: %.3f s\n",
            c->plan[0].step.seconds, luo_hash_print(c->set->hash, g), c->planning_s);
}

/* ---- JSON ---- */

static void json_shape(luo_jsonw *j, const luo_plan *p)
{
    const luo_pipeline *pl = &p->pipelines[0];
    luo_jsonw_int(j, "tp", luo_stage_tp(&pl->stages[0]));
    luo_jsonw_int(j, "cp", pl->stages[0].context_parallel);
    luo_jsonw_int(j, "pp", pl->nstages);
    luo_jsonw_int(j, "dp", p->npipelines);
    luo_jsonw_int(j, "micro_batch_sequences", pl->micro_batch_sequences);
    luo_jsonw_open(j, "micro_batches", '[');
    for (int32_t i = 0; i < (is_dealt(p) ? p->npipelines : 1); i++)
        luo_jsonw_int(j, NULL, p->pipelines[i].micro_batches);
    luo_jsonw_close(j);
    luo_jsonw_text(j, "schedule", luo_sched_name(p->schedule));
    luo_jsonw_int(j, "chunks", p->chunks);
    luo_jsonw_open(j, "layers", '[');
    for (int32_t k = 0; k < p->chunks; k++)
        for (int32_t s = 0; s < pl->nstages; s++)
            luo_jsonw_int(j, NULL, pl->stages[s].layers[k].hi - pl->stages[s].layers[k].lo);
    luo_jsonw_close(j);
    luo_jsonw_text(j, "recompute", luo_recompute_name(pl->stages[0].recompute));
    luo_jsonw_int(j, "zero", p->zero);
    luo_jsonw_text(j, "shard", p->zero == 3 ? luo_shard_name(p->sharding.kind) : NULL);
}

static void json_shares(luo_jsonw *j, const luo_judged_plan *p)
{
    share s[SHARES];
    const int n = list_shares(p, s);
    luo_jsonw_open(j, "shares", '{');
    for (int k = 0; k < n; k++) luo_jsonw_num(j, s[k].name, s[k].seconds / step_of(p), 9);
    luo_jsonw_close(j);
    luo_jsonw_text(j, "limited_by", limit_of(p));
}

static void json_plan(luo_cli *cli, const luo_uniform_call *c, int32_t i)
{
    luo_jsonw *j = &cli->json;
    const luo_judged_plan *p = &c->plan[i];
    const luo_uniform_result *r = p->result;
    luo_jsonw_open(j, NULL, '{');
    luo_jsonw_hash(j, "plan_hash", luo_plan_hash(r->plan));
    luo_jsonw_text(j, "file", luo_plan_file(cli, i));
    luo_jsonw_num(j, "objective_s", r->objective_s, 9);
    luo_jsonw_num(j, "bound_s", r->bound_s, 9);
    luo_jsonw_num(j, "memory_ratio", memory_of(p), 9);
    json_shape(j, r->plan);
    luo_jsonw_int(j, "idle_devices", r->idle);
    if (p->step.seconds >= 0) luo_jsonw_num(j, "simulated_step_s", p->step.seconds, 9);
    else luo_jsonw_text(j, "simulated_step_s", NULL);
    if (p->step.seconds >= 0) luo_jsonw_num(j, "exposed_s", exposed(p), 9);
    else luo_jsonw_text(j, "exposed_s", NULL);
    if (p->step.seconds >= 0) luo_jsonw_num(j, "bubble_s", p->step.mean.bubble_s, 9);
    else luo_jsonw_text(j, "bubble_s", NULL);
    json_shares(j, p);
    luo_jsonw_close(j);
}

void luo_uniform_json(luo_cli *cli, const luo_uniform_call *c)
{
    luo_jsonw *j = &cli->json;
    luo_jsonw_text(j, "chosen_by", c->by_simulation ? "simulated" : "objective");
    luo_jsonw_open(j, "plans", '[');
    for (int32_t i = 0; i < luo_uniform_rows(c); i++) json_plan(cli, c, i);
    luo_jsonw_close(j);
    luo_jsonw_open(j, "search", '{');
    luo_jsonw_int(j, "plans", c->closed->shapes);
    luo_jsonw_int(j, "priced", c->closed->priced);
    luo_jsonw_int(j, "simulated", c->by_simulation ? c->nplans : 1);
    luo_jsonw_close(j);
    luo_jsonw_open(j, "warnings", '[');
    for (int i = 0; i < c->nwarnings; i++) luo_jsonw_text(j, NULL, c->warning[i]);
    luo_jsonw_close(j);
    luo_jsonw_num(j, "simulated_step_s", c->plan[0].step.seconds, 9);
    luo_jsonw_hash(j, "program_hash", c->set->hash);
    luo_jsonw_num(j, "elapsed_ms", 1e3 * c->planning_s, 9);
}
