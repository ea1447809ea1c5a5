/* cli/verb_plan.c: `luoshu plan uniform`. */
#include <string.h>
#include <sys/stat.h>

#include "cli/load.h"
#include "cli/progress.h"
#include "core/io/io.h"
#include "core/plan/planners.h"

static luo_status read_sizes(const luo_args *a, luo_uniform_opts *o, luo_err *err)
{
    int64_t v[6];
    LUO_TRY(luo_args_int(a, "global-batch-size", 64, 1, 1 << 24, &o->batch_sequences, err));
    LUO_TRY(luo_args_int(a, "seq-length", 4096, 1, 1 << 24, &o->sequence_tokens, err));
    LUO_TRY(luo_args_int(a, "micro-batch-size", 0, 1, 1 << 20, &v[0], err));
    LUO_TRY(luo_args_int(a, "tensor-model-parallel-size", 0, 1, 64, &v[1], err));
    LUO_TRY(luo_args_int(a, "pipeline-model-parallel-size", 0, 1, 4096, &v[2], err));
    LUO_TRY(luo_args_int(a, "data-parallel-size", 0, 1, 1 << 17, &v[3], err));
    LUO_TRY(luo_args_int(a, "top", 1, 1, 1000, &v[4], err));
    o->micro_batch_sequences = (int32_t)v[0];
    o->tp = (int32_t)v[1];
    o->pp = (int32_t)v[2];
    o->dp = (int32_t)v[3];
    o->top = (int32_t)v[4];
    return LUO_OK;
}

static luo_status read_opts(luo_cli *cli, luo_uniform_opts *o, luo_err *err)
{
    static const char *const how[] = {"none", "selective", "full"};
    const luo_args *a = &cli->args;
    int recompute;
    LUO_TRY(read_sizes(a, o, err));
    LUO_TRY(luo_args_choice(a, "recompute-granularity", -1, how, 3, &recompute, err));
    o->recompute = recompute;
    o->zero = -1;
    if (luo_args_has(a, "use-distributed-optimizer")) o->zero = 1;
    if (luo_args_has(a, "no-distributed-optimizer")) {
        if (o->zero == 1)
            return luo_err_set(err, LUO_EUSAGE, "`--use-distributed-optimizer` and "
                               "`--no-distributed-optimizer` are both given; choose one.");
        o->zero = 0;
    }
    o->sequence_parallel = !luo_args_has(a, "no-sequence-parallel");
    o->tp_pp_dp = luo_args_has(a, "use-tp-pp-dp-mapping");
    return LUO_OK;
}

static const char *file_of(luo_cli *cli, int32_t rank)
{
    const char *out = luo_args_get(&cli->args, "out", "plan.json");
    if (rank == 0) return out;
    const size_t n = strlen(out);
    const int stem = n > 5 && strcmp(out + n - 5, ".json") == 0 ? (int)n - 5 : (int)n;
    return luo_arena_printf(cli->arena, "%.*s-%d.json", stem, out, rank + 1);
}

static luo_status write_all(luo_cli *cli, const luo_uniform_result *r, int32_t n, luo_err *err)
{
    struct stat sb;
    for (int32_t i = 0; i < n; i++) {
        const char *path = file_of(cli, i);
        if (!path) return luo_err_nomem(err);
        if (!luo_args_has(&cli->args, "force") && stat(path, &sb) == 0)
            return luo_err_set(err, LUO_EUSAGE, "`%s` exists; give another --out, or --force.",
                               path);
        LUO_TRY(luo_write_plan(path, r[i].plan, err));
    }
    return LUO_OK;
}

typedef struct answer {
    const luo_uniform_result *found;
    int32_t n;
    double step_s, planning_s;
    uint64_t program;
} answer;

static void print_text(luo_cli *cli, const answer *a)
{
    FILE *out = luo_cli_out(cli);
    char h[17], g[17];
    fprintf(out, "%-4s %-16s %3s %3s %3s %3s %-9s %4s %12s %12s %7s  %s\n", "rank", "plan", "tp",
            "pp", "dp", "mb", "recompute", "zero", "objective_s", "bound_s", "memory", "file");
    for (int32_t i = 0; i < a->n; i++) {
        static const char *const how[] = {"none", "selective", "full"};
        const luo_uniform_result *r = &a->found[i];
        const luo_pipeline *p = &r->plan->pipelines[0];
        fprintf(out, "%-4d %-16s %3d %3d %3d %3d %-9s %4d %12.6f %12.6f %6.1f%%  %s\n", i + 1,
                luo_hash_print(luo_plan_hash(r->plan), h), p->stages[0].ndev, p->nstages,
                r->plan->npipelines, p->micro_batch_sequences, how[p->stages[0].recompute],
                r->plan->zero, r->objective_s, r->bound_s, 100 * r->memory_ratio, file_of(cli, i));
    }
    fprintf(out, "simulated step of the first: %.6f s (program %s)\nplanning: %.3f s\n", a->step_s,
            luo_hash_print(a->program, g), a->planning_s);
}

