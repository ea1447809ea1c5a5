/* A case from its seed: the files, the options, and draws that all of them use. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/io/files.h"
#include "core/io/read/read.h"
#include "tests/storm/storm.h"

double storm_decade(storm_case *c, double lo, double hi)
{
    return exp(log(lo) + luo_rng_u(&c->rng) * (log(hi) - log(lo)));
}

double storm_seconds(storm_case *c)
{
    switch (storm_pick(c, 8)) {
    case 0:
        return storm_decade(c, 1e-9, 1e9);
    case 1:
        return storm_decade(c, 1e-7, 1e-4);
    case 2:
        return storm_decade(c, 1, 1000);
    default:
        return storm_decade(c, 1e-4, 1);
    }
}

bool storm_write(const storm_case *c, const char *name, const char *text)
{
    luo_err err = {0};
    const char *path = luo_arena_printf(c->arena, "%s/%s", c->dir, name);
    if (path && luo_file_write_atomic(path, text, strlen(text), &err) == LUO_OK) return true;
    fprintf(stderr, "storm: %s\n", path ? err.text : "out of memory");
    return false;
}

void storm_add(storm_case *c, storm_section section, const char *text)
{
    if (c->nlines < STORM_LINES)
        c->line[c->nlines++] = (storm_line){section, luo_arena_strdup(c->arena, text), false};
}

bool storm_write_scenario(const storm_case *c)
{
    static const char *const names[STORM_SECTIONS] = {"policies", "events", "processes"};
    luo_str s = {0};
    luo_str_add(&s, c->head);
    for (int k = 0; k < STORM_SECTIONS; k++)
        for (int i = 0, n = 0; i < c->nlines; i++) {
            if (c->line[i].section != (storm_section)k || c->line[i].out) continue;
            if (n++ == 0) luo_str_addf(&s, "%s:\n", names[k]);
            luo_str_addf(&s, "  - {%s}\n", c->line[i].text);
        }
    const bool good = storm_write(c, "scenario.yaml", luo_str_get(&s));
    luo_str_free(&s);
    return good;
}

/* ---- what stands once in a scenario ---- */

static void make_extent(storm_case *c, luo_str *s)
{
    if (c->uneven) { /* a step is planned, and simulated for that, again and again */
        luo_str_addf(s, "extent: {steps: %d}\n", 1 + storm_pick(c, 5));
        return;
    }
    if (storm_one_in(c, 5))
        luo_str_addf(s, "extent: {duration_s: %.9g}\n", storm_decade(c, 1e-4, 0.5));
    else
        luo_str_addf(s, "extent: {steps: %d}\n", 1 + storm_pick(c, 25));
}

static void make_lengths(storm_case *c, luo_str *s)
{
    const int64_t most = c->model.max_sequence_tokens;
    luo_str_add(s, "data:\n  batch: ");
    if (storm_pick(c, 3))
        luo_str_addf(s, "{tokens: %lld}\n", (long long)(most * (1 + storm_pick(c, 8))));
    else
        luo_str_addf(s, "{sequences: %d}\n", 1 + storm_pick(c, 60));
    luo_str_add(s, "  lengths:\n    kind: mixture\n    components:\n");
    for (int n = 1 + storm_pick(c, 2); n > 0; n--) {
        const double median = storm_decade(c, 8, (double)most / 2);
        const int low = storm_one_in(c, 6) ? 1 + storm_pick(c, 64) : 1 + storm_pick(c, (int)median);
        luo_str_addf(s,
                     "      - {weight: %.3g, kind: lognormal, median_tokens: %.4g, sigma: %.3g, "
                     "low_tokens: %d, high_tokens: %lld}\n",
                     storm_decade(c, 0.1, 1), median, storm_decade(c, 0.05, 2), low,
                     (long long)most << storm_pick(c, 2));
    }
}

static void make_data(storm_case *c, luo_str *s)
{
    if (c->uneven) {
        make_lengths(c, s);
        return;
    }
    if (!c->planned && storm_pick(c, 12)) return;
    luo_str_addf(s, "data:\n  batch: {sequences: %d}\n", 1 << storm_pick(c, 7));
    luo_str_addf(s, "  lengths: {kind: fixed, tokens: %d}\n", 16 << storm_pick(c, 5));
}

