/* What `luoshu plan malleus` prints: a table of stages and a few lines, or the document of
 * docs/formats.md#luoshuparams1. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plan/plan_malleus.h"

static const char *const rank_names[] = {"filled", "steady", "event"};

static double ranked(const luo_malleus_call *c, const luo_malleus_plan *p)
{
    const double by[] = {p->filled, p->steady, p->event};
    return by[c->job.rank];
}

static const char *set_text(luo_str *s, const int32_t *dev, int32_t n)
{
    luo_str_clear(s);
    luo_devset_print(s, dev, n);
    return luo_str_get(s);
}

/* ---- text ---- */

static void print_stages(FILE *out, const luo_malleus_call *c)
{
    const luo_malleus_plan *p = &c->answer.found->plans[0];
    luo_str s = {0};
    fprintf(out, "%8s %8s %5s %9s %4s %9s %9s %4s %8s  %s\n", "pipeline", "micro", "stage",
            "layers", "tp", "y_tau", "t_tau", "cap", "mem_gib", "devices");
    for (int32_t i = 0; i < p->npipes; i++)
        for (int32_t k = 0; k < p->pipes[i].nstages; k++) {
            const luo_malleus_stage *st = &p->pipes[i].stages[k];
            char layers[48];
            snprintf(layers, sizeof layers, "%lld-%lld", (long long)st->lo, (long long)st->hi);
            fprintf(out, "%8d %8lld %5d %9s %4d %9.3f %9.3f %4lld %8.1f  %s\n", i,
                    (long long)p->pipes[i].micro_batches, k, layers, st->group->size,
                    st->group->y, st->t, (long long)st->cap,
                    luo_malleus_mib(&c->answer, i, k) / 1024,
                    set_text(&s, st->group->devices, st->group->size));
        }
    luo_str_free(&s);
}

static void print_transition(FILE *out, const luo_malleus_call *c)
{
    if (!c->prev) return;
    if (c->lost) {
        fputs("transition: state is lost; a checkpoint has to be read\n", out);
        return;
    }
    fprintf(out, "transition: %lld bytes within nodes, %lld between, %lld messages, %.6f s; %s\n",
            (long long)c->move.bytes_local, (long long)c->move.bytes_remote,
            (long long)c->move.messages, c->move.seconds,
            c->adopt ? "pays within 50 steps" : "does not pay within 50 steps");
}

static void print_search(FILE *out, const luo_malleus_search *s)
{
    if (s->skipped) {
        fputs("search: none; devices are alike and none is missing: the base plan\n", out);
        return;
    }
    fprintf(out, "search: %lld combinations, %lld plans, %lld vectors, %lld moves, %s\n",
            (long long)s->combos, (long long)s->plans, (long long)s->vectors, (long long)s->moves,
            s->exhaustive ? "every dealing" : "local search");
}

static void print_offers(FILE *out, const luo_malleus_call *c)
{
    const luo_offers *o = &c->offers;
    if (o->n == 0) return;
    int32_t simulated = 0;
    for (int32_t i = 0; i < o->n; i++) simulated += o->at[i].step_s >= 0;
    fprintf(out, "chosen by %s step: the plan of %s",
            c->closed_form ? "the closed form of a" : "simulated", o->at[0].from);
    if (simulated > 1 && isfinite(o->at[1].step_s))
        fprintf(out, "; next, of %s: %.6f s", o->at[1].from, o->at[1].step_s);
    if (c->closed_form) fprintf(out, "; of %d plans\n", o->n);
    else fprintf(out, "; %d of %d plans were simulated, the others are slower by the objective\n",
                 simulated, o->n);
}

