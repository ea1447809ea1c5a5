/* agent_work.c: the commands of a rank. What all ranks take part in is begun by all or none:
 * they agree first. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/io/io.h"
#include "exec/rank/agent_internal.h"

/* ---- jobs ---- */

static luo_agent_job *find_job(const luo_agent *a, int64_t id)
{
    for (luo_agent_job *j = a->jobs; j; j = j->next)
        if (j->id == id) return j;
    return NULL;
}

static luo_status need_job(const luo_agent *a, int64_t id, luo_agent_job **out, luo_err *err)
{
    *out = find_job(a, id);
    if (*out) return LUO_OK;
    return luo_err_set(err, LUO_EBUG, "rank %d has no job %lld; it has to be prepared first.",
                       a->rank, (long long)id);
}

static void free_job(const luo_agent *a, luo_agent_job *j)
{
    if (j->job) a->executor->unbind(j->job);
    luo_arena_free(j->arena);
    free(j);
}

static void drop_job(luo_agent *a, int64_t id)
{
    for (luo_agent_job **at = &a->jobs; *at; at = &(*at)->next) {
        luo_agent_job *j = *at;
        if (j->id != id) continue;
        *at = j->next;
        free_job(a, j);
        return;
    }
}

void luo_agent_drop_jobs(luo_agent *a)
{
    while (a->jobs) drop_job(a, a->jobs->id);
}

static luo_status same_hash(uint64_t here, uint64_t there, const char *what, luo_err *err)
{
    char h[17], t[17];
    if (there == 0 || here == there) return LUO_OK;
    return luo_err_set(err, LUO_EBACKEND,
                       "a rank made %s %s where the coordinator made %s; "
                       "`luoshu` and the programs of ranks of one build and the same inputs "
                       "belong together.",
                       what, luo_hash_print(here, h), luo_hash_print(there, t));
}

static luo_status read_plan(luo_agent_job *j, const char *json, luo_err *err)
{
    const luo_source src = {.name = "plan", .text = json, .len = strlen(json)};
    luo_diags diags;
    luo_diags_init(&diags, j->arena);
    const luo_status st = luo_read_plan_text(j->arena, &src, &j->plan, &diags);
    if (st == LUO_OK) return LUO_OK;
    return luo_err_set(err, LUO_EBUG, "a rank cannot read the plan it is sent: %s",
                       diags.first ? diags.first->err.text : luo_status_text(st));
}

static luo_status compile(const luo_agent *a, luo_agent_job *j, luo_wire *m, luo_err *err)
{
    const char *json = luo_wire_text(m);
    const luo_compile_opts opts = {.sequence_tokens = luo_wire_int(m)};
    const uint64_t hash = (uint64_t)luo_wire_int(m);
    LUO_TRY(luo_wire_end(m, err));
    if (!json) return luo_err_set(err, LUO_EBUG, "a rank is asked to prepare no plan.");
    LUO_TRY(read_plan(j, json, err));
    LUO_TRY(luo_plan_compile(j->arena, j->plan, a->model, a->cluster, &opts, &j->set, err));
    j->recipe = (luo_recipe){.plan = j->plan, .sequence_tokens = opts.sequence_tokens};
    return same_hash(j->set->hash, hash, "programs", err);
}

static luo_status prepare(luo_agent *a, luo_wire *m, luo_wire *answer, luo_err *err)
{
    luo_agent_job *j = calloc(1, sizeof *j);
    luo_status st = luo_err_nomem(err);
    if (j) {
        j->id = (int32_t)luo_wire_int_in(m, 0, INT32_MAX);
        j->arena = luo_arena_new(1 << 16);
        if (j->arena) st = compile(a, j, m, err);
    }
    st = luo_boot_agree(a->boot, st, err);
    if (st == LUO_OK) st = a->executor->bind(a->x, j->id, j->set, &j->recipe, &j->job, err);
    if (st != LUO_OK) {
        if (j) free_job(a, j);
        return st;
    }
    j->next = a->jobs;
    a->jobs = j;
    luo_wire_put_int(answer, (int64_t)j->set->hash);
    return LUO_OK;
}

