/* replay_text.c: what `luoshu replay` prints. */
#include <math.h>
#include <string.h>

#include "cli/replay/replay_files.h"

enum { LISTED = 8 };                /* rows of each kind */
static const double NOTICED = 1e-4; /* of the step: what is less is not told as lost */

/* "stage 3", "pipeline 1 stage 3", "forward-compute" */
static const char *name_of(const luo_replay_cause *cause, char *out, size_t size)
{
    switch (cause->by) {
    case LUO_REPLAY_STAGE:
        snprintf(out, size, "stage %d", cause->stage);
        break;
    case LUO_REPLAY_PIPELINE:
        snprintf(out, size, "pipeline %d", cause->pipeline);
        break;
    case LUO_REPLAY_WORKER:
        snprintf(out, size, "worker pipeline %d stage %d", cause->pipeline, cause->stage);
        break;
    case LUO_REPLAY_OP:
        snprintf(out, size, "%s", cause->type);
        break;
    case LUO_REPLAY_MICRO_BATCH:
        snprintf(out, size, "micro-batch %d", cause->micro_batch);
        break;
    }
    return out;
}

/* The slowest of a kind that is not listed yet; NULL: none. */
static const luo_replay_cause *find_slowest(const luo_replay_figures *figures, luo_replay_by by,
                                            const luo_replay_cause *const *listed, int n)
{
    const luo_replay_cause *most = NULL;
    for (int32_t i = 0; i < figures->ncauses; i++) {
        const luo_replay_cause *cause = &figures->cause[i];
        bool told = cause->by != by || isnan(cause->slowdown);
        for (int k = 0; k < n && !told; k++) told = listed[k] == cause;
        if (!told && (!most || cause->slowdown > most->slowdown)) most = cause;
    }
    return most;
}

void luo_replay_files_say(const luo_replay_figures *figures, luo_str *text)
{
    static const luo_replay_by of[] = {LUO_REPLAY_STAGE, LUO_REPLAY_WORKER, LUO_REPLAY_OP};
    char name[96];
    if (!(figures->real_mean_s > (1 + NOTICED) * figures->ideal_s)) {
        luo_str_addf(text, "nothing is lost to stragglers: the mean step takes %.4f s.\n",
                     figures->real_mean_s);
        return;
    }
    luo_str_addf(text, "stragglers take %.1f %% of the mean step: %.4f s, without them %.4f s;",
                 100 * (1 - figures->ideal_s / figures->real_mean_s), figures->real_mean_s,
                 figures->ideal_s);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const luo_replay_cause *cause = find_slowest(figures, of[i], NULL, 0);
        if (cause)
            luo_str_addf(text, "%s %s (%.3f)", i ? "," : " most through",
                         name_of(cause, name, sizeof name), cause->slowdown);
    }
    luo_str_add(text, ".\n");
}

static void print_causes(FILE *out, const luo_replay_figures *figures, luo_replay_by by)
{
    const luo_replay_cause *listed[LISTED];
    char name[96];
    int n = 0, all = 0;
    for (int32_t i = 0; i < figures->ncauses; i++) all += figures->cause[i].by == by;
    for (const luo_replay_cause *cause;
         n < LISTED && (cause = find_slowest(figures, by, listed, n));) {
        listed[n++] = cause;
        fprintf(out, "%-32s %9.4f", name_of(cause, name, sizeof name), cause->slowdown);
        if (isnan(cause->recovered_ratio))
            fprintf(out, " %9s\n", "-");
        else
            fprintf(out, " %8.1f%%\n", 100 * cause->recovered_ratio);
    }
    if (all > n) fprintf(out, ".. %d more\n", all - n);
}

void luo_replay_files_print(luo_cli *cli, const luo_replay_files *files)
{
    static const luo_replay_by order[] = {LUO_REPLAY_STAGE, LUO_REPLAY_PIPELINE, LUO_REPLAY_WORKER,
                                          LUO_REPLAY_OP, LUO_REPLAY_MICRO_BATCH};
    FILE *out = luo_cli_out(cli);
    const luo_replay *replay = files->replay;
    const luo_replay_figures *figures = files->figures;
    fputs(files->answer, out);
    fprintf(out,
            "%d step%s of %d pipeline%s of %d stage%s; recorded %.4f s, of it %.4f s launch "
            "delays\n",
            replay->steps, replay->steps == 1 ? "" : "s", replay->pipelines,
            replay->pipelines == 1 ? "" : "s", replay->stages, replay->stages == 1 ? "" : "s",
            figures->measured_mean_s, figures->measured_mean_s - figures->real_mean_s);
    fprintf(out, "%-32s %9s %9s\n", "alone as recorded; alone ideal", "slowdown", "recovered");
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) print_causes(out, figures, order[i]);
    if (!isnan(figures->slow_workers_ratio))
        fprintf(out, "%-32s %9s %8.1f%%\n",
                figures->slow_workers == 1 ? "the slowest worker"
                                           : "the slowest 3 % of the workers",
                "-", 100 * figures->slow_workers_ratio);
    fprintf(out, "%s/attribution.csv\n%s/devices.csv\n%s/compare_steps.csv\n%s/summary.json\n",
            files->dir, files->dir, files->dir, files->dir);
}
