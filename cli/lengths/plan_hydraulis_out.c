/* What `luoshu plan hydraulis` prints: strategies, plans, steps, policies; or the document. */
#include <math.h>

#include "cli/lengths/plan_hydraulis.h"

typedef struct run { /* equal replicas side by side */
    int32_t entry, count;
} run;

/* Runs of a plan's replicas, at most `most`; how many there are. */
static int32_t list_runs(const luo_replicas *plan, run *out, int32_t most)
{
    int32_t n = 0;
    for (int32_t r = 0; r < plan->n; r++) {
        if (n == 0 || out[n - 1].entry != plan->replica[r].entry) {
            if (n == most) return n;
            out[n++] = (run){plan->replica[r].entry, 0};
        }
        out[n - 1].count++;
    }
    return n;
}
enum { RUNS = 32 };

static int32_t devices_of(const luo_pool *pool, const luo_replicas *plan)
{
    int32_t n = 0;
    for (int32_t r = 0; r < plan->n; r++)
        n += luo_pool_devices(&pool->entry[plan->replica[r].entry]);
    return n;
}

/* Stages around slow devices: tensor-parallel size by layers of each. */
static void say_cut(luo_str *text, const luo_pool_split *split, int32_t stages)
{
    luo_str_addf(text, "(cut:");
    for (int32_t s = 0; s < stages; s++)
        luo_str_addf(text, " %d by %d", (int)split->width[s], (int)split->layers[s]);
    luo_str_addf(text, ")");
}

static void say_plan(luo_str *text, const luo_pool *pool, const luo_replicas *plan)
{
    run at[RUNS];
    const int32_t n = list_runs(plan, at, RUNS);
    for (int32_t i = 0; i < n; i++) {
        const luo_pool_entry *entry = &pool->entry[at[i].entry];
        luo_str_addf(text, "%s%d x ", i ? " + " : "", at[i].count);
        if (entry->split)
            say_cut(text, entry->split, entry->pp);
        else
            luo_str_addf(text, "(%d,%d)", entry->tp, entry->pp);
        if (entry->cp > 1) luo_str_addf(text, " cp %d", entry->cp);
    }
}

/* ---- text ---- */

static void print_pool(FILE *out, const luo_hydraulis_call *call)
{
    fprintf(out, "strategies, %s:\n%4s %3s %3s %13s %13s %9s %8s %7s\n",
            call->pool_name ? call->pool_name : "from the cost model", "tp", "cp", "pp",
            "a_ms/token^2", "b_ms/token", "c_ms", "cap", "util");
    for (int32_t k = 0; k < call->pool.n; k++) {
        const luo_pool_entry *entry = &call->pool.entry[k];
        fprintf(out, "%4d %3d %3d %13.6g %13.6g %9.4f %8lld %7lld%s\n", entry->tp, entry->cp,
                entry->pp, entry->a, entry->b, entry->c, (long long)entry->cap,
                (long long)entry->util, entry->cap ? "" : "  excluded: no room");
    }
}

static void print_plans(FILE *out, const luo_hydraulis_call *call)
{
    const luo_candidates *candidates = &call->found;
    fprintf(out, "plans: %d, the mixed ones of %d tried (%.3f s)\n%4s %-9s %5s %9s %12s  %s\n",
            candidates->n, candidates->mixed_tried, call->proposal_s, "id", "from", "gpus",
            "longest", "ms", "replicas");
    for (int32_t p = 0; p < candidates->n; p++) {
        luo_str text = {0};
        char ms[24] = "-";
        say_plan(&text, &call->pool, &candidates->plan[p]);
        if (isfinite(candidates->ms[p])) snprintf(ms, sizeof ms, "%.3f", candidates->ms[p]);
        fprintf(out, "%4d %-9s %5d %9lld %12s  %s\n", p,
                luo_candidate_source_name(candidates->source[p]),
                devices_of(&call->pool, &candidates->plan[p]), (long long)candidates->longest[p],
                ms, luo_str_get(&text));
        luo_str_free(&text);
    }
}

