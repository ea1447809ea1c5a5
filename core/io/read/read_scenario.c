/* read_scenario.c: scenario.yaml and every file it names into a luo_scenario
 * (docs/formats.md#luoshuscenario1). Single maps are judged in scenario_check.c; here is what needs
 * the cluster, the model or several parts of the file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/io/builtin.h"
#include "core/io/document/names.h"
#include "core/io/json_number.h"
#include "core/io/read/read.h"
#include "core/io/read/scenario_reader.h"
#include "core/plan/planners.h"
#include "core/run/lengths/batches.h"
#include "core/run/policy/policy.h"

/* ---- overrides of the files that it names ---- */

static const char *const changed_parts[] = {"cluster", "model", "stack"}; /* PART.PATH=VALUE */

static bool is_of(const char *override, const char *part)
{
    const size_t n = strlen(part);
    return strncmp(override, part, n) == 0 && override[n] == '.';
}

static bool is_of_part(const char *override)
{
    for (size_t i = 0; i < sizeof changed_parts / sizeof *changed_parts; i++)
        if (is_of(override, changed_parts[i])) return true;
    return false;
}

/* Of cluster and model, whose hash is that of their files; the stack is hashed by its values. */
static uint64_t hash_changes(const luo_scenario_reader *reader, const char *name, uint64_t h)
{
    if (strcmp(name, "stack") == 0) return h;
    for (int32_t i = 0; reader->overrides && i < reader->overrides->n; i++)
        if (is_of(reader->overrides->at[i], name)) h = luo_hash_str(h, reader->overrides->at[i]);
    return h;
}

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
    luo_scenario_reader *reader = ctx;
    LUO_TRY(luo_files_get(reader->inner, arena, path, out, err));
    return note_input(arena, reader->inputs, out, err);
}

/* The content of a file and of those it names in turn: everything read since `before`. */
static void add_hash(luo_scenario_reader *reader, const char *name, int32_t before)
{
    char hex[17];
    uint64_t h = LUO_HASH_EMPTY;
    const size_t n = (size_t)reader->nfiles;
    luo_named_hash *more =
        luo_arena_grow(reader->doc.arena, reader->files, n * sizeof *more, (n + 1) * sizeof *more);
    const char *copy = luo_arena_strdup(reader->doc.arena, name);
    if (!more || !copy) {
        luo_doc_nomem(&reader->doc);
        return;
    }
    for (int32_t i = before; i < reader->inputs->n; i++)
        h = luo_hash_str(h, luo_hash_print(reader->inputs->hash[i], hex));
    h = hash_changes(reader, name, h);
    reader->files = more;
    reader->files[reader->nfiles++] = (luo_named_hash){copy, h};
}

static luo_status read_stack(luo_scenario_reader *reader, const luo_source *src)
{
    return luo_read_stack_text(reader->doc.arena, src, &reader->sc->stack, reader->doc.diags);
}

/* A built-in name may stand for a stack. */
bool luo_scenario_file(luo_scenario_reader *reader, const luo_doc_node *node, const char *what,
                       const char *name, luo_scenario_read_fn *fn)
{
    luo_source src;
    const int32_t before = reader->inputs->n;
    const luo_diag *last = reader->doc.diags->last;
    const luo_status found =
        fn == read_stack
            ? luo_nested_named(&reader->doc, &reader->recorder, node, LUO_BUILTIN_STACKS, &src)
            : luo_nested_get(&reader->doc, &reader->recorder, node, &src);
    if (found != LUO_OK) return false;
    const luo_status st = fn(reader, &src);
    if (st != LUO_OK && reader->doc.st == LUO_OK) reader->doc.st = st;
    luo_nested_trail(&reader->doc, last, what, node);
    add_hash(reader, name, before);
    return st == LUO_OK;
}

/* What `--set PART.PATH=VALUE` says of a file. part: with the dot. */
static luo_overrides changes_of(const luo_scenario_reader *reader, const char *part)
{
    luo_overrides own = {.part = part};
    if (reader->overrides) own.n = reader->overrides->n;
    if (reader->overrides) own.at = reader->overrides->at;
    return own;
}

static luo_status read_cluster(luo_scenario_reader *reader, const luo_source *src)
{
    const luo_overrides set = changes_of(reader, "cluster.");
    return luo_read_cluster_changed(reader->doc.arena, src, &reader->recorder, &set,
                                    &reader->cluster, reader->doc.diags);
}

