#include "core/cost/step/memory_internal.h"

#include <math.h>

static int64_t up(double bytes)
{
    return (int64_t)ceil(bytes - 1e-6);
}

void luo_mem_state(double parameters, int64_t weight_bytes, double gradient_bytes, int32_t zero,
                   double replicas, luo_mem *out)
{
    const double moments = weight_bytes == 2 ? 12 : weight_bytes == 4 ? 8 : 16;
    const double shared = parameters / replicas;
    out->weights = up((double)weight_bytes * (zero >= 3 ? shared : parameters));
    out->gradients = up(gradient_bytes * (zero >= 2 ? shared : parameters));
    out->optimizer = up(moments * (zero >= 1 ? shared : parameters));
}

/* Context-parallel ranks of a part, and all. */
static int32_t inner_of(const luo_mem_spec *spec)
{
    return spec->context.c > 1 ? spec->context.inner : 1;
}

static int32_t ranks_of(const luo_mem_spec *spec)
{
    return spec->context.c > 1 ? spec->context.c : 1;
}

static int32_t copies_of(const luo_mem_spec *spec)
{
    return spec->replicas * ranks_of(spec);
}

double memory_tokens(const luo_mem_spec *spec)
{
    return (double)spec->micro_batch_tokens / ranks_of(spec);
}

/* Key-value heads of a device in attention, of the tokens of its part, over those that it makes of
 * its own tokens: more where ranks share heads. */
static double keys_grow(const luo_mem_spec *spec)
{
    const int64_t own = (spec->model->kv_heads + spec->tp - 1) / spec->tp, inner = inner_of(spec);
    if (own % inner == 0) return 1;
    return (double)inner / (inner % own == 0 ? (double)own : 1);
}

/* Halves of a layer, attention and feed-forward, each with a norm, a result and a sum. */
static int halves_of(const luo_model *model)
{
    return luo_model_has_attention(model) ? 2 : 1;
}

static double mlp_parameters(const luo_model *model, double ffn)
{
    const double h = (double)model->hidden, ins = luo_model_is_gated(model) ? 2 : 1;
    return (ins + 1) * h * ffn + (model->linear_bias ? ins * ffn + h : 0);
}

double luo_mem_attention_parameters(const luo_model *model, int32_t tp)
{
    const double h = (double)model->hidden, q = (double)(model->heads * model->head_dim);
    const double kv = (double)(model->kv_heads * model->head_dim);
    const double heads = (double)model->heads / tp;
    const luo_latent *latent = &model->latent;
    const double low = (double)latent->q_lora, lower = (double)latent->kv_lora;
    if (!luo_model_is_latent(model)) return h * (2 * q + 2 * kv) / tp;
    const double vectors = h * (low + lower + (double)latent->rope) +
                           (model->norm == LUO_NORM_LAYER ? 2 : 1) * (low + lower);
    return vectors + heads * ((low > 0 ? low : h) * (double)model->head_dim +
                              lower * (double)(latent->nope + latent->v) + (double)latent->v * h);
}

double luo_mem_layer_parameters(const luo_model *model, int64_t layer, int32_t tp)
{
    const double h = (double)model->hidden, q = (double)(model->heads * model->head_dim);
    const double kv = (double)(model->kv_heads * model->head_dim);
    const bool latent = luo_model_is_latent(model);
    double n = (latent ? 0 : h * (2 * q + 2 * kv)) +
               luo_model_layer_norms(model) * (model->norm == LUO_NORM_LAYER ? 2 : 1) * h;
    if (model->qkv_bias) n += q + 2 * kv;
    if (model->out_bias) n += h;
    const bool experts = luo_model_has_experts(model, layer);
    if (experts)
        n += (double)model->moe.experts *
                 mlp_parameters(model, (double)model->moe.expert_ffn_hidden) +
             (double)model->moe.shared_experts *
                 mlp_parameters(model, (double)model->moe.shared_ffn_hidden);
    else
        n += mlp_parameters(model, (double)model->ffn_hidden);
    const double router =
        experts && luo_model_has_router(model) ? h * (double)model->moe.experts : 0;
    return n / tp + router + (latent ? luo_mem_attention_parameters(model, tp) : 0);
}

int64_t luo_mem_vocab(const luo_model *model, int32_t tp)
{
    if (model->family == LUO_FAMILY_VIT) return model->classes;
    const int64_t step = (int64_t)128 * tp;
    return (model->vocab + step - 1) / step * step;
}

