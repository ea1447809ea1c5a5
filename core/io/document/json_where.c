/* json_where.c: from a JSON pointer to a line and a column, by scanning the text again. */
#include <stdlib.h>
#include <string.h>

#include "core/io/io.h"

typedef struct scan {
    const char *at, *end;
    const char *best; /* the innermost part found so far */
} scan;

static void blanks(scan *s)
{
    while (s->at < s->end && strchr(" \t\r\n", *s->at) && *s->at) s->at++;
}

static char peek(scan *s)
{
    blanks(s);
    return s->at < s->end ? *s->at : 0;
}

static void skip_string(scan *s)
{
    for (s->at++; s->at < s->end && *s->at != '"'; s->at++)
        if (*s->at == '\\' && s->at + 1 < s->end) s->at++;
    if (s->at < s->end) s->at++;
}

/* Past one value; a depth counter instead of recursion, since the text may nest deeply. */
static void skip_value(scan *s)
{
    int depth = 0;
    do {
        const char c = peek(s);
        if (!c) return;
        if (c == '"') {
            skip_string(s);
            continue;
        }
        if (c == '{' || c == '[') depth++;
        if (c == '}' || c == ']') depth--;
        if (strchr("{}[],:", c)) {
            s->at++;
            continue;
        }
        while (s->at < s->end && !strchr(" \t\r\n{}[],:\"", *s->at)) s->at++;
    } while (depth > 0);
}

/* One token of the pointer, with ~0 and ~1, against a key in the text. Keys of ours have no
 * escapes; a key with one is compared as it is written. */
static bool same_key(const char *token, size_t n, const char *key, size_t k)
{
    size_t i = 0, q = 0;
    while (i < n && q < k) {
        char c = token[i++];
        if (c == '~' && i < n) c = token[i++] == '1' ? '/' : '~';
        if (c != key[q++]) return false;
    }
    return i == n && q == k;
}

static bool enter_object(scan *s, const char *token, size_t n, const char **key)
{
    s->at++;
    while (peek(s) == '"') {
        const char *open = s->at;
        skip_string(s);
        const size_t k = (size_t)(s->at - open) >= 2 ? (size_t)(s->at - open) - 2 : 0;
        if (peek(s) == ':') s->at++;
        blanks(s);
        if (same_key(token, n, open + 1, k)) {
            *key = open;
            return s->at < s->end;
        }
        skip_value(s);
        if (peek(s) == ',') s->at++;
    }
    return false;
}

static bool enter_array(scan *s, const char *token)
{
    size_t left = (size_t)strtoull(token, NULL, 10);
    s->at++;
    while (peek(s) && *s->at != ']') {
        if (left-- == 0) return true;
        skip_value(s);
        if (peek(s) == ',') s->at++;
    }
    return false;
}

static void line_and_column(const char *text, const char *at, int *line, int *col)
{
    *line = 1;
    *col = 1;
    for (const char *p = text; p < at; p++) {
        if (*p == '\n') {
            ++*line;
            *col = 1;
        } else if (((unsigned char)*p & 0xc0) != 0x80) {
            ++*col;
        }
    }
}

bool luo_json_where(const char *text, size_t len, const char *pointer, bool key, int *line,
                    int *col)
{
    const size_t skip = len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    scan s = {text + skip, text + len, NULL};
    const char *name = NULL;
    bool found = true;
    blanks(&s);
    s.best = s.at;
    while (found && *pointer == '/') {
        const char *token = pointer + 1;
        const size_t n = strcspn(token, "/");
        name = NULL;
        if (peek(&s) == '{') found = enter_object(&s, token, n, &name);
        else if (peek(&s) == '[') found = enter_array(&s, token);
        else found = false;
        if (found) s.best = s.at;
        pointer = token + n;
    }
    line_and_column(text + skip, found && key && name ? name : s.best, line, col);
    return found;
}
