/* doc_words.c: types, ranges and units of keys in words. */
#include "core/io/document/doc_words.h"

#include <string.h>

const char *luo_doc_unit(const char *key)
{
    static const struct {
        const char *end, *unit;
    } ends[] = {{"_gbytes_per_s", "10^9 bytes/s"},
                {"_tflop_per_s", "10^12 flop/s"},
                {"_tokens_per_s", "tokens/s"},
                {"_gib", "2^30 bytes"},
                {"_mib", "2^20 bytes"},
                {"_bytes", "bytes"},
                {"_us", "10^-6 s"},
                {"_ms", "10^-3 s"},
                {"_ms_per_token2", "10^-3 s"},
                {"_ms_per_token", "10^-3 s"},
                {"_s", "s"},
                {"_tokens", "tokens"},
                {"_px", "pixels"},
                {"_steps", "steps"}};
    const size_t n = strlen(key);
    for (size_t i = 0; i < LUO_DOC_COUNT(ends); i++) {
        const size_t m = strlen(ends[i].end);
        if (n > m && strcmp(key + n - m, ends[i].end) == 0) return ends[i].unit;
    }
    return "-";
}

static void add_number(luo_str *text, double v)
{
    if (v == 9007199254740992.0)
        luo_str_add(text, "2^53");
    else
        luo_str_addf(text, v == floor(v) && fabs(v) < 1e10 ? "%.0f" : "%.3g", v);
}

void luo_doc_add_range(luo_str *text, luo_limit limit)
{
    const bool or_zero = limit.of != LUO_Q_NONE && limit.or_zero;
    luo_limit l = luo_limit_for(&limit, -1);
    if (or_zero) l.lo = luo_quantity_at(l.of)->lowest / l.unit;
    if (isinf(l.lo) && isinf(l.hi)) return;
    if (or_zero) luo_str_add(text, "0 or ");
    if (l.open) luo_str_add(text, "above ");
    if (isinf(l.hi) && !or_zero && !l.open) luo_str_add(text, "from ");
    add_number(text, l.lo);
    if (isinf(l.hi)) return;
    luo_str_add(text, " to ");
    add_number(text, l.hi);
}

/* "whole, 1 to 64" */
static void add_limited(luo_str *text, const char *type, luo_limit limit)
{
    luo_str range = {0};
    luo_doc_add_range(&range, limit);
    luo_str_add(text, type);
    if (range.len > 0) luo_str_addf(text, ", %s", luo_str_get(&range));
    luo_str_free(&range);
}

void luo_doc_add_type(luo_str *text, const luo_doc_schema *schema)
{
    const luo_limit any = LUO_DOC_ANY, limit = schema->limit.unit > 0 ? schema->limit : any;
    for (int i = 0; i < schema->nwords; i++)
        luo_str_addf(text, "%s`%s`", i ? " " : "", schema->words[i].text);
    if (schema->nwords) return;
    switch (schema->form) {
    case LUO_DOC_WHOLE:
        add_limited(text, "whole", limit);
        break;
    case LUO_DOC_REAL:
        add_limited(text, "number", limit);
        if (schema->or_null) luo_str_add(text, ", or `null`");
        break;
    case LUO_DOC_FLAG:
        luo_str_add(text, "`true` `false`");
        break;
    case LUO_DOC_SEED:
    case LUO_DOC_HASH:
    case LUO_DOC_WORD:
        break; /* of no file that people write; words are above */
    case LUO_DOC_STRING:
        luo_str_add(text, "text");
        break;
    case LUO_DOC_STRUCT:
        luo_str_add(text, schema->or_null ? "map or `null`" : "map");
        break;
    case LUO_DOC_FREE:
        luo_str_add(text, "map of free keys");
        break;
    case LUO_DOC_LIST_OF:
    case LUO_DOC_TWO_OF:
        luo_str_add(text, schema->form == LUO_DOC_LIST_OF ? "list of " : "two of ");
        luo_doc_add_type(text, schema->entry);
        break;
    }
}

void luo_doc_add_column(luo_str *text, const luo_csv_column *column)
{
    switch (column->type) {
    case LUO_CSV_WHOLE:
        add_limited(text, "whole", column->limit);
        break;
    case LUO_CSV_NUMBER:
        add_limited(text, "number", column->limit);
        if (column->inf) luo_str_add(text, ", `inf`");
        break;
    case LUO_CSV_TEXT:
        luo_str_add(text, "text");
        break;
    case LUO_CSV_WORD:
        for (const char *const *word = column->words; *word; word++)
            luo_str_addf(text, "%s`%s`", word == column->words ? "" : " ", *word);
        break;
    }
}

/* A key without a default of its own says what holds without it before its meaning. */
static bool says_both(const luo_doc_field *field)
{
    return !luo_doc_field_is_required(field) && !field->value.otherwise;
}

void luo_doc_add_default(luo_str *text, const luo_doc_field *field)
{
    const char *otherwise = field->value.otherwise;
    if (luo_doc_field_is_required(field)) {
        luo_str_add(text, "required");
    } else if (otherwise) {
        if (*otherwise) luo_str_addf(text, "default %s", otherwise);
    } else if (strncmp(field->says, "- ", 2) != 0) {
        const bool bare = strncmp(field->says, "required", 8) == 0;
        luo_str_addf(text, "%s%.*s", bare ? "" : "default ",
                     (int)(luo_doc_meaning(field) - 3 - field->says), field->says);
    }
}

const char *luo_doc_meaning(const luo_doc_field *field)
{
    return says_both(field) ? strstr(field->says, " | ") + 3 : field->says;
}

const luo_doc_field *luo_doc_fields(const luo_doc_schema *schema)
{
    if (schema->form == LUO_DOC_LIST_OF) schema = schema->entry;
    return schema->form == LUO_DOC_STRUCT ? schema->fields : NULL;
}
