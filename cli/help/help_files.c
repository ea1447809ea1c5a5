/* help_files.c: keys of files and columns of tables, by the tables that readers use. */
#include <string.h>

#include "cli/help/help.h"
#include "core/cost/profile.h"
#include "core/io/document/doc_words.h"

const luo_doc_kind *luo_help_kind(const char *name)
{
    int n;
    const luo_doc_kind *const *kinds = luo_doc_kinds(&n);
    for (int i = 0; i < n; i++)
        if (strcmp(kinds[i]->name, name) == 0) return kinds[i];
    return NULL;
}

const luo_input_table *luo_help_table(const char *name)
{
    int n;
    const luo_input_table *const *tables = luo_input_tables(&n);
    for (int i = 0; i < n; i++)
        if (strcmp(tables[i]->name, name) == 0) return tables[i];
    return NULL;
}

/* ---- keys ---- */

enum { COLUMN = 30, ROOM = 98, MAPS = 64 };

/* Maps that are printed already, by their tables of fields. */
typedef struct printed {
    const luo_doc_field *fields[MAPS];
    const char *keys[MAPS];
    int n;
} printed;

static void print_fields(FILE *out, const luo_doc_field *fields, int depth, printed *seen);

/* Words from column `indent` on, as many a line as have room. */
static void print_words(FILE *out, int indent, const char *words)
{
    while (*words) {
        size_t n = strlen(words), room = (size_t)(ROOM - indent);
        if (n > room) {
            while (room > 0 && words[room] != ' ') room--;
            n = room ? room : strcspn(words, " ");
        }
        fprintf(out, "%*s%.*s\n", indent, "", (int)n, words);
        words += n + (words[n] == ' ');
    }
}

/* "  devices_per_node            whole, 1 to 64; required", and below it what the key means */
static void print_line(FILE *out, const char *key, int depth, const char *type,
                       const char *otherwise, const char *meaning)
{
    const char *unit = luo_doc_unit(key);
    fprintf(out, "%*s%-*s%s%s", depth * 2, "", COLUMN - depth * 2 - 1, key, *type ? " " : "", type);
    if (strcmp(unit, "-") != 0) fprintf(out, "%s%s", *type ? "; " : " ", unit);
    fprintf(out, "%s%s\n", *otherwise ? "; " : "", otherwise);
    print_words(out, COLUMN + 2, meaning);
}

static void print_key(FILE *out, const luo_doc_field *field, int depth)
{
    luo_str type = {0}, otherwise = {0};
    luo_doc_add_type(&type, &field->value);
    luo_doc_add_default(&otherwise, field);
    print_line(out, field->key, depth, luo_str_get(&type), luo_str_get(&otherwise),
               luo_doc_meaning(field));
    luo_str_free(&type);
    luo_str_free(&otherwise);
}

static void print_within(FILE *out, const luo_doc_field *field, int depth, printed *seen)
{
    const luo_doc_field *fields = luo_doc_fields(&field->value);
    if (!fields) return;
    for (int i = 0; i < seen->n; i++)
        if (seen->fields[i] == fields) {
            fprintf(out, "%*s(keys as in `%s` above)\n", depth * 2, "", seen->keys[i]);
            return;
        }
    if (seen->n < MAPS) {
        seen->fields[seen->n] = fields;
        seen->keys[seen->n++] = field->key;
    }
    print_fields(out, fields, depth, seen);
}

static void print_fields(FILE *out, const luo_doc_field *fields, int depth, printed *seen)
{
    for (const luo_doc_field *field = fields; field->key; field++) {
        print_key(out, field, depth);
        print_within(out, field, depth + 1, seen);
    }
}

/* ---- names of values ---- */

typedef bool next_key_fn(int i, luo_value_key *out);

