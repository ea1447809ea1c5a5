#include "core/plan/moe/moe_layer.h"

#include <math.h>
#include <string.h>

#include "core/cost/overlap.h"
#include "core/plan/compile.h"

/* ---- the plan ---- */

/* A pipeline a device, of one layer, that share all experts. */
static luo_status make_plan(luo_arena *arena, const luo_moe_layer_in *in, luo_plan *out,
                            luo_err *err)
{
    const int32_t n = in->devices;
    luo_pipeline *pipe = LUO_NEW_N(arena, luo_pipeline, n);
    luo_stage *stage = LUO_NEW_N(arena, luo_stage, n);
    luo_range *layer = LUO_NEW(arena, luo_range);
    int32_t *number = LUO_NEW_N(arena, int32_t, n);
    struct luo_expert_group *group = LUO_NEW(arena, struct luo_expert_group);
    if (!pipe || !stage || !layer || !number || !group) return luo_err_nomem(err);
    *layer = (luo_range){0, 1};
    *group = (struct luo_expert_group){n, number};
    for (int32_t i = 0; i < n; i++) {
        number[i] = i;
        stage[i] = (luo_stage){.nlayers = 1,
                               .layers = layer,
                               .ndev = 1,
                               .dev = &number[i],
                               .context_parallel = 1,
                               .embedding = true,
                               .head = true,
                               .experts_dealt = true};
        pipe[i] = (luo_pipeline){
            .micro_batches = 1, .micro_batch_sequences = 1, .nstages = 1, .stages = &stage[i]};
    }
    *out = (luo_plan){.name = "layer",
                      .model = in->model->name,
                      .cluster = in->cluster->name,
                      .layers = 1,
                      .devices = n,
                      .dtype = in->dtype,
                      .sequence_tokens = in->tokens,
                      .micro_batch_sequences = 1,
                      .chunks = 1,
                      .npipelines = n,
                      .pipelines = pipe,
                      .ngroups = 1,
                      .expert_groups = group,
                      .moe_exchange = in->exchange};
    return LUO_OK;
}

/* ---- its seconds ---- */

typedef struct summing {
    luo_arena *arena;
    luo_cost_ctx cost;
    const luo_programs *set;
    luo_err *err;
} summing;

static bool named(const luo_op_info *op, const char *what)
{
    return strstr(op->name, what) != NULL;
}

/* LUO_MOE_PARTS: of no part. What is added up on the way belongs to every layer. */
static luo_moe_part part_of(const luo_op_info *op)
{
    const luo_op_kind kind = op->kind;
    if (!named(op, ".moe.") || kind == LUO_OP_ADD) return LUO_MOE_PARTS;
    if (named(op, ".moe.logits") || named(op, ".moe.load") || kind == LUO_OP_ROUTE ||
        kind == LUO_OP_ROUTE_DX)
        return LUO_MOE_GATE;
    if (kind == LUO_OP_PACK || kind == LUO_OP_PACK_DX || kind == LUO_OP_COMBINE ||
        kind == LUO_OP_COMBINE_DX)
        return LUO_MOE_TRANSFORM;
    return kind == LUO_OP_RESHARD ? LUO_MOE_EXCHANGE : LUO_MOE_EXPERTS;
}

/* The messages of a device one after another, sends beside receives. */
static luo_status talk_in_messages(const summing *s, const luo_program *program,
                                   const luo_instr *in, double *seconds)
{
    const luo_slot *slot = &program->slots[in->slot];
    double way[2] = {0, 0}, one;
    for (int32_t k = 0; k < slot->nmessage; k++) {
        const luo_message *message = &slot->message[k];
        const int32_t src = message->send ? program->device : message->peer,
                      dst = message->send ? message->peer : program->device;
        one = luo_cost_p2p_seconds(&s->cost, src, dst, message->bytes, 0);
        way[message->send] += one;
    }
    *seconds = way[0] > way[1] ? way[0] : way[1];
    *seconds *= luo_overlap_exposed_factor(s->cost.stack, in);
    return LUO_OK;
}

