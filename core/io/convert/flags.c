/* flags.c: arguments of a program, by name. */
#include "core/io/convert/flags.h"

#include <string.h>

#include "core/io/json_number.h"

static luo_status contradicts(const convert_flags *flags, const convert_flag *old,
                              const char *value, int line, int col)
{
    const char *one = old->value ? old->value : "", *other = value ? value : "";
    if (strcmp(one, other) == 0) return LUO_OK;
    return convert_error(flags->job, line, col,
                         "`%.60s` is `%.40s`, and `%.40s` in line %d; one of them is expected.",
                         old->name, other, one, old->at.line);
}

luo_status convert_flags_put(convert_flags *flags, const char *name, size_t n, const char *value,
                             int line, int col)
{
    char *copy = luo_arena_strndup(flags->job->arena, name, n);
    if (!copy) return convert_nomem(flags->job);
    for (char *c = copy; *c; c++)
        if (*c == '-') *c = '_';
    for (int32_t i = 0; i < flags->n; i++)
        if (strcmp(flags->at[i].name, copy) == 0)
            return contradicts(flags, &flags->at[i], value, line, col);
    if (flags->n == flags->cap) {
        const int32_t cap = flags->cap ? 2 * flags->cap : 64;
        convert_flag *more = LUO_NEW_N(flags->job->arena, convert_flag, cap);
        if (!more) return convert_nomem(flags->job);
        if (flags->n) memcpy(more, flags->at, (size_t)flags->n * sizeof *more);
        flags->at = more;
        flags->cap = cap;
    }
    flags->at[flags->n++] = (convert_flag){.name = copy, .value = value, .at = {line, col}};
    return LUO_OK;
}

convert_flag *convert_flags_use(convert_flags *flags, const char *name)
{
    for (int32_t i = 0; i < flags->n; i++)
        if (strcmp(flags->at[i].name, name) == 0) {
            flags->at[i].used = true;
            return &flags->at[i];
        }
    return NULL;
}

static bool is_one_of(const char *word, const char *const *words)
{
    for (; word && *words; words++)
        if (strcmp(word, *words) == 0) return true;
    return false;
}

bool convert_flags_is(convert_flags *flags, const char *name)
{
    static const char *const no[] = {"False", "false", "None", "null", "0", NULL};
    const convert_flag *flag = convert_flags_use(flags, name);
    return flag && !is_one_of(flag->value, no);
}

const char *convert_flags_word(convert_flags *flags, const char *name)
{
    static const char *const nothing[] = {"None", "null", "", NULL};
    const convert_flag *flag = convert_flags_use(flags, name);
    return flag && !is_one_of(flag->value, nothing) ? flag->value : NULL;
}

luo_status convert_flags_real(convert_flags *flags, const char *name, double *out)
{
    const char *word = convert_flags_word(flags, name);
    const convert_flag *flag = convert_flags_use(flags, name);
    if (!flag || (flag->value && !word)) return LUO_OK;
    if (word && luo_json_number_float(word, strlen(word), out)) return LUO_OK;
    return convert_error(flags->job, flag->at.line, flag->at.col,
                         "`%.60s` is `%.60s`; a number is expected.", name, word ? word : "");
}

luo_status convert_flags_int(convert_flags *flags, const char *name, int64_t *out)
{
    const char *word = convert_flags_word(flags, name);
    const convert_flag *flag = convert_flags_use(flags, name);
    int64_t v;
    if (!flag || (flag->value && !word)) return LUO_OK;
    if (word && luo_json_number_whole(word, strlen(word), &v) && v >= 0 && v <= INT32_MAX) {
        *out = v;
        return LUO_OK;
    }
    return convert_error(flags->job, flag->at.line, flag->at.col,
                         "`%.60s` is `%.60s`; a whole number is expected.", name, word ? word : "");
}

luo_status convert_flags_unused(convert_flags *flags)
{
    const char **names = LUO_NEW_N(flags->job->arena, const char *, flags->n + 1);
    int32_t n = 0;
    if (!names) return convert_nomem(flags->job);
    for (int32_t i = 0; i < flags->n; i++)
        if (!flags->at[i].used) names[n++] = flags->at[i].name;
    return convert_unused(flags->job, names, n);
}

luo_status convert_flags_sizes(convert_flags *flags, const convert_size *sizes, size_t n,
                               convert_training *out)
{
    for (size_t i = 0; i < n; i++)
        LUO_TRY(convert_flags_int(flags, sizes[i].name,
                                  (int64_t *)(void *)((char *)out + sizes[i].offset)));
    return LUO_OK;
}

luo_status convert_flags_wrong(convert_flags *flags, const char *name, const char *expected)
{
    const convert_flag *flag = convert_flags_use(flags, name);
    return convert_error(flags->job, flag->at.line, flag->at.col,
                         "`%.60s` is `%.60s`; %s is expected.", name,
                         flag->value ? flag->value : "", expected);
}

luo_status convert_flags_refuse(convert_flags *flags, const char *name, const char *why)
{
    const convert_flag *flag = convert_flags_use(flags, name);
    return convert_refuse(flags->job, name, flag->at.line, flag->at.col, why);
}

/* ---- YAML and JSON ---- */

static luo_status put_leaves(convert_flags *flags, const luo_doc_node *map)
{
    for (const luo_doc_node *node = map->first; node; node = node->next) {
        if (node->type == LUO_DOC_MAP)
            LUO_TRY(put_leaves(flags, node));
        else if (node->type == LUO_DOC_SCALAR && node->key)
            LUO_TRY(convert_flags_put(flags, node->key, strlen(node->key), node->text, node->line,
                                      node->col));
    }
    return LUO_OK;
}

luo_status convert_flags_yaml(convert_flags *flags)
{
    convert_job *job = flags->job;
    luo_doc doc = {.arena = job->arena, .src = &job->src, .diags = job->diags};
    LUO_TRY(luo_doc_parse(&doc));
    return doc.root ? put_leaves(flags, doc.root) : LUO_OK;
}

luo_status convert_flags_json(convert_flags *flags)
{
    luo_doc doc;
    LUO_TRY(convert_json(flags->job, &doc));
    return put_leaves(flags, doc.root);
}

/* ---- a log ---- */

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || (c >= 'A' && c <= 'Z');
}

/* "[default0]:  num_layers ...... 32": name, dots between blanks, value up to the end. */
static luo_status put_log_line(convert_flags *flags, const char *from, const char *end, int line)
{
    const char *dots = memmem(from, (size_t)(end - from), " ...", 4);
    const char *name, *value;
    if (!dots) return LUO_OK;
    for (name = dots; name > from && is_name(name[-1]); name--) continue;
    for (value = dots + 1; value < end && *value == '.'; value++) continue;
    if (name == dots || value == end || *value != ' ') return LUO_OK;
    while (value < end && *value == ' ') value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\r')) end--;
    const char *copy = luo_arena_strndup(flags->job->arena, value, (size_t)(end - value));
    if (!copy) return convert_nomem(flags->job);
    return convert_flags_put(flags, name, (size_t)(dots - name), copy, line,
                             (int)(value - from) + 1);
}

luo_status convert_flags_log(convert_flags *flags)
{
    const luo_source *src = &flags->job->src;
    int line = 1;
    for (const char *at = src->text, *stop = at + src->len; at < stop; line++) {
        const char *nl = memchr(at, '\n', (size_t)(stop - at)), *end = nl ? nl : stop;
        LUO_TRY(put_log_line(flags, at, end, line));
        at = end + 1;
    }
    return LUO_OK;
}
