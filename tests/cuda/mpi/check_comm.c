/* check_comm.c: communicators on eight ranks: facts, every collective and exchange
 * against plain sums, all communication of programs, captured and not, and plans that come back.
 * Run by `mpirun -n 8`. */
#include "core/io/read/read.h"
#include "core/plan/migrate.h"
#include "tests/cuda/mpi/comm_walk.h"
#include "tests/plan_make.h"

/* ---- what ranks tell each other ---- */

static void check_facts(lab *l)
{
    gpu_comms *c = NULL;
    gpu_facts odd = l->facts;
    lab_expect(l, gpu_comms_count(l->comms) == 0, "an empty cache");
    if (l->rank == 5) odd.nccl += 1;
    lab_expect(l, gpu_comms_open(&l->config, &odd, &c, &l->err) == LUO_EBACKEND, "another NCCL");
    lab_expect(l, strstr(l->err.text, "and rank 5 on ") != NULL, "who has another NCCL");
    lab_expect(l, strstr(l->err.text, "; the same NCCL is needed everywhere.") != NULL, "advice");
    odd = l->facts;
    snprintf(odd.bus, sizeof odd.bus, "0000:%02x:00.0", l->rank); /* nobody shares */
    if (l->rank > 4) snprintf(odd.name, sizeof odd.name, "an older GPU");
    odd.driver = l->rank == 3 ? 12000 : 13000;
    lab_expect(l, gpu_comms_open(&l->config, &odd, &c, &l->err) == LUO_OK, "mixed GPUs");
    char want[512];
    snprintf(want, sizeof want,
             "2 types of GPU: 5 of `%s` (%d.%d), 3 of `an older GPU` (%d.%d); CUDA drivers differ: "
             "13000 on %s, 12000 on %s",
             l->facts.name, l->facts.major, l->facts.minor, l->facts.major, l->facts.minor,
             l->facts.host, l->facts.host);
    if (c && strcmp(gpu_comms_warning(c), want) != 0)
        lab_fail(l, "`%s` where `%s` is expected", gpu_comms_warning(c), want);
    gpu_comms_close(c);
}

/* More ranks than GPUs is a mistake unless it was asked for: five on one GPU, three on another host
 * with one each. */
static void check_sharing(lab *l)
{
    gpu_comms *c = NULL;
    gpu_facts odd = l->facts;
    luo_rank_config alone = l->config;
    char want[256];
    alone.share_gpus = false;
    snprintf(odd.host, sizeof odd.host, l->rank < 5 ? "node-1" : "node-2");
    snprintf(odd.bus, sizeof odd.bus, "0000:%02x:00.0", l->rank < 5 ? 0 : l->rank);
    snprintf(want, sizeof want,
             "5 ranks run on node-1 and see 1 GPU there; a GPU for each rank is expected, or "
             "`--cuda share=on` for a trial.");
    lab_expect(l, gpu_comms_open(&alone, &odd, &c, &l->err) == LUO_EBACKEND, "too few GPUs");
    if (strcmp(l->err.text, want) != 0)
        lab_fail(l, "`%s` where `%s` is expected", l->err.text, want);
}

/* ---- collectives ---- */

typedef struct call { /* one collective on some ranks */
    uint64_t key;
    int32_t n, me; /* members, this one; -1: not in it */
    const int32_t *dev;
    int64_t count[LAB_RANKS]; /* per member */
    int64_t elem, all, start; /* start: of the own part */
    bool in_place;
    luo_reduce how;
} call;

static float combined(const call *c, int64_t i)
{
    float v = lab_value(c->key, c->dev[0], i);
    for (int32_t k = 1; k < c->n; k++) {
        const float x = lab_value(c->key, c->dev[k], i);
        v = c->how == LUO_REDUCE_SUM ? v + x : x > v ? x : v;
    }
    return v;
}

static float gathered(const call *c, int64_t i)
{
    int32_t k = 0;
    int64_t at = i;
    while (at >= c->count[k]) at -= c->count[k++];
    return lab_value(c->key, c->dev[k], at);
}

static void compare(lab *l, const call *c, const char *what, const char *at, int64_t n,
                    float (*want)(const call *c, int64_t i), int64_t from)
{
    for (int64_t i = 0; i < n; i++) {
        if (lab_get(at, i, c->elem) == want(c, from + i)) continue;
        lab_fail(l, "%s of %lld on %d ranks, %lld bytes: element %lld is %g, not %g", what,
                 (long long)c->all, c->n, (long long)c->elem, (long long)i,
                 (double)lab_get(at, i, c->elem), (double)want(c, from + i));
        return;
    }
}