static void print_values(FILE *out, next_key_fn *next, bool zero_is_none)
{
    luo_value_key value;
    fputs("\nnames of `values`:\n", out);
    for (int i = 0; next(i, &value); i++) {
        luo_str range = {0}, otherwise = {0};
        luo_doc_add_range(&range, value.limit);
        if (!zero_is_none || value.otherwise != 0)
            luo_str_addf(&otherwise, "default %.10g", value.otherwise);
        print_line(out, value.name, 0, luo_str_get(&range), luo_str_get(&otherwise), value.says);
        luo_str_free(&range);
        luo_str_free(&otherwise);
    }
}

static void print_switches(FILE *out)
{
    luo_switch_key key;
    fputs("\nnames of `switches`, beside `bucket_rule` and `fp8_recipe`:\n", out);
    for (int i = 0; luo_stack_switch_key(i, &key); i++) {
        luo_str words = {0}, otherwise = {0};
        luo_str_addf(&words, "`%s` `%s`", key.words[0], key.words[1]);
        luo_str_addf(&otherwise, "default %s", key.words[key.otherwise]);
        print_line(out, key.name, 0, luo_str_get(&words), luo_str_get(&otherwise), key.says);
        luo_str_free(&words);
        luo_str_free(&otherwise);
    }
}

/* ---- one kind ---- */

/* The field that the first key of *path names, which moves behind it. */
static const luo_doc_field *step_into(const luo_doc_field *fields, const char *where,
                                      const char **path, luo_err *err)
{
    enum { MOST = 64 };
    const char *names[MOST];
    const size_t length = strcspn(*path, ".");
    char key[80];
    int n = 0;
    snprintf(key, sizeof key, "%.*s", (int)length, *path);
    *path += length + ((*path)[length] == '.');
    for (; fields && fields[n].key && n < MOST; n++) {
        if (strcmp(fields[n].key, key) == 0) return &fields[n];
        names[n] = fields[n].key;
    }
    luo_str text = {0};
    luo_say_unknown(&text, key, names, n, NULL);
    luo_err_set(err, LUO_EUSAGE, n ? "`%s` has no key `%s`; %s" : "`%s` has no keys, such as `%s`.",
                where, key, luo_str_get(&text));
    luo_str_free(&text);
    return NULL;
}

static luo_status print_below(FILE *out, const luo_doc_kind *kind, const char *path, luo_err *err)
{
    const luo_doc_field *fields = kind->schema->fields, *field = NULL;
    const char *where = kind->name;
    while (*path) {
        field = step_into(fields, where, &path, err);
        if (!field) return LUO_EUSAGE;
        fields = luo_doc_fields(&field->value);
        where = field->key;
    }
    printed seen = {0};
    if (field) print_key(out, field, 0);
    if (fields) print_fields(out, fields, field ? 1 : 0, &seen);
    return LUO_OK;
}

luo_status luo_help_keys(FILE *out, const luo_doc_kind *kind, const char *path, luo_err *err)
{
    if (!*path)
        fprintf(out,
                "Keys of luoshu.%s/1: type and range; unit; required, or its default; below that, "
                "what it is.\n\n",
                kind->name);
    LUO_TRY(print_below(out, kind, path, err));
    if (!*path && kind == &luo_doc_profile) print_values(out, luo_profile_value_key, true);
    if (!*path && kind == &luo_doc_stack) print_values(out, luo_stack_value_key, false);
    if (!*path && kind == &luo_doc_stack) print_switches(out);
    fprintf(out, "\nMore, with examples: %s#luoshu%s1\n", "docs/formats.md",
            kind->name);
    return LUO_OK;
}

/* ---- tables ---- */

void luo_help_columns(FILE *out, const luo_input_table *table)
{
    fprintf(out,
            "Columns of table `%s`, a CSV file with a header: type and range; unit; required; "
            "below that,\nwhat it is.\n\n",
            table->name);
    for (int i = 0; i < table->n; i++) {
        const luo_csv_column *column = &table->columns[i];
        luo_str type = {0};
        luo_doc_add_column(&type, column);
        print_line(out, column->name, 0, luo_str_get(&type), column->required ? "required" : "",
                   column->says);
        luo_str_free(&type);
    }
    fprintf(out, "\nMore: docs/formats.md#%s\n", table->name);
}
