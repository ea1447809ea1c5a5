/* program_scan.c */
#include "tests/parked/program_scan.h"

#include <stdio.h>
#include <string.h>

luo_status luo_scan_wrong(scanner *r, const char *what)
{
    const luo_status st = luo_err_set(r->err, LUO_EPARSE, "program text: expected %s.", what);
    return luo_err_at(r->err, st, "", r->number, (int)(r->at - r->line) + 1);
}

void luo_scan_skip_blanks(scanner *r)
{
    while (*r->at == ' ') r->at++;
}

bool luo_scan_at_end(scanner *r)
{
    luo_scan_skip_blanks(r);
    return *r->at == 0 || *r->at == '\n' || *r->at == '#';
}

luo_status luo_scan_end_line(scanner *r)
{
    if (!luo_scan_at_end(r)) return luo_scan_wrong(r, "the end of the line");
    for (;;) { /* comments and empty lines as well */
        while (*r->at && *r->at != '\n') r->at++;
        if (!*r->at) return LUO_OK;
        r->line = ++r->at;
        r->number++;
        if (!luo_scan_at_end(r) || !*r->at) return LUO_OK;
    }
}

size_t luo_scan_word_length(const scanner *r)
{
    size_t n = 0;
    while (r->at[n] && r->at[n] != ' ' && r->at[n] != '\n') n++;
    return n;
}

/* True, and past it, if the next word is `word`. */
bool luo_scan_accept(scanner *r, const char *word)
{
    luo_scan_skip_blanks(r);
    const size_t n = luo_scan_word_length(r);
    if (strlen(word) != n || memcmp(r->at, word, n) != 0) return false;
    r->at += n;
    return true;
}

luo_status luo_scan_need(scanner *r, const char *word)
{
    if (luo_scan_accept(r, word)) return LUO_OK;
    char text[64];
    snprintf(text, sizeof text, "`%s`", word);
    return luo_scan_wrong(r, text);
}

luo_status luo_scan_integer(scanner *r, int64_t lo, int64_t hi, int64_t *out)
{
    const bool minus = *r->at == '-';
    const char *p = r->at + minus;
    int64_t v = 0;
    if (*p < '0' || *p > '9' || (minus && lo >= 0)) return luo_scan_wrong(r, "a number");
    for (; *p >= '0' && *p <= '9'; p++) {
        if (v > (INT64_MAX - 9) / 10) return luo_scan_wrong(r, "a smaller number");
        v = 10 * v + (*p - '0');
    }
    if (minus) v = -v;
    if (v < lo || v > hi) return luo_scan_wrong(r, "a number in range");
    r->at = p;
    *out = v;
    return LUO_OK;
}

luo_status luo_scan_number64(scanner *r, int64_t *out)
{
    luo_scan_skip_blanks(r);
    return luo_scan_integer(r, 0, INT64_MAX, out);
}

/* A 32-bit number >= lo, alone in its word. */
luo_status luo_scan_number32(scanner *r, int32_t lo, int32_t *out)
{
    int64_t v;
    luo_scan_skip_blanks(r);
    LUO_TRY(luo_scan_integer(r, lo, INT32_MAX, &v));
    *out = (int32_t)v;
    return LUO_OK;
}

luo_status luo_scan_field32(scanner *r, const char *name, int32_t *out)
{
    LUO_TRY(luo_scan_need(r, name));
    return luo_scan_number32(r, 0, out);
}

/* A count of things that each take at least two bytes of text. */
luo_status luo_scan_count(scanner *r, const char *name, int32_t *out)
{
    LUO_TRY(luo_scan_field32(r, name, out));
    return *out <= r->end - r->at ? LUO_OK : luo_scan_wrong(r, "a count that the text can hold");
}

luo_status luo_scan_identity(scanner *r, const char *name, int32_t id)
{
    int32_t v;
    LUO_TRY(luo_scan_field32(r, name, &v));
    return v == id ? LUO_OK : luo_scan_wrong(r, "ids that count up from 0");
}

luo_status luo_scan_choice(scanner *r, const char *const *names, int32_t n, int32_t *out)
{
    for (int32_t i = 0; i < n; i++)
        if (luo_scan_accept(r, names[i])) {
            *out = i;
            return LUO_OK;
        }
    char text[160];
    size_t used = 0;
    for (int32_t i = 0; i < n && used < sizeof text - 1; i++) {
        const int w = snprintf(text + used, sizeof text - used, "%s%s", i ? " or " : "", names[i]);
        used += w > 0 ? (size_t)w : 0;
    }
    return luo_scan_wrong(r, text);
}

luo_status luo_scan_name(scanner *r, const char **out)
{
    luo_scan_skip_blanks(r);
    const size_t n = luo_scan_word_length(r);
    if (n == 0) return luo_scan_wrong(r, "a name");
    *out = luo_arena_strndup(r->arena, r->at, n);
    r->at += n;
    return *out ? LUO_OK : luo_err_nomem(r->err);
}

/* "1,2,3" as 64-bit numbers. */
luo_status luo_scan_list64(scanner *r, const int64_t **out, int32_t *n)
{
    luo_scan_skip_blanks(r);
    int32_t len = 1;
    for (const char *p = r->at; *p && *p != ' ' && *p != '\n'; p++) len += *p == ',';
    int64_t *at = LUO_NEW_N(r->arena, int64_t, len);
    if (!at) return luo_err_nomem(r->err);
    for (int32_t i = 0; i < len; i++) {
        if (i > 0 && *r->at++ != ',') return luo_scan_wrong(r, "`,`");
        LUO_TRY(luo_scan_integer(r, 0, INT64_MAX, &at[i]));
    }
    *out = at;
    *n = len;
    return LUO_OK;
}

static luo_status scan_run(scanner *r, int64_t *value, int64_t *times)
{
    LUO_TRY(luo_scan_integer(r, 0, INT64_MAX, value));
    *times = 1;
    if (*r->at != 'x') return LUO_OK;
    r->at++;
    return luo_scan_integer(r, 1, INT32_MAX, times);
}

luo_status luo_scan_runs64(scanner *r, int32_t most, const int64_t **out, int32_t *n)
{
    int64_t value, times, sum = 0;
    luo_scan_skip_blanks(r);
    const char *begin = r->at;
    do {
        LUO_TRY(scan_run(r, &value, &times));
        sum += times;
        if (sum > most) return luo_scan_wrong(r, "fewer numbers");
    } while (*r->at == ',' && r->at++);
    int64_t *at = LUO_NEW_N(r->arena, int64_t, sum);
    if (!at) return luo_err_nomem(r->err);
    *n = 0;
    for (r->at = begin; *n < sum; r->at += *r->at == ',') {
        LUO_TRY(scan_run(r, &value, &times));
        for (; times > 0; times--) at[(*n)++] = value;
    }
    *out = at;
    return LUO_OK;
}

luo_status luo_scan_list32(scanner *r, const int32_t **out, int32_t *n)
{
    const int64_t *wide;
    LUO_TRY(luo_scan_list64(r, &wide, n));
    int32_t *at = LUO_NEW_N(r->arena, int32_t, *n);
    if (!at) return luo_err_nomem(r->err);
    for (int32_t i = 0; i < *n; i++) {
        if (wide[i] > INT32_MAX) return luo_scan_wrong(r, "a smaller number");
        at[i] = (int32_t)wide[i];
    }
    *out = at;
    return LUO_OK;
}
