/* Annotations of a program. */
#include "core/plan/hap/emit.h"

#include <math.h>
#include <string.h>

#include "core/base/devset.h"
#include "core/base/vec.h"
#include "core/hspmd/bounds.h"
#include "core/plan/hap/space_internal.h"
#include "core/plan/hap_graph/hap_model.h"

typedef struct emission {
    luo_arena *arena;
    const luo_hap_program *program;
    const luo_hap_numbers *numbers;
    luo_hap_cuts *cuts;
    const char *devices; /* "[0,1]" */
    int32_t ndevices;
    int32_t *moved_at;      /* by fact: operation for which it was moved, -1: where it is made */
    bool *said;             /* by fact: it has its entry */
    const char **said_back; /* by fact: variant in the entry of its gradient; NULL: it has none */
    bool *said_home;        /* by fact: its gradient has an entry for where that is moved */
    luo_plan_annotation *at;
    int32_t n, cap;
    luo_err *err;
} emission;

static const luo_hap_triple *triple_of(const emission *e, int32_t o)
{
    return &e->program->space->triple[e->program->choice[o]];
}

static const luo_hap_graph *graph_of(const emission *e)
{
    return e->program->space->graph;
}

/* ---- texts ---- */

/* "{1:(3,1)}", "{0:4}" where all are alike. */
static void say_pieces(luo_str *text, const emission *e, luo_rel rel, const luo_hap_tensor *tensor)
{
    const int64_t extent = tensor->dim[rel.dim];
    const int32_t ext = luo_hap_space_extent(e->program->space, extent);
    const double *len = &e->cuts->length[(rel.seg * e->cuts->nextents + ext) * e->ndevices];
    int64_t gcd = 0;
    bool alike = true;
    for (int32_t i = 0; i < e->ndevices; i++) {
        gcd = luo_bounds_gcd((int64_t)len[i], gcd);
        alike &= len[i] == len[0];
    }
    luo_str_addf(text, "{%d:", tensor->plan_dim[rel.dim]);
    if (alike) luo_str_addi(text, e->ndevices);
    for (int32_t i = 0; i < e->ndevices && !alike; i++) {
        luo_str_add(text, i ? "," : "(");
        luo_str_addi(text, (int64_t)len[i] / (gcd ? gcd : 1));
    }
    luo_str_add(text, alike ? "}" : ")}");
}

static const char *annotation_of(const emission *e, int32_t tensor, luo_rel rel)
{
    luo_str text = {0};
    luo_str_add(&text, e->devices);
    if (e->ndevices == 1)
        luo_str_add(&text, "{}");
    else if (rel.kind == LUO_REL_G)
        say_pieces(&text, e, rel, &graph_of(e)->tensor[tensor]);
    else
        luo_str_addf(&text, "{%d:%d}", rel.kind == LUO_REL_I ? -1 : -2, e->ndevices);
    const char *copy = text.failed ? NULL : luo_arena_strdup(e->arena, luo_str_get(&text));
    luo_str_free(&text);
    return copy;
}

/* How the gather or scatter that operand j is moved by, or its gradient back, is carried out. */
static const char *variant_of(const emission *e, const luo_hap_triple *triple, int32_t j,
                              bool backward)
{
    const luo_hap_op *op = &graph_of(e)->op[triple->op];
    const luo_hap_tensor *tensor = &graph_of(e)->tensor[op->in[j]];
    const luo_hap_take *take = &triple->take[j];
    const bool scatters = take->how == LUO_HAP_HOW_SCATTER;
    luo_rel pieces = scatters ? take->to : take->from;
    bool grouped;
    if (take->how == LUO_HAP_HOW_ZERO)
        pieces = (luo_rel){.kind = LUO_REL_G, .seg = (uint16_t)op->segment};
    else if (take->how != LUO_HAP_HOW_GATHER && !scatters)
        return "auto";
    const luo_hap_coll coll = {
        .kind = (uint8_t)(scatters == backward ? LUO_HAP_MOVE_AG : LUO_HAP_MOVE_RS),
        .seg = pieces.seg,
        .ext = luo_hap_space_extent(e->program->space, tensor->dim[pieces.dim]),
        .bytes = (double)tensor->bytes};
    luo_hap_price(e->numbers, e->cuts, &coll, &grouped);
    return luo_coll_variant_name(grouped ? LUO_COLL_GROUPED : LUO_COLL_PADDED);
}

