/* spec_experts.c: what the devices of experts exchange: rows on their way to the experts and back,
 * and how many they are. Every device sends each other one its part, so it is one collective (by
 * node two, through leaders one between messages); the algebra knows regions only, and would make a
 * message of every pair. The regions are those of rows
 * dealt evenly: how many there are is known when the step runs. */
#include <string.h>

#include "core/graph/specialize/spec_internal.h"
#include "core/hspmd/bounds.h"
#include "core/hspmd/moves.h"

typedef struct trade { /* between tokens and experts */
    spec *s;
    const spec_move *m;
    const luo_ann *home, *there;
    int32_t dim;       /* of the experts */
    int32_t nsteps;    /* 2: some travel inside nodes and between them; 3: through leaders */
    luo_holdings rows; /* of home */
    luo_moves moves;
} trade;

typedef struct spec_block { /* devices that have all experts together, in order */
    const int32_t *dev;
    int32_t n, each; /* each: in every node; n: rows travel in one step */
    const uint32_t *share;
    bool there_first; /* rows begin at the experts */
} spec_block;

/* ---- loads ---- */

/* Rows of every one of n devices that have neighbouring experts, by shares or alike, for the tokens
 * of all of them. */
static luo_status rows_by_device(const spec *s, int32_t layer, int32_t n, const uint32_t *share,
                                 int64_t tokens, int64_t *rows)
{
    const int32_t experts = (int32_t)s->g->size['e' - 'a'];
    const size_t mark = luo_arena_mark(s->scratch);
    int64_t *counts = LUO_NEW_N(s->scratch, int64_t, experts);
    int64_t *bounds = LUO_NEW_N(s->scratch, int64_t, (int64_t)n + 1);
    if (!counts || !bounds) return luo_err_nomem(s->err);
    luo_bounds_cut(experts, n, share, bounds);
    const luo_status st =
        luo_load_layer(s->scratch, s->in->load, layer, &s->g->gate, tokens, n, counts, s->err);
    for (int32_t r = 0; r < n && st == LUO_OK; r++) {
        rows[r] = 0;
        for (int64_t e = bounds[r]; e < bounds[r + 1]; e++) rows[r] += counts[e];
    }
    luo_arena_reset(s->scratch, mark);
    return st;
}

/* Devices of the stage that a device is in. */
static int32_t devices_beside(const spec *s, int32_t one)
{
    int32_t same = 0;
    for (int32_t i = 0; i < s->ndev; i++)
        same += s->pipe_of[s->dev[i]] == s->pipe_of[one] &&
                s->stage_of[s->dev[i]] == s->stage_of[one];
    return same;
}

/* Do devices of any node stand in one run of `run` neighbours each, which begin at multiples? */
static luo_status lie_by_node(const spec *s, const int32_t *dev, int32_t n, int32_t run, bool *out)
{
    const int32_t *node = s->in->node_of;
    const size_t mark = luo_arena_mark(s->scratch);
    int32_t most = 0;
    for (int32_t i = 0; i < n; i++) most = node[dev[i]] > most ? node[dev[i]] : most;
    bool *seen = LUO_NEW_N(s->scratch, bool, (int64_t)most + 1);
    if (!seen) return luo_err_nomem(s->err);
    *out = n % run == 0;
    for (int32_t i = 0; i < n && *out; i++) {
        const bool begins = i % run == 0;
        *out = begins ? !seen[node[dev[i]]] : node[dev[i]] == node[dev[i - 1]];
        seen[node[dev[i]]] = true;
    }
    luo_arena_reset(s->scratch, mark);
    return LUO_OK;
}

/* Of n devices: so many neighbours are in one node, where all nodes have equally many; n: rows
 * travel in one step, since there is one node, or one device in each. */
static luo_status devices_of_node(const spec *s, const char *name, const int32_t *dev, int32_t n,
                                  int32_t *each)
{
    const int32_t *node = s->in->node_of;
    int32_t run = 1;
    bool good = false;
    *each = n;
    if (!node) return LUO_OK;
    while (run < n && node[dev[run]] == node[dev[0]]) run++;
    LUO_TRY(lie_by_node(s, dev, n, run, &good));
    if (!good)
        return luo_err_set(s->err, LUO_EINPUT,
                           "reshard `%s`: devices %d to %d that have all experts together are not "
                           "equally many neighbours in every node; moe_exchange: flat is needed.",
                           name, (int)dev[0], (int)dev[n - 1]);
    if (run > 1) *each = run;
    return LUO_OK;
}

