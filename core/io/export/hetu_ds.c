/* hetu_ds.c: a plan as ds_parallel_config of Hetu, in the layout of its
 * generate_llama_hetero_4d_config.py: one `blocksI` a layer, pipelines as members of unions. */
#include <jansson.h>
#include <stdlib.h>

#include "core/io/export/export_internal.h"

#define HETU "Hetu"

/* ---- what it can't ---- */

static luo_status check_whole(export_job *job)
{
    const luo_plan *plan = job->source->plan;
    if (job->source->model && job->source->model->family != LUO_FAMILY_LLAMA)
        return export_cannot_model(job, HETU, "family");
    if (plan->zero > 1)
        return export_cannot(job, "/zero", HETU " can't express ZeRO-%d; 0 or 1 is expected.",
                             plan->zero);
    if (plan->staggered)
        return export_cannot(job, "/optimizer_step",
                             HETU " can't express a staggered optimizer "
                                  "step.");
    if (plan->schedule != LUO_SCHED_1F1B)
        return export_cannot(job, "/schedule",
                             HETU " can't express schedule `%s`; `1f1b` is expected.",
                             luo_sched_name(plan->schedule));
    if (plan->ngroups > 0)
        return export_cannot(job, "/expert_groups", HETU " can't express experts.");
    if (plan->state_layout.ndev > 0)
        return export_cannot(job, "/state_layout",
                             HETU " can't express state in a layout of its own here.");
    if (plan->nassignment > 0)
        return export_cannot(job, "/assignment", HETU " can't express which sequence goes where.");
    if (plan->nannotations > 0)
        return export_cannot(job, "/annotations/0",
                             HETU " can't express the annotation of tensor `%s` here.",
                             plan->annotations[0].tensor);
    return LUO_OK;
}

static luo_status check_pipeline(export_job *job, int32_t p)
{
    const luo_pipeline *one = &job->source->plan->pipelines[p];
    if (one->micro_batch_sequences != job->source->plan->pipelines[0].micro_batch_sequences)
        return export_cannot(job, export_at_pipeline(p, "/micro_batch_sequences").text,
                             HETU " can't express micro-batches of %d sequences beside such of %d.",
                             one->micro_batch_sequences,
                             job->source->plan->pipelines[0].micro_batch_sequences);
    if (one->micro_batch_tokens)
        return export_cannot(job, export_at_pipeline(p, "/micro_batch_tokens").text,
                             HETU " can't express lengths of micro-batches here.");
    return LUO_OK;
}

static luo_status check_stage(export_job *job, int32_t p, int32_t s)
{
    const luo_pipeline *pipeline = &job->source->plan->pipelines[p];
    const luo_stage *stage = &pipeline->stages[s];
    if (stage->nreroute > 0)
        return export_cannot(job, export_at_stage(p, s, "/reroute").text,
                             HETU " can't express a stage without devices.");
    if (stage->layers[0].lo == stage->layers[0].hi)
        return export_cannot(job, export_at_stage(p, s, "/layers").text,
                             HETU " can't express a stage without layers.");
    if (stage->context_parallel > 1)
        return export_cannot(job, export_at_stage(p, s, "/context_parallel").text,
                             HETU
                             " can't express a context-parallel size of %d here; 1 is expected.",
                             stage->context_parallel);
    for (int32_t i = 1; stage->shares && i < stage->ndev; i++)
        if (stage->shares[i] != stage->shares[0])
            return export_cannot(job, export_at_stage(p, s, "/shares").text,
                                 HETU " can't express uneven shares of tensor-parallel devices.");
    if (stage->embedding != (s == 0))
        return export_cannot(job, export_at_stage(p, s, "/embedding").text,
                             HETU " can't express an embedding outside the first stage.");
    if (stage->head != (s == pipeline->nstages - 1))
        return export_cannot(job, export_at_stage(p, s, "/head").text,
                             HETU " can't express a head outside the last stage.");
    return LUO_OK;
}

