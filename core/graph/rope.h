/* rope.h: how fast rotary positions turn, where they are stretched to longer sequences. */
#ifndef LUO_CORE_GRAPH_ROPE_H
#define LUO_CORE_GRAPH_ROPE_H
#include "core/graph/model.h"
#include "core/graph/turns.h"

/* Pairs of a head that turn. */
int64_t luo_rope_pairs(const luo_model *model);
/* What a layer turns by on sequences of so many tokens. room: luo_rope_pairs numbers, to which
 * frequency points where pairs do not turn by the base alone; so they do up to the longest sequence
 * with kind dynamic, and where a layer with a window has a base of its own. Pre: longrope has its
 * factors. Source: Chen et al., arXiv 2306.15595 (linear); Grattafiori et al. 2024 and the code of
 * Llama 3.1 (llama3); Peng et al., arXiv 2309.00071, section 3 (yarn); Ding et al., arXiv
 * 2402.13753, and transformers, modeling_rope_utils.py (longrope); Gemma Team, arXiv 2503.19786
 * (two bases). See: tests/unit/check_rope.c */
luo_turns luo_rope_turns(const luo_model *model, int64_t layer, int64_t tokens, double *room);
#endif