static void make_checkpoint(storm_case *c, luo_str *s)
{
    if (storm_one_in(c, 3)) return;
    luo_str_add(s, "checkpoint: {");
    switch (storm_pick(c, 3)) {
    case 0:
        luo_str_addf(s, "every_steps: %d", 1 + storm_pick(c, 8));
        break;
    case 1:
        luo_str_addf(s, "every_s: %.9g", storm_seconds(c));
        break;
    default:
        luo_str_add(s, "auto: true");
    }
    luo_str_addf(s, ", mode: %s, target: %s}\n", storm_pick(c, 2) ? "blocking" : "background",
                 storm_pick(c, 2) ? "storage" : "disk");
}

static double draw_cost(storm_case *c)
{
    if (storm_one_in(c, 4)) return 0;
    return storm_one_in(c, 6) ? storm_seconds(c) : storm_decade(c, 1e-5, 1);
}

static void make_costs(storm_case *c, luo_str *s)
{
    static const char *const keys[] = {"process_start_s", "communicator_s", "replacement_s"};
    luo_str_addf(s, "costs: {detect_fail_s: %.9g", draw_cost(c));
    for (int i = 0; i < 3; i++)
        if (storm_pick(c, 4)) luo_str_addf(s, ", %s: %.9g", keys[i], draw_cost(c));
    luo_str_add(s, "}\n");
}

static void make_noise(storm_case *c, luo_str *s)
{
    c->noise = storm_one_in(c, 4);
    if (!c->noise) return;
    luo_str_addf(s, "noise: {compute_sigma: %.4g, comm_sigma: %.4g}\n",
                 storm_decade(c, 1e-3, storm_one_in(c, 8) ? 9 : 0.3), storm_decade(c, 1e-3, 0.5));
}

static void make_head(storm_case *c)
{
    luo_str s = {0};
    luo_str_addf(&s, "schema: luoshu.scenario/1\nname: storm-%llu\nseed: %llu\n",
                 (unsigned long long)c->seed, (unsigned long long)luo_rng_pick(&c->rng, 1000));
    luo_str_add(&s, "cluster: cluster.yaml\nmodel: model.yaml\n");
    if (c->uneven)
        ; /* the policies plan */
    else if (c->planned)
        luo_str_addf(&s, "planner: {name: %s}\n", storm_pick(c, 3) ? "uniform" : "malleus");
    else
        luo_str_add(&s, "plan: plan.json\n");
    make_extent(c, &s);
    make_data(c, &s);
    make_checkpoint(c, &s);
    make_costs(c, &s);
    make_noise(c, &s);
    c->head = luo_arena_strdup(c->arena, luo_str_get(&s));
    luo_str_free(&s);
}

static void make_args(storm_case *c)
{
    static const char *const comm[] = {"flow", "flow", "model", "message"};
    static const char *const trace[] = {"none", "auto", "all", "all"};
    c->arg[c->nargs++] = "--comm";
    c->arg[c->nargs++] = comm[storm_pick(c, 4)];
    c->arg[c->nargs++] = "--fold";
    c->arg[c->nargs++] = storm_pick(c, 3) ? "on" : "off";
    c->arg[c->nargs++] = "--comm-streams";
    c->arg[c->nargs++] = storm_pick(c, 4) ? "3" : "1";
    c->arg[c->nargs++] = "--trace-steps";
    c->arg[c->nargs++] = trace[storm_pick(c, 4)];
    if (storm_one_in(c, 8)) c->arg[c->nargs++] = "--keep-programs";
    c->twice = storm_one_in(c, 8);
}

static bool make_files(storm_case *c, luo_str *s)
{
    luo_diags diags;
    storm_make_cluster(c, s);
    if (!storm_write(c, "cluster.yaml", luo_str_get(s))) return false;
    luo_diags_init(&diags, c->arena);
    const char *path = luo_arena_printf(c->arena, "%s/cluster.yaml", c->dir);
    if (luo_read_cluster(c->arena, path, &c->cluster, &diags) != LUO_OK) {
        fprintf(stderr, "storm: %s: %s\n", path, diags.first ? diags.first->err.text : "?");
        return false;
    }
    luo_str_clear(s);
    c->uneven = storm_one_in(c, 5);
    c->planned = c->uneven || storm_one_in(c, 2);
    storm_make_model(c, s); /* its layers come last: a plan decides them */
    if (!c->planned) c->planned = !storm_make_plan(c);
    luo_str_addf(s, "layers: %d\n", (int)c->model.layers);
    if (!storm_write(c, "model.yaml", luo_str_get(s))) return false;
    make_head(c);
    storm_make_policies(c);
    storm_make_events(c);
    make_args(c);
    return storm_write_scenario(c);
}

bool storm_make(storm_case *c)
{
    luo_str s = {0};
    c->rng = luo_rng_stream(c->seed, "storm");
    const bool good = make_files(c, &s);
    luo_str_free(&s);
    return good;
}