/* "T", "d.T", "d.T@O" */
static const char *name_of(const emission *e, const char *tensor, bool gradient, int32_t op)
{
    return luo_arena_printf(e->arena, "%s%s%s%s", gradient ? "d." : "", tensor, op < 0 ? "" : "@",
                            op < 0 ? "" : graph_of(e)->op[op].name);
}

typedef struct entry { /* of a tensor, or of its gradient */
    int32_t tensor;
    luo_rel rel;
    bool gradient;
    int32_t of; /* gradient: of what was moved for this operation; -1: where it is made */
    bool home;  /* gradient: as it is moved into that of where the tensor is made */
    const char *at, *variant;
} entry;

static luo_status check_dim(const luo_hap_tensor *tensor, luo_rel rel, luo_err *err)
{
    if (rel.kind != LUO_REL_G || tensor->plan_dim[rel.dim] >= 0) return LUO_OK;
    return luo_err_set(err, LUO_EUNREP,
                       "tensor `%s` is cut along its dimension %d, which a plan cannot say; leave "
                       "that letter out of --rules.",
                       tensor->name, rel.dim);
}

/* Adds an entry for each tensor of the plan that it is. */
static void add(emission *e, entry what)
{
    const luo_hap_tensor *tensor = &graph_of(e)->tensor[what.tensor];
    if (e->err->st != LUO_OK || check_dim(tensor, what.rel, e->err) != LUO_OK) return;
    const char *annotation = annotation_of(e, what.tensor, what.rel);
    for (int32_t i = 0; i < (tensor->nnames ? tensor->nnames : 1); i++) {
        const char *is = tensor->nnames ? tensor->names[i] : tensor->name;
        const char *name = name_of(e, is, what.gradient, what.of);
        const char *at = what.home ? name_of(e, is, true, -1) : what.at;
        if (!name || !at || !annotation || !LUO_VEC_ROOM_IN(e->arena, e->at, e->n, e->cap)) {
            luo_err_nomem(e->err);
            return;
        }
        e->at[e->n++] = (luo_plan_annotation){name, annotation, at, what.variant};
    }
}

static void add_fact(emission *e, int32_t tensor, luo_rel rel, const char *at, const char *variant)
{
    add(e, (entry){.tensor = tensor, .rel = rel, .of = -1, .at = at, .variant = variant});
}

static void add_gradient(emission *e, int32_t tensor, luo_rel rel, int32_t of, const char *variant)
{
    add(e, (entry){.tensor = tensor,
                   .rel = rel,
                   .gradient = true,
                   .of = of,
                   .at = "",
                   .variant = variant});
}

/* ---- forward ---- */

static int32_t fact_of(const emission *e, int32_t tensor, luo_rel rel)
{
    return luo_hap_space_fact_id(e->program->space, tensor, rel);
}

static bool is_move(const luo_hap_take *take)
{
    return take->how >= LUO_HAP_HOW_GATHER;
}

static void forward_operand(emission *e, const luo_hap_triple *triple, int32_t j)
{
    const luo_hap_op *op = &graph_of(e)->op[triple->op];
    const luo_hap_take *take = &triple->take[j];
    const int32_t x = op->in[j], fact = fact_of(e, x, take->to);
    luo_rel home = take->to;
    if (e->said[fact] || take->how == LUO_HAP_HOW_KEPT) return;
    e->said[fact] = true;
    if (is_move(take)) {
        e->moved_at[fact] = triple->op;
        add_fact(e, x, take->to, op->name, variant_of(e, triple, j, false));
        return;
    }
    if (take->how == LUO_HAP_HOW_ZERO) {
        home = (luo_rel){.kind = LUO_REL_G, .dim = 0, .seg = (uint16_t)op->segment};
        add_fact(e, x, home, "", "auto");
        add_fact(e, x, take->to, op->name, variant_of(e, triple, j, false));
        return;
    }
    add_fact(e, x, take->to, "", "auto");
}

static void forward(emission *e, int32_t o)
{
    const luo_hap_triple *triple = triple_of(e, o);
    const luo_hap_op *op = &graph_of(e)->op[o];
    const luo_hap_rule *rule = &e->program->space->rule[o][triple->rule];
    for (int32_t j = 0; j < op->nin; j++) forward_operand(e, triple, j);
    for (int32_t k = 0; k < op->nout; k++) {
        luo_rel rel = rule->out[k];
        if (rel.kind == LUO_REL_G) rel.seg = (uint16_t)op->segment;
        e->said[fact_of(e, op->out[k], rel)] = true;
        add_fact(e, op->out[k], rel, "", "auto");
    }
}

