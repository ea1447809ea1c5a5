/* validate_kit.c: profiles and stacks of published rows: from --profile-dir, or built in. */
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "cli/validate/validate.h"
#include "core/io/builtin.h"
#include "core/io/read/read.h"

/* DIR/NAME.yaml, DIR/stacks/NAME.yaml, or the built-in one; NULL: none. */
const char *luo_kit_path(const luo_kit *kit, const char *builtin, const char *name)
{
    char text[LUO_ERR_PATH];
    static const char *const inside[] = {"", "stacks/"};
    for (int i = 0; kit->folder && i < 2; i++) {
        const char *path =
            luo_arena_printf(kit->cli->arena, "%s/%s%s.yaml", kit->folder, inside[i], name);
        if (path && access(path, R_OK) == 0) return path;
    }
    if (!luo_builtin_path(builtin, name, text, sizeof text)) return NULL;
    return name;
}

/* The first error of reading becomes err. */
static luo_err *first_error(const luo_diags *diags, luo_err *err)
{
    for (const luo_diag *at = diags->first; at; at = at->next)
        if (at->severity == LUO_ERROR) {
            *err = at->err;
            return err;
        }
    luo_err_nomem(err);
    return err;
}

static bool is_tf32(const luo_suite_row *row)
{
    return strcmp(row->precision, "tf32") == 0;
}

/* tf32 has the bytes of f32, whose peak its own takes the place of. */
static luo_status take_tf32(luo_profile *profile, luo_err *err)
{
    double peak;
    if (!luo_profile_value(profile, "peak_tf32_tflop_per_s", &peak))
        return luo_err_set(err, LUO_EINPUT,
                           "profile `%s` has no value `peak_tf32_tflop_per_s` (not known in any "
                           "source); measure it with `luoshu calibrate`.",
                           profile->name);
    profile->peak_flops[LUO_F32] = peak * 1e12;
    return LUO_OK;
}

/* GPU-SYSTEM-SUITE and GPU-SYSTEM go before GPU: what that software reaches on it. In a pool a GPU
 * has one profile. */
static const char *profile_path(luo_kit *kit, const luo_suite_row *row, const char **name)
{
    const char *gpu = *name;
    for (int i = 0; i < 2 && !kit->pooled; i++) {
        *name = luo_arena_printf(kit->cli->arena, "%s-%s%s%s", gpu, luo_suite_software(row),
                                 i == 0 ? "-" : "", i == 0 ? row->suite : "");
        const char *path = *name ? luo_kit_path(kit, LUO_BUILTIN_PROFILES, *name) : NULL;
        if (path) return path;
    }
    *name = gpu;
    return luo_kit_path(kit, LUO_BUILTIN_PROFILES, gpu);
}

static luo_profile *find_profile(void *ctx, const luo_suite_row *row, const char *name,
                                 luo_err *err)
{
    luo_kit *kit = ctx;
    luo_diags diags;
    luo_profile *profile = NULL;
    const char *path = profile_path(kit, row, &name);
    const bool tf32 = is_tf32(row);
    for (int32_t i = 0; i < kit->nprofiles; i++)
        if (strcmp(kit->profiles[i].name, name) == 0 && kit->profiles[i].tf32 == tf32)
            return kit->profiles[i].at;
    const size_t n = (size_t)kit->nprofiles;
    if (!path) {
        luo_err_set(err, LUO_EINPUT, "there is no profile `%s`; `luoshu help profiles` lists them.",
                    name);
        return NULL;
    }
    luo_diags_init(&diags, kit->cli->arena);
    kit->profiles = luo_arena_grow(kit->cli->arena, kit->profiles, n * sizeof *kit->profiles,
                                   (n + 1) * sizeof *kit->profiles);
    if (!kit->profiles || luo_read_profile(kit->cli->arena, path, &profile, &diags) != LUO_OK) {
        first_error(&diags, err);
        return NULL;
    }
    if (tf32 && take_tf32(profile, err) != LUO_OK) return NULL;
    kit->profiles[kit->nprofiles++] = (struct luo_kit_profile){name, path, tf32, profile};
    return profile;
}

/* SYSTEM-SUITE and SYSTEM-GPU go before SYSTEM: the same software at another site, on another GPU.
 */
static const char *stack_path(luo_kit *kit, const luo_suite_row *row, const char **name)
{
    const luo_suite_gpu *gpu = luo_suite_gpu_of(row->gpu);
    const char *of[] = {row->suite, gpu ? gpu->profile : row->gpu};
    for (int i = 0; i < 2; i++) {
        *name = luo_arena_printf(kit->cli->arena, "%s-%s", luo_suite_software(row), of[i]);
        const char *path = *name ? luo_kit_path(kit, LUO_BUILTIN_STACKS, *name) : NULL;
        if (path) return path;
    }
    *name = luo_suite_software(row);
    return luo_kit_path(kit, LUO_BUILTIN_STACKS, *name);
}

/* FSDP reduces in the dtype that the row names. */
static double grad_bytes(const luo_suite_row *row)
{
    if (strstr(row->note, "reduction in fp32")) return 4;
    return strstr(row->note, "reduction in bf16") ? 2 : 0;
}

/* The recipe of a row in fp8: torchao's float8 and NeMo of 2025 look at each tensor (FP8-CS);
 * Transformer Engine had delayed scaling alone until then. */
static luo_fp8_recipe recipe_of(const luo_suite_row *row)
{
    if (strcmp(row->precision, "fp8") != 0) return LUO_FP8_NONE;
    if (strstr(row->note, "FP8-MX")) return LUO_FP8_BLOCKWISE;
    const bool current = strstr(row->note, "float8") || strcmp(row->suite, "nemo") == 0;
    return current ? LUO_FP8_CURRENT : LUO_FP8_DELAYED;
}

