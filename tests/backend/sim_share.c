/* Steps that processes share: who finds a step simulated by another leaves the bytes that it would
 * leave alone, first step and later ones. */
#include <sys/wait.h>
#include <unistd.h>

#include "sim/share.h"
#include "tests/begins.h"
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
        luo_step_result *to = &out.of[i];
        *to = rig_step(r);
        to->parts = copy(arena, to->parts, to->n, sizeof *to->parts);
        to->compute_s = copy(arena, to->compute_s, to->n, sizeof(double));
        to->predicted_s = copy(arena, to->predicted_s, to->n, sizeof(double));
        to->links = copy(arena, to->links, to->nlinks, sizeof *to->links);
        to->comm = copy(arena, to->comm, to->ncomm, sizeof *to->comm);
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

static bool is_known(rig *r, uint64_t programs)
{
    const sim_shared *found;
    sim_reply reply;
    const sim_share_key key = {sim_share_config(&r->config), programs, 1, r->world};
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
    ck_assert(!is_known(asks, 77 + (uint64_t)_i));
    let_another_ask(_i, 2);
    ck_assert(is_known(asks, 77 + (uint64_t)_i));
    ck_assert(!is_known(asks, 1));
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
    const uint64_t programs = r->set.hash;
    ck_assert_int_eq(luo_sim_share(&r->err), LUO_OK);
    let_another_ask(0, 3);
    ck_assert(is_known(r, programs));
    r->world->slowdown[1] = 1.7;
    ck_assert(!is_known(r, programs));
    r->world->slowdown[1] = 1;
    r->world->up[0] = false;
    ck_assert(!is_known(r, programs));
    r->world->up[0] = true;
    r->world->link_extra_latency_s[0] = 1e-6;
    ck_assert(!is_known(r, programs));
    r->world->link_extra_latency_s[0] = 0;
    double *const values[] = {&r->stack.scale_jitter, &r->stack.gemm_ratio, &r->profile.launch_s,
                              &r->profile.net_step_s, &r->cluster.hop_latency_s,
                              &r->cluster.groups[0].nic_latency_s,
                              &r->cluster.groups[0].scale_up_bytes_per_s};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        const double was = *values[i];
        *values[i] += 0.125;
        ck_assert_msg(!is_known(r, programs), "value %zu", i);
        *values[i] = was;
        ck_assert(is_known(r, programs));
    }
    r->config.comm = LUO_COMM_MODEL;
    ck_assert(!is_known(r, programs));
    rig_free(r);
}
END_TEST

/* Programs without a hash are told apart by nothing. */
START_TEST(programs_without_hash)
{
    ck_assert_int_eq(luo_sim_share(NULL), LUO_OK);
    rig *r = new_rig(0);
    r->set.hash = 0;
    ask(r, r->arena, 1);
    ck_assert(!is_known(r, 0));
    rig_free(r);
}
END_TEST

LUO_SUITE("backend.sim_share", LUO_T_N(a_step_of_another_process, LUO_ROWS(layouts)),
          LUO_T(what_is_not_shared), LUO_T(programs_without_hash))
