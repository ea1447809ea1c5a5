/* replay_text.c: what `luoshu replay` prints. */
#include <math.h>
#include <string.h>

#include "cli/replay/replay_files.h"

enum { LISTED = 8 };                /* rows of each kind */
static const double NOTICED = 1e-4; /* of the step: what is less is not told as lost */

/* "stage 3", "pipeline 1 stage 3", "forward-compute" */
static const char *name_of(const luo_replay_cause *c, char *out, size_t size)
{
    switch (c->by) {
    case LUO_REPLAY_STAGE:
        snprintf(out, size, "stage %d", c->stage);
        break;
    case LUO_REPLAY_PIPELINE:
        snprintf(out, size, "pipeline %d", c->pipeline);
        break;
    case LUO_REPLAY_WORKER:
        snprintf(out, size, "worker pipeline %d stage %d", c->pipeline, c->stage);
        break;
    case LUO_REPLAY_OP:
        snprintf(out, size, "%s", c->type);
        break;
    case LUO_REPLAY_MICRO_BATCH:
        snprintf(out, size, "micro-batch %d", c->micro_batch);
        break;
    }
    return out;
}

/* The slowest of a kind that is not listed yet; NULL: none. */
static const luo_replay_cause *find_slowest(const luo_replay_figures *x, luo_replay_by by,
                                            const luo_replay_cause *const *listed, int n)
{
    const luo_replay_cause *most = NULL;
    for (int32_t i = 0; i < x->ncauses; i++) {
        const luo_replay_cause *c = &x->cause[i];
        bool told = c->by != by || isnan(c->slowdown);
        for (int k = 0; k < n && !told; k++) told = listed[k] == c;
        if (!told && (!most || c->slowdown > most->slowdown)) most = c;
    }
    return most;
}

void luo_replay_files_say(const luo_replay_figures *x, luo_str *text)
{
    static const luo_replay_by of[] = {LUO_REPLAY_STAGE, LUO_REPLAY_WORKER, LUO_REPLAY_OP};
    char name[96];
    if (!(x->real_mean_s > (1 + NOTICED) * x->ideal_s)) {
        luo_str_addf(text, "nothing is lost to stragglers: the mean step takes %.4f s.\n",
                     x->real_mean_s);
        return;
    }
    luo_str_addf(text, "stragglers take %.1f %% of the mean step: %.4f s, without them %.4f s;",
                 100 * (1 - x->ideal_s / x->real_mean_s), x->real_mean_s, x->ideal_s);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const luo_replay_cause *c = find_slowest(x, of[i], NULL, 0);
        if (c)
            luo_str_addf(text, "%s %s (%.3f)", i ? "," : " most through",
                         name_of(c, name, sizeof name), c->slowdown);
    }
    luo_str_add(text, ".\n");
}

static void print_causes(FILE *out, const luo_replay_figures *x, luo_replay_by by)
{
    const luo_replay_cause *listed[LISTED];
    char name[96];
    int n = 0, all = 0;
    for (int32_t i = 0; i < x->ncauses; i++) all += x->cause[i].by == by;
    for (const luo_replay_cause *c; n < LISTED && (c = find_slowest(x, by, listed, n));) {
        listed[n++] = c;
        fprintf(out, "%-32s %9.4f", name_of(c, name, sizeof name), c->slowdown);
        if (isnan(c->recovered_ratio))
            fprintf(out, " %9s\n", "-");
        else
            fprintf(out, " %8.1f%%\n", 100 * c->recovered_ratio);
    }
    if (all > n) fprintf(out, ".. %d more\n", all - n);
}

void luo_replay_files_print(luo_cli *cli, const luo_replay_files *f)
{
    static const luo_replay_by order[] = {LUO_REPLAY_STAGE, LUO_REPLAY_PIPELINE, LUO_REPLAY_WORKER,
                                          LUO_REPLAY_OP, LUO_REPLAY_MICRO_BATCH};
    FILE *out = luo_cli_out(cli);
    const luo_replay *r = f->replay;
    const luo_replay_figures *x = f->figures;
    fputs(f->answer, out);
    fprintf(out,
            "%d step%s of %d pipeline%s of %d stage%s; recorded %.4f s, of it %.4f s launch "
            "delays\n",
            r->steps, r->steps == 1 ? "" : "s", r->pipelines, r->pipelines == 1 ? "" : "s",
            r->stages, r->stages == 1 ? "" : "s", x->measured_mean_s,
            x->measured_mean_s - x->real_mean_s);
    fprintf(out, "%-32s %9s %9s\n", "alone as recorded; alone ideal", "slowdown", "recovered");
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) print_causes(out, x, order[i]);
    if (!isnan(x->slow_workers_ratio))
        fprintf(out, "%-32s %9s %8.1f%%\n",
                x->slow_workers == 1 ? "the slowest worker" : "the slowest 3 % of the workers", "-",
                100 * x->slow_workers_ratio);
    fprintf(out, "%s/attribution.csv\n%s/devices.csv\n%s/compare_steps.csv\n%s/summary.json\n",
            f->dir, f->dir, f->dir, f->dir);
}
