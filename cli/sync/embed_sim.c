/* embed_sim.c: `luoshu sim --embed`: which options go with which way, and where samples come from.
 */
#include "cli/sync/embed_sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/sync/sync_sim.h"
#include "core/io/clicks/clicks_read.h"

#define N(t) ((int)(sizeof(t) / sizeof(t)[0]))

/* All of them; those that a way does not take are refused below. */
const char *const luo_embed_run_options[] = {
    "cache-rows", "policy",     "pull-bound", "push-bound", "keys",  "workers",
    "servers",    "iterations", "compute-s",  "straggler",  "width", "alpha-s",
    "data",       "parts",      "per-node",   "rounds",     "batch", "balance",
    "replicas",   "seed",       "out",        "force",      "limit", "bandwidth-gbytes-per-s",
    NULL};

enum { PS = 1, HET = 2, GMP = 4 };
static const struct {
    const char *name;
    int ways;      /* that take it */
    int needed_by; /* that do nothing without */
} owners[] = {{"cache-rows", HET, HET},
              {"policy", HET, 0},
              {"pull-bound", HET | GMP, 0},
              {"push-bound", HET | GMP, 0},
              {"keys", PS | HET, PS | HET},
              {"workers", PS | HET, PS | HET},
              {"servers", PS | HET, 0},
              {"compute-s", PS | HET, 0},
              {"straggler", PS | HET, 0},
              {"alpha-s", PS | HET, 0},
              {"bandwidth-gbytes-per-s", PS | HET, 0},
              {"width", PS | HET, 0},
              {"data", GMP, GMP},
              {"parts", GMP, GMP},
              {"per-node", GMP, 0},
              {"rounds", GMP, 0},
              {"balance", GMP, 0},
              {"replicas", GMP, 0}};
static const char *const ways[] = {"ps", "het", "gmp"};

static luo_status check_owners(const luo_args *args, int way, luo_err *err)
{
    for (int i = 0; i < N(owners); i++) {
        const bool given = luo_args_has(args, owners[i].name);
        if (given && !(owners[i].ways & 1 << way))
            return luo_err_set(err, LUO_EUSAGE,
                               "`--%s` is no option of `--embed %s`; leave it out.", owners[i].name,
                               ways[way]);
        if (!given && owners[i].needed_by & 1 << way)
            return luo_err_set(err, LUO_EUSAGE, "`--%s` is missing; `--embed %s` needs it.",
                               owners[i].name, ways[way]);
    }
    return LUO_OK;
}

luo_status luo_embed_run(luo_cli *cli, luo_err *err)
{
    int way;
    LUO_TRY(luo_args_choice(&cli->args, "embed", 0, ways, N(ways), &way, err));
    LUO_TRY(check_owners(&cli->args, way, err));
    if (1 << way == GMP) return luo_embed_partition(cli, err);
    return luo_embed_cached(cli, 1 << way == HET, err);
}

luo_status luo_embed_memory(luo_cli *cli, double bytes, const char *subject, luo_err *err)
{
    return luo_work_check(&cli->work, LUO_WORK_EMBED_MIB, ceil(bytes / 1048576), subject, err);
}

/* ---- samples ---- */

static const struct {
    const char *name;
    double least, most, otherwise;
    bool whole;
} parts[] = {{"samples", 1, 1e8, 1e5, true},
             {"slots", 1, LUO_CLICKS_SLOTS, 26, true},
             {"vocab", 1, LUO_ZIPF_VOCAB, 1e6, true},
             {"theta", 0, 100, 1.05, false},
             {"groups", 1, 1e6, 1, true},
             {"local", 0, 1, 0, false}};
enum { SAMPLES, SLOTS, VOCAB, THETA, GROUPS, LOCAL, PARTS };

static luo_status bad_spec(const char *option, const char *text, luo_err *err)
{
    return luo_err_set(err, LUO_EUSAGE,
                       "`--%s` is `%s`; `synthetic:samples=1e5,slots=26,vocab=1e6,theta=1.05,"
                       "groups=1,local=0` or a part of it is expected.",
                       option, text);
}

