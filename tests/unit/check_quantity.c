/* check_quantity.c: every reader holds what it reads to the table of quantities: one
 * step below its lowest value and one above its highest are refused at the value, with the range in
 * the sentence, and both ends are taken. Nobody keeps ranges of his own. */
#include "core/base/quantity.h"

#include <math.h>

#include "core/io/read/read.h"
#include "tests/check_main.h"

typedef enum reader {
    CLUSTER,
    PROFILE,
    STACK,
    MODEL,
    SCENARIO,
    TRACE,
    CAUSES,
    RATES,
    PARAMS,
    PLAN
} reader;

/* `@` stands for the value; files named are those of tests/golden/inputs. */
#define CLUSTER_OF(keys, rest)                                                                     \
    "schema: luoshu.cluster/1\nname: c\nnode_groups:\n  - {name: a, nodes: 2, "                    \
    "devices_per_node: 2, profile: h20.yaml, nics: {count: 2, bandwidth_gbytes_per_s: 25}" keys    \
    "}\nfabric: {kind: single}\n" rest
#define PROFILE_OF(name)                                                                           \
    "schema: luoshu.profile/1\nname: p\nkind: gpu\nvalues:\n  - {name: " name                      \
    ", value: @, source: x, provenance: chosen}\n"
#define SCENARIO_OF(rest)                                                                          \
    "schema: luoshu.scenario/1\nname: s\ncluster: mixed48.yaml\nmodel: llama-32b.yaml\n"           \
    "data: {batch: {sequences: 64}, lengths: {kind: fixed, tokens: 4096}}\n" rest
#define EVENT(keys)                                                                                \
    SCENARIO_OF("extent: {steps: 9}\npolicies: [{name: static}]\nevents:\n  - {id: e, " keys "}"   \
                "\n")
#define POLICY(keys) SCENARIO_OF("extent: {steps: 9}\npolicies: [{name: restart, " keys "}]\n")
#define MODEL_OF(keys) "schema: luoshu.model/1\nname: m\nfamily: gpt\n" keys "\n"