/* Those that have all experts together with a device. */
static luo_status find_block(const spec *s, const spec_move *move, int32_t device, spec_block *out)
{
    const int32_t d = move->shape.rank == 2 ? 1 : 0, ends[2] = {move->src, move->dst};
    for (int k = 0; k < 2; k++) {
        const luo_ann *ann = luo_annset_get(s->g->set, ends[k]);
        for (int32_t u = 0; u < ann->u; u++)
            for (int32_t i = 0; i < ann->grp[u].ndev; i++) {
                const int32_t n = luo_grp_count(&ann->grp[u], d);
                if (n < 2 || ann->grp[u].dev[i] != device) continue;
                *out = (spec_block){.dev = ann->grp[u].dev + i - i % n,
                                    .n = n,
                                    .share = luo_grp_share(&ann->grp[u], d),
                                    .there_first = k == 0};
                return devices_of_node(s, move->name, out->dev, n, &out->each);
            }
    }
    return luo_err_set(s->err, LUO_EBUG, "devices of `%s` have no experts; report it.", move->name);
}

/* Rows for the experts of every device of a block. Owner: scratch. */
static luo_status rows_of_block(const spec *s, const spec_move *move, const spec_block *block,
                                int64_t **rows)
{
    const int64_t tokens = move->tokens * block->n / devices_beside(s, block->dev[0]);
    *rows = LUO_NEW_N(s->scratch, int64_t, block->n);
    if (!*rows) return luo_err_nomem(s->err);
    return rows_by_device(s, move->layer, block->n, block->share, tokens, *rows);
}

/* Rows that each of a move's devices gets in it, from all of them. Inside a node it gets those of
 * its place in all nodes, from the tokens of its node alone; a leader gets those of its node. */
static luo_status rows_by_member(const spec *s, const spec_move *m, const luo_move *move,
                                 int64_t *rows)
{
    spec_block block;
    int64_t *all;
    LUO_TRY(find_block(s, m, move->dev[0], &block));
    LUO_TRY(rows_of_block(s, m, &block, &all));
    const bool led = luo_spec_is_led(s, move);
    const bool inside = block.each < block.n && !led &&
                        s->in->node_of[move->dev[0]] == s->in->node_of[move->dev[1]];
    for (int32_t i = 0; i < move->ndev; i++) {
        rows[i] = 0;
        for (int32_t r = 0; r < block.n; r++) {
            if (inside)
                rows[i] += r % block.each == i ? all[r] : 0;
            else if (led)
                rows[i] += r / block.each == i ? all[r] : 0;
            else if (block.dev[r] == move->dev[i])
                rows[i] = all[r];
        }
        if (inside) rows[i] /= block.n / block.each;
    }
    return LUO_OK;
}

/* ---- through leaders ---- */

bool luo_spec_is_led(const spec *s, const luo_move *move)
{
    return s->in->exchange == LUO_ALLTOALL_LEADER && move->kind == LUO_MOVE_A2A &&
           move->step == LUO_LEADER_EXCHANGE;
}

/* Elements that the device at place r of a block has before the exchange, or behind it. */
static luo_status held_at(const spec *s, const spec_move *move, const spec_block *block, int32_t r,
                          bool before, int64_t *out)
{
    int64_t *rows, all = 0;
    if (move->layer < 0 || move->shape.rank == 2) { /* counts are as many as ever */
        const spec_dims *dims = luo_spec_find(s, before ? move->from : move->to, block->dev[r]);
        *out = dims ? dims->volume : 0;
        return LUO_OK;
    }
    const size_t mark = luo_arena_mark(s->scratch);
    LUO_TRY(rows_of_block(s, move, block, &rows));
    for (int32_t i = 0; i < block->n; i++) all += rows[i];
    *out = (before == block->there_first ? rows[r] : (all + block->n - 1) / block->n) *
           move->shape.dim[2];
    luo_arena_reset(s->scratch, mark);
    return LUO_OK;
}

/* .. and those of its node together have. */
static luo_status held_by_node(const spec *s, const spec_move *move, const spec_block *block,
                               int32_t r, bool before, int64_t *out)
{
    const int32_t first = r - r % block->each;
    *out = 0;
    for (int32_t i = first; i < first + block->each; i++) {
        int64_t one;
        LUO_TRY(held_at(s, move, block, i, before, &one));
        *out += one;
    }
    return LUO_OK;
}

