/* read_profile.c: GPU types and software stacks (docs/formats.md#luoshuprofile1,
 * docs/formats.md#names-of-values). */
#include <stdlib.h>
#include <string.h>

#include "core/cost/spread.h"
#include "core/io/builtin.h"
#include "core/io/document/doc_table.h"
#include "core/io/document/nested.h"
#include "core/io/read/profile_tables.h"
#include "core/io/read/read.h"

typedef struct value_yaml {
    const char *name, *source;
    double value, spread;
    luo_provenance provenance;
} value_yaml;
typedef struct table_yaml {
    int32_t kind;
    const char *file;
} table_yaml;
typedef struct calibrated_yaml {
    const char *date, *device, *driver, *cuda, *nccl;
    int64_t rows, validation_rows;
} calibrated_yaml;
typedef struct profile_yaml {
    const char *schema, *name;
    int32_t kind;
    value_yaml *values;
    table_yaml *tables;
    uint32_t values_count, tables_count;
    calibrated_yaml calibrated;
} profile_yaml;
typedef struct switch_yaml {
    const char *name, *value;
} switch_yaml;
typedef struct stack_yaml {
    const char *schema, *name;
    value_yaml *values;
    switch_yaml *switches;
    uint32_t values_count, switches_count;
} stack_yaml;

#define OPT LUO_DOC_OPT
#define REQ LUO_DOC_REQ

static const luo_doc_word kinds[] = {{"gpu", 0}, {"cpu", 1}};
static const luo_doc_word table_kinds[] = {LUO_PROFILE_TABLE_LIST(LUO_DOC_WORD_ROW)};
static const luo_doc_word provenances[] = {LUO_PROVENANCE_LIST(LUO_DOC_WORD_ROW)};

static const luo_doc_field value_fields[] = {
    LUO_DOC_TEXT("name", REQ, value_yaml, name, "one of the names below"),
    LUO_DOC_FLOAT("value", REQ, value_yaml, value, LUO_DOC_ANY, "in the unit of the name"),
    LUO_DOC_TEXT("source", REQ, value_yaml, source,
                 "where the number comes from; a `fitted` one names its calibration rows"),
    LUO_DOC_ENUM("provenance", REQ, value_yaml, provenance, provenances,
                 "what kind of source that is"),
    LUO_DOC_FLOAT("spread", OPT, value_yaml, spread, LUO_WITHIN(0, LUO_SPREAD_MOST),
                  "by provenance | standard deviation of ln(value), for ranges; rates and "
                  "efficiencies alone have one"),
    LUO_DOC_END};
static const luo_doc_schema value_entry = LUO_DOC_STRUCT_OF(value_yaml, value_fields, NULL);

static const luo_doc_field table_fields[] = {
    LUO_DOC_ENUM("kind", REQ, table_yaml, kind, table_kinds, "the table that stands in `file`"),
    LUO_DOC_TEXT("file", REQ, table_yaml, file, "path"), LUO_DOC_END};
static const luo_doc_schema table_entry = LUO_DOC_STRUCT_OF(table_yaml, table_fields, NULL);

static const luo_doc_field calibrated_fields[] = {
    LUO_DOC_TEXT("date", REQ, calibrated_yaml, date, "day of the measurement"),
    LUO_DOC_TEXT("device", REQ, calibrated_yaml, device, "what was measured"),
    LUO_DOC_TEXT("driver", OPT, calibrated_yaml, driver, "none | version"),
    LUO_DOC_TEXT("cuda", OPT, calibrated_yaml, cuda, "none | version"),
    LUO_DOC_TEXT("nccl", OPT, calibrated_yaml, nccl, "none | version"),
    LUO_DOC_INT("rows", REQ, calibrated_yaml, rows, LUO_FROM(0), "rows that were fitted on"),
    LUO_DOC_INT_OR("validation_rows", calibrated_yaml, validation_rows, "0", LUO_FROM(0),
                   "rows that were only predicted"),
    LUO_DOC_END};

