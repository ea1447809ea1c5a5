/* check_hap_match.c: annotations of every rule of every operation lead back to it, forward and for
 * each gradient; what fits no rule is refused; emitted programs match. */
#include "core/plan/hap/alternate.h"
#include "core/plan/hap/emit.h"
#include "tests/check_main.h"
#include "tests/parked/hap_graphs.h"
#include "tests/parked/hap_match.h"

static const luo_ann *parse(luo_arena *a, const char *text)
{
    const luo_ann *ann;
    luo_err err = {0};
    ck_assert_msg(luo_ann_parse(a, text, &ann, &err) == LUO_OK, "%s: %s", text, err.text);
    return ann;
}

/* Three devices, the second with nothing. */
static const luo_ann *annotation(luo_arena *a, luo_rel rel)
{
    if (rel.kind == LUO_REL_I) return parse(a, "[0-2]{-1:3}");
    if (rel.kind == LUO_REL_R) return parse(a, "[0-2]{-2:3}");
    return parse(a, luo_arena_printf(a, "[0-2]{%d:(2,0,1)}", rel.dim));
}

static bool same_rels(const luo_rel *a, const luo_rel *b, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (!luo_rel_same(a[i], b[i])) return false;
    return true;
}

static int once, range; /* proof that the cases hit */

static void check_rule(luo_arena *a, const luo_hap_graph *graph, const luo_hap_op *op,
                       const luo_hap_rule *rule)
{
    const luo_ann *in[LUO_HAP_OPERANDS], *out[LUO_HAP_RESULTS], *dout[LUO_HAP_RESULTS];
    const char *names[LUO_HAP_OPERANDS];
    luo_hap_matched m;
    for (int32_t j = 0; j < op->nin; j++) {
        in[j] = annotation(a, rule->in[j]);
        names[j] = graph->tensor[op->in[j]].name;
    }
    for (int32_t k = 0; k < op->nout; k++) {
        out[k] = annotation(a, rule->out[k]);
        dout[k] = annotation(a, luo_rel_dual(rule->out[k]));
    }
    ck_assert_int_eq(luo_hap_match(a, op, names, in, out, &m, NULL), LUO_OK);
    ck_assert(same_rels(m.rule.in, rule->in, op->nin) &&
              same_rels(m.rule.out, rule->out, op->nout));
    once += m.once;
    range += m.range;
    for (int32_t j = 0; j < op->nin; j++) {
        if (!luo_hap_graph_trains(graph, op->in[j])) continue;
        ck_assert_int_eq(luo_hap_match_gradient(a, op, j, names, in, dout,
                                                annotation(a, rule->grad[j]), &m, NULL),
                         LUO_OK);
        ck_assert(luo_rel_same(m.rule.grad[j], rule->grad[j]) && !m.once);
    }
}

START_TEST(every_rule)
{
    luo_arena *a = luo_arena_new(0);
    const luo_hap_encoder sizes = {4, 8, 16, 2, 32, 32, 4, 3};
    const luo_hap_graph *graphs[] = {luo_hap_network_bert(a, &sizes, 2),
                                     luo_hap_network_graph(a, LUO_HAP_VIT, 4, 1),
                                     luo_hap_network_graph(a, LUO_HAP_VGG19, 4, 1)};
    for (int g = 0; g < 3; g++)
        for (int32_t o = 0; o < graphs[g]->nops; o++) {
            luo_hap_rule *rule;
            int32_t n;
            ck_assert_int_eq(luo_hap_rules(a, &graphs[g]->op[o], &rule, &n, NULL), LUO_OK);
            for (int32_t r = 0; r < n; r++) check_rule(a, graphs[g], &graphs[g]->op[o], &rule[r]);
        }
    ck_assert_int_gt(once, 0);
    ck_assert_int_gt(range, 0);
    luo_arena_free(a);
}
END_TEST

/* The published encoders by their sizes: two experts a device, each of 2.5 times its even share of
 * 128 tokens: 160 on one device, 54 (53.33) on three, 40 on four. */
START_TEST(published_sizes)
{
    static const struct {
        int32_t devices;
        int64_t experts, capacity;
    } rows[] = {{1, 2, 160}, {3, 6, 54}, {4, 8, 40}, {0, 0, 0}};
    luo_arena *a = luo_arena_new(0);
    const int32_t devices = rows[_i].devices;
    const luo_hap_encoder sizes = {
        16, 128, 768, 12, 3072, 33280, rows[_i].experts, rows[_i].capacity};
    const luo_hap_graph *want = luo_hap_network_bert(a, &sizes, 12);
    const luo_hap_graph *got = luo_hap_network_graph(
        a, devices ? LUO_HAP_BERT_MOE : LUO_HAP_BERT_BASE, 16, devices ? devices : 2);
    ck_assert_int_eq(got->ntensors, want->ntensors);
    ck_assert_int_eq(got->nops, want->nops);
    for (int32_t t = 0; t < got->ntensors; t++) {
        const luo_hap_tensor *x = &got->tensor[t], *y = &want->tensor[t];
        ck_assert_str_eq(x->name, y->name);
        ck_assert_int_eq(x->rank, y->rank);
        for (int32_t d = 0; d < x->rank; d++)
            ck_assert_msg(x->dim[d] == y->dim[d], "%s, dimension %d: %lld", x->name, d,
                          (long long)x->dim[d]);
    }
    luo_arena_free(a);
}
END_TEST

