/* plan_tables.c: `luoshu plan auto` of a model with embedding tables: every way of keeping them,
 * the fastest of them on the simulator, and why. */
#include <math.h>
#include <string.h>

#include "cli/options/spec.h"
#include "cli/plan/plan_auto.h"
#include "cli/plan/plan_rates.h"
#include "cli/plan/plan_shares.h"
#include "cli/run/progress.h"
#include "cli/sync/embed_sim.h"
#include "core/run/tables/tables.h"

#define N(t) ((int)(sizeof(t) / sizeof(t)[0]))

typedef struct call {
    const luo_model *model;
    luo_cluster *cluster;
    luo_stack stack;
    luo_judge judge;
    luo_clicks samples;
    luo_tables_in in;
    luo_tables_answer answer;
    double *rate;
    bool *candidate;
    double planning_s;
} call;

/* ---- options ---- */

static const char *const own[] = {"data", "servers", "cache"};
/* Of others too. */
static const char *const shared[] = {"model", "cluster", "stack", "global-batch-size",
                                     "rates", "seed",    "limit", "json",
                                     "quiet", "color"};

static bool is_among(const char *option, const char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], option) == 0) return true;
    return false;
}

luo_status luo_auto_no_tables(const luo_args *args, luo_err *err)
{
    for (int i = 0; i < N(own); i++)
        if (luo_args_has(args, own[i]))
            return luo_err_set(err, LUO_EUSAGE,
                               "`--%s` is about embedding tables, which the model does not have; "
                               "leave it out.",
                               own[i]);
    return LUO_OK;
}

static luo_status check_options(const luo_args *args, const luo_model *model, luo_err *err)
{
    for (int i = 0; i < args->nset; i++) {
        const char *option = args->set[i].option->name;
        if (is_among(option, own, N(own)) || is_among(option, shared, N(shared))) continue;
        return luo_err_set(
            err, LUO_EUSAGE,
            "`--%s` is about plans of transformers, and model `%s` is a %s; leave it "
            "out.",
            option, model->name, luo_family_desc_of(model->family)->name);
    }
    return LUO_OK;
}

static luo_status read_cache(const luo_args *args, call *c, luo_err *err)
{
    enum { ROWS, POLICY, PULL, PUSH, PARTS };
    static const char *const policies[] = {"lru", "lfu", "lfuopt", NULL};
    static const luo_spec_part parts[PARTS] = {
        [ROWS] = {"rows", 1, LUO_HET_ROWS, 0, true, NULL},
        [POLICY] = {"policy", 0, 0, LUO_HET_LRU, false, policies},
        [PULL] = {"pull_bound", 0, 1e9, 100, true, NULL},
        [PUSH] = {"push_bound", 0, 1e9, 100, true, NULL}};
    static const luo_spec spec = {
        "cache", "`rows=N,policy=lru,pull_bound=100,push_bound=100`, where rows are required,",
        parts, PARTS};
    luo_het_opts *cache = &c->in.cache;
    const char *text = luo_args_get(args, "cache", NULL);
    double v[PARTS] = {0, LUO_HET_LRU, 100, 100};
    bool given[PARTS] = {false};
    if (text) LUO_TRY(luo_spec_read(&spec, text, text, v, given, err));
    if (text && !given[ROWS])
        return luo_err_set(err, LUO_EUSAGE, "`--cache` is `%s`; %s is expected.", text, spec.form);
    *cache = (luo_het_opts){.rows = (int64_t)v[ROWS],
                            .policy = (luo_het_policy)v[POLICY],
                            .pull_bound = (int64_t)v[PULL],
                            .push_bound = (int64_t)v[PUSH]};
    if (cache->rows > c->model->features.rows) cache->rows = c->model->features.rows;
    return LUO_OK;
}

/* ---- samples ---- */

/* Samples that are drawn: of one step, with caches of many. */
static int64_t drawn(const call *c)
{
    enum { KEYS = 40000000, STEPS = 100 };
    if (c->in.cache.rows == 0) return c->in.batch;
    const int64_t may = KEYS / (c->in.batch * c->model->features.slots);
    return c->in.batch * (may < 1 ? 1 : may > STEPS ? STEPS : may);
}

static luo_status draw(luo_cli *cli, call *c, uint64_t seed, luo_err *err)
{
    const luo_features *features = &c->model->features;
    const luo_clicks_spec spec = {drawn(c), features->slots, features->rows, 1.05, 1, 0};
    if (features->rows > LUO_ZIPF_VOCAB)
        return luo_err_set(err, LUO_EUSAGE,
                           "model `%s` has %lld rows, and keys are drawn of at most %lld; give "
                           "`--data`.",
                           c->model->name, (long long)features->rows, (long long)LUO_ZIPF_VOCAB);
    return luo_clicks_draw(cli->arena, &spec, seed, &c->samples, err);
}

