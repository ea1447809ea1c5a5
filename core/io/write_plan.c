/* write_plan.c: a plan as a person would write it: one stage a line, no defaults. */
#include <string.h>

#include "core/io/io.h"
#include "core/io/write_plan.h"

static void write_quoted(luo_str *s, const char *text)
{
    luo_str_addc(s, '"');
    for (const char *p = text; *p; p++) {
        if (*p == '"' || *p == '\\') luo_str_addc(s, '\\');
        if ((unsigned char)*p < 0x20) luo_str_addf(s, "\\u%04x", *p);
        else luo_str_addc(s, *p);
    }
    luo_str_addc(s, '"');
}

static void member(luo_str *s, const char *key, const char *text)
{
    if (!text || !*text) return;
    luo_str_addf(s, ", \"%s\": ", key);
    write_quoted(s, text);
}

static void ids(luo_str *text, const int32_t *v, int32_t n)
{
    luo_str_addc(text, '[');
    for (int32_t i = 0; i < n; i++) {
        if (i) luo_str_add(text, ", ");
        luo_str_addi(text, v[i]);
    }
    luo_str_addc(text, ']');
}

static void ranges(luo_str *text, const luo_range *range, int32_t n)
{
    luo_str_addc(text, '[');
    for (int32_t i = 0; i < n; i++)
        luo_str_addf(text, "%s[%d, %d]", i ? ", " : "", range[i].lo, range[i].hi);
    luo_str_addc(text, ']');
}

static void recompute(luo_str *text, const luo_stage *st)
{
    if (st->recompute == LUO_RECOMPUTE_NONE && !st->nrecompute) return;
    luo_str_addf(text, ", \"recompute\": {\"mode\": \"%s\"", luo_recompute_name(st->recompute));
    if (st->nrecompute) {
        luo_str_add(text, ", \"layers\": ");
        ranges(text, st->recompute_layers, st->nrecompute);
    }
    luo_str_addc(text, '}');
}

static void weights(luo_str *text, const char *key, const uint32_t *w, int32_t n)
{
    if (!w) return;
    luo_str_addf(text, ", \"%s\": [", key);
    for (int32_t i = 0; i < n; i++) luo_str_addf(text, "%s%u", i ? ", " : "", w[i]);
    luo_str_addc(text, ']');
}

static void context(luo_str *text, const luo_stage *st)
{
    if (st->context_parallel != 1)
        luo_str_addf(text, ", \"context_parallel\": %d", st->context_parallel);
    if (st->context_kind)
        luo_str_addf(text, ", \"context_kind\": \"%s\"", luo_context_kind_name(st->context_kind));
    if (st->context_inner) luo_str_addf(text, ", \"context_inner\": %d", st->context_inner);
    if (st->context_layout)
        luo_str_addf(text, ", \"context_layout\": \"%s\"",
                     luo_context_layout_name(st->context_layout));
    weights(text, "context_shares", st->context_shares, st->context_parallel);
}

static void stage(luo_str *text, const luo_stage *st, bool first, bool last)
{
    luo_str_add(text, "   {\"layers\": ");
    ranges(text, st->layers, st->nlayers);
    luo_str_add(text, ", \"devices\": ");
    ids(text, st->dev, st->ndev);
    context(text, st);
    weights(text, "shares", st->shares, luo_stage_tp(st));
    for (int32_t i = 0; i < st->nreroute; i++)
        luo_str_addf(text, "%s{\"pipeline\": %d, \"micro_batches\": %d}%s",
                     i ? ", " : ", \"reroute\": [", st->reroute[i].pipeline,
                     st->reroute[i].micro_batches, i == st->nreroute - 1 ? "]" : "");
    recompute(text, st);
    if (st->embedding != first)
        luo_str_addf(text, ", \"embedding\": %s", st->embedding ? "true" : "false");
    if (st->head != last) luo_str_addf(text, ", \"head\": %s", st->head ? "true" : "false");
    if (st->experts_dealt) luo_str_add(text, ", \"experts\": \"expert\"");
    luo_str_addc(text, '}');
}

static void pipeline(luo_str *text, const luo_plan *plan, const luo_pipeline *pl)
{
    luo_str_addf(text, "  {\"micro_batches\": %d, ", pl->micro_batches);
    if (pl->micro_batch_sequences != plan->micro_batch_sequences)
        luo_str_addf(text, "\"micro_batch_sequences\": %d, ", pl->micro_batch_sequences);
    if (pl->micro_batch_tokens) {
        luo_str_add(text, "\"micro_batch_tokens\": [");
        for (int32_t i = 0; i < pl->micro_batches; i++) {
            if (i) luo_str_add(text, ", ");
            luo_str_addi(text, pl->micro_batch_tokens[i]);
        }
        luo_str_add(text, "], ");
    }
    luo_str_add(text, "\"stages\": [\n");
    for (int32_t i = 0; i < pl->nstages; i++) {
        stage(text, &pl->stages[i], i == 0, i == pl->nstages - 1);
        luo_str_add(text, i < pl->nstages - 1 ? ",\n" : "]}");
    }
}

static void annotations(luo_str *text, const luo_plan *plan)
{
    for (int32_t i = 0; i < plan->nannotations; i++) {
        const luo_plan_annotation *annotation = &plan->annotations[i];
        luo_str_add(text, i ? ",\n  {\"tensor\": " : ",\n \"annotations\": [\n  {\"tensor\": ");
        write_quoted(text, annotation->tensor);
        luo_str_add(text, ", \"annotation\": ");
        write_quoted(text, annotation->annotation);
        if (*annotation->at) {
            luo_str_add(text, ", \"at\": ");
            write_quoted(text, annotation->at);
        }
        if (strcmp(annotation->variant, "auto") != 0)
            luo_str_addf(text, ", \"variant\": \"%s\"", annotation->variant);
        luo_str_addc(text, '}');
    }
    if (plan->nannotations) luo_str_addc(text, ']');
}

