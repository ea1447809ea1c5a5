/* write_plan.c: a plan as a person would write it: one stage a line, no defaults. */
#include <string.h>

#include "core/io/io.h"

static void quoted(luo_str *s, const char *text)
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
    quoted(s, text);
}

static void ids(luo_str *s, const int32_t *v, int32_t n)
{
    luo_str_addc(s, '[');
    for (int32_t i = 0; i < n; i++) {
        if (i) luo_str_add(s, ", ");
        luo_str_addi(s, v[i]);
    }
    luo_str_addc(s, ']');
}

static void ranges(luo_str *s, const luo_range *v, int32_t n)
{
    luo_str_addc(s, '[');
    for (int32_t i = 0; i < n; i++)
        luo_str_addf(s, "%s[%d, %d]", i ? ", " : "", v[i].lo, v[i].hi);
    luo_str_addc(s, ']');
}

static void recompute(luo_str *s, const luo_stage *st)
{
    if (st->recompute == LUO_RECOMPUTE_NONE && !st->nrecompute) return;
    luo_str_addf(s, ", \"recompute\": {\"mode\": \"%s\"", luo_recompute_name(st->recompute));
    if (st->nrecompute) {
        luo_str_add(s, ", \"layers\": ");
        ranges(s, st->recompute_layers, st->nrecompute);
    }
    luo_str_addc(s, '}');
}

static void weights(luo_str *s, const char *key, const uint32_t *w, int32_t n)
{
    if (!w) return;
    luo_str_addf(s, ", \"%s\": [", key);
    for (int32_t i = 0; i < n; i++) luo_str_addf(s, "%s%u", i ? ", " : "", w[i]);
    luo_str_addc(s, ']');
}

static void context(luo_str *s, const luo_stage *st)
{
    if (st->context_parallel != 1)
        luo_str_addf(s, ", \"context_parallel\": %d", st->context_parallel);
    if (st->context_kind)
        luo_str_addf(s, ", \"context_kind\": \"%s\"", luo_context_kind_name(st->context_kind));
    if (st->context_inner) luo_str_addf(s, ", \"context_inner\": %d", st->context_inner);
    if (st->context_layout)
        luo_str_addf(s, ", \"context_layout\": \"%s\"",
                     luo_context_layout_name(st->context_layout));
    weights(s, "context_shares", st->context_shares, st->context_parallel);
}

static void stage(luo_str *s, const luo_stage *st, bool first, bool last)
{
    luo_str_add(s, "   {\"layers\": ");
    ranges(s, st->layers, st->nlayers);
    luo_str_add(s, ", \"devices\": ");
    ids(s, st->dev, st->ndev);
    context(s, st);
    weights(s, "shares", st->shares, luo_stage_tp(st));
    for (int32_t i = 0; i < st->nreroute; i++)
        luo_str_addf(s, "%s{\"pipeline\": %d, \"micro_batches\": %d}%s",
                     i ? ", " : ", \"reroute\": [", st->reroute[i].pipeline,
                     st->reroute[i].micro_batches, i == st->nreroute - 1 ? "]" : "");
    recompute(s, st);
    if (st->embedding != first)
        luo_str_addf(s, ", \"embedding\": %s", st->embedding ? "true" : "false");
    if (st->head != last) luo_str_addf(s, ", \"head\": %s", st->head ? "true" : "false");
    if (st->experts_dealt) luo_str_add(s, ", \"experts\": \"expert\"");
    luo_str_addc(s, '}');
}

static void pipeline(luo_str *s, const luo_plan *p, const luo_pipeline *pl)
{
    luo_str_addf(s, "  {\"micro_batches\": %d, ", pl->micro_batches);
    if (pl->micro_batch_sequences != p->micro_batch_sequences)
        luo_str_addf(s, "\"micro_batch_sequences\": %d, ", pl->micro_batch_sequences);
    if (pl->micro_batch_tokens) {
        luo_str_add(s, "\"micro_batch_tokens\": [");
        for (int32_t i = 0; i < pl->micro_batches; i++) {
            if (i) luo_str_add(s, ", ");
            luo_str_addi(s, pl->micro_batch_tokens[i]);
        }
        luo_str_add(s, "], ");
    }
    luo_str_add(s, "\"stages\": [\n");
    for (int32_t i = 0; i < pl->nstages; i++) {
        stage(s, &pl->stages[i], i == 0, i == pl->nstages - 1);
        luo_str_add(s, i < pl->nstages - 1 ? ",\n" : "]}");
    }
}

static void annotations(luo_str *s, const luo_plan *p)
{
    for (int32_t i = 0; i < p->nannotations; i++) {
        const luo_plan_annotation *a = &p->annotations[i];
        luo_str_add(s, i ? ",\n  {\"tensor\": " : ",\n \"annotations\": [\n  {\"tensor\": ");
        quoted(s, a->tensor);
        luo_str_add(s, ", \"annotation\": ");
        quoted(s, a->annotation);
        if (*a->at) {
            luo_str_add(s, ", \"at\": ");
            quoted(s, a->at);
        }
        if (strcmp(a->variant, "auto") != 0)
            luo_str_addf(s, ", \"variant\": \"%s\"", a->variant);
        luo_str_addc(s, '}');
    }
    if (p->nannotations) luo_str_addc(s, ']');
}

