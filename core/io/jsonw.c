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

void luo_json_quote(luo_str *out, const char *s)
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
static void lead(luo_jsonw *w, const char *key)
{
    if (w->depth == 0) return;
    const int at = w->depth - 1;
    const bool inline_ = w->depth > 2;
    if (w->filled[at]) luo_str_add(w->out, inline_ ? ", " : ",");
    if (!inline_) {
        luo_str_addc(w->out, '\n');
        for (int i = 0; i < w->depth; i++) luo_str_add(w->out, "  ");
    }
    w->filled[at] = true;
    assert((w->kind[at] == '{') == (key != NULL));
    if (!key) return;
    luo_json_quote(w->out, key);
    luo_str_add(w->out, ": ");
}

void luo_jsonw_open(luo_jsonw *w, const char *key, char kind)
{
    assert(w->depth < (int)sizeof w->kind);
    lead(w, key);
    luo_str_addc(w->out, kind);
    w->kind[w->depth] = kind;
    w->filled[w->depth++] = false;
}

void luo_jsonw_close(luo_jsonw *w)
{
    assert(w->depth > 0);
    const int at = --w->depth;
    if (at < 2 && w->filled[at]) {
        luo_str_addc(w->out, '\n');
        for (int i = 0; i < at; i++) luo_str_add(w->out, "  ");
    }
    luo_str_addc(w->out, w->kind[at] == '{' ? '}' : ']');
    if (at == 0) luo_str_addc(w->out, '\n');
}

void luo_jsonw_text(luo_jsonw *w, const char *key, const char *v)
{
    lead(w, key);
    if (v) luo_json_quote(w->out, v);
    else luo_str_add(w->out, "null");
}

void luo_jsonw_word(luo_jsonw *w, const char *key, const char *v)
{
    lead(w, key);
    luo_str_add(w->out, v);
}

void luo_jsonw_int(luo_jsonw *w, const char *key, int64_t v)
{
    lead(w, key);
    luo_str_addi(w->out, v);
}

void luo_jsonw_seed(luo_jsonw *w, const char *key, uint64_t v)
{
    lead(w, key);
    luo_str_addf(w->out, v > INT64_MAX ? "\"%llu\"" : "%llu", (unsigned long long)v);
}

void luo_jsonw_num(luo_jsonw *w, const char *key, double v, int decimals)
{
    lead(w, key);
    if (isfinite(v)) luo_print_fixed(w->out, v, decimals);
    else luo_str_add(w->out, "null");
}

void luo_jsonw_hash(luo_jsonw *w, const char *key, uint64_t v)
{
    char buf[17];
    luo_jsonw_text(w, key, luo_hash_print(v, buf));
}

void luo_jsonw_bool(luo_jsonw *w, const char *key, bool v)
{
    lead(w, key);
    luo_str_add(w->out, v ? "true" : "false");
}
