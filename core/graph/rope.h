/* rope.h: how fast rotary positions turn, where they are stretched to longer sequences. */
#ifndef LUO_CORE_GRAPH_ROPE_H
#define LUO_CORE_GRAPH_ROPE_H
#include "core/graph/model.h"
#include "core/graph/turns.h"

/* Pairs of a head that turn. */
int64_t luo_rope_pairs(const luo_model *model);
/* Do they turn by the base alone? So they do up to the longest sequence with kind dynamic. */
bool luo_rope_is_plain(const luo_model *model);
/* Radians of each pair, [luo_rope_pairs]. Pre: kind plain, dynamic, linear, llama3 or yarn. Source:
 * Chen et al., arXiv 2306.15595 (linear); Grattafiori et al. 2024 and the code of Llama 3.1
 * (llama3); Peng et al., arXiv 2309.00071, section 3 (yarn). See: tests/unit/check_rope.c */
void luo_rope_frequencies(const luo_model *model, double *out);
/* Factor of sines and cosines: yarn sharpens the softmax by it. */
double luo_rope_factor(const luo_model *model);
#endif
