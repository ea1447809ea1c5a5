#include "core/io/document/json.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t bom(const luo_source *src)
{
    return src->len >= 3 && memcmp(src->text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

static luo_status note_status(luo_json *j, luo_status st)
{
    if (j->st == LUO_OK) j->st = st;
    return st;
}

luo_status luo_json_nomem(luo_json *j)
{
    luo_diags_add(j->diags, LUO_ERROR, LUO_ENOMEM, j->src->name, 0, 0,
                  "this process is out of memory; free some or use less.");
    return note_status(j, LUO_ENOMEM);
}

/* jansson names the token in straight quotes: "unexpected token near 'x'". */
static void load_error(luo_json *j, const json_error_t *e)
{
    char text[JSON_ERROR_TEXT_LENGTH];
    snprintf(text, sizeof text, "%s", e->text);
    for (char *p = text; *p; p++) {
        if (*p == '\'') *p = '`';
        if (*p == '\n' || *p == '\r' || *p == '\t') *p = ' ';
    }
    const bool twice = json_error_code(e) == json_error_duplicate_key;
    luo_diags_add(j->diags, LUO_ERROR, LUO_EPARSE, j->src->name, e->line > 0 ? e->line : 1,
                  e->column > 0 ? e->column : 1, "%s; %s.", text,
                  twice ? "each key is given once" : "one JSON document is expected");
    note_status(j, LUO_EPARSE);
}

json_t *luo_json_load(luo_json *j)
{
    json_error_t e;
    const size_t skip = bom(j->src);
    json_t *root = json_loadb(j->src->text + skip, j->src->len - skip,
                              JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e);
    if (!root && json_error_code(&e) == json_error_out_of_memory)
        luo_json_nomem(j);
    else if (!root)
        load_error(j, &e);
    return root;
}

/* ---- places ---- */

static void pointer_of(luo_str *s, const luo_json_at *at)
{
    if (!at->up) return;
    pointer_of(s, at->up);
    luo_str_addc(s, '/');
    if (!at->key) luo_str_addi(s, (int64_t)at->index);
    for (const char *p = at->key; p && *p; p++) {
        if (*p == '~')
            luo_str_add(s, "~0");
        else if (*p == '/')
            luo_str_add(s, "~1");
        else
            luo_str_addc(s, *p);
    }
}

luo_status luo_json_error(luo_json *j, const luo_json_at *at, bool at_key, const char *fmt, ...)
{
    char text[LUO_ERR_TEXT];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    luo_str pointer = {0};
    int line = 0, col = 0;
    if (!luo_diags_full(j->diags, j->src->name)) { /* those above it are counted, not kept */
        pointer_of(&pointer, at);
        luo_json_where(j->src->text, j->src->len, luo_str_get(&pointer), at_key, &line, &col);
    }
    luo_str_free(&pointer);
    luo_diags_add(j->diags, LUO_ERROR, LUO_EINPUT, j->src->name, line, col, "%s", text);
    return note_status(j, LUO_EINPUT);
}

luo_json_at luo_json_in(const luo_json_at *up, const char *key)
{
    return (luo_json_at){up, key, 0, json_object_get(up->v, key)};
}

luo_json_at luo_json_nth(const luo_json_at *up, size_t index)
{
    return (luo_json_at){up, NULL, index, json_array_get(up->v, index)};
}

/* The value in few characters, for a message. */
static void show(const json_t *v, char *buf, size_t size)
{
    char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    snprintf(buf, size, "%.60s%s", text ? text : "?", text && strlen(text) > 60 ? ".." : "");
    free(text);
}

static void wrong(luo_json *j, const luo_json_at *at, const char *expected)
{
    char what[80];
    show(at->v, what, sizeof what);
    if (at->key)
        luo_json_error(j, at, false, "`%s` is `%s`; %s is expected.", at->key, what, expected);
    else if (at->up && at->up->key)
        luo_json_error(j, at, false, "`%s` in `%s`; %s is expected.", what, at->up->key, expected);
    else
        luo_json_error(j, at, false, "`%s` stands here; %s is expected.", what, expected);
}

/* ---- objects ---- */

static void unknown(luo_json *j, const luo_json_at *at, const char *name, const luo_json_key *keys,
                    int n, bool *excused)
{
    const char *names[64];
    int meant;
    for (int i = 0; i < n && i < 64; i++) names[i] = keys[i].name;
    luo_str s = {0};
    luo_say_unknown(&s, name, names, n < 64 ? n : 64, &meant);
    const luo_json_at place = {at, name, 0, NULL};
    luo_json_error(j, &place, true, "unknown key `%.80s`; %s", name, luo_str_get(&s));
    luo_str_free(&s);
    if (meant >= 0) excused[meant] = true;
}

bool luo_json_keys(luo_json *j, const luo_json_at *at, const luo_json_key *keys, int n)
{
    bool excused[64] = {false}; /* a misspelt key is one error, not two */
    const char *name;
    json_t *v;
    bool good = true;
    if (!json_is_object(at->v)) {
        wrong(j, at, "an object");
        return false;
    }
    json_object_foreach(at->v, name, v)
    {
        int i = 0;
        while (i < n && strcmp(keys[i].name, name) != 0) i++;
        if (i < n) continue;
        unknown(j, at, name, keys, n, excused);
        good = false;
    }
    for (int i = 0; i < n; i++)
        if (keys[i].required && !excused[i] && !json_object_get(at->v, keys[i].name)) {
            luo_json_error(j, at, false, "key `%s` is missing.", keys[i].name);
            good = false;
        }
    return good;
}

bool luo_json_schema(luo_json *j, const luo_json_at *root, const char *kind)
{
    const luo_json_at at = luo_json_in(root, "schema");
    char want[64], what[80];
    snprintf(want, sizeof want, "luoshu.%s/1", kind);
    if (!json_is_object(root->v)) {
        luo_json_error(j, root, false,
                       "the file holds no object; one with `schema` `%s` is "
                       "expected.",
                       want);
        return false;
    }
    if (json_is_string(at.v) && strcmp(json_string_value(at.v), want) == 0) return true;
    if (!at.v) {
        luo_json_error(j, root, false, "key `schema` is missing; `%s` is expected.", want);
        return false;
    }
    show(at.v, what, sizeof what);
    luo_json_error(j, &at, false, "`schema` is `%.60s`; `%s` is expected.",
                   json_is_string(at.v) ? json_string_value(at.v) : what, want);
    return false;
}

/* ---- values ---- */

static int64_t whole(luo_json *j, const luo_json_at *at, double lo, double hi)
{
    const luo_limit limit = LUO_WITHIN(lo, hi);
    char expected[80];
    if (json_is_integer(at->v) && luo_limit_holds(&limit, (double)json_integer_value(at->v)))
        return json_integer_value(at->v);
    wrong(j, at, luo_limit_say(&limit, true, json_number_value(at->v), expected, sizeof expected));
    return (int64_t)lo;
}

int64_t luo_json_int(luo_json *j, const luo_json_at *up, const char *key, double lo, double hi,
                     int64_t otherwise)
{
    const luo_json_at at = luo_json_in(up, key);
    return at.v ? whole(j, &at, lo, hi) : otherwise;
}

int64_t luo_json_item_int(luo_json *j, const luo_json_at *at, double lo, double hi)
{
    return whole(j, at, lo, hi);
}

static double number(luo_json *j, const luo_json_at *at, const luo_limit *limit)
{
    const double v = json_number_value(at->v);
    char expected[80];
    if (json_is_number(at->v) && luo_limit_holds(limit, v)) return v;
    wrong(j, at, luo_limit_say(limit, false, v, expected, sizeof expected));
    return limit->lo;
}

double luo_json_num(luo_json *j, const luo_json_at *up, const char *key, const luo_limit *limit,
                    double otherwise)
{
    const luo_json_at at = luo_json_in(up, key);
    return at.v ? number(j, &at, limit) : otherwise;
}

bool luo_json_bool(luo_json *j, const luo_json_at *up, const char *key, bool otherwise)
{
    const luo_json_at at = luo_json_in(up, key);
    if (!at.v) return otherwise;
    if (!json_is_boolean(at.v)) wrong(j, &at, "`true` or `false`");
    return json_is_true(at.v);
}

const char *luo_json_text(luo_json *j, const luo_json_at *up, const char *key,
                          const char *otherwise)
{
    const luo_json_at at = luo_json_in(up, key);
    if (!at.v) return otherwise;
    if (!json_is_string(at.v)) {
        wrong(j, &at, "a text");
        return otherwise;
    }
    const char *copy = luo_arena_strdup(j->arena, json_string_value(at.v));
    if (!copy) luo_json_nomem(j);
    return copy ? copy : otherwise;
}

int luo_json_word(luo_json *j, const luo_json_at *up, const char *key, const char *const *words,
                  int n, int otherwise)
{
    const luo_json_at at = luo_json_in(up, key);
    if (!at.v) return otherwise;
    for (int i = 0; json_is_string(at.v) && i < n; i++)
        if (strcmp(words[i], json_string_value(at.v)) == 0) return i;
    luo_str s = {0};
    if (json_is_string(at.v)) {
        luo_say_expected(&s, json_string_value(at.v), words, n);
        luo_json_error(j, &at, false, "`%s` is `%.60s`; %s", key, json_string_value(at.v),
                       luo_str_get(&s));
    } else {
        luo_say_choices(&s, words, n);
        wrong(j, &at, luo_str_get(&s));
    }
    luo_str_free(&s);
    return otherwise;
}

luo_json_at luo_json_list(luo_json *j, const luo_json_at *up, const char *key, size_t least,
                          size_t *n)
{
    luo_json_at at = luo_json_in(up, key);
    *n = 0;
    if (!at.v) return at;
    if (!json_is_array(at.v)) {
        wrong(j, &at, "a list");
        at.v = NULL;
        return at;
    }
    *n = json_array_size(at.v);
    if (*n < least)
        luo_json_error(j, &at, false, "`%s` is empty; at least %zu is expected.", key, least);
    return at;
}

int32_t *luo_json_ids(luo_json *j, const luo_json_at *list, double lo, double hi, int32_t *n)
{
    const size_t count = json_array_size(list->v);
    int32_t *v = LUO_NEW_N(j->arena, int32_t, count);
    *n = v ? (int32_t)count : 0;
    if (!v) luo_json_nomem(j);
    for (int32_t i = 0; i < *n; i++) {
        const luo_json_at at = luo_json_nth(list, (size_t)i);
        v[i] = (int32_t)whole(j, &at, lo, hi);
    }
    return v;
}
