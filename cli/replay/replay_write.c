/* replay_write.c: files of `luoshu replay`. */
#include <math.h>
#include <string.h>

#include "cli/replay/replay_files.h"
#include "cli/sync/sync_write.h"
#include "core/io/io.h"
#include "core/io/recorded/recorded.h"
#include "core/io/result/table.h"
#include "core/run/parts.h"

/* A GPU type and a node are not recorded; columns of them are filled. */
static const char NOT_KNOWN[] = "not-known";

static luo_status close_table(luo_table *table, luo_status st, luo_err *err)
{
    const luo_status closed = luo_table_close(table, st == LUO_OK ? err : NULL);
    return st == LUO_OK ? closed : st;
}

static luo_status write_attribution(const luo_replay_files *files, luo_err *err)
{
    luo_table table;
    luo_status st =
        luo_table_open(&table, files->dir, luo_table_def_at(LUO_TABLE_ATTRIBUTION), err);
    for (int32_t i = 0; st == LUO_OK && i < files->figures->ncauses; i++) {
        const luo_replay_cause *cause = &files->figures->cause[i];
        luo_table_text(&table, LUO_COL_ATTRIBUTION_by, luo_replay_by_name(cause->by));
        luo_table_int_opt(&table, LUO_COL_ATTRIBUTION_stage, cause->stage);
        luo_table_int_opt(&table, LUO_COL_ATTRIBUTION_pipeline, cause->pipeline);
        luo_table_text(&table, LUO_COL_ATTRIBUTION_op, cause->type ? cause->type : "");
        luo_table_int_opt(&table, LUO_COL_ATTRIBUTION_micro_batch, cause->micro_batch);
        luo_table_num(&table, LUO_COL_ATTRIBUTION_slowdown, cause->slowdown);
        luo_table_num(&table, LUO_COL_ATTRIBUTION_recovered_ratio, cause->recovered_ratio);
        st = luo_table_end(&table, err);
    }
    return close_table(&table, st, err);
}

/* other NULL: the ideal step. */
static luo_status write_steps(const luo_replay_files *files, const char *file,
                              const double *reference, const double *other, luo_err *err)
{
    const luo_replay *replay = files->replay;
    luo_table_def def = *luo_table_def_at(LUO_TABLE_COMPARE_STEPS);
    luo_table table;
    def.file = file;
    luo_status st = luo_table_open(&table, files->dir, &def, err);
    for (int32_t k = 0; st == LUO_OK && k < replay->steps; k++) {
        const double second = other ? other[k] : files->figures->ideal_s;
        luo_table_int(&table, LUO_COL_COMPARE_STEPS_step, replay->step[k]);
        luo_table_num(&table, LUO_COL_COMPARE_STEPS_reference_s, reference[k]);
        luo_table_num(&table, LUO_COL_COMPARE_STEPS_other_s, second);
        luo_table_num(&table, LUO_COL_COMPARE_STEPS_error_ratio,
                      reference[k] > 0 ? second / reference[k] - 1 : NAN);
        st = luo_table_end(&table, err);
    }
    return close_table(&table, st, err);
}

/* ---- devices.csv ---- */

static luo_part part_of(luo_replay_op op)
{
    if (luo_replay_op_computes(op)) return LUO_PART_COMPUTE;
    return luo_replay_op_transfers(op) ? LUO_PART_PP : LUO_PART_DP;
}

