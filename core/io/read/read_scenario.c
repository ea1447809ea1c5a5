/* read_scenario.c: scenario.yaml and every file it names into a luo_scenario
 * (docs/formats.md#luoshuscenario1). Single maps are judged in scenario_check.c; here is what needs
 * the cluster, the model or several parts of the file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/io/builtin.h"
#include "core/io/document/names.h"
#include "core/io/read/scenario_reader.h"
#include "core/plan/planners.h"

/* ---- files ---- */

static luo_status note_input(luo_arena *arena, luo_inputs *in, const luo_source *src, luo_err *err)
{
    if (in->n == in->cap) {
        const size_t old = (size_t)in->cap, more = 2 * old + 8;
        in->path = luo_arena_grow(arena, in->path, old * sizeof *in->path, more * sizeof *in->path);
        in->hash = luo_arena_grow(arena, in->hash, old * sizeof *in->hash, more * sizeof *in->hash);
        if (!in->path || !in->hash) return luo_err_nomem(err);
        in->cap = (int32_t)more;
    }
    in->path[in->n] = luo_arena_strdup(arena, src->name);
    in->hash[in->n] = luo_source_hash(src);
    return in->path[in->n++] ? LUO_OK : luo_err_nomem(err);
}

static luo_status record(void *ctx, luo_arena *arena, const char *path, luo_source *out,
                         luo_err *err)
{
    luo_scenario_reader *r = ctx;
    LUO_TRY(luo_files_get(r->inner, arena, path, out, err));
    return note_input(arena, r->inputs, out, err);
}

/* The content of a file and of those it names in turn: everything read since `before`. */
static void add_hash(luo_scenario_reader *r, const char *name, int32_t before)
{
    char hex[17];
    uint64_t h = LUO_HASH_EMPTY;
    const size_t n = (size_t)r->nfiles;
    luo_named_hash *more =
        luo_arena_grow(r->doc.arena, r->files, n * sizeof *more, (n + 1) * sizeof *more);
    const char *copy = luo_arena_strdup(r->doc.arena, name);
    if (!more || !copy) {
        luo_doc_nomem(&r->doc);
        return;
    }
    for (int32_t i = before; i < r->inputs->n; i++)
        h = luo_hash_str(h, luo_hash_print(r->inputs->hash[i], hex));
    r->files = more;
    r->files[r->nfiles++] = (luo_named_hash){copy, h};
}

static luo_status read_stack(luo_scenario_reader *r, const luo_source *src)
{
    return luo_read_stack_text(r->doc.arena, src, &r->sc->stack, r->doc.diags);
}

/* A built-in name may stand for a stack. */
bool luo_scenario_file(luo_scenario_reader *r, const luo_doc_node *node, const char *what,
                       const char *name, luo_scenario_read_fn *fn)
{
    luo_source src;
    const int32_t before = r->inputs->n;
    const luo_diag *last = r->doc.diags->last;
    const luo_status found =
        fn == read_stack
            ? luo_nested_named(&r->doc, &r->recorder, node, LUO_BUILTIN_STACKS, &src)
            : luo_nested_get(&r->doc, &r->recorder, node, &src);
    if (found != LUO_OK) return false;
    const luo_status st = fn(r, &src);
    if (st != LUO_OK && r->doc.st == LUO_OK) r->doc.st = st;
    luo_nested_trail(&r->doc, last, what, node);
    add_hash(r, name, before);
    return st == LUO_OK;
}

static luo_status read_cluster(luo_scenario_reader *r, const luo_source *src)
{
    return luo_read_cluster_text(r->doc.arena, src, &r->recorder, &r->cluster, r->doc.diags);
}

static luo_status read_model(luo_scenario_reader *r, const luo_source *src)
{
    return luo_read_model_text(r->doc.arena, src, NULL, &r->model, r->doc.diags);
}

/* ---- plans ---- */

static luo_status read_plan(luo_scenario_reader *r, const luo_source *src)
{
    luo_plan_finding *f;
    int32_t n;
    luo_doc doc = {.arena = r->doc.arena, .src = src, .diags = r->doc.diags};
    LUO_TRY(luo_read_plan_doc(&doc, &r->plan));
    const luo_status st = luo_plan_check(r->doc.arena, r->plan, r->model, r->cluster, &f, &n);
    luo_report_plan(&doc, f, n, r->doc.diags);
    if (st == LUO_OK && r->model && r->cluster)
        luo_plan_settle_context(r->plan, r->model, r->cluster);
    return st;
}

