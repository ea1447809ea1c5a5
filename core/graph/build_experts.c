/* build_experts.c: the feed-forward of a layer with experts: route, pack, products of every expert,
 * combine. Dealt experts have an exchange before and behind their products. */
#include <stdio.h>
#include <string.h>

#include "core/graph/build_internal.h"

/* A Reshard of rows or of their counts between the devices of tokens and those of experts. Counts
 * stand for themselves. */
static int32_t exchange(luo_builder *builder, const char *name, int32_t x, const int32_t counts[2],
                        luo_form form)
{
    const int32_t in[3] = {x, counts[0], counts[1]};
    const char *letters = builder->g->failed ? "" : builder->g->tensor[x].letters;
    const int64_t bytes = builder->g->failed ? 0 : builder->g->tensor[x].elem_bytes;
    const int32_t y = luo_build_op1(builder, LUO_OP_RESHARD, name, letters, 3, in);
    luo_build_give(builder, y, form);
    if (!builder->g->failed) builder->g->tensor[y].elem_bytes = bytes;
    return y;
}

static int32_t statistic(luo_builder *builder, const char *name, const char *letters)
{
    const int32_t x = luo_build_value(builder, name, letters);
    if (!builder->g->failed) builder->g->tensor[x].elem_bytes = builder->g->sum_bytes;
    return x;
}

/* By the ids of tokens, which x only says the place of: no router and no weights. */
static void route_by_hash(luo_builder *builder, int32_t x, int32_t out[2])
{
    out[0] = -1;
    out[1] = statistic(builder, "moe.ids", "tk");
    luo_build_op(builder, LUO_OP_ROUTE, "moe.route", &x, 1, &out[1], 1);
}

/* Equally many tokens of a pipeline's micro-batch for every expert: all its devices know all
 * logits, and find the same for all of them. */
static void route_balanced(luo_builder *builder, int32_t logits, int32_t out[2])
{
    const int32_t by[2] = {logits,
                           luo_build_reshard(builder, "moe.logits.all", logits, LUO_FORM_LOAD)};
    const int32_t made[3] = {statistic(builder, "moe.weights", "tk"),
                             statistic(builder, "moe.ids", "tk"),
                             statistic(builder, "moe.probabilities", "te")};
    luo_build_op(builder, LUO_OP_ROUTE, "moe.route", by, 2, made, 3);
    out[0] = made[0];
    out[1] = made[1];
}

/* Weights and ids of every token's choices: out[0], -1 if all of them are 1, and out[1]. */
static void route(luo_builder *builder, int32_t x, int32_t out[2])
{
    if (!luo_model_has_router(builder->m)) {
        route_by_hash(builder, x, out);
        return;
    }
    const int32_t logits = statistic(builder, "moe.logits", "te");
    const int32_t in[2] = {x, luo_build_param(builder, "moe.router.weight", "eh", LUO_FORM_DUP)};
    luo_build_op(builder, LUO_OP_MATMUL, "moe.logits", in, 2, &logits, 1);
    if (builder->m->moe.gate == LUO_GATE_BALANCED) {
        route_balanced(builder, logits, out);
        return;
    }
    const bool balances = builder->m->moe.aux_loss > 0 && builder->m->moe.gate != LUO_GATE_SAM;
    const bool learns = builder->m->moe.bias_rate > 0;
    const bool counts = balances || learns;
    const int32_t by[2] = {logits, learns ? luo_build_counted(builder, "moe.router.bias", "e") : 0};
    const int32_t made[4] = {statistic(builder, "moe.weights", "tk"),
                             statistic(builder, "moe.ids", "tk"),
                             statistic(builder, "moe.probabilities", "te"),
                             counts ? statistic(builder, "moe.load", "ze") : 0};
    luo_build_op(builder, LUO_OP_ROUTE, "moe.route", by, learns ? 2 : 1, made, counts ? 4 : 3);
    if (balances) luo_build_reshard(builder, "moe.load.all", made[3], LUO_FORM_LOAD);
    out[0] = made[0];
    out[1] = made[1];
}

/* Products of every expert with its rows, for several weights at once. */
static void group(luo_builder *builder, const char *name, int32_t rows, int32_t counts,
                  const char *const *weights, const char *letters, int32_t n, int32_t *y)
{
    int32_t in[4] = {rows, counts};
    char text[64];
    for (int32_t j = 0; j < n; j++) {
        snprintf(text, sizeof text, "%s.weight", weights[j]);
        in[2 + j] = luo_build_param(builder, text, "ewh", LUO_FORM_EXPERTS);
    }
    for (int32_t j = 0; j < n; j++) y[j] = luo_build_value(builder, weights[j], letters);
    luo_build_op(builder, LUO_OP_GROUPED, name, in, 2 + n, y, n);
}

static int32_t experts(luo_builder *builder, int32_t rows, int32_t counts)
{
    static const char *const in[2] = {"moe.gate", "moe.up"}, *const down[1] = {"moe.down"};
    const bool gated = luo_model_is_gated(builder->m);
    int32_t y[2];
    if (gated)
        group(builder, "moe.gate_up", rows, counts, in, "erw", 2, y);
    else
        group(builder, "moe.up", rows, counts, in + 1, "erw", 1, y);
    const int32_t a[3] = {y[0], gated ? y[1] : counts, counts};
    const int32_t act[2] = {luo_build_value(builder, "moe.act", "erw"),
                            gated ? luo_build_value(builder, "moe.act.silu", "erw") : 0};
    luo_build_op(builder, LUO_OP_ROWS_ACTIVATION, "moe.act", a, gated ? 3 : 2, act, gated ? 2 : 1);
    group(builder, "moe.down", act[0], counts, down, "erh", 1, y);
    return y[0];
}

