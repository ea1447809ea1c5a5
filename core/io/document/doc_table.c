#include "core/io/document/doc_table.h"
#include "core/io/json_number.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/utf8.h"

/* ---- what is expected of a value ---- */

/* Key that a list entry or a map value stands under. */
static const char *name_of(const luo_doc_node *node)
{
    while (node && !node->key) node = node->up;
    return node ? node->key : "";
}

const luo_doc_kind *const *luo_doc_kinds(int *n)
{
    static const luo_doc_kind *const kinds[] = {
        &luo_doc_cluster, &luo_doc_profile,  &luo_doc_stack, &luo_doc_model,
        &luo_doc_params,  &luo_doc_scenario, &luo_doc_plan};
    *n = (int)LUO_DOC_COUNT(kinds);
    return kinds;
}

enum { WORDS_MAX = 64 };
static int words(const luo_doc_schema *schema, const char **names)
{
    int n = 0;
    for (int i = 0; i < schema->nwords && n < WORDS_MAX; i++) names[n++] = schema->words[i].text;
    return n;
}

luo_limit luo_doc_limit(const luo_doc_schema *schema)
{
    luo_limit limit = schema->limit.unit > 0 ? schema->limit : (luo_limit)LUO_DOC_ANY;
    const double most = ldexp(1, (int)schema->bytes * 8 - 1) - 1;
    if (schema->form != LUO_DOC_WHOLE || schema->bytes == 8) return limit;
    if (limit.lo < -most) limit.lo = -most;
    if (limit.hi > most) limit.hi = most;
    return limit;
}

static const char *expected(const luo_doc_node *node, const luo_doc_schema *schema, char *buf,
                            size_t size)
{
    const char *names[WORDS_MAX];
    luo_str choices = {0};
    const luo_limit limit = luo_doc_limit(schema);
    double v = NAN;
    if (schema->say) return schema->say;
    switch (schema->form) {
    case LUO_DOC_WHOLE:
    case LUO_DOC_REAL:
        if (schema->as_text) return "a number as text";
        luo_json_number_float(node->text, strlen(node->text), &v);
        return luo_say_limit(&limit, schema->form == LUO_DOC_WHOLE, v, buf, size);
    case LUO_DOC_SEED:
        return "a whole number from 0";
    case LUO_DOC_HASH:
        return "a hash of 16 digits";
    case LUO_DOC_FLAG:
        return "`true` or `false`";
    case LUO_DOC_STRING:
    case LUO_DOC_WORD:
        if (!schema->nwords) return "a text";
        luo_words_choices(&choices, names, words(schema, names));
        snprintf(buf, size, "%s", luo_str_get(&choices));
        luo_str_free(&choices);
        return buf;
    case LUO_DOC_STRUCT:
        return "a mapping of keys";
    case LUO_DOC_LIST_OF:
        return "a list";
    case LUO_DOC_TWO_OF:
        return "a list of 2";
    case LUO_DOC_FREE:
        return "a mapping of free keys";
    }
    return "";
}

/* The word that was meant by one that is none of an enumeration; NULL: none is near. */
static const char *meant(const luo_doc_node *node, const luo_doc_schema *schema)
{
    const char *names[WORDS_MAX];
    if (!schema->nwords || node->type != LUO_DOC_SCALAR) return NULL;
    return luo_word_nearest(node->text, names, words(schema, names));
}

static void wrong(luo_doc *doc, const luo_doc_node *node, const luo_doc_schema *schema)
{
    char buf[256];
    const char *want = expected(node, schema, buf, sizeof buf);
    const char *name = name_of(node), *near = meant(node, schema);
    if (!*name) name = "the file";
    if (node->type == LUO_DOC_SCALAR && luo_utf8_drives(node->text))
        luo_doc_error(doc, node, "`%s` is `%.60s`; a text without control characters is expected.",
                      name, node->text);
    else if (near)
        luo_doc_error(doc, node, "`%s` is `%.60s`; did you mean `%s`?", name, node->text, near);
    else if (node->type == LUO_DOC_MAP)
        luo_doc_error(doc, node, "`%s` is a mapping; %s is expected.", name, want);
    else if (node->type == LUO_DOC_LIST)
        luo_doc_error(doc, node, "`%s` is a list; %s is expected.", name, want);
    else if (!*node->text && !node->quoted)
        luo_doc_error(doc, node, "`%s` has no value; %s is expected.", name, want);
    else if (node->quoted && schema->form != LUO_DOC_STRUCT && !schema->nwords)
        luo_doc_error(doc, node, "`%s` is the text \"%.60s\"; %s is expected.", name, node->text,
                      want);
    else if (node->up && node->up->type == LUO_DOC_LIST)
        luo_doc_error(doc, node, "`%.60s` in `%s`; %s is expected.", node->text, name, want);
    else
        luo_doc_error(doc, node, "`%s` is `%.60s`; %s is expected.", name, node->text, want);
}