static const struct {
    reader by;
    const char *key, *text;
    luo_quantity_id of;
    double unit;
} rows[] = {
    {CLUSTER, "bandwidth_gbytes_per_s",
     CLUSTER_OF(", scale_up: {kind: nvswitch, bandwidth_gbytes_per_s: @}", ""), LUO_Q_BANDWIDTH,
     1e9},
    {CLUSTER, "latency_us",
     CLUSTER_OF(", scale_up: {kind: nvswitch, bandwidth_gbytes_per_s: 1, latency_us: @}", ""),
     LUO_Q_LATENCY, 1e-6},
    {CLUSTER, "base_slowdown", CLUSTER_OF(", base_slowdown: @", ""), LUO_Q_SLOWDOWN, 1},
    {CLUSTER, "disk_read_gbytes_per_s", CLUSTER_OF(", host: {disk_read_gbytes_per_s: @}", ""),
     LUO_Q_BANDWIDTH, 1e9},
    {CLUSTER, "memory_gib", CLUSTER_OF(", host: {memory_gib: @}", ""), LUO_Q_BYTES, 1073741824.0},
    {CLUSTER, "cores", CLUSTER_OF(", host: {cores: @}", ""), LUO_Q_CORES, 1},
    {CLUSTER, "slowdown",
     CLUSTER_OF("", "health: [{target: \"device:0\", state: slow, slowdown: @}]\n"), LUO_Q_SLOWDOWN,
     1},
    {CLUSTER, "write_gbytes_per_s",
     CLUSTER_OF("", "storage: {read_gbytes_per_s: 1, write_gbytes_per_s: @}\n"), LUO_Q_BANDWIDTH,
     1e9},
    {PROFILE, "peak_bf16_tflop_per_s", PROFILE_OF("peak_bf16_tflop_per_s"), LUO_Q_COMPUTE, 1e12},
    {PROFILE, "memory_gbytes_per_s", PROFILE_OF("memory_gbytes_per_s"), LUO_Q_MEMORY_BANDWIDTH,
     1e9},
    {PROFILE, "memory_gib", PROFILE_OF("memory_gib"), LUO_Q_BYTES, 1073741824.0},
    {PROFILE, "launch_us", PROFILE_OF("launch_us"), LUO_Q_LATENCY, 1e-6},
    {PROFILE, "gemm_ratio", PROFILE_OF("gemm_ratio"), LUO_Q_RATIO, 1},
    {STACK, "host_launch_us",
     "schema: luoshu.stack/1\nname: s\nvalues: [{name: host_launch_us, value: @, source: x, "
     "provenance: chosen}]\n",
     LUO_Q_LATENCY, 1e-6},
    {MODEL, "layers", MODEL_OF("layers: @"), LUO_Q_LAYERS, 1},
    {MODEL, "hidden", MODEL_OF("hidden: @"), LUO_Q_WIDTH, 1},
    {MODEL, "heads", MODEL_OF("heads: @"), LUO_Q_HEADS, 1},
    {MODEL, "max_sequence_tokens", MODEL_OF("max_sequence_tokens: @"), LUO_Q_SEQUENCE, 1},
    {MODEL, "hidden", "{\"model_type\": \"llama\", \"hidden_size\": @}", LUO_Q_WIDTH, 1},
    {MODEL, "layers", "{\"model_type\": \"llama\", \"num_hidden_layers\": @}", LUO_Q_LAYERS, 1},
    {SCENARIO, "duration_s", SCENARIO_OF("policies: [{name: static}]\nextent: {duration_s: @}\n"),
     LUO_Q_RUN_TIME, 1},
    {SCENARIO, "at_s", EVENT("kind: fail, target: \"device:0\", at_s: @"), LUO_Q_RUN_TIME, 1},
    {SCENARIO, "duration_s", EVENT("kind: fail, target: \"device:0\", at_s: 1, duration_s: @"),
     LUO_Q_TIME, 1},
    {SCENARIO, "slowdown", EVENT("kind: straggler, target: \"device:0\", at_s: 1, slowdown: @"),
     LUO_Q_SLOWDOWN, 1},
    {SCENARIO, "bandwidth_factor",
     EVENT("kind: link, target: \"link:h20-0/nic0\", at_s: 1, bandwidth_factor: @"),
     LUO_Q_LINK_FACTOR, 1},
    {SCENARIO, "extra_latency_us",
     EVENT("kind: link, target: \"link:h20-0/nic0\", at_s: 1, extra_latency_us: @"), LUO_Q_LATENCY,
     1e-6},
    {SCENARIO, "restart_s", POLICY("restart_s: @"), LUO_Q_TIME, 1},
    {TRACE, "value", "t_s,kind,target,value\n1,straggler,device:0,@\n", LUO_Q_SLOWDOWN, 1},
    {TRACE, "value", "t_s,kind,target,value\n1,link,link:x,@\n", LUO_Q_LINK_FACTOR, 1},
    {TRACE, "t_s", "t_s,kind,target\n@,fail,device:0\n", LUO_Q_RUN_TIME, 1},
    {TRACE, "duration_s", "t_s,kind,target,duration_s\n1,fail,device:0,@\n", LUO_Q_TIME, 1},
    {CAUSES, "value", "cause,kind,scope,count,value\nc,straggler,node,1,@\n", LUO_Q_SLOWDOWN, 1},
    {CAUSES, "life_median_s", "cause,kind,scope,count,life_median_s\nc,fail,node,1,@\n", LUO_Q_TIME,
     1},
    {RATES, "rate", "device,rate\n0,@\n", LUO_Q_RATE, 1},
    {PARAMS, "tau_ms", "schema: luoshu.params/1\ntau_ms: @\n", LUO_Q_TIME, 1e-3},
    {PARAMS, "bound_mib", "schema: luoshu.params/1\nbound_mib: @\n", LUO_Q_BYTES, 1048576},
    {PLAN, "layers", "{\"schema\": \"luoshu.plan/1\", \"layers\": @}", LUO_Q_LAYERS, 1},
    {PLAN, "devices", "{\"schema\": \"luoshu.plan/1\", \"devices\": @}", LUO_Q_DEVICES, 1},
    {PLAN, "sequence_tokens", "{\"schema\": \"luoshu.plan/1\", \"sequence_tokens\": @}",
     LUO_Q_SEQUENCE, 1},
};

