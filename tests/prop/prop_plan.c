/* prop_plan.c: random plans, good and broken. luo_plan_check against a slow twin that
 * looks at one layer and one device at a time; what is written reads back with the same hash. */
#include "core/io/document/doc.h"
#include "core/io/read/read.h"
#include "core/io/write_plan.h"
#include "tests/check_main.h"
#include "tests/prop/prop.h"

enum { LAYERS = 8, DEVICES = 16, STAGES = 4 };

typedef struct maker {
    luo_rng rng;
    luo_plan plan;
    luo_pipeline pipes[3];
    luo_stage stages[3][STAGES];
    luo_range ranges[3][STAGES][2], redo[3][STAGES];
    int32_t dev[3][STAGES][4];
    uint32_t shares[3][STAGES][4];
    int32_t next_device;
} maker;

static int32_t pick(maker *m, int32_t lo, int32_t hi)
{
    return lo + (int32_t)luo_rng_pick(&m->rng, hi - lo + 1);
}

/* Cuts 0..LAYERS into chunks * S ascending ranges, some of them empty. */
static void cut_layers(maker *m, int32_t i, int32_t S, int32_t chunks)
{
    int32_t at = 0;
    for (int32_t c = 0; c < chunks; c++)
        for (int32_t s = 0; s < S; s++) {
            const bool last = c == chunks - 1 && s == S - 1;
            const int32_t hi = last ? LAYERS : at + pick(m, 0, (LAYERS - at) / 2);
            m->ranges[i][s][c] = (luo_range){at, hi};
            at = hi;
        }
}

static void make_stage(maker *m, int32_t i, int32_t s, int32_t S, int32_t chunks)
{
    luo_stage *st = &m->stages[i][s];
    *st = (luo_stage){.nlayers = chunks, .layers = m->ranges[i][s], .ndev = 1,
                      .dev = m->dev[i][s], .context_parallel = 1, .embedding = s == 0,
                      .head = s == S - 1, .recompute = (luo_recompute)pick(m, 0, 2)};
    if (m->next_device + 2 <= DEVICES - 8 && pick(m, 0, 1)) st->ndev = 2;
    for (int32_t k = 0; k < st->ndev; k++) m->dev[i][s][k] = m->next_device++;
    if (st->ndev == 2 && pick(m, 0, 1)) {
        m->shares[i][s][0] = 3;
        m->shares[i][s][1] = 1;
        st->shares = m->shares[i][s];
    }
    const luo_range r = m->ranges[i][s][0];
    if (st->recompute && r.lo < r.hi && pick(m, 0, 1)) {
        m->redo[i][s] = (luo_range){r.lo, r.lo + 1};
        st->recompute_layers = &m->redo[i][s];
        st->nrecompute = 1;
    }
}

static void make_plan(maker *m)
{
    const int32_t chunks = pick(m, 1, 2), n = pick(m, 1, 3);
    m->plan = (luo_plan){.name = "p", .model = "", .cluster = "", .layers = LAYERS,
                         .devices = DEVICES, .sequence_tokens = 64, .micro_batch_sequences = 1,
                         .zero = pick(m, 0, 3), .chunks = chunks, .npipelines = n,
                         .schedule = chunks > 1 ? LUO_SCHED_INTERLEAVED : LUO_SCHED_1F1B,
                         .pipelines = m->pipes};
    for (int32_t i = 0; i < n; i++) {
        const int32_t S = pick(m, 1, STAGES);
        cut_layers(m, i, S, chunks);
        for (int32_t s = 0; s < S; s++) make_stage(m, i, s, S, chunks);
        m->pipes[i] = (luo_pipeline){.micro_batches = S * pick(m, 1, 3), .nstages = S,
                                     .micro_batch_sequences = pick(m, 1, 2),
                                     .stages = m->stages[i]};
    }
}

static void break_plan(maker *m)
{
    const int32_t i = pick(m, 0, m->plan.npipelines - 1);
    const int32_t s = pick(m, 0, m->pipes[i].nstages - 1);
    luo_range *r = &m->ranges[i][s][pick(m, 0, m->plan.chunks - 1)];
    luo_stage *st = &m->stages[i][s];
    switch (pick(m, 0, 7)) {
    case 0: r->hi++; break;
    case 1: r->lo++; break;
    case 2: r->hi--; break;
    case 3: m->dev[i][s][0] = pick(m, -1, DEVICES); break;
    case 4: st->embedding = !st->embedding; break;
    case 5: st->head = !st->head; break;
    case 6: m->pipes[i].micro_batches++; break;
    default: st->nlayers = 1; break;
    }
}

