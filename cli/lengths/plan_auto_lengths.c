/* `luoshu plan auto --lengths`: policies for uneven lengths on the same batches, the fastest one.
 */
#include <math.h>
#include <string.h>

#include "cli/plan/plan_auto.h"
#include "cli/lengths/plan_hydraulis.h"

enum { BATCHES = 2 };

/* Those whose step is one plan, so that a run can have it on every backend. */
static bool is_candidate(int policy)
{
    return policy != LUO_LENGTH_POLICY_PADDING && policy != LUO_LENGTH_POLICY_HOTSPA;
}

static double mean_of(const luo_hydraulis_call *call, int policy)
{
    return luo_hydraulis_mean(call, (luo_length_policy)policy, call->judged);
}

/* The fastest; of equal ones the last, which has most to choose from. */
static int choose(const luo_hydraulis_call *call)
{
    int best = -1;
    for (int p = LUO_LENGTH_POLICIES - 1; p >= 0; p--) {
        const double s = mean_of(call, p);
        if (is_candidate(p) && isfinite(s) && (best < 0 || s < mean_of(call, best))) best = p;
    }
    return best;
}

/* The replicas of its last step, without the batch. */
static luo_status write_frame(luo_cli *cli, const luo_hydraulis_call *call, int policy,
                              luo_err *err)
{
    const luo_hydraulis_step *last = &call->step[call->nsteps - 1];
    const luo_step_place place = luo_hydraulis_place(call);
    luo_length_plans plans;
    luo_plan *plan;
    if (policy == LUO_LENGTH_POLICY_HYDRAULIS) {
        LUO_TRY(luo_hydraulis_step_frame(cli, call, last, &plan, err));
        return luo_plan_write(cli, 0, plan, err);
    }
    if (policy == LUO_LENGTH_POLICY_ONE_PLAN) {
        LUO_TRY(luo_step_plan_frame(cli->arena, &place, &call->pool,
                                    &call->found.plan[call->rivals.plan], &plan, err));
        return luo_plan_write(cli, 0, plan, err);
    }
    LUO_TRY(luo_length_plan(cli->arena, &call->rivals, &place, (luo_length_policy)policy, -1,
                            last->length, last->n, &plans, err));
    return luo_plan_write(cli, 0, plans.part[0].frame, err);
}

static void print_text(luo_cli *cli, const luo_hydraulis_call *call, int best)
{
    FILE *out = luo_cli_out(cli);
    const char *unit = call->judged ? "s simulated" : "ms by the pool";
    fprintf(out, "%d batches of %lld tokens, lengths %s%s, context %lld\n", call->nsteps,
            (long long)call->in.rule.tokens, call->lengths_name,
            luo_lengths_synthetic(&call->lengths) ? " (synthetic)" : "",
            (long long)call->in.rule.most);
    for (int p = 0; p < LUO_LENGTH_POLICIES; p++) {
        const double s = mean_of(call, p);
        const char *name = luo_length_policy_name((luo_length_policy)p);
        if (!isfinite(s))
            fprintf(out, "%-13s cannot run: a sequence fits nowhere\n", name);
        else if (p == best)
            fprintf(out, "%-13s %10.6g %s: chosen\n", name, s, unit);
        else
            fprintf(out, "%-13s %10.6g %s: %.2fx\n", name, s, unit, s / mean_of(call, best));
    }
    fprintf(out, "optimizer: dp %d, tp %d, pp %d\nplan of the last batch: %s\n", call->layout.dp,
            call->layout.tp, call->layout.pp, luo_plan_file(cli, 0));
    fprintf(out, "a run plans every batch: policy `%s` of a scenario\n",
            luo_length_policy_name((luo_length_policy)best));
}

static void print_json(luo_cli *cli, const luo_hydraulis_call *call, int best)
{
    luo_jsonw *json = &cli->json;
    luo_jsonw_text(json, "chosen", luo_length_policy_name((luo_length_policy)best));
    luo_jsonw_text(json, "chosen_by", call->judged ? "simulated" : "objective");
    luo_jsonw_num(json, "step_s", mean_of(call, best) * (call->judged ? 1 : 1e-3), 9);
    luo_jsonw_open(json, "candidates", '[');
    for (int p = 0; p < LUO_LENGTH_POLICIES; p++) {
        luo_jsonw_open(json, NULL, '{');
        luo_jsonw_text(json, "planner", luo_length_policy_name((luo_length_policy)p));
        luo_jsonw_num(json, "step_s", mean_of(call, p) * (call->judged ? 1 : 1e-3), 9);
        luo_jsonw_bool(json, "one_plan_a_step", is_candidate(p));
        luo_jsonw_close(json);
    }
    luo_jsonw_close(json);
    luo_jsonw_text(json, "file", luo_plan_file(cli, 0));
}

static luo_status answer(luo_cli *cli, luo_hydraulis_call *call, luo_err *err)
{
    call->nsteps = BATCHES;
    LUO_TRY(luo_hydraulis_read(cli, call, err));
    if (call->nsteps == 0) call->nsteps = BATCHES;
    LUO_TRY(luo_hydraulis_plan(cli, call, err));
    LUO_TRY(luo_hydraulis_steps(cli, call, err));
    const int best = choose(call);
    if (best < 0) return luo_err_set(err, LUO_EINFEASIBLE, "no policy can run these batches.");
    LUO_TRY(write_frame(cli, call, best, err));
    if (cli->as_json)
        print_json(cli, call, best);
    else
        print_text(cli, call, best);
    return LUO_OK;
}

luo_status luo_auto_of_lengths(luo_cli *cli, luo_err *err)
{
    return luo_hydraulis_answer(cli, answer, err);
}