static luo_status talk(const summing *s, const luo_program *program, const luo_instr *in,
                       luo_comm_cost *out)
{
    *out = (luo_comm_cost){0, 0};
    if (in->kind == LUO_INSTR_P2P) return talk_in_messages(s, program, in, &out->seconds);
    if (in->kind != LUO_INSTR_COLLECTIVE || in->slot < 0) return LUO_OK;
    const luo_group *group = &s->set->groups[program->slots[in->slot].group];
    out->seconds = luo_cost_group_seconds(&s->cost, in->coll, group->dev, group->n, in->bytes, 0);
    out->seconds *= luo_overlap_exposed_factor(s->cost.stack, in);
    out->loss = luo_cost_overlap_loss(&s->cost, group->dev, group->n);
    return LUO_OK;
}

static luo_status add_device(const summing *s, const luo_program *program, luo_moe_layer *out)
{
    const luo_role *role = &s->set->roles[program->role];
    luo_comm_cost *comm = LUO_NEW_N(s->arena, luo_comm_cost, role->ninstr);
    double *seconds = LUO_NEW_N(s->arena, double, role->ninstr);
    double sum[2][LUO_MOE_PARTS] = {{0}, {0}};
    if (!comm || !seconds) return luo_err_nomem(s->err);
    for (int32_t i = 0; i < role->ninstr; i++) LUO_TRY(talk(s, program, &role->instr[i], &comm[i]));
    LUO_TRY(luo_cost_role(s->arena, &s->cost, program->device, role, comm, seconds, s->err));
    for (int32_t i = 0; i < role->ninstr; i++) {
        const luo_instr *in = &role->instr[i];
        const luo_moe_part part = part_of(&s->set->ops[in->op]);
        if (part < LUO_MOE_PARTS && luo_phase_in_task(in->phase))
            sum[luo_phase_is_backward(in->phase)][part] += seconds[i] + comm[i].seconds;
    }
    for (int k = 0; k < 2 * LUO_MOE_PARTS; k++) {
        double *at = &out->seconds[k / LUO_MOE_PARTS][k % LUO_MOE_PARTS];
        *at = fmax(*at, sum[k / LUO_MOE_PARTS][k % LUO_MOE_PARTS]);
    }
    return LUO_OK;
}

static luo_status layer_of(luo_arena *arena, const luo_moe_layer_in *in, luo_moe_layer *out,
                           luo_err *err)
{
    luo_plan plan;
    luo_programs *set;
    luo_model model = *in->model;
    const luo_expert_load load = {.exponent = in->exponent};
    const luo_compile_opts opts = {.unnamed = true,
                                   .bucket = in->stack->bucket,
                                   .memory = luo_stack_memory(in->stack),
                                   .load = &load};
    model.layers = 1;
    model.moe.first_dense_layers = 0;
    model.moe.every_layers = 1;
    LUO_TRY(make_plan(arena, in, &plan, err));
    LUO_TRY(luo_plan_compile(arena, &plan, &model, in->cluster, &opts, &set, err));
    const summing s = {arena,
                       {.cluster = in->cluster,
                        .stack = in->stack,
                        .dtype = in->dtype,
                        .nops = set->nops,
                        .ops = set->ops},
                       set,
                       err};
    for (int32_t i = 0; i < set->n; i++) LUO_TRY(add_device(&s, &set->at[i], out));
    const int32_t experts = (int32_t)model.moe.experts;
    int64_t *counts = LUO_NEW_N(arena, int64_t, experts);
    if (!counts) return luo_err_nomem(err);
    const luo_gate gate = luo_model_gate(&model);
    LUO_TRY(
        luo_load_layer(arena, &load, 0, &gate, in->tokens * in->devices, in->devices, counts, err));
    LUO_TRY(luo_load_imbalance(arena, counts, experts, experts, NULL, &out->expert_ratio, err));
    return luo_load_imbalance(arena, counts, experts, in->devices, NULL, &out->device_ratio, err);
}

luo_status luo_moe_layer_of(const luo_moe_layer_in *in, luo_moe_layer *out, luo_err *err)
{
    if (in->devices > in->model->moe.experts)
        return luo_err_set(err, LUO_EINPUT,
                           "%d devices cannot have %lld experts among them; at most as many "
                           "devices as experts are expected.",
                           (int)in->devices, (long long)in->model->moe.experts);
    luo_arena *arena = luo_arena_new(0);
    luo_moe_layer made = {.expert_ratio = 1};
    if (!arena) return luo_err_nomem(err);
    const luo_status st = layer_of(arena, in, &made, err);
    if (st == LUO_OK) *out = made;
    luo_arena_free(arena);
    return st;
}