/* ---- the twin ---- */

static bool layers_good(const luo_plan *p, const luo_pipeline *pl)
{
    int32_t want = 0; /* the layer that comes next, walking chunk by chunk, stage by stage */
    for (int32_t c = 0; c < 2; c++)
        for (int32_t s = 0; s < pl->nstages; s++) {
            if (c >= pl->stages[s].nlayers) continue;
            const luo_range r = pl->stages[s].layers[c];
            if (r.lo < 0 || r.hi > p->layers || r.lo > r.hi) return false;
            for (int32_t l = r.lo; l < r.hi; l++)
                if (l != want++) return false;
        }
    return want == p->layers;
}

static bool ends_good(const luo_pipeline *pl)
{
    int32_t embedding = 0, head = 0;
    bool before = false, after = false;
    for (int32_t s = 0; s < pl->nstages; s++) {
        const luo_stage *st = &pl->stages[s];
        const luo_range first = st->layers[0], last = st->layers[st->nlayers - 1];
        embedding += st->embedding;
        if (st->embedding && before) return false;
        if (first.lo < first.hi) before = true;
        if (head && last.lo < last.hi) after = true;
        head += st->head;
    }
    return embedding == 1 && head == 1 && !after;
}

static bool stages_good(const luo_plan *p, const luo_pipeline *pl, bool *seen)
{
    for (int32_t s = 0; s < pl->nstages; s++) {
        const luo_stage *st = &pl->stages[s];
        if (st->nlayers != p->chunks) return false;
        for (int32_t k = 0; k < st->ndev; k++) {
            const int32_t d = st->dev[k];
            if (d < 0 || d >= p->devices || seen[d]) return false;
            seen[d] = true;
        }
        for (int32_t k = 0; k < st->nrecompute; k++) {
            bool inside = false;
            for (int32_t c = 0; c < st->nlayers; c++)
                inside = inside || (st->recompute_layers[k].lo >= st->layers[c].lo &&
                                    st->recompute_layers[k].hi <= st->layers[c].hi);
            if (!inside) return false;
        }
    }
    return p->schedule != LUO_SCHED_INTERLEAVED || pl->nstages == 1 ||
           pl->micro_batches % pl->nstages == 0;
}

static bool twin(const luo_plan *p)
{
    bool seen[DEVICES] = {false}, good = true;
    for (int32_t i = 0; i < p->npipelines; i++)
        good = good && layers_good(p, &p->pipelines[i]) && ends_good(&p->pipelines[i]) &&
               stages_good(p, &p->pipelines[i], seen);
    return good;
}

static void check_round_trip(luo_arena *arena, const luo_plan *p)
{
    luo_str s = {0};
    luo_diags diags;
    luo_plan *again = NULL;
    luo_plan_json(&s, p);
    const luo_source src = {"p.json", luo_str_get(&s), s.len};
    luo_diags_init(&diags, arena);
    const luo_status st = luo_read_plan_text(arena, &src, &again, &diags);
    ck_assert_msg(st == LUO_OK, "%s\n%s", diags.first ? diags.first->err.text : "?", src.text);
    ck_assert_uint_eq(luo_plan_hash(again), luo_plan_hash(p));
    luo_str_free(&s);
}

START_TEST(check_is_the_twin)
{
    int good = 0, bad = 0;
    LUO_PROP_FOR(seed, 4000)
    {
        luo_arena *arena = luo_arena_new(0);
        maker m = {.rng = luo_rng_seed(seed)};
        luo_plan_finding *f;
        int32_t n;
        make_plan(&m);
        for (int32_t k = pick(&m, 0, 2); k > 0; k--) break_plan(&m);
        const bool want = twin(&m.plan);
        const bool got = luo_plan_check(arena, &m.plan, NULL, NULL, &f, &n) == LUO_OK;
        ck_assert_msg(got == want, "seed %llu: twin %d, first finding %s",
                      (unsigned long long)seed, want, n ? f[0].text : "none");
        if (got) check_round_trip(arena, &m.plan);
        *(want ? &good : &bad) += 1;
        luo_arena_free(arena);
    }
    if (luo_prop_env("LUO_CASES", 4000) >= 1000) ck_assert(good > 500 && bad > 500);
}
END_TEST

