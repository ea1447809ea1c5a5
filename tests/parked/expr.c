/* expr.c: symbolic sizes : reading, folding, printing, evaluation. */
#include "tests/parked/expr.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/hspmd/ann.h" /* LUO_DIM_LIMIT */

enum { DEPTH_MAX = 256 }; /* of the tree: bounds the recursion of everything below */

typedef enum kind { CONSTANT, SYMBOL, ADD, SUB, MUL, DIV, FLOOR, MOD, MIN, MAX } kind;
static const char *const signs[] = {"", "", "+", "-", "*", "/", "//", "%", "min", "max"};

struct luo_expr {
    kind op;
    int32_t depth;
    int64_t value;                  /* CONSTANT */
    const char *name;               /* SYMBOL */
    const struct luo_expr *a, *b;
};

/* a op b, or why there is no such number. */
typedef enum fault { FINE, NOTDIV, DIVZERO, OVERFLOW } fault;

static fault apply(kind op, int64_t a, int64_t b, int64_t *out)
{
    __int128 x = 0;
    if ((op == DIV || op == FLOOR || op == MOD) && b == 0) return DIVZERO;
    switch (op) {
    case ADD: x = (__int128)a + b; break;
    case SUB: x = (__int128)a - b; break;
    case MUL: x = (__int128)a * b; break;
    case MIN: x = a < b ? a : b; break;
    case MAX: x = a > b ? a : b; break;
    case DIV:
        if (a % b) return NOTDIV;
        x = a / b;
        break;
    case FLOOR: x = a / b - (a % b && (a < 0) != (b < 0)); break;
    case MOD: x = a % b + (a % b && (a < 0) != (b < 0) ? b : 0); break;
    case CONSTANT:
    case SYMBOL: break;
    }
    /* Intermediate values may pass the limit of sizes ("A*B//C"), but not that of the type. */
    if (x > INT64_MAX / 4 || x < INT64_MIN / 4) return OVERFLOW;
    *out = (int64_t)x;
    return FINE;
}

static luo_expr *node(luo_arena *arena, kind op, const luo_expr *a, const luo_expr *b)
{
    luo_expr *e = LUO_NEW(arena, luo_expr);
    if (!e) return NULL;
    const int32_t da = a ? a->depth : 0, db = b ? b->depth : 0;
    *e = (luo_expr){.op = op, .depth = (da > db ? da : db) + 1, .a = a, .b = b};
    return e;
}

const luo_expr *luo_expr_const(luo_arena *arena, int64_t v)
{
    luo_expr *e = node(arena, CONSTANT, NULL, NULL);
    if (e) e->value = v;
    return e;
}

/* Folds constants; what would fail or be no size is kept, so that its text is shown when it is
 * evaluated. */
static const luo_expr *join(luo_arena *arena, kind op, const luo_expr *a, const luo_expr *b)
{
    int64_t v;
    if (a->op == CONSTANT && b->op == CONSTANT && apply(op, a->value, b->value, &v) == FINE &&
        v >= 0 && v < LUO_DIM_LIMIT)
        return luo_expr_const(arena, v);
    return node(arena, op, a, b);
}

typedef struct parser {
    luo_arena *arena;
    const char *text, *at;
    int32_t nesting;
    luo_err *err;
} parser;

static char peek(parser *p)
{
    while (*p->at == ' ' || *p->at == '\t') p->at++;
    return *p->at;
}

static luo_status expected(parser *p, const char *what)
{
    peek(p);
    return luo_err_set(p->err, LUO_EPARSE, "expression `%s`, column %d: %s is expected.", p->text,
                       (int)(p->at - p->text) + 1, what);
}

static luo_status too_deep(parser *p)
{
    return luo_err_set(p->err, LUO_E2BIG, "expression `%s` is deeper than %d operations.", p->text,
                       DEPTH_MAX);
}

static luo_status combine(parser *p, kind op, const luo_expr *b, const luo_expr **a)
{
    const luo_expr *e = join(p->arena, op, *a, b);
    if (!e) return luo_err_nomem(p->err);
    if (e->depth > DEPTH_MAX) return too_deep(p);
    *a = e;
    return LUO_OK;
}

static luo_status take(parser *p, char c, const char *what)
{
    if (peek(p) != c) return expected(p, what);
    p->at++;
    return LUO_OK;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c);
}

static luo_status take_sum(parser *p, const luo_expr **out);

