/* prop_switch.c: fused switches of random tensors (docs/architecture/tests.md) against a twin that
 * looks at every cell, and T* against Hall's condition over all sets of senders. */
#include <stdarg.h>

#include "core/hspmd/bsr/switch.h"
#include "tests/check_main.h"
#include "tests/prop/gen_reshard.h"
#include "tests/prop/prop.h"

enum { CASES = 6000, TENSORS = 5, CELLS = 200, FEW = 10, WANTS_MAX = 512 };

typedef struct one_switch {
    luo_switch_tensor t[TENSORS];
    int32_t n, dead[LUO_GEN_DEAD];
    luo_node_racks where;
    luo_switch_opts opts; /* points into this struct */
    bool cuts_exactly;    /* rank 1, one byte a cell: `exact` can cut anywhere */
} one_switch;

typedef struct wants { /* bytes that any of `owners` may send over one class */
    uint32_t owners;
    int32_t link_class;
    int64_t bytes;
} wants;

typedef struct twin {
    const one_switch *x;
    uint32_t owners[TENSORS][CELLS]; /* living devices that hold the cell */
    uint32_t from[TENSORS][CELLS], to[TENSORS][CELLS];
    bool stays[TENSORS][LUO_GEN_DEVICES];
    wants wants[WANTS_MAX];
    int32_t nwants;
    int64_t lost, rebinds, stay_bytes, local_bytes;
    char why[256];
} twin;

static twin tw;
static int64_t met_lost, met_rebind, met_class[4], met_gap, met_bound, met_exact,
    met_minrank, met_unsaid;

static void say(const char *fmt, ...) LUO_PRINTF(1, 2);
static void say(const char *fmt, ...)
{
    va_list ap;
    if (tw.why[0]) return;
    va_start(ap, fmt);
    vsnprintf(tw.why, sizeof tw.why, fmt, ap);
    va_end(ap);
}

static bool is_dead(const one_switch *x, int32_t dev)
{
    for (int32_t i = 0; i < x->opts.planner.ndead; i++)
        if (x->dead[i] == dev) return true;
    return false;
}

static void gen(luo_arena *arena, luo_rng *r, one_switch *x)
{
    luo_pool pool = luo_gen_pool(r);
    x->n = luo_gen_int(r, 1, TENSORS);
    x->cuts_exactly = true;
    for (int32_t i = 0; i < x->n; i++) {
        luo_switch_tensor *t = &x->t[i];
        *t = (luo_switch_tensor){.name = "t", .shape = luo_gen_shape(r), .bucket = i % 3,
                                 .elem_bytes = luo_gen_chance(r, 0.5) ? 1 : luo_gen_int(r, 1, 12)};
        if (t->shape.rank == 3) t->shape.rank = 1;
        x->cuts_exactly = x->cuts_exactly && t->shape.rank == 1 && t->elem_bytes == 1;
        luo_draft a = luo_gen_draft(arena, r, &pool, t->shape.rank, LUO_DUP), b = a;
        if (luo_gen_chance(r, 0.3)) luo_gen_replace_half(r, &pool, &b);
        else if (luo_gen_chance(r, 0.6))
            b = luo_gen_draft(arena, r, &pool, t->shape.rank, LUO_DUP);
        t->from = luo_gen_seal(arena, &a);
        t->to = luo_gen_seal(arena, &b);
    }
    x->opts = (luo_switch_opts){.planner = luo_gen_planner(r, &x->where)};
    x->opts.planner.dead = x->dead;
    x->opts.reset = (luo_reset)luo_gen_int(r, LUO_RESET_FUSED, LUO_RESET_TENSOR);
}

/* Up to two devices that no tensor ends on. */
static void gen_dead(luo_rng *r, one_switch *x)
{
    int32_t n = 0, *dead = x->dead;
    for (int32_t dev = 0; dev < LUO_GEN_DEVICES && n < LUO_GEN_DEAD; dev++) {
        bool used = false;
        for (int32_t i = 0; i < x->n; i++)
            for (int32_t u = 0; u < x->t[i].to->u; u++)
                for (int32_t k = 0; k < x->t[i].to->grp[u].ndev; k++)
                    used = used || x->t[i].to->grp[u].dev[k] == dev;
        if (!used && luo_gen_chance(r, 0.2)) dead[n++] = dev;
    }
    x->opts.planner.ndead = n;
}

