/* build_info.h: facts of the build, for `luoshu version` and the manifest. */
#ifndef LUO_CLI_BUILD_INFO_H
#define LUO_CLI_BUILD_INFO_H
extern const char *const luo_build_git, *const luo_build_flags, *const luo_build_compiler;
/* GPU code that was made ("sm_80 sm_90 compute_90"), or "" and what was lacking ("no nvcc"). */
extern const char *const luo_build_cuda, *const luo_build_no_cuda;
#endif