static void print_steps(FILE *out, const luo_hydraulis_call *call)
{
    fprintf(out, "%4s %9s %8s %8s %5s %12s %12s %12s %14s %12s\n", "step", "sequences", "tokens",
            "longest", "plan", "event_ms", "floor_ms", "balanced_ms", "propagation_ms",
            "simulated_s");
    for (int32_t s = 0; s < call->nsteps; s++) {
        const luo_hydraulis_step *step = &call->step[s];
        char seconds[24] = "-", moves[24] = "-";
        const double t = step->step_s[LUO_LENGTH_POLICY_HYDRAULIS];
        const double ms = step->moves.exposed_ms;
        if (isfinite(ms)) snprintf(moves, sizeof moves, "%.3f", ms);
        if (isfinite(t)) snprintf(seconds, sizeof seconds, "%.6f", t);
        fprintf(out, "%4d %9d %8lld %8lld %4d%c %12.3f %12.3f %12.3f %14s %12s\n", s, step->n,
                (long long)step->tokens, (long long)step->longest, step->plan.plan,
                step->switched ? '*' : ' ', step->plan.event, step->floor.floor_ms,
                step->floor.balanced_ms, moves, seconds);
    }
}

/* Around slow devices, or on devices in another order. */
static void print_unlisted(FILE *out, const luo_hydraulis_call *call)
{
    for (int32_t s = 0; s < call->nsteps; s++) {
        const luo_hydraulis_step *step = &call->step[s];
        const luo_pool *pool = &step->of->setup.pool;
        luo_str text = {0};
        if (luo_hydraulis_is_listed(call, step)) continue;
        say_plan(&text, pool, &step->replicas);
        luo_str_addf(&text, " on devices");
        const int32_t n = devices_of(pool, &step->replicas);
        for (int32_t i = 0; i < n; i++) luo_str_addf(&text, " %d", (int)step->devices[i]);
        fprintf(out, "plan of step %d: %s\n", s, luo_str_get(&text));
        luo_str_free(&text);
    }
}

/* One sequence may set the pace of all: what context parallelism is for. */
typedef struct pace {
    int32_t bound, used;    /* steps with a floor above the balanced part; with such a replica */
    double floor_ms, plain; /* means: with and without context parallelism */
} pace;

static pace pace_of(const luo_hydraulis_call *call)
{
    pace x = {0};
    for (int32_t s = 0; s < call->nsteps; s++) {
        const luo_hydraulis_step *step = &call->step[s];
        const luo_pool *pool = &step->of->setup.pool;
        bool uses = false;
        for (int32_t r = 0; r < step->replicas.n; r++)
            uses |= pool->entry[step->replicas.replica[r].entry].cp > 1 &&
                    step->plan.packed[r].nbins > 0;
        x.used += uses;
        x.bound += step->plain.floor_ms > step->plain.balanced_ms;
        x.floor_ms += step->floor.floor_ms / call->nsteps;
        x.plain += step->plain.floor_ms / call->nsteps;
    }
    return x;
}

static void print_context(FILE *out, const luo_cli *cli, const luo_hydraulis_call *call)
{
    const pace x = pace_of(call);
    if (luo_args_has(&cli->args, "context-parallel"))
        fprintf(out,
                "context parallelism: used in %d of %d steps; the longest sequence alone takes "
                "%.3f ms, %.3f without it\n",
                x.used, call->nsteps, x.floor_ms, x.plain);
    else if (x.bound > 0)
        fprintf(out,
                "context parallelism may pay: in %d of %d steps the longest sequence alone takes "
                "longer than the batch would evenly spread; see --context-parallel\n",
                x.bound, call->nsteps);
    else
        fprintf(out, "context parallelism: no step waits for one sequence\n");
}

static void print_policies(FILE *out, const luo_hydraulis_call *call)
{
    fprintf(out, "mean of %d steps:\n%-14s %12s %12s\n", call->nsteps, "policy", "event_ms",
            "simulated_s");
    for (int32_t p = 0; p < LUO_LENGTH_POLICIES; p++) {
        const double event = luo_hydraulis_mean(call, (luo_length_policy)p, false);
        const double step = luo_hydraulis_mean(call, (luo_length_policy)p, true);
        char text[2][24] = {"-", "-"};
        if (isfinite(event)) snprintf(text[0], sizeof text[0], "%.3f", event);
        if (isfinite(step)) snprintf(text[1], sizeof text[1], "%.6f", step);
        fprintf(out, "%-14s %12s %12s\n", luo_length_policy_name((luo_length_policy)p), text[0],
                text[1]);
    }
}

static void print_beyond(FILE *out, const luo_hydraulis_call *call)
{
    const luo_length_beyond *beyond = &call->beyond;
    const bool splits = call->in.rule.splits;
    if (beyond->longer <= 0) return;
    fprintf(out,
            "beyond the context: %.*f of %.0f sequences, the longest of %lld tokens; %s, which is "
            "%.1f %% of all tokens\n",
            beyond->longer == floor(beyond->longer) ? 0 : 1, beyond->longer, beyond->sequences,
            (long long)beyond->longest,
            splits ? "the rest of each is split off into others" : "the rest of each is cut off",
            100 * beyond->over / beyond->tokens);
}

