/* annotated.c: plans that say of every tensor where it lies. */
#include "core/plan/annotated.h"

#include <stdio.h>
#include <string.h>

#include "core/hspmd/bounds.h"

typedef struct moved { /* a tensor as it was moved for some operation */
    int32_t tensor;
    const luo_plan_annotation *by;
    struct moved *next;
} moved;

typedef struct matching {
    luo_graph *graph;
    const luo_plan *plan;
    luo_err *err;
    luo_arena *scratch;
    int32_t
        *root;    /* by tensor: the one the plan speaks of: Reshards and biases leave it the same */
    moved **ways; /* by root */
    bool *used;   /* by annotation */
    bool *factors; /* by tensor, as in luo_graph */
} matching;

/* ---- annotations of the plan ---- */

static const luo_plan_annotation *entry_of(const luo_plan *plan, const char *tensor, const char *at)
{
    for (int32_t i = 0; i < plan->nannotations; i++)
        if (strcmp(plan->annotations[i].tensor, tensor) == 0 &&
            strcmp(plan->annotations[i].at, at) == 0)
            return &plan->annotations[i];
    return NULL;
}

bool luo_plan_is_annotated(const luo_plan *plan)
{
    return plan->npipelines == 1 && plan->pipelines[0].nstages == 1 && plan->nannotations >= 4 &&
           entry_of(plan, "ids", "") && entry_of(plan, "wte.weight", "") &&
           entry_of(plan, "labels", "") && entry_of(plan, "loss", "");
}

/* The entry that moves a tensor, whatever for; NULL: none does. */
static const luo_plan_annotation *move_of(const luo_plan *plan, const char *tensor)
{
    for (int32_t i = 0; i < plan->nannotations; i++)
        if (plan->annotations[i].at[0] && strcmp(plan->annotations[i].tensor, tensor) == 0)
            return &plan->annotations[i];
    return NULL;
}

/* The entry that moves the rows of a layer to their experts; NULL: none does. */
static const luo_plan_annotation *dispatch_of(const luo_plan *plan, int32_t layer)
{
    char name[64];
    snprintf(name, sizeof name, "layers.%d.moe.pack", (int)layer);
    return move_of(plan, name);
}

luo_status luo_plan_annotated_opts(luo_arena *arena, const luo_plan *plan, const luo_model *model,
                                   luo_build_opts *out, luo_err *err)
{
    if (model->moe.experts == 0) return LUO_OK;
    bool *dealt = LUO_NEW_N(arena, bool, model->layers);
    int32_t *sources = LUO_NEW_N(arena, int32_t, model->layers);
    if (!dealt || !sources) return luo_err_nomem(err);
    for (int32_t l = 0; l < (int32_t)model->layers; l++) {
        dealt[l] = dispatch_of(plan, l) != NULL;
        sources[l] = plan->pipelines[0].stages[0].ndev;
    }
    out->dealt = dealt;
    out->sources = sources;
    return LUO_OK;
}

luo_status luo_plan_annotated_rows(luo_arena *arena, const luo_plan *plan, int32_t layer,
                                   const luo_grp **out, luo_err *err)
{
    const luo_plan_annotation *annotation = dispatch_of(plan, layer);
    const luo_ann *ann;
    *out = NULL;
    if (!annotation) return LUO_OK;
    LUO_TRY(luo_ann_parse(arena, annotation->annotation, &ann, err));
    *out = &ann->grp[0];
    return LUO_OK;
}

static luo_status in_entry(const matching *m, const luo_plan_annotation *annotation, luo_status st)
{
    return luo_err_part(m->err, st, "/annotations/%d", (int)(annotation - m->plan->annotations));
}

/* Pieces of a micro-batch are whole sequences: attention reads all of one. */
static bool cuts_sequences(const matching *m, const luo_ann *ann)
{
    const luo_grp *grp = &ann->grp[0];
    const int32_t n = luo_grp_count(grp, 0);
    const int64_t tokens = m->plan->sequence_tokens;
    const size_t mark = luo_arena_mark(m->scratch);
    int64_t *bound = LUO_NEW_N(m->scratch, int64_t, (int64_t)n + 1);
    bool cuts = false;
    if (!bound) return false; /* the next allocation says it */
    luo_bounds_cut(m->plan->pipelines[0].micro_batch_sequences * tokens, n, luo_grp_share(grp, 0),
                   bound);
    for (int32_t i = 0; i <= n; i++) cuts |= bound[i] % tokens != 0;
    luo_arena_reset(m->scratch, mark);
    return cuts;
}