static bool in_list(const luo_region *r, int32_t d, int64_t v)
{
    for (int32_t k = 0; k < r->dim[d].n; k++)
        if (r->dim[d].at[k].lo <= v && v < r->dim[d].at[k].hi) return true;
    return false;
}

/* Is cell c (row-major) of the tensor in r? */
static bool has_cell(const luo_switch_tensor *t, const luo_region *r, int32_t c)
{
    for (int32_t d = t->shape.rank - 1; d >= 0; d--) {
        if (!in_list(r, d, c % t->shape.dim[d])) return false;
        c /= (int32_t)t->shape.dim[d];
    }
    return !r->empty;
}

static int32_t cells_of(const luo_switch_tensor *t)
{
    int64_t n = 1;
    for (int32_t d = 0; d < t->shape.rank; d++) n *= t->shape.dim[d];
    return (int32_t)n;
}

static void add_wants(uint32_t owners, int32_t link_class, int64_t bytes)
{
    for (int32_t k = 0; k < tw.nwants; k++)
        if (tw.wants[k].owners == owners && tw.wants[k].link_class == link_class) {
            tw.wants[k].bytes += bytes;
            return;
        }
    if (tw.nwants == WANTS_MAX) {
        say("more kinds of wants than the twin has room for");
        return;
    }
    tw.wants[tw.nwants++] = (wants){owners, link_class, bytes};
}

/* The owners nearest to dev. */
static uint32_t nearest(const one_switch *x, uint32_t owners, int32_t dev, int32_t *link_class)
{
    uint32_t best = 0;
    *link_class = LUO_LINK_CLASSES;
    for (int32_t o = 0; o < LUO_GEN_DEVICES; o++) {
        const int32_t c = luo_node_racks_link_class(&x->where, o, dev);
        if (!(owners >> o & 1) || c > *link_class) continue;
        best = c < *link_class ? 1u << o : best | 1u << o;
        *link_class = c;
    }
    return best;
}

static void look_at_tensor(luo_arena *arena, const one_switch *x, int32_t i)
{
    const luo_switch_tensor *t = &x->t[i];
    luo_holdings src, dst;
    const luo_holding *on[LUO_GEN_DEVICES] = {NULL};
    luo_holdings_make(arena, t->from, &t->shape, &src, NULL);
    luo_holdings_make(arena, t->to, &t->shape, &dst, NULL);
    for (int32_t k = 0; k < src.n; k++) on[src.at[k].dev] = &src.at[k];
    for (int32_t k = 0; k < dst.n; k++) {
        const int32_t dev = dst.at[k].dev;
        tw.stays[i][dev] = on[dev] && luo_region_equal(&on[dev]->region, &dst.at[k].region);
        tw.rebinds += tw.stays[i][dev];
    }
    for (int32_t c = 0; c < cells_of(t); c++) {
        for (int32_t k = 0; k < src.n; k++)
            if (has_cell(t, &src.at[k].region, c)) tw.from[i][c] |= 1u << src.at[k].dev;
        for (int32_t k = 0; k < dst.n; k++)
            if (has_cell(t, &dst.at[k].region, c)) tw.to[i][c] |= 1u << dst.at[k].dev;
        for (int32_t o = 0; o < LUO_GEN_DEVICES; o++)
            if (tw.from[i][c] >> o & 1 && !is_dead(x, o)) tw.owners[i][c] |= 1u << o;
        for (int32_t dev = 0; dev < LUO_GEN_DEVICES; dev++) {
            int32_t link_class;
            if (!(tw.to[i][c] >> dev & 1)) continue;
            if (tw.stays[i][dev]) tw.stay_bytes += t->elem_bytes;
            if (tw.owners[i][c] >> dev & 1) tw.local_bytes += t->elem_bytes;
            else if (!tw.owners[i][c]) tw.lost++;
            else {
                const uint32_t best = nearest(x, tw.owners[i][c], dev, &link_class);
                add_wants(best, link_class, t->elem_bytes);
            }
        }
    }
}

