/* check_yaml.c: the strict pass (V-G1, docs/formats.md#rules-for-all-files), defaults of models,
 * and clusters and profiles. Wrong files stand in tests/golden/bad. */
#include "core/io/document/doc_table.h"
#include "core/io/json_number.h"
#include "core/io/read/read.h"
#include "core/io/say.h"
#include "tests/check_main.h"

/* ---- V-G1 ---- */

static const struct {
    const char *text;
    bool whole, number;
} numbers[] = {
    {"8", true, true},      {"-3", true, true},     {"+3", false, false},  {"010", false, false},
    {"0x10", false, false}, {"1e3", false, true},   {"1_000", false, false}, {"3x", false, false},
    {"25", true, true},     {"2.5e1", false, true}, {"-0.5", false, true}, {".5", false, false},
    {"1,5", false, false},  {"nan", false, false},  {"1e999", false, false}, {"25GB", false, false},
    {"", false, false},     {"-", false, false},    {"0", true, true},     {"-0", true, true},
    {"1.", false, false},   {"1e", false, false},   {"1E+2", false, true}, {" 1", false, false},
    {"inf", false, false},  {"9223372036854775807", true, true},
    {"9223372036854775808", false, true}, {"-9223372036854775808", true, true},
    {"1e-400", false, true}, {"00", false, false},
};

START_TEST(number_row)
{
    const char *t = numbers[_i].text;
    int64_t i;
    double d;
    ck_assert_msg(luo_json_number_whole(t, strlen(t), &i) == numbers[_i].whole, "whole `%s`", t);
    ck_assert_msg(luo_json_number_float(t, strlen(t), &d) == numbers[_i].number, "number `%s`", t);
}
END_TEST

START_TEST(numbers_equal_strtod) /* the quick path against the C library */
{
    static const char *const texts[] = {"0.1", "123456.789", "0.000001", "999999999999999",
                                        "3.141592653589793", "1234567890.12345", "-7.25",
                                        "0.30000000000000004", "1e22", "4.35", "100000000000.125"};
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
        double v;
        ck_assert(luo_json_number_float(texts[k], strlen(texts[k]), &v));
        ck_assert_msg(v == strtod(texts[k], NULL), "%s", texts[k]);
    }
}
END_TEST

/* ---- one key of each type ---- */

typedef struct probe {
    char *schema, *text;
    int64_t whole;
    double number;
    bool flag;
    int32_t word;
    double pair[2];
} probe;

static const luo_doc_word words[] = {{"one", 1}, {"two", 2}};
static const luo_doc_schema number_entry = LUO_DOC_SCALAR_OF(LUO_DOC_REAL, double, LUO_DOC_ANY);
static const luo_doc_field fields[] = {
    LUO_DOC_TEXT("schema", LUO_DOC_REQ, probe, schema, NULL),
    LUO_DOC_TEXT("text", LUO_DOC_OPT, probe, text, NULL),
    LUO_DOC_INT("whole", LUO_DOC_OPT, probe, whole, LUO_DOC_ANY, NULL),
    LUO_DOC_FLOAT("number", LUO_DOC_OPT, probe, number, LUO_WITHIN(-1e300, 1e300), NULL),
    LUO_DOC_BOOL("flag", LUO_DOC_OPT, probe, flag, NULL),
    LUO_DOC_ENUM("word", LUO_DOC_OPT, probe, word, words, NULL),
    LUO_DOC_PAIR("pair", LUO_DOC_OPT, probe, pair, number_entry, NULL),
    LUO_DOC_END};
static const luo_doc_schema schema = LUO_DOC_STRUCT_OF(probe, fields, NULL);
static const luo_doc_kind kind = {"probe", &schema};

static luo_status read_probe(luo_arena *arena, luo_diags *diags, const char *text,
                             const char *set, probe **out)
{
    luo_doc doc = {.arena = arena, .diags = diags};
    const luo_source src = {"p.yaml", text, strlen(text)};
    void *data = NULL;
    luo_diags_init(diags, arena);
    doc.src = &src;
    luo_doc_parse(&doc);
    if (set) luo_doc_set(&doc, set);
    luo_doc_check(&doc, &kind);
    if (doc.st == LUO_OK) luo_doc_load(&doc, &schema, &data);
    *out = data;
    return doc.st;
}