/* ---- backward ---- */

/* The gradient of a fact, once: `d.T`, or `d.T@O` where T was moved for O. */
static void say_gradient(emission *e, int32_t x, luo_rel rel, const char *variant)
{
    const int32_t fact = fact_of(e, x, rel);
    if (e->said_back[fact]) return;
    e->said_back[fact] = variant;
    add_gradient(e, x, luo_rel_dual(rel), e->moved_at[fact], variant);
}

/* That of what is moved into where x was made; by an entry of its own where others are moved
 * otherwise. */
static void say_moved_back(emission *e, int32_t x, const luo_hap_take *take, const char *variant)
{
    const int32_t from = fact_of(e, x, take->from), to = fact_of(e, x, take->to);
    say_gradient(e, x, take->from, variant);
    if (strcmp(e->said_back[from], variant) == 0 || strcmp(variant, "auto") == 0) return;
    if (e->said_home[to] || e->moved_at[to] < 0) return; /* nothing was moved to it in forward */
    e->said_home[to] = true;
    add(e, (entry){.tensor = x,
                   .rel = luo_rel_dual(take->from),
                   .gradient = true,
                   .of = e->moved_at[to],
                   .home = true,
                   .variant = variant});
}

/* Gradients of parameters end as they are kept: summed, whole, in pieces. */
static void parameter_gradient(emission *e, const luo_hap_triple *triple, int32_t j)
{
    const luo_hap_op *op = &graph_of(e)->op[triple->op];
    const luo_hap_take *take = &triple->take[j];
    luo_rel rel = {.kind = LUO_REL_I};
    if (take->how == LUO_HAP_HOW_KEPT) return; /* its first reader says it */
    if (take->to.kind == LUO_REL_G) rel = take->to;
    if (take->how == LUO_HAP_HOW_AR || take->how == LUO_HAP_HOW_ZERO)
        add_gradient(e, op->in[j], (luo_rel){.kind = LUO_REL_R}, triple->op, "auto");
    if (take->how == LUO_HAP_HOW_ZERO)
        rel = (luo_rel){.kind = LUO_REL_G, .dim = 0, .seg = (uint16_t)op->segment};
    add_gradient(e, op->in[j], rel, -1,
                 take->how == LUO_HAP_HOW_FACTORS ? "factors"
                 : take->how == LUO_HAP_HOW_ZERO  ? variant_of(e, triple, j, true)
                                                  : "auto");
}

static void backward(emission *e, int32_t o)
{
    const luo_hap_triple *triple = triple_of(e, o);
    const luo_hap_op *op = &graph_of(e)->op[o];
    for (int32_t j = 0; j < op->nin; j++) {
        const luo_hap_take *take = &triple->take[j];
        if (!luo_hap_graph_trains(graph_of(e), op->in[j])) continue;
        if (graph_of(e)->tensor[op->in[j]].role == LUO_HAP_PARAM) {
            parameter_gradient(e, triple, j);
            continue;
        }
        say_gradient(e, op->in[j], take->to, "auto");
        if (is_move(take)) say_moved_back(e, op->in[j], take, variant_of(e, triple, j, true));
    }
}

static luo_status emission_new(luo_arena *arena, const luo_hap_program *program,
                               const luo_hap_numbers *numbers, const double *shares,
                               const int32_t *device, emission *e, luo_err *err)
{
    luo_str text = {0};
    luo_hap_numbers whole = *numbers;
    const size_t nfacts = (size_t)program->space->nfacts;
    whole.fractional = false; /* pieces of a plan have whole lengths */
    *e = (emission){.arena = arena,
                    .program = program,
                    .numbers = numbers,
                    .ndevices = luo_hap_numbers_devices(numbers),
                    .moved_at = LUO_NEW_N(arena, int32_t, nfacts),
                    .said = LUO_NEW_N(arena, bool, nfacts),
                    .said_home = LUO_NEW_N(arena, bool, nfacts),
                    .said_back = LUO_NEW_N(arena, const char *, nfacts)};
    LUO_TRY(luo_hap_program_cuts(arena, program->space, &whole, shares, &e->cuts, err));
    luo_devset_print(&text, device, e->ndevices);
    e->devices = text.failed ? NULL : luo_arena_strdup(arena, luo_str_get(&text));
    luo_str_free(&text);
    if (!e->moved_at || !e->said || !e->said_back || !e->said_home || !e->devices)
        return luo_err_nomem(err);
    for (size_t f = 0; f < nfacts; f++) e->moved_at[f] = -1;
    return LUO_OK;
}

