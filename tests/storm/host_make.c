/* host_make.c: settings, and random plans: uneven pipelines and layers, shares of
 * tensor parallelism, ZeRO-1, recompute, GPipe and interleaving. */
#include <stdio.h>
#include <string.h>

#include "core/io/io.h"
#include "core/io/write_plan.h"
#include "tests/plan_make.h"
#include "tests/storm/host.h"

#define LLAMA                                                                                      \
    "schema: luoshu.model/1\nfamily: llama\nvocab: 96\nmax_sequence_tokens: 64\ndtype: f64\n"
#define GPT "schema: luoshu.model/1\nfamily: gpt\nvocab: 96\nmax_sequence_tokens: 64\ndtype: f64\n"
/* So small that a step is mostly messages. */
const storm_setting storm_settings[] = {
    {"llama4", LLAMA "name: llama4\nlayers: 4\nhidden: 32\nffn_hidden: 80\nheads: 8\nkv_heads: 4\n",
     4, 8, 4, 8, 32},
    {"gpt5", GPT "name: gpt5\nlayers: 5\nhidden: 32\nffn_hidden: 96\nheads: 4\n", 5, 4, 4, 6, 16},
    {"grouped6",
     LLAMA "name: grouped6\nlayers: 6\nhidden: 48\nffn_hidden: 64\nheads: 8\n"
           "kv_heads: 2\nqk_norm: true\n",
     6, 8, 2, 7, 24},
    {"llama3",
     LLAMA "name: llama3\nlayers: 3\nhidden: 64\nffn_hidden: 160\nheads: 8\nkv_heads: 8\n", 3, 8, 8,
     12, 16},
};
const int storm_nsettings = sizeof storm_settings / sizeof *storm_settings;

/* A core as a device, as in scenarios/host/chosen.yaml. */
static const char profile[] =
    "schema: luoshu.profile/1\nname: chosen\nkind: cpu\nvalues:\n"
    "  - {name: peak_f32_tflop_per_s, value: 0.05, source: chosen, provenance: chosen}\n"
    "  - {name: peak_f64_tflop_per_s, value: 0.025, source: chosen, provenance: chosen}\n"
    "  - {name: memory_gib, value: 4, source: chosen, provenance: chosen}\n"
    "  - {name: memory_gbytes_per_s, value: 10, source: chosen, provenance: chosen}\n"
    "  - {name: reserved_gib, value: 0.1, source: chosen, provenance: chosen}\n"
    "  - {name: launch_us, value: 1, source: chosen, provenance: chosen}\n"
    "  - {name: net_half_bytes, value: 16384, source: chosen, provenance: chosen}\n";

/* Of those cases that overlap (storm_overlaps). */
static const char beside[] = "schema: luoshu.stack/1\nname: beside\nvalues: []\nswitches:\n"
                             "  - {name: dp_overlap, value: on}\n"
                             "  - {name: bucket_rule, value: unit}\n";

static void write_cluster(storm_case *c)
{
    c->per_node = c->devices % 2 == 0 && storm_chance(c, 60) ? 2
                  : storm_chance(c, 50)                      ? 1
                                                             : c->devices;
    const int per_node = c->per_node;
    luo_str s = {0};
    luo_str_addf(&s,
                 "schema: luoshu.cluster/1\nname: storm\nnode_groups:\n  - name: cpu\n"
                 "    nodes: %d\n    devices_per_node: %d\n    profile: profile.yaml\n"
                 "    pcie: {bandwidth_gbytes_per_s: 5, latency_us: 2}\n",
                 c->devices / per_node, per_node);
    if (c->devices > per_node)
        luo_str_add(
            &s, "    nics: {count: 1, bandwidth_gbytes_per_s: 5, latency_us: 2, attach: slot}\n");
    luo_str_add(&s, "    host: {cores: 2, memory_gib: 8}\n");
    if (c->devices > per_node) luo_str_add(&s, "fabric: {kind: single}\n");
    storm_write(c, storm_path(c, "cluster.yaml"), luo_str_get(&s));
    luo_str_free(&s);
}