static int64_t sent_by(const luo_switch *sw, int32_t dev, int32_t link_class)
{
    int64_t n = 0;
    for (int32_t i = 0; i < sw->npair; i++)
        if (sw->pair[i].src == dev && sw->pair[i].link_class == link_class) n += sw->pair[i].bytes;
    return n;
}

static int64_t largest(const luo_switch *sw, int32_t link_class)
{
    int64_t most = 0;
    for (int32_t d = 0; d < LUO_GEN_DEVICES; d++)
        if (sent_by(sw, d, link_class) > most) most = sent_by(sw, d, link_class);
    return most;
}

/* One move: who may make it, and each cell once. */
static void check_move(const luo_switch_move *m, uint32_t got[][CELLS])
{
    const one_switch *x = tw.x;
    const luo_switch_tensor *t = &x->t[m->tensor];
    const luo_sender s = x->opts.planner.sender;
    for (int32_t c = 0; c < cells_of(t); c++) {
        if (!has_cell(t, &m->region, c)) continue;
        const uint32_t owners = tw.owners[m->tensor][c];
        if (!(tw.to[m->tensor][c] >> m->dst & 1)) say("%d does not want cell %d", m->dst, c);
        if (got[m->tensor][c] >> m->dst & 1) say("%d gets cell %d twice", m->dst, c);
        got[m->tensor][c] |= 1u << m->dst;
        if (m->kind == LUO_MOVE_LOAD) {
            if (owners) say("cell %d is loaded in spite of owners", c);
            continue;
        }
        if (!(owners >> m->src & 1)) say("%d does not own cell %d or is dead", m->src, c);
        if ((owners >> m->dst & 1) != (m->kind == LUO_MOVE_COPY)) say("owners copy, others do not");
        if (m->kind == LUO_MOVE_COPY) continue;
        int32_t link_class;
        const uint32_t best = nearest(x, owners, m->dst, &link_class);
        if (s == LUO_SENDER_MINRANK && owners & ((1u << m->src) - 1))
            say("%d is not the smallest owner", m->src);
        if ((s == LUO_SENDER_GREEDY || s == LUO_SENDER_RR_NODE || s == LUO_SENDER_EXACT) &&
            !(best >> m->src & 1))
            say("%d is not of the best class to %d", m->src, m->dst);
    }
}

static void check_moves(const luo_switch *sw)
{
    static uint32_t got[TENSORS][CELLS];
    int64_t lost = 0, sends = 0, bytes[LUO_LINK_CLASSES] = {0};
    memset(got, 0, sizeof got);
    for (int64_t k = 0; k < sw->nmove; k++) {
        const luo_switch_move *m = &sw->move[k];
        check_move(m, got);
        if (k && m->tensor < m[-1].tensor) say("moves are not by tensor");
        if (tw.stays[m->tensor][m->dst]) say("%d holds it already", m->dst);
        if (m->bytes != luo_region_volume(&m->region) * tw.x->t[m->tensor].elem_bytes)
            say("bytes of a move");
        if (m->kind != LUO_MOVE_SEND) continue;
        sends++;
        bytes[luo_node_racks_link_class(&tw.x->where, m->src, m->dst)] += m->bytes;
    }
    for (int32_t k = 0; k < sw->nlost; k++) {
        const luo_lost *l = &sw->lost[k];
        lost += luo_region_volume(&l->region);
        for (int32_t c = 0; c < cells_of(&tw.x->t[l->tensor]); c++)
            if (has_cell(&tw.x->t[l->tensor], &l->region, c)) {
                if (tw.owners[l->tensor][c]) say("cell %d is lost in spite of owners", c);
                if (!tw.x->opts.load_lost) got[l->tensor][c] |= 1u << l->dev;
            }
    }
    for (int32_t i = 0; i < tw.x->n; i++)
        for (int32_t c = 0; c < cells_of(&tw.x->t[i]); c++)
            for (int32_t d = 0; d < LUO_GEN_DEVICES; d++)
                if (tw.to[i][c] >> d & 1 && !tw.stays[i][d] && !(got[i][c] >> d & 1))
                    say("%d misses cell %d of tensor %d", d, c, i);
    if (lost != tw.lost) say("%lld cells are lost, not %lld", (long long)lost, (long long)tw.lost);
    if (sends != sw->nsend) say("number of sends");
    if (memcmp(bytes, sw->class_bytes, sizeof bytes) != 0) say("bytes per class");
}