/* Adds where the time of every worker went in a step that was run: parts[pipeline * P + stage]. */
static luo_status add_parts(luo_arena *arena, const luo_replay *replay, const double *duration_s,
                            const double *end_s, double step_s, luo_parts *parts)
{
    const int32_t workers = replay->pipelines * replay->stages;
    const size_t mark = luo_arena_mark(arena);
    luo_ledger *ledger = LUO_NEW_N(arena, luo_ledger, workers);
    luo_status st = ledger ? LUO_OK : LUO_ENOMEM;
    for (int32_t w = 0; st == LUO_OK && w < workers; w++) ledger[w].arena = arena;
    for (int64_t i = 0; st == LUO_OK && i < (int64_t)replay->pipelines * replay->nodes; i++) {
        const luo_replay_node *node = &replay->node[i % replay->nodes];
        st = luo_ledger_add(&ledger[i / replay->nodes * replay->stages + node->stage],
                            part_of(node->op), end_s[i] - duration_s[i], end_s[i], -1);
    }
    for (int32_t w = 0; st == LUO_OK && w < workers; w++) {
        luo_parts one;
        st = luo_ledger_close(&ledger[w], arena, step_s, &one, NULL);
        if (st == LUO_OK) luo_parts_add(&parts[w], &one, 1);
    }
    luo_arena_reset(arena, mark);
    return st;
}

static luo_status put_devices(luo_table *table, const luo_replay_files *files,
                              const luo_parts *parts, luo_err *err)
{
    const luo_replay *replay = files->replay;
    const luo_replay_figures *figures = files->figures;
    for (int32_t s = 0; s < replay->stages; s++)
        for (int32_t d = 0; d < replay->pipelines; d++) {
            const int32_t w = d * replay->stages + s;
            const double shares[] = {parts[w].tp_s, parts[w].ep_s, parts[w].cp_s, parts[w].pp_s,
                                     parts[w].dp_s};
            luo_table_int(table, LUO_COL_DEVICES_device, (int64_t)s * replay->pipelines + d);
            luo_table_text(table, LUO_COL_DEVICES_node, NOT_KNOWN);
            luo_table_text(table, LUO_COL_DEVICES_profile, NOT_KNOWN);
            luo_table_num(table, LUO_COL_DEVICES_up_s, figures->measured_mean_s * replay->steps);
            luo_table_num(table, LUO_COL_DEVICES_used_s, figures->real_mean_s * replay->steps);
            luo_table_num(table, LUO_COL_DEVICES_compute_s, parts[w].compute_s);
            for (int32_t i = 0; i < 5; i++)
                luo_table_num(table, LUO_COL_DEVICES_tp_s + i, shares[i]);
            luo_table_num(table, LUO_COL_DEVICES_bubble_s, parts[w].bubble_s);
            luo_table_num(table, LUO_COL_DEVICES_mean_slowdown, figures->compute_ratio[w]);
            luo_table_num(table, LUO_COL_DEVICES_caused_slowdown,
                          figures->cause[figures->first_worker + w].slowdown);
            LUO_TRY(luo_table_end(table, err));
        }
    return LUO_OK;
}

/* A device stands for a worker: devices are numbered as ranks of one device a worker. */
static luo_status write_devices(luo_cli *cli, const luo_replay_files *files, double *end_s,
                                luo_err *err)
{
    const luo_replay *replay = files->replay;
    const int64_t size = (int64_t)replay->pipelines * replay->nodes;
    luo_parts *parts =
        LUO_NEW_N(cli->arena, luo_parts, (int64_t)replay->pipelines * replay->stages);
    luo_table table;
    if (!parts) return luo_err_nomem(err);
    for (int32_t k = 0; k < replay->steps; k++) {
        const double *duration = replay->duration_s + k * size,
                     step_s = luo_replay_run(replay, duration, end_s);
        if (add_parts(cli->arena, replay, duration, end_s, step_s, parts) != LUO_OK)
            return luo_err_nomem(err);
    }
    luo_status st = luo_table_open(&table, files->dir, luo_table_def_at(LUO_TABLE_DEVICES), err);
    if (st == LUO_OK) st = put_devices(&table, files, parts, err);
    return close_table(&table, st, err);
}

/* ---- recorded.csv, ideal.csv ---- */

static luo_status write_text(luo_cli *cli, const luo_replay_files *files, const char *name,
                             luo_str *text, luo_err *err)
{
    const char *path = luo_arena_printf(cli->arena, "%s/%s", files->dir, name);
    const luo_status st = !path || text->failed
                              ? luo_err_nomem(err)
                              : luo_file_write_own(path, text->at, text->len, err);
    luo_str_free(text);
    return st;
}

