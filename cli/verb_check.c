/* verb_check.c: `luoshu check FILE...`: any file of ours, by its schema or CSV header;
 * files of tensors by their names. */
#include <string.h>

#include "cli/inputs.h"
#include "cli/load.h"
#include "cli/run/progress.h"
#include "cli/run/run_checks.h"
#include "core/io/read/read.h"
#include "exec/state/tensor_file.h"

typedef struct context { /* NULL where the option is not given */
    luo_model *model; /* of plans */
    luo_cluster *cluster;
    luo_stack stack; /* of plans: given, or the default */
    const luo_real_backend *real; /* of scenarios; NULL: they are simulated */
    int32_t ranks;
} context;

/* Does it begin when the run is over? Events of traces, at column 1 of their files, may. */
static bool is_late(const luo_scenario *sc, const luo_event *event)
{
    const bool by_step = event->trigger == LUO_AT_STEP || event->trigger == LUO_BETWEEN_STEPS;
    const bool by_time = event->trigger == LUO_AT_S || event->trigger == LUO_BETWEEN_S;
    return event->col > 1 && ((by_step && sc->steps > 0 && event->at[0] >= (double)sc->steps) ||
                              (by_time && sc->duration_s > 0 && event->at[0] >= sc->duration_s));
}

/* The first of them, and how many there are. */
static void warn_of_late_events(const luo_scenario *sc, const char *path, luo_diags *diags)
{
    const luo_event *first = NULL;
    char others[48] = "";
    int32_t n = 0;
    for (int32_t i = 0; i < sc->nevents; i++)
        if (is_late(sc, &sc->events[i]) && n++ == 0) first = &sc->events[i];
    if (!first) return;
    if (n > 1)
        snprintf(others, sizeof others, ", nor %s %d more", n == 2 ? "does" : "do", (int)n - 1);
    if (sc->steps > 0)
        luo_diags_add(diags, LUO_WARNING, LUO_OK, path, first->line, first->col,
                      "event `%s` begins at step %.0f or later, and the run has %lld steps; it "
                      "never happens%s.",
                      first->id, first->at[0], (long long)sc->steps, others);
    else
        luo_diags_add(diags, LUO_WARNING, LUO_OK, path, first->line, first->col,
                      "event `%s` begins at %.10g s or later, and the run ends at %.10g s; it "
                      "never happens%s.",
                      first->id, first->at[0], sc->duration_s, others);
}

/* What `sim`, or `run` with the options given, would refuse before it starts anything. Which plan
 * is the fastest is not asked, so that none is simulated. */
static luo_status check_scenario(luo_cli *cli, const char *path, const context *c, luo_err *err)
{
    luo_scenario *sc;
    luo_overrides set = {0};
    luo_status worst = LUO_OK;
    const luo_backend *sim = luo_backend_find(luo_backends, luo_nbackends, "sim");
    const luo_run_opts opts = {.backend = c->real ? c->real->row : sim,
                               .simulator = sim, /* of first plans, as runs have it */
                               .comm = LUO_COMM_FLOW,
                               .fold = true,
                               .clock = luo_cli_wall_s,
                               .ranks = c->ranks,
                               .work = &cli->work};
    const luo_exec_options options = {.ranks = c->ranks};
    LUO_TRY(luo_cli_dtype(cli, &set.dtype, err));
    LUO_TRY(luo_read_scenario(cli->arena, path, &set, &sc, NULL, &cli->diags));
    warn_of_late_events(sc, path, &cli->diags);
    if (set.dtype) LUO_TRY(luo_inputs_dtype(cli, sc, sc->model->dtype, err));
    if (c->real) worst = luo_run_check_bounds(sc, err);
    if (c->real && worst == LUO_OK) worst = luo_run_check_model(sc, err);
    if (c->real && worst == LUO_OK) worst = luo_run_check_dtype(sc, c->real, err);
    if (c->real && worst == LUO_OK) worst = luo_run_check_names(cli, sc, &options, err);
    if (worst != LUO_OK) return luo_err_at(err, worst, path, 1, 1);
    for (int32_t i = 0; i < sc->npolicies; i++) {
        luo_err why = {0};
        const luo_policy_spec *spec = &sc->policies[i];
        const luo_status st = luo_run_check(sc, i, &opts, &why);
        if (sc->npolicies > 1) luo_err_prefix(&why, st, "policy `%s`", spec->label);
        luo_err_at(&why, st, path, spec->line, spec->col);
        luo_cli_fail(cli, st, &why);
        if (luo_status_exit(st) > luo_status_exit(worst)) worst = st;
    }
    return worst;
}

