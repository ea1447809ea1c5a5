#include "core/graph/rope.h"

#include <math.h>

#define PI 3.14159265358979323846

int64_t luo_rope_pairs(const luo_model *model)
{
    const double share = model->partial_rotary > 0 ? model->partial_rotary : 1;
    if (luo_model_is_latent(model)) return model->latent.rope / 2;
    return (int64_t)((double)model->head_dim * share) / 2;
}

/* Of sines and cosines: yarn and longrope sharpen the softmax by it. */
static double factor_of(const luo_model *model)
{
    const luo_rope_scaling *scaling = &model->rope;
    if (scaling->kind != LUO_ROPE_YARN && scaling->kind != LUO_ROPE_LONGROPE) return 1;
    if (scaling->attention_factor > 0) return scaling->attention_factor;
    if (scaling->kind == LUO_ROPE_YARN) return 0.1 * log(scaling->factor) + 1;
    return scaling->factor > 1
               ? sqrt(1 + log(scaling->factor) / log((double)scaling->original_tokens))
               : 1;
}

/* Share of the divided frequency, 0 to 1, of one that turns `rounds` times in the original length:
 * none above high, all of it below low. */
static double slow_share(const luo_rope_scaling *scaling, double rounds)
{
    return fmin(1,
                fmax(0, (scaling->high_freq - rounds) / (scaling->high_freq - scaling->low_freq)));
}

/* Pair, with a fraction, that turns `rounds` times in the original length. */
static double pair_of(const luo_model *model, double rounds)
{
    const double d = 2 * (double)luo_rope_pairs(model);
    return d * log((double)model->rope.original_tokens / (rounds * 2 * PI)) /
           (2 * log(model->rope_base));
}

/* The same, by pairs between two whole ones. */
static double ramp(const luo_model *model, int64_t pair)
{
    const double last = 2 * (double)luo_rope_pairs(model) - 1;
    const double low = fmax(0, floor(pair_of(model, model->rope.beta_fast)));
    const double high = fmin(last, ceil(pair_of(model, model->rope.beta_slow)));
    const double width = high == low ? 0.001 : high - low;
    return fmin(1, fmax(0, ((double)pair - low) / width));
}

static void find_frequencies(const luo_model *model, int64_t tokens, double *out)
{
    const luo_rope_scaling *scaling = &model->rope;
    const luo_rope_factors *by =
        tokens > scaling->original_tokens ? &scaling->long_factors : &scaling->short_factors;
    const int64_t n = luo_rope_pairs(model);
    for (int64_t i = 0; i < n; i++) {
        const double plain = pow(model->rope_base, -(double)i / (double)n);
        if (scaling->kind == LUO_ROPE_LONGROPE) {
            out[i] = plain / by->at[i];
            continue;
        }
        const double rounds = (double)scaling->original_tokens * plain / (2 * PI);
        const double share = scaling->kind == LUO_ROPE_LINEAR   ? 1
                             : scaling->kind == LUO_ROPE_LLAMA3 ? slow_share(scaling, rounds)
                                                                : ramp(model, i);
        out[i] = plain * (share / scaling->factor + 1 - share);
    }
}

luo_turns luo_rope_turns(const luo_model *model, int64_t layer, int64_t tokens, double *room)
{
    const luo_rope_kind kind = model->rope.kind;
    luo_turns by = {.base = model->rope_base,
                    .factor = factor_of(model),
                    .turned = 2 * (int)luo_rope_pairs(model)};
    if (model->rope_local_base > 0 && luo_window_of(&model->window, layer) > 0) {
        by.base = model->rope_local_base;
        by.factor = 1;
    } else if (kind != LUO_ROPE_PLAIN && kind != LUO_ROPE_DYNAMIC) {
        find_frequencies(model, tokens, room);
        by.frequency = room;
    }
    return by;
}
