/* replay_graph.c: records into the graph that all steps and pipelines share. */
#include <stdlib.h>
#include <string.h>

#include "core/base/stats.h"
#include "core/cost/cluster.h" /* LUO_DEVICES_MAX */
#include "core/run/replay/replay_internal.h"

#define NAME(id, name, compute, type) name,
#define TYPE(id, name, compute, type) type,
#define COMPUTES(id, name, compute, type) compute,
static const char *const names[] = {LUO_REPLAY_OP_LIST(NAME)};
static const char *const types[] = {LUO_REPLAY_OP_LIST(TYPE)};
static const bool computes[] = {LUO_REPLAY_OP_LIST(COMPUTES)};

const char *luo_replay_op_name(luo_replay_op op)
{
    return names[op];
}

const char *luo_replay_op_type(luo_replay_op op)
{
    return types[op];
}

bool luo_replay_op_computes(luo_replay_op op)
{
    return computes[op];
}

bool luo_replay_op_transfers(luo_replay_op op)
{
    return op == LUO_REPLAY_FORWARD_SEND || op == LUO_REPLAY_FORWARD_RECV ||
           op == LUO_REPLAY_BACKWARD_SEND || op == LUO_REPLAY_BACKWARD_RECV;
}

luo_replay_op luo_replay_op_find(const char *name)
{
    int op = 0;
    while (op < LUO_REPLAY_OPS && strcmp(names[op], name) != 0) op++;
    return (luo_replay_op)op;
}

/* ---- nodes ---- */

static int by_place(const void *a, const void *b)
{
    const luo_replay_record *x = a, *y = b;
    const int64_t key[][2] = {{x->step, y->step},
                              {x->pipeline, y->pipeline},
                              {x->stage, y->stage},
                              {(int64_t)x->op, (int64_t)y->op},
                              {x->order, y->order}};
    for (size_t i = 0; i < sizeof key / sizeof *key; i++)
        if (key[i][0] != key[i][1]) return key[i][0] < key[i][1] ? -1 : 1;
    return (x->start_s > y->start_s) - (x->start_s < y->start_s);
}

static bool same_run(const luo_replay_record *x, const luo_replay_record *y)
{
    return x->step == y->step && x->pipeline == y->pipeline;
}

static luo_status find_sizes(replay_builder *builder)
{
    luo_replay *replay = builder->r;
    int64_t nodes = 0;
    for (int64_t i = 0; i < builder->n; i++) {
        const luo_replay_record *record = &builder->record[i];
        nodes += same_run(record, builder->record);
        replay->steps += i == 0 || record->step != builder->record[i - 1].step;
        if (record->pipeline >= replay->pipelines) replay->pipelines = record->pipeline + 1;
        if (record->stage >= replay->stages) replay->stages = record->stage + 1;
    }
    /* A few sizes of int32_t are made of these. */
    if (nodes > INT32_MAX / 8 || replay->stages > INT32_MAX / 64)
        return luo_err_set(builder->err, LUO_E2BIG,
                           "a step has %lld operations of a pipeline; 2^28 or fewer are expected.",
                           (long long)nodes);
    replay->nodes = (int32_t)nodes;
    if (builder->record[0].pipeline != 0)
        return luo_err_set(builder->err, LUO_EINPUT,
                           "step %lld has no pipeline 0; every pipeline of every step is expected.",
                           (long long)builder->record[0].step);
    return LUO_OK;
}

