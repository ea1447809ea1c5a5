/* hap_network.h: networks that are no model of a file: those that HAP was published with, as graphs
 * for its planner. Nothing trains them here. */
#ifndef LUO_CORE_PLAN_HAP_GRAPH_HAP_NETWORK_H
#define LUO_CORE_PLAN_HAP_GRAPH_HAP_NETWORK_H
#include "core/base/words.h"
#include "core/plan/hap_graph/hap_graph.h"

#define LUO_HAP_NETWORK_LIST(X)                                                                    \
    X(LUO_HAP_VGG19, "vgg19")                                                                      \
    X(LUO_HAP_VIT, "vit")                                                                          \
    X(LUO_HAP_BERT_BASE, "bert-base")                                                              \
    X(LUO_HAP_BERT_MOE, "bert-moe")
typedef enum luo_hap_network {
    LUO_HAP_NETWORK_LIST(LUO_WORD_VALUE) LUO_HAP_NETWORKS
} luo_hap_network;

const char *const *luo_hap_network_names(void); /* LUO_HAP_NETWORKS of them */
/* The network for a step of so many samples, in f32; bert-moe has two experts for each device.
 * Pre: samples, devices >= 1. Owner: arena. NULL or a failed graph: out of memory. */
luo_hap_graph *luo_hap_network_graph(luo_arena *arena, luo_hap_network network, int64_t samples,
                                     int32_t devices);

typedef struct luo_hap_encoder { /* sizes; experts 0: none */
    int64_t batch, tokens, width, heads, feed_forward, words, experts, capacity;
} luo_hap_encoder;
/* Words, positions, blocks, a head with biases; every second block with experts where there are
 * any. */
luo_hap_graph *luo_hap_network_bert(luo_arena *arena, const luo_hap_encoder *sizes, int32_t blocks);
#endif
