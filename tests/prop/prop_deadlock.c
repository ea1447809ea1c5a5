/* prop_deadlock.c: programs of random plans finish (docs/architecture/programs.md#the-check), and
 * the check agrees with a slow twin about programs in which something was planted. */
#include "core/base/hash.h"
#include "core/graph/program/check_internal.h"
#include "tests/plan_random.h"
#include "tests/prop/prop.h"

typedef struct tally {
    plan_tally plans;
    int gpt, sharded, broken, finished, saved;
    int folded[2]; /* run as fewer devices: finished, broken */
} tally;

/* ---- the slow twin: every instruction of every lane, looked at again and again ---- */

typedef struct twin {
    luo_arena *arena;
    const luo_programs *set;
    int32_t *at;    /* [device * LUO_LANES + lane]: position in the lane's list */
    int64_t **list; /* the same: task << 32 | instruction */
    int32_t *n;
    bool **done;    /* [device][task * ninstr + instruction] */
    luo_map posted; /* message -> bytes */
    bool wrong;     /* sizes differ */
    bool one;       /* all calls of stream dp stand in one lane */
} twin;

static int32_t lane_of(const twin *w, const luo_instr *in)
{
    const int32_t lane = luo_instr_lane(in);
    return w->one && luo_program_lane_is_dp(lane) ? LUO_STREAM_DP : lane;
}

static uint64_t message_key(int32_t from, int32_t to, int32_t exchange, int32_t batch)
{
    return (uint64_t)from << 50 | (uint64_t)to << 40 | (uint64_t)exchange << 16 |
           (uint64_t)(batch + 1);
}

static int32_t segment_of(const luo_role *r, int32_t instr)
{
    int32_t s = 0;
    while (instr >= r->seg[s].first + r->seg[s].n) s++;
    return s;
}

/* Latest task before or at t in which instruction `dep` runs for this task; -1: none. */
static int32_t dep_task(const luo_program *p, const luo_role *r, int32_t t, int32_t dep)
{
    const int32_t s = segment_of(r, dep);
    const bool same = s != p->tasks[t].seg && p->tasks[t].micro_batch >= 0 &&
                      (r->seg[s].phase == LUO_PHASE_F || r->seg[s].phase == LUO_PHASE_B);
    for (int32_t k = t; k >= 0; k--)
        if (p->tasks[k].seg == s && (!same || p->tasks[k].micro_batch == p->tasks[t].micro_batch))
            return k;
    return -1;
}

static void open_twin(twin *w, luo_arena *a, const luo_programs *set, bool one)
{
    *w = (twin){.arena = a, .set = set, .one = one};
    w->at = LUO_NEW_N(a, int32_t, set->n * LUO_LANES);
    w->n = LUO_NEW_N(a, int32_t, set->n * LUO_LANES);
    w->list = LUO_NEW_N(a, int64_t *, set->n * LUO_LANES);
    w->done = LUO_NEW_N(a, bool *, set->n);
    for (int32_t d = 0; d < set->n; d++) {
        const luo_program *p = &set->at[d];
        const luo_role *r = &set->roles[p->role];
        w->done[d] = LUO_NEW_N(a, bool, (int64_t)p->ntask * r->ninstr);
        for (int32_t l = 0; l < LUO_LANES; l++)
            w->list[d * LUO_LANES + l] = LUO_NEW_N(a, int64_t, (int64_t)p->ntask * r->ninstr);
        for (int32_t t = 0; t < p->ntask; t++) {
            const luo_segment *s = &r->seg[p->tasks[t].seg];
            for (int32_t i = s->first; i < s->first + s->n; i++) {
                const int32_t k = d * LUO_LANES + lane_of(w, &r->instr[i]);
                w->list[k][w->n[k]++] = (int64_t)t << 32 | i;
            }
        }
    }
}

static int32_t index_of(const twin *w, int32_t device)
{
    for (int32_t d = 0; d < w->set->n; d++)
        if (w->set->at[d].device == device) return d;
    return -1;
}

