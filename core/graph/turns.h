/* turns.h: what kernels turn rotary positions by; read by C++ as well. */
#ifndef LUO_CORE_GRAPH_TURNS_H
#define LUO_CORE_GRAPH_TURNS_H

/* Pair i of d elements turns by frequency[i] radians a position, base^(-2i/d) where it is NULL;
 * sines and cosines are multiplied by factor (0: 1). */
typedef struct luo_turns {
    double base;
    const double *frequency;
    double factor;
} luo_turns;
#endif
