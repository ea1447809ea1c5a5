/* network.c: the forward pass of each type, as its modeling_*.py has it. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/hf/public.h"

double number(const folder *f, const char *key, double otherwise)
{
    const json_t *v = json_object_get(f->config, key);
    return json_is_number(v) ? json_number_value(v) : otherwise;
}

int flag(const folder *f, const char *key, int otherwise)
{
    const json_t *v = json_object_get(f->config, key);
    return json_is_boolean(v) ? json_is_true(v) : otherwise;
}

const char *text(const folder *f, const char *key)
{
    const char *v = json_string_value(json_object_get(f->config, key));
    return v ? v : "";
}

typedef struct network {
    const folder *f;
    const char *type;
    int t, h, heads, groups, d,
        v; /* tokens, width, heads, of keys, sizes of a head and its values */
    int layer;
    double eps;
    const char *at; /* "model.layers." */
} network;

static int is(const network *w, const char *type)
{
    return strcmp(w->type, type) == 0;
}

static double *zeros(int64_t n)
{
    return calloc((size_t)n, sizeof(double));
}

/* The tensor of the layer, or of none if name begins with `/`. */
static const tensor *get(const network *w, const char *name, const char *end)
{
    char full[256];
    if (name[0] == '/')
        snprintf(full, sizeof full, "%s%s", name + 1, end);
    else
        snprintf(full, sizeof full, "%s%d.%s%s", w->at, w->layer, name, end);
    return find(w->f, full);
}

static const tensor *need(const network *w, const char *name, const char *end)
{
    const tensor *t = get(w, name, end);
    if (!t) give_up("missing tensor", name);
    return t;
}

/* nn.Linear: y = x W^T + b with W [out, in]; Conv1D of gpt2: y = x W + b with W [in, out]. */
static double *linear(const network *w, const char *name, const double *x, int rows)
{
    const tensor *weight = need(w, name, ".weight"), *bias = get(w, name, ".bias");
    const int conv = is(w, "gpt2") && name[0] != '/';
    const int64_t in = weight->dim[conv ? 0 : 1], out = weight->dim[conv ? 1 : 0];
    double *y = zeros(rows * out);
    for (int i = 0; i < rows; i++)
        for (int64_t o = 0; o < out; o++) {
            double sum = bias ? bias->at[o] : 0;
            for (int64_t k = 0; k < in; k++)
                sum += x[i * in + k] * weight->at[conv ? k * out + o : o * in + k];
            y[i * out + o] = sum;
        }
    return y;
}

/* Of each of `rows` rows of n. A norm with a bias is a LayerNorm. */
static double *norm(const network *w, const char *name, const double *x, int rows, int n)
{
    const tensor *weight = need(w, name, ".weight"), *bias = get(w, name, ".bias");
    const double one = strncmp(w->type, "gemma", 5) == 0; /* their norms multiply by 1 + weight */
    double *y = zeros((int64_t)rows * n);
    if (weight->n != n) give_up("another size of norm", name);
    for (int i = 0; i < rows; i++) {
        double mean = 0, square = 0;
        for (int k = 0; k < n && bias; k++) mean += x[i * n + k] / n;
        for (int k = 0; k < n; k++) square += (x[i * n + k] - mean) * (x[i * n + k] - mean) / n;
        for (int k = 0; k < n; k++)
            y[i * n + k] = (x[i * n + k] - mean) / sqrt(square + w->eps) * (one + weight->at[k]) +
                           (bias ? bias->at[k] : 0);
    }
    return y;
}

static void add(double *x, const double *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) x[i] += y[i];
}

/* ---- positions ---- */

static double scaling(const network *w, const char *key, double otherwise)
{
    const json_t *v = json_object_get(json_object_get(w->f->config, "rope_scaling"), key);
    return json_is_number(v) ? json_number_value(v) : otherwise;
}

/* Of every sixth layer, or so, of a gemma3_text attention sees everything. */
static int is_global(const network *w)
{
    return (w->layer + 1) % (int)number(w->f, "sliding_window_pattern", 6) == 0;
}

