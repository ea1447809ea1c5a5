/* replay_scenario.c: `luoshu replay --scenario`: the job with its slow workers as a scenario, so
 * that policies can be tried on it. */
#include <stdlib.h>
#include <string.h>

#include "cli/load.h"
#include "cli/replay/replay_files.h"
#include "core/base/devset.h"
#include "core/io/io.h"
#include "core/io/read/read.h"

static const double SLOW = 1.05; /* mean compute ratio from which a worker is a straggler */

/* The folder of a path, with its slash; "": none is named. */
static const char *folder_of(luo_cli *cli, const char *path)
{
    const char *slash = strrchr(path, '/');
    return luo_arena_strndup(cli->arena, path, slash ? (size_t)(slash - path) + 1 : 0);
}

/* `path`, which is relative to where the user stands, as the file `from` has to name it: paths in a
 * file are relative to that file. */
static const char *named_from(luo_cli *cli, const char *from, const char *path)
{
    const char *folder = folder_of(cli, from), *at = folder;
    luo_str text = {0};
    if (!folder || path[0] == '/' || !*folder) return folder ? path : NULL;
    if (folder[0] == '/' || strstr(folder, "..")) { /* the way back is not in the words */
        char *whole = realpath(path, NULL);
        const char *kept = whole ? luo_arena_strdup(cli->arena, whole) : path;
        free(whole);
        return kept;
    }
    while (*at) {
        const size_t n = strcspn(at, "/");
        if (n > 0 && !(n == 1 && *at == '.')) luo_str_add(&text, "../");
        at += n + strspn(at + n, "/");
    }
    luo_str_add(&text, path);
    const char *kept = text.failed ? NULL : luo_arena_strdup(cli->arena, luo_str_get(&text));
    luo_str_free(&text);
    return kept;
}

static luo_status check_plan(const luo_replay_files *files, const luo_plan *plan, const char *path,
                             luo_err *err)
{
    const luo_replay *replay = files->replay;
    bool fits = plan->npipelines == replay->pipelines;
    for (int32_t d = 0; d < plan->npipelines; d++)
        fits &= plan->pipelines[d].nstages == replay->stages;
    if (fits) return LUO_OK;
    return luo_err_set(err, LUO_EINPUT,
                       "plan `%s` has %d pipelines, the first one of %d stages, and %d of %d were "
                       "recorded; the plan that `luoshu import stragglers` makes is expected.",
                       path, plan->npipelines, plan->pipelines[0].nstages, replay->pipelines,
                       replay->stages);
}

static void put_events(luo_str *text, const luo_replay_files *files, const luo_plan *plan)
{
    const luo_replay *replay = files->replay;
    int32_t n = 0;
    for (int32_t d = 0; d < replay->pipelines; d++)
        for (int32_t s = 0; s < replay->stages; s++) {
            const double ratio = files->figures->compute_ratio[(int64_t)d * replay->stages + s];
            const luo_stage *stage = &plan->pipelines[d].stages[s];
            if (ratio <= SLOW) continue;
            luo_str_add(text, n++ ? "" : "events:\n");
            luo_str_addf(text, "  - {id: p%d-s%d, kind: straggler, target: \"device:", d, s);
            luo_devset_print(text, stage->dev, stage->ndev);
            luo_str_addf(text, "\", slowdown: %.6g, at_s: 0}\n", ratio);
        }
}

static luo_status put_scenario(luo_cli *cli, const luo_replay_files *files, const luo_plan *plan,
                               const char *plan_path, const char *path, luo_str *text)
{
    int64_t sequences = 0;
    const char *model = named_from(cli, path, luo_args_get(&cli->args, "model", ""));
    const char *cluster = named_from(cli, path, luo_args_get(&cli->args, "cluster", ""));
    const char *named_plan = named_from(cli, path, plan_path);
    if (!model || !cluster || !named_plan) return LUO_ENOMEM;
    for (int32_t d = 0; d < plan->npipelines; d++)
        sequences +=
            (int64_t)plan->pipelines[d].micro_batches * plan->pipelines[d].micro_batch_sequences;
    luo_str_addf(
        text,
        "# luoshu replay: workers that compute more than %.2f times as long as the mean of "
        "all\nschema: luoshu.scenario/1\nname: replay\n",
        SLOW);
    luo_str_add(text, "cluster: ");
    luo_jsonw_quote(text, cluster);
    luo_str_add(text, "\nmodel: ");
    luo_jsonw_quote(text, model);
    luo_str_add(text, "\nplan: ");
    luo_jsonw_quote(text, named_plan);
    luo_str_addf(
        text,
        "\nextent: {steps: %d}\ndata:\n  batch: {sequences: %lld}\n  lengths: {kind: fixed, "
        "tokens: %lld}\npolicies:\n  - {name: static}\n  - {name: malleus}\n",
        files->replay->steps, (long long)sequences, (long long)plan->sequence_tokens);
    put_events(text, files, plan);
    return text->failed ? LUO_ENOMEM : LUO_OK;
}

static luo_status write_own(luo_cli *cli, const char *path, luo_str *text, luo_err *err)
{
    luo_source old;
    const bool there = luo_source_read(cli->arena, path, &old, NULL) == LUO_OK;
    if (there && !luo_args_has(&cli->args, "force"))
        return luo_err_set(err, LUO_EUSAGE, "`%s` exists; give another --scenario, or --force.",
                           path);
    return luo_file_write_atomic(path, text->at, text->len, err);
}

luo_status luo_replay_files_scenario(luo_cli *cli, const luo_replay_files *files, const char *path,
                                     luo_err *err)
{
    luo_model *model;
    luo_cluster *cluster;
    luo_plan *plan;
    luo_scenario *scenario;
    luo_str text = {0};
    const char *plan_path =
        luo_args_get(&cli->args, "plan",
                     luo_arena_printf(cli->arena, "%splan.json", folder_of(cli, files->path)));
    if (!plan_path) return luo_err_nomem(err);
    LUO_TRY(luo_cli_model(cli, &model));
    LUO_TRY(luo_cli_cluster(cli, &cluster));
    LUO_TRY(luo_cli_plan(cli, plan_path, model, cluster, &plan, NULL));
    LUO_TRY(check_plan(files, plan, plan_path, err));
    luo_status st = put_scenario(cli, files, plan, plan_path, path, &text);
    st = st == LUO_OK ? write_own(cli, path, &text, err) : luo_err_nomem(err);
    luo_str_free(&text);
    LUO_TRY(st);
    return luo_read_scenario(cli->arena, path, NULL, &scenario, NULL, &cli->diags);
}
