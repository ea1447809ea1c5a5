# The whole model on one device, which an option names.
row='add a planner'
steps() {
    mkdir -p core/plan/lone
    cat >core/plan/lone/lone.h <<'X' &&
/* lone.h: the whole model on one device. */
#ifndef LUO_CORE_PLAN_LONE_LONE_H
#define LUO_CORE_PLAN_LONE_LONE_H
#include "core/plan/planners.h"

/* opts: batch, sequences, stack. Errors: those of luo_plan_uniform_fitting. Owner: arena. */
luo_status luo_plan_lone(luo_arena *arena, const luo_model *model, const luo_cluster *cluster,
                         const luo_uniform_opts *opts, int32_t device, luo_plan **out,
                         luo_err *err);
#endif
X
        cat >core/plan/lone/lone.c <<'X' &&
#include "core/plan/lone/lone.h"

luo_status luo_plan_lone(luo_arena *arena, const luo_model *model, const luo_cluster *cluster,
                         const luo_uniform_opts *opts, int32_t device, luo_plan **out,
                         luo_err *err)
{
    luo_uniform_opts one = *opts;
    luo_uniform_result *found;
    int32_t n;
    one.tp = one.pp = one.dp = 1;
    one.devices = &device;
    one.ndevices = 1;
    LUO_TRY(luo_plan_uniform_fitting(arena, model, cluster, &one, &found, &n, NULL, err));
    *out = found->plan;
    return LUO_OK;
}
X
        cat >tests/diff/diff_lone.c <<'X' &&
/* diff_lone.c: against the search of all sizes on that device. */
#include "core/io/read/read.h"
#include "core/plan/lone/lone.h"
#include "tests/check_main.h"

START_TEST(is_the_best_of_one)
{
    const int32_t device = _i;
    luo_arena *arena = luo_arena_new(0);
    luo_diags diags;
    luo_model *model;
    luo_cluster *cluster;
    luo_plan *plan;
    luo_uniform_result *all;
    int32_t n;
    luo_diags_init(&diags, arena);
    ck_assert_int_eq(luo_read_model(arena, "scenarios/models/tiny-llama.yaml", &model, &diags), 0);
    ck_assert_int_eq(luo_read_cluster(arena, "scenarios/clusters/tiny8.yaml", &cluster, &diags), 0);
    luo_uniform_opts opts = {
        .batch_sequences = 8, .sequence_tokens = 128, .zero = -1, .recompute = -1};
    ck_assert_int_eq(luo_plan_lone(arena, model, cluster, &opts, device, &plan, NULL), LUO_OK);
    opts.devices = &device;
    opts.ndevices = 1;
    ck_assert_int_eq(
        luo_plan_uniform_fitting(arena, model, cluster, &opts, &all, &n, NULL, NULL), LUO_OK);
    ck_assert(luo_plan_hash(plan) == luo_plan_hash(all->plan));
    luo_arena_free(arena);
}
END_TEST
LUO_MAIN("plan.lone", is_the_best_of_one, 8)
X
        cat >>core/run/first/planners.inc <<'X' &&
LUO_PLANNER(lone, "one device", "device seq-length")
X
        cat >core/run/first/first_lone.c <<'X' &&
/* first_lone.c: a run begins on its first device. */
#include "core/plan/lone/lone.h"
#include "core/run/first/first.h"

luo_status luo_first_lone(luo_run *run, luo_err *err)
{
    const luo_scenario *sc = run->job.scenario;
    const luo_uniform_opts opts = luo_first_opts(run, 1);
    luo_plan *made;
    LUO_TRY(luo_first_batch(run, "lone", err));
    LUO_TRY(luo_plan_lone(run->arena, sc->model, sc->cluster, &opts, 0, &made, err));
    const luo_plan *plan = made;
    return luo_first_use(run, &plan, 1, err);
}
X
        cat >cli/plan/plan_lone.c <<'X' &&
/* plan_lone.c: `luoshu plan lone`. */
#include "cli/plan/plan.h"
#include "core/plan/lone/lone.h"

luo_status luo_plan_lone_run(luo_cli *cli, luo_err *err)
{
    luo_model *model;
    luo_cluster *cluster;
    luo_stack stack;
    luo_uniform_opts opts = {.stack = &stack};
    luo_plan *plan;
    int64_t device;
    LUO_TRY(luo_args_int(&cli->args, "device", 0, 0, 131071, &device, err));
    LUO_TRY(luo_plan_sizes(cli, false, &opts, err));
    LUO_TRY(luo_cli_model(cli, &model));
    LUO_TRY(luo_plan_seq_length(&cli->args, model, &opts.sequence_tokens, err));
    LUO_TRY(luo_cli_cluster(cli, &cluster));
    LUO_TRY(luo_cli_stack(cli, &stack));
    LUO_TRY(luo_plan_lone(cli->arena, model, cluster, &opts, (int32_t)device, &plan, err));
    return luo_plan_write(cli, 0, plan, err);
}
X
        insert before cli/verbs.c '{"search-healthy", NULL,' <<'X' &&
    {"device", "N", "that works (0)"},
X
        sed -i 's/^| `name` | text | - | required | one of .* `auto`/& `lone`/' docs/formats.md &&
        sed -i -e 's/`hap` or `auto` is expected/`hap`, `auto` or `lone` is expected/' -e 's/"name: unified", /"name: unified",\n     /' \
            tests/unit/check_driver.c tests/keys_rows.h tests/golden/{meant,usage_verbs,plan_uniform}.stderr \
            tests/golden/bad/scenario/planner-alpa.yaml.want &&
        cat >>docs/planners.md <<'X'

## Lone

`luoshu plan lone` puts the whole model on `--device`.
X
}
show() { # asked for, refused where others are, begun with, listed
    at="--model scenarios/models/tiny-llama.yaml --cluster scenarios/clusters/tiny8.yaml --seq-length 128"
    "$LUOSHU" plan lone $at --device 3 --out "$tmp/plan.json" && tr -d ' \n' <"$tmp/plan.json" | grep -qF '"devices":[3]' || return 1
    "$LUOSHU" plan uniform $at --device 3 --out "$tmp/no.json" 2>&1 | grep -F '`--device` is an option of planner `lone`; leave it out.' || return 1
    "$LUOSHU" plan lone $at --seed 3 --out "$tmp/no.json" 2>&1 | grep -F '`--seed` is an option of planner `malleus`' || return 1
    "$LUOSHU" help plan lone | grep -F -e '--device N' | grep -F 'that works (0)' || return 1
    sed 's/planner: {name: uniform}/planner: {name: lone}/' scenarios/examples/small.yaml >scenarios/examples/lone.yaml
    "$LUOSHU" sim scenarios/examples/lone.yaml --policies static --out "$tmp/run" --plots off &&
        cat "$tmp"/run/static/plans/* | tr -d ' \n' | grep -qF '"devices":[0]' || return 1
    sed -i 's/name: lone/name: lonee/' scenarios/examples/lone.yaml
    "$LUOSHU" check scenarios/examples/lone.yaml 2>&1 | grep -F 'did you mean `lone`?' || return 1
    make --no-print-directory CI=1 NVCC= OPT=-O0 TEST_OPT=-O0 "$B/tests/diff/diff_lone" && "$B/tests/diff/diff_lone" && "$B/tests/unit/check_docs"
}
