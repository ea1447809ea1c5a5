#include "cli/sync/toy_run.h"

#include <math.h>
#include <string.h>

#include "cli/machine.h"
#include "core/io/files.h"
#include "exec/coordinator/launch.h"

#define N(t) ((int)(sizeof(t) / sizeof(t)[0]))

/* ---- the ranks ---- */

typedef struct call {
    luo_cli *cli;
    luo_sync_job job;
    luo_sync_write write;
    luo_toy_log log;
    const char *ranks; /* folder of their logs */
    luo_folder_end end;
} call;

/* What a rank ends with is the status it had. */
static luo_status status_of(int code)
{
    static const luo_status ends[] = {LUO_EUSAGE, LUO_EINPUT, LUO_ESTUCK, LUO_EBUG};
    for (int i = 0; i < N(ends); i++)
        if (luo_status_exit(ends[i]) == code) return ends[i];
    return LUO_EBACKEND;
}

/* One sentence of why the ranks did not end well. */
static luo_status failure(const call *c, const luo_launch *launch, luo_err *err)
{
    char reason[512], who[32];
    const int32_t rank = luo_launch_rank_named(launch);
    luo_launch_reason(launch, reason, sizeof reason);
    if (rank >= 0) {
        luo_sync_job_who(&c->job, rank, who, sizeof who);
        return luo_err_set(err, LUO_EPEER,
                           "%s (rank %d) was killed, and the others ended with it; what they had "
                           "done stands in `%s`.",
                           who, (int)rank, c->write.dir);
    }
    return luo_err_set(err, status_of(luo_process_code(&launch->process)), "%s.", reason);
}

static luo_status start(const call *c, luo_exec_options *options, luo_launch *launch, luo_err *err)
{
    const int32_t n = luo_sync_job_ranks(&c->job);
    LUO_TRY(luo_machine_rank_program(c->cli->arena, "luoshu-rank", &options->program, err));
    LUO_TRY(luo_sync_job_words(c->cli->arena, &c->job, &options->inputs, &options->ninputs, err));
    luo_cli_flush(c->cli);
    fflush(stdout);
    return luo_launch_start(options, NULL, NULL, n, launch, err);
}

static luo_status train(call *c, luo_err *err)
{
    luo_exec_options options = {.log = luo_arena_printf(c->cli->arena, "%s/ranks.log", c->ranks)};
    char mpirun[4096];
    luo_launch launch = {0};
    if (!options.log) return luo_err_nomem(err);
    options.launcher =
        luo_launch_mpirun(mpirun, sizeof mpirun) ? LUO_LAUNCH_LOCAL : LUO_LAUNCH_MPIRUN;
    LUO_TRY(start(c, &options, &launch, err));
    luo_process_wait(&launch.process, INFINITY);
    const luo_status st =
        luo_process_code(&launch.process) == 0 ? LUO_OK : failure(c, &launch, err);
    luo_launch_end(&launch, &options, 0);
    return st;
}

/* ---- what came of it ---- */

static void json_fact(luo_jsonw *json, const luo_toy_log *log, const char *key, const char *fact)
{
    const double v = luo_toy_log_sum(log, fact);
    if (!isnan(v)) luo_jsonw_num(json, key, v, 9);
}

static const char *const moves[] = {"push", "pull", "meta", "ring"}; /* ends of facts' names */

static double moved(const luo_toy_log *log, const char *what, int kind)
{
    char fact[32];
    snprintf(fact, sizeof fact, "%s_%s", what, moves[kind]);
    return luo_toy_log_sum(log, fact);
}

/* what: "bytes" of messages, "payload" without what is around it. */
static void json_bytes(luo_jsonw *json, const luo_toy_log *log, const char *what)
{
    static const char *const keys[] = {"push", "pull", "meta", "allreduce"};
    luo_jsonw_open(json, what, '{');
    for (int i = 0; i < N(keys); i++) {
        const double v = moved(log, what, i);
        if (!isnan(v)) luo_jsonw_int(json, keys[i], (int64_t)v);
    }
    luo_jsonw_close(json);
}

static bool has_exchange(const luo_sync_job *job)
{
    return job->embed == LUO_SYNC_NO_EMBED && !luo_sync_job_groups(job);
}

static const char *how_of(const luo_sync_job *job)
{
    static const char *const hows[] = {LUO_EXCHANGE_HOW_LIST(LUO_WORD_TEXT)};
    return hows[job->exchange];
}

