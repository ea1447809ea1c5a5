#include "cli/sync/sync_deaths.h"

#include <stdlib.h>
#include <string.h>

typedef struct reader {
    const char *text, *at;
    luo_loop_mode mode;
    bool servers;
    int32_t workers;
} reader;

static luo_status bad(const reader *r, luo_err *err)
{
    return luo_err_set(err, LUO_EUSAGE,
                       "`--die` is `%s`; who and seconds are expected, such as `3=12.5,server=30`.",
                       r->text);
}

static luo_status read_who(reader *r, int32_t *who, luo_err *err)
{
    const size_t n = strcspn(r->at, "=,");
    char *end;
    const long worker = strtol(r->at, &end, 10);
    if (r->at[n] != '=') return bad(r, err);
    if (n == 6 && strncmp(r->at, "server", n) == 0) {
        if (!r->servers)
            return luo_err_set(err, LUO_EUSAGE,
                               "`--die` names a server and there is none; leave it out.");
        *who = LUO_LOOP_SERVER;
    } else if (n == 10 && strncmp(r->at, "controller", n) == 0) {
        if (r->mode != LUO_LOOP_PREDUCE)
            return luo_err_set(err, LUO_EUSAGE,
                               "`--die` names a controller, which `%s` has not; leave it "
                               "out.",
                               luo_loop_mode_name(r->mode));
        *who = LUO_LOOP_CONTROLLER;
    } else {
        if (end == r->at || end != r->at + n) return bad(r, err);
        if (worker < 0 || worker >= r->workers)
            return luo_err_set(err, LUO_EUSAGE, "`--die` names worker %ld; workers are 0 to %d.",
                               worker, r->workers - 1);
        *who = (int32_t)worker;
    }
    r->at += n + 1;
    return LUO_OK;
}

static luo_status read_one(reader *r, luo_loop_death *out, luo_err *err)
{
    char *end;
    LUO_TRY(read_who(r, &out->who, err));
    out->t_s = strtod(r->at, &end);
    if (end == r->at || !(out->t_s >= 0 && out->t_s <= 1e10) || (*end && *end != ','))
        return bad(r, err);
    r->at = end;
    return LUO_OK;
}

static int by_time(const void *a, const void *b)
{
    const luo_loop_death *x = a, *y = b;
    if (x->t_s != y->t_s) return x->t_s < y->t_s ? -1 : 1;
    return (x->who > y->who) - (x->who < y->who);
}

/* Nobody dies twice. */
static luo_status check(const luo_loop_death *death, int32_t n, bool *dead, luo_err *err)
{
    for (int32_t i = 0; i < n; i++) {
        if (death[i].who < 0) continue;
        if (dead[death[i].who])
            return luo_err_set(err, LUO_EUSAGE, "`--die` names worker %d twice; once is expected.",
                               death[i].who);
        dead[death[i].who] = true;
    }
    return LUO_OK;
}

luo_status luo_sync_deaths_read(luo_cli *cli, luo_loop_mode mode, const luo_sync_cost *cost,
                                luo_loop_opts *opts, luo_err *err)
{
    const char *text = luo_args_get(&cli->args, "die", NULL);
    if (!text) return LUO_OK;
    reader r = {text, text, mode, luo_sync_cost_servers(cost), opts->workers};
    if (cost->given)
        r.servers = !luo_loop_mode_groups(mode); /* what takes --sync-s may have some */
    luo_loop_death *death = LUO_NEW_N(cli->arena, luo_loop_death, strlen(text) / 2 + 1);
    bool *dead = LUO_NEW_N(cli->arena, bool, opts->workers);
    int32_t n = 0;
    if (!death || !dead) return luo_err_nomem(err);
    do LUO_TRY(read_one(&r, &death[n++], err));
    while (*r.at++ == ',');
    qsort(death, (size_t)n, sizeof *death, by_time);
    LUO_TRY(check(death, n, dead, err));
    opts->death = death;
    opts->ndeaths = n;
    return LUO_OK;
}