void luo_call_text(luo_cli *cli, const luo_malleus_call *c)
{
    FILE *out = luo_cli_out(cli);
    const luo_malleus_answer *a = &c->answer;
    const luo_malleus_plan *p = &a->found->plans[0];
    char h[17], g[17];
    luo_str s = {0};
    print_stages(out, c);
    fprintf(out, "plan %s: %s\n", luo_hash_print(luo_plan_hash(a->plan), h),
            luo_plan_file(cli, 0));
    fprintf(out, "objective (%s): %.6f s, lower bound %.6f s\n", rank_names[c->job.rank],
            ranked(c, p) * a->tau_s, a->found->bound * a->tau_s);
    fprintf(out, "in tau of %.6f ms: steady %.3f, filled %.3f, event %.3f, bound %.3f\n",
            1e3 * a->tau_s, p->steady, p->filled, p->event, a->found->bound);
    fprintf(out, "healthy base plan: steady %.3f, event %.3f; ratio %.4f, oracle %.4f\n",
            a->healthy_steady, a->healthy_event, p->event / a->healthy_event,
            a->oracle / a->healthy_event);
    fprintf(out, "standby %s", set_text(&s, p->standby, p->nstandby));
    fprintf(out, ", excluded %s\n", set_text(&s, a->excluded, a->nexcluded));
    luo_str_free(&s);
    print_search(out, &a->found->search);
    print_transition(out, c);
    print_offers(out, c);
    if (c->step_s < 0) fputs("simulated step: none; `--rank simulated` takes one", out);
    else fprintf(out, "simulated step: %.6f s", c->step_s);
    fprintf(out, " (program %s)\nplanning: %.3f s\n", luo_hash_print(c->program, g),
            c->planning_s);
}

/* ---- JSON ---- */

typedef struct listing { /* groups of the plan by first device: their ids */
    int32_t n;
    const luo_malleus_group **at;
} listing;

static int by_device(const void *a, const void *b)
{
    const luo_malleus_group *const *x = a, *const *y = b;
    int32_t p = (*x)->devices[0], q = (*y)->devices[0];
    for (int32_t i = 1; i < (*x)->size; i++) p = (*x)->devices[i] < p ? (*x)->devices[i] : p;
    for (int32_t i = 1; i < (*y)->size; i++) q = (*y)->devices[i] < q ? (*y)->devices[i] : q;
    return (p > q) - (p < q);
}

static luo_status list_groups(luo_arena *arena, const luo_malleus_plan *p, listing *out,
                              luo_err *err)
{
    int32_t n = 0;
    for (int32_t i = 0; i < p->npipes; i++) n += p->pipes[i].nstages;
    *out = (listing){0, LUO_NEW_N(arena, const luo_malleus_group *, n)};
    if (!out->at) return luo_err_nomem(err);
    for (int32_t i = 0; i < p->npipes; i++)
        for (int32_t k = 0; k < p->pipes[i].nstages; k++)
            out->at[out->n++] = p->pipes[i].stages[k].group;
    qsort(out->at, (size_t)n, sizeof *out->at, by_device);
    return LUO_OK;
}

static int32_t id_of(const listing *l, const luo_malleus_group *g)
{
    const luo_malleus_group **at =
        bsearch(&g, l->at, (size_t)l->n, sizeof *l->at, by_device);
    return at ? (int32_t)(at - l->at) : -1;
}

static void json_ids(luo_jsonw *j, const char *key, const int32_t *v, int32_t n)
{
    luo_jsonw_open(j, key, '[');
    for (int32_t i = 0; i < n; i++) luo_jsonw_int(j, NULL, v[i]);
    luo_jsonw_close(j);
}

static void json_groups(luo_jsonw *j, const luo_malleus_call *c, const listing *l)
{
    luo_jsonw_open(j, "groups", '[');
    for (int32_t i = 0; i < l->n; i++) {
        luo_jsonw_open(j, NULL, '{');
        luo_jsonw_int(j, "id", i);
        luo_jsonw_int(j, "node", l->at[i]->node);
        json_ids(j, "devices", l->at[i]->devices, l->at[i]->size);
        luo_jsonw_num(j, "y", l->at[i]->y, 9);
        luo_jsonw_int(j, "h", c->answer.in.tp / l->at[i]->size);
        luo_jsonw_close(j);
    }
    luo_jsonw_close(j);
}

static void json_stage(luo_jsonw *j, const luo_malleus_call *c, const listing *l, int32_t i,
                       int32_t k)
{
    const luo_malleus_stage *st = &c->answer.found->plans[0].pipes[i].stages[k];
    luo_jsonw_open(j, NULL, '{');
    luo_jsonw_int(j, "group", id_of(l, st->group));
    json_ids(j, "devices", st->group->devices, st->group->size);
    luo_jsonw_int(j, "lo", st->lo);
    luo_jsonw_int(j, "hi", st->hi);
    luo_jsonw_num(j, "t", st->t, 9);
    luo_jsonw_int(j, "cap", st->cap);
    luo_jsonw_int(j, "mem_mib", (int64_t)(luo_malleus_mib(&c->answer, i, k) + 0.5));
    luo_jsonw_close(j);
}