/* Both say how many sequences a step has; the driver deals the scenario's over the plan. */
static void note_batch(luo_scenario_reader *r, const luo_plan *p, const luo_doc_node *node)
{
    const luo_doc_node *batch = luo_doc_get(luo_doc_get(r->doc.root, "data"), "batch");
    const luo_doc_node *sequences = luo_doc_get(batch, "sequences");
    if (sequences && r->y->data.batch.sequences != luo_plan_sequences(p))
        luo_diags_add(r->doc.diags, LUO_NOTE, LUO_OK, r->doc.src->name, sequences->line,
                      sequences->col,
                      "`sequences` is %lld and plan `%s`, named at line %d, has "
                      "%lld a step; its micro-batches are dealt anew.",
                      (long long)r->y->data.batch.sequences, p->name, node->line,
                      (long long)luo_plan_sequences(p));
}

const luo_plan *luo_take_plan(luo_scenario_reader *r, const luo_doc_node *node, const char *name)
{
    if (!luo_scenario_file(r, node, "plan", name, read_plan)) return NULL;
    note_batch(r, r->plan, node);
    return r->plan;
}

/* ---- single values ---- */

static void take_data(luo_scenario_reader *r)
{
    const luo_doc_node *data = luo_doc_get(r->doc.root, "data"), *at = data ? data : r->doc.root;
    const luo_doc_node *lengths = luo_doc_get(data, "lengths");
    r->sc->batch_sequences = r->y->data.batch.sequences;
    r->sc->length_tokens = r->y->data.lengths.tokens;
    if (r->model && r->model->max_sequence_tokens &&
        r->sc->length_tokens > r->model->max_sequence_tokens)
        luo_doc_error(&r->doc, luo_doc_get(lengths, "tokens"),
                      "`tokens` is %lld; model `%s` takes up to %lld.",
                      (long long)r->sc->length_tokens, r->model->name,
                      (long long)r->model->max_sequence_tokens);
    if (r->y->plan && *r->y->plan) return;
    if (!luo_doc_get(data, "batch"))
        luo_doc_error(&r->doc, at,
                      "key `batch` is missing; a planner needs it, or give a "
                      "`plan`.");
    if (!lengths)
        luo_doc_error(&r->doc, at,
                      "key `lengths` is missing; a planner needs it, or give a "
                      "`plan`.");
}

static void take_checkpoint(luo_scenario_reader *r)
{
    const luo_doc_node *at = luo_doc_get(r->doc.root, "checkpoint");
    luo_scenario *sc = r->sc;
    if (!at) return;
    sc->checkpoint.kind = luo_doc_get(at, "every_steps") ? LUO_CHECKPOINT_STEPS
                          : luo_doc_get(at, "every_s")   ? LUO_CHECKPOINT_S
                                                         : LUO_CHECKPOINT_AUTO;
    sc->checkpoint.every_steps = r->y->checkpoint.every_steps;
    sc->checkpoint.every_s = r->y->checkpoint.every_s;
    sc->checkpoint.blocking = r->y->checkpoint.mode == 1;
    sc->checkpoint.target = (luo_checkpoint_target)r->y->checkpoint.target;
}

static void take_costs(luo_scenario_reader *r)
{
    const luo_doc_node *at = luo_doc_get(r->doc.root, "costs");
    const struct luo_costs_yaml *c = &r->y->costs;
    r->sc->detect_fail_s = c->detect_fail_s;
    r->sc->process_start_s = c->process_start_s;
    r->sc->communicator_s = c->communicator_s;
    r->sc->operator_s = c->operator_s;
    r->sc->replacement_s = c->replacement_s;
    r->sc->cost_default.detect_fail = !luo_doc_get(at, "detect_fail_s");
    r->sc->cost_default.process_start = !luo_doc_get(at, "process_start_s");
    r->sc->cost_default.communicator = !luo_doc_get(at, "communicator_s");
    r->sc->cost_default.replacement = !luo_doc_get(at, "replacement_s");
}

static void take_scalars(luo_scenario_reader *r)
{
    luo_scenario *sc = r->sc;
    sc->name = r->y->name;
    sc->seed = (uint64_t)r->y->seed;
    sc->planner = r->y->planner.name ? r->y->planner.name : "uniform";
    sc->steps = r->y->extent.steps;
    sc->duration_s = r->y->extent.duration_s;
    sc->compute_sigma = r->y->noise.compute_sigma;
    sc->comm_sigma = r->y->noise.comm_sigma;
    sc->truth = r->y->truth.write;
    if (luo_name_fault(sc->name))
        luo_doc_error(&r->doc, luo_doc_get(r->doc.root, "name"), "`name` is `%.60s`; %s.", sc->name,
                      luo_name_fault(sc->name));
    take_checkpoint(r);
    take_costs(r);
    take_data(r);
}

/* ---- stack and its values ---- */

static const char stack_prefix[] = "stack.";

