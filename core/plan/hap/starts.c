/* Shares to begin with. */
#include <math.h>

#include "core/plan/hap/alternate.h"

/* Shares of one segment in proportion to weights of types; no weights: even. */
static void proportional(const luo_hap_numbers *numbers, const double *weight, double *share)
{
    double sum = 0;
    for (int32_t t = 0; t < numbers->ntypes; t++) sum += numbers->count[t] * weight[t];
    for (int32_t t = 0; t < numbers->ntypes; t++)
        share[t] =
            sum > 0 && isfinite(sum) ? weight[t] / sum : 1. / luo_hap_numbers_devices(numbers);
}

/* Seconds of all work of a segment on a type; infinite speeds add nothing. */
static double seconds_of(const luo_hap_graph *graph, const luo_hap_numbers *numbers,
                         int32_t segment, int32_t type, bool compat)
{
    double seconds = 0;
    for (int32_t o = 0; o < graph->nops; o++) {
        const luo_hap_op *op = &graph->op[o];
        const double work = compat ? 3 * op->compat : luo_hap_graph_work(op);
        if (op->segment == segment)
            seconds += work / luo_hap_numbers_speed(numbers, graph, o, type);
    }
    return seconds;
}

static void weigh(const luo_hap_graph *graph, const luo_hap_numbers *numbers, luo_hap_start start,
                  int32_t segment, bool compat, double *weight)
{
    for (int32_t t = 0; t < numbers->ntypes; t++)
        weight[t] = start == LUO_HAP_START_EVEN ? 1
                    : start == LUO_HAP_START_MEM
                        ? numbers->memory_bytes[t]
                        : 1 / seconds_of(graph, numbers, segment, t, compat);
}

bool luo_hap_start_shares(const luo_hap_graph *graph, const luo_hap_numbers *numbers,
                          luo_hap_start start, bool compat, double *shares)
{
    for (int32_t t = 0; t < numbers->ntypes && start == LUO_HAP_START_MEM; t++)
        if (!(numbers->memory_bytes[t] > 0)) return false;
    for (int32_t s = 0; s < graph->nsegments; s++) {
        double weight[LUO_HAP_TYPES];
        weigh(graph, numbers, start, s, compat, weight);
        proportional(numbers, weight, &shares[s * numbers->ntypes]);
    }
    return true;
}