static void fill(const call *c, char *at, int64_t n)
{
    for (int64_t i = 0; i < n; i++) lab_put(at, i, c->elem, lab_value(c->key, c->dev[c->me], i));
}

static void run_all_reduce(lab *l, gpu_comm *g, const call *c)
{
    lab_block b = lab_alloc(l, 2 * c->all * c->elem);
    char *to = b.device + (c->in_place ? 0 : c->all * c->elem);
    fill(c, b.host, c->all);
    lab_send_block(l, &b);
    lab_expect(l,
               gpu_all_reduce(g, b.device, to, c->all, c->elem, c->how, l->stream[LUO_STREAM_TP],
                              &l->err) == LUO_OK,
               "an all-reduce");
    lab_get_block(l, &b);
    compare(l, c, "an all-reduce", b.host + (to - b.device), c->all, combined, 0);
    lab_free(&b);
}

/* grouped: a reduce of every part. */
static void run_reduce_scatter(lab *l, gpu_comm *g, const call *c, bool grouped)
{
    cudaStream_t stream = l->stream[LUO_STREAM_DP];
    const int64_t own = c->count[c->me];
    lab_block b = lab_alloc(l, (c->all + own + c->n * own) * c->elem);
    char *to = b.device + c->all * c->elem, *work = to + own * c->elem;
    fill(c, b.host, c->all);
    lab_send_block(l, &b);
    const luo_status st =
        grouped
            ? gpu_reduces(g, b.device, to, c->count, c->elem, c->how, stream, &l->err)
            : gpu_reduce_scatter(g, b.device, to, c->count, c->elem, c->how, work, stream, &l->err);
    lab_expect(l, st == LUO_OK, grouped ? "reduces" : "a reduce-scatter");
    lab_get_block(l, &b);
    compare(l, c, grouped ? "reduces" : "a reduce-scatter", b.host + c->all * c->elem, own,
            combined, c->start);
    lab_free(&b);
}

/* grouped: a broadcast of every part. */
static void run_all_gather(lab *l, gpu_comm *g, const call *c, bool grouped)
{
    cudaStream_t stream = l->stream[LUO_STREAM_DP];
    const int64_t own = c->count[c->me];
    lab_block b = lab_alloc(l, (c->all + own) * c->elem);
    const int64_t at = (c->in_place ? c->start : c->all) * c->elem;
    fill(c, b.host + at, own);
    lab_send_block(l, &b);
    const luo_status st =
        grouped ? gpu_broadcasts(g, b.device + at, b.device, c->count, c->elem, stream, &l->err)
                : gpu_all_gather(g, b.device + at, b.device, c->count, c->elem, stream, &l->err);
    lab_expect(l, st == LUO_OK, grouped ? "broadcasts" : "an all-gather");
    lab_get_block(l, &b);
    compare(l, c, grouped ? "broadcasts" : "an all-gather", b.host, c->all, gathered, 0);
    lab_free(&b);
}

static void run_calls(lab *l, gpu_comm *g, call c, bool uneven)
{
    for (int32_t k = 0; k < c.n; k++) {
        c.count[k] = !uneven ? 37 : k == c.n - 2 ? 0 : 5 * k + 1 + (k == 0 ? 300 : 0);
        if (k < c.me) c.start += c.count[k];
        c.all += c.count[k];
    }
    for (int grouped = 0; grouped < 2; grouped++) {
        if (c.elem > 1) run_reduce_scatter(l, g, &c, grouped);
        c.in_place = false;
        run_all_gather(l, g, &c, grouped);
        c.in_place = true;
        run_all_gather(l, g, &c, grouped);
    }
    if (uneven || c.elem == 1) return;
    run_all_reduce(l, g, &c);
    c.in_place = false;
    c.how = LUO_REDUCE_MAX;
    run_all_reduce(l, g, &c);
}

