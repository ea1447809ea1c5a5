/* Data parallelism with even and with proportional batches, and experts apart. */
#include "core/plan/hap/baseline.h"

const char *luo_hap_baseline_name(luo_hap_baseline baseline)
{
    static const char *const names[] = {
#define LUO_HAP_WORD(value, word) [value] = word,
        LUO_HAP_BASELINE_LIST(LUO_HAP_WORD)
#undef LUO_HAP_WORD
    };
    return names[baseline];
}

static bool is_of_experts(luo_hap_kind kind)
{
    return kind == LUO_HAP_EXPERT || kind == LUO_HAP_ROWS || kind == LUO_HAP_ROWS_PAIR;
}

/* An operation on experts, or one element by element between two of them. */
static bool on_experts(const luo_hap_graph *graph, const luo_hap_op *op)
{
    if (is_of_experts(op->kind)) return true;
    if (op->kind != LUO_HAP_UNARY && op->kind != LUO_HAP_GATED) return false;
    const int32_t maker = graph->tensor[op->in[0]].maker;
    return maker >= 0 && is_of_experts(graph->op[maker].kind);
}

/* The letter of experts stands first in their weights. */
static bool set_letters(const luo_hap_graph *graph, char *letter)
{
    char expert = 0;
    for (int32_t o = 0; o < graph->nops; o++) {
        const luo_hap_op *op = &graph->op[o];
        if (is_of_experts(op->kind)) expert = op->in_is[1][0];
        if (on_experts(graph, op)) letter[o] = expert;
    }
    return expert;
}

luo_status luo_hap_baseline_find(luo_arena *arena, const luo_hap_graph *graph,
                                 const luo_hap_numbers *numbers, const luo_hap_job *job,
                                 luo_hap_baseline baseline, luo_hap_result **out, luo_err *err)
{
    luo_hap_opts opts = {.rules = "b", .compat = job->opts.compat, .layers = job->opts.layers};
    const luo_hap_start start = baseline == LUO_HAP_DP_CP ? LUO_HAP_START_PROP : LUO_HAP_START_EVEN;
    char *letter = LUO_NEW_N(arena, char, graph->nops);
    if (!letter) return luo_err_nomem(err);
    *out = NULL;
    if (baseline == LUO_HAP_EP) {
        if (!set_letters(graph, letter)) return LUO_OK;
        opts.op_letter = letter;
    }
    return luo_hap_alternate_once(arena, graph, numbers, job, &opts, start, out, err);
}