static int32_t place_in(const spec_block *block, int32_t device)
{
    int32_t r = 0;
    while (block->dev[r] != device) r++;
    return r;
}

luo_status luo_spec_trade_sends(const spec *s, const spec_move *m, const luo_move *move,
                                int64_t *elements)
{
    const bool gathers = move->step == LUO_LEADER_GATHER;
    spec_block block;
    LUO_TRY(find_block(s, m, move->dev[0], &block));
    return held_at(s, m, &block, place_in(&block, move->dev[gathers ? 0 : 1]), gathers, elements);
}

luo_status luo_spec_trade_between(const spec *s, const spec_move *move, int32_t leader,
                                  int32_t step, int64_t *elements)
{
    spec_block block;
    LUO_TRY(find_block(s, move, leader, &block));
    return held_by_node(s, move, &block, place_in(&block, leader), step == LUO_LEADER_GATHER,
                        elements);
}

/* Of a leader, as many as if all nodes had equally many. */
static luo_status bytes_of_leader(const spec *s, const spec_move *m, const luo_move *move,
                                  int64_t *bytes)
{
    spec_block block;
    int64_t all = 0;
    LUO_TRY(find_block(s, m, move->dev[0], &block));
    for (int32_t r = 0; r < block.n; r += block.each) {
        int64_t node;
        LUO_TRY(held_by_node(s, m, &block, r, !block.there_first, &node));
        all += node;
    }
    *bytes = (all + move->ndev - 1) / move->ndev * m->elem_bytes;
    return LUO_OK;
}

/* ---- bytes of a collective ---- */

/* Equal experts: the device that has most of the rows, with its tokens or with its experts. */
static void largest_part(const spec *s, const spec_move *m, const luo_move *move, int64_t *bytes)
{
    const spec_table *end[2] = {m->from, m->to};
    for (int k = 0; k < 2; k++)
        for (int32_t i = 0; i < move->ndev; i++) {
            const spec_dims *dims = luo_spec_find(s, end[k], move->dev[i]);
            if (dims && dims->volume * m->elem_bytes > *bytes)
                *bytes = dims->volume * m->elem_bytes;
        }
}

/* The busiest device gets its rows from all, itself included; or another one sends the most. */
luo_status luo_spec_trade_bytes(spec *s, const spec_move *m, const luo_move *move, int64_t *bytes)
{
    const int32_t n = move->ndev;
    int64_t most = 0, all = 0;
    if (luo_spec_is_led(s, move)) LUO_TRY(bytes_of_leader(s, m, move, bytes));
    if (m->shape.rank == 2) return LUO_OK; /* counts are as many as ever */
    if (m->layer < 0) {
        if (s->g->matched) largest_part(s, m, move, bytes); /* cut by shares, others alike */
        return LUO_OK;
    }
    int64_t *rows = LUO_NEW_N(s->scratch, int64_t, n);
    if (!rows) return luo_err_nomem(s->err);
    LUO_TRY(rows_by_member(s, m, move, rows));
    for (int32_t r = 0; r < n; r++) all += rows[r];
    for (int32_t r = 0; r < n; r++) {
        const int64_t out = (all - rows[r] + n - 2) / (n - 1);
        if (rows[r] > most) most = rows[r];
        if (out > most) most = out;
    }
    *bytes = most * m->shape.dim[2] * m->elem_bytes;
    return LUO_OK;
}

/* before: so many experts have been added. */
static void add_expert(spec_load *load, int64_t rows, int64_t before)
{
    load->even &= rows * before == load->rows;
    load->rows += rows;
    load->experts += rows > 0;
    for (int t = 0; t < LUO_GROUPED_TILES; t++)
        load->tiles[t] += luo_load_tiles(&rows, 1, 1, LUO_GROUPED_TILE >> t, 1);
}

/* Rows of equal experts at place r, of that many tokens. */
static double even_rows(const luo_gate *gate, int32_t n, const uint32_t *share, int64_t experts,
                        int64_t tokens)
{
    const double all = luo_gate_kept(gate->capacity_factor) * (double)tokens * gate->k;
    return share ? all * (double)experts / gate->experts : all / n;
}

