/* json_tree.c: JSON as RFC 8259 has it, into a tree with positions. libyaml reads most of JSON, but
 * not escapes of two halves (\ud83d\ude00), tabs between values and keys above 1,024 characters,
 * and it takes what is none. */
#include <stdio.h>
#include <string.h>

#include "core/base/utf8.h"
#include "core/io/document/tree_internal.h"
#include "core/io/json_number.h"

typedef struct json_scan {
    luo_tree *tree;
    const char *at, *end;
    const char *counted; /* line and col are those of this character */
    int line, col;
} json_scan;

/* Every character is counted once, so that one long line costs no more than many. */
static void place(json_scan *scan)
{
    for (; scan->counted < scan->at; scan->counted++) {
        if (*scan->counted == '\n') {
            scan->line++;
            scan->col = 1;
        } else if (((unsigned char)*scan->counted & 0xc0) != 0x80) {
            scan->col++;
        }
    }
}

static bool in(const char *set, char c)
{
    return c && strchr(set, c);
}

/* What stands here, in few characters, for a message. */
static void show(const json_scan *scan, char *buf, size_t size)
{
    const char *p = scan->at;
    if (p == scan->end) {
        snprintf(buf, size, "end of file");
        return;
    }
    if (*p == '"')
        for (p++; p < scan->end && *p != '"' && *p != '\n'; p++)
            if (*p == '\\' && p + 1 < scan->end) p++;
    if (p < scan->end && in("\"{}[],:", *p))
        p++;
    else
        while (p < scan->end && !in(" \t\r\n{}[],:\"", *p)) p++;
    if (p == scan->at) p++;
    snprintf(buf, size, "`%.*s`", (int)(p - scan->at > 60 ? 60 : p - scan->at), scan->at);
}

static void broken(json_scan *scan, const char *what)
{
    char here[80];
    if (scan->tree->broken) return;
    place(scan);
    show(scan, here, sizeof here);
    luo_tree_break(scan->tree, scan->line, scan->col, "%s near %s; one JSON document is expected.",
                   what, here);
}

static char peek(json_scan *scan)
{
    while (scan->at < scan->end && in(" \t\r\n", *scan->at)) scan->at++;
    return scan->at < scan->end ? *scan->at : 0;
}

/* ---- strings ---- */

static int hex4(const json_scan *scan, const char *p)
{
    int v = 0;
    if (scan->end - p < 4) return -1;
    for (int i = 0; i < 4; i++) {
        const char *digits = "0123456789abcdef", *d = p[i] ? strchr(digits, p[i] | 0x20) : NULL;
        if (!d || (p[i] < '0' || (p[i] > '9' && p[i] < 'A'))) return -1;
        v = 16 * v + (int)(d - digits);
    }
    return v;
}

/* The character of \uXXXX, or of two of them that are halves; -1: none, or the 0 character, which
 * no text of ours can hold. *p: the first digit; it is moved behind the last. */
