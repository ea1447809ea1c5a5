/* scenario_check.c: keys that contradict each other within one map of scenario.yaml
 * (docs/formats.md#luoshuscenario1), and what is not in this build. Only the tree is looked at, so
 * that a map is judged even when another part of the file is wrong. */
#include <stdio.h>
#include <string.h>

#include "core/io/document/names.h"
#include "core/io/json_number.h"
#include "core/io/read/scenario_yaml.h"
#include "core/run/driver.h"
#include "core/run/policy/policy.h"
#include "core/sync/mode_keys.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static const char *text_of(const luo_doc_node *map, const char *key)
{
    const luo_doc_node *node = luo_doc_get(map, key);
    return node ? node->text : "";
}

static double number_of(const luo_doc_node *node)
{
    double v = 0;
    if (node) luo_json_number_float(node->text, strlen(node->text), &v);
    return v;
}

/* Of several keys exactly one (or, `least` 0, at most one) is given. what: "event `a`". */
static void one_of(luo_doc *doc, const luo_doc_node *map, const char *what, const char *const *keys,
                   int n, int least, const char *noun)
{
    const luo_doc_node *first = NULL;
    luo_str all = {0};
    for (const luo_doc_node *node = map->first; node; node = node->next) {
        int i = 0;
        while (i < n && strcmp(keys[i], node->key) != 0) i++;
        if (i == n) continue;
        if (!first)
            first = node;
        else
            luo_doc_error_key(doc, node, "%s has `%s` and `%s`; exactly one %s is allowed.", what,
                              first->key, node->key, noun);
    }
    luo_words_choices(&all, keys, n);
    if (!first && least)
        luo_doc_error(doc, map, "%s has no %s; %s is required.", what, noun, luo_str_get(&all));
    luo_str_free(&all);
}

static void check_order(luo_doc *doc, const luo_doc_node *map, const char *key)
{
    const luo_doc_node *node = luo_doc_get(map, key);
    if (node && number_of(luo_doc_nth(node, 0)) > number_of(luo_doc_nth(node, 1)))
        luo_doc_error(doc, node, "`%s` goes down; the lower value comes first.", key);
}

/* ---- events ---- */

