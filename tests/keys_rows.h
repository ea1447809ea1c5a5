/* keys_rows.h: every key of every schema (docs/formats.md), with a change of it. For
 * unit/check_keys.c only. */
#ifndef LUO_TESTS_KEYS_ROWS_H
#define LUO_TESTS_KEYS_ROWS_H
#include <stddef.h>

/* ---- files in which each key stands ---- */

static const char cluster[] =
    "schema: luoshu.cluster/1\n"
    "name: c\n"
    "node_groups:\n"
    "  - name: ga\n"
    "    nodes: 2\n"
    "    devices_per_node: 4\n"
    "    profile: p.yaml\n"
    "    base_slowdown: 1.5\n"
    "    racks: [r0, r1]\n"
    "    site: east\n"
    "    hosts: [h0, h1]\n"
    "    scale_up: {kind: nvswitch, bandwidth_gbytes_per_s: 401, latency_us: 1.25}\n"
    "    pcie: {bandwidth_gbytes_per_s: 51, latency_us: 1.5, devices_per_switch: 2, sockets: 2, "
    "socket_gbytes_per_s: 61}\n"
    "    nics: {count: 4, bandwidth_gbytes_per_s: 52, latency_us: 2.5, attach: slot}\n"
    "    host: {cores: 96, memory_gib: 1024, disk_read_gbytes_per_s: 6, "
    "disk_write_gbytes_per_s: 3}\n"
    "  - {name: gb, nodes: 1, devices_per_node: 3, profiles: [p.yaml, q.yaml, p.yaml],\n"
    "     racks: [r2], site: east,\n"
    "     scale_up: {kind: mesh, bandwidth_gbytes_per_s: 20},\n"
    "     scale_up_links: [{a: 0, b: 1, lanes: 4}, {a: 1, b: 2, lanes: 1}],\n"
    "     pcie: {bandwidth_gbytes_per_s: 50},\n"
    "     nics: {count: 1, bandwidth_gbytes_per_s: 25}}\n"
    "  - {name: gc, nodes: 1, devices_per_node: 1, profile: p.yaml, racks: [r3], site: west,\n"
    "     nics: {count: 1, bandwidth_gbytes_per_s: 26}}\n"
    "fabric:\n"
    "  kind: two_tier\n"
    "  hop_latency_us: 0.5\n"
    "  rack_uplink_gbytes_per_s: 800\n"
    "  site_links: [{a: east, b: west, bandwidth_gbytes_per_s: 1.25, latency_us: 30000}]\n"
    "storage: {read_gbytes_per_s: 40, write_gbytes_per_s: 21}\n"
    "standby: \"[7]\"\n"
    "health: [{target: \"device:5\", state: slow, slowdown: 1.3}]\n";

static const char profile[] =
    "schema: luoshu.profile/1\n"
    "name: p\n"
    "kind: gpu\n"
    "values:\n"
    "  - {name: peak_bf16_tflop_per_s, value: 148, source: a page, provenance: paper}\n"
    "  - {name: memory_gib, value: 80, source: x, provenance: chosen}\n"
    "  - {name: memory_gbytes_per_s, value: 2000, source: x, provenance: chosen}\n"
    "  - {name: net_ratio, value: 0.9, source: x, provenance: chosen, spread: 0.2}\n"
    "tables: [{kind: op_times, file: ops.csv}]\n"
    "calibrated: {date: 2026-01-02, device: d0, driver: d1, cuda: c0, nccl: n0, rows: 5, "
    "validation_rows: 6}\n";

static const char stack[] =
    "schema: luoshu.stack/1\n"
    "name: s\n"
    "values: [{name: host_launch_us, value: 9, source: x, provenance: chosen, spread: 0.2}]\n"
    "switches: [{name: p2p, value: async}]\n";

static const char llama[] =
    "schema: luoshu.model/1\n"
    "name: m\n"
    "family: llama\n"
    "model_type: llama\n"
    "layers: 4\n"
    "hidden: 64\n"
    "ffn_hidden: 160\n"
    "heads: 8\n"
    "kv_heads: 4\n"
    "head_dim: 16\n"
    "qk_norm: false\n"
    "rope_base: 10000\n"
    "vocab: 256\n"
    "max_sequence_tokens: 128\n"
    "tied_embeddings: false\n"
    "linear_bias: false\n"
    "out_bias: false\n"
    "qkv_bias: false\n"
    "norm: rmsnorm\n"
    "norm_eps: 1e-6\n"
    "activation: swiglu\n"
    "position: rope\n"
    "causal: true\n"
    "dtype: f32\n";

#define LONGROPE(last, long_last)                                                                  \
    "rope_scaling: {kind: longrope, factor: 8, original_tokens: 64, short_factors: [1, 1, 1, "     \
    "1, 1, 1, 1, " last "], long_factors: [1, 2, 3, 4, 5, 6, 7, " long_last "]}\n"
static const char variants[] =
    "schema: luoshu.model/1\n"
    "name: m\n"
    "family: llama\n"
    "layers: 4\nhidden: 64\nffn_hidden: 160\nheads: 8\nvocab: 256\nmax_sequence_tokens: 128\n"
    "parallel_residual: true\n"
    "shared_norm: true\n"
    "post_norms: true\n"
    "norm_offset: true\n"
    "partial_rotary: 0.5\n"
    "rope_local_base: 20000\n"
    "embedding_scale: 8\n"
    "attention_scale: 0.25\n"
    "attention_softcap: 50\n"
    "logit_softcap: 30\n"
    "sliding_window: {tokens: 32, first_layer: 1, every_layers: 3, layers_each: 2}\n"
    "rope_scaling: {kind: llama3, factor: 8, original_tokens: 64, low_freq_factor: 1, "
    "high_freq_factor: 4, beta_fast: 32, beta_slow: 1, attention_factor: 1.5}\n";

static const char moe[] =
    "schema: luoshu.model/1\n"
    "name: m\n"
    "family: moe\n"
    "layers: 4\nhidden: 64\nffn_hidden: 160\nheads: 8\nvocab: 256\nmax_sequence_tokens: 128\n"
    "moe: {experts: 64, experts_per_token: 2, expert_ffn_hidden: 32, shared_experts: 1, "
    "shared_ffn_hidden: 33, first_dense_layers: 1, every_layers: 1, capacity_factor: 1.5, "
    "gate: topk}\n";

static const char mla[] =
    "schema: luoshu.model/1\n"
    "name: m\n"
    "family: moe\n"
    "layers: 4\nhidden: 64\nffn_hidden: 160\nheads: 8\nvocab: 256\nmax_sequence_tokens: 128\n"
    "moe: {experts: 64, experts_per_token: 2, expert_ffn_hidden: 32}\n"
    "attention: {kind: mla, q_lora_rank: 24, kv_lora_rank: 16, qk_nope_head_dim: 10, "
    "qk_rope_head_dim: 6, v_head_dim: 9}\n";

static const char gpt[] =
    "schema: luoshu.model/1\n"
    "name: m\n"
    "family: gpt\n"
    "layers: 4\nhidden: 64\nffn_hidden: 160\nheads: 8\nvocab: 256\nmax_sequence_tokens: 128\n"
    "position_offset: 2\n";

static const char bert[] =
    "schema: luoshu.model/1\n"
    "name: m\n"
    "family: bert\n"
    "layers: 4\nhidden: 64\nffn_hidden: 160\nheads: 8\nvocab: 256\nmax_sequence_tokens: 128\n"
    "token_types: 3\n";

static const char vit[] =
    "schema: luoshu.model/1\n"
    "name: m\n"
    "family: vit\n"
    "layers: 4\nhidden: 64\nffn_hidden: 160\nheads: 8\n"
    "image: {height_px: 224, width_px: 192, channels: 3, patch_px: 16}\n"
    "classes: 10\n";

static const char vgg[] =
    "schema: luoshu.model/1\n"
    "name: m\n"
    "family: vgg\n"
    "image: {height_px: 224, width_px: 192, channels: 3}\n"
    "classes: 10\n"
    "variant: 16\n";

static const char recsys[] = "schema: luoshu.model/1\n"
                             "name: m\n"
                             "family: dlrm\n"
                             "features: {slots: 26, rows: 10000, width: 16, dense: 13}\n"
                             "bottom_mlp: [64, 16]\n"
                             "mlp: [32, 8]\n";