static int escaped(const json_scan *scan, const char **p)
{
    const int high = hex4(scan, *p);
    if (high <= 0) return -1;
    *p += 4;
    if (high < 0xd800 || high > 0xdfff) return high;
    if (high > 0xdbff || scan->end - *p < 6 || (*p)[0] != '\\' || (*p)[1] != 'u') return -1;
    const int low = hex4(scan, *p + 2);
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
static const char *string(json_scan *scan)
{
    static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    const char *p = scan->at + 1, *close = p;
    while (close < scan->end && *close != '"')
        close += *close == '\\' && close + 1 < scan->end ? 2 : 1;
    char *text = luo_arena_alloc(scan->tree->doc->arena, (size_t)(close - p) + 1), *to = text;
    if (!text) luo_tree_nomem(scan->tree);
    while (text && p < scan->end && *p != '"') {
        const char *from = p;
        if ((unsigned char)*p < 0x20) {
            scan->at = from;
            broken(scan, "a string holds a control character");
            return NULL;
        }
        if (*p++ != '\\') {
            *to++ = *from;
            continue;
        }
        const char *letter = p < scan->end && *p ? strchr(letters, *p) : NULL;
        if (letter) {
            *to++ = meant[letter - letters];
            p++;
            continue;
        }
        const int c = p < scan->end && *p == 'u' ? (p++, escaped(scan, &p)) : -1;
        if (c < 0) {
            scan->at = from;
            broken(scan, "invalid escape");
            return NULL;
        }
        to = put_utf8(to, c);
    }
    if (text && p >= scan->end) {
        broken(scan, "a string does not end");
        return NULL;
    }
    if (text) *to = 0;
    scan->at = p + 1;
    return text;
}

/* ---- values ---- */

/* A number, true, false or null; in the tree they stand as they are written. */
static void word(json_scan *scan)
{
    static const char *const words[] = {"true", "false", "null"};
    const char *from = scan->at, *p = from;
    while (p < scan->end && !in(" \t\r\n{}[],:\"", *p)) p++;
    const size_t n = (size_t)(p - from);
    bool good = luo_json_number_form(from, n, false);
    for (int i = 0; i < 3; i++)
        good = good || (strlen(words[i]) == n && memcmp(words[i], from, n) == 0);
    if (!good) {
        broken(scan, n ? "invalid token" : "unexpected token");
        return;
    }
    const char *text = luo_arena_strndup(scan->tree->doc->arena, from, n);
    if (!text)
        luo_tree_nomem(scan->tree);
    else
        luo_tree_scalar(scan->tree, text, false, scan->line, scan->col);
    scan->at = p;
}

/* A value, or what opens one. */
static void value(json_scan *scan)
{
    const char c = peek(scan);
    place(scan);
    if (c == '{' || c == '[') {
        luo_tree_open(scan->tree, c == '{' ? LUO_DOC_MAP : LUO_DOC_LIST, scan->line, scan->col);
        scan->at++;
    } else if (c == '"') {
        const int line = scan->line, col = scan->col;
        const char *text = string(scan);
        if (text) luo_tree_scalar(scan->tree, text, true, line, col);
    } else {
        word(scan);
    }
}

static void key(json_scan *scan)
{
    if (peek(scan) != '"') {
        broken(scan, "a key in quotes, or `}`, expected");
        return;
    }
    place(scan);
    const int line = scan->line, col = scan->col;
    const char *text = string(scan);
    if (!text) return;
    luo_tree_key(scan->tree, text, line, col);
    if (peek(scan) == ':') scan->at++;
    else broken(scan, "`:` expected");
}

/* After a value: what closes the open maps and lists, and the comma that asks for one more. */
static void after(json_scan *scan)
{
    luo_tree *tree = scan->tree;
    while (tree->open && !tree->broken) {
        const bool map = tree->open->type == LUO_DOC_MAP;
        const char c = peek(scan);
        if (c == ',') {
            scan->at++;
            return;
        }
        if (c != (map ? '}' : ']')) {
            broken(scan, map ? "`}` expected" : "`]` expected");
            return;
        }
        scan->at++;
        luo_tree_close(tree);
    }
}

/* Inside an empty `{` or `[`, which may close at once. */
static bool closes(json_scan *scan)
{
    const luo_doc_node *open = scan->tree->open;
    return open && open->n == 0 && !scan->tree->key &&
           peek(scan) == (open->type == LUO_DOC_MAP ? '}' : ']');
}

void luo_tree_json(luo_tree *tree, const char *text, size_t len)
{
    json_scan scan = {tree, text, text + len, text, 1, 1};
    do {
        if (luo_tree_wants_key(tree)) key(&scan);
        if (tree->broken) return;
        const luo_doc_node *before = tree->open;
        value(&scan);
        if (tree->broken) return;
        if (tree->open == before || closes(&scan)) after(&scan);
    } while (tree->open && !tree->broken);
    if (!tree->broken && peek(&scan)) broken(&scan, "end of file expected");
}
