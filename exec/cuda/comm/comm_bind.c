/* comm_bind.c: communicators of programs, made once and kept: those that a set of
 * programs needs and the book lacks are split off the root, as many at once as do not overlap. */
#include <stdlib.h>
#include <string.h>

#include "exec/cuda/comm/comm_internal.h"

/* ---- room ---- */

static luo_status grow(gpu_comms *comms, int32_t n, luo_err *err)
{
    if (n <= comms->cap) return LUO_OK;
    const size_t cap = (size_t)(2 * comms->cap > n ? 2 * comms->cap : n);
    pthread_mutex_lock(&comms->lock); /* an abort walks the lists */
    gpu_comm **of = realloc(comms->of, cap * sizeof(gpu_comm *));
    if (of) comms->of = of;
    gpu_comm **made = realloc(comms->made, cap * sizeof(gpu_comm *));
    if (made) comms->made = made;
    struct gpu_victim *victim =
        comms->aborted ? NULL : realloc(comms->victim, (cap + 1) * sizeof *victim);
    if (victim) comms->victim = victim;
    const bool grown = of && made && victim;
    if (grown) memset(victim, 0, (cap + 1) * sizeof *victim);
    if (grown) comms->cap = (int32_t)cap;
    pthread_mutex_unlock(&comms->lock);
    return grown ? LUO_OK : luo_err_nomem(err);
}

static int32_t blocks_of(const gpu_comms *comms, const gpu_comm_spec *spec)
{
    const bool pipeline =
        spec->kind == GPU_COMM_MESSAGES && spec->lane != luo_program_lane_peer(spec->lane);
    return pipeline ? comms->message_blocks : comms->group_blocks;
}

/* ---- one communicator ---- */

/* From the call on it may be aborted, so it is listed before. */
static luo_status list(gpu_comms *comms, int32_t entry, luo_err *err)
{
    const gpu_comm_spec *spec = &comms->book.at[entry];
    const int32_t rank = gpu_comm_spec_rank(spec, comms->device);
    comms->of[entry] = NULL;
    if (rank < 0) return LUO_OK;
    gpu_comm *comm = LUO_NEW(comms->arena, gpu_comm);
    if (!comm) return luo_err_nomem(err);
    *comm = (gpu_comm){.of = comms, .spec = *spec, .rank = rank};
    comm->link = LUO_NEW_N(comms->arena, enum gpu_link, 2 * spec->n);
    if (!comm->link) return luo_err_nomem(err);
    LUO_TRY(gpu_comms_lock(comms, err));
    comms->made[comms->nmade++] = comms->of[entry] = comm;
    gpu_comms_unlock(comms);
    return LUO_OK;
}

static luo_status split(gpu_comms *comms, gpu_comm *comm, int32_t color, luo_err *err)
{
    const char *what = "splitting communicators";
    ncclConfig_t config =
        gpu_comms_config(comm ? blocks_of(comms, &comm->spec) : comms->group_blocks);
    ncclComm_t none = NULL;
    LUO_TRY(gpu_comms_lock(comms, err));
    luo_status st =
        gpu_nccl(err,
                 ncclCommSplit(comms->root, comm ? color : NCCL_SPLIT_NOCOLOR,
                               comm ? comm->rank : 0, comm ? &comm->nccl : &none, &config),
                 what);
    gpu_comms_unlock(comms);
    if (st == LUO_OK) st = gpu_comm_settle(comms, &comms->root, GPU_COMM_PATIENCE_S, what, err);
    if (st == LUO_OK && comm)
        st = gpu_comm_settle(comms, &comm->nccl, GPU_COMM_PATIENCE_S, what, err);
    return st;
}

static luo_status join_id(gpu_comms *comms, gpu_comm *comm, const ncclUniqueId *id, luo_err *err)
{
    const char *what = "making a communicator";
    ncclConfig_t config = gpu_comms_config(blocks_of(comms, &comm->spec));
    LUO_TRY(gpu_comms_lock(comms, err));
    const luo_status st = gpu_nccl(
        err, ncclCommInitRankConfig(&comm->nccl, comm->spec.n, *id, comm->rank, &config), what);
    gpu_comms_unlock(comms);
    if (st != LUO_OK) return st;
    return gpu_comm_settle(comms, &comm->nccl, GPU_COMM_PATIENCE_S, what, err);
}

