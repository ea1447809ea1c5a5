/* Steps that are shared: who finds a step simulated by another, or on other nodes, leaves the bytes
 * that it would leave alone, first step and later ones. */
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/rng.h"
#include "sim/share.h"
#include "tests/begins.h"
#include "tests/prop/prop.h"
#include "tests/sim_programs.h"

#define LAYOUT(t, s, p, m, l) \
    .tp = (t), .stages = (s), .pipelines = (p), .micro_batches = (m), .layers = (l)
static const layout layouts[] = {
    {LAYOUT(2, 2, 2, 3, 2)}, {LAYOUT(4, 2, 3, 4, 1), .nics = 2}, {LAYOUT(1, 2, 2, 2, 1)},
};

enum { ASKED = 4 }; /* worlds: healthy, one device slow, one link slow, healthy again */

typedef struct answers {
    luo_step_result of[ASKED];
} answers;

static void *copy(luo_arena *arena, const void *from, int32_t n, size_t size)
{
    void *to = luo_arena_alloc(arena, (size_t)n * size);
    ck_assert_ptr_nonnull(to);
    if (n > 0) memcpy(to, from, (size_t)n * size);
    return to;
}

static luo_step_result copy_result(luo_step_result result, luo_arena *arena)
{
    result.parts = copy(arena, result.parts, result.n, sizeof *result.parts);
    result.compute_s = copy(arena, result.compute_s, result.n, sizeof(double));
    result.predicted_s = copy(arena, result.predicted_s, result.n, sizeof(double));
    result.links = copy(arena, result.links, result.nlinks, sizeof *result.links);
    result.comm = copy(arena, result.comm, result.ncomm, sizeof *result.comm);
    return result;
}

static rig *new_rig(int row)
{
    rig *r = step_rig(&layouts[row]);
    r->set.hash = 77 + (uint64_t)row;
    return r;
}

static answers ask(rig *r, luo_arena *arena, int n)
{
    answers out = {0};
    for (int i = 0; i < n; i++) {
        r->world->slowdown[1] = i == 1 ? 1.7 : 1;
        r->world->link_factor[0] = i == 2 ? 0.3 : 1;
        out.of[i] = copy_result(rig_step(r), arena);
    }
    return out;
}

static void same(const luo_step_result *a, const luo_step_result *b)
{
    ck_assert(a->start_s == b->start_s && a->end_s == b->end_s);
    ck_assert(a->n == b->n && a->nlinks == b->nlinks && a->ncomm == b->ncomm);
    ck_assert_mem_eq(a->parts, b->parts, (size_t)a->n * sizeof *a->parts);
    ck_assert_mem_eq(a->compute_s, b->compute_s, (size_t)a->n * sizeof(double));
    ck_assert_mem_eq(a->predicted_s, b->predicted_s, (size_t)a->n * sizeof(double));
    ck_assert_mem_eq(a->links, b->links, (size_t)a->nlinks * sizeof *a->links);
    for (int32_t i = 0; i < a->ncomm; i++) {
        const luo_comm_use *x = &a->comm[i], *y = &b->comm[i];
        ck_assert(x->group == y->group && x->exchange == y->exchange && x->calls == y->calls);
        ck_assert(x->bytes == y->bytes && x->busy_s == y->busy_s && x->exposed_s == y->exposed_s);
    }
}

/* In its world, and when a device is slower after that, which its worker is asked second. */
static answers ask_twice(rig *r, luo_arena *arena)
{
    answers out = {0};
    const int32_t device = r->set.at[r->set.n - 1].device;
    const double was = r->world->slowdown[device];
    out.of[0] = copy_result(rig_step(r), arena);
    r->world->slowdown[device] = 2.5;
    out.of[1] = copy_result(rig_step(r), arena);
    r->world->slowdown[device] = was;
    return out;
}