static void json_pipelines(luo_jsonw *j, const luo_malleus_call *c, const listing *l)
{
    const luo_malleus_plan *p = &c->answer.found->plans[0];
    luo_jsonw_open(j, "pipelines", '[');
    for (int32_t i = 0; i < p->npipes; i++) {
        luo_jsonw_open(j, NULL, '{');
        luo_jsonw_int(j, "m", p->pipes[i].micro_batches);
        luo_jsonw_num(j, "o", p->pipes[i].o, 9);
        luo_jsonw_num(j, "fill", p->pipes[i].fill, 9);
        luo_jsonw_open(j, "stages", '[');
        for (int32_t k = 0; k < p->pipes[i].nstages; k++) json_stage(j, c, l, i, k);
        luo_jsonw_close(j);
        luo_jsonw_close(j);
    }
    luo_jsonw_close(j);
}

static void json_figures(luo_jsonw *j, const luo_malleus_call *c)
{
    const luo_malleus_answer *a = &c->answer;
    const luo_malleus_plan *p = &a->found->plans[0];
    luo_jsonw_num(j, "steady", p->steady, 9);
    luo_jsonw_num(j, "filled", p->filled, 9);
    luo_jsonw_num(j, "event", p->event, 9);
    luo_jsonw_open(j, "healthy", '{');
    luo_jsonw_num(j, "steady", a->healthy_steady, 9);
    luo_jsonw_num(j, "event", a->healthy_event, 9);
    luo_jsonw_close(j);
    luo_jsonw_num(j, "bound", a->found->bound, 9);
    luo_jsonw_num(j, "oracle", a->oracle, 9);
    luo_jsonw_num(j, "ratio", p->event / a->healthy_event, 9);
}

/* stages: `[7.22:1 3.66:4] m43 ..`, y and layers of every stage, slow ones first. */
static void say_plan(luo_str *s, const luo_malleus_plan *p)
{
    luo_str_clear(s);
    for (int32_t i = 0; i < p->npipes; i++) {
        luo_str_add(s, i ? " [" : "[");
        for (int32_t k = 0; k < p->pipes[i].nstages; k++) {
            const luo_malleus_stage *st = &p->pipes[i].stages[k];
            luo_str_addf(s, "%s%.4g:%lld", k ? " " : "", st->group->y,
                         (long long)(st->hi - st->lo));
        }
        luo_str_addf(s, "] m%lld", (long long)p->pipes[i].micro_batches);
    }
}

static void json_alternatives(luo_jsonw *j, const luo_malleus_found *f)
{
    luo_str s = {0};
    luo_jsonw_open(j, "alternatives", '[');
    for (int32_t i = 0; i < f->n; i++) {
        say_plan(&s, &f->plans[i]);
        luo_jsonw_open(j, NULL, '{');
        luo_jsonw_num(j, "steady", f->plans[i].steady, 9);
        luo_jsonw_num(j, "filled", f->plans[i].filled, 9);
        luo_jsonw_num(j, "event", f->plans[i].event, 9);
        luo_jsonw_text(j, "stages", luo_str_get(&s));
        luo_jsonw_close(j);
    }
    luo_jsonw_close(j);
    luo_str_free(&s);
}

static void json_offers(luo_jsonw *j, const luo_offers *o, bool simulated)
{
    luo_jsonw_open(j, "offers", '[');
    for (int32_t i = 0; i < o->n; i++) {
        luo_jsonw_open(j, NULL, '{');
        luo_jsonw_text(j, "from", o->at[i].from);
        luo_jsonw_hash(j, "plan_hash", luo_plan_hash(o->at[i].plan));
        luo_jsonw_int(j, "pipelines", o->at[i].plan->npipelines);
        luo_jsonw_num(j, "objective_s", o->at[i].objective_s, 9);
        const double s = o->at[i].step_s;
        if (simulated && s >= 0 && isfinite(s)) luo_jsonw_num(j, "simulated_step_s", s, 9);
        else luo_jsonw_text(j, "simulated_step_s", NULL);
        luo_jsonw_close(j);
    }
    luo_jsonw_close(j);
}

