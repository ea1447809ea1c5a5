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
    *n = (int)CYAML_ARRAY_LEN(kinds);
    return kinds;
}

enum { WORDS_MAX = 64 };
static int words(const cyaml_schema_value_t *s, const char **names)
{
    int n = 0;
    for (uint32_t i = 0; i < s->enumeration.count && n < WORDS_MAX; i++)
        names[n++] = s->enumeration.strings[i].str;
    return n;
}

/* Limits of a whole number: those of the C type that libcyaml stores it in, cut by the rule. */
static luo_limit whole_limit(const cyaml_schema_value_t *s, const luo_yaml_rule *r)
{
    luo_limit l = r ? r->limit : (luo_limit)LUO_FROM(-INFINITY);
    const double most = ldexp(1, (int)s->data_size * 8 - (s->type == CYAML_INT)) - 1;
    if (s->type == CYAML_UINT && l.lo < 0) l.lo = 0;
    if (s->data_size < 8 && l.lo < -most) l.lo = -most;
    if (s->data_size < 8 && l.hi > most) l.hi = most;
    return l;
}

static const char *expected(const context *c, const luo_yaml *x, const cyaml_schema_value_t *s,
                            char *buf, size_t size)
{
    const luo_yaml_rule *r = rule_of(c, x);
    const char *names[WORDS_MAX];
    luo_str choices = {0};
    luo_limit l = r ? r->limit : (luo_limit)LUO_FROM(-INFINITY);
    double v = NAN;
    luo_number_float(x->text, strlen(x->text), &v);
    if (r && r->say && (s->type != CYAML_SEQUENCE || x->type == LUO_YAML_SCALAR)) return r->say;
    switch (s->type) {
    case CYAML_INT:
    case CYAML_UINT:
        l = whole_limit(s, r);
        return luo_limit_say(&l, true, v, buf, size);
    case CYAML_FLOAT:
        return luo_limit_say(&l, false, v, buf, size);
    case CYAML_BOOL:
        return "`true` or `false`";
    case CYAML_ENUM:
        luo_say_choices(&choices, names, words(s, names));
        snprintf(buf, size, "%s", luo_str_get(&choices));
        luo_str_free(&choices);
        return buf;
    case CYAML_MAPPING:
        return "a mapping of keys";
    case CYAML_SEQUENCE:
        return "a list";
    case CYAML_SEQUENCE_FIXED:
        snprintf(buf, size, "a list of %u", s->sequence.min);
        return buf;
    default:
        return "a text";
    }
}

/* The word that was meant by one that is none of an enumeration; NULL: none is near. */
static const char *meant(const luo_yaml *x, const cyaml_schema_value_t *s)
{
    const char *names[WORDS_MAX];
    if (s->type != CYAML_ENUM || x->type != LUO_YAML_SCALAR) return NULL;
    return luo_text_nearest(x->text, names, words(s, names));
}

static void wrong(const context *c, const luo_yaml *x, const cyaml_schema_value_t *s)
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
    else if (x->quoted && s->type != CYAML_MAPPING && s->type != CYAML_ENUM)
        luo_yaml_error(c->doc, x, "`%s` is the text \"%.60s\"; %s is expected.", name, x->text,
                       want);
    else
        luo_yaml_error(c->doc, x, "`%s` is `%.60s`; %s is expected.", name, x->text, want);
}

/* ---- scalars ---- */

static bool whole_good(const context *c, const luo_yaml *x, const cyaml_schema_value_t *s)
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

static bool scalar_good(const context *c, const luo_yaml *x, const cyaml_schema_value_t *s)
{
    if (x->type != LUO_YAML_SCALAR) return false;
    switch (s->type) {
    case CYAML_INT:
    case CYAML_UINT:
        return whole_good(c, x, s);
    case CYAML_FLOAT:
        return float_good(c, x);
    case CYAML_BOOL:
        return !x->quoted && (strcmp(x->text, "true") == 0 || strcmp(x->text, "false") == 0);
    case CYAML_ENUM:
        for (uint32_t i = 0; i < s->enumeration.count; i++)
            if (strcmp(s->enumeration.strings[i].str, x->text) == 0) return true;
        return false;
    default:
        return text_good(x);
    }
}

/* ---- maps and lists ---- */

