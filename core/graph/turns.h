/* turns.h: what kernels turn rotary positions by; read by C++ as well. */
#ifndef LUO_CORE_GRAPH_TURNS_H
#define LUO_CORE_GRAPH_TURNS_H

/* Of a head of d elements the first `turned` turn (0: all of them), pair i of which are elements i
 * and i + turned / 2, by frequency[i] radians a position, base^(-2i/turned) where it is NULL; sines
 * and cosines are multiplied by factor (0: 1). */
typedef struct luo_turns {
    double base;
    const double *frequency;
    double factor;
    int turned;
} luo_turns;
#endif
