#include "core/run/lengths/result_sum.h"

#include "core/run/parts.h"

static luo_status open(luo_result_sum *sum, const luo_step_result *first, luo_err *err)
{
    sum->parts = LUO_NEW_N(sum->arena, luo_parts, first->n);
    sum->compute_s = LUO_NEW_N(sum->arena, double, first->n);
    sum->predicted_s = LUO_NEW_N(sum->arena, double, first->n);
    sum->memory = LUO_NEW_N(sum->arena, int64_t, first->n);
    sum->links = LUO_NEW_N(sum->arena, luo_link_use, first->nlinks);
    if (!sum->parts || !sum->compute_s || !sum->predicted_s || !sum->memory || !sum->links)
        return luo_err_nomem(err);
    sum->result = (luo_step_result){.status = LUO_OK,
                                    .start_s = first->start_s,
                                    .end_s = first->start_s,
                                    .failed_device = -1,
                                    .failed_link = -1,
                                    .reused = true,
                                    .n = first->n,
                                    .parts = sum->parts,
                                    .compute_s = sum->compute_s,
                                    .predicted_s = sum->predicted_s,
                                    .memory_bytes = first->memory_bytes ? sum->memory : NULL,
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
    const double between = result->start_s - sum->result.end_s;
    for (int32_t i = 0; i < result->n; i++) {
        luo_parts_add(&sum->parts[i], &result->parts[i], 1);
        sum->parts[i].move_s += between;
        sum->compute_s[i] += result->compute_s[i];
        sum->predicted_s[i] += result->predicted_s[i];
        if (result->memory_bytes && result->memory_bytes[i] > sum->memory[i])
            sum->memory[i] = result->memory_bytes[i];
    }
    if (result->has_loss) {
        sum->result.has_loss = true;
        sum->result.loss += result->loss; /* each part's share; the last has all gradients */
        sum->result.grad_norm = result->grad_norm;
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