/* Head of a lane if its dependencies have run; NULL: not, or the lane is empty. */
static const luo_instr *ready_head(const twin *w, int32_t d, int32_t lane, int32_t *task)
{
    const int32_t k = d * LUO_LANES + lane;
    if (d < 0 || w->at[k] == w->n[k]) return NULL;
    const luo_program *p = &w->set->at[d];
    const luo_role *r = &w->set->roles[p->role];
    *task = (int32_t)(w->list[k][w->at[k]] >> 32);
    const luo_instr *in = &r->instr[(int32_t)w->list[k][w->at[k]]];
    const int32_t c = d * LUO_LANES + LUO_STREAM_COMPUTE;
    if (in->at_start && w->at[c] < w->n[c] && w->list[c][w->at[c]] >> 32 < *task) return NULL;
    for (int32_t i = 0; i < in->ndep; i++) {
        const int32_t t = dep_task(p, r, *task, in->dep[i]);
        if (t >= 0 && !w->done[d][(int64_t)t * r->ninstr + in->dep[i]]) return NULL;
    }
    return in;
}

static void complete(twin *w, int32_t d, int32_t lane, int32_t task, const luo_instr *in)
{
    const luo_role *r = &w->set->roles[w->set->at[d].role];
    w->done[d][(int64_t)task * r->ninstr + in->id] = true;
    w->at[d * LUO_LANES + lane]++;
}

/* The same call at the head of a lane of another device: members may have it in different lanes. */
static const luo_instr *partner(const twin *w, int32_t d, int32_t o, const luo_instr *in,
                                int32_t batch, int32_t *lane, int32_t *task)
{
    const int32_t group = w->set->at[d].slots[in->slot].group;
    for (*lane = 0; *lane < LUO_LANES; ++*lane) {
        const luo_instr *x = ready_head(w, o, *lane, task);
        if (x && x->kind == LUO_INSTR_COLLECTIVE && x->coll == in->coll && x->bytes == in->bytes &&
            x->exchange == in->exchange && x->stream == in->stream &&
            w->set->at[o].slots[x->slot].group == group &&
            w->set->at[o].tasks[*task].micro_batch == batch)
            return x;
    }
    return NULL;
}

static bool meets(twin *w, int32_t d, int32_t task, const luo_instr *in)
{
    const luo_group *g = &w->set->groups[w->set->at[d].slots[in->slot].group];
    const int32_t batch = w->set->at[d].tasks[task].micro_batch;
    int32_t t, lane;
    for (int32_t i = 0; i < g->n; i++) {
        const int32_t o = index_of(w, g->dev[i]);
        if (o < 0 || !partner(w, d, o, in, batch, &lane, &t)) return false;
    }
    for (int32_t i = 0; i < g->n; i++) {
        const int32_t o = index_of(w, g->dev[i]);
        const luo_instr *x = partner(w, d, o, in, batch, &lane, &t);
        complete(w, o, lane, t, x);
    }
    return true;
}

static bool exchanges(twin *w, int32_t d, int32_t lane, int32_t task, const luo_instr *in)
{
    const luo_program *p = &w->set->at[d];
    const luo_slot *slot = &p->slots[in->slot];
    const int32_t batch = p->tasks[task].micro_batch;
    bool all = true;
    for (int32_t i = 0; i < slot->nmessage; i++) {
        const luo_message *m = &slot->message[i];
        const int32_t from = m->send ? p->device : m->peer, to = m->send ? m->peer : p->device;
        const uint64_t key = message_key(from, to, in->exchange, batch);
        *luo_map_at(&w->posted, 2 * key + m->send, 0) = m->bytes;
        const int64_t other = luo_map_get(&w->posted, 2 * key + !m->send, -1);
        if (other >= 0 && other != m->bytes) w->wrong = true;
        all &= other >= 0;
    }
    if (all) complete(w, d, lane, task, in);
    return all;
}

