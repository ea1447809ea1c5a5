/* shard.c: ZeRO-2 and 3 train like one device, in f64: random plans whose pipelines have
 * equal borders, with tensor-parallel groups, shares and lengths of their own, under every depth of
 * prefetch, bucket rule and number of lanes (docs/architecture/tests.md, test 2). A checkpoint of
 * one plan goes on under another by tests/mpi/accept.h's switches, which are run here between zero
 * 0..3, too. */
#include "tests/mpi/accept.h"
#include "exec/host/job.h"

static const row fixed[] = {
    {.line = "2: [0]*2 || 2: [1]*2", .model = LLAMA, .zero = 3},
    {.line = "1: [0]*4 || 1: [1]*4 || 1: [2]*4 || 1: [3]*4", .model = GPT, .zero = 3},
    {.line = "2: [0]*3 || 2: [1]*3", .model = GPT, .zero = 3, .tied = true},
    {.line = "2: [0]*3 || 2: [1]*3", .model = LLAMA, .zero = 2, .tied = true, .mib = 0.01},
    {.line = "3: [0]*3", .model = LLAMA, .zero = 3},
    {.line = "3: [0,1]*3", .model = LLAMA, .zero = 3, .sp = 1},
    {.line = "2: [0,1]*2 [2]*1 || 2: [3]*2 [4,5]*1", .model = LLAMA, .zero = 3, .sp = 1},
    {.line = "2: [0,1]:(3,1)*2 || 2: [2,3]*2 || 2: [4]*2", .model = LLAMA, .zero = 3},
    {.line = "2: [0,1]:(3,1)*2 || 2: [2,3]*2 || 2: [4]*2", .model = LLAMA, .zero = 2},
    {.line = "3: [0]*2 [1]*2 || 3: [2]*2 [3]*2", .model = QKNORM, .zero = 2, .recompute = 2},
    {.line = "3: [0]*2 [1]*2 || 3: [2]*2 [3]*2", .model = GPT, .zero = 3, .recompute = 2,
     .untied = true},
    {.line = "3: [0]*2 [1]*2 || 3: [2]*2 [3]*2", .model = GPT, .zero = 3, .order = 1,
     .untied = true},
    {.line = "3: [0]*2 || 3: [1]*2", .model = LLAMA, .zero = 3, .tokens = {16, 8, 12}},
    {.line = "2: [0]*2 || 2: [1]*2 || 2: [2]*2 || 2: [3]*2", .model = LLAMA, .zero = 3,
     .sharding = {.kind = LUO_SHARD_HYBRID, .pipelines = 2}},
    {.line = "2: [0,1]*2 || 2: [2,3]*2 || 2: [4,5]*2 || 2: [6,7]*2", .model = GPT, .zero = 3,
     .tied = true, .sharding = {.kind = LUO_SHARD_HYBRID, .pipelines = 2}},
    {.line = "2: [0,1]*2 || 2: [2,3]*2 || 2: [4,5]*2 || 2: [6,7]*2", .model = GPT, .zero = 3,
     .sp = 1, .sharding = {.kind = LUO_SHARD_HYBRID, .pipelines = 2}},
    {.line = "2: [0,1]*2 || 2: [2,3]*2 || 2: [4,5]*2", .model = QKNORM, .zero = 3,
     .sharding = {.kind = LUO_SHARD_HYBRID, .pipelines = 1}},
    {.line = "2: [0]*3 [1]*1 || 2: [2]*3 [3]*1 || 3: [4]*1 [5]*3 || 3: [6]*1 [7]*3",
     .model = LLAMA, .zero = 3, .sharding = {.kind = LUO_SHARD_HYBRID, .pipelines = 2}},
    {.line = "1: [0]*2 || 1: [1]*2 || 1: [2,3]:(3,1)*2 || 1: [4,5]:(3,1)*2", .model = LLAMA,
     .zero = 3, .mib = 0.01, .sharding = {.kind = LUO_SHARD_HYBRID, .pipelines = 2}},
    {.line = "2: [0]*2 || 2: [1,2]*2", .model = QKNORM, .zero = 3,
     .sharding = {.kind = LUO_SHARD_HYBRID, .pipelines = 1}},
    {.line = "2: [0,1]*2 || 2: [2-5]*2", .model = QKNORM, .zero = 3,
     .sharding = {.kind = LUO_SHARD_HYBRID, .pipelines = 1}},
    /* a table tied over two stages */
    {.line = "3: [0]*2 [1]*2 || 3: [2]*2 [3]*2", .model = GPT, .zero = 2, .tied = true},
    {.line = "3: [0]*2 [1]*2 || 3: [2]*2 [3]*2", .model = GPT, .zero = 3, .tied = true,
     .recompute = 2},
    {.line = "2: [0]*1 [1]*1", .model = LLAMA, .zero = 3, .tied = true},
    {.line = "2: [0,1]:(3,1)*1 [2]*1 || 2: [3]*1 [4,5]*1 || 2: [6]*1 [7]*1", .model = LLAMA,
     .zero = 3, .sp = 1, .tied = true},
    {.line = "2: [0,1]:(3,1)*1 [2]*1 || 2: [3]*1 [4,5]*1 || 2: [6]*1 [7]*1", .model = GPT,
     .zero = 2, .tied = true, .mib = 25},
    {.line = "2: [0]*1+1 [1]*1+1 || 2: [2]*1+1 [3]*1+1", .model = GPT, .zero = 3, .tied = true},
    {.line = "4: [0]*1 [1]*1 [2]*1 || 4: [3]*1 [4]*1 [5]*1", .model = GPT, .zero = 3, .tied = true,
     .order = 1, .sharding = {.kind = LUO_SHARD_GRAD_OP}},
    {.line = "2: [0]*1 [1]*1 || 2: [2]*1 [3]*1 || 2: [4]*1 [5]*1 || 2: [6]*1 [7]*1",
     .model = LLAMA, .zero = 3, .tied = true, .sharding = {.kind = LUO_SHARD_HYBRID,
                                                           .pipelines = 2}},
    {.line = "2: [0]*3 || 2: [1]*3 || 3: [2]*1 [3]*2 || 3: [4]*1 [5]*2", .model = GPT, .zero = 3,
     .tied = true, .sharding = {.kind = LUO_SHARD_HYBRID, .pipelines = 2}},
    /* feed-forward alone */
    {.line = "2: [0]*2 || 2: [1]*2", .model = MLP_BIASED, .zero = 3},
    {.line = "2: [0,1]:(3,1)*2 || 2: [2,3]*2 || 2: [4]*2", .model = MLP_GATED, .zero = 2},
    {.line = "3: [0,1]*2 [2]*1 || 3: [3]*2 [4,5]*1", .model = MLP_GATED_BIASED, .zero = 3, .sp = 1,
     .tied = true, .recompute = 2},
    {.line = "2: [0,1]*2 || 2: [2,3]*2 || 2: [4,5]*2 || 2: [6,7]*2", .model = MLP, .zero = 3,
     .sharding = {.kind = LUO_SHARD_HYBRID, .pipelines = 2}},
};