static void check(const context *c, const luo_yaml *x, const cyaml_schema_value_t *s);

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
static void check_map(const context *c, const luo_yaml *x, const cyaml_schema_field_t *fields)
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
        if (!(fields[i].value.flags & CYAML_FLAG_OPTIONAL) && !excused[i] &&
            !luo_yaml_get(x, names[i]))
            luo_yaml_missing(c->doc, x, names[i]);
    if (r && r->check && c->doc->diags->n_errors == before) r->check(c->doc, x);
}

static void check_list(const context *c, const luo_yaml *x, const cyaml_schema_value_t *s)
{
    if (s->type == CYAML_SEQUENCE_FIXED && (uint32_t)x->n != s->sequence.min)
        luo_yaml_error(c->doc, x, "`%s` has %d values; %u are expected.", name_of(x), x->n,
                       s->sequence.min);
    for (const luo_yaml *y = x->first; y; y = y->next) check(c, y, s->sequence.entry);
}

static void check(const context *c, const luo_yaml *x, const cyaml_schema_value_t *s)
{
    const bool list = s->type == CYAML_SEQUENCE || s->type == CYAML_SEQUENCE_FIXED;
    if (list && x->type == LUO_YAML_LIST) check_list(c, x, s);
    else if (s->type == CYAML_MAPPING && x->type == LUO_YAML_MAP)
        check_map(c, x, s->mapping.fields);
    else if (list || s->type == CYAML_MAPPING || !scalar_good(c, x, s)) wrong(c, x, s);
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

/* Everything but printable ASCII is escaped: libyaml folds some line breaks of Unicode. */
static void emit_text(luo_str *s, const char *text)
{
    luo_str_addc(s, '"');
    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        if (*p >= 0x20 && *p < 0x7f) {
            if (*p == '"' || *p == '\\') luo_str_addc(s, '\\');
            luo_str_addc(s, (char)*p++);
            continue;
        }
        unsigned code = *p < 0x80 ? *p : *p < 0xe0 ? *p & 0x1fu : *p < 0xf0 ? *p & 0x0fu : *p & 7u;
        for (p++; (*p & 0xc0) == 0x80; p++) code = code << 6 | (*p & 0x3fu);
        luo_str_addf(s, "\\U%08x", code);
    }
    luo_str_addc(s, '"');
}

/* In flow form with every scalar in quotes: libcyaml looks at the text only. */
static void emit(luo_str *s, const luo_yaml *x)
{
    if (x->type == LUO_YAML_SCALAR) {
        emit_text(s, x->text);
        return;
    }
    luo_str_addc(s, x->type == LUO_YAML_MAP ? '{' : '[');
    for (const luo_yaml *y = x->first; y; y = y->next) {
        if (y->key) {
            emit_text(s, y->key);
            luo_str_add(s, ": ");
        }
        emit(s, y);
        if (y->next) luo_str_add(s, ",\n");
    }
    luo_str_addc(s, x->type == LUO_YAML_MAP ? '}' : ']');
}

static const cyaml_config_t *config(void)
{
    static const cyaml_config_t c = {.mem_fn = cyaml_mem, .log_level = CYAML_LOG_ERROR,
                                     .flags = CYAML_CFG_NO_ALIAS};
    return &c;
}

luo_status luo_yaml_load(luo_yaml_doc *doc, const cyaml_schema_value_t *schema, void **out)
{
    luo_str s = {0};
    cyaml_data_t *data = NULL;
    emit(&s, doc->root);
    if (s.failed) {
        luo_str_free(&s);
        return luo_yaml_nomem(doc);
    }
    const cyaml_err_t e = cyaml_load_data((const uint8_t *)s.at, s.len, config(), schema, &data,
                                          NULL);
    luo_str_free(&s);
    if (e == CYAML_ERR_OOM || (e == CYAML_OK && !data)) return luo_yaml_nomem(doc);
    if (e != CYAML_OK) {
        doc->st = LUO_EBUG;
        return luo_diags_add(doc->diags, LUO_ERROR, LUO_EBUG, doc->src->name, 1, 1,
                             "libcyaml refuses a checked file (%s); please report it.",
                             cyaml_strerror(e));
    }
    *out = data;
    return LUO_OK;
}

void luo_yaml_unload(const cyaml_schema_value_t *schema, void *data)
{
    if (data) cyaml_free(config(), schema, data, 0);
}