static const struct {
    const char *line;
    bool good;
} values[] = {
    {"whole: 8", true},       {"whole: -3", true},        {"whole: +3", false},
    {"whole: 010", false},    {"whole: 0x10", false},     {"whole: 1e3", false},
    {"whole: 1_000", false},  {"whole: 3x", false},       {"whole: \"8\"", false},
    {"number: 25", true},     {"number: 2.5e1", true},    {"number: -0.5", true},
    {"number: .5", false},    {"number: 1,5", false},     {"number: nan", false},
    {"number: .inf", false},  {"number: 1e999", false},   {"number: 25GB", false},
    {"number: 25 GB", false}, {"number: '25'", false},    {"flag: true", true},
    {"flag: false", true},    {"flag: tru", false},       {"flag: yes", false},
    {"flag: on", false},      {"flag: 1", false},         {"flag: True", false},
    {"word: one", true},      {"word: 1", false},         {"word: One", false},
    {"text: x y", true},      {"text: \"\"", true},       {"text:", false},
    {"text: ~", false},       {"text: null", false},      {"text: \"null\"", true},
    {"text: 12", true},       {"text: [a]", false},       {"pair: [1, 2]", true},
    {"pair: [1]", false},     {"pair: [1, 2, 3]", false}, {"pair: 1", false},
    {"pair: [1, x]", false},  {"other: 1", false},        {"? [a] : 1", false},
};

START_TEST(value_row)
{
    luo_arena *arena = luo_arena_new(0);
    luo_diags diags;
    probe *p;
    const char *text = luo_arena_printf(arena, "schema: luoshu.probe/1\n%s\n", values[_i].line);
    const luo_status st = read_probe(arena, &diags, text, NULL, &p);
    ck_assert_msg((st == LUO_OK) == values[_i].good, "`%s`: %s", values[_i].line,
                  diags.first ? diags.first->err.text : "accepted");
    if (!values[_i].good) ck_assert_int_eq(luo_status_exit(st), 3);
    luo_arena_free(arena);
}
END_TEST

START_TEST(what_is_checked_is_loaded)
{
    luo_arena *arena = luo_arena_new(0);
    luo_diags diags;
    probe *p;
    const char *text = "\xef\xbb\xbfschema: luoshu.probe/1\r\ntext: \"a \\\"b\\\" \\\\ \\n\\t "
                       "\\u2028 \xc3\xa4\"\r\nwhole: -12\r\nnumber: 2.5e1\r\nflag: true\r\n"
                       "word: two\r\npair: [1.5, -2]\r\n";
    ck_assert_int_eq(read_probe(arena, &diags, text, NULL, &p), LUO_OK);
    ck_assert_str_eq(p->text, "a \"b\" \\ \n\t \xe2\x80\xa8 \xc3\xa4");
    ck_assert_int_eq(p->whole, -12);
    ck_assert(p->number == 25 && p->flag && p->word == 2 && p->pair[0] == 1.5 && p->pair[1] == -2);
    luo_arena_free(arena);
}
END_TEST

static const struct {
    const char *set, *says; /* NULL: good */
} sets[] = {
    {"whole=9", NULL},
    {"text=", NULL},
    {"text=any node:h20", NULL},
    {"pair[1]=7", NULL},
    {"pair=[3, 4]", NULL},
    {"whole=9x", "`whole` is `9x`; a whole number is expected. (given by --set whole=9x)"},
    {"hole=9", "unknown key `hole`; did you mean `whole`? (given by --set hole=9)"},
    {"pair[2]=7", "the list has no such entry; PATH=VALUE such as `events[0].slowdown=3` is "
                  "expected. (given by --set pair[2]=7)"},
    {"whole", "there is no `=`; PATH=VALUE such as `events[0].slowdown=3` is expected. (given by "
              "--set whole)"},
    {"whole.x=1", "the path leads into a value that has no keys; PATH=VALUE such as "
                  "`events[0].slowdown=3` is expected. (given by --set whole.x=1)"},
    {"=1", "a key is empty; PATH=VALUE such as `events[0].slowdown=3` is expected. (given by --set "
           "=1)"},
};

START_TEST(set_row)
{
    luo_arena *arena = luo_arena_new(0);
    luo_diags diags;
    probe *p;
    const luo_status st = read_probe(
        arena, &diags, "schema: luoshu.probe/1\nwhole: 1\npair: [1, 2]\n", sets[_i].set, &p);
    if (!sets[_i].says) ck_assert_msg(st == LUO_OK, "%s", diags.first->err.text);
    else ck_assert_str_eq(diags.first->err.text, sets[_i].says);
    if (_i == 0) ck_assert_int_eq(p->whole, 9);
    if (_i == 3) ck_assert(p->pair[0] == 1 && p->pair[1] == 7);
    luo_arena_free(arena);
}
END_TEST