static void json_embed(luo_jsonw *json, const call *c)
{
    static const char *const facts[] = {"asked",       "cached",      "pulled",    "pushed",
                                        "pulled_away", "pushed_away", "stale_max", "stale_p50",
                                        "stale_p99",   "stale_bound", "sums_wrong"};
    if (c->job.embed == LUO_SYNC_NO_EMBED) return;
    luo_jsonw_open(json, "embed", '{');
    luo_jsonw_text(json, "kind", luo_sync_embeds[c->job.embed]);
    for (int i = 0; i < N(facts); i++) json_fact(json, &c->log, facts[i], facts[i]);
    luo_jsonw_close(json);
}

/* Keys of a real run beside those of a simulated one. */
static void json_more(luo_jsonw *json, const void *ctx)
{
    const call *c = ctx;
    luo_jsonw_text(json, "toy", luo_sync_toys[c->job.toy]);
    luo_jsonw_int(json, "servers", c->job.servers);
    json_bytes(json, &c->log, "bytes");
    if (has_exchange(&c->job)) {
        luo_jsonw_text(json, "exchange", how_of(&c->job));
        json_bytes(json, &c->log, "payload");
    }
    json_fact(json, &c->log, "loss_first", "loss_first");
    json_fact(json, &c->log, "loss_last", "loss_last");
    const double verify = luo_toy_log_sum(&c->log, "verify"),
                 gap = luo_toy_log_most(&c->log, "gap");
    if (!isnan(verify)) {
        char text[32];
        snprintf(text, sizeof text, "%.3e", verify);
        luo_jsonw_word(json, "verify_error", isfinite(verify) ? text : "null");
    }
    if (!isnan(gap) && c->job.embed == LUO_SYNC_NO_EMBED)
        luo_jsonw_int(json, "clock_gap", (int64_t)gap);
    json_embed(json, c);
}

static void print_rows(FILE *out, const call *c)
{
    const luo_toy_log *log = &c->log;
    if (isnan(luo_toy_log_sum(log, "asked"))) return; /* it did not come so far */
    fprintf(out, "rows: %.0f asked for, %.0f of them cached, %.0f pulled, %.0f pushed\n",
            luo_toy_log_sum(log, "asked"), luo_toy_log_sum(log, "cached"),
            luo_toy_log_sum(log, "pulled"), luo_toy_log_sum(log, "pushed"));
    if (c->job.servers == c->job.workers) /* each worker has a server beside it */
        fprintf(out, "of other workers' servers: %.0f pulled, %.0f pushed\n",
                luo_toy_log_sum(log, "pulled_away"), luo_toy_log_sum(log, "pushed_away"));
}

static void print_exchange(FILE *out, const call *c)
{
    static const char *const texts[] = {"pushed", "pulled", "of requests", "all-reduced"};
    const char *comma = "";
    fprintf(out, "%s:", how_of(&c->job));
    for (int i = 0; i < N(texts); i++) {
        const double v = moved(&c->log, "payload", i);
        if (isnan(v)) continue;
        fprintf(out, "%s %.0f bytes %s", comma, v, texts[i]);
        comma = ",";
    }
    fprintf(out, "\n");
}

static void print_more(const call *c)
{
    FILE *out = luo_cli_out(c->cli);
    const luo_toy_log *log = &c->log;
    const double first = luo_toy_log_sum(log, "loss_first"),
                 verify = luo_toy_log_sum(log, "verify"), gap = luo_toy_log_most(log, "gap"),
                 wrong = luo_toy_log_sum(log, "sums_wrong");
    if (c->job.embed != LUO_SYNC_NO_EMBED) print_rows(out, c);
    if (has_exchange(&c->job) && !isnan(first)) print_exchange(out, c);
    if (c->job.embed == LUO_SYNC_NO_EMBED && !isnan(gap))
        fprintf(out, "clocks at the servers: at most %.0f apart\n", gap);
    if (!isnan(first))
        fprintf(out, "%s (%s): loss %.6f at the start, %.6f at the end\n",
                luo_sync_toys[c->job.toy], *c->job.data ? c->job.data : "synthetic data", first,
                luo_toy_log_sum(log, "loss_last"));
    if (!isnan(verify))
        fprintf(out,
                "verify: all weights computed again serially; largest relative difference "
                "%.1e\n",
                verify);
    if (!isnan(wrong))
        fprintf(
            out,
            "verify: %.0f rows whose sum is not exact; a read missed at most %.0f updates, %.0f "
            "are allowed\n",
            wrong, luo_toy_log_sum(log, "stale_max"), luo_toy_log_sum(log, "stale_bound"));
}

