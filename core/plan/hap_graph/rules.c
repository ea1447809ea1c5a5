/* Rules from the letters of an operation. */
#include "core/plan/hap_graph/rules.h"

#include <string.h>

static const luo_rel whole_ = {.kind = LUO_REL_I}, partial = {.kind = LUO_REL_R};

bool luo_rel_same(luo_rel a, luo_rel b)
{
    return a.kind == b.kind && a.dim == b.dim && a.seg == b.seg;
}

luo_rel luo_rel_dual(luo_rel rel)
{
    return rel.kind == LUO_REL_I ? partial : rel.kind == LUO_REL_R ? whole_ : rel;
}

/* G where the letter is, else what lacks it. */
static luo_rel relation(const char *is, char letter, luo_rel lacking)
{
    const char *at = strchr(is, letter);
    return at ? (luo_rel){.kind = LUO_REL_G, .dim = (int8_t)(at - is)} : lacking;
}

static bool results_have(const luo_hap_op *op, char letter)
{
    for (int32_t k = 0; k < op->nout; k++)
        if (strchr(op->out_is[k], letter)) return true;
    return false;
}

static bool gradient_has(const luo_hap_op *op, int32_t j, char letter)
{
    for (int32_t i = 0; i < op->nin; i++)
        if (op->need[j] >> i & 1 && strchr(op->in_is[i], letter)) return true;
    return results_have(op, letter);
}

static luo_hap_rule by_letter(const luo_hap_op *op, char letter)
{
    luo_hap_rule rule = {.letter = letter};
    for (int32_t j = 0; j < op->nin; j++) {
        rule.in[j] = relation(op->in_is[j], letter, whole_);
        rule.grad[j] =
            relation(op->in_is[j], letter, gradient_has(op, j, letter) ? partial : whole_);
    }
    for (int32_t k = 0; k < op->nout; k++) rule.out[k] = relation(op->out_is[k], letter, partial);
    return rule;
}

static luo_hap_rule everywhere(const luo_hap_op *op)
{
    luo_hap_rule rule = {0};
    for (int32_t j = 0; j < op->nin; j++) rule.grad[j] = partial;
    return rule;
}

/* Operands of `lin` are partial sums. */
static luo_hap_rule by_sums(const luo_hap_op *op, uint32_t lin)
{
    luo_hap_rule rule = {.lin = lin};
    for (int32_t j = 0; j < op->nin; j++) {
        if (lin >> j & 1) rule.in[j] = partial;
        if (op->need[j] & lin & ~(1u << j)) rule.grad[j] = partial;
    }
    for (int32_t k = 0; k < op->nout; k++) rule.out[k] = partial;
    return rule;
}

/* Adds the letters that may be cut and are not there yet, of extents of `least` and more. */
static void cut_letters(const luo_hap_op *op, int64_t least, char *out)
{
    size_t n = strlen(out);
    for (int32_t i = 0; i < op->nin + op->nout; i++)
        for (const char *at = i < op->nin ? op->in_is[i] : op->out_is[i - op->nin]; *at; at++) {
            if (strchr(out, *at) || strchr(op->whole, *at) || op->size[(int)*at] < least) continue;
            out[n++] = *at;
            out[n] = 0;
        }
}

char *luo_hap_rule_letters(const luo_hap_graph *graph, char *out)
{
    *out = 0;
    for (int32_t o = 0; o < graph->nops; o++) cut_letters(&graph->op[o], 1, out);
    return out;
}

luo_status luo_hap_rules(luo_arena *arena, const luo_hap_op *op, luo_hap_rule **out, int32_t *n,
                         luo_err *err)
{
    char letters[LUO_HAP_RANK * (LUO_HAP_OPERANDS + LUO_HAP_RESULTS) + 1] = "";
    cut_letters(op, 2, letters);
    luo_hap_rule *rule = LUO_NEW_N(arena, luo_hap_rule, strlen(letters) + 1 + (1u << op->nin));
    int32_t count = 0;
    if (!rule) return luo_err_nomem(err);
    for (const char *at = letters; *at; at++) rule[count++] = by_letter(op, *at);
    rule[count++] = everywhere(op);
    for (uint32_t lin = 1; lin < 1u << op->nin; lin++)
        if (op->add || ((lin & (lin - 1)) == 0 && (lin & op->lin)))
            rule[count++] = by_sums(op, lin);
    *out = rule;
    *n = count;
    return LUO_OK;
}

char *luo_hap_rule_name(const luo_hap_rule *rule, char *buf)
{
    char *at = buf;
    if (rule->letter) {
        *at++ = rule->letter;
        *at = 0;
        return buf;
    }
    strcpy(buf, rule->lin ? "lin" : "rep");
    at += 3;
    for (int32_t j = 0; j < LUO_HAP_OPERANDS; j++)
        if (rule->lin >> j & 1) *at++ = (char)('0' + j);
    *at = 0;
    return buf;
}