/* Equal borders and micro-batches; everything else is each pipeline's own. */
static void random_shard(luo_rng *rng, row *r, char *line, size_t size, bool mlp)
{
    static const double caps[] = {0, 0.01, 25};
    const int layers = 2 + (int)luo_rng_pick(rng, 3), pipes = 1 + (int)luo_rng_pick(rng, 4);
    const int stages = 1 + (int)luo_rng_pick(rng, 8 / pipes < 3 ? 8 / pipes : 3);
    const int batches = 1 + (int)luo_rng_pick(rng, 3);
    int take[3] = {0}, left = layers, next = 0;
    size_t n = 0;
    *r = (row){.line = line, .model = mlp ? random_mlp(rng) : (kind)luo_rng_pick(rng, KINDS),
               .zero = 2 + (luo_rng_pick(rng, 3) > 0), .sp = (int)luo_rng_pick(rng, 2),
               .recompute = (int)luo_rng_pick(rng, 3), .order = luo_rng_pick(rng, 4) == 0,
               .sequences = luo_rng_pick(rng, 4) == 0 ? 2 : 1,
               .mib = caps[luo_rng_pick(rng, 3)], .tied = luo_rng_pick(rng, 3) == 0};
    if (r->zero == 3) r->sharding = (luo_sharding){.has_depth = true,
                                                   .depth = (int32_t)luo_rng_pick(rng, 4)};
    if (r->zero == 3 && luo_rng_pick(rng, 4) == 0) r->sharding.kind = LUO_SHARD_GRAD_OP;
    const bool hybrid = r->zero == 3 && pipes > 1 && luo_rng_pick(rng, 2);
    if (hybrid) r->sharding = (luo_sharding){.kind = LUO_SHARD_HYBRID,
                                             .pipelines = pipes == 3 ? 1 : pipes / 2};
    if (hybrid && r->model == QKNORM) r->sp = 1; /* groups of one beside others are refused else */
    bool cut[3] = {false, false, false};
    int wide[3] = {0, 0, 0};
    for (int s = 0; s < stages; s++) {
        take[s] = s == stages - 1 ? left : (int)luo_rng_pick(rng, left + 1);
        left -= take[s];
    }
    r->untied = !r->tied && stages > 1 && luo_rng_pick(rng, 2);
    for (int p = 0; p < pipes; p++) {
        n += (size_t)snprintf(line + n, size - n, "%s%d:", p ? " || " : "", batches);
        for (int s = 0; s < stages; s++) {
            const int after = (pipes - p) * stages - s - 1; /* stages that need a device, too */
            int tp = 1 << luo_rng_pick(rng, 3);
            while (next + tp > 8 - after || (hybrid && tp * pipes * stages > 8)) tp /= 2;
            bool uneven = tp == 2 && r->model != GROUPED && luo_rng_pick(rng, 3) == 0;
            if (hybrid && p % r->sharding.pipelines) tp = wide[s], uneven = cut[s];
            wide[s] = tp;
            cut[s] = uneven;
            n += (size_t)snprintf(line + n, size - n, " [%d-%d]%s*%d", next, next + tp - 1,
                                  uneven ? ":(3,1)" : "", take[s]);
            next += tp;
        }
    }
}