/* Simulated steps, else those of the pool; beside the fastest of the rivals. */
static void print_answer(FILE *out, const luo_hydraulis_call *call)
{
    const double simulated_s = luo_hydraulis_mean(call, LUO_LENGTH_POLICY_HYDRAULIS, true);
    const bool simulated = isfinite(simulated_s);
    const double unit = simulated ? 1 : 1e-3; /* of the pool: ms */
    const double own = luo_hydraulis_mean(call, LUO_LENGTH_POLICY_HYDRAULIS, simulated);
    double best = INFINITY;
    const char *rival = "";
    if (call->nsteps == 0 || !isfinite(own)) return;
    for (int p = 0; p < LUO_LENGTH_POLICIES; p++) {
        const double other = luo_hydraulis_mean(call, (luo_length_policy)p, simulated);
        if (p == LUO_LENGTH_POLICY_HYDRAULIS || !(other < best)) continue;
        best = other;
        rival = luo_length_policy_name((luo_length_policy)p);
    }
    fprintf(out, "A step of hydraulis takes %.4g s in the mean of %d batches, %s", unit * own,
            call->nsteps, simulated ? "simulated" : "by the pool");
    if (best > own * (1 + 1e-9))
        fprintf(out, ": %.2g %% less than of %s, the next.\n", 100 * (1 - own / best), rival);
    else if (isfinite(best))
        fprintf(out, "; of %s %s.\n", rival, best < own * (1 - 1e-9) ? "less" : "the same");
    else
        fputs(".\n", out);
}

void luo_hydraulis_text(luo_cli *cli, const luo_hydraulis_call *call)
{
    FILE *out = luo_cli_out(cli);
    print_answer(out, call);
    const luo_histogram *histogram = &call->found.histogram;
    double count = 0;
    for (int32_t i = 0; i < histogram->n; i++) count += histogram->count[i];
    fprintf(out, "lengths: %s%s, mean %.1f, longest %lld; %lld tokens a step, context %lld\n",
            call->lengths_name, luo_lengths_synthetic(&call->lengths) ? " (synthetic)" : "",
            histogram->tokens / count,
            (long long)(histogram->n ? histogram->length[histogram->n - 1] : 0),
            (long long)call->in.rule.tokens, (long long)call->in.rule.most);
    print_beyond(out, call);
    fprintf(out, "optimizer: dp %d, tp %d, pp %d\n", call->layout.dp, call->layout.tp,
            call->layout.pp);
    print_pool(out, call);
    print_plans(out, call);
    const int32_t best = call->written[0] < 0; /* the first of the list that was written */
    for (int32_t k = 0; k < call->nwritten; k++)
        if (call->written[k] < 0)
            fprintf(out, "%s: the plan of step %d\n", luo_plan_file(cli, k), call->nsteps - 1);
        else
            fprintf(out, "%s: plan %d%s\n", luo_plan_file(cli, k), call->written[k],
                    k == best ? ", the best of them for all batches alike" : "");
    if (call->nsteps == 0) return;
    print_steps(out, call);
    print_unlisted(out, call);
    print_policies(out, call);
    print_context(out, cli, call);
}

/* ---- JSON ---- */

static void json_number(luo_jsonw *json, const char *key, double v)
{
    luo_jsonw_num(json, key, v, 9); /* not finite: null */
}

static void json_pool(luo_jsonw *json, const luo_hydraulis_call *call)
{
    luo_jsonw_text(json, "pool", call->pool_name);
    luo_jsonw_open(json, "strategies", '[');
    for (int32_t k = 0; k < call->pool.n; k++) {
        const luo_pool_entry *entry = &call->pool.entry[k];
        char number[32];
        luo_jsonw_open(json, NULL, '{');
        luo_jsonw_int(json, "tp", entry->tp);
        luo_jsonw_int(json, "cp", entry->cp);
        luo_jsonw_int(json, "pp", entry->pp);
        snprintf(number, sizeof number, "%.9g", entry->a);
        luo_jsonw_word(json, "a", number);
        snprintf(number, sizeof number, "%.9g", entry->b);
        luo_jsonw_word(json, "b", number);
        luo_jsonw_num(json, "c", entry->c, 6);
        luo_jsonw_int(json, "cap", entry->cap);
        luo_jsonw_bool(json, "excluded", entry->cap == 0);
        luo_jsonw_close(json);
    }
    luo_jsonw_close(json);
}