static const luo_doc_field profile_fields[] = {
    LUO_DOC_TEXT("schema", REQ, profile_yaml, schema, "`luoshu.profile/1`"),
    LUO_DOC_TEXT("name", REQ, profile_yaml, name, "name of the GPU type"),
    LUO_DOC_ENUM_OR("kind", profile_yaml, kind, "gpu", kinds,
                    "`cpu`: a device is one thread that computes and communicates"),
    LUO_DOC_SEQ("values", REQ, profile_yaml, values, values_count, value_entry, 0,
                "numbers with their sources"),
    LUO_DOC_SEQ("tables", OPT, profile_yaml, tables, tables_count, table_entry, 0,
                "none | measured tables; where one covers a size it wins over a formula"),
    LUO_DOC_MAPPING("calibrated", OPT, profile_yaml, calibrated, calibrated_fields, NULL,
                    "none | where measured values come from; for reports"),
    LUO_DOC_END};
static const luo_doc_schema profile_schema = LUO_DOC_STRUCT_OF(profile_yaml, profile_fields, NULL);

static const luo_doc_field switch_fields[] = {
    LUO_DOC_TEXT("name", REQ, switch_yaml, name, "one of the names below"),
    LUO_DOC_TEXT("value", REQ, switch_yaml, value, "one of its words"), LUO_DOC_END};
static const luo_doc_schema switch_entry = LUO_DOC_STRUCT_OF(switch_yaml, switch_fields, NULL);

static const luo_doc_field stack_fields[] = {
    LUO_DOC_TEXT("schema", REQ, stack_yaml, schema, "`luoshu.stack/1`"),
    LUO_DOC_TEXT("name", REQ, stack_yaml, name, "name of the software"),
    LUO_DOC_SEQ("values", OPT, stack_yaml, values, values_count, value_entry, 0,
                "none | numbers with their sources"),
    LUO_DOC_SEQ("switches", OPT, stack_yaml, switches, switches_count, switch_entry, 0,
                "none | words"),
    LUO_DOC_END};
static const luo_doc_schema stack_schema = LUO_DOC_STRUCT_OF(stack_yaml, stack_fields, NULL);

const luo_doc_kind luo_doc_profile = {"profile", &profile_schema};
const luo_doc_kind luo_doc_stack = {"stack", &stack_schema};

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

/* ---- values: each with its source (A8) ---- */

static void check_source(luo_doc *doc, const luo_doc_node *at, const value_yaml *yaml)
{
    const luo_doc_node *source = luo_doc_get(at, "source");
    if (!*yaml->source)
        luo_doc_error(doc, source, "`source` is empty; say where the number comes from.");
    else if (yaml->provenance == LUO_FROM_FITTED && !strstr(yaml->source, "row"))
        luo_doc_error(doc, source,
                      "`source` of a fitted value names no rows; say which "
                      "calibration rows it was fitted on.");
}

static const luo_doc_node *values_of(const luo_doc *doc)
{
    const luo_doc_node *list = luo_doc_get(doc->root, "values");
    return list ? list->first : NULL;
}

static luo_value value_at(const luo_doc_node *at, const value_yaml *yaml)
{
    const luo_doc_node *name = luo_doc_get(at, "name");
    return (luo_value){.name = yaml->name,
                       .source = yaml->source,
                       .value = yaml->value,
                       .provenance = yaml->provenance,
                       .line = name->line,
                       .col = name->col,
                       .has_spread = luo_doc_get(at, "spread") != NULL,
                       .spread = yaml->spread};
}

static void take_values(luo_doc *doc, luo_profile *profile, const profile_yaml *yaml)
{
    luo_value *value = LUO_NEW_N(doc->arena, luo_value, yaml->values_count);
    const luo_doc_node *at = values_of(doc);
    if (!value) luo_doc_nomem(doc);
    for (uint32_t i = 0; value && i < yaml->values_count; i++, at = at->next) {
        check_source(doc, at, &yaml->values[i]);
        value[i] = value_at(at, &yaml->values[i]);
    }
    profile->values = value;
    profile->nvalues = value ? (int32_t)yaml->values_count : 0;
}

