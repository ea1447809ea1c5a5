/* expr.h: symbolic sizes, e.g. "(S+7)//8*8" . */
#ifndef LUO_TESTS_PARKED_EXPR_H
#define LUO_TESTS_PARKED_EXPR_H
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"

typedef struct luo_expr luo_expr; /* immutable, in an arena; constants are folded */

/* Symbols: letters, digits, _ , and an optional `@u` (u = member) at the end. */
luo_status luo_expr_parse(luo_arena *arena, const char *text, const luo_expr **out, luo_err *err);
const luo_expr *luo_expr_const(luo_arena *arena, int64_t v);
/* Structural equality. */
int luo_expr_equal(const luo_expr *a, const luo_expr *b);
void luo_expr_print(char *buf, size_t size, const luo_expr *e);

typedef struct luo_symbol {
    const char *name;
    int64_t value;
} luo_symbol;
/* Errors: LUO_ESHAPE NOTDIV, DIVZERO, NEGATIVE, OVERFLOW, UNSET each with its sentence;
 * tensor and dim name the place (tensor NULL: left out). */
luo_status luo_expr_eval(const luo_expr *e, const luo_symbol *symbols, int32_t n,
                         const char *tensor, int32_t dim, int64_t *out, luo_err *err);
#endif
