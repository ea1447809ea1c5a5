/* Strategies of a stage, in one order that every machine finds. */
#include "core/plan/auto/strategy.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const char *const kind_words[] = {LUO_AUTO_KIND_LIST(LUO_WORD_TEXT)};

typedef struct walk { /* over kind lists of one length, and the degrees of each */
    bool together;
    luo_auto_strategy now;
    int32_t found;
    luo_auto_strategy *out; /* NULL: they are only counted */
} walk;

static void each_degrees(walk *w, int32_t at, int32_t rest)
{
    if (at == w->now.n) {
        if (rest != 1) return;
        if (w->out) w->out[w->found] = w->now;
        w->found++;
        return;
    }
    for (int32_t degree = 2; degree <= rest; degree++) {
        if (rest % degree) continue;
        w->now.factor[at].degree = degree;
        each_degrees(w, at + 1, rest / degree);
    }
}

static bool may_join(const walk *w, int32_t at, luo_auto_kind kind)
{
    for (int32_t i = 0; i < at; i++) {
        const luo_auto_kind other = w->now.factor[i].kind;
        if (other == kind) return false;
        if (!w->together && other != LUO_AUTO_TP && kind != LUO_AUTO_TP) return false;
    }
    return true;
}

static void each_kinds(walk *w, int32_t at, int32_t g)
{
    if (at == w->now.n) {
        each_degrees(w, 0, g);
        return;
    }
    for (int k = 0; k < LUO_AUTO_KINDS; k++) {
        if (!may_join(w, at, (luo_auto_kind)k)) continue;
        w->now.factor[at].kind = (luo_auto_kind)k;
        each_kinds(w, at + 1, g);
    }
}

static int32_t list(luo_auto_strategy *out, int32_t g, bool together)
{
    walk w = {.together = together, .out = out};
    for (int32_t n = 0; n <= LUO_AUTO_FACTORS; n++) {
        w.now = (luo_auto_strategy){.n = n};
        each_kinds(&w, 0, g);
    }
    return w.found;
}

int32_t luo_auto_strategies_count(int32_t g, bool together)
{
    assert(g >= 1);
    return list(NULL, g, together);
}

luo_status luo_auto_strategies(luo_arena *arena, int32_t g, bool checkpointing,
                               luo_auto_strategy **out, int32_t *n, luo_err *err)
{
    assert(g >= 1);
    const int32_t lists = list(NULL, g, false), copies = checkpointing ? 2 : 1;
    luo_auto_strategy *all = LUO_NEW_N(arena, luo_auto_strategy, (int64_t)lists * copies);
    if (!all) return luo_err_nomem(err);
    list(all, g, false);
    for (int32_t i = lists * copies; i-- > 0;) {
        all[i] = all[i / copies];
        all[i].checkpoint = checkpointing && i % 2;
    }
    *out = all;
    *n = lists * copies;
    return LUO_OK;
}

int luo_auto_strategy_compare(const luo_auto_strategy *a, const luo_auto_strategy *b)
{
    if (a->n != b->n) return a->n - b->n;
    for (int32_t i = 0; i < a->n; i++)
        if (a->factor[i].kind != b->factor[i].kind)
            return (int)a->factor[i].kind - (int)b->factor[i].kind;
    for (int32_t i = 0; i < a->n; i++)
        if (a->factor[i].degree != b->factor[i].degree)
            return a->factor[i].degree - b->factor[i].degree;
    return (int)a->checkpoint - (int)b->checkpoint;
}

static int32_t degree_of(const luo_auto_strategy *strategy, luo_auto_kind kind)
{
    for (int32_t i = 0; i < strategy->n; i++)
        if (strategy->factor[i].kind == kind) return strategy->factor[i].degree;
    return 1;
}

int32_t luo_auto_strategy_data(const luo_auto_strategy *strategy)
{
    return degree_of(strategy, LUO_AUTO_DP) * degree_of(strategy, LUO_AUTO_SDP);
}

int32_t luo_auto_strategy_tensor(const luo_auto_strategy *strategy)
{
    return degree_of(strategy, LUO_AUTO_TP);
}

bool luo_auto_strategy_sharded(const luo_auto_strategy *strategy)
{
    return degree_of(strategy, LUO_AUTO_SDP) > 1;
}

int32_t luo_auto_strategy_stride(const luo_auto_strategy *strategy, luo_auto_kind kind)
{
    int32_t stride = 1;
    for (int32_t i = strategy->n; i-- > 0;) {
        if (strategy->factor[i].kind == kind) return stride;
        stride *= strategy->factor[i].degree;
    }
    return 0;
}

int32_t luo_auto_strategy_index(const luo_auto_strategy *strategy, luo_auto_kind kind, int32_t rank)
{
    const int32_t stride = luo_auto_strategy_stride(strategy, kind);
    return stride ? rank / stride % degree_of(strategy, kind) : 0;
}

char *luo_auto_strategy_print(const luo_auto_strategy *strategy, char *text, size_t size)
{
    size_t len = 0;
    if (!size) return text;
    text[0] = 0;
    for (int32_t i = 0; i < strategy->n && len < size; i++)
        len += (size_t)snprintf(text + len, size - len, "%s%s%d", i ? " " : "",
                                kind_words[strategy->factor[i].kind], strategy->factor[i].degree);
    if (!strategy->n) len = (size_t)snprintf(text, size, "one");
    if (strategy->checkpoint && len < size) snprintf(text + len, size - len, " checkpoint");
    return text;
}