/* ---- state ---- */

/* Arrays of the state in host memory, where an executor keeps it elsewhere. */
static luo_status fetch(const luo_agent *a, const luo_agent_job *j, bool contents, luo_err *err)
{
    return a->executor->fetch ? a->executor->fetch(j->job, contents, err) : LUO_OK;
}

/* All ranks or none: else some would go on with state that others do not have. */
static luo_status store(const luo_agent *a, const luo_agent_job *j, luo_err *err)
{
    if (!a->executor->store) return LUO_OK;
    return luo_boot_agree(a->boot, a->executor->store(j->job, true, err), err);
}

static void put_back(const luo_agent *a, const luo_agent_job *j)
{
    if (a->executor->store) (void)a->executor->store(j->job, false, NULL);
}

static luo_status init(luo_agent *a, luo_state *s, const luo_state_order *o, luo_err *err)
{
    const luo_share share = {.rank = a->rank, .ranks = a->nranks, .done = &a->where.done};
    if (o->checkpoint) return luo_checkpoint_load(s, a->model, o->checkpoint, share, err);
    s->step = 0;
    if (o->weights) return luo_state_load_weights(s, a->model, o->weights, share, err);
    luo_state_init(s, a->model, a->setup.seed);
    return LUO_OK;
}

static luo_status save(const luo_agent *a, const luo_agent_job *j, luo_state *s,
                       const luo_state_order *o, const luo_gather *gather, luo_err *err)
{
    luo_status st = LUO_OK;
    if (!luo_programs_find(j->set, s->device)) s->step = o->step; /* it may have missed some */
    if (s->step != o->step)
        st = luo_err_set(err, LUO_EBUG, "rank %d has done %lld steps where %lld are to be saved.",
                         a->rank, (long long)s->step, (long long)o->step);
    if (st == LUO_OK) st = fetch(a, j, true, err);
    st = luo_boot_agree(a->boot, st, err);
    if (st == LUO_OK)
        st = luo_checkpoint_save(s, a->model, o->checkpoint, a->setup.seed, o->data,
                                 luo_plan_hash(j->plan), o->keep, gather, err);
    put_back(a, j);
    return st;
}

/* What was begun with stays, also where it could not be saved. */
static luo_status begin_with(luo_agent *a, const luo_agent_job *j, luo_state *s,
                             const luo_state_order *o, const luo_gather *gather, luo_err *err)
{
    luo_status st = fetch(a, j, false, err), saved = LUO_OK;
    if (st == LUO_OK) st = init(a, s, o, err);
    st = luo_boot_agree(a->boot, st, err);
    if (st != LUO_OK) {
        put_back(a, j);
        return st;
    }
    if (o->save_init) saved = luo_state_save_weights(s, a->model, o->save_init, gather, err);
    st = store(a, j, saved == LUO_OK ? err : NULL);
    return saved == LUO_OK ? st : saved;
}

/* Gathering counts as going on: a large checkpoint takes longer than a hang may. */
typedef struct counted {
    luo_gather inner;
    luo_progress_report *where;
} counted;

static luo_status gather_counted(void *ctx, const void *mine, int64_t n, const void *const **out,
                                 const int64_t **sizes, int32_t *ranks, luo_err *err)
{
    const counted *c = ctx;
    c->where->done++;
    return c->inner.bytes(c->inner.ctx, mine, n, out, sizes, ranks, err);
}