static luo_status take_constant(parser *p, const luo_expr **out)
{
    int64_t v = 0;
    for (; is_digit(*p->at); p->at++)
        if (v < LUO_DIM_LIMIT) v = 10 * v + (*p->at - '0');
    if (v >= LUO_DIM_LIMIT)
        return luo_err_set(p->err, LUO_E2BIG,
                           "expression `%s`: constants are 0 to %" PRId64 ".", p->text,
                           LUO_DIM_LIMIT - 1);
    *out = luo_expr_const(p->arena, v);
    return *out ? LUO_OK : luo_err_nomem(p->err);
}

static luo_status take_pair(parser *p, kind op, const luo_expr **out)
{
    const luo_expr *b;
    LUO_TRY(take(p, '(', "`(`"));
    LUO_TRY(take_sum(p, out));
    LUO_TRY(take(p, ',', "`,`"));
    LUO_TRY(take_sum(p, &b));
    LUO_TRY(take(p, ')', "`)`"));
    return combine(p, op, b, out);
}

/* A symbol, or min(,) and max(,): these two words are no symbols. */
static luo_status take_word(parser *p, const luo_expr **out)
{
    const char *from = p->at;
    while (is_name(*p->at)) p->at++;
    size_t n = (size_t)(p->at - from);
    if (n == 3 && strncmp(from, "min", 3) == 0) return take_pair(p, MIN, out);
    if (n == 3 && strncmp(from, "max", 3) == 0) return take_pair(p, MAX, out);
    if (*p->at == '@') {
        p->at++;
        if (!is_name(*p->at)) return expected(p, "a member behind `@`");
        while (is_name(*p->at)) p->at++;
        n = (size_t)(p->at - from);
    }
    luo_expr *e = node(p->arena, SYMBOL, NULL, NULL);
    if (!e || !(e->name = luo_arena_strndup(p->arena, from, n))) return luo_err_nomem(p->err);
    *out = e;
    return LUO_OK;
}

static luo_status take_atom(parser *p, const luo_expr **out)
{
    const char c = peek(p);
    if (is_digit(c)) return take_constant(p, out);
    if (is_name(c)) return take_word(p, out);
    if (c != '(') return expected(p, "a symbol, a number or `(`");
    p->at++;
    LUO_TRY(take_sum(p, out));
    return take(p, ')', "`)`");
}

static luo_status take_product(parser *p, const luo_expr **out)
{
    LUO_TRY(take_atom(p, out));
    for (char c; c = peek(p), c == '*' || c == '/' || c == '%';) {
        const luo_expr *b;
        kind op = c == '*' ? MUL : c == '%' ? MOD : DIV;
        p->at++;
        if (c == '/' && *p->at == '/') {
            op = FLOOR;
            p->at++;
        }
        LUO_TRY(take_atom(p, &b));
        LUO_TRY(combine(p, op, b, out));
    }
    return LUO_OK;
}

static luo_status take_sum(parser *p, const luo_expr **out)
{
    if (++p->nesting > DEPTH_MAX) return too_deep(p);
    LUO_TRY(take_product(p, out));
    for (char c; c = peek(p), c == '+' || c == '-';) {
        const luo_expr *b;
        p->at++;
        LUO_TRY(take_product(p, &b));
        LUO_TRY(combine(p, c == '+' ? ADD : SUB, b, out));
    }
    p->nesting--;
    return LUO_OK;
}

luo_status luo_expr_parse(luo_arena *arena, const char *text, const luo_expr **out, luo_err *err)
{
    luo_status st = LUO_OK;
    parser p = {.arena = arena, .text = text, .at = text, .err = err};
    const size_t mark = luo_arena_mark(arena);
    const luo_expr *e = NULL;
    LUO_TRY_OUT(take_sum(&p, &e));
    if (peek(&p)) LUO_TRY_OUT(expected(&p, "an operator or the end"));
    *out = e;
out:
    if (st != LUO_OK) luo_arena_reset(arena, mark);
    return st;
}

int luo_expr_equal(const luo_expr *a, const luo_expr *b)
{
    if (a == b) return 1;
    if (a->op != b->op) return 0;
    if (a->op == CONSTANT) return a->value == b->value;
    if (a->op == SYMBOL) return strcmp(a->name, b->name) == 0;
    return luo_expr_equal(a->a, b->a) && luo_expr_equal(a->b, b->b);
}

typedef struct writer {
    char *at, *end; /* one byte is always left for the closing 0 */
    bool full;
} writer;

static void put(writer *w, const char *text)
{
    while (*text && w->at < w->end) *w->at++ = *text++;
    w->full = w->full || *text;
}