static bool is_stack_value(const char *override)
{
    return strncmp(override, stack_prefix, sizeof stack_prefix - 1) == 0;
}

static void set_stack_value(luo_scenario_reader *r, const char *override)
{
    char name[64];
    luo_err err;
    double v;
    const char *at = override + sizeof stack_prefix - 1, *eq = strchr(at, '=');
    if (!eq || (size_t)(eq - at) >= sizeof name) {
        r->doc.st = luo_diags_add(r->doc.diags, LUO_ERROR, LUO_EUSAGE, NULL, 0, 0,
                                  "`--set %s` is not of the form stack.NAME=VALUE.", override);
        return;
    }
    snprintf(name, sizeof name, "%.*s", (int)(eq - at), at);
    const luo_status st = luo_number_float(eq + 1, strlen(eq + 1), &v)
                              ? luo_stack_set(&r->sc->stack, name, v, &err)
                              : luo_stack_switch(&r->sc->stack, name, eq + 1, &err);
    if (st == LUO_OK) return;
    luo_diags_add(r->doc.diags, LUO_ERROR, st, NULL, 0, 0, "%s (given by --set %s)", err.text,
                  override);
    if (r->doc.st == LUO_OK) r->doc.st = st;
}

static void take_stack(luo_scenario_reader *r)
{
    const luo_doc_node *stack = luo_doc_get(r->doc.root, "stack");
    luo_stack_default(&r->sc->stack);
    if (stack) luo_scenario_file(r, stack, "stack", "stack", read_stack);
    for (int32_t i = 0; r->overrides && i < r->overrides->n; i++)
        if (is_stack_value(r->overrides->at[i])) set_stack_value(r, r->overrides->at[i]);
}

/* ---- the whole ---- */

static void take_hash(luo_scenario_reader *r)
{
    luo_str s = {0};
    if (luo_scenario_canonical(&s, r->sc, r->files, r->nfiles, r->own_events, r->y) == LUO_OK)
        r->sc->hash = luo_hash_bytes(LUO_HASH_EMPTY, s.at, s.len);
    else
        luo_doc_nomem(&r->doc);
    luo_str_free(&s);
}

static void take_all(luo_scenario_reader *r)
{
    const luo_doc_node *plan = luo_doc_get(r->doc.root, "plan");
    luo_scenario_file(r, luo_doc_get(r->doc.root, "cluster"), "cluster", "cluster", read_cluster);
    luo_scenario_file(r, luo_doc_get(r->doc.root, "model"), "model", "model", read_model);
    r->sc->cluster = r->cluster;
    r->sc->model = r->model;
    take_stack(r);
    if (plan && *plan->text) r->sc->plan = luo_take_plan(r, plan, "plan");
    luo_take_processes(r);
    luo_take_events(r);
    luo_take_policies(r);
    take_scalars(r);
    if (r->doc.st == LUO_OK) take_hash(r);
}

static void load(luo_scenario_reader *r)
{
    void *data = NULL;
    luo_doc_parse(&r->doc);
    for (int32_t i = 0; r->overrides && i < r->overrides->n; i++)
        if (!is_stack_value(r->overrides->at[i])) luo_doc_set(&r->doc, r->overrides->at[i]);
    luo_doc_check(&r->doc, &luo_doc_scenario);
    if (r->doc.st == LUO_OK && luo_doc_load(&r->doc, luo_doc_scenario.schema, &data) == LUO_OK) {
        r->y = data;
        take_all(r);
    }
}

luo_status luo_read_scenario_text(luo_arena *arena, const luo_source *src, const luo_files *files,
                                  const luo_overrides *overrides, luo_scenario **out,
                                  luo_inputs *inputs, luo_diags *diags)
{
    luo_inputs own = {0};
    luo_err err;
    luo_scenario_reader r = {.doc = {.arena = arena, .src = src, .diags = diags},
                             .inner = files,
                             .overrides = overrides,
                             .inputs = inputs ? inputs : &own,
                             .sc = LUO_NEW(arena, luo_scenario)};
    r.recorder = (luo_files){record, &r};
    if (!r.sc || note_input(arena, r.inputs, src, &err) != LUO_OK) return luo_doc_nomem(&r.doc);
    load(&r);
    if (r.doc.st == LUO_OK) *out = r.sc;
    return r.doc.st;
}

luo_status luo_read_scenario(luo_arena *arena, const char *path, const luo_overrides *overrides,
                             luo_scenario **out, luo_inputs *inputs, luo_diags *diags)
{
    luo_err err;
    luo_source src;
    if (luo_read_text(arena, path, &src, &err) != LUO_OK) return luo_diags_err(diags, &err);
    return luo_read_scenario_text(arena, &src, NULL, overrides, out, inputs, diags);
}