/* Width of what a token meets between gate and down projection; of a layer with experts, of those
 * that are shared (rows of the others: memory_experts.c). */
static double mlp_width(const luo_model *model, bool experts)
{
    if (!experts) return (double)model->ffn_hidden;
    return (double)(model->moe.shared_experts * model->moe.shared_ffn_hidden);
}

static double score_bytes(const luo_mem_spec *spec, double published)
{
    luo_memory_rules rules;
    if (!spec->rules) return published;
    rules = *spec->rules;
    rules.attention_unfused = true; /* whoever asks has seen spec->attention_fused */
    return (double)luo_memory_score_bytes(&rules, luo_dtype_bytes(spec->model->dtype));
}

/* Elements that attention keeps of a token: of what is cut by heads, q, k, v and the result; of
 * latent vectors, which are not, inputs and outputs of their norms and the shared part of the
 * keys. */
typedef struct attention_kept {
    double cut, whole;
    double beside; /* bytes: statistics of rows, what is put together by kernels of its own */
} attention_kept;

static attention_kept attention_keeps(const luo_mem_spec *spec)
{
    const luo_model *model = spec->model;
    const double e = (double)luo_dtype_bytes(model->dtype), heads = (double)model->heads;
    const double d = (double)model->head_dim, kv = (double)model->kv_heads * d;
    const luo_latent *latent = &model->latent;
    if (!luo_model_is_latent(model))
        return (attention_kept){2 * heads * d + 2 * keys_grow(spec) * kv, 0, 0};
    const double parts = d + (double)(latent->nope + latent->v);
    return (attention_kept){
        heads * (2 * d + 2 * (double)latent->v),
        (double)(2 * latent->q_lora + 2 * latent->kv_lora + (spec->rules ? 0 : latent->rope)),
        heads * (4 + (spec->attention_fused || spec->rules ? 0 : e * parts))};
}

/* Korthikanti et al., table 2, with their counts of 2-byte values written in e (masks stay one
 * byte) and 4h written f; for llama the counts of docs/cost-model.md#memory (no dropout, gated). */
static double layer_activations(const luo_mem_spec *spec, int recompute, bool experts)
{
    const luo_model *model = spec->model;
    const double e = (double)luo_dtype_bytes(model->dtype), t = spec->tp;
    const double h = (double)model->hidden, all = memory_tokens(spec) * h;
    const double f = mlp_width(model, experts) / h,
                 square = (double)(model->heads * spec->sequence_tokens) / h;
    const double q = (double)(model->heads * model->head_dim) / h;
    const attention_kept kept = attention_keeps(spec);
    const double qkv = e * kept.cut / h + kept.beside / h;
    const double home = inner_of(spec) > 1 && recompute != 2 ? e * q : 0; /* results, once more */
    const bool keeps = !spec->attention_fused && recompute == 0;          /* the attention square */
    const luo_memory_rules *rules = spec->rules;
    double whole, cut;
    const int halves = halves_of(model);
    /* inputs and outputs; the second one's input may be made again, or be the first one's */
    const bool one = halves == 2 && (model->parallel_residual || (rules && rules->norm2_again));
    const int post = model->post_norms ? 2 : 0; /* their results are read in forward alone */
    const double norms = ((one ? 3 : 2 * halves) - (model->shared_norm ? 1 : 0) + post) * e;
    const double masks = !rules || rules->dropout ? halves : 0; /* of the results of halves */
    if (recompute == 2) {
        whole = e;
        cut = 0;
    } else if (luo_model_is_gated(model)) {
        whole = norms + (rules ? masks : 0) + e * kept.whole / h;
        cut = qkv + (rules && rules->silu_again ? 3 : 4) * e * f +
              (keeps ? score_bytes(spec, e) * square : 0);
    } else {
        whole = norms + masks + e * kept.whole / h;
        cut = qkv + 2 * e * f +
              (keeps ? score_bytes(spec, 2 * e + 1) * square : 0);
    }
    cut += home;
    return all * (spec->sequence_parallel ? (whole + cut) / t : whole + cut / t) +
           (experts && recompute != 2 ? memory_experts_kept(spec) : 0);
}

double luo_mem_layer_activations(const luo_mem_spec *spec, int recompute)
{
    return layer_activations(spec, recompute, spec->model->moe.experts > 0);
}

