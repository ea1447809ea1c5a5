/* plan_hap_opts.c: options of `luoshu plan hap`, and which of them do not go together. */
#include <string.h>

#include "cli/plan/plan_hap.h"
#include "core/base/words.h"

static luo_status on_or_off(const luo_args *args, const char *name, bool otherwise, bool *out,
                            luo_err *err)
{
    static const char *const words[] = {"off", "on"};
    int chosen;
    LUO_TRY(luo_args_choice(args, name, otherwise, words, 2, &chosen, err));
    *out = chosen;
    return LUO_OK;
}

/* ---- what is searched ---- */

static luo_status unknown_start(const char *word, size_t n, luo_err *err)
{
    const char *names[LUO_HAP_STARTS];
    char copy[32];
    luo_str text = {0};
    snprintf(copy, sizeof copy, "%.*s", (int)(n < 30 ? n : 30), word);
    for (int32_t s = 0; s < LUO_HAP_STARTS; s++) names[s] = luo_hap_start_name((luo_hap_start)s);
    luo_words_expected(&text, copy, names, LUO_HAP_STARTS);
    luo_err_set(err, LUO_EUSAGE, "`--starts` has `%s`; %s", copy, luo_str_get(&text));
    luo_str_free(&text);
    return LUO_EUSAGE;
}

static luo_status read_starts(const luo_args *args, uint32_t *out, luo_err *err)
{
    const char *at = luo_args_get(args, "starts", NULL);
    if (at && !*at) return unknown_start(at, 0, err);
    while (at && *at) {
        const size_t n = strcspn(at, ",");
        int32_t start = 0;
        while (start < LUO_HAP_STARTS &&
               (strlen(luo_hap_start_name((luo_hap_start)start)) != n ||
                memcmp(luo_hap_start_name((luo_hap_start)start), at, n) != 0))
            start++;
        if (start == LUO_HAP_STARTS) return unknown_start(at, n, err);
        *out |= 1u << start;
        at += n;
        at += *at == ',';
    }
    return LUO_OK;
}

static luo_status read_job(const luo_args *args, luo_hap_call *call, luo_err *err)
{
    static const char *const zeros[] = {"auto", "off", "on"}, *const searches[] = {"astar", "dp"};
    luo_hap_job *job = &call->job;
    bool grouped, memory;
    int zero, search;
    const char *rules = luo_args_get(args, "rules", "all");
    LUO_TRY(read_starts(args, &job->starts, err));
    LUO_TRY(on_or_off(args, "factors", true, &job->opts.factors, err));
    LUO_TRY(on_or_off(args, "grouped", true, &grouped, err));
    LUO_TRY(on_or_off(args, "memory", true, &memory, err));
    LUO_TRY(on_or_off(args, "integer", true, &call->whole, err));
    LUO_TRY(luo_args_choice(args, "zero", 0, zeros, 3, &zero, err));
    LUO_TRY(luo_args_choice(args, "search", 0, searches, 2, &search, err));
    job->no_grouped = !grouped;
    job->no_memory = !memory;
    job->zero = (luo_hap_zero)zero;
    job->opts.layers = search == 1;
    job->opts.rules = strcmp(rules, "all") == 0 ? NULL : rules;
    job->opts.compat = luo_args_has(args, "compat");
    if (job->opts.compat) job->starts = 1u << LUO_HAP_START_PROP;
    job->opts.sayable = !luo_args_has(args, "rules") && !job->opts.compat;
    return LUO_OK;
}

luo_status luo_hap_call_check_rules(const luo_hap_call *call, luo_err *err)
{
    const char *rules = call->job.opts.rules;
    char letters[128];
    if (!rules) return LUO_OK;
    luo_hap_rule_letters(call->graph, letters);
    const size_t known = strspn(rules, letters);
    if (*rules && !rules[known]) return LUO_OK;
    if (!*rules)
        return luo_err_set(err, LUO_EUSAGE,
                           "`--rules` is empty; `all` or letters of `%s` are "
                           "expected.",
                           letters);
    return luo_err_set(err, LUO_EUSAGE,
                       "`--rules` has `%c`, and nothing is cut by it; `all` or letters of `%s` are "
                       "expected.",
                       rules[known], letters);
}