/* Reads a part of text, a name and a number, from *at on; `given` are those before it. */
static luo_status read_part(const char *option, const char *text, const char **at, double *v,
                            bool *given, luo_err *err)
{
    int i = 0;
    char *end;
    const size_t n = strcspn(*at, "=");
    while (i < PARTS && (strlen(parts[i].name) != n || strncmp(*at, parts[i].name, n) != 0)) i++;
    if (i == PARTS || !(*at)[n] || given[i]) return bad_spec(option, text, err);
    v[i] = strtod(*at + n + 1, &end);
    if (end == *at + n + 1 || !(v[i] >= parts[i].least && v[i] <= parts[i].most) ||
        (parts[i].whole && v[i] != floor(v[i])))
        return luo_err_set(err, LUO_EUSAGE, "`--%s` is `%s`; its %s is a %snumber from %g to %g.",
                           option, text, parts[i].name, parts[i].whole ? "whole " : "",
                           parts[i].least, parts[i].most);
    given[i] = true;
    *at = end;
    return LUO_OK;
}

static luo_status draw_samples(luo_cli *cli, const char *option, const char *text, uint64_t seed,
                               luo_clicks *out, luo_err *err)
{
    double v[PARTS];
    bool given[PARTS] = {false};
    const char *at = text + strlen("synthetic");
    for (int i = 0; i < PARTS; i++) v[i] = parts[i].otherwise;
    while (*at == (at == text + strlen("synthetic") ? ':' : ',')) {
        at++;
        LUO_TRY(read_part(option, text, &at, v, given, err));
    }
    if (*at) return bad_spec(option, text, err);
    if (v[VOCAB] < v[SLOTS])
        return luo_err_set(err, LUO_EUSAGE,
                           "`--%s` is `%s`; its vocab of %g is too small for %g slots.", option,
                           text, v[VOCAB], v[SLOTS]);
    if (v[SAMPLES] * v[SLOTS] > 1e9)
        return luo_err_set(err, LUO_EUSAGE, "`--%s` is `%s`; at most 1e9 keys in all are drawn.",
                           option, text);
    char subject[64];
    snprintf(subject, sizeof subject, "samples and vocab of `--%s` ask for", option);
    LUO_TRY(luo_embed_memory(
        cli, 4 * v[SAMPLES] * v[SLOTS] + 8 * v[VOCAB] / v[SLOTS] + 4 * v[VOCAB], subject, err));
    const luo_clicks_spec spec = {(int64_t)v[SAMPLES], (int64_t)v[SLOTS],
                                  (int64_t)v[VOCAB],   v[THETA],
                                  (int64_t)v[GROUPS],  v[LOCAL]};
    return luo_clicks_draw(cli->arena, &spec, seed, out, err);
}

luo_status luo_embed_samples(luo_cli *cli, const char *option, uint64_t seed, luo_clicks *out,
                             luo_err *err)
{
    static const struct {
        const char *name;
        luo_clicks_form form;
    } forms[] = {
        {"trace:", LUO_CLICKS_KEYS}, {"criteo:", LUO_CLICKS_CRITEO}, {"avazu:", LUO_CLICKS_AVAZU}};
    const char *text = luo_args_get(&cli->args, option, "");
    const size_t word = strcspn(text, ":");
    if (word == strlen("synthetic") && strncmp(text, "synthetic", word) == 0)
        return draw_samples(cli, option, text, seed, out, err);
    for (int i = 0; i < N(forms); i++)
        if (strncmp(text, forms[i].name, strlen(forms[i].name)) == 0)
            return luo_clicks_read(cli->arena, text + strlen(forms[i].name), forms[i].form, out,
                                   &cli->diags);
    return luo_clicks_read(cli->arena, text, LUO_CLICKS_KEYS, out, &cli->diags);
}