/* One word a pipeline says how its recomputed layers are. */
static luo_status find_granularity(export_job *job, int32_t p, luo_recompute *out)
{
    const luo_pipeline *pipeline = &job->source->plan->pipelines[p];
    *out = LUO_RECOMPUTE_NONE;
    for (int32_t s = 0; s < pipeline->nstages; s++) {
        const luo_recompute mode = pipeline->stages[s].recompute;
        if (mode == LUO_RECOMPUTE_NONE || mode == *out) continue;
        if (*out != LUO_RECOMPUTE_NONE)
            return export_cannot(job, export_at_stage(p, s, "/recompute").text,
                                 HETU " can't express recompute `%s` here and `%s` in an earlier "
                                      "stage of that pipeline.",
                                 luo_recompute_name(mode), luo_recompute_name(*out));
        *out = mode;
    }
    return LUO_OK;
}

/* ---- the file ---- */

static const luo_stage *stage_of(const luo_plan *plan, int32_t p, int32_t layer)
{
    const luo_pipeline *pipeline = &plan->pipelines[p];
    for (int32_t s = 0; s < pipeline->nstages - 1; s++)
        if (layer < pipeline->stages[s].layers[0].hi) return &pipeline->stages[s];
    return &pipeline->stages[pipeline->nstages - 1];
}

typedef enum entry_cut { CUT_IN, CUT_OUT, CUT_DATA } entry_cut;

/* How a tensor of that layer lies: cut along "0" or "1" by the devices of a member, and copied or
 * dealt (input, labels) among the members. */
static json_t *make_entry(const luo_plan *plan, int32_t layer, entry_cut cut)
{
    json_t *widths = json_array(), *members = json_array(), *groups = json_array();
    for (int32_t p = 0; p < plan->npipelines; p++) {
        const luo_stage *stage = stage_of(plan, p, layer);
        json_t *group = json_array();
        for (int32_t i = 0; i < stage->ndev; i++)
            json_array_append_new(group, json_integer(stage->dev[i]));
        json_array_append_new(widths, json_integer(stage->ndev));
        json_array_append_new(members, json_integer(plan->npipelines));
        json_array_append_new(groups, group);
    }
    const bool data = cut == CUT_DATA;
    return json_pack("{s:{s:o},s:o,s:o,s:s}", "split", cut == CUT_OUT ? "1" : "0",
                     data ? members : widths, "dup", data ? widths : members, "device_group_union",
                     groups, "type", data ? "placeholder" : "variable");
}

static json_t *make_flags(const luo_plan *plan, int32_t layer, bool always_false)
{
    json_t *flags = json_array();
    for (int32_t p = 0; p < plan->npipelines; p++)
        json_array_append_new(
            flags,
            json_boolean(!always_false && export_recomputes(stage_of(plan, p, layer), layer)));
    return flags;
}

static json_t *make_block(const luo_plan *plan, int32_t layer)
{
    return json_pack("{s:[i],s:o,s:o,s:o,s:o,s:{s:o,s:o},s:o,s:{s:o,s:o,s:{}}}", "range", layer,
                     "recompute", make_flags(plan, layer, false), "output_recompute",
                     make_flags(plan, layer, true), "cpu_offload", make_flags(plan, layer, true),
                     "rmsnorm1", make_entry(plan, layer, CUT_IN), "attn", "qkv",
                     make_entry(plan, layer, CUT_OUT), "dense", make_entry(plan, layer, CUT_IN),
                     "rmsnorm2", make_entry(plan, layer, CUT_IN), "mlp", "dense_h_to_4h",
                     make_entry(plan, layer, CUT_OUT), "dense_4h_to_h",
                     make_entry(plan, layer, CUT_IN), "activation_func");
}

