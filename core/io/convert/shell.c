/* shell.c: flags of a shell script. The script is read, never run: words, quotes, comments, joined
 * lines, variables that it sets to plain values, and whole numbers between $(( )). */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/convert/flags.h"

typedef struct shell_variable {
    const char *name, *value;
    int line;
    bool several; /* set to several values */
} shell_variable;

enum { VARIABLES = 512, DEEP = 8 };

typedef struct shell {
    convert_flags *flags;
    convert_job *job;
    shell_variable variable[VARIABLES];
    int32_t nvariables;
    const char *at, *end;
    int line, col;
    const char *name; /* flag whose value has not come; NULL: none */
    int name_line, name_col;
    bool parted;      /* what comes is another command */
    int deep;         /* quoted values in quoted values */
    char unknown[64]; /* what the word at hand has that is not known; "": nothing */
} shell;

static void step(shell *sh)
{
    if (*sh->at == '\n') {
        sh->line++;
        sh->col = 0;
    }
    sh->at++;
    sh->col++;
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* ---- variables ---- */

static shell_variable *find(shell *sh, const char *name, size_t n)
{
    for (int32_t i = 0; i < sh->nvariables; i++)
        if (strlen(sh->variable[i].name) == n && memcmp(sh->variable[i].name, name, n) == 0)
            return &sh->variable[i];
    return NULL;
}

static luo_status set(shell *sh, const char *name, size_t n, const char *value)
{
    shell_variable *old = find(sh, name, n);
    if (old) {
        old->several |= strcmp(old->value, value) != 0;
        return LUO_OK;
    }
    if (sh->nvariables == VARIABLES) return LUO_OK; /* an unknown one is told where it is used */
    const char *copy = luo_arena_strndup(sh->job->arena, name, n);
    value = luo_arena_strdup(sh->job->arena, value);
    if (!copy || !value) return convert_nomem(sh->job);
    sh->variable[sh->nvariables++] = (shell_variable){copy, value, sh->line, false};
    return LUO_OK;
}

static void not_known(shell *sh, const char *what, size_t n)
{
    if (n > sizeof sh->unknown - 1) n = sizeof sh->unknown - 1;
    memcpy(sh->unknown, what, n);
    sh->unknown[n] = 0;
}

/* otherwise: of ${NAME:-otherwise}, NULL: none. */
static void add_value(shell *sh, luo_str *word, const char *name, size_t n, const char *otherwise,
                      size_t notherwise)
{
    const shell_variable *variable = find(sh, name, n);
    if (variable && !variable->several)
        luo_str_add(word, variable->value);
    else if (!variable && otherwise)
        luo_str_addn(word, otherwise, notherwise);
    else
        not_known(sh, name, n);
}

/* ---- whole numbers: + - * / % and brackets ---- */

typedef struct sum {
    shell *sh;
    const char *at, *end;
    bool good;
    int deep;
} sum;

static int64_t sum_of(sum *s);

static void blanks(sum *s)
{
    while (s->at < s->end && isspace((unsigned char)*s->at)) s->at++;
}

static int64_t factor_of(sum *s)
{
    luo_str word = {0};
    blanks(s);
    if (s->at < s->end && *s->at == '(') {
        s->at++;
        const int64_t v = ++s->deep < DEEP ? sum_of(s) : 0;
        s->good &= s->deep-- < DEEP && s->at < s->end && *s->at == ')';
        s->at++;
        return v;
    }
    const bool braced = s->end - s->at > 2 && memcmp(s->at, "${", 2) == 0;
    s->at += braced ? 2 : s->at < s->end && *s->at == '$';
    const char *from = s->at;
    while (s->at < s->end && is_word(*s->at)) s->at++;
    const size_t n = (size_t)(s->at - from);
    if (n && isdigit((unsigned char)*from))
        luo_str_addn(&word, from, n);
    else if (n)
        add_value(s->sh, &word, from, n, NULL, 0);
    if (braced) s->good &= s->at < s->end && *s->at++ == '}';
    char *stop;
    const char *text = luo_str_get(&word);
    const int64_t v = strtoll(text, &stop, 10);
    s->good &= *text && !*stop && v >= 0 && v < INT32_MAX;
    luo_str_free(&word);
    blanks(s);
    return s->good ? v : 0;
}

static int64_t term_of(sum *s)
{
    int64_t v = factor_of(s);
    while (s->good && s->at < s->end && strchr("*/%", *s->at)) {
        const char op = *s->at++;
        const int64_t w = factor_of(s);
        if (op == '*')
            s->good &= !__builtin_mul_overflow(v, w, &v);
        else if (w == 0)
            s->good = false;
        else
            v = op == '/' ? v / w : v % w;
        blanks(s);
    }
    return v;
}

static int64_t sum_of(sum *s)
{
    int64_t v = term_of(s);
    while (s->good && s->at < s->end && (*s->at == '+' || *s->at == '-')) {
        const int64_t w = *s->at++ == '+' ? term_of(s) : -term_of(s);
        s->good &= !__builtin_add_overflow(v, w, &v);
    }
    return v;
}

/* ---- words ---- */

static const char *closing(const shell *sh, const char *from, char open, char close)
{
    int deep = 0;
    for (const char *p = from; p < sh->end; p++) {
        deep += (*p == open) - (*p == close);
        if (deep == 0) return p;
    }
    return NULL;
}

/* ${..}: a variable, perhaps with what stands for it. */
static void braced(shell *sh, luo_str *word, const char *from, const char *to)
{
    const char *p = from;
    while (p < to && is_word(*p)) p++;
    const char *otherwise =
        to - p >= 2 && (memcmp(p, ":-", 2) == 0 || memcmp(p, ":=", 2) == 0) ? p + 2 : NULL;
    if (p == to || otherwise)
        add_value(sh, word, from, (size_t)(p - from), otherwise,
                  otherwise ? (size_t)(to - otherwise) : 0);
    else if (*p != '[') /* an array: its words were read where it was set */
        not_known(sh, from, (size_t)(to - from));
}

static void run_over(shell *sh, const char *to)
{
    while (sh->at < to) step(sh);
}

/* $NAME, ${NAME}, $((..)), $(..) */
static void dollar(shell *sh, luo_str *word)
{
    const char *from = sh->at + 1, *to;
    if (from < sh->end && *from == '{' && (to = closing(sh, from, '{', '}'))) {
        braced(sh, word, from + 1, to);
        run_over(sh, to + 1);
    } else if (from < sh->end && *from == '(' && (to = closing(sh, from, '(', ')'))) {
        sum s = {.sh = sh, .at = from + 2, .end = to - 1, .good = to - from > 3 && from[1] == '('};
        const int64_t v = s.good ? sum_of(&s) : 0;
        if (s.good && s.at == s.end)
            luo_str_addi(word, v);
        else
            not_known(sh, sh->at, (size_t)(to + 1 - sh->at));
        run_over(sh, to + 1);
    } else {
        for (to = from; to < sh->end && is_word(*to); to++) continue;
        if (to == from)
            luo_str_addc(word, '$');
        else
            add_value(sh, word, from, (size_t)(to - from), NULL, 0);
        run_over(sh, to);
    }
}

static void quoted(shell *sh, luo_str *word, char quote)
{
    for (step(sh); sh->at < sh->end && *sh->at != quote;) {
        if (quote == '"' && *sh->at == '$') {
            dollar(sh, word);
            continue;
        }
        if (quote == '"' && *sh->at == '\\' && sh->at + 1 < sh->end) {
            step(sh);
            if (*sh->at == '\n') {
                luo_str_addc(word, ' ');
                step(sh);
                continue;
            }
        }
        luo_str_addc(word, *sh->at);
        step(sh);
    }
    if (sh->at < sh->end) step(sh);
}

/* Blanks, joined lines, comments and signs between commands. A new command: a flag has no value. */
static void skip(shell *sh)
{
    while (sh->at < sh->end) {
        const char c = *sh->at;
        if (c == '\\' && sh->at + 1 < sh->end && (sh->at[1] == '\n' || sh->at[1] == '\r')) {
            step(sh);
            if (*sh->at == '\r') step(sh);
        } else if (c == '#') {
            while (sh->at < sh->end && *sh->at != '\n') step(sh);
            continue;
        } else if (!isspace((unsigned char)c) && !strchr(";|&()<>", c)) {
            return;
        }
        sh->parted |= strchr("\n;|&", c) != NULL && c;
        step(sh);
    }
}

static void read_word(shell *sh, luo_str *word)
{
    luo_str_clear(word);
    luo_str_add(word, "");
    sh->unknown[0] = 0;
    while (sh->at < sh->end && !isspace((unsigned char)*sh->at) && !strchr(";|&()<>", *sh->at)) {
        if (*sh->at == '$')
            dollar(sh, word);
        else if (*sh->at == '"' || *sh->at == '\'')
            quoted(sh, word, *sh->at);
        else if (*sh->at == '\\' && sh->at + 1 < sh->end) {
            step(sh);
            if (*sh->at == '\n') return;
            luo_str_addc(word, *sh->at);
            step(sh);
        } else {
            luo_str_addc(word, *sh->at);
            step(sh);
        }
    }
}

/* ---- what the words say ---- */

static luo_status end_flag(shell *sh, const char *value)
{
    if (!sh->name) return LUO_OK;
    const char *name = sh->name;
    sh->name = NULL;
    return convert_flags_put(sh->flags, name, strlen(name), value, sh->name_line, sh->name_col);
}

static luo_status begin_flag(shell *sh, const char *word, int line, int col)
{
    const char *equals = strchr(word, '=');
    const size_t n = equals ? (size_t)(equals - word) : strlen(word);
    sh->name = luo_arena_strndup(sh->job->arena, word + 2, n - 2);
    sh->name_line = line;
    sh->name_col = col;
    if (!sh->name) return convert_nomem(sh->job);
    if (!equals) return LUO_OK;
    const char *value = luo_arena_strdup(sh->job->arena, equals + 1);
    return value ? end_flag(sh, value) : convert_nomem(sh->job);
}

/* Flags that stand in a quoted value: GPT_ARGS="--num-layers 24 --hidden-size 1024". */
static luo_status read_value(shell *sh, const char *text, int line, int col);

static luo_status assignment(shell *sh, const char *word, int line, int col)
{
    const char *equals = strchr(word, '=');
    LUO_TRY(end_flag(sh, NULL));
    if (strstr(equals, "--")) return read_value(sh, equals + 1, line, col);
    if (sh->unknown[0]) return LUO_OK;
    return equals[1] ? set(sh, word, (size_t)(equals - word), equals + 1) : LUO_OK;
}

static bool is_assignment(const char *word)
{
    const char *p = word;
    while (is_word(*p)) p++;
    return p > word && *p == '=' && !isdigit((unsigned char)*word);
}

static luo_status value_of_flag(shell *sh, const char *word)
{
    const char *value = luo_arena_strdup(sh->job->arena, word);
    if (!value) return convert_nomem(sh->job);
    if (!sh->unknown[0] || !sh->name) return end_flag(sh, value);
    /* of a flag that has a use it has to be known: kept as it is, for its reader to refuse */
    char text[96];
    snprintf(text, sizeof text, "$%s", sh->unknown);
    value = luo_arena_strdup(sh->job->arena, text);
    return value ? end_flag(sh, value) : convert_nomem(sh->job);
}

static luo_status take_word(shell *sh, const char *word, int line, int col)
{
    if (strncmp(word, "--", 2) == 0 && isalpha((unsigned char)word[2])) {
        LUO_TRY(end_flag(sh, NULL));
        return begin_flag(sh, word, line, col);
    }
    if (!sh->name && is_assignment(word)) return assignment(sh, word, line, col);
    return sh->name && (*word || sh->unknown[0]) ? value_of_flag(sh, word) : LUO_OK;
}

static luo_status read_words(shell *sh)
{
    luo_str word = {0};
    luo_status st = LUO_OK;
    for (skip(sh); st == LUO_OK && sh->at < sh->end; skip(sh)) {
        const int line = sh->line, col = sh->col;
        if (sh->parted) st = end_flag(sh, NULL);
        sh->parted = false;
        read_word(sh, &word);
        if (st != LUO_OK) break;
        st = word.failed ? convert_nomem(sh->job) : take_word(sh, luo_str_get(&word), line, col);
    }
    luo_str_free(&word);
    return st == LUO_OK ? end_flag(sh, NULL) : st;
}

static luo_status read_value(shell *sh, const char *text, int line, int col)
{
    const char *copy = luo_arena_strdup(sh->job->arena, text);
    const char *at = sh->at, *end = sh->end;
    const int old_line = sh->line, old_col = sh->col;
    if (!copy) return convert_nomem(sh->job);
    if (sh->deep == DEEP) return LUO_OK;
    sh->deep++;
    sh->at = copy;
    sh->end = copy + strlen(copy);
    sh->line = line;
    sh->col = col;
    const luo_status st = read_words(sh);
    sh->deep--;
    sh->at = at;
    sh->end = end;
    sh->line = old_line;
    sh->col = old_col;
    return st;
}

luo_status convert_flags_shell(convert_flags *flags)
{
    const luo_source *src = &flags->job->src;
    shell *sh = LUO_NEW(flags->job->arena, shell);
    if (!sh) return convert_nomem(flags->job);
    *sh = (shell){.flags = flags,
                  .job = flags->job,
                  .at = src->text,
                  .end = src->text + src->len,
                  .line = 1,
                  .col = 1};
    return read_words(sh);
}
