/* dense.c: planner `hap` on the dense part. */
#include "core/run/tables/dense.h"

#include <math.h>
#include <string.h>

#include "core/base/str.h"
#include "core/plan/hap/hap_cluster.h"
#include "core/plan/hap_graph/share.h"
#include "core/run/tables/step.h"

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})
#define IN(...) ((const int32_t[]){__VA_ARGS__})

const char *tables_layer_name(luo_arena *arena, int32_t layer, int32_t bottom)
{
    const bool below = layer < bottom;
    return luo_arena_printf(arena, "%s.%d", below ? "bottom_mlp" : "mlp",
                            (int)(below ? layer : layer - bottom));
}

/* ---- the graph ---- */

typedef struct net {
    luo_hap_graph *g;
    luo_arena *arena;
    luo_dense_layer layer[LUO_DENSE_LAYERS];
    int32_t layers, bottom;
    int64_t batch;
} net;

static const char *part_of(const net *n, int32_t layer, const char *tail)
{
    const char *name = tables_layer_name(n->arena, layer, n->bottom);
    const char *text = luo_arena_printf(n->arena, "%s%s", name ? name : "", tail);
    return text ? text : ""; /* what is added next has no room either */
}

static int32_t op(const net *n, luo_hap_kind kind, const char *name, const char *signature,
                  const char *whole, const int64_t *sizes, const int32_t *in)
{
    return luo_hap_graph_op(n->g, kind, name, signature, whole, sizes, in, &name);
}

static int32_t add_layer(const net *n, int32_t i, int32_t x)
{
    const luo_dense_layer *layer = &n->layer[i];
    const int32_t w = luo_hap_graph_leaf(n->g, part_of(n, i, ".weight"), LUO_HAP_PARAM, false, 2,
                                         DIMS(layer->in, layer->out));
    const int32_t v =
        luo_hap_graph_leaf(n->g, part_of(n, i, ".bias"), LUO_HAP_PARAM, false, 1, DIMS(layer->out));
    const int32_t y =
        op(n, LUO_HAP_LINEAR, part_of(n, i, ""), "bi,io,o->bo", "", NULL, IN(x, w, v));
    const char *name = part_of(n, i, ".activation");
    if (i + 1 < n->layers) return op(n, LUO_HAP_UNARY, name, "bo->bo", "", NULL, IN(y));
    const int32_t clicked =
        luo_hap_graph_leaf(n->g, "clicked", LUO_HAP_INPUT, true, 1, DIMS(n->batch));
    return op(n, LUO_HAP_LOSS, name, "bo,b->", "", NULL, IN(y, clicked));
}

/* Rows of the samples are read, and behind backward their gradients are written. */
static int32_t add_rows(const net *n, const luo_model *model)
{
    const luo_features *features = &model->features;
    int32_t x;
    if (n->bottom > 0)
        x = op(n, LUO_HAP_UNARY, "rows.read", "bsm->bsm", "sm", NULL,
               IN(luo_hap_graph_leaf(n->g, "rows", LUO_HAP_INPUT, false, 3,
                                     DIMS(n->batch, features->slots, features->width))));
    else
        x = op(n, LUO_HAP_UNARY, "rows.read", "bi->bi", "i", NULL,
               IN(luo_hap_graph_leaf(n->g, "rows", LUO_HAP_INPUT, false, 2,
                                     DIMS(n->batch, n->layer[0].in))));
    if (x >= 0)
        n->g->op[n->g->nops - 1].forward = n->g->op[n->g->nops - 1].backward[0] =
            tables_embedding_bytes(model, n->batch);
    return x;
}

luo_hap_graph *tables_dense_graph(luo_arena *arena, const luo_model *model, int64_t batch)
{
    net n = {luo_hap_graph_new(arena, luo_dtype_bytes(model->dtype)), arena, .batch = batch};
    if (!n.g) return NULL;
    n.layers = luo_model_dense_layers(model, n.layer, &n.bottom);
    int32_t x = n.bottom == 0 ? TABLES_NONE
                              : luo_hap_graph_leaf(n.g, "numbers", LUO_HAP_INPUT, false, 2,
                                                   DIMS(batch, n.layer[0].in));
    for (int32_t i = 0; i < n.bottom; i++) x = add_layer(&n, i, x);
    const int32_t rows = add_rows(&n, model);
    x = n.bottom == 0 ? rows
                      : op(&n, LUO_HAP_INTERACTION, "interaction", "bm,bsm->bp", "msp",
                           DIMS(n.layer[n.bottom].in), IN(x, rows));
    for (int32_t i = n.bottom; i < n.layers; i++) x = add_layer(&n, i, x);
    return n.g;
}

