/* cli/build_info.c: how this command was built; the Makefile defines the two macros. */
#include "cli/build_info.h"

const char *const luo_build_git = LUO_GIT;
const char *const luo_build_flags = LUO_FLAGS;
#ifdef __clang__
const char *const luo_build_compiler = "clang " __clang_version__;
#else
const char *const luo_build_compiler = "gcc " __VERSION__;
#endif
