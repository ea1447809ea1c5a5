/* gate_choose.c: the choices of one token. */
#include <math.h>

#include "core/base/rng.h"
#include "core/graph/moe/gate.h"

static int32_t groups_of(const luo_gate *gate)
{
    return gate->groups > 0 ? gate->groups : 1;
}

static void softmax(const double *logits, int32_t n, double *out)
{
    double most = logits[0], sum = 0;
    for (int32_t e = 1; e < n; e++) most = fmax(most, logits[e]);
    for (int32_t e = 0; e < n; e++) sum += out[e] = exp(logits[e] - most);
    for (int32_t e = 0; e < n; e++) out[e] /= sum;
}

static bool is_among(const int32_t *at, int32_t n, int32_t e)
{
    for (int32_t i = 0; i < n; i++)
        if (at[i] == e) return true;
    return false;
}

/* The k largest of score[lo..hi), largest first, lowest place first where they are equal: k
 * different ones, whatever is no number among the scores. */
static void take_largest(const double *score, int32_t lo, int32_t hi, int32_t k, int32_t *out)
{
    for (int32_t j = 0; j < k; j++) {
        int32_t best = -1;
        for (int32_t e = lo; e < hi; e++)
            if ((best < 0 || score[e] > score[best]) && !is_among(out, j, e)) best = e;
        out[j] = best;
    }
}

static void weigh(const luo_gate *gate, const double *probability, const int32_t *expert,
                  double *weight)
{
    double sum = 0;
    for (int32_t j = 0; j < gate->k; j++) sum += weight[j] = probability[expert[j]];
    const double by = luo_gate_scale(gate) / (luo_gate_divides(gate) ? sum : 1);
    for (int32_t j = 0; j < gate->k && by != 1; j++) weight[j] *= by;
}

/* What a route group is kept by: the sum of its two best scores (sigmoid), of the one if it has no
 * more; the best one (top-k; DeepSeek-AI, arXiv 2405.04434, section 2.1.2). */
static double group_score(const luo_gate *gate, const double *score, int32_t n)
{
    double first = -INFINITY, second = -INFINITY;
    for (int32_t e = 0; e < n; e++) {
        if (score[e] > first)
            second = first, first = score[e];
        else
            second = fmax(second, score[e]);
    }
    return gate->kind == LUO_GATE_SIGMOID && n > 1 ? first + second : first;
}

/* Scores of the groups that are not kept become -INFINITY. */
static void keep_groups(const luo_gate *gate, double *score, double *group)
{
    const int32_t n = groups_of(gate), each = gate->experts / n;
    int32_t dropped = gate->groups_kept > 0 ? n - gate->groups_kept : 0;
    for (int32_t g = 0; g < n; g++) group[g] = group_score(gate, score + g * each, each);
    for (; dropped > 0; dropped--) {
        int32_t worst = -1;
        for (int32_t g = 0; g < n; g++)
            if (group[g] < INFINITY && (worst < 0 || group[g] <= group[worst])) worst = g;
        group[worst] = INFINITY;
        for (int32_t e = 0; e < each; e++) score[worst * each + e] = -INFINITY;
    }
}

static void choose_topk(const luo_gate *gate, const double *logits, double *probability,
                        int32_t *expert, double *weight, double *work)
{
    softmax(logits, gate->experts, probability);
    for (int32_t e = 0; e < gate->experts; e++) work[e] = probability[e];
    keep_groups(gate, work, work + gate->experts);
    take_largest(work, 0, gate->experts, gate->k, expert);
    weigh(gate, probability, expert, weight);
}

static void choose_ktop1(const luo_gate *gate, const double *logits, double *probability,
                         int32_t *expert, double *weight, double *work)
{
    const int32_t each = gate->experts / gate->k;
    for (int32_t j = 0; j < gate->k; j++) softmax(logits + j * each, each, probability + j * each);
    for (int32_t e = 0; e < gate->experts; e++) work[e] = probability[e];
    for (int32_t j = 0; j < gate->k; j++)
        take_largest(work, j * each, (j + 1) * each, 1, &expert[j]);
    weigh(gate, probability, expert, weight);
}

static void choose_sam(const luo_gate *gate, const double *logits, double *probability,
                       int32_t *expert, double *weight, double *work)
{
    const int32_t each = gate->experts / groups_of(gate);
    int32_t best = 0;
    double most = -1;
    softmax(logits, gate->experts, probability);
    for (int32_t g = 0; g < groups_of(gate); g++) {
        double sum = 0;
        for (int32_t e = g * each; e < (g + 1) * each; e++) sum += probability[e];
        if (sum > most) best = g;
        most = fmax(most, sum);
    }
    for (int32_t e = 0; e < gate->experts; e++) work[e] = probability[e];
    take_largest(work, best * each, (best + 1) * each, gate->k, expert);
    weigh(gate, probability, expert, weight);
}

static void choose_sigmoid(const luo_gate *gate, const double *logits, double *probability,
                           int32_t *expert, double *weight, double *work)
{
    for (int32_t e = 0; e < gate->experts; e++) {
        probability[e] = 1 / (1 + exp(-logits[e]));
        work[e] = probability[e] + (gate->bias ? gate->bias[e] : 0);
    }
    keep_groups(gate, work, work + gate->experts);
    take_largest(work, 0, gate->experts, gate->k, expert);
    weigh(gate, probability, expert, weight);
}

static void choose_hash(const luo_gate *gate, int32_t id, int32_t *expert, double *weight)
{
    *expert = (int32_t)(luo_rng_at((uint64_t)id, 0) % (uint64_t)gate->experts);
    *weight = 1;
}

int64_t luo_gate_work(const luo_gate *gate)
{
    return (int64_t)gate->experts + groups_of(gate);
}

void luo_gate_choose(const luo_gate *gate, const double *logits, int32_t id, double *probability,
                     int32_t *expert, double *weight, double *work)
{
    switch (gate->kind) {
    case LUO_GATE_TOPK:
        choose_topk(gate, logits, probability, expert, weight, work);
        return;
    case LUO_GATE_KTOP1:
        choose_ktop1(gate, logits, probability, expert, weight, work);
        return;
    case LUO_GATE_SAM:
        choose_sam(gate, logits, probability, expert, weight, work);
        return;
    case LUO_GATE_SIGMOID:
        choose_sigmoid(gate, logits, probability, expert, weight, work);
        return;
    case LUO_GATE_HASH:
        choose_hash(gate, id, expert, weight);
        return;
    case LUO_GATE_BALANCED:
        break; /* of all tokens together */
    }
}