/* Radians a position of pair i of n elements; with `rope_scaling` as YaRN has it, or linear. */
static double frequency(const network *w, int i, int n)
{
    const int two = is(w, "gemma3_text");
    const double base =
        two && !is_global(w)
            ? number(w->f, "rope_local_base_freq", 10000)
            : number(w->f, is(w, "gpt_neox") ? "rotary_emb_base" : "rope_theta", two ? 1e6 : 10000);
    const double plain = pow(base, -2.0 * i / n), factor = scaling(w, "factor", 1);
    const json_t *scale = json_object_get(w->f->config, "rope_scaling");
    const int longer = w->f->sequence > number(w->f, "original_max_position_embeddings", 0);
    const json_t *by =
        json_array_get(json_object_get(scale, longer ? "long_factor" : "short_factor"), (size_t)i);
    if (by) return plain / json_number_value(by);
    if (two) return is_global(w) ? plain / factor : plain;
    const double length = scaling(w, "original_max_position_embeddings", 1);
    if (factor == 1) return plain;
    double low =
        floor(n * log(length / (scaling(w, "beta_fast", 32) * 2 * M_PI)) / (2 * log(base)));
    double high = ceil(n * log(length / (scaling(w, "beta_slow", 1) * 2 * M_PI)) / (2 * log(base)));
    low = fmax(low, 0), high = fmin(high, n - 1);
    const double ramp = fmin(1, fmax(0, (i - low) / (high == low ? 0.001 : high - low)));
    return plain / factor * ramp + plain * (1 - ramp);
}

/* What sines and cosines are multiplied by with factors for each pair. */
static double amplitude(const network *w)
{
    const double before = number(w->f, "original_max_position_embeddings", 0);
    const double longer = number(w->f, "max_position_embeddings", 0) / before;
    if (!json_object_get(json_object_get(w->f->config, "rope_scaling"), "long_factor")) return 1;
    return longer > 1 ? sqrt(1 + log(longer) / log(before)) : 1;
}

/* What YaRN multiplies scores by in DeepSeek's models. */
static double sharpness(const network *w)
{
    const double factor = scaling(w, "factor", 1), all = scaling(w, "mscale_all_dim", 0);
    return factor > 1 ? pow(0.1 * all * log(factor) + 1, 2) : 1;
}

/* Elements first .. first + n - 1 of every vector of size d: pairs of the first and second half, or
 * neighbours. */
static void turn(const network *w, double *x, int heads, int d, int first, int n, int neighbours)
{
    for (int t = 0; t < w->t; t++)
        for (int j = 0; j < heads; j++)
            for (int i = 0; i < n / 2; i++) {
                double *at = x + ((int64_t)t * heads + j) * d + first;
                double *a = at + (neighbours ? 2 * i : i),
                       *b = at + (neighbours ? 2 * i + 1 : i + n / 2);
                const double angle = t * frequency(w, i, n), p = *a, q = *b;
                *a = (p * cos(angle) - q * sin(angle)) * amplitude(w);
                *b = (q * cos(angle) + p * sin(angle)) * amplitude(w);
            }
}

/* ---- attention ---- */

