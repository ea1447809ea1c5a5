/* Hand-made plans: those of tests/plan_random.h on random devices of the cluster. */
#include "core/io/io.h"
#include "core/io/write_plan.h"
#include "tests/plan_random.h"
#include "tests/storm/storm.h"

enum { TRIES = 40 };

/* Devices of the cluster in an order to be used in: by number, from some device on, or mixed. */
static int32_t *draw_order(storm_case *c)
{
    const int32_t n = c->cluster->ndevices, first = storm_one_in(c, 2) ? storm_pick(c, n) : 0;
    int32_t *at = LUO_NEW_N(c->arena, int32_t, n);
    for (int32_t i = 0; at && i < n; i++) at[i] = (first + i) % n;
    if (!at || storm_pick(c, 4)) return at;
    for (int32_t i = n - 1; i > 0; i--) {
        const int32_t k = storm_pick(c, i + 1), was = at[i];
        at[i] = at[k];
        at[k] = was;
    }
    return at;
}

static void rename_devices(luo_plan *p, const int32_t *to)
{
    for (int32_t i = 0; i < p->npipelines; i++)
        for (int32_t s = 0; s < p->pipelines[i].nstages; s++) {
            const luo_stage *st = &p->pipelines[i].stages[s];
            for (int32_t d = 0; d < st->ndev; d++) ((int32_t *)st->dev)[d] = to[st->dev[d]];
        }
    for (int32_t i = 0; i < p->state_layout.ndev; i++)
        ((int32_t *)p->state_layout.dev)[i] = to[p->state_layout.dev[i]];
}

bool storm_make_plan(storm_case *c)
{
    luo_err err = {0};
    plan_tally tally = {0};
    const int32_t *order = draw_order(c), n = c->cluster->ndevices;
    for (int k = 0; order && k < TRIES; k++) {
        luo_plan *p = plan_random(c->arena, &c->rng, &tally);
        if (p->devices > n || p->state_layout.ndev > n) continue;
        rename_devices(p, order);
        p->devices = n;
        p->dtype = c->model.dtype;
        if (storm_pick(c, 2)) p->sequence_tokens = 16 << storm_pick(c, 4);
        c->model.layers = p->layers;
        const char *path = luo_arena_printf(c->arena, "%s/plan.json", c->dir);
        return path && luo_write_plan(path, p, &err) == LUO_OK;
    }
    return false;
}