static bool step_lane(twin *w, int32_t d, int32_t lane)
{
    int32_t task;
    const luo_instr *in = ready_head(w, d, lane, &task);
    if (!in) return false;
    if (in->kind == LUO_INSTR_COLLECTIVE) return meets(w, d, task, in);
    if (in->kind == LUO_INSTR_P2P) return exchanges(w, d, lane, task, in);
    complete(w, d, lane, task, in);
    return true;
}

static bool twin_finishes(luo_arena *a, const luo_programs *set, bool one)
{
    twin w;
    open_twin(&w, a, set, one);
    for (bool moved = true; moved;) {
        moved = false;
        for (int32_t d = 0; d < set->n; d++)
            for (int32_t l = 0; l < LUO_LANES; l++)
                while (step_lane(&w, d, l)) moved = true;
    }
    bool all = !w.wrong;
    for (int32_t k = 0; k < set->n * LUO_LANES; k++) all &= w.at[k] == w.n[k];
    luo_map_free(&w.posted);
    return all;
}

/* ---- planted changes ---- */

static void swap_pieces(luo_instr *a, luo_instr *b)
{
    const luo_instr x = *a;
    a->npieces = b->npieces, a->piece = b->piece, a->first_piece = b->first_piece;
    a->in = b->in, a->nin = b->nin, a->out = b->out, a->nout = b->nout;
    b->npieces = x.npieces, b->piece = x.piece, b->first_piece = x.first_piece;
    b->in = x.in, b->nin = x.nin, b->out = x.out, b->nout = x.nout;
}

/* Swaps two communications of one stream and segment on one device (role of its own), or on all of
 * its pipeline and role, which the check may then run as one; tensors keep their buffers there. */
static void plant(luo_arena *a, luo_rng *r, luo_programs *set, bool all)
{
    luo_program *p = (luo_program *)&set->at[luo_rng_pick(r, set->n)];
    luo_role *roles = LUO_NEW_N(a, luo_role, set->nroles + 1);
    memcpy(roles, set->roles, (size_t)set->nroles * sizeof *roles);
    luo_role *role = &roles[set->nroles];
    *role = roles[p->role];
    luo_instr *in = LUO_NEW_N(a, luo_instr, role->ninstr);
    memcpy(in, role->instr, (size_t)role->ninstr * sizeof *in);
    for (int tries = 0; tries < 50 && role->ninstr > 1; tries++) {
        const int64_t i = luo_rng_pick(r, role->ninstr), j = luo_rng_pick(r, role->ninstr);
        if (i == j || in[i].stream != in[j].stream || in[i].kind != LUO_INSTR_COLLECTIVE ||
            in[j].kind != LUO_INSTR_COLLECTIVE || in[i].phase != in[j].phase)
            continue;
        const luo_instr x = in[i];
        in[i].coll = in[j].coll, in[i].bytes = in[j].bytes, in[i].slot = in[j].slot;
        in[i].exchange = in[j].exchange, in[i].v = in[j].v;
        in[j].coll = x.coll, in[j].bytes = x.bytes, in[j].slot = x.slot;
        in[j].exchange = x.exchange, in[j].v = x.v;
        if (!all || in[i].npieces || in[j].npieces) swap_pieces(&in[i], &in[j]);
        break;
    }
    role->instr = in;
    const int32_t was = p->role;
    for (int32_t i = 0; i < set->n; i++) {
        luo_program *q = (luo_program *)&set->at[i];
        if (q == p || (all && q->role == was && q->pipeline == p->pipeline)) q->role = set->nroles;
    }
    set->nroles++;
    set->roles = roles;
}

/* Does the check run fewer devices than there are? */
static bool folds(luo_arena *a, const luo_programs *set)
{
    const int32_t *alike;
    check_list *made = LUO_NEW_N(a, check_list, set->n);
    const check_list **lists = LUO_NEW_N(a, const check_list *, set->n);
    bool *runs = LUO_NEW_N(a, bool, set->n), folded = false;
    luo_err err;
    if (luo_roles_alike(a, set, &alike) != LUO_OK) abort();
    for (int32_t i = 0; i < set->n; i++) {
        const luo_program *p = &set->at[i];
        for (int32_t k = 0; k < i && !lists[i]; k++)
            if (alike[set->at[k].role] == alike[p->role] && set->at[k].tasks == p->tasks)
                lists[i] = lists[k];
        if (lists[i]) continue;
        if (luo_check_expand(a, &set->roles[p->role], p->tasks, p->ntask, &made[i], &err) != LUO_OK)
            return false;
        lists[i] = &made[i];
    }
    if (luo_check_fold(a, set, lists, runs, &folded, &err) != LUO_OK) abort();
    return folded;
}

