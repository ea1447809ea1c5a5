/* layouts.h: published plans (docs/results-published.md#the-14-published-plans) as text, and the
 * tensors of a switch lying on them. */
#ifndef LUO_TESTS_LAYOUTS_H
#define LUO_TESTS_LAYOUTS_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/hspmd/bsr/switch.h"

#define LUO_C1                                                                                  \
    "[0-3]*15 [4-7]*15 [8-11]*15 [12-15]*15 || [16-19]*15 [20-23]*15 [24-27]*15 [28-31]*15"
#define LUO_C2                                                                                  \
    "[0-3]*15 [4-7]*15 [8-11]*15 [12-15]*15 || [16-19]*16 [20-23]*16 [24-27]*16 [28,29]*8 [30]*4"
#define LUO_C3 "[0-3]*20 [4-7]*20 [8-11]*20 || [12-15]*20 [16-19]*20 [20-23]*20"
#define LUO_C4                                                                                  \
    "[0-3]*5 [4-7]*6 [8-11]*6 [12-15]*6 [32-35]*18 [36-39]*19 || [16-19]*5 [20-23]*6 [24-27]*6 " \
    "[28-31]*6 [40-43]*18 [44-47]*19"
/* Plan 4 with ids >= 24 raised by 8: the physical ids after node 3 has gone. */
#define LUO_C5                                                                                  \
    "[0-3]*6 [4-7]*6 [8-11]*6 [32-35]*21 [36-39]*21 || [12-15]*6 [16-19]*6 [20-23]*6 [40-43]*21 " \
    "[44-47]*21"

enum { LUO_LAYERS = 60, LUO_STAGES_MAX = 16 };

typedef struct luo_layout {
    int pipelines;
    struct {
        int n, count[LUO_STAGES_MAX];
        char dev[LUO_STAGES_MAX][32];
    } at[4];
} luo_layout;

static inline luo_layout luo_layout_read(const char *text)
{
    luo_layout l = {.pipelines = 1};
    char *copy = strdup(text), *word = strtok(copy, " ");
    for (; word; word = strtok(NULL, " ")) {
        const int p = l.pipelines - 1, s = l.at[p].n;
        if (strcmp(word, "||") == 0) {
            l.pipelines++;
            continue;
        }
        char *star = strchr(word, '*');
        l.at[p].count[s] = atoi(star + 1);
        snprintf(l.at[p].dev[s], sizeof l.at[p].dev[s], "%.*s", (int)(star - word), word);
        l.at[p].n++;
    }
    free(copy);
    return l;
}

static inline const char *luo_layout_devices(const luo_layout *l, int p, int layer)
{
    int s = 0;
    for (int done = l->at[p].count[0]; layer >= done; done += l->at[p].count[s]) s++;
    return l->at[p].dev[s];
}

static inline int luo_count_devices(const char *set)
{
    int lo, hi, n = 0;
    for (const char *at = set + 1; *at && *at != ']'; at += *at == ',') {
        char *end;
        lo = hi = (int)strtol(at, &end, 10);
        if (*end == '-') hi = (int)strtol(end + 1, &end, 10);
        n += hi - lo + 1;
        at = end;
    }
    return n;
}

/* A weight cut on dim 0 by the stage's TP, duplicated over the pipelines. */
static inline const luo_ann *luo_layout_weight(luo_arena *arena, const luo_layout *l, int layer)
{
    char text[512] = "", one[64];
    const luo_ann *a = NULL;
    if (l->pipelines > 1) strcat(text, "h=-1 ");
    for (int p = 0; p < l->pipelines; p++) {
        const char *dev = luo_layout_devices(l, p, layer);
        const int n = luo_count_devices(dev);
        if (n > 1) snprintf(one, sizeof one, "%s%s{0:%d}", p ? " | " : "", dev, n);
        else snprintf(one, sizeof one, "%s%s{}", p ? " | " : "", dev);
        strcat(text, one);
    }
    return luo_ann_parse(arena, text, &a, NULL) == LUO_OK ? a : NULL;
}

/* Tensors of a switch in order: wte, per layer qkv o gate-up down, lm_head. elem_bytes 1:
 * elements. */
static inline int luo_layout_tensors(luo_arena *arena, const char *from, const char *to,
                                     luo_switch_tensor *out)
{
    enum { H = 6656, F = 17920, V = 30592 };
    static const struct {
        const char *name;
        int64_t rows, columns;
    } per[] = {{"qkv", 3 * H, H}, {"o", H, H}, {"gate_up", 2 * F, H}, {"down", F, H}};
    const luo_layout a = luo_layout_read(from), b = luo_layout_read(to);
    int n = 0;
    for (int l = -1; l <= LUO_LAYERS; l++) {
        const bool block = l >= 0 && l < LUO_LAYERS;
        const int layer = l < 0 ? 0 : l < LUO_LAYERS ? l : LUO_LAYERS - 1;
        for (int k = 0; k < (block ? 4 : 1); k++) {
            luo_switch_tensor *t = &out[n++];
            *t = (luo_switch_tensor){block ? per[k].name : l < 0 ? "wte" : "lm_head",
                                     luo_layout_weight(arena, &a, layer),
                                     luo_layout_weight(arena, &b, layer),
                                     {2, {block ? per[k].rows : V, block ? per[k].columns : H},
                                      NULL},
                                     1, block ? l % 10 : 0};
        }
    }
    return n;
}
#endif