/* q [t, heads, d], k [t, groups, d], v [t, groups, w->v] -> [t, heads, w->v] */
static double *attend(const network *w, const double *q, const double *k, const double *v,
                      int window)
{
    const double scalar = number(w->f, "query_pre_attn_scalar", w->d);
    const double scale = is(w, "gpt_neo") ? 1 : sharpness(w) / sqrt(scalar);
    const double cap = number(w->f, "attn_logit_softcapping", 0);
    double *o = zeros((int64_t)w->t * w->heads * w->v), *score = zeros(w->t);
    for (int t = 0; t < w->t; t++)
        for (int j = 0; j < w->heads; j++) {
            const int g = j / (w->heads / w->groups);
            const int from = window > 0 && t - window + 1 > 0 ? t - window + 1 : 0;
            double most = -INFINITY, sum = 0;
            for (int s = from; s <= t; s++) {
                score[s] = 0;
                for (int i = 0; i < w->d; i++)
                    score[s] += q[((int64_t)t * w->heads + j) * w->d + i] *
                                k[((int64_t)s * w->groups + g) * w->d + i];
                score[s] *= scale;
                if (cap > 0) score[s] = cap * tanh(score[s] / cap);
                if (score[s] > most) most = score[s];
            }
            for (int s = from; s <= t; s++) sum += score[s] = exp(score[s] - most);
            for (int s = from; s <= t; s++)
                for (int i = 0; i < w->v; i++)
                    o[((int64_t)t * w->heads + j) * w->v + i] +=
                        score[s] / sum * v[((int64_t)s * w->groups + g) * w->v + i];
        }
    free(score);
    return o;
}

/* Columns of a fused product [t, all]: of each of `groups` groups, n columns from `from` on. */
static double *columns(const network *w, const double *x, int all, int groups, int from, int n)
{
    double *y = zeros((int64_t)w->t * groups * n);
    for (int t = 0; t < w->t; t++)
        for (int g = 0; g < groups; g++)
            for (int i = 0; i < n; i++)
                y[((int64_t)t * groups + g) * n + i] =
                    x[(int64_t)t * all + all / groups * g + from + i];
    return y;
}

static void fused(const network *w, const char *name, const double *x, int groups, double *qkv[3])
{
    const int q = w->heads * w->d / groups, kv = w->groups * w->d / groups;
    double *y = linear(w, name, x, w->t);
    qkv[0] = columns(w, y, (q + 2 * kv) * groups, groups, 0, q);
    qkv[1] = columns(w, y, (q + 2 * kv) * groups, groups, q, kv);
    qkv[2] = columns(w, y, (q + 2 * kv) * groups, groups, q + kv, kv);
    free(y);
}

static int window_of(const network *w)
{
    const int window = (int)number(w->f, "sliding_window", 0);
    if (is(w, "gpt_neo")) return w->layer % 2 ? (int)number(w->f, "window_size", 256) : 0;
    if (is(w, "gemma2")) return w->layer % 2 ? 0 : window;
    if (is(w, "gemma3_text")) return is_global(w) ? 0 : window;
    if (strncmp(w->type, "qwen", 4) == 0)
        return flag(w->f, "use_sliding_window", 0) &&
                       w->layer >= number(w->f, "max_window_layers", 28)
                   ? window
                   : 0;
    return window;
}

static double *attention(const network *w, const double *x)
{
    double *qkv[3];
    const char *out = "self_attn.o_proj";
    int turned = w->d;
    if (is(w, "gpt_neox")) {
        fused(w, "attention.query_key_value", x, w->heads, qkv);
        turned = (int)(w->d * number(w->f, "rotary_pct", 0.25));
        out = "attention.dense";
    } else if (is(w, "falcon")) {
        fused(w, "self_attention.query_key_value", x, w->groups, qkv);
        out = "self_attention.dense";
    } else if (is(w, "gpt2")) {
        fused(w, "attn.c_attn", x, 1, qkv);
        turned = 0;
        out = "attn.c_proj";
    } else if (is(w, "phi3")) {
        fused(w, "self_attn.qkv_proj", x, 1, qkv);
    } else if (is(w, "gpt_neo")) {
        qkv[0] = linear(w, "attn.attention.q_proj", x, w->t);
        qkv[1] = linear(w, "attn.attention.k_proj", x, w->t);
        qkv[2] = linear(w, "attn.attention.v_proj", x, w->t);
        turned = 0;
        out = "attn.attention.out_proj";
    } else {
        qkv[0] = linear(w, "self_attn.q_proj", x, w->t);
        qkv[1] = linear(w, "self_attn.k_proj", x, w->t);
        qkv[2] = linear(w, "self_attn.v_proj", x, w->t);
    }
    if (is(w, "opt")) turned = 0, out = "self_attn.out_proj";
    if (strncmp(w->type, "qwen3", 5) == 0 || is(w, "gemma3_text")) {
        qkv[0] = norm(w, "self_attn.q_norm", qkv[0], w->t * w->heads, w->d);
        qkv[1] = norm(w, "self_attn.k_norm", qkv[1], w->t * w->groups, w->d);
    }
    turn(w, qkv[0], w->heads, w->d, 0, turned, 0);
    turn(w, qkv[1], w->groups, w->d, 0, turned, 0);
    return linear(w, out, attend(w, qkv[0], qkv[1], qkv[2], window_of(w)), w->t);
}