enum {
#define BIT(kind, ...) kind = 1 << LUO_EVENT_##kind,
    LUO_EVENT_KIND_LIST(BIT)
#undef BIT
#define ALL(kind, ...) | 1 << LUO_EVENT_##kind
    ANY = (0 LUO_EVENT_KIND_LIST(ALL)) & ~CAUSES,
#undef ALL
#define DATA(kind, word, event, row, process, cause, hits, value, loss, ...)                       \
    | (LUO_HITS_##hits == LUO_HITS_DATA) << LUO_EVENT_##kind
    OF_DATA = 0 LUO_EVENT_KIND_LIST(DATA),
#undef DATA
#define VALUE(kind, word, event, row, process, cause, hits, value, loss, ...)                      \
    | (LUO_VALUE_##value == VALUED) << LUO_EVENT_##kind
#define VALUED LUO_VALUE_SLOWDOWN
    SLOWING = 0 LUO_EVENT_KIND_LIST(VALUE),
#undef VALUED
#define VALUED LUO_VALUE_FACTOR
    NARROWING = 0 LUO_EVENT_KIND_LIST(VALUE),
#undef VALUED
#undef VALUE
#define LOSS(kind, word, event, row, process, cause, hits, value, loss, ...)                       \
    | (LUO_LOSS_##loss == LOST) << LUO_EVENT_##kind
#define LOST LUO_LOSS_BACK
    OVER_AT_ONCE = 0 LUO_EVENT_KIND_LIST(LOSS),
#undef LOST
#define LOST LUO_LOSS_BY_TURNS
    BY_TURNS = 0 LUO_EVENT_KIND_LIST(LOSS)
#undef LOST
#undef LOSS
};

typedef struct key_place {
    const char *key;
    int allowed, required; /* sets of kinds */
} key_place;

static const key_place event_keys[] = {
    {"target", ANY & ~OF_DATA, ANY & ~OF_DATA},
    {"slowdown", SLOWING, 0},
    {"slowdown_between", SLOWING, 0},
    {"bandwidth_factor", NARROWING, 0},
    {"extra_latency_us", NARROWING, 0},
    {"duration_s", ANY & ~OVER_AT_ONCE, 0},
    {"duration_steps", ANY & ~OVER_AT_ONCE, 0},
    {"ramp_s", STRAGGLER, 0},
    {"notice_s", LEAVE, 0},
    {"down_s", BY_TURNS, BY_TURNS},
    {"up_s", BY_TURNS, BY_TURNS},
    {"cause", ANY & ~OF_DATA, 0},
    {"hard", FAIL, 0},
    {"lengths", OF_DATA, OF_DATA},
};
static const key_place process_keys[] = {
    {"slowdown", SLOWING, 0},
    {"slowdown_between", SLOWING, 0},
    {"bandwidth_factor", NARROWING, 0},
    {"extra_latency_us", NARROWING, 0},
    {"duration_s", ANY, 0},
    {"life", ANY, 0},
    {"distribution", ANY, ANY},
    {"mean_s", ANY, ANY},
    {"shape", ANY, 0},
    {"file", CAUSES, CAUSES},
    {"observed_devices", CAUSES, CAUSES},
    {"observed_s", CAUSES, CAUSES},
};

static int kind_bit(const luo_doc_node *map)
{
    const char *word = text_of(map, "kind");
    for (int k = 0; k < LUO_EVENT_KINDS; k++)
        if (strcmp(luo_event_kind_name((luo_event_kind)k), word) == 0) return 1 << k;
    return CAUSES;
}

static void kind_names(int set, luo_str *text)
{
    const char *names[LUO_EVENT_KINDS];
    int n = 0;
    for (int k = 0; k < LUO_EVENT_KINDS; k++)
        if (set >> k & 1) names[n++] = luo_event_kind_name((luo_event_kind)k);
    luo_words_choices(text, names, n);
}

static void check_places(luo_doc *doc, const luo_doc_node *map, const char *what,
                         const key_place *keys, int n)
{
    const int kind = kind_bit(map);
    for (int i = 0; i < n; i++) {
        const luo_doc_node *node = luo_doc_get(map, keys[i].key);
        if (node && !(keys[i].allowed & kind)) {
            luo_str text = {0};
            kind_names(keys[i].allowed, &text);
            luo_doc_error_key(doc, node, "%s is of kind `%s` and has `%s`; that is a key of %s.",
                              what, text_of(map, "kind"), node->key, luo_str_get(&text));
            luo_str_free(&text);
        }
        if (!node && (keys[i].required & kind))
            luo_doc_error(doc, map, "%s of kind `%s` has no `%s`.", what, text_of(map, "kind"),
                          keys[i].key);
    }
}

static void check_what(luo_doc *doc, const luo_doc_node *map, const char *what)
{
    static const char *const slow[] = {"slowdown", "slowdown_between"};
    const luo_doc_node *id = luo_doc_get(map, "id");
    const int kind = kind_bit(map);
    if (!*id->text || strchr(id->text, '#'))
        luo_doc_error(doc, id, "`id` is `%.60s`; a text without `#` is expected.", id->text);
    if (kind & SLOWING) one_of(doc, map, what, slow, COUNT(slow), 1, "slowdown");
    if (kind & NARROWING && !luo_doc_get(map, "bandwidth_factor") &&
        !luo_doc_get(map, "extra_latency_us"))
        luo_doc_error(doc, map,
                      "%s changes nothing; `bandwidth_factor` or `extra_latency_us` is "
                      "required.",
                      what);
    check_order(doc, map, "slowdown_between");
}

void luo_check_event(luo_doc *doc, const luo_doc_node *map)
{
    static const char *const triggers[] = {"at_s", "at_step", "between_s", "between_steps",
                                           "per_step_probability"};
    static const char *const lives[] = {"duration_s", "duration_steps"};
    char what[96];
    snprintf(what, sizeof what, "event `%.60s`", text_of(map, "id"));
    one_of(doc, map, what, triggers, COUNT(triggers), 1, "trigger");
    check_places(doc, map, what, event_keys, COUNT(event_keys));
    check_what(doc, map, what);
    one_of(doc, map, what, lives, COUNT(lives), 0, "life");
    check_order(doc, map, "between_s");
    check_order(doc, map, "between_steps");
}

static void needs(luo_doc *doc, const luo_doc_node *map, const char *dist, const char *key,
                  bool wanted)
{
    const luo_doc_node *node = luo_doc_get(map, key);
    if (wanted && !node) luo_doc_error(doc, map, "`distribution` %s has no `%s`.", dist, key);
    if (!wanted && node)
        luo_doc_error_key(doc, node, "`%s` does not belong to `distribution` %s; leave it out.",
                          key, dist);
}

void luo_check_process(luo_doc *doc, const luo_doc_node *map)
{
    static const char *const lives[] = {"duration_s", "life"};
    const char *dist = text_of(map, "distribution");
    char what[96];
    snprintf(what, sizeof what, "process `%.60s`", text_of(map, "id"));
    check_places(doc, map, what, process_keys, COUNT(process_keys));
    check_what(doc, map, what);
    one_of(doc, map, what, lives, COUNT(lives), 0, "life");
    if (*dist) needs(doc, map, dist, "shape", strcmp(dist, "weibull") == 0);
}

void luo_check_life(luo_doc *doc, const luo_doc_node *map)
{
    const char *dist = text_of(map, "distribution");
    const bool lognormal = strcmp(dist, "lognormal") == 0;
    needs(doc, map, dist, "mean_s", !lognormal);
    needs(doc, map, dist, "shape", strcmp(dist, "weibull") == 0);
    needs(doc, map, dist, "median_s", lognormal);
    needs(doc, map, dist, "sigma", lognormal);
}

/* ---- policies and planners ---- */

/* What a map of `policies` has beside the keys of its policy. */
static const char *const common_keys[] = {"name", "label", "plan", "planner"};

static bool listed(const char *const *names, int n, const char *word)
{
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], word) == 0) return true;
    return false;
}

