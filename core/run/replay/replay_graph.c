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

static luo_status find_sizes(replay_builder *b)
{
    luo_replay *r = b->r;
    int64_t nodes = 0;
    for (int64_t i = 0; i < b->n; i++) {
        const luo_replay_record *x = &b->record[i];
        nodes += same_run(x, b->record);
        r->steps += i == 0 || x->step != b->record[i - 1].step;
        if (x->pipeline >= r->pipelines) r->pipelines = x->pipeline + 1;
        if (x->stage >= r->stages) r->stages = x->stage + 1;
    }
    /* A few sizes of int32_t are made of these. */
    if (nodes > INT32_MAX / 8 || r->stages > INT32_MAX / 64)
        return luo_err_set(b->err, LUO_E2BIG,
                           "a step has %lld operations of a pipeline; 2^28 or fewer are expected.",
                           (long long)nodes);
    r->nodes = (int32_t)nodes;
    if (b->record[0].pipeline != 0)
        return luo_err_set(b->err, LUO_EINPUT,
                           "step %lld has no pipeline 0; every pipeline of every step is expected.",
                           (long long)b->record[0].step);
    return LUO_OK;
}

static luo_status make_nodes(replay_builder *b)
{
    luo_replay *r = b->r;
    b->node = LUO_NEW_N(b->arena, luo_replay_node, r->nodes);
    b->at = LUO_NEW_N(b->arena, int32_t, (int64_t)r->stages * LUO_REPLAY_OPS + 1);
    if (!b->node || !b->at) return luo_err_nomem(b->err);
    for (int32_t v = 0; v < r->nodes; v++) {
        const luo_replay_record *x = &b->record[v];
        b->node[v] = (luo_replay_node){x->stage, x->chunk, x->micro_batch, x->op, x->order};
        b->at[x->stage * LUO_REPLAY_OPS + (int32_t)x->op + 1]++;
        if (luo_replay_op_computes(x->op) && x->chunk >= r->chunks) r->chunks = x->chunk + 1;
    }
    if (r->chunks < 1) r->chunks = 1;
    if ((int64_t)r->chunks * r->stages > LUO_DEVICES_MAX)
        return luo_err_set(b->err, LUO_E2BIG,
                           "%d stages have %d chunks each; %d chunks of all or fewer are expected.",
                           r->stages, r->chunks, LUO_DEVICES_MAX);
    for (int32_t k = 0; k < r->stages * LUO_REPLAY_OPS; k++) b->at[k + 1] += b->at[k];
    r->node = b->node;
    for (int32_t s = 0; s < r->stages; s++)
        if (replay_count(b, s, LUO_REPLAY_FORWARD) == 0)
            return luo_err_set(b->err, LUO_EINPUT,
                               "stage %d of pipeline 0 has no forward-compute in step %lld.", s,
                               (long long)b->record[0].step);
    return LUO_OK;
}

/* Operations of that kind in records[from .. to) of a run. */
static int32_t count_records(const replay_builder *b, int64_t from, int64_t to,
                             const luo_replay_node *v)
{
    int32_t n = 0;
    for (int64_t i = from; i < to; i++)
        n += b->record[i].stage == v->stage && b->record[i].op == v->op;
    return n;
}

static luo_status differs(const replay_builder *b, int64_t from, int64_t to, int32_t v)
{
    const luo_replay_record *x = &b->record[from];
    luo_replay_node one = {x->stage, 0, 0, x->op, 0};
    if (from + v < to) /* what it has there, or what it should have: whichever comes first */
        one = (luo_replay_node){b->record[from + v].stage, 0, 0, b->record[from + v].op, 0};
    if (v < b->r->nodes && (from + v >= to || b->node[v].stage < one.stage ||
                            (b->node[v].stage == one.stage && b->node[v].op < one.op)))
        one = b->node[v];
    return luo_err_set(
        b->err, LUO_EINPUT,
        "stage %d of pipeline %d has %d %s in step %lld, in pipeline 0 of step %lld it has %d; "
        "as many are expected.",
        one.stage, x->pipeline, count_records(b, from, to, &one), luo_replay_op_name(one.op),
        (long long)x->step, (long long)b->record[0].step, count_records(b, 0, b->r->nodes, &one));
}