static int level(kind op)
{
    return op == ADD || op == SUB ? 1 : op >= MUL && op <= MOD ? 2 : 3;
}

static void write_expr(writer *w, const luo_expr *e);

static void write_operand(writer *w, const luo_expr *e, bool brackets)
{
    if (brackets) put(w, "(");
    write_expr(w, e);
    if (brackets) put(w, ")");
}

static void write_expr(writer *w, const luo_expr *e)
{
    char number[24];
    if (e->op == CONSTANT) {
        snprintf(number, sizeof number, "%" PRId64, e->value);
        put(w, number);
    } else if (e->op == SYMBOL) {
        put(w, e->name);
    } else if (level(e->op) == 3) {
        put(w, signs[e->op]);
        put(w, "(");
        write_expr(w, e->a);
        put(w, ",");
        write_expr(w, e->b);
        put(w, ")");
    } else {
        write_operand(w, e->a, level(e->a->op) < level(e->op));
        put(w, signs[e->op]);
        write_operand(w, e->b, level(e->b->op) <= level(e->op));
    }
}

void luo_expr_print(char *buf, size_t size, const luo_expr *e)
{
    if (!size) return;
    writer w = {buf, buf + size - 1, false};
    write_expr(&w, e);
    *w.at = 0;
    if (w.full && size > 2) memcpy(w.end - 2, "..", 2); /* a cut is never silent */
}

typedef struct evaluation {
    const luo_symbol *symbols;
    int32_t n, dim;
    const char *tensor;
    luo_err *err;
} evaluation;

/* LUO_ESHAPE: "shape: EXPR WHAT (tensor 'x', dim 0)". */
static luo_status refuse(const evaluation *v, const luo_expr *e, const char *what)
{
    char text[256];
    luo_expr_print(text, sizeof text, e);
    if (!v->tensor) return luo_err_set(v->err, LUO_ESHAPE, "shape: %s%s", text, what);
    return luo_err_set(v->err, LUO_ESHAPE, "shape: %s%s (tensor '%s', dim %d)", text, what,
                       v->tensor, v->dim);
}

/* Sizes are 0 to LUO_DIM_LIMIT - 1; symbols may be as far below 0 as sizes are above. */
static luo_status check_range(const evaluation *v, const luo_expr *e, int64_t x, int64_t least)
{
    char what[96];
    if (x >= least && x < LUO_DIM_LIMIT) return LUO_OK;
    if (x < least) snprintf(what, sizeof what, " = %" PRId64, x);
    else
        snprintf(what, sizeof what, " = %" PRId64 " is above the limit %" PRId64, x,
                 LUO_DIM_LIMIT - 1);
    return refuse(v, e, what);
}

static luo_status eval_symbol(const evaluation *v, const luo_expr *e, int64_t *out)
{
    for (int32_t k = 0; k < v->n; k++)
        if (strcmp(v->symbols[k].name, e->name) == 0) {
            *out = v->symbols[k].value;
            return check_range(v, e, *out, -LUO_DIM_LIMIT + 1);
        }
    return refuse(v, e, " is not set");
}

static luo_status eval(const evaluation *v, const luo_expr *e, int64_t *out)
{
    char what[96];
    int64_t a, b;
    if (e->op == SYMBOL) return eval_symbol(v, e, out);
    if (e->op == CONSTANT) {
        *out = e->value;
        return LUO_OK;
    }
    LUO_TRY(eval(v, e->a, &a));
    LUO_TRY(eval(v, e->b, &b));
    switch (apply(e->op, a, b, out)) {
    case FINE: break;
    case DIVZERO: return refuse(v, e, ": division by 0");
    case NOTDIV:
        snprintf(what, sizeof what, ": %" PRId64 " is not divisible by %" PRId64, a, b);
        return refuse(v, e, what);
    case OVERFLOW:
        snprintf(what, sizeof what, " is above the limit %" PRId64, LUO_DIM_LIMIT - 1);
        return refuse(v, e, what);
    }
    return LUO_OK;
}

luo_status luo_expr_eval(const luo_expr *e, const luo_symbol *symbols, int32_t n,
                         const char *tensor, int32_t dim, int64_t *out, luo_err *err)
{
    const evaluation v = {symbols, n, dim, tensor, err};
    int64_t x = 0;
    LUO_TRY(eval(&v, e, &x));
    LUO_TRY(check_range(&v, e, x, 0));
    *out = x;
    return LUO_OK;
}
