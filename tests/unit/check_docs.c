/* tests/unit/check_docs.c: docs/formats.md and docs/results.md are held to the tables that readers
 * and writers use. Each row of a page begins as the table has it; a row that is missing is printed
 * as it should stand, so that it can be put in and its free cells filled. */
#include <math.h>

#include "core/cost/profile.h"
#include "core/io/convert/convert.h"
#include "core/io/document/doc_words.h"
#include "core/io/export/export.h"
#include "core/io/import/import.h"
#include "core/io/read/read.h"
#include "core/io/result/columns.h"
#include "core/io/read/input_tables.h"
#include "core/plan/planners.h"
#include "core/run/rows.h"
#include "tests/check_main.h"

static luo_arena *arena;

static const char *page(const char *name)
{
    luo_source src;
    luo_err err;
    ck_assert_msg(luo_source_read(arena, name, &src, &err) == LUO_OK, "%s", err.text);
    return src.text;
}

/* ---- a page in parts ---- */

/* The text from a heading that begins so up to the next heading of its level or above. */
static const char *section(const char *text, const char *heading)
{
    const size_t n = strlen(heading), level = strspn(heading, "#");
    const char *at = text;
    while (at && strncmp(at, heading, n) != 0) {
        at = strstr(at, "\n#");
        if (at) at++;
    }
    ck_assert_msg(at != NULL, "no section `%s`", heading);
    const char *end = strchr(at, '\n');
    while (end && !(end[1] == '#' && strspn(end + 1, "#") <= level)) end = strstr(end + 1, "\n#");
    return end ? luo_arena_printf(arena, "%.*s\n", (int)(end - at), at) : at;
}

/* Rows of tables in a text, headers and rules of tables left out. */
static int count_table_rows(const char *text)
{
    int n = 0;
    for (const char *at = strstr(text, "\n| `"); at; at = strstr(at + 1, "\n| `")) n++;
    return n;
}

/* A row that begins with `begin` has `cells` more cells, none of them empty. */
static void has_row(const char *page_name, const char *where, const char *text, const char *begin,
                    int cells)
{
    const char *at = strstr(text, luo_arena_printf(arena, "\n%s", begin));
    ck_assert_msg(at != NULL, "%s, %s: no row `%s`", page_name, where, begin);
    at += strlen(begin) + 1;
    const char *rest = luo_arena_printf(arena, "%.*s", (int)strcspn(at, "\n"), at);
    int found = 0;
    for (const char *p = rest; *p && strchr(p, '|'); p = strchr(p, '|') + 1) {
        const size_t blank = strspn(p, " ");
        ck_assert_msg(p[blank] != '|', "%s, %s: an empty cell behind `%s`", page_name, where,
                      begin);
        found++;
    }
    ck_assert_msg(found == cells, "%s, %s: `%s` has %d cells more, not %d", page_name, where, begin,
                  found, cells);
}

/* ---- what a table says of a key ---- */

/* The text in the arena; frees it. */
static const char *kept(luo_str *text)
{
    const char *copy = luo_arena_printf(arena, "%s", luo_str_get(text));
    luo_str_free(text);
    return copy;
}

static const char *range_of(luo_limit limit)
{
    luo_str text = {0};
    luo_doc_add_range(&text, limit);
    return kept(&text);
}

static const char *type_of(const luo_doc_schema *schema)
{
    luo_str text = {0};
    luo_doc_add_type(&text, schema);
    return kept(&text);
}

/* A text without the targets of its links, as help has it: "[a](b)" is "a". */
static const char *without_links(const char *text)
{
    char *out = luo_arena_printf(arena, "%s", text);
    size_t n = 0;
    for (const char *at = text; *at; at++) {
        const char *close = *at == '[' ? at + strcspn(at, "]\n") : NULL;
        if (close && close[0] == ']' && close[1] == '(') continue;
        if (at[0] == ']' && at[1] == '(')
            at += strcspn(at, ")");
        else
            out[n++] = *at;
    }
    out[n] = 0;
    return out;
}