static luo_status read_samples(luo_cli *cli, call *c, luo_err *err)
{
    const luo_features *features = &c->model->features;
    int64_t seed;
    LUO_TRY(luo_args_int(&cli->args, "seed", 0, 0, INT64_MAX, &seed, err));
    if (c->in.batch * features->slots > 100000000)
        return luo_err_set(err, LUO_EUSAGE,
                           "`--global-batch-size` is %lld; with %lld slots at most 1e8 keys of a "
                           "step are taken.",
                           (long long)c->in.batch, (long long)features->slots);
    if (!luo_args_has(&cli->args, "data")) return draw(cli, c, (uint64_t)seed, err);
    LUO_TRY(luo_embed_samples(cli, "data", (uint64_t)seed, &c->samples, err));
    if (c->samples.slots != features->slots)
        return luo_err_set(err, LUO_EUSAGE,
                           "samples of `--data` have %d slots; model `%s` has %lld.",
                           c->samples.slots, c->model->name, (long long)features->slots);
    if (c->samples.embeds > features->rows)
        return luo_err_set(err, LUO_EUSAGE,
                           "samples of `--data` have %d different keys; model `%s` has %lld rows.",
                           c->samples.embeds, c->model->name, (long long)features->rows);
    if (c->samples.samples < 1)
        return luo_err_set(err, LUO_EUSAGE, "`--data` has no samples; one at least is needed.");
    return LUO_OK;
}

static luo_status read_call(luo_cli *cli, call *c, luo_err *err)
{
    const luo_args *args = &cli->args;
    int64_t servers;
    LUO_TRY(luo_args_int(args, "global-batch-size", 8192, 1, 1 << 24, &c->in.batch, err));
    LUO_TRY(luo_args_int(args, "servers", 0, 1, LUO_TABLES_DEVICES, &servers, err));
    LUO_TRY(read_cache(args, c, err));
    LUO_TRY(luo_cli_cluster(cli, &c->cluster));
    LUO_TRY(luo_cli_stack(cli, &c->stack));
    LUO_TRY(luo_plan_rates(cli, c->cluster, &c->rate, &c->candidate, err));
    LUO_TRY(read_samples(cli, c, err));
    c->in.servers = (int32_t)servers;
    c->in.samples = &c->samples;
    c->in.rate = c->rate;
    c->in.candidate = c->candidate;
    return LUO_OK;
}

/* ---- the explanation ---- */

enum { LINES = LUO_TABLES_WAYS + 6 };

typedef struct explanation {
    const char *line[LINES];
    int n;
} explanation;

static void say(explanation *x, const char *line)
{
    if (line && x->n < LINES) x->line[x->n++] = line;
}

static const luo_tables_answer_way *best_of(const call *c)
{
    return &c->answer.at[c->answer.best];
}

static void say_way(luo_arena *arena, explanation *x, const call *c, luo_tables_way way)
{
    const luo_tables_answer_way *w = &c->answer.at[way], *best = best_of(c);
    const char *name = luo_tables_way_of(way)->name, *servers = "";
    if (w->servers) servers = luo_arena_printf(arena, " with %d servers", w->servers);
    if (w == best)
        say(x, luo_arena_printf(arena, "%s %.6g s%s, chosen; %d tried", name, w->step.seconds,
                                servers, w->tried));
    else if (isfinite(w->step.seconds))
        say(x, luo_arena_printf(arena, "%s %.6g s%s, not chosen: %.3fx slower; %d tried", name,
                                w->step.seconds, servers, w->step.seconds / best->step.seconds,
                                w->tried));
    else
        say(x, luo_arena_printf(arena, "%s %s", name, w->why));
}

static void say_parts(luo_arena *arena, explanation *x, const luo_judgement *step)
{
    say(x, luo_arena_printf(arena,
                            "of the step %.1f %% is computation and %.1f %% exchange that "
                            "nothing hides",
                            100 * step->mean.compute_s / step->seconds,
                            100 * luo_plan_share_exposed(step) / step->seconds));
}