/* ---- models ---- */

#define HEAD "schema: luoshu.model/1\nname: m\n"
static const struct {
    const char *text;
    luo_model want;
} models[] = {
    {HEAD "family: llama\nlayers: 60\nhidden: 6656\nffn_hidden: 17920\nheads: 64\nvocab: 30592\n"
          "max_sequence_tokens: 32768\ndtype: bf16\n",
     {.family = LUO_FAMILY_LLAMA, .kv_heads = 64, .head_dim = 104, .rope_base = 10000,
      .norm = LUO_NORM_RMS, .norm_eps = 1e-6, .activation = LUO_ACT_SWIGLU,
      .position = LUO_POS_ROPE, .causal = true}},
    {HEAD "family: gpt\nlayers: 12\nhidden: 768\nffn_hidden: 3072\nheads: 12\nvocab: 50257\n"
          "max_sequence_tokens: 1024\ndtype: f32\n",
     {.family = LUO_FAMILY_GPT, .kv_heads = 12, .head_dim = 64, .norm = LUO_NORM_LAYER,
      .norm_eps = 1e-5, .activation = LUO_ACT_GELU, .position = LUO_POS_LEARNED, .causal = true,
      .tied_embeddings = true, .linear_bias = true, .out_bias = true,
      .qkv_bias = true, .dtype = LUO_F32}},
    {HEAD "family: bert\nlayers: 2\nhidden: 8\nffn_hidden: 32\nheads: 2\nvocab: 10\n"
          "max_sequence_tokens: 16\n",
     {.family = LUO_FAMILY_BERT, .kv_heads = 2, .head_dim = 4, .norm = LUO_NORM_LAYER,
      .norm_eps = 1e-12, .activation = LUO_ACT_GELU, .position = LUO_POS_LEARNED,
      .tied_embeddings = true, .linear_bias = true, .out_bias = true,
      .qkv_bias = true, .token_types = 2}},
    {HEAD "family: vit\nlayers: 12\nhidden: 768\nffn_hidden: 3072\nheads: 12\nclasses: 1000\n"
          "image: {height_px: 224, width_px: 224, channels: 3, patch_px: 16}\n",
     {.family = LUO_FAMILY_VIT, .kv_heads = 12, .head_dim = 64, .norm = LUO_NORM_LAYER,
      .norm_eps = 1e-12, .activation = LUO_ACT_GELU, .position = LUO_POS_LEARNED,
      .linear_bias = true, .out_bias = true,
      .qkv_bias = true, .classes = 1000}},
    {HEAD "family: vgg\nvariant: 16\nclasses: 1000\n"
          "image: {height_px: 224, width_px: 224, channels: 3}\n",
     {.family = LUO_FAMILY_VGG, .norm = LUO_NORM_LAYER, .norm_eps = 1e-12,
      .activation = LUO_ACT_GELU, .position = LUO_POS_LEARNED, .classes = 1000, .variant = 16}},
    {HEAD "family: moe\nlayers: 4\nhidden: 8\nffn_hidden: 32\nheads: 2\nvocab: 10\nkv_heads: 1\n"
          "max_sequence_tokens: 16\nhead_dim: 6\nqk_norm: true\n"
          "moe: {experts: 8, experts_per_token: 2, expert_ffn_hidden: 16}\n",
     {.family = LUO_FAMILY_MOE, .kv_heads = 1, .head_dim = 6, .rope_base = 10000, .qk_norm = true,
      .norm = LUO_NORM_RMS, .norm_eps = 1e-6, .activation = LUO_ACT_SWIGLU,
      .position = LUO_POS_ROPE, .causal = true,
      .moe = {.experts = 8, .experts_per_token = 2, .expert_ffn_hidden = 16, .every_layers = 1,
              .routed_scale = 1, .route_groups = 1, .route_groups_kept = 1}}},
    {HEAD "family: mlp\nlayers: 2\nhidden: 8\nffn_hidden: 32\nvocab: 10\n"
          "max_sequence_tokens: 16\n",
     {.family = LUO_FAMILY_MLP, .norm = LUO_NORM_LAYER, .norm_eps = 1e-5,
      .activation = LUO_ACT_GELU, .position = LUO_POS_NONE, .causal = true, .linear_bias = true}},
};

