/* tests/unit/check_json_schema.c: the JSON Schemas of our kinds of files are JSON, hold of every
 * example file and not of files with an error in them. A small validator is here: the keywords
 * that core/io/document/json_schema.c writes, and any other is a failure. */
#include <ftw.h>

#include "core/io/document/json_schema.h"
#include "core/io/read/read.h"
#include "tests/check_main.h"

static luo_arena *arena;
static luo_diags diags;

/* ---- validator ---- */

static bool is_number(const luo_doc_node *node)
{
    double v;
    return node->type == LUO_DOC_SCALAR && !node->quoted && luo_doc_real(node, &v);
}

/* As JSON and the core schema of YAML 1.2 have it. */
static bool has_type(const luo_doc_node *node, const char *type)
{
    double v = 0;
    if (strcmp(type, "object") == 0) return node->type == LUO_DOC_MAP;
    if (strcmp(type, "array") == 0) return node->type == LUO_DOC_LIST;
    if (node->type != LUO_DOC_SCALAR) return false;
    const bool flag = luo_doc_is(node, "true") || luo_doc_is(node, "false");
    const bool null =
        !node->quoted && (luo_doc_is(node, "null") || luo_doc_is(node, "~") || !*node->text);
    if (strcmp(type, "boolean") == 0) return flag;
    if (strcmp(type, "null") == 0) return null;
    if (strcmp(type, "number") == 0) return is_number(node);
    if (strcmp(type, "integer") == 0)
        return is_number(node) && luo_doc_real(node, &v) && v == floor(v);
    ck_assert_str_eq(type, "string");
    return !flag && !null && !is_number(node);
}

static bool is_equal(const luo_doc_node *a, const luo_doc_node *b)
{
    return a->quoted == has_type(b, "string") && strcmp(a->text, b->text) == 0;
}

static const char *wrong(const luo_doc_node *schema, const luo_doc_node *node);

static const char *wrong_keys(const luo_doc_node *schema, const luo_doc_node *node)
{
    const luo_doc_node *known = luo_doc_get(schema, "properties"),
                       *required = luo_doc_get(schema, "required"),
                       *others = luo_doc_get(schema, "additionalProperties");
    const char *what = NULL;
    if (node->type != LUO_DOC_MAP) return NULL;
    for (const luo_doc_node *y = node->first; y && !what; y = y->next) {
        const luo_doc_node *of = luo_doc_get(known, y->key);
        if (of)
            what = wrong(of, y);
        else if (others && luo_doc_is(others, "false"))
            what = luo_arena_printf(arena, "additionalProperties %s", y->key);
    }
    for (const luo_doc_node *y = required ? required->first : NULL; y && !what; y = y->next)
        if (!luo_doc_get(node, y->text)) what = luo_arena_printf(arena, "required %s", y->text);
    return what;
}

static bool is_one_of(const luo_doc_node *list, const luo_doc_node *node)
{
    for (const luo_doc_node *y = list->first; y; y = y->next)
        if (is_equal(y, node)) return true;
    return false;
}

static bool type_holds(const luo_doc_node *types, const luo_doc_node *node)
{
    if (types->type == LUO_DOC_SCALAR) return has_type(node, types->text);
    for (const luo_doc_node *y = types->first; y; y = y->next)
        if (has_type(node, y->text)) return true;
    return false;
}

static bool holds_any(const luo_doc_node *schemas, const luo_doc_node *node)
{
    for (const luo_doc_node *y = schemas->first; y; y = y->next)
        if (!wrong(y, node)) return true;
    return false;
}

/* minimum, exclusiveMinimum, maximum; of what is no number they say nothing. */
static bool bound_holds(const luo_doc_node *rule, const luo_doc_node *node)
{
    double bound = 0, v = 0;
    ck_assert(luo_doc_real(rule, &bound));
    if (!is_number(node)) return true;
    luo_doc_real(node, &v);
    if (strcmp(rule->key, "minimum") == 0) return v >= bound;
    if (strcmp(rule->key, "exclusiveMinimum") == 0) return v > bound;
    return v <= bound;
}