/* Inputs of a layer's products. */
static double inputs(const luo_mem_spec *spec, bool experts)
{
    const luo_model *model = spec->model;
    const luo_memory_rules *rules = spec->rules;
    const double e = (double)luo_dtype_bytes(model->dtype), t = spec->tp, h = (double)model->hidden;
    const double low = (double)(model->latent.q_lora + model->latent.kv_lora) / h;
    const double norms = halves_of(model) * (e + (rules && rules->dropout ? 1 : 0)) + e * low;
    const double o = (double)(model->heads * luo_model_value_dim(model)) / h;
    const double cut = e * (o + mlp_width(model, experts) / h);
    return memory_tokens(spec) * h * (norms / (spec->sequence_parallel ? t : 1) + cut / t) +
           (experts ? memory_experts_inputs(spec) : 0);
}

/* What one layer leaves between the halves of a backward cut in two, for one micro-batch, bytes:
 * inputs of products, and gradients of their outputs; what a tensor group has gathered of these
 * stays whole. About as much as a layer keeps for a whole backward, or a little less. */
static double layer_weights(const luo_mem_spec *spec, bool experts)
{
    const luo_model *model = spec->model;
    const double e = (double)luo_dtype_bytes(model->dtype), t = spec->tp, h = (double)model->hidden;
    const double q = (double)(model->heads * model->head_dim) / h,
                 f = mlp_width(model, experts) / h;
    const luo_latent *latent = &model->latent;
    const double kv = luo_model_is_latent(model)
                          ? (double)(model->heads * (latent->nope + latent->v)) / h
                          : 2 * (double)(model->kv_heads * model->head_dim) / h;
    const double low = (double)(latent->q_lora + latent->kv_lora + latent->rope) / h;
    const double wide = luo_model_is_gated(model) ? 2 : 1;
    const double cut = e * (q + kv + wide * f);
    const double own = e * low / (spec->sequence_parallel ? t : 1); /* made where tokens lie */
    const double results = e * halves_of(model);
    return inputs(spec, experts) + memory_tokens(spec) * h * (results + own + cut / t) +
           (experts ? memory_experts_outputs(spec) : 0);
}

/* Is the layer that backward begins with one with experts? Those without come first. */
static bool ends_in_experts(const luo_mem_spec *spec)
{
    return memory_experts_layers(spec) > 0;
}

/* A sum over the layers of a stage of what one without experts has, and one with them. */
static double of_layers(const luo_mem_spec *spec, double layers, double dense, double experts)
{
    if (spec->model->moe.experts == 0 || spec->layers <= 0) return dense * layers;
    const double n = memory_experts_layers(spec) * layers / spec->layers;
    return dense * (layers - n) + experts * n;
}

static double kept_by(const luo_mem_spec *spec, double layers, int recompute)
{
    return of_layers(spec, layers, layer_activations(spec, recompute, false),
                     ends_in_experts(spec) ? layer_activations(spec, recompute, true) : 0);
}

/* What the last layer works on when a BI ends, beside what it leaves: what ran again. */
static double last_work(const luo_mem_spec *spec)
{
    const bool experts = ends_in_experts(spec);
    if (spec->recompute == 1)
        return layer_activations(spec, 0, experts) - layer_activations(spec, 1, experts);
    return spec->recompute == 2
               ? fmax(0, layer_activations(spec, 0, experts) - inputs(spec, experts))
               : 0;
}

/* The same of the ends of the pipeline: gradients of the logits and of the embedding's output. */
static double end_weights(const luo_mem_spec *spec)
{
    const double e = (double)luo_dtype_bytes(spec->model->dtype), h = (double)spec->model->hidden;
    const double columns = (double)luo_mem_vocab(spec->model, spec->tp) / spec->tp;
    const double own = h / (spec->sequence_parallel ? spec->tp : 1);
    return e * memory_tokens(spec) * ((spec->head ? columns + own : 0) + (spec->embedding ? h : 0));
}

/* zb_h1, zb_h2: the most when a BI begins or ends. kept, left: of one micro-batch, before and after
 * it; first, last: what is worked on then. */
