#include "cli/sync/sync_groups.h"

#include <math.h>
#include <string.h>

#include "cli/options/spec.h"
#include "core/sync/mode_keys.h"
#include "exec/sync/sync_job.h"

enum { WAIT, MAX, GUARD, PAIRS, ADAPTIVE, WAIT_MAX, WAIT_MIN, BETA, REQUEST, COMM, PARTS };
static const char *const on_off[] = {"off", "on", NULL};
static const char *const comms[] = {LUO_SYNC_COMM_LIST(LUO_WORD_ONLY) NULL};

static luo_status not_of(const luo_mode_key *key, luo_loop_mode mode, luo_err *err)
{
    luo_str whose = {0};
    luo_words_choices(&whose, key->mode, luo_mode_key_count(key));
    const luo_status st =
        luo_err_set(err, LUO_EUSAGE, "`--groups` has `%s`, which `%s` has not; it is of %s.",
                    key->name, luo_loop_mode_name(mode), luo_str_get(&whose));
    luo_str_free(&whose);
    return st;
}

/* Parts of one mode alone, or of adaptive waits; luo_mode_keys says which. */
static luo_status check(const luo_spec *spec, const bool *given, luo_loop_mode mode, bool adaptive,
                        luo_err *err)
{
    for (int i = 0; i < luo_nmode_keys; i++) {
        const luo_mode_key *key = &luo_mode_keys[i];
        int part = 0;
        while (part < spec->nparts && strcmp(spec->parts[part].name, key->name) != 0) part++;
        if (part == spec->nparts || !given[part]) continue;
        if (!luo_mode_key_is_of(key, luo_loop_mode_name(mode))) return not_of(key, mode, err);
        if (key->adaptive && !adaptive)
            return luo_err_set(err, LUO_EUSAGE,
                               "`--groups` has `%s`, which bounds adaptive waits; add "
                               "`adaptive=on`, or leave it out.",
                               key->name);
    }
    return LUO_OK;
}

/* Parts of one backend alone. */
static luo_status check_backend(const bool *given, bool host, luo_err *err)
{
    if (given[COMM] && !host)
        return luo_err_set(err, LUO_EUSAGE,
                           "`--groups` has `comm`, which is of --backend host; leave it out.");
    if (given[REQUEST] && host)
        return luo_err_set(err, LUO_EUSAGE,
                           "`--groups` has `request_s`, which only simulated workers wait; leave "
                           "it out.");
    return LUO_OK;
}

static void take(const double *v, const bool *given, luo_loop_opts *o)
{
    luo_preduce_opts *p = &o->preduce;
    p->wait_s = v[WAIT];
    p->max_group = (int32_t)v[MAX];
    p->guard = (int32_t)v[GUARD];
    p->pairs = v[PAIRS] != 0;
    p->adaptive = v[ADAPTIVE] != 0;
    p->wait_max_s = v[WAIT_MAX];
    p->wait_min_s = given[WAIT_MIN] ? v[WAIT_MIN] : fmin(v[WAIT_MIN], v[WAIT_MAX]);
    o->beta = v[BETA];
    o->request_s = v[REQUEST];
}

luo_status luo_sync_groups_read(const luo_args *args, bool host, luo_loop_opts *opts, int *comm,
                                luo_err *err)
{
    const luo_spec_part parts[PARTS] = {
        [WAIT] = {"wait_s", 0, 1e10, 1e-3, false, NULL},
        [MAX] = {"max_group", 1, opts->workers, opts->workers, true, NULL},
        [GUARD] = {"guard", 0, 1 << 20, 0, true, NULL},
        [PAIRS] = {"pairs", 0, 1, 0, true, on_off},
        [ADAPTIVE] = {"adaptive", 0, 1, 0, true, on_off},
        [WAIT_MAX] = {"wait_max_s", 0, 1e10, 0.01, false, NULL},
        [WAIT_MIN] = {"wait_min_s", 0, 1e10, 1e-5, false, NULL},
        [BETA] = {"beta", 1e-6, 1, 1, false, NULL},
        [REQUEST] = {"request_s", 0, 1e10, 0, false, NULL},
        [COMM] = {"comm", 0, 1, 0, true, comms},
    };
    const luo_spec spec = {
        "groups",
        "a part or several of `wait_s=0.001,max_group=4,guard=0,pairs=off,adaptive=off,"
        "wait_max_s=0.01,wait_min_s=0.00001,beta=1,request_s=0,comm=p2p`",
        parts, PARTS};
    const char *text = luo_args_get(args, "groups", NULL);
    double v[PARTS];
    bool given[PARTS] = {false};
    for (int i = 0; i < PARTS; i++) v[i] = parts[i].otherwise;
    if (text && !luo_loop_mode_groups(opts->mode))
        return luo_err_set(err, LUO_EUSAGE,
                           "`--groups` is given, and workers under `%s` form none; leave it out.",
                           luo_loop_mode_name(opts->mode));
    if (text) LUO_TRY(luo_spec_read(&spec, text, text, v, given, err));
    LUO_TRY(check(&spec, given, opts->mode, v[ADAPTIVE] != 0, err));
    LUO_TRY(check_backend(given, host, err));
    if (given[WAIT_MIN] && v[WAIT_MIN] > v[WAIT_MAX])
        return luo_err_set(err, LUO_EUSAGE,
                           "`--groups` is `%s`; its wait_min_s is a number up to wait_max_s, %g.",
                           text, v[WAIT_MAX]);
    take(v, given, opts);
    *comm = (int)v[COMM];
    return LUO_OK;
}