/* The experts that every token meets, as one that is as wide as all. */
static int32_t shared_experts(luo_builder *builder, int32_t whole)
{
    const bool gated = luo_model_is_gated(builder->m);
    const luo_projection in[2] = {{"moe.shared.gate", "sh", "ts", LUO_FORM_CUT, LUO_FORM_NONE},
                                  {"moe.shared.up", "sh", "ts", LUO_FORM_CUT, LUO_FORM_NONE}};
    const luo_projection down = {"moe.shared.down", "sh", "th", LUO_FORM_CUT, LUO_FORM_NONE};
    int32_t y[2];
    if (gated)
        luo_build_project(builder, "moe.shared.gate_up", whole, in, 2, y);
    else
        luo_build_project(builder, "moe.shared.up", whole, in + 1, 1, y);
    const int32_t act[2] = {luo_build_value(builder, "moe.shared.act", "ts"),
                            gated ? luo_build_value(builder, "moe.shared.act.silu", "ts") : 0};
    luo_build_op(builder, LUO_OP_ACTIVATION, "moe.shared.act", y, gated ? 2 : 1, act,
                 gated ? 2 : 1);
    luo_build_project(builder, "moe.shared.down", act[0], &down, 1, y);
    return y[0];
}

/* Experts that are cut: every device of the member has all rows. Sums over columns stay Partial
 * until tokens are put together; so do gradients of the weights of choices. */
static int32_t cut_experts(luo_builder *builder, int32_t n, int32_t whole)
{
    int32_t choice[2];
    const bool learns = luo_model_has_router(builder->m); /* else every device knows all choices */
    route(builder, learns ? n : whole, choice);
    if (learns) {
        choice[0] = luo_build_reshard(builder, "moe.weights.whole", choice[0], LUO_FORM_WHOLE);
        choice[1] = luo_build_reshard(builder, "moe.ids.whole", choice[1], LUO_FORM_WHOLE);
    }
    const int32_t packing[2] = {whole, choice[1]};
    const int32_t packed[2] = {luo_build_value(builder, "moe.pack", "erh"),
                               statistic(builder, "moe.counts", "ze")};
    luo_build_op(builder, LUO_OP_PACK, "moe.pack", packing, 2, packed, 2);
    const int32_t in[3] = {experts(builder, packed[0], packed[1]), choice[1], choice[0]};
    return luo_build_op1(builder, LUO_OP_COMBINE, "moe.combine", "th", choice[0] < 0 ? 2 : 3, in);
}

/* Experts that are dealt: every device sends rows of its own tokens, and gets them back. */
static int32_t dealt_experts(luo_builder *builder, int32_t n)
{
    int32_t choice[2], counts[2] = {0};
    const int32_t own = luo_build_reshard(builder, "moe.in", n, LUO_FORM_ROUTED);
    route(builder, own, choice);
    const int32_t packing[2] = {own, choice[1]};
    const int32_t packed[2] = {luo_build_value(builder, "moe.pack", "erh"),
                               statistic(builder, "moe.counts", "ze")};
    luo_build_op(builder, LUO_OP_PACK, "moe.pack", packing, 2, packed, 2);
    counts[0] = packed[1];
    counts[1] = counts[0];
    counts[1] = exchange(builder, "moe.counts.there", packed[1], counts, LUO_FORM_COUNTS);
    const int32_t rows = exchange(builder, "moe.dispatch", packed[0], counts, LUO_FORM_ROWS);
    const int32_t made = experts(builder, rows, counts[1]);
    const int32_t in[3] = {exchange(builder, "moe.return", made, counts, LUO_FORM_ROWS_HOME),
                           choice[1], choice[0]};
    return luo_build_op1(builder, LUO_OP_COMBINE, "moe.combine", "th", choice[0] < 0 ? 2 : 3, in);
}

/* What shared experts give of a token, times the sigmoid of a product of its own. */
static int32_t gate_shared(luo_builder *builder, int32_t n, int32_t y)
{
    const int32_t by[2] = {n,
                           luo_build_param(builder, "moe.shared_gate.weight", "oh", LUO_FORM_DUP)};
    const int32_t in[2] = {statistic(builder, "moe.shared_gate", "to"), y};
    luo_build_op(builder, LUO_OP_MATMUL, "moe.shared_gate", by, 2, in, 1);
    return luo_build_op1(builder, LUO_OP_TOKEN_GATE, "moe.shared.gated", "th", 2, in);
}

int32_t luo_build_mixture(luo_builder *builder, int32_t x)
{
    const bool dealt = builder->opts->dealt && builder->opts->dealt[builder->layer];
    const bool shared = builder->m->moe.shared_experts > 0;
    builder->g->size['z' - 'a'] =
        builder->opts->sources ? builder->opts->sources[builder->layer] : 1;
    const int32_t n = luo_build_norm(builder, "norm2", "th", x);
    const int32_t whole =
        shared || !dealt ? luo_build_reshard(builder, "moe.gather", n, LUO_FORM_WHOLE) : n;
    int32_t sum[3] = {x, dealt ? dealt_experts(builder, n) : cut_experts(builder, n, whole), 0};
    if (shared) sum[2] = shared_experts(builder, whole);
    sum[1] = luo_build_reshard(builder, "moe.reduce", sum[1], LUO_FORM_X);
    if (shared) sum[2] = luo_build_reshard(builder, "moe.shared.reduce", sum[2], LUO_FORM_X);
    if (builder->m->moe.shared_gate) sum[2] = gate_shared(builder, n, sum[2]);
    return luo_build_op1(builder, LUO_OP_ADD, "moe.add", "th", shared ? 3 : 2, sum);
}