/* Times of all steps and pipelines, which have the operations of the first. */
static luo_status place_times(replay_builder *b)
{
    luo_replay *r = b->r;
    const int64_t all = (int64_t)r->steps * r->pipelines;
    int64_t *step = LUO_NEW_N(b->arena, int64_t, r->steps), run = 0, from = 0, to;
    double *start = LUO_NEW_N(b->arena, double, b->n),
           *duration = LUO_NEW_N(b->arena, double, b->n);
    if (!step || !start || !duration) return luo_err_nomem(b->err);
    for (; from < b->n; from = to, run++) {
        const luo_replay_record *x = &b->record[from];
        const int32_t pipeline = (int32_t)(run % r->pipelines);
        for (to = from + 1; to < b->n && same_run(x, &b->record[to]);) to++;
        if (run >= all || x->pipeline != pipeline || (pipeline > 0 && x->step != x[-1].step))
            return luo_err_set(b->err, LUO_EINPUT,
                               "step %lld has no pipeline %d; every pipeline of every step is "
                               "expected.",
                               (long long)(pipeline > 0 ? x[-1].step : x->step), pipeline);
        step[run / r->pipelines] = x->step;
        for (int32_t v = 0; v < r->nodes || from + v < to; v++)
            if (v >= r->nodes || from + v >= to || x[v].stage != b->node[v].stage ||
                x[v].op != b->node[v].op)
                return differs(b, from, to, v);
        for (int32_t v = 0; v < r->nodes; v++) {
            start[from + v] = x[v].start_s;
            duration[from + v] = x[v].duration_s;
        }
    }
    if (run < all)
        return luo_err_set(
            b->err, LUO_EINPUT,
            "step %lld has no pipeline %d; every pipeline of every step is expected.",
            (long long)b->record[b->n - 1].step, (int)(run % r->pipelines));
    r->step = step;
    r->start_s = start;
    r->duration_s = duration;
    return LUO_OK;
}

/* ---- units ---- */

/* bucket[i] .. bucket[i + 1]: what belongs to i; counted first, then placed. */
static void sum_up(int32_t *bucket, int32_t n)
{
    for (int32_t i = 0; i < n; i++) bucket[i + 1] += bucket[i];
}

/* What every node waits for. */
static luo_status list_before(replay_builder *b)
{
    const int32_t nodes = b->r->nodes;
    int32_t *first = LUO_NEW_N(b->arena, int32_t, (int64_t)nodes + 2),
            *before = LUO_NEW_N(b->arena, int32_t, b->nedges);
    if (!first || !before) return luo_err_nomem(b->err);
    for (int64_t e = 0; e < b->nedges; e++) first[b->edge[e].to + 2]++;
    sum_up(first, nodes + 1);
    for (int64_t e = 0; e < b->nedges; e++) before[first[b->edge[e].to + 1]++] = b->edge[e].from;
    b->r->first = first;
    b->r->before = before;
    return LUO_OK;
}

typedef struct sorter {
    int32_t *id, *left;   /* unit of a node; per unit: how many it waits for that are not placed */
    int32_t *of, *member; /* members of unit u: member[of[u]] .. */
    int32_t *out, *after; /* per node: who waits for it */
    int32_t *order, n;    /* units in order */
} sorter;

/* Operations of unit u wait for themselves: names two on the way back to where it has been. */
static luo_status tell_cycle(const replay_builder *b, const sorter *s, int32_t units)
{
    const luo_replay *r = b->r;
    int32_t u = 0, v = -1, w = -1;
    while (s->left[u] == 0) u++;
    for (int32_t k = 0; k <= units; k++) { /* after so many it goes round */
        bool found = false;
        for (int32_t m = s->of[u]; m < s->of[u + 1] && !found; m++)
            for (int32_t e = r->first[s->member[m]]; e < r->first[s->member[m] + 1] && !found; e++)
                if (s->left[s->id[r->before[e]]] > 0) {
                    found = true;
                    v = s->member[m];
                    w = r->before[e];
                }
        u = s->id[w];
    }
    return luo_err_set(b->err, LUO_EINPUT,
                       "%s %lld of stage %d waits for itself through %s %lld of stage %d; a record "
                       "is missing or misordered.",
                       luo_replay_op_name(r->node[v].op), (long long)r->node[v].order,
                       r->node[v].stage, luo_replay_op_name(r->node[w].op),
                       (long long)r->node[w].order, r->node[w].stage);
}

static luo_status list_members(replay_builder *b, sorter *s, int32_t *units)
{
    const int32_t nodes = b->r->nodes;
    *units = 0;
    for (int32_t v = 0; v < nodes; v++)
        if (b->unit[v] == v) s->id[v] = (*units)++;
    for (int32_t v = 0; v < nodes; v++) s->id[v] = s->id[replay_unit(b, v)];
    s->of = LUO_NEW_N(b->arena, int32_t, (int64_t)*units + 2);
    s->left = LUO_NEW_N(b->arena, int32_t, *units);
    s->order = LUO_NEW_N(b->arena, int32_t, *units);
    if (!s->of || !s->left || !s->order) return luo_err_nomem(b->err);
    for (int32_t v = 0; v < nodes; v++) s->of[s->id[v] + 2]++;
    sum_up(s->of, *units + 1);
    for (int32_t v = 0; v < nodes; v++) s->member[s->of[s->id[v] + 1]++] = v;
    return LUO_OK;
}