static luo_status state(luo_agent *a, luo_wire *m, luo_wire *answer, luo_err *err)
{
    luo_agent_job *j;
    luo_state_order o;
    counted c = {.where = &a->where};
    const int64_t id = luo_wire_int(m);
    LUO_TRY(luo_get_state_order(m, &o, err));
    LUO_TRY(need_job(a, id, &j, err));
    LUO_TRY(a->executor->gather(a->x, &c.inner));
    const luo_gather gather = {.ctx = &c, .writer = c.inner.writer, .bytes = gather_counted};
    luo_state *s = a->executor->state(j->job);
    LUO_TRY(o.action == LUO_STATE_SAVE ? save(a, j, s, &o, &gather, err)
                                     : begin_with(a, j, s, &o, &gather, err));
    luo_wire_put_int(answer, s->step);
    return LUO_OK;
}

/* ---- steps and switches ---- */

/* What this rank has given up others may wait for: the coordinator has to know at once. */
static luo_status answer_of(const luo_step_report *r, luo_status st, luo_err *err)
{
    if (st != LUO_OK || (r->status != LUO_EPEER && r->status != LUO_ESTUCK)) return st;
    return luo_err_set(err, r->status, "%s", r->text);
}

static luo_status step(luo_agent *a, luo_command *c, luo_wire *answer, luo_err *err)
{
    luo_agent_job *j;
    luo_step_order o;
    luo_step_report report = {0};
    const int64_t id = luo_wire_int(&c->payload);
    const size_t mark = luo_arena_mark(a->arena);
    LUO_TRY(luo_get_step_order(a->arena, &c->payload, c->received_s, &o, err));
    LUO_TRY(need_job(a, id, &j, err));
    luo_listener_begin(a->listener, c->serial, o.withdraw_s, o.kill_s);
    const luo_status st =
        answer_of(&report, a->executor->step(j->job, &o, &report, err), err);
    luo_listener_finish(a->listener);
    if (st == LUO_OK) luo_put_report(answer, &report, report.start_s - c->received_s);
    luo_arena_reset(a->arena, mark);
    return st;
}

typedef struct switching {
    luo_agent_job *from, *to;
    luo_recipe recipe;
    luo_switching what;
    luo_step_order order;
} switching;

static luo_status read_switch(luo_agent *a, luo_arena *arena, luo_command *c, switching *s,
                              luo_err *err)
{
    luo_wire *m = &c->payload;
    const int64_t from = luo_wire_int(m), to = luo_wire_int(m);
    LUO_TRY(need_job(a, from, &s->from, err));
    LUO_TRY(need_job(a, to, &s->to, err));
    const int32_t ndead = (int32_t)luo_wire_int_in(m, 0, LUO_DEVICES_MAX);
    if (!luo_wire_has(m, ndead, 8)) return luo_wire_end(m, err);
    int32_t *dead = LUO_NEW_N(arena, int32_t, ndead);
    if (!dead) return luo_err_nomem(err);
    for (int32_t i = 0; i < ndead; i++) dead[i] = (int32_t)luo_wire_int_in(m, 0, LUO_DEVICES_MAX);
    const uint64_t hash = (uint64_t)luo_wire_int(m);
    LUO_TRY(luo_get_step_order(arena, m, c->received_s, &s->order, err));
    s->recipe = (luo_recipe){.plan = s->to->plan,
                             .from = s->from->plan,
                             .sequence_tokens = s->to->recipe.sequence_tokens,
                             .from_tokens = s->from->recipe.sequence_tokens,
                             .ndead = ndead,
                             .dead = dead};
    LUO_TRY(luo_switching_compile(arena, s->from->plan, s->to->plan, a->model, a->cluster, ndead,
                                  dead, &s->what, err));
    return same_hash(s->what.set ? s->what.set->hash : 0, hash, "a switch", err);
}