START_TEST(model_row)
{
    luo_arena *arena = luo_arena_new(0);
    luo_diags diags;
    luo_model *m = NULL;
    const luo_model *w = &models[_i].want;
    const luo_source src = {"m.yaml", models[_i].text, strlen(models[_i].text)};
    luo_diags_init(&diags, arena);
    const luo_status st = luo_read_model_text(arena, &src, NULL, &m, &diags);
    ck_assert_msg(st == LUO_OK, "%s", diags.first ? diags.first->err.text : "?");
    ck_assert_int_eq(m->family, w->family);
    ck_assert_int_eq(m->kv_heads, w->kv_heads);
    ck_assert_int_eq(m->head_dim, w->head_dim);
    ck_assert_int_eq(m->token_types, w->token_types);
    ck_assert_int_eq(m->classes, w->classes);
    ck_assert_int_eq(m->variant, w->variant);
    ck_assert(m->rope_base == w->rope_base && m->norm_eps == w->norm_eps);
    ck_assert(m->norm == w->norm && m->activation == w->activation && m->position == w->position);
    ck_assert(m->causal == w->causal && m->tied_embeddings == w->tied_embeddings);
    ck_assert(m->linear_bias == w->linear_bias && m->out_bias == w->out_bias);
    ck_assert(m->qkv_bias == w->qkv_bias);
    ck_assert(m->qk_norm == w->qk_norm && m->dtype == w->dtype);
    ck_assert(memcmp(&m->moe, &w->moe, sizeof m->moe) == 0);
    luo_arena_free(arena);
}
END_TEST

/* What is wrong once is said once. */
START_TEST(experts_where_they_go)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {HEAD "family: moe\nlayers: 4\nhidden: 8\nffn_hidden: 32\nheads: 2\nvocab: 10\n"
              "max_sequence_tokens: 16\n", "`moe`"},
        {HEAD "family: llama\nlayers: 4\nhidden: 8\nffn_hidden: 32\nheads: 2\nvocab: 10\n"
              "max_sequence_tokens: 16\nmoe: {experts: 2, experts_per_token: 3, "
              "expert_ffn_hidden: 16}\n", "`moe`"},
    };
    luo_arena *arena = luo_arena_new(0);
    luo_diags diags;
    luo_model *m = NULL;
    const luo_source src = {"m.yaml", rows[_i].text, strlen(rows[_i].text)};
    luo_diags_init(&diags, arena);
    ck_assert_int_eq(luo_read_model_text(arena, &src, NULL, &m, &diags), LUO_EINPUT);
    ck_assert_msg(strstr(diags.first->err.text, rows[_i].says) != NULL, "%s",
                  diags.first->err.text);
    ck_assert_msg(diags.first == diags.last, "%s", diags.last->err.text);
    luo_arena_free(arena);
}
END_TEST

/* ---- an example ---- */

START_TEST(example_cluster)
{
    luo_arena *arena = luo_arena_new(0);
    luo_diags diags;
    luo_cluster *c = NULL;
    luo_diags_init(&diags, arena);
    const luo_status st = luo_read_cluster(arena, "tests/golden/inputs/mixed48.yaml", &c, &diags);
    ck_assert_msg(st == LUO_OK, "%s", diags.first ? diags.first->err.text : "?");
    ck_assert(c->ndevices == 48 && c->nnodes == 6 && c->ngroups == 2 && c->nracks == 2);
    ck_assert_str_eq(c->groups[0].name, "h20");
    ck_assert(c->groups[0].scale_up == LUO_SCALE_UP_NVSWITCH);
    ck_assert(c->groups[0].scale_up_bytes_per_s == 400e9 && c->groups[0].nics == 8);
    ck_assert(c->groups[0].nic_bytes_per_s == 50e9 && !c->groups[0].nic_shared);
    ck_assert(c->groups[0].host_memory_bytes == 1024 * 1073741824.0);
    ck_assert(c->groups[1].scale_up == LUO_SCALE_UP_MESH && c->groups[1].nmesh == 2);
    ck_assert(c->groups[1].nic_shared && c->groups[1].devices_per_switch == 4);
    ck_assert(c->fabric == LUO_FABRIC_TWO_TIER && c->rack_uplink_bytes_per_s == 800e9);
    ck_assert(c->storage_read_bytes_per_s == 40e9 && c->nstandby == 0 && c->nhealth == 2);
    ck_assert(c->health[0].down && c->health[1].slowdown == 1.3);
    ck_assert(c->groups[1].profile->peak_flops[LUO_BF16] == 990e12);
    ck_assert(c->groups[0].profile != c->groups[1].profile);
    luo_arena_free(arena);
}
END_TEST