static void write_plan(storm_case *c, luo_plan *p, const char *path)
{
    luo_str s = {0};
    p->name = "storm";
    p->model = c->setting->name;
    p->cluster = "storm";
    p->dtype = LUO_F64;
    p->devices = c->devices;
    p->sequence_tokens = c->setting->tokens;
    for (int32_t i = 0; i < p->npipelines; i++)
        ((luo_pipeline *)p->pipelines)[i].micro_batch_sequences = p->micro_batch_sequences;
    luo_plan_json(&s, p);
    storm_write(c, path, luo_str_get(&s));
    luo_str_free(&s);
}

void storm_make_inputs(storm_case *c)
{
    char line[64];
    c->setting = &storm_settings[storm_draw(c, 0, storm_nsettings - 1)];
    c->data_seed = (uint64_t)storm_draw(c, 1, 2);
    c->devices = (int32_t)(storm_chance(c, 75) ? storm_draw(c, 2, 4) : storm_draw(c, 5, 8));
    c->steps = (int32_t)storm_draw(c, 5, 12);
    c->longer = storm_chance(c, 12);
    storm_write(c, storm_path(c, "model.yaml"), c->setting->model);
    storm_write(c, storm_path(c, "profile.yaml"), profile);
    storm_write(c, storm_path(c, "stack.yaml"), beside);
    write_cluster(c);
    snprintf(line, sizeof line, "%d: [0]*%d", c->setting->sequences, c->setting->layers);
    luo_plan *alone = luo_test_plan(c->arena, line);
    alone->sequence_parallel = false;
    write_plan(c, alone, storm_path(c, "alone.json"));
}

/* ---- a random plan ---- */

typedef struct shape { /* how devices and sequences are dealt */
    int pipes, stages[8], tp[8][8], micro_batches[8], chunks;
    int32_t device[8];
    int used;
} shape;

static int widest(const storm_case *c)
{
    return c->setting->kv_heads < 4 ? c->setting->kv_heads : 4;
}

/* A pipeline on n devices, cut into stages of 1, 2 or 4. */
static void draw_stages(storm_case *c, shape *s, int p, int n)
{
    s->stages[p] = 0;
    while (n > 0 && s->stages[p] < c->setting->layers) {
        int tp = 1 << storm_draw(c, 0, 2);
        while (tp > n || tp > widest(c)) tp /= 2;
        s->tp[p][s->stages[p]++] = tp;
        s->used += tp;
        n -= tp;
        if (storm_chance(c, 15)) break; /* the rest idles */
    }
}

static void shuffle(storm_case *c, shape *s)
{
    for (int i = 0; i < c->devices; i++) s->device[i] = i;
    if (storm_chance(c, 40)) return;
    for (int i = c->devices - 1; i > 0; i--) {
        const int k = (int)storm_draw(c, 0, i);
        const int32_t was = s->device[i];
        s->device[i] = s->device[k];
        s->device[k] = was;
    }
}

static void deal_sequences(storm_case *c, shape *s)
{
    for (int p = 0; p < s->pipes; p++) s->micro_batches[p] = 1;
    for (int k = s->pipes; k < c->setting->sequences; k++)
        s->micro_batches[storm_draw(c, 0, s->pipes - 1)]++;
}

static bool may_interleave(const storm_case *c, const shape *s)
{
    for (int p = 0; p < s->pipes; p++)
        if (s->micro_batches[p] % s->stages[p] || 2 * s->stages[p] > c->setting->layers)
            return false;
    return true;
}

static void draw_shape(storm_case *c, shape *s)
{
    *s = (shape){.pipes = (int)storm_draw(c, 1, c->devices < 3 ? c->devices : 3), .chunks = 1};
    shuffle(c, s);
    for (int p = 0, left = c->devices; p < s->pipes; p++) {
        const int most = left - (s->pipes - 1 - p);
        const int n = p == s->pipes - 1 ? most : (int)storm_draw(c, 1, most);
        draw_stages(c, s, p, n);
        left -= n;
    }
    for (int tries = 0; tries < 8; tries++) {
        deal_sequences(c, s);
        if (!may_interleave(c, s)) continue;
        if (storm_chance(c, 50)) s->chunks = 2;
        return;
    }
}

