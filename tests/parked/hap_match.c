/* Rules by annotations. */
#include "tests/parked/hap_match.h"

#include <string.h>

bool luo_match_rel(const luo_ann *ann, luo_rel *out)
{
    *out = (luo_rel){.kind = LUO_REL_I};
    if (ann->u != 1 || ann->h != LUO_H_NONE || ann->grp[0].nent > 1) return false;
    if (ann->grp[0].nent == 0) return ann->grp[0].ndev == 1;
    const int32_t key = ann->grp[0].ent[0].key;
    if (key == LUO_PARTIAL) out->kind = LUO_REL_R;
    if (key >= 0) *out = (luo_rel){.kind = LUO_REL_G, .dim = (int8_t)key};
    return key >= LUO_PARTIAL;
}

/* ---- pieces ---- */

static const luo_ent *cut_of(const luo_ann *ann)
{
    const luo_grp *grp = &ann->grp[0];
    return grp->nent == 1 && grp->ent[0].key >= 0 ? &grp->ent[0] : NULL;
}

static bool same_shares(const luo_ent *a, const luo_ent *b)
{
    if (a->n != b->n || !a->share != !b->share) return false;
    return !a->share || memcmp(a->share, b->share, (size_t)a->n * sizeof *a->share) == 0;
}

/* Does it lie so, with pieces like those seen before? */
static bool lies(const luo_ann *ann, luo_rel want, const luo_ent **cut)
{
    luo_rel rel;
    if (!luo_match_rel(ann, &rel) || !luo_rel_same(rel, want)) return false;
    const luo_ent *own = cut_of(ann);
    if (own && *cut) return same_shares(own, *cut);
    if (own) *cut = own;
    return true;
}

/* ---- sentences ---- */

static void say(luo_str *text, const char *name, const luo_ann *ann, bool first)
{
    luo_str_addf(text, first ? "`%s` as " : " with `%s` as ", name);
    luo_ann_print(text, ann);
}

static luo_status refuse(const luo_hap_op *op, const char *const *names, const luo_ann *const *in,
                         const luo_ann *other, const char *other_name, luo_err *err)
{
    luo_str text = {0};
    bool first = true;
    for (int32_t j = 0; j < op->nin; j++) {
        if (!in[j]) continue;
        say(&text, names[j], in[j], first);
        first = false;
    }
    say(&text, other_name, other, first);
    luo_err_set(err, LUO_EDEDUCE, "op `%s`: no rule takes %s; see `luoshu explain`.", op->name,
                luo_str_get(&text));
    luo_str_free(&text);
    return LUO_EDEDUCE;
}

/* ---- rules ---- */

static void set_flags(const luo_hap_op *op, const luo_hap_rule *rule, luo_hap_matched *out)
{
    const bool sum = op->nout > 0 && rule->out[0].kind == LUO_REL_R;
    bool complete = false;
    for (int32_t j = 0; j < op->nin; j++)
        complete |= rule->in[j].kind == LUO_REL_I && (op->add || j == op->bias);
    *out = (luo_hap_matched){.rule = *rule, .once = sum && complete};
    const int32_t table = op->kind == LUO_HAP_EMBEDDING ? 1 : op->kind == LUO_HAP_LOSS ? 0 : -1;
    if (table < 0 || rule->in[table].kind != LUO_REL_G) return;
    const int32_t rows = table == 1 ? 0 : (int32_t)strlen(op->in_is[0]) - 1;
    out->range = rule->in[table].dim == rows;
}

static bool fits(const luo_hap_op *op, const luo_hap_rule *rule, const luo_ann *const *in,
                 const luo_ann *const *out)
{
    const luo_ent *cut = NULL;
    for (int32_t j = 0; j < op->nin; j++)
        if (!lies(in[j], rule->in[j], &cut)) return false;
    for (int32_t k = 0; k < op->nout; k++)
        if (!lies(out[k], rule->out[k], &cut)) return false;
    return true;
}

luo_status luo_hap_match(luo_arena *arena, const luo_hap_op *op, const char *const *names,
                         const luo_ann *const *in, const luo_ann *const *out,
                         luo_hap_matched *match, luo_err *err)
{
    luo_hap_rule *rule;
    int32_t n;
    const size_t mark = luo_arena_mark(arena);
    LUO_TRY(luo_hap_rules(arena, op, &rule, &n, err));
    int32_t r = 0;
    while (r < n && !fits(op, &rule[r], in, out)) r++;
    if (r < n) set_flags(op, &rule[r], match);
    luo_arena_reset(arena, mark);
    return r < n ? LUO_OK : refuse(op, names, in, out[0], op->name, err);
}

static bool gradient_fits(const luo_hap_op *op, int32_t j, const luo_hap_rule *rule,
                          const luo_ann *const *in, const luo_ann *const *dout,
                          const luo_ann *gradient)
{
    const luo_ent *cut = NULL;
    for (int32_t k = 0; k < op->nout; k++)
        if (dout[k] && !lies(dout[k], luo_rel_dual(rule->out[k]), &cut)) return false;
    for (int32_t i = 0; i < op->nin; i++)
        if (op->need[j] >> i & 1 && !lies(in[i], rule->in[i], &cut)) return false;
    return lies(gradient, rule->grad[j], &cut);
}

luo_status luo_hap_match_gradient(luo_arena *arena, const luo_hap_op *op, int32_t j,
                                  const char *const *names, const luo_ann *const *in,
                                  const luo_ann *const *dout, const luo_ann *gradient,
                                  luo_hap_matched *match, luo_err *err)
{
    luo_hap_rule *rule;
    int32_t n;
    const size_t mark = luo_arena_mark(arena);
    LUO_TRY(luo_hap_rules(arena, op, &rule, &n, err));
    int32_t r = 0;
    while (r < n && !gradient_fits(op, j, &rule[r], in, dout, gradient)) r++;
    if (r < n) set_flags(op, &rule[r], match);
    luo_arena_reset(arena, mark);
    if (r < n) match->once = false; /* a gradient is whole wherever it is computed */
    return r < n ? LUO_OK : refuse(op, names, in, gradient, "gradient", err);
}