static const char plan[] =
    "{\"schema\":\"luoshu.plan/1\",\"name\":\"n\",\"model\":\"m\",\"cluster\":\"c\",\"layers\":6,"
    "\"devices\":9,\"dtype\":\"f64\",\"sequence_tokens\":32,\"micro_batch_sequences\":2,\"zero\":3,"
    "\"sequence_parallel\":true,\"schedule\":{\"kind\":\"interleaved_1f1b\",\"chunks\":2},"
    "\"pipelines\":[{\"micro_batches\":2,\"micro_batch_sequences\":1,"
    "\"micro_batch_tokens\":[64,63],\"stages\":["
    "{\"layers\":[[0,2],[3,4]],\"devices\":[3,1,2,0],\"context_parallel\":2,\"shares\":[3,1],"
    "\"recompute\":{\"mode\":\"full\",\"layers\":[[0,1]]},\"experts\":\"expert\","
    "\"embedding\":true,\"head\":false},"
    "{\"layers\":[[2,3],[4,6]],\"devices\":[4],\"head\":true}]}],"
    "\"annotations\":[{\"tensor\":\"t\",\"annotation\":\"[0]{}\",\"at\":\"op\","
    "\"variant\":\"2d\"}],"
    "\"assignment\":[{\"sequence\":7,\"length_tokens\":5,\"pipeline\":0,\"micro_batch\":1}],"
    "\"expert_groups\":[[0]],\"state_layout\":{\"data\":2,\"tensor\":1,\"pipeline\":1,"
    "\"devices\":[0,8]},\"pinned\":[\"/zero\"],\"bucket_rule\":\"mib\",\"bucket_mib\":4,"
    "\"shard\":\"hybrid\",\"shard_pipelines\":2,\"prefetch_depth\":3,"
    "\"dp_lanes\":2,\"meta\":{\"s\":1}}";

/* The scenario of docs/formats.md#luoshuscenario1, in a file of its own. */
static const char scenario[] = "tests/golden/inputs/demo-day.yaml";
static const char experts[] = "tests/golden/inputs/experts.yaml";
static const char uneven[] = "tests/golden/inputs/uneven.yaml";
static const char jobs[] = "scenarios/examples/jobs.yaml";

typedef struct row {
    const char *base;
    const char *key;       /* BLOCK.KEY of the schema */
    const char *from, *to; /* in the base; `from` must occur once, NULL: `to` is added at the end */
    const char *says;      /* NULL: the change is seen; else a part of the refusal */
} row;

/* ---- docs/formats.md ---- */

static const row cluster_rows[] = {
    {cluster, "cluster.schema", "cluster/1", "cluster/2", "`schema` is `luoshu.cluster/2`"},
    {cluster, "cluster.name", "name: c\n", "name: d\n", NULL},
    {cluster, "cluster.node_groups", "  - {name: gc,", "  - {name: gd,", NULL},
    {cluster, "cluster.fabric", "fabric:\n  kind: two_tier\n  hop_latency_us: 0.5\n"
     "  rack_uplink_gbytes_per_s: 800\n  site_links: [{a: east, b: west, bandwidth_gbytes_per_s: "
     "1.25, latency_us: 30000}]\n", "", "`fabric` is missing"},
    {cluster, "cluster.storage", "storage: {", "#storage: {", NULL},
    {cluster, "cluster.standby", "\"[7]\"", "\"[6-7]\"", NULL},
    {cluster, "cluster.health", "health:", "#health:", NULL},
    {cluster, "node_groups.name", "name: ga", "name: gx", NULL},
    {cluster, "node_groups.nodes", "{name: gb, nodes: 1", "{name: gb, nodes: 2", NULL},
    {cluster, "node_groups.devices_per_node", "devices_per_node: 4", "devices_per_node: 5", NULL},
    {cluster, "node_groups.profile", "profile: p.yaml\n", "profile: q.yaml\n", NULL},
    {cluster, "node_groups.profiles", "[p.yaml, q.yaml, p.yaml]", "[p.yaml, p.yaml, q.yaml]", NULL},
    {cluster, "node_groups.base_slowdown", "1.5\n", "1.6\n", NULL},
    {cluster, "node_groups.racks", "[r0, r1]", "[r0]", NULL},
    {cluster, "node_groups.site", "site: west", "site: east", "names site `west`"},
    {cluster, "node_groups.hosts", "[h0, h1]", "[h0, h2]", NULL},
    {cluster, "node_groups.scale_up", "    scale_up: {kind: nvswitch, b", "    #{", NULL},
    {cluster, "node_groups.scale_up_links", ", {a: 1, b: 2, lanes: 1}", "", NULL},
    {cluster, "node_groups.pcie", "    pcie: {bandwidth_gbytes_per_s: 51", "    #", NULL},
    {cluster, "node_groups.nics", ",\n     nics: {count: 1, bandwidth_gbytes_per_s: 26}", "",
     "`nics` is missing"},
    {cluster, "node_groups.host", "    host:", "    #host:", NULL},
    {cluster, "scale_up.kind", "{kind: nvswitch, bandwidth_gbytes_per_s: 401, latency_us: 1.25}",
     "{kind: none}", NULL},
    {cluster, "scale_up.bandwidth_gbytes_per_s", "401", "402", NULL},
    {cluster, "scale_up.latency_us", "1.25}\n    pcie", "1.26}\n    pcie", NULL},
    {cluster, "scale_up_links.a", "{a: 1, b: 2", "{a: 0, b: 2", NULL},
    {cluster, "scale_up_links.b", "{a: 0, b: 1", "{a: 0, b: 2", NULL},
    {cluster, "scale_up_links.lanes", "lanes: 4", "lanes: 5", NULL},
    {cluster, "pcie.bandwidth_gbytes_per_s", "51", "55", NULL},
    {cluster, "pcie.latency_us", "1.5,", "1.7,", NULL},
    {cluster, "pcie.devices_per_switch", "switch: 2", "switch: 4", NULL},
    {cluster, "pcie.sockets", "sockets: 2", "sockets: 1", NULL},
    {cluster, "pcie.socket_gbytes_per_s", "61", "62", NULL},
    {cluster, "nics.count", "count: 4", "count: 2", NULL},
    {cluster, "nics.bandwidth_gbytes_per_s", "52", "53", NULL},
    {cluster, "nics.latency_us", "2.5", "2.6", NULL},
    {cluster, "nics.attach", "slot}", "shared}", NULL},
    {cluster, "host.cores", "96", "95", NULL},
    {cluster, "host.memory_gib", "1024", "1025", NULL},
    {cluster, "host.disk_read_gbytes_per_s", "disk_read_gbytes_per_s: 6",
     "disk_read_gbytes_per_s: 7", NULL},
    {cluster, "host.disk_write_gbytes_per_s", "disk_write_gbytes_per_s: 3",
     "disk_write_gbytes_per_s: 4", NULL},
    {cluster, "fabric.kind", "kind: two_tier", "kind: single", NULL},
    {cluster, "fabric.hop_latency_us", "0.5", "0.6", NULL},
    {cluster, "fabric.rack_uplink_gbytes_per_s", "800", "801", NULL},
    {cluster, "fabric.site_links", "{a: east, b: west, bandwidth_gbytes_per_s: 1.25, "
     "latency_us: 30000}", "", "joined"},
    {cluster, "site_links.a", "{a: east,", "{a: nowhere,", "`nowhere`"},
    {cluster, "site_links.b", "b: west,", "b: nowhere,", "`nowhere`"},
    {cluster, "site_links.bandwidth_gbytes_per_s", "s: 1.25,", "s: 1.5,", NULL},
    {cluster, "site_links.latency_us", "30000", "30001", NULL},
    {cluster, "storage.read_gbytes_per_s", "40,", "41,", NULL},
    {cluster, "storage.write_gbytes_per_s", "21}", "22}", NULL},
    {cluster, "health.target", "device:5", "device:4", NULL},
    {cluster, "health.state", "slow, slowdown: 1.3", "down", NULL},
    {cluster, "health.slowdown", "1.3}", "1.4}", NULL},
};