static double halves(const luo_mem_spec *spec, double kept, double left, double first, double last)
{
    const int32_t m = spec->micro_batches, late = luo_sched_waiting(spec->schedule, spec->stage, m);
    const int32_t whole = luo_sched_kept(spec->schedule, spec->stages, spec->stage, m, 1);
    double most = 0;
    for (int32_t k = 0; k <= late; k++) {
        const int32_t more = m - k;
        const int32_t n = more < whole ? more : whole;
        most = fmax(most, (n - 1) * kept + k * left + fmax(kept + first, left + last));
    }
    return most;
}

static double in_flight(const luo_mem_spec *spec)
{
    const int32_t chunks = luo_sched_takes_chunks(spec->schedule) ? spec->chunks : 1;
    return luo_sched_kept(spec->schedule, spec->stages, spec->stage, spec->micro_batches, chunks);
}

static double table_parameters(const luo_mem_spec *spec)
{
    return (double)luo_mem_vocab(spec->model, spec->tp) * (double)spec->model->hidden / spec->tp;
}

/* Parameters of a layer on a device without matrices of experts. */
static double plain_parameters(const luo_mem_spec *spec, bool experts)
{
    luo_model plain = *spec->model;
    if (!experts) {
        plain.moe.experts = 0;
        return luo_mem_layer_parameters(&plain, 0, spec->tp);
    }
    const int64_t layer = plain.moe.first_dense_layers; /* the first that has them */
    luo_mem_spec cut = *spec;
    cut.experts_among = 0;
    return luo_mem_layer_parameters(&plain, layer, spec->tp) - memory_experts_parameters(&cut);
}

/* Parameters of a stage on a device without matrices of experts, and those. layer: of the larger
 * layer, both. */
static double stage_parameters(const luo_mem_spec *spec, double *layer, double *of_experts)
{
    const double table = table_parameters(spec), dense = plain_parameters(spec, false);
    const double n = memory_experts_layers(spec);
    const double plain = n > 0 ? plain_parameters(spec, true) : 0;
    const double each = n > 0 ? memory_experts_parameters(spec) : 0;
    *layer = n > 0 ? plain + each : dense;
    *of_experts = n * each;
    const bool once = spec->rules && spec->embedding && spec->head && spec->model->tied_embeddings;
    const bool places = spec->rules && spec->embedding && spec->model->position == LUO_POS_LEARNED;
    const double positions =
        (double)(luo_model_position_rows(spec->model) * spec->model->hidden);
    return of_layers(spec, spec->layers, dense, plain) + (spec->embedding ? table : 0) +
           (spec->head && !once ? table : 0) + (places ? positions : 0);
}

/* What backward of one layer works on beside what is kept: gradients of the wide part of the
 * feed-forward and of its input. */
static double layer_work(const luo_mem_spec *spec, bool experts)
{
    if (experts) return memory_experts_work(spec);
    const double e = (double)luo_dtype_bytes(spec->model->dtype);
    const double wide =
        (luo_model_is_gated(spec->model) ? 2 : 1) * mlp_width(spec->model, false);
    return e * memory_tokens(spec) * (wide / spec->tp + (double)spec->model->hidden);
}

/* Logits with their exponentials, or their gradient with that of the matrix. */
static double head_work(const luo_mem_spec *spec)
{
    const double e = (double)luo_dtype_bytes(spec->model->dtype);
    const double columns = (double)luo_mem_vocab(spec->model, spec->tp) / spec->tp;
    const double hidden = (double)spec->model->hidden, tokens = memory_tokens(spec);
    const double logits = tokens * columns * (e + 4 + (spec->rules->cross_entropy_unfused ? 4 : 0));
    const double dummy = spec->rules->dummy_gradients ? e * columns * hidden : 0;
    return fmax(logits, e * tokens * (columns + hidden) + dummy) +
           2 * e * tokens * hidden / (spec->sequence_parallel ? spec->tp : 1);
}

/* Keys and values that come and go round a ring, and twice that of gradients; packed copies of an
 * exchange (docs/architecture/context.md#the-rest-of-the-step). */
static double context_work(const luo_mem_spec *spec)
{
    if (spec->context.c < 2) return 0;
    const double e = (double)luo_dtype_bytes(spec->model->dtype), d = (double)spec->model->head_dim;
    const double keys =
        memory_tokens(spec) * d * keys_grow(spec) * (double)spec->model->kv_heads / spec->tp;
    const double queries = memory_tokens(spec) * d * (double)spec->model->heads / spec->tp;
    const double ring = luo_context_parts(&spec->context) > 1 ? 12 * keys : 0;
    return e * (ring + (inner_of(spec) > 1 ? 2 * queries + 2 * keys : 0));
}