/* How its Reshard may be carried out. */
static luo_status check_variant(const matching *m, const luo_plan_annotation *annotation)
{
    static const char *const words[] = {LUO_MOVE_VARIANT_LIST(LUO_WORD_TEXT)};
    const bool gradient = strncmp(annotation->tensor, "d.", 2) == 0;
    for (int k = 0; k < (gradient ? LUO_MOVE_VARIANTS : LUO_MOVE_FACTORS); k++)
        if (strcmp(annotation->variant, words[k]) == 0) return LUO_OK;
    return luo_err_set(m->err, LUO_EINPUT,
                       "annotation of `%s`: variant `%s` is not compiled; auto, padded or grouped "
                       "is expected, or `factors` of the gradient of a weight.",
                       annotation->tensor, annotation->variant);
}

static luo_status check_entry(const matching *m, const luo_plan_annotation *annotation,
                              const luo_ann *ann, const luo_tensor *tensor)
{
    const luo_stage *stage = &m->plan->pipelines[0].stages[0];
    const luo_grp *grp = &ann->grp[0];
    const luo_shape shape = {.rank = tensor->rank};
    LUO_TRY(check_variant(m, annotation));
    if (ann->u != 1 || grp->nent > 1 || grp->ndev != stage->ndev ||
        memcmp(grp->dev, stage->dev, (size_t)stage->ndev * sizeof *stage->dev) != 0)
        return luo_err_set(m->err, LUO_EINPUT,
                           "annotation of `%s`: one group of the devices of the stage, in their "
                           "order, with one key is expected where every tensor is annotated.",
                           annotation->tensor);
    LUO_TRY(luo_ann_bind(ann, &shape, LUO_BIND_ROUND, annotation->tensor, m->err));
    if (tensor->letters[0] != 't' || !cuts_sequences(m, ann)) return LUO_OK;
    return luo_err_set(m->err, LUO_EINPUT,
                       "annotation of `%s`: %s parts a sequence of the %d; shares that give whole "
                       "sequences are expected.",
                       annotation->tensor, annotation->annotation,
                       (int)m->plan->pipelines[0].micro_batch_sequences);
}

static luo_status read_entry(matching *m, const luo_plan_annotation *annotation,
                             const luo_tensor *tensor, int32_t *id)
{
    const luo_ann *ann;
    m->used[annotation - m->plan->annotations] = true;
    const luo_status st = luo_ann_parse(m->graph->arena, annotation->annotation, &ann, m->err);
    if (st != LUO_OK)
        return in_entry(m, annotation, luo_err_prefix(m->err, st, "`%s`", annotation->tensor));
    LUO_TRY(in_entry(m, annotation, check_entry(m, annotation, ann, tensor)));
    return luo_annset_add(m->graph->set, ann, id, m->err);
}

/* What the plan says of tensor x. */
static luo_status said(matching *m, int32_t x, int32_t *id)
{
    const luo_tensor *tensor = &m->graph->tensor[x];
    const char *name = m->graph->tensor[m->root[x]].name;
    const luo_plan_annotation *annotation = entry_of(m->plan, name, "");
    if (annotation) return read_entry(m, annotation, tensor, id);
    return luo_err_set(
        m->err, LUO_EINPUT,
        "the plan annotates ids, labels and loss, so every tensor needs an "
                       "annotation; `%s` has none.",
                       name);
}

/* ---- rows of experts ---- */

