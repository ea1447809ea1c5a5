#include "cli/options/spec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/words.h"

static luo_status malformed(const luo_spec *spec, const char *text, luo_err *err)
{
    return luo_err_set(err, LUO_EUSAGE, "`--%s` is `%s`; %s is expected.", spec->option, text,
                       spec->form);
}

/* Index of the part that stands at *at, which moves behind its `=`; nparts: it is none. */
static int part_at(const luo_spec *spec, const char **at)
{
    for (int i = 0; i < spec->nparts; i++) {
        const size_t n = strlen(spec->parts[i].name);
        if (strncmp(*at, spec->parts[i].name, n) != 0 || (*at)[n] != '=') continue;
        *at += n + 1;
        return i;
    }
    return spec->nparts;
}

static luo_status read_number(const luo_spec *spec, const char *text, const luo_spec_part *part,
                              const char **at, double *out, luo_err *err)
{
    char *end;
    const double v = strtod(*at, &end);
    if (end == *at || !(v >= part->least && v <= part->most) || (part->whole && v != floor(v)))
        return luo_err_set(err, LUO_EUSAGE, "`--%s` is `%s`; its %s is a %snumber from %g to %g.",
                           spec->option, text, part->name, part->whole ? "whole " : "", part->least,
                           part->most);
    *out = v;
    *at = end;
    return LUO_OK;
}

static luo_status read_word(const luo_spec *spec, const char *text, const luo_spec_part *part,
                            const char **at, double *out, luo_err *err)
{
    const size_t n = strcspn(*at, ",");
    int words = 0;
    for (; part->words[words]; words++)
        if (strlen(part->words[words]) == n && strncmp(*at, part->words[words], n) == 0) {
            *out = words;
            *at += n;
            return LUO_OK;
        }
    luo_str choices = {0};
    luo_words_choices(&choices, part->words, words);
    const luo_status st = luo_err_set(err, LUO_EUSAGE, "`--%s` is `%s`; its %s is %s.",
                                      spec->option, text, part->name, luo_str_get(&choices));
    luo_str_free(&choices);
    return st;
}

static void set_defaults(const luo_spec *spec, double *v, bool *given)
{
    for (int i = 0; i < spec->nparts; i++) {
        v[i] = spec->parts[i].otherwise;
        given[i] = false;
    }
}

luo_status luo_spec_read(const luo_spec *spec, const char *text, const char *at, double *v,
                         bool *given, luo_err *err)
{
    set_defaults(spec, v, given);
    for (;; at++) {
        const int i = part_at(spec, &at);
        if (i == spec->nparts || given[i]) return malformed(spec, text, err);
        const luo_spec_part *part = &spec->parts[i];
        LUO_TRY(part->words ? read_word(spec, text, part, &at, &v[i], err)
                            : read_number(spec, text, part, &at, &v[i], err));
        given[i] = true;
        if (!*at) return LUO_OK;
        if (*at != ',') return malformed(spec, text, err);
    }
}

luo_status luo_spec_read_behind(const luo_spec *spec, const char *word, const char *text, double *v,
                                bool *given, luo_err *err)
{
    const size_t n = strlen(word);
    if (strncmp(text, word, n) != 0 || (text[n] && text[n] != ':'))
        return malformed(spec, text, err);
    if (text[n]) return luo_spec_read(spec, text, text + n + 1, v, given, err);
    set_defaults(spec, v, given);
    return LUO_OK;
}

static int text_part_at(const luo_text_part *parts, int n, const char *at, size_t length)
{
    for (int i = 0; i < n; i++) {
        const size_t name = strlen(parts[i].name);
        if (length > name + 1 && strncmp(at, parts[i].name, name) == 0 && at[name] == '=') return i;
    }
    return -1;
}

luo_status luo_spec_texts(luo_arena *arena, const char *option, const char *form, const char *text,
                          const luo_text_part *parts, int n, const char **first,
                          const char **values, luo_err *err)
{
    const luo_spec whole = {.option = option, .form = form};
    if (first) *first = NULL;
    for (int i = 0; i < n; i++) values[i] = NULL;
    for (const char *at = text;; at++) {
        const size_t length = strcspn(at, ",");
        const int i = text_part_at(parts, n, at, length);
        const bool bare = i < 0 && first && at == text && !memchr(at, '=', length);
        if (length == 0 || (i < 0 && !bare) || (i >= 0 && values[i] && !parts[i].many))
            return malformed(&whole, text, err);
        const size_t name = bare ? 0 : strlen(parts[i].name) + 1;
        const char *value = luo_arena_strndup(arena, at + name, length - name);
        if (value && !bare && values[i])
            value = luo_arena_printf(arena, "%s,%s", values[i], value);
        if (!value) return luo_err_nomem(err);
        *(bare ? first : &values[i]) = value;
        at += length;
        if (!*at) return LUO_OK;
    }
}