static void json_plans(luo_jsonw *json, const luo_hydraulis_call *call)
{
    const luo_candidates *candidates = &call->found;
    luo_jsonw_open(json, "plans", '[');
    for (int32_t p = 0; p < candidates->n; p++) {
        run at[RUNS];
        const int32_t n = list_runs(&candidates->plan[p], at, RUNS);
        luo_jsonw_open(json, NULL, '{');
        luo_jsonw_int(json, "id", p);
        luo_jsonw_open(json, "replicas", '[');
        for (int32_t i = 0; i < n; i++) {
            const luo_pool_entry *entry = &call->pool.entry[at[i].entry];
            luo_jsonw_open(json, NULL, '{');
            luo_jsonw_int(json, "tp", entry->tp);
            luo_jsonw_int(json, "cp", entry->cp);
            luo_jsonw_int(json, "pp", entry->pp);
            luo_jsonw_int(json, "count", at[i].count);
            luo_jsonw_close(json);
        }
        luo_jsonw_close(json);
        luo_jsonw_int(json, "gpus", devices_of(&call->pool, &candidates->plan[p]));
        luo_jsonw_int(json, "max_len", candidates->longest[p]);
        json_number(json, "T", candidates->ms[p]);
        luo_jsonw_text(json, "mode", luo_candidate_source_name(candidates->source[p]));
        luo_jsonw_close(json);
    }
    luo_jsonw_close(json);
}

static void json_batches(luo_jsonw *json, const luo_hydraulis_step *step, int32_t r)
{
    luo_jsonw_open(json, "micro_batches", '[');
    for (int32_t u = 0; u < step->plan.packed[r].nbins; u++) {
        luo_jsonw_open(json, NULL, '[');
        for (int32_t i = 0; i < step->n; i++)
            if (step->plan.assign[i] == r && step->plan.bin[i] == u)
                luo_jsonw_int(json, NULL, step->length[i]);
        luo_jsonw_close(json);
    }
    luo_jsonw_close(json);
}

/* dev: those of the replica; what is in no stage stays idle. */
static void json_stages(luo_jsonw *json, const luo_pool_split *split, int32_t stages,
                        const int32_t *dev)
{
    luo_jsonw_open(json, "stages", '[');
    for (int32_t s = 0; s < stages; s++) {
        luo_jsonw_open(json, NULL, '{');
        luo_jsonw_int(json, "tp", split->width[s]);
        luo_jsonw_int(json, "layers", split->layers[s]);
        luo_jsonw_open(json, "devices", '[');
        for (int32_t k = 0; k < split->width[s]; k++)
            luo_jsonw_int(json, NULL, dev[split->first[s] + k]);
        luo_jsonw_close(json);
        luo_jsonw_close(json);
    }
    luo_jsonw_close(json);
}

static void json_replicas(luo_jsonw *json, const luo_hydraulis_step *step)
{
    const luo_replicas *plan = &step->replicas;
    const int32_t *dev = step->devices;
    luo_jsonw_open(json, "replicas", '[');
    for (int32_t r = 0; r < plan->n; r++) {
        const luo_pool_entry *entry = &step->of->setup.pool.entry[plan->replica[r].entry];
        luo_jsonw_open(json, NULL, '{');
        luo_jsonw_int(json, "tp", entry->tp);
        luo_jsonw_int(json, "cp", entry->cp);
        luo_jsonw_int(json, "pp", entry->pp);
        if (entry->split) json_stages(json, entry->split, entry->pp, dev);
        luo_jsonw_open(json, "devices", '[');
        for (int32_t k = 0; k < luo_pool_devices(entry); k++) luo_jsonw_int(json, NULL, *dev++);
        luo_jsonw_close(json);
        json_number(json, "mu", plan->replica[r].mu);
        json_batches(json, step, r);
        luo_jsonw_close(json);
    }
    luo_jsonw_close(json);
}

