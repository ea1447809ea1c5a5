/* Does a compiled plan fit into its devices? (conventions.md 3.5: the sentence is golden.) */
#include <inttypes.h>

#include "core/plan/planners.h"

static double gib(int64_t bytes)
{
    return (double)bytes / 1073741824.0;
}

/* Neighbours of one role with the same tasks need the same memory. */
static bool alike(const luo_program *a, const luo_program *b)
{
    return a->role == b->role && a->ntask == b->ntask && a->tasks == b->tasks;
}

luo_status luo_plan_memory(luo_arena *scratch, const luo_programs *set, luo_memory *out,
                           luo_err *err)
{
    for (int32_t i = 0; i < set->n; i++) {
        int32_t k = i - 1;
        while (k >= 0 && i - k <= 64 && !alike(&set->at[k], &set->at[i])) k--;
        if (k >= 0 && i - k <= 64) {
            out[i] = out[k];
            continue;
        }
        const size_t mark = luo_arena_mark(scratch);
        const luo_status st = luo_program_memory(scratch, set, set->at[i].device, &out[i], err);
        luo_arena_reset(scratch, mark);
        if (st != LUO_OK) return st;
    }
    return LUO_OK;
}

luo_status luo_plan_fits(uint64_t plan_hash, const luo_cluster *c, const luo_programs *set,
                         const luo_memory *memory, double *ratio, int32_t *device, luo_err *err)
{
    int32_t worst = -1;
    double most = 0;
    for (int32_t i = 0; i < set->n; i++) {
        const luo_profile *p = luo_cluster_profile(c, set->at[i].device);
        const double r = ((double)memory[i].peak + p->reserved_bytes) / p->memory_bytes;
        if (worst >= 0 && r <= most) continue;
        worst = i;
        most = r;
    }
    if (worst < 0) return luo_err_set(err, LUO_EBUG, "a plan without devices reached the check.");
    const int32_t dev = set->at[worst].device;
    const luo_profile *p = luo_cluster_profile(c, dev);
    const luo_memory *m = &memory[worst];
    *ratio = most;
    *device = dev;
    if (most <= 1) return LUO_OK;
    return luo_err_set(
        err, LUO_EOOM,
        "plan %016" PRIx64 " needs %.1f GiB on device %d (%s/%d) of %.1f GiB less %.1f GiB "
        "reserved (weights %.1f, gradients %.1f, optimizer %.1f, activations %.1f); try more "
        "stages, `recompute` or `zero` 1.",
        plan_hash, gib(m->peak), dev, c->nodes[c->devices[dev].node].name, c->devices[dev].slot,
        p->memory_bytes / 1073741824.0, p->reserved_bytes / 1073741824.0, gib(m->weights),
        gib(m->gradients), gib(m->optimizer), gib(m->activations + m->buffers));
}
