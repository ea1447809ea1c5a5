/* json_schema.c: a table of fields as JSON Schema. */
#include "core/io/document/json_schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/document/doc_words.h"
#include "core/io/jsonw.h"

static void write_value(luo_jsonw *json, const luo_doc_schema *schema, const char *key,
                        const char *meaning);

/* The shortest text that is read as v. */
static void write_number(luo_jsonw *json, const char *key, double v)
{
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v) break;
    }
    luo_jsonw_word(json, key, text);
}

static void write_bounds(luo_jsonw *json, const luo_limit *limit)
{
    if (isfinite(limit->lo))
        write_number(json, limit->open ? "exclusiveMinimum" : "minimum", limit->lo);
    if (isfinite(limit->hi)) write_number(json, "maximum", limit->hi);
}

/* A quantity of which there may be none is 0, or from its lowest value on. */
static void write_limit(luo_jsonw *json, const luo_doc_schema *schema)
{
    luo_limit limit = luo_doc_limit(schema);
    const bool or_zero = limit.of != LUO_Q_NONE && limit.or_zero;
    limit = luo_limit_for(&limit, -1);
    if (!or_zero) {
        write_bounds(json, &limit);
        return;
    }
    limit.lo = luo_quantity_at(limit.of)->lowest / limit.unit;
    luo_jsonw_open(json, "anyOf", '[');
    luo_jsonw_open(json, NULL, '{');
    luo_jsonw_int(json, "const", 0);
    luo_jsonw_close(json);
    luo_jsonw_open(json, NULL, '{');
    write_bounds(json, &limit);
    luo_jsonw_close(json);
    luo_jsonw_close(json);
}

static void write_words(luo_jsonw *json, const luo_doc_schema *schema)
{
    luo_jsonw_open(json, "enum", '[');
    for (int i = 0; i < schema->nwords; i++) luo_jsonw_text(json, NULL, schema->words[i].text);
    luo_jsonw_close(json);
}

static void write_type(luo_jsonw *json, const char *type, bool or_null)
{
    if (!or_null) {
        luo_jsonw_text(json, "type", type);
        return;
    }
    luo_jsonw_open(json, "type", '[');
    luo_jsonw_text(json, NULL, type);
    luo_jsonw_text(json, NULL, "null");
    luo_jsonw_close(json);
}

static void write_default(luo_jsonw *json, const luo_doc_schema *schema)
{
    const bool bare = schema->form == LUO_DOC_WHOLE || schema->form == LUO_DOC_REAL ||
                      schema->form == LUO_DOC_FLAG;
    if (!schema->otherwise) return;
    if (bare && !schema->nwords && !schema->as_text)
        luo_jsonw_word(json, "default", schema->otherwise);
    else
        luo_jsonw_text(json, "default", schema->otherwise);
}

/* Keys of a map, and which are required. name: the one value of key `schema` of a whole file;
 * NULL: a map within. */
static void write_fields(luo_jsonw *json, const luo_doc_schema *schema, const char *name)
{
    luo_jsonw_open(json, "properties", '{');
    for (const luo_doc_field *field = schema->fields; field->key; field++) {
        if (!name || strcmp(field->key, "schema") != 0) {
            write_value(json, &field->value, field->key, luo_doc_meaning(field));
            continue;
        }
        luo_jsonw_open(json, field->key, '{');
        luo_jsonw_text(json, "const", name);
        luo_jsonw_close(json);
    }
    luo_jsonw_close(json);
    luo_jsonw_open(json, "required", '[');
    for (const luo_doc_field *field = schema->fields; field->key; field++)
        if (luo_doc_field_is_required(field)) luo_jsonw_text(json, NULL, field->key);
    luo_jsonw_close(json);
    luo_jsonw_bool(json, "additionalProperties", false);
}

/* ---- a value ---- */

static const char *type_of_number(const luo_doc_schema *schema)
{
    if (schema->as_text) return "string";
    return schema->form == LUO_DOC_WHOLE ? "integer" : "number";
}

static void write_form(luo_jsonw *json, const luo_doc_schema *schema)
{
    switch (schema->form) {
    case LUO_DOC_WHOLE:
    case LUO_DOC_REAL:
        write_type(json, type_of_number(schema), schema->or_null);
        if (!schema->as_text) write_limit(json, schema);
        break;
    case LUO_DOC_SEED:
        luo_jsonw_open(json, "type", '[');
        luo_jsonw_text(json, NULL, "integer");
        luo_jsonw_text(json, NULL, "string");
        luo_jsonw_close(json);
        luo_jsonw_int(json, "minimum", 0);
        break;
    case LUO_DOC_HASH:
        write_type(json, "string", schema->or_null);
        luo_jsonw_text(json, "pattern", "^[0-9a-f]{16}$");
        break;
    case LUO_DOC_FLAG:
        write_type(json, "boolean", schema->or_null);
        break;
    case LUO_DOC_STRING:
    case LUO_DOC_WORD:
        write_type(json, "string", schema->or_null);
        break;
    case LUO_DOC_STRUCT:
        write_type(json, "object", schema->or_null);
        write_fields(json, schema, NULL);
        break;
    case LUO_DOC_FREE:
        write_type(json, "object", schema->or_null);
        break;
    case LUO_DOC_LIST_OF:
    case LUO_DOC_TWO_OF:
        write_type(json, "array", schema->or_null);
        write_value(json, schema->entry, "items", "");
        if (schema->form == LUO_DOC_TWO_OF || schema->least > 0)
            luo_jsonw_int(json, "minItems", schema->form == LUO_DOC_TWO_OF ? 2 : schema->least);
        if (schema->form == LUO_DOC_TWO_OF) luo_jsonw_int(json, "maxItems", 2);
        break;
    }
}

/* "memory of the host (2^30 bytes)" */
static void write_description(luo_jsonw *json, const char *meaning, const char *unit)
{
    luo_str text = {0};
    luo_str_add(&text, meaning);
    if (strcmp(unit, "-") != 0) luo_str_addf(&text, " (%s)", unit);
    luo_jsonw_text(json, "description", luo_str_get(&text));
    luo_str_free(&text);
}

/* meaning: of the key; "": an entry of a list has none of its own. */
static void write_value(luo_jsonw *json, const luo_doc_schema *schema, const char *key,
                        const char *meaning)
{
    luo_jsonw_open(json, key, '{');
    if (*meaning) write_description(json, meaning, luo_doc_unit(key));
    if (schema->nwords)
        write_words(json, schema);
    else
        write_form(json, schema);
    write_default(json, schema);
    luo_jsonw_close(json);
}

void luo_json_schema_add(luo_str *text, const luo_doc_kind *kind)
{
    char name[64];
    luo_jsonw json = luo_jsonw_start(text);
    snprintf(name, sizeof name, "luoshu.%s/1", kind->name);
    luo_jsonw_open(&json, NULL, '{');
    luo_jsonw_text(&json, "$schema", "https://json-schema.org/draft/2020-12/schema");
    luo_jsonw_text(&json, "title", name);
    luo_jsonw_text(&json, "type", "object");
    write_fields(&json, kind->schema, name);
    luo_jsonw_close(&json);
}
