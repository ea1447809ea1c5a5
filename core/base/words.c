#include "core/base/words.h"

#include <stdlib.h>
#include <string.h>

static int min2(int a, int b)
{
    return a < b ? a : b;
}

int luo_word_distance(const char *a, const char *b, int limit)
{
    enum { MAX = 64 };
    const size_t la = strlen(a), lb = strlen(b);
    if (la >= MAX || lb >= MAX || abs((int)la - (int)lb) > limit) return limit + 1;
    int d[MAX + 1][MAX + 1];
    for (size_t i = 0; i <= la; i++) d[i][0] = (int)i;
    for (size_t j = 0; j <= lb; j++) d[0][j] = (int)j;
    for (size_t i = 1; i <= la; i++)
        for (size_t j = 1; j <= lb; j++) {
            int best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            best = min2(best, min2(d[i - 1][j], d[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                best = min2(best, d[i - 2][j - 2] + 1);
            d[i][j] = best;
        }
    return min2(d[la][lb], limit + 1);
}

/* Length of the name without its unit: "bandwidth" of "bandwidth_gbps". */
static size_t stem(const char *name)
{
    const char *end = strchr(name, '_');
    return end ? (size_t)(end - name) : strlen(name);
}

/* Less than half of the longer one is wrong: `x` does not mean `on`. */
static bool alike(const char *a, const char *b, int distance)
{
    const size_t la = strlen(a), lb = strlen(b);
    return 2 * (size_t)distance < (la > lb ? la : lb);
}

/* What other tools call it. */
static const struct {
    const char *theirs, *ours;
} synonyms[] = {
    {"gbs", "global-batch-size"},
    {"batch-size", "global-batch-size"},
    {"mbs", "micro-batch-size"},
    {"sequence-length", "seq-length"},
    {"max-seq-len", "seq-length"},
    {"tensor-parallel", "tp"},
    {"tensor-parallel-size", "tp"},
    {"tp-size", "tp"},
    {"pipeline-parallel", "pp"},
    {"pipeline-parallel-size", "pp"},
    {"pp-size", "pp"},
    {"data-parallel", "dp"},
    {"dp-size", "dp"},
    {"context-parallel", "cp"},
    {"cp-size", "cp"},
    {"gpus", "devices"},
    {"strategy", "schedule"},
    {"output", "out"},
    {"output-dir", "out"},
    {"factor", "slowdown"},
    {"speed", "slowdown"},
    {"type", "kind"},
    {"node", "target"},
    {"device", "target"},
    {"gpu", "target"},
    {"time", "at_s"},
    {"step", "at_step"},
    {"hidden_size", "hidden"},
    {"num_layers", "layers"},
    {"num_hidden_layers", "layers"},
    {"num_attention_heads", "heads"},
    {"num_key_value_heads", "kv_heads"},
    {"intermediate_size", "ffn_hidden"},
    {"vocab_size", "vocab"},
};

static const char *synonym(const char *word, const char *const *names, int n)
{
    for (size_t k = 0; k < sizeof synonyms / sizeof *synonyms; k++)
        for (int i = 0; i < n && strcmp(synonyms[k].theirs, word) == 0; i++)
            if (strcmp(synonyms[k].ours, names[i]) == 0) return names[i];
    return NULL;
}

static const char *misspelt(const char *word, const char *const *names, int n)
{
    const char *best = NULL;
    int least = 3;
    for (int i = 0; i < n; i++) {
        const int d = luo_word_distance(word, names[i], 2);
        if (d < least && alike(word, names[i], d)) {
            least = d;
            best = names[i];
        }
    }
    return best;
}

/* Another unit, or none: `bandwidth_gbps`, `latency`, `at`. */
static const char *of_other_unit(const char *word, const char *const *names, int n)
{
    const bool unit = strchr(word, '_') != NULL;
    for (int i = 0; i < n; i++)
        if ((stem(word) >= 4 || !unit) && stem(word) == stem(names[i]) &&
            strncmp(word, names[i], stem(word)) == 0 && names[i][stem(word)])
            return names[i];
    return NULL;
}

/* The only name that begins so, or, if it is no short one, that the word goes on from. */
static const char *prefixed(const char *word, const char *const *names, int n)
{
    const char *only = NULL;
    const size_t length = strlen(word);
    for (int i = 0; i < n && length >= 3; i++) {
        const size_t l = strlen(names[i]);
        if ((l < length && l < 5) || strncmp(word, names[i], l < length ? l : length) != 0)
            continue;
        if (only) return NULL;
        only = names[i];
    }
    return only;
}

const char *luo_word_nearest(const char *word, const char *const *names, int n)
{
    const char *found = synonym(word, names, n);
    if (!found) found = misspelt(word, names, n);
    if (!found) found = of_other_unit(word, names, n);
    return found ? found : prefixed(word, names, n);
}

void luo_words_choices(luo_str *text, const char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        luo_str_addf(text, "%s`%s`", i == 0 ? "" : i == n - 1 ? " or " : ", ", names[i]);
}

void luo_words_expected(luo_str *text, const char *word, const char *const *names, int n)
{
    const char *near = luo_word_nearest(word, names, n);
    if (near) {
        luo_str_addf(text, "did you mean `%s`?", near);
        return;
    }
    luo_words_choices(text, names, n);
    luo_str_add(text, n == 1 ? " is the only one." : " is expected.");
}
