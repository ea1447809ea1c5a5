/* plan.c: sizes from options, uniform plans that fit, plan files. */
#include "cli/plan/plan.h"

#include <string.h>
#include <sys/stat.h>

#include "core/io/io.h"
#include "core/io/write_plan.h"

enum { TOKENS = 4096 }; /* of a sequence, where the model takes them */

/* An option under our name and under Megatron's. */
static luo_status size(const luo_args *args, const char *name, const char *alias, int64_t most,
                       int32_t *out, luo_err *err)
{
    int64_t v;
    if (luo_args_has(args, name) && luo_args_has(args, alias))
        return luo_err_set(err, LUO_EUSAGE, "`--%s` and `--%s` are both given; choose one.", name,
                           alias);
    *out = 0;
    if (strcmp(luo_args_get(args, name, ""), "auto") == 0 && strcmp(name, "dp") == 0) return LUO_OK;
    LUO_TRY(luo_args_int(args, luo_args_has(args, name) ? name : alias, 0, 1, most, &v, err));
    *out = (int32_t)v;
    return LUO_OK;
}

static luo_status read_zero(const luo_args *args, int32_t most, int32_t *out, luo_err *err)
{
    static const char *const names[] = {"zero", "use-distributed-optimizer",
                                        "no-distributed-optimizer"};
    const char *given = NULL;
    int64_t zero;
    for (int i = 0; i < 3; i++) {
        if (!luo_args_has(args, names[i])) continue;
        if (given)
            return luo_err_set(err, LUO_EUSAGE, "`--%s` and `--%s` are both given; choose one.",
                               given, names[i]);
        given = names[i];
    }
    LUO_TRY(luo_args_int(args, "zero", -1, 0, most, &zero, err));
    if (given == names[1]) zero = 1;
    if (given == names[2]) zero = 0;
    *out = (int32_t)zero;
    return LUO_OK;
}

luo_status luo_plan_sizes(luo_cli *cli, bool searched, luo_uniform_opts *opts, luo_err *err)
{
    static const char *const how[] = {LUO_RECOMPUTE_LIST(LUO_WORD_TEXT)};
    const luo_args *args = &cli->args;
    int64_t b;
    int recompute;
    LUO_TRY(luo_args_int(args, "global-batch-size", 64, 1, 1 << 24, &opts->batch_sequences, err));
    opts->work = &cli->work;
    LUO_TRY(luo_work_check(&cli->work, LUO_WORK_SEQUENCES, (double)opts->batch_sequences,
                           "`--global-batch-size` asks for", err));
    LUO_TRY(luo_args_int(args, "micro-batch-size", 0, 1, 1 << 20, &b, err));
    LUO_TRY(size(args, "tp", "tensor-model-parallel-size", 64, &opts->tp, err));
    LUO_TRY(size(args, "pp", "pipeline-model-parallel-size", 4096, &opts->pp, err));
    LUO_TRY(size(args, "dp", "data-parallel-size", 1 << 17, &opts->dp, err));
    if (searched) LUO_TRY(size(args, "cp", "context-parallel-size", 64, &opts->cp, err));
    if (searched && opts->cp == 0) opts->cp = -1;
    if (luo_args_has(args, "recompute") && luo_args_has(args, "recompute-granularity"))
        return luo_err_set(err, LUO_EUSAGE, "`--recompute` and `--recompute-granularity` are both "
                           "given; choose one.");
    LUO_TRY(luo_args_choice(args,
                            luo_args_has(args, "recompute") ? "recompute" : "recompute-granularity",
                            -1, how, LUO_RECOMPUTES, &recompute, err));
    opts->zero_most = searched ? 3 : 1;
    LUO_TRY(read_zero(args, opts->zero_most, &opts->zero, err));
    opts->micro_batch_sequences = (int32_t)b;
    opts->recompute = recompute;
    opts->sequence_parallel = !luo_args_has(args, "no-sequence-parallel");
    opts->tp_pp_dp = luo_args_has(args, "use-tp-pp-dp-mapping");
    return LUO_OK;
}

luo_status luo_plan_read_tokens(const luo_args *args, const char *option, const luo_model *model,
                                int64_t least, int64_t usual, int64_t *out, luo_err *err)
{
    const int64_t most = model->max_sequence_tokens;
    const int64_t otherwise = most > 0 && most < usual ? most : usual;
    LUO_TRY(luo_args_int(args, option, otherwise, least, 1 << 24, out, err));
    if (most <= 0 || *out <= most) return LUO_OK;
    return luo_err_set(err, LUO_EUSAGE,
                       "`--%s` is %lld; model `%s` takes sequences of up to %lld tokens.", option,
                       (long long)*out, model->name, (long long)most);
}

luo_status luo_plan_seq_length(const luo_args *args, const luo_model *model, int64_t *out,
                               luo_err *err)
{
    return luo_plan_read_tokens(args, "seq-length", model, 1, TOKENS, out, err);
}

const char *luo_plan_file(luo_cli *cli, int32_t rank)
{
    const char *out = luo_args_get(&cli->args, "out", "plan.json");
    if (rank == 0) return out;
    const size_t n = strlen(out);
    const int stem = n > 5 && strcmp(out + n - 5, ".json") == 0 ? (int)n - 5 : (int)n;
    return luo_arena_printf(cli->arena, "%.*s-%d.json", stem, out, rank + 1);
}

luo_status luo_plan_write(luo_cli *cli, int32_t rank, const luo_plan *plan, luo_err *err)
{
    struct stat sb;
    const char *path = luo_plan_file(cli, rank);
    if (!path) return luo_err_nomem(err);
    if (!luo_args_has(&cli->args, "force") && stat(path, &sb) == 0)
        return luo_err_set(err, LUO_EUSAGE, "`%s` exists; give another --out, or --force.", path);
    LUO_TRY(luo_plan_check_work(plan, &cli->work, err)); /* as `check` does */
    return luo_write_plan(path, plan, err);
}