/* The cell of a meaning begins with `says` and may go on. */
static void begins_with(const char *page_name, const char *where, const char *text,
                        const char *begin, const char *says)
{
    ck_assert_msg(says && *says && !strchr(says, '\n'), "%s, %s: `%s` has no meaning", page_name,
                  where, begin);
    ck_assert_msg(strlen(says) < 200, "%s, %s: `%s` says too much for a line", page_name, where,
                  begin);
    ck_assert_msg(strstr(without_links(text), luo_arena_printf(arena, "\n%s %s", begin, says)),
                  "%s, %s: behind `%s` there is not `%s`", page_name, where, begin, says);
}

/* ---- files in YAML and JSON ---- */

/* The default in its cell: " 1 |", " `auto` |", " empty |"; "": the table has none. */
static const char *default_of(const luo_doc_field *f)
{
    const luo_doc_schema *s = &f->value;
    if (luo_doc_field_is_required(f)) return " required |";
    if (!s->otherwise) return "";
    if (s->nwords || s->form == LUO_DOC_FLAG)
        return luo_arena_printf(arena, " `%s` |", s->otherwise);
    return luo_arena_printf(arena, " %s |", *s->otherwise ? s->otherwise : "empty");
}

/* Its row says that this build refuses it. */
static bool missing_here(const char *own, const char *key)
{
    const char *at = strstr(own, luo_arena_printf(arena, "\n| `%s` |", key)) + 1;
    return strstr(luo_arena_printf(arena, "%.*s", (int)strcspn(at, "\n"), at),
                  "not in this build") != NULL;
}

static void check_block(const luo_doc_kind *kind, const char *text, const char *parent,
                        const luo_doc_field *fields, const char *examples)
{
    const char *heading = luo_arena_printf(arena, "### `%s`", *parent ? parent : kind->name);
    const char *own = section(text, heading);
    int n = 0;
    for (; fields[n].key; n++) {
        const luo_doc_schema *s = &fields[n].value;
        const char *otherwise = default_of(&fields[n]);
        const char *begin = luo_arena_printf(arena, "| `%s` | %s | %s |%s", fields[n].key,
                                             type_of(s), luo_doc_unit(fields[n].key), otherwise);
        has_row("docs/formats.md", heading, own, begin, *otherwise ? 1 : 2);
        begins_with("docs/formats.md", heading, own, begin, fields[n].says);
        ck_assert_msg(strstr(examples, luo_arena_printf(arena, "%s:", fields[n].key)) ||
                          strstr(examples, luo_arena_printf(arena, "\"%s\":", fields[n].key)) ||
                          missing_here(own, fields[n].key),
                      "docs/formats.md, `%s` of luoshu.%s/1: in no example", fields[n].key,
                      kind->name);
        /* neighbours of one form have one table, under the first of them */
        const luo_doc_field *within = luo_doc_fields(s);
        if (within && !(n > 0 && luo_doc_fields(&fields[n - 1].value) == within))
            check_block(kind, text, fields[n].key, within, examples);
    }
    ck_assert_msg(count_table_rows(own) == n, "docs/formats.md, %s: %d rows for %d keys", heading,
                  count_table_rows(own), n);
}

static luo_status read_example(const char *kind, const luo_source *src, luo_diags *diags)
{
    union {
        luo_cluster *cluster;
        luo_profile *profile;
        luo_model *model;
        luo_plan *plan;
        luo_scenario *scenario;
        luo_stack stack;
        luo_params params;
    } x;
    const char c = kind[0], c1 = kind[1];
    if (c == 'c') return luo_read_cluster_text(arena, src, NULL, &x.cluster, diags);
    if (c == 'm') return luo_read_model_text(arena, src, NULL, &x.model, diags);
    if (c == 's' && c1 == 't') return luo_read_stack_text(arena, src, &x.stack, diags);
    if (c == 'p' && c1 == 'r') return luo_read_profile_text(arena, src, NULL, &x.profile, diags);
    if (c == 'p' && c1 == 'a') return luo_read_params_text(arena, src, &x.params, diags);
    if (c == 'p') return luo_read_plan_text(arena, src, &x.plan, diags);
    return luo_read_scenario_text(arena, src, NULL, NULL, &x.scenario, NULL, diags);
}

/* Every block of code under an example is a file that is read without an error; paths in it begin
 * at scenarios/examples/. */
