#include "cli/sync/sync_sim.h"

#include <string.h>

#include "cli/moe/moe_sim.h"
#include "cli/sync/embed_sim.h"

#define N(t) ((int)(sizeof(t) / sizeof(t)[0]))

static const luo_sync_sim sims[] = {
    {"sync", luo_sync_run_options, luo_sync_run},
    {"embed", luo_embed_run_options, luo_embed_run},
    {"moe", luo_moe_run_options, luo_moe_run},
};

/* What selectors have in common with scenarios and plans. */
static const char *const shared[] = {"seed",    "out",   "force", "limit", "model",
                                     "cluster", "stack", "plots", NULL};
static const char *const common[] = {"help", "json", "quiet", "color", NULL};

static bool among(const char *name, const char *const *list)
{
    while (*list && strcmp(*list, name) != 0) list++;
    return *list != NULL;
}

const luo_sync_sim *luo_sync_sim_find(const luo_args *args)
{
    for (int i = 0; i < N(sims); i++)
        if (luo_args_has(args, sims[i].name)) return &sims[i];
    return NULL;
}

static luo_status check(const luo_args *args, const luo_sync_sim *sim, luo_err *err)
{
    if (args->nfiles > 0)
        return luo_err_set(err, LUO_EUSAGE, "`--%s` simulates without a file; leave out `%s`.",
                           sim->name, args->files[0]);
    for (int i = 0; i < args->nset; i++) {
        const char *name = args->set[i].option->name;
        if (strcmp(name, sim->name) != 0 && !among(name, sim->options) && !among(name, common))
            return luo_err_set(err, LUO_EUSAGE, "`--%s` is no option of `--%s`; leave it out.",
                               name, sim->name);
    }
    return LUO_OK;
}

luo_status luo_sync_sim_run(luo_cli *cli, const luo_sync_sim *sim)
{
    luo_err err = {0};
    luo_status st = check(&cli->args, sim, &err);
    if (st == LUO_OK) st = sim->run(cli, &err);
    return err.text[0] ? luo_cli_fail(cli, st, &err) : st;
}

luo_status luo_sync_sim_none(const luo_args *args, luo_err *err)
{
    for (int i = 0; i < args->nset; i++) {
        const char *name = args->set[i].option->name;
        for (int k = 0; k < N(sims) && !among(name, shared); k++)
            if (among(name, sims[k].options))
                return luo_err_set(err, LUO_EUSAGE,
                                   "`--%s` is of `--%s`, which takes no file; leave one out.", name,
                                   sims[k].name);
    }
    return LUO_OK;
}