luo_status luo_scenario_read_model(luo_scenario_reader *reader, const luo_source *src)
{
    luo_overrides set = changes_of(reader, "model.");
    if (reader->overrides) set.dtype = reader->overrides->dtype;
    return luo_read_model_text(reader->doc.arena, src, &set, &reader->model, reader->doc.diags);
}

/* ---- plans ---- */

static luo_status read_plan(luo_scenario_reader *reader, const luo_source *src)
{
    luo_plan_finding *finding;
    int32_t n;
    luo_doc doc = {.arena = reader->doc.arena, .src = src, .diags = reader->doc.diags};
    LUO_TRY(luo_read_plan_doc(&doc, &reader->plan));
    const luo_status st = luo_plan_check(reader->doc.arena, reader->plan, reader->model,
                                         reader->cluster, &finding, &n);
    luo_doc_report_plan(&doc, finding, n, reader->doc.diags);
    if (st == LUO_OK && reader->model && reader->cluster)
        luo_plan_settle_context(reader->plan, reader->model, reader->cluster);
    return st;
}

/* Both say how many sequences a step has; the driver deals the scenario's over the plan. */
static void note_batch(luo_scenario_reader *reader, const luo_plan *plan, const luo_doc_node *node)
{
    const luo_doc_node *batch = luo_doc_get(luo_doc_get(reader->doc.root, "data"), "batch");
    const luo_doc_node *sequences = luo_doc_get(batch, "sequences");
    if (sequences && reader->y->data.batch.sequences != luo_plan_sequences(plan))
        luo_diags_add(reader->doc.diags, LUO_NOTE, LUO_OK, reader->doc.src->name, sequences->line,
                      sequences->col,
                      "`sequences` is %lld and plan `%s`, named at line %d, has "
                      "%lld a step; its micro-batches are dealt anew.",
                      (long long)reader->y->data.batch.sequences, plan->name, node->line,
                      (long long)luo_plan_sequences(plan));
}

const luo_plan *luo_scenario_take_plan(luo_scenario_reader *reader, const luo_doc_node *node,
                                       const char *name)
{
    if (!luo_scenario_file(reader, node, "plan", name, read_plan)) return NULL;
    note_batch(reader, reader->plan, node);
    return reader->plan;
}

/* ---- single values ---- */

static luo_status read_lengths(luo_scenario_reader *reader, const luo_source *src)
{
    return luo_read_lengths_text(reader->doc.arena, src, &reader->table, reader->doc.diags);
}

/* The table that `file` names, of the kind that `kind` says. */
static void take_table(luo_scenario_reader *reader, const luo_lengths_yaml *yaml,
                       const luo_doc_node *at, const char *name, luo_lengths *out)
{
    const luo_doc_node *file = luo_doc_get(at, "file");
    if (!luo_scenario_file(reader, file, "lengths", name, read_lengths)) return;
    if (reader->table.kind != out->kind)
        luo_doc_error(&reader->doc, luo_doc_get(at, "kind"),
                      "`kind` is `%s` and `%s` is a table of kind `%s`.",
                      luo_length_kind_name(out->kind), file->text,
                      luo_length_kind_name(reader->table.kind));
    *out = reader->table;
    out->repeat = yaml->repeat;
}

/* name: of the file, in the hash. */
static void take_lengths(luo_scenario_reader *reader, const luo_lengths_yaml *yaml,
                         const luo_doc_node *at, const char *name, luo_lengths *out)
{
    const luo_doc_node *part = luo_doc_get(at, "components");
    *out = (luo_lengths){.kind = (luo_length_kind)yaml->kind,
                         .tokens = yaml->tokens,
                         .low = yaml->low_tokens,
                         .high = yaml->high_tokens,
                         .median = yaml->median_tokens,
                         .sigma = yaml->sigma};
    if (luo_doc_get(at, "file")) take_table(reader, yaml, at, name, out);
    if (!part) return;
    luo_length_part *parts = LUO_NEW_N(reader->doc.arena, luo_length_part, yaml->components_count);
    if (!parts) {
        luo_doc_nomem(&reader->doc);
        return;
    }
    part = part->first;
    for (uint32_t i = 0; i < yaml->components_count; i++, part = part->next) {
        char own[64];
        snprintf(own, sizeof own, "%s.%u", name, i);
        parts[i].weight = yaml->components[i].weight;
        take_lengths(reader, &yaml->components[i], part, own, &parts[i].lengths);
    }
    out->nparts = (int32_t)yaml->components_count;
    out->parts = parts;
}

