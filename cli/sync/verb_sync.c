/* verb_sync.c: `luoshu sync MODE` and `luoshu embed METHOD`: which options there are, and who
 * answers: the simulator, or toy models on processes. */
#include "cli/options/ways.h"
#include "cli/sync/embed_sim.h"
#include "cli/sync/sync_run.h"
#include "cli/sync/toy_run.h"

#define N(t) ((int)(sizeof(t) / sizeof(t)[0]))

static const char *const backends[] = {"sim", "host"};
enum { SIM = 1, HOST = 2 };

static const luo_way_option sync_options[] = {
    {"workers", SIM | HOST, SIM | HOST},
    {"compute-s", SIM | HOST, SIM},
    {"horizon-s", SIM, SIM},
    {"sync-s", SIM, 0},
    {"dense-bytes", SIM, 0},
    {"width", SIM, 0},
    {"limit", SIM, 0},
    {"toy", HOST, 0},
    {"iterations", HOST, 0},
    {"batch", HOST, 0},
    {"rate", HOST, 0},
    {"data", HOST, 0},
    {"verify", HOST, 0},
    {"stuck-s", HOST, 0},
};

static luo_status sync_run(luo_cli *cli, luo_err *err)
{
    static const char *const modes[] = {LUO_LOOP_MODE_LIST(LUO_WORD_ONLY)};
    static const char *const texts[] = {"`luoshu sync`", "`luoshu sync --backend host`"};
    const luo_args *args = &cli->args;
    int mode, backend;
    LUO_TRY(luo_way_word(args, "mode", modes, N(modes), &mode, err));
    LUO_TRY(luo_args_choice(args, "backend", 0, backends, N(backends), &backend, err));
    LUO_TRY(luo_way_check(args, sync_options, N(sync_options), backend, texts[backend], err));
    LUO_TRY(luo_sync_run_mode(args, (luo_loop_mode)mode, err));
    if (backend == 0) return luo_sync_run(cli, (luo_loop_mode)mode, err);
    return luo_toy_run(cli, (luo_loop_mode)mode, LUO_SYNC_NO_EMBED, err);
}

/* Methods of embedding tables: simulated, and of processes. */
enum { PS = 1, HET = 2, GMP = 4, HOST_PS = 8, HOST_HET = 16, HOST_GMP = 32 };
enum { SERVED = PS | HET, CACHED = HET | HOST_HET | HOST_GMP };
enum { REAL = HOST_PS | HOST_HET | HOST_GMP };

static const luo_way_option embed_options[] = {
    {"workers", SERVED | GMP | REAL, SERVED | GMP | REAL},
    {"cache-rows", CACHED, CACHED},
    {"policy", CACHED, 0},
    {"pull-bound", CACHED | GMP, 0},
    {"push-bound", CACHED | GMP, 0},
    {"keys", SERVED, SERVED},
    {"servers", SERVED | HOST_PS | HOST_HET, 0},
    {"shard", HOST_PS | HOST_HET, 0},
    {"compute-s", SERVED | REAL, 0},
    {"straggler", SERVED | REAL, 0},
    {"alpha-s", SERVED, 0},
    {"bandwidth-gbytes-per-s", SERVED, 0},
    {"width", SERVED, 0},
    {"data", GMP | REAL, GMP},
    {"per-node", GMP, 0},
    {"rounds", GMP | HOST_GMP, 0},
    {"balance", GMP | HOST_GMP, 0},
    {"replicas", GMP, 0},
    {"rate", REAL, 0},
    {"verify", REAL, 0},
    {"stuck-s", REAL, 0},
    {"die", REAL, 0},
    {"limit", SERVED | GMP, 0},
};

static luo_status embed_run(luo_cli *cli, luo_err *err)
{
    static const char *const methods[] = {"ps", "het", "gmp"};
    static const luo_sync_embed embeds[] = {LUO_SYNC_PS, LUO_SYNC_HET, LUO_SYNC_GMP};
    const luo_args *args = &cli->args;
    int method, backend;
    char text[64];
    LUO_TRY(luo_way_word(args, "method", methods, N(methods), &method, err));
    LUO_TRY(luo_args_choice(args, "backend", 0, backends, N(backends), &backend, err));
    snprintf(text, sizeof text, "`luoshu embed %s%s`", methods[method],
             backend ? " --backend host" : "");
    LUO_TRY(luo_way_check(args, embed_options, N(embed_options), method + backend * N(methods),
                          text, err));
    if (backend > 0) return luo_toy_run(cli, LUO_LOOP_ASP, embeds[method], err);
    if (embeds[method] == LUO_SYNC_GMP) return luo_embed_partition(cli, err);
    return luo_embed_cached(cli, embeds[method] == LUO_SYNC_HET, err);
}

luo_status luo_verb_sync_run(luo_cli *cli)
{
    luo_err err = {0};
    const luo_status st = sync_run(cli, &err);
    return err.text[0] ? luo_cli_fail(cli, st, &err) : st;
}

luo_status luo_verb_embed_run(luo_cli *cli)
{
    luo_err err = {0};
    const luo_status st = embed_run(cli, &err);
    return err.text[0] ? luo_cli_fail(cli, st, &err) : st;
}