/* ---- scalars ---- */

static bool seed_of(const char *text, uint64_t *out)
{
    char *end = NULL;
    errno = 0;
    if (!luo_json_number_form(text, strlen(text), true) || *text == '-') return false;
    *out = strtoull(text, &end, 10);
    return !*end && !errno;
}

static bool hash_of(const char *text, uint64_t *out)
{
    *out = strtoull(text, NULL, 16);
    return strlen(text) == 16 && strspn(text, "0123456789abcdef") == 16;
}

static bool number_good(const luo_doc_node *node, const luo_doc_schema *schema)
{
    int64_t whole;
    double v;
    const luo_limit limit = luo_doc_limit(schema);
    if (node->quoted != schema->as_text) return false;
    if (schema->form == LUO_DOC_REAL)
        return luo_json_number_float(node->text, strlen(node->text), &v) &&
               luo_limit_holds(&limit, v);
    return luo_json_number_whole(node->text, strlen(node->text), &whole) &&
           luo_limit_holds(&limit, (double)whole);
}

/* An unquoted empty value, `~` and `null` mean "nothing" in YAML; here every key has a value. */
static bool text_good(const luo_doc *doc, const luo_doc_node *node)
{
    return !luo_utf8_drives(node->text) &&
           (node->quoted || (!doc->json && *node->text && strcmp(node->text, "~") != 0 &&
                             strcasecmp(node->text, "null") != 0));
}

static bool word_good(const luo_doc_node *node, const luo_doc_schema *schema)
{
    for (int i = 0; i < schema->nwords; i++)
        if (strcmp(schema->words[i].text, node->text) == 0) return true;
    return false;
}

static bool scalar_good(const luo_doc *doc, const luo_doc_node *node, const luo_doc_schema *schema)
{
    uint64_t bits;
    if (node->type != LUO_DOC_SCALAR) return false;
    if (schema->nwords) return word_good(node, schema);
    switch (schema->form) {
    case LUO_DOC_SEED:
        return seed_of(node->text, &bits);
    case LUO_DOC_HASH:
        return node->quoted && hash_of(node->text, &bits);
    case LUO_DOC_WHOLE:
    case LUO_DOC_REAL:
        return number_good(node, schema);
    case LUO_DOC_FLAG:
        return luo_doc_is(node, "true") || luo_doc_is(node, "false");
    case LUO_DOC_STRING:
    case LUO_DOC_WORD:
        return text_good(doc, node);
    case LUO_DOC_STRUCT:
    case LUO_DOC_LIST_OF:
    case LUO_DOC_TWO_OF:
    case LUO_DOC_FREE:
        break;
    }
    return false; /* no scalars */
}

/* ---- maps and lists ---- */

static void check(luo_doc *doc, const luo_doc_node *node, const luo_doc_schema *schema);

static void unknown(luo_doc *doc, const luo_doc_node *node, const char *const *names, int n,
                    bool *excused)
{
    luo_str text = {0};
    int meant = -1;
    if (!luo_diags_full(doc->diags, doc->src->name)) /* else it is counted only */
        luo_say_unknown(&text, node->key, names, n, &meant);
    luo_doc_error_key(doc, node, "unknown key `%.80s`; %s", node->key, luo_str_get(&text));
    luo_str_free(&text);
    if (meant >= 0) excused[meant] = true;
}

