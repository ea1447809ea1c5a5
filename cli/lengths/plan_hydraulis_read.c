/* Options of `luoshu plan hydraulis`. */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "cli/lengths/plan_hydraulis.h"
#include "cli/plan/plan_rates.h"
#include "core/io/read/read.h"
#include "core/plan/hydraulis/pool_room.h"
#include "core/run/scenario.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

enum {
    TOKENS_PER_DEVICE = 6250,
    GRID = 1024,
    GRID_POINTS = 512,
    FEW_DEVICES = 64,
    STEP_OF_MANY = 4,
    LENGTHS_MAX = 1 << 28 /* 2 GiB of them */
};

void luo_hydraulis_warn(luo_cli *cli, luo_hydraulis_call *call, const char *fmt, ...)
{
    char text[LUO_ERR_TEXT];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    luo_cli_note(cli, LUO_WARNING, "%s", text);
    const char *copy =
        call->nwarnings < LUO_HYDRAULIS_WARNINGS ? luo_arena_strdup(cli->arena, text) : NULL;
    if (copy) call->warning[call->nwarnings++] = copy;
}

/* ---- devices ---- */

static luo_status read_rates(luo_cli *cli, luo_hydraulis_call *call, luo_err *err)
{
    bool *candidate;
    LUO_TRY(luo_plan_rates(cli, call->cluster, &call->rate, &candidate, err));
    for (int32_t d = 0; d < call->cluster->ndevices; d++)
        call->rate[d] = candidate[d] ? fmax(1, call->rate[d]) : (double)INFINITY;
    return LUO_OK;
}

static luo_status list_devices(luo_cli *cli, luo_hydraulis_call *call, luo_err *err)
{
    LUO_TRY(read_rates(cli, call, err));
    call->devices = LUO_NEW_N(cli->arena, int32_t, call->cluster->ndevices);
    if (!call->devices) return luo_err_nomem(err);
    for (int32_t d = 0; d < call->cluster->ndevices; d++)
        if (isfinite(call->rate[d])) call->devices[call->ndevices++] = d;
    if (call->ndevices == 0)
        return luo_err_set(err, LUO_EINFEASIBLE, "no device of the cluster is usable.");
    return LUO_OK;
}

/* ---- sizes ---- */

static luo_status read_layout(const luo_args *args, luo_hydraulis_call *call, luo_err *err)
{
    const char *given = luo_args_get(args, "os", NULL);
    luo_optimizer_layout *layout = &call->layout;
    if (!given) {
        *layout = luo_length_layout(call->model, call->cluster, call->devices, call->ndevices);
        return LUO_OK;
    }
    int at = 0;
    if (sscanf(given, "%d,%d,%d%n", &layout->dp, &layout->tp, &layout->pp, &at) != 3 || given[at] ||
        layout->dp < 1 || layout->tp < 1 || layout->pp < 1)
        return luo_err_set(err, LUO_EUSAGE,
                           "`--os` is `%.40s`; dp,tp,pp such as 2,16,1 is "
                           "expected.",
                           given);
    if ((int64_t)layout->dp * layout->tp * layout->pp != call->ndevices)
        return luo_err_set(err, LUO_EUSAGE, "`--os` %s is %lld devices; the cluster has %d.", given,
                           (long long)layout->dp * layout->tp * layout->pp, call->ndevices);
    return LUO_OK;
}

static luo_status read_device_step(const luo_args *args, luo_hydraulis_call *call, luo_err *err)
{
    int64_t step;
    const bool many = call->ndevices > FEW_DEVICES && call->ndevices % STEP_OF_MANY == 0;
    LUO_TRY(luo_args_int(args, "gpu-step", many ? STEP_OF_MANY : 1, 1, 1 << 17, &step, err));
    if (call->ndevices % step)
        return luo_err_set(err, LUO_EUSAGE,
                           "`--gpu-step` %lld does not divide %d devices; give a "
                           "divisor.",
                           (long long)step, call->ndevices);
    call->in.devices = call->ndevices;
    call->in.device_step = (int32_t)step;
    return LUO_OK;
}

static luo_status read_ctx(const luo_args *args, luo_hydraulis_call *call, luo_err *err)
{
    const int64_t most = call->model->max_sequence_tokens;
    return luo_plan_read_tokens(args, "ctx", call->model, LUO_POOL_ROUND, most, &call->in.rule.most,
                                err);
}