static void check_sums(const luo_switch *sw)
{
    int64_t bytes[LUO_LINK_CLASSES] = {0};
    for (int32_t i = 0; i < sw->npair; i++) {
        const luo_pair *p = &sw->pair[i];
        bytes[p->link_class] += p->bytes;
        if (i && (p->src < p[-1].src || (p->src == p[-1].src && p->dst <= p[-1].dst)))
            say("pairs are not in order");
    }
    if (memcmp(bytes, sw->class_bytes, sizeof bytes) != 0) say("pairs do not add up");
    if (sw->rebinds != tw.rebinds) say("%lld rebinds", (long long)sw->rebinds);
    if (sw->rebound_bytes != tw.stay_bytes) say("%lld bytes rebound", (long long)sw->rebound_bytes);
    if (sw->local_bytes != tw.local_bytes) say("%lld local bytes", (long long)sw->local_bytes);
}

/* T* of a class: max over sets of senders of (bytes only they can send) / (their number). */
static int64_t hall(int32_t link_class)
{
    int32_t dev[LUO_GEN_DEVICES], n = 0;
    uint32_t all = 0;
    int64_t most = 0;
    for (int32_t k = 0; k < tw.nwants; k++)
        if (tw.wants[k].link_class == link_class) all |= tw.wants[k].owners;
    for (int32_t d = 0; d < LUO_GEN_DEVICES; d++)
        if (all >> d & 1) dev[n++] = d;
    if (n > FEW) return -1;
    for (uint32_t set = 1; set < 1u << n; set++) {
        uint32_t mask = 0;
        int64_t bytes = 0, size = 0;
        for (int32_t k = 0; k < n; k++)
            if (set >> k & 1) {
                mask |= 1u << dev[k];
                size++;
            }
        for (int32_t k = 0; k < tw.nwants; k++)
            if (tw.wants[k].link_class == link_class && !(tw.wants[k].owners & ~mask))
                bytes += tw.wants[k].bytes;
        if ((bytes + size - 1) / size > most) most = (bytes + size - 1) / size;
    }
    return most;
}

/* No planner named: greedy's plan or, where that sends less, that of exact. */
static void compare_unsaid(luo_arena *arena, const one_switch *x, luo_switch_opts o,
                           const luo_switch *greedy, const luo_switch *exact)
{
    luo_switch unsaid;
    bool less = false, more = false;
    o.planner_unsaid = true;
    luo_switch_plan(arena, x->t, x->n, &o, &unsaid, NULL);
    for (int32_t c = 0; c < 4; c++) {
        less = less || largest(exact, c) < largest(greedy, c);
        more = more || largest(exact, c) > largest(greedy, c);
    }
    for (int32_t c = 0; c < 4; c++) {
        const luo_switch *want = less && !more ? exact : greedy;
        if (largest(&unsaid, c) != largest(want, c)) say("unsaid is not the better of two");
    }
    met_unsaid += less && !more;
}