/* How the plan calls the operation for which operand i of `op` is moved. */
static const char *called(const matching *m, const luo_op *op, int32_t i)
{
    const luo_graph *graph = m->graph;
    if (op->kind == LUO_OP_ROW_MAX || op->kind == LUO_OP_ROW_SUM || op->kind == LUO_OP_ROW_TARGET)
        return "loss";
    if (op->kind == LUO_OP_ROPE) return graph->tensor[op->out[i]].name;
    if (op->kind == LUO_OP_ROUTE) return op->name;
    if ((op->kind == LUO_OP_MATMUL || op->kind == LUO_OP_GROUPED) && op->nout > 1) return op->name;
    if (op->kind != LUO_OP_BIAS) return graph->tensor[op->out[0]].name;
    const luo_op *product = &graph->op[graph->tensor[m->root[op->in[0]]].op];
    return product->nout > 1 ? product->name : graph->tensor[m->root[op->in[0]]].name;
}

static luo_status remember(matching *m, int32_t x, int32_t root,
                           const luo_plan_annotation *annotation)
{
    moved *way = LUO_NEW(m->scratch, moved);
    if (!way) return luo_err_nomem(m->err);
    *way = (moved){x, annotation, m->ways[root]};
    m->ways[root] = way;
    m->root[x] = root;
    return LUO_OK;
}

/* The operation that reads tensor x first. Pre: one does. */
static const luo_op *reader_of(const luo_graph *graph, int32_t x, int32_t *operand)
{
    int32_t o = graph->tensor[x].op + 1;
    for (;; o++)
        for (*operand = 0; *operand < graph->op[o].nin; ++*operand)
            if (graph->op[o].in[*operand] == x) return &graph->op[o];
}

/* What the plan says of rows x where they are moved for the reader of y. */
static luo_status rows_moved(matching *m, int32_t x, int32_t y, const luo_plan_annotation **e,
                             int32_t *ann)
{
    int32_t i;
    const luo_op *reader = reader_of(m->graph, y, &i);
    const char *name = m->graph->tensor[x].name, *at = called(m, reader, i);
    *e = entry_of(m->plan, name, at);
    if (!*e)
        return luo_err_set(m->err, LUO_EINPUT,
                           "rows of experts go to their devices and come home; `%s` needs an "
                           "annotation at `%s`.",
                           name, at);
    return read_entry(m, *e, &m->graph->tensor[y], ann);
}

/* Pieces of dimension d, or one device. */
static bool is_cut(const matching *m, int32_t ann, int32_t d)
{
    const luo_grp *grp = &luo_annset_get(m->graph->set, ann)->grp[0];
    return grp->nent == 0 || (grp->nent == 1 && grp->ent[0].key == d);
}

static luo_status refuse_rows(const matching *m, const luo_plan_annotation *annotation)
{
    return in_entry(m, annotation,
                    luo_err_set(m->err, LUO_EINPUT,
                                "annotation of `%s`: rows go from pieces of tokens, dimension 1, "
                                "to pieces of experts, dimension 0, and back alone.",
                                annotation->tensor));
}

/* Counts of rows go where the rows do, by experts. */
static luo_status send_counts(matching *m, const luo_op *op)
{
    static const int32_t to[3] = {1, 1, 1};
    const luo_graph *graph = m->graph;
    const int32_t rows = graph->op[graph->tensor[op->in[0]].op].out[0];
    const luo_plan_annotation *annotation;
    int32_t i, there;
    const luo_op *dispatch = reader_of(graph, rows, &i);
    LUO_TRY(rows_moved(m, rows, dispatch->out[0], &annotation, &there));
    if (!is_cut(m, there, 0)) return refuse_rows(m, annotation);
    return luo_annset_rename(graph->set, there, to, &graph->tensor[op->out[0]].ann, m->err);
}

/* Rows go to the devices of their experts, and home. Each device sends what it has: of copies the
 * experts would get as many. */
static luo_status send_rows(matching *m, const luo_op *op)
{
    const int32_t x = op->in[0], y = op->out[0];
    const luo_plan_annotation *annotation;
    if (m->graph->tensor[x].letters[0] == 'z') return send_counts(m, op);
    const luo_op *maker = &m->graph->op[m->graph->tensor[x].op];
    const int32_t from = maker->kind == LUO_OP_PACK; /* else from their experts home */
    LUO_TRY(rows_moved(m, x, y, &annotation, &m->graph->tensor[y].ann));
    if (!is_cut(m, m->graph->tensor[x].ann, from) || !is_cut(m, m->graph->tensor[y].ann, !from))
        return refuse_rows(m, annotation);
    return remember(m, y, m->root[x], annotation);
}