/* How samples are dealt, and how much slower the same way is with what else was tried. */
static void say_samples(luo_arena *arena, explanation *x, const luo_tables_answer *answer)
{
    static const char *const whys[LUO_TABLES_DEALS] = {
        [LUO_TABLES_LEVEL] = ", so that the longest computation is shortest"};
    const luo_tables_answer_way *best = &answer->at[answer->best];
    luo_str text = {0};
    luo_str_addf(&text, "samples of a device: %lld", (long long)answer->least);
    if (answer->least != answer->most) luo_str_addf(&text, " to %lld", (long long)answer->most);
    for (int i = 0, told = 0; i < LUO_TABLES_DEALS; i++) {
        if (i == (int)best->deal || isinf(best->dealt_s[i])) continue;
        if (!told++)
            luo_str_addf(&text, ", %s%s", luo_tables_deal_name(best->deal),
                         whys[best->deal] ? whys[best->deal] : "");
        luo_str_addf(&text, "%s %s %.3fx slower", told > 1 ? "," : ":",
                     luo_tables_deal_name((luo_tables_deal)i),
                     best->dealt_s[i] / best->step.seconds);
    }
    say(x, text.failed ? NULL : luo_arena_strdup(arena, luo_str_get(&text)));
    luo_str_free(&text);
}

/* Who has planned the dense part, and how much slower the same way is with the other one. */
static void say_part(luo_arena *arena, explanation *x, const luo_tables_answer *answer)
{
    const luo_tables_answer_way *best = &answer->at[answer->best];
    const luo_tables_part other = LUO_TABLES_PARTS - 1 - best->part;
    const char *took = luo_tables_part_name(best->part), *not = luo_tables_part_name(other);
    const double slower = best->part_s[other] / best->step.seconds;
    const char *cut =
        luo_arena_printf(arena, "dense part: %s, not by samples alone: %s", took, answer->hap);
    if (best->part == LUO_TABLES_BY_HAP && isinf(best->part_s[other]))
        say(x, luo_arena_printf(arena, "%s; %s it does not fit", cut, not ));
    else if (best->part == LUO_TABLES_BY_HAP)
        say(x, luo_arena_printf(arena, "%s; %s %.3fx slower", cut, not, slower));
    else if (luo_tables_way_of((luo_tables_way)answer->best)->dense == LUO_TABLES_SERVERS)
        say(x, luo_arena_printf(arena, "dense part: %s, its parameters on servers", took));
    else if (answer->hap_why[0])
        say(x, luo_arena_printf(arena, "dense part: %s; not %s: %s", took, not, answer->hap_why));
    else if (!answer->hap[0])
        say(x, luo_arena_printf(arena, "dense part: %s; planner hap cuts no layer either", took));
    else if (isinf(best->part_s[other]))
        say(x, luo_arena_printf(arena, "dense part: %s; %s it does not fit", took, not ));
    else
        say(x, luo_arena_printf(arena, "dense part: %s; %s %.3fx slower, not by samples alone: %s",
                                took, not, slower, answer->hap));
}

static void say_choice(luo_arena *arena, explanation *x, const luo_tables_answer *answer)
{
    const luo_tables_way_desc *way = luo_tables_way_of((luo_tables_way)answer->best);
    const char *dense = way->dense == LUO_TABLES_SERVERS                     ? "on servers"
                        : answer->at[answer->best].part == LUO_TABLES_BY_HAP ? "cut by planner hap"
                                                                             : "all-reduced";
    say(x, luo_arena_printf(arena, "%s: %s, the dense part %s", way->name, way->text, dense));
}

static void explain(luo_arena *arena, explanation *x, const call *c)
{
    const luo_tables_answer *answer = &c->answer;
    const luo_tables_answer_way *best = best_of(c);
    const double rows = (double)c->model->features.rows, mb = 1e6;
    *x = (explanation){.n = 0};
    for (luo_tables_way way = 0; way < LUO_TABLES_WAYS; way++) say_way(arena, x, c, way);
    say_choice(arena, x, answer);
    say(x, luo_arena_printf(arena,
                            "a device touches %lld different rows in %lld lookups, %.3g %% of the "
                            "tables; all together send %.3f MB before forward and %.3f MB after "
                            "backward",
                            (long long)answer->touched, (long long)answer->looked_up,
                            100 * (double)answer->touched / rows, best->pull_bytes / mb,
                            best->push_bytes / mb));
    say_samples(arena, x, answer);
    say_part(arena, x, answer);
    say_parts(arena, x, &best->step);
    say(x, luo_arena_printf(arena, "memory of the fullest device: %.1f %%",
                            100 * best->step.memory_ratio));
}

