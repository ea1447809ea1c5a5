/* hap_graphs.h: graphs and numbers that tests of the planner `hap` are written on.
 *
 * Goldens hang on exactly these operations. Bandwidths of the sets are those that the authors of
 * HAP measured, and speeds two thirds of theirs, as 6 operations are counted here where they count
 * 9 (repository alibaba/hap: worker.py, config.py). */
#ifndef LUO_TESTS_PARKED_HAP_GRAPHS_H
#define LUO_TESTS_PARKED_HAP_GRAPHS_H
#include "core/plan/hap/numbers.h"
#include "core/plan/hap_graph/hap_network.h"

/* Linear layers of widths d[0..layers], relu between them, a summed cross-entropy. conv_first: the
 * first is of class conv, and relu is left out. */
typedef struct luo_hap_mlp_in {
    int64_t batch;
    int32_t layers;
    int64_t d[8];
    bool biases, no_relu, conv_first;
} luo_hap_mlp_in;
luo_hap_graph *luo_hap_graphs_mlp(luo_arena *arena, const luo_hap_mlp_in *in);
/* The published networks by name, for n devices of 32 samples each; blocks: of a BERT, 0: the
 * network as it is. */
luo_hap_graph *luo_hap_graphs_named(luo_arena *arena, const char *name, int32_t n, int32_t blocks);
/* Two types of so many devices, one speed for gemm, conv and attention, one for elt (0: free), and
 * the bandwidths of ag, rs and p2p (one), ar, a2a; no grouped forms, no latency. */
luo_hap_numbers luo_hap_graphs_toy(const int32_t *count, const double *speed, double elt_factor,
                                   double ag, double ar, double a2a);
/* "H8", "H29", "H64", "H4". */
luo_hap_numbers luo_hap_graphs_set(const char *name);
#endif