static luo_status make_nodes(replay_builder *builder)
{
    luo_replay *replay = builder->r;
    builder->node = LUO_NEW_N(builder->arena, luo_replay_node, replay->nodes);
    builder->at = LUO_NEW_N(builder->arena, int32_t, (int64_t)replay->stages * LUO_REPLAY_OPS + 1);
    if (!builder->node || !builder->at) return luo_err_nomem(builder->err);
    for (int32_t v = 0; v < replay->nodes; v++) {
        const luo_replay_record *record = &builder->record[v];
        builder->node[v] = (luo_replay_node){record->stage, record->chunk, record->micro_batch,
                                             record->op, record->order};
        builder->at[record->stage * LUO_REPLAY_OPS + (int32_t)record->op + 1]++;
        if (luo_replay_op_computes(record->op) && record->chunk >= replay->chunks)
            replay->chunks = record->chunk + 1;
    }
    if (replay->chunks < 1) replay->chunks = 1;
    if ((int64_t)replay->chunks * replay->stages > LUO_DEVICES_MAX)
        return luo_err_set(builder->err, LUO_E2BIG,
                           "%d stages have %d chunks each; %d chunks of all or fewer are expected.",
                           replay->stages, replay->chunks, LUO_DEVICES_MAX);
    for (int32_t k = 0; k < replay->stages * LUO_REPLAY_OPS; k++)
        builder->at[k + 1] += builder->at[k];
    replay->node = builder->node;
    for (int32_t s = 0; s < replay->stages; s++)
        if (replay_count(builder, s, LUO_REPLAY_FORWARD) == 0)
            return luo_err_set(builder->err, LUO_EINPUT,
                               "stage %d of pipeline 0 has no forward-compute in step %lld.", s,
                               (long long)builder->record[0].step);
    return LUO_OK;
}

/* Operations of that kind in records[from .. to) of a run. */
static int32_t count_records(const replay_builder *builder, int64_t from, int64_t to,
                             const luo_replay_node *node)
{
    int32_t n = 0;
    for (int64_t i = from; i < to; i++)
        n += builder->record[i].stage == node->stage && builder->record[i].op == node->op;
    return n;
}

static luo_status differs(const replay_builder *builder, int64_t from, int64_t to, int32_t v)
{
    const luo_replay_record *record = &builder->record[from];
    luo_replay_node one = {record->stage, 0, 0, record->op, 0};
    if (from + v < to) /* what it has there, or what it should have: whichever comes first */
        one = (luo_replay_node){builder->record[from + v].stage, 0, 0, builder->record[from + v].op,
                                0};
    if (v < builder->r->nodes &&
        (from + v >= to || builder->node[v].stage < one.stage ||
         (builder->node[v].stage == one.stage && builder->node[v].op < one.op)))
        one = builder->node[v];
    return luo_err_set(
        builder->err, LUO_EINPUT,
        "stage %d of pipeline %d has %d %s in step %lld, in pipeline 0 of step %lld it has %d; "
        "as many are expected.",
        one.stage, record->pipeline, count_records(builder, from, to, &one),
        luo_replay_op_name(one.op), (long long)record->step, (long long)builder->record[0].step,
        count_records(builder, 0, builder->r->nodes, &one));
}

/* Times of all steps and pipelines, which have the operations of the first. */
static luo_status place_times(replay_builder *builder)
{
    luo_replay *replay = builder->r;
    const int64_t all = (int64_t)replay->steps * replay->pipelines;
    int64_t *step = LUO_NEW_N(builder->arena, int64_t, replay->steps), run = 0, from = 0, to;
    double *start = LUO_NEW_N(builder->arena, double, builder->n),
           *duration = LUO_NEW_N(builder->arena, double, builder->n);
    if (!step || !start || !duration) return luo_err_nomem(builder->err);
    for (; from < builder->n; from = to, run++) {
        const luo_replay_record *record = &builder->record[from];
        const int32_t pipeline = (int32_t)(run % replay->pipelines);
        for (to = from + 1; to < builder->n && same_run(record, &builder->record[to]);) to++;
        if (run >= all || record->pipeline != pipeline ||
            (pipeline > 0 && record->step != record[-1].step))
            return luo_err_set(builder->err, LUO_EINPUT,
                               "step %lld has no pipeline %d; every pipeline of every step is "
                               "expected.",
                               (long long)(pipeline > 0 ? record[-1].step : record->step),
                               pipeline);
        step[run / replay->pipelines] = record->step;
        for (int32_t v = 0; v < replay->nodes || from + v < to; v++)
            if (v >= replay->nodes || from + v >= to || record[v].stage != builder->node[v].stage ||
                record[v].op != builder->node[v].op)
                return differs(builder, from, to, v);
        for (int32_t v = 0; v < replay->nodes; v++) {
            start[from + v] = record[v].start_s;
            duration[from + v] = record[v].duration_s;
        }
    }
    if (run < all)
        return luo_err_set(
            builder->err, LUO_EINPUT,
            "step %lld has no pipeline %d; every pipeline of every step is expected.",
            (long long)builder->record[builder->n - 1].step, (int)(run % replay->pipelines));
    replay->step = step;
    replay->start_s = start;
    replay->duration_s = duration;
    return LUO_OK;
}

