#include "core/io/recorded/recorded.h"

#include <stdlib.h>

#include "core/base/vec.h"
#include "core/base/words.h"
#include "core/io/read/input_tables.h"

static bool is_wanted(int64_t step, const luo_range *ranges, int32_t nranges)
{
    bool in = nranges == 0;
    for (int32_t i = 0; i < nranges && !in; i++) in = step >= ranges[i].lo && step < ranges[i].hi;
    return in;
}

/* The operation of a row; LUO_REPLAY_OPS: it is none, and that is told. */
static luo_replay_op op_of(luo_csv *csv, const char *name)
{
    const luo_replay_op op = luo_replay_op_find(name);
    const char *names[LUO_REPLAY_OPS];
    luo_str text = {0};
    if (op != LUO_REPLAY_OPS) return op;
    for (int i = 0; i < LUO_REPLAY_OPS; i++) names[i] = luo_replay_op_name((luo_replay_op)i);
    luo_words_expected(&text, name, names, LUO_REPLAY_OPS);
    luo_csv_error(csv, LUO_RE_OP, "`op` is `%.40s`; %s", name, luo_str_get(&text));
    luo_str_free(&text);
    return op;
}

luo_status luo_recorded_read(const char *path, const luo_range *ranges, int32_t nranges,
                             luo_replay_record **out, int64_t *n, luo_diags *diags)
{
    luo_csv_cell cell[LUO_RE_N];
    luo_replay_record *at = NULL;
    int64_t count = 0, cap = 0;
    bool ok = true;
    luo_csv *csv = luo_csv_open_path(path, luo_input_table_recorded.columns,
                                     luo_input_table_recorded.n, diags);
    while (ok && !luo_diags_full(diags, path) && luo_csv_next(csv, cell)) {
        const luo_replay_op op = op_of(csv, cell[LUO_RE_OP].text);
        if (op == LUO_REPLAY_OPS || !is_wanted(cell[LUO_RE_STEP].whole, ranges, nranges)) continue;
        if (cell[LUO_RE_CHUNK].whole >= LUO_DEVICES_MAX) {
            luo_csv_error(csv, LUO_RE_CHUNK, "`chunk` is over %d.", LUO_DEVICES_MAX - 1);
            continue;
        }
        ok = LUO_VEC_ROOM(at, count, cap);
        if (!ok) break;
        at[count++] = (luo_replay_record){.step = cell[LUO_RE_STEP].whole,
                                          .order = cell[LUO_RE_ORDER].whole,
                                          .pipeline = (int32_t)cell[LUO_RE_PIPELINE].whole,
                                          .stage = (int32_t)cell[LUO_RE_STAGE].whole,
                                          .chunk = (int32_t)cell[LUO_RE_CHUNK].whole,
                                          .micro_batch = (int32_t)cell[LUO_RE_MICRO_BATCH].whole,
                                          .op = op,
                                          .start_s = cell[LUO_RE_START].number,
                                          .duration_s = cell[LUO_RE_DURATION].number};
    }
    luo_status st = luo_csv_close(csv);
    if (!ok) st = LUO_ENOMEM;
    if (st != LUO_OK) {
        free(at);
        return st;
    }
    *out = at;
    *n = count;
    return LUO_OK;
}

static const char *lane_of(luo_replay_op op)
{
    if (luo_replay_op_computes(op)) return "compute";
    return luo_replay_op_transfers(op) ? "pp" : "dp";
}

void luo_recorded_print(luo_str *text, const luo_replay *replay, int32_t k, const double *start_s,
                        const double *duration_s, const char *says)
{
    luo_str_addf(text, "%s\n", says);
    for (int i = 0; i < luo_input_table_recorded.n; i++)
        luo_str_addf(text, "%s%s", i ? "," : "", luo_input_table_recorded.columns[i].name);
    luo_str_addc(text, '\n');
    for (int64_t i = 0; i < (int64_t)replay->pipelines * replay->nodes; i++) {
        const luo_replay_node *node = &replay->node[i % replay->nodes];
        luo_str_addf(text, "%lld,%d,%d,%s,%s,%d,%d,%lld,%.9f,%.9f\n", (long long)replay->step[k],
                     (int)(i / replay->nodes), node->stage, lane_of(node->op),
                     luo_replay_op_name(node->op), node->chunk, node->micro_batch,
                     (long long)node->order, start_s[i], duration_s[i]);
    }
}