static luo_status read_batch(const luo_cli *cli, luo_hydraulis_call *call, luo_err *err)
{
    static const char *const ways[] = {"cut", "split"};
    const luo_args *args = &cli->args;
    luo_batch_rule *rule = &call->in.rule;
    int64_t budget;
    int way;
    budget = (int64_t)TOKENS_PER_DEVICE * call->ndevices;
    if (budget < rule->most) budget = rule->most;
    LUO_TRY(luo_args_int(args, "budget", budget, 1, INT64_C(1) << 40, &rule->tokens, err));
    LUO_TRY(luo_args_choice(args, "long", 0, ways, 2, &way, err));
    if (rule->tokens < rule->most)
        return luo_err_set(err, LUO_EUSAGE,
                           "`--budget` %lld is below the context of %lld tokens; "
                           "one sequence must fit.",
                           (long long)rule->tokens, (long long)rule->most);
    if (rule->most / call->in.grid_step >= GRID_POINTS)
        return luo_err_set(err, LUO_EUSAGE,
                           "`--grid` %lld cuts %lld tokens into more than %d lengths; a larger one "
                           "is expected.",
                           (long long)call->in.grid_step, (long long)rule->most, GRID_POINTS);
    rule->splits = way == 1;
    call->in.sequences = luo_work_most(&cli->work, LUO_WORK_SEQUENCES);
    return LUO_OK;
}

/* What says something of steps alone. */
static luo_status check_steps(const luo_args *args, int64_t steps, luo_err *err)
{
    static const char *const theirs[] = {"score",     "dispatch", "max-plans", "kicks",
                                         "switch-ms", "rank",     "rates",     "stragglers"};
    for (size_t i = 0; i < sizeof theirs / sizeof *theirs && steps == 0; i++)
        if (luo_args_has(args, theirs[i]))
            return luo_err_set(err, LUO_EUSAGE,
                               "`--%s` is about steps, and there are none; give --steps, or leave "
                               "it out.",
                               theirs[i]);
    return LUO_OK;
}

/* Stages around slow devices are priced by the cost model. */
static luo_status check_stragglers(const luo_args *args, luo_length_stragglers how, luo_err *err)
{
    static const char *const others[] = {"pool", "params", "memory"};
    if (how == LUO_STRAGGLERS_NONE)
        return luo_err_set(err, LUO_EUSAGE,
                           "`--stragglers none` plans as if no device were slow; leave `--rates` "
                           "out instead.");
    for (int i = 0; i < COUNT(others) && how == LUO_STRAGGLERS_JOINT; i++)
        if (luo_args_has(args, others[i]))
            return luo_err_set(err, LUO_EUSAGE,
                               "`--stragglers joint` prices stages around slow devices by the cost "
                               "model, and `--%s` others otherwise; leave one out.",
                               others[i]);
    return LUO_OK;
}

static luo_status read_search(const luo_args *args, luo_hydraulis_call *call, luo_err *err)
{
    static const char *const proposals[] = {LUO_PROPOSALS_LIST(LUO_WORD_TEXT)};
    static const char *const scores[] = {LUO_PACK_SCORE_LIST(LUO_WORD_TEXT)};
    static const char *const dispatches[] = {LUO_DISPATCH_LIST(LUO_WORD_TEXT)};
    static const char *const ranks[] = {"simulated", "objective"};
    static const char *const stragglers[] = {LUO_LENGTH_STRAGGLERS_LIST(LUO_WORD_TEXT)};
    int proposal, score, dispatch, rank, how;
    int64_t seed, most, kicks, steps;
    LUO_TRY(luo_args_choice(args, "proposal", 0, proposals, COUNT(proposals), &proposal, err));
    LUO_TRY(luo_args_choice(args, "score", 0, scores, COUNT(scores), &score, err));
    LUO_TRY(luo_args_choice(args, "dispatch", 0, dispatches, COUNT(dispatches), &dispatch, err));
    LUO_TRY(luo_args_choice(args, "rank", -1, ranks, 2, &rank, err));
    LUO_TRY(luo_args_choice(args, "stragglers", LUO_STRAGGLERS_DISPATCH, stragglers,
                            COUNT(stragglers), &how, err));
    LUO_TRY(luo_args_int(args, "seed", 0, 0, INT64_MAX, &seed, err));
    LUO_TRY(luo_args_int(args, "max-plans", 16, 1, 1000, &most, err));
    LUO_TRY(luo_args_int(args, "kicks", -1, 0, 10000, &kicks, err));
    LUO_TRY(luo_args_int(args, "steps", call->nsteps, 0, 100000, &steps, err));
    LUO_TRY(luo_args_int(args, "grid", GRID, 1, 1 << 24, &call->in.grid_step, err));
    LUO_TRY(luo_args_number(args, "switch-ms", 100, 0, 1e9, &call->switch_ms, err));
    LUO_TRY(check_steps(args, steps, err));
    call->joint = how == LUO_STRAGGLERS_JOINT;
    LUO_TRY(check_stragglers(args, (luo_length_stragglers)how, err));
    call->proposals = (luo_proposals)proposal;
    call->in.floor = proposal != LUO_PROPOSALS_PUBLIC;
    call->in.published = proposal != LUO_PROPOSALS_FLOOR;
    call->in.seed = (uint64_t)seed;
    call->nsteps = (int32_t)steps;
    call->opts = (luo_step_opts){.score = (luo_pack_score)score,
                                 .published = dispatch == 1,
                                 .kicks = (int32_t)kicks,
                                 .most = (int32_t)most,
                                 .seed = (uint64_t)seed,
                                 .current = -1};
    call->judged = luo_plan_is_judged(rank < 0    ? LUO_JUDGED_AUTO
                                      : rank == 0 ? LUO_JUDGED_SIMULATED
                                                  : LUO_JUDGED_OBJECTIVE,
                                      call->cluster);
    return LUO_OK;
}