static bool policy_here(luo_doc *doc, const luo_doc_node *name)
{
    int32_t n;
    const char *const *names = luo_policy_names(&n);
    if (listed(names, n, name->text)) return true;
    luo_str text = {0};
    luo_words_expected(&text, name->text, names, n);
    luo_doc_error(doc, name, "unknown policy `%.60s`; %s", name->text, luo_str_get(&text));
    luo_str_free(&text);
    return false;
}

/* `key` of a policy that does not have it: those of this build that do. */
static void key_elsewhere(luo_doc *doc, const luo_doc_node *node, const char *policy)
{
    int32_t n, has = 0;
    const char *const *names = luo_policy_names(&n);
    const char **having = LUO_NEW_N(doc->arena, const char *, n);
    luo_str text = {0};
    for (int32_t k = 0; having && k < n; k++)
        if (luo_policy_has_key(luo_policy_find(names[k]), node->key)) having[has++] = names[k];
    if (having) luo_words_choices(&text, having, has);
    luo_doc_error_key(doc, node, "`%s` does not belong to policy `%s`; it is a key of %s.",
                      node->key, policy, luo_str_get(&text));
    luo_str_free(&text);
}

void luo_check_policy(luo_doc *doc, const luo_doc_node *map)
{
    const luo_doc_node *name = luo_doc_get(map, "name"), *label = luo_doc_get(map, "label");
    const luo_doc_node *planner = luo_doc_get(map, "planner");
    if (!policy_here(doc, name)) return;
    const luo_policy *policy = luo_policy_find(name->text);
    for (const luo_doc_node *node = map->first; node; node = node->next)
        if (!listed(common_keys, COUNT(common_keys), node->key) &&
            !luo_policy_has_key(policy, node->key))
            key_elsewhere(doc, node, name->text);
    if (planner && *text_of(map, "plan"))
        luo_doc_error_key(doc, planner,
                          "policy `%s` has a `plan` and a `planner`; one of them "
                          "makes its first plan.",
                          name->text);
    if (label && luo_name_fault_of_run(label->text))
        luo_doc_error(doc, label, "`label` is `%.60s`; %s.", label->text,
                      luo_name_fault_of_run(label->text));
    if (luo_doc_get(map, "planner_s") && strcmp(text_of(map, "planner_time"), "measured") == 0)
        luo_doc_error_key(doc, luo_doc_get(map, "planner_s"),
                          "`planner_s` is not used with `planner_time` measured; leave one out.");
}