static const struct {
    const char *in[2], *out, *says;
} bad[] = {
    {{"[0,1]{1:(3,1)}", "[0,1]{1:(3,1)}"},
     "[0,1]{1:(3,1)}",
     "op `h0`: no rule takes `x` as [0,1]{1:(3,1)} with `w0` as [0,1]{1:(3,1)} with `h0` as "
     "[0,1]{1:(3,1)}; see `luoshu explain`."},
    {{"[0,1]{1:(3,1)}", "[0,1]{0:(1,3)}"},
     "[0,1]{-2:2}",
     "op `h0`: no rule takes `x` as [0,1]{1:(3,1)} with `w0` as [0,1]{0:(1,3)} with `h0` as "
     "[0,1]{-2:2}; see `luoshu explain`."},
};

START_TEST(bad_row)
{
    luo_arena *a = luo_arena_new(0);
    const luo_hap_mlp_in mlp = {4, 1, {32, 32}, false, false, false};
    const luo_hap_graph *graph = luo_hap_graphs_mlp(a, &mlp);
    const luo_ann *in[] = {parse(a, bad[_i].in[0]), parse(a, bad[_i].in[1])};
    const luo_ann *out[] = {parse(a, bad[_i].out)};
    luo_hap_matched m;
    luo_err err = {0};
    ck_assert_int_eq(
        luo_hap_match(a, &graph->op[0], (const char *const[]){"x", "w0"}, in, out, &m, &err),
        LUO_EDEDUCE);
    ck_assert_str_eq(err.text, bad[_i].says);
    luo_arena_free(a);
}
END_TEST

/* Of tensor x as operation `at` reads it, or where it is made. */
static const luo_ann *emitted(luo_arena *a, const luo_plan_annotation *list, int32_t n,
                              const char *tensor, const char *at)
{
    const char *found = NULL;
    for (int32_t i = 0; i < n; i++) {
        if (strcmp(list[i].tensor, tensor) != 0) continue;
        if (strcmp(list[i].at, at) == 0) return parse(a, list[i].annotation);
        if (!*list[i].at) found = list[i].annotation;
    }
    return found ? parse(a, found) : NULL;
}

/* The gradient of tensor x of operation o: of what was moved for it, or where x is made. */
static const luo_ann *emitted_back(luo_arena *a, const luo_plan_annotation *list, int32_t n,
                                   const char *tensor, const char *op)
{
    const luo_ann *moved = emitted(a, list, n, luo_arena_printf(a, "d.%s@%s", tensor, op), "");
    return moved ? moved : emitted(a, list, n, luo_arena_printf(a, "d.%s", tensor), "");
}

START_TEST(emitted_programs) /* HN2, HN3: of tensors with one reader */
{
    static const luo_hap_mlp_in mlps[] = {{4, 2, {32, 32, 32}, false, false, false},
                                          {8, 3, {16, 64, 64, 16}, true, false, false}};
    luo_arena *a = luo_arena_new(0);
    const luo_hap_graph *graph = luo_hap_graphs_mlp(a, &mlps[_i]);
    const luo_hap_numbers numbers = luo_hap_graphs_toy(NULL, (double[]){300, 100}, 4, 40, 20, 80);
    const luo_hap_job job = {0};
    luo_hap_result *result;
    luo_plan_annotation *list;
    int32_t n;
    ck_assert_int_eq(luo_hap_alternate(a, graph, &numbers, &job, &result, NULL), LUO_OK);
    ck_assert_int_eq(luo_hap_emit(a, result->program, &result->numbers, result->shares,
                                  (int32_t[]){0, 1}, &list, &n, NULL),
                     LUO_OK);
    for (int32_t o = 0; o < graph->nops; o++) {
        const luo_hap_op *op = &graph->op[o];
        const luo_ann *in[LUO_HAP_OPERANDS], *out[1];
        const char *names[LUO_HAP_OPERANDS];
        luo_hap_matched m;
        luo_err err = {0};
        for (int32_t j = 0; j < op->nin; j++) {
            names[j] = graph->tensor[op->in[j]].name;
            in[j] = emitted(a, list, n, names[j], op->name);
        }
        out[0] = emitted(a, list, n, graph->tensor[op->out[0]].name, "");
        ck_assert_msg(luo_hap_match(a, op, names, in, out, &m, &err) == LUO_OK, "%s", err.text);
        const luo_ann *dout[1] = {NULL}; /* dL is 1 everywhere */
        if (op->out[0] != graph->loss)
            dout[0] = emitted_back(a, list, n, graph->tensor[op->out[0]].name, "");
        for (int32_t j = 0; j < op->nin; j++) {
            if (!luo_hap_graph_trains(graph, op->in[j])) continue;
            const luo_ann *back = emitted_back(a, list, n, names[j], op->name);
            const luo_status st = luo_hap_match_gradient(a, op, j, names, in, dout, back, &m, &err);
            ck_assert_msg(st == LUO_OK, "%s", err.text);
        }
    }
    luo_arena_free(a);
}
END_TEST

LUO_SUITE("hap.match", LUO_T(every_rule), LUO_T_N(published_sizes, 4),
          LUO_T_N(bad_row, LUO_ROWS(bad)),
          LUO_T_N(emitted_programs, 2))
