/* Rules of the published planner. */
#include "core/plan/hap/compat.h"

#include <string.h>

/* Letters by kind; NULL: all. */
static const char *letters_of(luo_hap_kind kind)
{
    switch (kind) {
    case LUO_HAP_QKV:
    case LUO_HAP_ATTENTION:
    case LUO_HAP_ADAPTIVE_POOL:
    case LUO_HAP_GATE:
    case LUO_HAP_ROUTE:
    case LUO_HAP_HASH:
    case LUO_HAP_INTERACTION:
        return "b";
    case LUO_HAP_CONV:
        return "bo";
    case LUO_HAP_POOL:
        return "bc";
    case LUO_HAP_EMBEDDING:
        return "bsm";
    case LUO_HAP_APPEND:
    case LUO_HAP_TAKE:
        return "bm";
    case LUO_HAP_COMBINE:
        return "bEcm";
    case LUO_HAP_LINEAR:
    case LUO_HAP_UNARY:
    case LUO_HAP_GATED:
    case LUO_HAP_ADD:
    case LUO_HAP_NORM:
    case LUO_HAP_LATENT:
    case LUO_HAP_DISPATCH:
    case LUO_HAP_PACK:
    case LUO_HAP_ROWS:
    case LUO_HAP_ROWS_PAIR:
    case LUO_HAP_UNPACK:
    case LUO_HAP_EXPERT:
    case LUO_HAP_LOSS:
    case LUO_HAP_KINDS:
        break;
    }
    return NULL;
}

static bool in_result(const luo_hap_op *op, char letter)
{
    return strchr(op->out_is[0], letter) != NULL;
}

bool luo_hap_compat_rule(const luo_hap_op *op, const luo_hap_rule *rule, bool sums)
{
    const char *letters = letters_of(op->kind);
    if (rule->lin) return op->kind == LUO_HAP_ADD && rule->lin == 3;
    if (!rule->letter) return op->kind != LUO_HAP_EMBEDDING;
    if (letters) return strchr(letters, rule->letter) != NULL;
    if (op->kind == LUO_HAP_LINEAR) {
        const bool output_projection = op->size['h'] && strchr(op->whole, 'e');
        if (output_projection) return rule->letter == 'b';
        return sums || in_result(op, rule->letter);
    }
    if (op->kind == LUO_HAP_LOSS) return op->in_is[0][strlen(op->in_is[0]) - 1] != rule->letter;
    return true;
}