/* The same switch by greedy, minrank and exact: what each rule promises of the others. */
static void compare_rules(luo_arena *arena, const one_switch *x)
{
    luo_switch greedy, minrank, exact;
    luo_switch_opts o = x->opts;
    int64_t bound[LUO_LINK_CLASSES];
    o.reset = LUO_RESET_FUSED;
    o.load_lost = true;
    o.planner.sender = LUO_SENDER_GREEDY;
    luo_switch_plan(arena, x->t, x->n, &o, &greedy, NULL);
    o.planner.sender = LUO_SENDER_MINRANK;
    luo_switch_plan(arena, x->t, x->n, &o, &minrank, NULL);
    o.planner.sender = LUO_SENDER_EXACT;
    luo_switch_plan(arena, x->t, x->n, &o, &exact, NULL);
    luo_switch_bound(arena, x->t, x->n, &o, bound, NULL);
    met_minrank += greedy.class_bytes[3] < minrank.class_bytes[3];
    if (greedy.class_bytes[3] > minrank.class_bytes[3]) say("minrank sends less far than greedy");
    for (int32_t c = 1; c < 4; c++) {
        const int64_t g = largest(&greedy, c), e = largest(&exact, c), h = hall(c);
        met_class[c] += g > 0;
        met_gap += g > bound[c];
        met_bound += h >= 0;
        met_exact += x->cuts_exactly && bound[c] > 0;
        if (greedy.class_bytes[c] != exact.class_bytes[c]) say("exact uses other classes");
        if (g < bound[c]) say("greedy %lld is below T* %lld", (long long)g, (long long)bound[c]);
        if (h >= 0 && h != bound[c]) say("T* %lld, not %lld", (long long)bound[c], (long long)h);
        if (x->cuts_exactly && e != bound[c])
            say("exact %lld misses T* %lld", (long long)e, (long long)bound[c]);
    }
    compare_unsaid(arena, x, o, &greedy, &exact);
}

static void print_case(const one_switch *x, uint64_t seed)
{
    luo_str s = {0};
    for (int32_t i = 0; i < x->n; i++) {
        luo_reshard one = {.shape = x->t[i].shape, .src = x->t[i].from, .dst = x->t[i].to,
                           .where = x->where, .opts.planner = x->opts.planner};
        memcpy(one.dead, x->dead, sizeof one.dead);
        luo_str_addc(&s, '\n');
        luo_reshard_print(&s, &one);
    }
    ck_abort_msg("LUO_SEED=%llu LUO_CASES=1: %s%s", (unsigned long long)seed, tw.why,
                 luo_str_get(&s));
}

static void one_case(luo_arena *arena, uint64_t seed)
{
    luo_rng rng = luo_rng_seed(seed);
    one_switch x = {0};
    luo_switch sw;
    gen(arena, &rng, &x);
    gen_dead(&rng, &x);
    x.opts.load_lost = luo_gen_chance(&rng, 0.5);
    memset(&tw, 0, sizeof tw);
    tw.x = &x;
    for (int32_t i = 0; i < x.n; i++) look_at_tensor(arena, &x, i);
    const luo_status st = luo_switch_plan(arena, x.t, x.n, &x.opts, &sw, NULL);
    if (st != (tw.lost && !x.opts.load_lost ? LUO_ELOST : LUO_OK)) say("status %d", (int)st);
    check_moves(&sw);
    check_sums(&sw);
    compare_rules(arena, &x);
    met_lost += tw.lost > 0;
    met_rebind += tw.rebinds > 0;
    if (tw.why[0]) print_case(&x, seed);
}

START_TEST(fused)
{
    luo_arena *arena = luo_arena_new(1 << 16);
    const size_t mark = luo_arena_mark(arena);
    const bool whole = luo_prop_env("LUO_CASES", CASES) >= CASES;
    LUO_PROP_FOR(seed, CASES)
    {
        one_case(arena, seed);
        luo_arena_reset(arena, mark);
    }
    luo_arena_free(arena);
    const struct {
        const char *name;
        int64_t n;
    } met[] = {{"lost cells", met_lost}, {"rebinds", met_rebind}, {"class 1", met_class[1]},
               {"class 2", met_class[2]}, {"class 3", met_class[3]}, {"greedy above T*", met_gap},
               {"T* by Hall", met_bound}, {"exact at T*", met_exact},
               {"minrank sends farther", met_minrank}, {"unsaid is exact", met_unsaid}};
    for (int i = 0; i < LUO_ROWS(met); i++) {
        printf("%-22s %lld\n", met[i].name, (long long)met[i].n);
        ck_assert_msg(!whole || met[i].n > 0, "no case of `%s`", met[i].name);
    }
}
END_TEST
LUO_MAIN("prop.switch", fused, 1)