static const row profile_rows[] = {
    {profile, "profile.schema", "profile/1", "profile/2", "`schema` is `luoshu.profile/2`"},
    {profile, "profile.name", "name: p\n", "name: q\n", NULL},
    {profile, "profile.kind", "gpu", "cpu", NULL},
    {profile, "profile.values", "  - {name: memory_gib", "  #", "no value `memory_gib`"},
    {profile, "profile.tables", "tables:", "#", NULL},
    {profile, "profile.calibrated", "calibrated:", "#", NULL},
    {profile, "values.name", "memory_gbytes_per_s", "launch_us", NULL},
    {profile, "values.value", "148", "149", NULL},
    {profile, "values.source", "a page", "a book", NULL},
    {profile, "values.provenance", "paper", "fitted", "`source` of a fitted value names no rows"},
    {profile, "values.provenance", "paper", "datasheet", NULL},
    {profile, "values.spread", "spread: 0.2", "spread: 0.3", NULL},
    {profile, "tables.kind", "kind: op_times, file: ops.csv", "kind: p2p_times, file: p2p.csv",
     NULL},
    {profile, "tables.kind", "kind: op_times, file: ops.csv",
     "kind: collective_times, file: coll.csv", NULL},
    {profile, "tables.file", "ops.csv", "ops2.csv", NULL},
    {profile, "calibrated.date", "2026-01-02", "2026-01-03", NULL},
    {profile, "calibrated.device", "d0", "d9", NULL},
    {profile, "calibrated.driver", "d1", "d9", NULL},
    {profile, "calibrated.cuda", "c0", "c9", NULL},
    {profile, "calibrated.nccl", "n0", "n9", NULL},
    {profile, "calibrated.rows", "rows: 5", "rows: 7", NULL},
    {profile, "calibrated.validation_rows", "6}", "7}", NULL},
    {stack, "stack.schema", "stack/1", "stack/2", "`schema` is `luoshu.stack/2`"},
    {stack, "stack.name", "name: s\n", "name: t\n", NULL},
    {stack, "stack.values", "values:", "#", NULL},
    {stack, "stack.switches", "[{name: p2p, value: async}]", "[{name: attention, value: unfused}]",
     NULL},
    {stack, "values.spread", "spread: 0.2", "spread: 0.3", NULL},
    {stack, "switches.name", "name: p2p", "name: attention", "`attention` is `async`"},
    {stack, "switches.value", "async", "blocking", NULL},
};

