/* What `luoshu plan hap` prints: shares, the program, memory, baselines; or the document. */
#include <math.h>

#include "cli/plan/plan_hap.h"
#include "core/io/result/result.h"

static const luo_hap_triple *triple_of(const luo_hap_call *call, int32_t op)
{
    const luo_hap_program *program = call->result->program;
    return &program->space->triple[program->choice[op]];
}

static luo_hap_stage stage_of(const luo_hap_call *call, int32_t op)
{
    return luo_hap_stage_cost(call->result->program->space, &call->result->numbers, call->cuts,
                              triple_of(call, op));
}

/* ---- text ---- */

enum { TYPE_TEXT = 128 };

/* Name of a type, and how slow it is if it is. Returns text. */
static const char *type_of(const luo_hap_call *call, int32_t type, char text[TYPE_TEXT])
{
    const luo_hap_numbers *numbers = &call->numbers;
    if (numbers->slowdown[type] == 1) return numbers->name[type];
    snprintf(text, TYPE_TEXT, "%.80s %.6gx slower", numbers->name[type], numbers->slowdown[type]);
    return text;
}

static void print_shares(FILE *out, const luo_hap_call *call)
{
    const luo_hap_numbers *numbers = &call->result->numbers;
    char text[TYPE_TEXT];
    for (int32_t s = 0; s < call->graph->nsegments; s++) {
        fprintf(out, "%s%d:", "shares of one device, segment ", s);
        for (int32_t t = 0; t < numbers->ntypes; t++)
            fprintf(out, "%s %.6f x %d %s", t ? "," : "",
                    call->result->shares[s * numbers->ntypes + t], numbers->count[t],
                    type_of(call, t, text));
        fprintf(out, "\n");
    }
}

/* Operations that repeat a line are told apart by their names alone. */
static void print_program(FILE *out, const luo_hap_call *call)
{
    fprintf(out, "%-28s %12s %12s  %s\n", "operation", "compute_ms", "comm_ms", "rule and moves");
    for (int32_t o = 0; o < call->graph->nops; o++) {
        const luo_hap_stage stage = stage_of(call, o);
        luo_str line = {0};
        luo_hap_program_line(&line, call->result->program, o);
        fprintf(out, "%-28s %12.4f %12.4f  %s\n", call->graph->op[o].name, 1e3 * stage.compute_s,
                1e3 * stage.communication_s, luo_str_get(&line));
        luo_str_free(&line);
    }
}

static void print_memory(FILE *out, const luo_hap_call *call)
{
    const luo_hap_numbers *numbers = &call->result->numbers;
    char text[TYPE_TEXT];
    for (int32_t t = 0; t < numbers->ntypes; t++) {
        fprintf(out, "memory of %s: %.2f GiB", type_of(call, t, text),
                call->result->memory_bytes[t] / 0x1p30);
        if (numbers->memory_bytes[t] > 0)
            fprintf(out, " of %.2f", numbers->memory_bytes[t] / 0x1p30);
        fprintf(out, ", nothing recomputed or used again\n");
    }
}

static void print_head(FILE *out, const luo_hap_call *call)
{
    if (call->model)
        fprintf(out, "%d devices, %lld sequences of %lld tokens, ", call->devices.n,
                (long long)call->sequences, (long long)call->tokens);
    else
        fprintf(out, "%s: %d devices, %lld samples, ", luo_hap_network_names()[call->network],
                call->devices.n, (long long)call->sequences);
    fprintf(out, "%s, numbers %s%s\n", luo_dtype_name(call->dtype),
            call->params ? "of " : "of the cost model", call->params ? call->params : "");
}