static json_t *make_blocks(const luo_plan *plan)
{
    json_t *blocks = json_object();
    for (int32_t layer = 0; layer < plan->layers; layer++) {
        char name[32];
        snprintf(name, sizeof name, "blocks%d", layer);
        json_object_set_new(blocks, name, make_block(plan, layer));
    }
    return blocks;
}

/* The recomputed layers of every pipeline. */
static json_t *make_recomputed(const luo_plan *plan)
{
    json_t *all = json_array();
    for (int32_t p = 0; p < plan->npipelines; p++) {
        json_t *layers = json_array();
        for (int32_t layer = 0; layer < plan->layers; layer++)
            if (export_recomputes(stage_of(plan, p, layer), layer))
                json_array_append_new(layers, json_integer(layer));
        json_array_append_new(all, layers);
    }
    return all;
}

static json_t *make_file(const luo_plan *plan, json_t *granularity)
{
    const int32_t last = plan->layers - 1;
    json_t *devices = json_array();
    for (int32_t d = 0; d < plan->devices; d++) json_array_append_new(devices, json_integer(d));
    return json_pack("{s:b,s:o,s:o,s:o,s:o,s:{s:o,s:o,s:o},s:o,s:o}", "zero",
                     plan->zero > 0 && plan->npipelines > 1, "devices", devices,
                     "recompute_granularity", granularity, "recompute_layer_idxs_list",
                     make_recomputed(plan), "input", make_entry(plan, 0, CUT_DATA), "llama", "wte",
                     make_entry(plan, 0, CUT_IN), "blocks", make_blocks(plan), "rmsnorm_final",
                     make_entry(plan, last, CUT_IN), "lm_head", make_entry(plan, last, CUT_OUT),
                     "label", make_entry(plan, last, CUT_DATA));
}

static luo_status make_granularity(export_job *job, json_t **out)
{
    const luo_plan *plan = job->source->plan;
    json_t *list = json_array();
    luo_status st = LUO_OK;
    for (int32_t p = 0; p < plan->npipelines && st == LUO_OK; p++) {
        luo_recompute mode;
        st = find_granularity(job, p, &mode);
        json_array_append_new(
            list, mode == LUO_RECOMPUTE_NONE ? json_null() : json_string(luo_recompute_name(mode)));
    }
    if (st != LUO_OK) json_decref(list);
    *out = list;
    return st;
}

/* What the file has no place for. */
static luo_status note_what_is_left(export_job *job)
{
    const luo_plan *plan = job->source->plan;
    luo_str list = {0};
    for (int32_t p = 0; p < plan->npipelines; p++)
        luo_str_addf(&list, "%s%d", p ? "," : "", plan->pipelines[p].micro_batches);
    const luo_status st = export_note(
        job,
        "the file does not hold micro-batches (of the pipelines %.300s), their sequences "
        "(%d of %lld tokens) and sequence parallelism (%s).",
        luo_str_get(&list), plan->pipelines[0].micro_batch_sequences,
        (long long)plan->sequence_tokens, plan->sequence_parallel ? "on" : "off");
    luo_str_free(&list);
    return st;
}

luo_status export_hetu(export_job *job)
{
    const luo_plan *plan = job->source->plan;
    luo_str text = {0};
    json_t *granularity;
    LUO_TRY(check_whole(job));
    for (int32_t p = 0; p < plan->npipelines; p++) {
        LUO_TRY(check_pipeline(job, p));
        for (int32_t s = 0; s < plan->pipelines[p].nstages; s++) LUO_TRY(check_stage(job, p, s));
    }
    LUO_TRY(make_granularity(job, &granularity));
    json_t *file = make_file(plan, granularity);
    char *dump = file ? json_dumps(file, JSON_INDENT(4)) : NULL;
    json_decref(file);
    if (!dump) return luo_err_nomem(job->err);
    luo_str_add(&text, dump);
    luo_str_addc(&text, '\n');
    free(dump);
    LUO_TRY(export_put(job, NULL, &text));
    return note_what_is_left(job);
}