/* All of a tensor on every device, whatever else the plan says: what a gate has to know together.
 */
static luo_status to_all(matching *m, int32_t y)
{
    const luo_stage *stage = &m->plan->pipelines[0].stages[0];
    const luo_ent copies = {LUO_DUP, stage->ndev, NULL};
    const luo_grp grp = {stage->ndev, stage->dev, stage->ndev > 1, &copies};
    const luo_ann all = {1, LUO_H_NONE, false, NULL, &grp};
    return luo_annset_add(m->graph->set, &all, &m->graph->tensor[y].ann, m->err);
}

/* ---- leaves and Reshards of the model ---- */

/* Numbers per token that are made of all parts of a row, and the loss of all tokens. */
static bool completes(const luo_graph *graph, int32_t x)
{
    const int32_t kind = graph->op[graph->tensor[x].op].kind;
    return kind == LUO_OP_ROW_MAX || kind == LUO_OP_ROW_SUM || kind == LUO_OP_ROW_TARGET ||
           kind == LUO_OP_ACCUMULATE;
}

static luo_status hand_on(matching *m, const luo_op *op)
{
    luo_graph *graph = m->graph;
    const int32_t x = op->in[0], y = op->out[0];
    if (op->nin > 1) return send_rows(m, op);
    if (graph->tensor[y].form == LUO_FORM_LOAD) return to_all(m, y);
    if (graph->tensor[y].kind == LUO_TENSOR_PARAM) {
        LUO_TRY(said(m, y, &graph->tensor[y].ann));
        graph->tensor[x].ann = graph->tensor[y].ann;
        return LUO_OK;
    }
    graph->tensor[y].ann = graph->tensor[x].ann;
    if (completes(graph, x))
        return luo_annset_complete(graph->set, graph->tensor[x].ann, &graph->tensor[y].ann, m->err);
    m->root[y] = m->root[x];
    return LUO_OK;
}

/* ---- operations ---- */

static uint8_t variant_in(const luo_plan_annotation *annotation)
{
    static const char *const words[] = {LUO_COLL_VARIANT_LIST(LUO_WORD_TEXT)};
    for (uint8_t k = 0; annotation && k < LUO_COLL_VARIANTS; k++)
        if (strcmp(annotation->variant, words[k]) == 0) return k;
    return LUO_COLL_AUTO; /* `factors` is of no Reshard */
}

/* How the gradient of a tensor that was moved by an entry is moved back: as that says which is
 * moved so, else as the gradient that it becomes a part of does. */
static luo_status variant_back(matching *m, const luo_plan_annotation *annotation, uint8_t *out)
{
    const char *home = luo_arena_printf(m->scratch, "d.%s", annotation->tensor);
    const char *there = luo_arena_printf(m->scratch, "d.%s@%s", annotation->tensor, annotation->at);
    if (!home || !there) return luo_err_nomem(m->err);
    const luo_plan_annotation *own = entry_of(m->plan, there, home);
    *out = variant_in(own ? own : entry_of(m->plan, home, ""));
    return LUO_OK;
}

/* A Reshard of the plan's in front of operation *o. */
static luo_status move(matching *m, int32_t *o, int32_t i, const luo_plan_annotation *annotation)
{
    luo_graph *graph = m->graph;
    const int32_t x = graph->op[*o].in[i], root = m->root[x];
    int32_t ann;
    LUO_TRY(read_entry(m, annotation, &graph->tensor[x], &ann));
    const int32_t y = luo_graph_insert_reshard(graph, *o, i);
    if (graph->failed) return luo_err_nomem(m->err);
    graph->tensor[y].ann = ann;
    if (graph->tensor[y].kind == LUO_TENSOR_PARAM) {
        graph->tensor[y].kind = LUO_TENSOR_FULL;
        graph->tensor[y].form = LUO_FORM_WHOLE; /* not kept: gathered again in backward */
    }
    graph->op[*o].variant = variant_in(annotation);
    LUO_TRY(variant_back(m, annotation, &graph->op[*o].variant_back));
    ++*o;
    return remember(m, y, root, annotation);
}

