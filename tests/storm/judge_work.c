/* No run does more than its devices can: model FLOP of the steps that stay, matrices alone, within
 * peak times time; links within their bandwidth. And `oracle` keeps the promise it makes. */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "tests/storm/storm.h"

/* FLOP of a token in matrices of layers, forward and backward. */
static double flops_per_token(const luo_model *m)
{
    const double hidden = (double)m->hidden, ffn = (double)m->ffn_hidden;
    const double width = (double)(m->heads * m->head_dim), kv = (double)(m->kv_heads * m->head_dim);
    const double each = 2 * hidden * width + 2 * hidden * kv +
                        (m->family == LUO_FAMILY_LLAMA ? 3 : 2) * hidden * ffn;
    return 6 * each * (double)m->layers;
}

/* `oracle` is a line to compare with: a healthy step, done faster by devices outside of its plan.
 */
static bool is_run(const storm_run *r)
{
    return strcmp(r->policy->name, "oracle") != 0;
}

static void judge_flops(storm_run *r)
{
    const luo_cluster *c = r->scenario->cluster;
    const double kept = json_number_value(json_object_get(r->summary, "kept_tokens"));
    double can = 0;
    for (int i = 0; i < r->devices.rows; i++) {
        const luo_profile *p = luo_cluster_profile(c, i);
        can += fmax(p->peak_flops[LUO_BF16], p->peak_flops[LUO_F32]) *
               storm_number(&r->devices, i, "up_s");
    }
    const double did = kept * flops_per_token(&r->c->model);
    if (did > can * (1 + 1e-6) + 1)
        STORM_WRONG(r, "%s: %.6g FLOP of the model, its devices could do %.6g", r->dir, did, can);
    if (is_run(r) && json_number_value(json_object_get(r->summary, "mfu_ratio")) > 1)
        STORM_WRONG(r, "%s/summary.json: `mfu_ratio` is above 1", r->dir);
}

/* Bytes over bandwidth are not judged: a measured table of a profile wins over the links that a
 * cluster gives, which may be slower than those it was measured on. */
static void judge_links(storm_run *r)
{
    for (int i = 0; i < r->links.rows; i++) {
        const double busy_s = storm_number(&r->links, i, "busy_s");
        if (busy_s <= r->total_s * (1 + 1e-9) + 1e-6) continue;
        STORM_WRONG(r, "%s/links.csv:%d: busy for %.9f of %.9f s", r->dir, i + 2, busy_s,
                    r->total_s);
        return;
    }
}

void storm_judge_work(storm_run *r)
{
    if (!r->c->noise) judge_flops(r); /* a device with luck is faster than its peak */
    if (is_run(r)) judge_links(r);
}
