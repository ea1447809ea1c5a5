/* context.c: what a form is inside one pipeline (docs/annotations.md#from-a-plan-to-annotations),
 * with its tokens cut among context-parallel ranks.
 *
 * A stage has c ranks of t tensor-parallel devices. Ranks lie in parts of `inner` neighbours.
 * Around attention the ranks of a part exchange heads for tokens, each of them computing some heads
 * of every tensor rank; parts pass keys and values on in a ring. Which key-value heads a rank gets,
 * the first that fits: as many as there are ranks (cut alike), one that several share, all.
 */
#include "core/plan/annotate.h"

typedef enum key_case {
    KEYS_STAY,   /* no exchange */
    KEYS_ALIKE,  /* inner divides the heads of a tensor rank */
    KEYS_SHARED, /* they divide inner: copies of a head */
    KEYS_WHOLE,  /* all of a tensor rank's heads */
    KEYS_ALL     /* all heads, which tensor parallelism does not cut either */
} key_case;

typedef struct member {
    luo_arena *arena;
    const luo_graph *g;
    const luo_stage *s;
    luo_context x;
    int32_t c, t, inner, parts;
    int32_t experts; /* devices that have all of them together */
    bool sequence_parallel;
    key_case keys;
    int32_t kept; /* KEYS_SHARED: key-value heads of a tensor rank; else inner */
    luo_grp *out;
    bool failed;
} member;

static uint32_t tensor_share(const member *m, int32_t j)
{
    return m->s->shares ? m->s->shares[j] : 1;
}

/* Heads of tensor rank j out of `all`. */
static int64_t heads_of(const member *m, int64_t all, int32_t j)
{
    int64_t sum = 0;
    for (int32_t k = 0; k < m->t; k++) sum += tensor_share(m, k);
    return sum > 0 ? all * tensor_share(m, j) / sum : 0;
}

static int64_t size_of(const member *m, char letter)
{
    return m->g->size[letter - 'a'];
}

static key_case find_keys(member *m)
{
    bool alike = true, shared = true;
    const int64_t all = size_of(m, 'g'), first = heads_of(m, all, 0);
    for (int32_t j = 0; j < m->t; j++) {
        const int64_t n = heads_of(m, all, j);
        alike &= n % m->inner == 0;
        shared &= n == first && n > 0 && m->inner % n == 0;
    }
    m->kept = m->inner;
    if (m->inner == 1) return KEYS_STAY;
    if (m->g->kv_whole) return KEYS_ALL;
    if (alike) return KEYS_ALIKE;
    if (!shared) return KEYS_WHOLE;
    m->kept = (int32_t)first;
    return KEYS_SHARED;
}

/* ---- entries ---- */

static uint32_t *shares(member *m, int32_t n)
{
    uint32_t *w = LUO_NEW_N(m->arena, uint32_t, n);
    if (!w) m->failed = true;
    return w;
}

static void add(member *m, int32_t key, int32_t n, const uint32_t *share)
{
    luo_ent *ent = (luo_ent *)m->out->ent;
    ent[m->out->nent++] = (luo_ent){key, n, share};
}

/* Tokens among groups of `each` neighbouring ranks, every one of them again `again` times. */
static void add_tokens(member *m, int32_t each, int32_t again, bool by_share)
{
    const int32_t n = m->c / each;
    uint32_t *w = shares(m, n * again);
    for (int32_t r = 0; w && r < m->c; r++)
        for (int32_t j = 0; j < again; j++)
            w[r / each * again + j] += (uint32_t)luo_context_share(&m->x, r) *
                                       (by_share ? tensor_share(m, j) : 1);
    add(m, 0, n * again, w);
}

static void add_heads(member *m)
{
    add(m, 1, m->t, m->s->shares);
}

/* Rank of a part that computes chunk k of a tensor rank's heads. Copies of a head lie `kept` ranks
 * apart, so that ranks whose tokens lie together exchange heads. */
static int32_t rank_of_chunk(const member *m, int32_t k)
{
    const int32_t copies = m->inner / m->kept;
    return k % copies * m->kept + k / copies;
}

static int64_t even(int64_t n, int32_t parts, int32_t k)
{
    return n / parts + (k < n % parts);
}