/* What a layer works on (run again or not), beside what is kept. */
static double at_work(const luo_mem_spec *spec, bool again, bool experts)
{
    const double e = (double)luo_dtype_bytes(spec->model->dtype);
    const double layer = again ? layer_activations(spec, 0, experts) : 0;
    const double input = again ? layer_activations(spec, 2, experts) : 0; /* kept anyway */
    /* scores made again, beside q, k, v and what they give */
    const double dropped = spec->recompute == 1 ? layer_activations(spec, 0, experts) -
                                                      layer_activations(spec, 1, experts)
                                                : 0;
    const double attention = dropped + 3 * e * memory_tokens(spec) *
                                           (double)(spec->model->heads * spec->model->head_dim) /
                                           spec->tp;
    /* what the feed-forward has kept is free by then: counted where rows of experts make it much */
    const double free = experts ? memory_experts_kept(spec) : 0;
    const double beside = fmax(dropped > 0 ? attention : 0, context_work(spec)) - free;
    return layer - input + fmax(layer_work(spec, experts), beside);
}

/* The working set, or the larger of what the head and a layer work on. */
static double work(const luo_mem_spec *spec, bool again)
{
    const double e = (double)luo_dtype_bytes(spec->model->dtype);
    const bool experts = ends_in_experts(spec);
    const double logits =
        memory_tokens(spec) * (double)luo_mem_vocab(spec->model, spec->tp) / spec->tp * (e + 4 + 4);
    if (!spec->rules)
        return (again ? layer_activations(spec, 0, experts) : 0) + (spec->head ? logits : 0) +
               context_work(spec);
    double one = at_work(spec, again, experts);
    if (again && experts && memory_experts_layers(spec) < spec->layers)
        one = fmax(one, at_work(spec, again, false)); /* whose feed-forward may be wider */
    return spec->head ? fmax(one, head_work(spec)) : one;
}

/* A micro-batch's output, where the stack keeps what it has sent. */
static double outputs(const luo_mem_spec *spec)
{
    if (!spec->rules || !spec->rules->outputs_kept || spec->stage == spec->stages - 1) return 0;
    const double e = (double)luo_dtype_bytes(spec->model->dtype);
    return e * memory_tokens(spec) * (double)spec->model->hidden /
           (spec->sequence_parallel ? spec->tp : 1);
}

static double stage_activations(const luo_mem_spec *spec)
{
    const double redone = spec->recompute == 0         ? 0
                          : spec->recompute_layers < 0 ? spec->layers
                                                       : fmin(spec->recompute_layers, spec->layers);
    const double kept =
        kept_by(spec, redone, spec->recompute) + kept_by(spec, spec->layers - redone, 0);
    const double beside = work(spec, spec->recompute == 2 && redone > 0);
    if (luo_sched_splits(spec->schedule))
        return halves(spec, kept + outputs(spec),
                      of_layers(spec, spec->layers, layer_weights(spec, false),
                                ends_in_experts(spec) ? layer_weights(spec, true) : 0) +
                          end_weights(spec),
                      beside, spec->rules ? last_work(spec) : 0);
    return (kept / spec->chunks + outputs(spec)) * in_flight(spec) + beside;
}

static double gradient_bytes(const luo_mem_spec *spec)
{
    return spec->gradient_bytes > 0 ? spec->gradient_bytes : 4;
}

/* Lanes in which a stage speaks with others: forward and backward, sends and receives. */
static int32_t lanes_between_stages(const luo_mem_spec *spec)
{
    const bool wraps =
        spec->chunks > 1; /* behind the last stage comes the first one's next chunk */
    if (spec->stages < 2) return 0;
    return 2 * (wraps || spec->stage > 0) + 2 * (wraps || spec->stage < spec->stages - 1);
}

/* Whole or dealt tensors are summed and gathered among other devices than those of the copies: in
 * context parallelism by parts, replicas and both, of dealt experts among those that have them. */
static int32_t groups_besides(const luo_mem_spec *spec, bool cut)
{
    const bool context = ranks_of(spec) > 1;
    int32_t n = 0;
    if (context) n += (spec->tp > 1) + (spec->tp > 1 && spec->sequence_parallel) + (cut ? 4 : 0);
    if (spec->experts_among > 0) n += context ? 4 : 2;
    return n;
}

