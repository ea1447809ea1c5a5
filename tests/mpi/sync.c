/* sync.c: toy models on ranks (exec/sync), run by `mpirun -n 8`: each mode beside the serial
 * computation, the ring beside a plain sum, caches beside exact sums. What the command makes of it
 * and ranks that are killed: tests/sync.sh. */
#include <fcntl.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exec/rank/boot.h"
#include "exec/sync/sync_rank.h"
#include "tests/prop/prop.h"

enum { PS = LUO_EXCHANGE_PS, RING = LUO_EXCHANGE_ALLREDUCE, HYBRID = LUO_EXCHANGE_HYBRID };

typedef struct lab {
    int rank, nranks, checks, failed;
    char dir[64]; /* of the logs */
} lab;

static void check(lab *l, bool good, const char *what, const char *why)
{
    l->checks++;
    if (good) return;
    l->failed++;
    printf("FAIL %s: %s\n", what, why);
}

/* The ranks that a job needs run it; the others wait asleep. */
static void run(lab *l, const char *name, luo_sync_job job)
{
    MPI_Comm some;
    MPI_Request all;
    luo_err err = {0};
    const int n = luo_sync_job_ranks(&job);
    job.dir = l->dir;
    if (job.stuck_s == 30) job.stuck_s = 60; /* the machine may be busy */
    MPI_Comm_split(MPI_COMM_WORLD, l->rank < n ? 0 : MPI_UNDEFINED, l->rank, &some);
    if (l->rank < n) {
        if (luo_sync_rank_run(&job, some, &err) != LUO_OK) {
            printf("FAIL %s: rank %d: %s\n", name, l->rank, err.text);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        MPI_Comm_free(&some);
    }
    MPI_Ibarrier(MPI_COMM_WORLD, &all);
    luo_watch_all(&all, 1);
}

/* The fact of that name that ranks wrote, the largest of them and their sum; NAN: none. */
static double fact_of(const lab *l, int32_t ranks, const char *name, bool sums)
{
    double most = NAN, sum = NAN;
    for (int32_t r = 0; r < ranks; r++) {
        char path[128], line[256];
        snprintf(path, sizeof path, "%s/facts-%d.csv", l->dir, (int)r);
        FILE *f = fopen(path, "r");
        while (f && fgets(line, sizeof line, f)) {
            char *comma = strchr(line, ',');
            if (!comma) continue;
            *comma = 0;
            if (strcmp(line, name) != 0) continue;
            const double value = strtod(comma + 1, NULL);
            most = fmax(most, value);
            sum = isnan(sum) ? value : sum + value;
        }
        if (f) fclose(f);
    }
    return sums ? sum : most;
}

static double fact(const lab *l, int32_t ranks, const char *name)
{
    return fact_of(l, ranks, name, false);
}

static double total(const lab *l, int32_t ranks, const char *name)
{
    return fact_of(l, ranks, name, true);
}

static char *weights(const lab *l)
{
    char path[128];
    snprintf(path, sizeof path, "%s/weights.csv", l->dir);
    FILE *f = fopen(path, "r");
    char *text = calloc(1, 1 << 20);
    if (f && text && fread(text, 1, (1 << 20) - 1, f) == 0) text[0] = 0;
    if (f) fclose(f);
    return text;
}

/* ---- ring all-reduce = sum ---- */

/* Members are any of the ranks, numbers whole, so that the sum is exact in every order. */
static void ring_case(lab *l, luo_sync_rank *r, uint64_t seed, int32_t n, int64_t count)
{
    luo_rng rng = luo_rng_seed(seed);
    luo_err err = {0};
    int32_t member[8], members = 0;
    double *data = malloc((size_t)(count + 1) * sizeof *data);
    int wrong = 0, any;
    bool mine = false;
    for (int32_t w = 0; w < l->nranks && members < n; w++)
        if (luo_rng_pick(&rng, l->nranks - w) < n - members) member[members++] = w;
    for (int32_t i = 0; i < n; i++) mine = mine || member[i] == l->rank;
    for (int64_t i = 0; i < count; i++) data[i] = (double)((l->rank + 1) * (i + 3) % 101);
    if (mine) wrong = luo_sync_ring(r, member, n, data, count, LUO_SYNC_RING + n, &err) != LUO_OK;
    for (int64_t i = 0; mine && i < count; i++) {
        double sum = 0;
        for (int32_t m = 0; m < n; m++) sum += (double)((member[m] + 1) * (i + 3) % 101);
        wrong += data[i] != sum;
    }
    free(data);
    MPI_Allreduce(&wrong, &any, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (l->rank > 0) return;
    char what[96];
    snprintf(what, sizeof what, "ring, seed %llu, %d members, %lld numbers",
             (unsigned long long)seed, (int)n, (long long)count);
    check(l, any == 0, what, "not the sum");
}

static void rings(lab *l)
{
    luo_err err = {0};
    luo_sync_rank r = {.rank = l->rank,
                       .world = MPI_COMM_WORLD,
                       .workers = l->nranks,
                       .job = luo_sync_job_default()};
    r.job.workers = l->nranks;
    r.job.mode = LUO_LOOP_PREDUCE;
    luo_sync_job_who(&r.job, r.rank, r.who, sizeof r.who);
    if (luo_watch_open(&r.watch, r.who, 60, &err) != LUO_OK) MPI_Abort(MPI_COMM_WORLD, 1);
    LUO_PROP_FOR(seed, 3)
    {
        luo_rng rng = luo_rng_seed(seed + 77);
        for (int32_t n = 1; n <= l->nranks; n++) {
            ring_case(l, &r, seed, n, luo_rng_pick(&rng, 3 * n)); /* less than members, too */
            ring_case(l, &r, seed, n, 1000 + luo_rng_pick(&rng, 100));
        }
    }
    luo_watch_close(&r.watch);
}

/* ---- modes ---- */

static luo_sync_job job_of(luo_loop_mode mode, luo_sync_toy toy)
{
    luo_sync_job j = luo_sync_job_default();
    j.mode = mode;
    j.toy = toy;
    j.workers = 4;
    j.servers = luo_loop_mode_groups(mode) ? 0 : 2;
    j.iterations = 25;
    j.batch = 16;
    j.verify = 1;
    j.straggler = "bern:p=0.15,sleep=0.004";
    return j;
}

static void verified(lab *l, const char *name, const luo_sync_job *job)
{
    char why[96];
    run(l, name, *job);
    if (l->rank > 0) return;
    const int32_t n = luo_sync_job_ranks(job);
    const double differ = fact(l, n, "verify"), first = fact(l, n, "loss_first"),
                 last = fact(l, n, "loss_last");
    snprintf(why, sizeof why, "differs from the serial computation by %.3e", differ);
    check(l, differ <= 1e-10, name, why);
    snprintf(why, sizeof why, "loss %.6f at the start, %.6f at the end", first, last);
    check(l, last < first, name, why);
}

/* What messages carried is what core/sync/exchange.h counts of the same keys. */
static void counted(lab *l, const char *name, const luo_sync_job *job)
{
    static const char *const kinds[] = {"push", "pull", "meta", "ring"};
    const int32_t n = luo_sync_job_ranks(job);
    for (int i = 0; i < 4; i++) {
        char what[32], wanted[32], why[128];
        const bool moves = i == 3 ? job->exchange != PS : job->exchange != RING;
        snprintf(what, sizeof what, "payload_%s", kinds[i]);
        snprintf(wanted, sizeof wanted, "expected_%s", kinds[i]);
        const double has = total(l, n, what), wants = total(l, n, wanted);
        snprintf(why, sizeof why, "%s of %.0f bytes, not %.0f", what, has, wants);
        check(l, moves ? has > 0 && has == wants : isnan(has) && isnan(wants), name, why);
    }
}

/* BSP over servers = serial mini-batch descent with the sum of gradients; the gap of clocks. */
static void clocks(lab *l)
{
    static const struct {
        const char *name;
        luo_loop_mode mode;
        luo_sync_toy toy;
        int64_t staleness, shard;
        double gap; /* at most */
        int64_t how;
    } rows[] = {{"bsp softreg", LUO_LOOP_BSP, LUO_TOY_SOFTREG, 0, LUO_EXCHANGE_MOD, 1, PS},
                {"bsp wide", LUO_LOOP_BSP, LUO_TOY_WIDE, 0, LUO_EXCHANGE_RANGE, 1, PS},
                {"ssp 2 mlp", LUO_LOOP_SSP, LUO_TOY_MLP, 2, LUO_EXCHANGE_MOD, 3, PS},
                {"ssp 1 wide", LUO_LOOP_SSP, LUO_TOY_WIDE, 1, LUO_EXCHANGE_MOD, 2, PS},
                {"asp softreg", LUO_LOOP_ASP, LUO_TOY_SOFTREG, 0, LUO_EXCHANGE_MOD, 1e9, PS},
                {"asp wide_deep", LUO_LOOP_ASP, LUO_TOY_WIDE_DEEP, 0, LUO_EXCHANGE_MOD, 1e9, PS},
                {"bsp hybrid", LUO_LOOP_BSP, LUO_TOY_WIDE_DEEP, 0, LUO_EXCHANGE_RANGE, 1, HYBRID},
                {"ssp 2 hybrid", LUO_LOOP_SSP, LUO_TOY_WIDE_DEEP, 2, LUO_EXCHANGE_MOD, 1, HYBRID},
                {"asp hybrid", LUO_LOOP_ASP, LUO_TOY_WIDE_DEEP, 0, LUO_EXCHANGE_MOD, 1, HYBRID},
                {"bsp ring mlp", LUO_LOOP_BSP, LUO_TOY_MLP, 0, LUO_EXCHANGE_MOD, 0, RING},
                {"bsp ring wide", LUO_LOOP_BSP, LUO_TOY_WIDE, 0, LUO_EXCHANGE_MOD, 0, RING}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        luo_sync_job j = job_of(rows[i].mode, rows[i].toy);
        j.staleness = rows[i].staleness;
        j.shard = rows[i].shard;
        j.exchange = rows[i].how;
        if (rows[i].how == RING) j.servers = 0;
        verified(l, rows[i].name, &j);
        if (l->rank > 0) continue;
        counted(l, rows[i].name, &j);
        if (rows[i].how != RING)
            check(l, fact(l, luo_sync_job_ranks(&j), "gap") <= rows[i].gap, rows[i].name,
                  "clocks are too far apart");
    }
}

static void groups(lab *l)
{
    luo_sync_job j = job_of(LUO_LOOP_ALLREDUCE, LUO_TOY_MLP);
    verified(l, "allreduce mlp", &j);
    j = job_of(LUO_LOOP_ADPSGD, LUO_TOY_SOFTREG);
    j.workers = 5; /* odd: one is alone in each step */
    verified(l, "adpsgd softreg", &j);
    j = job_of(LUO_LOOP_PREDUCE, LUO_TOY_SOFTREG);
    j.workers = 6;
    j.max_group = 3;
    j.guard = 2;
    j.beta = 0.6;
    j.wait_s = 0.002;
    verified(l, "preduce softreg", &j);
    j.toy = LUO_TOY_MLP;
    j.comm = LUO_SYNC_CREATE;
    j.pairs = 1;
    j.adaptive = 1;
    verified(l, "preduce mlp, communicators", &j);
    j = job_of(LUO_LOOP_PREDUCE, LUO_TOY_WIDE);
    j.workers = 1;
    verified(l, "preduce wide, one worker", &j);
}

/* Iterations that a straggler makes late end elsewhere in time, and nowhere else. */
static void again(lab *l)
{
    luo_sync_job j = job_of(LUO_LOOP_BSP, LUO_TOY_SOFTREG);
    j.straggler = "none";
    run(l, "bsp once", j);
    char *once = l->rank == 0 ? weights(l) : NULL;
    j.straggler = "bern:p=0.3,sleep=0.003";
    run(l, "bsp again", j);
    char *twice = l->rank == 0 ? weights(l) : NULL;
    if (l->rank == 0)
        check(l, once && twice && strlen(once) > 1000 && strcmp(once, twice) == 0,
              "bsp with the same seed twice", "weights differ");
    free(once);
    free(twice);
}

/* Worker 0 leaves and reads all rows long before worker 1 pushes: it gets what worker 1 pushed. */
static luo_status push_late(luo_sync_rank *r, luo_err *err)
{
    enum { ROWS = 3, LATE_US = 30000 };
    uint64_t key = 1;
    int64_t count = 1, versions[ROWS];
    double rows[ROWS] = {0, 0, 0}, grad = 7;
    const luo_het_message push = {.width = 1,
                                  .push = {.n = 1, .keys = &key, .counts = &count, .grads = &grad}};
    luo_sync_client c;
    LUO_TRY(luo_sync_client_open(r, 1, &c, err));
    c.paced = true;
    if (r->rank == 0) LUO_TRY(luo_sync_client_init(&c, rows, err));
    luo_sync_barrier(r, "to finish");
    if (r->rank == 1) {
        usleep(LATE_US);
        LUO_TRY(luo_sync_client_exchange(&c, &push, err));
    }
    luo_sync_client_tell(&c, LUO_SYNC_CLOCK);
    luo_sync_client_tell(&c, LUO_SYNC_LEAVE);
    if (r->rank == 1) return LUO_OK;
    LUO_TRY(luo_sync_client_all(&c, rows, versions, err));
    luo_sync_client_tell(&c, LUO_SYNC_END);
    if (rows[0] == 0 && rows[1] == grad && rows[2] == 0) return LUO_OK;
    return luo_err_set(err, LUO_EBUG, "row 1 is %g", rows[1]);
}

static void last_push(lab *l, luo_loop_mode mode, const char *name)
{
    luo_err err = {0};
    luo_status st = LUO_OK;
    luo_sync_rank r = {.rank = l->rank,
                       .workers = 2,
                       .servers = 1,
                       .job = job_of(mode, LUO_TOY_SOFTREG),
                       .arena = luo_arena_new(1 << 12),
                       .toy = {.rows = 3, .width = 1},
                       .served = 3,
                       .facts = open("/dev/null", O_WRONLY)};
    MPI_Comm_split(MPI_COMM_WORLD, l->rank < 3 ? 0 : MPI_UNDEFINED, l->rank, &r.world);
    MPI_Comm_split(MPI_COMM_WORLD, l->rank < 2 ? 0 : MPI_UNDEFINED, l->rank, &r.workers_comm);
    r.job.verify = 0;
    r.job.workers = 2;
    r.job.servers = 1;
    if (l->rank < 3) {
        if (luo_watch_open(&r.watch, "late", 60, &err) != LUO_OK) MPI_Abort(MPI_COMM_WORLD, 1);
        st = l->rank < 2 ? push_late(&r, &err) : luo_sync_server(&r, &err);
        luo_watch_close(&r.watch);
        MPI_Comm_free(&r.world);
    }
    if (r.workers_comm != MPI_COMM_NULL) MPI_Comm_free(&r.workers_comm);
    if (l->rank == 0) check(l, st == LUO_OK, name, err.text);
    if (l->rank > 0 && st != LUO_OK) MPI_Abort(MPI_COMM_WORLD, 1);
    close(r.facts);
    luo_arena_free(r.arena);
}

/* Whole gradients: the sum is exact; reads miss no more than P + (W - 1) Q. */
static void embeds(lab *l)
{
    static const struct {
        const char *name;
        luo_sync_embed embed;
        luo_het_policy policy;
        int64_t rows, pull, push;
    } rows[] = {{"ps", LUO_SYNC_PS, LUO_HET_LRU, 0, 0, 0},
                {"het lru, exact", LUO_SYNC_HET, LUO_HET_LRU, 100, 0, 0},
                {"het lfu", LUO_SYNC_HET, LUO_HET_LFU, 150, 3, 2},
                {"het lfuopt", LUO_SYNC_HET, LUO_HET_LFUOPT, 150, 10, 5},
                {"gmp", LUO_SYNC_GMP, LUO_HET_LRU, 200, 4, 4}};
    double away[2] = {NAN, NAN}; /* of ps and gmp */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        luo_sync_job j = job_of(LUO_LOOP_ASP, LUO_TOY_WIDE);
        j.embed = rows[i].embed;
        j.policy = rows[i].policy;
        j.cache_rows = rows[i].rows;
        j.pull_bound = rows[i].pull;
        j.push_bound = rows[i].push;
        j.servers = j.embed == LUO_SYNC_HET ? 2 : 4;
        run(l, rows[i].name, j);
        if (l->rank > 0) continue;
        const int32_t n = luo_sync_job_ranks(&j);
        char why[96];
        check(l, fact(l, n, "sums_wrong") == 0, rows[i].name, "rows are not the sum of updates");
        const double missed = fact(l, n, "stale_max"),
                     bound = (double)(rows[i].pull + (j.workers - 1) * rows[i].push);
        snprintf(why, sizeof why, "a read missed %.0f updates of %.0f", missed, bound);
        check(l, missed <= bound && fact(l, n, "stale_bound") == bound, rows[i].name, why);
        check(l, fact(l, n, "loss_last") < fact(l, n, "loss_first"), rows[i].name, "loss rose");
        if (j.embed != LUO_SYNC_HET)
            away[j.embed == LUO_SYNC_GMP] = fact(l, n, "pulled_away") / fact(l, n, "asked");
    }
    if (l->rank == 0)
        check(l, away[1] < 0.8 * away[0], "gmp", "rows come from other workers' servers as often");
}

int main(void)
{
    lab l = {0};
    luo_err err;
    luo_boot *boot;
    if (luo_boot_open(&boot, &l.rank, &l.nranks, &err) != LUO_OK) return 1;
    if (l.nranks != 8) MPI_Abort(MPI_COMM_WORLD, 1);
    snprintf(l.dir, sizeof l.dir, "/tmp/luoshu-sync-XXXXXX");
    if (l.rank == 0 && !mkdtemp(l.dir)) MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Bcast(l.dir, sizeof l.dir, MPI_CHAR, 0, MPI_COMM_WORLD);
    rings(&l);
    clocks(&l);
    groups(&l);
    again(&l);
    last_push(&l, LUO_LOOP_BSP, "bsp, a push after the first worker has left");
    last_push(&l, LUO_LOOP_ASP, "asp, a push after the first worker has left");
    embeds(&l);
    if (l.rank == 0) {
        char command[96];
        snprintf(command, sizeof command, "rm -rf %s", l.dir);
        if (system(command) != 0) l.failed++;
        printf("%d%%: Checks: %d, Failures: %d, Errors: 0\n",
               100 * (l.checks - l.failed) / l.checks, l.checks, l.failed);
    }
    luo_boot_close(boot);
    return l.failed > 0;
}