int32_t tables_dense_op(int32_t layer, int32_t bottom)
{
    if (layer < bottom) return 2 * layer;
    return 2 * layer + (bottom > 0 ? 2 : 1);
}

/* ---- what was answered ---- */

static tables_cut cut_of(const luo_hap_program *program, int32_t o)
{
    const luo_hap_triple *triple = &program->space->triple[program->choice[o]];
    tables_cut cut = {.rule = program->space->rule[o][triple->rule]};
    memcpy(cut.take, triple->take, sizeof cut.take);
    return cut;
}

typedef struct pieces {
    const tables_layout *l;
    int64_t *weight, *length; /* in the order of planner `hap` */
    int32_t *worker;          /* .. who is it */
} pieces;

static luo_status weigh(luo_arena *arena, const tables_layout *layout,
                        const luo_hap_devices *devices, const double *shares, pieces *out,
                        luo_err *err)
{
    int64_t of_type[LUO_HAP_TYPES];
    *out = (pieces){layout, LUO_NEW_N(arena, int64_t, layout->n),
                    LUO_NEW_N(arena, int64_t, layout->n), LUO_NEW_N(arena, int32_t, layout->n)};
    if (!out->weight || !out->length || !out->worker) return luo_err_nomem(err);
    LUO_TRY(luo_share_snap(shares, devices->ntypes, of_type, err));
    for (int32_t t = 0, at = 0; t < devices->ntypes; t++)
        for (int32_t k = 0, w = 0; k < devices->count[t]; k++, at++) {
            while (layout->dev[w] != devices->device[at]) w++;
            out->weight[at] = of_type[t];
            out->worker[at] = w;
        }
    return LUO_OK;
}

/* *out = lengths of the pieces of an extent, by worker. */
static luo_status lengths_of(luo_arena *arena, const pieces *p, int64_t extent, int64_t **out,
                             luo_err *err)
{
    *out = LUO_NEW_N(arena, int64_t, p->l->n);
    if (!*out) return luo_err_nomem(err);
    LUO_TRY(luo_share_round(extent, p->weight, p->l->n, p->length, err));
    for (int32_t i = 0; i < p->l->n; i++) (*out)[p->worker[i]] = p->length[i];
    return LUO_OK;
}

static luo_status read_answer(luo_arena *arena, const tables_layout *layout,
                              const luo_hap_devices *devices, const luo_hap_result *result,
                              tables_dense *out, luo_err *err)
{
    luo_dense_layer layer[LUO_DENSE_LAYERS];
    int32_t bottom;
    const int32_t layers = luo_model_dense_layers(layout->model, layer, &bottom);
    pieces p;
    *out = (tables_dense){0};
    LUO_TRY(weigh(arena, layout, devices, result->shares, &p, err));
    for (int32_t i = 0; i < layers; i++) {
        const int32_t o = tables_dense_op(i, bottom);
        out->product[i] = cut_of(result->program, o);
        out->activation[i] = cut_of(result->program, o + 1);
        LUO_TRY(lengths_of(arena, &p, layer[i].in, &out->in[i], err));
        LUO_TRY(lengths_of(arena, &p, layer[i].out, &out->out[i], err));
    }
    if (bottom > 0) out->meets = cut_of(result->program, 2 * bottom + 1).take[0];
    LUO_TRY(lengths_of(arena, &p, layout->in->batch, &out->samples, err));
    return LUO_OK;
}

/* ---- asking ---- */

/* Only where the samples are: rows, and what they meet. */
static char *letters_of(luo_arena *arena, const luo_hap_graph *graph)
{
    char *letter = LUO_NEW_N(arena, char, graph->nops);
    for (int32_t o = 0; letter && o < graph->nops; o++)
        if (strchr(graph->op[o].whole, 'i') || strchr(graph->op[o].whole, 'm'))
            letter[o] = TABLES_B;
    return letter;
}

/* Room that rows leave where every device has as many, which no way undercuts on all devices. */
static void leave_rows(const tables_layout *layout, luo_hap_numbers *numbers)
{
    const int64_t rows = (layout->model->features.rows + layout->n - 1) / layout->n;
    const double bytes = 4.0 * (double)rows * (double)luo_model_row_width(layout->model);
    for (int32_t t = 0; t < numbers->ntypes; t++)
        if (numbers->memory_bytes[t] > 0)
            numbers->memory_bytes[t] = fmax(1, numbers->memory_bytes[t] - bytes);
}