static void check_collectives(lab *l)
{
    static const struct {
        int32_t n, dev[LAB_RANKS];
    } rows[] = {{8, {0, 1, 2, 3, 4, 5, 6, 7}}, {3, {1, 4, 6}}, {2, {5, 0}}, {1, {3}}};
    for (int i = 0; i < 4; i++) {
        gpu_comm *g = NULL, *again = NULL;
        call c = {.key = (uint64_t)i + 100, .n = rows[i].n, .me = -1, .dev = rows[i].dev};
        for (int32_t k = 0; k < c.n; k++)
            if (c.dev[k] == l->rank) c.me = k;
        const int32_t before = gpu_comms_count(l->comms);
        lab_must(l, gpu_comms_make(l->comms, LUO_STREAM_DP, c.n, c.dev, &g, &l->err) == LUO_OK,
                 "a communicator");
        lab_expect(l, (g != NULL) == (c.me >= 0 && c.n > 1), "who is in it");
        lab_expect(l, gpu_comms_count(l->comms) == before + (g != NULL), "how many there are");
        lab_expect(l,
                   gpu_comms_make(l->comms, LUO_STREAM_DP, c.n, c.dev, &again, &l->err) == LUO_OK &&
                       again == g && gpu_comms_count(l->comms) == before + (g != NULL),
                   "the same again");
        for (c.elem = 1; c.me >= 0 && c.elem <= 4; c.elem *= 2) {
            run_calls(l, g, c, false);
            if (c.n > 1) run_calls(l, g, c, true);
        }
    }
}

static void check_refusals(lab *l)
{
    gpu_comm *g = NULL;
    const int32_t dev[2] = {2 * (l->rank / 2), 2 * (l->rank / 2) + 1};
    const gpu_message m = {(l->rank + 4) % 8, true, NULL, 0};
    const int64_t counts[2] = {1, 2};
    /* Every rank names another pair: the first that all know of is that of rank 0. */
    for (int32_t k = 0; k < LAB_RANKS; k += 2) {
        gpu_comm *one = NULL;
        const int32_t pair[2] = {k, k + 1};
        lab_must(l, gpu_comms_make(l->comms, LUO_STREAM_TP, 2, pair, &one, &l->err) == LUO_OK,
                 "a pair");
        if (pair[0] == dev[0]) g = one;
    }
    lab_expect(l, gpu_exchange(g, 1, &m, 4, l->stream[0], &l->err) == LUO_EBUG, "a stranger");
    lab_expect(l, strstr(l->err.text, "on a communicator that does not join them.") != NULL,
               "who is strange");
    lab_expect(
        l, gpu_all_reduce(g, NULL, NULL, 0, 8, LUO_REDUCE_SUM, l->stream[0], &l->err) == LUO_EBUG,
        "f64");
    lab_expect(l,
               gpu_reduce_scatter(g, NULL, NULL, counts, 4, LUO_REDUCE_MAX, NULL, l->stream[0],
                                  &l->err) == LUO_EBUG,
               "the maximum of uneven parts");
}

static void check_programs(lab *l, const luo_programs *set, int64_t elem)
{
    luo_arena *a = luo_arena_new(1 << 16);
    walk w;
    lab_must(l, gpu_comms_bind(l->comms, set, &l->err) == LUO_OK, "binding");
    open_walk(&w, l, a, set, elem);
    walk_anew(&w);
    walk_captured(&w);
    lab_free(&w.block);
    luo_arena_free(a);
}

/* ---- plans ---- */

static const char *const lines[] = {
    "4: [0,1]*2 [2,3]*2 || 4: [4,5]*2 [6,7]*2",        /* pairs */
    "4: [0]*1+1 [1]*1+1 || 4: [2,3]*1+1 [4,5]*1+1",    /* interleaved; 6, 7 stand by */
    "3: [0,1]:(3,1)*2 [2]*2 || 2: [3,4]*1 [5,6,7]*3"}; /* uneven */

static luo_programs *compile(lab *l, luo_arena *a, int which, luo_plan **plan)
{
    const luo_model m = luo_test_llama(4, 48, 96, 12, 96);
    luo_model *model = LUO_NEW(a, luo_model);
    const luo_compile_opts opts = {.check = true};
    luo_programs *set = NULL;
    *model = m;
    *plan = luo_test_plan(a, lines[which]);
    (*plan)->dtype = LUO_F32;
    (*plan)->sequence_tokens = 16;
    (*plan)->zero = which == 2;
    (*plan)->sequence_parallel = which != 2;
    lab_must(l, luo_plan_compile(a, *plan, model, NULL, &opts, &set, &l->err) == LUO_OK,
             lines[which]);
    return set;
}