luo_status luo_hap_emit(luo_arena *arena, const luo_hap_program *program,
                        const luo_hap_numbers *numbers, const double *shares, const int32_t *device,
                        luo_plan_annotation **out, int32_t *n, luo_err *err)
{
    emission e;
    luo_err own = {0};
    const int32_t nops = program->space->graph->nops;
    LUO_TRY(emission_new(arena, program, numbers, shares, device, &e, err));
    e.err = &own;
    for (int32_t o = 0; o < nops; o++) forward(&e, o);
    for (int32_t o = nops; o-- > 0;) backward(&e, o);
    if (own.st != LUO_OK) {
        if (err) *err = own;
        return own.st;
    }
    *out = e.at;
    *n = e.n;
    return LUO_OK;
}

/* ---- plans ---- */

luo_status luo_hap_as_plan(luo_arena *arena, const luo_hap_result *result,
                           const luo_hap_place *place, luo_plan **out, luo_err *err)
{
    luo_range *layers = LUO_NEW(arena, luo_range);
    luo_stage *stage = LUO_NEW(arena, luo_stage);
    luo_pipeline *pipeline = LUO_NEW(arena, luo_pipeline);
    luo_plan *plan = LUO_NEW(arena, luo_plan);
    luo_plan_annotation *annotations;
    if (!layers || !stage || !pipeline || !plan) return luo_err_nomem(err);
    *layers = (luo_range){0, (int32_t)place->model->layers};
    *stage = (luo_stage){.nlayers = 1,
                         .layers = layers,
                         .ndev = place->devices->n,
                         .dev = place->devices->device,
                         .context_parallel = 1,
                         .embedding = true,
                         .head = true};
    *pipeline = (luo_pipeline){.micro_batches = place->micro_batches,
                               .micro_batch_sequences = (int32_t)place->sequences,
                               .nstages = 1,
                               .stages = stage};
    *plan = (luo_plan){.name = "hap",
                       .model = place->model->name,
                       .cluster = place->cluster->name,
                       .layers = (int32_t)place->model->layers,
                       .devices = place->cluster->ndevices,
                       .dtype = place->dtype,
                       .sequence_tokens = place->tokens,
                       .micro_batch_sequences = (int32_t)place->sequences,
                       .chunks = 1,
                       .schedule = LUO_SCHED_1F1B,
                       .npipelines = 1,
                       .pipelines = pipeline};
    LUO_TRY(luo_hap_emit(arena, result->program, &result->numbers, result->shares,
                         place->devices->device, &annotations, &plan->nannotations, err));
    plan->annotations = annotations;
    *out = plan;
    return LUO_OK;
}

/* Of a step of so many micro-batches, at the least: gradients are summed once, perhaps of all
 * parameters. */
static double step_of(const luo_hap_result *result, int32_t micro_batches)
{
    const luo_hap_graph *graph = result->space->graph;
    const luo_hap_line *line = &result->numbers.line[LUO_HAP_LINK_AR];
    double once = 0;
    for (int32_t x = 0; x < graph->ntensors; x++)
        if (graph->tensor[x].role == LUO_HAP_PARAM)
            once += line->latency_s + (double)graph->tensor[x].bytes / line->bandwidth_bytes_s;
    once = fmin(once, result->parts.communication_s);
    return micro_batches * (result->cost_s - once) + once;
}

typedef struct sizes { /* of a micro-batch */
    luo_hap_place place;
    luo_hap_graph *graph;
    luo_hap_numbers numbers;
} sizes;

static luo_status sizes_of(luo_arena *arena, const luo_hap_ask *ask, const luo_hap_devices *devices,
                           int32_t micro_batches, sizes *out, luo_err *err)
{
    const luo_cost_ctx ctx = {
        .cluster = ask->cluster, .stack = ask->stack, .dtype = ask->model->dtype};
    *out = (sizes){.place = {.model = ask->model,
                             .cluster = ask->cluster,
                             .dtype = ask->model->dtype,
                             .devices = devices,
                             .sequences = ask->sequences / micro_batches,
                             .tokens = ask->tokens,
                             .micro_batches = micro_batches}};
    LUO_TRY(luo_hap_model_graph(arena, ask->model, out->place.dtype, out->place.sequences,
                                ask->tokens, &out->graph, err));
    return luo_hap_cluster_numbers(arena, out->graph, &ctx, devices, &out->numbers, err);
}