luo_status tables_dense_ask(luo_arena *arena, const tables_layout *layout, const luo_hap_job *job,
                            tables_dense *out, luo_hap_result **result, luo_err *err)
{
    const luo_judge *judge = layout->in->judge;
    const luo_cost_ctx ctx = {
        .cluster = judge->cluster, .stack = judge->stack, .dtype = layout->model->dtype};
    luo_hap_graph *graph = tables_dense_graph(arena, layout->model, layout->in->batch);
    luo_hap_job own = *job;
    luo_hap_devices devices;
    luo_hap_numbers numbers;
    luo_hap_result *answer;
    if (!graph) return luo_err_nomem(err);
    if (luo_hap_graph_check(graph, err) != LUO_OK)
        return luo_err_set(err, LUO_EBUG, "the graph of the dense part is none; report it.");
    own.opts.op_letter = letters_of(arena, graph);
    if (!own.opts.op_letter) return luo_err_nomem(err);
    LUO_TRY(luo_hap_devices_of(arena, judge->cluster, layout->dev, layout->n, layout->in->rate,
                               &devices, err));
    LUO_TRY(luo_hap_cluster_numbers(arena, graph, &ctx, &devices, &numbers, err));
    leave_rows(layout, &numbers);
    LUO_TRY(luo_hap_alternate(arena, graph, &numbers, &own, &answer, err));
    if (result) *result = answer;
    return read_answer(arena, layout, &devices, answer, out, err);
}

/* ---- data-parallel ---- */

void tables_dense_parallel(tables_dense *out)
{
    const luo_rel rows = {.kind = LUO_REL_G}, sum = {.kind = LUO_REL_R};
    const luo_hap_take kept = {LUO_HAP_HOW_KEPT, rows, rows}, reduced = {.how = LUO_HAP_HOW_AR};
    const luo_hap_rule rule = {
        .letter = TABLES_B, .in = {rows}, .out = {rows}, .grad = {rows, sum, sum}};
    *out = (tables_dense){.meets = kept};
    for (int32_t i = 0; i < LUO_DENSE_LAYERS; i++) {
        out->product[i] = (tables_cut){rule, {kept, reduced, reduced}};
        out->activation[i] = (tables_cut){rule, {kept}};
    }
}

static bool is_kept(const luo_hap_take *take)
{
    return take->how == LUO_HAP_HOW_KEPT || take->how == LUO_HAP_HOW_INPUT;
}

static bool layer_is_parallel(const tables_dense *dense, int32_t i)
{
    const tables_cut *p = &dense->product[i], *a = &dense->activation[i];
    return p->rule.letter == TABLES_B && a->rule.letter == TABLES_B && is_kept(&p->take[0]) &&
           is_kept(&a->take[0]) && p->take[1].how == LUO_HAP_HOW_AR &&
           p->take[2].how == LUO_HAP_HOW_AR;
}

bool tables_dense_is_parallel(const tables_dense *dense, int32_t layers)
{
    bool all = is_kept(&dense->meets);
    for (int32_t i = 0; i < layers; i++) all = all && layer_is_parallel(dense, i);
    return all;
}

/* ---- text ---- */

static const char *cut_text(const tables_cut *product)
{
    switch (product->rule.letter) {
    case TABLES_I:
        return "by inputs";
    case TABLES_O:
        return "by outputs";
    case TABLES_B:
        return product->take[1].how == LUO_HAP_HOW_FACTORS ? "by samples with sufficient factors"
               : product->take[1].how == LUO_HAP_HOW_ZERO  ? "by samples, weights in pieces"
                                                           : "by samples";
    }
    return "whole on every device";
}

const char *tables_dense_text(luo_arena *arena, const luo_model *model, const tables_dense *dense)
{
    luo_dense_layer layer[LUO_DENSE_LAYERS];
    int32_t bottom;
    const int32_t layers = luo_model_dense_layers(model, layer, &bottom);
    luo_str text = {0};
    for (int32_t i = 0; i < layers; i++) {
        const char *name = tables_layer_name(arena, i, bottom);
        if (layer_is_parallel(dense, i)) continue;
        luo_str_addf(&text, "%s%s %s", *luo_str_get(&text) ? ", " : "", name ? name : "",
                     cut_text(&dense->product[i]));
    }
    const char *copy = text.failed ? NULL : luo_arena_strdup(arena, luo_str_get(&text));
    luo_str_free(&text);
    return copy;
}
