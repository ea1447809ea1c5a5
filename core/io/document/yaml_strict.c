#include "core/io/document/yaml_strict.h"

#include <stdio.h>
#include <string.h>

/* ---- what is expected of a value ---- */

typedef struct context {
    luo_yaml_doc *doc;
    const luo_yaml_kind *kind;
} context;

/* Key that a list entry or a map value stands under. */
static const char *name_of(const luo_yaml *x)
{
    while (x && !x->key) x = x->up;
    return x ? x->key : "";
}

const luo_yaml_rule *luo_yaml_rule_of(const luo_yaml_kind *kind, const char *parent,
                                      const char *key)
{
    const luo_yaml_rule *plain = NULL;
    const size_t n = strlen(parent);
    for (int i = 0; i < kind->nrules; i++) {
        const char *k = kind->rules[i].key;
        const char *dot = strchr(k, '.');
        if (!dot && strcmp(k, key) == 0) plain = &kind->rules[i];
        if (dot && (size_t)(dot - k) == n && strncmp(k, parent, n) == 0 &&
            strcmp(dot + 1, key) == 0)
            return &kind->rules[i];
    }
    return plain;
}

static const luo_yaml_rule *rule_of(const context *c, const luo_yaml *x)
{
    const luo_yaml *holder = x;
    while (holder && !holder->key) holder = holder->up;
    const char *parent = holder && holder->up ? name_of(holder->up) : "";
    return luo_yaml_rule_of(c->kind, parent, name_of(x));
}

const luo_yaml_kind *const *luo_yaml_kinds(int *n)
{
    static const luo_yaml_kind *const kinds[] = {&luo_yaml_cluster, &luo_yaml_profile,
                                                 &luo_yaml_stack,   &luo_yaml_model,
                                                 &luo_yaml_params,  &luo_yaml_scenario};
    *n = (int)LUO_YAML_COUNT(kinds);
    return kinds;
}

enum { WORDS_MAX = 64 };
static int words(const luo_yaml_schema *s, const char **names)
{
    int n = 0;
    for (int i = 0; i < s->nwords && n < WORDS_MAX; i++) names[n++] = s->words[i].text;
    return n;
}

/* Limits of a whole number: those of its C type, cut by the rule. */
static luo_limit whole_limit(const luo_yaml_schema *s, const luo_yaml_rule *r)
{
    luo_limit l = r ? r->limit : (luo_limit)LUO_FROM(-INFINITY);
    const double most = ldexp(1, (int)s->bytes * 8 - 1) - 1;
    if (s->bytes < 8 && l.lo < -most) l.lo = -most;
    if (s->bytes < 8 && l.hi > most) l.hi = most;
    return l;
}

static const char *expected(const context *c, const luo_yaml *x, const luo_yaml_schema *s,
                            char *buf, size_t size)
{
    const luo_yaml_rule *r = rule_of(c, x);
    const char *names[WORDS_MAX];
    luo_str choices = {0};
    luo_limit l = r ? r->limit : (luo_limit)LUO_FROM(-INFINITY);
    double v = NAN;
    luo_number_float(x->text, strlen(x->text), &v);
    if (r && r->say && (s->form != LUO_YAML_LIST_OF || x->type == LUO_YAML_SCALAR)) return r->say;
    switch (s->form) {
    case LUO_YAML_WHOLE:
        l = whole_limit(s, r);
        return luo_limit_say(&l, true, v, buf, size);
    case LUO_YAML_REAL:
        return luo_limit_say(&l, false, v, buf, size);
    case LUO_YAML_FLAG:
        return "`true` or `false`";
    case LUO_YAML_WORD:
        luo_say_choices(&choices, names, words(s, names));
        snprintf(buf, size, "%s", luo_str_get(&choices));
        luo_str_free(&choices);
        return buf;
    case LUO_YAML_STRUCT:
        return "a mapping of keys";
    case LUO_YAML_LIST_OF:
        return "a list";
    case LUO_YAML_TWO_OF:
        return "a list of 2";
    default:
        return "a text";
    }
}

/* The word that was meant by one that is none of an enumeration; NULL: none is near. */
static const char *meant(const luo_yaml *x, const luo_yaml_schema *s)
{
    const char *names[WORDS_MAX];
    if (s->form != LUO_YAML_WORD || x->type != LUO_YAML_SCALAR) return NULL;
    return luo_text_nearest(x->text, names, words(s, names));
}