/* ---- a round ---- */

typedef struct making { /* entries first.. of the book */
    gpu_comms *c;
    int32_t first, n;
    const int32_t *round;
    luo_err *err;
} making;

/* This rank's communicator of a round; NULL: none. *color: its position in the round. */
static gpu_comm *own_of(const making *m, int32_t round, int32_t *color)
{
    gpu_comm *own = NULL;
    for (int32_t i = 0, k = 0; i < m->n; i++) {
        if (m->round[i] != round) continue;
        if (m->c->of[m->first + i]) {
            own = m->c->of[m->first + i];
            *color = k;
        }
        k++;
    }
    return own;
}

/* A child that a failed split has left. */
static void give_up_child(gpu_comms *comms, gpu_comm *comm)
{
    if (!comm || gpu_comms_lock(comms, NULL) != LUO_OK) return;
    if (comm->nccl) (void)ncclCommAbort(comm->nccl);
    comm->nccl = NULL;
    gpu_comms_unlock(comms);
}

/* Where no rank can split another way remains; anything else is over. */
static luo_status try_split(const making *m, gpu_comm *own, int32_t color)
{
    gpu_comms *comms = m->c;
    luo_err why = {0};
    const luo_status st = split(comms, own, color, &why);
    int mine = st == LUO_OK ? 0 : st == LUO_EBACKEND ? 1 : 2, worst = 0;
    LUO_TRY(gpu_comms_mpi(m->err, MPI_Allreduce(&mine, &worst, 1, MPI_INT, MPI_MAX, comms->mpi),
                          "agreeing"));
    if (worst == 0) return LUO_OK;
    if (mine == 2) return luo_err_set(m->err, st, "%s", why.text);
    if (worst == 2)
        return luo_err_set(m->err, LUO_ECANCELED,
                           "another rank could not split its communicators.");
    give_up_child(comms, own);
    comms->splits = false;
    return LUO_OK;
}

/* The first member makes the id, and all ranks hear it. */
static luo_status by_id(const making *m, int32_t entry)
{
    gpu_comms *comms = m->c;
    const gpu_comm_spec *spec = &comms->book.at[entry];
    const int32_t root = luo_bound_rank_of(comms->config, spec->dev[0]);
    ncclUniqueId id;
    luo_status st = LUO_OK;
    memset(&id, 0, sizeof id);
    if (root == comms->config->rank) st = gpu_nccl(m->err, ncclGetUniqueId(&id), "making an id");
    LUO_TRY(gpu_comms_agree(comms, st, m->err));
    LUO_TRY(gpu_comms_mpi(m->err, MPI_Bcast(&id, (int)sizeof id, MPI_BYTE, (int)root, comms->mpi),
                          "telling an id"));
    if (comms->of[entry]) st = join_id(comms, comms->of[entry], &id, m->err);
    return gpu_comms_agree(comms, st, m->err);
}

static luo_status make_round(const making *m, int32_t round)
{
    gpu_comms *comms = m->c;
    int32_t color = 0;
    gpu_comm *own = own_of(m, round, &color);
    if (comms->splits) LUO_TRY(try_split(m, own, color));
    for (int32_t i = 0; !comms->splits && i < m->n; i++)
        if (m->round[i] == round) LUO_TRY(by_id(m, m->first + i));
    if (comms->config->where) atomic_fetch_add(&comms->config->where->done, 1); /* it goes on */
    return LUO_OK;
}

/* ---- all that is lacking ---- */

static luo_status check_ranks(const gpu_comms *comms, int32_t n, const gpu_comm_spec *specs,
                              luo_err *err)
{
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = 0; k < specs[i].n; k++)
            if (luo_bound_rank_of(comms->config, specs[i].dev[k]) < 0)
                return luo_err_set(err, LUO_EBACKEND,
                                   "the plan needs device %d, for which no rank runs; give more "
                                   "--ranks.",
                                   (int)specs[i].dev[k]);
    return LUO_OK;
}

