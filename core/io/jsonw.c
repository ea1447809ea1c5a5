#include "core/io/jsonw.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/utf8.h"
#include "core/io/result/table.h"

luo_jsonw luo_jsonw_start(luo_str *out)
{
    return (luo_jsonw){.out = out};
}

void luo_jsonw_quote(luo_str *out, const char *s)
{
    const size_t n = strlen(s);
    luo_str_addc(out, '"');
    for (size_t i = 0, k; i < n; i += k ? k : 1) {
        const unsigned char c = (unsigned char)s[i];
        k = luo_utf8_sequence(s + i, n - i);
        if (c == '"' || c == '\\')
            luo_str_addf(out, "\\%c", c);
        else if (c == '\n')
            luo_str_add(out, "\\n");
        else if (c < 0x20 || c == 0x7f)
            luo_str_addf(out, "\\u%04x", c);
        else if (k)
            luo_str_addn(out, s + i, k);
        else
            luo_str_add(out, LUO_UTF8_BAD); /* names of files may hold any bytes */
    }
    luo_str_addc(out, '"');
}

/* Comma, line and key in front of a value. Lists of the second level and deeper stay on a line. */
static void lead(luo_jsonw *json, const char *key)
{
    if (json->depth == 0) return;
    const int at = json->depth - 1;
    const bool inline_ = json->depth > 2;
    if (json->filled[at]) luo_str_add(json->out, inline_ ? ", " : ",");
    if (!inline_) {
        luo_str_addc(json->out, '\n');
        for (int i = 0; i < json->depth; i++) luo_str_add(json->out, "  ");
    }
    json->filled[at] = true;
    assert((json->kind[at] == '{') == (key != NULL));
    if (!key) return;
    luo_jsonw_quote(json->out, key);
    luo_str_add(json->out, ": ");
}

void luo_jsonw_open(luo_jsonw *json, const char *key, char kind)
{
    assert(json->depth < (int)sizeof json->kind);
    lead(json, key);
    luo_str_addc(json->out, kind);
    json->kind[json->depth] = kind;
    json->filled[json->depth++] = false;
}

void luo_jsonw_close(luo_jsonw *json)
{
    assert(json->depth > 0);
    const int at = --json->depth;
    if (at < 2 && json->filled[at]) {
        luo_str_addc(json->out, '\n');
        for (int i = 0; i < at; i++) luo_str_add(json->out, "  ");
    }
    luo_str_addc(json->out, json->kind[at] == '{' ? '}' : ']');
    if (at == 0) luo_str_addc(json->out, '\n');
}

void luo_jsonw_text(luo_jsonw *json, const char *key, const char *v)
{
    lead(json, key);
    if (v)
        luo_jsonw_quote(json->out, v);
    else
        luo_str_add(json->out, "null");
}

void luo_jsonw_word(luo_jsonw *json, const char *key, const char *v)
{
    lead(json, key);
    luo_str_add(json->out, v);
}

void luo_jsonw_int(luo_jsonw *json, const char *key, int64_t v)
{
    lead(json, key);
    luo_str_addi(json->out, v);
}

void luo_jsonw_seed(luo_jsonw *json, const char *key, uint64_t v)
{
    lead(json, key);
    luo_str_addf(json->out, v > INT64_MAX ? "\"%llu\"" : "%llu", (unsigned long long)v);
}

void luo_jsonw_num(luo_jsonw *json, const char *key, double v, int decimals)
{
    lead(json, key);
    if (isfinite(v))
        luo_table_print_fixed(json->out, v, decimals);
    else
        luo_str_add(json->out, "null");
}

void luo_jsonw_hash(luo_jsonw *json, const char *key, uint64_t v)
{
    char buf[17];
    luo_jsonw_text(json, key, luo_hash_print(v, buf));
}

void luo_jsonw_bool(luo_jsonw *json, const char *key, bool v)
{
    lead(json, key);
    luo_str_add(json->out, v ? "true" : "false");
}
