/* program_text.h: names in the text form of programs, shared by writer and reader. */
#ifndef LUO_CORE_GRAPH_PROGRAM_PROGRAM_TEXT_H
#define LUO_CORE_GRAPH_PROGRAM_PROGRAM_TEXT_H
#include "core/graph/program/program.h"

enum { LUO_COST_NAMES = LUO_COST_GROUPED + 1, LUO_CLASS_NAMES = LUO_BUFFER_COMM + 1 };
extern const char *const luo_cost_names[LUO_COST_NAMES];
extern const char *const luo_class_names[LUO_CLASS_NAMES];
#endif
