/* json_tree.c: JSON as RFC 8259 has it, into a tree with positions. libyaml reads most of JSON, but
 * not escapes of two halves (\ud83d\ude00), tabs between values and keys above 1,024 characters,
 * and it takes what is none. */
#include <stdio.h>
#include <string.h>

#include "core/base/utf8.h"
#include "core/io/document/tree_internal.h"

typedef struct scan {
    luo_tree *tree;
    const char *at, *end;
    const char *counted; /* line and col are those of this character */
    int line, col;
} scan;

/* Every character is counted once, so that one long line costs no more than many. */
static void place(scan *s)
{
    for (; s->counted < s->at; s->counted++) {
        if (*s->counted == '\n') {
            s->line++;
            s->col = 1;
        } else if (((unsigned char)*s->counted & 0xc0) != 0x80) {
            s->col++;
        }
    }
}

static bool in(const char *set, char c)
{
    return c && strchr(set, c);
}

/* What stands here, in few characters, for a message. */
static void show(const scan *s, char *buf, size_t size)
{
    const char *p = s->at;
    if (p == s->end) {
        snprintf(buf, size, "end of file");
        return;
    }
    if (*p == '"')
        for (p++; p < s->end && *p != '"' && *p != '\n'; p++)
            if (*p == '\\' && p + 1 < s->end) p++;
    if (p < s->end && in("\"{}[],:", *p)) p++;
    else while (p < s->end && !in(" \t\r\n{}[],:\"", *p)) p++;
    if (p == s->at) p++;
    snprintf(buf, size, "`%.*s`", (int)(p - s->at > 60 ? 60 : p - s->at), s->at);
}

static void broken(scan *s, const char *what)
{
    char here[80];
    if (s->tree->broken) return;
    place(s);
    show(s, here, sizeof here);
    luo_tree_break(s->tree, s->line, s->col, "%s near %s; one JSON document is expected.", what,
                   here);
}

static char peek(scan *s)
{
    while (s->at < s->end && in(" \t\r\n", *s->at)) s->at++;
    return s->at < s->end ? *s->at : 0;
}

/* ---- strings ---- */

static int hex4(const scan *s, const char *p)
{
    int v = 0;
    if (s->end - p < 4) return -1;
    for (int i = 0; i < 4; i++) {
        const char *digits = "0123456789abcdef", *d = p[i] ? strchr(digits, p[i] | 0x20) : NULL;
        if (!d || (p[i] < '0' || (p[i] > '9' && p[i] < 'A'))) return -1;
        v = 16 * v + (int)(d - digits);
    }
    return v;
}

/* The character of \uXXXX, or of two of them that are halves; -1: none, or the 0 character, which
 * no text of ours can hold. *p: the first digit; it is moved behind the last. */
static int escaped(const scan *s, const char **p)
{
    const int high = hex4(s, *p);
    if (high <= 0) return -1;
    *p += 4;
    if (high < 0xd800 || high > 0xdfff) return high;
    if (high > 0xdbff || s->end - *p < 6 || (*p)[0] != '\\' || (*p)[1] != 'u') return -1;
    const int low = hex4(s, *p + 2);
    *p += 6;
    return low >= 0xdc00 && low <= 0xdfff ? 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00) : -1;
}

static char *put_utf8(char *to, int c)
{
    const int extra = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const int lead[] = {0, 0xc0, 0xe0, 0xf0};
    *to++ = (char)(lead[extra] | c >> 6 * extra);
    for (int k = extra - 1; k >= 0; k--) *to++ = (char)(0x80 | (c >> 6 * k & 0x3f));
    return to;
}

/* The string at s->at without quotes and escapes, in the arena; NULL: an error. An escape is never
 * shorter than what it stands for. */