/* The best program; step_s as in luo_hap_plan. */
static luo_status program_of(luo_arena *arena, const sizes *x, const luo_hap_job *job,
                             luo_hap_result **out, double *step_s, luo_err *err)
{
    LUO_TRY(luo_hap_alternate(arena, x->graph, &x->numbers, job, out, err));
    *step_s = step_of(*out, x->place.micro_batches);
    return LUO_OK;
}

/* With so many micro-batches; *out NULL: as in luo_hap_plan. */
static luo_status plan_with(luo_arena *arena, const luo_hap_ask *ask,
                            const luo_hap_devices *devices, int32_t micro_batches, luo_plan **out,
                            double *step_s, luo_err *err)
{
    const double most_s = ask->most_s > 0 ? ask->most_s : (double)INFINITY;
    const luo_hap_opts opts = {.sayable = true, .factors = true};
    const uint32_t prop = 1u << LUO_HAP_START_PROP;
    const luo_hap_job job = {.opts = opts,
                             .as_it_is = ask->as_it_is,
                             .starts = ask->one_start ? prop : 0},
                      quick = {.opts = opts, .no_memory = true, .starts = prop};
    luo_hap_result *result;
    sizes x;
    *out = NULL;
    LUO_TRY(sizes_of(arena, ask, devices, micro_batches, &x, err));
    if (isfinite(most_s)) {
        LUO_TRY(program_of(arena, &x, &quick, &result, step_s, err));
        if (*step_s > most_s) return LUO_OK;
    }
    LUO_TRY(program_of(arena, &x, &job, &result, step_s, err));
    return *step_s > most_s ? LUO_OK : luo_hap_as_plan(arena, result, &x.place, out, err);
}

/* The fewest micro-batches with which something fits, *m << k: fewer take less time and more room.
 * out as in luo_hap_plan; LUO_EINFEASIBLE: nothing does. */
static luo_status fewest_that_fit(luo_arena *arena, const luo_hap_ask *ask,
                                  const luo_hap_devices *devices, int32_t *m, luo_plan **out,
                                  double *step_s, luo_err *err)
{
    int32_t lo = 0, hi = 0;
    luo_status all = LUO_EINFEASIBLE;
    while (ask->sequences % ((int64_t)*m << (hi + 1)) == 0 && (int64_t)*m << (hi + 1) <= INT32_MAX)
        hi++;
    const int32_t most = *m << hi;
    for (int32_t k = 0; lo <= hi; k = lo + (hi - lo) / 2) {
        luo_plan *plan;
        double seconds;
        const luo_status st = plan_with(arena, ask, devices, *m << k, &plan, &seconds, err);
        if (st != LUO_OK && st != LUO_EINFEASIBLE) return st;
        if (st == LUO_EINFEASIBLE) lo = k + 1;
        if (st == LUO_EINFEASIBLE) continue;
        hi = k - 1;
        if (plan || all != LUO_OK) *step_s = seconds, *out = plan;
        all = LUO_OK;
    }
    *m = most;
    return all;
}

luo_status luo_hap_plan(luo_arena *arena, const luo_hap_ask *ask, luo_plan **out, double *step_s,
                        luo_err *err)
{
    luo_hap_devices *devices = LUO_NEW(arena, luo_hap_devices);
    if (!devices) return luo_err_nomem(err);
    LUO_TRY(luo_hap_devices_of(arena, ask->cluster, ask->usable, ask->nusable, ask->rate, devices,
                               err));
    if (ask->sequences % ask->micro_batches)
        return luo_err_set(err, LUO_EINFEASIBLE, "%lld sequences are no %d equal micro-batches.",
                           (long long)ask->sequences, (int)ask->micro_batches);
    int32_t m = ask->micro_batches;
    sizes x;
    LUO_TRY(sizes_of(arena, ask, devices, m, &x, err));
    LUO_TRY(luo_hap_state_fits(x.graph, &x.numbers, err));
    const luo_status st = fewest_that_fit(arena, ask, devices, &m, out, step_s, err);
    if (st != LUO_EINFEASIBLE) return st;
    return luo_err_set(err, st, "no plan fits, in up to %d micro-batches, with ZeRO or without.",
                       m);
}