static void check_examples(const char *kind, const char *text)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, "\n```")) != NULL; n++) {
        const char *from = strchr(at + 1, '\n') + 1, *to = strstr(from, "\n```");
        const char *code = luo_arena_printf(arena, "%.*s\n", (int)(to - from), from);
        const luo_source src = {"scenarios/examples/example", code, strlen(code)};
        luo_diags diags;
        luo_diags_init(&diags, arena);
        ck_assert_msg(read_example(kind, &src, &diags) == LUO_OK,
                      "docs/formats.md, example %d of luoshu.%s/1, line %d: %s", n + 1, kind,
                      diags.first ? diags.first->err.line : 0,
                      diags.first ? diags.first->err.text : "?");
        at = to + 4;
    }
    ck_assert_int_gt(n, 0);
}

START_TEST(keys_of_files)
{
    int n;
    arena = luo_arena_new(1 << 16);
    const luo_doc_kind *kind = luo_doc_kinds(&n)[_i];
    const char *text =
        section(page("docs/formats.md"), luo_arena_printf(arena, "## `luoshu.%s/1`", kind->name));
    const char *examples = section(text, "### Example");
    check_block(kind, text, "", kind->schema->fields, examples);
    check_examples(kind->name, examples);
    luo_arena_free(arena);
}
END_TEST

/* ---- names of values ---- */

typedef bool next_key_fn(int i, luo_value_key *out);

static void check_values(const char *file, next_key_fn *next, bool none)
{
    const char *where = "### Names of `values`";
    const char *own = section(section(page("docs/formats.md"), file), where);
    luo_value_key k;
    int n = 0;
    for (; next(n, &k); n++) {
        const char *begin = luo_arena_printf(
            arena, "| `%s` | %s | %s | %s |", k.name, range_of(k.limit), luo_doc_unit(k.name),
            none && k.otherwise == 0 ? "none" : luo_arena_printf(arena, "%.10g", k.otherwise));
        has_row("docs/formats.md", file, own, begin, 1);
        begins_with("docs/formats.md", file, own, begin, k.says);
    }
    ck_assert_int_eq(count_table_rows(own), n);
}

START_TEST(names_of_values)
{
    arena = luo_arena_new(1 << 16);
    check_values("## `luoshu.profile/1`", luo_profile_value_key, true);
    check_values("## `luoshu.stack/1`", luo_stack_value_key, false);
    luo_arena_free(arena);
}
END_TEST

START_TEST(names_of_switches)
{
    arena = luo_arena_new(1 << 16);
    const char *own =
        section(section(page("docs/formats.md"), "## `luoshu.stack/1`"), "### Names of `switches`");
    luo_switch_key k;
    int n = 0;
    for (; luo_stack_switch_key(n, &k); n++) {
        const char *begin = luo_arena_printf(arena, "| `%s` | `%s` `%s` | `%s` |", k.name,
                                             k.words[0], k.words[1], k.words[k.otherwise]);
        has_row("docs/formats.md", "switches", own, begin, 1);
        begins_with("docs/formats.md", "switches", own, begin, k.says);
    }
    ck_assert_int_eq(count_table_rows(own), n + 2); /* and bucket_rule, fp8_recipe */
    luo_arena_free(arena);
}
END_TEST

/* ---- tables that are read ---- */

static const char *cell_type(const luo_csv_column *column)
{
    luo_str text = {0};
    luo_doc_add_column(&text, column);
    return kept(&text);
}

START_TEST(columns_of_inputs)
{
    int n;
    arena = luo_arena_new(1 << 16);
    const luo_input_table *t = luo_input_tables(&n)[_i];
    const char *where = luo_arena_printf(arena, "### `%s`", t->name);
    const char *own = section(section(page("docs/formats.md"), "## Tables"), where);
    for (int i = 0; i < t->n; i++) {
        const luo_csv_column *c = &t->columns[i];
        const char *begin = luo_arena_printf(arena, "| `%s` | %s | %s | %s |", c->name,
                                             cell_type(c), luo_doc_unit(c->name),
                                             c->required ? "yes" : "no");
        has_row("docs/formats.md", where, own, begin, 1);
        begins_with("docs/formats.md", where, own, begin, c->says);
    }
    ck_assert_int_eq(count_table_rows(own), t->n);
    luo_arena_free(arena);
}
END_TEST