static const row model_rows[] = {
    {llama, "model.schema", "model/1", "model/2", "`schema` is `luoshu.model/2`"},
    {llama, "model.name", "name: m\n", "name: n\n", NULL},
    {llama, "model.family", "family: llama", "family: gpt", "does not belong to family `gpt`"},
    {bert, "model.family",
     "bert\nlayers: 4\nhidden: 64\nffn_hidden: 160\nheads: 8\nvocab: 256\n"
     "max_sequence_tokens: 128\ntoken_types: 3\n",
     "gpt\nlayers: 4\nhidden: 64\nffn_hidden: 160\nheads: 8\nvocab: 256\n"
     "max_sequence_tokens: 128\n",
     NULL},
    {llama, "model.model_type", "model_type: llama", "model_type: qwen3", NULL},
    {llama, "model.model_type", "model_type: llama", "model_type: gpt2", "`model_type` is `gpt2`"},
    {llama, "model.layers", "layers: 4", "layers: 5", NULL},
    {llama, "model.hidden", "\nhidden: 64", "\nhidden: 128", NULL},
    {llama, "model.ffn_hidden", "160", "161", NULL},
    {llama, "model.heads", "\nheads: 8", "\nheads: 4", NULL},
    {llama, "model.kv_heads", "kv_heads: 4", "kv_heads: 2", NULL},
    {llama, "model.head_dim", "head_dim: 16", "head_dim: 8", NULL},
    {llama, "model.qk_norm", "qk_norm: false", "qk_norm: true", NULL},
    {llama, "model.rope_base", "10000", "10001", NULL},
    {llama, "model.vocab", "256", "257", NULL},
    {llama, "model.max_sequence_tokens", "128\n", "129\n", NULL},
    {bert, "model.token_types", "token_types: 3", "token_types: 4", NULL},
    {llama, "model.token_types", NULL, "token_types: 2\n", "`token_types` does not belong"},
    {llama, "model.tied_embeddings", "embeddings: false", "embeddings: true", NULL},
    {llama, "model.linear_bias", "linear_bias: false", "linear_bias: true", NULL},
    {llama, "model.out_bias", "out_bias: false", "out_bias: true", NULL},
    {llama, "model.qkv_bias", "qkv_bias: false", "qkv_bias: true", NULL},
    {llama, "model.norm", "rmsnorm", "layernorm", NULL},
    {llama, "model.norm_eps", "1e-6", "1e-5", NULL},
    {llama, "model.activation", "swiglu", "gelu", NULL},
    {llama, "model.position", "position: rope", "position: learned", NULL},
    {llama, "model.causal", "causal: true", "causal: false", NULL},
    {variants, "model.parallel_residual", "parallel_residual: true\nshared_norm: true",
     "parallel_residual: false\nshared_norm: false", NULL},
    {variants, "model.shared_norm", "shared_norm: true", "shared_norm: false", NULL},
    {variants, "model.shared_norm", "parallel_residual: true", "parallel_residual: false",
     "`shared_norm` goes with `parallel_residual`"},
    {variants, "model.post_norms", "post_norms: true", "post_norms: false", NULL},
    {variants, "model.norm_offset", "norm_offset: true", "norm_offset: false", NULL},
    {gpt, "model.position_offset", "position_offset: 2", "position_offset: 3", NULL},
    {llama, "model.position_offset", NULL, "position_offset: 2\n",
     "`position_offset` goes with `position` learned"},
    {variants, "model.partial_rotary", "rotary: 0.5", "rotary: 0.25", NULL},
    {variants, "model.rope_local_base", "base: 20000", "base: 30000", NULL},
    {variants, "model.rope_local_base", "sliding_window: {", "#",
     "`rope_local_base` is of layers with a window"},
    {variants, "model.embedding_scale", "embedding_scale: 8", "embedding_scale: 9", NULL},
    {variants, "model.attention_scale", "attention_scale: 0.25", "attention_scale: 0.5", NULL},
    {variants, "model.attention_softcap", "softcap: 50", "softcap: 51", NULL},
    {variants, "model.logit_softcap", "softcap: 30", "softcap: 31", NULL},
    {llama, "model.sliding_window", NULL, "sliding_window: {tokens: 32}\n", NULL},
    {variants, "model.sliding_window", "sliding_window: {", "causal: false\nsliding_window: {",
     "`sliding_window` goes with `causal` true"},
    {variants, "sliding_window.tokens", "tokens: 32", "tokens: 33", NULL},
    {variants, "sliding_window.first_layer", "first_layer: 1", "first_layer: 2", NULL},
    {variants, "sliding_window.every_layers", "every_layers: 3", "every_layers: 4", NULL},
    {variants, "sliding_window.layers_each", "layers_each: 2", "layers_each: 1", NULL},
    {variants, "sliding_window.layers_each", "layers_each: 2", "layers_each: 4",
     "`layers_each` is 4 of every 3 layers"},
    {variants, "model.rope_scaling", "rope_scaling: {", "#", NULL},
    {variants, "rope_scaling.kind", "kind: llama3", "kind: yarn", NULL},
    {variants, "rope_scaling.factor", "factor: 8", "factor: 9", NULL},
    {variants, "rope_scaling.original_tokens", "original_tokens: 64", "original_tokens: 65", NULL},
    {variants, "rope_scaling.original_tokens", "original_tokens: 64, ", "",
     "`original_tokens` is missing"},
    {variants, "rope_scaling.low_freq_factor", "low_freq_factor: 1", "low_freq_factor: 2", NULL},
    {variants, "rope_scaling.high_freq_factor", "high_freq_factor: 4", "high_freq_factor: 5",
     NULL},
    {variants, "rope_scaling.high_freq_factor", "high_freq_factor: 4", "high_freq_factor: 1",
     "more than `low_freq_factor` 1 is expected"},
    {variants, "rope_scaling.beta_fast", "beta_fast: 32", "beta_fast: 33", NULL},
    {variants, "rope_scaling.beta_slow", "beta_slow: 1", "beta_slow: 2", NULL},
    {variants, "rope_scaling.attention_factor", "attention_factor: 1.5", "attention_factor: 1.6",
     NULL},
    {llama, "rope_scaling.short_factors", "dtype:", LONGROPE("2", "3") "dtype:", NULL},
    {llama, "rope_scaling.long_factors", "dtype:", LONGROPE("2", "4") "dtype:", NULL},
    {llama, "rope_scaling.short_factors", "dtype:", LONGROPE("2, 2", "3") "dtype:",
     "`short_factors` has 9 numbers; 8 are expected"},
    {llama, "rope_scaling.long_factors", "dtype:",
     "rope_scaling: {kind: longrope, original_tokens: 64, "
     "short_factors: [1, 1, 1, 1, 1, 1, 1, 1]}\ndtype:",
     "`long_factors` is missing; it goes with `short_factors`"},
    {variants, "rope_scaling.long_factors", "beta_slow: 1", "long_factors: [1, 1]",
     "`long_factors` goes with `kind` longrope"},
    {llama, "model.dtype", "f32", "f64", NULL},
    {moe, "model.moe", "moe: {", "#", "`moe` is missing"},
    {llama, "model.moe", NULL, "moe: {experts: 2, experts_per_token: 1, expert_ffn_hidden: 8}\n",
     "`moe` does not belong"},
    {vit, "model.image", "image: {", "#", "`image` is missing"},
    {vit, "model.classes", "classes: 10", "classes: 11", NULL},
    {vgg, "model.variant", "variant: 16", "variant: 19", NULL},
    {vgg, "model.variant", "variant: 16", "variant: 17", "`variant` is `17`"},
    {vit, "model.variant", NULL, "variant: 16\n", "`variant` does not belong"},
    {moe, "moe.experts", "experts: 64", "experts: 32", NULL},
    {moe, "moe.experts_per_token", "per_token: 2", "per_token: 3", NULL},
    {moe, "moe.expert_ffn_hidden", "ffn_hidden: 32", "ffn_hidden: 31", NULL},
    {moe, "moe.shared_experts", "shared_experts: 1", "shared_experts: 2", NULL},
    {moe, "moe.shared_ffn_hidden", "33", "34", NULL},
    {moe, "moe.first_dense_layers", "first_dense_layers: 1", "first_dense_layers: 2", NULL},
    {moe, "moe.every_layers", "every_layers: 1", "every_layers: 2", NULL},
    {moe, "moe.capacity_factor", "1.5", "1.6", NULL},
    {moe, "moe.gate", "gate: topk", "gate: hash", "k is 2; this gate gives 1"},
    {moe, "moe.gate",
     "2, expert_ffn_hidden: 32, shared_experts: 1, shared_ffn_hidden: 33, "
     "first_dense_layers: 1, every_layers: 1, capacity_factor: 1.5, gate: topk",
     "1, expert_ffn_hidden: 32, shared_experts: 1, shared_ffn_hidden: 33, "
     "first_dense_layers: 1, every_layers: 1, capacity_factor: 1.5, gate: top1",
     NULL},
    {moe, "moe.gate",
     "2, expert_ffn_hidden: 32, shared_experts: 1, shared_ffn_hidden: 33, "
     "first_dense_layers: 1, every_layers: 1, capacity_factor: 1.5, gate: topk",
     "1, expert_ffn_hidden: 32, shared_experts: 1, shared_ffn_hidden: 33, "
     "first_dense_layers: 1, every_layers: 1, capacity_factor: 1.5, gate: hash",
     NULL},
    {moe, "moe.aux_loss",
     "2, expert_ffn_hidden: 32, shared_experts: 1, shared_ffn_hidden: 33, "
     "first_dense_layers: 1, every_layers: 1, capacity_factor: 1.5, gate: topk",
     "1, expert_ffn_hidden: 32, shared_experts: 1, shared_ffn_hidden: 33, "
     "first_dense_layers: 1, every_layers: 1, gate: hash, aux_loss: 0.01",
     "`aux_loss` goes with `gate` topk"},
    {moe, "moe.gate",
     "2, expert_ffn_hidden: 32, shared_experts: 1, shared_ffn_hidden: 33, "
     "first_dense_layers: 1, every_layers: 1, capacity_factor: 1.5, gate: topk",
     "1, expert_ffn_hidden: 32, shared_experts: 1, shared_ffn_hidden: 33, "
     "first_dense_layers: 1, every_layers: 1, gate: balanced",
     NULL},
    {moe, "moe.gate",
     "2, expert_ffn_hidden: 32, shared_experts: 1, shared_ffn_hidden: 33, "
     "first_dense_layers: 1, every_layers: 1, capacity_factor: 1.5, gate: topk",
     "1, expert_ffn_hidden: 32, shared_experts: 1, shared_ffn_hidden: 33, "
     "first_dense_layers: 1, every_layers: 1, capacity_factor: 1.5, gate: balanced",
     "`capacity_factor` does not go with `gate` balanced"},
    {moe, "moe.gate", "topk", "top1", "`gate` top1 gives 1"},
    {moe, "moe.gate", "topk", "sigmoid", NULL},
    {moe, "moe.gate", "gate: topk", "gate: ktop1", NULL},
    {moe, "moe.gate",
     "2, expert_ffn_hidden: 32, shared_experts: 1, shared_ffn_hidden: 33, "
     "first_dense_layers: 1, every_layers: 1, capacity_factor: 1.5, gate: topk",
     "3, expert_ffn_hidden: 32, shared_experts: 1, shared_ffn_hidden: 33, "
     "first_dense_layers: 1, every_layers: 1, capacity_factor: 1.5, gate: ktop1",
     "3 prototypes do not divide 64 experts"},
    {moe, "moe.gate", "gate: topk", "gate: sam, route_groups: 4", NULL},
    {moe, "moe.gate", "gate: topk", "gate: sam, route_groups: 64", "1 experts can be chosen"},
    {moe, "moe.aux_loss", "capacity_factor: 1.5, gate: topk",
     "gate: sam, route_groups: 4, aux_loss: 0.01", NULL},
    {moe, "moe.aux_loss", "gate: topk", "gate: sam, route_groups: 4, aux_loss: 0.01",
     "needs all choices"},
    {moe, "moe.aux_loss", "gate: topk", "aux_loss: 0.01", NULL},
    {moe, "moe.aux_loss", "gate: topk", "gate: sigmoid, aux_loss: 0.01", "goes with `gate` topk"},
    {moe, "moe.bias_rate", "gate: topk", "gate: sigmoid, bias_rate: 0.01", NULL},
    {moe, "moe.bias_rate", "gate: topk", "bias_rate: 0.01", "`bias_rate` goes with `gate` sigmoid"},
    {moe, "moe.renorm", "gate: topk", "renorm: true", NULL},
    {moe, "moe.shared_gate", "gate: topk", "shared_gate: true", NULL},
    {moe, "moe.shared_gate", "shared_experts: 1, shared_ffn_hidden: 33, ", "shared_gate: true, ",
     "`shared_gate` goes with `shared_experts`"},
    {moe, "moe.renorm", "gate: topk", "gate: ktop1, renorm: true",
     "`renorm` goes with `gate` topk"},
    {moe, "moe.routed_scale", "gate: topk", "gate: sigmoid, routed_scale: 2", NULL},
    {moe, "moe.routed_scale", "gate: topk", "routed_scale: 2", NULL},
    {moe, "moe.routed_scale", "gate: topk", "gate: ktop1, routed_scale: 2",
     "`routed_scale` goes with `gate` sigmoid or topk"},
    {moe, "moe.route_groups", "gate: topk", "gate: sigmoid, route_groups: 2", NULL},
    {moe, "moe.route_groups", "gate: topk", "route_groups: 2", NULL},
    {moe, "moe.route_groups", "gate: topk", "gate: ktop1, route_groups: 2",
     "goes with `gate` sigmoid, topk or sam"},
    {moe, "moe.route_groups", "gate: topk", "gate: sigmoid, route_groups: 3",
     "do not fit 64 experts"},
    {moe, "moe.route_groups_kept", "gate: topk",
     "gate: sigmoid, route_groups: 4, route_groups_kept: 2", NULL},
    {moe, "model.attention", NULL,
     "attention: {kind: mla, kv_lora_rank: 16, qk_nope_head_dim: 10, qk_rope_head_dim: 6, "
     "v_head_dim: 9}\n",
     NULL},
    {mla, "model.attention", "v_head_dim: 9}", "v_head_dim: 9}\nkv_heads: 4",
     "`kv_heads` does not go with `attention`"},
    {vit, "model.attention", NULL,
     "attention: {kind: mla, kv_lora_rank: 16, qk_nope_head_dim: 10, qk_rope_head_dim: 6, "
     "v_head_dim: 9}\n",
     "`attention` does not belong"},
    {mla, "attention.kind", "kind: mla", "kind: mha", "`kind`"},
    {mla, "attention.q_lora_rank", "q_lora_rank: 24", "q_lora_rank: 0", NULL},
    {mla, "attention.kv_lora_rank", "kv_lora_rank: 16", "kv_lora_rank: 17", NULL},
    {mla, "attention.qk_nope_head_dim", "10", "11", NULL},
    {mla, "attention.qk_rope_head_dim", "rope_head_dim: 6", "rope_head_dim: 8", NULL},
    {mla, "attention.qk_rope_head_dim", "rope_head_dim: 6", "rope_head_dim: 7", "even number"},
    {mla, "attention.v_head_dim", "v_head_dim: 9", "v_head_dim: 8", NULL},
    {vit, "image.height_px", "224", "240", NULL},
    {vit, "image.width_px", "192", "208", NULL},
    {vit, "image.channels", "channels: 3", "channels: 1", NULL},
    {vit, "image.patch_px", "patch_px: 16", "patch_px: 32", NULL},
    {recsys, "model.features", "features: {", "#", "`features` is missing"},
    {llama, "model.features", NULL, "features: {slots: 1, rows: 1, width: 1}\n",
     "`features` does not belong"},
    {recsys, "model.bottom_mlp", "[64, 16]", "[63, 16]", NULL},
    {recsys, "model.bottom_mlp", "[64, 16]", "[64, 17]", "`bottom_mlp` ends with 17 columns"},
    {recsys, "model.bottom_mlp", "family: dlrm", "family: wide_deep",
     "`bottom_mlp` does not belong"},
    {recsys, "model.mlp", "[32, 8]", "[32]", NULL},
    {recsys, "model.mlp", "[32, 8]",
     "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "`mlp` has 33 layers"},
    {recsys, "features.slots", "slots: 26", "slots: 25", NULL},
    {recsys, "features.slots", "slots: 26", "slots: 65", "1 to 64"},
    {recsys, "features.rows", "rows: 10000", "rows: 10001", NULL},
    {recsys, "features.rows", "rows: 10000", "rows: 25", "each of the 26 slots needs one"},
    {recsys, "features.width", "width: 16", "width: 15", "`bottom_mlp` ends with 16 columns"},
    {recsys, "features.dense", "dense: 13", "dense: 12", NULL},
    {recsys, "features.dense", "dense: 13", "dense: 0", "`bottom_mlp` needs numbers"},
    {vgg, "image.patch_px", "channels: 3", "channels: 3, patch_px: 16",
     "`patch_px` does not belong"},
};

/* ---- docs/formats.md#luoshuplan1 ---- */

static const row plan_rows[] = {
    {plan, "plan.schema", "plan/1", "plan/2", "`schema` is `luoshu.plan/2`"},
    {plan, "plan.name", "\"n\"", "\"o\"", NULL},
    {plan, "plan.model", "\"m\"", "\"o\"", NULL},
    {plan, "plan.cluster", "\"c\"", "\"o\"", NULL},
    {plan, "plan.layers", "\"layers\":6", "\"layers\":7", NULL},
    {plan, "plan.devices", "\"devices\":9", "\"devices\":10", NULL},
    {plan, "plan.dtype", "f64", "f32", NULL},
    {plan, "plan.sequence_tokens", "32,", "33,", NULL},
    {plan, "plan.micro_batch_sequences", ":2,\"zero\"", ":3,\"zero\"", NULL},
    {plan, "plan.zero", "\"zero\":3", "\"zero\":2", "`shard` belongs to zero 3"},
    {plan, "plan.sequence_parallel", "l\":true,\"schedule", "l\":false,\"schedule", NULL},
    {plan, "plan.optimizer_step", "\"zero\":3", "\"zero\":3,\"optimizer_step\":\"staggered\"",
     NULL},
    {plan, "plan.optimizer_step", "\"zero\":3", "\"zero\":3,\"optimizer_step\":\"later\"",
     "`optimizer_step` is `later`"},
    {plan, "plan.schedule", "\"schedule\":{\"kind\":\"interleaved_1f1b\",\"chunks\":2},", "", NULL},
    {plan, "plan.pipelines", "\"pipelines\":", "\"pipeline\":", "`pipeline`"},
    {plan, "plan.annotations",
     "{\"tensor\":\"t\",\"annotation\":\"[0]{}\",\"at\":\"op\","
     "\"variant\":\"2d\"}",
     "", NULL},
    {plan, "plan.assignment",
     "{\"sequence\":7,\"length_tokens\":5,\"pipeline\":0,"
     "\"micro_batch\":1}",
     "", NULL},
    {plan, "plan.expert_groups", "[[0]]", "[]", NULL},
    {plan, "plan.expert_parallel",
     "\"state_layout\":", "\"expert_parallel\":2,\"state_layout\":", NULL},
    {plan, "plan.moe_exchange",
     "\"state_layout\":", "\"moe_exchange\":\"2d\",\"state_layout\":", NULL},
    {plan, "plan.moe_exchange",
     "\"state_layout\":", "\"moe_exchange\":\"leader\",\"state_layout\":", NULL},
    {plan, "plan.moe_exchange", "\"state_layout\":", "\"moe_exchange\":\"ring\",\"state_layout\":",
     "`moe_exchange` is `ring`"},
    {plan, "plan.state_layout", "{\"data\":2,\"tensor\":1,\"pipeline\":1,\"devices\":[0,8]}",
     "null", NULL},
    {plan, "plan.pinned", "\"/zero\"", "\"/layers\"", NULL},
    {plan, "plan.bucket_rule", "\"bucket_rule\":\"mib\",", "", NULL},
    {plan, "plan.bucket_mib", ":4,", ":5,", NULL},
    {plan, "plan.shard", "hybrid", "full", "`shard_pipelines` belongs to `shard` hybrid"},
    {plan, "plan.shard_pipelines", "\"shard_pipelines\":2", "\"shard_pipelines\":3", NULL},
    {plan, "plan.prefetch_depth", "\"prefetch_depth\":3", "\"prefetch_depth\":0", NULL},
    {plan, "plan.dp_lanes", "\"dp_lanes\":2", "\"dp_lanes\":1", NULL},
    {plan, "plan.meta", "\"s\":1", "\"s\":2", NULL},
    {plan, "schedule.kind", "interleaved_1f1b", "1f1b", NULL},
    {plan, "schedule.chunks", "\"chunks\":2", "\"chunks\":3", NULL},
    {plan, "pipelines.micro_batches",
     "\"micro_batches\":2,\"micro_batch_sequences\":1,"
     "\"micro_batch_tokens\":[64,63]",
     "\"micro_batches\":1,\"micro_batch_sequences\":1,"
     "\"micro_batch_tokens\":[64]",
     NULL},
    {plan, "pipelines.micro_batch_sequences", ":1,\"micro_batch_tokens", ":2,\"micro_batch_tokens",
     NULL},
    {plan, "pipelines.micro_batch_tokens", "63", "62", NULL},
    {plan, "pipelines.stages", "{\"layers\":[[2,3],[4,6]],\"devices\":[4],\"head\":true}",
     "{\"layers\":[[2,3],[4,6]],\"devices\":[4],\"head\":true},{\"layers\":[[6,6],[6,6]],"
     "\"devices\":[5]}",
     NULL},
    {plan, "stages.layers", "[[2,3],[4,6]]", "[[2,3],[4,5]]", NULL},
    {plan, "stages.devices", "[4]", "[5]", NULL},
    {plan, "stages.context_parallel", "\"context_parallel\":2,\"shares\":[3,1]",
     "\"context_parallel\":1,\"shares\":[3,1,1,1]", NULL},
    {plan, "stages.context_kind", "\"context_parallel\":2,",
     "\"context_parallel\":2,\"context_kind\":\"a2a\",", NULL},
    {plan, "stages.context_layout", "\"context_parallel\":2,",
     "\"context_parallel\":2,\"context_layout\":\"contiguous\",", NULL},
    {plan, "stages.context_inner", "\"context_parallel\":2,",
     "\"context_parallel\":2,\"context_inner\":2,", NULL},
    {plan, "stages.context_shares", "\"context_parallel\":2,",
     "\"context_parallel\":2,\"context_shares\":[2,1],", NULL},
    {plan, "stages.shares", "\"shares\":[3,1]", "\"shares\":[2,1]", NULL},
    {plan, "stages.recompute", "\"recompute\":{\"mode\":\"full\",\"layers\":[[0,1]]},", "", NULL},
    {plan, "stages.embedding", "\"embedding\":true", "\"embedding\":false", NULL},
    {plan, "stages.head", "\"head\":true", "\"head\":false", NULL},
    {plan, "stages.experts", "\"experts\":\"expert\"", "\"experts\":\"tensor\"", NULL},
    {plan, "stages.reroute", "\"devices\":[4],",
     "\"devices\":[],\"reroute\":[{\"pipeline\":1,\"micro_batches\":2}],", NULL},
    {plan, "reroute.pipeline", "\"devices\":[4],",
     "\"devices\":[],\"reroute\":[{\"pipeline\":2,\"micro_batches\":2}],", NULL},
    {plan, "reroute.micro_batches", "\"devices\":[4],",
     "\"devices\":[],\"reroute\":[{\"pipeline\":1,\"micro_batches\":3}],", NULL},
    {plan, "recompute.mode", "\"full\"", "\"selective\"", NULL},
    {plan, "recompute.layers", "[[0,1]]}", "[[0,2]]}", NULL},
    {plan, "annotations.tensor", "\"t\"", "\"u\"", NULL},
    {plan, "annotations.annotation", "[0]{}", "[1]{}", NULL},
    {plan, "annotations.at", "\"op\"", "\"oq\"", NULL},
    {plan, "annotations.variant", "2d", "flat", NULL},
    {plan, "assignment.sequence", "\"sequence\":7", "\"sequence\":8", NULL},
    {plan, "assignment.length_tokens", "s\":5", "s\":6", NULL},
    {plan, "assignment.pipeline", "\"pipeline\":0", "\"pipeline\":1", NULL},
    {plan, "assignment.micro_batch", "\"micro_batch\":1", "\"micro_batch\":0", NULL},
    {plan, "state_layout.data", "\"data\":2", "\"data\":3", NULL},
    {plan, "state_layout.tensor", "\"tensor\":1", "\"tensor\":3", NULL},
    {plan, "state_layout.pipeline", "\"pipeline\":1", "\"pipeline\":3", NULL},
    {plan, "state_layout.devices", "[0,8]", "[0,7]", NULL},
};

/* ---- docs/formats.md#luoshuscenario1 ---- */

static const row scenario_rows[] = {
    {scenario, "scenario.schema", "scenario/1", "scenario/2", "`schema` is `luoshu.scenario/2`"},
    {scenario, "scenario.name", "demo-day", "demo-night", NULL},
    {scenario, "scenario.seed", "seed: 7", "seed: 8", NULL},
    {scenario, "scenario.cluster", "mixed48.yaml", "mixed48b.yaml", NULL},
    {scenario, "scenario.model", "llama-32b.yaml", "../../../scenarios/models/llama-70b.yaml",
     NULL},
    {scenario, "scenario.plan", "plan: \"\"", "plan: plan-64.json", NULL},
    {scenario, "scenario.planner", "planner: {name: uniform}", "planner: {name: malleus}", NULL},
    {scenario, "scenario.planner", "planner: {name: uniform}", "planner: {name: otto}",
     "unknown planner `otto`"},
    {scenario, "scenario.extent", "extent:", "extend:", "`extent`"},
    {scenario, "scenario.data", "data:\n  batch:", "dada:\n  batch:", "`data`"},
    {scenario, "scenario.policies", "  - {name: static}\n", "", NULL},
    {jobs, "scenario.jobs", "jobs:", "jab:", "`jobs`"},
    {jobs, "scenario.joint_steps", NULL, "joint_steps: 0\n", NULL},
    {scenario, "scenario.joint_steps", NULL, "joint_steps: 8\n", "`joint_steps` is for `jobs`"},
    {jobs, "jobs.name", "name: chat", "name: chut", NULL},
    {jobs, "jobs.model", "llama-1b.yaml, plan: ../plans/job-chat",
     "tiny-llama.yaml, plan: ../plans/job-chat", "`layers` is 22; model `tiny-llama` has 4"},
    {jobs, "jobs.plan", "job-chat.json", "job-code.json", "is in the plans of job `chat` and"},
    {jobs, "jobs.start_s", "start_s: 10", "start_s: 11", NULL},
    {jobs, "jobs.steps", "steps: 60", "steps: 61", NULL},
    {jobs, "jobs.duration_s", "steps: 60", "duration_s: 25", NULL},
    {jobs, "jobs.duration_s", "steps: 60", "steps: 60, duration_s: 25", "a job has `steps` and"},
    {scenario, "scenario.events",
     "  - {id: longer, kind: lengths, at_step: 1000, lengths: {kind: "
     "fixed, tokens: 8192}}\n",
     "", NULL},
    {scenario, "scenario.processes",
     "  - {id: causes, kind: causes, target: \"device:[0-47]\", "
     "file: causes.csv, observed_devices: 16384, observed_s: 4665600}\n",
     "", NULL},
    {scenario, "scenario.traces", "traces:", "#", NULL},
    {scenario, "scenario.noise", "noise:", "#", NULL},
    {experts, "scenario.expert_load", "expert_load:", "#", NULL},
    {scenario, "scenario.expert_load", NULL, "expert_load: {kind: zipf}\n", "has no experts"},
    {scenario, "scenario.checkpoint", "checkpoint:", "#", NULL},
    {scenario, "scenario.costs", "costs: {detect_fail_s: 30,", "costs: {detect_fail_s: 29,", NULL},
    {scenario, "scenario.truth", "{write: true}", "{write: false}", NULL},
    {scenario, "scenario.stack", NULL, "stack: ../../../scenarios/profiles/stacks/megatron.yaml\n",
     NULL},
    {scenario, "planner.name", "name: uniform", "name: unified", "`hap` or `auto` is expected"},
    {scenario, "extent.steps", "steps: 2000", "steps: 1999", NULL},
    {scenario, "extent.duration_s", "{steps: 2000}", "{duration_s: 2000}", NULL},
    {scenario, "data.batch", "batch: {sequences: 64}", "batch: {}", "`batch` has no size"},
    {scenario, "data.lengths", "lengths: {kind: fixed, tokens: 4096}", "lengths: {kind: fixed}",
     "`tokens` is missing"},
    {scenario, "data.truncate_last", "  lengths: {", "  truncate_last: true\n  lengths: {",
     "`truncate_last` belongs to batches by `tokens`"},
    {scenario, "batch.sequences", "sequences: 64", "sequences: 128", NULL},
    {scenario, "batch.tokens", "sequences: 64", "tokens: 65536",
     "policy `static` works on batches of `sequences`"},
    {uneven, "data.truncate_last", "truncate_last: true", "truncate_last: false", NULL},
    {uneven, "batch.tokens", "tokens: 8192", "tokens: 8193", NULL},
    {uneven, "lengths.kind", "{kind: mixture, ", "{kind: fixed, ", "`components` does not belong"},
    {uneven, "lengths.kind",
     "{kind: mixture, components: [{weight: 3, kind: lognormal, median_tokens: 40, sigma: 0.5, "
     "low_tokens: 8, high_tokens: 128}, {weight: 1, kind: file, file: requests.csv, repeat: 5}, "
     "{weight: 2, kind: fixed, tokens: 77}]}",
     "{kind: uniform, low_tokens: 9, high_tokens: 99}", NULL},
    {uneven, "lengths.components", ", {weight: 2, kind: fixed, tokens: 77}", "", NULL},
    {uneven, "lengths.kind", "kind: fixed, tokens: 77", "kind: mixture",
     "a component is of `kind` mixture"},
    {uneven, "components.weight", "weight: 3", "weight: 4", NULL},
    {uneven, "lengths.tokens", "77", "78", NULL},
    {uneven, "lengths.low_tokens", "low_tokens: 8", "low_tokens: 9", NULL},
    {uneven, "lengths.high_tokens", "128", "127", NULL},
    {uneven, "lengths.high_tokens", "128", "7", "`high_tokens` is below `low_tokens`"},
    {uneven, "lengths.median_tokens", "40", "41", NULL},
    {uneven, "lengths.sigma", "0.5", "0.6", NULL},
    {uneven, "lengths.file", "requests.csv", "classes.csv", "is a table of kind `histogram`"},
    {uneven, "lengths.repeat", "repeat: 5", "repeat: 6", NULL},
    {scenario, "lengths.tokens", "4096", "2048", NULL},
    {scenario, "lengths.low_tokens", "4096}", "4096, low_tokens: 8}",
     "`low_tokens` does not belong"},
    {scenario, "lengths.high_tokens", "4096}", "4096, high_tokens: 8}",
     "`high_tokens` does not belong"},
    {scenario, "lengths.median_tokens", "4096}", "4096, median_tokens: 8}",
     "`median_tokens` does not belong"},
    {scenario, "lengths.sigma", "4096}", "4096, sigma: 8}", "`sigma` does not belong"},
    {scenario, "lengths.file", "4096}", "4096, file: x}", "`file` does not belong"},
    {scenario, "lengths.repeat", "4096}", "4096, repeat: 2}", "`repeat` does not belong"},
    {scenario, "lengths.components", "4096}",
     "4096, components: [{weight: 1, kind: fixed, tokens: 1}]}", "`components` does not belong"},
    {scenario, "components.weight", "4096}",
     "4096, components: [{weight: 0, kind: fixed, tokens: 1}]}", "`weight` is `0`"},
    {scenario, "policies.name", "name: static", "name: restart, label: x", NULL},
    {scenario, "policies.name", "name: static", "name: hydraulis", NULL},
    {scenario, "policies.name", "name: static", "name: oobleck", NULL},
    {scenario, "policies.name", "name: static", "name: oracle", NULL},
    {scenario, "policies.window_steps", "name: static", "name: oracle, window_steps: 6",
     "`window_steps` does not belong to policy `oracle`"},
    {scenario, "policies.plan_mode", "name: static", "name: oobleck, plan_mode: sync",
     "`plan_mode` does not belong to policy `oobleck`; it is a key of `malleus`"},
    {scenario, "policies.strict_uniform", "name: static", "name: oobleck, strict_uniform: true",
     "`strict_uniform` does not belong to policy `oobleck`; it is a key of `restart`"},
    {scenario, "policies.label", "name: static", "name: static, label: x", NULL},
    {scenario, "policies.plan", "name: static", "name: static, plan: plan-64.json", NULL},
    {scenario, "policies.planner", "name: static", "name: static, planner: {name: malleus}", NULL},
    {scenario, "policies.training", "name: static", "name: static, training: {sync: bsp}", NULL},
    {scenario, "training.sync", "name: static", "name: static, training: {sync: allreduce}", NULL},
    {scenario, "training.sync", "name: static", "name: static, training: {sync: hogwild}",
     "`sync` is `hogwild`; `allreduce`, `bsp`, `ssp`, `asp`, `preduce` or `adpsgd` is "
     "expected."},
    {scenario, "training.sync", "name: static", "name: static, training: {sync: adpsgd}", NULL},
    {scenario, "training.sync", "name: static", "name: static, training: {sync: adpsgd, guard: 1}",
     "`guard` is not used with `sync` adpsgd"},
    {scenario, "training.staleness", "name: static",
     "name: static, training: {sync: ssp, staleness: 5}", NULL},
    {scenario, "training.staleness", "name: static",
     "name: static, training: {sync: asp, staleness: 5}",
     "`staleness` is not used with `sync` asp; leave it out."},
    {scenario, "training.servers", "name: static",
     "name: static, training: {sync: bsp, servers: 2}", NULL},
    {scenario, "training.server_devices", "name: static",
     "name: static, training: {sync: bsp, server_devices: [0, 3]}", NULL},
    {scenario, "training.server_devices", "name: static",
     "name: static, training: {sync: bsp, server_devices: [3, 0, 3]}", "has 3 twice"},
    {scenario, "training.server_devices", "name: static",
     "name: static, training: {sync: bsp, server_devices: [0, 99999]}", "the cluster has 0 to"},
    {scenario, "training.server_devices", "name: static",
     "name: static, training: {sync: bsp, servers: 2, server_devices: [0, 3]}",
     "says how many servers there are"},
    {scenario, "training.server_devices", "name: static",
     "name: static, training: {sync: preduce, server_devices: [0]}", "is not used with `sync`"},
    {scenario, "training.max_group", "name: static",
     "name: static, training: {sync: preduce, max_group: 2}", NULL},
    {scenario, "training.guard", "name: static",
     "name: static, training: {sync: preduce, guard: 10}", NULL},
    {scenario, "training.wait_s", "name: static",
     "name: static, training: {sync: preduce, wait_s: 1}", NULL},
    {scenario, "training.request_s", "name: static",
     "name: static, training: {sync: preduce, request_s: 0.5}", NULL},
    {scenario, "training.request_s", "name: static",
     "name: static, training: {sync: adpsgd, request_s: 0.5}",
     "`request_s` is not used with `sync` adpsgd; leave it out."},
    {scenario, "training.adaptive", "name: static",
     "name: static, training: {sync: preduce, adaptive: true}", NULL},
    {scenario, "training.wait_max_s", "name: static",
     "name: static, training: {sync: preduce, adaptive: true, wait_max_s: 1}", NULL},
    {scenario, "training.wait_max_s", "name: static",
     "name: static, training: {sync: preduce, adaptive: true, wait_max_s: 1.0e-6}", NULL},
    {scenario, "training.wait_max_s", "name: static",
     "name: static, training: {sync: preduce, wait_max_s: 1}",
     "`wait_max_s` bounds adaptive waits; add `adaptive: true`, or leave it out."},
    {scenario, "training.wait_min_s", "name: static",
     "name: static, training: {sync: preduce, adaptive: true, wait_min_s: 0}", NULL},
    {scenario, "training.wait_min_s", "name: static",
     "name: static, training: {sync: preduce, adaptive: false, wait_min_s: 0}",
     "`wait_min_s` bounds adaptive waits; add `adaptive: true`, or leave it out."},
    {scenario, "training.wait_min_s", "name: static",
     "name: static, training: {sync: preduce, adaptive: true, wait_max_s: 0.001, wait_min_s: 0.1}",
     "`wait_min_s` is 0.1 and `wait_max_s` 0.001; at most as much is expected."},
    {scenario, "training.wait_min_s", "name: static",
     "name: static, training: {sync: preduce, adaptive: true, wait_min_s: 0.1}",
     "`wait_min_s` is 0.1 and `wait_max_s` 0.01; at most as much is expected."},
    {scenario, "policies.restart_s", "restart_s: 90", "restart_s: 91", NULL},
    {scenario, "policies.threshold_slowdown", "s: 5}", "s: 5, threshold_slowdown: 1.5}", NULL},
    {scenario, "policies.replan_gap", "s: 5}", "s: 5, replan_gap: 0.5}", NULL},
    {scenario, "policies.window_steps", "window_steps: 5", "window_steps: 6", NULL},
    {scenario, "policies.planner_time", "s: 5}", "s: 5, planner_time: measured}", NULL},
    {scenario, "policies.planner_s", "s: 5}", "s: 5, planner_s: 11}", NULL},
    {scenario, "policies.payback_steps", "s: 90}", "s: 90, payback_steps: 9}", NULL},
    {scenario, "policies.payback", "s: 90}", "s: 90, payback: steps 9}", NULL},
    {scenario, "policies.payback", "s: 90}", "s: 90, payback: 9 steps}",
     "`payback` is `9 steps`; `expected` or `steps N` is expected"},
    {scenario, "policies.payback", "s: 90}", "s: 90, payback: expected, payback_steps: 9}",
     "`payback` and `payback_steps` say the same; leave one out"},
    {scenario, "policies.name", "name: static", "name: spares", NULL},
    {scenario, "policies.lost_batch", "name: static", "name: drop_replica, lost_batch: lose", NULL},
    {scenario, "policies.lost_batch", "name: static", "name: spares, lost_batch: lose",
     "`lost_batch` does not belong to policy `spares`; it is a key of `drop_replica`"},
    {scenario, "policies.optimizer_step", "name: static", "name: static, optimizer_step: staggered",
     NULL},
    {scenario, "policies.optimizer_step", "name: static", "name: oracle, optimizer_step: together",
     NULL},
    {scenario, "policies.optimizer_step", "name: static", "name: static, optimizer_step: later",
     "`optimizer_step` is `later`"},
    {scenario, "policies.strict_uniform", "s: 90}", "s: 90, strict_uniform: true}", NULL},
    {scenario, "policies.top_k", "e: auto}", "e: auto, top_k: 3}", NULL},
    {scenario, "policies.rank", "e: auto}", "e: auto, rank: steady}", NULL},
    {scenario, "policies.grouping", "e: auto}", "e: auto, grouping: split2}", NULL},
    {scenario, "policies.plan_mode", "plan_mode: auto", "plan_mode: sync", NULL},
    {scenario, "policies.always_switch", "e: auto}", "e: auto, always_switch: true}", NULL},
    {scenario, "policies.reentry_probes", "e: auto}", "e: auto, reentry_probes: 3}", NULL},
    {scenario, "policies.dp", "e: auto}", "e: auto, dp: auto}", NULL},
    {uneven, "policies.name", "name: padding", "name: malleus",
     "policy `malleus` works on batches of `sequences` with lengths of `kind` fixed"},
    {uneven, "policies.plan", "name: padding", "name: padding, plan: plan-64.json",
     "policy `padding` makes its own plans; leave `plan` out."},
    {uneven, "policies.planner_s", "name: padding", "name: padding, planner_s: 1", NULL},
    {uneven, "policies.rank", "l: both", "l: both, rank: objective", NULL},
    {uneven, "policies.assign", "arrival", "sorted", NULL},
    {uneven, "policies.assign", "name: padding", "name: padding, assign: arrival",
     "`assign` does not belong to policy `padding`; it is a key of `pack_dynamic`"},
    {uneven, "policies.proposal", "both", "floor", NULL},
    {uneven, "policies.dispatch", "l: both", "l: both, dispatch: public", NULL},
    {uneven, "policies.score", "l: both", "l: both, score: max", NULL},
    {uneven, "policies.kicks", "l: both", "l: both, kicks: 3", NULL},
    {uneven, "policies.max_plans", "l: both", "l: both, max_plans: 3", NULL},
    {uneven, "policies.stragglers", "l: both", "l: both, stragglers: none", NULL},
    {uneven, "policies.switch_ms", "switch_ms: 5", "switch_ms: 6", NULL},
    {uneven, "policies.ahead", "l: both", "l: both, ahead: 0", NULL},
    {uneven, "policies.workers", "l: both", "l: both, workers: 2", NULL},
    {uneven, "policies.context_parallel", "l: both", "l: both, context_parallel: [2]", NULL},
    {uneven, "policies.context_parallel", "l: both", "l: both, context_parallel: [2, 4, 2]",
     "`context_parallel` has 2 twice"},
    {scenario, "events.id", "id: slow12", "id: slow13", NULL},
    {scenario, "events.kind", "id: back, kind: join", "id: back, kind: fail", NULL},
    {scenario, "events.target", "device:12\"", "device:13\"", NULL},
    {scenario, "events.at_s", "at_s: 600,", "at_s: 601,", NULL},
    {scenario, "events.at_step", "at_step: 400", "at_step: 401", NULL},
    {scenario, "events.between_s", "[3600, 7200]", "[3600, 7201]", NULL},
    {scenario, "events.between_steps", "between_s: [3600, 7200]", "between_steps: [3600, 7200]",
     NULL},
    {scenario, "events.per_step_probability", "0.001", "0.002", NULL},
    {scenario, "events.ramp_s", "ramp_s: 30", "ramp_s: 31", NULL},
    {scenario, "events.notice_s", "notice_s: 120", "notice_s: 121", NULL},
    {scenario, "events.down_s", "down_s: 2", "down_s: 3", NULL},
    {scenario, "events.up_s", "up_s: 8", "up_s: 9", NULL},
    {scenario, "events.cause", "cause: hbm", "cause: sdc", NULL},
    {scenario, "events.hard", "cause: hbm", "cause: hbm, hard: true", NULL},
    {scenario, "events.lengths", "lengths: {kind: fixed, tokens: 8192}",
     "lengths: {kind: fixed, tokens: 8191}", NULL},
    {scenario, "what.slowdown", "2.57", "2.58", NULL},
    {scenario, "what.slowdown_between", "[1.3, 4.0]", "[1.3, 4.1]", NULL},
    {scenario, "what.bandwidth_factor", "0.25", "0.26", NULL},
    {scenario, "what.extra_latency_us", "extra_latency_us: 5", "extra_latency_us: 6", NULL},
    {scenario, "what.duration_s", "duration_s: 3600", "duration_s: 3601", NULL},
    {scenario, "events.duration_steps", "duration_s: 3600", "duration_steps: 3600", NULL},
    {scenario, "processes.id", "id: faults", "id: flaws", NULL},
    {scenario, "processes.kind", "id: faults, kind: fail",
     "id: faults, slowdown: 2, kind: straggler", NULL},
    {scenario, "processes.target", "kind: fail, target: \"device:[0-47]\"",
     "kind: fail, target: \"device:[0-46]\"", NULL},
    {scenario, "processes.distribution", "weibull, mean_s: 900000, shape: 0.7",
     "exponential, mean_s: 900000", NULL},
    {scenario, "processes.mean_s", "4000000", "4000001", NULL},
    {scenario, "processes.shape", "shape: 0.7", "shape: 0.8", NULL},
    {scenario, "processes.life", "life: {distribution: exponential, mean_s: 900}, ", "", NULL},
    {scenario, "processes.file", "file: causes.csv", "file: causes2.csv", NULL},
    {scenario, "processes.observed_devices", "16384", "16385", NULL},
    {scenario, "processes.observed_s", "4665600", "4665601", NULL},
    {scenario, "life.distribution", "exponential, mean_s: 900}", "weibull, shape: 2, mean_s: 900}",
     NULL},
    {scenario, "life.mean_s", "mean_s: 900}", "mean_s: 901}", NULL},
    {scenario, "life.shape", "exponential, mean_s: 900}", "exponential, shape: 2, mean_s: 900}",
     "`shape` does not belong"},
    {scenario, "life.median_s", "median_s: 3600", "median_s: 3601", NULL},
    {scenario, "life.sigma", "sigma: 0.8", "sigma: 0.9", NULL},
    {scenario, "traces.file", "file: spot.csv", "file: spot2.csv", NULL},
    {scenario, "traces.start_s", "start_s: 0", "start_s: 1", NULL},
    {scenario, "traces.time_scale", "time_scale: 1.0", "time_scale: 2", NULL},
    {scenario, "noise.compute_sigma", "0.01,", "0.02,", NULL},
    {scenario, "noise.comm_sigma", "0.02}", "0.03}", NULL},
    {experts, "expert_load.kind", "zipf, exponent: 0.5", "uniform", NULL},
    {experts, "expert_load.exponent", "exponent: 0.5", "exponent: 2", NULL},
    {experts, "expert_load.exponent", "zipf, exponent: 0.5", "uniform, exponent: 1",
     "`exponent` does not belong to an `expert_load` of `kind` uniform; leave it out."},
    {experts, "expert_load.exponent", "zipf, exponent: 0.5", "trace, exponent: 1, file: load.csv",
     "`exponent` does not belong to an `expert_load` of `kind` trace; leave it out."},
    {experts, "expert_load.file", "zipf, exponent: 0.5", "trace, file: load.csv", NULL},
    {scenario, "checkpoint.every_steps", "every_steps: 100", "every_steps: 101", NULL},
    {scenario, "checkpoint.every_s", "every_steps: 100", "every_s: 100", NULL},
    {scenario, "checkpoint.auto", "every_steps: 100", "auto: true", NULL},
    {scenario, "checkpoint.auto", "every_steps: 100", "auto: false", "`auto` is `false`"},
    {scenario, "checkpoint.mode", "background", "blocking", NULL},
    {scenario, "checkpoint.target", "target: storage", "target: disk", NULL},
    {scenario, "costs.detect_fail_s", "detect_fail_s: 30", "detect_fail_s: 31", NULL},
    {scenario, "costs.process_start_s", "process_start_s: 60", "process_start_s: 61", NULL},
    {scenario, "costs.communicator_s", "0.05", "0.06", NULL},
    {scenario, "costs.operator_s", "replacement_s: 0", "operator_s: 0.01", NULL},
    {scenario, "costs.replacement_s", "replacement_s: 0", "replacement_s: 1", NULL},
    {scenario, "truth.write", "{write: true}", "{write: false}", NULL},
};

#endif