/* Of a table tied over two stages: all that hold it, who may be all that there are; with ZeRO-2 and
 * 3 a lane for the copy and one for its gradient. */
static int32_t groups_of_table(const luo_mem_spec *spec)
{
    if (spec->embedding == spec->head || !spec->model->tied_embeddings) return 0;
    return spec->zero >= 2 ? 2 : spec->tp > 1 || spec->stages > 2;
}

int32_t luo_mem_communicators(const luo_mem_spec *spec)
{
    const int32_t copies = copies_of(spec);
    const bool cut = spec->zero > 0 && copies > 1;
    /* what devices of a tensor group have whole is summed once a step, or gathered from pieces */
    const bool whole = spec->tp > 1 && (spec->sequence_parallel || cut || spec->experts_among > 0);
    const bool alone =
        spec->stages == 1 && (spec->tp == 1 || (copies == 1 && whole)); /* those are all */
    int32_t n = lanes_between_stages(spec);
    n += spec->tp > 1;
    n += inner_of(spec) > 1;
    n += luo_context_parts(&spec->context) > 1;
    n += copies > 1;
    n += whole;
    n += !alone && spec->tp * spec->stages * copies > 1; /* the norm of all gradients */
    return n + groups_of_table(spec) + groups_besides(spec, cut);
}

/* The rules' sums in the place of the closed form's. */
static void total(const luo_mem_spec *spec, double sum, luo_mem *mem)
{
    static const luo_memory_rules none = {.allocator_factor = 1.05};
    luo_memory_rules rules = spec->rules ? *spec->rules : none;
    if (spec->factor > 0) rules.allocator_factor = spec->factor;
    const double factor = rules.allocator_factor > 0 ? rules.allocator_factor : 1;
    const double headroom = rules.headroom_factor > 1 ? rules.headroom_factor : 1;
    const double beside =
        spec->reserved_bytes +
        (rules.communicator_bytes > 0 ? luo_mem_communicators(spec) * rules.communicator_bytes : 0);
    mem->allocated = up(sum + rules.framework_bytes);
    mem->peak = up((sum + rules.framework_bytes) * factor + beside);
    mem->needed = up((sum + rules.framework_bytes) * factor * headroom + beside);
}

/* Gradients without content, one for each matrix of a layer; products of experts have none. */
static double dummies(const luo_mem_spec *spec)
{
    const double layer = plain_parameters(spec, ends_in_experts(spec));
    const double e = (double)luo_dtype_bytes(spec->model->dtype);
    return spec->rules && spec->rules->dummy_gradients && spec->layers > 0 ? e * layer : 0;
}

/* Parameters of the largest matrix of the stage. */
static double widest(const luo_mem_spec *spec)
{
    const luo_model *model = spec->model;
    const double h = (double)model->hidden, q = (double)(model->heads * model->head_dim);
    const double table = spec->embedding || spec->head ? table_parameters(spec) : 0;
    const bool experts = ends_in_experts(spec);
    const double wide = fmax(table, h * fmax(mlp_width(model, experts), q) / spec->tp);
    const double ins = luo_model_is_gated(model) ? 2 : 1;
    return experts ? fmax(wide, memory_experts_parameters(spec) / (ins + 1)) : wide;
}

/* Parameters at which a bucket is full; a tensor that is larger is one by itself. */
static double bucket_parameters(const luo_mem_spec *spec, double layer)
{
    const double least = 40e6, each_replica = 1e6, deepspeed = 5e8, mib = 1048576, ddp = 25;
    const double bytes = gradient_bytes(spec);
    switch (spec->zero == 3 ? LUO_BUCKET_UNIT : spec->bucket.rule) {
    case LUO_BUCKET_UNIT: return layer;
    case LUO_BUCKET_MIB: return spec->bucket.mib * mib / bytes;
    case LUO_BUCKET_DDP: return ddp * mib / bytes;
    case LUO_BUCKET_MEGATRON: return fmax(least, each_replica * spec->replicas);
    case LUO_BUCKET_DEEPSPEED: return deepspeed;
    case LUO_BUCKET_UNSAID:
    case LUO_BUCKET_RULES: break;
    }
    return 0;
}