/* Experts of place r out of n, by shares or alike, of that many tokens. */
static luo_status load_place(const spec *s, int32_t layer, int32_t r, int32_t n,
                             const uint32_t *share, int64_t tokens, spec_load *out)
{
    const luo_gate *gate = &s->g->gate;
    const size_t mark = luo_arena_mark(s->scratch);
    int64_t *counts = LUO_NEW_N(s->scratch, int64_t, gate->experts);
    int64_t *bounds = LUO_NEW_N(s->scratch, int64_t, (int64_t)n + 1);
    if (!counts || !bounds) return luo_err_nomem(s->err);
    luo_bounds_cut(gate->experts, n, share, bounds);
    LUO_TRY(luo_load_layer(s->scratch, s->in->load, layer, gate, tokens, n, counts, s->err));
    *out = (spec_load){.factor = 1, .even = true};
    for (int64_t e = bounds[r]; e < bounds[r + 1]; e++)
        add_expert(out, counts[e], e - bounds[r]);
    const double even = even_rows(gate, n, share, bounds[r + 1] - bounds[r], tokens);
    if (n > 1 && even > 0) out->factor = (double)out->rows / even;
    luo_arena_reset(s->scratch, mark);
    return LUO_OK;
}

/* Where experts are cut, all tokens whose rows are here. */
static int64_t tokens_here(const spec *s, int32_t x, int32_t length, int32_t dev)
{
    const spec_dims *dims = spec_local(s, x, length, dev);
    const double kept = luo_gate_kept(s->g->gate.capacity_factor);
    return dims ? (int64_t)((double)(dims->dim[0] * dims->dim[1]) / (kept * s->g->gate.k)) : 0;
}

luo_status luo_spec_load_here(const spec *s, int32_t layer, int32_t x, int32_t length, int32_t dev,
                              spec_load *out)
{
    const luo_ann *ann = luo_annset_get(s->g->set, s->g->tensor[x].ann);
    const int64_t tokens = s->in->lengths[length].tokens;
    for (int32_t u = 0; u < ann->u; u++)
        for (int32_t i = 0; i < ann->grp[u].ndev; i++) {
            const luo_grp *grp = &ann->grp[u];
            const int32_t n = luo_grp_count(grp, 0);
            if (grp->dev[i] == dev && n > 1)
                return load_place(s, layer, luo_grp_coord(grp, i, 0), n, luo_grp_share(grp, 0),
                                  tokens * n / devices_beside(s, dev), out);
        }
    return load_place(s, layer, 0, 1, NULL, tokens_here(s, x, length, dev), out);
}

luo_status luo_spec_load_places(spec *s, int32_t **out)
{
    int32_t *place = *out = LUO_NEW_N(s->scratch, int32_t, (int64_t)s->max_device + 1);
    if (!place) return luo_err_nomem(s->err);
    for (int32_t d = 0; d <= s->max_device; d++) place[d] = -1;
    for (int32_t x = 0; x < s->g->ntensors; x++) {
        if (strncmp(s->g->tensor[x].letters, "er", 2) != 0) continue;
        const luo_ann *ann = luo_annset_get(s->g->set, s->g->tensor[x].ann);
        for (int32_t u = 0; u < ann->u; u++)
            for (int32_t i = 0; i < ann->grp[u].ndev && luo_grp_count(&ann->grp[u], 0) > 1; i++)
                place[ann->grp[u].dev[i]] = luo_grp_coord(&ann->grp[u], i, 0);
    }
    return LUO_OK;
}

/* ---- the exchange ---- */

bool luo_spec_is_trade(const luo_op *op)
{
    return op->kind == LUO_OP_RESHARD && op->nin > 1;
}

/* Is dimension d cut inside a member? */
static bool cuts(const luo_ann *ann, int32_t d)
{
    for (int32_t u = 0; u < ann->u; u++)
        if (luo_grp_count(&ann->grp[u], d) > 1) return true;
    return false;
}

static const luo_region *region_of(const trade *t, int32_t dev)
{
    for (int32_t i = 0; i < t->rows.n; i++)
        if (t->rows.at[i].dev == dev) return &t->rows.at[i].region;
    return NULL;
}

static luo_status wrong(const trade *t, int32_t u)
{
    return luo_err_set(t->s->err, LUO_EDEDUCE,
                       "reshard `%s`: devices of tokens and of experts differ in member %d; deal "
                       "experts to the devices of their tokens.",
                       t->m->name, (int)u);
}