static void json_search(luo_jsonw *j, const luo_malleus_search *s)
{
    luo_jsonw_open(j, "search", '{');
    luo_jsonw_int(j, "combos", s->combos);
    luo_jsonw_int(j, "plans", s->plans);
    luo_jsonw_int(j, "vectors", s->vectors);
    luo_jsonw_int(j, "moves", s->moves);
    luo_jsonw_bool(j, "exhaustive", s->exhaustive);
    luo_jsonw_close(j);
}

static void json_transition(luo_jsonw *j, const luo_malleus_call *c)
{
    if (!c->prev) {
        luo_jsonw_text(j, "transition", NULL);
        return;
    }
    luo_jsonw_open(j, "transition", '{');
    luo_jsonw_int(j, "bytes_local", c->move.bytes_local);
    luo_jsonw_int(j, "bytes_remote", c->move.bytes_remote);
    luo_jsonw_int(j, "messages", c->move.messages);
    if (c->lost) luo_jsonw_text(j, "seconds", NULL);
    else luo_jsonw_num(j, "seconds", c->move.seconds, 9);
    luo_jsonw_bool(j, "adopt", c->adopt);
    luo_jsonw_close(j);
}

/* Of each layer, the annotation of its first matrix. */
static luo_status json_annotations(luo_cli *cli, const luo_malleus_call *c, luo_err *err)
{
    luo_jsonw *j = &cli->json;
    luo_param *p;
    int32_t n, layer = -1;
    luo_str s = {0};
    LUO_TRY(luo_plan_params(cli->arena, c->answer.plan, c->model, &p, &n, err));
    luo_jsonw_open(j, "annotations", '[');
    for (int32_t i = 0; i < n; i++) {
        if (p[i].layer <= layer || p[i].shape.rank < 2) continue;
        layer = p[i].layer;
        luo_str_clear(&s);
        luo_ann_print(&s, p[i].weight);
        luo_jsonw_text(j, NULL, luo_str_get(&s));
    }
    luo_jsonw_close(j);
    luo_str_free(&s);
    return LUO_OK;
}

static void json_warnings(luo_jsonw *j, const luo_malleus_call *c)
{
    luo_jsonw_open(j, "warnings", '[');
    for (int i = 0; i < c->nwarnings; i++) luo_jsonw_text(j, NULL, c->warning[i]);
    luo_jsonw_close(j);
}

luo_status luo_call_json(luo_cli *cli, const luo_malleus_call *c, luo_status st, luo_err *err)
{
    luo_jsonw *j = &cli->json;
    const luo_malleus_answer *a = &c->answer;
    listing l;
    luo_jsonw_text(j, "status", luo_status_name(st));
    luo_jsonw_text(j, "policy", "malleus");
    luo_jsonw_text(j, "rank", rank_names[c->job.rank]);
    luo_jsonw_text(j, "chosen_by", c->offers.n == 0  ? "rank"
                                    : c->closed_form ? "objective"
                                                     : "simulated");
    if (st != LUO_OK) {
        json_warnings(j, c);
        return st;
    }
    LUO_TRY(list_groups(cli->arena, &a->found->plans[0], &l, err));
    luo_jsonw_int(j, "dp", a->found->dp);
    luo_jsonw_int(j, "tp", a->in.tp);
    luo_jsonw_int(j, "layers", a->in.layers);
    luo_jsonw_int(j, "micro_batches", a->in.micro_batches);
    json_groups(j, c, &l);
    json_pipelines(j, c, &l);
    json_ids(j, "standby", a->found->plans[0].standby, a->found->plans[0].nstandby);
    json_ids(j, "excluded", a->excluded, a->nexcluded);
    json_figures(j, c);
    json_alternatives(j, a->found);
    json_offers(j, &c->offers, !c->closed_form);
    json_search(j, &a->found->search);
    json_transition(j, c);
    LUO_TRY(json_annotations(cli, c, err));
    json_warnings(j, c);
    luo_jsonw_hash(j, "plan_hash", luo_plan_hash(a->plan));
    luo_jsonw_num(j, "tau_ms", 1e3 * a->tau_s, 9);
    if (c->step_s < 0) luo_jsonw_text(j, "simulated_step_s", NULL);
    else luo_jsonw_num(j, "simulated_step_s", c->step_s, 9);
    luo_jsonw_hash(j, "program_hash", c->program);
    luo_jsonw_text(j, "file", luo_plan_file(cli, 0));
    luo_jsonw_num(j, "elapsed_ms", 1e3 * c->planning_s, 9);
    return LUO_OK;
}