/* ---- lengths and pool ---- */

static luo_status read_lengths(luo_cli *cli, luo_hydraulis_call *call, luo_err *err)
{
    call->lengths_name = luo_args_get(&cli->args, "lengths", NULL);
    if (!call->lengths_name)
        return luo_err_set(err, LUO_EUSAGE,
                           "`--lengths` is missing; a table of lengths, %s or %s "
                           "is expected.",
                           luo_length_preset_name(0), luo_length_preset_name(1));
    if (luo_length_preset(call->lengths_name, call->in.rule.most, call->parts, &call->lengths))
        return LUO_OK;
    const luo_batch_rule *rule = &call->in.rule;
    luo_lengths given;
    LUO_TRY(luo_read_lengths(cli->arena, call->lengths_name, &given, &cli->diags));
    call->beyond = luo_lengths_beyond(&given, rule->most);
    call->lengths = given;
    if (!rule->splits) return LUO_OK;
    return luo_lengths_split(cli->arena, &given, rule->most, LENGTHS_MAX, &call->lengths, err);
}

static luo_status add_context(luo_cli *cli, luo_hydraulis_call *call, luo_err *err)
{
    const char *list = luo_args_get(&cli->args, "context-parallel", NULL);
    luo_length_setup_in in = {.model = call->model,
                              .cluster = call->cluster,
                              .ndevices = call->ndevices,
                              .devices = call->devices};
    for (const char *at = list; list && *at;) {
        int n = 0, cp;
        if (sscanf(at, "%d%n", &cp, &n) != 1 || cp < 1 || cp > 64 || (at[n] && at[n] != ','))
            return luo_err_set(err, LUO_EUSAGE,
                               "`--context-parallel` is `%.40s`; sizes from 1 to "
                               "64 such as 1,2,4 are expected.",
                               list);
        for (int32_t k = 0; k < in.ncontext; k++)
            if (in.context[k] == cp)
                return luo_err_set(err, LUO_EUSAGE,
                                   "`--context-parallel` is `%.40s`; each size once is expected.",
                                   list);
        if (cp > 1 && in.ncontext == LUO_CONTEXT_SIZES)
            return luo_err_set(err, LUO_EUSAGE,
                               "`--context-parallel` is `%.40s`; at most %d sizes are taken.", list,
                               (int)LUO_CONTEXT_SIZES);
        if (cp > 1) in.context[in.ncontext++] = cp;
        at += n + (at[n] == ',');
    }
    return luo_length_add_context(cli->arena, &in, &call->pool, err);
}

static luo_status read_params(luo_cli *cli, luo_hydraulis_call *call, luo_err *err)
{
    static const char *const forms[] = {"table", "model"};
    const char *path = luo_args_get(&cli->args, "params", NULL);
    int form;
    call->params = luo_pool_params_none();
    if (path) {
        luo_params params;
        LUO_TRY(luo_read_params(cli->arena, path, &params, &cli->diags));
        call->params = params.pool;
    }
    LUO_TRY(
        luo_args_choice(&cli->args, "memory", call->params.nact > 0 ? 0 : 1, forms, 2, &form, err));
    call->memory_table = form == 0;
    return LUO_OK;
}

static bool has_formula(const luo_pool_entry *entry)
{
    return entry->tp < 1 << LUO_POOL_TP_KINDS && (entry->tp & (entry->tp - 1)) == 0;
}

