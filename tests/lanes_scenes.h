/* lanes_scenes.h: the calls of the computed vectors, L1 to L5, in ms; the fixed part of each is
 * 1. */
#ifndef LUO_TESTS_LANES_SCENES_H
#define LUO_TESTS_LANES_SCENES_H
#include "tests/lanes_twin.h"

#define MS 1000000 /* ns */

typedef struct scene {
    luo_lane_call call[TWIN_CALLS];
    int32_t dev[TWIN_CALLS][2], group[TWIN_CALLS], n, ngroups;
} scene;

/* A call of two devices, fixed part 1 ms; calls of the same devices are of one group. */
static inline int32_t add(scene *s, int32_t a, int32_t b, double ready, double bytes)
{
    const int32_t i = s->n++;
    s->dev[i][0] = a;
    s->dev[i][1] = b;
    s->group[i] = s->ngroups;
    for (int32_t k = 0; k < i && s->group[i] == s->ngroups; k++)
        if (s->dev[k][0] == a && s->dev[k][1] == b) s->group[i] = s->group[k];
    if (s->group[i] == s->ngroups) s->ngroups++;
    s->call[i] = (luo_lane_call){.ready = (int64_t)(ready * MS), .fixed = MS,
                                 .moving = (int64_t)(bytes * MS), .ndev = 2, .dev = s->dev[i],
                                 .ngroup = 1, .group = &s->group[i]};
    return i;
}

static inline void one_each(scene *s) /* L1, a bucket a layer */
{
    *s = (scene){0};
    for (int k = 0; k < 4; k++) add(s, 0, 1, 2 * (k + 1), 3);
}

static inline void two_each(scene *s) /* L1, two layers a bucket */
{
    *s = (scene){0};
    for (int k = 0; k < 2; k++) add(s, 0, 1, 4 * (k + 1), 6);
}

static inline void shifted(scene *s) /* L2 */
{
    *s = (scene){0};
    add(s, 1, 3, 2, 3);
    add(s, 1, 3, 4, 3);
    add(s, 1, 2, 6, 3);
    add(s, 0, 2, 8, 3);
}

static inline void uneven(scene *s) /* L3 */
{
    *s = (scene){0};
    for (int k = 0; k < 2; k++) {
        add(s, 0, 2, 4 * (k + 1), 4);
        add(s, 0, 3, 4 * (k + 1), 2);
        add(s, 1, 3, 4 * (k + 1), 2);
    }
}

/* L4: stages end behind layers 3, 12, 28, 32 (devices 0 to 3) and 16, 32 (4, 5); layer 31 is ready
 * first. A bucket ends after `most` layers or where its group does. */
static inline void two_pipelines(scene *s, int32_t most)
{
    static const int32_t ends[] = {3, 12, 28, 32};
    *s = (scene){0};
    for (int32_t l = 31, n = 1; l >= 0; l--, n++) {
        int32_t d = 0;
        while (l >= ends[d]) d++;
        const int32_t e = l < 16 ? 4 : 5;
        const bool border = l == 0 || l == 16 || (d > 0 && l == ends[d - 1]);
        if (n < most && !border) continue;
        add(s, d, e, 32 - l, 4.0 * n);
        n = 0;
    }
}

static inline void levels(scene *s) /* L5 */
{
    static const int32_t both[] = {4, 5};
    *s = (scene){0};
    for (int k = 0; k < 2; k++) {
        add(s, 0, 2, 4 * (k + 1), 4);
        add(s, 1, 3, 4 * (k + 1), 4);
    }
    for (int k = 0; k < 2; k++) s->call[add(s, 2 * k, 2 * k + 1, 8, 0)].tail = MS;
    for (int k = 0; k < 2; k++) {
        const int32_t i = add(s, k, k + 2, 8, 0);
        s->call[i].before = both;
        s->call[i].nbefore = 2;
    }
}
#endif