static void wrong(const context *c, const luo_yaml *x, const luo_yaml_schema *s)
{
    char buf[256];
    const char *want = expected(c, x, s, buf, sizeof buf);
    const char *name = name_of(x), *near = meant(x, s);
    if (!*name) name = "the file";
    if (near)
        luo_yaml_error(c->doc, x, "`%s` is `%.60s`; did you mean `%s`?", name, x->text, near);
    else if (x->type == LUO_YAML_MAP)
        luo_yaml_error(c->doc, x, "`%s` is a mapping; %s is expected.", name, want);
    else if (x->type == LUO_YAML_LIST)
        luo_yaml_error(c->doc, x, "`%s` is a list; %s is expected.", name, want);
    else if (!*x->text && !x->quoted)
        luo_yaml_error(c->doc, x, "`%s` has no value; %s is expected.", name, want);
    else if (x->quoted && s->form != LUO_YAML_STRUCT && s->form != LUO_YAML_WORD)
        luo_yaml_error(c->doc, x, "`%s` is the text \"%.60s\"; %s is expected.", name, x->text,
                       want);
    else
        luo_yaml_error(c->doc, x, "`%s` is `%.60s`; %s is expected.", name, x->text, want);
}

/* ---- scalars ---- */

static bool whole_good(const context *c, const luo_yaml *x, const luo_yaml_schema *s)
{
    int64_t v;
    const luo_limit l = whole_limit(s, rule_of(c, x));
    return !x->quoted && luo_number_whole(x->text, strlen(x->text), &v) &&
           luo_limit_holds(&l, (double)v);
}

static bool float_good(const context *c, const luo_yaml *x)
{
    double v;
    const luo_yaml_rule *r = rule_of(c, x);
    return !x->quoted && luo_number_float(x->text, strlen(x->text), &v) &&
           (!r || luo_limit_holds(&r->limit, v));
}

/* An unquoted empty value, `~` and `null` mean "nothing" in YAML; here every key has a value. */
static bool text_good(const luo_yaml *x)
{
    return x->quoted ||
           (*x->text && strcmp(x->text, "~") != 0 && strcasecmp(x->text, "null") != 0);
}

static bool scalar_good(const context *c, const luo_yaml *x, const luo_yaml_schema *s)
{
    if (x->type != LUO_YAML_SCALAR) return false;
    switch (s->form) {
    case LUO_YAML_WHOLE:
        return whole_good(c, x, s);
    case LUO_YAML_REAL:
        return float_good(c, x);
    case LUO_YAML_FLAG:
        return !x->quoted && (strcmp(x->text, "true") == 0 || strcmp(x->text, "false") == 0);
    case LUO_YAML_WORD:
        for (int i = 0; i < s->nwords; i++)
            if (strcmp(s->words[i].text, x->text) == 0) return true;
        return false;
    default:
        return text_good(x);
    }
}

/* ---- maps and lists ---- */

static void check(const context *c, const luo_yaml *x, const luo_yaml_schema *s);

static void unknown(const context *c, const luo_yaml *x, const char *const *names, int n,
                    bool *excused)
{
    luo_str s = {0};
    int meant;
    luo_say_unknown(&s, x->key, names, n, &meant);
    luo_yaml_error_key(c->doc, x, "unknown key `%.80s`; %s", x->key, luo_str_get(&s));
    luo_str_free(&s);
    if (meant >= 0) excused[meant] = true;
}

/* A misspelt key is one error: the key it was meant for is not reported as missing, too. */
static void check_map(const context *c, const luo_yaml *x, const luo_yaml_field *fields)
{
    const int before = c->doc->diags->n_errors;
    const luo_yaml_rule *r = rule_of(c, x);
    const char *names[64];
    bool excused[64] = {false};
    int n = 0;
    while (fields[n].key) {
        names[n] = fields[n].key;
        n++;
    }
    for (const luo_yaml *y = x->first; y; y = y->next) {
        int i = 0;
        while (i < n && strcmp(names[i], y->key) != 0) i++;
        if (i < n) check(c, y, &fields[i].value);
        else unknown(c, y, names, n, excused);
    }
    for (int i = 0; i < n; i++)
        if (fields[i].required && !excused[i] &&
            !luo_yaml_get(x, names[i]))
            luo_yaml_missing(c->doc, x, names[i]);
    if (r && r->check && c->doc->diags->n_errors == before) r->check(c->doc, x);
}

static void check_list(const context *c, const luo_yaml *x, const luo_yaml_schema *s)
{
    if (s->form == LUO_YAML_TWO_OF && x->n != 2)
        luo_yaml_error(c->doc, x, "`%s` has %d values; 2 are expected.", name_of(x), x->n);
    for (const luo_yaml *y = x->first; y; y = y->next) check(c, y, s->entry);
}