static void print_text(luo_cli *cli, const call *c)
{
    FILE *out = luo_cli_out(cli);
    char program[17];
    explanation x;
    explain(cli->arena, &x, c);
    fprintf(out, "Choose %s: a step of %lld samples takes %.4g s, memory %.1f %% full%s.\n",
            luo_tables_way_of((luo_tables_way)c->answer.best)->name, (long long)c->in.batch,
            best_of(c)->step.seconds, 100 * best_of(c)->step.memory_ratio,
            c->samples.synthetic ? " (keys are synthetic)" : "");
    for (int i = 0; i < x.n; i++) fprintf(out, "%s\n", x.line[i]);
    fprintf(out, "simulated step %.6f s (program %s)\nplanning: %.3f s\n",
            best_of(c)->step.seconds, luo_hash_print(best_of(c)->program, program), c->planning_s);
}

static double seconds_or_nan(double seconds)
{
    return isfinite(seconds) ? seconds : (double)NAN;
}

static void print_json(luo_cli *cli, const call *c)
{
    luo_jsonw *json = &cli->json;
    const luo_tables_answer_way *best = best_of(c);
    int64_t searched = 0;
    explanation x;
    explain(cli->arena, &x, c);
    luo_jsonw_text(json, "chosen", luo_tables_way_of((luo_tables_way)c->answer.best)->name);
    luo_jsonw_int(json, "servers", best->servers);
    luo_jsonw_int(json, "samples", c->in.batch);
    luo_jsonw_bool(json, "synthetic", c->samples.synthetic);
    luo_jsonw_num(json, "step_s", best->step.seconds, 9);
    luo_jsonw_num(json, "memory_ratio", best->step.memory_ratio, 9);
    luo_jsonw_text(json, "dense", luo_tables_part_name(best->part));
    luo_jsonw_text(json, "dense_hap", c->answer.hap_why[0] ? NULL : c->answer.hap);
    luo_jsonw_text(json, "dense_hap_reason", c->answer.hap_why[0] ? c->answer.hap_why : NULL);
    luo_jsonw_open(json, "candidates", '[');
    for (luo_tables_way way = 0; way < LUO_TABLES_WAYS; way++) {
        const luo_tables_answer_way *w = &c->answer.at[way];
        const bool fits = isfinite(w->step.seconds);
        luo_jsonw_open(json, NULL, '{');
        luo_jsonw_text(json, "planner", luo_tables_way_of(way)->name);
        luo_jsonw_num(json, "step_s", seconds_or_nan(w->step.seconds), 9);
        luo_jsonw_bool(json, "fits", fits);
        luo_jsonw_int(json, "servers", w->servers);
        luo_jsonw_int(json, "pull_bytes", (int64_t)w->pull_bytes);
        luo_jsonw_int(json, "push_bytes", (int64_t)w->push_bytes);
        luo_jsonw_text(json, "samples", fits ? luo_tables_deal_name(w->deal) : NULL);
        luo_jsonw_text(json, "dense", fits ? luo_tables_part_name(w->part) : NULL);
        luo_jsonw_num(json, "data_parallel_s", seconds_or_nan(w->part_s[LUO_TABLES_PARALLEL]), 9);
        luo_jsonw_num(json, "hap_s", seconds_or_nan(w->part_s[LUO_TABLES_BY_HAP]), 9);
        luo_jsonw_int(json, "tried", w->tried);
        luo_jsonw_text(json, "reason", fits ? NULL : w->why);
        luo_jsonw_close(json);
        searched += w->tried;
    }
    luo_jsonw_close(json);
    luo_jsonw_open(json, "explanation", '[');
    for (int i = 0; i < x.n; i++) luo_jsonw_text(json, NULL, x.line[i]);
    luo_jsonw_close(json);
    luo_jsonw_int(json, "searched", searched);
    luo_jsonw_hash(json, "program_hash", best->program);
    luo_jsonw_num(json, "time_s", c->planning_s, 9);
}

luo_status luo_auto_of_tables(luo_cli *cli, const luo_model *model, luo_err *err)
{
    call *c = LUO_NEW(cli->arena, call);
    if (!c) return luo_err_nomem(err);
    c->model = model;
    LUO_TRY(check_options(&cli->args, model, err));
    LUO_TRY(read_call(cli, c, err));
    c->judge = luo_plan_judge(model, c->cluster, &c->stack);
    c->in.judge = &c->judge;
    const double start = luo_cli_wall_s();
    const luo_status st = luo_tables_plan(&c->in, &c->answer, err);
    c->planning_s = luo_cli_wall_s() - start;
    luo_judge_free(&c->judge);
    LUO_TRY(st);
    if (cli->as_json)
        print_json(cli, c);
    else
        print_text(cli, c);
    return LUO_OK;
}
