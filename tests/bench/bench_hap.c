/* bench_hap.c: the planner `hap`: triples and one search, with their numbers; a whole alternation
 * on many devices of four types. Wanted on one core: 48 layers of BERT in 1 s, VGG19 and ViT in 0.5
 * s, the alternation in 4 s. */
#include "core/plan/hap/alternate.h"
#include "tests/bench/bench.h"
#include "tests/parked/hap_graphs.h"

enum { TIMES = 5 };

typedef struct row {
    const char *model, *set;
    int32_t blocks;
} row;

static void search(const row *r)
{
    double s[TIMES];
    luo_hap_space *space = NULL;
    luo_hap_program *program = NULL;
    for (int i = 0; i < TIMES; i++) {
        luo_arena *a = luo_arena_new(1 << 20);
        const luo_hap_numbers numbers = luo_hap_graphs_set(r->set);
        const luo_hap_graph *graph =
            luo_hap_graphs_named(a, r->model, luo_hap_numbers_devices(&numbers), r->blocks);
        const luo_hap_opts opts = {.factors = true};
        double shares[2];
        luo_hap_start_shares(graph, &numbers, LUO_HAP_START_PROP, false, shares);
        const double start = luo_bench_now();
        if (luo_hap_space_new(a, graph, &opts, &space, NULL) != LUO_OK ||
            luo_hap_synth(a, space, &numbers, shares, 0, &program, NULL) != LUO_OK)
            luo_bench_fail("no program of %s", r->model);
        s[i] = luo_bench_now() - start;
        if (i == 0)
            printf("hap_%s_%d_triples %d 1\nhap_%s_%d_states %lld 1\nhap_%s_%d_pops %lld 1\n",
                   r->model, r->blocks, space->ntriples, r->model, r->blocks,
                   (long long)program->states, r->model, r->blocks, (long long)program->pops);
        luo_arena_free(a);
    }
    printf("hap_%s_%d_search %.6f s\n", r->model, r->blocks, luo_bench_median(s, TIMES));
}

/* 512 devices of four speeds. */
static void alternation(void)
{
    luo_arena *a = luo_arena_new(1 << 20);
    luo_hap_numbers numbers = luo_hap_graphs_set("H64");
    const luo_hap_job job = {.opts = {.factors = true}, .no_memory = true};
    luo_hap_result *result;
    numbers.ntypes = 4;
    for (int32_t t = 0; t < numbers.ntypes; t++) {
        static const char *const names[] = {"a", "b", "c", "d"};
        numbers.name[t] = names[t];
        numbers.count[t] = 128;
        for (int32_t c = 0; c < LUO_HAP_CLASSES; c++)
            numbers.speed[t][c] = numbers.speed[0][c] / (t + 1);
    }
    const luo_hap_graph *graph = luo_hap_graphs_named(a, "bert-base", 512, 96);
    const double start = luo_bench_now();
    if (luo_hap_alternate(a, graph, &numbers, &job, &result, NULL) != LUO_OK)
        luo_bench_fail("no program of bert-base");
    printf("hap_bert-base_96_alternation %.6f s\nhap_bert-base_96_rounds %d 1\n",
           luo_bench_now() - start, result->rounds);
    luo_arena_free(a);
}

int main(void)
{
    static const row rows[] = {
        {"bert-base", "H64", 48}, {"vgg19", "H29", 0}, {"vit", "H29", 0}, {"bert-moe", "H64", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) search(&rows[i]);
    alternation();
    return 0;
}