/* Parameters of two buckets: one is filled while another travels. */
static double two_buckets(const luo_mem_spec *spec, double layer)
{
    const bool by_unit = spec->zero == 3 || spec->bucket.rule == LUO_BUCKET_UNIT;
    const double full = bucket_parameters(spec, layer);
    return 2 * (by_unit ? full : fmax(widest(spec), full));
}

/* ZeRO 1: gradients of a bucket are packed rank by rank, beside what a rank receives of them. Calls
 * of two lanes have the room of two buckets, which close behind the tensor that fills them. */
static double packed_room(const luo_mem_spec *spec, double parameters, double layer)
{
    const luo_memory_rules *rules = spec->rules;
    const double copies = copies_of(spec), lanes = 2;
    if (!rules || !rules->calls_beside || rules->flat_gradients || spec->zero != 1 || copies < 2)
        return 0;
    const double closed = bucket_parameters(spec, layer) + widest(spec) / 2;
    return gradient_bytes(spec) * (1 + 1 / copies) * fmin(parameters, lanes * closed);
}

/* ZeRO 2 and 3: gradients of a micro-batch before they are cut. While they pile up backward gives
 * free what the layers before have kept. */
static double uncut(const luo_mem_spec *spec, double layer)
{
    const double table = table_parameters(spec), room = two_buckets(spec, layer);
    const double layers = spec->layers / spec->chunks,
                 kept = layer_activations(spec, spec->recompute, ends_in_experts(spec));
    double most = 0;
    if (spec->zero < 2 || copies_of(spec) < 2) return 0;
    for (double k = 0; k <= layers; k++) {
        const bool ends = k + 1 > layers && spec->embedding;
        const double made = k * layer + (spec->head ? table : 0) + (ends ? table : 0);
        most = fmax(most, gradient_bytes(spec) * fmin(made, room) - fmax(0, k - 1) * kept);
    }
    return most;
}

/* Their state is cut over the copies there are of them, which are others. */
static void add_experts(const luo_mem_spec *spec, int64_t e, double parameters, luo_mem *mem)
{
    luo_mem more = {0};
    luo_mem_state(parameters, e, gradient_bytes(spec), spec->zero,
                  memory_experts_parts(spec, copies_of(spec)), &more);
    mem->weights += more.weights;
    mem->gradients += more.gradients;
    mem->optimizer += more.optimizer;
}

/* Embedding and head share a tied table's state: both stages have all of it, or pieces cut over
 * both (ZeRO-1; where gradients are one array, each stage cuts its own). With ZeRO-2 and 3 it lies
 * with the embedding, where the copy's gradient arrives. */
static void share_table(const luo_mem_spec *spec, int64_t e, luo_mem *mem)
{
    luo_mem table = {0};
    luo_mem_state(table_parameters(spec), e, gradient_bytes(spec), spec->zero, copies_of(spec),
                  &table);
    if (spec->zero == 1 && !spec->rules->flat_gradients) mem->optimizer -= table.optimizer / 2;
    if (spec->zero < 2) return;
    if (spec->head)
        mem->optimizer -= table.optimizer;
    else
        mem->gradients += table.gradients;
}

void luo_mem_stage(const luo_mem_spec *spec, luo_mem *out)
{
    const int64_t e = luo_dtype_bytes(spec->model->dtype);
    double layer = 0, of_experts = 0, buffers = spec->buffer_bytes;
    luo_mem mem = {0};
    const double parameters = stage_parameters(spec, &layer, &of_experts);
    luo_mem_state(parameters, e, gradient_bytes(spec), spec->zero, copies_of(spec), &mem);
    if (of_experts > 0) add_experts(spec, e, of_experts, &mem);
    if (spec->rules && spec->head != spec->embedding && spec->model->tied_embeddings)
        share_table(spec, e, &mem);
    if (spec->rules) luo_memory_held(spec->rules, e, &mem.gradients, &mem.optimizer);
    const int32_t gathered = spec->gathered > 0 ? spec->gathered : 2;
    if (spec->zero >= 3 && copies_of(spec) > 1) buffers += gathered * (double)e * layer;
    buffers += uncut(spec, layer) + packed_room(spec, parameters, layer) + dummies(spec);
    const double activations = stage_activations(spec);
    mem.activations = up(activations);
    mem.buffers = up(buffers);
    total(spec, (double)(mem.weights + mem.gradients + mem.optimizer) + activations + buffers,
          &mem);
    *out = mem;
}
