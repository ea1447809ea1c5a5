/* build_info.c: how this command was built; the Makefile defines the macros. */
#include "cli/build_info.h"

const char *const luo_build_git = LUO_GIT;
const char *const luo_build_flags = LUO_FLAGS;
const char *const luo_build_cuda = LUO_CUDA;
const char *const luo_build_no_cuda = LUO_NO_CUDA;
#ifdef __clang__
const char *const luo_build_compiler = "clang " __clang_version__;
#else
const char *const luo_build_compiler = "gcc " __VERSION__;
#endif
