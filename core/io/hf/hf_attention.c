/* hf_attention.c: rotary positions and windows of attention of a Hugging Face config.json. Sources:
 * transformers, modeling_rope_utils.py (scaling of positions), configuration files of each type. */
#include "core/io/hf/hf.h"

#include <math.h>
#include <string.h>

/* ---- scaling of rotary positions ---- */

/* Chen et al., arXiv 2306.15595; NTK-aware; Llama 3.1; Peng et al., arXiv 2309.00071; Ding et al.,
 * arXiv 2402.13753. */
static const struct {
    const char *theirs, *ours;
} kinds[] = {{"linear", "linear"}, {"dynamic", "dynamic"},   {"llama3", "llama3"},
             {"yarn", "yarn"},     {"longrope", "longrope"}, {"su", "longrope"}};

static double number_in(const luo_doc_node *map, const char *key, double otherwise)
{
    double value;
    return luo_doc_real(luo_doc_get(map, key), &value) ? value : otherwise;
}

/* YaRN: by how much longer contexts sharpen the softmax. */
static double mscale(double factor, double by)
{
    return factor > 1 ? 0.1 * by * log(factor) + 1 : 1;
}

static void take_yarn(hf_reader *hf, const luo_doc_node *rope)
{
    const double factor = hf_number(hf, "rope_scaling.factor", 1);
    const double one = number_in(rope, "mscale", 0), all = number_in(rope, "mscale_all_dim", 0);
    hf_take_in(hf, rope, &(hf_key){"beta_fast", "rope_scaling.beta_fast", NULL});
    hf_take_in(hf, rope, &(hf_key){"beta_slow", "rope_scaling.beta_slow", NULL});
    hf_take_in(hf, rope, &(hf_key){"attention_factor", "rope_scaling.attention_factor", NULL});
    const double sharp = mscale(factor, one) / mscale(factor, all);
    if (!hf_has(hf, "rope_scaling.attention_factor") && one > 0 && all > 0)
        hf_put_number(hf, "rope_scaling.attention_factor", sharp, rope);
    /* latent attention has the rest of it in the scores */
    const double head = hf_number(hf, "attention.qk_nope_head_dim", 0) +
                        hf_number(hf, "attention.qk_rope_head_dim", 0);
    if (head > 0 && all > 0)
        hf_put_number(hf, "attention_scale", pow(mscale(factor, all), 2) / sqrt(head), rope);
}

/* apart: the file says the length before beside its map; then the factor is that of the lengths. */
static void take_longrope(hf_reader *hf, const luo_doc_node *rope, double tokens, double before,
                          bool apart)
{
    hf_take_in(hf, rope, &(hf_key){"attention_factor", "rope_scaling.attention_factor", NULL});
    hf_put_list(hf, "rope_scaling.short_factors", luo_doc_get(rope, "short_factor"));
    hf_put_list(hf, "rope_scaling.long_factors", luo_doc_get(rope, "long_factor"));
    if (before > 0 && (apart || !hf_has(hf, "rope_scaling.factor")))
        hf_put_number(hf, "rope_scaling.factor", fmax(1, tokens / before), rope);
}

static void take_scaling(hf_reader *hf, const luo_doc_node *rope, const char *kind)
{
    static const char original[] = "original_max_position_embeddings";
    const luo_doc_node *outside = hf_use(hf, original);
    hf_put(hf, "rope_scaling.kind", kind, true, rope);
    hf_take_in(hf, rope, &(hf_key){"factor", "rope_scaling.factor", NULL});
    hf_take_in(hf, rope, &(hf_key){original, "rope_scaling.original_tokens", NULL});
    hf_take_in(hf, rope, &(hf_key){"low_freq_factor", "rope_scaling.low_freq_factor", NULL});
    hf_take_in(hf, rope, &(hf_key){"high_freq_factor", "rope_scaling.high_freq_factor", NULL});
    const double tokens = hf_number(hf, "max_sequence_tokens", 0);
    double before = hf_number(hf, "rope_scaling.original_tokens", 0), given;
    if (before == 0 && luo_doc_real(outside, &given)) before = given;
    if (before == 0) before = strcmp(hf->type->type, "phi3") == 0 ? 4096 : tokens; /* its class's */
    if (!hf_has(hf, "rope_scaling.original_tokens") && before > 0)
        hf_put_number(hf, "rope_scaling.original_tokens", before, outside ? outside : rope);
    if (strcmp(kind, "longrope") == 0) take_longrope(hf, rope, tokens, before, outside != NULL);
    if (strcmp(kind, "yarn") == 0) take_yarn(hf, rope);
}

static void unknown_kind(hf_reader *hf, const luo_doc_node *rope, const char *kind)
{
    const char *names[LUO_DOC_COUNT(kinds)];
    luo_str text = {0};
    for (size_t i = 0; i < LUO_DOC_COUNT(kinds); i++) names[i] = kinds[i].theirs;
    luo_words_choices(&text, names, LUO_DOC_COUNT(kinds));
    luo_doc_error(hf->doc, rope, "`%s` is of kind `%.60s`; `default`, %s is expected.", rope->key,
                  kind, luo_str_get(&text));
    luo_str_free(&text);
}