static void json_steps(luo_jsonw *json, const luo_hydraulis_call *call)
{
    luo_jsonw_open(json, "steps", '[');
    for (int32_t s = 0; s < call->nsteps; s++) {
        const luo_hydraulis_step *step = &call->step[s];
        luo_jsonw_open(json, NULL, '{');
        luo_jsonw_int(json, "step", s);
        luo_jsonw_int(json, "n", step->n);
        luo_jsonw_int(json, "tokens", step->tokens);
        luo_jsonw_int(json, "max_len", step->longest);
        luo_jsonw_int(json, "plan", step->plan.plan);
        luo_jsonw_bool(json, "switched", step->switched);
        json_number(json, "dispatch", step->plan.dispatch);
        json_number(json, "max", step->plan.max);
        json_number(json, "sum", step->plan.sum);
        json_number(json, "event", step->plan.event);
        json_number(json, "bound", step->plan.bound);
        json_number(json, "floor_ms", step->floor.floor_ms);
        json_number(json, "balanced_ms", step->floor.balanced_ms);
        luo_jsonw_bool(json, "listed", luo_hydraulis_is_listed(call, step));
        json_replicas(json, step);
        json_number(json, "propagation_ms", step->moves.exposed_ms);
        json_number(json, "propagation_whole_ms", step->moves.down_ms + step->moves.up_ms);
        json_number(json, "simulated_s", step->step_s[LUO_LENGTH_POLICY_HYDRAULIS]);
        json_number(json, "plan_ms", step->plan_ms);
        luo_jsonw_close(json);
    }
    luo_jsonw_close(json);
}

static void json_policies(luo_jsonw *json, const luo_hydraulis_call *call)
{
    for (int simulated = 0; simulated < 2; simulated++) {
        luo_jsonw_open(json, simulated ? "policies_simulated_s" : "policies", '{');
        for (int32_t p = 0; p < LUO_LENGTH_POLICIES; p++)
            json_number(json, luo_length_policy_name((luo_length_policy)p),
                        luo_hydraulis_mean(call, (luo_length_policy)p, simulated));
        luo_jsonw_close(json);
    }
}

static void json_pace(luo_jsonw *json, const luo_hydraulis_call *call)
{
    const pace x = pace_of(call);
    if (call->nsteps == 0) return;
    luo_jsonw_open(json, "context_parallel", '{');
    luo_jsonw_int(json, "steps_bound", x.bound);
    luo_jsonw_int(json, "steps_used", x.used);
    json_number(json, "floor_ms", x.floor_ms);
    json_number(json, "floor_plain_ms", x.plain);
    luo_jsonw_close(json);
}

void luo_hydraulis_json(luo_cli *cli, const luo_hydraulis_call *call)
{
    luo_jsonw *json = &cli->json;
    const luo_histogram *histogram = &call->found.histogram;
    double count = 0;
    for (int32_t i = 0; i < histogram->n; i++) count += histogram->count[i];
    luo_jsonw_open(json, "lengths", '{');
    luo_jsonw_text(json, "source", call->lengths_name);
    luo_jsonw_bool(json, "synthetic", luo_lengths_synthetic(&call->lengths));
    json_number(json, "mean", histogram->tokens / count);
    luo_jsonw_int(json, "max", histogram->n ? histogram->length[histogram->n - 1] : 0);
    luo_jsonw_text(json, "long", call->in.rule.splits ? "split" : "cut");
    json_number(json, "longer", call->beyond.longer);
    json_number(json, "over_ratio",
                call->beyond.tokens > 0 ? call->beyond.over / call->beyond.tokens : 0);
    luo_jsonw_close(json);
    luo_jsonw_open(json, "os", '[');
    luo_jsonw_int(json, NULL, call->layout.dp);
    luo_jsonw_int(json, NULL, call->layout.tp);
    luo_jsonw_int(json, NULL, call->layout.pp);
    luo_jsonw_close(json);
    json_pool(json, call);
    json_plans(json, call);
    luo_jsonw_open(json, "written", '[');
    for (int32_t k = 0; k < call->nwritten; k++) {
        luo_jsonw_open(json, NULL, '{');
        luo_jsonw_text(json, "file", luo_plan_file(cli, k));
        luo_jsonw_int(json, "plan", call->written[k]);
        luo_jsonw_close(json);
    }
    luo_jsonw_close(json);
    json_steps(json, call);
    json_policies(json, call);
    json_pace(json, call);
    if (call->nsteps > 0) json_number(json, "planner_stall_s", call->stall_s);
    luo_jsonw_hash(json, "plan_hash", call->plan_hash);
    luo_jsonw_open(json, "warnings", '[');
    for (int i = 0; i < call->nwarnings; i++) luo_jsonw_text(json, NULL, call->warning[i]);
    luo_jsonw_close(json);
}