/* Another process asks for the first n worlds, and ends. */
static void let_another_ask(int row, int n)
{
    const pid_t pid = fork();
    if (pid == 0) {
        rig *r = new_rig(row);
        ask(r, r->arena, n);
        rig_free(r);
        _exit(0);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}

/* An open rig has a role more (rig_open). */
static bool is_known(rig *r)
{
    if (!r->state) rig_open(r);
    const sim_shared *found;
    sim_reply reply;
    sim_places places;
    sim_share_key key = {
        .config = sim_share_config(&r->config), .update = 1, .world = r->world, .places = &places};
    rig_check(r, sim_places_make(r->arena, &r->cluster, &r->set, &places, &r->err));
    rig_check(r, sim_places_hash(r->arena, &r->cluster, &r->set, &places, &key.programs, &r->err));
    ck_assert_int_eq(sim_share_find(r->arena, &key, &found, &reply, &r->err), LUO_OK);
    return found != NULL;
}

START_TEST(a_step_of_another_process)
{
    rig *alone = new_rig(_i), *beside = new_rig(_i), *asks = new_rig(_i);
    luo_arena *arena = luo_arena_new(1 << 16);
    const answers wanted = ask(alone, arena, ASKED); /* nothing is shared yet */
    ck_assert_int_eq(luo_sim_share(&beside->err), LUO_OK);
    ck_assert_int_eq(luo_sim_share(&beside->err), LUO_OK);
    ck_assert(!is_known(asks));
    let_another_ask(_i, 2);
    ck_assert(is_known(asks));
    const answers got = ask(beside, arena, ASKED);
    for (int i = 0; i < ASKED; i++) same(&wanted.of[i], &got.of[i]);
    luo_arena_free(arena);
    rig_free(alone);
    rig_free(beside);
    rig_free(asks);
}
END_TEST

/* The second question of a worker is not shared, nor what depends on another value. */
START_TEST(what_is_not_shared)
{
    rig *r = new_rig(0);
    ck_assert_int_eq(luo_sim_share(&r->err), LUO_OK);
    let_another_ask(0, 3);
    ck_assert(is_known(r));
    r->world->slowdown[1] = 1.7;
    ck_assert(!is_known(r));
    r->world->slowdown[1] = 1;
    r->world->up[0] = false;
    ck_assert(!is_known(r));
    r->world->up[0] = true;
    r->world->link_extra_latency_s[0] = 1e-6;
    ck_assert(!is_known(r));
    r->world->link_extra_latency_s[0] = 0;
    double *const values[] = {&r->stack.scale_jitter, &r->stack.gemm_ratio, &r->profile.launch_s,
                              &r->profile.net_step_s, &r->cluster.hop_latency_s,
                              &r->cluster.groups[0].nic_latency_s,
                              &r->cluster.groups[0].scale_up_bytes_per_s};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        const double was = *values[i];
        *values[i] += 0.125;
        ck_assert_msg(!is_known(r), "value %zu", i);
        *values[i] = was;
        ck_assert(is_known(r));
    }
    r->config.comm = LUO_COMM_MODEL;
    ck_assert(!is_known(r));
    rig_free(r);
}
END_TEST

/* Programs are told apart by what they do, with a hash or without: plans that are only weighed
 * against each other have none. */
START_TEST(programs_without_hash)
{
    ck_assert_int_eq(luo_sim_share(NULL), LUO_OK);
    rig *r = new_rig(0), *other = new_rig(1);
    r->set.hash = other->set.hash = 0;
    ask(r, r->arena, 1);
    ck_assert(is_known(r));
    ck_assert(!is_known(other));
    rig_free(r);
    rig_free(other);
}
END_TEST

/* ---- on other nodes ---- */

static const layout spacious[] = {
    {LAYOUT(2, 2, 2, 3, 2), .spare_nodes = 5},
    {LAYOUT(4, 2, 3, 4, 1), .nics = 2, .spare_nodes = 3},
    {LAYOUT(2, 2, 2, 2, 1), .spare_nodes = 4, .uplink_bytes_per_s = 15e9},
    {LAYOUT(2, 2, 2, 2, 1), .stages_per_node = 2, .spare_nodes = 3},
};

/* Node i of the programs moves to node to[i]. */
static void move_programs(rig *r, const int32_t *to)
{
    const int32_t per_node = r->cluster.groups[0].devices_per_node;
#define MOVE(device) ((device) = to[(device) / per_node] * per_node + (device) % per_node)
    for (int32_t g = 0; g < r->set.ngroups; g++)
        for (int32_t k = 0; k < r->set.groups[g].n; k++)
            MOVE(((int32_t *)r->set.groups[g].dev)[k]);
    for (int32_t i = 0; i < r->set.n; i++) {
        luo_program *program = (luo_program *)&r->set.at[i];
        MOVE(program->device);
        for (int32_t s = 0; s < r->set.roles[program->role].nslot; s++)
            for (int32_t k = 0; k < program->slots[s].nmessage; k++)
                MOVE(((luo_message *)program->slots[s].message)[k].peer);
    }
#undef MOVE
}

static int by_number(const void *a, const void *b)
{
    return *(const int32_t *)a - *(const int32_t *)b;
}