static void take_map(hf_reader *hf, const luo_doc_node *rope)
{
    const char *kind = luo_doc_text(rope, "rope_type");
    double turned;
    if (!kind) kind = luo_doc_text(rope, "type");
    if (!hf_has(hf, "rope_base") || luo_doc_get(rope, "rope_theta"))
        hf_take_in(hf, rope, &(hf_key){"rope_theta", "rope_base", NULL});
    if (luo_doc_real(luo_doc_get(rope, "partial_rotary_factor"), &turned))
        hf_put_number(hf, "partial_rotary", turned, rope);
    if (!kind || strcmp(kind, "default") == 0) return;
    for (size_t i = 0; i < LUO_DOC_COUNT(kinds); i++)
        if (strcmp(kinds[i].theirs, kind) == 0) {
            take_scaling(hf, rope, kinds[i].ours);
            return;
        }
    unknown_kind(hf, rope, kind);
}

void hf_take_rope(hf_reader *hf)
{
    const char *const keys[] = {"rope_scaling", "rope_parameters"};
    hf_take(hf, &(hf_key){"partial_rotary_factor", "partial_rotary", NULL});
    for (int i = 0; i < 2; i++) {
        const luo_doc_node *rope = hf_use(hf, keys[i]);
        if (hf_is_null(rope)) continue;
        const luo_doc_node *full = luo_doc_get(rope, "full_attention"); /* one map for each kind */
        if (rope->type != LUO_DOC_MAP) hf_refuse(hf, rope, "a map of `rope_type` is expected");
        else take_map(hf, full && full->type == LUO_DOC_MAP ? full : rope);
    }
}

void hf_take_local_rope(hf_reader *hf, const hf_key *key)
{
    const luo_doc_node *newer = luo_doc_get(hf_use(hf, "rope_parameters"), "sliding_attention");
    const char *kind = luo_doc_text(newer, "rope_type");
    hf_use(hf, key->theirs);
    if (!hf_has(hf, "sliding_window.tokens")) return;
    if (kind && strcmp(kind, "default") != 0)
        luo_doc_error(hf->doc, newer, "`%s` is of kind `%.60s`; `default` is expected for layers "
                      "with a window.", newer->key, kind);
    if (luo_doc_get(newer, "rope_theta"))
        hf_take_in(hf, newer, &(hf_key){"rope_theta", key->ours, NULL});
    else
        hf_take(hf, key);
}

/* ---- windows ---- */

static bool in_window(const hf_windows *windows, int64_t layer)
{
    return layer >= windows->first && (layer - windows->first) % windows->every < windows->each;
}

/* The runs of windows that a list says; each 0: it has none. */
static void read_list(hf_reader *hf, const luo_doc_node *list, hf_windows *windows)
{
    int64_t n = 0, second = -1;
    const double layers = hf_number(hf, "layers", list->n);
    windows->first = windows->each = 0;
    for (const luo_doc_node *node = list->first; node; node = node->next, n++) {
        const char *kind = hf_text(node);
        const bool cut = kind && strcmp(kind, "sliding_attention") == 0;
        if (!cut && (!kind || strcmp(kind, "full_attention") != 0)) {
            luo_doc_error(hf->doc, node,
                          "`layer_types` has `%.60s`; `full_attention` and "
                          "`sliding_attention` are expected.",
                          kind ? kind : node->text);
            return;
        }
        if (cut && windows->each == 0) windows->first = n;
        if (cut && n == windows->first + windows->each)
            windows->each++;
        else if (cut && second < 0) second = n;
    }
    windows->every = second < 0 ? (n > 0 ? n : 1) : second - windows->first;
    n = 0;
    for (const luo_doc_node *node = list->first; node; node = node->next, n++)
        if (in_window(windows, n) != (strcmp(node->text, "sliding_attention") == 0)) {
            luo_doc_error(hf->doc, node,
                          "`layer_types` repeats no run of windows; such a list is not "
                          "supported.");
            return;
        }
    if ((double)n != layers)
        luo_doc_error(hf->doc, list, "`layer_types` has %lld entries and there are %g layers; one "
                      "each is expected.", (long long)n, layers);
}

void hf_take_window(hf_reader *hf, const hf_windows *windows)
{
    hf_windows w = *windows;
    const luo_doc_node *size = hf_use(hf, w.key), *list = hf_use(hf, "layer_types");
    if (list && list->type == LUO_DOC_LIST) read_list(hf, list, &w);
    if ((size && hf_is_null(size)) || (!size && !w.standard) || w.each == 0) return;
    hf_take(hf, &(hf_key){w.key, "sliding_window.tokens", w.standard});
    hf_put_number(hf, "sliding_window.first_layer", (double)w.first, size);
    hf_put_number(hf, "sliding_window.every_layers", (double)w.every, size);
    hf_put_number(hf, "sliding_window.layers_each", (double)w.each, size);
}