/* Units behind those that they wait for. */
static luo_status sort_units(replay_builder *b, sorter *s, int32_t units)
{
    for (int64_t e = 0; e < b->nedges; e++) s->out[b->edge[e].from + 2]++;
    sum_up(s->out, b->r->nodes + 1);
    for (int64_t e = 0; e < b->nedges; e++) {
        s->after[s->out[b->edge[e].from + 1]++] = b->edge[e].to;
        s->left[s->id[b->edge[e].to]]++;
    }
    for (int32_t u = 0; u < units; u++)
        if (s->left[u] == 0) s->order[s->n++] = u;
    for (int32_t k = 0; k < s->n; k++)
        for (int32_t m = s->of[s->order[k]]; m < s->of[s->order[k] + 1]; m++)
            for (int32_t e = s->out[s->member[m]]; e < s->out[s->member[m] + 1]; e++)
                if (--s->left[s->id[s->after[e]]] == 0) s->order[s->n++] = s->id[s->after[e]];
    return s->n < units ? tell_cycle(b, s, units) : LUO_OK;
}

static luo_status make_units(replay_builder *b)
{
    luo_replay *r = b->r;
    sorter s = {.id = LUO_NEW_N(b->arena, int32_t, r->nodes),
                .member = LUO_NEW_N(b->arena, int32_t, r->nodes),
                .out = LUO_NEW_N(b->arena, int32_t, (int64_t)r->nodes + 2),
                .after = LUO_NEW_N(b->arena, int32_t, b->nedges)};
    int32_t *member = LUO_NEW_N(b->arena, int32_t, r->nodes), *unit, n = 0;
    if (!s.id || !s.member || !s.out || !s.after || !member) return luo_err_nomem(b->err);
    LUO_TRY(list_before(b));
    LUO_TRY(list_members(b, &s, &r->units));
    LUO_TRY(sort_units(b, &s, r->units));
    unit = LUO_NEW_N(b->arena, int32_t, (int64_t)r->units + 1);
    bool *spans = LUO_NEW_N(b->arena, bool, r->units);
    if (!unit || !spans) return luo_err_nomem(b->err);
    for (int32_t k = 0; k < r->units; k++) {
        const int32_t u = s.order[k];
        unit[k] = n;
        spans[k] = b->spans[replay_unit(b, s.member[s.of[u]])];
        for (int32_t m = s.of[u]; m < s.of[u + 1]; m++) member[n++] = s.member[m];
    }
    unit[r->units] = n;
    r->unit = unit;
    r->member = member;
    r->spans = spans;
    return LUO_OK;
}

/* ---- ideal durations ---- */

static luo_status find_ideals(replay_builder *b)
{
    double *all = LUO_NEW_N(b->arena, double, b->n);
    if (!all) return luo_err_nomem(b->err);
    for (int op = 0; op < LUO_REPLAY_OPS; op++) {
        int64_t n = 0;
        double sum = 0;
        for (int64_t i = 0; i < b->n; i++)
            if ((int)b->record[i].op == op) sum += all[n++] = b->record[i].duration_s;
        if (n == 0) continue;
        if (!computes[op]) luo_stats_sort(all, n);
        b->r->ideal_s[op] = computes[op] ? sum / (double)n : luo_stats_quantile(all, n, 0.5);
    }
    return LUO_OK;
}

luo_status luo_replay_build(luo_arena *arena, luo_replay_record *records, int64_t n,
                            luo_replay *out, luo_err *err)
{
    luo_replay made = {0};
    replay_builder b = {.arena = arena, .record = records, .n = n, .r = &made, .err = err};
    if (n == 0)
        return luo_err_set(err, LUO_EINPUT, "there is no operation; a step or more is expected.");
    qsort(records, (size_t)n, sizeof *records, by_place);
    LUO_TRY(find_sizes(&b));
    LUO_TRY(make_nodes(&b));
    LUO_TRY(place_times(&b));
    b.unit = LUO_NEW_N(arena, int32_t, made.nodes);
    b.spans = LUO_NEW_N(arena, bool, made.nodes);
    if (!b.unit || !b.spans) return luo_err_nomem(err);
    for (int32_t v = 0; v < made.nodes; v++) b.unit[v] = v;
    LUO_TRY(replay_link(&b));
    for (int32_t v = 0; v < made.nodes; v++)
        if (made.node[v].micro_batch >= made.micro_batches)
            made.micro_batches = made.node[v].micro_batch + 1;
    LUO_TRY(make_units(&b));
    LUO_TRY(find_ideals(&b));
    *out = made;
    return LUO_OK;
}
