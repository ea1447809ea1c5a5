/* toy_job.c: options of `luoshu sync` and `embed` on processes. */
#include <string.h>
#include <unistd.h>

#include "cli/inputs.h"
#include "cli/sync/sync_deaths.h"
#include "cli/sync/sync_groups.h"
#include "cli/sync/sync_run.h"
#include "cli/sync/toy_run.h"
#include "core/io/clicks/clicks_read.h"

enum { RANKS = 256 };

static luo_status refuse(const luo_args *args, const char *const *names, int n, const char *of,
                         luo_err *err)
{
    for (int i = 0; i < n; i++)
        if (luo_args_has(args, names[i]))
            return luo_err_set(err, LUO_EUSAGE, "`--%s` is no option of `%s`; leave it out.",
                               names[i], of);
    return LUO_OK;
}

static const char *selector_of(const luo_sync_job *job, char *text, size_t size)
{
    snprintf(text, size, "sync %s", luo_loop_mode_name((luo_loop_mode)job->mode));
    return text;
}

static luo_status on_off(const luo_args *args, const char *name, int64_t *out, luo_err *err)
{
    bool on = false;
    if (luo_args_has(args, name)) LUO_TRY(luo_inputs_on_off(args, name, &on, err));
    *out = on;
    return LUO_OK;
}

static luo_status choice(const luo_args *args, const char *name, int otherwise,
                         const char *const *names, int n, int64_t *out, luo_err *err)
{
    int which;
    LUO_TRY(luo_args_choice(args, name, otherwise, names, n, &which, err));
    *out = which;
    return LUO_OK;
}

static luo_status read_common(const luo_args *args, luo_sync_job *job, luo_err *err)
{
    LUO_TRY(luo_args_int(args, "workers", 1, 1, RANKS, &job->workers, err));
    LUO_TRY(luo_args_int(args, "iterations", job->iterations, 1, 100000, &job->iterations, err));
    LUO_TRY(luo_args_int(args, "seed", 0, 0, INT64_MAX, &job->seed, err));
    LUO_TRY(luo_args_int(args, "batch", job->batch, 1, 1 << 20, &job->batch, err));
    LUO_TRY(luo_args_number(args, "rate", job->rate, 0, 1e6, &job->rate, err));
    LUO_TRY(luo_args_number(args, "stuck-s", job->stuck_s, 0.1, 1e9, &job->stuck_s, err));
    return on_off(args, "verify", &job->verify, err);
}

/* Workers' seconds are read again by each rank; here they are checked. */
static luo_status read_speeds(luo_cli *cli, luo_sync_job *job, luo_err *err)
{
    const double *seconds;
    luo_straggler straggler;
    if (luo_args_has(&cli->args, "compute-s"))
        LUO_TRY(luo_sync_run_compute(cli, (int32_t)job->workers, &seconds, err));
    LUO_TRY(luo_sync_straggler_read(cli, (int32_t)job->workers, &straggler, err));
    job->compute = luo_args_get(&cli->args, "compute-s", job->compute);
    job->straggler = luo_args_get(&cli->args, "straggler", job->straggler);
    return LUO_OK;
}

static bool is_sparse(const luo_sync_job *job)
{
    return job->toy == LUO_TOY_WIDE || job->toy == LUO_TOY_WIDE_DEEP;
}

/* Of samples that are drawn so; the simulator draws the same of the first batch. */
static luo_status read_keys(const luo_args *args, luo_sync_job *job, luo_err *err)
{
    enum { VOCAB = 1 << 16 };
    static const char *const others[] = {"batch", "data"};
    const char *text = luo_args_get(args, "keys", NULL);
    luo_sync_keys keys;
    if (!text) return LUO_OK;
    if (!is_sparse(job))
        return luo_err_set(err, LUO_EUSAGE,
                           "`--toy %s` has no rows by key; `wide` or `wide_deep` is expected with "
                           "`--keys`.",
                           luo_sync_toys[job->toy]);
    for (int i = 0; i < 2; i++)
        if (luo_args_has(args, others[i]))
            return luo_err_set(err, LUO_EUSAGE,
                               "`--keys` says which samples there are, and how many a batch has; "
                               "leave `--%s` out.",
                               others[i]);
    LUO_TRY(luo_sync_keys_parse(text, &keys, err));
    if (keys.vocab > VOCAB || keys.slots > LUO_CLICKS_SLOTS ||
        (double)keys.batch * (double)keys.slots * (double)job->workers > 1e6)
        return luo_err_set(err, LUO_EUSAGE,
                           "`--keys` is `%s`; toys have a vocab up to %d, up to %d slots and up to "
                           "1e6 keys of all workers in an iteration.",
                           text, VOCAB, LUO_CLICKS_SLOTS);
    job->theta = keys.theta;
    job->vocab = keys.vocab;
    job->batch = keys.batch;
    job->slots = keys.slots;
    return LUO_OK;
}