/* Layers of the parts of a pipeline; interleaved parts hold one at least. */
static void deal_layers(storm_case *c, int parts, bool empty, int *layers)
{
    int left = c->setting->layers;
    for (int k = 0; k < parts; k++) left -= layers[k] = !empty;
    for (; left > 0; left--) layers[storm_draw(c, 0, parts - 1)]++;
}

static void add_stage(storm_case *c, luo_str *line, const shape *s, int tp, int *next)
{
    luo_str_add(line, " [");
    for (int k = 0; k < tp; k++) luo_str_addf(line, "%s%d", k ? "," : "", s->device[(*next)++]);
    luo_str_addc(line, ']');
    if (tp == 2 && widest(c) >= 4 && storm_chance(c, 35))
        luo_str_add(line, storm_chance(c, 50) ? ":(3,1)" : ":(1,3)");
}

static void add_pipeline(storm_case *c, luo_str *line, const shape *s, int p, int *next)
{
    int layers[16];
    const int n = s->stages[p];
    deal_layers(c, n * s->chunks, s->chunks == 1 && storm_chance(c, 20), layers);
    luo_str_addf(line, "%s%d:", p ? " || " : "", s->micro_batches[p]);
    for (int k = 0; k < n; k++) {
        add_stage(c, line, s, s->tp[p][k], next);
        for (int chunk = 0; chunk < s->chunks; chunk++)
            luo_str_addf(line, "%s%d", chunk ? "+" : "*", layers[chunk * n + k]);
    }
}

/* Two sequences a micro-batch, where every pipeline has an even number of them. */
static void join_sequences(storm_case *c, luo_plan *p)
{
    for (int32_t i = 0; i < p->npipelines; i++)
        if (p->pipelines[i].micro_batches % 2) return;
    if (p->chunks > 1 || storm_chance(c, 60)) return;
    p->micro_batch_sequences = 2;
    for (int32_t i = 0; i < p->npipelines; i++)
        ((luo_pipeline *)p->pipelines)[i].micro_batches /= 2;
}

/* Often one for all, since planners ask for that. */
static void draw_recompute(storm_case *c, luo_plan *p)
{
    const bool all = storm_chance(c, 60);
    luo_recompute mode = (luo_recompute)storm_draw(c, 0, 2);
    for (int32_t i = 0; i < p->npipelines; i++)
        for (int32_t s = 0; s < p->pipelines[i].nstages; s++) {
            if (!all) mode = (luo_recompute)storm_draw(c, 0, 2);
            ((luo_stage *)p->pipelines[i].stages)[s].recompute = mode;
        }
}

static void draw_options(storm_case *c, luo_plan *p)
{
    p->zero = storm_chance(c, 45);
    p->sequence_parallel = storm_chance(c, 50);
    if (p->chunks == 1 && storm_chance(c, 30)) p->schedule = LUO_SCHED_GPIPE;
    else if (p->chunks == 1 && storm_chance(c, 30)) p->schedule = LUO_SCHED_ZB_H1;
    draw_recompute(c, p);
    join_sequences(c, p);
}

void storm_make_plan(storm_case *c, const char *path)
{
    shape s;
    luo_str line = {0}, schedule = {0};
    int next = 0;
    draw_shape(c, &s);
    for (int p = 0; p < s.pipes; p++) add_pipeline(c, &line, &s, p, &next);
    luo_plan *p = luo_test_plan(c->arena, luo_str_get(&line));
    draw_options(c, p);
    luo_str_addf(&schedule, ", %s", luo_sched_name(p->schedule));
    storm_tell(c, "%s: %s%s%s on %d devices", strrchr(path, '/') + 1, luo_str_get(&line),
               p->zero ? ", ZeRO-1" : "", p->chunks > 1 ? "" : luo_str_get(&schedule),
               c->devices);
    luo_str_free(&line);
    luo_str_free(&schedule);
    write_plan(c, p, path);
}