/* The simulated step, else the additive one; beside the best of the usual ways by the latter. */
static void print_answer(FILE *out, const luo_hap_call *call)
{
    const bool simulated = isfinite(call->step_s);
    const double own = call->result->cost_s;
    luo_str text = {0};
    int best = -1;
    for (int b = 0; b < LUO_HAP_BASELINES; b++)
        if (call->against[b] &&
            (best < 0 || call->against[b]->cost_s < call->against[best]->cost_s))
            best = b;
    luo_str_addf(&text, "A step takes %.4g s", simulated ? call->step_s : own);
    if (simulated) {
        luo_str_add(&text, " (");
        luo_time_range_say(&text, &call->range, call->step_s);
        luo_str_addc(&text, ')');
    } else {
        luo_str_add(&text, " by the additive objective");
    }
    if (best >= 0) luo_str_add(&text, simulated ? "; by the additive objective" : ",");
    if (best >= 0 && call->against[best]->cost_s > own)
        luo_str_addf(&text, " %.2g %% less than %s, the best usual way",
                     100 * (1 - own / call->against[best]->cost_s),
                     luo_hap_baseline_name((luo_hap_baseline)best));
    else if (best >= 0)
        luo_str_addf(&text, " %s is as good", luo_hap_baseline_name((luo_hap_baseline)best));
    fprintf(out, "%s.\n", luo_str_get(&text));
    luo_str_free(&text);
}

void luo_hap_call_text(luo_cli *cli, const luo_hap_call *call)
{
    FILE *out = luo_cli_out(cli);
    const luo_hap_result *result = call->result;
    print_answer(out, call);
    print_head(out, call);
    fprintf(out, "step %.6f s, additive: compute %.6f, communication %.6f; start %s, %d rounds\n",
            result->cost_s, result->parts.compute_s, result->parts.communication_s,
            luo_hap_start_name(result->start), result->rounds);
    if (isfinite(call->step_s)) {
        fprintf(out, "simulated step %.6f s", call->step_s);
        luo_cli_range_print(out, &call->range, call->step_s);
        fputc('\n', out);
    }
    if (call->why) fprintf(out, "not simulated: %s\n", call->why);
    for (int32_t b = 0; b < LUO_HAP_BASELINES; b++)
        if (call->against[b])
            fprintf(out, "%-5s %.6f s\n", luo_hap_baseline_name((luo_hap_baseline)b),
                    call->against[b]->cost_s);
    print_shares(out, call);
    print_memory(out, call);
    print_program(out, call);
    fprintf(out, "searched %d triples, %lld states, %lld expansions in %.3f s\n",
            result->program->space->ntriples, (long long)result->states, (long long)result->pops,
            call->planning_s);
}

/* ---- JSON ---- */

static void json_number(luo_jsonw *json, const char *key, double v)
{
    char text[32];
    snprintf(text, sizeof text, "%.12g", v);
    luo_jsonw_word(json, key, isfinite(v) ? text : "null");
}

static void json_types(luo_jsonw *json, const luo_hap_call *call)
{
    luo_jsonw_open(json, "types", '[');
    for (int32_t t = 0; t < call->devices.ntypes; t++) {
        luo_jsonw_open(json, NULL, '{');
        luo_jsonw_text(json, "profile", call->numbers.name[t]);
        json_number(json, "slowdown", call->numbers.slowdown[t]);
        luo_jsonw_int(json, "count", call->devices.count[t]);
        luo_jsonw_close(json);
    }
    luo_jsonw_close(json);
}

static void json_shares(luo_jsonw *json, const luo_hap_call *call)
{
    const int32_t ntypes = call->devices.ntypes;
    luo_jsonw_open(json, "shares", '[');
    for (int32_t s = 0; s < call->graph->nsegments; s++) {
        luo_jsonw_open(json, NULL, '[');
        for (int32_t t = 0; t < ntypes; t++)
            json_number(json, NULL, call->result->shares[s * ntypes + t]);
        luo_jsonw_close(json);
    }
    luo_jsonw_close(json);
    luo_jsonw_open(json, "segments", '[');
    for (int32_t o = 0; o < call->graph->nops; o++)
        if (o == 0 || call->graph->op[o].segment != call->graph->op[o - 1].segment)
            luo_jsonw_text(json, NULL, call->graph->op[o].name);
    luo_jsonw_close(json);
}