static bool rule_holds(const luo_doc_node *rule, const luo_doc_node *node)
{
    int64_t n = 0;
    const char *word = rule->key;
    if (strcmp(word, "const") == 0) return is_equal(rule, node);
    if (strcmp(word, "enum") == 0) return is_one_of(rule, node);
    if (strcmp(word, "type") == 0) return type_holds(rule, node);
    if (strcmp(word, "anyOf") == 0) return holds_any(rule, node);
    if (strcmp(word, "minItems") == 0 || strcmp(word, "maxItems") == 0) {
        ck_assert(luo_doc_int(rule, &n));
        return node->type != LUO_DOC_LIST || (word[1] == 'i' ? node->n >= n : node->n <= n);
    }
    if (strcmp(word, "minimum") == 0 || strcmp(word, "exclusiveMinimum") == 0 ||
        strcmp(word, "maximum") == 0)
        return bound_holds(rule, node);
    static const char *const silent[] = {
        "$schema",    "title",    "description",          "default",
        "properties", "required", "additionalProperties", "items"};
    for (int i = 0; i < LUO_ROWS(silent); i++)
        if (strcmp(silent[i], word) == 0) return true;
    ck_abort_msg("unknown keyword `%s`", word);
}

/* "minimum nodes": the first rule that does not hold; NULL: all do. */
static const char *wrong(const luo_doc_node *schema, const luo_doc_node *node)
{
    for (const luo_doc_node *rule = schema->first; rule; rule = rule->next)
        if (!rule_holds(rule, node))
            return luo_arena_printf(arena, "%s %s", rule->key, node->key ? node->key : "");
    const luo_doc_node *items = luo_doc_get(schema, "items");
    const char *what = wrong_keys(schema, node);
    for (const luo_doc_node *y = node->first; items && y && !what; y = y->next)
        what = wrong(items, y);
    return what;
}

/* ---- schemas ---- */

static const luo_doc_node *schema_of(const luo_doc_kind *kind)
{
    const luo_doc_node *root;
    luo_err err;
    luo_str text = {0};
    luo_json_schema_add(&text, kind);
    const char *kept = luo_arena_printf(arena, "%s", luo_str_get(&text));
    luo_str_free(&text);
    ck_assert_msg(luo_doc_tree(arena, kept, strlen(kept), &root, &err) == LUO_OK, "%s: %s",
                  kind->name, err.text);
    return root;
}

static const luo_doc_kind *kind_of(const char *name)
{
    int n;
    const luo_doc_kind *const *kinds = luo_doc_kinds(&n);
    for (int i = 0; i < n; i++)
        if (strcmp(kinds[i]->name, name) == 0) return kinds[i];
    return NULL;
}

static const luo_doc_node *tree_of(const luo_source *src)
{
    luo_doc *doc = luo_arena_calloc(arena, 1, sizeof *doc);
    *doc = (luo_doc){.arena = arena, .src = src, .diags = &diags};
    ck_assert_msg(luo_doc_parse(doc) == LUO_OK, "%s", src->name);
    return doc->root;
}

/* ---- example files ---- */

static int found[LUO_FILE_TABLE];

static int check_example(const char *path, const struct stat *sb, int flag, struct FTW *at)
{
    (void)sb, (void)at;
    luo_source src;
    luo_err err;
    luo_file_kind kind;
    const char *end = strrchr(path, '.');
    if (flag != FTW_F || !end || (strcmp(end, ".yaml") != 0 && strcmp(end, ".json") != 0)) return 0;
    ck_assert(luo_source_read(arena, path, &src, &err) == LUO_OK);
    if (luo_file_kind_of_text(&src, &kind, &diags) != LUO_OK || kind == LUO_FILE_TABLE) return 0;
    const luo_doc_node *root = tree_of(&src);
    if (!luo_doc_get(root, "schema")) return 0; /* a model of Hugging Face */
    const char *what = wrong(schema_of(kind_of(luo_file_kind_name(kind))), root);
    ck_assert_msg(!what, "%s: %s", path, what);
    found[kind]++;
    return 0;
}