/* A misspelt key is one error: the key it was meant for is not reported as missing, too. */
static void check_map(luo_doc *doc, const luo_doc_node *node, const luo_doc_schema *schema)
{
    const int before = doc->diags->n_errors;
    const luo_doc_field *fields = schema->fields;
    const char *names[64];
    bool excused[64] = {false}, given[64] = {false};
    int n = 0;
    for (; fields[n].key; n++) names[n] = fields[n].key;
    for (const luo_doc_node *y = node->first; y; y = y->next) {
        int i = 0;
        while (i < n && strcmp(names[i], y->key) != 0) i++;
        if (i == n)
            unknown(doc, y, names, n, excused);
        else
            check(doc, y, &fields[i].value);
        if (i < n) given[i] = true;
    }
    for (int i = 0; i < n; i++)
        if (fields[i].required && !excused[i] && !given[i] &&
            (luo_doc_field_is_required(&fields[i]) || !luo_doc_get(node, fields[i].required)))
            luo_doc_missing(doc, node, names[i]);
    if (schema->check && doc->diags->n_errors == before) schema->check(doc, node);
}

static void check_list(luo_doc *doc, const luo_doc_node *node, const luo_doc_schema *schema)
{
    if (schema->form == LUO_DOC_TWO_OF && node->n != 2)
        luo_doc_error(doc, node, "`%s` has %d values; 2 are expected.", name_of(node), node->n);
    if (node->n < schema->least)
        luo_doc_error(doc, node, "`%s` is empty; at least %d is expected.", name_of(node),
                      schema->least);
    for (const luo_doc_node *y = node->first; y; y = y->next) check(doc, y, schema->entry);
}

static void check(luo_doc *doc, const luo_doc_node *node, const luo_doc_schema *schema)
{
    const bool list = schema->form == LUO_DOC_LIST_OF || schema->form == LUO_DOC_TWO_OF;
    const bool map = schema->form == LUO_DOC_STRUCT || schema->form == LUO_DOC_FREE;
    if (list && node->type == LUO_DOC_LIST)
        check_list(doc, node, schema);
    else if (schema->form == LUO_DOC_STRUCT && node->type == LUO_DOC_MAP)
        check_map(doc, node, schema);
    else if (schema->form == LUO_DOC_FREE && node->type == LUO_DOC_MAP)
        return;
    else if (schema->or_null && luo_doc_is(node, "null"))
        return;
    else if (list || map || !scalar_good(doc, node, schema))
        wrong(doc, node, schema);
}

/* Names both: what the file says, and what this reader is for. */
static bool schema_good(luo_doc *doc, const char *kind)
{
    char want[64];
    const luo_doc_node *node = luo_doc_get(doc->root, "schema");
    snprintf(want, sizeof want, "luoshu.%s/1", kind);
    if (doc->root->type != LUO_DOC_MAP) {
        luo_doc_error(doc, doc->root,
                      "the file holds no mapping; one with `schema: %s` is "
                      "expected.",
                      want);
        return false;
    }
    if (node && node->type == LUO_DOC_SCALAR && strcmp(node->text, want) == 0) return true;
    if (!node)
        luo_doc_error(doc, doc->root, "key `schema` is missing; `schema: %s` is expected.", want);
    else
        luo_doc_error(doc, node, "`schema` is `%.60s`; `%s` is expected.",
                      node->type == LUO_DOC_SCALAR ? node->text : "..", want);
    return false;
}

luo_status luo_doc_check(luo_doc *doc, const luo_doc_kind *kind)
{
    if (!doc->root) return doc->st;
    if (schema_good(doc, kind->name)) check(doc, doc->root, kind->schema);
    return doc->st;
}

/* ---- into C structs ---- */

static bool store(luo_doc *doc, const luo_doc_node *node, const luo_doc_schema *schema, char *to);

static void store_whole(int64_t v, const luo_doc_schema *schema, char *to)
{
    const int32_t small = (int32_t)v;
    if (schema->bytes == sizeof(bool))
        *(bool *)to = v != 0;
    else if (schema->bytes == sizeof small)
        memcpy(to, &small, sizeof small);
    else
        memcpy(to, &v, sizeof v);
}