static const luo_programs *switch_between(lab *l, luo_arena *a, const luo_plan *from,
                                          const luo_plan *to)
{
    luo_cluster *cluster = NULL;
    luo_switching what;
    luo_diags d;
    const luo_model m = luo_test_llama(4, 48, 96, 12, 96);
    luo_diags_init(&d, a);
    lab_must(l, luo_read_cluster(a, "scenarios/clusters/tiny8.yaml", &cluster, &d) == LUO_OK,
             "tiny8");
    lab_must(l, luo_switching_compile(a, from, to, &m, cluster, 0, NULL, &what, &l->err) == LUO_OK,
             "a switch");
    return what.set;
}

static void check_plans(lab *l)
{
    luo_arena *a = luo_arena_new(1 << 20);
    luo_plan *plan[3];
    luo_programs *set[3];
    for (int i = 0; i < 3; i++) set[i] = compile(l, a, i, &plan[i]);
    for (int i = 0; i < 3; i++) check_programs(l, set[i], 4);
    check_programs(l, switch_between(l, a, plan[0], plan[2]), 1);
    const int32_t n = gpu_comms_count(l->comms);
    lab_expect(l, n > 3, "there are communicators");
    for (int i = 0; i < 3; i++) check_programs(l, set[i], 4);
    lab_expect(l, gpu_comms_count(l->comms) == n, "plans that come back make none");
    luo_arena_free(a);
}

static bool is_shared(const lab *l)
{
    gpu_facts all[LAB_RANKS];
    MPI_Allgather(&l->facts, (int)sizeof *all, MPI_BYTE, all, (int)sizeof *all, MPI_BYTE,
                  MPI_COMM_WORLD);
    for (int a = 0; a < LAB_RANKS; a++)
        for (int b = 0; b < a; b++)
            if (strcmp(all[a].bus, all[b].bus) == 0 && strcmp(all[a].host, all[b].host) == 0)
                return true;
    return false;
}

/* From which drivers on steps with communication are captured; the oldest decides for all. */
static void check_captures(lab *l)
{
    static const struct {
        int32_t nccl, driver;
        bool may;
        const char *says;
    } rows[] = {{22800, 12090, true, ""},
                {22600, 13000, true, ""},
                {22800, 12080, false, "from a driver for CUDA 12.9 on; the one of "},
                {22508, 13000, false, "from NCCL 2.26 and CUDA 12.3 on."},
                {22800, 12020, false, "from NCCL 2.26 and CUDA 12.3 on."}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gpu_comms *c = NULL;
        gpu_facts odd = l->facts;
        luo_err err = {0};
        odd.nccl = rows[i].nccl;
        odd.driver = l->rank == 5 ? rows[i].driver : 13000;
        lab_must(l, gpu_comms_open(&l->config, &odd, &c, &l->err) == LUO_OK, "versions");
        const luo_status st = gpu_comms_captures(c, &err);
        lab_expect(l, st == (rows[i].may ? LUO_OK : LUO_EUNSUP), "what may be captured");
        lab_expect(l, strstr(err.text, rows[i].says) != NULL, err.text);
        gpu_comms_close(c);
    }
}

/* What nobody has set is set, and nothing else. */
static void check_environment(lab *l)
{
    static const char *const names[] = {"NCCL_GRAPH_REGISTER", "NCCL_GRAPH_MIXING_SUPPORT"};
    for (int set = 1; set >= 0; set--) {
        for (int i = 0; i < 2; i++) set ? setenv(names[i], "1", 1) : unsetenv(names[i]);
        lab_open(l);
        for (int i = 0; i < 2; i++) {
            const char *is = getenv(names[i]);
            lab_expect(l, is && strcmp(is, set ? "1" : "0") == 0, names[i]);
        }
        lab_close(l);
    }
}

int main(void)
{
    lab l;
    lab_begin(&l);
    check_environment(&l);
    lab_open(&l);
    const bool said = strstr(gpu_comms_warning(l.comms), "ranks share GPU") != NULL;
    lab_expect(&l, said == is_shared(&l), "whether ranks share a GPU is said");
    check_captures(&l);
    check_sharing(&l);
    check_facts(&l);
    check_collectives(&l);
    check_refusals(&l);
    check_plans(&l);
    lab_close(&l);
    return lab_end(&l, "communicators");
}