static int groups_of(const luo_exec *x)
{
    int n = 0;
    for (const host_group *g = x->groups; g; g = g->next) n++;
    return n;
}

static const pair_row moves[] = { /* 6 micro-batches a step */
    {"3: [0]*2 || 3: [1]*2", "2: [0,1]*1 [2]*1 || 4: [3]*1 [4]*1", LLAMA, 3, 1},
    {"4: [0,1]*2 || 2: [2]*2", "2: [0]*2 || 2: [1]*2 || 2: [2]*2", LLAMA, 0, 3},
    {"3: [0]*3 || 3: [1]*3", "2: [0]*3 || 2: [1]*3 || 2: [2,3]*3", GROUPED, 2, 3},
    {"3: [0]*1 [1]*2 || 3: [2]*1 [3]*2", "6: [0]*2 [2]*1", GPT, 3, 2}, /* a tied table */
    {"6: [4,5]*3", "3: [0]*1 [1]*2 || 3: [2]*1 [3]*2", GPT, 0, 3},
};

int main(int argc, char **argv)
{
    luo_lab lab;
    int failed = 0, checks = 0;
    luo_lab_open(&lab, &argc, &argv);
    luo_lab_need(&lab, "shard", 8);
    const char *only = getenv("LUO_ROW");
    for (int i = 0; i < (int)(sizeof fixed / sizeof *fixed); i++) {
        if (only ? atoi(only) != i : !luo_prop_whole() && i % 3) continue;
        failed += !run_row(&lab, &fixed[i], LUO_F64);
        checks++;
    }
    for (int i = 0; !only && i < (int)(sizeof moves / sizeof *moves); i++) {
        failed += !run_switch(&lab, &moves[i], LUO_F64, groups_of);
        checks++;
    }
    static const int32_t lanes[] = {0, 1, 2, 4}; /* 0: as many as by default */
    const uint64_t cases = only ? 0 : luo_prop_few(6, 40) * luo_prop_env("LUO_SCALE", 1);
    if (lab.rank == 0)
        printf("seeds %llu..%llu\n", (unsigned long long)luo_prop_first(),
               (unsigned long long)(luo_prop_first() + cases - 1));
    for (uint64_t k = 0; k < 2 * cases; k++) { /* then of layers without attention */
        char line[256];
        row r;
        luo_rng rng = luo_rng_seed(luo_prop_first() + k % cases);
        random_shard(&rng, &r, line, sizeof line, k >= cases);
        trial_lanes = lanes[luo_rng_pick(&rng, 4)];
        const bool good = run_row(&lab, &r, LUO_F64);
        if (!good && lab.rank == 0)
            printf("seed %llu: model %d zero %d shard %s depth %d sp %d recompute %d gpipe %d "
                   "mib %g lanes %d tied %d\n",
                   (unsigned long long)(luo_prop_first() + k % cases), (int)r.model, r.zero,
                   luo_shard_name(r.sharding.kind), (int)r.sharding.depth, r.sp, r.recompute,
                   r.order, r.mib, (int)trial_lanes, r.tied);
        failed += !good;
        checks++;
    }
    if (lab.rank == 0)
        printf("%d%%: Checks: %d, Failures: %d, Errors: 0; largest error %.3g\n",
               100 * (checks - failed) / checks, checks, failed, largest_error);
    luo_lab_close(&lab);
    return failed > 0;
}