/* Multi-head latent attention of DeepSeek. */
static double *latent(const network *w, const double *x)
{
    const int c = (int)number(w->f, "kv_lora_rank", 512),
              turned = (int)number(w->f, "qk_rope_head_dim", 64), plain = w->d - turned;
    const int ql = (int)number(w->f, "q_lora_rank", 0);
    double *q = ql ? linear(w, "self_attn.q_b_proj",
                            norm(w, "self_attn.q_a_layernorm",
                                 linear(w, "self_attn.q_a_proj", x, w->t), w->t, ql),
                            w->t)
                   : linear(w, "self_attn.q_proj", x, w->t);
    double *a = linear(w, "self_attn.kv_a_proj_with_mqa", x, w->t);
    double *low = columns(w, a, c + turned, 1, 0, c),
           *shared = columns(w, a, c + turned, 1, c, turned);
    double *b =
        linear(w, "self_attn.kv_b_proj", norm(w, "self_attn.kv_a_layernorm", low, w->t, c), w->t);
    double *own = columns(w, b, w->heads * (plain + w->v), w->heads, 0, plain);
    double *v = columns(w, b, w->heads * (plain + w->v), w->heads, plain, w->v);
    double *k = zeros((int64_t)w->t * w->heads * w->d);
    turn(w, q, w->heads, w->d, plain, turned, 1);
    turn(w, shared, 1, turned, 0, turned, 1);
    for (int64_t i = 0; i < (int64_t)w->t * w->heads; i++) {
        memcpy(k + i * w->d, own + i * plain, (size_t)plain * sizeof *k);
        memcpy(k + i * w->d + plain, shared + i / w->heads * turned, (size_t)turned * sizeof *k);
    }
    return linear(w, "self_attn.o_proj", attend(w, q, k, v, 0), w->t);
}

/* ---- feed-forward ---- */