static void check(const context *c, const luo_yaml *x, const luo_yaml_schema *s)
{
    const bool list = s->form == LUO_YAML_LIST_OF || s->form == LUO_YAML_TWO_OF;
    if (list && x->type == LUO_YAML_LIST) check_list(c, x, s);
    else if (s->form == LUO_YAML_STRUCT && x->type == LUO_YAML_MAP)
        check_map(c, x, s->fields);
    else if (list || s->form == LUO_YAML_STRUCT || !scalar_good(c, x, s)) wrong(c, x, s);
}

/* Names both: what the file says, and what this reader is for. */
static bool schema_good(luo_yaml_doc *doc, const char *kind)
{
    char want[64];
    const luo_yaml *x = luo_yaml_get(doc->root, "schema");
    snprintf(want, sizeof want, "luoshu.%s/1", kind);
    if (doc->root->type != LUO_YAML_MAP) {
        luo_yaml_error(doc, doc->root, "the file holds no mapping; one with `schema: %s` is "
                                       "expected.", want);
        return false;
    }
    if (x && x->type == LUO_YAML_SCALAR && strcmp(x->text, want) == 0) return true;
    if (!x) luo_yaml_error(doc, doc->root, "key `schema` is missing; `schema: %s` is expected.",
                           want);
    else luo_yaml_error(doc, x, "`schema` is `%.60s`; `%s` is expected.",
                        x->type == LUO_YAML_SCALAR ? x->text : "..", want);
    return false;
}

luo_status luo_yaml_check(luo_yaml_doc *doc, const luo_yaml_kind *kind)
{
    const context c = {doc, kind};
    if (!doc->root) return doc->st;
    if (schema_good(doc, kind->name)) check(&c, doc->root, kind->schema);
    return doc->st;
}

/* ---- into C structs ---- */

static bool store(luo_yaml_doc *doc, const luo_yaml *x, const luo_yaml_schema *s, char *to);

static void store_whole(int64_t v, const luo_yaml_schema *s, char *to)
{
    const int32_t small = (int32_t)v;
    if (s->bytes == sizeof small) memcpy(to, &small, sizeof small);
    else memcpy(to, &v, sizeof v);
}

static void store_scalar(const luo_yaml *x, const luo_yaml_schema *s, char *to)
{
    const size_t n = strlen(x->text);
    int64_t whole = 0;
    double real = 0;
    switch (s->form) {
    case LUO_YAML_WHOLE:
        luo_number_whole(x->text, n, &whole);
        store_whole(whole, s, to);
        break;
    case LUO_YAML_REAL:
        luo_number_float(x->text, n, &real);
        memcpy(to, &real, sizeof real);
        break;
    case LUO_YAML_FLAG:
        *(bool *)to = strcmp(x->text, "true") == 0;
        break;
    case LUO_YAML_STRING:
        memcpy(to, &x->text, sizeof x->text);
        break;
    default:
        for (int i = 0; i < s->nwords; i++)
            if (strcmp(s->words[i].text, x->text) == 0) store_whole(s->words[i].value, s, to);
    }
}

static bool store_fields(luo_yaml_doc *doc, const luo_yaml *map, const luo_yaml_field *f, char *to)
{
    bool good = true;
    for (; good && f->key; f++) {
        const luo_yaml *x = luo_yaml_get(map, f->key);
        if (!x) continue;
        if (f->value.form == LUO_YAML_LIST_OF) {
            const uint32_t n = (uint32_t)x->n;
            memcpy(to + f->count_at, &n, sizeof n);
        }
        good = store(doc, x, &f->value, to + f->at);
    }
    return good;
}

static bool store_entries(luo_yaml_doc *doc, const luo_yaml *list, const luo_yaml_schema *entry,
                          char *to)
{
    bool good = true;
    for (const luo_yaml *x = list->first; good && x; x = x->next, to += entry->bytes)
        good = store(doc, x, entry, to);
    return good;
}

static bool store(luo_yaml_doc *doc, const luo_yaml *x, const luo_yaml_schema *s, char *to)
{
    if (s->form == LUO_YAML_STRUCT) return store_fields(doc, x, s->fields, to);
    if (s->form == LUO_YAML_TWO_OF) return store_entries(doc, x, s->entry, to);
    if (s->form != LUO_YAML_LIST_OF) {
        store_scalar(x, s, to);
        return true;
    }
    char *entries = luo_arena_calloc(doc->arena, (size_t)x->n, s->entry->bytes);
    if (!entries) return false;
    memcpy(to, &entries, sizeof entries);
    return store_entries(doc, x, s->entry, entries);
}

luo_status luo_yaml_load(luo_yaml_doc *doc, const luo_yaml_schema *schema, void **out)
{
    char *data = luo_arena_calloc(doc->arena, 1, schema->bytes);
    if (!data || !store(doc, doc->root, schema, data)) return luo_yaml_nomem(doc);
    *out = data;
    return LUO_OK;
}
