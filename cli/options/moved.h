/* moved.h: options that a verb had, or other tools have, and what says the same here. */
#ifndef LUO_CLI_OPTIONS_MOVED_H
#define LUO_CLI_OPTIONS_MOVED_H
#include <stdbool.h>
#include <stddef.h>

#include "core/base/err.h"

/* Is name[0..length) such an option of the verb? Then err says what to give instead. */
bool luo_moved_option(const char *verb, const char *name, size_t length, luo_err *err);
#endif