/* In a pool a software has these constants of its own file, wherever it ran; what a site's file
 * says of its switches, of user buffers, of its attention kernels and of memory stays. */
static const size_t pooled_values[] = {
    offsetof(luo_stack, host_launch_s),   offsetof(luo_stack, host_exponent),
    offsetof(luo_stack, busbw_factor),    offsetof(luo_stack, gemm_ratio),
    offsetof(luo_stack, attention_ratio), offsetof(luo_stack, scale_jitter),
    offsetof(luo_stack, optimizer_bytes),
};

static luo_status take_pooled_values(luo_kit *kit, const char *system, luo_stack *out, luo_err *err)
{
    luo_stack of_system;
    luo_diags diags;
    const char *path = luo_kit_path(kit, LUO_BUILTIN_STACKS, system);
    luo_diags_init(&diags, kit->cli->arena);
    if (!path) return LUO_OK;
    if (luo_read_stack(kit->cli->arena, path, &of_system, &diags) != LUO_OK) {
        first_error(&diags, err);
        return err->st;
    }
    const double attention = out->attention_ratio;
    for (size_t i = 0; i < sizeof pooled_values / sizeof *pooled_values; i++)
        memcpy((char *)out + pooled_values[i], (const char *)&of_system + pooled_values[i],
               sizeof(double));
    if (luo_stack_given(out, "attention_ratio")) out->attention_ratio = attention;
    return LUO_OK;
}

static luo_stack *find_stack(void *ctx, const luo_suite_row *row, luo_err *err)
{
    luo_kit *kit = ctx;
    luo_diags diags;
    const char *name, *path = stack_path(kit, row, &name);
    const double bytes = grad_bytes(row);
    const luo_fp8_recipe recipe = recipe_of(row);
    const size_t n = (size_t)kit->nstacks;
    if (!path) {
        luo_err_set(err, LUO_EUNSUP, "there is no stack `%s`; `luoshu help profiles` lists them.",
                    luo_suite_software(row));
        return NULL;
    }
    for (int32_t i = 0; i < kit->nstacks; i++)
        if (strcmp(kit->stacks[i].name, name) == 0 && kit->stacks[i].grad_bytes == bytes &&
            kit->stacks[i].at->fp8_recipe == recipe)
            return kit->stacks[i].at;
    luo_stack *stack = LUO_NEW(kit->cli->arena, luo_stack);
    luo_diags_init(&diags, kit->cli->arena);
    kit->stacks = luo_arena_grow(kit->cli->arena, kit->stacks, n * sizeof *kit->stacks,
                                 (n + 1) * sizeof *kit->stacks);
    if (!stack || !kit->stacks || luo_read_stack(kit->cli->arena, path, stack, &diags) != LUO_OK) {
        first_error(&diags, err);
        return NULL;
    }
    if (bytes > 0) stack->grad_comm_bytes = bytes;
    stack->fp8_recipe = recipe;
    if (kit->pooled && strcmp(name, luo_suite_software(row)) != 0 &&
        take_pooled_values(kit, luo_suite_software(row), stack, err) != LUO_OK)
        return NULL;
    kit->stacks[kit->nstacks++] =
        (struct luo_kit_stack){name, path, luo_suite_software(row), bytes, stack};
    return stack;
}

void luo_kit_open(luo_cli *cli, const char *folder, const luo_layer_times *layers, bool pooled,
                  luo_kit *out)
{
    *out = (luo_kit){.cli = cli, .folder = folder, .pooled = pooled};
    out->as = (luo_suite_kit){find_profile, find_stack, layers, out};
}

/* ---- a pool ---- */

luo_status luo_kit_add_types(luo_kit *kit, luo_err *err)
{
    luo_str names = {0};
    luo_builtin_names(LUO_BUILTIN_PROFILES, &names);
    const luo_suite_row row = {.precision = "bf16", .system = "", .suite = ""};
    luo_status st = names.failed ? luo_err_nomem(err) : LUO_OK;
    for (const char *at = luo_str_get(&names); st == LUO_OK && *at;) {
        const size_t n = strcspn(at, " ");
        const char *name = luo_arena_strndup(kit->cli->arena, at, n);
        if (!name)
            st = luo_err_nomem(err);
        else if (luo_effects_architecture(name) && !find_profile(kit, &row, name, err))
            st = err->st;
        at += n + (at[n] == ' ');
    }
    luo_str_free(&names);
    return st;
}

luo_status luo_kit_pool(luo_kit *kit, const luo_case *const *fit, int32_t nfit,
                        const luo_case *const *left, int32_t nleft, luo_suite_effects_result *out,
                        luo_err *err)
{
    luo_effects_gpu *gpus = LUO_NEW_N(kit->cli->arena, luo_effects_gpu, kit->nprofiles + 1);
    luo_effects_software *software =
        LUO_NEW_N(kit->cli->arena, luo_effects_software, kit->nstacks + 1);
    if (!gpus || !software) return luo_err_nomem(err);
    for (int32_t i = 0; i < kit->nprofiles; i++)
        gpus[i] = (luo_effects_gpu){kit->profiles[i].name, kit->profiles[i].at};
    for (int32_t i = 0; i < kit->nstacks; i++)
        software[i] = (luo_effects_software){kit->stacks[i].system, kit->stacks[i].at};
    const luo_suite_effects all = {fit,  left,  gpus,           software,
                                   nfit, nleft, kit->nprofiles, kit->nstacks};
    return luo_suite_effects_fit(kit->cli->arena, &all, out, err);
}
