/* program_parse.h: the reader of the text form of programs (core/graph/program/program_text.c
 * writes it): print, parse, print is the identity. */
#ifndef LUO_TESTS_PARKED_PROGRAM_PARSE_H
#define LUO_TESTS_PARKED_PROGRAM_PARSE_H
#include "core/graph/program/program.h"

/* Errors: LUO_EPARSE with line and column; LUO_ENOMEM. Exchanges are not part of the text.
 * Owner: *out belongs to arena. */
luo_status luo_program_parse(luo_arena *arena, const char *text, luo_programs **out, luo_err *err);
#endif