/* Messages have moved what the counting of the simulator says of their keys. */
static luo_status judge_bytes(const call *c, luo_err *err)
{
    for (int i = 0; i < N(moves); i++) {
        const double has = moved(&c->log, "payload", i), wants = moved(&c->log, "expected", i);
        if (isnan(wants) || has == wants) continue;
        return luo_err_set(err, LUO_ENO, "%.0f bytes of `%s` were moved; %.0f are expected.", has,
                           moves[i], wants);
    }
    return LUO_OK;
}

/* What has to hold of a run that went well. */
static luo_status judge(const call *c, luo_err *err)
{
    enum { SAME = -10 };
    const luo_toy_log *log = &c->log;
    const double verify = luo_toy_log_sum(log, "verify"), gap = luo_toy_log_most(log, "gap"),
                 wrong = luo_toy_log_sum(log, "sums_wrong"),
                 missed = luo_toy_log_sum(log, "stale_max"),
                 bound = luo_toy_log_sum(log, "stale_bound");
    const int64_t staleness = c->job.mode == LUO_LOOP_BSP   ? 0
                              : c->job.mode == LUO_LOOP_SSP ? c->job.staleness
                                                            : -1;
    if (verify > pow(10, SAME))
        return luo_err_set(err, LUO_ENO,
                           "weights differ from the serial computation by %.1e; at most 1e-10 is "
                           "expected.",
                           verify);
    if (c->job.embed == LUO_SYNC_NO_EMBED && staleness >= 0 && gap > (double)staleness + 1)
        return luo_err_set(err, LUO_ENO, "clocks were %.0f apart; at most %lld is expected.", gap,
                           (long long)staleness + 1);
    LUO_TRY(judge_bytes(c, err));
    if (wrong > 0)
        return luo_err_set(err, LUO_ENO,
                           "%.0f rows are not the sum of their updates; exact sums are expected.",
                           wrong);
    if (missed > bound)
        return luo_err_set(
            err, LUO_ENO, "a read missed %.0f updates of other workers; at most %.0f are expected.",
            missed, bound);
    return LUO_OK;
}

static const char *name_of(const luo_sync_job *job)
{
    return job->embed != LUO_SYNC_NO_EMBED ? luo_sync_embeds[job->embed]
                                           : luo_loop_mode_name((luo_loop_mode)job->mode);
}

static luo_status write_all(call *c, bool whole, luo_err *err)
{
    const luo_loop_sink sink = luo_sync_write_sink(&c->write);
    const luo_sync_cost cost = {.given = true};
    luo_loop_opts opts = {.mode = (luo_loop_mode)c->job.mode,
                          .workers = (int32_t)c->job.workers,
                          .seed = (uint64_t)c->job.seed};
    LUO_TRY(luo_toy_log_read(c->cli, &c->job, c->ranks, &sink, &c->log, err));
    c->log.summary.lost = !whole;
    opts.horizon_s = c->log.summary.t_s;
    c->write.kind = name_of(&c->job);
    c->write.more = json_more;
    c->write.more_ctx = c;
    LUO_TRY(luo_sync_write_end(c->cli, &c->write, opts.mode, &opts, &cost, &c->log.summary, err));
    print_more(c);
    return LUO_OK;
}

static luo_status run(call *c, luo_err *err)
{
    luo_cli *cli = c->cli;
    const char *dir = luo_arena_printf(cli->arena, "%s-%s-seed%lld", name_of(&c->job),
                                       luo_sync_toys[c->job.toy], (long long)c->job.seed);
    if (!dir) return luo_err_nomem(err);
    LUO_TRY(luo_sync_write_open(cli, luo_args_get(&cli->args, "out", dir), &c->write, err));
    c->job.dir = c->ranks = luo_arena_printf(cli->arena, "%s/ranks", c->write.dir);
    if (!c->ranks) return luo_err_nomem(err);
    LUO_TRY(luo_file_make_own_dir(c->ranks, err));
    luo_err why = {0};
    const luo_status ended = train(c, &why);
    LUO_TRY(write_all(c, ended == LUO_OK, err)); /* also of a run that did not end well */
    c->end = ended == LUO_OK ? LUO_FOLDER_WHOLE : LUO_FOLDER_PART;
    if (ended == LUO_OK) return judge(c, err);
    *err = why;
    return ended;
}

luo_status luo_toy_run(luo_cli *cli, luo_loop_mode mode, luo_sync_embed embed, luo_err *err)
{
    call c = {.cli = cli};
    LUO_TRY(luo_toy_job_read(cli, mode, embed, &c.job, err));
    const luo_status st = run(&c, err);
    const luo_status closed = luo_sync_write_close(cli, &c.write, c.end, st == LUO_OK ? err : NULL);
    return st == LUO_OK ? closed : st;
}