/* So many of the nodes of the cluster, in ascending order. */
static void draw_nodes(luo_rng *rng, const rig *r, int32_t n, int32_t *to)
{
    int32_t all[64];
    for (int32_t i = 0; i < r->cluster.nnodes; i++) all[i] = i;
    for (int32_t i = 0; i < n; i++) {
        const int32_t k = i + (int32_t)luo_rng_pick(rng, r->cluster.nnodes - i);
        to[i] = all[k];
        all[k] = all[i];
    }
    qsort(to, (size_t)n, sizeof *to, by_number);
}

static rig *moved_rig(const layout *l, const int32_t *to, int slow, double slowdown, double factor)
{
    rig *r = step_rig(l);
    const int32_t per_node = r->cluster.groups[0].devices_per_node;
    const luo_node *node = &r->cluster.nodes[to[slow]];
    move_programs(r, to);
    r->set.hash = luo_hash_bytes(1, to, sizeof *to);
    r->world->slowdown[node->first_device + per_node - 1] = slowdown;
    r->world->link_factor[node->nic] = factor;
    return r;
}

/* Links of the same places: those of nodes in their order, of racks likewise. */
static void same_elsewhere(rig *a, rig *b, const luo_step_result *x, const luo_step_result *y)
{
    sim_places here, there;
    rig_check(a, sim_places_make(a->arena, &a->cluster, &a->set, &here, &a->err));
    rig_check(b, sim_places_make(b->arena, &b->cluster, &b->set, &there, &b->err));
    ck_assert_int_eq(here.nlinks, there.nlinks);
    for (int32_t i = 0; i < here.nlinks; i++)
        ck_assert_mem_eq(&x->links[here.link[i]], &y->links[there.link[i]], sizeof *x->links);
    ck_assert_int_eq(x->n, y->n);
    ck_assert_mem_eq(x->parts, y->parts, (size_t)x->n * sizeof *x->parts);
}

/* Twin: the same programs on the same nodes, simulated before anything was shared. */
START_TEST(a_step_on_other_nodes)
{
    enum { CASES = 12 };
    const uint64_t seed = luo_prop_first();
    const layout *l = &spacious[_i];
    luo_rng rng = luo_rng_stream(seed, "sim.share");
    luo_arena *arena = luo_arena_new(1 << 16);
    rig *twin[CASES], *first = step_rig(l);
    answers wanted[CASES];
    int32_t to[CASES][64], identity[64];
    const int32_t nodes = first->cluster.nnodes - l->spare_nodes;
    const int slow = (int)luo_rng_pick(&rng, nodes);
    const double slowdown = 1 + luo_rng_u(&rng), factor = 0.3 + 0.5 * luo_rng_u(&rng);
    for (int32_t i = 0; i < nodes; i++) identity[i] = i;
    rig_free(first);
    for (int i = 0; i < CASES; i++) {
        first = step_rig(l);
        draw_nodes(&rng, first, nodes, to[i]);
        rig_free(first);
        twin[i] = moved_rig(l, to[i], slow, slowdown, factor);
        wanted[i] = ask_twice(twin[i], arena);
    }
    ck_assert_int_eq(luo_sim_share(NULL), LUO_OK);
    first = moved_rig(l, identity, slow, slowdown, factor);
    const answers here = ask_twice(first, arena);
    for (int i = 0; i < CASES; i++) {
        rig *r = moved_rig(l, to[i], slow, slowdown, factor);
        ck_assert_msg(is_known(r), "seed %llu, case %d", (unsigned long long)seed, i);
        const answers got = ask_twice(r, arena);
        for (int k = 0; k < 2; k++) same(&wanted[i].of[k], &got.of[k]);
        same_elsewhere(first, r, &here.of[0], &got.of[0]);
        r->world->slowdown[r->set.at[0].device] = 3;
        ck_assert(!is_known(r));
        rig_free(r);
        rig_free(twin[i]);
    }
    rig_free(first);
    luo_arena_free(arena);
}
END_TEST

/* Nodes in another order, or two stages that had a node together on two: another step. */
START_TEST(other_places)
{
    ck_assert_int_eq(luo_sim_share(NULL), LUO_OK);
    const int32_t identity[] = {0, 1, 2, 3}, swapped[] = {1, 0, 2, 3};
    rig *r = moved_rig(&spacious[0], identity, 0, 1, 1);
    ask(r, r->arena, 1);
    ck_assert(is_known(r));
    rig *other = moved_rig(&spacious[0], swapped, 0, 1, 1);
    ck_assert(!is_known(other));
    rig_free(r);
    rig_free(other);
}
END_TEST

LUO_SUITE("backend.sim_share", LUO_T_N(a_step_of_another_process, LUO_ROWS(layouts)),
          LUO_T(what_is_not_shared), LUO_T(programs_without_hash),
          LUO_T_N(a_step_on_other_nodes, LUO_ROWS(spacious)), LUO_T(other_places))
