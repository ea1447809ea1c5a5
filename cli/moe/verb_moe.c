/* verb_moe.c: `luoshu moe exchange|layer`. */
#include "cli/moe/moe_sim.h"

#include "cli/folder.h"
#include <string.h>

#include "cli/inputs.h"
#include "cli/load.h"
#include "cli/options/ways.h"
#include "cli/run/finish.h"
#include "core/io/plot/plots.h"

#define N(t) ((int)(sizeof(t) / sizeof(t)[0]))

enum { EXCHANGE, LAYER };
static const char *const kinds[] = {"exchange", "layer"};

bool luo_moe_kind_is(const char *kind)
{
    for (int i = 0; i < N(kinds); i++)
        if (strcmp(kinds[i], kind) == 0) return true;
    return false;
}

static const luo_way_option options[] = {
    {"nodes", 1 << EXCHANGE, 0},        {"devices-per-node", 1 << EXCHANGE, 0},
    {"free-gib", 1 << EXCHANGE, 0},     {"model", 1 << LAYER, 1 << LAYER},
    {"expert-parallel", 1 << LAYER, 0}, {"tokens", 1 << LAYER, 0},
    {"dtype", 1 << LAYER, 0},           {"exchange", 1 << LAYER, 0}};

static luo_status run(luo_cli *cli, luo_err *err)
{
    static const char *const texts[] = {"`luoshu moe exchange`", "`luoshu moe layer`"};
    int kind;
    bool plots = true;
    luo_cluster *cluster;
    luo_moe_sim sim = {0};
    LUO_TRY(luo_way_word(&cli->args, "subject", kinds, N(kinds), &kind, err));
    LUO_TRY(luo_way_check(&cli->args, options, N(options), kind, texts[kind], err));
    LUO_TRY(luo_inputs_on_off(&cli->args, "plots", &plots, err));
    LUO_TRY(luo_cli_stack(cli, &sim.stack));
    LUO_TRY(luo_cli_cluster(cli, &cluster));
    sim.cluster = cluster;
    sim.dir = luo_args_get(&cli->args, "out", kind == LAYER ? "moe-layer" : "moe-exchange");
    luo_status st =
        kind == LAYER ? luo_moe_layers(cli, &sim, err) : luo_moe_exchange_run(cli, &sim, err);
    const luo_folder_end end = luo_folder_end_of(st); /* without figures it is whole, too */
    if (st == LUO_OK && plots) st = luo_cli_draw_all(cli, sim.dir);
    const luo_status closed = luo_folder_give(cli, &sim.set, end, st == LUO_OK ? err : NULL);
    return st == LUO_OK ? closed : st;
}

luo_status luo_verb_moe_run(luo_cli *cli)
{
    luo_err err = {0};
    const luo_status st = run(cli, &err);
    return err.text[0] ? luo_cli_fail(cli, st, &err) : st;
}