static void read_it(luo_arena *a, reader by, const luo_source *src, luo_diags *d)
{
    luo_cluster *cluster;
    luo_profile *profile;
    luo_stack stack;
    luo_model *model;
    luo_scenario *scenario;
    luo_event *events;
    luo_cause *causes;
    luo_rate_row *rates;
    luo_params params;
    luo_plan *plan;
    int32_t n;
    switch (by) {
    case CLUSTER:
        luo_read_cluster_text(a, src, NULL, &cluster, d);
        break;
    case PROFILE:
        luo_read_profile_text(a, src, NULL, &profile, d);
        break;
    case STACK:
        luo_read_stack_text(a, src, &stack, d);
        break;
    case MODEL:
        luo_read_model_text(a, src, NULL, &model, d);
        break;
    case SCENARIO:
        luo_read_scenario_text(a, src, NULL, NULL, &scenario, NULL, d);
        break;
    case TRACE:
        luo_read_event_trace(a, src, NULL, 0, 1, &events, &n, d);
        break;
    case CAUSES:
        luo_read_causes(a, src, &causes, &n, d);
        break;
    case RATES:
        luo_read_rates_text(a, src, NULL, &rates, &n, d);
        break;
    case PARAMS:
        luo_read_params_text(a, src, &params, d);
        break;
    case PLAN:
        luo_read_plan_text(a, src, &plan, d);
        break;
    }
}

/* The error about the value of the key; NULL: the value is taken. */
static const luo_err *read_with(luo_arena *a, int row, double v, luo_diags *d)
{
    const char *at = strchr(rows[row].text, '@');
    char *text =
        luo_arena_printf(a, "%.*s%.17g%s", (int)(at - rows[row].text), rows[row].text, v, at + 1);
    const luo_source src = {"tests/golden/inputs/x", text, strlen(text)};
    char want[64];
    snprintf(want, sizeof want, "`%s` ", rows[row].key);
    luo_diags_init(d, a);
    read_it(a, rows[row].by, &src, d);
    for (const luo_diag *x = d->first; x; x = x->next)
        if (strncmp(x->err.text, want, strlen(want)) == 0) return &x->err;
    return NULL;
}

static bool whole(luo_quantity_id of)
{
    return of >= LUO_Q_LAYERS;
}

START_TEST(ends_of_ranges)
{
    luo_arena *a = luo_arena_new(0);
    luo_diags d;
    const luo_quantity *q = luo_quantity_at(rows[_i].of);
    const double lo = q->lowest / rows[_i].unit, hi = q->highest / rows[_i].unit;
    const double below = whole(rows[_i].of) ? lo - 1 : lo * 0.99;
    const double above = whole(rows[_i].of) ? hi + 1 : hi * 1.01;
    const luo_err *e = read_with(a, _i, above, &d);
    ck_assert_msg(e != NULL, "%s: %g is taken", rows[_i].key, above);
    ck_assert_msg(e->line > 0 && e->col > 0, "%s", e->text);
    ck_assert_msg(strstr(e->text, " to ") || strstr(e->text, "at most"), "%s", e->text);
    e = read_with(a, _i, below, &d);
    ck_assert_msg(e != NULL, "%s: %g is taken", rows[_i].key, below);
    ck_assert_msg(e->line > 0 && e->col > 0, "%s", e->text);
    ck_assert_msg((e = read_with(a, _i, lo, &d)) == NULL, "%g: %s", lo, e ? e->text : "");
    ck_assert_msg((e = read_with(a, _i, hi, &d)) == NULL, "%g: %s", hi, e ? e->text : "");
    luo_arena_free(a);
}
END_TEST

/* The table alone: both ends hold, what is beyond is brought back, NaN holds nowhere. */
START_TEST(table)
{
    const luo_quantity_id id = (luo_quantity_id)(_i + 1);
    const luo_quantity *q = luo_quantity_at(id);
    ck_assert(q->name[0] && q->lowest < q->highest);
    ck_assert(luo_quantity_holds(id, q->lowest) && luo_quantity_holds(id, q->highest));
    ck_assert(!luo_quantity_holds(id, nextafter(q->lowest, -INFINITY)));
    ck_assert(!luo_quantity_holds(id, nextafter(q->highest, INFINITY)));
    ck_assert(!luo_quantity_holds(id, NAN));
    ck_assert_double_eq(luo_quantity_clamp(id, -INFINITY), q->lowest);
    ck_assert_double_eq(luo_quantity_clamp(id, INFINITY), q->highest);
}
END_TEST

/* Why the time of a run ends where it does: nanoseconds of two of them add up in 63 bits. */
START_TEST(nanoseconds_fit)
{
    ck_assert(2 * luo_quantity_at(LUO_Q_RUN_TIME)->highest * 1e9 < (double)INT64_MAX);
}
END_TEST

LUO_SUITE("base.quantity", LUO_T_N(ends_of_ranges, LUO_ROWS(rows)),
          LUO_T_N(table, LUO_QUANTITIES - 1), LUO_T(nanoseconds_fit))
