#include "core/io/document/doc_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is expected of a value ---- */

/* Key that a list entry or a map value stands under. */
static const char *name_of(const luo_doc_node *x)
{
    while (x && !x->key) x = x->up;
    return x ? x->key : "";
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
static int words(const luo_doc_schema *s, const char **names)
{
    int n = 0;
    for (int i = 0; i < s->nwords && n < WORDS_MAX; i++) names[n++] = s->words[i].text;
    return n;
}

/* Limits of a number; of a whole one cut by those of its C type. */
static luo_limit limit_of(const luo_doc_schema *s)
{
    luo_limit l = s->limit.unit > 0 ? s->limit : (luo_limit)LUO_DOC_ANY;
    const double most = ldexp(1, (int)s->bytes * 8 - 1) - 1;
    if (s->form != LUO_DOC_WHOLE || s->bytes == 8) return l;
    if (l.lo < -most) l.lo = -most;
    if (l.hi > most) l.hi = most;
    return l;
}

static const char *expected(const luo_doc_node *x, const luo_doc_schema *s, char *buf, size_t size)
{
    const char *names[WORDS_MAX];
    luo_str choices = {0};
    const luo_limit limit = limit_of(s);
    double v = NAN;
    if (s->say) return s->say;
    switch (s->form) {
    case LUO_DOC_WHOLE:
    case LUO_DOC_REAL:
        if (s->as_text) return "a number as text";
        luo_number_float(x->text, strlen(x->text), &v);
        return luo_limit_say(&limit, s->form == LUO_DOC_WHOLE, v, buf, size);
    case LUO_DOC_SEED:
        return "a whole number from 0";
    case LUO_DOC_HASH:
        return "a hash of 16 digits";
    case LUO_DOC_FLAG:
        return "`true` or `false`";
    case LUO_DOC_STRING:
    case LUO_DOC_WORD:
        if (!s->nwords) return "a text";
        luo_say_choices(&choices, names, words(s, names));
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
static const char *meant(const luo_doc_node *x, const luo_doc_schema *s)
{
    const char *names[WORDS_MAX];
    if (!s->nwords || x->type != LUO_DOC_SCALAR) return NULL;
    return luo_text_nearest(x->text, names, words(s, names));
}

static void wrong(luo_doc *doc, const luo_doc_node *x, const luo_doc_schema *s)
{
    char buf[256];
    const char *want = expected(x, s, buf, sizeof buf);
    const char *name = name_of(x), *near = meant(x, s);
    if (!*name) name = "the file";
    if (near)
        luo_doc_error(doc, x, "`%s` is `%.60s`; did you mean `%s`?", name, x->text, near);
    else if (x->type == LUO_DOC_MAP)
        luo_doc_error(doc, x, "`%s` is a mapping; %s is expected.", name, want);
    else if (x->type == LUO_DOC_LIST)
        luo_doc_error(doc, x, "`%s` is a list; %s is expected.", name, want);
    else if (!*x->text && !x->quoted)
        luo_doc_error(doc, x, "`%s` has no value; %s is expected.", name, want);
    else if (x->quoted && s->form != LUO_DOC_STRUCT && !s->nwords)
        luo_doc_error(doc, x, "`%s` is the text \"%.60s\"; %s is expected.", name, x->text, want);
    else if (x->up && x->up->type == LUO_DOC_LIST)
        luo_doc_error(doc, x, "`%.60s` in `%s`; %s is expected.", x->text, name, want);
    else
        luo_doc_error(doc, x, "`%s` is `%.60s`; %s is expected.", name, x->text, want);
}

/* ---- scalars ---- */

static bool seed_of(const char *text, uint64_t *out)
{
    char *end = NULL;
    errno = 0;
    if (!luo_number_form(text, strlen(text), true) || *text == '-') return false;
    *out = strtoull(text, &end, 10);
    return !*end && !errno;
}

static bool hash_of(const char *text, uint64_t *out)
{
    *out = strtoull(text, NULL, 16);
    return strlen(text) == 16 && strspn(text, "0123456789abcdef") == 16;
}

static bool number_good(const luo_doc_node *x, const luo_doc_schema *s)
{
    int64_t whole;
    double v;
    const luo_limit limit = limit_of(s);
    if (x->quoted != s->as_text) return false;
    if (s->form == LUO_DOC_REAL)
        return luo_number_float(x->text, strlen(x->text), &v) && luo_limit_holds(&limit, v);
    return luo_number_whole(x->text, strlen(x->text), &whole) &&
           luo_limit_holds(&limit, (double)whole);
}

/* An unquoted empty value, `~` and `null` mean "nothing" in YAML; here every key has a value. */
static bool text_good(const luo_doc *doc, const luo_doc_node *x)
{
    return x->quoted || (!doc->json && *x->text && strcmp(x->text, "~") != 0 &&
                         strcasecmp(x->text, "null") != 0);
}

static bool word_good(const luo_doc_node *x, const luo_doc_schema *s)
{
    for (int i = 0; i < s->nwords; i++)
        if (strcmp(s->words[i].text, x->text) == 0) return true;
    return false;
}

static bool scalar_good(const luo_doc *doc, const luo_doc_node *x, const luo_doc_schema *s)
{
    uint64_t bits;
    if (x->type != LUO_DOC_SCALAR) return false;
    if (s->nwords) return word_good(x, s);
    switch (s->form) {
    case LUO_DOC_SEED:
        return seed_of(x->text, &bits);
    case LUO_DOC_HASH:
        return x->quoted && hash_of(x->text, &bits);
    case LUO_DOC_WHOLE:
    case LUO_DOC_REAL:
        return number_good(x, s);
    case LUO_DOC_FLAG:
        return luo_doc_is(x, "true") || luo_doc_is(x, "false");
    default:
        return text_good(doc, x);
    }
}

/* ---- maps and lists ---- */

static void check(luo_doc *doc, const luo_doc_node *x, const luo_doc_schema *s);

static void unknown(luo_doc *doc, const luo_doc_node *x, const char *const *names, int n,
                    bool *excused)
{
    luo_str s = {0};
    int meant = -1;
    if (!luo_diags_full(doc->diags, doc->src->name)) /* else it is counted only */
        luo_say_unknown(&s, x->key, names, n, &meant);
    luo_doc_error_key(doc, x, "unknown key `%.80s`; %s", x->key, luo_str_get(&s));
    luo_str_free(&s);
    if (meant >= 0) excused[meant] = true;
}

/* A misspelt key is one error: the key it was meant for is not reported as missing, too. */
static void check_map(luo_doc *doc, const luo_doc_node *x, const luo_doc_schema *s)
{
    const int before = doc->diags->n_errors;
    const luo_doc_field *fields = s->fields;
    const char *names[64];
    bool excused[64] = {false}, given[64] = {false};
    int n = 0;
    for (; fields[n].key; n++) names[n] = fields[n].key;
    for (const luo_doc_node *y = x->first; y; y = y->next) {
        int i = 0;
        while (i < n && strcmp(names[i], y->key) != 0) i++;
        if (i == n)
            unknown(doc, y, names, n, excused);
        else
            check(doc, y, &fields[i].value);
        if (i < n) given[i] = true;
    }
    for (int i = 0; i < n; i++)
        if (fields[i].required && !excused[i] && !given[i]) luo_doc_missing(doc, x, names[i]);
    if (s->check && doc->diags->n_errors == before) s->check(doc, x);
}

static void check_list(luo_doc *doc, const luo_doc_node *x, const luo_doc_schema *s)
{
    if (s->form == LUO_DOC_TWO_OF && x->n != 2)
        luo_doc_error(doc, x, "`%s` has %d values; 2 are expected.", name_of(x), x->n);
    if (x->n < s->least)
        luo_doc_error(doc, x, "`%s` is empty; at least %d is expected.", name_of(x), s->least);
    for (const luo_doc_node *y = x->first; y; y = y->next) check(doc, y, s->entry);
}

static void check(luo_doc *doc, const luo_doc_node *x, const luo_doc_schema *s)
{
    const bool list = s->form == LUO_DOC_LIST_OF || s->form == LUO_DOC_TWO_OF;
    const bool map = s->form == LUO_DOC_STRUCT || s->form == LUO_DOC_FREE;
    if (list && x->type == LUO_DOC_LIST)
        check_list(doc, x, s);
    else if (s->form == LUO_DOC_STRUCT && x->type == LUO_DOC_MAP)
        check_map(doc, x, s);
    else if (s->form == LUO_DOC_FREE && x->type == LUO_DOC_MAP)
        return;
    else if (s->or_null && luo_doc_is(x, "null"))
        return;
    else if (list || map || !scalar_good(doc, x, s))
        wrong(doc, x, s);
}

/* Names both: what the file says, and what this reader is for. */
static bool schema_good(luo_doc *doc, const char *kind)
{
    char want[64];
    const luo_doc_node *x = luo_doc_get(doc->root, "schema");
    snprintf(want, sizeof want, "luoshu.%s/1", kind);
    if (doc->root->type != LUO_DOC_MAP) {
        luo_doc_error(doc, doc->root,
                      "the file holds no mapping; one with `schema: %s` is "
                      "expected.",
                      want);
        return false;
    }
    if (x && x->type == LUO_DOC_SCALAR && strcmp(x->text, want) == 0) return true;
    if (!x)
        luo_doc_error(doc, doc->root, "key `schema` is missing; `schema: %s` is expected.", want);
    else
        luo_doc_error(doc, x, "`schema` is `%.60s`; `%s` is expected.",
                      x->type == LUO_DOC_SCALAR ? x->text : "..", want);
    return false;
}

luo_status luo_doc_check(luo_doc *doc, const luo_doc_kind *kind)
{
    if (!doc->root) return doc->st;
    if (schema_good(doc, kind->name)) check(doc, doc->root, kind->schema);
    return doc->st;
}

/* ---- into C structs ---- */

static bool store(luo_doc *doc, const luo_doc_node *x, const luo_doc_schema *s, char *to);

static void store_whole(int64_t v, const luo_doc_schema *s, char *to)
{
    const int32_t small = (int32_t)v;
    if (s->bytes == sizeof(bool))
        *(bool *)to = v != 0;
    else if (s->bytes == sizeof small)
        memcpy(to, &small, sizeof small);
    else memcpy(to, &v, sizeof v);
}

static void store_scalar(const char *text, const luo_doc_schema *s, char *to)
{
    const size_t n = strlen(text);
    int64_t whole = 0;
    uint64_t bits = 0;
    double real = 0;
    switch (s->form) {
    case LUO_DOC_SEED:
        seed_of(text, &bits);
        memcpy(to, &bits, sizeof bits);
        break;
    case LUO_DOC_HASH:
        hash_of(text, &bits);
        memcpy(to, &bits, sizeof bits);
        break;
    case LUO_DOC_WHOLE:
        luo_number_whole(text, n, &whole);
        store_whole(whole, s, to);
        break;
    case LUO_DOC_REAL:
        luo_number_float(text, n, &real);
        memcpy(to, &real, sizeof real);
        break;
    case LUO_DOC_FLAG:
        *(bool *)to = strcmp(text, "true") == 0;
        break;
    case LUO_DOC_STRING:
        memcpy(to, &text, sizeof text);
        break;
    default:
        for (int i = 0; i < s->nwords; i++)
            if (strcmp(s->words[i].text, text) == 0) store_whole(s->words[i].value, s, to);
    }
}

/* map NULL: it is not given, and its fields have their defaults. */
static bool store_fields(luo_doc *doc, const luo_doc_node *map, const luo_doc_field *f, char *to)
{
    bool good = true;
    for (; good && f->key; f++) {
        const luo_doc_node *x = luo_doc_get(map, f->key);
        if (x)
            good = store(doc, x, &f->value, to + f->at);
        else if (f->value.form == LUO_DOC_STRUCT)
            good = store_fields(doc, NULL, f->value.fields, to + f->at);
        else if (f->value.otherwise)
            store_scalar(f->value.otherwise, &f->value, to + f->at);
    }
    return good;
}

static bool store_entries(luo_doc *doc, const luo_doc_node *list, const luo_doc_schema *entry,
                          char *to)
{
    bool good = true;
    for (const luo_doc_node *x = list->first; good && x; x = x->next, to += entry->bytes)
        good = store(doc, x, entry, to);
    return good;
}

static bool store_list(luo_doc *doc, const luo_doc_node *list, const luo_doc_schema *s, char *to)
{
    if (list->n == 0) return true;
    char *entries = luo_arena_calloc(doc->arena, (size_t)list->n, s->entry->bytes);
    if (!entries) return false;
    memcpy(to + s->list_at, &entries, sizeof entries);
    if (s->count_at != LUO_DOC_UNCOUNTED) memcpy(to + s->count_at, &list->n, sizeof list->n);
    return store_entries(doc, list, s->entry, entries);
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

static bool store(luo_doc *doc, const luo_doc_node *x, const luo_doc_schema *s, char *to)
{
    switch (s->form) {
    case LUO_DOC_STRUCT:
        return store_fields(doc, x, s->fields, to);
    case LUO_DOC_TWO_OF:
        return store_entries(doc, x, s->entry, to);
    case LUO_DOC_LIST_OF:
        return store_list(doc, x, s, to);
    case LUO_DOC_FREE:
        return store_free(doc, x, to);
    default:
        store_scalar(x->text, s, to);
        return true;
    }
}

luo_status luo_doc_load(luo_doc *doc, const luo_doc_schema *schema, void **out)
{
    char *data = luo_arena_calloc(doc->arena, 1, schema->bytes);
    if (!data || !store(doc, doc->root, schema, data)) return luo_doc_nomem(doc);
    *out = data;
    return LUO_OK;
}
