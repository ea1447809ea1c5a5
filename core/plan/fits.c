/* Does a compiled plan fit into its devices? (the sentence is golden) */
#include <inttypes.h>

#include "core/graph/program/memory_rules.h"
#include "core/plan/compile.h"
#include "core/plan/planners.h"

static double gib(int64_t bytes)
{
    return (double)bytes / 1073741824.0;
}

/* Neighbours of one role with the same tasks need the same memory, if their slots give them as many
 * communicators. */
static bool need_alike(const luo_programs *set, const int32_t *communicators, int32_t i, int32_t k)
{
    const luo_program *a = &set->at[i], *b = &set->at[k];
    return a->role == b->role && a->ntask == b->ntask && a->tasks == b->tasks &&
           communicators[i] == communicators[k];
}

/* By program; 0 where they take no memory. */
static luo_status count_communicators(luo_arena *scratch, const luo_programs *set, int32_t **out,
                                      luo_err *err)
{
    *out = LUO_NEW_N(scratch, int32_t, set->n);
    if (!*out) return luo_err_nomem(err);
    for (int32_t i = 0; set->memory.communicator_bytes > 0 && i < set->n; i++)
        LUO_TRY(luo_program_communicators(scratch, set, &set->at[i], &(*out)[i], err));
    return LUO_OK;
}

luo_status luo_plan_memory(luo_arena *scratch, const luo_programs *set, luo_memory *out,
                           luo_err *err)
{
    const size_t mark = luo_arena_mark(scratch);
    int32_t *communicators;
    luo_status st = count_communicators(scratch, set, &communicators, err);
    for (int32_t i = 0; st == LUO_OK && i < set->n; i++) {
        int32_t k = i - 1;
        while (k >= 0 && i - k <= 64 && !need_alike(set, communicators, i, k)) k--;
        if (k >= 0 && i - k <= 64)
            out[i] = out[k];
        else
            st = luo_program_memory(scratch, set, set->at[i].device, &out[i], err);
    }
    luo_arena_reset(scratch, mark);
    return st;
}

/* What may help: only what the plan does not do already. */
static void say_remedy(const luo_plan *plan, const luo_memory *memory, luo_str *text)
{
    const char *may[3];
    int n = 0;
    int64_t stages = 0, full = 0, deepest = 0;
    for (int32_t i = 0; i < plan->npipelines; i++) {
        stages += plan->pipelines[i].nstages;
        if (plan->pipelines[i].nstages > deepest) deepest = plan->pipelines[i].nstages;
        for (int32_t k = 0; k < plan->pipelines[i].nstages; k++) {
            const luo_stage *st = &plan->pipelines[i].stages[k];
            full += st->recompute == LUO_RECOMPUTE_FULL && st->nrecompute == 0;
        }
    }
    if (deepest < plan->layers) may[n++] = "more stages";
    if (full < stages) may[n++] = "`recompute`";
    if (plan->zero == 0 && plan->npipelines > 1) may[n++] = "`zero` 1";
    if (2 * memory->communicators > memory->needed) may[0] = "fewer groups of devices", n = 1;
    for (int i = 0; i < n; i++)
        luo_str_addf(text, "%s%s", i == 0 ? "; try " : i == n - 1 ? " or " : ", ", may[i]);
}

/* Ranks on processors share the memory of their host. `at`: the first program of a node, then of
 * the next one. */
static luo_status host_fits(const luo_plan *plan, const luo_cluster *cluster,
                            const luo_programs *set, const luo_memory *memory, int32_t *at,
                            luo_err *err)
{
    const luo_device *first = &cluster->devices[set->at[*at].device];
    const luo_node_group *group = &cluster->groups[first->group];
    double needed = 0;
    for (; *at < set->n && cluster->devices[set->at[*at].device].node == first->node; ++*at)
        needed += (double)memory[*at].needed +
                  luo_cluster_profile(cluster, set->at[*at].device)->reserved_bytes;
    if (!group->profile->cpu || group->host_memory_bytes <= 0 || needed <= group->host_memory_bytes)
        return LUO_OK;
    return luo_err_set(err, LUO_EOOM,
                       "plan %016" PRIx64 " needs %.1f GiB for the ranks of node `%s`, whose host "
                       "has %.1f GiB; use more nodes or fewer ranks of each.",
                       luo_plan_hash(plan), needed / 1073741824.0, cluster->nodes[first->node].name,
                       group->host_memory_bytes / 1073741824.0);
}