/* ---- units ---- */

/* bucket[i] .. bucket[i + 1]: what belongs to i; counted first, then placed. */
static void sum_up(int32_t *bucket, int32_t n)
{
    for (int32_t i = 0; i < n; i++) bucket[i + 1] += bucket[i];
}

/* What every node waits for. */
static luo_status list_before(replay_builder *builder)
{
    const int32_t nodes = builder->r->nodes;
    int32_t *first = LUO_NEW_N(builder->arena, int32_t, (int64_t)nodes + 2),
            *before = LUO_NEW_N(builder->arena, int32_t, builder->nedges);
    if (!first || !before) return luo_err_nomem(builder->err);
    for (int64_t e = 0; e < builder->nedges; e++) first[builder->edge[e].to + 2]++;
    sum_up(first, nodes + 1);
    for (int64_t e = 0; e < builder->nedges; e++)
        before[first[builder->edge[e].to + 1]++] = builder->edge[e].from;
    builder->r->first = first;
    builder->r->before = before;
    return LUO_OK;
}

typedef struct sorter {
    int32_t *id, *left;   /* unit of a node; per unit: how many it waits for that are not placed */
    int32_t *of, *member; /* members of unit u: member[of[u]] .. */
    int32_t *out, *after; /* per node: who waits for it */
    int32_t *order, n;    /* units in order */
} sorter;

/* Operations of unit u wait for themselves: names two on the way back to where it has been. */
static luo_status tell_cycle(const replay_builder *builder, const sorter *s, int32_t units)
{
    const luo_replay *replay = builder->r;
    int32_t u = 0, v = -1, w = -1;
    while (s->left[u] == 0) u++;
    for (int32_t k = 0; k <= units; k++) { /* after so many it goes round */
        bool found = false;
        for (int32_t m = s->of[u]; m < s->of[u + 1] && !found; m++)
            for (int32_t e = replay->first[s->member[m]];
                 e < replay->first[s->member[m] + 1] && !found; e++)
                if (s->left[s->id[replay->before[e]]] > 0) {
                    found = true;
                    v = s->member[m];
                    w = replay->before[e];
                }
        u = s->id[w];
    }
    return luo_err_set(builder->err, LUO_EINPUT,
                       "%s %lld of stage %d waits for itself through %s %lld of stage %d; a record "
                       "is missing or misordered.",
                       luo_replay_op_name(replay->node[v].op), (long long)replay->node[v].order,
                       replay->node[v].stage, luo_replay_op_name(replay->node[w].op),
                       (long long)replay->node[w].order, replay->node[w].stage);
}

static luo_status list_members(replay_builder *builder, sorter *s, int32_t *units)
{
    const int32_t nodes = builder->r->nodes;
    *units = 0;
    for (int32_t v = 0; v < nodes; v++)
        if (builder->unit[v] == v) s->id[v] = (*units)++;
    for (int32_t v = 0; v < nodes; v++) s->id[v] = s->id[replay_unit(builder, v)];
    s->of = LUO_NEW_N(builder->arena, int32_t, (int64_t)*units + 2);
    s->left = LUO_NEW_N(builder->arena, int32_t, *units);
    s->order = LUO_NEW_N(builder->arena, int32_t, *units);
    if (!s->of || !s->left || !s->order) return luo_err_nomem(builder->err);
    for (int32_t v = 0; v < nodes; v++) s->of[s->id[v] + 2]++;
    sum_up(s->of, *units + 1);
    for (int32_t v = 0; v < nodes; v++) s->member[s->of[s->id[v] + 1]++] = v;
    return LUO_OK;
}

