/* Descriptors of layers: defaults, and what is wrong with given ones. */
#include "core/plan/auto/layer.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

luo_auto_layer luo_auto_layer_transformer(const char *name, const luo_auto_widths *widths)
{
    const double h = widths->hidden, f = widths->ffn, s = widths->sequence,
                 products = 4 * h * h + 2 * h * f;
    return (luo_auto_layer){.name = name,
                            .parameters = products + 9 * h + f,
                            .forward_flop = 2 * s * products + 4 * s * s * h,
                            .boundary_bytes = 2 * s * h,
                            .act_s_bytes = 10 * s * h,
                            .act_t_bytes = 24 * s * h + 5 * widths->heads * s * s,
                            .act_c_bytes = 2 * s * h,
                            .heads = (int64_t)widths->heads,
                            .ffn = (int64_t)widths->ffn};
}

luo_auto_layer luo_auto_layer_embedding(const char *name, const luo_auto_widths *widths)
{
    return (luo_auto_layer){.name = name,
                            .parameters = widths->vocabulary * widths->hidden,
                            .boundary_bytes = 2 * widths->sequence * widths->hidden};
}

luo_auto_layer luo_auto_layer_head(const char *name, const luo_auto_widths *widths)
{
    const double input = 2 * widths->sequence * widths->hidden;
    return (luo_auto_layer){.name = name,
                            .parameters = widths->vocabulary * widths->hidden,
                            .forward_flop = input * widths->vocabulary,
                            .boundary_bytes = input,
                            .act_s_bytes = input,
                            .act_t_bytes = 2 * widths->sequence * widths->vocabulary,
                            .act_c_bytes = input};
}

/* In the order of the struct, with the words of messages. */
static const struct {
    size_t at;
    const char *noun;
} numbers[] = {
    {offsetof(luo_auto_layer, parameters), "parameter count"},
    {offsetof(luo_auto_layer, forward_flop), "time"},
    {offsetof(luo_auto_layer, boundary_bytes), "boundary size"},
    {offsetof(luo_auto_layer, act_s_bytes), "kept size (act_s_bytes)"},
    {offsetof(luo_auto_layer, act_t_bytes), "kept size (act_t_bytes)"},
    {offsetof(luo_auto_layer, act_c_bytes), "kept size (act_c_bytes)"},
};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

static double number_of(const luo_auto_layer *layer, int k)
{
    double v;
    memcpy(&v, (const char *)layer + numbers[k].at, sizeof v);
    return v;
}

bool luo_auto_layer_same(const luo_auto_layer *a, const luo_auto_layer *b)
{
    for (int k = 0; k < NUMBERS; k++)
        if (number_of(a, k) != number_of(b, k)) return false;
    return a->heads == b->heads && a->ffn == b->ffn;
}

luo_status luo_auto_layers_check(const luo_auto_layer *layer, int32_t n, luo_err *err)
{
    for (int32_t l = 0; l < n; l++)
        for (int k = 0; k < NUMBERS; k++) {
            const double v = number_of(&layer[l], k);
            if (v >= 0 && isfinite(v)) continue;
            return luo_err_set(err, LUO_EINPUT,
                               "%s of layer '%s' is %s; a number of at least 0 is expected.",
                               numbers[k].noun, layer[l].name ? layer[l].name : "?",
                               v < 0 ? "negative" : "not a finite number");
        }
    return LUO_OK;
}