static luo_status replace(matching *m, int32_t o, int32_t i, int32_t x)
{
    luo_op *op = &m->graph->op[o];
    int32_t *in = LUO_NEW_N(m->graph->arena, int32_t, op->nin);
    if (!in) return luo_err_nomem(m->err);
    memcpy(in, op->in, (size_t)op->nin * sizeof *in);
    in[i] = x;
    op->in = in;
    return LUO_OK;
}

static luo_status move_operand(matching *m, int32_t *o, int32_t i, bool *settled)
{
    const luo_op *op = &m->graph->op[*o];
    const int32_t root = m->root[op->in[i]];
    const luo_plan_annotation *annotation =
        entry_of(m->plan, m->graph->tensor[root].name, called(m, op, i));
    *settled = annotation != NULL;
    if (!annotation) return LUO_OK;
    for (const moved *way = m->ways[root]; way; way = way->next)
        if (way->by == annotation) return replace(m, *o, i, way->tensor);
    return move(m, o, i, annotation);
}

/* Results that follow from the others: numbers per token and per expert, what a kernel keeps. */
static bool follows(const matching *m, const luo_op *op, int32_t k)
{
    const luo_tensor *tensor = &m->graph->tensor[op->out[k]];
    const int32_t kind = op->kind;
    const bool token = tensor->letters[0] == 't' && tensor->letters[1] == 0;
    if (token || kind == LUO_OP_SUM || op->out[k] == m->graph->exp) return true;
    if (kind == LUO_OP_ROUTE) return k > 1;
    return k > 0 && (kind == LUO_OP_ACTIVATION || kind == LUO_OP_ROWS_ACTIVATION ||
                     kind == LUO_OP_ATTENTION || kind == LUO_OP_PACK);
}

/* Are results as the plan says? What is complete may stand for partial sums of the loss. */
static luo_status agrees(matching *m, int32_t o, bool *good)
{
    luo_graph *graph = m->graph;
    const luo_op *op = &graph->op[o];
    *good = true;
    for (int32_t k = 0; k < op->nout && *good; k++) {
        const luo_tensor *tensor = &graph->tensor[op->out[k]];
        const bool loss = op->out[k] == graph->loss;
        if (follows(m, op, k)) continue;
        int32_t want, whole;
        LUO_TRY(said(m, op->out[k], &want));
        LUO_TRY(luo_annset_complete(graph->set, want, &whole, m->err));
        *good = tensor->ann == want || (loss && tensor->ann == whole);
    }
    return LUO_OK;
}

static luo_status refuse(const matching *m, int32_t o)
{
    const luo_op *op = &m->graph->op[o];
    luo_str text = {0};
    for (int32_t i = 0; i < op->nin; i++) {
        const luo_tensor *tensor = &m->graph->tensor[op->in[i]];
        luo_str_addf(&text, "%s`%s` as %s", i ? " with " : "",
                     m->graph->tensor[m->root[op->in[i]]].name,
                     luo_annset_text(m->graph->set, tensor->ann));
    }
    if (op->nout) {
        const char *name = m->graph->tensor[m->root[op->out[0]]].name;
        const luo_plan_annotation *annotation = entry_of(m->plan, name, "");
        luo_str_addf(&text, " to `%s` as %s", name, annotation ? annotation->annotation : "?");
    }
    const luo_status st =
        luo_err_set(m->err, LUO_EDEDUCE, "op `%s`: no rule takes %s; see `luoshu explain`.",
                    op->name, luo_str_get(&text));
    luo_str_free(&text);
    return st;
}

/* Tries the ways in which operands i.. lie, as made first. */
static luo_status try_ways(matching *m, int32_t o, int32_t i, const bool *settled, bool *good)
{
    luo_graph *graph = m->graph;
    if (i == graph->op[o].nin) {
        luo_err quiet = {0};
        const luo_status st = luo_graph_deduce_op(graph, o, &quiet);
        *good = st == LUO_OK;
        if (st == LUO_ENOMEM) return luo_err_nomem(m->err);
        return st == LUO_OK ? agrees(m, o, good) : LUO_OK;
    }
    const int32_t x = graph->op[o].in[i];
    LUO_TRY(try_ways(m, o, i + 1, settled, good));
    for (const moved *way = m->ways[m->root[x]]; way && !*good && !settled[i]; way = way->next) {
        LUO_TRY(replace(m, o, i, way->tensor));
        LUO_TRY(try_ways(m, o, i + 1, settled, good));
    }
    return *good ? LUO_OK : replace(m, o, i, x);
}