/* Query heads in chunk k of tensor rank j. */
static int64_t chunk_heads(const member *m, int32_t j, int32_t k)
{
    const int64_t all = heads_of(m, size_of(m, 'n'), j);
    const int32_t copies = m->inner / m->kept;
    if (m->keys == KEYS_SHARED) return even(all / m->kept, copies, k % copies);
    return even(all, m->inner, k);
}

static int32_t device(const member *m, int32_t rank, int32_t j)
{
    return m->s->dev[rank * m->t + j];
}

/* ---- device lists ---- */

static int32_t *list(member *m)
{
    int32_t *dev = LUO_NEW_N(m->arena, int32_t, m->s->ndev);
    if (!dev) m->failed = true;
    else m->out->dev = dev;
    return dev;
}

/* Parts, tensor ranks, chunks. */
static void list_chunks(member *m)
{
    int32_t *dev = list(m);
    for (int32_t o = 0; dev && o < m->parts; o++)
        for (int32_t j = 0; j < m->t; j++)
            for (int32_t k = 0; k < m->inner; k++)
                *dev++ = device(m, o * m->inner + rank_of_chunk(m, k), j);
}

/* Parts, copies, tensor ranks, heads: which is the order of the ranks, but heads go last. */
static void list_copies(member *m)
{
    int32_t *dev = list(m);
    for (int32_t r = 0; dev && r < m->c; r += m->kept)
        for (int32_t j = 0; j < m->t; j++)
            for (int32_t k = 0; k < m->kept; k++) *dev++ = device(m, r + k, j);
}

/* Block o lies at part o + hops. */
static void turn(member *m, int32_t hops)
{
    const int32_t *from = m->out->dev, each = m->s->ndev / m->parts;
    int32_t *dev = list(m);
    for (int32_t i = 0; dev && i < m->s->ndev; i++)
        dev[i] = from[(i + hops * each) % m->s->ndev];
}

/* ---- forms ---- */

static void cut_heads(member *m, bool queries)
{
    uint32_t *w = shares(m, m->t * m->inner);
    list_chunks(m);
    add_tokens(m, m->inner, 1, false);
    for (int32_t j = 0; w && j < m->t; j++)
        for (int32_t k = 0; k < m->inner; k++)
            w[j * m->inner + k] =
                (uint32_t)(queries ? chunk_heads(m, j, k)
                                   : heads_of(m, size_of(m, 'g'), j) / m->inner);
    add(m, 1, m->t * m->inner, w);
}

static void home(member *m)
{
    add_tokens(m, 1, 1, false);
    add_heads(m);
}

/* Keys and values on their way: cut among all ranks, in tokens where there are few heads. */
static void keys(member *m)
{
    switch (m->keys) {
    case KEYS_STAY:
        add_tokens(m, 1, 1, false);
        if (m->g->kv_whole) add(m, LUO_DUP, m->t, NULL);
        else add_heads(m);
        return;
    case KEYS_ALIKE: cut_heads(m, false); return;
    case KEYS_SHARED:
        list_copies(m);
        add_tokens(m, m->kept, 1, false);
        add(m, 1, m->t * m->kept, NULL);
        return;
    case KEYS_WHOLE: home(m); return;
    case KEYS_ALL: add_tokens(m, 1, m->t, false); return;
    }
}

static void copies(member *m)
{
    if (m->keys == KEYS_STAY || m->keys == KEYS_ALIKE) {
        keys(m);
        return;
    }
    if (m->keys == KEYS_SHARED) list_copies(m);
    add_tokens(m, m->inner, 1, false);
    if (m->keys == KEYS_ALL) {
        add(m, LUO_DUP, m->inner * m->t, NULL);
        return;
    }
    add(m, LUO_DUP, m->inner / (m->keys == KEYS_SHARED ? m->kept : 1), NULL);
    if (m->keys == KEYS_SHARED) add(m, 1, m->t * m->kept, NULL);
    else add_heads(m);
}

static void activations(member *m, bool cut)
{
    add_tokens(m, 1, cut ? m->t : 1, cut);
    if (!cut) add(m, LUO_DUP, m->t, NULL);
}

/* Tokens of every device, along dimension `dim`. */
static void own_tokens(member *m, int32_t dim)
{
    add_tokens(m, 1, m->t, true);
    ((luo_ent *)m->out->ent)[m->out->nent - 1].key = dim;
}

