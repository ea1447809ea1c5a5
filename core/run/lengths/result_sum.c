#include "core/run/lengths/result_sum.h"

#include "core/run/parts.h"

static luo_status open(luo_result_sum *sum, const luo_step_result *first, luo_err *err)
{
    sum->parts = LUO_NEW_N(sum->arena, luo_parts, first->n);
    sum->compute_s = LUO_NEW_N(sum->arena, double, first->n);
    sum->predicted_s = LUO_NEW_N(sum->arena, double, first->n);
    sum->links = LUO_NEW_N(sum->arena, luo_link_use, first->nlinks);
    if (!sum->parts || !sum->compute_s || !sum->predicted_s || !sum->links)
        return luo_err_nomem(err);
    sum->result = (luo_step_result){.status = LUO_OK,
                                    .start_s = first->start_s,
                                    .failed_device = -1,
                                    .failed_link = -1,
                                    .reused = true,
                                    .n = first->n,
                                    .parts = sum->parts,
                                    .compute_s = sum->compute_s,
                                    .predicted_s = sum->predicted_s,
                                    .nlinks = first->links ? first->nlinks : 0,
                                    .links = first->links ? sum->links : NULL};
    return LUO_OK;
}

luo_status luo_result_add(luo_result_sum *sum, const luo_step_result *result, luo_err *err)
{
    if (!sum->parts) LUO_TRY(open(sum, result, err));
    if (result->n != sum->result.n)
        return luo_err_set(err, LUO_EBUG, "parts of a step run on %d and on %d devices.",
                           sum->result.n, result->n);
    for (int32_t i = 0; i < result->n; i++) {
        luo_parts_add(&sum->parts[i], &result->parts[i], 1);
        sum->compute_s[i] += result->compute_s[i];
        sum->predicted_s[i] += result->predicted_s[i];
    }
    for (int32_t i = 0; i < sum->result.nlinks && result->links; i++) {
        sum->links[i].bytes_up += result->links[i].bytes_up;
        sum->links[i].bytes_down += result->links[i].bytes_down;
        sum->links[i].busy_up_s += result->links[i].busy_up_s;
        sum->links[i].busy_down_s += result->links[i].busy_down_s;
    }
    sum->result.end_s = result->end_s;
    sum->result.reused &= result->reused;
    return LUO_OK;
}