static luo_status compute(matching *m, int32_t *o)
{
    luo_graph *graph = m->graph;
    bool settled[8] = {false}, good;
    const int32_t nin = graph->op[*o].nin;
    if (nin > 8)
        return luo_err_set(m->err, LUO_EBUG, "`%s` has many operands.", graph->op[*o].name);
    if (graph->op[*o].kind == LUO_OP_BIAS)
        m->root[graph->op[*o].out[0]] = m->root[graph->op[*o].in[0]];
    for (int32_t i = 0; i < nin; i++) LUO_TRY(move_operand(m, o, i, &settled[i]));
    LUO_TRY(try_ways(m, *o, 0, settled, &good));
    return good ? LUO_OK : refuse(m, *o);
}

static luo_status visit(matching *m, int32_t *o)
{
    const luo_op *op = &m->graph->op[*o];
    if (op->kind == LUO_OP_PLACEHOLDER)
        return said(m, op->out[0], &m->graph->tensor[op->out[0]].ann);
    if (op->kind == LUO_OP_STATE) return LUO_OK;
    return op->kind == LUO_OP_RESHARD ? hand_on(m, op) : compute(m, o);
}

/* ---- the whole ---- */

/* Of the one product that reads the weight, which lies whole on every device. */
static luo_status check_factors(matching *m, const luo_plan_annotation *annotation, int32_t x)
{
    const luo_graph *graph = m->graph;
    const luo_ann *ann = luo_annset_get(graph->set, graph->tensor[x].ann);
    int32_t readers = 0;
    bool product = true;
    if (strcmp(annotation->variant, "factors") != 0) return LUO_OK;
    for (int32_t o = 0; o < graph->nops; o++)
        for (int32_t i = 0; i < graph->op[o].nin; i++) {
            if (graph->op[o].in[i] != x) continue;
            readers++;
            product &= graph->op[o].kind == LUO_OP_MATMUL;
        }
    m->factors[x] = true;
    if (readers == 1 && product && ann->grp[0].nent == 1 && ann->grp[0].ent[0].key == LUO_DUP)
        return LUO_OK;
    return luo_err_set(m->err, LUO_EINPUT,
                       "annotation of `%s`: variant `factors` is for copies of a weight that one "
                       "product reads; `auto` is expected.",
                       annotation->tensor);
}

/* Of which tensor an entry "d.T" or "d.T@O" is the gradient, and where: O has to read T, and `at`
 * to be empty, or d.T of a part of it that is moved there. */
static luo_status check_ends(const matching *m, const luo_plan_annotation *annotation,
                             const char *name, int32_t x)
{
    const luo_graph *graph = m->graph;
    const char *o = strchr(annotation->tensor, '@');
    bool reads = !o;
    for (int32_t i = 0; i < graph->nops && !reads; i++)
        for (int32_t k = 0; k < graph->op[i].nin && !reads; k++)
            reads =
                m->root[graph->op[i].in[k]] == x && strcmp(called(m, &graph->op[i], k), o + 1) == 0;
    if (!reads)
        return luo_err_set(m->err, LUO_EINPUT,
                           "the plan annotates `%s`, but no operation `%s` reads `%s`.",
                           annotation->tensor, o + 1, name);
    if (!annotation->at[0] ||
        (o && strncmp(annotation->at, "d.", 2) == 0 && strcmp(annotation->at + 2, name) == 0))
        return LUO_OK;
    return luo_err_set(m->err, LUO_EINPUT,
                       "annotation of `%s`: `at` is `%s`; nothing is expected%s%s%s.",
                       annotation->tensor, annotation->at, o ? ", or `d." : "", o ? name : "",
                       o ? "`, of which it becomes a part" : "");
}

/* Gradients lie as their tensors do: complete where those are partial sums, and the other way
 * round. */