/* Can the model be cut so? */
static luo_status check_entries(luo_cli *cli, const luo_hydraulis_call *call)
{
    const luo_model *model = call->model;
    luo_status st = LUO_OK;
    for (int32_t k = 0; k < call->pool.n; k++) {
        const luo_pool_entry *entry = &call->pool.entry[k];
        if (model->heads % entry->tp)
            st = luo_diags_add(&cli->diags, LUO_ERROR, LUO_EINPUT, call->pool_name, entry->line, 1,
                               "tp %d does not divide the %lld heads of model `%s`.", entry->tp,
                               (long long)model->heads, model->name);
        if (call->memory_table && entry->cap == 0 && !has_formula(entry))
            st = luo_diags_add(&cli->diags, LUO_ERROR, LUO_EINPUT, call->pool_name, entry->line, 1,
                               "tp %d has no cap, and the formula of `--memory table` knows powers "
                               "of two up to %d; give `cap_tokens`.",
                               entry->tp, 1 << (LUO_POOL_TP_KINDS - 1));
        if (entry->pp > model->layers)
            st = luo_diags_add(&cli->diags, LUO_ERROR, LUO_EINPUT, call->pool_name, entry->line, 2,
                               "pp %d is more than the %lld layers of model `%s`.", entry->pp,
                               (long long)model->layers, model->name);
    }
    return st;
}

/* A pool of the cost model has caps already, up to which it was fitted. */
static void fill_caps(const luo_pool_model_in *in, luo_hydraulis_call *call)
{
    const luo_pool_memory memory = luo_pool_memory_of(in, &call->params);
    for (int32_t k = 0; k < call->pool.n && !call->pool_name; k++)
        if (has_formula(&call->pool.entry[k])) call->pool.entry[k].cap = 0;
    luo_pool_fill_caps(&call->pool, &memory, &call->layout);
}

static luo_status read_pool(luo_cli *cli, luo_hydraulis_call *call, luo_err *err)
{
    const luo_pool_model_in in = {.model = call->model,
                                  .cluster = call->cluster,
                                  .stack = &call->stack,
                                  .ndevices = call->ndevices,
                                  .devices = call->devices,
                                  .layout = call->layout,
                                  .ctx = call->in.rule.most};
    call->pool_name = luo_args_get(&cli->args, "pool", NULL);
    if (call->pool_name) {
        LUO_TRY(luo_read_pool(cli->arena, call->pool_name, &call->pool, &cli->diags));
        LUO_TRY(check_entries(cli, call));
        if (!call->memory_table) luo_pool_model_caps(&in, &call->pool);
        for (int32_t i = 0; i < call->pool.n; i++)
            if (call->pool.entry[i].a == 0)
                luo_hydraulis_warn(cli, call,
                                   "pool entry (tp %d, pp %d) has a = 0; long sequences "
                                   "look cheap there.",
                                   call->pool.entry[i].tp, call->pool.entry[i].pp);
    } else {
        LUO_TRY(luo_pool_model(cli->arena, &in, &call->pool, err));
    }
    call->type = LUO_NEW_N(cli->arena, double, call->ndevices);
    if (!call->type) return luo_err_nomem(err);
    LUO_TRY(luo_pool_model_speeds(&in, call->type, err));
    call->in.rate = call->type;
    if (call->memory_table) fill_caps(&in, call);
    LUO_TRY(add_context(cli, call, err));
    const luo_step_place place = luo_hydraulis_place(call);
    if (!call->pool_name && !call->memory_table)
        LUO_TRY(luo_pool_room_check(&place, &call->stack, &call->pool, err));
    call->in.pool = &call->pool;
    call->in.lengths = &call->lengths;
    return LUO_OK;
}

/* ---- all of it ---- */

static luo_status read_place(luo_cli *cli, luo_hydraulis_call *call, luo_err *err)
{
    LUO_TRY(luo_cli_model(cli, &call->model));
    LUO_TRY(luo_cli_cluster(cli, &call->cluster));
    LUO_TRY(luo_cli_stack(cli, &call->stack));
    LUO_TRY(list_devices(cli, call, err));
    return read_layout(&cli->args, call, err);
}

luo_status luo_hydraulis_read(luo_cli *cli, luo_hydraulis_call *call, luo_err *err)
{
    LUO_TRY(read_place(cli, call, err));
    LUO_TRY(read_device_step(&cli->args, call, err));
    LUO_TRY(read_search(&cli->args, call, err));
    LUO_TRY(read_ctx(&cli->args, call, err));
    LUO_TRY(read_batch(cli, call, err));
    LUO_TRY(read_lengths(cli, call, err));
    LUO_TRY(read_params(cli, call, err));
    return read_pool(cli, call, err);
}

luo_status luo_hydraulis_model_pool(luo_cli *cli, luo_hydraulis_call *call, luo_err *err)
{
    LUO_TRY(read_place(cli, call, err));
    LUO_TRY(read_ctx(&cli->args, call, err));
    LUO_TRY(read_params(cli, call, err));
    return read_pool(cli, call, err);
}
