/* embed_sim.c: where the samples of embedding tables come from, and their memory. */
#include "cli/sync/embed_sim.h"

#include <math.h>
#include <string.h>

#include "cli/options/spec.h"
#include "core/io/clicks/clicks_read.h"
#include "core/sync/embed/zipf.h"

#define N(t) ((int)(sizeof(t) / sizeof(t)[0]))

luo_status luo_embed_memory(luo_cli *cli, double bytes, const char *subject, luo_err *err)
{
    return luo_work_check(&cli->work, LUO_WORK_EMBED_MIB, ceil(bytes / 1048576), subject, err);
}

/* ---- samples ---- */

enum { SAMPLES, SLOTS, VOCAB, THETA, GROUPS, LOCAL, PARTS };
static const luo_spec_part parts[PARTS] = {{"samples", 1, 1e8, 1e5, true, NULL},
                                           {"slots", 1, LUO_CLICKS_SLOTS, 26, true, NULL},
                                           {"vocab", 1, LUO_ZIPF_VOCAB, 1e6, true, NULL},
                                           {"theta", 0, 100, 1.05, false, NULL},
                                           {"groups", 1, 1e6, 1, true, NULL},
                                           {"local", 0, 1, 0, false, NULL}};

static luo_status draw_samples(luo_cli *cli, const char *option, const char *text, uint64_t seed,
                               luo_clicks *out, luo_err *err)
{
    double v[PARTS];
    bool given[PARTS];
    const luo_spec spec = {option,
                           "`synthetic:samples=1e5,slots=26,vocab=1e6,theta=1.05,groups=1,local=0`"
                           " or a part of it",
                           parts, PARTS};
    LUO_TRY(luo_spec_read_behind(&spec, "synthetic", text, v, given, err));
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
    const luo_clicks_spec drawn = {(int64_t)v[SAMPLES], (int64_t)v[SLOTS],
                                   (int64_t)v[VOCAB],   v[THETA],
                                   (int64_t)v[GROUPS],  v[LOCAL]};
    return luo_clicks_draw(cli->arena, &drawn, seed, out, err);
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