/* ---- tables that are written ---- */

static const char *const cell_kinds[] = {
    [LUO_CELL_INT] = "whole", [LUO_CELL_SECONDS] = "seconds", [LUO_CELL_RATIO] = "ratio",
    [LUO_CELL_RATE] = "rate", [LUO_CELL_NUMBER] = "number",   [LUO_CELL_TEXT] = "text"};

START_TEST(columns_of_results)
{
    arena = luo_arena_new(1 << 16);
    const luo_table_def *t = luo_table_def_at((luo_table_id)_i);
    const char *where = luo_arena_printf(arena, "### `%s`", t->file);
    const char *own = section(page("docs/results.md"), where);
    for (int32_t i = 0; i < t->n; i++)
        has_row("docs/results.md", where, own,
                luo_arena_printf(arena, "| `%s` | %s | %s |", t->columns[i].name,
                                 cell_kinds[t->columns[i].kind], t->columns[i].help),
                0);
    ck_assert_int_eq(count_table_rows(own), t->n);
    luo_arena_free(arena);
}
END_TEST

/* ---- what is imported ---- */

START_TEST(kinds_of_import)
{
    arena = luo_arena_new(1 << 16);
    const char *own = section(page("docs/formats.md"), "## Imported files");
    for (int k = 0; k < LUO_IMPORT_KINDS; k++) {
        const luo_import_kind kind = (luo_import_kind)k;
        const int options = luo_import_kind_options(kind);
        has_row("docs/formats.md", "Imported files", own,
                luo_arena_printf(arena, "| `%s` | %s | %s |", luo_import_kind_name(kind),
                                 luo_import_kind_source(kind),
                                 options == LUO_IMPORT_LENGTH ? "`--length`"
                                 : options == LUO_IMPORT_UNIT ? "`--unit`"
                                                              : "-"),
                2);
    }
    for (int k = 0; k < LUO_IMPORT_SKIPS; k++)
        ck_assert_ptr_nonnull(strstr(
            own, luo_arena_printf(arena, "`%s` ", luo_import_skip_name((luo_import_skip)k))));
    ck_assert_int_eq(count_table_rows(own), LUO_IMPORT_KINDS);
    luo_arena_free(arena);
}
END_TEST

static const char *uses_of(unsigned uses)
{
    static const struct {
        unsigned use;
        const char *option;
    } options[] = {{LUO_EXPORT_MODEL, "`--model`"},
                   {LUO_EXPORT_CLUSTER, "`--cluster`"},
                   {LUO_EXPORT_STACK, "`--stack`"}};
    const char *text = "";
    for (int i = 0; i < LUO_ROWS(options); i++)
        if (uses & options[i].use)
            text = luo_arena_printf(arena, "%s%s%s", text, *text ? ", " : "", options[i].option);
    return *text ? text : "-";
}

START_TEST(kinds_of_export)
{
    arena = luo_arena_new(1 << 16);
    const char *own = section(page("docs/formats.md"), "## Exported files");
    for (int k = 0; k < LUO_EXPORT_KINDS; k++) {
        const luo_export_kind kind = (luo_export_kind)k;
        const unsigned needs = luo_export_kind_needs(kind);
        has_row("docs/formats.md", "Exported files", own,
                luo_arena_printf(arena, "| `%s` | %s | %s | %s | %s |", luo_export_kind_name(kind),
                                 luo_export_kind_says(kind),
                                 luo_export_of_name(luo_export_kind_of(kind)),
                                 uses_of(needs), uses_of(luo_export_kind_takes(kind) & ~needs)),
                0);
    }
    ck_assert_int_eq(count_table_rows(own), LUO_EXPORT_KINDS);
    luo_arena_free(arena);
}
END_TEST

