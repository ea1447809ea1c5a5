/* Speeds and bandwidths. */
#include "core/plan/hap/numbers.h"

#include <math.h>

const char *luo_hap_link_name(luo_hap_link link)
{
    static const char *const names[] = {
#define LUO_HAP_WORD(value, word) [value] = word,
        LUO_HAP_LINK_LIST(LUO_HAP_WORD)
#undef LUO_HAP_WORD
    };
    return names[link];
}

int32_t luo_hap_numbers_devices(const luo_hap_numbers *numbers)
{
    int32_t n = 0;
    for (int32_t t = 0; t < numbers->ntypes; t++) n += numbers->count[t];
    return n;
}

double luo_hap_numbers_speed(const luo_hap_numbers *numbers, const luo_hap_graph *graph, int32_t o,
                             int32_t type)
{
    return numbers->op_speed ? numbers->op_speed[o * numbers->ntypes + type]
                             : numbers->speed[type][graph->op[o].class];
}

static luo_status check_speed(const luo_hap_numbers *numbers, const luo_hap_graph *graph, int32_t o,
                              luo_err *err)
{
    const luo_hap_class class = graph->op[o].class;
    for (int32_t t = 0; t < numbers->ntypes; t++) {
        const double speed = luo_hap_numbers_speed(numbers, graph, o, t);
        if (isnan(speed))
            return luo_err_set(err, LUO_EINPUT,
                               "type `%s` has no `%s_%s`, needed by op `%s`; a number above 0 or "
                               "null is expected.",
                               numbers->name[t], luo_hap_class_name(class),
                               class == LUO_HAP_ON_ELT ? "gbytes_per_s" : "tflop_per_s",
                               graph->op[o].name);
        if (!(speed > 0))
            return luo_err_set(err, LUO_EINPUT,
                               "type `%s` has speed %g for class `%s`; remove it from the cluster "
                               "or give a speed.",
                               numbers->name[t], speed, luo_hap_class_name(class));
    }
    return LUO_OK;
}

luo_status luo_hap_numbers_check(const luo_hap_numbers *numbers, const luo_hap_graph *graph,
                                 luo_err *err)
{
    for (int32_t t = 0; t < numbers->ntypes; t++)
        if (numbers->count[t] < 1)
            return luo_err_set(err, LUO_EINPUT, "type `%s` has %d devices; 1 or more is expected.",
                               numbers->name[t], numbers->count[t]);
    for (int32_t o = 0; o < graph->nops; o++) LUO_TRY(check_speed(numbers, graph, o, err));
    for (int32_t l = 0; l < LUO_HAP_LINKS; l++) {
        const bool grouped = l == LUO_HAP_LINK_AG_GROUPED || l == LUO_HAP_LINK_RS_GROUPED;
        const luo_hap_line *line = &numbers->line[l];
        if (!(line->bandwidth_bytes_s > 0) && !(grouped && line->bandwidth_bytes_s == 0))
            return luo_err_set(err, LUO_EINPUT,
                               "bandwidth of `%s` is %g; a number above 0 is expected.",
                               luo_hap_link_name((luo_hap_link)l), line->bandwidth_bytes_s);
        if (!(line->latency_s >= 0))
            return luo_err_set(err, LUO_EINPUT,
                               "latency of `%s` is %g; a number from 0 on is expected.",
                               luo_hap_link_name((luo_hap_link)l), line->latency_s);
    }
    return LUO_OK;
}