static luo_status table_file(void *ctx, luo_arena *arena, const char *path, luo_source *out,
                             luo_err *err)
{
    (void)ctx;
    (void)arena;
    static const char ops[] = "op,dtype,m,n,k,time_us,role\ngemm,bf16,8,16,32,2.5,calibration\n"
                              "gemm,bf16,8,16,64,5,validation\n";
    static const char rings[] =
        "size_bytes,collective,devices,nodes,time_us,busbw_gbytes_per_s,role\n"
        "2097152,all_reduce,8,1,100,30.5,calibration\n1048576,all_reduce,8,1,100,,calibration\n"
        "1048576,all_reduce,4,1,100,1,calibration\n1048576,all_reduce,16,2,9,1,calibration\n"
        "4096,all_gather,8,1,100,1,validation\n";
    static const char hops[] = "class,size_bytes,time_us,role\npcie,4096,3,calibration\n"
                               "nic,64,9,calibration\npcie,1024,2,calibration\n"
                               "pcie,2048,8,validation\n";
    if (strcmp(path, "t/p2p.csv") == 0) *out = (luo_source){path, hops, sizeof hops - 1};
    else if (strcmp(path, "t/ops.csv") == 0) *out = (luo_source){path, ops, sizeof ops - 1};
    else if (strcmp(path, "rings.csv") == 0) *out = (luo_source){path, rings, sizeof rings - 1};
    else return luo_err_set(err, LUO_EINPUT, "cannot read `%s`: none; one is expected.", path);
    return LUO_OK;
}

START_TEST(profile_tables) /* from memory; relative paths; roles */
{
    luo_arena *arena = luo_arena_new(0);
    luo_diags diags;
    luo_profile *p = NULL;
    const luo_files files = {table_file, NULL};
    const char *text =
        "schema: luoshu.profile/1\nname: x\nkind: cpu\nvalues:\n"
        "  - {name: peak_f64_tflop_per_s, value: 0.05, source: a, provenance: measured}\n"
        "  - {name: memory_gib, value: 4, source: a, provenance: measured}\n"
        "  - {name: memory_gbytes_per_s, value: 20, source: a, provenance: measured}\n"
        "tables: [{kind: op_times, file: ops.csv}, {kind: collective_times, file: ../rings.csv},"
        " {kind: p2p_times, file: p2p.csv}]\n"
        "calibrated: {date: \"2025-01-01\", device: this, rows: 3}\n";
    const luo_source src = {"t/p.yaml", text, strlen(text)};
    luo_diags_init(&diags, arena);
    const luo_status st = luo_read_profile_text(arena, &src, &files, &p, &diags);
    ck_assert_msg(st == LUO_OK, "%s", diags.first ? diags.first->err.text : "?");
    ck_assert(p->cpu && p->nop_times == 1 && p->op_times[0].k == 32);
    ck_assert(fabs(p->op_times[0].seconds - 2.5e-6) < 1e-18);
    ck_assert(p->ncurves == 2 && p->curves[0].devices == 4 && p->curves[1].n == 2);
    ck_assert(p->curves[1].at[0].bytes == 1048576 && p->curves[1].at[1].bytes == 2097152);
    const double busbw = 2 * 7.0 / 8 * 1048576 / 100e-6;
    ck_assert(p->curves[1].at[0].busbw_bytes_per_s / busbw - 1 < 1e-12);
    ck_assert(p->curves[1].at[1].busbw_bytes_per_s == 30.5e9);
    ck_assert(p->np2p_times == 3 && strcmp(p->p2p_times[0].link_class, "nic") == 0);
    ck_assert(p->p2p_times[1].bytes == 1024 && fabs(p->p2p_times[1].seconds - 2e-6) < 1e-18);
    ck_assert(p->p2p_times[2].bytes == 4096 &&
              p->p2p_times[2].link_class == p->p2p_times[1].link_class);
    ck_assert(diags.first && diags.first->severity == LUO_WARNING && !diags.first->next);
    luo_arena_free(arena);
}
END_TEST