static luo_status move(luo_agent *a, luo_command *c, luo_wire *answer, luo_err *err)
{
    luo_arena *arena = luo_arena_new(1 << 16);
    luo_step_report report = {0};
    switching s = {0};
    luo_status st = arena ? read_switch(a, arena, c, &s, err) : luo_err_nomem(err);
    st = luo_boot_agree(a->boot, st, err);
    if (st == LUO_OK) {
        luo_listener_begin(a->listener, c->serial, s.order.withdraw_s, s.order.kill_s);
        st = a->executor->move(s.from->job, s.to->job, &s.what, &s.recipe, &report, err);
        luo_listener_finish(a->listener);
        st = answer_of(&report, st, err);
    }
    if (st == LUO_OK) luo_put_report(answer, &report, report.start_s - c->received_s);
    luo_arena_free(arena);
    return st;
}

/* ---- the beginning ---- */

static luo_status set_up(luo_agent *a, luo_wire *m, luo_err *err)
{
    LUO_TRY(luo_get_setup(a->arena, m, &a->setup, err));
    if (a->setup.nranks != a->nranks)
        return luo_err_set(err, LUO_EBUG, "a rank of %d is told of %d ranks.", a->nranks,
                           a->setup.nranks);
    LUO_TRY(luo_agent_read(a, err));
    for (int32_t r = 0; r < a->nranks; r++)
        if (a->setup.device_of[r] >= a->cluster->ndevices)
            return luo_err_set(err, LUO_EBUG, "rank %d has device %d of %d.", r,
                               a->setup.device_of[r], a->cluster->ndevices);
    LUO_TRY(luo_corpus_open(a->setup.data, a->model->vocab, a->setup.seed, &a->corpus, err));
    a->config = (luo_rank_config){.rank = a->rank,
                                  .nranks = a->nranks,
                                  .device_of = a->setup.device_of,
                                  .model = a->model,
                                  .cluster = a->cluster,
                                  .stack = &a->stack,
                                  .dtype = a->setup.dtype,
                                  .corpus = a->corpus,
                                  .where = &a->where,
                                  .abort = luo_listener_abort(a->listener)};
    return LUO_OK;
}

static luo_status begin(luo_agent *a, luo_wire *m, luo_wire *answer, luo_err *err)
{
    luo_device_info device_info = {0};
    if (a->x) return luo_err_set(err, LUO_EBUG, "a rank is set up twice.");
    LUO_TRY(luo_boot_agree(a->boot, set_up(a, m, err), err));
    const int32_t slot = a->cluster->devices[a->setup.device_of[a->rank]].slot;
    LUO_TRY(luo_boot_local(a->boot, slot, &a->config.local, err));
    LUO_TRY(a->executor->open(&a->config, &a->x, err));
    if (a->executor->tell) a->executor->tell(a->x, &device_info);
    luo_put_device_info(answer, &device_info);
    return LUO_OK;
}

luo_status luo_agent_work(luo_agent *a, luo_command *c, luo_wire *answer, luo_err *err)
{
    luo_wire *m = &c->payload;
    if (c->kind != LUO_SAY_SETUP && !a->x)
        return luo_err_set(err, LUO_EBUG, "a rank has to be set up first.");
    switch ((luo_say)c->kind) {
    case LUO_SAY_SETUP:
        return begin(a, m, answer, err);
    case LUO_SAY_PREPARE:
        return prepare(a, m, answer, err);
    case LUO_SAY_STATE:
        return state(a, m, answer, err);
    case LUO_SAY_STEP:
        return step(a, c, answer, err);
    case LUO_SAY_MOVE:
        return move(a, c, answer, err);
    case LUO_SAY_DROP:
        drop_job(a, luo_wire_int(m));
        return LUO_OK;
    case LUO_SAY_END: /* do not come here: listener.c */
    case LUO_SAY_ABORT:
    case LUO_SAY_WHERE:
    case LUO_SAY_HELLO: /* a rank's own words */
    case LUO_SAY_ANSWER:
    case LUO_SAY_HERE:
    case LUO_SAY_WITHDRAW:
    case LUO_SAY_BYE:
        break;
    }
    return luo_err_set(err, LUO_EBUG, "a rank knows no command %d.", c->kind);
}