static void check_tokens(luo_scenario_reader *reader, const luo_doc_node *lengths)
{
    const luo_scenario *sc = reader->sc;
    const int64_t most = reader->model ? reader->model->max_sequence_tokens : 0;
    if (most && sc->length_tokens > most)
        luo_doc_error(&reader->doc, luo_doc_get(lengths, "tokens"),
                      "`tokens` is %lld; model `%s` takes up to %lld.",
                      (long long)sc->length_tokens, reader->model->name, (long long)most);
}

/* What makes a plan, or one for each step, needs to know what a step is. */
static void needs_data(luo_scenario_reader *reader, const luo_doc_node *data, const char *who)
{
    static const char *const keys[] = {"batch", "lengths"};
    for (int i = 0; i < 2; i++)
        if (!luo_doc_get(data, keys[i]))
            luo_doc_error(&reader->doc, data ? data : reader->doc.root,
                          "key `%s` is missing; %s needs it%s.", keys[i], who,
                          strcmp(who, "a planner") == 0 ? ", or give a `plan`" : "");
}

static bool any_policy(const luo_scenario_reader *reader, bool of_lengths)
{
    for (int32_t i = 0; i < reader->sc->npolicies; i++) {
        const luo_policy *policy = luo_policy_find(reader->sc->policies[i].name);
        if (policy && policy->lengths == of_lengths) return true;
    }
    return false;
}

/* Other policies work on plans for equal lengths. */
static void check_even(luo_scenario_reader *reader)
{
    const luo_doc_node *at = luo_doc_get(reader->doc.root, "policies")->first;
    const luo_scenario *sc = reader->sc;
    const bool even = !sc->batch_tokens && (!sc->lengths || sc->lengths->kind == LUO_LENGTH_FIXED);
    for (int32_t i = 0; i < sc->npolicies && !even; i++, at = at->next) {
        const luo_policy *policy = luo_policy_find(sc->policies[i].name);
        if (policy && !policy->lengths)
            luo_doc_error(&reader->doc, luo_doc_get(at, "name"),
                          "policy `%s` works on batches of `sequences` with lengths of `kind` "
                          "fixed; a policy for uneven lengths is expected, such as `hydraulis`.",
                          policy->name);
    }
}

/* A batch by tokens holds any one sequence, as far as the model takes it. */
static void check_budget(luo_scenario_reader *reader, const luo_doc_node *data)
{
    const luo_scenario *sc = reader->sc;
    if (reader->doc.st != LUO_OK || !sc->batch_tokens || !sc->lengths) return;
    const int64_t ctx = luo_batches_context(sc);
    if (sc->batch_tokens < ctx)
        luo_doc_error(&reader->doc, luo_doc_get(luo_doc_get(data, "batch"), "tokens"),
                      "a batch of %lld tokens is below the longest sequence of %lld; one sequence "
                      "must fit.",
                      (long long)sc->batch_tokens, (long long)ctx);
}

static void take_data(luo_scenario_reader *reader)
{
    const luo_doc_node *data = luo_doc_get(reader->doc.root, "data");
    const luo_doc_node *lengths = luo_doc_get(data, "lengths");
    luo_scenario *sc = reader->sc;
    sc->batch_sequences = reader->y->data.batch.sequences;
    sc->batch_tokens = reader->y->data.batch.tokens;
    sc->truncate_last = luo_doc_get(data, "truncate_last") ? reader->y->data.truncate_last : true;
    if (lengths) {
        luo_lengths *own = LUO_NEW(reader->doc.arena, luo_lengths);
        if (!own) {
            luo_doc_nomem(&reader->doc);
            return;
        }
        take_lengths(reader, &reader->y->data.lengths, lengths, "lengths", own);
        sc->lengths = own;
        if (own->kind == LUO_LENGTH_FIXED) sc->length_tokens = own->tokens;
    }
    check_tokens(reader, lengths);
    check_even(reader);
    check_budget(reader, data);
    if (any_policy(reader, true)) needs_data(reader, data, "a policy for uneven lengths");
    else if (!reader->y->plan || !*reader->y->plan) needs_data(reader, data, "a planner");
    if (!any_policy(reader, false) && reader->y->plan && *reader->y->plan)
        luo_doc_error_key(&reader->doc, luo_doc_get(reader->doc.root, "plan"),
                          "policies for uneven lengths make their own plans; leave `plan` out.");
}