/* ---- positions: a random document whose values know where they were put ---- */

typedef struct put {
    luo_rng rng;
    luo_str text, pointer;
    struct {
        char pointer[200];
        int line, col;
    } at[400];
    int n;
} put;

static void space(put *p)
{
    static const char *const blanks[] = {"", " ", "\n", "\t ", "\r\n  "};
    luo_str_add(&p->text, blanks[luo_rng_pick(&p->rng, 5)]);
}

static void note(put *p)
{
    int line = 1, col = 1; /* the obvious way */
    if (p->n == 400) return;
    for (size_t i = 0; i < p->text.len; i++) {
        if (((unsigned char)p->text.at[i] & 0xc0) != 0x80) col++;
        if (p->text.at[i] == '\n') {
            line++;
            col = 1;
        }
    }
    snprintf(p->at[p->n].pointer, sizeof p->at->pointer, "%s", luo_str_get(&p->pointer));
    p->at[p->n].line = line;
    p->at[p->n++].col = col;
}

static void value(put *p, int depth)
{
    static const char *const leaves[] = {"1", "-2.5e3", "true", "null", "\"a,]}\\\"b\"",
                                         "\"\xc3\xa4\xe2\x82\xac\"", "[]", "{}"};
    static const char *const keys[] = {"a", "b/c", "d~e", "\xc3\xb6"};
    static const char *const escaped[] = {"a", "b~1c", "d~0e", "\xc3\xb6"};
    space(p);
    note(p);
    const int64_t kind = depth > 5 ? 0 : luo_rng_pick(&p->rng, 3);
    if (kind == 0) {
        luo_str_add(&p->text, leaves[luo_rng_pick(&p->rng, 8)]);
        space(p);
        return;
    }
    const int n = 1 + (int)luo_rng_pick(&p->rng, 4);
    luo_str_addc(&p->text, kind == 1 ? '[' : '{');
    for (int i = 0; i < n; i++) {
        const size_t mark = p->pointer.len;
        if (i) luo_str_addc(&p->text, ',');
        space(p);
        if (kind == 1) luo_str_addf(&p->pointer, "/%d", i);
        else luo_str_addf(&p->pointer, "/%s", escaped[i]);
        if (kind == 2) luo_str_addf(&p->text, "\"%s\"", keys[i]);
        if (kind == 2) space(p);
        if (kind == 2) luo_str_addc(&p->text, ':');
        value(p, depth + 1);
        p->pointer.len = mark;
        p->pointer.at[mark] = 0;
    }
    luo_str_addc(&p->text, kind == 1 ? ']' : '}');
    space(p);
}

START_TEST(every_value_is_found)
{
    int64_t values = 0;
    LUO_PROP_FOR(seed, 1500)
    {
        put *p = calloc(1, sizeof *p);
        p->rng = luo_rng_seed(seed);
        luo_str_add(&p->pointer, "");
        value(p, 0);
        luo_arena *arena = luo_arena_new(0);
        const luo_doc_node *root = NULL;
        ck_assert_int_eq(luo_doc_tree(arena, p->text.at, p->text.len, &root, NULL), LUO_OK);
        for (int i = 0; i < p->n; i++) {
            bool found;
            const luo_doc_node *x = luo_doc_find(root, p->at[i].pointer, &found);
            ck_assert_msg(found && x->line == p->at[i].line && x->col == p->at[i].col,
                          "seed %llu: `%s` at %d:%d, not %d:%d in\n%s", (unsigned long long)seed,
                          p->at[i].pointer, p->at[i].line, p->at[i].col, x->line, x->col,
                          p->text.at);
            values++;
        }
        luo_arena_free(arena);
        luo_str_free(&p->text);
        luo_str_free(&p->pointer);
        free(p);
    }
    if (luo_prop_env("LUO_CASES", 1500) >= 1000) ck_assert(values > 10000);
}
END_TEST

LUO_SUITE("prop.plan", LUO_T(check_is_the_twin), LUO_T(every_value_is_found))