luo_status luo_plan_fits(const luo_plan *plan, const luo_cluster *cluster, const luo_programs *set,
                         const luo_memory *memory, double *ratio, int32_t *device, luo_err *err)
{
    int32_t worst = -1;
    double most = 0;
    for (int32_t i = 0; i < set->n; i++) {
        const luo_profile *profile = luo_cluster_profile(cluster, set->at[i].device);
        const double r =
            ((double)memory[i].needed + profile->reserved_bytes) / profile->memory_bytes;
        if (worst >= 0 && r <= most) continue;
        worst = i;
        most = r;
    }
    if (worst < 0) return luo_err_set(err, LUO_EBUG, "a plan without devices reached the check.");
    const int32_t dev = set->at[worst].device;
    const luo_profile *p = luo_cluster_profile(cluster, dev);
    const luo_memory *m = &memory[worst];
    *ratio = most;
    *device = dev;
    for (int32_t at = 0; most <= 1 && at < set->n;)
        LUO_TRY(host_fits(plan, cluster, set, memory, &at, err));
    if (most <= 1) return LUO_OK;
    luo_str remedy = {0}, communicators = {0};
    say_remedy(plan, m, &remedy);
    luo_memory_say_communicators(m, &communicators);
    luo_err_set(err, LUO_EOOM,
                "plan %016" PRIx64 " needs %.1f GiB on device %d (%s/%d) of %.1f GiB less %.1f GiB "
                "reserved (weights %.1f, gradients %.1f, optimizer %.1f, activations %.1f%s)%s.",
                luo_plan_hash(plan), gib(m->needed), dev,
                cluster->nodes[cluster->devices[dev].node].name, cluster->devices[dev].slot,
                p->memory_bytes / 1073741824.0, p->reserved_bytes / 1073741824.0, gib(m->weights),
                gib(m->gradients), gib(m->optimizer), gib(m->activations + m->buffers),
                luo_str_get(&communicators), luo_str_get(&remedy));
    luo_str_free(&communicators);
    luo_str_free(&remedy);
    return LUO_EOOM;
}

/* ---- uniform plans that fit ---- */

/* Hash and proof take a third of a compilation, and most of those that are tried do not fit. */
static luo_status name_and_check(luo_programs *set, luo_err *err)
{
    luo_arena *scratch = luo_arena_new(1 << 16);
    if (!scratch) return luo_err_nomem(err);
    luo_status st = luo_programs_hash(set, err);
    if (st == LUO_OK) st = luo_program_check(scratch, set, err);
    luo_arena_free(scratch);
    return st;
}

static luo_status fits(luo_arena *arena, const luo_plan *plan, const luo_model *model,
                       const luo_cluster *cluster, const luo_stack *stack, luo_programs **set,
                       luo_err *err)
{
    luo_compile_opts opts = {.unnamed = true};
    if (stack) opts.bucket = stack->bucket, opts.memory = luo_stack_memory(stack);
    double ratio;
    int32_t device;
    LUO_TRY(luo_plan_compile(arena, plan, model, cluster, &opts, set, err));
    luo_memory *memory = LUO_NEW_N(arena, luo_memory, (*set)->n);
    if (!memory) return luo_err_nomem(err);
    LUO_TRY(luo_plan_memory(arena, *set, memory, err));
    LUO_TRY(luo_plan_fits(plan, cluster, *set, memory, &ratio, &device, err));
    return name_and_check(*set, err);
}

enum { CANDIDATES = 24 };

luo_status luo_plan_uniform_fitting(luo_arena *arena, const luo_model *model,
                                    const luo_cluster *cluster, const luo_uniform_opts *opts,
                                    luo_uniform_result **out, int32_t *n, luo_programs **set,
                                    luo_err *err)
{
    const int32_t want = opts->top > 0 ? opts->top : 1;
    luo_uniform_opts more = *opts;
    luo_uniform_result *result;
    int32_t all, kept = 0;
    if (more.top < CANDIDATES) more.top = CANDIDATES;
    LUO_TRY(luo_plan_uniform(arena, model, cluster, &more, &result, &all, err));
    for (int32_t i = 0; i < all && kept < want; i++) {
        luo_programs *programs;
        const size_t mark = luo_arena_mark(arena);
        const luo_status st =
            fits(arena, result[i].plan, model, cluster, opts->stack, &programs, err);
        if (st != LUO_OK || kept > 0 || !set) luo_arena_reset(arena, mark);
        if (st == LUO_EOOM) continue;
        if (st != LUO_OK) return st;
        if (kept == 0 && set) *set = programs;
        result[kept++] = result[i];
    }
    if (kept == 0)
        return luo_err_prefix(err, LUO_EINFEASIBLE, "no plan fits; the last of %d tried", all);
    if (err) *err = (luo_err){0};
    *out = result;
    *n = kept;
    return LUO_OK;
}
