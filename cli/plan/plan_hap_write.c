/* plan_hap_write.c: a program of `luoshu plan hap` as a plan file: one pipeline of one stage on all
 * devices, every tensor annotated. */
#include "cli/plan/plan_hap.h"
#include "core/plan/hap/emit.h"

static void meta_shares(luo_jsonw *json, const luo_hap_call *call)
{
    const int32_t ntypes = call->devices.ntypes;
    luo_jsonw_open(json, "shares", '[');
    for (int32_t s = 0; s < call->graph->nsegments; s++) {
        luo_jsonw_open(json, NULL, '[');
        for (int32_t t = 0; t < ntypes; t++)
            luo_jsonw_num(json, NULL, call->result->shares[s * ntypes + t], 9);
        luo_jsonw_close(json);
    }
    luo_jsonw_close(json);
}

/* For people: nothing in it is needed to run. */
static const char *meta_of(luo_cli *cli, const luo_hap_call *call)
{
    luo_str text = {0};
    luo_jsonw json = luo_jsonw_start(&text);
    luo_jsonw_open(&json, NULL, '{');
    luo_jsonw_text(&json, "planner", "hap");
    luo_jsonw_num(&json, "cost_s", call->result->cost_s, 9);
    luo_jsonw_text(&json, "start", luo_hap_start_name(call->result->start));
    meta_shares(&json, call);
    luo_jsonw_open(&json, "program", '[');
    for (int32_t o = 0; o < call->graph->nops; o++) {
        luo_str line = {0};
        luo_hap_program_line(&line, call->result->program, o);
        luo_jsonw_text(&json, NULL, luo_str_get(&line));
        luo_str_free(&line);
    }
    luo_jsonw_close(&json);
    luo_jsonw_close(&json);
    const char *copy = text.failed ? NULL : luo_arena_strdup(cli->arena, luo_str_get(&text));
    luo_str_free(&text);
    return copy;
}

luo_status luo_hap_call_plan(luo_cli *cli, const luo_hap_call *call, luo_plan *out, luo_err *err)
{
    luo_range *layers = LUO_NEW(cli->arena, luo_range);
    luo_stage *stage = LUO_NEW(cli->arena, luo_stage);
    luo_pipeline *pipeline = LUO_NEW(cli->arena, luo_pipeline);
    if (!layers || !stage || !pipeline) return luo_err_nomem(err);
    *layers = (luo_range){0, (int32_t)call->model->layers};
    *stage = (luo_stage){.nlayers = 1,
                         .layers = layers,
                         .ndev = call->devices.n,
                         .dev = call->devices.device,
                         .context_parallel = 1,
                         .embedding = true,
                         .head = true};
    *pipeline = (luo_pipeline){.micro_batches = 1,
                               .micro_batch_sequences = (int32_t)call->sequences,
                               .nstages = 1,
                               .stages = stage};
    *out = (luo_plan){.name = "hap",
                      .model = call->model->name,
                      .cluster = call->cluster->name,
                      .layers = (int32_t)call->model->layers,
                      .devices = call->cluster->ndevices,
                      .dtype = call->dtype,
                      .sequence_tokens = call->tokens,
                      .micro_batch_sequences = (int32_t)call->sequences,
                      .chunks = 1,
                      .schedule = LUO_SCHED_1F1B,
                      .npipelines = 1,
                      .pipelines = pipeline,
                      .meta_json = meta_of(cli, call)};
    luo_plan_annotation *annotations;
    if (!out->meta_json) return luo_err_nomem(err);
    LUO_TRY(luo_hap_emit(cli->arena, call->result->program, &call->result->numbers,
                         call->result->shares, call->devices.device, &annotations,
                         &out->nannotations, err));
    out->annotations = annotations;
    return LUO_OK;
}

luo_status luo_hap_call_write(luo_cli *cli, const luo_hap_call *call, luo_err *err)
{
    luo_plan plan;
    LUO_TRY(luo_hap_call_plan(cli, call, &plan, err));
    return luo_plan_write(cli, 0, &plan, err);
}