static const char *string(scan *s)
{
    static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    const char *p = s->at + 1, *close = p;
    while (close < s->end && *close != '"') close += *close == '\\' && close + 1 < s->end ? 2 : 1;
    char *text = luo_arena_alloc(s->tree->doc->arena, (size_t)(close - p) + 1), *to = text;
    if (!text) luo_tree_nomem(s->tree);
    while (text && p < s->end && *p != '"') {
        const char *from = p;
        if ((unsigned char)*p < 0x20) {
            s->at = from;
            broken(s, "a string holds a control character");
            return NULL;
        }
        if (*p++ != '\\') {
            *to++ = *from;
            continue;
        }
        const char *letter = p < s->end && *p ? strchr(letters, *p) : NULL;
        if (letter) {
            *to++ = meant[letter - letters];
            p++;
            continue;
        }
        const int c = p < s->end && *p == 'u' ? (p++, escaped(s, &p)) : -1;
        if (c < 0) {
            s->at = from;
            broken(s, "invalid escape");
            return NULL;
        }
        to = put_utf8(to, c);
    }
    if (text && p >= s->end) {
        broken(s, "a string does not end");
        return NULL;
    }
    if (text) *to = 0;
    s->at = p + 1;
    return text;
}

/* ---- values ---- */

/* A number, true, false or null; in the tree they stand as they are written. */
static void word(scan *s)
{
    static const char *const words[] = {"true", "false", "null"};
    const char *from = s->at, *p = from;
    while (p < s->end && !in(" \t\r\n{}[],:\"", *p)) p++;
    const size_t n = (size_t)(p - from);
    bool good = luo_number_form(from, n, false);
    for (int i = 0; i < 3; i++)
        good = good || (strlen(words[i]) == n && memcmp(words[i], from, n) == 0);
    if (!good) {
        broken(s, n ? "invalid token" : "unexpected token");
        return;
    }
    const char *text = luo_arena_strndup(s->tree->doc->arena, from, n);
    if (!text) luo_tree_nomem(s->tree);
    else luo_tree_scalar(s->tree, text, false, s->line, s->col);
    s->at = p;
}

/* A value, or what opens one. */
static void value(scan *s)
{
    const char c = peek(s);
    place(s);
    if (c == '{' || c == '[') {
        luo_tree_open(s->tree, c == '{' ? LUO_DOC_MAP : LUO_DOC_LIST, s->line, s->col);
        s->at++;
    } else if (c == '"') {
        const int line = s->line, col = s->col;
        const char *text = string(s);
        if (text) luo_tree_scalar(s->tree, text, true, line, col);
    } else {
        word(s);
    }
}

static void key(scan *s)
{
    if (peek(s) != '"') {
        broken(s, "a key in quotes, or `}`, expected");
        return;
    }
    place(s);
    const int line = s->line, col = s->col;
    const char *text = string(s);
    if (!text) return;
    luo_tree_key(s->tree, text, line, col);
    if (peek(s) == ':') s->at++;
    else broken(s, "`:` expected");
}

/* After a value: what closes the open maps and lists, and the comma that asks for one more. */
static void after(scan *s)
{
    luo_tree *t = s->tree;
    while (t->open && !t->broken) {
        const bool map = t->open->type == LUO_DOC_MAP;
        const char c = peek(s);
        if (c == ',') {
            s->at++;
            return;
        }
        if (c != (map ? '}' : ']')) {
            broken(s, map ? "`}` expected" : "`]` expected");
            return;
        }
        s->at++;
        luo_tree_close(t);
    }
}

/* Inside an empty `{` or `[`, which may close at once. */
static bool closes(scan *s)
{
    const luo_doc_node *open = s->tree->open;
    return open && open->n == 0 && !s->tree->key &&
           peek(s) == (open->type == LUO_DOC_MAP ? '}' : ']');
}

void luo_tree_json(luo_tree *t, const char *text, size_t len)
{
    scan s = {t, text, text + len, text, 1, 1};
    do {
        if (luo_tree_wants_key(t)) key(&s);
        if (t->broken) return;
        const luo_doc_node *before = t->open;
        value(&s);
        if (t->broken) return;
        if (t->open == before || closes(&s)) after(&s);
    } while (t->open && !t->broken);
    if (!t->broken && peek(&s)) broken(&s, "end of file expected");
}