static luo_status make_rounds(gpu_comms *comms, int32_t first, luo_err *err)
{
    const int32_t n = comms->book.n - first;
    luo_arena *scratch = luo_arena_new(1 << 12);
    int32_t *round = scratch ? LUO_NEW_N(scratch, int32_t, n) : NULL;
    const int32_t rounds = round ? gpu_comm_rounds(scratch, n, &comms->book.at[first], round) : -1;
    const making m = {comms, first, n, round, err};
    luo_status st = rounds < 0 ? luo_err_nomem(err) : grow(comms, comms->book.n, err);
    for (int32_t i = 0; st == LUO_OK && i < n; i++) st = list(comms, first + i, err);
    st = gpu_comms_agree(comms, st, err);
    for (int32_t r = 0; st == LUO_OK && r < rounds; r++) st = make_round(&m, r);
    luo_arena_free(scratch);
    return st;
}

/* Pre: the same on all ranks. */
static luo_status make_missing(gpu_comms *comms, int32_t n, const gpu_comm_spec *specs,
                               luo_err *err)
{
    const int32_t first = comms->book.n;
    if (comms->failed)
        return luo_err_set(err, LUO_EBACKEND,
                           "communicators could not be made before; the processes have to start "
                           "again.");
    LUO_TRY(check_ranks(comms, n, specs, err));
    LUO_TRY(gpu_comms_agree(comms, gpu_comm_book_add(&comms->book, n, specs, err), err));
    if (comms->book.n == first) return LUO_OK;
    const luo_status st = make_rounds(comms, first, err);
    comms->failed = st != LUO_OK;
    return st;
}

/* ---- programs ---- */

static luo_status plan_for(gpu_comms *comms, const luo_programs *set, luo_err *err)
{
    if (comms->plan.set == set && comms->planned == set->hash) return LUO_OK;
    luo_arena_reset(comms->plans, 0);
    comms->plan = (gpu_comm_plan){0};
    LUO_TRY(gpu_comm_plan_make(comms->plans, set, &comms->plan, err));
    comms->planned = set->hash;
    return LUO_OK;
}

luo_status gpu_comms_bind(gpu_comms *comms, const luo_programs *set, luo_err *err)
{
    comms->plan.set = NULL; /* another set may lie where the last one was */
    LUO_TRY(gpu_comms_agree(comms, plan_for(comms, set, err), err));
    LUO_TRY(make_missing(comms, comms->plan.n, comms->plan.at, err));
    const luo_status st = gpu_comms_connect(comms, err);
    comms->failed = st != LUO_OK;
    return st;
}

gpu_comm *gpu_comms_planned(const gpu_comms *comms, int32_t at)
{
    const int32_t entry = at < 0 ? -1 : gpu_comm_book_find(&comms->book, &comms->plan.at[at]);
    return entry < 0 ? NULL : comms->of[entry];
}

gpu_comm *gpu_comms_find(gpu_comms *comms, const luo_programs *set, const luo_program *program,
                         const luo_instr *instr)
{
    if (plan_for(comms, set, NULL) != LUO_OK) return NULL;
    return gpu_comms_planned(comms, gpu_comm_plan_find(&comms->plan, program, instr));
}

luo_status gpu_comms_make(gpu_comms *comms, int32_t stream, int32_t n, const int32_t *dev,
                          gpu_comm **out, luo_err *err)
{
    gpu_comm_spec spec = {
        .kind = GPU_COMM_GROUP, .lane = stream, .nsenders = n, .n = n, .dev = dev};
    *out = NULL;
    if (n < 2) return LUO_OK;
    gpu_comm_spec_seal(&spec);
    LUO_TRY(make_missing(comms, 1, &spec, err));
    *out = comms->of[gpu_comm_book_find(&comms->book, &spec)];
    return LUO_OK;
}

int32_t gpu_comms_count(const gpu_comms *comms)
{
    return comms->nmade;
}