static luo_status write_timelines(luo_cli *cli, const luo_replay_files *files, double *end_s,
                                  luo_err *err)
{
    const luo_replay *replay = files->replay;
    const int64_t size = (int64_t)replay->pipelines * replay->nodes;
    double *ideal = LUO_NEW_N(cli->arena, double, size), first = INFINITY;
    luo_str text = {0};
    if (!ideal) return luo_err_nomem(err);
    luo_recorded_print(&text, replay, 0, replay->start_s, replay->duration_s,
                       LUO_REPLAY_SAYS "the first step");
    LUO_TRY(write_text(cli, files, LUO_REPLAY_RECORDED, &text, err));
    for (int64_t i = 0; i < size; i++) {
        ideal[i] = replay->ideal_s[replay->node[i % replay->nodes].op];
        first = fmin(first, replay->start_s[i]);
    }
    luo_replay_run(replay, ideal, end_s);
    for (int64_t i = 0; i < size; i++) end_s[i] += first - ideal[i]; /* starts */
    luo_recorded_print(&text, replay, 0, end_s, ideal,
                       LUO_REPLAY_SAYS "the same without stragglers");
    return write_text(cli, files, LUO_REPLAY_IDEAL, &text, err);
}

/* ---- summary.json ---- */

static void write_facts(luo_jsonw *json, const void *ctx)
{
    const luo_replay_files *files = ctx;
    const luo_replay *replay = files->replay;
    const luo_replay_figures *figures = files->figures;
    luo_jsonw_text(json, "kind", "replay");
    luo_jsonw_text(json, "timeline", files->path);
    luo_jsonw_text(json, "answer", files->answer);
    luo_jsonw_int(json, "steps", replay->steps);
    luo_jsonw_int(json, "pipelines", replay->pipelines);
    luo_jsonw_int(json, "stages", replay->stages);
    luo_jsonw_int(json, "chunks", replay->chunks);
    luo_jsonw_int(json, "operations", (int64_t)replay->steps * replay->pipelines * replay->nodes);
    luo_jsonw_num(json, "recorded_mean_s", figures->measured_mean_s, 9);
    luo_jsonw_num(json, "replayed_mean_s", figures->real_mean_s, 9);
    luo_jsonw_num(json, "launch_delay_mean_s", figures->measured_mean_s - figures->real_mean_s, 9);
    luo_jsonw_num(json, "ideal_s", figures->ideal_s, 9);
    luo_jsonw_num(json, "slowdown", figures->slowdown, 6);
    luo_jsonw_num(json, "last_stage_recovered_ratio", figures->last_stage_ratio, 6);
    luo_jsonw_int(json, "slow_workers", figures->slow_workers);
    luo_jsonw_num(json, "slow_workers_recovered_ratio", figures->slow_workers_ratio, 6);
    luo_jsonw_open(json, "ideal_durations_s", '{');
    for (int op = 0; op < LUO_REPLAY_OPS; op++)
        if (replay->ideal_s[op] > 0)
            luo_jsonw_num(json, luo_replay_op_name((luo_replay_op)op), replay->ideal_s[op], 9);
    luo_jsonw_close(json);
}

luo_status luo_replay_files_write(luo_cli *cli, const luo_replay_files *files, luo_err *err)
{
    const luo_replay_figures *figures = files->figures;
    double *end_s =
        LUO_NEW_N(cli->arena, double, (int64_t)files->replay->pipelines * files->replay->nodes);
    if (!end_s) return luo_err_nomem(err);
    LUO_TRY(write_attribution(files, err));
    LUO_TRY(write_steps(files, "compare_steps.csv", figures->measured_s, figures->real_s, err));
    LUO_TRY(write_steps(files, "compare_steps-ideal.csv", figures->real_s, NULL, err));
    LUO_TRY(write_devices(cli, files, end_s, err));
    LUO_TRY(write_timelines(cli, files, end_s, err));
    return luo_sync_write_summary(cli, files->dir, write_facts, files, err);
}