static bool one_case(uint64_t seed, tally *t)
{
    luo_rng r = luo_rng_seed(seed);
    luo_arena *a = luo_arena_new(1 << 16);
    luo_plan *p = plan_random(a, &r, &t->plans);
    if (seed % 2) p->bucket = (luo_bucketing){LUO_BUCKET_MIB, true, seed % 4 == 1 ? 0.01 : 25,
                                              (int32_t)(seed / 2 % 4) + 1};
    const bool gpt = luo_rng_pick(&r, 3) == 0;
    t->gpt += gpt;
    const luo_model m =
        gpt ? luo_test_gpt(p->layers, 64, 8, 120) : luo_test_llama(p->layers, 64, 96, 8, 120);
    t->sharded += plan_random_shard(&r, p, m.tied_embeddings);
    const luo_compile_opts opts = {.check = true};
    luo_programs *set;
    luo_err err = {0};
    bool good = luo_plan_compile(a, p, &m, NULL, &opts, &set, &err) == LUO_OK;
    if (!good) printf("seed %llu: %s\n", (unsigned long long)seed, err.text);
    if (good && !(twin_finishes(a, set, true) && twin_finishes(a, set, false))) {
        good = false;
        printf("seed %llu: the twin does not finish\n", (unsigned long long)seed);
    }
    for (int k = 0; good && k < 3; k++) {
        const bool all = (seed + (uint64_t)k) % 2;
        plant(a, &r, set, all);
        const bool check = luo_program_check(a, set, &err) == LUO_OK;
        const bool slow = twin_finishes(a, set, true), many = twin_finishes(a, set, false);
        t->saved += many && !slow;
        t->folded[!slow] += folds(a, set);
        if (slow && !many) {
            good = false;
            printf("seed %llu: one lane finishes, several do not\n", (unsigned long long)seed);
        }
        if (check)
            t->finished++;
        else
            t->broken++;
        if (check == slow) continue;
        /* Swapped calls may meet and move what is not there, which the twin does not see. */
        if (strstr(err.text, "before anything has written it")) continue;
        good = false;
        printf("seed %llu: check says %s, the twin %s\n", (unsigned long long)seed,
               check ? "fine" : err.text, slow ? "finishes" : "does not finish");
    }
    luo_arena_free(a);
    return good;
}

int main(void)
{
    tally t = {0};
    int failed = 0, cases = 0;
    LUO_PROP_FOR(seed, 150)
    {
        failed += !one_case(seed, &t);
        cases++;
    }
    plan_tally *p = &t.plans;
    printf("%d cases: %d of several pipelines, %d uneven stages, %d interleaved, %d zero-1, %d "
           "stages run again, %d gpt, %d pipelines of own lengths, %d states apart; planted: %d "
           "broken (%d of them finish in several lanes), %d not; run as fewer devices: %d broken, "
           "%d not; %d cut inside tasks\n",
           cases, p->pipelines, p->uneven, p->interleaved, p->zero, p->full, t.gpt, p->lengths,
           p->apart, t.broken, t.saved, t.finished, t.folded[1], t.folded[0], t.sharded);
    if (cases >= 100 && (plan_tally_poor(p) || t.gpt < 10 || t.sharded < 10 || t.broken < 10 ||
                         t.folded[0] < 10 || t.folded[1] < 5)) {
        printf("the generator misses interesting cases\n");
        failed++;
    }
    printf("%d%%: Checks: 1, Failures: %d, Errors: 0\n", failed ? 0 : 100, failed > 0);
    return failed ? 1 : 0;
}