/* `criteo:FILE` or `avazu:FILE`. */
static luo_status read_data(const luo_args *args, luo_sync_job *job, luo_err *err)
{
    const char *text = luo_args_get(args, "data", NULL);
    if (!text) return LUO_OK;
    if (!is_sparse(job))
        return luo_err_set(err, LUO_EUSAGE,
                           "`--data` is a click log, which only `--toy wide` and `wide_deep` read; "
                           "leave it out.");
    for (int i = 0; i < LUO_CLICKS_FORMS; i++) {
        const char *form = luo_clicks_form_name((luo_clicks_form)i);
        const size_t n = strlen(form);
        if (i == LUO_CLICKS_KEYS || strncmp(text, form, n) != 0 || text[n] != ':') continue;
        job->form = i;
        job->data = text + n + 1;
        if (access(job->data, R_OK) == 0) return LUO_OK;
        return luo_err_set(err, LUO_EINPUT,
                           "`--data` is `%s`, which cannot be read; a file is expected.",
                           job->data);
    }
    return luo_err_set(err, LUO_EUSAGE,
                       "`--data` is `%s`; `criteo:FILE` or `avazu:FILE` is expected.", text);
}

static luo_status read_die(luo_cli *cli, luo_sync_job *job, luo_err *err)
{
    const luo_sync_cost cost = {.rows = job->servers}; /* there are servers, or there are none */
    luo_loop_opts opts = {.workers = (int32_t)job->workers};
    const luo_loop_mode mode =
        luo_sync_job_groups(job) ? LUO_LOOP_PREDUCE : (luo_loop_mode)job->mode; /* a controller */
    LUO_TRY(luo_sync_deaths_read(cli, mode, &cost, &opts, err));
    if (opts.ndeaths == 0) return LUO_OK;
    if (opts.ndeaths > 1)
        return luo_err_set(err, LUO_EUSAGE,
                           "`--die` names %d deaths, and a real run ends with the first; one is "
                           "expected.",
                           opts.ndeaths);
    job->die = opts.death[0].who;
    job->die_s = opts.death[0].t_s;
    return LUO_OK;
}

static luo_status read_groups(const luo_args *args, luo_sync_job *job, luo_err *err)
{
    luo_loop_opts opts = {.mode = (luo_loop_mode)job->mode, .workers = (int32_t)job->workers};
    int comm;
    LUO_TRY(luo_sync_groups_read(args, true, &opts, &comm, err));
    job->comm = comm;
    if (job->mode != LUO_LOOP_PREDUCE) return LUO_OK;
    job->max_group = opts.preduce.max_group;
    job->guard = opts.preduce.guard;
    job->pairs = opts.preduce.pairs;
    job->adaptive = opts.preduce.adaptive;
    job->wait_s = opts.preduce.wait_s;
    job->wait_max_s = opts.preduce.wait_max_s;
    job->wait_min_s = opts.preduce.wait_min_s;
    job->beta = opts.beta;
    return LUO_OK;
}

static luo_status read_servers(const luo_args *args, luo_sync_job *job, luo_err *err)
{
    static const char *const shards[] = {LUO_EXCHANGE_SHARD_LIST(LUO_WORD_TEXT)};
    static const char *const names[] = {"servers", "shard"};
    char of[32];
    if (luo_sync_job_groups(job))
        return refuse(args, names, 2, selector_of(job, of, sizeof of), err);
    if (job->exchange == LUO_EXCHANGE_ALLREDUCE)
        return refuse(args, names, 2, "--exchange allreduce", err);
    LUO_TRY(luo_args_int(args, "servers", 1, 1, RANKS, &job->servers, err));
    return choice(args, "shard", 0, shards, LUO_EXCHANGE_SHARDS, &job->shard, err);
}