static luo_status check_plan(luo_cli *cli, const char *path, const context *c, luo_err *err)
{
    luo_plan *plan;
    const luo_doc *doc;
    luo_programs *set;
    LUO_TRY(luo_cli_plan(cli, path, c->model, c->cluster, &plan, &doc));
    if (!c->model || !c->cluster) return LUO_OK;
    LUO_TRY(luo_cli_compile(cli, plan, doc, c->model, c->cluster, &c->stack, &set));
    return luo_cli_fits(cli, plan, c->cluster, set, err);
}

static bool holds_tensors(const char *path)
{
    static const char *const ends[] = {".safetensors", ".safetensors.index.json"};
    const size_t n = strlen(path);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (n > strlen(ends[i]) && strcmp(path + n - strlen(ends[i]), ends[i]) == 0) return true;
    return false;
}

static luo_status check_tensors(luo_cli *cli, const char *path, luo_err *err)
{
    luo_tensor_file file;
    LUO_TRY(luo_tensor_file_open(cli->arena, path, &file, err));
    const luo_status st = luo_tensor_file_verify(&file, (luo_share){.ranks = 1}, err);
    bool summed = file.head.n == 0;
    for (int32_t i = 0; i < file.head.n; i++) summed |= file.head.at[i].summed;
    if (st == LUO_OK && !summed)
        luo_cli_note(cli, LUO_NOTE, "`%s` has no checksums; only its head was looked at", path);
    luo_tensor_file_close(&file);
    return st;
}

static luo_status check_one(luo_cli *cli, const char *path, const context *c, const char **kind,
                            luo_err *err)
{
    luo_file_kind k;
    luo_model *model;
    if (holds_tensors(path)) {
        *kind = "tensors";
        return check_tensors(cli, path, err);
    }
    LUO_TRY(luo_file_kind_of(path, &k, &cli->diags));
    *kind = luo_file_kind_name(k);
    if (k == LUO_FILE_PLAN) return check_plan(cli, path, c, err);
    if (k == LUO_FILE_MODEL) return luo_cli_model_file(cli, path, &model);
    if (k == LUO_FILE_SCENARIO) return check_scenario(cli, path, c, err);
    return luo_file_check(cli->arena, path, k, &cli->diags);
}

static luo_status read_context(luo_cli *cli, context *c)
{
    luo_err err = {0};
    int64_t ranks;
    luo_status st = luo_args_int(&cli->args, "ranks", 0, 1, LUO_DEVICES_MAX, &ranks, &err);
    if (st == LUO_OK && luo_args_has(&cli->args, "backend"))
        st = luo_real_backend_of(&cli->args, &c->real, &err);
    if (st == LUO_OK && ranks > 0 && !c->real)
        st = luo_err_set(&err, LUO_EUSAGE, "`--ranks` needs a --backend; what is simulated has no "
                                           "ranks.");
    if (st != LUO_OK) return luo_cli_fail(cli, st, &err);
    c->ranks = (int32_t)ranks;
    if (luo_args_has(&cli->args, "model")) LUO_TRY(luo_cli_model(cli, &c->model));
    if (luo_args_has(&cli->args, "cluster")) LUO_TRY(luo_cli_cluster(cli, &c->cluster));
    return luo_cli_stack(cli, &c->stack);
}

luo_status luo_verb_check_run(luo_cli *cli)
{
    context c = {0};
    luo_status worst = LUO_OK;
    LUO_TRY(luo_cli_files(cli, 1, LUO_ARGS_MAX, "at least one file is"));
    LUO_TRY(read_context(cli, &c));
    luo_jsonw_open(&cli->json, "files", '[');
    for (int i = 0; i < cli->args.nfiles; i++) {
        const char *path = cli->args.files[i], *kind = "unknown";
        luo_err err = {0};
        const luo_status st = check_one(cli, path, &c, &kind, &err);
        if (err.text[0]) luo_cli_fail(cli, st, &err);
        luo_cli_flush(cli);
        if (st == LUO_OK) fprintf(luo_cli_out(cli), "%s: %s, good\n", path, kind);
        luo_jsonw_open(&cli->json, NULL, '{');
        luo_jsonw_text(&cli->json, "file", path);
        luo_jsonw_text(&cli->json, "kind", kind);
        luo_jsonw_bool(&cli->json, "good", st == LUO_OK);
        luo_jsonw_close(&cli->json);
        if (luo_status_exit(st) > luo_status_exit(worst)) worst = st;
    }
    luo_jsonw_close(&cli->json);
    return worst;
}