static void json_collectives(luo_jsonw *json, const luo_hap_call *call,
                             const luo_hap_triple *triple)
{
    luo_jsonw_open(json, "collectives", '[');
    for (int32_t i = 0; i < triple->ncoll; i++) {
        const luo_hap_coll *coll = &triple->coll[i];
        bool grouped;
        const double seconds = luo_hap_price(&call->result->numbers, call->cuts, coll, &grouped);
        luo_jsonw_open(json, NULL, '{');
        luo_jsonw_text(json, "kind", luo_hap_move_name((luo_hap_move)coll->kind));
        luo_jsonw_text(json, "variant", grouped ? "grouped" : "padded");
        luo_jsonw_bool(json, "backward", coll->backward);
        luo_jsonw_num(json, "bytes", coll->bytes, 0);
        json_number(json, "time_s", seconds);
        luo_jsonw_close(json);
    }
    luo_jsonw_close(json);
}

static void json_program(luo_jsonw *json, const luo_hap_call *call)
{
    luo_jsonw_open(json, "program", '[');
    for (int32_t o = 0; o < call->graph->nops; o++) {
        const luo_hap_stage stage = stage_of(call, o);
        luo_str line = {0};
        luo_hap_program_line(&line, call->result->program, o);
        luo_jsonw_open(json, NULL, '{');
        luo_jsonw_text(json, "op", call->graph->op[o].name);
        luo_jsonw_text(json, "label", luo_str_get(&line));
        json_number(json, "stage_s", stage.compute_s + stage.communication_s);
        json_collectives(json, call, triple_of(call, o));
        luo_jsonw_close(json);
        luo_str_free(&line);
    }
    luo_jsonw_close(json);
}

static void json_memory(luo_jsonw *json, const luo_hap_call *call)
{
    const luo_hap_numbers *numbers = &call->result->numbers;
    luo_jsonw_open(json, "memory", '[');
    for (int32_t t = 0; t < numbers->ntypes; t++) {
        luo_jsonw_open(json, NULL, '{');
        luo_jsonw_text(json, "profile", numbers->name[t]);
        luo_jsonw_num(json, "bytes", call->result->memory_bytes[t], 0);
        luo_jsonw_num(json, "limit_bytes",
                      numbers->memory_bytes[t] > 0 ? numbers->memory_bytes[t] : (double)NAN, 0);
        luo_jsonw_close(json);
    }
    luo_jsonw_close(json);
}

static void json_baselines(luo_jsonw *json, const luo_hap_call *call)
{
    luo_jsonw_open(json, "baselines", '{');
    for (int32_t b = 0; b < LUO_HAP_BASELINES; b++)
        json_number(json, luo_hap_baseline_name((luo_hap_baseline)b),
                    call->against[b] ? call->against[b]->cost_s : (double)NAN);
    luo_jsonw_close(json);
}

static void json_search(luo_jsonw *json, const luo_hap_call *call)
{
    luo_jsonw_open(json, "search", '{');
    luo_jsonw_int(json, "triples", call->result->program->space->ntriples);
    luo_jsonw_int(json, "states", call->result->states);
    luo_jsonw_int(json, "pops", call->result->pops);
    luo_jsonw_num(json, "time_s", call->planning_s, 6);
    luo_jsonw_close(json);
}

void luo_hap_call_json(luo_cli *cli, const luo_hap_call *call)
{
    luo_jsonw *json = &cli->json;
    const luo_hap_result *result = call->result;
    luo_jsonw_int(json, "devices", call->devices.n);
    json_types(json, call);
    json_number(json, "cost_s", result->cost_s);
    json_number(json, "compute_s", result->parts.compute_s);
    json_number(json, "communication_s", result->parts.communication_s);
    luo_jsonw_text(json, "start", luo_hap_start_name(result->start));
    luo_jsonw_int(json, "rounds", result->rounds);
    json_shares(json, call);
    json_program(json, call);
    json_memory(json, call);
    json_baselines(json, call);
    json_search(json, call);
    json_number(json, "simulated_step_s", call->step_s);
    luo_result_range_json(json, isfinite(call->step_s) ? &call->range : NULL, call->step_s);
    luo_jsonw_bool(json, "compat", call->job.opts.compat);
}