/* Units behind those that they wait for. */
static luo_status sort_units(replay_builder *builder, sorter *s, int32_t units)
{
    for (int64_t e = 0; e < builder->nedges; e++) s->out[builder->edge[e].from + 2]++;
    sum_up(s->out, builder->r->nodes + 1);
    for (int64_t e = 0; e < builder->nedges; e++) {
        s->after[s->out[builder->edge[e].from + 1]++] = builder->edge[e].to;
        s->left[s->id[builder->edge[e].to]]++;
    }
    for (int32_t u = 0; u < units; u++)
        if (s->left[u] == 0) s->order[s->n++] = u;
    for (int32_t k = 0; k < s->n; k++)
        for (int32_t m = s->of[s->order[k]]; m < s->of[s->order[k] + 1]; m++)
            for (int32_t e = s->out[s->member[m]]; e < s->out[s->member[m] + 1]; e++)
                if (--s->left[s->id[s->after[e]]] == 0) s->order[s->n++] = s->id[s->after[e]];
    return s->n < units ? tell_cycle(builder, s, units) : LUO_OK;
}

static luo_status make_units(replay_builder *builder)
{
    luo_replay *replay = builder->r;
    sorter s = {.id = LUO_NEW_N(builder->arena, int32_t, replay->nodes),
                .member = LUO_NEW_N(builder->arena, int32_t, replay->nodes),
                .out = LUO_NEW_N(builder->arena, int32_t, (int64_t)replay->nodes + 2),
                .after = LUO_NEW_N(builder->arena, int32_t, builder->nedges)};
    int32_t *member = LUO_NEW_N(builder->arena, int32_t, replay->nodes), *unit, n = 0;
    if (!s.id || !s.member || !s.out || !s.after || !member) return luo_err_nomem(builder->err);
    LUO_TRY(list_before(builder));
    LUO_TRY(list_members(builder, &s, &replay->units));
    LUO_TRY(sort_units(builder, &s, replay->units));
    unit = LUO_NEW_N(builder->arena, int32_t, (int64_t)replay->units + 1);
    bool *spans = LUO_NEW_N(builder->arena, bool, replay->units);
    if (!unit || !spans) return luo_err_nomem(builder->err);
    for (int32_t k = 0; k < replay->units; k++) {
        const int32_t u = s.order[k];
        unit[k] = n;
        spans[k] = builder->spans[replay_unit(builder, s.member[s.of[u]])];
        for (int32_t m = s.of[u]; m < s.of[u + 1]; m++) member[n++] = s.member[m];
    }
    unit[replay->units] = n;
    replay->unit = unit;
    replay->member = member;
    replay->spans = spans;
    return LUO_OK;
}

/* ---- ideal durations ---- */

static luo_status find_ideals(replay_builder *builder)
{
    double *all = LUO_NEW_N(builder->arena, double, builder->n);
    if (!all) return luo_err_nomem(builder->err);
    for (int op = 0; op < LUO_REPLAY_OPS; op++) {
        int64_t n = 0;
        double sum = 0;
        for (int64_t i = 0; i < builder->n; i++)
            if ((int)builder->record[i].op == op) sum += all[n++] = builder->record[i].duration_s;
        if (n == 0) continue;
        if (!computes[op]) luo_stats_sort(all, n);
        builder->r->ideal_s[op] = computes[op] ? sum / (double)n : luo_stats_quantile(all, n, 0.5);
    }
    return LUO_OK;
}

luo_status luo_replay_build(luo_arena *arena, luo_replay_record *records, int64_t n,
                            luo_replay *out, luo_err *err)
{
    luo_replay made = {0};
    replay_builder builder = {.arena = arena, .record = records, .n = n, .r = &made, .err = err};
    if (n == 0)
        return luo_err_set(err, LUO_EINPUT, "there is no operation; a step or more is expected.");
    qsort(records, (size_t)n, sizeof *records, by_place);
    LUO_TRY(find_sizes(&builder));
    LUO_TRY(make_nodes(&builder));
    LUO_TRY(place_times(&builder));
    builder.unit = LUO_NEW_N(arena, int32_t, made.nodes);
    builder.spans = LUO_NEW_N(arena, bool, made.nodes);
    if (!builder.unit || !builder.spans) return luo_err_nomem(err);
    for (int32_t v = 0; v < made.nodes; v++) builder.unit[v] = v;
    LUO_TRY(replay_link(&builder));
    for (int32_t v = 0; v < made.nodes; v++)
        if (made.node[v].micro_batch >= made.micro_batches)
            made.micro_batches = made.node[v].micro_batch + 1;
    LUO_TRY(make_units(&builder));
    LUO_TRY(find_ideals(&builder));
    *out = made;
    return LUO_OK;
}