void luo_check_planner(luo_doc *doc, const luo_doc_node *map)
{
    static const char *const names[] = {
#define LUO_PLANNER(name, says, options) #name,
#include "core/run/first/planners.inc"
#undef LUO_PLANNER
    };
    const luo_doc_node *name = luo_doc_get(map, "name");
    if (listed(names, COUNT(names), name->text)) return;
    luo_str text = {0};
    luo_words_expected(&text, name->text, names, COUNT(names));
    luo_doc_error(doc, name, "unknown planner `%.60s`; %s", name->text, luo_str_get(&text));
    luo_str_free(&text);
}

/* A key of another way of training would be ignored. */
void luo_check_training(luo_doc *doc, const luo_doc_node *map)
{
    const char *sync = text_of(map, "sync");
    const bool adaptive = strcmp(text_of(map, "adaptive"), "true") == 0;
    for (int i = 0; i < luo_nmode_keys; i++) {
        const luo_mode_key *key = &luo_mode_keys[i];
        const luo_doc_node *node = luo_doc_get(map, key->name);
        if (!node || !*sync) continue;
        if (!luo_mode_key_is_of(key, sync))
            luo_doc_error_key(doc, node, "`%s` is not used with `sync` %.20s; leave it out.",
                              key->name, sync);
        else if (key->adaptive && !adaptive)
            luo_doc_error_key(doc, node,
                              "`%s` bounds adaptive waits; add `adaptive: true`, or leave it out.",
                              key->name);
    }
    if (luo_doc_get(map, "servers") && luo_doc_get(map, "server_devices"))
        luo_doc_error_key(doc, luo_doc_get(map, "servers"),
                          "`server_devices` says how many servers there are; leave `servers` out.");
}

/* ---- the rest ---- */

void luo_check_extent(luo_doc *doc, const luo_doc_node *map)
{
    static const char *const keys[] = {"steps", "duration_s"};
    one_of(doc, map, "`extent`", keys, COUNT(keys), 1, "length");
}

void luo_check_job(luo_doc *doc, const luo_doc_node *map)
{
    const luo_doc_node *duration = luo_doc_get(map, "duration_s");
    if (duration && luo_doc_get(map, "steps"))
        luo_doc_error_key(doc, duration,
                          "a job has `steps` and `duration_s`; one of them is expected.");
}

/* A scenario has a model and policies, or jobs. */
static void check_jobs(luo_doc *doc, const luo_doc_node *map)
{
    static const char *const others[] = {"model",     "plan",   "planner", "data",
                                         "policies",  "events", "traces",  "processes",
                                         "checkpoint", "noise",  "expert_load"};
    for (int i = 0; i < COUNT(others); i++)
        if (luo_doc_get(map, others[i]))
            luo_doc_error_key(doc, luo_doc_get(map, others[i]),
                              "a scenario with `jobs` has no `%s`: each job has a model and a plan "
                              "of its own and runs undisturbed; leave it out.",
                              others[i]);
}

void luo_check_scenario(luo_doc *doc, const luo_doc_node *map)
{
    const luo_doc_node *joint = luo_doc_get(map, "joint_steps");
    if (luo_doc_get(map, "jobs"))
        check_jobs(doc, map);
    else if (joint)
        luo_doc_error_key(doc, joint, "`joint_steps` is for `jobs`; there are none.");
}

void luo_check_batch(luo_doc *doc, const luo_doc_node *map)
{
    static const char *const keys[] = {"sequences", "tokens"};
    one_of(doc, map, "`batch`", keys, COUNT(keys), 1, "size");
}

void luo_check_data(luo_doc *doc, const luo_doc_node *map)
{
    const luo_doc_node *node = luo_doc_get(map, "truncate_last");
    if (node && !luo_doc_get(luo_doc_get(map, "batch"), "tokens"))
        luo_doc_error_key(doc, node,
                          "`truncate_last` belongs to batches by `tokens`; leave it out.");
}

enum {
#define LUO_LENGTH(kind, word, is_synthetic) OF_##kind = 1 << LUO_LENGTH_##kind,
#include "core/plan/lengths/kinds.inc"
#undef LUO_LENGTH
    OF_BOUNDS = OF_UNIFORM | OF_LOGNORMAL,
    OF_FILES = OF_HISTOGRAM | OF_FILE
};