static void store_scalar(const char *text, const luo_doc_schema *schema, char *to)
{
    const size_t n = strlen(text);
    int64_t whole = 0;
    uint64_t bits = 0;
    double real = 0;
    switch (schema->form) {
    case LUO_DOC_SEED:
        seed_of(text, &bits);
        memcpy(to, &bits, sizeof bits);
        break;
    case LUO_DOC_HASH:
        hash_of(text, &bits);
        memcpy(to, &bits, sizeof bits);
        break;
    case LUO_DOC_WHOLE:
        luo_json_number_whole(text, n, &whole);
        store_whole(whole, schema, to);
        break;
    case LUO_DOC_REAL:
        luo_json_number_float(text, n, &real);
        memcpy(to, &real, sizeof real);
        break;
    case LUO_DOC_FLAG:
        *(bool *)to = strcmp(text, "true") == 0;
        break;
    case LUO_DOC_STRING:
        memcpy(to, &text, sizeof text);
        break;
    case LUO_DOC_WORD:
        for (int i = 0; i < schema->nwords; i++)
            if (strcmp(schema->words[i].text, text) == 0)
                store_whole(schema->words[i].value, schema, to);
        break;
    case LUO_DOC_STRUCT:
    case LUO_DOC_LIST_OF:
    case LUO_DOC_TWO_OF:
    case LUO_DOC_FREE:
        break; /* no scalars */
    }
}

/* map NULL: it is not given, and its fields have their defaults. */
static bool store_fields(luo_doc *doc, const luo_doc_node *map, const luo_doc_field *field,
                         char *to)
{
    bool good = true;
    for (; good && field->key; field++) {
        const luo_doc_node *node = luo_doc_get(map, field->key);
        if (node)
            good = store(doc, node, &field->value, to + field->at);
        else if (field->value.form == LUO_DOC_STRUCT)
            good = store_fields(doc, NULL, field->value.fields, to + field->at);
        else if (field->value.otherwise)
            store_scalar(field->value.otherwise, &field->value, to + field->at);
    }
    return good;
}

static bool store_entries(luo_doc *doc, const luo_doc_node *list, const luo_doc_schema *entry,
                          char *to)
{
    bool good = true;
    for (const luo_doc_node *node = list->first; good && node;
         node = node->next, to += entry->bytes)
        good = store(doc, node, entry, to);
    return good;
}

static bool store_list(luo_doc *doc, const luo_doc_node *list, const luo_doc_schema *schema,
                       char *to)
{
    if (list->n == 0) return true;
    char *entries = luo_arena_calloc(doc->arena, (size_t)list->n, schema->entry->bytes);
    if (!entries) return false;
    memcpy(to + schema->list_at, &entries, sizeof entries);
    if (schema->count_at != LUO_DOC_UNCOUNTED)
        memcpy(to + schema->count_at, &list->n, sizeof list->n);
    return store_entries(doc, list, schema->entry, entries);
}

static bool store_free(luo_doc *doc, const luo_doc_node *map, char *to)
{
    luo_str text = {0};
    luo_doc_json(doc->arena, &text, map);
    const char *copy = text.failed ? NULL : luo_arena_strndup(doc->arena, text.at, text.len);
    luo_str_free(&text);
    memcpy(to, &copy, sizeof copy);
    return copy != NULL;
}

static bool store(luo_doc *doc, const luo_doc_node *node, const luo_doc_schema *schema, char *to)
{
    switch (schema->form) {
    case LUO_DOC_STRUCT:
        return store_fields(doc, node, schema->fields, to);
    case LUO_DOC_TWO_OF:
        return store_entries(doc, node, schema->entry, to);
    case LUO_DOC_LIST_OF:
        return store_list(doc, node, schema, to);
    case LUO_DOC_FREE:
        return store_free(doc, node, to);
    case LUO_DOC_WHOLE:
    case LUO_DOC_REAL:
    case LUO_DOC_SEED:
    case LUO_DOC_HASH:
    case LUO_DOC_FLAG:
    case LUO_DOC_STRING:
    case LUO_DOC_WORD:
        break;
    }
    store_scalar(node->text, schema, to);
    return true;
}

luo_status luo_doc_load(luo_doc *doc, const luo_doc_schema *schema, void **out)
{
    char *data = luo_arena_calloc(doc->arena, 1, schema->bytes);
    if (!data || !store(doc, doc->root, schema, data)) return luo_doc_nomem(doc);
    *out = data;
    return LUO_OK;
}