static const char *options_of(int bits)
{
    static const struct {
        int bit;
        const char *option;
    } options[] = {{LUO_CONVERT_DEVICES, "`--devices`"},
                   {LUO_CONVERT_MICRO_BATCHES, "`--micro-batches`"},
                   {LUO_CONVERT_PROFILE, "`--profile`"},
                   {LUO_CONVERT_APPROXIMATE, "`--approximate`"},
                   {LUO_CONVERT_REPAIR, "`--repair`"},
                   {LUO_CONVERT_MODEL, "`--model`"},
                   {LUO_CONVERT_UNITS, "`--units`"},
                   {LUO_CONVERT_SEQUENCE, "`--seq-length`"},
                   {LUO_CONVERT_MIN_GPUS, "`--min-gpus`"},
                   {LUO_CONVERT_RUN, "`--run`"}};
    const char *text = "";
    for (int i = 0; i < LUO_ROWS(options); i++)
        if (bits & options[i].bit)
            text = luo_arena_printf(arena, "%s%s%s", text, *text ? ", " : "", options[i].option);
    return *text ? text : "-";
}

START_TEST(kinds_of_other_tools)
{
    arena = luo_arena_new(1 << 16);
    const char *own = section(page("docs/formats.md"), "## Files of other tools");
    for (int k = 0; k < LUO_CONVERT_KINDS; k++) {
        const luo_convert_kind kind = (luo_convert_kind)k;
        has_row("docs/formats.md", "Files of other tools", own,
                luo_arena_printf(arena, "| `%s` | %s | %s | %s |", luo_convert_kind_name(kind),
                                 luo_convert_kind_source(kind), luo_convert_kind_out(kind),
                                 options_of(luo_convert_kind_options(kind))),
                1);
    }
    ck_assert_int_eq(count_table_rows(own), LUO_CONVERT_KINDS);
    luo_arena_free(arena);
}
END_TEST

/* The row of a scenario's planner names all of them. */
START_TEST(names_of_planners)
{
    static const char *const names[] = {
#define LUO_PLANNER(name, says, options) #name,
#include "core/run/first/planners.inc"
#undef LUO_PLANNER
    };
    arena = luo_arena_new(1 << 16);
    const char *own = section(section(page("docs/formats.md"), "## `luoshu.scenario/1`"),
                              "### `planner`");
    for (int i = 0; i < LUO_ROWS(names); i++)
        ck_assert_msg(strstr(own, luo_arena_printf(arena, "`%s`", names[i])) != NULL,
                      "docs/formats.md, `planner`: no `%s`", names[i]);
    luo_arena_free(arena);
}
END_TEST

/* What planner `uniform` says of schedules names all of them. */
START_TEST(schedules_of_uniform)
{
    arena = luo_arena_new(1 << 16);
    const char *row = strstr(page("docs/planners.md"), "\n| schedule |");
    ck_assert(row != NULL);
    row = luo_arena_printf(arena, "%.*s", (int)strcspn(row + 1, "\n"), row + 1);
    for (int k = 0; k < LUO_SCHEDS; k++) {
        const char *name = luo_sched_name((luo_sched_kind)k);
        ck_assert_msg(strstr(row, luo_arena_printf(arena, "`%s`", name)) != NULL,
                      "docs/planners.md, `%s`: %s", name, row);
    }
    luo_arena_free(arena);
}
END_TEST

/* A column that holds words of a list names all of them. */
START_TEST(words_of_columns)
{
#define WORD(value, word) " " word
    static const char phases[] = LUO_EVENT_PHASE_LIST(WORD);
#undef WORD
    ck_assert_str_eq(luo_table_def_at(LUO_TABLE_EVENTS)->columns[LUO_COL_EVENTS_phase].help,
                     phases + 1);
}
END_TEST

enum { KINDS = 7, INPUT_TABLES = 15 };

START_TEST(all_are_asked)
{
    int n;
    luo_doc_kinds(&n);
    ck_assert_int_eq(n, KINDS);
    luo_input_tables(&n);
    ck_assert_int_eq(n, INPUT_TABLES);
}
END_TEST

LUO_SUITE("docs", LUO_T(all_are_asked), LUO_T_N(keys_of_files, KINDS), LUO_T(names_of_values),
          LUO_T(names_of_switches), LUO_T_N(columns_of_inputs, INPUT_TABLES),
          LUO_T_N(columns_of_results, LUO_TABLES), LUO_T(words_of_columns),
          LUO_T(schedules_of_uniform), LUO_T(names_of_planners), LUO_T(kinds_of_import),
          LUO_T(kinds_of_export), LUO_T(kinds_of_other_tools))