START_TEST(examples_hold)
{
    arena = luo_arena_new(1 << 16);
    luo_diags_init(&diags, arena);
    memset(found, 0, sizeof found);
    ck_assert_int_eq(nftw("scenarios", check_example, 16, FTW_PHYS), 0);
    for (int k = 0; k < LUO_FILE_TABLE; k++)
        ck_assert_msg(found[k] > 0, "no example of luoshu.%s/1",
                      luo_file_kind_name((luo_file_kind)k));
    luo_arena_free(arena);
}
END_TEST

/* ---- mistakes ---- */

#define CLUSTER "schema: luoshu.cluster/1\nname: a\n"
#define GROUP_OF(sizes, keys) "node_groups:\n  - {name: g, profile: h20, " sizes keys "}\n"
#define GROUP(keys) GROUP_OF("nodes: 1, devices_per_node: 2", keys)

static const struct {
    const char *kind, *text, *rule; /* NULL: it holds */
} mistakes[] = {
    {"cluster", CLUSTER GROUP(""), NULL},
    {"cluster", CLUSTER GROUP(", speed: 2"), "additionalProperties speed"},
    {"cluster", CLUSTER GROUP("") "fabrics: {kind: single}\n", "additionalProperties fabrics"},
    {"cluster", CLUSTER, "required node_groups"},
    {"cluster", CLUSTER GROUP_OF("nodes: 1.5", ""), "type nodes"},
    {"cluster", CLUSTER GROUP_OF("nodes: many", ""), "type nodes"},
    {"cluster", CLUSTER GROUP_OF("nodes: 0", ""), "minimum nodes"},
    {"cluster", CLUSTER GROUP_OF("nodes: 1, devices_per_node: 65", ""), "maximum devices_per_node"},
    {"cluster", CLUSTER GROUP(", scale_up: {kind: nvlink}"), "enum kind"},
    {"cluster", CLUSTER GROUP(", scale_up: 3"), "type scale_up"},
    {"cluster", CLUSTER GROUP(", nics: {count: 1}"), "required bandwidth_gbytes_per_s"},
    {"cluster", CLUSTER GROUP(", host: {memory_gib: 0}"), "minimum memory_gib"},
    {"cluster", CLUSTER GROUP(", scale_up: {kind: none, latency_us: 0}"), NULL},
    {"cluster", CLUSTER GROUP(", scale_up: {kind: none, latency_us: 1e-9}"), "anyOf latency_us"},
    {"cluster", "schema: luoshu.cluster/2\nname: a\n" GROUP(""), "const schema"},
    {"scenario", "schema: luoshu.scenario/1\nname: 5\n", "type name"},
    {"scenario",
     "schema: luoshu.scenario/1\nname: a\nevents: [{id: e, kind: fail, between_s: [1]}]\n",
     "minItems between_s"},
    {"scenario", "schema: luoshu.scenario/1\nname: a\ntruth: {write: yes}\n", "type write"},
    {"plan", "{\"schema\": \"luoshu.plan/1\", \"pipelines\": []}", "minItems pipelines"},
    {"plan", "{\"schema\": \"luoshu.plan/1\", \"state_layout\": null, \"zero\": 4}",
     "maximum zero"},
};

START_TEST(mistakes_do_not)
{
    arena = luo_arena_new(1 << 16);
    luo_diags_init(&diags, arena);
    const char *text = mistakes[_i].text;
    const luo_source src = {"example", text, strlen(text)};
    const char *what = wrong(schema_of(kind_of(mistakes[_i].kind)), tree_of(&src));
    ck_assert_msg(!what == !mistakes[_i].rule && (!what || strcmp(what, mistakes[_i].rule) == 0),
                  "%s: `%s`, not `%s`", text, what ? what : "holds",
                  mistakes[_i].rule ? mistakes[_i].rule : "holds");
    luo_arena_free(arena);
}
END_TEST

LUO_SUITE("json_schema", LUO_T(examples_hold), LUO_T_N(mistakes_do_not, LUO_ROWS(mistakes)))