/* Dealt experts: neighbouring ones on every device of a block; blocks, which are copies or have
 * parts of another dimension. */
static void add_experts(member *m, int32_t blocks, int32_t dim)
{
    add(m, blocks, m->c * m->t / m->experts, NULL);
    add(m, dim, m->experts, NULL);
}

/* Experts that are cut, in every context-parallel rank. */
static void add_columns(member *m, int32_t dim)
{
    add(m, LUO_DUP, m->c, NULL);
    add_heads(m);
    ((luo_ent *)m->out->ent)[m->out->nent - 1].key = dim;
}

/* Of dealt experts and of those that are cut. */
static void experts(member *m, luo_form form)
{
    const bool dealt = m->s->experts_dealt;
    if (form == LUO_FORM_ROUTED && dealt) own_tokens(m, 0);
    else if (form == LUO_FORM_ROWS_HOME && dealt) own_tokens(m, 1);
    else if (form == LUO_FORM_COUNTS && dealt) add_experts(m, 0, 1);
    else if (form == LUO_FORM_ROWS && dealt) add_experts(m, 1, 0);
    else if (dealt) add_experts(m, LUO_DUP, 0);
    else if (form == LUO_FORM_EXPERTS) add_columns(m, 1);
    else activations(m, false);
}

static void fill(member *m, luo_form form)
{
    switch (form) {
    case LUO_FORM_X: activations(m, m->sequence_parallel); return;
    case LUO_FORM_WHOLE: activations(m, false); return;
    case LUO_FORM_CUT:
    case LUO_FORM_ENDS:
        add(m, LUO_DUP, m->c, NULL);
        add_heads(m); /* dimension 0 of a weight */
        ((luo_ent *)m->out->ent)[1].key = 0;
        return;
    case LUO_FORM_HEADS: cut_heads(m, true); return;
    case LUO_FORM_KEYS: keys(m); return;
    case LUO_FORM_COPIES: copies(m); return;
    case LUO_FORM_HOME: home(m); return;
    case LUO_FORM_ROUTED:
    case LUO_FORM_COUNTS:
    case LUO_FORM_ROWS:
    case LUO_FORM_ROWS_HOME:
    case LUO_FORM_EXPERTS: experts(m, form); return;
    case LUO_FORM_NONE:
    case LUO_FORM_DUP:
    case LUO_FORM_STATE:
    case LUO_FORM_SHARD:
    case LUO_FORM_SCALAR:
    case LUO_FORM_LOAD:
    case LUO_FORM_ALL:
        add(m, LUO_DUP, m->c * m->t, NULL);
        return;
    case LUO_FORM_RING:
    case LUO_FORMS:
        break;
    }
    copies(m);
    const int32_t hops = (int32_t)form - LUO_FORM_RING;
    turn(m, hops < m->parts ? hops : m->parts - 1);
}

int32_t luo_plan_form_top(luo_form form)
{
    const bool tokens = form == LUO_FORM_X || form == LUO_FORM_WHOLE || form == LUO_FORM_ROUTED ||
                        form == LUO_FORM_COUNTS || form == LUO_FORM_LOAD || form >= LUO_FORM_HEADS;
    if (form == LUO_FORM_ROWS || form == LUO_FORM_ROWS_HOME) return 1;
    return tokens ? 0 : LUO_DUP;
}

luo_status luo_plan_group(luo_arena *arena, const luo_graph *graph, const luo_plan *plan, int32_t i,
                          const luo_stage *stage, luo_form form, luo_grp *out, luo_err *err)
{
    luo_ent *ent = LUO_NEW_N(arena, luo_ent, 4);
    if (!ent) return luo_err_nomem(err);
    *out = (luo_grp){stage->ndev, stage->dev, 0, ent};
    member m = {.arena = arena,
                .g = graph,
                .s = stage,
                .x = luo_plan_context(plan, graph->causal, i),
                .c = stage->context_parallel,
                .t = luo_stage_tp(stage),
                .experts = luo_plan_experts_among(plan, stage->ndev),
                .sequence_parallel = plan->sequence_parallel,
                .out = out};
    m.inner = m.x.inner;
    m.parts = luo_context_parts(&m.x);
    m.keys = find_keys(&m);
    fill(&m, form);
    return m.failed ? luo_err_nomem(err) : LUO_OK;
}