static void assignment(luo_str *text, const luo_plan *plan)
{
    for (int32_t i = 0; i < plan->nassignment; i++) {
        const luo_assignment *a = &plan->assignment[i];
        luo_str_add(text, i ? ",\n  " : ",\n \"assignment\": [\n  ");
        luo_str_add(text, "{\"sequence\": ");
        luo_str_addi(text, a->sequence);
        luo_str_add(text, ", \"length_tokens\": ");
        luo_str_addi(text, a->length_tokens);
        luo_str_addf(text, ", \"pipeline\": %d, \"micro_batch\": %d}", a->pipeline, a->micro_batch);
    }
    if (plan->nassignment) luo_str_addc(text, ']');
}

static void rest(luo_str *text, const luo_plan *plan)
{
    for (int32_t i = 0; i < plan->ngroups; i++) {
        luo_str_add(text, i ? ", " : ",\n \"expert_groups\": [");
        ids(text, plan->expert_groups[i].pipeline, plan->expert_groups[i].n);
        if (i == plan->ngroups - 1) luo_str_addc(text, ']');
    }
    if (plan->expert_parallel)
        luo_str_addf(text, ",\n \"expert_parallel\": %d", plan->expert_parallel);
    if (plan->moe_exchange)
        luo_str_addf(text, ",\n \"moe_exchange\": \"%s\"",
                     luo_alltoall_kind_name(plan->moe_exchange));
    if (plan->state_layout.ndev) {
        const luo_state_layout *layout = &plan->state_layout;
        luo_str_addf(text,
                     ",\n \"state_layout\": {\"data\": %d, \"tensor\": %d, \"pipeline\": %d, "
                     "\"devices\": ",
                     layout->data, layout->tensor, layout->pipeline);
        ids(text, layout->dev, layout->ndev);
        luo_str_addc(text, '}');
    }
    for (int32_t i = 0; i < plan->npinned; i++) {
        luo_str_add(text, i ? ", " : ",\n \"pinned\": [");
        write_quoted(text, plan->pinned[i]);
        if (i == plan->npinned - 1) luo_str_addc(text, ']');
    }
    if (plan->meta_json) luo_str_addf(text, ",\n \"meta\": %s", plan->meta_json);
}

static void bucket(luo_str *text, const luo_bucketing *bucketing)
{
    if (bucketing->rule != LUO_BUCKET_UNSAID)
        luo_str_addf(text, ", \"bucket_rule\": \"%s\"", luo_bucket_rule_name(bucketing->rule));
    if (bucketing->has_mib) luo_str_addf(text, ", \"bucket_mib\": %.17g", bucketing->mib);
    if (bucketing->lanes) luo_str_addf(text, ", \"dp_lanes\": %d", bucketing->lanes);
    luo_str_add(text, ",\n \"pipelines\": [\n");
}

static void sharding(luo_str *text, const luo_sharding *h)
{
    if (h->kind != LUO_SHARD_FULL)
        luo_str_addf(text, ", \"shard\": \"%s\"", luo_shard_name(h->kind));
    if (h->pipelines) luo_str_addf(text, ", \"shard_pipelines\": %d", h->pipelines);
    if (h->has_depth) luo_str_addf(text, ", \"prefetch_depth\": %d", h->depth);
}

void luo_plan_json(luo_str *text, const luo_plan *plan)
{
    luo_str_add(text, "{\"schema\": \"luoshu.plan/1\"");
    member(text, "name", plan->name);
    member(text, "model", plan->model);
    member(text, "cluster", plan->cluster);
    luo_str_addf(text,
                 ",\n \"layers\": %d, \"devices\": %d, \"dtype\": \"%s\", \"sequence_tokens\": ",
                 plan->layers, plan->devices, luo_dtype_name(plan->dtype));
    luo_str_addi(text, plan->sequence_tokens);
    luo_str_addf(text,
                 ", \"micro_batch_sequences\": %d,\n \"zero\": %d, \"sequence_parallel\": %s, "
                 "\"schedule\": {\"kind\": \"%s\", \"chunks\": %d}",
                 plan->micro_batch_sequences, plan->zero,
                 plan->sequence_parallel ? "true" : "false", luo_sched_name(plan->schedule),
                 plan->chunks);
    if (plan->staggered) luo_str_add(text, ", \"optimizer_step\": \"staggered\"");
    sharding(text, &plan->sharding);
    bucket(text, &plan->bucket);
    for (int32_t i = 0; i < plan->npipelines; i++) {
        pipeline(text, plan, &plan->pipelines[i]);
        luo_str_add(text, i < plan->npipelines - 1 ? ",\n" : "]");
    }
    annotations(text, plan);
    assignment(text, plan);
    rest(text, plan);
    luo_str_add(text, "}\n");
}

luo_status luo_write_plan(const char *path, const luo_plan *plan, luo_err *err)
{
    luo_str text = {0};
    luo_plan_json(&text, plan);
    const luo_status st =
        text.failed ? luo_err_nomem(err) : luo_file_write_atomic(path, text.at, text.len, err);
    luo_str_free(&text);
    return st;
}