/* --exchange and what goes with it. */
static luo_status read_exchange(luo_cli *cli, luo_sync_job *job, luo_err *err)
{
    static const char *const net_of[] = {"alpha-s", "bandwidth-gbytes-per-s"};
    const luo_args *args = &cli->args;
    const luo_loop_mode mode = (luo_loop_mode)job->mode;
    luo_exchange_how how;
    luo_exchange_pick pick;
    luo_exchange_net net;
    LUO_TRY(luo_sync_cost_how(args, mode, &how, err));
    LUO_TRY(luo_sync_cost_pick(args, &pick, err));
    for (int i = 0; i < 2 && pick != LUO_EXCHANGE_BY_COST; i++)
        if (luo_args_has(args, net_of[i]))
            return luo_err_set(err, LUO_EUSAGE,
                               "`--%s` is of `--hybrid cost`, which is not given; leave it out.",
                               net_of[i]);
    LUO_TRY(luo_sync_cost_net(args, &net, err));
    if (luo_sync_job_groups(job)) return LUO_OK;
    if (how == LUO_EXCHANGE_HYBRID && job->toy != LUO_TOY_WIDE_DEEP)
        return luo_err_set(err, LUO_EUSAGE,
                           "`--toy %s` has no %s; `wide_deep`, with rows by key and a dense part, "
                           "is expected with `--exchange hybrid`.",
                           luo_sync_toys[job->toy],
                           job->toy == LUO_TOY_WIDE ? "dense part" : "rows by key");
    if (how == LUO_EXCHANGE_HYBRID && mode != LUO_LOOP_BSP) luo_sync_cost_note(cli);
    job->exchange = how;
    job->hybrid = pick;
    job->alpha_s = net.alpha_s;
    job->bytes_per_s = net.bytes_per_s;
    return LUO_OK;
}

static luo_status read_sync(luo_cli *cli, luo_sync_job *job, luo_err *err)
{
    const luo_args *args = &cli->args;
    LUO_TRY(choice(args, "toy", 0, luo_sync_toys, LUO_TOYS, &job->toy, err));
    LUO_TRY(luo_args_int(args, "staleness", 0, -1, 1000000000, &job->staleness, err));
    LUO_TRY(read_groups(args, job, err));
    LUO_TRY(read_exchange(cli, job, err));
    return read_servers(args, job, err);
}

static luo_status read_embed(const luo_args *args, luo_sync_job *job, luo_err *err)
{
    static const char *const policies[] = {LUO_HET_POLICY_LIST(LUO_WORD_TEXT)};
    job->toy = LUO_TOY_WIDE;
    LUO_TRY(luo_args_int(args, "cache-rows", 0, 0, 1 << 24, &job->cache_rows, err));
    LUO_TRY(choice(args, "policy", 0, policies, LUO_HET_POLICIES, &job->policy, err));
    LUO_TRY(luo_args_int(args, "pull-bound", 0, 0, INT32_MAX, &job->pull_bound, err));
    LUO_TRY(luo_args_int(args, "push-bound", 0, 0, INT32_MAX, &job->push_bound, err));
    if (job->embed != LUO_SYNC_GMP) return read_servers(args, job, err);
    job->servers = job->workers;
    LUO_TRY(luo_args_int(args, "rounds", job->rounds, 0, 1000, &job->rounds, err));
    return luo_args_number(args, "balance", job->balance, 0, 1e9, &job->balance, err);
}

luo_status luo_toy_job_read(luo_cli *cli, luo_loop_mode mode, luo_sync_embed embed,
                            luo_sync_job *out, luo_err *err)
{
    const luo_args *args = &cli->args;
    luo_sync_job job = luo_sync_job_default();
    job.mode = mode;
    job.embed = embed;
    LUO_TRY(read_common(args, &job, err));
    LUO_TRY(embed != LUO_SYNC_NO_EMBED ? read_embed(args, &job, err) : read_sync(cli, &job, err));
    LUO_TRY(read_speeds(cli, &job, err));
    LUO_TRY(read_data(args, &job, err));
    LUO_TRY(read_keys(args, &job, err));
    LUO_TRY(read_die(cli, &job, err));
    *out = job;
    return LUO_OK;
}