static void print_json(luo_cli *cli, const answer *a)
{
    luo_jsonw *j = &cli->json;
    char h[17];
    luo_jsonw_open(j, "plans", '[');
    for (int32_t i = 0; i < a->n; i++) {
        const luo_uniform_result *r = &a->found[i];
        luo_jsonw_open(j, NULL, '{');
        luo_jsonw_text(j, "plan_hash", luo_hash_print(luo_plan_hash(r->plan), h));
        luo_jsonw_text(j, "file", file_of(cli, i));
        luo_jsonw_num(j, "objective_s", r->objective_s, 9);
        luo_jsonw_num(j, "bound_s", r->bound_s, 9);
        luo_jsonw_num(j, "memory_ratio", r->memory_ratio, 9);
        luo_jsonw_close(j);
    }
    luo_jsonw_close(j);
    luo_jsonw_num(j, "simulated_step_s", a->step_s, 9);
    luo_jsonw_text(j, "program_hash", luo_hash_print(a->program, h));
    luo_jsonw_num(j, "elapsed_ms", 1e3 * a->planning_s, 9);
}

enum { CANDIDATES = 24 }; /* the closed form filters roughly; compiled memory decides */

/* Keeps the first `want` that fit when compiled; *set: programs of the best. */
static luo_status keep_fitting(luo_cli *cli, luo_uniform_result *r, int32_t *n, int32_t want,
                               const luo_model *model, const luo_cluster *cluster,
                               luo_programs **set, luo_err *err)
{
    const int32_t all = *n;
    int32_t kept = 0;
    for (int32_t i = 0; i < all && kept < want; i++) {
        luo_programs *s;
        const luo_compile_opts opts = {.check = true};
        LUO_TRY(luo_plan_compile(cli->arena, r[i].plan, model, cluster, &opts, &s, err));
        const luo_status st = luo_cli_fits(cli, r[i].plan, cluster, s, err);
        if (st == LUO_EOOM) continue;
        if (st != LUO_OK) return st;
        if (kept == 0) *set = s;
        r[kept++] = r[i];
    }
    *n = kept;
    if (kept == 0)
        return luo_err_prefix(err, LUO_EINFEASIBLE, "no plan fits; the last of %d tried", all);
    if (err) *err = (luo_err){0};
    return LUO_OK;
}

static luo_status plan_uniform(luo_cli *cli, luo_err *err)
{
    luo_model *model;
    luo_cluster *cluster;
    luo_stack stack;
    luo_uniform_opts o = {0};
    luo_uniform_result *found;
    luo_programs *set = NULL;
    answer a = {0};
    LUO_TRY(read_opts(cli, &o, err));
    LUO_TRY(luo_cli_model(cli, &model));
    LUO_TRY(luo_cli_cluster(cli, &cluster));
    LUO_TRY(luo_cli_stack(cli, &stack));
    o.stack = &stack;
    const double start = luo_wall_s();
    const int32_t want = o.top;
    if (o.top < CANDIDATES) o.top = CANDIDATES;
    LUO_TRY(luo_plan_uniform(cli->arena, model, cluster, &o, &found, &a.n, err));
    LUO_TRY(keep_fitting(cli, found, &a.n, want, model, cluster, &set, err));
    a.planning_s = luo_wall_s() - start;
    a.found = found;
    LUO_TRY(luo_cli_one_step(cli, set, cluster, &stack, found[0].plan->dtype, &a.step_s));
    a.program = set->hash;
    LUO_TRY(write_all(cli, found, a.n, err));
    if (cli->as_json) print_json(cli, &a);
    else print_text(cli, &a);
    return LUO_OK;
}

luo_status luo_verb_plan_run(luo_cli *cli)
{
    static const char *const later[] = {"malleus", "hydraulis", "hap", "auto"};
    luo_err err = {0};
    LUO_TRY(luo_cli_files(cli, 1, 1, "the name of a planner is"));
    const char *name = cli->args.files[0];
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        if (strcmp(name, later[i]) == 0)
            return luo_cli_error(cli, LUO_EUSAGE, "planner `%s` is not in this version; `uniform` "
                                                  "is.", name);
    if (strcmp(name, "uniform") != 0)
        return luo_cli_error(cli, LUO_EUSAGE, "unknown planner `%s`; `uniform` is known.", name);
    const luo_status st = plan_uniform(cli, &err);
    return err.text[0] ? luo_cli_fail(cli, st, &err) : st;
}