static void assignment(luo_str *s, const luo_plan *p)
{
    for (int32_t i = 0; i < p->nassignment; i++) {
        const luo_assignment *a = &p->assignment[i];
        luo_str_add(s, i ? ",\n  " : ",\n \"assignment\": [\n  ");
        luo_str_add(s, "{\"sequence\": ");
        luo_str_addi(s, a->sequence);
        luo_str_add(s, ", \"length_tokens\": ");
        luo_str_addi(s, a->length_tokens);
        luo_str_addf(s, ", \"pipeline\": %d, \"micro_batch\": %d}", a->pipeline, a->micro_batch);
    }
    if (p->nassignment) luo_str_addc(s, ']');
}

static void rest(luo_str *s, const luo_plan *p)
{
    for (int32_t i = 0; i < p->ngroups; i++) {
        luo_str_add(s, i ? ", " : ",\n \"expert_groups\": [");
        ids(s, p->expert_groups[i].pipeline, p->expert_groups[i].n);
        if (i == p->ngroups - 1) luo_str_addc(s, ']');
    }
    if (p->state_layout.ndev) {
        const luo_state_layout *l = &p->state_layout;
        luo_str_addf(s, ",\n \"state_layout\": {\"data\": %d, \"tensor\": %d, \"pipeline\": %d, "
                        "\"devices\": ", l->data, l->tensor, l->pipeline);
        ids(s, l->dev, l->ndev);
        luo_str_addc(s, '}');
    }
    for (int32_t i = 0; i < p->npinned; i++) {
        luo_str_add(s, i ? ", " : ",\n \"pinned\": [");
        quoted(s, p->pinned[i]);
        if (i == p->npinned - 1) luo_str_addc(s, ']');
    }
    if (p->meta_json) luo_str_addf(s, ",\n \"meta\": %s", p->meta_json);
}

static void bucket(luo_str *s, const luo_bucketing *b)
{
    if (b->rule != LUO_BUCKET_UNSAID)
        luo_str_addf(s, ", \"bucket_rule\": \"%s\"", luo_bucket_rule_name(b->rule));
    if (b->has_mib) luo_str_addf(s, ", \"bucket_mib\": %.17g", b->mib);
    if (b->lanes) luo_str_addf(s, ", \"dp_lanes\": %d", b->lanes);
    luo_str_add(s, ",\n \"pipelines\": [\n");
}

static void sharding(luo_str *s, const luo_sharding *h)
{
    if (h->kind != LUO_SHARD_FULL) luo_str_addf(s, ", \"shard\": \"%s\"", luo_shard_name(h->kind));
    if (h->pipelines) luo_str_addf(s, ", \"shard_pipelines\": %d", h->pipelines);
    if (h->has_depth) luo_str_addf(s, ", \"prefetch_depth\": %d", h->depth);
}

void luo_plan_json(luo_str *s, const luo_plan *p)
{
    luo_str_add(s, "{\"schema\": \"luoshu.plan/1\"");
    member(s, "name", p->name);
    member(s, "model", p->model);
    member(s, "cluster", p->cluster);
    luo_str_addf(s, ",\n \"layers\": %d, \"devices\": %d, \"dtype\": \"%s\", \"sequence_tokens\": ",
                 p->layers, p->devices, luo_dtype_name(p->dtype));
    luo_str_addi(s, p->sequence_tokens);
    luo_str_addf(s, ", \"micro_batch_sequences\": %d,\n \"zero\": %d, \"sequence_parallel\": %s, "
                    "\"schedule\": {\"kind\": \"%s\", \"chunks\": %d}",
                 p->micro_batch_sequences, p->zero, p->sequence_parallel ? "true" : "false",
                 luo_sched_name(p->schedule), p->chunks);
    if (p->staggered) luo_str_add(s, ", \"optimizer_step\": \"staggered\"");
    sharding(s, &p->sharding);
    bucket(s, &p->bucket);
    for (int32_t i = 0; i < p->npipelines; i++) {
        pipeline(s, p, &p->pipelines[i]);
        luo_str_add(s, i < p->npipelines - 1 ? ",\n" : "]");
    }
    annotations(s, p);
    assignment(s, p);
    rest(s, p);
    luo_str_add(s, "}\n");
}

luo_status luo_write_plan(const char *path, const luo_plan *p, luo_err *err)
{
    luo_str s = {0};
    luo_plan_json(&s, p);
    const luo_status st = s.failed ? luo_err_nomem(err)
                                   : luo_file_write_atomic(path, s.at, s.len, err);
    luo_str_free(&s);
    return st;
}
