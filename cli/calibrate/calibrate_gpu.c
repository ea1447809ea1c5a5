/* calibrate_gpu.c: measures the GPUs of this host, or takes tables, and says what came out. */
#include "cli/calibrate/calibrate_gpu.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "cli/machine.h"
#include "core/io/files.h"
#include "core/io/read/read.h"

static luo_status nomem(luo_cli *cli)
{
    return luo_cli_error(cli, LUO_ENOMEM, "%s.", luo_status_text(LUO_ENOMEM));
}

/* ---- what came out ---- */

static void say(luo_cli *cli, const luo_gpu_calibration *calibration)
{
    FILE *out = luo_cli_out(cli);
    fprintf(out, "%s: %d GPU%s; %s/profile.yaml, cluster.yaml%s\n",
            luo_gpu_name(calibration), calibration->ranks,
            calibration->ranks > 1 ? "s" : "", calibration->dir,
            calibration->host_rows ? ", stack.yaml" : "");
    for (int i = 0; i < LUO_GPU_PARAMS; i++)
        fprintf(out, "  %-24s %8.4g%s\n", luo_gpu_param_name((luo_gpu_param)i),
                calibration->fit.value[i],
                !calibration->fit.fitted[i] ? ""
                : calibration->fit.weak[i]  ? "  fitted, weakly determined"
                                            : "  fitted");
    if (calibration->host_rows)
        fprintf(out, "  %-24s %8.4g  fitted on %d steps\n", "host_launch_us",
                calibration->host_launch_us, calibration->host_rows);
}

static luo_status known_memory(luo_cli *cli, const luo_gpu_calibration *calibration)
{
    if (calibration->known || luo_measured_fact(&calibration->rows, "memory_bytes", 0) > 0)
        return LUO_OK;
    return luo_cli_error(cli, LUO_EINPUT,
                         "the tables do not say how much memory the GPU has; give the table of "
                         "facts too, or --profile.");
}

static luo_status finish(luo_cli *cli, luo_gpu_calibration *calibration)
{
    luo_calibration_errors errors[LUO_CAL_KINDS][2];
    luo_str csv = {0};
    luo_err err = {0};
    LUO_TRY(known_memory(cli, calibration));
    luo_status st = luo_gpu_calibration_fit(calibration, &err);
    if (st == LUO_OK) st = luo_gpu_calibration_write(calibration, &err);
    if (st != LUO_OK) return luo_cli_fail(cli, st, &err);
    st = luo_gpu_calibration_score(cli, calibration, &csv, errors);
    if (st == LUO_OK) {
        say(cli, calibration);
        luo_calibration_print(cli, calibration->ranks, 1, errors);
        const char *path;
        st = luo_cli_fail(cli, luo_calibration_csv(cli, calibration->dir, &csv, &path, &err), &err);
        if (st == LUO_OK) fprintf(luo_cli_out(cli), "%s\n", path);
    }
    luo_str_free(&csv);
    return st;
}

/* Before anything is measured. */
static luo_status read_known(luo_cli *cli, luo_gpu_calibration *calibration)
{
    luo_err err = {0};
    int64_t seed;
    const luo_status st = luo_args_int(&cli->args, "seed", 0, 0, INT64_MAX, &seed, &err);
    if (st != LUO_OK) return luo_cli_fail(cli, st, &err);
    calibration->seed = (uint64_t)seed;
    const char *profile = luo_args_get(&cli->args, "profile", NULL);
    const char *cluster = luo_args_get(&cli->args, "cluster", NULL);
    if (profile) LUO_TRY(luo_read_profile(cli->arena, profile, &calibration->known, &cli->diags));
    return cluster ? luo_read_cluster(cli->arena, cluster, &calibration->cluster, &cli->diags)
                   : LUO_OK;
}

/* ---- measuring ---- */

static const char program[] = "luoshu-rank-cuda";

static luo_status read_one(luo_cli *cli, luo_gpu_calibration *calibration, const char *name,
                           int32_t ranks)
{
    const char *path = luo_arena_printf(cli->arena, "%s/%s-%d.csv", calibration->dir, name, ranks);
    return path ? luo_measured_read(cli, &calibration->rows, path) : nomem(cli);
}

static luo_status measure_all(luo_cli *cli, luo_gpu_calibration *calibration, bool quick)
{
    luo_progress progress = luo_progress_new(cli);
    luo_calibrate_turn turn = {.progress = &progress, .of = 2};
    LUO_TRY(luo_calibrate_measure(cli, program, calibration->dir, 1, quick, true, &turn));
    turn.done++;
    LUO_TRY(read_one(cli, calibration, "facts", 1));
    LUO_TRY(read_one(cli, calibration, "op_times", 1));
    calibration->tables[0] = "op_times-1.csv";
    if (calibration->ranks == 0)
        calibration->ranks = (int32_t)luo_measured_fact(&calibration->rows, "gpus", 1);
    if (calibration->ranks < 2) return LUO_OK;
    LUO_TRY(luo_calibrate_measure(cli, program, calibration->dir, calibration->ranks, quick, false,
                                  &turn));
    LUO_TRY(read_one(cli, calibration, "collective_times", calibration->ranks));
    LUO_TRY(read_one(cli, calibration, "p2p_times", calibration->ranks));
    calibration->tables[1] =
        luo_arena_printf(cli->arena, "collective_times-%d.csv", calibration->ranks);
    calibration->tables[2] = luo_arena_printf(cli->arena, "p2p_times-%d.csv", calibration->ranks);
    return calibration->tables[1] && calibration->tables[2] ? LUO_OK : nomem(cli);
}

luo_status luo_calibrate_gpus_check(luo_cli *cli)
{
    const char *ignored;
    luo_err err = {0};
    return luo_cli_fail(cli, luo_machine_rank_program(cli->arena, program, &ignored, &err), &err);
}

luo_status luo_calibrate_gpus(luo_cli *cli, const char *dir, bool quick, int32_t ranks)
{
    luo_gpu_calibration calibration = {.dir = dir, .ranks = ranks};
    LUO_TRY(read_known(cli, &calibration));
    LUO_TRY(measure_all(cli, &calibration, quick));
    return finish(cli, &calibration);
}

luo_status luo_calibrate_gpu_tables(luo_cli *cli, const char *dir, const luo_measured *rows,
                                    const char *const tables[3])
{
    luo_gpu_calibration calibration = {.dir = dir, .ranks = 1, .rows = *rows};
    memcpy(calibration.tables, tables, sizeof calibration.tables);
    for (int32_t i = 0; i < rows->ncomm; i++)
        if (rows->comm[i].nodes == 1 && rows->comm[i].devices > calibration.ranks)
            calibration.ranks = rows->comm[i].devices;
    LUO_TRY(read_known(cli, &calibration));
    return finish(cli, &calibration);
}
