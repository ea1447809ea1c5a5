/* plan.h: what the planners of `luoshu plan` share. */
#ifndef LUO_CLI_PLAN_PLAN_H
#define LUO_CLI_PLAN_PLAN_H
#include "cli/load.h"
#include "core/plan/planners.h"

typedef struct luo_planner {
    const char *name, *says, *json_schema, *options; /* of core/run/first/planners.inc */
    luo_status (*run)(luo_cli *cli, luo_err *err); /* a sentence in err, or in cli->diags */
} luo_planner;
const luo_planner *luo_planners(int *n);
/* NULL: unknown. */
const luo_planner *luo_planner_find(const char *name);
/* LUO_EUSAGE: there is none of that name, and which one may be meant. */
luo_status luo_planner_unknown(luo_cli *cli, const char *name);
/* Does its row list the option? */
bool luo_planner_has(const luo_planner *planner, const char *option);
/* Is it an option that no row lists, one of every planner? */
bool luo_planner_all_have(const char *option);
#define LUO_PLANNER(name, says, options)                                                           \
    luo_status luo_plan_##name##_run(luo_cli *cli, luo_err *err);
#include "core/run/first/planners.inc"
#undef LUO_PLANNER

/* Sizes and modes of a uniform plan from the options but the tokens of a sequence, Megatron's names
 * and ours. `--dp auto`, which is for malleus, leaves dp open. */
luo_status luo_plan_sizes(luo_cli *cli, bool searched, luo_uniform_opts *opts, luo_err *err);
/* Tokens of a sequence, `least` and more: as the option says, else `usual` or what the model takes,
 * if that is less (0: it does not say). Errors: LUO_EUSAGE more than it takes. */
luo_status luo_plan_read_tokens(const luo_args *args, const char *option, const luo_model *model,
                                int64_t least, int64_t usual, int64_t *out, luo_err *err);
/* --seq-length, usually 4096: of all planners of sequences of one length. */
luo_status luo_plan_seq_length(const luo_args *args, const luo_model *model, int64_t *out,
                               luo_err *err);
/* File of the plan of this rank, from --out. NULL: out of memory. */
const char *luo_plan_file(luo_cli *cli, int32_t rank);
/* Writes it, unless the file exists and --force is not given. */
luo_status luo_plan_write(luo_cli *cli, int32_t rank, const luo_plan *plan, luo_err *err);
#endif