/* ---- what else is asked ---- */

static luo_status read_rank(const luo_args *args, luo_hap_call *call, luo_err *err)
{
    static const char *const ranks[] = {LUO_JUDGED_LIST(LUO_WORD_ONLY)};
    static const luo_judged judged[] = {LUO_JUDGED_LIST(LUO_WORD_VALUE)};
    int rank;
    LUO_TRY(luo_args_choice(args, "rank", -1, ranks, sizeof ranks / sizeof *ranks, &rank, err));
    call->rank = rank < 0 ? LUO_JUDGED_AUTO : judged[rank];
    return LUO_OK;
}

static luo_status read_baseline(const luo_args *args, luo_hap_call *call, luo_err *err)
{
    const char *names[LUO_HAP_BASELINES];
    for (int32_t b = 0; b < LUO_HAP_BASELINES; b++)
        names[b] = luo_hap_baseline_name((luo_hap_baseline)b);
    return luo_args_choice(args, "baseline", -1, names, LUO_HAP_BASELINES, &call->baseline, err);
}

/* A network of the published evaluation instead of a model: its sizes are its own. */
static luo_status read_network(const luo_args *args, luo_hap_call *call, luo_err *err)
{
    static const char *const others[] = {"model", "dtype", "seq-length", "out"};
    LUO_TRY(luo_args_choice(args, "network", -1, luo_hap_network_names(), LUO_HAP_NETWORKS,
                            &call->network, err));
    if (call->network < 0) return LUO_OK;
    call->dtype = LUO_F32;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (luo_args_has(args, others[i]))
            return luo_err_set(
                err, LUO_EUSAGE,
                "`--%s` does not go with `--network`, which has sizes of its own and "
                "makes no plan file; leave one out.",
                others[i]);
    if (call->rank != LUO_JUDGED_SIMULATED) return LUO_OK;
    return luo_err_set(err, LUO_EUSAGE,
                       "`--rank simulated` does not go with `--network`, of which no programs of "
                       "devices are made; leave one out.");
}

/* ---- what does not go together ---- */

typedef struct fixed { /* what an option always is under another one; NULL: it means nothing */
    const char *option, *value;
} fixed;

static luo_status refuse_others(const luo_args *args, const char *under, const fixed *rows,
                                size_t n, luo_err *err)
{
    for (size_t i = 0; i < n; i++) {
        const char *given = luo_args_get(args, rows[i].option, NULL);
        if (!given || (rows[i].value && strcmp(given, rows[i].value) == 0)) continue;
        if (!rows[i].value)
            return luo_err_set(err, LUO_EUSAGE,
                               "`--%s` is about the search, which `--%s` takes the place of; leave "
                               "one out.",
                               rows[i].option, under);
        return luo_err_set(err, LUO_EUSAGE,
                           "`--%s` is `%.40s`, and `--%s` plans as if it were `%s`; leave one out.",
                           rows[i].option, given, under, rows[i].value);
    }
    return LUO_OK;
}

static luo_status check_together(const luo_args *args, luo_err *err)
{
    static const fixed compat[] = {{"starts", "prop"}, {"factors", "off"}, {"grouped", "off"},
                                   {"zero", "off"},    {"memory", "off"},  {"integer", "off"}},
                       baseline[] = {{"starts", NULL},
                                     {"rules", NULL},
                                     {"factors", "off"},
                                     {"zero", "off"},
                                     {"memory", "off"}};
    if (luo_args_has(args, "compat"))
        LUO_TRY(refuse_others(args, "compat", compat, sizeof compat / sizeof *compat, err));
    if (!luo_args_has(args, "baseline")) return LUO_OK;
    return refuse_others(args, "baseline", baseline, sizeof baseline / sizeof *baseline, err);
}

luo_status luo_hap_call_options(const luo_args *args, luo_hap_call *call, luo_err *err)
{
    LUO_TRY(read_job(args, call, err));
    LUO_TRY(read_baseline(args, call, err));
    LUO_TRY(read_rank(args, call, err));
    LUO_TRY(read_network(args, call, err));
    return check_together(args, err);
}