/* A list that may be left out may be empty as well: that says the same. */
START_TEST(empty_lists)
{
    static const char *const stacks[] = {"", "values: []\n", "switches: []\n",
                                         "values: []\nswitches: []\n"};
    static const char profile[] =
        "schema: luoshu.profile/1\nname: x\nvalues:\n"
        "  - {name: peak_bf16_tflop_per_s, value: 100, source: a, provenance: chosen}\n"
        "  - {name: memory_gib, value: 4, source: a, provenance: chosen}\n"
        "  - {name: memory_gbytes_per_s, value: 20, source: a, provenance: chosen}\n";
    luo_arena *arena = luo_arena_new(0);
    luo_diags diags;
    luo_diags_init(&diags, arena);
    for (int i = 0; i < LUO_ROWS(stacks); i++) {
        luo_stack s, plain;
        luo_stack_default(&plain);
        const char *text =
            luo_arena_printf(arena, "schema: luoshu.stack/1\nname: s\n%s", stacks[i]);
        const luo_source src = {"s.yaml", text, strlen(text)};
        const luo_status st = luo_read_stack_text(arena, &src, &s, &diags);
        ck_assert_msg(st == LUO_OK, "%s: %s", stacks[i], st ? diags.first->err.text : "");
        ck_assert(s.host_launch_s == plain.host_launch_s && s.dp_overlap == plain.dp_overlap);
    }
    for (int i = 0; i < 2; i++) {
        luo_profile *p = NULL;
        const char *text = luo_arena_printf(arena, "%s%s", profile, i ? "tables: []\n" : "");
        const luo_source src = {"p.yaml", text, strlen(text)};
        const luo_status st = luo_read_profile_text(arena, &src, NULL, &p, &diags);
        ck_assert_msg(st == LUO_OK, "profile: %s", st ? diags.first->err.text : "");
        ck_assert(!p->cpu && p->nvalues == 3 && p->nop_times == 0 && p->ncurves == 0);
    }
    luo_arena_free(arena);
}
END_TEST

START_TEST(path_row)
{
    static const struct {
        const char *base, *name, *want;
    } paths[] = {
        {"a/b.yaml", "c.yaml", "a/c.yaml"},        {"a/b.yaml", "../c/d", "c/d"},
        {"b.yaml", "../c", "../c"},                {"a/b", "../../c", "../c"},
        {"/a/b/c", "../x", "/a/x"},                {"a/b", "/x/./y", "/x/y"},
        {"./a/b", "./c//d", "a/c/d"},              {"../a/b", "../../c", "../../c"},
        {"/a", "../../x", "/../../x"},             {"b", "", ""},
    };
    luo_arena *arena = luo_arena_new(0);
    for (size_t k = 0; k < sizeof paths / sizeof *paths; k++)
        ck_assert_str_eq(luo_file_path_join(arena, paths[k].base, paths[k].name), paths[k].want);
    luo_arena_free(arena);
}
END_TEST

/* A file in JSON is read as such, with what libyaml refuses; what only begins like it is YAML. */
START_TEST(json_of_a_file_in_yaml)
{
    luo_arena *arena = luo_arena_new(0);
    luo_diags diags;
    probe *p;
    const char *text = "{\"schema\": \"luoshu.probe/1\",\n\t\"text\": \"\\ud83d\\ude00\"}";
    ck_assert_int_eq(read_probe(arena, &diags, text, "whole=3", &p), LUO_OK);
    ck_assert_str_eq(p->text, "\xf0\x9f\x98\x80");
    ck_assert_int_eq(p->whole, 3);
    ck_assert_int_eq(read_probe(arena, &diags, "{schema: luoshu.probe/1, whole: 4}", NULL, &p),
                     LUO_OK);
    ck_assert_int_eq(p->whole, 4);
    luo_arena_free(arena);
}
END_TEST

LUO_SUITE("io.yaml", LUO_T_N(number_row, LUO_ROWS(numbers)), LUO_T(numbers_equal_strtod),
          LUO_T_N(value_row, LUO_ROWS(values)), LUO_T(what_is_checked_is_loaded),
          LUO_T(json_of_a_file_in_yaml),
          LUO_T_N(set_row, LUO_ROWS(sets)), LUO_T_N(model_row, LUO_ROWS(models)),
          LUO_T_N(experts_where_they_go, 2),
          LUO_T(example_cluster), LUO_T(profile_tables), LUO_T(empty_lists),
          LUO_T(path_row))