static double activate(const network *w, double x)
{
    const char *kind =
        text(w->f, is(w, "falcon")                                     ? "activation"
                   : is(w, "gpt2") || is(w, "gpt_neo") || is(w, "opt") ? "activation_function"
                   : strncmp(w->type, "gemma", 5) == 0                 ? "hidden_activation"
                                                                       : "hidden_act");
    if (strcmp(kind, "silu") == 0) return x / (1 + exp(-x));
    if (strcmp(kind, "relu") == 0) return x > 0 ? x : 0;
    if (strcmp(kind, "gelu") == 0) return x / 2 * (1 + erf(x / sqrt(2)));
    if (strcmp(kind, "gelu_new") != 0 && strcmp(kind, "gelu_pytorch_tanh") != 0)
        give_up("unknown activation", kind);
    return x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double *gated(const network *w, const char *gate, const char *up, const char *down,
                     const double *x, int rows)
{
    const int64_t n = need(w, gate, ".weight")->dim[0];
    double *g = linear(w, gate, x, rows), *u = linear(w, up, x, rows);
    for (int64_t i = 0; i < rows * n; i++) g[i] = activate(w, g[i]) * u[i];
    return linear(w, down, g, rows);
}

static double *two(const network *w, const char *up, const char *down, const double *x)
{
    const int64_t n = need(w, up, ".weight")->dim[is(w, "gpt2")];
    double *y = linear(w, up, x, w->t);
    for (int64_t i = 0; i < w->t * n; i++) y[i] = activate(w, y[i]);
    return linear(w, down, y, w->t);
}

static double *half_of_gate_up(const network *w, const double *x)
{
    const int n = (int)need(w, "mlp.gate_up_proj", ".weight")->dim[0] / 2;
    double *y = linear(w, "mlp.gate_up_proj", x, w->t);
    double *g = columns(w, y, 2 * n, 1, 0, n), *u = columns(w, y, 2 * n, 1, n, n);
    for (int64_t i = 0; i < (int64_t)w->t * n; i++) g[i] = activate(w, g[i]) * u[i];
    return linear(w, "mlp.down_proj", g, w->t);
}

/* Experts outside the groups that are kept can't be chosen: `score` of a group is that of its best
 * expert (deepseek_v2), or of its two best (deepseek_v3). */
static void leave_out(const network *w, const double *p, const tensor *bias, int experts, int *out)
{
    const int n = (int)number(w->f, "n_group", 1), kept = (int)number(w->f, "topk_group", n);
    const int each = experts / n, two = is(w, "deepseek_v3");
    double score[64];
    if (strcmp(text(w->f, "topk_method"), "greedy") == 0) return;
    for (int g = 0; g < n; g++) {
        double best = -INFINITY;
        for (int i = g * each; i < (g + 1) * each; i++)
            for (int j = g * each; j < (g + 1) * each; j++) {
                const double a = p[i] + (bias ? bias->at[i] : 0);
                const double b = p[j] + (bias ? bias->at[j] : 0);
                if (two ? i != j && a + b > best : a > best) best = two ? a + b : a;
            }
        score[g] = best;
    }
    for (int g = 0; g < n; g++) {
        int better = 0;
        for (int o = 0; o < n; o++) better += score[o] > score[g];
        for (int e = g * each; e < (g + 1) * each; e++) out[e] = better >= kept;
    }
}

/* Weight of every expert for one token; 0: not chosen. */
static void choose(const network *w, const char *router, const double *x, int experts, double *out)
{
    const int k = (int)number(w->f, "num_experts_per_tok", 2), sigmoid = is(w, "deepseek_v3");
    const tensor *bias = get(w, router, ".e_score_correction_bias");
    const double *s = linear(w, router, x, 1);
    double p[256], sum = 0, most = -INFINITY, kept = 0;
    int not_here[256] = {0};
    for (int e = 0; e < experts; e++) most = fmax(most, s[e]);
    for (int e = 0; e < experts; e++) sum += exp(s[e] - most);
    for (int e = 0; e < experts; e++)
        p[e] = sigmoid ? 1 / (1 + exp(-s[e])) : exp(s[e] - most) / sum;
    if (w->type[0] == 'd') leave_out(w, p, bias, experts, not_here);
    for (int e = 0; e < experts; e++) out[e] = 0;
    for (int n = 0; n < k; n++) {
        int best = -1;
        for (int e = 0; e < experts; e++) {
            const double mine = p[e] + (bias ? bias->at[e] : 0);
            if (out[e] == 0 && !not_here[e] &&
                (best < 0 || mine > p[best] + (bias ? bias->at[best] : 0)))
                best = e;
        }
        out[best] = p[best];
        kept += p[best];
    }
    const int renorm = is(w, "mixtral") || flag(w->f, "norm_topk_prob", 0);
    const double scale = number(w->f, "routed_scaling_factor", 1);
    for (int e = 0; e < experts; e++) out[e] *= scale / (renorm ? kept : 1);
}

static double *mixture(const network *w, const double *x)
{
    static const char *const names[2][3] = {{"gate_proj", "up_proj", "down_proj"},
                                            {"w1", "w3", "w2"}};
    const int mixtral = is(w, "mixtral");
    const int experts = (int)number(w->f,
                                    mixtral             ? "num_local_experts"
                                    : w->type[0] == 'd' ? "n_routed_experts"
                                                        : "num_experts",
                                    8);
    double *y = zeros((int64_t)w->t * w->h), weight[256];
    for (int t = 0; t < w->t; t++) {
        const double *from = x + (int64_t)t * w->h;
        choose(w, mixtral ? "block_sparse_moe.gate" : "mlp.gate", from, experts, weight);
        for (int e = 0; e < experts; e++) {
            char name[3][96];
            if (weight[e] == 0) continue;
            for (int i = 0; i < 3; i++)
                snprintf(name[i], sizeof name[i], "%s.experts.%d.%s",
                         mixtral ? "block_sparse_moe" : "mlp", e, names[mixtral][i]);
            const double *made = gated(w, name[0], name[1], name[2], from, 1);
            for (int i = 0; i < w->h; i++) y[(int64_t)t * w->h + i] += weight[e] * made[i];
        }
    }
    if (get(w, "mlp.shared_experts.gate_proj", ".weight"))
        add(y,
            gated(w, "mlp.shared_experts.gate_proj", "mlp.shared_experts.up_proj",
                  "mlp.shared_experts.down_proj", x, w->t),
            (int64_t)w->t * w->h);
    if (!get(w, "mlp.shared_expert_gate", ".weight")) return y;
    const double *gate = linear(w, "mlp.shared_expert_gate", x, w->t);
    const double *made = gated(w, "mlp.shared_expert.gate_proj", "mlp.shared_expert.up_proj",
                               "mlp.shared_expert.down_proj", x, w->t);
    for (int64_t i = 0; i < (int64_t)w->t * w->h; i++) y[i] += made[i] / (1 + exp(-gate[i / w->h]));
    return y;
}

static double *feed_forward(const network *w, const double *x)
{
    if (is(w, "gpt_neox") || is(w, "falcon"))
        return two(w, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h", x);
    if (is(w, "gpt2") || is(w, "gpt_neo")) return two(w, "mlp.c_fc", "mlp.c_proj", x);
    if (is(w, "opt")) return two(w, "fc1", "fc2", x);
    if (is(w, "phi3")) return half_of_gate_up(w, x);
    if (is(w, "mixtral") || get(w, "mlp.gate", ".weight")) return mixture(w, x);
    return gated(w, "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", x, w->t);
}

/* ---- layers ---- */

static void parallel_layer(const network *w, double *x, const char *first, const char *second)
{
    const int64_t n = (int64_t)w->t * w->h;
    const double *a = norm(w, first, x, w->t, w->h);
    const double *made = attention(w, a), *m = second ? norm(w, second, x, w->t, w->h) : a;
    const double *fed = feed_forward(w, m);
    add(x, made, n);
    add(x, fed, n);
}

static void layer(const network *w, double *x)
{
    const int64_t n = (int64_t)w->t * w->h;
    const char *first = "input_layernorm", *second = "post_attention_layernorm";
    if (is(w, "gpt_neox") && flag(w->f, "use_parallel_residual", 1)) {
        parallel_layer(w, x, first, second);
        return;
    }
    if (is(w, "falcon") && flag(w->f, "parallel_attn", 1)) {
        const int newer = get(w, "ln_attn", ".weight") != NULL;
        parallel_layer(w, x, newer ? "ln_attn" : first, newer ? "ln_mlp" : NULL);
        return;
    }
    if (is(w, "gpt2") || is(w, "gpt_neo")) first = "ln_1", second = "ln_2";
    if (is(w, "opt")) first = "self_attn_layer_norm", second = "final_layer_norm";
    const double *a = norm(w, first, x, w->t, w->h);
    const double *made = w->type[0] == 'd' ? latent(w, a) : attention(w, a);
    const int four = is(w, "gemma2") || is(w, "gemma3_text"); /* norms */
    if (four) {
        made = norm(w, second, made, w->t, w->h);
        second = "pre_feedforward_layernorm";
    }
    add(x, made, n);
    made = feed_forward(w, norm(w, second, x, w->t, w->h));
    if (four) made = norm(w, "post_feedforward_layernorm", made, w->t, w->h);
    add(x, made, n);
}

static void add_positions(const network *w, double *x, const char *name, int offset)
{
    const tensor *table = need(w, name, ".weight");
    for (int64_t i = 0; i < (int64_t)w->t * w->h; i++)
        x[i] += table->at[i + (int64_t)offset * w->h];
}

static const struct {
    const char *type, *layers, *table, *norm, *head;
} places[] = {
    {"gpt2", "h.", "/wte", "/ln_f", "/lm_head"},
    {"gpt_neo", "transformer.h.", "/transformer.wte", "/transformer.ln_f", "/lm_head"},
    {"opt", "model.decoder.layers.", "/model.decoder.embed_tokens",
     "/model.decoder.final_layer_norm", "/lm_head"},
    {"gpt_neox", "gpt_neox.layers.", "/gpt_neox.embed_in", "/gpt_neox.final_layer_norm",
     "/embed_out"},
    {"falcon", "transformer.h.", "/transformer.word_embeddings", "/transformer.ln_f", "/lm_head"},
    {"", "model.layers.", "/model.embed_tokens", "/model.norm", "/lm_head"}};

double *logits_of(const folder *f, const int *ids, int n)
{
    const int old = strcmp(text(f, "model_type"), "gpt2") == 0;
    network w = {.f = f, .type = text(f, "model_type"), .t = n};
    int p = 0;
    while (places[p].type[0] && !is(&w, places[p].type)) p++;
    const tensor *table = need(&w, places[p].table, ".weight");
    w.at = places[p].layers;
    w.h = (int)table->dim[1];
    w.heads = (int)number(f,
                          old                 ? "n_head"
                          : is(&w, "gpt_neo") ? "num_heads"
                                              : "num_attention_heads",
                          0);
    w.groups = (int)number(f, is(&w, "falcon") ? "num_kv_heads" : "num_key_value_heads", w.heads);
    if (is(&w, "falcon") && flag(f, "multi_query", 1) && !flag(f, "new_decoder_architecture", 0))
        w.groups = 1;
    w.d = (int)number(f, "head_dim", w.h / w.heads);
    if (w.type[0] == 'd')
        w.d = (int)(number(f, "qk_nope_head_dim", 128) + number(f, "qk_rope_head_dim", 64));
    w.v = w.type[0] == 'd' ? (int)number(f, "v_head_dim", 128) : w.d;
    w.eps = number(f, "rms_norm_eps",
                   number(f, "layer_norm_eps", number(f, "layer_norm_epsilon", 1e-5)));
    double *x = zeros((int64_t)n * w.h);
    const double scale = strncmp(w.type, "gemma", 5) == 0 ? sqrt(w.h) : 1;
    for (int64_t i = 0; i < (int64_t)n * w.h; i++)
        x[i] = scale * table->at[ids[i / w.h] * (int64_t)w.h + i % w.h];
    if (old) add_positions(&w, x, "/wpe", 0);
    if (is(&w, "gpt_neo")) add_positions(&w, x, "/transformer.wpe", 0);
    if (is(&w, "opt")) add_positions(&w, x, "/model.decoder.embed_positions", 2);
    const int layers = (int)number(f,
                                   old                 ? "n_layer"
                                   : is(&w, "gpt_neo") ? "num_layers"
                                                       : "num_hidden_layers",
                                   0);
    for (w.layer = 0; w.layer < layers; w.layer++) layer(&w, x);
    x = norm(&w, places[p].norm, x, n, w.h);
    double *y =
        linear(&w, get(&w, places[p].head, ".weight") ? places[p].head : places[p].table, x, n);
    const double cap = number(f, "final_logit_softcapping", 0);
    for (int64_t i = 0; cap > 0 && i < n * table->dim[0]; i++) y[i] = cap * tanh(y[i] / cap);
    return y;
}
