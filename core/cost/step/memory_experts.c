/* Memory of layers with experts: rows by expert, which are experts_per_token as many as tokens
 * (docs/cost-model.md#memory). */
#include <math.h>

#include "core/cost/step/memory_internal.h"

/* What a device of a layer with experts has of it: elements. */
typedef struct share {
    double tokens;        /* that it routes */
    double rows, columns; /* of its experts: rows, and those that a gate is wide */
    double gated;         /* products before the activation */
} share;

/* Experts that are cut: the rows of all tokens, and some columns. Dealt ones: as many rows as own
 * tokens send, since all experts get equally many; one of each expert at least. */
static share share_of(const luo_mem_spec *spec)
{
    const luo_moe *moe = &spec->model->moe;
    const bool dealt = spec->experts_among > 0;
    const double all = memory_tokens(spec), t = spec->tp;
    const double each = luo_gate_kept(moe->capacity_factor) * (double)moe->experts_per_token;
    const double tokens = dealt || spec->sequence_parallel ? all / t : all;
    return (share){.tokens = tokens,
                   .rows = fmax(each * (dealt ? tokens : all), (double)moe->experts),
                   .columns = (double)moe->expert_ffn_hidden / (dealt ? 1 : t),
                   .gated = luo_model_is_gated(spec->model) ? 2 : 1};
}

static double element(const luo_mem_spec *spec)
{
    return (double)luo_dtype_bytes(spec->model->dtype);
}

static double hidden(const luo_mem_spec *spec)
{
    return (double)spec->model->hidden;
}

/* Probabilities of all experts, weights and ids of the choices. */
static double choices(const luo_mem_spec *spec, const share *s)
{
    const luo_moe *moe = &spec->model->moe;
    const double k = (double)moe->experts_per_token, sum = spec->model->dtype == LUO_F64 ? 8 : 4;
    return s->tokens * sum * (luo_model_has_router(spec->model) ? 2 * k + (double)moe->experts : k);
}

/* Bytes of the norm's result that the layer does not need, since a device sends the rows of its own
 * tokens, which it keeps instead. */
static double not_read(const luo_mem_spec *spec, const share *s, double beside)
{
    if (spec->experts_among == 0 || spec->sequence_parallel) return 0;
    const double whole = spec->model->moe.shared_experts > 0 ? 0 : memory_tokens(spec);
    return hidden(spec) * (whole * (element(spec) + beside) - s->tokens * element(spec));
}

/* Elements of a row behind the products that are kept, for the gradient of the tokens' weights. */
static double behind(const luo_mem_spec *spec)
{
    const bool inside = spec->rules && spec->rules->expert_weights_inside;
    return luo_model_has_router(spec->model) && !inside ? hidden(spec) : 0;
}

/* Rows before the products and behind them, and what the activation has read and made. */
double memory_experts_kept(const luo_mem_spec *spec)
{
    const share s = share_of(spec);
    const luo_memory_rules *rules = spec->rules;
    const double e = element(spec), h = hidden(spec);
    const bool silu = s.gated > 1 && !(rules && rules->silu_again);
    const double wide = (s.gated + 1 + silu) * s.columns;
    return e * s.rows * (h + behind(spec) + wide) + choices(spec, &s) -
           not_read(spec, &s, rules && rules->dropout ? 1 : 0);
}

/* Shared experts have gone back before. Gradients of rows come first; then what is behind the
 * products is free. */
double memory_experts_work(const luo_mem_spec *spec)
{
    const share s = share_of(spec);
    const luo_moe *moe = &spec->model->moe;
    const bool dealt = spec->experts_among > 0, apart = spec->sequence_parallel;
    const double h = hidden(spec), all = memory_tokens(spec), t = spec->tp;
    const double shared = all * (double)(moe->shared_experts * moe->shared_ffn_hidden) / t;
    const bool silu = s.gated > 1 && !(spec->rules && spec->rules->silu_again);
    const double rows = s.rows * h, wide = s.rows * s.columns, kept = s.rows * behind(spec);
    const double most = fmax(rows, fmax(rows - kept + wide, s.gated * wide - kept));
    const double own = dealt ? all * h / t : all * h; /* gradient of the sum, where it is used */
    const double come = all * h / (apart ? t : 1) + (dealt != apart ? own : 0) +
                        (shared > 0 ? all * h : 0);
    const double first = s.gated * shared + (shared > 0 ? all * h : 0);
    return element(spec) * fmax(first, come + most - (s.gated + 1 + silu) * shared);
}

double memory_experts_inputs(const luo_mem_spec *spec)
{
    const share s = share_of(spec);
    return element(spec) * s.rows * (hidden(spec) + s.columns) -
           not_read(spec, &s, spec->rules && spec->rules->dropout ? 1 : 0);
}

double memory_experts_outputs(const luo_mem_spec *spec)
{
    const share s = share_of(spec);
    const double shared = spec->model->moe.shared_experts > 0 ? 0 : memory_tokens(spec);
    return element(spec) * (s.rows * (hidden(spec) + s.gated * s.columns) - shared * hidden(spec));
}

double memory_experts_parameters(const luo_mem_spec *spec)
{
    const luo_model *model = spec->model;
    const int32_t among = spec->experts_among > 0 ? spec->experts_among : spec->tp;
    const double ins = luo_model_is_gated(model) ? 2 : 1;
    return (double)model->moe.experts * (ins + 1) * (double)model->hidden *
           (double)model->moe.expert_ffn_hidden / among;
}

/* Devices with a copy of the same experts have some whole ones each. */
double memory_experts_parts(const luo_mem_spec *spec, int32_t copies)
{
    const double all = (double)spec->model->moe.experts;
    const bool dealt = spec->experts_among > 0;
    const double here = fmax(1, dealt ? all / spec->experts_among : all);
    const double same = dealt ? fmax(1, (double)copies * spec->tp / spec->experts_among) : copies;
    return here / ceil(here / same);
}

double memory_experts_layers(const luo_mem_spec *spec)
{
    const luo_model *model = spec->model;
    if (model->moe.experts == 0) return 0;
    if (spec->dense_layers >= 0) return fmax(0, spec->layers - spec->dense_layers);
    const int64_t n = luo_model_expert_layers(model, model->layers);
    return spec->layers * (double)n / (double)model->layers;
}