/* n devices of a block of experts, `apart` from each other. */
static luo_status trade_group(trade *t, int32_t u, int32_t lo, int32_t n, int32_t apart,
                              int32_t step)
{
    luo_region *part = LUO_NEW_N(t->s->scratch, luo_region, n);
    int32_t *dev = LUO_NEW_N(t->s->scratch, int32_t, n);
    if (!part || !dev) return luo_err_nomem(t->s->err);
    for (int32_t i = 0; i < n; i++) {
        dev[i] = t->there->grp[u].dev[lo + i * apart];
        const luo_region *region = region_of(t, dev[i]);
        if (!region) return wrong(t, u);
        part[i] = *region;
    }
    return luo_moves_group(t->s->scratch, &t->moves, LUO_MOVE_A2A, step, t->dim, dev, n, part,
                           t->s->err);
}

/* To the leaders, among them, and from them. What lies where says luo_spec_trade_sends; regions of
 * messages are those of home. */
static luo_status trade_led(trade *t, int32_t u, int32_t lo, int32_t n, int32_t each, int32_t step)
{
    t->nsteps = LUO_LEADER_STEPS;
    if (step == LUO_LEADER_EXCHANGE) return trade_group(t, u, lo, n / each, each, step);
    for (int32_t k = 0; k < n; k++) {
        const int32_t *dev = t->there->grp[u].dev + lo;
        const int32_t member = dev[k], leader = dev[k - k % each];
        const luo_region *region = region_of(t, member);
        if (!region) return wrong(t, u);
        if (member == leader) continue;
        LUO_TRY(luo_moves_send(t->s->scratch, &t->moves, step,
                               step == LUO_LEADER_GATHER ? member : leader,
                               step == LUO_LEADER_GATHER ? leader : member, region, t->s->err));
    }
    return LUO_OK;
}

/* Devices lo..lo+n-1 of a member have all experts together. To the experts rows travel inside the
 * nodes first, back to the tokens last. */
static luo_status trade_block(trade *t, int32_t u, int32_t lo, int32_t n, int32_t step)
{
    int32_t each;
    LUO_TRY(devices_of_node(t->s, t->m->name, t->there->grp[u].dev + lo, n, &each));
    if (each == n) return step == 0 ? trade_group(t, u, lo, n, 1, 0) : LUO_OK;
    if (t->s->in->exchange == LUO_ALLTOALL_LEADER) return trade_led(t, u, lo, n, each, step);
    const bool inside = (step == 0) == (t->home == luo_annset_get(t->s->g->set, t->m->src));
    t->nsteps = 2;
    for (int32_t k = 0; inside && k < n; k += each)
        LUO_TRY(trade_group(t, u, lo + k, each, 1, step));
    for (int32_t k = 0; !inside && k < each; k++)
        LUO_TRY(trade_group(t, u, lo + k, n / each, each, step));
    return LUO_OK;
}

static luo_status trade_members(trade *t, int32_t step)
{
    for (int32_t u = 0; u < t->there->u; u++) {
        const int32_t n = luo_grp_count(&t->there->grp[u], t->dim);
        const int32_t ndev = t->there->grp[u].ndev;
        if (ndev % n || luo_ann_ndev(t->home) != luo_ann_ndev(t->there)) return wrong(t, u);
        for (int32_t lo = 0; lo < ndev && n > 1; lo += n) LUO_TRY(trade_block(t, u, lo, n, step));
    }
    return LUO_OK;
}

luo_status luo_spec_resolve_trade(spec *s, const spec_move *move, luo_resolution *out)
{
    const luo_ann *src = luo_annset_get(s->g->set, move->src);
    const luo_ann *dst = luo_annset_get(s->g->set, move->dst);
    trade t = {.s = s, .m = move, .home = src, .there = dst, .dim = move->shape.rank == 2 ? 1 : 0};
    if (cuts(src, t.dim)) t.home = dst, t.there = src;
    LUO_TRY(luo_holdings_make(s->scratch, t.home, &move->shape, &t.rows, s->err));
    t.nsteps = 1;
    for (int32_t step = 0; step < t.nsteps; step++) LUO_TRY(trade_members(&t, step));
    *out = (luo_resolution){.kind = LUO_RESOLVE_BOTTOM, .text = "all to all", .nsteps = t.nsteps};
    return luo_moves_seal(s->arena, &t.moves, &out->moves, s->err);
}