static const key_place length_keys[] = {
    {"tokens", OF_FIXED, OF_FIXED},           {"low_tokens", OF_BOUNDS, OF_BOUNDS},
    {"high_tokens", OF_BOUNDS, OF_BOUNDS},    {"median_tokens", OF_LOGNORMAL, OF_LOGNORMAL},
    {"sigma", OF_LOGNORMAL, OF_LOGNORMAL},    {"file", OF_FILES, OF_FILES},
    {"repeat", OF_FILE, 0},                   {"components", OF_MIXTURE, OF_MIXTURE},
};

/* -1: the schema has told. */
static int length_kind(const luo_doc_node *map)
{
    const char *word = text_of(map, "kind");
    for (int k = 0; k < LUO_LENGTH_KINDS; k++)
        if (strcmp(luo_length_kind_name((luo_length_kind)k), word) == 0) return k;
    return -1;
}

void luo_check_lengths(luo_doc *doc, const luo_doc_node *map)
{
    const int kind = length_kind(map);
    const luo_doc_node *low = luo_doc_get(map, "low_tokens");
    const luo_doc_node *high = luo_doc_get(map, "high_tokens");
    for (int i = 0; kind >= 0 && i < COUNT(length_keys); i++) {
        const luo_doc_node *node = luo_doc_get(map, length_keys[i].key);
        if (node && !(length_keys[i].allowed & 1 << kind))
            luo_doc_error_key(doc, node,
                              "`%s` does not belong to lengths of `kind` %s; leave it out.",
                              node->key, luo_length_kind_name((luo_length_kind)kind));
        if (!node && length_keys[i].required & 1 << kind)
            luo_doc_missing(doc, map, length_keys[i].key);
    }
    if (low && high && number_of(low) > number_of(high))
        luo_doc_error(doc, high, "`high_tokens` is below `low_tokens`.");
    const luo_doc_node *parts = luo_doc_get(map, "components");
    if (parts && !parts->first)
        luo_doc_error(doc, parts, "`components` is empty; one component or more is expected.");
    int files = 0;
    for (const luo_doc_node *part = parts ? parts->first : NULL; part; part = part->next)
        files += length_kind(part) == LUO_LENGTH_FILE;
    if (files > LUO_LENGTH_FILES)
        luo_doc_error(doc, parts, "%d `components` are files; %d at most are expected.", files,
                      (int)LUO_LENGTH_FILES);
}

void luo_check_component(luo_doc *doc, const luo_doc_node *map)
{
    if (length_kind(map) == LUO_LENGTH_MIXTURE)
        luo_doc_error(doc, luo_doc_get(map, "kind"),
                      "a component is of `kind` mixture; one mixture has all components.");
    else
        luo_check_lengths(doc, map);
}

void luo_check_checkpoint(luo_doc *doc, const luo_doc_node *map)
{
    static const char *const keys[] = {"every_steps", "every_s", "auto"};
    const luo_doc_node *automatic = luo_doc_get(map, "auto");
    one_of(doc, map, "`checkpoint`", keys, COUNT(keys), 1, "period");
    if (automatic && strcmp(automatic->text, "true") != 0)
        luo_doc_error(doc, automatic, "`auto` is `false`; leave it out, or write `true`.");
}

void luo_check_expert_load(luo_doc *doc, const luo_doc_node *map)
{
    static const struct {
        const char *key, *kind; /* that has it alone */
    } own[] = {{"exponent", "zipf"}, {"file", "trace"}};
    const char *kind = text_of(map, "kind");
    for (int i = 0; i < COUNT(own); i++) {
        const luo_doc_node *node = luo_doc_get(map, own[i].key);
        if (node && *kind && strcmp(own[i].kind, kind) != 0)
            luo_doc_error_key(doc, node,
                              "`%s` does not belong to an `expert_load` of `kind` %.20s; leave it "
                              "out.",
                              node->key, kind);
    }
    if (strcmp(kind, "trace") == 0 && !luo_doc_get(map, "file")) luo_doc_missing(doc, map, "file");
}
