/* replay_internal.h: what the files that build the graph share; not for others. */
#ifndef LUO_CORE_RUN_REPLAY_REPLAY_INTERNAL_H
#define LUO_CORE_RUN_REPLAY_REPLAY_INTERNAL_H
#include "core/run/replay/replay.h"

typedef struct replay_edge { /* `to` waits for `from` */
    int32_t from, to;
} replay_edge;

typedef struct replay_builder {
    luo_arena *arena;
    const luo_replay_record *record; /* sorted; the first N are the nodes */
    int64_t n;
    luo_replay *r;
    luo_replay_node *node;
    int32_t *at;   /* node of the first operation of stage s, kind o: at[s * OPS + o]; one more */
    int32_t *unit; /* node -> one of its unit; of itself: it stands for the unit */
    bool *spans;   /* of that node */
    replay_edge *edge;
    int64_t nedges, cap_edges;
    bool failed; /* out of memory */
    luo_err *err;
} replay_builder;

/* Operations of a kind in a stage, and the i-th of them. */
static inline int32_t replay_count(const replay_builder *builder, int32_t stage, luo_replay_op op)
{
    const int32_t *at = &builder->at[stage * LUO_REPLAY_OPS + (int32_t)op];
    return at[1] - at[0];
}

static inline int32_t replay_node(const replay_builder *builder, int32_t stage, luo_replay_op op,
                                  int32_t i)
{
    return builder->at[stage * LUO_REPLAY_OPS + (int32_t)op] + i;
}

static inline int32_t replay_unit(const replay_builder *builder, int32_t v)
{
    while (builder->unit[v] != v) v = builder->unit[v];
    return v;
}

/* Who waits for whom, and who begins together. Errors: LUO_EINPUT, LUO_ENOMEM. */
luo_status replay_link(replay_builder *builder);
#endif