static void take_checkpoint(luo_scenario_reader *reader)
{
    const luo_doc_node *at = luo_doc_get(reader->doc.root, "checkpoint");
    luo_scenario *sc = reader->sc;
    if (!at) return;
    sc->checkpoint.kind = luo_doc_get(at, "every_steps") ? LUO_CHECKPOINT_STEPS
                          : luo_doc_get(at, "every_s")   ? LUO_CHECKPOINT_S
                                                         : LUO_CHECKPOINT_AUTO;
    sc->checkpoint.every_steps = reader->y->checkpoint.every_steps;
    sc->checkpoint.every_s = reader->y->checkpoint.every_s;
    sc->checkpoint.blocking = reader->y->checkpoint.mode == 1;
    sc->checkpoint.target = (luo_checkpoint_target)reader->y->checkpoint.target;
}

static void take_costs(luo_scenario_reader *reader)
{
    const luo_doc_node *at = luo_doc_get(reader->doc.root, "costs");
    const struct luo_costs_yaml *yaml = &reader->y->costs;
    reader->sc->detect_fail_s = yaml->detect_fail_s;
    reader->sc->process_start_s = yaml->process_start_s;
    reader->sc->communicator_s = yaml->communicator_s;
    reader->sc->operator_s = yaml->operator_s;
    reader->sc->replacement_s = yaml->replacement_s;
    reader->sc->cost_default.detect_fail = !luo_doc_get(at, "detect_fail_s");
    reader->sc->cost_default.process_start = !luo_doc_get(at, "process_start_s");
    reader->sc->cost_default.communicator = !luo_doc_get(at, "communicator_s");
    reader->sc->cost_default.replacement = !luo_doc_get(at, "replacement_s");
}

static luo_status read_load(luo_scenario_reader *reader, const luo_source *src)
{
    luo_expert_load *loads = NULL;
    LUO_TRY(luo_read_expert_load_text(reader->doc.arena, src, reader->model, &loads,
                                      &reader->sc->nloads, reader->doc.diags));
    reader->sc->loads = loads;
    return LUO_OK;
}

/* A load that changes nothing would not be noticed. */
static void check_load(luo_scenario_reader *reader, const luo_doc_node *at)
{
    const luo_model *model = reader->model;
    if (!model) return;
    if (model->moe.experts == 0)
        luo_doc_error_key(&reader->doc, at, "model `%s` has no experts; leave `expert_load` out.",
                          model->name);
    else if (model->moe.gate == LUO_GATE_BALANCED)
        luo_doc_error_key(&reader->doc, at,
                          "under `gate` balanced, as model `%s` has it, all experts get equally "
                          "many tokens; leave `expert_load` out.",
                          model->name);
}

static void take_load(luo_scenario_reader *reader)
{
    const luo_doc_node *at = luo_doc_get(reader->doc.root, "expert_load");
    if (!at) return;
    check_load(reader, at);
    if (luo_doc_get(at, "file")) {
        luo_scenario_file(reader, luo_doc_get(at, "file"), "table", "expert_load", read_load);
        return;
    }
    luo_expert_load *load = LUO_NEW(reader->doc.arena, luo_expert_load);
    if (!load) {
        luo_doc_nomem(&reader->doc);
        return;
    }
    if (reader->y->expert_load.kind) load->exponent = reader->y->expert_load.exponent;
    reader->sc->loads = load;
    reader->sc->nloads = 1;
}

static void take_scalars(luo_scenario_reader *reader)
{
    luo_scenario *sc = reader->sc;
    sc->name = reader->y->name;
    sc->seed = (uint64_t)reader->y->seed;
    sc->planner = reader->y->planner.name ? reader->y->planner.name : "uniform";
    sc->steps = reader->y->extent.steps;
    sc->duration_s = reader->y->extent.duration_s;
    sc->compute_sigma = reader->y->noise.compute_sigma;
    sc->comm_sigma = reader->y->noise.comm_sigma;
    sc->truth = reader->y->truth.write;
    take_load(reader);
    if (luo_name_fault(sc->name))
        luo_doc_error(&reader->doc, luo_doc_get(reader->doc.root, "name"), "`name` is `%.60s`; %s.",
                      sc->name, luo_name_fault(sc->name));
    take_checkpoint(reader);
    take_costs(reader);
    if (!luo_doc_get(reader->doc.root, "jobs")) take_data(reader);
}

/* ---- stack and its values ---- */