static void take_tables(luo_doc *doc, const luo_files *files, luo_profile *profile,
                        const profile_yaml *yaml)
{
    const luo_doc_node *list = luo_doc_get(doc->root, "tables");
    const luo_doc_node *at = list ? list->first : NULL;
    for (uint32_t i = 0; i < yaml->tables_count; i++, at = at->next) {
        const luo_doc_node *file = luo_doc_get(at, "file");
        luo_source src;
        if (luo_nested_get(doc, files, file, &src) != LUO_OK) continue;
        const luo_diag *before = doc->diags->last;
        luo_profile_table(doc, (luo_profile_table_kind)yaml->tables[i].kind, &src, profile);
        luo_nested_trail(doc, before, "table", file);
    }
}

/* ---- the whole ---- */

/* What the sentence is about: its first word where that is a key, else the value. */
static const luo_doc_node *part_of(const luo_doc_node *entry, const char *sentence)
{
    if (sentence[0] != '`') return luo_doc_get(entry, "name");
    return luo_doc_get(entry, strncmp(sentence, "`spread`", 8) == 0 ? "spread" : "value");
}

/* The part of the value whose name stands at line and col; NULL: none. */
static const luo_doc_node *place_of_value(const luo_doc *doc, int line, int col,
                                          const char *sentence)
{
    for (const luo_doc_node *at = values_of(doc); at; at = at->next) {
        const luo_doc_node *name = luo_doc_get(at, "name");
        if (name->line == line && name->col == col) return part_of(at, sentence);
    }
    return NULL;
}

/* luo_profile_finish names one value at a time; it is taken out and the next is looked for. What
 * is then missing may be the value taken out, so nothing is said of it. */
static void finish_profile(luo_doc *doc, luo_profile *profile)
{
    luo_profile rest = *profile;
    luo_value *value = LUO_NEW_N(doc->arena, luo_value, profile->nvalues);
    luo_err err = {0};
    if (!value) {
        luo_doc_nomem(doc);
        return;
    }
    if (profile->nvalues) memcpy(value, profile->values, (size_t)profile->nvalues * sizeof *value);
    rest.values = value;
    luo_status st;
    for (bool first = true; (st = luo_profile_finish(&rest, &err)) != LUO_OK; first = false) {
        if (!err.line && !first) return;
        int32_t i = 0;
        while (i < rest.nvalues && (value[i].line != err.line || value[i].col != err.col)) i++;
        const luo_doc_node *at = place_of_value(doc, err.line, err.col, err.text);
        luo_diags_add(doc->diags, LUO_ERROR, st, doc->src->name, at ? at->line : 1,
                      at ? at->col : 1, "%s", err.text);
        if (doc->st == LUO_OK) doc->st = st;
        if (i == rest.nvalues) return;
        memmove(&value[i], &value[i + 1], (size_t)(--rest.nvalues - i) * sizeof *value);
        err = (luo_err){0};
    }
    if (doc->st == LUO_OK) *profile = rest;
}

static luo_profile *take_profile(luo_doc *doc, const luo_files *files, const profile_yaml *y)
{
    luo_profile *profile = LUO_NEW(doc->arena, luo_profile);
    if (!profile) {
        luo_doc_nomem(doc);
        return NULL;
    }
    profile->name = y->name;
    profile->cpu = y->kind == 1;
    take_values(doc, profile, y);
    const calibrated_yaml *c = &y->calibrated;
    profile->calibrated =
        (luo_calibrated){or_empty(c->date), or_empty(c->device), or_empty(c->driver),
                         or_empty(c->cuda), or_empty(c->nccl),   c->rows,
                         c->validation_rows};
    take_tables(doc, files, profile, y);
    finish_profile(doc, profile);
    return profile;
}