static luo_status check_gradient(matching *m, const luo_plan_annotation *annotation)
{
    char name[256];
    const size_t n = strcspn(annotation->tensor + 2, "@");
    const luo_ann *ann;
    if (n < sizeof name) {
        memcpy(name, annotation->tensor + 2, n);
        name[n] = 0;
        const int32_t x = luo_graph_find(m->graph, name);
        if (x < 0)
            return luo_err_set(m->err, LUO_EINPUT,
                               "the plan annotates `%s`, but no tensor is called `%s`; "
                               "`luoshu explain` lists them.",
                               annotation->tensor, name);
        LUO_TRY(check_ends(m, annotation, name, x));
        LUO_TRY(luo_ann_parse(m->scratch, annotation->annotation, &ann, m->err));
        LUO_TRY(check_entry(m, annotation, ann, &m->graph->tensor[x]));
        LUO_TRY(check_factors(m, annotation, x));
    }
    m->used[annotation - m->plan->annotations] = true;
    return LUO_OK;
}

static luo_status check_rest(matching *m)
{
    for (int32_t i = 0; i < m->plan->nannotations; i++) {
        const luo_plan_annotation *annotation = &m->plan->annotations[i];
        if (strncmp(annotation->tensor, "d.", 2) == 0)
            LUO_TRY(in_entry(m, annotation, check_gradient(m, annotation)));
        if (m->used[i]) continue;
        const luo_status st =
            annotation->at[0]
                ? luo_err_set(m->err, LUO_EINPUT, "annotation of `%s`: no operation `%s` reads it.",
                              annotation->tensor, annotation->at)
                : luo_err_set(m->err, LUO_EINPUT,
                              "the plan annotates `%s`, but no tensor is called so; "
                              "`luoshu explain` lists them.",
                              annotation->tensor);
        return in_entry(m, annotation, st);
    }
    return LUO_OK;
}

/* Keys that say how derived annotations look, or that need them. */
static luo_status check_keys(const luo_plan *plan, luo_err *err)
{
    const luo_pipeline *pipe = &plan->pipelines[0];
    const char *key = plan->zero                             ? "zero"
                      : plan->sequence_parallel              ? "sequence_parallel"
                      : plan->state_layout.ndev              ? "state_layout"
                      : plan->nassignment                    ? "assignment"
                      : plan->ngroups                        ? "expert_groups"
                      : plan->expert_parallel                ? "expert_parallel"
                      : plan->moe_exchange                   ? "moe_exchange"
                      : pipe->stages[0].experts_dealt        ? "experts"
                      : pipe->micro_batch_tokens             ? "micro_batch_tokens"
                      : pipe->stages[0].context_parallel > 1 ? "context_parallel"
                      : pipe->stages[0].shares               ? "shares"
                                                             : NULL;
    if (!key) return LUO_OK;
    return luo_err_set(err, LUO_EINPUT,
                       "`%s` does not go with annotations of every tensor; leave it out.", key);
}

static luo_status match(matching *m)
{
    luo_graph *graph = m->graph;
    const int64_t most = (int64_t)graph->ntensors + m->plan->nannotations;
    m->root = LUO_NEW_N(m->scratch, int32_t, most);
    m->ways = LUO_NEW_N(m->scratch, moved *, most);
    m->used = LUO_NEW_N(m->scratch, bool, m->plan->nannotations);
    m->factors = LUO_NEW_N(graph->arena, bool, most);
    if (!m->root || !m->ways || !m->used || !m->factors) return luo_err_nomem(m->err);
    graph->factors = m->factors;
    for (int32_t x = 0; x < most; x++) m->root[x] = x;
    for (int32_t o = 0; o < graph->nops; o++) LUO_TRY(visit(m, &o));
    return check_rest(m);
}

luo_status luo_plan_annotate_all(luo_graph *graph, const luo_plan *plan, luo_err *err)
{
    LUO_TRY(check_keys(plan, err));
    matching m = {.graph = graph, .plan = plan, .err = err, .scratch = luo_arena_new(1 << 16)};
    if (!m.scratch) return luo_err_nomem(err);
    graph->matched = true;
    const luo_status st = match(&m);
    luo_arena_free(m.scratch);
    return st;
}