static void set_stack_value(luo_scenario_reader *reader, const char *override)
{
    char name[64];
    luo_err err;
    double v;
    const char *at = override + strlen("stack."), *eq = strchr(at, '=');
    if (!eq || (size_t)(eq - at) >= sizeof name) {
        reader->doc.st = luo_diags_add(reader->doc.diags, LUO_ERROR, LUO_EUSAGE, NULL, 0, 0,
                                       "`--set %s` is not of the form stack.NAME=VALUE.", override);
        return;
    }
    snprintf(name, sizeof name, "%.*s", (int)(eq - at), at);
    const luo_status st = luo_json_number_float(eq + 1, strlen(eq + 1), &v)
                              ? luo_stack_set(&reader->sc->stack, name, v, &err)
                              : luo_stack_switch(&reader->sc->stack, name, eq + 1, &err);
    if (st == LUO_OK) return;
    luo_diags_add(reader->doc.diags, LUO_ERROR, st, NULL, 0, 0, "%s (given by --set %s)", err.text,
                  override);
    if (reader->doc.st == LUO_OK) reader->doc.st = st;
}

static void take_stack(luo_scenario_reader *reader)
{
    const luo_doc_node *stack = luo_doc_get(reader->doc.root, "stack");
    luo_stack_default(&reader->sc->stack);
    if (stack) luo_scenario_file(reader, stack, "stack", "stack", read_stack);
    for (int32_t i = 0; reader->overrides && i < reader->overrides->n; i++)
        if (is_of(reader->overrides->at[i], "stack"))
            set_stack_value(reader, reader->overrides->at[i]);
}

/* ---- the whole ---- */

static void take_hash(luo_scenario_reader *reader)
{
    luo_str text = {0};
    if (luo_scenario_canonical(&text, reader->sc, reader->files, reader->nfiles, reader->own_events,
                               reader->y) == LUO_OK)
        reader->sc->hash = luo_hash_bytes(LUO_HASH_EMPTY, text.at, text.len);
    else
        luo_doc_nomem(&reader->doc);
    luo_str_free(&text);
}

static void take_all(luo_scenario_reader *reader)
{
    const luo_doc_node *plan = luo_doc_get(reader->doc.root, "plan");
    const luo_doc_node *model = luo_doc_get(reader->doc.root, "model");
    luo_scenario_file(reader, luo_doc_get(reader->doc.root, "cluster"), "cluster", "cluster",
                      read_cluster);
    reader->sc->cluster = reader->cluster;
    if (model)
        luo_scenario_file(reader, model, "model", "model", luo_scenario_read_model);
    reader->sc->model = reader->model;
    take_stack(reader);
    if (plan && *plan->text) reader->sc->plan = luo_scenario_take_plan(reader, plan, "plan");
    luo_scenario_take_processes(reader);
    luo_scenario_take_events(reader);
    if (luo_doc_get(reader->doc.root, "jobs")) luo_scenario_take_jobs(reader);
    else luo_scenario_take_policies(reader);
    take_scalars(reader);
    if (reader->doc.st == LUO_OK) take_hash(reader);
}

static void load(luo_scenario_reader *reader)
{
    void *data = NULL;
    luo_doc_parse(&reader->doc);
    for (int32_t i = 0; reader->overrides && i < reader->overrides->n; i++)
        if (!is_of_part(reader->overrides->at[i]))
            luo_doc_set(&reader->doc, reader->overrides->at[i]);
    luo_doc_check(&reader->doc, &luo_doc_scenario);
    if (reader->doc.st == LUO_OK &&
        luo_doc_load(&reader->doc, luo_doc_scenario.schema, &data) == LUO_OK) {
        reader->y = data;
        take_all(reader);
    }
}

luo_status luo_read_scenario_text(luo_arena *arena, const luo_source *src, const luo_files *files,
                                  const luo_overrides *overrides, luo_scenario **out,
                                  luo_inputs *inputs, luo_diags *diags)
{
    luo_inputs own = {0};
    luo_err err;
    luo_scenario_reader reader = {.doc = {.arena = arena, .src = src, .diags = diags},
                                  .inner = files,
                                  .overrides = overrides,
                                  .inputs = inputs ? inputs : &own,
                                  .sc = LUO_NEW(arena, luo_scenario)};
    reader.recorder = (luo_files){record, &reader};
    if (!reader.sc || note_input(arena, reader.inputs, src, &err) != LUO_OK)
        return luo_doc_nomem(&reader.doc);
    load(&reader);
    if (reader.doc.st == LUO_OK) *out = reader.sc;
    return reader.doc.st;
}

luo_status luo_read_scenario(luo_arena *arena, const char *path, const luo_overrides *overrides,
                             luo_scenario **out, luo_inputs *inputs, luo_diags *diags)
{
    luo_err err;
    luo_source src;
    if (luo_source_read(arena, path, &src, &err) != LUO_OK) return luo_diags_err(diags, &err);
    return luo_read_scenario_text(arena, &src, NULL, overrides, out, inputs, diags);
}