luo_status luo_read_profile_text(luo_arena *arena, const luo_source *src, const luo_files *files,
                                 luo_profile **out, luo_diags *diags)
{
    luo_doc doc = {.arena = arena, .src = src, .diags = diags};
    void *data = NULL;
    luo_profile *profile = NULL;
    luo_doc_parse(&doc);
    luo_doc_check(&doc, &luo_doc_profile);
    if (doc.st == LUO_OK && luo_doc_load(&doc, &profile_schema, &data) == LUO_OK)
        profile = take_profile(&doc, files, data);
    if (doc.st == LUO_OK) *out = profile;
    return doc.st;
}

/* Of a built-in name or a path, the text. */
static luo_status read_named(luo_arena *arena, const char *path, const char *folder,
                             luo_source *src, luo_err *err)
{
    char named[LUO_ERR_PATH];
    if (luo_builtin_path(folder, path, named, sizeof named)) path = named;
    const luo_status st = luo_files_get(NULL, arena, path, src, err);
    if (st != LUO_OK && st != LUO_ENOMEM) luo_builtin_refuse(folder, path, err);
    return st;
}

luo_status luo_read_profile(luo_arena *arena, const char *path, luo_profile **out,
                            luo_diags *diags)
{
    luo_err err;
    luo_source src;
    if (read_named(arena, path, LUO_BUILTIN_PROFILES, &src, &err) != LUO_OK)
        return luo_diags_err(diags, &err);
    return luo_read_profile_text(arena, &src, NULL, out, diags);
}

/* ---- stacks ---- */

/* A second value of the same name would win in silence. */
static void check_twice(luo_doc *doc, const char *list)
{
    const luo_doc_node *at = luo_doc_get(doc->root, list);
    for (at = at ? at->first : NULL; at; at = at->next) {
        const luo_doc_node *name = luo_doc_get(at, "name"), *before = at->up->first;
        while (before != at && strcmp(luo_doc_get(before, "name")->text, name->text) != 0)
            before = before->next;
        if (before != at)
            luo_doc_error(doc, name, "`%s` is given twice, first at line %d; give it once.",
                          name->text, before->line);
    }
}

static void take_stack(luo_doc *doc, luo_stack *stack, const stack_yaml *yaml)
{
    const luo_doc_node *list = luo_doc_get(doc->root, "switches"), *at = values_of(doc);
    luo_err err;
    luo_stack_default(stack);
    stack->name = yaml->name;
    check_twice(doc, "values");
    check_twice(doc, "switches");
    for (uint32_t i = 0; i < yaml->values_count; i++, at = at->next) {
        check_source(doc, at, &yaml->values[i]);
        const luo_value value = value_at(at, &yaml->values[i]);
        if (luo_stack_take(stack, &value, &err) != LUO_OK)
            luo_doc_error(doc, part_of(at, err.text), "%s", err.text);
    }
    at = list ? list->first : NULL;
    for (uint32_t i = 0; i < yaml->switches_count; i++, at = at->next)
        if (luo_stack_switch(stack, yaml->switches[i].name, yaml->switches[i].value, &err) !=
            LUO_OK)
            luo_doc_error(doc, luo_doc_get(at, err.text[0] == '`' ? "value" : "name"), "%s",
                          err.text);
}

luo_status luo_read_stack_text(luo_arena *arena, const luo_source *src, luo_stack *out,
                               luo_diags *diags)
{
    luo_doc doc = {.arena = arena, .src = src, .diags = diags};
    void *data = NULL;
    luo_stack stack = {0};
    luo_doc_parse(&doc);
    luo_doc_check(&doc, &luo_doc_stack);
    if (doc.st == LUO_OK && luo_doc_load(&doc, &stack_schema, &data) == LUO_OK)
        take_stack(&doc, &stack, data);
    if (doc.st == LUO_OK) *out = stack;
    return doc.st;
}

luo_status luo_read_stack(luo_arena *arena, const char *path, luo_stack *out, luo_diags *diags)
{
    luo_err err;
    luo_source src;
    if (read_named(arena, path, LUO_BUILTIN_STACKS, &src, &err) != LUO_OK)
        return luo_diags_err(diags, &err);
    return luo_read_stack_text(arena, &src, out, diags);
}
