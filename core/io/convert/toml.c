/* toml.c: TOML as configurations of trainings use it, into flags `section.key`. Debian has no
 * library of C for it. Texts of three quotes and dates are read as they are written. */
#include <ctype.h>
#include <string.h>

#include "core/io/convert/flags.h"

typedef struct toml {
    convert_flags *flags;
    const char *at, *end, *line_start;
    int line;
    char section[128];
} toml;

static int column(const toml *t)
{
    return (int)(t->at - t->line_start) + 1;
}

static luo_status wrong(const toml *t, const char *what)
{
    return convert_error(t->flags->job, t->line, column(t),
                         "%s; a [section] or a line `key = "
                         "value` of TOML is expected.",
                         what);
}

static void blanks(toml *t)
{
    while (t->at < t->end && (*t->at == ' ' || *t->at == '\t' || *t->at == '\r')) t->at++;
}

static void rest_of_line(toml *t)
{
    while (t->at < t->end && *t->at != '\n') t->at++;
}

static void next_line(toml *t)
{
    rest_of_line(t);
    if (t->at < t->end) t->at++;
    t->line++;
    t->line_start = t->at;
}

static luo_status read_section(toml *t)
{
    while (t->at < t->end && *t->at == '[') t->at++;
    const char *from = t->at;
    while (t->at < t->end && *t->at != ']' && *t->at != '\n') t->at++;
    if (t->at == t->end || *t->at != ']') return wrong(t, "a `[` is not closed");
    const size_t n = (size_t)(t->at - from);
    if (n >= sizeof t->section) return wrong(t, "the name of a section is too long");
    memcpy(t->section, from, n);
    t->section[n] = 0;
    return LUO_OK;
}

/* Up to the closing quote; *value: what stands between. */
static luo_status read_text(toml *t, const char **value)
{
    const char quote = *t->at;
    const bool three = t->end - t->at > 2 && t->at[1] == quote && t->at[2] == quote;
    const size_t marks = three ? 3 : 1;
    const char *from = t->at + marks, *to = from;
    for (; to < t->end && (three || *to != '\n'); to++) {
        if (quote == '"' && *to == '\\' && to + 1 < t->end)
            to++;
        else if (*to == quote && (!three || (t->end - to > 2 && to[1] == quote && to[2] == quote)))
            break;
    }
    if (to >= t->end || *to != quote) return wrong(t, "a quote is not closed");
    *value = luo_arena_strndup(t->flags->job->arena, from, (size_t)(to - from));
    for (const char *p = from; p < to; p++)
        if (*p == '\n') {
            t->line++;
            t->line_start = p + 1;
        }
    t->at = to + marks;
    return *value ? LUO_OK : convert_nomem(t->flags->job);
}

/* [..] or {..} as it is written, perhaps over several lines. */
static luo_status read_nested(toml *t, const char **value)
{
    const char *from = t->at;
    int deep = 0;
    for (; t->at < t->end; t->at++) {
        if (*t->at == '\n') {
            t->line++;
            t->line_start = t->at + 1;
        }
        deep += (*t->at == '[' || *t->at == '{') - (*t->at == ']' || *t->at == '}');
        if (deep == 0) break;
    }
    if (t->at == t->end) return wrong(t, "a bracket is not closed");
    t->at++;
    *value = luo_arena_strndup(t->flags->job->arena, from, (size_t)(t->at - from));
    return *value ? LUO_OK : convert_nomem(t->flags->job);
}

/* A number, a boolean or a date: without the `_` between digits. */
static luo_status read_plain(toml *t, const char **value)
{
    luo_str text = {0};
    while (t->at < t->end && !strchr(" \t\r\n#", *t->at)) {
        const bool between =
            *t->at == '_' && t->at + 1 < t->end && isdigit((unsigned char)t->at[1]);
        if (!between) luo_str_addc(&text, *t->at);
        t->at++;
    }
    *value = text.failed ? NULL : luo_arena_strdup(t->flags->job->arena, luo_str_get(&text));
    luo_str_free(&text);
    return *value ? LUO_OK : convert_nomem(t->flags->job);
}

static luo_status read_value(toml *t, const char **value)
{
    blanks(t);
    if (t->at == t->end || *t->at == '\n' || *t->at == '#') return wrong(t, "a value is missing");
    if (*t->at == '"' || *t->at == '\'') return read_text(t, value);
    if (*t->at == '[' || *t->at == '{') return read_nested(t, value);
    return read_plain(t, value);
}

static luo_status read_key(toml *t)
{
    luo_str name = {0};
    const char *value;
    const int line = t->line, col = column(t);
    const char *from = t->at;
    while (t->at < t->end && (isalnum((unsigned char)*t->at) || strchr("_-.\"", *t->at))) t->at++;
    const size_t n = (size_t)(t->at - from);
    blanks(t);
    if (n == 0 || t->at == t->end || *t->at != '=') return wrong(t, "this is no key with a value");
    t->at++;
    LUO_TRY(read_value(t, &value));
    if (t->section[0]) luo_str_addf(&name, "%s.", t->section);
    luo_str_addn(&name, from, n);
    const luo_status st =
        name.failed ? convert_nomem(t->flags->job)
                    : convert_flags_put(t->flags, luo_str_get(&name), name.len, value, line, col);
    luo_str_free(&name);
    return st;
}

luo_status convert_flags_toml(convert_flags *flags)
{
    const luo_source *src = &flags->job->src;
    toml t = {.flags = flags,
              .at = src->text,
              .end = src->text + src->len,
              .line_start = src->text,
              .line = 1};
    for (; t.at < t.end; next_line(&t)) {
        blanks(&t);
        if (t.at == t.end || *t.at == '\n' || *t.at == '#') continue;
        LUO_TRY(*t.at == '[' ? read_section(&t) : read_key(&t));
        if (t.at < t.end && *t.at == ']') continue;
        blanks(&t);
        if (t.at < t.end && *t.at != '\n' && *t.at != '#')
            return wrong(&t, "something stands behind the value");
    }
    return LUO_OK;
}
